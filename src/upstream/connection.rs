//! Connection to a stock server: who this process is, requests out, answers and news in.
//!
//! Any thread sends, under a lock and blocking: a stock server always reads. One thread receives ([`Receiver`]), and
//! calls whoever waits for an answer. When the connection ends, all who wait are told, and so is everybody who asks
//! later.
use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, send};

use super::address::{Identity, StockAddress};
use super::error::JoinError;
use super::node;
use crate::data::{Channels, DataType, Info, Proc, Status};
use crate::message::LARGEST;
use crate::stock::VERSION;
use crate::stock::ack::{self, Kind};
use crate::stock::body::Body;
use crate::stock::frame::{EVENT, FIRST_DYNAMIC, HEADER, HEARTBEAT, Header, OUTPUT};
use crate::stock::requests::command;
use crate::stock::tools::{self, Welcome};
use crate::sys::{sock_diag, socket};
use crate::trace;
use crate::wire::{Form, WireError};

/// Last tag of the half that the side which has connected pairs its answers by.
const LAST_TAG: u32 = u32::MAX / 2;
/// Time for which a server that is not ready is asked again, where there is no limit.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pauses between that: each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Most news that are kept until the first question is answered.
const MOST_EARLY: usize = 8192;
/// Bytes that are read from the socket at a time.
const CHUNK: usize = 64 << 10;
/// Callback that receives the body of an answer, or the reason why there is none.
type Waiter = Box<dyn FnOnce(Result<&[u8], Status>) + Send>;

/// Message that no request asked for.
#[derive(Debug, PartialEq)]
pub enum News {
    /// An event.
    Event { status: Status, source: Proc, info: Vec<Info> },
    /// Output of a process, and the number of the pull that it is sent for.
    Output { source: Proc, channel: Channels, pull: usize, bytes: Vec<u8>, info: Vec<Info> },
}

/// Requests under way.
#[derive(Default)]
struct Waiting {
    by_tag: HashMap<u32, Waiter>,
    last: u32,
    is_over: bool,
}

/// The sending end.
pub struct Connection {
    stream: TcpStream,
    /// Number that the server has given this process.
    index: u32,
    sending: Mutex<()>,
    waiting: Mutex<Waiting>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// The receiving end.
pub struct Receiver(BufReader<Limited>);

/// A stream that is read until a moment: each read has what is left, so that no server draws a time limit out by a byte at
/// a time.
struct Limited {
    stream: TcpStream,
    until: Option<Instant>,
}

impl Read for Limited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        self.stream.read(into)
    }
}

impl Limited {
    /// Has reads wait until another moment, or for ever.
    fn limit(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.until = until;
        if until.is_none() { self.stream.set_read_timeout(None) } else { Ok(()) }
    }
}

/// A connection that the server has accepted.
pub struct Accepted {
    pub link: Connection,
    pub receiver: Receiver,
    /// Name of this process.
    pub proc: Proc,
    /// Name of the server.
    pub server: Proc,
}

