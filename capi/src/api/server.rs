//! The server, as a resource manager's daemon in C embeds it.
//!
//! One server a process, from `PMIx_server_init` to `PMIx_server_finalize`; it is kept in [`running`](crate::running).
//! `PMIx_server_setup_fork` may run in a forked child of a program with threads: it takes no lock at all, and reads
//! what it needs through a [`Slot`].
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use instanton::Pending;
use instanton::client::Client;
use instanton::data::{Info, InfoList, Nspace, Proc, Rank, Status, Text, Value, keys};
use instanton::launch::Launcher;
use instanton::server::{
    Blob, EnvSink, ForkEnvironment, JOB_MEMORY, Server, ServerConfig, StockInterfaces, StockPorts, ToolSupport,
    USER_MEMORY, Uri, parse_memory,
};
use libc::{c_char, c_int, c_void, gid_t, uid_t};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{CbData, OpFn};
use crate::convert::{many, one};
use crate::evidence;
use crate::host::{CHost, forget_requests};
use crate::module::{Module, pmix_server_module_t};
use crate::objects::{self, Leaving};
use crate::registration;
use crate::running::{Running, SERVER, server};
use crate::session;
use crate::slot::Slot;
use crate::types::*;

/// `pmix_dmodex_response_fn_t`.
type DmodexFn = unsafe extern "C" fn(c_int, *mut c_char, usize, *mut c_void);

/// The variable that names a file for the address of a tool that is started as a launcher.
const RENDEZVOUS_FILE: &str = "PMIX_LAUNCHER_RNDZ_FILE";

/// Source of the environment of its processes.
static ENVIRONMENT: Slot<ForkEnvironment> = Slot::empty();

/// Attributes of an init that say how the server is to run.
const SERVED: [&str; 22] = [
    keys::SERVER_NSPACE,
    keys::SERVER_RANK,
    keys::HOSTNAME,
    keys::SERVER_TMPDIR,
    keys::SYSTEM_TMPDIR,
    keys::SERVER_TOOL_SUPPORT,
    keys::SERVER_SESSION_SUPPORT,
    keys::SERVER_SYSTEM_SUPPORT,
    keys::SERVER_ALLOW_FOREIGN_TOOLS,
    keys::SERVER_GATEWAY,
    keys::SERVER_ENABLE_MONITORING,
    keys::LAUNCHER,
    keys::LAUNCHER_RENDEZVOUS_FILE,
    keys::TCP_REPORT_URI,
    keys::TCP_IPV4_PORT,
    keys::TCP_IPV6_PORT,
    keys::TCP_DISABLE_IPV4,
    keys::TCP_DISABLE_IPV6,
    keys::SERVER_REMOTE_CONNECTIONS,
    keys::TCP_IF_INCLUDE,
    keys::TCP_IF_EXCLUDE,
    keys::IOF_LOCAL_OUTPUT,
];

/// A stream that the address for tools is to be reported on (`PMIX_TCP_REPORT_URI`).
#[derive(Clone, Copy)]
enum Stream {
    Output,
    Error,
}

impl Stream {
    /// Reads `-` and `+`; anything else is a file's name.
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"-" => Some(Stream::Output),
            b"+" => Some(Stream::Error),
            _ => None,
        }
    }

    /// Says the address. Nobody may be there to read it.
    fn report(self, uri: &Uri) {
        let _ = match self {
            Stream::Output => writeln!(std::io::stdout(), "{uri}"),
            Stream::Error => writeln!(std::io::stderr(), "{uri}"),
        };
    }
}

fn reported_on(info: &[Info]) -> Option<Stream> {
    info.find(keys::TCP_REPORT_URI)?.value.as_text().and_then(|place| Stream::named(place.as_bytes()))
}

/// Holds what an init requires against what there is.
fn check(info: &[Info]) -> Outcome {
    if let Some(unknown) = info.iter().find(|info| info.is_unserved(&SERVED)) {
        instanton::trace!("the server is required to have {}, which it does not know", unknown.key);
        return Err(Status::ERR_NOT_SUPPORTED);
    }
    Ok(())
}

