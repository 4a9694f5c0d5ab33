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

use super::heap::{Block, Maker, SegmentSet, Unwritten};
use super::records::{Changes, Next, Records, Snapshot, Stored};
use crate::data::{Key, Rank, Scope, Value};
use crate::store::budget::Budget;
use crate::store::error::{ReadError, WriteError};
use crate::store::segment::Label;
use crate::sys::memory::Mapping;

/// Number of the private segment with pages of the rank table in a snapshot; no segment of a job has it.
const FROZEN: u32 = u32::MAX;

/// Records by rank.
pub(in crate::store) struct Table {
    pub(in crate::store) set: SegmentSet,
    /// Words with the directory of the rank table: the job segment, or what nobody else sees.
    directory: Arc<Mapping>,
    maker: Maker,
}

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
        Some(self.set.segment(segment)?.memory.mapping.words())
    }

    fn directory(&self) -> JobWords<RawWords<'_>> {
        JobWords::new(self.directory.words())
    }
}

impl Table {
    /// No records, for the job with that number.
    pub(in crate::store) fn new(job: u64, label: Label, directory: Arc<Mapping>, budget: &Budget) -> Self {
        let maker = Maker { job, label, budget: budget.clone(), last_number: 0, last_version: 0 };
        Self { set: SegmentSet::default(), directory, maker }
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

    /// The records as they are now, to be read by another thread. What has changed since is found out by who
    /// [publishes](Self::publish) what was made of it.
    ///
    /// # Errors
    /// [`WriteError`] when there is no memory for the directory.
    pub(in crate::store) fn snapshot(&self) -> Result<Snapshot, WriteError> {
        let segments = self.set.segments.iter().map(|of| (of.number, of.memory.mapping.clone())).collect();
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
            let from = self.set.words(page).ok_or(ReadError::from(Malformed::Owner))?.reader();
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
            let (block, to_write) = self.set.reserve(record, &mut self.maker)?;
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

    /// Returns whether a rank's records are still those that the prepared one continues or replaces.
    pub(in crate::store) fn is_up_to_date(&self, prepared: &Prepared) -> bool {
        self.newest(prepared.rank).is_ok_and(|newest| newest == prepared.before)
    }

    /// Publishes what was prepared. Answers the blocks that are not referred to any more.
    pub(in crate::store) fn publish(&mut self, prepared: Prepared) -> Vec<Block> {
        let Prepared { rank, head, page, replaced, .. } = prepared;
        let index = job::page_of(rank.0);
        let known = self.job().page(index);
        let at = known.or(page.map(|block| block.at)).expect("a page was prepared if there was none");
        let words = self.set.words(at).expect("pages lie in segments of the set");
        job::publish(&words, at, rank.0, head);
        match known {
            None => self.job().publish_page(index, at),
            // Another rank has brought one meanwhile.
            Some(_) => page.into_iter().for_each(|block| self.set.discard_table_page(block)),
        }
        replaced
    }

    /// Leads nobody to a rank's records any more. Their blocks are kept: this takes no memory, and asks for none.
    pub(in crate::store) fn withdraw(&mut self, rank: Rank) {
        if let Some(at) = self.job().page(job::page_of(rank.0))
            && let Some(words) = self.set.words(at)
        {
            job::publish(&words, at, rank.0, None);
        }
    }

    /// Takes back what was prepared.
    pub(in crate::store) fn discard(&mut self, prepared: Prepared) {
        prepared.new.into_iter().for_each(|block| self.set.discard(block));
        prepared.page.into_iter().for_each(|block| self.set.discard_table_page(block));
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
                let stored = self.records().stored(Rank(rank), chain::LONGEST)?;
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
