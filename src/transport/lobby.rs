//! Lobby: connections of a door that nobody has vouched for yet, and how long they may stay so.
//!
//! A connection that has said who it is, or is gone, is *settled*, and nothing need be done here for that: the door
//! knows. When the places are taken, the one that has waited longest makes room. Bytes that these connections make the
//! server hold are charged to one account for all doors, because nobody knows yet whose it is.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::account::{Account, Charge, Kind};

/// Most connections that have not said who they are.
pub const MAX_UNKNOWN: usize = 256;
/// Time that a connection has to say who it is.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);

/// Bytes that one of them is charged with: its first message, and what the door and the kernel keep of it.
const EACH: usize = 16 << 10;

/// A connection that has not said who it is.
struct Stranger {
    id: u64,
    until: Instant,
    _charge: Charge,
}

/// Connections that have not said who they are, by age.
pub struct Lobby {
    waiting: VecDeque<Stranger>,
    account: Account,
}

impl Lobby {
    /// Creates the lobby of a door that charges this [account](Self::account).
    pub fn new(account: &Account) -> Self {
        Lobby { waiting: VecDeque::new(), account: account.clone() }
    }

    /// Opens the account of a server's strangers.
    pub fn account() -> Account {
        Account::of_job("connections that have not said who they are", (MAX_UNKNOWN * EACH) as u64)
    }

    /// Takes a connection in. Returns the one that makes room for it, where there are too many that are not settled.
    pub fn enter(&mut self, id: u64, is_settled: impl Fn(u64) -> bool) -> Option<u64> {
        let until = Instant::now() + HANDSHAKE_DEADLINE;
        if self.account.has_room(EACH) {
            self.waiting.push_back(Stranger { id, until, _charge: self.account.force(Kind::Connection, EACH) });
            return None;
        }
        self.waiting.retain(|stranger| !is_settled(stranger.id));
        let oldest = if self.account.has_room(EACH) { None } else { self.waiting.pop_front() };
        // Where all places are taken at other doors, this one holds one more.
        self.waiting.push_back(Stranger { id, until, _charge: self.account.force(Kind::Connection, EACH) });
        oldest.map(|stranger| stranger.id)
    }

    /// Forgets the oldest that are settled: a server where nothing happens sleeps for ever.
    pub fn forget_settled(&mut self, is_settled: impl Fn(u64) -> bool) {
        while self.waiting.front().is_some_and(|stranger| is_settled(stranger.id)) {
            self.waiting.pop_front();
        }
    }

    /// Takes out one whose time is over.
    pub fn late(&mut self, now: Instant, is_settled: impl Fn(u64) -> bool) -> Option<u64> {
        self.forget_settled(is_settled);
        let is_late = self.deadline().is_some_and(|until| until <= now);
        let late = if is_late { self.waiting.pop_front() } else { None };
        late.map(|stranger| stranger.id)
    }

    /// Returns the time at which the next one is late.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|stranger| stranger.until)
    }

    /// Returns the time at which the last one is late.
    #[cfg(test)]
    pub fn last_deadline(&self) -> Option<Instant> {
        self.waiting.back().map(|stranger| stranger.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_at_all_doors_have_their_places_together_and_give_them_back() {
        let account = Lobby::account();
        let [mut one, mut other] = [0; 2].map(|_| Lobby::new(&account));
        let half = MAX_UNKNOWN as u64 / 2;
        assert!((0..half).all(|id| one.enter(id, |_| false).is_none() && other.enter(id, |_| false).is_none()));
        assert_eq!(account.used(), (MAX_UNKNOWN * EACH) as u64);
        assert_eq!((one.enter(half, |_| false), one.enter(half + 1, |id| id == 5)), (Some(0), None));
        drop(other);
        assert_eq!(account.used(), half * EACH as u64 + EACH as u64 - EACH as u64);
        one.forget_settled(|_| true);
        assert_eq!(account.used(), 0);
    }
}
