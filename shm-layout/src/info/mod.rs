//! An info segment: one generation of a job's information, complete before it is published and frozen from then on.
//!
//! ```text
//! word  0   header
//!       8   processes of the job | rows
//!       9   nodes | applications
//!      10   sessions | index of the own node (all ones: unknown)
//!      11   word of the rows | word of the node cells
//!      12   word of the application cells | word of the session cells
//!      13   word of the job's record | binary logarithm of the slots of the three indexes below (8 bits each)
//!      14   words of the indexes: nodes by number | nodes by name
//!      15   applications by number | sessions by number
//!      16   CRC-32C of words 8 to 15
//!
//! row (a rank)  0   word of the rank's own record (0: none) | which of the derived values hold ([`given`])
//!               1   index of its node | index of its application (all ones: unknown)
//!               2   rank in the application | rank in the session
//!               3   rank on the node in this job (16 bits), in all jobs (16 bits) | CRC-32C of the other 28 bytes and the rank
//!
//! cell (a node, an application, a session)
//!               0   word of its record | its number
//!               1   index among the cells | CRC-32C of word 0 and the index
//! ```
//!
//! An index is an open-addressing table of words: 1 + index of the cell | high half of the hash of the name or number. What
//! most ranks have in common is in the row, so that a rank without peculiarities costs 32 bytes.
mod build;

pub use build::{Contents, Member, SharedKeys, build};

use crate::sync::Ordering;
use crate::words::{Words, WordsMut};
use crate::{Malformed, crc, hash, high, low, pair};

const HEAD: usize = 8;
const START: usize = 17;
const ROW: usize = 4;
const CELL: usize = 2;
/// "No such index".
pub const NONE: u32 = u32::MAX;

/// Bits that say which derived values of a row hold.
pub mod given {
    /// Rank on the node in this job.
    pub const LOCAL_RANK: u32 = 1;
    /// Rank on the node in all jobs.
    pub const NODE_RANK: u32 = 2;
    /// Rank in the application.
    pub const APP_RANK: u32 = 4;
    /// Rank in the session.
    pub const GLOBAL_RANK: u32 = 8;
}

/// What is known of every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The word of the rank's own record, 0 if it has none.
    pub record: u32,
    /// [`given`].
    pub given: u32,
    /// Index of its node, or [`NONE`].
    pub node: u32,
    /// Index of its application, or [`NONE`].
    pub app: u32,
    /// Rank in the application.
    pub app_rank: u32,
    /// Rank in the session.
    pub global_rank: u32,
    /// Rank on the node in this job.
    pub local_rank: u16,
    /// Rank on the node in all jobs.
    pub node_rank: u16,
}

impl Default for Row {
    fn default() -> Self {
        Self { record: 0, given: 0, node: NONE, app: NONE, app_rank: 0, global_rank: 0, local_rank: 0, node_rank: 0 }
    }
}

impl Row {
    fn encode(&self, rank: u32) -> [u64; ROW] {
        let ranks = u32::from(self.local_rank) | u32::from(self.node_rank) << 16;
        let mut words = [
            pair(self.record, self.given),
            pair(self.node, self.app),
            pair(self.app_rank, self.global_rank),
            pair(ranks, rank),
        ];
        words[3] = pair(ranks, crc::of(&words));
        words
    }

    fn check(mut words: [u64; ROW], rank: u32) -> Result<(), Malformed> {
        let (ranks, sum) = (low(words[3]), high(words[3]));
        words[3] = pair(ranks, rank);
        if crc::of(&words) == sum { Ok(()) } else { Err(Malformed::Checksum) }
    }

    #[inline]
    fn decode(words: [u64; ROW]) -> Self {
        let ranks = low(words[3]);
        Self {
            record: low(words[0]),
            given: high(words[0]),
            node: low(words[1]),
            app: high(words[1]),
            app_rank: low(words[2]),
            global_rank: high(words[2]),
            local_rank: ranks as u16,
            node_rank: (ranks >> 16) as u16,
        }
    }
}

/// A group of things that have numbers and records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Nodes.
    Nodes,
    /// Applications.
    Apps,
    /// Sessions.
    Sessions,
}

/// The head of an info segment, checked once and kept.
#[derive(Debug, Clone, Copy)]
pub struct Index {
    size: u32,
    rows: u32,
    count: [u32; 3],
    own_node: u32,
    rows_word: usize,
    cells_word: [usize; 3],
    job_word: usize,
    slots: [u32; 3],
    by_number: [usize; 3],
    by_name: usize,
}

impl Index {
    /// Reads and checks the head.
    ///
    /// # Errors
    /// [`Malformed`] when it is not what the writer wrote.
    pub fn read<W: Words>(words: &W) -> Result<Self, Malformed> {
        let mut head = [0; START - HEAD];
        for (i, word) in head.iter_mut().enumerate() {
            *word = words.load(HEAD + i)?;
        }
        let [a, b, c, d, e, f, g, h, sum] = head;
        if sum != u64::from(crc::of(&head[..8])) {
            return Err(Malformed::Checksum);
        }
        let logs = high(f);
        Ok(Self {
            size: low(a),
            rows: high(a),
            count: [low(b), high(b), low(c)],
            own_node: high(c),
            rows_word: low(d) as usize,
            cells_word: [high(d) as usize, low(e) as usize, high(e) as usize],
            job_word: low(f) as usize,
            slots: [logs & 0xff, (logs >> 8) & 0xff, (logs >> 16) & 0xff],
            by_number: [low(g) as usize, low(h) as usize, high(h) as usize],
            by_name: high(g) as usize,
        })
    }

