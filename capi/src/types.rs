//! The structures of the public headers, field by field.
//!
//! Sizes and offsets are those of LP64 and are the same in every release since 4.2; a structure that does not match
//! them does not compile. Names are the headers' own. A field that C declares as an enum is a plain integer here,
//! because a C caller may store anything in it.
#![allow(non_camel_case_types)]
use libc::{c_char, c_int, c_void, pid_t, timeval};
use std::mem::{offset_of, size_of};

/// `PMIX_MAX_NSLEN` and the NUL.
pub const NSPACE_SIZE: usize = 256;
/// `PMIX_MAX_KEYLEN` and the NUL.
pub const KEY_SIZE: usize = 512;

/// `pmix_nspace_t`.
pub type pmix_nspace_t = [c_char; NSPACE_SIZE];
/// `pmix_key_t`.
pub type pmix_key_t = [c_char; KEY_SIZE];

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident, $size:literal { $($field:ident: $ty:ty = $at:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            $(pub $field: $ty,)*
        }
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $at);)*
        };
    )*};
}

structures! {
    /// A process.
    pmix_proc_t, 260 { nspace: pmix_nspace_t = 0, rank: u32 = 256 }
    /// A value: a type number and the union it selects from.
    pmix_value_t, 32 { ty: u16 = 0, data: pmix_data_t = 8 }
    /// An attribute.
    pmix_info_t, 552 { key: pmix_key_t = 0, flags: u32 = 512, value: pmix_value_t = 520 }
    /// Published data.
    pmix_pdata_t, 808 { proc: pmix_proc_t = 0, key: pmix_key_t = 260, value: pmix_value_t = 776 }
    /// Bytes and their number.
    pmix_byte_object_t, 16 { bytes: *mut c_char = 0, size: usize = 8 }
    /// Elements of one type.
    pmix_data_array_t, 24 { ty: u16 = 0, size: usize = 8, array: *mut c_void = 16 }
    /// One application of a spawn request.
    pmix_app_t, 56 {
        cmd: *mut c_char = 0, argv: *mut *mut c_char = 8, env: *mut *mut c_char = 16, cwd: *mut c_char = 24,
        maxprocs: c_int = 32, info: *mut pmix_info_t = 40, ninfo: usize = 48,
    }
    /// Keys that are asked for together.
    pmix_query_t, 24 { keys: *mut *mut c_char = 0, qualifiers: *mut pmix_info_t = 8, nqual: usize = 16 }
    /// Description of a supported attribute.
    pmix_regattr_t, 536 {
        name: *mut c_char = 0, string: pmix_key_t = 8, ty: u16 = 520, description: *mut *mut c_char = 528,
    }
    /// A buffer for packed data.
    pmix_data_buffer_t, 40 {
        base_ptr: *mut c_char = 0, pack_ptr: *mut c_char = 8, unpack_ptr: *mut c_char = 16,
        bytes_allocated: usize = 24, bytes_used: usize = 32,
    }
    /// A process and what became of it.
    pmix_proc_info_t, 296 {
        proc: pmix_proc_t = 0, hostname: *mut c_char = 264, executable_name: *mut c_char = 272, pid: pid_t = 280,
        exit_code: c_int = 284, state: u8 = 288,
    }
    /// An environment variable.
    pmix_envar_t, 24 { envar: *mut c_char = 0, value: *mut c_char = 8, separator: c_char = 16 }
    /// A position in a fabric.
    pmix_coord_t, 24 { view: u8 = 0, coord: *mut u32 = 8, dims: usize = 16 }
    /// A device's positions in a fabric.
    pmix_geometry_t, 40 {
        fabric: usize = 0, uuid: *mut c_char = 8, osname: *mut c_char = 16, coordinates: *mut pmix_coord_t = 24,
        ncoords: usize = 32,
    }
    /// Distance of a device from a process.
    pmix_device_distance_t, 32 {
        uuid: *mut c_char = 0, osname: *mut c_char = 8, dtype: u64 = 16, mindist: u16 = 24, maxdist: u16 = 26,
    }
    /// A fabric address of a device.
    pmix_endpoint_t, 32 { uuid: *mut c_char = 0, osname: *mut c_char = 8, endpt: pmix_byte_object_t = 16 }
    /// A set of processing units, in the form of the library that `source` names.
    pmix_cpuset_t, 16 { source: *mut c_char = 0, bitmap: *mut c_void = 8 }
    /// A node's topology, in the form of the library that `source` names.
    pmix_topology_t, 16 { source: *mut c_char = 0, topology: *mut c_void = 8 }
    /// A fabric plane.
    pmix_fabric_t, 40 {
        name: *mut c_char = 0, index: usize = 8, info: *mut pmix_info_t = 16, ninfo: usize = 24,
        module: *mut c_void = 32,
    }
    /// A device.
    pmix_device_t, 24 { uuid: *mut c_char = 0, osname: *mut c_char = 8, dtype: u64 = 16 }
    /// A number of devices of one type.
    pmix_resource_unit_t, 16 { dtype: u64 = 0, count: usize = 8 }
    /// A process id and the node it means something on.
    pmix_node_pid_t, 16 { hostname: *mut c_char = 0, nodeid: u32 = 8, pid: pid_t = 12 }
    /// A map expression and the method it is written in.
    pmix_regex2_t, 24 { ty: *mut c_char = 0, bytes: *mut u8 = 8, len: usize = 16 }
    /// Resources that a process uses.
    pmix_proc_stats_t, 352 {
        node: *mut c_char = 0, proc: pmix_proc_t = 8, pid: pid_t = 268, cmd: *mut c_char = 272, state: c_char = 280,
        time: timeval = 288, percent_cpu: f32 = 304, priority: i32 = 308, num_threads: u16 = 312, pss: f32 = 316,
        vsize: f32 = 320, rss: f32 = 324, peak_vsize: f32 = 328, processor: u16 = 332, sample_time: timeval = 336,
    }
    /// Statistics of a disk.
    pmix_disk_stats_t, 96 {
        disk: *mut c_char = 0, num_reads_completed: u64 = 8, num_reads_merged: u64 = 16, num_sectors_read: u64 = 24,
        milliseconds_reading: u64 = 32, num_writes_completed: u64 = 40, num_writes_merged: u64 = 48,
        num_sectors_written: u64 = 56, milliseconds_writing: u64 = 64, num_ios_in_progress: u64 = 72,
        milliseconds_io: u64 = 80, weighted_milliseconds_io: u64 = 88,
    }
    /// Statistics of a network interface.
    pmix_net_stats_t, 56 {
        net_interface: *mut c_char = 0, num_bytes_recvd: u64 = 8, num_packets_recvd: u64 = 16,
        num_recv_errs: u64 = 24, num_bytes_sent: u64 = 32, num_packets_sent: u64 = 40, num_send_errs: u64 = 48,
    }
    /// Resources that a node uses.
    pmix_node_stats_t, 104 {
        node: *mut c_char = 0, la: f32 = 8, la5: f32 = 12, la15: f32 = 16, total_mem: f32 = 20, free_mem: f32 = 24,
        buffers: f32 = 28, cached: f32 = 32, swap_cached: f32 = 36, swap_total: f32 = 40, swap_free: f32 = 44,
        mapped: f32 = 48, sample_time: timeval = 56, diskstats: *mut pmix_disk_stats_t = 72, ndiskstats: usize = 80,
        netstats: *mut pmix_net_stats_t = 88, nnetstats: usize = 96,
    }
}

/// The union of a value. Members larger than a word lie behind `ptr`, except byte objects, times and environment
/// variables. Every member begins at the union's first byte.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pmix_data_t {
    pub words: [u64; 3],
    pub flag: u8,
    pub string: *mut c_char,
    pub bo: pmix_byte_object_t,
    pub ptr: *mut c_void,
    pub darray: *mut pmix_data_array_t,
}
const _: () = assert!(size_of::<pmix_data_t>() == 24);

impl pmix_value_t {
    /// A value of no type.
    pub const EMPTY: Self = Self { ty: 0, data: pmix_data_t { words: [0; 3] } };
}
