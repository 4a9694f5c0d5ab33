//! Output that the host delivers, written to this process's own where the host wants that (`PMIX_IOF_LOCAL_OUTPUT`),
//! formatted as the job's information says.
//!
//! A worker writes it: a slow reader of this process's output keeps neither ranks nor the host waiting.
//! Up to [`MAX_WAITING`] bytes wait in memory, and what comes beyond that is lost. The server ends when
//! all that waits is written.
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::data::{Channels, Info, Key, Nspace, Proc, Rank};
use crate::message::format::{DIRECTIVES, Format, write_out};
use crate::server::ctx::system::{System, Worker};
use crate::server::jobs::Jobs;
use crate::store::Directives;
use crate::trace;

/// Most bytes that wait to be written.
const MAX_WAITING: usize = 64 << 20;

/// Writer of output, with the format of each job.
pub struct LocalOutput {
    formats: HashMap<Nspace, Format>,
    queue: Arc<Queue>,
    writer: Worker,
}

/// Pieces to be written. A channel of the standard library would be most of what this module takes in the library.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<(Channels, Vec<u8>)>,
    bytes: usize,
    /// True if no piece will follow.
    is_closed: bool,
    /// True if the last piece was lost.
    loses: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece, where there is room for it.
    fn add(&self, channel: Channels, bytes: Vec<u8>) {
        let mut waiting = self.lock();
        let lost = waiting.bytes + bytes.len() > MAX_WAITING;
        if lost && !waiting.loses {
            trace!("nobody reads this process's output: what comes now is lost");
        }
        waiting.loses = lost;
        if !lost {
            waiting.bytes += bytes.len();
            waiting.pieces.push_back((channel, bytes));
            self.changed.notify_one();
        }
    }

    /// Waits for the next piece; none once the queue is closed and empty.
    fn next(&self) -> Option<(Channels, Vec<u8>)> {
        let goes_on = |waiting: &mut Waiting| waiting.pieces.is_empty() && !waiting.is_closed;
        let mut waiting = self.changed.wait_while(self.lock(), goes_on).unwrap_or_else(PoisonError::into_inner);
        let next = waiting.pieces.pop_front();
        waiting.bytes -= next.as_ref().map_or(0, |(_, bytes)| bytes.len());
        next
    }
}

impl LocalOutput {
    /// Starts the worker, which writes until this value is dropped.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(system: &mut dyn System) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let to_write = queue.clone();
        let write = move || {
            while let Some((channel, bytes)) = to_write.next() {
                write_out(channel, &bytes);
            }
        };
        let writer = system.offload("instanton-output", Box::new(write))?;
        Ok(LocalOutput { formats: HashMap::new(), queue, writer })
    }

    /// Writes output of a process.
    pub fn write(&mut self, source: &Proc, channel: Channels, bytes: &[u8], jobs: &Jobs) {
        let new = || Format::read(&directives_of(&source.nspace, jobs));
        let format = self.formats.entry(source.nspace.clone()).or_insert_with(new);
        let shown = format.shown(source, channel, bytes.to_vec());
        self.queue.add(channel, shown);
    }

    /// A job is over: another one of its name may want its output shown otherwise.
    pub fn job_over(&mut self, nspace: &Nspace) {
        self.formats.remove(nspace);
    }
}

impl Drop for LocalOutput {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_one();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Returns the directives of a job's information that say how its output is shown.
fn directives_of(nspace: &Nspace, jobs: &Jobs) -> Vec<Info> {
    let (Some(store), Ok(anyhow)) = (jobs.store(nspace), Directives::parse(&[])) else { return Vec::new() };
    let said = |key| store.get(Rank::UNDEF, Rank::WILDCARD, &Key::new(key).ok()?, &anyhow).ok();
    DIRECTIVES.iter().filter_map(|key| Some(Info::new(key, said(key)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_what_fits_is_kept() {
        let queue = Queue::default();
        for _ in 0..3 {
            queue.add(Channels::STDIN, vec![0; MAX_WAITING / 2]);
        }
        queue.lock().is_closed = true;
        let kept = std::iter::from_fn(|| queue.next()).map(|(_, bytes)| bytes.len()).sum::<usize>();
        assert_eq!(kept, MAX_WAITING);
        queue.add(Channels::STDIN, vec![0; MAX_WAITING]);
        assert!(queue.next().is_some(), "there is room again");
    }
}
