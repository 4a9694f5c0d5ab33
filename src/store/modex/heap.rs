//! Room for records: segments, blocks in them, and when a block may be written again.
//!
//! A *set* of segments holds the rank table and the records that it refers to. Blocks are cut off *gaps*, which were
//! never used, the smallest first that will do; a new segment is one gap. A block lies in as few pages of memory as it
//! can, unless a quarter of them would stay empty among others of its size. A replaced record's block is *retired* with
//! the epoch of its replacement and is free for records of its size once no reader holds that epoch or an older one.
//!
//! A reader that stays pinned holds back everything retired since. When that is more than one reader may hold back, its
//! page is closed ([`reader_pages`](super::reader_pages)): from then on it holds only blocks that were there by then.
//! Blocks of that kind are *set aside* as they are retired. The others are used again as if that reader was not
//! there.
//!
//! When too much lies in free blocks of unneeded sizes, the live records move to a new set, and the old one waits for
//! its readers as a whole; it is never written again.
//!
//! A rank that posts much may take all memory there is, but for what is kept for ranks that have little. Segments made
//! of that have room for records of such ranks alone, then and whenever it is free again.
use std::collections::VecDeque;
use std::sync::Arc;

use instanton_layout::block;
use instanton_layout::classes;
use instanton_layout::header::{self, Header, Kind};
use instanton_layout::job::{self, Reference};
use instanton_layout::record::{self, seal};
use instanton_layout::words::{RawWordsMut, Words};

use super::reader_pages::Held;
use crate::store::budget::{Budget, Share};
use crate::store::error::WriteError;
use crate::store::segment::{Label, OwnSegment};
use crate::sys::memory::Mapping;

/// The first segment of a set; each further one has twice the size.
pub(in crate::store) const SMALLEST: u64 = 64 << 10;
/// The largest segment, unless one record needs a larger one. A sixteenth of the budget where that is less: most of the
/// newest may be unused.
const LARGEST: u64 = 64 << 20;
/// Bytes that may lie in free blocks however little is alive.
const UNUSED: u64 = 1 << 20;

/// Bytes that may wait for readers before the writer scans their pages, if these are less than an eighth of all.
const UNSEEN: u64 = 16 << 10;

/// Words of a page of memory.
const PAGE: usize = 512;
/// A block for a page of the rank table fills a page of memory.
const TABLE_PAGE: usize = classes::class(job::PAGE);
const _: () = assert!(classes::words(TABLE_PAGE) == PAGE);

/// Bytes of a block from which on whoever writes it takes memory for it from the system, each time: a thread may.
const LARGE: usize = 256 << 10;
/// Memory for smaller ones is taken in steps of this many bytes.
const STEP: usize = 1 << 20;

/// One of `parts` of a budget, in steps of the smallest segment.
fn part(budget: &Budget, parts: u64) -> u64 {
    let bytes = budget.limit() / parts;
    (bytes - bytes % SMALLEST).max(SMALLEST)
}

/// A modex segment.
pub(in crate::store) struct DataSegment {
    pub(in crate::store) number: u32,
    pub(in crate::store) memory: OwnSegment,
    share: Share,
    /// Bytes from its beginning that it has memory for, or will have when a large block in them is written.
    taken: usize,
}

impl DataSegment {
    /// Takes memory for a block of so many words, which was never used. Blocks are cut off from the front.
    fn take(&mut self, word: usize, words: usize) -> Result<(), WriteError> {
        let (from, to, len) = (word * 8, (word + words) * 8, self.memory.mapping.len());
        if to <= self.taken {
            return Ok(());
        }
        let is_large = to - from >= LARGE;
        let needed = if is_large { from.next_multiple_of(PAGE * 8) } else { to.next_multiple_of(STEP) };
        let needed = needed.min(len);
        if needed > self.taken {
            self.memory.mapping.take(self.taken, needed - self.taken).map_err(WriteError::memory)?;
            self.taken = needed;
        }
        if is_large {
            self.taken = self.taken.max(to / (PAGE * 8) * (PAGE * 8));
        }
        Ok(())
    }
}

/// A block that holds a record, or held one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Block {
    pub(super) at: Reference,
    class: usize,
}

impl Block {
    /// The block at `at`, which was made for a record of `words` words.
    pub(in crate::store) fn of(at: Reference, words: usize) -> Self {
        Self { at, class: classes::class(words) }
    }

