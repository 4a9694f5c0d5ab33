//! Values looked at in place, without a copy.
use std::cell::OnceCell;
use std::sync::Arc;

use instanton_layout::chain::Walk;
use instanton_layout::record::Query;

use super::encode::{RawValue, ReadError};
use super::info_view::InfoView;
use super::lookup::{Level, Lookup, Miss, Want};
use super::reader::{JobReader, Maps, in_scope};
use super::segment::AttachError;
use crate::data::{ArchivedValue, DataType, Value, archive};
use crate::sys::memory::Mapping;
use crate::sys::pin::{Hold, PinPage};

pub use crate::sys::pin::PinError;

/// The page on which a process says which epochs it holds, made by the writer ([`super::JobWriter::make_reader_page`]).
pub struct ReaderPage {
    pub(super) job: u64,
    pub(super) page: Arc<PinPage>,
}

impl ReaderPage {
    /// Maps a page that the server sent. The descriptor can be closed afterwards.
    ///
    /// # Errors
    /// [`AttachError`] names what is wrong with it.
    pub fn map(fd: std::os::fd::BorrowedFd<'_>) -> Result<Self, AttachError> {
        use instanton_layout::header::{Header, Kind};
        let mapping = Mapping::reader_page(fd)?;
        let header = Header::read(&mapping.words())?;
        if header.kind != Kind::Page || mapping.len() != instanton_layout::page::WORDS * 8 {
            return Err(AttachError::Unexpected(header.kind));
        }
        Ok(Self { job: header.job, page: Arc::new(PinPage::new(mapping).map_err(AttachError::Memory)?) })
    }
}

/// Keeps what is looked up through it in place: texts, bytes and whole arrays are read without a copy.
///
/// ```
/// use std::os::fd::AsFd;
/// use instanton::data::{ArchivedValue, DataArray, Key, Nspace, Rank, Value, constants::scope};
/// use instanton::store::{Have, JobInfo, JobReader, JobWriter, Limits, Lookup, MappedSegment, ReaderPage};
///
/// // A server writes; a client maps what it is sent.
/// let nspace = Nspace::new("job")?;
/// let info = JobInfo::from_infos(&nspace, 1, &[], "here")?;
/// let mut writer = JobWriter::create(&nspace, &info, &Limits::default())?;
/// let entries = [("text", Value::from("an endpoint")), ("array", DataArray::of(["one", "two"]).into())];
/// let entries = entries.map(|(key, value)| (scope::GLOBAL, Key::new(key).unwrap(), value));
/// writer.update(Rank(0), &entries)?;
/// let page = ReaderPage::map(writer.make_reader_page()?.as_fd())?;
/// let parts = writer.segments(&Have::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd));
/// let reader = JobReader::attach(parts.collect::<Result<_, _>>()?, Some(page))?;
///
/// // What is found lies in the shared memory, and stays there as long as the guard.
/// let guard = reader.pin()?;
/// let text = guard.get(&Lookup::new(Rank(0), "text"))?;
/// assert_eq!(text.bytes(), b"an endpoint\0");
/// let array = guard.get(&Lookup::new(Rank(0), "array"))?;
/// let Some(ArchivedValue::DataArray(array)) = array.archived()? else { panic!("no array") };
/// for item in array.items() {
///     let ArchivedValue::String(text) = item else { panic!("no text") };
///     assert_eq!(text.as_ref().map(|text| text.as_ref().len()), Some(3));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Guards belong to their thread, and nest. Hold one shortly: what is replaced meanwhile takes up memory until it is dropped.
pub struct Guard<'a> {
    reader: &'a JobReader,
    hold: Hold<'a>,
}

/// A value in shared memory, there as long as the guard is.
#[derive(Clone)]
pub struct ValueRef<'g> {
    raw: RawValue<'g>,
    bytes: &'g [u8],
    /// The bytes of a text that lies nowhere, once they were asked for.
    written: OnceCell<Box<[u8]>>,
}

impl<'g> ValueRef<'g> {
    /// Its type.
    pub fn data_type(&self) -> DataType {
        self.raw.data_type()
    }

    /// The little-endian bits of a value of at most 8 bytes.
    pub fn scalar(&self) -> Option<u64> {
        self.raw.scalar()
    }

    /// Whether it is a NULL string.
    pub fn is_null(&self) -> bool {
        self.raw.is_null()
    }

    /// The bytes of a string (with its NUL) or of a byte type; nothing of a scalar. Of other types they are an archive, of use only
    /// to [`ValueRef::to_value`].
    ///
    /// A text that follows from placement, like the list of another node's ranks, lies nowhere: it is written when this is called
    /// first. [`ValueRef::raw`] writes it into memory of the caller instead.
    pub fn bytes(&self) -> &[u8] {
        match self.raw.is_computed() {
            true => self.written.get_or_init(|| self.raw.to_bytes().into_boxed_slice()),
            false => self.bytes,
        }
    }

