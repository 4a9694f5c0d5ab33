//! The way in: what the environment says, which door opens, and what is said there.
//!
//! The doors are tried in order: the abstract socket, then the path for processes in another network namespace. A door
//! counts if it can be reached, not if it is set. A refusal is final: behind every door is the same server.
use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::control::address::{self, Address, BadAddress};
use crate::control::frame::{self, FrameError, HEADER, Kind, MAX_HANDSHAKE};
use crate::control::handshake::{Attach, Hello, Welcome};
use crate::data::archive::Wire;
use crate::data::{Info, Nspace, Proc, Rank, Status, keys};
use crate::message::DescriptorKind;
use crate::sys::socket::{self, Door};
use crate::trace;
#[cfg(feature = "server")]
use crate::upstream::{Identity, StockAddress};

use super::InitError;
use super::call::limit_in;
use super::incoming::{End, Incoming};

const NAMESPACE: &str = "PMIX_NAMESPACE";
const RANK: &str = "PMIX_RANK";
const STOCK_URI: &str = "PMIX_SERVER_URI41";

/// Users whose server a tool goes to, beside its own user and root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Nobody else.
    Own,
    /// This one, if the tool is root's.
    Of(u32),
    /// Anybody, if the tool is root's.
    Anybody,
}

/// Server that a tool attaches to, and the name that it takes.
pub(crate) struct Attachment<'a> {
    /// Name of the server's socket for tools.
    pub(crate) door: &'a str,
    /// Owner that the server may have.
    pub(crate) whose: Whose,
    /// Until when it is waited for; for ever without one.
    pub(crate) until: Option<Instant>,
    /// True if it is left alone where others wait at its door.
    pub(crate) at_once: bool,
    /// The name the tool has, or wants.
    pub(crate) proc: Option<&'a Proc>,
    /// The server that is meant, where that is known.
    pub(crate) server: Option<&'a Nspace>,
}

/// A server that has let this process in.
#[derive(Clone)]
pub(super) struct Reached {
    pub(super) name: Proc,
    /// Address of the server, as tools are told it.
    pub(super) uri: String,
    /// True if it lives in this process, and a stock server is its host.
    pub(super) has_upstream: bool,
}

