//! The server that a tool goes to: what its attributes and its environment say, in the Standard's order.
//!
//! A server that is named (by address, process, namespace, or as the system's) is the only one that will do.
//! Without a name, a tool that was launched goes to its launcher, and any other to the first server of this user
//! or of root that takes it.
use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "server")]
use super::stock;
use crate::client::init::{Attachment, Whose};
use crate::client::{Client, InitError};
use crate::control::rendezvous::{self, BadUri, Listed, Uri};
use crate::control::report;
use crate::data::{Info, InfoList, Nspace, Proc, Rank, Status, Value, keys};
use crate::trace;

/// Variable in which a launcher finds the one who has started it and waits for it to attach.
const LAUNCHER_URI: &str = "PMIX_LAUNCHER_RNDZ_URI";
/// More than this is no address.
const MAX_ADDRESS: u64 = 4096;
/// Between two attempts, where nothing else is said.
const DELAY: Duration = Duration::from_secs(1);
/// Time for all servers together at whose doors others wait, where no limit is set.
const PATIENCE: Duration = Duration::from_secs(5);

/// The attributes that are answered here. Others are hints, for the host of the server.
const KNOWN: [&str; 19] = [
    keys::TOOL_NSPACE,
    keys::TOOL_RANK,
    keys::TOOL_DO_NOT_CONNECT,
    keys::TOOL_CONNECT_OPTIONAL,
    keys::TOOL_ATTACHMENT_FILE,
    keys::SERVER_URI,
    keys::TCP_URI,
    keys::SERVER_PIDINFO,
    keys::SERVER_NSPACE,
    keys::CONNECT_TO_SYSTEM,
    keys::CONNECT_SYSTEM_FIRST,
    keys::CONNECT_MAX_RETRIES,
    keys::CONNECT_RETRY_DELAY,
    keys::PRIMARY_SERVER,
    keys::SERVER_TMPDIR,
    keys::SYSTEM_TMPDIR,
    keys::LAUNCHER,
    keys::LAUNCHER_RENDEZVOUS_FILE,
    keys::TIMEOUT,
];

/// A place to look for a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// An address.
    Address(Uri),
    /// An address of a stock server.
    #[cfg(feature = "server")]
    Stock(crate::upstream::StockAddress),
    /// A file with an address on its first line.
    File(String),
    /// The server that a user knows by this process.
    Process(i32),
    /// The server of this name.
    Named(Nspace),
    /// The system's server.
    System,
    /// The system's server, or else what comes next.
    SystemFirst,
    /// The launcher, if there is one, or else what comes next.
    Launcher,
    /// Any server.
    Any,
}

/// Wishes of a tool.
#[derive(Debug)]
pub(super) struct Wish {
    /// The name it wants, where it does.
    pub(super) proc: Option<Proc>,
    /// True if it wants a server at all.
    pub(super) connects: bool,
    /// True if it goes on without one.
    pub(super) is_optional: bool,
    /// In the order in which they are tried.
    places: Vec<Place>,
    retries: u32,
    delay: Duration,
    /// Until when a server is waited for.
    until: Option<Instant>,
    /// True if it is a launcher.
    #[cfg(feature = "server")]
    is_launcher: bool,
    /// Attributes that the server's host is told.
    pub(super) hints: Vec<Info>,
    #[cfg(feature = "server")]
    pub(super) directories: stock::Directories,
}

fn wrong(what: impl Display) -> InitError {
    InitError::Directive(what.to_string())
}

fn text(info: &[Info], key: &'static str) -> Result<Option<String>, InitError> {
    let Some(found) = info.find(key) else { return Ok(None) };
    match &found.value {
        Value::ProcNspace(nspace) => Ok(Some(nspace.to_string())),
        other => match other.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(wrong(format!("{key} is no text"))),
        },
    }
}

fn number(info: &[Info], key: &'static str) -> Result<Option<u32>, InitError> {
    let value = |info: &Info| info.value.as_u32().or(info.value.as_rank().map(|rank| rank.0));
    info.find(key).map(|info| value(info).ok_or_else(|| wrong(format!("{key} is no number")))).transpose()
}

/// Returns whether an attribute is answered here, and no host hears of it.
pub(super) fn is_own(info: &Info) -> bool {
    info.key != keys::TIMEOUT && KNOWN.iter().any(|known| info.key == *known)
}

