//! The PMIx server in the launcher: jobs are registered with it, and processes that end are reported to it.
//!
//! Its requests go to the [`Launcher`], its host. On simulated nodes other than this one the same is done by the
//! servers of the [hub](crate::nodes::hub).
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use instanton::data::{DataArray, DataRange, Info, Nspace, Proc, Rank, Status, Text, Value, WaitReport, keys};
use instanton::internal::pmi;
use instanton::internal::sys::hwloc::{self, Place};
use instanton::internal::wall_clock;
use instanton::server::{Host, PublishedData, Server, ServerConfig, ToolSupport};
use nix::unistd::{Pid, getgid, getuid};

use crate::args::GeneralArgs;
use crate::credentials::Credentials;
use crate::debugger::daemons::Daemons;
use crate::environment::Environment;
use crate::event::Event;
use crate::host::{self, Launcher};
use crate::job::{Job, ProcessSet};
use crate::jobs::ProcessEnd;
use crate::metrics::Metrics;
use crate::names::Names;
use crate::nodes::hub::{Hub, NodePlan, OWN};
use crate::nodes::servers::Servers;
use crate::nodes::wire::{Call, Given};
use crate::outcome::End;
use crate::record::{Awaited, Record};
use crate::see::missing;
use crate::streams::Streams;
use crate::ties::Tells;

/// Limit on the wait, at the end of the run, for tools that pull output and have not read it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time that a server has for a report.
const REPORT: Duration = Duration::from_secs(5);

/// The machine's topology and our place in it, which takes longest to find out: it is begun before anything else, and
/// waited for before the first rank is born, so that no rank finds it missing and none inherits what is open meanwhile.
pub enum Topology {
    /// Somebody finds it out.
    Asked(io::Result<thread::JoinHandle<Option<Place>>>),
    /// The topology is known; none without the library, or where ranks are to believe in another.
    Known(Option<Place>),
}

impl Topology {
    /// Begins to find it out, with its cores where ranks are placed on them.
    pub fn ask(with_cores: bool) -> Self {
        Self::Asked(thread::Builder::new().name("topology".into()).spawn(move || hwloc::place(with_cores)))
    }

    /// Waits until it is known.
    ///
    /// # Errors
    /// When the system has refused a thread for it.
    pub fn wait(self) -> Result<Option<Place>> {
        match self {
            Self::Asked(asked) => {
                let asked = asked.map_err(|error| anyhow!("cannot start a thread for the topology: {error}"))?;
                // Without a topology each rank finds it out for itself.
                Ok(asked.join().ok().flatten())
            }
            Self::Known(place) => Ok(place),
        }
    }
}

/// Returns what the processes of a job are to find before any of them has put something.
fn preput(job: &Job) -> Vec<Info> {
    let given = job.said.iter().filter(|info| info.key == pmi::PREPUT);
    let arrays = given.filter_map(|info| if let Value::DataArray(array) = &info.value { Some(array) } else { None });
    arrays.flat_map(DataArray::infos).cloned().collect()
}

/// The source of events of our own, which come from no process (Standard, `pmix_notification_fn_t`).
fn nobody() -> Proc {
    Proc::new(Nspace::new("").expect("a legal name"), Rank::UNDEF)
}

/// The server with the jobs of a run in it.
pub struct Pmix {
    server: Arc<Server>,
    published: Arc<PublishedData>,
    credentials: Arc<Credentials>,
    record: Arc<Record>,
    place: Option<Place>,
    refusal: Arc<Mutex<Option<String>>>,
    names: Arc<Names>,
    /// The other nodes, if there are some.
    hub: Option<Arc<Hub>>,
    /// Counters that are given out.
    metrics: Option<Metrics>,
}

