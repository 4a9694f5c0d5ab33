//! Why something was not written.
use super::budget::Budget;
use super::encode::ReadError;
use super::pages::ReaderId;
use super::segment::AttachError;
use crate::data::archive::ArchiveError;
use crate::data::{Key, Rank, Scope, Status};

/// Why something was not written. What was written before is as it was.
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
        /// The limit.
        limit: u64,
    },
    /// The system has no memory for it.
    #[error("{0}")]
    Memory(Box<dyn std::error::Error + Send + Sync>),
    /// Readers hold back too much, and no further set of segments may be made to get out of their way.
    #[error("{sets} replaced sets of segments wait for readers that hold on to them, first {by:?}")]
    Held {
        /// How many.
        sets: usize,
        /// The reader that holds the oldest epoch.
        by: Option<ReaderId>,
    },
    /// It does not fit into a segment.
    #[error("a record of {bytes} bytes is too large")]
    TooLarge {
        /// Bytes it has.
        bytes: u64,
    },
    /// A value cannot be stored.
    #[error("the value of {key}: {error}")]
    Value {
        /// Its key.
        key: Key,
        /// Why.
        error: ArchiveError,
    },
    /// The job has no such rank.
    #[error("rank {rank} of a job with room for {ranks}")]
    Rank {
        /// The rank.
        rank: Rank,
        /// Ranks there is room for.
        ranks: u32,
    },
    /// Data of this scope does not belong here: LOCAL data of another node, or a scope that nobody else may see.
    #[error("data of scope {} of rank {rank} does not belong here", scope.0)]
    Scope {
        /// Whose data.
        rank: Rank,
        /// Its scope.
        scope: Scope,
    },
    /// The writer's own segments make no sense.
    #[error("a segment is damaged: {0}")]
    Damaged(#[from] ReadError),
    /// The writer's own segments cannot be read.
    #[error("{0}")]
    Attach(#[from] AttachError),
}

impl WriteError {
    pub(super) fn budget(budget: &Budget, wanted: u64) -> Self {
        WriteError::Budget { wanted, used: budget.used(), limit: budget.limit() }
    }

    pub(super) fn value(key: &Key, error: ArchiveError) -> Self {
        WriteError::Value { key: key.clone(), error }
    }

    /// The status for whoever asked.
    pub fn status(&self) -> Status {
        match self {
            WriteError::Budget { .. }
            | WriteError::Memory(_)
            | WriteError::Held { .. }
            | WriteError::TooLarge { .. } => Status::ERR_OUT_OF_RESOURCE,
            WriteError::Value { error, .. } => error.status(),
            WriteError::Rank { .. } | WriteError::Scope { .. } => Status::ERR_BAD_PARAM,
            WriteError::Damaged(_) | WriteError::Attach(_) => Status::ERROR,
        }
    }
}