    fn write<W: WordsMut>(&self, words: &W) {
        let head = [
            pair(self.size, self.rows),
            pair(self.count[0], self.count[1]),
            pair(self.count[2], self.own_node),
            pair(self.rows_word as u32, self.cells_word[0] as u32),
            pair(self.cells_word[1] as u32, self.cells_word[2] as u32),
            pair(self.job_word as u32, self.slots[0] | self.slots[1] << 8 | self.slots[2] << 16),
            pair(self.by_number[0] as u32, self.by_name as u32),
            pair(self.by_number[1] as u32, self.by_number[2] as u32),
        ];
        for (i, word) in head.into_iter().enumerate() {
            words.store(HEAD + i, word, Ordering::Relaxed);
        }
        words.store(START - 1, u64::from(crc::of(&head)), Ordering::Relaxed);
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Ranks that have a row.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Nodes, applications or sessions.
    pub fn count(&self, group: Group) -> u32 {
        self.count[group as usize]
    }

    /// Index of the node that the segment was made on, or [`NONE`].
    pub fn own_node(&self) -> u32 {
        self.own_node
    }

    /// The row of a rank. Its checksum is looked at unless it was `seen` to be right before.
    ///
    /// # Errors
    /// [`Malformed`] when its checksum is wrong.
    #[inline]
    pub fn row<W: Words>(&self, words: &W, rank: u32, seen: bool) -> Result<Option<Row>, Malformed> {
        if rank >= self.rows {
            return Ok(None);
        }
        let at = self.rows_word + rank as usize * ROW;
        let row = [words.load(at)?, words.load(at + 1)?, words.load(at + 2)?, words.load(at + 3)?];
        if !seen {
            Row::check(row, rank)?;
        }
        Ok(Some(Row::decode(row)))
    }

    /// The word of a record and the number of a node, application or session by its index. Their checksum is looked at
    /// unless it was `seen` to be right before.
    ///
    /// # Errors
    /// [`Malformed`] when its checksum is wrong.
    #[inline]
    pub fn cell<W: Words>(
        &self,
        words: &W,
        group: Group,
        index: u32,
        seen: bool,
    ) -> Result<Option<(usize, u32)>, Malformed> {
        if index >= self.count[group as usize] {
            return Ok(None);
        }
        let at = self.cells_word[group as usize] + index as usize * CELL;
        let (cell, check) = (words.load(at)?, words.load(at + 1)?);
        if !seen && (low(check) != index || high(check) != crc::of(&[cell, u64::from(index)])) {
            return Err(Malformed::Checksum);
        }
        Ok(Some((low(cell) as usize, high(cell))))
    }

    /// The index of a node, application or session with a number.
    ///
    /// # Errors
    /// [`Malformed`] when an index leads out of the segment or a cell is damaged.
    pub fn by_number<W: Words>(&self, words: &W, group: Group, number: u32) -> Result<Option<u32>, Malformed> {
        let table = (self.by_number[group as usize], self.slots[group as usize]);
        probe(words, table, hash_number(number), |index| {
            Ok(self.cell(words, group, index, false)?.is_some_and(|(_, found)| found == number))
        })
    }

    /// The index of the node with a name; `is_name` decides about the record of a candidate.
    ///
    /// # Errors
    /// [`Malformed`] when an index leads out of the segment or a cell is damaged.
    pub fn by_name<W: Words>(
        &self,
        words: &W,
        name: &[u8],
        is_name: impl FnMut(u32) -> Result<bool, Malformed>,
    ) -> Result<Option<u32>, Malformed> {
        probe(words, (self.by_name, self.slots[Group::Nodes as usize]), hash::hash(name), is_name)
    }

    /// The word of the job's record.
    pub fn job_word(&self) -> usize {
        self.job_word
    }
}

fn hash_number(number: u32) -> u64 {
    hash::hash(&number.to_le_bytes())
}

fn probe<W: Words>(
    words: &W,
    (at, log): (usize, u32),
    hash: u64,
    mut matches: impl FnMut(u32) -> Result<bool, Malformed>,
) -> Result<Option<u32>, Malformed> {
    let slots = 1usize.checked_shl(log).filter(|n| *n <= words.len()).ok_or(Malformed::Table)?;
    let mut slot = hash as usize & (slots - 1);
    for _ in 0..slots {
        let word = words.load(at.saturating_add(slot))?;
        match low(word) {
            0 => return Ok(None),
            index if high(word) == high(hash) && matches(index - 1)? => return Ok(Some(index - 1)),
            _ => slot = (slot + 1) & (slots - 1),
        }
    }
    Ok(None)
}
