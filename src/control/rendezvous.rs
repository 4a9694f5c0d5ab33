//! The way of a tool to a server that has not started it.
//!
//! A server that accepts tools listens on one more abstract socket, whose name says whom it belongs to:
//! `instanton-tools-PID-NAME-RANDOM`, or `instanton-system-PID-NAME-RANDOM` for the system's own server; `NAME` is the
//! server's own, `NSPACE.RANK`, and is left out where it does not fit in. The kernel's table of Unix sockets is the
//! list of all such servers: there is no file to write, to find stale or to clean up, and a server that is killed is
//! gone from it at once. Anybody can take such a name, so a tool looks at who is behind the socket before it says
//! anything; nobody can keep a server from having one, because nobody knows its random part beforehand.
//!
//! [`Uri`] is the same as one text, for whoever is told where to go: `NSPACE.RANK;instanton:NAME`.
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

use crate::data::{DataArray, Info, Nspace, Proc, Rank, Value, keys};
use crate::trace;

/// The kernel's table of Unix sockets in this process's network namespace.
const TABLE: &str = "/proc/net/unix";
/// Flag of a socket that listens, in the kernel's table.
const LISTENS: u32 = 1 << 16;
/// Prefixes of the names of sockets for tools.
const OF_SESSION: &str = "instanton-tools-";
const OF_SYSTEM: &str = "instanton-system-";

/// Most bytes before the random part of a name: there are 107, and that part has 32 of them.
const MAX_PREFIX: usize = 75;

/// The beginning of the name of a server's socket for tools; what follows is random.
pub fn prefix(pid: i32, is_system: bool, server: &Proc) -> String {
    let of = if is_system { OF_SYSTEM } else { OF_SESSION };
    let anonymous = format!("{of}{pid}-");
    let named = format!("{anonymous}{}.{}-", server.nspace, server.rank.0);
    // In the kernel's table, a space ends a name, and an `@` may stand for a NUL as well.
    let is_plain = server.nspace.as_bytes().iter().all(u8::is_ascii_graphic);
    if is_plain && named.len() <= MAX_PREFIX { named } else { anonymous }
}

/// A server that accepts tools, as its socket's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Name in the abstract socket namespace.
    pub name: String,
    /// The process that users know it by.
    pub pid: i32,
    /// True if it is the system's server.
    pub is_system: bool,
    /// The server's own name, where it is said.
    pub server: Option<Proc>,
}

impl Listed {
    fn parse(name: &str) -> Option<Self> {
        let (rest, is_system) = match name.strip_prefix(OF_SYSTEM) {
            Some(rest) => (rest, true),
            None => (name.strip_prefix(OF_SESSION)?, false),
        };
        let (pid, rest) = rest.split_once('-')?;
        let server = rest.rsplit_once('-').and_then(|(server, _)| named(server));
        Some(Listed { name: name.to_owned(), pid: pid.parse().ok()?, is_system, server })
    }

    /// Returns user and group of its process. Where the process is not seen from here, that is not known.
    fn owner(&self) -> Option<(u32, u32)> {
        let process = fs::metadata(format!("/proc/{}", self.pid)).ok()?;
        Some((process.uid(), process.gid()))
    }

    /// Attributes of all that is known of the server (`PMIX_SERVER_INFO_ARRAY`).
    fn info(&self) -> Info {
        let mut known = Vec::new();
        if let Some(server) = &self.server {
            known.push(Info::new(keys::SERVER_NSPACE, Value::string(server.nspace.as_bytes())));
            known.push(Info::new(keys::SERVER_RANK, server.rank));
        }
        known.push(Info::new(keys::SERVER_PIDINFO, self.pid as u32));
        if let Some((uid, gid)) = self.owner() {
            known.extend([Info::new(keys::USERID, uid), Info::new(keys::GRPID, gid)]);
        }
        if let Some(server) = &self.server {
            let uri = Uri { server: server.clone(), name: self.name.clone() };
            known.push(Info::new(keys::SERVER_URI, uri.to_string().as_str()));
        }
        Info::new(keys::SERVER_INFO_ARRAY, Value::DataArray(DataArray::of_info(known)))
    }
}

/// Returns the user of a process.
pub fn user_of(pid: i32) -> Option<u32> {
    let about = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = about.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A server's own name, as one text.
fn named(text: &str) -> Option<Proc> {
    let (nspace, rank) = text.rsplit_once('.')?;
    Some(Proc::new(Nspace::new(nspace).ok()?, Rank(rank.parse().ok()?)))
}

/// Returns the answer to a query for servers that one could attach to (`PMIX_QUERY_AVAIL_SERVERS`): an attribute for
/// each of this user's or root's, and for root of everybody's, but none of this process.
pub fn available() -> Vec<Info> {
    let own = nix::unistd::geteuid().as_raw();
    let is_for_me = |server: &Listed| {
        server.pid != std::process::id() as i32
            && (own == 0 || server.owner().is_none_or(|(uid, _)| uid == 0 || uid == own))
    };
    match servers() {
        Ok(all) => all.iter().filter(|server| is_for_me(server)).map(Listed::info).collect(),
        Err(error) => {
            trace!("the list of servers cannot be read: {error}");
            Vec::new()
        }
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

/// Address of a server, as one text.
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
    /// The URI is of no form that is known.
    #[error("{0:?} is not of the form NSPACE.RANK;PROTOCOL:ADDRESS")]
    Form(String),
    /// The URI is of another protocol.
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
        let server = named(server).ok_or_else(form)?;
        match address.strip_prefix(PROTOCOL) {
            Some(name) if !name.is_empty() => Ok(Uri { server, name: name.to_owned() }),
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
        let expected = |name: &str, pid, is_system| Listed { name: name.into(), pid, is_system, server: None };
        assert_eq!(found, [expected("instanton-tools-17-ab", 17, false), expected("instanton-system-1-cd@", 1, true)]);
    }

    #[test]
    fn the_name_of_a_socket_says_which_server_it_is() {
        let server = |nspace: &str| Proc::new(Nspace::new(nspace).unwrap(), Rank(3));
        let name = prefix(17, false, &server("a-b@0.1"));
        assert_eq!(name, "instanton-tools-17-a-b@0.1.3-");
        let listed = Listed::parse(&(name + "0123")).unwrap();
        assert_eq!((listed.pid, listed.server), (17, Some(server("a-b@0.1"))));
        for unfit in ["a b", "n".repeat(60).as_str()] {
            assert_eq!(prefix(1, true, &server(unfit)), "instanton-system-1-", "{unfit}");
        }
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
