//! The launcher: starts the ranks of a job, watches them, and decides when and how it ends.
//!
//! Everything that happens is an [`Event`] in one queue, and one loop acts on them. Who puts them there: the
//! [host](crate::host) (the PMIx server's thread), a thread that waits for children, one that reads the guardian's link, and the two
//! that forward output.
//!
//! A job goes through these stages, never back:
//! - **Running** until every rank has ended well, or the first thing goes wrong.
//! - **Ending**: something went wrong; the ranks, and everything that descends from them, were sent SIGTERM. When the
//!   ranks have ended, so is whatever they have started since.
//! - **Left over**: every rank has ended and other processes of theirs are still there. They have [`LINGER`] to end by
//!   themselves, then they are sent SIGTERM.
//! - **Killing**: [`GRACE`] after that SIGTERM, or at the user's second SIGINT, everything is sent SIGKILL, again and
//!   again until no child is left.
//!
//! When no child is left, nobody can write any more: output is forwarded to its end, and that is the job's end.
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{AccessFlags, Pid, access};

use crate::args::Launch;
use crate::environment::{self, Environment};
use crate::host::{Pmix, Topology};
use crate::job::{App, Job};
use crate::outcome::{End, Outcome, Who};
use crate::output::{Sink, Source};
use crate::session::Session;
use crate::{family, link, output, program, signals};

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// What processes that a rank left behind have to finish what they do, say to write the last of its output.
const LINGER: Duration = Duration::from_secs(1);
/// Between two rounds of SIGKILL: a process may have been born while the first was sent.
const ROUND: Duration = Duration::from_millis(50);

/// What the launcher holds of a rank: two streams, its connection and what tells of its end; and what it needs itself, at
/// least and with room for all that happens at the same time.
const DESCRIPTORS_PER_RANK: u64 = 4;
const DESCRIPTORS: u64 = 40;
const MORE_DESCRIPTORS: u64 = 100;

/// What happens to a job.
#[derive(Debug)]
pub enum Event {
    /// A rank has called Init.
    Initialised(u32),
    /// A rank has called Finalize.
    Finalized(u32),
    /// A rank asks for the job's end.
    Abort(u32, i32, String),
    /// A child has ended: a rank, or an orphan that we were given.
    Ended(Pid, End),
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
    // Not the guardian's name: whoever kills processes by name would kill both.
    nix::sys::prctl::set_name(c"inst-launcher")?;
    let topology = Topology::ask();
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
    spawn("guardian", move || {
        link::each_signal(from_guardian, |signal| drop(to_queue.send(Event::Signal(signal))));
        drop(to_queue.send(Event::GuardianGone));
    })?;

    let job = Job::new(arguments.run.apps(), session)?;
    let mut running = Running::new(&job, events, arguments.run.timeout);
    if let Some(programs) = running.find_programs() {
        job.session.create(job.size())?;
        let pmix = Pmix::start(&job, topology, arguments.run.path_socket, running.events.clone(), guardian)?;
        running.start(&programs, &pmix, arguments.run.tag_output)?;
        running.attend(&happening, &pmix);
        pmix.finish();
    }
    if let Some(line) = running.outcome.line() {
        eprintln!("instanton: {line}");
    }
    Ok(running.outcome.code())
}

/// A rank that was started.
#[derive(Debug, Default)]
struct Process {
    pid: Option<Pid>,
    has_ended: bool,
    /// Between Init and Finalize.
    is_initialised: bool,
}

enum Stage {
    Running,
    Ending,
    LeftOver,
    Killing,
}

struct Running<'a> {
    job: &'a Job,
    ranks: Vec<Process>,
    by_pid: HashMap<Pid, u32>,
    outcome: Outcome,
    events: Sender<Event>,
    stage: Stage,
    /// Who was sent SIGTERM because the job ends.
    asked: HashSet<Pid>,
    /// When the stage is over by itself.
    next: Option<Instant>,
    limit: Option<Duration>,
    /// How often the user has asked for the end.
    insisted: u32,
    /// Outputs that are not through yet, and what tells them that no more will come.
    printing: usize,
    more_to_print: Vec<io::PipeWriter>,
    has_children: bool,
}

