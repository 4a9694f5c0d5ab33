//! The one client of the process, which every call of the C interface shares.
//!
//! A tool has one for each of its servers, and the one of its primary server is the one that calls share: turning to another
//! server exchanges it.
//!
//! It comes with the first Init and goes with the last Finalize, however many there were. Between the two, a Get reaches it
//! through one pointer and takes no lock ([`Slot`]). A call that may wait holds a reference of its own instead.
//!
//! A forked child inherits the pointer to a client that is its parent's: the client knows, and says that it is not
//! initialised. The child leaves it alone and may have one of its own.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use instanton::client::{Client, Error, InitError};
use instanton::data::{DataRange, Info, InfoList, Proc, Rank, Status, Value, keys};
use instanton::internal::client::{check_directives, check_finalize};
use instanton::internal::sys::cell::Epoch;
use instanton::launch::JobEnd;
use instanton::server::Server;
use instanton::tool::Tool;

use crate::kept;
use crate::running;
use crate::slot::Slot;

/// Empty before the first Init and after the last Finalize.
static CURRENT: Slot<Client> = Slot::empty();

/// Number of Inits that wait for their Finalize. Held while the client is exchanged, never while anything is waited for
/// that a callback may need.
static INITS: Mutex<usize> = Mutex::new(0);

/// All connections of a process that has used a function of tools.
static TOOL: Mutex<Option<Arc<Tool>>> = Mutex::new(None);

/// Output of jobs that this process starts and shows as its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// None: it is no tool.
    Nothing,
    /// The streams that are to be forwarded to it (`PMIX_FWD_STDOUT`, `PMIX_FWD_STDERR`).
    Forwarded,
    /// All of it that is not expressly unwanted (`PMIX_IOF_LOCAL_OUTPUT`).
    All,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown::Nothing);

/// Shows at least so much from now on.
pub fn show_output(shown: Shown) {
    let mut now = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *now = shown.max(*now);
}

/// Shows nothing any more.
pub fn hide_output() {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Shown::Nothing;
}

