//! Values: filling, emptying, comparing, measuring.
use std::ptr;

use instanton::data::{DataType, Status, Value, constants::boolean};
use libc::{c_char, c_void};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::convert;
use crate::kind::Kind;
use crate::owned::{self, Owned};
use crate::print;
use crate::types::*;

/// Fills a value, whatever was in it, with one of type `ty` made of what `data` points to. When it fails, the value is
/// left alone.
///
/// For strings and map expressions `data` is the text itself, for pointers the value itself, for everything else it
/// points to an element. Without `data`, a BOOL is true and everything else empty.
///
/// # Safety
/// `data` is NULL or what the type asks for.
pub unsafe fn load(value: &mut pmix_value_t, data: *const c_void, ty: DataType) -> Outcome {
    let kind = match Kind::of(ty) {
        Some(kind) => kind,
        None if ty == DataType::UNDEF => {
            *value = pmix_value_t::EMPTY;
            return Ok(());
        }
        None => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
    };
    // SAFETY: as promised by the caller, and as the kind says.
    unsafe {
        // A union that is put together elsewhere and copied costs more than one that is written where it stays.
        let behind = match ty {
            _ if data.is_null() => {
                value.data.words = [u64::from(ty == DataType::BOOL), 0, 0];
                value.ty = ty.0;
                return Ok(());
            }
            DataType::POINTER => data.cast_mut(),
            _ if kind.is_number() => {
                value.data.words = [kind.number(data), 0, 0];
                value.ty = ty.0;
                return Ok(());
            }
            DataType::STRING => owned::dup_text(data.cast())?.cast(),
            DataType::REGEX => {
                let text = alloc::expression(data.cast()).ok_or(Status::ERR_BAD_PARAM)?;
                let with_nul = [text, if text.contains(&0) { &[] } else { &[0] }].concat();
                let bytes = alloc::bytes(&with_nul)?;
                value.data.words = [0; 3];
                value.data.bo = pmix_byte_object_t { bytes, size: with_nul.len() };
                value.ty = ty.0;
                return Ok(());
            }
            DataType::PROC_NSPACE => {
                let mut nspace = pmix_nspace_t::constructed();
                alloc::set_name(&mut nspace, alloc::name(data.cast(), NSPACE_SIZE)?);
                alloc::boxed(nspace)?.cast()
            }
            _ if kind.is_boxed() => kind.dup_boxed(data)?,
            _ => {
                let mut new = pmix_data_t { words: [0; 3] };
                (kind.dup)(data, (&raw mut new).cast())?;
                (value.ty, value.data) = (ty.0, new);
                return Ok(());
            }
        };
        value.data.words = [0; 3];
        value.data.ptr = behind;
    }
    value.ty = ty.0;
    Ok(())
}

