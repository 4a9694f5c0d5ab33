//! The structures of the header, field by field, and how they are read.
use std::ffi::CStr;
use std::mem::offset_of;
use std::slice;

use instanton::data::{DataType, Key, Rank, Status, Value};
use instanton::store::Datum;
use libc::{c_char, c_int, c_void};

use crate::boundary::{Code, bad, fail};
use crate::layout::InC;
use crate::table::VERSION;

/// Forms of a value.
pub const SCALAR: u16 = 1;
pub const TEXT: u16 = 2;
pub const BYTES: u16 = 3;
pub const ARCHIVE: u16 = 4;
pub const PMIX_VALUE: u16 = 5;

/// Most bytes of a value: what a process posts at once has no more.
const LARGEST: usize = u32::MAX as usize;

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident, $bytes:literal { $($field:ident: $ty:ty = $at:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            $(pub $field: $ty,)*
        }
        const _: () = {
            assert!(size_of::<$name>() == $bytes);
            $(assert!(offset_of!($name, $field) == $at);)*
        };
    )*};
}

structures! {
    /// A borrowed value.
    instanton_value_t, 32 {
        size: u32 = 0, ty: u16 = 4, form: u16 = 6, bits: u64 = 8, bytes: *const c_void = 16, length: usize = 24,
    }
    /// A key with a value.
    instanton_entry_t, 48 { size: u32 = 0, scope: u32 = 4, key: *const c_char = 8, value: instanton_value_t = 16 }
    /// Information of a job that is said at once.
    instanton_job_spec_t, 64 {
        size: u32 = 0, version: u32 = 4, nspace: *const c_char = 8, own_host: *const c_char = 16,
        node_map: *const c_char = 24, proc_map: *const c_char = 32, local_procs: u32 = 40, job_size: u32 = 44,
        memory_limit: u64 = 48, reader_limit: u64 = 56,
    }
    /// Memory that a job takes.
    instanton_stats_t, 64 {
        size: u32 = 0, readers: u32 = 4, bytes: u64 = 8, segments: u64 = 16, live: u64 = 24, retired: u64 = 32,
        set_aside: u64 = 40, generation: u64 = 48, contradictions: u64 = 56,
    }
    /// Source of a reader's segments.
    instanton_view_spec_t, 48 {
        size: u32 = 0, version: u32 = 4, address: *const c_char = 8, descriptors: *const c_int = 16,
        ndescriptors: usize = 24, page: c_int = 32, patience_ms: u32 = 36, trust_owner: u32 = 40,
    }
}

/// Bytes of an [`instanton_view_spec_t`] of the first header.
const FIRST_VIEW_SPEC: usize = offset_of!(instanton_view_spec_t, trust_owner);

impl instanton_view_spec_t {
    /// Nothing said.
    const NONE: Self = Self {
        size: size_of::<Self>() as u32,
        version: VERSION,
        address: std::ptr::null(),
        descriptors: std::ptr::null(),
        ndescriptors: 0,
        page: -1,
        patience_ms: 0,
        trust_owner: 0,
    };

    /// Reads a specification; one of an older header ends earlier, and does not say the rest.
    ///
    /// # Safety
    /// NULL, or as many bytes as its size says.
    pub unsafe fn read(pointer: *const Self) -> Result<Self, Code> {
        let mut spec = Self::NONE;
        if pointer.is_null() {
            return Ok(spec);
        }
        // SAFETY: as promised by the caller; the size is the first field.
        let size = unsafe { pointer.cast::<u32>().read() } as usize;
        if size < FIRST_VIEW_SPEC {
            return Err(bad(format_args!(
                "instanton_view_spec_t says that it has {size} bytes, and has {FIRST_VIEW_SPEC} at least"
            )));
        }
        let known = size.min(size_of::<Self>());
        // SAFETY: there are so many bytes at either place, and any bits are numbers and addresses.
        unsafe { std::ptr::from_mut(&mut spec).cast::<u8>().copy_from_nonoverlapping(pointer.cast(), known) };
        is_served(spec.version)?;
        Ok(spec)
    }
}

