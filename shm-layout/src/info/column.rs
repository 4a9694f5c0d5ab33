//! Columns: one value of one type for each of many ranks.
//!
//! ```text
//! column 0   data type (16 bits), bits of a number (8 bits), flags (8 bits) | next column of the same key, counted from 1; 0: none
//!        1   first rank | ranks
//!        2   base
//!        3   step
//!        4   word of the numbers | bit of this column in the row of an own process
//!        5   CRC-32C of words 0 to 4 and the index | 0
//! ```
//!
//! The value of the n-th rank is `base + n * step + number`, so that a constant and a sequence take no numbers at all.
//! With [`HOLES`], 0 says that the rank has none and other numbers are one too large. With [`STRINGS`], the value is
//! the index of a string. Numbers have no checksum that is looked at when they are read: one that is damaged yields
//! another value.
use super::packed::{self, Filler, bits_for, words_for};
use super::{Part, Places};
use crate::key::HashedKey;
use crate::words::{Plain, Words};
use crate::{Malformed, crc, high, low, pair};

/// Words of a column's description.
pub(super) const WORDS: usize = 6;
/// Not every rank has a value.
pub const HOLES: u8 = 1;
/// Values are indexes of strings.
pub const STRINGS: u8 = 2;

/// The description of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The type of all its values.
    pub data_type: u16,
    /// [`HOLES`], [`STRINGS`].
    pub flags: u8,
    bits: u32,
    next: u32,
    first: u32,
    count: u32,
    base: u64,
    step: u64,
    numbers: usize,
    row_bit: u32,
}

impl Column {
    /// A column by its index; its checksum is for [`Index::read`](super::Index::read) to look at.
    ///
    /// # Errors
    /// [`Malformed`] when it makes no sense or is not there.
    #[inline]
    pub fn read<W: Words>(words: &W, columns: Part, index: u32) -> Result<Self, Malformed> {
        let at = columns.at(index, WORDS)?;
        let w = words.load_all::<WORDS>(at)?;
        let kind = low(w[0]);
        let bits = kind >> 16 & 0xff;
        if bits > 64 {
            return Err(Malformed::Table);
        }
        Ok(Self {
            data_type: kind as u16,
            flags: (kind >> 24) as u8,
            bits,
            next: high(w[0]),
            first: low(w[1]),
            count: high(w[1]),
            base: w[2],
            step: w[3],
            numbers: low(w[4]) as usize,
            row_bit: high(w[4]),
        })
    }

    /// Looks at the checksum of every description.
    pub(super) fn check_all<W: Words>(words: &W, columns: Part) -> Result<(), Malformed> {
        (0..columns.len).try_for_each(|index| {
            let w = words.load_all::<WORDS>(columns.at(index, WORDS)?)?;
            crc::expect(checksum(&w, index).into(), w[5])
        })
    }

    /// Index of the next column of the same key.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        self.next.checked_sub(1)
    }

    /// The value of a rank, from the column.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when the column leads out of the segment.
    #[inline]
    pub fn value<W: Words>(&self, words: &W, rank: u32) -> Result<Option<u64>, Malformed> {
        let Some(n) = rank.checked_sub(self.first).filter(|n| *n < self.count) else { return Ok(None) };
        Ok(self.of_number(n, packed::nth(words, self.numbers, n, self.bits)?))
    }

    /// The value of a rank, from its row.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when the row leads out of the segment.
    #[inline]
    pub fn value_in_row<W: Words>(&self, words: &W, row: Row, rank: u32) -> Result<Option<u64>, Malformed> {
        let Some(n) = rank.checked_sub(self.first).filter(|n| *n < self.count) else { return Ok(None) };
        Ok(self.of_number(n, packed::bits_at(words, row.at, row.bit + u64::from(self.row_bit), self.bits)?))
    }

    #[inline]
    fn of_number(&self, n: u32, number: u64) -> Option<u64> {
        let number = match self.flags & HOLES {
            0 => number,
            _ => number.checked_sub(1)?,
        };
        Some(self.base.wrapping_add(self.step.wrapping_mul(u64::from(n))).wrapping_add(number))
    }
}

