//! How things of the data model lie in C, as `pmix_common.h` says: one table for both ways. Sizes and offsets are those
//! of LP64, the same in every release of the Standard since 4.2.
use instanton::data::{
    App, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, Info, Key, NetStats,
    NodePid, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, Real, RegAttr, Regex2, ResourceUnit,
    Status, Text, Timeval, Value, archive,
};
use instanton::store::Datum;

use crate::boundary::{Code, bad, fail};
use crate::flat::Writer;

/// Deepest nesting that is read: an element, its attribute and the value of that for each level that could be stored.
const MAX_DEPTH: usize = 3 * (archive::MAX_DEPTH + 1);
/// Bytes of a `pmix_nspace_t` and of a `pmix_key_t`.
const NSPACE: usize = 256;
const KEY: usize = 512;
/// Bytes of a `pmix_value_t`, and where its union begins.
pub const VALUE: usize = 32;
const DATA: usize = 8;

/// A thing that has a form in C, of so many bytes.
pub trait InC: Sized {
    const SIZE: usize;

    /// Writes it to a place that is zero.
    fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code>;

    /// Reads it; `depth` values are around it.
    ///
    /// # Safety
    /// It lies at `place`, and what it points to is there.
    unsafe fn read(place: *const u8, depth: usize) -> Result<Self, Code>;
}

/// Structure that may be one of several, behind a pointer and a number.
trait Element: InC {}

/// # Safety
/// So many bytes are there; any bits are a `T`.
unsafe fn plain<T: Copy>(place: *const u8) -> T {
    // SAFETY: as promised by the caller. A structure that C has packed oddly is read all the same.
    unsafe { place.cast::<T>().read_unaligned() }
}

macro_rules! numbers {
    ($($ty:ty = $number:ty: |$this:ident| $bits:expr, $make:expr;)*) => {$(
        impl InC for $ty {
            const SIZE: usize = size_of::<$number>();
            fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
                let $this = self;
                to.bytes(at, &$bits.to_le_bytes());
                Ok(())
            }
            unsafe fn read(place: *const u8, _: usize) -> Result<Self, Code> {
                // SAFETY: as promised by the caller.
                Ok($make(unsafe { plain::<$number>(place) }))
            }
        }
    )*};
}
numbers! {
    u8 = u8: |n| n, u8::from;
    u16 = u16: |n| n, u16::from;
    u32 = u32: |n| n, u32::from;
    u64 = u64: |n| n, u64::from;
    i32 = i32: |n| n, i32::from;
    i64 = i64: |n| n, i64::from;
    Real = f32: |n| n.0, Real;
    Rank = u32: |rank| rank.0, Rank;
    DataType = u16: |ty| ty.0, DataType;
}
impl Element for u32 {}

macro_rules! names {
    ($($ty:ty = $size:ident: |$this:ident| $bytes:expr, |$name:ident| $make:expr;)*) => {$(
        impl InC for $ty {
            const SIZE: usize = $size;
            fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
                let $this = self;
                to.bytes(at, $bytes);
                Ok(())
            }
            unsafe fn read(place: *const u8, _: usize) -> Result<Self, Code> {
                // SAFETY: as promised by the caller.
                let $name = unsafe { std::slice::from_raw_parts(place, $size) };
                let len = $name.iter().position(|byte| *byte == 0).ok_or_else(|| bad("a name has no NUL at its end"))?;
                let $name = &$name[..len];
                $make
            }
        }
    )*};
}
names! {
    Nspace = NSPACE: |name| name.as_bytes(), |name| Nspace::new(name).map_err(bad);
    Key = KEY: |key| key.as_bytes(), |name| Key::new(name).map_err(bad);
    Option<Key> = KEY: |key| key.as_ref().map_or(&[][..], Key::as_bytes),
        |name| if name.is_empty() { Ok(None) } else { Key::new(name).map(Some).map_err(bad) };
}

/// A text, which may be NULL.
impl InC for Option<Text> {
    const SIZE: usize = 8;
    fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
        let address = self.as_ref().map_or(0, |text| to.append(text.as_bytes(), true));
        to.word(at, address);
        Ok(())
    }
    unsafe fn read(place: *const u8, _: usize) -> Result<Self, Code> {
        // SAFETY: as promised by the caller: NULL, or a text that ends with a NUL.
        unsafe { crate::types::text(plain(place)) }.map(|text| Text::new(text).map_err(bad)).transpose()
    }
}

