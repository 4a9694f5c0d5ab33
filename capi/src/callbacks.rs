//! Functions of the program that the library calls, and what it hands them.
use std::ptr;
use std::sync::Arc;

use instanton::Pending;
use instanton::client::{Chain, Client, Credential, Error, Handler, Infos, Notice, Published};
use instanton::data::{Info, Nspace, Status, Value};
use libc::{c_char, c_int, c_void};

use crate::alloc;
use crate::arena::Arena;
use crate::boundary::Outcome;
use crate::convert::{made, many};
use crate::handles;
use crate::owned::Owned;
use crate::session::told;
use crate::types::*;

/// `pmix_op_cbfunc_t`.
pub type OpFn = unsafe extern "C" fn(c_int, *mut c_void);
/// `pmix_value_cbfunc_t`.
pub type ValueFn = unsafe extern "C" fn(c_int, *mut pmix_value_t, *mut c_void);
/// `pmix_release_cbfunc_t`.
pub type ReleaseFn = unsafe extern "C" fn(*mut c_void);
/// `pmix_info_cbfunc_t`.
pub type InfoFn = unsafe extern "C" fn(c_int, *mut pmix_info_t, usize, *mut c_void, Option<ReleaseFn>, *mut c_void);
/// `pmix_lookup_cbfunc_t`.
pub type LookupFn = unsafe extern "C" fn(c_int, *mut pmix_pdata_t, usize, *mut c_void);
/// `pmix_spawn_cbfunc_t`.
pub type SpawnFn = unsafe extern "C" fn(c_int, *mut c_char, *mut c_void);
/// `pmix_credential_cbfunc_t`.
pub type CredentialFn = unsafe extern "C" fn(c_int, *mut pmix_byte_object_t, *mut pmix_info_t, usize, *mut c_void);
/// `pmix_validation_cbfunc_t`.
pub type ValidationFn = unsafe extern "C" fn(c_int, *mut pmix_info_t, usize, *mut c_void);
/// `pmix_hdlr_reg_cbfunc_t`.
pub type RegistrationFn = unsafe extern "C" fn(c_int, usize, *mut c_void);
/// `pmix_event_notification_cbfunc_fn_t`.
pub type EventDoneFn = unsafe extern "C" fn(c_int, *mut pmix_info_t, usize, Option<OpFn>, *mut c_void, *mut c_void);
/// `pmix_notification_fn_t`.
pub type NotificationFn = unsafe extern "C" fn(
    usize,
    c_int,
    *const pmix_proc_t,
    *mut pmix_info_t,
    usize,
    *mut pmix_info_t,
    usize,
    Option<EventDoneFn>,
    *mut c_void,
);

/// Pointer that a program wants back with its callback. It is an address to the program and a number to us.
#[derive(Clone, Copy)]
pub struct CbData(*mut c_void);

// SAFETY: nobody here looks at what it points to; that callbacks run on another thread is in the Standard.
unsafe impl Send for CbData {}
// SAFETY: as above.
unsafe impl Sync for CbData {}

impl CbData {
    /// Wraps it.
    pub fn new(data: *mut c_void) -> Self {
        Self(data)
    }

    /// The address itself.
    pub fn get(self) -> *mut c_void {
        self.0
    }
}

/// The number that a callback is given.
pub fn code<T>(result: &Result<T, Error>) -> c_int {
    result.as_ref().map_or_else(|error| error.status().0, |_| Status::SUCCESS.0)
}

/// A completion that calls `cbfunc`.
pub fn op(cbfunc: Option<OpFn>, cbdata: *mut c_void) -> impl FnOnce(Result<(), Error>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        if let Some(cbfunc) = cbfunc {
            // SAFETY: the program's own function and data.
            unsafe { cbfunc(code(&result), data.get()) };
        }
    }
}

/// Ends a call: through `cbfunc`, or by waiting where there is none.
pub fn finish(pending: Pending<(), Error>, cbfunc: Option<OpFn>, cbdata: *mut c_void) -> Outcome {
    told(match cbfunc {
        Some(_) => pending.then(op(cbfunc, cbdata)),
        None => pending.wait(),
    })
}

/// Ends a call whose answer nobody needs to know, as [`finish`] does; where nothing can be waited for, as in an event
/// handler, the call goes out and nobody is told how it went.
pub fn finish_anywhere(
    client: &Client,
    pending: Pending<(), Error>,
    cbfunc: Option<OpFn>,
    cbdata: *mut c_void,
) -> Outcome {
    match cbfunc {
        None if client.is_own_thread() => told(pending.then(drop)),
        _ => finish(pending, cbfunc, cbdata),
    }
}

/// A completion that shows the value to `cbfunc` and frees it afterwards.
pub fn value(cbfunc: ValueFn, cbdata: *mut c_void) -> impl FnOnce(Result<Value, Error>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        let made = result.map_err(|error| error.status()).and_then(|value| made::<pmix_value_t, _>(&value));
        // SAFETY: the program's own function and data; the value is ours until the function returns.
        unsafe {
            match made {
                Ok(mut value) => {
                    cbfunc(Status::SUCCESS.0, &raw mut value, data.get());
                    value.clear();
                }
                Err(status) => cbfunc(status.0, ptr::null_mut(), data.get()),
            }
        }
    }
}

/// Calls `cbfunc` with attributes, which live until it calls the release function that it is given.
pub fn call_info(cbfunc: InfoFn, cbdata: CbData, status: Status, infos: &[Info]) {
    unsafe extern "C" fn release(arena: *mut c_void) {
        drop(handles::take::<Arena>(arena));
    }
    let mut arena = Arena::default();
    let (status, (array, n)) = match arena.array(infos) {
        Ok(array) => (status, array),
        Err(failed) => (failed, (ptr::null_mut(), 0)),
    };
    // SAFETY: the program's own function and data.
    unsafe { cbfunc(status.0, array, n, cbdata.get(), Some(release), handles::keep(arena)) };
}

