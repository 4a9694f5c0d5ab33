//! Requests of other nodes' servers for what processes here have posted (direct modex).
//!
//! Much is read and encoded by a thread, charged to the job of the process meanwhile, and answers all who have asked by
//! the time that this begins, each by a copy that the thread has made. A copy stays charged while the host holds it. For
//! those that come later it is read again: the process may have posted more. So it is for those whose copies nobody can
//! be charged for. Where the job has room for none, while others of its copies are held, requests wait for the end of
//! those.
//!
//! A request that names a key and a time to wait for it is parked until the process has posted that key. So many requests
//! about a process are parked at most; others are answered with what there is.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::account::{Charge, Kind};
use crate::by_number::ByNumber;
use crate::data::{Info, InfoList, Key, Nspace, Proc, Rank, Status, keys};
use crate::server::collective::exchange::{self, posted_blob};
use crate::server::ctx::slices::Slice;
use crate::server::ctx::ticket::Ticket;
use crate::server::ctx::timers::{Deadline, TimerId};
use crate::server::ctx::{Ctx, Done};
use crate::server::gets::blob::{Blob, Hold};
use crate::server::jobs::Jobs;
use crate::server::jobs::store::{Departing, JobStoreError};
use crate::trace;

/// Bytes of a process's records from which on a thread reads them; fewer in tests, so that simulated requests come to it.
const LARGE: u64 = if cfg!(test) { 256 } else { 64 << 10 };

/// Most requests about one process that are parked. Servers have a few at a time for each who asks
/// ([`MOST_KEYS`](super::fetches::MOST_KEYS)).
const MOST_PARKED: usize = 1024;

/// A request that waits until the process has posted.
struct Wait {
    proc: Proc,
    /// Key that it is parked for.
    parked: Option<Key>,
    done: Done<Blob>,
    deadline: Option<TimerId>,
}

/// Place where a thread leaves what it has read, encoded, or the reason why it cannot be.
type Place = Arc<Mutex<Option<(Departing, Result<Vec<Vec<u8>>, Status>)>>>;

/// Data of a process that is read by a thread.
struct Departure {
    proc: Proc,
    /// Requests that it answers.
    asked: Vec<u64>,
    read: Place,
    /// Bytes that are to be read.
    bytes: usize,
    /// Charge for them as they are read.
    reading: Option<Charge>,
    /// Charge for each copy of them, encoded.
    copies: Vec<Option<Charge>>,
}

/// All requests that wait.
#[derive(Default)]
pub struct DirectModex {
    waiting: ByNumber<u64, Wait>,
    by_proc: BTreeMap<Proc, BTreeSet<u64>>,
    /// Requests that are parked, by process and key.
    parked: BTreeMap<Proc, BTreeMap<Key, BTreeSet<u64>>>,
    /// Data of processes that is read by threads.
    departing: ByNumber<u64, Departure>,
    /// Number of copies of much data of each job that the host holds.
    held: BTreeMap<Nspace, usize>,
    /// Processes whose data its job has no room for before something of it has gone.
    short: BTreeSet<Proc>,
    last: u64,
}

impl DirectModex {
    /// Another node's server asks for what a process here has posted; the answer waits until there is something. A
    /// namespace that is not registered here may be soon: that node was quicker. One that was, and is over, will not
    /// be.
    pub fn request(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: Proc, info: &[Info], done: Done<Blob>) {
        if jobs.status_of_end(&proc.nspace).is_some() {
            trace!("another node asks for what {proc} had posted in a job that is over");
            return cx.finish(done, Err(Status::ERR_NOT_FOUND));
        }
        let limit = info.time_limit().flatten();
        let limit = match jobs.store(&proc.nspace) {
            Some(_) => limit,
            None => Some(cx.config.host_answer_deadline.min(limit.unwrap_or(Duration::MAX))),
        };
        self.last += 1;
        let deadline = limit.map(|limit| cx.set_deadline(limit, Deadline::DirectModex(self.last)));
        let parked = awaited_key(info).filter(|key| self.may_park(jobs, &proc, key));
        match &parked {
            Some(key) => {
                // A commit names the keys of awaited processes alone.
                cx.awaited.add(&proc);
                self.parked.entry(proc.clone()).or_default().entry(key.clone()).or_default().insert(self.last)
            }
            None => self.by_proc.entry(proc.clone()).or_default().insert(self.last),
        };
        self.waiting.insert(self.last, Wait { proc: proc.clone(), parked, done, deadline });
        self.look(cx, jobs, &proc);
    }

