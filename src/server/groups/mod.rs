//! Groups of processes: how they are made, who is in them, and what their members are told.
//!
//! | file | what happens there |
//! |---|---|
//! | `registry` | the groups there are, and names that stand for their members |
//! | `construct`, `part` | groups that all members make, or end, together |
//! | `bootstrap` | groups whose members do not all know each other |
//! | `invite`, `guests` | groups that one process gathers: its side, and that of the processes it invites |
//! | `said` | events that members raise in place of requests, on libraries that know none |
//! | `bringing`, `sharing` | what its members have posted and given: for the other nodes, and for this one |
//! | `make` | the moment a group comes to be |
//! | `farewells` | what groups hear of the death of a member |
//! | `vote` | the one place where decisions of event handlers are counted |
//! | `election`, `poll` | a leader in place of one that has died: on its node, and on the others |
//! | `message` | what servers and members tell each other of groups, and the events that carry it |
//!
//! A group begins when its construct ends, or the leader that invited its members has them all, and ends with its
//! destruct, or with the last of its members here. Processes of different jobs that share a group may map each other's
//! memory, as if they had connected. When a member dies, those that remain are told so where the group was made that
//! way (`PMIX_GROUP_NOTIFY_TERMINATION`). Each server knows the groups that have members on its node.
use super::collective::Collectives;
use super::collective::arrived::Waiter;
use super::collective::brought::Brought;
use super::collective::exchange::Said;
use super::collective::tracker::FailureNotice;
use super::ctx::Ctx;
use super::ctx::event::Event;
use super::ctx::peers::Caller;
use super::ctx::slices::Slice;
use super::ctx::ticket::TrackerId;
use super::jobs::Jobs;
use super::psets::ProcessSets;
use crate::data::{Info, InfoList, Nspace, Proc, Status, Text, Value, keys};
use crate::message::door::PeerId;
use crate::message::numbers::NumberMap;
use crate::message::{GroupCall, Infos, Request};
use crate::trace;

mod bootstrap;
mod bringing;
mod construct;
#[cfg(test)]
mod data_tests;
mod election;
mod farewells;
mod floor;
mod group;
mod guests;
mod invitation;
mod invite;
mod make;
mod message;
mod part;
mod poll;
mod registry;
mod said;
mod sharing;
#[cfg(test)]
mod tests;
mod vote;

use bootstrap::{Assembly, Singles};
use construct::{Answered, Constructs, is_unserved};
use farewells::Farewells;
use floor::Floor;
use group::Group;
use invitation::Lead;
use invite::Invitations;
use message::Message;
pub use message::{GroupNews, group_news, group_of, guest_failed, is_between_servers, leader_lost, member_failed};
use poll::Polls;
use registry::Registry;
pub use said::words_of;
use sharing::Sharing;
use vote::{Subject, Votes};

/// Most groups that processes of one job are in. One process is the first member of half of them at most, and those that
/// are of few may make as many more.
const MAX_GROUPS: usize = if cfg!(test) { 64 } else { 65536 };
/// Groups that are few.
const FEW_GROUPS: usize = if cfg!(test) { 8 } else { 256 };
/// Most invitations that one process leads, and most groups that it has come to alone and waits for.
const MAX_OPEN: usize = 1024;

/// The room of groups.
#[derive(Debug, Default)]
pub struct Groups {
    registry: Registry,
    votes: Votes,
    constructs: Constructs,
    singles: Singles,
    invitations: Invitations,
    polls: Polls,
    farewells: Farewells,
    /// Groups that are made when the data of other nodes is taken in.
    making: NumberMap<u64, Making>,
    /// Groups that processes came to alone, and which are made when what is given for them is stored.
    sharing: NumberMap<u64, (Box<Assembly>, Sharing, Said)>,
    last: u64,
}

/// A group that waits for data of other nodes.
#[derive(Debug)]
enum Making {
    /// Group of a construct, with the host's answer without the data; or no group, where it is a destruct.
    Construct(TrackerId, Vec<Info>),
    /// Group that processes came to alone.
    Assembly(Box<Assembly>),
}

/// The layers below, as the router lends them.
pub struct Below<'a> {
    pub cx: &'a mut Ctx,
    pub jobs: &'a mut Jobs,
    pub collectives: &'a mut Collectives,
}

/// Lends a part of the room what all its parts share.
macro_rules! floor {
    ($groups:expr, $below:expr) => {
        &mut Floor {
            cx: $below.cx,
            jobs: $below.jobs,
            collectives: $below.collectives,
            registry: &mut $groups.registry,
            votes: &mut $groups.votes,
        }
    };
}

