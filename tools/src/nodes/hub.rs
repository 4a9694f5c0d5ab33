//! The hub: the host of the servers of all nodes, in the launcher.
//!
//! Requests come from the launcher's own server, node 0, by its thread, and from the others by the threads that read
//! their links. None of these may wait. Those that concern a node or several are done here; the rest goes to the host
//! of a run of one node, whoever asks.
use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use anyhow::{Context, Result, anyhow};
use instanton::data::{App, Channels, DataRange, Info, InfoList, Nspace, Proc, Query, Rank, Status, Text, Value, keys};
use instanton::internal::sys::birth;
use instanton::server::{Accepted, Answer, Completion, Credential, Host, Infos, Published, Server};
use nix::unistd::Pid;

use super::meetings::{Answers, Kind, Meetings, Met, Part};
use super::wire::{Call, Given, Link, PATIENCE, Reply};

/// The node of the launcher's own server.
pub const OWN: usize = 0;

/// A node in a process of its own.
struct Node {
    link: Link,
    pid: Pid,
}

/// All nodes, and what they do together.
pub struct Hub {
    /// The host of a run of one node.
    inner: Arc<dyn Host>,
    own: OnceLock<Weak<Server>>,
    /// The other nodes, from the second on.
    nodes: OnceLock<Vec<Node>>,
    /// The node of each rank of each namespace.
    placement: Mutex<HashMap<Nspace, Vec<u32>>>,
    meetings: Mutex<Meetings>,
    down: Mutex<BTreeSet<usize>>,
    /// Nodes that end because they were told to.
    is_over: Mutex<bool>,
}

/// Options of the nodes' processes.
pub struct NodePlan<'a> {
    /// Namespace of the servers.
    pub servers: &'a Nspace,
    /// Names of all nodes.
    pub names: &'a [String],
    /// Most memory of a job.
    pub job_memory: u64,
}

