//! Tools: processes that nobody launched here, and that attach to the server to look at its jobs, to steer them or to start some.
//!
//! A tool shows no token. What lets it in is its user, as the kernel says it: the server's own, or root; any, where the server was
//! told to leave that to its host. The host is asked next; it may refuse, or name the tool. A host that cares for no tools
//! leaves it with the name it came with or, without one, with one that the server makes.
//!
//! Once in, a tool is the process of a namespace of its own, which the server registers for it and forgets with it: so it may do
//! whatever a process of a job may do, with itself as its job. Its connection is what makes it one: when that ends, or its
//! process does, the tool is gone, and the host hears of it as it does of any other process.

use super::ctx::timers::Deadline;
use super::jobs::{Job, Phase};
use super::router::Router;
use crate::data::{DataArray, Info, Nspace, Proc, Rank, Status, Value, keys};
use crate::message::door::{Arrival, Claim, PeerId};
use crate::trace;

/// The highest rank of a tool in a namespace that the server registers for it: there is room for so many from the beginning.
const MAX_RANK: u32 = 1023;

/// Why a peer is not let in.
type Refusal = (Status, String);

impl Router {
    /// A tool wants to be let in.
    pub(super) fn tool_arrives(&mut self, peer: PeerId, wanted: Option<&Proc>, server: Option<&Nspace>) {
        let proc = match self.check_tool(peer, wanted, server) {
            Ok(()) => wanted.cloned().unwrap_or_else(|| self.name_for_tool()),
            Err((status, reason)) => return self.refuse(peer, status, reason),
        };
        let at = self.cx.now() + self.cx.config.host_answer_deadline;
        let limit = self.cx.timers.set(at, Deadline::Admission(peer));
        let Some(entry) = self.cx.peers.get_mut(&peer) else { return };
        entry.limit = Some(limit);
        let Some(arrival) = &entry.arrival else { return };
        let info = said_of(arrival, wanted);
        let own = proc.clone();
        self.ask_host(
            |host, done| host.tool_connected2(&info, done),
            proc,
            move |router, result| {
                let is_asked = result != Err(Status::ERR_NOT_SUPPORTED);
                let named = match result {
                    Ok(proc) if proc.nspace.is_empty() => Ok(own),
                    Err(Status::ERR_NOT_SUPPORTED) => Ok(own),
                    named => named,
                };
                match named {
                    Ok(proc) if router.cx.peers.contains_key(&peer) => router.admit_tool(peer, proc, is_asked),
                    // The host has let in what is gone again.
                    Ok(proc) => router.cx.host.clone().client_lost(&proc, Status::ERR_LOST_CONNECTION),
                    Err(status) => router.refuse(peer, status, format!("the host refuses the tool: {status}")),
                }
            },
        );
    }

    fn check_tool(&self, peer: PeerId, wanted: Option<&Proc>, server: Option<&Nspace>) -> Result<(), Refusal> {
        let Some(support) = self.cx.config.tools else {
            return Err((Status::ERR_NOT_SUPPORTED, "this server accepts no tools".into()));
        };
        if server.is_some_and(|server| *server != self.cx.config.nspace) {
            return Err((Status::ERR_NOT_FOUND, format!("this is the server {}", self.cx.config.nspace)));
        }
        let arrival = self.cx.peers.get(&peer).and_then(|entry| entry.arrival.as_ref());
        let uid = arrival.map_or(u32::MAX, |arrival| arrival.uid);
        if !support.allows_foreign && uid != 0 && uid != self.cx.identity.uid {
            return Err((Status::ERR_INVALID_CRED, format!("user {uid} is not the one this server runs as")));
        }
        let Some(wanted) = wanted else { return Ok(()) };
        if wanted.nspace.is_empty() || !wanted.rank.is_process() || wanted.rank.0 > MAX_RANK {
            return Err((Status::ERR_BAD_PARAM, format!("{wanted} is no name for a tool")));
        }
        // A name that others have is theirs, unless they are tools of the same user.
        let shares = |job: &Job| job.of_tools && job.clients.values().all(|client| client.uid == uid);
        match self.jobs.get(&wanted.nspace) {
            Some(job) if !shares(job) => {
                Err((Status::ERR_NO_PERMISSIONS, format!("{} is somebody else's namespace", wanted.nspace)))
            }
            Some(job) if job.clients.contains_key(&wanted.rank) => {
                Err((Status::ERR_EXISTS, format!("{wanted} is here already")))
            }
            _ => Ok(()),
        }
    }

    /// A name that nobody has.
    fn name_for_tool(&mut self) -> Proc {
        loop {
            self.tools_named += 1;
            let own = &self.cx.config.nspace.as_bytes()[..self.cx.config.nspace.as_bytes().len().min(200)];
            let name = [own, format!(".tool.{}", self.tools_named).as_bytes()].concat();
            let nspace = Nspace::new(name).expect("as long as a name may be");
            if self.jobs.get(&nspace).is_none() {
                return Proc::new(nspace, Rank(0));
            }
        }
    }

