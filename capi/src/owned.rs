//! Ownership in the C structures: constructing, emptying and copying each of them.
//!
//! A structure says once which of its members are texts, arrays and so on ([`owned!`]), and has all three from that.
//! [`Kind`] finds them by the number of a data type, for values and data arrays. An empty structure is all zeros
//! unless it says otherwise.
use std::mem::ManuallyDrop;
use std::ptr;

use instanton::data::{DataType, Rank, Status, constants::info_directives::INFO_PERSISTENT};
use libc::{c_char, c_void, timeval};

use crate::alloc;
use crate::boundary::Outcome;
use crate::foreign::Foreign;
use crate::kind::Kind;
use crate::types::*;

/// A C type that may own memory of libc.
///
/// # Safety
/// `let_go` frees exactly what `dup` allocates, and all zeros is a legal value.
pub unsafe trait Owned: Copy {
    /// True if a copy of its bytes is a copy of all of it.
    const IS_PLAIN: bool = false;
    /// True if it is constructed as all zeros.
    const IS_ZEROS: bool = true;

    /// Makes what it is constructed as of all zeros.
    #[inline]
    fn start(&mut self) {}

    /// Does what `PMIx_*_construct` does.
    #[inline]
    fn constructed() -> Self {
        // SAFETY: all zeros is a legal value, the trait's promise.
        let mut new: Self = unsafe { std::mem::zeroed() };
        new.start();
        new
    }

    /// Frees what it owns. It is to be constructed anew, or its own memory freed.
    ///
    /// # Safety
    /// Nobody else owns what it owns.
    unsafe fn let_go(&mut self);

    /// Frees what it owns and constructs it anew.
    ///
    /// # Safety
    /// Nobody else owns what it owns.
    unsafe fn clear(&mut self) {
        // SAFETY: as promised by the caller.
        unsafe { self.let_go() };
        *self = Self::constructed();
    }

    /// A copy that owns copies of everything.
    ///
    /// # Safety
    /// Its members point to what the headers say.
    unsafe fn dup(&self) -> Result<Self, Status>;

    /// Copies it to where it is to lie, whatever is there. When it fails, nothing has been written.
    ///
    /// # Safety
    /// As [`dup`](Owned::dup); `place` has room for it.
    unsafe fn dup_to(&self, place: *mut Self) -> Outcome {
        // SAFETY: as promised by the caller.
        unsafe { place.write(self.dup()?) };
        Ok(())
    }
}

/// Types that own nothing.
macro_rules! plain {
    ($($ty:ty)*) => {$(
        // SAFETY: integers and raw addresses own nothing.
        unsafe impl Owned for $ty {
            const IS_PLAIN: bool = true;

            unsafe fn let_go(&mut self) {}
            unsafe fn dup(&self) -> Result<Self, Status> {
                Ok(*self)
            }
        }
    )*};
}
plain! { u8 u16 u32 i32 u64 timeval *mut c_void pmix_nspace_t pmix_resource_unit_t }

/// Types whose members own what their kind says; the members that are not named are copied as they are.
macro_rules! owned {
    ($($ty:ty {
        $(text: $($text:ident)+;)? $(argv: $($argv:ident)+;)? $(bytes: $($bytes:ident[$len:ident])+;)?
        $(array: $($array:ident[$n:ident])+;)? $(inner: $($inner:ident)+;)? $(else: $start:expr;)?
    })*) => {$(
        // SAFETY: `let_go` and `dup` treat the same members in the same way.
        unsafe impl Owned for $ty {
            $(const IS_ZEROS: bool = {
                let _: fn(&mut Self) = $start;
                false
            };
            #[inline]
            fn start(&mut self) {
                let f: fn(&mut Self) = $start;
                f(self);
            })?
            #[allow(unused_unsafe, reason = "some own nothing")]
            unsafe fn let_go(&mut self) {
                // SAFETY: as promised by the caller.
                unsafe {
                    $($(alloc::release(self.$text);)+)?
                    $($(alloc::release_argv(self.$argv);)+)?
                    $($(alloc::release(self.$bytes);)+)?
                    $($(release_array(self.$array, self.$n);)+)?
                    $($(self.$inner.let_go();)+)?
                }
            }
            #[allow(unused_mut, unused_unsafe, reason = "some own nothing")]
            unsafe fn dup(&self) -> Result<Self, Status> {
                let mut new = *self;
                $($(new.$text = ptr::null_mut();)+)?
                $($(new.$argv = ptr::null_mut();)+)?
                $($(new.$bytes = ptr::null_mut();)+)?
                $($(new.$array = ptr::null_mut();)+)?
                $($(new.$inner = Owned::constructed();)+)?
                let mut fill = || -> Result<(), Status> {
                    // SAFETY: as promised by the caller.
                    unsafe {
                        $($(new.$text = dup_text(self.$text)?;)+)?
                        $($(new.$argv = dup_argv(self.$argv)?;)+)?
                        $($(new.$bytes = dup_bytes(self.$bytes, self.$len)?;)+)?
                        $($(new.$array = dup_array(self.$array, self.$n)?;)+)?
                        $($(new.$inner = self.$inner.dup()?;)+)?
                        Ok(())
                    }
                };
                match fill() {
                    Ok(()) => Ok(new),
                    Err(status) => {
                        // SAFETY: what has been filled is the copy's own, the rest is NULL.
                        unsafe { new.let_go() };
                        Err(status)
                    }
                }
            }
        }
    )*};
}

