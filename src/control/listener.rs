//! The native front door, seen from the server.
//!
//! It accepts, reads the first frame, asks the server whether that peer may come in, and then carries frames both ways.
//! It never blocks, and whatever a peer does harms that peer alone: a frame that breaks a rule, a handshake that takes
//! too long, or answers left unread end the connection with a line in the trace. Peers that have not said who they are
//! may fill a bounded number of places; when those are taken, the one that has waited longest makes room.
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mio::net::UnixListener;
use mio::{Interest, Registry, Token};

use super::connection::{CHUNK, Connection, Fill, Flush, Incoming, PushError, Stage};
use super::frame::{self, FrameError, Kind, MAX_BODY, MAX_HANDSHAKE};
use super::handshake::{Attach, Hello, Welcome};
use crate::data::Status;
use crate::data::archive::Wire;
use crate::message::door::{Arrival, Callers, Capabilities, Claim, Door, Left, Outgoing, PeerId, Ready, User};
use crate::message::numbers::NumberMap;
use crate::message::{Part, Reply};
use crate::sys::{process, socket};
use crate::trace;

/// Most connections that have not said who they are.
pub const MAX_UNKNOWN: usize = 256;
/// Time that a connection has to say who it is.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// Connections taken in before those who are in already get their turn.
const ACCEPTED_PER_TURN: usize = 64;
/// Time that the doors stay shut when the process has no descriptor left for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The door: listening sockets and connections.
pub struct Listener {
    number: u8,
    registry: Registry,
    /// Poll token that the door's own tokens are added to.
    tokens: usize,
    listening: Vec<UnixListener>,
    connections: NumberMap<u64, Connection>,
    /// The connection after the last one accepted. The first numbers are those of the listening sockets.
    next: u64,
    /// Connections that have not said who they are, and until when they may.
    unknown: VecDeque<(Instant, u64)>,
    /// Connections with more to read than their turn allowed.
    again: Vec<u64>,
    /// Time at which to accept again: others had their turn, or there may be descriptors again.
    resume: Option<Instant>,
    scratch: Box<[u8; CHUNK]>,
}

/// Breach for which a connection is ended from this side.
#[derive(Debug, thiserror::Error)]
enum Breach {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Push(#[from] super::connection::PushError),
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("it broke off within a frame")]
    Truncated,
    #[error("a {0:?} frame is not expected at this point")]
    Unexpected(Kind),
    #[error("it did not say within {} s who it is", HANDSHAKE_DEADLINE.as_secs())]
    Late,
    #[error("it made room for others, not having said who it is")]
    Crowded,
}

impl Listener {
    /// A door that accepts on `sockets`; its tokens are `tokens` and what follows.
    ///
    /// # Errors
    /// When the sockets cannot be polled.
    pub fn new(
        number: u8,
        registry: Registry,
        tokens: usize,
        sockets: Vec<std::os::unix::net::UnixListener>,
    ) -> io::Result<Self> {
        let mut listening = Vec::new();
        for (at, socket) in sockets.into_iter().enumerate() {
            let mut socket = UnixListener::from_std(socket);
            registry.register(&mut socket, Token(tokens + at), Interest::READABLE)?;
            listening.push(socket);
        }
        let next = listening.len() as u64;
        Ok(Listener {
            number,
            registry,
            tokens,
            listening,
            connections: NumberMap::default(),
            next,
            unknown: VecDeque::new(),
            again: Vec::new(),
            resume: None,
            scratch: Box::new([0; CHUNK]),
        })
    }

    fn peer_id(&self, connection: u64) -> PeerId {
        PeerId { door: self.number, connection }
    }

