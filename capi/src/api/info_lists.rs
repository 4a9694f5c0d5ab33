//! Lists of attributes that grow one by one and become an array at the end.
//!
//! A list is a handle: C never looks inside, so it is plain Rust. Its attributes are C structures, because
//! `PMIx_Info_list_get_info` shows them; each keeps its place when the list grows. They are filled where they stay: an
//! attribute is half a kilobyte.
use std::collections::VecDeque;
use std::ptr;

use instanton::data::constants::info_directives::INFO_PERSISTENT;
use instanton::data::{DataType, Status};
use libc::{c_char, c_void};

use super::infos;
use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::owned::{Owned, release_array};
use crate::types::*;

struct List(VecDeque<*mut pmix_info_t>);

/// Most lists have no more attributes.
const USUAL: usize = 14;

/// An attribute that is in no list yet.
struct New(*mut pmix_info_t);

impl New {
    /// Returns what `fill` makes of memory in which nothing has been constructed, if it succeeds.
    unsafe fn filled(fill: impl FnOnce(*mut pmix_info_t) -> Outcome) -> Result<Self, Status> {
        let place = alloc::room::<pmix_info_t>()?;
        match fill(place) {
            Ok(()) => Ok(New(place)),
            Err(status) => {
                // SAFETY: made above, and nothing in it owns anything.
                unsafe { alloc::release(place) };
                Err(status)
            }
        }
    }

    /// Makes one from a key and what the type asks for.
    unsafe fn loaded(key: *const c_char, value: *const c_void, ty: u16) -> Result<Self, Status> {
        // SAFETY: integers and pointers may be anything before they are loaded; the rest is the contract with C.
        unsafe { Self::filled(|place| infos::load(&mut *place, key, value, DataType(ty))) }
    }

    /// Makes one from a key and a copy of a value.
    unsafe fn with_value(key: *const c_char, value: *const pmix_value_t) -> Result<Self, Status> {
        // SAFETY: a key and a constructed value, the contract with C.
        unsafe {
            Self::filled(|place| {
                place.write(pmix_info_t::constructed());
                alloc::set_name(&mut (*place).key, alloc::name(key, KEY_SIZE)?);
                (*place).value = value.as_ref().ok_or(Status::ERR_BAD_PARAM)?.dup()?;
                Ok(())
            })
        }
    }

    /// A copy.
    unsafe fn copied(info: *const pmix_info_t) -> Result<Self, Status> {
        // SAFETY: NULL or a constructed attribute, the contract with C.
        unsafe { Self::filled(|place| infos::copy(place, info)) }
    }
}