/// Returns the configuration that the attributes of an init ask for. The rest are hints for other libraries.
fn config(info: &[Info]) -> Result<ServerConfig, Status> {
    let mut config = ServerConfig::default();
    let text = |key| info.find(key).map(|info| info.value.as_text().ok_or(Status::ERR_BAD_PARAM)).transpose();
    let path =
        |text: &Text| PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(text.as_bytes()));
    match info.find(keys::SERVER_NSPACE).map(|info| &info.value) {
        None => {}
        Some(Value::ProcNspace(nspace)) => config.nspace = nspace.clone(),
        Some(other) => {
            let name = other.as_text().ok_or(Status::ERR_BAD_PARAM)?;
            config.nspace = Nspace::new(name).map_err(|_| Status::ERR_BAD_PARAM)?;
        }
    }
    if let Some(rank) = info.find(keys::SERVER_RANK) {
        config.rank = Rank(rank.value.as_u32().ok_or(Status::ERR_BAD_PARAM)?);
    }
    if let Some(name) = text(keys::HOSTNAME)? {
        config.hostname = name.clone();
    }
    if let Some(dir) = text(keys::SYSTEM_TMPDIR)? {
        config.system_tmpdir = path(dir);
    }
    if let Some(dir) = text(keys::SERVER_TMPDIR)? {
        config.tmpdir = path(dir);
    }
    let amount = |key| {
        let read = |limit: &Info| match limit.value.as_text() {
            Some(text) => std::str::from_utf8(text.as_bytes()).ok().and_then(parse_memory),
            None => limit.value.as_u64().filter(|bytes| *bytes > 0),
        };
        info.find(key).map(|limit| read(limit).ok_or(Status::ERR_BAD_PARAM)).transpose()
    };
    config.job_memory = amount(JOB_MEMORY)?.unwrap_or(config.job_memory);
    config.user_memory = amount(USER_MEMORY)?;
    config.stock_ports = StockPorts::asked_by(info)?;
    config.stock_remote = StockInterfaces::asked_by(info)?;
    config.local_output = info.is_set(keys::IOF_LOCAL_OUTPUT);
    config.monitoring = info.find(keys::SERVER_ENABLE_MONITORING).is_none_or(Info::is_true);
    let reported = text(keys::TCP_REPORT_URI)?.filter(|place| Stream::named(place.as_bytes()).is_none());
    let named = text(keys::LAUNCHER_RENDEZVOUS_FILE)?.or(reported).map(path);
    config.uri_file = named.or_else(|| std::env::var_os(RENDEZVOUS_FILE).map(PathBuf::from));
    const FOR_TOOLS: [&str; 4] =
        [keys::SERVER_TOOL_SUPPORT, keys::SERVER_SESSION_SUPPORT, keys::SERVER_SYSTEM_SUPPORT, keys::LAUNCHER];
    if FOR_TOOLS.iter().any(|key| info.is_set(key)) || config.uri_file.is_some() || reported_on(info).is_some() {
        config.tools = Some(ToolSupport {
            is_system: info.is_set(keys::SERVER_SYSTEM_SUPPORT),
            allows_foreign: info.is_set(keys::SERVER_ALLOW_FOREIGN_TOOLS),
            ..ToolSupport::default()
        });
    }
    Ok(config)
}

/// Starts the server of this process.
fn start(config: ServerConfig, module: Module, tool: Option<&Client>) -> Result<Running, Status> {
    let host = Arc::new(CHost(module));
    let server = Server::start(config, host.clone()).map_err(|error| {
        instanton::trace!("the server does not start: {error}");
        Status::from(error)
    })?;
    let of_tool = tool.map(|tool| Client::in_process_of_tool(tool, &server)).transpose().map_err(|error| {
        instanton::trace!("the tool does not hear its own server: {error}");
        error.status()
    })?;
    if let Some(tool) = tool {
        session::know_address(tool, keys::MYSERVER_URI, &server);
    }
    ENVIRONMENT.put(Arc::new(server.fork_environment()));
    Ok(Running { server: Arc::new(server), inits: 1, of_tool, host, is_gateway: false, is_bare: false, launcher: None })
}

/// Returns a host's module, read as of the release that the host names or proves.
unsafe fn module_of(module: *const pmix_server_module_t) -> Module {
    let said = std::env::var_os(evidence::VARIABLE).and_then(|name| evidence::said(name.as_encoded_bytes()));
    // SAFETY: as promised by the caller.
    unsafe { Module::read(module, said) }
}