/// Output that is shown.
pub fn shown_output() -> Shown {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The status of a call of the client.
pub fn told<T>(result: Result<T, Error>) -> Result<T, Status> {
    result.map_err(|error| error.status())
}

/// Runs something short on the client, in an epoch of this thread: it must not wait.
///
/// # Errors
/// `ERR_INIT` before Init.
pub fn with<T>(f: impl FnOnce(&Epoch, &Arc<Client>) -> T) -> Result<T, Status> {
    CURRENT.with(f).ok_or(Status::ERR_INIT)
}

/// The client, for a call that may wait.
///
/// # Errors
/// `ERR_INIT` before Init and in a forked child.
pub fn client() -> Result<Arc<Client>, Status> {
    with(|_, client| client.clone())
        .and_then(|client| if client.is_initialized() { Ok(client) } else { Err(Status::ERR_INIT) })
}

/// Returns the reason why a call fails: before Init, for no other reason than that. A status "not found" comes after it.
#[inline]
pub fn or_uninitialized(status: Status) -> Status {
    if status == Status::ERR_NOT_FOUND || is_initialized() { status } else { Status::ERR_INIT }
}

/// Returns the reason why a call fails that is for the server: without one, for no other reason than that.
#[cold]
pub fn or_alone(status: Status) -> Status {
    match client() {
        Err(uninitialized) => uninitialized,
        Ok(client) if client.is_alone() => Status::ERR_UNREACH,
        Ok(_) => status,
    }
}

/// Returns whether there is a client that this process may use.
pub fn is_initialized() -> bool {
    with(|_, client| client.is_initialized()).unwrap_or(false)
}

/// Returns whether there is a client, be it that of the process which this one was forked from.
pub fn is_inherited() -> bool {
    with(|_, _| ()).is_ok()
}

/// Result of an Init.
pub struct Entered {
    /// The client that every call uses from now on.
    pub client: Arc<Client>,
    /// Status that Init returns.
    pub status: Status,
    /// True if the client was there before.
    pub again: bool,
}

/// Takes part in the client, making it if need be.
///
/// Without a launcher this process becomes a job of its own. It is initialised then, and nevertheless answers
/// `ERR_UNREACH`: MPI libraries know by it that they are alone.
///
/// # Errors
/// When there is a launcher and its server cannot be had.
pub fn enter(info: &[Info]) -> Result<Entered, Status> {
    let mut inits = INITS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(client) = client() {
        check_directives(info).map_err(refused)?;
        *inits += 1;
        let status = if client.is_alone() { Status::ERR_UNREACH } else { Status::SUCCESS };
        return Ok(Entered { client, status, again: true });
    }
    let (client, status) = match Client::init(info) {
        Ok(client) => (client, Status::SUCCESS),
        Err(InitError::Singleton) => (Client::singleton().map_err(refused)?, Status::ERR_UNREACH),
        Err(error) => return Err(refused(error)),
    };
    let client = publish(Arc::new(client));
    *inits = 1;
    Ok(Entered { client, status, again: false })
}

/// Makes a client the one of the process.
fn publish(client: Arc<Client>) -> Arc<Client> {
    // The former client is a parent's: freeing it would join a thread that this process does not have.
    CURRENT.put(client.clone());
    client
}

fn refused(error: InitError) -> Status {
    instanton::trace!("no connection to a server: {error}");
    error.status()
}

/// Has a client that has just begun know something of itself.
fn know(client: &Client, key: &str, value: Value) {
    let _ = client.store_internal(client.proc(), key, value);
}

/// Has a client know the address of the server in this process.
pub fn know_address(client: &Client, key: &str, server: &Server) {
    if let Some(uri) = server.uri() {
        know(client, key, Value::string(uri.to_string()));
    }
}

/// Takes part in the client for a server in this process: if need be, the program gets one whose requests that server serves.
///
/// # Errors
/// When the system refuses a thread.
pub fn enter_as_server(server: &Server) -> Result<(), Status> {
    let mut inits = INITS.lock().unwrap_or_else(PoisonError::into_inner);
    if client().is_err() {
        let client = publish(Arc::new(Client::in_process(server).map_err(refused)?));
        know(&client, keys::HOSTNAME, Value::String(Some(server.hostname().clone())));
        know_address(&client, keys::SERVER_URI, server);
        know_address(&client, keys::MYSERVER_URI, server);
        *inits = 0;
    }
    *inits += 1;
    Ok(())
}

fn tools() -> MutexGuard<'static, Option<Arc<Tool>>> {
    TOOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tool that this process is already. One that a forked child finds is its parent's.
fn known_tool() -> Option<Arc<Tool>> {
    tools().as_ref().filter(|tool| tool.primary().is_initialized()).cloned()
}

/// The tool that this process is, made of its client if need be: every initialised process may attach to servers.
fn tool() -> Result<Arc<Tool>, Status> {
    let client = client()?;
    let _inits = INITS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tool) = known_tool() {
        return Ok(tool);
    }
    let tool = Arc::new(Tool::around(client));
    // A parent's is left alone for ever, as its client is.
    std::mem::forget(tools().replace(tool.clone()));
    Ok(tool)
}

/// Takes part in the client as a tool, making it if need be.
///
/// # Errors
/// When there is no server, and there must be one; `ERR_BAD_PARAM` for another name than the process has, and for
/// directives that contradict those of the first init.
pub fn enter_as_tool(info: &[Info]) -> Result<Arc<Client>, Status> {
    let mut inits = INITS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(client) = client() {
        let name = info.find(keys::TOOL_NSPACE).and_then(|info| info.value.as_bytes());
        let rank = info.find(keys::TOOL_RANK).and_then(|info| info.value.as_rank());
        let proc = client.proc();
        if name.is_some_and(|name| name != proc.nspace.as_bytes()) || rank.is_some_and(|rank| rank != proc.rank) {
            return Err(Status::ERR_BAD_PARAM);
        }
        Tool::check(known_tool().as_deref(), info).map_err(refused)?;
        *inits += 1;
        return Ok(client);
    }
    let tool = Arc::new(Tool::init(info).map_err(refused)?);
    let client = publish(tool.primary());
    std::mem::forget(tools().replace(tool));
    *inits = 1;
    Ok(client)
}

/// Does something with the tool, and has every call go to its primary server from then on.
fn turn<T>(what: impl FnOnce(&Tool) -> Result<T, Status>) -> Result<T, Status> {
    let tool = tool()?;
    let result = what(&tool);
    let _inits = INITS.lock().unwrap_or_else(PoisonError::into_inner);
    let primary = tool.primary();
    if CURRENT.with(|_, current| Arc::ptr_eq(current, &primary)) == Some(false) {
        CURRENT.replace(primary);
    }
    result
}