impl Connection {
    /// Connects, says who this process is and in which way it takes information, and waits to be let in. A server that
    /// is not ready for it is asked again, within the time limit, or for [`PATIENCE`] where there is none.
    ///
    /// # Errors
    /// [`JoinError`] names the server and what it has answered.
    pub fn open(
        address: &StockAddress,
        who: &Identity,
        way: &str,
        until: Option<Instant>,
    ) -> Result<Accepted, JoinError> {
        let last = until.unwrap_or_else(|| Instant::now() + PATIENCE);
        let mut pause = FIRST_PAUSE;
        loop {
            match Self::try_open(address, who, way, until) {
                Err(error) if error.is_too_early() && Instant::now() + pause < last => {
                    trace!("{error}; asked again in {} ms", pause.as_millis());
                    #[expect(clippy::disallowed_methods, reason = "the server tells nobody when it is ready")]
                    std::thread::sleep(pause);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
                opened => return opened,
            }
        }
    }

    fn try_open(
        address: &StockAddress,
        who: &Identity,
        way: &str,
        until: Option<Instant>,
    ) -> Result<Accepted, JoinError> {
        let socket = address.socket;
        let lost = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => JoinError::TimedOut,
            _ => JoinError::NotAvailable(format!("the stock server at {socket}: {error}")),
        };
        let stream = match left(until)? {
            Some(limit) => TcpStream::connect_timeout(&socket, limit),
            None => TcpStream::connect(socket),
        };
        let stream = stream.and_then(|stream| socket::beside_standard(stream.into()));
        let stream = TcpStream::from(stream.map_err(lost)?);
        // Requests are short, and wait for their answers.
        stream.set_nodelay(true).map_err(lost)?;
        // A port that a server has left may be another user's by now. Before that one accepts, its connection has no owner.
        check_owner(&stream, who, sock_diag::owner_of_listener)?;
        let (kind, known, is_launcher, info) = match who {
            Identity::Process(proc) => (Kind::Client, Some(proc), false, &[][..]),
            Identity::Tool { proc, is_launcher, info, .. } => {
                let kind = if proc.is_some() { Kind::NamedTool } else { Kind::Tool };
                (kind, proc.as_ref(), *is_launcher, &info[..])
            }
        };
        let release = if way == node::MODULE { node::RELEASE_TEXT } else { VERSION };
        send_all(&stream, &ack::write(kind, is_launcher, known, release, way, info)).map_err(lost)?;
        let mut reading = Limited { stream: stream.try_clone().map_err(lost)?, until };
        let Welcome { status, proc, server, index } = tools::read_welcome(kind, &mut reading).map_err(lost)?;
        let proc = match (status, proc.or_else(|| known.cloned())) {
            (Status::SUCCESS, Some(proc)) => proc,
            (status, Some(proc)) if kind == Kind::Client => {
                return Err(JoinError::Refused { proc, status, reason: "it does not let this process in" });
            }
            (status, _) => return Err(JoinError::NotAdmitted(status)),
        };
        let here = stream.local_addr().map_err(lost)?;
        check_owner(&stream, who, |there| sock_diag::owner_of_other_end(there, here))?;
        reading.limit(None).map_err(lost)?;
        let receiver = Receiver(BufReader::with_capacity(CHUNK, reading));
        let link = Connection { stream, index, sending: Mutex::default(), waiting: Mutex::default() };
        Ok(Accepted { link, receiver, proc, server: server.unwrap_or_else(|| address.server.clone()) })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request; `waiter` receives the answer, or `ERR_LOST_CONNECTION`.
    pub fn ask(&self, body: &[u8], waiter: impl FnOnce(Result<&[u8], Status>) + Send + 'static) {
        let tag = {
            let mut waiting = self.waiting();
            if waiting.is_over {
                drop(waiting);
                return waiter(Err(Status::ERR_LOST_CONNECTION));
            }
            let mut tag = waiting.last;
            loop {
                tag = if (FIRST_DYNAMIC..LAST_TAG).contains(&tag) { tag + 1 } else { FIRST_DYNAMIC + 1 };
                if !waiting.by_tag.contains_key(&tag) {
                    break;
                }
            }
            waiting.last = tag;
            waiting.by_tag.insert(tag, Box::new(waiter));
            tag
        };
        self.send(tag, body);
    }

    /// Sends a request that has no answer, or one that nobody waits for.
    pub fn say(&self, body: &[u8]) {
        self.ask(body, |_| {});
    }

    /// Gives a sign of life.
    pub fn beat(&self) {
        self.send(HEARTBEAT, &[]);
    }

    fn send(&self, tag: u32, body: &[u8]) {
        let header = Header { tag, len: body.len() };
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend_from_slice(&header.bytes());
        bytes[..4].copy_from_slice(&self.index.to_be_bytes());
        bytes.extend_from_slice(body);
        let one = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = send_all(&self.stream, &bytes);
        drop(one);
        if let Err(error) = sent {
            trace!("the stock server takes no request any more: {error}");
            // The receiving thread finds the end, and tells all who wait.
            self.close();
        }
    }

    /// Ends the connection.
    pub fn close(&self) {
        // One that is over already has no other end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends the connection, and tells all who wait.
    pub fn end(&self) {
        self.close();
        let all = {
            let mut waiting = self.waiting();
            waiting.is_over = true;
            std::mem::take(&mut waiting.by_tag)
        };
        all.into_values().for_each(|waiter| waiter(Err(Status::ERR_LOST_CONNECTION)));
    }

    fn answered(&self, tag: u32, body: &[u8]) {
        let waiter = self.waiting().by_tag.remove(&tag);
        match waiter {
            // An answer without a body says that there is nobody to answer.
            Some(waiter) if body.is_empty() => waiter(Err(Status::ERR_LOST_CONNECTION)),
            Some(waiter) => waiter(Ok(body)),
            None => trace!("the stock server answers what nobody has asked (tag {tag})"),
        }
    }
}

impl Receiver {
    /// Asks the first question, before there is a thread that receives. News that come meanwhile are returned with the
    /// answer.
    ///
    /// # Errors
    /// When the connection ends before the answer, or the time is over.
    pub fn ask_first(
        mut self,
        link: &Connection,
        body: &[u8],
        until: Option<Instant>,
    ) -> Result<(Vec<u8>, Vec<News>, Receiver), JoinError> {
        let lost = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => JoinError::TimedOut,
            _ => JoinError::NotAvailable(format!("the stock server leaves its first question open: {error}")),
        };
        let answer = Arc::new(Mutex::new(None));
        let place = answer.clone();
        link.ask(body, move |result| {
            let answer = result.map(<[u8]>::to_vec);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        });
        let mut early = Vec::new();
        self.0.get_mut().limit(until).map_err(lost)?;
        loop {
            if let Some(answer) = answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
                let over = |status| JoinError::NotAvailable(format!("the stock server: {status}"));
                self.0.get_mut().limit(None).map_err(lost)?;
                return Ok((answer.map_err(over)?, early, self));
            }
            early.extend(self.step(link).map_err(lost)?);
            if early.len() > MOST_EARLY {
                let told = "the stock server tells much, and leaves the first question open".to_owned();
                return Err(JoinError::NotAvailable(told));
            }
        }
    }