/// A handle or structure that must be there.
///
/// # Safety
/// NULL, or what the header says.
pub unsafe fn there<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Code> {
    // SAFETY: as promised by the caller; the header lets no two threads use it at once.
    unsafe { pointer.as_mut() }.ok_or_else(|| bad(format_args!("{name} is NULL")))
}

/// A handle that threads share.
///
/// # Safety
/// NULL, or what the header says.
pub unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Code> {
    // SAFETY: as promised by the caller.
    unsafe { pointer.as_ref() }.ok_or_else(|| bad(format_args!("{name} is NULL")))
}

/// Looks whether a structure is one that this library knows; a longer one is of a newer header, and what is behind is
/// not looked at.
pub fn is_whole<T>(size: u32, name: &str) -> Result<(), Code> {
    if (size as usize) < size_of::<T>() {
        let wanted = size_of::<T>();
        return Err(bad(format_args!("{name} says that it has {size} bytes, and has {wanted} at least")));
    }
    Ok(())
}

/// Looks whether the program was compiled against a header that this library serves.
pub fn is_served(version: u32) -> Result<(), Code> {
    if version >> 16 != VERSION >> 16 || version > VERSION {
        let reason = format_args!("the header has version {version:#x}, the library {VERSION:#x}");
        return Err(fail(Status::ERR_NOT_SUPPORTED, reason));
    }
    Ok(())
}

/// A text that may be NULL.
///
/// # Safety
/// NULL, or a text that ends with a NUL.
pub unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: as promised by the caller.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// A key.
///
/// # Safety
/// As [`text`].
pub unsafe fn key_bytes<'a>(pointer: *const c_char) -> Result<&'a [u8], Code> {
    // SAFETY: as promised by the caller.
    unsafe { text(pointer) }.ok_or_else(|| bad("the key is NULL"))
}

/// A key that is stored.
///
/// # Safety
/// As [`text`].
pub unsafe fn key(pointer: *const c_char) -> Result<Key, Code> {
    // SAFETY: as promised by the caller.
    let name = unsafe { key_bytes(pointer) }?;
    if name.is_empty() {
        return Err(bad("the key is empty"));
    }
    Key::new(name).map_err(bad)
}

/// An array of plain things.
///
/// # Safety
/// NULL where there are none, or so many of them.
pub unsafe fn array<'a, T>(pointer: *const T, n: usize, name: &str) -> Result<&'a [T], Code> {
    match (pointer.is_null(), n) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(bad(format_args!("{name} is NULL, and there are {n} of them"))),
        // More than any memory has.
        (false, _) if n > isize::MAX as usize / size_of::<T>().max(1) => {
            Err(bad(format_args!("there are not {n} of {name}")))
        }
        // SAFETY: as promised by the caller.
        (false, _) => Ok(unsafe { slice::from_raw_parts(pointer, n) }),
    }
}

/// A structure that says its own size at its front.
///
/// # Safety
/// Valid for any bits, and begins with the size.
pub unsafe trait Sized32: Copy {
    const NAME: &str;
}
// SAFETY: integers and addresses, the size first.
unsafe impl Sized32 for instanton_value_t {
    const NAME: &str = "instanton_value_t";
}
// SAFETY: integers and addresses, the size first.
unsafe impl Sized32 for instanton_entry_t {
    const NAME: &str = "instanton_entry_t";
}