    /// Returns whether a request waits for a key that the process may still post.
    fn may_park(&self, jobs: &Jobs, proc: &Proc, key: &Key) -> bool {
        let is_there = jobs.store(&proc.nspace).is_some_and(|store| store.has_outbound(proc.rank, key));
        let parked: usize = self.parked.get(proc).into_iter().flat_map(BTreeMap::values).map(BTreeSet::len).sum();
        !is_there && !jobs.is_remote(proc) && !jobs.is_done(proc) && parked < MOST_PARKED
    }

    /// A process has posted these keys: who waits for one of them is answered with the next look.
    pub fn posted(&mut self, cx: &mut Ctx, proc: &Proc, keys: &[Key]) {
        let Some(by_key) = self.parked.get_mut(proc) else { return };
        let numbers: Vec<u64> = keys.iter().filter_map(|key| by_key.remove(key)).flatten().collect();
        if by_key.is_empty() {
            self.parked.remove(proc);
        }
        self.unpark(cx, proc, numbers);
    }

    /// Requests about a process wait for no key any more.
    fn unpark_all(&mut self, cx: &mut Ctx, proc: &Proc) {
        let by_key = self.parked.remove(proc).unwrap_or_default();
        self.unpark(cx, proc, by_key.into_values().flatten().collect());
    }

    fn unpark(&mut self, cx: &mut Ctx, proc: &Proc, numbers: Vec<u64>) {
        if !numbers.is_empty() {
            self.by_proc.entry(proc.clone()).or_default().extend(&numbers);
        }
        for number in numbers {
            cx.awaited.remove(proc);
            if let Some(wait) = self.waiting.get_mut(&number) {
                wait.parked = None;
            }
        }
    }

    /// Answers about a process as far as that can be done now.
    pub fn look(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc) {
        if !self.by_proc.contains_key(proc) {
            return;
        }
        let Some(store) = jobs.store(&proc.nspace) else { return };
        let remote = jobs.is_remote(proc);
        if !remote && store.has_posted(proc.rank) {
            let bytes = store.outbound_bytes(&[proc.rank], false);
            if bytes > LARGE {
                return self.depart(cx, proc, bytes);
            }
            let blob = posted_blob(cx, jobs, proc);
            self.end(cx, &blob, proc);
        } else if remote || jobs.is_done(proc) {
            trace!("another node asks for what {proc} has posted, which does not run here any more, or never has");
            self.end(cx, &Err(Status::ERR_NOT_FOUND), proc);
        }
    }

