//! Groups that one process gathers by invitation: `PMIx_Group_invite`, `PMIx_Group_join`.
//!
//! The one who invites is the group's leader. Everything between it and those it invites is an event, which the servers see pass
//! and remember: the leader's server whom it still waits for, every server which of its processes are invited. So a process that
//! dies before it has answered, or a time limit that runs out, becomes an answer too (`GROUP_INVITE_FAILED`), wherever it happens.
//!
//! | event | from | to |
//! |---|---|---|
//! | `GROUP_INVITED` | the leader | those it invites |
//! | `GROUP_INVITE_ACCEPTED`, `_DECLINED`, `_FAILED` | who was invited, or its server | the leader |
//! | `GROUP_CONSTRUCT_COMPLETE`, `_ABORT` | the leader's server | the leader, and those who are invited |
//! | `GROUP_LEADER_FAILED`, `_SELECTED` | the leader's server | those who are invited (`election`) |
//!
//! Who does not come is left out of the group where the leader has a handler for that event which does not say otherwise, or has made
//! coming optional; else the invitation ends for all. The group is complete when nobody is waited for: then it exists, and whoever has
//! accepted is let go on.
use std::collections::BTreeMap;

use super::construct::results;
use super::ctx::timers::Deadline;
use super::ctx::timers::TimerId;
use super::ctx::timers::time_limit;
use super::election::Election;
use super::fence::Caller;
use super::groups::{Group, procs};
use super::router::Router;
use crate::collect_small::collect_small;
use crate::data::constants::group_operation::GROUP_CONSTRUCT;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::door::PeerId;
use crate::message::{Decision, Infos, Reply};
use crate::trace;

/// Attribute of the event that names a leader: whom it waits for (array of PROC), among those in the group.
const AWAITED: &str = "instanton.group.awaited";

/// What has become of somebody who was invited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked,
    Accepted,
    Out,
}

/// What a leader waits for.
#[derive(Debug)]
struct Invitation {
    number: u64,
    leader: Proc,
    /// The leader's request; none once another process leads.
    caller: Option<Caller>,
    /// Everybody who was to be in the group, in its order, the leader included.
    places: Vec<Proc>,
    states: BTreeMap<Proc, State>,
    /// Who was invited instead of others.
    substitutes: usize,
    info: Vec<Info>,
    /// How many events each connection still has to decide about.
    deciding: BTreeMap<PeerId, usize>,
    /// A leader is looked for.
    electing: Option<Election>,
    /// Answers that have come meanwhile: the new leader decides about them.
    unread: Vec<(Status, Proc)>,
    /// All have answered, and the host is asked for a context id.
    complete: bool,
    limit: Option<TimerId>,
}

impl Invitation {
    /// Those who are not out of it, the leader left aside.
    fn invited(&self) -> Vec<Proc> {
        let is_in = |proc: &&Proc| **proc != self.leader && self.states.get(proc) != Some(&State::Out);
        self.places.iter().filter(is_in).cloned().collect()
    }

    fn is_settled(&self) -> bool {
        let answered = !self.states.values().any(|state| *state == State::Asked);
        answered && self.deciding.is_empty() && self.electing.is_none() && !self.complete
    }

    fn await_decisions(&mut self, told: &[PeerId]) {
        told.iter().for_each(|peer| *self.deciding.entry(*peer).or_default() += 1);
    }
}

/// A process of this node that is invited.
#[derive(Debug)]
struct Guest {
    number: u64,
    leader: Proc,
    /// Where it waits, once it has accepted.
    joining: Option<Caller>,
    limit: Option<TimerId>,
}

/// The invitations of this node's leaders, and those to its processes.
#[derive(Debug, Default)]
pub(super) struct Invitations {
    open: BTreeMap<Nspace, Invitation>,
    guests: BTreeMap<(Nspace, Proc), Guest>,
    /// The leaders of this node that have died, each with who on another node has followed it.
    followed: BTreeMap<Nspace, (Proc, Proc)>,
    last: u64,
}

impl Invitations {
    /// Whether a group of that name is being gathered here.
    pub(super) fn has(&self, id: &Nspace) -> bool {
        self.open.contains_key(id)
    }

