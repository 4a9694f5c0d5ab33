//! Blocks: records that can be replaced while they are read.
//!
//! The first word of a block is the version of its record. No two records of a job have the same version, and reuse does not start
//! again, so that an unchanged version means an unchanged record.
use crate::Malformed;
use crate::record::{Owner, Record};
use crate::sync::Ordering;
use crate::words::{Words, WordsMut};

/// What came of one attempt to read a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt<T> {
    /// What was read is true of one version of the record.
    Done(T),
    /// The block was written meanwhile: follow the rank's reference again.
    Changed,
    /// The block did not change and makes no sense.
    Bad(Malformed),
}

/// Reads the record of `rank` at word `at`, which may be replaced at any time. Where its version is known, any other one is a change.
///
/// `body` is given the record and its version. What it makes of them counts only if the answer is `Done`.
///
/// SYNC POINT: the second fence pairs with the release fence in [`write()`]: had `body` seen a word of a later record, the version
/// loaded behind the fence would be odd or later. The first pairs with the release store of the version: `body` sees no word older
/// than the version. Loom test `copying_read`.
#[inline(always)]
pub fn read<W: Words + Copy, T>(
    words: W,
    at: usize,
    rank: u32,
    known: Option<u64>,
    body: impl FnOnce(&Record<W>, u64) -> Result<T, Malformed>,
) -> Attempt<T> {
    let version = match words.load(at) {
        Ok(version) if version % 2 == 1 || known.is_some_and(|known| known != version) => return Attempt::Changed,
        Ok(version) => version,
        Err(e) => return Attempt::Bad(e),
    };
    words.fence(Ordering::Acquire);
    let out = Record::in_block(words, at, Owner::Modex, rank).and_then(|record| body(&record, version));
    words.fence(Ordering::Acquire);
    match words.load(at) {
        Ok(after) if after != version => Attempt::Changed,
        _ => match out {
            Ok(out) => Attempt::Done(out),
            Err(e) => Attempt::Bad(e),
        },
    }
}

/// Writes a record (built and sealed in private memory) to the block at word `at`, which no reference leads to.
///
/// Readers that still follow an old reference see the version odd, or changed.
///
/// SYNC POINT: the release fence and the release store pair with the fences in [`read()`]. Loom test `copying_read`.
pub fn write<W: WordsMut>(words: &W, at: usize, record: &[u64]) {
    // Not what is there with a bit more: loom knows only the last access to a word, and a load here would hide the readers' from it.
    words.store(at, record[0] | 1, Ordering::Relaxed);
    words.fence(Ordering::Release);
    for (i, word) in record.iter().enumerate().skip(1) {
        words.store(at + i, *word, Ordering::Relaxed);
    }
    words.store(at, record[0], Ordering::Release);
}
