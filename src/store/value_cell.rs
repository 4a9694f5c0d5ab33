//! A value of a segment, described without the memory that it lies in.
use instanton_layout::record::{Entry, flags};

use super::codec::scalar_value;
use super::error::ReadError;
use crate::data::{DataType, Nspace, Scope, Text, Value, archive};

/// Flag of a text that is written when it is read; no record has it.
const COMPUTED: u8 = 0x80;

/// The place, type and flags of a value in its segment.
#[derive(Clone, Copy)]
pub(super) struct ValueCell {
    /// The word where its bytes begin; of a computed text a number that says which.
    pub(super) word: usize,
    /// Bytes of it.
    pub(super) len: usize,
    /// The value itself where it is inline; of a computed text what else says which.
    pub(super) scalar: u64,
    data_type: u16,
    flags: u8,
    scope: Scope,
}

impl ValueCell {
    /// The value of a record's entry.
    #[inline(always)]
    pub(super) fn of_entry(entry: &Entry) -> Self {
        Self {
            word: entry.value_word,
            len: entry.value_len,
            scalar: entry.scalar,
            data_type: entry.data_type,
            flags: entry.flags & !COMPUTED,
            scope: Scope(entry.scope),
        }
    }

    /// A value of at most 8 bytes.
    #[inline]
    pub(super) fn of_scalar(data_type: DataType, scalar: u64) -> Self {
        Self { word: 0, len: 0, scalar, data_type: data_type.0, flags: flags::INLINE, scope: Scope::UNDEF }
    }

    /// The `len` bytes of a string from `word`; a NULL has none.
    #[inline]
    pub(super) fn of_string(data_type: DataType, word: usize, len: usize) -> Self {
        let flags = if len == 0 { flags::INLINE | flags::NULL } else { 0 };
        Self { word, len, scalar: 0, data_type: data_type.0, flags, scope: Scope::UNDEF }
    }

    /// A text of `len` bytes that is computed; `word` and `what` say which.
    #[inline]
    pub(super) fn of_text(data_type: DataType, word: usize, what: u64, len: usize) -> Self {
        Self { word, len, scalar: what, data_type: data_type.0, flags: COMPUTED, scope: Scope::UNDEF }
    }

    #[inline]
    pub(super) fn data_type(&self) -> DataType {
        DataType(self.data_type)
    }

    #[inline]
    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// The little-endian bits of a value of at most 8 bytes.
    #[inline]
    pub(super) fn scalar(&self) -> Option<u64> {
        (self.flags & (flags::INLINE | flags::NULL) == flags::INLINE).then_some(self.scalar)
    }

    #[inline]
    pub(super) fn is_null(&self) -> bool {
        self.flags & flags::NULL != 0
    }

    #[inline]
    pub(super) fn is_archive(&self) -> bool {
        self.flags & flags::ARCHIVE != 0
    }

    #[inline]
    pub(super) fn is_computed(&self) -> bool {
        self.flags & COMPUTED != 0
    }

    /// The word where its bytes begin, and how many there are. Of a computed text there are none.
    #[inline]
    pub(super) fn place(&self) -> (usize, usize) {
        if self.is_computed() { (0, 0) } else { (self.word, self.len) }
    }

    /// The value that these bytes of the cell are.
    ///
    /// # Errors
    /// [`ReadError`] when they are no value of its type.
    pub(super) fn decode(&self, bytes: Vec<u8>) -> Result<Value, ReadError> {
        use Value as V;
        let ty = self.data_type();
        let wrong = || ReadError::Value { data_type: ty, len: self.len };
        if self.is_archive() {
            let value: Value = archive::decode(&bytes).map_err(|_| wrong())?;
            return if value.data_type() == ty { Ok(value) } else { Err(wrong()) };
        }
        if self.is_null() {
            return if ty == DataType::STRING { Ok(V::String(None)) } else { Err(wrong()) };
        }
        if let Some(bits) = self.scalar() {
            return scalar_value(ty, bits).ok_or_else(wrong);
        }
        let without_nul = |mut bytes: Vec<u8>| if bytes.pop() == Some(0) { Ok(bytes) } else { Err(wrong()) };
        match ty {
            DataType::STRING => Ok(V::String(Some(Text::new(without_nul(bytes)?).map_err(|_| wrong())?))),
            DataType::PROC_NSPACE => Ok(V::ProcNspace(Nspace::new(without_nul(bytes)?).map_err(|_| wrong())?)),
            DataType::BYTE_OBJECT => Ok(V::ByteObject(bytes)),
            DataType::COMPRESSED_STRING => Ok(V::CompressedString(bytes)),
            DataType::DATA_BUFFER => Ok(V::DataBuffer(bytes)),
            DataType::REGEX => Ok(V::Regex(bytes)),
            DataType::COMPRESSED_BYTE_OBJECT => Ok(V::CompressedByteObject(bytes)),
            _ => Err(wrong()),
        }
    }
}
