//! The state of a server, and the way of each request, answer and deadline to its room.
//!
//! [`Router`] is all the state there is. The [control thread](super::control_thread) alone touches it, so there
//! is no lock in it. It sees requests, the ends of processes, time limits, the host's answers and the handle's
//! commands, and it speaks by putting messages into its outbox, which the [reactor](super::reactor) takes to
//! the doors after every step.
use std::sync::Arc;

use crate::attribute_support::HostSupport;
use crate::data::{Info, Nspace, Proc, Status, keys};
use crate::message::door::{Arrival, Callers, JobInformation, Left, PeerId, User};
use crate::message::{FENCE, Forward, Request, SHORT};
use crate::server::absorptions::{Absorptions, Purpose};
use crate::server::admission::{self, Admission};
use crate::server::cleanup::Cleanups;
use crate::server::collective::Collectives;
use crate::server::collective::arrived::Waiter;
use crate::server::collective::brought::Brought;
use crate::server::collective::signature::Operation;
use crate::server::commits::{self, Commits};
use crate::server::connect::Connections;
use crate::server::ctx::Ctx;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::event::Event;
use crate::server::ctx::open_requests::Asked;
use crate::server::ctx::peers::{Caller, Role};
use crate::server::ctx::slices::Slice;
use crate::server::ctx::ticket::Ticket;
use crate::server::ctx::timers::Deadline;
use crate::server::events::{self, Events};
use crate::server::fence::Fences;
use crate::server::fork_environment::ForkEnvironments;
use crate::server::forward;
use crate::server::gets::Gets;
use crate::server::groups::{self, Groups};
use crate::server::iof::input::{Inputs, Pushed};
use crate::server::iof::local_output::LocalOutput;
use crate::server::iof::output::{Outputs, PullRequest};
use crate::server::jobs::Jobs;
use crate::server::monitors::{MonitorRequest, Monitors};
use crate::server::moves::Moves;
use crate::server::program::Program;
use crate::server::psets::ProcessSets;
use crate::server::query::Queries;
use crate::server::spawn;
use crate::server::trust;
use crate::sys::later;
use crate::trace;

/// Lends the room of groups the layers below it.
macro_rules! below {
    ($router:expr) => {
        crate::server::groups::Below {
            cx: &mut $router.cx,
            jobs: &mut $router.jobs,
            collectives: &mut $router.collectives,
        }
    };
}

mod bounds;
mod collective;
mod ends;
mod last_words;
mod left;
mod lifecycle;
mod notify;
mod query;
mod segments;

use last_words::LastWords;

pub(in crate::server) struct Router {
    pub(in crate::server) cx: Ctx,
    pub(in crate::server) jobs: Jobs,
    pub(in crate::server) admission: Admission,
    pub(in crate::server) environments: ForkEnvironments,
    pub(in crate::server) commits: Commits,
    pub(in crate::server) moves: Moves,
    pub(in crate::server) absorptions: Absorptions,
    pub(in crate::server) collectives: Collectives,
    pub(in crate::server) fences: Fences,
    pub(in crate::server) connections: Connections,
    pub(in crate::server) groups: Groups,
    pub(in crate::server) process_sets: ProcessSets,
    pub(in crate::server) outputs: Outputs,
    pub(in crate::server) inputs: Inputs,
    pub(in crate::server) gets: Gets,
    pub(in crate::server) queries: Queries,
    pub(in crate::server) monitors: Monitors,
    pub(in crate::server) events: Events,
    /// Attributes that the host supports.
    pub(in crate::server) host_support: HostSupport,
    pub(in crate::server) cleanups: Cleanups,
    pub(in crate::server) program: Program,
    pub(in crate::server) last_words: LastWords,
    /// Namespaces of tools of other servers, none of which is left, with which the host has collectives still.
    leaving: Vec<Nspace>,
}

impl Router {
    /// Creates a server that knows no job.
    pub(in crate::server) fn new(cx: Ctx, environments: ForkEnvironments, local_output: Option<LocalOutput>) -> Self {
        let jobs = Jobs::new(&cx.config);
        Router {
            cx,
            jobs,
            admission: Admission::default(),
            environments,
            commits: Commits::default(),
            moves: Moves::default(),
            absorptions: Absorptions::default(),
            collectives: Collectives::default(),
            fences: Fences::default(),
            connections: Connections::default(),
            groups: Groups::default(),
            process_sets: ProcessSets::default(),
            outputs: Outputs::new(local_output),
            inputs: Inputs::default(),
            gets: Gets::default(),
            queries: Queries::default(),
            monitors: Monitors::default(),
            events: Events::default(),
            host_support: HostSupport::default(),
            cleanups: Cleanups::default(),
            program: Program::default(),
            last_words: LastWords::default(),
            leaving: Vec::new(),
        }
    }

