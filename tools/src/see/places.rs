//! Servers that one can look into: those of one's own user and, for root, everybody's.
//!
//! The kernel's table of sockets lists servers of this library, and files in the temporary directory those of the
//! reference implementation. A name of an `instanton up` is in its session directory.
use std::io;

use clap::Args;
use instanton::data::{Info, InfoList, Query, Text, Value, keys};
use instanton::internal::control::rendezvous::{self, Uri};
use instanton::internal::sys::socket::{self, Door};
use instanton::tool::Tool;
use nix::unistd::geteuid;
use serde::Serialize;

use super::patience::Whose;
use crate::args::as_said;
use crate::persistent::place;

/// Servers to look into.
#[derive(Clone, Debug, Args)]
pub struct From {
    /// Server to ask: the name of an `instanton up`, the process ID of a launcher or server, an address as --report-uri
    /// writes it, or file:PATH. By default every server of this user is asked, and for root those of all users
    #[arg(long = "in", value_name = "NAME|PID|ADDRESS", env = "INSTANTON_IN", hide_env_values = true)]
    inside: Option<String>,
}

/// Library of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Library {
    /// This project's.
    Instanton,
    /// The reference implementation, or a host on it.
    Stock,
}

/// A server that lets tools in.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// Its own name, where that is said.
    pub name: Option<String>,
    /// The process that its user knows it by.
    pub pid: Option<i32>,
    /// User that owns the process.
    pub uid: Option<u32>,
    /// Name of the `instanton up` that it belongs to.
    pub up: Option<String>,
    /// Its library.
    pub library: Library,
    /// Attributes of the way to it.
    #[serde(skip)]
    pub way: Vec<Info>,
    /// Its owner.
    #[serde(skip)]
    pub whose: Whose,
}

impl Server {
    /// A short name for a column.
    pub fn label(&self) -> String {
        match (&self.up, self.pid, &self.name) {
            (Some(up), ..) => up.clone(),
            (None, Some(pid), _) => pid.to_string(),
            (None, None, Some(name)) => name.clone(),
            (None, None, None) => "?".into(),
        }
    }

    /// The namespace that it shares with the servers of the other nodes of its run, and its place among them.
    fn place(&self) -> Option<(&str, u32)> {
        let (family, rank) = self.name.as_deref()?.rsplit_once(':')?;
        Some((family, rank.parse().ok()?))
    }

    /// The number of its node in its run, from 0.
    pub fn node(&self) -> Option<u32> {
        self.place().map(|(_, node)| node)
    }

    /// Returns whether another one serves a node of the same run, such as one of `instanton run --nodes`.
    pub fn is_of_run(&self, other: &Self) -> bool {
        self.place().zip(other.place()).is_some_and(|((family, _), (others, _))| family == others)
    }

    /// Returns whether another description is of the same server.
    pub fn is_same(&self, other: &Self) -> bool {
        self.way == other.way
    }

    /// Words for a line about it.
    pub fn words(&self) -> String {
        match (&self.up, self.pid, &self.name) {
            (Some(up), Some(pid), _) => format!("{up} (process {pid})"),
            (_, Some(pid), _) => format!("the server of process {pid}"),
            (_, None, Some(name)) => format!("the server {name}"),
            _ => "the server".into(),
        }
    }

    /// A server that is known by its address or file alone.
    pub(super) fn at(address: &str) -> Self {
        let library = if address.contains(";instanton:") { Library::Instanton } else { Library::Stock };
        let name = address.split_once(';').map(|(name, _)| name.to_owned());
        let way = vec![Info::new(keys::SERVER_URI, Value::string(address))];
        Self { name, pid: None, uid: None, up: None, library, way, whose: Whose::Own }
    }

    /// Returns whether it is of the user whose process its name says, who is noted. Anybody can take such a name.
    fn is_genuine(&mut self) -> bool {
        let uri = self.way.find(keys::SERVER_URI).and_then(|info| info.value.as_str()?.parse::<Uri>().ok());
        let (Some(uri), Some(pid)) = (uri, self.pid) else { return true };
        let peer = match socket::connect_at_once(&Door::Abstract(&uri.name)).map(|it| socket::peer(&it)) {
            Ok(Ok(peer)) => peer.uid,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.whose = Whose::Unknown;
                return true;
            }
            // It is gone.
            Ok(Err(_)) | Err(_) => return true,
        };
        self.whose = if peer == geteuid().as_raw() { Whose::Own } else { Whose::Others(peer) };
        peer == 0 || rendezvous::user_of(pid).is_none_or(|user| user == peer)
    }

    fn read(about: &[Info]) -> Option<Self> {
        let text = |key| about.find(key).and_then(|info| info.value.as_str());
        let number = |key| about.find(key).and_then(|info| info.value.as_i64());
        let pid = number(keys::SERVER_PIDINFO).and_then(|pid| i32::try_from(pid).ok());
        let rank = about.find(keys::SERVER_RANK).and_then(|info| info.value.as_rank());
        let name = text(keys::SERVER_NSPACE).zip(rank).map(|(nspace, rank)| format!("{nspace}:{rank}"));
        let (library, way) = match (text(keys::SERVER_URI), pid) {
            (Some(uri), _) => (Self::at(uri).library, vec![Info::new(keys::SERVER_URI, Value::string(uri))]),
            (None, Some(pid)) => (Library::Instanton, vec![Info::new(keys::SERVER_PIDINFO, Value::Pid(pid))]),
            (None, None) => return None,
        };
        let uid = number(keys::USERID).and_then(|uid| u32::try_from(uid).ok());
        Some(Self { name, pid, uid, up: None, library, way, whose: Whose::Own })
    }
}

