//! The job segment: the words of a job that change.
//!
//! ```text
//! word  0   header
//!       8   generation of the job information (0: none yet)
//!       9   number of the newest modex segment (0: none yet)
//!      10   number of the oldest modex segment that the rank table may refer to
//!      16   epoch, from 1; on a line of its own, because it changes with every commit
//!      24   reserved for a word that waiters of a fence sleep on
//!      32   rank table: one reference a rank
//! ```
use crate::header::{Header, Kind};
use crate::sync::Ordering;
use crate::words::{Words, WordsMut};
use crate::{Malformed, high, low, pair};

const GENERATION: usize = 8;
const NEWEST: usize = 9;
const OLDEST: usize = 10;
const EPOCH: usize = 16;
const RANKS: usize = 32;

/// A place in a modex segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Number of the segment, from 1.
    pub segment: u32,
    /// Word in it.
    pub word: u32,
}

impl Reference {
    const fn encode(self) -> u64 {
        pair(self.word, self.segment)
    }

    const fn decode(word: u64) -> Option<Self> {
        match high(word) {
            0 => None,
            segment => Some(Self { segment, word: low(word) }),
        }
    }
}

/// Bytes of a job segment for that many ranks.
pub const fn length(ranks: u32) -> u64 {
    (RANKS as u64 + ranks as u64) * 8
}

/// A job segment.
#[derive(Clone, Copy)]
pub struct JobWords<W>(W);

impl<W: Words> JobWords<W> {
    /// Words whose header has been checked.
    pub const fn new(words: W) -> Self {
        Self(words)
    }

    /// The words themselves.
    pub fn into_inner(self) -> W {
        self.0
    }

    /// A word, and everything that the writer stored before it. A word outside is one never written.
    ///
    /// SYNC POINT: pairs with the release stores of the writer below; loom test `publish`.
    #[inline]
    fn acquire(&self, at: usize) -> u64 {
        let word = self.0.load(at).unwrap_or(0);
        self.0.fence(Ordering::Acquire);
        word
    }

    /// The generation of the job information to be read.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.acquire(GENERATION)
    }

    /// The newest modex segment.
    pub fn newest(&self) -> u64 {
        self.acquire(NEWEST)
    }

    /// The oldest modex segment that is still referred to.
    pub fn oldest(&self) -> u64 {
        self.acquire(OLDEST)
    }

    /// The epoch. No order is implied: `page::pin` has the fence that matters.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.0.load(EPOCH).unwrap_or(0)
    }

    /// Ranks that there is room for.
    pub fn ranks(&self) -> u32 {
        (self.0.len().saturating_sub(RANKS)) as u32
    }

    /// Where a rank's record lies, if it has posted anything.
    #[inline]
    pub fn record(&self, rank: u32) -> Option<Reference> {
        Reference::decode(self.acquire(RANKS + rank as usize))
    }
}

impl<W: WordsMut> JobWords<W> {
    /// Makes an empty job segment of zeroed words.
    pub fn format(words: W, job: u64) -> Self {
        let this = Self(words);
        let length = this.0.len() as u64 * 8;
        let ranks = u64::from(this.ranks());
        Header { kind: Kind::Job, length, job, number: 0, ranks }.write(&this.0);
        this.0.store(EPOCH, 1, Ordering::Relaxed);
        this
    }

    /// Publishes a generation of job information, whose segment is complete.
    ///
    /// SYNC POINT: pairs with `acquire` in [`JobWords::generation`]; loom test `generation`.
    pub fn set_generation(&self, generation: u64) {
        self.0.store(GENERATION, generation, Ordering::Release);
    }

    /// Says which modex segments the rank table may refer to.
    pub fn set_segments(&self, oldest: u64, newest: u64) {
        self.0.store(OLDEST, oldest, Ordering::Release);
        self.0.store(NEWEST, newest, Ordering::Release);
    }

    /// Publishes a rank's record, whose block is complete.
    ///
    /// SYNC POINT: pairs with `acquire` in [`JobWords::record`]; loom test `publish`.
    pub fn publish(&self, rank: u32, to: Reference) {
        self.0.store(RANKS + rank as usize, to.encode(), Ordering::Release);
    }

    /// Ends the current epoch and returns it: what was replaced before this call is retired with that number.
    ///
    /// SYNC POINT: pairs with the SeqCst fence in `page::pin`. A reader that sees the new epoch sees every reference stored
    /// before it; loom test `pins`.
    ///
    /// # Errors
    /// [`Malformed`] when the segment has no epoch word.
    pub fn end_epoch(&self) -> Result<u64, Malformed> {
        let ended = self.0.load(EPOCH)?;
        self.0.store(EPOCH, ended + 1, Ordering::Release);
        Ok(ended)
    }
}
