//! Comers: processes that come to the PMI door: how many are taken in at a time, and when a connection has a seat.
//!
//! A process that knows the socket's name can connect, a rank in a loop among them. Work for those who have no seat
//! counts as time of strangers, as at the other doors.
use std::io;

use mio::{Interest, Token};

use super::super::connection::{Breach, Connection, Seat, Stage};
use super::{PmiListener, is_settled};
use crate::data::Proc;
use crate::message::door::{Callers, User};
use crate::sys::socket;
use crate::sys::stopwatch::Stopwatch;
use crate::trace;
use crate::transport::shares::STRANGERS;

/// Connections taken in before those who are in already get their turn.
const ACCEPTED_PER_TURN: usize = 16;

/// Most connections that wait at the socket, as kernels have it: those that had come at a moment are the next so many.
pub(super) const BACKLOG: usize = 4096 + 1;

/// Connections of one process that have not spoken: a launcher makes one.
const MOST_SILENT: usize = 16;

impl PmiListener {
    /// Takes in who has come; who is left over in a crowd is taken in at the next turn.
    pub(super) fn accept(&mut self, callers: &mut dyn Callers) {
        self.out_of_turn = BACKLOG;
        if self.turns.shares.is_held(STRANGERS) {
            return self.entrance.resume_at(self.turns.shares.next_release());
        }
        let begin = Stopwatch::begin();
        self.turns.serve(STRANGERS);
        self.take_in_some(ACCEPTED_PER_TURN, callers);
        self.turns.shares.spend(STRANGERS, begin.elapsed());
    }

    /// Returns how many were taken in.
    fn take_in_some(&mut self, most: usize, callers: &mut dyn Callers) -> usize {
        let come = self.entrance.accept(most, || self.listening.accept());
        let number = come.len();
        come.into_iter().for_each(|(stream, _)| self.take_in(Connection::new(stream), callers));
        number
    }

    /// Takes in those who had come when a process ended, and the seats that are named. A process that comes meanwhile
    /// is behind a backlog of them, and has the next turns: a crowd that never ends keeps the server from nothing else.
    pub(super) fn take_in_all(&mut self, callers: &mut dyn Callers) {
        let begin = Stopwatch::begin();
        while self.out_of_turn > 0 {
            let most = self.out_of_turn.min(ACCEPTED_PER_TURN);
            let come = self.take_in_some(most, callers);
            self.out_of_turn -= come;
            if come < most {
                break;
            }
        }
        let unknown = |(id, connection): (&u64, &Connection)| matches!(connection.stage, Stage::Unknown).then_some(*id);
        for id in self.connections.iter().filter_map(unknown).collect::<Vec<_>>() {
            self.read(id, true, callers);
        }
        self.turns.shares.spend(STRANGERS, begin.elapsed());
    }

    /// The connections of a process.
    pub(super) fn seated_as(&self, proc: &Proc) -> Vec<u64> {
        let is_theirs = |seat: &Seat| seat.0.rank == proc.rank && seat.0.nspace == proc.nspace;
        let theirs =
            |(id, connection): (&u64, &Connection)| connection.seat.as_ref().is_some_and(is_theirs).then_some(*id);
        self.connections.iter().filter_map(theirs).collect()
    }

    fn take_in(&mut self, mut connection: Connection, callers: &mut dyn Callers) {
        self.last += 1;
        let id = self.last;
        let token = Token(self.tokens + id as usize);
        if let Err(e) = self.registry.register(&mut connection.stream, token, Interest::READABLE) {
            return trace!("a connection cannot be taken in: {e}");
        }
        let is_ours = socket::peer(&connection.stream).is_ok_and(|peer| peer.uid == self.uid);
        self.connections.insert(id, connection);
        if !is_ours {
            return self.cut(id, &Breach::Foreign, callers);
        }
        if let Some(oldest) = self.lobby.enter(id, |id| is_settled(&self.connections, id)) {
            self.read(oldest, true, callers);
            if !is_settled(&self.connections, oldest) {
                self.cut(oldest, &Breach::Crowded, callers);
            }
        }
    }

    /// Gives a connection the seat that it names: one that the server knows, or it could stay for ever at no cost.
    pub(super) fn seat(&mut self, id: u64, seat: Seat, callers: &mut dyn Callers) -> Result<(), Breach> {
        let Some(connection) = self.connections.get(&id) else { return Ok(()) };
        if !callers.expects(&seat.0, &seat.1, user_of(connection)?) {
            return Err(Breach::NoSeat);
        }
        let is_silent = |id: &u64| matches!(self.connections.get(id).map(|entry| &entry.stage), Some(Stage::Seated));
        if self.seated_as(&seat.0).iter().filter(|id| is_silent(id)).count() >= MOST_SILENT {
            return Err(Breach::Silent(MOST_SILENT));
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            (connection.seat, connection.stage) = (Some(seat), Stage::Seated);
        }
        self.lobby.forget_settled(|id| is_settled(&self.connections, id));
        Ok(())
    }
}

/// The user of the launcher that has connected, by the kernel's word.
pub(super) fn user_of(connection: &Connection) -> io::Result<User> {
    let peer = socket::peer(&connection.stream)?;
    Ok(User { uid: peer.uid, gid: Some(peer.gid) })
}
