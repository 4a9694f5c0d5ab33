//! Who comes in, and what becomes of those who are in.
//!
//! A peer is held against its job's token and against its registration (user and group), and then the host is asked. The first
//! process that comes as a rank is that rank; another one that comes while it is in is a clone, forked from it: it may look at
//! everything, is no second participant, and its end is not the rank's.
//!
//! A process ends for the server when the kernel says so (its pidfd), or the host. The end of a connection alone is no such sign: a
//! process may have replaced its program, and a forked child may hold the socket long after the rank is dead.

use instanton_layout::header;

use super::ctx::peers::{Peer, Role};
use super::ctx::system::WatchId;
use super::ctx::timers::Deadline;
use super::jobs::Phase;
use super::router::Router;
use super::tools;
use crate::control::rendezvous::Uri;
use crate::data::{Nspace, Proc, Status};
use crate::message::door::{Arrival, Claim, Left, Outgoing, PeerId};
use crate::message::{Mapped, Part};
use crate::sys::process;
use crate::trace;

/// Connections of one rank: its own, and those of processes that it has forked.
const MAX_CONNECTIONS: usize = 256;

impl Router {
    pub(super) fn arrive(&mut self, peer: PeerId, arrival: Arrival) {
        let proc = tools::claimed(&arrival.claim);
        let (claim, ids) = (arrival.claim.clone(), (arrival.uid, arrival.gid));
        self.cx.peers.insert(peer, Peer::new(proc.clone(), Role::Asking, Some(arrival)));
        let verdict = match &claim {
            Claim::Process { token, .. } => self.check(&proc, token, ids),
            Claim::Tool { proc, server } => return self.tool_arrives(peer, proc.as_ref(), server.as_ref()),
        };
        if let Err((status, reason)) = verdict {
            return self.refuse(peer, status, reason);
        }
        let is_same = |other: &&Peer| other.proc.rank == proc.rank && other.proc == proc;
        // Not counted where there are no more than that in all.
        if self.cx.peers.len() > MAX_CONNECTIONS && self.cx.peers.values().filter(is_same).count() > MAX_CONNECTIONS {
            return self.refuse(peer, Status::ERR_OUT_OF_RESOURCE, format!("it has {MAX_CONNECTIONS} connections"));
        }
        let at = self.cx.now() + self.cx.config.host_answer_deadline;
        let limit = self.cx.timers.set(at, Deadline::Admission(peer));
        if let Some(entry) = self.cx.peers.get_mut(&peer) {
            entry.limit = Some(limit);
        }
        match self.jobs.get_mut(&proc.nspace) {
            Some(job) if job.stored.is_none() => job.early.push(peer),
            _ => self.consider(peer),
        }
    }

    /// Holds a peer against token and registration.
    fn check(&self, proc: &Proc, token: &[u8; 32], (uid, gid): (u32, u32)) -> Result<(), (Status, String)> {
        let Proc { nspace, rank } = proc;
        let token_of_nobody = [0; 32];
        let job = self.jobs.get(nspace);
        // A peer without the token does not learn which namespaces there are.
        if !same(&job.map_or(token_of_nobody, |job| job.token), token) || job.is_none() {
            return Err((
                Status::ERR_INVALID_CRED,
                format!("no namespace {nspace} with that token is registered here"),
            ));
        }
        let client = job.and_then(|job| job.clients.get(rank)).ok_or_else(|| {
            (Status::ERR_PROC_ENTRY_NOT_FOUND, format!("rank {rank} of {nspace} is not registered here"))
        })?;
        let foreign = job.is_some_and(|job| job.foreign_ids);
        if !foreign && (client.uid, client.gid) != (uid, gid) {
            return Err((
                Status::ERR_INVALID_CRED,
                format!("user {uid} with group {gid} is not whom {nspace}:{rank} is registered for"),
            ));
        }
        Ok(())
    }

