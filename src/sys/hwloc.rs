//! The machine's topology, asked of libhwloc where that library is installed.
//!
//! The library is loaded when it is asked for and never linked: a host without it starts jobs just as well, only that
//! each process then finds the topology out for itself.
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;

/// An opaque `hwloc_topology_t`.
type Topology = *mut c_void;

/// The name of every libhwloc of major version 2.
const LIBRARY: &CStr = c"libhwloc.so.15";
/// The oldest interface whose XML is version 2 (`HWLOC_API_VERSION` of 2.0.0).
const OLDEST_API: c_uint = 0x0002_0000;
/// `HWLOC_TYPE_FILTER_KEEP_IMPORTANT`: of the I/O devices those that a program may want to be near to.
const KEEP_IMPORTANT: c_int = 3;

/// This machine's topology as hwloc's XML of version 2; `None` without the library or when it fails.
pub fn topology_xml() -> Option<String> {
    Hwloc::load()?.export()
}

/// Declares the functions that are taken from the library, and how they are found.
macro_rules! functions {
    ($($name:ident: $symbol:literal as $signature:ty;)*) => {
        /// The functions of the library that an export needs.
        struct Hwloc {
            $($name: $signature,)*
        }

        impl Hwloc {
            /// Asks `address_of` for each of them; `None` when one is missing.
            fn find(address_of: impl Fn(&CStr) -> *mut c_void) -> Option<Self> {
                Some(Self {
                    $($name: {
                        let address = address_of($symbol);
                        if address.is_null() {
                            return None;
                        }
                        // SAFETY:
                        // - The address is of a function, and a function pointer is as wide as a data pointer here.
                        // - libhwloc.so.15 is trusted to keep the signature that its headers give this name.
                        unsafe { std::mem::transmute::<*mut c_void, $signature>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    api_version: c"hwloc_get_api_version" as unsafe extern "C" fn() -> c_uint;
    init: c"hwloc_topology_init" as unsafe extern "C" fn(*mut Topology) -> c_int;
    filter_io: c"hwloc_topology_set_io_types_filter" as unsafe extern "C" fn(Topology, c_int) -> c_int;
    discover: c"hwloc_topology_load" as unsafe extern "C" fn(Topology) -> c_int;
    export_xml: c"hwloc_topology_export_xmlbuffer"
        as unsafe extern "C" fn(Topology, *mut *mut c_char, *mut c_int, c_ulong) -> c_int;
    free_xml: c"hwloc_free_xmlbuffer" as unsafe extern "C" fn(Topology, *mut c_char);
    destroy: c"hwloc_topology_destroy" as unsafe extern "C" fn(Topology);
}

impl Hwloc {
    /// Loads the library, which then stays: its plugins keep state of their own.
    fn load() -> Option<Self> {
        // SAFETY:
        // - LIBRARY is a NUL-terminated name.
        // - The constructors of libhwloc and of its plugins are trusted to run at any time on any thread.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        let hwloc = Self::find(|name| {
            // SAFETY:
            // - `library` is a handle that dlopen has just given and that nobody closes.
            // - `name` is NUL-terminated.
            unsafe { libc::dlsym(library, name.as_ptr()) }
        })?;
        // SAFETY: the function takes nothing and reads a constant.
        let version = unsafe { (hwloc.api_version)() };
        (version >= OLDEST_API).then_some(hwloc)
    }

    fn export(&self) -> Option<String> {
        let mut topology: Topology = ptr::null_mut();
        // SAFETY: `topology` is a live place for the handle.
        if unsafe { (self.init)(&mut topology) } != 0 {
            return None;
        }
        // SAFETY:
        // - `topology` was initialised above and is not loaded yet, which is when a filter may be set; then it is loaded.
        // - No other thread has the handle.
        let found = unsafe { (self.filter_io)(topology, KEEP_IMPORTANT) == 0 && (self.discover)(topology) == 0 };
        let xml = if found { self.xml_of(topology) } else { None };
        // SAFETY: `topology` was initialised above and is not used after this.
        unsafe { (self.destroy)(topology) };
        xml
    }

    /// `topology` must be loaded.
    fn xml_of(&self, topology: Topology) -> Option<String> {
        let mut buffer: *mut c_char = ptr::null_mut();
        let mut length: c_int = 0;
        // SAFETY:
        // - `topology` is a loaded topology.
        // - `buffer` and `length` are live places for what is answered.
        if unsafe { (self.export_xml)(topology, &mut buffer, &mut length, 0) } != 0 || buffer.is_null() {
            return None;
        }
        // SAFETY: the export succeeded, so that `buffer` is a NUL-terminated string until it is freed below.
        let xml = unsafe { CStr::from_ptr(buffer) }.to_str().ok().map(str::to_owned);
        // SAFETY: `buffer` came from this topology's export, is freed once and not used after this.
        unsafe { (self.free_xml)(topology, buffer) };
        xml
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_topology_is_version_2_xml_where_the_library_is_present() {
        let Some(xml) = super::topology_xml() else {
            println!("no libhwloc here: nothing to check");
            return;
        };
        assert!(xml.starts_with("<?xml"), "{}", &xml[..xml.len().min(80)]);
        assert!(xml.contains("<topology version=\"2."), "{}", &xml[..xml.len().min(200)]);
        assert!(xml.trim_end().ends_with("</topology>"));
    }
}
