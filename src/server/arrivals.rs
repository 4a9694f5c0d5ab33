//! Who has come to a meeting, and whom to tell how it ends.
//!
//! Most meetings are of one namespace, and each of its processes comes once: its name is kept once, and a rank found by its number.
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::fence::Caller;
use crate::data::{Nspace, Proc, Rank};

/// Processes that have come, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Whom to tell; nobody for those who have been told, or were excused.
    by_name: BTreeMap<Nspace, BTreeMap<Rank, Option<Caller>>>,
    len: usize,
}

impl Arrivals {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, proc: &Proc) -> bool {
        self.by_name.get(&proc.nspace).is_some_and(|ranks| ranks.contains_key(&proc.rank))
    }

    /// Lets a process come, unless it has; says whether it had not.
    pub(super) fn insert(&mut self, proc: &Proc, caller: Option<Caller>) -> bool {
        let Some(ranks) = self.by_name.get_mut(&proc.nspace) else {
            self.by_name.insert(proc.nspace.clone(), BTreeMap::from([(proc.rank, caller)]));
            self.len += 1;
            return true;
        };
        match ranks.entry(proc.rank) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(caller);
                self.len += 1;
                true
            }
        }
    }

    /// Whom to tell of one who has come; nobody is told any more.
    pub(super) fn take(&mut self, proc: &Proc) -> Option<Caller> {
        self.by_name.get_mut(&proc.nspace)?.get_mut(&proc.rank)?.take()
    }

    /// Who has come.
    pub(super) fn procs(&self) -> impl Iterator<Item = Proc> {
        self.by_name.iter().flat_map(|(nspace, ranks)| ranks.keys().map(|rank| Proc::new(nspace.clone(), *rank)))
    }

    /// Who of one namespace has come, and whom to tell.
    pub(super) fn of(&self, nspace: &Nspace) -> impl Iterator<Item = (Rank, Option<&Caller>)> {
        let ranks = self.by_name.get(nspace).into_iter().flatten();
        ranks.map(|(rank, caller)| (*rank, caller.as_ref()))
    }

    /// Whom to tell of each who has come.
    pub(super) fn callers(&mut self) -> impl Iterator<Item = &mut Option<Caller>> {
        self.by_name.values_mut().flat_map(BTreeMap::values_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_once_and_in_order() {
        let proc = |nspace: &str, rank| Proc::new(Nspace::new(nspace).unwrap(), Rank(rank));
        let mut arrivals = Arrivals::default();
        for (come, is_new) in [(proc("b", 1), true), (proc("b", 0), true), (proc("a", 7), true), (proc("b", 1), false)]
        {
            assert_eq!(arrivals.contains(&come), !is_new);
            assert_eq!(arrivals.insert(&come, None), is_new);
            assert!(arrivals.contains(&come));
        }
        assert_eq!(arrivals.procs().collect::<Vec<_>>(), [proc("a", 7), proc("b", 0), proc("b", 1)]);
        assert_eq!((arrivals.len(), arrivals.callers().count()), (3, 3));
        assert_eq!(arrivals.of(&proc("b", 0).nspace).count(), 2);
        assert_eq!(arrivals.of(&proc("c", 0).nspace).count(), 0);
    }
}
