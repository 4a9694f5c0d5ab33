//! libhwloc, where that library is installed: the machine's topology, sets of processing units, and what both say of
//! each other.
//!
//! The library is loaded when it is asked for and never linked: a host without it starts jobs just as well, only that
//! each process then finds the topology out for itself. Its objects travel through the C interface, where they belong
//! to whoever has the pointer: [`Topology`] and [`Bitmap`] own one and can be made of such a pointer, and become one.
mod objects;
mod xml;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::loaded::Loaded;
use crate::data::DeviceDistance;
use objects::Object;

/// The name of every libhwloc of major version 2.
const LIBRARY: &CStr = c"libhwloc.so.15";
/// The oldest interface whose XML is version 2 (`HWLOC_API_VERSION` of 2.0.0).
const OLDEST_API: c_uint = 0x0002_0000;
/// `HWLOC_TYPE_FILTER_KEEP_IMPORTANT`: of the I/O devices those that a program may want to be near to.
const KEEP_IMPORTANT: c_int = 3;
/// `HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM`: what was imported describes the machine we are on.
const THIS_SYSTEM: c_ulong = 1 << 1;
/// Sets of processing units end below this number, or go on without end: more than four times what Linux can have.
const MAX_UNITS: u32 = 1 << 15;
/// Bytes of the three tables of `struct hwloc_topology_support`.
const SUPPORT: [usize; 3] = [6, 11, 15];

/// Declares the functions that are taken from the library, and how they are found.
macro_rules! functions {
    ($($name:ident: $symbol:literal as $signature:ty;)*) => {
        /// The functions of the library.
        struct Hwloc {
            $($name: $signature,)*
        }

        impl Hwloc {
            /// Asks the library for each of them; `None` when one is missing.
            fn of(library: Loaded) -> Option<Self> {
                // SAFETY: libhwloc.so.15 is trusted to keep the signatures that its headers give these names.
                Some(unsafe { Self { $($name: library.function::<$signature>($symbol)?,)* } })
            }
        }
    };
}

functions! {
    api_version: c"hwloc_get_api_version" as unsafe extern "C" fn() -> c_uint;
    init: c"hwloc_topology_init" as unsafe extern "C" fn(*mut *mut c_void) -> c_int;
    filter_io: c"hwloc_topology_set_io_types_filter" as unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
    set_flags: c"hwloc_topology_set_flags" as unsafe extern "C" fn(*mut c_void, c_ulong) -> c_int;
    set_xml: c"hwloc_topology_set_xmlbuffer" as unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> c_int;
    discover: c"hwloc_topology_load" as unsafe extern "C" fn(*mut c_void) -> c_int;
    copy: c"hwloc_topology_dup" as unsafe extern "C" fn(*mut *mut c_void, *mut c_void) -> c_int;
    support: c"hwloc_topology_get_support" as unsafe extern "C" fn(*mut c_void) -> *const [*mut u8; 3];
    export_xml: c"hwloc_topology_export_xmlbuffer"
        as unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *mut c_int, c_ulong) -> c_int;
    free_xml: c"hwloc_free_xmlbuffer" as unsafe extern "C" fn(*mut c_void, *mut c_char);
    destroy: c"hwloc_topology_destroy" as unsafe extern "C" fn(*mut c_void);
    type_depth: c"hwloc_get_type_depth" as unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
    object: c"hwloc_get_obj_by_depth" as unsafe extern "C" fn(*mut c_void, c_int, c_uint) -> *const Object;
    binding: c"hwloc_get_cpubind" as unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int;
    new_bitmap: c"hwloc_bitmap_alloc" as unsafe extern "C" fn() -> *mut c_void;
    copy_bitmap: c"hwloc_bitmap_dup" as unsafe extern "C" fn(*const c_void) -> *mut c_void;
    free_bitmap: c"hwloc_bitmap_free" as unsafe extern "C" fn(*mut c_void);
    intersect: c"hwloc_bitmap_intersects" as unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;
    contains: c"hwloc_bitmap_isincluded" as unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;
    include_range: c"hwloc_bitmap_set_range" as unsafe extern "C" fn(*mut c_void, c_uint, c_int) -> c_int;
    include: c"hwloc_bitmap_set" as unsafe extern "C" fn(*mut c_void, c_uint) -> c_int;
    print_list: c"hwloc_bitmap_list_snprintf"
        as unsafe extern "C" fn(*mut c_char, usize, *const c_void) -> c_int;
    print_set: c"hwloc_bitmap_snprintf" as unsafe extern "C" fn(*mut c_char, usize, *const c_void) -> c_int;
    print_type: c"hwloc_obj_type_snprintf" as unsafe extern "C" fn(*mut c_char, usize, *const Object, c_int) -> c_int;
    print_object: c"hwloc_obj_attr_snprintf"
        as unsafe extern "C" fn(*mut c_char, usize, *const Object, *const c_char, c_int) -> c_int;
    parse_list: c"hwloc_bitmap_list_sscanf" as unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
}

