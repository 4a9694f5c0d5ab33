//! The one server of this process: calls of every kind find it here.
//!
//! Init and finalize put it in and take it out under the lock's writing side; calls clone the reference to it and give
//! the lock back, so that a call that waits keeps nobody out.
use std::sync::{Arc, PoisonError, RwLock};

use instanton::client::Client;
use instanton::data::Status;
use instanton::launch::Launcher;
use instanton::server::{Host, Server};

/// The server of this process, and what belongs to it.
pub struct Running {
    pub server: Arc<Server>,
    /// Number of inits that wait for their finalize.
    pub inits: usize,
    /// Client through which the tool that it belongs to, and ends with, gets the events of its processes.
    pub of_tool: Option<Client>,
    /// The program's own functions.
    pub host: Arc<dyn Host>,
    /// True if the program's own logs are shown here (`PMIX_SERVER_GATEWAY`).
    pub is_gateway: bool,
    /// True if it is still to be given its host's functions.
    pub is_bare: bool,
    /// Launcher of the processes of jobs here, where that tool is one.
    pub launcher: Option<Arc<Launcher>>,
}

/// The server of this process; none before `PMIx_server_init` and after the last `PMIx_server_finalize`.
pub static SERVER: RwLock<Option<Running>> = RwLock::new(None);

/// Returns the server of this process.
///
/// # Errors
/// `ERR_INIT` before `PMIx_server_init`.
pub fn server() -> Result<Arc<Server>, Status> {
    let running = SERVER.read().unwrap_or_else(PoisonError::into_inner);
    running.as_ref().map(|running| running.server.clone()).ok_or(Status::ERR_INIT)
}

/// Returns the launcher in this process, where it is one.
pub fn launcher() -> Option<Arc<Launcher>> {
    let running = SERVER.read().unwrap_or_else(PoisonError::into_inner);
    running.as_ref().and_then(|running| running.launcher.clone())
}

/// Returns whether the server of this process is one that a tool is as well.
pub fn is_of_tool() -> bool {
    let running = SERVER.read().unwrap_or_else(PoisonError::into_inner);
    running.as_ref().is_some_and(|running| running.of_tool.is_some())
}

/// Returns the functions of the program whose server this is, where `client` is its own.
pub fn own_host(client: &Client) -> Option<Arc<dyn Host>> {
    let running = SERVER.read().unwrap_or_else(PoisonError::into_inner);
    let running = running.as_ref().filter(|running| running.of_tool.is_none() && !client.is_alone());
    running.filter(|_| client.server().is_none()).map(|running| running.host.clone())
}

/// Returns the server, where this process is one that shows what its program logs.
pub fn gateway() -> Option<Arc<Server>> {
    let running = SERVER.read().unwrap_or_else(PoisonError::into_inner);
    running.as_ref().filter(|running| running.is_gateway).map(|running| running.server.clone())
}