    fn bytes(&self) -> u64 {
        classes::words(self.class) as u64 * 8
    }
}

/// A record that is still to be written to its block. Any thread may do that: nothing leads there yet.
pub(in crate::store) struct Unwritten {
    record: Vec<u64>,
    version: u64,
    mapping: Arc<Mapping>,
    word: usize,
}

impl Unwritten {
    /// Gives the record its version and checksum, and writes it.
    ///
    /// # Errors
    /// [`WriteError`] when the system has no memory for it; nothing is written then.
    pub(in crate::store) fn write(mut self) -> Result<(), WriteError> {
        let bytes = classes::words(classes::class(self.record.len())) * 8;
        if bytes >= LARGE {
            self.mapping.take(self.word * 8, bytes).map_err(WriteError::memory)?;
        }
        seal(&mut self.record, self.version);
        block::write(&self.mapping.words_mut(), self.word, &self.record);
        Ok(())
    }
}

/// Blocks, or gaps, by class.
struct ByClass<T>(Vec<Vec<T>>);

impl<T> Default for ByClass<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByClass<T> {
    fn push(&mut self, class: usize, item: T) {
        if self.0.len() <= class {
            self.0.resize_with(class + 1, Vec::new);
        }
        self.0[class].push(item);
    }

    fn pop(&mut self, class: usize) -> Option<T> {
        self.0.get_mut(class)?.pop()
    }
}

/// Words that were never used, from a place on.
#[derive(Clone, Copy)]
struct Gap {
    at: Reference,
    words: usize,
}

impl Gap {
    /// Words before the first place in it where a block of that size can lie, if any can.
    fn skip(&self, words: usize) -> Option<usize> {
        let (before, pages) = (self.at.word as usize % PAGE, words.div_ceil(PAGE));
        let anywhere = 2 * words > PAGE && (pages * PAGE - words) * 4 >= pages * PAGE;
        let skip = match !anywhere && (before + words).div_ceil(PAGE) > pages {
            true => PAGE - before,
            false => 0,
        };
        (skip + words <= self.words).then_some(skip)
    }
}

/// Room of one share in the segments of a set.
#[derive(Default)]
struct Room {
    gaps: ByClass<Gap>,
    free: ByClass<Block>,
}

impl Room {
    fn take_gap(&mut self, class: usize, words: usize) -> Option<Gap> {
        self.gaps.0.get_mut(class..)?.iter_mut().find_map(|gaps| gaps.pop_if(|gap| gap.skip(words).is_some()))
    }
}

/// Segments, and the blocks in them.
#[derive(Default)]
pub(in crate::store) struct SegmentSet {
    pub(in crate::store) segments: Vec<DataSegment>,
    open: Room,
    kept: Room,
    retired: VecDeque<(u64, Block)>,
    /// Retired blocks that only closed pages hold.
    aside: Vec<(u64, Block)>,
    live: u64,
    held: u64,
    set_aside: u64,
    unused: u64,
}

/// Names and sizes of new segments, and the versions of records.
pub(super) struct Maker {
    pub(in crate::store) job: u64,
    pub(super) label: Label,
    pub(super) budget: Budget,
    pub(super) last_number: u32,
    pub(super) last_version: u64,
}

impl Maker {
    fn segment(&mut self, bytes: u64, share: Share) -> Result<DataSegment, WriteError> {
        let number = self.last_number + 1;
        let memory = OwnSegment::create(&self.label, number.into(), bytes, (&self.budget, share))?;
        let words = memory.mapping.words_mut();
        Header { kind: Kind::Modex, length: bytes, job: self.job, number: u64::from(number), ranks: 0 }.write(&words);
        self.last_number = number;
        let taken = memory.taken;
        Ok(DataSegment { number, memory, share, taken })
    }

    /// No two records of a job have the same version; odd ones mark a block that is being written.
    fn version(&mut self) -> u64 {
        self.last_version += 2;
        self.last_version
    }
}

