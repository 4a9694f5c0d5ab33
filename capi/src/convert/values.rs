//! Values, and what nests with them: attributes and arrays. A value's type says what of the union holds, and of an
//! array what it has.
use std::ptr;

use instanton::data::constants::info_directives::INFO_PERSISTENT;
use instanton::data::{DataArray, DataType, Info, Status, Value};
use libc::{c_char, c_void, timeval};

use super::{MAX_DEPTH, Mirror, room};
use crate::alloc;
use crate::kind::Kind;
use crate::types::*;

impl Mirror<Info> for pmix_info_t {
    unsafe fn to_rust(&self, depth: usize) -> Result<Info, Status> {
        // SAFETY: as promised by the caller.
        unsafe { Ok(Info { key: self.key.to_rust(depth)?, flags: self.flags, value: self.value.to_rust(depth)? }) }
    }

    fn fill(&mut self, from: &Info) -> Result<(), Status> {
        self.key.fill(&from.key)?;
        // That somebody else owned the value is not true of a copy.
        self.flags = from.flags & !INFO_PERSISTENT;
        self.value.fill(&from.value)
    }
}

impl Mirror<Value> for pmix_value_t {
    unsafe fn to_rust(&self, depth: usize) -> Result<Value, Status> {
        let ty = DataType(self.ty);
        match Kind::of(ty) {
            _ if ty == DataType::UNDEF => Ok(Value::Undef),
            None => Err(Status::ERR_UNKNOWN_DATA_TYPE),
            // SAFETY: the member of the union that the type selects holds the element, or points to it.
            Some(kind) if kind.is_boxed() => unsafe { read(ty, self.data.ptr, depth) },
            // SAFETY: as above.
            Some(_) => unsafe { read(ty, (&raw const self.data).cast(), depth) },
        }
    }

    fn fill(&mut self, from: &Value) -> Result<(), Status> {
        let ty = from.data_type();
        if ty == DataType::UNDEF {
            *self = Self::EMPTY;
            return Ok(());
        }
        let kind = Kind::of(ty).ok_or(Status::ERR_NOT_SUPPORTED)?;
        *self = Self { ty: ty.0, ..Self::EMPTY };
        if !kind.is_boxed() {
            // SAFETY: the union has room for every kind that is not boxed.
            return unsafe { write(from, (&raw mut self.data).cast()) };
        }
        let place: *mut c_void = alloc::zeroed::<u8>(kind.size).cast();
        if place.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        self.data.ptr = place;
        // SAFETY: `place` has room for an element of the kind.
        unsafe {
            (kind.construct)(place);
            write(from, place)
        }
    }
}

