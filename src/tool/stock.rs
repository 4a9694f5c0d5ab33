//! Stock servers as places for a tool: by an address, or by the files that they leave for tools.
//!
//! Servers of this library come first, and the files are looked at where none of them is the one that is meant.
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::find::{Place, Wish};
use crate::client::{Client, InitError};
use crate::data::{Info, Value, keys};
use crate::trace;
use crate::upstream::contacts::{self, Contact};
use crate::upstream::{Identity, StockAddress};

/// Reads an address of a stock server; none where it is none.
pub(super) fn address(text: &str) -> Option<Place> {
    StockAddress::parse(text.trim_end(), b"").ok().map(Place::Stock)
}

/// Reads a file with the address of a stock server; none where it has none.
pub(super) fn file(path: &str) -> Option<Place> {
    contacts::read(Path::new(path)).ok().map(|contact| Place::Stock(contact.address))
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
}

impl Wish {
    /// Tries the stock servers that have files and are meant by a place; `failed` says why it has no other server.
    pub(super) fn search_files(
        &self,
        place: &Place,
        failed: InitError,
        first: Option<&Client>,
    ) -> Result<Client, InitError> {
        let is_root = nix::unistd::geteuid().is_root();
        let of_session = |anybodys, wanted: &dyn Fn(&Contact) -> bool| {
            let mut found = contacts::below(&self.directories.of_session, anybodys);
            found.retain(wanted);
            found
        };
        let (named, found) = match place {
            Place::System | Place::SystemFirst => (false, contacts::of_system(&self.directories.of_system)),
            Place::Process(pid) => (true, of_session(is_root, &|contact| contact.pid == Some(*pid))),
            Place::Named(nspace) => (false, of_session(false, &|contact| contact.address.server.nspace == *nspace)),
            _ => (false, of_session(false, &|contact| contact.pid != Some(std::process::id() as i32))),
        };
        let mut failed = failed;
        for Contact { address, .. } in found {
            match self.join(&address, named, first) {
                Ok(client) => return Ok(client),
                Err(error) => {
                    trace!("{}: {error}", address.uri);
                    // Whoever does not want this tool says more than who is not there.
                    if !matches!(failed, InitError::NotAdmitted { .. } | InitError::ForeignServer { .. }) {
                        failed = error;
                    }
                }
            }
        }
        Err(failed)
    }

    /// Attaches to a stock server.
    pub(super) fn join(
        &self,
        address: &StockAddress,
        named: bool,
        first: Option<&Client>,
    ) -> Result<Client, InitError> {
        let proc = first.map(Client::proc).or(self.proc.as_ref()).cloned();
        let info = self.hints.iter().filter(|hint| hint.key != keys::TIMEOUT).cloned().chain(about_us()).collect();
        let who = Identity::Tool { proc, named, info };
        Client::join(address, &who, &self.hints, first).map_err(|error| match error {
            InitError::NotAvailable(problem) => InitError::NoServer(problem),
            other => other,
        })
    }
}

/// What every tool says of itself. A launcher takes it for granted: `prterun` of 5.0.11 dies of a tool without a
/// command line.
fn about_us() -> [Info; 2] {
    let words: Vec<Vec<u8>> = env::args_os().map(OsString::into_vec).collect();
    let line = words.join(&b' ');
    [Info::new(keys::PROC_PID, Value::Pid(std::process::id() as i32)), Info::new(keys::CMD_LINE, Value::string(line))]
}
