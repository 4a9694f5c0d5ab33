//! Collectives: fence, connect, disconnect, construction and destruction of groups. Processes that wait for each other.
//!
//! **A tracker** gathers the participants that run on this node. It is found by its [signature]: the operation and its
//! participants. A process joins the first tracker of a signature that it has not joined yet: its first fence over some
//! processes meets everybody's first, its second everybody's second.
//!
//! **A step** is what becomes of a tracker, for the room of its operation. `Complete`: every participant of this
//! node has arrived; the room asks the host, or finishes it. `Failed`: the host is to hear that this node's part
//! has failed. `Excused` and `Lost`: a participant has died. A tracker that is complete is the room's until it
//! finishes it; the next one of that signature waits for that, because mpirun and Slurm lose one of two
//! collectives of the same processes.
//!
//! **A participant that dies** before it has arrived ends the collective for all others at once, with
//! `ERR_PARTIAL_SUCCESS` as with stock libraries, unless the room of its operation excuses it ([`OnLoss`]). One that
//! dies after it has arrived has done its part. Processes count, not connections. A tracker that fails keeps its place
//! until every participant that may still come has come, and gets the same answer at once: so the next collective does
//! not mistake a latecomer for one of its own. The host hears of the failure in its turn among the collectives of that
//! signature, so that nobody on another node waits for this one.
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::Instant;

use super::ctx::Ctx;
use super::ctx::effect::Effect;
use super::ctx::peers::Caller;
use super::ctx::ticket::TrackerId;
use super::ctx::timers::Deadline;
use super::jobs::Jobs;
use crate::account::{Charge, Kind};
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::Reply;
use crate::message::door::PeerId;
use crate::message::numbers::{NumberMap, Spread};
use crate::trace;

pub mod arrived;
pub mod brought;
mod complete;
pub mod contribution;
pub mod exchange;
mod index;
pub mod intake;
mod limit;
mod loss;
pub mod signature;
#[cfg(test)]
mod tests;
pub mod tracker;

use arrived::Waiter;
use index::Index;
use loss::{Loss, lose_one, status_of_loss};
use signature::{BadSignature, Operation, Signature};
use tracker::{OnLoss, Step, Tracker};

/// Most collectives that a process may have begun and that are not over: those that wait for others, those that have
/// failed and wait for latecomers, and those that wait for the host.
const MAX_BEGUN: usize = 1024;
/// Failed trackers that are looked at again each time without a change of theirs: their latecomers may have ended by
/// now.
const LOOKED_AT: usize = 4;

/// A process that arrives at a collective.
pub struct Arrival<'a> {
    pub proc: &'a Proc,
    pub waiter: Waiter,
    pub info: &'a [Info],
    /// The end of the process's time limit.
    pub until: Option<Instant>,
    /// The group that the participants were named by.
    pub group: Option<Nspace>,
}

/// The tracker that a process has joined.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    pub id: TrackerId,
    /// True if it is the first one there.
    is_first: bool,
    /// The status that the tracker had failed with before.
    failed: Option<Status>,
    caller: Caller,
}

impl Joined {
    /// Returns whether the tracker had failed before the process came.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }
}

/// The collectives of one signature.
#[derive(Debug, Default)]
struct Queue {
    /// Trackers that wait for participants, in the order in which they began.
    trackers: VecDeque<Tracker>,
    /// True if one is complete here, and its room's.
    is_busy: bool,
}

impl Queue {
    fn find(&mut self, id: TrackerId) -> Option<&mut Tracker> {
        let at = self.trackers.binary_search_by(|tracker| tracker.id.cmp(&id)).ok()?;
        self.trackers.get_mut(at)
    }
}

/// Every collective under way.
#[derive(Debug, Default)]
pub struct Collectives {
    /// Trackers of each signature, found by a hash that is made with the signature.
    gathering: HashMap<Signature, Queue, BuildHasherDefault<Spread>>,
    /// Trackers that are complete here, and their room's.
    complete: HashMap<TrackerId, Tracker>,
    /// All of them.
    index: Index,
    /// Signature of a fence of the whole job, by namespace.
    whole_jobs: HashMap<Nspace, Signature>,
    /// Signature of a fence of the whole job, for each peer that waits at its job's word.
    whole_job_of: NumberMap<PeerId, Signature>,
    steps: VecDeque<Step>,
    /// Processes that many trackers are still to go on without.
    losses: NumberMap<u64, Loss>,
    last: u64,
}

