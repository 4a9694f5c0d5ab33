//! Fence: meeting the other participants.
//!
//! The server counts them; nothing here waits but the caller. The data that they have committed is in shared memory
//! when the fence ends, partly in segments that this process has not mapped: these are asked for before the fence is
//! called done, so that a Get after it finds everything at hand.
//!
//! # How a waiting caller is woken
//!
//! A caller that waits for its whole namespace, with no other fence of this process under way, asks with
//! [`Request::Meet`] and sleeps on two words at once: the job's word of release, which the server changes for all
//! processes together, and the *bell* of its link, which the control thread rings when the answer comes as a message,
//! or none will come because the server is dead. A release means that all have come. It is this fence's or a later
//! one's, never that of another before it: nothing else of this process was under way, and the server releases no fence
//! before an older one. Every failure, and the end of every other fence, is a message.
//!
//! Groups of all of the job are made and ended at the same word ([`group`](super::group)), where every member waits
//! there for that. A process has one meeting at the word at a time, so it is the one that has ended; and while a thread
//! of it may sleep there, be it that the answer to that is on its way as a message, no fence that it takes part in by
//! another thread changes the word.
//!
//! The word is a hint to look at, and only as good as all who map it: a process of the job could move the others' sleep
//! elsewhere, so they look again by themselves after a while.
//!
//! Every process of a node goes this way at the same time, each with caches that others have used meanwhile: it takes
//! no memory, and touches little of what there is.
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use instanton_layout::sync::{AtomicU32, Ordering};

use crate::control::frame;
use crate::data::{Info, Proc, Rank, Status, Value, keys};
use crate::message::Request;
use crate::pending::{Call, Callback, Pending};
use crate::store::JobReader;

use super::answer::Answer;
use super::call::limit_in;
use super::clock::{Then, end_of, given_up};
use super::connection::{Link, Met};
use super::get::Way;
use super::{Client, Error, Inner};

/// Name of a fence in the trace.
const CALL: &str = "PMIx_Fence";

/// Time after which a sleeper looks again by itself for the first time; each time after that, twice as long, up to the
/// last.
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

/// A fence under way whose caller does not wait.
struct UnderWay(Arc<Inner>);

