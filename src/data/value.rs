//! Values: what a key can hold.
use rkyv::{Archive, Deserialize, Serialize};

use super::{App, DataType, Info, Pdata, Proc, Query, Rank, Status, Text};

/// A `struct timeval`.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeval {
    /// Seconds.
    pub sec: i64,
    /// Microseconds.
    pub usec: i64,
}

/// A `pmix_envar_t`: an environment variable and the separator of its parts.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Envar {
    /// Name.
    pub name: Option<Text>,
    /// Value.
    pub value: Option<Text>,
    /// Separator, a byte; 0 for none.
    pub separator: u8,
}

/// A `pmix_proc_info_t`: a process and what became of it.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ProcInfo {
    /// Which process.
    pub proc: Proc,
    /// Where it runs.
    pub hostname: Option<Text>,
    /// What it runs.
    pub executable: Option<Text>,
    /// Its process id.
    pub pid: i32,
    /// Its exit code, 0 while it runs.
    pub exit_code: i32,
    /// A `constants::proc_state`.
    pub state: u8,
}

/// A `pmix_data_array_t`: elements of one type.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source))]
#[rkyv(deserialize_bounds(__D::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
pub struct DataArray {
    ty: DataType,
    #[rkyv(omit_bounds)]
    items: Vec<Value>,
}

impl DataArray {
    /// An array whose elements are all of type `ty`.
    ///
    /// # Errors
    /// `ERR_TYPE_MISMATCH` when an element is of another type.
    pub fn new(ty: DataType, items: Vec<Value>) -> Result<Self, Status> {
        match items.iter().all(|item| item.data_type() == ty) {
            true => Ok(Self { ty, items }),
            false => Err(Status::ERR_TYPE_MISMATCH),
        }
    }

    /// An array of attributes, as the `*_INFO_ARRAY` keys hold them.
    pub fn of_info(items: Vec<Info>) -> Self {
        Self { ty: DataType::INFO, items: items.into_iter().map(|info| Value::Info(Box::new(info))).collect() }
    }

    /// The type of every element.
    pub fn data_type(&self) -> DataType {
        self.ty
    }

    /// The elements.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// The elements, given away.
    pub fn into_items(self) -> Vec<Value> {
        self.items
    }

    /// The attributes of an array of them; none where it is of another type.
    pub fn infos(&self) -> impl Iterator<Item = &Info> {
        self.items.iter().filter_map(|item| match item {
            Value::Info(info) => Some(&**info),
            _ => None,
        })
    }
}

