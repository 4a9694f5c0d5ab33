//! A run: its jobs, and the loop that acts on what happens to them and decides when and how it all ends.
//!
//! Either all of a job starts, or what was started of it is [ended](super::ending) again. A job that
//! [fails](super::failures) ends with those that are tied to it.
//!
//! A run goes through its [stages](super::stage) with all its [jobs](crate::jobs) together; it lasts as long as any of them.
//!
//! When no child is left, nobody can write any more: output is forwarded to its end, and that is the job's end.
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Result;
use instanton::data::Proc;
use instanton::launch::{Lacks, TimeLimits, programs};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::caller::Caller;
use super::explain;
use super::groups::signal;
use super::hang::{Hang, limit_over};
use super::pace::{Pace, Rests};
use super::stage::{LINGER, READING, Stage};
use super::start::Starter;
use crate::allocation::Allocations;
use crate::args::Run;
use crate::control::Condemned;
use crate::event::{Event, Question};
use crate::job::{Job, StreamOptions};
use crate::jobs::{Jobs, Restart};
use crate::library::Libraries;
use crate::outcome::Outcome;
use crate::output::{OutputReceiver, OutputSender, Sink};
use crate::record::Record;
use crate::server::Pmix;
use crate::steering::Steering;
use crate::strangers::Stranger;
use crate::streams::Streams;
use crate::threads::start_thread;
use crate::ties::Tells;
use crate::{children, control, family, output, spawn};

pub(super) struct Running {
    pub(super) jobs: Jobs,
    pub(super) allocations: Allocations,
    pub(super) outcome: Outcome,
    pub(super) events: Sender<Event>,
    /// Tells the thread that waits for children that the ended one is reaped.
    pub(super) taken: Sender<()>,
    pub(super) stage: Stage,
    /// Processes that were sent SIGTERM because the run ends.
    pub(super) asked: HashSet<Pid>,
    /// Processes that were sent SIGTERM because a rank wanted that.
    pub(super) condemned: VecDeque<Condemned>,
    /// Jobs whose time is limited, and when it is over.
    pub(super) limits: Vec<(Instant, u32)>,
    /// Spawn requests that wait for their turn.
    pub(super) spawns: Pace<spawn::Request>,
    /// Questions that do.
    pub(super) questions: Pace<Question>,
    /// Time at which the stage is over by itself.
    pub(super) next: Option<Instant>,
    /// The user's limit, and when it is reached.
    limit: Option<Duration>,
    pub(super) until: Option<Instant>,
    /// Number of times that the user has asked for the end.
    pub(super) insisted: u32,
    /// Number of outputs that are not through yet.
    pub(super) printing: usize,
    /// Time at which output that nobody reads is given up, once nobody is left to write any; and true from then on.
    pub(super) reading: Option<Instant>,
    pub(super) is_unread: bool,
    pub(super) streams: Streams,
    pub(super) starter: Starter,
    pub(super) has_children: bool,
    /// Processes that are to be started anew.
    pub(super) restarts: Vec<Restart>,
    /// True if nobody is left but those that are to be started anew.
    pub(super) is_waiting: bool,
    /// The signal that has ended the run, if one has.
    pub(super) ended_by: Option<i32>,
    /// True if failures of other jobs than the first leave the exit status as it is.
    pub(super) reports_separately: bool,
    /// True if it lasts without jobs, until it is told to end.
    pub(super) is_up: bool,
    /// Callers by the numbers of their jobs.
    pub(super) callers: BTreeMap<u32, Caller>,
    /// Ranks that have exited, may be strangers, and are heard out.
    pub(super) leaving_strangers: HashMap<Proc, Stranger>,
    /// Time at which callers that do not read their output are left to themselves.
    pub(super) parting: Option<Instant>,
    /// Number of jobs that are over and that the server has not forgotten yet.
    pub(super) leaving: usize,
    /// Clean-ups of ranks.
    pub(super) record: Arc<Record>,
    pub(super) hang: Hang,
    /// The way to the tool that steers the run, and its time limits for the first job.
    pub(super) steering: Option<Steering>,
    pub(super) steered_limits: TimeLimits,
    /// The start of the first job, which waits for a tool's word.
    pub(super) held: Option<FirstStart>,
}

/// Things that the start of the first job needs.
pub(super) struct FirstStart {
    pub(super) programs: Vec<PathBuf>,
    /// Time that it may take.
    pub(super) limit: Option<Duration>,
    /// File for the process table.
    pub(super) table: Option<PathBuf>,
}

