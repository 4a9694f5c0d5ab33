//! The test's resource manager: N servers, one a "node", and a host for each that reaches the others.
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};

use instanton::data::{DataArray, DataRange, Info, InfoList, Nspace, Proc, Rank, Status, Text, Value, keys};
use instanton::server::{Accepted, Answer, Completion, Host, Infos, Published, PublishedData, Server, ServerConfig};

use crate::peer::{PATIENCE, Peer};

/// A fence that some nodes have come to.
#[derive(Default)]
struct FenceTracker {
    blobs: Vec<(usize, Vec<u8>)>,
    done: Vec<(usize, Completion<Vec<u8>>)>,
}

impl FenceTracker {
    /// Answers all hosts: each with all blobs in another order, some without its own.
    fn answer(mut self) {
        for (turn, (node, done)) in self.done.into_iter().enumerate() {
            self.blobs.rotate_left(1);
            let without = (turn % 2 == 1).then_some(node);
            let all = self.blobs.iter().filter(|(node, _)| Some(*node) != without);
            done.complete(Ok(all.flat_map(|(_, blob)| blob.clone()).collect()));
        }
    }
}

/// The answer to a fence; its holder gives it.
pub type FenceAnswer = Box<dyn FnOnce() + Send>;

/// Operation, group and members.
type GroupOperation = (i64, Nspace, Vec<Proc>);

/// A group's operation that some nodes have come to.
#[derive(Default)]
struct GroupTracker {
    data: Vec<Vec<u8>>,
    context: bool,
    done: Vec<Completion<Infos>>,
}

/// A group whose members do not all know each other, and those that have come.
#[derive(Default)]
struct Assembly {
    /// Number of leaders that are to come, by themselves or a node at a time.
    wanted: Option<usize>,
    calls: usize,
    leaders: BTreeSet<Proc>,
    added: BTreeSet<Proc>,
    come: BTreeSet<Proc>,
    /// True where the others go on without the dead.
    tolerant: bool,
    failed: Option<Status>,
    tracker: GroupTracker,
}

/// Everything the hosts share.
#[derive(Default)]
pub struct World {
    servers: Mutex<Vec<Arc<Server>>>,
    /// The node of each rank of each namespace.
    placement: Mutex<HashMap<Nspace, Vec<usize>>>,
    /// Meetings of the same processes in the order in which they began.
    trackers: Mutex<HashMap<Vec<Proc>, Vec<FenceTracker>>>,
    groups: Mutex<HashMap<GroupOperation, GroupTracker>>,
    assemblies: Mutex<HashMap<Nspace, Assembly>>,
    lost: Mutex<Vec<Proc>>,
    /// The last context id.
    contexts: Mutex<u64>,
    /// Requests to the hosts, in order.
    pub said: Mutex<Vec<String>>,
    /// Something was said.
    speaks: Condvar,
    /// The hosts' answer to every fence, where one is set.
    pub fences: Mutex<Option<Result<Vec<u8>, Status>>>,
    /// Receiver of the answers to complete fences, where the hosts do not give them.
    pub answers: Mutex<Option<mpsc::Sender<FenceAnswer>>>,
    /// Data that processes of all nodes have published.
    published: PublishedData,
    lacks: Lacks,
}

/// Operations that the hosts lack.
#[derive(Clone, Copy, Default)]
pub struct Lacks {
    /// Fetching from other nodes.
    pub direct_modex: bool,
    /// Answering fences that they took over.
    pub answers: bool,
    /// Groups and events across nodes.
    pub groups: bool,
    /// Waiting for processes that are gone: who would wait for one is told so.
    pub patience: bool,
}

/// Answer to those who would wait for processes that are gone.
const GONE: Status = Status::ERR_PROC_TERM_WO_SYNC;
/// The node of a process whose node is lost.
const NOWHERE: usize = usize::MAX;

