//! Connections between jobs: `PMIx_Connect`, `PMIx_Disconnect`, and the ties that a spawn makes.
//!
//! Processes connect by a collective, as in a fence; when every participant of this node has arrived, the host is
//! asked, once. Connected jobs, and a job and the one it was started from, may map each other's memory: a Get of
//! one in the other is a read of memory as well. The host registers the namespaces that live on other nodes
//! before it says that they are connected. One that does no such thing (`ERR_NOT_SUPPORTED`) is not needed by
//! processes that all run here.
//!
//! Ties end with a disconnect, and with the namespace. A participant that dies before it has arrived ends the operation
//! for the others, as it does a fence.
use super::collective::arrived::Waiter;
use super::collective::signature::{Operation, Signature};
use super::collective::tracker::FailureNotice;
use super::collective::{Arrival, Collectives};
use super::ctx::Ctx;
use super::ctx::peers::Caller;
use super::ctx::ticket::{Ticket, TrackerId};
use super::ctx::timers::time_limit;
use super::jobs::Jobs;
use crate::data::{Info, Nspace, Proc, Status};
use crate::trace;

/// The ties between namespaces.
#[derive(Debug, Default)]
pub struct Connections {
    connected: Vec<Signature>,
    /// Jobs, each with one that was started from it.
    spawned: Vec<(Nspace, Nspace)>,
}

impl Connections {
    /// Ties a job to the one it was started from.
    pub fn tie(&mut self, parent: Nspace, child: Nspace) {
        let tie = (parent, child);
        if !self.spawned.contains(&tie) {
            self.spawned.push(tie);
        }
    }

    /// Returns whether processes of one namespace may map the memory of the other.
    pub fn bind(&self, a: &Nspace, b: &Nspace) -> bool {
        self.connected.iter().any(|signature| signature.involves(a) && signature.involves(b))
            || self.spawned.iter().any(|(parent, child)| (parent, child) == (a, b) || (parent, child) == (b, a))
    }

    /// A namespace is deregistered.
    pub fn job_over(&mut self, nspace: &Nspace) {
        self.connected.retain(|signature| !signature.involves(nspace));
        self.spawned.retain(|(parent, child)| parent != nspace && child != nspace);
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
        let disconnects = *signature.operation() == Operation::Disconnect;
        if disconnects && !self.connected.iter().any(|connected| connected.has_procs_of(&signature)) {
            trace!("{proc} disconnects from processes that it is not connected with");
            return cx.answer_status(caller, Err(Status::ERR_INVALID_OPERATION));
        }
        let until = time_limit(info).flatten().map(|limit| cx.now() + limit);
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
        // An answer that comes after a time limit or the end of a job connects nobody.
        let Some(tracker) = collectives.completed(id) else { return };
        let signature = &tracker.signature;
        // An attribute that is required, and not served by the library, only the host can serve.
        let needs_host = tracker.local.elsewhere || tracker.info_for_host().iter().any(Info::is_required);
        let result = if needs_host || result != Err(Status::ERR_NOT_SUPPORTED) { result } else { Ok(()) };
        if result.is_ok() {
            self.connected.retain(|connected| !connected.has_procs_of(signature));
            if *signature.operation() == Operation::Connect {
                self.connected.push(signature.clone());
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
