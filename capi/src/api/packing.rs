//! Packing values into buffers, unpacking them, and compressing bytes.
use std::sync::OnceLock;

use instanton::data::{DataType, Status, Value};
use instanton::wire::{Form, Reader, WireError, Writer, zlib};
use libc::{c_char, c_void};

use super::arrays::{append, unread};
use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::convert;
use crate::owned::Kind;
use crate::session;
use crate::types::*;

/// Whether packs say what they hold: what the server that started this process says of its buffers.
pub fn form() -> Form {
    static FORM: OnceLock<Form> = OnceLock::new();
    *FORM.get_or_init(|| match std::env::var_os("PMIX_BFROP_BUFFER_TYPE") {
        Some(ty) if ty == "PMIX_BFROP_BUFFER_FULLY_DESC" => Form::Described,
        _ => Form::Plain,
    })
}

/// Packs are for a peer: before Init there is none.
fn peers() -> Outcome {
    if session::is_initialized() { Ok(()) } else { Err(Status::ERR_NOT_FOUND) }
}

fn refused(error: WireError) -> Status {
    error.status()
}

/// Types whose elements are one byte that is sent as it is.
fn is_byte(ty: DataType) -> bool {
    matches!(ty, DataType::BYTE | DataType::UINT8 | DataType::INT8)
}

/// Bytes between the elements of a C array that is packed. Of map expressions it has the addresses.
fn stride(ty: DataType) -> Result<usize, Status> {
    match ty {
        DataType::REGEX => Ok(size_of::<*mut c_char>()),
        ty => Kind::of(ty).map(|kind| kind.size).ok_or(Status::ERR_UNKNOWN_DATA_TYPE),
    }
}

unsafe fn read(ty: DataType, place: *const c_void, alone: bool) -> Result<Value, Status> {
    // SAFETY: an element of that type, the contract with C.
    unsafe {
        match ty {
            DataType::REGEX => {
                let text = place.cast::<*const c_char>().read_unaligned();
                Ok(Value::Regex(alloc::expression(text).ok_or(Status::ERR_BAD_PARAM)?.to_vec()))
            }
            // A single name need not fill its array.
            DataType::PROC_NSPACE if alone => {
                let name = alloc::name(place.cast(), NSPACE_SIZE)?;
                Ok(Value::ProcNspace(instanton::data::Nspace::new(name).map_err(|_| Status::ERR_BAD_PARAM)?))
            }
            ty => convert::read(ty, place, 0),
        }
    }
}

unsafe fn write(value: &Value, place: *mut c_void) -> Outcome {
    // SAFETY: room for an element of the value's type, the contract with C.
    unsafe {
        if let Value::Regex(bytes) = value {
            let text = alloc::bytes(&[bytes.as_slice(), &[0]].concat())?;
            place.cast::<*mut c_char>().write(text);
            return Ok(());
        }
        let kind = Kind::of(value.data_type()).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        (kind.construct)(place);
        convert::write(value, place).inspect_err(|_| (kind.clear)(place))
    }
}

unsafe fn pack(buffer: &mut pmix_data_buffer_t, src: *const c_void, n: usize, ty: DataType) -> Outcome {
    let mut writer = Writer::new();
    // SAFETY: a constructed buffer, and `n` elements of that type, the contract with C.
    unsafe {
        if is_byte(ty) {
            writer.pack_bytes(form(), ty, alloc::slice(src.cast::<u8>(), n)?).map_err(refused)?;
        } else {
            let stride = stride(ty)?;
            alloc::slice(src.cast::<u8>(), n.checked_mul(stride).ok_or(Status::ERR_BAD_PARAM)?)?;
            let elements: Result<Vec<Value>, Status> =
                (0..n).map(|i| read(ty, src.byte_add(i * stride), n == 1)).collect();
            writer.pack(form(), ty, &elements?).map_err(refused)?;
        }
        append(buffer, writer.as_bytes())
    }
}

/// How many elements were unpacked, and whether these are all of the pack.
unsafe fn unpack(
    buffer: &mut pmix_data_buffer_t,
    dest: *mut c_void,
    most: usize,
    ty: DataType,
) -> Result<(usize, bool), Status> {
    // SAFETY: a constructed buffer, and room for `most` elements of that type, the contract with C.
    unsafe {
        let packed = unread(buffer)?;
        let mut reader = Reader::new(packed);
        let (taken, missed) = if is_byte(ty) {
            let bytes = reader.unpack_bytes(form(), ty, most).map_err(refused)?;
            std::ptr::copy_nonoverlapping(bytes.items.as_ptr(), dest.cast(), bytes.items.len());
            (bytes.items.len(), bytes.missed)
        } else {
            let values = reader.unpack(form(), ty, most).map_err(refused)?;
            let stride = stride(ty)?;
            for (i, value) in values.items.iter().enumerate() {
                if let Err(status) = write(value, dest.byte_add(i * stride)) {
                    forget(ty, dest, i);
                    return Err(status);
                }
            }
            (values.items.len(), values.missed)
        };
        let done = packed.len() - reader.rest().len();
        let before = buffer.bytes_used - packed.len();
        buffer.unpack_ptr = buffer.base_ptr.wrapping_add(before + done);
        Ok((taken, missed == 0))
    }
}

/// Clears the first elements of an array that could not be filled.
unsafe fn forget(ty: DataType, dest: *mut c_void, n: usize) {
    for i in 0..n {
        // SAFETY: these have been written.
        unsafe {
            match ty {
                DataType::REGEX => {
                    let place = dest.cast::<*mut c_char>().add(i);
                    alloc::release(place.replace(std::ptr::null_mut()));
                }
                ty => {
                    if let Some(kind) = Kind::of(ty) {
                        (kind.clear)(dest.byte_add(i * kind.size));
                    }
                }
            }
        }
    }
}

export! {
    /// Appends `num_vals` elements of a type to a buffer, in the encoding that every release from 4.2 on reads. Whoever
    /// `target` is reads the same.
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

    /// Turns what was compressed back. The result is the caller's to free.
    fn PMIx_Data_decompress(inbytes: *const u8, size: usize, outbytes: *mut *mut u8, nbytes: *mut usize) -> bool {
        transformed(inbytes, size, outbytes, nbytes, zlib::decompress)
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
