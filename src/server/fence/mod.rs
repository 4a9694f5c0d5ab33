//! Fences: processes that wait for each other, and exchange what they have posted.
//!
//! When every participant of this node has arrived, a fence without others ends at once; one with participants
//! elsewhere goes to the host, once, with what this node adds to the data, and ends with the host's answer.
//!
//! A fence over one whole namespace ends for all who wait at the word of that job's segment with one system call: see
//! [`Request::Meet`](crate::message::Request::Meet). The word is no more than a quicker way to bring the answer: it
//! says that all have come. Failures, and what goes to a process that cannot use the word, are replies.
//!
//! A fence over a namespace that is not registered yet waits for that, unless the host knows that it never will be. Where nobody of a whole job is left to come, the
//! other nodes are told so of each of its fences, unasked.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::collective::arrived::Waiter;
use super::collective::contribution::Contribution;
use super::collective::exchange::{self, Said};
use super::collective::signature::{BadSignature, Operation, Signature};
use super::collective::tracker::{FailureNotice, OnLoss, Tracker};
use super::collective::{Arrival, Collectives};
use super::ctx::Ctx;
use super::ctx::peers::Caller;
use super::ctx::ticket::{Ticket, TrackerId};
use super::ctx::timers::{Deadline, TimerId};
use super::host::Host;
use super::jobs::Jobs;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::door::PeerId;
use crate::message::numbers::NumberMap;
use crate::trace;

/// Fences of one client over namespaces that are not registered yet.
const MAX_EARLY: usize = 16;

/// Fences in a row from which a host may bring nothing to a node that misses them, before it is taken
/// for one that meets nobody.
const MAX_EMPTY: u32 = 1024;

/// Attributes of a fence that the library serves itself.
const SERVED: [&str; 3] = [keys::COLLECT_DATA, keys::TIMEOUT, keys::COLLECT_GENERATED_JOB_INFO];

/// Attributes of a fence of a group that the library serves besides: the others go on without a member that is gone.
const EXCUSES: [&str; 3] = [keys::GROUP_OPTIONAL, keys::GROUP_NOTIFY_TERMINATION, keys::GROUP_FT_COLLECTIVE];

/// A request for a fence.
#[derive(Debug)]
pub struct Request {
    pub waiter: Waiter,
    pub proc: Proc,
    pub procs: Vec<Proc>,
    pub info: Vec<Info>,
    /// The group that the participants were named by.
    pub group: Option<Nspace>,
    /// True if the rank of a member that the group has lost was started anew.
    pub is_of_members: bool,
}

/// A fence over a namespace that is not registered yet.
#[derive(Debug)]
struct Early {
    awaits: Nspace,
    request: Request,
    since: Instant,
    until: Option<Instant>,
    limit: Option<TimerId>,
}

/// A failure that the host has been told of.
#[derive(Debug)]
struct Told {
    signature: Signature,
    was_met: bool,
}

/// State of fences beside their trackers.
#[derive(Debug, Default)]
pub struct Fences {
    early: NumberMap<u64, Early>,
    told: NumberMap<u64, Told>,
    /// Parts of this node that threads prepare, by tracker.
    preparing: NumberMap<u64, Arc<Mutex<Option<Contribution>>>>,
    last: u64,
}

impl Fences {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Lets a client arrive at a fence.
    pub fn fence(&mut self, cx: &mut Ctx, jobs: &mut Jobs, collectives: &mut Collectives, request: Request) {
        let until = request.info.time_limit().flatten().map(|limit| cx.now() + limit);
        self.enter(cx, jobs, collectives, request, until);
    }