/// A connection that the server has accepted.
pub(super) struct Accepted {
    pub(super) socket: Arc<UnixStream>,
    pub(super) incoming: Incoming,
    pub(super) server: Reached,
    /// Name of this process.
    pub(super) proc: Proc,
    pub(super) parts: Vec<DescriptorKind>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// The address that some variables name, if it was made for the process that they name.
///
/// # Errors
/// [`InitError::Singleton`] where none is a launcher's, and [`InitError::Environment`].
pub fn from_variables<N: Iterator<Item = OsString>>(
    variable: impl Fn(&str) -> Option<OsString>,
    names: impl FnOnce() -> N,
) -> Result<Address, InitError> {
    let proc = named(&variable, names)?;
    native(proc, &variable).map_err(|misled| misled.error)
}

/// Server that the environment names for this process.
pub(super) enum Place {
    Native(Address),
    #[cfg(feature = "server")]
    Stock(StockAddress, Identity),
}

/// Returns the server that the environment names. One of the library's own comes first, if its variable is meant for
/// this process: a launcher within another leaves the outer one's.
pub(super) fn place() -> Result<Place, InitError> {
    let variable = |name: &str| env::var_os(name);
    let proc = named(variable, || env::vars_os().map(|(name, _)| name))?;
    let misled = match native(proc.clone(), variable) {
        Ok(address) => return Ok(Place::Native(address)),
        Err(misled) => misled,
    };
    #[cfg(feature = "server")]
    if !misled.is_final
        && let Some(address) = StockAddress::from_variables(variable)?
    {
        trace!("{}: the stock server at {} is asked", misled.error, address.socket);
        return Ok(Place::Stock(address, Identity::Process(proc)));
    }
    Err(misled.error)
}

/// The name that some variables give this process.
fn named<N: Iterator<Item = OsString>>(
    variable: impl Fn(&str) -> Option<OsString>,
    names: impl FnOnce() -> N,
) -> Result<Proc, InitError> {
    let bytes = |name| variable(name).map(OsString::into_vec);
    let nspace = bytes(NAMESPACE);
    // A look at all variables takes a copy of each, and what was launched has the first of them.
    let by_launcher = |name: OsString| {
        let name = name.as_bytes();
        [RANK, address::VARIABLE].iter().any(|known| known.as_bytes() == name) || name.starts_with(b"PMIX_SERVER_URI")
    };
    if nspace.is_none() && !names().any(by_launcher) {
        return Err(InitError::Singleton);
    }
    let nspace = nspace.ok_or_else(|| missing(NAMESPACE))?;
    let nspace = Nspace::new(nspace).map_err(|error| bad(NAMESPACE, format!("is no namespace: {error}")))?;
    let rank = bytes(RANK).ok_or_else(|| missing(RANK))?;
    let rank = std::str::from_utf8(&rank).ok().and_then(|text| text.parse().ok()).map(Rank);
    let rank = rank.filter(|rank| rank.is_process()).ok_or_else(|| bad(RANK, "is no rank".into()))?;
    Ok(Proc::new(nspace, rank))
}

fn missing(name: &'static str) -> InitError {
    InitError::Environment { name, problem: "is not set".into() }
}

fn bad(name: &'static str, problem: String) -> InitError {
    InitError::Environment { name, problem }
}

/// Reason why the library's own variable does not lead a process to its server.
struct Misled {
    error: InitError,
    /// True if the variable is for another process of the same server: then no other protocol leads this one there.
    is_final: bool,
}

/// The address that the library's own variable has for a process.
fn native(proc: Proc, variable: impl Fn(&str) -> Option<OsString>) -> Result<Address, Misled> {
    let elsewhere = |error| Misled { error, is_final: false };
    let text = variable(address::VARIABLE).and_then(|text| text.into_string().ok());
    let text = text.ok_or_else(|| elsewhere(missing(address::VARIABLE)))?;
    let unread = |error: BadAddress| elsewhere(bad(address::VARIABLE, format!("is no address: {error}")));
    let found: Address = text.parse().map_err(unread)?;
    // A variable left over from an outer launcher stands beside another stock address.
    if found.stock_uri.as_bytes() != variable(STOCK_URI).map(OsString::into_vec).unwrap_or_default() {
        return Err(elsewhere(bad(address::VARIABLE, format!("was made beside another {STOCK_URI}"))));
    }
    if found.proc != proc {
        let error = bad(address::VARIABLE, format!("was made for {}, and this is {proc}", found.proc));
        return Err(Misled { error, is_final: true });
    }
    Ok(found)
}

/// Refuses what is required and unknown; everything else in the list of an init is for the host.
/// [`Client::init`](super::Client::init) looks itself; this is for a program that counts its inits.
///
/// # Errors
/// [`InitError::NotSupported`], with the attribute's key.
pub fn check_directives(info: &[Info]) -> Result<(), InitError> {
    const KNOWN: [&str; 6] = [
        keys::TIMEOUT,
        keys::PROGRAMMING_MODEL,
        keys::MODEL_LIBRARY_NAME,
        keys::MODEL_LIBRARY_VERSION,
        keys::THREADING_MODEL,
        keys::GDS_MODULE,
    ];
    match info.iter().find(|item| item.is_unserved(&KNOWN)) {
        Some(item) => Err(InitError::NotSupported(item.key.to_string())),
        None => Ok(()),
    }
}

/// Refuses what a finalize requires and nobody knows. [`Client::finalize`](super::Client::finalize) looks itself; this is
/// for a program that counts its inits.
///
/// # Errors
/// `ERR_NOT_SUPPORTED`.
pub fn check_finalize(info: &[Info]) -> Result<(), Status> {
    match info.iter().any(|info| info.is_unserved(&[keys::TIMEOUT, keys::EMBED_BARRIER])) {
        true => Err(Status::ERR_NOT_SUPPORTED),
        false => Ok(()),
    }
}

/// Goes through the first door that opens. `layout` is the version of segments that can be mapped, 0 for none.
pub(super) fn enter(address: &Address, info: &[Info], layout: u32) -> Result<Accepted, InitError> {
    let until = limit_in(info).map(|limit| Instant::now() + limit);
    let socket = knock(address, until)?;
    check_server(&socket, address)?;
    let hello = |info| Hello { proc: address.proc.clone(), token: address.token, layout, info };
    let refused = |status, reason| InitError::Refused { proc: address.proc.clone(), status, reason };
    introduce(socket, Kind::Hello, hello, info, until, refused)
}

/// Goes to a server as a tool.
pub(super) fn attach(
    call: &Attachment<'_>,
    hello: impl Fn(Vec<Info>) -> Attach,
    info: &[Info],
) -> Result<Accepted, InitError> {
    let (door, until) = (Door::Abstract(call.door), call.until);
    let socket = match call.at_once {
        true => socket::connect_at_once(&door),
        false => socket::connect(&door, until),
    };
    let socket = socket.map_err(|error| match is_late(&error) {
        true => InitError::TimedOut,
        false => InitError::NoServer(format!("abstract socket {:?}: {error}", call.door)),
    })?;
    let found = owner(&socket)?;
    let own = nix::unistd::geteuid().as_raw();
    let is_meant = call.whose == Whose::Anybody || call.whose == Whose::Of(found);
    if found != 0 && found != own && !(own == 0 && is_meant) {
        return Err(InitError::ForeignServer { found, own, named: own });
    }
    introduce(socket, Kind::Attach, hello, info, until, |status, reason| InitError::NotAdmitted { status, reason })
}

/// Says who this process is, and waits to be let in.
fn introduce<T: Wire>(
    socket: UnixStream,
    kind: Kind,
    hello: impl Fn(Vec<Info>) -> T,
    info: &[Info],
    until: Option<Instant>,
    refused: impl FnOnce(Status, String) -> InitError,
) -> Result<Accepted, InitError> {
    let socket = Arc::new(socket);
    let mut hello_frame = frame::encode(kind, 0, 0, &hello(info.to_vec()))?;
    if hello_frame.len() > HEADER + MAX_HANDSHAKE {
        trace!("the attributes of init are too long for the handshake; the host does not get them");
        hello_frame = frame::encode(kind, 0, 0, &hello(Vec::new()))?;
    }
    let mut rest = &hello_frame[..];
    while !rest.is_empty() {
        let sent = socket::send(&socket, rest, &[]).map_err(|error| {
            InitError::NotAvailable(format!("it closed the connection during the handshake: {error}"))
        })?;
        rest = &rest[sent..];
    }
    let mut incoming = Incoming::new(socket.clone());
    let welcome = incoming.wait(MAX_HANDSHAKE, until).map_err(|end| match end {
        End::Frame(error) => InitError::Handshake(error),
        End::TimedOut => InitError::TimedOut,
        other => InitError::NotAvailable(format!("no answer to the handshake: {other}")),
    })?;
    if welcome.header.kind != Kind::Welcome {
        return Err(FrameError::Kind(welcome.header.kind as u8).into());
    }
    match frame::decode(Kind::Welcome, &welcome.body)? {
        Welcome::Accepted { server, uri, proc, parts } => {
            let server = Reached { name: server, uri, has_upstream: false };
            Ok(Accepted { socket, incoming, server, proc, parts, descriptors: welcome.descriptors })
        }
        Welcome::Refused { status, reason } => Err(refused(status, reason)),
    }
}

fn knock(address: &Address, until: Option<Instant>) -> Result<UnixStream, InitError> {
    let by_name = socket::connect(&Door::Abstract(&address.abstract_name), until);
    let mut tried = match by_name {
        Ok(socket) => return Ok(socket),
        Err(error) if is_late(&error) => return Err(InitError::TimedOut),
        Err(error) => format!("abstract socket {:?}: {error}", address.abstract_name),
    };
    if let Some(path) = &address.path {
        match socket::connect(&Door::Path(Path::new(path)), until) {
            Ok(socket) => return Ok(socket),
            Err(error) if is_late(&error) => return Err(InitError::TimedOut),
            Err(error) => tried += &format!("; socket {path:?}: {error}"),
        }
    }
    Err(InitError::NotAvailable(tried))
}

/// Returns whether a server has left a caller waiting at its door for too long.
fn is_late(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The names of sockets can be taken by anybody: what is said next holds the job's token.
fn check_server(socket: &UnixStream, address: &Address) -> Result<(), InitError> {
    let found = owner(socket)?;
    let own = nix::unistd::geteuid().as_raw();
    match found == 0 || found == own || found == address.uid {
        true => Ok(()),
        false => Err(InitError::ForeignServer { found, own, named: address.uid }),
    }
}

/// The user that a server runs as.
fn owner(socket: &UnixStream) -> Result<u32, InitError> {
    let failed = |source| InitError::System { what: "the kernel does not say who the server is", source };
    Ok(socket::peer(socket).map_err(failed)?.uid)
}
