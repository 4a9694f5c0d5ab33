//! What a host prepares for a job before it starts the job's processes.
use instanton::data::{Info, Status};
use libc::{c_char, c_int, c_void};

use super::server::{nspace_of, op, server};
use crate::arena::Arena;
use crate::boundary::{Outcome, export};
use crate::callbacks::{CbData, OpFn};
use crate::convert::many;
use crate::handles;
use crate::types::*;

/// `pmix_setup_application_cbfunc_t`.
type SetupFn = unsafe extern "C" fn(c_int, *mut pmix_info_t, usize, *mut c_void, Option<OpFn>, *mut c_void);

/// What a host calls when it needs what it was shown no more.
unsafe extern "C" fn release(_status: c_int, shown: *mut c_void) {
    drop(handles::take::<Arena>(shown));
}

export! {
    /// Collects what the processes of a job will need on every node. What `cbfunc` is shown lives until it calls the function that
    /// it is given with it.
    fn PMIx_server_setup_application(
        nspace: *const c_char, info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<SetupFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (cbfunc, data) = (cbfunc.ok_or(Status::ERR_BAD_PARAM)?, CbData::new(cbdata));
        let (nspace, info) = (nspace_of(nspace)?, many::<_, Info>(info, ninfo)?);
        server()?.setup_application(&nspace, &info, move |collected| {
            let mut shown = Arena::default();
            let made = collected.and_then(|infos| shown.array::<pmix_info_t, _>(&infos));
            let (status, (array, n)) = match made {
                Ok(array) => (Status::SUCCESS, array),
                Err(status) => (status, (std::ptr::null_mut(), 0)),
            };
            // SAFETY: the host's own function and data.
            unsafe { cbfunc(status.0, array, n, data.get(), Some(release), handles::keep(shown)) };
        })
    }

    /// Takes what was collected, for the processes of a namespace on this node.
    fn PMIx_server_setup_local_support(
        nspace: *const c_char, info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (server, nspace, info) = (server()?, nspace_of(nspace)?, many::<_, Info>(info, ninfo)?);
        op(
            cbfunc,
            cbdata,
            |done| server.setup_local_support(&nspace, &info, done),
            || server.setup_local_support_wait(&nspace, &info),
        )
    }
}