owned! {
    pmix_pdata_t { inner: value; }
    pmix_byte_object_t { bytes: bytes[size]; }
    pmix_app_t { text: cmd cwd; argv: argv env; array: info[ninfo]; }
    pmix_query_t { argv: keys; array: qualifiers[nqual]; }
    pmix_regattr_t { text: name; argv: description; }
    pmix_proc_info_t { text: hostname executable_name; }
    pmix_envar_t { text: envar value; }
    pmix_coord_t { array: coord[dims]; }
    pmix_geometry_t { text: uuid osname; array: coordinates[ncoords]; }
    pmix_device_distance_t { text: uuid osname; else: |new| (new.mindist, new.maxdist) = (u16::MAX, u16::MAX); }
    pmix_endpoint_t { text: uuid osname; inner: endpt; }
    pmix_device_t { text: uuid osname; }
    pmix_node_pid_t { text: hostname; }
    pmix_regex2_t { text: ty; bytes: bytes[len]; }
    pmix_proc_stats_t { text: node cmd; }
    pmix_disk_stats_t { text: disk; }
    pmix_net_stats_t { text: net_interface; }
    pmix_node_stats_t { text: node; array: diskstats[ndiskstats] netstats[nnetstats]; }
}

// SAFETY: integers and characters own nothing.
unsafe impl Owned for pmix_proc_t {
    const IS_PLAIN: bool = true;
    const IS_ZEROS: bool = false;

    #[inline]
    fn start(&mut self) {
        self.rank = Rank::UNDEF.0;
    }
    unsafe fn let_go(&mut self) {}
    unsafe fn dup(&self) -> Result<Self, Status> {
        Ok(*self)
    }
}

// SAFETY: one string, NULL or libc memory.
unsafe impl Owned for *mut c_char {
    unsafe fn let_go(&mut self) {
        // SAFETY: as promised by the caller.
        unsafe { alloc::release(*self) };
    }
    unsafe fn dup(&self) -> Result<Self, Status> {
        // SAFETY: as promised by the caller.
        unsafe { dup_text(*self) }
    }
}

// SAFETY: a persistent value belongs to somebody else; a copy is its own.
unsafe impl Owned for pmix_info_t {
    #[inline]
    unsafe fn let_go(&mut self) {
        if self.flags & INFO_PERSISTENT == 0 {
            // SAFETY: as promised by the caller.
            unsafe { self.value.let_go() };
        }
    }
    unsafe fn dup(&self) -> Result<Self, Status> {
        let mut new = Self::constructed();
        // SAFETY: as promised by the caller.
        unsafe { self.dup_to(&mut new) }?;
        Ok(new)
    }
    unsafe fn dup_to(&self, place: *mut Self) -> Outcome {
        // SAFETY: as promised by the caller.
        unsafe {
            self.value.dup_to(&raw mut (*place).value)?;
            (&raw mut (*place).key).copy_from(&self.key, 1);
            (*place).flags = self.flags & !INFO_PERSISTENT;
        }
        Ok(())
    }
}

