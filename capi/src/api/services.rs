//! Services of a host for processes: answering queries, logging, changing allocations, watching, sessions and resources.
use instanton::Pending;
use instanton::client::{Error, Infos};
use instanton::data::{Channels, Info, InfoList, Query, ResourceUnit, Status, Text, Value, keys};
use instanton::internal::client::{abi_versions, write_out};
use libc::{c_char, c_int, c_void};

use super::server::report;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, InfoFn, OpFn};
use crate::convert::{Mirror, made_array, many, one};
use crate::running::gateway;
use crate::session::{self, told};
use crate::types::*;

/// Place where a caller wants attributes, which are the caller's to free.
pub struct Results<'a>(Option<(&'a mut *mut pmix_info_t, &'a mut usize)>);

impl Results<'_> {
    /// Nothing so far: what fails leaves nothing behind to be freed.
    ///
    /// # Safety
    /// Both are NULL or writable until this is dropped.
    pub unsafe fn none(results: *mut *mut pmix_info_t, nresults: *mut usize) -> Self {
        // SAFETY: as promised by the caller.
        let mut places = unsafe { results.as_mut().zip(nresults.as_mut()) };
        if let Some((results, nresults)) = &mut places {
            (**results, **nresults) = (std::ptr::null_mut(), 0);
        }
        Results(places)
    }

    fn fill(self, infos: &[Info]) -> Outcome {
        if let Some((results, nresults)) = self.0 {
            (*results, *nresults) = (made_array(infos)?, infos.len());
        }
        Ok(())
    }
}

/// Waits for attributes and gives them to the caller; they may come with a failure.
pub fn wait_infos(pending: Pending<Infos, Error>, places: Results<'_>) -> Outcome {
    let (status, infos) = told(pending.wait())?;
    places.fill(&infos)?;
    status.ok()
}

/// Shows what a gateway's own program logs for the terminal, where nobody else could: as output of the process that has
/// logged it, and here where that is its own. The remainder is its host's; nothing where all of it was shown.
fn not_shown(data: Vec<Info>, directives: &[Info]) -> Option<Vec<Info>> {
    let gateway = gateway().filter(|_| !data.is_empty());
    let Some(server) = gateway else { return Some(data) };
    let source = match directives.find(keys::LOG_SOURCE).map(|info| &info.value) {
        Some(Value::Proc(source)) if *source != server.proc() => Some(source),
        _ => None,
    };
    let mut rest = Vec::new();
    for info in data {
        let is_output = info.key == keys::LOG_STDOUT;
        let channel = if is_output { Channels::STDOUT } else { Channels::STDERR };
        match info.value.as_text().filter(|_| is_output || info.key == keys::LOG_STDERR).map(Text::as_bytes) {
            None => rest.push(info),
            Some(bytes) => match source {
                Some(source) => _ = server.iof_deliver(source, channel, bytes, &[]).then(|_| ()),
                None => write_out(channel, bytes),
            },
        }
    }
    (!rest.is_empty()).then_some(rest)
}

