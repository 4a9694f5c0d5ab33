//! Drafts and batches: data that is written before it is published.
//!
//! A draft is a large commit, composed and written by another thread; a batch is what ranks of other nodes have posted.
//! Records move to new segments beside drafts, which are composed anew where theirs have, but not while there is a batch.
use std::collections::{BTreeSet, VecDeque};

use super::JobWriter;
use crate::data::{Posted, Rank};
use crate::store::batch::{Batch, DraftedPart, Part, Published};
use crate::store::datum::Entry;
use crate::store::draft::{Draft, Side};
use crate::store::error::WriteError;
use crate::store::modex::table::Table;
use crate::store::modex::visibility::Visibility;

/// Drafts and batches that are under way, by number. Numbers grow.
#[derive(Default)]
pub(super) struct UnderWay {
    numbers: BTreeSet<u64>,
    last: u64,
}

impl UnderWay {
    fn begin(&mut self) -> u64 {
        self.last += 1;
        self.numbers.insert(self.last);
        self.last
    }

    fn end(&mut self, number: u64) {
        self.numbers.remove(&number);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Number of the one that was begun first.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.numbers.first().copied()
    }

    /// Number of the one that was begun last, be it over.
    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

impl JobWriter {
    /// Begins a draft of what [`update`](Self::update) would do in one go. It ends with [`finish`](Self::finish) or
    /// [`give_up`](Self::give_up).
    ///
    /// # Errors
    /// [`WriteError`] when there is no such rank, or no room.
    pub fn draft(&mut self, rank: Rank, entries: Vec<Posted>) -> Result<Draft, (WriteError, Vec<Posted>)> {
        if let Err(error) = self.check_rank(rank) {
            return Err((error, entries));
        }
        let sides =
            self.make_way().and_then(|()| Ok((Side::new(&self.visible, rank)?, Side::new(&self.hidden, rank)?)));
        let (visible, hidden) = match sides {
            Ok(sides) => sides,
            Err(error) => return Err((error, entries)),
        };
        let (job, number, is_local) = (self.reader.job_id(), self.drafts.begin(), self.is_local(rank));
        Ok(Draft { job, number, rank, is_local, is_composed: false, entries, visible, hidden })
    }

    /// Returns whether a draft is one of this job.
    pub fn is_own(&self, draft: &Draft) -> bool {
        draft.job == self.reader.job_id()
    }

    /// Returns whether a batch is one of this job.
    pub fn is_own_batch(&self, batch: &Batch) -> bool {
        batch.job == self.reader.job_id()
    }

    /// Takes blocks for the records of a draft.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room, or it is a draft of another writer.
    pub fn reserve(&mut self, draft: &mut Draft) -> Result<(), WriteError> {
        if !self.is_own(draft) {
            return Err(WriteError::Foreign("draft"));
        }
        if let Some(mut next) = draft.visible.next.take() {
            draft.visible.prepared = Some(self.visible.reserve(draft.rank, &mut next, &mut BTreeSet::new())?);
        }
        self.announce(&self.visible.set)?;
        if let Some(mut next) = draft.hidden.next.take() {
            draft.hidden.prepared = Some(self.hidden.reserve(draft.rank, &mut next, &mut BTreeSet::new())?);
        }
        Ok(())
    }

    /// Returns whether the rank's records are still those that a draft was begun with.
    pub fn is_up_to_date(&self, draft: &Draft) -> bool {
        let is_same = |table: &Table, side: &Side| table.newest(draft.rank).is_ok_and(|now| now == side.before);
        let is_current =
            |table: &Table, side: &Side| is_same(table, side) && side.prepared.iter().all(|of| table.is_up_to_date(of));
        is_current(&self.visible, &draft.visible) && is_current(&self.hidden, &draft.hidden)
    }

    /// Publishes a draft, and returns its entries. One whose records are not all composed and written, or whose rank
    /// has other records since it was begun, is given up, and its entries are stored as by [`update`](Self::update).
    ///
    /// # Errors
    /// [`WriteError`], with the entries.
    pub fn finish(&mut self, mut draft: Draft) -> Result<Vec<Posted>, (WriteError, Vec<Posted>)> {
        if !self.is_own(&draft) {
            return Err((WriteError::Foreign("draft"), draft.entries));
        }
        let is_ready = draft.is_ready(&draft.visible) && draft.is_ready(&draft.hidden);
        if !is_ready || !self.is_up_to_date(&draft) {
            let rank = draft.rank;
            let entries = self.give_up(draft);
            return match self.update(rank, &entries) {
                Ok(()) => Ok(entries),
                Err(error) => Err((error, entries)),
            };
        }
        self.drafts.end(draft.number);
        let published = self.publish(draft.visible.prepared.take(), draft.hidden.prepared.take());
        if draft.is_local {
            self.unsent.add_all(draft.rank);
        }
        match published {
            Ok(()) => Ok(draft.entries),
            Err(error) => Err((error, draft.entries)),
        }
    }

    /// Gives up a draft: nothing of it has been seen. Returns its entries, which is all that is done with one of
    /// another writer.
    pub fn give_up(&mut self, mut draft: Draft) -> Vec<Posted> {
        if !self.is_own(&draft) {
            return draft.entries;
        }
        self.drafts.end(draft.number);
        draft.visible.prepared.take().into_iter().for_each(|prepared| self.visible.discard(prepared));
        draft.hidden.prepared.take().into_iter().for_each(|prepared| self.hidden.discard(prepared));
        draft.entries
    }