/// The row of one own process: its numbers of all columns, next to one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The word of all rows.
    pub at: usize,
    /// The bit where this one begins.
    pub bit: u64,
}

/// A column under construction.
#[derive(Debug, Clone)]
pub struct ColumnBuild {
    /// The word of its key is this key's.
    pub key: Vec<u8>,
    /// The type of all its values.
    pub data_type: u16,
    flags: u8,
    bits: u32,
    first: u32,
    count: u32,
    base: u64,
    step: u64,
    numbers: Vec<u64>,
}

impl ColumnBuild {
    /// A column of values, in the order of their ranks, which are pieces `(first, count)` that do not touch; `value`
    /// has each by its place.
    ///
    /// `None` when there are holes and the values spread over all that 64 bits can tell apart.
    pub fn new(
        key: &[u8],
        data_type: u16,
        strings: bool,
        pieces: &[(u32, u32)],
        value: impl Fn(usize) -> u64,
    ) -> Option<Self> {
        let first = pieces.first().map_or(0, |piece| piece.0);
        let count = pieces.last().map_or(0, |piece| piece.0 + piece.1 - first);
        let values = || {
            let begins = pieces.iter().scan(0, |at, (_, len)| {
                *at += *len as usize;
                Some(*at - *len as usize)
            });
            let value = &value;
            pieces.iter().zip(begins).flat_map(move |((rank, len), at)| {
                (rank - first..rank - first + len).zip(at..).map(move |(n, at)| (n, value(at)))
            })
        };
        let holes = pieces.len() > 1;
        let on_line = line(values());
        let (base, step, most) = match on_line {
            Some((base, step)) => (base, step, 0),
            None => {
                let least_and_most =
                    |(least, most): (u64, u64), (_, value): (u32, u64)| (value.min(least), value.max(most));
                let (least, most) = values().fold((u64::MAX, 0), least_and_most);
                (least, 0, most - least)
            }
        };
        let extra = u64::from(holes);
        let bits = bits_for(most.checked_add(extra)?);
        let mut numbers = vec![0; words_for(count.into(), bits) as usize];
        if bits > 0 {
            let (mut filler, mut next) = (Filler::new(&mut numbers), 0);
            values().for_each(|(n, value)| {
                if n != next {
                    filler.seek(u64::from(n) * u64::from(bits));
                }
                filler.push(if on_line.is_some() { 0 } else { value - base } + extra, bits);
                next = n + 1;
            });
            filler.finish();
        }
        let flags = if holes { HOLES } else { 0 } | if strings { STRINGS } else { 0 };
        Some(Self { key: key.to_vec(), data_type, flags, bits, first, count, base, step, numbers })
    }

    /// Bytes that the numbers take.
    pub fn bytes(&self) -> usize {
        self.numbers.len() * 8
    }

    /// Bits of each number.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The number of a rank, 0 if there is none.
    pub(super) fn number(&self, rank: u32) -> u64 {
        let n = rank.checked_sub(self.first).filter(|n| *n < self.count);
        n.and_then(|n| packed::nth(&Plain(&self.numbers), 0, n, self.bits).ok()).unwrap_or(0)
    }

    pub(super) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    pub(super) fn describe(&self, index: u32, next: u32, numbers: usize, row_bit: u32) -> [u64; WORDS] {
        let kind = u32::from(self.data_type) | self.bits << 16 | u32::from(self.flags) << 24;
        let mut words =
            [pair(kind, next), pair(self.first, self.count), self.base, self.step, pair(numbers as u32, row_bit), 0];
        words[5] = u64::from(checksum(&words, index));
        words
    }
}

