//! Blocks: records that can be replaced while they are read.
//!
//! The first word of a block is the version of its record. No two records of a job have the same version, and reuse
//! does not start again, so that an unchanged version means an unchanged record.
use crate::Malformed;
use crate::sync::Ordering;
use crate::words::{Words, WordsMut};

/// A read of a block that may be written at any time, as of a seqlock: it counts only if the block
/// [is unchanged](SeqlockRead::is_unchanged) afterwards.
pub struct SeqlockRead<W> {
    pub(crate) words: W,
    at: usize,
    /// The version of the record that is read.
    pub version: u64,
}

impl<W: Words> SeqlockRead<W> {
    /// Begins a read of the block at word `at`. None where it is being written; or where its version is known, and is
    /// another one.
    ///
    /// SYNC POINT: the fence pairs with the release store of the version in [`write()`]: nothing is seen that is older
    /// than the version. Loom test `copying_read`.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when there is no such block.
    #[inline(always)]
    pub fn begin(words: W, at: usize, known: Option<u64>) -> Result<Option<Self>, Malformed> {
        let version = words.load(at)?;
        if version % 2 == 1 || known.is_some_and(|known| known != version) {
            return Ok(None);
        }
        words.fence(Ordering::Acquire);
        Ok(Some(Self { words, at, version }))
    }

    /// Returns whether the block has not been written since.
    ///
    /// SYNC POINT: the fence pairs with the release fence in [`write()`]: had a word of a later record been seen, the
    /// version loaded behind the fence would be odd or later. Loom test `copying_read`.
    #[inline(always)]
    pub fn is_unchanged(&self) -> bool {
        self.words.fence(Ordering::Acquire);
        self.words.load(self.at) == Ok(self.version)
    }
}

/// Writes a record (built and sealed in private memory) to the block at word `at`, which no reference leads to.
///
/// Readers that still follow an old reference see the version odd, or changed.
///
/// SYNC POINT: the release fence and the release store pair with the fences in [`SeqlockRead`]. Loom test
/// `copying_read`.
pub fn write<W: WordsMut>(words: &W, at: usize, record: &[u64]) {
    // Not what is there with a bit more: loom knows only the last access to a word, and a load here would hide the
    // readers' from it.
    words.store(at, record[0] | 1, Ordering::Relaxed);
    words.fence(Ordering::Release);
    for (i, word) in record.iter().enumerate().skip(1) {
        words.store(at + i, *word, Ordering::Relaxed);
    }
    words.store(at, record[0], Ordering::Release);
}
