//! Moves of records to new segments, a little at a time: [`crate::store::moving`].
use std::collections::BTreeSet;

use super::JobWriter;
use crate::data::Rank;
use crate::store::error::WriteError;
use crate::store::modex::table::{Found, Table};
use crate::store::moving::{Move, Moving, NextMove};

/// Bytes of records that move together, unless one rank has more.
const MOST: usize = 1 << 20;

impl JobWriter {
    /// Has records move by [`next_move`](Self::next_move) alone from now on, not as part of a commit.
    pub fn move_by_steps(&mut self) {
        self.moves_by_steps = true;
    }

    /// Returns whether records are to move, and [`next_move`](Self::next_move) says which.
    pub fn is_to_move(&self) -> bool {
        let is_to = |table: &Table| table.is_moving() || table.is_scattered();
        self.moves_by_steps && self.batches == 0 && (is_to(&self.visible) || is_to(&self.hidden))
    }

    fn table(&mut self, is_hidden: bool) -> &mut Table {
        if is_hidden { &mut self.hidden } else { &mut self.visible }
    }

    /// Begins to move records where they are scattered, and returns some that are to move. Each [`Move`] ends with
    /// [`finish_move`](Self::finish_move) or [`give_up_move`](Self::give_up_move), before the next is asked for.
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read, or there is no memory.
    pub fn next_move(&mut self) -> Result<NextMove, WriteError> {
        if !self.is_to_move() {
            return Ok(NextMove::Nothing);
        }
        for is_hidden in [true, false] {
            let (newest, oldest_draft, last_draft) =
                (self.visible.newest_version(), self.drafts.oldest(), self.drafts.last());
            let table = self.table(is_hidden);
            if !table.is_moving() && !table.begin_move(newest, last_draft) {
                continue;
            }
            if !table.goes_on(oldest_draft) {
                continue;
            }
            let (found, pages) = table.find_old(MOST, oldest_draft)?;
            if !is_hidden {
                self.announce(&self.visible.set)?;
            }
            self.table(is_hidden).publish_pages(pages);
            match found {
                Found::Ranks(ranks) => return Ok(NextMove::Ranks(self.moving(is_hidden, &ranks)?)),
                Found::More => return Ok(NextMove::More),
                Found::Unsure if !self.table(is_hidden).goes_on(oldest_draft) => {}
                Found::Unsure => return Ok(NextMove::More),
                Found::Nothing => self.end_move(is_hidden)?,
            }
        }
        Ok(NextMove::Nothing)
    }

    fn moving(&mut self, is_hidden: bool, ranks: &[Rank]) -> Result<Move, WriteError> {
        let snapshot = self.table(is_hidden).frozen(ranks)?;
        let departure = self.departures.begin(self.words().epoch());
        let ranks = ranks.iter().map(|rank| Moving { rank: *rank, next: None, prepared: None }).collect();
        Ok(Move { job: self.reader.job_id(), is_hidden, departure, snapshot, ranks })
    }

    fn end_move(&mut self, is_hidden: bool) -> Result<(), WriteError> {
        let Some((set, newest)) = self.table(is_hidden).end_move() else { return Ok(()) };
        if is_hidden {
            drop(set);
            return Ok(());
        }
        self.wait_for_readers(set, newest)
    }

    /// Returns whether a move is one of this job.
    pub fn is_own_move(&self, of: &Move) -> bool {
        of.job == self.reader.job_id()
    }

    /// Takes blocks for records that are composed.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room, or it is a move of another writer.
    pub fn reserve_move(&mut self, of: &mut Move) -> Result<(), WriteError> {
        if !self.is_own_move(of) {
            return Err(WriteError::Foreign("move"));
        }
        let table = self.table(of.is_hidden);
        for moving in &mut of.ranks {
            let next = moving.next.take().filter(|next| table.newest(moving.rank).is_ok_and(|now| now == next.before));
            if let Some(mut next) = next {
                moving.prepared = Some(table.reserve(moving.rank, &mut next, &mut BTreeSet::new())?);
            }
        }
        if of.is_hidden { Ok(()) } else { self.announce(&self.visible.set) }
    }

    /// Publishes records that are written, but those of ranks that have posted something meanwhile.
    ///
    /// # Errors
    /// [`WriteError`] when the job's words are damaged, or it is a move of another writer.
    pub fn finish_move(&mut self, mut of: Move) -> Result<(), WriteError> {
        if !self.is_own_move(&of) {
            return Err(WriteError::Foreign("move"));
        }
        // Data of other nodes was prepared to continue the records that there are.
        let may_publish = self.batches == 0;
        let mut result = Ok(());
        for moving in &mut of.ranks {
            let Some(prepared) = moving.prepared.take() else { continue };
            let table = self.table(of.is_hidden);
            let is_written = prepared.unwritten.is_none();
            if !may_publish || result.is_err() || !is_written || !table.is_up_to_date(&prepared) {
                table.discard(prepared);
                continue;
            }
            let (seen, hidden) = if of.is_hidden { (None, Some(prepared)) } else { (Some(prepared), None) };
            result = self.publish(seen, hidden);
        }
        self.give_up_move(of);
        result
    }

    /// Gives up a move: nothing of it has been seen. One of another writer is only dropped.
    pub fn give_up_move(&mut self, of: Move) {
        if !self.is_own_move(&of) {
            return;
        }
        for prepared in of.ranks.into_iter().filter_map(|moving| moving.prepared) {
            self.table(of.is_hidden).discard(prepared);
        }
        self.departures.end(of.departure).into_iter().for_each(|block| self.hidden.discard_block(block));
    }
}
