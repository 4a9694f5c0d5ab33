//! Room for records: segments, blocks in them, and when a block may be written again.
//!
//! A *set* of segments holds the records that the rank table refers to. Blocks come off the end of its newest segment, or from the free
//! blocks of their size. A replaced record's block is *retired* with the epoch of its replacement and is free once no reader
//! holds that epoch or an older one.
//!
//! A reader that stays pinned holds back everything retired since. When that exceeds what is alive (and a threshold), the live
//! records move to a new set, and the old one waits for the reader as a whole; it is never written again. The number of
//! waiting sets is limited.
use std::collections::VecDeque;

use instanton_layout::Malformed;
use instanton_layout::block;
use instanton_layout::classes;
use instanton_layout::header::{self, Header, Kind};
use instanton_layout::job::Reference;
use instanton_layout::record::{self, seal};
use instanton_layout::words::Words;

use super::budget::Budget;
use super::segment::OwnSegment;
use super::write_error::WriteError;

/// The first segment of a set; each further one has twice the size.
const SMALLEST: u64 = 64 << 10;
/// The largest segment.
const LARGEST: u64 = 64 << 20;
/// What may be held back however little is alive.
const HELD_BACK: u64 = 1 << 20;

/// A modex segment and how much of it is in use.
pub(super) struct DataSegment {
    pub(super) number: u32,
    pub(super) memory: OwnSegment,
    next: usize,
}

/// A block that holds a record, or held one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) at: Reference,
    class: usize,
}

impl Block {
    fn bytes(&self) -> u64 {
        classes::words(self.class) as u64 * 8
    }
}

/// Segments, and the blocks in them.
#[derive(Default)]
pub(super) struct SegmentSet {
    pub(super) segments: Vec<DataSegment>,
    free: Vec<Vec<Block>>,
    retired: VecDeque<(u64, Block)>,
    live: u64,
    held: u64,
    unused: u64,
}

/// Names and sizes of new segments, and the versions of records.
pub(super) struct Maker {
    pub(super) job: u64,
    pub(super) budget: Budget,
    pub(super) last_number: u32,
    pub(super) last_version: u64,
}

impl Maker {
    fn segment(&mut self, bytes: u64) -> Result<DataSegment, WriteError> {
        let number = self.last_number + 1;
        let memory = OwnSegment::create("instanton-modex", bytes, &self.budget)?;
        let words = memory.mapping.words_mut();
        Header { kind: Kind::Modex, length: bytes, job: self.job, number: u64::from(number), ranks: 0 }.write(&words);
        self.last_number = number;
        Ok(DataSegment { number, memory, next: header::WORDS })
    }

    /// No two records of a job have the same version; odd ones mark a block that is being written.
    fn version(&mut self) -> u64 {
        self.last_version += 2;
        self.last_version
    }
}

impl SegmentSet {
    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.memory.len()).sum()
    }

    /// Bytes of blocks that records live in.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Bytes of retired blocks.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Whether readers hold so much back that the records must move.
    pub(super) fn is_held_back(&self) -> bool {
        self.held > HELD_BACK.max(self.live)
    }

    /// Whether so much lies in blocks of sizes that nobody needs that the records had better move.
    pub(super) fn is_scattered(&self) -> bool {
        self.held + self.unused > HELD_BACK.max(2 * self.live)
    }

    /// Writes a record to a block of its own.
    pub(super) fn put(&mut self, mut record: Vec<u64>, maker: &mut Maker) -> Result<Block, WriteError> {
        let block = self.room(record.len(), maker)?;
        seal(&mut record, maker.version());
        let segment = self.segment(block.at.segment).expect("a block lies in a segment of its set");
        block::write(&segment.memory.mapping.words_mut(), block.at.word as usize, &record);
        self.live += block.bytes();
        Ok(block)
    }

    /// A copy of the record in a block.
    pub(super) fn record(&self, block: &Block) -> Result<Vec<u64>, Malformed> {
        let words = self.segment(block.at.segment).ok_or(Malformed::Owner)?.memory.mapping.words();
        let at = block.at.word as usize;
        let len = record::length(&words, at)?;
        (at..at + len).map(|at| words.load(at)).collect()
    }

    /// A segment by its number.
    pub(super) fn segment(&self, number: u32) -> Option<&DataSegment> {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        Some(&self.segments[at])
    }

    fn room(&mut self, words: usize, maker: &mut Maker) -> Result<Block, WriteError> {
        let class = classes::class(words);
        if let Some(block) = self.free.get_mut(class).and_then(Vec::pop) {
            self.unused -= block.bytes();
            return Ok(block);
        }
        let words = classes::words(class);
        let fits = |segment: &DataSegment| segment.next + words <= segment.memory.len() as usize / 8;
        if !self.segments.last().is_some_and(fits) {
            self.grow(words, maker)?;
        }
        let segment = self.segments.last_mut().expect("just made");
        let at = Reference { segment: segment.number, word: segment.next as u32 };
        segment.next += words;
        Ok(Block { at, class })
    }

    /// Adds a segment with room for a block: twice the last one, or less where there is no more to be had.
    fn grow(&mut self, words: usize, maker: &mut Maker) -> Result<(), WriteError> {
        let least = ((words + header::WORDS) as u64 * 8).next_multiple_of(SMALLEST);
        if least > LARGEST {
            return Err(WriteError::TooLarge { bytes: words as u64 * 8 });
        }
        let last = self.segments.last().map_or(SMALLEST / 2, |segment| segment.memory.len());
        let mut bytes = (last * 2).min(LARGEST).max(least);
        let segment = loop {
            match maker.segment(bytes) {
                Err(_) if bytes / 2 >= least => bytes /= 2,
                other => break other?,
            }
        };
        self.segments.push(segment);
        Ok(())
    }

    /// Takes a block out of use: nothing published refers to it since `epoch` ended.
    pub(super) fn retire(&mut self, block: Block, epoch: u64) {
        self.live -= block.bytes();
        self.held += block.bytes();
        self.retired.push_back((epoch, block));
    }

    /// Frees the blocks that were retired before every epoch that is held.
    pub(super) fn reclaim(&mut self, oldest_held: u64) {
        while let Some((epoch, block)) = self.retired.front().copied()
            && epoch < oldest_held
        {
            self.retired.pop_front();
            self.held -= block.bytes();
            self.release(block);
        }
    }

    /// Takes back a block that nothing was ever published of, or that no reader holds.
    fn release(&mut self, block: Block) {
        self.unused += block.bytes();
        if self.free.len() <= block.class {
            self.free.resize(block.class + 1, Vec::new());
        }
        self.free[block.class].push(block);
    }

    /// Takes back a block that was written and not published.
    pub(super) fn discard(&mut self, block: Block) {
        self.live -= block.bytes();
        self.release(block);
    }
}