impl Wish {
    /// Reads the attributes of `PMIx_tool_init`, or of an attachment.
    pub(super) fn read(info: &[Info]) -> Result<Self, InitError> {
        if let Some(unknown) = info.iter().find(|item| item.is_unserved(&KNOWN)) {
            return Err(InitError::NotSupported(unknown.key.to_string()));
        }
        let proc = match (text(info, keys::TOOL_NSPACE)?, number(info, keys::TOOL_RANK)?) {
            (None, None) => None,
            (Some(nspace), Some(rank)) => Some(Proc::new(Nspace::new(nspace).map_err(wrong)?, Rank(rank))),
            _ => return Err(wrong("a tool's namespace and its rank are given together")),
        };
        Ok(Wish {
            proc,
            connects: !info.is_set(keys::TOOL_DO_NOT_CONNECT),
            is_optional: info.is_set(keys::TOOL_CONNECT_OPTIONAL),
            places: places(info)?,
            retries: number(info, keys::CONNECT_MAX_RETRIES)?.unwrap_or(0),
            delay: number(info, keys::CONNECT_RETRY_DELAY)?.map_or(DELAY, |s| Duration::from_secs(s.into())),
            until: info.time_limit().flatten().map(|limit| Instant::now() + limit),
            hints: info.iter().filter(|info| !is_own(info)).cloned().collect(),
            #[cfg(feature = "server")]
            is_launcher: info.is_set(keys::LAUNCHER),
            #[cfg(feature = "server")]
            directories: stock::Directories::new(text(info, keys::SERVER_TMPDIR)?, text(info, keys::SYSTEM_TMPDIR)?),
        })
    }

    /// Returns whether a server is named, be it as the system's.
    pub(super) fn names_a_server(&self) -> bool {
        self.places.last() != Some(&Place::Any) || self.places.first() == Some(&Place::SystemFirst)
    }

    /// Goes to the first place that has a server. `first` is a connection that the tool has already.
    pub(super) fn connect(&self, first: Option<&Client>) -> Result<Client, InitError> {
        let mut failed = InitError::NoServer("nowhere to look for one".into());
        for place in &self.places {
            for attempt in 0..=self.retries {
                if attempt > 0 {
                    #[expect(clippy::disallowed_methods, reason = "the caller has asked for this delay")]
                    thread::sleep(self.delay);
                }
                match self.enter(place, first) {
                    Ok(client) => return Ok(client),
                    Err(error) => {
                        trace!("no server at {place:?}: {error}");
                        failed = error;
                    }
                }
                // There is a launcher, or there is none.
                if *place == Place::Launcher || self.until.is_some_and(|until| until <= Instant::now()) {
                    break;
                }
            }
        }
        Err(failed)
    }

    fn enter(&self, place: &Place, first: Option<&Client>) -> Result<Client, InitError> {
        let found = match place {
            Place::Address(uri) => {
                let server = Some(&uri.server.nspace);
                let call = Attachment { door: &uri.name, whose: Whose::Anybody, server, ..self.attachment(first) };
                return Client::attach(&call, &self.hints, first);
            }
            #[cfg(feature = "server")]
            Place::Stock(address) => return self.join(address, true, first),
            Place::File(path) => return self.enter(&read(path)?, first),
            Place::Launcher => return Client::launched(&self.hints),
            Place::Process(pid) => self.search(|server| server.pid == *pid, true, None, first),
            Place::Named(nspace) => self.search(|_| true, false, Some(nspace), first),
            Place::System | Place::SystemFirst => self.search(|server| server.is_system, false, None, first),
            Place::Any => {
                #[cfg(feature = "server")]
                if let Some(found) = self.within(first) {
                    return found;
                }
                self.search(is_other, false, None, first)
            }
        };
        #[cfg(feature = "server")]
        let found = found.or_else(|failed| self.search_files(place, failed, first));
        found
    }

    /// Goes to a server with files below the directory that the user has named, to one of this library first; none where
    /// no directory is named, or nobody has files there.
    #[cfg(feature = "server")]
    fn within(&self, first: Option<&Client>) -> Option<Result<Client, InitError>> {
        let processes = self.directories.own_processes()?;
        let found = self.search(|server| is_other(server) && processes.contains(&server.pid), false, None, first);
        match found {
            Err(_) if processes.is_empty() && self.directories.others().is_empty() => None,
            found => Some(found.or_else(|failed| self.search_files(&Place::Any, failed, first))),
        }
    }

