//! Input and output of processes that run elsewhere.
use std::sync::Arc;

use instanton::client::{Output, OutputHandler, to_own_output};
use instanton::data::{Channels, Info, InfoList, Nspace, Proc, Rank, Status, keys};
use libc::{c_int, c_void};

use super::server::{op, op_in_turn};
use crate::arena::Arena;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, CbData, OpFn, RegistrationFn};
use crate::convert::{many, one};
use crate::running::server;
use crate::session::{self, told};
use crate::types::*;

/// `pmix_iof_cbfunc_t`.
type OutputFn = unsafe extern "C" fn(usize, u16, *mut pmix_proc_t, *mut pmix_byte_object_t, *mut pmix_info_t, usize);

/// A handler that shows output to a function of the program.
fn shown_to(function: OutputFn) -> OutputHandler {
    Arc::new(move |output: Output| {
        let mut shown = Arena::default();
        let made = shown.one::<pmix_proc_t, _>(&output.source).and_then(|source| {
            Ok((
                source,
                shown.one::<pmix_byte_object_t, _>(&output.bytes)?,
                shown.array::<pmix_info_t, _>(&output.info)?,
            ))
        });
        if let Ok((source, bytes, (info, ninfo))) = made {
            // SAFETY: the program's own function; what it is shown is ours until it returns.
            unsafe { function(output.pull, output.channel.0, source, bytes, info, ninfo) };
        }
    })
}

export! {
    /// Asks for the output of processes, given to `output`; without that, it goes to the process's own. With `cbfunc`
    /// the call's number comes through it; without, the call waits and its answer is the number, or an error.
    fn PMIx_IOF_pull(
        procs: *const pmix_proc_t, nprocs: usize, directives: *const pmix_info_t, ndirs: usize, channels: u16,
        output: Option<OutputFn>, cbfunc: Option<RegistrationFn>, cbdata: *mut c_void,
    ) -> c_int {
        let channels = Channels(channels);
        let pull = || -> Result<c_int, Status> {
            let (procs, directives) = (many::<_, Proc>(procs, nprocs)?, many::<_, Info>(directives, ndirs)?);
            let handler = output.map_or_else(to_own_output, shown_to);
            let pulled = session::client()?.iof_pull(&procs, channels, &directives, handler);
            let Some(cbfunc) = cbfunc else {
                let number = told(pulled.wait())?;
                return c_int::try_from(number).map_err(|_| Status::ERR_OUT_OF_RESOURCE);
            };
            let data = CbData::new(cbdata);
            told(pulled.then(move |number| {
                let code = callbacks::code(&number);
                // SAFETY: the program's own function and data.
                unsafe { cbfunc(code, number.unwrap_or(usize::MAX), data.get()) };
            }))?;
            Ok(Status::SUCCESS.0)
        };
        pull().unwrap_or_else(|status| session::or_alone(status).0)
    }

    /// Ends what PMIx_IOF_pull began; without `cbfunc` the call waits.
    fn PMIx_IOF_deregister(
        number: usize, _directives: *const pmix_info_t, _ndirs: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let ended = session::client()?.iof_deregister(number);
        callbacks::finish(ended, cbfunc, cbdata).map_err(session::or_alone)
    }

    /// Sends bytes to the standard input of processes; none end it. Without `cbfunc` the call waits. Without `bytes`,
    /// the directives may say that the input ends (`PMIX_IOF_COMPLETE`), or that the process's own standard input is
    /// sent from now on (`PMIX_IOF_PUSH_STDIN`), or no more; else nothing is done.
    fn PMIx_IOF_push(
        targets: *const pmix_proc_t, ntargets: usize, bytes: *mut pmix_byte_object_t, directives: *const pmix_info_t,
        ndirs: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (targets, directives) = (many::<_, Proc>(targets, ntargets)?, many::<_, Info>(directives, ndirs)?);
        let nothing = bytes.is_null();
        let bytes: Vec<u8> = if nothing { Vec::new() } else { one(bytes)? };
        let client = session::client()?;
        if bytes.is_empty() {
            let ends = directives.is_set(keys::IOF_COMPLETE);
            let own = directives.find(keys::IOF_PUSH_STDIN).map(|wanted| wanted.is_true());
            if own == Some(true) && !ends {
                told(client.iof_push_stdin(&targets, &directives))?;
                return Err(Status::OPERATION_SUCCEEDED);
            }
            let kept = client.iof_keep_stdin(&targets);
            // Without targets nothing goes on, and nobody is told.
            if (kept || nothing) && !ends || own.is_some() || ends && targets.is_empty() {
                return Err(Status::OPERATION_SUCCEEDED);
            }
        }
        callbacks::finish(client.iof_push(&targets, &bytes, &directives), cbfunc, cbdata)
    }

    /// Delivers output of a process to the clients of this server that have asked for it.
    fn PMIx_server_IOF_deliver(
        source: *const pmix_proc_t, channel: u16, bytes: *const pmix_byte_object_t, info: *const pmix_info_t,
        ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (server, source) = (server()?, one::<_, Proc>(source)?);
        let (bytes, info) = (one::<_, Vec<u8>>(bytes)?, many::<_, Info>(info, ninfo)?);
        op_in_turn(server.iof_deliver(&source, Channels(channel), &bytes, &info), cbfunc, cbdata)
    }

    /// Stops processes that push input through this server, or lets them go on; without `source`, all of them.
    fn PMIx_server_IOF_flow_control(
        source: *const pmix_proc_t, channel: u16, xoff: bool, _directives: *const pmix_info_t, _ndirs: usize,
        cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let server = server()?;
        let everybody = || Proc::new(Nspace::new("").expect("a legal name"), Rank::WILDCARD);
        let source = if source.is_null() { everybody() } else { one(source)? };
        op(server.iof_flow_control(&source, Channels(channel), xoff), cbfunc, cbdata)
    }
}
