//! Fence: meeting the other participants.
//!
//! The server counts them; nothing here waits but the caller. What they have committed is in shared memory when the fence
//! ends, partly in segments that this process has not mapped: they are asked for before the fence is called done, so that a
//! Get after it finds everything at hand.
//!
//! # How a waiting caller is woken
//!
//! A caller that waits for its whole namespace, with no other fence of this process under way, asks with
//! [`Request::Meet`] and sleeps on two words at once: the job's word of release, which the server changes for all
//! processes together, and a *bell* of its own, which the control thread rings when the answer comes as a message, or none will
//! come because the server is dead. A release means that all have come. It is this fence's or a later one's, never that of
//! another before it: nothing else of this process was under way, and the server releases no fence before an older one. Every
//! failure, and the end of every other fence, is a message.
//!
//! The word is a hint to look at, and only as good as all who map it: a process of the job could move the others' sleep
//! elsewhere, so they look again by themselves after a while.
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use instanton_layout::sync::{AtomicU32, Ordering};

use crate::data::{Info, Proc, Rank};
use crate::message::Request;
use crate::store::JobReader;
use crate::sys::futex::Bell;

use super::connection::Waiter;
use super::{Client, Error, Inner, done};

/// When a sleeper looks again by itself for the first time; each time after that, twice as late, up to the last.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LAST_LOOK: Duration = Duration::from_secs(64);

/// The fences of this process that are under way.
pub(super) struct Meetings {
    /// Held while one is sent: they reach the server in the order in which they were counted.
    sending: Mutex<()>,
    count: AtomicU32,
}

impl Default for Meetings {
    fn default() -> Self {
        Self { sending: Mutex::default(), count: AtomicU32::new(0) }
    }
}

/// A fence under way.
struct UnderWay(Arc<Inner>);

impl UnderWay {
    /// Counts one more; says also whether it is the only one.
    fn begin(inner: &Arc<Inner>) -> (Self, bool) {
        let others = inner.meetings.count.fetch_add(1, Ordering::AcqRel);
        (Self(inner.clone()), others == 0)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.meetings.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where the control thread leaves an answer for a caller that sleeps.
struct Slip {
    answer: Mutex<Option<Result<(), Error>>>,
    bell: Bell,
}

impl Slip {
    fn new() -> Arc<Self> {
        Arc::new(Self { answer: Mutex::new(None), bell: Bell::new() })
    }

    /// Fills it when the answer comes, or is never to come.
    fn waiter(self: &Arc<Self>) -> Waiter {
        let slip = self.clone();
        Box::new(move |answer| slip.fill(done(answer)))
    }

    fn fill(&self, answer: Result<(), Error>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.bell.ring();
    }

    fn take(&self) -> Option<Result<(), Error>> {
        match self.bell.has_rung() {
            true => self.answer.lock().unwrap_or_else(PoisonError::into_inner).take(),
            false => None,
        }
    }
}

impl Client {
    /// A fence whose caller waits.
    pub(super) fn meet(&self, procs: &[Proc], info: &[Info]) -> Result<(), Error> {
        self.may_wait("PMIx_Fence")?;
        let inner = &self.inner;
        if !inner.link.has_server() {
            return self.wait("PMIx_Fence", |then| inner.fence_alone(procs, then));
        }
        let slip = Slip::new();
        let sending = inner.meetings.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let (under_way, alone) = UnderWay::begin(inner);
        let own = inner.proc.nspace.as_bytes();
        let word = inner.jobs.of(own).filter(|_| alone && inner.is_own_job(procs));
        let seen = word.map(|reader| (reader, reader.releases()));
        let request = match seen {
            Some((_, seen)) => Request::Meet { seen, info: info.to_vec() },
            None => Request::Fence { procs: procs.to_vec(), info: info.to_vec() },
        };
        let number = inner.link.numbered("PMIx_Fence", &request, slip.waiter())?;
        drop(sending);
        let answer = match seen {
            Some((reader, seen)) => released(reader, seen, &slip),
            None => answered(&slip),
        };
        inner.link.withdraw(number);
        drop(under_way);
        answer?;
        if inner.jobs.is_behind() {
            self.wait("PMIx_Fence", |then| {
                inner.map_news(move || then(Ok(())));
                Ok(())
            })?;
        }
        inner.posts.outcome()
    }
}

/// Sleeps until there was a release after `seen` others, or the answer.
fn released(reader: &JobReader, seen: u32, slip: &Slip) -> Result<(), Error> {
    let mut limit = FIRST_LOOK;
    loop {
        if reader.releases() != seen {
            return Ok(());
        }
        if let Some(answer) = slip.take() {
            return answer;
        }
        slip.bell.wait_beside(reader.release_address(), seen, limit);
        limit = LAST_LOOK.min(limit * 2);
    }
}

/// Sleeps until the answer.
fn answered(slip: &Slip) -> Result<(), Error> {
    loop {
        if let Some(answer) = slip.take() {
            return answer;
        }
        slip.bell.wait();
    }
}

impl Inner {
    pub(super) fn fence_nb(
        self: &Arc<Self>,
        procs: &[Proc],
        info: &[Info],
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        if !self.link.has_server() {
            return self.fence_alone(procs, then);
        }
        let request = Request::Fence { procs: procs.to_vec(), info: info.to_vec() };
        let inner = self.clone();
        let _sending = self.meetings.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let (under_way, _) = UnderWay::begin(self);
        let waiter = move |answer| {
            drop(under_way);
            match done(answer) {
                Ok(()) => inner.clone().map_news(move || then(inner.posts.outcome())),
                Err(error) => then(Err(error)),
            }
        };
        self.link.request("PMIx_Fence", &request, Box::new(waiter))
    }

    /// Whether these participants are the own namespace, as most callers name it.
    fn is_own_job(&self, procs: &[Proc]) -> bool {
        match procs {
            [] => true,
            [all] => all.rank == Rank::WILDCARD && all.nspace == self.proc.nspace,
            _ => false,
        }
    }

    /// A process without a server meets itself, and nobody else.
    fn fence_alone(
        self: &Arc<Self>,
        procs: &[Proc],
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        if procs.iter().any(|proc| !proc.matches(&self.proc)) {
            return Err(Error::NoServer { call: "PMIx_Fence" });
        }
        self.link.run_later(move || then(Ok(())));
        Ok(())
    }
}