impl Collectives {
    /// Makes the signature of an operation; that of a fence of the caller's whole job is made once.
    ///
    /// # Errors
    /// As [`Signature::of`].
    pub fn signature(
        &mut self,
        jobs: &Jobs,
        caller: &Proc,
        operation: Operation,
        procs: &[Proc],
    ) -> Result<Signature, BadSignature> {
        if !procs.is_empty() || operation != Operation::Fence || jobs.store(&caller.nspace).is_none() {
            return Signature::of(jobs, caller, operation, procs);
        }
        if let Some(known) = self.whole_jobs.get(&caller.nspace) {
            return Ok(known.clone());
        }
        let signature = Signature::whole_job(jobs, &caller.nspace);
        self.whole_jobs.insert(caller.nspace.clone(), signature.clone());
        Ok(signature)
    }

    /// Lets a process arrive at the first tracker of this signature that it has not joined. `on_loss` lets the room
    /// note what it knows, and returns the consequence of a participant's death where it is another from now on.
    pub fn arrive(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        signature: &Signature,
        arrival: Arrival<'_>,
        on_loss: impl FnOnce(&Joined) -> Option<OnLoss>,
    ) {
        let Some(joined) = self.join(cx, jobs, signature, arrival) else { return };
        if let Some(on_loss) = on_loss(&joined) {
            let tracker = self.gathering.get_mut(signature).and_then(|queue| queue.find(joined.id));
            tracker.into_iter().for_each(|tracker| tracker.on_loss = on_loss);
        }
        self.check(cx, jobs, signature, joined);
    }

    /// Adds a process to a tracker. Nothing where the process waits in too many already: it is refused.
    fn join(&mut self, cx: &mut Ctx, jobs: &Jobs, signature: &Signature, arrival: Arrival<'_>) -> Option<Joined> {
        let Arrival { proc, waiter, info, until, group } = arrival;
        let caller = waiter.caller;
        let fences = *signature.operation() == Operation::Fence;
        if waiter.seen.is_some() && fences && cx.peers.contains_key(&caller.peer) {
            self.whole_job_of.entry(caller.peer).or_insert_with(|| signature.clone());
        }
        let is_free = |tracker: &Tracker| !tracker.arrived.contains(proc);
        let known = self.gathering.get(signature).and_then(|queue| queue.trackers.iter().position(is_free));
        if known.is_none() && self.index.begun_by(proc) >= MAX_BEGUN {
            trace!("{proc} has come to too many meetings that others have not come to");
            cx.answer_status(caller, Err(Status::ERR_OUT_OF_RESOURCE));
            return None;
        }
        let tracker = known.and_then(|at| self.gathering.get(signature)?.trackers.get(at));
        // Attributes that a member gives to a group are its room's.
        let is_of_group = matches!(signature.operation(), Operation::Construct(_) | Operation::Destruct(_));
        let new = match tracker {
            None => info.to_vec(),
            Some(tracker) if tracker.failed.is_some() || is_of_group => Vec::new(),
            Some(tracker) => tracker.lacks(info),
        };
        let Ok(charge) = charge(cx, caller, &new) else {
            cx.answer_status(caller, Err(Status::ERR_OUT_OF_RESOURCE));
            return None;
        };
        let queue = match self.gathering.get_mut(signature) {
            Some(queue) => queue,
            None => self.gathering.entry(signature.clone()).or_default(),
        };
        if known.is_none() {
            self.last += 1;
            let tracker = Tracker::new((TrackerId(self.last), cx.now()), signature.clone(), jobs, &[], group);
            let tracker = Tracker { begun_by: Some(proc.clone()), ..tracker };
            self.index.add(&tracker);
            queue.trackers.push_back(tracker);
        }
        let queue = &mut queue.trackers;
        let at = known.unwrap_or(queue.len() - 1);
        let tracker = &mut queue[at];
        let failed = tracker.failed;
        tracker.info.extend(new);
        tracker.charges.extend(charge);
        tracker.changed = true;
        tracker.excused.remove(proc);
        tracker.arrived.insert(proc, Some(waiter).filter(|_| failed.is_none()));
        tracker.collect |= info.is_set(keys::COLLECT_DATA);
        // The collective ends for all with the first of their limits.
        if let Some(at) = until.filter(|at| failed.is_none() && tracker.limit.is_none_or(|limit| *at < limit.at())) {
            cx.timers.cancel(tracker.limit.take());
            tracker.limit = Some(cx.timers.set(at, Deadline::Collective(tracker.id)));
        }
        Some(Joined { id: tracker.id, is_first: known.is_none(), failed, caller })
    }

