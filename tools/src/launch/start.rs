//! Starting the ranks of a job: their environment, their streams and their descriptors.
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use instanton::data::Channels;
use instanton::internal::message::lines::LineFormat;
use instanton::internal::sys::birth;
use instanton::launch::App;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

use crate::environment::{self, Environment};
use crate::host::Pmix;
use crate::job::{Job, StreamOptions, Tags};
use crate::jobs::Jobs;
use crate::output::{LineStyle, Source};
use crate::pulls::PulledStream;
use crate::strangers::Program;
use crate::streams::Streams;

/// Descriptors that the launcher holds of a rank: three streams, its connection and its pidfd; and those that it needs
/// itself, at least and with room for all that happens at the same time.
const DESCRIPTORS_PER_RANK: u64 = 5;
const DESCRIPTORS: u64 = 40;
const MORE_DESCRIPTORS: u64 = 100;

/// The streams that we forward.
const STREAMS: [(&str, Channels); 2] = [("stdout", Channels::STDOUT), ("stderr", Channels::STDERR)];

/// Starts the ranks of a run.
pub(super) struct Starter {
    pub(super) streams: Streams,
    /// Tags in front of lines of output where a job does not say more.
    pub(super) tags: Tags,
    pub(super) format: LineFormat,
}

impl Starter {
    /// Starts every rank of a job, up to the first that cannot be, or not any more, and says which that is.
    pub(super) fn start(
        &self,
        jobs: &mut Jobs,
        number: u32,
        programs: &[PathBuf],
        until: Option<Instant>,
        pmix: &Pmix,
    ) -> Result<(), (u32, anyhow::Error)> {
        make_room(jobs.size()).map_err(|error| (0, error))?;
        let ours: Environment = std::env::vars_os().collect();
        let Some(live) = jobs.get(number) else { return Ok(()) };
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
            jobs.started(number, rank, Pid::from_raw(pid as i32));
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
        let described = Program::new(program, &app.wdir, &environment);
        let mut command = command(program, app, rank, input, environment);
        // Before there is anybody to be ended again.
        let open = |stream: &str| job.wants.files.open(&job.nspace, job.size(), rank, stream);
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
        let pid = Pid::from_raw(child.id() as i32);
        self.streams.strangers.born(pid, described);
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
            let source = Source::new(pipe, style)?.watched(self.streams.strangers.clone(), pid);
            feed.add(source.pulled(pulled).filed(file, job.wants.files.only));
        }
        Ok(child)
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
    // The launcher's only loop starts them, in the thread that ends last.
    birth::die_with_this_thread(&mut command);
    command
}