impl Mirror<DataArray> for pmix_data_array_t {
    unsafe fn to_rust(&self, depth: usize) -> Result<DataArray, Status> {
        if depth >= MAX_DEPTH {
            return Err(Status::ERR_BAD_PARAM);
        }
        let ty = DataType(self.ty);
        if self.size == 0 {
            return DataArray::new(ty, Vec::new());
        }
        let kind = Kind::of(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let bytes = self.size.checked_mul(kind.size).ok_or(Status::ERR_BAD_PARAM)?;
        // SAFETY: as promised by the caller. Only the pointer and the size are looked at here.
        unsafe { alloc::slice(self.array.cast::<u8>(), bytes) }?;
        let mut items = room(self.size)?;
        for i in 0..self.size {
            // SAFETY: inside the array, as promised by the caller.
            items.push(unsafe { read(ty, self.array.byte_add(i * kind.size), depth + 1) }?);
        }
        DataArray::new(ty, items)
    }

    fn fill(&mut self, from: &DataArray) -> Result<(), Status> {
        let ty = from.data_type();
        *self = Self { ty: ty.0, size: 0, array: ptr::null_mut() };
        let Some(kind) = Kind::of(ty) else {
            return if from.items().is_empty() { Ok(()) } else { Err(Status::ERR_NOT_SUPPORTED) };
        };
        let bytes = from.items().len().checked_mul(kind.size).ok_or(Status::ERR_NOMEM)?;
        self.array = alloc::zeroed::<u8>(bytes).cast();
        if self.array.is_null() && bytes != 0 {
            return Err(Status::ERR_NOMEM);
        }
        for item in from.items() {
            // SAFETY: inside the new array; the element counts as soon as it is constructed.
            unsafe {
                let place = self.array.byte_add(self.size * kind.size);
                (kind.construct)(place);
                self.size += 1;
                write(item, place)?;
            }
        }
        Ok(())
    }
}

/// The types that lie in one C type and become one variant.
macro_rules! elements {
    ($($ty:ident, $variant:ident: $c:ty;)*) => {
        /// The element of type `ty` at `place`. A map expression that is text has its NUL among its bytes in C,
        /// and none in the data model.
        ///
        /// # Safety
        /// `place` is NULL or points to such an element.
        pub unsafe fn read(ty: DataType, place: *const c_void, depth: usize) -> Result<Value, Status> {
            if place.is_null() {
                return Err(Status::ERR_BAD_PARAM);
            }
            // SAFETY: as promised by the caller. An element that C packed oddly is read all the same.
            unsafe {
                match ty {
                    DataType::BOOL => Ok(Value::Bool(place.cast::<u8>().read() != 0)),
                    DataType::FLOAT => Ok(Value::Float(place.cast::<f32>().read_unaligned())),
                    DataType::DOUBLE => Ok(Value::Double(place.cast::<f64>().read_unaligned())),
                    DataType::STATUS => Ok(Value::Status(Status(place.cast::<i32>().read_unaligned()))),
                    DataType::INT8 => Ok(Value::Int8(place.cast::<i8>().read())),
                    DataType::INT16 => Ok(Value::Int16(place.cast::<i16>().read_unaligned())),
                    DataType::INT64 => Ok(Value::Int64(place.cast::<i64>().read_unaligned())),
                    DataType::TIME => Ok(Value::Time(place.cast::<i64>().read_unaligned())),
                    DataType::POINTER => Ok(Value::Pointer(place.cast::<u64>().read_unaligned())),
                    DataType::REGEX => {
                        let mut bytes: Vec<u8> = place.cast::<pmix_byte_object_t>().read_unaligned().to_rust(depth)?;
                        if bytes.iter().position(|byte| *byte == 0) == bytes.len().checked_sub(1) {
                            bytes.pop();
                        }
                        Ok(Value::Regex(bytes))
                    }
                    DataType::VALUE if depth >= MAX_DEPTH => Err(Status::ERR_BAD_PARAM),
                    DataType::VALUE => {
                        let value: Value = place.cast::<pmix_value_t>().read_unaligned().to_rust(depth + 1)?;
                        Ok(Value::Value(Box::new(value)))
                    }
                    $(DataType::$ty => Ok(Value::$variant(place.cast::<$c>().read_unaligned().to_rust(depth)?)),)*
                    _ => Err(Status::ERR_UNKNOWN_DATA_TYPE),
                }
            }
        }

        /// Writes a value as an element, over one that owns nothing.
        ///
        /// # Safety
        /// `place` has room for an element of the value's type, and is constructed.
        pub unsafe fn write(value: &Value, place: *mut c_void) -> Result<(), Status> {
            // SAFETY: as promised by the caller.
            unsafe {
                match value {
                    Value::Bool(flag) => place.cast::<u8>().write(u8::from(*flag)),
                    Value::Float(x) => place.cast::<f32>().write(*x),
                    Value::Double(x) => place.cast::<f64>().write(*x),
                    Value::Status(status) => place.cast::<i32>().write(status.0),
                    Value::Int8(n) => place.cast::<i8>().write(*n),
                    Value::Int16(n) => place.cast::<i16>().write(*n),
                    Value::Int64(n) | Value::Time(n) => place.cast::<i64>().write(*n),
                    Value::Pointer(address) => place.cast::<u64>().write(*address),
                    Value::Regex(bytes) if bytes.contains(&0) => (*place.cast::<pmix_byte_object_t>()).fill(bytes)?,
                    Value::Regex(text) => {
                        (*place.cast::<pmix_byte_object_t>()).fill(&[text.as_slice(), &[0]].concat())?;
                    }
                    Value::Value(value) => (*place.cast::<pmix_value_t>()).fill(value)?,
                    $(Value::$variant(from) => (*place.cast::<$c>()).fill(from)?,)*
                    _ => return Err(Status::ERR_NOT_SUPPORTED),
                }
            }
            Ok(())
        }
    };
}
elements! {
    BYTE, Byte: u8;
    STRING, String: *mut c_char;
    SIZE, Size: u64;
    PID, Pid: i32;
    INT, Int: i32;
    INT32, Int32: i32;
    UINT, Uint: u32;
    UINT8, Uint8: u8;
    UINT16, Uint16: u16;
    UINT32, Uint32: u32;
    UINT64, Uint64: u64;
    TIMEVAL, Timeval: timeval;
    PROC, Proc: pmix_proc_t;
    APP, App: pmix_app_t;
    INFO, Info: pmix_info_t;
    PDATA, Pdata: pmix_pdata_t;
    BYTE_OBJECT, ByteObject: pmix_byte_object_t;
    PERSIST, Persist: u8;
    SCOPE, Scope: u8;
    DATA_RANGE, DataRange: u8;
    COMMAND, Command: u8;
    INFO_DIRECTIVES, InfoDirectives: u32;
    DATA_TYPE, DataType: u16;
    PROC_STATE, ProcState: u8;
    PROC_INFO, ProcInfo: pmix_proc_info_t;
    DATA_ARRAY, DataArray: pmix_data_array_t;
    PROC_RANK, ProcRank: u32;
    QUERY, Query: pmix_query_t;
    COMPRESSED_STRING, CompressedString: pmix_byte_object_t;
    ALLOC_DIRECTIVE, AllocDirective: u8;
    IOF_CHANNEL, IofChannel: u16;
    ENVAR, Envar: pmix_envar_t;
    COORD, Coord: pmix_coord_t;
    REGATTR, Regattr: pmix_regattr_t;
    JOB_STATE, JobState: u8;
    LINK_STATE, LinkState: u8;
    PROC_CPUSET, ProcCpuset: pmix_cpuset_t;
    GEOMETRY, Geometry: pmix_geometry_t;
    DEVICE_DIST, DeviceDist: pmix_device_distance_t;
    ENDPOINT, Endpoint: pmix_endpoint_t;
    TOPO, Topo: pmix_topology_t;
    DEVTYPE, Devtype: u64;
    LOCTYPE, Loctype: u16;
    COMPRESSED_BYTE_OBJECT, CompressedByteObject: pmix_byte_object_t;
    PROC_NSPACE, ProcNspace: pmix_nspace_t;
    PROC_STATS, ProcStats: pmix_proc_stats_t;
    DISK_STATS, DiskStats: pmix_disk_stats_t;
    NET_STATS, NetStats: pmix_net_stats_t;
    NODE_STATS, NodeStats: pmix_node_stats_t;
    DATA_BUFFER, DataBuffer: pmix_data_buffer_t;
    STOR_MEDIUM, StorMedium: u64;
    STOR_ACCESS, StorAccess: u64;
    STOR_PERSIST, StorPersist: u64;
    STOR_ACCESS_TYPE, StorAccessType: u16;
    DEVICE, Device: pmix_device_t;
    RESBLOCK_DIRECTIVE, ResblockDirective: u8;
    RESOURCE_UNIT, ResourceUnit: pmix_resource_unit_t;
    NODE_PID, NodePid: pmix_node_pid_t;
    REGEX2, Regex2: pmix_regex2_t;
    ALLOC_INHERIT, AllocInherit: u8;
}

#[cfg(test)]
mod tests {
    use instanton::data::{Cpuset, Text, arbitrary};
    use proptest::prelude::*;

