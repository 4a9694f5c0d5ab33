//! The reader pages of a job, as the writer sees them.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use instanton_layout::page::{self, Pinned};
use instanton_layout::words::RawWords;

use crate::store::budget::{Budget, Charge};
use crate::store::error::WriteError;
use crate::store::ids::ReaderId;
use crate::sys::memory::{self, Mapping};

/// A new reader page: who it is, and the descriptor for it. The writer keeps its own view of the page.
#[derive(Debug)]
pub struct ReaderPageHandle {
    id: ReaderId,
    fd: OwnedFd,
}

impl ReaderPageHandle {
    /// The reader, to be named in [`crate::store::JobWriter::reader_gone`].
    pub fn id(&self) -> ReaderId {
        self.id
    }
}

impl AsFd for ReaderPageHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<ReaderPageHandle> for OwnedFd {
    fn from(page: ReaderPageHandle) -> OwnedFd {
        page.fd
    }
}

struct Page {
    id: ReaderId,
    mapping: Mapping,
    _charge: Charge,
}

/// The epochs that the readers of a job hold.
pub(in crate::store) struct Held {
    /// The oldest epoch that is held, all ones if none is.
    pub(in crate::store) oldest: u64,
    /// The reader that holds it.
    pub(in crate::store) by: Option<ReaderId>,
    /// Readers whose pages hold epochs that have not been yet.
    pub(in crate::store) liars: Vec<ReaderId>,
}

/// All pages of a job.
#[derive(Default)]
pub(in crate::store) struct Pages {
    pages: Vec<Page>,
    last: u64,
}

impl Pages {
    pub(in crate::store) fn make(&mut self, job: u64, budget: &Budget) -> Result<ReaderPageHandle, WriteError> {
        let bytes = page::WORDS as u64 * 8;
        let charge = budget.charge(bytes).ok_or_else(|| WriteError::budget(budget, bytes))?;
        let (mapping, fd) = memory::reader_page(bytes).map_err(|error| WriteError::Memory(Box::new(error)))?;
        self.last += 1;
        let id = ReaderId(self.last);
        page::format(&mapping.words_mut(), job, id.0);
        self.pages.push(Page { id, mapping, _charge: charge });
        Ok(ReaderPageHandle { id, fd })
    }

    pub(in crate::store) fn remove(&mut self, id: ReaderId) {
        self.pages.retain(|page| page.id != id);
    }

    /// Reads which epochs are held now, given the current one. References must have been replaced before.
    pub(in crate::store) fn scan(&self, job: RawWords<'_>, epoch: u64) -> Held {
        page::fence_before_scan(&job);
        let mut held = Held { oldest: u64::MAX, by: None, liars: Vec::new() };
        for Page { id, mapping, .. } in &self.pages {
            match page::scan(&mapping.words(), epoch) {
                Pinned::Nothing => {}
                Pinned::Since(since) if since >= held.oldest => {}
                Pinned::Since(since) => (held.oldest, held.by) = (since, Some(*id)),
                // Nothing that it may have seen is written again until it is gone.
                Pinned::Lie(_) => {
                    held.liars.push(*id);
                    (held.oldest, held.by) = (0, Some(*id));
                }
            }
        }
        page::fence_after_scan(&job);
        held
    }
}
