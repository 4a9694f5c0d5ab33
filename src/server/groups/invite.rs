//! Groups that one process gathers by invitation: `PMIx_Group_invite`, `PMIx_Group_join`.
//!
//! The process that invites is the group's leader. Everything between it and its guests is a [message](super::message),
//! which the servers see pass and remember: the leader's server whom it still waits for, every server which of its
//! processes are [guests](super::guests). So a process that dies before it has answered, or a time limit that runs out,
//! becomes an answer too, wherever it happens.
//!
//! A guest that does not come is left out of the group where the leader has a handler for that event which does not
//! vote otherwise, or has made coming optional; else the invitation ends for all. The group is complete when nobody is
//! waited for: then it exists, and every guest that has accepted is let go on.
use std::collections::{BTreeMap, BTreeSet};

use super::construct::call_election;
use super::election::Election;
use super::floor::Floor;
use super::group::Group;
use super::guests::{Guests, ToLeader};
use super::invitation::{Invitation, Lead, State};
use super::make;
use super::message::{Answer, Handover, Membership, Message, context_in, range_of};
use crate::account::{Charge, Kind};
use crate::collect_small::collect_small;
use crate::data::constants::group_operation::GROUP_CONSTRUCT;
use crate::data::{DataRange, Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::{Decision, Infos, Reply, group_results};
use crate::server::ctx::audience::Audience;
use crate::server::ctx::event::Event;
use crate::server::ctx::peers::Caller;
use crate::server::ctx::ticket::Ticket;
use crate::server::ctx::timers::Deadline;
use crate::trace;

/// Bytes that a guest counts for, who is kept in several places and looked at when the invitation ends.
const OF_GUEST: usize = 1024;

/// Consequence of an answer that the leader's server has noted.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    /// Vote of the leader about it.
    vote: Option<u64>,
    /// True if the invitation ends with it.
    gives_up: bool,
    /// True if its leader was told in words of its own.
    is_told: bool,
}

/// The invitations of this node's leaders, and its guests.
#[derive(Debug, Default)]
pub struct Invitations {
    open: BTreeMap<Nspace, Invitation>,
    by_number: BTreeMap<u64, Nspace>,
    /// The open ones of each leader.
    led: BTreeMap<Proc, BTreeSet<Nspace>>,
    pub guests: Guests,
    /// The leaders of this node that have died, each with the process on another node that has followed it.
    followed: BTreeMap<Nspace, (Proc, Proc)>,
    last: u64,
}

impl Invitations {
    /// Returns whether a group of that name is being gathered here.
    pub fn has(&self, id: &Nspace) -> bool {
        self.open.contains_key(id)
    }

    /// The number of the open one of that name.
    pub fn number(&self, id: &Nspace) -> Option<u64> {
        self.open.get(id).map(|invitation| invitation.number)
    }

    /// Counts the open ones that a process leads.
    pub fn led_by(&self, leader: &Proc) -> usize {
        self.led.get(leader).map_or(0, BTreeSet::len)
    }

