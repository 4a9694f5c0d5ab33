//! Values of one key, as they come and in the order of ranks.
//!
//! A host speaks of one process after the other; each time is a **speech**, and they are numbered from 1. What it speaks of is noted once
//! for all keys: mostly of ranks in a row. Each key only notes in which speeches it came, mostly in all of them.
use super::nodes::Nodes;
use super::numbers::Numbers;
use super::strings::Strings;
use crate::data::{DataType, Key};

/// What the numbers of a key stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalars(DataType),
    Strings,
    /// Indexes of nodes, whose names these are as strings.
    Nodes,
    Others,
}

/// Of which ranks there were speeches.
#[derive(Debug, Default, Clone)]
pub(super) struct Speeches {
    /// Of ranks in a row, one after the other: the first rank, and the speech that was of it.
    runs: Vec<(u32, u32)>,
    /// How many there were.
    pub(super) count: u32,
}

impl Speeches {
    /// Another one, of a rank.
    #[inline]
    pub(super) fn add(&mut self, rank: u32) {
        self.add_row(rank, 1);
    }

    /// One of this rank, one of the next, and so on; answers with the first of them.
    #[inline]
    pub(super) fn add_row(&mut self, rank: u32, count: u32) -> u32 {
        let speech = self.count + 1;
        if self.runs.last().is_none_or(|(first, begin)| rank.wrapping_sub(*first) != speech - begin) {
            self.runs.push((rank, speech));
        }
        self.count += count;
        speech
    }

    /// All of them in the order of ranks: rank and speech, in the high and the low half.
    pub(super) fn by_rank(&self) -> Vec<u64> {
        let mut all = Vec::with_capacity(self.count as usize);
        let ends = self.runs.iter().skip(1).map(|(_, begin)| *begin).chain([self.count + 1]);
        for ((rank, begin), end) in self.runs.iter().zip(ends) {
            all.extend((*rank..).zip(*begin..end).map(|(rank, speech)| u64::from(rank) << 32 | u64::from(speech)));
        }
        all.sort_unstable();
        all
    }
}

/// Values of one key and kind, as they come.
#[derive(Debug, Clone)]
pub(super) struct Pile {
    pub(super) kind: Kind,
    /// Speeches in a row that had one: the first, and the place of its number.
    runs: Vec<(u32, u32)>,
    /// The speech that would go on.
    next: u32,
    pub(super) numbers: Numbers,
}

impl Pile {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, runs: Vec::new(), next: 0, numbers: Numbers::default() }
    }

    /// Values of speeches in a row.
    pub(super) fn of_row(kind: Kind, first: u32, numbers: Numbers) -> Self {
        Self { kind, runs: vec![(first, 0)], next: first + numbers.len() as u32, numbers }
    }

    /// Whether the last value is of this speech.
    pub(super) fn ends_with(&self, speech: u32) -> bool {
        self.next == speech + 1
    }

    /// Whether values of this kind go on in this speech. It counts as having one then.
    #[inline(always)]
    pub(super) fn goes_on_with(&mut self, kind: Kind, speech: u32) -> bool {
        let goes_on = self.kind == kind && self.next == speech;
        self.next += u32::from(goes_on);
        goes_on
    }

    pub(super) fn push(&mut self, speech: u32, number: u64) {
        if self.next != speech {
            self.runs.push((speech, self.numbers.len() as u32));
        }
        self.next = speech + 1;
        self.numbers.push(number);
    }

    pub(super) fn pop(&mut self) {
        self.numbers.pop();
        self.next -= 1;
        if self.runs.pop_if(|(_, at)| *at as usize == self.numbers.len()).is_some() {
            self.next = 0;
        }
    }

    /// The value that a speech had.
    fn get(&self, speech: u32) -> Option<u64> {
        let run = self.runs.partition_point(|(first, _)| *first <= speech).checked_sub(1)?;
        let end = self.runs.get(run + 1).map_or(self.numbers.len(), |(_, at)| *at as usize);
        let (first, at) = self.runs[run];
        let at = at as usize + (speech - first) as usize;
        (at < end).then(|| self.numbers.get(at))
    }

    /// The ranks of the values as pieces, if they came in the order of ranks and of none twice.
    fn pieces(&self, speeches: &Speeches) -> Option<Vec<(u32, u32)>> {
        let (mut pieces, mut spoken): (Vec<(u32, u32)>, _) = (Vec::new(), speeches.runs.iter().peekable());
        let (mut rank, mut begin) = (0, 0);
        let ends = self.runs.iter().skip(1).map(|(_, at)| *at).chain([self.numbers.len() as u32]);
        for ((first, at), end) in self.runs.iter().zip(ends) {
            let (mut speech, to) = (*first, first + (end - at));
            while speech < to {
                while let Some(run) = spoken.next_if(|(_, other)| *other <= speech) {
                    (rank, begin) = *run;
                }
                let until = spoken.peek().map_or(to, |(_, other)| to.min(*other));
                let (first, count) = (rank + (speech - begin), until - speech);
                match pieces.last_mut() {
                    Some((before, len)) if *before + *len == first => *len += count,
                    Some((before, len)) if *before + *len > first => return None,
                    _ => pieces.push((first, count)),
                }
                speech = until;
            }
        }
        Some(pieces)
    }
}