impl List {
    /// Adds an attribute whose key is to be there once.
    unsafe fn add_unique(&mut self, New(new): New, overwrite: bool) {
        // SAFETY: attributes of the list's own.
        unsafe {
            match self.0.iter().find(|info| (***info).key == (*new).key) {
                None => self.0.push_back(new),
                Some(old) => {
                    if overwrite {
                        ptr::swap(*old, new);
                    }
                    release_array(new, 1);
                }
            }
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        for info in &self.0 {
            // SAFETY: the list owns its attributes.
            unsafe { release_array(*info, 1) };
        }
    }
}

unsafe fn list<'a>(handle: *mut c_void) -> Result<&'a mut List, Status> {
    // SAFETY: NULL or a handle from `PMIx_Info_list_start`, the contract with C.
    unsafe { handle.cast::<List>().as_mut() }.ok_or(Status::ERR_BAD_PARAM)
}

export! {
    /// A new list.
    fn PMIx_Info_list_start() -> *mut c_void {
        Box::into_raw(Box::new(List(VecDeque::with_capacity(USUAL)))).cast()
    }

    /// Frees a list.
    fn PMIx_Info_list_release(handle: *mut c_void) {
        if !handle.is_null() {
            drop(Box::from_raw(handle.cast::<List>()));
        }
    }

    /// Adds an attribute at the end.
    fn PMIx_Info_list_add(handle: *mut c_void, key: *const c_char, value: *const c_void, ty: u16) -> Outcome {
        list(handle)?.0.push_back(New::loaded(key, value, ty)?.0);
        Ok(())
    }

    /// Adds an attribute whose key is to be there once.
    fn PMIx_Info_list_add_unique(
        handle: *mut c_void, key: *const c_char, value: *const c_void, ty: u16, overwrite: u8,
    ) -> Outcome {
        list(handle)?.add_unique(New::loaded(key, value, ty)?, overwrite & 1 != 0);
        Ok(())
    }

    /// Adds a copy of a value at the end.
    fn PMIx_Info_list_add_value(handle: *mut c_void, key: *const c_char, value: *const pmix_value_t) -> Outcome {
        list(handle)?.0.push_back(New::with_value(key, value)?.0);
        Ok(())
    }

    /// Adds a copy of a value whose key is to be there once. Programs built for 6.0 do not pass `overwrite`: they get
    /// either behaviour.
    fn PMIx_Info_list_add_value_unique(
        handle: *mut c_void, key: *const c_char, value: *const pmix_value_t, overwrite: u8,
    ) -> Outcome {
        list(handle)?.add_unique(New::with_value(key, value)?, overwrite & 1 != 0);
        Ok(())
    }

    /// Adds an attribute in front.
    fn PMIx_Info_list_prepend(handle: *mut c_void, key: *const c_char, value: *const c_void, ty: u16) -> Outcome {
        list(handle)?.0.push_front(New::loaded(key, value, ty)?.0);
        Ok(())
    }

    /// Adds an attribute at the end whose value stays the caller's.
    fn PMIx_Info_list_insert(handle: *mut c_void, info: *mut pmix_info_t) -> Outcome {
        let (list, info) = (list(handle)?, info.as_ref().ok_or(Status::ERR_BAD_PARAM)?);
        let new = alloc::boxed(*info)?;
        (*new).flags |= INFO_PERSISTENT;
        list.0.push_back(new);
        Ok(())
    }

    /// Adds a copy of an attribute at the end.
    fn PMIx_Info_list_xfer(handle: *mut c_void, info: *const pmix_info_t) -> Outcome {
        list(handle)?.0.push_back(New::copied(info)?.0);
        Ok(())
    }

    /// Adds a copy of an attribute whose key is to be there once.
    fn PMIx_Info_list_xfer_unique(handle: *mut c_void, info: *const pmix_info_t, overwrite: u8) -> Outcome {
        list(handle)?.add_unique(New::copied(info)?, overwrite & 1 != 0);
        Ok(())
    }

    /// An array with copies of all attributes; values that belong to somebody else still do.
    fn PMIx_Info_list_convert(handle: *mut c_void, array: *mut pmix_data_array_t) -> Outcome {
        let (list, array) = (list(handle)?, array.as_mut().ok_or(Status::ERR_BAD_PARAM)?);
        *array = pmix_data_array_t { ty: DataType::INFO.0, size: 0, array: ptr::null_mut() };
        if list.0.is_empty() {
            return Err(Status::ERR_EMPTY);
        }
        let copies: *mut pmix_info_t = libc::malloc(list.0.len() * size_of::<pmix_info_t>()).cast();
        if copies.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        for (i, info) in list.0.iter().enumerate() {
            if let Err(status) = infos::copy(copies.add(i), *info) {
                release_array(copies, i);
                return Err(status);
            }
        }
        (array.size, array.array) = (list.0.len(), copies.cast());
        Ok(())
    }

    /// The attribute after `prev`, the first after NULL. `next` is what to pass to get the one after this.
    fn PMIx_Info_list_get_info(handle: *mut c_void, prev: *mut c_void, next: *mut *mut c_void) -> *mut pmix_info_t {
        let (Ok(list), Some(next)) = (list(handle), next.as_mut()) else { return ptr::null_mut() };
        // The handle of a position is its number, so that 0 is both NULL and the first.
        let at = prev.addr();
        *next = ptr::without_provenance_mut(if at + 1 < list.0.len() { at + 1 } else { 0 });
        list.0.get(at).copied().unwrap_or(ptr::null_mut())
    }

    /// Returns the number of attributes.
    fn PMIx_Info_list_get_size(handle: *mut c_void) -> usize {
        list(handle).map_or(0, |list| list.0.len())
    }
}
