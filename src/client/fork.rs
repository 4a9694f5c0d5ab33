//! The life of a client: whether this process may use it.
//!
//! A client *runs* from its init to its finalize. A forked child has the parent's memory and its socket, and none of
//! its threads: it must find itself uninitialised and leave what it shares with the parent alone. A word that the
//! kernel wipes in the child tells, at the cost of one load at each entry.
use std::io;

use instanton_layout::sync::{AtomicBool, Ordering};

use crate::sys::fork::ForkMark;

use super::Error;

/// The state of a client in this process.
pub(super) struct Life {
    mark: ForkMark,
    ended: AtomicBool,
}

impl Life {
    /// A client that runs.
    pub(super) fn begin() -> io::Result<Self> {
        Ok(Self { mark: ForkMark::new()?, ended: AtomicBool::new(false) })
    }

    /// Fails unless it runs, here.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.is_forked() || self.ended.load(Ordering::Acquire) {
            true => Err(Error::NotInitialized),
            false => Ok(()),
        }
    }

    /// Returns whether this is a child of the process it ran in.
    #[inline]
    pub(super) fn is_forked(&self) -> bool {
        self.mark.is_inherited()
    }

    /// Ends it; an error when it does not run.
    pub(super) fn end(&self) -> Result<(), Error> {
        match self.is_forked() || self.ended.swap(true, Ordering::AcqRel) {
            true => Err(Error::NotInitialized),
            false => Ok(()),
        }
    }
}
