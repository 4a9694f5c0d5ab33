//! Loss of a participant before it has arrived, and what becomes of who waits for it.
use super::complete;
use super::signature::Operation;
use super::tracker::{OnLoss, Step, Tracker};
use crate::data::{Proc, Status};
use crate::server::ctx::Ctx;
use crate::server::jobs::Jobs;

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