/// Texts with a NULL behind the last; NULL where there are none.
impl InC for Vec<Text> {
    const SIZE: usize = 8;
    fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
        if self.is_empty() {
            return Ok(());
        }
        let first = to.zeros((self.len() + 1) * 8);
        for (text, at) in self.iter().zip((first..).step_by(8)) {
            let address = to.append(text.as_bytes(), true);
            to.word(at, address);
        }
        to.word(at, to.address(first));
        Ok(())
    }
    unsafe fn read(place: *const u8, depth: usize) -> Result<Self, Code> {
        let mut texts = Vec::new();
        // SAFETY: as promised by the caller.
        let first = unsafe { plain::<*const u8>(place) };
        while !first.is_null() {
            // SAFETY: as promised by the caller: NULL is the last.
            match unsafe { <Option<Text>>::read(first.add(8 * texts.len()), depth) }? {
                Some(text) => texts.push(text),
                None => break,
            }
        }
        Ok(texts)
    }
}

/// Bytes and their number.
impl InC for Vec<u8> {
    const SIZE: usize = 16;
    fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
        let address = to.append(self, false);
        to.word(at, address);
        to.word(at + 8, self.len() as u64);
        Ok(())
    }
    unsafe fn read(place: *const u8, _: usize) -> Result<Self, Code> {
        // SAFETY: as promised by the caller.
        unsafe { crate::types::array(plain(place), plain(place.add(8)), "an object").map(<[u8]>::to_vec) }
    }
}

/// Things of one kind, and their number.
impl<T: Element> InC for Vec<T> {
    const SIZE: usize = 16;
    fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
        to.word(at + 8, self.len() as u64);
        let first = elements(to, self, T::SIZE, |to, at, thing| thing.write(to, at))?;
        to.word(at, first);
        Ok(())
    }
    unsafe fn read(place: *const u8, depth: usize) -> Result<Self, Code> {
        // SAFETY: as promised by the caller.
        unsafe { each(plain(place), plain(place.add(8)), T::SIZE, |place| T::read(place, depth)) }
    }
}

/// Writes things of one size one behind the other. Answers the address of the first, NULL where there are none.
fn elements<T>(
    to: &mut Writer,
    things: &[T],
    size: usize,
    write: impl Fn(&mut Writer, usize, &T) -> Result<(), Code>,
) -> Result<u64, Code> {
    if things.is_empty() {
        return Ok(0);
    }
    let first = to.zeros(size * things.len());
    things.iter().zip((first..).step_by(size.max(1))).try_for_each(|(thing, at)| write(to, at, thing))?;
    Ok(to.address(first))
}

/// Reads things of one size that lie one behind the other.
///
/// # Safety
/// NULL where there are none, or so many of them.
unsafe fn each<T>(
    first: *const u8,
    n: usize,
    size: usize,
    read: impl Fn(*const u8) -> Result<T, Code>,
) -> Result<Vec<T>, Code> {
    if n > 0 && first.is_null() {
        return Err(bad(format_args!("an array is NULL, and has {n} elements")));
    }
    let mut things = Vec::new();
    if n > isize::MAX as usize / size.max(1) || things.try_reserve_exact(n).is_err() {
        return Err(fail(Status::ERR_OUT_OF_RESOURCE, format_args!("{n} elements cannot be had")));
    }
    for at in 0..n {
        things.push(read(first.wrapping_add(at * size))?);
    }
    Ok(things)
}

impl<T: InC> InC for Box<T> {
    const SIZE: usize = T::SIZE;
    fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
        T::write(self, to, at)
    }
    unsafe fn read(place: *const u8, depth: usize) -> Result<Self, Code> {
        // SAFETY: as promised by the caller.
        unsafe { T::read(place, depth) }.map(Box::new)
    }
}

