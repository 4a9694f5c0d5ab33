//! The records of a modex segment that this process has found whole: it checks each once.
use std::io;

use instanton_layout::chain;
use instanton_layout::classes;
use instanton_layout::sync::Ordering;
use instanton_layout::words::{Words, WordsMut};

use crate::sys::memory::Mapping;

/// Words of a segment of which at most one is the first of a block.
const STRIDE: usize = classes::words(0);

/// Versions of the records that were last found whole, by the place where a block may begin. Memory is taken as it is
/// used.
pub(in crate::store) struct Checked(Mapping);

impl Checked {
    /// No record yet, for a segment of that many words.
    pub(in crate::store) fn new(words: usize) -> io::Result<Self> {
        Ok(Self(Mapping::private(words.div_ceil(STRIDE) * 8)?))
    }
}

impl chain::Checked for &Checked {
    #[inline(always)]
    fn has(self, word: u32, version: u64) -> bool {
        self.0.words().load(word as usize / STRIDE) == Ok(version)
    }

    #[inline]
    fn add(self, word: u32, version: u64) {
        self.0.words_mut().store(word as usize / STRIDE, version, Ordering::Relaxed);
    }
}
