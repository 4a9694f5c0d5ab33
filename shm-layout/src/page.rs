//! The reader page: which epochs a reader holds.
//!
//! A page is 64 lines of 64 bytes: the header, then one slot a line. A slot holds 0, or the epoch that was current when
//! its guard was taken. Its reader writes it, the writer of the job only reads it, with relaxed loads, and never uses a
//! word as an index or a length.
//!
//! The word behind each slot is the writer's: it is 1 while the page is *closed*, because the reader holds back too
//! much. A closed page takes no new guards, and through the guards on it nothing more is found. So they can only hold
//! blocks that were there when the page was closed, and the writer goes on with all others. A reader that overlooks the
//! word looks at memory that changes, which is its own harm alone.
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

const fn closed_word(slot: usize) -> usize {
    slot_word(slot) + 1
}

/// Slots of a page of so many words.
fn slots(words: usize) -> usize {
    (words / 8).saturating_sub(1).min(SLOTS)
}

/// Makes an empty page of zeroed words.
pub fn format<W: WordsMut>(words: &W, job: u64, number: u64) {
    Header { kind: Kind::Page, length: words.len() as u64 * 8, job, number, ranks: 0 }.write(words);
}

/// Pins the current epoch: no block that a reference loaded from now on leads to is reused until [`unpin`], unless
/// [`is_closed`] says behind that load that the page is closed. Returns false, and pins nothing, if it is already.
///
/// SYNC POINT: the SeqCst fence pairs with the one in [`fence_before_scan`]. Of two fences one is first: if this one,
/// the writer sees the slot; if the writer's, every reference replaced before it is gone from our sight. Loom test
/// `pins`.
#[inline]
#[must_use]
pub fn pin<J: Words, P: WordsMut>(job: &JobWords<J>, page: &P, slot: usize) -> bool {
    let open = !is_closed(page, slot);
    if open {
        page.store(slot_word(slot), job.epoch(), Ordering::Relaxed);
        page.fence(Ordering::SeqCst);
    }
    open
}

/// Returns whether the page is closed. A guard that asks this *behind* its look-up, and is told no, holds what it has
/// found.
///
/// SYNC POINT: pairs with [`close`]. A reader that has followed a reference that was published after the page was
/// closed sees the page closed here, by the acquire of that reference. Loom test `closed`.
#[inline(always)]
pub fn is_closed<P: Words>(page: &P, slot: usize) -> bool {
    page.load(closed_word(slot)) != Ok(0)
}

/// Closes a page: none of its guards holds a block that is published from now on.
///
/// SYNC POINT: the release store of the next reference ([`publish`](crate::job::publish)) makes this seen by all who
/// follow that; [`is_closed`] is the other end. Loom test `closed`.
pub fn close<P: WordsMut>(page: &P) {
    (0..slots(page.len())).for_each(|slot| page.store(closed_word(slot), 1, Ordering::Relaxed));
}

/// Opens a page again, of which [`scan`] has found no slot taken: no look-up through an earlier guard is under way.
///
/// SYNC POINT: [`fence_after_scan`] must come first. It pairs with [`unpin`], so that no look-up before that sees the
/// page open; loom test `closed`.
pub fn open<P: WordsMut>(page: &P) {
    (0..slots(page.len())).for_each(|slot| page.store(closed_word(slot), 0, Ordering::Relaxed));
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
    for slot in 0..slots(page.len()) {
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
