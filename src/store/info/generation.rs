//! One generation of job information, mapped. It never changes.
use std::sync::Arc;

use instanton_layout::Malformed;
use instanton_layout::info::{Group, Index};
use instanton_layout::words::RawWords;

use super::checked::{Frozen, Seen};
use crate::sys::memory::Mapping;

/// The segment of one generation, and what this process has found whole in it.
pub(in crate::store) struct Generation {
    pub(in crate::store) number: u64,
    pub(in crate::store) mapping: Arc<Mapping>,
    pub(in crate::store) index: Index,
    seen: Seen,
}

impl Generation {
    pub(in crate::store) fn new(number: u64, mapping: Arc<Mapping>) -> Result<Self, Malformed> {
        let index = Index::read(&mapping.words())?;
        let seen = Seen::new(mapping.len() / 8).map_err(|_| Malformed::Table)?;
        Ok(Self { number, mapping, index, seen })
    }

    /// The words of the segment, each checked when it is first used.
    #[inline(always)]
    pub(in crate::store) fn words(&self) -> Frozen<'_> {
        self.seen.of(self.mapping.words())
    }

    /// The words of the segment, unchecked.
    #[inline(always)]
    pub(in crate::store) fn raw(&self) -> RawWords<'_> {
        self.mapping.words()
    }

    /// Bytes of a value, where they lie.
    #[inline]
    pub(in crate::store) fn frozen(&self, at: usize, len: usize) -> Result<&[u8], Malformed> {
        self.mapping.frozen(self.number, at, len)
    }

    /// Takes the memory for what is noted of the front.
    pub(in crate::store) fn populate_seen(&self) {
        self.seen.populate();
    }

    /// Looks at every checksum that is not looked at when something is read.
    pub(in crate::store) fn verify(&self) -> Result<(), Malformed> {
        self.index.verify(&self.words())
    }

    /// The number of a member of a group: a node, an application, a session.
    pub(in crate::store) fn number_of(&self, group: Group, index: u32) -> Result<Option<u32>, Malformed> {
        self.index.number(&self.words(), group, index)
    }
}