impl UnderWay {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.meetings.count.fetch_add(1, Ordering::AcqRel);
        Self(inner.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.meetings.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A fence that is prepared.
struct Fence {
    inner: Arc<Inner>,
    procs: Vec<Proc>,
    info: Vec<Info>,
}

impl Call<(), Error> for Fence {
    fn block(&mut self) -> Result<Option<()>, Error> {
        let Fence { inner, procs, info } = self;
        inner.may_wait(CALL)?;
        let met: Option<Result<(), Error>> = match inner.is_own_job(procs) {
            false => None,
            true => match collects(info) {
                Some(collect) => inner.meet(collect)?,
                None => {
                    let request = |seen| frame::request(&Request::Meet { seen, info: info.clone() });
                    let until = end_of(limit_in(info));
                    inner.meet_all(until, |link, seen| link.meet(CALL, request(seen)?.bytes()))?
                }
            },
        };
        let met = match met {
            Some(met) => met,
            None => inner.meet_slowly(procs.clone(), info.clone()),
        };
        met.map(Some)
    }

    fn send(self: Box<Self>, callback: Callback<(), Error>) -> Result<(), Error> {
        let Fence { inner, procs, info } = *self;
        inner.send_fence(procs, info, Way::Later, callback)
    }
}

impl Client {
    /// Meets the other participants (`PMIx_Fence`); no participants means the whole own namespace.
    ///
    /// # Errors
    /// The status of the server or the host, or of a commit that failed before.
    pub fn fence(&self, procs: &[Proc], info: &[Info]) -> Pending<(), Error> {
        let inner = self.inner.clone();
        self.pending(Fence { inner, procs: procs.to_vec(), info: info.to_vec() })
    }

    /// Meets all of the own namespace, with the data that they have committed or without, and blocks until they are
    /// there: what most programs do, in fewer steps.
    ///
    /// # Errors
    /// As [`fence`](Client::fence).
    #[inline]
    pub fn fence_all(&self, collect: bool) -> Result<(), Error> {
        self.inner.may_wait(CALL)?;
        match self.inner.meet(collect)? {
            Some(met) => met,
            None => {
                let info = collect.then(|| Info::new(keys::COLLECT_DATA, true));
                self.inner.meet_slowly(Vec::new(), info.into_iter().collect())
            }
        }
    }
}

impl Inner {
    /// Waits at the word of release in a fence of all, with their data or without; none when that cannot be.
    #[inline]
    fn meet(self: &Arc<Self>, collect: bool) -> Result<Option<Result<(), Error>>, Error> {
        self.meet_all(None, |link, seen| link.meet(CALL, &mut frame::meet(seen, collect)))
    }

    /// Waits at the word of release in a fence of all, or the given time; none when that cannot be.
    #[inline]
    fn meet_all(
        self: &Arc<Self>,
        until: Option<Instant>,
        send: impl FnOnce(&Link, u32) -> Result<bool, Error>,
    ) -> Result<Option<Result<(), Error>>, Error> {
        let Some(met) = self.meet_at_word(until, send)? else { return Ok(None) };
        let met = met.and_then(|answer| answer.map_or(Ok(()), |answer| answer.done()));
        if met.is_ok() && self.jobs.is_behind() {
            self.wait_for_news(until)?;
        }
        self.jobs.unmap_replaced();
        Ok(Some(met.and_then(|()| self.posts.outcome())))
    }

    /// Waits for the answer to a fence.
    #[cold]
    fn meet_slowly(self: &Arc<Self>, procs: Vec<Proc>, info: Vec<Info>) -> Result<(), Error> {
        self.block(|callback| self.send_fence(procs, info, Way::Blocked, callback))
    }

    /// Waits at the word of release for all of the job to come, or the given time; none when that cannot be. `send` is
    /// given what is there now.
    #[inline]
    pub(super) fn meet_at_word(
        self: &Arc<Self>,
        until: Option<Instant>,
        send: impl FnOnce(&Link, u32) -> Result<bool, Error>,
    ) -> Result<Option<Met>, Error> {
        let Some(reader) = self.jobs.of_server().filter(|_| self.link.has_server()) else { return Ok(None) };
        let sending = self.meetings.sending.lock().unwrap_or_else(PoisonError::into_inner);
        if self.meetings.count.load(Ordering::Acquire) > 0 && !self.settle_meeting(reader) {
            return Ok(None);
        }
        let seen = reader.releases();
        let is_held = send(&self.link, seen)?;
        self.meetings.count.fetch_add(1, Ordering::AcqRel);
        drop(sending);
        if is_held {
            self.read_aside();
        }
        let met = match released(reader, seen, &self.link, until) {
            Some(met) => {
                self.link.end_meeting();
                met
            }
            None => match self.link.give_up_meeting(seen) {
                Some(answer) => answer,
                // It goes on being counted.
                None => return Ok(Some(given_up())),
            },
        };
        self.meetings.count.fetch_sub(1, Ordering::AcqRel);
        Ok(Some(met))
    }

    /// Counts a meeting no more that was given up, if it is over; returns whether nothing else is under way then.
    #[cold]
    fn settle_meeting(&self, reader: &JobReader) -> bool {
        self.link.settle_meeting(reader.releases()) && self.meetings.count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    #[cold]
    pub(super) fn wait_for_news(self: &Arc<Self>, until: Option<Instant>) -> Result<(), Error> {
        self.block(|callback| {
            self.map_news_until(until, Way::Blocked, move || callback(Ok(())));
            Ok(())
        })
    }

    /// Maps what is new before it calls `then`, unless that takes longer: the fence is over, and a Get asks for the
    /// rest.
    fn map_news_until(self: &Arc<Self>, until: Option<Instant>, way: Way, then: impl FnOnce() + Send + 'static) {
        let then = self.link.bound(until, || (), Box::new(move |()| then()));
        self.map_news(way, move || then(()));
    }
}

/// Sleeps until there was a release after `seen` others, or the answer; none when neither has come in time.
#[inline]
fn released(reader: &JobReader, seen: u32, link: &Link, until: Option<Instant>) -> Option<Met> {
    let mut look = FIRST_LOOK;
    loop {
        if reader.releases() != seen {
            return Some(Ok(None));
        }
        if link.bell.has_rung()
            && let Some(answer) = link.met()
        {
            return Some(answer);
        }
        let mut nap = look;
        if let Some(until) = until {
            nap = nap.min(until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?);
        }
        link.bell.wait_beside(reader.release_address(), seen, nap);
        look = LAST_LOOK.min(look * 2);
    }
}

/// Returns whether data are collected, where these attributes say no more than that.
fn collects(info: &[Info]) -> Option<bool> {
    match info {
        [] => Some(false),
        [only] if only.flags == 0 && only.key == keys::COLLECT_DATA => match only.value {
            Value::Bool(collect) => Some(collect),
            _ => None,
        },
        _ => None,
    }
}

impl Inner {
    fn send_fence(
        self: &Arc<Self>,
        procs: Vec<Proc>,
        info: Vec<Info>,
        way: Way,
        then: Callback<(), Error>,
    ) -> Result<(), Error> {
        self.life.check()?;
        if !self.link.has_server() {
            return self.fence_alone(&procs, &info, then);
        }
        let until = end_of(limit_in(&info));
        let request = Request::Fence { procs, info };
        let inner = self.clone();
        let then: Then<Result<(), Error>> = Box::new(move |result| match result {
            Ok(()) => inner.clone().map_news_until(until, way, move || {
                inner.jobs.unmap_replaced();
                then(inner.posts.outcome());
            }),
            Err(error) => then(Err(error)),
        });
        let then = self.link.bound(until, given_up, then);
        let _sending = self.meetings.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = UnderWay::begin(self);
        let waiter = move |answer: Result<Answer, Error>| {
            // Be it late: the meeting is over now.
            drop(under_way);
            then(answer.and_then(Answer::done));
        };
        match way {
            Way::Blocked => self.look_up(CALL, &request, Box::new(waiter)),
            Way::Later => self.link.request(CALL, &request, Box::new(waiter))?,
        }
        Ok(())
    }

    /// Returns whether these participants are the own namespace, as most callers name it.
    fn is_own_job(&self, procs: &[Proc]) -> bool {
        match procs {
            [] => true,
            [all] => all.rank == Rank::WILDCARD && all.nspace == self.proc.nspace,
            _ => false,
        }
    }

    /// A process without a server meets itself, and nobody else.
    fn fence_alone(self: &Arc<Self>, procs: &[Proc], info: &[Info], then: Callback<(), Error>) -> Result<(), Error> {
        if procs.iter().any(|proc| !proc.matches(&self.proc)) {
            return Err(Error::NoServer { call: CALL });
        }
        if info.iter().any(|info| info.is_unserved(&[keys::COLLECT_DATA, keys::TIMEOUT])) {
            return Err(Status::ERR_NOT_SUPPORTED.into());
        }
        self.link.run_later(move || then(Ok(())));
        Ok(())
    }
}