/// Values of one key and kind, each of another rank, in the order of ranks.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) key: Key,
    pub(super) kind: Kind,
    /// Ranks: the first of some in a row, and how many.
    pub(super) pieces: Vec<(u32, u32)>,
    pub(super) numbers: Numbers,
}

impl Values {
    pub(super) fn new(key: &Key, kind: Kind) -> Self {
        Self { key: key.clone(), kind, pieces: Vec::new(), numbers: Numbers::default() }
    }

    /// What was said of a key last of each rank; `by_rank` gives all speeches in that order.
    pub(super) fn of<'a>(
        key: Key,
        mut piles: Vec<Pile>,
        speeches: &Speeches,
        by_rank: impl FnOnce() -> &'a Vec<u64>,
    ) -> Vec<Values> {
        if let [pile] = &mut piles[..]
            && let Some(pieces) = pile.pieces(speeches)
        {
            return vec![Values { key, kind: pile.kind, pieces, numbers: std::mem::take(&mut pile.numbers) }];
        }
        let mut all: Vec<Values> = piles.iter().map(|pile| Values::new(&key, pile.kind)).collect();
        for speeches in by_rank().chunk_by(|a, b| a >> 32 == b >> 32) {
            let said =
                |speech: &u64| piles.iter().zip(0..).find_map(|(pile, nth)| Some((nth, pile.get(*speech as u32)?)));
            if let Some((nth, number)) = speeches.iter().rev().find_map(said) {
                let values: &mut Values = &mut all[nth];
                values.push((speeches[0] >> 32) as u32, number);
            }
        }
        all.retain(|values| !values.pieces.is_empty());
        all
    }

    /// The names of nodes as strings.
    pub(super) fn spelled(self, nodes: &Nodes, strings: &mut Strings) -> Self {
        let numbers = self.numbers.iter().map(|node| strings.number(nodes.name(node as u32).as_deref())).collect();
        Self { kind: Kind::Strings, numbers, ..self }
    }

    pub(super) fn push(&mut self, rank: u32, number: u64) {
        match self.pieces.last_mut() {
            Some((first, len)) if *first + *len == rank => *len += 1,
            _ => self.pieces.push((rank, 1)),
        }
        self.numbers.push(number);
    }

    pub(super) fn iter(&self) -> ByRank<'_> {
        ByRank { values: self, piece: 0, rank: 0, end: 0, at: 0 }
    }

    /// The same without those that `drop` agrees to.
    pub(super) fn without(&self, drop: &mut dyn FnMut(u32, u64) -> bool) -> Self {
        let mut kept = Self::new(&self.key, self.kind);
        for (rank, number) in self.iter() {
            if !drop(rank, number) {
                kept.push(rank, number);
            }
        }
        kept
    }
}

/// Values in the order of ranks.
#[derive(Clone)]
pub(super) struct ByRank<'a> {
    values: &'a Values,
    /// The piece behind this one.
    piece: usize,
    /// What is left of it.
    rank: u32,
    end: u32,
    /// The place of the next number.
    at: usize,
}

impl ByRank<'_> {
    /// The value of a rank; those in front of it are passed over.
    #[inline]
    pub(super) fn of(&mut self, rank: u32) -> Option<u64> {
        while rank >= self.end {
            self.at += (self.end - self.rank) as usize;
            (self.rank, self.end) = (self.end, self.end);
            self.next_piece()?;
        }
        let skipped = rank.checked_sub(self.rank)?;
        (self.rank, self.at) = (rank, self.at + skipped as usize);
        Some(self.values.numbers.get(self.at))
    }

    fn next_piece(&mut self) -> Option<()> {
        let (first, len) = *self.values.pieces.get(self.piece)?;
        (self.piece, self.rank, self.end) = (self.piece + 1, first, first + len);
        Some(())
    }
}

impl Iterator for ByRank<'_> {
    type Item = (u32, u64);

    #[inline]
    fn next(&mut self) -> Option<(u32, u64)> {
        if self.rank == self.end {
            self.next_piece()?;
        }
        (self.rank, self.at) = (self.rank + 1, self.at + 1);
        Some((self.rank - 1, self.values.numbers.get(self.at - 1)))
    }
}
