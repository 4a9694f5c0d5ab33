//! Callers of the persistent mode: each has one job, and those that its ranks start.
//!
//! A caller's job has its environment, its directory and its streams; its end is the caller's status. A caller goes
//! through the [stages](Stage) of a run, with its own jobs alone: whatever its ranks have started is known by the job
//! that its environment names. A process that hides that stays until the end of `instanton up`.
//!
//! When nobody of its jobs is left, and all that they have printed is forwarded, the caller is told the status. When the
//! caller is gone before, its jobs are killed. When `instanton up` is ended, callers are told, and their jobs are asked
//! to end.
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use instanton::launch::{Lacks, programs};
use instanton::printable;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::caller::Caller;
use super::explain;
use super::groups::signal;
use super::hang::{Hang, limit_over};
use super::plan::{self, Plan};
use super::running::{Running, forward};
use super::stage::{GRACE, LINGER, READING, ROUND, Stage};
use super::start::Starter;
use crate::family;
use crate::job::StreamOptions;
use crate::jobs::LiveJob;
use crate::library::Libraries;
use crate::outcome::{FAILURE, Outcome, ProcName};
use crate::output::{self, OutputSender, Sink};
use crate::persistent::message::Reply;
use crate::persistent::visit::{JobCall, Way};
use crate::report;
use crate::say::show;
use crate::server::Pmix;
use crate::strangers::Strangers;
use crate::streams::Streams;
use crate::ties::Tells;

impl Running {
    /// Outcome of a job on whose command line others depend.
    pub(super) fn outcome_of(&mut self, root: u32) -> &mut Outcome {
        self.callers.get_mut(&root).map_or(&mut self.outcome, |caller| &mut caller.outcome)
    }

    /// Starter of the ranks of such a job.
    pub(super) fn starter_of(&self, root: u32) -> &Starter {
        self.callers.get(&root).map_or(&self.starter, |caller| &caller.starter)
    }

    /// The strangers among its ranks.
    pub(super) fn strangers(&self, root: u32) -> &Arc<Strangers> {
        &self.starter_of(root).streams.strangers
    }

    /// Tells its user something.
    pub(super) fn tell(&self, root: u32, line: &str) {
        self.show(root, &format!("instanton: {line}"));
    }

    /// Shows its user a line of something longer.
    pub(super) fn show(&self, root: u32, line: &str) {
        let own = self.callers.get(&root).map(|caller| &caller.starter.streams.feeds[1]);
        let is_shown = own.is_some_and(|own| own.write(format!("{}\n", printable(line)).as_bytes()).is_ok());
        if !is_shown {
            show(line);
        }
    }

    /// Takes a caller's job in, or says why not.
    pub(super) fn call(&mut self, way: Way, call: JobCall, pmix: &Pmix) {
        if let Err((code, line)) = self.try_call(&way, call, pmix) {
            way.answer(&Reply::Ended { code, lines: vec![line] });
        }
    }

    fn try_call(&mut self, way: &Way, call: JobCall, pmix: &Pmix) -> Result<(), (u8, String)> {
        let failed = |error: anyhow::Error| (FAILURE, format!("{error:#}"));
        if !self.stays() {
            return Err((FAILURE, "it is about to end, and starts nothing any more".to_owned()));
        }
        let up = pmix.nodes_up();
        let plan = plan::beside(&self.jobs, self.free_slots(), &up, &call)?;
        let Plan { specs, psets, placement, stops, options, .. } = plan;
        let ranks = specs.iter().map(|spec| spec.ranks).sum();
        let too_many = || (FAILURE, "more ranks than one machine can number".to_owned());
        let (number, before) = self.jobs.next(ranks).ok_or_else(too_many)?;
        let mut job = self.jobs.first().called(number, before, specs).map_err(failed)?;
        job.place(placement, self.jobs.before_on_nodes());
        job.psets = psets;
        job.wants.input = call.options.output.stdin.target();
        job.survival = call.options.survival.survival();
        job.stops = stops;
        let programs = programs(&job.apps).map_err(|(app, lacks)| {
            let why = match lacks {
                Lacks::Directory(error) => explain::directory(app, &error),
                Lacks::Program(error) => explain::program(app, None, &error),
            };
            let mut outcome = Outcome::default();
            let (rank, node) = (app.first, job.node_name(app.first).to_owned());
            outcome.not_started(ProcName { job: number, rank, node, pid: None }, why);
            (outcome.code(), outcome.line().unwrap_or_default())
        })?;
        job.create_directories().map_err(failed)?;
        if let Err(line) = pmix.introduce(&job) {
            // A set of that name is another job's.
            job.psets.clear();
            pmix.forget(&job, || ());
            return Err((FAILURE, line));
        }
        let shown = super::shown(&call.options.placement, &job);
        let limit = call.options.start.spawn_timeout;
        let proctable = call.options.proctable().map(|place| report::within(place, &call.directory));
        self.jobs.add(job, Tells::default());
        if let Err(error) = self.take_in(way, call, number, options) {
            self.job_over(number, pmix);
            return Err(failed(error));
        }
        if let Err(error) = self.begin(number, &programs, shown, limit, proctable.as_deref(), pmix) {
            self.outcome_of(number).broken(format!("{error:#}"));
        }
        if self.jobs.is_over(number) {
            self.job_over(number, pmix);
        }
        Ok(())
    }