    fn enter(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        collectives: &mut Collectives,
        request: Request,
        until: Option<Instant>,
    ) {
        let caller = request.waiter.caller;
        let signature = match collectives.signature(jobs, &request.proc, Operation::Fence, &request.procs) {
            Ok(signature) => signature,
            Err(BadSignature::Unknown(nspace)) => {
                let Some(end) = jobs.status_of_end(&nspace) else {
                    return self.wait_for_job(cx, nspace, request, until);
                };
                trace!("{} would meet processes of {nspace}, which is over", request.proc);
                return cx.answer_status(caller, Err(end));
            }
            Err(bad) => return bad.refuse(cx, caller, &request.proc),
        };
        let Request { waiter, proc, info, group, is_of_members, .. } = request;
        let signature = match &group {
            Some(group) => {
                let meant = collectives.meant(jobs, group, &proc, signature);
                if is_of_members { collectives.of_members(jobs, group, &proc, meant) } else { meant }
            }
            None => signature,
        };
        let of_group = if group.is_some() { &EXCUSES[..] } else { &[] };
        let is_served = |info: &Info| SERVED.iter().chain(of_group).any(|key| info.key == *key);
        let unserved = |info: &&Info| info.is_required() && !is_served(info);
        if let Some(info) = info.iter().find(unserved)
            && !signature.local_count(jobs).elsewhere
        {
            trace!("{proc} requires {} of a fence", info.key);
            return cx.answer_status(caller, Err(Status::ERR_NOT_SUPPORTED));
        }
        let excuses = of_group.iter().any(|key| info.is_set(key));
        let arrival = Arrival { proc: &proc, waiter, info: &info, until, group };
        collectives.arrive(cx, jobs, &signature, arrival, |_| excuses.then_some(OnLoss::Excuse));
    }

