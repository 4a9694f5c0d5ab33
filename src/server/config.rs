//! Configuration of a server, and the errors of its start.
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nix::unistd::SysconfVar;

use super::stock_places::{StockInterfaces, StockPorts};
use crate::data::{Nspace, Rank, Status, Text};

/// Least of the limits of a job that nobody has set.
const LEAST_JOB_MEMORY: u64 = 1 << 30;
/// Part of the machine's memory that is such a limit: jobs of a whole machine post gigabytes on nodes that have hundreds.
const PART_OF_MACHINE: u64 = 16;
/// Number of jobs whose limits are that of a user which nobody has set.
const JOBS_OF_USER: u64 = 4;
/// Variable of a server's environment that says otherwise.
const JOB_MEMORY_VARIABLE: &str = "INSTANTON_JOB_MEMORY";
/// Environment variable that closes the door of stock clients.
const STOCK_CLIENTS_VARIABLE: &str = "INSTANTON_STOCK_CLIENTS";

/// Configuration of a server. `ServerConfig::default()` is good for one machine.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The server's own name.
    pub nspace: Nspace,
    /// Its rank among the servers of its namespace.
    pub rank: Rank,
    /// This node's name, as the node maps have it; the system's own by default.
    pub hostname: Text,
    /// Directory for the path socket, and what clients learn as `PMIX_SERVER_TMPDIR`; the system's
    /// temporary directory by default.
    pub tmpdir: PathBuf,
    /// True if that directory is this server's alone, and goes with it whatever ends it.
    pub own_tmpdir: bool,
    /// Directory that clients learn as `PMIX_SYSTEM_TMPDIR`; the system's temporary directory by default.
    pub system_tmpdir: PathBuf,
    /// True if a path socket is opened beside the abstract one, for clients in other network namespaces.
    pub path_socket: bool,
    /// Most bytes of shared memory, over all jobs; none by default.
    pub memory_limit: Option<u64>,
    /// Most bytes that the processes of one job make the server hold: requests that wait, answers that they have not read and what
    /// they registered. One process may hold half of it. The job's shared memory may be as much again, what waits for its readers
    /// included; both together half as much again as this. By default the value of `INSTANTON_JOB_MEMORY`, such as `128M`, or else a sixteenth of the machine's
    /// memory, and 1 GiB at least.
    pub job_memory: u64,
    /// Most bytes that all jobs and tools of one user make the server hold together; four times [`job_memory`] where
    /// that is not said.
    ///
    /// [`job_memory`]: Self::job_memory
    pub user_memory: Option<u64>,
    /// Time for the host's word on a client in Init; a client that is without it by then is refused.
    pub host_answer_deadline: Duration,
    /// Time for the host's word on a client in Finalize; a client goes without it then, as clients of stock libraries
    /// do.
    pub host_farewell_deadline: Duration,
    /// Time that a Get waits for a key of a local process when its caller sets no limit.
    pub get_patience: Duration,
    /// True if processes that bring a stock library of the Standard are let in through a loopback port; so by default, unless
    /// `INSTANTON_STOCK_CLIENTS` is `off`.
    pub stock_clients: bool,
    /// Ports on which they are let in.
    pub stock_ports: StockPorts,
    /// Interfaces on which those of other machines are let in, whose users munge vouches for; none by default, and
    /// there is nothing that another machine could reach then.
    pub stock_remote: Option<StockInterfaces>,
    /// True if processes that speak PMI-1 or PMI-2 are let in, whom their launcher connects; not by default.
    #[cfg(feature = "pmi")]
    pub pmi: bool,
    /// True if the server lives in the process of its only client, and a host serves the node.
    #[doc(hidden)]
    pub one_client: bool,
    /// False if heartbeats and files are the host's to monitor; true by default (`PMIX_SERVER_ENABLE_MONITORING`).
    pub monitoring: bool,
    /// Support of tools; none by default, and no tool may attach then.
    pub tools: Option<ToolSupport>,
    /// A file for the address that tools attach to, for as long as the server runs; none by default.
    pub uri_file: Option<PathBuf>,
    /// True if output that the host delivers is written to this process's own; not by default.
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
            own_tmpdir: false,
            path_socket: false,
            memory_limit: None,
            job_memory: job_memory_of_environment().ok().flatten().unwrap_or_else(|| part_of(memory_of_machine())),
            user_memory: None,
            host_answer_deadline: Duration::from_secs(30),
            host_farewell_deadline: Duration::from_secs(2),
            get_patience: Duration::from_secs(2),
            stock_clients: std::env::var_os(STOCK_CLIENTS_VARIABLE).is_none_or(|value| value != "off"),
            stock_ports: StockPorts::default(),
            stock_remote: None,
            #[cfg(feature = "pmi")]
            pmi: false,
            one_client: false,
            monitoring: true,
            tools: None,
            uri_file: None,
            local_output: false,
        }
    }
}

