//! The reader pages of a job, as the writer sees them.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use instanton_layout::page::{self, Pinned};
use instanton_layout::sync::{AtomicU64, Ordering};
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

/// The number that was given last, by any writer of this process: so that what is said to one of a reader of another
/// one changes nothing.
static LAST: AtomicU64 = AtomicU64::new(0);

struct Page {
    id: ReaderId,
    mapping: Mapping,
    closed: Option<Closed>,
    /// True if a slot has held an epoch that had not been.
    has_lied: bool,
    _charge: Charge,
}

/// The part of the past that a closed page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Closed {
    /// The oldest epoch in its slots when it was closed.
    since: u64,
    /// The newest version that a record had then: no guard finds a newer one.
    version: u64,
}

/// A reader that does not keep to the protocol, or holds back too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misuse {
    /// A slot of its page holds an epoch that has not been yet. Its connection should be cut.
    Lie,
    /// Its guards held back so many bytes that it gets no new ones before those are gone.
    HoldsBack {
        /// Bytes that waited for it.
        bytes: u64,
    },
}

/// The epochs that the readers of a job hold.
pub(in crate::store) struct Held {
    /// Open pages by the oldest epoch that they hold, the oldest last.
    open: Vec<(u64, ReaderId)>,
    closed: Vec<Closed>,
    /// The oldest epoch that the writer's own threads hold, all ones if none does.
    pub(in crate::store) by_writer: u64,
    /// True if less is set aside for closed pages than at the scan before.
    pub(in crate::store) has_let_go: bool,
}

impl Held {
    /// The oldest epoch that anybody holds whose page is open, all ones if nobody does.
    pub(in crate::store) fn oldest(&self) -> u64 {
        self.oldest_of_readers().min(self.by_writer)
    }

    /// The oldest epoch that an open page holds, all ones if none does.
    pub(in crate::store) fn oldest_of_readers(&self) -> u64 {
        self.open.last().map_or(u64::MAX, |(epoch, _)| *epoch)
    }

    /// Returns whether an open page holds more than the writer's own threads.
    pub(in crate::store) fn is_by_reader(&self) -> bool {
        self.oldest_of_readers() < self.by_writer
    }

    /// Returns whether nothing is set aside for anybody.
    pub(in crate::store) fn is_all_open(&self) -> bool {
        self.closed.is_empty()
    }

    /// Returns whether a closed page holds what was replaced in that epoch and has that version.
    pub(in crate::store) fn is_set_aside(&self, replaced: u64, version: u64) -> bool {
        self.closed.iter().any(|closed| closed.since <= replaced && version <= closed.version)
    }
}

/// All pages of a job.
#[derive(Default)]
pub(in crate::store) struct Pages {
    pages: Vec<Page>,
    /// True if a closed page was opened or removed since the last scan.
    has_let_go: bool,
    misused: Vec<(ReaderId, Misuse)>,
}

impl Pages {
    pub(in crate::store) fn make(&mut self, job: u64, budget: &Budget) -> Result<ReaderPageHandle, WriteError> {
        let bytes = page::WORDS as u64 * 8;
        let charge = budget.charge(bytes).ok_or_else(|| WriteError::budget(budget, bytes))?;
        let (mapping, fd) = memory::reader_page(bytes).map_err(|error| WriteError::Memory(Box::new(error)))?;
        let id = ReaderId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        page::format(&mapping.words_mut(), job, id.0);
        self.pages.push(Page { id, mapping, closed: None, has_lied: false, _charge: charge });
        Ok(ReaderPageHandle { id, fd })
    }

    /// Forgets a page. Answers whether there was one.
    pub(in crate::store) fn remove(&mut self, id: ReaderId) -> bool {
        self.has_let_go |= self.is_closed(id);
        let before = self.pages.len();
        self.pages.retain(|page| page.id != id);
        self.pages.len() < before
    }

    fn is_closed(&self, id: ReaderId) -> bool {
        self.pages.iter().any(|page| page.id == id && page.closed.is_some())
    }

    /// Returns whether a page is closed, and may be opened at the next scan.
    pub(in crate::store) fn has_closed(&self) -> bool {
        self.pages.iter().any(|page| page.closed.is_some())
    }

    /// Returns whether [`take_misused`](Self::take_misused) has anything to tell.
    pub(in crate::store) fn has_misused(&self) -> bool {
        !self.misused.is_empty()
    }

    /// Takes the readers that were closed since this was last asked, each with the reason.
    pub(in crate::store) fn take_misused(&mut self) -> Vec<(ReaderId, Misuse)> {
        std::mem::take(&mut self.misused)
    }

    /// Reads which epochs are held now, given the current one and the newest version of a record. References must have
    /// been replaced before. Opens closed pages that hold nothing any more, and closes those of readers that lie.
    pub(in crate::store) fn scan(&mut self, job: RawWords<'_>, epoch: u64, version: u64) -> Held {
        page::fence_before_scan(&job);
        let mut held = Held {
            open: Vec::new(),
            closed: Vec::new(),
            by_writer: u64::MAX,
            has_let_go: std::mem::take(&mut self.has_let_go),
        };
        for Page { id, mapping, closed, has_lied, .. } in &mut self.pages {
            let pinned = page::scan(&mapping.words(), epoch);
            if matches!(pinned, Pinned::Lie(_)) && !std::mem::replace(has_lied, true) {
                self.misused.push((*id, Misuse::Lie));
            }
            match (pinned, &closed) {
                (Pinned::Nothing, Some(_)) => {
                    // The look-ups through its last guards are over, for this thread as well.
                    page::fence_after_scan(&job);
                    page::open(&mapping.words_mut());
                    *closed = None;
                    held.has_let_go = true;
                }
                (Pinned::Since(since), None) => held.open.push((since, *id)),
                // Blocks that its other guards may hold are not written before they are gone.
                (Pinned::Lie(_), None) => {
                    page::close(&mapping.words_mut());
                    *closed = Some(Closed { since: 0, version });
                }
                _ => {}
            }
            held.closed.extend(*closed);
        }
        page::fence_after_scan(&job);
        held.open.sort_unstable_by(|a, b| b.cmp(a));
        held
    }

    /// Closes the open page that holds the oldest epoch, given the newest version of a record and the bytes that the
    /// page holds back.
    pub(in crate::store) fn close_oldest(&mut self, held: &mut Held, version: u64, bytes: u64) {
        let Some((since, id)) = held.open.pop() else { return };
        let Some(page) = self.pages.iter_mut().find(|page| page.id == id) else { return };
        page::close(&page.mapping.words_mut());
        let closed = Closed { since, version };
        page.closed = Some(closed);
        held.closed.push(closed);
        self.misused.push((id, Misuse::HoldsBack { bytes }));
    }
}
