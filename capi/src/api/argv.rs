//! NULL-terminated arrays of strings, and environments, which are such arrays.
use std::ptr;

use instanton::data::Status;
use libc::{c_char, c_int};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::owned;
use crate::text::TextBuilder;

/// Moves an array of the caller to one with a new string in it.
unsafe fn insert(argv: *mut *mut *mut c_char, at: usize, arg: *const c_char) -> Outcome {
    if argv.is_null() || arg.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: a place for an array and a string, the contract with C.
    unsafe {
        let count = count(*argv);
        let copy = owned::dup_text(arg)?;
        let moved: *mut *mut c_char = libc::realloc((*argv).cast(), (count + 2) * size_of::<*mut c_char>()).cast();
        if moved.is_null() {
            alloc::release(copy);
            return Err(Status::ERR_NOMEM);
        }
        let at = at.min(count);
        ptr::copy(moved.add(at), moved.add(at + 1), count - at);
        moved.add(at).write(copy);
        moved.add(count + 1).write(ptr::null_mut());
        *argv = moved;
    }
    Ok(())
}

unsafe fn count(argv: *const *mut c_char) -> usize {
    let mut n = 0;
    // SAFETY: NULL or a NULL-terminated array, the contract with C.
    while !argv.is_null() && unsafe { !(*argv.add(n)).is_null() } {
        n += 1;
    }
    n
}

unsafe fn split(text: *const c_char, delimiter: c_int, empty: bool) -> *mut *mut c_char {
    // SAFETY: NULL or a C string, the contract with C.
    let Some(text) = (unsafe { alloc::c_bytes(text) }).filter(|text| !text.is_empty()) else { return ptr::null_mut() };
    let mut parts: Vec<&[u8]> =
        text.split(|b| c_int::from(*b) == delimiter & 0xff).filter(|part| empty || !part.is_empty()).collect();
    // The part behind the last delimiter counts unless it is empty.
    if empty && parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    match parts.is_empty() {
        true => ptr::null_mut(),
        false => alloc::new_argv(parts.into_iter()).unwrap_or(ptr::null_mut()),
    }
}

/// Bytes of a usual string, for a start.
const USUAL: usize = 16;

export! {
    /// Appends a copy of a string.
    fn PMIx_Argv_append_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> Outcome {
        insert(argv, usize::MAX, arg)
    }

    /// Puts a copy of a string first.
    fn PMIx_Argv_prepend_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> Outcome {
        insert(argv, 0, arg)
    }

    /// Appends a copy of a string that is not there yet.
    fn PMIx_Argv_append_unique_nosize(argv: *mut *mut *mut c_char, arg: *const c_char) -> Outcome {
        match alloc::c_bytes(arg) {
            Some(arg) if !argv.is_null() && alloc::argv(*argv).contains(&arg) => Ok(()),
            _ => insert(argv, usize::MAX, arg),
        }
    }

    /// Frees an array and its strings.
    fn PMIx_Argv_free(argv: *mut *mut c_char) {
        alloc::release_argv(argv);
    }

    /// The strings between delimiters, without empty ones.
    fn PMIx_Argv_split(text: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        split(text, delimiter, false)
    }

    /// The strings between delimiters, with empty ones.
    fn PMIx_Argv_split_with_empty(text: *const c_char, delimiter: c_int) -> *mut *mut c_char {
        split(text, delimiter, true)
    }

    /// The strings between delimiters.
    fn PMIx_Argv_split_inter(text: *const c_char, delimiter: c_int, include_empty: u8) -> *mut *mut c_char {
        split(text, delimiter, include_empty & 1 != 0)
    }

    /// One string of all, with a delimiter between them.
    fn PMIx_Argv_join(argv: *mut *mut c_char, delimiter: c_int) -> *mut c_char {
        let delimiter = delimiter as u8;
        let (mut joined, n) = (TextBuilder::new(), count(argv));
        joined.grow(n.saturating_mul(USUAL));
        for i in 0..n {
            joined.put(if i == 0 { &[] } else { std::slice::from_ref(&delimiter) });
            joined.put(alloc::c_bytes(*argv.add(i)).unwrap_or_default());
        }
        joined.finish().unwrap_or(ptr::null_mut())
    }

    /// A copy.
    fn PMIx_Argv_copy(argv: *mut *mut c_char) -> *mut *mut c_char {
        owned::dup_argv(argv).unwrap_or(ptr::null_mut())
    }

    /// Returns the number of strings.
    fn PMIx_Argv_count(argv: *mut *mut c_char) -> c_int {
        c_int::try_from(count(argv)).unwrap_or(c_int::MAX)
    }

    /// Sets a variable in an environment of the caller, or in the process's own where that is what `env` holds. Without
    /// a value it is unset in the latter, and empty in the former.
    fn PMIx_Setenv(name: *const c_char, value: *const c_char, overwrite: u8, env: *mut *mut *mut c_char) -> Outcome {
        let Some(name_bytes) = alloc::c_bytes(name).filter(|n| !n.is_empty() && !n.contains(&b'=')) else {
            return Err(Status::ERR_BAD_PARAM);
        };
        if env.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let overwrite = overwrite & 1 != 0;
        if *env == process_environment() {
            let done = match value.is_null() {
                true => libc::unsetenv(name),
                false => libc::setenv(name, value, c_int::from(overwrite)),
            };
            return if done == 0 { Ok(()) } else { Err(Status::ERR_OUT_OF_RESOURCE) };
        }
        let setting = [name_bytes, alloc::c_bytes(value).unwrap_or_default()].join(&b'=');
        let prefix = &setting[..=name_bytes.len()];
        for i in 0..count(*env) {
            let slot = (*env).add(i);
            if alloc::c_bytes(*slot).is_some_and(|old| old.starts_with(prefix)) {
                if !overwrite {
                    return Err(Status::ERR_EXISTS);
                }
                let new = alloc::text(&setting)?;
                alloc::release(*slot);
                *slot = new;
                return Ok(());
            }
        }
        let setting = std::ffi::CString::new(setting).map_err(|_| Status::ERR_BAD_PARAM)?;
        insert(env, usize::MAX, setting.as_ptr())
    }
}

/// The process's own environment.
pub fn process_environment() -> *mut *mut c_char {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: libc's variable; only its address is compared.
    unsafe { environ }
}