    /// Takes in who has come; who is left over in a crowd is taken in at the next turn.
    fn accept(&mut self, at: usize, callers: &mut dyn Callers) {
        for _ in 0..ACCEPTED_PER_TURN {
            match self.listening[at].accept() {
                Ok((mut stream, _)) => {
                    let id = self.next;
                    self.next += 1;
                    let token = Token(self.tokens + id as usize);
                    let peer = socket::peer(&stream);
                    let registered = self.registry.register(&mut stream, token, Interest::READABLE);
                    match (peer, registered) {
                        (Ok(peer), Ok(())) => {
                            self.connections.insert(id, Connection::new(stream, peer));
                            self.unknown.push_back((Instant::now() + HANDSHAKE_DEADLINE, id));
                        }
                        (Err(e), _) | (_, Err(e)) => trace!("a connection cannot be taken in: {e}"),
                    }
                    self.make_room(callers);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.raw_os_error(), Some(libc::ECONNABORTED | libc::EINTR)) => {}
                Err(e) => {
                    trace!("cannot accept for {} ms: {e}", PAUSE.as_millis());
                    self.resume = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
        self.resume = Some(Instant::now());
    }

    fn make_room(&mut self, callers: &mut dyn Callers) {
        let connections = &self.connections;
        let is_unknown = |id: &u64| connections.get(id).is_some_and(|c| c.stage == Stage::Unknown);
        if self.unknown.len() > MAX_UNKNOWN {
            self.unknown.retain(|(_, id)| is_unknown(id));
        }
        if self.unknown.len() > MAX_UNKNOWN
            && let Some((_, oldest)) = self.unknown.pop_front()
        {
            // It may have spoken while others were accepted.
            self.read(oldest, true, callers);
            if self.connections.get(&oldest).is_some_and(|c| c.stage == Stage::Unknown) {
                self.cut(oldest, &Breach::Crowded, callers);
            }
        }
    }

    /// Takes in what a peer has sent; up to the end of it, where no news of it is to be expected.
    fn read(&mut self, id: u64, to_end: bool, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.stage == Stage::Asking {
            return;
        }
        let filled = match connection.fill(&mut self.scratch, to_end) {
            Ok(filled) => filled,
            // The process was killed, or closed its end with something unread.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Fill::Closed,
            Err(e) => return self.cut(id, &e.into(), callers),
        };
        if let Err(breach) = self.dispatch(id, callers) {
            return self.cut(id, &breach, callers);
        }
        match filled {
            Fill::Drained => {}
            Fill::More => self.again.push(id),
            Fill::Closed => match self.connections.get(&id) {
                Some(connection) if connection.is_mid_frame() && connection.stage != Stage::Asking => {
                    self.cut(id, &Breach::Truncated, callers);
                }
                _ => self.close(id, Left::Closed, callers),
            },
        }
    }

    /// Hands whole frames on.
    fn dispatch(&mut self, id: u64, callers: &mut dyn Callers) -> Result<(), Breach> {
        let peer = self.peer_id(id);
        while let Some(connection) = self.connections.get_mut(&id) {
            match connection.stage {
                Stage::Asking | Stage::Refused => return Ok(()),
                Stage::Unknown => {
                    // A handshake is short, and nothing short is refused.
                    let Some(Incoming::Frame(header, body)) = connection.next_frame(MAX_HANDSHAKE)? else {
                        return Ok(());
                    };
                    let (claim, layout, info) = match header.kind {
                        Kind::Hello => {
                            let Hello { proc, token, layout, info } = frame::decode(Kind::Hello, body)?;
                            (Claim::Process { proc, token: Some(token) }, layout, info)
                        }
                        Kind::Attach => {
                            let Attach { proc, server, layout, info } = frame::decode(Kind::Attach, body)?;
                            (Claim::Tool { proc, server }, layout, info)
                        }
                        other => return Err(Breach::Unexpected(other)),
                    };
                    connection.stage = Stage::Asking;
                    let process = process::watch_peer(&connection.stream, connection.peer.pid).ok();
                    let socket::Peer { pid, uid, gid } = connection.peer;
                    // A handshake says 0 where the peer maps nothing.
                    let maps_layout = Some(layout).filter(|layout| *layout != 0);
                    let capabilities =
                        Capabilities { maps_layout, waits_at_words: true, votes: true, takes_job_info: false };
                    let user = Some(User { uid, gid });
                    callers.arrived(peer, Arrival { claim, capabilities, info, user, pid, process });
                    self.forget_settled();
                }
                // No message to the server's side changes a connection: that has its turn later.
                Stage::In => loop {
                    let (header, body) = match connection.next_frame(MAX_BODY)? {
                        Some(Incoming::Frame(header, body)) => (header, body),
                        Some(Incoming::Refused(header)) => {
                            callers.refused(peer, header.number);
                            continue;
                        }
                        None => return Ok(()),
                    };
                    match header.kind {
                        Kind::Meet => {
                            let (seen, collect) = frame::meet_in(body)?;
                            callers.meets(peer, header.number, seen, collect);
                        }
                        Kind::Request => {
                            callers.asked(peer, header.number, frame::request_in(header.kind, body)?, header.body);
                        }
                        other => return Err(Breach::Unexpected(other)),
                    }
                },
            }
        }
        Ok(())
    }

    fn push<T: Wire>(
        &mut self,
        id: u64,
        kind: Kind,
        number: u64,
        descriptors: Vec<OwnedFd>,
        body: &T,
        callers: &mut dyn Callers,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let pushed = match connection.push(kind, number, descriptors, body) {
            // An answer that its process has no room for becomes the news of that.
            Err(PushError::OverLimit(_)) if kind == Kind::Reply => {
                let refusal = Reply::Done(Status::ERR_OUT_OF_RESOURCE);
                connection.push(kind, number, Vec::new(), &refusal)
            }
            other => other,
        };
        match pushed {
            Ok(()) => self.write(id, callers),
            Err(e) => self.cut(id, &e.into(), callers),
        }
    }

    /// Sends what the peer takes, and asks to be told when it takes more.
    fn write(&mut self, id: u64, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let flushed = connection.flush();
        let waits = match flushed {
            Ok(flush) => flush == Flush::Waits,
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return self.close(id, Left::Closed, callers);
            }
            Err(e) => return self.cut(id, &e.into(), callers),
        };
        if !waits && connection.stage == Stage::Refused {
            return self.close(id, Left::Closed, callers);
        }
        if waits != connection.wants_write {
            let interest = if waits { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            let token = Token(self.tokens + id as usize);
            match self.registry.reregister(&mut connection.stream, token, interest) {
                Ok(()) => connection.wants_write = waits,
                Err(e) => self.cut(id, &e.into(), callers),
            }
        }
    }

    /// Ends a connection for its own fault, telling the peer why where it can still hear it.
    fn cut(&mut self, id: u64, breach: &Breach, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let socket::Peer { pid, uid, .. } = connection.peer;
        trace!("connection {id} (process {pid} of user {uid}) is cut: {breach}");
        if connection.stage == Stage::Unknown && !matches!(breach, Breach::Socket(_)) {
            let refused = Welcome::Refused { status: Status::ERR_HANDSHAKE_FAILED, reason: breach.to_string() };
            if connection.push(Kind::Welcome, 0, Vec::new(), &refused).is_ok() {
                // A peer that does not take this little is not told.
                let _ = connection.flush();
            }
        }
        self.close(id, Left::Cut, callers);
    }

    fn close(&mut self, id: u64, how: Left, callers: &mut dyn Callers) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        // Closing the descriptor takes it out of the poll as well.
        let _ = self.registry.deregister(&mut connection.stream);
        if matches!(connection.stage, Stage::Asking | Stage::In) {
            callers.left(self.peer_id(id), how);
        }
        self.forget_settled();
    }

    /// Nobody waits for those to say who they are who have, or are gone: a server where nothing happens sleeps for
    /// ever.
    fn forget_settled(&mut self) {
        let is_unknown = |id: &u64| self.connections.get(id).is_some_and(|c| c.stage == Stage::Unknown);
        while self.unknown.front().is_some_and(|(_, id)| !is_unknown(id)) {
            self.unknown.pop_front();
        }
    }
}

impl Door for Listener {
    fn ready(&mut self, id: u64, ready: Ready, callers: &mut dyn Callers) {
        if (id as usize) < self.listening.len() {
            return self.accept(id as usize, callers);
        }
        if ready.writable {
            self.write(id, callers);
        }
        // Nothing of it is read before it is let in, and this is not said a second time.
        if ready.ended && self.connections.get(&id).is_some_and(|c| c.stage == Stage::Asking) {
            return self.close(id, Left::Closed, callers);
        }
        if ready.readable {
            self.read(id, ready.ended, callers);
        }
    }

    fn send(&mut self, connection: u64, message: Outgoing, callers: &mut dyn Callers) {
        match message {
            Outgoing::Accepted { server, uri, proc, parts, job_info, account } => {
                debug_assert!(job_info.is_none(), "a peer of this door maps the information of its job");
                let Some(entry) = self.connections.get_mut(&connection) else { return };
                entry.let_in(account);
                let (parts, descriptors): (Vec<Part>, Vec<OwnedFd>) = parts.into_iter().unzip();
                let welcome = Welcome::Accepted { server, uri, proc, parts };
                self.push(connection, Kind::Welcome, 0, descriptors, &welcome, callers);
                // Frames may have come while the server made up its mind.
                self.again.push(connection);
            }
            Outgoing::Refused { status, reason } => {
                let Some(entry) = self.connections.get_mut(&connection) else { return };
                entry.stage = Stage::Refused;
                self.push(connection, Kind::Welcome, 0, Vec::new(), &Welcome::Refused { status, reason }, callers);
            }
            Outgoing::Reply { number, reply, descriptors } => {
                self.push::<Reply>(connection, Kind::Reply, number, descriptors, &reply, callers);
            }
            Outgoing::Push(push) => self.push(connection, Kind::Push, 0, Vec::new(), &push, callers),
            Outgoing::End => {
                if let Some(mut entry) = self.connections.remove(&connection) {
                    let _ = entry.flush();
                    let _ = self.registry.deregister(&mut entry.stream);
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.again.is_empty() {
            return Some(Instant::now());
        }
        let handshake = self.unknown.front().map(|(until, _)| *until);
        [handshake, self.resume].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant, callers: &mut dyn Callers) {
        for id in std::mem::take(&mut self.again) {
            self.read(id, true, callers);
        }
        while let Some((until, id)) = self.unknown.front().copied() {
            let settled = self.connections.get(&id).is_none_or(|c| c.stage != Stage::Unknown);
            if !settled && until > now {
                break;
            }
            self.unknown.pop_front();
            if !settled {
                self.cut(id, &Breach::Late, callers);
            }
        }
        if self.resume.is_some_and(|at| at <= now) {
            self.resume = None;
            for at in 0..self.listening.len() {
                self.accept(at, callers);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};

    use super::*;
    use crate::account::Account;
    use crate::control::bind::{FOR_JOBS, bind_abstract};
    use crate::data::{Nspace, Proc, Rank};
    use crate::message::Request;

    struct Nobody;

    impl Callers for Nobody {
        fn arrived(&mut self, _: PeerId, _: Arrival) {}
        fn asked(&mut self, _: PeerId, _: u64, _: Request, _: usize) {}
        fn refused(&mut self, _: PeerId, _: u64) {}
        fn meets(&mut self, _: PeerId, _: u64, _: u32, _: bool) {}
        fn left(&mut self, _: PeerId, _: Left) {}
    }

    #[test]
    fn who_comes_in_a_crowd_has_others_served_between() {
        let (socket, name) = bind_abstract(FOR_JOBS).unwrap();
        let poll = mio::Poll::new().unwrap();
        let mut door = Listener::new(0, poll.registry().try_clone().unwrap(), 0, vec![socket]).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let peers: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
        door.ready(0, Ready { readable: true, writable: false, ended: false }, &mut Nobody);
        let mut turns = 1;
        while door.connections.len() < peers.len() {
            assert!(door.deadline().is_some_and(|at| at <= Instant::now()), "it goes on at once");
            door.tick(Instant::now(), &mut Nobody);
            turns += 1;
        }
        assert!(turns > 1);
        door.tick(Instant::now(), &mut Nobody);
        assert!(door.deadline().is_some_and(|at| at > Instant::now()), "and then waits for what they say");
    }

    #[test]
    fn nobody_waits_for_a_handshake_that_is_over() {
        let (socket, name) = bind_abstract(FOR_JOBS).unwrap();
        let poll = mio::Poll::new().unwrap();
        let mut door = Listener::new(0, poll.registry().try_clone().unwrap(), 0, vec![socket]).unwrap();
        assert_eq!(door.deadline(), None);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let mut peers: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
        let ready = Ready { readable: true, writable: false, ended: false };
        door.ready(0, ready, &mut Nobody);
        // The listening socket has number 0, and the first to come number 1.
        let last = door.unknown.back().map(|(until, _)| *until);
        let hello = Hello {
            proc: Proc::new(Nspace::new("job").unwrap(), Rank(0)),
            token: [0; 32],
            layout: 0,
            info: Vec::new(),
        };
        let hello = frame::encode(Kind::Hello, 0, 0, &hello).unwrap();
        peers[1].write_all(&hello).unwrap();
        door.ready(2, ready, &mut Nobody);
        peers[0].write_all(&hello).unwrap();
        door.ready(1, ready, &mut Nobody);
        assert_eq!(door.deadline(), last, "the third one has said nothing");
        drop(peers.remove(2));
        door.ready(3, Ready { ended: true, ..ready }, &mut Nobody);
        assert_eq!(door.deadline(), None, "two have said who they are, and one is gone");
    }

    /// Door with one peer that is let in and charged to an account.
    struct Visit {
        door: Listener,
        peer: UnixStream,
        connection: u64,
    }

    /// Server's side that notes what it is asked, and the sizes of what is refused.
    #[derive(Default)]
    struct Notes {
        asked: Vec<(u64, usize)>,
        refused: Vec<u64>,
        left: Vec<Left>,
    }

    impl Callers for Notes {
        fn arrived(&mut self, _: PeerId, _: Arrival) {}
        fn asked(&mut self, _: PeerId, number: u64, _: Request, bytes: usize) {
            self.asked.push((number, bytes));
        }
        fn refused(&mut self, _: PeerId, number: u64) {
            self.refused.push(number);
        }
        fn meets(&mut self, _: PeerId, _: u64, _: u32, _: bool) {}
        fn left(&mut self, _: PeerId, how: Left) {
            self.left.push(how);
        }
    }

    const READY: Ready = Ready { readable: true, writable: false, ended: false };

    impl Visit {
        fn new(account: &Account) -> Visit {
            let (socket, name) = bind_abstract(FOR_JOBS).unwrap();
            let poll = mio::Poll::new().unwrap();
            let mut door = Listener::new(0, poll.registry().try_clone().unwrap(), 0, vec![socket]).unwrap();
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            let mut peer = UnixStream::connect_addr(&address).unwrap();
            door.ready(0, READY, &mut Nobody);
            let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
            let hello = Hello { proc: proc.clone(), token: [0; 32], layout: 0, info: Vec::new() };
            peer.write_all(&frame::encode(Kind::Hello, 0, 0, &hello).unwrap()).unwrap();
            door.ready(1, READY, &mut Nobody);
            let (uri, account) = (String::new(), account.clone());
            let parts = Vec::new();
            let accepted = Outgoing::Accepted { server: proc.clone(), uri, proc, parts, job_info: None, account };
            door.send(1, accepted, &mut Nobody);
            Visit { door, peer, connection: 1 }
        }

        /// Has the door take in whatever there is, as often as it wants to.
        fn turn(&mut self, notes: &mut Notes) {
            self.door.ready(self.connection, READY, notes);
            while !self.door.again.is_empty() {
                self.door.tick(Instant::now(), notes);
            }
        }
    }

    fn large(number: u64, bytes: usize) -> rkyv::util::AlignedVec {
        let message = Some(vec![b'a'; bytes]);
        frame::encode(Kind::Request, number, 0, &Request::Abort { status: 0, message, procs: Vec::new() }).unwrap()
    }

    #[test]
    fn a_request_over_the_limit_is_refused_by_its_header_and_the_next_is_served() {
        let account = Account::of_job("job", 1 << 20);
        let mut visit = Visit::new(&account);
        let mut notes = Notes::default();
        let (fits, too_large) = (large(7, 900_000), large(8, 3 << 20));
        // The header and a little more: the charge is for all that it announces.
        visit.peer.write_all(&fits[..1000]).unwrap();
        visit.turn(&mut notes);
        assert!(account.used() > 900_000 && notes.asked.is_empty());
        for chunk in fits[1000..].chunks(50_000) {
            visit.peer.write_all(chunk).unwrap();
            visit.turn(&mut notes);
        }
        assert_eq!((account.used(), notes.asked.len()), (0, 1));
        for chunk in too_large.chunks(50_000) {
            visit.peer.write_all(chunk).unwrap();
            visit.turn(&mut notes);
            assert!(visit.door.connections[&1].is_mid_frame() || notes.refused == [8]);
        }
        visit.peer.write_all(&large(9, 10)).unwrap();
        visit.turn(&mut notes);
        assert_eq!(notes.refused, [8]);
        assert_eq!(notes.asked.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [7, 9]);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn a_request_that_breaks_off_gives_its_charge_back() {
        let account = Account::of_job("job", 1 << 20);
        let mut visit = Visit::new(&account);
        let mut notes = Notes::default();
        visit.peer.write_all(&large(7, 900_000)[..1000]).unwrap();
        visit.turn(&mut notes);
        assert!(account.used() > 0);
        visit.peer.shutdown(std::net::Shutdown::Both).unwrap();
        visit.turn(&mut notes);
        assert_eq!((account.used(), &notes.left[..]), (0, &[Left::Cut][..]));
    }

    #[test]
    fn answers_that_nobody_reads_are_refused_over_the_limit() {
        let account = Account::of_job("job", 8 << 20);
        let mut visit = Visit::new(&account);
        let mut notes = Notes::default();
        let value = |bytes: usize| Reply::Value(crate::data::Value::from("a".repeat(bytes).as_str()));
        for number in 1..=4 {
            let reply = Outgoing::Reply { number, reply: value(3 << 20), descriptors: Vec::new() };
            visit.door.send(visit.connection, reply, &mut notes);
        }
        assert!(account.used() > 6 << 20 && account.used() < 7 << 20, "two answers and two refusals");
        assert!(notes.left.is_empty());
        drop(visit.peer);
        visit.door.ready(1, Ready { ended: true, ..READY }, &mut notes);
        assert_eq!(account.used(), 0);
    }
}
