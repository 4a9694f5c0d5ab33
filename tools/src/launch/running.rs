//! A run: its jobs, and the loop that acts on what happens to them and decides when and how it all ends.
//!
//! Either all of a job starts, or what was started of it is ended again. The first job's failure is the run's; of
//! another one the rank that asked for it is told, and nobody else.
//!
//! A run goes through these stages, never back, with all its [jobs](crate::jobs) together: what goes wrong in one ends
//! them all, and the run lasts as long as any of them.
//! - **Running** until every rank has ended well, or the first thing goes wrong.
//! - **Ending**: something went wrong; the ranks, and everything that descends from them, were sent SIGTERM. When the
//!   ranks have ended, so is whatever they have started since.
//! - **Left over**: every rank has ended and other processes of theirs are still there. They have [`LINGER`] to end by
//!   themselves, then they are sent SIGTERM.
//! - **Killing**: [`GRACE`] after that SIGTERM, or at the user's second SIGINT, everything is sent SIGKILL, again and
//!   again until no child is left.
//!
//! When no child is left, nobody can write any more: output is forwarded to its end, and that is the job's end.
use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::Result;
use instanton::data::{Nspace, Proc, Rank, Status};
use instanton::internal::message::lines::LineFormat;
use instanton::internal::sys::process::take_child;
use instanton::launch::{Lacks, programs};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::start::Starter;
use crate::args::Launch;
use crate::control::Action;
use crate::event::Event;
use crate::host::Pmix;
use crate::job::{Job, Tags};
use crate::jobs::Jobs;
use crate::outcome::{End, Outcome};
use crate::output::{OutputReceiver, OutputSender, Sink};
use crate::streams::Streams;
use crate::threads::start_thread;
use crate::{children, control, family, output, spawn};

/// Time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// Time for processes that a rank left behind to finish, say to write the last of its output.
const LINGER: Duration = Duration::from_secs(1);
/// Between two rounds of SIGKILL: a process may have been born while the first was sent.
const ROUND: Duration = Duration::from_millis(50);

enum Stage {
    Running,
    Ending,
    LeftOver,
    Killing,
}

pub(super) struct Running {
    pub(super) jobs: Jobs,
    pub(super) outcome: Outcome,
    pub(super) events: Sender<Event>,
    /// Tells the thread that waits for children that the ended one is reaped.
    taken: Sender<()>,
    stage: Stage,
    /// Processes that were sent SIGTERM because the run ends.
    asked: HashSet<Pid>,
    /// Processes that were sent SIGTERM because a rank wanted that, and the time at which they are killed.
    condemned: VecDeque<(Instant, Vec<Pid>)>,
    /// Jobs whose time is limited, and when it is over.
    limits: Vec<(Instant, u32)>,
    /// Time at which the stage is over by itself.
    next: Option<Instant>,
    /// The user's limit, and when it is reached.
    limit: Option<Duration>,
    until: Option<Instant>,
    /// Number of times that the user has asked for the end.
    insisted: u32,
    /// Number of outputs that are not through yet.
    printing: usize,
    pub(super) streams: Streams,
    starter: Starter,
    has_children: bool,
}

impl Running {
    /// Creates a run of one job whose ranks are not started.
    pub(super) fn new(job: Job, events: Sender<Event>, arguments: &Launch, streams: Streams) -> Self {
        let limit = arguments.run.timeout;
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut jobs = Jobs::default();
        jobs.add(job, false);
        Self {
            jobs,
            outcome: Outcome::default(),
            events,
            taken: mpsc::channel().0,
            stage: Stage::Running,
            asked: HashSet::new(),
            condemned: VecDeque::new(),
            limits: Vec::new(),
            next: until,
            limit,
            until,
            insisted: 0,
            printing: 0,
            starter: Starter {
                streams: streams.clone(),
                tags: if arguments.run.tag_output { Tags::Short } else { Tags::None },
                format: LineFormat { stamps: arguments.run.timestamp_output, is_xml: arguments.run.xml },
            },
            streams,
            has_children: false,
        }
    }

