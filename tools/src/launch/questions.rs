//! Questions of ranks and tools: each is answered when it is its process's [turn](super::pace).
use std::time::Instant;

use instanton::data::Proc;
use instanton::internal::sys::process;

use super::running::Running;
use crate::event::{Asked, Question};

impl Running {
    /// Answers a question, now or when its turn has come.
    pub(super) fn question(&mut self, question: Question) {
        let (by, made) = (question.by.clone(), question.made);
        let ancestor = self.jobs.ancestor(&by).clone();
        if let Some(question) = self.questions.come(ancestor, by, question, made, Instant::now()) {
            self.answer(question);
        }
    }

    /// Answers questions whose turn has come.
    pub(super) fn answer_what_is_due(&mut self, now: Instant) {
        while let Some(question) = self.questions.due(now) {
            self.answer(question);
        }
    }

    /// A process is gone: nobody wants to know what it has asked.
    pub(super) fn questions_of_nobody(&mut self, proc: &Proc) {
        drop(self.questions.gone(proc));
    }

    fn answer(&mut self, Question { by, what, .. }: Question) {
        let begin = process::thread_time();
        match what {
            Asked::Query(request) => request.answer(&self.jobs, &self.allocations, self.until),
            Asked::Measure(request) => request.answer(&self.jobs),
            Asked::Allocation(request) => {
                let free = u64::from(self.jobs.free_slots());
                self.allocations.answer(request, &self.jobs.first().nodes[0], free);
            }
        }
        let took = process::thread_time().saturating_sub(begin);
        self.questions.answered(self.jobs.ancestor(&by), took, Instant::now());
    }
}
