//! Look-ups that wait for data to be published.
use std::time::Instant;

use super::items::Items;
use super::lookup::Lookup;
use crate::data::{Proc, Status};
use crate::server::host::{Completion, Published};

/// Most look-ups that wait at a time.
const MAX_WAITING: usize = 65536;

/// Answers of look-ups that are over, to be given when no lock is held.
#[derive(Debug, Default)]
#[must_use]
pub struct Answers(Vec<(Completion<Published>, Result<Published, Status>)>);

impl Answers {
    /// Gives the answers.
    pub fn give(self) {
        self.0.into_iter().for_each(|(done, answer)| done.complete(answer));
    }
}

/// Look-up that waits.
#[derive(Debug)]
struct Waiting {
    lookup: Lookup,
    deadline: Option<Instant>,
    done: Completion<Published>,
}

/// Look-ups that wait, the longest waiting first.
#[derive(Debug, Default)]
pub struct WaitList(Vec<Waiting>);

impl WaitList {
    /// Returns true when no further look-up may wait.
    pub fn is_full(&self) -> bool {
        self.0.len() >= MAX_WAITING
    }

    /// Lets a look-up wait.
    pub fn add(&mut self, lookup: Lookup, deadline: Option<Instant>, done: Completion<Published>) {
        self.0.push(Waiting { lookup, deadline, done });
    }

    /// Takes out the look-ups that have enough by now, the longest waiting first.
    pub fn answer(&mut self, items: &mut Items) -> Answers {
        let mut answers = Vec::new();
        for waiting in std::mem::take(&mut self.0) {
            match items.answer(&waiting.lookup) {
                Some(found) => answers.push((waiting.done, Ok(found))),
                None => self.0.push(waiting),
            }
        }
        Answers(answers)
    }

    /// Forgets the look-ups of processes that are gone.
    pub fn forget(&mut self, is_gone: impl Fn(&Proc) -> bool) {
        self.0.retain(|waiting| !is_gone(&waiting.lookup.asker.proc));
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(|waiting| waiting.deadline).min()
    }

    /// Takes out the look-ups whose deadline has passed.
    pub fn expire(&mut self, now: Instant) -> Answers {
        let is_over = |waiting: &mut Waiting| waiting.deadline.is_some_and(|deadline| deadline <= now);
        let late = self.0.extract_if(.., is_over).map(|waiting| (waiting.done, Err(Status::ERR_TIMEOUT)));
        Answers(late.collect())
    }

    /// Returns true when no look-up waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