    /// The file of each application's program; none when one is missing.
    pub(super) fn find_programs(&mut self) -> Option<Vec<PathBuf>> {
        let job = self.jobs.first();
        match programs(&job.apps) {
            Ok(found) => return Some(found),
            Err((app, lacks)) => {
                let who = self.jobs.who(job.number, app.first);
                match lacks {
                    Lacks::Directory(error) => self.outcome.no_directory(who, &app.wdir, &error),
                    Lacks::Program(error) => {
                        self.outcome.not_started(who, &error, &app.spec.program.to_string_lossy());
                    }
                }
            }
        }
        None
    }

    /// Starts the first job, or ends what was started of it when a rank cannot be, and whatever watches it.
    pub(super) fn start_first(&mut self, programs: &[PathBuf], pmix: &Pmix) -> Result<()> {
        let first = self.jobs.first().number;
        if let Err((rank, error)) = self.starter.start(&mut self.jobs, first, programs, None, pmix) {
            let error = error.downcast::<io::Error>()?;
            let app = self.jobs.first().ranks().find(|(other, _)| *other == rank).map(|(_, app)| app);
            let program = app.map(|app| app.spec.program.to_string_lossy().into_owned()).unwrap_or_default();
            self.outcome.not_started(self.jobs.who(first, rank), &error, &program);
        }
        self.watch()
    }

    /// Begins to forward output.
    pub(super) fn print(&mut self, feds: [OutputReceiver; 2]) -> Result<()> {
        for (fed, sink) in feds.into_iter().zip(Sink::standard()?) {
            let events = self.events.clone();
            start_thread("output", move || {
                let mut sources = Vec::new();
                // Before the ranks learn that nobody reads them, and die of it.
                drop(events.send(Event::Printed(output::forward(&mut sources, sink, fed))));
            })?;
            self.printing += 1;
        }
        Ok(())
    }

    /// Has somebody wait for the children there are.
    fn watch(&mut self) -> Result<()> {
        let events = self.events.clone();
        let (taken, awaits_taken) = mpsc::channel();
        (self.has_children, self.taken) = (true, taken);
        start_thread("children", move || children::watch(&events, &awaits_taken))
    }

    /// Serves a spawn request: launches its job, or answers why not.
    fn spawn(&mut self, request: spawn::Request, pmix: &Pmix) {
        let result = self.try_spawn(&request, pmix);
        request.done.complete(result);
    }

    fn try_spawn(&mut self, request: &spawn::Request, pmix: &Pmix) -> Result<Nspace, Status> {
        if !matches!(self.stage, Stage::Running) || !self.has_children {
            return Err(Status::ERR_JOB_FAILED_TO_LAUNCH);
        }
        let limits = request.limits()?;
        let until = limits.start.map(|limit| Instant::now() + limit);
        let first = self.jobs.first();
        let specs = request.specs(&first.node, pmix.binds())?;
        let ranks = specs.iter().fold(0u32, |sum, spec| sum.saturating_add(spec.ranks));
        let (number, before) = self.jobs.next(ranks).ok_or(Status::ERR_JOB_INSUFFICIENT_RESOURCES)?;
        let failed = |_| Status::ERR_JOB_SYS_OP_FAILED;
        let mut job = first.spawned(number, request.parent.clone(), before, specs).map_err(failed)?;
        job.wants = request.wants();
        let programs = programs(&job.apps).map_err(|(_, lacks)| lacks.status())?;
        job.session.create_job(number, job.size()).map_err(failed)?;
        let (nspace, registered) = (job.nspace.clone(), pmix.register(&job, &request.said()));
        self.jobs.add(job, request.tells_parent());
        let failed = |_| match until {
            Some(until) if until <= Instant::now() => Status::ERR_TIMEOUT,
            _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
        };
        let started = registered
            .and_then(|()| self.starter.start(&mut self.jobs, number, &programs, until, pmix).map_err(failed));
        let run = limits.run.filter(|_| started.is_ok());
        self.limits.extend(run.map(|limit| (Instant::now() + limit, number)));
        if started.is_err() {
            // Nothing of it stays, and its parent, told that it has not begun, does not hear of its end.
            let pids = self.jobs.named(&[Proc::new(nspace.clone(), Rank::WILDCARD)]).unwrap_or_default();
            self.jobs.dismiss(&pids);
            self.jobs.keep_quiet(number);
            signal(&pids, Signal::SIGKILL);
            if pids.is_empty() {
                self.job_over(number, pmix);
            }
        }
        started.map(|()| nspace)
    }