macro_rules! structures {
    ($($name:ident, $size:literal { $($field:ident = $at:literal),* $(,)? })*) => {$(
        impl InC for $name {
            const SIZE: usize = $size;
            fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
                $(self.$field.write(to, at + $at)?;)*
                Ok(())
            }
            unsafe fn read(place: *const u8, depth: usize) -> Result<Self, Code> {
                // SAFETY: as promised by the caller, each member lies within.
                unsafe { Ok($name { $($field: InC::read(place.add($at), depth)?),* }) }
            }
        }
        impl Element for $name {}
    )*};
}
structures! {
    Timeval, 16 { sec = 0, usec = 8 }
    Proc, 260 { nspace = 0, rank = 256 }
    Info, 552 { key = 0, flags = 512, value = 520 }
    Pdata, 808 { proc = 0, key = 260, value = 776 }
    App, 56 { cmd = 0, argv = 8, env = 16, cwd = 24, maxprocs = 32, info = 40 }
    Query, 24 { keys = 0, qualifiers = 8 }
    RegAttr, 536 { name = 0, key = 8, data_type = 520, description = 528 }
    ProcInfo, 296 { proc = 0, hostname = 264, executable = 272, pid = 280, exit_code = 284, state = 288 }
    Envar, 24 { name = 0, value = 8, separator = 16 }
    Coord, 24 { view = 0, coord = 8 }
    Geometry, 40 { fabric = 0, uuid = 8, osname = 16, coordinates = 24 }
    DeviceDistance, 32 { uuid = 0, osname = 8, device_type = 16, mindist = 24, maxdist = 26 }
    Endpoint, 32 { uuid = 0, osname = 8, endpt = 16 }
    Device, 24 { uuid = 0, osname = 8, device_type = 16 }
    ResourceUnit, 16 { device_type = 0, count = 8 }
    NodePid, 16 { hostname = 0, nodeid = 8, pid = 12 }
    Regex2, 24 { method = 0, bytes = 8 }
    ProcStats, 352 {
        node = 0, proc = 8, pid = 268, cmd = 272, state = 280, time = 288, percent_cpu = 304, priority = 308,
        num_threads = 312, pss = 316, vsize = 320, rss = 324, peak_vsize = 328, processor = 332, sample_time = 336,
    }
    DiskStats, 96 {
        disk = 0, num_reads_completed = 8, num_reads_merged = 16, num_sectors_read = 24, milliseconds_reading = 32,
        num_writes_completed = 40, num_writes_merged = 48, num_sectors_written = 56, milliseconds_writing = 64,
        num_ios_in_progress = 72, milliseconds_io = 80, weighted_milliseconds_io = 88,
    }
    NetStats, 56 {
        net_interface = 0, num_bytes_recvd = 8, num_packets_recvd = 16, num_recv_errs = 24, num_bytes_sent = 32,
        num_packets_sent = 40, num_send_errs = 48,
    }
    NodeStats, 104 {
        node = 0, la = 8, la5 = 12, la15 = 16, total_mem = 20, free_mem = 24, buffers = 28, cached = 32,
        swap_cached = 36, swap_total = 40, swap_free = 44, mapped = 48, sample_time = 56, diskstats = 72,
        netstats = 88,
    }
}

/// An array of one type.
impl InC for DataArray {
    const SIZE: usize = 24;
    fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
        let ty = self.data_type();
        to.word(at, u64::from(ty.0));
        to.word(at + 8, self.len() as u64);
        let first = elements(to, self.items(), ty.c_size(), element)?;
        to.word(at + 16, first);
        Ok(())
    }
    unsafe fn read(place: *const u8, depth: usize) -> Result<Self, Code> {
        // SAFETY: as promised by the caller.
        let (ty, n, first) = unsafe { (plain(place), plain(place.add(8)), plain(place.add(16))) };
        let ty = DataType(ty);
        let size = ty.c_size();
        if n > 0 && size == 0 {
            return Err(unsupported(ty));
        }
        // SAFETY: as promised by the caller.
        let items = unsafe { each(first, n, size, |place| element_at(ty, place, depth + 1)) }?;
        DataArray::new(ty, items)
            .map_err(|status| fail(status, format_args!("an array of {ty} has an element of another type")))
    }
}

/// A `pmix_value_t`: the type, and what it selects in the union.
impl InC for Value {
    const SIZE: usize = VALUE;
    fn write(&self, to: &mut Writer, at: usize) -> Result<(), Code> {
        let ty = self.data_type();
        to.word(at, u64::from(ty.0));
        match self {
            Value::Undef => Ok(()),
            _ if is_in_union(ty) => element(to, at + DATA, self),
            _ => {
                let place = to.zeros(ty.c_size());
                to.word(at + DATA, to.address(place));
                element(to, place, self)
            }
        }
    }
    unsafe fn read(place: *const u8, depth: usize) -> Result<Self, Code> {
        // SAFETY: as promised by the caller.
        let (ty, data) = unsafe { (DataType(plain(place)), place.add(DATA)) };
        if ty == DataType::UNDEF {
            return Ok(Value::Undef);
        }
        // SAFETY: as promised by the caller.
        let data = if is_in_union(ty) { data } else { unsafe { plain::<*const u8>(data) } };
        if data.is_null() {
            return Err(bad(format_args!("a value of type {ty} is NULL")));
        }
        // SAFETY: as promised by the caller.
        unsafe { element_at(ty, data, depth) }
    }
}

