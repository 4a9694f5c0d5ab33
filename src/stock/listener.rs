//! The stock door, seen from the server: ports of the loopback interface, and of others where the host asks for peers of
//! other machines ([`identity`]), and the connections that come in through them.
//!
//! It never blocks, and whatever a peer does harms that peer alone. A refused peer reads the status of its refusal
//! before its socket ends, which a stock server does not let it: it would take itself for a process without a server.
//!
//! Connections have turns, and processes their [shares](crate::transport::shares), as at the native door. Long requests
//! are taken apart, and the information of large jobs is packed, by a [thread of their own](crate::transport::worker).
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use super::ack::{self, Kind};
use super::answers;
use super::connection::{Breach, Connection, Incoming, Stage, With, next};
use super::conversation::{Conversation, Reading, Step};
use super::frame::{FIRST_DYNAMIC, Header};
use super::job_info::{self, For, Shelf};
use super::requests::Asked;
use super::tools;
use crate::account::{Charge, Kind as Held};
use crate::data::{Proc, Status};
use crate::message::door::{Callers, Door, JobInformation, Left, Making, Outgoing, PeerId, Ready};
use crate::message::numbers::NumberMap;
use crate::message::{LARGEST, Push};
use crate::sys::munge;
use crate::sys::socket;
use crate::sys::stopwatch::Stopwatch;
use crate::trace;
use crate::transport::common::Common;
use crate::transport::entrance::Entrance;
use crate::transport::input::{CHUNK, Fill};
use crate::transport::lobby::Lobby;
use crate::transport::output::Kept;
use crate::transport::turns::{TURN, Turns};
use crate::transport::worker::{ASKER, SHORT, WORKER, Worker};
use crate::wire::{Form, WireError};

use identity::Unproven;

/// Connections taken in before those who are in already get their turn.
const ACCEPTED_PER_TURN: usize = 64;

/// Place at which the door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {place}: {source}")]
pub struct Unopened {
    /// The address and the port.
    pub place: SocketAddr,
    /// The kernel's reason.
    pub source: io::Error,
}

/// The door.
pub struct StockListener {
    number: u8,
    registry: Registry,
    /// Poll token that the door's own tokens are added to.
    tokens: usize,
    listening: Vec<TcpListener>,
    connections: NumberMap<u64, Connection>,
    /// Number of the last connection; that of the listening sockets is 0.
    last: u64,
    /// Connections that have not said who they are, or were refused.
    lobby: Lobby,
    turns: Turns,
    worker: Worker<Done>,
    /// Waits for the service that judges credentials of other machines' peers.
    asker: Worker<Done>,
    /// Credentials that are on their way through it.
    judging: usize,
    /// Information of jobs, packed.
    shelf: Shelf,
    /// Push that several peers are sent, with its tag and bytes in a form.
    shared: Option<(Weak<Push>, Form, u32, Vec<u8>)>,
    entrance: Entrance,
    scratch: Box<[u8; CHUNK]>,
}

/// Work that the worker has done.
enum Done {
    /// A request was taken apart, which had so many bytes or takes so many here, in so much processor time; with the
    /// charge for it.
    Read { connection: u64, tag: u32, len: usize, asked: Result<Asked, WireError>, charge: Charge, took: Duration },
    /// An answer was made, which has this place.
    Made(Made),
    /// The information of a job was packed.
    Packed(Arc<dyn JobInformation>, job_info::Kind, Result<Vec<u8>, Status>),
    /// The credential of a connection was judged; none where that was gone.
    Judged(u64, Option<Result<munge::Owner, Unproven>>),
}

/// An answer that was made and packed.
struct Made {
    connection: u64,
    tag: u32,
    kept: Kept,
    message: Result<Vec<u8>, Breach>,
    /// Processor time that it has taken.
    took: Duration,
}