/// An object of another library behind a pointer that only that library can free or copy.
macro_rules! foreign {
    ($($ty:ty, $object:ident;)*) => {$(
        // SAFETY: the source's name is ours; the object is freed and copied by its library.
        unsafe impl Owned for $ty {
            unsafe fn let_go(&mut self) {
                // SAFETY: as promised by the caller.
                unsafe {
                    if let Ok(Some(object)) = self.object() {
                        drop(ManuallyDrop::into_inner(object));
                    }
                    alloc::release(self.source);
                }
            }
            unsafe fn dup(&self) -> Result<Self, Status> {
                // SAFETY: as promised by the caller.
                unsafe {
                    let object = match self.object()? {
                        Some(object) => Self::copied(&object).ok_or(Status::ERR_NOMEM)?,
                        None => ptr::null_mut(),
                    };
                    let mut new = Self { source: ptr::null_mut(), $object: object };
                    new.source = dup_text(self.source).inspect_err(|_| new.let_go())?;
                    Ok(new)
                }
            }
        }
    )*};
}
foreign! { pmix_cpuset_t, bitmap; pmix_topology_t, topology; }

// SAFETY: one block of bytes; the two inner pointers point into it.
unsafe impl Owned for pmix_data_buffer_t {
    unsafe fn let_go(&mut self) {
        // SAFETY: as promised by the caller.
        unsafe { alloc::release(self.base_ptr) };
    }
    unsafe fn dup(&self) -> Result<Self, Status> {
        // SAFETY: as promised by the caller.
        let base = unsafe { dup_bytes(self.base_ptr, self.bytes_used) }?;
        let moved = |at: *mut c_char| match base.is_null() || at.is_null() {
            true => base,
            false => base.wrapping_add(at.addr().wrapping_sub(self.base_ptr.addr()).min(self.bytes_used)),
        };
        Ok(Self {
            base_ptr: base,
            pack_ptr: moved(self.pack_ptr),
            unpack_ptr: moved(self.unpack_ptr),
            bytes_allocated: self.bytes_used,
            bytes_used: self.bytes_used,
        })
    }
}

// SAFETY: the elements by their kind, and the array that holds them.
unsafe impl Owned for pmix_data_array_t {
    unsafe fn let_go(&mut self) {
        if self.array.is_null() {
            return;
        }
        if self.ty == DataType::STRING.0 {
            // SAFETY: so many strings, as promised by the caller.
            return unsafe { release_array(self.array.cast::<*mut c_char>(), self.size) };
        }
        if let Some(kind) = Kind::of(DataType(self.ty)).filter(|kind| !kind.is_plain) {
            for i in 0..self.size {
                // SAFETY: an element of the array, as promised by the caller.
                unsafe { (kind.let_go)(self.array.byte_add(i * kind.size)) };
            }
        }
        // SAFETY: as promised by the caller.
        unsafe { alloc::release(self.array) };
    }
    unsafe fn dup(&self) -> Result<Self, Status> {
        if self.array.is_null() || self.size == 0 {
            return Ok(Self { size: 0, array: ptr::null_mut(), ..*self });
        }
        if self.ty == DataType::STRING.0 {
            // SAFETY: so many strings, as promised by the caller.
            let array = unsafe { dup_array(self.array.cast::<*mut c_char>(), self.size) }?;
            return Ok(Self { array: array.cast(), ..*self });
        }
        let kind = Kind::of(DataType(self.ty)).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        let bytes = self.size.checked_mul(kind.size).ok_or(Status::ERR_BAD_PARAM)?;
        if kind.is_plain {
            // SAFETY: as many bytes, as promised by the caller.
            let array = alloc::bytes(unsafe { alloc::slice(self.array.cast::<u8>(), bytes) }?)?;
            return Ok(Self { array: array.cast(), ..*self });
        }
        let mut new = Self { ty: self.ty, size: 0, array: alloc::zeroed::<u8>(bytes).cast() };
        if new.array.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        while new.size < self.size {
            let at = new.size * kind.size;
            // SAFETY: the same element of both arrays.
            if let Err(status) = unsafe { (kind.dup)(self.array.byte_add(at), new.array.byte_add(at)) } {
                // SAFETY: as many elements as `new.size` says have been filled.
                unsafe { new.let_go() };
                return Err(status);
            }
            new.size += 1;
        }
        Ok(new)
    }
}

