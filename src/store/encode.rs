//! Values as bytes of a record, and back.
//!
//! Scalars of at most 8 bytes lie in the entry itself, as the little-endian bits of their C type. Strings (with their NUL), byte
//! objects, regular expressions and the compressed types lie as they are. Everything else is an archive, validated to a limited
//! depth at each decoding.
use std::mem::MaybeUninit;

use instanton_layout::Malformed;
use instanton_layout::record::{Entry, Item, Payload, flags};
use instanton_layout::words::{RawWords, Words};

use super::info_view::InfoView;
use crate::data::archive::{self, ArchiveError};
use crate::data::{Channels, DataRange, DataType, Key, Nspace, Rank, Scope, Status, Text, Value};

/// Shared bytes that are no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// They do not even have the form of a record.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// They are no value of their type.
    #[error("{len} bytes are no {data_type}")]
    Value {
        /// The type.
        data_type: DataType,
        /// How many bytes.
        len: usize,
    },
}

/// A value in the form in which a record takes it.
pub(super) enum Encoded<'a> {
    Scalar(u64),
    Null,
    Bytes(&'a [u8]),
    Owned(Vec<u8>),
    Archive(rkyv::util::AlignedVec),
}

/// A key and its value, ready for a record.
pub(super) struct Encode<'a> {
    key: &'a Key,
    scope: Scope,
    data_type: DataType,
    encoded: Encoded<'a>,
}

impl<'a> Encode<'a> {
    pub(super) fn new(scope: Scope, key: &'a Key, value: &'a Value) -> Result<Self, ArchiveError> {
        Ok(Self { key, scope, data_type: value.data_type(), encoded: encode(value)? })
    }

    pub(super) fn item(&self) -> Item<'_> {
        let payload = payload(&self.encoded);
        Item { key: self.key.as_bytes(), scope: self.scope.0, data_type: self.data_type.0, payload }
    }
}

pub(super) fn payload<'a>(encoded: &'a Encoded<'_>) -> Payload<'a> {
    match encoded {
        Encoded::Scalar(scalar) => Payload::Scalar(*scalar),
        Encoded::Null => Payload::Null,
        Encoded::Bytes(bytes) => Payload::Bytes(bytes),
        Encoded::Owned(bytes) => Payload::Bytes(bytes),
        Encoded::Archive(bytes) => Payload::Archive(bytes),
    }
}

pub(super) fn with_nul(text: &[u8]) -> Encoded<'static> {
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text);
    bytes.push(0);
    Encoded::Owned(bytes)
}

/// The bits of a value of at most 8 bytes.
pub(super) fn scalar(value: &Value) -> Option<u64> {
    use Value as V;
    Some(match value {
        V::Undef => 0,
        V::Bool(v) => u64::from(*v),
        V::Byte(v)
        | V::Uint8(v)
        | V::Persist(v)
        | V::Command(v)
        | V::ProcState(v)
        | V::AllocDirective(v)
        | V::JobState(v)
        | V::LinkState(v)
        | V::ResblockDirective(v)
        | V::AllocInherit(v) => u64::from(*v),
        V::Uint16(v) | V::Loctype(v) | V::StorAccessType(v) => u64::from(*v),
        V::Uint(v) | V::Uint32(v) | V::InfoDirectives(v) => u64::from(*v),
        V::Size(v)
        | V::Uint64(v)
        | V::Pointer(v)
        | V::Devtype(v)
        | V::StorMedium(v)
        | V::StorAccess(v)
        | V::StorPersist(v) => *v,
        V::Int8(v) => u64::from(*v as u8),
        V::Int16(v) => u64::from(*v as u16),
        V::Pid(v) | V::Int(v) | V::Int32(v) => u64::from(*v as u32),
        V::Int64(v) | V::Time(v) => *v as u64,
        V::Float(v) => u64::from(v.to_bits()),
        V::Double(v) => v.to_bits(),
        V::Scope(v) => u64::from(v.0),
        V::DataRange(v) => u64::from(v.0),
        V::IofChannel(v) => u64::from(v.0),
        V::Status(v) => u64::from(v.0 as u32),
        V::DataType(v) => u64::from(v.0),
        V::ProcRank(v) => u64::from(v.0),
        _ => return None,
    })
}

pub(super) fn encode(value: &Value) -> Result<Encoded<'_>, ArchiveError> {
    use Value as V;
    if let Some(bits) = scalar(value) {
        return Ok(Encoded::Scalar(bits));
    }
    Ok(match value {
        V::String(None) => Encoded::Null,
        V::String(Some(text)) => with_nul(text.as_bytes()),
        V::ProcNspace(name) => with_nul(name.as_bytes()),
        V::ByteObject(v) | V::CompressedString(v) | V::Regex(v) | V::CompressedByteObject(v) | V::DataBuffer(v) => {
            Encoded::Bytes(v)
        }
        other => Encoded::Archive(archive::encode(other)?),
    })
}