impl StockListener {
    /// Opens the door at these addresses, on a port that the kernel chooses where they name none.
    ///
    /// # Errors
    /// [`Unopened`] names the place that cannot be had.
    pub fn open(
        number: u8,
        registry: Registry,
        tokens: usize,
        places: &[SocketAddr],
        common: &Common,
    ) -> Result<Self, Unopened> {
        let listen = |place: SocketAddr| {
            let mut listening = TcpListener::bind(place)?;
            registry.register(&mut listening, Token(tokens), Interest::READABLE)?;
            Ok(listening)
        };
        let listen = |place: &SocketAddr| listen(*place).map_err(|source| Unopened { place: *place, source });
        let listening = places.iter().map(listen).collect::<Result<Vec<_>, Unopened>>()?;
        Ok(StockListener {
            number,
            registry,
            tokens,
            listening,
            connections: NumberMap::default(),
            last: 0,
            lobby: Lobby::new(&common.strangers),
            turns: Turns::new(number, &common.shares),
            worker: Worker::new(tokens, WORKER, "decoder"),
            asker: Worker::new(tokens, ASKER, "credentials"),
            judging: 0,
            shelf: Shelf::default(),
            entrance: Entrance::default(),
            shared: None,
            scratch: Box::new([0; CHUNK]),
        })
    }