/// Structures one behind the other, each as long as the first.
///
/// # Safety
/// NULL where there are none, or so many of them.
pub unsafe fn structs<T: Sized32>(pointer: *const T, n: usize) -> Result<Vec<T>, Code> {
    if n == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: as promised by the caller; the size is the first field.
    let size = *unsafe { shared(pointer.cast::<u32>(), T::NAME) }?;
    is_whole::<T>(size, T::NAME)?;
    let stride = size as usize;
    if !stride.is_multiple_of(align_of::<T>()) {
        return Err(bad(format_args!("{} has {size} bytes, which cannot follow one another", T::NAME)));
    }
    if n > isize::MAX as usize / stride {
        return Err(bad(format_args!("there are not {n} of {}", T::NAME)));
    }
    let mut all = Vec::with_capacity(n);
    for at in 0..n {
        // SAFETY: as promised by the caller, there are so many of the first's size. The size is the first field.
        let (next, said) =
            unsafe { (pointer.byte_add(at * stride), pointer.byte_add(at * stride).cast::<u32>().read()) };
        if said != size {
            return Err(bad(format_args!("{} {at} says another size than the first", T::NAME)));
        }
        // SAFETY: it has at least the bytes that are read.
        all.push(unsafe { next.read() });
    }
    Ok(all)
}

impl instanton_value_t {
    /// The value where it lies.
    ///
    /// # Safety
    /// The memory that it points to lasts as long as the answer.
    pub unsafe fn datum<'a>(&self) -> Result<Datum<'a>, Code> {
        is_whole::<Self>(self.size, "instanton_value_t")?;
        let ty = DataType(self.ty);
        let bytes = self.bytes.cast::<u8>();
        let is_endless = self.form == TEXT && self.length == usize::MAX;
        if [TEXT, BYTES].contains(&self.form) && !bytes.is_null() && !is_endless && self.length > LARGEST {
            return Err(bad(format_args!("a value of {} bytes; {LARGEST} are allowed", self.length)));
        }
        match self.form {
            SCALAR => Ok(Datum::Scalar(ty, self.bits)),
            TEXT if ty != DataType::STRING => {
                Err(bad(format_args!("a value in the form of a text is of type PMIX_STRING, not {ty}")))
            }
            TEXT if bytes.is_null() => Ok(Datum::Text(None)),
            // SAFETY: as promised by the caller.
            TEXT if self.length == usize::MAX => Ok(Datum::Text(unsafe { text(bytes.cast()) })),
            // SAFETY: as promised by the caller.
            TEXT => Ok(Datum::Text(Some(unsafe { array(bytes, self.length, "the text") }?))),
            // SAFETY: as promised by the caller.
            BYTES => Ok(Datum::Bytes(ty, unsafe { array(bytes, self.length, "the bytes of a value") }?)),
            PMIX_VALUE if bytes.is_null() => Err(bad("a value of the Standard is NULL")),
            // SAFETY: as promised by the caller.
            PMIX_VALUE => unsafe { Value::read(bytes, 0) }.map(Datum::from),
            form => Err(bad(format_args!("form {form}: 1 (SCALAR), 2 (TEXT), 3 (BYTES) and 5 (PMIX_VALUE) are taken"))),
        }
    }
}

/// Bytes from which on room for values is looked for before anything is begun.
const MUCH: usize = 1 << 20;

/// Looks whether this process can have so many bytes more. Code that takes them later has no way but to end the process
/// without them; small pieces are as good as always there.
pub fn has_room(bytes: usize) -> Result<(), Code> {
    let mut room = Vec::<u8>::new();
    if bytes < MUCH || std::hint::black_box(&mut room).try_reserve_exact(bytes).is_ok() {
        return Ok(());
    }
    Err(fail(Status::ERR_OUT_OF_RESOURCE, format_args!("{bytes} bytes of this process's own memory cannot be had")))
}

/// Bytes that a copy of a value takes, and an archive of one that is stored as such.
pub fn bytes_of(value: &Datum<'_>) -> usize {
    match value {
        Datum::Scalar(..) => 0,
        Datum::Text(text) => text.map_or(0, <[u8]>::len),
        Datum::Bytes(_, bytes) => bytes.len(),
        Datum::Other(value) => value.kept_size().saturating_mul(2),
    }
}

/// A level that there is not.
pub fn no_level(level: c_int) -> Code {
    bad(format_args!("level {level}: there are 0 (job), 1 (session), 2 (application) and 3 (node)"))
}

/// A rank that C gives.
pub fn rank(number: u32) -> Rank {
    Rank(number)
}