/// Makes the tool that this process is a server as well, which accepts tools itself. One that is a launcher already has
/// a server, and gives that its functions.
///
/// # Errors
/// `ERR_INIT` without a tool, or where there is a server with functions.
///
/// # Safety
/// As [`Module::read`].
pub unsafe fn install(module: *const pmix_server_module_t) -> Outcome {
    let tool = session::client()?;
    let proc = tool.proc().clone();
    // SAFETY: as promised by the caller.
    let module = unsafe { module_of(module) };
    let mut running = SERVER.write().unwrap_or_else(PoisonError::into_inner);
    match &mut *running {
        None => {
            let tools = Some(ToolSupport::default());
            let config = ServerConfig { nspace: proc.nspace, rank: proc.rank, tools, ..ServerConfig::default() };
            *running = Some(start(config, module, Some(&tool))?);
            Ok(())
        }
        Some(running) if running.is_bare => {
            running.is_bare = false;
            running.server.set_host(Arc::new(CHost(module)))
        }
        Some(_) => Err(Status::ERR_INIT),
    }
}

/// Makes the tool that this process is a launcher: a server that may be given its functions later. A process that has a
/// server already is one.
///
/// # Errors
/// The reason why the server does not start.
pub fn launch(tool: &Client, info: &[Info]) -> Outcome {
    let mut running = SERVER.write().unwrap_or_else(PoisonError::into_inner);
    if running.is_none() {
        let Proc { nspace, rank } = tool.proc().clone();
        // The launcher itself shows what its processes print.
        let config = ServerConfig { nspace, rank, local_output: false, ..config(info)? };
        let started = start(config, Module::empty(), Some(tool))?;
        let launcher = Launcher::new(&started.server, session::job_ended).map_err(|error| {
            instanton::trace!("no launcher: {error}");
            Status::ERR_OUT_OF_RESOURCE
        });
        let launcher = launcher.inspect_err(|_| ENVIRONMENT.clear())?;
        *running = Some(Running { is_bare: true, launcher: Some(Arc::new(launcher)), ..started });
    }
    Ok(())
}

/// Ends the server of a tool that has ended.
pub fn end_with_tool() {
    let mut running = SERVER.write().unwrap_or_else(PoisonError::into_inner);
    let ended = running.take_if(|running| running.of_tool.is_some());
    if ended.is_some() {
        ENVIRONMENT.clear();
    }
    drop(running);
    end(ended);
}

/// Gives one init back, and ends the server with the last.
///
/// # Errors
/// `ERR_INIT` without an init; `ERR_WOULD_BLOCK` in a callback, which the server's end would wait for.
fn give_back() -> Outcome {
    let mut running = SERVER.write().unwrap_or_else(PoisonError::into_inner);
    let last = match &mut *running {
        None => return Err(Status::ERR_INIT),
        Some(Running { inits: 1, server, .. }) if server.is_own_thread() => return Err(Status::ERR_WOULD_BLOCK),
        Some(Running { inits: 1, .. }) => {
            ENVIRONMENT.clear();
            running.take()
        }
        Some(running) => {
            running.inits -= 1;
            None
        }
    };
    drop(running);
    end(last);
    Ok(())
}

/// Ends a server, and what its host was shown. Should a call still wait on it, it ends with that call.
fn end(running: Option<Running>) {
    let Some(Running { server, launcher, .. }) = running else { return };
    // The processes that it has started have their server to the end.
    drop(launcher);
    if let Some(server) = Arc::into_inner(server) {
        // Ended by its host in the middle of a request, it goes on with that.
        let is_over = !server.is_own_thread();
        server.finalize();
        if is_over {
            forget_requests();
            objects::forget_all();
        }
    }
}

/// A completion that calls `cbfunc`.
fn completion(cbfunc: OpFn, cbdata: *mut c_void) -> impl FnOnce(Result<(), Status>) + Send + 'static {
    let data = CbData::new(cbdata);
    move |result| {
        let status = result.err().unwrap_or(Status::SUCCESS);
        // SAFETY: the host's own function and data.
        unsafe { cbfunc(status.0, data.get()) };
    }
}

/// Ends a call of the server: through `cbfunc`, or by waiting where there is none, which the status says.
pub fn op(pending: Pending<(), Status>, cbfunc: Option<OpFn>, cbdata: *mut c_void) -> Outcome {
    match cbfunc {
        Some(cbfunc) => pending.then(completion(cbfunc, cbdata)),
        None => pending.wait().and(Err(Status::OPERATION_SUCCEEDED)),
    }
}