    fn free_slots(&self) -> u32 {
        let held = u32::try_from(self.allocations.slots()).unwrap_or(u32::MAX);
        self.jobs.free_slots().saturating_sub(held)
    }

    /// Begins to forward the output of a caller's job.
    fn take_in(&mut self, way: &Way, call: JobCall, number: u32, options: StreamOptions) -> Result<()> {
        let JobCall { options: run, environment, streams: [input, out, err], .. } = call;
        let ((out_feed, fed_out), (err_feed, fed_err)) = (output::feed()?, output::feed()?);
        let feeds = [out_feed, err_feed];
        let out = File::from(out);
        let print = || -> Result<()> {
            let sinks = Sink::both(&out, &err)?;
            for (fed, sink) in [fed_out, fed_err].into_iter().zip(sinks) {
                forward(self.events.clone(), fed, sink, Some(way.id))?;
            }
            Ok(())
        };
        print().inspect_err(|_| feeds.iter().for_each(OutputSender::end))?;
        let streams = Streams { feeds, copies: Arc::default(), strangers: Arc::default(), ..self.streams.clone() };
        let limit = run.general.timeout;
        let starter = Starter {
            streams,
            options,
            gives_terminals: run.output.gives_terminals(&out),
            libraries: Arc::new(Libraries::new(run.start.library, run.start.verbose)),
            pmi: run.start.pmi,
            steerer: None,
            environment: Some(Arc::new(environment)),
            input: Some(Arc::new(input.into())),
            ends: self.starter.ends.clone(),
        };
        let caller = Caller {
            way: way.clone(),
            starter,
            outcome: Outcome::default(),
            stage: Stage::Running,
            next: limit.and_then(|limit| Instant::now().checked_add(limit)),
            jobs: BTreeSet::from([number]),
            asked: HashSet::new(),
            insisted: 0,
            reports_separately: run.survival.reports_separately(),
            limit,
            hang: Hang::new(&run.general),
            ended_by: None,
            printing: 2,
        };
        self.callers.insert(number, caller);
        Ok(())
    }

    /// Starts the ranks of a caller's job, in so much time at most.
    fn begin(
        &mut self,
        number: u32,
        programs: &[PathBuf],
        shown: [String; 2],
        limit: Option<Duration>,
        proctable: Option<&Path>,
        pmix: &Pmix,
    ) -> Result<()> {
        let starter = self.starter_of(number).clone();
        for (text, feed) in shown.iter().zip(&starter.streams.feeds) {
            feed.write(text.as_bytes())?;
        }
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let started = starter.start(&mut self.jobs, number, programs, until, pmix);
        if !self.has_children {
            self.watch_again();
        }
        let input = starter.input.as_ref().map(|input| input.try_clone()).transpose()?;
        starter.streams.copies.serve(input)?;
        let Err((rank, error)) = started else { return self.all_started(number, proctable, pmix) };
        let error = error.downcast::<io::Error>()?;
        if starter.ends.get().is_some() {
            return Ok(());
        }
        if let Some(limit) = limit.filter(|_| error.kind() == io::ErrorKind::TimedOut) {
            self.outcome_of(number).start_timed_out(limit);
            return Ok(());
        }
        let app = |live: &LiveJob| {
            let app = live.job.ranks().find_map(|(other, app)| (other == rank).then_some(app))?;
            Some(explain::program(app, Some(&programs[app.number as usize]), &error))
        };
        if let Some(why) = self.jobs.get(number).and_then(app) {
            let who = self.jobs.who(number, rank);
            self.outcome_of(number).not_started(who, why);
        }
        Ok(())
    }

