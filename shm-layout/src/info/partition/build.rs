//! Partitions under construction: rules where there are some, columns where not.
use super::super::{NONE, Part};
use super::columns::{Columns, Room, bits};
use super::{Form, INTERVAL, Partition, RUN, Run, widths};
use crate::{crc, pair};

/// A partition under construction. Its columns lie in a `C`, words of whoever has it built: they may be as large as
/// everything else.
#[derive(Debug, Clone)]
pub struct PartitionBuild<C = Vec<u64>> {
    ranks: u32,
    members: u32,
    rule: Rule<C>,
}

#[derive(Debug, Clone)]
enum Rule<C> {
    Runs(Vec<Run>),
    Columns(Columns<C>),
}

/// Ranks in a row that belong to one member, and the place of the first.
#[derive(Clone, Copy)]
struct Stretch {
    start: u32,
    len: u32,
    member: u32,
    place: u32,
}

impl PartitionBuild {
    /// A partition of ranks with these members; [`NONE`] for ranks that belong to none.
    pub fn of(members_of: &[u32], members: u32) -> Self {
        let two = |two: &[u32]| pair(two[0], two.get(1).copied().unwrap_or(NONE));
        Self::by_rule(members_of, members).unwrap_or_else(|| {
            Self::by_columns(members_of.chunks(2).map(two).collect(), members_of.len() as u32, members, None)
        })
    }
}

impl<C: Room> PartitionBuild<C> {
    /// A partition by columns, of so many ranks with these members, two in each word, the first in its low half.
    ///
    /// The ranks of one member after the other are given where they are known: in the order of their numbers, or in
    /// another one, which is kept; each rank that has a member once, in as many bits as the number of ranks has, in
    /// words for all of these.
    pub fn by_columns(members_of: C, ranks: u32, members: u32, listed: Option<(C, bool)>) -> Self {
        Self { ranks, members, rule: Rule::Columns(Columns::new(members_of, ranks, members, listed)) }
    }

    /// A partition by rules; `None` where there are so many that columns take less.
    pub fn by_rule(members_of: &[u32], members: u32) -> Option<Self> {
        let ranks = members_of.len() as u32;
        let mut runs = Runs::new(ranks, members);
        let mut at = 0;
        loop {
            at += runs.rounds(members_of, at);
            at += runs.next_members(members_of, at);
            let rest = &members_of[at..];
            let Some(member) = rest.first() else { break };
            let len = rest.iter().position(|other| other != member).unwrap_or(rest.len());
            if !runs.add(*member, len as u32) {
                return None;
            }
            at += len;
        }
        runs.finish().map(|runs| Self { ranks, members, rule: Rule::Runs(runs) })
    }

    /// A partition by rules, of ranks in stretches: a member, or [`NONE`], and how many ranks in a row belong to it.
    pub fn of_stretches(members: u32, stretches: impl Iterator<Item = (u32, u32)> + Clone) -> Option<Self> {
        let ranks = stretches.clone().map(|(_, len)| len).sum();
        let mut runs = Runs::new(ranks, members);
        let few = stretches.into_iter().all(|(member, len)| runs.add(member, len));
        let runs = few.then(|| runs.finish()).flatten()?;
        Some(Self { ranks, members, rule: Rule::Runs(runs) })
    }

    /// Blocks of `block` ranks to one member after the other, and round again.
    pub fn dealt(ranks: u32, members: u32, block: u32) -> Self {
        let (block, width) = (block.clamp(1, ranks.max(1)), members.max(1));
        let run = Run { start: 0, count: ranks, member: if members == 0 { NONE } else { 0 }, block, width, base: 0 };
        let runs = if ranks == 0 { Vec::new() } else { vec![run] };
        Self { ranks, members, rule: Rule::Runs(runs) }
    }

    /// The words of its columns, if it has no rule, one column behind the other.
    pub fn columns(&self) -> Option<[&[u64]; 4]> {
        match &self.rule {
            Rule::Runs(_) => None,
            Rule::Columns(columns) => Some(columns.words()),
        }
    }

