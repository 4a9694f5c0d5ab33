//! Between the C structures and the data model.
//!
//! [`Mirror`] pairs a C type with a Rust one, member by member, for structures and for what they are made of;
//! [`read`] and [`write`] choose the pair by the number of a data type. Values, attributes and arrays nest: a C caller
//! may nest them without end, so reading counts the levels.
mod values;

use std::ptr;

use instanton::data::{
    App, Channels, Coord, Cpuset, DataRange, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry,
    Key, NetStats, NodePid, NodeStats, Nspace, Pdata, Proc, ProcInfo, ProcStats, Query, Rank, Real, RegAttr, Regex2,
    ResourceUnit, Scope, Status, Text, Timeval, Topology, archive,
};
use libc::{c_char, timeval};

use crate::alloc;
use crate::foreign::{self, Foreign};
use crate::owned::{Owned, release_array};
use crate::types::*;

pub use values::{read, write};

/// Deepest nesting of values in arrays in values that is accepted from C: deeper ones could not be sent anyway.
const MAX_DEPTH: usize = archive::MAX_DEPTH;

/// A C type that says the same as the Rust type `R`.
pub trait Mirror<R> {
    /// Converts a C structure into Rust. `depth` levels are above.
    ///
    /// # Safety
    /// Members point to what the headers say.
    unsafe fn to_rust(&self, depth: usize) -> Result<R, Status>;

    /// Says it in C, in place of something that owns nothing. When it fails, the caller clears what was begun.
    fn fill(&mut self, from: &R) -> Result<(), Status>;
}

impl<T: Mirror<R>, R> Mirror<Box<R>> for T {
    unsafe fn to_rust(&self, depth: usize) -> Result<Box<R>, Status> {
        // SAFETY: as promised by the caller.
        unsafe { T::to_rust(self, depth) }.map(Box::new)
    }
    fn fill(&mut self, from: &Box<R>) -> Result<(), Status> {
        T::fill(self, from)
    }
}

/// Converts one C structure.
///
/// # Safety
/// `from` is NULL or such a structure.
pub unsafe fn one<T: Mirror<R>, R>(from: *const T) -> Result<R, Status> {
    // SAFETY: as promised by the caller.
    unsafe { from.as_ref().ok_or(Status::ERR_BAD_PARAM)?.to_rust(0) }
}

/// Converts the elements of a C array.
///
/// # Safety
/// `first` is NULL or has `n` elements.
pub unsafe fn many<T: Mirror<R>, R>(first: *const T, n: usize) -> Result<Vec<R>, Status> {
    // SAFETY: as promised by the caller.
    unsafe { list(first, n, 0) }
}

unsafe fn list<T: Mirror<R>, R>(first: *const T, n: usize, depth: usize) -> Result<Vec<R>, Status> {
    // SAFETY: as promised by the caller.
    let from = unsafe { alloc::slice(first, n) }?;
    let mut out = room(n)?;
    for element in from {
        // SAFETY: as promised by the caller.
        out.push(unsafe { element.to_rust(depth) }?);
    }
    Ok(out)
}

/// An empty vector with room for `n`: the number comes from C, and there may not be that much memory.
fn room<R>(n: usize) -> Result<Vec<R>, Status> {
    let mut out = Vec::new();
    out.try_reserve_exact(n).map_err(|_| Status::ERR_NOMEM)?;
    Ok(out)
}

/// A new C structure.
pub fn made<T: Mirror<R> + Owned, R>(from: &R) -> Result<T, Status> {
    let mut new = T::constructed();
    match new.fill(from) {
        Ok(()) => Ok(new),
        Err(status) => {
            // SAFETY: it was made here.
            unsafe { new.clear() };
            Err(status)
        }
    }
}

/// A new C array; NULL for an empty one.
pub fn made_array<T: Mirror<R> + Owned, R>(from: &[R]) -> Result<*mut T, Status> {
    let array = alloc::zeroed::<T>(from.len());
    if array.is_null() && !from.is_empty() {
        return Err(Status::ERR_NOMEM);
    }
    for (i, element) in from.iter().enumerate() {
        match made(element) {
            // SAFETY: inside the new array.
            Ok(element) => unsafe { array.add(i).write(element) },
            Err(status) => {
                // SAFETY: as many elements have been made.
                unsafe { release_array(array, i) };
                return Err(status);
            }
        }
    }
    Ok(array)
}

/// Types that differ in nothing but their name.
macro_rules! same {
    ($($c:ty as $rust:ty),* $(,)?) => {$(
        impl Mirror<$rust> for $c {
            unsafe fn to_rust(&self, _depth: usize) -> Result<$rust, Status> {
                Ok(*self as $rust)
            }
            fn fill(&mut self, from: &$rust) -> Result<(), Status> {
                *self = *from as $c;
                Ok(())
            }
        }
    )*};
}
// A `c_char` is an `i8` or a `u8`, by the processor.
same! { u8 as u8, i8 as u8, u16 as u16, u32 as u32, i32 as i32, u64 as u64, usize as u64 }