struct NodeHost {
    world: Arc<World>,
    node: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl GroupTracker {
    fn come(&mut self, directives: &[Info], done: Completion<Infos>) {
        let data = directives.find(keys::GROUP_ENDPT_DATA).and_then(|info| info.value.as_bytes());
        self.data.extend(data.map(<[u8]>::to_vec));
        self.context |= directives.is_set(keys::GROUP_ASSIGN_CONTEXT_ID);
        self.done.push(done);
    }

    /// Answers all who have come.
    fn end(self, world: &World, status: Status, members: Option<Vec<Proc>>) {
        let mut infos = Vec::new();
        if self.context {
            let mut last = lock(&world.contexts);
            *last += 1;
            infos.push(Info::new(keys::GROUP_CONTEXT_ID, Value::Size(*last)));
        }
        infos.extend(members.map(|members| Info::new(keys::GROUP_MEMBERSHIP, DataArray::of(members))));
        // Hosts put what they get one behind the other, or each by itself.
        let data = match self.data.len() {
            0 => None,
            2 => Some(Value::from(self.data.concat())),
            _ => Some(Value::DataArray(DataArray::of(self.data))),
        };
        infos.extend(data.map(|data| Info::new(keys::GROUP_ENDPT_DATA, data)));
        let answer = match status {
            Status::SUCCESS | Status::ERR_PARTIAL_SUCCESS => Ok((status, infos)),
            status => Err(status),
        };
        let done = self.done;
        std::thread::spawn(move || done.into_iter().for_each(|done| done.complete(answer.clone())));
    }
}

impl World {
    fn say(&self, text: String) {
        lock(&self.said).push(text);
        self.speaks.notify_all();
    }

    /// Waits until the hosts were told this.
    pub fn wait_for(&self, text: &str) {
        let silent = |said: &mut Vec<String>| !said.iter().any(|said| said == text);
        let waited = self.speaks.wait_timeout_while(lock(&self.said), PATIENCE, silent);
        assert!(!waited.unwrap().1.timed_out(), "no host was told {text:?}");
    }

    /// Returns the number of requests to the hosts that begin like this.
    pub fn count(&self, text: &str) -> usize {
        lock(&self.said).iter().filter(|said| said.starts_with(text)).count()
    }

    /// Tells whether the hosts have no patience, and one of these is gone.
    fn has_lost(&self, procs: &[Proc]) -> bool {
        let is_meant = |proc: &Proc, lost: &Proc| {
            proc.nspace == lost.nspace && (proc.rank == Rank::WILDCARD || proc.rank == lost.rank)
        };
        let lost = lock(&self.lost);
        self.lacks.patience && lost.iter().any(|lost| procs.iter().any(|proc| is_meant(proc, lost)))
    }

    /// A process is gone: who waits for it is told so.
    pub fn lose(&self, proc: &Proc) {
        lock(&self.lost).push(proc.clone());
        self.published.process_ended(proc);
        if !self.lacks.patience {
            return;
        }
        let mut trackers = lock(&self.trackers);
        let fences: Vec<FenceTracker> =
            trackers.extract_if(|procs, _| self.has_lost(procs)).flat_map(|(_, queue)| queue).collect();
        drop(trackers);
        let groups: Vec<GroupTracker> = lock(&self.groups)
            .extract_if(|(_, _, procs), _| self.has_lost(procs))
            .map(|(_, tracker)| tracker)
            .collect();
        fences.into_iter().flat_map(|fence| fence.done).for_each(|(_, done)| done.complete(Err(GONE)));
        groups.into_iter().for_each(|group| group.end(self, GONE, None));
    }

    /// A job is over.
    pub fn forget(&self, nspace: &Nspace) {
        self.published.namespace_ended(nspace);
        lock(&self.lost).retain(|proc| proc.nspace != *nspace);
        lock(&self.said).clear();
    }

    /// Returns the number of requests that no host has answered.
    pub fn unanswered(&self) -> usize {
        let fences = lock(&self.trackers).values().map(Vec::len).sum::<usize>();
        fences + lock(&self.groups).len() + lock(&self.assemblies).len()
    }