impl SegmentSet {
    /// Bytes of all segments.
    pub(in crate::store) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.memory.len()).sum()
    }

    /// Bytes of blocks that records live in.
    pub(in crate::store) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes of retired blocks that are not set aside.
    pub(in crate::store) fn held(&self) -> u64 {
        self.held
    }

    /// Bytes of blocks that are set aside for closed pages.
    pub(in crate::store) fn set_aside(&self) -> u64 {
        self.set_aside
    }

    /// Returns whether so much waits for readers that a scan of their pages pays: it loads a line of memory for each
    /// slot of each reader, which is more work than a small commit itself.
    pub(in crate::store) fn is_worth_a_scan(&self) -> bool {
        self.held > UNSEEN.min(self.bytes() / 8)
    }

    /// Returns whether so much lies in blocks of unneeded sizes that the records had better move: twice of what is alive,
    /// or less where that would be much of the budget. While records move, these bytes are taken twice.
    pub(super) fn is_scattered(&self, budget: &Budget) -> bool {
        self.unused > UNUSED.max((2 * self.live).min(part(budget, 8)))
    }

    /// Returns the bytes that there had better be before records move: a copy of what is alive, and something for what is
    /// posted meanwhile. Segments that were replaced before and linger leave less than that, for a time in which what is
    /// posted lies in free blocks.
    pub(super) fn needed_to_move(&self, budget: &Budget) -> u64 {
        self.live + (2 * self.live).min(3 * part(budget, 16))
    }

    /// Writes a record to a block of its own.
    pub(super) fn put(&mut self, record: Vec<u64>, maker: &mut Maker) -> Result<Block, WriteError> {
        let (block, unwritten) = self.reserve(record, maker, Share::Open)?;
        match unwritten.write() {
            Ok(()) => Ok(block),
            Err(error) => {
                self.discard(block);
                Err(error)
            }
        }
    }

    /// Takes a block for a record, which is still to be written: of what is kept only where nothing else is left.
    pub(super) fn reserve(
        &mut self,
        record: Vec<u64>,
        maker: &mut Maker,
        share: Share,
    ) -> Result<(Block, Unwritten), WriteError> {
        if record.len() > record::LARGEST {
            return Err(WriteError::TooLarge { bytes: record.len() as u64 * 8 });
        }
        let class = classes::class(record.len());
        let block = match self.block(class, maker, Share::Open) {
            Err(WriteError::Budget { .. }) if share == Share::Kept => self.block(class, maker, Share::Kept)?,
            found => found?,
        };
        let segment = self.segment(block.at.segment).expect("a block lies in a segment of its set");
        let (mapping, word, version) = (segment.memory.mapping.clone(), block.at.word as usize, maker.version());
        self.live += block.bytes();
        Ok((block, Unwritten { record, version, mapping, word }))
    }

    fn block(&mut self, class: usize, maker: &mut Maker, share: Share) -> Result<Block, WriteError> {
        let Some(block) = self.room(share).free.pop(class) else { return self.cut(class, maker, share) };
        self.unused -= block.bytes();
        Ok(block)
    }

    fn room(&mut self, share: Share) -> &mut Room {
        match share {
            Share::Open => &mut self.open,
            Share::Kept => &mut self.kept,
        }
    }

    /// The room that a place belongs to.
    fn room_at(&mut self, at: Reference) -> &mut Room {
        let share = self.segment(at.segment).map_or(Share::Open, |segment| segment.share);
        self.room(share)
    }

    /// Room for a page of the rank table, all zero: it was never used. Ranks need one before they have anything.
    pub(super) fn table_page(&mut self, maker: &mut Maker) -> Result<Block, WriteError> {
        let block = match self.cut(TABLE_PAGE, maker, Share::Open) {
            Err(WriteError::Budget { .. }) => self.cut(TABLE_PAGE, maker, Share::Kept)?,
            cut => cut?,
        };
        self.live += block.bytes();
        Ok(block)
    }

    /// Takes back a page of the rank table that was never used.
    pub(super) fn discard_table_page(&mut self, block: Block) {
        self.live -= block.bytes();
        self.keep(Gap { at: block.at, words: PAGE });
    }

    /// The words of the segment with a place.
    pub(in crate::store) fn words(&self, at: Reference) -> Option<RawWordsMut<'_>> {
        Some(self.segment(at.segment)?.memory.mapping.words_mut())
    }

    /// Returns whether a block lies in one of these segments.
    pub(super) fn has(&self, block: Block) -> bool {
        self.segment(block.at.segment).is_some()
    }

    /// A segment by its number.
    pub(super) fn segment(&self, number: u32) -> Option<&DataSegment> {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        Some(&self.segments[at])
    }

    /// Cuts a block off the smallest gap that will do.
    fn cut(&mut self, class: usize, maker: &mut Maker, share: Share) -> Result<Block, WriteError> {
        let words = classes::words(class);
        let gap = match self.room(share).take_gap(class, words) {
            Some(gap) => gap,
            None => self.grow(words, maker, share)?,
        };
        let skip = gap.skip(words).expect("the gap was chosen so");
        let place = |words| Reference { word: gap.at.word + words as u32, ..gap.at };
        let segment = self.segments.iter_mut().rfind(|segment| segment.number == gap.at.segment);
        if let Err(error) = segment.map_or(Ok(()), |segment| segment.take(place(skip).word as usize, words)) {
            self.keep(gap);
            return Err(error);
        }
        self.keep(Gap { at: gap.at, words: skip });
        self.keep(Gap { at: place(skip + words), words: gap.words - skip - words });
        Ok(Block { at: place(skip), class })
    }

    fn keep(&mut self, gap: Gap) {
        if let Some(class) = classes::within(gap.words) {
            self.room_at(gap.at).gaps.push(class, gap);
        }
    }

    /// Adds a segment with room for a block: twice the last one, or less where there is no more to be had. Memory that
    /// is kept is taken in small steps.
    fn grow(&mut self, words: usize, maker: &mut Maker, share: Share) -> Result<Gap, WriteError> {
        // The block may have to begin on the second page.
        let least = ((words + PAGE) as u64 * 8).next_multiple_of(SMALLEST);
        let last = self.segments.iter().rfind(|segment| segment.share == share);
        let last = last.map_or(SMALLEST / 2, |segment| segment.memory.len().min(LARGEST));
        let most = if share == Share::Kept { 4 * SMALLEST } else { part(&maker.budget, 16).min(LARGEST) };
        let mut bytes = (last * 2).min(most).max(least);
        let segment = loop {
            match maker.segment(bytes, share) {
                Err(_) if bytes > least => bytes = (bytes / 2).max(least),
                other => break other?,
            }
        };
        let at = Reference { segment: segment.number, word: header::WORDS as u32 };
        self.segments.push(segment);
        Ok(Gap { at, words: bytes as usize / 8 - header::WORDS })
    }

    /// Takes a block out of use: nothing published refers to it since `epoch` ended.
    pub(in crate::store) fn retire(&mut self, block: Block, epoch: u64) {
        self.live -= block.bytes();
        self.held += block.bytes();
        self.retired.push_back((epoch, block));
    }

    /// Frees the blocks that no page holds, and sets those aside that only closed ones do.
    pub(in crate::store) fn reclaim(&mut self, held: &Held) {
        while let Some((epoch, block)) = self.retired.front().copied()
            && epoch < held.oldest()
        {
            self.retired.pop_front();
            self.held -= block.bytes();
            match self.is_set_aside(held, epoch, block) {
                true => {
                    self.set_aside += block.bytes();
                    self.aside.push((epoch, block));
                }
                false => self.release(block),
            }
        }
    }

    /// Frees the blocks that were set aside for pages that hold them no more.
    pub(in crate::store) fn take_back(&mut self, held: &Held) {
        let (still, free) = std::mem::take(&mut self.aside)
            .into_iter()
            .partition(|(epoch, block)| self.is_set_aside(held, *epoch, *block));
        self.aside = still;
        for (_, block) in free {
            self.set_aside -= block.bytes();
            self.release(block);
        }
    }

    fn is_set_aside(&self, held: &Held, epoch: u64, block: Block) -> bool {
        // A block keeps its last record, whose version comes first, until it is written again.
        let version = || self.words(block.at).and_then(|words| words.load(block.at.word as usize).ok());
        !held.is_all_open() && version().is_none_or(|version| held.is_set_aside(epoch, version))
    }

    fn release(&mut self, block: Block) {
        self.unused += block.bytes();
        self.room_at(block.at).free.push(block.class, block);
    }

    /// Takes back a block that no reader has ever been led to.
    pub(in crate::store) fn discard(&mut self, block: Block) {
        self.live -= block.bytes();
        self.release(block);
    }
}
