//! Stopwatch: measures the processor time of a thread, mostly by the clock.
//!
//! The clock costs little and runs on while others have the processor; the processor time of a thread is a system call,
//! which takes longer than a short turn of the control thread does. So what is short by the clock counts with that: it is
//! longer than its processor time at most. A time that is longer was perhaps interrupted, and the thread is asked. It
//! is compared with a reading of a moment before the beginning, which many beginnings share.
use std::cell::Cell;
use std::time::{Duration, Instant};

use super::process;

/// Time by the clock up to which nobody asks for processor time.
const SHORT: Duration = Duration::from_micros(20);
/// Time for which a reading of processor time serves those who begin.
const SHARED: Duration = Duration::from_micros(50);

thread_local! {
    /// Latest reading for those who begin: the clock, and the processor time of this thread.
    static READING: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// A measurement that has begun, of the thread that has begun it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    begin: Instant,
    /// Processor time of the thread at most [`SHARED`] before.
    before: Duration,
}

impl Stopwatch {
    /// Begins to measure.
    pub fn begin() -> Self {
        let begin = Instant::now();
        let before = match READING.get() {
            Some((at, before)) if begin.saturating_duration_since(at) <= SHARED => before,
            _ => {
                let before = process::thread_time();
                READING.set(Some((begin, before)));
                before
            }
        };
        Stopwatch { begin, before }
    }

    /// Returns the processor time since it began: up to [`SHARED`] too much where the thread was interrupted.
    pub fn elapsed(self) -> Duration {
        let time = self.begin.elapsed();
        if time <= SHORT { time } else { time.min(process::thread_time().saturating_sub(self.before)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the processor for so long, by the clock.
    fn work(time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn time_without_the_processor_is_not_counted_and_time_with_it_is() {
        let waits = Stopwatch::begin();
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            work(Duration::from_millis(30));
            let _ = sender.send(());
        });
        let _ = receiver.recv();
        let (waited, clock) = (waits.elapsed(), waits.begin.elapsed());
        let _ = other.join();
        assert!(clock >= Duration::from_millis(30) && waited < clock / 2, "{waited:?} of {clock:?}");

        let works = Stopwatch::begin();
        let begin = process::thread_time();
        while process::thread_time() - begin < Duration::from_millis(5) {
            work(Duration::from_micros(10));
        }
        assert!(works.elapsed() >= Duration::from_millis(5), "{:?}", works.elapsed());
    }

    #[test]
    fn what_is_short_counts_by_the_clock_and_shares_a_reading() {
        let works = Stopwatch::begin();
        let next = Stopwatch::begin();
        if next.begin - works.begin <= SHARED {
            assert_eq!(works.before, next.before);
        }
        assert!(works.elapsed() <= works.begin.elapsed());
    }
}
