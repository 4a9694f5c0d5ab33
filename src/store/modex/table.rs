//! The records of each rank, in a set of segments, and their change by a commit.
//!
//! A new record is composed of what is there ([`Records`]), written to a block of its own, and published.
use std::collections::BTreeSet;
use std::sync::Arc;

use instanton_layout::Malformed;
use instanton_layout::chain;
use instanton_layout::job::{self, JobWords, Reference};
use instanton_layout::record;
use instanton_layout::words::{RawWords, RawWordsMut};

use super::heap::{Block, DataSegment, Maker, SegmentSet, Unwritten};
use super::records::{Changes, Next, Records, Snapshot, Stored};
use crate::data::{Key, Rank, Scope, Value};
use crate::store::budget::{Budget, Share};
use crate::store::error::{ReadError, WriteError};
use crate::store::segment::Label;
use crate::sys::memory::Mapping;

/// Number of the private segment with pages of the rank table in a snapshot; no segment of a job has it.
const FROZEN: u32 = u32::MAX;

/// Records by rank.
pub(in crate::store) struct Table {
    /// Segments that blocks are cut off.
    pub(in crate::store) set: SegmentSet,
    /// Older ones, while records move from them to those.
    old: Option<Old>,
    /// Words with the directory of the rank table: the job segment, or what nobody else sees.
    directory: Arc<Mapping>,
    maker: Maker,
}

/// Segments that records move from. Nothing is written to them but references in pages of the rank table.
struct Old {
    set: SegmentSet,
    /// The newest version of a record when the move began.
    newest: u64,
    /// The next rank to be looked at, and whether one before it was found in old segments.
    rank: u32,
    has_found: bool,
    /// Number of the last draft that may have taken blocks in old segments.
    last_draft: u64,
    /// True if none of these was under way when that look began.
    is_sure: bool,
    /// True if nothing was found, and one of these may still publish something.
    waits: bool,
}

impl Old {
    /// Returns whether a draft is under way that may have blocks in them, given the number of the oldest one.
    fn has_drafts(&self, oldest_draft: Option<u64>) -> bool {
        oldest_draft.is_some_and(|oldest| oldest <= self.last_draft)
    }
}

/// Ranks with records in old segments.
pub(in crate::store) enum Found {
    Ranks(Vec<Rank>),
    /// None among those that were looked at.
    More,
    /// None, but a draft that was under way may have published some since.
    Unsure,
    /// None at all.
    Nothing,
}

/// A page of the rank table by its number, and its new place.
pub(in crate::store) type NewPage = (usize, Reference);

/// Bytes that the records of a rank may have together with a new one, so that there is room for it though others have
/// taken all that is not kept.
const PROMISED: u64 = 32 << 10;
/// Bytes that are kept for each rank: a record that grows by little leaves blocks of all sizes behind, on either side.
pub(in crate::store) const KEPT: u64 = 8 * PROMISED;

/// Ranks that are looked at in one step.
const LOOKED_AT: u32 = 2048;

/// A commit that is written and not yet published.
pub(in crate::store) struct Prepared {
    rank: Rank,
    /// The newest record from then on, if the rank has anything.
    head: Option<Reference>,
    /// The new one, which it is unless everything new about it is what is gone.
    new: Option<Block>,
    /// A page of the rank table, if there is none for this rank yet.
    page: Option<Block>,
    /// Records that are not referred to any more afterwards.
    replaced: Vec<Block>,
    /// The newest record so far, and its version.
    before: Option<(Reference, u64)>,
    /// The new record, until it is written.
    pub(in crate::store) unwritten: Option<Unwritten>,
}

impl Records for Table {
    fn words(&self, segment: u32) -> Option<RawWords<'_>> {
        Some(self.segment(segment)?.memory.mapping.words())
    }

    fn directory(&self) -> JobWords<RawWords<'_>> {
        JobWords::new(self.directory.words())
    }
}