    /// The value where it lies, to copy it from there.
    pub fn raw(&self) -> &RawValue<'g> {
        &self.raw
    }

    /// A value that is an archive (arrays, processes, ...) where it lies; nothing of scalars, texts and bytes. The archive is checked at
    /// this call, and then as good as any reference.
    ///
    /// # Errors
    /// [`ReadError`] when the bytes are no value of their type.
    pub fn archived(&self) -> Result<Option<&'g ArchivedValue>, ReadError> {
        if !self.raw.is_archive() {
            return Ok(None);
        }
        let wrong = |_| ReadError::Value { data_type: self.data_type(), len: self.bytes.len() };
        archive::view::<Value>(self.bytes).map(Some).map_err(wrong)
    }

    /// The value, copied.
    ///
    /// # Errors
    /// [`ReadError`] when the bytes are no value of their type.
    pub fn to_value(&self) -> Result<Value, ReadError> {
        self.raw.to_value()
    }
}

/// Bytes of job information that stay where they are as long as this lives, whatever becomes of the reader: for interfaces that
/// hand out pointers.
pub struct Lasting {
    info: Arc<InfoView>,
    at: usize,
    len: usize,
}

impl AsRef<[u8]> for Lasting {
    fn as_ref(&self) -> &[u8] {
        self.info.frozen(self.at, self.len).unwrap_or_default()
    }
}

impl JobReader {
    /// The bytes of a string (with its NUL) or byte object of the job information, to be kept; `None` for a value of another type, or
    /// one that a rank has posted, whose memory is used again.
    ///
    /// # Errors
    /// [`Miss`] says why there is no value.
    pub fn lasting(&self, lookup: &Lookup<'_>) -> Result<Option<Lasting>, Miss> {
        let maps = self.maps();
        let posted = || self.contains(lookup).and_then(|found| if found { Ok(None) } else { Err(Miss::NotFound) });
        let Some(info) = &maps.info else { return posted() };
        let found = info.find(lookup, &Query::new(lookup.key)).map_err(ReadError::from)?;
        match found.map(|value| (value.data_type(), value.place())) {
            Some((DataType::STRING | DataType::BYTE_OBJECT, (at, len))) if len > 0 => {
                Ok(Some(Lasting { info: info.clone(), at, len }))
            }
            Some(_) => Ok(None),
            None => posted(),
        }
    }

    /// Takes a guard.
    ///
    /// # Errors
    /// [`PinError`] when the reader has no page, or no slot is free on it.
    #[inline]
    pub fn pin(&self) -> Result<Guard<'_>, PinError> {
        let page = self.page.as_ref().ok_or(PinError::NoPage)?;
        let hold = Hold::take(page, &self.job)?;
        Ok(Guard { reader: self, hold })
    }
}

impl Guard<'_> {
    /// Looks a value up where it lies.
    ///
    /// # Errors
    /// [`Miss`] says why there is no value.
    #[inline]
    pub fn get(&self, lookup: &Lookup<'_>) -> Result<ValueRef<'_>, Miss> {
        let (query, maps) = (Query::new(lookup.key), self.reader.held_maps(&self.hold));
        if let Some(info) = &maps.info {
            let mut found = None;
            info.get(lookup, &query, &mut found).map_err(ReadError::from)?;
            if let Some(raw) = found {
                let (at, len) = raw.place();
                let bytes = info.frozen(at, len).map_err(ReadError::from)?;
                return Ok(ValueRef { raw, bytes, written: OnceCell::new() });
            }
        }
        match lookup.level == Level::Default && lookup.rank.is_process() {
            true => self.posted(maps, lookup, &query),
            false => Err(self.reader.missing(maps)),
        }
    }

    #[inline(always)]
    fn posted<'g>(&'g self, maps: &'g Maps, lookup: &Lookup<'_>, query: &Query<'_>) -> Result<ValueRef<'g>, Miss> {
        // Of this function alone, so that they stay in registers.
        let (mut found, mut bytes, mut scope): (_, &[u8], _) = (None, &[], 0);
        let walk = self.hold.find(
            lookup.rank.0,
            |number| maps.modex(number).map(|segment| (&*segment.mapping, &segment.checked)),
            |record| record.find(query),
            |entry, words, of_value| {
                (found, bytes, scope) = (Some(RawValue::of_entry(words, entry)), of_value, entry.scope);
            },
        );
        match (walk, found) {
            (Walk::Found(()), Some(raw)) if in_scope(scope, lookup.scope) => {
                Ok(ValueRef { raw, bytes, written: OnceCell::new() })
            }
            (Walk::Found(()) | Walk::Absent, _) => Err(self.reader.missing(maps)),
            (Walk::Unmapped(number), _) => Err(Miss::Unmapped(Want::Modex(number))),
            (Walk::Changed, _) => Err(Miss::Busy),
            (Walk::Bad(error, _), _) => Err(ReadError::from(error).into()),
        }
    }
}
