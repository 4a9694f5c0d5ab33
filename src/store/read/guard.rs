//! Values looked at in place, without a copy.
use std::borrow::Cow;
use std::sync::Arc;

use instanton_layout::chain::Walk;
use instanton_layout::words::RawWords;

use super::question::Question;
use super::raw_value::RawValue;
use super::reader::{JobReader, Maps};
use super::view::InfoView;
use crate::data::{ArchivedValue, DataType, Scope, Value, archive};
use crate::store::error::{Miss, PinError, ReadError};
use crate::store::ids::Want;
use crate::store::info::generation::Generation;
use crate::store::value_cell::ValueCell;
use crate::sys::pin::Hold;

/// Keeps what is looked up through it in place: texts, bytes and whole arrays are read without a copy.
///
/// ```
/// use std::os::fd::AsFd;
/// use instanton::data::{ArchivedValue, DataArray, Key, Nspace, Posted, Rank, Scope, Value};
/// use instanton::store::{Have, JobInfo, JobReader, JobWriter, Limits, MappedSegment, Question, ReaderPage};
///
/// // A server writes; a client maps what it is sent.
/// let nspace = Nspace::new("job")?;
/// let info = JobInfo::from_infos(&nspace, 1, &[], "here")?;
/// let mut writer = JobWriter::create(&nspace, info, &Limits::default())?;
/// let entries = [("text", Value::from("an endpoint")), ("array", DataArray::of(["one", "two"]).into())];
/// let entries = entries.map(|(key, value)| Posted::new(Scope::GLOBAL, Key::new(key).unwrap(), value));
/// writer.update(Rank(0), &entries)?;
/// let page = ReaderPage::map(writer.make_reader_page()?.as_fd())?;
/// let parts = writer.segments(&Have::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd));
/// let reader = JobReader::attach(parts.collect::<Result<_, _>>()?, Some(page))?;
///
/// // A value that is found lies in the shared memory, and stays there as long as the guard.
/// let guard = reader.pin()?;
/// let text = guard.get(&Question::new(Rank(0), "text"))?;
/// assert_eq!(text.bytes(), b"an endpoint\0".as_slice());
/// let array = guard.get(&Question::new(Rank(0), "array"))?;
/// let Some(ArchivedValue::DataArray(array)) = array.archived()? else { panic!("no array") };
/// for item in array.items() {
///     let ArchivedValue::String(text) = item else { panic!("no text") };
///     assert_eq!(text.as_ref().map(|text| text.as_ref().len()), Some(3));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Guards belong to their thread, and nest. Hold one shortly: what is replaced meanwhile takes up memory until it is
/// dropped.
pub struct Guard<'a> {
    reader: &'a JobReader,
    hold: Hold<'a>,
}

/// A value in shared memory, there as long as the guard is.
///
/// Nothing of it is handed on by reference, so that a program that looks at some of it copies no more than that: a
/// processor waits where it is to load in one piece what it has just stored in others.
#[derive(Clone, Copy)]
pub struct ValueRef<'g> {
    words: RawWords<'g>,
    /// The generation that writes it, if it is a computed text.
    writer: Option<&'g Generation>,
    cell: ValueCell,
    bytes: &'g [u8],
}

impl<'g> ValueRef<'g> {
    /// The type of the value.
    #[inline]
    pub fn data_type(&self) -> DataType {
        self.cell.data_type()
    }

    /// The little-endian bits of a value of at most 8 bytes.
    #[inline]
    pub fn scalar(&self) -> Option<u64> {
        self.cell.scalar()
    }

