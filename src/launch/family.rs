//! The processes of a launcher and its jobs: what the launcher's thread knows of them.
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{getegid, geteuid};

use super::app::{self, App, TimeLimits};
use super::program;
use super::queue::{JobEnd, SpawnQueue, SpawnRequest};
use crate::client::{Output, OutputHandler, to_own_output};
use crate::data::{Channels, Info, InfoList, Nspace, Proc, Rank, Status, Value, keys};
use crate::message::format::Format;
use crate::server::Server;
use crate::sys::{birth, process};
use crate::trace;

/// From SIGTERM to SIGKILL, when the launcher ends.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// Bytes that are read at once; a pipe holds no more by default.
const CHUNK: usize = 64 << 10;
/// Most bytes that a pipe can hold, unless root has enlarged it.
const PIPE: usize = 1 << 20;

/// A process that runs.
struct Child {
    proc: Proc,
    process: std::process::Child,
    /// Tells of its end.
    end: OwnedFd,
}

/// A stream of a process.
struct Stream {
    proc: Proc,
    channel: Channels,
    pipe: File,
    format: Format,
}

/// A job of which somebody runs.
struct Job {
    nspace: Nspace,
    running: usize,
    /// End of the first process that did not end well; none in it when that is not known.
    failure: Option<Option<ExitStatus>>,
    /// True if its end is told; that of a job that could not be started is not.
    is_told: bool,
    is_silent: bool,
    /// Signal that its processes are sent next because their time is over, and when.
    limit: Option<(Instant, Signal)>,
    is_late: bool,
}

/// State of the launcher's thread.
pub(super) struct Family {
    server: Weak<Server>,
    job_ended: Box<dyn Fn(JobEnd) + Send>,
    queue: Arc<SpawnQueue>,
    output: OutputHandler,
    /// The number of the last job.
    last: u64,
    jobs: Vec<Job>,
    children: Vec<Child>,
    streams: Vec<Stream>,
}

impl Family {
    pub(super) fn new(server: Weak<Server>, job_ended: Box<dyn Fn(JobEnd) + Send>, queue: Arc<SpawnQueue>) -> Self {
        let (jobs, children, streams) = Default::default();
        Self { server, job_ended, queue, output: to_own_output(), last: 0, jobs, children, streams }
    }

    /// Launches what is requested and attends to what was launched, until the launcher is dropped. Then it ends all
    /// that runs.
    pub(super) fn attend(mut self) {
        while let Some(requests) = self.queue.take() {
            if requests.is_empty() {
                self.wait(self.jobs.iter().filter_map(|job| job.limit).map(|(at, _)| at).min());
            }
            self.expire(Instant::now());
            for request in requests {
                let started = self.launch(&request);
                (request.done)(started);
            }
        }
        self.signal(Signal::SIGTERM);
        // For who is stopped and would not hear it.
        self.signal(Signal::SIGCONT);
        let until = Instant::now() + GRACE;
        while !self.children.is_empty() && Instant::now() < until {
            self.wait(Some(until));
        }
        self.signal(Signal::SIGKILL);
        while !self.children.is_empty() {
            self.wait(None);
        }
    }

    /// Ends the jobs whose time is over.
    fn expire(&mut self, now: Instant) {
        for job in &mut self.jobs {
            let Some((_, signal)) = job.limit.take_if(|(at, _)| *at <= now) else { continue };
            job.is_late = true;
            job.limit = (signal == Signal::SIGTERM).then_some((now + GRACE, Signal::SIGKILL));
            for child in self.children.iter().filter(|child| child.proc.nspace == job.nspace) {
                let pid = child.process.id() as i32;
                process::signal_group(&child.end, pid, signal);
                process::signal_group(&child.end, pid, Signal::SIGCONT);
            }
        }
    }

    fn signal(&self, signal: Signal) {
        for child in &self.children {
            process::signal_group(&child.end, child.process.id() as i32, signal);
        }
    }