/// The library, which once loaded stays: its plugins keep state of their own.
fn library() -> Option<&'static Hwloc> {
    static LOADED: OnceLock<Option<Hwloc>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref()
}

fn load() -> Option<Hwloc> {
    // SAFETY: the constructors of libhwloc and of its plugins are trusted to run at any time on any thread.
    let hwloc = Hwloc::of(unsafe { Loaded::load(LIBRARY) }?)?;
    // SAFETY: the function takes nothing and reads a constant.
    let version = unsafe { (hwloc.api_version)() };
    (version >= OLDEST_API).then_some(hwloc)
}

/// Returns whether the library is there.
pub fn is_present() -> bool {
    library().is_some()
}

/// This machine's topology as hwloc's XML of version 2; `None` without the library or when it fails.
pub fn topology_xml() -> Option<String> {
    Topology::discover()?.xml()
}

/// Place of this process: hwloc's description of this machine, and of the part that this process may run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The machine, as hwloc's XML of version 2.
    pub xml: String,
    /// The processing units that this process may run on: `hwloc:0-3,8`.
    pub cpuset: Option<String>,
    /// Objects that these units are part of: `SK0:L30:CR0-1:HT0-1:NM0`.
    pub locality: Option<String>,
    /// The cores among them, where they were asked for.
    pub cores: Vec<Core>,
}

/// One core, as far as this process may run on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// The kernel's numbers of its processing units.
    pub units: Vec<usize>,
    /// Processing units as text, `hwloc:0,4`.
    pub cpuset: String,
    /// Objects that it is part of.
    pub locality: String,
}

/// The machine and the place of this process in it; `None` without the library or when it fails.
pub fn place(with_cores: bool) -> Option<Place> {
    let topology = Topology::discover()?;
    let units = topology.binding(false);
    let cpuset = units.as_ref().and_then(Bitmap::list).map(|list| format!("hwloc:{list}"));
    let locality = units.as_ref().and_then(|units| topology.locality(units));
    let cores = units.as_ref().filter(|_| with_cores).map(|units| topology.cores(units)).unwrap_or_default();
    Some(Place { xml: topology.xml()?, cpuset, locality, cores })
}

/// A loaded `hwloc_topology_t`.
#[derive(Debug)]
pub struct Topology(*mut c_void);

// SAFETY: nothing in a loaded topology is bound to a thread.
unsafe impl Send for Topology {}
// SAFETY: hwloc lets any number of threads look at a loaded topology at once.
unsafe impl Sync for Topology {}

impl Drop for Topology {
    fn drop(&mut self) {
        if let Some(hwloc) = library() {
            // SAFETY: owned, and not used after this.
            unsafe { (hwloc.destroy)(self.0) };
        }
    }
}

impl Topology {
    /// This machine's.
    pub fn discover() -> Option<Self> {
        let hwloc = library()?;
        Self::begun(hwloc)?.loaded(hwloc)
    }

    /// This machine's as [`xml`](Self::xml) and [`support`](Self::support) gave it, here or in another process.
    pub fn import(xml: &[u8], support: &[u8]) -> Option<Self> {
        let hwloc = library()?;
        if !xml::is_sound(xml) {
            return None;
        }
        let xml = CString::new(xml).ok()?;
        let length = c_int::try_from(xml.as_bytes_with_nul().len()).ok()?;
        let begun = Self::begun(hwloc)?;
        // SAFETY: not loaded yet, which is when both may be set; the XML has that many bytes, its NUL among them.
        if unsafe {
            (hwloc.set_flags)(begun.0, THIS_SYSTEM) != 0 || (hwloc.set_xml)(begun.0, xml.as_ptr(), length) != 0
        } {
            return None;
        }
        let loaded = begun.loaded(hwloc)?;
        loaded.set_support(hwloc, support);
        Some(loaded)
    }

    fn begun(hwloc: &Hwloc) -> Option<Self> {
        let mut topology = ptr::null_mut();
        // SAFETY: `topology` is a live place for the handle.
        (unsafe { (hwloc.init)(&mut topology) } == 0).then_some(Self(topology))
    }

