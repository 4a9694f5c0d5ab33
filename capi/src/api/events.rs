//! Events: handlers for them, and raising them.
use instanton::client::Error;
use instanton::data::{DataRange, Info, Proc, Status};
use libc::{c_int, c_void};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, CbData, NotificationFn, OpFn, RegistrationFn};
use crate::convert::{many, one};
use crate::running;
use crate::session::{self, told};
use crate::types::*;

export! {
    /// Registers a handler for events with these codes, or for every event where there are none.
    ///
    /// With `cbfunc` the handler's number comes through it. Without, the call waits and its answer is the number, which
    /// is never negative, or an error. In a handler or another callback, where nothing can be waited for, the answer is
    /// then PMIX_SUCCESS, and nobody is told the number.
    fn PMIx_Register_event_handler(
        codes: *mut c_int, ncodes: usize, info: *mut pmix_info_t, ninfo: usize, handler: Option<NotificationFn>,
        cbfunc: Option<RegistrationFn>, cbdata: *mut c_void,
    ) -> c_int {
        match register(codes, ncodes, info, ninfo, handler, cbfunc, cbdata) {
            Ok(answer) => answer,
            Err(status) => session::or_uninitialized(status).0,
        }
    }

    /// Removes a handler; without `cbfunc` the call waits until it is gone. In a handler or another callback, where
    /// nothing can be waited for, it does not: nobody is told then how it went.
    fn PMIx_Deregister_event_handler(number: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void) -> Outcome {
        let client = session::client()?;
        callbacks::finish_anywhere(&client, client.deregister_event_handler(number), cbfunc, cbdata)
    }

    /// Raises an event; without `cbfunc` the call waits until it is on its way. In a handler or another callback, where
    /// nothing can be waited for, it does not: nobody is told then how it went. A server raises it for its clients and
    /// for its own program.
    fn PMIx_Notify_event(
        status: c_int, source: *const pmix_proc_t, range: u8, info: *const pmix_info_t, ninfo: usize,
        cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let client = session::client()?;
        let source = if source.is_null() { client.proc().clone() } else { one::<_, Proc>(source)? };
        let (status, range, info) = (Status(status), DataRange(range), many::<_, Info>(info, ninfo)?);
        // A server that a tool is as well hears of the tool's own events in its name, as the server does that it is
        // attached to. An event that comes from elsewhere is for the former alone.
        let by_tool = source == *client.proc() && client.is_connected() && running::is_of_tool();
        let server = running::server().ok().filter(|_| range != DataRange::PROC_LOCAL && !by_tool);
        if let Some(server) = server {
            let raised = server.notify_event(status, &source, range, &info);
            if cbfunc.is_none() && !server.is_own_thread() {
                return raised.wait();
            }
            let done = callbacks::op(cbfunc, cbdata);
            return raised.then(|told| done(told.map_err(Error::from)));
        }
        callbacks::finish_anywhere(&client, client.notify_event(status, &source, range, &info), cbfunc, cbdata)
    }
}

unsafe fn register(
    codes: *mut c_int,
    ncodes: usize,
    info: *mut pmix_info_t,
    ninfo: usize,
    handler: Option<NotificationFn>,
    cbfunc: Option<RegistrationFn>,
    cbdata: *mut c_void,
) -> Result<c_int, Status> {
    let handler = callbacks::event(handler.ok_or(Status::ERR_BAD_PARAM)?);
    // SAFETY: NULL or arrays, the contract with C. Some programs give a number beside a NULL for none.
    let (codes, info) = unsafe {
        let codes: &[c_int] = alloc::slice(codes, if codes.is_null() { 0 } else { ncodes })?;
        (
            codes.iter().map(|code| Status(*code)).collect::<Vec<_>>(),
            many::<_, Info>(info, if info.is_null() { 0 } else { ninfo })?,
        )
    };
    let client = session::client()?;
    let registered = client.register_event_handler(&codes, &info, handler);
    let Some(cbfunc) = cbfunc else {
        if client.is_own_thread() {
            return told(registered.then(drop)).map(|()| Status::SUCCESS.0);
        }
        let number = told(registered.wait())?;
        return c_int::try_from(number).map_err(|_| Status::ERR_OUT_OF_RESOURCE);
    };
    let data = CbData::new(cbdata);
    told(registered.then(move |number| {
        let code = callbacks::code(&number);
        // SAFETY: the program's own function and data.
        unsafe { cbfunc(code, number.unwrap_or(usize::MAX), data.get()) };
    }))?;
    Ok(Status::SUCCESS.0)
}
