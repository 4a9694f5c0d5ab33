//! Elements that are packed where they lie and unpacked to where they belong: numbers, texts, bytes, processes, and
//! values, attributes and arrays of these, which is nearly all that programs pack. Everything else becomes values of
//! the data model on its way. Bytes are the same either way; `wire::records` says what stands where.
use instanton::data::constants::info_directives::INFO_PERSISTENT;
use instanton::data::{DataType, Status, Value};
use instanton::internal::wire::{Reader, WireError, Writer, flex};
use libc::{c_char, c_void};

use crate::alloc;
use crate::boundary::Outcome;
use crate::convert;
use crate::kind::Kind;
use crate::types::*;

/// Layout and packing of the elements of a type.
enum Shape {
    /// A byte as it is.
    Byte,
    /// A byte that is 0 or 1.
    Truth,
    /// Integers with a sign, of 2, 4 and 8 bytes.
    I16,
    I32,
    I64,
    /// Integers without one.
    U16,
    U32,
    U64,
    /// A structure that is named here.
    Structure,
    /// All others.
    Model,
}

fn shape(ty: DataType) -> Shape {
    match ty {
        DataType::BYTE
        | DataType::INT8
        | DataType::UINT8
        | DataType::PERSIST
        | DataType::SCOPE
        | DataType::DATA_RANGE
        | DataType::COMMAND
        | DataType::PROC_STATE
        | DataType::JOB_STATE
        | DataType::LINK_STATE
        | DataType::ALLOC_DIRECTIVE => Shape::Byte,
        DataType::BOOL => Shape::Truth,
        DataType::INT16 => Shape::I16,
        // Stock libraries give this one a sign.
        DataType::INT | DataType::INT32 | DataType::UINT | DataType::STATUS => Shape::I32,
        DataType::INT64 => Shape::I64,
        DataType::UINT16
        | DataType::DATA_TYPE
        | DataType::IOF_CHANNEL
        | DataType::LOCTYPE
        | DataType::STOR_ACCESS_TYPE => Shape::U16,
        DataType::UINT32 | DataType::PROC_RANK | DataType::INFO_DIRECTIVES => Shape::U32,
        DataType::SIZE
        | DataType::UINT64
        | DataType::DEVTYPE
        | DataType::STOR_MEDIUM
        | DataType::STOR_ACCESS
        | DataType::STOR_PERSIST => Shape::U64,
        DataType::STRING
        | DataType::PROC
        | DataType::BYTE_OBJECT
        | DataType::VALUE
        | DataType::INFO
        | DataType::DATA_ARRAY => Shape::Structure,
        _ => Shape::Model,
    }
}

/// The elements of a C array of numbers, wherever it lies.
///
/// # Safety
/// There are `n` of them.
unsafe fn numbers<T>(first: *const c_void, n: usize) -> impl Iterator<Item = T> {
    // SAFETY: as promised by the caller.
    (0..n).map(move |i| unsafe { first.cast::<T>().add(i).read_unaligned() })
}