    /// The columns themselves.
    pub(crate) fn into_columns(self) -> Option<[C; 4]> {
        match self.rule {
            Rule::Runs(_) => None,
            Rule::Columns(columns) => Some(columns.into_words()),
        }
    }

    /// The partition as readers see it in `words`, to which its rules are appended, or where its
    /// [`columns`](Self::columns) begin at `at`.
    pub fn put(&self, words: &mut Vec<u64>, at: usize) -> Partition {
        match &self.rule {
            Rule::Runs(runs) => self.put_runs(runs, words),
            Rule::Columns(columns) => {
                let ([member_bits, place_bits, rank_bits], listed) = (columns.bits, columns.listed);
                let form = Form::Columns { at, member_bits, place_bits, rank_bits, listed };
                Partition { ranks: self.ranks, members: self.members, form }
            }
        }
    }

    fn put_runs(&self, rule: &[Run], words: &mut Vec<u64>) -> Partition {
        let (ranks, members) = (self.ranks, self.members);
        let runs = Part { at: words.len(), len: rule.len() as u32 };
        words.extend((0u32..).zip(rule).flat_map(|(index, run)| run.encode(index)));
        let mut entries = Vec::new();
        self.intervals(rule, |first, end, list| {
            let (at, index) = (words.len(), entries.len() as u64 / INTERVAL as u64);
            words.extend(list.chunks(2).map(|two| pair(two[0], two.get(1).copied().unwrap_or(0))));
            let entry = [pair(first, end), pair(at as u32, list.len() as u32)];
            let mut sum = crc::Crc::new();
            sum.slice(&[entry[0], entry[1], index]);
            sum.slice(&words[at..]);
            entries.extend([entry[0], entry[1], u64::from(sum.value())]);
        });
        let intervals = Part { at: words.len(), len: (entries.len() / INTERVAL) as u32 };
        words.extend(entries);
        Partition { ranks, members, form: Form::Runs { runs, intervals } }
    }

    /// Gives `f` the members that have ranks, from the first up to one that it does not have any more, piece by piece.
    pub fn with_ranks(&self, mut f: impl FnMut(u32, u32)) {
        match &self.rule {
            // All members that a run leads to have ranks of it.
            Rule::Runs(runs) => self.intervals(runs, |from, to, runs| {
                if !runs.is_empty() {
                    f(from, to);
                }
            }),
            Rule::Columns(columns) => {
                let mut from = 0;
                for member in 0..self.members {
                    let to = columns.begin(member + 1);
                    if to > std::mem::replace(&mut from, to) {
                        f(member, member + 1);
                    }
                }
            }
        }
    }

    /// Gives `f` members that the same runs lead to: first, end, runs.
    fn intervals(&self, runs: &[Run], mut f: impl FnMut(u32, u32, &[u32])) {
        // Starts and ends of runs, by member. Each for itself is mostly in order already.
        let with_members = || (0u32..).zip(runs).filter(|(_, run)| run.member != NONE);
        let mut begins: Vec<(u32, u32)> = with_members().map(|(index, run)| (run.members().0, index)).collect();
        let mut ends: Vec<(u32, u32)> =
            with_members().map(|(index, run)| (run.members().0 + run.members().1, index)).collect();
        begins.sort_unstable();
        ends.sort_unstable();
        let (mut begins, mut ends) = (begins.into_iter().peekable(), ends.into_iter().peekable());
        let (mut active, mut from): (Vec<u32>, u32) = (Vec::new(), 0);
        while from < self.members {
            while let Some((_, index)) = ends.next_if(|end| end.0 <= from) {
                active.retain(|other| *other != index);
            }
            while let Some((_, index)) = begins.next_if(|begin| begin.0 <= from) {
                active.insert(active.partition_point(|other| *other < index), index);
            }
            let next = |edge: Option<&(u32, u32)>| edge.map_or(self.members, |edge| edge.0);
            let to = next(begins.peek()).min(next(ends.peek())).min(self.members);
            f(from, to, &active);
            from = to;
        }
    }
}

