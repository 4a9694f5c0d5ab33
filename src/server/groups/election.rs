//! Election of a leader in place of one that has died, while a group is being made.
//!
//! The server of the dead leader asks everybody who is to be in the group. Processes of its own node decide by a
//! [vote](super::vote); those of another node answer to their own server, which says for all of them together whether
//! one of them leads. The first that stands leads, and everybody hears who it is.
use std::collections::BTreeSet;

use crate::collect_small::collect_small;
use crate::data::Proc;

/// An election under way, on the node of the leader that has died.
#[derive(Debug)]
pub struct Election {
    dead: Proc,
    candidate: Option<Proc>,
    /// Processes on other nodes that have not been heard.
    unheard: BTreeSet<Proc>,
}

impl Election {
    /// Calls an election; `elsewhere` are the processes of other nodes that are asked.
    pub fn new(dead: &Proc, elsewhere: impl IntoIterator<Item = Proc>) -> Self {
        Election { dead: dead.clone(), candidate: None, unheard: collect_small(elsewhere) }
    }

    /// Returns whether it is for one that is to follow one of these.
    pub fn replaces(&self, dead: &[Proc]) -> bool {
        dead.contains(&self.dead)
    }

    /// Lets a process stand as leader.
    pub fn stand(&mut self, proc: Proc) {
        self.candidate.get_or_insert(proc);
    }

    /// Counts the answer of another server for these processes.
    pub fn hear(&mut self, polled: &[Proc], candidate: Option<&Proc>) {
        polled.iter().for_each(|proc| _ = self.unheard.remove(proc));
        candidate.into_iter().for_each(|proc| self.stand(proc.clone()));
    }

    /// Waits for no other node: they cannot be asked.
    pub fn hear_nobody(&mut self) {
        self.unheard.clear();
    }

    /// Ends an election that is over, once nobody on this node has still to decide. Returns the dead leader, and the
    /// process that leads from now on, if any.
    pub fn end(election: &mut Option<Self>, decided: bool) -> Option<(Proc, Option<Proc>)> {
        let is_over = |election: &mut Self| decided && (election.candidate.is_some() || election.unheard.is_empty());
        election.take_if(is_over).map(|election| (election.dead, election.candidate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Rank};

    #[test]
    fn the_first_that_stands_leads_and_nobody_is_waited_for_then() {
        let proc = |rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank));
        let mut election = Some(Election::new(&proc(0), [proc(1), proc(2), proc(3)]));
        assert_eq!(Election::end(&mut election, true), None, "other nodes have not answered");
        election.as_mut().unwrap().hear(&[proc(1)], None);
        election.as_mut().unwrap().hear(&[proc(2)], Some(&proc(2)));
        election.as_mut().unwrap().stand(proc(3));
        assert_eq!(Election::end(&mut election, false), None, "this node has not decided");
        assert_eq!(Election::end(&mut election, true), Some((proc(0), Some(proc(2)))));
        assert!(election.is_none());
        let mut alone = Some(Election::new(&proc(0), [proc(1)]));
        alone.as_mut().unwrap().hear_nobody();
        assert_eq!(Election::end(&mut alone, true), Some((proc(0), None)));
    }
}
