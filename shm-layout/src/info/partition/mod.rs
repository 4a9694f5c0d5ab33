//! Partitions: the node that a rank runs on, or the application that it belongs to, by ranks parted among members.
//!
//! Mostly a rule tells: blocks of ranks go to one member after the other, and round again. A **run** is a range of
//! ranks that follows one rule:
//!
//! ```text
//! run      0   first rank | ranks
//!          1   first member (all ones: these belong to none) | ranks of a block
//!          2   members of a round | place of the first rank within its member
//!          3   CRC-32C of words 0 to 2 and the index | 0
//! ```
//!
//! The other way round, an **interval** of members names the runs that have ranks of all of them:
//!
//! ```text
//! interval 0   first member | the one behind its last
//!          1   word of the list | runs in it
//!          2   CRC-32C of words 0 and 1, the index and the list | 0
//! ```
//!
//! Its list has 32 bits for the index of each run, in the order of ranks. Runs and intervals are checked before they
//! are used, so that what is found by bisecting them is right or an error. Where there is no rule worth its space, four
//! **columns** of numbers take their place: of each rank its member (one more than it, 0 for none) and its place there
//! by the order of numbers, of each member where its ranks begin, and the ranks of one member after the other, each
//! member's in the order in which they were named.
mod build;
mod columns;

pub use build::PartitionBuild;
pub use columns::Room;

use super::packed::{self, words_for};
use super::{NONE, Part};
use crate::words::Words;
use crate::{Malformed, crc, high, low, pair};

const RUN: usize = 4;
const INTERVAL: usize = 3;

/// The place and form of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Ranks that are parted.
    ranks: u32,
    members: u32,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Runs {
        runs: Part,
        intervals: Part,
    },
    /// `listed`: the ranks of a member are in another order than that of their numbers.
    Columns {
        at: usize,
        member_bits: u32,
        place_bits: u32,
        rank_bits: u32,
        listed: bool,
    },
}

/// Ranks of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    start: u32,
    count: u32,
    member: u32,
    block: u32,
    width: u32,
    base: u32,
}

impl Run {
    #[inline]
    fn encode(&self, index: u32) -> [u64; RUN] {
        let mut words = [pair(self.start, self.count), pair(self.member, self.block), pair(self.width, self.base), 0];
        words[3] = u64::from(crc::of(&[words[0], words[1], words[2], u64::from(index)]));
        words
    }

    #[inline]
    fn read<W: Words>(words: &W, runs: Part, index: u32) -> Result<Self, Malformed> {
        let at = runs.at(index, RUN)?;
        let w = words.load_all::<RUN>(at)?;
        words.once(at, move |_| crc::expect(u64::from(crc::of(&[w[0], w[1], w[2], u64::from(index)])), w[3]))?;
        let run = Self {
            start: low(w[0]),
            count: high(w[0]),
            member: low(w[1]),
            block: high(w[1]),
            width: low(w[2]),
            base: high(w[2]),
        };
        match run.block == 0 || run.width == 0 {
            true => Err(Malformed::Table),
            false => Ok(run),
        }
    }

    /// Member and place of the n-th rank.
    #[inline]
    fn place(&self, n: u32) -> Option<(u32, u32)> {
        if self.member == NONE {
            return None;
        }
        if n < self.block {
            return Some((self.member, self.base + n));
        }
        let (block, within) = (n / self.block, n % self.block);
        if block < self.width {
            return Some((self.member + block, self.base + within));
        }
        let (round, member) = (block / self.width, block % self.width);
        Some((self.member + member, self.base + round * self.block + within))
    }

    /// Members that have ranks in it: the first, and how many.
    fn members(&self) -> (u32, u32) {
        (self.member, self.width.min(self.count.div_ceil(self.block)))
    }

    /// The ranks of a member as pieces: where the first begins, from one to the next, how many, ranks of the last; all
    /// others have a block.
    #[inline]
    fn pieces(&self, member: u32) -> Option<(u32, u64, u32, u32)> {
        let nth = member.checked_sub(self.member).filter(|nth| *nth < self.width)?;
        let (from, count) = (u64::from(nth) * u64::from(self.block), u64::from(self.count));
        let left = count.checked_sub(from).filter(|left| *left > 0)?;
        let period = u64::from(self.block) * u64::from(self.width);
        // Mostly there is one round, and a division takes as long as all the rest.
        let pieces = if left <= period { 1 } else { left.div_ceil(period) };
        let last = (left - (pieces - 1) * period).min(u64::from(self.block));
        Some((self.start + from as u32, period, pieces as u32, last as u32))
    }
}

/// Ranks that follow one another, at one member or at none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Neighbours {
    first: u32,
    count: u32,
    place: Option<(u32, u32)>,
}

impl Neighbours {
    /// Member and place there of a rank, if it is one of these.
    #[inline(always)]
    pub fn place(&self, rank: u32) -> Option<Option<(u32, u32)>> {
        let nth = rank.wrapping_sub(self.first);
        (nth < self.count).then(|| self.place.map(|(member, place)| (member, place + nth)))
    }
}