    fn loaded(self, hwloc: &Hwloc) -> Option<Self> {
        // SAFETY: initialised and not loaded yet, which is when a filter may be set; then it is loaded. No other thread
        // has the handle.
        let found = unsafe { (hwloc.filter_io)(self.0, KEEP_IMPORTANT) == 0 && (hwloc.discover)(self.0) == 0 };
        found.then_some(self)
    }

    /// Takes a handle over.
    ///
    /// # Safety
    /// It is a loaded topology of this process's libhwloc that nobody else frees.
    pub unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self(handle)
    }

    /// Gives the handle away.
    pub fn into_raw(self) -> *mut c_void {
        std::mem::ManuallyDrop::new(self).0
    }

    /// A copy.
    pub fn duplicate(&self) -> Option<Self> {
        let mut copy = ptr::null_mut();
        // SAFETY: a loaded topology, and a live place for the new handle.
        (unsafe { (library()?.copy)(&mut copy, self.0) } == 0).then_some(Self(copy))
    }

    /// The library and its version, `hwloc:2.9.0`.
    pub fn source(&self) -> Option<String> {
        let hwloc = library()?;
        Some(match objects::version(hwloc, self) {
            Some(version) => format!("hwloc:{version}"),
            None => "hwloc".to_owned(),
        })
    }

    /// hwloc's XML of version 2.
    pub fn xml(&self) -> Option<String> {
        let hwloc = library()?;
        let mut buffer: *mut c_char = ptr::null_mut();
        let mut length: c_int = 0;
        // SAFETY: a loaded topology, and live places for what is answered.
        if unsafe { (hwloc.export_xml)(self.0, &mut buffer, &mut length, 0) } != 0 || buffer.is_null() {
            return None;
        }
        // SAFETY: the export succeeded, so that `buffer` is a NUL-terminated string until it is freed below.
        let xml = unsafe { CStr::from_ptr(buffer) }.to_str().ok().map(str::to_owned);
        // SAFETY: `buffer` came from this topology's export, is freed once and not used after this.
        unsafe { (hwloc.free_xml)(self.0, buffer) };
        xml
    }

    /// Returns what the library can find out and bind on the topology's machine, a byte for each ability. It is not
    /// part of the XML.
    pub fn support(&self) -> Vec<u8> {
        let tables = library().map(|hwloc| self.tables(hwloc)).unwrap_or_default();
        let mut bytes = Vec::new();
        for (table, len) in tables.into_iter().zip(SUPPORT) {
            // SAFETY: each table has that many bytes in every version 2, and lives as long as the topology.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(table, len) });
        }
        bytes
    }

    fn set_support(&self, hwloc: &Hwloc, mut support: &[u8]) {
        for (table, len) in self.tables(hwloc).into_iter().zip(SUPPORT) {
            let Some((first, rest)) = support.split_at_checked(len) else { return };
            // SAFETY: as above; the topology has just been made and nobody else has it.
            unsafe { ptr::copy_nonoverlapping(first.as_ptr(), table, len) };
            support = rest;
        }
    }

    fn tables(&self, hwloc: &Hwloc) -> Vec<*mut u8> {
        // SAFETY: a loaded topology; the answer is NULL or a structure of three pointers that lives as long.
        let tables = unsafe { (hwloc.support)(self.0).as_ref() };
        tables
            .filter(|tables| tables.iter().all(|table| !table.is_null()))
            .map(|tables| tables.to_vec())
            .unwrap_or_default()
    }

    /// Returns the units that this process may run on, or this thread.
    pub fn binding(&self, thread: bool) -> Option<Bitmap> {
        let bitmap = Bitmap::empty()?;
        // SAFETY: a loaded topology and a set of ours; 1 asks for the process, 2 for the thread.
        let got = unsafe { (library()?.binding)(self.0, bitmap.0, if thread { 2 } else { 1 }) };
        (got == 0).then_some(bitmap)
    }

    /// Returns the packages, caches, cores, threads and memories that some processing units are part of:
    /// `SK0:L30:CR0-1:HT0-1:NM0`.
    pub fn locality(&self, units: &Bitmap) -> Option<String> {
        objects::locality(library()?, self, units)
    }

    /// The cores that some processing units are part of, with those of their units.
    fn cores(&self, units: &Bitmap) -> Vec<Core> {
        let Some(hwloc) = library() else { return Vec::new() };
        let core = |units: Vec<usize>| {
            let list = units.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            let locality = self.locality(&Bitmap::parse(list.as_bytes())?)?;
            Some(Core { units, cpuset: format!("hwloc:{list}"), locality })
        };
        objects::cores(hwloc, self, units).into_iter().filter_map(core).collect()
    }

    /// All objects, as a text of many lines.
    pub fn outline(&self) -> Option<String> {
        objects::outline(library()?, self)
    }

    /// Returns the distances of devices of some types (`constants::device_type` bits) from some processing units.
    pub fn distances(&self, units: &Bitmap, types: u64) -> Vec<DeviceDistance> {
        library().map(|hwloc| objects::distances(hwloc, self, units, types)).unwrap_or_default()
    }
}