/// The host of one node's server.
pub struct NodeHost {
    hub: Arc<Hub>,
    node: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn give(answers: Answers) {
    answers.into_iter().for_each(|(answer, result)| answer(result));
}

impl Hub {
    /// A hub of nodes that are still to be started.
    pub fn new(inner: Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            own: OnceLock::new(),
            nodes: OnceLock::new(),
            placement: Mutex::default(),
            meetings: Mutex::default(),
            down: Mutex::default(),
            is_over: Mutex::default(),
        })
    }

    /// The host for a node.
    pub fn host(self: &Arc<Self>, node: usize) -> Arc<NodeHost> {
        Arc::new(NodeHost { hub: self.clone(), node })
    }

    /// Makes this the server of node 0, and starts the processes of the others, each in its directory.
    pub fn start(
        self: &Arc<Self>,
        own: &Arc<Server>,
        plan: &NodePlan<'_>,
        directory: impl Fn(u32) -> std::path::PathBuf,
    ) -> Result<()> {
        let _ = self.own.set(Arc::downgrade(own));
        let mut nodes = Vec::new();
        for (number, name) in (0..).zip(plan.names).skip(1) {
            let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
            let pid = start(theirs.into(), number, name, plan, &directory(number)).context("cannot start a node")?;
            let host = self.host(number as usize);
            let lost = Arc::downgrade(self);
            let gone = move || {
                if let Some(hub) = lost.upgrade() {
                    hub.lose(number as usize);
                }
            };
            let link = Link::open(ours, move |call, reply| dispatch(&host, call, reply), gone)?;
            nodes.push(Node { link, pid });
        }
        self.nodes.set(nodes).map_err(|_| anyhow!("the nodes run"))
    }

    fn others(&self) -> impl Iterator<Item = (usize, &Node)> {
        (1..).zip(self.nodes.get().into_iter().flatten())
    }

    fn link(&self, node: usize) -> Result<&Link, Status> {
        let nodes = self.nodes.get().ok_or(Status::ERR_UNREACH)?;
        nodes.get(node.wrapping_sub(1)).map(|node| &node.link).ok_or(Status::ERR_UNREACH)
    }

    /// Calls a node's server, and waits.
    pub fn ask_now(&self, node: usize, call: Call) -> Result<Given, Status> {
        self.link(node)?.ask_now(call)
    }

    /// Calls the servers of all nodes but our own, and waits for the first refusal or for all of them. A node that is
    /// down is not asked.
    pub fn ask_all(&self, call: impl Fn(usize) -> Call) -> Result<(), Status> {
        let (answer, answered) = mpsc::channel();
        for (node, Node { link, .. }) in self.others().filter(|(node, _)| !self.is_down(*node)) {
            let answer = answer.clone();
            link.ask(call(node), move |result| _ = answer.send(result.map(drop)));
        }
        drop(answer);
        loop {
            match answered.recv_timeout(PATIENCE) {
                // One that dies meanwhile is found by its death.
                Ok(Ok(()) | Err(Status::ERR_LOST_CONNECTION)) => {}
                Ok(Err(status)) => return Err(status),
                Err(RecvTimeoutError::Timeout) => return Err(Status::ERR_TIMEOUT),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Calls the servers of all nodes but our own that are up, and has `take` called with each answer. Returns those that
    /// are asked.
    pub fn ask_each(
        &self,
        call: impl Fn() -> Call,
        take: impl Fn(usize, Result<Given, Status>) + Clone + Send + 'static,
    ) -> Vec<usize> {
        let up = self.others().filter(|(node, _)| !self.is_down(*node));
        up.map(|(node, Node { link, .. })| {
            let take = take.clone();
            link.ask(call(), move |given| take(node, given));
            node
        })
        .collect()
    }

    /// Calls a node's server.
    pub fn tell(&self, node: usize, call: Call) {
        if let Ok(link) = self.link(node) {
            link.ask(call, |_| ());
        }
    }

    /// Calls the servers of all nodes but our own.
    pub fn tell_all(&self, call: impl Fn() -> Call) {
        self.others().for_each(|(_, node)| node.link.ask(call(), |_| ()));
    }

    /// A job is about to be registered.
    pub fn place(&self, nspace: &Nspace, nodes: Vec<u32>) {
        lock(&self.placement).insert(nspace.clone(), nodes);
    }

    /// Has a node forget a job, and calls `done` when its clean-ups are done.
    pub fn deregister(&self, node: usize, nspace: &Nspace, done: impl FnOnce() + Send + 'static) {
        if let Ok(link) = self.link(node) {
            link.ask(Call::Deregister(nspace.clone()), move |_| done());
        }
    }

    /// A process that has ended comes again.
    pub fn expect(&self, nspace: &Nspace, node: usize) {
        let answers = lock(&self.meetings).expect(nspace, node);
        give(answers);
    }

    /// A job is over.
    pub fn forget(&self, nspace: &Nspace) {
        lock(&self.placement).remove(nspace);
        let answers = lock(&self.meetings).forget(nspace);
        give(answers);
    }

    /// The node that has this process.
    pub fn node_with(&self, pid: Pid) -> Option<usize> {
        self.others().find(|(_, node)| node.pid == pid).map(|(number, _)| number)
    }

    /// The process of a node, unless that is the launcher's own.
    pub fn pid_of(&self, node: usize) -> Option<Pid> {
        self.others().find(|(number, _)| *number == node).map(|(_, node)| node.pid)
    }

    /// Returns whether the nodes were told to end.
    pub fn is_over(&self) -> bool {
        *lock(&self.is_over)
    }

    /// Returns whether a node is lost.
    pub fn is_down(&self, node: usize) -> bool {
        lock(&self.down).contains(&node)
    }

    /// The nodes that are not lost, in order.
    pub fn up(&self) -> Vec<u32> {
        let all = std::iter::once(OWN).chain(self.others().map(|(node, _)| node));
        all.filter(|node| !self.is_down(*node)).map(|node| node as u32).collect()
    }

    /// Returns whether some node was lost.
    pub fn has_lost(&self) -> bool {
        !lock(&self.down).is_empty()
    }

    /// Nobody waits for this node any more.
    pub fn lose(&self, node: usize) {
        if self.is_over() || !lock(&self.down).insert(node) {
            return;
        }
        let answers = lock(&self.meetings).lose(node, Status::ERR_PROC_TERM_WO_SYNC);
        give(answers);
    }

    /// Ends the nodes' processes, after the clean-ups that ranks have asked for.
    pub fn finish(&self) {
        if std::mem::replace(&mut *lock(&self.is_over), true) {
            return;
        }
        for (_, Node { link, .. }) in self.others() {
            let closing = link.clone();
            link.ask(Call::Finish, move |_| closing.close());
        }
    }

    /// The nodes of processes; none where a name is not known here.
    fn nodes_of(&self, procs: &[Proc]) -> Option<BTreeSet<usize>> {
        let placement = lock(&self.placement);
        let mut nodes = BTreeSet::new();
        for proc in procs {
            let placed = placement.get(&proc.nspace)?;
            match proc.rank {
                Rank::WILDCARD => nodes.extend(placed.iter().map(|node| *node as usize)),
                Rank(rank) => nodes.extend([*placed.get(rank as usize)? as usize]),
            }
        }
        Some(nodes)
    }

    fn meet(
        &self,
        node: usize,
        kind: Kind,
        procs: &[Proc],
        info: &[Info],
        data: Vec<u8>,
        answer: super::meetings::Answer,
    ) -> Accepted {
        // Tools have no node but that at which they ask.
        let nodes = self.nodes_of(procs).unwrap_or_else(|| [node].into());
        let failed = info.find(keys::LOCAL_COLLECTIVE_STATUS).and_then(|info| info.value.as_status());
        // Those that are lost are not waited for.
        let mut nodes = nodes;
        let named = nodes.len();
        lock(&self.down).iter().for_each(|down| _ = nodes.remove(down));
        let is_lost = nodes.len() < named;
        let part = Part { data, wants_context: info.is_set(keys::GROUP_ASSIGN_CONTEXT_ID), failed };
        let lost = is_lost.then_some(Status::ERR_PROC_TERM_WO_SYNC);
        let answers = lock(&self.meetings).come(kind, procs, (nodes, lost), (node, part, answer));
        give(answers);
        Ok(Answer::Later)
    }
}

/// Starts the process of a node. It dies with the launcher.
fn start(link: OwnedFd, number: u32, name: &str, plan: &NodePlan<'_>, directory: &Path) -> Result<Pid> {
    birth::bequeath(&link)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("instanton").args(["node", "--link", &link.as_raw_fd().to_string()]);
    command.args(["--number", &number.to_string(), "--servers", &plan.servers.to_string(), "--hostname", name]);
    command.args(["--job-memory", &plan.job_memory.to_string(), "--directory"]).arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    birth::die_with_this_thread(&mut command);
    Ok(Pid::from_raw(command.spawn()?.id() as i32))
}

impl Host for NodeHost {
    fn client_connected(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        self.hub.inner.client_connected(proc, done)
    }

    fn client_finalized(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        self.hub.inner.client_finalized(proc, done)
    }

    fn client_lost(&self, proc: &Proc, status: Status) {
        self.hub.inner.client_lost(proc, status);
    }

    fn tool_connected(&self, info: &[Info], done: Completion<Proc>) -> Accepted {
        self.hub.inner.tool_connected(info, done)
    }

    fn abort(
        &self,
        proc: &Proc,
        status: i32,
        message: Option<&[u8]>,
        procs: &[Proc],
        done: Completion<()>,
    ) -> Accepted {
        self.hub.inner.abort(proc, status, message, procs, done)
    }

    fn fence_nb(&self, procs: &[Proc], info: &[Info], data: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        let answer = Box::new(move |met: Result<Met, Status>| done.complete(met.map(|met| met.data)));
        self.hub.meet(self.node, Kind::Fence, procs, info, data, answer)
    }

    fn direct_modex(&self, proc: &Proc, info: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        let nodes = self.hub.nodes_of(std::slice::from_ref(proc));
        let node = nodes.and_then(|nodes| nodes.first().copied()).ok_or(Status::ERR_NOT_FOUND)?;
        if node == OWN {
            let own = self.hub.own.get().and_then(Weak::upgrade).ok_or(Status::ERR_UNREACH)?;
            own.dmodex_request(proc, info).then(|blob| done.complete(blob))?;
            return Ok(Answer::Later);
        }
        self.hub.link(node)?.ask(Call::Dmodex { proc: proc.clone(), infos: info.to_vec() }, |given| {
            done.complete(given.and_then(|given| match given {
                Given::Bytes(bytes) => Ok(bytes),
                _ => Err(Status::ERR_BAD_PARAM),
            }));
        });
        Ok(Answer::Later)
    }

    fn publish(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        self.hub.inner.publish(proc, info, done)
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        self.hub.inner.lookup(proc, keys, info, done)
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<()>) -> Accepted {
        self.hub.inner.unpublish(proc, keys, info, done)
    }

    fn spawn(&self, proc: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        self.hub.inner.spawn(proc, job_info, apps, done)
    }

    fn connect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        let (inner, connected) = (self.hub.inner.clone(), procs.to_vec());
        let answer = Box::new(move |met: Result<Met, Status>| {
            let met = met.map(drop);
            if met.is_ok() {
                let _ = inner.connect(&connected, &[], Completion::new(|_| ()));
            }
            done.complete(met);
        });
        self.hub.meet(self.node, Kind::Connect, procs, info, Vec::new(), answer)
    }

    fn disconnect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        let (inner, disconnected) = (self.hub.inner.clone(), procs.to_vec());
        let answer = Box::new(move |met: Result<Met, Status>| {
            let _ = inner.disconnect(&disconnected, &[], Completion::new(|_| ()));
            done.complete(met.map(drop));
        });
        self.hub.meet(self.node, Kind::Disconnect, procs, info, Vec::new(), answer)
    }

    fn register_events(&self, codes: &[Status], info: &[Info], done: Completion<()>) -> Accepted {
        self.hub.inner.register_events(codes, info, done)
    }

    fn deregister_events(&self, codes: &[Status], done: Completion<()>) -> Accepted {
        self.hub.inner.deregister_events(codes, done)
    }

    /// The other nodes hear of it, and the launcher.
    fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: DataRange,
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        for (_, node) in self.hub.others().filter(|(node, _)| *node != self.node) {
            node.link.ask(Call::Event { status, source: source.clone(), range, infos: info.to_vec() }, |_| ());
        }
        if self.node != OWN
            && let Some(own) = self.hub.own.get().and_then(Weak::upgrade)
        {
            let _ = own.notify_event(status, source, range, info).then(|_| ());
        }
        self.hub.inner.notify_event(status, source, range, info, done)
    }

    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        self.hub.inner.query(proc, queries, done)
    }

    fn log(&self, client: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        self.hub.inner.log(client, data, directives, done)
    }

    fn job_control(
        &self,
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.hub.inner.job_control(requestor, targets, directives, done)
    }

    fn allocate(&self, client: &Proc, directive: u8, data: &[Info], done: Completion<Infos>) -> Accepted {
        self.hub.inner.allocate(client, directive, data, done)
    }

    fn session_control(&self, proc: &Proc, session: u32, directives: &[Info], done: Completion<Infos>) -> Accepted {
        self.hub.inner.session_control(proc, session, directives, done)
    }

    fn get_credential(&self, proc: &Proc, directives: &[Info], done: Completion<Credential>) -> Accepted {
        self.hub.inner.get_credential(proc, directives, done)
    }

    fn validate_credential(
        &self,
        proc: &Proc,
        credential: &[u8],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.hub.inner.validate_credential(proc, credential, directives, done)
    }

    fn not_registered(&self, nspace: &Nspace, reason: &str) {
        self.hub.inner.not_registered(nspace, reason);
    }

    fn iof_pull(&self, procs: &[Proc], directives: &[Info], channels: Channels, done: Completion<()>) -> Accepted {
        self.hub.inner.iof_pull(procs, directives, channels, done)
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        directives: &[Info],
        bytes: &[u8],
        done: Completion<()>,
    ) -> Accepted {
        self.hub.inner.push_stdin(source, targets, directives, bytes, done)
    }

    /// All members are named: the nodes of the members meet.
    fn group(
        &self,
        operation: i64,
        group: &Nspace,
        procs: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        let by_leaders = [keys::GROUP_BOOTSTRAP, keys::GROUP_ADD_MEMBERS];
        if procs.is_empty() || by_leaders.iter().any(|key| directives.find(key).is_some()) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let data = directives.find(keys::GROUP_ENDPT_DATA).and_then(|info| info.value.as_bytes());
        let data = data.map(<[u8]>::to_vec).unwrap_or_default();
        let answer = Box::new(move |met: Result<Met, Status>| {
            let infos = |met: Met| {
                let context = met.context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context as u64)));
                let data = (!met.data.is_empty()).then(|| Info::new(keys::GROUP_ENDPT_DATA, Value::from(met.data)));
                (Status::SUCCESS, context.into_iter().chain(data).collect())
            };
            done.complete(met.map(infos));
        });
        self.hub.meet(self.node, Kind::Group(operation, group.clone()), procs, directives, data, answer)
    }

    fn cleanup_registered(&self, proc: &Proc, directives: &[Info]) {
        self.hub.inner.cleanup_registered(proc, directives);
    }
}

