//! Tools: processes that nobody launched here, and that attach to the server to look at its jobs, to
//! steer them or to start some.
//!
//! A tool shows no token. Its user, as the kernel says it, lets it in: the server's own, or root; any, where the server
//! was told to leave that to its host. The host is asked next; it may refuse, or name the tool. A host that cares for
//! no tools leaves it with the name it came with or, without one, with one that the server makes.
//!
//! Once in, a tool is the process of a namespace of its own, which the server registers for it and forgets with it: so
//! it may do whatever a process of a job may do, with itself as its job. Its connection is what makes it one: when that
//! ends, or its process does, the tool is gone, and the host hears of it as it does of any other process.
//!
//! A host with several servers may tell each of the tools of the others. Such a tool is a process of another node, and
//! its namespace is there as long as one of its tools is, here or elsewhere.
use super::{Admission, Refusal, leaves_descriptors, let_in, set_deadline};
use crate::data::{DataArray, Info, Nspace, Proc, Rank, Status, Value, keys};
use crate::message::door::{Arrival, PeerId, User};
use crate::server::ctx::Ctx;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::ticket::Ticket;
use crate::server::jobs::{Job, Jobs, Phase};
use crate::store::JobInfoBuilder;

/// The highest rank of a tool in a namespace that the server registers for it: there is room for so many from the
/// beginning.
const MAX_RANK: u32 = 1023;
/// Group that owns nothing, as the kernel shows those that it cannot map.
const NO_GROUP: u32 = 65534;

impl Admission {
    /// Takes in the claim of a tool.
    pub(super) fn tool_arrives(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        peer: PeerId,
        wanted: Option<&Proc>,
        server: Option<&Nspace>,
    ) {
        let verdict = check_tool(cx, jobs, peer, wanted, server).and_then(|()| leaves_descriptors(cx, peer));
        let proc = match verdict {
            Ok(()) => wanted.cloned().unwrap_or_else(|| self.name_for_tool(cx, jobs)),
            Err((status, reason)) => return self.refuse(cx, jobs, peer, status, reason),
        };
        set_deadline(cx, peer);
        let Some(arrival) = cx.peers.get(&peer).and_then(|entry| entry.arrival.as_ref()) else { return };
        let info = said_of(arrival, wanted);
        let own = proc.clone();
        cx.ask_host(
            |host, done| host.tool_connected2(&info, done),
            proc,
            move |named| Ticket::ToolAdmitted { peer, own, named },
        );
    }

    /// Makes a name that nobody has, here or on another node whose server is of the same namespace.
    fn name_for_tool(&mut self, cx: &Ctx, jobs: &Jobs) -> Proc {
        loop {
            self.tools_named += 1;
            let own = cx.config.nspace.as_bytes();
            let node = if cx.config.rank == Rank(0) { String::new() } else { format!(".{}", cx.config.rank) };
            let name = [&own[..own.len().min(200)], format!("{node}.tool.{}", self.tools_named).as_bytes()].concat();
            let nspace = Nspace::new(name).expect("as long as a name may be");
            if jobs.get(&nspace).is_none() {
                return Proc::new(nspace, Rank(0));
            }
        }
    }

    /// Acts on the host's answer about a tool, which came or was named here as `own`.
    pub fn tool_admitted(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        peer: PeerId,
        own: Proc,
        named: Result<Proc, Status>,
    ) {
        let is_asked = named != Err(Status::ERR_NOT_SUPPORTED);
        let named = match named {
            Ok(proc) if proc.nspace.is_empty() => Ok(own),
            Err(Status::ERR_NOT_SUPPORTED) => Ok(own),
            named => named,
        };
        match named {
            Ok(proc) if cx.peers.contains_key(&peer) => self.admit_tool(cx, jobs, peer, proc, is_asked),
            // The host has let in what is gone again.
            Ok(proc) => cx.host.clone().client_lost(&proc, Status::ERR_LOST_CONNECTION),
            Err(status) => self.refuse(cx, jobs, peer, status, format!("the host refuses the tool: {status}")),
        }
    }