/// Flag of a value that is written when it is read; no record has it.
const COMPUTED: u8 = 0x80;

/// A value where it lies; valid for the duration of the callback it is given to.
#[derive(Clone, Copy)]
pub struct RawValue<'a> {
    words: RawWords<'a>,
    word: usize,
    len: usize,
    scalar: u64,
    /// Where a computed text comes from.
    view: Option<&'a InfoView>,
    data_type: u16,
    flags: u8,
    scope: Scope,
}

/// A value of job information, without the memory that it lies in.
#[derive(Clone, Copy)]
pub(super) struct Unbound {
    word: usize,
    len: usize,
    scalar: u64,
    data_type: u16,
    flags: u8,
    scope: Scope,
}

impl Unbound {
    /// The value again. `view` must be the one that it was found in.
    #[inline(always)]
    pub(super) fn bind(self, view: &InfoView) -> RawValue<'_> {
        let Self { word, len, scalar, data_type, flags, scope } = self;
        let computed = (flags & COMPUTED != 0).then_some(view);
        RawValue { words: view.mapping.words(), word, len, scalar, view: computed, data_type, flags, scope }
    }
}

impl<'a> RawValue<'a> {
    /// What of it lasts longer than the mapping.
    pub(super) fn unbound(&self) -> Unbound {
        let Self { word, len, scalar, data_type, flags, scope, .. } = *self;
        Unbound { word, len, scalar, data_type, flags, scope }
    }

    #[inline(always)]
    pub(super) fn of_entry(words: RawWords<'a>, entry: &Entry) -> Self {
        Self {
            words,
            word: entry.value_word,
            len: entry.value_len,
            scalar: entry.scalar,
            view: None,
            data_type: entry.data_type,
            flags: entry.flags & !COMPUTED,
            scope: Scope(entry.scope),
        }
    }

    #[inline]
    pub(super) fn of_scalar(words: RawWords<'a>, data_type: DataType, scalar: u64) -> Self {
        Self {
            words,
            word: 0,
            len: 0,
            scalar,
            view: None,
            data_type: data_type.0,
            flags: flags::INLINE,
            scope: Scope::UNDEF,
        }
    }

    /// The `len` bytes of a string from `word`; a NULL has none.
    #[inline]
    pub(super) fn of_string(words: RawWords<'a>, data_type: DataType, word: usize, len: usize) -> Self {
        let flags = if len == 0 { flags::INLINE | flags::NULL } else { 0 };
        Self { words, word, len, scalar: 0, view: None, data_type: data_type.0, flags, scope: Scope::UNDEF }
    }

    /// A text of `len` bytes that the view writes; `word` and `what` tell it which.
    #[inline]
    pub(super) fn of_text(view: &'a InfoView, data_type: DataType, word: usize, what: u64, len: usize) -> Self {
        let words = view.mapping.words();
        Self {
            words,
            word,
            len,
            scalar: what,
            view: Some(view),
            data_type: data_type.0,
            flags: COMPUTED,
            scope: Scope::UNDEF,
        }
    }

    /// Its type.
    #[inline]
    pub fn data_type(&self) -> DataType {
        DataType(self.data_type)
    }

    /// The scope it was put with; `UNDEF` for job information.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The little-endian bits of a value of at most 8 bytes.
    #[inline]
    pub fn scalar(&self) -> Option<u64> {
        (self.flags & (flags::INLINE | flags::NULL) == flags::INLINE).then_some(self.scalar)
    }

