//! Preparations of a host for a job before it starts the job's processes, and its definitions for all jobs.
use instanton::data::{DataType, Info, Proc, Status, Text, Value};
use instanton::internal::wire::Writer;
use libc::{c_char, c_int, c_void};

use super::arrays::append;
use super::packing::form;
use super::server::{nspace_of, op, op_done, op_in_turn, report};
use crate::alloc;
use crate::arena::Arena;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, CbData, InfoFn, OpFn};
use crate::convert::many;
use crate::handles;
use crate::running::server;
use crate::session::{self, told};
use crate::types::*;

/// `pmix_setup_application_cbfunc_t`.
type SetupFn = unsafe extern "C" fn(c_int, *mut pmix_info_t, usize, *mut c_void, Option<OpFn>, *mut c_void);

/// Function that a host calls when it needs the data that it was lent no more.
unsafe extern "C" fn release(_status: c_int, shown: *mut c_void) {
    drop(handles::take::<Arena>(shown));
}

export! {
    after_init;

    /// Collects what the processes of a job will need on every node. The data lent to `cbfunc` lives until it calls the
    /// function that comes with it.
    fn PMIx_server_setup_application(
        nspace: *const c_char, info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<SetupFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (cbfunc, data) = (cbfunc.ok_or(Status::ERR_BAD_PARAM)?, CbData::new(cbdata));
        let (nspace, info) = (nspace_of(nspace)?, many::<_, Info>(info, ninfo)?);
        server()?.setup_application(&nspace, &info).then(move |collected| {
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
        op(server.setup_local_support(&nspace, &info), cbfunc, cbdata)
    }

    /// Says which attributes this program supports, as a host, for one function of its module: their names, ended by
    /// NULL.
    fn PMIx_Register_attributes(function: *mut c_char, attrs: *mut *mut c_char) -> Outcome {
        let client = session::client()?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Status::ERR_BAD_PARAM);
        let function = text(alloc::c_bytes(function).ok_or(Status::ERR_BAD_PARAM)?)?;
        let names = alloc::argv(attrs).into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        told(client.register_attributes(&function, &names))?;
        // A server's clients ask it; without one, only this process does.
        match server() {
            Ok(server) => server.register_attributes(&function, &names).wait(),
            Err(_) => Ok(()),
        }
    }

    /// Puts the job information of the namespaces of some processes into a buffer: of each namespace a byte object, in
    /// which its name and its keys with their values are packed.
    fn PMIx_server_collect_job_info(
        procs: *mut pmix_proc_t, nprocs: usize, buffer: *mut pmix_data_buffer_t,
    ) -> Outcome {
        let server = server()?;
        let buffer = buffer.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        let jobs = server.collect_job_info(&many::<_, Proc>(procs, nprocs)?).wait()?;
        let mut objects = Vec::new();
        for (nspace, infos) in jobs {
            let mut job = Vec::new();
            let mut writer = Writer::new(&mut job);
            writer
                .pack(form(), DataType::STRING, &[Value::string(&nspace)])
                .and_then(|()| infos.iter().try_for_each(|info| writer.pack_entry(form(), &info.key, &info.value)))
                .and_then(|()| {
                    Writer::new(&mut objects).pack(form(), DataType::BYTE_OBJECT, &[Value::ByteObject(job)])
                })
                .map_err(|error| error.status())?;
        }
        append(buffer, &objects)
    }

    /// Finds the hardware of this node. The data lent to `cbfunc` lives until it calls the release function.
    fn PMIx_server_collect_inventory(
        _directives: *mut pmix_info_t, _ndirs: usize, cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (cbfunc, data) = (cbfunc.ok_or(Status::ERR_BAD_PARAM)?, CbData::new(cbdata));
        server()?.collect_inventory().then(move |inventory| {
            let (status, infos) = match inventory {
                Ok(infos) => (Status::SUCCESS, infos),
                Err(status) => (status, Vec::new()),
            };
            callbacks::call_info(cbfunc, data, status, &infos);
        })
    }

    /// Takes the hardware of other nodes, for which there is no use here: no part of this library plans placements.
    fn PMIx_server_deliver_inventory(
        info: *mut pmix_info_t, ninfo: usize, _directives: *mut pmix_info_t, _ndirs: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        many::<_, Info>(info, ninfo)?;
        server()?;
        op_done(cbfunc, cbdata)
    }

    /// Registers information for all jobs that are registered later.
    fn PMIx_server_register_resources(
        info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        op_in_turn(server()?.register_resources(&many::<_, Info>(info, ninfo)?), cbfunc, cbdata)
    }

    /// Takes such information back.
    fn PMIx_server_deregister_resources(
        info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        op_in_turn(server()?.deregister_resources(&many::<_, Info>(info, ninfo)?), cbfunc, cbdata)
    }

    /// Tells of a session, for the jobs in it that are registered afterwards.
    fn PMIx_server_register_session(
        session: u32, info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let registered = server()?.register_session(session, &many::<_, Info>(info, ninfo)?);
        match op_in_turn(registered, cbfunc, cbdata) {
            Err(Status::OPERATION_SUCCEEDED) => Ok(()),
            other => other,
        }
    }
}

export! {
    /// Forgets a session.
    fn PMIx_server_deregister_session(session: u32, cbfunc: Option<OpFn>, cbdata: *mut c_void) {
        let Ok(server) = server() else { return report(cbfunc, cbdata, Status::ERR_INIT) };
        let _ = op_in_turn(server.deregister_session(session), cbfunc, cbdata);
    }
}

export! {
    after_init;

    /// Gives a set of processes a name, and tells the processes of this node.
    fn PMIx_server_define_process_set(
        members: *const pmix_proc_t, nmembers: usize, name: *const c_char,
    ) -> Outcome {
        let (server, members) = (server()?, many::<_, Proc>(members, nmembers)?);
        server.define_process_set(&set_name(name)?, &members).wait()
    }

    /// Forgets a set of processes, and tells the processes of this node.
    fn PMIx_server_delete_process_set(name: *mut c_char) -> Outcome {
        server()?.delete_process_set(&set_name(name)?).wait()
    }
}

unsafe fn set_name(name: *const c_char) -> Result<Text, Status> {
    // SAFETY: NULL or a C string, the contract with C.
    let name = unsafe { alloc::c_bytes(name) }.ok_or(Status::ERR_BAD_PARAM)?;
    Text::new(name).map_err(|_| Status::ERR_BAD_PARAM)
}
