//! Output that the host delivers, written to this process's own where the host wants that (`PMIX_IOF_LOCAL_OUTPUT`), the way the job's
//! information says.
//!
//! A thread writes it: who reads this process's output and falls behind keeps neither ranks nor the host waiting. What waits is in
//! memory, up to [`MAX_WAITING`]; what comes then is lost. The server ends when all that waits is written.
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::jobs::Jobs;
use super::router::Router;
use crate::data::{Channels, Info, Key, Nspace, Proc, Rank};
use crate::message::format::{DIRECTIVES, Format, write_out};
use crate::store::Directives;
use crate::sys::signals::spawn_without_signals;
use crate::trace;

/// Bytes that may wait for who reads this process's output.
const MAX_WAITING: usize = 64 << 20;

pub(super) struct LocalOutput {
    formats: HashMap<Nspace, Format>,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

/// What is to be written. A channel of the standard library would be most of what this module takes in the library.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<(Channels, Vec<u8>)>,
    bytes: usize,
    is_last: bool,
    /// Whether the last piece was lost.
    loses: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has one more piece written, where there is room for it.
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

    /// The next piece, or none when there will be none.
    fn next(&self) -> Option<(Channels, Vec<u8>)> {
        let goes_on = |waiting: &mut Waiting| waiting.pieces.is_empty() && !waiting.is_last;
        let mut waiting = self.changed.wait_while(self.lock(), goes_on).unwrap_or_else(PoisonError::into_inner);
        let next = waiting.pieces.pop_front();
        waiting.bytes -= next.as_ref().map_or(0, |(_, bytes)| bytes.len());
        next
    }
}

impl LocalOutput {
    pub(super) fn start() -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let to_write = queue.clone();
        let write = move || {
            while let Some((channel, bytes)) = to_write.next() {
                write_out(channel, &bytes);
            }
        };
        let writer = spawn_without_signals("instanton-output", write)?;
        Ok(LocalOutput { formats: HashMap::new(), queue, writer: Some(writer) })
    }

    fn write(&mut self, source: &Proc, channel: Channels, bytes: &[u8], jobs: &Jobs) {
        let new = || Format::read(&directives_of(&source.nspace, jobs));
        let format = self.formats.entry(source.nspace.clone()).or_insert_with(new);
        let shown = format.shown(source, channel, bytes.to_vec());
        self.queue.add(channel, shown);
    }
}

impl Drop for LocalOutput {
    fn drop(&mut self) {
        self.queue.lock().is_last = true;
        self.queue.changed.notify_one();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// How a job's information asks for its output to be shown.
fn directives_of(nspace: &Nspace, jobs: &Jobs) -> Vec<Info> {
    let (Some(stored), Ok(anyhow)) = (jobs.stored(nspace), Directives::parse(&[])) else { return Vec::new() };
    let said = |key| stored.get(Rank::UNDEF, Rank::WILDCARD, &Key::new(key).ok()?, &anyhow).ok();
    DIRECTIVES.iter().filter_map(|key| Some(Info::new(key, said(key)?))).collect()
}

impl Router {
    pub(super) fn write_output(&mut self, source: &Proc, channel: Channels, bytes: &[u8]) {
        if let Some(local) = &mut self.local_output {
            local.write(source, channel, bytes, &self.jobs);
        }
    }

    /// A job is over, and another one of its name may have its own wishes.
    pub(super) fn local_output_ends(&mut self, nspace: &Nspace) {
        if let Some(local) = &mut self.local_output {
            local.formats.remove(nspace);
        }
    }
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
        queue.lock().is_last = true;
        let kept = std::iter::from_fn(|| queue.next()).map(|(_, bytes)| bytes.len()).sum::<usize>();
        assert_eq!(kept, MAX_WAITING);
        queue.add(Channels::STDIN, vec![0; MAX_WAITING]);
        assert!(queue.next().is_some(), "there is room again");
    }
}