/// Ends a call of the server as [`op`] does, but never waits: what is called later finds it done, because the server
/// does one after the other.
pub fn op_in_turn(pending: Pending<(), Status>, cbfunc: Option<OpFn>, cbdata: *mut c_void) -> Outcome {
    match cbfunc {
        Some(_) => op(pending, cbfunc, cbdata),
        None => pending.then(|_| ()).and(Err(Status::OPERATION_SUCCEEDED)),
    }
}

/// Ends a call that was done at once.
pub fn op_done(cbfunc: Option<OpFn>, cbdata: *mut c_void) -> Outcome {
    report(cbfunc, cbdata, Status::SUCCESS);
    if cbfunc.is_some() { Ok(()) } else { Err(Status::OPERATION_SUCCEEDED) }
}

/// Ends a deregistration. A function that returns nothing has said all there is when it could not even begin.
fn leave(pending: Pending<(), Status>, leaving: Leaving, cbfunc: Option<OpFn>, cbdata: *mut c_void) {
    match cbfunc {
        Some(cbfunc) => _ = pending.then(leaving.forgotten_before(completion(cbfunc, cbdata))),
        None => {
            let _ = pending.wait();
            leaving.forget();
        }
    }
}

/// A namespace of the caller.
pub unsafe fn nspace_of(nspace: *const c_char) -> Result<Nspace, Status> {
    // SAFETY: NULL, a C string or a fixed array, the contract with C.
    Nspace::new(unsafe { alloc::name(nspace, NSPACE_SIZE) }?).map_err(|_| Status::ERR_BAD_PARAM)
}

/// An environment of the caller: a NULL-terminated array of libc memory.
struct Environment(*mut *mut *mut c_char);

impl EnvSink for Environment {
    fn set(&mut self, name: &str, value: &[u8]) {
        let text = |bytes: &[u8]| std::ffi::CString::new(bytes).ok();
        if let (Some(name), Some(value)) = (text(name.as_bytes()), text(value)) {
            // SAFETY: strings and the caller's array.
            unsafe { super::argv::PMIx_Setenv(name.as_ptr(), value.as_ptr(), 1, self.0) };
        }
    }

    fn get(&self, name: &str) -> Option<Vec<u8>> {
        // SAFETY: NULL or a NULL-terminated array, the contract with C.
        let settings = unsafe { alloc::argv(*self.0) };
        let value = |setting: &[u8]| Some(setting.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
        settings.into_iter().find_map(value)
    }

    fn retain(&mut self, keep: &mut dyn FnMut(&[u8]) -> bool) {
        // SAFETY: NULL or a NULL-terminated array, the contract with C. Strings that stay move down over those that go.
        unsafe {
            let (mut from, mut to) = (*self.0, *self.0);
            while let Some(setting) = (!from.is_null()).then(|| alloc::c_bytes(*from)).flatten() {
                let name = setting.split(|byte| *byte == b'=').next().unwrap_or_default();
                if keep(name) {
                    *to = *from;
                    to = to.add(1);
                } else if *self.0 != super::argv::process_environment() {
                    alloc::release(*from);
                }
                from = from.add(1);
            }
            if !to.is_null() {
                *to = std::ptr::null_mut();
            }
        }
    }
}

export! {
    /// Starts the server of this process, or takes part in it.
    fn PMIx_server_init(module: *mut pmix_server_module_t, info: *mut pmix_info_t, ninfo: usize) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        check(&info)?;
        let config = config(&info)?;
        // Without one, local clients are served, and nothing beyond.
        let module = module_of(module);
        let mut running = SERVER.write().unwrap_or_else(PoisonError::into_inner);
        let server = match &mut *running {
            Some(running) => {
                running.inits += 1;
                running.server.clone()
            }
            None => {
                let started = start(config, module, None)?;
                let is_gateway = info.is_set(keys::SERVER_GATEWAY);
                let server = running.insert(Running { is_gateway, ..started }).server.clone();
                if let (Some(stream), Some(uri)) = (reported_on(&info), server.uri()) {
                    stream.report(uri);
                }
                server
            }
        };
        drop(running);
        session::enter_as_server(&server).inspect_err(|_| {
            let _ = give_back();
        })
    }

    /// Ends what one init began; the last call ends the server of this process.
    fn PMIx_server_finalize() -> Outcome {
        give_back()?;
        session::leave(&[])
    }

