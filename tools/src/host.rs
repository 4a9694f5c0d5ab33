//! The PMIx server in the launcher, and the host that it asks: all that this command knows of the library's server.
//!
//! Requests of a rank are done here at once where they need nobody else: published data is kept in a [`PublishedData`],
//! texts are [logged](crate::log), and processes that connect are connected, because all live here. A request about
//! processes becomes an [`Event`] of the launcher's queue, and is answered from there: the server's thread waits for
//! nothing.
use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use instanton::data::{
    App, Channels, DataArray, DataRange, Info, InfoList, Nspace, Proc, Query, Rank, Status, Text, Value, keys,
};
use instanton::internal::sys::hwloc::{self, Place};
use instanton::server::{
    Accepted, Answer, Completion, Host, Infos, Published, PublishedData, Server, ServerConfig, ToolSupport,
};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, getgid, getuid};

use crate::args::{BindTo, Run};
use crate::environment::Environment;
use crate::event::Event;
use crate::job::Job;
use crate::record::Record;
use crate::say::say;
use crate::streams::Streams;
use crate::{control, log, query, spawn};

/// Limit on the wait, at the end of the run, for tools that pull output and have not read it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The machine's topology and our place in it, which takes longest to find out: it is begun before anything else, and
/// waited for before the first rank is born, so that no rank finds it missing and none inherits what is open meanwhile.
pub struct Topology(io::Result<thread::JoinHandle<Option<Place>>>);

impl Topology {
    /// Begins to find it out; with its cores where ranks are to be bound to them.
    pub fn ask(bind_to: BindTo) -> Self {
        Self(thread::Builder::new().name("topology".into()).spawn(move || hwloc::place(bind_to == BindTo::Core)))
    }
}

/// The server with the jobs of a run in it.
pub struct Pmix {
    server: Arc<Server>,
    published: Arc<PublishedData>,
    place: Option<Place>,
}

impl Pmix {
    /// Starts a server for a run that begins with `job`.
    pub fn start(
        job: &Job,
        topology: Topology,
        options: &Run,
        events: Sender<Event>,
        record: Arc<Record>,
        streams: Streams,
    ) -> Result<Self> {
        let defaults = ServerConfig::default();
        let config = ServerConfig {
            nspace: job.server.clone(),
            tmpdir: job.session.top().into(),
            path_socket: options.path_socket,
            job_memory: options.job_memory.unwrap_or(defaults.job_memory),
            // Tools name the process that the user knows.
            tools: Some(ToolSupport { pid: Some(job.guardian), ..ToolSupport::default() }),
            ..defaults
        };
        let published = Arc::new(PublishedData::with_job_memory(config.job_memory / 2));
        let host = Launcher {
            family: job.family().to_owned(),
            events,
            record,
            contexts: Mutex::new(0),
            streams: streams.clone(),
            published: published.clone(),
        };
        let server = Server::start(config, Arc::new(host))
            .map_err(|error| anyhow!("the PMIx server does not start: {error}"))?;
        let server = Arc::new(server);
        streams.pulls.lead_to(&server);
        streams.inputs.lead_to(&server);
        let topology = topology.0.map_err(|error| anyhow!("cannot start a thread for the topology: {error}"))?;
        // Without a topology each rank finds it out for itself.
        Ok(Self { server, published, place: topology.join().ok().flatten() })
    }

    /// Tells the server of a job whose ranks are to be started; `more` is said of it besides, and of its ranks'
    /// environment.
    pub fn register(&self, job: &Job, more: &[Info]) -> Result<(), Status> {
        let (done, registered) = mpsc::channel();
        for (rank, _) in job.ranks() {
            let done = done.clone();
            let done = move |result| {
                let _ = done.send(result);
            };
            self.server.register_client(&job.proc(rank), getuid().as_raw(), getgid().as_raw()).then(done)?;
        }
        drop(done);
        let mut infos = job.infos(self.place.as_ref());
        let is_told = |info: &&Info| info.key == keys::COSPAWN_APP || spawn::STOPS.iter().any(|key| info.key == *key);
        infos.extend(more.iter().filter(is_told).cloned());
        self.server.setup_local_support(&job.nspace, more).wait()?;
        self.server.register_nspace(&job.nspace, job.size() as usize, &infos).wait()?;
        registered.into_iter().collect()
    }

    /// Adds what a rank needs to find the server.
    pub fn set_up(&self, proc: &Proc, environment: &mut Environment) -> Result<(), Status> {
        self.server.setup_fork(proc, environment)
    }

    /// Returns whether ranks are bound to cores.
    pub fn binds(&self) -> bool {
        self.place.as_ref().is_some_and(|place| !place.cores.is_empty())
    }

    /// Starts a rank with `birth`, bound to its core where ranks are. It inherits that from the thread that starts it.
    ///
    /// # Errors
    /// When it cannot be bound there.
    pub fn bound<T>(&self, on_node: u32, birth: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(core) = self.place.as_ref().and_then(|place| place.core_of(on_node)) else { return birth() };
        let me = Pid::from_raw(0);
        let before = sched_getaffinity(me)?;
        let mut units = CpuSet::new();
        core.units.iter().try_for_each(|unit| units.set(*unit))?;
        sched_setaffinity(me, &units)?;
        let born = birth();
        sched_setaffinity(me, &before)?;
        born
    }