/// A completion that calls `cbfunc` with attributes and how it went.
pub fn info(cbfunc: Option<InfoFn>, cbdata: *mut c_void) -> impl FnOnce(Result<Infos, Error>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        let Some(cbfunc) = cbfunc else { return };
        let (status, infos) = result.unwrap_or_else(|error| (error.status(), Vec::new()));
        call_info(cbfunc, data, status, &infos);
    }
}

/// A completion that shows published data to `cbfunc` and frees it afterwards.
pub fn lookup(cbfunc: Option<LookupFn>, cbdata: *mut c_void) -> impl FnOnce(Result<Published, Error>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        let Some(cbfunc) = cbfunc else { return };
        let (status, found) = result.unwrap_or_else(|error| (error.status(), Vec::new()));
        let mut shown = Arena::default();
        let (status, (array, n)) = match shown.array::<pmix_pdata_t, _>(&found) {
            Ok(array) => (status, array),
            Err(failed) => (failed, (ptr::null_mut(), 0)),
        };
        // SAFETY: the program's own function and data; what it is shown is ours until it returns.
        unsafe { cbfunc(status.0, array, n, data.get()) };
    }
}

/// A completion that shows a namespace to `cbfunc`, an empty one where there is none.
pub fn spawn(cbfunc: Option<SpawnFn>, cbdata: *mut c_void) -> impl FnOnce(Result<Nspace, Error>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        let Some(cbfunc) = cbfunc else { return };
        let code = code(&result);
        let mut name: pmix_nspace_t = [0; NSPACE_SIZE];
        alloc::set_name(&mut name, result.as_ref().map_or(b"", |nspace| nspace.as_bytes()));
        // SAFETY: the program's own function and data; the name is ours until it returns.
        unsafe { cbfunc(code, name.as_mut_ptr(), data.get()) };
    }
}

/// A completion that shows a credential to `cbfunc`, an empty one where there is none, and frees it afterwards.
pub fn credential(
    cbfunc: Option<CredentialFn>,
    cbdata: *mut c_void,
) -> impl FnOnce(Result<Credential, Error>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        let Some(cbfunc) = cbfunc else { return };
        let mut shown = Arena::default();
        let made = result.map_err(|error| error.status()).and_then(|(credential, infos)| {
            Ok((shown.one::<pmix_byte_object_t, _>(&credential)?, shown.array::<pmix_info_t, _>(&infos)?))
        });
        // Programs look into it whatever the status says.
        let mut none = pmix_byte_object_t { bytes: ptr::null_mut(), size: 0 };
        let (status, (credential, (infos, n))) = match made {
            Ok(made) => (Status::SUCCESS, made),
            Err(status) => (status, (&raw mut none, (ptr::null_mut(), 0))),
        };
        // SAFETY: the program's own function and data; what it is shown is ours until it returns.
        unsafe { cbfunc(status.0, credential, infos, n, data.get()) };
    }
}

/// A completion that shows the judgement of a credential to `cbfunc` and frees it afterwards.
pub fn validation(
    cbfunc: Option<ValidationFn>,
    cbdata: *mut c_void,
) -> impl FnOnce(Result<Infos, Error>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        let Some(cbfunc) = cbfunc else { return };
        let (status, infos) = result.unwrap_or_else(|error| (error.status(), Vec::new()));
        let mut shown = Arena::default();
        let (status, (array, n)) = match shown.array::<pmix_info_t, _>(&infos) {
            Ok(array) => (status, array),
            Err(failed) => (failed, (ptr::null_mut(), 0)),
        };
        // SAFETY: the program's own function and data; what it is shown is ours until it returns.
        unsafe { cbfunc(status.0, array, n, data.get()) };
    }
}

/// An event that a handler of the program has and has not completed: the way on, and what it was shown.
struct Handling {
    chain: Chain,
    shown: Arena,
}

/// Function that a handler of the program calls when it is done.
unsafe extern "C" fn event_done(
    status: c_int,
    results: *mut pmix_info_t,
    nresults: usize,
    cbfunc: Option<OpFn>,
    cbdata: *mut c_void,
    handle: *mut c_void,
) {
    let Some(Handling { chain, shown }) = handles::take(handle) else { return };
    // SAFETY: the handler's results, the contract with C.
    let results = unsafe { many(results, nresults) };
    if let Some(cbfunc) = cbfunc {
        let told = results.as_ref().map_or_else(|status| status.0, |_| Status::SUCCESS.0);
        // SAFETY: the program's own function and data.
        unsafe { cbfunc(told, cbdata) };
    }
    drop(shown);
    chain.complete(Status(status), results.unwrap_or_default());
}

/// A handler that shows events to a function of the program.
pub fn event(function: NotificationFn) -> Handler {
    Arc::new(move |notice: Notice, chain: Chain| {
        let mut shown = Arena::default();
        let made = shown.one::<pmix_proc_t, _>(&notice.source).and_then(|source| {
            Ok((source, shown.array::<pmix_info_t, _>(&notice.info)?, shown.array::<pmix_info_t, _>(&notice.results)?))
        });
        let Ok((source, (info, ninfo), (results, nresults))) = made else {
            return chain.complete(Status::EVENT_NO_ACTION_TAKEN, Vec::new());
        };
        let handle = handles::keep(Handling { chain, shown });
        let (id, status) = (notice.handler, notice.status.0);
        // SAFETY: the program's own function; what it is shown lives until it completes.
        unsafe { function(id, status, source, info, ninfo, results, nresults, Some(event_done), handle) };
    })
}
