//! Pace of spawn requests: those that a process makes at once wait for one another, so that whoever starts many jobs
//! leaves the processors to others most of the time.
//!
//! A request that comes when all before it are answered is served at once, however many there were. One that was made
//! before that is served when the launcher has rested for [`REST`] times as long as the last one took.
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use instanton::data::Proc;

/// Time that the launcher rests for each unit of time that a request has taken, where more of its process wait.
const REST: u32 = 4;

/// Requests of one process.
#[derive(Debug)]
struct Line<T> {
    /// Time at which the last one was answered, and the end of the rest after it.
    answered: Instant,
    rests_until: Instant,
    waiting: VecDeque<T>,
}

/// Requests by the processes that make them.
#[derive(Debug)]
pub struct Pace<T>(BTreeMap<Proc, Line<T>>);

impl<T> Default for Pace<T> {
    fn default() -> Self {
        Pace(BTreeMap::new())
    }
}

impl<T> Pace<T> {
    /// Takes a request in that was made at `made`; returns it where it is to be served now.
    pub fn come(&mut self, by: &Proc, request: T, made: Instant, now: Instant) -> Option<T> {
        let Some(line) = self.0.get_mut(by) else { return Some(request) };
        if line.waiting.is_empty() && (made >= line.answered || now >= line.rests_until) {
            return Some(request);
        }
        line.waiting.push_back(request);
        None
    }

    /// A request was answered, which has taken so long.
    pub fn answered(&mut self, by: &Proc, took: Duration, now: Instant) {
        let rests_until = now + REST * took;
        let new = Line { answered: now, rests_until, waiting: VecDeque::new() };
        let line = self.0.entry(by.clone()).or_insert(new);
        (line.answered, line.rests_until) = (now, rests_until);
    }

    /// Returns the time at which the next request is to be served that waits.
    pub fn next(&self) -> Option<Instant> {
        let waiting = self.0.values().filter(|line| !line.waiting.is_empty());
        waiting.map(|line| line.rests_until).min()
    }

    /// Takes a request out that is to be served now.
    pub fn due(&mut self, now: Instant) -> Option<T> {
        let due = self.0.values_mut().filter(|line| !line.waiting.is_empty() && line.rests_until <= now);
        due.min_by_key(|line| line.rests_until)?.waiting.pop_front()
    }

    /// A process is gone. Returns its requests that nobody has served.
    pub fn gone(&mut self, by: &Proc) -> VecDeque<T> {
        self.0.remove(by).map(|line| line.waiting).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use instanton::data::{Nspace, Rank};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    #[test]
    fn who_waits_for_each_answer_is_served_at_once() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for request in 0..100 {
            assert_eq!(pace.come(&proc(0), request, now, now), Some(request));
            now += 10 * MS;
            pace.answered(&proc(0), 10 * MS, now);
        }
        assert_eq!(pace.next(), None);
    }

    #[test]
    fn what_is_asked_at_once_is_served_in_order_and_with_pauses() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        assert_eq!(pace.come(&proc(0), 0, begin, begin), Some(0));
        pace.answered(&proc(0), 10 * MS, begin + 10 * MS);
        let now = begin + 10 * MS;
        assert_eq!([1, 2].map(|request| pace.come(&proc(0), request, begin, now)), [None; 2]);
        // It is made when one waits.
        assert_eq!(pace.come(&proc(0), 3, now, now), None);
        assert_eq!(pace.come(&proc(1), 9, begin, now), Some(9), "another process");
        let due = begin + 50 * MS;
        assert_eq!((pace.next(), pace.due(due - MS), pace.due(due)), (Some(due), None, Some(1)));
        pace.answered(&proc(0), 5 * MS, due);
        assert_eq!((pace.due(due), pace.due(due + 20 * MS)), (None, Some(2)));
        assert_eq!(pace.gone(&proc(0)), [3]);
        assert_eq!((pace.next(), pace.gone(&proc(1)).len()), (None, 0));
    }
}
