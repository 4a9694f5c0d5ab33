//! Memory of meetings, for those who come late: so much of each job, and the oldest is forgotten first.
//!
//! Somebody may come at any time, so nobody can say when something is of no use any more; a rank that meets others under
//! ever new names would have the launcher remember without end. Facts about one job alone have room of their own, and
//! all facts about several jobs have room together: so a job can have nothing forgotten that is about others alone.
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use instanton::data::{Nspace, Proc};

/// Most bytes that are remembered of one kind about a job.
pub const MOST: usize = if cfg!(test) { 256 << 10 } else { 4 << 20 };

/// The job that something is about; none where it is about several.
pub type About = Option<Nspace>;

/// Returns the job of all these processes.
pub fn about(procs: &[Proc]) -> About {
    let first = &procs.first()?.nspace;
    procs.iter().all(|proc| proc.nspace == *first).then(|| first.clone())
}

struct Entry<V> {
    about: About,
    number: u64,
    bytes: usize,
    value: V,
}

/// The entries about a job, in the order in which they have come.
struct Room<K> {
    order: BTreeMap<u64, K>,
    bytes: usize,
}

/// Entries of one kind.
pub struct Remembered<K, V> {
    entries: HashMap<K, Entry<V>>,
    rooms: HashMap<About, Room<K>>,
    last: u64,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), rooms: HashMap::new(), last: 0 }
    }
}

impl<K: Clone + Eq + Hash, V> Remembered<K, V> {
    /// The value of an entry.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Changes the value of an entry, which is made if there is none, and says how many bytes it has. Returns what is
    /// forgotten for that.
    pub fn put(&mut self, about: About, key: &K, change: impl FnOnce(Option<V>) -> (V, usize)) -> Vec<K> {
        let before = self.remove_entry(key);
        let number = before.as_ref().map_or_else(|| self.next(), |before| before.number);
        let (value, bytes) = change(before.map(|before| before.value));
        let room = self.rooms.entry(about.clone()).or_insert_with(|| Room { order: BTreeMap::new(), bytes: 0 });
        room.bytes += bytes;
        room.order.insert(number, key.clone());
        self.entries.insert(key.clone(), Entry { about: about.clone(), number, bytes, value });
        let mut forgotten = Vec::new();
        while let Some(room) = self.rooms.get(&about).filter(|room| room.bytes > MOST)
            && let Some((_, oldest)) = room.order.first_key_value().map(|(number, key)| (*number, key.clone()))
        {
            self.remove_entry(&oldest);
            forgotten.push(oldest);
        }
        forgotten
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Forgets an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.remove_entry(key).map(|entry| entry.value)
    }

    fn remove_entry(&mut self, key: &K) -> Option<Entry<V>> {
        let entry = self.entries.remove(key)?;
        if let Some(room) = self.rooms.get_mut(&entry.about) {
            room.bytes -= entry.bytes;
            room.order.remove(&entry.number);
            if room.order.is_empty() {
                self.rooms.remove(&entry.about);
            }
        }
        Some(entry)
    }

    /// Forgets those that `stays` does not want. A value may be less afterwards, and counts as before.
    pub fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) {
        let gone =
            self.entries.iter_mut().filter_map(|(key, entry)| (!stays(key, &mut entry.value)).then(|| key.clone()));
        let gone: Vec<K> = gone.collect();
        gone.iter().for_each(|key| _ = self.remove(key));
    }

    /// Number of entries.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use instanton::data::Rank;

    use super::*;

    fn nspace(name: &str) -> Nspace {
        Nspace::new(name).unwrap()
    }

    #[test]
    fn the_oldest_of_a_job_is_forgotten_and_nothing_of_another() {
        let mut known = Remembered::<u32, usize>::default();
        let put = |known: &mut Remembered<u32, usize>, job, key, bytes| {
            known.put(Some(nspace(job)), &key, |before| (before.unwrap_or(0) + 1, bytes))
        };
        assert!(put(&mut known, "other", 1, MOST).is_empty());
        assert!(put(&mut known, "job", 2, MOST / 2).is_empty());
        assert!(put(&mut known, "job", 3, MOST / 2).is_empty());
        assert!(put(&mut known, "job", 2, MOST / 2).is_empty(), "it is there already");
        assert_eq!((known.get(&1), known.get(&2), known.get(&3)), (Some(&1), Some(&2), Some(&1)));
        assert_eq!(put(&mut known, "job", 4, 1), [2]);
        assert_eq!((known.remove(&3), known.remove(&3), known.len()), (Some(1), None, 2));
        assert!(put(&mut known, "job", 5, MOST - 1).is_empty());
        known.retain(|key, _| *key == 1);
        assert_eq!((known.len(), known.rooms.len()), (1, 1));
    }

    #[test]
    fn one_job_is_meant_where_all_processes_are_of_it() {
        let proc = |job: &str, rank| Proc::new(nspace(job), Rank(rank));
        assert_eq!(about(&[proc("a", 0), proc("a", 1)]), Some(nspace("a")));
        assert_eq!(about(&[proc("a", 0), proc("b", 0)]), None);
    }
}