    /// Returns whether the value is a NULL string.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.cell.is_null()
    }

    /// The bytes of a string (with its NUL) or of a byte type; nothing of a scalar. Of other types they are an archive,
    /// of use only to [`ValueRef::to_value`].
    ///
    /// A text that follows from placement, like the list of another node's ranks, lies nowhere: it is written by this
    /// call. [`ValueRef::raw`] writes it into memory of the caller instead.
    #[inline]
    pub fn bytes(&self) -> Cow<'g, [u8]> {
        match self.cell.is_computed() {
            true => Cow::Owned(self.raw().to_bytes()),
            false => Cow::Borrowed(self.bytes),
        }
    }

    /// The value where it lies, to copy it from there.
    pub fn raw(&self) -> RawValue<'_> {
        RawValue { words: self.words, writer: self.writer, cell: &self.cell }
    }

    /// A value that is an archive (arrays, processes, ...) where it lies; nothing of scalars, texts and bytes. The
    /// archive is checked at this call, and then as good as any reference.
    ///
    /// # Errors
    /// [`ReadError`] when the bytes are no value of their type.
    pub fn archived(&self) -> Result<Option<&'g ArchivedValue>, ReadError> {
        if !self.cell.is_archive() {
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
        self.raw().to_value()
    }
}

/// Bytes of job information that stay where they are as long as this lives, whatever becomes of the reader: for
/// interfaces that hand out pointers.
pub struct Lasting {
    view: Arc<InfoView>,
    at: usize,
    len: usize,
}

impl AsRef<[u8]> for Lasting {
    fn as_ref(&self) -> &[u8] {
        self.view.generation.frozen(self.at, self.len).unwrap_or_default()
    }
}

impl JobReader {
    /// The bytes of a string (with its NUL) or byte object of the job information, to be kept; `None` for a value of
    /// another type, or one that a rank has posted, whose memory is used again.
    ///
    /// # Errors
    /// [`Miss`] says why there is no value.
    pub fn lasting(&self, question: &Question<'_>) -> Result<Option<Lasting>, Miss> {
        let maps = self.maps();
        let posted = || self.contains(question).and_then(|found| if found { Ok(None) } else { Err(Miss::NotFound) });
        let Some(view) = &maps.view else { return posted() };
        let mut found = None;
        view.find(question, &mut found).map_err(ReadError::from)?;
        match found.map(|cell| (cell.data_type(), cell.place())) {
            Some((DataType::STRING | DataType::BYTE_OBJECT, (at, len))) if len > 0 => {
                Ok(Some(Lasting { view: view.clone(), at, len }))
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
    #[inline(always)]
    pub fn get(&self, question: &Question<'_>) -> Result<ValueRef<'_>, Miss> {
        let maps = self.reader.held_maps(&self.hold);
        if let Some(view) = &maps.view {
            if let Some(raw) = view.recall(question) {
                return Self::of_info(view, *raw.cell);
            }
            let mut found = None;
            view.look(question, &mut found).map_err(ReadError::from)?;
            if let Some(cell) = found {
                return Self::of_info(view, cell);
            }
        }
        match question.has_default_level() && question.rank.is_process() {
            true => self.posted(maps, question),
            false => Err(self.reader.missing(maps)),
        }
    }

    #[inline(always)]
    fn of_info<'g>(view: &'g InfoView, cell: ValueCell) -> Result<ValueRef<'g>, Miss> {
        let info = &view.generation;
        let bytes = match cell.place() {
            (_, 0) => &[],
            (at, len) => info.frozen(at, len).map_err(ReadError::from)?,
        };
        Ok(ValueRef { words: info.raw(), writer: cell.is_computed().then_some(info), cell, bytes })
    }

    #[inline(always)]
    fn posted<'g>(&'g self, maps: &'g Maps, question: &Question<'_>) -> Result<ValueRef<'g>, Miss> {
        let segment = |number| maps.modex.get(number).map(|segment| (&*segment.mapping, &*segment.checked));
        match self.hold.find(question.rank.0, segment, &question.key) {
            Walk::Found((entry, words, bytes)) if Scope(entry.scope).answers(question.directives.scope) => {
                Ok(ValueRef { words, writer: None, cell: ValueCell::of_entry(&entry), bytes })
            }
            Walk::Found(_) | Walk::Absent => Err(self.reader.missing(maps)),
            Walk::Unmapped(number) => Err(Miss::Unmapped(Want::Modex(number))),
            Walk::Changed => Err(Miss::Busy),
            Walk::Bad(error, _) => Err(ReadError::from(error).into()),
        }
    }
}