impl Pmix {
    /// Starts a server for a run that begins with `job`.
    pub fn start(
        job: &Job,
        topology: Topology,
        options: &GeneralArgs,
        events: Sender<Event>,
        record: Arc<Record>,
        streams: Streams,
    ) -> Result<Self> {
        let defaults = ServerConfig::default();
        let config = ServerConfig {
            nspace: job.server.clone(),
            hostname: Text::new(job.nodes[0].as_bytes())?,
            tmpdir: job.session.top().into(),
            own_tmpdir: true,
            path_socket: options.path_socket,
            job_memory: options.job_memory.unwrap_or(defaults.job_memory),
            // Tools name the process that the user knows.
            pmi: true,
            tools: Some(ToolSupport { pid: Some(job.guardian), ..ToolSupport::default() }),
            ..defaults
        };
        let published = Arc::new(PublishedData::with_job_memory(config.job_memory / 4));
        let refusal = Arc::new(Mutex::new(None));
        let credentials = Arc::<Credentials>::default();
        let names = Arc::new(Names::new(job.family()));
        let host: Arc<dyn Host> = Arc::new(Launcher {
            names: names.clone(),
            server: job.server.clone(),
            first: job.nspace.clone(),
            events,
            record: record.clone(),
            is_unrecorded: Once::new(),
            contexts: Mutex::new(0),
            streams: streams.clone(),
            published: published.clone(),
            refusal: refusal.clone(),
            credentials: credentials.clone(),
        });
        let job_memory = config.job_memory;
        let hub = (job.nodes.len() > 1).then(|| Hub::new(host.clone(), names.clone()));
        let host = hub.as_ref().map_or(host, |hub| hub.host(OWN));
        let server = Server::start(config, host).map_err(|error| anyhow!("the PMIx server does not start: {error}"))?;
        let server = Arc::new(server);
        let metrics =
            options.metrics.as_ref().map(|to| Metrics::start(to, Servers::new(&server, hub.as_ref()))).transpose()?;
        streams.pulls.lead_to(&server);
        streams.inputs.lead_to(&server);
        if let Some(hub) = &hub {
            let plan = NodePlan { servers: &job.server, names: &job.nodes, job_memory };
            hub.start(&server, &plan, |node| job.session.of_node(node).top().to_owned())?;
            let hub = Arc::downgrade(hub);
            streams.pulls.lead_on(move |source, channels, bytes, infos| {
                if let Some(hub) = hub.upgrade() {
                    let length = bytes.len();
                    let (source, bytes, infos) = (source.clone(), bytes.to_vec(), infos.to_vec());
                    let call = move || Call::Deliver {
                        source: source.clone(),
                        channels: channels.0,
                        bytes: bytes.clone(),
                        infos: infos.clone(),
                    };
                    hub.deliver(length, call);
                }
            });
        }
        let place = topology.wait()?;
        host::register_supported(&server)?;
        Ok(Self { server, published, credentials, record, place, hub, refusal, names, metrics })
    }

    /// Returns the address at which tools reach the run: as one line, or as the lines of a file for tools on any library.
    pub fn address(&self, in_a_line: bool) -> Option<String> {
        let uri = || self.server.uri().map(ToString::to_string);
        if in_a_line { uri() } else { self.server.report().map(|text| text.trim_end().to_owned()) }
    }

    /// Tells the server of a job whose ranks are to be started.
    pub fn register(&self, job: &Job) -> Result<(), Status> {
        let (done, registered) = mpsc::channel();
        self.names.add(&job.nspace);
        if let Some(parent) = job.parent.as_ref().filter(|parent| !self.names.has_tool(&parent.nspace)) {
            self.published.namespace_led_by(&job.nspace, &parent.nspace);
        }
        if let Some(hub) = &self.hub {
            hub.place(&job.nspace, job.homes().to_vec());
            hub.ask_all(|node| {
                let procs = job.ranks_on(node as u32).iter().map(|rank| job.proc(*rank)).collect();
                Call::RegisterClients { procs, uid: getuid().as_raw(), gid: getgid().as_raw() }
            })?;
            hub.ask_all(|_| Call::Support { nspace: job.nspace.clone(), infos: job.said.clone() })?;
        }
        for &rank in job.ranks_on(OWN as u32) {
            let done = done.clone();
            let done = move |result| {
                let _ = done.send(result);
            };
            self.server.register_client(&job.proc(rank), getuid().as_raw(), getgid().as_raw()).then(done)?;
        }
        drop(done);
        self.server.setup_local_support(&job.nspace, &job.said).wait()?;
        self.inform(job)?;
        registered.into_iter().collect()
    }

