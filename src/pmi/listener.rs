//! The PMI door, seen from the server: a socket with an abstract name, to which launchers of our user connect for their
//! processes, and the connections that came in through it.
//!
//! It never blocks, and whatever a process sends harms that process alone. Connections have turns, and processes their
//! [shares](crate::transport::shares), as at the other doors.
use std::io;
use std::os::unix::net::UnixListener as Socket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::UnixListener;
use mio::{Interest, Registry, Token};

use self::comers::{BACKLOG, user_of};
use super::connection::{Breach, Connection, FIRST, Stage, next_frame, next_line};
use super::conversation::{Conversation, Step};
use super::version::Version;
use super::waiters::Waiters;
use super::words::{LONGEST, Words};
use super::{mapping, seat};
use crate::data::Proc;
use crate::message::door::{Arrival, Callers, Capabilities, Claim, Door, JobInformation, Left};
use crate::message::door::{Outgoing, PeerId, Ready};
use crate::message::numbers::NumberMap;
use crate::sys::stopwatch::Stopwatch;
use crate::trace;
use crate::transport::common::Common;
use crate::transport::entrance::Entrance;
use crate::transport::input::{CHUNK, Fill};
use crate::transport::lobby::Lobby;
use crate::transport::output::watch_for_room;
use crate::transport::turns::{Place, TURN, Turns};

/// The begin of a process's first line.
const INIT: &[u8] = b"cmd=init";

/// Information of a job, and the placement of its ranks as text.
type Mapped = (Arc<dyn JobInformation>, Option<Arc<[u8]>>);

/// The door.
pub struct PmiListener {
    number: u8,
    registry: Registry,
    /// Poll token that the door's own tokens are added to.
    tokens: usize,
    listening: UnixListener,
    /// Our own user; nobody else is let in.
    uid: u32,
    connections: NumberMap<u64, Connection>,
    /// Number of the last connection; that of the listening socket is 0.
    last: u64,
    /// Connections whose seats nobody has named.
    lobby: Lobby,
    turns: Turns,
    /// Processes that wait for an attribute of the node.
    waiters: Waiters,
    /// Placement of the job that came last.
    mapped: Option<Mapped>,
    entrance: Entrance,
    /// Connections that may be taken in out of turn, for those who have ended, until the door has its next turn.
    out_of_turn: usize,
    scratch: Box<[u8; CHUNK]>,
}

