//! Objects of libhwloc behind pointers of C: the owner of the pointer owns the object.
use std::mem::ManuallyDrop;

use instanton::data::{Cpuset, Status, Text, Topology};
use instanton::internal::sys::hwloc::{self, Bitmap};
use libc::{c_char, c_void};

use crate::alloc;
use crate::types::{pmix_cpuset_t, pmix_topology_t};

/// Prefix of a source whose objects libhwloc knows.
pub const METHOD: &[u8] = b"hwloc";

/// Returns whether an object of this source is libhwloc's. One without a source is.
///
/// # Safety
/// `source` is NULL or a C string.
pub unsafe fn is_ours(source: *const c_char) -> bool {
    // SAFETY: as promised by the caller.
    is_named(unsafe { alloc::c_bytes(source) })
}

fn is_named(source: Option<&[u8]>) -> bool {
    source.is_none_or(|source| source.get(..METHOD.len()).is_some_and(|start| start.eq_ignore_ascii_case(METHOD)))
}

/// Checks that an object of this source can be made here.
fn can_hear(source: &Option<Text>) -> Result<(), Status> {
    let known = is_named(source.as_ref().map(|source| source.as_bytes())) && hwloc::is_present();
    if known { Ok(()) } else { Err(Status::ERR_NOT_SUPPORTED) }
}

/// A C structure around a pointer to an object.
pub trait Foreign {
    /// Wrapper of the object.
    type Object;
    /// Form that any process can read.
    type Portable;

    /// Returns the structure's pointers to the name of the object's library, and to the object.
    fn parts(&self) -> (*mut c_char, *mut c_void);
    /// The object as an owner would see it.
    ///
    /// # Safety
    /// `object` is a live object of this kind.
    unsafe fn wrap(object: *mut c_void) -> Self::Object;
    /// A copy.
    fn copied(object: &Self::Object) -> Option<*mut c_void>;
    /// Describes an object in the form that any process can read.
    fn describe(source: Option<Text>, object: Option<&Self::Object>) -> Option<Self::Portable>;
    /// An object that says this, of its source; none where nothing is described.
    fn adopt(described: &Self::Portable) -> Result<*mut c_void, Status>;

    /// The object, which stays the structure's; none where there is none.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for objects of another library, and where libhwloc is not there.
    ///
    /// # Safety
    /// The structure is constructed.
    unsafe fn object(&self) -> Result<Option<ManuallyDrop<Self::Object>>, Status> {
        let (source, object) = self.parts();
        if object.is_null() {
            return Ok(None);
        }
        // SAFETY: as promised by the caller.
        unsafe {
            if !is_ours(source) || !hwloc::is_present() {
                return Err(Status::ERR_NOT_SUPPORTED);
            }
            Ok(Some(ManuallyDrop::new(Self::wrap(object))))
        }
    }
}

impl Foreign for pmix_cpuset_t {
    type Object = Bitmap;
    type Portable = Cpuset;

    fn parts(&self) -> (*mut c_char, *mut c_void) {
        (self.source, self.bitmap)
    }
    unsafe fn wrap(object: *mut c_void) -> Bitmap {
        // SAFETY: as promised by the caller.
        unsafe { Bitmap::from_raw(object) }
    }
    fn copied(object: &Bitmap) -> Option<*mut c_void> {
        object.duplicate().map(Bitmap::into_raw)
    }
    fn describe(source: Option<Text>, object: Option<&Bitmap>) -> Option<Cpuset> {
        let bitmap = match object {
            Some(object) => Some(Text::new(object.list()?).ok()?),
            None => None,
        };
        Some(Cpuset { source, bitmap })
    }
    fn adopt(described: &Cpuset) -> Result<*mut c_void, Status> {
        let Some(bitmap) = &described.bitmap else { return Ok(std::ptr::null_mut()) };
        can_hear(&described.source)?;
        Bitmap::parse(bitmap.as_bytes()).map(Bitmap::into_raw).ok_or(Status::ERR_UNPACK_FAILURE)
    }
}

impl Foreign for pmix_topology_t {
    type Object = hwloc::Topology;
    type Portable = Topology;

    fn parts(&self) -> (*mut c_char, *mut c_void) {
        (self.source, self.topology)
    }
    unsafe fn wrap(object: *mut c_void) -> hwloc::Topology {
        // SAFETY: as promised by the caller.
        unsafe { hwloc::Topology::from_raw(object) }
    }
    fn copied(object: &hwloc::Topology) -> Option<*mut c_void> {
        object.duplicate().map(hwloc::Topology::into_raw)
    }
    fn describe(source: Option<Text>, object: Option<&hwloc::Topology>) -> Option<Topology> {
        match object {
            Some(object) => {
                Some(Topology { source, xml: Some(Text::new(object.xml()?).ok()?), support: object.support() })
            }
            None => Some(Topology { source, xml: None, support: Vec::new() }),
        }
    }
    fn adopt(described: &Topology) -> Result<*mut c_void, Status> {
        let Some(xml) = &described.xml else { return Ok(std::ptr::null_mut()) };
        can_hear(&described.source)?;
        let object = hwloc::Topology::import(xml.as_bytes(), &described.support);
        object.map(hwloc::Topology::into_raw).ok_or(Status::ERR_UNPACK_FAILURE)
    }
}
