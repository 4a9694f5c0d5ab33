//! The host's limit on shared memory, exact to the byte and shared by all jobs of a server.
use std::sync::Arc;

use instanton_layout::sync::{AtomicU64, Ordering};

/// An amount of shared memory that may be in use at once. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: u64,
    used: AtomicU64,
    /// The budget that this one is a part of.
    whole: Option<Budget>,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Inner { limit, used: AtomicU64::new(0), whole: None }))
    }

    /// A budget of `limit` bytes, which count for this one as well.
    pub fn part(&self, limit: u64) -> Self {
        let limit = limit.min(self.limit());
        Self(Arc::new(Inner { limit, used: AtomicU64::new(0), whole: Some(self.clone()) }))
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes that may still be taken.
    pub fn left(&self) -> u64 {
        let left = self.limit().saturating_sub(self.used());
        self.0.whole.as_ref().map_or(left, |whole| left.min(whole.left()))
    }

    /// Bytes that may be in use.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Takes some of it, given back when the charge is dropped; `None` when there is not enough.
    pub(super) fn charge(&self, bytes: u64) -> Option<Charge> {
        let whole = match &self.0.whole {
            Some(whole) => Some(Box::new(whole.charge(bytes)?)),
            None => None,
        };
        let take = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.0.limit);
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Charge { budget: self.clone(), bytes, _of_whole: whole })
    }
}

/// Bytes in use.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Budget,
    bytes: u64,
    /// Charge of as many bytes to the budget that this one is a part of.
    _of_whole: Option<Box<Charge>>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The limits of a job.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Shared memory, of this job and of all others with the same budget.
    pub budget: Budget,
    /// Bytes that one reader's guards may hold back, or an eighth of the budget where that is less. Beyond them it
    /// gets no new guards, and no more is held back for those that it has.
    pub reader: u64,
}

impl Limits {
    /// Bytes that one reader's guards may hold back.
    pub(super) fn of_reader(&self) -> u64 {
        self.reader.min(self.budget.limit() / 8)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { budget: Budget::new(u64::MAX), reader: 4 << 20 }
    }
}
