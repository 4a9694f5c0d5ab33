//! Data arrays, byte objects, and the buffers of packed data as far as they are memory.
use std::ptr;

use instanton::data::{DataType, Status};
use libc::{c_char, c_void};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::kind::Kind;
use crate::owned::{Owned, create, release_array};
use crate::types::*;

/// An array of `n` constructed elements; without elements where the type is none or memory is out.
fn array(n: usize, ty: u16) -> pmix_data_array_t {
    let mut new = pmix_data_array_t { ty, size: 0, array: ptr::null_mut() };
    if let Some((kind, bytes)) = Kind::of(DataType(ty)).and_then(|kind| Some((kind, n.checked_mul(kind.size)?))) {
        new.array = alloc::zeroed::<u8>(bytes).cast();
        new.size = if new.array.is_null() { 0 } else { n };
        for i in 0..if kind.is_zeros { 0 } else { new.size } {
            // SAFETY: inside the new array.
            unsafe { (kind.construct)(new.array.byte_add(i * kind.size)) };
        }
    }
    new
}

/// Part of a buffer that has not been unpacked yet.
///
/// # Safety
/// `buffer` is a constructed buffer; its bytes stay for `'a`.
pub unsafe fn unread<'a>(buffer: &pmix_data_buffer_t) -> Result<&'a [u8], Status> {
    let done = match buffer.unpack_ptr.is_null() {
        true => 0,
        false => buffer.unpack_ptr.addr().wrapping_sub(buffer.base_ptr.addr()),
    };
    // SAFETY: a constructed buffer, the contract with C.
    let all = unsafe { alloc::slice(buffer.base_ptr.cast::<u8>(), buffer.bytes_used) }?;
    all.get(done..).ok_or(Status::ERR_BAD_PARAM)
}

/// A buffer around bytes of libc memory that it owns from now on.
fn buffer(bytes: *mut c_char, n: usize) -> pmix_data_buffer_t {
    pmix_data_buffer_t {
        base_ptr: bytes,
        pack_ptr: bytes.wrapping_add(n),
        unpack_ptr: bytes,
        bytes_allocated: n,
        bytes_used: n,
    }
}