    /// Makes a tool the process of its namespace.
    fn admit_tool(&mut self, cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId, proc: Proc, is_asked: bool) {
        let Some(arrival) = cx.peers.get(&peer).and_then(|entry| entry.arrival.as_ref()) else { return };
        let (Some(user), pid) = (arrival.user, arrival.pid) else {
            let reason = "its user is not known".to_owned();
            return self.refuse(cx, jobs, peer, Status::ERR_INVALID_CRED, reason);
        };
        let (uid, gid) = (user.uid, group_of(cx, user));
        if jobs.client(&proc).is_some_and(|client| client.phase != Phase::Expected) {
            return self.refuse(cx, jobs, peer, Status::ERR_EXISTS, format!("{proc} is here already"));
        }
        let registered = make_room_for_tool(cx, jobs, &proc, true);
        if let Err(status) = registered.and_then(|()| jobs.register_client(cx, &proc, uid, gid)) {
            cx.effect(Effect::ToolsChanged(proc.nspace.clone()));
            let reason = format!("the tool {proc} cannot be registered: {status}");
            return self.refuse(cx, jobs, peer, status, reason);
        }
        if let Some(entry) = cx.peers.get_mut(&peer) {
            entry.proc = proc.clone();
        }
        if let Some(job) = jobs.get_mut(&proc.nspace) {
            job.self_named = job.of_tools && !is_asked;
        }
        if let Some(client) = jobs.client_mut(&proc) {
            (client.is_tool, client.peer, client.pid) = (true, Some(peer), pid);
        }
        let host = cx.host.clone();
        cx.call_host(|| host.tool_admitted(&proc), "tool_admitted");
        let_in(cx, jobs, peer);
    }
}

/// Returns the group with whose rights the server acts for a tool. Where the kernel tells the user alone, only the
/// server's own user and root have one that is known.
fn group_of(cx: &Ctx, User { uid, gid }: User) -> u32 {
    gid.unwrap_or(match uid {
        own if own == cx.identity.uid => cx.identity.gid,
        0 => 0,
        _ => NO_GROUP,
    })
}

/// Holds a tool against what this server accepts.
fn check_tool(
    cx: &Ctx,
    jobs: &Jobs,
    peer: PeerId,
    wanted: Option<&Proc>,
    server: Option<&Nspace>,
) -> Result<(), Refusal> {
    let Some(support) = cx.config.tools else {
        return Err((Status::ERR_NOT_SUPPORTED, "this server accepts no tools".into()));
    };
    if server.is_some_and(|server| *server != cx.config.nspace) {
        return Err((Status::ERR_NOT_FOUND, format!("this is the server {}", cx.config.nspace)));
    }
    let arrival = cx.peers.get(&peer).and_then(|entry| entry.arrival.as_ref());
    let Some(User { uid, .. }) = arrival.and_then(|arrival| arrival.user) else {
        return Err((Status::ERR_INVALID_CRED, "the kernel does not say whose tool it is".into()));
    };
    if !support.allows_foreign && uid != 0 && uid != cx.identity.uid {
        return Err((Status::ERR_INVALID_CRED, format!("user {uid} is not the one this server runs as")));
    }
    let Some(wanted) = wanted else { return Ok(()) };
    if wanted.nspace.is_empty() || !wanted.rank.is_process() || wanted.rank.0 > MAX_RANK {
        return Err((Status::ERR_BAD_PARAM, format!("{wanted} is no name for a tool")));
    }
    // A name that others have is theirs, unless they are tools of the same user.
    let shares = |job: &Job| job.of_tools && job.clients.values().all(|client| client.uid == uid);
    match jobs.get(&wanted.nspace) {
        Some(job) if !shares(job) => {
            Err((Status::ERR_NO_PERMISSIONS, format!("{} is somebody else's namespace", wanted.nspace)))
        }
        Some(job) if job.clients.contains_key(&wanted.rank) => {
            Err((Status::ERR_EXISTS, format!("{wanted} is here already")))
        }
        _ => Ok(()),
    }
}

