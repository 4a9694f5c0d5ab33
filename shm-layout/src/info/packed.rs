//! Numbers of equal width, one behind the other without gaps between their bits.
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
    /// With room for `bits` bits.
    pub fn with_capacity(bits: u64) -> Self {
        Self { words: Vec::with_capacity(bits.div_ceil(64) as usize), bit: 0 }
    }

    /// All of them.
    pub fn of(numbers: impl ExactSizeIterator<Item = u64>, bits: u32) -> Self {
        let mut packer = Self::with_capacity(numbers.len() as u64 * u64::from(bits));
        packer.column(numbers, bits);
        packer
    }

    /// Appends numbers from the beginning of a word on: whole words, each put together before it is stored.
    pub fn column(&mut self, numbers: impl Iterator<Item = u64>, bits: u32) {
        if bits == 0 {
            return numbers.for_each(drop);
        }
        let (mut word, mut shift) = (0, 0);
        for number in numbers {
            word |= number << shift;
            shift += bits;
            if shift >= 64 {
                self.words.push(word);
                shift -= 64;
                // What of the number is not in that word.
                word = number.checked_shr(bits - shift).unwrap_or(0);
            }
        }
        self.bit = self.words.len() as u64 * 64 + u64::from(shift);
        if shift > 0 {
            self.words.push(word);
        }
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

    /// Goes on at a multiple of `bits`.
    pub fn pad_to(&mut self, bits: u64) {
        while self.bit < bits {
            let step = (bits - self.bit).min(64) as u32;
            self.push(0, step);
        }
    }

    /// The words.
    pub fn into_words(self) -> Vec<u64> {
        self.words
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
            let packed = Packer::of(numbers.iter().copied(), bits).into_words();
            assert_eq!(packed.len() as u64, words_for(200, bits));
            let words = VecWords::of(&[&[7], &packed[..]].concat());
            for (i, number) in (0u32..).zip(&numbers) {
                assert_eq!(nth(&words, 1, i, bits), Ok(*number), "{bits} bits, {i}");
            }
            assert!(bits == 0 || nth(&words, 1, 300, bits).is_err());
        }
        assert_eq!([bits_for(0), bits_for(1), bits_for(255), bits_for(256), bits_for(u64::MAX)], [0, 1, 8, 9, 64]);
    }
}