    /// Goes on with a tracker that a process has joined: it may be complete, or have failed before.
    fn check(&mut self, cx: &mut Ctx, jobs: &mut Jobs, signature: &Signature, joined: Joined) {
        if let Some(status) = joined.failed {
            cx.answer_status(joined.caller, Err(status));
        }
        let Some(tracker) = self.gathering.get_mut(signature).and_then(|queue| queue.find(joined.id)) else { return };
        let (mut steps, mut has_lost) = (Vec::new(), false);
        if joined.is_first {
            // A participant that dies from now on ends it then.
            for dead in signature.dead_procs(jobs) {
                if tracker.waits_for(&dead) {
                    (has_lost, tracker.changed) = (true, true);
                    lose_one(cx, jobs, tracker, &dead, &mut steps);
                }
            }
        }
        if joined.failed.is_some() || has_lost || tracker.is_complete() {
            self.settle(cx, jobs, signature);
        }
        steps.into_iter().for_each(|step| self.step(cx, step));
    }

    /// Adds a process to the fence of its whole job that is under way, if there is nothing to find out about it.
    /// Returns whether that was so.
    pub fn join_again(&mut self, cx: &mut Ctx, jobs: &mut Jobs, waiter: Waiter, collect: bool) -> bool {
        let peer = waiter.caller.peer;
        let Some(entry) = cx.peers.get_mut(&peer) else { return false };
        let whole = self.whole_job_of.get(&peer).filter(|_| entry.requests.is_simple());
        let Some(signature) = whole else { return false };
        let Some(queue) = self.gathering.get_mut(signature) else { return false };
        let [tracker] = queue.trackers.make_contiguous() else { return false };
        if tracker.failed.is_some() || !tracker.arrived.insert(&entry.proc, Some(waiter)) {
            return false;
        }
        entry.requests.open_briefly();
        waiter.seen.into_iter().for_each(|seen| entry.requests.wait_at_word(seen));
        tracker.collect |= collect;
        if tracker.is_complete() {
            let signature = signature.clone();
            self.settle(cx, jobs, &signature);
        }
        true
    }

    /// The trackers that involve a namespace or belong to a group of that name, and wait for participants.
    pub fn gathering(&self, name: &Nspace) -> impl Iterator<Item = &Tracker> {
        self.index.named(name).filter_map(|(id, signature)| self.waiting(signature, id))
    }

    /// The trackers that involve a namespace or belong to a group of that name, and are complete here.
    pub fn complete(&self, name: &Nspace) -> impl Iterator<Item = &Tracker> {
        self.index.named(name).filter_map(|(id, _)| self.complete.get(&id))
    }

    /// Every tracker under way, in the order in which they began, and whether it is complete here.
    pub fn under_way(&self) -> impl Iterator<Item = (&Tracker, bool)> {
        self.index.all().filter_map(|(id, signature)| match self.complete.get(&id) {
            Some(complete) => Some((complete, true)),
            None => Some((self.waiting(signature, id)?, false)),
        })
    }

    /// A tracker that waits for participants.
    fn waiting(&self, signature: &Signature, id: TrackerId) -> Option<&Tracker> {
        let trackers = &self.gathering.get(signature)?.trackers;
        trackers.get(trackers.binary_search_by(|tracker| tracker.id.cmp(&id)).ok()?)
    }

    /// A tracker that waits for participants, to be changed.
    fn waiting_mut(&mut self, id: TrackerId) -> Option<&mut Tracker> {
        self.gathering.get_mut(self.index.signature(id)?)?.find(id)
    }

    /// A tracker that is complete here.
    pub fn completed(&mut self, id: TrackerId) -> Option<&mut Tracker> {
        self.complete.get_mut(&id)
    }

    /// The peers that wait for a tracker that is complete here.
    pub fn peers_of(&self, id: TrackerId) -> Vec<PeerId> {
        self.complete.get(&id).map(|tracker| tracker.arrived.peers()).unwrap_or_default()
    }

