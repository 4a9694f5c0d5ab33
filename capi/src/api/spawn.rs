//! Starting jobs, and being connected with them.
use std::sync::Arc;

use instanton::client::{Client, Error, to_own_output};
use instanton::data::{App, Channels, Info, InfoList, Nspace, Proc, Rank, Status, keys};
use instanton::internal::client::{Callback, complete_apps, wait};
use instanton::server::{Answer, Completion, Host};
use libc::{c_char, c_void};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, OpFn, SpawnFn};
use crate::convert::many;
use crate::running;
use crate::session::{self, Shown, told};
use crate::types::*;

/// Returns whether an attribute says how output is shown, by its name of today or its older one.
fn is_form(info: &Info) -> bool {
    info.key.as_bytes().starts_with(b"pmix.iof.") || info.key == keys::TAG_OUTPUT || info.key == keys::TIMESTAMP_OUTPUT
}

/// Has a job print where this process does, the way the job's attributes say. From its beginning: the server keeps that
/// a while.
fn show_output(client: &Client, nspace: &Nspace, job_info: &[Info]) {
    let streams = [(keys::FWD_STDOUT, Channels::STDOUT), (keys::FWD_STDERR, Channels::STDERR | Channels::STDDIAG)];
    let by_itself = session::shown_output() == Shown::All;
    let wanted = streams.iter().filter(|(key, _)| job_info.find(key).map_or(by_itself, |info| info.is_true()));
    let channels = wanted.fold(Channels::NONE, |all, (_, channels)| all | *channels);
    if channels.is_empty() {
        return;
    }
    let how: Vec<Info> = job_info.iter().filter(|info| is_form(info)).cloned().collect();
    let all = Proc::new(nspace.clone(), Rank::WILDCARD);
    // The job runs even if the server refuses.
    let _ = client.iof_pull(&[all], channels, &how, to_own_output()).then(|_| ());
}

/// Has the program's own host start a job. It is asked on this thread, and its answer is given on the one that it comes
/// on: a host may wait for it in a loop that nothing else wakes, as PRRTE does.
fn start_by(
    host: &dyn Host,
    me: &Proc,
    job_info: &[Info],
    apps: &[App],
    callback: Callback<Nspace, Error>,
) -> Result<(), Error> {
    let then = Completion::new(move |result: Result<Nspace, Status>| callback(result.map_err(Error::from)));
    match host.spawn(me, job_info, apps, then)? {
        Answer::Later => Ok(()),
        // A host that has done it and does not say what has not done it.
        Answer::Done => Err(Status::ERR_INVALID_NAMESPACE.into()),
    }
}

/// Starts a job: through the server, or with a launcher that is attached to none, as children of this process.
fn start(
    client: &Arc<Client>,
    job_info: &[Info],
    apps: &[App],
    callback: Callback<Nspace, Error>,
) -> Result<(), Error> {
    if let Some(host) = running::own_host(client) {
        return start_by(&*host, client.proc(), job_info, &complete_apps(job_info, apps)?, callback);
    }
    let Some(launcher) = running::launcher().filter(|_| !client.is_connected()) else {
        let spawned = client.spawn(job_info, apps);
        if session::shown_output() == Shown::Nothing {
            return spawned.then(callback);
        }
        let (caller, how) = (Arc::downgrade(client), job_info.to_vec());
        return spawned.then(move |result| {
            if let (Some(caller), Ok(nspace)) = (caller.upgrade(), &result) {
                show_output(&caller, nspace, &how);
            }
            callback(result);
        });
    };
    let caller = client.clone();
    launcher.spawn(job_info, apps).then(move |result| {
        // A client that has ended meanwhile waits for nothing.
        let _ = caller.call_later(move || callback(result.map_err(Error::from)));
    })?;
    Ok(())
}

/// The client, where somebody starts jobs for it: nothing else is looked at where nobody does.
fn starter() -> Result<Arc<Client>, Status> {
    let client = session::client()?;
    if client.is_alone() && running::launcher().is_none() { Err(Status::ERR_UNREACH) } else { Ok(client) }
}

export! {
    /// Starts a job and waits until all of it runs; `nspace` gets its name.
    fn PMIx_Spawn(
        job_info: *const pmix_info_t, ninfo: usize, apps: *const pmix_app_t, napps: usize, nspace: *mut c_char,
    ) -> Outcome {
        let client = starter()?;
        let mut place = nspace.cast::<pmix_nspace_t>().as_mut();
        if let Some(place) = place.as_mut() {
            alloc::set_name(place, b"");
        }
        let (job_info, apps) = (many::<_, Info>(job_info, ninfo)?, many::<_, App>(apps, napps)?);
        // A launcher tells its server of the job before it starts.
        if running::launcher().is_some() && running::server()?.is_own_thread() {
            return Err(Status::ERR_WOULD_BLOCK);
        }
        let spawned = told(wait(&client, "PMIx_Spawn", |callback| start(&client, &job_info, &apps, callback)))?;
        if let Some(place) = place {
            alloc::set_name(place, spawned.as_bytes());
        }
        Ok(())
    }

    /// Nonblocking form of `PMIx_Spawn`.
    fn PMIx_Spawn_nb(
        job_info: *const pmix_info_t, ninfo: usize, apps: *const pmix_app_t, napps: usize, cbfunc: Option<SpawnFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let client = starter()?;
        let (job_info, apps) = (many::<_, Info>(job_info, ninfo)?, many::<_, App>(apps, napps)?);
        told(start(&client, &job_info, &apps, Box::new(callbacks::spawn(cbfunc, cbdata))))
    }
}

export! {
    for_server;

    /// Connects with other processes, which all call this with the same list, and waits for them.
    fn PMIx_Connect(
        procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize,
    ) -> Outcome {
        let (procs, info) = (many::<_, Proc>(procs, nprocs)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.connect_to(&procs, &info).wait())
    }

    /// Nonblocking form of `PMIx_Connect`.
    fn PMIx_Connect_nb(
        procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let (procs, info) = (many::<_, Proc>(procs, nprocs)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.connect_to(&procs, &info).then(callbacks::op(cbfunc, cbdata)))
    }

    /// Ends the connection of processes that called Connect, and waits for all of them.
    fn PMIx_Disconnect(
        procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize,
    ) -> Outcome {
        let (procs, info) = (many::<_, Proc>(procs, nprocs)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.disconnect_from(&procs, &info).wait())
    }

    /// Nonblocking form of `PMIx_Disconnect`.
    fn PMIx_Disconnect_nb(
        procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let (procs, info) = (many::<_, Proc>(procs, nprocs)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.disconnect_from(&procs, &info).then(callbacks::op(cbfunc, cbdata)))
    }
}