impl Partition {
    /// Words in the head of a segment.
    pub(super) const HEAD: usize = 3;

    pub(super) fn of_head(words: [u64; Self::HEAD]) -> Self {
        let [a, b, c] = words;
        let form = match high(a) >> 31 {
            0 => Form::Runs { runs: Part::of(b), intervals: Part::of(c) },
            _ => Form::Columns {
                at: low(b) as usize,
                member_bits: (c & 0x3f) as u32,
                place_bits: (c >> 8 & 0x3f) as u32,
                rank_bits: (c >> 16 & 0x3f) as u32,
                listed: c >> 24 & 1 != 0,
            },
        };
        Self { ranks: low(a), members: high(a) & !(1 << 31), form }
    }

    pub(super) fn head(&self) -> [u64; Self::HEAD] {
        match self.form {
            Form::Runs { runs, intervals } => [pair(self.ranks, self.members), runs.word(), intervals.word()],
            Form::Columns { at, member_bits, place_bits, rank_bits, listed } => [
                pair(self.ranks, self.members | 1 << 31),
                at as u64,
                u64::from(member_bits | place_bits << 8 | rank_bits << 16 | u32::from(listed) << 24),
            ],
        }
    }

    /// Ranks that are parted.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The words where the columns begin, and where the last one ends.
    fn columns(&self) -> Option<[usize; 5]> {
        let Form::Columns { at, member_bits, place_bits, rank_bits, .. } = self.form else { return None };
        let mut ends = widths(self.ranks, self.members, [member_bits, place_bits, rank_bits]);
        ends.iter_mut().for_each(|end| *end += at);
        Some(ends)
    }

    /// Member and place there of a rank; `None` for a rank that belongs to no member.
    ///
    /// # Errors
    /// [`Malformed`] when the partition is damaged.
    #[inline]
    pub fn place<W: Words>(&self, words: &W, rank: u32) -> Result<Option<(u32, u32)>, Malformed> {
        if rank >= self.ranks {
            return Ok(None);
        }
        match self.form {
            Form::Runs { runs, .. } => {
                let run = Run::read(words, runs, bisect(words, runs, RUN, rank)?)?;
                match rank.checked_sub(run.start).filter(|n| *n < run.count) {
                    Some(n) => Ok(run.place(n)),
                    None => Err(Malformed::Table),
                }
            }
            Form::Columns { at, member_bits, place_bits, .. } => {
                let places = at + words_for(u64::from(self.ranks), member_bits) as usize;
                let member = packed::nth(words, at, rank, member_bits)? as u32;
                let place = packed::nth(words, places, rank, place_bits)? as u32;
                Ok(member.checked_sub(1).map(|member| (member, place)))
            }
        }
    }

    /// The member and place of a rank, and of those that follow it there.
    ///
    /// # Errors
    /// [`Malformed`] when the partition is damaged.
    pub fn neighbours<W: Words>(&self, words: &W, rank: u32) -> Result<Neighbours, Malformed> {
        let place = self.place(words, rank)?;
        let count = match self.form {
            Form::Runs { runs, .. } if rank < self.ranks => {
                let run = Run::read(words, runs, bisect(words, runs, RUN, rank)?)?;
                let nth = rank.saturating_sub(run.start);
                run.count.saturating_sub(nth).min(run.block - nth % run.block)
            }
            _ => 1,
        };
        Ok(Neighbours { first: rank, count, place })
    }

    /// Gives `f` the ranks of a member, as pieces: first rank and count. They come in the order of their numbers,
    /// unless columns have them in another one.
    ///
    /// # Errors
    /// [`Malformed`] when the partition is damaged.
    pub fn pieces<W: Words>(&self, words: &W, member: u32, mut f: impl FnMut(u32, u32)) -> Result<(), Malformed> {
        if member >= self.members {
            return Ok(());
        }
        let (runs, intervals) = match self.form {
            Form::Runs { runs, intervals } => (runs, intervals),
            Form::Columns { rank_bits, .. } => {
                let (from, to, ranks) = self.slice(words, member, rank_bits)?;
                let rank = |nth| Ok(packed::nth(words, ranks, nth, rank_bits)? as u32);
                return (from..to).try_for_each(|nth| rank(nth).map(|rank| f(rank, 1)));
            }
        };
        self.runs_of(words, runs, intervals, member, |run| {
            if let Some((first, period, pieces, last)) = run.pieces(member) {
                let mut at = u64::from(first);
                for _ in 1..pieces {
                    f(at as u32, run.block);
                    at += period;
                }
                f(at as u32, last);
            }
        })
    }

