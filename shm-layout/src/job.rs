//! The job segment: the words of a job that change, and the way from a rank to its record.
//!
//! ```text
//! word  0   header
//!       8   generation of the job information (0: none yet)
//!       9   number of the newest modex segment (0: none yet)
//!      10   number of the oldest modex segment that may be referred to
//!      16   epoch, from 1; on a line of its own, because it changes with every commit
//!      24   releases of waiting processes (32 bits), which sleep on it
//!      32   directory: for each 512 ranks a reference to their page of the rank table (0: none of them has posted)
//! ```
//!
//! A *page* of the rank table is 512 words of a modex segment, which fill one page of memory: a reference a rank (0: it
//! has posted nothing). It is made when the first of its ranks posts, from memory that was never used, and is never
//! anything else: neither does an outdated directory word lead to a record, nor an outdated reference to a page. A page
//! changes in place as long as its segments are in use. When the records move to other segments, pages with the new
//! references are made there and the directory words are replaced; whoever still follows an old one finds the old page,
//! and by it the records as they were.
use crate::header::{self, Header, Kind};
use crate::sync::Ordering;
use crate::words::{Words, WordsMut};
use crate::{Malformed, high, low, pair};

const GENERATION: usize = 8;
const NEWEST: usize = 9;
const OLDEST: usize = 10;
const EPOCH: usize = 16;
const RELEASE: usize = 24;
const DIRECTORY: usize = 32;

/// Ranks of a page of the rank table, and words of it.
pub const PAGE: usize = 512;
const _: () = assert!(PAGE * 8 == 4096);

/// A place in a modex segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Number of the segment, from 1.
    pub segment: u32,
    /// Word in it.
    pub word: u32,
}

impl Reference {
    pub(crate) const fn encode(self) -> u64 {
        pair(self.word, self.segment)
    }

    pub(crate) const fn decode(word: u64) -> Option<Self> {
        match high(word) {
            0 => None,
            segment => Some(Self { segment, word: low(word) }),
        }
    }
}

/// Bytes of a job segment for that many ranks.
pub const fn length(ranks: u32) -> u64 {
    (DIRECTORY + pages(ranks)) as u64 * 8
}

/// Pages of the rank table for that many ranks.
pub const fn pages(ranks: u32) -> usize {
    (ranks as usize).div_ceil(PAGE)
}

/// The page with a rank's reference.
pub const fn page_of(rank: u32) -> usize {
    rank as usize / PAGE
}

/// A word, and everything that the writer stored before it. A word outside is one never written.
///
/// SYNC POINT: pairs with the release stores of the writer; loom tests `publish`, `table` and `generation`.
#[inline(always)]
fn acquire<W: Words>(words: &W, at: usize) -> u64 {
    let word = words.load(at).unwrap_or(0);
    words.fence(Ordering::Acquire);
    word
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

    /// The generation of the job information to be read.
    #[inline]
    pub fn generation(&self) -> u64 {
        acquire(&self.0, GENERATION)
    }

    /// The newest modex segment.
    pub fn newest(&self) -> u64 {
        acquire(&self.0, NEWEST)
    }

    /// The oldest modex segment that is still referred to.
    pub fn oldest(&self) -> u64 {
        acquire(&self.0, OLDEST)
    }

    /// The epoch. No order is implied: `page::pin` has the fence that matters.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.0.load(EPOCH).unwrap_or(0)
    }

    /// The number of releases, modulo 2^32. Everything that the writer stored before the last one is seen after this.
    pub fn releases(&self) -> u32 {
        low(acquire(&self.0, RELEASE))
    }

    /// Ranks that there is room for.
    pub fn ranks(&self) -> u32 {
        let pages = self.0.len().saturating_sub(DIRECTORY);
        self.0.load(header::RANKS).unwrap_or(0).min((pages * PAGE) as u64) as u32
    }

    /// The place of a page of the rank table, if any of its ranks has posted.
    #[inline(always)]
    pub fn page(&self, page: usize) -> Option<Reference> {
        Reference::decode(acquire(&self.0, DIRECTORY + page))
    }
}

/// The place of a rank's newest record, given the segment with the page of that rank, and where the page begins.
#[inline(always)]
pub fn record<W: Words>(segment: &W, page: Reference, rank: u32) -> Option<Reference> {
    Reference::decode(acquire(segment, page.word as usize + rank as usize % PAGE))
}

/// Publishes a rank's record, whose block is complete, in the page of that rank.
///
/// SYNC POINT: pairs with the acquire in [`record`]; loom test `publish`.
pub fn publish<W: WordsMut>(segment: &W, page: Reference, rank: u32, to: Option<Reference>) {
    let word = to.map_or(0, Reference::encode);
    segment.store(page.word as usize + rank as usize % PAGE, word, Ordering::Release);
}

impl<W: WordsMut> JobWords<W> {
    /// Makes an empty job segment of zeroed words.
    pub fn format(words: W, job: u64, ranks: u32) -> Self {
        let this = Self(words);
        let length = this.0.len() as u64 * 8;
        Header { kind: Kind::Job, length, job, number: 0, ranks: ranks.into() }.write(&this.0);
        this.0.store(EPOCH, 1, Ordering::Relaxed);
        this
    }

    /// Publishes a generation of job information, whose segment is complete.
    ///
    /// SYNC POINT: pairs with the acquire in [`JobWords::generation`]; loom test `generation`.
    pub fn set_generation(&self, generation: u64) {
        self.0.store(GENERATION, generation, Ordering::Release);
    }

    /// Says which modex segment is the newest, before anything refers to it.
    pub fn set_newest(&self, newest: u64) {
        self.0.store(NEWEST, newest, Ordering::Release);
    }

    /// Says which modex segment is the oldest, after every reference to older ones has been replaced.
    ///
    /// SYNC POINT: pairs with the acquire in [`JobWords::oldest`]: a reader that has unmapped what is older finds no
    /// way that leads there. Loom test `table`.
    pub fn set_oldest(&self, oldest: u64) {
        self.0.store(OLDEST, oldest, Ordering::Release);
    }

    /// Publishes a page of the rank table: an empty one, or one that has the references of all its ranks.
    ///
    /// SYNC POINT: pairs with the acquire in [`JobWords::page`], by which a reader sees the references in the page, and
    /// the records behind them; loom test `table`.
    pub fn publish_page(&self, page: usize, at: Reference) {
        self.0.store(DIRECTORY + page, at.encode(), Ordering::Release);
    }

    /// Releases those who wait for it. They sleep on the word until somebody wakes them, which is not done here.
    ///
    /// SYNC POINT: pairs with `acquire` in [`JobWords::releases`]; loom test `wake`.
    pub fn release(&self) {
        self.0.store(RELEASE, u64::from(self.releases().wrapping_add(1)), Ordering::Release);
    }

    /// Ends the current epoch and returns it: what was replaced before this call is retired with that number.
    ///
    /// SYNC POINT: pairs with the SeqCst fence in `page::pin`. A reader that sees the new epoch sees every reference
    /// stored before it; loom test `pins`.
    ///
    /// # Errors
    /// [`Malformed`] when the segment has no epoch word.
    pub fn end_epoch(&self) -> Result<u64, Malformed> {
        let ended = self.0.load(EPOCH)?;
        self.0.store(EPOCH, ended + 1, Ordering::Release);
        Ok(ended)
    }
}

#[cfg(not(loom))]
impl JobWords<crate::words::RawWords<'_>> {
    /// The address of the number of releases: 32 bits, little-endian.
    pub fn release_address(&self) -> usize {
        self.0.address(RELEASE)
    }
}
