//! The jobs that are measured through the Rust interface: regular ones, as `c/job.h` makes them.
use std::os::fd::AsFd;

use instanton::data::maps::{Form, ProcMap};
use instanton::data::{DataArray, DataType, Info, Key, Nspace, Posted, Rank, Scope, Value, keys};
use instanton::store::{Datum, Have, JobInfo, JobInfoBuilder, JobReader, JobWriter, Limits, MappedSegment, ReaderPage};

/// Ranks in blocks of so many on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Ranks of the job.
    pub ranks: u32,
    /// On each node but the last, which has what is left.
    pub per_node: u32,
}

impl Blocks {
    fn nodes(self) -> u32 {
        self.ranks.div_ceil(self.per_node)
    }

    /// Returns sizes and maps, from which placement follows, and no more.
    #[must_use]
    pub fn maps(self) -> Vec<Info> {
        let nodes = (0..self.nodes()).map(|node| node * self.per_node);
        self.maps_of(expression(nodes.map(|first| first..self.ranks.min(first + self.per_node))))
    }

    /// Returns maps with the ranks dealt to nodes one by one, round after round.
    #[must_use]
    pub fn cyclic_maps(self) -> Vec<Info> {
        self.maps_of(expression((0..self.nodes()).map(|node| (node..self.ranks).step_by(self.nodes() as usize))))
    }

    /// Returns maps with ranks at random, as many on each node as before; in the order of their numbers there, or in
    /// none.
    #[must_use]
    pub fn random_maps(self, seed: u64, in_order: bool) -> Vec<Info> {
        let mut ranks: Vec<u32> = (0..self.ranks).collect();
        let mut random = seed | 1;
        for at in (1..ranks.len()).rev() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            ranks.swap(at, (random >> 16) as usize % (at + 1));
        }
        if in_order {
            ranks.chunks_mut(self.per_node as usize).for_each(<[u32]>::sort_unstable);
        }
        self.maps_of(expression(ranks.chunks(self.per_node as usize).map(|node| node.iter().copied())))
    }

    fn maps_of(self, processes: Vec<u8>) -> Vec<Info> {
        vec![
            Info::new(keys::JOB_SIZE, self.ranks),
            Info::new(keys::UNIV_SIZE, self.ranks),
            Info::new(keys::MAX_PROCS, self.ranks),
            Info::new(keys::NODE_MAP, format!("pmix[node[5:0-{}]]", self.nodes() - 1)),
            Info::new(keys::PROC_MAP, String::from_utf8(processes).expect("ASCII")),
        ]
    }

    /// The maps, and eleven keys of each rank.
    #[must_use]
    pub fn keys(self) -> Vec<Info> {
        let mut infos = self.maps();
        infos.extend((0..self.ranks).map(|rank| {
            let (node, local) = (rank / self.per_node, rank % self.per_node);
            let of_rank = vec![
                Info::new(keys::RANK, Rank(rank)),
                Info::new(keys::APPNUM, 0u32),
                Info::new(keys::GLOBAL_RANK, rank),
                Info::new(keys::APP_RANK, rank),
                Info::new(keys::LOCAL_RANK, local as u16),
                Info::new(keys::NODE_RANK, local as u16),
                Info::new(keys::NODEID, node),
                Info::new(keys::HOSTNAME, host(node)),
                Info::new(keys::REINCARNATION, 0u32),
                Info::new(keys::PACKAGE_RANK, (local % 16) as u16),
                Info::new(keys::CPUSET, cpus(local)),
                Info::new(keys::LOCALITY_STRING, locality(local)),
            ];
            Info::new(keys::PROC_DATA, DataArray::of_info(of_rank))
        }));
        infos
    }
}

/// Writes what is known of a job, as the server of node 0.
///
/// # Panics
/// When the store refuses it: then there is nothing to measure.
#[must_use]
pub fn register(infos: &[Info], local: u32) -> JobWriter {
    let nspace = Nspace::try_from("bench@1").expect("a legal name");
    let info = JobInfo::from_infos(&nspace, local, infos, "node00000").expect("good job information");
    JobWriter::create(&nspace, info, &Limits::default()).expect("memory")
}

