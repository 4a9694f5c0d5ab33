//! Events on their way to other nodes: so much of each job, whatever the nodes' processes do.
//!
//! A node that is stopped takes nothing, and all that ranks raise would be held for it. Nobody waits for it here: whoever
//! raises more than its job may have on the way is refused, so that no event is lost without a word.
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use instanton::data::{Info, Nspace};

/// Most bytes of a job's events that are on their way, to all nodes together. One event alone is always let go.
pub const MOST: usize = 64 << 20;
/// Bytes that an attribute takes besides its value.
const ATTRIBUTE: usize = 256;

/// Events on their way, by the job that has raised them.
#[derive(Default)]
pub struct Events(Mutex<HashMap<Nspace, usize>>);

impl Events {
    fn lock(&self) -> MutexGuard<'_, HashMap<Nspace, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes bytes that are to go. Returns false where the job has too much on the way.
    pub fn take(&self, job: &Nspace, bytes: usize) -> bool {
        let mut jobs = self.lock();
        let before = jobs.get(job).copied().unwrap_or_default();
        let goes = before == 0 || before + bytes <= MOST;
        if goes && bytes > 0 {
            jobs.insert(job.clone(), before + bytes);
        }
        goes
    }

    /// A node has taken bytes, or is gone.
    pub fn give(&self, job: &Nspace, bytes: usize) {
        let mut jobs = self.lock();
        if let Some(left) = jobs.get_mut(job) {
            *left -= bytes;
            if *left == 0 {
                jobs.remove(job);
            }
        }
    }
}

/// Bytes that an event with these attributes takes.
pub fn bytes_of(infos: &[Info]) -> usize {
    ATTRIBUTE + infos.iter().map(|info| ATTRIBUTE + info.value.kept_size()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_so_much_on_its_way_and_others_have_as_much() {
        let (events, [one, other]) = (Events::default(), ["a", "b"].map(|name| Nspace::new(name).unwrap()));
        assert!(events.take(&one, MOST + 1), "one alone always goes");
        assert!(!events.take(&one, 1) && events.take(&other, MOST) && !events.take(&other, 1));
        events.give(&one, MOST);
        assert!(events.take(&one, MOST - 1) && !events.take(&one, 1));
        events.give(&one, MOST);
        events.give(&other, MOST);
        assert!(events.lock().is_empty());
    }
}
