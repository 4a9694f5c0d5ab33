//! One generation of job information as a process looks at it: with the facts about the process itself at hand.
//!
//! [`levels`](super::levels) looks keys up in it, and [`computed`](super::computed) has the values that follow from
//! placement.
use std::sync::{Arc, OnceLock};

use instanton_layout::Malformed;
use instanton_layout::info::{Group, Row, column};

use super::lookup_cache::LookupCache;
use crate::data::Rank;
use crate::store::info::checked::Frozen;
use crate::store::info::generation::Generation;
use crate::store::segment::FIRST;
use crate::sys::memory::Mapping;

/// One generation, mapped.
pub(super) struct InfoView {
    pub(super) generation: Generation,
    /// The word of the record of the job's own session.
    pub(super) own_session: Option<u32>,
    /// The process that this one is, once it is known.
    pub(super) own: OnceLock<Own>,
}

/// The facts about the own process, which are looked up again and again.
pub(super) struct Own {
    pub(in crate::store) rank: u32,
    pub(super) row: Option<Row>,
    pub(super) node: Option<(u32, u32)>,
    pub(super) app: Option<(u32, u32)>,
    /// The word of its record.
    pub(super) record: Option<u32>,
    pub(super) cache: LookupCache,
}

impl InfoView {
    pub(in crate::store) fn new(number: u64, mapping: Arc<Mapping>) -> Result<Self, Malformed> {
        let generation = Generation::new(number, mapping)?;
        let own_session = generation.index.records(Group::Sessions).find(&generation.raw(), 0)?;
        Ok(Self { generation, own_session, own: OnceLock::new() })
    }

    /// Remembers which process this is, and maps what it will look up of itself. Information that all processes of the
    /// node read is mapped.
    pub(super) fn populate_own(&self, rank: Rank) -> Result<(), Malformed> {
        let (words, front) = (self.words(), self.generation.index.front().min(FIRST));
        self.generation.populate_seen();
        if !rank.is_process() || rank.0 >= self.generation.index.ranks() || self.own.get().is_some() {
            return Ok(());
        }
        let populate = |at: usize, len: usize| {
            if at + len > front {
                self.generation.mapping.populate(at, len);
            }
        };
        let node = self.generation.index.nodes.place(&words, rank.0)?;
        let app = self.generation.index.apps.place(&words, rank.0)?;
        let record = self.generation.index.process_records().find(&words, rank.0.into())?;
        let here = node.filter(|(node, _)| *node == self.generation.index.own_node());
        let row = here.and_then(|(_, place)| self.generation.index.row(place));
        if let Some((at, len)) = here.and_then(|(_, place)| self.generation.index.row_bytes(place)) {
            populate(at, len);
        }
        if let Some(word) = record {
            populate(word as usize * 8, 1);
        }
        for column in (0..self.generation.index.columns()).filter(|_| row.is_some()) {
            let column = self.generation.index.column(&words, column)?;
            if column.flags & column::STRINGS != 0
                && let Some(row) = row
                && let Some(string) = column.value_in_row(&words, row, rank.0)?
            {
                let (word, len) = self.generation.index.string(&words, string)?;
                populate(word * 8, len);
            }
        }
        // A thread that was faster found the same.
        let _ = self.own.set(Own { rank: rank.0, row, node, app, record, cache: LookupCache::new() });
        Ok(())
    }

    #[inline(always)]
    pub(in crate::store) fn words(&self) -> Frozen<'_> {
        self.generation.words()
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
            None => self.generation.index.nodes.place(&self.words(), rank.0),
        }
    }

    /// Application of a rank, and its place there.
    #[inline]
    pub(super) fn app_of(&self, rank: Rank) -> Result<Option<(u32, u32)>, Malformed> {
        match self.own(rank.0) {
            Some(own) => Ok(own.app),
            None => self.generation.index.apps.place(&self.words(), rank.0),
        }
    }

    pub(in crate::store) fn number(&self, group: Group, index: u32) -> Result<Option<u32>, Malformed> {
        self.generation.number_of(group, index)
    }

    /// Ranks of the own node, in order.
    pub(in crate::store) fn own_ranks(&self) -> Result<Vec<Rank>, Malformed> {
        let mut ranks = Vec::new();
        let own = self.generation.index.own_node();
        self.generation
            .index
            .nodes
            .pieces(&self.words(), own, |first, count| ranks.extend((first..first + count).map(Rank)))?;
        ranks.sort_unstable();
        Ok(ranks)
    }
}
