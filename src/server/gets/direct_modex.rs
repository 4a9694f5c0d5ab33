//! Requests of other nodes' servers for what processes here have posted (direct modex).
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::data::{Info, InfoList, Nspace, Proc, Rank, Status};
use crate::server::collective::exchange::posted_blob;
use crate::server::ctx::timers::{Deadline, TimerId};
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
    by_proc: BTreeMap<Proc, BTreeSet<u64>>,
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
        let limit = info.time_limit().flatten();
        let limit = match jobs.store(&proc.nspace) {
            Some(_) => limit,
            None => Some(cx.config.host_answer_deadline.min(limit.unwrap_or(Duration::MAX))),
        };
        self.last += 1;
        let deadline = limit.map(|limit| cx.set_deadline(limit, Deadline::DirectModex(self.last)));
        self.by_proc.entry(proc.clone()).or_default().insert(self.last);
        self.waiting.insert(self.last, Wait { proc: proc.clone(), done, deadline });
        self.look(cx, jobs, &proc);
    }

    /// Answers about a process as far as that can be done now.
    pub fn look(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc) {
        if !self.by_proc.contains_key(proc) {
            return;
        }
        let Some(store) = jobs.store(&proc.nspace) else { return };
        let remote = jobs.is_remote(proc);
        if !remote && store.has_posted(proc.rank) {
            let blob = posted_blob(cx, jobs, proc);
            self.end(cx, &blob, proc);
        } else if remote || jobs.is_done(proc) {
            trace!("another node asks for what {proc} has posted, which does not run here any more, or never has");
            self.end(cx, &Err(Status::ERR_NOT_FOUND), proc);
        }
    }

    /// Answers about the processes of a namespace that has new information.
    pub fn look_at_job(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        self.procs_of(nspace).iter().for_each(|proc| self.look(cx, jobs, proc));
    }

    fn procs_of(&self, nspace: &Nspace) -> Vec<Proc> {
        let of_job = self.by_proc.range(Proc::new(nspace.clone(), Rank(0))..).map(|(proc, _)| proc);
        of_job.take_while(|proc| proc.nspace == *nspace).cloned().collect()
    }

    /// Gives all requests for a process an answer.
    pub fn end(&mut self, cx: &mut Ctx, answer: &Result<Vec<u8>, Status>, proc: &Proc) {
        for number in self.by_proc.remove(proc).unwrap_or_default() {
            if let Some(wait) = self.waiting.remove(&number) {
                cx.timers.cancel(wait.deadline);
                cx.finish(wait.done, answer.clone());
            }
        }
    }

    /// Gives all requests for processes of a namespace an answer.
    pub fn end_job(&mut self, cx: &mut Ctx, answer: &Result<Vec<u8>, Status>, nspace: &Nspace) {
        self.procs_of(nspace).iter().for_each(|proc| self.end(cx, answer, proc));
    }

    /// Returns the number of requests that wait.
    pub fn open(&self) -> usize {
        self.waiting.len() + self.by_proc.len()
    }

    /// Gives every request an answer.
    pub fn end_everything(&mut self, cx: &mut Ctx, answer: &Result<Vec<u8>, Status>) {
        while let Some(proc) = self.by_proc.keys().next().cloned() {
            self.end(cx, answer, &proc);
        }
    }

    /// The time limit of a request has run out.
    pub fn expired(&mut self, cx: &mut Ctx, number: u64) {
        if let Some(wait) = self.waiting.remove(&number) {
            trace!("another node has waited in vain for {} to post", wait.proc);
            super::forget(&mut self.by_proc, &wait.proc, number);
            cx.finish(wait.done, Err(Status::ERR_TIMEOUT));
        }
    }
}
