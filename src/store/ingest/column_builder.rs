//! Columns while they are built: the values of one key, in the order in which they come and then in the order of ranks.
//!
//! A host describes one process after the other. Each description is a **row**, numbered from 1. [`Rows`] notes once
//! for all keys which rank each row is about; mostly these are consecutive ranks. A [`ColumnBuilder`] notes which rows
//! have a value of its key, mostly all.
use super::interner::Interner;
use super::nodes::Nodes;
use super::packed_ints::PackedInts;
use crate::data::{DataType, Key};

/// The meaning of the numbers in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalars(DataType),
    Strings,
    /// Indexes of nodes, whose names these are as strings.
    Nodes,
    Others,
}

/// The rank that each row is about.
#[derive(Debug, Default, Clone)]
pub(super) struct Rows {
    /// Runs of consecutive ranks in consecutive rows: the first rank of each, and its row.
    runs: Vec<(u32, u32)>,
    /// Rows so far, which is the number of the last.
    pub(super) count: u32,
}

impl Rows {
    /// Adds a row about a rank.
    #[inline]
    pub(in crate::store) fn add(&mut self, rank: u32) {
        self.add_run(rank, 1);
    }

    /// Adds `count` rows about consecutive ranks from `rank` on. Returns the first of them.
    #[inline]
    pub(super) fn add_run(&mut self, rank: u32, count: u32) -> u32 {
        let row = self.count + 1;
        if self.runs.last().is_none_or(|(first, begin)| rank.wrapping_sub(*first) != row - begin) {
            self.runs.push((rank, row));
        }
        self.count += count;
        row
    }

    /// The rank that a row is about.
    fn rank(&self, row: u32) -> u32 {
        let run = self.runs.partition_point(|(_, begin)| *begin <= row).saturating_sub(1);
        self.runs.get(run).map_or(0, |(first, begin)| first + (row - begin))
    }

    /// All rows in the order of ranks, each as the rank in the high half and the row in the low half.
    pub(super) fn by_rank(&self) -> Vec<u64> {
        let mut all = Vec::with_capacity(self.count as usize);
        let ends = self.runs.iter().skip(1).map(|(_, begin)| *begin).chain([self.count + 1]);
        for ((rank, begin), end) in self.runs.iter().zip(ends) {
            all.extend((*rank..).zip(*begin..end).map(|(rank, row)| u64::from(rank) << 32 | u64::from(row)));
        }
        all.sort_unstable();
        all
    }
}

/// Values of one key and kind, in the order of rows.
#[derive(Debug, Clone)]
pub(super) struct ColumnBuilder {
    pub(super) kind: Kind,
    /// Runs of consecutive rows with a value: the first row of each, and the index of its number.
    runs: Vec<(u32, u32)>,
    /// The row that would continue the last run.
    next: u32,
    pub(in crate::store) numbers: PackedInts,
}

impl ColumnBuilder {
    pub(in crate::store) fn new(kind: Kind) -> Self {
        Self { kind, runs: Vec::new(), next: 0, numbers: PackedInts::default() }
    }

    /// A column with one value in each row from `first` on.
    pub(super) fn of_run(kind: Kind, first: u32, numbers: PackedInts) -> Self {
        Self { kind, runs: vec![(first, 0)], next: first + numbers.len() as u32, numbers }
    }

    /// Returns whether the last value is of this row.
    pub(super) fn ends_with(&self, row: u32) -> bool {
        self.next == row + 1
    }

    /// Continues the last run with a value in this row, if it is of this kind. Returns whether it did; the caller
    /// pushes the number.
    #[inline(always)]
    pub(super) fn continues_with(&mut self, kind: Kind, row: u32) -> bool {
        let continues = self.kind == kind && self.next == row;
        self.next += u32::from(continues);
        continues
    }

    pub(super) fn push(&mut self, row: u32, number: u64) {
        if self.next != row {
            self.runs.push((row, self.numbers.len() as u32));
        }
        self.next = row + 1;
        self.numbers.push(number);
    }

    pub(super) fn pop(&mut self) {
        self.numbers.pop();
        self.next -= 1;
        if self.runs.pop_if(|(_, at)| *at as usize == self.numbers.len()).is_some() {
            self.next = 0;
        }
    }

