//! The process map of a job: on which node each rank is. The text of a long map is not kept, but written when it is
//! read.
use instanton_layout::info::{NONE, TextForm};

use super::entries::Entries;
use super::partition::RankPartition;
use super::rank_list::{Listed, RankList};
use crate::data::maps::{MapError, ProcMap, RangesOfNodes, RankRange};
use crate::data::{DataType, Text, Value, keys};
use crate::store::ids::MAX_RANKS;
use crate::store::texts;
use crate::sys::scratch::Scratch;

/// The node of each rank, from the process map or as the host says.
#[derive(Default)]
pub(super) struct ProcessMap {
    /// The place of each rank's node in the node map, or [`NONE`].
    pub(super) placed: Scratch<u32>,
    /// The ranks of each node in the map's order, as long as ranks are where the map has them.
    listed: Option<Listed>,
    /// A long map, instead of its text: what [`proc_map`](texts::proc_map) writes, as long as ranks are where the map
    /// has them.
    text: Option<TextForm>,
    /// Nodes up to the last one of the map.
    pub(in crate::store) nodes: u32,
    /// Nodes up to the last one where the host has placed a rank without a map.
    pub(super) placed_nodes: u32,
    /// Ranks up to the last one of the map.
    pub(in crate::store) ranks: u32,
    /// The first rank that the map has in more than one place, and the last two of its nodes.
    pub(super) twice: Option<Twice>,
    /// True once the host has said where ranks are.
    is_said: bool,
    /// True if ranks below the last one may have no node.
    has_holes: bool,
    /// A rank that was mapped to one node and said to be on another.
    pub(super) moved: Option<Twice>,
}

/// A rank with two nodes, by their places in the map or by their indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Twice {
    pub(super) rank: u32,
    pub(super) nodes: [u32; 2],
}

impl ProcessMap {
    /// Takes a map in, in place of what was known before, of about so many ranks. Answers whether its text needs not be
    /// kept.
    pub(super) fn read(&mut self, data_type: DataType, expression: &[u8], about: u32) -> Result<bool, MapError> {
        *self = Self::default();
        let room = about.min(MAX_RANKS) as usize;
        let mut places = Places::with_room(room);
        let read = ProcMap::each_range(expression, &mut places);
        let Places { nodes, ranks, named, again, .. } = places;
        let (mut placed, listed) = (std::mem::take(&mut places.placed), places.listed.take());
        let last = placed.iter().rposition(|node| *node != NONE);
        placed.resize(last.map_or(0, |last| last + 1), NONE);
        let ranks = ranks.max(placed.len() as u32);
        let has_holes = again || named < ranks.into();
        *self = Self { placed, nodes, ranks, is_said: true, has_holes, ..Self::default() };
        let read = read?;
        if again {
            self.twice = Places::twice(expression, self.placed.len());
        }
        // A map that names each rank once, and in our own way, is all said by the places of the ranks.
        if !again && ranks <= MAX_RANKS {
            // Ranges in order need no list.
            let listed = if read.in_order { listed } else { listed.or_else(|| Some(places.expanded())) };
            self.listed = listed.map(|ranks| Listed { ranks, in_order: read.in_order });
            self.text = read.form.and_then(|form| texts::map_form(data_type, expression, form));
        }
        Ok(self.text.is_some())
    }

    /// Places ranks where the host says.
    pub(super) fn place(&mut self, placed: impl Iterator<Item = u32>, job: &mut Entries) {
        self.keep_text(job);
        *self = Self { is_said: true, ..Self::default() };
        self.placed.extend(placed);
        self.ranks = self.placed.len() as u32;
        let mut last = self.placed.iter().fold(0, |last, node| last.max(*node));
        if last == NONE {
            self.has_holes = true;
            last = self.placed.iter().filter(|node| **node != NONE).fold(0, |last, node| last.max(*node));
        }
        self.placed_nodes = if self.ranks > 0 { last + 1 } else { 0 };
    }

