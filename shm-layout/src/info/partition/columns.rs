//! The columns of a partition without a rule, under construction.
//!
//! They are most of what such a job takes, so nothing of it is there twice: the members of ranks become narrower where
//! they are, and the list of each member's ranks is taken as it comes.
use std::cell::Cell;
use std::ops::DerefMut;

use super::super::NONE;
use super::super::packed::{Filler, add_nth, bits_for, nth, words_for};
use crate::words::Plain;
use crate::{high, low};

/// Words of whoever has a partition built.
pub trait Room: DerefMut<Target = [u64]> {
    /// Room for so many words, all zero.
    fn zeroed(words: usize) -> Self;

    /// Gives back what is behind the first so many.
    fn truncate(&mut self, words: usize);
}

impl Room for Vec<u64> {
    fn zeroed(words: usize) -> Self {
        vec![0; words]
    }

    fn truncate(&mut self, words: usize) {
        self.truncate(words);
        self.shrink_to_fit();
    }
}

/// The four columns: for each rank its member and its place there, for each member the first of its ranks, and the
/// ranks of one member after the other.
#[derive(Debug, Clone)]
pub(super) struct Columns<C> {
    members: C,
    places: C,
    begins: C,
    ranks: C,
    /// Bits of a member, a place and a rank.
    pub(super) bits: [u32; 3],
    /// True if the ranks of a member are in another order than that of their numbers.
    pub(super) listed: bool,
}

impl<C: Room> Columns<C> {
    /// The columns of [`by_columns`](super::PartitionBuild::by_columns).
    pub(super) fn new(mut members_of: C, ranks: u32, members: u32, listed: Option<(C, bool)>) -> Self {
        let (begins, largest): (C, u32) = begins(&members_of, ranks, members);
        let bits = bits(ranks, members, largest);
        let (listed, in_order) = listed.unwrap_or_else(|| (by_rank(&members_of, ranks, members, &begins), true));
        narrow(&mut members_of, ranks, members);
        let mut places = C::zeroed(words_for(ranks.into(), bits[1]) as usize);
        let (mut from, mut several) = (0, Vec::new());
        for member in 0..members {
            let to = number(&begins, member + 1, bits[2]);
            let rank = |at| number(&listed, at, bits[2]);
            if in_order {
                (from..to).for_each(|at| add_nth(&mut places, rank(at), (at - from).into(), bits[1]));
            } else {
                several.clear();
                several.extend((from..to).map(rank));
                several.sort_unstable();
                (0u64..).zip(&several).for_each(|(place, rank)| add_nth(&mut places, *rank, place, bits[1]));
            }
            from = to;
        }
        Self { members: members_of, places, begins, ranks: listed, bits, listed: !in_order }
    }

    /// The words of all four.
    pub(super) fn words(&self) -> [&[u64]; 4] {
        [&self.members, &self.places, &self.begins, &self.ranks]
    }

    /// The words of all four, to keep.
    pub(super) fn into_words(self) -> [C; 4] {
        [self.members, self.places, self.begins, self.ranks]
    }

    /// The index of the first rank of a member.
    pub(super) fn begin(&self, member: u32) -> u32 {
        number(&self.begins, member, self.bits[2])
    }
}

/// Bits of a member, a place and a rank, if the largest member has so many ranks.
pub(super) fn bits(ranks: u32, members: u32, largest: u32) -> [u32; 3] {
    [members, largest, ranks].map(|most| bits_for(most.into()))
}

fn number(words: &[u64], nth_one: u32, bits: u32) -> u32 {
    nth(&Plain(words), 0, nth_one, bits).unwrap_or_default() as u32
}

/// Gives `f` the members of so many ranks, two in each word.
#[inline(always)]
fn each(members_of: &[u64], ranks: u32, mut f: impl FnMut(u32)) {
    let (both, last) = members_of[..ranks.div_ceil(2) as usize].split_at((ranks / 2) as usize);
    for two in both {
        f(low(*two));
        f(high(*two));
    }
    last.iter().for_each(|last| f(low(*last)));
}

/// The index of the first rank of each member, and the number of ranks of the largest.
fn begins<C: Room>(members_of: &[u64], ranks: u32, members: u32) -> (C, u32) {
    let bits = bits_for(ranks.into());
    let mut begins = C::zeroed(words_for(u64::from(members) + 1, bits) as usize);
    // Of each member first how many ranks it has.
    each(members_of, ranks, |member| {
        if member < members {
            add_nth(&mut begins, member + 1, 1, bits);
        }
    });
    let (mut largest, mut before) = (0, 0);
    for member in 1..=members {
        let size = number(&begins, member, bits);
        add_nth(&mut begins, member, before.into(), bits);
        (largest, before) = (size.max(largest), before + size);
    }
    (begins, largest)
}

/// The ranks of one member after the other, in the order of their numbers.
fn by_rank<C: Room>(members_of: &[u64], ranks: u32, members: u32, begins: &[u64]) -> C {
    let bits = bits_for(ranks.into());
    let mut list = C::zeroed(words_for(ranks.into(), bits) as usize);
    let mut next: Vec<u32> = (0..members).map(|member| number(begins, member, bits)).collect();
    let mut some = [NONE; 256];
    // Some ranks at a time, each step for all of them: so none waits for memory that another one needs.
    for (first, members_of) in (0..ranks).step_by(some.len()).zip(members_of.chunks(some.len() / 2)) {
        let count = some.len().min((ranks - first) as usize);
        let mut places = some.iter_mut();
        each(members_of, count as u32, |member| {
            if let Some(at) = places.next() {
                *at = next.get_mut(member as usize).map_or(NONE, |next| std::mem::replace(next, *next + 1));
            }
        });
        for (rank, at) in (first..).zip(&some[..count]).filter(|(_, at)| **at != NONE) {
            add_nth(&mut list, *at, rank.into(), bits);
        }
    }
    list
}

/// Makes members as narrow as they can be, each one more than it is, 0 for none.
fn narrow<C: Room>(members_of: &mut C, ranks: u32, members: u32) {
    let bits = bits_for(members.into());
    let words = Cell::from_mut(&mut members_of[..]).as_slice_of_cells();
    // Writing never overtakes reading: it takes no more than half of a word.
    let mut filler = Filler::over(words);
    for rank in 0..ranks {
        let two = words[(rank / 2) as usize].get();
        let member = if rank % 2 == 0 { low(two) } else { high(two) };
        filler.push(if member < members { u64::from(member) + 1 } else { 0 }, bits);
    }
    filler.finish();
    members_of.truncate(words_for(ranks.into(), bits) as usize);
}