/// Base and step of values that lie on a line.
fn line(mut places: impl Iterator<Item = (u32, u64)>) -> Option<(u64, u64)> {
    let Some((_, base)) = places.next() else { return Some((0, 0)) };
    let Some((n, second)) = places.next() else { return Some((base, 0)) };
    // The first place is 0; a step is only sought where the second follows it.
    let step = if n == 1 { second.wrapping_sub(base) } else { 0 };
    let on_line = |(n, value): (u32, u64)| value == base.wrapping_add(step.wrapping_mul(u64::from(n)));
    (on_line((n, second)) && places.all(on_line)).then_some((base, step))
}

fn checksum(words: &[u64; WORDS], index: u32) -> u32 {
    crc::of(&[words[0], words[1], words[2], words[3], words[4], u64::from(index)])
}

/// An entry of the table of keys: where a key can be found at all.
///
/// ```text
/// slot   0   hash of the key; 0: the slot is empty
///        1   word of the key | bytes of the key (16 bits), places (16 bits)
///        2   first column of the key, counted from 1; 0: none | CRC-32C of words 0 and 1, column and slot, and the key
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyEntry {
    /// Records that have the key.
    pub places: Places,
    /// The word of the key, which all records share.
    pub word: usize,
    column: u32,
}

impl KeyEntry {
    /// Words of a slot.
    pub(super) const WORDS: usize = 3;

    /// A key that is nowhere.
    pub const NOWHERE: Self = Self { places: Places(0), word: 0, column: 0 };

    #[inline]
    fn of(slot: [u64; Self::WORDS]) -> Self {
        Self { places: Places((high(slot[1]) >> 16) as u16), word: low(slot[1]) as usize, column: low(slot[2]) }
    }

    /// Index of the first column.
    #[inline]
    pub fn column(&self) -> Option<u32> {
        self.column.checked_sub(1)
    }
}

/// The table of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTable {
    /// The slots, as many as a power of two.
    pub part: Part,
    /// A bit for some bits of the hash of each key: most keys that processes post are not here, and nothing has to be
    /// read to say so. Hints of keys; a table with damage has none, because nothing is taken on trust there.
    hints: [u64; 8],
    /// True if the checksum of some slot is wrong.
    damaged: bool,
}

impl KeyTable {
    /// The table that lies there, with the checksum of every slot looked at: nothing that is found in it has one looked
    /// at again, unless there is a wrong one. That costs the keys that may be in its slot, or were pushed on by it; no
    /// others.
    pub(super) fn read<W: Words>(words: &W, part: Part) -> Result<Self, Malformed> {
        if !part.len.is_power_of_two() {
            return Err(Malformed::Table);
        }
        let mut table = Self::unread(part);
        for slot in 0..part.len {
            let w = table.slot(words, slot)?;
            if check_slot(words, &w, slot).is_err() {
                table.damaged = true;
            } else if w[0] != 0 {
                let (word, bit) = hint(w[0]);
                table.hints[word] |= bit;
            }
        }
        if table.damaged {
            table.hints = [0; 8];
        }
        Ok(table)
    }

    /// A table that is being written.
    pub(super) fn unread(part: Part) -> Self {
        Self { part, hints: [0; 8], damaged: false }
    }

    /// Checks that the checksum of every slot is right.
    ///
    /// # Errors
    /// [`Malformed::Checksum`] when one is not.
    pub(super) fn verify(&self) -> Result<(), Malformed> {
        if self.damaged { Err(Malformed::Checksum) } else { Ok(()) }
    }

    /// Returns whether the table can have a key at all, as far as the hints tell.
    #[inline(always)]
    pub fn may_have(&self, key: &HashedKey<'_>) -> bool {
        self.is_hinted_at(key) || self.damaged
    }

    #[inline(always)]
    fn is_hinted_at(&self, key: &HashedKey<'_>) -> bool {
        let (word, bit) = hint(key.hash());
        self.hints[word] & bit != 0
    }

    /// Looks a key up.
    ///
    /// # Errors
    /// [`Malformed`] when the table is damaged.
    #[inline(always)]
    pub fn find<W: Words>(&self, words: &W, key: &HashedKey<'_>) -> Result<KeyEntry, Malformed> {
        if !self.is_hinted_at(key) {
            return if self.damaged { self.find_among_damage(words, key) } else { Ok(KeyEntry::NOWHERE) };
        }
        self.find_by(words, key, |_| Ok(()))
    }

