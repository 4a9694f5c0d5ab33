//! A record: the keys and values of one rank, node, application, session or job.
//!
//! ```text
//! word 0   version: even; odd while the block is being written
//!      1   bytes of the record | CRC-32C of all its words (this half of word 1 as 0)
//!      2   owner (a rank, or an index) | entries
//!      3   binary logarithm of the slots | what the owner is (8 bits), 1 if the record continues in another (8 bits)
//!      4   slots: an open-addressing table of 32-byte entries, by the hash of the key
//!      .   bytes of keys and values, each from a word boundary (archives from a 16-byte boundary), zeroes behind them
//!     -3   if it continues in another: a reference to that, its version, how far that is outdated (`Base`)
//!
//! entry 0  hash of the key; 0: the slot is empty
//!       1  word of the key | bytes of the key (16 bits), data type (16 bits)
//!       2  scope (8 bits), flags (8 bits)
//!       3  the value itself, or: its word | its bytes
//! ```
//!
//! Words of values count from the record. Words of keys do so in a block; in an info segment, where the same keys recur
//! in every record, they count from the segment; a record of an info segment continues in another where it has long
//! values, which are checked by themselves. A record may change under a reader: nothing read from it is trusted, and
//! what it says counts only if its version is the same afterwards.
mod base;
mod build;

pub use base::Base;
pub use build::{Item, Keys, LARGEST, OwnKeys, Payload, append, build, build_on, seal, size};
pub(crate) use build::{build_with, set_base};

use crate::key::HashedKey;
use crate::words::Words;
use crate::{Malformed, crc::Crc, high, low};

/// Words before the slots.
const HEAD: usize = 4;
/// Words of an entry.
pub const ENTRY: usize = 4;
const _: () = assert!(ENTRY * 8 == 32);

/// Flags of an entry.
pub mod flags {
    /// The value is the entry's last word.
    pub const INLINE: u8 = 1;
    /// The value is a NULL string.
    pub const NULL: u8 = 2;
    /// The value's bytes are an archive.
    pub const ARCHIVE: u8 = 4;
}

/// The kind of owner of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Owner {
    /// A rank's posted data.
    Modex = 0,
    /// A process, by rank.
    Process = 1,
    /// A node, by index.
    Node = 2,
    /// An application, by index.
    App = 3,
    /// A session, by index.
    Session = 4,
    /// The job.
    Job = 5,
}

/// An entry of a record: a key and where its value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The word where the key begins, in the segment.
    pub key_word: usize,
    /// Bytes of the key.
    pub key_len: usize,
    /// Number of the data type.
    pub data_type: u16,
    /// Scope it was put with.
    pub scope: u8,
    /// [`flags`].
    pub flags: u8,
    /// The value where it is inline.
    pub scalar: u64,
    /// The word where the value begins, in the segment; where it is inline, that of the record.
    pub value_word: usize,
    /// Bytes of the value; 0 where it is inline.
    pub value_len: usize,
}

/// A record at some word of a segment.
///
/// Its look-ups are inlined without asking: passing entries through memory costs more than finding them.
#[derive(Clone, Copy)]
pub struct Record<W> {
    words: W,
    at: usize,
    /// Words of the record.
    len: usize,
    mask: usize,
    keys: usize,
    continues: bool,
}

impl<W: Words + Copy> Record<W> {
    /// The record at `at`, whose keys lie in the record.
    ///
    /// # Errors
    /// [`Malformed`] when its head cannot be right.
    #[inline(always)]
    pub fn in_block(words: W, at: usize, kind: Owner, owner: u32) -> Result<Self, Malformed> {
        Self::open(words, at, at, kind, owner)
    }

    /// The record at `at` of an info segment.
    ///
    /// # Errors
    /// [`Malformed`] when its head cannot be right.
    #[inline(always)]
    pub fn in_info(words: W, at: usize, kind: Owner, owner: u32) -> Result<Self, Malformed> {
        Self::open(words, at, 0, kind, owner)
    }

    #[inline(always)]
    fn open(words: W, at: usize, keys: usize, kind: Owner, owner: u32) -> Result<Self, Malformed> {
        let [_, length, owned, shape] = words.load_all::<HEAD>(at)?;
        let len = whole_words(&words, at, low(length))?;
        if low(owned) != owner || high(shape) & !base::CONTINUES != kind as u32 {
            return Err(Malformed::Owner);
        }
        // A length has 32 bits: so many slots do not fit, and their number is not computed.
        let bits = low(shape);
        if bits >= u32::BITS || HEAD + (ENTRY << bits) > len {
            return Err(Malformed::Table);
        }
        let continues = high(shape) & base::CONTINUES != 0;
        Ok(Self { words, at, len, mask: (1 << bits) - 1, keys, continues })
    }