/// A copy of what a value holds, in memory of the caller where he offers some and of libc otherwise: numbers need the
/// former, texts and bytes are always the latter.
unsafe fn unload(value: &pmix_value_t, place: &mut *mut c_void) -> Result<usize, Status> {
    let ty = DataType(value.ty);
    let kind = Kind::of(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?;
    // Memory that is allocated in either case is asked for in one way: programs count on being told.
    if place.is_null() && ty != DataType::STRING && ty != DataType::BYTE_OBJECT {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: the member of the union that the type selects.
    unsafe {
        match ty {
            DataType::STRING => {
                *place = owned::dup_text(value.data.string)?.cast();
                Ok(alloc::c_bytes((*place).cast()).map_or(0, <[u8]>::len))
            }
            DataType::BYTE_OBJECT
            | DataType::COMPRESSED_STRING
            | DataType::COMPRESSED_BYTE_OBJECT
            | DataType::REGEX => {
                let copy = value.data.bo.dup()?;
                *place = copy.bytes.cast();
                Ok(copy.size)
            }
            DataType::POINTER => {
                *place = value.data.ptr;
                Ok(size_of::<*mut c_void>())
            }
            _ if kind.is_number() => {
                kind.put_number(kind.number((&raw const value.data).cast()), *place);
                Ok(kind.size)
            }
            _ if kind.is_boxed() && value.data.ptr.is_null() => {
                *place = ptr::null_mut();
                Ok(0)
            }
            DataType::PROC => {
                (kind.dup)(value.data.ptr, *place)?;
                Ok(kind.size)
            }
            DataType::PROC_NSPACE => {
                (kind.dup)(value.data.ptr, *place)?;
                Ok(alloc::bounded((*place).cast(), NSPACE_SIZE).len())
            }
            _ if kind.is_boxed() => {
                *place = kind.dup_boxed(value.data.ptr)?;
                Ok(kind.size)
            }
            _ => {
                (kind.dup)((&raw const value.data).cast(), *place)?;
                Ok(kind.size)
            }
        }
    }
}

/// Returns whether both are one integer. A value that is no number need not equal itself.
unsafe fn are_same_number(v1: *const pmix_value_t, v2: *const pmix_value_t) -> bool {
    // SAFETY: NULL or constructed values, the contract with C; of a number, all of its type's bytes lie in the first word.
    unsafe {
        let (Some(v1), Some(v2)) = (v1.as_ref(), v2.as_ref()) else { return false };
        let ty = DataType(v1.ty);
        let kind = Kind::of(ty).filter(|kind| kind.is_number() && ty != DataType::FLOAT && ty != DataType::DOUBLE);
        let bytes = |value: &pmix_value_t| value.data.words[0].to_le_bytes();
        v1.ty == v2.ty && kind.is_some_and(|kind| bytes(v1)[..kind.size] == bytes(v2)[..kind.size])
    }
}

/// Returns the `pmix_boolean_t` of a value.
pub unsafe fn truth(value: *const pmix_value_t) -> u32 {
    // SAFETY: NULL or a constructed value, the contract with C.
    let truth = unsafe {
        match value.as_ref().map(|value| (DataType(value.ty), value)) {
            Some((DataType::UNDEF, _)) => Some(true),
            Some((DataType::BOOL, value)) => Some(value.data.flag != 0),
            Some((DataType::STRING, value)) => convert::one::<_, Value>(value).ok().and_then(|value| value.truth()),
            _ => None,
        }
    };
    (match truth {
        Some(true) => boolean::BOOL_TRUE,
        Some(false) => boolean::BOOL_FALSE,
        None => boolean::NON_BOOL,
    }) as u32
}

/// The bytes that a value takes.
pub unsafe fn size(value: *const pmix_value_t) -> Result<usize, Status> {
    // SAFETY: NULL or a constructed value, the contract with C.
    match unsafe { convert::one::<_, Value>(value) }? {
        Value::Undef => Err(Status::ERR_UNKNOWN_DATA_TYPE),
        value => Ok(value.size()),
    }
}

/// A new C string with the text of an element; NULL where there is none.
///
/// # Safety
/// `at` is NULL or an element of that type.
pub unsafe fn printed(ty: DataType, at: *const c_void) -> *mut c_char {
    // SAFETY: as promised by the caller.
    unsafe { print::print(print::INNER, ty, at) }.unwrap_or(ptr::null_mut())
}

/// A new C string with the text form of something.
pub fn text_of(thing: Result<impl ToString, Status>) -> *mut c_char {
    let text = thing.map(|thing| thing.to_string().replace('\0', "\\0"));
    text.and_then(|text| alloc::text(text.as_bytes())).unwrap_or(ptr::null_mut())
}

export! {
    /// Fills a value, whatever was in it, with a copy of some data.
    fn PMIx_Value_load(value: *mut pmix_value_t, data: *const c_void, ty: u16) -> Outcome {
        let value = value.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        // A value that nothing is loaded into can be destructed nevertheless.
        load(value, data, DataType(ty)).inspect_err(|_| *value = pmix_value_t::EMPTY)
    }

    /// Copies what a value holds out of it.
    fn PMIx_Value_unload(value: *mut pmix_value_t, data: *mut *mut c_void, size: *mut usize) -> Outcome {
        let (Some(value), Some(data)) = (value.as_ref(), data.as_mut()) else { return Err(Status::ERR_BAD_PARAM) };
        let bytes = unload(value, data)?;
        if let Some(size) = size.as_mut() {
            *size = bytes;
        }
        Ok(())
    }

    /// Fills a value, whatever was in it, with a copy of another.
    fn PMIx_Value_xfer(dest: *mut pmix_value_t, src: *const pmix_value_t) -> Outcome {
        match src.as_ref() {
            // A value that nothing is copied into can be destructed nevertheless.
            Some(src) if !dest.is_null() => src.dup_to(dest).inspect_err(|_| dest.write(pmix_value_t::EMPTY)),
            _ => Err(Status::ERR_BAD_PARAM),
        }
    }

    /// Returns the order of two values, a `pmix_value_cmp_t`.
    fn PMIx_Value_compare(v1: *mut pmix_value_t, v2: *mut pmix_value_t) -> u32 {
        use instanton::data::Comparison;
        if let (Some(v1), Some(v2)) = (v1.as_ref(), v2.as_ref())
            && (v1.ty, v2.ty) == (DataType::STRING.0, DataType::STRING.0)
        {
            let order = match (v1.data.string, v2.data.string) {
                (v1, v2) if v1.is_null() || v2.is_null() => v2.is_null().cmp(&v1.is_null()),
                (v1, v2) => libc::strcmp(v1, v2).cmp(&0),
            };
            return Comparison::from(order) as u32;
        }
        if are_same_number(v1, v2) {
            return Comparison::Equal as u32;
        }
        match (convert::one::<_, Value>(v1), convert::one::<_, Value>(v2)) {
            (Ok(v1), Ok(v2)) => v1.compare(&v2) as u32,
            _ => Comparison::NotAvailable as u32,
        }
    }

    /// Returns whether a value is true, as `pmix_boolean_t`.
    fn PMIx_Value_true(value: *const pmix_value_t) -> u32 {
        truth(value)
    }

    /// The bytes that a value takes.
    fn PMIx_Value_get_size(value: *const pmix_value_t, size: *mut usize) -> Outcome {
        *size.as_mut().ok_or(Status::ERR_BAD_PARAM)? = self::size(value)?;
        Ok(())
    }

    /// A value's number as another type, where it fits.
    fn PMIx_Value_get_number(value: *const pmix_value_t, dest: *mut c_void, ty: u16) -> Outcome {
        if dest.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let value: Value = convert::one(value)?;
        let number = value.to_number(DataType(ty)).map_err(|e| e.status())?;
        // C may have its bytes anywhere.
        let mut aligned = 0u64;
        convert::write(&number, (&raw mut aligned).cast())?;
        ptr::copy_nonoverlapping((&raw const aligned).cast::<u8>(), dest.cast(), DataType(ty).c_size());
        Ok(())
    }

    /// A text for a value, the caller's to free.
    fn PMIx_Value_string(value: *const pmix_value_t) -> *mut c_char {
        match value.is_null() {
            true => alloc::text(b" Data type: PMIX_VALUE\tValue: NULL pointer").unwrap_or(ptr::null_mut()),
            false => printed(DataType::VALUE, value.cast()),
        }
    }

    /// A copy of an element of any type; a string and a map expression are copied themselves.
    fn PMIx_Data_copy(dest: *mut *mut c_void, src: *mut c_void, ty: u16) -> Outcome {
        let dest = dest.as_mut().filter(|_| !src.is_null()).ok_or(Status::ERR_BAD_PARAM)?;
        *dest = ptr::null_mut();
        *dest = match DataType(ty) {
            DataType::STRING => owned::dup_text(src.cast())?.cast(),
            DataType::REGEX => {
                let text = alloc::expression(src.cast()).ok_or(Status::ERR_BAD_PARAM)?;
                alloc::text(text)?.cast()
            }
            ty => Kind::of(ty).ok_or(Status::ERR_UNKNOWN_DATA_TYPE)?.dup_boxed(src)?,
        };
        Ok(())
    }

    /// A text for an element of any type, the caller's to free; of a string and a map expression it is given the text
    /// itself.
    fn PMIx_Data_print(output: *mut *mut c_char, prefix: *mut c_char, src: *mut c_void, ty: u16) -> Outcome {
        let output = output.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        *output = ptr::null_mut();
        if src.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let prefix = alloc::c_bytes(prefix).unwrap_or(print::INNER);
        *output = print::print(prefix, DataType(ty), src).map_err(|error| match error {
            // To this one call the Standard gives this status for a type that is none.
            Status::ERR_UNKNOWN_DATA_TYPE => Status::ERR_BAD_PARAM,
            error => error,
        })?;
        Ok(())
    }
}
