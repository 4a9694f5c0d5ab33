//! Values that threads read while they are replaced: each lies behind one pointer.
//!
//! A thread that reads is in an [`Epoch`]: nothing that it can reach is freed before it leaves. A value that is
//! replaced is freed when every thread has left the epochs in which it could be reached (crossbeam-epoch).
//!
//! A thread with a guard on shared memory (`Hold`) says so in its slot of the reader page anyway. That protects the
//! values of cells that belong to the page as well: who replaces one looks at the slots first, as the writer of the job
//! does, and keeps what is replaced as long as there is a guard.
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use instanton_layout::sync::Ordering;

use super::pin::{Hold, PinPage};

/// While it lives, nothing that this thread can reach in an `EpochCell` is freed. Hold it shortly.
pub struct Epoch(Guard);

impl Epoch {
    /// Enters.
    #[inline]
    pub fn enter() -> Self {
        Self(crossbeam_epoch::pin())
    }

    /// Has what was replaced destroyed, unless other threads are in an epoch. It is destroyed two epochs later, and
    /// epochs advance only when somebody sees to it: a process that is idle from now on would hold it for ever.
    pub fn settle() {
        for _ in 0..3 {
            crossbeam_epoch::pin().flush();
        }
    }

    /// The guard itself, for other structures of crossbeam-epoch.
    #[inline]
    pub fn guard(&self) -> &Guard {
        &self.0
    }
}

/// Holds a `T` that is replaced as a whole. Reading takes no lock; a replaced value is dropped when
/// nobody reads it any more.
pub(crate) struct EpochCell<T: Send + Sync + 'static> {
    current: Atomic<T>,
    page: Option<Arc<PinPage>>,
    /// Values that were replaced while guards were held; locked while replacing.
    kept: Mutex<Vec<Retired<T>>>,
}

/// A value that was replaced: reachable through references that were taken before, and not through the cell.
struct Retired<T>(*const T);

// SAFETY: a box in all but name, of a value that any thread may drop.
unsafe impl<T: Send> Send for Retired<T> {}

/// The value, as it was when the reading began. Of the thread that reads.
pub(crate) struct Reading<'a, T> {
    epoch: Epoch,
    value: *const T,
    cell: PhantomData<&'a T>,
}

impl<T: Send + Sync + 'static> EpochCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self::with_page(value, None)
    }

    /// A cell that guards on a page can read, too.
    pub(crate) fn with_page(value: T, page: Option<Arc<PinPage>>) -> Self {
        Self { current: Atomic::new(value), page, kept: Mutex::default() }
    }

    /// The value now.
    #[inline]
    pub(crate) fn read(&self) -> Reading<'_, T> {
        let epoch = Epoch::enter();
        let value = self.current.load(Ordering::Acquire, &epoch.0).as_raw();
        Reading { epoch, value, cell: PhantomData }
    }

    /// The value now, for a thread that is in an epoch already.
    #[inline]
    pub(crate) fn read_in<'a>(&'a self, epoch: &'a Epoch) -> &'a T {
        // SAFETY:
        // - the cell always holds a value, and `'a` keeps the cell from being dropped
        // - the epoch was entered before the pointer is loaded, and outlives the reference
        unsafe { self.current.load(Ordering::Acquire, &epoch.0).deref() }
    }

    /// The value now, for a thread that holds a guard; `None` when the guard is on another page.
    #[inline]
    pub(crate) fn read_held<'a>(&'a self, hold: &'a Hold<'_>) -> Option<&'a T> {
        if !self.page.as_ref().is_some_and(|page| hold.is_on(page)) {
            return None;
        }
        // SAFETY:
        // - the cell always holds a value, and `'a` keeps the cell from being dropped
        // - the slot says since before this load that there is a guard, and does so for 'a: `replace` sees it there, or
        //   this load sees what `replace` has stored (the SeqCst fences of `page::pin` and `page::fence_before_scan`)
        Some(unsafe { self.current.load(Ordering::Acquire, crossbeam_epoch::unprotected()).deref() })
    }

    /// Replaces the value by what `next` makes of it, unless that fails.
    pub(crate) fn replace<E>(&self, next: impl FnOnce(&T) -> Result<T, E>) -> Result<(), E> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next(&self.read())?;
        let guard = crossbeam_epoch::pin();
        let old = self.current.swap(Owned::new(next), Ordering::AcqRel, &guard);
        kept.push(Retired(old.as_raw()));
        if self.page.as_ref().is_none_or(|page| page.is_free()) {
            for Retired(old) in kept.drain(..) {
                // SAFETY:
                // - `old` came from `Owned::new` and is reachable no more, so that it is destroyed only here
                // - no guard was held after it was replaced; whoever else still reads it has been in an epoch since
                //   before
                // - T is Send and 'static: any thread may drop it, at any time
                unsafe { guard.defer_destroy(Shared::from(old)) };
            }
        }
        guard.flush();
        Ok(())
    }
}

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        let _ = &self.epoch;
        // SAFETY:
        // - the cell always holds a value, and `'a` keeps the cell from being dropped
        // - the epoch was entered before the pointer was loaded, so that its value outlives the reading
        unsafe { &*self.value }
    }
}

impl<T: Send + Sync + 'static> Drop for EpochCell<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the cell or a reference from it; what it holds and has kept came from `Owned::new`.
        unsafe {
            let current = self.current.swap(Shared::null(), Ordering::Relaxed, crossbeam_epoch::unprotected());
            drop(current.into_owned());
            for Retired(old) in self.kept.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
                drop(Shared::from(old).into_owned());
            }
        }
        Epoch::settle();
    }
}
