//! Ends: how the server learns that a peer, a process or a job is over, and what it makes of it.
//!
//! A process ends for the server when the kernel says so (its pidfd), or the host. The end of a connection alone is no
//! such sign: a process may have replaced its program, and a forked child may hold the socket long after the rank is
//! dead. Only where the kernel does not show the process, and with a tool, the connection is all there is to go by.
use super::Router;
use crate::data::{Nspace, Proc, Rank, Status};
use crate::message::door::{Left, Outgoing, PeerId};
use crate::server::ctx::Done;
use crate::server::ctx::peers::{Caller, Role};
use crate::server::ctx::system::WatchId;
use crate::server::jobs::{Job, Phase};
use crate::store::Misuse;
use crate::trace;

impl Router {
    /// A process says goodbye: it hears nothing more, and then its host is told.
    pub(super) fn finalize(&mut self, caller: Caller, proc: &Proc, role: Role) {
        self.peer_over(caller.peer);
        if role == Role::Rank {
            self.process_finalized(proc);
        }
        self.admission.finalize(&mut self.cx, &mut self.jobs, caller, proc, role);
    }

    /// A connection is gone, which is not the end of its process.
    pub(in crate::server) fn peer_left(&mut self, peer: PeerId, how: Left) {
        let Some(entry) = self.cx.peers.remove(&peer) else { return };
        self.cx.timers.cancel(entry.limit);
        self.peer_over(peer);
        let proc = entry.proc;
        self.admission.no_longer_early(&mut self.cx, &mut self.jobs, peer, &proc.nspace);
        let Some(client) = self.jobs.client_mut(&proc).filter(|client| client.peer == Some(peer)) else { return };
        client.peer = None;
        match client.phase {
            // It has ended, and is heard out to here.
            _ if self.last_words.is_speaking(&proc) => {}
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

    /// Cuts a peer off that does not keep to the protocol.
    pub(super) fn cut_off(&mut self, peer: PeerId) {
        self.peer_left(peer, Left::Cut);
        self.cx.send(peer, Outgoing::End);
    }

    /// Frees memory of a job that no reader holds, names readers that hold back too much, and cuts those off that lie
    /// about it.
    pub(in crate::server) fn reclaim(&mut self, nspace: &Nspace) {
        let misused = self.jobs.reclaim(nspace);
        self.moves.begin(&mut self.cx, &self.jobs, nspace);
        for (proc, misuse) in misused {
            match misuse {
                Misuse::HoldsBack { bytes } => {
                    trace!(
                        "{proc} holds on to {bytes} bytes of {nspace}: it gets no more guards before it lets go of them"
                    );
                }
                Misuse::Lie => {
                    trace!("the reader page of {proc} holds an epoch that has not been; it is cut off");
                    if let Some(peer) = self.jobs.client(&proc).and_then(|client| client.peer) {
                        self.cut_off(peer);
                    }
                }
            }
        }
    }

    /// Returns whether this is the process that is watched for.
    pub(in crate::server) fn is_watched(&self, proc: &Proc, watch: WatchId) -> bool {
        self.jobs.client(proc).is_some_and(|client| client.watch == Some(watch))
    }

    /// The kernel says that a process has ended.
    pub(in crate::server) fn process_ended(&mut self, proc: &Proc, watch: WatchId) {
        let Some(client) = self.jobs.client_mut(proc).filter(|client| client.watch == Some(watch)) else { return };
        client.watch = None;
        // A script may start another program as this rank after one that has said goodbye. A process that the host has
        // started itself is no script: nobody waits for it any more. One that comes later is waited for, because the
        // host may start it anew.
        let is_missed = client.phase == Phase::Finalized && client.is_child;
        self.ended(proc, true);
        if is_missed {
            self.not_coming(proc);
            self.gets.process_gone(&mut self.cx, &self.jobs, proc);
        }
        self.process_left(&proc.nspace);
    }

    /// The host says that a process has ended.
    pub(in crate::server) fn client_died(&mut self, proc: &Proc) {
        self.ended(proc, false);
    }

    fn ended(&mut self, proc: &Proc, tell_host: bool) {
        let Some(client) = self.jobs.client_mut(proc) else { return };
        let is_news = !std::mem::replace(&mut client.ended, true);
        let phase = client.phase;
        let peer = client.peer.take();
        if let Some(watch) = client.watch.take() {
            self.cx.system.unwatch(watch);
        }
        self.jobs.leave_page(proc);
        if is_news {
            self.events.watchers.process_ended(&mut self.cx, &self.jobs, proc);
        }
        // A forked child may hold the other end open; the rank is dead all the same.
        if let Some(peer) = peer {
            self.peer_over(peer);
            // A host may forget who has said goodbye before it answers to that.
            if let Some(number) = self.cx.peers.get(&peer).and_then(|entry| entry.leaving) {
                self.admission.farewell(&mut self.cx, peer, number, Ok(()));
            }
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
        if !tell_host {
            self.cut_clones(proc);
        }
        self.inputs.process_ended(proc);
        self.cleanups.process_ended(&mut self.cx, &self.jobs, proc);
        self.tool_left(proc);
    }

    /// Cuts off processes that one which is over has forked: what they ask for nobody would give back.
    fn cut_clones(&mut self, proc: &Proc) {
        let Some(client) = self.jobs.client_mut(proc) else { return };
        if !std::mem::take(&mut client.has_clones) {
            return;
        }
        let of_it = self.cx.peers.iter().filter(|(_, entry)| entry.role == Role::Clone && entry.proc == *proc);
        let clones: Vec<PeerId> = of_it.map(|(peer, _)| *peer).collect();
        clones.into_iter().for_each(|clone| self.cut_off(clone));
    }

    /// A process will not answer any more and never said goodbye.
    fn lost(&mut self, proc: &Proc, status: Status) {
        trace!("{proc} is lost: {status}");
        self.mark_gone(proc);
        let host = self.cx.host.clone();
        self.cx.call_host(|| host.client_lost(proc, status), "client_lost");
    }

    fn mark_gone(&mut self, proc: &Proc) {
        if let Some(client) = self.jobs.client_mut(proc) {
            // The kernel and the host may both say it.
            trace::event!(INFO, %proc, again = client.gone, "a process has ended");
            client.gone = true;
            if client.phase != Phase::Finalized {
                client.phase = Phase::Lost;
            }
        }
        self.process_gone(proc);
    }

    /// A tool is gone, and its namespace with the last of its tools.
    pub(super) fn tool_left(&mut self, proc: &Proc) {
        let Some(client) = self.jobs.client_mut(proc).filter(|client| client.is_tool) else { return };
        trace!("the tool {proc} is gone");
        client.is_tool = false;
        self.deregister_client(proc, Box::new(|_| {}));
        self.forget_tools(&proc.nspace);
    }

    /// Forgets a namespace that was registered for tools and has none left.
    pub(super) fn forget_tools(&mut self, nspace: &Nspace) {
        if self.jobs.get(nspace).is_some_and(Job::is_left_by_tools) {
            self.deregister_nspace(nspace, Box::new(|_| {}));
        }
    }

    /// A tool that another server has let in is gone: nobody here waits for it any more. The host answers first what it
    /// was asked for with it.
    pub(in crate::server) fn remote_tool_left(&mut self, tool: &Proc) {
        let Some(job) = self.jobs.get_mut(&tool.nspace) else { return };
        if job.tools_elsewhere.remove(&tool.rank) && !job.clients.contains_key(&tool.rank) {
            job.departed.insert(tool.rank);
            self.not_coming(tool);
        }
        self.leaving.push(tool.nspace.clone());
    }

    /// Forgets namespaces of tools that are gone. Returns whether there were some.
    pub(super) fn forget_leaving(&mut self) -> bool {
        if self.leaving.is_empty() {
            return false;
        }
        let is_asked = |nspace: &Nspace| self.collectives.complete(nspace).next().is_some();
        let (asked, over): (Vec<_>, Vec<_>) = std::mem::take(&mut self.leaving).into_iter().partition(is_asked);
        self.leaving = asked;
        over.iter().for_each(|nspace| self.forget_tools(nspace));
        !over.is_empty()
    }

    /// The host has a job of this name. Tools that have chosen it for themselves, which the host was not asked about,
    /// have to go.
    pub(in crate::server) fn make_way(&mut self, nspace: &Nspace) {
        let Some(job) = self.jobs.get(nspace).filter(|job| job.self_named) else { return };
        let tools: Vec<Proc> = job.clients.keys().map(|rank| Proc::new(nspace.clone(), *rank)).collect();
        for tool in tools {
            trace!("the tool {tool} has the name of a job, and is cut off");
            self.ended(&tool, true);
        }
    }

    /// The process is gone for the host; so it is here. Calls `done` after its clean-up.
    pub(in crate::server) fn deregister_client(&mut self, proc: &Proc, done: Done<()>) {
        self.client_died(proc);
        self.jobs.deregister_client(&mut self.cx, proc);
        self.cleanups.after_removals(&mut self.cx, done);
    }

    /// Everything of the namespace goes: clients, collectives with it, look-ups in it, data, and what was to be cleaned
    /// up.
    pub(in crate::server) fn deregister_nspace(&mut self, nspace: &Nspace, done: Done<()>) {
        let ranks: Vec<Rank> =
            self.jobs.get(nspace).map(|job| job.clients.keys().copied().collect()).unwrap_or_default();
        for rank in ranks {
            self.client_died(&Proc::new(nspace.clone(), rank));
        }
        self.job_over(nspace);
        self.jobs.remove(&mut self.cx, nspace);
        self.cleanups.after_removals(&mut self.cx, done);
    }

    /// The server ends: everybody is cut off, and everything is cleaned up.
    pub(in crate::server) fn end(&mut self) {
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