    /// Decides what a peer with good papers is to its rank, and asks the host about a rank.
    pub(super) fn consider(&mut self, peer: PeerId) {
        let Some(entry) = self.cx.peers.get_mut(&peer) else { return };
        let proc = entry.proc.clone();
        let pid = entry.arrival.as_ref().map_or(0, |arrival| arrival.pid);
        let Some(client) = self.jobs.client_mut(&proc) else {
            return self.refuse(peer, Status::ERR_PROC_ENTRY_NOT_FOUND, format!("{proc} is not registered any more"));
        };
        let replaced_its_program = client.peer.is_none() && client.pid == pid;
        if client.phase == Phase::Asking {
            // Nobody comes in as a clone of a process that the host may still refuse.
            return self.refuse(peer, Status::ERR_RESOURCE_BUSY, format!("another process comes in as {proc}"));
        }
        if client.phase == Phase::Joined && !replaced_its_program {
            entry.role = Role::Clone;
            return self.welcome(peer);
        }
        client.phase = Phase::Asking;
        client.peer = Some(peer);
        client.pid = pid;
        let info = entry.arrival.as_ref().map(|arrival| arrival.info.clone()).unwrap_or_default();
        self.ask_host(
            |host, done| host.client_connected2(&proc, &info, done),
            (),
            move |router, result| router.admit(peer, result),
        );
    }

    /// The host has answered.
    fn admit(&mut self, peer: PeerId, verdict: Result<(), Status>) {
        let Some(entry) = self.cx.peers.get_mut(&peer) else { return };
        if entry.role != Role::Asking {
            return;
        }
        match verdict {
            Ok(()) | Err(Status::ERR_NOT_SUPPORTED) => {}
            Err(status) => return self.refuse(peer, status, format!("the host refuses it: {status}")),
        }
        self.let_in(peer);
    }

    /// A peer comes in as the process that it is.
    pub(super) fn let_in(&mut self, peer: PeerId) {
        let Some(entry) = self.cx.peers.get_mut(&peer) else { return };
        entry.role = Role::Rank;
        let proc = entry.proc.clone();
        let pidfd = entry.arrival.as_mut().and_then(|arrival| arrival.process.take());
        // A rank that comes again starts anew; one that comes first finds its page ready.
        if self.jobs.client(&proc).is_some_and(|client| client.page_descriptor.is_none()) {
            self.leave_page(&proc);
        }
        self.process_restarted(&proc);
        if let Some(job) = self.jobs.get_mut(&proc.nspace) {
            job.misses_fences = None;
        }
        let is_child = pidfd.as_ref().is_some_and(process::is_child);
        let watch = pidfd.and_then(|pidfd| match self.cx.system.watch(proc.clone(), pidfd) {
            Ok(watch) => Some(watch),
            Err(e) => {
                trace!("the process of {proc} cannot be watched: {e}");
                None
            }
        });
        if let Some(client) = self.jobs.client_mut(&proc) {
            client.phase = Phase::Joined;
            client.is_child = is_child;
            (client.ended, client.gone) = (false, false);
            if let Some(old) = std::mem::replace(&mut client.watch, watch) {
                self.cx.system.unwatch(old);
            }
        }
        self.welcome(peer);
    }

    /// Lets a peer in, with the descriptors it can use.
    fn welcome(&mut self, peer: PeerId) {
        let Some(entry) = self.cx.peers.get_mut(&peer) else { return };
        self.cx.timers.cancel(entry.limit.take());
        let (proc, role) = (entry.proc.clone(), entry.role);
        let layout = entry.arrival.take().map_or(0, |arrival| arrival.layout);
        let parts = if layout == header::VERSION { self.parts_for(&proc, role) } else { Vec::new() };
        if layout != header::VERSION && layout != 0 {
            trace!("{proc} knows layout {layout} and this server makes another: it looks up by message");
        }
        let server = self.cx.own_name();
        let of_clients = || Uri { server: server.clone(), name: self.common.abstract_name.clone() };
        let uri = self.common.uri.clone().unwrap_or_else(of_clients).to_string();
        self.cx.send(peer, Outgoing::Accepted { server, uri, proc, parts });
    }

    fn parts_for(&mut self, proc: &Proc, role: Role) -> Vec<(Part, std::os::fd::OwnedFd)> {
        let Some(job) = self.jobs.get_mut(&proc.nspace) else { return Vec::new() };
        let Some(stored) = &mut job.stored else { return Vec::new() };
        let mut parts = match stored.parts(&Mapped::default()) {
            Ok(parts) => parts,
            Err(e) => {
                trace!("no descriptor can be sent to {proc}: {e}");
                return Vec::new();
            }
        };
        if role == Role::Rank {
            parts.extend(job.take_page(proc.rank).map(|descriptor| (Part::ReaderPage, descriptor)));
        }
        parts
    }