    /// The number of the open one of that name.
    pub(super) fn number(&self, id: &Nspace) -> Option<u64> {
        self.open.get(id).map(|invitation| invitation.number)
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// The election of a leader that is under way.
    pub(super) fn electing(&mut self, id: &Nspace) -> Option<&mut Election> {
        self.open.get_mut(id)?.electing.as_mut()
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn take_guests(&mut self, which: impl Fn(&Nspace, &Proc, &Guest) -> bool) -> Vec<((Nspace, Proc), Guest)> {
        let taken: Vec<_> = self
            .guests
            .iter()
            .filter(|((id, proc), guest)| which(id, proc, guest))
            .map(|(key, _)| key.clone())
            .collect();
        taken.into_iter().filter_map(|key| self.guests.remove_entry(&key)).collect()
    }
}

impl Router {
    /// A client invites others into a group.
    pub(super) fn invite(&mut self, caller: Caller, leader: Proc, id: Nspace, procs: Vec<Proc>, info: Vec<Info>) {
        let mut places = self.jobs.each(&procs);
        if !places.contains(&leader) {
            places.insert(0, leader.clone());
        }
        let guests: Vec<Proc> = places.iter().filter(|proc| **proc != leader).cloned().collect();
        let refused = match guests.iter().all(|proc| proc.rank.is_process()) && !guests.is_empty() {
            false => Some(Status::ERR_BAD_PARAM),
            true => self.may_begin(&id).err(),
        };
        if let Some(status) = refused {
            trace!("{leader} cannot invite to the group {id}: {status}");
            return self.cx.reply_status(caller.peer, caller.number, Err(status));
        }
        let states = collect_small(guests.iter().map(|proc| (proc.clone(), State::Asked)));
        self.open_invitation(&id, &leader, Some(caller), places, states, info);
        self.send_invitations(&id, &leader, guests);
    }

    fn send_invitations(&mut self, id: &Nspace, leader: &Proc, guests: Vec<Proc>) {
        self.guests_here(id, leader, &guests);
        if self.groups.invitations.has(id) {
            self.tell_group(Status::GROUP_INVITED, leader, guests, id, Vec::new());
        }
    }

    /// Remembers who of this node is invited.
    pub(super) fn guests_here(&mut self, id: &Nspace, leader: &Proc, guests: &[Proc]) {
        for proc in self.jobs.each(guests).into_iter().filter(|proc| self.jobs.runs_here(proc)).collect::<Vec<_>>() {
            // One invitation to a group of that name at a time: who has invited first keeps its guest.
            let key = (id.clone(), proc.clone());
            let taken = self.groups.invitations.guests.get(&key).map(|guest| guest.leader == *leader);
            if taken == Some(true) {
                continue;
            }
            if taken.is_some() || self.jobs.is_gone(&proc) {
                self.answer_invitation(Status::GROUP_INVITE_FAILED, id, &proc, leader);
                continue;
            }
            let number = self.groups.invitations.next();
            let guest = Guest { number, leader: leader.clone(), joining: None, limit: None };
            self.groups.invitations.guests.insert(key, guest);
        }
    }

    /// A client answers an invitation.
    pub(super) fn join_group(
        &mut self,
        caller: Caller,
        proc: Proc,
        id: Nspace,
        leader: Option<&Proc>,
        accept: bool,
        info: &[Info],
    ) {
        let key = (id.clone(), proc.clone());
        let guest = self.groups.invitations.guests.get_mut(&key);
        let Some(guest) = guest.filter(|guest| leader.is_none_or(|leader| *leader == guest.leader)) else {
            // Who leads in place of the dead is a member without having joined, and may join when the group is complete.
            if let Some(group) = self.groups.get(&id).filter(|group| accept && group.has(&proc)) {
                let reply = Reply::Infos(Status::SUCCESS, results(&id, group.context, &group.members()));
                return self.cx.reply(caller.peer, caller.number, reply);
            }
            trace!("{proc} is not invited to the group {id}");
            return self.cx.reply_status(caller.peer, caller.number, Err(Status::ERR_NOT_FOUND));
        };
        if guest.joining.is_some() {
            return self.cx.reply_status(caller.peer, caller.number, Err(Status::ERR_INVALID_OPERATION));
        }
        let leader = guest.leader.clone();
        if !accept {
            self.groups.invitations.guests.remove(&key);
            self.cx.reply_status(caller.peer, caller.number, Ok(()));
            return self.answer_invitation(Status::GROUP_INVITE_DECLINED, &id, &proc, &leader);
        }
        let limit = time_limit(info).flatten();
        guest.limit = limit.map(|limit| self.cx.set_deadline(limit, Deadline::Join(guest.number)));
        guest.joining = Some(caller);
        self.answer_invitation(Status::GROUP_INVITE_ACCEPTED, &id, &proc, &leader);
    }

    /// Tells the leader what has become of somebody it has invited.
    fn answer_invitation(&mut self, event: Status, id: &Nspace, proc: &Proc, leader: &Proc) {
        let affected = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc.clone())];
        self.tell_group(event, proc, vec![leader.clone()], id, affected);
        self.invitation_answered(event, id, proc);
    }