impl<'a> Running<'a> {
    fn new(job: &'a Job, events: Sender<Event>, limit: Option<Duration>) -> Self {
        Self {
            job,
            ranks: (0..job.size()).map(|_| Process::default()).collect(),
            by_pid: HashMap::new(),
            outcome: Outcome::default(),
            events,
            stage: Stage::Running,
            asked: HashSet::new(),
            next: limit.and_then(|limit| Instant::now().checked_add(limit)),
            limit,
            insisted: 0,
            printing: 0,
            more_to_print: Vec::new(),
            has_children: false,
        }
    }

    fn who(&self, rank: u32) -> Who {
        let pid = self.ranks.get(rank as usize).and_then(|process| process.pid).map(Pid::as_raw);
        Who { rank, node: self.job.node.clone(), pid }
    }

    /// The file of each application's program; none when one is missing, so that not half a job is started.
    fn find_programs(&mut self) -> Option<Vec<PathBuf>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut found = Vec::new();
        for app in &self.job.apps {
            if let Err(error) = enterable(&app.wdir) {
                self.outcome.no_directory(self.who(app.first), &app.wdir, &error);
                return None;
            }
            let asked = app.spec.environment.iter().rev().find(|(name, _)| name == "PATH");
            let path = asked.and_then(|(_, value)| value.as_ref()).unwrap_or(&path);
            match program::find(&app.spec.program, &app.wdir, path) {
                Ok(file) => found.push(file),
                Err(error) => {
                    let program = app.spec.program.to_string_lossy();
                    self.outcome.not_started(self.who(app.first), &error, &program);
                    return None;
                }
            }
        }
        Some(found)
    }

    /// Starts every rank, or ends those that were when one cannot be, and whatever watches them.
    fn start(&mut self, programs: &[PathBuf], pmix: &Pmix, tag_output: bool) -> Result<()> {
        make_room(self.job.size())?;
        let ours: Environment = std::env::vars_os().collect();
        let mut sources = [Vec::new(), Vec::new()];
        for (rank, app) in self.job.ranks() {
            let mut environment = environment::of_rank(self.job, app, rank, &ours);
            pmix.set_up(rank, &mut environment)?;
            let program = &programs[app.number as usize];
            let mut child = match command(program, app, rank == 0, environment).spawn() {
                Ok(child) => child,
                Err(error) => {
                    self.outcome.not_started(self.who(rank), &error, &app.spec.program.to_string_lossy());
                    break;
                }
            };
            let pid = Pid::from_raw(child.id() as i32);
            self.ranks[rank as usize].pid = Some(pid);
            self.by_pid.insert(pid, rank);
            let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
            for ((pipe, sources), name) in pipes.into_iter().zip(&mut sources).zip(["stdout", "stderr"]) {
                let tag = if tag_output { format!("[{rank}]<{name}>: ") } else { String::new() };
                sources.push(Source::new(pipe.context("a rank without output")?, tag)?);
            }
        }
        for (mut sources, sink) in sources.into_iter().zip(Sink::standard()?) {
            let (finish, more) = io::pipe()?;
            let events = self.events.clone();
            spawn("output", move || {
                // Before the ranks learn that nobody reads them, and die of it.
                drop(events.send(Event::Printed(output::forward(&mut sources, sink, finish))));
            })?;
            self.printing += 1;
            self.more_to_print.push(more);
        }
        let events = self.events.clone();
        self.has_children = true;
        spawn("children", move || wait_for_children(&events))
    }

    /// Acts on what happens until nothing more can.
    fn attend(&mut self, happening: &Receiver<Event>, pmix: &Pmix) {
        self.proceed();
        while self.has_children || self.printing > 0 {
            let event = match self.next {
                None => happening.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(next) => happening.recv_timeout(next.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Ended(pid, end)) => self.ended(pid, end, pmix),
                Ok(Event::GuardianGone) => {
                    self.outcome.guardian_gone();
                    return family::end();
                }
                // Nobody is left to kill: it is the reader of our output that keeps us waiting.
                Ok(Event::Signal(signal)) if self.insists(signal) && !self.has_children => return,
                Ok(event) => self.act(event),
                Err(RecvTimeoutError::Timeout) => self.time_is_over(),
                // We hold a sender ourselves.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.proceed();
        }
    }

    fn act(&mut self, event: Event) {
        match event {
            Event::Initialised(rank) => self.set_initialised(rank, true),
            Event::Finalized(rank) => self.set_initialised(rank, false),
            Event::Abort(rank, status, message) => self.outcome.aborted(self.who(rank), status, message),
            Event::Signal(signal) => self.pass_on(signal),
            Event::Childless => {
                self.has_children = false;
                self.next = None;
                // Output is read to its end and no further: somebody else may hold the pipes for ever.
                self.more_to_print.clear();
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
            Event::Ended(..) | Event::GuardianGone => {}
        }
    }

    fn set_initialised(&mut self, rank: u32, is: bool) {
        if let Some(process) = self.ranks.get_mut(rank as usize) {
            process.is_initialised = is;
        }
    }

    fn ended(&mut self, pid: Pid, end: End, pmix: &Pmix) {
        let Some(rank) = self.by_pid.remove(&pid) else { return };
        let process = &mut self.ranks[rank as usize];
        process.has_ended = true;
        let is_initialised = process.is_initialised;
        self.outcome.ended(self.who(rank), end, is_initialised);
        pmix.rank_ended(rank);
    }

    fn pass_on(&mut self, signal: i32) {
        self.outcome.was_sent(signal);
        if let Ok(signal) = Signal::try_from(signal) {
            self.signal_ranks(signal);
        }
    }

    /// To the process groups of the ranks: like a terminal, and like mpirun.
    fn signal_ranks(&self, signal: Signal) {
        for process in self.ranks.iter().filter(|process| !process.has_ended) {
            if let Some(pid) = process.pid {
                // An error means that nobody is left in the group.
                let _ = killpg(pid, signal);
            }
        }
    }

    /// Whether the user asks for the end once more, so that now everything is killed.
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
        let everyone_has_ended = self.by_pid.is_empty();
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

    fn time_is_over(&mut self) {
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
        for pid in family::members() {
            if self.asked.insert(pid) {
                // The second for who is stopped and would not hear the first. An error means that it has just ended.
                let _ = kill(pid, Signal::SIGTERM).and_then(|()| kill(pid, Signal::SIGCONT));
            }
        }
    }

    fn kill(&mut self) {
        family::signal(Signal::SIGKILL);
        self.stage = Stage::Killing;
        self.next = self.has_children.then(|| Instant::now() + ROUND);
    }
}

/// Makes sure that we may hold the descriptors of so many ranks; only then, because the ranks inherit the limit.
fn make_room(ranks: u32) -> Result<()> {
    let of_ranks = u64::from(ranks) * DESCRIPTORS_PER_RANK;
    let (needed, wanted) = (of_ranks + DESCRIPTORS, of_ranks + MORE_DESCRIPTORS);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_ok() {
        return Ok(());
    }
    if hard < needed {
        bail!("{ranks} ranks need {needed} descriptors and no more than {hard} are allowed");
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of descriptors")
}

/// Whether a process can be started there.
fn enterable(directory: &Path) -> io::Result<()> {
    access(directory, AccessFlags::X_OK)?;
    if directory.is_dir() { Ok(()) } else { Err(Errno::ENOTDIR.into()) }
}

fn command(program: &Path, app: &App, reads_input: bool, environment: Environment) -> Command {
    let mut command = Command::new(program);
    command
        .arg0(&app.spec.program)
        .args(&app.spec.arguments)
        .env_clear()
        .envs(environment)
        .current_dir(&app.wdir)
        .stdin(if reads_input { Stdio::inherit() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

/// Tells of every child that ends, until there is none.
fn wait_for_children(events: &Sender<Event>) {
    loop {
        let event = match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) => Event::Ended(pid, End::Code(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) => Event::Ended(pid, End::Signal(signal as i32)),
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(_) => Event::Childless,
        };
        let was_last = matches!(event, Event::Childless);
        if events.send(event).is_err() || was_last {
            return;
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.into()).spawn(body).context("cannot start a thread")?;
    Ok(())
}
