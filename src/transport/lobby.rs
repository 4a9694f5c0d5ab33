//! Lobby: connections of a door that nobody has vouched for yet, and how long they may stay so.
//!
//! Whoever has said who it is, or is gone, is *settled*, and nothing need be done here for that: the door knows. When the
//! places are taken, the one that has waited longest makes room.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Most connections that have not said who they are.
pub const MAX_UNKNOWN: usize = 256;
/// Time that a connection has to say who it is.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// Connections that have not said who they are, by age, and until when they may.
#[derive(Default)]
pub struct Lobby(VecDeque<(Instant, u64)>);

impl Lobby {
    /// Takes a connection in.
    pub fn enter(&mut self, id: u64) {
        self.0.push_back((Instant::now() + HANDSHAKE_DEADLINE, id));
    }

    /// Takes out the one that makes room, where there are too many that are not settled.
    pub fn make_room(&mut self, is_settled: impl Fn(u64) -> bool) -> Option<u64> {
        if self.0.len() > MAX_UNKNOWN {
            self.0.retain(|(_, id)| !is_settled(*id));
        }
        let oldest = if self.0.len() > MAX_UNKNOWN { self.0.pop_front() } else { None };
        oldest.map(|(_, id)| id)
    }

    /// Forgets the oldest that are settled: a server where nothing happens sleeps for ever.
    pub fn forget_settled(&mut self, is_settled: impl Fn(u64) -> bool) {
        while self.0.front().is_some_and(|(_, id)| is_settled(*id)) {
            self.0.pop_front();
        }
    }

    /// Takes out one whose time is over.
    pub fn late(&mut self, now: Instant, is_settled: impl Fn(u64) -> bool) -> Option<u64> {
        self.forget_settled(is_settled);
        let is_late = self.deadline().is_some_and(|until| until <= now);
        let late = if is_late { self.0.pop_front() } else { None };
        late.map(|(_, id)| id)
    }

    /// Returns the time at which the next one is late.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.front().map(|(until, _)| *until)
    }

    /// Returns the time at which the last one is late.
    #[cfg(test)]
    pub fn last_deadline(&self) -> Option<Instant> {
        self.0.back().map(|(until, _)| *until)
    }
}
