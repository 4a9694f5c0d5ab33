//! Tests of the store as a whole: a writer, and readers over descriptors as clients have them.
use std::os::fd::AsFd;

use instanton_layout::job;

use super::*;
use crate::data::{DataArray, Info, Key, Nspace, Posted, Rank, Scope, Text, Value, keys};

mod borrowed;
mod bounds;
mod chains;
mod concurrent;
mod corrupt;
mod departures;
mod foreign;
mod limits;
mod moves;
pub(super) mod odd_jobs;
mod placement;
mod read_back;
mod reclaim;
mod sealed;
mod shapes;
mod wrong_input;

pub(super) fn nspace() -> Nspace {
    Nspace::try_from("job@1").unwrap()
}

pub(super) fn key(name: &str) -> Key {
    Key::try_from(name).unwrap()
}

/// Four processes, two on each of two nodes.
pub(super) fn infos() -> Vec<Info> {
    vec![
        Info::new(keys::JOB_SIZE, 4u32),
        Info::new(keys::NODE_MAP, "alpha,beta"),
        Info::new(keys::PROC_MAP, "0,1;2,3"),
        Info::new(keys::TMPDIR, "/tmp/x"),
        Info::new(keys::LOCAL_CPUSETS, "0-1:2-3"),
        about(keys::PROC_INFO_ARRAY, vec![Info::new(keys::RANK, Rank(1)), Info::new(keys::CPUSET, "2-3")]),
    ]
}

pub(super) fn about(array: &str, infos: Vec<Info>) -> Info {
    Info::new(array, DataArray::of_info(infos))
}

pub(super) fn job_info(infos: &[Info]) -> JobInfo {
    JobInfo::from_infos(&nspace(), 2, infos, "alpha").unwrap()
}

pub(super) fn writer(limits: &Limits) -> JobWriter {
    JobWriter::create(&nspace(), job_info(&infos()), limits).unwrap()
}

/// A reader as a client has it.
pub(super) fn attach(writer: &mut JobWriter) -> (JobReader, ReaderId) {
    let handle = writer.make_reader_page().unwrap();
    let page = ReaderPage::map(handle.as_fd()).unwrap();
    let parts = writer.segments(&Have::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd).unwrap()).collect();
    (JobReader::attach(parts, Some(page)).unwrap(), handle.id())
}

/// Maps what a reader has not mapped yet.
pub(super) fn catch_up(reader: &JobReader, writer: &JobWriter) {
    for (_, fd) in writer.segments(&reader.have()) {
        reader.add(MappedSegment::map(fd).unwrap()).unwrap();
    }
    assert!(!reader.is_behind(), "{:?} is not all there is", reader.have());
}

fn post(writer: &mut JobWriter, rank: u32, name: &str, value: impl Into<Value>) -> Result<(), WriteError> {
    writer.update(Rank(rank), &[Posted::new(Scope::GLOBAL, key(name), value.into())])
}

impl JobWriter {
    /// Leads nobody any more to what a rank and those next to it have posted.
    pub(crate) fn damage(&self, rank: Rank) {
        self.words().publish_page(job::page_of(rank.0), job::Reference { segment: u32::MAX, word: 8 });
    }
}

/// One look-up by all three ways there are; they agree, or the test fails.
fn get_all_ways(reader: &JobReader, server: &JobReader, question: &Question<'_>) -> Option<Value> {
    let answer = |answer: Result<Value, Miss>| match answer {
        Ok(value) => Some(value),
        Err(Miss::NotFound) => None,
        Err(miss) => panic!("{question:?}: {miss}"),
    };
    let copied = answer(reader.get(question));
    let guard = reader.pin().unwrap();
    assert_eq!(
        answer(guard.get(question).and_then(|value| Ok(value.to_value()?))),
        copied,
        "{question:?} under a guard"
    );
    assert_eq!(answer(server.get(question)), copied, "{question:?} by the server");
    copied
}