impl Groups {
    /// Acts on what a client wants of a group.
    pub fn call(&mut self, below: Below<'_>, waiter: Waiter, proc: Proc, id: &Nspace, call: GroupCall) {
        let caller = waiter.caller;
        if let Err(status) = self.may_call(below.cx, below.jobs, &proc, id, &call) {
            trace!("{proc} asks for what cannot be of the group {id}: {status}");
            return below.cx.answer_status(caller, Err(status));
        }
        let floor = floor!(self, below);
        match call {
            GroupCall::Construct { procs, info } if procs.is_empty() || info.find(keys::GROUP_BOOTSTRAP).is_some() => {
                self.singles.come(floor, &mut self.constructs, caller, (proc, id), (&procs, info));
            }
            GroupCall::Construct { procs, info } => {
                self.constructs.construct(floor, waiter, &proc, id, (&procs, &info));
            }
            GroupCall::Destruct { info } => {
                self.constructs.destruct(floor, waiter, &proc, id, info);
                let lost = floor.registry.get(id).map(Group::lost).unwrap_or_default();
                floor.collectives.lose_members(floor.cx, floor.jobs, id, &lost);
            }
            GroupCall::Leave { .. } => {
                let result = leave(floor, &proc, id);
                floor.cx.answer_status(caller, result);
            }
            GroupCall::Invite { procs, info } => {
                let leader = (&proc, Lead::Waits(caller));
                if let Err(status) = self.invitations.invite(floor, caller, leader, id, (&procs, info)) {
                    floor.cx.answer_status(caller, Err(status));
                }
            }
            GroupCall::Join { leader, accept, info } => {
                self.invitations.join(floor, (caller, true), (&proc, id), leader.as_ref(), (accept, &info));
            }
            GroupCall::Decide(decision) => {
                let Groups { constructs, invitations, polls, .. } = self;
                if let Some(subject) = floor.votes.cast(decision.vote, caller.peer) {
                    match subject {
                        Subject::Construct(id) => constructs.voted(floor, id, &proc, &decision),
                        Subject::Invitation(number) => invitations.voted(floor, number, &proc, &decision),
                        Subject::Poll(id, dead) => {
                            polls.voted(floor, (&id, &dead), &proc, &decision);
                            if decision.abort {
                                constructs.aborted(floor, &proc, &id);
                            }
                        }
                    }
                }
                floor.cx.answer_status(caller, Ok(()));
            }
        }
    }

    /// Checks that a call can be served at all.
    fn may_call(&self, cx: &Ctx, jobs: &Jobs, proc: &Proc, id: &Nspace, call: &GroupCall) -> Result<(), Status> {
        if id.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        match call {
            GroupCall::Leave { info } | GroupCall::Join { info, .. } if info.iter().any(is_unserved) => {
                Err(Status::ERR_NOT_SUPPORTED)
            }
            GroupCall::Invite { info, .. } if info.iter().any(is_unserved) => Err(Status::ERR_NOT_SUPPORTED),
            GroupCall::Construct { .. } => self.may_begin(cx, jobs, proc, id),
            GroupCall::Invite { .. } if self.invitations.led_by(proc) >= MAX_OPEN => Err(Status::ERR_OUT_OF_RESOURCE),
            GroupCall::Invite { .. } => self.may_begin(cx, jobs, proc, id),
            _ => Ok(()),
        }
    }

    /// Checks that a process may make a group of that name.
    fn may_begin(&self, cx: &Ctx, jobs: &Jobs, proc: &Proc, id: &Nspace) -> Result<(), Status> {
        let Groups { registry, invitations, .. } = self;
        match registry.get(id).is_some() || invitations.has(id) || jobs.get(id).is_some() {
            true => Err(Status::ERR_EXISTS),
            false if self.has_many(cx, proc) => Err(Status::ERR_OUT_OF_RESOURCE),
            false => Ok(()),
        }
    }

    /// Returns whether a process and its job have as many groups as they may. The groups that one has made leave room
    /// for others.
    fn has_many(&self, cx: &Ctx, proc: &Proc) -> bool {
        let (own, all) = (self.registry.count_led_by(proc), self.registry.count_of(&proc.nspace));
        let is_full = || cx.accounts.of_job(&proc.nspace).is_some_and(|account| account.room() == 0);
        own >= MAX_GROUPS / 2 || all >= 2 * MAX_GROUPS || own >= FEW_GROUPS && (all >= MAX_GROUPS || is_full())
    }

