//! A borrowed value, as a host has it.
use std::borrow::Cow;

use crate::data::{DataType, Text, Value};
use crate::store::codec::{scalar, scalar_value};

/// A value of a process as a host has it, borrowed.
#[derive(Debug, Clone)]
pub enum Datum<'a> {
    /// The little-endian bits of a value of at most 8 bytes, zero-extended, and its type.
    Scalar(DataType, u64),
    /// A STRING, without its NUL; `None` is a NULL.
    Text(Option<&'a [u8]>),
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
            Datum::Other(value) => value.data_type(),
        }
    }

    /// The number it is, if it can be one of 32 bits.
    pub(super) fn as_u32(&self) -> Option<u32> {
        match self {
            Datum::Scalar(DataType::PROC_RANK | DataType::UINT32, bits) => Some(*bits as u32),
            Datum::Scalar(ty, bits) => scalar_value(*ty, *bits)?.as_u32(),
            Datum::Text(_) => None,
            Datum::Other(value) => value.as_u32(),
        }
    }
}