impl Running {
    /// Creates a run of one job whose ranks are not started.
    pub(super) fn new(
        job: Job,
        events: Sender<Event>,
        run: &Run,
        streams: Streams,
        options: StreamOptions,
        record: Arc<Record>,
        ends: Arc<OnceLock<()>>,
    ) -> Self {
        let limit = run.general.timeout;
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut jobs = Jobs::default();
        jobs.add(job, Tells::default());
        Self {
            jobs,
            allocations: Allocations::default(),
            outcome: Outcome::default(),
            events,
            taken: mpsc::channel().0,
            stage: Stage::Running,
            asked: HashSet::new(),
            condemned: VecDeque::new(),
            limits: Vec::new(),
            spawns: Pace::new(Rests::OF_SPAWNS),
            questions: Pace::new(Rests::OF_QUESTIONS),
            next: until,
            limit,
            until,
            insisted: 0,
            printing: 0,
            reading: None,
            is_unread: false,
            starter: Starter {
                streams: streams.clone(),
                options,
                gives_terminals: run.output.gives_terminals(&io::stdout()),
                libraries: Arc::new(Libraries::new(run.start.library, run.start.verbose)),
                environment: None,
                input: None,
                pmi: run.start.pmi,
                steerer: None,
                ends,
            },
            streams,
            has_children: false,
            restarts: Vec::new(),
            is_waiting: false,
            ended_by: None,
            reports_separately: run.survival.reports_separately(),
            is_up: false,
            callers: BTreeMap::new(),
            leaving_strangers: HashMap::new(),
            parting: None,
            leaving: 0,
            record,
            hang: Hang::new(&run.general),
            steering: None,
            steered_limits: TimeLimits::default(),
            held: None,
        }
    }

    /// The file of each application's program; none when one is missing.
    pub(super) fn find_programs(&mut self) -> Option<Vec<PathBuf>> {
        let job = self.jobs.first();
        match programs(&job.apps) {
            Ok(found) => return Some(found),
            Err((app, lacks)) => {
                let why = match lacks {
                    Lacks::Directory(error) => explain::directory(app, &error),
                    Lacks::Program(error) => explain::program(app, None, &error),
                };
                self.outcome.not_started(self.jobs.who(job.number, app.first), why);
            }
        }
        None
    }

    /// Starts the first job, or ends what was started of it when a rank cannot be, and whatever watches it.
    pub(super) fn start_first(&mut self, start: FirstStart, pmix: &Pmix) -> Result<()> {
        let FirstStart { programs, limit, table } = start;
        let first = self.jobs.first().number;
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        if let Err((rank, error)) = self.starter.start(&mut self.jobs, first, &programs, until, pmix) {
            let error = error.downcast::<io::Error>()?;
            if self.starter.ends.get().is_some() {
                // The signal that says so is among the events.
                return self.watch();
            }
            if let Some(limit) = limit.filter(|_| error.kind() == io::ErrorKind::TimedOut) {
                self.outcome.start_timed_out(limit);
                return self.watch();
            }
            let app = self.jobs.first().ranks().find_map(|(other, app)| (other == rank).then_some(app));
            if let Some(app) = app {
                let why = explain::program(app, Some(&programs[app.number as usize]), &error);
                self.outcome.not_started(self.jobs.who(first, rank), why);
            }
        } else {
            self.all_started(first, table.as_deref(), pmix)?;
        }
        self.watch()
    }

    /// Begins to forward output.
    pub(super) fn print(&mut self, feds: [OutputReceiver; 2]) -> Result<()> {
        for (fed, sink) in feds.into_iter().zip(Sink::standard()?) {
            forward(self.events.clone(), fed, sink, None)?;
            self.printing += 1;
        }
        Ok(())
    }

    /// Returns whether it goes on whoever ends.
    pub(super) fn stays(&self) -> bool {
        self.is_up && self.stage == Stage::Running
    }

    /// Has somebody wait for the children there are.
    fn watch(&mut self) -> Result<()> {
        let events = self.events.clone();
        let (taken, awaits_taken) = mpsc::channel();
        (self.has_children, self.taken) = (true, taken);
        start_thread("children", move || children::watch(&events, &awaits_taken))
    }

    /// Has somebody wait for children after there were none for a moment.
    pub(super) fn watch_again(&mut self) {
        self.is_waiting = false;
        if let Err(error) = self.watch() {
            self.outcome.broken(format!("{error:#}"));
        }
    }

