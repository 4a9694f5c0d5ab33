//! Debuggers of a run: who is told of ranks that have stopped for one, and how these go on.
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use instanton::data::{Info, Proc, keys};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::groups::signal;
use super::running::Running;
use crate::debugger::daemons::PATIENCE;
use crate::debugger::{stops, table};
use crate::event::Leave;
use crate::job::Job;
use crate::report;
use crate::server::Pmix;

/// Signals that the user sends to end ranks; one that is stopped would not get them.
pub(super) const ENDING: [Signal; 5] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGABRT];

impl Running {
    /// All ranks of a job that was asked for on a command line are started.
    pub(super) fn all_started(&self, number: u32, proctable: Option<&Path>, pmix: &Pmix) -> Result<()> {
        if let (Some(place), Some(live)) = (proctable, self.jobs.get(number)) {
            let table = table::lines(live.table());
            let feeds = &self.starter_of(number).streams.feeds;
            match place.as_os_str().as_encoded_bytes() {
                b"-" => feeds[0].write(table.as_bytes())?,
                b"+" => feeds[1].write(table.as_bytes())?,
                _ => report::write(place, table.trim_end()).context("cannot write the process table")?,
            }
        }
        self.tell_of_held(number, pmix);
        Ok(())
    }

    /// All ranks of a job are started: whoever debugs it hears of those that were left stopped.
    pub(super) fn tell_of_held(&self, number: u32, pmix: &Pmix) {
        let Some(live) = self.jobs.get(number) else { return };
        for rank in self.jobs.held(number) {
            let place = Info::new(keys::BREAKPOINT, stops::ON_EXEC);
            self.tell_debuggers(&live.job, &live.job.proc(rank), Some(place), pmix);
        }
    }

    /// A rank waits for a debugger: whoever debugs its job hears of it, or it goes on if nobody does any more.
    pub(super) fn stopped(&mut self, proc: &Proc, place: Option<Info>, pmix: &Pmix) {
        self.jobs.awaits_word(proc);
        let Some(live) = self.jobs.number(&proc.nspace).and_then(|number| self.jobs.get(number)) else { return };
        match live.job.stops.are_over {
            true => pmix.release(proc),
            false => self.tell_debuggers(&live.job, proc, place, pmix),
        }
    }

    /// A debugger of a job hears of a rank that waits. An `instanton up` outlasts its jobs: a debugger that comes later
    /// would hear of those that are over.
    fn tell_debuggers(&self, job: &Job, rank: &Proc, place: Option<Info>, pmix: &Pmix) {
        pmix.rank_stopped(job.parent.as_ref(), rank, place, !self.is_up);
    }

    /// A debugger's word for ranks to go on, all of them where none is named.
    pub(super) fn let_go(&mut self, named: Option<&[Proc]>) {
        signal(&self.jobs.let_go(named), Signal::SIGCONT);
    }

    /// Processes that were sent a signal get it even if they are stopped for a debugger.
    pub(super) fn let_go_for(&mut self, number: Signal, pids: &[Pid]) {
        if number == Signal::SIGCONT || ENDING.contains(&number) {
            let held = self.jobs.let_go_of(pids);
            signal(&held, Signal::SIGCONT);
        }
    }

    /// A job is over that daemons may look into: they hear of it, and are to end, too.
    pub(super) fn target_over(&mut self, number: u32, pmix: &Pmix) {
        let Some(live) = self.jobs.get(number) else { return };
        let daemons = self.jobs.daemons_of(&live.job.nspace);
        let told: Vec<Proc> = daemons.iter().filter_map(|of| Some(self.jobs.get(*of)?.job.all())).collect();
        if !told.is_empty() {
            pmix.target_ended(&live.job, live.status(), told);
        }
        self.are_to_end(daemons);
    }

    /// Daemons of a debugger have a while for their end.
    fn are_to_end(&mut self, daemons: Vec<u32>) {
        let until = Instant::now() + PATIENCE;
        self.limits.extend(daemons.into_iter().map(|number| (until, number)));
    }

    /// A process is gone that may have started jobs to debug them, and daemons.
    pub(super) fn starter_gone(&mut self, proc: &Proc, pmix: &Pmix) {
        self.are_to_end(self.jobs.daemons_by(proc));
        for number in self.jobs.stopping_for(Some(proc)) {
            self.debugger_gone(number, pmix);
        }
    }

    /// A tool is gone. Those that it is connected with hear of it.
    pub(super) fn tool_gone(&mut self, tool: &Proc, leave: Leave, pmix: &Pmix) {
        let tied = self.jobs.tied_to(tool);
        if !tied.is_empty() {
            pmix.left_without_a_word(tool, tied);
        }
        if pmix.tool_gone(tool) {
            self.jobs.forget_tools(&tool.nspace);
        }
        self.allocations.process_ended(tool);
        self.spawns_for_nobody(tool);
        self.questions_of_nobody(tool);
        self.streams.inputs.ended(tool);
        self.starter_gone(tool, pmix);
        if leave == Leave::None {
            self.tool_lost(pmix);
        }
    }

    /// A tool was lost, which may have been the debugger of any job that no process has started.
    fn tool_lost(&mut self, pmix: &Pmix) {
        for number in self.jobs.stopping_for(None) {
            self.debugger_gone(number, pmix);
        }
    }

    /// The debugger of a job is gone: its ranks stop for nobody any more, and those that do go on.
    fn debugger_gone(&mut self, number: u32, pmix: &Pmix) {
        self.jobs.stop_no_more(number);
        let Some(all) = self.jobs.get(number).map(|live| live.job.all()) else { return };
        if !self.jobs.held(number).is_empty() {
            let line = format!("the debugger of job {number} is gone; its stopped ranks go on without it");
            self.tell(self.jobs.root(number), &line);
        }
        pmix.release(&all);
        self.let_go(Some(&[all]));
    }
}
