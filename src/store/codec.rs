//! Values as bytes of a record, and back.
//!
//! Scalars of at most 8 bytes lie in the entry itself, as the little-endian bits of their C type. Strings (with their
//! NUL), byte objects, regular expressions and the compressed types lie as they are. Everything else is an archive,
//! validated to a limited depth at each decoding.
use instanton_layout::record::{Item, Payload};

use crate::data::archive::{self, ArchiveError};
use crate::data::{DataType, Key, Scope, Value};

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
        Ok(Self::of(scope, key, value.data_type(), encode(value)?))
    }

    /// A value that has been encoded.
    pub(super) fn of(scope: Scope, key: &'a Key, data_type: DataType, encoded: Encoded<'a>) -> Self {
        Self { key, scope, data_type, encoded }
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

/// The bits of a value of at most 8 bytes. An undefined value has none set.
pub(super) fn scalar(value: &Value) -> Option<u64> {
    if matches!(value, Value::Undef) { Some(0) } else { value.to_word() }
}

/// The value with these bits, if it is of a type of at most 8 bytes.
pub(super) fn scalar_value(ty: DataType, bits: u64) -> Option<Value> {
    if ty == DataType::UNDEF { Some(Value::Undef) } else { Value::from_word(ty, bits) }
}

/// The largest bits that a value of a type of at most 8 bytes has; all smaller ones are values of it, too.
pub(super) fn largest_scalar(ty: DataType) -> Option<u64> {
    if ty == DataType::UNDEF { Some(u64::MAX) } else { Value::largest_word(ty) }
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
