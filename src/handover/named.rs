//! Readers of named segments, which are not sealed: their owner is trusted.
use std::path::Path;
use std::time::Duration;

use super::remote::{OpenError, PATIENCE, RemoteReader, Source, Way};
use crate::store::named::{Mapped, NameError, Owner};

impl RemoteReader {
    /// Opens the address of a writer with [named segments](crate::store::named), which cannot be sealed. Its user is
    /// trusted not to shorten them while they are mapped, which would end this process with SIGBUS, and not to change
    /// what they have in them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_trusting_owner(address: &str) -> Result<Self, OpenError> {
        Self::open_trusting_owner_within(address, PATIENCE)
    }

    /// The same, where the writer has that much time for each answer, from the first one on.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_trusting_owner_within(address: &str, patience: Duration) -> Result<Self, OpenError> {
        let (reader, source) = Source::open_with(address, patience, |_| true, true)?;
        Ok(Self { reader, source })
    }

    /// Maps the segments of a writer that lives by their [name](crate::store::named), without a word to it. There are no
    /// guards: they need a page that only the writer gives out.
    ///
    /// The owner of the files is trusted not to shorten them while they are mapped, which would end this process with
    /// SIGBUS, and not to change what they have in them.
    ///
    /// # Errors
    /// [`NameError`]: [`NameError::Dead`] when the writer is gone
    /// ([`post_mortem`](crate::store::JobReader::post_mortem) reads what it has left).
    pub fn map_trusting_owner(path: impl AsRef<Path>, owner: Owner) -> Result<Self, NameError> {
        let (reader, mapped) = Mapped::open(path.as_ref(), owner)?;
        Ok(Self { reader, source: Source(Way::Named(mapped)) })
    }
}
