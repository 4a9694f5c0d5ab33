//! Connections between jobs: `PMIx_Connect`, `PMIx_Disconnect`, and the ties that a spawn makes.
//!
//! Processes connect by a collective, as in a fence; when every participant of this node has arrived, the host is
//! asked, once. Connected jobs, and a job and the one it was started from, may map each other's memory: a Get of
//! one in the other is a read of memory as well. The host registers the namespaces that live on other nodes
//! before it says that they are connected. One that does no such thing (`ERR_NOT_SUPPORTED`) is not needed by
//! processes that all run here.
//!
//! Ties end with a disconnect, and with the namespace; nobody connects with one that is over. A participant that dies
//! before it has arrived ends the operation for the others, as it does a fence.
use std::collections::{BTreeMap, BTreeSet};

use super::collective::arrived::Waiter;
use super::collective::signature::{Operation, Signature};
use super::collective::tracker::FailureNotice;
use super::collective::{Arrival, Collectives};
use super::ctx::Ctx;
use super::ctx::peers::Caller;
use super::ctx::ticket::{Ticket, TrackerId};
use super::jobs::Jobs;
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Nspace, Proc, Status};
use crate::trace;

/// Most connections of one namespace at a time: each is kept until it ends. Processes that are in few may have as many
/// more, so that one that is in all of them is in nobody's way.
const MOST_CONNECTIONS: usize = 1024;
/// Connections that are few.
const FEW: usize = 16;

/// The ties between namespaces.
#[derive(Debug, Default)]
pub struct Connections {
    /// The processes that are connected, by each of their namespaces.
    connected: BTreeMap<Nspace, Vec<Signature>>,
    /// Jobs, each with those that were started from it, and the other way round.
    spawned: BTreeMap<Nspace, BTreeSet<Nspace>>,
}

impl Connections {
    /// Ties a job to the one it was started from.
    pub fn tie(&mut self, parent: Nspace, child: Nspace) {
        self.spawned.entry(parent.clone()).or_default().insert(child.clone());
        self.spawned.entry(child).or_default().insert(parent);
    }

    /// Returns whether processes of one namespace may map the memory of the other.
    pub fn bind(&self, a: &Nspace, b: &Nspace) -> bool {
        let (of_a, of_b) = (self.connected_with(a), self.connected_with(b));
        let (few, other) = if of_a.len() < of_b.len() { (of_a, b) } else { (of_b, a) };
        few.iter().any(|signature| signature.involves(other))
            || self.spawned.get(a).is_some_and(|tied| tied.contains(b))
    }

    fn connected_with(&self, nspace: &Nspace) -> &[Signature] {
        self.connected.get(nspace).map_or(&[], Vec::as_slice)
    }

    /// Returns whether processes are connected, and with each other alone.
    fn are_connected(&self, signature: &Signature) -> bool {
        let known = signature.namespaces().next().map_or(&[][..], |nspace| self.connected_with(nspace));
        known.iter().any(|connected| connected.has_procs_of(signature))
    }

    /// Forgets connections of a namespace.
    fn forget(&mut self, nspace: &Nspace, is_over: impl Fn(&Signature) -> bool) {
        if let Some(connected) = self.connected.get_mut(nspace) {
            connected.retain(|signature| !is_over(signature));
            if connected.is_empty() {
                self.connected.remove(nspace);
            }
        }
    }

    /// A namespace is deregistered.
    pub fn job_over(&mut self, nspace: &Nspace) {
        let over = self.connected.remove(nspace).unwrap_or_default();
        let others: BTreeSet<&Nspace> = collect_small(over.iter().flat_map(Signature::namespaces));
        others.iter().for_each(|other| self.forget(other, |signature| signature.involves(nspace)));
        for other in self.spawned.remove(nspace).unwrap_or_default() {
            if let Some(tied) = self.spawned.get_mut(&other) {
                tied.remove(nspace);
                if tied.is_empty() {
                    self.spawned.remove(&other);
                }
            }
        }
    }

