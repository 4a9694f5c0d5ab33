//! The native front door, seen from the server.
//!
//! It accepts, reads the first frame, asks the server whether that peer may come in, and then carries frames both ways.
//! It never blocks, and whatever a peer does harms that peer alone: a frame that breaks a rule, a handshake that takes
//! too long, or answers left unread end the connection with a line in the trace. Peers that have not said who they are
//! may fill a bounded number of places; when those are taken, the one that has waited longest makes room.
//!
//! Connections have [turns](crate::transport::turns). Long requests are taken apart by a
//! [thread of their own](crate::transport::worker).
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rkyv::util::AlignedVec;

use super::connection::{Connection, Incoming, Stage};
use super::frame::{self, FrameError, Header, Kind, MAX_BODY, MAX_HANDSHAKE};
use super::handshake::{Attach, Hello, Welcome};
use crate::account::Charge;
use crate::data::{Proc, Status};
use crate::message::door::{Arrival, Callers, Capabilities, Claim, Door, Left, Making, Outgoing, PeerId, Ready, User};
use crate::message::numbers::NumberMap;
use crate::message::{DescriptorKind, Push, Reply, Request};
use crate::sys::stopwatch::Stopwatch;
use crate::sys::{process, socket};
use crate::trace;
use crate::transport::common::Common;
use crate::transport::entrance::Entrance;
use crate::transport::input::{CHUNK, Fill};
use crate::transport::lobby::{HANDSHAKE_DEADLINE, Lobby};
use crate::transport::output::{Flush, Kept};
use crate::transport::shares::STRANGERS;
use crate::transport::turns::{TURN, Turns};
use crate::transport::worker::{SHORT, WORKER, Worker};

/// Connections taken in before those who are in already get their turn.
const ACCEPTED_PER_TURN: usize = 16;
/// Time that a request of [`Kind::Meet`] is counted with, instead of two looks at the clock.
const MEETING: Duration = Duration::from_micros(2);
/// Most requests of that kind in a turn.
const MEETINGS_PER_TURN: usize = 64;
/// Most others in a turn: an answer to each is sent behind it, which takes longer than many a request.
const REQUESTS_PER_TURN: usize = 32;

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
    /// Connections that have not said who they are.
    lobby: Lobby,
    turns: Turns,
    /// Takes long requests apart, and makes long answers.
    worker: Worker<Done>,
    /// Push that several peers are sent, and its frame.
    shared: Option<(Weak<Push>, Arc<AlignedVec>)>,
    entrance: Entrance,
    scratch: Box<[u8; CHUNK]>,
}

/// Work that the worker has done.
#[derive(Debug)]
enum Done {
    Decoded(Decoded),
    Encoded(Encoded),
}

/// A request that was taken apart.
#[derive(Debug)]
struct Decoded {
    connection: u64,
    header: Header,
    request: Result<Request, FrameError>,
    /// Bytes that its lists take here, and the charge for it until the server has it.
    kept: usize,
    charge: Charge,
    /// Processor time that it has taken.
    took: Duration,
}

