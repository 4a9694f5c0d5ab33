//! Processes whose data somebody waits for: what they post is told by its keys, and what others post is not.
use std::collections::BTreeMap;

use crate::data::{Proc, Rank};

/// Number of look-ups that wait for each process; those for any process of a namespace stand under `Rank::UNDEF`.
#[derive(Debug, Default)]
pub struct Awaited(BTreeMap<Proc, usize>);

impl Awaited {
    /// Counts a look-up that begins to wait.
    pub fn add(&mut self, proc: &Proc) {
        *self.0.entry(proc.clone()).or_default() += 1;
    }

    /// Counts a look-up that waits no more.
    pub fn remove(&mut self, proc: &Proc) {
        match self.0.get_mut(proc) {
            Some(waiting) if *waiting > 1 => *waiting -= 1,
            _ => _ = self.0.remove(proc),
        }
    }

    /// Returns whether anybody waits for what a process posts.
    pub fn has(&self, proc: &Proc) -> bool {
        let any = || Proc::new(proc.nspace.clone(), Rank::UNDEF);
        !self.0.is_empty() && (self.0.contains_key(proc) || self.0.contains_key(&any()))
    }
}