impl ServerConfig {
    /// Returns the limit of a user.
    pub(super) fn memory_of_user(&self) -> u64 {
        self.user_memory.unwrap_or_else(|| self.job_memory.saturating_mul(JOBS_OF_USER))
    }
}

/// Reads an amount of memory: bytes, or with `K`, `M`, `G` or `T` behind it so many times 1024 of them; none where it is no such
/// amount, or 0.
pub fn parse_memory(text: &str) -> Option<u64> {
    let units = ["K", "M", "G", "T"];
    let unit = units.iter().position(|unit| text.ends_with(unit) || text.ends_with(&unit.to_lowercase()));
    let number = unit.map_or(text, |_| &text[..text.len() - 1]);
    let shift = unit.map_or(0, |unit| 10 * (unit as u32 + 1));
    // `parse` would take a sign.
    let number: u64 = number.parse().ok().filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

/// Returns the limit of a job that nobody has set, on a machine with so much memory.
fn part_of(machine: u64) -> u64 {
    LEAST_JOB_MEMORY.max(machine / PART_OF_MACHINE)
}

/// Returns the memory of this machine in bytes, 0 where the system does not say.
fn memory_of_machine() -> u64 {
    let amount = |variable| nix::unistd::sysconf(variable).ok().flatten().map_or(0, |amount| amount.max(0) as u64);
    amount(SysconfVar::_PHYS_PAGES).saturating_mul(amount(SysconfVar::PAGE_SIZE))
}

/// Returns the amount that the environment sets, if it sets one.
///
/// # Errors
/// [`ServerError::Setting`] for one that is none.
pub(super) fn job_memory_of_environment() -> Result<Option<u64>, ServerError> {
    let Some(text) = std::env::var_os(JOB_MEMORY_VARIABLE) else { return Ok(None) };
    let bytes = text.to_str().and_then(parse_memory);
    let value = || text.to_string_lossy().into_owned();
    bytes.map(Some).ok_or_else(|| ServerError::Setting { variable: JOB_MEMORY_VARIABLE, value: value() })
}

/// A name that no other server has, here or on another node: servers know by it what comes from whom.
fn name_of_its_own(host: &str) -> Nspace {
    // Without randomness no server starts.
    let random = u32::from_ne_bytes(crate::sys::random::bytes().unwrap_or_default());
    let name = format!("instanton-server.{host}.{}.{random:08x}", std::process::id());
    Nspace::new(name).expect("the name of a host is short")
}

/// Reason why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The system refuses something it cannot do without.
    #[error("cannot {what}: {source}")]
    System {
        /// Operation that was tried.
        what: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The port for stock clients cannot be had at an address.
    #[error("cannot listen for stock clients at {place}: {source}")]
    Port {
        /// The address and the port.
        place: SocketAddr,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A list of interfaces names what is not there.
    #[error("{attribute}={value}: {reason}")]
    Interfaces {
        /// Attribute that has the list.
        attribute: &'static str,
        /// The list, or the part of it that is at fault.
        value: String,
        /// Reason why it will not do.
        reason: &'static str,
    },
    /// A variable of the environment holds something that it cannot.
    #[error("{variable}={value}: not an amount of memory, such as 134217728 or 128M")]
    Setting {
        /// Name of the variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
}

impl From<ServerError> for Status {
    fn from(_: ServerError) -> Status {
        Status::ERR_INIT
    }
}

/// Support of tools by a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolSupport {
    /// True if it is the system's own server, which tools can ask for as such.
    pub is_system: bool,
    /// The process that users know the server by; the one it lives in by default.
    pub pid: Option<i32>,
    /// True if tools of other users are let in where the host agrees. Only root's and the server's own are otherwise.
    pub allows_foreign: bool,
    /// True if no file leads tools on a stock library here. Where files of several servers lie below one directory, such
    /// a tool gives up, unless it is told which server it is to go to.
    pub without_files: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_nobody_sets_is_a_part_of_the_machine() {
        assert_eq!(part_of(256 << 30), 16 << 30);
        assert_eq!(part_of(0), 1 << 30);
        assert!(memory_of_machine() > 0);
    }

    #[test]
    fn amounts_of_memory_are_read_whole_or_not_at_all() {
        assert_eq!(parse_memory("134217728"), Some(128 << 20));
        assert_eq!((parse_memory("128M"), parse_memory("2g")), (Some(128 << 20), Some(2 << 30)));
        let bad = ["", "M", "0", "-1", "+1", "1.5G", "128MB", "1 M", "99999999T", "99999999999999999999"];
        bad.iter().for_each(|text| assert_eq!(parse_memory(text), None, "{text:?}"));
    }
}
