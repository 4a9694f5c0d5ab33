//! What a host does for processes: answering queries, logging, changing allocations, watching, sessions and resources.
use instanton::client::{Client, Error, Infos, abi_versions};
use instanton::data::{Info, Query, ResourceUnit, Status, Text};
use libc::{c_char, c_int, c_void};

use crate::boundary::{Outcome, export};
use crate::callbacks::{self, InfoFn, OpFn};
use crate::convert::{Mirror, made_array, many, one};
use crate::session::{self, told};
use crate::types::*;

type Done = Box<dyn FnOnce(Result<Infos, Error>) + Send>;

/// Waits for attributes and gives them to the caller, who frees them; they may come with a failure.
///
/// # Safety
/// `results` and `nresults` are NULL or writable.
pub unsafe fn wait_infos(
    call: &'static str,
    results: *mut *mut pmix_info_t,
    nresults: *mut usize,
    start: impl FnOnce(&Client, Done) -> Result<(), Error>,
) -> Outcome {
    // SAFETY: as promised by the caller.
    let mut places = unsafe { results.as_mut().zip(nresults.as_mut()) };
    if let Some((results, n)) = places.as_mut() {
        (**results, **n) = (std::ptr::null_mut(), 0);
    }
    let client = session::client()?;
    let (status, infos) = told(client.wait(call, |done| start(&client, done)))?;
    if let Some((results, n)) = places {
        (*results, *n) = (made_array(&infos)?, infos.len());
    }
    status.ok()
}

export! {
    after_init;

    /// Asks about jobs, processes, the system; the caller frees the answers. The version of this interface may be asked for before
    /// Init.
    fn PMIx_Query_info(
        queries: *mut pmix_query_t, nqueries: usize, results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let queries: Vec<Query> = many(queries, nqueries)?;
        if let (Some(versions), Some(results), Some(nresults)) =
            (abi_versions(&queries), results.as_mut(), nresults.as_mut())
        {
            (*results, *nresults) = (made_array(&versions)?, versions.len());
            return Ok(());
        }
        wait_infos("PMIx_Query_info", results, nresults, |client, done| client.query_nb(&queries, done))
    }

    /// The same without waiting.
    fn PMIx_Query_info_nb(
        queries: *mut pmix_query_t, nqueries: usize, cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let queries: Vec<Query> = many(queries, nqueries)?;
        told(session::client()?.query_nb(&queries, callbacks::info(cbfunc, cbdata)))
    }

    /// Has the host log data, and waits until it has.
    fn PMIx_Log(
        data: *const pmix_info_t, ndata: usize, directives: *const pmix_info_t, ndirs: usize,
    ) -> Outcome {
        let (data, directives) = (many::<_, Info>(data, ndata)?, many::<_, Info>(directives, ndirs)?);
        told(session::client()?.log(&data, &directives))
    }

    /// The same without waiting.
    fn PMIx_Log_nb(
        data: *const pmix_info_t, ndata: usize, directives: *const pmix_info_t, ndirs: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let (data, directives) = (many::<_, Info>(data, ndata)?, many::<_, Info>(directives, ndirs)?);
        told(session::client()?.log_nb(&data, &directives, callbacks::op(cbfunc, cbdata)))
    }

    /// Asks for resources, or gives some back, and waits for the answer.
    fn PMIx_Allocation_request(
        directive: u8, info: *mut pmix_info_t, ninfo: usize, results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        wait_infos("PMIx_Allocation_request", results, nresults, |client, done| {
            client.allocation_request_nb(directive, &info, done)
        })
    }

    /// The same without waiting.
    fn PMIx_Allocation_request_nb(
        directive: u8, info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.allocation_request_nb(directive, &info, callbacks::info(cbfunc, cbdata)))
    }

    /// Has this process watched, and waits until it is.
    fn PMIx_Process_monitor(
        monitor: *const pmix_info_t, error: c_int, directives: *const pmix_info_t, ndirs: usize,
        results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let (monitor, directives) = (one::<_, Info>(monitor)?, many::<_, Info>(directives, ndirs)?);
        wait_infos("PMIx_Process_monitor", results, nresults, |client, done| {
            client.process_monitor_nb(&monitor, Status(error), &directives, done)
        })
    }

    /// The same without waiting.
    fn PMIx_Process_monitor_nb(
        monitor: *const pmix_info_t, error: c_int, directives: *const pmix_info_t, ndirs: usize,
        cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (monitor, directives) = (one::<_, Info>(monitor)?, many::<_, Info>(directives, ndirs)?);
        let done = callbacks::info(cbfunc, cbdata);
        told(session::client()?.process_monitor_nb(&monitor, Status(error), &directives, done))
    }

    /// Controls a session; without `cbfunc` the call waits.
    fn PMIx_Session_control(
        session: u32, directives: *const pmix_info_t, ndirs: usize, cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let directives: Vec<Info> = many(directives, ndirs)?;
        let client = session::client()?;
        match cbfunc {
            Some(_) => told(client.session_control_nb(session, &directives, callbacks::info(cbfunc, cbdata))),
            None => {
                let waited = client
                    .wait("PMIx_Session_control", |done| client.session_control_nb(session, &directives, done));
                told(waited)?.0.ok()
            }
        }
    }

    /// Defines, changes or removes a block of resources, and waits until that is done.
    fn PMIx_Resource_block(
        directive: u8, block: *mut c_char, units: *const pmix_resource_unit_t, nunits: usize,
        info: *const pmix_info_t, ninfo: usize,
    ) -> Outcome {
        let (block, units) = (name(block)?, many::<_, ResourceUnit>(units, nunits)?);
        let info: Vec<Info> = many(info, ninfo)?;
        let client = session::client()?;
        told(client.wait("PMIx_Resource_block", |done| {
            client.resource_block_nb(directive, &block, &units, &info, done)
        }))
    }

    /// The same without waiting.
    fn PMIx_Resource_block_nb(
        directive: u8, block: *mut c_char, units: *const pmix_resource_unit_t, nunits: usize,
        info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (block, units) = (name(block)?, many::<_, ResourceUnit>(units, nunits)?);
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.resource_block_nb(directive, &block, &units, &info, callbacks::op(cbfunc, cbdata)))
    }
}

unsafe fn name(text: *mut c_char) -> Result<Text, Status> {
    // SAFETY: NULL or a C string, the contract with C.
    unsafe { Mirror::<Option<Text>>::to_rust(&text, 0) }?.ok_or(Status::ERR_BAD_PARAM)
}