    /// Somebody comes to a group whose members do not all know each other.
    fn assemble(&self, group: &Nspace, procs: &[Proc], directives: &[Info], done: Completion<Infos>) {
        let mut assemblies = lock(&self.assemblies);
        let assembly = assemblies.entry(group.clone()).or_default();
        let number = directives.find(keys::GROUP_BOOTSTRAP).and_then(|info| info.value.as_u64());
        if !procs.is_empty() {
            assembly.calls += 1;
            assembly.wanted = Some(number.map_or_else(|| self.nodes_of(procs).len(), |number| number as usize));
            assembly.leaders.extend(procs.iter().cloned());
        }
        let name = directives.find(keys::PROCID).and_then(|info| info.value.as_proc());
        assembly.come.extend(name.cloned());
        let who = name.map_or_else(|| "a node of leaders".into(), Proc::to_string);
        self.say(format!("{who} comes to {group}"));
        let added = directives.find(keys::GROUP_ADD_MEMBERS).and_then(|info| info.value.as_array());
        assembly
            .added
            .extend(added.into_iter().flat_map(|array| array.items().iter().filter_map(Value::as_proc)).cloned());
        assembly.tolerant |= directives.is_set(keys::GROUP_FT_COLLECTIVE);
        let failed = directives.find(keys::LOCAL_COLLECTIVE_STATUS).and_then(|info| info.value.as_status());
        assembly.failed = assembly.failed.or(failed);
        assembly.tracker.come(directives, done);
        drop(assemblies);
        self.assembled(group);
    }

    /// Looks whether everybody has come to such a group, or is dead.
    fn assembled(&self, group: &Nspace) {
        let lost = lock(&self.lost).clone();
        let mut assemblies = lock(&self.assemblies);
        let Some(assembly) = assemblies.get(group) else { return };
        let awaited: Vec<&Proc> = assembly.added.difference(&assembly.come).collect();
        let dead = awaited.iter().any(|proc| lost.contains(proc));
        let failed = assembly.failed.or((dead && !assembly.tolerant).then_some(Status::ERR_PROC_TERM_WO_SYNC));
        let all_come = assembly.wanted == Some(assembly.calls) && awaited.iter().all(|proc| lost.contains(proc));
        if !all_come && failed.is_none() {
            return;
        }
        let members: Vec<Proc> =
            assembly.leaders.iter().chain(assembly.added.intersection(&assembly.come)).cloned().collect();
        let status = failed.unwrap_or(if dead { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS });
        let assembly = assemblies.remove(group).unwrap_or_default();
        drop(assemblies);
        assembly.tracker.end(self, status, Some(members));
    }