    /// Checks the checksum. By value, so that nobody who does not ask needs the record in memory.
    ///
    /// # Errors
    /// [`Malformed::Checksum`] when it is not.
    pub fn check(self) -> Result<(), Malformed> {
        let length = self.words.load(self.at + 1)?;
        let mut crc = Crc::new();
        crc.slice(&[self.words.load(self.at)?, u64::from(low(length))]);
        crc.words(&self.words, self.at + 2, self.len - 2)?;
        crate::crc::expect(crc.value().into(), high(length).into())
    }

    /// Entries it has.
    ///
    /// # Errors
    /// [`Malformed::Bounds`] when the record is cut off.
    pub fn entries(&self) -> Result<u32, Malformed> {
        Ok(high(self.words.load(self.at + 2)?))
    }

    /// Words it takes.
    pub fn words(&self) -> usize {
        self.len
    }

    /// The record that has the keys which this one lacks.
    ///
    /// # Errors
    /// [`Malformed`] when what names it makes no sense.
    #[inline(always)]
    pub fn base(&self) -> Result<Option<Base>, Malformed> {
        if !self.continues {
            return Ok(None);
        }
        Base::read(&self.words, self.at + self.len).map(Some)
    }

    /// Looks a key up.
    ///
    /// # Errors
    /// [`Malformed`] when an entry leads out of the record.
    #[inline(always)]
    pub fn find(&self, key: &HashedKey<'_>) -> Result<Option<Entry>, Malformed> {
        self.find_with(key, None)
    }

    /// Looks a key up in a record of an info segment, where its only copy lies at `word`.
    ///
    /// # Errors
    /// [`Malformed`] when an entry leads out of the record.
    #[inline(always)]
    pub fn find_shared(&self, key: &HashedKey<'_>, word: usize) -> Result<Option<Entry>, Malformed> {
        self.find_with(key, Some(word))
    }

    /// Looks a key up, which is compared with those of entries, or known to lie at a word.
    ///
    /// The choice between the two is an argument and not a function, because a function might become a call.
    #[inline(always)]
    fn find_with(&self, key: &HashedKey<'_>, word: Option<usize>) -> Result<Option<Entry>, Malformed> {
        let mut slot = key.hash() as usize & self.mask;
        for _ in 0..self.mask + 1 {
            let at = self.at + HEAD + slot * ENTRY;
            let hash = self.words.load(at)?;
            if hash == key.hash() {
                let entry = self.entry(at)?;
                let is_it = match word {
                    Some(word) => entry.key_word == word,
                    None => key.is_at(&self.words, entry.key_word, entry.key_len)?,
                };
                if is_it {
                    return Ok(Some(entry));
                }
            } else if hash == 0 {
                return Ok(None);
            }
            slot = (slot + 1) & self.mask;
        }
        Ok(None)
    }

    /// Every entry.
    pub fn iter(&self) -> impl Iterator<Item = Result<Entry, Malformed>> + '_ {
        (0..=self.mask).filter_map(|slot| {
            let at = self.at + HEAD + slot * ENTRY;
            match self.words.load(at) {
                Ok(0) => None,
                Ok(_) => Some(self.entry(at)),
                Err(e) => Some(Err(e)),
            }
        })
    }

    #[inline(always)]
    fn entry(&self, at: usize) -> Result<Entry, Malformed> {
        let [_, key, kind, value] = self.words.load_all::<ENTRY>(at)?;
        let flags = (kind >> 8) as u8;
        let (value_word, value_len) = match flags & flags::INLINE {
            0 => (low(value) as usize, high(value) as usize),
            _ => (0, 0),
        };
        crate::words::check(self.len, value_word, value_len)?;
        Ok(Entry {
            key_word: self.keys + low(key) as usize,
            key_len: usize::from(high(key) as u16),
            data_type: (high(key) >> 16) as u16,
            scope: kind as u8,
            flags,
            scalar: value,
            value_word: self.at + value_word,
            value_len,
        })
    }
}

/// Words of the record at `at`.
///
/// # Errors
/// [`Malformed::Bounds`] when it does not all lie there.
#[inline]
pub fn length<W: Words>(words: &W, at: usize) -> Result<usize, Malformed> {
    whole_words(words, at, low(words.load(at.saturating_add(1))?))
}

/// Words of a record of so many bytes, which lies at `at`.
#[inline(always)]
fn whole_words<W: Words>(words: &W, at: usize, bytes: u32) -> Result<usize, Malformed> {
    let len = bytes as usize / 8;
    if !bytes.is_multiple_of(8) || at.checked_add(len).is_none_or(|end| end > words.len()) {
        return Err(Malformed::bounds(at.saturating_add(len)));
    }
    Ok(len)
}