/// An answer that was made, and has this place.
#[derive(Debug)]
struct Encoded {
    connection: u64,
    number: u64,
    kept: Kept,
    frame: Result<AlignedVec, FrameError>,
    /// Processor time that it has taken.
    took: Duration,
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
        common: &Common,
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
            lobby: Lobby::new(&common.strangers),
            turns: Turns::new(number, &common.shares),
            worker: Worker::new(tokens, WORKER, "decoder"),
            shared: None,
            entrance: Entrance::default(),
            scratch: Box::new([0; CHUNK]),
        })
    }

    fn peer_id(&self, connection: u64) -> PeerId {
        PeerId { door: self.number, connection }
    }

    /// Takes in who has come; who is left over in a crowd is taken in at the next turn.
    fn accept(&mut self, at: usize, callers: &mut dyn Callers) {
        if self.turns.shares.is_held(STRANGERS) {
            return self.entrance.resume_at(self.turns.shares.next_release());
        }
        let begin = Stopwatch::begin();
        self.turns.serve(STRANGERS);
        for (stream, _) in self.entrance.accept(ACCEPTED_PER_TURN, || self.listening[at].accept()) {
            self.take_in(stream, callers);
        }
        self.turns.shares.spend(STRANGERS, begin.elapsed());
    }

    fn take_in(&mut self, mut stream: UnixStream, callers: &mut dyn Callers) {
        let id = self.next;
        self.next += 1;
        let token = Token(self.tokens + id as usize);
        let peer = socket::peer(&stream);
        let registered = self.registry.register(&mut stream, token, Interest::READABLE);
        match (peer, registered) {
            (Ok(peer), Ok(())) => {
                self.connections.insert(id, Connection::new(stream, peer));
                self.make_room_for(id, callers);
            }
            (Err(e), _) | (_, Err(e)) => trace!("a connection cannot be taken in: {e}"),
        }
    }

    fn make_room_for(&mut self, id: u64, callers: &mut dyn Callers) {
        if let Some(oldest) = self.lobby.enter(id, |id| is_settled(&self.connections, id)) {
            // It may have spoken while others were accepted.
            self.read(oldest, true, callers);
            if !is_settled(&self.connections, oldest) {
                self.cut(oldest, &Breach::Crowded, callers);
            }
        }
    }

    /// Arranges the next turn of a connection: after those of others, or when its process is held no more.
    fn go_on(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            self.turns.go_on(id, &mut connection.place);
        }
    }

    /// Gives a connection its turn, or arranges one.
    fn turn(&mut self, id: u64, to_end: bool, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !self.turns.begin(id, &mut connection.place) {
            return;
        }
        if connection.place.may_send {
            self.send_some(id, callers);
        }
        if self.turns.served != STRANGERS {
            return self.read(id, to_end, callers);
        }
        let begin = Stopwatch::begin();
        self.read(id, to_end, callers);
        self.turns.shares.spend(STRANGERS, begin.elapsed());
    }

    /// Takes in what a peer has sent; up to the end of it, where no news of it is to be expected.
    fn read(&mut self, id: u64, to_end: bool, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.stage == Stage::Asking || connection.is_busy {
            return;
        }
        let mut has_more = true;
        if !connection.has_ended && !connection.has_frame() {
            let before = connection.waiting();
            let long = connection.is_mid_long().then(Stopwatch::begin);
            match connection.fill(&mut self.scratch, to_end) {
                Ok(filled) => {
                    has_more = filled == Fill::More;
                    connection.has_ended |= filled == Fill::Closed;
                    match long {
                        Some(begin) => self.turns.shares.spend(connection.place.owner, begin.elapsed()),
                        None => {
                            let bytes = connection.waiting().saturating_sub(before);
                            self.turns.has_read(connection.place.owner, bytes);
                        }
                    }
                }
                // The process was killed, or closed its end with something unread.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => connection.has_ended = true,
                Err(e) => return self.cut(id, &e.into(), callers),
            }
        }
        match self.dispatch(id, callers) {
            Ok(is_done) => has_more |= !is_done,
            Err(breach) => return self.cut(id, &breach, callers),
        }
        let Some(connection) = self.connections.get(&id).filter(|connection| !connection.is_busy) else { return };
        match connection.has_ended {
            true if connection.stage == Stage::Asking => self.close(id, Left::Closed, callers),
            true if connection.has_frame() => self.go_on(id),
            true if connection.is_mid_frame() => self.cut(id, &Breach::Truncated, callers),
            true => self.close(id, Left::Closed, callers),
            false if has_more => self.go_on(id),
            false => {}
        }
    }

    /// Hands whole frames on, as many as a turn has time for. Returns whether that was all of them.
    fn dispatch(&mut self, id: u64, callers: &mut dyn Callers) -> Result<bool, Breach> {
        let peer = self.peer_id(id);
        while let Some(connection) = self.connections.get_mut(&id) {
            match connection.stage {
                Stage::Asking | Stage::Refused => return Ok(true),
                Stage::Unknown => {
                    // A handshake is short, and nothing short is refused.
                    let Some(Incoming::Frame(header, body)) = connection.next_frame(MAX_HANDSHAKE)? else {
                        return Ok(true);
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
                    connection.is_tool = header.kind == Kind::Attach;
                    let socket::Peer { pid, uid, gid } = connection.peer;
                    // Its end is then that of its connection.
                    let process = process::watch_peer(&connection.stream, pid)
                        .inspect_err(|error| trace!("the end of process {pid} cannot be watched for: {error}"))
                        .ok();
                    // A handshake says 0 where the peer maps nothing.
                    let maps_layout = Some(layout).filter(|layout| *layout != 0);
                    let capabilities =
                        Capabilities { maps_layout, waits_at_words: true, votes: true, ..Capabilities::default() };
                    let user = Some(User { uid, gid: Some(gid) });
                    callers.arrived(peer, Arrival { claim, capabilities, info, user, pid, process });
                    self.forget_settled();
                }
                Stage::In => return self.dispatch_requests(id, callers),
            }
        }
        Ok(true)
    }

    /// Hands requests on of a peer that is in. Returns whether that was all of them.
    fn dispatch_requests(&mut self, id: u64, callers: &mut dyn Callers) -> Result<bool, Breach> {
        let peer = self.peer_id(id);
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(true) };
        let (owner, mut meetings, mut requests, mut spent) = (connection.place.owner, 0, 0, Duration::ZERO);
        // No message to the server's side changes a connection: that has its turn later.
        let is_done = loop {
            if spent >= TURN || meetings >= MEETINGS_PER_TURN || requests >= REQUESTS_PER_TURN {
                break false;
            }
            let (header, body) = match connection.next_frame(MAX_BODY)? {
                Some(Incoming::Frame(header, body)) => (header, body),
                Some(Incoming::Refused(header)) => {
                    callers.refused(peer, header.number);
                    self.turns.asked.own += 1;
                    meetings += 1;
                    continue;
                }
                None => break true,
            };
            match header.kind {
                Kind::Meet => {
                    let (seen, collect) = frame::meet_in(body)?;
                    callers.meets(peer, header.number, seen, collect);
                    self.turns.asked.joint += 1;
                    meetings += 1;
                }
                Kind::Request => {
                    if body.len() > SHORT && self.worker.is_there(&self.registry) {
                        let Some(detached) = connection.detach() else {
                            callers.refused(peer, header.number);
                            self.turns.asked.own += 1;
                            meetings += 1;
                            continue;
                        };
                        connection.is_busy = true;
                        self.worker.run(move || Some(Done::Decoded(decode(id, header, detached))));
                        break true;
                    }
                    requests += 1;
                    let begin = Stopwatch::begin();
                    let request = frame::request_in(header.kind, body)?;
                    self.turns.asked.count(&request);
                    let is_commit = matches!(request, Request::Commit { .. });
                    callers.asked(peer, header.number, request, header.body);
                    spent += begin.elapsed();
                    // A commit takes its time where it changes much, be its message long or not.
                    if is_commit {
                        connection.is_busy = callers.is_busy(peer);
                        if connection.is_busy {
                            break true;
                        }
                    }
                }
                other => return Err(Breach::Unexpected(other)),
            }
        };
        self.turns.shares.spend(owner, MEETING * meetings as u32);
        if !spent.is_zero() {
            self.turns.spend(spent);
        }
        Ok(is_done)
    }

    /// Hands a long request on that was taken apart.
    fn decoded(&mut self, decoded: Decoded, callers: &mut dyn Callers) {
        let Decoded { connection: id, header, request, kept, charge, took } = decoded;
        drop(charge);
        let peer = self.peer_id(id);
        let (owner, request) = match (self.connections.get_mut(&id), request) {
            (Some(connection), Ok(request)) => (connection.place.owner, request),
            (Some(_), Err(e)) => return self.cut(id, &e.into(), callers),
            (None, request) => {
                self.worker.run(move || {
                    drop(request);
                    None
                });
                return;
            }
        };
        self.turns.serve(owner);
        self.turns.asked.own += 1;
        self.turns.shares.spend(owner, took);
        let begin = Stopwatch::begin();
        callers.asked(peer, header.number, request, header.body.max(kept));
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.is_busy = callers.is_busy(peer);
        self.turns.shares.spend(connection.place.owner, begin.elapsed());
        if !connection.is_busy {
            self.go_on(id);
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
        self.turns.shares.leave(connection.place.owner);
        // Closing the descriptor takes it out of the poll as well.
        let _ = self.registry.deregister(&mut connection.stream);
        if matches!(connection.stage, Stage::Asking | Stage::In) {
            callers.left(self.peer_id(id), how);
        }
        self.forget_settled();
    }

    fn forget_settled(&mut self) {
        self.lobby.forget_settled(|id| is_settled(&self.connections, id));
    }
}

