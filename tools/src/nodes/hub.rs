//! The hub: all nodes of a run, in the launcher, and what they do together.
//!
//! Requests come from the launcher's own server, node 0, by its thread, and from the others by the threads that read
//! their links. None of these may wait. The [host](super::host) of each server brings them here.
use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use anyhow::{Context, Result, anyhow};
use instanton::data::{DataRange, Info, InfoList, Nspace, Proc, Status, keys};
use instanton::internal::sys::birth;
use instanton::server::{
    Accepted, Answer, FAILURE_IS_KNOWN, GroupNews, Host, Server, group_news, guest_failed, leader_lost, member_failed,
};
use nix::unistd::Pid;

use super::census::Census;
use super::dispatch::dispatch;
use super::events::{self, Events};
use super::host::NodeHost;
use super::invitations::{Invitations, Lost};
use super::meetings::{Answers, Kind, Meetings, MembersFailed, Part};
use super::under_way::UnderWay;
use super::wire::{Call, Given, Link, PATIENCE};
use crate::names::Names;

/// The node of the launcher's own server.
pub const OWN: usize = 0;

/// Attributes that say that a group goes on without members that are gone.
const EXCUSES: [&str; 3] = [keys::GROUP_OPTIONAL, keys::GROUP_NOTIFY_TERMINATION, keys::GROUP_FT_COLLECTIVE];
/// Attributes of collectives that are served, by the servers of the nodes or by the hub.
const SERVED: [&str; 10] = [
    keys::COLLECT_DATA,
    keys::COLLECT_GENERATED_JOB_INFO,
    keys::GROUP_ASSIGN_CONTEXT_ID,
    keys::GROUP_ENDPT_DATA,
    keys::GROUP_FINAL_MEMBERSHIP_ORDER,
    keys::GROUP_FT_COLLECTIVE,
    keys::GROUP_LEADER,
    keys::GROUP_LOCAL_ONLY,
    keys::GROUP_NOTIFY_TERMINATION,
    keys::GROUP_OPTIONAL,
];

/// A node in a process of its own.
struct Node {
    link: Link,
    pid: Pid,
    output: Arc<UnderWay>,
}

/// Places of the processes, and the collectives under way.
#[derive(Default)]
struct State {
    census: Census,
    meetings: Meetings,
    invitations: Invitations,
    /// Nodes whose servers know the tools of a namespace that are on other nodes.
    introduced: HashMap<Nspace, BTreeSet<usize>>,
}