    /// Begins a batch of what ranks of other nodes have posted. It ends with [`end_batch`](Self::end_batch).
    ///
    /// # Errors
    /// [`WriteError`] when there is no room.
    pub fn batch(&mut self) -> Result<Batch, WriteError> {
        self.make_way()?;
        self.batches += 1;
        Ok(Batch {
            job: self.reader.job_id(),
            number: self.drafts.begin(),
            parts: VecDeque::new(),
            pages: BTreeSet::new(),
        })
    }

    /// Writes what a rank of another node has posted, so that it need only be published.
    ///
    /// # Errors
    /// [`WriteError`], with the entries. The batch can only be ended then.
    pub fn prepare(
        &mut self,
        batch: &mut Batch,
        rank: Rank,
        entries: Vec<Posted>,
    ) -> Result<(), (WriteError, Vec<Posted>)> {
        if !self.is_own_batch(batch) {
            return Err((WriteError::Foreign("batch"), entries));
        }
        match self.prepare_part(batch, rank, &entries) {
            Ok(part) => batch.parts.push_back(Part { entries, ..part }),
            Err(error) => return Err((error, entries)),
        }
        Ok(())
    }

    /// Begins a large part of a batch, which another thread is to compose. It ends with [`add`](Self::add) or
    /// [`give_up_part`](Self::give_up_part).
    ///
    /// # Errors
    /// [`WriteError`], with the entries. The batch can only be ended then.
    pub fn draft_part(&mut self, rank: Rank, entries: Vec<Posted>) -> Result<DraftedPart, (WriteError, Vec<Posted>)> {
        Ok(DraftedPart { draft: self.draft(rank, entries)? })
    }

    /// Takes blocks for the records of a part that is composed, which another thread is to write then.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room, or batch or part are of another writer.
    pub fn reserve_part(&mut self, batch: &mut Batch, part: &mut DraftedPart) -> Result<(), WriteError> {
        self.check_part(batch, part)?;
        let side = &mut part.draft.visible;
        if let Some(mut next) = side.next.take() {
            side.prepared = Some(self.visible.reserve(part.draft.rank, &mut next, &mut batch.pages)?);
        }
        self.announce(&self.visible.set)
    }

    /// Adds a part that is written to its batch; one that is not is [prepared](Self::prepare) instead.
    ///
    /// # Errors
    /// [`WriteError`], with the entries, as of [`prepare`](Self::prepare).
    pub fn add(&mut self, batch: &mut Batch, part: DraftedPart) -> Result<(), (WriteError, Vec<Posted>)> {
        if let Err(error) = self.check_part(batch, &part) {
            return Err((error, self.give_up_part(part)));
        }
        if !part.draft.is_ready(&part.draft.visible) {
            let (rank, entries) = (part.rank(), self.give_up_part(part));
            return self.prepare(batch, rank, entries);
        }
        let DraftedPart { mut draft } = part;
        self.drafts.end(draft.number);
        let (before, prepared) = (draft.visible.before, draft.visible.prepared.take());
        batch.parts.push_back(Part { rank: draft.rank, entries: draft.entries, before, prepared });
        Ok(())
    }

    fn check_part(&self, batch: &Batch, part: &DraftedPart) -> Result<(), WriteError> {
        match (self.is_own_batch(batch), self.is_own_part(part)) {
            (false, _) => Err(WriteError::Foreign("batch")),
            (true, false) => Err(WriteError::Foreign("part")),
            (true, true) => Ok(()),
        }
    }

    /// Gives up a part of a batch. Returns its entries. The batch can only be ended then.
    pub fn give_up_part(&mut self, part: DraftedPart) -> Vec<Posted> {
        self.give_up(part.draft)
    }

    /// Returns whether a part is for a batch of this job.
    pub fn is_own_part(&self, part: &DraftedPart) -> bool {
        self.is_own(&part.draft)
    }

    fn prepare_part(&mut self, batch: &mut Batch, rank: Rank, entries: &[Posted]) -> Result<Part, WriteError> {
        self.check_rank(rank)?;
        let before = self.visible.newest(rank)?;
        let entries: Vec<Entry<'_>> = entries.iter().map(Entry::from).collect();
        let changed = Visibility::of_remote(rank, &entries)?;
        let prepared = self.visible.prepare(rank, &changed.here(), &mut batch.pages, usize::MAX)?;
        if let Err(error) = self.announce(&self.visible.set) {
            prepared.into_iter().for_each(|prepared| self.visible.discard(prepared));
            return Err(error);
        }
        Ok(Part { rank, entries: Vec::new(), before, prepared })
    }

    /// Publishes the part of a batch that was prepared first. `None` where there is none left.
    ///
    /// # Errors
    /// [`WriteError`] when the job's words are damaged, or it is a batch of another writer.
    pub fn publish_next(&mut self, batch: &mut Batch) -> Result<Option<Published>, WriteError> {
        if !self.is_own_batch(batch) {
            return Err(WriteError::Foreign("batch"));
        }
        let Some(Part { rank, entries, before, prepared }) = batch.parts.pop_front() else { return Ok(None) };
        // A part that another thread has composed may have seen a change that came before that.
        let seen = |newest| newest == before && prepared.iter().all(|prepared| self.visible.is_up_to_date(prepared));
        let is_current = seen(self.visible.newest(rank)?);
        match is_current {
            true => self.publish(prepared, None)?,
            false => prepared.into_iter().for_each(|prepared| self.visible.discard(prepared)),
        }
        Ok(Some(Published { rank, entries, is_current }))
    }

    /// Ends a batch. Nobody has seen what is not published by then, and nobody will. One of another writer is only
    /// dropped.
    pub fn end_batch(&mut self, batch: Batch) {
        if !self.is_own_batch(&batch) {
            return;
        }
        self.drafts.end(batch.number);
        self.batches -= 1;
        batch.parts.into_iter().filter_map(|part| part.prepared).for_each(|prepared| self.visible.discard(prepared));
    }
}
