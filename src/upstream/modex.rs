//! Posted data: fetched from the stock server when it is first asked for, and again after a collecting fence.
//!
//! All that a process has posted comes at once, as the blob that another node's server would send. The answers come on
//! the receiving thread; what comes later is newer.
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::Connection;
use super::{answers, commands};
use crate::data::{Info, Key, Posted, Proc, Rank, Status, keys};
use crate::server::{Completion, blob_of_host};

/// Posted data that is here.
pub struct Modex {
    link: Arc<Connection>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Processes whose data was fetched.
    fetched: BTreeSet<Proc>,
    /// Number of answers.
    answers: u64,
}

/// Asks for what is known of a process, with the attributes that say how.
pub fn ask(
    link: &Connection,
    proc: &Proc,
    key: Option<&Key>,
    info: &[Info],
    then: impl FnOnce(Result<Vec<(Proc, Vec<Info>)>, Status>) + Send + 'static,
) {
    match commands::get(proc, key, info) {
        Ok(body) => link.ask(&body, |result| then(result.and_then(|bytes| answers::read(bytes, answers::data)))),
        Err(status) => then(Err(status)),
    }
}

impl Modex {
    pub fn new(link: Arc<Connection>) -> Self {
        Modex { link, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches what a process has posted.
    pub fn fetch(self: &Arc<Self>, proc: &Proc, key: Option<&Key>, info: &[Info], done: Completion<Vec<u8>>) {
        let (modex, asked) = (self.clone(), proc.clone());
        ask(&self.link, proc, key, info, move |result| {
            done.complete(result.and_then(|found| modex.blob(&asked, found)));
        });
    }

    /// Finds a key that some process of a job has posted; the answer does not say which one.
    pub fn find(self: &Arc<Self>, any: &Proc, key: &Key, info: &[Info], done: Completion<Vec<u8>>) {
        let (modex, asked, wanted) = (self.clone(), any.clone(), key.clone());
        ask(&self.link, any, Some(key), info, move |result| {
            done.complete(result.and_then(|mut found| {
                found.iter_mut().for_each(|(_, entries)| entries.retain(|entry| entry.key == wanted));
                modex.blob(&asked, found)
            }));
        });
    }

    /// Fetches anew what was fetched of these processes: it shows what they have posted since.
    pub fn refresh(self: &Arc<Self>, procs: &[Proc], done: Completion<Vec<u8>>) {
        struct Gathered {
            missing: usize,
            blobs: Vec<u8>,
            done: Option<Completion<Vec<u8>>>,
        }
        let meets = |proc: &Proc| procs.iter().any(|named| named.nspace == proc.nspace && is_of(proc.rank, named.rank));
        let stale: Vec<Proc> = self.known().fetched.iter().filter(|proc| meets(proc)).cloned().collect();
        if stale.is_empty() {
            return done.complete(Ok(Vec::new()));
        }
        let gathered = Arc::new(Mutex::new(Gathered { missing: stale.len(), blobs: Vec::new(), done: Some(done) }));
        let at_once = [Info::new(keys::IMMEDIATE, true)];
        for proc in stale {
            let (gathered, modex, asked) = (gathered.clone(), self.clone(), proc.clone());
            ask(&self.link, &proc, None, &at_once, move |result| {
                let mut all = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                // A process that is gone by now keeps what was known of it.
                all.blobs.extend(result.and_then(|found| modex.blob(&asked, found)).unwrap_or_default());
                all.missing -= 1;
                if all.missing == 0
                    && let Some(done) = all.done.take()
                {
                    let blobs = std::mem::take(&mut all.blobs);
                    drop(all);
                    done.complete(Ok(blobs));
                }
            });
        }
    }

    /// Encodes the stock server's knowledge of some processes, as another node's server would say it.
    fn blob(&self, asked: &Proc, found: Vec<(Proc, Vec<Info>)>) -> Result<Vec<u8>, Status> {
        let of = |(proc, entries)| (named(proc, asked), entries);
        let found: Vec<(Proc, Vec<Posted>)> = answers::posted(found).into_iter().map(of).collect();
        let number = {
            let mut known = self.known();
            known.fetched.extend(found.iter().map(|(proc, _)| proc.clone()).filter(|proc| proc.rank.is_process()));
            known.answers += 1;
            known.answers
        };
        blob_of_host(asked, number, found)
    }
}

/// Returns whether a rank is meant where another one, or a wildcard, is named.
fn is_of(rank: Rank, named: Rank) -> bool {
    rank == named || !named.is_process()
}

/// An answer about a rank of no name is about whom was asked for.
fn named(proc: Proc, asked: &Proc) -> Proc {
    if proc.rank.is_process() { proc } else { asked.clone() }
}