    /// Ends the loop after this step.
    pub(in crate::server) fn stop(&mut self) {
        self.cx.stopping = true;
    }

    /// Acts on the result of a call of the host, or of work: its ticket says what to do with it.
    pub(in crate::server) fn redeem(&mut self, ticket: Ticket) {
        match ticket {
            Ticket::Reply(caller, reply) => self.cx.reply(caller.peer, caller.number, reply),
            Ticket::Made(caller, answer) => self.cx.answer_made(caller, answer),
            Ticket::Ignored => {}
            Ticket::Worked(peers, time) => {
                let part = time / peers.len().max(1) as u32;
                self.cx.worked.extend(peers.into_iter().map(|peer| (peer, part)));
            }
            Ticket::Fence(id, peers, result) => self.absorb(Purpose::Fence(id, peers), result.map(Brought::Row)),
            Ticket::FailedFence(number, result) => self.absorb(Purpose::FailedFence(number), result.map(Brought::Row)),
            Ticket::Contribution(_)
            | Ticket::Bringing(_)
            | Ticket::SingleBringing(_)
            | Ticket::Connect(..)
            | Ticket::Group(..)
            | Ticket::Single(..)
            | Ticket::InvitationContext(..) => self.collective_answered(ticket),
            Ticket::DirectModex(proc, number, result) => {
                self.absorb(Purpose::DirectModex(proc, number), result.map(Brought::Row));
            }
            Ticket::Departed(number) => self.gets.direct_modex.departed(&mut self.cx, &mut self.jobs, number),
            Ticket::BlobGone(nspace) => self.gets.direct_modex.blob_gone(&mut self.cx, &self.jobs, &nspace),
            Ticket::Awaited(nspace, result) => self.fences.job_announced(&mut self.cx, &nspace, result),
            Ticket::Unnamed(number, result) => self.gets.unnamed(&mut self.cx, number, result),
            Ticket::Decoded(number) => {
                let absorbed = self.absorptions.decoded(&mut self.cx, number);
                self.absorbed(absorbed);
            }
            Ticket::Written(number) => {
                let absorbed = self.absorptions.worked(&mut self.cx, &mut self.jobs, number);
                self.absorbed(absorbed);
            }
            Ticket::Draft(number, draft, result) => {
                self.commits.stepped(&mut self.cx, &mut self.jobs, number, draft, result);
            }
            Ticket::Move(number, ranks, result) => {
                self.moves.stepped(&mut self.cx, &mut self.jobs, number, ranks, result);
            }
            Ticket::Query(number, result) => self.query_answered(number, result),
            Ticket::FileSeen(peer, number, seen) => self.monitors.file_seen(&mut self.cx, (peer, number), seen),
            Ticket::EventCodes(result) => self.events.host_watches(&mut self.cx, result),
            Ticket::EventPassedOn { then, heard, result } => self.events.passed_on(&mut self.cx, then, heard, result),
            Ticket::Spawned { caller, parent, kept, result } => {
                spawn::answered(&mut self.cx, &self.jobs, caller, (parent, kept), result);
            }
            Ticket::OutputPull(pull, result) => self.outputs.pull_answered(&mut self.cx, pull, result),
            Ticket::InputPushed(caller, source, result) => {
                self.inputs.answered(&mut self.cx, caller, &source, result);
            }
            Ticket::Removed(number) => self.cleanups.removed(&mut self.cx, number),
            Ticket::Admitted(peer, result) => {
                self.admission.admitted(&mut self.cx, &mut self.jobs, peer, result);
                self.events.rank_came(&self.cx, &self.jobs, peer);
            }
            Ticket::ToolAdmitted { peer, own, named } => {
                self.admission.tool_admitted(&mut self.cx, &mut self.jobs, peer, own, named);
            }
            Ticket::Farewell(caller, result) => self.admission.farewell_answered(&mut self.cx, caller, result),
        }
    }

    /// Acts on what the steps before mean to other rooms, in order, until there is nothing left.
    pub(in crate::server) fn drain(&mut self) {
        loop {
            self.drain_effects();
            if !self.forget_leaving() && !self.end_the_silent() {
                return;
            }
        }
    }

