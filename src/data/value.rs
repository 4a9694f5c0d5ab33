//! Values: what a key can hold.
use rkyv::{Archive, Deserialize, Serialize};

use super::archive::{Bytes, MAX_POINTERS, Nested};
use super::{
    App, Channels, Coord, Cpuset, DataArray, DataRange, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar,
    Geometry, Info, NetStats, NodePid, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, RegAttr,
    Regex2, ResourceUnit, Scope, Status, Text, Timeval, Topology,
};

/// A `pmix_value_t`, or an element of an array.
///
/// A value keeps its exact type: `Int32(1)`, `Uint32(1)` and `ProcRank(1)` differ, as do a NULL and an empty string.
/// Two values are equal when they are indistinguishable: floating-point numbers are compared bit by bit.
///
/// The numbers of three types stand for structures that no public header defines and no program can hold: `BUFFER` (26)
/// and `KVAL` (28) are internal to one implementation, 29 and 44 were never given. They have no variant; whoever meets
/// one answers `ERR_NOT_SUPPORTED`, see [`DataType::is_supported`].
///
/// ```
/// use instanton::data::{DataType, Value};
/// let value = Value::from(42u32);
/// assert_eq!(value.data_type(), DataType::UINT32);
/// assert_eq!(value.as_u64(), Some(42));
/// assert_ne!(value, Value::Int32(42));
/// ```
#[derive(Archive, Serialize, Deserialize, Clone, Debug)]
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
    /// An element of an array of values; a value itself is never of this type.
    Value(#[rkyv(omit_bounds, with = Nested)] Box<Value>),
    Proc(Proc),
    App(#[rkyv(omit_bounds)] Box<App>),
    Info(#[rkyv(omit_bounds)] Box<Info>),
    Pdata(#[rkyv(omit_bounds)] Box<Pdata>),
    ByteObject(#[rkyv(with = Bytes)] Vec<u8>),
    Persist(u8),
    /// An address in the process that stored it; means nothing elsewhere.
    Pointer(u64),
    Scope(Scope),
    DataRange(DataRange),
    Command(u8),
    InfoDirectives(u32),
    DataType(DataType),
    ProcState(u8),
    ProcInfo(Box<ProcInfo>),
    DataArray(#[rkyv(omit_bounds)] DataArray),
    ProcRank(Rank),
    Query(#[rkyv(omit_bounds)] Box<Query>),
    /// As `CompressedByteObject`: nothing here packs or unpacks it.
    CompressedString(#[rkyv(with = Bytes)] Vec<u8>),
    AllocDirective(u8),
    IofChannel(Channels),
    Envar(Envar),
    Coord(Coord),
    Regattr(Box<RegAttr>),
    /// A map expression; its bytes may hold NULs. One at its end is not part of it: C ends expressions with it.
    Regex(#[rkyv(with = Bytes)] Vec<u8>),
    JobState(u8),
    LinkState(u8),
    ProcCpuset(Cpuset),
    Geometry(Box<Geometry>),
    DeviceDist(Box<DeviceDistance>),
    Endpoint(Box<Endpoint>),
    Topo(Box<Topology>),
    Devtype(u64),
    Loctype(u16),
    CompressedByteObject(#[rkyv(with = Bytes)] Vec<u8>),
    ProcNspace(Nspace),
    ProcStats(Box<ProcStats>),
    DiskStats(Box<DiskStats>),
    NetStats(Box<NetStats>),
    NodeStats(Box<NodeStats>),
    /// Bytes that were packed into a `pmix_data_buffer_t`.
    DataBuffer(#[rkyv(with = Bytes)] Vec<u8>),
    StorMedium(u64),
    StorAccess(u64),
    StorPersist(u64),
    StorAccessType(u16),
    Device(Box<Device>),
    ResblockDirective(u8),
    ResourceUnit(ResourceUnit),
    NodePid(NodePid),
    Regex2(Box<Regex2>),
    AllocInherit(u8),
}

// The number of each variant's type, and exact equality.
macro_rules! variants {
    (floats: $($float:ident = $float_ty:ident),*; others: $($variant:ident = $ty:ident),* $(,)?) => {
        impl Value {
            /// The type of this value.
            pub fn data_type(&self) -> DataType {
                match self {
                    Value::Undef => DataType::UNDEF,
                    $(Value::$float(_) => DataType::$float_ty,)*
                    $(Value::$variant(_) => DataType::$ty,)*
                }
            }
        }

        impl PartialEq for Value {
            fn eq(&self, other: &Self) -> bool {
                match (self, other) {
                    (Value::Undef, Value::Undef) => true,
                    $((Value::$float(a), Value::$float(b)) => a.to_bits() == b.to_bits(),)*
                    $((Value::$variant(a), Value::$variant(b)) => a == b,)*
                    _ => false,
                }
            }
        }
    };
}

variants! {
    floats: Float = FLOAT, Double = DOUBLE;
    others:
    Bool = BOOL, Byte = BYTE, String = STRING, Size = SIZE, Pid = PID, Int = INT, Int8 = INT8, Int16 = INT16,
    Int32 = INT32, Int64 = INT64, Uint = UINT, Uint8 = UINT8, Uint16 = UINT16, Uint32 = UINT32, Uint64 = UINT64,
    Timeval = TIMEVAL, Time = TIME, Status = STATUS, Value = VALUE, Proc = PROC, App = APP, Info = INFO,
    Pdata = PDATA, ByteObject = BYTE_OBJECT, Persist = PERSIST, Pointer = POINTER, Scope = SCOPE,
    DataRange = DATA_RANGE, Command = COMMAND, InfoDirectives = INFO_DIRECTIVES, DataType = DATA_TYPE,
    ProcState = PROC_STATE, ProcInfo = PROC_INFO, DataArray = DATA_ARRAY, ProcRank = PROC_RANK, Query = QUERY,
    CompressedString = COMPRESSED_STRING, AllocDirective = ALLOC_DIRECTIVE, IofChannel = IOF_CHANNEL, Envar = ENVAR,
    Coord = COORD, Regattr = REGATTR, Regex = REGEX, JobState = JOB_STATE, LinkState = LINK_STATE,
    ProcCpuset = PROC_CPUSET, Geometry = GEOMETRY, DeviceDist = DEVICE_DIST, Endpoint = ENDPOINT, Topo = TOPO,
    Devtype = DEVTYPE, Loctype = LOCTYPE, CompressedByteObject = COMPRESSED_BYTE_OBJECT, ProcNspace = PROC_NSPACE,
    ProcStats = PROC_STATS, DiskStats = DISK_STATS, NetStats = NET_STATS, NodeStats = NODE_STATS,
    DataBuffer = DATA_BUFFER, StorMedium = STOR_MEDIUM, StorAccess = STOR_ACCESS, StorPersist = STOR_PERSIST,
    StorAccessType = STOR_ACCESS_TYPE, Device = DEVICE, ResblockDirective = RESBLOCK_DIRECTIVE,
    ResourceUnit = RESOURCE_UNIT, NodePid = NODE_PID, Regex2 = REGEX2, AllocInherit = ALLOC_INHERIT,
}

impl Eq for Value {}

impl Value {
    /// Returns whether it is nested more deeply than can be archived, looking no deeper than that.
    pub(crate) fn is_too_deep(&self) -> bool {
        self.is_deeper(MAX_POINTERS)
    }

    fn is_deeper(&self, levels: usize) -> bool {
        let below = |value: &Value| levels == 0 || value.is_deeper(levels - 1);
        let any = |infos: &[Info]| infos.iter().any(|info| below(&info.value));
        match self {
            Value::Value(value) => below(value),
            Value::Info(info) => below(&info.value),
            Value::Pdata(data) => below(&data.value),
            Value::App(app) => any(&app.info),
            Value::Query(query) => any(&query.qualifiers),
            Value::DataArray(array) => array.nests() && array.items().iter().any(below),
            _ => false,
        }
    }
}
