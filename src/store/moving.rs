//! Moves: live records that are written anew in new segments, so that the memory of scattered ones comes back.
//!
//! A move goes on beside commits, a little at a time. New blocks are cut off new segments from its beginning on; nothing
//! is written to the old ones any more. Each [`Move`] has the records of some ranks: another thread [composes](Move::compose)
//! them, the writer takes blocks for them, another thread [writes](Move::write) them, and the writer publishes them, rank by
//! rank. Readers find the same values before and after. A rank that has posted something meanwhile is moved another time.
//! When no rank has records in the old segments, these wait for their readers as a whole.
use super::error::WriteError;
use super::modex::records::{Next, Snapshot};
use super::modex::table::Prepared;
use crate::data::Rank;

/// A rank whose records move.
pub(super) struct Moving {
    pub(super) rank: Rank,
    pub(super) next: Option<Next>,
    pub(super) prepared: Option<Prepared>,
}

/// Ranks whose records move together.
pub struct Move {
    /// Job that they are of.
    pub(super) job: u64,
    /// True for records that are hidden on this node.
    pub(super) is_hidden: bool,
    /// Number of the departure that keeps the blocks from being written again.
    pub(super) departure: u64,
    pub(super) snapshot: Snapshot,
    pub(super) ranks: Vec<Moving>,
}

impl std::fmt::Debug for Move {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Move({} ranks)", self.ranks.len())
    }
}

impl Move {
    /// Composes the records.
    ///
    /// # Errors
    /// [`WriteError`] when the old ones cannot be read.
    pub fn compose(&mut self) -> Result<(), WriteError> {
        for moving in &mut self.ranks {
            moving.next = self.snapshot.records().whole(moving.rank)?;
        }
        Ok(())
    }

    /// Writes the records to the blocks that were taken for them.
    ///
    /// # Errors
    /// [`WriteError`] when the system has no memory for them.
    pub fn write(&mut self) -> Result<(), WriteError> {
        let unwritten = |moving: &mut Moving| moving.prepared.as_mut().and_then(|prepared| prepared.unwritten.take());
        self.ranks.iter_mut().filter_map(unwritten).try_for_each(|unwritten| unwritten.write())
    }
}

/// The next step of moves.
#[derive(Debug)]
pub enum NextMove {
    /// The records of these ranks are to move.
    Ranks(Move),
    /// There may be more to move: this was a part of the way.
    More,
    /// Nothing is to move, or not now.
    Nothing,
}