    fn wait_for_job(&mut self, cx: &mut Ctx, awaits: Nspace, request: Request, until: Option<Instant>) {
        if self.early.values().filter(|early| early.request.proc == request.proc).count() >= MAX_EARLY {
            let proc = &request.proc;
            trace!("{proc} waits for {MAX_EARLY} namespaces to be registered, and {awaits} is one too many");
            return cx.answer_status(request.waiter.caller, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let number = self.next();
        let limit = until.map(|at| cx.timers.set(at, Deadline::EarlyFence(number)));
        let (asked, nspace) = (awaits.clone(), awaits.clone());
        self.early.insert(number, Early { awaits, request, since: cx.now(), until, limit });
        let ask = |host: &dyn Host, done| host.namespace_awaited(&asked, done);
        cx.ask_host(ask, (), move |result| Ticket::Awaited(nspace, result));
    }

    /// The host has said whether there is, or will be, a namespace that fences wait for.
    pub fn job_announced(&mut self, cx: &mut Ctx, nspace: &Nspace, result: Result<(), Status>) {
        let Err(status) = result else { return };
        if status == Status::ERR_NOT_SUPPORTED {
            return;
        }
        for (_, Early { request, limit, .. }) in self.take_early(nspace) {
            trace!("a fence of {} ends: the host says of {nspace} {status}", request.proc);
            cx.timers.cancel(limit);
            cx.answer_status(request.waiter.caller, Err(status));
        }
    }

    /// Takes the fences that wait for a namespace, in the order in which they came.
    fn take_early(&mut self, nspace: &Nspace) -> Vec<(u64, Early)> {
        let mut early: Vec<(u64, Early)> = self.early.extract_if(|_, early| early.awaits == *nspace).collect();
        early.sort_unstable_by_key(|(number, _)| *number);
        early
    }

    /// A namespace is registered: fences that have waited for it begin.
    pub fn job_changed(&mut self, cx: &mut Ctx, jobs: &mut Jobs, collectives: &mut Collectives, nspace: &Nspace) {
        if self.early.is_empty() || jobs.store(nspace).is_none() {
            return;
        }
        for (_, Early { request, until, limit, .. }) in self.take_early(nspace) {
            cx.timers.cancel(limit);
            self.enter(cx, jobs, collectives, request, until);
        }
    }

    /// The processes that wait for a namespace to be registered, each with its request, that name and the time since
    /// when.
    pub fn early(&self) -> impl Iterator<Item = (Caller, &Proc, &Nspace, Instant)> {
        self.early.values().map(|early| (early.request.waiter.caller, &early.request.proc, &early.awaits, early.since))
    }

    /// A process will not wait any more.
    pub fn process_gone(&mut self, cx: &mut Ctx, proc: &Proc) {
        for (_, early) in self.early.extract_if(|_, early| early.request.proc == *proc) {
            cx.timers.cancel(early.limit);
        }
    }

    /// The namespace that a fence waits for was not registered in time.
    pub fn expired(&mut self, cx: &mut Ctx, number: u64) {
        if let Some(Early { awaits, request, .. }) = self.early.remove(&number) {
            trace!("a fence of {} ends with the time limit: {awaits} is not registered here", request.proc);
            cx.answer_status(request.waiter.caller, Err(Status::ERR_TIMEOUT));
        }
    }

    /// Every participant of this node has arrived: asks the host, or ends a fence that nobody else takes part in.
    pub fn complete(&mut self, cx: &mut Ctx, jobs: &mut Jobs, collectives: &mut Collectives, id: TrackerId) {
        let Some(tracker) = collectives.completed(id) else { return };
        if !tracker.local.elsewhere {
            // Data that local processes have committed is in their common memory already.
            return collectives.finish_with(cx, jobs, id, Ok(()));
        }
        tracker.payers = tracker.arrived.peers();
        if !tracker.collect {
            return ask_host(cx, tracker, Vec::new());
        }
        let bytes = Contribution::bytes(jobs, &tracker.signature, &tracker.arrived);
        if let Err(status) = tracker.charge_part(cx, bytes) {
            return collectives.fail_complete(cx, jobs, id, status);
        }
        let Some(contribution) = Contribution::begin(cx, jobs, &tracker.signature, &tracker.arrived, bytes) else {
            return contribute(cx, jobs, collectives, id);
        };
        let payers = tracker.payers.clone();
        tracker.is_preparing = true;
        let place = Arc::new(Mutex::new(Some(contribution)));
        self.preparing.insert(id.0, place.clone());
        let make = move || lock(&place).iter_mut().for_each(Contribution::make);
        let theirs = make.clone();
        let worker = cx.offload_for(payers, "exchange", move || {
            theirs();
            Ticket::Contribution(id)
        });
        if let Err(e) = worker {
            trace!("no thread for what processes here have posted: {e}");
            make();
            self.prepared(cx, jobs, collectives, id);
        }
    }

    /// This node's part of a fence is prepared.
    pub fn prepared(&mut self, cx: &mut Ctx, jobs: &mut Jobs, collectives: &mut Collectives, id: TrackerId) {
        let Some(contribution) = self.preparing.remove(&id.0).and_then(|place| lock(&place).take()) else { return };
        let made = contribution.end(jobs);
        match (collectives.completed(id), made) {
            (Some(tracker), Some((_, sent))) if tracker.is_given_up => {
                // The participants that have waited here were told; the other nodes are to hear the same.
                tracker.is_preparing = false;
                exchange::take_back(jobs, sent);
                collectives.fail_complete(cx, jobs, id, Status::ERR_TIMEOUT);
            }
            (Some(tracker), Some((data, sent))) => {
                (tracker.is_preparing, tracker.sent) = (false, sent);
                ask_host(cx, tracker, data);
            }
            (Some(tracker), None) => {
                tracker.is_preparing = false;
                contribute(cx, jobs, collectives, id);
            }
            (None, Some((_, sent))) => exchange::take_back(jobs, sent),
            (None, None) => {}
        }
    }

    /// The host has answered a fence, and what it brings is taken in.
    pub fn answered(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        collectives: &mut Collectives,
        id: TrackerId,
        result: Result<Said, Status>,
    ) {
        let result = result.and_then(Said::check);
        if let Err(status) = result {
            trace!("fence {}: the host brings {status}", id.0);
            if let Some(tracker) = collectives.completed(id) {
                exchange::take_back(jobs, std::mem::take(&mut tracker.sent));
            }
        }
        collectives.finish_with(cx, jobs, id, result);
    }

    /// Has the host know that this node's part has failed. Everybody here knows that already: how it ends for others is
    /// their business, and what they bring is data all the same.
    pub fn tell_failure(&mut self, cx: &mut Ctx, notice: FailureNotice) {
        let FailureNotice { signature, was_met, info, data } = notice;
        let (number, procs) = (self.next(), signature.procs());
        self.told.insert(number, Told { signature, was_met });
        cx.ask_host(
            |host, done| host.fence_nb(&procs, &info, data, done),
            Vec::new(),
            move |result| Ticket::FailedFence(number, result),
        );
    }

    /// The peers of processes that were meant to come to a fence that has failed here.
    pub fn payers(&self, cx: &Ctx, number: u64) -> Vec<PeerId> {
        let Some(told) = self.told.get(&number) else { return Vec::new() };
        cx.peers.iter().filter(|(_, entry)| told.signature.contains(&entry.proc)).map(|(peer, _)| *peer).collect()
    }

    /// The host has brought what other nodes have to say to a fence that has failed here, and its data is taken in.
    pub fn failure_answered(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        collectives: &mut Collectives,
        number: u64,
        result: Result<Said, Status>,
    ) {
        let Some(Told { signature, was_met: false }) = self.told.remove(&number) else { return };
        if let Ok(said) = result {
            missed(cx, jobs, collectives, &signature, &said);
        }
    }
}

/// Asks the host with this node's part, all of which is collected now.
fn contribute(cx: &mut Ctx, jobs: &mut Jobs, collectives: &mut Collectives, id: TrackerId) {
    let Some(tracker) = collectives.completed(id) else { return };
    match exchange::contribution(cx, jobs, &tracker.signature, &tracker.arrived) {
        Ok((data, sent)) => {
            tracker.sent = sent;
            ask_host(cx, tracker, data);
        }
        Err(status) => collectives.fail_complete(cx, jobs, id, status),
    }
}

/// Asks the host for a fence, with this node's part.
fn ask_host(cx: &mut Ctx, tracker: &mut Tracker, data: Vec<u8>) {
    let (id, procs, info) = (tracker.id, tracker.signature.procs(), tracker.info_for_host());
    let peers = std::mem::take(&mut tracker.payers);
    cx.ask_host(
        |host, done| host.fence_nb(&procs, &info, data, done),
        Vec::new(),
        move |result| Ticket::Fence(id, peers, result),
    );
}

/// Tells the other nodes that this one misses the next fence of a whole job, where nobody of it is here any
/// more and some have gone without a goodbye: they would wait for this node. When that fence is over, it is
/// told of the one after it.
pub fn deserted(cx: &mut Ctx, jobs: &mut Jobs, collectives: &mut Collectives, nspace: &Nspace) {
    let Some(job) = jobs.get_mut(nspace).filter(|job| job.is_deserted()) else { return };
    if job.fruitless_fences.is_none() {
        job.fruitless_fences = Some(0);
        let signature = Signature::whole_job(jobs, nspace);
        collectives.miss(cx, jobs, &signature);
    }
}

/// Other nodes have said this to a fence that this one misses. When nobody is left there either, it was the last one.
fn missed(cx: &mut Ctx, jobs: &mut Jobs, collectives: &mut Collectives, signature: &Signature, said: &Said) {
    let missing = said.failure.as_ref().map_or(0, |failure| failure.gone.len());
    let is_empty = said.is_empty && said.failure.is_none();
    let Some(nspace) = signature.namespaces().next() else { return };
    let Some(job) = jobs.get_mut(nspace).filter(|job| job.is_deserted()) else { return };
    let all = job.store.as_ref().and_then(|store| store.size()).unwrap_or(0) as usize;
    let here = job.local_procs.unwrap_or(0);
    let empty = job.fruitless_fences.get_or_insert(0);
    *empty = if is_empty { *empty + 1 } else { 0 };
    if *empty < MAX_EMPTY && here + missing < all {
        collectives.miss(cx, jobs, signature);
    }
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
