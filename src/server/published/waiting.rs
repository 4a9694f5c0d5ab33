//! Look-ups that wait for data to be published, found by their keys, their asker and their deadline.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use super::items::{Found, Items};
use super::lookup::Lookup;
use crate::by_number::ByNumber;
use crate::data::{Key, Nspace, Proc, Rank, Status};
use crate::server::host::{Completion, Published};

/// Most keys that the waiting look-ups of one process name together.
pub const MAX_AWAITED: usize = 8192;

/// Answers of look-ups that are over, to be given when no lock is held.
#[derive(Debug, Default)]
#[must_use]
pub struct Answers(Vec<(Completion<Published>, Result<Found, Status>)>);

impl Answers {
    /// Gives the answers.
    pub fn give(self) {
        self.0.into_iter().for_each(|(done, answer)| match answer {
            Ok(found) => found.give(done),
            Err(status) => done.complete(Err(status)),
        });
    }
}

/// Look-up that waits.
#[derive(Debug)]
struct Waiting {
    lookup: Lookup,
    deadline: Option<Instant>,
    done: Completion<Published>,
}

/// The waiting look-ups of one process.
#[derive(Debug, Default)]
struct OfAsker {
    numbers: BTreeSet<u64>,
    /// Keys that they name together.
    keys: usize,
}

/// Look-ups that wait, by number: the longest waiting first.
#[derive(Debug, Default)]
pub struct WaitList {
    waiting: ByNumber<u64, Waiting>,
    by_key: HashMap<Key, BTreeSet<u64>>,
    by_asker: BTreeMap<Proc, OfAsker>,
    deadlines: BTreeSet<(Instant, u64)>,
    last: u64,
}

impl WaitList {
    /// Returns whether a look-up may wait beside the others of its asker.
    pub fn has_room_for(&self, lookup: &Lookup) -> bool {
        let awaited = self.by_asker.get(&lookup.asker.proc).map_or(0, |of| of.keys);
        awaited + lookup.keys.len() <= MAX_AWAITED
    }

    /// Lets a look-up wait.
    pub fn add(&mut self, lookup: Lookup, deadline: Option<Instant>, done: Completion<Published>) {
        self.last += 1;
        let number = self.last;
        for key in lookup.keys.iter().flatten() {
            self.by_key.entry(key.clone()).or_default().insert(number);
        }
        let of_asker = self.by_asker.entry(lookup.asker.proc.clone()).or_default();
        of_asker.numbers.insert(number);
        of_asker.keys += lookup.keys.len();
        self.deadlines.extend(deadline.map(|deadline| (deadline, number)));
        self.waiting.insert(number, Waiting { lookup, deadline, done });
    }

    /// Takes out the look-ups that have enough now that these keys were published, the longest waiting first.
    pub fn answer(&mut self, items: &mut Items, published: &[Key]) -> Answers {
        let numbers: BTreeSet<u64> =
            published.iter().filter_map(|key| self.by_key.get(key)).flatten().copied().collect();
        let mut answers = Vec::new();
        for number in numbers {
            let answer = self.waiting.get(&number).and_then(|waiting| items.answer(&waiting.lookup));
            if let Some(answer) = answer {
                answers.extend(self.take(number).map(|waiting| (waiting.done, answer)));
            }
        }
        Answers(answers)
    }

    /// Forgets the look-ups of a process that is gone.
    pub fn forget(&mut self, asker: &Proc) {
        for number in self.by_asker.get(asker).map(|of| of.numbers.clone()).unwrap_or_default() {
            self.take(number);
        }
    }

    /// Forgets the look-ups of all processes of a namespace.
    pub fn forget_job(&mut self, nspace: &Nspace) {
        let of_job = self.by_asker.range(Proc::new(nspace.clone(), Rank(0))..).map(|(asker, _)| asker);
        let askers: Vec<Proc> = of_job.take_while(|asker| asker.nspace == *nspace).cloned().collect();
        askers.iter().for_each(|asker| self.forget(asker));
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes out the look-ups whose deadline has passed.
    pub fn expire(&mut self, now: Instant) -> Answers {
        let mut late = Vec::new();
        while let Some((deadline, number)) = self.deadlines.first().copied()
            && deadline <= now
        {
            late.extend(self.take(number).map(|waiting| (waiting.done, Err(Status::ERR_TIMEOUT))));
        }
        Answers(late)
    }

    /// Takes a look-up out of everything that leads to it.
    fn take(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        for key in waiting.lookup.keys.iter().flatten() {
            if let Some(numbers) = self.by_key.get_mut(key) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
        let asker = &waiting.lookup.asker.proc;
        if let Some(of_asker) = self.by_asker.get_mut(asker) {
            of_asker.numbers.remove(&number);
            of_asker.keys -= waiting.lookup.keys.len();
            if of_asker.numbers.is_empty() {
                self.by_asker.remove(asker);
            }
        }
        if let Some(deadline) = waiting.deadline {
            self.deadlines.remove(&(deadline, number));
        }
        Some(waiting)
    }

    /// Returns true when no look-up waits, and nothing leads to one.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let WaitList { waiting, by_key, by_asker, deadlines, .. } = self;
        waiting.is_empty() && by_key.is_empty() && by_asker.is_empty() && deadlines.is_empty()
    }
}
