//! Batches: what ranks of other nodes have posted, written as a whole before any of it is published.
//!
//! Nobody sees anything of a batch that cannot be stored: each part is [prepared](super::JobWriter::prepare) first, and
//! publishing a part that was prepared takes no memory. A large part is a [draft](super::Draft) that another thread
//! composes and writes. Records do not move to new segments while there is a batch.
use std::collections::{BTreeSet, VecDeque};

use instanton_layout::job::Reference;

use super::draft::Draft;
use super::error::WriteError;
use super::modex::table::Prepared;
use crate::data::{Posted, Rank};

/// Data that a rank has posted, written and not yet published.
pub(super) struct Part {
    pub(super) rank: Rank,
    pub(super) entries: Vec<Posted>,
    /// The rank's newest record when this was prepared, and its version.
    pub(super) before: Option<(Reference, u64)>,
    /// The new record; none where nothing changes.
    pub(super) prepared: Option<Prepared>,
}

/// A large part of a batch, which another thread composes and writes.
#[derive(Debug)]
pub struct DraftedPart {
    pub(super) draft: Draft,
}

impl DraftedPart {
    /// The rank that has posted it.
    pub fn rank(&self) -> Rank {
        self.draft.rank()
    }

    /// Composes the records.
    ///
    /// # Errors
    /// [`WriteError`] for entries that cannot be stored.
    pub fn compose(&mut self) -> Result<(), WriteError> {
        self.draft.compose()
    }

    /// Writes the records to the blocks that were taken for them.
    ///
    /// # Errors
    /// [`WriteError`] when the system has no memory for them.
    pub fn write(&mut self) -> Result<(), WriteError> {
        self.draft.write()
    }
}

/// Data of ranks of other nodes, on its way into a job.
pub struct Batch {
    /// Job that it is made for.
    pub(super) job: u64,
    /// Its number among the job's drafts and batches.
    pub(super) number: u64,
    pub(super) parts: VecDeque<Part>,
    /// Pages of the rank table that parts bring; those come before other parts that need them.
    pub(super) pages: BTreeSet<usize>,
}

/// A part of a batch that has left it.
#[derive(Debug)]
pub struct Published {
    /// The rank that has posted this.
    pub rank: Rank,
    /// Entries that it has posted.
    pub entries: Vec<Posted>,
    /// False where the rank's records have changed since the part was prepared: it is to be stored anew.
    pub is_current: bool,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} parts)", self.parts.len())
    }
}
