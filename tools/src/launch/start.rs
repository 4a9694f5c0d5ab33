//! Starting the ranks of a job: their environment, their streams and their descriptors.
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use instanton::data::{Channels, Proc, Rank};
use instanton::internal::sys::exec_stop;
use instanton::internal::sys::spawn::Spawn;
use instanton::launch::{App, programs};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

use super::{explain, variables};
use crate::binding;
use crate::environment::{self, Environment};
use crate::job::{Job, StreamOptions};
use crate::jobs::Jobs;
use crate::library::Libraries;
use crate::linked::Program;
use crate::output::{LineStyle, Source};
use crate::pty;
use crate::pulls::PulledStream;
use crate::server::Pmix;
use crate::speech::{Choice, Speech};
use crate::streams::Streams;
use crate::threads::start_thread;

/// Descriptors that the launcher holds of a rank: three streams, its connection and its pidfd; of a further job, whose
/// caller has streams of its own; and those that it needs itself, at least and with room for all that happens at the
/// same time.
const DESCRIPTORS_PER_RANK: u64 = 5;
const DESCRIPTORS_PER_NODE: u64 = 4;
const DESCRIPTORS_PER_JOB: u64 = 12;
const DESCRIPTORS: u64 = 40;
const MORE_DESCRIPTORS: u64 = 100;

/// The streams that we forward.
const STREAMS: [(&str, Channels); 2] = [("stdout", Channels::STDOUT), ("stderr", Channels::STDERR)];

/// Starts the ranks of a run, or of a caller.
#[derive(Clone)]
pub(super) struct Starter {
    pub(super) streams: Streams,
    /// Form and place of the output of every job, as far as that says nothing else.
    pub(super) options: StreamOptions,
    /// True if each rank of the first job has a terminal as its standard output.
    pub(super) gives_terminals: bool,
    pub(super) libraries: Arc<Libraries>,
    /// The environment that ranks have besides; our own where there is none.
    pub(super) environment: Option<Arc<Environment>>,
    /// The input that a rank reads; our own where there is none.
    pub(super) input: Option<Arc<File>>,
    /// The user's word on how ranks speak.
    pub(super) pmi: Option<Choice>,
    /// The tool that steers the run, and prints what it wants of the jobs that it spawns.
    pub(super) steerer: Option<Proc>,
    /// Set once the launcher is to end, which a start of many ranks does not put off.
    pub(super) ends: Arc<OnceLock<()>>,
}

impl Starter {
    /// Starts every rank of a job, up to the first that cannot be, or not any more, and says which that is. The error
    /// is `Interrupted` where the launcher is to end.
    pub(super) fn start(
        &self,
        jobs: &mut Jobs,
        number: u32,
        programs: &[PathBuf],
        until: Option<Instant>,
        pmix: &Pmix,
    ) -> Result<(), (u32, anyhow::Error)> {
        make_room(jobs.size(), jobs.first().nodes.len(), jobs.all().count()).map_err(|error| (0, error))?;
        make_room_beside_others(jobs.get(number).map_or(0, |live| live.job.size()));
        let ours = self.ours();
        jobs.found(number, programs);
        let Some(live) = jobs.get(number) else { return Ok(()) };
        let mut born = Vec::new();
        let mut result = Ok(());
        for (rank, app) in live.job.ranks() {
            let is_late = until.is_some_and(|until| until <= Instant::now());
            let cut = is_late.then_some(io::ErrorKind::TimedOut);
            if let Some(cut) = self.ends.get().map(|()| io::ErrorKind::Interrupted).or(cut) {
                result = Err((rank, io::Error::from(cut).into()));
                break;
            }
            match self.birth(&live.job, app, rank, &programs[app.number as usize], &ours, pmix) {
                Ok(pid) => born.push((rank, pid)),
                Err(error) => {
                    result = Err((rank, error));
                    break;
                }
            }
        }
        for (rank, pid) in born {
            jobs.started(number, rank, pid);
        }
        result
    }

