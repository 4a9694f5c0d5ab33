//! The objects of a topology: what some processing units are part of, and how far away devices are.
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use super::{Bitmap, Hwloc, Topology};
use crate::data::constants::device_type::*;
use crate::data::{DeviceDistance, Text};

/// `struct hwloc_obj` of version 2, as far as it is looked at.
#[repr(C)]
pub struct Object {
    ty: c_int,
    subtype: *const c_char,
    os_index: c_uint,
    name: *const c_char,
    total_memory: u64,
    attr: *const c_int,
    depth: c_int,
    logical_index: c_uint,
    next_cousin: *const Object,
    prev_cousin: *const Object,
    parent: *const Object,
    unseen_siblings: [u64; 3],
    arity: c_uint,
    children: *const *const Object,
    unseen_children: [u64; 8],
    cpuset: *const c_void,
    unseen_sets: [*const c_void; 3],
    infos: *const ObjectInfo,
    infos_count: c_uint,
}

/// `struct hwloc_info_s`.
#[repr(C)]
struct ObjectInfo {
    name: *const c_char,
    value: *const c_char,
}

const _: () = assert!(std::mem::offset_of!(Object, parent) == 72);
const _: () = assert!(std::mem::offset_of!(Object, children) == 112);
const _: () = assert!(std::mem::offset_of!(Object, cpuset) == 184);
const _: () = assert!(std::mem::offset_of!(Object, infos) == 216);

/// The number of `HWLOC_OBJ_PU`.
const UNIT: c_int = 3;
/// The number of `HWLOC_OBJ_CORE`.
const CORE: c_int = 2;
/// `HWLOC_TYPE_DEPTH_OS_DEVICE`: where the devices are.
const DEVICES: c_int = -6;

/// Objects that are looked for in a locality string: the name there of each, and the number of its `HWLOC_OBJ_`.
const PLACES: [(&str, c_int); 7] = [("SK", 1), ("L3", 6), ("L2", 5), ("L1", 4), ("CR", CORE), ("HT", UNIT), ("NM", 13)];

/// The types of devices by their number of `HWLOC_OBJ_OSDEV_`.
const DEVICE_TYPES: [u64; 6] =
    [DEVTYPE_BLOCK, DEVTYPE_GPU, DEVTYPE_NETWORK, DEVTYPE_OPENFABRICS, DEVTYPE_DMA, DEVTYPE_COPROC];

/// All objects of one level.
fn level<'a>(hwloc: &Hwloc, topology: &'a Topology, depth: c_int) -> impl Iterator<Item = &'a Object> {
    // SAFETY: a loaded topology; the answer is NULL or an object that lives as long.
    let first = unsafe { (hwloc.object)(topology.0, depth, 0).as_ref() };
    // SAFETY: NULL or the next object of the same topology.
    std::iter::successors(first, |object| unsafe { object.next_cousin.as_ref() })
}

/// All objects of one type.
fn of_type<'a>(hwloc: &Hwloc, topology: &'a Topology, ty: c_int) -> impl Iterator<Item = &'a Object> {
    // SAFETY: a loaded topology.
    let depth = unsafe { (hwloc.type_depth)(topology.0, ty) };
    // There is no level of -1, HWLOC_TYPE_DEPTH_UNKNOWN.
    level(hwloc, topology, depth)
}

/// The version of the library that has found the topology out, as its root says.
pub fn version(hwloc: &Hwloc, topology: &Topology) -> Option<String> {
    let version = info(level(hwloc, topology, 0).next()?, c"hwlocVersion")?;
    Some(version.to_string_lossy().into_owned())
}

/// All objects with what hwloc says of them, a line each: what an object is part of stands before it, less indented.
pub fn outline(hwloc: &Hwloc, topology: &Topology) -> Option<String> {
    let mut lines = String::new();
    tell(hwloc, level(hwloc, topology, 0).next()?, "\n\t", &binding(hwloc, topology), &mut lines)?;
    lines.push('\n');
    Some(lines)
}

/// An object and what it is made of; `begin` begins each of its lines but the first, `more` are some that it has
/// besides.
fn tell(hwloc: &Hwloc, object: &Object, begin: &str, more: &[String], lines: &mut String) -> Option<()> {
    let separator = CString::new(begin).ok()?;
    // SAFETY: an object, and as much room as is said, or none.
    let kind = super::written(|at, room| unsafe { (hwloc.print_type)(at, room, object, 1) })?;
    // SAFETY: as above, and a C string.
    let says = super::written(|at, room| unsafe { (hwloc.print_object)(at, room, object, separator.as_ptr(), 1) })?;
    let name = text(object.name).map_or_else(|| "NULL".into(), |name| name.to_string_lossy().into_owned());
    *lines += &format!("Type: {kind} Number of child objects: {}{begin}Name={name}", object.arity);
    if !says.is_empty() {
        *lines += &format!("{begin}{says}");
    }
    if !object.cpuset.is_null() {
        // SAFETY: a set, and as much room as is said, or none.
        let units = super::written(|at, room| unsafe { (hwloc.print_set)(at, room, object.cpuset) })?;
        *lines += &format!("{begin}Cpuset:  {units}");
    }
    more.iter().for_each(|line| *lines += &format!("{begin}{line}"));
    for at in 0..object.arity as usize {
        *lines += begin;
        // SAFETY: an object has so many children, objects of the same topology.
        tell(hwloc, unsafe { &**object.children.add(at) }, &format!("{begin}\t"), &[], lines)?;
    }
    Some(())
}

