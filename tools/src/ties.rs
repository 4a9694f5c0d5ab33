//! Ties between the jobs of a run: which others end with a job that fails, and who hears of what.
//!
//! A job is tied to the one that has started it: it ends when that one fails, unless it was started as a job apart or
//! of its own (`PMIX_COSPAWN_APP`, `PMIX_SPAWN_CHILD_SEP`). In the other direction a failure goes only where processes
//! have connected (`PMIx_Connect`, as MPI's spawn does): those share one fate until they disconnect.
use std::collections::BTreeSet;

use instanton::data::{Info, InfoList, Nspace, Proc, keys};

/// Events that the parent of a job wants to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tells {
    /// The end of the job.
    pub completion: bool,
    /// That end is no event where it is a regular one.
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

/// Processes that are connected, as they were named.
#[derive(Debug)]
struct Connection {
    procs: Vec<Proc>,
    /// Their jobs, by number.
    jobs: BTreeSet<u32>,
    /// Their namespaces that are no jobs, but of tools.
    tools: BTreeSet<Nspace>,
}

impl Connection {
    /// Returns whether different jobs or tools are connected.
    fn ties(&self) -> bool {
        self.jobs.len() + self.tools.len() > 1
    }
}

/// Jobs and tools whose processes are connected.
#[derive(Debug, Default)]
pub struct Connections(Vec<Connection>);

impl Connections {
    /// Processes have connected. `number` is that of a namespace that is a job.
    pub fn connect(&mut self, procs: Vec<Proc>, number: impl Fn(&Nspace) -> Option<u32>) {
        let jobs = procs.iter().filter_map(|proc| number(&proc.nspace)).collect();
        let tools = procs.iter().map(|proc| &proc.nspace).filter(|nspace| number(nspace).is_none());
        let connection = Connection { tools: tools.cloned().collect(), jobs, procs };
        self.0.extend(connection.ties().then_some(connection));
    }

    /// These processes have disconnected.
    pub fn disconnect(&mut self, procs: &[Proc]) {
        let named: BTreeSet<&Proc> = procs.iter().collect();
        self.0.retain(|connection| connection.procs.iter().collect::<BTreeSet<_>>() != named);
    }

    /// All who are connected with a process, in the names under which they have connected.
    pub fn with(&self, proc: &Proc) -> impl Iterator<Item = &Proc> {
        let has = move |connection: &&Connection| connection.procs.iter().any(|named| named.matches(proc));
        self.0.iter().filter(has).flat_map(|connection| &connection.procs)
    }

    /// A job is over.
    pub fn forget(&mut self, job: u32) {
        self.0.iter_mut().for_each(|connection| _ = connection.jobs.remove(&job));
        self.0.retain(Connection::ties);
    }

    /// The last tool of a namespace is gone.
    pub fn forget_tools(&mut self, nspace: &Nspace) {
        self.0.iter_mut().for_each(|connection| _ = connection.tools.remove(nspace));
        self.0.retain(Connection::ties);
    }

    /// The jobs that are connected with one.
    pub fn of(&self, job: u32) -> impl Iterator<Item = u32> {
        let of_job = self.0.iter().filter(move |connection| connection.jobs.contains(&job));
        of_job.flat_map(|connection| connection.jobs.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::Rank;

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
        let of = |connections: &Connections, job| connections.of(job).collect::<BTreeSet<_>>();
        assert_eq!(of(&connections, 1), [1, 2, 3].into());
        let with = |name: &str| connections.with(&proc(name)).cloned().collect::<Vec<_>>();
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
        let with_tool = |connections: &Connections| connections.with(&proc("tool")).count();
        assert_eq!((with_tool(&connections), connections.of(1).collect::<BTreeSet<_>>()), (5, [1, 2].into()));
        connections.forget_tools(&proc("tool").nspace);
        assert_eq!(connections.0.len(), 1, "two jobs are connected still");
        connections.forget(2);
        assert_eq!(connections.0.len(), 0);
    }
}
