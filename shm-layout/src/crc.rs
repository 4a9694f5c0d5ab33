//! CRC-32C (Castagnoli) over words, by the processor's instruction where it has one.
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use crate::Malformed;
use crate::words::Words;

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `TABLES[k][b]`: what byte `b` followed by `k` zero bytes leaves.
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[k - 1][byte];
            tables[k][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
};

/// The checksum of some words, each as its 8 little-endian bytes.
#[inline]
pub fn of(words: &[u64]) -> u32 {
    let mut crc = Crc::new();
    crc.slice(words);
    crc.value()
}

/// Compares a checksum with the expected one.
///
/// # Errors
/// [`Malformed::Checksum`] when it is not.
#[inline]
pub(crate) fn expect(found: u64, stored: u64) -> Result<(), Malformed> {
    if found == stored { Ok(()) } else { Err(Malformed::Checksum) }
}

/// A checksum in the making.
#[derive(Clone, Copy)]
pub struct Crc(u32);

impl Crc {
    /// The checksum of nothing yet.
    #[inline]
    #[allow(clippy::new_without_default, reason = "a checksum of nothing is no useful default")]
    pub const fn new() -> Self {
        Self(!0)
    }

    /// The checksum of what was added.
    #[inline]
    pub const fn value(self) -> u32 {
        !self.0
    }

    /// Adds a word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.slice(&[word]);
    }

    /// Adds some words.
    #[inline]
    pub fn slice(&mut self, words: &[u64]) {
        #[cfg(target_arch = "x86_64")]
        if has_instruction() {
            // SAFETY: the processor has the instruction, asked just now.
            self.0 = unsafe { hardware_slice(self.0, words) };
            return;
        }
        self.0 = words.iter().fold(self.0, |crc, word| software(crc, *word));
    }

    /// Adds `count` words from word `at`.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when they do not all lie there.
    pub fn words<W: Words>(&mut self, words: &W, at: usize, count: usize) -> Result<(), Malformed> {
        let all = at..at.saturating_add(count);
        #[cfg(target_arch = "x86_64")]
        if has_instruction() {
            // SAFETY: the processor has the instruction, asked just now.
            self.0 = unsafe { hardware_words(self.0, words, all) }?;
            return Ok(());
        }
        for at in all {
            self.0 = software(self.0, words.load(at)?);
        }
        Ok(())
    }
}

/// Returns whether the processor has the instruction. The standard library asks for everything that a processor can
/// have at once, a dozen questions; where the machine is a virtual one, each of them is a way out of it and back, in
/// every Init.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_instruction() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(ask_for_instruction)
}

#[cfg(target_arch = "x86_64")]
#[cold]
#[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
fn ask_for_instruction() -> bool {
    const SSE_4_2: u32 = 1 << 20;
    // SAFETY: every processor of this architecture has the question and this part of its answer.
    let features = unsafe { core::arch::x86_64::__cpuid(1) };
    features.ecx & SSE_4_2 != 0
}

fn software(crc: u32, word: u64) -> u32 {
    let bytes = (word ^ u64::from(crc)).to_le_bytes();
    (0..8).fold(0, |crc, i| crc ^ TABLES[7 - i][usize::from(bytes[i])])
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn hardware(crc: u32, word: u64) -> u32 {
    core::arch::x86_64::_mm_crc32_u64(u64::from(crc), word) as u32
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn hardware_slice(crc: u32, words: &[u64]) -> u32 {
    words.iter().fold(crc, |crc, word| hardware(crc, *word))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn hardware_words<W: Words>(mut crc: u32, words: &W, at: core::ops::Range<usize>) -> Result<u32, Malformed> {
    for at in at {
        crc = hardware(crc, words.load(at)?);
    }
    Ok(crc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_with_the_published_check_values() {
        // RFC 3720, B.4: 32 bytes of zeroes, of ones, and ascending.
        let ascending: Vec<u64> =
            (0..4).map(|i| u64::from_le_bytes(std::array::from_fn(|b| (i * 8 + b) as u8))).collect();
        for (words, expected) in [(vec![0; 4], 0x8a91_36aa), (vec![!0; 4], 0x62a8_ab43), (ascending, 0x46dd_794e)] {
            assert_eq!(of(&words), expected);
            assert_eq!(!words.iter().fold(!0, |crc, word| software(crc, *word)), expected);
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_processor_is_asked_for_the_right_thing() {
        assert_eq!(ask_for_instruction(), std::arch::is_x86_feature_detected!("sse4.2"));
    }
}