    /// The host has agreed: the tool becomes the process of its namespace.
    fn admit_tool(&mut self, peer: PeerId, proc: Proc, is_asked: bool) {
        let Some(arrival) = self.cx.peers.get(&peer).and_then(|entry| entry.arrival.as_ref()) else { return };
        let (uid, gid, pid) = (arrival.uid, arrival.gid, arrival.pid);
        if self.jobs.client(&proc).is_some_and(|client| client.phase != Phase::Expected) {
            return self.refuse(peer, Status::ERR_EXISTS, format!("{proc} is here already"));
        }
        let registered = self.make_room_for_tool(&proc).and_then(|()| self.register_client(proc.clone(), uid, gid));
        if let Err(status) = registered {
            self.forget_tools_of(&proc.nspace);
            return self.refuse(peer, status, format!("the tool {proc} cannot be registered: {status}"));
        }
        if let Some(entry) = self.cx.peers.get_mut(&peer) {
            entry.proc = proc.clone();
        }
        if let Some(job) = self.jobs.get_mut(&proc.nspace) {
            job.self_named = job.of_tools && !is_asked;
        }
        if let Some(client) = self.jobs.client_mut(&proc) {
            (client.is_tool, client.peer, client.pid) = (true, Some(peer), pid);
        }
        self.let_in(peer);
    }

    /// Registers a namespace for a tool, or makes room for one more in it. One that the host has registered stays as it is.
    fn make_room_for_tool(&mut self, proc: &Proc) -> Result<(), Status> {
        let Proc { nspace, rank } = proc;
        if self.jobs.get(nspace).is_some_and(|job| job.stored.is_some() && !job.of_tools) {
            return Ok(());
        }
        if !rank.is_process() || rank.0 > MAX_RANK {
            return Err(Status::ERR_BAD_PARAM);
        }
        let known = self.jobs.stored(nspace).and_then(|stored| stored.size()).unwrap_or(0);
        let tools = self.jobs.get(nspace).map_or(0, |job| job.clients.len());
        let local = tools + 1;
        let size = known.max(rank.0 + 1);
        let mut job =
            crate::store::JobInfoBuilder::new(nspace, local as u32, &self.cx.config.hostname.to_string_lossy());
        let info = [
            Info::new(keys::JOB_SIZE, size),
            Info::new(keys::UNIV_SIZE, size),
            Info::new(keys::SERVER_NSPACE, Value::string(&self.cx.config.nspace)),
            Info::new(keys::SERVER_RANK, self.cx.config.rank),
            // Others may follow, and the namespace cannot grow beyond the ranks that it has begun with.
            Info::new(keys::PROC_INFO_ARRAY, DataArray::of_info(vec![Info::new(keys::RANK, Rank(MAX_RANK))])),
        ];
        let job = job.infos(&info).map(|()| job);
        self.register_nspace(nspace.clone(), local, job)?;
        if let Some(job) = self.jobs.get_mut(nspace) {
            job.of_tools = true;
        }
        Ok(())
    }

    /// The host has a job of this name. Tools that have chosen it for themselves, which the host was not asked about, have to go.
    pub(super) fn make_way(&mut self, nspace: &Nspace) {
        let Some(job) = self.jobs.get(nspace).filter(|job| job.self_named) else { return };
        let tools: Vec<Proc> = job.clients.keys().map(|rank| Proc::new(nspace.clone(), *rank)).collect();
        for tool in tools {
            trace!("the tool {tool} has the name of a job, and is cut off");
            self.ended(&tool, true);
        }
    }

    /// A tool is gone, and its namespace with the last of its tools.
    pub(super) fn tool_left(&mut self, proc: &Proc) {
        let Some(client) = self.jobs.client_mut(proc).filter(|client| client.is_tool) else { return };
        trace!("the tool {proc} is gone");
        client.is_tool = false;
        self.deregister_client(proc, Box::new(|_| {}));
        self.forget_tools_of(&proc.nspace);
    }

    fn forget_tools_of(&mut self, nspace: &Nspace) {
        if self.jobs.get(nspace).is_some_and(|job| job.of_tools && job.clients.is_empty()) {
            self.deregister_nspace(nspace, Box::new(|_| {}));
        }
    }
}

/// What the host is told of a tool: what it says of itself, and what the kernel says of it.
fn said_of(arrival: &Arrival, wanted: Option<&Proc>) -> Vec<Info> {
    const OURS: [&str; 5] = [keys::USERID, keys::GRPID, keys::PROC_PID, keys::NSPACE, keys::RANK];
    let mut info = arrival.info.clone();
    info.retain(|info| !OURS.iter().any(|key| info.key == *key));
    info.push(Info::new(keys::USERID, arrival.uid));
    info.push(Info::new(keys::GRPID, arrival.gid));
    info.push(Info::new(keys::PROC_PID, Value::Pid(arrival.pid)));
    if let Some(proc) = wanted {
        info.push(Info::new(keys::NSPACE, Value::string(&proc.nspace)));
        info.push(Info::new(keys::RANK, proc.rank));
    }
    info
}

/// Whom a peer says that it is, before anybody has agreed.
pub(super) fn claimed(claim: &Claim) -> Proc {
    match claim {
        Claim::Process { proc, .. } | Claim::Tool { proc: Some(proc), .. } => proc.clone(),
        Claim::Tool { proc: None, .. } => Proc::new(Nspace::new("").expect("a legal name"), Rank::UNDEF),
    }
}
