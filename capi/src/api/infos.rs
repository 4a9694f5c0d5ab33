//! Attributes and published data: filling, copying, directives.
use instanton::data::constants::info_directives as flag;
use instanton::data::{DataType, Status};
use libc::{c_char, c_void};

use super::values;
use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::owned::Owned;
use crate::print;
use crate::types::*;

/// Fills an attribute, whatever was in it, with copies of a key, of what fits of it, and a value; no directive is set.
/// When it fails, there is an empty one.
///
/// # Safety
/// As [`values::load`]; `key` is NULL or a C string.
pub unsafe fn load(info: &mut pmix_info_t, key: *const c_char, data: *const c_void, ty: DataType) -> Outcome {
    // SAFETY: as promised by the caller.
    match if key.is_null() { Err(Status::ERR_BAD_PARAM) } else { unsafe { values::load(&mut info.value, data, ty) } } {
        Ok(()) => {
            // SAFETY: as promised by the caller.
            alloc::set_name(&mut info.key, unsafe { alloc::bounded(key, KEY_SIZE - 1) });
            info.flags = 0;
            Ok(())
        }
        Err(status) => {
            *info = Owned::constructed();
            Err(status)
        }
    }
}

/// Fills an attribute, whatever was in it, with a copy of another. A value that belongs to somebody else goes on doing
/// so.
///
/// # Safety
/// `dest` has room for an attribute; `info` is NULL or a constructed one.
pub unsafe fn copy(dest: *mut pmix_info_t, info: *const pmix_info_t) -> Outcome {
    // SAFETY: as promised by the caller.
    unsafe {
        let from = info.as_ref().ok_or(Status::ERR_BAD_PARAM)?;
        match from.flags & flag::INFO_PERSISTENT {
            0 => from.dup_to(dest)?,
            _ => dest.copy_from(info, 1),
        }
    }
    Ok(())
}

unsafe fn has(info: *const pmix_info_t, bit: u32) -> bool {
    // SAFETY: NULL or an attribute, the contract with C.
    unsafe { info.as_ref() }.is_some_and(|info| info.flags & bit != 0)
}

unsafe fn set(info: *mut pmix_info_t, bit: u32) {
    // SAFETY: NULL or an attribute, the contract with C.
    if let Some(info) = unsafe { info.as_mut() } {
        info.flags |= bit;
    }
}

export! {
    /// Fills an attribute, whatever was in it.
    fn PMIx_Info_load(info: *mut pmix_info_t, key: *const c_char, data: *const c_void, ty: u16) -> Outcome {
        load(info.as_mut().ok_or(Status::ERR_BAD_PARAM)?, key, data, DataType(ty))
    }

    /// Fills an attribute, whatever was in it, with a copy of another, its directives included.
    fn PMIx_Info_xfer(dest: *mut pmix_info_t, src: *const pmix_info_t) -> Outcome {
        if dest.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        copy(dest, src).inspect_err(|_| dest.write(Owned::constructed()))
    }

    /// Marks an attribute as required.
    fn PMIx_Info_required(p: *mut pmix_info_t) {
        set(p, flag::INFO_REQD);
    }

    /// Marks an attribute as a hint, as it is by default.
    fn PMIx_Info_optional(p: *mut pmix_info_t) {
        if let Some(p) = p.as_mut() {
            p.flags &= !flag::INFO_REQD;
        }
    }

    /// Returns whether an attribute is required.
    fn PMIx_Info_is_required(p: *const pmix_info_t) -> bool {
        has(p, flag::INFO_REQD)
    }

    /// Returns whether an attribute is a hint.
    fn PMIx_Info_is_optional(p: *const pmix_info_t) -> bool {
        !p.is_null() && !has(p, flag::INFO_REQD)
    }

    /// Marks a required attribute as seen to.
    fn PMIx_Info_processed(p: *mut pmix_info_t) {
        set(p, flag::INFO_REQD_PROCESSED);
    }

    /// Returns whether a required attribute was honoured.
    fn PMIx_Info_was_processed(p: *const pmix_info_t) -> bool {
        has(p, flag::INFO_REQD_PROCESSED)
    }

    /// Marks the last of an array.
    fn PMIx_Info_set_end(p: *mut pmix_info_t) {
        set(p, flag::INFO_ARRAY_END);
    }

    /// Returns whether this one is marked as the last of an array.
    fn PMIx_Info_is_end(p: *const pmix_info_t) -> bool {
        has(p, flag::INFO_ARRAY_END)
    }

    /// Marks an attribute as narrowing another.
    fn PMIx_Info_qualifier(p: *mut pmix_info_t) {
        set(p, flag::INFO_QUALIFIER);
    }

    /// Returns whether an attribute qualifies another.
    fn PMIx_Info_is_qualifier(p: *const pmix_info_t) -> bool {
        has(p, flag::INFO_QUALIFIER)
    }

    /// Marks an attribute whose value belongs to somebody else.
    fn PMIx_Info_persistent(p: *mut pmix_info_t) {
        set(p, flag::INFO_PERSISTENT);
    }

    /// Returns whether an attribute's value belongs to somebody else.
    fn PMIx_Info_is_persistent(p: *const pmix_info_t) -> bool {
        has(p, flag::INFO_PERSISTENT)
    }

    /// Returns whether an attribute is true, as `pmix_boolean_t`.
    fn PMIx_Info_true(p: *const pmix_info_t) -> u32 {
        values::truth(if p.is_null() { std::ptr::null() } else { &raw const (*p).value })
    }

    /// The bytes that an attribute takes.
    fn PMIx_Info_get_size(info: *const pmix_info_t, size: *mut usize) -> Outcome {
        let (Some(info), Some(size)) = (info.as_ref(), size.as_mut()) else { return Err(Status::ERR_BAD_PARAM) };
        let key = alloc::bounded(info.key.as_ptr(), KEY_SIZE - 1).len();
        *size = values::size(&raw const info.value)? + size_of::<pmix_info_t>() + (key + 1).min(KEY_SIZE - 1);
        Ok(())
    }

    /// A text for an attribute, the caller's to free.
    fn PMIx_Info_string(info: *const pmix_info_t) -> *mut c_char {
        let Some(info) = info.as_ref() else { return std::ptr::null_mut() };
        print::info(info).unwrap_or(std::ptr::null_mut())
    }

    /// A text for an application, the caller's to free.
    fn PMIx_App_string(app: *const pmix_app_t) -> *mut c_char {
        let Some(app) = app.as_ref() else { return std::ptr::null_mut() };
        print::app(app).unwrap_or(std::ptr::null_mut())
    }

    /// Fills published data, whatever was in it.
    fn PMIx_Pdata_load(
        dest: *mut pmix_pdata_t, proc: *const pmix_proc_t, key: *const c_char, data: *const c_void, ty: u16,
    ) {
        if let (Some(dest), Some(proc)) = (dest.as_mut(), proc.as_ref()) {
            *dest = Owned::constructed();
            let mut info = pmix_info_t::constructed();
            if load(&mut info, key, data, DataType(ty)).is_ok() {
                *dest = pmix_pdata_t { proc: *proc, key: info.key, value: info.value };
            }
        }
    }

    /// Fills published data, whatever was in it, with a copy.
    fn PMIx_Pdata_xfer(dest: *mut pmix_pdata_t, src: *mut pmix_pdata_t) {
        if let (Some(dest), Some(src)) = (dest.as_mut(), src.as_ref()) {
            *dest = src.dup().unwrap_or_else(|_| Owned::constructed());
        }
    }
}
