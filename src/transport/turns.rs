//! Turns: the order in which the connections of a door are served, and the time that counts as whose.
//!
//! In a turn, a bounded part of what a peer has sent is read, and requests are handed on for a bounded time. A connection
//! with more than that goes to the end of a queue, of which one has its turn between two looks at the poll. One whose
//! process takes more than its [share](super::shares) of the time waits before its next turn.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::shares::{Asked, Owner, STRANGERS, Shares};

/// Time after which a turn ends with the request that is being served.
pub const TURN: Duration = Duration::from_micros(200);
/// Time that reading is counted with, for each KiB.
const READING: Duration = Duration::from_nanos(200);

/// Place of a connection among those that have turns.
#[derive(Debug)]
pub struct Place {
    /// Process that its turns count as, with its other connections.
    pub owner: Owner,
    /// True if its next turn is arranged.
    is_queued: bool,
}

impl Default for Place {
    fn default() -> Self {
        Place { owner: STRANGERS, is_queued: false }
    }
}

impl Place {
    /// Its turn has come, by [`Turns::next`].
    pub fn call(&mut self) {
        self.is_queued = false;
    }
}

/// Turns of a door's connections.
pub struct Turns {
    pub shares: Shares,
    /// Connections with more to read than their turn allowed, in the order of their next turns.
    again: VecDeque<u64>,
    /// Process that had the last turn, and its requests in that.
    pub served: Owner,
    pub asked: Asked,
}

impl Turns {
    pub fn new(now: Instant) -> Self {
        Turns { shares: Shares::new(now), again: VecDeque::new(), served: STRANGERS, asked: Asked::default() }
    }

    /// Arranges the next turn of a connection: after those of others, or when its process is held no more.
    pub fn go_on(&mut self, id: u64, place: &mut Place) {
        if std::mem::replace(&mut place.is_queued, true) {
            return;
        }
        match self.shares.is_held(place.owner) {
            true => self.shares.wait(place.owner, id),
            false => self.again.push_back(id),
        }
    }

    /// Begins a connection's turn, unless one is arranged or has to be. Returns whether it has begun.
    pub fn begin(&mut self, id: u64, place: &mut Place) -> bool {
        if place.is_queued {
            return false;
        }
        if self.shares.is_held(place.owner) {
            self.go_on(id, place);
            return false;
        }
        self.serve(place.owner);
        true
    }

    /// Counts as the time of a process what follows.
    pub fn serve(&mut self, owner: Owner) {
        (self.served, self.asked) = (owner, Asked::default());
        self.shares.begin(owner);
    }

    /// Counts bytes that were read from a process.
    pub fn has_read(&mut self, owner: Owner, bytes: usize) {
        self.shares.spend(owner, READING * (bytes >> 10) as u32);
    }

    /// Counts the time of this turn.
    pub fn spend(&mut self, time: Duration) {
        self.shares.spend_on(self.served, self.asked, time);
    }

    /// Counts time that the server's side has taken for what was asked in the last turn.
    pub fn also_spent(&mut self, time: Duration) {
        if !self.shares.is_cheap(self.served, self.asked, time) {
            self.shares.spend(self.served, time);
        }
    }

    /// Returns the connection whose turn it is now; its place is to be [called](Place::call).
    pub fn next(&mut self, now: Instant) -> Option<u64> {
        while let Some(waiting) = self.shares.release(now) {
            self.again.extend(waiting);
        }
        self.again.pop_front()
    }

    /// Returns the time of the next turn; none where nobody waits for one.
    pub fn deadline(&self) -> Option<Instant> {
        if self.again.is_empty() { self.shares.next_release() } else { Some(Instant::now()) }
    }
}
