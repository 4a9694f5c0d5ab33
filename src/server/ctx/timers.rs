//! Deadlines of the control thread: it sleeps until the next one, and not longer.
use std::collections::BTreeMap;
use std::time::Instant;

use crate::message::door::PeerId;

use super::ids::TrackerId;

/// Handle of a deadline, by which it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId(Instant, u64);

impl TimerId {
    /// Returns the time at which it runs out.
    pub fn at(&self) -> Instant {
        self.0
    }
}

/// Purpose of a deadline, with the number of the state that its room keeps.
#[derive(Clone, Copy, Debug)]
pub enum Deadline {
    /// The host's word on a peer that wants in, or the registration of its namespace.
    Admission(PeerId),
    /// The host's word on a peer that finalizes, and the number of the request.
    Farewell(PeerId, u64),
    /// A collective.
    Collective(TrackerId),
    /// A fence over a namespace that is not registered yet.
    EarlyFence(u64),
    /// A look-up.
    Get(u64),
    /// The pause before the host is asked anew for what somebody has posted.
    FetchAgain(u64),
    /// Another server's look-up.
    DirectModex(u64),
    /// The answers of those whom a group's leader has invited.
    Invitation(u64),
    /// The completion of a group that a process has joined.
    Join(u64),
    /// The completion of a group that a process has come to alone.
    Single(u64),
    /// A period of a monitor.
    Monitor(PeerId, u64),
    /// Output that waits for more.
    Output(PeerId, u64),
    /// The flush of all output to its readers.
    OutputFlush,
}

/// Deadlines in the order they run out, each with what is to happen then.
#[derive(Debug)]
pub struct Timers<T> {
    waiting: BTreeMap<TimerId, T>,
    next: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Timers { waiting: BTreeMap::new(), next: 0 }
    }
}

impl<T> Timers<T> {
    pub fn set(&mut self, at: Instant, what: T) -> TimerId {
        self.next += 1;
        let id = TimerId(at, self.next);
        self.waiting.insert(id, what);
        id
    }

    pub fn cancel(&mut self, id: impl Into<Option<TimerId>>) {
        if let Some(id) = id.into() {
            self.waiting.remove(&id);
        }
    }

    /// Returns the time at which the first one runs out.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.keys().next().map(|id| id.0)
    }

    /// A deadline that has run out.
    pub fn expired(&mut self, now: Instant) -> Option<T> {
        match self.next() {
            Some(at) if at <= now => self.waiting.pop_first().map(|(_, what)| what),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn they_run_out_in_order_unless_taken_back() {
        let now = Instant::now();
        let after = |s| now + Duration::from_secs(s);
        let mut timers = Timers::default();
        timers.set(after(3), "c");
        let b = timers.set(after(2), "b");
        timers.set(after(1), "a");
        timers.cancel(b);
        assert_eq!(timers.next(), Some(after(1)));
        assert_eq!(timers.expired(now), None);
        assert_eq!(timers.expired(after(3)), Some("a"));
        assert_eq!(timers.expired(after(3)), Some("c"));
        assert_eq!(timers.next(), None);
    }
}
