//! Names of segments and of readers.

pub use crate::data::have::Have;

/// A segment of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentId {
    /// The words that change.
    Job,
    /// Job information, by generation.
    Info(u64),
    /// Posted data, by number.
    Modex(u32),
}

/// A reader that was given a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReaderId(pub u64);

/// A segment to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The job information of this generation, or a later one.
    Info(u64),
    /// The modex segment of this number.
    Modex(u32),
}