    /// Lets a client arrive at a connect or disconnect.
    #[allow(clippy::too_many_arguments, reason = "the layers below, and the request's own fields")]
    pub fn arrive(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        collectives: &mut Collectives,
        caller: Caller,
        proc: &Proc,
        operation: Operation,
        (procs, info): (&[Proc], &[Info]),
    ) {
        let signature = match Signature::of(jobs, proc, operation, procs) {
            Ok(signature) => signature,
            Err(bad) => return bad.refuse(cx, caller, proc),
        };
        let end_of = |nspace: &Nspace| jobs.get(nspace).is_none().then(|| jobs.status_of_end(nspace))?;
        if let Some(end) = signature.namespaces().find_map(end_of) {
            trace!("{proc} names processes of a namespace that is over");
            return cx.answer_status(caller, Err(end));
        }
        let disconnects = *signature.operation() == Operation::Disconnect;
        if disconnects && !self.are_connected(&signature) {
            trace!("{proc} disconnects from processes that it is not connected with");
            return cx.answer_status(caller, Err(Status::ERR_INVALID_OPERATION));
        }
        let is_full = |nspace: &Nspace| {
            let all = self.connected_with(nspace);
            let mut own = all.iter().filter(|connected| connected.contains(proc));
            all.len() >= 2 * MOST_CONNECTIONS || all.len() >= MOST_CONNECTIONS && own.nth(FEW - 1).is_some()
        };
        if !disconnects && signature.namespaces().any(is_full) && !self.are_connected(&signature) {
            trace!("{proc} would have a job of more than {MOST_CONNECTIONS} connections");
            return cx.answer_status(caller, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let until = info.time_limit().flatten().map(|limit| cx.now() + limit);
        let arrival = Arrival { proc, waiter: Waiter { caller, seen: None }, info, until, group: None };
        collectives.arrive(cx, jobs, &signature, arrival, |_| None);
    }

    /// Every participant of this node has arrived: asks the host.
    pub fn complete(&self, cx: &mut Ctx, collectives: &mut Collectives, id: TrackerId) {
        let Some(tracker) = collectives.completed(id) else { return };
        ask(cx, &tracker.signature, &tracker.info_for_host(), move |result| Ticket::Connect(id, result));
    }

    /// The host has answered.
    pub fn answered(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        collectives: &mut Collectives,
        id: TrackerId,
        result: Result<(), Status>,
    ) {
        // An answer that comes after the end of a job connects nobody. One that comes after the time limit does, because
        // others have it too.
        let Some(tracker) = collectives.completed(id) else { return };
        let signature = &tracker.signature;
        // An attribute that is required, and not served by the library, only the host can serve.
        let needs_host = tracker.local.elsewhere || tracker.info_for_host().iter().any(Info::is_required);
        let result = if needs_host || result != Err(Status::ERR_NOT_SUPPORTED) { result } else { Ok(()) };
        if result.is_ok() {
            for nspace in signature.namespaces() {
                self.forget(nspace, |connected| connected.has_procs_of(signature));
                if *signature.operation() == Operation::Connect {
                    self.connected.entry(nspace.clone()).or_default().push(signature.clone());
                }
            }
        }
        collectives.finish_with(cx, jobs, id, result);
    }
}

/// Has the host know that this node's part has failed; its answer matters to nobody.
pub fn tell_failure(cx: &mut Ctx, notice: &FailureNotice) {
    ask(cx, &notice.signature, &notice.info, |_| Ticket::Ignored);
}

fn ask(
    cx: &mut Ctx,
    signature: &Signature,
    info: &[Info],
    ticket: impl FnOnce(Result<(), Status>) -> Ticket + Send + 'static,
) {
    let procs = signature.procs();
    match signature.operation() {
        Operation::Disconnect => cx.ask_host(|host, done| host.disconnect(&procs, info, done), (), ticket),
        _ => cx.ask_host(|host, done| host.connect(&procs, info, done), (), ticket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rank;
    use crate::message::Reply;
    use crate::server::NoHost;
    use crate::server::collective::tracker::Step;
    use crate::server::ctx::testing::{self, proc};

    #[test]
    fn nobody_connects_with_a_job_that_is_over() {
        let (mut test, mut jobs) = (testing::ctx(NoHost), Jobs::default());
        let [own, other, tool] = ["own", "other", "tool"].map(|nspace| proc(nspace, 0));
        let mut connections = Connections::default();
        let mut collectives = Collectives::default();
        let peer = test.connect(&own);
        let mut connect = |jobs: &mut Jobs, other: &Proc| {
            let (caller, procs) = (test.request(peer), [own.clone(), other.clone()]);
            let named = (&procs[..], &[][..]);
            connections.arrive(&mut test.cx, jobs, &mut collectives, caller, &own, Operation::Connect, named);
            test.replies().into_iter().map(|(_, reply)| reply).collect::<Vec<_>>()
        };
        [&own, &other, &tool].iter().for_each(|of| jobs.add(&of.nspace, 1, &[Rank(0)]));
        assert_eq!(connect(&mut jobs, &other), []);
        jobs.remove(&mut testing::ctx(NoHost).cx, &other.nspace);
        assert_eq!(connect(&mut jobs, &other), [Reply::Done(Status::EVENT_JOB_END)]);
        jobs.add(&other.nspace, 1, &[Rank(0)]);
        assert_eq!(connect(&mut jobs, &other), []);
        jobs.get_mut(&tool.nspace).unwrap().of_tools = true;
        jobs.remove(&mut testing::ctx(NoHost).cx, &tool.nspace);
        let gone = Reply::Done(Status::ERR_PARTIAL_SUCCESS);
        assert_eq!(connect(&mut jobs, &tool), [gone], "as for who waits for a tool as it goes");
    }

    #[test]
    fn a_job_has_so_many_connections_and_may_make_each_again() {
        let (mut test, mut jobs) = (testing::ctx(NoHost), Jobs::default());
        let (mut connections, mut collectives) = (Connections::default(), Collectives::default());
        let own = proc("own", 0);
        jobs.add(&own.nspace, 2, &[Rank(0), Rank(1)]);
        let with = |rank: usize| [own.clone(), proc("other", rank as u32)];
        for at in 0..MOST_CONNECTIONS {
            let signature = Signature::of(&jobs, &own, Operation::Connect, &with(at)).unwrap();
            for nspace in signature.namespaces() {
                connections.connected.entry(nspace.clone()).or_default().push(signature.clone());
            }
        }
        let peer = test.connect(&own);
        let mut connect = |rank: usize| {
            let (caller, procs) = (test.request(peer), with(rank));
            let named = (&procs[..], &[][..]);
            connections.arrive(&mut test.cx, &mut jobs, &mut collectives, caller, &own, Operation::Connect, named);
            test.replies().into_iter().map(|(_, reply)| reply).collect::<Vec<_>>()
        };
        assert_eq!(connect(MOST_CONNECTIONS), [Reply::Done(Status::ERR_OUT_OF_RESOURCE)]);
        assert_eq!(connect(0), []);
        // It is in nobody's way.
        let few = proc("own", 1);
        let peer = test.connect(&few);
        let (caller, procs) = (test.request(peer), [few.clone(), proc("other", 0)]);
        let named = (&procs[..], &[][..]);
        connections.arrive(&mut test.cx, &mut jobs, &mut collectives, caller, &few, Operation::Connect, named);
        assert_eq!(test.replies(), []);
    }

    #[test]
    fn ties_are_found_from_either_side_and_end_with_a_job() {
        let (mut connections, jobs) = (Connections::default(), Jobs::default());
        let [a, b, c] = ["a", "b", "c"].map(|job| proc(job, 0));
        connections.tie(a.nspace.clone(), b.nspace.clone());
        let together = [b.clone(), c.clone()];
        let signature = Signature::of(&jobs, &b, Operation::Connect, &together).unwrap();
        for nspace in signature.namespaces() {
            connections.connected.entry(nspace.clone()).or_default().push(signature.clone());
        }
        let bind = |connections: &Connections, x: &Proc, y: &Proc| connections.bind(&x.nspace, &y.nspace);
        assert!(bind(&connections, &a, &b) && bind(&connections, &b, &a) && bind(&connections, &c, &b));
        assert!(!bind(&connections, &a, &c) && connections.are_connected(&signature));
        connections.job_over(&b.nspace);
        assert!(connections.connected.is_empty() && connections.spawned.is_empty());
    }

    #[test]
    fn who_has_not_waited_for_the_host_is_connected_as_the_host_then_says() {
        for (result, is_connected) in [(Ok(()), true), (Err(Status::ERR_PARTIAL_SUCCESS), false)] {
            let (mut test, mut jobs) = (testing::ctx(NoHost), Jobs::default());
            let (mut connections, mut collectives) = (Connections::default(), Collectives::default());
            let procs = [proc("own", 0), proc("other", 0)];
            jobs.add(&procs[0].nspace, 1, &[Rank(0)]);
            let peer = test.connect(&procs[0]);
            let (caller, info) = (test.request(peer), [Info::new(crate::data::keys::TIMEOUT, 1u32)]);
            let (cx, named) = (&mut test.cx, (&procs[..], &info[..]));
            connections.arrive(cx, &mut jobs, &mut collectives, caller, &procs[0], Operation::Connect, named);
            let Some(Step::Complete(_, id)) = collectives.next_step() else { panic!("all of this node have come") };
            collectives.expired(&mut test.cx, &mut jobs, id);
            assert_eq!(test.replies(), [(caller, Reply::Done(Status::ERR_TIMEOUT))]);
            connections.answered(&mut test.cx, &mut jobs, &mut collectives, id, result);
            assert_eq!((connections.bind(&procs[0].nspace, &procs[1].nspace), test.replies()), (is_connected, vec![]));
            assert!(collectives.under_way().next().is_none());
        }
    }
}
