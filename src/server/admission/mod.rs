//! Admission: which peers are let in, and as whom.
//!
//! A peer that claims to be a process of a job is held against its job's token and against its registration (user and
//! group), and then the host is asked. The first process that comes as a rank is that rank; another one that comes
//! while it is in is a clone, forked from it: it may look at everything, is no second participant, and its end is not
//! the rank's. A peer that claims to be a tool ([`tools`]) shows no token; its user lets it in.
//!
//! A peer need not show what it cannot: one that the kernel does not vouch for must have the token, and one without a
//! token must have the user and group of its registration. A peer with neither is refused.
//!
//! A process says goodbye with Finalize ([`farewell`]). The router's [lifecycle](super::router) notices the ends of
//! peers and processes.
use instanton_layout::header;

use super::ctx::Ctx;
use super::ctx::effect::Effect;
use super::ctx::open_requests::OpenRequests;
use super::ctx::peers::{Peer, Role};
use super::ctx::ticket::Ticket;
use super::ctx::timers::Deadline;
use super::jobs::{Jobs, Phase};
use crate::account::{Account, Kind};
use crate::data::{Nspace, Proc, Rank, Status};
use crate::message::door::{Arrival, Claim, Outgoing, PeerId, User};
use crate::message::{DescriptorKind, Have};
use crate::trace;

mod farewell;
#[cfg(test)]
mod tests;
mod tools;

pub use tools::remote_tool_came;

/// Most connections of one rank: its own, and those of processes that it has forked.
const MAX_CONNECTIONS: usize = 256;

/// Bytes that a connection is charged with: its descriptor, and what the kernel and the door keep of it.
const CONNECTION: usize = 16 << 10;

/// Reason why a peer is not let in.
type Refusal = (Status, String);

/// The room that lets peers in.
#[derive(Debug, Default)]
pub struct Admission {
    /// Number of tools that were given a name here.
    tools_named: u64,
}

impl Admission {
    /// Takes in the claim of a peer.
    pub fn arrive(&mut self, cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId, arrival: Arrival) {
        let (claim, user) = (arrival.claim.clone(), arrival.user);
        let proc = claimed(&claim);
        cx.peers.insert(peer, Peer::new(proc.clone(), Role::Asking, Some(arrival)));
        let verdict = match &claim {
            Claim::Process { token, .. } => check(jobs, &proc, token.as_ref(), user),
            Claim::Tool { proc, server } => {
                return self.tool_arrives(cx, jobs, peer, proc.as_ref(), server.as_ref());
            }
        };
        if let Err((status, reason)) = verdict {
            return self.refuse(cx, jobs, peer, status, reason);
        }
        let is_same = |other: &&Peer| other.proc.rank == proc.rank && other.proc == proc;
        // Not counted where there are no more than that in all.
        if cx.peers.len() > MAX_CONNECTIONS && cx.peers.values().filter(is_same).count() > MAX_CONNECTIONS {
            let reason = format!("it has {MAX_CONNECTIONS} connections");
            return self.refuse(cx, jobs, peer, Status::ERR_OUT_OF_RESOURCE, reason);
        }
        set_deadline(cx, peer);
        match jobs.get_mut(&proc.nspace) {
            Some(job) if job.store.is_none() => job.early.push(peer),
            _ => self.consider(cx, jobs, peer),
        }
    }

    /// Considers the peers that came before their namespace was registered.
    pub fn job_registered(&mut self, cx: &mut Ctx, jobs: &mut Jobs, nspace: &Nspace) {
        let early = jobs.get_mut(nspace).map(|job| std::mem::take(&mut job.early)).unwrap_or_default();
        early.into_iter().for_each(|peer| self.consider(cx, jobs, peer));
    }

    /// Refuses the peers that wait for a namespace which is deregistered.
    pub fn job_over(&mut self, cx: &mut Ctx, jobs: &mut Jobs, nspace: &Nspace) {
        let early = jobs.get_mut(nspace).map(|job| std::mem::take(&mut job.early)).unwrap_or_default();
        for peer in early {
            self.refuse(cx, jobs, peer, Status::ERR_NOT_FOUND, format!("namespace {nspace} is deregistered"));
        }
    }