    /// Receives until the connection ends.
    pub fn serve(mut self, link: &Connection, mut tell: impl FnMut(News)) {
        let end = loop {
            match self.step(link) {
                Ok(news) => news.into_iter().for_each(&mut tell),
                Err(error) => break error,
            }
        };
        trace!("the connection to the stock server ends: {end}");
    }

    /// Takes in one message.
    fn step(&mut self, link: &Connection) -> io::Result<Option<News>> {
        let mut header = [0; HEADER];
        if self.0.buffer().is_empty() {
            // A stock server holds a short answer back until the one before it is acknowledged: for 40 ms, as a rule.
            socket::acknowledge_at_once(&self.0.get_ref().stream);
        }
        self.0.read_exact(&mut header)?;
        let Header { tag, len } = Header::parse(&header);
        if len > LARGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {len} bytes")));
        }
        let mut body = Vec::new();
        let taken = self.0.by_ref().take(len as u64).read_to_end(&mut body)?;
        if taken < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let news = match tag {
            EVENT => event(&body).map(Some),
            OUTPUT => output(&body).map(Some),
            tag if tag > FIRST_DYNAMIC => {
                link.answered(tag, &body);
                Ok(None)
            }
            // Later releases say more; whoever has not been taught to listen leaves it aside.
            _ => Ok(None),
        };
        Ok(news.unwrap_or_else(|error| {
            trace!("news of the stock server cannot be read: {error}");
            None
        }))
    }
}

/// Reads an event.
///
/// # Errors
/// [`WireError`] says what is wrong with the bytes.
pub fn event(bytes: &[u8]) -> Result<News, WireError> {
    let mut body = Body::new(bytes, Form::Plain);
    if body.one::<u8>(DataType::COMMAND)? != command::NOTIFY {
        return Err(WireError::Malformed("event"));
    }
    let (status, source) = (body.one(DataType::STATUS)?, body.one(DataType::PROC)?);
    Ok(News::Event { status, source, info: body.infos()? })
}

/// Reads output of a process.
///
/// # Errors
/// As [`event`].
pub fn output(bytes: &[u8]) -> Result<News, WireError> {
    let mut body = Body::new(bytes, Form::Plain);
    let (source, channel) = (body.one(DataType::PROC)?, body.one(DataType::IOF_CHANNEL)?);
    let pull = body.one(DataType::SIZE)?;
    let info = body.infos()?;
    Ok(News::Output { source, channel, pull, bytes: body.one(DataType::BYTE_OBJECT)?, info })
}

/// Returns the time that is left; none where there is no limit.
fn left(until: Option<Instant>) -> Result<Option<Duration>, JoinError> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) { Err(JoinError::TimedOut) } else { Ok(left) }
}

/// Sends all of it, and raises no signal where the other end is closed.
fn send_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(stream.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Holds the user that a server's socket is of, as `ask` finds it by the server's address, against whom this process
/// trusts: itself and root; root also whom its user has named.
fn check_owner(
    stream: &TcpStream,
    who: &Identity,
    ask: impl FnOnce(SocketAddr) -> io::Result<u32>,
) -> Result<(), JoinError> {
    let failed = |source| JoinError::System { what: "no name of the stock server's socket", source };
    let there = stream.peer_addr().map_err(failed)?;
    let own = nix::unistd::geteuid().as_raw();
    let is_named = matches!(who, Identity::Tool { named: true, .. });
    match ask(there) {
        Ok(found) if found == 0 || found == own || own == 0 && is_named => Ok(()),
        Ok(found) => Err(JoinError::Foreign { found, own }),
        // A container may forbid the question. Nothing secret is said to the server.
        Err(error) => {
            trace!("the kernel does not say whose the stock server is: {error}");
            Ok(())
        }
    }
}
