//! What threads read while it is replaced: values that lie behind one pointer.
//!
//! A thread that reads is in an [`Epoch`]: nothing that it can reach is freed before it leaves. What is replaced is freed when
//! every thread has left the epochs in which it could be reached (crossbeam-epoch).
use std::marker::PhantomData;
use std::ops::Deref;

use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use instanton_layout::sync::Ordering;

/// While it lives, nothing that this thread can reach in an [`EpochCell`] is freed. Hold it shortly.
pub struct Epoch(Guard);

impl Epoch {
    /// Enters.
    #[inline]
    pub fn enter() -> Self {
        Self(crossbeam_epoch::pin())
    }

    /// The guard itself, for other structures of crossbeam-epoch.
    #[inline]
    pub fn guard(&self) -> &Guard {
        &self.0
    }
}

/// Holds a `T` that is replaced as a whole. Reading takes no lock; a replaced value is dropped when nobody reads it any more.
pub(crate) struct EpochCell<T: Send + Sync + 'static> {
    current: Atomic<T>,
    replacing: std::sync::Mutex<()>,
}

/// The value, as it was when the reading began. Of the thread that reads.
pub(crate) struct Reading<'a, T> {
    epoch: Epoch,
    value: *const T,
    cell: PhantomData<&'a T>,
}

impl<T: Send + Sync + 'static> EpochCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { current: Atomic::new(value), replacing: std::sync::Mutex::new(()) }
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

    /// Replaces the value by what `next` makes of it, unless that fails.
    pub(crate) fn replace<E>(&self, next: impl FnOnce(&T) -> Result<T, E>) -> Result<(), E> {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let next = next(&self.read())?;
        let guard = crossbeam_epoch::pin();
        let old = self.current.swap(Owned::new(next), Ordering::AcqRel, &guard);
        // SAFETY:
        // - `old` came from `Owned::new` and is reachable no more, so that it is destroyed only here
        // - whoever still reads it has been pinned since before the swap
        // - T is Send and 'static: any thread may drop it, at any time
        unsafe { guard.defer_destroy(old) };
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
        // SAFETY: nobody else has the cell, and it always holds a value that came from `Owned::new`.
        unsafe {
            let current = self.current.swap(Shared::null(), Ordering::Relaxed, crossbeam_epoch::unprotected());
            drop(current.into_owned());
        }
        // What was replaced is destroyed two epochs later, and epochs advance only when somebody sees to it: a process that
        // is idle from now on would hold it for ever.
        for _ in 0..3 {
            crossbeam_epoch::pin().flush();
        }
    }
}