/// Returns the text that one of those functions writes which say how much room they need; without room they write
/// nothing.
fn written(mut print: impl FnMut(*mut c_char, usize) -> c_int) -> Option<String> {
    let len = print(ptr::null_mut(), 0);
    let mut text = vec![0u8; usize::try_from(len).ok()? + 1];
    print(text.as_mut_ptr().cast(), text.len());
    text.pop();
    String::from_utf8(text).ok()
}

/// A number that fits.
fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?.parse().ok()
}

/// A `hwloc_bitmap_t`: a set of processing units.
#[derive(Debug)]
pub struct Bitmap(*mut c_void);

impl Drop for Bitmap {
    fn drop(&mut self) {
        if let Some(hwloc) = library() {
            // SAFETY: owned, and not used after this.
            unsafe { (hwloc.free_bitmap)(self.0) };
        }
    }
}

impl Bitmap {
    fn empty() -> Option<Self> {
        // SAFETY: takes nothing.
        let bitmap = unsafe { (library()?.new_bitmap)() };
        (!bitmap.is_null()).then_some(Self(bitmap))
    }

    /// The set that a list says: `0-3,8`. None where a number is too large.
    pub fn parse(list: &[u8]) -> Option<Self> {
        // hwloc reads what it can of anything, and takes the lowest bits of any number.
        // A number that begins with 0 it reads as an octal one, and ends in the middle of one that is not.
        let is_whole =
            |text: &[u8]| text.first() != Some(&b'0') || text.iter().all(|digit| (b'0'..b'8').contains(digit));
        let fits =
            |text: &[u8]| text.is_empty() || is_whole(text) && number(text).is_some_and(|number| number < MAX_UNITS);
        let is_zero = |text: &[u8]| text.iter().all(|digit| *digit == b'0');
        let is_range = |range: &[u8]| {
            let mut before = None;
            range.split(|byte| *byte == b'-').all(|text| {
                // Behind nothing it is a sign.
                let signed = before.replace(text).is_some_and(<[u8]>::is_empty);
                fits(text) && (!signed || is_zero(text))
            })
        };
        if !list.split(|byte| *byte == b',').all(is_range) {
            return None;
        }
        let list = CString::new(list).ok()?;
        let bitmap = Self::empty()?;
        // SAFETY: a set of ours and a C string.
        (unsafe { (library()?.parse_list)(bitmap.0, list.as_ptr()) } == 0).then_some(bitmap)
    }

    /// As a list: `0-3,8`. None where some units have too large numbers: hwloc itself does not come to an end behind
    /// those that are no `int`.
    pub fn list(&self) -> Option<String> {
        let hwloc = library()?;
        let beyond = Self::empty()?;
        // SAFETY: sets, the first one of ours; -1 is no end.
        unsafe {
            (hwloc.include_range)(beyond.0, MAX_UNITS, -1);
            if (hwloc.intersect)(self.0, beyond.0) != 0 && (hwloc.contains)(beyond.0, self.0) == 0 {
                return None;
            }
        }
        // SAFETY: a set, and as much room as is said, or none.
        written(|at, room| unsafe { (hwloc.print_list)(at, room, self.0) })
    }

    /// Takes a set over.
    ///
    /// # Safety
    /// It is a set of this process's libhwloc that nobody else frees.
    pub unsafe fn from_raw(set: *mut c_void) -> Self {
        Self(set)
    }

    /// Gives the set away.
    pub fn into_raw(self) -> *mut c_void {
        std::mem::ManuallyDrop::new(self).0
    }

    /// A copy.
    pub fn duplicate(&self) -> Option<Self> {
        // SAFETY: a set.
        let copy = unsafe { (library()?.copy_bitmap)(self.0) };
        (!copy.is_null()).then_some(Self(copy))
    }

