//! The launcher: starts the processes of a job, and of the jobs that those spawn, watches them, and decides when and
//! how it all ends.
//!
//! Everything that happens is an [`Event`] in one queue, and one loop acts on them. Their sources are the
//! [host](crate::host) (the PMIx server's thread), a thread that waits for [children](crate::children), one that reads the
//! guardian's link, and the two that forward output.
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
mod start;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use instanton::data::{Info, Proc, Status};
use instanton::internal::message::lines::LineFormat;
use instanton::internal::sys::process::take_child;
use instanton::server::Completion;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::args::Launch;
use crate::control::Action;
use crate::host::{Pmix, Topology};
use crate::input::Inputs;
use crate::job::{Job, Tags};
use crate::jobs::Jobs;
use crate::outcome::{End, Outcome};
use crate::output::{OutputReceiver, OutputSender, Sink};
use crate::pulls::Streams;
use crate::session::Session;
use crate::{children, control, family, link, output, query, signals, spawn};

/// Time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// Time for processes that a rank left behind to finish, say to write the last of its output.
const LINGER: Duration = Duration::from_secs(1);
/// Between two rounds of SIGKILL: a process may have been born while the first was sent.
const ROUND: Duration = Duration::from_millis(50);

/// Event of a run.
#[derive(Debug)]
pub enum Event {
    /// A rank has called Init.
    Initialised(Proc),
    /// A rank has called Finalize.
    Finalized(Proc),
    /// A rank waits for a debugger, at that place.
    Stopped(Proc, Option<Info>),
    /// A tool is gone.
    ToolGone(Proc),
    /// A rank asks for the end of everything.
    Abort(Proc, i32, String),
    /// A rank spawns another job.
    Spawn(spawn::Request),
    /// A rank asks that something be done to processes.
    Control(control::Request),
    /// A tool asks for the end of the jobs that it has started.
    AbortBy(Proc, Completion<()>),
    /// A rank asks how things are.
    Query(query::Request),
    /// A look-up of published data waits.
    Waits,
    /// A child has ended, which is still to be taken: a rank, or an orphan that we were given.
    Ended(Pid),
    /// No child is left.
    Childless,
    /// The user has sent a signal.
    Signal(i32),
    /// The guardian has died.
    GuardianGone,
    /// One of our outputs is through, or broken.
    Printed(io::Result<()>),
}

/// Runs the job that the guardian was asked for. Returns the status to exit with.
pub fn run(arguments: Launch) -> Result<u8> {
    signals::give_back()?;
    // Not the guardian's name: a kill by name would end both.
    nix::sys::prctl::set_name(c"inst-launcher")?;
    let topology = Topology::ask(arguments.run.bind_to);
    let session = Session::named(arguments.session.clone());
    let guardian = link::connect(&arguments.guardian)?;
    let outcome = launch(arguments, topology, session.clone(), guardian);
    family::end();
    // The guardian removes it if it is there to do so.
    let removed = session.remove();
    let code = outcome?;
    removed.context("cannot remove the session directory")?;
    Ok(code)
}

fn launch(arguments: Launch, topology: Topology, session: Session, guardian: UnixStream) -> Result<u8> {
    family::adopt_orphans().context("cannot become a subreaper")?;
    let (events, happening) = mpsc::channel();
    let (to_queue, from_guardian) = (events.clone(), guardian.try_clone()?);
    start_thread("guardian", move || {
        link::each_signal(from_guardian, |signal| drop(to_queue.send(Event::Signal(signal))));
        drop(to_queue.send(Event::GuardianGone));
    })?;

    let job = Job::new(arguments.run.apps(), session)?;
    start::make_room(job.size())?;
    let ((out, fed_out), (err, fed_err)) = (output::feed()?, output::feed()?);
    let streams = Streams { feeds: [out, err], pulls: Arc::default(), inputs: Inputs::new()? };
    let mut running = Running::new(job, events, &arguments, streams);
    if let Some(programs) = running.find_programs() {
        let job = running.jobs.first();
        job.session.create()?;
        job.session.create_job(job.number, job.size())?;
        let (events, streams) = (running.events.clone(), running.streams.clone());
        let pmix = Pmix::start(job, topology, arguments.run.path_socket, events, guardian, streams)?;
        pmix.register(job, &[]).map_err(|status| anyhow!("the PMIx server refuses the job: {status}"))?;
        running.print([fed_out, fed_err])?;
        running.start_first(&programs, &pmix)?;
        running.attend(&happening, &pmix);
        pmix.finish();
    }
    if let Some(line) = running.outcome.line() {
        eprintln!("instanton: {line}");
    }
    Ok(running.outcome.code())
}

enum Stage {
    Running,
    Ending,
    LeftOver,
    Killing,
}

struct Running {
    jobs: Jobs,
    outcome: Outcome,
    events: Sender<Event>,
    /// Tells the thread that waits for children that the ended one is reaped.
    taken: Sender<()>,
    stage: Stage,
    /// Processes that were sent SIGTERM because the run ends.
    asked: HashSet<Pid>,
    /// Processes that were sent SIGTERM because a rank wanted that, and the time at which they are killed.
    condemned: VecDeque<(Instant, Vec<Pid>)>,
    /// Jobs whose time is limited, and when it is over.
    limits: Vec<(Instant, u32)>,
    /// When the stage is over by itself.
    next: Option<Instant>,
    /// The user's limit, and when it is reached.
    limit: Option<Duration>,
    until: Option<Instant>,
    /// Number of times that the user has asked for the end.
    insisted: u32,
    /// Tags in front of lines of output where a job does not say more.
    tags: Tags,
    format: LineFormat,
    /// Outputs that are not through yet, and what tells them of more.
    printing: usize,
    streams: Streams,
    has_children: bool,
}

impl Running {
    fn new(job: Job, events: Sender<Event>, arguments: &Launch, streams: Streams) -> Self {
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
            tags: if arguments.run.tag_output { Tags::Short } else { Tags::None },
            format: LineFormat { stamps: arguments.run.timestamp_output, is_xml: arguments.run.xml },
            printing: 0,
            streams,
            has_children: false,
        }
    }

    /// Begins to forward output.
    fn print(&mut self, feds: [OutputReceiver; 2]) -> Result<()> {
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
    fn attend(&mut self, happening: &Receiver<Event>, pmix: &Pmix) {
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
            Event::Initialised(proc) => self.jobs.set_initialised(&proc, true),
            Event::Finalized(proc) => self.jobs.set_initialised(&proc, false),
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
        if let Ok(Some((_, status))) = take_child(Some(pid.as_raw())) {
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

/// Starts a thread.
pub fn start_thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}
