//! The look-up cache: values of job information that a process has found before.
//!
//! Job information never changes, so a value stays where it was found. The cache keeps the process's own values and
//! those of no process in particular, the first ones that are asked for: they are few, and asked for again and again.
//! Of keys that other processes have too it keeps the plan, which is one for all. An entry is written once, by
//! whichever thread is first, and is never replaced, so that reading takes no lock.
use std::sync::OnceLock;

use instanton_layout::hash::same;
use instanton_layout::key::HashedKey;

use super::directives::InfoLevel;
use super::key_plan::KeyPlan;
use super::question::Question;
use crate::data::Rank;
use crate::store::value_cell::ValueCell;

/// Slots for values, a power of two.
const VALUES: usize = 64;
/// Slots for plans, a power of two.
const PLANS: usize = 32;
/// Bytes of the longest key in the cache: no reserved one is longer.
const LONGEST: usize = 40;

/// Values and plans by key. Their memory is there from the beginning: a Get allocates nothing but what it gives.
pub(super) struct LookupCache {
    /// A value is in the slot that its question leads to, or in the next.
    values: Box<[OnceLock<CachedValue>; VALUES]>,
    plans: Box<[OnceLock<(CachedKey, KeyPlan)>; PLANS]>,
}

struct CachedValue {
    key: CachedKey,
    rank: Rank,
    asker: Rank,
    level: InfoLevel,
    cell: ValueCell,
}

struct CachedKey {
    hash: u64,
    length: u8,
    bytes: [u8; LONGEST],
}

impl CachedKey {
    /// `None` for a key that is too long.
    fn of(key: &HashedKey<'_>) -> Option<Self> {
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..key.bytes().len())?.copy_from_slice(key.bytes());
        Some(Self { hash: key.hash(), length: key.bytes().len() as u8, bytes })
    }

    #[inline(always)]
    fn is(&self, key: &HashedKey<'_>) -> bool {
        let bytes = self.bytes.get(..self.length.into());
        self.hash == key.hash() && bytes.is_some_and(|bytes| same(bytes, key.bytes()))
    }
}

impl CachedValue {
    #[inline(always)]
    fn answers(&self, question: &Question<'_>) -> bool {
        self.rank == question.rank
            && self.asker == question.asker
            && self.level == question.directives.level
            && self.key.is(&question.key)
    }
}

impl LookupCache {
    pub(super) fn new() -> Self {
        let values = Box::new([const { OnceLock::new() }; VALUES]);
        Self { values, plans: Box::new([const { OnceLock::new() }; PLANS]) }
    }

    /// The plan for a key.
    #[inline(always)]
    pub(super) fn plan(&self, key: &HashedKey<'_>) -> Option<&KeyPlan> {
        let (known, plan) = self.plans[key.hash() as usize % PLANS].get()?;
        known.is(key).then_some(plan)
    }

    /// Keeps the plan for a key, if its slot is free.
    pub(super) fn keep_plan(&self, key: &HashedKey<'_>, plan: KeyPlan) {
        if let Some(known) = CachedKey::of(key) {
            let _ = self.plans[key.hash() as usize % PLANS].set((known, plan));
        }
    }

    /// The first of the two slots for a value; the other one is next to it.
    #[inline(always)]
    fn slot(question: &Question<'_>) -> usize {
        // Ranks that are none lie at the upper end, and so far from small ones as their distance says.
        (question.key.hash() as usize).wrapping_add(question.rank.0 as usize) % VALUES
    }

    /// The value that was found for this question before. The question names no session, application or node.
    #[inline(always)]
    pub(super) fn find(&self, question: &Question<'_>) -> Option<&ValueCell> {
        let first = Self::slot(question);
        let mut value = self.values[first].get()?;
        if !value.answers(question) {
            value = self.values[first ^ 1].get().filter(|value| value.answers(question))?;
        }
        Some(&value.cell)
    }

    /// Keeps a value, if there is room for it.
    #[cold]
    pub(super) fn keep(&self, question: &Question<'_>, cell: ValueCell) {
        let Some(key) = CachedKey::of(&question.key) else { return };
        let Question { rank, asker, directives, .. } = *question;
        let mut value = CachedValue { key, rank, asker, level: directives.level, cell };
        let first = Self::slot(question);
        for slot in [first, first ^ 1].map(|at| &self.values[at]) {
            match slot.set(value) {
                Ok(()) => return,
                // It may be the same: of another thread that was as fast, or of a caller who did not look whether it is
                // there.
                Err(_) if slot.get().is_some_and(|known| known.answers(question)) => return,
                Err(again) => value = again,
            }
        }
    }
}