    /// Tries the stock servers that have files and are meant by a place: they come after those of this library.
    /// `failed` says why there is none of these.
    #[cfg(feature = "server")]
    fn search_files(&self, place: &Place, failed: InitError, first: Option<&Client>) -> Result<Client, InitError> {
        let found = match place {
            Place::System | Place::SystemFirst => self.directories.of_system(),
            Place::Process(pid) => self.directories.of_process(*pid),
            Place::Named(nspace) => self.directories.of_namespace(nspace),
            _ => self.directories.others(),
        };
        let named = matches!(place, Place::Process(_));
        let mut failed = failed;
        for stock::Contact { address, .. } in found {
            match self.join(&address, named, first) {
                Ok(client) => return Ok(client),
                Err(error) => {
                    trace!("{}: {error}", address.uri);
                    // A server that does not want this tool says more than one that is not there.
                    if !matches!(failed, InitError::NotAdmitted { .. } | InitError::ForeignServer { .. }) {
                        failed = error;
                    }
                }
            }
        }
        Err(failed)
    }

    #[cfg(feature = "server")]
    fn join(
        &self,
        address: &crate::upstream::StockAddress,
        named: bool,
        first: Option<&Client>,
    ) -> Result<Client, InitError> {
        let proc = first.map(Client::proc).or(self.proc.as_ref()).cloned();
        stock::join(address, stock::Visitor { proc, named, is_launcher: self.is_launcher }, &self.hints, first)
    }

    /// Tries the servers that there are and `wanted` holds for, one after the other. Anybody can take a name as they have,
    /// and have callers wait at its door: those where nobody waits come first, and the others have a time together.
    fn search(
        &self,
        wanted: impl Fn(&Listed) -> bool,
        named: bool,
        server: Option<&Nspace>,
        first: Option<&Client>,
    ) -> Result<Client, InitError> {
        let all = rendezvous::servers();
        let all = all.map_err(|source| InitError::System { what: "the list of servers cannot be read", source })?;
        let mut failed = InitError::NoServer("none accepts tools".into());
        let begin = Instant::now();
        let mut left: Vec<&Listed> = all.iter().filter(|server| wanted(server)).collect();
        for at_once in [true, false] {
            let tried = std::mem::take(&mut left);
            for (at, found) in tried.iter().enumerate() {
                let whose = match named {
                    true => rendezvous::user_of(found.pid).map_or(Whose::Own, Whose::Of),
                    false => Whose::Own,
                };
                let until = match at_once {
                    true => self.until.map(|until| part_until(until, tried.len().min(2))),
                    false => Some(part_until(self.until.unwrap_or(begin + PATIENCE), tried.len() - at)),
                };
                let call = Attachment { door: &found.name, whose, until, at_once, server, ..self.attachment(first) };
                let error = match Client::attach(&call, &self.hints, first) {
                    Ok(client) => return Ok(client),
                    Err(error) => error,
                };
                trace!("{}: {error}", found.name);
                if at_once && matches!(error, InitError::TimedOut) {
                    left.push(found);
                }
                // A server that does not want this tool says more than one that has just gone, or is not the one that
                // is meant.
                let is_other = server.is_some() && error.status() == Status::ERR_NOT_FOUND;
                let is_owned = matches!(error, InitError::ForeignServer { .. }) && server.is_none();
                let is_late = error.status() == Status::ERR_TIMEOUT && matches!(failed, InitError::NoServer(_));
                if matches!(error, InitError::NotAdmitted { .. }) && !is_other || is_owned || is_late {
                    failed = error;
                }
            }
        }
        Err(failed)
    }

    /// A way to a server that is still to be named.
    fn attachment<'a>(&'a self, first: Option<&'a Client>) -> Attachment<'a> {
        let proc = first.map(Client::proc).or(self.proc.as_ref());
        Attachment { door: "", whose: Whose::Own, until: self.until, at_once: false, proc, server: None }
    }
}

/// The end of the first of so many equal parts of the time that is left.
fn part_until(until: Instant, parts: usize) -> Instant {
    let now = Instant::now();
    now + until.saturating_duration_since(now) / u32::try_from(parts).unwrap_or(u32::MAX)
}

/// Returns whether a server is in another process than this one.
fn is_other(server: &Listed) -> bool {
    server.pid != std::process::id() as i32
}

