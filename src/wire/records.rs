//! Form of each type on the wire: for every structure its members in their order, for both directions.
use super::{BLOB, Reader, WireError, Writer};
use crate::data::{
    App, Channels, Coord, Cpuset, DataArray, DataRange, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar,
    Geometry, Info, Key, NetStats, NodePid, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, Real,
    RegAttr, Regex2, ResourceUnit, Scope, Status, Text, Timeval, Topology, Value, decimal,
};

/// Something that is packed and unpacked.
pub trait Wire: Sized {
    /// Fewest bytes of one, or less.
    const LEAST: usize = 1;
    /// Appends it.
    fn put(&self, to: &mut Writer<'_>) -> Result<(), WireError>;
    /// Takes one.
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// One expression for each way.
macro_rules! simple {
    ($($ty:ty: |$this:ident, $to:ident| $put:expr, |$from:ident| $get:expr;)*) => {$(
        impl Wire for $ty {
            fn put(&self, $to: &mut Writer<'_>) -> Result<(), WireError> {
                let $this = self;
                $put;
                Ok(())
            }
            fn get($from: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok($get)
            }
        }
    )*};
}

fn fits<T: TryFrom<N>, N>(number: N) -> Result<T, WireError> {
    number.try_into().map_err(|_| WireError::Malformed("number of this type"))
}

simple! {
    u8: |byte, to| to.raw(&[*byte]), |from| from.raw(1)?[0];
    i8: |byte, to| to.raw(&[*byte as u8]), |from| from.raw(1)?[0] as i8;
    bool: |flag, to| to.raw(&[u8::from(*flag)]), |from| from.raw(1)?[0] != 0;
    u16: |n, to| to.unsigned(u64::from(*n), 2), |from| fits(from.unsigned(2)?)?;
    u32: |n, to| to.unsigned(u64::from(*n), 4), |from| fits(from.unsigned(4)?)?;
    u64: |n, to| to.unsigned(*n, 8), |from| from.unsigned(8)?;
    i16: |n, to| to.signed(i64::from(*n), 2), |from| fits(from.signed(2)?)?;
    i32: |n, to| to.signed(i64::from(*n), 4), |from| fits(from.signed(4)?)?;
    i64: |n, to| to.signed(*n, 8), |from| from.signed(8)?;
    f64: |n, to| to.text(Some(decimal(*n).as_bytes()))?, |from| number(from)?;
    f32: |n, to| f64::from(*n).put(to)?, |from| f64::get(from)? as f32;
    Real: |n, to| n.0.put(to)?, |from| Real(f32::get(from)?);
    Status: |status, to| status.0.put(to)?, |from| Status(i32::get(from)?);
    Rank: |rank, to| rank.0.put(to)?, |from| Rank(u32::get(from)?);
    DataType: |ty, to| ty.0.put(to)?, |from| DataType(u16::get(from)?);
    Scope: |scope, to| scope.0.put(to)?, |from| Scope(u8::get(from)?);
    DataRange: |range, to| range.0.put(to)?, |from| DataRange(u8::get(from)?);
    Channels: |channels, to| channels.0.put(to)?, |from| Channels(u16::get(from)?);
    Timeval:
        |time, to| { time.sec.put(to)?; time.usec.put(to)? },
        |from| Timeval { sec: i64::get(from)?, usec: i64::get(from)? };
    Option<Text>:
        |this, to| to.text(this.as_ref().map(Text::as_bytes))?,
        |from| from.text()?.map(Text::new).transpose().map_err(|_| WireError::Malformed("text"))?;
    Text:
        |this, to| to.text(Some(this.as_bytes()))?,
        |from| Text::new(from.text()?.unwrap_or_default()).map_err(|_| WireError::Malformed("text"))?;
    Nspace:
        |nspace, to| to.text(Some(nspace.as_bytes()))?,
        |from| Nspace::new(from.text()?.unwrap_or_default()).map_err(|_| WireError::Name("namespace"))?;
    Key:
        |key, to| to.text(Some(key.as_bytes()))?,
        |from| Key::new(from.text()?.unwrap_or_default()).map_err(|_| WireError::Name("key"))?;
    Option<Key>:
        |key, to| to.text(Some(key.as_ref().map_or(b"", Key::as_bytes)))?,
        |from| match from.text()?.unwrap_or_default() {
            [] => None,
            name => Some(Key::new(name).map_err(|_| WireError::Name("key"))?),
        };
    Vec<u8>:
        |bytes, to| { bytes.len().put(to)?; to.raw(bytes) },
        |from| { let len = usize::get(from)?; from.raw(len as u64)?.to_vec() };
    Cpuset:
        |cpuset, to| cpuset.bitmap.put(to)?,
        |from| Cpuset { source: None, bitmap: Wire::get(from)? };
    Topology:
        |topology, to| {
            topology.xml.put(to)?;
            if topology.xml.is_some() {
                let mut support = topology.support.clone();
                support.resize(SUPPORT, 0);
                to.raw(&support);
            }
        },
        |from| {
            let xml: Option<Text> = Wire::get(from)?;
            let support = if xml.is_some() { from.raw(SUPPORT as u64)?.to_vec() } else { Vec::new() };
            Topology { source: None, xml, support }
        };
    Value:
        |value, to| to.nested(|to| {
            value.data_type().put(to)?;
            if *value == Value::Undef { Ok(()) } else { to.list(value.data_type(), std::slice::from_ref(value)) }
        })?,
        |from| from.nested(|from| match DataType::get(from)? {
            DataType::UNDEF => Ok(Value::Undef),
            ty => from.list(ty, 1)?.pop().ok_or(WireError::UnknownType(ty)),
        })?;
    DataArray:
        |array, to| to.nested(|to| {
            array.data_type().put(to)?;
            array.len().put(to)?;
            if array.is_empty() { Ok(()) } else { to.list(array.data_type(), array.items()) }
        })?,
        |from| from.nested(|from| {
            let ty = DataType::get(from)?;
            let items = match usize::get(from)? {
                0 => Vec::new(),
                count => from.list(ty, count)?,
            };
            DataArray::new(ty, items).map_err(|_| WireError::Malformed("array of one type"))
        })?;
    usize:
        |n, to| { to.tag(DataType::SIZE)?; (*n as u64).put(to)? },
        |from| { from.tag(DataType::SIZE)?; fits(u64::get(from)?)? };
}

/// Bytes in which hwloc says what it supports, behind a topology.
const SUPPORT: usize = 32;

fn number(from: &mut Reader<'_>) -> Result<f64, WireError> {
    let Some(text) = from.text()? else { return Ok(0.0) };
    let text = std::str::from_utf8(text).unwrap_or_default().trim_start();
    text.parse().map_err(|_| WireError::Malformed("floating-point number"))
}

/// A map expression: a text up to its NUL, or the binary form, which tells its own length.
struct Regex(Vec<u8>);

impl Wire for Regex {
    fn put(&self, to: &mut Writer<'_>) -> Result<(), WireError> {
        if self.0.starts_with(BLOB) {
            to.raw(&self.0);
            return Ok(());
        }
        to.raw(self.0.split(|byte| *byte == 0).next().unwrap_or_default());
        to.raw(&[0]);
        Ok(())
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        if from.rest().starts_with(BLOB) {
            let len = blob_len(from.rest()).ok_or(WireError::Malformed("map expression"))?;
            return Ok(Regex(from.raw(len)?.to_vec()));
        }
        let len = from.rest().iter().position(|byte| *byte == 0).unwrap_or(from.rest().len()) as u64;
        let text = from.raw(len)?.to_vec();
        from.raw(1)?;
        Ok(Regex(text))
    }
}

/// Bytes of a map expression in the binary form: `blob:`, `component=...:` and `size=...:`, a NUL behind each, and so
/// many bytes.
fn blob_len(bytes: &[u8]) -> Option<u64> {
    let mut len = BLOB.len();
    let fields = bytes.strip_prefix(BLOB)?;
    for field in fields.split(|byte| *byte == 0).take(2) {
        len += field.len() + 1;
        if let Some(size) = field.strip_prefix(b"size=") {
            let size: u64 = std::str::from_utf8(size.strip_suffix(b":")?).ok()?.parse().ok()?;
            return size.checked_add(len as u64);
        }
    }
    None
}

/// Lists have a SIZE in front.
impl<T: Element> Wire for Vec<T> {
    fn put(&self, to: &mut Writer<'_>) -> Result<(), WireError> {
        self.len().put(to)?;
        self.iter().try_for_each(|item| item.put(to))
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = usize::get(from)?;
        items(from, count)
    }
}

/// Type of which there are such lists.
trait Element: Wire {}
impl Element for u32 {}
impl Element for Info {}
impl Element for Coord {}
impl Element for DiskStats {}
impl Element for NetStats {}

/// However many are claimed, they end with the bytes, or with the room: an empty text has one byte in a message.
fn items<T: Wire>(from: &mut Reader<'_>, count: usize) -> Result<Vec<T>, WireError> {
    let piece = if size_of::<T>() > size_of::<u64>() { PIECE } else { 0 };
    let mut items = Vec::new();
    for _ in 0..count {
        from.take_bytes(size_of::<T>() + piece)?;
        items.push(T::get(from)?);
    }
    Ok(items)
}

/// Lists with an INT32 in front.
mod short {
    use super::*;

    pub fn put(list: &[Text], to: &mut Writer<'_>) -> Result<(), WireError> {
        i32::try_from(list.len()).map_err(|_| WireError::Unfit("too many texts"))?.put(to)?;
        list.iter().try_for_each(|item| item.put(to))
    }
    pub fn get(from: &mut Reader<'_>) -> Result<Vec<Text>, WireError> {
        let count = usize::try_from(i32::get(from)?).map_err(|_| WireError::Malformed("count"))?;
        items(from, count)
    }
}

/// Lists with an INT in front.
mod arguments {
    use super::*;

    pub fn put(list: &[Text], to: &mut Writer<'_>) -> Result<(), WireError> {
        to.tag(DataType::INT)?;
        short::put(list, to)
    }
    pub fn get(from: &mut Reader<'_>) -> Result<Vec<Text>, WireError> {
        from.tag(DataType::INT)?;
        short::get(from)
    }
}

/// Numbers of the type INT.
mod int {
    use super::*;

    pub fn put(number: &i32, to: &mut Writer<'_>) -> Result<(), WireError> {
        to.tag(DataType::INT)?;
        number.put(to)
    }
    pub fn get(from: &mut Reader<'_>) -> Result<i32, WireError> {
        from.tag(DataType::INT)?;
        i32::get(from)
    }
}

/// Process ids: behind their own type.
mod pid {
    use super::*;

    pub fn put(pid: &i32, to: &mut Writer<'_>) -> Result<(), WireError> {
        to.list(DataType::PID, &[Value::Pid(*pid)])
    }
    pub fn get(from: &mut Reader<'_>) -> Result<i32, WireError> {
        match from.list(DataType::PID, 1)?.as_slice() {
            [Value::Pid(pid)] => Ok(*pid),
            _ => Err(WireError::Malformed("process id")),
        }
    }
}

/// Numbers without a sign that are written as if they had one.
mod signed {
    use super::*;

    pub fn put(number: &u16, to: &mut Writer<'_>) -> Result<(), WireError> {
        (*number as i16).put(to)
    }
    pub fn get(from: &mut Reader<'_>) -> Result<u16, WireError> {
        Ok(i16::get(from)? as u16)
    }
}

/// Structures: their members in the order of the wire, some of them in a way of their own, and those that are not sent.
macro_rules! structures {
    ($($ty:ident { $($member:ident $(as $way:ident)?),* $(; $unsent:ident = $value:expr)* })*) => {$(
        impl Wire for $ty {
            const LEAST: usize = [$(stringify!($member)),*].len();
            fn put(&self, to: &mut Writer<'_>) -> Result<(), WireError> {
                $(structures!(@put self to $member $($way)?);)*
                Ok(())
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                $(let $member = structures!(@get from $($way)?);)*
                Ok(Self { $($member,)* $($unsent: $value,)* })
            }
        }
    )*};
    (@put $self:ident $to:ident $member:ident) => { $self.$member.put($to)? };
    (@put $self:ident $to:ident $member:ident $way:ident) => { $way::put(&$self.$member, $to)? };
    (@get $from:ident) => { Wire::get($from)? };
    (@get $from:ident $way:ident) => { $way::get($from)? };
}
structures! {
    Proc { nspace, rank }
    Info { key, flags, value }
    Pdata { proc, key, value }
    App { cmd, argv as arguments, env as short, cwd, maxprocs as int, info }
    Query { keys as short, qualifiers }
    ProcInfo { proc, hostname, executable, pid as pid, state; exit_code = 0 }
    Envar { name, value, separator }
    Coord { view, coord }
    RegAttr { name, key, data_type, description as short }
    Geometry { fabric, uuid, osname, coordinates }
    DeviceDistance { uuid, osname, device_type, mindist, maxdist }
    Endpoint { uuid, osname, endpt }
    Device { uuid, osname, device_type }
    ResourceUnit { device_type, count }
    NodePid { hostname, nodeid, pid as pid }
    Regex2 { method, bytes }
    ProcStats {
        node, proc, pid as pid, cmd, state, time, priority, num_threads as signed, pss, vsize, rss,
        processor as signed, sample_time; percent_cpu = Real(0.0); peak_vsize = Real(0.0)
    }
    DiskStats {
        disk, num_reads_completed, num_reads_merged, num_sectors_read, milliseconds_reading, num_writes_completed,
        num_writes_merged, num_sectors_written, milliseconds_writing, num_ios_in_progress, milliseconds_io,
        weighted_milliseconds_io
    }
    NetStats {
        net_interface, num_bytes_recvd, num_packets_recvd, num_recv_errs, num_bytes_sent, num_packets_sent,
        num_send_errs
    }
    NodeStats {
        node, la, la5, la15, total_mem, free_mem, buffers, cached, swap_cached, swap_total, swap_free, mapped,
        sample_time, diskstats, netstats
    }
}

impl<T: Wire> Wire for Box<T> {
    const LEAST: usize = T::LEAST;
    fn put(&self, to: &mut Writer<'_>) -> Result<(), WireError> {
        T::put(self, to)
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        T::get(from).map(Box::new)
    }
}

/// Shortest piece of memory that the allocator gives out.
const PIECE: usize = 32;

/// Bytes that an element takes here at least.
pub fn kept(ty: DataType) -> usize {
    match ty {
        DataType::PROC => size_of::<Proc>() + PIECE,
        DataType::STRING => size_of::<Value>() + PIECE,
        DataType::INFO | DataType::KVAL | DataType::PDATA => size_of::<Info>() + PIECE,
        DataType::APP => size_of::<App>() + PIECE,
        DataType::QUERY => size_of::<Query>() + PIECE,
        _ => size_of::<Value>(),
    }
}

fn least_of<T: Wire>(_: fn(T) -> Value) -> usize {
    T::LEAST
}

/// The elements of each type. A number may be packed as another of the same bits.
macro_rules! elements {
    ($($ty:ident, $variant:ident $(as $other:ty)?;)*) => {
        /// Returns whether elements of this type can be packed.
        pub fn is_known(ty: DataType) -> bool {
            matches!(ty, DataType::REGEX | DataType::POINTER $(| DataType::$ty)*)
        }

        /// Returns the fewest bytes that an element takes, or less.
        pub fn least(ty: DataType) -> usize {
            match ty {
                $(DataType::$ty => least_of(Value::$variant),)*
                _ => 1,
            }
        }

        /// Appends an element.
        pub fn put(value: &Value, to: &mut Writer<'_>) -> Result<(), WireError> {
            match value {
                Value::Regex(bytes) => Regex(bytes.clone()).put(to),
                $(Value::$variant(element) => elements!(@put element to $($other)?),)*
                other => Err(WireError::UnknownType(other.data_type())),
            }
        }

        /// Takes an element.
        pub fn get(ty: DataType, from: &mut Reader<'_>) -> Result<Value, WireError> {
            Ok(match ty {
                DataType::REGEX => Value::Regex(Regex::get(from)?.0),
                $(DataType::$ty => Value::$variant(elements!(@get from $($other)?)),)*
                other => return Err(WireError::UnknownType(other)),
            })
        }
    };
    (@put $element:ident $to:ident) => { $element.put($to) };
    (@put $element:ident $to:ident $other:ty) => { (*$element as $other).put($to) };
    (@get $from:ident) => { Wire::get($from)? };
    (@get $from:ident $other:ty) => { <$other>::get($from)? as _ };
}
elements! {
    BOOL, Bool;
    BYTE, Byte;
    STRING, String;
    SIZE, Size;
    PID, Pid as u32;
    INT, Int;
    INT8, Int8;
    INT16, Int16;
    INT32, Int32;
    INT64, Int64;
    UINT, Uint as i32;
    UINT8, Uint8;
    UINT16, Uint16;
    UINT32, Uint32;
    UINT64, Uint64;
    FLOAT, Float;
    DOUBLE, Double;
    TIMEVAL, Timeval;
    TIME, Time as u64;
    STATUS, Status;
    VALUE, Value;
    PROC, Proc;
    APP, App;
    INFO, Info;
    PDATA, Pdata;
    BYTE_OBJECT, ByteObject;
    PERSIST, Persist;
    SCOPE, Scope;
    DATA_RANGE, DataRange;
    COMMAND, Command;
    INFO_DIRECTIVES, InfoDirectives;
    DATA_TYPE, DataType;
    PROC_STATE, ProcState;
    PROC_INFO, ProcInfo;
    DATA_ARRAY, DataArray;
    PROC_RANK, ProcRank;
    QUERY, Query;
    COMPRESSED_STRING, CompressedString;
    ALLOC_DIRECTIVE, AllocDirective;
    IOF_CHANNEL, IofChannel;
    ENVAR, Envar;
    COORD, Coord;
    REGATTR, Regattr;
    JOB_STATE, JobState;
    LINK_STATE, LinkState;
    PROC_CPUSET, ProcCpuset;
    GEOMETRY, Geometry;
    DEVICE_DIST, DeviceDist;
    ENDPOINT, Endpoint;
    TOPO, Topo;
    DEVTYPE, Devtype;
    LOCTYPE, Loctype;
    COMPRESSED_BYTE_OBJECT, CompressedByteObject;
    PROC_NSPACE, ProcNspace;
    PROC_STATS, ProcStats;
    DISK_STATS, DiskStats;
    NET_STATS, NetStats;
    NODE_STATS, NodeStats;
    DATA_BUFFER, DataBuffer;
    STOR_MEDIUM, StorMedium;
    STOR_ACCESS, StorAccess;
    STOR_PERSIST, StorPersist;
    STOR_ACCESS_TYPE, StorAccessType;
    DEVICE, Device;
    RESBLOCK_DIRECTIVE, ResblockDirective;
    RESOURCE_UNIT, ResourceUnit;
    NODE_PID, NodePid;
    REGEX2, Regex2;
    ALLOC_INHERIT, AllocInherit;
}