impl PmiListener {
    /// Opens the door at a socket that listens. A process without a seat is charged to the strangers of `common`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        number: u8,
        registry: Registry,
        tokens: usize,
        socket: Socket,
        uid: u32,
        common: &Common,
    ) -> io::Result<Self> {
        let mut listening = UnixListener::from_std(socket);
        registry.register(&mut listening, Token(tokens), Interest::READABLE)?;
        Ok(PmiListener {
            number,
            registry,
            tokens,
            listening,
            uid,
            connections: NumberMap::default(),
            last: 0,
            lobby: Lobby::new(&common.strangers),
            turns: Turns::new(number, &common.shares),
            waiters: Waiters::default(),
            mapped: None,
            entrance: Entrance::default(),
            out_of_turn: BACKLOG,
            scratch: Box::new([0; CHUNK]),
        })
    }

    fn peer_id(&self, connection: u64) -> PeerId {
        PeerId { door: self.number, connection }
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

    /// Takes in what a process has sent.
    fn read(&mut self, id: u64, to_end: bool, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_busy || matches!(connection.stage, Stage::Asking(_)) {
            return;
        }
        let (mut has_more, mut was_full) = (false, false);
        if !connection.has_ended {
            let before = connection.input.waiting().len();
            match connection.fill(&mut self.scratch, to_end) {
                Ok(filled) => {
                    has_more = filled == Fill::More;
                    connection.has_ended |= filled == Fill::Closed;
                    let waiting = connection.input.waiting().len();
                    was_full = waiting >= LONGEST;
                    let bytes = waiting.saturating_sub(before);
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
        let is_held = matches!(&connection.stage, Stage::In(conversation) if conversation.is_waiting());
        has_more |= was_full && !is_held;
        match connection.has_ended && !matches!(connection.stage, Stage::Asking(_)) {
            true if !has_more => self.close(id, Left::Closed, callers),
            _ if has_more => self.go_on(id),
            _ => {}
        }
    }

    /// Hands whole messages on, as many as a turn has time for. Returns whether that was all that may be handed on now.
    fn dispatch(&mut self, id: u64, callers: &mut dyn Callers) -> Result<bool, Breach> {
        let (begin, mut has_begun) = (Stopwatch::begin(), false);
        while let Some(connection) = self.connections.get_mut(&id) {
            if connection.is_busy {
                return Ok(true);
            }
            if has_begun && begin.elapsed() >= TURN {
                return Ok(false);
            }
            let Connection { stage, seat: named, input, account, unasked, has_ended, .. } = connection;
            let step = match stage {
                Stage::Asking(_) => return Ok(true),
                Stage::Unknown => {
                    let Some(line) = next_line(input, account, FIRST)? else { return Ok(true) };
                    let seat = seat::read(line).ok_or(Breach::NoSeat)?;
                    self.seat(id, seat, callers)?;
                    continue;
                }
                Stage::Seated => {
                    let Some(line) = next_line(input, account, FIRST)? else { return Ok(true) };
                    let words = Words::of_line(line)?;
                    let version = Version::asked_by(&words).filter(|_| words.command() == b"init");
                    let Some(version) = version else {
                        let response = Version::One(1).response(false);
                        self.send(id, response, callers)?;
                        continue;
                    };
                    let (proc, token) = named.clone().ok_or(Breach::NoSeat)?;
                    let claim = Claim::Process { proc, token: Some(token) };
                    connection.stage = Stage::Asking(version);
                    self.introduce(id, claim, callers)?;
                    continue;
                }
                // In either version this is a line. One in pieces is not looked at yet.
                Stage::In(conversation) if conversation.has_finalized() && begins(input.waiting(), INIT) => {
                    if input.waiting().len() >= INIT.len() {
                        self.begin_anew(id, callers)?;
                    }
                    return Ok(true);
                }
                Stage::In(conversation) => {
                    let before = input.waiting().len();
                    let is_abort = input.waiting().starts_with(b"cmd=abort");
                    // A process that is gone waits for no answer.
                    if conversation.is_waiting() && !is_abort && !*has_ended {
                        return Ok(true);
                    }
                    let read = match conversation.version() {
                        Version::One(_) => next_line(input, account, LONGEST)?.map(|line| conversation.line(line)),
                        Version::Two => next_frame(input, account)?.map(|body| conversation.frame(body)),
                    };
                    let Some(step) = read else { return Ok(true) };
                    let step = step.map_err(Breach::Message)?;
                    *unasked += before - input.waiting().len();
                    step.map(|step| (step, std::mem::take(unasked)))
                }
            };
            has_begun = true;
            if let Some((step, bytes)) = step {
                self.step(id, step, bytes, callers)?;
            }
        }
        Ok(true)
    }

    /// A process that has finalized begins once more. To the server it is another peer.
    fn begin_anew(&mut self, id: u64, callers: &mut dyn Callers) -> Result<(), Breach> {
        let Some(mut connection) = self.connections.remove(&id) else { return Ok(()) };
        self.forget(id, &mut connection);
        callers.left(self.peer_id(id), Left::Closed);
        self.last += 1;
        let id = self.last;
        connection.stage = Stage::Seated;
        connection.place = Place::default();
        let interest =
            if connection.wants_write { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.registry.register(&mut connection.stream, Token(self.tokens + id as usize), interest)?;
        self.connections.insert(id, connection);
        self.go_on(id);
        Ok(())
    }

    /// Asks the server whether a process may come in. The launcher has connected, whose user the kernel knows.
    fn introduce(&mut self, id: u64, claim: Claim, callers: &mut dyn Callers) -> Result<(), Breach> {
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        let user = Some(user_of(connection)?);
        let capabilities = Capabilities { takes_job_info: true, ..Capabilities::default() };
        let arrival = Arrival { claim, capabilities, info: Vec::new(), user, pid: 0, process: None };
        callers.arrived(self.peer_id(id), arrival);
        Ok(())
    }

    fn step(&mut self, id: u64, step: Step, bytes: usize, callers: &mut dyn Callers) -> Result<(), Breach> {
        match step {
            Step::Ask(number, request) => {
                let peer = self.peer_id(id);
                self.turns.asked.count(&request);
                callers.asked(peer, number, request, bytes);
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_busy = callers.is_busy(peer);
                }
            }
            Step::Send(bytes) => self.send(id, bytes, callers)?,
            Step::Await(key, number) => {
                let Some(Connection { stage: Stage::In(conversation), place, .. }) = self.connections.get_mut(&id)
                else {
                    return Ok(());
                };
                let nspace = conversation.nspace().clone();
                if !self.waiters.wait(place.owner, (id, number), nspace, key)
                    && let Some(step) = conversation.cannot_wait(number)
                {
                    self.step(id, step, 0, callers)?;
                }
            }
            Step::Put(key, bytes) => {
                self.send(id, bytes, callers)?;
                if let Some(Stage::In(conversation)) = self.connections.get(&id).map(|entry| &entry.stage) {
                    self.waiters.put(conversation.nspace().clone(), key);
                }
            }
        }
        Ok(())
    }

    /// Asks again for some of those for whom an attribute was put, as turns of theirs.
    fn wake_some(&mut self, callers: &mut dyn Callers) {
        for (id, number) in self.waiters.next_due() {
            let Some(connection) = self.connections.get(&id) else { continue };
            let Stage::In(conversation) = &connection.stage else { continue };
            let Some(again) = conversation.again(number) else { continue };
            let begin = Stopwatch::begin();
            self.turns.serve(connection.place.owner);
            if let Err(breach) = self.step(id, again, 0, callers) {
                self.cut(id, &breach, callers);
            }
            self.turns.spend(begin.elapsed());
        }
    }

    fn send(&mut self, id: u64, bytes: Vec<u8>, callers: &mut dyn Callers) -> Result<(), Breach> {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.push(bytes)?;
            let (queued, waits) = (connection.queued(), connection.wants_write);
            if self.turns.sends_at_once(id, queued, waits, &mut connection.place) {
                self.write(id, callers);
            }
        }
        Ok(())
    }

    /// Sends what there is a turn for, as time of the process.
    fn send_some(&mut self, id: u64, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (owner, begin) = (connection.place.owner, Stopwatch::begin());
        self.write(id, callers);
        self.turns.shares.spend(owner, begin.elapsed());
    }

    /// Sends what the process takes, and asks to be told when it takes more.
    fn write(&mut self, id: u64, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let flushed = match connection.flush() {
            Ok(flushed) => flushed,
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                connection.deafen();
                self.go_on(id);
                return;
            }
            Err(e) => return self.cut(id, &e.into(), callers),
        };
        self.turns.has_sent(id, flushed, &mut connection.place);
        let at = (&mut connection.stream, Token(self.tokens + id as usize));
        if let Err(e) = watch_for_room(flushed, &mut connection.wants_write, &self.registry, at) {
            self.cut(id, &e.into(), callers);
        }
    }

    /// Ends a connection for its own fault.
    fn cut(&mut self, id: u64, breach: &Breach, callers: &mut dyn Callers) {
        if self.connections.contains_key(&id) {
            trace!("connection {id} of the PMI door is cut: {breach}");
            self.close(id, Left::Cut, callers);
        }
    }

    fn close(&mut self, id: u64, how: Left, callers: &mut dyn Callers) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.forget(id, &mut connection);
        if matches!(connection.stage, Stage::Asking(_) | Stage::In(_)) {
            callers.left(self.peer_id(id), how);
        }
    }

    /// Forgets what leads to a connection that is taken out.
    fn forget(&mut self, id: u64, connection: &mut Connection) {
        self.turns.shares.leave(connection.place.owner);
        if let Stage::In(_) = connection.stage {
            self.waiters.leave(id);
        }
        // Closing the descriptor takes it out of the poll as well.
        let _ = self.registry.deregister(&mut connection.stream);
        self.lobby.forget_settled(|id| is_settled(&self.connections, id));
    }

    /// The placement of a job's ranks, worked out once for those that come one after the other.
    fn mapping(&mut self, job: &Arc<dyn JobInformation>) -> Option<Arc<[u8]>> {
        if let Some((known, mapping)) = &self.mapped
            && Arc::ptr_eq(known, job)
        {
            return mapping.clone();
        }
        let mapping: Option<Arc<[u8]>> = mapping::of(&**job).map(Into::into);
        self.mapped = Some((job.clone(), mapping.clone()));
        mapping
    }

    fn message(&mut self, id: u64, message: Outgoing, callers: &mut dyn Callers) -> Result<(), Breach> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        match message.made() {
            Outgoing::Accepted { proc, job_info, account, .. } => {
                let Stage::Asking(version) = connection.stage else { return Ok(()) };
                connection.account = account.clone();
                connection.place.owner = self.turns.shares.join(&proc, account.descent());
                let mapping = job_info.as_ref().and_then(|job| self.mapping(job));
                let conversation = Conversation::new(proc, version, job_info, mapping, account);
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.stage = Stage::In(Box::new(conversation));
                }
                self.send(id, version.response(true), callers)?;
                // Messages may have come while the server made up its mind.
                self.go_on(id);
            }
            Outgoing::Refused { .. } => {
                if let Stage::Asking(version) = connection.stage {
                    connection.push(version.response(false))?;
                    // One that does not take this little is not told.
                    let _ = connection.flush();
                }
                if let Some(mut entry) = self.connections.remove(&id) {
                    self.forget(id, &mut entry);
                }
            }
            Outgoing::Reply { number, reply, .. } => {
                let Stage::In(conversation) = &mut connection.stage else { return Ok(()) };
                let step = conversation.replied(number, reply);
                let has_more = !connection.input.waiting().is_empty();
                if let Some(step) = step {
                    self.step(id, step, 0, callers)?;
                }
                if has_more {
                    self.go_on(id);
                }
            }
            // Its protocol has no way to tell.
            Outgoing::Push(_) | Outgoing::Shared(_) | Outgoing::Made { .. } => {}
            Outgoing::GoOn => {
                connection.is_busy = false;
                self.go_on(id);
            }
            Outgoing::End => {
                if let Some(mut entry) = self.connections.remove(&id) {
                    let _ = entry.flush();
                    self.forget(id, &mut entry);
                }
            }
        }
        Ok(())
    }
}

