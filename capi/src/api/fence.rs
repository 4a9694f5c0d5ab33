//! Meeting others, and ending them.
use instanton::data::{Info, Proc, Status};
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
        let (procs, info) = (participants(procs, nprocs)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.fence(&procs, &info))
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

/// Processes, as these calls take them: NULL is nobody in particular, whatever the number says.
unsafe fn participants(procs: *const pmix_proc_t, nprocs: usize) -> Result<Vec<Proc>, Status> {
    // SAFETY: NULL or an array, the contract with C.
    unsafe { many(procs, if procs.is_null() { 0 } else { nprocs }) }
}