    /// Waits until something happens, and acts on it.
    fn wait(&mut self, until: Option<Instant>) {
        let timeout = until.map_or(PollTimeout::NONE, |until| {
            let left = until.saturating_duration_since(Instant::now());
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let descriptors = std::iter::once(self.queue.wake.as_fd())
            .chain(self.children.iter().map(|child| child.end.as_fd()))
            .chain(self.streams.iter().map(|stream| stream.pipe.as_fd()));
        let mut all: Vec<PollFd> = descriptors.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        if poll(&mut all, timeout).is_err() {
            return;
        }
        let mut happened = all.iter().map(|fd| fd.any() == Some(true)).collect::<Vec<_>>().into_iter();
        drop(all);
        if happened.next() == Some(true) {
            let _ = self.queue.wake.read();
        }
        let ended: Vec<bool> = happened.by_ref().take(self.children.len()).collect();
        // Output that was printed comes before the end.
        let mut written = happened;
        let mut streams = std::mem::take(&mut self.streams);
        streams.retain_mut(|stream| written.next() != Some(true) || self.forward(stream));
        self.streams = streams;
        for at in (0..ended.len()).rev().filter(|at| ended[*at]) {
            let child = self.children.swap_remove(at);
            self.ended(child);
        }
    }

    /// Forwards what a stream has; whether there may come more.
    fn forward(&self, stream: &mut Stream) -> bool {
        let mut bytes = vec![0; CHUNK];
        let read = match stream.pipe.read(&mut bytes) {
            Ok(read) => read,
            Err(error) => return error.kind() == io::ErrorKind::Interrupted,
        };
        bytes.truncate(read);
        if let Some(server) = self.server.upgrade() {
            let end = (read == 0).then(|| Info::new(keys::IOF_COMPLETE, true));
            // One that has ended has nobody to hand it on to.
            let _ = server.iof_deliver(&stream.proc, stream.channel, &bytes, end.as_slice()).wait();
        }
        if read > 0 {
            let bytes = stream.format.shown(&stream.proc, stream.channel, bytes);
            (self.output)(Output {
                pull: 0,
                source: stream.proc.clone(),
                channel: stream.channel,
                bytes,
                info: vec![],
            });
        }
        read > 0
    }

    /// Forwards what a process that has ended has left in its pipes; what others write there meanwhile can wait.
    fn drain(&mut self, proc: &Proc) {
        let mut streams = std::mem::take(&mut self.streams);
        streams.retain_mut(|stream| {
            let mut rounds = if stream.proc == *proc { PIPE / CHUNK } else { 0 };
            while rounds > 0 && has_more(&stream.pipe) {
                if !self.forward(stream) {
                    return false;
                }
                rounds -= 1;
            }
            true
        });
        self.streams = streams;
    }

    fn ended(&mut self, mut child: Child) {
        let status = child.process.try_wait().unwrap_or_else(|error| {
            trace!("how {} has ended is not known: {error}", child.proc);
            None
        });
        self.drain(&child.proc);
        if let Some(server) = self.server.upgrade() {
            server.client_died(&child.proc);
        }
        self.queue.running().remove(&child.proc);
        let Some(job) = self.job(&child.proc.nspace) else { return };
        job.running -= 1;
        if !status.is_some_and(|status| status.success()) {
            job.failure.get_or_insert(status);
        }
        if job.running == 0 {
            self.over(&child.proc.nspace);
        }
    }

    /// Nobody of a job is left.
    fn over(&mut self, nspace: &Nspace) {
        let Some(at) = self.jobs.iter().position(|job| job.nspace == *nspace) else { return };
        let job = self.jobs.swap_remove(at);
        if job.is_told {
            let (status, exit_code) = match job.failure {
                None => (Status::SUCCESS, 0),
                Some(Some(status)) => match (status.code(), status.signal()) {
                    (Some(code), _) => (Status::ERR_JOB_NON_ZERO_TERM, code),
                    (None, signal) => (Status::ERR_JOB_ABORTED_BY_SIG, 128 + signal.unwrap_or(0)),
                },
                Some(None) => (Status::ERROR, 0),
            };
            let status = if job.is_late { Status::ERR_TIMEOUT } else { status };
            (self.job_ended)(JobEnd { nspace: nspace.clone(), status, exit_code, is_silent: job.is_silent });
        }
        if let Some(server) = self.server.upgrade() {
            let _ = server.deregister_nspace(nspace).then(|_| ());
        }
    }

    fn job(&mut self, nspace: &Nspace) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.nspace == *nspace)
    }

    /// Starts a job.
    fn launch(&mut self, request: &SpawnRequest) -> Result<Nspace, Status> {
        let server = self.server.upgrade().ok_or(Status::ERR_INIT)?;
        let node = server.hostname().to_string_lossy().into_owned();
        let limits = TimeLimits::read(&request.job_info)?;
        let until = limits.start.map(|limit| Instant::now() + limit);
        let specs = app::read(&request.job_info, &request.apps, |host| app::is_named(host, &node), is_of_tools)?;
        let apps = App::all(specs).map_err(|_| Status::ERR_JOB_SYS_OP_FAILED)?;
        let programs = program::all(&apps).map_err(|(_, lacks)| lacks.status())?;
        let own = server.proc();
        self.last += 1;
        let most = own.nspace.as_bytes().len().min(200);
        let name = [&own.nspace.as_bytes()[..most], format!("@{}", self.last).as_bytes()].concat();
        let nspace = Nspace::new(name).map_err(|_| Status::ERR_INVALID_NAMESPACE)?;
        register(&server, &nspace, &apps, &node, request)?;
        let is_silent = request.job_info.is_set(keys::EVENT_SILENT_TERMINATION);
        self.jobs.push(Job {
            nspace: nspace.clone(),
            running: 0,
            failure: None,
            is_told: true,
            is_silent,
            limit: None,
            is_late: false,
        });
        for app in &apps {
            for rank in app.ranks() {
                let proc = Proc::new(nspace.clone(), Rank(rank));
                let program = &programs[app.number as usize];
                let is_late = until.is_some_and(|until| until <= Instant::now());
                let born = match is_late {
                    true => Err(io::ErrorKind::TimedOut.into()),
                    false => self.birth(&server, proc, app, program, &request.job_info),
                };
                if let Err(error) = born {
                    trace!("{} cannot be started: {error}", app.spec.program.to_string_lossy());
                    self.give_up(&nspace);
                    return Err(if is_late { Status::ERR_TIMEOUT } else { Status::ERR_JOB_FAILED_TO_LAUNCH });
                }
            }
        }
        if let (Some(limit), Some(job)) = (limits.run, self.job(&nspace)) {
            job.limit = Some((Instant::now() + limit, Signal::SIGTERM));
        }
        Ok(nspace)
    }