    /// The number of ranks of a member.
    ///
    /// # Errors
    /// [`Malformed`] when the partition is damaged.
    pub fn size<W: Words>(&self, words: &W, member: u32) -> Result<u32, Malformed> {
        if member >= self.members {
            return Ok(0);
        }
        match self.form {
            Form::Runs { runs, intervals } => {
                let mut size = 0;
                self.runs_of(words, runs, intervals, member, |run| {
                    if let Some((_, _, pieces, last)) = run.pieces(member) {
                        size += (pieces - 1) * run.block + last;
                    }
                })?;
                Ok(size)
            }
            Form::Columns { rank_bits, .. } => self.slice(words, member, rank_bits).map(|(from, to, _)| to - from),
        }
    }

    /// The lowest rank of a member.
    ///
    /// # Errors
    /// [`Malformed`] when the partition is damaged.
    pub fn leader<W: Words>(&self, words: &W, member: u32) -> Result<Option<u32>, Malformed> {
        if member >= self.members {
            return Ok(None);
        }
        match self.form {
            Form::Runs { runs, intervals } => {
                let mut first = None;
                self.runs_of(words, runs, intervals, member, |run| {
                    first = first.or_else(|| run.pieces(member).map(|(first, ..)| first));
                })?;
                Ok(first)
            }
            Form::Columns { rank_bits, listed, .. } => {
                let (from, mut to, ranks) = self.slice(words, member, rank_bits)?;
                if !listed {
                    to = to.min(from + 1);
                }
                (from..to).try_fold(None, |lowest: Option<u32>, nth| {
                    let rank = packed::nth(words, ranks, nth, rank_bits)? as u32;
                    Ok(Some(lowest.map_or(rank, |lowest| lowest.min(rank))))
                })
            }
        }
    }

    /// The ranks of a member, first and count, where they are known to follow one another.
    ///
    /// # Errors
    /// [`Malformed`] when the partition is damaged.
    #[inline]
    pub fn in_a_row<W: Words>(&self, words: &W, member: u32) -> Result<Option<(u32, u32)>, Malformed> {
        let Form::Runs { runs, intervals } = self.form else { return Ok(None) };
        if member >= self.members {
            return Ok(None);
        }
        let (mut found, mut several) = (None, false);
        self.runs_of(words, runs, intervals, member, |run| {
            if let Some((first, _, pieces, last)) = run.pieces(member) {
                several |= pieces > 1 || found.is_some();
                found = Some((first, last));
            }
        })?;
        Ok(found.filter(|_| !several))
    }

    /// The place of a member's ranks in the column of ranks, and the word of that column.
    fn slice<W: Words>(&self, words: &W, member: u32, rank_bits: u32) -> Result<(u32, u32, usize), Malformed> {
        let Some([_, _, ends, ranks, _]) = self.columns() else { return Err(Malformed::Table) };
        let end = |member| Ok(packed::nth(words, ends, member, rank_bits)? as u32);
        let (from, to) = (end(member)?, end(member + 1)?);
        match from <= to && to <= self.ranks {
            true => Ok((from, to, ranks)),
            false => Err(Malformed::Table),
        }
    }

    #[inline]
    fn runs_of<W: Words>(
        &self,
        words: &W,
        runs: Part,
        intervals: Part,
        member: u32,
        mut f: impl FnMut(Run),
    ) -> Result<(), Malformed> {
        let index = bisect(words, intervals, INTERVAL, member)?;
        let at = intervals.at(index, INTERVAL)?;
        let w = words.load_all::<INTERVAL>(at)?;
        let (list, count) = (low(w[1]) as usize, high(w[1]));
        words.once(at, move |words| {
            let mut sum = crc::Crc::new();
            sum.slice(&[w[0], w[1], u64::from(index)]);
            sum.words(words, list, count.div_ceil(2) as usize)?;
            crc::expect(sum.value().into(), w[2])
        })?;
        if member < low(w[0]) || member >= high(w[0]) {
            return Err(Malformed::Table);
        }
        (0..count).try_for_each(|nth| {
            let two = words.load(list + (nth / 2) as usize)?;
            f(Run::read(words, runs, if nth % 2 == 0 { low(two) } else { high(two) })?);
            Ok(())
        })
    }
}

/// The beginning of each of the four columns, counted from the first, and the end of the last one, in words.
fn widths(ranks: u32, members: u32, [member_bits, place_bits, rank_bits]: [u32; 3]) -> [usize; 5] {
    let (ranks, mut ends) = (u64::from(ranks), [0; 5]);
    let columns = [(ranks, member_bits), (ranks, place_bits), (u64::from(members) + 1, rank_bits), (ranks, rank_bits)];
    for (i, (count, bits)) in columns.into_iter().enumerate() {
        ends[i + 1] = ends[i] + words_for(count, bits) as usize;
    }
    ends
}

/// The last of these entries whose first half word is `number` or below. That it is the right one must be seen from it.
#[inline]
fn bisect<W: Words>(words: &W, part: Part, entry: usize, number: u32) -> Result<u32, Malformed> {
    if part.len == 1 {
        return Ok(0);
    }
    let (mut from, mut to) = (0, part.len);
    while from < to {
        let middle = from + (to - from) / 2;
        match low(words.load(part.at(middle, entry)?)?) <= number {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    from.checked_sub(1).ok_or(Malformed::Table)
}
