//! One immutable block behind one atomic pointer: replaced as a whole, read without a lock.
use std::fmt;

use crossbeam_epoch::{self as epoch, Atomic, Owned};
use std::sync::atomic::Ordering;

/// A block that is replaced as a whole. Reading it takes no lock, so that it may be done in a forked child, where a lock that another
/// thread held would never be released.
pub struct Snapshot<T>(Atomic<T>);

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// The first block.
    pub fn new(block: T) -> Self {
        Snapshot(Atomic::new(block))
    }

    /// Reads the block of now.
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        let guard = epoch::pin();
        let block = self.0.load(Ordering::Acquire, &guard);
        // SAFETY:
        // - the pointer is never null: `new` and `replace` put a block there, and only `drop` takes it away;
        // - the block lives while `guard` pins the epoch, because `replace` only defers its end;
        // - nobody has a mutable reference to a block once it is in the pointer.
        f(unsafe { block.deref() })
    }

    /// Puts another block in its place. The old one ends when its last reader is gone.
    pub fn replace(&self, block: T) {
        let guard = epoch::pin();
        let old = self.0.swap(Owned::new(block), Ordering::AcqRel, &guard);
        // SAFETY:
        // - `old` came out of the pointer by a swap, so no other call defers it a second time;
        // - no reader that starts from now on can find it.
        unsafe { guard.defer_destroy(old) };
    }
}

impl<T> Drop for Snapshot<T> {
    fn drop(&mut self) {
        let block = std::mem::replace(&mut self.0, Atomic::null());
        // SAFETY: `&mut self` says that nobody reads, and the pointer holds a block that is deferred nowhere.
        drop(unsafe { block.try_into_owned() });
    }
}

impl<T> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}