    /// Starts a rank anew.
    pub(super) fn restart(&self, jobs: &mut Jobs, number: u32, rank: u32, pmix: &Pmix) -> Result<()> {
        let Some(live) = jobs.get(number) else { return Ok(()) };
        let app = live.job.ranks().find_map(|(other, app)| (other == rank).then_some(app)).context("no such rank")?;
        let found = programs(&live.job.apps);
        let found = found.map_err(|(app, _)| anyhow!("{} is gone", app.spec.program.to_string_lossy()))?;
        pmix.inform(&live.job).map_err(|status| anyhow!("the PMIx server refuses the job: {status}"))?;
        make_room_beside_others(1);
        let ours = self.ours();
        let pid = self.birth(&live.job, app, rank, &found[app.number as usize], &ours, pmix)?;
        jobs.started(number, rank, pid);
        Ok(())
    }

    /// Begins to find out what the programs of a job are linked with, while other things are made ready.
    pub(super) fn look_ahead(&self, job: &Job, programs: &[PathBuf]) {
        let (ours, libraries) = (self.ours(), self.libraries.clone());
        let described = job.apps.iter().zip(programs).map(|(app, program)| {
            let asked = environment::of_app(app, &ours);
            Program::new(program, &app.wdir, &asked)
        });
        let described: Vec<_> = described.collect();
        // Where there is no thread for it, the first rank of each waits for the answer.
        let _ = start_thread("libraries", move || described.iter().for_each(|program| drop(libraries.listed(program))));
    }

    /// Returns whether all programs of a job will speak PMI, as far as that shows at once.
    pub(super) fn surely_speaks_pmi(&self, job: &Job, programs: &[PathBuf]) -> bool {
        let ours = self.ours();
        let is_so = |(app, program): (&App, &PathBuf)| {
            let asked = environment::of_app(app, &ours);
            Speech::is_surely_pmi(&app.wdir.join(program), self.pmi, &asked)
        };
        !job.apps.is_empty() && job.apps.iter().zip(programs).all(is_so)
    }

    fn ours(&self) -> Arc<Environment> {
        self.environment.clone().unwrap_or_else(|| Arc::new(std::env::vars_os().collect()))
    }

