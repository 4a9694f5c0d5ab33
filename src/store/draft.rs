//! Drafts: large commits, composed and written by another thread while the writer serves others.
//!
//! The writer makes a draft, another thread [composes](Draft::compose) the records, the writer takes blocks for them, another
//! thread [writes](Draft::write) them, and the writer publishes: nobody sees anything before that. The writer's own parts are
//! short. The rank's records may move to new segments meanwhile, and then the draft is not the way to publish what it is
//! about any more: the writer sees that, and so does who composes.
use std::fmt;

use instanton_layout::job::Reference;

use super::datum::Entry;
use super::error::WriteError;
use super::modex::records::{Next, Snapshot};
use super::modex::table::{Prepared, Table};
use super::modex::visibility::Visibility;
use crate::data::{Posted, Rank};

/// One audience's part of a draft.
pub(super) struct Side {
    pub(super) snapshot: Snapshot,
    /// The rank's newest record when the snapshot was made, and its version.
    pub(super) before: Option<(Reference, u64)>,
    pub(super) next: Option<Next>,
    pub(super) prepared: Option<Prepared>,
}

impl Side {
    pub(super) fn new(table: &Table, rank: Rank) -> Result<Self, WriteError> {
        Ok(Side { before: table.newest(rank)?, snapshot: table.snapshot()?, next: None, prepared: None })
    }

    fn write(&mut self) -> Result<(), WriteError> {
        let unwritten = self.prepared.as_mut().and_then(|prepared| prepared.unwritten.take());
        unwritten.map_or(Ok(()), |unwritten| unwritten.write())
    }
}

/// A commit on its way.
pub struct Draft {
    /// Job that it is made for.
    pub(super) job: u64,
    /// Its number among the job's drafts and batches.
    pub(super) number: u64,
    pub(super) rank: Rank,
    pub(super) is_local: bool,
    pub(super) is_composed: bool,
    /// The entries of the commit.
    pub entries: Vec<Posted>,
    pub(super) visible: Side,
    pub(super) hidden: Side,
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Draft({}, {} entries)", self.rank, self.entries.len())
    }
}

impl Draft {
    /// The rank whose commit it is.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Composes the records, unless those that it is to read have moved: it is not [up to
    /// date](super::JobWriter::is_up_to_date) then, and [`finish`](super::JobWriter::finish) composes them.
    ///
    /// # Errors
    /// [`WriteError`] for entries that cannot be stored.
    pub fn compose(&mut self) -> Result<(), WriteError> {
        match self.compose_sides() {
            // The snapshot has not all that leads to them, or their blocks have become others'. The writer, who has,
            // tells that from damage.
            Err(WriteError::Damaged(_)) => Ok(()),
            composed => composed,
        }
    }

    fn compose_sides(&mut self) -> Result<(), WriteError> {
        let entries: Vec<Entry<'_>> = self.entries.iter().map(Entry::from).collect();
        let changed = match self.is_local {
            true => Visibility::of_local(self.rank, &entries, self.visible.snapshot.records(), usize::MAX)?,
            false => Visibility::of_remote(self.rank, &entries)?,
        };
        self.visible.next = self.visible.snapshot.records().next(self.rank, &changed.here(), usize::MAX)?;
        self.hidden.next = self.hidden.snapshot.records().next(self.rank, &changed.elsewhere(), usize::MAX)?;
        self.is_composed = true;
        Ok(())
    }

    /// Returns whether the record of one audience is composed and written, so that it need only be published.
    pub(super) fn is_ready(&self, side: &Side) -> bool {
        let is_written = side.prepared.as_ref().is_none_or(|prepared| prepared.unwritten.is_none());
        self.is_composed && side.next.is_none() && is_written
    }

    /// Writes the records to the blocks that were taken for them.
    ///
    /// # Errors
    /// [`WriteError`] when the system has no memory for them.
    pub fn write(&mut self) -> Result<(), WriteError> {
        self.visible.write()?;
        self.hidden.write()
    }
}