/// Returns whether a connection has said who it is, or is gone.
fn is_settled(connections: &NumberMap<u64, Connection>, id: u64) -> bool {
    connections.get(&id).is_none_or(|connection| connection.stage != Stage::Unknown)
}

/// Takes the body apart that these bytes end with.
fn decode(connection: u64, header: Header, (mut bytes, charge): (Vec<u8>, Charge)) -> Decoded {
    let begin = Stopwatch::begin();
    // An archive has to be aligned, as an allocation is.
    bytes.drain(..bytes.len() - header.body);
    let request = frame::request_in(header.kind, &bytes);
    drop(bytes);
    let kept = request.as_ref().map_or(0, Request::kept_size);
    Decoded { connection, header, request, kept, charge, took: begin.elapsed() }
}

impl Door for Listener {
    fn ready(&mut self, id: u64, ready: Ready, callers: &mut dyn Callers) {
        if (id as usize) < self.listening.len() {
            return self.accept(id as usize, callers);
        }
        if id == WORKER {
            return self.worker.take().into_iter().for_each(|done| match done {
                Done::Decoded(decoded) => self.decoded(decoded, callers),
                Done::Encoded(encoded) => self.encoded(encoded, callers),
            });
        }
        if ready.writable
            && let Some(connection) = self.connections.get_mut(&id)
        {
            let queued = connection.queued();
            if self.turns.sends_at_once(id, queued, false, &mut connection.place) {
                self.send_some(id, callers);
            }
        }
        // Nothing of it is read before it is let in, and this is not said a second time.
        if ready.ended && self.connections.get(&id).is_some_and(|c| c.stage == Stage::Asking) {
            return self.close(id, Left::Closed, callers);
        }
        if ready.readable {
            self.turn(id, ready.ended, callers);
        }
    }