    /// Does to processes what a rank asks for.
    fn control(&mut self, request: control::Request) {
        let Some(pids) = self.jobs.named(&request.targets) else {
            return request.done.complete(Err(Status::ERR_NOT_FOUND));
        };
        match request.action {
            Action::Kill => {
                self.jobs.dismiss(&pids);
                signal(&pids, Signal::SIGKILL);
            }
            Action::Terminate => self.terminate(pids),
            Action::Signal(number) => signal(&pids, number),
        }
        request.done.complete(Ok((Status::SUCCESS, Vec::new())));
    }

    /// Asks processes to end, and kills those that do not.
    fn terminate(&mut self, pids: Vec<Pid>) {
        self.jobs.dismiss(&pids);
        signal(&pids, Signal::SIGTERM);
        // For a process that is stopped and would not get it.
        signal(&pids, Signal::SIGCONT);
        self.condemned.push_back((Instant::now() + GRACE, pids));
    }

    /// Acts on what happens until nothing more can.
    pub(super) fn attend(&mut self, happening: &Receiver<Event>, pmix: &Pmix) {
        self.proceed();
        while self.has_children || self.printing > 0 {
            let condemned = self.condemned.front().map(|(at, _)| *at);
            let limit = self.limits.iter().map(|(at, _)| *at).min();
            let event = match [self.next, condemned, limit, pmix.deadline()].into_iter().flatten().min() {
                None => happening.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(next) => happening.recv_timeout(next.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Ended(pid)) => self.take_child(pid, pmix),
                Ok(Event::GuardianGone) => {
                    self.outcome.guardian_gone();
                    return family::end();
                }
                // Nobody is left to kill: it is the reader of our output that keeps us waiting.
                Ok(Event::Signal(signal)) if self.insists(signal) && !self.has_children => return,
                Ok(Event::Spawn(request)) => self.spawn(request, pmix),
                Ok(Event::Stopped(proc, place)) => {
                    if let Some(parent) = self.jobs.parent(&proc) {
                        pmix.rank_stopped(parent, &proc, place);
                    }
                }
                Ok(Event::ToolGone(tool)) => {
                    pmix.tool_gone(&tool);
                    self.streams.inputs.ended(&tool);
                }
                Ok(event) => self.act(event),
                Err(RecvTimeoutError::Timeout) => self.time_passes(Instant::now(), pmix),
                // We hold a sender ourselves.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.proceed();
        }
    }

    fn act(&mut self, event: Event) {
        match event {
            Event::Initialised(proc) => {
                if let Some(pid) = self.jobs.set_initialised(&proc, true) {
                    self.streams.strangers.attached(pid);
                }
            }
            Event::ToolCame(pid) => self.streams.strangers.attached(pid),
            Event::Finalized(proc) => drop(self.jobs.set_initialised(&proc, false)),
            Event::Abort(proc, status, message) => self.outcome.aborted(self.jobs.who_is(&proc), status, message),
            Event::Control(request) => self.control(request),
            Event::AbortBy(tool, done) => self.control(control::Request::end(self.jobs.started_by(&tool), done)),
            Event::Query(request) => request.answer(&self.jobs, self.until),
            Event::Signal(signal) => self.pass_on(signal),
            // Nobody was left for a moment, and then a job was started.
            Event::Childless if self.jobs.anybody_runs() => {
                if let Err(error) = self.watch() {
                    self.outcome.broken(format!("{error:#}"));
                }
            }
            Event::Childless => {
                self.has_children = false;
                self.next = None;
                self.streams.feeds.iter().for_each(OutputSender::end);
            }
            Event::Printed(result) => {
                self.printing -= 1;
                match result {
                    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                        self.outcome.broken(format!("cannot write the output of the ranks: {error}"));
                    }
                    _ => {}
                }
            }
            Event::Ended(_)
            | Event::Spawn(_)
            | Event::Stopped(..)
            | Event::ToolGone(_)
            | Event::Waits
            | Event::GuardianGone => {}
        }
    }

