//! Guests: processes of this node that are invited to a group, and those among them that wait to join it.
use std::collections::{BTreeMap, BTreeSet};

use super::floor::Floor;
use super::message::{Answer, Membership};
use crate::by_number::ByNumber;
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Nspace, Proc, Status};
use crate::message::{Reply, group_results};
use crate::server::ctx::Ctx;
use crate::server::ctx::peers::Caller;
use crate::server::ctx::proc_set::ProcSet;
use crate::server::ctx::timers::{Deadline, TimerId};
use crate::trace;

/// A process of this node that is invited.
#[derive(Debug)]
struct Guest {
    number: u64,
    leader: Proc,
    has_accepted: bool,
    /// The request with which it waits, once it has accepted; none where it hears of the outcome by an event.
    joining: Option<Caller>,
    limit: Option<TimerId>,
}

/// An answer of a guest, on its way to the leader.
#[derive(Debug)]
pub struct ToLeader {
    pub answer: Answer,
    pub group: Nspace,
    pub guest: Proc,
    pub leader: Proc,
}

/// The guests of this node: by group, by process and by number.
#[derive(Debug, Default)]
pub struct Guests {
    invited: BTreeMap<Nspace, BTreeMap<Proc, Guest>>,
    groups_of: BTreeMap<Proc, BTreeSet<Nspace>>,
    by_number: ByNumber<u64, (Nspace, Proc)>,
    last: u64,
}

impl Guests {
    fn get_mut(&mut self, group: &Nspace, proc: &Proc) -> Option<&mut Guest> {
        self.invited.get_mut(group)?.get_mut(proc)
    }

