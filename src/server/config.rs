//! How a server is to run, and why one does not start.
use std::path::PathBuf;
use std::time::Duration;

use crate::data::{Nspace, Rank, Status, Text};

/// How a server is to run. `ServerConfig::default()` is good for one machine.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The server's own name.
    pub nspace: Nspace,
    /// Its rank among the servers of its namespace.
    pub rank: Rank,
    /// This node's name, as the node maps have it; the system's own by default.
    pub hostname: Text,
    /// Directory for the path socket, and what clients learn as `PMIX_SERVER_TMPDIR`; the system's temporary directory by default.
    pub tmpdir: PathBuf,
    /// What clients learn as `PMIX_SYSTEM_TMPDIR`; the system's temporary directory by default.
    pub system_tmpdir: PathBuf,
    /// Whether to open a path socket beside the abstract one, for clients in other network namespaces.
    pub path_socket: bool,
    /// Most bytes of shared memory, over all jobs; none by default.
    pub memory_limit: Option<u64>,
    /// How long a client waits for the host's word in Init; without it, it is refused.
    pub host_answer_deadline: Duration,
    /// How long a client waits for the host's word in Finalize; then it goes without, as clients of stock libraries do.
    pub host_farewell_deadline: Duration,
    /// How long a Get waits for a key of a local process when its caller sets no limit.
    pub get_patience: Duration,
    /// Whether tools may attach, and which; none by default.
    pub tools: Option<ToolSupport>,
    /// A file for the address that tools attach to, for as long as the server runs; none by default.
    pub uri_file: Option<PathBuf>,
    /// Whether output that the host delivers is written to this process's own; not by default.
    pub local_output: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        let hostname = nix::unistd::gethostname().unwrap_or_else(|_| "localhost".into());
        let tmpdir = std::env::temp_dir();
        ServerConfig {
            nspace: name_of_its_own(&hostname.to_string_lossy()),
            rank: Rank(0),
            hostname: Text::new(hostname.as_encoded_bytes()).expect("the system gives no NUL"),
            system_tmpdir: tmpdir.clone(),
            tmpdir,
            path_socket: false,
            memory_limit: None,
            host_answer_deadline: Duration::from_secs(30),
            host_farewell_deadline: Duration::from_secs(2),
            get_patience: Duration::from_secs(2),
            tools: None,
            uri_file: None,
            local_output: false,
        }
    }
}

/// A name that no other server has, here or on another node: servers know by it what comes from whom.
fn name_of_its_own(host: &str) -> Nspace {
    // Without randomness no server starts.
    let random = u32::from_ne_bytes(crate::sys::random::bytes().unwrap_or_default());
    let name = format!("instanton-server.{host}.{}.{random:08x}", std::process::id());
    Nspace::new(name).expect("the name of a host is short")
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The system refuses something it cannot do without.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}

impl From<ServerError> for Status {
    fn from(_: ServerError) -> Status {
        Status::ERR_INIT
    }
}

/// What a server does for tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolSupport {
    /// Whether it is the system's own server, which tools can ask for as such.
    pub is_system: bool,
    /// The process that users know the server by; the one it lives in by default.
    pub pid: Option<i32>,
    /// Whether tools of other users are let in where the host agrees. Only root's and the server's own are otherwise.
    pub allows_foreign: bool,
}
