//! Waiters: requests that wait until a process of the node puts an attribute under their key.
//!
//! A process has a bounded number of them over all its connections, and keys of which something was put have turns, so
//! that thousands that wait for one keep nobody else waiting.
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::data::{Key, Nspace};
use crate::message::numbers::NumberMap;
use crate::transport::shares::Owner;

/// Most waiters of a process.
pub const MOST: usize = 4096;
/// Waiters that are woken in one step.
pub const WOKEN: usize = 64;

/// An attribute: the job whose processes put it, and its key.
type Attribute = Arc<(Nspace, Key)>;
/// A request: its connection, and its number there.
type Waiter = (u64, u64);

/// Waiters of a connection, with what they wait for until they are woken or it is closed.
struct Waiting {
    owner: Owner,
    waits: BTreeMap<u64, Attribute>,
}

/// All waiters of a door.
#[derive(Default)]
pub struct Waiters {
    by_attribute: HashMap<Attribute, BTreeSet<Waiter>>,
    by_connection: NumberMap<u64, Waiting>,
    /// Number of those of each process.
    counts: NumberMap<Owner, usize>,
    /// Waiters whose attributes were put, by attribute. Some may have left meanwhile.
    due: VecDeque<BTreeSet<Waiter>>,
}

impl Waiters {
    /// Has a request of a process wait. Returns false where the process has too many that do.
    #[must_use]
    pub fn wait(&mut self, owner: Owner, (connection, number): Waiter, nspace: Nspace, key: Key) -> bool {
        let count = self.counts.entry(owner).or_default();
        if *count >= MOST {
            return false;
        }
        *count += 1;
        let wanted = (nspace, key);
        let attribute = self.by_attribute.get_key_value(&wanted).map(|(known, _)| known.clone());
        let attribute = attribute.unwrap_or_else(|| Arc::new(wanted));
        let waiting = self.by_connection.entry(connection).or_insert_with(|| Waiting { owner, waits: BTreeMap::new() });
        waiting.waits.insert(number, attribute.clone());
        self.by_attribute.entry(attribute).or_default().insert((connection, number));
        true
    }

    /// An attribute was put: whoever waits for it is [due](Self::next_due).
    pub fn put(&mut self, nspace: Nspace, key: Key) {
        self.due.extend(self.by_attribute.remove(&(nspace, key)));
    }

    /// Returns whether somebody is due.
    pub fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes out some who are due, for one attribute. The next time it is another one's turn.
    pub fn next_due(&mut self) -> Vec<Waiter> {
        let Some(mut due) = self.due.pop_front() else { return Vec::new() };
        let some: Vec<Waiter> = std::iter::from_fn(|| due.pop_first()).take(WOKEN).collect();
        if !due.is_empty() {
            self.due.push_back(due);
        }
        some.into_iter().filter(|waiter| self.wake(*waiter)).collect()
    }

    /// Returns whether a waiter was still there.
    fn wake(&mut self, (connection, number): Waiter) -> bool {
        let Some(waiting) = self.by_connection.get_mut(&connection) else { return false };
        let (owner, was_there) = (waiting.owner, waiting.waits.remove(&number).is_some());
        if waiting.waits.is_empty() {
            self.by_connection.remove(&connection);
        }
        self.discount(owner, usize::from(was_there));
        was_there
    }

    /// Forgets the waiters of a connection, and looks at no others.
    pub fn leave(&mut self, connection: u64) {
        let Some(Waiting { owner, waits }) = self.by_connection.remove(&connection) else { return };
        self.discount(owner, waits.len());
        for (number, attribute) in waits {
            // Those who are due are not there any more.
            let Some(waiting) = self.by_attribute.get_mut(&attribute) else { continue };
            waiting.remove(&(connection, number));
            if waiting.is_empty() {
                self.by_attribute.remove(&attribute);
            }
        }
    }

    fn discount(&mut self, owner: Owner, fewer: usize) {
        if let Some(count) = self.counts.get_mut(&owner) {
            *count -= fewer;
            if *count == 0 {
                self.counts.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nspace() -> Nspace {
        Nspace::new("job").unwrap()
    }

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    fn is_empty(waiters: &Waiters) -> bool {
        waiters.by_attribute.is_empty() && waiters.by_connection.is_empty() && waiters.counts.is_empty()
    }

    #[test]
    fn a_process_has_so_many_waiters_over_all_its_connections() {
        let mut waiters = Waiters::default();
        let mut wait = |owner, connection, number| waiters.wait(owner, (connection, number), nspace(), key("a"));
        assert!((0..MOST as u64).all(|number| wait(1, number % 16, number)));
        assert!(!wait(1, 16, 0) && wait(2, 17, 0), "another process may");
        waiters.leave(3);
        assert!(waiters.wait(1, (16, 0), nspace(), key("b")));
        (0..18).for_each(|connection| waiters.leave(connection));
        assert!(is_empty(&waiters));
    }

    #[test]
    fn those_who_are_due_are_woken_in_slices_and_attributes_have_turns() {
        let mut waiters = Waiters::default();
        let many = 2 * WOKEN as u64 + 1;
        assert!((0..many).all(|number| waiters.wait(1, (1, number), nspace(), key("a"))));
        assert!(waiters.wait(1, (1, many), nspace(), key("b")) && waiters.wait(2, (2, 0), nspace(), key("a")));
        waiters.put(nspace(), key("a"));
        waiters.put(nspace(), key("b"));
        waiters.put(nspace(), key("c"));
        waiters.leave(2);
        let slices: Vec<_> = std::iter::from_fn(|| waiters.are_due().then(|| waiters.next_due().len())).collect();
        assert_eq!(slices, [WOKEN, 1, WOKEN, 1]);
        assert!(is_empty(&waiters));
    }
}