/// All nodes, and what they do together.
pub struct Hub {
    /// The host of a run of one node.
    pub(super) inner: Arc<dyn Host>,
    names: Arc<Names>,
    own: OnceLock<Weak<Server>>,
    /// The other nodes, from the second on.
    nodes: OnceLock<Vec<Node>>,
    state: Mutex<State>,
    /// Held by who changes the state until the answers are given that come of that: what comes later is told later.
    turn: Mutex<()>,
    /// Events of ranks that other nodes have not taken yet.
    events: Arc<Events>,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A hub of nodes that are still to be started.
    pub fn new(inner: Arc<dyn Host>, names: Arc<Names>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            names,
            own: OnceLock::new(),
            nodes: OnceLock::new(),
            state: Mutex::default(),
            turn: Mutex::default(),
            events: Arc::default(),
            is_over: Mutex::default(),
        })
    }

    /// The host for a node.
    pub fn host(self: &Arc<Self>, node: usize) -> Arc<NodeHost> {
        Arc::new(NodeHost::new(self.clone(), node))
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
            nodes.push(Node { link, pid, output: Arc::default() });
        }
        self.nodes.set(nodes).map_err(|_| anyhow!("the nodes run"))
    }

    /// The server of node 0, unless it has ended.
    pub(super) fn own(&self) -> Option<Arc<Server>> {
        self.own.get().and_then(Weak::upgrade)
    }

    fn others(&self) -> impl Iterator<Item = (usize, &Node)> {
        (1..).zip(self.nodes.get().into_iter().flatten())
    }

    /// The way to a node's server.
    pub(super) fn link(&self, node: usize) -> Result<&Link, Status> {
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

    /// Calls a node's server, and has `take` called with the answer.
    pub fn ask(&self, node: usize, call: Call, take: impl FnOnce(Result<Given, Status>) + Send + 'static) {
        match self.link(node) {
            Ok(link) => link.ask(call, take),
            Err(status) => take(Err(status)),
        }
    }

    /// Calls the servers of all nodes but our own.
    pub fn tell_all(&self, call: impl Fn() -> Call) {
        self.others().for_each(|(_, node)| node.link.ask(call(), |_| ()));
    }

    /// Returns the bytes of an event that a process has raised for each node but our own and this one, which are noted as
    /// on their way.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` where nodes have not taken much that processes of its job have raised before.
    pub fn room_for(&self, node: usize, source: &Proc, infos: &[Info]) -> Result<usize, Status> {
        let nodes = self.others().filter(|(other, _)| *other != node).count();
        let bytes = events::bytes_of(infos);
        let has_room = self.events.take(&source.nspace, bytes * nodes);
        has_room.then_some(bytes).ok_or(Status::ERR_OUT_OF_RESOURCE)
    }

    /// Hands an event that there is [room](Self::room_for) for to the servers of those nodes.
    pub fn tell_of(&self, node: usize, source: &Proc, bytes: usize, call: impl Fn() -> Call) {
        for (_, Node { link, .. }) in self.others().filter(|(other, _)| *other != node) {
            let (events, job) = (self.events.clone(), source.nspace.clone());
            link.ask(call(), move |_| events.give(&job, bytes));
        }
    }

    /// Hands output, of so many bytes, to the servers of all nodes but our own, as far as they take it.
    pub fn deliver(&self, bytes: usize, call: impl Fn() -> Call) {
        for (_, Node { link, output, .. }) in self.others() {
            if output.take(bytes) {
                let output = output.clone();
                link.ask(call(), move |_| output.give(bytes));
            }
        }
    }

    /// A job is about to be registered.
    pub fn place(&self, nspace: &Nspace, nodes: Vec<u32>) {
        lock(&self.state).census.place(nspace, nodes);
    }

    /// Has a node forget a job, and calls `done` when its clean-ups are done, or not all of them because it is lost.
    pub fn deregister(&self, node: usize, nspace: &Nspace, done: impl FnOnce(bool) + Send + 'static) {
        if let Ok(link) = self.link(node) {
            link.ask(Call::Deregister(nspace.clone()), move |result| done(result.is_ok()));
        }
    }

    /// A process has ended, and was heard out.
    pub fn has_ended(&self, proc: &Proc) {
        self.with(|State { census, meetings, .. }| {
            census.has_ended(proc);
            meetings.count(census)
        });
    }

    /// A process that has ended comes again.
    pub fn expect(&self, proc: &Proc, node: usize) {
        self.with(|State { census, meetings, .. }| {
            census.expect(proc);
            meetings.expect(&proc.nspace, node)
        });
    }

    /// A tool is let in by the server of a node.
    pub(super) fn admit(&self, tool: &Proc, node: usize) {
        self.with(|State { census, introduced, .. }| {
            census.admit(tool, node as u32);
            let others = introduced.get(&tool.nspace).into_iter().flatten().filter(|other| **other != node);
            others.for_each(|other| self.tell_of_tool(*other, tool, true));
            Answers::new()
        });
    }

    /// Has a node's server know the tools of a namespace, if it is one of tools. Returns whether it is.
    pub(super) fn introduce(&self, node: usize, nspace: &Nspace) -> bool {
        let mut state = lock(&self.state);
        let Some(tools) = state.census.tools_of(nspace) else { return false };
        if state.introduced.entry(nspace.clone()).or_default().insert(node) {
            let others = tools.iter().filter(|(_, other)| *other != node);
            others.for_each(|(tool, _)| self.tell_of_tool(node, tool, true));
        }
        true
    }

    /// Tells a node's server of a tool of another node that has come, or is gone. The state is locked by the caller, so
    /// that the server hears that in the order in which it happens.
    fn tell_of_tool(&self, node: usize, tool: &Proc, has_come: bool) {
        if let Ok(link) = self.link(node) {
            let call = if has_come { Call::Tool } else { Call::ToolGone };
            link.ask(call(tool.clone()), |_| ());
        } else if let Some(own) = self.own() {
            let told = if has_come { own.add_remote_tool(tool) } else { own.remove_remote_tool(tool) };
            // A server that has ended has nobody who waits.
            let _ = told.then(|_| ());
        }
    }

    /// A process may have been a tool, which is gone then; its namespace goes with the last of its tools.
    pub(super) fn tool_gone(&self, proc: &Proc) {
        if self.names.number(&proc.nspace).is_none() {
            if self.names.has_tool(&proc.nspace) {
                self.has_ended(proc);
            } else {
                self.with(|State { census, meetings, .. }| {
                    census.forget(&proc.nspace);
                    meetings.tools_gone(&proc.nspace)
                });
            }
            self.tell_of_end(proc);
        }
    }

    /// Tells the servers that know a tool that it is gone, behind the answers that come of that, unless it has come
    /// again.
    fn tell_of_end(&self, tool: &Proc) {
        let mut state = lock(&self.state);
        if state.census.is_left(tool) {
            return;
        }
        let told = state.introduced.get(&tool.nspace);
        told.into_iter().flatten().for_each(|node| self.tell_of_tool(*node, tool, false));
        if state.census.tools_of(&tool.nspace).is_none() {
            state.introduced.remove(&tool.nspace);
        }
    }

    /// A job is over.
    pub fn forget(&self, nspace: &Nspace) {
        self.with(|State { census, meetings, invitations, .. }| {
            census.forget(nspace);
            invitations.forget(nspace);
            meetings.forget(nspace)
        });
    }

    /// Changes what is known, and gives the answers that come of it, all before the next change: a process may end its
    /// job with the first of them, and no node hears of that end before its own answer.
    fn with(&self, change: impl FnOnce(&mut State) -> Answers) {
        let _turn = lock(&self.turn);
        let (answers, failed) = {
            let mut state = lock(&self.state);
            (change(&mut state), state.meetings.take_failed())
        };
        failed.into_iter().for_each(|failed| self.tell_of_failed(&failed));
        answers.into_iter().for_each(|(answer, result)| answer(result));
    }

    /// Asks those who are to know of members of a group under construction that are gone, each at its own server.
    fn tell_of_failed(&self, MembersFailed { group, gone, asked }: &MembersFailed) {
        for source in gone {
            let infos = |own: &Proc| member_failed(own, group, source, asked.clone());
            self.raise(Status::GROUP_MEMBER_FAILED, source, infos);
        }
    }

    /// Says of an invitation what the server of a lost node would have said.
    fn tell_of_lost(&self, lost: Lost) {
        match lost {
            Lost::Leader { group, leader, guests } => {
                let infos = |own: &Proc| leader_lost(own, &group, &leader, guests);
                self.raise(Status::GROUP_CONSTRUCT_ABORT, &leader, infos);
            }
            Lost::Guest { group, guest, leader } => {
                let infos = |own: &Proc| guest_failed(own, &group, &guest, leader);
                self.raise(Status::GROUP_INVITE_FAILED, &guest, infos);
            }
        }
    }

    /// Raises an event of a group at all servers. `infos` has the name of our own.
    fn raise(&self, status: Status, source: &Proc, infos: impl FnOnce(&Proc) -> Vec<Info>) {
        let Some(own) = self.own() else { return };
        let (infos, range) = (infos(&own.proc()), DataRange::CUSTOM);
        self.tell_all(|| Call::Event { status, source: source.clone(), range, infos: infos.clone() });
        // A server that has ended has nobody to tell.
        let _ = own.notify_event(status, source, range, &infos).then(|_| ());
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
        lock(&self.state).census.is_down(node)
    }

    /// The nodes that are not lost, in order.
    pub fn up(&self) -> Vec<u32> {
        let all = std::iter::once(OWN).chain(self.others().map(|(node, _)| node));
        all.filter(|node| !self.is_down(*node)).map(|node| node as u32).collect()
    }

    /// Returns whether some node was lost.
    pub fn has_lost(&self) -> bool {
        lock(&self.state).census.has_lost()
    }

    /// Nobody waits for this node any more, and its tools are gone.
    pub fn lose(&self, node: usize) {
        if self.is_over() {
            return;
        }
        self.with(|State { census, meetings, .. }| {
            census.lose(node);
            meetings.count(census)
        });
        let lost = {
            let State { census, invitations, .. } = &mut *lock(&self.state);
            invitations.lose(node, census)
        };
        lost.into_iter().for_each(|lost| self.tell_of_lost(lost));
        let tools = lock(&self.state).census.tools_on(node);
        for tool in tools {
            self.inner.client_lost(&tool, Status::ERR_LOST_CONNECTION);
            self.tool_gone(&tool);
        }
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
    pub(super) fn nodes_of(&self, procs: &[Proc]) -> Option<BTreeSet<usize>> {
        lock(&self.state).census.nodes_of(procs)
    }

    /// Processes by their ranks.
    pub(super) fn by_rank(&self, procs: &[Proc]) -> Vec<Proc> {
        lock(&self.state).census.by_rank(procs)
    }

    /// A server has raised an event, which may be about a group.
    pub(super) fn hear(&self, status: Status, source: &Proc, info: &[Info]) {
        let Some(group) = group_of(info) else { return };
        let range = info.find(keys::EVENT_CUSTOM_RANGE).and_then(|info| info.value.as_procs()).unwrap_or_default();
        self.with(|State { census, meetings, invitations, .. }| match (status, group_news(status, source, info)) {
            (Status::GROUP_INVITED, _) => {
                invitations.invite(&group, source, range, census);
                Answers::new()
            }
            (Status::GROUP_INVITE_ACCEPTED, _) => {
                invitations.accept(&group, source, census);
                Answers::new()
            }
            (Status::GROUP_INVITE_DECLINED | Status::GROUP_INVITE_FAILED, _) => {
                invitations.decline(&group, source);
                Answers::new()
            }
            (_, Some((_, GroupNews::Led(leader)))) => {
                leader.iter().for_each(|leader| invitations.follow(&group, leader));
                meetings.lead(&group, leader);
                Answers::new()
            }
            (_, Some((_, GroupNews::Decided { dead, by }))) => meetings.decide(&group, &dead, &by, census),
            (Status::GROUP_LEFT, _) => meetings.leave(&group, source, census),
            (Status::GROUP_CONSTRUCT_ABORT, _) => {
                invitations.dismiss(&group, source, &range);
                meetings.give_up(&group, source, census)
            }
            (Status::GROUP_CONSTRUCT_COMPLETE, _) => {
                let members = info.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs());
                let members = members.unwrap_or_default();
                meetings.made(&group, &members, invitations.complete(&group, source, &members, census));
                Answers::new()
            }
            _ => Answers::new(),
        });
    }

    /// The time limit of a node has passed, in a meeting that it waits for.
    pub(super) fn withdraw(&self, node: usize, kind: &Kind, procs: &[Proc]) {
        self.with(|State { census, meetings, .. }| meetings.withdraw((kind, procs), node, census));
    }

    /// A node comes to a meeting of the nodes of these processes.
    pub(super) fn meet(
        &self,
        node: usize,
        kind: Kind,
        procs: &[Proc],
        info: &[Info],
        data: Vec<u8>,
        answer: super::meetings::Answer,
    ) -> Accepted {
        let part = Part {
            data,
            wants_context: info.is_set(keys::GROUP_ASSIGN_CONTEXT_ID),
            failed: info.find(keys::LOCAL_COLLECTIVE_STATUS).and_then(|info| info.value.as_status()),
            is_known: info.is_set(FAILURE_IS_KNOWN),
            refused: info.iter().any(|info| info.is_unserved(&SERVED)).then_some(Status::ERR_NOT_SUPPORTED),
            excuses: EXCUSES.iter().any(|key| info.is_set(key)),
            group: match &kind {
                Kind::Group(_, group) => Some(group.clone()),
                _ => group_of(info),
            },
            notifies: info.is_set(keys::GROUP_NOTIFY_TERMINATION) && !info.is_set(keys::GROUP_OPTIONAL),
        };
        self.with(|State { census, meetings, .. }| {
            let known = if kind == Kind::Connect { self.names.check(procs) } else { Ok(()) };
            match known {
                Ok(()) => meetings.come((kind, procs), census, (node, part, answer)),
                Err(status) => vec![(answer, Err(status))],
            }
        });
        Ok(Answer::Later)
    }
}

