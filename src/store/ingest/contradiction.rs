//! Contradictions in what a host says. Its word stands, as everywhere; but whoever embeds a store wants to hear of
//! them.
use super::nodes::Nodes;
use crate::printable;

/// Two things that a host has said of a job and that cannot both be true. Everything was stored as it was said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// The process map has more nodes than the node map has names.
    #[error("the process map has {nodes} nodes, the node map {names}")]
    NamelessNodes {
        /// Nodes of the process map.
        nodes: u32,
        /// Names in the node map.
        names: u32,
    },
    /// The process map has a rank on more than one node, or twice on one: its last place counts.
    #[error("the process map names a rank twice")]
    RankTwice,
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
    #[error("{mapped} processes are on this node by the maps, {told} are to run there")]
    LocalProcesses {
        /// Processes that the maps have here.
        mapped: u32,
        /// Processes that are to run here.
        told: u32,
    },
}

/// Counts that a process map has said, and the number of processes that are to run here.
pub(super) struct Told {
    pub(super) nodes: u32,
    pub(super) names_twice: bool,
    pub(super) local_procs: u32,
}

/// The contradictions of a job whose nodes are known, with its size and the end of the ranks that are spoken of, its
/// own node and how many the maps have there.
pub(super) fn find(
    known: &Nodes,
    Told { nodes, names_twice, local_procs: told }: Told,
    (size, ranks): (u32, u32),
    own_node: u32,
    mapped: u32,
) -> Vec<Contradiction> {
    let names = known.places();
    let mut found = Vec::new();
    if names > 0 && nodes > names {
        found.push(Contradiction::NamelessNodes { nodes, names });
    }
    if names_twice {
        found.push(Contradiction::RankTwice);
    }
    if ranks > size {
        found.push(Contradiction::Size { size, last: ranks - 1 });
    }
    if told > 0 && names > 0 && !known.is_in_map(own_node) {
        found.push(Contradiction::OwnNode { name: known.name(own_node).unwrap_or_default() });
    }
    if nodes > 0 && mapped != told {
        found.push(Contradiction::LocalProcesses { mapped, told });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Info, Nspace, keys};
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
        assert_eq!(found(3, "alpha,beta", "0-2;1-3", &[]), [Contradiction::RankTwice]);
        assert_eq!(found(2, "alpha,beta", "0-1;2-3", &size(3)), [Contradiction::Size { size: 3, last: 3 }]);
        let here = Contradiction::OwnNode { name: b"beta.site".to_vec() };
        let nobody = Contradiction::LocalProcesses { mapped: 0, told: 2 };
        assert_eq!(found(2, "alpha,gamma", "0-1;2-3", &[]), [here, nobody.clone()]);
        assert_eq!(found(0, "alpha,gamma", "0-1;2-3", &[]), []);
        assert_eq!(found(2, "alpha,beta", "0-3", &[]), [nobody]);
        // Whoever gives no maps contradicts nothing.
        let bare = JobInfo::from_infos(&Nspace::new("job").unwrap(), 2, &size(4), "here").unwrap();
        assert_eq!(bare.contradictions(), []);
    }
}