/// Appends the elements of a C array.
///
/// # Errors
/// `ERR_BAD_PARAM` where something is missing, `ERR_UNKNOWN_DATA_TYPE`, and what is packed badly.
///
/// # Safety
/// `first` is NULL or has `n` elements of the type, whose members point to what the headers say.
pub unsafe fn put(to: &mut Writer<'_>, ty: DataType, first: *const c_void, n: usize) -> Outcome {
    let size = Kind::of(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?.size;
    let bytes = n.checked_mul(size).ok_or(Status::ERR_BAD_PARAM)?;
    // SAFETY: as promised by the caller; that there is an array is checked first.
    unsafe {
        let bytes = alloc::slice(first.cast::<u8>(), bytes)?;
        match shape(ty) {
            Shape::Byte => to.raw(bytes),
            Shape::Truth => to.numbers(bytes.iter().map(|byte| u64::from(*byte != 0))),
            Shape::I16 => to.numbers(numbers::<i16>(first, n).map(|x| flex::fold(x.into()))),
            Shape::I32 => to.numbers(numbers::<i32>(first, n).map(|x| flex::fold(x.into()))),
            Shape::I64 => to.numbers(numbers::<i64>(first, n).map(flex::fold)),
            Shape::U16 => to.numbers(numbers::<u16>(first, n).map(u64::from)),
            Shape::U32 => to.numbers(numbers::<u32>(first, n).map(u64::from)),
            Shape::U64 => to.numbers(numbers::<u64>(first, n)),
            Shape::Structure => (0..n).try_for_each(|i| put_structure(to, ty, first.byte_add(i * size)))?,
            Shape::Model => {
                let elements: Result<Vec<Value>, Status> =
                    (0..n).map(|i| convert::read(ty, first.byte_add(i * size), 0)).collect();
                to.list(ty, &elements?)?;
            }
        }
    }
    Ok(())
}

unsafe fn put_structure(to: &mut Writer<'_>, ty: DataType, at: *const c_void) -> Outcome {
    // SAFETY: such a structure, as promised by the caller.
    unsafe {
        match ty {
            DataType::STRING => to.text(alloc::c_bytes(at.cast::<*const c_char>().read_unaligned()))?,
            DataType::PROC => {
                let proc = &*at.cast::<pmix_proc_t>();
                to.text(Some(alloc::name(proc.nspace.as_ptr(), NSPACE_SIZE)?))?;
                to.number(proc.rank.into());
            }
            DataType::BYTE_OBJECT => {
                let object = &*at.cast::<pmix_byte_object_t>();
                let bytes = alloc::slice(object.bytes.cast::<u8>(), object.size)?;
                to.number(bytes.len() as u64);
                to.raw(bytes);
            }
            DataType::VALUE => put_value(to, &*at.cast())?,
            DataType::INFO => {
                let info = &*at.cast::<pmix_info_t>();
                to.text(Some(alloc::name(info.key.as_ptr(), KEY_SIZE)?))?;
                to.number(info.flags.into());
                put_value(to, &info.value)?;
            }
            DataType::DATA_ARRAY => {
                let array = &*at.cast::<pmix_data_array_t>();
                to.nested(|to| -> Outcome {
                    to.number(array.ty.into());
                    to.number(array.size as u64);
                    if array.size == 0 { Ok(()) } else { put(to, DataType(array.ty), array.array, array.size) }
                })?;
            }
            _ => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
        }
    }
    Ok(())
}

const NO_ARRAY: pmix_data_array_t = pmix_data_array_t { ty: DataType::UNDEF.0, size: 0, array: std::ptr::null_mut() };

unsafe fn put_value(to: &mut Writer<'_>, value: &pmix_value_t) -> Outcome {
    let ty = DataType(value.ty);
    to.nested(|to| {
        to.number(value.ty.into());
        match Kind::of(ty) {
            _ if ty == DataType::UNDEF => Ok(()),
            // SAFETY: an array of nothing stands for none.
            _ if ty == DataType::DATA_ARRAY && unsafe { value.data.ptr }.is_null() => unsafe {
                put(to, ty, std::ptr::from_ref(&NO_ARRAY).cast(), 1)
            },
            None => Err(Status::ERR_UNKNOWN_DATA_TYPE),
            // SAFETY: the member of the union that the type selects holds the element, or points to it.
            Some(kind) if kind.is_boxed() => unsafe { put(to, ty, value.data.ptr, 1) },
            // SAFETY: as above.
            Some(_) => unsafe { put(to, ty, (&raw const value.data).cast(), 1) },
        }
    })
}

/// Takes elements to where they belong. `done` says how many of these own something, whatever comes of the rest.
///
/// # Errors
/// The fault of the bytes, and `ERR_NOMEM`.
///
/// # Safety
/// There is room for `n` elements of the type.
pub unsafe fn take(
    from: &mut Reader<'_>,
    ty: DataType,
    first: *mut c_void,
    n: usize,
    done: &mut usize,
) -> Result<(), Status> {
    let kind = Kind::of(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    /// Folded or plain numbers of one type.
    macro_rules! fill {
        ($t:ty, $from:expr) => {{
            from.may_have(ty, n)?;
            for i in 0..n {
                let number = <$t>::try_from($from).map_err(|_| WireError::Malformed("number of this type"))?;
                // SAFETY: there is room for it, as promised by the caller.
                unsafe { first.cast::<$t>().add(i).write_unaligned(number) };
            }
        }};
    }
    match shape(ty) {
        Shape::Byte | Shape::Truth => {
            let bytes = from.raw(n as u64)?;
            let truth = ty == DataType::BOOL;
            // SAFETY: there is room for that many bytes, as promised by the caller.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), first.cast(), n) };
            for i in (0..n).take_while(|_| truth) {
                // SAFETY: as above.
                unsafe { first.cast::<u8>().add(i).write(u8::from(bytes[i] != 0)) };
            }
        }
        Shape::I16 => fill!(i16, flex::unfold(from.number()?)),
        Shape::I32 => fill!(i32, flex::unfold(from.number()?)),
        Shape::I64 => fill!(i64, flex::unfold(from.number()?)),
        Shape::U16 => fill!(u16, from.number()?),
        Shape::U32 => fill!(u32, from.number()?),
        Shape::U64 => fill!(u64, from.number()?),
        Shape::Structure => {
            // SAFETY: there is room for it, as promised by the caller.
            from.each(ty, n, |from, i| unsafe {
                let at = first.byte_add(i * kind.size);
                (kind.construct)(at);
                *done = i + 1;
                take_structure(from, ty, at)
            })?;
        }
        Shape::Model => {
            for (i, value) in from.list(ty, n)?.iter().enumerate() {
                // SAFETY: as above.
                unsafe {
                    let at = first.byte_add(i * kind.size);
                    (kind.construct)(at);
                    *done = i + 1;
                    convert::write(value, at)?;
                }
            }
        }
    }
    *done = n;
    Ok(())
}

/// Fills a constructed structure.
unsafe fn take_structure(from: &mut Reader<'_>, ty: DataType, at: *mut c_void) -> Result<(), Status> {
    // SAFETY: such a structure, as promised by the caller.
    unsafe {
        match ty {
            DataType::STRING => {
                if let Some(text) = from.text()? {
                    at.cast::<*mut c_char>().write_unaligned(alloc::text(text)?);
                }
            }
            DataType::PROC => {
                let proc = &mut *at.cast::<pmix_proc_t>();
                take_name(from, &mut proc.nspace)?;
                proc.rank = take_u32(from)?;
            }
            DataType::BYTE_OBJECT => {
                let object = &mut *at.cast::<pmix_byte_object_t>();
                let len = from.number()?;
                let bytes = from.raw(len)?;
                *object = pmix_byte_object_t { bytes: alloc::bytes(bytes)?, size: bytes.len() };
            }
            DataType::VALUE => take_value(from, &mut *at.cast())?,
            DataType::INFO => {
                let info = &mut *at.cast::<pmix_info_t>();
                take_name(from, &mut info.key)?;
                // That somebody else owned the value is not true of a copy.
                info.flags = take_u32(from)? & !INFO_PERSISTENT;
                take_value(from, &mut info.value)?;
            }
            DataType::DATA_ARRAY => take_array(from, &mut *at.cast())?,
            _ => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
        }
    }
    Ok(())
}

fn take_name<const N: usize>(from: &mut Reader<'_>, place: &mut [c_char; N]) -> Result<(), WireError> {
    let name = from.text()?.unwrap_or_default();
    if name.len() >= N {
        return Err(WireError::Malformed("name"));
    }
    // SAFETY: bytes and C's characters are the same, and there is room for these; the rest is zero already.
    unsafe { std::ptr::copy_nonoverlapping(name.as_ptr().cast(), place.as_mut_ptr(), name.len()) };
    Ok(())
}

fn take_u32(from: &mut Reader<'_>) -> Result<u32, WireError> {
    u32::try_from(from.number()?).map_err(|_| WireError::Malformed("number of this type"))
}

fn take_type(from: &mut Reader<'_>) -> Result<DataType, WireError> {
    u16::try_from(from.number()?).map(DataType).map_err(|_| WireError::Malformed("type"))
}

unsafe fn take_value(from: &mut Reader<'_>, value: &mut pmix_value_t) -> Result<(), Status> {
    from.nested(|from| {
        let ty = take_type(from)?;
        if ty == DataType::UNDEF {
            return Ok(());
        }
        let kind = Kind::of(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        *value = pmix_value_t { ty: ty.0, ..pmix_value_t::EMPTY };
        let at: *mut c_void = match kind.is_boxed() {
            false => (&raw mut value.data).cast(),
            true => {
                let place = alloc::zeroed::<u8>(kind.size).cast();
                value.data.ptr = place;
                place
            }
        };
        if at.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        // SAFETY: room for one, in the union or behind it. The value owns it, finished or not: it is all zeros before.
        unsafe { take(from, ty, at, 1, &mut 0) }
    })
}

unsafe fn take_array(from: &mut Reader<'_>, array: &mut pmix_data_array_t) -> Result<(), Status> {
    from.nested(|from| {
        let ty = take_type(from)?;
        let count = usize::try_from(from.number()?).map_err(|_| WireError::Malformed("number of elements"))?;
        array.ty = ty.0;
        if count == 0 {
            return Ok(());
        }
        let kind = Kind::of(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
        from.may_have(ty, count)?;
        array.array = alloc::zeroed::<u8>(count.checked_mul(kind.size).ok_or(Status::ERR_NOMEM)?).cast();
        if array.array.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        // SAFETY: room for as many.
        unsafe { take(from, ty, array.array, count, &mut array.size) }
    })
}
