//! Named segments: a job's memory as files, for readers that have no way to its writer.
//!
//! # Actors
//!
//! A [`Claim`] is a name that a writer has taken: a directory of its own, with a lock in it. A
//! [named writer](crate::store::JobWriter::create_named) makes its segments as files there, instead of anonymous memory.
//! Readers find them by the name. While the writer lives, they map them
//! ([`RemoteReader::map_trusting_owner`](crate::handover::RemoteReader::map_trusting_owner)); when it is gone, they read
//! what it has left ([`JobReader::post_mortem`](crate::store::JobReader::post_mortem)).
//!
//! # Files in the directory
//!
//! ```text
//! lock       of the writer's user alone: whoever has it locked has the name
//! job        the words that change, locked while the writer lives; `job.new` until they are complete
//! info.N     job information of generation N
//! modex.N    posted data
//! ```
//!
//! # Trust in the owner
//!
//! A file cannot be sealed. Its owner can shorten it, which ends whoever has mapped it with SIGBUS, and can change what
//! it has in it. So readers say whom they trust ([`Owner`]): directory and files belong to that user, nobody else can
//! write them, and none is a link. Data that is read post mortem is copied first, and checked as ever; there the owner
//! can do no more than to have said something wrong.
//!
//! # When something dies
//!
//! A writer that ends in good order takes its files with it. One that is killed leaves them, unlocked; the next writer of
//! the same user and name removes them. Readers keep what they have mapped or read.
mod folder;
mod mapped;
mod place;
mod post_mortem;

use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::error::AttachError;
use crate::sys::lock::is_locked;
pub use folder::Owner;
pub(crate) use mapped::Mapped;
pub use place::{Claim, Readers};
pub(in crate::store) use place::{NamedFile, NewFile, Place};

/// File of the lock.
const LOCK: &str = "lock";
/// File of the job segment.
const JOB: &str = "job";
/// The same, before there is all that it leads to.
const NEW: &str = "job.new";

/// Returns whether somebody who may write the job's file (`job` of a name) holds the lock of a writer on it.
///
/// # Errors
/// The kernel's.
pub fn has_writer(job: &File) -> io::Result<bool> {
    is_locked(job)
}

/// File of a segment that is one of several.
fn numbered(kind: &str, number: u64) -> String {
    format!("{kind}.{number}")
}

/// The reason why a name cannot be had, or what is there cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The path has no last part.
    #[error("{} is no name", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// There is no job of that name.
    #[error("there is no job at {}", path.display())]
    Absent {
        /// The path.
        path: PathBuf,
    },
    /// A writer that lives has the name: it is to be asked, or its segments to be mapped.
    #[error("the writer of {} lives", path.display())]
    Alive {
        /// The path.
        path: PathBuf,
    },
    /// Its writer is gone: what it has left is to be read post mortem.
    #[error("the writer of {} is gone", path.display())]
    Dead {
        /// The path.
        path: PathBuf,
    },
    /// The path belongs to a user who is not trusted.
    #[error("{} belongs to user {user}, who is not trusted", path.display())]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// Its owner.
        user: u32,
    },
    /// Others than its owner may write it.
    #[error("others than its owner may write to {}", path.display())]
    Writable {
        /// The file or directory.
        path: PathBuf,
    },
    /// The path is something else than a directory or a file, such as a link.
    #[error("{} is not what it should be, but a link or something else", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
    },
    /// The directory has something else in it, and is left alone.
    #[error("{} has {name} in it, which no writer has put there", path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
        /// The thing in it.
        name: String,
    },
    /// The system refuses.
    #[error("{}: {error}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        error: io::Error,
    },
    /// A segment cannot be used.
    #[error("{}: {error}", path.display())]
    Attach {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: AttachError,
    },
}