    /// Forgets a peer that waited for its namespace to be registered.
    pub fn no_longer_early(&mut self, cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId, nspace: &Nspace) {
        if let Some(job) = jobs.get_mut(nspace) {
            job.early.retain(|early| *early != peer);
            jobs.forget_empty(cx, nspace);
        }
    }

    /// Decides what a peer whose claim holds is to its rank, and asks the host about a rank.
    fn consider(&mut self, cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId) {
        let Some(entry) = cx.peers.get_mut(&peer) else { return };
        let proc = entry.proc.clone();
        let pid = entry.arrival.as_ref().map_or(0, |arrival| arrival.pid);
        let Some(client) = jobs.client_mut(&proc) else {
            let reason = format!("{proc} is not registered any more");
            return self.refuse(cx, jobs, peer, Status::ERR_PROC_ENTRY_NOT_FOUND, reason);
        };
        let replaced_its_program = client.peer.is_none() && client.pid == pid;
        if client.phase == Phase::Asking {
            // Nobody comes in as a clone of a process that the host may still refuse.
            let reason = format!("another process comes in as {proc}");
            return self.refuse(cx, jobs, peer, Status::ERR_RESOURCE_BUSY, reason);
        }
        if client.phase == Phase::Joined && !replaced_its_program {
            entry.role = Role::Clone;
            if let Err((status, reason)) = leaves_descriptors(cx, peer) {
                return self.refuse(cx, jobs, peer, status, reason);
            }
            let account = account_of(cx, jobs, &proc);
            let Some(place) = account.charge(Kind::Connection, CONNECTION) else {
                let reason = "its job makes this server hold too much".to_owned();
                return self.refuse(cx, jobs, peer, Status::ERR_OUT_OF_RESOURCE, reason);
            };
            if let Some(entry) = cx.peers.get_mut(&peer) {
                entry.place = Some(place);
            }
            if let Some(client) = jobs.client_mut(&proc) {
                client.has_clones = true;
            }
            return match write_files(cx, jobs, peer) {
                Ok(()) => welcome(cx, jobs, peer),
                Err((status, reason)) => self.refuse(cx, jobs, peer, status, reason),
            };
        }
        client.phase = Phase::Asking;
        client.peer = Some(peer);
        client.pid = pid;
        let info = entry.arrival.as_ref().map(|arrival| arrival.info.clone()).unwrap_or_default();
        cx.ask_host(
            |host, done| host.client_connected2(&proc, &info, done),
            (),
            move |result| Ticket::Admitted(peer, result),
        );
    }

    /// Acts on the host's answer about a rank.
    pub fn admitted(&mut self, cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId, verdict: Result<(), Status>) {
        if cx.peers.get(&peer).is_none_or(|entry| entry.role != Role::Asking) {
            return;
        }
        match verdict {
            Ok(()) | Err(Status::ERR_NOT_SUPPORTED) => match write_files(cx, jobs, peer) {
                Ok(()) => let_in(cx, jobs, peer),
                Err((status, reason)) => self.refuse(cx, jobs, peer, status, reason),
            },
            Err(status) => self.refuse(cx, jobs, peer, status, format!("the host refuses it: {status}")),
        }
    }

    /// Refuses a peer, and forgets it.
    pub fn refuse(&mut self, cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId, status: Status, reason: String) {
        let Some(entry) = cx.peers.remove(&peer) else { return };
        cx.timers.cancel(entry.limit);
        self.no_longer_early(cx, jobs, peer, &entry.proc.nspace);
        let pid = entry.arrival.as_ref().map_or(0, |arrival| arrival.pid);
        let user = entry.arrival.as_ref().and_then(|arrival| arrival.user);
        let uid = user.map_or("unknown".to_owned(), |user| user.uid.to_string());
        trace!("process {pid} of user {uid} is refused as {}: {reason}", entry.proc);
        if let Some(client) = jobs.client_mut(&entry.proc)
            && client.peer == Some(peer)
        {
            client.phase = Phase::Expected;
            client.peer = None;
        }
        cx.send(peer, Outgoing::Refused { status, reason });
    }

