//! Questions and wishes of ranks and tools: each is answered when it is its process's [turn](super::pace).
use std::time::Instant;

use instanton::data::{Proc, Status};
use instanton::internal::sys::process;

use super::running::Running;
use crate::control::{Action, Request};
use crate::event::{Asked, Question};
use crate::server::Pmix;

impl Running {
    /// Answers a question, now or when its turn has come.
    pub(super) fn question(&mut self, question: Question, pmix: &Pmix) {
        let (by, made) = (question.by.clone(), question.made);
        let ancestor = self.jobs.ancestor(&by).clone();
        if let Some(question) = self.questions.come(ancestor, by, question, made, Instant::now()) {
            self.answer(question, pmix);
        }
    }

    /// Answers questions whose turn has come.
    pub(super) fn answer_what_is_due(&mut self, now: Instant, pmix: &Pmix) {
        while let Some(question) = self.questions.due(now) {
            self.answer(question, pmix);
        }
    }

    /// A process is gone: nobody wants to know what it has asked.
    pub(super) fn questions_of_nobody(&mut self, proc: &Proc) {
        drop(self.questions.gone(proc));
    }

    fn answer(&mut self, Question { by, what, .. }: Question, pmix: &Pmix) {
        let begin = process::thread_time();
        match what {
            Asked::Query(request) => request.answer(&self.jobs, &self.allocations, self.until),
            Asked::Control(Request { targets, action: Action::Checkpoint(name), done, .. }) => {
                let targets = targets.unwrap_or_default();
                let known = self.jobs.named(&targets);
                let told = known.map(|_| pmix.checkpoint(targets.into_iter().collect(), &name));
                done.complete(told.map(|()| (Status::SUCCESS, Vec::new())));
            }
            Asked::Control(request) => self.control(request),
            Asked::Measure(request) => request.answer(&self.jobs),
            // Nobody would give back what one holds whose job is over.
            Asked::Allocation(request) if !pmix.knows(&by) => request.done.complete(Err(Status::ERR_UNREACH)),
            Asked::Allocation(request) => {
                let free = u64::from(self.jobs.free_slots());
                self.allocations.answer(request, &self.jobs.first().nodes, free);
            }
        }
        let took = process::thread_time().saturating_sub(begin);
        self.questions.answered(self.jobs.ancestor(&by), took, Instant::now());
    }
}
