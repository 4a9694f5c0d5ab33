//! Namespaces of a run: which jobs and tools there are, and which jobs there were. A process that would be connected
//! with processes of another one is told so.
//!
//! Jobs have numbers that count up, so those that are over are known by the last one. A tool is known as long as it is
//! attached to a server of the run, and the last of those that are gone, whose names may be their own, are remembered.
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use instanton::data::{Nspace, Proc, Rank, Status};

/// Namespaces of tools that are gone and not forgotten.
const MAX_GONE: usize = 1024;

/// The namespaces of a run.
#[derive(Debug, Default)]
pub struct Names {
    /// Prefix of the names of its jobs.
    family: String,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    jobs: BTreeSet<Nspace>,
    tools: BTreeSet<Proc>,
    /// Namespaces of tools that are gone, the last one at the end.
    gone: VecDeque<Nspace>,
    /// The highest number that a job has had.
    last: u64,
}

impl Known {
    fn has_tool(&self, nspace: &Nspace) -> bool {
        self.tools.range(Proc::new(nspace.clone(), Rank(0))..).next().is_some_and(|tool| tool.nspace == *nspace)
    }
}

impl Names {
    /// The namespaces of a run of which nothing runs yet.
    pub fn new(family: &str) -> Self {
        Self { family: family.to_owned(), known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number in the name of a job of this run; none in another name.
    pub fn number(&self, nspace: &Nspace) -> Option<u64> {
        let rest = nspace.as_bytes().strip_prefix(self.family.as_bytes())?.strip_prefix(b"@")?;
        let is_number = rest.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(rest).ok().filter(|_| is_number)?.parse().ok()
    }

    /// A job is about to be registered.
    pub fn add(&self, job: &Nspace) {
        let mut known = self.lock();
        known.last = known.last.max(self.number(job).unwrap_or(0));
        known.jobs.insert(job.clone());
    }

    /// A job is over.
    pub fn remove(&self, job: &Nspace) {
        self.lock().jobs.remove(job);
    }

    /// A tool is let in by a server.
    pub fn admit(&self, tool: &Proc) {
        let mut known = self.lock();
        known.gone.retain(|gone| *gone != tool.nspace);
        known.tools.insert(tool.clone());
    }

    /// A tool is gone.
    pub fn leave(&self, tool: &Proc) {
        let mut known = self.lock();
        if known.tools.remove(tool) && !known.has_tool(&tool.nspace) {
            known.gone.push_back(tool.nspace.clone());
            let forgotten = known.gone.len().saturating_sub(MAX_GONE);
            known.gone.drain(..forgotten);
        }
    }

    /// Returns whether there is a tool of that namespace.
    pub fn has_tool(&self, nspace: &Nspace) -> bool {
        self.lock().has_tool(nspace)
    }

    /// Looks at the namespaces of processes that are to be met or connected with.
    ///
    /// # Errors
    /// `EVENT_JOB_END` for a job that is over, `ERR_PARTIAL_SUCCESS` for tools that are gone, as for whoever waits for one
    /// as it goes, and `ERR_NOT_FOUND` for a name that nobody has.
    pub fn check(&self, procs: &[Proc]) -> Result<(), Status> {
        let known = self.lock();
        for Proc { nspace, .. } in procs {
            let is_known = known.jobs.contains(nspace) || known.has_tool(nspace);
            if !is_known {
                let was_job = self.number(nspace).is_some_and(|number| (1..=known.last).contains(&number));
                return Err(match known.gone.contains(nspace) {
                    true => Status::ERR_PARTIAL_SUCCESS,
                    false if was_job => Status::EVENT_JOB_END,
                    false => Status::ERR_NOT_FOUND,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_tools_are_known_and_jobs_that_are_over() {
        let names = Names::new("run");
        let [first, second, third, own] = ["run@1", "run@2", "run@3", "run@0"].map(|name| Nspace::new(name).unwrap());
        let tool = Nspace::new("tool").unwrap();
        let of = |nspace: &Nspace, rank| Proc::new(nspace.clone(), Rank(rank));
        [&first, &second].iter().for_each(|job| names.add(job));
        names.admit(&of(&tool, 0));
        names.admit(&of(&tool, 1));
        let check = |nspaces: &[&Nspace]| names.check(&nspaces.iter().map(|nspace| of(nspace, 0)).collect::<Vec<_>>());
        assert_eq!(check(&[&first, &second, &tool]), Ok(()));
        assert_eq!(check(&[&first, &third]), Err(Status::ERR_NOT_FOUND));
        assert_eq!(check(&[&first, &own]), Err(Status::ERR_NOT_FOUND));
        names.remove(&second);
        assert_eq!(check(&[&first, &second]), Err(Status::EVENT_JOB_END));
        names.leave(&of(&tool, 0));
        assert_eq!((check(&[&tool]), names.has_tool(&tool)), (Ok(()), true));
        names.leave(&of(&tool, 1));
        assert_eq!((check(&[&tool]), names.has_tool(&tool)), (Err(Status::ERR_PARTIAL_SUCCESS), false));
        names.admit(&of(&tool, 0));
        assert_eq!(check(&[&tool]), Ok(()), "one that comes again");
        names.leave(&of(&tool, 0));
        for number in 0..MAX_GONE as u32 {
            let other = of(&Nspace::new(format!("tool.{number}")).unwrap(), 0);
            names.admit(&other);
            names.leave(&other);
        }
        assert_eq!(check(&[&tool]), Err(Status::ERR_NOT_FOUND), "the last of them are remembered");
        assert_eq!([&first, &tool].map(|name| names.number(name)), [Some(1), None]);
    }
}