    /// Refuses a peer that has waited long enough for the host, or for its namespace.
    pub fn expired(&mut self, cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId) {
        let Some(entry) = cx.peers.get_mut(&peer) else { return };
        entry.limit = None;
        let known = jobs.store(&entry.proc.nspace).is_some();
        let late = if known { "the host's answer" } else { "the registration of its namespace" };
        let seconds = cx.config.host_answer_deadline.as_secs_f32();
        self.refuse(cx, jobs, peer, Status::ERR_TIMEOUT, format!("{late} did not come within {seconds} s"));
    }
}

/// Refuses a peer that is no rank where few descriptors are left: ranks need them, and the host that starts some.
fn leaves_descriptors(cx: &Ctx, peer: PeerId) -> Result<(), Refusal> {
    let arrival = cx.peers.get(&peer).and_then(|entry| entry.arrival.as_ref());
    let process = arrival.and_then(|arrival| arrival.process.as_ref());
    match process.is_some_and(|process| cx.system.has_few_descriptors(process)) {
        true => Err((Status::ERR_OUT_OF_RESOURCE, "the descriptors that are left are for ranks".to_owned())),
        false => Ok(()),
    }
}

/// Returns the process that a peer claims to be, before anybody has agreed.
fn claimed(claim: &Claim) -> Proc {
    match claim {
        Claim::Process { proc, .. } | Claim::Tool { proc: Some(proc), .. } => proc.clone(),
        Claim::Tool { proc: None, .. } => Proc::new(Nspace::new("").expect("a legal name"), Rank::UNDEF),
    }
}

/// Returns whether a process that shows this token, and is of this user, may come in by what is registered.
#[cfg_attr(not(feature = "pmi"), allow(dead_code, reason = "no other door asks"))]
pub fn is_expected(jobs: &Jobs, proc: &Proc, token: &[u8; 32], user: User) -> bool {
    check(jobs, proc, Some(token), Some(user)).is_ok()
}

/// Holds a peer against token and registration.
fn check(jobs: &Jobs, proc: &Proc, token: Option<&[u8; 32]>, user: Option<User>) -> Result<(), Refusal> {
    let Proc { nspace, rank } = proc;
    let token_of_nobody = [0; 32];
    let job = jobs.get(nspace);
    let has_token = token.is_some_and(|token| are_equal(&job.map_or(token_of_nobody, |job| job.token), token));
    let is_foreign = job.is_some_and(|job| job.foreign_ids);
    // A peer without the token does not learn which namespaces there are. Its user may stand for it where users are
    // held against the registration.
    if job.is_none() || !has_token && (token.is_some() || user.is_none() || is_foreign) {
        return Err((Status::ERR_INVALID_CRED, format!("no namespace {nspace} with that token is registered here")));
    }
    let client = job
        .and_then(|job| job.clients.get(rank))
        .ok_or_else(|| (Status::ERR_PROC_ENTRY_NOT_FOUND, format!("rank {rank} of {nspace} is not registered here")))?;
    if let Some(User { uid, gid }) = user
        && !is_foreign
        && (client.uid != uid || gid.is_some_and(|gid| client.gid != gid))
    {
        let gid = gid.map_or("unknown".to_owned(), |gid| gid.to_string());
        let reason = format!("user {uid} with group {gid} is not whom {nspace}:{rank} is registered for");
        return Err((Status::ERR_INVALID_CRED, reason));
    }
    Ok(())
}

/// Compares tokens in a time that does not depend on where they differ.
fn are_equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b))) == 0
}

/// Sets the deadline of the host's answer about a peer.
fn set_deadline(cx: &mut Ctx, peer: PeerId) {
    let limit = cx.set_deadline(cx.config.host_answer_deadline, Deadline::Admission(peer));
    if let Some(entry) = cx.peers.get_mut(&peer) {
        entry.limit = Some(limit);
    }
}

