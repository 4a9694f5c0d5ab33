//! Meeting others, and ending them.
use instanton::client::Client;
use instanton::data::{Info, Proc, Rank, Status};
use libc::{c_char, c_int, c_void};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, OpFn};
use crate::convert::many;
use crate::session::{self, told};
use crate::types::*;

export! {
    /// Waits until all participants have come; none named means the own namespace.
    fn PMIx_Fence(procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) -> Outcome {
        let info = many::<_, Info>(info, ninfo)?;
        let client = session::client()?;
        let procs = if is_own_job(&client, procs, nprocs) { Vec::new() } else { participants(procs, nprocs)? };
        told(client.fence(&procs, &info))
    }

    /// The same without waiting.
    fn PMIx_Fence_nb(
        procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        if cbfunc.is_none() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let (procs, info) = (participants(procs, nprocs)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.fence_nb(&procs, &info, callbacks::op(cbfunc, cbdata)))
    }

    /// Asks the host to end processes; none named means the own namespace.
    fn PMIx_Abort(status: c_int, message: *const c_char, procs: *mut pmix_proc_t, nprocs: usize) -> Outcome {
        let procs = participants(procs, nprocs)?;
        told(session::client()?.abort(status, alloc::c_bytes(message), &procs))
    }
}

/// Whether the participants are the own namespace, as most callers name it: then nothing need be converted.
unsafe fn is_own_job(client: &Client, procs: *const pmix_proc_t, nprocs: usize) -> bool {
    // SAFETY: NULL or an array, the contract with C.
    let Some(all) = (unsafe { procs.as_ref() }).filter(|_| nprocs == 1) else { return false };
    // SAFETY: a fixed array of that length.
    let name = unsafe { alloc::name(all.nspace.as_ptr(), NSPACE_SIZE) };
    all.rank == Rank::WILDCARD.0 && name.is_ok_and(|name| name == client.proc().nspace.as_bytes())
}

/// Processes, as these calls take them: NULL is nobody in particular, whatever the number says.
unsafe fn participants(procs: *const pmix_proc_t, nprocs: usize) -> Result<Vec<Proc>, Status> {
    // SAFETY: NULL or an array, the contract with C.
    unsafe { many(procs, if procs.is_null() { 0 } else { nprocs }) }
}