/// Words of columns.
fn columns_take(ranks: u32, members: u32, largest: u32) -> u64 {
    widths(ranks, members, bits(ranks, members, largest))[4] as u64
}

/// From so many runs on they are given up where most of them are of one rank: there is no rule in what follows either.
const MANY: usize = 1 << 14;

/// Rules for ranks, as long as there are not so many that columns take less.
struct Runs {
    runs: Vec<Run>,
    open: Option<Growing>,
    /// Ranks so far, and of all.
    start: u32,
    ranks: u32,
    members: u32,
    /// From this member on nobody has ranks yet.
    fresh: u32,
    /// Ranks of each member so far, once a member comes again: as long as none does, nobody asks for them.
    sizes: Vec<u32>,
    /// The most that a member has.
    largest: u32,
    /// With more runs than this there are too many.
    most: u64,
}

impl Runs {
    fn new(ranks: u32, members: u32) -> Self {
        // Columns never take more than they would with all ranks at one member.
        let most = 16.max(columns_take(ranks, members, ranks) / (RUN + INTERVAL) as u64);
        Self { runs: Vec::new(), open: None, start: 0, ranks, members, fresh: 0, sizes: Vec::new(), largest: 0, most }
    }

    /// Goes on with ranks of one member; `false` when there are too many runs.
    fn add(&mut self, member: u32, len: u32) -> bool {
        if len == 0 {
            return true;
        }
        let mut stretch = Stretch { start: self.start, len, member, place: 0 };
        if member < self.members {
            if member < self.fresh && self.sizes.is_empty() {
                self.sizes = self.sizes_so_far();
            }
            if let Some(size) = self.sizes.get_mut(member as usize) {
                stretch.place = *size;
                *size += len;
            }
            self.fresh = self.fresh.max(member + 1);
            self.largest = self.largest.max(stretch.place + len);
        }
        self.start += len;
        if !self.open.as_mut().is_some_and(|open| open.take(stretch)) {
            self.runs.extend(self.open.replace(Growing::new(stretch)).map(|open| open.run));
        }
        let (runs, ranks) = (self.runs.len(), self.start as usize);
        runs as u64 <= self.most && (runs < MANY || runs * 2 < ranks)
    }

    fn sizes_so_far(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.members as usize];
        for run in self.runs.iter().chain(self.open.as_ref().map(|open| &open.run)).filter(|run| run.member != NONE) {
            let (first, count) = run.members();
            for member in first..first + count {
                let (_, _, pieces, last) = run.pieces(member).unwrap_or_default();
                sizes[member as usize] += pieces.saturating_sub(1) * run.block + last;
            }
        }
        sizes
    }

    /// Goes on with whole rounds that are as the one before; answers with how many ranks.
    fn rounds(&mut self, members_of: &[u32], at: usize) -> usize {
        let Some(open) = &mut self.open else { return 0 };
        let Some(round) = open.whole_round().and_then(|ranks| members_of.get(at.checked_sub(ranks)?..at)) else {
            return 0;
        };
        let rounds = members_of[at..].chunks_exact(round.len()).take_while(|next| *next == round).count() as u32;
        open.again(rounds);
        let Run { member, width, block, .. } = open.run;
        for size in &mut self.sizes[member as usize..(member + width) as usize] {
            *size += rounds * block;
            self.largest = self.largest.max(*size);
        }
        self.start += rounds * round.len() as u32;
        rounds as usize * round.len()
    }

    /// Goes on with blocks that go to one member after the other for the first time; answers with how many ranks.
    fn next_members(&mut self, members_of: &[u32], at: usize) -> usize {
        let Some(open) = self.open.as_mut().filter(|open| open.climbs() && self.sizes.is_empty()) else { return 0 };
        if open.run.member + open.run.width != self.fresh {
            return 0;
        }
        let (block, rest) = (open.run.block as usize, &members_of[at..]);
        let blocks = rest.chunks_exact(block).zip(self.fresh..self.members);
        let mut count = blocks.take_while(|(block, member)| block.iter().all(|other| other == member)).count() as u32;
        // A member that has more than a block follows another rule.
        if count > 0 && rest.get(count as usize * block) == Some(&(self.fresh + count - 1)) {
            count -= 1;
        }
        open.climb(count);
        let ranks = count * open.run.block;
        (self.fresh, self.start) = (self.fresh + count, self.start + ranks);
        self.largest = self.largest.max(open.run.block);
        ranks as usize
    }

    /// The runs, if there are not too many.
    fn finish(mut self) -> Option<Vec<Run>> {
        self.runs.extend(self.open.map(|open| open.run));
        let columns = columns_take(self.ranks, self.members, self.largest);
        let too_many = self.runs.len() > 16 && (self.runs.len() * (RUN + INTERVAL)) as u64 > columns;
        (!too_many).then_some(self.runs)
    }
}