/// Another server has let a tool in.
///
/// # Errors
/// `ERR_BAD_PARAM` for a rank that there is no room for, and those of a registration.
pub fn remote_tool_came(cx: &mut Ctx, jobs: &mut Jobs, tool: &Proc) -> Result<(), Status> {
    make_room_for_tool(cx, jobs, tool, false)?;
    if let Some(job) = jobs.get_mut(&tool.nspace).filter(|job| job.of_tools) {
        job.departed.remove(&tool.rank);
        job.tools_elsewhere.insert(tool.rank);
    }
    Ok(())
}

/// Registers a namespace for a tool, or makes room in it for one more, which may be on this node. One that the host has
/// registered stays as it is.
fn make_room_for_tool(cx: &mut Ctx, jobs: &mut Jobs, proc: &Proc, is_here: bool) -> Result<(), Status> {
    let Proc { nspace, rank } = proc;
    if jobs.get(nspace).is_some_and(|job| job.store.is_some() && !job.of_tools) {
        return Ok(());
    }
    if !rank.is_process() || rank.0 > MAX_RANK {
        return Err(Status::ERR_BAD_PARAM);
    }
    let known = jobs.store(nspace).and_then(|store| store.size()).unwrap_or(0);
    let mut here: Vec<Rank> = jobs.get(nspace).into_iter().flat_map(|job| job.clients.keys().copied()).collect();
    if is_here && !here.contains(rank) {
        here.push(*rank);
        here.sort_unstable();
    }
    let local = here.len();
    let size = known.max(rank.0 + 1);
    let mut job = JobInfoBuilder::new(nspace, local as u32, &cx.config.hostname.to_string_lossy());
    let mut info = vec![
        Info::new(keys::JOB_SIZE, size),
        Info::new(keys::UNIV_SIZE, size),
        Info::new(keys::SERVER_NSPACE, Value::string(&cx.config.nspace)),
        Info::new(keys::SERVER_RANK, cx.config.rank),
        // Others may follow, and the namespace cannot grow beyond the ranks that it has begun with.
        Info::new(keys::PROC_INFO_ARRAY, DataArray::of_info(vec![Info::new(keys::RANK, Rank(MAX_RANK))])),
    ];
    if !here.is_empty() {
        // The others are room.
        let peers: Vec<String> = here.iter().map(|rank| rank.0.to_string()).collect();
        info.push(Info::new(keys::LOCAL_PEERS, peers.join(",").as_str()));
    }
    let job = job.infos(&info).map(|()| job);
    jobs.register(cx, nspace, local, job)?;
    if let Some(job) = jobs.get_mut(nspace) {
        job.of_tools = true;
    }
    Ok(())
}

/// Returns what the host is told of a tool: what it says of itself, and what the kernel says of it.
fn said_of(arrival: &Arrival, wanted: Option<&Proc>) -> Vec<Info> {
    const OURS: [&str; 7] =
        [keys::USERID, keys::GRPID, keys::PROC_PID, keys::NSPACE, keys::RANK, keys::TOOL_NSPACE, keys::TOOL_RANK];
    let mut info = arrival.info.clone();
    info.retain(|info| !OURS.iter().any(|key| info.key == *key));
    if let Some(User { uid, gid }) = arrival.user {
        info.push(Info::new(keys::USERID, uid));
        info.extend(gid.map(|gid| Info::new(keys::GRPID, gid)));
    }
    info.push(Info::new(keys::PROC_PID, Value::Pid(arrival.pid)));
    if let Some(proc) = wanted {
        // The Standard has keys of its own for the name of a tool; hosts such as PRRTE read those of processes.
        for (nspace, rank) in [(keys::NSPACE, keys::RANK), (keys::TOOL_NSPACE, keys::TOOL_RANK)] {
            info.extend([Info::new(nspace, Value::string(&proc.nspace)), Info::new(rank, proc.rank)]);
        }
    }
    info
}
