//! Stopwatch: measures what a thread takes, by the clock or by the time that it has the processor.
use std::time::{Duration, Instant};

use super::process;

/// A measurement that has begun.
#[derive(Clone, Copy, Debug)]
pub enum Stopwatch {
    /// By the clock, which costs little and runs on while others have the processor.
    Clock(Instant),
    /// By the processor time of this thread, which is a system call.
    Processor(Duration),
}

impl Stopwatch {
    /// Begins to measure, closely by the processor time.
    pub fn begin(is_close: bool) -> Self {
        if is_close { Stopwatch::Processor(process::thread_time()) } else { Stopwatch::Clock(Instant::now()) }
    }

    /// Returns the time since it began.
    pub fn elapsed(self) -> Duration {
        match self {
            Stopwatch::Clock(begin) => begin.elapsed(),
            Stopwatch::Processor(begin) => process::thread_time().saturating_sub(begin),
        }
    }
}
