//! Events that are kept for whoever asks for them later.
//!
//! Handlers may be registered after the event that they are for. So the server keeps what it passes on, and a client
//! what none of its handlers wanted: the last [`MAX_EVENTS`], of [`MAX_BYTES`] together, each for [`KEPT_FOR`]. An
//! older one gives way to a newer one.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::data::Info;

/// Most events that are kept.
pub const MAX_EVENTS: usize = 512;
/// Most bytes of their attributes, as [`Value::size`](crate::data::Value::size) counts them.
pub const MAX_BYTES: usize = 4 << 20;
/// Time that an event is kept.
pub const KEPT_FOR: Duration = Duration::from_secs(120);

/// Events in the order in which they came, and what is to be remembered of each.
#[derive(Debug)]
pub struct Backlog<T> {
    kept: VecDeque<Kept<T>>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept<T> {
    since: Instant,
    bytes: usize,
    event: T,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Backlog { kept: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Backlog<T> {
    /// Keeps an event that has these attributes. One that is too large for all of the room is not kept.
    pub fn keep(&mut self, event: T, info: &[Info], now: Instant) {
        let bytes = info.iter().map(|info| info.key.len() + info.value.size()).sum();
        if bytes > MAX_BYTES {
            return;
        }
        self.forget_old(now);
        self.kept.push_back(Kept { since: now, bytes, event });
        self.bytes += bytes;
        while self.kept.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            self.forget_first();
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
        let (taken, left) = std::mem::take(&mut self.kept).into_iter().partition(|kept| wanted(&kept.event));
        self.kept = left;
        self.bytes = self.kept.iter().map(|kept| kept.bytes).sum();
        let taken: VecDeque<Kept<T>> = taken;
        taken.into_iter().map(|kept| kept.event).collect()
    }

    fn forget_old(&mut self, now: Instant) {
        while self.kept.front().is_some_and(|kept| now.saturating_duration_since(kept.since) >= KEPT_FOR) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(kept) = self.kept.pop_front() {
            self.bytes -= kept.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(backlog: &mut Backlog<usize>, now: Instant) -> Vec<usize> {
        backlog.events(now).map(|event| *event).collect()
    }

    #[test]
    fn the_oldest_give_way_in_number_size_and_time() {
        let (mut backlog, begin) = (Backlog::default(), Instant::now());
        let later = |seconds| begin + Duration::from_secs(seconds);
        (0..MAX_EVENTS + 2).for_each(|event| backlog.keep(event, &[], begin));
        assert_eq!(kept(&mut backlog, begin), (2..MAX_EVENTS + 2).collect::<Vec<_>>());
        assert_eq!(backlog.take(begin, |event| *event > 3).len(), MAX_EVENTS - 2);
        assert_eq!(kept(&mut backlog, begin), [2, 3]);
        let large = [Info::new("large", "x".repeat(MAX_BYTES / 2).as_str())];
        backlog.keep(4, &large, later(1));
        backlog.keep(5, &large, later(2));
        assert_eq!(kept(&mut backlog, later(2)), [5]);
        backlog.keep(6, &[large.clone(), large].concat(), later(2));
        assert_eq!(kept(&mut backlog, later(121)), [5]);
        assert_eq!(kept(&mut backlog, later(122)), []);
        assert_eq!(backlog.bytes, 0);
    }
}
