//! The reader page: which epochs a reader holds.
//!
//! A page is 64 lines of 64 bytes: the header, then one slot a line. A slot holds 0, or the epoch that was current when
//! its guard was taken. Its reader writes it, the writer of the job only reads it, with relaxed loads, and never uses a
//! word as an index or a length.
use crate::header::{Header, Kind};
use crate::job::JobWords;
use crate::sync::Ordering;
use crate::words::{Words, WordsMut};

/// Slots of a page.
pub const SLOTS: usize = 63;
/// Words of a page.
pub const WORDS: usize = 512;
const _: () = assert!(WORDS * 8 == 4096 && (SLOTS + 1) * 8 == WORDS);

const fn slot_word(slot: usize) -> usize {
    (slot + 1) * 8
}

/// Makes an empty page of zeroed words.
pub fn format<W: WordsMut>(words: &W, job: u64, number: u64) {
    Header { kind: Kind::Page, length: words.len() as u64 * 8, job, number, ranks: 0 }.write(words);
}

/// Pins the current epoch: no block that a reference loaded from now on leads to is reused until [`unpin`].
///
/// SYNC POINT: the SeqCst fence pairs with the one in [`fence_before_scan`]. Of two fences one is first: if this one,
/// the writer sees the slot; if the writer's, every reference replaced before it is gone from our sight. Loom test
/// `pins`.
#[inline]
pub fn pin<J: Words, P: WordsMut>(job: &JobWords<J>, page: &P, slot: usize) {
    page.store(slot_word(slot), job.epoch(), Ordering::Relaxed);
    page.fence(Ordering::SeqCst);
}

/// Gives up a slot.
///
/// SYNC POINT: the release store pairs with the fence in [`fence_before_scan`]: what was read under the guard was read
/// before the block is written again. Loom test `pins`.
#[inline]
pub fn unpin<P: WordsMut>(page: &P, slot: usize) {
    page.store(slot_word(slot), 0, Ordering::Release);
}

/// The epochs that a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// No slot is taken.
    Nothing,
    /// The oldest epoch in its slots.
    Since(u64),
    /// A slot holds an epoch that has not been yet: its owner does not keep to the protocol.
    Lie(u64),
}

/// Reads the slots of `page`, given that `epoch` is the current one. [`fence_before_scan`] must come first.
pub fn scan<P: Words>(page: &P, epoch: u64) -> Pinned {
    let mut oldest = Pinned::Nothing;
    for slot in 0..(page.len() / 8).saturating_sub(1).min(SLOTS) {
        match (page.load(slot_word(slot)).unwrap_or(0), oldest) {
            (0, _) => {}
            (word, _) if word > epoch => return Pinned::Lie(word),
            (word, Pinned::Since(since)) if since <= word => {}
            (word, _) => oldest = Pinned::Since(word),
        }
    }
    oldest
}

/// The writer's half of the handshake with [`pin`]: after replacing references, before looking at the slots.
pub fn fence_before_scan<W: Words>(words: &W) {
    words.fence(Ordering::SeqCst);
}

/// The writer's half of the handshake with [`unpin`]: after a slot was seen free, before writing a block that it
/// protected.
pub fn fence_after_scan<W: Words>(words: &W) {
    words.fence(Ordering::Acquire);
}
