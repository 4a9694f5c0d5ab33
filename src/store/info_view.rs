//! One generation of job information, mapped, and what a process keeps of it at hand.
//!
//! It never changes. What has a checksum is checked when it is first used, and this process remembers that. Where a key is looked
//! for is said in [`levels`](super::levels), what is computed in [`computed`](super::computed).
use std::sync::{Arc, OnceLock};

use instanton_layout::Malformed;
use instanton_layout::info::{Group, Index, Row, column};
use instanton_layout::record::Query;

use super::checked::{Frozen, Seen};
use super::encode::RawValue;
use super::lookup::Lookup;
use super::remembered::Remembered;
use super::segment::FIRST;
use crate::data::{Rank, keys};
use crate::sys::memory::Mapping;

/// One generation, mapped.
pub(super) struct InfoView {
    pub(super) generation: u64,
    pub(super) mapping: Arc<Mapping>,
    pub(super) index: Index,
    seen: Seen,
    /// The word of the record of the job's own session.
    pub(super) own_session: Option<u32>,
    /// The process that this one is, once it is known.
    own: OnceLock<Own>,
}

/// What a process looks up again and again, about itself.
pub(super) struct Own {
    rank: u32,
    pub(super) row: Option<Row>,
    pub(super) node: Option<(u32, u32)>,
    pub(super) app: Option<(u32, u32)>,
    /// The word of its record.
    pub(super) record: Option<u32>,
    remembered: Remembered,
}

impl InfoView {
    pub(super) fn new(generation: u64, mapping: Arc<Mapping>) -> Result<Self, Malformed> {
        let index = Index::read(&mapping.words())?;
        let seen = Seen::new(mapping.len() / 8).map_err(|_| Malformed::Table)?;
        let own_session = index.records(Group::Sessions).find(&mapping.words(), 0)?;
        Ok(Self { generation, mapping, index, seen, own_session, own: OnceLock::new() })
    }

    /// The value, if this process has asked before.
    #[inline(always)]
    pub(super) fn recall(&self, lookup: &Lookup<'_>, query: &Query<'_>) -> Option<RawValue<'_>> {
        if !keys::is_reserved(lookup.key) {
            return None;
        }
        let own = self.own.get()?;
        // Of another process nothing is.
        let may_be = lookup.rank.0 == own.rank || !lookup.rank.is_process();
        if may_be { own.remembered.find(self, lookup, query) } else { None }
    }

    /// What this process remembers, if it is known which one it is.
    #[inline(always)]
    pub(super) fn remembered(&self) -> Option<&Remembered> {
        self.own.get().map(|own| &own.remembered)
    }

    /// Puts the value into `found` if the host gave or implied one: what this process has not asked before.
    #[inline(always)]
    pub(super) fn look<'a>(
        &'a self,
        lookup: &Lookup<'_>,
        query: &Query<'_>,
        found: &mut Option<RawValue<'a>>,
    ) -> Result<(), Malformed> {
        if !keys::is_reserved(lookup.key) {
            // Most keys that processes post: nothing else needs to be known of them.
            return if self.index.keys.may_have(query) { self.find_to(lookup, query, found) } else { Ok(()) };
        }
        self.find_to(lookup, query, found)?;
        if let (Some(own), Some(value)) = (self.own.get(), &found) {
            own.remembered.keep(Rank(own.rank), lookup, query, value);
        }
        Ok(())
    }

    /// Looks at every checksum that is not looked at when something is read.
    pub(super) fn verify(&self) -> Result<(), Malformed> {
        self.index.verify(&self.words())
    }

    /// Remembers which process this is, and maps what it will look up of itself. What all processes of the node read is mapped.
    pub(super) fn populate_own(&self, rank: Rank) -> Result<(), Malformed> {
        let (words, front) = (self.words(), self.index.front().min(FIRST));
        self.seen.populate();
        if !rank.is_process() || rank.0 >= self.index.ranks() || self.own.get().is_some() {
            return Ok(());
        }
        let populate = |at: usize, len: usize| {
            if at + len > front {
                self.mapping.populate(at, len);
            }
        };
        let node = self.index.nodes.place(&words, rank.0)?;
        let app = self.index.apps.place(&words, rank.0)?;
        let record = self.index.process_records().find(&words, rank.0.into())?;
        let here = node.filter(|(node, _)| *node == self.index.own_node());
        let row = here.and_then(|(_, place)| self.index.row(place));
        if let Some((at, len)) = here.and_then(|(_, place)| self.index.row_bytes(place)) {
            populate(at, len);
        }
        if let Some(word) = record {
            populate(word as usize * 8, 1);
        }
        for column in (0..self.index.columns()).filter(|_| row.is_some()) {
            let column = self.index.column(&words, column)?;
            if column.flags & column::STRINGS != 0
                && let Some(row) = row
                && let Some(string) = column.value_in_row(&words, row, rank.0)?
            {
                let (word, len) = self.index.string(&words, string)?;
                populate(word * 8, len);
            }
        }
        // Whoever was faster found the same.
        let _ = self.own.set(Own { rank: rank.0, row, node, app, record, remembered: Remembered::new() });
        Ok(())
    }

    /// Bytes of a value, where they lie.
    #[inline]
    pub(super) fn frozen(&self, at: usize, len: usize) -> Result<&[u8], Malformed> {
        self.mapping.frozen(self.generation, at, len)
    }

    #[inline(always)]
    pub(super) fn words(&self) -> Frozen<'_> {
        self.seen.of(self.mapping.words())
    }

    #[inline(always)]
    pub(super) fn own(&self, rank: u32) -> Option<&Own> {
        self.own.get().filter(|own| own.rank == rank)
    }

    /// Node of a rank, and its place there.
    #[inline]
    pub(super) fn node_of(&self, rank: Rank) -> Result<Option<(u32, u32)>, Malformed> {
        match self.own(rank.0) {
            Some(own) => Ok(own.node),
            None => self.index.nodes.place(&self.words(), rank.0),
        }
    }

    /// Application of a rank, and its place there.
    #[inline]
    pub(super) fn app_of(&self, rank: Rank) -> Result<Option<(u32, u32)>, Malformed> {
        match self.own(rank.0) {
            Some(own) => Ok(own.app),
            None => self.index.apps.place(&self.words(), rank.0),
        }
    }

    pub(super) fn number(&self, group: Group, index: u32) -> Result<Option<u32>, Malformed> {
        self.index.number(&self.words(), group, index)
    }

    /// Ranks of the own node, in order.
    pub(super) fn own_ranks(&self) -> Result<Vec<Rank>, Malformed> {
        let mut ranks = Vec::new();
        let own = self.index.own_node();
        self.index.nodes.pieces(&self.words(), own, |first, count| ranks.extend((first..first + count).map(Rank)))?;
        ranks.sort_unstable();
        Ok(ranks)
    }
}
