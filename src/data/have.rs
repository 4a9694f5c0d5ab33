//! The segments of a job that a client has mapped: as it says in a message, and as the store is asked for the rest.
#![allow(missing_docs, reason = "rkyv's derive makes types without documentation; every item written here has its own")]

use rkyv::{Archive, Deserialize, Serialize};

/// The segments that a client has mapped.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Have {
    /// True if it has the job segment.
    pub job: bool,
    /// The generation of its job information, 0 for none.
    pub info: u64,
    /// The number of the newest modex segment it has, 0 for none.
    pub modex: u32,
}
