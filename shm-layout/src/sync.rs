//! Atomics: the processor's, or loom's when the crate is compiled with `--cfg loom`.
//!
//! Everything in the workspace takes its atomics from here; clippy's `disallowed-types` sees to it. The types are our
//! own, so that the lint can tell them from the ones it forbids.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the place they come from")]

#[cfg(not(loom))]
use core::sync::atomic as primitive;
#[cfg(loom)]
use loom::sync::atomic as primitive;

pub use core::sync::atomic::Ordering;

/// A fence between the accesses before it and those behind it.
#[inline]
pub fn fence(order: Ordering) {
    // The compiler makes an MFENCE of it, which also orders non-temporal accesses, of which there are none, and takes
    // longer for it.
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    if order == Ordering::SeqCst {
        // SAFETY:
        // - an OR with 0, in one step, changes nothing in the word at the top of this thread's stack, whoever else
        //   looks at it
        // - an instruction with LOCK is a full barrier for the processor, and assembler that may touch any memory is
        //   one for the compiler
        unsafe { core::arch::asm!("lock or dword ptr [rsp], 0", options(nostack)) };
        return;
    }
    primitive::fence(order);
}

macro_rules! atomic {
    ($($(#[$doc:meta])* $name:ident: $ty:ty),* $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            #[repr(transparent)]
            pub struct $name(primitive::$name);

            #[allow(missing_docs, reason = "the methods are those of core's type of the same name")]
            impl $name {
                #[cfg(not(loom))]
                pub const fn new(value: $ty) -> Self {
                    Self(primitive::$name::new(value))
                }

                #[cfg(loom)]
                pub fn new(value: $ty) -> Self {
                    Self(primitive::$name::new(value))
                }

                /// # Safety
                /// As core's: valid and aligned for `'a`, and accessed only atomically meanwhile.
                #[cfg(not(loom))]
                #[inline]
                pub const unsafe fn from_ptr<'a>(at: *mut $ty) -> &'a Self {
                    // SAFETY: the same contract; the type is transparent.
                    unsafe { &*at.cast() }
                }

                #[inline]
                pub fn load(&self, order: Ordering) -> $ty {
                    self.0.load(order)
                }

                #[inline]
                pub fn store(&self, value: $ty, order: Ordering) {
                    self.0.store(value, order);
                }

                #[inline]
                pub fn swap(&self, value: $ty, order: Ordering) -> $ty {
                    self.0.swap(value, order)
                }

                #[inline]
                pub fn compare_exchange(
                    &self,
                    current: $ty,
                    new: $ty,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$ty, $ty> {
                    self.0.compare_exchange(current, new, success, failure)
                }

                #[inline]
                pub fn fetch_update(
                    &self,
                    set: Ordering,
                    fetch: Ordering,
                    f: impl FnMut($ty) -> Option<$ty>,
                ) -> Result<$ty, $ty> {
                    self.0.fetch_update(set, fetch, f)
                }

                #[inline]
                pub fn fetch_and(&self, value: $ty, order: Ordering) -> $ty {
                    self.0.fetch_and(value, order)
                }

                #[inline]
                pub fn fetch_or(&self, value: $ty, order: Ordering) -> $ty {
                    self.0.fetch_or(value, order)
                }
            }
        )*
    };
}

atomic! {
    /// A flag.
    AtomicBool: bool,
    /// A byte.
    AtomicU8: u8,
    /// 16 bits.
    AtomicU16: u16,
    /// 32 bits.
    AtomicU32: u32,
    /// 32 bits, signed.
    AtomicI32: i32,
    /// A word.
    AtomicU64: u64,
    /// A size.
    AtomicUsize: usize,
}

macro_rules! arithmetic {
    ($($name:ident: $ty:ty),* $(,)?) => {
        $(
            #[allow(missing_docs, reason = "the methods are those of core's type of the same name")]
            impl $name {
                #[inline]
                pub fn fetch_add(&self, value: $ty, order: Ordering) -> $ty {
                    self.0.fetch_add(value, order)
                }

                #[inline]
                pub fn fetch_sub(&self, value: $ty, order: Ordering) -> $ty {
                    self.0.fetch_sub(value, order)
                }
            }
        )*
    };
}

arithmetic! { AtomicU8: u8, AtomicU16: u16, AtomicU32: u32, AtomicI32: i32, AtomicU64: u64, AtomicUsize: usize }

/// Memory that is looked at in place and not by atomic accesses, for models. Loom fails where a read and a write of it
/// can meet.
#[cfg(loom)]
#[derive(Debug)]
pub struct InPlace(loom::cell::UnsafeCell<()>);

// SAFETY: there is nothing in it, and nothing looks at what its pointers lead to.
#[cfg(loom)]
unsafe impl Sync for InPlace {}

#[cfg(loom)]
impl Default for InPlace {
    fn default() -> Self {
        Self(loom::cell::UnsafeCell::new(()))
    }
}

#[cfg(loom)]
impl InPlace {
    /// Somebody looks at it.
    pub fn read(&self) {
        self.0.with(|_| ());
    }

    /// Somebody writes it.
    pub fn write(&self) {
        self.0.with_mut(|_| ());
    }
}
