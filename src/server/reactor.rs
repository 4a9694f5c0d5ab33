//! Reactor: a router with its doors and its mailbox, and the steps that they take.
//!
//! It waits for nothing. The control thread waits in a poll and has the reactor take the steps that are due; a test
//! takes them when it likes. After each step it delivers: effects are drained, messages go to the doors, and then the
//! embedding program's callbacks have their turn.
use std::time::Instant;

use super::mailbox::Commands;
use super::router::Router;
use crate::message::door::{Door, Ready};

/// A server without the poll that it sleeps in.
pub struct Reactor {
    pub router: Router,
    doors: Vec<Box<dyn Door>>,
    commands: Commands<Router>,
}

impl Reactor {
    /// Creates a reactor; a door's number is its place in `doors`.
    pub fn new(router: Router, doors: Vec<Box<dyn Door>>, commands: Commands<Router>) -> Self {
        Reactor { router, doors, commands }
    }

    /// Returns when something is due next though nothing happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.doors.iter().filter_map(|door| door.deadline()).chain(self.router.cx.timers.next()).min()
    }

    /// Lets a door act on one of its sockets.
    pub fn ready(&mut self, door: usize, socket: u64, ready: Ready) {
        self.doors[door].ready(socket, ready, &mut self.router);
        self.deliver();
    }

    /// Acts on a watch, by its token: its process has ended.
    pub fn watch_ready(&mut self, token: u64) {
        if let Some((proc, watch)) = self.router.cx.system.watch_ended(token) {
            self.router.process_ended(&proc, watch);
            self.deliver();
        }
    }

    /// Runs the commands of other threads.
    pub fn run_commands(&mut self) {
        while let Some(command) = self.commands.take() {
            command(&mut self.router);
            self.deliver();
        }
    }

    /// Acts on the deadlines that have run out, the doors' own included.
    pub fn run_deadlines(&mut self) {
        let now = self.router.cx.now();
        while let Some(deadline) = self.router.cx.timers.expired(now) {
            self.router.expire(deadline);
            self.deliver();
        }
        for door in &mut self.doors {
            let Some(due) = door.deadline() else { continue };
            // The clock is read after the deadline: a door that wants to go on at once says "now".
            let now = self.router.cx.now();
            if due <= now {
                door.tick(now, &mut self.router);
            }
        }
        self.deliver();
    }

    /// Ends the server. A command that was accepted before the end is still run, and those who wait hear of the end.
    pub fn end(mut self) {
        self.run_commands();
        self.router.end();
        self.deliver();
    }

    /// Takes the outbox to the doors, where a peer that turns out to be gone may put more into it. Then the
    /// callbacks have their turn.
    fn deliver(&mut self) {
        self.router.drain();
        while !self.router.cx.outbox.is_empty() {
            for (peer, message) in std::mem::take(&mut self.router.cx.outbox) {
                match self.doors.get_mut(usize::from(peer.door)) {
                    Some(door) => door.send(peer.connection, message, &mut self.router),
                    None => self.router.program.deliver(message),
                }
            }
            self.router.drain();
        }
        std::mem::take(&mut self.router.cx.calls).into_iter().for_each(|call| call());
    }
}