/// Returns a line for each thing that processes and threads of the machine can be bound to.
fn binding(hwloc: &Hwloc, topology: &Topology) -> Vec<String> {
    let tables = topology.tables(hwloc);
    let line = |(what, table, at): (&str, usize, usize)| {
        // SAFETY: the table of that number has more entries, and lives as long as the topology.
        let can = tables.get(table).is_some_and(|table| unsafe { table.add(at).read() } != 0);
        format!("Bind {what} {}", if can { "TRUE" } else { "FALSE" })
    };
    [("CPU proc:  ", 1, 0), ("CPU thread:", 1, 4), ("MEM proc:  ", 2, 0), ("MEM thread:", 2, 4)].map(line).into()
}

fn touches(hwloc: &Hwloc, object: &Object, units: &Bitmap) -> bool {
    // SAFETY: two sets.
    !object.cpuset.is_null() && unsafe { (hwloc.intersect)(object.cpuset, units.0) } != 0
}

pub fn locality(hwloc: &Hwloc, topology: &Topology, units: &Bitmap) -> Option<String> {
    let mut parts = Vec::new();
    for (name, ty) in PLACES {
        let touched = Bitmap::empty()?;
        for object in of_type(hwloc, topology, ty).filter(|object| touches(hwloc, object, units)) {
            touched.include(hwloc, object.logical_index);
        }
        let list = touched.list()?;
        if !list.is_empty() {
            parts.push(format!("{name}{list}"));
        }
    }
    Some(parts.join(":"))
}

/// The kernel's numbers of some processing units, by the core that they are part of.
pub fn cores(hwloc: &Hwloc, topology: &Topology, units: &Bitmap) -> Vec<Vec<usize>> {
    let near = |core: &Object| {
        let is_in = |unit: &&Object| {
            // SAFETY: two sets.
            !unit.cpuset.is_null() && unsafe { (hwloc.intersect)(core.cpuset, unit.cpuset) } != 0
        };
        let all = of_type(hwloc, topology, UNIT).filter(|unit| touches(hwloc, unit, units));
        all.filter(is_in).map(|unit| unit.os_index as usize).collect()
    };
    of_type(hwloc, topology, CORE).filter(|core| touches(hwloc, core, units)).map(near).collect()
}

pub fn distances(hwloc: &Hwloc, topology: &Topology, units: &Bitmap, types: u64) -> Vec<DeviceDistance> {
    let near: Vec<&Object> = of_type(hwloc, topology, UNIT).filter(|object| touches(hwloc, object, units)).collect();
    let devices = level(hwloc, topology, DEVICES).filter_map(|device| {
        // SAFETY: NULL or the attributes of a device, which begin with its type.
        let ty = unsafe { device.attr.as_ref() }.and_then(|ty| DEVICE_TYPES.get(usize::try_from(*ty).ok()?))?;
        let steps = || near.iter().map(|unit| steps(device, unit));
        Some(DeviceDistance {
            uuid: identifier(device, *ty),
            osname: text(device.name),
            device_type: *ty,
            mindist: steps().min().unwrap_or(u16::MAX),
            maxdist: steps().max().unwrap_or(u16::MAX),
        })
    });
    devices.filter(|device| device.device_type & types != 0).collect()
}

/// Returns the number of steps from one object to another, up to what both are part of and down again.
fn steps(a: &Object, b: &Object) -> u16 {
    let chain = |object| {
        // SAFETY: NULL or the parent, an object of the same topology.
        std::iter::successors(Some(object), |object: &&Object| unsafe { object.parent.as_ref() })
    };
    let met = chain(a).enumerate().find_map(|(up, object)| {
        let down = chain(b).position(|other| ptr::eq(other, object))?;
        u16::try_from(up + down).ok()
    });
    met.unwrap_or(u16::MAX)
}

/// Returns the text that tells a device from all others.
fn identifier(device: &Object, ty: u64) -> Option<Text> {
    let of = |name| info(device, name).map(|value| value.to_string_lossy().into_owned());
    let name = || text(device.name).map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Text::new(match ty {
        DEVTYPE_NETWORK => format!("ipv4://{}", of(c"Address").unwrap_or_else(name)),
        DEVTYPE_OPENFABRICS => format!("ib://{}:{}", of(c"NodeGUID")?, of(c"SysImageGUID")?),
        DEVTYPE_GPU => format!("gpu://{}", name()),
        DEVTYPE_COPROC => format!("coproc://{}", name()),
        DEVTYPE_DMA => format!("dma://{}", name()),
        _ => format!("blk://{}", name()),
    })
    .ok()
}

fn info(object: &Object, name: &CStr) -> Option<Text> {
    if object.infos.is_null() {
        return None;
    }
    // SAFETY: so many pairs of C strings, which live as long as the object.
    let infos = unsafe { std::slice::from_raw_parts(object.infos, object.infos_count as usize) };
    // SAFETY: as above.
    infos.iter().find(|info| unsafe { CStr::from_ptr(info.name) } == name).and_then(|info| text(info.value))
}

fn text(from: *const c_char) -> Option<Text> {
    // SAFETY: NULL or a C string that lives as long as its object.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }).and_then(|text| Text::new(text.to_bytes()).ok())
}