    /// Tells the server what there is to know of a job.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn inform(&self, job: &Job) -> Result<(), Status> {
        let is_told = |info: &&Info| info.key == keys::COSPAWN_APP;
        let infos = |node: usize| {
            let mut infos = job.infos(self.place.as_ref(), node as u32);
            infos.extend(job.said.iter().filter(is_told).chain(job.stops.infos()).cloned());
            infos.extend(job.daemons.iter().flat_map(Daemons::infos));
            infos.extend(preput(job));
            infos
        };
        if let Some(hub) = &self.hub {
            let local = |node: usize| job.ranks_on(node as u32).len() as u32;
            let nspace = &job.nspace;
            hub.ask_all(|node| Call::Register { nspace: nspace.clone(), local: local(node), infos: infos(node) })?;
        }
        self.server.register_nspace(&job.nspace, job.ranks_on(OWN as u32).len(), &infos(OWN)).wait()
    }

    /// Expects a rank that has ended to come again, so that the others wait for it.
    pub fn expect(&self, job: &Job, rank: u32) -> Result<(), Status> {
        let proc = job.proc(rank);
        if let Some((hub, node)) = self.elsewhere(job.node_of(rank)) {
            hub.ask_now(node, Call::DeregisterClient(proc.clone()))?;
            let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
            hub.ask_now(node, Call::RegisterClients { procs: vec![proc], uid, gid })?;
            hub.expect(&job.proc(rank), node);
            return Ok(());
        }
        // The process that has ended is none of the job's any more.
        self.server.deregister_client(&proc).wait()?;
        self.server.register_client(&proc, getuid().as_raw(), getgid().as_raw()).wait()?;
        if let Some(hub) = &self.hub {
            hub.expect(&proc, OWN);
        }
        Ok(())
    }

    /// Registers a job of the user, with its process sets.
    ///
    /// # Errors
    /// A line that says why the server refuses it.
    pub fn introduce(&self, job: &Job) -> Result<(), String> {
        self.register(job).map_err(|status| format!("the PMIx server refuses the job: {}", self.refusal(status)))?;
        self.define_sets(job).map_err(|(status, name)| match status {
            Status::ERR_EXISTS => format!("--pset {name}: another job has a process set of that name"),
            status => format!("the PMIx server refuses the process set {name}: {status}"),
        })
    }

    /// Says why the server has refused to register a job, where there are words for it.
    fn refusal(&self, status: Status) -> String {
        let reason = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
        reason.map_or_else(|| status.to_string(), |reason| format!("{status}, {reason}"))
    }

    /// Defines the process sets of a job; all of them, or none.
    ///
    /// # Errors
    /// `ERR_EXISTS` for a name that is taken, with that name.
    pub fn define_sets<'a>(&self, job: &'a Job) -> Result<(), (Status, &'a Text)> {
        for (at, set) in job.psets.iter().enumerate() {
            let members: Vec<Proc> = set.ranks().map(|rank| job.proc(rank)).collect();
            let others = self.hub.as_ref().map_or(Ok(()), |hub| {
                hub.ask_all(|_| Call::DefineSet { name: set.name.clone(), members: members.clone() })
            });
            if let Err(status) = others.and_then(|()| self.server.define_process_set(&set.name, &members).wait()) {
                self.delete_sets(&job.psets[..at]);
                return Err((status, &set.name));
            }
        }
        Ok(())
    }

    fn delete_sets(&self, sets: &[ProcessSet]) {
        for set in sets {
            if let Some(hub) = &self.hub {
                hub.tell_all(|| Call::DeleteSet(set.name.clone()));
            }
            // A server that has ended has none.
            let _ = self.server.delete_process_set(&set.name).then(|_| ());
        }
    }

    /// Adds what a rank needs to find the server.
    pub fn set_up(&self, job: &Job, rank: u32, environment: &mut Environment) -> Result<(), Status> {
        let proc = job.proc(rank);
        let Some((hub, node)) = self.elsewhere(job.node_of(rank)) else {
            return self.server.setup_fork(&proc, environment);
        };
        let Given::Variables(variables) = hub.ask_now(node, Call::SetUpFork(proc))? else {
            return Err(Status::ERR_BAD_PARAM);
        };
        let text = OsString::from_vec;
        environment.extend(variables.into_iter().map(|(name, value)| (text(name), text(value))));
        Ok(())
    }

    /// The way to a node's server, unless that is our own.
    fn elsewhere(&self, node: u32) -> Option<(&Hub, usize)> {
        self.hub.as_deref().map(|hub| (hub, node as usize)).filter(|(_, node)| *node != OWN)
    }

    /// A process has ended, of which it is asked whether it was a node that is missed. Returns its number.
    pub fn node_ended(&self, pid: Pid) -> Option<u32> {
        let hub = self.hub.as_ref().filter(|hub| !hub.is_over())?;
        let node = hub.node_with(pid)?;
        hub.lose(node);
        Some(node as u32)
    }

    /// The process of a node that can be killed alone.
    ///
    /// # Errors
    /// A line that says why there is none.
    pub fn node_process(&self, node: u32) -> Result<Pid, String> {
        let hub = self.hub.as_ref().ok_or("it simulates no nodes; see --nodes")?;
        match node as usize {
            OWN => Err("node 0 is the launcher's own, and ends with it".to_owned()),
            node if hub.is_down(node) => Err(format!("node {node} is down already")),
            node => hub.pid_of(node).ok_or_else(|| format!("there is no node {node}")),
        }
    }

    /// The nodes on which jobs may be started.
    pub fn nodes_up(&self) -> Vec<u32> {
        self.hub.as_ref().map_or_else(|| vec![0], |hub| hub.up())
    }

    /// A node is lost, and all others hear of it.
    pub fn node_down(&self, job: &Job, node: u32) {
        let infos = vec![
            Info::new(keys::NODEID, node),
            Info::new(keys::HOSTNAME, job.nodes[node as usize].as_str()),
            Info::new(keys::EVENT_NON_DEFAULT, true),
        ];
        self.spread(&nobody(), Status::EVENT_NODE_DOWN, DataRange::GLOBAL, &infos);
    }

    /// Has the other nodes end, once no rank is left.
    pub fn end_nodes(&self) {
        if let Some(hub) = &self.hub {
            hub.finish();
        }
    }

    /// A rank's process has ended. Calls `done` once everything that it has sent before is carried out, or its server is
    /// lost.
    pub fn hear_out(&self, job: &Job, proc: &Proc, done: impl FnOnce() + Clone + Send + 'static) {
        let (hub, ended) = (self.hub.clone(), proc.clone());
        let done = move || {
            hub.iter().for_each(|hub| hub.has_ended(&ended));
            done();
        };
        match self.elsewhere(job.node_of(proc.rank.0)) {
            Some((hub, node)) => hub.ask(node, Call::Died(proc.clone()), move |_| done()),
            None => {
                let heard = done.clone();
                if self.server.hear_out(proc).then(move |_| heard()).is_err() {
                    done();
                }
            }
        }
    }

    /// A rank or a tool is gone: it waits for no published data.
    pub fn gone(&self, proc: &Proc) {
        self.published.process_ended(proc);
        self.credentials.process_ended(proc);
    }

    /// Returns whether the job, or an application of tools, of a process is not over.
    pub fn knows(&self, proc: &Proc) -> bool {
        self.names.check(std::slice::from_ref(proc)).is_ok()
    }

    /// A tool is gone, and its application with the last one of its namespace. Returns whether it was that.
    pub fn tool_gone(&self, tool: &Proc) -> bool {
        self.gone(tool);
        let is_last = !self.names.has_tool(&tool.nspace);
        if is_last {
            // Its clean-ups have begun, and are done before the server ends.
            self.record.forget(&tool.nspace);
            self.published.namespace_ended(&tool.nspace);
        }
        is_last
    }

    /// All processes of a job have been started, and its parent wants to hear of that. One that steers the run is told
    /// of the second in any case.
    pub fn job_started(&self, job: &Job) {
        let told = [Status::EVENT_JOB_START, Status::LAUNCH_COMPLETE].into_iter();
        for status in told.filter(|status| job.steerer.is_none() || *status != Status::LAUNCH_COMPLETE) {
            self.tell_parent(job, status, &job.all(), vec![Info::new(keys::NSPACE, Value::string(&job.nspace))]);
        }
    }

    /// The last process of a job has ended, which has that exit status, where one can be told.
    pub fn job_ended(&self, job: &Job, (status, code): (Status, Option<i32>), tells: Tells) {
        self.published.namespace_ended(&job.nspace);
        if tells.is_silent && status == Status::SUCCESS {
            return;
        }
        let name = Info::new(keys::NSPACE, Value::string(&job.nspace));
        let mut more = vec![Info::new(keys::JOB_TERM_STATUS, status), name];
        more.extend(code.map(|code| Info::new(keys::EXIT_CODE, code)));
        if tells.job_events {
            self.tell_parent(job, Status::EVENT_JOB_END, &job.all(), more);
        } else if let Some(parent) = job.starter().filter(|_| tells.completion) {
            self.raise(vec![parent.clone()], Status::EVENT_JOB_END, &job.all(), more);
        }
    }

    /// The last process of a job has ended that daemons have looked into. To them that comes from the job.
    pub fn target_ended(&self, job: &Job, status: Status, daemons: Vec<Proc>) {
        let name = Info::new(keys::NSPACE, Value::string(&job.nspace));
        let more = vec![Info::new(keys::JOB_TERM_STATUS, status), name, Info::new(keys::EVENT_NON_DEFAULT, true)];
        self.event_from(&job.all(), daemons, Status::EVENT_JOB_END, &job.all(), more);
    }

    /// A process has ended. `parent_asked` says whether the job's parent wants to hear of it, and `members` are those
    /// that go on without it.
    pub fn process_ended(&self, job: &Job, ended: &ProcessEnd, parent_asked: bool, members: Vec<Proc>) {
        let code = match ended.end {
            End::Code(code) => code,
            End::Signal(signal) => signal,
        };
        let more = vec![Info::new(keys::PROC_TERM_STATUS, ended.status()), Info::new(keys::EXIT_CODE, code)];
        if parent_asked {
            self.tell_parent(job, Status::EVENT_PROC_TERMINATED, &ended.proc, more.clone());
        }
        if !members.is_empty() {
            // MPI libraries that survive failures look for the second.
            for status in [Status::EVENT_PROC_TERMINATED, Status::ERR_PROC_ABORTED] {
                self.raise(members.clone(), status, &ended.proc, more.clone());
            }
        }
    }

    /// Tells the parent of a job what it has asked to be told, whatever handlers it has for that.
    fn tell_parent(&self, job: &Job, status: Status, affected: &Proc, more: Vec<Info>) {
        match (&job.parent, &job.steerer) {
            (Some(parent), _) => self.event(vec![parent.clone()], status, affected, more),
            // One that steers the run has handlers for the events of its own end, and others.
            (None, Some(tool)) => self.raise(vec![tool.clone()], status, affected, more),
            (None, None) => {}
        }
    }

    /// A process has ended between Init and Finalize, or called Finalize without having disconnected; processes connected
    /// with it hear of that.
    pub fn left_without_a_word(&self, proc: &Proc, connected: Vec<Proc>) {
        self.raise(connected, Status::ERR_INVALID_TERMINATION, proc, Vec::new());
    }

    /// A process waits for a debugger somewhere; the process that has started its job hears of it, or else every tool,
    /// later ones too if `is_kept`.
    pub fn rank_stopped(&self, parent: Option<&Proc>, rank: &Proc, place: Option<Info>, is_kept: bool) {
        let name = Info::new(keys::NSPACE, Value::string(&rank.nspace));
        if let Some(parent) = parent {
            let more = place.into_iter().chain([name]).collect();
            return self.raise(vec![parent.clone()], Status::READY_FOR_DEBUG, rank, more);
        }
        let mut infos = vec![Info::new(keys::EVENT_AFFECTED_PROC, rank.clone()), name];
        infos.extend([Info::new(keys::EVENT_NON_DEFAULT, true), Info::new(keys::EVENT_DO_NOT_CACHE, !is_kept)]);
        infos.extend(place);
        self.spread(&nobody(), Status::READY_FOR_DEBUG, DataRange::SESSION, &infos);
    }

    /// Every tool hears something of the launcher, those that come later as well.
    pub fn tell_tools(&self, status: Status, more: Option<Info>) {
        let infos: Vec<Info> = more.into_iter().chain([Info::new(keys::EVENT_NON_DEFAULT, true)]).collect();
        self.spread(&nobody(), status, DataRange::SESSION, &infos);
    }

    /// Releases processes that wait for a debugger, all that a name names.
    pub fn release(&self, who: &Proc) {
        self.raise(vec![who.clone()], Status::DEBUGGER_RELEASE, who, Vec::new());
    }

    /// Raises an event for handlers of these processes that are for it.
    fn raise(&self, told: Vec<Proc>, status: Status, affected: &Proc, mut more: Vec<Info>) {
        more.push(Info::new(keys::EVENT_NON_DEFAULT, true));
        self.event(told, status, affected, more);
    }

    /// Tells processes that they are to write a checkpoint.
    pub fn checkpoint(&self, targets: BTreeSet<Proc>, name: &Info) {
        for target in &targets {
            self.raise(vec![target.clone()], Status::JCTRL_CHECKPOINT, target, vec![name.clone()]);
        }
    }

    /// Raises an event for these processes.
    fn event(&self, told: Vec<Proc>, status: Status, affected: &Proc, more: Vec<Info>) {
        self.event_from(&nobody(), told, status, affected, more);
    }

    fn event_from(&self, source: &Proc, told: Vec<Proc>, status: Status, affected: &Proc, more: Vec<Info>) {
        let now = wall_clock::since_1970().as_secs();
        let mut info = vec![
            Info::new(keys::EVENT_AFFECTED_PROC, affected.clone()),
            Info::new(keys::EVENT_CUSTOM_RANGE, Value::DataArray(DataArray::of(told))),
            Info::new(keys::EVENT_TIMESTAMP, Value::Time(now as i64)),
        ];
        info.extend(more);
        self.spread(source, status, DataRange::CUSTOM, &info);
    }

    /// Raises an event of our own. Servers carry no such event on.
    fn spread(&self, source: &Proc, status: Status, range: DataRange, info: &[Info]) {
        if let Some(hub) = &self.hub {
            let proxy = Info::new(keys::EVENT_PROXY, self.server.proc());
            let infos = [info, &[proxy]].concat();
            hub.tell_all(|| Call::Event { status, source: source.clone(), range, infos: infos.clone() });
        }
        // A server that has ended has nobody to tell.
        let _ = self.server.notify_event(status, source, range, info).then(|_| ());
    }

    /// Forgets a job that is over, then removes its directories, and then calls `done`.
    pub fn forget(&self, job: &Job, done: impl FnOnce() + Send + 'static) {
        self.delete_sets(&job.psets);
        self.names.remove(&job.nspace);
        let awaited = Awaited::of(&self.record, &job.nspace, self.hub.as_ref().map_or(1, |_| job.nodes.len()));
        if let Some(hub) = &self.hub {
            hub.forget(&job.nspace);
            for node in 1..job.nodes.len() as u32 {
                let directory = job.session.of_node(node).job(job.number);
                let awaited = awaited.clone();
                hub.deregister(node as usize, &job.nspace, move |are_done| {
                    let _ = std::fs::remove_dir_all(directory);
                    if are_done {
                        awaited.done();
                    }
                });
            }
        }
        let directory = job.session.job(job.number);
        let (published, credentials, nspace) = (self.published.clone(), self.credentials.clone(), job.nspace.clone());
        let _ = self.server.deregister_nspace(&job.nspace).then(move |result| {
            if result.is_ok() {
                awaited.done();
            }
            // Removes what came between the end of the job and its processes' being cut off.
            published.namespace_ended(&nspace);
            credentials.namespace_ended(&nspace);
            // Files that cannot be removed now go with the session.
            let _ = std::fs::remove_dir_all(directory);
            done();
        });
    }

    /// Asks the servers of all nodes what ranks are at. Returns whether every one of them has answered.
    pub fn waiting(&self) -> (WaitReport, bool) {
        let told = Servers::new(&self.server, self.hub.as_ref()).waiting(REPORT);
        let is_whole = told.values().all(Option::is_some);
        let mut reports: Vec<WaitReport> = told.into_values().flatten().collect();
        missing::name_missing(&mut reports.iter_mut().collect::<Vec<_>>());
        let mut all = WaitReport::default();
        reports.into_iter().for_each(|report| all.add(report));
        (all, is_whole)
    }

    /// Returns the time at which [`expire`](Pmix::expire) is to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.published.deadline()
    }

    /// Ends what has waited for long enough.
    pub fn expire(&self, now: Instant) {
        self.published.expire(now);
    }

    /// Ends the server, after the clean-ups that ranks have asked for. Returns whether all of these are done.
    pub fn finish(self) -> bool {
        // The nodes have ended, or were killed.
        let is_complete = self.hub.as_ref().is_none_or(|hub| hub.is_over() && !hub.has_lost());
        // A tool that pulls output may still read its end, unless it reads nothing.
        let _ = self.server.iof_flush(PATIENCE).wait();
        drop(self.metrics);
        // Others hold it for the time of a call at most, and then end it.
        drop(self.server);
        is_complete
    }
}