    /// The rank of the value at a place.
    pub(super) fn rank(&self, at: usize, rows: &Rows) -> u32 {
        let run = self.runs.partition_point(|(_, begin)| *begin as usize <= at).saturating_sub(1);
        self.runs.get(run).map_or(0, |(first, begin)| rows.rank(first + (at as u32 - begin)))
    }

    /// The value in a row.
    fn get(&self, row: u32) -> Option<u64> {
        let run = self.runs.partition_point(|(first, _)| *first <= row).checked_sub(1)?;
        let end = self.runs.get(run + 1).map_or(self.numbers.len(), |(_, at)| *at as usize);
        let (first, at) = self.runs[run];
        let at = at as usize + (row - first) as usize;
        (at < end).then(|| self.numbers.get(at))
    }

    /// The ranks of the values as pieces, if they came in the order of ranks and none came twice.
    fn pieces(&self, rows: &Rows) -> Option<Vec<(u32, u32)>> {
        let (mut pieces, mut described): (Vec<(u32, u32)>, _) = (Vec::new(), rows.runs.iter().peekable());
        let (mut rank, mut begin) = (0, 0);
        let ends = self.runs.iter().skip(1).map(|(_, at)| *at).chain([self.numbers.len() as u32]);
        for ((first, at), end) in self.runs.iter().zip(ends) {
            let (mut row, to) = (*first, first + (end - at));
            while row < to {
                while let Some(run) = described.next_if(|(_, other)| *other <= row) {
                    (rank, begin) = *run;
                }
                let until = described.peek().map_or(to, |(_, other)| to.min(*other));
                let (first, count) = (rank + (row - begin), until - row);
                match pieces.last_mut() {
                    Some((before, len)) if *before + *len == first => *len += count,
                    Some((before, len)) if *before + *len > first => return None,
                    _ => pieces.push((first, count)),
                }
                row = until;
            }
        }
        Some(pieces)
    }
}

/// Values of one key and kind, each of another rank, in the order of ranks.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(in crate::store) key: Key,
    pub(super) kind: Kind,
    /// Runs of consecutive ranks: the first of each, and their count.
    pub(super) pieces: Vec<(u32, u32)>,
    pub(in crate::store) numbers: PackedInts,
}

impl Values {
    pub(in crate::store) fn new(key: &Key, kind: Kind) -> Self {
        Self { key: key.clone(), kind, pieces: Vec::new(), numbers: PackedInts::default() }
    }

    /// The last value of a key for each rank; `by_rank` gives all rows in the order of ranks.
    pub(in crate::store) fn of<'a>(
        key: Key,
        mut columns: Vec<ColumnBuilder>,
        rows: &Rows,
        by_rank: impl FnOnce() -> &'a Vec<u64>,
    ) -> Vec<Values> {
        if let [column] = &mut columns[..]
            && let Some(pieces) = column.pieces(rows)
        {
            return vec![Values { key, kind: column.kind, pieces, numbers: std::mem::take(&mut column.numbers) }];
        }
        let mut all: Vec<Values> = columns.iter().map(|column| Values::new(&key, column.kind)).collect();
        for rows in by_rank().chunk_by(|a, b| a >> 32 == b >> 32) {
            let said =
                |row: &u64| columns.iter().zip(0..).find_map(|(column, nth)| Some((nth, column.get(*row as u32)?)));
            if let Some((nth, number)) = rows.iter().rev().find_map(said) {
                let values: &mut Values = &mut all[nth];
                values.push((rows[0] >> 32) as u32, number);
            }
        }
        all.retain(|values| !values.pieces.is_empty());
        all
    }

    /// The names of nodes as strings.
    pub(super) fn spelled(self, nodes: &Nodes, strings: &mut Interner) -> Self {
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

    pub(in crate::store) fn iter(&self) -> ByRank<'_> {
        ByRank { values: self, piece: 0, rank: 0, end: 0, at: 0 }
    }

    /// The values without those that `drop` agrees to.
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
    /// The rest of this piece: the next rank, and the end.
    rank: u32,
    end: u32,
    /// The place of the next number.
    at: usize,
}

impl ByRank<'_> {
    /// The value of a rank; those in front of it are passed over.
    #[inline]
    pub(in crate::store) fn of(&mut self, rank: u32) -> Option<u64> {
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
