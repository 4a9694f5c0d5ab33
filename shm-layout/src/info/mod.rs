//! An info segment: one generation of a job's information, complete before it is published and frozen from then on.
//!
//! Values that follow from where processes run are computed when they are read: the segment says by which rule ranks
//! are parted among nodes and applications ([`partition`]) and how nodes are called ([`names`]). Information that was
//! given besides lies in columns where many ranks have a key ([`mod@column`]), and in records where few have.
//!
//! ```text
//! word  0   header
//!       8   processes of the job | ranks
//!       9   nodes | applications
//!      10   sessions | index of the own node (all ones: unknown)
//!      11   word of the job's record | word of the own node's record (0: none)
//!      12   bytes that a process reads first, from the beginning of the segment
//!      13   table of keys
//!      14   columns
//!      15   strings: cells of word | bytes; a NULL has no bytes
//!      16   word of the rows of own processes | how many
//!      17   bits of such a row | rank of the job's first process in the session
//!      18   ranks parted among nodes (3 words)
//!      21   ranks parted among applications (3 words)
//!      24   series of names
//!      25   names, sorted; leads to series
//!      26   other names of nodes by hash, sorted; leads to nodes
//!      27   records of nodes, of applications, of sessions, of processes, sorted by index or rank (4 words)
//!      31   nodes, applications, sessions by number, sorted (3 words)
//!      34   numbers of nodes, applications, sessions, 32 bits each (3 words); none: the number is the index
//!      37   areas without checksums of their own: cells of word | words, and CRC-32C | CRC-32C of cell and place
//!      38   texts that are computed: three times type (16 bits), form (8 bits), 1 | 0, and bytes
//!      44   CRC-32C of words 8 to 43
//! ```
//!
//! A line without a bar is `word | entries` of a table. Words that a process reads first lie together, in front: keys,
//! job, its session, its application, its node, its own row, record and strings.
mod build;
pub mod column;
pub mod decimal;
pub mod names;
pub mod packed;
pub mod partition;
pub mod sorted;

pub use build::{Built, Contents, GroupBuild, KeysAt, RecordBuild, SharedKeys, build};
pub use column::{Column, ColumnBuild, KeyEntry, KeyTable, Row};
pub use names::{Name, NameRun, Names};
pub use partition::{Neighbours, Partition, PartitionBuild, Room};
pub use sorted::Sorted;

use crate::sync::Ordering;
use crate::words::{Words, WordsMut};
use crate::{Malformed, crc, high, low, pair};

const HEAD: usize = 8;
const START: usize = 45;
/// "No such index".
pub const NONE: u32 = u32::MAX;

/// The place of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// The first word of the table.
    pub at: usize,
    /// Entries.
    pub len: u32,
}

impl Part {
    fn of(word: u64) -> Self {
        Self { at: low(word) as usize, len: high(word) }
    }

    fn word(self) -> u64 {
        pair(self.at as u32, self.len)
    }

    /// The word of an entry of `words` words.
    #[inline]
    fn at(&self, index: u32, words: usize) -> Result<usize, Malformed> {
        match index < self.len {
            true => Ok(self.at + index as usize * words),
            false => Err(Malformed::bounds(self.at + index as usize * words)),
        }
    }
}

/// Kinds of records that have a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Places(pub u16);

impl Places {
    /// Records and columns of processes.
    pub const PROCESSES: Self = Self(1);
    /// Records of nodes.
    pub const NODES: Self = Self(2);
    /// Records of applications.
    pub const APPS: Self = Self(4);
    /// Records of sessions.
    pub const SESSIONS: Self = Self(8);
    /// The job's.
    pub const JOB: Self = Self(16);
    /// The own node's; other nodes' are [`Self::NODES`].
    pub const OWN_NODE: Self = Self(32);

    /// The union of both.
    #[inline]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether `other`, or any of several, is among these places.
    #[inline]
    pub fn has(self, place: Self) -> bool {
        self.0 & place.0 != 0
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

/// A text that is computed when it is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextForm {
    /// The type of the value.
    pub data_type: u16,
    /// The form in which it is written; its meaning is the caller's.
    pub form: u8,
    /// Bytes.
    pub len: u64,
}

/// The head of an info segment, checked once and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    size: u32,
    ranks: u32,
    count: [u32; 3],
    own_node: u32,
    job_word: u32,
    own_node_word: u32,
    front: usize,
    /// The table of keys.
    pub keys: KeyTable,
    columns: Part,
    strings: Part,
    rows: Part,
    row_bits: u32,
    offset: u32,
    /// Ranks by node.
    pub nodes: Partition,
    /// Ranks by application.
    pub apps: Partition,
    /// Names of nodes.
    pub names: Names,
    aliases: Sorted,
    records: [Sorted; 4],
    by_number: [Sorted; 3],
    numbers: [Part; 3],
    areas: Part,
    texts: [Option<TextForm>; 3],
}

