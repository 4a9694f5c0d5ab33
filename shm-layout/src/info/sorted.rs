//! Tables sorted by a 64-bit key, in which finding nothing is as certain as finding something.
//!
//! ```text
//! entry  0   key
//!        1   value | CRC-32C of key, value and the place of the entry
//! ```
//!
//! A damaged entry could lead a binary search astray. So the two entries that enclose the place where it ends are
//! checked: together they prove that the key is there or is not.
use super::Part;
use crate::words::Words;
use crate::{Malformed, crc, high, low, pair};

const ENTRY: usize = 2;

/// The place of such a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sorted(pub Part);

impl Sorted {
    /// Entries.
    pub fn len(&self) -> u32 {
        self.0.len
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The key and the value at a place.
    ///
    /// # Errors
    /// [`Malformed`] when it is damaged or not there.
    #[inline]
    pub fn entry<W: Words>(&self, words: &W, place: u32) -> Result<(u64, u32), Malformed> {
        let at = self.0.at(place, ENTRY)?;
        let [key, rest] = words.load_all::<ENTRY>(at)?;
        words.once(at, move |_| crc::expect(checksum(key, low(rest), place).into(), high(rest).into()))?;
        Ok((key, low(rest)))
    }

    /// The place of the first entry with a key that is not below `key`.
    #[inline]
    fn first_from<W: Words>(&self, words: &W, key: u64) -> Result<u32, Malformed> {
        let (mut from, mut to) = (0, self.0.len);
        while from < to {
            let middle = from + (to - from) / 2;
            match words.load(self.0.at(middle, ENTRY)?)? < key {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        if from > 0 && self.entry(words, from - 1)?.0 >= key {
            return Err(Malformed::Table);
        }
        if from < self.0.len && self.entry(words, from)?.0 < key {
            return Err(Malformed::Table);
        }
        Ok(from)
    }

    /// The value of the first entry with this key.
    ///
    /// # Errors
    /// [`Malformed`] when that cannot be said.
    #[inline]
    pub fn find<W: Words>(&self, words: &W, key: u64) -> Result<Option<u32>, Malformed> {
        if self.is_empty() {
            return Ok(None);
        }
        let place = self.first_from(words, key)?;
        if place == self.0.len {
            return Ok(None);
        }
        let (found, value) = self.entry(words, place)?;
        Ok((found == key).then_some(value))
    }

    /// The first value of this key that `is_it` takes.
    ///
    /// # Errors
    /// [`Malformed`] when that cannot be said, or what `is_it` answers.
    pub fn find_where<W: Words>(
        &self,
        words: &W,
        key: u64,
        mut is_it: impl FnMut(u32) -> Result<bool, Malformed>,
    ) -> Result<Option<u32>, Malformed> {
        for place in self.first_from(words, key)?..self.0.len {
            match self.entry(words, place)? {
                (found, _) if found != key => break,
                (_, value) if is_it(value)? => return Ok(Some(value)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The value of the last entry whose key is `key` or below.
    ///
    /// # Errors
    /// [`Malformed`] when that cannot be said.
    pub fn last_to<W: Words>(&self, words: &W, key: u64) -> Result<Option<(u64, u32)>, Malformed> {
        let after = match key.checked_add(1) {
            Some(next) => self.first_from(words, next)?,
            None => self.0.len,
        };
        after.checked_sub(1).map(|place| self.entry(words, place)).transpose()
    }
}

/// The words of a table with these entries, which are sorted by key.
pub fn build(entries: &[(u64, u32)]) -> Vec<u64> {
    debug_assert!(entries.is_sorted_by_key(|(key, _)| *key));
    let entries = (0u32..).zip(entries);
    entries.flat_map(|(place, (key, value))| [*key, pair(*value, checksum(*key, *value, place))]).collect()
}

#[inline]
fn checksum(key: u64, value: u32, place: u32) -> u32 {
    crc::of(&[key, pair(value, place)])
}