    fn birth(&self, job: &Job, app: &App, rank: u32, program: &Path, ours: &Environment, pmix: &Pmix) -> Result<Pid> {
        let _span = tracing::debug_span!(target: "run", "birth", of = %job.proc(rank)).entered();
        let asked = environment::of_app(app, ours);
        let speech = {
            let program = Program::new(program, &app.wdir, &asked);
            Speech::of(&program, self.pmi, job.speaks_pmi, &self.libraries, &asked)
        };
        let mut environment = variables::of_rank(job, rank, speech, asked);
        pmix.set_up(job, rank, &mut environment)
            .map_err(|status| anyhow!(explain::no_environment(job.node_name(rank), rank, status)))?;
        let wants = job.wants.over(&self.options);
        let input: OwnedFd = match job.starter() {
            None if wants.input == Some(Rank(rank)) => match &self.input {
                Some(input) => input.try_clone()?.into(),
                None => io::stdin().as_fd().try_clone_to_owned()?,
            },
            None if wants.has_input(rank) => self.streams.copies.add()?.into(),
            Some(parent) if wants.has_input(rank) => {
                let (reader, writer) = io::pipe()?;
                self.streams.inputs.add(job.proc(rank), writer.into(), parent.clone())?;
                reader.into()
            }
            _ => File::open("/dev/null")?.into(),
        };
        let socket = match speech.is_pmi {
            true => Some(speech.turn_to_pmi(self.pmi, job, rank, &mut environment)?),
            false => {
                speech.turn_to_pmix(self.pmi, &self.libraries, &mut environment)?;
                self.libraries.give(&Program::new(program, &app.wdir, &environment), &mut environment);
                None
            }
        };
        let described = Program::new(program, &app.wdir, &environment);
        // Before there is anybody to be ended again.
        let open = |stream: &str| wants.files.open(&job.source(rank), stream);
        let mut files = vec![open(STREAMS[0].0)?];
        if !wants.is_merged {
            files.push(open(STREAMS[1].0)?);
        }
        let is_terminal = self.gives_terminals && job.parent.is_none();
        let (reader, out) = if is_terminal { pty::pair()? } else { pipe()? };
        let mut pipes = vec![reader];
        let mut err = None;
        if !wants.is_merged {
            let (reader, writer) = pipe()?;
            pipes.push(reader);
            err = Some(writer);
        }
        let name = app.spec.name_of(rank);
        let spawn = Spawn {
            program,
            name: &name,
            arguments: &app.spec.arguments,
            environment: &environment,
            directory: &app.wdir,
            streams: [input.as_fd(), out.as_fd(), err.as_ref().unwrap_or(&out).as_fd()],
            given: socket.as_ref().map(AsFd::as_fd),
        };
        // The launcher's only loop starts them, in the thread that ends last.
        let birth = || if job.stops.is_on_exec(&job.proc(rank)) { exec_stop::start(&spawn) } else { spawn.start() };
        let pid = binding::bound(&job.placement.processors(rank), birth)?;
        // The rank's ends are the rank's alone.
        drop((input, out, err, socket));
        let pid = Pid::from_raw(pid as i32);
        tracing::info!(target: "run", of = %job.proc(rank), pid = pid.as_raw(), "a rank is started");
        self.streams.strangers.born(pid, described, speech.is_pmi);
        let pipes = pipes.into_iter().zip(files);
        for (((pipe, file), feed), (name, channel)) in pipes.zip(&self.streams.feeds).zip(STREAMS) {
            let StreamOptions { tags, format, is_raw, .. } = wants;
            let tag = job.tag(tags, rank, pid.as_raw() as u32, name);
            let style = LineStyle { source: job.proc(rank), stream: name, tag, format, is_raw };
            let pulls = self.streams.pulls.clone();
            let always = wants.output.contains(channel);
            let is_shown_there = always && job.parent.is_some() && job.parent == self.steerer;
            let pulled = PulledStream { pulls, source: job.proc(rank), channel, always };
            let source = Source::new(pipe, style)?.watched(self.streams.strangers.clone(), pid);
            feed.add(source.pulled(pulled).filed(file, wants.files.only || is_shown_there));
        }
        Ok(pid)
    }
}

/// Makes sure that there are descriptors for so many ranks beside all that are in use: forked ranks and tools may have
/// taken many. Where no more are allowed, a descriptor that lacks says so.
fn make_room_beside_others(ranks: u32) {
    let in_use = fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64);
    let wanted = in_use + u64::from(ranks) * DESCRIPTORS_PER_RANK + DESCRIPTORS_PER_JOB + MORE_DESCRIPTORS;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}

/// The two ends of a pipe.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    io::pipe().map(|(reader, writer)| (reader.into(), writer.into()))
}

/// Makes sure that we may hold the descriptors of so many ranks in so many jobs; no more, because the ranks inherit the
/// limit.
pub(super) fn make_room(ranks: u32, nodes: usize, jobs: usize) -> Result<()> {
    let of_ranks = u64::from(ranks) * DESCRIPTORS_PER_RANK + nodes as u64 * DESCRIPTORS_PER_NODE;
    let of_ranks = of_ranks + jobs.saturating_sub(1) as u64 * DESCRIPTORS_PER_JOB;
    let (needed, wanted) = (of_ranks + DESCRIPTORS, of_ranks + MORE_DESCRIPTORS);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).is_ok() {
        return Ok(());
    }
    if hard < needed {
        bail!("{ranks} ranks need {needed} descriptors and no more than {hard} are allowed (ulimit -Hn)");
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of descriptors")
}