    /// The requests of leaders and guests, each with those whom it waits for.
    pub fn waits(&self) -> impl Iterator<Item = (Caller, Vec<Proc>)> {
        let guests = self.invitations.guests.waits().map(|(caller, leader)| (caller, vec![leader.clone()]));
        self.invitations.waits().chain(guests)
    }

    /// Every participant of this node has arrived at a construct or destruct.
    pub fn complete(&mut self, below: Below<'_>, id: TrackerId) {
        self.constructs.complete(floor!(self, below), id);
    }

    /// A participant of a construct has died, and the others go on.
    pub fn excused(&mut self, below: Below<'_>, id: TrackerId, proc: &Proc) {
        self.constructs.excused(floor!(self, below), id, proc);
    }

    /// The members of a group that have died. Those who are started anew in their place are no members.
    pub fn lost_of(&self, id: &Nspace) -> Vec<Proc> {
        self.registry.get(id).map(Group::lost).unwrap_or_default()
    }

    /// Returns whether a process was started anew in the place of a member of a group.
    pub fn is_replaced(&self, jobs: &Jobs, id: &Nspace) -> bool {
        self.registry.get(id).is_some_and(|group| group.is_replaced(jobs))
    }

    /// Members are dead that a destruct waits for.
    pub fn lost(&mut self, jobs: &Jobs, id: &Nspace, gone: &[Proc]) {
        self.registry.lose(jobs, id, gone);
    }

    /// The tracker of a construct or destruct has ended.
    pub fn tracker_over(&mut self, below: Below<'_>, id: TrackerId) {
        self.constructs.over(floor!(self, below), id);
    }

    /// Has the host know that this node's part of a construct or destruct has failed.
    pub fn tell_failure(&self, cx: &mut Ctx, notice: FailureNotice) {
        construct::tell_failure(cx, notice);
    }

    /// The host has answered a construct or destruct. Returns data that is to be [taken in](Groups::taken_in) first.
    pub fn answered(
        &mut self,
        below: Below<'_>,
        id: TrackerId,
        result: Result<Infos, Status>,
    ) -> Option<(u64, Brought)> {
        let floor = floor!(self, below);
        match self.constructs.answered(floor, id, result)? {
            Answered::Come(id, mut infos) => {
                let brought = make::take_brought(&mut infos);
                Some((self.make(Making::Construct(id, infos)), brought))
            }
            Answered::Assembled { group, status, infos } => {
                let (assembly, brought) = self.singles.assemble(floor, &mut self.constructs, &group, (status, infos));
                Some((self.make(Making::Assembly(Box::new(assembly))), brought))
            }
            Answered::LeftToServer(id) => {
                self.singles.assemble_led(floor, &mut self.constructs, id);
                None
            }
        }
    }

    /// The host has answered about a process that came alone. Returns data that is to be [taken in](Groups::taken_in)
    /// first.
    pub fn single_answered(
        &mut self,
        below: Below<'_>,
        number: u64,
        result: Result<Infos, Status>,
    ) -> Option<(u64, Brought)> {
        let assembled = self.singles.answered(floor!(self, below), &mut self.constructs, number, result);
        assembled.map(|(assembly, brought)| (self.make(Making::Assembly(Box::new(assembly))), brought))
    }

    fn make(&mut self, making: Making) -> u64 {
        self.last += 1;
        self.making.insert(self.last, making);
        self.last
    }

    /// The peers that wait for a group which data of other nodes is brought for.
    pub fn payers(&self, collectives: &Collectives, number: u64) -> Vec<PeerId> {
        match self.making.get(&number) {
            Some(Making::Construct(id, _)) => collectives.peers_of(*id),
            Some(Making::Assembly(assembly)) => assembly.peers(collectives),
            None => Vec::new(),
        }
    }

    /// Data of other nodes is taken in, or cannot be: the group of that number is made, or fails.
    pub fn taken_in(&mut self, below: Below<'_>, number: u64, result: Result<Said, Status>) {
        match self.making.remove(&number) {
            Some(Making::Construct(id, infos)) => {
                self.constructs.taken_in(floor!(self, below), id, &infos, result);
            }
            Some(Making::Assembly(assembly)) => match assembly.share(result) {
                Ok((sharing, said)) => self.share(below, number, (assembly, sharing, said)),
                Err(status) => assembly.end(floor!(self, below), Err(status)),
            },
            None => {}
        }
    }

    fn share(&mut self, below: Below<'_>, number: u64, (assembly, mut sharing, said): (Box<Assembly>, Sharing, Said)) {
        let floor = floor!(self, below);
        match sharing.step(floor) {
            Ok(true) => assembly.end(floor, Ok(said)),
            Ok(false) => {
                floor.cx.slice(Slice::Assembly(number));
                self.sharing.insert(number, (assembly, sharing, said));
            }
            Err(status) => assembly.end(floor, Err(status)),
        }
    }