    use super::super::made;
    use super::*;
    use crate::owned::Owned;

    /// Returns the text of a value, apart from the ownership of its attributes' values; an object that nobody claims is
    /// libhwloc's.
    fn said(value: &Value) -> String {
        let claimed = |text: String, object: &str| {
            text.replace(&format!("source: None, {object}: Some"), &format!("source: Some(\"hwloc\"), {object}: Some"))
        };
        let text = ["bitmap", "xml"].into_iter().fold(format!("{value:?}"), claimed);
        let mut parts = text.split("flags: ");
        let first = parts.next().unwrap_or_default().to_string();
        parts.fold(first, |out, part| {
            let (number, rest) = part.split_once(',').unwrap_or((part, ""));
            let flags: u32 = number.parse().expect("a number");
            out + &format!("flags: {}, {rest}", flags & !INFO_PERSISTENT)
        })
    }

    /// The value by way of C, and of a copy that C made; what was made is freed again.
    fn through_c(value: &Value) -> Result<Value, Status> {
        let mut first: pmix_value_t = made(value)?;
        // SAFETY: made above, and copied before it is cleared.
        unsafe {
            let mut second = first.dup().expect("a copy");
            first.clear();
            let back = second.to_rust(0).expect("the value");
            second.clear();
            Ok(back)
        }
    }

