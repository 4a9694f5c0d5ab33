//! Failures of processes: a job that survives starts them anew or goes on without them; any other ends, and with it
//! those that are [tied](crate::ties) to it.
//!
//! A process that is to be started anew is expected by the server from the moment at which its end is known, so that
//! fences wait for it. It is started when its time has come, and forgotten when its job ends before that.
use std::collections::BTreeSet;
use std::time::Instant;

use instanton::data::Status;

use super::running::Running;
use crate::control;
use crate::event::Abort;
use crate::jobs::{ProcessEnd, Restart, Verdict};
use crate::outcome::{self, End, Outcome};
use crate::server::Pmix;
use crate::survival::MOST_EARLY_DEATHS;

impl Running {
    /// A process has failed while nothing ends yet. Returns whether the others of its job go on.
    pub(super) fn failed(&mut self, ended: &ProcessEnd, pmix: &Pmix) -> bool {
        let (number, rank) = (ended.who.job, ended.proc.rank.0);
        let mut verdict = self.jobs.judge(number, rank);
        let mut has_lost_node = false;
        if let (Verdict::Restart(_), Some(live)) = (verdict, self.jobs.get(number))
            && pmix.expect(&live.job, rank).is_err()
        {
            has_lost_node = true;
            verdict = if self.jobs.lose(number, rank) { Verdict::Lost } else { Verdict::Fatal };
        }
        let (job, root) = (self.jobs.get(number).map(|live| &live.job), self.jobs.root(number));
        match verdict {
            Verdict::Restart(delay) => {
                let done = job.map_or(0, |job| job.reincarnation(rank));
                let of = job.map_or(0, |job| job.survival.restarts);
                self.tell(root, &format!("{} {}; it is started anew ({} of {of})", ended.who, how(ended), done + 1));
                self.restarts.push(Restart { at: Instant::now() + delay, job: number, rank });
                true
            }
            Verdict::Lost => {
                self.tell(root, &format!("{} {}; the others go on", ended.who, how(ended)));
                true
            }
            Verdict::Fatal => {
                if let Some(job) = job.filter(|job| job.survival.survives()) {
                    let why = match has_lost_node {
                        true => "its node is down".to_owned(),
                        false if job.reincarnation(rank) < job.survival.restarts => {
                            format!("it has ended {MOST_EARLY_DEATHS} times in a row before Init")
                        }
                        false => format!("{} restarts did not help", job.reincarnation(rank)),
                    };
                    self.tell(root, &format!("{} is not started anew: {why}", ended.who));
                }
                let status = match ended.end {
                    End::Code(0) => Status::ERR_JOB_TERM_WO_SYNC,
                    End::Code(_) => Status::ERR_JOB_NON_ZERO_TERM,
                    End::Signal(_) => Status::ERR_JOB_ABORTED_BY_SIG,
                };
                let (who, end, initialised) = (ended.who.clone(), ended.end, ended.is_initialised);
                self.jobs.exits(number, exit_code(end));
                self.job_fails(number, status, pmix, |outcome| outcome.ended(who, end, initialised));
                false
            }
        }
    }

    /// A job ends for a reason that `tell` gives, and those that are tied to it end with it.
    fn job_fails(&mut self, number: u32, status: Status, pmix: &Pmix, tell: impl FnOnce(&mut Outcome)) {
        let root = self.jobs.root(number);
        let ending = self.jobs.fails(number, status);
        let is_first = ending.contains(&root);
        let separately = self.is_separate(number);
        let outcome = self.outcome_of(root);
        let mut beside = outcome.beside();
        tell(if is_first { outcome } else { &mut beside });
        if let Some(line) = beside.line() {
            if !separately {
                outcome.failed_alone(beside.code());
            }
            self.tell(root, &line);
        }
        if is_first {
            let others: BTreeSet<u32> = self.jobs.below(root).map(|live| live.job.number).collect();
            if !others.difference(&ending).all(|other| self.jobs.is_over(*other)) {
                self.outcome_of(root).spare_others();
            } else if !self.callers.contains_key(&root) {
                // The run ends.
                return;
            }
        }
        for number in ending {
            self.give_up(number, pmix);
            let running = self.jobs.get(number).map(|live| live.job.all());
            let running = running.and_then(|all| self.jobs.named(&[all]).ok()).unwrap_or_default();
            self.terminate(running);
        }
    }

