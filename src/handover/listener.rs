//! The writer's end: connections of readers, and what each is given.
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::geteuid;

use super::message::{self, Outcome, REQUEST, Request, TOKEN, Token, Wish};
use crate::store::{JobWriter, ReaderId};
use crate::sys::{random, socket, strays};
use crate::trace;

/// Most readers of one listener.
const MAX_READERS: usize = 1 << 14;
/// Connections that are looked at between two looks at all of them.
const AT_ONCE: usize = 64;
/// The name of the listening socket among the connections' numbers.
const DOOR: u64 = 0;
/// The name of the clock among them.
const CLOCK: u64 = u64::MAX;
/// Time between two looks for descriptors, where this process has none left for those who come.
const PAUSE: Duration = Duration::from_millis(100);

/// A reader's connection.
struct Connection {
    stream: UnixStream,
    request: [u8; REQUEST],
    filled: usize,
    page: Option<ReaderId>,
    /// None at the end of a socket pair, which nobody else can have.
    peer: Option<Peer>,
}

/// The process of a reader, as the kernel has it from when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process ID, which may be another process's when it has ended; 0 in a PID namespace that is not seen from
    /// here.
    pub process: i32,
    /// Its effective user.
    pub user: u32,
}

/// Hands a writer's segments to readers in other processes.
///
/// It never blocks and has no thread: its owner waits for its [descriptor](AsFd) together with whatever else it waits
/// for, and calls [`serve`](Self::serve) with the writer then. It belongs to the thread of its writer. A forked child of
/// its process must leave it alone.
pub struct Listener {
    door: UnixListener,
    /// Says when to look at the door again that was shut for want of descriptors.
    clock: TimerFd,
    is_shut: bool,
    epoll: Epoll,
    token: Token,
    address: String,
    users: Vec<u32>,
    connections: HashMap<u64, Connection>,
    last: u64,
}

impl Listener {
    /// Opens the door.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open() -> io::Result<Self> {
        let name = format!("instanton-store-{}", message::hex(&random::bytes::<16>()?));
        let token = random::bytes::<TOKEN>()?;
        let door = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        strays::refuse(&door);
        door.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&door, EpollEvent::new(EpollFlags::EPOLLIN, DOOR))?;
        let clock = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        epoll.add(&clock, EpollEvent::new(EpollFlags::EPOLLIN, CLOCK))?;
        let users = vec![geteuid().as_raw(), 0];
        let address = message::address(&name, &token);
        let connections = HashMap::new();
        Ok(Self { door, clock, is_shut: false, epoll, token, address, users, connections, last: DOOR })
    }

    /// The text that readers open: for their environment (`INSTANTON_STORE`), and for nobody else, because it has the
    /// token in it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Lets processes of another user read, who must know the address as well.
    pub fn allow(&mut self, user: u32) {
        if !self.users.contains(&user) {
            self.users.push(user);
        }
    }

    /// Takes the other end of a socket pair, for a reader that cannot find the address
    /// ([`RemoteReader::over`](super::RemoteReader::over)).
    ///
    /// # Errors
    /// The kernel's.
    pub fn adopt(&mut self, stream: UnixStream) -> io::Result<()> {
        strays::refuse(&stream);
        self.add(stream, None)
    }

    /// Adds a connection; one of nobody in particular is trusted.
    fn add(&mut self, stream: UnixStream, peer: Option<Peer>) -> io::Result<()> {
        if self.connections.len() >= MAX_READERS {
            return Err(io::Error::other("there are too many readers"));
        }
        stream.set_nonblocking(true)?;
        // Descriptors that nobody reads count against their sender: room for a few answers is enough.
        setsockopt(&stream, sockopt::SndBuf, &1)?;
        self.last += 1;
        self.epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, self.last))?;
        let connection = Connection { stream, request: [0; REQUEST], filled: 0, page: None, peer };
        self.connections.insert(self.last, connection);
        Ok(())
    }

    /// Answers everybody who has asked by now.
    ///
    /// # Errors
    /// The kernel's, when it does not say who has asked. An error of one connection ends that connection.
    pub fn serve(&mut self, writer: &mut JobWriter) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); AT_ONCE];
        loop {
            let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
                Err(nix::errno::Errno::EINTR) => continue,
                count => count?,
            };
            for event in &events[..count] {
                match event.data() {
                    DOOR => self.accept(),
                    CLOCK => {
                        let _ = self.clock.wait();
                        self.accept();
                    }
                    id => self.hear(id, writer),
                }
            }
            if count < AT_ONCE {
                return Ok(());
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..AT_ONCE {
            let stream = match self.door.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return self.shut(&error),
            };
            let added = match socket::peer(&stream) {
                Ok(peer) if self.users.contains(&peer.uid) => {
                    self.add(stream, Some(Peer { process: peer.pid, user: peer.uid }))
                }
                Ok(peer) => {
                    // It is told, if it still listens.
                    let _ = socket::send(&stream, &message::answer(Outcome::Refused, 0), &[]);
                    strays::close(&stream);
                    Err(io::Error::other(format!("user {} may not read", peer.uid)))
                }
                Err(error) => Err(error),
            };
            added.unwrap_or_else(|error| trace!("a reader is not let in: {error}"));
        }
        self.open_again();
    }

    /// Lets those who come wait: otherwise the descriptor would stay readable, and its owner's loop would turn for
    /// nothing.
    fn shut(&mut self, why: &io::Error) {
        if !self.is_shut {
            trace!("no reader can be let in, for now: {why}");
        }
        let after = Expiration::OneShot(TimeSpec::from_duration(PAUSE));
        let watched = self.clock.set(after, TimerSetTimeFlags::empty());
        self.is_shut = watched.and_then(|()| self.watch_door(EpollFlags::empty())).is_ok();
    }

    fn open_again(&mut self) {
        if self.is_shut && self.watch_door(EpollFlags::EPOLLIN).is_ok() {
            self.is_shut = false;
            trace!("readers are let in again");
        }
    }

    fn watch_door(&self, events: EpollFlags) -> nix::Result<()> {
        self.epoll.modify(&self.door, &mut EpollEvent::new(events, DOOR))
    }

    fn hear(&mut self, id: u64, writer: &mut JobWriter) {
        let token = self.token;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Err(error) = connection.hear(&token, writer) {
            if error.kind() != io::ErrorKind::UnexpectedEof {
                trace!("a reader is cut off: {error}");
            }
            self.end(id, writer);
        }
    }

    fn end(&mut self, id: u64, writer: &mut JobWriter) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let _ = self.epoll.delete(&connection.stream);
        connection.page.into_iter().for_each(|page| _ = writer.reader_gone(page));
    }

    /// Cuts a reader off, and forgets its page: one that [`JobWriter::reclaim`] says has lied. A reader that only holds
    /// back much costs nobody else anything and can stay.
    pub fn cut(&mut self, reader: ReaderId, writer: &mut JobWriter) {
        let of = |(id, connection): (&u64, &Connection)| (connection.page == Some(reader)).then_some(*id);
        if let Some(id) = self.connections.iter().find_map(of) {
            self.end(id, writer);
        }
    }

    /// The process behind a reader that has come by the address and is connected, for whoever tells people that it
    /// [holds back much](crate::store::Misuse). Nothing is known of one that was [adopted](Self::adopt).
    pub fn peer(&self, reader: ReaderId) -> Option<Peer> {
        self.connections.values().find(|connection| connection.page == Some(reader))?.peer
    }

    /// Readers that are connected.
    pub fn readers(&self) -> usize {
        self.connections.len()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        strays::close(&self.stream);
    }
}

