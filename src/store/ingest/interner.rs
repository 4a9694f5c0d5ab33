//! Interner of the strings of processes: each string is kept once, and has a number.
use instanton_layout::hash::hash;

use super::hash_index::HashIndex;

/// Strings, each kept once; a NULL has a number as well.
#[derive(Debug, Default, Clone)]
pub(in crate::store) struct Interner {
    bytes: Vec<u8>,
    /// Beginning and end of each string; a NULL ends before it begins.
    places: Vec<(usize, usize)>,
    by_hash: HashIndex,
    /// For each string, the one that came after it last.
    after: Vec<u32>,
}

impl Interner {
    #[inline]
    pub(in crate::store) fn get(&self, number: u64) -> Option<&[u8]> {
        let (from, to) = *self.places.get(number as usize)?;
        self.bytes.get(from..to)
    }

    /// Returns whether a string has a NUL in it.
    pub(super) fn has_nul(&self) -> bool {
        self.bytes.contains(&0)
    }

    pub(in crate::store) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of a string that comes after another one of its key. Mostly that is the string that came
    /// there before, which need not be looked for.
    #[inline]
    pub(super) fn number_after(&mut self, before: Option<u64>, text: Option<&[u8]>) -> u64 {
        let usual = before.map(|before| self.after[before as usize]);
        match usual {
            Some(usual) if self.get(usual.into()) == text => usual.into(),
            _ => {
                let number = self.number(text);
                if let Some(before) = before {
                    self.after[before as usize] = number as u32;
                }
                number
            }
        }
    }

    pub(in crate::store) fn number(&mut self, text: Option<&[u8]>) -> u64 {
        let half = text.map_or(0, |text| (hash(text) >> 32) as u32);
        if let Some(number) = self.by_hash.find(half, |number| self.get(number.into()) == text) {
            return number.into();
        }
        let number = self.places.len() as u32;
        self.by_hash.enter(half, number);
        let from = self.bytes.len();
        self.bytes.extend_from_slice(text.unwrap_or_default());
        self.places.push(text.map_or((1, 0), |_| (from, self.bytes.len())));
        self.after.push(number);
        number.into()
    }
}