    proptest! {
        /// Through C and back, nothing is changed.
        #[test]
        fn values_survive_the_way_through_c(value in arbitrary::value()) {
            let back = match through_c(&value) {
                Ok(back) => back,
                // No library makes an object of any text.
                Err(status) => {
                    prop_assert!([Status::ERR_NOT_SUPPORTED, Status::ERR_UNPACK_FAILURE].contains(&status));
                    return Ok(());
                }
            };
            prop_assert_eq!(back.data_type(), value.data_type());
            let text = said(&value);
            if text.contains("Cpuset {") {
                // In C it is an object of hwloc, which writes its text its own way: 0 for -0. After that it stays.
                let again = through_c(&back);
                prop_assert_eq!(again.as_ref().map(said), Ok(said(&back)));
            } else if !text.contains("Regex(") {
                // A map expression may have come with or without its NUL.
                prop_assert_eq!(said(&back), text);
            }
        }
    }

    #[test]
    fn a_cpuset_comes_back_as_hwloc_writes_it() {
        for (given, written) in [("0-3,7", "0-3,7"), ("-0", "0")] {
            let text = |text: &str| Some(Text::new(text).expect("no NUL"));
            let set = |bitmap| Value::ProcCpuset(Cpuset { source: text("hwloc"), bitmap: text(bitmap) });
            match through_c(&set(given)) {
                Ok(back) => assert_eq!(back, set(written)),
                Err(status) => assert_eq!(status, Status::ERR_NOT_SUPPORTED, "without hwloc"),
            }
        }
    }

    #[test]
    fn a_map_expression_has_its_nul_in_c_alone() {
        let text = Value::Regex(b"pmix[a]".to_vec());
        let mut in_c: pmix_value_t = made(&text).expect("memory");
        // SAFETY: made above.
        unsafe {
            assert_eq!(in_c.data.bo.size, 8);
            assert_eq!(in_c.to_rust(0), Ok(text));
            in_c.clear();
        }
        let binary = Value::Regex(b"blob:\0size=1:x".to_vec());
        let mut in_c: pmix_value_t = made(&binary).expect("memory");
        // SAFETY: made above.
        unsafe {
            assert_eq!(in_c.to_rust(0), Ok(binary));
            in_c.clear();
        }
    }
}