export! {
    after_init;

    /// Asks about jobs, processes, the system; the caller frees the answers. The version of this interface may be asked
    /// for before Init.
    fn PMIx_Query_info(
        queries: *mut pmix_query_t, nqueries: usize, results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let places = Results::none(results, nresults);
        let queries: Vec<Query> = many(queries, nqueries)?;
        if let Some(versions) = abi_versions(&queries).filter(|_| places.0.is_some()) {
            return places.fill(&versions);
        }
        wait_infos(session::client()?.query(&queries), places)
    }

    /// Nonblocking form of `PMIx_Query_info`; without `cbfunc` nobody would hear the answer.
    fn PMIx_Query_info_nb(
        queries: *mut pmix_query_t, nqueries: usize, cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let queries: Vec<Query> = many(queries, nqueries)?;
        cbfunc.ok_or(Status::ERR_BAD_PARAM)?;
        told(session::client()?.query(&queries).then(callbacks::info(cbfunc, cbdata)))
    }

    /// Has the host log data, and waits until it has.
    fn PMIx_Log(
        data: *const pmix_info_t, ndata: usize, directives: *const pmix_info_t, ndirs: usize,
    ) -> Outcome {
        let (data, directives) = (many::<_, Info>(data, ndata)?, many::<_, Info>(directives, ndirs)?);
        let client = session::client()?;
        let Some(data) = not_shown(data, &directives) else { return Ok(()) };
        told(client.log(&data, &directives).wait())
    }

    /// Nonblocking form of `PMIx_Log`.
    fn PMIx_Log_nb(
        data: *const pmix_info_t, ndata: usize, directives: *const pmix_info_t, ndirs: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let (data, directives) = (many::<_, Info>(data, ndata)?, many::<_, Info>(directives, ndirs)?);
        let client = session::client()?;
        match not_shown(data, &directives) {
            Some(data) => told(client.log(&data, &directives).then(callbacks::op(cbfunc, cbdata))),
            None => {
                report(cbfunc, cbdata, Status::SUCCESS);
                Ok(())
            }
        }
    }

    /// Asks for resources, or gives some back, and waits for the answer.
    fn PMIx_Allocation_request(
        directive: u8, info: *mut pmix_info_t, ninfo: usize, results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let places = Results::none(results, nresults);
        let info: Vec<Info> = many(info, ninfo)?;
        wait_infos(session::client()?.allocation_request(directive, &info), places)
    }

    /// Nonblocking form of `PMIx_Allocation_request`.
    fn PMIx_Allocation_request_nb(
        directive: u8, info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.allocation_request(directive, &info).then(callbacks::info(cbfunc, cbdata)))
    }

    /// Has this process watched, and waits until it is.
    fn PMIx_Process_monitor(
        monitor: *const pmix_info_t, error: c_int, directives: *const pmix_info_t, ndirs: usize,
        results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let places = Results::none(results, nresults);
        let (monitor, directives) = (one::<_, Info>(monitor)?, many::<_, Info>(directives, ndirs)?);
        wait_infos(session::client()?.process_monitor(&monitor, Status(error), &directives), places)
    }

    /// Nonblocking form of `PMIx_Process_monitor`.
    fn PMIx_Process_monitor_nb(
        monitor: *const pmix_info_t, error: c_int, directives: *const pmix_info_t, ndirs: usize,
        cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (monitor, directives) = (one::<_, Info>(monitor)?, many::<_, Info>(directives, ndirs)?);
        let watched = session::client()?.process_monitor(&monitor, Status(error), &directives);
        told(watched.then(callbacks::info(cbfunc, cbdata)))
    }

    /// Controls a session; without `cbfunc` the call waits.
    fn PMIx_Session_control(
        session: u32, directives: *const pmix_info_t, ndirs: usize, cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let directives: Vec<Info> = many(directives, ndirs)?;
        let controlled = session::client()?.session_control(session, &directives);
        match cbfunc {
            Some(_) => told(controlled.then(callbacks::info(cbfunc, cbdata))),
            None => told(controlled.wait())?.0.ok(),
        }
    }

    /// Defines, changes or removes a block of resources, and waits until that is done.
    fn PMIx_Resource_block(
        directive: u8, block: *mut c_char, units: *const pmix_resource_unit_t, nunits: usize,
        info: *const pmix_info_t, ninfo: usize,
    ) -> Outcome {
        let (block, units) = (name(block)?, many::<_, ResourceUnit>(units, nunits)?);
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.resource_block(directive, &block, &units, &info).wait())
    }

    /// Nonblocking form of `PMIx_Resource_block`.
    fn PMIx_Resource_block_nb(
        directive: u8, block: *mut c_char, units: *const pmix_resource_unit_t, nunits: usize,
        info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (block, units) = (name(block)?, many::<_, ResourceUnit>(units, nunits)?);
        let info: Vec<Info> = many(info, ninfo)?;
        let defined = session::client()?.resource_block(directive, &block, &units, &info);
        told(defined.then(callbacks::op(cbfunc, cbdata)))
    }
}

export! {
    /// Sends a sign of life to the server that watches this process. Headers before release 6.1 have a macro that does
    /// so.
    fn PMIx_Heartbeat() {
        let Ok(client) = session::client() else { return };
        let beat = Info::new(keys::SEND_HEARTBEAT, true);
        if let Err(error) = client.process_monitor(&beat, Status::SUCCESS, &[]).then(|_| ()) {
            instanton::trace!("a heartbeat is not sent: {error}");
        }
    }
}

unsafe fn name(text: *mut c_char) -> Result<Text, Status> {
    // SAFETY: NULL or a C string, the contract with C.
    unsafe { Mirror::<Option<Text>>::to_rust(&text, 0) }?.ok_or(Status::ERR_BAD_PARAM)
}
