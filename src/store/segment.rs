//! Segments of a job: made by the writer, mapped by readers.
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use instanton_layout::header::{Header, Kind};
use instanton_layout::info::Built;

use super::budget::{Budget, Charge};
use super::error::{AttachError, WriteError};
use super::ids::SegmentId;
use crate::data::Nspace;
use crate::sys::memory::{self, Mapping, MemoryError};
use crate::sys::scratch::Scratch;

/// Bytes at the front of a segment that every process reads at once: two pages. A writer that puts more there does not
/// have all of it looked up.
pub(super) const FIRST: usize = 8 << 10;

/// A segment mapped read-only, its header checked.
pub struct MappedSegment {
    pub(super) id: SegmentId,
    pub(super) job: u64,
    pub(super) mapping: Arc<Mapping>,
}

impl MappedSegment {
    /// Maps a descriptor that the server sent. The descriptor can be closed afterwards.
    ///
    /// # Errors
    /// [`AttachError`] names what is wrong with it; nothing stays mapped then.
    pub fn map(fd: BorrowedFd<'_>) -> Result<Self, AttachError> {
        let mapping = Mapping::read_only(fd)?;
        // Before anything is looked at, which would be a page fault as well.
        mapping.populate(0, FIRST);
        Self::check(Arc::new(mapping))
    }

    pub(super) fn check(mapping: Arc<Mapping>) -> Result<Self, AttachError> {
        let header = Header::read(&mapping.words())?;
        let id = match header.kind {
            Kind::Job => SegmentId::Job,
            Kind::Info => SegmentId::Info(header.number),
            Kind::Modex => SegmentId::Modex(header.number as u32),
            kind => return Err(AttachError::Unexpected(kind)),
        };
        Ok(Self { id, job: header.job, mapping })
    }

    /// Returns the segment's name in its job.
    pub fn id(&self) -> SegmentId {
        self.id
    }
}

/// A segment that this process made.
pub(super) struct OwnSegment {
    pub(super) mapping: Arc<Mapping>,
    pub(super) fd: OwnedFd,
    _charge: Charge,
}

/// Longest name that the kernel takes for a memfd.
const LONGEST_LABEL: usize = 249;

/// The name of a segment's memory: what it is, and of which namespace, cut where it is too long. It is seen in
/// `/proc/PID/maps`, behind the descriptors in `/proc/PID/fd`, and in the list of mapped files of a core dump; nothing
/// goes by it.
pub(super) struct Label(Vec<u8>);

impl Label {
    pub(super) fn new(kind: &str, nspace: &Nspace) -> Self {
        let name = [b"instanton-", kind.as_bytes(), b":", nspace.as_bytes()].concat();
        Self(name[..name.len().min(LONGEST_LABEL)].to_vec())
    }
}

/// Memory comes in pages.
const PAGE: u64 = 4096;

impl OwnSegment {
    pub(super) fn create(name: &Label, len: u64, budget: &Budget) -> Result<Self, WriteError> {
        Self::made(len, budget, || memory::segment(&name.0, len))
    }

    /// Makes a segment that has these words and changes no more.
    pub(super) fn written(name: &Label, words: Built<Scratch<u64>>, budget: &Budget) -> Result<Self, WriteError> {
        let len = words.len() as u64 * 8;
        Self::made(len, budget, || memory::frozen_segment(&name.0, len, |write| words.write(write)))
    }

    fn made(
        len: u64,
        budget: &Budget,
        make: impl FnOnce() -> Result<(Mapping, OwnedFd), MemoryError>,
    ) -> Result<Self, WriteError> {
        let bytes = len.next_multiple_of(PAGE);
        let charge = budget.charge(bytes).ok_or_else(|| WriteError::budget(budget, bytes))?;
        let (mapping, fd) = make().map_err(|error| WriteError::Memory(Box::new(error)))?;
        Ok(Self { mapping: Arc::new(mapping), fd, _charge: charge })
    }

    pub(super) fn len(&self) -> u64 {
        self.mapping.len() as u64
    }
}
