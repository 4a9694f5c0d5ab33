//! Lists of attributes that grow one by one and become an array at the end.
//!
//! A list is a handle: C never looks inside, so it is plain Rust. Its attributes are C structures, because
//! `PMIx_Info_list_get_info` shows them; each keeps its place when the list grows.
use std::collections::VecDeque;
use std::ptr;

use instanton::data::constants::info_directives::INFO_PERSISTENT;
use instanton::data::{DataType, Status};
use libc::{c_char, c_void};

use super::infos;
use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::owned::{Owned, create, release_array};
use crate::types::*;

#[derive(Default)]
struct List(VecDeque<Box<pmix_info_t>>);

impl List {
    fn position(&self, key: &pmix_key_t) -> Option<usize> {
        self.0.iter().position(|info| info.key == *key)
    }

    /// Adds an attribute whose key is to be there once.
    fn add_unique(&mut self, mut new: pmix_info_t, overwrite: bool) {
        match self.position(&new.key).map(|at| &mut *self.0[at]) {
            None => self.0.push_back(Box::new(new)),
            Some(old) => {
                if overwrite {
                    std::mem::swap(old, &mut new);
                }
                // SAFETY: the list owned the old one, and nobody has seen the new one.
                unsafe { new.clear() };
            }
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        for info in &mut self.0 {
            // SAFETY: the list owns what its attributes own.
            unsafe { info.clear() };
        }
    }
}

unsafe fn list<'a>(handle: *mut c_void) -> Result<&'a mut List, Status> {
    // SAFETY: NULL or a handle from `PMIx_Info_list_start`, the contract with C.
    unsafe { handle.cast::<List>().as_mut() }.ok_or(Status::ERR_BAD_PARAM)
}

/// An attribute where it stays.
unsafe fn loaded(key: *const c_char, value: *const c_void, ty: u16) -> Result<Box<pmix_info_t>, Status> {
    let mut new = Box::new(pmix_info_t::constructed());
    // SAFETY: a key and what the type asks for, the contract with C.
    unsafe { infos::load(&mut new, key, value, DataType(ty)) }?;
    Ok(new)
}

/// A key and a copy of a value.
unsafe fn with_value(key: *const c_char, value: *const pmix_value_t) -> Result<pmix_info_t, Status> {
    let mut new = pmix_info_t::constructed();
    // SAFETY: a key and a constructed value, the contract with C.
    unsafe {
        alloc::set_name(&mut new.key, alloc::name(key, KEY_SIZE)?);
        new.value = value.as_ref().ok_or(Status::ERR_BAD_PARAM)?.dup()?;
    }
    Ok(new)
}

export! {
    /// A new list.
    fn PMIx_Info_list_start() -> *mut c_void {
        Box::into_raw(Box::<List>::default()).cast()
    }

    /// Frees a list.
    fn PMIx_Info_list_release(handle: *mut c_void) {
        if !handle.is_null() {
            drop(Box::from_raw(handle.cast::<List>()));
        }
    }

    /// Adds an attribute at the end.
    fn PMIx_Info_list_add(handle: *mut c_void, key: *const c_char, value: *const c_void, ty: u16) -> Outcome {
        list(handle)?.0.push_back(loaded(key, value, ty)?);
        Ok(())
    }

    /// Adds an attribute whose key is to be there once.
    fn PMIx_Info_list_add_unique(
        handle: *mut c_void, key: *const c_char, value: *const c_void, ty: u16, overwrite: u8,
    ) -> Outcome {
        list(handle)?.add_unique(*loaded(key, value, ty)?, overwrite & 1 != 0);
        Ok(())
    }

    /// Adds a copy of a value at the end.
    fn PMIx_Info_list_add_value(handle: *mut c_void, key: *const c_char, value: *const pmix_value_t) -> Outcome {
        list(handle)?.0.push_back(Box::new(with_value(key, value)?));
        Ok(())
    }

    /// Adds a copy of a value whose key is to be there once. Programs built for 6.0 do not pass `overwrite`: they get
    /// either behaviour.
    fn PMIx_Info_list_add_value_unique(
        handle: *mut c_void, key: *const c_char, value: *const pmix_value_t, overwrite: u8,
    ) -> Outcome {
        list(handle)?.add_unique(with_value(key, value)?, overwrite & 1 != 0);
        Ok(())
    }

    /// Adds an attribute in front.
    fn PMIx_Info_list_prepend(handle: *mut c_void, key: *const c_char, value: *const c_void, ty: u16) -> Outcome {
        list(handle)?.0.push_front(loaded(key, value, ty)?);
        Ok(())
    }

    /// Adds an attribute at the end whose value stays the caller's.
    fn PMIx_Info_list_insert(handle: *mut c_void, info: *mut pmix_info_t) -> Outcome {
        let mut info = *info.as_ref().ok_or(Status::ERR_BAD_PARAM)?;
        info.flags |= INFO_PERSISTENT;
        list(handle)?.0.push_back(Box::new(info));
        Ok(())
    }

    /// Adds a copy of an attribute at the end.
    fn PMIx_Info_list_xfer(handle: *mut c_void, info: *const pmix_info_t) -> Outcome {
        list(handle)?.0.push_back(Box::new(infos::copy(info)?));
        Ok(())
    }

    /// Adds a copy of an attribute whose key is to be there once.
    fn PMIx_Info_list_xfer_unique(handle: *mut c_void, info: *const pmix_info_t, overwrite: u8) -> Outcome {
        list(handle)?.add_unique(infos::copy(info)?, overwrite & 1 != 0);
        Ok(())
    }

    /// An array with copies of all attributes; values that belong to somebody else still do.
    fn PMIx_Info_list_convert(handle: *mut c_void, array: *mut pmix_data_array_t) -> Outcome {
        let (list, array) = (list(handle)?, array.as_mut().ok_or(Status::ERR_BAD_PARAM)?);
        *array = pmix_data_array_t { ty: DataType::INFO.0, size: 0, array: ptr::null_mut() };
        if list.0.is_empty() {
            return Err(Status::ERR_EMPTY);
        }
        let copies = create::<pmix_info_t>(list.0.len());
        if copies.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        for (i, info) in list.0.iter().enumerate() {
            match infos::copy(&raw const **info) {
                Ok(copy) => copies.add(i).write(copy),
                Err(status) => {
                    release_array(copies, i);
                    return Err(status);
                }
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
        list.0.get_mut(at).map_or(ptr::null_mut(), |info| &raw mut **info)
    }

    /// How many attributes there are.
    fn PMIx_Info_list_get_size(handle: *mut c_void) -> usize {
        list(handle).map_or(0, |list| list.0.len())
    }
}