/// Returns whether some bytes begin like others, as far as there are some of both.
fn begins(bytes: &[u8], like: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().zip(like).all(|(byte, like)| byte == like)
}

/// Returns whether a connection has a seat, or is gone.
fn is_settled(connections: &NumberMap<u64, Connection>, id: u64) -> bool {
    !connections.get(&id).is_some_and(|connection| matches!(connection.stage, Stage::Unknown))
}

impl Door for PmiListener {
    fn ready(&mut self, id: u64, ready: Ready, callers: &mut dyn Callers) {
        if id == 0 {
            return self.accept(callers);
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
        let asks = |connection: &Connection| matches!(connection.stage, Stage::Asking(_)) && !connection.has_more();
        if ready.ended && self.connections.get(&id).is_some_and(asks) {
            return self.close(id, Left::Closed, callers);
        }
        if ready.readable {
            self.turn(id, ready.ended, callers);
        }
    }

    fn hear_out(&mut self, proc: &Proc, _: Option<u64>, callers: &mut dyn Callers) -> bool {
        let mut theirs = self.seated_as(proc);
        if theirs.is_empty() {
            self.take_in_all(callers);
            theirs = self.seated_as(proc);
        }
        for id in &theirs {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            connection.hear_out();
            match connection.stage {
                Stage::Unknown | Stage::Seated => self.read(*id, true, callers),
                Stage::Asking(_) => {}
                Stage::In(_) => self.go_on(*id),
            }
        }
        !theirs.is_empty()
    }

    fn send(&mut self, connection: u64, message: Outgoing, callers: &mut dyn Callers) {
        if let Err(breach) = self.message(connection, message, callers) {
            self.cut(connection, &breach, callers);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let due = self.waiters.are_due().then(Instant::now);
        [due, self.turns.deadline(), self.lobby.deadline(), self.entrance.deadline()].into_iter().flatten().min()
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
        self.wake_some(callers);
        while let Some(id) = self.lobby.late(now, |id| is_settled(&self.connections, id)) {
            self.cut(id, &Breach::Late, callers);
        }
        if self.entrance.resumes(now) {
            self.accept(callers);
        }
    }
}

mod comers;
#[cfg(test)]
mod tests;
