//! Packing values into buffers, unpacking them, and compressing bytes.
use std::sync::OnceLock;

use instanton::data::{DataType, Nspace, Status, Value};
use instanton::internal::wire::{Form, Reader, Sink, Writer, zlib};
use libc::{c_char, c_void};

use super::arrays::{append, unread};
use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::kind::Kind;
use crate::packed;
use crate::session;
use crate::types::*;

/// Returns whether packs describe their contents: as the server that started this process says of its buffers.
pub fn form() -> Form {
    static FORM: OnceLock<Form> = OnceLock::new();
    *FORM.get_or_init(|| match std::env::var_os("PMIX_BFROP_BUFFER_TYPE") {
        Some(ty) if ty == "PMIX_BFROP_BUFFER_FULLY_DESC" => Form::Described,
        _ => Form::Plain,
    })
}

/// Packs are for a peer: before Init there is none. A forked child packs as its parent does, which takes nothing of the
/// parent's.
fn peers() -> Outcome {
    if session::is_inherited() { Ok(()) } else { Err(Status::ERR_NOT_FOUND) }
}

/// A buffer that packs are appended to.
struct Buffer<'a>(&'a mut pmix_data_buffer_t);

impl Sink for Buffer<'_> {
    fn len(&self) -> usize {
        self.0.bytes_used
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: a constructed buffer, the contract with C.
        unsafe { append(self.0, bytes) }.is_ok()
    }

    fn truncate(&mut self, len: usize) {
        self.0.bytes_used = len;
        self.0.pack_ptr = self.0.base_ptr.wrapping_add(len);
    }
}

/// Map expressions are packed from addresses of texts, and unpacked to such; in values they are byte objects.
unsafe fn expression(place: *const c_void) -> Result<Value, Status> {
    // SAFETY: an address of such a text, the contract with C.
    let text = unsafe { alloc::expression(place.cast::<*const c_char>().read_unaligned()) };
    Ok(Value::Regex(text.ok_or(Status::ERR_BAD_PARAM)?.to_vec()))
}

unsafe fn pack(buffer: &mut pmix_data_buffer_t, src: *const c_void, n: usize, ty: DataType) -> Outcome {
    Writer::new(&mut Buffer(buffer)).all_or_nothing(|to| {
        to.head(form(), ty, n)?;
        // SAFETY: `n` elements of that type, the contract with C.
        unsafe {
            match ty {
                DataType::REGEX => {
                    alloc::slice(src.cast::<*const c_char>(), n)?;
                    let texts: Result<Vec<Value>, Status> =
                        (0..n).map(|i| expression(src.byte_add(i * size_of::<*const c_char>()))).collect();
                    Ok(to.list(ty, &texts?)?)
                }
                // A single name need not fill its array.
                DataType::PROC_NSPACE if n == 1 => {
                    let name = Nspace::new(alloc::name(src.cast(), NSPACE_SIZE)?);
                    Ok(to.list(ty, &[Value::ProcNspace(name.map_err(|_| Status::ERR_BAD_PARAM)?)])?)
                }
                ty => packed::put(to, ty, src, n),
            }
        }
    })
}

/// Returns the number of unpacked elements, and whether these are all of the pack.
unsafe fn unpack(
    buffer: &mut pmix_data_buffer_t,
    dest: *mut c_void,
    most: usize,
    ty: DataType,
) -> Result<(usize, bool), Status> {
    // SAFETY: a constructed buffer, the contract with C.
    let packed = unsafe { unread(buffer) }?;
    let mut reader = Reader::new(packed);
    let count = reader.head(form(), ty)?;
    let (n, mut done) = (count.min(most), 0);
    // SAFETY: room for `most` elements of that type, the contract with C. Elements that were begun are cleared when the
    // rest fails.
    unsafe {
        match ty {
            DataType::REGEX => take_expressions(&mut reader, dest.cast(), n),
            ty => packed::take(&mut reader, ty, dest, n, &mut done).inspect_err(|_| clear(ty, dest, done)),
        }?;
    }
    let begin = buffer.bytes_used - reader.rest().len();
    buffer.unpack_ptr = buffer.base_ptr.wrapping_add(begin);
    Ok((n, n == count))
}

