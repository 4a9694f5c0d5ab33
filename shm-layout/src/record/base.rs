//! Records that continue in others.
//!
//! A rank that posts little and has posted much gets a record of what is new, which names the older one as its *base*.
//! A look-up goes from the newest to the oldest, and the first that has the key has the value. The base is named with
//! its version: it stays as it is as long as the rank's newest record leads to it, so that any other version means that
//! a later record has taken their place.
use crate::Malformed;
use crate::job::Reference;
use crate::words::Words;

/// Flag in word 3 of a record that continues in another.
pub(super) const CONTINUES: u32 = 1 << 8;
/// Words that name a base.
pub(super) const WORDS: usize = 3;

/// The record that another one continues in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    /// The block of the base.
    pub at: Reference,
    /// The version of the base.
    pub version: u64,
    /// Words of it, and of all that it continues in, whose values are replaced.
    pub outdated: u64,
}

impl Base {
    pub(super) fn encode(&self) -> [u64; WORDS] {
        [self.at.encode(), self.version, self.outdated]
    }

    #[inline(always)]
    pub(super) fn read<W: Words>(words: &W, end: usize) -> Result<Self, Malformed> {
        let first = end.saturating_sub(WORDS);
        let at = Reference::decode(words.load(first)?).ok_or(Malformed::Chain)?;
        Ok(Self { at, version: words.load(first + 1)?, outdated: words.load(first + 2)? })
    }
}
