//! Names of segments and of readers, and the number of ranks that there may be.
use std::fmt;

pub use crate::data::have::Have;

/// More ranks than this are refused before memory is taken for them.
pub const MAX_RANKS: u32 = 1 << 24;

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

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentId::Job => f.write_str("the job segment"),
            SegmentId::Info(generation) => write!(f, "the segment of job information {generation}"),
            SegmentId::Modex(number) => write!(f, "the modex segment {number}"),
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Want::Info(generation) => SegmentId::Info(generation).fmt(f),
            Want::Modex(number) => SegmentId::Modex(number).fmt(f),
        }
    }
}

/// A reader that was given a page. No two readers of a process's writers have the same. The process behind it is known
/// to whoever gave the page away: to a [`Listener`](crate::handover::Listener::peer), for one.
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