    /// Takes a complete tracker out, to answer its participants in another way.
    pub fn take(&mut self, id: TrackerId) -> Option<Tracker> {
        let tracker = self.complete.remove(&id)?;
        self.index.remove(&tracker);
        if let Some(queue) = self.gathering.get_mut(&tracker.signature) {
            queue.is_busy = false;
        }
        Some(tracker)
    }

    /// Takes the oldest step that no room has taken.
    pub fn next_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    fn step(&mut self, cx: &mut Ctx, step: Step) {
        self.steps.push_back(step);
        cx.effect(Effect::Collective);
    }

    /// Goes on with the trackers of a signature: which is complete, of which the host is to hear, and which are done
    /// with.
    pub fn settle(&mut self, cx: &mut Ctx, jobs: &Jobs, signature: &Signature) {
        let Some(queue) = self.gathering.get_mut(signature) else { return };
        let (mut steps, mut at, mut looks) = (Vec::new(), 0, LOOKED_AT);
        // The host pairs what the nodes bring by its order, failures included, and those known take one at a time.
        let mut in_turn = !queue.is_busy;
        while let Some(tracker) = queue.trackers.get_mut(at) {
            let is_over = match tracker.failed {
                None => std::mem::take(&mut in_turn) && tracker.is_complete(),
                Some(status) => {
                    if in_turn && !tracker.host_knows {
                        (tracker.host_knows, tracker.changed) = (true, true);
                        steps.push(Step::Failed(tracker.notice(cx, status)));
                    }
                    let is_looked_at = std::mem::take(&mut tracker.changed) || looks > 0;
                    looks = looks.saturating_sub(1);
                    #[cfg(test)]
                    tests::LOOKS.set(tests::LOOKS.get() + usize::from(is_looked_at));
                    if tracker.host_knows {
                        tracker.forget_attributes();
                    }
                    tracker.host_knows && is_looked_at && !tracker.awaits_latecomers(jobs)
                }
            };
            if !is_over {
                at += 1;
                continue;
            }
            match queue.trackers.remove(at) {
                None => break,
                Some(tracker) if tracker.failed.is_some() => self.index.remove(&tracker),
                Some(tracker) => {
                    queue.is_busy = true;
                    steps.push(Step::Complete(signature.operation().clone(), tracker.id));
                    self.complete.insert(tracker.id, tracker);
                }
            }
        }
        if queue.trackers.is_empty() && !queue.is_busy {
            self.gathering.remove(signature);
        }
        steps.into_iter().for_each(|step| self.step(cx, step));
    }

    /// Ends a complete tracker: every participant gets this answer.
    pub fn finish(&mut self, cx: &mut Ctx, jobs: &mut Jobs, id: TrackerId, reply: &Reply) {
        let Some(mut tracker) = self.take(id) else { return };
        complete::answer(cx, jobs, &mut tracker, reply);
        self.settle(cx, jobs, &tracker.signature);
    }

    /// Ends a complete tracker with a status.
    pub fn finish_with(&mut self, cx: &mut Ctx, jobs: &mut Jobs, id: TrackerId, result: Result<(), Status>) {
        self.finish(cx, jobs, id, &Reply::Done(result.err().unwrap_or(Status::SUCCESS)));
    }

    /// Fails a complete tracker whose part cannot be brought to the other nodes.
    pub fn fail_complete(&mut self, cx: &mut Ctx, jobs: &mut Jobs, id: TrackerId, status: Status) {
        if let Some(notice) = self.complete.get(&id).map(|tracker| tracker.notice(cx, status)) {
            self.step(cx, Step::Failed(notice));
        }
        self.finish_with(cx, jobs, id, Err(status));
    }

    /// Applies `change` to every gathering tracker of a name that `wanted` picks, and settles what follows from it.
    fn change(
        &mut self,
        cx: &mut Ctx,
        jobs: &Jobs,
        name: &Nspace,
        wanted: impl Fn(&Tracker) -> bool,
        change: impl FnMut(&mut Ctx, &mut Tracker),
    ) {
        let these = self.index.named(name).map(|(id, _)| id).collect();
        self.change_these(cx, jobs, these, wanted, change);
    }