/// Returns whether values of a type lie in the union itself.
fn is_in_union(ty: DataType) -> bool {
    let whole = [
        DataType::STRING,
        DataType::BYTE_OBJECT,
        DataType::REGEX,
        DataType::COMPRESSED_STRING,
        DataType::COMPRESSED_BYTE_OBJECT,
        DataType::TIMEVAL,
        DataType::ENVAR,
    ];
    whole.contains(&ty) || is_number(ty)
}

/// Returns whether values of a type are nothing but a number.
fn is_number(ty: DataType) -> bool {
    Datum::Scalar(ty, 0).to_value().is_ok()
}

fn unsupported(ty: DataType) -> Code {
    fail(Status::ERR_NOT_SUPPORTED, format_args!("values of type {ty} are neither given to C nor taken"))
}

/// Types of elements that are one thing of the data model.
macro_rules! elements {
    ($($ty:ident = $variant:ident),* $(,)?) => {
        /// Writes an element of its type to a place that is zero.
        fn element(to: &mut Writer, at: usize, value: &Value) -> Result<(), Code> {
            match value {
                $(Value::$variant(of) => of.write(to, at),)*
                // C ends a map expression with a NUL.
                Value::Regex(of) if of.contains(&0) => of.write(to, at),
                Value::Regex(of) => {
                    let address = to.append(of, true);
                    to.word(at, address);
                    to.word(at + 8, of.len() as u64 + 1);
                    Ok(())
                }
                Value::DataBuffer(bytes) => {
                    let (begin, len) = (to.append(bytes, false), bytes.len() as u64);
                    let words = [begin, begin + len, begin, len, len];
                    words.into_iter().zip((at..).step_by(8)).for_each(|(word, at)| to.word(at, word));
                    Ok(())
                }
                // Cpusets and topologies are objects of hwloc's, which this library does not have.
                other => match (other.to_word(), other.data_type().c_size()) {
                    (Some(bits), size @ 1..=8) => {
                        to.bytes(at, &bits.to_le_bytes()[..size]);
                        Ok(())
                    }
                    _ => Err(unsupported(other.data_type())),
                },
            }
        }

        /// Reads an element of a type.
        ///
        /// # Safety
        /// Such a one lies at `place`, and what it points to is there.
        unsafe fn element_at(ty: DataType, place: *const u8, depth: usize) -> Result<Value, Code> {
            if depth > MAX_DEPTH {
                return Err(bad(format_args!("nested too deeply: {} arrays at most", archive::MAX_DEPTH)));
            }
            // SAFETY: as promised by the caller.
            unsafe {
                match ty {
                    $(DataType::$ty => InC::read(place, depth + 1).map(Value::$variant),)*
                    DataType::REGEX => {
                        let mut bytes = Vec::<u8>::read(place, depth)?;
                        if bytes.iter().position(|byte| *byte == 0) == bytes.len().checked_sub(1) {
                            bytes.pop();
                        }
                        Ok(Value::Regex(bytes))
                    }
                    DataType::DATA_BUFFER => {
                        let bytes = crate::types::array(plain(place), plain(place.add(32)), "a buffer")?;
                        Ok(Value::DataBuffer(bytes.to_vec()))
                    }
                    _ if is_number(ty) => {
                        let mut bits = [0; 8];
                        let size = ty.c_size().min(8);
                        std::ptr::copy_nonoverlapping(place, bits.as_mut_ptr(), size);
                        // A flag is true for every byte that C takes for true.
                        let is_flag = ty == DataType::BOOL;
                        let bits = if is_flag { u64::from(bits[0] != 0) } else { u64::from_le_bytes(bits) };
                        Datum::Scalar(ty, bits).to_value().map_err(bad)
                    }
                    _ => Err(unsupported(ty)),
                }
            }
        }
    };
}
elements! {
    STRING = String, BYTE_OBJECT = ByteObject, COMPRESSED_STRING = CompressedString,
    COMPRESSED_BYTE_OBJECT = CompressedByteObject, TIMEVAL = Timeval, VALUE = Value, PROC = Proc,
    PROC_NSPACE = ProcNspace, APP = App, INFO = Info, PDATA = Pdata, PROC_INFO = ProcInfo, DATA_ARRAY = DataArray,
    QUERY = Query, ENVAR = Envar, COORD = Coord, REGATTR = Regattr, GEOMETRY = Geometry, DEVICE_DIST = DeviceDist,
    ENDPOINT = Endpoint, DEVICE = Device, RESOURCE_UNIT = ResourceUnit, NODE_PID = NodePid, REGEX2 = Regex2,
    PROC_STATS = ProcStats, DISK_STATS = DiskStats, NET_STATS = NetStats, NODE_STATS = NodeStats,
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::arbitrary;
    use proptest::prelude::*;

    proptest! {
        /// A value that C is given is the same when C gives it back, but that a map expression may have lost a NUL at
        /// its end.
        #[test]
        fn values_survive_the_way_through_c(value in arbitrary::value()) {
            match crate::flat::of_value(&value) {
                // SAFETY: it was made just now.
                Ok(block) => match unsafe { Value::read(block.as_ptr().cast(), 0) } {
                    Ok(back) => match format!("{value:?}").contains("Regex(") {
                        true => prop_assert_eq!(back.data_type(), value.data_type()),
                        false => prop_assert_eq!(back, value),
                    },
                    Err(code) => panic!("{code:?}: {value:?}"),
                },
                Err(code) => prop_assert_eq!(code, Status::ERR_NOT_SUPPORTED.into()),
            }
        }
    }

    #[test]
    fn elements_are_as_large_as_their_types() {
        let sizes = [
            (DataType::PROC, Proc::SIZE),
            (DataType::INFO, Info::SIZE),
            (DataType::PDATA, Pdata::SIZE),
            (DataType::APP, App::SIZE),
            (DataType::QUERY, Query::SIZE),
            (DataType::REGATTR, RegAttr::SIZE),
            (DataType::PROC_INFO, ProcInfo::SIZE),
            (DataType::ENVAR, Envar::SIZE),
            (DataType::COORD, Coord::SIZE),
            (DataType::GEOMETRY, Geometry::SIZE),
            (DataType::DEVICE_DIST, DeviceDistance::SIZE),
            (DataType::ENDPOINT, Endpoint::SIZE),
            (DataType::DEVICE, Device::SIZE),
            (DataType::RESOURCE_UNIT, ResourceUnit::SIZE),
            (DataType::NODE_PID, NodePid::SIZE),
            (DataType::REGEX2, Regex2::SIZE),
            (DataType::PROC_STATS, ProcStats::SIZE),
            (DataType::DISK_STATS, DiskStats::SIZE),
            (DataType::NET_STATS, NetStats::SIZE),
            (DataType::NODE_STATS, NodeStats::SIZE),
            (DataType::DATA_ARRAY, DataArray::SIZE),
            (DataType::VALUE, Value::SIZE),
            (DataType::PROC_NSPACE, Nspace::SIZE),
        ];
        for (ty, size) in sizes {
            assert_eq!(ty.c_size(), size, "{ty}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let read = |words: [u64; 4]| {
            // SAFETY: every address in there is NULL.
            unsafe { Value::read(words.as_ptr().cast(), 0) }
        };
        let word = |ty: DataType| u64::from(ty.0);
        assert_eq!(read([word(DataType::PROC), 0, 0, 0]), Err(Status::ERR_BAD_PARAM.into()));
        assert_eq!(read([word(DataType::BYTE_OBJECT), 0, 7, 0]), Err(Status::ERR_BAD_PARAM.into()));
        assert_eq!(read([9999, 0, 0, 0]), Err(Status::ERR_BAD_PARAM.into()));
        assert_eq!(read([word(DataType::BOOL), 7, 0, 0]), Ok(Value::Bool(true)));
        // Arrays without an end.
        let mut array = [word(DataType::DATA_ARRAY), 1, 0];
        array[2] = array.as_ptr() as u64;
        let endless = [word(DataType::DATA_ARRAY), array.as_ptr() as u64, 0, 0];
        // SAFETY: each array is there.
        assert_eq!(unsafe { Value::read(endless.as_ptr().cast(), 0) }, Err(Status::ERR_BAD_PARAM.into()));
    }
}
