//! Put and Commit.
//!
//! A Put stays here until the Commit, which sends what was put since the last one and does not wait: the server
//! answers only when it cannot store that. A commit that failed is told to the next Commit, Fence or Finalize, once.
//!
//! Entries that were sent move to the table in which the process's own Gets look, so that nothing is copied; a Get that
//! comes before copies them there.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use instanton_layout::sync::{AtomicBool, Ordering};

use crate::data::{Key, Proc, Scope, Status, Value};
use crate::message::{Posted, Reply, Request};
use crate::trace;

use super::Error;
use super::connection::Link;
use super::local::Local;

/// Most Puts whose place is kept from one Commit to the next, so that a Put takes no memory for it.
const KEPT: usize = 64;

/// The values that this process posts.
pub(super) struct Posts {
    me: Arc<Proc>,
    /// The Puts, for the process's own Gets: all but those that are pending and not settled.
    own: Local,
    /// True if some Put is pending and not settled.
    unsettled: AtomicBool,
    pending: Mutex<Pending>,
    failure: Mutex<Option<Status>>,
}

#[derive(Debug, Default)]
struct Pending {
    entries: Vec<Posted>,
    /// The number of entries that are settled: copied for the own Gets.
    settled: usize,
    /// True once the server knows that this process has committed, be it nothing.
    told: bool,
}

impl Posts {
    pub(super) fn of(me: Arc<Proc>) -> Self {
        let (own, unsettled) = (Local::default(), AtomicBool::new(false));
        Self { me, own, unsettled, pending: Mutex::default(), failure: Mutex::default() }
    }

    pub(super) fn put(&self, scope: Scope, key: Key, value: Value) -> Result<(), Error> {
        match scope {
            Scope::LOCAL | Scope::REMOTE | Scope::GLOBAL => {
                let mut pending = self.lock();
                pending.entries.push(Posted { scope, key, value });
                self.unsettled.store(true, Ordering::Release);
            }
            Scope::INTERNAL => {
                let mut pending = self.lock();
                // An older Put of this key must not come after it.
                self.settle(&mut pending);
                self.keep(Posted { scope, key, value });
            }
            Scope::DEL_LOCAL | Scope::DEL_REMOTE | Scope::DEL_GLOBAL | Scope::DEL_INTERNAL => {
                return Err(Status::ERR_NOT_SUPPORTED.into());
            }
            _ => return Err(Status::ERR_BAD_PARAM.into()),
        }
        Ok(())
    }

    pub(super) fn commit(&self, link: &Link) -> Result<(), Error> {
        if link.has_server() {
            // Held while sending: two commits reach the server in the order in which they took their entries.
            let mut pending = self.lock();
            if !pending.entries.is_empty() || !pending.told {
                let request = Request::Commit { entries: std::mem::take(&mut pending.entries) };
                let sent = link.tell("PMIx_Commit", &request);
                if let Request::Commit { mut entries } = request {
                    let settled = std::mem::take(&mut pending.settled);
                    entries.drain(..).skip(settled).for_each(|posted| self.keep(posted));
                    self.unsettled.store(false, Ordering::Release);
                    if entries.capacity() <= KEPT {
                        pending.entries = entries;
                    }
                }
                sent?;
                pending.told = true;
            }
            // Without the lock: Puts and Gets of other threads go on.
            drop(pending);
            link.wait_until_sent();
        }
        self.outcome()
    }

    /// All Puts, for the process's own Gets.
    #[inline]
    pub(super) fn own(&self) -> &Local {
        // A thread that sees that all is settled sees what was settled.
        if self.unsettled.load(Ordering::Acquire) {
            self.settle(&mut self.lock());
        }
        &self.own
    }

    #[cold]
    fn settle(&self, pending: &mut Pending) {
        pending.entries.iter().skip(pending.settled).cloned().for_each(|posted| self.keep(posted));
        pending.settled = pending.entries.len();
        self.unsettled.store(false, Ordering::Release);
    }

    fn keep(&self, Posted { scope, key, value }: Posted) {
        self.own.store(self.me.clone(), scope, key, value);
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's word on a commit.
    pub(super) fn committed(&self, reply: Reply) {
        let status = match reply {
            Reply::Done(Status::SUCCESS) => return,
            Reply::Done(status) => status,
            _ => Status::ERR_COMM_FAILURE,
        };
        trace!("what was committed is not stored: {status}");
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(status);
    }

    /// The failure of an earlier commit, told once.
    pub(super) fn outcome(&self) -> Result<(), Error> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(status) => Err(status.into()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use instanton_layout::key::HashedKey;

    use super::*;
    use crate::data::{Nspace, Rank};
    use crate::sys::cell::Epoch;

    #[test]
    fn a_put_is_found_before_it_is_committed_and_the_last_one_counts() {
        let posts = Posts::of(Arc::new(Proc::new(Nspace::new("job").unwrap(), Rank(0))));
        let put = |scope, key: &str, value| posts.put(scope, Key::new(key).unwrap(), Value::Int(value)).unwrap();
        let find = |key: &str| {
            let key = HashedKey::new(key.as_bytes());
            posts.own().get(&Epoch::enter(), (b"job", Rank(0)), &key, None).cloned()
        };
        assert_eq!(find("a"), None);
        put(Scope::GLOBAL, "a", 1);
        put(Scope::LOCAL, "b", 2);
        assert_eq!((find("a"), find("b")), (Some(Value::Int(1)), Some(Value::Int(2))));
        put(Scope::GLOBAL, "a", 3);
        put(Scope::INTERNAL, "a", 4);
        assert_eq!(find("a"), Some(Value::Int(4)), "what is kept here came last");
        put(Scope::GLOBAL, "a", 5);
        assert_eq!(find("a"), Some(Value::Int(5)));
        let pending = posts.lock();
        assert_eq!((pending.entries.len(), pending.settled), (4, 4), "what is to be sent is there still");
    }
}
