//! Sets of processes that a peer has named, wildcards among them.
//!
//! A peer names as many as it likes. Membership is one search, and two sets are held against each other in the steps of
//! the smaller one.
use std::collections::BTreeSet;

use crate::data::{Proc, Rank};

/// Processes, and wildcards for all of a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcSet(BTreeSet<Proc>);

impl FromIterator<Proc> for ProcSet {
    fn from_iter<I: IntoIterator<Item = Proc>>(procs: I) -> Self {
        ProcSet(crate::collect_small::collect_small(procs))
    }
}

impl ProcSet {
    /// Counts the names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.0.iter()
    }

    /// Returns whether one of the names stands for this process, or for one that this wildcard stands for
    /// ([`Proc::matches`]).
    pub fn has(&self, proc: &Proc) -> bool {
        if self.0.contains(proc) {
            return true;
        }
        let first = |rank| Proc::new(proc.nspace.clone(), rank);
        match proc.rank {
            Rank::WILDCARD => self.0.range(first(Rank(0))..).next().is_some_and(|named| named.nspace == proc.nspace),
            _ => self.0.contains(&first(Rank::WILDCARD)),
        }
    }

    /// Returns whether a name of the one stands for a process of the other.
    pub fn meets(&self, other: &ProcSet) -> bool {
        let (few, many) = if self.len() < other.len() { (self, other) } else { (other, self) };
        few.iter().any(|proc| many.has(proc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ctx::testing::proc;

    fn set(procs: &[Proc]) -> ProcSet {
        procs.iter().cloned().collect()
    }

    #[test]
    fn a_set_has_what_one_of_its_names_matches() {
        let all = |nspace: &str| Proc::new(proc(nspace, 0).nspace, Rank::WILDCARD);
        let names = [proc("a", 1), all("b"), proc("c", 7)];
        let asked = [proc("a", 0), proc("a", 1), all("a"), proc("b", 9), all("b"), all("c"), proc("d", 1), all("d")];
        for one in &asked {
            assert_eq!(set(&names).has(one), names.iter().any(|name| name.matches(one)), "{one}");
        }
        assert!(set(&names).meets(&set(&[proc("b", 3)])) && set(&[proc("b", 3)]).meets(&set(&names)));
        assert!(!set(&names).meets(&set(&[proc("a", 2), proc("d", 0)])));
    }

    #[test]
    fn sets_of_half_a_million_are_held_against_each_other() {
        // 250,000,000,000 pairs: a comparison of each with each would not end.
        let half = |from: u32| (0..500_000).map(|rank| proc("job", from + rank)).collect::<ProcSet>();
        assert!(!half(0).meets(&half(500_000)));
        assert!(half(0).meets(&half(499_999)));
    }
}
