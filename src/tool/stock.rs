//! Stock servers that a tool may go to: by an address, or by the files that they leave for tools.
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::client::{Client, InitError};
use crate::data::{Info, Proc, Value, keys};
use crate::upstream::contacts;
pub(super) use crate::upstream::contacts::{Contact, Directories};
use crate::upstream::{Identity, StockAddress};

/// Reads an address of a stock server; none where it is none.
pub(super) fn address(text: &str) -> Option<StockAddress> {
    StockAddress::parse(text.trim_end(), b"").ok()
}

/// Reads a file with the address of a stock server; none where it has none.
pub(super) fn file(path: &str) -> Option<StockAddress> {
    contacts::read(Path::new(path)).ok().map(|contact| contact.address)
}

/// A tool that wants in.
#[derive(Debug)]
pub(super) struct Visitor {
    /// The process that it is or wants to be.
    pub(super) proc: Option<Proc>,
    /// True if no other server will do.
    pub(super) named: bool,
    /// True if it is a launcher.
    pub(super) is_launcher: bool,
}

/// Attaches to a stock server.
pub(super) fn join(
    address: &StockAddress,
    visitor: Visitor,
    hints: &[Info],
    first: Option<&Client>,
) -> Result<Client, InitError> {
    let info = hints.iter().filter(|hint| hint.key != keys::TIMEOUT).cloned().chain(about_us()).collect();
    let Visitor { proc, named, is_launcher } = visitor;
    let who = Identity::Tool { proc, named, is_launcher, info };
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