impl Index {
    /// Reads and checks the head, the table of keys and what is said of columns.
    ///
    /// # Errors
    /// [`Malformed`] when it is not what the writer wrote; of the table of keys only when it does not lie there.
    pub fn read<W: Words>(words: &W) -> Result<Self, Malformed> {
        let mut w = [0; START];
        for (at, word) in w.iter_mut().enumerate().skip(HEAD) {
            *word = words.load(at)?;
        }
        if w[START - 1] != u64::from(crc::of(&w[HEAD..START - 1])) {
            return Err(Malformed::Checksum);
        }
        let sorted = |at: usize| Sorted(Part::of(w[at]));
        let text = |at: usize| {
            let form = TextForm { data_type: w[at] as u16, form: (w[at] >> 16) as u8, len: w[at + 1] };
            (w[at] >> 24 & 1 != 0).then_some(form)
        };
        let index = Self {
            size: low(w[8]),
            ranks: high(w[8]),
            count: [low(w[9]), high(w[9]), low(w[10])],
            own_node: high(w[10]),
            job_word: low(w[11]),
            own_node_word: high(w[11]),
            front: w[12] as usize,
            keys: KeyTable::read(words, Part::of(w[13]))?,
            columns: Part::of(w[14]),
            strings: Part::of(w[15]),
            rows: Part::of(w[16]),
            row_bits: low(w[17]),
            offset: high(w[17]),
            nodes: Partition::of_head([w[18], w[19], w[20]]),
            apps: Partition::of_head([w[21], w[22], w[23]]),
            names: Names { series: Part::of(w[24]), index: sorted(25) },
            aliases: sorted(26),
            records: [sorted(27), sorted(28), sorted(29), sorted(30)],
            by_number: [sorted(31), sorted(32), sorted(33)],
            numbers: [Part::of(w[34]), Part::of(w[35]), Part::of(w[36])],
            areas: Part::of(w[37]),
            texts: [text(38), text(40), text(42)],
        };
        Column::check_all(words, index.columns)?;
        Ok(index)
    }

    fn write<W: WordsMut>(&self, words: &W) {
        let mut w = [0; START];
        w[8] = pair(self.size, self.ranks);
        w[9] = pair(self.count[0], self.count[1]);
        w[10] = pair(self.count[2], self.own_node);
        w[11] = pair(self.job_word, self.own_node_word);
        w[12] = self.front as u64;
        w[13] = self.keys.part.word();
        w[14] = self.columns.word();
        w[15] = self.strings.word();
        w[16] = self.rows.word();
        w[17] = pair(self.row_bits, self.offset);
        w[18..21].copy_from_slice(&self.nodes.head());
        w[21..24].copy_from_slice(&self.apps.head());
        w[24] = self.names.series.word();
        w[25] = self.names.index.0.word();
        w[26] = self.aliases.0.word();
        for (at, sorted) in (27..).zip(self.records.iter().chain(&self.by_number)) {
            w[at] = sorted.0.word();
        }
        for (at, part) in (34..).zip(self.numbers) {
            w[at] = part.word();
        }
        w[37] = self.areas.word();
        for (at, text) in (38..).step_by(2).zip(self.texts) {
            let Some(text) = text else { continue };
            w[at] = u64::from(text.data_type) | u64::from(text.form) << 16 | 1 << 24;
            w[at + 1] = text.len;
        }
        w[START - 1] = u64::from(crc::of(&w[HEAD..START - 1]));
        for (at, word) in w.into_iter().enumerate().skip(HEAD) {
            words.store(at, word, Ordering::Relaxed);
        }
    }

    /// Processes of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Ranks that there is room for.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Rank of the job's first process in the session.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Nodes, applications or sessions.
    #[inline]
    pub fn count(&self, group: Group) -> u32 {
        self.count[group as usize]
    }

    /// Index of the node that the segment was made on, or [`NONE`].
    #[inline]
    pub fn own_node(&self) -> u32 {
        self.own_node
    }

    /// Bytes from the beginning of the segment that a process reads first.
    pub fn front(&self) -> usize {
        self.front
    }

    /// The word of the job's record.
    #[inline]
    pub fn job_word(&self) -> u32 {
        self.job_word
    }

