//! Contradictions in what a host says. Its word stands, as everywhere; but whoever embeds a store wants to hear of
//! them.
use super::nodes::Nodes;
use super::process_map::Twice;
use crate::printable;

/// Two things that a host has said of a job and that cannot both be true. Everything was stored as it was said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// The process map, or the placement, has more nodes than the node map has names.
    #[error("ranks are on {nodes} nodes by the process map, the node map has {names}")]
    NamelessNodes {
        /// Nodes of the process map.
        nodes: u32,
        /// Names in the node map.
        names: u32,
    },
    /// The process map has a rank on more than one node, or twice on one: its last place counts. The first such rank is
    /// named.
    #[error("rank {rank} is on {} and again on {} by the process map", node(.first), node(.second))]
    RankTwice {
        /// The rank.
        rank: u32,
        /// Name of the node that it is on first; the number of one that has no name.
        first: Vec<u8>,
        /// Name of the next node.
        second: Vec<u8>,
    },
    /// A rank is on one node by the process map or placement, and on another by what is said of it, which counts. The
    /// first such rank is named.
    #[error("rank {rank} is on {} by the process map, and on {} by its own attributes", node(.mapped), node(.said))]
    Placed {
        /// The rank.
        rank: u32,
        /// Name of the node where the map has it; the number of one that has no name.
        mapped: Vec<u8>,
        /// Name of the node where the rank is said to be.
        said: Vec<u8>,
    },
    /// The job has a rank to which the process map, or the placement, gives no node. The first such rank is named.
    #[error("rank {rank} of a job of {size} processes is on no node by the process map")]
    NoNode {
        /// The rank.
        rank: u32,
        /// Processes that the job is said to have.
        size: u32,
    },
    /// The job is said to have fewer processes than the maps, or the processes that are described.
    #[error("a job of {size} processes has ranks up to {last}")]
    Size {
        /// Processes that it is said to have.
        size: u32,
        /// The highest rank that is spoken of.
        last: u32,
    },
    /// Processes are to run on this node, and the node map does not have it: it was added.
    #[error("{} is not in the node map, and processes of the job are to run there", printable(&String::from_utf8_lossy(.name)))]
    OwnNode {
        /// The name of this node.
        name: Vec<u8>,
    },
    /// Fewer or more processes are on this node by the maps than are to run there.
    #[error("{mapped} processes are on {}, this node, by the maps, {told} are to run there", node(.name))]
    LocalProcesses {
        /// The name of this node; its number if it has none.
        name: Vec<u8>,
        /// Processes that the maps have here.
        mapped: u32,
        /// Processes that are to run here.
        told: u32,
    },
}

fn node(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    if name.bytes().all(|byte| byte.is_ascii_digit()) { format!("node {name}") } else { printable(&name).to_string() }
}

/// Words of a process map, and the number of processes that are to run here.
pub(super) struct Told {
    pub(super) nodes: u32,
    /// By places in the node map.
    pub(super) twice: Option<Twice>,
    /// By indexes of nodes.
    pub(super) moved: Option<Twice>,
    /// The first rank without a node.
    pub(super) lost: Option<u32>,
    pub(super) local_procs: u32,
}

