//! Time limits of calls (`PMIX_TIMEOUT`), kept by the client itself: a server that is stopped or hangs keeps nobody
//! waiting for longer than they have said.
//!
//! A limit bounds the *continuation* of a call, which is called by whatever comes first: the result, or the end of the
//! limit, until which the control thread sleeps. The request stays in the table of those under way, because it is: its
//! late answer is taken out of it by its number. The consequences of that answer for the client itself (a fence is
//! over, a group exists) are seen to before the continuation, and so in any case. A call without a limit leaves no note
//! here.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::data::Status;

use super::Error;

/// Time that a server has, beyond the limit, to tell its client that the limit has passed.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// Continuation of a call.
pub(super) type Then<R> = Box<dyn FnOnce(R) + Send>;

/// Returns the time at which a client gives a call up that begins now.
pub(super) fn end_of(limit: Option<Duration>) -> Option<Instant> {
    limit.map(|limit| Instant::now() + limit + GRACE)
}

/// Returns the result of a call that was given up.
pub(super) fn given_up<T>() -> Result<T, Error> {
    Err(Status::ERR_TIMEOUT.into())
}

/// Handle of a deadline.
type Key = (Instant, u64);

/// Deadlines of the calls that have a limit.
#[derive(Default)]
pub(super) struct Clock(Mutex<Deadlines>);

#[derive(Default)]
struct Deadlines {
    waiting: BTreeMap<Key, Arc<dyn Expire>>,
    last: u64,
    /// Time at which the control thread looks by itself.
    alarm: Option<Instant>,
}

impl Clock {
    /// Returns a continuation that is called with `late()` on the control thread, unless it was called before that
    /// time; and whether the control thread has to be woken, because it would sleep longer.
    pub(super) fn bound<R: 'static>(
        self: &Arc<Self>,
        at: Instant,
        late: impl FnOnce() -> R + Send + 'static,
        then: Then<R>,
    ) -> (Then<R>, bool) {
        let slot = Arc::new(Slot(Mutex::new(Some((Box::new(late) as Late<R>, then)))));
        let mut deadlines = self.lock();
        deadlines.last += 1;
        let key = (at, deadlines.last);
        deadlines.waiting.insert(key, slot.clone());
        let is_first = deadlines.alarm.is_none_or(|alarm| at < alarm);
        if is_first {
            deadlines.alarm = Some(at);
        }
        drop(deadlines);
        let bounded = Bounded { slot, clock: self.clone(), key };
        (Box::new(move |result| bounded.end(result)), is_first)
    }

    /// Returns the next deadline, at which the caller promises to look at the [expired](Clock::expire) ones.
    pub(super) fn next(&self) -> Option<Instant> {
        let mut deadlines = self.lock();
        deadlines.alarm = deadlines.waiting.keys().next().map(|(at, _)| *at);
        deadlines.alarm
    }

    /// Gives up the calls whose time is over; returns whether there were any.
    pub(super) fn expire(&self) -> bool {
        let mut deadlines = self.lock();
        if deadlines.waiting.is_empty() {
            return false;
        }
        let later = deadlines.waiting.split_off(&(Instant::now(), u64::MAX));
        let expired = std::mem::replace(&mut deadlines.waiting, later);
        drop(deadlines);
        let any = !expired.is_empty();
        expired.into_values().for_each(|call| call.expire());
        any
    }

    fn cancel(&self, key: Key) {
        // Dropped without the lock: the continuation may hold anything.
        let cancelled = self.lock().waiting.remove(&key);
        drop(cancelled);
    }

    fn lock(&self) -> MutexGuard<'_, Deadlines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Late<R> = Box<dyn FnOnce() -> R + Send>;

/// Continuation and the result that it gets at the deadline, until one of the two ways is taken.
struct Slot<R>(Mutex<Option<(Late<R>, Then<R>)>>);

impl<R> Slot<R> {
    fn take(&self) -> Option<(Late<R>, Then<R>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

trait Expire: Send + Sync {
    fn expire(&self);
}

impl<R> Expire for Slot<R> {
    fn expire(&self) {
        if let Some((late, then)) = self.take() {
            then(late());
        }
    }
}

/// The way of the result. Its deadline goes with it, be it called or dropped.
struct Bounded<R> {
    slot: Arc<Slot<R>>,
    clock: Arc<Clock>,
    key: Key,
}

impl<R> Bounded<R> {
    fn end(self, result: R) {
        let taken = self.slot.take();
        drop(self);
        if let Some((_, then)) = taken {
            then(result);
        }
    }
}

impl<R> Drop for Bounded<R> {
    fn drop(&mut self) {
        self.clock.cancel(self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use super::*;

    fn bounded(clock: &Arc<Clock>, after: Duration) -> (Then<u8>, bool, Receiver<u8>) {
        let (tell, told) = mpsc::channel();
        let (then, is_first) =
            clock.bound(Instant::now() + after, || 0, Box::new(move |result| tell.send(result).unwrap()));
        (then, is_first, told)
    }

    #[test]
    fn the_first_of_result_and_deadline_counts_and_the_other_finds_nobody() {
        let clock = Arc::new(Clock::default());
        let (then, _, told) = bounded(&clock, Duration::ZERO);
        assert!(clock.expire());
        assert_eq!(told.recv(), Ok(0));
        then(7);
        assert!(told.recv().is_err(), "it was called again");
        let (then, _, told) = bounded(&clock, Duration::ZERO);
        then(7);
        assert!(!clock.expire());
        assert_eq!((told.recv(), told.recv().is_err()), (Ok(7), true));
    }

    #[test]
    fn a_continuation_that_is_dropped_leaves_no_deadline() {
        let clock = Arc::new(Clock::default());
        let (then, _, told) = bounded(&clock, Duration::ZERO);
        drop(then);
        assert!(told.recv().is_err() && !clock.expire() && clock.next().is_none());
    }

    #[test]
    fn the_thread_is_woken_for_what_it_would_sleep_over_alone() {
        let clock = Arc::new(Clock::default());
        let after = |seconds| bounded(&clock, Duration::from_secs(seconds));
        let waiting = [after(20), after(10), after(15)];
        assert_eq!(waiting.each_ref().map(|(_, is_first, _)| *is_first), [true, true, false]);
        let first = clock.next().unwrap();
        assert!(!clock.expire(), "nothing is over");
        drop(waiting);
        // It wakes then for nothing, which a later deadline may rely on.
        let waiting = [after(30), after(0)];
        assert_eq!(waiting.each_ref().map(|(_, is_first, _)| *is_first), [false, true]);
        assert!(clock.next().unwrap() < first);
    }
}