    fn hear_out(&mut self, _: &Proc, connection: Option<u64>, _: &mut dyn Callers) -> bool {
        let own = connection.and_then(|id| Some((id, self.connections.get_mut(&id)?)));
        let speaking = own.filter(|(_, connection)| connection.stage == Stage::In);
        let speaking = speaking.and_then(|(id, connection)| connection.hear_out().then_some(id));
        speaking.into_iter().for_each(|id| self.go_on(id));
        speaking.is_some()
    }

    fn send(&mut self, connection: u64, message: Outgoing, callers: &mut dyn Callers) {
        self.queue(connection, message, callers);
        self.flush(connection, callers);
    }

    fn flush(&mut self, connection: u64, callers: &mut dyn Callers) {
        self.send_soon(connection, callers);
    }

    fn queue(&mut self, connection: u64, message: Outgoing, callers: &mut dyn Callers) {
        match message {
            Outgoing::Accepted { server, uri, proc, parts, job_info, account } => {
                debug_assert!(job_info.is_none(), "a peer of this door maps the information of its job");
                let Some(entry) = self.connections.get_mut(&connection) else { return };
                entry.place.owner = match entry.is_tool {
                    true => self.turns.shares.join_tools(entry.peer.uid),
                    false => self.turns.shares.join(&proc, account.descent()),
                };
                entry.let_in(account);
                let (parts, descriptors): (Vec<DescriptorKind>, Vec<OwnedFd>) = parts.into_iter().unzip();
                let welcome = Welcome::Accepted { server, uri, proc, parts };
                self.push(connection, Kind::Welcome, 0, descriptors, &welcome, callers);
                // Frames may have come while the server made up its mind.
                self.go_on(connection);
            }
            Outgoing::Refused { status, reason } => {
                let Some(entry) = self.connections.get_mut(&connection) else { return };
                entry.stage = Stage::Refused;
                self.push(connection, Kind::Welcome, 0, Vec::new(), &Welcome::Refused { status, reason }, callers);
            }
            Outgoing::Reply { number, reply, descriptors }
                if reply.bytes() >= Making::LONG && descriptors.is_empty() =>
            {
                self.make(connection, number, Making::new(reply.bytes(), || reply), callers);
            }
            Outgoing::Made { number, answer } => self.make(connection, number, answer, callers),
            Outgoing::Reply { number, reply, descriptors } => {
                self.push::<Reply>(connection, Kind::Reply, number, descriptors, &reply, callers);
            }
            Outgoing::Push(push) => self.push(connection, Kind::Push, 0, Vec::new(), &push, callers),
            Outgoing::Shared(push) => self.push_shared(connection, &push, callers),
            Outgoing::GoOn => {
                if let Some(entry) = self.connections.get_mut(&connection) {
                    entry.is_busy = false;
                    self.go_on(connection);
                }
            }
            Outgoing::End => {
                if let Some(mut entry) = self.connections.remove(&connection) {
                    self.turns.shares.leave(entry.place.owner);
                    while matches!(entry.flush(), Ok(Flush::More)) {}
                    let _ = self.registry.deregister(&mut entry.stream);
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        [self.turns.deadline(), self.lobby.deadline(), self.entrance.deadline()].into_iter().flatten().min()
    }

    fn also_spent(&mut self, time: Duration, ended: usize) {
        self.turns.also_spent(time, ended);
    }

    fn spent_for(&mut self, connection: u64, time: Duration) {
        if let Some(connection) = self.connections.get(&connection) {
            self.turns.shares.spend(connection.place.owner, time);
        }
    }

    fn tick(&mut self, now: Instant, callers: &mut dyn Callers) {
        if let Some(id) = self.turns.next(now) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.place.call();
            }
            self.turn(id, true, callers);
        }
        while let Some(id) = self.lobby.late(now, |id| is_settled(&self.connections, id)) {
            self.cut(id, &Breach::Late, callers);
        }
        if self.entrance.resumes(now) {
            for at in 0..self.listening.len() {
                self.accept(at, callers);
            }
        }
    }
}

mod sending;
#[cfg(test)]
mod tests;