    /// Looks a key up where every slot on the way is checked.
    #[cold]
    fn find_among_damage<W: Words>(&self, words: &W, key: &HashedKey<'_>) -> Result<KeyEntry, Malformed> {
        self.find_by(words, key, |slot| check_slot(words, &self.slot(words, slot)?, slot))
    }

    #[inline(always)]
    fn find_by<W: Words>(
        &self,
        words: &W,
        key: &HashedKey<'_>,
        check: impl Fn(u32) -> Result<(), Malformed>,
    ) -> Result<KeyEntry, Malformed> {
        let mask = self.part.len.wrapping_sub(1);
        let mut slot = key.hash() as u32 & mask;
        for _ in 0..self.part.len {
            let hash = words.load(self.part.at(slot, KeyEntry::WORDS)?)?;
            check(slot)?;
            if hash == key.hash() {
                let w = self.slot(words, slot)?;
                let entry = KeyEntry::of(w);
                if key.is_at(words, entry.word, usize::from(high(w[1]) as u16))? {
                    return Ok(entry);
                }
            } else if hash == 0 {
                break;
            }
            slot = (slot + 1) & mask;
        }
        Ok(KeyEntry::NOWHERE)
    }

    /// The key in a slot: its word and its bytes.
    ///
    /// # Errors
    /// [`Malformed`] when the table is damaged.
    pub fn key<W: Words>(&self, words: &W, slot: u32) -> Result<Option<(usize, usize)>, Malformed> {
        let w = self.slot(words, slot)?;
        if self.damaged {
            check_slot(words, &w, slot)?;
        }
        Ok((w[0] != 0).then_some((low(w[1]) as usize, usize::from(high(w[1]) as u16))))
    }

    #[inline(always)]
    fn slot<W: Words>(&self, words: &W, slot: u32) -> Result<[u64; KeyEntry::WORDS], Malformed> {
        words.load_all(self.part.at(slot, KeyEntry::WORDS)?)
    }

    /// The words of a table of these keys, which lie in `words`: hash, word, bytes, places, first column.
    pub(super) fn build(words: &[u64], keys: &[(u64, usize, usize, Places, u32)]) -> Vec<u64> {
        let slots = (keys.len() + keys.len() / 3 + 1).next_power_of_two();
        let mut table = vec![[0u64; 3]; slots];
        for (hash, word, len, places, column) in keys {
            let mut slot = *hash as usize & (slots - 1);
            while table[slot][0] != 0 {
                slot = (slot + 1) & (slots - 1);
            }
            table[slot] = [*hash, pair(*word as u32, *len as u32 | u32::from(places.0) << 16), u64::from(*column)];
        }
        for (slot, w) in (0u32..).zip(&mut table) {
            let sum = slot_checksum(&Plain(words), w[0], w[1], low(w[2]), slot).expect("keys are within the words");
            w[2] = pair(low(w[2]), sum);
        }
        table.into_flattened()
    }
}

/// The bit of a hash among the hints, by bits that no slot depends on.
#[inline(always)]
const fn hint(hash: u64) -> (usize, u64) {
    ((hash >> 61) as usize, 1 << (hash >> 55 & 63))
}

fn check_slot<W: Words>(words: &W, w: &[u64; KeyEntry::WORDS], slot: u32) -> Result<(), Malformed> {
    crc::expect(slot_checksum(words, w[0], w[1], low(w[2]), slot)?.into(), high(w[2]).into())
}

fn slot_checksum<W: Words>(words: &W, hash: u64, key: u64, column: u32, slot: u32) -> Result<u32, Malformed> {
    let mut sum = crc::Crc::new();
    sum.slice(&[hash, key, pair(column, slot)]);
    sum.words(words, low(key) as usize, usize::from(high(key) as u16).div_ceil(8))?;
    Ok(sum.value())
}