    /// Whether it is a NULL string.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.flags & flags::NULL != 0
    }

    /// Whether the bytes are an archive, of use only to [`RawValue::to_value`].
    #[inline]
    pub fn is_archive(&self) -> bool {
        self.flags & flags::ARCHIVE != 0
    }

    /// Whether its bytes lie nowhere: they are written when they are copied.
    #[inline]
    pub fn is_computed(&self) -> bool {
        self.flags & COMPUTED != 0
    }

    /// Bytes it has: of a string with its NUL, of a byte type, of an archive; 0 of a scalar.
    #[allow(clippy::len_without_is_empty, reason = "an empty byte object is a value like any other")]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies its bytes, the first `to.len()` of them if that is less than [`RawValue::len`]. Answers how many were copied.
    #[inline]
    pub fn copy_to(&self, to: &mut [MaybeUninit<u8>]) -> usize {
        let len = self.len.min(to.len());
        let copied = match self.view {
            Some(view) => view.write_text(self, &mut to[..len]),
            None => self.words.copy_to(self.word, &mut to[..len]),
        };
        match copied {
            Ok(()) => len,
            Err(_) => 0,
        }
    }

    /// What tells which text is computed.
    #[inline]
    pub(super) fn what(&self) -> (usize, u64) {
        (self.word, self.scalar)
    }

    /// The word where its bytes begin, and how many there are. Of a computed text there are none.
    #[inline]
    pub(super) fn place(&self) -> (usize, usize) {
        if self.is_computed() { (0, 0) } else { (self.word, self.len) }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        if let Some(view) = self.view {
            return view.text(&self).unwrap_or_default();
        }
        self.words.to_vec(self.word, self.len).unwrap_or_default()
    }

    /// The value, copied.
    ///
    /// # Errors
    /// [`ReadError`] when the bytes are no value of their type.
    pub fn to_value(&self) -> Result<Value, ReadError> {
        use Value as V;
        let ty = self.data_type();
        let wrong = || ReadError::Value { data_type: ty, len: self.len };
        if self.is_archive() {
            let value: Value = archive::decode(&self.to_bytes()).map_err(|_| wrong())?;
            return if value.data_type() == ty { Ok(value) } else { Err(wrong()) };
        }
        if self.is_null() {
            return if ty == DataType::STRING { Ok(V::String(None)) } else { Err(wrong()) };
        }
        let text = || {
            let mut bytes = self.to_bytes();
            if bytes.pop() == Some(0) { Ok(bytes) } else { Err(wrong()) }
        };
        let Some(bits) = self.scalar() else {
            return match ty {
                DataType::STRING => Ok(V::String(Some(Text::new(text()?).map_err(|_| wrong())?))),
                DataType::PROC_NSPACE => Ok(V::ProcNspace(Nspace::new(text()?).map_err(|_| wrong())?)),
                DataType::BYTE_OBJECT => Ok(V::ByteObject(self.to_bytes())),
                DataType::COMPRESSED_STRING => Ok(V::CompressedString(self.to_bytes())),
                DataType::DATA_BUFFER => Ok(V::DataBuffer(self.to_bytes())),
                DataType::REGEX => Ok(V::Regex(self.to_bytes())),
                DataType::COMPRESSED_BYTE_OBJECT => Ok(V::CompressedByteObject(self.to_bytes())),
                _ => Err(wrong()),
            };
        };
        scalar_value(ty, bits).ok_or_else(wrong)
    }
}

/// The value with these bits, if it is of a type of at most 8 bytes.
pub(super) fn scalar_value(ty: DataType, bits: u64) -> Option<Value> {
    use Value as V;
    Some(match ty {
        DataType::UNDEF => V::Undef,
        DataType::BOOL => V::Bool(bits != 0),
        DataType::BYTE => V::Byte(bits as u8),
        DataType::SIZE => V::Size(bits),
        DataType::PID => V::Pid(bits as i32),
        DataType::INT => V::Int(bits as i32),
        DataType::INT8 => V::Int8(bits as i8),
        DataType::INT16 => V::Int16(bits as i16),
        DataType::INT32 => V::Int32(bits as i32),
        DataType::INT64 => V::Int64(bits as i64),
        DataType::UINT => V::Uint(bits as u32),
        DataType::UINT8 => V::Uint8(bits as u8),
        DataType::UINT16 => V::Uint16(bits as u16),
        DataType::UINT32 => V::Uint32(bits as u32),
        DataType::UINT64 => V::Uint64(bits),
        DataType::FLOAT => V::Float(f32::from_bits(bits as u32)),
        DataType::DOUBLE => V::Double(f64::from_bits(bits)),
        DataType::TIME => V::Time(bits as i64),
        DataType::STATUS => V::Status(Status(bits as i32)),
        DataType::PERSIST => V::Persist(bits as u8),
        DataType::POINTER => V::Pointer(bits),
        DataType::SCOPE => V::Scope(Scope(bits as u8)),
        DataType::DATA_RANGE => V::DataRange(DataRange(bits as u8)),
        DataType::COMMAND => V::Command(bits as u8),
        DataType::INFO_DIRECTIVES => V::InfoDirectives(bits as u32),
        DataType::DATA_TYPE => V::DataType(DataType(bits as u16)),
        DataType::PROC_STATE => V::ProcState(bits as u8),
        DataType::PROC_RANK => V::ProcRank(Rank(bits as u32)),
        DataType::ALLOC_DIRECTIVE => V::AllocDirective(bits as u8),
        DataType::IOF_CHANNEL => V::IofChannel(Channels(bits as u16)),
        DataType::JOB_STATE => V::JobState(bits as u8),
        DataType::LINK_STATE => V::LinkState(bits as u8),
        DataType::DEVTYPE => V::Devtype(bits),
        DataType::LOCTYPE => V::Loctype(bits as u16),
        DataType::STOR_MEDIUM => V::StorMedium(bits),
        DataType::STOR_ACCESS => V::StorAccess(bits),
        DataType::STOR_PERSIST => V::StorPersist(bits),
        DataType::STOR_ACCESS_TYPE => V::StorAccessType(bits as u16),
        DataType::RESBLOCK_DIRECTIVE => V::ResblockDirective(bits as u8),
        DataType::ALLOC_INHERIT => V::AllocInherit(bits as u8),
        _ => return None,
    })
}
