//! Stock servers that a tool may go to: by an address, or by the files that they leave for tools.
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::client::{Client, InitError};
use crate::data::{Info, Nspace, Proc, Value, keys};
use crate::upstream::contacts;
pub(super) use crate::upstream::contacts::Contact;
use crate::upstream::{Identity, StockAddress};

/// Reads an address of a stock server; none where it is none.
pub(super) fn address(text: &str) -> Option<StockAddress> {
    StockAddress::parse(text.trim_end(), b"").ok()
}

/// Reads a file with the address of a stock server; none where it has none.
pub(super) fn file(path: &str) -> Option<StockAddress> {
    contacts::read(Path::new(path)).ok().map(|contact| contact.address)
}

/// Directories with files of servers.
#[derive(Debug)]
pub(super) struct Directories {
    of_session: PathBuf,
    of_system: PathBuf,
}

impl Directories {
    /// Those that attributes name, or else the environment.
    pub(super) fn new(of_session: Option<String>, of_system: Option<String>) -> Self {
        let variable = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let either = |named: Option<String>, name| {
            named.map(PathBuf::from).or_else(|| variable(name)).unwrap_or_else(env::temp_dir)
        };
        Directories {
            of_session: either(of_session, "PMIX_SERVER_TMPDIR"),
            of_system: either(of_system, "PMIX_SYSTEM_TMPDIR"),
        }
    }

    /// The servers of the system.
    pub(super) fn of_system(&self) -> Vec<Contact> {
        contacts::of_system(&self.of_system)
    }

    /// The servers in a process, whoever's it is where this one is root's.
    pub(super) fn of_process(&self, pid: i32) -> Vec<Contact> {
        self.wanted(nix::unistd::geteuid().is_root(), |contact| contact.pid == Some(pid))
    }

    /// The servers of that namespace.
    pub(super) fn of_namespace(&self, nspace: &Nspace) -> Vec<Contact> {
        self.wanted(false, |contact| contact.address.server.nspace == *nspace)
    }

    /// All servers but those in this process.
    pub(super) fn others(&self) -> Vec<Contact> {
        self.wanted(false, |contact| contact.pid != Some(std::process::id() as i32))
    }

    fn wanted(&self, anybodys: bool, wanted: impl Fn(&Contact) -> bool) -> Vec<Contact> {
        let mut found = contacts::below(&self.of_session, anybodys);
        found.retain(wanted);
        found
    }
}

/// Attaches to a stock server, as the process that the tool is or wants to be. `named` says that no other server will
/// do.
pub(super) fn join(
    address: &StockAddress,
    proc: Option<Proc>,
    named: bool,
    hints: &[Info],
    first: Option<&Client>,
) -> Result<Client, InitError> {
    let info = hints.iter().filter(|hint| hint.key != keys::TIMEOUT).cloned().chain(about_us()).collect();
    let who = Identity::Tool { proc, named, info };
    Client::join(address, &who, hints, first).map_err(|error| match error {
        InitError::NotAvailable(problem) => InitError::NoServer(problem),
        other => other,
    })
}

/// Attributes that every tool says of itself. A launcher takes it for granted: `prterun` of 5.0.11 dies of a tool
/// without a command line.
fn about_us() -> [Info; 2] {
    let words: Vec<Vec<u8>> = env::args_os().map(OsString::into_vec).collect();
    let line = words.join(&b' ');
    [Info::new(keys::PROC_PID, Value::Pid(std::process::id() as i32)), Info::new(keys::CMD_LINE, Value::string(line))]
}