    /// A rank's process has ended.
    pub fn rank_ended(&self, proc: &Proc) {
        self.published.process_ended(proc);
        self.server.client_died(proc);
    }

    /// A tool is gone: it waits for no published data.
    pub fn tool_gone(&self, tool: &Proc) {
        self.published.process_ended(tool);
    }

    /// The last process of a job has ended; `told` is the rank that wants to hear of it.
    pub fn job_ended(&self, job: &Job, status: Status, told: Option<&Proc>) {
        self.published.namespace_ended(&job.nspace);
        if let Some(told) = told {
            let all = Proc::new(job.nspace.clone(), Rank::WILDCARD);
            self.raise(vec![told.clone()], Status::EVENT_JOB_END, &all, Some(Info::new(keys::JOB_TERM_STATUS, status)));
        }
    }

    /// A process has ended between Init and Finalize; processes connected with it hear of that.
    pub fn left_without_a_word(&self, proc: &Proc, connected: Vec<Proc>) {
        self.raise(connected, Status::ERR_INVALID_TERMINATION, proc, None);
    }

    /// A process waits for a debugger somewhere; the process that has started its job hears of it.
    pub fn rank_stopped(&self, parent: &Proc, rank: &Proc, place: Option<Info>) {
        self.raise(vec![parent.clone()], Status::READY_FOR_DEBUG, rank, place);
    }

    /// Raises an event for these processes.
    fn raise(&self, told: Vec<Proc>, status: Status, affected: &Proc, more: Option<Info>) {
        let mut info = vec![
            Info::new(keys::EVENT_AFFECTED_PROC, affected.clone()),
            Info::new(keys::EVENT_CUSTOM_RANGE, Value::DataArray(DataArray::of(told))),
            Info::new(keys::EVENT_NON_DEFAULT, true),
        ];
        info.extend(more);
        // A server that has ended has nobody to tell.
        let _ = self.server.notify_event(status, &self.server.proc(), DataRange::CUSTOM, &info).then(|_| ());
    }

    /// Forgets a job that is over, and then removes its directories.
    pub fn forget(&self, job: &Job) {
        let directory = job.session.job(job.number);
        // Files that cannot be removed now go with the session.
        let _ = self.server.deregister_nspace(&job.nspace).then(move |_| drop(std::fs::remove_dir_all(directory)));
    }

    /// Returns the time at which [`expire`](Pmix::expire) is to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.published.deadline()
    }

    /// Ends what has waited for long enough.
    pub fn expire(&self, now: Instant) {
        self.published.expire(now);
    }

    /// Ends the server, after the clean-ups that ranks have asked for.
    pub fn finish(self) {
        // A tool that pulls output may still read its end, unless it reads nothing.
        let _ = self.server.iof_flush(PATIENCE).wait();
        // Others hold it for the time of a call at most, and then end it.
        drop(self.server);
    }
}

struct Launcher {
    /// Prefix of the names of all jobs of the run.
    family: String,
    events: Sender<Event>,
    record: Arc<Record>,
    /// The last context id that a group was given.
    contexts: Mutex<u64>,
    streams: Streams,
    published: Arc<PublishedData>,
}

impl Launcher {
    fn tell(&self, event: Event) -> Accepted {
        // The launcher hears nothing any more once it ends; then nothing matters.
        let _ = self.events.send(event);
        Ok(Answer::Done)
    }

    /// Returns whether it is a rank; else it is a tool, whose coming and going changes nothing.
    fn is_rank(&self, proc: &Proc) -> bool {
        let rest = proc.nspace.as_bytes().strip_prefix(self.family.as_bytes()).and_then(|rest| rest.strip_prefix(b"@"));
        rest.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
    }

    /// Sends an event that brings the way back with it.
    fn ask(&self, event: Event) -> Accepted {
        self.tell(event).map(|_| Answer::Later)
    }
}

const DONE: Accepted = Ok(Answer::Done);

impl Host for Launcher {
    fn client_connected(&self, proc: &Proc, _: Completion<()>) -> Accepted {
        self.tell(Event::Initialised(proc.clone()))
    }

    /// Leaves it to the server to name the tool; a rank that is one needs not attach as a rank.
    fn tool_connected(&self, info: &[Info], _: Completion<Proc>) -> Accepted {
        if let Some(Value::Pid(pid)) = info.find(keys::PROC_PID).map(|info| &info.value) {
            self.tell(Event::ToolCame(Pid::from_raw(*pid)))?;
        }
        Err(Status::ERR_NOT_SUPPORTED)
    }

    fn client_finalized(&self, proc: &Proc, _: Completion<()>) -> Accepted {
        let proc = proc.clone();
        self.tell(if self.is_rank(&proc) { Event::Finalized(proc) } else { Event::ToolGone(proc) })
    }