    /// Returns the addresses that it listens at, in the order in which they were asked for.
    ///
    /// # Errors
    /// The kernel's.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listening.iter().map(TcpListener::local_addr).collect()
    }

    fn peer_id(&self, connection: u64) -> PeerId {
        PeerId { door: self.number, connection }
    }

    fn accept(&mut self, callers: &mut dyn Callers) {
        for at in 0..self.listening.len() {
            for (stream, _) in self.entrance.accept(ACCEPTED_PER_TURN, || self.listening[at].accept()) {
                self.take_in(stream, callers);
            }
        }
    }

    fn take_in(&mut self, mut stream: TcpStream, callers: &mut dyn Callers) {
        self.last += 1;
        let id = self.last;
        let token = Token(self.tokens + id as usize);
        match self.registry.register(&mut stream, token, Interest::READABLE) {
            Ok(()) => {
                // Answers are short, and their client waits for each.
                let _ = stream.set_nodelay(true);
                self.connections.insert(id, Connection::new(stream));
                self.make_room_for(id, callers);
            }
            Err(e) => trace!("a connection cannot be taken in: {e}"),
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
        if self.turns.begin(id, &mut connection.place) {
            if connection.place.may_send {
                self.send_some(id, callers);
            }
            let begin = Stopwatch::begin();
            self.read(id, to_end, callers);
            self.turns.spend(begin.elapsed());
        }
    }

    /// Takes in what a peer has sent; up to the end of it, where no news of it is to be expected.
    fn read(&mut self, id: u64, to_end: bool, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_busy || connection.waits() {
            return;
        }
        let mut has_more = true;
        if !connection.has_ended && !connection.has_message() {
            let before = connection.input.waiting().len();
            match connection.fill(&mut self.scratch, to_end) {
                Ok(filled) => {
                    has_more = filled == Fill::More;
                    connection.has_ended |= filled == Fill::Closed;
                    let bytes = connection.input.waiting().len().saturating_sub(before);
                    self.turns.has_read(connection.place.owner, bytes);
                }
                // The process was killed, or closed its end with something unread.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => connection.has_ended = true,
                Err(e) => {
                    self.cut(id, &e.into(), callers);
                    return;
                }
            }
        }
        match self.dispatch(id, callers) {
            Ok(is_done) => has_more |= !is_done,
            Err(breach) => {
                self.cut(id, &breach, callers);
                return;
            }
        }
        let Some(connection) = self.connections.get(&id).filter(|connection| !connection.is_busy) else {
            return;
        };
        let is_in = matches!(connection.stage, Stage::In(_));
        match connection.has_ended {
            true if is_in && connection.has_message() => self.go_on(id),
            true if is_in && connection.input.is_mid_message() => self.cut(id, &Breach::Truncated, callers),
            true => self.close(id, Left::Closed, callers),
            false if has_more => self.go_on(id),
            false => {}
        }
    }

    /// Hands whole messages on, as many as a turn has time for. Returns whether that was all of them.
    fn dispatch(&mut self, id: u64, callers: &mut dyn Callers) -> Result<bool, Breach> {
        let (begin, mut has_begun) = (Stopwatch::begin(), false);
        while let Some(connection) = self.connections.get_mut(&id) {
            if connection.is_busy {
                return Ok(true);
            }
            if has_begun && begin.elapsed() >= TURN {
                return Ok(false);
            }
            let Connection { stage, input, account, .. } = connection;
            let (step, len) = match stage {
                Stage::Judging { .. } | Stage::Asking(..) | Stage::Refused(None) => return Ok(true),
                Stage::Refused(said @ Some(_)) => match next(input, account, false, SHORT)? {
                    None => return Ok(true),
                    Some(Incoming::Message(Header { tag, .. }, _)) => {
                        // Nobody answers for what it goes on sending.
                        input.refuse_all();
                        let answer = said.take().filter(|_| tag >= FIRST_DYNAMIC);
                        let body = answer.map(|(form, status)| answers::status(form, status)).transpose()?;
                        (body.map(|body| Step::Send(tag, body)), 0)
                    }
                    Some(_) => return Err(Breach::NotStock),
                },
                Stage::Unknown => {
                    let Some(Incoming::Ack(body)) = next(input, account, true, ack::MAX)? else { return Ok(true) };
                    let ack = ack::parse(body)?;
                    self.introduce(id, ack, callers)?;
                    continue;
                }
                Stage::In(conversation) => match next(input, account, false, LARGEST)? {
                    None => return Ok(true),
                    Some(Incoming::Message(header, body)) => {
                        let (reading, len) = (conversation.reading(), body.len());
                        if len <= SHORT || !self.worker.is_there(&self.registry) {
                            let asked = reading.read(header.tag, body, usize::MAX)?;
                            (conversation.asked(header.tag, asked)?, len)
                        } else if let Some(detached) = input.detach(account) {
                            connection.is_busy = true;
                            self.worker.run(move || Some(decode(id, header.tag, len, reading, detached)));
                            return Ok(true);
                        } else {
                            (Some(conversation.refused(header.tag)?), 0)
                        }
                    }
                    Some(Incoming::Refused(header)) => (Some(conversation.refused(header.tag)?), 0),
                    Some(Incoming::Ack(_)) => return Err(Breach::NotStock),
                },
            };
            has_begun = true;
            if let Some(step) = step {
                self.step(id, step, len, callers)?;
            }
        }
        Ok(true)
    }

    /// Takes in what the worker has done.
    fn done(&mut self, done: Done, callers: &mut dyn Callers) {
        match done {
            Done::Read { connection: id, tag, len, asked, charge, took } => {
                let Some(connection) = self.connections.get_mut(&id) else {
                    return drop(self.worker.run(move || {
                        drop(asked);
                        None
                    }));
                };
                connection.is_busy = false;
                // The server charges what waits.
                drop(charge);
                self.turns.serve(connection.place.owner);
                self.turns.shares.spend(self.turns.served, took);
                let begin = Stopwatch::begin();
                if let Err(breach) = self.handed_on(id, tag, len, asked, callers) {
                    return self.cut(id, &breach, callers);
                }
                self.turns.shares.spend(self.turns.served, begin.elapsed());
                if self.connections.get(&id).is_some_and(|connection| !connection.is_busy) {
                    self.go_on(id);
                }
            }
            Done::Made(made) => self.made(made, callers),
            Done::Packed(job, kind, body) => self.packed(&job, kind, body, callers),
            Done::Judged(id, verdict) => {
                self.judging -= 1;
                if let Some(verdict) = verdict {
                    self.judged(id, verdict, callers);
                }
            }
        }
    }

    /// Hands a long request on.
    fn handed_on(
        &mut self,
        id: u64,
        tag: u32,
        len: usize,
        asked: Result<Asked, WireError>,
        callers: &mut dyn Callers,
    ) -> Result<(), Breach> {
        let Some(Connection { stage: Stage::In(conversation), .. }) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let step = match asked {
            Err(WireError::NoMemory) => Some(conversation.refused(tag)?),
            asked => conversation.asked(tag, asked?)?,
        };
        step.map_or(Ok(()), |step| self.step(id, step, len, callers))
    }

    fn step(&mut self, id: u64, step: Step, bytes: usize, callers: &mut dyn Callers) -> Result<(), Breach> {
        match step {
            Step::Ask(number, request) => {
                let peer = self.peer_id(id);
                self.turns.asked.count(&request);
                callers.asked(peer, number, request, bytes);
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_busy = callers.is_busy(peer);
                    // No answer acknowledges it, and stock clients send nothing more before: 40 ms, if the kernel waits.
                    if number == 0 {
                        socket::acknowledge_at_once(&connection.stream);
                    }
                }
            }
            Step::Send(tag, body) => self.push(id, tag, &body, With::default(), callers)?,
            Step::JobInfo(tag, job) => self.inform(id, For::Answer(tag), job, callers)?,
            Step::Gather(number, nspace) => match callers.job_information(&nspace) {
                Some(job) => self.inform(id, For::Part(number), job, callers)?,
                None => self.informed(id, For::Part(number), None, callers)?,
            },
        }
        Ok(())
    }

    /// Tells a peer why it is not let in; its socket ends when it has closed its own end, or in time.
    ///
    /// Clients of 4.2 go on to their first request all the same, and wait for ever for its answer where the connection
    /// ends before they have sent it. So they are answered.
    fn refuse(&mut self, id: u64, status: Status, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (form, is_in_lobby) = match &connection.stage {
            Stage::Judging { ack, .. } => (ack.form, true),
            Stage::Asking(ack, _) => (ack.form, false),
            _ => (Form::Plain, false),
        };
        connection.stage = Stage::Refused(Some((form, status)));
        if connection.push_raw(&status.0.to_be_bytes()).is_ok() {
            self.write(id, callers);
        }
        if !is_in_lobby {
            self.make_room_for(id, callers);
        }
        // The first request may have come with the name.
        self.go_on(id);
    }

    /// Ends a connection for its own fault.
    fn cut(&mut self, id: u64, breach: &Breach, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        trace!("connection {id} of the stock door is cut: {breach}");
        let is_told = matches!(connection.stage, Stage::Unknown | Stage::Judging { .. });
        if is_told && connection.push_raw(&Status::ERR_HANDSHAKE_FAILED.0.to_be_bytes()).is_ok() {
            // A peer that does not take this little is not told.
            let _ = connection.flush();
        }
        self.close(id, Left::Cut, callers);
    }

    fn close(&mut self, id: u64, how: Left, callers: &mut dyn Callers) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.turns.shares.leave(connection.place.owner);
        // Closing the descriptor takes it out of the poll as well.
        let _ = self.registry.deregister(&mut connection.stream);
        if matches!(connection.stage, Stage::Asking(..) | Stage::In(_)) {
            callers.left(self.peer_id(id), how);
        }
        self.forget_settled();
    }

    fn forget_settled(&mut self) {
        self.lobby.forget_settled(|id| is_settled(&self.connections, id));
    }

    fn message(&mut self, id: u64, message: Outgoing, callers: &mut dyn Callers) -> Result<(), Breach> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        match message {
            Outgoing::Accepted { server, proc, job_info, account, .. } => {
                let Stage::Asking(ack, uid) = &mut connection.stage else { return Ok(()) };
                let welcome = tools::welcome(ack.kind, &proc, &server);
                // A tool has its name from the server, whatever it wanted.
                ack.proc = proc.clone();
                connection.place.owner = match ack.kind {
                    Kind::Tool | Kind::NamedTool => self.turns.shares.join_tools(*uid),
                    Kind::Client | Kind::ToolOfJob => self.turns.shares.join(&proc, account.descent()),
                };
                let conversation = Conversation::new(ack, job_info);
                connection.let_in(conversation, account);
                connection.push_raw(&welcome)?;
                self.write(id, callers);
                // Messages may have come while the server made up its mind.
                self.go_on(id);
            }
            Outgoing::Refused { status, .. } => self.refuse(id, status, callers),
            Outgoing::Reply { number, reply, .. } if reply.bytes() >= Making::LONG => {
                self.make(id, number, Making::new(reply.bytes(), || reply), callers)?;
            }
            Outgoing::Made { number, answer } => self.make(id, number, answer, callers)?,
            Outgoing::Reply { number, reply, .. } => {
                let Stage::In(conversation) = &mut connection.stage else { return Ok(()) };
                if let Some(step) = conversation.replied(number, reply)? {
                    self.step(id, step, 0, callers)?;
                }
            }
            Outgoing::Push(push) => self.push_unasked(id, push, callers)?,
            Outgoing::Shared(push) => self.push_to_many(id, &push, callers)?,
            Outgoing::GoOn => {
                connection.is_busy = false;
                self.go_on(id);
            }
            Outgoing::End => {
                if let Some(mut entry) = self.connections.remove(&id) {
                    self.turns.shares.leave(entry.place.owner);
                    let _ = entry.flush();
                    let _ = self.registry.deregister(&mut entry.stream);
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a connection is in, or asks to be, or is gone.
fn is_settled(connections: &NumberMap<u64, Connection>, id: u64) -> bool {
    let is_outside = |connection: &Connection| {
        matches!(connection.stage, Stage::Unknown | Stage::Judging { .. } | Stage::Refused(_))
    };
    !connections.get(&id).is_some_and(is_outside)
}

/// Takes the message apart that these bytes end with, where its account has room for what comes of it.
fn decode(connection: u64, tag: u32, len: usize, reading: Reading, (bytes, mut charge): (Vec<u8>, Charge)) -> Done {
    let begin = Stopwatch::begin();
    let room = usize::try_from(charge.room()).unwrap_or(usize::MAX);
    let mut asked = reading.read(tag, &bytes[bytes.len() - len..], room);
    drop(bytes);
    let kept = asked.as_ref().map_or(0, Asked::kept_size);
    if !charge.resize(Held::Input, kept.max(len)) {
        asked = Err(WireError::NoMemory);
    }
    Done::Read { connection, tag, len: kept.max(len), asked, charge, took: begin.elapsed() }
}

impl Door for StockListener {
    fn ready(&mut self, id: u64, ready: Ready, callers: &mut dyn Callers) {
        if id == 0 {
            return self.accept(callers);
        }
        if id == ASKER {
            return self.asker.take().into_iter().for_each(|done| self.done(done, callers));
        }
        if id == WORKER {
            return self.worker.take().into_iter().for_each(|done| self.done(done, callers));
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
        if ready.ended && self.connections.get(&id).is_some_and(Connection::waits) {
            return self.close(id, Left::Closed, callers);
        }
        if ready.readable {
            self.turn(id, ready.ended, callers);
        }
    }

    fn hear_out(&mut self, _: &Proc, connection: Option<u64>, _: &mut dyn Callers) -> bool {
        let own = connection.and_then(|id| Some((id, self.connections.get_mut(&id)?)));
        let speaking = own.filter(|(_, connection)| matches!(connection.stage, Stage::In(_)));
        let speaking = speaking.and_then(|(id, connection)| connection.hear_out().then_some(id));
        speaking.into_iter().for_each(|id| self.go_on(id));
        speaking.is_some()
    }

    fn send(&mut self, connection: u64, message: Outgoing, callers: &mut dyn Callers) {
        if let Err(breach) = self.message(connection, message, callers) {
            self.cut(connection, &breach, callers);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.turns.deadline(), self.lobby.deadline(), self.entrance.deadline(), self.shelf.deadline()];
        deadlines.into_iter().flatten().min()
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
        self.shelf.forget(now);
        while let Some(id) = self.lobby.late(now, |id| is_settled(&self.connections, id)) {
            self.cut(id, &Breach::Late, callers);
        }
        if self.entrance.resumes(now) {
            self.accept(callers);
        }
    }
}

mod identity;
mod information;
mod sending;
#[cfg(test)]
mod tests;
