//! Atomics: the processor's, or loom's when the crate is compiled with `--cfg loom`.
//!
//! Everything in the workspace takes its atomics from here (clippy's `disallowed-types` sees to it).

#[cfg(not(loom))]
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the place they come from")]
mod primitive {
    pub use core::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

#[cfg(loom)]
mod primitive {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub use primitive::*;