    fn drain_effects(&mut self) {
        while let Some(effect) = self.cx.next_effect() {
            match effect {
                Effect::Returned(ticket) => self.redeem(ticket),
                Effect::Posted { proc, keys } => self.gets.posted(&mut self.cx, &self.jobs, &proc, &keys),
                Effect::Raise { event, origin, then } => {
                    self.events.raise(&mut self.cx, &self.jobs, event, origin, then);
                }
                Effect::Unreached { group, number, event, failure } => {
                    self.groups.unreached(below!(self), &group, number, (event, failure));
                }
                Effect::Collective => self.collective_step(),
                Effect::TrackerOver(id) => self.groups.tracker_over(below!(self), id),
                Effect::Reclaim(nspace) => self.reclaim(&nspace),
                Effect::Spawned { parent, child } => {
                    // A parent that is gone has nothing to share.
                    if self.jobs.get(&parent).is_some() {
                        self.connections.tie(parent, child);
                    }
                }
                Effect::InputReleased => self.inputs.release(&mut self.cx),
                Effect::JobListed(nspace) => {
                    self.environments.publish(&self.jobs, &nspace);
                    if self.jobs.get(&nspace).is_none() {
                        self.cleanups.job_forgotten(&nspace);
                        self.cx.accounts.forget(&nspace);
                    }
                }
                Effect::JobRegistered { nspace, parent } => self.job_registered(&nspace, parent),
                Effect::ClientRegistered(nspace) => self.job_changed(&nspace),
                Effect::Joined { proc, anew } => self.process_joined(&proc, anew),
                Effect::ToolLeft(proc) => self.tool_left(&proc),
                Effect::ToolsChanged(nspace) => self.forget_tools(&nspace),
            }
        }
    }

    /// Does some more of long work.
    pub(in crate::server) fn slice(&mut self, slice: Slice) {
        match slice {
            Slice::Construct(id) => self.groups.construct_slice(below!(self), id),
            Slice::Assembly(number) => self.groups.assembly_slice(below!(self), number),
            Slice::Move(number) => self.moves.slice(&mut self.cx, &mut self.jobs, number),
            Slice::Farewell(number) => self.groups.farewell_slice(below!(self), number),
            Slice::Loss(number) => self.collectives.lose_more(&mut self.cx, &self.jobs, number),
            Slice::Departure(number) => self.gets.direct_modex.slice(&mut self.cx, &mut self.jobs, number),
            Slice::Gets => self.gets.slice(&mut self.cx, &self.jobs),
            Slice::Commit(number) => self.commits.slice(&mut self.cx, &mut self.jobs, number),
            Slice::Absorption(number) => {
                let absorbed = self.absorptions.slice(&mut self.cx, &mut self.jobs, number);
                self.absorbed(absorbed);
            }
        }
    }

