//! The time limit of a collective, and what becomes of who waits when it has passed.
//!
//! A participant that waits is told `ERR_TIMEOUT`, or is in a group that is made without those that have not come.
//! Where the host has this node's part already, it is asked to end the collective for all nodes, and has a little time
//! for that.
use std::time::Duration;

use super::signature::Operation;
use super::tracker::{OnLoss, Tracker};
use super::{Collectives, complete};
use crate::data::Status;
use crate::message::Reply;
use crate::server::ctx::Ctx;
use crate::server::ctx::ticket::TrackerId;
use crate::server::ctx::timers::Deadline;
use crate::server::jobs::Jobs;
use crate::trace;

/// Time after which a tracker is looked at again whose limit came while its part was prepared.
const AGAIN: Duration = Duration::from_millis(10);
/// Time that the host still has when a group is made without those that have not come in time, or when it ends what was
/// withdrawn: clients wait half a second for the answer.
const FOR_THE_HOST: Duration = Duration::from_millis(400);

impl Collectives {
    /// The time limit of a tracker has passed.
    pub fn expired(&mut self, cx: &mut Ctx, jobs: &mut Jobs, id: TrackerId) {
        if let Some(tracker) = self.waiting_mut(id) {
            tracker.limit = None;
            if tracker.on_loss == OnLoss::Optional && tracker.failed.is_none() {
                let missing = tracker.signature.local_procs(jobs, |proc, _| !tracker.arrived.contains(proc));
                trace!("group {:?} is made without {missing:?}: the time limit has passed", tracker.group);
                tracker.excused.extend(missing);
                if tracker.is_complete() {
                    tracker.is_late = true;
                    look_again(cx, tracker, FOR_THE_HOST);
                    return self.change_one(cx, jobs, id, |_, _| {});
                }
            }
        }
        self.fail_one(cx, jobs, id, Status::ERR_TIMEOUT, "the time limit has passed");
        if let Some(tracker) = self.complete.get_mut(&id) {
            let here = tracker.local.here;
            if tracker.on_loss == OnLoss::Optional && !std::mem::replace(&mut tracker.is_late, true) {
                // Another node may be about to go on without those that have not come there.
                look_again(cx, tracker, FOR_THE_HOST);
                return;
            }
            if !tracker.is_preparing && tracker.local.elsewhere && withdraw(cx, tracker) {
                // All nodes are told the same, by the host's answer. It is late where it does not come soon.
                look_again(cx, tracker, FOR_THE_HOST);
                return;
            }
            if matches!(tracker.signature.operation(), Operation::Connect | Operation::Disconnect) {
                // The waiting are told now. The host has this node's part, and others may go on with it: its answer
                // says whether the processes are connected.
                complete::tell(cx, tracker, &Reply::Done(Status::ERR_TIMEOUT));
                return;
            }
            if tracker.is_preparing {
                // The waiting are told now. The host hears of this one all the same, before the next of that signature.
                complete::tell(cx, tracker, &Reply::Done(Status::ERR_TIMEOUT));
                tracker.is_given_up = true;
                look_again(cx, tracker, AGAIN);
                return;
            }
            trace!("fence {}: all {here} processes here have come; the host does not answer in time", id.0);
            tracker.limit = None;
            self.finish_with(cx, jobs, id, Err(Status::ERR_TIMEOUT));
        }
    }
}

/// Has a tracker looked at again after some time.
fn look_again(cx: &mut Ctx, tracker: &mut Tracker, after: Duration) {
    tracker.limit = Some(cx.timers.set(cx.now() + after, Deadline::Collective(tracker.id)));
}

/// Has the host end a collective whose time is over, for all nodes. Returns whether it does; it is asked once.
fn withdraw(cx: &Ctx, tracker: &mut Tracker) -> bool {
    let was_withdrawn = std::mem::replace(&mut tracker.is_withdrawn, true);
    let (host, signature) = (cx.host.clone(), &tracker.signature);
    let ask = || host.withdraw(signature.operation(), &signature.procs());
    !was_withdrawn && cx.call_host(ask, "withdraw").is_ok()
}
