//! The log of a run: its last steps for people, and a hash over all of them.
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

/// Steps that are kept to be shown.
const KEPT: usize = 80;

/// Everything that has happened in a run.
#[derive(Debug)]
pub struct Log {
    hash: u64,
    steps: u64,
    last: VecDeque<String>,
    /// True if each step is printed as it happens.
    pub is_printed: bool,
}

impl Log {
    /// Creates an empty log.
    pub fn new() -> Self {
        Log { hash: 0xcbf2_9ce4_8422_2325, steps: 0, last: VecDeque::new(), is_printed: false }
    }

    /// Notes a step.
    pub fn note(&mut self, at: Duration, step: std::fmt::Arguments<'_>) {
        let mut line = match self.last.len() {
            KEPT => self.last.pop_front().unwrap_or_default(),
            _ => String::new(),
        };
        line.clear();
        // Writing to a string cannot fail.
        let _ = write!(line, "{:>12.6} {step}", at.as_secs_f64());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.steps += 1;
        if self.is_printed {
            println!("{line}");
        }
        self.last.push_back(line);
    }

    /// Returns a hash over all steps.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the last steps as text.
    pub fn shown(&self) -> String {
        self.last.iter().map(|line| format!("{line}\n")).collect()
    }
}
