//! What a process has found in its job information before: it does not look for it again.
//!
//! Job information never changes, so what was found once lies where it was found. Only the process's own keys and those of no
//! process in particular are remembered, the first ones that are asked for: they are few, and asked for again and again. Of the keys
//! that others have too it is remembered what they mean, which is the same for all. An entry is written once, by whichever thread is
//! first, and is never replaced, so that reading takes no lock.
use std::sync::OnceLock;

use instanton_layout::hash::same;
use instanton_layout::record::Query;

use super::key_plan::KeyPlan;
use super::question::{Level, Lookup, NodeSel};
use crate::data::Rank;
use crate::store::value_cell::ValueCell;

/// Places for answers, a power of two.
const PLACES: usize = 64;
/// Places for what keys mean, a power of two.
const KEYS: usize = 32;
/// Bytes of the longest key that is remembered: no reserved one is longer.
const LONGEST: usize = 40;

/// Answers, each at the place that its question leads to or next to it, where neither is taken. Their memory is there from the
/// beginning: a Get allocates nothing but what it gives.
pub(super) struct LookupCache {
    answers: Box<[OnceLock<Answer>; PLACES]>,
    keys: Box<[OnceLock<(Name, KeyPlan)>; KEYS]>,
}

struct Answer {
    name: Name,
    rank: Rank,
    asker: Rank,
    level: Plain,
    value: ValueCell,
}

/// A key.
struct Name {
    hash: u64,
    length: u8,
    key: [u8; LONGEST],
}

impl Name {
    /// None of a key that is too long to be remembered.
    fn of(query: &Query<'_>) -> Option<Self> {
        let mut key = [0; LONGEST];
        key.get_mut(..query.key().len())?.copy_from_slice(query.key());
        Some(Self { hash: query.hash(), length: query.key().len() as u8, key })
    }

    #[inline(always)]
    fn is(&self, query: &Query<'_>) -> bool {
        let key = self.key.get(..self.length.into());
        self.hash == query.hash() && key.is_some_and(|key| same(key, query.key()))
    }
}

/// A level that says nothing more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plain {
    Default,
    Session,
    Job,
    App,
    Node,
}

impl Plain {
    #[inline(always)]
    fn of(level: Level<'_>) -> Option<Self> {
        match level {
            Level::Default => Some(Self::Default),
            Level::Session(None) => Some(Self::Session),
            Level::Job => Some(Self::Job),
            Level::App(None) => Some(Self::App),
            Level::Node(NodeSel::Own) => Some(Self::Node),
            _ => None,
        }
    }
}

impl Answer {
    #[inline(always)]
    fn is_to(&self, lookup: &Lookup<'_>, query: &Query<'_>) -> bool {
        self.rank == lookup.rank
            && self.asker == lookup.asker
            && Plain::of(lookup.level) == Some(self.level)
            && self.name.is(query)
    }
}

impl LookupCache {
    pub(in crate::store) fn new() -> Self {
        let answers = Box::new([const { OnceLock::new() }; PLACES]);
        Self { answers, keys: Box::new([const { OnceLock::new() }; KEYS]) }
    }

    /// What a key means, whosoever's value is asked for.
    #[inline(always)]
    pub(super) fn plan(&self, query: &Query<'_>) -> Option<&KeyPlan> {
        let (name, plan) = self.keys[query.hash() as usize % KEYS].get()?;
        name.is(query).then_some(plan)
    }

    /// Keeps what a key means, if there is room for it.
    pub(super) fn keep_plan(&self, query: &Query<'_>, plan: KeyPlan) {
        if let Some(name) = Name::of(query) {
            // Of two keys with one place the first is remembered.
            let _ = self.keys[query.hash() as usize % KEYS].set((name, plan));
        }
    }

    /// The first of the two places of an answer; the other one is next to it.
    #[inline(always)]
    fn place(lookup: &Lookup<'_>, query: &Query<'_>) -> usize {
        // Ranks that are none lie at the upper end, and so far from small ones as their distance says.
        (query.hash() as usize).wrapping_add(lookup.rank.0 as usize) % PLACES
    }

    /// The answer that was given to this question, if there was one.
    #[inline(always)]
    pub(super) fn find(&self, lookup: &Lookup<'_>, query: &Query<'_>) -> Option<ValueCell> {
        let first = Self::place(lookup, query);
        let mut answer = self.answers[first].get()?;
        if !answer.is_to(lookup, query) {
            answer = self.answers[first ^ 1].get().filter(|answer| answer.is_to(lookup, query))?;
        }
        Some(answer.value)
    }

    /// Keeps an answer, if there is room for it. `own` is the process's rank.
    #[inline]
    pub(super) fn keep(&self, own: Rank, lookup: &Lookup<'_>, query: &Query<'_>, value: ValueCell) {
        if lookup.rank == own || !lookup.rank.is_process() {
            self.write(lookup, query, value);
        }
    }

    #[cold]
    fn write(&self, lookup: &Lookup<'_>, query: &Query<'_>, value: ValueCell) {
        let (Some(level), Some(name)) = (Plain::of(lookup.level), Name::of(query)) else { return };
        let Lookup { rank, asker, .. } = *lookup;
        let mut answer = Answer { name, rank, asker, level, value };
        let first = Self::place(lookup, query);
        for place in [first, first ^ 1].map(|at| &self.answers[at]) {
            match place.set(answer) {
                Ok(()) => return,
                // It may be the same: of another thread that was as fast, or of who did not look whether it is there.
                Err(_) if place.get().is_some_and(|known| known.is_to(lookup, query)) => return,
                Err(again) => answer = again,
            }
        }
    }
}
