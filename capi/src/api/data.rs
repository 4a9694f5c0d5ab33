//! Putting, committing and getting data.
//!
//! A Get of something at hand takes the short way: no lock, no system call, one allocation for the value that C gets and
//! one more where that holds a text or bytes. What is not at hand is asked for on the long way, which may wait.

use std::mem::ManuallyDrop;

use instanton::client::{Directives, Error, Found};
use instanton::data::{DataType, Info, Key, Proc, Rank, Status, Value};
use libc::{c_char, c_void};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, ValueFn};
use crate::convert::{self, Mirror, many, one};
use crate::kept;
use crate::owned::{self, Kind, Owned};
use crate::session::{self, told};
use crate::types::*;

/// The key of a Put.
unsafe fn key_of(key: *const c_char) -> Result<Key, Status> {
    // SAFETY: NULL, a C string or a fixed array, the contract with C.
    Key::new(unsafe { alloc::name(key, KEY_SIZE) }?).map_err(|_| Status::ERR_BAD_PARAM)
}

/// What nearly every Get has.
static NO_DIRECTIVES: Directives = Directives::NONE;

/// Reads the attributes of a Get where they lie.
unsafe fn directives(info: *const pmix_info_t, ninfo: usize) -> Result<Directives, Status> {
    let mut directives = Directives::NONE;
    // SAFETY: NULL or an array, the contract with C.
    for info in unsafe { alloc::slice(info, ninfo) }? {
        // SAFETY: as above.
        let (key, value): (_, Value) = unsafe { (alloc::name(info.key.as_ptr(), KEY_SIZE)?, info.value.to_rust(0)?) };
        directives.take(key, info.flags, &value)?;
    }
    Ok(directives)
}

/// Whose key is asked for. Without a process, the key is one that only one process of the own namespace has.
unsafe fn target<'a>(proc: *const pmix_proc_t) -> Result<(&'a [u8], Rank), Status> {
    // SAFETY: NULL or a process, the contract with C.
    match unsafe { proc.as_ref() } {
        None => Ok((&[], Rank::UNDEF)),
        // SAFETY: a fixed array, the contract with C.
        Some(proc) => Ok((unsafe { alloc::name(proc.nspace.as_ptr(), NSPACE_SIZE) }?, Rank(proc.rank))),
    }
}

/// A value in memory of its own, which is freed with all it has unless it is given to C.
struct Fresh(*mut pmix_value_t);

impl Fresh {
    #[inline]
    fn new(mut value: pmix_value_t) -> Result<Self, Status> {
        match alloc::boxed(value) {
            Ok(place) => Ok(Self(place)),
            Err(status) => {
                // SAFETY: nobody else has it.
                unsafe { value.clear() };
                Err(status)
            }
        }
    }

    /// What is hard to copy from where it lies, by way of a value of Rust's.
    fn convert(from: &Value) -> Result<Self, Status> {
        let mut new = pmix_value_t::EMPTY;
        if let Err(status) = new.fill(from) {
            // SAFETY: nobody else has it.
            unsafe { new.clear() };
            return Err(status);
        }
        Self::new(new)
    }

    /// Gives all of it to C.
    #[inline]
    fn give(self) -> *mut pmix_value_t {
        ManuallyDrop::new(self).0
    }