    /// Stores some more of what is given for a group that processes came to alone.
    pub fn assembly_slice(&mut self, below: Below<'_>, number: u64) {
        if let Some(shared) = self.sharing.remove(&number) {
            self.share(below, number, shared);
        }
    }

    /// Stores some more of what is given for a group that is constructed.
    pub fn construct_slice(&mut self, below: Below<'_>, id: TrackerId) {
        self.constructs.slice(floor!(self, below), id);
    }

    /// A thread has prepared what members of this node bring to a construct.
    pub fn brought(&mut self, below: Below<'_>, id: TrackerId) {
        self.constructs.brought(floor!(self, below), id);
    }

    /// A thread has prepared what a process brings that came alone.
    pub fn single_brought(&mut self, below: Below<'_>, number: u64) {
        self.singles.brought(floor!(self, below), number);
    }

    /// The host has given an invitation's group a context id, or not.
    pub fn context_given(&mut self, below: Below<'_>, number: u64, result: Result<Infos, Status>) {
        self.invitations.context_given(floor!(self, below), number, result);
    }

    /// Hears an event that a client has raised, or that the host has passed on: those of groups change what is known of
    /// them. A client can speak for itself only, and give a group up; all else is believed of servers
    /// (`by_server`). The event gets the vote of those here who are to decide about it.
    pub fn hear(&mut self, below: Below<'_>, event: &mut Event, by_server: bool) {
        let Some((id, message)) = Message::from_event(event) else { return };
        let (floor, source, range) = (floor!(self, below), &event.source, || message::range_of(&event.info));
        let Groups { constructs, invitations, polls, .. } = self;
        let vote = match message {
            Message::Aborted => {
                constructs.aborted(floor, source, &id);
                invitations.aborted(floor, event, &id);
                None
            }
            message if !by_server => {
                trace!("{source} says {} of group {id}, and is no server", message.event());
                None
            }
            Message::Left => {
                left(floor, source, &id);
                None
            }
            // A client that invites here does so by a request.
            Message::Invited => {
                invitations.guests_here(floor, &id, source, &range());
                None
            }
            Message::Answered(answer) => invitations.answer_passes(floor, answer, &id, source, &range()),
            Message::Complete(membership) => {
                invitations.completed(floor, &id, &membership, None);
                None
            }
            Message::LeaderFailed => {
                constructs.follow(floor, &id, None);
                polls.call(floor, &id, source, (&range(), event.status))
            }
            // Nobody decides about a group that is made.
            Message::MemberFailed if floor.registry.get(&id).is_some() => None,
            Message::MemberFailed => polls.call(floor, &id, source, (&range(), event.status)),
            Message::Polled(polled, candidate) => {
                let answer = (polled.as_slice(), candidate.as_ref());
                constructs.heard(floor, &id, &range(), answer);
                invitations.election_heard(floor, &id, Some(answer));
                None
            }
            Message::LeaderSelected(Some(leader), handover) => {
                invitations.guests.follow(&id, &leader);
                constructs.follow(floor, &id, Some(&leader));
                if let Some(handover) = handover {
                    invitations.take_over(floor, &id, &leader, handover);
                }
                None
            }
            Message::LeaderSelected(None, _) => {
                constructs.follow(floor, &id, None);
                None
            }
            Message::Declared => {
                constructs.declared(floor, &id, source);
                None
            }
            Message::GuestLost => None,
        };
        event.vote = vote;
    }

    /// An event of a group has not reached other nodes. `number` is that of the invitation that was open under that
    /// name.
    pub fn unreached(
        &mut self,
        below: Below<'_>,
        id: &Nspace,
        number: Option<u64>,
        (event, failure): (Status, Status),
    ) {
        trace!("{event} of group {id} does not reach other nodes: {failure}");
        // Another invitation of that name may be open by now.
        if self.invitations.number(id) != number {
            return;
        }
        let floor = floor!(self, below);
        match event {
            Status::GROUP_INVITED => self.invitations.give_up(floor, id, failure),
            Status::GROUP_LEADER_FAILED => {
                self.constructs.unheard(floor, id);
                self.invitations.election_heard(floor, id, None);
            }
            Status::GROUP_MEMBER_FAILED => self.constructs.unheard(floor, id),
            _ => {}
        }
    }

