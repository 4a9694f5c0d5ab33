//! Values as bytes of a record, and back.
//!
//! Scalars of at most 8 bytes lie in the entry itself, as the little-endian bits of their C type. Strings (with their NUL), byte
//! objects, regular expressions and the compressed types lie as they are. Everything else is an archive, validated to a limited
//! depth at each decoding.
use instanton_layout::record::{Item, Payload};

use crate::data::archive::{self, ArchiveError};
use crate::data::{Channels, DataRange, DataType, Key, Rank, Scope, Status, Value};

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
        V::Status(v) => u64::from(v.0 as u32),
        V::DataType(v) => u64::from(v.0),
        V::ProcRank(v) => u64::from(v.0),
        V::Scope(v) => u64::from(v.0),
        V::DataRange(v) => u64::from(v.0),
        V::IofChannel(v) => u64::from(v.0),
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