// SAFETY: the member of the union that the type selects.
unsafe impl Owned for pmix_value_t {
    #[inline]
    unsafe fn let_go(&mut self) {
        // SAFETY: the member holds, or points to, an element of that kind, as promised by the caller.
        unsafe {
            match (DataType(self.ty), Kind::of(DataType(self.ty))) {
                (DataType::STRING, _) => alloc::release(self.data.string),
                (_, Some(kind)) if !kind.is_number() => kind.let_go_within(self),
                _ => {}
            }
        }
    }
    unsafe fn dup(&self) -> Result<Self, Status> {
        let mut new = Self::EMPTY;
        // SAFETY: as promised by the caller.
        unsafe { self.dup_to(&mut new) }?;
        Ok(new)
    }
    #[inline(always)]
    unsafe fn dup_to(&self, place: *mut Self) -> Outcome {
        // SAFETY: the member holds, or points to, an element of that kind, as promised by the caller.
        unsafe {
            match (DataType(self.ty), Kind::of(DataType(self.ty))) {
                (DataType::STRING, _) => {
                    let string = dup_text(self.data.string)?;
                    (*place).data.words = [0; 3];
                    (*place).data.string = string;
                }
                (DataType::UNDEF, _) => (*place).data.words = [0; 3],
                (_, Some(kind)) if kind.is_number() => {
                    (*place).data.words = [kind.number((&raw const self.data).cast()), 0, 0];
                }
                (_, Some(kind)) => kind.dup_within(self, place)?,
                (_, None) => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
            }
            (*place).ty = self.ty;
        }
        Ok(())
    }
}

/// An array of constructed elements; NULL for none.
pub fn create<T: Owned>(n: usize) -> *mut T {
    let array = alloc::zeroed::<T>(n);
    for i in 0..if array.is_null() || T::IS_ZEROS { 0 } else { n } {
        // SAFETY: inside the new array, whose elements are all zeros.
        unsafe { (*array.add(i)).start() };
    }
    array
}

/// Clears the elements of an array and frees it.
///
/// # Safety
/// `array` is NULL or libc memory with `n` elements that nobody uses any more.
pub unsafe fn release_array<T: Owned>(array: *mut T, n: usize) {
    if array.is_null() {
        return;
    }
    for i in 0..n {
        // SAFETY: inside the array, as promised by the caller.
        unsafe { (*array.add(i)).let_go() };
    }
    // SAFETY: as promised by the caller.
    unsafe { alloc::release(array) };
}

/// A copy of an array.
///
/// # Safety
/// `array` is NULL or has `n` elements.
pub unsafe fn dup_array<T: Owned>(array: *const T, n: usize) -> Result<*mut T, Status> {
    if array.is_null() || n == 0 {
        return Ok(ptr::null_mut());
    }
    let new = alloc::zeroed::<T>(n);
    if new.is_null() {
        return Err(Status::ERR_NOMEM);
    }
    for i in 0..n {
        // SAFETY: inside both arrays; what has been filled so far is released on the way out.
        unsafe {
            if let Err(status) = (*array.add(i)).dup_to(new.add(i)) {
                release_array(new, i);
                return Err(status);
            }
        }
    }
    Ok(new)
}

/// A copy of a C string, NULL of NULL.
///
/// # Safety
/// `text` is NULL or a C string.
#[inline]
pub unsafe fn dup_text(text: *const c_char) -> Result<*mut c_char, Status> {
    if text.is_null() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: as promised by the caller.
    let copy = unsafe { libc::strdup(text) };
    if copy.is_null() { Err(Status::ERR_NOMEM) } else { Ok(copy) }
}

/// A copy of a NULL-terminated array of strings, NULL of NULL.
///
/// # Safety
/// `argv` is NULL or such an array.
pub unsafe fn dup_argv(argv: *const *mut c_char) -> Result<*mut *mut c_char, Status> {
    if argv.is_null() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: as promised by the caller.
    alloc::new_argv(unsafe { alloc::argv(argv) }.into_iter())
}

unsafe fn dup_bytes<T>(bytes: *const T, len: usize) -> Result<*mut T, Status> {
    match bytes.is_null() {
        true => Ok(ptr::null_mut()),
        // SAFETY: as promised by the caller of the `dup` that this is part of.
        false => alloc::bytes(unsafe { alloc::slice(bytes.cast::<u8>(), len) }?).map(<*mut c_char>::cast),
    }
}