/// Types that one expression turns into the other, each way.
macro_rules! simple {
    ($($c:ty, $rust:ty: |$this:ident| $get:expr, |$from:ident| $set:expr;)*) => {$(
        impl Mirror<$rust> for $c {
            unsafe fn to_rust(&self, _depth: usize) -> Result<$rust, Status> {
                let $this = self;
                // SAFETY: a text or an array that ends, or bytes of the given number, as promised by the caller.
                #[allow(unused_unsafe, reason = "some need no promise")]
                unsafe { Ok($get) }
            }
            fn fill(&mut self, from: &$rust) -> Result<(), Status> {
                let $from = from;
                *self = $set;
                Ok(())
            }
        }
    )*};
}
simple! {
    *mut c_char, Option<Text>:
        |text| alloc::c_bytes(*text).map(Text::new).transpose().map_err(|_| Status::ERR_BAD_PARAM)?,
        |from| from.as_ref().map_or(Ok(ptr::null_mut()), |text| alloc::text(text.as_bytes()))?;
    *mut *mut c_char, Vec<Text>:
        |argv| alloc::argv(*argv).into_iter().map(Text::new).collect::<Result<_, _>>()
            .map_err(|_| Status::ERR_BAD_PARAM)?,
        |from| if from.is_empty() { ptr::null_mut() } else { alloc::new_argv(from.iter().map(Text::as_bytes))? };
    pmix_key_t, Key:
        |key| Key::new(alloc::name(key.as_ptr(), KEY_SIZE)?).map_err(|_| Status::ERR_BAD_PARAM)?,
        |from| fixed(from.as_bytes());
    pmix_key_t, Option<Key>:
        |key| Key::new(alloc::name(key.as_ptr(), KEY_SIZE)?).ok().filter(|key| !key.is_empty()),
        |from| fixed(from.as_ref().map_or(b"", Key::as_bytes));
    pmix_nspace_t, Nspace:
        |nspace| Nspace::new(alloc::name(nspace.as_ptr(), NSPACE_SIZE)?).map_err(|_| Status::ERR_BAD_PARAM)?,
        |from| fixed(from.as_bytes());
    pmix_byte_object_t, Vec<u8>:
        |bo| alloc::slice(bo.bytes.cast::<u8>(), bo.size)?.to_vec(),
        |from| pmix_byte_object_t { bytes: alloc::bytes(from)?, size: from.len() };
    pmix_data_buffer_t, Vec<u8>:
        |buffer| alloc::slice(buffer.base_ptr.cast::<u8>(), buffer.bytes_used)?.to_vec(),
        |from| {
            let base_ptr = alloc::bytes(from)?;
            let pack_ptr = base_ptr.wrapping_add(from.len());
            pmix_data_buffer_t {
                base_ptr, pack_ptr, unpack_ptr: base_ptr, bytes_allocated: from.len(), bytes_used: from.len(),
            }
        };
    u32, Rank: |rank| Rank(*rank), |from| from.0;
    u16, DataType: |ty| DataType(*ty), |from| from.0;
    u8, Scope: |scope| Scope(*scope), |from| from.0;
    u8, DataRange: |range| DataRange(*range), |from| from.0;
    u16, Channels: |channels| Channels(*channels), |from| from.0;
    f32, Real: |real| Real(*real), |from| from.0;
    timeval, Timeval:
        |time| Timeval { sec: time.tv_sec, usec: time.tv_usec },
        |from| timeval { tv_sec: from.sec, tv_usec: from.usec };
}

fn fixed<const N: usize>(name: &[u8]) -> [c_char; N] {
    let mut place = [0; N];
    alloc::set_name(&mut place, name);
    place
}

/// Objects of another library: what they say travels.
macro_rules! foreign {
    ($($c:ty = $rust:ident, $object:ident;)*) => {$(
        impl Mirror<$rust> for $c {
            unsafe fn to_rust(&self, depth: usize) -> Result<$rust, Status> {
                // SAFETY: as promised by the caller.
                unsafe {
                    let object = self.object()?;
                    Self::describe(self.source.to_rust(depth)?, object.as_deref()).ok_or(Status::ERR_NOT_SUPPORTED)
                }
            }
            fn fill(&mut self, from: &$rust) -> Result<(), Status> {
                self.$object = Self::adopt(from)?;
                // Not every sender says whose object it is.
                match from.source.is_none() && !self.$object.is_null() {
                    true => self.source = alloc::text(foreign::METHOD)?,
                    false => self.source.fill(&from.source)?,
                }
                Ok(())
            }
        }
    )*};
}
foreign! { pmix_topology_t = Topology, topology; pmix_cpuset_t = Cpuset, bitmap; }

