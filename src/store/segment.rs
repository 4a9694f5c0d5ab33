//! Segments of a job: made by the writer, mapped by readers.
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use instanton_layout::header::{Header, Kind};
use instanton_layout::info::Built;

use super::budget::{Budget, Charge, Share};
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

    /// Maps a descriptor of a named segment, which is not sealed. The owner of the file is trusted not to shorten it
    /// while it is mapped, which would end this process with SIGBUS, and not to change what it has in it.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    #[cfg(feature = "named-segments")]
    pub fn map_trusting_owner(fd: BorrowedFd<'_>) -> Result<Self, AttachError> {
        let mapping = Mapping::of_trusted(fd)?;
        mapping.populate(0, FIRST);
        Self::check(Arc::new(mapping))
    }

    /// Copies a segment from a file, for whoever trusts nobody: nothing stays mapped, and where the file is shortened
    /// meanwhile, that is an error.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    #[cfg(feature = "named-segments")]
    pub fn copy(file: &std::fs::File) -> Result<Self, AttachError> {
        Self::check(Arc::new(Mapping::copy_of(file)?))
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
    /// Closed before the mapping goes, with which the memory is given back.
    pub(super) fd: OwnedFd,
    pub(super) mapping: Arc<Mapping>,
    /// Bytes from its beginning that the system has given memory for.
    pub(super) taken: usize,
    pub(super) charge: Arc<Charge>,
    _file: Place,
}

/// The place of a segment: nowhere, because its memory is anonymous, or a file.
#[cfg(not(feature = "named-segments"))]
type Place = ();
#[cfg(feature = "named-segments")]
type Place = Option<super::named::NamedFile>;

/// The place of all segments of a job: nowhere, or under a name.
#[cfg(not(feature = "named-segments"))]
pub(super) struct Places;
#[cfg(feature = "named-segments")]
pub(super) type Places = Option<Arc<super::named::Place>>;

/// The place of anonymous memory.
#[cfg(not(feature = "named-segments"))]
pub(super) const NOWHERE: Places = Places;
#[cfg(feature = "named-segments")]
pub(super) const NOWHERE: Places = None;

/// Longest name that the kernel takes for a memfd.
const LONGEST_LABEL: usize = 249;

/// The name of a segment's memory: what it is, and of which namespace, cut where it is too long. It is seen in
/// `/proc/PID/maps`, behind the descriptors in `/proc/PID/fd`, and in the list of mapped files of a core dump; nothing
/// goes by it. With it comes the place where the memory is made.
pub(super) struct Label {
    name: Vec<u8>,
    #[cfg(feature = "named-segments")]
    file: Option<(Arc<super::named::Place>, &'static str)>,
}

impl Label {
    #[cfg_attr(not(feature = "named-segments"), expect(unused_variables, reason = "there is one place"))]
    pub(super) fn new(kind: &'static str, nspace: &Nspace, places: &Places) -> Self {
        let name = [b"instanton-", kind.as_bytes(), b":", nspace.as_bytes()].concat();
        Self {
            name: name[..name.len().min(LONGEST_LABEL)].to_vec(),
            #[cfg(feature = "named-segments")]
            file: places.clone().map(|place| (place, kind)),
        }
    }

    /// Makes the file of a segment, where it is one.
    #[cfg(feature = "named-segments")]
    fn file(&self, number: u64) -> Result<Option<super::named::NewFile>, WriteError> {
        let made = self.file.as_ref().map(|(place, kind)| place.create(kind, number));
        made.transpose().map_err(|error| WriteError::Memory(Box::new(error)))
    }
}

/// Memory comes in pages.
const PAGE: u64 = 4096;

/// Takes room for a segment of so many bytes.
fn charged(budget: &Budget, len: u64, share: Share) -> Result<Charge, WriteError> {
    let bytes = len.next_multiple_of(PAGE);
    let charge = match share {
        Share::Open => budget.charge(bytes),
        Share::Kept => budget.charge_kept(bytes),
    };
    charge.ok_or_else(|| WriteError::budget(budget, bytes))
}

#[cfg_attr(not(feature = "named-segments"), expect(unused_variables, reason = "memory has no number"))]
impl OwnSegment {
    /// Makes a segment; its number tells it from others of its kind. Memory for what is behind its
    /// [first bytes](Self::taken) is [taken](Mapping::take) when it is needed.
    pub(super) fn create(
        label: &Label,
        number: u64,
        len: u64,
        (budget, share): (&Budget, Share),
    ) -> Result<Self, WriteError> {
        let charge = charged(budget, len, share)?;
        #[cfg(feature = "named-segments")]
        if let Some(new) = label.file(number)? {
            let made = memory::segment_in(new.writable, len).map(|mapping| (mapping, new.readable));
            return Ok(Self { _file: Some(new.file), ..Self::made(charge, made)? });
        }
        let mut taken = 0;
        let made = memory::segment(&label.name, len).map(|(mapping, fd, first)| {
            taken = first;
            (mapping, fd)
        });
        let made = Self::made(charge, made)?;
        Ok(Self { taken, ..made })
    }

    /// Makes a segment that has these words and changes no more.
    pub(super) fn written(
        label: &Label,
        number: u64,
        words: Built<Scratch<u64>>,
        budget: &Budget,
    ) -> Result<Self, WriteError> {
        let len = words.len() as u64 * 8;
        let charge = charged(budget, len, Share::Open)?;
        #[cfg(feature = "named-segments")]
        if let Some(new) = label.file(number)? {
            let write = |write: &mut dyn FnMut(&[u64]) -> _| words.write(write);
            let made = memory::frozen_segment_in(new.writable, new.readable, len, write);
            return Ok(Self { _file: Some(new.file), ..Self::made(charge, made)? });
        }
        Self::made(charge, memory::frozen_segment(&label.name, len, |write| words.write(write)))
    }

    fn made(charge: Charge, made: Result<(Mapping, OwnedFd), MemoryError>) -> Result<Self, WriteError> {
        let (mut mapping, fd) = made.map_err(|error| WriteError::Memory(Box::new(error)))?;
        mapping.own();
        let taken = mapping.len();
        Ok(Self { fd, mapping: Arc::new(mapping), taken, charge: Arc::new(charge), _file: Place::default() })
    }

    pub(super) fn len(&self) -> u64 {
        self.mapping.len() as u64
    }
}