    /// Applies `change` to every gathering tracker among these that `wanted` picks, and settles what follows from it.
    fn change_these(
        &mut self,
        cx: &mut Ctx,
        jobs: &Jobs,
        these: Vec<TrackerId>,
        wanted: impl Fn(&Tracker) -> bool,
        mut change: impl FnMut(&mut Ctx, &mut Tracker),
    ) {
        // By the first tracker of each: several of one signature are settled once.
        let mut touched = BTreeMap::new();
        for id in these {
            let Some(signature) = self.index.signature(id) else { continue };
            let Some(queue) = self.gathering.get_mut(signature) else { continue };
            let first = queue.trackers.front().map(|tracker| tracker.id);
            let Some(tracker) = queue.find(id).filter(|tracker| wanted(tracker)) else { continue };
            tracker.changed = true;
            change(cx, tracker);
            touched.extend(first.map(|first| (first, signature.clone())));
        }
        touched.values().for_each(|signature| self.settle(cx, jobs, signature));
    }

    /// Applies `change` to one gathering tracker, and settles what follows from it.
    fn change_one(&mut self, cx: &mut Ctx, jobs: &Jobs, id: TrackerId, change: impl FnOnce(&mut Ctx, &mut Tracker)) {
        let Some(tracker) = self.waiting_mut(id) else { return };
        tracker.changed = true;
        change(cx, tracker);
        let signature = tracker.signature.clone();
        self.settle(cx, jobs, &signature);
    }

    /// Fails gathering trackers of a name.
    pub fn fail(
        &mut self,
        cx: &mut Ctx,
        jobs: &Jobs,
        name: &Nspace,
        which: impl Fn(&Tracker) -> bool,
        (status, why): (Status, &str),
    ) {
        let which = |tracker: &Tracker| tracker.failed.is_none() && which(tracker);
        self.change(cx, jobs, name, which, |cx, tracker| complete::fail(cx, jobs, tracker, status, why));
    }

    /// Fails a gathering tracker.
    pub fn fail_one(&mut self, cx: &mut Ctx, jobs: &Jobs, id: TrackerId, status: Status, why: &str) {
        if self.is_gathering(id) {
            self.change_one(cx, jobs, id, |cx, tracker| complete::fail(cx, jobs, tracker, status, why));
        }
    }

    /// Returns whether a tracker waits for participants.
    pub fn is_gathering(&self, id: TrackerId) -> bool {
        let signature = self.index.signature(id);
        let tracker = signature.and_then(|signature| self.waiting(signature, id));
        tracker.is_some_and(|tracker| tracker.failed.is_none())
    }

    /// Keeps a tracker from completing until its room has decided.
    pub fn hold(&mut self, id: TrackerId) {
        self.waiting_mut(id).into_iter().for_each(|tracker| tracker.held = true);
    }

    /// Lets a tracker complete that its room has held.
    pub fn unhold(&mut self, cx: &mut Ctx, jobs: &Jobs, id: TrackerId) {
        self.change_one(cx, jobs, id, |_, tracker| tracker.held = false);
    }

    /// A member has left a group: collectives of the group that wait for it go on without it, or fail.
    pub fn leave(&mut self, cx: &mut Ctx, jobs: &Jobs, group: &Nspace, proc: &Proc) {
        let waits = |tracker: &Tracker| tracker.group.as_ref() == Some(group) && tracker.waits_for(proc);
        self.change(cx, jobs, group, waits, |cx, tracker| {
            let ends = matches!(tracker.signature.operation(), Operation::Destruct(_));
            if ends || tracker.on_loss != OnLoss::Fail {
                tracker.excused.extend(jobs.runs_here(proc).then(|| proc.clone()));
                tracker.left.insert(proc.clone());
                tracker.count(jobs);
                return;
            }
            if tracker.failed.is_none() {
                complete::fail(cx, jobs, tracker, Status::GROUP_LEFT, &format!("{proc} has left the group"));
            }
            // Those who have not come leave it out when they do, and are late for this one all the same.
            tracker.left.insert(proc.clone());
            if jobs.runs_here(proc) {
                tracker.arrived.insert(proc, None);
            }
        });
    }