    /// Ends what was started of a job that does not start as a whole.
    fn give_up(&mut self, nspace: &Nspace) {
        for child in self.children.iter().filter(|child| child.proc.nspace == *nspace) {
            process::signal_group(&child.end, child.process.id() as i32, Signal::SIGKILL);
        }
        let Some(job) = self.job(nspace) else { return };
        job.is_told = false;
        if job.running == 0 {
            self.over(nspace);
        }
    }

    /// Starts a process.
    fn birth(
        &mut self,
        server: &Server,
        proc: Proc,
        app: &App,
        program: &std::path::Path,
        job_info: &[Info],
    ) -> io::Result<()> {
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        for (name, value) in &app.spec.environment {
            environment.retain(|(other, _)| other != name);
            environment.extend(value.as_ref().map(|value| (name.clone(), value.clone())));
        }
        server.setup_fork(&proc, &mut environment).map_err(io::Error::other)?;
        let mut command = Command::new(program);
        command.arg0(app.spec.name_of(proc.rank.0)).args(&app.spec.arguments).env_clear().envs(environment);
        command.current_dir(&app.wdir).stdin(Stdio::null()).process_group(0);
        let (out, writer) = io::pipe()?;
        let mut pipes = vec![(Channels::STDOUT, File::from(OwnedFd::from(out)))];
        if job_info.is_set(keys::IOF_MERGE_STDERR_STDOUT) || job_info.is_set(keys::MERGE_STDERR_STDOUT) {
            command.stdout(writer.try_clone()?).stderr(writer);
        } else {
            let (err, err_writer) = io::pipe()?;
            pipes.push((Channels::STDERR, File::from(OwnedFd::from(err))));
            command.stdout(writer).stderr(err_writer);
        }
        birth::start_clean(&mut command);
        let mut process = command.spawn()?;
        // The process's ends are its alone.
        drop(command);
        let end = match process::watch_child(process.id() as i32) {
            Ok(end) => end,
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(error);
            }
        };
        let streams = pipes.into_iter().map(|(channel, pipe)| Stream {
            proc: proc.clone(),
            channel,
            pipe,
            format: Format::read(job_info),
        });
        self.streams.extend(streams);
        if let Some(job) = self.job(&proc.nspace) {
            job.running += 1;
        }
        self.queue.running().insert(proc.clone(), process.id());
        self.children.push(Child { proc, process, end });
        Ok(())
    }
}

/// Returns whether a pipe can be read without waiting, be it to its end.
fn has_more(pipe: &File) -> bool {
    poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
}

/// Returns whether an attribute is one of those with which a tool starts a launcher: that looks up its directives itself.
fn is_of_tools(info: &Info) -> bool {
    [keys::SPAWN_TOOL, keys::LAUNCH_DIRECTIVES].iter().any(|key| info.key == *key)
}

/// Tells the server of a job whose processes are to be started.
fn register(server: &Server, nspace: &Nspace, apps: &[App], node: &str, request: &SpawnRequest) -> Result<(), Status> {
    let ranks: Vec<u32> = apps.iter().flat_map(App::ranks).collect();
    let size = ranks.len() as u32;
    let everyone = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let own = server.proc();
    let mut infos = vec![
        Info::new(keys::JOBID, Value::string(nspace)),
        Info::new(keys::JOB_SIZE, size),
        Info::new(keys::UNIV_SIZE, size),
        Info::new(keys::MAX_PROCS, size),
        Info::new(keys::JOB_NUM_APPS, apps.len() as u32),
        Info::new(keys::NODE_MAP, node),
        Info::new(keys::PROC_MAP, everyone.as_str()),
        Info::new(keys::SERVER_NSPACE, Value::string(&own.nspace)),
        Info::new(keys::SERVER_RANK, own.rank),
        Info::new(keys::SPAWNED, true),
        Info::new(
            keys::PARENT_ID,
            request.job_info.find(keys::PARENT_ID).map_or(Value::Proc(own), |p| p.value.clone()),
        ),
    ];
    infos.extend(apps.iter().map(App::info));
    infos.extend(request.job_info.find(keys::LAUNCH_DIRECTIVES).cloned());
    for rank in &ranks {
        let proc = Proc::new(nspace.clone(), Rank(*rank));
        server.register_client(&proc, geteuid().as_raw(), getegid().as_raw()).then(|_| ())?;
    }
    server.setup_local_support(nspace, &app::environment(&request.job_info, &request.apps)).wait()?;
    server.register_nspace(nspace, ranks.len(), &infos).wait().inspect_err(|_| {
        let _ = server.deregister_nspace(nspace).then(|_| ());
    })
}
