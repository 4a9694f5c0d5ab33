//! The end of a run: signals of its user, and what is done to the whole family of processes in each [stage](super::stage).
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::debugging::ENDING as ENDS_RANKS;
use super::groups::signal;
use super::running::Running;
use super::stage::{GRACE, READING, ROUND, Stage};
use crate::family;

/// Signals of the user that end the persistent mode.
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

impl Running {
    /// Passes a signal on; SIGTERM ends the run besides.
    pub(super) fn pass_on(&mut self, signal: i32) {
        if self.is_up {
            return if ENDING.iter().any(|ending| *ending as i32 == signal) {
                self.leave()
            };
        }
        if self.held.is_some() && Signal::try_from(signal).is_ok_and(|signal| ENDS_RANKS.contains(&signal)) {
            self.outcome.sent_before_start(signal);
        }
        self.outcome.was_sent(signal);
        if self.insisted > 0 && self.is_waiting {
            self.outcome.outlasted(signal);
        }
        if signal == Signal::SIGTERM as i32 && matches!(self.stage, Stage::Running | Stage::LeftOver) {
            self.ended_by = Some(signal);
            // The whole family is sent it.
            return self.end();
        }
        if let Ok(number) = Signal::try_from(signal) {
            let pids: Vec<Pid> = self.jobs.running().collect();
            self::signal(&pids, number);
            self.let_go_for(number, &pids);
        }
    }

    /// Returns whether the user asks for the end once more, so that now everything is killed.
    pub(super) fn insists(&mut self, signal: i32) -> bool {
        if signal != Signal::SIGINT as i32 && signal != Signal::SIGTERM as i32 {
            return false;
        }
        self.insisted += 1;
        if self.insisted > 1 {
            self.outcome.killed(signal);
            self.kill();
        }
        self.insisted > 1
    }

    /// Returns whether the user has ended it, or it is one that the user ends.
    pub(super) fn is_told_to_end(&self) -> bool {
        self.is_up || self.ended_by.is_some() || self.outcome.is_of_user()
    }

    /// Ends it all, callers first, who are told.
    pub(super) fn leave(&mut self) {
        if self.stage == Stage::Running {
            self.end_callers();
            self.end();
        }
    }

    pub(super) fn end(&mut self) {
        self.ask();
        self.stage = Stage::Ending;
        self.next = Some(Instant::now() + GRACE);
        if !self.has_children {
            self.reading = Some(Instant::now() + READING);
        }
    }

    /// Asks each of the family to end, once.
    pub(super) fn ask(&mut self) {
        // The second is for a process that is stopped and would not get the first.
        family::signal(&[Signal::SIGTERM, Signal::SIGCONT], |pid| self.asked.insert(pid));
    }

    pub(super) fn kill(&mut self) {
        family::signal(&[Signal::SIGKILL], |_| true);
        self.stage = Stage::Killing;
        self.next = self.has_children.then(|| Instant::now() + ROUND);
    }
}
