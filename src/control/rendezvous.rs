//! How a tool finds a server that it was not started by.
//!
//! A server that accepts tools listens on one more abstract socket, whose name says whom it belongs to:
//! `instanton-tools-PID-RANDOM`, or `instanton-system-PID-RANDOM` for the system's own server. The kernel's table of Unix sockets
//! is the list of all such servers: there is no file to write, to find stale or to clean up, and a server that is killed is
//! gone from it at once. Anybody can take such a name, so a tool looks at who is behind the socket before it says
//! anything; nobody can keep a server from having one, because nobody knows its random part beforehand.
//!
//! [`Uri`] is the same as one text, for whoever is told where to go: `NSPACE.RANK;instanton:NAME`.
use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use crate::data::{Nspace, Proc, Rank};

/// The kernel's table of Unix sockets in this process's network namespace.
const TABLE: &str = "/proc/net/unix";
/// How the kernel marks a socket that listens.
const LISTENS: u32 = 1 << 16;
/// What a name begins with.
const OF_SESSION: &str = "instanton-tools-";
const OF_SYSTEM: &str = "instanton-system-";

/// The beginning of the name of a server's socket for tools; what follows is random.
pub fn prefix(pid: i32, is_system: bool) -> String {
    let of = if is_system { OF_SYSTEM } else { OF_SESSION };
    format!("{of}{pid}-")
}

/// A server that accepts tools, as its socket's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Name in the abstract socket namespace.
    pub name: String,
    /// The process that users know it by.
    pub pid: i32,
    /// Whether it is the system's server.
    pub is_system: bool,
}

impl Listed {
    fn parse(name: &str) -> Option<Self> {
        let (rest, is_system) = match name.strip_prefix(OF_SYSTEM) {
            Some(rest) => (rest, true),
            None => (name.strip_prefix(OF_SESSION)?, false),
        };
        let (pid, _) = rest.split_once('-')?;
        Some(Listed { name: name.to_owned(), pid: pid.parse().ok()?, is_system })
    }
}

/// Every server in reach that accepts tools, in the kernel's order.
///
/// # Errors
/// When the kernel does not show its table.
pub fn servers() -> io::Result<Vec<Listed>> {
    // Names are bytes that anybody chooses.
    let table = fs::read(TABLE)?;
    Ok(listed(&String::from_utf8_lossy(&table)))
}

/// The servers in such a table: the sockets that listen, not those that they have accepted, which bear the same name.
fn listed(table: &str) -> Vec<Listed> {
    let listening = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let name = fields.nth(3)?.strip_prefix('@')?;
        if flags & LISTENS == 0 { None } else { Listed::parse(name) }
    };
    table.lines().filter_map(listening).collect()
}

/// Where a server is, as one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// The server's own name.
    pub server: Proc,
    /// Name of its socket for tools in the abstract socket namespace.
    pub name: String,
}

/// A text that says of no server of ours where it is.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadUri {
    /// It is of no form that is known.
    #[error("{0:?} is not of the form NSPACE.RANK;PROTOCOL:ADDRESS")]
    Form(String),
    /// It is of another protocol.
    #[error("{0:?} is an address of another protocol")]
    Protocol(String),
}

const PROTOCOL: &str = "instanton:";

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{};{PROTOCOL}{}", self.server.nspace, self.server.rank.0, self.name)
    }
}

impl FromStr for Uri {
    type Err = BadUri;

    fn from_str(text: &str) -> Result<Self, BadUri> {
        let form = || BadUri::Form(text.chars().take(64).collect());
        let (server, address) = text.trim_end().rsplit_once(';').ok_or_else(form)?;
        let (nspace, rank) = server.rsplit_once('.').ok_or_else(form)?;
        let nspace = Nspace::new(nspace).map_err(|_| form())?;
        let rank = Rank(rank.parse().map_err(|_| form())?);
        match address.strip_prefix(PROTOCOL) {
            Some(name) if !name.is_empty() => Ok(Uri { server: Proc::new(nspace, rank), name: name.to_owned() }),
            Some(_) => Err(form()),
            None => Err(BadUri::Protocol(address.chars().take(64).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_the_socket_that_listens() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            000: 00000002 00000000 00010000 0001 01 100 @instanton-tools-17-ab\n\
            000: 00000003 00000000 00000000 0001 03 101 @instanton-tools-17-ab\n\
            000: 00000002 00000000 00010000 0001 01 102 @instanton-system-1-cd@\n\
            000: 00000002 00000000 00010000 0001 01 103 /instanton-tools-18-ab\n\
            000: 00000002 00000000 00010000 0001 01 104 @instanton-tools-x-ab\n\
            000: 00000002 00000000 00010000 0001 01 105\n\
            000: 00000002 00000000 00010000 0001 01 106 @instanton-0123\n";
        let found = listed(table);
        let expected = |name: &str, pid, is_system| Listed { name: name.into(), pid, is_system };
        assert_eq!(found, [expected("instanton-tools-17-ab", 17, false), expected("instanton-system-1-cd@", 1, true)]);
        assert!(prefix(17, false) == "instanton-tools-17-" && prefix(1, true) == "instanton-system-1-");
    }

    #[test]
    fn a_uri_comes_back_as_it_was() {
        let server = Proc::new(Nspace::new("a.b;c@0").unwrap(), Rank(3));
        let uri = Uri { server, name: "instanton-tools-17-ab".into() };
        assert_eq!(uri.to_string(), "a.b;c@0.3;instanton:instanton-tools-17-ab");
        assert_eq!(format!("{uri}\n").parse(), Ok(uri));
        assert_eq!("s.0;tcp4://127.0.0.1:1".parse::<Uri>(), Err(BadUri::Protocol("tcp4://127.0.0.1:1".into())));
        for bad in ["", "x", "s;instanton:n", "s.x;instanton:n", "s.0;instanton:"] {
            assert_eq!(bad.parse::<Uri>(), Err(BadUri::Form(bad.into())), "{bad}");
        }
    }
}