    /// Gives to C what the value has, in place of one that has nothing.
    ///
    /// # Safety
    /// There is such a place.
    unsafe fn give_to(self, place: *mut pmix_value_t) {
        let from = self.give();
        // SAFETY: `place` as promised by the caller; `from` is moved, and its memory used no more.
        unsafe {
            place.write(from.read());
            alloc::release(from);
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: one value, made in `new`, that nobody else has.
        unsafe { owned::release_array(self.0, 1) };
    }
}

/// Copies a value from where it lies. In shared memory it may be replaced at the same time: what is copied then may be
/// anything, so nothing here is believed that C could stumble over, and the copy is made anew.
#[inline]
fn copy(found: Found<'_>) -> Result<Fresh, Status> {
    let raw = match found {
        Found::Own(own) => return Fresh::convert(own),
        Found::Shared(raw) => raw,
        other => return Fresh::convert(&told(other.to_value().map_err(Error::from))?),
    };
    let ty = raw.data_type();
    let data = match (ty, raw.scalar()) {
        // The members of the union begin at its first byte, as the number does in its bits.
        (_, Some(bits)) if Kind::of(ty).is_some_and(|kind| kind.is_number()) => {
            pmix_data_t { words: [bits.to_le(), 0, 0] }
        }
        (DataType::STRING, None) if !raw.is_null() && !raw.is_archive() && raw.len() > 0 => {
            let string = alloc::bytes_with(raw.len(), |place| raw.copy_to(place))?;
            // SAFETY: the last of at least one byte of the new text.
            unsafe { string.add(raw.len() - 1).write(0) };
            pmix_data_t { string }
        }
        (DataType::BYTE_OBJECT, None) if !raw.is_archive() && raw.len() > 0 => {
            let bytes = alloc::bytes_with(raw.len(), |place| raw.copy_to(place))?;
            pmix_data_t { bo: pmix_byte_object_t { bytes, size: raw.len() } }
        }
        _ => return Fresh::convert(&told(raw.to_value().map_err(Error::from))?),
    };
    Fresh::new(pmix_value_t { ty: ty.0, data })
}

/// What is at hand is read under the epoch; what must be waited for is not, or nothing could be freed meanwhile.
#[inline]
fn answer(nspace: &[u8], rank: Rank, key: &[u8], directives: &Directives) -> Result<Fresh, Status> {
    let at_hand = session::with(|epoch, client| client.peek(epoch, nspace, rank, key, directives, copy))?;
    told(match at_hand {
        Some(answer) => answer,
        None => session::client()?.get_with(nspace, rank, key, directives, copy),
    })?
}

export! {
    /// Keeps a copy of a value for the next Commit.
    fn PMIx_Put(scope: u8, key: *const c_char, value: *mut pmix_value_t) -> Outcome {
        let (key, value) = (key_of(key)?, one(value)?);
        told(session::client()?.put(scope, key, value))
    }

    /// Gives the server what was put.
    fn PMIx_Commit() -> Outcome {
        told(session::client()?.commit())
    }

    /// Keeps a copy of a value for this process alone.
    fn PMIx_Store_internal(proc: *const pmix_proc_t, key: *const c_char, value: *mut pmix_value_t) -> Outcome {
        let (proc, key, value) = (one::<_, Proc>(proc)?, key_of(key)?, one(value)?);
        told(session::client()?.store_internal(&proc, key, value))
    }

    /// Looks a key up; without a key, everything known of a process. The value is the caller's to free, unless he asked to
    /// have his own place filled (`PMIX_GET_STATIC_VALUES`) or only to look at it (`PMIX_GET_POINTER_VALUES`).
    fn PMIx_Get(
        proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize,
        value: *mut *mut pmix_value_t,
    ) -> Outcome {
        let out = value.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        if key.is_null() {
            let (proc, info) = (one::<_, Proc>(proc)?, many::<_, Info>(info, ninfo)?);
            let all = told(session::client()?.get(&proc, None, &info))?;
            *out = alloc::boxed(convert::made(&all)?)?;
            return Ok(());
        }
        let (nspace, rank) = target(proc)?;
        let key = alloc::name(key, KEY_SIZE)?;
        if key.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let given;
        let directives = match ninfo {
            0 => &NO_DIRECTIVES,
            _ => {
                given = directives(info, ninfo)?;
                &given
            }
        };
        let found = answer(nspace, rank, key, directives)?;
        if directives.pointer_values {
            *out = kept::show(nspace, rank.0, key, one::<_, Value>(found.0)?)?;
            return Ok(());
        }
        if directives.static_values && !out.is_null() {
            found.give_to(*out);
            return Ok(());
        }
        *out = found.give();
        Ok(())
    }

    /// Looks a key up without waiting. The value is `cbfunc`'s until it returns.
    fn PMIx_Get_nb(
        proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize,
        cbfunc: Option<ValueFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let cbfunc = cbfunc.ok_or(Status::ERR_BAD_PARAM)?;
        let (nspace, rank) = target(proc)?;
        let proc = Proc::new(instanton::data::Nspace::new(nspace).map_err(|_| Status::ERR_BAD_PARAM)?, rank);
        let key = if key.is_null() { None } else { Some(alloc::name(key, KEY_SIZE)?) };
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.get_nb(&proc, key, &info, callbacks::value(cbfunc, cbdata)))
    }
}
