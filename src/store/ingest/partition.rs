//! Ranks parted among members: nodes, or applications.
use std::ops::Range;

use instanton_layout::info::{Neighbours, Partition, PartitionBuild};
use instanton_layout::words::Pieces;

use super::rank_list::Listed;
use crate::data::maps::Form;
use crate::store::texts::{self, Compare, Count};
use crate::sys::scratch::Scratch;

/// The ranks of each member, as readers will see them.
pub(super) struct RankPartition {
    pub(super) build: PartitionBuild<Scratch<u64>>,
    partition: Partition,
    /// The words of its rules, if it goes by rules.
    runs: Vec<u64>,
}

/// The reason why reading it cannot fail.
const SOUND: &str = "words written just now";

impl RankPartition {
    pub(in crate::store) fn new(parts: Parts, ranks: u32, members: u32) -> Self {
        match parts {
            Parts::Each(members_of) => Self::of_map(members_of, None, members),
            Parts::Stretches(stretches) => match PartitionBuild::of_stretches(members, stretches.iter().copied()) {
                Some(build) => Self::of(build),
                None => Self::of_map(Parts::Stretches(stretches).each(ranks), None, members),
            },
        }
    }

    /// A partition from the member of each rank; and the ranks of each member, if they are known.
    pub(super) fn of_map(members_of: Scratch<u32>, listed: Option<Listed>, members: u32) -> Self {
        // Rules have the ranks of each member in order.
        let in_order = listed.as_ref().is_none_or(|listed| listed.in_order);
        Self::of(in_order.then(|| PartitionBuild::by_rule(&members_of, members)).flatten().unwrap_or_else(|| {
            let ranks = members_of.len() as u32;
            let listed = listed.map(|listed| (listed.ranks.into_words(ranks), listed.in_order));
            PartitionBuild::by_columns(members_of.into_words(), ranks, members, listed)
        }))
    }

    fn of(build: PartitionBuild<Scratch<u64>>) -> Self {
        let mut runs = Vec::new();
        let partition = build.put(&mut runs, 0);
        Self { build, partition, runs }
    }

    /// The words that the partition lies in.
    fn words(&self) -> Pieces<'_, 4> {
        Pieces(self.build.columns().unwrap_or([&self.runs, &[], &[], &[]]))
    }

    /// A function for ranks that are asked for one after the other: it returns the member and the place there.
    pub(in crate::store) fn places(&self) -> impl FnMut(u32) -> Option<(u32, u32)> {
        let (words, mut near) = (self.words(), Neighbours::default());
        move |rank| {
            near.place(rank).unwrap_or_else(|| {
                near = self.partition.neighbours(&words, rank).expect(SOUND);
                near.place(rank).flatten()
            })
        }
    }

    pub(in crate::store) fn size(&self, member: u32) -> u32 {
        self.partition.size(&self.words(), member).expect(SOUND)
    }

    pub(super) fn leader(&self, member: u32) -> Option<u32> {
        self.partition.leader(&self.words(), member).expect(SOUND)
    }

    pub(in crate::store) fn ranks(&self, member: u32) -> Vec<u32> {
        let mut ranks = Vec::new();
        self.partition.pieces(&self.words(), member, |first, count| ranks.extend(first..first + count)).expect(SOUND);
        ranks
    }

    /// The members that have ranks.
    pub(super) fn in_use(&self) -> Vec<Range<u32>> {
        let mut in_use: Vec<Range<u32>> = Vec::new();
        self.build.with_ranks(|from, to| match in_use.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => in_use.push(from..to),
        });
        in_use
    }

    /// The list of a member's ranks, and how long that is.
    pub(super) fn list(&self, member: u32) -> Vec<u8> {
        let mut text = Vec::new();
        texts::ranks(&self.partition, &self.words(), member, &mut text).expect(SOUND);
        text
    }

    pub(super) fn list_len(&self, member: u32) -> usize {
        let mut len = Count::default();
        texts::ranks(&self.partition, &self.words(), member, &mut len).expect(SOUND);
        len.0
    }

    /// The text of a process map with these members.
    pub(super) fn proc_map(&self, nodes: u32, form: Form, to: &mut Vec<u8>) {
        texts::proc_map(&self.partition, &self.words(), nodes, form, to).expect(SOUND);
    }

    pub(super) fn list_is(&self, member: u32, text: &[u8]) -> bool {
        let mut compare = Compare::of(text);
        texts::ranks(&self.partition, &self.words(), member, &mut compare).expect(SOUND);
        compare.is_same()
    }
}

/// The members of ranks.
pub(super) enum Parts {
    /// The member of each rank.
    Each(Scratch<u32>),
    /// A member, and how many ranks in a row are its.
    Stretches(Vec<(u32, u32)>),
}

impl Parts {
    pub(super) fn each(self, ranks: u32) -> Scratch<u32> {
        match self {
            Parts::Each(each) => each,
            Parts::Stretches(stretches) => {
                let mut each = Scratch::with_room(ranks as usize);
                stretches.iter().for_each(|(member, len)| each.resize(each.len() + *len as usize, *member));
                each
            }
        }
    }
}