    pub(super) fn refuse(&mut self, peer: PeerId, status: Status, reason: String) {
        let Some(entry) = self.cx.peers.remove(&peer) else { return };
        self.cx.timers.cancel(entry.limit);
        self.no_longer_early(peer, &entry.proc.nspace);
        let (pid, uid) = entry.arrival.as_ref().map_or((0, 0), |arrival| (arrival.pid, arrival.uid));
        trace!("process {pid} of user {uid} is refused as {}: {reason}", entry.proc);
        if let Some(client) = self.jobs.client_mut(&entry.proc)
            && client.peer == Some(peer)
        {
            client.phase = Phase::Expected;
            client.peer = None;
        }
        self.cx.send(peer, Outgoing::Refused { status, reason });
    }

    pub(super) fn admission_expired(&mut self, peer: PeerId) {
        let Some(entry) = self.cx.peers.get_mut(&peer) else { return };
        entry.limit = None;
        let known = self.jobs.stored(&entry.proc.nspace).is_some();
        let late = if known { "the host's answer" } else { "the registration of its namespace" };
        let seconds = self.cx.config.host_answer_deadline.as_secs_f32();
        self.refuse(peer, Status::ERR_TIMEOUT, format!("{late} did not come within {seconds} s"));
    }

    /// A process is done; its host hears of it first.
    pub(super) fn finalize(&mut self, peer: PeerId, number: u64, proc: Proc, role: Role) {
        self.peer_over(peer);
        if role == Role::Rank {
            self.process_finalized(&proc);
        }
        let Some(client) = self.jobs.client_mut(&proc).filter(|_| role == Role::Rank) else {
            return self.cx.reply_status(peer, number, Ok(()));
        };
        client.phase = Phase::Finalized;
        self.leave_page(&proc);
        let limit = self.cx.set_deadline(self.cx.config.host_farewell_deadline, Deadline::Farewell(peer, number));
        if let Some(entry) = self.cx.peers.get_mut(&peer) {
            (entry.limit, entry.leaving) = (Some(limit), Some(number));
        }
        self.ask_host(
            |host, done| host.client_finalized(&proc, done),
            (),
            move |router, result| {
                let result = match result {
                    Err(Status::ERR_NOT_SUPPORTED) => Ok(()),
                    other => other,
                };
                router.farewell(peer, number, result);
            },
        );
    }

    fn farewell(&mut self, peer: PeerId, number: u64, result: Result<(), Status>) {
        // Without a limit there is nobody waiting any more.
        let Some(limit) = self.cx.peers.get_mut(&peer).and_then(|entry| entry.limit.take()) else { return };
        self.cx.timers.cancel(limit);
        self.cx.reply_status(peer, number, result);
        // A tool does not stay any longer, whatever becomes of its process.
        if let Some(entry) = self.cx.peers.get(&peer) {
            self.tool_left(&entry.proc.clone());
        }
    }

    pub(super) fn farewell_expired(&mut self, peer: PeerId, number: u64) {
        if let Some(entry) = self.cx.peers.get(&peer) {
            trace!("the host does not answer the Finalize of {}, which goes without its word", entry.proc);
        }
        self.farewell(peer, number, Ok(()));
    }

    /// A connection is gone, which is not the end of its process.
    pub(super) fn peer_left(&mut self, peer: PeerId, how: Left) {
        let Some(entry) = self.cx.peers.remove(&peer) else { return };
        self.collectives.peer_over(peer);
        self.cx.timers.cancel(entry.limit);
        self.peer_over(peer);
        let proc = entry.proc;
        self.no_longer_early(peer, &proc.nspace);
        let Some(client) = self.jobs.client_mut(&proc).filter(|client| client.peer == Some(peer)) else { return };
        client.peer = None;
        match client.phase {
            _ if client.is_tool => {
                if client.phase == Phase::Joined {
                    self.lost(&proc, Status::ERR_LOST_CONNECTION);
                }
                self.tool_left(&proc);
            }
            Phase::Asking => client.phase = Phase::Expected,
            Phase::Joined if how == Left::Cut => self.lost(&proc, Status::ERR_LOST_CONNECTION),
            Phase::Joined if client.watch.is_none() => {
                // The kernel does not show the process: the end of its connection is all there is to go by.
                client.ended = true;
                self.lost(&proc, Status::ERR_PROC_TERM_WO_SYNC);
                self.cleanups.process_ended(&mut self.cx, &self.jobs, &proc);
            }
            Phase::Finalized if client.watch.is_none() => {
                client.ended = true;
                self.cleanups.process_ended(&mut self.cx, &self.jobs, &proc);
            }
            _ => {}
        }
        self.process_left(&proc.nspace);
    }