/// A run that may go on.
struct Growing {
    run: Run,
    /// The round of the next block, and the member of the run that it goes to.
    next: (u32, u32),
    /// True once the first member has come again: then the width is known.
    again: bool,
    /// True if the last block was cut short.
    closed: bool,
}

impl Growing {
    fn new(Stretch { start, len, member, place }: Stretch) -> Self {
        let run = Run { start, count: len, member, block: len, width: 1, base: place };
        Self { run, next: (0, 1), again: false, closed: member == NONE }
    }

    /// Takes a stretch in, if it follows the rule.
    fn take(&mut self, next: Stretch) -> bool {
        let run = &mut self.run;
        if self.closed || next.len > run.block || next.member == NONE {
            return false;
        }
        let begins_again = !self.again && next.member == run.member;
        let (round, member) = if begins_again { (1, 0) } else { self.next };
        if next.member != run.member + member || next.place != run.base + round * run.block {
            return false;
        }
        self.again |= begins_again;
        if !self.again {
            run.width = member + 1;
        }
        self.next = if self.again && member + 1 == run.width { (round + 1, 0) } else { (round, member + 1) };
        self.closed = next.len < run.block;
        run.count += next.len;
        true
    }

    /// Returns whether ranks have gone from one member to the next so far, with whole blocks that begin at the first
    /// place of each.
    fn climbs(&self) -> bool {
        !self.again && !self.closed && self.run.base == 0 && self.next == (0, self.run.width)
    }

    /// Goes on with so many more members.
    fn climb(&mut self, members: u32) {
        self.run.width += members;
        self.run.count += members * self.run.block;
        self.next = (0, self.run.width);
    }

    /// The ranks of a round, between a round that was complete and the next.
    fn whole_round(&self) -> Option<usize> {
        let between = self.again && !self.closed && self.next.1 == 0;
        between.then(|| self.run.block as usize * self.run.width as usize)
    }