    /// Acts on what happens until nothing more can.
    pub(super) fn attend(&mut self, happening: &Receiver<Event>, pmix: &Pmix) {
        self.proceed(pmix);
        while self.has_children || self.is_printing() || self.stays() || !self.callers.is_empty() {
            let condemned = self.condemned.front().map(|condemned| condemned.at);
            let limit = self.limits.iter().map(|(at, _)| *at).min();
            let restart = self.restarts.iter().map(|restart| restart.at).min();
            let callers = self.callers.values().filter_map(|caller| caller.next).min();
            let hangs = self.callers.values().map(|caller| &caller.hang).chain([&self.hang]);
            let hang = hangs.filter_map(|hang| hang.due).map(|(at, _)| at).min();
            let times = [
                self.next,
                self.reading,
                condemned,
                limit,
                restart,
                hang,
                pmix.deadline(),
                callers,
                self.parting,
                self.spawns.next(),
                self.questions.next(),
            ];
            let event = match times.into_iter().flatten().min() {
                None => happening.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(next) => happening.recv_timeout(next.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Ended(pid)) => self.take_child(pid, pmix),
                Ok(Event::HeardOut(proc)) => self.ended(&proc, pmix),
                Ok(Event::GuardianGone) => {
                    self.outcome.guardian_gone();
                    return family::end();
                }
                // Nobody is left to kill: it is the reader of our output that keeps us waiting.
                Ok(Event::Signal(signal)) if self.insists(signal) && !self.has_children => return,
                Ok(Event::Spawn(request)) => self.spawn(request, pmix),
                Ok(Event::Question(question)) => self.question(question, pmix),
                Ok(Event::Finalized(proc)) => self.finalized(&proc, pmix),
                Ok(Event::Begin) => self.start_held(pmix),
                Ok(Event::Released(_)) if self.held.is_some() => self.start_held(pmix),
                Ok(Event::SteererGone) => self.steerer_gone(),
                Ok(Event::Abort(abort)) => self.abort(abort, pmix),
                Ok(Event::Stopped(proc, place)) => self.stopped(&proc, place, pmix),
                Ok(Event::ToolGone(tool, leave)) => self.tool_gone(&tool, leave, pmix),
                Ok(Event::Visit(visit)) => self.visit(visit, pmix),
                Ok(Event::CallerSignal(id, signal)) => self.caller_signals(id, signal, pmix),
                Ok(Event::CallerGone(id)) => self.caller_gone(id, pmix),
                Ok(Event::Signal(signal)) => {
                    self.heed(None, signal, pmix);
                    self.pass_on(signal);
                }
                Ok(event) => self.act(event),
                Err(RecvTimeoutError::Timeout) => self.time_passes(Instant::now(), pmix),
                // We hold a sender ourselves.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.proceed(pmix);
        }
    }

    fn act(&mut self, event: Event) {
        match event {
            Event::Initialised(proc) => {
                if let Some(pid) = self.jobs.set_initialised(&proc, true) {
                    self.strangers(self.jobs.root_of(pid)).attached(pid);
                }
            }
            Event::ToolCame(pid) => self.strangers(self.jobs.root_of(pid)).attached(pid),
            Event::Connected(procs) => self.jobs.connect(procs),
            Event::Disconnected(procs) => self.jobs.disconnect(&procs),
            Event::Control(request) => self.control(request),
            Event::AbortBy(tool, done) => self.control(control::Request::end(self.jobs.started_by(&tool), done)),
            Event::Released(named) => self.let_go(named.as_deref()),
            // Nobody was left for a moment, and then a job was started.
            Event::Childless if self.jobs.anybody_runs() => self.watch_again(),
            Event::Childless => (self.has_children, self.is_waiting) = (false, true),
            Event::Printed(result) => {
                self.printing -= 1;
                match result {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.outcome.unread(),
                    Err(error) => self.outcome.broken(format!("cannot write the output of the ranks: {error}")),
                }
            }
            Event::CallerPrinted(id, result) => self.caller_printed(id, result),
            Event::FileLost(caller, line) => self.file_lost(caller, &line),
            Event::Forgotten => self.leaving -= 1,
            Event::Ended(_)
            | Event::Finalized(_)
            | Event::HeardOut(_)
            | Event::Visit(_)
            | Event::CallerSignal(..)
            | Event::CallerGone(_)
            | Event::Spawn(_)
            | Event::Question(_)
            | Event::Abort(_)
            | Event::Stopped(..)
            | Event::Signal(_)
            | Event::ToolGone(..)
            | Event::Waits
            | Event::Begin
            | Event::SteererGone
            | Event::GuardianGone => {}
        }
    }

    /// A file takes no more output of its rank. That is told once, and counts as a failure.
    fn file_lost(&mut self, caller: Option<u64>, line: &str) {
        let root = caller.map_or(Some(1), |id| self.by_id(id));
        if let Some(root) = root.filter(|root| self.outcome_of(*root).is_first_file_lost()) {
            self.tell(root, &format!("{line}; the ranks go on"));
        }
    }

    /// The next stage, where what has happened asks for it.
    fn proceed(&mut self, pmix: &Pmix) {
        let is_ending = self.outcome.is_decided() || self.insisted > 0 || !matches!(self.stage, Stage::Running);
        if is_ending && !self.restarts.is_empty() {
            self.restarts.clear();
            let all: Vec<u32> = self.jobs.all().map(|live| live.job.number).collect();
            all.into_iter().for_each(|number| self.give_up(number, pmix));
        }
        self.callers_proceed(pmix);
        if self.outcome.is_decided() {
            self.give_up_held();
        }
        if self.is_waiting && !self.jobs.anybody_is_awaited() && !self.stays() {
            self.is_waiting = false;
            self.next = None;
            self.reading = if self.is_told_to_end() { Some(Instant::now() + READING) } else { self.until };
            self.streams.feeds.iter().for_each(OutputSender::end);
        }
        if !self.has_children {
            return if self.is_up && self.outcome.is_decided() {
                self.leave()
            };
        }
        let everyone_has_ended = !self.jobs.anybody_runs() && !self.jobs.anybody_is_awaited();
        match self.stage {
            Stage::Running if self.outcome.is_decided() => self.leave(),
            Stage::Running if everyone_has_ended && !self.is_up => {
                self.stage = Stage::LeftOver;
                self.next = Some(Instant::now() + LINGER);
            }
            Stage::Ending if everyone_has_ended => self.ask(),
            _ => {}
        }
        if everyone_has_ended && !self.stays() {
            pmix.end_nodes();
        }
    }

    /// Returns the time that a reader has for the last lines of our own: no end of it, where nobody has ended the run.
    pub(super) fn reading_of_lines(&self) -> Option<Duration> {
        match self.is_unread {
            true => Some(Duration::ZERO),
            false => self.is_told_to_end().then_some(READING),
        }
    }

    /// Returns whether output of ranks is on its way to somebody.
    fn is_printing(&self) -> bool {
        self.printing > 0 && !self.is_unread
    }

    fn time_passes(&mut self, now: Instant, pmix: &Pmix) {
        pmix.expire(now);
        self.restart(now, pmix);
        self.spawn_what_is_due(now, pmix);
        self.answer_what_is_due(now, pmix);
        self.explain_what_is_due(now, pmix);
        while self.condemned.front().is_some_and(|condemned| condemned.at <= now) {
            let Some(condemned) = self.condemned.pop_front() else { break };
            signal(&condemned.pids, Signal::SIGKILL);
        }
        self.callers_wait_no_more(now, pmix);
        for (_, number) in self.limits.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            let late = self.jobs.late(number);
            let of_run = self.steered_limits.run.filter(|_| number == self.jobs.first().number && !late.is_empty());
            if let Some(limit) = of_run {
                self.explain(None, pmix, &limit_over(limit));
                self.outcome.timed_out(limit);
            }
            self.terminate(late);
        }
        if self.reading.is_some_and(|end| end <= now) {
            (self.reading, self.is_unread) = (None, true);
            if let Some(limit) = self.limit.filter(|_| self.until.is_some_and(|until| until <= now)) {
                self.outcome.timed_out(limit);
            }
        }
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        match self.stage {
            Stage::Running => {
                let limit = self.limit.unwrap_or_default();
                self.explain(None, pmix, &limit_over(limit));
                self.outcome.timed_out(limit);
            }
            Stage::LeftOver => self.end(),
            Stage::Ending | Stage::Killing => {
                if let Some(signal) = self.ended_by {
                    self.outcome.outlasted(signal);
                }
                self.kill();
            }
            Stage::Printing => {}
        }
    }
}

/// Forwards an output in a thread, our own or that of the caller with a number, which says by events when that is over,
/// and when a file takes no more.
pub(super) fn forward(events: Sender<Event>, fed: OutputReceiver, sink: Sink, caller: Option<u64>) -> Result<()> {
    start_thread("output", move || {
        let (mut sources, mut fed) = (Vec::new(), fed);
        let lost = |line| drop(events.send(Event::FileLost(caller, line)));
        let result = output::forward(&mut sources, sink, &mut fed, lost);
        // Before the ranks learn that nobody reads them, and die of it.
        drop(events.send(match caller {
            Some(id) => Event::CallerPrinted(id, result),
            None => Event::Printed(result),
        }));
    })
}
