//! Requests of other nodes' servers for what processes here have posted (direct modex).
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::take_where::take_where;
use crate::data::{Info, Nspace, Proc, Status};
use crate::server::collective::exchange::posted_blob;
use crate::server::ctx::timers::{Deadline, TimerId, time_limit};
use crate::server::ctx::{Ctx, Done};
use crate::server::jobs::Jobs;
use crate::trace;

/// A request that waits until the process has posted.
struct Wait {
    proc: Proc,
    done: Done<Vec<u8>>,
    deadline: Option<TimerId>,
}

/// All requests that wait.
#[derive(Default)]
pub struct DirectModex {
    waiting: BTreeMap<u64, Wait>,
    last: u64,
}

impl DirectModex {
    /// Another node's server asks for what a process here has posted; the answer waits until there is something. A
    /// namespace that is not registered here may be soon: that node was quicker. One that was, and is over, will not
    /// be.
    pub fn request(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: Proc, info: &[Info], done: Done<Vec<u8>>) {
        if jobs.is_over(&proc.nspace) {
            trace!("another node asks for what {proc} had posted in a job that is over");
            return cx.finish(done, Err(Status::ERR_NOT_FOUND));
        }
        let limit = time_limit(info).flatten();
        let limit = match jobs.store(&proc.nspace) {
            Some(_) => limit,
            None => Some(cx.config.host_answer_deadline.min(limit.unwrap_or(Duration::MAX))),
        };
        self.last += 1;
        let deadline = limit.map(|limit| cx.set_deadline(limit, Deadline::DirectModex(self.last)));
        self.waiting.insert(self.last, Wait { proc: proc.clone(), done, deadline });
        self.look(cx, jobs, &proc);
    }

    /// Answers about a process as far as that can be done now.
    pub fn look(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc) {
        if self.waiting.values().all(|wait| wait.proc != *proc) {
            return;
        }
        let Some(store) = jobs.store(&proc.nspace) else { return };
        let remote = jobs.is_remote(proc);
        if !remote && store.has_posted(proc.rank) {
            let blob = posted_blob(cx, jobs, proc);
            self.end(cx, &blob, |wanted| wanted == proc);
        } else if remote || jobs.is_done(proc) {
            trace!("another node asks for what {proc} has posted, which does not run here any more, or never has");
            self.end(cx, &Err(Status::ERR_NOT_FOUND), |wanted| wanted == proc);
        }
    }

    /// Answers about the processes of a namespace that has new information.
    pub fn look_at_job(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        let waiting = self.waiting.values().map(|wait| wait.proc.clone());
        let procs: HashSet<Proc> = waiting.filter(|proc| proc.nspace == *nspace).collect();
        procs.iter().for_each(|proc| self.look(cx, jobs, proc));
    }

    /// Gives all requests for certain processes an answer.
    pub fn end(&mut self, cx: &mut Ctx, answer: &Result<Vec<u8>, Status>, is_meant: impl Fn(&Proc) -> bool) {
        for wait in take_where(&mut self.waiting, |wait| is_meant(&wait.proc)) {
            cx.timers.cancel(wait.deadline);
            cx.finish(wait.done, answer.clone());
        }
    }

    /// The time limit of a request has run out.
    pub fn expired(&mut self, cx: &mut Ctx, number: u64) {
        if let Some(wait) = self.waiting.remove(&number) {
            trace!("another node has waited in vain for {} to post", wait.proc);
            cx.finish(wait.done, Err(Status::ERR_TIMEOUT));
        }
    }
}
