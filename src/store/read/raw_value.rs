//! A value where it lies in shared memory.
use std::mem::MaybeUninit;

use instanton_layout::words::{RawWords, Words};

use crate::data::{DataType, Scope, Value};
use crate::store::error::ReadError;
use crate::store::info::generation::Generation;
use crate::store::value_cell::ValueCell;

/// A value where it lies; valid for the duration of the callback it is given to.
#[derive(Clone, Copy)]
pub struct RawValue<'a> {
    pub(super) words: RawWords<'a>,
    /// The generation that writes it, if it is a computed text.
    pub(super) writer: Option<&'a Generation>,
    pub(super) cell: &'a ValueCell,
}

impl<'a> RawValue<'a> {
    /// A value of a record, which lies in these words.
    #[inline(always)]
    pub(super) fn of_words(words: RawWords<'a>, cell: &'a ValueCell) -> Self {
        Self { words, writer: None, cell }
    }

    /// A value of job information, computed or not.
    #[inline(always)]
    pub(super) fn of_info(info: &'a Generation, cell: &'a ValueCell) -> Self {
        Self { words: info.raw(), writer: cell.is_computed().then_some(info), cell }
    }

    /// The type of the value.
    #[inline]
    pub fn data_type(&self) -> DataType {
        self.cell.data_type()
    }

    /// The scope it was put with; `UNDEF` for job information.
    pub fn scope(&self) -> Scope {
        self.cell.scope()
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

    /// Returns whether the bytes are an archive, of use only to [`RawValue::to_value`].
    #[inline]
    pub fn is_archive(&self) -> bool {
        self.cell.is_archive()
    }

    /// Returns whether the bytes lie nowhere: they are written when they are copied.
    #[inline]
    pub fn is_computed(&self) -> bool {
        self.cell.is_computed()
    }

    /// Bytes it has: of a string with its NUL, of a byte type, of an archive; 0 of a scalar.
    #[allow(clippy::len_without_is_empty, reason = "an empty byte object is a value like any other")]
    #[inline]
    pub fn len(&self) -> usize {
        self.cell.len
    }

    /// Copies its bytes, the first `to.len()` of them if that is less than [`RawValue::len`]. Answers how many were
    /// copied.
    #[inline]
    pub fn copy_to(&self, to: &mut [MaybeUninit<u8>]) -> usize {
        let len = self.cell.len.min(to.len());
        let copied = match self.writer {
            Some(info) => info.write_text(self.cell, &mut to[..len]),
            None => self.words.copy_to(self.cell.word, &mut to[..len]),
        };
        match copied {
            Ok(()) => len,
            Err(_) => 0,
        }
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let bytes = match self.writer {
            Some(info) => info.text(self.cell),
            None => self.words.to_vec(self.cell.word, self.cell.len),
        };
        bytes.unwrap_or_default()
    }

    /// The value, copied.
    ///
    /// # Errors
    /// [`ReadError`] when the bytes are no value of their type.
    pub fn to_value(&self) -> Result<Value, ReadError> {
        self.cell.decode(self.to_bytes())
    }
}
