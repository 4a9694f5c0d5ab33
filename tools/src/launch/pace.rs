//! Pace of requests: those that a process makes at once wait for one another, so that whoever starts many jobs, or asks
//! many questions, leaves the processors to others most of the time.
//!
//! Processes of jobs that were spawned have one pace together with the process that has begun the chain of spawns, their
//! *ancestor*: a job that starts the next one goes no faster than a process that starts them all.
//!
//! After each request the launcher owes all others a *rest*, some times as long as the request took. A request that
//! was made before the last one was answered is served when that is over. One that comes later is served at once, as
//! long as the rests that are owed come to no more than is *free*: who starts a few jobs one after another waits for
//! nothing, and who does nothing else leaves the processors to others as well.
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use instanton::data::Proc;

/// Rests that are owed for requests of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Rests {
    /// Time that the launcher rests for each unit of its own time that a request has taken, where more of its process
    /// wait.
    pub times: u32,
    /// Rests that may be owed while a process that waits for each answer is still served at once.
    pub free: Duration,
}

impl Rests {
    /// Rests for spawn requests: the processes that are started take about as much again to begin and to end.
    pub const OF_SPAWNS: Rests = Rests { times: 8, free: Duration::from_secs(1) };
    /// Rests for questions.
    pub const OF_QUESTIONS: Rests = Rests { times: 8, free: Duration::from_millis(100) };
}

/// A request that waits.
#[derive(Debug)]
struct Waiting<T> {
    by: Proc,
    request: T,
    /// True if it came when all before it were answered.
    waits_for_each: bool,
}

/// Requests of one ancestor.
#[derive(Debug)]
struct Line<T> {
    /// Time at which the last one was answered, and the end of the rests that are owed.
    answered: Instant,
    rests_until: Instant,
    waiting: VecDeque<Waiting<T>>,
}

impl<T> Line<T> {
    /// Returns whether a request may be served at a time, which came when all before it were answered, or earlier.
    fn serves(&self, now: Instant, waits_for_each: bool, free: Duration) -> bool {
        now + if waits_for_each { free } else { Duration::ZERO } >= self.rests_until
    }

    /// Returns the time from which the next request that waits may be served.
    fn next(&self, free: Duration) -> Option<Instant> {
        let first = self.waiting.front()?;
        Some(if first.waits_for_each { self.rests_until - free } else { self.rests_until })
    }
}

/// Requests by the ancestors of the processes that make them.
#[derive(Debug)]
pub struct Pace<T> {
    lines: BTreeMap<Proc, Line<T>>,
    rests: Rests,
}

impl<T> Pace<T> {
    /// A pace with such rests.
    pub fn new(rests: Rests) -> Self {
        Pace { lines: BTreeMap::new(), rests }
    }

    /// Takes a request of a process in that was made at `made`; returns it where it is to be served now.
    pub fn come(&mut self, ancestor: Proc, by: Proc, request: T, made: Instant, now: Instant) -> Option<T> {
        let Some(line) = self.lines.get_mut(&ancestor) else { return Some(request) };
        let waits_for_each = made >= line.answered;
        if line.waiting.is_empty() && line.serves(now, waits_for_each, self.rests.free) {
            return Some(request);
        }
        line.waiting.push_back(Waiting { by, request, waits_for_each });
        None
    }

    /// A request was answered, which has taken so long.
    pub fn answered(&mut self, ancestor: &Proc, took: Duration, now: Instant) {
        // A line that owes nothing is as good as none.
        self.lines.retain(|other, line| other == ancestor || !line.waiting.is_empty() || line.rests_until > now);
        let new = Line { answered: now, rests_until: now, waiting: VecDeque::new() };
        let line = self.lines.entry(ancestor.clone()).or_insert(new);
        line.answered = now;
        line.rests_until = line.rests_until.max(now) + self.rests.times * took;
    }

    /// Returns the time at which the next request is to be served that waits.
    pub fn next(&self) -> Option<Instant> {
        self.lines.values().filter_map(|line| line.next(self.rests.free)).min()
    }

    /// Takes a request out that is to be served now.
    pub fn due(&mut self, now: Instant) -> Option<T> {
        let free = self.rests.free;
        let due = self.lines.values_mut().filter(|line| line.next(free).is_some_and(|next| next <= now));
        due.min_by_key(|line| line.next(free))?.waiting.pop_front().map(|waiting| waiting.request)
    }

    /// A process is gone. Returns its requests that nobody has served.
    pub fn gone(&mut self, by: &Proc) -> Vec<T> {
        let mut all = Vec::new();
        for line in self.lines.values_mut() {
            let (theirs, others) = line.waiting.drain(..).partition(|waiting| waiting.by == *by);
            let theirs: VecDeque<Waiting<T>> = theirs;
            line.waiting = others;
            all.extend(theirs.into_iter().map(|waiting| waiting.request));
        }
        all
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
    fn who_waits_for_each_answer_is_served_at_once_unless_it_does_nothing_else() {
        // A request is part of the rest that is owed for those before.
        for (pause, most) in [(80 * MS, Duration::ZERO), (Duration::ZERO, 70 * MS)] {
            let (mut pace, mut now) = (Pace::new(Rests::OF_SPAWNS), Instant::now());
            let mut waits = Vec::new();
            for request in 0..100 {
                let made = now;
                if pace.come(proc(0), proc(0), request, made, now).is_none() {
                    now = pace.next().unwrap();
                    assert_eq!(pace.due(now), Some(request));
                }
                waits.push(now - made);
                now += 10 * MS;
                pace.answered(&proc(0), 10 * MS, now);
                now += pause;
            }
            assert_eq!((pace.next(), waits.iter().max()), (None, Some(&most)));
            assert!(waits[..14].iter().all(Duration::is_zero), "{waits:?}");
        }
    }

    #[test]
    fn what_is_asked_at_once_is_served_in_order_and_with_pauses() {
        let (mut pace, begin) = (Pace::new(Rests::OF_SPAWNS), Instant::now());
        assert_eq!(pace.come(proc(0), proc(0), 0, begin, begin), Some(0));
        pace.answered(&proc(0), 10 * MS, begin + 10 * MS);
        let now = begin + 10 * MS;
        assert_eq!([1, 2].map(|request| pace.come(proc(0), proc(request), request, begin, now)), [None; 2]);
        // It is made when one waits.
        assert_eq!(pace.come(proc(0), proc(3), 3, now, now), None);
        assert_eq!(pace.come(proc(9), proc(9), 9, begin, now), Some(9), "another ancestor");
        let due = begin + 90 * MS;
        assert_eq!((pace.next(), pace.due(due - MS), pace.due(due)), (Some(due), None, Some(1)));
        pace.answered(&proc(0), 5 * MS, due);
        assert_eq!((pace.due(due), pace.due(due + 40 * MS)), (None, Some(2)));
        assert_eq!((pace.gone(&proc(0)), pace.gone(&proc(3))), (vec![], vec![3]));
        assert_eq!(pace.next(), None);
        let later = due + Duration::from_secs(9);
        pace.answered(&proc(9), MS, later);
        assert_eq!(
            (pace.lines.len(), pace.lines.contains_key(&proc(9))),
            (1, true),
            "nothing is kept of who owes nothing"
        );
    }
}
