//! Numbers of equal width, one behind the other without gaps between their bits.
use std::cell::Cell;

use crate::Malformed;
use crate::words::Words;

/// Bits that hold every number up to `max`.
pub const fn bits_for(max: u64) -> u32 {
    64 - max.leading_zeros()
}

const fn mask(bits: u32) -> u64 {
    match bits {
        64.. => u64::MAX,
        _ => (1 << bits) - 1,
    }
}

/// The number of `bits` bits that begins at bit `bit` from word `at`.
///
/// # Errors
/// [`Malformed::Bounds`] when it does not lie in the segment.
#[inline]
pub fn bits_at<W: Words>(words: &W, at: usize, bit: u64, bits: u32) -> Result<u64, Malformed> {
    if bits == 0 {
        return Ok(0);
    }
    let (word, shift) = (at.saturating_add((bit / 64) as usize), (bit % 64) as u32);
    let low = words.load(word)? >> shift;
    match shift + bits > 64 {
        true => Ok((low | words.load(word + 1)? << (64 - shift)) & mask(bits)),
        false => Ok(low & mask(bits)),
    }
}

/// The `index`-th number of `bits` bits from word `at`.
///
/// # Errors
/// [`Malformed::Bounds`] when it does not lie in the segment.
#[inline]
pub fn nth<W: Words>(words: &W, at: usize, index: u32, bits: u32) -> Result<u64, Malformed> {
    bits_at(words, at, u64::from(index) * u64::from(bits), bits)
}

/// Words that `count` numbers of `bits` bits take.
pub const fn words_for(count: u64, bits: u32) -> u64 {
    (count * bits as u64).div_ceil(64)
}

/// Numbers under construction.
#[derive(Debug, Default, Clone)]
pub struct Packer {
    words: Vec<u64>,
    bit: u64,
}

impl Packer {
    /// Words with room for `bits` bits.
    pub fn with_capacity(bits: u64) -> Self {
        Self { words: Vec::with_capacity(bits.div_ceil(64) as usize), bit: 0 }
    }

    /// The words of all of them.
    pub fn of(numbers: impl ExactSizeIterator<Item = u64>, bits: u32) -> Vec<u64> {
        let mut words = vec![0; words_for(numbers.len() as u64, bits) as usize];
        let mut filler = Filler::new(&mut words);
        numbers.for_each(|number| filler.push(number, bits));
        filler.finish();
        words
    }

    /// Appends a number that has no more than `bits` bits.
    #[inline]
    pub fn push(&mut self, number: u64, bits: u32) {
        if bits == 0 {
            return;
        }
        let shift = (self.bit % 64) as u32;
        match self.words.last_mut() {
            Some(last) if shift != 0 => {
                *last |= number << shift;
                if shift + bits > 64 {
                    self.words.push(number >> (64 - shift));
                }
            }
            _ => self.words.push(number),
        }
        self.bit += u64::from(bits);
    }

    /// Bits in it.
    pub fn bits(&self) -> u64 {
        self.bit
    }

    /// The words.
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }
}

/// Puts numbers into words from some bit on, behind which there are none yet; each word is put together before it is
/// stored.
pub struct Filler<'a> {
    words: &'a [Cell<u64>],
    at: usize,
    word: u64,
    shift: u32,
}

impl<'a> Filler<'a> {
    /// From the first bit on.
    pub fn new(words: &'a mut [u64]) -> Self {
        Self::over(Cell::from_mut(words).as_slice_of_cells())
    }

    /// Fills words that the caller reads meanwhile.
    pub(super) fn over(words: &'a [Cell<u64>]) -> Self {
        Self { words, at: 0, word: 0, shift: 0 }
    }

    /// Goes on at this bit.
    pub fn seek(&mut self, bit: u64) {
        self.store();
        (self.at, self.shift) = ((bit / 64) as usize, (bit % 64) as u32);
        self.word = self.words.get(self.at).map_or(0, Cell::get);
    }

    /// Appends a number that has no more than `bits` bits.
    #[inline(always)]
    pub fn push(&mut self, number: u64, bits: u32) {
        self.word |= number << self.shift;
        self.shift += bits;
        if self.shift >= 64 {
            self.words[self.at].set(self.word);
            (self.at, self.shift) = (self.at + 1, self.shift - 64);
            // The rest of the number goes into the next word.
            self.word = number.checked_shr(bits - self.shift).unwrap_or(0);
        }
    }

    /// Stores what is left.
    pub fn finish(self) {
        self.store();
    }

    fn store(&self) {
        if self.shift > 0 {
            self.words[self.at].set(self.word);
        }
    }
}

/// Adds to the `index`-th number of `bits` bits, which have room for the sum.
#[inline(always)]
pub(super) fn add_nth(words: &mut [u64], index: u32, number: u64, bits: u32) {
    if bits == 0 {
        return;
    }
    let bit = u64::from(index) * u64::from(bits);
    let (at, shift) = ((bit / 64) as usize, (bit % 64) as u32);
    let (low, carry) = words[at].overflowing_add(number << shift);
    words[at] = low;
    if shift + bits > 64 {
        words[at + 1] += (number >> (64 - shift)) + u64::from(carry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::VecWords;

    #[test]
    fn every_width_is_read_back() {
        for bits in 0..=64 {
            let numbers: Vec<u64> = (0..200u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask(bits)).collect();
            let packed = Packer::of(numbers.iter().copied(), bits);
            assert_eq!(packed.len() as u64, words_for(200, bits));
            let mut by_index = vec![0; packed.len()];
            for part in [|number| number / 3, |number| number - number / 3] {
                (0u32..200).rev().for_each(|i| add_nth(&mut by_index, i, part(numbers[i as usize]), bits));
            }
            assert_eq!(by_index, packed);
            let mut pushed = Packer::with_capacity(0);
            numbers.iter().for_each(|number| pushed.push(*number, bits));
            assert_eq!(pushed.into_words(), packed);
            let words = VecWords::of(&[&[7], &packed[..]].concat());
            for (i, number) in (0u32..).zip(&numbers) {
                assert_eq!(nth(&words, 1, i, bits), Ok(*number), "{bits} bits, {i}");
            }
            assert!(bits == 0 || nth(&words, 1, 300, bits).is_err());
        }
        assert_eq!([bits_for(0), bits_for(1), bits_for(255), bits_for(256), bits_for(u64::MAX)], [0, 1, 8, 9, 64]);
    }
}