/// Structures, member by member; `member[number]` is an array.
macro_rules! structures {
    ($($c:ty = $rust:ident { $($field:ident $([$n:ident])?: $member:ident),* $(,)? })*) => {$(
        impl Mirror<$rust> for $c {
            unsafe fn to_rust(&self, depth: usize) -> Result<$rust, Status> {
                // SAFETY: as promised by the caller.
                unsafe { Ok($rust { $($member: structures!(@get self depth $field $($n)?),)* }) }
            }
            fn fill(&mut self, from: &$rust) -> Result<(), Status> {
                $(structures!(@set self (&from.$member) $field $($n)?);)*
                Ok(())
            }
        }
    )*};
    (@get $self:ident $depth:ident $field:ident) => { $self.$field.to_rust($depth)? };
    (@get $self:ident $depth:ident $field:ident $n:ident) => { list($self.$field, $self.$n, $depth)? };
    (@set $self:ident $from:tt $field:ident) => { $self.$field.fill($from)? };
    (@set $self:ident $from:tt $field:ident $n:ident) => {
        $self.$field = made_array($from)?;
        $self.$n = $from.len();
    };
}
structures! {
    pmix_proc_t = Proc { nspace: nspace, rank: rank }
    pmix_pdata_t = Pdata { proc: proc, key: key, value: value }
    pmix_app_t = App { cmd: cmd, argv: argv, env: env, cwd: cwd, maxprocs: maxprocs, info[ninfo]: info }
    pmix_query_t = Query { keys: keys, qualifiers[nqual]: qualifiers }
    pmix_regattr_t = RegAttr { name: name, string: key, ty: data_type, description: description }
    pmix_proc_info_t = ProcInfo {
        proc: proc, hostname: hostname, executable_name: executable, pid: pid, exit_code: exit_code, state: state,
    }
    pmix_envar_t = Envar { envar: name, value: value, separator: separator }
    pmix_coord_t = Coord { view: view, coord[dims]: coord }
    pmix_geometry_t = Geometry { fabric: fabric, uuid: uuid, osname: osname, coordinates[ncoords]: coordinates }
    pmix_device_distance_t = DeviceDistance {
        uuid: uuid, osname: osname, dtype: device_type, mindist: mindist, maxdist: maxdist,
    }
    pmix_endpoint_t = Endpoint { uuid: uuid, osname: osname, endpt: endpt }
    pmix_device_t = Device { uuid: uuid, osname: osname, dtype: device_type }
    pmix_resource_unit_t = ResourceUnit { dtype: device_type, count: count }
    pmix_node_pid_t = NodePid { hostname: hostname, nodeid: nodeid, pid: pid }
    pmix_regex2_t = Regex2 { ty: method, bytes[len]: bytes }
    pmix_proc_stats_t = ProcStats {
        node: node, proc: proc, pid: pid, cmd: cmd, state: state, time: time, percent_cpu: percent_cpu,
        priority: priority, num_threads: num_threads, pss: pss, vsize: vsize, rss: rss, peak_vsize: peak_vsize,
        processor: processor, sample_time: sample_time,
    }
    pmix_disk_stats_t = DiskStats {
        disk: disk, num_reads_completed: num_reads_completed, num_reads_merged: num_reads_merged,
        num_sectors_read: num_sectors_read, milliseconds_reading: milliseconds_reading,
        num_writes_completed: num_writes_completed, num_writes_merged: num_writes_merged,
        num_sectors_written: num_sectors_written, milliseconds_writing: milliseconds_writing,
        num_ios_in_progress: num_ios_in_progress, milliseconds_io: milliseconds_io,
        weighted_milliseconds_io: weighted_milliseconds_io,
    }
    pmix_net_stats_t = NetStats {
        net_interface: net_interface, num_bytes_recvd: num_bytes_recvd, num_packets_recvd: num_packets_recvd,
        num_recv_errs: num_recv_errs, num_bytes_sent: num_bytes_sent, num_packets_sent: num_packets_sent,
        num_send_errs: num_send_errs,
    }
    pmix_node_stats_t = NodeStats {
        node: node, la: la, la5: la5, la15: la15, total_mem: total_mem, free_mem: free_mem, buffers: buffers,
        cached: cached, swap_cached: swap_cached, swap_total: swap_total, swap_free: swap_free, mapped: mapped,
        sample_time: sample_time, diskstats[ndiskstats]: diskstats, netstats[nnetstats]: netstats,
    }
}
