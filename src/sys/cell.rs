//! A value that threads read while it is replaced.
use std::marker::PhantomData;
use std::ops::Deref;

use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use instanton_layout::sync::Ordering;

/// Holds a `T` that is replaced as a whole. Reading takes no lock; a replaced value is dropped when nobody reads it any more.
pub(crate) struct EpochCell<T: Send + Sync + 'static> {
    current: Atomic<T>,
    replacing: std::sync::Mutex<()>,
}

/// The value, as it was when the reading began. Of the thread that reads.
pub(crate) struct Reading<'a, T> {
    guard: Guard,
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
        let guard = crossbeam_epoch::pin();
        let value = self.current.load(Ordering::Acquire, &guard).as_raw();
        Reading { guard, value, cell: PhantomData }
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
        let _ = &self.guard;
        // SAFETY:
        // - the cell always holds a value, and `'a` keeps the cell from being dropped
        // - the guard was pinned before the pointer was loaded, so that its value outlives the guard
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
