//! Loss of a participant before it has arrived, and what becomes of who waits for it.
use std::collections::VecDeque;

use super::signature::Operation;
use super::tracker::{OnLoss, Step, Tracker};
use super::{Collectives, complete};
use crate::data::{Nspace, Proc, Status};
use crate::server::ctx::Ctx;
use crate::server::ctx::slices::Slice;
use crate::server::ctx::ticket::TrackerId;
use crate::server::jobs::Jobs;

/// Trackers that go on without a process in one step.
const SLICE: usize = 64;

/// A process that will not arrive at trackers that wait for it.
#[derive(Debug)]
pub struct Loss {
    proc: Proc,
    waiting: VecDeque<TrackerId>,
}

impl Collectives {
    /// A process will not arrive any more: trackers that wait for it fail, or go on without it, some at once and the
    /// others in slices.
    pub fn lose(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc) {
        let named = self.index.named(&proc.nspace);
        let waits = |(id, signature)| self.waiting(signature, id).is_some_and(|tracker| tracker.waits_for(proc));
        let waiting = named.filter(|named| waits(*named)).map(|(id, _)| id).collect();
        self.lose_some(cx, jobs, Loss { proc: proc.clone(), waiting });
    }

    /// More trackers go on without a process, or fail.
    pub fn lose_more(&mut self, cx: &mut Ctx, jobs: &Jobs, number: u64) {
        if let Some(loss) = self.losses.remove(&number) {
            self.lose_some(cx, jobs, loss);
        }
    }

    /// Members that a group has lost will not arrive at its collectives, though processes may have been started anew in
    /// their place.
    pub fn lose_members(&mut self, cx: &mut Ctx, jobs: &Jobs, group: &Nspace, lost: &[Proc]) {
        if lost.is_empty() {
            return;
        }
        let mut steps = Vec::new();
        let goes_on = |tracker: &Tracker| tracker.failed.is_none() && !tracker.constructs(group);
        let is_of_group = |tracker: &Tracker| tracker.group.as_ref() == Some(group) && goes_on(tracker);
        self.change(cx, jobs, group, is_of_group, |cx, tracker| {
            let here = lost.iter().filter(|proc| jobs.runs_here(proc));
            let waits = |tracker: &Tracker, proc: &Proc| tracker.waits_for(proc) && !tracker.excused.contains(proc);
            for proc in here {
                if waits(tracker, proc) {
                    lose_one(cx, jobs, tracker, proc, &mut steps);
                }
                if tracker.failed.is_some() && tracker.signature.contains(proc) {
                    // A process that has taken its place owes nothing to this collective.
                    tracker.arrived.insert(proc, None);
                }
            }
        });
        steps.into_iter().for_each(|step| self.step(cx, step));
    }

    fn lose_some(&mut self, cx: &mut Ctx, jobs: &Jobs, mut loss: Loss) {
        let (mut steps, proc) = (Vec::new(), loss.proc.clone());
        let some: Vec<TrackerId> = loss.waiting.drain(..loss.waiting.len().min(SLICE)).collect();
        let waits = |tracker: &Tracker| tracker.waits_for(&proc);
        self.change_these(cx, jobs, some, waits, |cx, tracker| lose_one(cx, jobs, tracker, &proc, &mut steps));
        steps.into_iter().for_each(|step| self.step(cx, step));
        if !loss.waiting.is_empty() {
            self.last += 1;
            self.losses.insert(self.last, loss);
            cx.slice(Slice::Loss(self.last));
        }
    }
}

/// A process will not arrive at a tracker that waits for it.
pub fn lose_one(cx: &mut Ctx, jobs: &Jobs, tracker: &mut Tracker, proc: &Proc, steps: &mut Vec<Step>) {
    if tracker.failed.is_none() && tracker.on_loss != OnLoss::Fail {
        let is_news = tracker.excused.insert(proc.clone());
        if is_news && tracker.on_loss == OnLoss::ExcuseAndHold {
            tracker.held = true;
            steps.push(Step::Excused(tracker.id, proc.clone()));
        }
        return;
    }
    tracker.gone.push(proc.clone());
    if let Operation::Destruct(group) = tracker.signature.operation() {
        steps.push(Step::Lost(group.clone(), tracker.gone.clone()));
    }
    if tracker.failed.is_none() {
        let status = status_of_loss(tracker.signature.operation());
        complete::fail(cx, jobs, tracker, status, &format!("{proc} is gone"));
    }
}

/// The answer to those who have arrived when somebody cannot arrive any more.
pub fn status_of_loss(operation: &Operation) -> Status {
    match operation {
        Operation::Fence | Operation::Connect | Operation::Disconnect => Status::ERR_PARTIAL_SUCCESS,
        Operation::Construct(_) | Operation::Destruct(_) => Status::ERR_PROC_TERM_WO_SYNC,
    }
}