export! {
    /// An array without elements.
    fn PMIx_Data_array_init(p: *mut pmix_data_array_t, ty: u16) {
        if !p.is_null() {
            p.write(array(0, ty));
        }
    }

    /// Constructs an array with `n` constructed elements.
    fn PMIx_Data_array_construct(p: *mut pmix_data_array_t, n: usize, ty: u16) {
        if !p.is_null() {
            p.write(array(n, ty));
        }
    }

    /// A new array with `n` constructed elements.
    fn PMIx_Data_array_create(n: usize, ty: u16) -> *mut pmix_data_array_t {
        if n == 0 {
            return ptr::null_mut();
        }
        alloc::boxed(array(n, ty)).unwrap_or(ptr::null_mut())
    }

    /// Destructs the elements of an array and frees their memory.
    fn PMIx_Data_array_destruct(p: *mut pmix_data_array_t) {
        if let Some(p) = p.as_mut() {
            p.clear();
        }
    }

    /// Destructs an array and frees it.
    fn PMIx_Data_array_free(p: *mut pmix_data_array_t) {
        release_array(p, 1);
    }

    /// Gives bytes to a byte object, which owns them from now on.
    fn PMIx_Byte_object_load(b: *mut pmix_byte_object_t, bytes: *mut c_char, size: usize) {
        if !b.is_null() {
            b.write(pmix_byte_object_t { bytes, size });
        }
    }

    /// A new buffer.
    fn PMIx_Data_buffer_create() -> *mut pmix_data_buffer_t {
        create(1)
    }

    /// Destructs a buffer and frees it.
    fn PMIx_Data_buffer_release(b: *mut pmix_data_buffer_t) {
        release_array(b, 1);
    }

    /// Gives bytes to a buffer, which owns them from now on.
    fn PMIx_Data_buffer_load(b: *mut pmix_data_buffer_t, bytes: *mut c_char, size: usize) {
        if !b.is_null() {
            b.write(buffer(bytes, size));
        }
    }

    /// Takes the bytes out of a buffer. They are the caller's to free.
    fn PMIx_Data_buffer_unload(b: *mut pmix_data_buffer_t, bytes: *mut *mut c_char, size: *mut usize) {
        if let (Some(bytes), Some(size)) = (bytes.as_mut(), size.as_mut()) {
            let taken = b.as_mut().map_or(Owned::constructed(), |b| std::mem::replace(b, Owned::constructed()));
            (*bytes, *size) = (taken.base_ptr, taken.bytes_used);
        }
    }

    /// Gives the bytes of a byte object, which is empty then, to a buffer. Without one the buffer is empty.
    fn PMIx_Data_load(b: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) -> Outcome {
        let b = b.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        let Some(payload) = payload.as_mut() else {
            b.clear();
            return Ok(());
        };
        *b = buffer(payload.bytes, payload.size);
        *payload = Owned::constructed();
        Ok(())
    }

    /// Takes what has not been unpacked out of a buffer. It is the caller's to free.
    fn PMIx_Data_unload(b: *mut pmix_data_buffer_t, payload: *mut pmix_byte_object_t) -> Outcome {
        let (Some(b), Some(payload)) = (b.as_mut(), payload.as_mut()) else { return Err(Status::ERR_BAD_PARAM) };
        let rest = unread(b)?;
        if rest.len() == b.bytes_used {
            *payload = pmix_byte_object_t { bytes: b.base_ptr, size: b.bytes_used };
            *b = Owned::constructed();
        } else {
            *payload = pmix_byte_object_t { bytes: alloc::bytes(rest)?, size: rest.len() };
            b.clear();
        }
        Ok(())
    }

    /// Fills a buffer, whose own bytes are freed, with a copy of a byte object's; with none, where there is none.
    fn PMIx_Data_embed(b: *mut pmix_data_buffer_t, payload: *const pmix_byte_object_t) -> Outcome {
        let b = b.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        let copy = payload.as_ref().map_or(Ok(Owned::constructed()), |payload| payload.dup())?;
        b.clear();
        *b = buffer(copy.bytes, copy.size);
        Ok(())
    }

    /// Appends to a buffer what has not been unpacked of another.
    fn PMIx_Data_copy_payload(dest: *mut pmix_data_buffer_t, src: *mut pmix_data_buffer_t) -> Outcome {
        let (Some(dest), Some(src)) = (dest.as_mut(), src.as_ref()) else { return Err(Status::ERR_BAD_PARAM) };
        let more = unread(src)?;
        append(dest, more)
    }
}

/// Bytes of a buffer's first block: most packs fit.
const LEAST: usize = 128;
/// Unpacked data goes to memory that often lies right behind the buffer. At an equal offset in a page, a few
/// bytes on, the processor would copy it byte by byte: ten times slower. So large blocks are not quite so
/// large as multiples of pages.
const SHIFT: usize = 512;

/// Appends bytes to a buffer.
///
/// # Safety
/// `dest` is a constructed buffer.
pub unsafe fn append(dest: &mut pmix_data_buffer_t, more: &[u8]) -> Outcome {
    let used = dest.bytes_used;
    let room = used.checked_add(more.len()).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
    if room > dest.bytes_allocated {
        let unpacked = match dest.unpack_ptr.is_null() {
            true => 0,
            false => dest.unpack_ptr.addr().wrapping_sub(dest.base_ptr.addr()).min(used),
        };
        let size = if room <= LEAST { LEAST } else { room.saturating_add(room / 2 + SHIFT) };
        // SAFETY: the buffer's block is NULL or libc memory, as promised by the caller.
        let moved: *mut c_char = unsafe { libc::realloc(dest.base_ptr.cast::<c_void>(), size) }.cast();
        if moved.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        dest.base_ptr = moved;
        dest.unpack_ptr = moved.wrapping_add(unpacked);
        dest.bytes_allocated = size;
    }
    // SAFETY: there is room behind the used bytes now.
    unsafe { ptr::copy_nonoverlapping(more.as_ptr(), dest.base_ptr.add(used).cast(), more.len()) };
    dest.bytes_used = room;
    dest.pack_ptr = dest.base_ptr.wrapping_add(room);
    Ok(())
}
