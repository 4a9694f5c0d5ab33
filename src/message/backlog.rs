//! Events that are kept for whoever asks for them later.
//!
//! Handlers may be registered after the event that they are for. So the server keeps what it passes on, and a client
//! what none of its handlers wanted: the last [`MAX_EVENTS`], of [`MAX_BYTES`] together, each for [`KEPT_FOR`]. The
//! oldest gives way to a newer one, of the job that has most of what is short, and in that of the process that has most:
//! who raises events without end has no others forgotten.
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::data::{Info, Nspace, Proc};

/// Most events that are kept.
pub const MAX_EVENTS: usize = 512;
/// Most bytes of their attributes, as [`Value::size`](crate::data::Value::size) counts them.
pub const MAX_BYTES: usize = 4 << 20;
/// Time that an event is kept.
pub const KEPT_FOR: Duration = Duration::from_secs(120);

/// Number of events, and of their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Much {
    events: usize,
    bytes: usize,
}

impl Much {
    fn add(&mut self, other: Much) {
        self.events += other.events;
        self.bytes += other.bytes;
    }

    fn is_too_much(self) -> bool {
        self.events > MAX_EVENTS || self.bytes > MAX_BYTES
    }
}

/// Events in the order in which they came, and what is to be remembered of each.
#[derive(Debug)]
pub struct Backlog<T> {
    kept: VecDeque<Kept<T>>,
    all: Much,
    /// Events of each process.
    of: BTreeMap<Proc, Much>,
}

#[derive(Debug)]
struct Kept<T> {
    since: Instant,
    bytes: usize,
    source: Proc,
    event: T,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Backlog { kept: VecDeque::new(), all: Much::default(), of: BTreeMap::new() }
    }
}

impl<T> Backlog<T> {
    /// Keeps an event of a process that has these attributes. One that is too large for all of the room is not kept.
    pub fn keep(&mut self, event: T, source: &Proc, info: &[Info], now: Instant) {
        let bytes = info.iter().map(|info| info.key.len() + info.value.size()).sum();
        if bytes > MAX_BYTES {
            return;
        }
        self.forget_old(now);
        self.kept.push_back(Kept { since: now, bytes, source: source.clone(), event });
        self.count(source, bytes);
        while self.all.is_too_much() {
            self.forget_one_of_most();
        }
    }

    /// Returns the events that are kept, the oldest first.
    pub fn events(&mut self, now: Instant) -> impl Iterator<Item = &mut T> {
        self.forget_old(now);
        self.kept.iter_mut().map(|kept| &mut kept.event)
    }

    /// Takes out what is wanted, the oldest first.
    pub fn take(&mut self, now: Instant, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        self.forget_old(now);
        let (taken, left) = std::mem::take(self).kept.into_iter().partition(|kept| wanted(&kept.event));
        let (taken, left): (VecDeque<Kept<T>>, VecDeque<Kept<T>>) = (taken, left);
        left.iter().for_each(|kept| self.count(&kept.source, kept.bytes));
        self.kept = left;
        taken.into_iter().map(|kept| kept.event).collect()
    }

    fn count(&mut self, source: &Proc, bytes: usize) {
        let one = Much { events: 1, bytes };
        self.all.add(one);
        self.of.entry(source.clone()).or_default().add(one);
    }

    fn forget_old(&mut self, now: Instant) {
        while self.kept.front().is_some_and(|kept| now.saturating_duration_since(kept.since) >= KEPT_FOR) {
            self.forget(0);
        }
    }

    /// Forgets the oldest event of a process that has most of what is short, among those of a job that has most.
    fn forget_one_of_most(&mut self) {
        let is_number = self.all.events > MAX_EVENTS;
        let much = |much: &Much| if is_number { much.events } else { much.bytes };
        // Shares of a job, and of the one of its processes that has most.
        let (mut of_job, mut worst): (Option<(&Nspace, usize, usize)>, _) = (None, None);
        for (Proc { nspace, .. }, of) in &self.of {
            let own = much(of);
            let before = of_job.filter(|(job, ..)| *job == nspace);
            let (_, all, most) = before.map_or((nspace, own, own), |(_, all, most)| (nspace, all + own, most.max(own)));
            of_job = Some((nspace, all, most));
            worst = worst.filter(|(_, other, _)| *other >= all).or(of_job);
        }
        let is_of_it = |Kept { source, .. }: &Kept<T>| {
            worst.is_some_and(|(job, _, most)| source.nspace == *job && self.of.get(source).map(much) == Some(most))
        };
        let oldest = self.kept.iter().position(is_of_it).unwrap_or(0);
        self.forget(oldest);
    }

    fn forget(&mut self, at: usize) {
        let Some(Kept { bytes, source, .. }) = self.kept.remove(at) else { return };
        self.all.events -= 1;
        self.all.bytes -= bytes;
        if let Some(of) = self.of.get_mut(&source) {
            of.events -= 1;
            of.bytes -= bytes;
            if of.events == 0 {
                self.of.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rank;

    fn kept(backlog: &mut Backlog<usize>, now: Instant) -> Vec<usize> {
        backlog.events(now).map(|event| *event).collect()
    }

    #[test]
    fn the_oldest_give_way_in_number_size_and_time() {
        let (mut backlog, begin) = (Backlog::default(), Instant::now());
        let later = |seconds| begin + Duration::from_secs(seconds);
        let one = &Proc::new(Nspace::new("job").unwrap(), Rank(0));
        (0..MAX_EVENTS + 2).for_each(|event| backlog.keep(event, one, &[], begin));
        assert_eq!(kept(&mut backlog, begin), (2..MAX_EVENTS + 2).collect::<Vec<_>>());
        assert_eq!(backlog.take(begin, |event| *event > 3).len(), MAX_EVENTS - 2);
        assert_eq!(kept(&mut backlog, begin), [2, 3]);
        let large = [Info::new("large", "x".repeat(MAX_BYTES / 2).as_str())];
        backlog.keep(4, one, &large, later(1));
        backlog.keep(5, one, &large, later(2));
        assert_eq!(kept(&mut backlog, later(2)), [5]);
        backlog.keep(6, one, &[large.clone(), large].concat(), later(2));
        assert_eq!(kept(&mut backlog, later(121)), [5]);
        assert_eq!(kept(&mut backlog, later(122)), []);
        assert_eq!((backlog.all.events, backlog.all.bytes, backlog.of.len()), (0, 0, 0));
    }

    #[test]
    fn who_raises_events_without_end_has_no_others_forgotten() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        let of = |job: &str, rank| Proc::new(Nspace::new(job).unwrap(), Rank(rank));
        backlog.keep(0, &of("job", 1), &[], now);
        backlog.keep(1, &of("other", 0), &[], now);
        let large = [Info::new("large", "x".repeat(MAX_BYTES / 4).as_str())];
        for info in [&[][..], &large] {
            (2..2 * MAX_EVENTS).for_each(|event| backlog.keep(event, &of("job", 0), info, now));
            assert_eq!(kept(&mut backlog, now)[..2], [0, 1]);
        }
        // Ranks of a job are one job together.
        (0..2 * MAX_EVENTS as u32).for_each(|rank| backlog.keep(2, &of("job", rank), &[], now));
        assert_eq!(kept(&mut backlog, now).into_iter().filter(|event| *event == 1).count(), 1);
    }
}