    /// Returns whether failures of a job leave the exit status as it is, unless those it belongs to end with it.
    fn is_separate(&self, number: u32) -> bool {
        let caller = self.callers.get(&self.jobs.root(number));
        caller.map_or(self.reports_separately, |caller| caller.reports_separately)
            || self.jobs.get(number).is_some_and(|live| live.job.daemons.is_some())
    }

    /// A rank asks for the end of processes, be they all of its job or others.
    pub(super) fn abort(&mut self, abort: Abort, pmix: &Pmix) {
        let Abort { by, status, message, procs, done } = abort;
        let Some(live) = self.jobs.number(&by.nspace).and_then(|number| self.jobs.get(number)) else {
            return done.complete(Err(Status::ERR_NOT_FOUND));
        };
        let is_all = procs.is_empty()
            || (0..live.job.size()).all(|rank| {
                let proc = live.job.proc(rank);
                procs.iter().any(|named| named.matches(&proc))
            });
        let number = live.job.number;
        let who = self.jobs.who_is(&by);
        if !is_all {
            if self.jobs.named(&procs).is_ok() {
                let root = self.jobs.root(number);
                self.tell(root, &format!("{}; the others go on", outcome::abort(&who, status, &message)));
                // A process that aborts others has not failed.
                if procs.iter().any(|named| named.matches(&by)) && (number == root || !self.is_separate(number)) {
                    self.outcome_of(root).failed_alone(outcome::low_byte(status));
                }
            }
            return self.control(control::Request::end(procs, done));
        }
        self.jobs.exits(number, status);
        self.job_fails(number, Status::ERR_JOB_ABORTED, pmix, |outcome| outcome.aborted(who, status, message));
        // Processes of other jobs that are named besides.
        let others: Vec<_> = procs.into_iter().filter(|named| named.nspace != by.nspace).collect();
        self.control(control::Request::end(others, done));
    }

    /// Starts the processes whose time has come.
    pub(super) fn restart(&mut self, now: Instant, pmix: &Pmix) {
        for Restart { job, rank, .. } in self.restarts.extract_if(.., |restart| restart.at <= now).collect::<Vec<_>>() {
            if self.jobs.reincarnate(job, rank).is_none() {
                continue;
            }
            let starter = self.starter_of(self.jobs.root(job)).clone();
            let born = starter.restart(&mut self.jobs, job, rank, pmix);
            match born {
                Ok(()) if self.has_children => {}
                Ok(()) => self.watch_again(),
                Err(error) => {
                    self.give_up(job, pmix);
                    let who = self.jobs.who(job, rank);
                    let text = format!("{error:#}");
                    self.job_fails(job, Status::ERR_JOB_FAILED_TO_LAUNCH, pmix, |outcome| {
                        outcome.not_restarted(who, text);
                    });
                }
            }
        }
    }

    /// Nobody of a job is started anew any more.
    pub(super) fn give_up(&mut self, number: u32, pmix: &Pmix) {
        let was_over = self.jobs.is_over(number);
        self.jobs.await_nobody(number);
        if !was_over && self.jobs.is_over(number) {
            self.job_over(number, pmix);
        }
    }
}

/// The end of a process in words.
fn how(ended: &ProcessEnd) -> String {
    match ended.end {
        End::Code(0) => "exited with code 0 after Init and without Finalize".to_owned(),
        End::Code(code) => format!("exited with code {code}"),
        End::Signal(signal) => format!("was killed by {}", crate::signals::name(signal)),
    }
}

/// The end of a process as an exit status.
fn exit_code(end: End) -> i32 {
    match end {
        End::Code(code) => code,
        End::Signal(signal) => outcome::of_signal(signal).into(),
    }
}
