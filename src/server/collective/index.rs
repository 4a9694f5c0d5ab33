//! Index of the trackers under way: by number, by the names that they have to do with, and by who has begun them.
//!
//! Clean-up and time limits touch the trackers that they mean, however many others there are. Its order is that of the
//! numbers, so what happens to several trackers never depends on a hash.
use std::collections::{BTreeMap, BTreeSet};

use super::signature::Signature;
use super::tracker::Tracker;
use crate::by_number::ByNumber;
use crate::data::{Nspace, Proc};
use crate::server::ctx::ticket::TrackerId;

/// Trackers from the moment they begin until they are answered.
#[derive(Debug, Default)]
pub struct Index {
    signatures: ByNumber<TrackerId, Signature>,
    /// Numbers of those that involve a namespace, or belong to a group of that name.
    by_name: BTreeMap<Nspace, BTreeSet<u64>>,
    /// Number of those that a process has begun.
    begun: BTreeMap<Proc, usize>,
}

impl Index {
    /// Adds a tracker that begins.
    pub fn add(&mut self, tracker: &Tracker) {
        self.signatures.insert(tracker.id, tracker.signature.clone());
        for name in tracker.names() {
            match self.by_name.get_mut(name) {
                Some(numbers) => _ = numbers.insert(tracker.id.0),
                None => _ = self.by_name.entry(name.clone()).or_default().insert(tracker.id.0),
            }
        }
        if let Some(proc) = &tracker.begun_by {
            match self.begun.get_mut(proc) {
                Some(begun) => *begun += 1,
                None => _ = self.begun.insert(proc.clone(), 1),
            }
        }
    }

    /// Takes a tracker out that is over.
    pub fn remove(&mut self, tracker: &Tracker) {
        self.signatures.remove(&tracker.id);
        for name in tracker.names() {
            if let Some(numbers) = self.by_name.get_mut(name) {
                numbers.remove(&tracker.id.0);
                if numbers.is_empty() {
                    self.by_name.remove(name);
                }
            }
        }
        let Some(proc) = &tracker.begun_by else { return };
        match self.begun.get_mut(proc) {
            Some(begun) if *begun > 1 => *begun -= 1,
            _ => _ = self.begun.remove(proc),
        }
    }

    /// The signature of a tracker.
    pub fn signature(&self, id: TrackerId) -> Option<&Signature> {
        self.signatures.get(&id)
    }

    /// All trackers in the order in which they began, each with its signature.
    pub fn all(&self) -> impl Iterator<Item = (TrackerId, &Signature)> {
        self.signatures.iter()
    }

    /// The trackers that involve a namespace or belong to a group of that name, each with its signature.
    pub fn named(&self, name: &Nspace) -> impl Iterator<Item = (TrackerId, &Signature)> {
        let numbers = self.by_name.get(name).into_iter().flatten();
        numbers.filter_map(|number| Some((TrackerId(*number), self.signatures.get(&TrackerId(*number))?)))
    }

    /// Counts the trackers that a process has begun.
    pub fn begun_by(&self, proc: &Proc) -> usize {
        self.begun.get(proc).copied().unwrap_or(0)
    }

    /// Returns whether nothing is under way.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.signatures.is_empty() && self.by_name.is_empty() && self.begun.is_empty()
    }
}