/// Attaches to one more server. Returns the names of this process and of that server.
///
/// # Errors
/// `ERR_INIT` before an init; why there is no such server to be had.
pub fn attach(info: &[Info]) -> Result<(Proc, Proc), Status> {
    turn(|tool| Ok((tool.proc().clone(), tool.attach(info).map_err(refused)?)))
}

/// Ends the connection to a server.
///
/// # Errors
/// `ERR_NOT_FOUND` where there is none.
pub fn disconnect(server: &Proc) -> Result<(), Status> {
    turn(|tool| told(tool.disconnect(server)))
}

/// Makes a server the primary one. To a launcher that this process has started there is a connection as soon as that
/// has come to it.
///
/// # Errors
/// `ERR_UNREACH` where there is no connection to it.
pub fn set_server(server: &Proc, info: &[Info]) -> Result<(), Status> {
    turn(|tool| {
        let own = [tool.proc().nspace.as_bytes(), b"@"].concat();
        let launcher = running::launcher().filter(|_| server.nspace.as_bytes().starts_with(&own));
        told(match launcher {
            Some(launcher) => tool.set_launcher(server, info, || launcher.pid_of(server)),
            None => tool.set_server(server, info),
        })
    })
}

/// A process has come to the server in this process, or one that this process has started has ended.
pub fn look_again() {
    if let Some(tool) = known_tool() {
        tool.look_again();
    }
}

/// The servers that this process is attached to, the primary one first.
///
/// # Errors
/// `ERR_INIT` before an init.
pub fn servers() -> Result<Vec<Proc>, Status> {
    Ok(tool()?.servers())
}

/// Tells the event handlers of a launcher that a job is over which it has started.
pub fn job_ended(job: JobEnd) {
    look_again();
    let Ok(client) = client() else { return };
    if job.is_silent && job.status == Status::SUCCESS {
        return;
    }
    let info = [
        Info::new(keys::EVENT_AFFECTED_PROC, Proc::new(job.nspace.clone(), Rank::WILDCARD)),
        Info::new(keys::JOB_TERM_STATUS, job.status),
        Info::new(keys::EXIT_CODE, Value::Int(job.exit_code)),
        Info::new(keys::EVENT_NON_DEFAULT, true),
    ];
    let told = client.notify_event(Status::EVENT_JOB_END, client.proc(), DataRange::PROC_LOCAL, &info).then(|_| ());
    if let Err(error) = told {
        instanton::trace!("nobody is told that the job {} is over: {error}", job.nspace);
    }
}

/// Tells the event handlers of a server's program that a client is gone without a word.
pub fn lost_connection(proc: &Proc) {
    let Ok(client) = client() else { return };
    let affected = [Info::new(keys::EVENT_AFFECTED_PROC, proc.clone())];
    let told = client.notify_event(Status::ERR_LOST_CONNECTION, proc, DataRange::PROC_LOCAL, &affected).then(|_| ());
    if let Err(error) = told {
        instanton::trace!("nobody is told that {proc} is gone: {error}");
    }
}

/// Gives one Init back; the last one ends the client.
///
/// # Errors
/// `ERR_INIT` without an Init, `ERR_NOT_SUPPORTED` for an attribute that is required and unknown, and what the
/// client's own end says.
pub fn leave(info: &[Info]) -> Result<(), Status> {
    let client = client()?;
    check_finalize(info)?;
    {
        let mut inits = INITS.lock().unwrap_or_else(PoisonError::into_inner);
        if *inits > 1 {
            *inits -= 1;
            return Ok(());
        }
    }
    let ended = match known_tool() {
        Some(tool) => tool.finalize(info),
        None => client.finalize(info),
    };
    if let Err(error @ Error::WouldBlock { .. }) = ended {
        return Err(error.status());
    }
    let _inits = INITS.lock().unwrap_or_else(PoisonError::into_inner);
    if CURRENT.with(|_, current| Arc::ptr_eq(current, &client)) == Some(true) {
        CURRENT.clear();
        tools().take();
        kept::forget();
    }
    told(ended)
}