impl Table {
    /// No records, for the job with that number.
    pub(in crate::store) fn new(job: u64, label: Label, directory: Arc<Mapping>, budget: &Budget) -> Self {
        let maker = Maker { job, label, budget: budget.clone(), last_number: 0, last_version: 0 };
        Self { set: SegmentSet::default(), old: None, directory, maker }
    }

    fn segment(&self, number: u32) -> Option<&DataSegment> {
        self.set.segment(number).or_else(|| self.old.as_ref()?.set.segment(number))
    }

    /// All segments that records lie in, by number.
    pub(in crate::store) fn segments(&self) -> impl Iterator<Item = &DataSegment> {
        self.old.iter().flat_map(|old| &old.set.segments).chain(&self.set.segments)
    }

    /// Bytes of all segments.
    pub(in crate::store) fn bytes(&self) -> u64 {
        self.segments().map(|segment| segment.memory.len()).sum()
    }

    /// Returns whether records had better move.
    pub(in crate::store) fn is_scattered(&self) -> bool {
        self.set.is_scattered(&self.maker.budget)
    }

    fn words_mut(&self, at: Reference) -> Option<RawWordsMut<'_>> {
        Some(self.segment(at.segment)?.memory.mapping.words_mut())
    }

    /// Takes a block out of use that nothing published refers to since `epoch` ended. In old segments nothing is used
    /// again.
    pub(in crate::store) fn retire(&mut self, block: Block, epoch: u64) {
        if self.set.has(block) {
            self.set.retire(block, epoch);
        }
    }

    /// Takes back a block that no reader is led to.
    pub(in crate::store) fn discard_block(&mut self, block: Block) {
        if self.set.has(block) {
            self.set.discard(block);
        }
    }

    /// Returns whether a move does not wait, or no more, for the end of drafts that have blocks in old segments; given the
    /// number of the oldest draft.
    pub(in crate::store) fn goes_on(&mut self, oldest_draft: Option<u64>) -> bool {
        let Some(old) = &mut self.old else { return true };
        old.waits &= old.has_drafts(oldest_draft);
        !old.waits
    }

    /// Returns whether records move to new segments.
    pub(in crate::store) fn is_moving(&self) -> bool {
        self.old.is_some()
    }

    /// Begins to move records, if they are scattered and there is room for a second copy. `newest` is the newest version of
    /// a record that readers know, `last_draft` the number of the last draft so far.
    pub(in crate::store) fn begin_move(&mut self, newest: u64, last_draft: u64) -> bool {
        let begins = self.is_scattered() && self.maker.budget.left() >= self.set.needed_to_move(&self.maker.budget);
        if begins {
            self.old = Some(Old {
                set: std::mem::take(&mut self.set),
                newest,
                rank: 0,
                has_found: false,
                last_draft,
                is_sure: false,
                waits: false,
            });
        }
        begins
    }

    /// Looks for ranks with records in old segments, up to so many bytes, and copies pages of the rank table that lie there.
    /// The pages are still to be [published](Self::publish_pages). A look from the first rank to the last is sure of what it
    /// finds where no draft was under way when it began that has blocks in these.
    ///
    /// # Errors
    /// [`WriteError`] when records cannot be read, or there is no room for a page.
    pub(in crate::store) fn find_old(
        &mut self,
        most: usize,
        oldest_draft: Option<u64>,
    ) -> Result<(Found, Vec<NewPage>), WriteError> {
        let Some(old) = &mut self.old else { return Ok((Found::Nothing, Vec::new())) };
        if old.rank == 0 {
            old.is_sure = !old.has_drafts(oldest_draft);
        }
        let (begin, last_old) = (old.rank, old.set.segments.last().map_or(0, |segment| segment.number));
        let (mut found, mut pages, mut bytes) = (Vec::new(), Vec::new(), 0);
        let (mut rank, ranks) = (begin, self.job().ranks());
        while rank < ranks && rank - begin < LOOKED_AT && bytes < most {
            let index = job::page_of(rank);
            let Some(page) = self.job().page(index) else {
                rank = ((index + 1) * job::PAGE) as u32;
                continue;
            };
            let is_new = |(of, _): &NewPage| *of == index;
            if page.segment <= last_old && !pages.iter().any(is_new) {
                pages.push((index, self.copy_page(index, page)?));
            }
            let (mut segments, of_rank) = self.records().places(Rank(rank))?;
            if segments.any(|segment| segment <= last_old) {
                bytes += of_rank;
                found.push(Rank(rank));
            }
            rank += 1;
        }
        let Some(old) = &mut self.old else { return Ok((Found::Nothing, pages)) };
        old.rank = rank;
        old.has_found |= !found.is_empty() || !pages.is_empty();
        let found = match rank < ranks {
            _ if !found.is_empty() => Found::Ranks(found),
            true => Found::More,
            false => {
                old.rank = 0;
                match std::mem::take(&mut old.has_found) {
                    true => Found::More,
                    false if old.is_sure => Found::Nothing,
                    false => {
                        old.waits = true;
                        Found::Unsure
                    }
                }
            }
        };
        Ok((found, pages))
    }

    /// Copies a page of the rank table.
    fn copy_page(&mut self, index: usize, page: Reference) -> Result<Reference, WriteError> {
        let new = self.set.table_page(&mut self.maker)?.at;
        let damaged = || ReadError::from(Malformed::Owner);
        let from = self.words_mut(page).ok_or_else(damaged)?.reader();
        let to = self.words_mut(new).ok_or_else(damaged)?;
        for rank in (index * job::PAGE) as u32..((index + 1) * job::PAGE) as u32 {
            job::publish(&to, new, rank, job::record(&from, page, rank));
        }
        Ok(new)
    }

    /// Leads readers to pages whose segments they know.
    pub(in crate::store) fn publish_pages(&mut self, pages: Vec<NewPage>) {
        pages.into_iter().for_each(|(index, at)| self.job().publish_page(index, at));
    }

    /// Ends a move: nothing refers to the old segments any more. Returns them, with the newest version of a record when
    /// it began.
    pub(in crate::store) fn end_move(&mut self) -> Option<(SegmentSet, u64)> {
        self.old.take().map(|old| (old.set, old.newest))
    }

    /// The version of the newest record.
    pub(in crate::store) fn newest_version(&self) -> u64 {
        self.maker.last_version
    }

    fn job(&self) -> JobWords<RawWordsMut<'_>> {
        JobWords::new(self.directory.words_mut())
    }

    /// The records, to be read.
    pub(in crate::store) fn records(&self) -> &dyn Records {
        self
    }

    /// The value of a rank's key, with its scope.
    pub(in crate::store) fn get(&self, rank: Rank, key: &Key) -> Result<Option<(Scope, Value)>, ReadError> {
        self.records().get(rank, key)
    }

    /// The records as they are now, to be read by another thread. Changes since then are found by the caller that
    /// [publishes](Self::publish) what was made of it.
    ///
    /// # Errors
    /// [`WriteError`] when there is no memory for the directory.
    pub(in crate::store) fn snapshot(&self) -> Result<Snapshot, WriteError> {
        let segments = self.segments().map(|of| (of.number, of.memory.mapping.clone())).collect();
        // A later one may lead to segments that are not among these.
        let directory = self.directory.copy().map_err(|error| WriteError::Memory(Box::new(error)))?;
        Ok(Snapshot { segments, directory })
    }

    /// The records of some ranks as they are now, to be read by another thread: what is published meanwhile does not lead it
    /// anywhere else. Their blocks must not be written again before it has read.
    ///
    /// # Errors
    /// [`WriteError`] when there is no memory for the directory and the ranks' pages of the rank table.
    pub(in crate::store) fn frozen(&self, ranks: &[Rank]) -> Result<Snapshot, WriteError> {
        let mut snapshot = self.snapshot()?;
        let indices: BTreeSet<usize> = ranks.iter().map(|rank| job::page_of(rank.0)).collect();
        let pages = Mapping::private(indices.len() * job::PAGE * 8).map_err(WriteError::memory)?;
        let (words, directory) = (pages.words_mut(), JobWords::new(snapshot.directory.words_mut()));
        for (at, index) in indices.into_iter().enumerate() {
            let Some(page) = self.job().page(index) else { continue };
            let place = Reference { segment: FROZEN, word: (at * job::PAGE) as u32 };
            let from = self.words_mut(page).ok_or(ReadError::from(Malformed::Owner))?.reader();
            for rank in (index * job::PAGE) as u32..((index + 1) * job::PAGE) as u32 {
                job::publish(&words, place, rank, job::record(&from, page, rank));
            }
            directory.publish_page(index, place);
        }
        snapshot.segments.push((FROZEN, Arc::new(pages)));
        Ok(snapshot)
    }

    /// Writes what changes for a rank to a block of its own, which nothing refers to yet. `None` where nothing changes.
    /// Of `pages` of the rank table others have taken blocks, and will have published these before. At most `most` bytes
    /// of older records are written anew.
    pub(in crate::store) fn prepare(
        &mut self,
        rank: Rank,
        changes: &Changes<'_>,
        pages: &mut BTreeSet<usize>,
        most: usize,
    ) -> Result<Option<Prepared>, WriteError> {
        let Some(mut next) = self.records().next(rank, changes, most)? else { return Ok(None) };
        let mut prepared = self.reserve(rank, &mut next, pages)?;
        match prepared.unwritten.take().map_or(Ok(()), Unwritten::write) {
            Ok(()) => Ok(Some(prepared)),
            Err(error) => {
                self.discard(prepared);
                Err(error)
            }
        }
    }

    /// Takes a block for a record that was composed, which is still to be written.
    pub(in crate::store) fn reserve(
        &mut self,
        rank: Rank,
        next: &mut Next,
        pages: &mut BTreeSet<usize>,
    ) -> Result<Prepared, WriteError> {
        let (mut new, mut unwritten) = (None, None);
        if let Some(record) = next.record.take() {
            let is_little = next.words + record.len() <= PROMISED as usize / 8;
            let share = if is_little { Share::Kept } else { Share::Open };
            let (block, to_write) = self.set.reserve(record, &mut self.maker, share)?;
            (new, unwritten) = (Some(block), Some(to_write));
        }
        let head = new.map(|block| block.at).or(next.base);
        let (replaced, before) = (std::mem::take(&mut next.replaced), next.before);
        let mut prepared = Prepared { rank, head, new, page: None, replaced, before, unwritten };
        let index = job::page_of(rank.0);
        if self.job().page(index).is_none() && !pages.contains(&index) {
            match self.set.table_page(&mut self.maker) {
                Ok(page) => {
                    prepared.page = Some(page);
                    pages.insert(index);
                }
                Err(error) => {
                    self.discard(prepared);
                    return Err(error);
                }
            }
        }
        Ok(prepared)
    }

    /// The place and version of a rank's newest record.
    pub(in crate::store) fn newest(&self, rank: Rank) -> Result<Option<(Reference, u64)>, ReadError> {
        self.records().newest(rank)
    }

    /// Returns whether a rank's records are still those that the prepared one continues or replaces, and there is a
    /// page of the rank table to publish it in: another part of a batch that was to bring one may have been given up.
    pub(in crate::store) fn is_up_to_date(&self, prepared: &Prepared) -> bool {
        let has_page = prepared.page.is_some() || self.job().page(job::page_of(prepared.rank.0)).is_some();
        has_page && self.newest(prepared.rank).is_ok_and(|newest| newest == prepared.before)
    }

    /// Publishes what was prepared. Answers the blocks that are not referred to any more.
    pub(in crate::store) fn publish(&mut self, prepared: Prepared) -> Vec<Block> {
        let Prepared { rank, head, page, replaced, .. } = prepared;
        let index = job::page_of(rank.0);
        let known = self.job().page(index);
        let at = known.or(page.map(|block| block.at)).expect("a page was prepared if there was none");
        let words = self.words_mut(at).expect("pages lie in segments of the table");
        job::publish(&words, at, rank.0, head);
        match known {
            None => self.job().publish_page(index, at),
            // Another rank has brought one meanwhile.
            Some(_) => page.into_iter().for_each(|block| self.discard_page(block)),
        }
        replaced
    }

    /// Leads nobody to a rank's records any more. Their blocks are kept: this takes no memory, and asks for none.
    pub(in crate::store) fn withdraw(&mut self, rank: Rank) {
        if let Some(at) = self.job().page(job::page_of(rank.0))
            && let Some(words) = self.words_mut(at)
        {
            job::publish(&words, at, rank.0, None);
        }
    }

    /// Takes back what was prepared.
    pub(in crate::store) fn discard(&mut self, prepared: Prepared) {
        prepared.new.into_iter().for_each(|block| self.discard_block(block));
        prepared.page.into_iter().for_each(|block| self.discard_page(block));
    }

    fn discard_page(&mut self, block: Block) {
        if self.set.has(block) {
            self.set.discard_table_page(block);
        }
    }

    /// Writes all records to segments of their own, one for each rank, and pages that refer to them; `None` where there
    /// is no room for both.
    pub(in crate::store) fn renew(&mut self) -> Result<Option<Renewed>, ReadError> {
        if self.maker.budget.left() < self.set.live() {
            return Ok(None);
        }
        let mut renewed = Renewed::default();
        let copied = self.copy_to(&mut renewed);
        if let Ok(true) = copied {
            return Ok(Some(renewed));
        }
        self.forget(&renewed);
        copied.map(|_| None)
    }

    /// Does without new segments that nobody was led to: readers count on numbers without gaps.
    pub(in crate::store) fn forget(&mut self, renewed: &Renewed) {
        if let Some(first) = renewed.set.segments.first() {
            self.maker.last_number = first.number - 1;
        }
    }

    /// Copies all records. Returns false when there is no room.
    fn copy_to(&mut self, to: &mut Renewed) -> Result<bool, ReadError> {
        for index in 0..job::pages(self.job().ranks()) {
            let Some(page) = self.job().page(index) else { continue };
            let Ok(new_page) = to.set.table_page(&mut self.maker) else { return Ok(false) };
            for rank in (index * job::PAGE) as u32..((index + 1) * job::PAGE) as u32 {
                let words = self.set.words(page).ok_or(Malformed::Owner)?.reader();
                if job::record(&words, page, rank).is_none() {
                    continue;
                }
                let stored = self.records().stored(Rank(rank), chain::LONGEST, &[])?;
                let record = record::build_on(rank, stored.iter().map(Stored::item), None);
                drop(stored);
                let Ok(block) = to.set.put(record, &mut self.maker) else { return Ok(false) };
                let words = to.set.words(new_page.at).ok_or(Malformed::Owner)?;
                job::publish(&words, new_page.at, rank, Some(block.at));
            }
            to.pages.push((index, new_page.at));
        }
        Ok(true)
    }

    /// Lets everybody use the new segments, and answers the old ones.
    pub(in crate::store) fn replace(&mut self, new: Renewed) -> SegmentSet {
        let old = std::mem::replace(&mut self.set, new.set);
        new.pages.iter().for_each(|(index, at)| self.job().publish_page(*index, *at));
        old
    }
}

/// All records and the rank table, in segments that nobody knows yet.
#[derive(Default)]
pub(in crate::store) struct Renewed {
    pub(in crate::store) set: SegmentSet,
    pages: Vec<(usize, Reference)>,
}