impl Connection {
    /// Reads what has come, and answers the request that is complete.
    fn hear(&mut self, token: &Token, writer: &mut JobWriter) -> io::Result<()> {
        let read = match socket::read(&self.stream, &mut self.request[self.filled..]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            read => read?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.filled += read;
        if self.filled < REQUEST {
            return Ok(());
        }
        self.filled = 0;
        let request = Request::from_bytes(&self.request).ok_or(io::ErrorKind::InvalidData)?;
        if self.peer.is_some() && !is_same(&request.token, token) {
            self.answer(Outcome::Refused, &[])?;
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match request.wish {
            Wish::Segments => {
                let segments = writer.segments(&request.have);
                let all: Vec<_> =
                    segments.into_iter().map(|(_, descriptor)| descriptor).take(socket::MAX_DESCRIPTORS).collect();
                self.answer(Outcome::Given, &all).map(|_| ())
            }
            Wish::Page if self.page.is_some() => Err(io::Error::other("it asks for a second page")),
            Wish::Page => match writer.make_reader_page() {
                Ok(page) => {
                    let id = page.id();
                    self.page = Some(id);
                    if self.answer(Outcome::Given, &[OwnedFd::from(page).as_fd()])? == Outcome::Later {
                        self.page = None;
                        writer.reader_gone(id);
                    }
                    Ok(())
                }
                Err(error) => {
                    trace!("a reader gets no page: {error}");
                    self.answer(Outcome::NoRoom, &[]).map(|_| ())
                }
            },
        }
    }

    /// Answers. Returns the outcome that was said: with descriptors it is another one, where as many of them are on
    /// their way as the kernel allows this user.
    fn answer(&self, outcome: Outcome, descriptors: &[BorrowedFd<'_>]) -> io::Result<Outcome> {
        let answer = message::answer(outcome, descriptors.len());
        match socket::send(&self.stream, &answer, descriptors) {
            Ok(message::ANSWER) => Ok(outcome),
            Ok(_) => Err(io::Error::other("it does not read its answers")),
            Err(error) if !descriptors.is_empty() && passes(&error) => {
                trace!("a reader is to ask again: {error}");
                self.answer(Outcome::Later, &[])
            }
            Err(error) => Err(error),
        }
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETOOMANYREFS | libc::ENOBUFS | libc::ENOMEM))
}

/// Compares two tokens in a time that says nothing of where they differ.
fn is_same(one: &Token, other: &Token) -> bool {
    one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}