    /// Goes on for so many rounds.
    fn again(&mut self, rounds: u32) {
        self.next.0 += rounds;
        self.run.count += rounds * self.run.block * self.run.width;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::packed::{Packer, bits_for};
    use super::*;
    use crate::words::VecWords;

    /// Everything that can be asked of a partition, and what follows from its list.
    fn check(members_of: &[u32], members: u32, seed: u64) -> bool {
        let mut ranks_of = vec![Vec::new(); members as usize];
        for (rank, member) in (0u32..).zip(members_of).filter(|(_, member)| **member < members) {
            ranks_of[*member as usize].push(rank);
        }
        let build = PartitionBuild::of(members_of, members);
        check_built(&build, members_of, &ranks_of, seed);
        let two = || members_of.chunks(2).map(|two| pair(two[0], two.get(1).copied().unwrap_or(7))).collect();
        let ranks = members_of.len() as u32;
        let list = |ranks_of: &[Vec<u32>]| {
            let mut list = ranks_of.concat();
            list.resize(members_of.len(), 0);
            Packer::of(list.into_iter().map(u64::from), bits_for(ranks.into()))
        };
        let in_order = PartitionBuild::by_columns(two(), ranks, members, Some((list(&ranks_of), true)));
        check_built(&in_order, members_of, &ranks_of, seed);
        let found_out = PartitionBuild::by_columns(two(), ranks, members, None);
        assert_eq!(in_order.columns(), found_out.columns(), "seed {seed}: {members_of:?}");
        // In another order.
        ranks_of.iter_mut().for_each(|ranks| ranks.sort_by_key(|rank| rank.wrapping_mul(0x9e37_79b9) ^ seed as u32));
        let listed = PartitionBuild::by_columns(two(), ranks, members, Some((list(&ranks_of), false)));
        check_built(&listed, members_of, &ranks_of, seed);
        build.columns().is_some()
    }

    fn check_built(build: &PartitionBuild, members_of: &[u32], ranks_of: &[Vec<u32>], seed: u64) {
        let mut with_ranks = Vec::new();
        build.with_ranks(|from, to| with_ranks.extend(from..to));
        let expected = (0u32..).zip(ranks_of).filter(|(_, ranks)| !ranks.is_empty()).map(|(member, _)| member);
        assert_eq!(with_ranks, expected.collect::<Vec<_>>(), "seed {seed}: {members_of:?}");
        let (mut alone, mut written) = (Vec::new(), vec![7; 3]);
        let views = [build.put(&mut alone, 0), build.put(&mut written, 3)];
        for words in [&mut alone, &mut written] {
            words.extend(build.columns().unwrap_or_default().concat());
        }
        for (partition, words) in views.into_iter().zip([&alone, &written]) {
            let words = VecWords::of(words);
            let mut sizes = vec![0; ranks_of.len()];
            for (rank, member) in (0u32..).zip(members_of) {
                let expected = sizes.get_mut(*member as usize).map(|size| {
                    *size += 1;
                    (*member, *size - 1)
                });
                assert_eq!(partition.place(&words, rank), Ok(expected), "seed {seed}: {rank} of {members_of:?}");
            }
            assert_eq!(partition.place(&words, members_of.len() as u32), Ok(None));
            for (member, ranks) in (0u32..).zip(ranks_of) {
                let mut found = Vec::new();
                partition.pieces(&words, member, |first, count| found.extend(first..first + count)).unwrap();
                assert_eq!(&found, ranks, "seed {seed}: member {member} of {members_of:?}");
                assert_eq!(partition.size(&words, member), Ok(ranks.len() as u32), "seed {seed}");
                assert_eq!(partition.leader(&words, member), Ok(ranks.iter().min().copied()), "seed {seed}");
            }
        }
    }

    #[test]
    fn every_partition_says_where_each_rank_is() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = move |bound: u32| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 32) as u32 % bound
        };
        let mut without_rule = 0;
        for seed in 0..600 {
            // Pieces of several rules one after the other, some of them at random.
            let (members, mut members_of) = (1 + below(9), Vec::new());
            for _ in 0..below(6) {
                let (ranks, first, block) = (below(80), below(members), 1 + below(4));
                let width = 1 + below(members - first);
                let shape = below(5);
                members_of.extend((0..ranks).map(|n| match shape {
                    0 => below(members),
                    1 => NONE,
                    2 => first,
                    _ => first + n / block % width,
                }));
            }
            without_rule += u32::from(check(&members_of, members, seed));
        }
        for members in [1000, 5000] {
            let members_of: Vec<u32> = (0..3 * members).map(|_| below(members)).collect();
            without_rule += u32::from(check(&members_of, members, members.into()));
        }
        assert!(without_rule > 2, "{without_rule}");
        assert!(!check(&(0..3000).map(|rank| rank % 100).collect::<Vec<_>>(), 100, 0), "a rule");
    }

    #[test]
    fn whole_rounds_are_one_run() {
        let build = PartitionBuild::of(&(0..1003).map(|rank| rank / 2 % 5).collect::<Vec<_>>(), 5);
        let Rule::Runs(runs) = &build.rule else { panic!("columns") };
        assert_eq!(&runs[..], [Run { start: 0, count: 1003, member: 0, block: 2, width: 5, base: 0 }]);
    }
}
