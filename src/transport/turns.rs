//! Turns: the order in which the connections of a door are served, and the time that counts as whose.
//!
//! In a turn, a bounded part of what a peer has sent is read, and requests are handed on for a bounded time. A connection
//! with more than that goes to the end of a queue, of which one has its turn between two looks at the poll. One whose
//! process takes more than its [share](super::shares) of the time waits before its next turn. Much that a peer is sent
//! goes out in its turns as well.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::output::{Flush, SENT_AT_ONCE};
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
    /// True if messages wait for its next turn, and not for its peer.
    pub may_send: bool,
}

impl Default for Place {
    fn default() -> Self {
        Place { owner: STRANGERS, is_queued: false, may_send: false }
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
    /// Number of the door.
    door: u8,
    pub shares: Shares,
    /// Connections with more to read than their turn allowed, in the order of their next turns.
    again: VecDeque<u64>,
    /// Process that had the last turn, and its requests in that.
    pub served: Owner,
    pub asked: Asked,
    /// Time of that turn that is the process's own, unless many collectives have ended by it.
    late: Duration,
}

impl Turns {
    /// Nobody has had a turn yet at the door of that number.
    pub fn new(door: u8, shares: &Shares) -> Self {
        Turns {
            door,
            shares: shares.clone(),
            again: VecDeque::new(),
            served: STRANGERS,
            asked: Asked::default(),
            late: Duration::ZERO,
        }
    }

    /// Arranges the next turn of a connection: after those of others, or when its process is held no more.
    pub fn go_on(&mut self, id: u64, place: &mut Place) {
        if std::mem::replace(&mut place.is_queued, true) {
            return;
        }
        match self.shares.is_held(place.owner) {
            true => self.shares.wait(place.owner, self.door, id),
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

    /// Returns whether a connection sends so much that is queued at once: a little. Much is sent in its turns, and where
    /// it waits for its peer, when that reads.
    pub fn sends_at_once(&mut self, id: u64, queued: usize, waits: bool, place: &mut Place) -> bool {
        if queued > SENT_AT_ONCE && !waits {
            self.send_later(id, place);
        }
        queued <= SENT_AT_ONCE
    }

    /// Has a connection send what is queued in its next turn.
    pub fn send_later(&mut self, id: u64, place: &mut Place) {
        place.may_send = true;
        self.go_on(id, place);
    }

    /// Has a connection send the rest in its next turn, where it has sent its turn's worth.
    pub fn has_sent(&mut self, id: u64, flushed: Flush, place: &mut Place) {
        place.may_send = flushed == Flush::More;
        if place.may_send {
            self.go_on(id, place);
        }
    }

    /// Counts as the time of a process what follows.
    pub fn serve(&mut self, owner: Owner) {
        let late = std::mem::take(&mut self.late);
        self.shares.begin(owner, (self.served, late));
        (self.served, self.asked) = (owner, Asked::default());
    }

    /// Counts bytes that were read from a process.
    pub fn has_read(&mut self, owner: Owner, bytes: usize) {
        self.shares.spend(owner, READING * (bytes >> 10) as u32);
    }

    /// Counts the time of this turn.
    pub fn spend(&mut self, time: Duration) {
        match self.shares.is_cheap(self.served, self.asked, time, 0) {
            true => self.shares.spend(self.served, self.asked.joint_time()),
            false if self.asked.is_joint() => self.late += time,
            false => self.shares.spend(self.served, time),
        }
    }

    /// Counts time that the server's side has taken for what was asked in the last turn, by which collectives have ended
    /// for so many processes.
    pub fn also_spent(&mut self, time: Duration, ended: usize) {
        let late = std::mem::take(&mut self.late);
        match self.shares.is_cheap(self.served, self.asked, late + time, ended) {
            true if late.is_zero() => {}
            true => self.shares.spend(self.served, self.asked.joint_time()),
            false => self.shares.spend(self.served, late + time),
        }
    }

    /// Returns the connection whose turn it is now; its place is to be [called](Place::call).
    pub fn next(&mut self, now: Instant) -> Option<u64> {
        self.again.extend(self.shares.release(now, self.door));
        self.again.pop_front()
    }

    /// Returns the time of the next turn; none where nobody waits for one.
    pub fn deadline(&self) -> Option<Instant> {
        if self.again.is_empty() { self.shares.next_turn(self.door) } else { Some(Instant::now()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Proc, Rank};

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn arrivals_at_fences_count_little_whoever_they_end_them_for_and_all_else_with_its_time() {
        let mut turns = Turns::new(0, &Shares::new(Instant::now()));
        let owner = turns.shares.join(&Proc::new(Nspace::new("job").unwrap(), Rank(0)), None);
        let (fence, own) = (Asked { joint: 1, own: 0 }, Asked { joint: 0, own: 1 });
        let mut counted = |owner, asked, time, delivery, ended| {
            let before = turns.shares.unsettled(owner);
            turns.serve(owner);
            turns.asked = asked;
            turns.spend(time);
            turns.also_spent(delivery, ended);
            turns.serve(STRANGERS);
            turns.shares.unsettled(owner) - before
        };
        assert_eq!(counted(owner, fence, 50 * US, 50 * US, 1), 2 * US, "each is cheap");
        assert_eq!(counted(owner, fence, 51 * US, US, 0), 52 * US, "a long turn that has ended nothing");
        assert_eq!(counted(owner, fence, 60 * US, 450 * US, 32), 2 * US, "the last of 32");
        assert_eq!(counted(owner, own, 5 * US, 4 * US, 32), 9 * US);
        assert_eq!(counted(STRANGERS, fence, 5 * US, US, 1), 6 * US);
    }

    #[test]
    fn a_long_turn_counts_though_another_one_comes_before_its_delivery() {
        let mut turns = Turns::new(0, &Shares::new(Instant::now()));
        let owner = turns.shares.join(&Proc::new(Nspace::new("job").unwrap(), Rank(0)), None);
        turns.serve(owner);
        turns.asked.joint = 1;
        turns.spend(60 * US);
        turns.serve(STRANGERS);
        turns.also_spent(US, 32);
        assert_eq!(turns.shares.unsettled(owner), 60 * US);
    }

    #[test]
    fn a_process_that_takes_much_at_one_door_is_held_at_all_of_them() {
        let shares = Shares::new(Instant::now());
        shares.wait_as(|| None);
        let [mut native, mut stock] = [0, 1].map(|door| Turns::new(door, &shares));
        let [much, little] = [0, 1].map(|rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank)));
        let place = |turns: &Turns, proc| Place { owner: turns.shares.join(proc, None), ..Place::default() };
        let [mut here, mut there, mut other] =
            [(&native, &much), (&stock, &much), (&stock, &little)].map(|(turns, proc)| place(turns, proc));
        while native.begin(7, &mut here) {
            native.asked.own += 1;
            native.spend(5000 * US);
            assert!(stock.begin(9, &mut other), "who takes little is never held");
        }
        assert!(!stock.begin(8, &mut there) && stock.begin(9, &mut other));
        let until = shares.next_release().unwrap();
        assert_eq!((native.next(until - US), stock.next(until - US)), (None, None));
        assert_eq!((native.next(until), stock.next(until)), (Some(7), Some(8)));
        assert_eq!((native.deadline(), stock.deadline()), (None, None));
    }
}