    /// An answer to an invitation passes, for a leader that may have died: who has followed it gets it, too.
    pub(super) fn answer_passes(&mut self, event: Status, id: &Nspace, proc: &Proc, to: &[Proc]) {
        self.invitation_answered(event, id, proc);
        let followed = self.groups.invitations.followed.get(id).filter(|(dead, _)| to.contains(dead));
        if let Some((_, leader)) = followed.cloned() {
            let affected = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc.clone())];
            self.tell_group(event, proc, vec![leader], id, affected);
        }
    }

    /// Somebody whom a leader of this node has invited has answered.
    pub(super) fn invitation_answered(&mut self, event: Status, id: &Nspace, proc: &Proc) {
        let Some(invitation) = self.groups.invitations.open.get_mut(id) else { return };
        if invitation.electing.is_some() {
            return invitation.unread.push((event, proc.clone()));
        }
        let Some(state) = invitation.states.get_mut(proc).filter(|state| **state != State::Out) else { return };
        *state = if event == Status::GROUP_INVITE_ACCEPTED { State::Accepted } else { State::Out };
        let out = *state == State::Out;
        let peer = self.jobs.client(&invitation.leader).and_then(|client| client.peer);
        let told: Vec<PeerId> = peer.into_iter().filter(|peer| self.cx.subscriptions.wants(*peer, event)).collect();
        invitation.await_decisions(&told);
        if out && told.is_empty() && !invitation.info.is_set(keys::GROUP_OPTIONAL) {
            trace!("{proc} does not come to the group {id}, and its leader has no handler for {event}");
            return self.give_up_invitation(id, Status::GROUP_CONSTRUCT_ABORT);
        }
        self.settle_invitation(id);
    }

    /// The handlers of a process have decided about an event of an invitation.
    pub(super) fn invite_decided(&mut self, peer: PeerId, id: &Nspace, decision: Decision) {
        let more = self.jobs.each(&decision.add);
        let Some(invitation) = self.groups.invitations.open.get_mut(id) else { return };
        let Some(open) = invitation.deciding.get_mut(&peer) else { return };
        *open -= 1;
        invitation.deciding.retain(|_, open| *open > 0);
        if decision.abort {
            return self.give_up_invitation(id, Status::GROUP_CONSTRUCT_ABORT);
        }
        if let (Some(election), true) = (&mut invitation.electing, decision.lead)
            && let Some(entry) = self.cx.peers.get(&peer)
        {
            election.stands(entry.proc.clone());
        }
        let new: Vec<Proc> = more.into_iter().filter(|proc| !invitation.places.contains(proc)).collect();
        invitation.substitutes += new.len();
        invitation.places.extend(new.iter().cloned());
        invitation.states.extend(new.iter().map(|proc| (proc.clone(), State::Asked)));
        let leader = invitation.leader.clone();
        if !new.is_empty() {
            self.send_invitations(id, &leader, new);
        }
        self.settle_invitation(id);
    }

    /// A connection is gone, and nobody decides there any more.
    pub(super) fn invite_undecided(&mut self, peer: PeerId) {
        let open = &mut self.groups.invitations.open;
        let touched = open.iter_mut().filter_map(|(id, one)| one.deciding.remove(&peer).map(|_| id.clone()));
        for id in touched.collect::<Vec<_>>() {
            self.settle_invitation(&id);
        }
    }

    /// Looks whether an election is over, and whether anybody is still waited for.
    pub(super) fn settle_invitation(&mut self, id: &Nspace) {
        let Some(invitation) = self.groups.invitations.open.get_mut(id) else { return };
        if let Some((dead, elected)) = Election::end(&mut invitation.electing, invitation.deciding.is_empty()) {
            let everybody = invitation.invited();
            let Some(leader) = elected else {
                self.tell_leader(&dead, None, everybody, id, Vec::new());
                return self.give_up_invitation(id, Status::GROUP_CONSTRUCT_ABORT);
            };
            invitation.leader = leader.clone();
            // It has come by leading.
            invitation.states.insert(leader.clone(), State::Accepted);
            let unread = std::mem::take(&mut invitation.unread);
            match self.jobs.runs_here(&leader) {
                true => self.tell_leader(&dead, Some(&leader), everybody, id, Vec::new()),
                false => self.leave_guests_to(id, dead, &leader, everybody),
            }
            self.guests_follow(id, &leader);
            for (event, proc) in unread {
                self.answer_invitation(event, id, &proc, &leader);
            }
        }
        let Some(invitation) = self.groups.invitations.open.get_mut(id).filter(|open| open.is_settled()) else {
            return;
        };
        invitation.complete = true;
        let Some(wish) = invitation.info.find(keys::GROUP_ASSIGN_CONTEXT_ID).filter(|info| info.is_true()).cloned()
        else {
            return self.invitation_complete(id, None);
        };
        // Only this node's host is asked, so that it must not wait for others.
        let (id, leader, number) = (id.clone(), [invitation.leader.clone()], invitation.number);
        let group = id.clone();
        let required = wish.is_required();
        self.ask_host(
            |host, done| host.group(GROUP_CONSTRUCT, &group, &leader, &[wish], done),
            (Status::SUCCESS, Vec::new()),
            move |router, result: Result<Infos, Status>| {
                // It may have been given up, and another one be open by now.
                if router.groups.invitations.number(&id) != Some(number) {
                    return;
                }
                let infos = result.map(|(_, infos)| infos).unwrap_or_default();
                match infos.find(keys::GROUP_CONTEXT_ID).and_then(|info| info.value.as_u64()) {
                    None if required => router.give_up_invitation(&id, Status::ERR_NOT_SUPPORTED),
                    context => router.invitation_complete(&id, context),
                }
            },
        );
    }

    /// A process on another node leads from now on: its server gets all that is known of the invitation.
    fn leave_guests_to(&mut self, id: &Nspace, dead: Proc, leader: &Proc, everybody: Vec<Proc>) {
        let Some(invitation) = self.groups.invitations.open.remove(id) else { return };
        self.cx.timers.cancel(invitation.limit);
        let in_state = |wanted: fn(Option<&State>) -> bool| {
            let places = invitation.places.iter().filter(|proc| wanted(invitation.states.get(proc)) && **proc != dead);
            procs(places.cloned().collect())
        };
        let mut info = invitation.info.clone();
        info.push(Info::new(keys::GROUP_MEMBERSHIP, in_state(|state| state != Some(&State::Out))));
        info.push(Info::new(AWAITED, in_state(|state| state == Some(&State::Asked))));
        self.tell_leader(&dead, Some(leader), everybody, id, info);
        self.groups.invitations.followed.insert(id.clone(), (dead, leader.clone()));
    }

    /// A process of this node follows a leader of another node, and has its server wait for the guests.
    pub(super) fn lead_guests(&mut self, id: &Nspace, leader: &Proc, info: &[Info]) {
        let list = |key: &str| info.find(key).and_then(|info| info.value.as_procs());
        let (Some(places), Some(awaited)) = (list(keys::GROUP_MEMBERSHIP), list(AWAITED)) else { return };
        if !self.jobs.runs_here(leader) || self.groups.get(id).is_some() || self.groups.invitations.has(id) {
            return;
        }
        let state = |proc: &Proc| if awaited.contains(proc) { State::Asked } else { State::Accepted };
        let states = collect_small(places.iter().map(|proc| (proc.clone(), state(proc))));
        self.open_invitation(id, leader, None, places, states, info.to_vec());
        self.settle_invitation(id);
    }

    fn open_invitation(
        &mut self,
        id: &Nspace,
        leader: &Proc,
        caller: Option<Caller>,
        places: Vec<Proc>,
        states: BTreeMap<Proc, State>,
        info: Vec<Info>,
    ) {
        let number = self.groups.invitations.next();
        let limit = time_limit(&info).flatten().map(|limit| self.cx.set_deadline(limit, Deadline::Invitation(number)));
        let invitation = Invitation {
            number,
            leader: leader.clone(),
            caller,
            places,
            states,
            substitutes: 0,
            info,
            deciding: BTreeMap::new(),
            electing: None,
            unread: Vec::new(),
            complete: false,
            limit,
        };
        self.groups.invitations.open.insert(id.clone(), invitation);
    }

    /// Everybody has come who will.
    fn invitation_complete(&mut self, id: &Nspace, context: Option<u64>) {
        let Some(invitation) = self.groups.invitations.open.remove(id) else { return };
        self.cx.timers.cancel(invitation.limit);
        let Invitation { leader, caller, places, states, substitutes, info, .. } = invitation;
        let members: Vec<Proc> =
            places.into_iter().filter(|proc| states.get(proc).is_none_or(|state| *state == State::Accepted)).collect();
        let out = states.values().filter(|state| **state == State::Out).count();
        let status = if out > substitutes { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
        let results = results(id, context, &members);
        let mut news = results.iter().filter(|info| info.key != keys::GROUP_ID).cloned().collect::<Vec<_>>();
        let notify = info.is_set(keys::GROUP_NOTIFY_TERMINATION);
        news.extend(notify.then(|| Info::new(keys::GROUP_NOTIFY_TERMINATION, true)));
        self.tell_group(Status::GROUP_CONSTRUCT_COMPLETE, &leader, members, id, news.clone());
        self.guests_go_on(id, &news);
        if let Some(caller) = caller {
            self.cx.reply(caller.peer, caller.number, Reply::Infos(status, results));
        }
    }

    /// A group is complete: it exists from now on, and this node's processes that have accepted go on.
    pub(super) fn guests_go_on(&mut self, id: &Nspace, info: &[Info]) {
        let Some(members) = info.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs()) else { return };
        let context = info.find(keys::GROUP_CONTEXT_ID).and_then(|info| info.value.as_u64());
        if self.groups.get(id).is_none() {
            let notify = info.is_set(keys::GROUP_NOTIFY_TERMINATION);
            self.enroll(id.clone(), Group::new(members.clone(), context, notify));
        }
        self.groups.invitations.followed.remove(id);
        for ((_, proc), guest) in self.groups.invitations.take_guests(|of, _, _| of == id) {
            let reply = match members.contains(&proc) {
                true => Reply::Infos(Status::SUCCESS, results(id, context, &members)),
                false => Reply::Done(Status::GROUP_CONSTRUCT_ABORT),
            };
            self.end_visit(guest, reply);
        }
    }

    fn end_visit(&mut self, guest: Guest, reply: Reply) {
        self.cx.timers.cancel(guest.limit);
        if let Some(caller) = guest.joining {
            self.cx.reply(caller.peer, caller.number, reply);
        }
    }

    /// Ends an invitation of this node's with an error, for the leader and for all who are invited.
    pub(super) fn give_up_invitation(&mut self, id: &Nspace, status: Status) {
        let Some(invitation) = self.groups.invitations.open.remove(id) else { return };
        self.cx.timers.cancel(invitation.limit);
        trace!("the invitation of {} to the group {id} ends with {status}", invitation.leader);
        // Also those who have declined: they were invited.
        self.tell_group(Status::GROUP_CONSTRUCT_ABORT, &invitation.leader, invitation.places, id, Vec::new());
        self.guests_go_away(id);
        if let Some(caller) = invitation.caller {
            self.cx.reply_status(caller.peer, caller.number, Err(status));
        }
    }

    fn guests_go_away(&mut self, id: &Nspace) {
        for (_, guest) in self.groups.invitations.take_guests(|of, _, _| of == id) {
            self.end_visit(guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
    }

    /// A leader, or its server, gives the group up, for those in `range` at least.
    pub(super) fn invite_aborted(&mut self, source: &Proc, id: &Nspace, range: &[Proc]) {
        let led = self.groups.invitations.open.get_mut(id).filter(|invitation| invitation.leader == *source);
        if let Some(invitation) = led {
            // Who says so has told its own handlers.
            invitation.places.retain(|proc| proc != source);
            return self.give_up_invitation(id, Status::GROUP_CONSTRUCT_ABORT);
        }
        // Who is asked to follow a dead leader may end it for all.
        let is_asked = |open: &Invitation| open.electing.is_some() && open.states.contains_key(source);
        let electing = |open: &Invitation| is_asked(open) && range.contains(&open.leader);
        if self.groups.invitations.open.get(id).is_some_and(electing) {
            return self.give_up_invitation(id, Status::GROUP_CONSTRUCT_ABORT);
        }
        self.groups.invitations.followed.retain(|of, (_, leader)| of != id || leader != source);
        let meant = |proc: &Proc| range.is_empty() || range.iter().any(|named| named.matches(proc));
        let gone = |of: &Nspace, proc: &Proc, guest: &Guest| of == id && guest.leader == *source && meant(proc);
        for (_, guest) in self.groups.invitations.take_guests(gone) {
            self.end_visit(guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
    }

    /// Another process leads from now on.
    pub(super) fn guests_follow(&mut self, id: &Nspace, leader: &Proc) {
        let guests = self.groups.invitations.guests.iter_mut().filter(|((of, _), _)| of == id);
        guests.for_each(|(_, guest)| guest.leader = leader.clone());
    }

    /// A process is dead: it answers no invitation, and leads none.
    pub(super) fn invitations_without(&mut self, proc: &Proc) {
        for ((id, _), guest) in self.groups.invitations.take_guests(|_, guest, _| guest == proc) {
            self.cx.timers.cancel(guest.limit);
            self.answer_invitation(Status::GROUP_INVITE_FAILED, &id, proc, &guest.leader);
        }
        let open = &self.groups.invitations.open;
        let led = open.iter().filter(|(_, invitation)| invitation.leader == *proc).map(|(id, _)| id.clone());
        for id in led.collect::<Vec<_>>() {
            let Some(invitation) = self.groups.invitations.open.get_mut(&id) else { continue };
            invitation.caller = None;
            invitation.states.insert(proc.clone(), State::Out);
            let guests = invitation.invited();
            let (told, election) = self.call_election(&id, proc, guests);
            if let Some(invitation) = self.groups.invitations.open.get_mut(&id) {
                invitation.electing = Some(election);
                invitation.await_decisions(&told);
            }
            self.settle_invitation(&id);
        }
    }

    /// A namespace is deregistered: nobody of it comes, or leads.
    pub(super) fn invitations_of_job_end(&mut self, nspace: &Nspace) {
        let gone = |_: &Nspace, proc: &Proc, guest: &Guest| proc.nspace == *nspace || guest.leader.nspace == *nspace;
        for (_, guest) in self.groups.invitations.take_guests(gone) {
            self.end_visit(guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
        self.groups.invitations.followed.retain(|_, (dead, _)| dead.nspace != *nspace);
        let open = self.groups.invitations.open.iter();
        let each = open.flat_map(|(id, one)| one.states.keys().map(move |proc| (id.clone(), proc.clone())));
        for (id, proc) in each.filter(|(_, proc)| proc.nspace == *nspace).collect::<Vec<_>>() {
            self.invitation_answered(Status::GROUP_INVITE_FAILED, &id, &proc);
        }
    }

    /// The time that a leader has given those it invites is over: who has not answered is left out.
    pub(super) fn invitation_expired(&mut self, number: u64) {
        let open = &mut self.groups.invitations.open;
        let Some((id, invitation)) = open.iter_mut().find(|(_, invitation)| invitation.number == number) else {
            return;
        };
        invitation.limit = None;
        let (id, leader) = (id.clone(), invitation.leader.clone());
        let optional = invitation.info.is_set(keys::GROUP_OPTIONAL);
        let late = invitation.states.iter().filter(|(_, state)| **state == State::Asked).map(|(proc, _)| proc.clone());
        let late: Vec<Proc> = late.collect();
        let peer = self.jobs.client(&leader).and_then(|client| client.peer);
        let heard = peer.is_some_and(|peer| self.cx.subscriptions.wants(peer, Status::GROUP_INVITE_FAILED));
        if !late.is_empty() && !heard && !optional {
            return self.give_up_invitation(&id, Status::ERR_TIMEOUT);
        }
        self.tell_group(Status::GROUP_CONSTRUCT_ABORT, &leader, late.clone(), &id, Vec::new());
        for proc in late {
            let guest = self.groups.invitations.guests.remove(&(id.clone(), proc.clone()));
            guest.into_iter().for_each(|guest| self.cx.timers.cancel(guest.limit));
            self.answer_invitation(Status::GROUP_INVITE_FAILED, &id, &proc, &leader);
        }
    }

    /// The time that a process gives the others to complete the group it has joined is over.
    pub(super) fn join_expired(&mut self, number: u64) {
        for ((id, proc), mut guest) in self.groups.invitations.take_guests(|_, _, guest| guest.number == number) {
            guest.limit = None;
            let leader = guest.leader.clone();
            self.end_visit(guest, Reply::Done(Status::ERR_TIMEOUT));
            self.answer_invitation(Status::GROUP_INVITE_FAILED, &id, &proc, &leader);
        }
    }
}
