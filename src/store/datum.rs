//! Borrowed values, as a host has them.
use std::borrow::Cow;

use rkyv::rancor::{BoxedError, Source};

use super::codec::{self, Encoded, largest_scalar, scalar, scalar_value, with_nul};
use crate::data::archive::ArchiveError;
use crate::data::{BadBytes, DataType, Key, Posted, Scope, Text, Value};

/// A value of a process as a host has it, borrowed.
#[derive(Debug, Clone)]
pub enum Datum<'a> {
    /// The little-endian bits of a value of at most 8 bytes, zero-extended, and its type.
    Scalar(DataType, u64),
    /// A STRING, without its NUL; `None` is a NULL.
    Text(Option<&'a [u8]>),
    /// A value of a type that is nothing but bytes: BYTE_OBJECT, REGEX, COMPRESSED_STRING, COMPRESSED_BYTE_OBJECT or
    /// DATA_BUFFER.
    Bytes(DataType, &'a [u8]),
    /// Any other value.
    Other(Cow<'a, Value>),
}

impl<'a> From<&'a Value> for Datum<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Datum::Text(text.as_ref().map(Text::as_bytes)),
            other => match scalar(other) {
                Some(bits) => Datum::Scalar(other.data_type(), bits),
                None => Datum::Other(Cow::Borrowed(other)),
            },
        }
    }
}

impl From<Value> for Datum<'_> {
    fn from(value: Value) -> Self {
        match scalar(&value) {
            Some(bits) => Datum::Scalar(value.data_type(), bits),
            None => Datum::Other(Cow::Owned(value)),
        }
    }
}

impl Datum<'_> {
    /// The type of the value.
    pub fn data_type(&self) -> DataType {
        match self {
            Datum::Scalar(ty, _) => *ty,
            Datum::Text(_) => DataType::STRING,
            Datum::Bytes(ty, _) => *ty,
            Datum::Other(value) => value.data_type(),
        }
    }

    /// Borrows this value.
    pub(super) fn reborrow(&self) -> Datum<'_> {
        match self {
            Datum::Scalar(ty, bits) => Datum::Scalar(*ty, *bits),
            Datum::Text(text) => Datum::Text(*text),
            Datum::Bytes(ty, bytes) => Datum::Bytes(*ty, bytes),
            Datum::Other(value) => Datum::Other(Cow::Borrowed(value)),
        }
    }

    /// The value, copied.
    ///
    /// # Errors
    /// [`ArchiveError`] where the type and what is given for it do not go together.
    pub fn to_value(&self) -> Result<Value, ArchiveError> {
        Ok(match self {
            Datum::Scalar(ty, bits) => scalar_value(*ty, *bits).ok_or_else(|| not_scalar(*ty, *bits))?,
            Datum::Text(None) => Value::String(None),
            Datum::Text(Some(text)) => Value::String(Some(Text::new(text).map_err(unfit)?)),
            Datum::Bytes(DataType::BYTE_OBJECT, bytes) => Value::ByteObject(bytes.to_vec()),
            Datum::Bytes(DataType::REGEX, bytes) => Value::Regex(bytes.to_vec()),
            Datum::Bytes(DataType::COMPRESSED_STRING, bytes) => Value::CompressedString(bytes.to_vec()),
            Datum::Bytes(DataType::COMPRESSED_BYTE_OBJECT, bytes) => Value::CompressedByteObject(bytes.to_vec()),
            Datum::Bytes(DataType::DATA_BUFFER, bytes) => Value::DataBuffer(bytes.to_vec()),
            Datum::Bytes(ty, _) => return Err(not_bytes(*ty)),
            Datum::Other(value) => value.clone().into_owned(),
        })
    }

    /// Looks whether type and content go together, of which only its maker knows.
    ///
    /// # Errors
    /// [`ArchiveError`] where they do not: a number that no value of the type has, bytes for a type that is not made of
    /// bytes, a text with a NUL in it, arrays in one another more deeply than can be stored.
    pub fn check(&self) -> Result<(), ArchiveError> {
        match self {
            Datum::Scalar(ty, bits) => check_scalar(*ty, *bits),
            Datum::Text(Some(text)) => check_text(text),
            Datum::Bytes(ty, _) if !BYTES.contains(ty) => Err(not_bytes(*ty)),
            Datum::Other(value) if value.is_too_deep() => Err(ArchiveError::too_deep()),
            _ => Ok(()),
        }
    }

    /// The value in the form in which a record takes it.
    pub(super) fn encode(&self) -> Result<Encoded<'_>, ArchiveError> {
        Ok(match self {
            Datum::Scalar(_, bits) => Encoded::Scalar(*bits),
            Datum::Text(None) => Encoded::Null,
            Datum::Text(Some(text)) => with_nul(text),
            Datum::Bytes(_, bytes) => Encoded::Bytes(bytes),
            Datum::Other(value) => codec::encode(value)?,
        })
    }

    /// The number it is, if it can be one of 32 bits.
    pub(in crate::store) fn as_u32(&self) -> Option<u32> {
        match self {
            Datum::Scalar(DataType::PROC_RANK | DataType::UINT32, bits) => Some(*bits as u32),
            Datum::Scalar(ty, bits) => scalar_value(*ty, *bits)?.as_u32(),
            Datum::Text(_) | Datum::Bytes(..) => None,
            Datum::Other(value) => value.as_u32(),
        }
    }
}

/// Types that are nothing but bytes.
const BYTES: [DataType; 5] = [
    DataType::BYTE_OBJECT,
    DataType::REGEX,
    DataType::COMPRESSED_STRING,
    DataType::COMPRESSED_BYTE_OBJECT,
    DataType::DATA_BUFFER,
];

/// Fault of a borrowed value whose type and content do not go together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotOfType(String);

#[cold]
fn not_scalar(ty: DataType, bits: u64) -> ArchiveError {
    unfit(NotOfType(match largest_scalar(ty) {
        Some(_) => format!("{bits:#x} is no value of type {ty}"),
        None => format!("values of type {ty} are not given as a number"),
    }))
}

#[cold]
fn not_bytes(ty: DataType) -> ArchiveError {
    unfit(NotOfType(format!("values of type {ty} are not given as plain bytes")))
}

/// Looks whether a value of a type has these bits.
pub(super) fn check_scalar(ty: DataType, bits: u64) -> Result<(), ArchiveError> {
    match largest_scalar(ty) {
        Some(largest) if bits <= largest => Ok(()),
        _ => Err(not_scalar(ty, bits)),
    }
}

/// Looks whether bytes are a text.
pub(super) fn check_text(text: &[u8]) -> Result<(), ArchiveError> {
    if !text.contains(&0) {
        return Ok(());
    }
    let at = text.iter().take_while(|byte| **byte != 0).count();
    Err(unfit(BadBytes::Nul { what: "a string", at }))
}

fn unfit(error: impl std::error::Error + Send + Sync + 'static) -> ArchiveError {
    ArchiveError::Unfit(BoxedError::new(error))
}

/// An entry of a commit whose value lies where its owner has it, as [`JobWriter::post`](super::JobWriter::post) takes it.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// The scope: LOCAL, REMOTE or GLOBAL.
    pub scope: Scope,
    /// The key.
    pub key: &'a Key,
    /// Its value.
    pub value: Datum<'a>,
}

impl<'a> From<&'a Posted> for Entry<'a> {
    fn from(posted: &'a Posted) -> Self {
        Self { scope: posted.scope, key: &posted.key, value: Datum::from(&posted.value) }
    }
}
