//! The store: what a node knows about a job, in memory that all its processes read.
//!
//! Authors of servers that embed it find three pages in the [`guide`].
//!
//! # Actors
//!
//! A [`JobWriter`] belongs to the node's server. It turns job information ([`JobInfo`]) into an info segment and what
//! ranks post into records of modex segments. A [`JobReader`] finds values in the same segments: in each client over
//! the descriptors it was sent, in the server over the writer's own mappings. Neither knows sockets: descriptors come
//! and go through the control plane.
//!
//! # States
//!
//! A reader holds the job segment for good, one generation of job information, and the modex segments it was given.
//! When it meets a reference to a segment it has not mapped, or a newer generation, it says which it wants
//! ([`Miss::Unmapped`]); that is never "not found".
//!
//! # When a process dies
//!
//! The segments are anonymous memory: they end with their last user. The writer must be told of a dead reader
//! ([`JobWriter::reader_gone`]), since its pins hold blocks back; nothing else depends on it.
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../../examples/store.rs")]
//! ```

mod batch;
mod budget;
mod codec;
mod datum;
mod draft;
mod error;
pub mod exchange;
pub mod guide;
mod ids;
mod info;
mod ingest;
mod modex;
mod moving;
#[cfg(feature = "named-segments")]
pub mod named;
mod outbound;
mod read;
mod release;
mod segment;
mod texts;
mod value_cell;
mod writer;

pub use batch::{Batch, DraftedPart, Published};
pub use budget::{Budget, Limits};
pub use datum::{Datum, Entry};
pub use draft::Draft;
pub use error::{AttachError, BadJobInfo, MapError, Miss, PinError, ReadError, WriteError};
pub use ids::{Have, MAX_RANKS, ReaderId, SegmentId, Want};
pub use ingest::{Contradiction, JobInfo, JobInfoBuilder, KeySlot, Placement, ProcWriter};
pub use modex::reader_pages::{Misuse, ReaderPageHandle};
pub use moving::{Move, NextMove};
pub use outbound::Departure;
pub use read::{
    Directives, Guard, InfoLevel, JobReader, JobValues, Lasting, Origin, Question, RawValue, ReaderPage, ValueRef,
};
pub use segment::MappedSegment;
pub use writer::{JobWriter, Stats};

#[cfg(test)]
mod tests;