    pub(super) fn by_id(&self, id: u64) -> Option<u32> {
        self.callers.iter().find(|(_, caller)| caller.way.id == id).map(|(number, _)| *number)
    }

    /// The user of a caller has sent a signal: it is passed on to its ranks, SIGTERM ends its jobs, and the second SIGINT
    /// or SIGTERM kills them.
    pub(super) fn caller_signals(&mut self, id: u64, sent: i32, pmix: &Pmix) {
        let Some(number) = self.by_id(id) else { return };
        let Some(caller) = self.callers.get_mut(&number) else { return };
        if sent == Signal::SIGINT as i32 || sent == Signal::SIGTERM as i32 {
            caller.insisted += 1;
            if caller.insisted > 1 {
                caller.outcome.killed(sent);
                return self.kill_caller(number);
            }
            self.give_up_below(number, pmix);
        }
        self.heed(Some(number), sent, pmix);
        let Some(caller) = self.callers.get_mut(&number) else { return };
        caller.outcome.was_sent(sent);
        if sent == Signal::SIGTERM as i32 && matches!(caller.stage, Stage::Running | Stage::LeftOver) {
            caller.ended_by = Some(sent);
            return self.end_caller(number, pmix);
        }
        if let Ok(sent) = Signal::try_from(sent) {
            let pids = self.jobs.pids_below(number);
            signal(&pids, sent);
            self.let_go_for(sent, &pids);
        }
    }

    /// A caller is gone, and takes its jobs with it.
    pub(super) fn caller_gone(&mut self, id: u64, pmix: &Pmix) {
        let Some(number) = self.by_id(id) else { return };
        self.give_up_below(number, pmix);
        self.outcome_of(number).guardian_gone();
        self.kill_caller(number);
    }

