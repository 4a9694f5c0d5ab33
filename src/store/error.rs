//! Errors of the store.
use instanton_layout::Malformed;
use instanton_layout::header::{BadHeader, Kind};

use super::budget::Budget;
use super::ids::{MAX_RANKS, SegmentId, Want};
use crate::data::archive::{ArchiveError, MAX_DEPTH};
use crate::data::maps::MapError as BadMap;
use crate::data::{BadBytes, DataType, Key, Nspace, Rank, Scope, Status};

pub use crate::sys::memory::MapError;
pub use crate::sys::pin::PinError;

/// The reason why there is no value.
#[derive(Debug, thiserror::Error)]
pub enum Miss {
    /// Nobody has stored it.
    #[error("not found")]
    NotFound,
    /// The value may be in a segment that has to be asked for first.
    #[error("it may be in {0}, which is not mapped yet")]
    Unmapped(Want),
    /// The record was replaced again and again while it was read: ask the server. Or the [guard](crate::store::Guard)
    /// holds back too much for anything new to be held by it: copy the value.
    #[error("the record changes too fast to be read, or cannot be held in place any more")]
    Busy,
    /// The segment is damaged.
    #[error("a segment is damaged: {0}")]
    Corrupt(#[from] ReadError),
}

/// Shared bytes that are no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes do not even have the form of a record.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The bytes are no value of their type.
    #[error("{len} bytes are no value of type {data_type}")]
    Value {
        /// The type.
        data_type: DataType,
        /// Bytes it has.
        len: usize,
    },
}

/// The reason why a segment cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The segment cannot be mapped.
    #[error("cannot map a segment: {0}")]
    Map(#[from] MapError),
    /// The header is wrong.
    #[error("cannot use a segment: {0}")]
    Header(#[from] BadHeader),
    /// The contents are wrong.
    #[error("{id} is damaged: {error}")]
    Damaged {
        /// Segment that is damaged.
        id: SegmentId,
        /// The damage.
        error: Malformed,
    },
    /// The segment belongs to another job than the others.
    #[error("{id} belongs to another job than the job segment")]
    Foreign {
        /// Segment of the other job.
        id: SegmentId,
    },
    /// The reader page belongs to another job than the segments.
    #[error("the reader page belongs to another job than the segments")]
    ForeignPage,
    /// There is no job segment among them.
    #[error("the job segment is missing among the segments")]
    NoJob,
    /// The descriptor is that of a reader page where a segment is wanted, that of a segment where a page is wanted, or
    /// that of a job segment where there is one.
    #[error("{}", unexpected(*.0))]
    Unexpected(Kind),
    /// No memory for the reader's own notes.
    #[error("{0}")]
    Memory(std::io::Error),
}

fn unexpected(kind: Kind) -> &'static str {
    match kind {
        Kind::Page => "a reader page is no segment of a job",
        Kind::Job => "this is a job segment: it is no reader page, and is not added to a reader, which has one",
        Kind::Info => "this is a segment with job information, not a reader page",
        Kind::Modex => "this is a segment with posted data, not a reader page",
    }
}

/// An error in job information.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadJobInfo {
    /// An attribute has a value that it cannot have.
    #[error("{key} has a value of type {found}, wanted {wanted}")]
    Type {
        /// The attribute.
        key: &'static str,
        /// The type it has.
        found: DataType,
        /// The type it should have.
        wanted: &'static str,
    },
    /// An array does not say whom it is about.
    #[error("an array {array} has no {key}")]
    Anonymous {
        /// The array.
        array: &'static str,
        /// The attribute that is missing in it.
        key: &'static str,
    },
    /// A rank that no process can have.
    #[error("rank {rank} is none: ranks go from 0 to {}", MAX_RANKS - 1)]
    Rank {
        /// The rank.
        rank: u32,
    },
    /// More processes than [`MAX_RANKS`].
    #[error("a job of {size} processes; {MAX_RANKS} are allowed")]
    Size {
        /// Processes that the job is said to have.
        size: u32,
    },
    /// A key has values for more than [`MAX_RANKS`] ranks.
    #[error("{key} has values for more than {MAX_RANKS} ranks")]
    Values {
        /// The key.
        key: Key,
    },
    /// A value has more arrays in one another than can be stored.
    #[error("{key} is nested too deeply: {MAX_DEPTH} arrays in one another are allowed")]
    Depth {
        /// Its key.
        key: Key,
    },
    /// A value of a process is none of its type.
    #[error("{key} of rank {rank}: {error}")]
    Value {
        /// Its key.
        key: Key,
        /// The process.
        rank: u32,
        /// Fault of the value.
        error: ArchiveError,
    },
    /// A node map or process map cannot be read.
    #[error("{key}: {error}")]
    Map {
        /// Key of the map.
        key: &'static str,
        /// The error in it.
        error: BadMap,
    },
    /// A key that is none.
    #[error("{0}")]
    Key(#[from] BadBytes),
}