/// Returns the places in which the attributes say that a server is to be looked for.
fn places(info: &[Info]) -> Result<Vec<Place>, InitError> {
    let uri = match (text(info, keys::SERVER_URI)?, text(info, keys::TCP_URI)?) {
        (Some(_), Some(_)) => return Err(wrong("one server, and two addresses for it")),
        (Some(uri), None) | (None, Some(uri)) => Some(address(&uri)?),
        (None, None) => None,
    };
    let named = match uri {
        Some(place) => Some(place),
        None => match (
            text(info, keys::TOOL_ATTACHMENT_FILE)?,
            info.find(keys::SERVER_PIDINFO),
            text(info, keys::SERVER_NSPACE)?,
        ) {
            (Some(path), ..) => Some(Place::File(path)),
            (None, Some(pid), _) => {
                let pid = pid.value.as_i64().and_then(|pid| i32::try_from(pid).ok());
                Some(Place::Process(pid.ok_or_else(|| wrong("the server's process is no number"))?))
            }
            (None, None, Some(nspace)) => Some(Place::Named(Nspace::new(nspace).map_err(wrong)?)),
            (None, None, None) => info.is_set(keys::CONNECT_TO_SYSTEM).then_some(Place::System),
        },
    };
    if let Some(named) = named {
        return Ok(vec![named]);
    }
    let first = info.is_set(keys::CONNECT_SYSTEM_FIRST).then_some(Place::SystemFirst);
    let launcher = env::var(LAUNCHER_URI).ok().and_then(|uri| address(&uri).ok());
    Ok(first.into_iter().chain([Place::Launcher]).chain(launcher).chain([Place::Any]).collect())
}

/// An address, or `file:` and the name of a file that has it.
fn address(text: &str) -> Result<Place, InitError> {
    match text.strip_prefix("file:") {
        Some(path) => Ok(Place::File(path.to_owned())),
        None => native_or_stock(text).map_err(|error| match error {
            BadUri::Protocol(_) => InitError::NoServer(error.to_string()),
            other => wrong(other),
        }),
    }
}

fn native_or_stock(text: &str) -> Result<Place, BadUri> {
    let native = text.parse().map(Place::Address);
    #[cfg(feature = "server")]
    let native = native.or_else(|error| stock::address(text).map(Place::Stock).ok_or(error));
    native
}

fn read(path: &str) -> Result<Place, InitError> {
    // A server of this library writes its own address behind that for stock tools.
    let text = File::open(path).and_then(|file| std::io::read_to_string(file.take(MAX_ADDRESS)));
    if let Some(uri) = text.ok().as_deref().and_then(report::own_address) {
        return Ok(Place::Address(uri));
    }
    // The release of another server is on the next line.
    #[cfg(feature = "server")]
    if let Some(address) = stock::file(path) {
        return Ok(Place::Stock(address));
    }
    let failed = |error: &dyn Display| InitError::NoServer(format!("{path}: {error}"));
    let mut content = String::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(MAX_ADDRESS).read_to_string(&mut content).map_err(|error| failed(&error))?;
    native_or_stock(content.lines().next().unwrap_or_default()).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(info: &[Info]) -> Result<Vec<Place>, Status> {
        Wish::read(info).map(|wish| wish.places).map_err(|error| error.status())
    }

    #[test]
    fn a_server_that_is_named_is_the_only_one() {
        let uri = "srv@0.0;instanton:instanton-tools-17-ab";
        let place = Place::Address(uri.parse().unwrap());
        let pid = Info::new(keys::SERVER_PIDINFO, Value::Pid(17));
        let system = Info::new(keys::CONNECT_TO_SYSTEM, true);
        let first = Info::new(keys::CONNECT_SYSTEM_FIRST, true);
        assert_eq!(wish(&[system.clone(), pid.clone(), Info::new(keys::SERVER_URI, uri)]), Ok(vec![place]));
        assert_eq!(wish(&[system.clone(), pid.clone()]), Ok(vec![Place::Process(17)]));
        assert_eq!(wish(&[first.clone(), pid]), Ok(vec![Place::Process(17)]));
        assert_eq!(wish(&[system]), Ok(vec![Place::System]));
        assert_eq!(wish(&[first]), Ok(vec![Place::SystemFirst, Place::Launcher, Place::Any]));
        assert_eq!(wish(&[Info::new(keys::SERVER_URI, "file:/x")]), Ok(vec![Place::File("/x".into())]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let two = [Info::new(keys::SERVER_URI, "file:/x"), Info::new(keys::TCP_URI, "file:/y")];
        assert_eq!(wish(&two), Err(Status::ERR_BAD_PARAM));
        assert_eq!(wish(&[Info::new(keys::TOOL_NSPACE, "t")]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(wish(&[Info::new(keys::SERVER_PIDINFO, "x")]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(wish(&[Info::new(keys::SERVER_URI, "nonsense")]), Err(Status::ERR_BAD_PARAM));
        assert_eq!(wish(&[Info::new(keys::TCP_URI, "s.0;usock:/tmp/s")]), Err(Status::ERR_UNREACH));
        assert_eq!(wish(&[Info::new("site.key", true).required()]), Err(Status::ERR_NOT_SUPPORTED));
    }
}
