//! The store: what a node knows about a job, in memory that all its processes read.
//!
//! # Actors
//!
//! A [`JobWriter`] belongs to the node's server. It turns job information ([`JobInfo`]) into an info segment and what ranks post
//! into records of modex segments. A [`JobReader`] finds values in the same segments: in each client over the descriptors it
//! was sent, in the server over the writer's own mappings. Neither knows sockets: descriptors come and go through the
//! control plane.
//!
//! # States
//!
//! A reader holds the job segment for good, one generation of job information, and the modex segments it was given. When
//! it meets a reference to a segment it has not mapped, or a newer generation, it says which it wants ([`Miss::Unmapped`]); that
//! is never "not found".
//!
//! # When a process dies
//!
//! The segments are anonymous memory: they end with their last user. The writer must be told of a dead reader
//! ([`JobWriter::reader_gone`]), since its pins hold blocks back; nothing else depends on it.

mod budget;
mod checked;
mod columns;
mod computed;
mod derived;
mod encode;
mod gather;
mod guard;
mod heap;
mod info_build;
mod info_view;
mod job_info;
mod levels;
mod lookup;
mod node_names;
mod nodes;
mod numbered;
mod numbers;
mod pages;
mod piles;
mod placement;
mod process_map;
mod rank_list;
mod reader;
mod release;
mod remembered;
mod scopes;
mod segment;
mod sifting;
mod strings;
mod table;
mod texts;
mod write_error;
mod writer;

pub use budget::{Budget, Limits};
pub use columns::Placement;
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) use derived::{Class, class_of};
pub use encode::{RawValue, ReadError};
pub use gather::{Datum, Place, Speech};
pub use guard::{Guard, Lasting, PinError, ReaderPage, ValueRef};
pub use job_info::{BadJobInfo, JobInfo, JobInfoBuilder, MAX_RANKS};
pub use lookup::{Level, Lookup, Miss, NodeSel, Origin, Want};
pub use pages::{ReaderId, ReaderPageHandle};
pub use reader::JobReader;
pub use segment::{AttachError, Have, MapError, MappedSegment, SegmentId};
pub use write_error::WriteError;
pub use writer::{JobWriter, Stats};

#[cfg(test)]
mod tests;
