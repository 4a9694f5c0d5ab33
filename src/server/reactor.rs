//! Reactor: a router with its doors and its mailbox, and the steps that they take.
//!
//! It waits for nothing. The control thread waits in a poll and has the reactor take the steps that are due; a test
//! takes them when it likes. After each step it delivers: effects are drained, messages go to the doors, and then the
//! embedding program's callbacks have their turn.
//!
//! Doors, mailbox and deadlines take turns: none of them goes on for longer than [`TURN`] while the others wait. Of long
//! work there is one [slice](super::ctx::slices) between them, and three times as long a pause where others are served.
use std::time::{Duration, Instant};

use super::mailbox::Commands;
use super::router::Router;
use crate::data::Proc;
use crate::message::door::{Door, Outgoing, PeerId, Ready};
use crate::sys::stopwatch::Stopwatch;

/// Time after which commands, or deadlines, let others go on first.
const TURN: Duration = Duration::from_micros(250);

/// Time that others have for each unit of time that a slice has taken.
const OTHERS: u32 = 3;

/// A server without the poll that it sleeps in.
pub struct Reactor {
    pub router: Router,
    doors: Vec<Box<dyn Door>>,
    commands: Commands<Router>,
    /// True if commands wait for their next turn.
    has_commands: bool,
    /// Time before which there is no slice.
    next_slice: Option<Instant>,
    /// True if others were served since the last slice.
    has_served: bool,
    /// Peers that something is queued for, which is to be flushed.
    queued: Vec<PeerId>,
}

impl Reactor {
    /// Creates a reactor; a door's number is its place in `doors`.
    pub fn new(router: Router, doors: Vec<Box<dyn Door>>, commands: Commands<Router>) -> Self {
        Reactor {
            router,
            doors,
            commands,
            has_commands: false,
            next_slice: None,
            has_served: false,
            queued: Vec::new(),
        }
    }