/// The contradictions of a job whose nodes are known, with its size and the end of the ranks that are spoken of, its
/// own node and how many the maps have there.
#[inline(never)]
pub(super) fn find(
    known: &mut Nodes,
    Told { nodes, twice, moved, lost, local_procs: told }: Told,
    (size, ranks): (u32, u32),
    own_node: u32,
    mapped: u32,
) -> Vec<Contradiction> {
    fn name(known: &Nodes, index: u32) -> Vec<u8> {
        known.name(index).unwrap_or_else(|| known.number(index).to_string().into_bytes())
    }
    let names = known.places();
    let mut found = Vec::new();
    if names > 0 && nodes > names {
        found.push(Contradiction::NamelessNodes { nodes, names });
    }
    if let Some(Twice { rank, nodes }) = twice {
        let [first, second] = nodes.map(|place| known.mapped(place)).map(|node| name(known, node));
        found.push(Contradiction::RankTwice { rank, first, second });
    }
    if let Some(Twice { rank, nodes }) = moved {
        let [mapped, said] = nodes.map(|node| name(known, node));
        found.push(Contradiction::Placed { rank, mapped, said });
    }
    if let Some(rank) = lost.filter(|rank| *rank < size) {
        found.push(Contradiction::NoNode { rank, size });
    }
    if ranks > size {
        found.push(Contradiction::Size { size, last: ranks - 1 });
    }
    if told > 0 && names > 0 && !known.is_in_map(own_node) {
        found.push(Contradiction::OwnNode { name: known.name(own_node).unwrap_or_default() });
    }
    if nodes > 0 && told > 0 && mapped != told {
        found.push(Contradiction::LocalProcesses { name: name(known, own_node), mapped, told });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Info, Nspace, Value, keys};
    use crate::store::JobInfo;

    fn found(local: u32, nodes: &str, ranks: &str, more: &[Info]) -> Vec<Contradiction> {
        let maps = [Info::new(keys::NODE_MAP, nodes), Info::new(keys::PROC_MAP, ranks)];
        let infos = [&maps, more].concat();
        let info = JobInfo::from_infos(&Nspace::new("job").unwrap(), local, &infos, "beta.site").unwrap();
        info.contradictions().to_vec()
    }

    #[test]
    fn what_cannot_all_be_true_is_named_and_nothing_else() {
        let size = |n: u32| [Info::new(keys::JOB_SIZE, n)];
        assert_eq!(found(2, "alpha,beta", "0-1;2-3", &[]), []);
        assert_eq!(found(2, "alpha,beta", "0-1;2-3", &size(4)), []);
        assert_eq!(found(2, "alpha,beta,beta", "0-1;2;3", &[]), []);
        let missing = Contradiction::NamelessNodes { nodes: 2, names: 1 };
        assert_eq!(found(2, "beta", "0-1;2-3", &[]), [missing]);
        let named = |name: &str| name.as_bytes().to_vec();
        let twice = Contradiction::RankTwice { rank: 1, first: named("alpha"), second: named("beta") };
        assert_eq!(found(3, "alpha,beta", "0-2;1-3", &[]), [twice]);
        assert_eq!(found(2, "alpha,beta", "0-1;2-3", &size(3)), [Contradiction::Size { size: 3, last: 3 }]);
        let here = Contradiction::OwnNode { name: b"beta.site".to_vec() };
        let nobody = |name: &str| Contradiction::LocalProcesses { name: named(name), mapped: 0, told: 2 };
        assert_eq!(found(2, "alpha,gamma", "0-1;2-3", &[]), [here, nobody("beta.site")]);
        assert_eq!(found(0, "alpha,gamma", "0-1;2-3", &[]), []);
        assert_eq!(found(0, "alpha,beta", "0-1;2-3", &[]), [], "a number that is not given contradicts nothing");
        assert_eq!(found(2, "alpha,beta", "0-3", &[]), [nobody("beta")]);
        assert_eq!(found(2, "alpha,beta", "0-1;2-3", &size(6)), [Contradiction::NoNode { rank: 4, size: 6 }]);
        assert_eq!(found(2, "alpha,beta", "0;2-3", &size(4)), [Contradiction::NoNode { rank: 1, size: 4 }]);
        assert_eq!(
            found(2, "alpha,beta", "0;0,2-3", &[])[0].to_string(),
            "rank 0 is on alpha and again on beta by the process map"
        );
        let said = [Info::new(keys::RANK, 1u32), Info::new(keys::HOSTNAME, "beta")];
        let said = [Info::new(keys::PROC_INFO_ARRAY, Value::infos(said.to_vec()))];
        let placed = Contradiction::Placed { rank: 1, mapped: named("alpha"), said: named("beta") };
        assert_eq!(found(3, "alpha,beta", "0-1;2-3", &said), [placed]);
        // A description without maps contradicts nothing.
        let bare = JobInfo::from_infos(&Nspace::new("job").unwrap(), 2, &size(4), "here").unwrap();
        assert_eq!(bare.contradictions(), []);
    }
}