    /// Ends everything when processes of the caller's own job are named: what remained of it could not go on. Processes
    /// of other jobs alone are ended as by job control, and for a tool that names none, the jobs that it has started.
    fn abort(
        &self,
        proc: &Proc,
        status: i32,
        message: Option<&[u8]>,
        procs: &[Proc],
        done: Completion<()>,
    ) -> Accepted {
        let others: Vec<Proc> = procs.iter().filter(|named| named.nspace != proc.nspace).cloned().collect();
        // A tool ends itself; of its namespace there is nobody else.
        if !others.is_empty() && (others.len() == procs.len() || !self.is_rank(proc)) {
            return self.ask(Event::Control(control::Request::end(others, done)));
        }
        if !self.is_rank(proc) {
            return self.ask(Event::AbortBy(proc.clone(), done));
        }
        let message = String::from_utf8_lossy(message.unwrap_or_default()).replace(char::is_control, " ");
        self.tell(Event::Abort(proc.clone(), status, message.trim().to_owned()))
    }

    fn publish(&self, proc: &Proc, info: &[Info], _: Completion<()>) -> Accepted {
        self.published.publish(proc, info).map(|()| Answer::Done)
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        let accepted = self.published.lookup(proc, keys, info, done)?;
        // It may be the first to wait, or the first whose time is over.
        self.tell(Event::Waits)?;
        Ok(accepted)
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], _: Completion<()>) -> Accepted {
        self.published.unpublish(proc, keys, info).map(|()| Answer::Done)
    }

    fn spawn(&self, proc: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        let request = spawn::Request { parent: proc.clone(), info: job_info.to_vec(), apps: apps.to_vec(), done };
        self.ask(Event::Spawn(request))
    }

    fn connect(&self, _: &[Proc], _: &[Info], _: Completion<()>) -> Accepted {
        DONE
    }

    fn disconnect(&self, _: &[Proc], _: &[Info], _: Completion<()>) -> Accepted {
        DONE
    }

    /// Nothing happens here that the server does not see itself.
    fn register_events(&self, _: &[Status], _: &[Info], _: Completion<()>) -> Accepted {
        DONE
    }

    fn deregister_events(&self, _: &[Status], _: Completion<()>) -> Accepted {
        DONE
    }

    /// No process lives beyond this node; but one that waits for a debugger says so to its launcher.
    fn notify_event(&self, status: Status, source: &Proc, _: DataRange, info: &[Info], _: Completion<()>) -> Accepted {
        match status {
            Status::READY_FOR_DEBUG => self.tell(Event::Stopped(source.clone(), info.find(keys::BREAKPOINT).cloned())),
            _ => DONE,
        }
    }

    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        self.ask(Event::Query(query::Request { asker: proc.clone(), queries: queries.to_vec(), done }))
    }

    fn log(&self, client: &Proc, data: &[Info], directives: &[Info], _: Completion<()>) -> Accepted {
        log::log(&self.streams.feeds, client, data, directives).map(|()| Answer::Done)
    }

    fn job_control(
        &self,
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        if control::wants_nothing(directives) {
            return DONE;
        }
        self.ask(Event::Control(control::Request::read(requestor, targets, directives, done)?))
    }

    /// Every asker is of our own user, so that none is refused; output that has not begun is forwarded when it does.
    fn iof_pull(&self, procs: &[Proc], directives: &[Info], channels: Channels, _: Completion<()>) -> Accepted {
        self.streams.pulls.pull(procs, directives, channels);
        DONE
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        directives: &[Info],
        bytes: &[u8],
        _: Completion<()>,
    ) -> Accepted {
        self.streams.inputs.push(source, targets, directives, bytes)
    }

    /// The ends of ranks are known from the kernel. That of a tool comes in its turn: what it has asked for before is
    /// begun.
    fn client_lost(&self, proc: &Proc, _: Status) {
        if !self.is_rank(proc) {
            let _ = self.tell(Event::ToolGone(proc.clone()));
        }
    }

    /// All members are here, so there is no other host to ask: a group gets its context id. The server finds out which
    /// members are added by others.
    fn group(&self, _: i64, _: &Nspace, procs: &[Proc], directives: &[Info], done: Completion<Infos>) -> Accepted {
        let by_leaders = [keys::GROUP_BOOTSTRAP, keys::GROUP_ADD_MEMBERS];
        if procs.is_empty() || by_leaders.iter().any(|key| directives.find(key).is_some()) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let mut infos = Vec::new();
        if directives.is_set(keys::GROUP_ASSIGN_CONTEXT_ID) {
            let mut last = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            infos.push(Info::new(keys::GROUP_CONTEXT_ID, Value::Size(*last)));
        }
        done.complete(Ok((Status::SUCCESS, infos)));
        Ok(Answer::Later)
    }

    /// Whoever comes after this process does them in the server's place, should it be killed. They are on record before
    /// the rank goes on.
    fn cleanup_registered(&self, _: &Proc, directives: &[Info]) {
        if let Err(error) = self.record.append(directives) {
            let pid = std::process::id();
            say(&format!("a clean-up would be forgotten if process {pid} were killed: {error:#}"));
        }
    }
}
