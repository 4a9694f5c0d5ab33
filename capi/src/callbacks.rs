//! Functions of the program that the library calls, and what it hands them.
use std::collections::HashMap;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use instanton::client::{Chain, Error, Handler, Notice};
use instanton::data::{Info, Status, Value};
use libc::{c_int, c_void};

use crate::convert::{made, made_array, many};
use crate::owned::{Owned, release_array};
use crate::types::*;

/// `pmix_op_cbfunc_t`.
pub type OpFn = unsafe extern "C" fn(c_int, *mut c_void);
/// `pmix_value_cbfunc_t`.
pub type ValueFn = unsafe extern "C" fn(c_int, *mut pmix_value_t, *mut c_void);
/// `pmix_release_cbfunc_t`.
pub type ReleaseFn = unsafe extern "C" fn(*mut c_void);
/// `pmix_info_cbfunc_t`.
pub type InfoFn = unsafe extern "C" fn(c_int, *mut pmix_info_t, usize, *mut c_void, Option<ReleaseFn>, *mut c_void);
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

/// What a program wants back with its callback. It is an address to the program and a number to us.
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

/// Attributes in C memory that the receiver gives back through a function.
struct Lent {
    infos: *mut pmix_info_t,
    n: usize,
}

/// Calls `cbfunc` with attributes, which live until it calls the release function that it is given.
pub fn call_info(cbfunc: InfoFn, cbdata: CbData, status: Status, infos: &[Info]) {
    unsafe extern "C" fn release(lent: *mut c_void) {
        // SAFETY: made below, and given back once, the contract with C.
        unsafe {
            let lent = Box::from_raw(lent.cast::<Lent>());
            release_array(lent.infos, lent.n);
        }
    }
    let (status, lent) = match made_array::<pmix_info_t, _>(infos) {
        Ok(array) => (status, Lent { infos: array, n: infos.len() }),
        Err(failed) => (failed, Lent { infos: ptr::null_mut(), n: 0 }),
    };
    let (array, n) = (lent.infos, lent.n);
    let lent = Box::into_raw(Box::new(lent));
    // SAFETY: the program's own function and data.
    unsafe { cbfunc(status.0, array, n, cbdata.get(), Some(release), lent.cast()) };
}

/// A completion that calls `cbfunc` with what came back.
pub fn info(cbfunc: Option<InfoFn>, cbdata: *mut c_void) -> impl FnOnce(Result<Vec<Info>, Error>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        let Some(cbfunc) = cbfunc else { return };
        match result {
            Ok(infos) => call_info(cbfunc, data, Status::SUCCESS, &infos),
            Err(error) => call_info(cbfunc, data, error.status(), &[]),
        }
    }
}

/// An event that a handler of the program has and has not completed: what it was shown, and the way on.
struct Pending {
    chain: Chain,
    shown: [Lent; 2],
}

// SAFETY: the arrays are libc memory that only whoever takes it out of the table touches.
unsafe impl Send for Pending {}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: made by `made_array`, and nobody is shown it any more.
        unsafe { release_array(self.infos, self.n) };
    }
}

/// By number, and not by address: a handler that completes twice is told nothing and does no harm.
static PENDING: Mutex<(usize, Option<HashMap<usize, Pending>>)> = Mutex::new((0, None));

fn pending<T>(f: impl FnOnce(&mut usize, &mut HashMap<usize, Pending>) -> T) -> T {
    let mut table = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let (next, map) = &mut *table;
    f(next, map.get_or_insert_default())
}

/// What a handler of the program calls when it is done.
unsafe extern "C" fn event_done(
    status: c_int,
    results: *mut pmix_info_t,
    nresults: usize,
    cbfunc: Option<OpFn>,
    cbdata: *mut c_void,
    number: *mut c_void,
) {
    let Some(pending) = pending(|_, map| map.remove(&number.addr())) else { return };
    // SAFETY: the handler's results, the contract with C.
    let results = unsafe { many(results, nresults) };
    if let Some(cbfunc) = cbfunc {
        let told = results.as_ref().map_or_else(|status| status.0, |_| Status::SUCCESS.0);
        // SAFETY: the program's own function and data.
        unsafe { cbfunc(told, cbdata) };
    }
    drop(pending.shown);
    pending.chain.complete(Status(status), results.unwrap_or_default());
}

/// A handler that shows events to a function of the program.
pub fn event(function: NotificationFn) -> Handler {
    std::sync::Arc::new(move |notice: Notice, chain: Chain| {
        let arrays = made_array(&notice.info)
            .map(|infos| Lent { infos, n: notice.info.len() })
            .and_then(|infos| Ok((infos, Lent { infos: made_array(&notice.results)?, n: notice.results.len() })));
        let (Ok((infos, results)), Ok(source)) = (arrays, made::<pmix_proc_t, _>(&notice.source)) else {
            return chain.complete(Status::EVENT_NO_ACTION_TAKEN, Vec::new());
        };
        let shown = [(infos.infos, infos.n), (results.infos, results.n)];
        let number = pending(|next, map| {
            *next += 1;
            map.insert(*next, Pending { chain, shown: [infos, results] });
            *next
        });
        // SAFETY: the program's own function; the arrays live until it completes.
        unsafe {
            function(
                notice.handler,
                notice.status.0,
                &raw const source,
                shown[0].0,
                shown[0].1,
                shown[1].0,
                shown[1].1,
                Some(event_done),
                ptr::without_provenance_mut(number),
            );
        }
    })
}