    /// Tells of a namespace: how many of its processes will run here, and its job information. Of none there is nothing
    /// to tell.
    fn PMIx_server_register_nspace(
        nspace: *const c_char, nlocalprocs: c_int, info: *mut pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let (server, nspace) = (server()?, nspace_of(nspace)?);
        // PRRTE 3.0 registers one without a name whenever processes connect, and shows its user what is wrong with
        // that.
        if nspace.is_empty() {
            return op_done(cbfunc, cbdata);
        }
        // Negative stands for "not known", which is what none is.
        let local = usize::try_from(nlocalprocs).unwrap_or(0);
        let job = registration::job_info(server.job_info(&nspace, local), info, ninfo)?;
        op(server.register_job(&nspace, local, job), cbfunc, cbdata)
    }

    /// Forgets a namespace with its clients.
    fn PMIx_server_deregister_nspace(nspace: *const c_char, cbfunc: Option<OpFn>, cbdata: *mut c_void) {
        let Ok(nspace) = nspace_of(nspace) else { return report(cbfunc, cbdata, Status::ERR_BAD_PARAM) };
        let Ok(server) = server() else { return report(cbfunc, cbdata, Status::ERR_INIT) };
        leave(server.deregister_nspace(&nspace), Leaving::nspace(&nspace), cbfunc, cbdata);
    }

    /// Tells of a process that will run here, and as whom.
    fn PMIx_server_register_client(
        proc: *const pmix_proc_t, uid: uid_t, gid: gid_t, object: *mut c_void, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let (server, proc) = (server()?, one::<_, Proc>(proc)?);
        objects::keep(&proc, object);
        op(server.register_client(&proc, uid, gid), cbfunc, cbdata)
    }

    /// Forgets a process.
    fn PMIx_server_deregister_client(proc: *const pmix_proc_t, cbfunc: Option<OpFn>, cbdata: *mut c_void) {
        let Ok(proc) = one::<_, Proc>(proc) else { return report(cbfunc, cbdata, Status::ERR_BAD_PARAM) };
        let Ok(server) = server() else { return report(cbfunc, cbdata, Status::ERR_INIT) };
        leave(server.deregister_client(&proc), Leaving::client(&proc), cbfunc, cbdata);
    }

    /// Sets what a process needs to find this server in an environment of the caller. May run in a forked child.
    fn PMIx_server_setup_fork(proc: *const pmix_proc_t, env: *mut *mut *mut c_char) -> Outcome {
        let setup = |environment: &ForkEnvironment| match env.is_null() {
            true => Err(Status::ERR_BAD_PARAM),
            false => environment.setup(&one(proc)?, &mut Environment(env)),
        };
        ENVIRONMENT.with(|_, environment| setup(environment)).ok_or(Status::ERR_INIT)?
    }

    /// Asks for what a process of this node has posted, for another node's server. The bytes are
    /// `cbfunc`'s until it returns.
    fn PMIx_server_dmodex_request(
        proc: *const pmix_proc_t, cbfunc: Option<DmodexFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (server, proc) = (server()?, one::<_, Proc>(proc)?);
        let (cbfunc, data) = (cbfunc.ok_or(Status::ERR_BAD_PARAM)?, CbData::new(cbdata));
        server.dmodex_request(&proc, &[]).then(move |result| {
            let (status, bytes) = match result {
                Ok(bytes) => (Status::SUCCESS, bytes),
                Err(status) => (status, Blob::default()),
            };
            let (status, place) = alloc::bytes(&bytes)
                .map_or_else(|failed| (failed, std::ptr::null_mut()), |place| (status, place));
            // SAFETY: the host's own function and data, and a copy that is freed afterwards.
            unsafe {
                cbfunc(status.0, place, if place.is_null() { 0 } else { bytes.len() }, data.get());
                alloc::release(place);
            }
        })
    }
}

/// The answer of a function that returns nothing and could not begin. Without a server there is nobody to give it
/// later.
pub fn report(cbfunc: Option<OpFn>, cbdata: *mut c_void, status: Status) {
    let (Some(cbfunc), data) = (cbfunc, CbData::new(cbdata)) else { return };
    // SAFETY: the host's own function and data.
    let call = move || unsafe { cbfunc(status.0, data.get()) };
    match server() {
        Ok(server) => _ = server.call_later(call),
        Err(_) => call(),
    }
}