    /// The first of so many ranks that has no node although the host has said where ranks are, given how many it has
    /// spoken of there.
    pub(super) fn lost(&self, ranks: u32, spoken_of: u32) -> Option<u32> {
        let from = if self.has_holes { 0 } else { spoken_of };
        let placed = self.placed.get(from as usize..ranks as usize).filter(|_| self.is_said)?;
        placed.iter().position(|node| *node == NONE).map(|at| from + at as u32)
    }

    /// Places a rank on a node.
    pub(in crate::store) fn set(&mut self, rank: u32, node: u32, job: &mut Entries) {
        let placed = self.placed[rank as usize];
        if placed != node {
            if placed != NONE {
                self.moved.get_or_insert(Twice { rank, nodes: [placed, node] });
            }
            self.keep_text(job);
            self.listed = None;
            self.placed[rank as usize] = node;
        }
    }

    /// Replaces the places of nodes in the map by their indexes.
    pub(super) fn renumber(&mut self, mut node_at: impl FnMut(u32) -> u32, job: &mut Entries) {
        self.keep_text(job);
        self.listed = None;
        self.placed.iter_mut().filter(|node| **node != NONE).for_each(|node| *node = node_at(*node));
    }

    /// Keeps the text of the map, because it cannot be written from the ranks any more.
    pub(super) fn keep_text(&mut self, job: &mut Entries) {
        if let Some(text) = self.text.take() {
            write_down(text, self, job);
        }
    }

    /// Ranks by node, in which order, and how the text is written.
    pub(super) fn into_parts(self) -> (Scratch<u32>, Option<Listed>, Option<TextForm>) {
        (self.placed, self.listed, self.text)
    }
}

#[cold]
fn write_down(TextForm { data_type, form, .. }: TextForm, map: &ProcessMap, job: &mut Entries) {
    let nodes = map.placed.iter().filter(|node| **node != NONE).max().map_or(0, |last| last + 1);
    let parted = RankPartition::of_map(map.placed.clone(), map.listed.clone(), nodes);
    let mut text = Vec::new();
    parted.proc_map(nodes, texts::FORMS[usize::from(form)], &mut text);
    let value = match DataType(data_type) {
        DataType::REGEX => Value::Regex(text),
        _ => Value::String(Text::new(text).ok()),
    };
    job.imply(keys::PROC_MAP, value);
}

/// The node of each rank, while a process map is read.
#[derive(Default)]
struct Places {
    /// The node of each rank, with room behind the last one.
    placed: Scratch<u32>,
    /// Ranks in the order of the map, as long as none is named again: as ranges while these are few or more than one
    /// rank each.
    ranges: Vec<RankRange>,
    listed: Option<RankList>,
    /// The number of ranks to make room for.
    room: usize,
    nodes: u32,
    /// The end of the ranks, where there are too many.
    ranks: u32,
    /// Ranks that were named.
    named: u64,
    /// True once a rank was named twice.
    again: bool,
    /// True where only the first such rank is sought.
    seeks: bool,
    twice: Option<Twice>,
}

impl RangesOfNodes for Places {
    #[inline]
    fn lone(&mut self, node: u32, ranks: &[u32]) {
        if self.seeks {
            return self.seek((node..).zip(ranks.iter().copied()));
        }
        self.named += ranks.len() as u64;
        self.nodes = node + ranks.len() as u32;
        let (mut next, mut again) = (0, false);
        while next < ranks.len() {
            for (node, rank) in (node..).zip(ranks).skip(next) {
                let Some(place) = self.placed.get_mut(*rank as usize) else { break };
                again |= std::mem::replace(place, node) != NONE;
                next += 1;
            }
            if let Some(rank) = ranks.get(next) {
                self.place(node + next as u32, RankRange { first: *rank, last: *rank });
                next += 1;
            }
        }
        self.again |= again;
        self.list(ranks);
    }

    #[inline]
    fn each(&mut self, node: u32, ranks: &[u32]) {
        if self.seeks {
            return self.seek(ranks.iter().map(|rank| (node, *rank)));
        }
        self.named += ranks.len() as u64;
        self.nodes = node + 1;
        let mut next = 0;
        while let Some(rest) = ranks.get(next..).filter(|rest| !rest.is_empty()) {
            let (placed, mut again) = (&mut self.placed[..], false);
            for rank in rest {
                let Some(place) = placed.get_mut(*rank as usize) else { break };
                again |= std::mem::replace(place, node) != NONE;
                next += 1;
            }
            self.again |= again;
            if let Some(rank) = ranks.get(next) {
                self.place(node, RankRange { first: *rank, last: *rank });
                next += 1;
            }
        }
        self.list(ranks);
    }