    /// A process has died: its groups are told where they want to know, and go on without it.
    pub fn process_gone(&mut self, below: Below<'_>, proc: &Proc) {
        let floor = floor!(self, below);
        self.farewells.begin(floor, proc);
        self.constructs.process_gone(floor, proc);
        self.invitations.process_gone(floor, proc);
    }

    /// A process starts anew.
    pub fn restarted(&mut self, below: Below<'_>, proc: &Proc) {
        self.singles.restarted(floor!(self, below), proc);
    }

    /// More groups hear of the death of a process.
    pub fn farewell_slice(&mut self, below: Below<'_>, number: u64) {
        self.farewells.slice(floor!(self, below), number);
    }

    /// A process has said that it is done: it answers no invitation, and leads none.
    pub fn process_finalized(&mut self, below: Below<'_>, proc: &Proc) {
        self.invitations.process_gone(floor!(self, below), proc);
    }

    /// A connection is gone, and nobody decides there any more.
    pub fn peer_over(&mut self, below: Below<'_>, peer: PeerId) {
        let floor = floor!(self, below);
        let Groups { constructs, invitations, polls, .. } = self;
        for subject in floor.votes.withdraw(peer) {
            match subject {
                Subject::Construct(id) => constructs.go_on(floor, id),
                Subject::Invitation(number) => invitations.undecided(floor, number),
                Subject::Poll(id, dead) => polls.go_on(floor, &id, &dead),
            }
        }
    }

    /// A namespace is deregistered, and so are its processes as members.
    pub fn job_over(&mut self, below: Below<'_>, nspace: &Nspace) {
        let floor = floor!(self, below);
        floor.registry.job_over(floor.jobs, nspace);
        self.invitations.job_over(floor, nspace);
        self.constructs.job_over(nspace);
        self.singles.job_over(floor, nspace);
        self.polls.job_over(floor, nspace);
    }

    /// The time that a leader has given its guests is over.
    pub fn invitation_expired(&mut self, below: Below<'_>, number: u64) {
        self.invitations.expired(floor!(self, below), number);
    }

    /// The time that a guest gives the others is over.
    pub fn join_expired(&mut self, below: Below<'_>, number: u64) {
        self.invitations.join_expired(floor!(self, below), number);
    }

    /// The time that a process which has come alone gives the others is over.
    pub fn single_expired(&mut self, below: Below<'_>, number: u64) {
        self.singles.expired(floor!(self, below), number);
    }

    /// Replaces the names of groups and of process sets in a request by their members.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a rank that a group or set has not.
    pub fn translate(&self, jobs: &Jobs, sets: &ProcessSets, request: Request) -> Result<Request, Status> {
        self.registry.translate((jobs, sets), request)
    }

    /// Replaces the names of groups and of process sets in the attributes of an event from elsewhere, whose server knew
    /// none of them. A rank that a group or set has not names nobody.
    pub fn resolve(&self, jobs: &Jobs, sets: &ProcessSets, info: &mut [Info]) {
        self.registry.resolve((jobs, sets), info);
    }

    /// Returns whether an event is for its raiser by the name of a process set alone, so that its library has not told
    /// it.
    pub fn is_for_raiser_by_set(&self, known: (&Jobs, &ProcessSets), raiser: &Proc, request: &Request) -> bool {
        self.registry.is_for_raiser_by_set(known, raiser, request)
    }

    /// Returns whether processes of one namespace share a group with those of the other.
    pub fn bind(&self, a: &Nspace, b: &Nspace) -> bool {
        self.registry.bind(a, b)
    }

    /// Answers a query for a key about groups; `group` is the one that the query names.
    pub fn answer(&self, key: &str, group: Option<&Text>) -> Option<Value> {
        self.registry.answer(key, group)
    }

    /// The names of all groups.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Nspace> {
        self.registry.names()
    }
}

fn leave(floor: &mut Floor<'_>, proc: &Proc, id: &Nspace) -> Result<(), Status> {
    let group = floor.registry.get(id).ok_or(Status::ERR_NOT_FOUND)?;
    if !group.has(proc) {
        return Err(Status::ERR_NOT_A_MEMBER);
    }
    // The last to leave on this node takes the group with it, whose members are elsewhere.
    let others = group.members().into_iter().filter(|other| other != proc).collect();
    left(floor, proc, id);
    floor.tell(id, proc, others, &Message::Left, (None, None));
    Ok(())
}

/// A member has left, here or elsewhere: what it has not arrived at goes on without it, or fails.
fn left(floor: &mut Floor<'_>, proc: &Proc, id: &Nspace) {
    if floor.registry.leave(floor.jobs, id, proc) {
        floor.collectives.leave(floor.cx, floor.jobs, id, proc);
    }
}
