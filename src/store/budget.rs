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
    /// Bytes that are [kept](Budget::keep), as far as they are not in use.
    kept: AtomicU64,
    /// The budget that this one is a part of.
    whole: Option<Budget>,
    /// True if memory of a process's own counts for that as well.
    is_joint_part: bool,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self::open(limit, None, false)
    }

    /// A budget of `limit` bytes, which count for this one as well.
    pub fn part(&self, limit: u64) -> Self {
        let limit = limit.min(self.limit());
        Self::open(limit, Some(self.clone()), false)
    }

    fn open(limit: u64, whole: Option<Budget>, is_joint_part: bool) -> Self {
        let [used, kept] = [0, 0].map(AtomicU64::new);
        Self(Arc::new(Inner { limit, used, kept, whole, is_joint_part }))
    }

    /// Keeps so many bytes for those who have [little](Self::charge_kept), and a sixteenth of the budget at most. Whole
    /// steps are kept, or nothing.
    pub(super) fn keep(&self, bytes: u64, step: u64) {
        let most = bytes.min(self.limit() / 16);
        self.0.kept.store(most - most % step, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes that anybody may still take.
    pub fn left(&self) -> u64 {
        let left = self.open_to_all().saturating_sub(self.used());
        self.0.whole.as_ref().map_or(left, |whole| left.min(whole.left()))
    }

    /// Bytes that may be in use.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes that may be in use where nothing of what is kept is.
    pub(super) fn open_to_all(&self) -> u64 {
        self.limit() - self.0.kept.load(Ordering::Relaxed)
    }

    /// Takes some of it, given back when the charge is dropped; `None` when there is not enough.
    pub(super) fn charge(&self, bytes: u64) -> Option<Charge> {
        self.charge_of(bytes, Share::Open, 0)
    }

    /// [`charge`](Self::charge), of what is kept.
    pub(super) fn charge_kept(&self, bytes: u64) -> Option<Charge> {
        let take = |kept: u64| kept.checked_sub(bytes);
        self.0.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let charge = self.charge_of(bytes, Share::Kept, bytes);
        if charge.is_none() {
            self.0.kept.fetch_add(bytes, Ordering::Relaxed);
        }
        charge
    }

    fn charge_of(&self, bytes: u64, share: Share, kept: u64) -> Option<Charge> {
        let whole = match &self.0.whole {
            Some(whole) => Some(Box::new(whole.charge_of(bytes, share, 0)?)),
            None => None,
        };
        self.add(bytes, share).then(|| Charge { budget: self.clone(), bytes, kept, _of_whole: whole })
    }

    /// Counts bytes more as in use, or none where that is over the limit.
    fn add(&self, bytes: u64, share: Share) -> bool {
        let most = match share {
            Share::Open => self.open_to_all(),
            Share::Kept => self.limit(),
        };
        let take = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Memory of a process's own, which counts for a joint budget as shared memory does.
impl Budget {
    /// A budget of `limit` bytes for memory of both kinds. Only shared memory counts for this one as well, whose limit
    /// may be lower. It keeps the same part as those that are a part of it.
    pub(crate) fn joint(&self, limit: u64) -> Self {
        let joint = Self::open(limit, Some(self.clone()), false);
        joint.keep(u64::MAX, 1);
        joint
    }

    /// A [joint](Self::joint) budget that is a part of this joint one: memory of both kinds counts for this as well.
    pub(crate) fn joint_part(&self, limit: u64) -> Self {
        let part = Self::open(limit.min(self.limit()), Some(self.clone()), true);
        part.keep(u64::MAX, 1);
        part
    }

    /// The budget that memory of a process's own counts for besides this one.
    fn joint_whole(&self) -> Option<&Budget> {
        self.0.whole.as_ref().filter(|_| self.0.is_joint_part)
    }

    /// Number of the budget that this one is a [part](Self::joint_part) of, as long as this one is there.
    pub(crate) fn shared_with(&self) -> Option<usize> {
        self.joint_whole().map(|whole| Arc::as_ptr(&whole.0) as usize)
    }

    /// Takes so many bytes, or none where there are not as many.
    pub(crate) fn take_own(&self, bytes: u64) -> bool {
        if !self.add(bytes, Share::Open) {
            return false;
        }
        let is_taken = self.joint_whole().is_none_or(|whole| whole.take_own(bytes));
        if !is_taken {
            self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_taken
    }

    /// Takes so many bytes, even where there are not as many.
    pub(crate) fn force_own(&self, bytes: u64) {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.joint_whole().into_iter().for_each(|whole| whole.force_own(bytes));
    }

    /// Gives back bytes that were taken.
    pub(crate) fn give_own_back(&self, bytes: u64) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        self.joint_whole().into_iter().for_each(|whole| whole.give_own_back(bytes));
    }

    /// Bytes that are left here, whatever is left of memory that is shared by all.
    pub(crate) fn own_left(&self) -> u64 {
        let left = self.open_to_all().saturating_sub(self.used());
        self.joint_whole().map_or(left, |whole| left.min(whole.own_left()))
    }
}

/// Bytes in use.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Budget,
    bytes: u64,
    /// Bytes of them that are kept again afterwards.
    kept: u64,
    /// Charge of as many bytes to the budget that this one is a part of.
    _of_whole: Option<Box<Charge>>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.0.kept.fetch_add(self.kept, Ordering::Relaxed);
    }
}

/// Room for records, open to all ranks or kept for some.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    Open,
    /// [Kept](Budget::keep) for ranks that have little.
    Kept,
}

/// The limits of a job: by [`default`](Self::default) no budget, and 4 MiB for each reader.
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