    fn nodes_of(&self, procs: &[Proc]) -> Vec<usize> {
        let placement = lock(&self.placement);
        let mut nodes: Vec<usize> = procs
            .iter()
            .flat_map(|proc| match proc.rank {
                Rank::WILDCARD => placement[&proc.nspace].clone(),
                Rank(rank) => vec![placement[&proc.nspace][rank as usize]],
            })
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

impl Host for NodeHost {
    fn client_connected(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        self.world.say(format!("connected {proc}"));
        done.complete(Ok(()));
        Ok(Answer::Later)
    }

    fn client_finalized(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        self.world.say(format!("finalized {proc}"));
        std::thread::spawn(move || done.complete(Ok(())));
        Ok(Answer::Later)
    }

    fn client_lost(&self, proc: &Proc, status: Status) {
        self.world.say(format!("lost {proc} {status}"));
        self.world.lose(proc);
        let groups: Vec<Nspace> = lock(&self.world.assemblies).keys().cloned().collect();
        groups.iter().for_each(|group| self.world.assembled(group));
    }

    fn abort(&self, proc: &Proc, status: i32, message: Option<&[u8]>, procs: &[Proc], _: Completion<()>) -> Accepted {
        let message = message.map(String::from_utf8_lossy);
        self.world.say(format!("abort {proc} {status} {message:?} {procs:?}"));
        Ok(Answer::Done)
    }

    fn fence_nb(&self, procs: &[Proc], info: &[Info], data: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        let names: Vec<String> = info.iter().map(|info| info.key.to_string()).collect();
        self.world.say(format!("fence node {} {procs:?} {names:?} {}", self.node, data.len()));
        if self.world.lacks.answers {
            return Ok(Answer::Later);
        }
        if let Some(answer) = lock(&self.world.fences).clone() {
            done.complete(answer);
            return Ok(Answer::Later);
        }
        let mut trackers = lock(&self.world.trackers);
        if self.world.has_lost(procs) {
            done.complete(Err(GONE));
            return Ok(Answer::Later);
        }
        let nodes = self.world.nodes_of(procs);
        let queue = trackers.entry(procs.to_vec()).or_default();
        let known = queue.iter().position(|tracker| tracker.done.iter().all(|(node, _)| *node != self.node));
        let at = known.unwrap_or_else(|| {
            queue.push(FenceTracker::default());
            queue.len() - 1
        });
        queue[at].blobs.push((self.node, data));
        queue[at].done.push((self.node, done));
        if queue[at].done.len() < nodes.len() {
            return Ok(Answer::Later);
        }
        let tracker = queue.remove(at);
        drop(trackers);
        match &*lock(&self.world.answers) {
            Some(giver) => giver.send(Box::new(move || tracker.answer())).unwrap(),
            // From a thread of the host.
            None => drop(std::thread::spawn(move || tracker.answer())),
        }
        Ok(Answer::Later)
    }

    fn group(
        &self,
        operation: i64,
        group: &Nspace,
        procs: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.world.say(format!("group {operation} {group} node {} {procs:?}", self.node));
        if self.world.lacks.groups {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let by_leaders = [keys::GROUP_BOOTSTRAP, keys::GROUP_ADD_MEMBERS];
        if procs.is_empty() || by_leaders.iter().any(|key| directives.find(key).is_some()) {
            self.world.assemble(group, procs, directives, done);
            return Ok(Answer::Later);
        }
        let mut groups = lock(&self.world.groups);
        if self.world.has_lost(procs) {
            return Err(GONE);
        }
        let nodes = self.world.nodes_of(procs);
        let key = (operation, group.clone(), procs.to_vec());
        let tracker = groups.entry(key.clone()).or_default();
        tracker.come(directives, done);
        if tracker.done.len() < nodes.len() {
            return Ok(Answer::Later);
        }
        let tracker = groups.remove(&key).unwrap_or_default();
        drop(groups);
        tracker.end(&self.world, Status::SUCCESS, None);
        Ok(Answer::Later)
    }

    fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: DataRange,
        info: &[Info],
        _: Completion<()>,
    ) -> Accepted {
        self.world.say(format!("event {status} of {source} from node {}", self.node));
        if self.world.lacks.groups {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let servers = lock(&self.world.servers).clone();
        // Open MPI's `mpirun` hands an event of a process to the server that it has it from, too.
        let is_of_a_server = servers.iter().any(|server| server.proc() == *source);
        for (_, server) in servers.iter().enumerate().filter(|(node, _)| *node != self.node || !is_of_a_server) {
            server.notify_event(status, source, range, info).then(|_| ())?;
        }
        Ok(Answer::Done)
    }

    fn publish(&self, proc: &Proc, info: &[Info], _: Completion<()>) -> Accepted {
        self.world.published.publish(proc, info).map(|()| Answer::Done)
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        self.world.published.lookup(proc, keys, info, done)
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], _: Completion<()>) -> Accepted {
        self.world.published.unpublish(proc, keys, info).map(|()| Answer::Done)
    }

    fn direct_modex(&self, proc: &Proc, info: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        self.world.say(format!("direct modex {proc}"));
        if let (Some(key), Some(_)) = (info.find(keys::REQUIRED_KEY), info.time_limit()) {
            self.world.say(format!("awaits {} of {proc}", key.value.as_str().unwrap()));
        }
        if self.world.lacks.direct_modex {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let node = self.world.nodes_of(std::slice::from_ref(proc))[0];
        let Some(server) = lock(&self.world.servers).get(node).cloned() else { return Err(Status::ERR_UNREACH) };
        server.dmodex_request(proc, info).then(|blob| done.complete(blob.map(Vec::from)))?;
        Ok(Answer::Later)
    }
}

/// Starts the server of a node.
fn start(world: &Arc<World>, node: usize, change: &impl Fn(ServerConfig) -> ServerConfig) -> Arc<Server> {
    let config = ServerConfig {
        hostname: format!("n{node}").as_str().try_into().unwrap(),
        rank: Rank(node as u32),
        ..ServerConfig::default()
    };
    let host = NodeHost { world: world.clone(), node };
    Arc::new(Server::start(change(config), Arc::new(host)).unwrap())
}

/// Some nodes and the jobs on them.
pub struct Cluster {
    pub world: Arc<World>,
}

impl Cluster {
    pub fn new(nodes: usize) -> Cluster {
        Cluster::with(nodes, Lacks::default(), |config| config)
    }

    pub fn with(nodes: usize, lacks: Lacks, change: impl Fn(ServerConfig) -> ServerConfig) -> Cluster {
        let world = Arc::new(World { lacks, ..World::default() });
        let servers = (0..nodes).map(|node| start(&world, node, &change)).collect();
        *lock(&world.servers) = servers;
        Cluster { world }
    }

    /// A node and its processes are gone, and a new one takes its place. Those of its
    /// processes that go on find their server gone.
    pub fn lose(&self, node: usize) {
        let mut gone = Vec::new();
        for (nspace, nodes) in lock(&self.world.placement).iter_mut() {
            for (rank, at) in nodes.iter_mut().enumerate().filter(|(_, at)| **at == node) {
                *at = NOWHERE;
                gone.push(Proc::new(nspace.clone(), Rank(rank as u32)));
            }
        }
        let new = start(&self.world, node, &|config| config);
        let old = std::mem::replace(&mut lock(&self.world.servers)[node], new);
        gone.iter().for_each(|proc| self.world.lose(proc));
        drop(old);
    }

    pub fn server(&self, node: usize) -> Arc<Server> {
        lock(&self.world.servers)[node].clone()
    }

    /// Registers a job whose rank `r` runs on node `placement[r]` everywhere, with this process's user.
    pub fn job(&self, name: &str, placement: &[usize]) -> Job<'_> {
        let job = self.unregistered_job(name, placement);
        job.register_nspace();
        job.register_clients();
        job
    }

    pub fn unregistered_job(&self, name: &str, placement: &[usize]) -> Job<'_> {
        let nspace = Nspace::new(name).unwrap();
        lock(&self.world.placement).insert(nspace.clone(), placement.to_vec());
        Job { cluster: self, nspace, placement: placement.to_vec() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The hosts hold the world, and the world holds the servers.
        let servers = std::mem::take(&mut *lock(&self.world.servers));
        drop(servers);
    }
}

/// A job on a cluster.
pub struct Job<'a> {
    cluster: &'a Cluster,
    pub nspace: Nspace,
    placement: Vec<usize>,
}

impl Job<'_> {
    pub fn proc(&self, rank: u32) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank))
    }

    pub fn all(&self) -> Proc {
        Proc::new(self.nspace.clone(), Rank::WILDCARD)
    }

    fn ranks_on(&self, node: usize) -> Vec<u32> {
        (0..self.placement.len() as u32).filter(|rank| self.placement[*rank as usize] == node).collect()
    }

    fn nodes(&self) -> usize {
        lock(&self.cluster.world.servers).len()
    }

    /// Returns a host's information about the job for the server of `node`.
    pub fn info(&self, node: usize) -> Vec<Info> {
        let list = |ranks: Vec<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let used: Vec<usize> = (0..self.nodes()).filter(|node| !self.ranks_on(*node).is_empty()).collect();
        let names: Vec<String> = used.iter().map(|node| format!("n{node}")).collect();
        let maps: Vec<String> = used.iter().map(|node| list(self.ranks_on(*node))).collect();
        vec![
            Info::new(keys::JOB_SIZE, self.placement.len() as u32),
            Info::new(keys::JOBID, Value::string(self.nspace.as_bytes())),
            Info::new(keys::NODE_MAP, names.join(",").as_str()),
            Info::new(keys::PROC_MAP, maps.join(";").as_str()),
            Info::new(keys::LOCAL_PEERS, list(self.ranks_on(node)).as_str()),
        ]
    }

    pub fn register_nspace(&self) {
        for node in 0..self.nodes() {
            let local = self.ranks_on(node).len();
            self.cluster.server(node).register_nspace(&self.nspace, local, &self.info(node)).wait().unwrap();
        }
    }

    pub fn register_clients(&self) {
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        for (rank, node) in self.placement.iter().enumerate() {
            let proc = self.proc(rank as u32);
            self.cluster.server(*node).register_client(&proc, uid, gid).wait().unwrap();
        }
    }

    pub fn deregister(&self) {
        for node in 0..self.nodes() {
            self.cluster.server(node).deregister_nspace(&self.nspace).wait().unwrap();
        }
    }

    /// The server of a rank's node.
    pub fn server_of(&self, rank: u32) -> Arc<Server> {
        self.cluster.server(self.placement[rank as usize])
    }

    /// A rank that has come in.
    pub fn peer(&self, rank: u32) -> Peer {
        Peer::connect(&self.server_of(rank), &self.proc(rank)).expect("it is let in")
    }

    pub fn peers(&self) -> Vec<Peer> {
        (0..self.placement.len() as u32).map(|rank| self.peer(rank)).collect()
    }
}
