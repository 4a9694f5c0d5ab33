//! Ties between the jobs of a run: which others end with a job that fails, and who hears of what.
//!
//! A job is tied to the one that has started it: it ends when that one fails, unless it was started as a job apart or
//! of its own (`PMIX_COSPAWN_APP`, `PMIX_SPAWN_CHILD_SEP`). In the other direction a failure goes only where processes
//! have connected (`PMIx_Connect`, as MPI's spawn does): those share one fate until they disconnect.
use std::collections::BTreeSet;

use instanton::data::{Info, InfoList, Proc, keys};

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

/// Jobs whose processes are connected, by their numbers.
#[derive(Debug, Default)]
pub struct Connections(Vec<(Vec<Proc>, BTreeSet<u32>)>);

impl Connections {
    /// Processes of these jobs have connected.
    pub fn connect(&mut self, procs: Vec<Proc>, jobs: BTreeSet<u32>) {
        if jobs.len() > 1 {
            self.0.push((procs, jobs));
        }
    }

    /// These processes have disconnected.
    pub fn disconnect(&mut self, procs: &[Proc]) {
        let named: BTreeSet<&Proc> = procs.iter().collect();
        self.0.retain(|(connected, _)| connected.iter().collect::<BTreeSet<_>>() != named);
    }

    /// All who are connected with a process, in the names under which they have connected.
    pub fn with(&self, proc: &Proc) -> impl Iterator<Item = &Proc> {
        let has = move |procs: &[Proc]| procs.iter().any(|named| named.matches(proc));
        self.0.iter().filter(move |(procs, _)| has(procs)).flat_map(|(procs, _)| procs)
    }

    /// A job is over.
    pub fn forget(&mut self, job: u32) {
        self.0.iter_mut().for_each(|(_, jobs)| _ = jobs.remove(&job));
        self.0.retain(|(_, jobs)| jobs.len() > 1);
    }

    /// The jobs that are connected with one.
    pub fn of(&self, job: u32) -> impl Iterator<Item = u32> {
        self.0.iter().filter(move |(_, jobs)| jobs.contains(&job)).flat_map(|(_, jobs)| jobs.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{Nspace, Rank};

    #[test]
    fn processes_share_a_fate_until_they_disconnect() {
        let proc = |name: &str| Proc::new(Nspace::new(name).unwrap(), Rank(0));
        let mut connections = Connections::default();
        connections.connect(vec![proc("a"), proc("b")], [1, 2].into());
        connections.connect(vec![proc("a"), proc("c")], [1, 3].into());
        connections.connect(vec![proc("a")], [1].into());
        let of = |connections: &Connections, job| connections.of(job).collect::<BTreeSet<_>>();
        assert_eq!(of(&connections, 1), [1, 2, 3].into());
        let with = |name: &str| connections.with(&proc(name)).cloned().collect::<Vec<_>>();
        assert_eq!((with("b"), with("c")), (vec![proc("a"), proc("b")], vec![proc("a"), proc("c")]));
        connections.disconnect(&[proc("b"), proc("a")]);
        assert_eq!(of(&connections, 1), [1, 3].into());
        connections.forget(3);
        assert_eq!(of(&connections, 1), [].into());
    }
}
