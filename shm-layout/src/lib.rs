//! Every byte that Instanton keeps in shared memory, and the protocol by which one writer changes it under many
//! readers.
//!
//! # Actors
//!
//! One *writer* (the node's server) maps a job's segments writable. Any number of *readers* (the job's processes, and
//! the server itself) map them read-only. A reader may also own a *reader page*, the only memory it can write.
//!
//! # Places
//!
//! * The **job segment** ([`job`]) has the words that change: the generation of the job information, the epoch, and
//!   the rank table, one reference a rank.
//! * An **info segment** ([`info`]) holds the job information of one generation. It is complete before its generation
//!   is published and never changes again.
//! * **Modex segments** consist of *blocks* ([`block`]): a version word and a [`record`]. A block keeps its place and
//!   its size for ever, so the version word of a reused block lies where a slow reader looks for it.
//! * A **reader page** ([`page`]) has slots, each zero or the epoch at which a guard was taken.
//!
//! # How a value travels
//!
//! The writer fills a block, gives it an even version that no other record of the job ever had, and stores its
//! reference into the rank table. A reader loads the reference, then the version, copies what it needs and loads the
//! version again. When a later record replaces this one, the block is *retired* with the epoch and the epoch grows; the
//! block is written again (its version odd meanwhile) once no slot of any reader page holds that epoch or an older one.
//!
//! # When a process dies
//!
//! A reader that dies leaves nothing but its page, which the writer forgets once it knows of the death. A reader that
//! stops while it holds a guard keeps blocks from being reused, never the writer from writing elsewhere. When the
//! writer dies, readers keep their mappings: a block whose version stays odd is being written for ever
//! ([`chain::Walk::Changed`]), which the caller bounds.
//!
//! No code in this crate makes a system call. All of it is generic over where the words lie ([`words::Words`]), so that
//! loom can run the protocol over a vector.

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "instanton needs a 64-bit processor: segments are words of 64 bits that readers load in one piece from memory mapped \
     read-only, which Rust promises of 64-bit processors alone (others may load by compare-and-exchange, which faults there)"
);

pub mod block;
pub mod chain;
pub mod classes;
#[cfg(not(loom))]
mod copy;
pub mod crc;
pub mod hash;
pub mod header;
pub mod info;
pub mod job;
pub mod key;
pub mod page;
pub mod record;
pub mod sync;
pub mod words;

/// Shared bytes that do not mean what they must. Nothing was read outside the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// A reference, offset or length leads out of the segment or of its record.
    Bounds {
        /// The word it leads to, or the last one that this can say.
        at: u32,
    },
    /// A checksum differs from its bytes.
    Checksum,
    /// A record belongs to something else than the reference to it.
    Owner,
    /// A table of slots has an impossible size.
    Table,
    /// A record continues nowhere, or in too many others.
    Chain,
}

impl Malformed {
    /// The error of a word outside. Its number has 32 bits, as all words of a segment have: so small, a result that may
    /// be this error is handed on in registers.
    #[cold]
    pub(crate) fn bounds(at: usize) -> Self {
        Self::Bounds { at: u32::try_from(at).unwrap_or(u32::MAX) }
    }
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Malformed::Bounds { at } => write!(f, "word {at} was referred to, which is not there"),
            Malformed::Checksum => f.write_str("a checksum is wrong"),
            Malformed::Owner => f.write_str("a record belongs to another owner"),
            Malformed::Table => f.write_str("a table has an impossible size"),
            Malformed::Chain => f.write_str("a record continues nowhere"),
        }
    }
}

impl std::error::Error for Malformed {}

/// The low half of a word.
pub(crate) const fn low(word: u64) -> u32 {
    word as u32
}

/// The high half of a word.
pub(crate) const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

/// A word of two halves.
pub(crate) const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}