    /// Acts on a request, which came in so many bytes, or takes so many where it is long.
    pub(in crate::server) fn dispatch(&mut self, peer: PeerId, number: u64, request: Request, bytes: usize) {
        let Some(entry) = self.cx.peers.get(&peer) else { return };
        let proc = entry.proc.clone();
        self.cx.name_step(request.kind(), &proc);
        self.cx.meter.count(request.kind());
        let _span = trace::span!(DEBUG, "request", of = %proc, kind = request.kind(), number, bytes);
        let Some(entry) = self.cx.peers.get_mut(&peer) else { return };
        if entry.requests.has(number) {
            trace!("{proc} asks under a number whose answer it waits for");
            later::drop_sized(bytes, request);
            return self.cut_off(peer);
        }
        // A small commit is answered at once, and a fence of the whole job mostly holds nothing.
        let is_small_commit = bytes <= commits::LARGE && matches!(request, Request::Commit { .. });
        let is_brief = is_small_commit || bytes == 0 && matches!(request, Request::Meet { .. });
        // The memory that a long request takes is in its bytes already.
        let held = if is_brief || bytes > SHORT { bytes } else { bytes.max(request.kept_size()) };
        let has_room = if is_brief { entry.requests.open_briefly() } else { entry.requests.open(number, held) };
        if !is_brief {
            let (call, subject, since) = (request.kind(), request.subject(), self.cx.system.now());
            entry.requests.note(number, Asked { call, subject, since });
        }
        let role = entry.role;
        let waits_at_words = entry.capabilities.waits_at_words;
        if let Some(seen) = request.seen().filter(|_| waits_at_words) {
            entry.requests.wait_at_word(seen);
        }
        // A process that the rank forked speaks for no member.
        let own_words = if role == Role::Rank { groups::words_of(&entry.capabilities) } else { &[] };
        if !has_room {
            trace!("{proc} has too many or too large requests waiting; another one is refused");
            later::drop_sized(bytes, request);
            return self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let is_too_much = || bounds::is_too_long(&self.jobs, &request) || bounds::is_too_large(&request, held);
        if role != Role::Program && is_too_much() {
            trace!("{proc} asks for too much in {}", request.kind());
            later::drop_sized(bytes, request);
            return self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let caller = Caller { peer, number };
        if role != Role::Program
            && let Some(forbidden) = trust::forbidden(&request, own_words)
        {
            trace!("{proc} is refused {forbidden}, which servers alone may say");
            later::drop_sized(bytes, request);
            return self.cx.answer_status(caller, Err(Status::ERR_NO_PERMISSIONS));
        }
        let known = (&self.jobs, &self.process_sets);
        let tells_raiser = self.groups.is_for_raiser_by_set(known, &proc, &request);
        let request = match self.groups.translate(&self.jobs, &self.process_sets, request) {
            Ok(request) => request,
            Err(status) => return self.cx.reply_status(peer, number, Err(status)),
        };
        match request {
            // A process that the rank forked may look, and ask on its own behalf, but is no second participant.
            Request::Commit { .. }
            | Request::Fence { .. }
            | Request::Meet { .. }
            | Request::Connect { .. }
            | Request::Disconnect { .. }
            | Request::Group { .. }
                if role == Role::Clone =>
            {
                trace!("a second process that calls itself {proc} may not commit or meet others");
                self.cx.reply_status(peer, number, Err(Status::ERR_NOT_SUPPORTED));
            }
            // The program of the server is no rank: it meets nobody, and looks where it is.
            Request::Commit { .. }
            | Request::Fence { .. }
            | Request::Meet { .. }
            | Request::Group { .. }
            | Request::Get { .. }
            | Request::Segments { .. }
            | Request::Finalize
                if role == Role::Program =>
            {
                self.cx.reply_status(peer, number, Err(Status::ERR_UNREACH));
            }
            Request::Connect { procs, info } if role == Role::Program => {
                forward::connect(&mut self.cx, caller, &procs, &info);
            }
            Request::Disconnect { procs, info } if role == Role::Program => {
                forward::disconnect(&mut self.cx, caller, &procs, &info);
            }
            Request::Commit { entries } if bytes > commits::LARGE => {
                self.cx.host.committed(&proc, &entries);
                self.commits.begin(&mut self.cx, &mut self.jobs, caller, proc, (entries, bytes));
            }
            Request::Commit { entries } => {
                self.cx.host.committed(&proc, &entries);
                match self.jobs.commit_briefly(&mut self.cx, &proc, entries) {
                    Ok(result) => self.cx.answer_status(caller, result),
                    Err(entries) => {
                        self.commits.begin(&mut self.cx, &mut self.jobs, caller, proc, (entries, bytes));
                    }
                }
            }
            Request::Fence { procs, info } => self.fence(Waiter { caller, seen: None }, proc, procs, info),
            Request::Meet { seen, info } => {
                let seen = Some(seen).filter(|_| waits_at_words);
                self.fence(Waiter { caller, seen }, proc, Vec::new(), info);
            }
            Request::Connect { procs, info } => self.connect(caller, &proc, Operation::Connect, (&procs, &info)),
            Request::Disconnect { procs, info } => self.connect(caller, &proc, Operation::Disconnect, (&procs, &info)),
            Request::Get { proc: target, key, info } => {
                self.get(caller, target, key, &info);
            }
            Request::Segments { nspace, have } => self.segments(caller, &nspace, &have),
            Request::Abort { status, message, procs } => {
                forward::abort(&mut self.cx, caller, &proc, status, message.as_deref(), &procs);
            }
            Request::Finalize => self.finalize(caller, &proc, role),
            Request::RegisterEvents { codes, info } => {
                self.events.register(&mut self.cx, &self.jobs, caller, &codes, info);
            }
            Request::DeregisterEvents { codes } => self.events.deregister(&mut self.cx, caller, &codes),
            // A long one has come with what it takes, which is twice the event.
            Request::Notify { .. } if bytes > 2 * events::MAX_EVENT => {
                trace!("{proc} raises an event of {bytes} bytes");
                self.cx.answer_status(caller, Err(Status::ERR_OUT_OF_RESOURCE));
            }
            Request::Notify { status, info, .. } if own_words.contains(&status) => {
                self.groups.said(below!(self), caller, (&proc, status, &info));
            }
            Request::Notify { status, range, info } => {
                self.notify(caller, Event { status, source: proc, range, info, vote: None }, tells_raiser);
            }
            Request::JobControl { targets, directives } => {
                self.cleanups.job_control(&mut self.cx, &self.jobs, caller, &proc, &targets, directives);
            }
            Request::PullOutput { id, procs, channels, directives } => {
                let request = PullRequest { id, procs, channels, directives };
                self.outputs.pull(&mut self.cx, &self.jobs, caller, &proc, request);
            }
            Request::StopOutput { id } => self.outputs.stop(&mut self.cx, caller, id),
            Request::OutputTaken { id, cost } => self.outputs.taken(&mut self.cx, caller, id, cost),
            Request::Group { group, call, seen } => {
                let seen = seen.filter(|_| waits_at_words);
                self.groups.call(below!(self), Waiter { caller, seen }, proc, &group, call);
            }
            Request::Forward(Forward::Spawn { job_info, apps }) => {
                spawn::spawn(&mut self.cx, &self.jobs, caller, &proc, (job_info, apps), bytes);
            }
            Request::Forward(Forward::Query { queries }) => self.query(caller, proc, queries),
            Request::Forward(Forward::Monitor { monitor, error, directives }) => {
                let request = MonitorRequest { proc, monitor, error, directives };
                self.monitors.request(&mut self.cx, &self.jobs, caller, request);
            }
            Request::Forward(Forward::Push { targets, bytes, directives }) => {
                let directives = self.jobs.signed(&self.cx, &proc, directives);
                let pushed = Pushed { caller, source: proc, targets, bytes, directives };
                self.inputs.push(&mut self.cx, pushed);
            }
            Request::Forward(request) => forward::pass_on(&mut self.cx, &self.jobs, caller, &proc, (request, bytes)),
        }
    }

    /// A time limit has run out.
    pub(in crate::server) fn expire(&mut self, deadline: Deadline) {
        match deadline {
            Deadline::Admission(peer) => self.admission.expired(&mut self.cx, &mut self.jobs, peer),
            Deadline::Farewell(peer, number) => self.admission.farewell_expired(&mut self.cx, peer, number),
            Deadline::Collective(id) => self.collectives.expired(&mut self.cx, &mut self.jobs, id),
            Deadline::EarlyFence(number) => self.fences.expired(&mut self.cx, number),
            Deadline::Get(id) => self.gets.expired(&mut self.cx, id),
            Deadline::FetchAgain(number) => self.gets.fetch_again(&mut self.cx, number),
            Deadline::DirectModex(id) => self.gets.direct_modex.expired(&mut self.cx, id),
            Deadline::Invitation(number) => self.groups.invitation_expired(below!(self), number),
            Deadline::Join(number) => self.groups.join_expired(below!(self), number),
            Deadline::Single(number) => self.groups.single_expired(below!(self), number),
            Deadline::Monitor(peer, id) => self.monitors.period_over(&mut self.cx, &self.jobs, (peer, id)),
            Deadline::Output(peer, id) => self.outputs.due(&mut self.cx, peer, id),
            Deadline::OutputFlush => self.outputs.end_flushes(&mut self.cx, Err(Status::ERR_TIMEOUT)),
        }
    }
}

impl Callers for Router {
    fn arrived(&mut self, peer: PeerId, arrival: Arrival) {
        self.admission.arrive(&mut self.cx, &mut self.jobs, peer, arrival);
    }

    fn expects(&self, proc: &Proc, token: &[u8; 32], user: User) -> bool {
        admission::is_expected(&self.jobs, proc, token, user)
    }

    fn asked(&mut self, peer: PeerId, number: u64, request: Request, bytes: usize) {
        self.dispatch(peer, number, request, bytes);
        // A host that answers at once has answered before the peer's next request.
        self.drain();
    }

    fn refused(&mut self, peer: PeerId, number: u64) {
        let Some(entry) = self.cx.peers.get_mut(&peer) else { return };
        entry.requests.open_briefly();
        self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
    }

    fn meets(&mut self, peer: PeerId, number: u64, seen: u32, collect: bool) {
        let waiter = Waiter { caller: Caller { peer, number }, seen: Some(seen) };
        match self.collectives.join_again(&mut self.cx, &mut self.jobs, waiter, collect) {
            true => self.cx.meter.count(FENCE),
            false => {
                let info = if collect { vec![Info::new(keys::COLLECT_DATA, true)] } else { Vec::new() };
                self.dispatch(peer, number, Request::Meet { seen, info }, 0);
            }
        }
    }

    fn is_busy(&self, peer: PeerId) -> bool {
        self.commits.is_busy(peer)
    }

    fn job_information(&mut self, nspace: &Nspace) -> Option<Arc<dyn JobInformation>> {
        self.jobs.store_mut(nspace)?.information(nspace)
    }

    fn left(&mut self, peer: PeerId, how: Left) {
        self.peer_left(peer, how);
    }
}