    /// Has much data read by a thread, unless that is being done.
    fn depart(&mut self, cx: &mut Ctx, proc: &Proc, bytes: u64) {
        if self.departing.values().any(|departure| departure.proc == *proc) {
            return;
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let charges = charge(cx, proc, bytes).and_then(|reading| Ok((reading, vec![charge(cx, proc, bytes)?])));
        let (reading, copies) = match charges {
            Ok(charges) => charges,
            Err(_) if self.goes_out(&proc.nspace) => {
                self.short.insert(proc.clone());
                return;
            }
            Err(status) => return self.end(cx, &Err(status), proc),
        };
        self.last += 1;
        let (proc, read) = (proc.clone(), Place::default());
        let departure = Departure { proc, asked: Vec::new(), read, bytes, reading, copies };
        self.departing.insert(self.last, departure);
        cx.slice(Slice::Departure(self.last));
    }

    /// Returns whether much data of a job is on its way.
    fn goes_out(&self, nspace: &Nspace) -> bool {
        self.held.contains_key(nspace) || self.departing.values().any(|departure| departure.proc.nspace == *nspace)
    }

    /// Looks again for data that its job had no room for.
    fn look_at_short(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        let all = self.short.range(Proc::new(nspace.clone(), Rank(0))..);
        let of_job: Vec<_> = all.take_while(|proc| proc.nspace == *nspace).cloned().collect();
        for proc in of_job {
            self.short.remove(&proc);
            self.look(cx, jobs, &proc);
        }
    }

    /// The host has let go of a copy of data of a job.
    pub fn blob_gone(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        if let Some(held) = self.held.get_mut(nspace) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(nspace);
            }
        }
        self.look_at_short(cx, jobs, nspace);
    }

    /// Begins to read data of that number.
    pub fn slice(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64) {
        let Some(departure) = self.departing.get_mut(&number) else { return };
        let Departure { proc, asked, read, bytes, copies, .. } = departure;
        for number in self.by_proc.get(proc).into_iter().flatten() {
            if !asked.is_empty() {
                let Ok(charge) = charge(cx, proc, *bytes) else { break };
                copies.push(charge);
            }
            asked.push(*number);
        }
        let (proc, place, count) = (proc.clone(), read.clone(), asked.len());
        let begun = jobs.store_mut(&proc.nspace).map(|store| store.departing(&[proc.rank], false));
        let Some(Ok(departing)) = begun else {
            self.departing.remove(&number);
            let blob = posted_blob(cx, jobs, &proc);
            self.end(cx, &blob, &proc);
            return self.look_at_short(cx, jobs, &proc.nspace);
        };
        let sender = exchange::sender(cx);
        let read = move |departing: Departing| {
            let blob = exchange::blob_of(&sender, &proc, departing.read().map_err(JobStoreError::from));
            *lock(&place) = Some((departing, blob.map(|blob| std::iter::repeat_n(blob, count).collect())));
        };
        let theirs = read.clone();
        let worker = cx.offload_with(Vec::new(), "modex", departing, move |departing| {
            theirs(departing);
            Ticket::Departed(number)
        });
        if let Err((departing, e)) = worker {
            trace!("no thread for data of a process: {e}");
            read(departing);
            self.departed(cx, jobs, number);
        }
    }

    /// Data of that number is read, or cannot be.
    pub fn departed(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64) {
        let Some(departure) = self.departing.remove(&number) else { return };
        let Departure { proc, asked, read, copies, reading, .. } = departure;
        let Some((departing, blobs)) = lock(&read).take() else { return };
        let store = jobs.store_mut(&proc.nspace).filter(|store| store.is_of_this(&departing));
        if let Some(store) = store {
            store.end_departing(departing, true);
            let (mut blobs, failed) = match blobs {
                Ok(blobs) => (blobs, Status::ERR_NOT_FOUND),
                Err(status) => (Vec::new(), status),
            };
            for (asked, charge) in asked.into_iter().zip(copies) {
                let (nspace, tickets) = (proc.nspace.clone(), cx.ticket_sink());
                let blob = blobs.pop().map(|bytes| Blob::held(bytes, Hold { charge, nspace, tickets }));
                if blob.is_some() {
                    *self.held.entry(proc.nspace.clone()).or_default() += 1;
                }
                self.end_one(cx, asked, blob.ok_or(failed));
            }
        }
        drop(reading);
        self.look(cx, jobs, &proc);
        self.look_at_short(cx, jobs, &proc.nspace);
    }

    fn end_one(&mut self, cx: &mut Ctx, number: u64, answer: Result<Blob, Status>) {
        let Some(wait) = self.take(cx, number) else { return };
        cx.timers.cancel(wait.deadline);
        cx.finish(wait.done, answer);
    }

    fn take(&mut self, cx: &mut Ctx, number: u64) -> Option<Wait> {
        let wait = self.waiting.remove(&number)?;
        match &wait.parked {
            Some(key) => {
                cx.awaited.remove(&wait.proc);
                let by_key = self.parked.get_mut(&wait.proc)?;
                super::forget(by_key, key, number);
                if by_key.is_empty() {
                    self.parked.remove(&wait.proc);
                }
            }
            None => super::forget(&mut self.by_proc, &wait.proc, number),
        }
        Some(wait)
    }

    /// Answers about the processes of a namespace that has new information.
    pub fn look_at_job(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        self.procs_of(nspace).iter().for_each(|proc| self.look(cx, jobs, proc));
    }

    fn procs_of(&self, nspace: &Nspace) -> Vec<Proc> {
        procs_of(&self.by_proc, nspace).map(|(proc, _)| proc.clone()).collect()
    }

    /// Gives all requests for a process an answer.
    pub fn end(&mut self, cx: &mut Ctx, answer: &Result<Vec<u8>, Status>, proc: &Proc) {
        self.short.remove(proc);
        for number in self.by_proc.remove(proc).unwrap_or_default() {
            if let Some(wait) = self.waiting.remove(&number) {
                cx.timers.cancel(wait.deadline);
                cx.finish(wait.done, answer.clone().map(Blob::from));
            }
        }
    }

    /// The process posts nothing any more.
    pub fn process_gone(&mut self, cx: &mut Ctx, proc: &Proc) {
        self.unpark_all(cx, proc);
        self.end(cx, &Err(Status::ERR_NOT_FOUND), proc);
    }

    /// Gives all requests for processes of a namespace an answer.
    pub fn end_job(&mut self, cx: &mut Ctx, answer: &Result<Vec<u8>, Status>, nspace: &Nspace) {
        let parked: Vec<_> = procs_of(&self.parked, nspace).map(|(proc, _)| proc.clone()).collect();
        parked.iter().for_each(|proc| self.unpark_all(cx, proc));
        self.procs_of(nspace).iter().for_each(|proc| self.end(cx, answer, proc));
    }

    /// Returns the number of requests that wait.
    pub fn open(&self) -> usize {
        self.waiting.len()
            + self.by_proc.len()
            + self.parked.len()
            + self.departing.len()
            + self.held.len()
            + self.short.len()
    }

    /// Gives every request an answer.
    pub fn end_everything(&mut self, cx: &mut Ctx, answer: &Result<Vec<u8>, Status>) {
        while let Some(proc) = self.parked.keys().next().cloned() {
            self.unpark_all(cx, &proc);
        }
        while let Some(proc) = self.by_proc.keys().next().cloned() {
            self.end(cx, answer, &proc);
        }
    }

    /// The time limit of a request has run out.
    pub fn expired(&mut self, cx: &mut Ctx, number: u64) {
        if let Some(wait) = self.take(cx, number) {
            trace!("another node has waited in vain for {} to post", wait.proc);
            cx.finish(wait.done, Err(Status::ERR_TIMEOUT));
        }
    }
}

/// The part of an index that is about processes of a namespace.
fn procs_of<'a, T>(index: &'a BTreeMap<Proc, T>, nspace: &'a Nspace) -> impl Iterator<Item = (&'a Proc, &'a T)> {
    let from = index.range(Proc::new(nspace.clone(), Rank(0))..);
    from.take_while(move |(proc, _)| proc.nspace == *nspace)
}

/// Returns the key that another node waits for: it says which, and how long.
fn awaited_key(info: &[Info]) -> Option<Key> {
    info.time_limit()?;
    let key = info.find(keys::REQUIRED_KEY)?.value.as_bytes()?;
    Key::new(key).ok()
}

/// Charges the job of a process, where it has an account.
///
/// # Errors
/// `ERR_OUT_OF_RESOURCE` where that has no room.
fn charge(cx: &Ctx, proc: &Proc, bytes: usize) -> Result<Option<Charge>, Status> {
    let account = cx.accounts.of_job(&proc.nspace);
    account.map(|account| account.charge(Kind::Collective, bytes).ok_or(Status::ERR_OUT_OF_RESOURCE)).transpose()
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