/// A `pmix_value_t`, or an element of an array.
///
/// A value keeps its exact type: `Int32(1)`, `Uint32(1)` and `ProcRank(1)` differ, as do a NULL and an empty string.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source))]
#[rkyv(deserialize_bounds(__D::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is the data type of the same name")]
pub enum Value {
    Undef,
    Bool(bool),
    Byte(u8),
    String(Option<Text>),
    Size(u64),
    Pid(i32),
    Int(i32),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Uint(u32),
    Uint8(u8),
    Uint16(u16),
    Uint32(u32),
    Uint64(u64),
    Float(f32),
    Double(f64),
    Timeval(Timeval),
    Time(i64),
    Status(Status),
    Proc(Proc),
    App(#[rkyv(omit_bounds)] Box<App>),
    Info(#[rkyv(omit_bounds)] Box<Info>),
    Pdata(#[rkyv(omit_bounds)] Box<Pdata>),
    ByteObject(Vec<u8>),
    Persist(u8),
    /// An address in the process that stored it; means nothing elsewhere.
    Pointer(u64),
    Scope(u8),
    DataRange(u8),
    Command(u8),
    InfoDirectives(u32),
    DataType(DataType),
    ProcState(u8),
    ProcInfo(Box<ProcInfo>),
    DataArray(#[rkyv(omit_bounds)] DataArray),
    ProcRank(Rank),
    Query(#[rkyv(omit_bounds)] Box<Query>),
    CompressedString(Vec<u8>),
    AllocDirective(u8),
    IofChannel(u16),
    Envar(Envar),
    /// A map expression; its bytes may hold NULs.
    Regex(Vec<u8>),
    JobState(u8),
    LinkState(u8),
    Devtype(u64),
    Loctype(u16),
    CompressedByteObject(Vec<u8>),
    ProcNspace(super::Nspace),
    StorMedium(u64),
    StorAccess(u64),
    StorPersist(u64),
    StorAccessType(u16),
    ResblockDirective(u8),
    AllocInherit(u8),
}

impl Value {
    /// A string value from text without NULs.
    ///
    /// # Panics
    /// When `text` has a NUL; use [`Text::new`] for text that comes from outside.
    pub fn string(text: impl AsRef<[u8]>) -> Self {
        Value::String(Some(Text::new(text).expect("text without a NUL")))
    }

    /// The type of this value.
    pub fn data_type(&self) -> DataType {
        match self {
            Value::Undef => DataType::UNDEF,
            Value::Bool(_) => DataType::BOOL,
            Value::Byte(_) => DataType::BYTE,
            Value::String(_) => DataType::STRING,
            Value::Size(_) => DataType::SIZE,
            Value::Pid(_) => DataType::PID,
            Value::Int(_) => DataType::INT,
            Value::Int8(_) => DataType::INT8,
            Value::Int16(_) => DataType::INT16,
            Value::Int32(_) => DataType::INT32,
            Value::Int64(_) => DataType::INT64,
            Value::Uint(_) => DataType::UINT,
            Value::Uint8(_) => DataType::UINT8,
            Value::Uint16(_) => DataType::UINT16,
            Value::Uint32(_) => DataType::UINT32,
            Value::Uint64(_) => DataType::UINT64,
            Value::Float(_) => DataType::FLOAT,
            Value::Double(_) => DataType::DOUBLE,
            Value::Timeval(_) => DataType::TIMEVAL,
            Value::Time(_) => DataType::TIME,
            Value::Status(_) => DataType::STATUS,
            Value::Proc(_) => DataType::PROC,
            Value::App(_) => DataType::APP,
            Value::Info(_) => DataType::INFO,
            Value::Pdata(_) => DataType::PDATA,
            Value::ByteObject(_) => DataType::BYTE_OBJECT,
            Value::Persist(_) => DataType::PERSIST,
            Value::Pointer(_) => DataType::POINTER,
            Value::Scope(_) => DataType::SCOPE,
            Value::DataRange(_) => DataType::DATA_RANGE,
            Value::Command(_) => DataType::COMMAND,
            Value::InfoDirectives(_) => DataType::INFO_DIRECTIVES,
            Value::DataType(_) => DataType::DATA_TYPE,
            Value::ProcState(_) => DataType::PROC_STATE,
            Value::ProcInfo(_) => DataType::PROC_INFO,
            Value::DataArray(_) => DataType::DATA_ARRAY,
            Value::ProcRank(_) => DataType::PROC_RANK,
            Value::Query(_) => DataType::QUERY,
            Value::CompressedString(_) => DataType::COMPRESSED_STRING,
            Value::AllocDirective(_) => DataType::ALLOC_DIRECTIVE,
            Value::IofChannel(_) => DataType::IOF_CHANNEL,
            Value::Envar(_) => DataType::ENVAR,
            Value::Regex(_) => DataType::REGEX,
            Value::JobState(_) => DataType::JOB_STATE,
            Value::LinkState(_) => DataType::LINK_STATE,
            Value::Devtype(_) => DataType::DEVTYPE,
            Value::Loctype(_) => DataType::LOCTYPE,
            Value::CompressedByteObject(_) => DataType::COMPRESSED_BYTE_OBJECT,
            Value::ProcNspace(_) => DataType::PROC_NSPACE,
            Value::StorMedium(_) => DataType::STOR_MEDIUM,
            Value::StorAccess(_) => DataType::STOR_ACCESS,
            Value::StorPersist(_) => DataType::STOR_PERSIST,
            Value::StorAccessType(_) => DataType::STOR_ACCESS_TYPE,
            Value::ResblockDirective(_) => DataType::RESBLOCK_DIRECTIVE,
            Value::AllocInherit(_) => DataType::ALLOC_INHERIT,
        }
    }
}

macro_rules! from {
    ($($ty:ty => $variant:ident),*) => {
        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Value::$variant(value)
            }
        })*
    };
}
from!(bool => Bool, i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    f32 => Float, f64 => Double, Status => Status, Proc => Proc, Rank => ProcRank, DataArray => DataArray, Vec<u8> => ByteObject);

impl From<&str> for Value {
    /// # Panics
    /// When the text has a NUL, see [`Value::string`].
    fn from(text: &str) -> Self {
        Value::string(text)
    }
}