unsafe fn take_expressions(from: &mut Reader<'_>, dest: *mut *mut c_char, n: usize) -> Outcome {
    for (i, value) in from.list(DataType::REGEX, n)?.iter().enumerate() {
        let bytes = value.as_bytes().unwrap_or_default();
        // SAFETY: room for that many addresses, as promised by the caller.
        unsafe {
            match alloc::bytes(&[bytes, &[0]].concat()) {
                Ok(text) => dest.add(i).write(text),
                Err(status) => {
                    (0..i).for_each(|i| alloc::release(dest.add(i).read()));
                    return Err(status);
                }
            }
        }
    }
    Ok(())
}

/// Clears the first elements of an array that could not be filled.
unsafe fn clear(ty: DataType, dest: *mut c_void, n: usize) {
    let Some(kind) = Kind::of(ty) else { return };
    for i in 0..n {
        // SAFETY: these have been constructed.
        unsafe { (kind.clear)(dest.byte_add(i * kind.size)) };
    }
}

export! {
    /// Appends `num_vals` elements of a type to a buffer, in the encoding that every release from 4.2 on
    /// reads, whatever the target.
    fn PMIx_Data_pack(
        _target: *const pmix_proc_t, buffer: *mut pmix_data_buffer_t, src: *mut c_void, num_vals: i32, ty: u16,
    ) -> Outcome {
        peers()?;
        let buffer = buffer.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        pack(buffer, src, usize::try_from(num_vals).map_err(|_| Status::ERR_BAD_PARAM)?, DataType(ty))
    }

    /// Takes the next elements out of a buffer, at most as many as `num_vals` says, which then says how many these are.
    fn PMIx_Data_unpack(
        _source: *const pmix_proc_t, buffer: *mut pmix_data_buffer_t, dest: *mut c_void, num_vals: *mut i32, ty: u16,
    ) -> Outcome {
        let num_vals = num_vals.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        let most = std::mem::take(num_vals);
        peers()?;
        let buffer = buffer.as_mut().filter(|_| !dest.is_null()).ok_or(Status::ERR_BAD_PARAM)?;
        let most = usize::try_from(most).map_err(|_| Status::ERR_BAD_PARAM)?;
        if most == 0 {
            return Err(Status::ERR_UNPACK_INADEQUATE_SPACE);
        }
        let (taken, all) = unpack(buffer, dest, most, DataType(ty))?;
        *num_vals = i32::try_from(taken).map_err(|_| Status::ERR_UNPACK_FAILURE)?;
        if all { Ok(()) } else { Err(Status::ERR_UNPACK_INADEQUATE_SPACE) }
    }

    /// Compresses bytes, where it is worth it. The result is the caller's to free.
    fn PMIx_Data_compress(inbytes: *const u8, size: usize, outbytes: *mut *mut u8, nbytes: *mut usize) -> bool {
        transformed(inbytes, size, outbytes, nbytes, zlib::compress)
    }

    /// Turns what was compressed back, up to 1 GiB. The result is the caller's to free.
    fn PMIx_Data_decompress(inbytes: *const u8, size: usize, outbytes: *mut *mut u8, nbytes: *mut usize) -> bool {
        transformed(inbytes, size, outbytes, nbytes, |bytes| zlib::decompress(bytes, zlib::MOST))
    }
}

unsafe fn transformed(
    from: *const u8,
    n: usize,
    to: *mut *mut u8,
    len: *mut usize,
    how: fn(&[u8]) -> Option<Vec<u8>>,
) -> bool {
    // SAFETY: NULL or places for the answer, and `n` bytes, the contract with C.
    unsafe {
        let (Some(to), Some(len)) = (to.as_mut(), len.as_mut()) else { return false };
        (*to, *len) = (std::ptr::null_mut(), 0);
        let Some(new) = alloc::slice(from, n).ok().and_then(how) else { return false };
        match alloc::bytes(&new) {
            Ok(bytes) => (*to, *len) = (bytes.cast(), new.len()),
            Err(_) => return false,
        }
        true
    }
}