/// Does what the server of a node calls its host for.
fn dispatch(host: &NodeHost, call: Call, reply: Reply) {
    let nothing = |()| Given::Nothing;
    let infos = |(status, infos): Infos| Given::Infos(status, infos);
    let no_infos = || (Status::SUCCESS, Vec::new());
    match call {
        Call::Connected(proc) => answer(reply, (), nothing, |done| host.client_connected(&proc, done)),
        Call::Finalized(proc) => answer(reply, (), nothing, |done| host.client_finalized(&proc, done)),
        Call::Lost(proc, status) => host.client_lost(&proc, status),
        Call::Abort { proc, status, message, procs } => {
            answer(reply, (), nothing, |done| host.abort(&proc, status, message.as_deref(), &procs, done));
        }
        Call::Fence { procs, infos, data } => {
            answer(reply, Vec::new(), Given::Bytes, |done| host.fence_nb(&procs, &infos, data, done));
        }
        Call::DirectModex { proc, infos } => {
            answer(reply, Vec::new(), Given::Bytes, |done| host.direct_modex(&proc, &infos, done));
        }
        Call::Publish { proc, infos } => answer(reply, (), nothing, |done| host.publish(&proc, &infos, done)),
        Call::Lookup { proc, keys, infos } => {
            let published = |(status, data)| Given::Published(status, data);
            let none = (Status::SUCCESS, Vec::new());
            answer(reply, none, published, |done| host.lookup(&proc, &keys, &infos, done));
        }
        Call::Unpublish { proc, keys, infos } => {
            answer(reply, (), nothing, |done| host.unpublish(&proc, &keys, &infos, done));
        }
        Call::Spawn { proc, infos, apps } => {
            let nobody = proc.nspace.clone();
            answer(reply, nobody, Given::Name, |done| host.spawn(&proc, &infos, &apps, done));
        }
        Call::Connect { procs, infos } => answer(reply, (), nothing, |done| host.connect(&procs, &infos, done)),
        Call::Disconnect { procs, infos } => answer(reply, (), nothing, |done| host.disconnect(&procs, &infos, done)),
        Call::Event { status, source, range, infos } => {
            answer(reply, (), nothing, |done| host.notify_event(status, &source, range, &infos, done));
        }
        Call::Query { proc, queries } => answer(reply, no_infos(), infos, |done| host.query(&proc, &queries, done)),
        Call::Log { proc, data, infos } => answer(reply, (), nothing, |done| host.log(&proc, &data, &infos, done)),
        Call::Control { proc, targets, infos: directives } => {
            answer(reply, no_infos(), infos, |done| host.job_control(&proc, &targets, &directives, done));
        }
        Call::IofPull { procs, infos, channels } => {
            answer(reply, (), nothing, |done| host.iof_pull(&procs, &infos, Channels(channels), done));
        }
        Call::PushStdin { source, targets, infos, bytes } => {
            answer(reply, (), nothing, |done| host.push_stdin(&source, &targets, &infos, &bytes, done));
        }
        Call::Group { operation, group, procs, infos: directives } => {
            answer(reply, no_infos(), infos, |done| host.group(operation, &group, &procs, &directives, done));
        }
        Call::Allocate { proc, directive, infos: data } => {
            answer(reply, no_infos(), infos, |done| host.allocate(&proc, directive, &data, done));
        }
        Call::Session { proc, session, infos: directives } => {
            answer(reply, no_infos(), infos, |done| host.session_control(&proc, session, &directives, done));
        }
        Call::GetCredential { proc, infos } => {
            let credential = |(credential, infos)| Given::Credential(credential, infos);
            answer(reply, (Vec::new(), Vec::new()), credential, |done| host.get_credential(&proc, &infos, done));
        }
        Call::Validate { proc, credential, infos: directives } => {
            let ask = |done| host.validate_credential(&proc, &credential, &directives, done);
            answer(reply, no_infos(), infos, ask);
        }
        Call::CleanUp { proc, infos } => host.cleanup_registered(&proc, &infos),
        _ => reply(Err(Status::ERR_NOT_SUPPORTED)),
    }
}

/// Asks the host, and leads its answer back however it comes; `nothing` is what is given by one that is done already.
fn answer<T: 'static>(
    reply: Reply,
    nothing: T,
    give: impl Fn(T) -> Given + Send + 'static + Copy,
    ask: impl FnOnce(Completion<T>) -> Accepted,
) {
    let way = Arc::new(Mutex::new(Some(reply)));
    let back = way.clone();
    let accepted = ask(Completion::new(move |result: Result<T, Status>| {
        if let Some(reply) = lock(&back).take() {
            reply(result.map(give));
        }
    }));
    let result = match accepted {
        Ok(Answer::Later) => return,
        Ok(Answer::Done) => Ok(give(nothing)),
        Err(status) => Err(status),
    };
    let reply = lock(&way).take();
    if let Some(reply) = reply {
        reply(result);
    }
}