impl From {
    /// The place that is named, if one is.
    pub fn named(&self) -> Option<String> {
        self.inside.clone().filter(|named| !named.is_empty())
    }

    /// The servers that are meant, without other nodes of a run; none where nothing is named and nothing is there.
    fn meant(&self) -> Result<Vec<Server>, String> {
        let Some(named) = self.named() else { return Ok(all()) };
        if named.starts_with("file:") || named.contains(';') {
            let mut server = Server::at(&named);
            if named.starts_with("file:") {
                (server.name, server.library) = (Some(named), Library::Instanton);
            }
            return Ok(vec![server]);
        }
        let found = all();
        let is_meant = |server: &&Server| {
            let by_name = server.name.as_deref().and_then(|name| name.rsplit_once(':'));
            let by_pid = server.pid.is_some_and(|pid| pid.to_string() == named);
            by_pid || server.up.as_deref() == Some(&named) || by_name.is_some_and(|(nspace, _)| nspace == named)
        };
        let meant: Vec<Server> = found.iter().filter(is_meant).cloned().collect();
        if meant.is_empty() {
            let (named, others) = (as_said(&named), found.iter().map(Server::words).collect::<Vec<_>>());
            return Err(match others.is_empty() {
                true => format!("{named}: no server of that name or process lets tools in, nor does any other"),
                false => {
                    format!("{named}: no server of that name or process lets tools in; there is {}", others.join(", "))
                }
            });
        }
        Ok(meant)
    }

    /// The servers that are meant, and those of the other nodes of a run whose first one is; none where nothing is named
    /// and nothing is there.
    ///
    /// # Errors
    /// A line that says what there is instead of what is named.
    pub fn servers(&self) -> Result<Vec<Server>, String> {
        let mut meant = self.meant()?;
        let firsts: Vec<Server> =
            meant.iter().filter(|server| matches!(server.place(), Some((_, 0)))).cloned().collect();
        if self.named().is_some() && !firsts.is_empty() {
            let others = all().into_iter().filter(|server| firsts.iter().any(|first| first.is_of_run(server)));
            let others: Vec<Server> =
                others.filter(|other| !firsts.iter().any(|first| first.place() == other.place())).collect();
            meant.extend(others);
        }
        Ok(meant)
    }
}

/// Every server that lets tools of this user in, by process.
fn all() -> Vec<Server> {
    // The list is the library's own; it needs no server.
    let alone = Tool::init(&[Info::new(keys::TOOL_DO_NOT_CONNECT, true)]);
    let key = Text::new(keys::QUERY_AVAIL_SERVERS).expect("a key has no NUL");
    let query = Query { keys: vec![key], qualifiers: Vec::new() };
    let Some((_, answers)) = alone.ok().and_then(|tool| tool.primary().query(&[query]).wait().ok()) else {
        return Vec::new();
    };
    let ups = place::named();
    let mut servers: Vec<Server> = answers
        .iter()
        .filter_map(|info| match &info.value {
            Value::DataArray(about) => Server::read(&about.infos().cloned().collect::<Vec<_>>()),
            _ => None,
        })
        .collect();
    for server in &mut servers {
        server.up = ups.iter().find(|up| Some(up.pid) == server.pid).map(|up| up.name.clone());
    }
    servers.retain_mut(|server| server.is_genuine());
    // Those that are waited for come last.
    servers.sort_by_key(|server| (server.whose == Whose::Unknown, server.pid));
    servers
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn servers_of_one_run_share_a_namespace() {
        let at = |name: &str| Server::at(&format!("{name};instanton:x"));
        assert!(at("a@0:0").is_of_run(&at("a@0:1")) && at("a@0:1").place() == Some(("a@0", 1)));
        assert!(!at("a@0:0").is_of_run(&at("b@0:1")));
        assert!(!at("odd").is_of_run(&at("odd")));
    }

    /// A thread of another user, whose socket bears the number of our process. Only root can be one.
    #[test]
    fn a_socket_that_bears_the_number_of_anothers_process_is_no_server() {
        let found = |pid: u32, number: u32| {
            let name = format!("instanton-tools-{pid}-genuine@0.{number}-{pid:032}");
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
            let mut server = Server::at(&format!("genuine@0.{number};instanton:{name}"));
            server.pid = Some(pid as i32);
            (listener, server)
        };
        let (_listens, mut own) = found(std::process::id(), 0);
        assert!(own.is_genuine() && own.whose == Whose::Own);
        if !geteuid().is_root() {
            return;
        }
        let of_another = |pid: u32, number: u32| {
            let made = std::thread::spawn(move || {
                instanton::internal::sys::process::become_user_in_this_thread(65534, 65534).unwrap();
                found(pid, number)
            });
            made.join().unwrap()
        };
        let (_listens, mut impostor) = of_another(std::process::id(), 1);
        assert!(!impostor.is_genuine());
        let mut sleeper = std::process::Command::new("sleep").arg("1000").uid(65534).spawn().unwrap();
        let (_listens, mut others) = of_another(sleeper.id(), 2);
        assert!(others.is_genuine() && others.whose == Whose::Others(65534));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn an_address_says_whose_library_is_behind_it() {
        assert_eq!(Server::at("srv:0;instanton:instanton-tools-17-ab").library, Library::Instanton);
        let stock = Server::at("prterun-n-1@0.0;tcp4://127.0.0.1:4711");
        assert_eq!((stock.library, stock.label()), (Library::Stock, "prterun-n-1@0.0".into()));
    }
}
