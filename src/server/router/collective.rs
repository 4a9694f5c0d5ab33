//! Collectives: the steps of a tracker, and the host's answers to it, each to the room of its operation.
use super::Router;
use crate::data::{Info, Proc, Status};
use crate::message::door::PeerId;
use crate::server::absorptions::{Absorbed, Absorptions, Purpose};
use crate::server::collective::arrived::Waiter;
use crate::server::collective::brought::Brought;
use crate::server::collective::signature::Operation;
use crate::server::collective::tracker::Step;
use crate::server::ctx::peers::Caller;
use crate::server::ctx::ticket::Ticket;
use crate::server::{connect, fence, groups};
use crate::trace;

impl Router {
    /// A client arrives at a fence.
    pub(super) fn fence(&mut self, waiter: Waiter, proc: Proc, procs: Vec<Proc>, info: Vec<Info>) {
        let group = groups::group_of(&info);
        let lost = group.as_ref().map(|group| self.groups.lost_of(group)).unwrap_or_default();
        if lost.contains(&proc) {
            trace!("{proc} names a group of the process whose place it has taken");
            return self.cx.answer_status(waiter.caller, Err(Status::ERR_NOT_A_MEMBER));
        }
        let is_of_members = group.as_ref().is_some_and(|group| self.groups.is_replaced(&self.jobs, group));
        let request = fence::Request { waiter, proc, procs, info, group: group.clone(), is_of_members };
        let Router { cx, jobs, collectives, fences, .. } = self;
        fences.fence(cx, jobs, collectives, request);
        group.into_iter().for_each(|group| collectives.lose_members(cx, jobs, &group, &lost));
    }

    /// A client arrives at a connect or disconnect.
    pub(super) fn connect(&mut self, caller: Caller, proc: &Proc, operation: Operation, named: (&[Proc], &[Info])) {
        let Router { cx, jobs, collectives, connections, .. } = self;
        connections.arrive(cx, jobs, collectives, caller, proc, operation, named);
    }

    /// Has the room of its operation take the next step of a tracker.
    pub(super) fn collective_step(&mut self) {
        let Some(step) = self.collectives.next_step() else { return };
        let Router { cx, jobs, collectives, fences, connections, groups, .. } = self;
        match step {
            Step::Complete(operation, id) => match operation {
                Operation::Fence => fences.complete(cx, jobs, collectives, id),
                Operation::Connect | Operation::Disconnect => connections.complete(cx, collectives, id),
                Operation::Construct(_) | Operation::Destruct(_) => groups.complete(below!(self), id),
            },
            Step::Failed(notice) => match notice.signature.operation() {
                Operation::Fence => fences.tell_failure(cx, notice),
                Operation::Connect | Operation::Disconnect => connect::tell_failure(cx, &notice),
                Operation::Construct(_) | Operation::Destruct(_) => groups.tell_failure(cx, notice),
            },
            Step::Excused(id, proc) => groups.excused(below!(self), id, &proc),
            Step::Lost(group, gone) => groups.lost(jobs, &group, &gone),
        }
    }

    /// Takes in what the host has brought from other nodes, or why it has not.
    pub(super) fn absorb(&mut self, purpose: Purpose, brought: Result<Brought, Status>) {
        if let Purpose::Fence(id, _) = &purpose
            && let Some(tracker) = self.collectives.completed(*id)
        {
            tracker.part.clear();
        }
        let is_large = brought.as_ref().is_ok_and(Absorptions::is_large);
        let payers = if is_large { self.payers(&purpose) } else { Vec::new() };
        let absorbed = self.absorptions.begin(&mut self.cx, &mut self.jobs, purpose, (brought, payers));
        self.absorbed(absorbed);
    }

    /// The peers that data of other nodes is brought for.
    fn payers(&self, purpose: &Purpose) -> Vec<PeerId> {
        match purpose {
            Purpose::Fence(_, peers) => peers.clone(),
            Purpose::FailedFence(number) => self.fences.payers(&self.cx, *number),
            Purpose::DirectModex(proc, _) => self.gets.askers(proc),
            Purpose::Group(number) => self.groups.payers(&self.collectives, *number),
        }
    }

    /// Takes in the data of other nodes that a group is made with.
    fn absorb_group(&mut self, making: Option<(u64, Brought)>) {
        if let Some((number, brought)) = making {
            self.absorb(Purpose::Group(number), Ok(brought));
        }
    }

    /// Tells the room that has asked for data of other nodes, once it is taken in.
    pub(super) fn absorbed(&mut self, absorbed: Option<Absorbed>) {
        let Some(Absorbed { purpose, result }) = absorbed else { return };
        let Router { cx, jobs, collectives, fences, groups, gets, .. } = self;
        match purpose {
            Purpose::Fence(id, _) => fences.answered(cx, jobs, collectives, id, result),
            Purpose::FailedFence(number) => fences.failure_answered(cx, jobs, collectives, number, result),
            Purpose::DirectModex(proc, number) => gets.fetched(cx, jobs, &proc, number, result),
            Purpose::Group(number) => groups.taken_in(below!(self), number, result),
        }
    }

    /// The host has answered something about a collective.
    pub(super) fn collective_answered(&mut self, ticket: Ticket) {
        let Router { cx, jobs, collectives, fences, connections, groups, .. } = self;
        match ticket {
            Ticket::Contribution(id) => fences.prepared(cx, jobs, collectives, id),
            Ticket::Bringing(id) => groups.brought(below!(self), id),
            Ticket::SingleBringing(number) => groups.single_brought(below!(self), number),
            Ticket::Connect(id, result) => connections.answered(cx, jobs, collectives, id, result),
            Ticket::Group(id, result) => {
                let making = groups.answered(below!(self), id, result);
                self.absorb_group(making);
            }
            Ticket::Single(number, result) => {
                let making = groups.single_answered(below!(self), number, result);
                self.absorb_group(making);
            }
            Ticket::InvitationContext(number, result) => groups.context_given(below!(self), number, result),
            _ => {}
        }
    }
}