    fn include(&self, hwloc: &Hwloc, index: u32) {
        // SAFETY: a set of ours. Without memory it stays as it is.
        unsafe { (hwloc.include)(self.0, index) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::constants::device_type;

    #[test]
    fn the_topology_is_version_2_xml_where_the_library_is_present() {
        let Some(xml) = topology_xml() else {
            println!("no libhwloc here: nothing to check");
            return;
        };
        assert!(xml.starts_with("<?xml"), "{}", &xml[..xml.len().min(80)]);
        assert!(xml.contains("<topology version=\"2."), "{}", &xml[..xml.len().min(200)]);
        assert!(xml.trim_end().ends_with("</topology>"));
    }

    #[test]
    fn its_source_is_the_version_that_it_says_itself() {
        let Some(here) = Topology::discover() else { return };
        let source = here.source().expect("a source");
        let version = source.strip_prefix("hwloc:").expect("a version");
        let said = format!("<info name=\"hwlocVersion\" value=\"{version}\"/>");
        assert!(here.xml().expect("XML").contains(&said), "{source}");
    }

    #[test]
    fn what_is_exported_is_imported() {
        let Some(here) = Topology::discover() else { return };
        let xml = here.xml().expect("XML");
        let back = Topology::import(xml.as_bytes(), &here.support()).expect("a topology");
        assert_eq!(back.support(), here.support());
        assert_eq!(here.support().len(), SUPPORT.iter().sum::<usize>());
        // Threads of other tests end while they are looked at.
        let all = (0..1000).find_map(|_| back.binding(false)).expect("where this process runs");
        assert_eq!(here.locality(&all), here.duplicate().expect("a copy").locality(&all));
        assert!(Topology::import(b"<topology", &[]).is_none());
    }

    #[test]
    fn large_numbers_are_errors() {
        let Some(hwloc) = library() else { return };
        for list in [
            "99999999999",
            "4294967295",
            "32768",
            "0-32768",
            "0,3-4294967294",
            "-1",
            "3--1",
            "+1",
            "3-,-5",
            "08",
            "08-3,8",
        ] {
            assert!(Bitmap::parse(list.as_bytes()).is_none(), "{list}");
        }
        for at in [MAX_UNITS, 1 << 20] {
            let odd = Bitmap::parse(b"0-3").expect("a list");
            odd.include(hwloc, at);
            assert_eq!(odd.list(), None, "{at}");
        }
        // Only just beyond, and without end.
        let endless = Bitmap::parse(b"32767-").expect("a list");
        assert_eq!(endless.list().as_deref(), Some("32767-"));
        endless.include(hwloc, 3);
        assert_eq!(endless.list().as_deref(), Some("3,32767-"));
    }

    #[test]
    fn topologies_of_others_have_numbers_of_machines() {
        let Some(here) = Topology::discover() else { return };
        let xml = here.xml().expect("XML");
        for (from, to) in [
            ("type=\"PU\" os_index=\"0\"", "type=\"PU\" os_index=\"4000000000\""),
            ("type=\"PU\" os_index=\"0\"", "type=\"PU\" os_index=\"&#52;000000000\""),
            ("type=\"PU\" os_index=\"0\"", "type=\"PU\" os_index = \"4000000000\""),
            ("type=\"NUMANode\" os_index=\"0\"", "type=\"NUMANode\" os_index=\"1048576\""),
            (" complete_cpuset=", " complete_bpuset="),
            (" complete_nodeset=\"0x", " complete_nodeset=\",x"),
            ("encoding=\"UTF-8\"", "encoding=\"UTF-7\""),
            ("<!DOCTYPE topology", "<!DOCTYPE topology [<!ENTITY a \"\">]"),
        ] {
            let odd = xml.replace(from, to);
            assert_ne!(odd, xml, "{from}");
            assert!(Topology::import(odd.as_bytes(), &[]).is_none(), "{to}");
        }
    }

    #[test]
    fn sets_are_lists_and_places() {
        let Some(here) = Topology::discover() else { return };
        for list in ["", "0", "0-3,8", "0-32767", "5-"] {
            let set = Bitmap::parse(list.as_bytes()).expect("a list");
            assert_eq!(set.list().as_deref(), Some(list));
            assert_eq!(set.duplicate().expect("a copy").list().as_deref(), Some(list));
        }
        assert!(Bitmap::parse(b"0-x").is_none());
        let place = here.locality(&Bitmap::parse(b"0").expect("a list")).expect("a place");
        assert!(place.contains("HT0") && place.contains("CR0"), "{place}");
        let distances =
            |list: &[u8]| here.distances(&Bitmap::parse(list).expect("a list"), device_type::DEVTYPE_NETWORK);
        for (all, part) in distances(b"0-1").iter().zip(distances(b"0")) {
            assert!(all.osname.is_some() && all.mindist > 0 && all.mindist <= all.maxdist, "{all:?}");
            // A process that is bound to a part of it is no nearer than the nearest, and no farther than the farthest.
            assert!(all.mindist <= part.mindist && part.maxdist <= all.maxdist, "{all:?} {part:?}");
        }
    }
}