    /// Takes a child that has ended, unless its birth has failed and the starting thread has; its number may be
    /// another's from here on.
    fn take_child(&mut self, pid: Pid, pmix: &Pmix) {
        let stranger = self.streams.strangers.leaves(pid);
        if let Ok(Some((_, status))) = take_child(Some(pid.as_raw())) {
            if let (Some(stranger), Some(_)) = (stranger, status.code()) {
                self.streams.strangers.exited(stranger);
            }
            self.asked.remove(&pid);
            self.condemned.iter_mut().for_each(|(_, pids)| pids.retain(|condemned| *condemned != pid));
            self.ended(pid, End::of(status), pmix);
        }
        let _ = self.taken.send(());
    }

    fn ended(&mut self, pid: Pid, end: End, pmix: &Pmix) {
        let Some(ended) = self.jobs.ended(pid, end) else { return };
        if ended.is_initialised {
            pmix.left_without_a_word(&ended.proc, self.jobs.connected(ended.who.job));
        }
        if !ended.is_dismissed {
            self.outcome.ended(ended.who, ended.end, ended.is_initialised);
        }
        pmix.rank_ended(&ended.proc);
        self.streams.inputs.ended(&ended.proc);
        if let Some(number) = ended.last_of {
            self.job_over(number, pmix);
        }
    }

    /// Nobody of a job is left.
    fn job_over(&mut self, number: u32, pmix: &Pmix) {
        if let Some(live) = self.jobs.get(number) {
            pmix.job_ended(&live.job, live.status(), live.job.parent.as_ref().filter(|_| live.tells_parent));
        }
        self.limits.retain(|(_, limited)| *limited != number);
        if let Some(live) = self.jobs.forget(number) {
            pmix.forget(&live.job);
        }
    }

    fn pass_on(&mut self, signal: i32) {
        self.outcome.was_sent(signal);
        if let Ok(number) = Signal::try_from(signal) {
            let pids: Vec<Pid> = self.jobs.running().collect();
            self::signal(&pids, number);
        }
    }

    /// Returns whether the user asks for the end once more, so that now everything is killed.
    fn insists(&mut self, signal: i32) -> bool {
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

    /// The next stage, where what has happened asks for it.
    fn proceed(&mut self) {
        if !self.has_children {
            return;
        }
        let everyone_has_ended = !self.jobs.anybody_runs();
        match self.stage {
            Stage::Running if self.outcome.is_decided() => self.end(),
            Stage::Running if everyone_has_ended => {
                self.stage = Stage::LeftOver;
                self.next = Some(Instant::now() + LINGER);
            }
            Stage::Ending if everyone_has_ended => self.ask(),
            _ => {}
        }
    }

    fn time_passes(&mut self, now: Instant, pmix: &Pmix) {
        pmix.expire(now);
        while self.condemned.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, pids)) = self.condemned.pop_front() else { break };
            signal(&pids, Signal::SIGKILL);
        }
        for (_, number) in self.limits.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            let late = self.jobs.late(number);
            self.terminate(late);
        }
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        match self.stage {
            Stage::Running => self.outcome.timed_out(self.limit.unwrap_or_default()),
            Stage::LeftOver => self.end(),
            Stage::Ending | Stage::Killing => self.kill(),
        }
    }

    fn end(&mut self) {
        self.ask();
        self.stage = Stage::Ending;
        self.next = Some(Instant::now() + GRACE);
    }

    /// Asks each of the family to end, once.
    fn ask(&mut self) {
        // The second is for a process that is stopped and would not get the first.
        family::signal(&[Signal::SIGTERM, Signal::SIGCONT], |pid| self.asked.insert(pid));
    }

    fn kill(&mut self) {
        family::signal(&[Signal::SIGKILL], |_| true);
        self.stage = Stage::Killing;
        self.next = self.has_children.then(|| Instant::now() + ROUND);
    }
}

/// Sends a signal to the process groups of ranks that are not reaped yet: like a terminal, and like mpirun.
fn signal(ranks: &[Pid], signal: Signal) {
    for pid in ranks {
        // An error means that nobody is left in the group.
        let _ = killpg(*pid, signal);
    }
}
