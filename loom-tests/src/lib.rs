//! Models of the shared-memory protocol, run by loom through every order that the memory model allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p instanton-loom-tests --release
//! ```
//!
//! Budget: 90 seconds for all of it on two cores; today's models take 7 once they are compiled. Without `--cfg loom`
//! there is nothing to run.
//!
//! Every model has twins with a seeded bug, which must fail: a model whose twin passes proves nothing. The twins run
//! the very same protocol over `Weak` words, which forget an order on the way to memory.
//!
//! A `SeqCst` fence in loom is no scheduling point, so that a faulty relaxed store and the fence behind it would run as
//! one step and hide the fault. `VecWords` touches a shared word of its own before each fence.
#![cfg(loom)]

use instanton_layout::Malformed;
use instanton_layout::sync::Ordering;
use instanton_layout::words::{VecWords, Words, WordsMut};

/// Orderings that are left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Forget {
    /// None.
    Nothing,
    /// Stores are all relaxed.
    Release,
    /// Fences do nothing.
    Fences,
}

/// Words that forget some orders of the accesses through them.
#[derive(Clone, Copy)]
pub struct Weak<'a>(pub &'a VecWords, pub Forget);

impl Words for Weak<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn load(&self, at: usize) -> Result<u64, Malformed> {
        self.0.load(at)
    }

    fn fence(&self, order: Ordering) {
        if self.1 != Forget::Fences {
            self.0.fence(order);
        }
    }
}

impl WordsMut for Weak<'_> {
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.0.store(at, value, if self.1 == Forget::Release { Ordering::Relaxed } else { order });
    }
}

/// Words of the smallest record.
pub const RECORD: usize = 8;

/// The smallest record of rank 0: a head, and a slot that has `value` in all its words.
pub fn record(version: u64, value: u64) -> [u64; RECORD] {
    [version, RECORD as u64 * 8, 0, 0, value, value, value, value]
}

/// Two of those words, at the ends of the slot.
pub fn values(words: impl Words, at: usize) -> Result<(u64, u64), Malformed> {
    Ok((words.load(at + 4)?, words.load(at + 7)?))
}

/// Runs a model through every order, without a bound on preemptions.
pub fn model(f: impl Fn() + Sync + Send + 'static) {
    bounded_model(None, f);
}

/// Runs a model through every order in which threads are interrupted at most so often: for those that have too many.
pub fn bounded_model(preemptions: impl Into<Option<usize>>, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.into();
    builder.check(f);
}
