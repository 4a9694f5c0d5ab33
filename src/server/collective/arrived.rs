//! Participants that have arrived at a collective, and the requests that wait for its end.
//!
//! Most collectives are of one namespace, and each of its processes arrives once: its name is kept once, and a
//! rank found by its number.
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::data::{Nspace, Proc, Rank};
use crate::message::door::PeerId;
use crate::server::ctx::peers::Caller;

/// A participant that waits for the end of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The request to answer.
    pub caller: Caller,
    /// Count of releases that it saw at its job's word, if that is where it waits.
    pub seen: Option<u32>,
}

impl Waiter {
    /// Waiter for an answer.
    pub fn of(caller: Caller) -> Self {
        Waiter { caller, seen: None }
    }
}

/// Processes that have arrived, in the order of their names.
#[derive(Debug, Default)]
pub struct Arrived {
    /// Requests to answer; none for those that were answered, or for processes that were excused.
    by_name: BTreeMap<Nspace, BTreeMap<Rank, Option<Waiter>>>,
    len: usize,
}

impl Arrived {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn contains(&self, proc: &Proc) -> bool {
        self.by_name.get(&proc.nspace).is_some_and(|ranks| ranks.contains_key(&proc.rank))
    }

    /// Adds a process, unless it has arrived; returns whether it had not.
    pub fn insert(&mut self, proc: &Proc, waiter: Option<Waiter>) -> bool {
        let Some(ranks) = self.by_name.get_mut(&proc.nspace) else {
            self.by_name.insert(proc.nspace.clone(), BTreeMap::from([(proc.rank, waiter)]));
            self.len += 1;
            return true;
        };
        match ranks.entry(proc.rank) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(waiter);
                self.len += 1;
                true
            }
        }
    }

    /// Takes the request of a process that has arrived: it is answered elsewhere.
    pub fn take(&mut self, proc: &Proc) -> Option<Waiter> {
        self.by_name.get_mut(&proc.nspace)?.get_mut(&proc.rank)?.take()
    }

    /// The processes that have arrived.
    pub fn procs(&self) -> impl Iterator<Item = Proc> {
        self.by_name.iter().flat_map(|(nspace, ranks)| ranks.keys().map(|rank| Proc::new(nspace.clone(), *rank)))
    }

    /// The ranks of one namespace that have arrived, with their requests.
    pub fn of(&self, nspace: &Nspace) -> impl Iterator<Item = (Rank, Option<&Waiter>)> {
        let ranks = self.by_name.get(nspace).into_iter().flatten();
        ranks.map(|(rank, waiter)| (*rank, waiter.as_ref()))
    }

    /// The peers that wait.
    pub fn peers(&self) -> Vec<PeerId> {
        self.by_name.values().flat_map(BTreeMap::values).flatten().map(|waiter| waiter.caller.peer).collect()
    }

    /// One of the peers that wait for each namespace.
    pub fn one_of_each(&self) -> Vec<PeerId> {
        let first = |ranks: &BTreeMap<Rank, Option<Waiter>>| ranks.values().flatten().next().map(|of| of.caller.peer);
        self.by_name.values().filter_map(first).collect()
    }

    /// The request of each process that has arrived.
    pub fn waiters(&mut self) -> impl Iterator<Item = &mut Option<Waiter>> {
        self.by_name.values_mut().flat_map(BTreeMap::values_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrives_once_and_in_order() {
        let proc = |nspace: &str, rank| Proc::new(Nspace::new(nspace).unwrap(), Rank(rank));
        let mut arrived = Arrived::default();
        for (come, is_new) in [(proc("b", 1), true), (proc("b", 0), true), (proc("a", 7), true), (proc("b", 1), false)]
        {
            assert_eq!(arrived.contains(&come), !is_new);
            assert_eq!(arrived.insert(&come, None), is_new);
            assert!(arrived.contains(&come));
        }
        assert_eq!(arrived.procs().collect::<Vec<_>>(), [proc("a", 7), proc("b", 0), proc("b", 1)]);
        assert_eq!((arrived.len(), arrived.waiters().count()), (3, 3));
        assert_eq!(arrived.of(&proc("b", 0).nspace).count(), 2);
        assert_eq!(arrived.of(&proc("c", 0).nspace).count(), 0);
    }
}