    /// The word of the own node's record.
    #[inline]
    pub fn own_node_word(&self) -> Option<u32> {
        (self.own_node_word != 0).then_some(self.own_node_word)
    }

    /// Records of nodes, applications or sessions.
    #[inline]
    pub fn records(&self, group: Group) -> Sorted {
        self.records[group as usize]
    }

    /// Records of processes.
    #[inline]
    pub fn process_records(&self) -> Sorted {
        self.records[3]
    }

    /// A text that is computed: 0 the list of nodes, 1 the node map, 2 the process map.
    #[inline]
    pub fn text(&self, which: usize) -> Option<TextForm> {
        self.texts[which]
    }

    /// The number of a node, application or session.
    ///
    /// # Errors
    /// [`Malformed`] when the numbers lead out of the segment.
    #[inline]
    pub fn number<W: Words>(&self, words: &W, group: Group, index: u32) -> Result<Option<u32>, Malformed> {
        let part = self.numbers[group as usize];
        if index >= self.count(group) {
            return Ok(None);
        }
        match part.len {
            0 => Ok(Some(index)),
            len if index < len => Ok(Some(packed::nth(words, part.at, index, 32)? as u32)),
            _ => Err(Malformed::Table),
        }
    }

    /// The index of a node, application or session with a number.
    ///
    /// # Errors
    /// [`Malformed`] when the table is damaged.
    pub fn by_number<W: Words>(&self, words: &W, group: Group, number: u32) -> Result<Option<u32>, Malformed> {
        match self.numbers[group as usize].len {
            0 => Ok((number < self.count(group)).then_some(number)),
            _ => Ok(self.by_number[group as usize].find(words, number.into())?),
        }
    }

    /// The node with another name that `has_it` agrees to.
    ///
    /// # Errors
    /// [`Malformed`] when the table is damaged.
    pub fn by_alias<W: Words>(
        &self,
        words: &W,
        alias: &[u8],
        has_it: impl FnMut(u32) -> Result<bool, Malformed>,
    ) -> Result<Option<u32>, Malformed> {
        self.aliases.find_where(words, crate::hash::hash(alias), has_it)
    }

    /// A column.
    ///
    /// # Errors
    /// [`Malformed`] when it is damaged or not there.
    #[inline]
    pub fn column<W: Words>(&self, words: &W, index: u32) -> Result<Column, Malformed> {
        Column::read(words, self.columns, index)
    }

    /// Columns.
    pub fn columns(&self) -> u32 {
        self.columns.len
    }

    /// The row of an own process, by its place on the node.
    #[inline]
    pub fn row(&self, place: u32) -> Option<Row> {
        (place < self.rows.len).then(|| Row { at: self.rows.at, bit: u64::from(place) * u64::from(self.row_bits) })
    }

    /// Bytes of the segment in which that row lies: where it begins, and how many.
    pub fn row_bytes(&self, place: u32) -> Option<(usize, usize)> {
        let row = self.row(place)?;
        Some((row.at * 8 + (row.bit / 8) as usize, self.row_bits.div_ceil(8) as usize + 8))
    }

    /// A string: its word and its bytes; no bytes of a NULL.
    ///
    /// # Errors
    /// [`Malformed`] when it is not there.
    #[inline]
    pub fn string<W: Words>(&self, words: &W, index: u64) -> Result<(usize, usize), Malformed> {
        let index = u32::try_from(index).map_err(|_| Malformed::Table)?;
        let cell = words.load(self.strings.at(index, 1)?)?;
        let (at, len) = (low(cell) as usize, high(cell) as usize);
        crate::words::check(words.len(), at, len)?;
        Ok((at, len))
    }

    /// Looks at the checksums of what has none that is looked at when it is read: columns, and placements without a
    /// rule. Says, too, if something else was found damaged that costs only some keys.
    ///
    /// # Errors
    /// [`Malformed`] when one of them is wrong.
    pub fn verify<W: Words>(&self, words: &W) -> Result<(), Malformed> {
        self.keys.verify()?;
        for place in 0..self.areas.len {
            let at = self.areas.at(place, 2)?;
            let (area, sums) = (words.load(at)?, words.load(at + 1)?);
            if high(sums) != crc::of(&[area, pair(low(sums), place)]) {
                return Err(Malformed::Checksum);
            }
            let mut sum = crc::Crc::new();
            sum.words(words, low(area) as usize, high(area) as usize)?;
            if sum.value() != low(sums) {
                return Err(Malformed::Checksum);
            }
        }
        Ok(())
    }
}