    #[inline(never)]
    fn range(&mut self, node: u32, range: RankRange) {
        if self.seeks {
            return self.seek((range.first..=range.last.min(MAX_RANKS)).map(|rank| (node, rank)));
        }
        self.nodes = node + 1;
        self.named += range.count();
        self.place(node, range);
        if self.again || range.last >= MAX_RANKS {
            return;
        }
        match &mut self.listed {
            Some(listed) => listed.extend(range.count() as u32, range.last, range.first..=range.last),
            None => self.list_range(range),
        }
    }
}

impl Places {
    fn with_room(room: usize) -> Self {
        let mut places = Self { room, ..Self::default() };
        places.placed.resize(room, NONE);
        places
    }

    /// The first rank that a map names a second time, with both nodes, given the end of its ranks: the map is read again
    /// for that.
    #[cold]
    fn twice(expression: &[u8], end: usize) -> Option<Twice> {
        let mut places = Self { seeks: true, ..Self::with_room(end) };
        ProcMap::each_range(expression, &mut places).ok()?;
        places.twice
    }

    #[inline(never)]
    fn seek(&mut self, mut ranks: impl Iterator<Item = (u32, u32)>) {
        if self.twice.is_some() {
            return;
        }
        self.twice = ranks.find_map(|(node, rank)| {
            let first = std::mem::replace(self.placed.get_mut(rank as usize)?, node);
            (first != NONE).then_some(Twice { rank, nodes: [first, node] })
        });
    }

    /// Notes ranks in the order in which they come.
    #[inline]
    fn list(&mut self, mut ranks: &[u32]) {
        if self.again {
            return;
        }
        if self.listed.is_none() {
            // Mostly they go on where the last ones ended.
            if let Some(last) = self.ranges.last_mut() {
                let next = (last.last + 1..).zip(ranks).take_while(|(next, rank)| next == *rank).count();
                last.last += next as u32;
                ranks = &ranks[next..];
            }
            while let (Some((rank, rest)), true) = (ranks.split_first(), self.ranges.len() < FEW) {
                self.list_range(RankRange { first: *rank, last: *rank });
                ranks = rest;
            }
            if ranks.is_empty() {
                return;
            }
            self.listed = Some(self.expanded());
        }
        if let Some(listed) = &mut self.listed {
            // No less than any of them, which is as good as the largest.
            let most = ranks.iter().fold(0, |most, rank| most | rank);
            listed.extend(ranks.len() as u32, most, ranks.iter().copied());
        }
    }

    fn list_range(&mut self, range: RankRange) {
        match self.ranges.last_mut() {
            Some(last) if last.last + 1 == range.first => last.last = range.last,
            _ => self.ranges.push(range),
        }
    }

    /// The ranges one by one.
    fn expanded(&mut self) -> RankList {
        let mut listed = RankList::with_room(self.room as u32);
        for range in std::mem::take(&mut self.ranges) {
            listed.extend(range.count() as u32, range.last, range.first..=range.last);
        }
        listed
    }

    #[inline(never)]
    fn place(&mut self, node: u32, range: RankRange) {
        let (first, end) = (range.first as usize, range.last.saturating_add(1));
        // A job with more is refused when it is complete.
        if end > MAX_RANKS {
            self.ranks = end.max(self.ranks);
            return;
        }
        if self.placed.len() < end as usize {
            self.placed.resize((end as usize).next_multiple_of(STEP), NONE);
        }
        let places = &mut self.placed[first..end as usize];
        // All bits are set where nobody is yet; a look that ends at the first who is there takes longer.
        self.again |= places.iter().fold(NONE, |all, place| all & place) != NONE;
        places.fill(node);
    }
}

/// Ranks that come alone and are kept as ranges: more take less as a list with room for all.
const FEW: usize = 1 << 16;

/// Room is made for so many ranks at once.
const STEP: usize = 1 << 10;