    /// Returns whether nobody is invited.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.invited.is_empty() && self.groups_of.is_empty() && self.by_number.is_empty()
    }

    fn add(&mut self, group: &Nspace, proc: &Proc, leader: &Proc) {
        self.last += 1;
        let guest =
            Guest { number: self.last, leader: leader.clone(), has_accepted: false, joining: None, limit: None };
        self.invited.entry(group.clone()).or_default().insert(proc.clone(), guest);
        self.groups_of.entry(proc.clone()).or_default().insert(group.clone());
        self.by_number.insert(self.last, (group.clone(), proc.clone()));
    }

    /// Takes a guest out of everything that leads to it.
    fn remove(&mut self, group: &Nspace, proc: &Proc) -> Option<Guest> {
        let guests = self.invited.get_mut(group)?;
        let guest = guests.remove(proc)?;
        if guests.is_empty() {
            self.invited.remove(group);
        }
        if let Some(groups) = self.groups_of.get_mut(proc) {
            groups.remove(group);
            if groups.is_empty() {
                self.groups_of.remove(proc);
            }
        }
        self.by_number.remove(&guest.number);
        Some(guest)
    }

    /// Takes guests of a group out.
    fn take(&mut self, group: &Nspace, which: impl Fn(&Proc, &Guest) -> bool) -> Vec<(Proc, Guest)> {
        let guests = self.invited.get(group).into_iter().flatten();
        let taken: Vec<Proc> =
            guests.filter(|(proc, guest)| which(proc, guest)).map(|(proc, _)| proc.clone()).collect();
        taken.into_iter().filter_map(|proc| self.remove(group, &proc).map(|guest| (proc, guest))).collect()
    }

    /// Remembers which processes of this node are invited. Returns the answers of those that cannot be.
    pub fn invite(&mut self, floor: &Floor<'_>, group: &Nspace, leader: &Proc, procs: &[Proc]) -> Vec<ToLeader> {
        let mut failed = Vec::new();
        for guest in floor.jobs.each(procs).into_iter().filter(|proc| floor.jobs.runs_here(proc)) {
            // One invitation to a group of that name at a time: the first leader keeps its guest.
            match self.get_mut(group, &guest).map(|known| known.leader == *leader) {
                Some(true) => {}
                None if !floor.jobs.is_gone(&guest) => self.add(group, &guest, leader),
                _ => failed.push(to_leader(Answer::Failed, (group.clone(), guest), leader)),
            }
        }
        failed
    }

    /// The group that a process was invited to first, by that leader where one is given, among those whose invitation it
    /// has not answered.
    pub fn oldest(&self, proc: &Proc, leader: Option<&Proc>) -> Option<Nspace> {
        let groups = self.groups_of.get(proc)?.iter();
        let guests = groups.filter_map(|group| Some((group, self.invited.get(group)?.get(proc)?)));
        let open = guests
            .filter(|(_, guest)| !guest.has_accepted && leader.is_none_or(|leader| *leader == guest.leader))
            .min_by_key(|(_, guest)| guest.number);
        open.map(|(group, _)| group.clone())
    }

    /// Lets a client answer an invitation; one that `waits` is answered when the group is complete. Returns its answer,
    /// unless it is refused.
    pub fn join(
        &mut self,
        floor: &mut Floor<'_>,
        (caller, waits): (Caller, bool),
        (proc, group): (&Proc, &Nspace),
        leader: Option<&Proc>,
        (accept, info): (bool, &[Info]),
    ) -> Option<ToLeader> {
        let key = (group.clone(), proc.clone());
        let guest = self.get_mut(group, proc);
        let Some(guest) = guest.filter(|guest| leader.is_none_or(|leader| *leader == guest.leader)) else {
            // A process that leads in place of the dead is a member without having joined, and may join
            // when the group is complete.
            if let Some(made) = floor.registry.get(group).filter(|made| accept && made.has(proc)) {
                let reply = Reply::Infos(Status::SUCCESS, group_results(group, made.context, &made.members()));
                floor.cx.answer(caller, reply);
                return None;
            }
            trace!("{proc} is not invited to the group {group}");
            floor.cx.answer_status(caller, Err(Status::ERR_NOT_FOUND));
            return None;
        };
        if guest.has_accepted {
            floor.cx.answer_status(caller, Err(Status::ERR_INVALID_OPERATION));
            return None;
        }
        let leader = guest.leader.clone();
        if !accept {
            self.remove(group, proc);
            floor.cx.answer_status(caller, Ok(()));
            return Some(to_leader(Answer::Declined, key, &leader));
        }
        let (limit, number) = (info.time_limit().flatten(), guest.number);
        guest.limit = limit.map(|limit| floor.cx.set_deadline(limit, Deadline::Join(number)));
        guest.has_accepted = true;
        match waits {
            true => guest.joining = Some(caller),
            false => floor.cx.answer_status(caller, Ok(())),
        }
        Some(to_leader(Answer::Accepted, key, &leader))
    }

    /// The requests of guests that wait to join, each with its leader.
    pub fn waits(&self) -> impl Iterator<Item = (Caller, &Proc)> {
        let guests = self.invited.values().flat_map(BTreeMap::values);
        guests.filter_map(|guest| Some((guest.joining?, &guest.leader)))
    }

    /// The guests of a group that have accepted.
    pub fn accepted(&self, group: &Nspace) -> impl Iterator<Item = &Proc> {
        let guests = self.invited.get(group).into_iter().flatten();
        guests.filter(|(_, guest)| guest.has_accepted).map(|(proc, _)| proc)
    }

    /// A group is complete: the processes of this node that have accepted go on.
    pub fn go_on(&mut self, cx: &mut Ctx, group: &Nspace, Membership { members, context, .. }: &Membership) {
        let joined: BTreeSet<&Proc> = collect_small(members);
        for (proc, guest) in self.take(group, |_, _| true) {
            let reply = match joined.contains(&proc) {
                true => Reply::Infos(Status::SUCCESS, group_results(group, *context, members)),
                false => Reply::Done(Status::GROUP_CONSTRUCT_ABORT),
            };
            end(cx, guest, reply);
        }
    }

    /// An invitation has ended without a group, for all of its guests.
    pub fn go_away(&mut self, cx: &mut Ctx, group: &Nspace) {
        for (_, guest) in self.take(group, |_, _| true) {
            end(cx, guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
    }

    /// A leader gives the group up for those in `range`; for all of its guests where that is empty.
    pub fn aborted(&mut self, cx: &mut Ctx, source: &Proc, group: &Nspace, range: &[Proc]) {
        let named: ProcSet = range.iter().cloned().collect();
        let meant = |proc: &Proc| range.is_empty() || named.has(proc);
        for (_, guest) in self.take(group, |proc, guest| guest.leader == *source && meant(proc)) {
            end(cx, guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
    }

    /// Another process leads from now on.
    pub fn follow(&mut self, group: &Nspace, leader: &Proc) {
        let guests = self.invited.get_mut(group).into_iter().flatten();
        guests.for_each(|(_, guest)| guest.leader = leader.clone());
    }

    /// Forgets a guest whose leader waits for it no longer.
    pub fn dismiss(&mut self, cx: &mut Ctx, group: &Nspace, proc: &Proc) {
        if let Some(guest) = self.remove(group, proc) {
            cx.timers.cancel(guest.limit);
        }
    }

    /// A process is dead: it answers no invitation. Returns that as its answers.
    pub fn process_gone(&mut self, cx: &mut Ctx, proc: &Proc) -> Vec<ToLeader> {
        let groups = self.groups_of.get(proc).cloned().unwrap_or_default().into_iter();
        let answer = |group: Nspace| {
            let guest = self.remove(&group, proc)?;
            cx.timers.cancel(guest.limit);
            Some(to_leader(Answer::Failed, (group, proc.clone()), &guest.leader))
        };
        groups.filter_map(answer).collect()
    }

    /// A namespace is deregistered: nobody of it comes, or leads.
    pub fn job_over(&mut self, cx: &mut Ctx, nspace: &Nspace) {
        let is_over = |proc: &Proc, guest: &Guest| proc.nspace == *nspace || guest.leader.nspace == *nspace;
        for group in self.invited.keys().cloned().collect::<Vec<_>>() {
            for (_, guest) in self.take(&group, is_over) {
                end(cx, guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
            }
        }
    }

    /// The time that a guest gives the others to complete the group is over. Returns its answer.
    pub fn expired(&mut self, cx: &mut Ctx, number: u64) -> Option<ToLeader> {
        let key = self.by_number.get(&number).cloned()?;
        let mut guest = self.remove(&key.0, &key.1)?;
        guest.limit = None;
        let answer = to_leader(Answer::Failed, key, &guest.leader);
        end(cx, guest, Reply::Done(Status::ERR_TIMEOUT));
        Some(answer)
    }
}

fn to_leader(answer: Answer, (group, guest): (Nspace, Proc), leader: &Proc) -> ToLeader {
    ToLeader { answer, group, guest, leader: leader.clone() }
}

fn end(cx: &mut Ctx, guest: Guest, reply: Reply) {
    cx.timers.cancel(guest.limit);
    if let Some(caller) = guest.joining {
        cx.answer(caller, reply);
    }
}
