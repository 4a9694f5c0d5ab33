//! The end of a collective for its participants: with an answer each, or for all of them at once at their job's word, as
//! fences of a whole job end and constructs and destructs of its groups of all.
use super::arrived::Waiter;
use super::signature::Operation;
use super::tracker::Tracker;
use crate::data::{Rank, Status};
use crate::message::Reply;
use crate::server::ctx::Ctx;
use crate::server::ctx::effect::Effect;
use crate::server::jobs::Jobs;
use crate::trace;

/// Answers every participant that waits.
pub fn answer(cx: &mut Ctx, jobs: &mut Jobs, tracker: &mut Tracker, reply: &Reply) {
    trace::event!(
        DEBUG,
        number = tracker.id.0,
        over = ?tracker.signature.procs(),
        here = tracker.local.here,
        ms = cx.now().saturating_duration_since(tracker.since).as_millis() as u64,
        "a collective is complete"
    );
    if matches!(reply, Reply::Done(Status::SUCCESS) | Reply::Infos(Status::SUCCESS, _)) {
        release(cx, jobs, tracker);
    }
    tell(cx, tracker, reply);
    over(cx, tracker);
    tracker.signature.namespaces().for_each(|nspace| cx.effect(Effect::Reclaim(nspace.clone())));
}

/// Fails a tracker that is still gathering; it stays for latecomers.
pub fn fail(cx: &mut Ctx, jobs: &Jobs, tracker: &mut Tracker, status: Status, why: &str) {
    if trace::enabled() {
        let missing = tracker.signature.local_procs(jobs, |proc, _| !tracker.arrived.contains(proc));
        trace!(
            "fence {} over {:?} ends with {status}: {why}; {} of {} processes here have come, missing: {missing:?}",
            tracker.id.0,
            tracker.signature.procs(),
            tracker.arrived.len(),
            tracker.local.here
        );
    }
    tracker.failed = Some(status);
    // A collective within this node is nobody else's business, and the host knows itself which jobs are over.
    tracker.host_knows = !tracker.local.elsewhere || status == Status::EVENT_JOB_END;
    tell(cx, tracker, &Reply::Done(status));
    over(cx, tracker);
}

/// Has the room of groups forget what it keeps for a tracker.
fn over(cx: &mut Ctx, tracker: &Tracker) {
    if tracker.is_of_group() {
        cx.effect(Effect::TrackerOver(tracker.id));
    }
}

/// Wakes all participants at once that wait at their job's word; they are told no more.
fn release(cx: &mut Ctx, jobs: &mut Jobs, tracker: &mut Tracker) {
    let fences = *tracker.signature.operation() == Operation::Fence;
    let is_for_all = if fences { tracker.signature.is_whole_job() } else { tracker.is_of_all(jobs) };
    let Some(nspace) = tracker.signature.namespaces().next().filter(|_| is_for_all && !tracker.tells_more) else {
        return;
    };
    let (Some(job), Some(store)) = (jobs.get(nspace), jobs.store(nspace)) else { return };
    // A process that waits there has nothing else under way there, and no fence that it asked for before. So whatever
    // fence of all ends first is the one it waits for: unless its process has come anew since, by another connection,
    // or another thread of it has asked for this fence. A group that all wait for there is the one that each waits for.
    // One with bad news must hear those first.
    let releases = store.releases();
    let is_there = |rank: Rank, waiter: &Waiter| {
        let peer = waiter.caller.peer;
        let may_wake = cx.peers.get(&peer).is_some_and(|entry| {
            // Another thread of it would take this release for the end of what it waits for there.
            let misleads = waiter.seen.is_none() && entry.requests.may_sleep_at_word(releases);
            !entry.has_bad_news && !misleads
        });
        let waits = fences || waiter.seen == Some(releases);
        may_wake && waits && job.clients.get(&rank).is_some_and(|client| client.peer == Some(peer))
    };
    let all_there =
        tracker.arrived.of(nspace).all(|(rank, waiter)| waiter.is_some_and(|waiter| is_there(rank, waiter)));
    let Some(store) = jobs.store_mut(nspace).filter(|_| all_there) else { return };
    let waits = |waiter: &mut Waiter| waiter.seen == Some(releases);
    let released: Vec<Waiter> = tracker.arrived.waiters().filter_map(|waiter| waiter.take_if(waits)).collect();
    if released.is_empty() {
        return;
    }
    store.release();
    cx.ended += released.len();
    for waiter in released {
        if let Some(entry) = cx.peers.get_mut(&waiter.caller.peer) {
            entry.requests.close(waiter.caller.number);
        }
    }
}

/// Sends an answer to every participant that has none.
pub fn tell(cx: &mut Ctx, tracker: &mut Tracker, reply: &Reply) {
    cx.timers.cancel(tracker.limit.take());
    for Waiter { caller, .. } in tracker.arrived.waiters().filter_map(Option::take) {
        cx.ended += 1;
        cx.answer(caller, reply.clone());
        if let Some(entry) = cx.peers.get_mut(&caller.peer) {
            entry.has_bad_news = false;
        }
    }
}
