//! Lingering segments: nothing refers to them any more, and some process has them mapped all the same.
//!
//! A reader lets go of segments that were replaced when it maps newer ones. One that never does keeps their memory, and
//! so does whoever it has given them to. The kernel alone knows: so they stay charged to their job until it says that
//! nobody has them any more. The memory that small segments of a large set take beside the others is not counted.
use std::collections::VecDeque;
use std::sync::Arc;

use super::heap::SegmentSet;
use crate::store::budget::Charge;
use crate::sys::memory::Watch;

/// Most sets that are watched one by one. Sets that linger beyond that count until the last of them is gone.
const MOST: usize = 64;
/// Sets that one look asks about.
const AT_ONCE: usize = 4;
/// Part of a set's bytes from which on a segment is watched.
const PART: u64 = 8;

/// A set of segments that was replaced.
struct Set {
    watches: Vec<Watch>,
    charges: Vec<Arc<Charge>>,
}

/// Sets of a job that linger, or did so when they were looked at last.
#[derive(Default)]
pub(in crate::store) struct Lingering(VecDeque<Set>);

impl Lingering {
    /// Adds a set that nobody needs.
    pub(in crate::store) fn add(&mut self, set: SegmentSet) {
        let least = set.bytes() / PART;
        let mut added = Set { watches: Vec::new(), charges: Vec::new() };
        for segment in set.segments.iter().filter(|segment| segment.memory.len() >= least) {
            // Where it cannot be watched, nobody knows.
            if let Ok(watch) = Watch::new(&segment.memory.fd) {
                added.watches.push(watch);
                added.charges.push(segment.memory.charge.clone());
            }
        }
        drop(set);
        added.watches.retain(Watch::is_held);
        let are_many = self.0.len() >= MOST;
        match self.0.back_mut().filter(|_| are_many) {
            _ if added.watches.is_empty() => {}
            Some(last) => {
                last.watches = added.watches;
                last.charges.append(&mut added.charges);
            }
            None => self.0.push_back(added),
        }
    }

    /// Looks at some of them, and forgets those that nobody has any more.
    pub(in crate::store) fn look(&mut self) {
        for _ in 0..self.0.len().min(AT_ONCE) {
            let Some(mut set) = self.0.pop_front() else { return };
            set.watches.retain(Watch::is_held);
            if !set.watches.is_empty() {
                self.0.push_back(set);
            }
        }
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