    /// Returns when something is due next though nothing happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        let commands = self.has_commands.then(|| self.router.cx.now());
        let has_slices = !self.router.cx.slices.is_empty();
        let slices = has_slices.then(|| self.next_slice.unwrap_or_else(|| self.router.cx.now()));
        let doors = self.doors.iter().filter_map(|door| door.deadline());
        doors.chain(commands).chain(slices).chain(self.router.cx.timers.next()).min()
    }

    /// Lets a door act on one of its sockets.
    pub fn ready(&mut self, door: usize, socket: u64, ready: Ready) {
        self.has_served = true;
        self.router.cx.ended = 0;
        let begin = self.router.cx.begin_step("a socket");
        self.doors[door].ready(socket, ready, &mut self.router);
        self.deliver_for(door);
        self.router.cx.end_step(begin);
    }

    /// Acts on a watch, by its token: its process has ended.
    pub fn watch_ready(&mut self, token: u64) {
        if let Some((proc, watch)) = self.router.cx.system.watch_ended(token) {
            let begin = self.router.cx.begin_step("");
            self.router.cx.name_step("the end", &proc);
            // Its last requests may lie at its door still.
            match self.router.is_watched(&proc, watch) && self.speaks(&proc) {
                true => self.router.last_words.is_over(proc, watch),
                false => self.router.process_ended(&proc, watch),
            }
            self.deliver();
            self.router.cx.end_step(begin);
        }
    }

    /// Runs the commands of other threads.
    pub fn run_commands(&mut self) {
        while self.run_command() {}
        self.flush_for_askers();
    }

    /// Runs commands of other threads for a turn.
    pub fn run_some_commands(&mut self) {
        let begin = self.router.cx.now();
        self.has_commands = false;
        while self.run_command() {
            if self.router.cx.now() - begin >= TURN {
                self.has_commands = true;
                break;
            }
        }
        self.flush_for_askers();
    }

    fn run_command(&mut self) -> bool {
        let Some(command) = self.commands.take() else { return false };
        let step = self.router.cx.begin_step("a command or an answer of the host");
        let begin = self.begin_for_somebody();
        command(&mut self.router);
        self.router.drain();
        // An answer to many is that of a collective, which no one of them has asked for more than others.
        let asker = match &self.router.cx.outbox[..] {
            [(peer, Outgoing::Reply { .. } | Outgoing::Made { .. })] => Some(*peer),
            _ => None,
        };
        match asker {
            // It goes out with the other answers of this turn.
            Some(_) if self.router.cx.calls.is_empty() => self.queue(),
            _ => self.deliver(),
        }
        self.end_for_somebody(begin, asker);
        self.router.cx.end_step(step);
        true
    }

    /// Sends the answers that the commands of a turn have brought, those to one peer together, as its own time.
    fn flush_for_askers(&mut self) {
        for peer in std::mem::take(&mut self.queued) {
            let begin = self.begin_for_somebody();
            self.flush_to(peer);
            self.end_for_somebody(begin, Some(peer));
        }
        self.deliver();
    }

    /// Runs a slice of long work, if one is due.
    pub fn run_slice(&mut self) {
        if self.router.cx.slices.is_empty() {
            return;
        }
        let begin = self.router.cx.now();
        if self.next_slice.is_some_and(|at| begin < at) {
            return;
        }
        if let Some(slice) = self.router.cx.slices.pop_front() {
            let step = self.router.cx.begin_step("a slice");
            let begin = self.begin_for_somebody();
            self.router.slice(slice);
            self.deliver();
            self.end_for_somebody(begin, None);
            self.router.cx.end_step(step);
        }
        let now = self.router.cx.now();
        self.next_slice = std::mem::take(&mut self.has_served).then(|| now + OTHERS * (now - begin));
    }

    /// Acts on the deadlines that have run out, the doors' own included.
    pub fn run_deadlines(&mut self) {
        let now = self.router.cx.now();
        while let Some(deadline) = self.router.cx.timers.expired(now) {
            let begin = self.router.cx.begin_step("a deadline");
            self.router.expire(deadline);
            self.deliver();
            self.router.cx.end_step(begin);
            if self.router.cx.now() - now >= TURN {
                break;
            }
        }
        for door in 0..self.doors.len() {
            let Some(due) = self.doors[door].deadline() else { continue };
            // The clock is read after the deadline: a door that wants to go on at once says "now".
            let now = self.router.cx.now();
            if due <= now {
                self.router.cx.ended = 0;
                let begin = self.router.cx.begin_step("a turn");
                self.doors[door].tick(now, &mut self.router);
                self.deliver_for(door);
                self.router.cx.end_step(begin);
            }
        }
    }

    /// Ends the server. A command that was accepted before the end is still run, and those who wait hear of the end.
    pub fn end(mut self) {
        self.run_commands();
        self.router.end();
        self.deliver();
    }

    /// Begins a step that may be one for somebody, though it is nobody's turn.
    fn begin_for_somebody(&mut self) -> Stopwatch {
        self.router.cx.counts_for = None;
        Stopwatch::begin()
    }

    /// Counts such a step for whom its room has named, else for this peer, and what threads have taken for others.
    fn end_for_somebody(&mut self, begin: Stopwatch, asker: Option<PeerId>) {
        if let Some(peer) = self.router.cx.counts_for.take().or(asker) {
            self.router.cx.worked.push((peer, begin.elapsed()));
        }
        for (peer, time) in self.router.cx.worked.drain(..) {
            if let Some(door) = self.doors.get_mut(usize::from(peer.door)) {
                door.spent_for(peer.connection, time);
            }
        }
    }

    /// Delivers what the turn of a door has led to, and tells it what that has taken.
    fn deliver_for(&mut self, door: usize) {
        let begin = Stopwatch::begin();
        self.deliver();
        self.doors[door].also_spent(begin.elapsed(), self.router.cx.ended);
    }

    /// Has the doors hear a process out. Returns whether one of them does.
    fn speaks(&mut self, proc: &Proc) -> bool {
        let peer = self.router.peer_of(proc);
        let mut speaks = false;
        for (number, door) in self.doors.iter_mut().enumerate() {
            let own = peer.filter(|peer| usize::from(peer.door) == number).map(|peer| peer.connection);
            speaks |= door.hear_out(proc, own, &mut self.router);
        }
        speaks
    }

    /// Has the doors hear those out of whose end the host has told.
    fn hear_out(&mut self) {
        while let Some((proc, done)) = self.router.last_words.next() {
            let speaks = self.speaks(&proc);
            // Those who have come only now are let in.
            self.router.drain();
            self.router.has_died(proc, done, speaks);
            self.router.drain();
        }
    }

    /// Takes the outbox to the doors, where a peer that turns out to be gone may put more into it. Doors keep it until it
    /// is flushed.
    fn queue(&mut self) {
        self.router.drain();
        self.hear_out();
        while !self.router.cx.outbox.is_empty() {
            for (peer, message) in std::mem::take(&mut self.router.cx.outbox) {
                let Some(door) = self.doors.get_mut(usize::from(peer.door)) else {
                    self.router.program.deliver(message);
                    continue;
                };
                door.queue(peer.connection, message, &mut self.router);
                if self.queued.last() != Some(&peer) {
                    self.queued.push(peer);
                }
            }
            self.router.drain();
        }
    }

    fn flush_to(&mut self, peer: PeerId) {
        if let Some(door) = self.doors.get_mut(usize::from(peer.door)) {
            door.flush(peer.connection, &mut self.router);
        }
    }

    /// Sends what there is for peers, all for one together. Then the callbacks have their turn.
    fn deliver(&mut self) {
        self.queue();
        while !self.queued.is_empty() {
            let mut peers = std::mem::take(&mut self.queued);
            peers.drain(..).for_each(|peer| self.flush_to(peer));
            self.queued = peers;
            self.queue();
        }
        std::mem::take(&mut self.router.cx.calls).into_iter().for_each(|call| call());
    }
}