    /// A peer that has come before its namespace was registered does not wait for that any more.
    fn no_longer_early(&mut self, peer: PeerId, nspace: &Nspace) {
        if let Some(job) = self.jobs.get_mut(nspace) {
            job.early.retain(|early| *early != peer);
            self.forget_empty(nspace);
        }
    }

    /// Ends the connection of a process that does not keep to the protocol.
    pub(super) fn cut_off(&mut self, proc: &Proc) {
        let peer = self.jobs.client(proc).and_then(|client| client.peer);
        if let Some(peer) = peer {
            self.peer_left(peer, Left::Cut);
            self.cx.send(peer, Outgoing::End);
        }
    }

    /// The kernel says that a process has ended.
    pub(super) fn process_ended(&mut self, proc: &Proc, watch: WatchId) {
        let Some(client) = self.jobs.client_mut(proc).filter(|client| client.watch == Some(watch)) else { return };
        client.watch = None;
        // A script may start another program as this rank after one that has said goodbye. What the host has started itself is
        // no script: nobody waits for it any more. Who comes later does, because the host may start it anew.
        let is_missed = client.phase == Phase::Finalized && client.is_child;
        self.ended(proc, true);
        if is_missed {
            self.not_coming(proc);
            self.gets.process_gone(&mut self.cx, proc);
        }
        self.process_left(&proc.nspace);
    }

    /// The host says that a process has ended.
    pub(super) fn client_died(&mut self, proc: &Proc) {
        self.ended(proc, false);
    }

    pub(super) fn ended(&mut self, proc: &Proc, tell_host: bool) {
        let Some(client) = self.jobs.client_mut(proc) else { return };
        client.ended = true;
        let phase = client.phase;
        let peer = client.peer.take();
        if let Some(watch) = client.watch.take() {
            self.cx.system.unwatch(watch);
        }
        self.leave_page(proc);
        // A forked child may hold the other end open; the rank is dead all the same.
        if let Some(peer) = peer {
            self.peer_over(peer);
            // A host may forget who has said goodbye before it answers to that.
            if let Some(number) = self.cx.peers.get(&peer).and_then(|entry| entry.leaving) {
                self.farewell(peer, number, Ok(()));
            }
            self.collectives.peer_over(peer);
            if let Some(limit) = self.cx.peers.remove(&peer).and_then(|entry| entry.limit) {
                self.cx.timers.cancel(limit);
            }
            self.cx.send(peer, Outgoing::End);
        }
        match phase {
            Phase::Lost => {}
            Phase::Finalized if tell_host => {}
            _ if tell_host => self.lost(proc, Status::ERR_PROC_TERM_WO_SYNC),
            // The host says that none will come.
            _ => self.mark_gone(proc),
        }
        self.inputs.process_ended(proc);
        self.cleanups.process_ended(&mut self.cx, &self.jobs, proc);
        self.tool_left(proc);
    }

    /// A process will not answer any more and never said goodbye.
    fn lost(&mut self, proc: &Proc, status: Status) {
        trace!("{proc} is lost: {status}");
        self.mark_gone(proc);
        let host = self.cx.host.clone();
        host.client_lost(proc, status);
    }

    fn mark_gone(&mut self, proc: &Proc) {
        if let Some(client) = self.jobs.client_mut(proc) {
            client.gone = true;
            if client.phase != Phase::Finalized {
                client.phase = Phase::Lost;
            }
        }
        self.process_gone(proc);
    }

    fn leave_page(&mut self, proc: &Proc) {
        if let Some(job) = self.jobs.get_mut(&proc.nspace) {
            job.leave_page(proc.rank);
        }
    }

    /// The server ends: everybody is cut off, and everything is cleaned up.
    pub(super) fn end(&mut self) {
        for nspace in self.jobs.names() {
            self.deregister_nspace(&nspace, Box::new(|_| {}));
        }
        for peer in self.cx.peers.keys().copied().collect::<Vec<_>>() {
            self.cx.send(peer, Outgoing::End);
        }
        self.cx.peers.clear();
        self.gets.server_over(&mut self.cx);
        self.cleanups.join();
    }
}

/// Compares tokens in a time that does not depend on where they differ.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b))) == 0
}