/// The reason why something was not written. Everything that was written before is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The host's limit is reached.
    #[error("{wanted} more bytes of shared memory are needed, {used} of {limit} are in use")]
    Budget {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes in use.
        used: u64,
        /// The limit, less what is kept for ranks that have posted little.
        limit: u64,
    },
    /// The system has no memory for it.
    #[error("{0}")]
    Memory(Box<dyn std::error::Error + Send + Sync>),
    /// The record does not fit into a segment.
    #[error("a record of {bytes} bytes is too large")]
    TooLarge {
        /// Bytes it has.
        bytes: u64,
    },
    /// The write would take long, and was to be done at once or not at all.
    #[error("{bytes} bytes would be written anew")]
    TakesLong {
        /// Bytes of older records that would be.
        bytes: usize,
    },
    /// A value cannot be stored.
    #[error("the value of {key}: {error}")]
    Value {
        /// Its key.
        key: Key,
        /// Fault of the value.
        error: ArchiveError,
    },
    /// The job information was made for another namespace.
    #[error("job information of {info} in the store of {nspace}")]
    Nspace {
        /// Namespace of the store.
        nspace: Nspace,
        /// Namespace of the information.
        info: Nspace,
    },
    /// The job has no such rank.
    #[error("rank {rank} is none of the {ranks} that the job has room for")]
    Rank {
        /// The rank.
        rank: Rank,
        /// Ranks there is room for.
        ranks: u32,
    },
    /// Data of this scope does not belong here: LOCAL data of another node, or a scope that nobody else may see.
    #[error("{}", wrong_scope(*.rank, *.scope))]
    Scope {
        /// Rank whose data it is.
        rank: Rank,
        /// Its scope.
        scope: Scope,
    },
    /// A draft, batch, part or move that another writer has made.
    #[error("a {0} of another writer")]
    Foreign(&'static str),
    /// The writer's own segments make no sense.
    #[error("a segment is damaged: {0}")]
    Damaged(#[from] ReadError),
    /// The writer's own segments cannot be read.
    #[error("{0}")]
    Attach(#[from] AttachError),
}

fn wrong_scope(rank: Rank, scope: Scope) -> String {
    match scope {
        Scope::LOCAL => format!("LOCAL data of rank {rank}, which runs on another node"),
        Scope(other) => format!("data of rank {rank} of scope {other}: there are LOCAL (1), REMOTE (2) and GLOBAL (3)"),
    }
}

impl WriteError {
    pub(super) fn budget(budget: &Budget, wanted: u64) -> Self {
        WriteError::Budget { wanted, used: budget.used(), limit: budget.open_to_all() }
    }

    pub(super) fn memory(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        WriteError::Memory(Box::new(error))
    }

    pub(super) fn value(key: &Key, error: ArchiveError) -> Self {
        WriteError::Value { key: key.clone(), error }
    }

    /// The status for whoever asked.
    pub fn status(&self) -> Status {
        match self {
            WriteError::Budget { .. }
            | WriteError::Memory(_)
            | WriteError::TooLarge { .. }
            | WriteError::TakesLong { .. } => Status::ERR_OUT_OF_RESOURCE,
            WriteError::Value { error, .. } => error.status(),
            WriteError::Nspace { .. } | WriteError::Rank { .. } | WriteError::Scope { .. } | WriteError::Foreign(_) => {
                Status::ERR_BAD_PARAM
            }
            WriteError::Damaged(_) | WriteError::Attach(_) => Status::ERROR,
        }
    }
}
