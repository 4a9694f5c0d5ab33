//! Objects that the whole process shares, that come and go, and are reached without a lock.
//!
//! An object that is taken out is freed when no thread can still be looking at it (crossbeam-epoch). A forked child
//! finds the slot as it was at the fork: no other thread can have left it half done.
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_epoch::{self as epoch, Atomic, Owned, Shared};
use instanton::internal::sys::cell::Epoch;

/// Empty, or one reference.
pub struct Slot<T: Send + Sync + 'static>(Atomic<Arc<T>>);

impl<T: Send + Sync + 'static> Slot<T> {
    /// Nothing yet.
    pub const fn empty() -> Self {
        Slot(Atomic::null())
    }

    /// Runs something short on what is in it; nothing that is taken out meanwhile is freed before that ends.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&Epoch, &Arc<T>) -> R) -> Option<R> {
        let epoch = Epoch::enter();
        // SAFETY: what the slot held is only freed through the epoch, and this thread is in one.
        unsafe { self.0.load(Ordering::Acquire, epoch.guard()).as_ref() }.map(|inside| f(&epoch, inside))
    }

    /// Puts something in. A former object is left alone for ever: only a forked child finds one, and that is
    /// its parent's.
    pub fn put(&self, value: Arc<T>) {
        self.0.store(Owned::new(value), Ordering::Release);
    }

    /// Puts something in the place of what is in it, which is freed when nobody looks at it any more.
    pub fn replace(&self, value: Arc<T>) {
        let guard = epoch::pin();
        let old = self.0.swap(Owned::new(value), Ordering::AcqRel, &guard);
        if !old.is_null() {
            // SAFETY: it cannot be reached any more, and only one thread can have swapped it out.
            unsafe { guard.defer_destroy(old) };
            drop(guard);
            Epoch::settle();
        }
    }

    /// Takes out what is in it.
    pub fn clear(&self) {
        let guard = epoch::pin();
        let old = self.0.swap(Shared::null(), Ordering::AcqRel, &guard);
        if !old.is_null() {
            // SAFETY: it cannot be reached any more, and only one thread can have swapped it out.
            unsafe { guard.defer_destroy(old) };
            drop(guard);
            Epoch::settle();
        }
    }
}
