//! A key as look-ups take it: hashed once, and compared with keys in a segment word by word.
use crate::Malformed;
use crate::hash::hash_and_tail;
use crate::words::Words;

/// A key with its hash, as every look-up takes it.
#[derive(Debug, Clone, Copy)]
pub struct HashedKey<'a> {
    bytes: &'a [u8],
    hash: u64,
    /// The bytes behind the last whole word of the key, as a word.
    tail: u64,
}

impl<'a> HashedKey<'a> {
    /// Hashes a key.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        let (hash, tail) = hash_and_tail(bytes);
        Self { bytes, hash, tail }
    }

    /// The hash of the key.
    #[inline]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The key itself.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether the key is the `len` bytes from word `at`.
    #[inline(always)]
    pub(crate) fn is_at<W: Words>(&self, words: &W, mut at: usize, len: usize) -> Result<bool, Malformed> {
        if len != self.bytes.len() {
            return Ok(false);
        }
        let mut rest = self.bytes;
        while let Some((word, tail)) = rest.split_first_chunk::<8>() {
            if words.load(at)? != u64::from_le_bytes(*word) {
                return Ok(false);
            }
            (at, rest) = (at + 1, tail);
        }
        Ok(rest.is_empty() || words.load(at)? == self.tail)
    }
}
