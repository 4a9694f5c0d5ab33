//! Meeting others, and ending them.
use instanton::client::Client;
use instanton::data::{DataType, Info, Proc, Rank, Status, keys};
use libc::{c_char, c_int, c_void};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, OpFn};
use crate::convert::many;
use crate::session::{self, told};
use crate::types::*;

export! {
    after_init;

    /// Waits until all participants have come; where none is named, the processes of the caller's namespace.
    fn PMIx_Fence(procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize) -> Outcome {
        let client = session::client()?;
        match collects(info, ninfo).filter(|_| is_own_job(&client, procs, nprocs)) {
            Some(collect) => told(client.fence_all(collect)),
            None => fence(&client, procs, nprocs, info, ninfo),
        }
    }

    /// Nonblocking form of `PMIx_Fence`: by a server, and so not without one. Without `cbfunc` it is refused.
    fn PMIx_Fence_nb(
        procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let client = session::client()?;
        if client.is_alone() {
            return Err(Status::ERR_UNREACH);
        }
        // "The function will return an error if a NULL callback function is given" (Standard 2.1, 5.2.3).
        cbfunc.ok_or(Status::ERR_BAD_PARAM)?;
        let (procs, info) = (participants(procs, nprocs)?, many::<_, Info>(info, ninfo)?);
        told(client.fence(&procs, &info).then(callbacks::op(cbfunc, cbdata)))
    }

    /// Asks the host to end processes; where none is named, those of the caller's namespace.
    fn PMIx_Abort(status: c_int, message: *const c_char, procs: *mut pmix_proc_t, nprocs: usize) -> Outcome {
        let procs: Vec<Proc> = many(procs, if procs.is_null() { 0 } else { nprocs })?;
        told(session::client()?.abort(status, alloc::c_bytes(message), &procs).wait())
    }
}

/// A fence of any participants, with any attributes.
#[cold]
unsafe fn fence(
    client: &Client,
    procs: *const pmix_proc_t,
    nprocs: usize,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Outcome {
    // SAFETY: NULL or arrays of that length, the contract with C.
    let (procs, info) = unsafe { (participants(procs, nprocs)?, many::<_, Info>(info, ninfo)?) };
    told(client.fence(&procs, &info).wait())
}

/// Returns whether data are collected, where the attributes say no more than that: then nothing need be converted.
#[inline]
unsafe fn collects(info: *const pmix_info_t, ninfo: usize) -> Option<bool> {
    if ninfo == 0 {
        return Some(false);
    }
    // SAFETY: NULL or an array, the contract with C.
    let only = (unsafe { info.as_ref() }).filter(|only| ninfo == 1 && only.flags == 0)?;
    let is_known = alloc::is(&only.key, keys::COLLECT_DATA.as_bytes()) && only.value.ty == DataType::BOOL.0;
    // SAFETY: the member that the type names.
    if is_known { Some(unsafe { only.value.data.flag } != 0) } else { None }
}

/// Returns whether the participants are the own namespace, as most callers name it: then nothing need be converted.
#[inline]
unsafe fn is_own_job(client: &Client, procs: *const pmix_proc_t, nprocs: usize) -> bool {
    // SAFETY: NULL or an array, the contract with C.
    let Some(all) = (unsafe { procs.as_ref() }).filter(|_| nprocs == 1) else { return false };
    all.rank == Rank::WILDCARD.0 && alloc::is(&all.nspace, client.proc().nspace.as_bytes())
}

/// Returns the participants: NULL is none in particular, whatever the number says. A list of none is a mistake.
unsafe fn participants(procs: *const pmix_proc_t, nprocs: usize) -> Result<Vec<Proc>, Status> {
    if !procs.is_null() && nprocs == 0 {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: NULL or an array, the contract with C.
    unsafe { many(procs, if procs.is_null() { 0 } else { nprocs }) }
}