/// Writes what [`Blocks::keys`] says, with each rank's values handed over as they are: nobody makes an attribute of
/// them.
///
/// # Panics
/// When the store refuses it.
#[must_use]
pub fn hand_over(blocks: Blocks) -> JobWriter {
    let nspace = Nspace::try_from("bench@1").expect("a legal name");
    let mut job = JobInfoBuilder::new(&nspace, blocks.per_node, "node00000");
    job.infos(&blocks.maps()).expect("good job information");
    let cpus: Vec<String> = (0..blocks.per_node).map(cpus).collect();
    let localities: Vec<String> = (0..blocks.per_node).map(locality).collect();
    let hosts: Vec<String> = (0..blocks.nodes()).map(host).collect();
    let number = |value: u32| Datum::Scalar(DataType::UINT32, value.into());
    let small = |value: u32| Datum::Scalar(DataType::UINT16, value.into());
    for rank in 0..blocks.ranks {
        let (node, local) = (rank / blocks.per_node, rank % blocks.per_node);
        let values = [
            (keys::APPNUM, number(0)),
            (keys::GLOBAL_RANK, number(rank)),
            (keys::APP_RANK, number(rank)),
            (keys::LOCAL_RANK, small(local)),
            (keys::NODE_RANK, small(local)),
            (keys::NODEID, number(node)),
            (keys::HOSTNAME, Datum::Text(Some(hosts[node as usize].as_bytes()))),
            (keys::REINCARNATION, number(0)),
            (keys::PACKAGE_RANK, small(local % 16)),
            (keys::CPUSET, Datum::Text(Some(cpus[local as usize].as_bytes()))),
            (keys::LOCALITY_STRING, Datum::Text(Some(localities[local as usize].as_bytes()))),
        ];
        job.process(rank, values.into_iter().map(|(key, value)| (key.as_bytes(), value))).expect("a rank of the job");
    }
    JobWriter::create(&nspace, job.build().expect("good job information"), &Limits::default()).expect("memory")
}

/// The process map of these ranks, as `PMIx_generate_ppn` writes it.
fn expression<N: IntoIterator<Item = u32>>(nodes: impl IntoIterator<Item = N>) -> Vec<u8> {
    ProcMap::from_ranks(nodes).expect("ranks of processes").to_text(Form::Bracket)
}

fn host(node: u32) -> String {
    format!("node{node:05}")
}

fn cpus(local: u32) -> String {
    format!("{}-{}", 2 * local, 2 * local + 1)
}

fn locality(local: u32) -> String {
    format!("NM{0}:SK{0}:L3{0}:L2{local}:L1{local}:CR{local}:HT{1}", local / 16, cpus(local))
}

/// A posted value of so many bytes.
///
/// # Panics
/// When the key is none.
#[must_use]
pub fn posted(key: &str, byte: u8, len: usize) -> Posted {
    Posted::new(Scope::GLOBAL, Key::try_from(key).expect("a key"), Value::from(vec![byte; len]))
}

/// A job of which every rank has posted `endpoint` with 64 bytes and `blob` with 4 KiB.
///
/// # Panics
/// When there is no memory for it.
#[must_use]
pub fn posting(blocks: Blocks) -> JobWriter {
    let mut writer = register(&blocks.keys(), blocks.per_node);
    for rank in 0..blocks.ranks {
        writer.update(Rank(rank), &[posted("endpoint", 7, 64), posted("blob", 7, 4096)]).expect("memory");
    }
    writer
}

/// A job of which every rank has posted `endpoint` with 64 bytes, and nothing else.
///
/// # Panics
/// When there is no memory for it.
#[must_use]
pub fn posting_small(blocks: Blocks) -> JobWriter {
    let mut writer = register(&blocks.maps(), blocks.per_node);
    for rank in 0..blocks.ranks {
        writer.update(Rank(rank), &[posted("endpoint", 7, 64)]).expect("memory");
    }
    writer
}

/// A reader with a page of its own, over descriptors as a client has them.
///
/// # Panics
/// When it cannot be attached.
pub fn reader(writer: &mut JobWriter) -> JobReader {
    let page = writer.make_reader_page().expect("memory");
    let page = ReaderPage::map(page.as_fd()).expect("a page");
    let parts = writer.segments(&Have::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd).expect("a segment"));
    JobReader::attach(parts.collect(), Some(page)).expect("segments of a job")
}

#[cfg(test)]
mod tests {
    use instanton::store::Question;

    use super::*;

    /// All three speak of the same job: what a rank is told does not depend on how it was described.
    #[test]
    fn the_descriptions_agree() {
        let blocks = Blocks { ranks: 70, per_node: 32 };
        let mut of_maps = register(&blocks.maps(), 32);
        let mut of_keys = register(&blocks.keys(), 32);
        let mut handed_over = hand_over(blocks);
        let (of_maps, of_keys) = (reader(&mut of_maps), reader(&mut of_keys));
        let handed_over = reader(&mut handed_over);
        for rank in [0, 31, 32, 69] {
            for key in [keys::LOCAL_RANK, keys::NODEID, keys::HOSTNAME, keys::LOCAL_PEERS] {
                let question = Question::new(Rank(rank), key);
                let value = of_keys.get(&question).expect("a value");
                assert_eq!(of_maps.get(&question).expect("a value"), value, "{key} of {rank}");
                assert_eq!(handed_over.get(&question).expect("a value"), value, "{key} of {rank}");
            }
            for key in [keys::CPUSET, keys::LOCALITY_STRING, keys::PACKAGE_RANK, keys::REINCARNATION] {
                let question = Question::new(Rank(rank), key);
                assert_eq!(
                    handed_over.get(&question).expect("a value"),
                    of_keys.get(&question).expect("a value"),
                    "{key}"
                );
            }
        }
        let value = of_keys.get(&Question::new(Rank(69), keys::HOSTNAME)).expect("a value");
        assert_eq!(value, Value::from("node00002"));
    }
}