/// Lets a peer in as the process that it is.
fn let_in(cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId) {
    let Some(entry) = cx.peers.get_mut(&peer) else { return };
    entry.role = Role::Rank;
    let proc = entry.proc.clone();
    let pidfd = entry.arrival.as_mut().and_then(|arrival| arrival.process.take());
    // A rank that comes again starts anew; one that comes first finds its page ready.
    if jobs.client(&proc).is_some_and(|client| client.page_descriptor.is_none()) {
        jobs.leave_page(&proc);
    }
    let is_child = pidfd.as_ref().is_some_and(|pidfd| cx.system.is_child(pidfd));
    let watch = pidfd.and_then(|pidfd| match cx.system.watch(proc.clone(), pidfd) {
        Ok(watch) => Some(watch),
        Err(e) => {
            trace!("the process of {proc} cannot be watched: {e}");
            None
        }
    });
    let mut anew = false;
    if let Some(client) = jobs.client_mut(&proc) {
        client.phase = Phase::Joined;
        anew = std::mem::replace(&mut client.has_come, true);
        client.is_child = is_child;
        (client.ended, client.gone) = (false, false);
        if let Some(old) = std::mem::replace(&mut client.watch, watch) {
            cx.system.unwatch(old);
        }
    }
    cx.effect(Effect::Joined { proc, anew });
    welcome(cx, jobs, peer);
}

/// Writes the files of a job for a peer that will look into them. It cannot be told to do otherwise any more.
fn write_files(cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId) -> Result<(), Refusal> {
    let Some(entry) = cx.peers.get(&peer) else { return Ok(()) };
    let Some(form) = entry.capabilities.reads_files else { return Ok(()) };
    let proc = entry.proc.clone();
    let account = account_of(cx, jobs, &proc);
    let store = jobs.store_mut(&proc.nspace).ok_or((Status::ERR_NOT_FOUND, "its job has no data".to_owned()))?;
    store
        .write_files(&proc.nspace, form, &account)
        .map_err(|status| (status, format!("it looks for data of its job in files that it cannot have: {status}")))
}

/// Tells a peer that it is in, with the descriptors that it can use, or with the job's information as values.
fn welcome(cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId) {
    let Some(entry) = cx.peers.get_mut(&peer) else { return };
    cx.timers.cancel(entry.limit.take());
    entry.arrival = None;
    let (proc, role, capabilities) = (entry.proc.clone(), entry.role, entry.capabilities);
    let account = account_of(cx, jobs, &proc);
    if let Some(entry) = cx.peers.get_mut(&peer) {
        entry.requests = OpenRequests::of(account.clone());
        // A rank or a tool itself is let in whatever the others of its job hold.
        entry.place.get_or_insert_with(|| account.force(Kind::Connection, CONNECTION));
    }
    let parts = match capabilities.maps_layout {
        Some(header::VERSION) => parts_for(jobs, &proc, role),
        Some(other) => {
            trace!("{proc} knows layout {other} and this server makes another: it looks up by message");
            Vec::new()
        }
        None => Vec::new(),
    };
    let store = jobs.store_mut(&proc.nspace).filter(|_| capabilities.takes_job_info);
    let job_info = store.and_then(|store| store.information(&proc.nspace));
    let (server, uri) = (cx.own_name(), cx.identity.uri.clone());
    cx.send(peer, Outgoing::Accepted { server, uri, proc, parts, job_info, account });
}

/// Returns the account that a process is charged to.
fn account_of(cx: &mut Ctx, jobs: &Jobs, proc: &Proc) -> Account {
    let job = jobs.get(&proc.nspace);
    let uid = job.and_then(|job| job.clients.get(&proc.rank)).map(|client| client.uid);
    match uid.filter(|_| job.is_some_and(|job| job.of_tools)) {
        Some(uid) => cx.accounts.of_tool(proc, uid),
        None => cx.accounts.of(proc, uid),
    }
}

/// Returns the descriptors of what a peer may map from the start.
fn parts_for(jobs: &mut Jobs, proc: &Proc, role: Role) -> Vec<(DescriptorKind, std::os::fd::OwnedFd)> {
    let Some(job) = jobs.get_mut(&proc.nspace) else { return Vec::new() };
    let Some(store) = &mut job.store else { return Vec::new() };
    let mut parts = match store.parts(&Have::default()) {
        Ok(parts) => parts,
        Err(e) => {
            trace!("no descriptor can be sent to {proc}: {e}");
            return Vec::new();
        }
    };
    if role == Role::Rank {
        parts.extend(job.take_page(proc.rank).map(|descriptor| (DescriptorKind::ReaderPage, descriptor)));
    }
    parts
}