    /// The signature of the collective that a member of a group means who names it after others have left: of that which
    /// is under way and goes on without these, or has failed because of them.
    pub fn meant(&self, jobs: &Jobs, group: &Nspace, proc: &Proc, named: Signature) -> Signature {
        let is_it = |tracker: &&Tracker| {
            let is_awaited = !tracker.left.is_empty() && tracker.waits_for(proc);
            is_awaited && named.is_without(jobs, &tracker.signature, &tracker.left)
        };
        self.gathering(group).find(is_it).map_or(named.clone(), |tracker| tracker.signature.clone())
    }

    /// The signature of a fence by the name of a group that has lost a member whose rank was started anew: one of its
    /// own, unless the process is late for one that began before.
    pub fn of_members(&self, jobs: &Jobs, group: &Nspace, proc: &Proc, named: Signature) -> Signature {
        let is_it = |tracker: &Tracker| {
            tracker.group.as_ref() == Some(group) && tracker.signature == named && tracker.waits_for(proc)
        };
        let is_late = self.gathering(group).any(is_it);
        if is_late { named } else { named.of_members(jobs, group) }
    }

    /// Has this node's part of a signature fail, because nobody is left here.
    pub fn miss(&mut self, cx: &mut Ctx, jobs: &Jobs, signature: &Signature) {
        self.last += 1;
        let mut tracker = Tracker::new((TrackerId(self.last), cx.now()), signature.clone(), jobs, &[], None);
        if !tracker.local.elsewhere {
            return;
        }
        tracker.gone = signature.local_procs(jobs, |_, _| true);
        let id = tracker.id;
        self.index.add(&tracker);
        self.gathering.entry(signature.clone()).or_default().trackers.push_back(tracker);
        self.fail_one(cx, jobs, id, status_of_loss(&Operation::Fence), "nobody is left here");
    }

    /// A process starts anew: it owes nothing to what failed before, nor to fences that go on without the one before.
    pub fn restarted(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc) {
        let goes_on = |tracker: &Tracker| !tracker.is_of_group() && tracker.excused.contains(proc);
        let owes =
            |tracker: &Tracker| tracker.signature.contains(proc) && (tracker.failed.is_some() || goes_on(tracker));
        self.change(cx, jobs, &proc.nspace, owes, |_, tracker| {
            tracker.excused.remove(proc);
            tracker.arrived.insert(proc, None);
        });
    }

    /// A namespace or a process of it was registered: participants may run here that were not known before.
    pub fn job_changed(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        let involved = |tracker: &Tracker| tracker.signature.involves(nspace);
        self.change(cx, jobs, nspace, involved, |_, tracker| tracker.count(jobs));
    }

    /// A namespace is deregistered, and every collective with it is over.
    pub fn job_over(&mut self, cx: &mut Ctx, jobs: &mut Jobs, nspace: &Nspace) {
        self.whole_jobs.remove(nspace);
        let why = format!("{nspace} is deregistered");
        let involved = |tracker: &Tracker| tracker.signature.involves(nspace);
        self.fail(cx, jobs, nspace, involved, (Status::EVENT_JOB_END, &why));
        let over: BTreeMap<TrackerId, Signature> =
            collect_small(self.index.named(nspace).map(|(id, signature)| (id, signature.clone())));
        for (id, signature) in over.into_iter().filter(|(_, signature)| signature.involves(nspace)) {
            let queue = self.gathering.remove(&signature).unwrap_or_default();
            queue.trackers.iter().for_each(|tracker| self.index.remove(tracker));
            if let Some(mut tracker) = self.take(id) {
                trace!("fence {} ends while the host has it: {nspace} is deregistered", id.0);
                complete::answer(cx, jobs, &mut tracker, &Reply::Done(Status::EVENT_JOB_END));
            }
        }
    }

    /// A peer waits at no word any more.
    pub fn peer_over(&mut self, peer: PeerId) {
        self.whole_job_of.remove(&peer);
    }
}

/// Charges a process for attributes that a tracker keeps; the few of most collectives are free.
fn charge(cx: &Ctx, caller: Caller, info: &[Info]) -> Result<Option<Charge>, Status> {
    const FREE: usize = 1024;
    let bytes = info.iter().map(Info::kept_size).sum();
    let Some(entry) = cx.peers.get(&caller.peer).filter(|_| bytes > FREE) else { return Ok(None) };
    entry.requests.account().charge(Kind::Collective, bytes).map(Some).ok_or(Status::ERR_OUT_OF_RESOURCE)
}