    /// One of a caller's outputs is through, or broken.
    pub(super) fn caller_printed(&mut self, id: u64, result: io::Result<()>) {
        let Some(number) = self.by_id(id) else { return };
        let Some(caller) = self.callers.get_mut(&number) else { return };
        caller.printing -= 1;
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => caller.outcome.unread(),
            Err(error) => caller.outcome.broken(format!("cannot write the output of the ranks: {error}")),
        }
    }

    /// Everything ends: callers are told, and their jobs end with the rest.
    pub(super) fn end_callers(&mut self) {
        for caller in self.callers.values_mut() {
            caller.outcome.broken("`instanton up` was ended, and the job with it".to_owned());
        }
        self.parting = (!self.callers.is_empty()).then(|| Instant::now() + 2 * GRACE);
    }

    /// Asks all jobs of a caller to end.
    fn end_caller(&mut self, number: u32, pmix: &Pmix) {
        self.give_up_below(number, pmix);
        let pids = self.jobs.pids_below(number);
        let left = self.left_behind(number);
        let Some(caller) = self.callers.get_mut(&number) else { return };
        (caller.stage, caller.next) = (Stage::Ending, Some(Instant::now() + GRACE));
        // The second is for a process that is stopped and would not get the first.
        for asking in [Signal::SIGTERM, Signal::SIGCONT] {
            signal(&pids, asking);
        }
        caller.asked.extend(&pids);
        family::signal_below(&left, &[Signal::SIGTERM, Signal::SIGCONT], |pid| caller.asked.insert(pid));
    }

    fn kill_caller(&mut self, number: u32) {
        signal(&self.jobs.pids_below(number), Signal::SIGKILL);
        let left = self.left_behind(number);
        family::signal_below(&left, &[Signal::SIGKILL], |_| true);
        if let Some(caller) = self.callers.get_mut(&number) {
            (caller.stage, caller.next) = (Stage::Killing, Some(Instant::now() + ROUND));
        }
    }

    /// Nobody of a caller's jobs is started anew any more.
    fn give_up_below(&mut self, number: u32, pmix: &Pmix) {
        let all: Vec<u32> = self.jobs.below(number).map(|live| live.job.number).collect();
        self.restarts.retain(|restart| !all.contains(&restart.job));
        all.into_iter().for_each(|number| self.give_up(number, pmix));
    }

    /// Processes that ranks of a caller have left behind: orphans whose environment names one of its jobs.
    fn left_behind(&self, number: u32) -> Vec<Pid> {
        let Some(caller) = self.callers.get(&number) else { return Vec::new() };
        let family = format!("{}@", self.jobs.first().family());
        let is_own = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            let nspace = variables.find_map(|variable| variable.strip_prefix(b"PMIX_NAMESPACE="));
            let job = nspace.and_then(|nspace| std::str::from_utf8(nspace).ok()?.strip_prefix(&family)?.parse().ok());
            job.is_some_and(|job| caller.jobs.contains(&job))
        };
        let mut orphans = family::orphans(|pid| self.jobs.is_rank(pid));
        orphans.retain(is_own);
        orphans
    }

    /// The next stage of each caller, where what has happened asks for it.
    pub(super) fn callers_proceed(&mut self, pmix: &Pmix) {
        for number in self.callers.keys().copied().collect::<Vec<_>>() {
            self.caller_proceeds(number, pmix);
        }
        if self.leaving == 0 && self.is_up && self.jobs.size() == 0 {
            self.record.trim();
        }
    }

    fn caller_proceeds(&mut self, number: u32, pmix: &Pmix) {
        let Some(caller) = self.callers.get(&number) else { return };
        if caller.stage == Stage::Running && caller.outcome.is_decided() {
            self.end_caller(number, pmix);
        }
        if self.jobs.below(number).next().is_some() {
            return;
        }
        let Some(stage) = self.callers.get(&number).map(|caller| caller.stage) else { return };
        let left = if stage == Stage::Printing { Vec::new() } else { self.left_behind(number) };
        let Some(caller) = self.callers.get_mut(&number) else { return };
        match (left.is_empty(), stage) {
            (true, Stage::Printing) if caller.printing == 0 => self.finish_caller(number),
            (true, Stage::Printing) => {}
            (true, _) => {
                let is_told_to_end = caller.ended_by.is_some() || caller.outcome.is_of_user();
                caller.stage = Stage::Printing;
                caller.next = is_told_to_end.then(|| Instant::now() + READING);
                caller.starter.streams.feeds.iter().for_each(OutputSender::end);
            }
            (false, Stage::Running) => (caller.stage, caller.next) = (Stage::LeftOver, Some(Instant::now() + LINGER)),
            (false, Stage::Ending) => {
                family::signal_below(&left, &[Signal::SIGTERM, Signal::SIGCONT], |pid| caller.asked.insert(pid));
            }
            (false, _) => {}
        }
    }

    /// The time of stages that are over by themselves.
    pub(super) fn callers_wait_no_more(&mut self, now: Instant, pmix: &Pmix) {
        if self.parting.is_some_and(|parting| parting <= now) {
            self.parting = None;
            self.callers.clear();
        }
        let is_over = |caller: &Caller| caller.next.is_some_and(|next| next <= now);
        let over: Vec<u32> = self.callers.iter().filter(|(_, caller)| is_over(caller)).map(|(n, _)| *n).collect();
        for number in over {
            let Some(caller) = self.callers.get_mut(&number) else { continue };
            match caller.stage {
                Stage::Running => {
                    let limit = caller.limit.unwrap_or_default();
                    caller.outcome.timed_out(limit);
                    self.explain(Some(number), pmix, &limit_over(limit));
                    self.end_caller(number, pmix);
                }
                Stage::LeftOver => self.end_caller(number, pmix),
                Stage::Ending | Stage::Killing => {
                    if let Some(signal) = caller.ended_by {
                        caller.outcome.outlasted(signal);
                    }
                    self.kill_caller(number);
                }
                Stage::Printing => self.finish_caller(number),
            }
        }
    }

    /// Tells a caller how its job has ended.
    fn finish_caller(&mut self, number: u32) {
        let Some(caller) = self.callers.remove(&number) else { return };
        let mut lines = caller.starter.streams.strangers.lines();
        lines.extend(caller.outcome.line());
        caller.way.answer(&Reply::Ended { code: caller.outcome.code(), lines });
    }
}
