//! Ties between the jobs of a run: which others end with a job that fails, and who hears of what.
//!
//! A job is tied to the one that has started it: it ends when that one fails, unless it was started as a job apart or
//! of its own (`PMIX_COSPAWN_APP`, `PMIX_SPAWN_CHILD_SEP`). In the other direction a failure goes only where processes
//! have connected (`PMIx_Connect`, as MPI's spawn does): those share one fate until they disconnect.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use instanton::data::{Info, InfoList, Nspace, Proc, Rank, keys};

/// Events that the parent of a job wants to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tells {
    /// The end of the job.
    pub completion: bool,
    /// True if that end is no event where it is a regular one.
    pub is_silent: bool,
    /// Its start and its end.
    pub job_events: bool,
    /// The end of each process.
    pub ends: bool,
    /// The end of each process that fails.
    pub failures: bool,
}

impl Tells {
    /// Reads what is said of a job.
    pub fn read(infos: &[Info]) -> Self {
        Self {
            completion: infos.is_set(keys::NOTIFY_COMPLETION),
            is_silent: infos.is_set(keys::EVENT_SILENT_TERMINATION),
            job_events: infos.is_set(keys::NOTIFY_JOB_EVENTS),
            ends: infos.is_set(keys::NOTIFY_PROC_TERMINATION),
            failures: infos.is_set(keys::NOTIFY_PROC_ABNORMAL_TERMINATION),
        }
    }
}

/// A party, which ends as a whole: fates are shared by parties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    /// A job, by its number.
    Job(u32),
    /// Tools: a namespace that is no job.
    Tools(Nspace),
}

/// Processes that are connected.
#[derive(Debug)]
struct Connection {
    /// The processes as they were named, in order and each once.
    procs: Arc<[Proc]>,
    /// Their jobs and tools that are there still.
    parties: BTreeSet<Party>,
}

/// The connections that something is part of, by their numbers.
#[derive(Debug)]
struct Index<K>(BTreeMap<K, BTreeSet<u64>>);

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Index<K> {
    fn add(&mut self, key: &K, number: u64) {
        self.0.entry(key.clone()).or_default().insert(number);
    }

    fn remove(&mut self, key: &K, number: u64) {
        if let Some(numbers) = self.0.get_mut(key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.0.remove(key);
            }
        }
    }

    fn of(&self, key: &K) -> impl Iterator<Item = u64> {
        self.0.get(key).into_iter().flatten().copied()
    }
}

/// Jobs and tools whose processes are connected. A party that connects with the same ones again has one connection, and
/// each is found by what is part of it. A server bounds how many a job has.
#[derive(Debug, Default)]
pub struct Connections {
    all: BTreeMap<u64, Connection>,
    by_procs: BTreeMap<Arc<[Proc]>, u64>,
    by_proc: Index<Proc>,
    by_party: Index<Party>,
    last: u64,
}

impl Connections {
    /// Processes have connected. `number` is that of a namespace that is a job.
    pub fn connect(&mut self, procs: Vec<Proc>, number: impl Fn(&Nspace) -> Option<u32>) {
        let procs = in_order(procs);
        let party = |nspace: &Nspace| number(nspace).map_or_else(|| Party::Tools(nspace.clone()), Party::Job);
        // Processes of a namespace lie side by side.
        let nspaces = procs.chunk_by(|one, next| one.nspace == next.nspace).map(|of_one| &of_one[0].nspace);
        let parties: BTreeSet<Party> = nspaces.map(party).collect();
        let known = self.by_procs.get(&procs).copied();
        if known.is_some_and(|known| self.all.get(&known).is_some_and(|known| known.parties == parties)) {
            return;
        }
        self.remove(known);
        if parties.len() > 1 {
            self.last += 1;
            procs.iter().for_each(|proc| self.by_proc.add(proc, self.last));
            parties.iter().for_each(|party| self.by_party.add(party, self.last));
            self.by_procs.insert(procs.clone(), self.last);
            self.all.insert(self.last, Connection { procs, parties });
        }
    }

    /// These processes have disconnected.
    pub fn disconnect(&mut self, procs: &[Proc]) {
        self.remove(self.by_procs.get(&in_order(procs.to_vec())).copied());
    }

    fn remove(&mut self, number: Option<u64>) {
        let Some((number, connection)) = number.and_then(|number| self.all.remove_entry(&number)) else { return };
        self.by_procs.remove(&connection.procs);
        connection.procs.iter().for_each(|proc| self.by_proc.remove(proc, number));
        connection.parties.iter().for_each(|party| self.by_party.remove(party, number));
    }

