//! What a process has found in its job information before: it does not look for it again.
//!
//! Job information never changes, so what was found once lies where it was found. Only the process's own keys and those of no
//! process in particular are remembered, the first ones that are asked for: they are few, and asked for again and again. An
//! entry is written once, by whichever thread is first, and is never replaced, so that reading takes no lock.
use std::sync::OnceLock;

use instanton_layout::record::Query;

use super::encode::{RawValue, Unbound};
use super::info_view::InfoView;
use super::lookup::{Level, Lookup, NodeSel};
use crate::data::Rank;

/// Places for answers, a power of two.
const PLACES: usize = 64;
/// Bytes of the longest key that is remembered: no reserved one is longer.
const LONGEST: usize = 40;

/// Answers, each at the place that its question leads to or next to it, where neither is taken. Their memory is there from the
/// beginning: a Get allocates nothing but what it gives.
pub(super) struct Remembered(Box<[OnceLock<Answer>]>);

struct Answer {
    hash: u64,
    rank: Rank,
    asker: Rank,
    level: Plain,
    length: u8,
    key: [u8; LONGEST],
    value: Unbound,
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
        self.hash == query.hash()
            && self.rank == lookup.rank
            && self.asker == lookup.asker
            && Plain::of(lookup.level) == Some(self.level)
            && self.key.get(..self.length.into()) == Some(query.key())
    }
}

impl Remembered {
    pub(super) fn new() -> Self {
        Self((0..PLACES).map(|_| OnceLock::new()).collect())
    }

    #[inline(always)]
    fn places(&self, lookup: &Lookup<'_>, query: &Query<'_>) -> [Option<&OnceLock<Answer>>; 2] {
        // Ranks that are none lie at the upper end, and so far from small ones as their distance says.
        let at = (query.hash() as usize).wrapping_add(lookup.rank.0 as usize) % PLACES;
        [self.0.get(at), self.0.get(at ^ 1)]
    }

    /// The answer that was given to this question, if there was one.
    #[inline(always)]
    pub(super) fn find<'a>(&self, view: &'a InfoView, lookup: &Lookup<'_>, query: &Query<'_>) -> Option<RawValue<'a>> {
        let mut answers = self.places(lookup, query).into_iter().flatten().map_while(OnceLock::get);
        answers.find(|answer| answer.is_to(lookup, query)).map(|answer| answer.value.bind(view))
    }

    /// Keeps an answer, if there is room for it. `own` is the process's rank.
    #[inline]
    pub(super) fn keep(&self, own: Rank, lookup: &Lookup<'_>, query: &Query<'_>, value: &RawValue<'_>) {
        if lookup.rank == own || !lookup.rank.is_process() {
            self.write(lookup, query, value);
        }
    }

    #[cold]
    fn write(&self, lookup: &Lookup<'_>, query: &Query<'_>, value: &RawValue<'_>) {
        let Some(level) = Plain::of(lookup.level).filter(|_| query.key().len() <= LONGEST) else { return };
        let mut key = [0; LONGEST];
        key[..query.key().len()].copy_from_slice(query.key());
        let length = query.key().len() as u8;
        let (hash, Lookup { rank, asker, .. }) = (query.hash(), *lookup);
        let mut answer = Answer { hash, rank, asker, level, length, key, value: value.unbound() };
        for place in self.places(lookup, query).into_iter().flatten() {
            match place.set(answer) {
                Ok(()) => return,
                // Another thread may have been as fast: twice the same does no harm.
                Err(again) => answer = again,
            }
        }
    }
}
