//! Names of segments and of readers.

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

/// The segments that a client has mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Have {
    /// True if it has the job segment.
    pub job: bool,
    /// The generation of its job information, 0 for none.
    pub info: u64,
    /// The number of the newest modex segment it has, 0 for none.
    pub modex: u32,
}
