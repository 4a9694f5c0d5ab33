//! Starting jobs: the first one, and those that ranks ask for.
//!
//! Either all of a job starts, or what was started of it is ended again. The first job's failure is the run's; of
//! another one the rank that asked for it is told, and nobody else.
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use instanton::data::{Channels, Nspace, Proc, Rank, Status};
use instanton::internal::message::lines::LineFormat;
use instanton::launch::{App, Lacks, programs};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::{Running, Stage, signal};
use crate::environment::{self, Environment};
use crate::host::Pmix;
use crate::job::{Job, StreamOptions, Tags};
use crate::output::{LineStyle, Source};
use crate::pulls::PulledStream;
use crate::spawn;

/// Descriptors that the launcher holds of a rank: three streams, its connection and its pidfd; and those that it needs
/// itself, at least and with room for all that happens at the same time.
const DESCRIPTORS_PER_RANK: u64 = 5;
const DESCRIPTORS: u64 = 40;
const MORE_DESCRIPTORS: u64 = 100;

/// The streams that we forward.
const STREAMS: [(&str, Channels); 2] = [("stdout", Channels::STDOUT), ("stderr", Channels::STDERR)];

impl Running {
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
        if let Err((rank, error)) = self.start(first, programs, None, pmix) {
            let error = error.downcast::<io::Error>()?;
            let app = self.jobs.first().ranks().find(|(other, _)| *other == rank).map(|(_, app)| app);
            let program = app.map(|app| app.spec.program.to_string_lossy().into_owned()).unwrap_or_default();
            self.outcome.not_started(self.jobs.who(first, rank), &error, &program);
        }
        self.watch()
    }

    /// Starts every rank of a job, up to the first that cannot be, or not any more, and says which that is.
    fn start(
        &mut self,
        number: u32,
        programs: &[PathBuf],
        until: Option<Instant>,
        pmix: &Pmix,
    ) -> Result<(), (u32, anyhow::Error)> {
        make_room(self.jobs.size()).map_err(|error| (0, error))?;
        let ours: Environment = std::env::vars_os().collect();
        let Some(live) = self.jobs.get(number) else { return Ok(()) };
        let mut born = Vec::new();
        let mut result = Ok(());
        for (rank, app) in live.job.ranks() {
            if until.is_some_and(|until| until <= Instant::now()) {
                result = Err((rank, io::Error::from(io::ErrorKind::TimedOut).into()));
                break;
            }
            match self.birth(&live.job, app, rank, &programs[app.number as usize], &ours, pmix) {
                Ok(child) => born.push((rank, child.id())),
                Err(error) => {
                    result = Err((rank, error));
                    break;
                }
            }
        }
        for (rank, pid) in born {
            self.jobs.started(number, rank, Pid::from_raw(pid as i32));
        }
        result
    }

    fn birth(&self, job: &Job, app: &App, rank: u32, program: &Path, ours: &Environment, pmix: &Pmix) -> Result<Child> {
        let mut environment = environment::of_rank(job, app, rank, ours);
        pmix.set_up(&job.proc(rank), &mut environment)
            .map_err(|status| anyhow!("the PMIx server refuses a rank's environment: {status}"))?;
        let input = match (&job.parent, job.number) {
            (_, 1) if rank == 0 => Stdio::inherit(),
            (Some(parent), _) if job.wants.has_input(rank) => {
                let (reader, writer) = io::pipe()?;
                self.streams.inputs.add(job.proc(rank), writer.into(), parent.clone())?;
                reader.into()
            }
            _ => Stdio::null(),
        };
        let mut command = command(program, app, rank, input, environment);
        // Before there is anybody to be ended again.
        let open = |stream: &str| job.wants.files.open(job, rank, stream);
        let mut files = vec![open(STREAMS[0].0)?];
        if !job.wants.is_merged {
            files.push(open(STREAMS[1].0)?);
        }
        let mut merged = None;
        if job.wants.is_merged {
            let (reader, writer) = io::pipe()?;
            command.stdout(writer.try_clone()?).stderr(writer);
            merged = Some(OwnedFd::from(reader));
        }
        let mut child = pmix.bound(job.before + rank, || command.spawn())?;
        // The rank's ends are the rank's alone.
        drop(command);
        let out = merged.or(child.stdout.take().map(OwnedFd::from)).context("a rank without output")?;
        let pipes = [Some(out), child.stderr.take().map(OwnedFd::from)];
        // There is no other one where they are merged.
        let pipes = pipes.into_iter().flatten().zip(files);
        for (((pipe, file), feed), (name, channel)) in pipes.zip(&self.streams.feeds).zip(STREAMS) {
            let StreamOptions { tags, format, .. } = &job.wants;
            let tags = if *tags == Tags::None { self.tags } else { *tags };
            let format =
                LineFormat { stamps: format.stamps || self.format.stamps, is_xml: format.is_xml || self.format.is_xml };
            let tag = tags.tag(job, rank, child.id(), name);
            let style = LineStyle { source: job.proc(rank), stream: name, tag, format };
            let pulls = self.streams.pulls.clone();
            let always = job.wants.output.contains(channel);
            let pulled = PulledStream { pulls, source: job.proc(rank), channel, always };
            feed.add(Source::new(pipe, style)?.pulled(pulled).filed(file, job.wants.files.only));
        }
        Ok(child)
    }

    /// Serves a spawn request: launches its job, or answers why not.
    pub(super) fn spawn(&mut self, request: spawn::Request, pmix: &Pmix) {
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
        let started = registered.and_then(|()| self.start(number, &programs, until, pmix).map_err(failed));
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
}

/// Makes sure that we may hold the descriptors of so many ranks; no more, because the ranks inherit the limit.
pub(super) fn make_room(ranks: u32) -> Result<()> {
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

fn command(program: &Path, app: &App, rank: u32, input: Stdio, environment: Environment) -> Command {
    let mut command = Command::new(program);
    command
        .arg0(app.spec.name_of(rank))
        .args(&app.spec.arguments)
        .env_clear()
        .envs(environment)
        .current_dir(&app.wdir)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}