    /// All who are connected with a process, in the names under which they have connected.
    pub fn with(&self, proc: &Proc) -> BTreeSet<&Proc> {
        let all = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
        let numbers = self.by_proc.of(proc).chain(self.by_proc.of(&all));
        numbers.filter_map(|number| self.all.get(&number)).flat_map(|connection| &*connection.procs).collect()
    }

    /// A job is over.
    pub fn forget(&mut self, job: u32) {
        self.over(&Party::Job(job));
    }

    /// The last tool of a namespace is gone.
    pub fn forget_tools(&mut self, nspace: &Nspace) {
        self.over(&Party::Tools(nspace.clone()));
    }

    fn over(&mut self, party: &Party) {
        for number in self.by_party.0.remove(party).unwrap_or_default() {
            let Some(connection) = self.all.get_mut(&number) else { continue };
            connection.parties.remove(party);
            if connection.parties.len() < 2 {
                self.remove(Some(number));
            }
        }
    }

    /// The jobs that are connected with one, itself among them.
    pub fn of(&self, job: u32) -> BTreeSet<u32> {
        let party = Party::Job(job);
        let connections = self.by_party.of(&party).filter_map(|number| self.all.get(&number));
        let number = |party: &Party| if let Party::Job(number) = party { Some(*number) } else { None };
        connections.flat_map(|connection| &connection.parties).filter_map(number).collect()
    }
}

/// Processes in the one form in which those of a connection are compared.
fn in_order(mut procs: Vec<Proc>) -> Arc<[Proc]> {
    procs.sort_unstable();
    procs.dedup();
    procs.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(name: &str) -> Proc {
        Proc::new(Nspace::new(name).unwrap(), Rank(0))
    }

    /// Jobs have letters by their numbers, and tools longer names.
    fn number(nspace: &Nspace) -> Option<u32> {
        if let [letter] = nspace.as_bytes() { Some((letter - b'a' + 1).into()) } else { None }
    }

    #[test]
    fn processes_share_a_fate_until_they_disconnect() {
        let mut connections = Connections::default();
        for procs in [vec![proc("a"), proc("b")], vec![proc("a"), proc("c")], vec![proc("a")]] {
            connections.connect(procs, number);
        }
        let of = |connections: &Connections, job| connections.of(job);
        assert_eq!(of(&connections, 1), [1, 2, 3].into());
        let with = |name: &str| connections.with(&proc(name)).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!((with("b"), with("c")), (vec![proc("a"), proc("b")], vec![proc("a"), proc("c")]));
        connections.disconnect(&[proc("b"), proc("a")]);
        assert_eq!(of(&connections, 1), [1, 3].into());
        connections.forget(3);
        assert_eq!(of(&connections, 1), [].into());
    }

    #[test]
    fn tools_are_connected_with_jobs_and_end_with_none() {
        let mut connections = Connections::default();
        connections.connect(vec![proc("a"), proc("tool")], number);
        connections.connect(vec![proc("a"), proc("b"), proc("tool")], number);
        let with_tool = |connections: &Connections| connections.with(&proc("tool")).len();
        assert_eq!((with_tool(&connections), connections.of(1)), (3, [1, 2].into()));
        connections.forget_tools(&proc("tool").nspace);
        assert_eq!(connections.all.len(), 1, "two jobs are connected still");
        connections.forget(2);
        assert!(is_empty(&connections));
    }

    fn is_empty(connections: &Connections) -> bool {
        let Connections { all, by_procs, by_proc, by_party, .. } = connections;
        all.is_empty() && by_procs.is_empty() && by_proc.0.is_empty() && by_party.0.is_empty()
    }

    #[test]
    fn who_connects_with_the_same_ones_again_has_one_connection() {
        let mut connections = Connections::default();
        let all_of = |name: &str| Proc::new(Nspace::new(name).unwrap(), Rank::WILDCARD);
        for _ in 0..1000 {
            connections.connect(vec![proc("a"), proc("b")], number);
            connections.connect(vec![proc("b"), proc("a"), proc("b")], number);
            connections.connect(vec![proc("b"), all_of("a")], number);
        }
        assert_eq!(connections.all.len(), 2, "a wildcard is a name of its own");
        assert_eq!(connections.with(&proc("a")), [&proc("a"), &all_of("a"), &proc("b")].into());
        connections.disconnect(&[proc("b"), proc("a")]);
        assert_eq!(connections.with(&proc("a")), [&all_of("a"), &proc("b")].into());
        connections.disconnect(&[all_of("a"), proc("b")]);
        assert!(is_empty(&connections));
    }
}
