//! Records that move to new segments.
use super::JobStore;
use crate::store::{Move, NextMove, WriteError};

impl JobStore {
    /// Returns whether records are to move.
    pub fn is_to_move(&self) -> bool {
        self.writer.is_to_move()
    }

    /// Returns the records that are to move next.
    pub fn next_move(&mut self) -> Result<NextMove, WriteError> {
        self.writer.next_move()
    }

    /// Returns whether a move is one of this job.
    pub fn is_own_move(&self, ranks: &Move) -> bool {
        self.writer.is_own_move(ranks)
    }

    /// Takes room for records that are composed.
    pub fn reserve_move(&mut self, ranks: &mut Move) -> Result<(), WriteError> {
        self.writer.reserve_move(ranks)
    }

    /// Publishes records that are written.
    pub fn finish_move(&mut self, ranks: Move) -> Result<(), WriteError> {
        self.writer.finish_move(ranks)
    }

    /// Gives up a move.
    pub fn give_up_move(&mut self, ranks: Move) {
        self.writer.give_up_move(ranks);
    }
}