/// The group that attributes name.
fn group_of(info: &[Info]) -> Option<Nspace> {
    Nspace::new(info.find(keys::GROUP_ID)?.value.as_text()?).ok()
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

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use instanton::data::Rank;
    use instanton::server::NoHost;

    use super::*;

    #[test]
    fn a_job_that_ends_with_the_first_answer_is_over_after_the_last() {
        let hub = Hub::new(Arc::new(NoHost), Arc::new(Names::new("run")));
        let nspace = Nspace::new("run@1").unwrap();
        hub.place(&nspace, vec![0, 1]);
        let procs = [Proc::new(nspace.clone(), Rank::WILDCARD)];
        let (told, heard) = mpsc::channel();
        for node in 0..2 {
            let (told, ends, nspace) = (told.clone(), hub.clone(), nspace.clone());
            let answer = Box::new(move |met: Result<_, Status>| {
                told.send(met.err()).unwrap();
                if node == 0 {
                    let (end, ended) = mpsc::channel::<()>();
                    thread::spawn(move || {
                        ends.forget(&nspace);
                        told.send(Some(Status::EVENT_JOB_END)).unwrap();
                        drop(end);
                    });
                    // It has to wait for this thread.
                    assert_eq!(ended.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
                }
            });
            hub.meet(node, Kind::Disconnect, &procs, &[], Vec::new(), answer).unwrap();
        }
        drop(told);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [None, None, Some(Status::EVENT_JOB_END)]);
    }
}