    /// Returns whether none is open, and nothing leads to one.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.by_number.is_empty() && self.led.is_empty()
    }

    /// The requests of leaders of this node, each with those who have not answered.
    pub fn waits(&self) -> impl Iterator<Item = (Caller, Vec<Proc>)> {
        self.open.values().filter_map(|invitation| {
            let asked = invitation.states.iter().filter(|(_, state)| **state == State::Asked);
            match invitation.lead {
                Lead::Waits(caller) => Some((caller, asked.map(|(proc, _)| proc.clone()).collect())),
                Lead::Follows | Lead::Announces => None,
            }
        })
    }

    fn leads_no_more(&mut self, leader: &Proc, id: &Nspace) {
        if let Some(led) = self.led.get_mut(leader) {
            led.remove(id);
            if led.is_empty() {
                self.led.remove(leader);
            }
        }
    }

    /// Lets a client invite others into a group.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an invitation to nobody, or to what is no process; `ERR_OUT_OF_RESOURCE` for more guests than
    /// it may keep waiting.
    pub fn invite(
        &mut self,
        floor: &mut Floor<'_>,
        caller: Caller,
        (leader, lead): (&Proc, Lead),
        id: &Nspace,
        (procs, info): (&[Proc], Vec<Info>),
    ) -> Result<(), Status> {
        let mut places = floor.jobs.each(procs);
        if !places.contains(leader) {
            places.insert(0, leader.clone());
        }
        let guests: Vec<Proc> = places.iter().filter(|proc| *proc != leader).cloned().collect();
        let may_come = |proc: &Proc| proc.rank.is_process() && !floor.jobs.is_beyond(proc);
        if guests.is_empty() || !guests.iter().all(may_come) {
            trace!("{leader} cannot invite to the group {id}: {}", Status::ERR_BAD_PARAM);
            return Err(Status::ERR_BAD_PARAM);
        }
        let peer = floor.cx.peers.get(&caller.peer);
        let account = peer.map(|entry| entry.requests.account());
        let charge = account.map(|account| account.charge(Kind::Collective, guests.len() * OF_GUEST));
        let charge = charge.map(|charge| charge.ok_or(Status::ERR_OUT_OF_RESOURCE)).transpose()?;
        let states = collect_small(guests.iter().map(|proc| (proc.clone(), State::Asked)));
        self.open(floor, id, (leader, lead), (places, states, info), charge);
        self.send(floor, id, leader, guests);
        Ok(())
    }

    fn open(
        &mut self,
        floor: &mut Floor<'_>,
        id: &Nspace,
        (leader, lead): (&Proc, Lead),
        (places, states, info): (Vec<Proc>, BTreeMap<Proc, State>, Vec<Info>),
        charge: Option<Charge>,
    ) {
        self.last += 1;
        let number = self.last;
        let limit = info.time_limit().flatten();
        let limit = limit.map(|limit| floor.cx.set_deadline(limit, Deadline::Invitation(number)));
        let asked = states.values().filter(|state| **state == State::Asked).count();
        let invitation = Invitation {
            number,
            leader: leader.clone(),
            lead,
            places,
            states,
            asked,
            substitutes: 0,
            info,
            electing: None,
            unread: Vec::new(),
            complete: false,
            limit,
            _charge: charge,
        };
        self.by_number.insert(number, id.clone());
        self.led.entry(leader.clone()).or_default().insert(id.clone());
        self.open.insert(id.clone(), invitation);
    }

    fn close(&mut self, floor: &mut Floor<'_>, id: &Nspace) -> Option<Invitation> {
        let invitation = self.open.remove(id)?;
        self.by_number.remove(&invitation.number);
        self.leads_no_more(&invitation.leader, id);
        floor.votes.close(&invitation.subject());
        floor.cx.timers.cancel(invitation.limit);
        Some(invitation)
    }

    fn send(&mut self, floor: &mut Floor<'_>, id: &Nspace, leader: &Proc, guests: Vec<Proc>) {
        let number = self.number(id);
        self.guests_here(floor, id, leader, &guests);
        if self.has(id) {
            floor.tell(id, leader, guests, &Message::Invited, (None, number));
        }
    }

    /// Remembers which processes of this node are invited.
    pub fn guests_here(&mut self, floor: &mut Floor<'_>, id: &Nspace, leader: &Proc, guests: &[Proc]) {
        let failed = self.guests.invite(floor, id, leader, guests);
        failed.into_iter().for_each(|answer| self.answer(floor, answer));
    }

    /// Lets a client answer an invitation; one that waits is answered when the group is complete.
    pub fn join(
        &mut self,
        floor: &mut Floor<'_>,
        caller: (Caller, bool),
        guest: (&Proc, &Nspace),
        leader: Option<&Proc>,
        answer: (bool, &[Info]),
    ) {
        if let Some(answer) = self.guests.join(floor, caller, guest, leader, answer) {
            self.answer(floor, answer);
        }
    }

    /// Tells the leader what has become of a guest.
    fn answer(&mut self, floor: &mut Floor<'_>, ToLeader { answer, group, guest, leader }: ToLeader) {
        let number = self.number(&group);
        let noted = self.note(floor, answer, &group, &guest);
        if !noted.is_told {
            floor.tell(&group, &guest, vec![leader], &Message::Answered(answer), (noted.vote, number));
        }
        self.act(floor, &group, noted);
    }

    /// An answer passes, for a leader that may have died: the process that has followed it gets it, too.
    /// Returns the leader's vote.
    pub fn answer_passes(
        &mut self,
        floor: &mut Floor<'_>,
        answer: Answer,
        id: &Nspace,
        guest: &Proc,
        to: &[Proc],
    ) -> Option<u64> {
        // An answer to a leader that has died passes here, too, and comes again from the dead one's server: with that,
        // the vote reaches the leader.
        let is_meant = |open: &Invitation| to.is_empty() || to.iter().any(|named| named.matches(&open.leader));
        let noted = match self.open.get(id).is_some_and(is_meant) {
            true => self.note(floor, answer, id, guest),
            false => Noted::default(),
        };
        self.act(floor, id, noted);
        let followed = self.followed.get(id).filter(|(dead, _)| to.contains(dead));
        if let Some((_, leader)) = followed.cloned() {
            let number = self.number(id);
            floor.tell(id, guest, vec![leader], &Message::Answered(answer), (None, number));
        }
        noted.vote
    }

    /// Notes the answer of a process that a leader of this node has invited.
    fn note(&mut self, floor: &mut Floor<'_>, answer: Answer, id: &Nspace, guest: &Proc) -> Noted {
        let Some(invitation) = self.open.get_mut(id) else { return Noted::default() };
        if invitation.electing.is_some() {
            invitation.unread.push((answer, guest.clone()));
            return Noted::default();
        }
        if invitation.states.get(guest).is_none_or(|state| *state == State::Out) {
            return Noted::default();
        }
        let is_out = answer != Answer::Accepted;
        let announces = invitation.lead == Lead::Announces;
        invitation.set_state(guest, if is_out { State::Out } else { State::Accepted });
        let leader = std::slice::from_ref(&invitation.leader);
        let is_heard = !floor.hearers(leader, answer.event()).is_empty();
        let vote = floor.votes.open(invitation.subject(), floor.voters(leader, answer.event()));
        let gives_up = is_out && !announces && !is_heard && !invitation.info.is_set(keys::GROUP_OPTIONAL);
        if gives_up {
            let event = answer.event();
            trace!("{guest} does not come to the group {id}, and its leader has no handler for {event}");
        }
        let is_told = announces && answer == Answer::Failed;
        if is_told {
            floor.tell(id, guest, leader.to_vec(), &Message::GuestLost, (None, Some(invitation.number)));
        }
        Noted { vote, gives_up, is_told }
    }

    fn act(&mut self, floor: &mut Floor<'_>, id: &Nspace, noted: Noted) {
        match noted.gives_up {
            true => self.give_up(floor, id, Status::GROUP_CONSTRUCT_ABORT),
            false => self.go_on(floor, id),
        }
    }

    /// A process has voted about an event of an invitation.
    pub fn voted(&mut self, floor: &mut Floor<'_>, number: u64, proc: &Proc, decision: &Decision) {
        let Some(id) = self.by_number.get(&number).cloned() else { return };
        if decision.abort {
            return self.give_up(floor, &id, Status::GROUP_CONSTRUCT_ABORT);
        }
        let Some(invitation) = self.open.get_mut(&id) else { return };
        if let (Some(election), true) = (&mut invitation.electing, decision.lead) {
            election.stand(proc.clone());
        }
        let more = floor.jobs.each(&decision.add);
        // Each of the places has a state, its leader at the beginning excepted.
        let is_new = |proc: &Proc| *proc != invitation.leader && !invitation.states.contains_key(proc);
        let new: Vec<Proc> = more.into_iter().filter(is_new).collect();
        invitation.substitutes += new.len();
        invitation.places.extend(new.iter().cloned());
        new.iter().for_each(|proc| invitation.set_state(proc, State::Asked));
        let leader = invitation.leader.clone();
        if !new.is_empty() {
            self.send(floor, &id, &leader, new);
        }
        self.go_on(floor, &id);
    }

    /// A connection that had to decide about an invitation is gone.
    pub fn undecided(&mut self, floor: &mut Floor<'_>, number: u64) {
        if let Some(id) = self.by_number.get(&number).cloned() {
            self.go_on(floor, &id);
        }
    }

    /// Goes on with an invitation: an election may be over, or nobody be waited for any more.
    pub fn go_on(&mut self, floor: &mut Floor<'_>, id: &Nspace) {
        let Some(invitation) = self.open.get_mut(id) else { return };
        let decided = !floor.votes.is_open(&invitation.subject());
        if let Some((dead, elected)) = Election::end(&mut invitation.electing, decided) {
            let (everybody, number) = (invitation.invited(), Some(invitation.number));
            let Some(leader) = elected else {
                floor.tell(id, &dead, everybody, &Message::LeaderSelected(None, None), (None, number));
                return self.give_up(floor, id, Status::GROUP_CONSTRUCT_ABORT);
            };
            // It has come by leading.
            invitation.set_state(&leader, State::Accepted);
            let unread = std::mem::take(&mut invitation.unread);
            let before = std::mem::replace(&mut invitation.leader, leader.clone());
            self.leads_no_more(&before, id);
            self.led.entry(leader.clone()).or_default().insert(id.clone());
            match floor.jobs.runs_here(&leader) {
                true => {
                    let selected = Message::LeaderSelected(Some(leader.clone()), None);
                    floor.tell(id, &dead, everybody, &selected, (None, number));
                }
                false => self.hand_over(floor, id, dead, &leader, everybody),
            }
            self.guests.follow(id, &leader);
            for (answer, guest) in unread {
                self.answer(floor, ToLeader { answer, group: id.clone(), guest, leader: leader.clone() });
            }
        }
        let Some(invitation) = self.open.get_mut(id) else { return };
        if !invitation.is_settled(!floor.votes.is_open(&invitation.subject())) {
            return;
        }
        invitation.complete = true;
        let Some(wish) = invitation.info.find(keys::GROUP_ASSIGN_CONTEXT_ID).filter(|info| info.is_true()).cloned()
        else {
            return self.complete(floor, id, None);
        };
        // Only this node's host is asked, so that it must not wait for others.
        let (leader, number) = ([invitation.leader.clone()], invitation.number);
        floor.cx.ask_host(
            |host, done| host.group(GROUP_CONSTRUCT, id, &leader, &[wish], done),
            (Status::SUCCESS, Vec::new()),
            move |result| Ticket::InvitationContext(number, result),
        );
    }

    /// The host has given a context id, or not.
    pub fn context_given(&mut self, floor: &mut Floor<'_>, number: u64, result: Result<Infos, Status>) {
        // The invitation may have been given up, and another one of that name be open by now.
        let Some(id) = self.by_number.get(&number).cloned() else { return };
        let wish = self.open.get(&id).and_then(|open| open.info.find(keys::GROUP_ASSIGN_CONTEXT_ID));
        let is_required = wish.is_some_and(Info::is_required);
        let infos = result.map(|(_, infos)| infos).unwrap_or_default();
        match context_in(&infos) {
            None if is_required => self.give_up(floor, &id, Status::ERR_NOT_SUPPORTED),
            context => self.complete(floor, &id, context),
        }
    }

    /// A leader says that its group is complete: of those who have come, and of `named` among them where it names any.
    ///
    /// # Errors
    /// `ERR_NO_PERMISSIONS` where it leads no such invitation whose answers it counts itself.
    pub fn announced(
        &mut self,
        floor: &mut Floor<'_>,
        id: &Nspace,
        leader: &Proc,
        (named, context): (Option<&[Proc]>, Option<u64>),
    ) -> Result<(), Status> {
        let leads = |open: &&mut Invitation| open.leader == *leader && open.lead == Lead::Announces;
        let invitation = self.open.get_mut(id).filter(leads).ok_or(Status::ERR_NO_PERMISSIONS)?;
        let is_left_out = |proc: &Proc| named.is_some_and(|named| !named.iter().any(|one| one.matches(proc)));
        let states = invitation.states.iter_mut();
        let out = states.filter(|(proc, state)| **state != State::Accepted || is_left_out(proc));
        out.for_each(|(_, state)| *state = State::Out);
        self.complete(floor, id, context);
        Ok(())
    }

    /// Leaves an invitation to the server of a process on another node, which leads from now on.
    fn hand_over(&mut self, floor: &mut Floor<'_>, id: &Nspace, dead: Proc, leader: &Proc, everybody: Vec<Proc>) {
        let Some(invitation) = self.close(floor, id) else { return };
        let in_state = |wanted: fn(Option<&State>) -> bool| -> Vec<Proc> {
            let places = invitation.places.iter();
            places.filter(|proc| wanted(invitation.states.get(proc)) && **proc != dead).cloned().collect()
        };
        let handover = Handover {
            places: in_state(|state| state != Some(&State::Out)),
            awaited: in_state(|state| state == Some(&State::Asked)),
            info: invitation.info.clone(),
        };
        let selected = Message::LeaderSelected(Some(leader.clone()), Some(handover));
        floor.tell(id, &dead, everybody, &selected, (None, None));
        self.followed.insert(id.clone(), (dead, leader.clone()));
    }

    /// Takes over an invitation that a process of this node leads from now on.
    pub fn take_over(&mut self, floor: &mut Floor<'_>, id: &Nspace, leader: &Proc, handover: Handover) {
        if !floor.jobs.runs_here(leader) || floor.registry.get(id).is_some() || self.has(id) {
            return;
        }
        let Handover { places, awaited, info } = handover;
        let awaited: BTreeSet<Proc> = collect_small(awaited);
        let state = |proc: &Proc| if awaited.contains(proc) { State::Asked } else { State::Accepted };
        let states = collect_small(places.iter().map(|proc| (proc.clone(), state(proc))));
        self.open(floor, id, (leader, Lead::Follows), (places, states, info), None);
        self.go_on(floor, id);
    }

    /// Makes the group: every guest has come that will.
    fn complete(&mut self, floor: &mut Floor<'_>, id: &Nspace, context: Option<u64>) {
        let Some(invitation) = self.close(floor, id) else { return };
        let Invitation { leader, lead, places, states, substitutes, info, .. } = invitation;
        let has_come = |proc: &Proc| states.get(proc).is_none_or(|state| *state == State::Accepted);
        let members: Vec<Proc> = places.into_iter().filter(has_come).collect();
        let out = states.values().filter(|state| **state == State::Out).count();
        let status = if out > substitutes { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
        let notify = info.is_set(keys::GROUP_NOTIFY_TERMINATION);
        let membership = Membership { members: members.clone(), context, notify };
        // A leader that announces it has told its own handlers.
        let to = members.iter().filter(|member| lead != Lead::Announces || **member != leader).cloned().collect();
        floor.tell(id, &leader, to, &Message::Complete(membership.clone()), (None, None));
        // A leader that follows a dead one by another server's word has asked for nothing here.
        self.completed(floor, id, &membership, Some(&leader).filter(|_| lead != Lead::Follows));
        if let Lead::Waits(caller) = lead {
            floor.cx.answer(caller, Reply::Infos(status, group_results(id, context, &members)));
        }
    }

    /// A group is complete: it exists from now on, and guests of this node that have accepted go on. `leader` is the one
    /// that has asked for it here.
    pub fn completed(&mut self, floor: &mut Floor<'_>, id: &Nspace, membership: &Membership, leader: Option<&Proc>) {
        if floor.registry.get(id).is_none() {
            let Membership { members, context, notify } = membership.clone();
            let come: Vec<Proc> = self.guests.accepted(id).chain(leader).cloned().collect();
            make::enroll(floor, id, Group::invited(members, &come, context, notify));
        }
        self.followed.remove(id);
        self.guests.go_on(floor.cx, id, membership);
    }

    /// Ends an invitation of this node with an error, for the leader and for all who are invited.
    pub fn give_up(&mut self, floor: &mut Floor<'_>, id: &Nspace, status: Status) {
        let Some(invitation) = self.close(floor, id) else { return };
        trace!("the invitation of {} to the group {id} ends with {status}", invitation.leader);
        // Also those who have declined: they were invited.
        floor.tell(id, &invitation.leader, invitation.places, &Message::Aborted, (None, None));
        self.guests.go_away(floor.cx, id);
        if let Lead::Waits(caller) = invitation.lead {
            floor.cx.answer_status(caller, Err(status));
        }
    }

    /// A leader, or its server, gives the group up by this event, for those in its range at least.
    pub fn aborted(&mut self, floor: &mut Floor<'_>, event: &Event, id: &Nspace) {
        let (source, range) = (&event.source, &range_of(&event.info)[..]);
        // A process that is asked to follow a dead leader may end it for all.
        let may_end = |open: &Invitation| {
            let is_asked = open.electing.is_some() && open.states.contains_key(source);
            open.leader == *source || is_asked && range.contains(&open.leader)
        };
        if let Some(invitation) = self.open.get_mut(id).filter(|open| may_end(open)) {
            // The event itself reaches some of them, and its source has told its own handlers.
            let audience = Audience::of(event).ok();
            let in_reach = |proc: &Proc| event.range != DataRange::LOCAL || floor.jobs.runs_here(proc);
            let hears = |proc: &Proc| audience.as_ref().is_some_and(|audience| audience.has(proc) && in_reach(proc));
            invitation.places.retain(|proc| proc != source && !hears(proc));
            return self.give_up(floor, id, Status::GROUP_CONSTRUCT_ABORT);
        }
        if self.followed.get(id).is_some_and(|(_, leader)| leader == source) {
            self.followed.remove(id);
        }
        self.guests.aborted(floor.cx, source, id, range);
    }

    /// Another server has answered to an election for these processes; none: no other server can be asked.
    pub fn election_heard(&mut self, floor: &mut Floor<'_>, id: &Nspace, answer: Option<(&[Proc], Option<&Proc>)>) {
        let Some(election) = self.open.get_mut(id).and_then(|open| open.electing.as_mut()) else { return };
        match answer {
            Some((polled, candidate)) => election.hear(polled, candidate),
            None => election.hear_nobody(),
        }
        self.go_on(floor, id);
    }

    /// A process is dead: it answers no invitation, and leads none.
    pub fn process_gone(&mut self, floor: &mut Floor<'_>, proc: &Proc) {
        let answers = self.guests.process_gone(floor.cx, proc);
        answers.into_iter().for_each(|answer| self.answer(floor, answer));
        for id in self.led.get(proc).cloned().unwrap_or_default() {
            let Some(invitation) = self.open.get_mut(&id) else { continue };
            invitation.lead = Lead::Follows;
            invitation.set_state(proc, State::Out);
            let others = (invitation.invited(), Some(invitation.number));
            invitation.electing = Some(call_election(floor, invitation.subject(), &id, proc, others));
            self.go_on(floor, &id);
        }
    }

    /// A namespace is deregistered: nobody of it comes, or leads.
    pub fn job_over(&mut self, floor: &mut Floor<'_>, nspace: &Nspace) {
        self.guests.job_over(floor.cx, nspace);
        self.followed.retain(|_, (dead, _)| dead.nspace != *nspace);
        let each = self.open.iter().flat_map(|(id, one)| one.states.keys().map(move |proc| (id.clone(), proc.clone())));
        for (id, proc) in each.filter(|(_, proc)| proc.nspace == *nspace).collect::<Vec<_>>() {
            let noted = self.note(floor, Answer::Failed, &id, &proc);
            self.act(floor, &id, noted);
        }
    }

    /// The time that a leader has given its guests is over: those that have not answered are left out.
    pub fn expired(&mut self, floor: &mut Floor<'_>, number: u64) {
        let Some(id) = self.by_number.get(&number).cloned() else { return };
        let Some(invitation) = self.open.get_mut(&id) else { return };
        invitation.limit = None;
        let (leader, is_optional) = (invitation.leader.clone(), invitation.info.is_set(keys::GROUP_OPTIONAL));
        let asked = invitation.states.iter().filter(|(_, state)| **state == State::Asked);
        let late: Vec<Proc> = asked.map(|(proc, _)| proc.clone()).collect();
        let is_heard = !floor.hearers(std::slice::from_ref(&leader), Answer::Failed.event()).is_empty();
        if !late.is_empty() && !is_heard && !is_optional {
            return self.give_up(floor, &id, Status::ERR_TIMEOUT);
        }
        floor.tell(&id, &leader, late.clone(), &Message::Aborted, (None, Some(number)));
        for guest in late {
            self.guests.dismiss(floor.cx, &id, &guest);
            self.answer(floor, ToLeader { answer: Answer::Failed, group: id.clone(), guest, leader: leader.clone() });
        }
    }

    /// The time that a guest gives the others to complete the group is over.
    pub fn join_expired(&mut self, floor: &mut Floor<'_>, number: u64) {
        if let Some(answer) = self.guests.expired(floor.cx, number) {
            self.answer(floor, answer);
        }
    }
}
