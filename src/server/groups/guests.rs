//! Guests: processes of this node that are invited to a group, and those among them that wait to join it.
use std::collections::BTreeMap;

use super::floor::Floor;
use super::make::results;
use super::message::{Answer, Membership};
use crate::data::{Info, Nspace, Proc, Status};
use crate::message::Reply;
use crate::server::ctx::Ctx;
use crate::server::ctx::peers::Caller;
use crate::server::ctx::timers::{Deadline, TimerId, time_limit};
use crate::trace;

/// A process of this node that is invited.
#[derive(Debug)]
struct Guest {
    number: u64,
    leader: Proc,
    /// The request with which it waits, once it has accepted.
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

/// The guests of this node.
#[derive(Debug, Default)]
pub struct Guests {
    invited: BTreeMap<(Nspace, Proc), Guest>,
    last: u64,
}

impl Guests {
    fn take(&mut self, which: impl Fn(&Nspace, &Proc, &Guest) -> bool) -> Vec<((Nspace, Proc), Guest)> {
        let taken = self.invited.iter().filter(|((group, proc), guest)| which(group, proc, guest));
        let taken: Vec<(Nspace, Proc)> = taken.map(|(key, _)| key.clone()).collect();
        taken.into_iter().filter_map(|key| self.invited.remove_entry(&key)).collect()
    }

    /// Remembers which processes of this node are invited. Returns the answers of those that cannot be.
    pub fn invite(&mut self, floor: &Floor<'_>, group: &Nspace, leader: &Proc, procs: &[Proc]) -> Vec<ToLeader> {
        let mut failed = Vec::new();
        for guest in floor.jobs.each(procs).into_iter().filter(|proc| floor.jobs.runs_here(proc)) {
            // One invitation to a group of that name at a time: the first leader keeps its guest.
            let key = (group.clone(), guest.clone());
            match self.invited.get(&key).map(|known| known.leader == *leader) {
                Some(true) => {}
                None if !floor.jobs.is_gone(&guest) => {
                    self.last += 1;
                    let invited = Guest { number: self.last, leader: leader.clone(), joining: None, limit: None };
                    self.invited.insert(key, invited);
                }
                _ => failed.push(to_leader(Answer::Failed, (group.clone(), guest), leader)),
            }
        }
        failed
    }

    /// Lets a client answer an invitation. Returns its answer, unless it is refused.
    pub fn join(
        &mut self,
        floor: &mut Floor<'_>,
        caller: Caller,
        (proc, group): (&Proc, &Nspace),
        leader: Option<&Proc>,
        (accept, info): (bool, &[Info]),
    ) -> Option<ToLeader> {
        let key = (group.clone(), proc.clone());
        let guest = self.invited.get_mut(&key);
        let Some(guest) = guest.filter(|guest| leader.is_none_or(|leader| *leader == guest.leader)) else {
            // A process that leads in place of the dead is a member without having joined, and may join
            // when the group is complete.
            if let Some(made) = floor.registry.get(group).filter(|made| accept && made.has(proc)) {
                let reply = Reply::Infos(Status::SUCCESS, results(group, made.context, &made.members()));
                floor.cx.answer(caller, reply);
                return None;
            }
            trace!("{proc} is not invited to the group {group}");
            floor.cx.answer_status(caller, Err(Status::ERR_NOT_FOUND));
            return None;
        };
        if guest.joining.is_some() {
            floor.cx.answer_status(caller, Err(Status::ERR_INVALID_OPERATION));
            return None;
        }
        let leader = guest.leader.clone();
        if !accept {
            self.invited.remove(&key);
            floor.cx.answer_status(caller, Ok(()));
            return Some(to_leader(Answer::Declined, key, &leader));
        }
        let (limit, number) = (time_limit(info).flatten(), guest.number);
        guest.limit = limit.map(|limit| floor.cx.set_deadline(limit, Deadline::Join(number)));
        guest.joining = Some(caller);
        Some(to_leader(Answer::Accepted, key, &leader))
    }

    /// A group is complete: the processes of this node that have accepted go on.
    pub fn go_on(&mut self, cx: &mut Ctx, group: &Nspace, Membership { members, context, .. }: &Membership) {
        for ((_, proc), guest) in self.take(|of, _, _| of == group) {
            let reply = match members.contains(&proc) {
                true => Reply::Infos(Status::SUCCESS, results(group, *context, members)),
                false => Reply::Done(Status::GROUP_CONSTRUCT_ABORT),
            };
            end(cx, guest, reply);
        }
    }

    /// An invitation has ended without a group, for all of its guests.
    pub fn go_away(&mut self, cx: &mut Ctx, group: &Nspace) {
        for (_, guest) in self.take(|of, _, _| of == group) {
            end(cx, guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
    }

    /// A leader gives the group up for those in `range`; for all of its guests where that is empty.
    pub fn aborted(&mut self, cx: &mut Ctx, source: &Proc, group: &Nspace, range: &[Proc]) {
        let meant = |proc: &Proc| range.is_empty() || range.iter().any(|named| named.matches(proc));
        for (_, guest) in self.take(|of, proc, guest| of == group && guest.leader == *source && meant(proc)) {
            end(cx, guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
    }

    /// Another process leads from now on.
    pub fn follow(&mut self, group: &Nspace, leader: &Proc) {
        let guests = self.invited.iter_mut().filter(|((of, _), _)| of == group);
        guests.for_each(|(_, guest)| guest.leader = leader.clone());
    }

    /// Forgets a guest whose leader waits for it no longer.
    pub fn dismiss(&mut self, cx: &mut Ctx, group: &Nspace, proc: &Proc) {
        if let Some(guest) = self.invited.remove(&(group.clone(), proc.clone())) {
            cx.timers.cancel(guest.limit);
        }
    }

    /// A process is dead: it answers no invitation. Returns that as its answers.
    pub fn process_gone(&mut self, cx: &mut Ctx, proc: &Proc) -> Vec<ToLeader> {
        let gone = self.take(|_, guest, _| guest == proc).into_iter();
        gone.map(|(key, guest)| {
            cx.timers.cancel(guest.limit);
            to_leader(Answer::Failed, key, &guest.leader)
        })
        .collect()
    }

    /// A namespace is deregistered: nobody of it comes, or leads.
    pub fn job_over(&mut self, cx: &mut Ctx, nspace: &Nspace) {
        for (_, guest) in self.take(|_, proc, guest| proc.nspace == *nspace || guest.leader.nspace == *nspace) {
            end(cx, guest, Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
    }

    /// The time that a guest gives the others to complete the group is over. Returns its answer.
    pub fn expired(&mut self, cx: &mut Ctx, number: u64) -> Option<ToLeader> {
        let (key, mut guest) = self.take(|_, _, guest| guest.number == number).pop()?;
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
