//! Words of an info segment, each of which this process checks once.
use std::io;

use instanton_layout::Malformed;
use instanton_layout::sync::Ordering;
use instanton_layout::words::{RawWords, RawWordsMut, Words, WordsMut};

use crate::sys::memory::Mapping;

/// Bits for the words of an info segment: set if the thing that begins there was found whole. Memory is taken as it is
/// used.
pub(super) struct Seen(Mapping);

impl Seen {
    /// No bit yet, for a segment of that many words.
    pub(in crate::store) fn new(words: usize) -> io::Result<Self> {
        Ok(Self(Mapping::private(words.div_ceil(64) * 8)?))
    }

    /// Takes the memory for what lies in front: by a store alone, because a look before it would be a page fault more.
    /// The checks of the first words are forgotten, and made again.
    pub(super) fn populate(&self) {
        self.0.words_mut().store(0, 0, Ordering::Relaxed);
    }

    /// The words of that segment.
    #[inline(always)]
    pub(in crate::store) fn of<'a>(&'a self, words: RawWords<'a>) -> Frozen<'a> {
        Frozen { words, seen: self.0.words_mut() }
    }
}

/// Words of an info segment, which never change.
#[derive(Clone, Copy)]
pub(in crate::store) struct Frozen<'a> {
    words: RawWords<'a>,
    seen: RawWordsMut<'a>,
}

impl<'a> Frozen<'a> {
    /// The words without their checks.
    #[inline(always)]
    pub(in crate::store) fn raw(self) -> RawWords<'a> {
        self.words
    }

    #[cold]
    fn first(self, at: usize, check: impl FnOnce(&Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        check(&self)?;
        let (word, bit) = (at / 64, 1 << (at % 64));
        // Two threads at once may lose one of their bits: then something is checked once more.
        self.seen.store(word, self.seen.load(word)? | bit, Ordering::Relaxed);
        Ok(())
    }
}

impl Words for Frozen<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.words.len()
    }

    #[inline(always)]
    fn load(&self, at: usize) -> Result<u64, Malformed> {
        self.words.load(at)
    }

    #[inline(always)]
    fn load_all<const N: usize>(&self, at: usize) -> Result<[u64; N], Malformed> {
        self.words.load_all(at)
    }

    fn fence(&self, order: Ordering) {
        self.words.fence(order);
    }

    #[inline(always)]
    fn once(&self, at: usize, check: impl FnOnce(&Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        match self.seen.load(at / 64)? >> (at % 64) & 1 {
            0 => self.first(at, check),
            _ => Ok(()),
        }
    }
}
