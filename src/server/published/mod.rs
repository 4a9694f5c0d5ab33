//! Published data, for a host that keeps it itself: what processes publish for others to look up by a key alone.
//!
//! The store is the host's, and no room of the server: it is shared between threads, and reads the clock. A host hands
//! each `publish`, `lookup` and `unpublish` on to its [`PublishedData`] and tells it of ends: of a process
//! ([`process_ended`](PublishedData::process_ended)) and of a namespace
//! ([`namespace_ended`](PublishedData::namespace_ended)). Data goes when its persistence says so; a look-up that waits
//! goes with the process that waits.
//!
//! Three things decide who finds what: the user, because nobody finds data of another user who has not given him or his
//! group access (`PMIX_ACCESS_PERMISSIONS`); the range it was published with; and the range of the look-up, where that
//! names one: among several items of one key, the one of that very range comes first. "This node" is whoever asks this
//! store, unless a host of several nodes says which one a call comes from ([`NODE`]). Two items of one key in one range
//! cannot be told apart: the second is refused with `ERR_DUPLICATE_KEY`.
//!
//! [`access`] has these rules, [`items`] the data, and [`waiting`] the look-ups that wait for more.
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::ctx::accounts::Accounts;
use super::host::{Accepted, Answer, Completion, Published};
use crate::data::constants::persistence::{PERSIST_APP, PERSIST_INVALID, PERSIST_PROC, PERSIST_SESSION};
use crate::data::{DataRange, Info, InfoList, Key, Nspace, Proc, Status, Text, Value, keys};

mod access;
mod items;
mod lookup;
#[cfg(test)]
mod tests;
mod waiting;

use access::Access;
pub use access::NODE;
use items::{Item, Items, MAX_OF_JOB};
use lookup::Lookup;
use waiting::WaitList;

/// A store of published data. Every method may be called from any thread.
///
/// ```
/// use instanton::data::{Info, Nspace, Proc, Rank, Status, Text};
/// use instanton::server::{Completion, Published, PublishedData};
/// let (store, publisher) = (PublishedData::default(), Proc::new(Nspace::new("job@1")?, Rank(0)));
/// assert_eq!(store.publish(&publisher, &[Info::new("port", "17")]), Ok(()));
/// assert_eq!(store.publish(&publisher, &[Info::new("port", "18")]), Err(Status::ERR_DUPLICATE_KEY));
/// let (asker, key) = (Proc::new(Nspace::new("job@2")?, Rank(3)), Text::new("port")?);
/// let show = Completion::new(|found: Result<Published, Status>| assert_eq!(found.unwrap().1[0].value, "17".into()));
/// assert!(store.lookup(&asker, &[key], &[], show).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct PublishedData(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    items: Items,
    waiting: WaitList,
}

impl PublishedData {
    /// Creates a store that keeps so many bytes of one job at most, and half of that of one process. However many that
    /// are, one job has half of the store.
    pub fn with_job_memory(bytes: u64) -> Self {
        let mut state = State::default();
        state.items.accounts = Accounts::new(bytes.min(MAX_OF_JOB), u64::MAX);
        PublishedData(Mutex::new(state))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes all of `info` that does not say how to publish ([`Host::publish`](super::Host::publish)): all of it,
    /// or nothing. The default range is `RANGE_SESSION`, the default persistence `PERSIST_APP`.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without data or with a range or persistence that is none; `ERR_NOT_SUPPORTED` for an attribute of
    /// the Standard's that is required and says nothing of publishing; `ERR_DUPLICATE_KEY` for a key that is
    /// published in that range already; `ERR_OUT_OF_RESOURCE` when the store is full, or the publisher or its job has
    /// published as much as it may.
    pub fn publish(&self, publisher: &Proc, info: &[Info]) -> Result<(), Status> {
        self.publish_owned(publisher, info.to_vec())
    }

    /// As [`publish`](Self::publish), without a copy ([`Host::publish_owned`](super::Host::publish_owned)).
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn publish_owned(&self, publisher: &Proc, info: Vec<Info>) -> Result<(), Status> {
        let access = Access::read(publisher, &info)?;
        let persistence = match info.find(keys::PERSISTENCE).map(|info| &info.value) {
            None | Some(Value::Persist(PERSIST_INVALID)) => PERSIST_APP,
            Some(Value::Persist(known)) if *known <= PERSIST_SESSION => *known,
            Some(_) => return Err(Status::ERR_BAD_PARAM),
        };
        if info.iter().any(|info| info.key.is_reserved() && access::is_unserved(info)) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let data = info.into_iter().filter(|info| !access::is_directive(info));
        let new: Vec<(Key, Item)> =
            data.map(|info| (info.key, Item::new(info.value, access.clone(), persistence))).collect();
        if new.is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let mut guard = self.lock();
        let State { items, waiting } = &mut *guard;
        let keys: Vec<Key> = new.iter().map(|(key, _)| key.clone()).collect();
        items.add(new)?;
        let answers = waiting.answer(items, &keys);
        drop(guard);
        answers.give();
        Ok(())
    }

    /// Looks keys up ([`Host::lookup`](super::Host::lookup)). With `PMIX_WAIT` it waits until so many of them are there
    /// (0: all), for ever or for `PMIX_TIMEOUT` seconds: see [`expire`](PublishedData::expire). Success is to find all
    /// of them, a partial one (`ERR_PARTIAL_SUCCESS`) to find some. A key that is named several times counts
    /// once, and is answered once.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when none is there and none is waited for; `ERR_BAD_PARAM` for attributes of other types;
    /// `ERR_NOT_SUPPORTED` for one that is required and unknown;
    /// `ERR_OUT_OF_RESOURCE` when the process waits for too many keys, or for an answer that no message could carry.
    /// `done` is not called then.
    pub fn lookup(&self, asker: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        let (lookup, patience) = Lookup::read(asker, keys, info)?;
        let mut state = self.lock();
        if let Some(found) = state.items.answer(&lookup) {
            drop(state);
            found?.give(done);
            return Ok(Answer::Later);
        }
        let patience = patience.ok_or(Status::ERR_NOT_FOUND)?;
        if !state.waiting.has_room_for(&lookup) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let deadline = patience.0.and_then(|patience| Instant::now().checked_add(patience));
        state.waiting.add(lookup, deadline, done);
        Ok(Answer::Later)
    }

    /// Takes back what `publisher` has published ([`Host::unpublish`](super::Host::unpublish)): `keys` of one range,
    /// `RANGE_SESSION` unless `info` names another, as for what is published; without keys all of it, or all of a range
    /// that is named. A key that is not there is no error.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a range that is none; `ERR_NOT_SUPPORTED` for an attribute that is required and unknown.
    pub fn unpublish(&self, publisher: &Proc, keys: &[Text], info: &[Info]) -> Result<(), Status> {
        access::check(info)?;
        let range = access::range_in(info)?.or((!keys.is_empty()).then_some(DataRange::SESSION));
        // A text that no key can be names nothing.
        let named: Vec<Key> = keys.iter().filter_map(|key| Key::new(key.as_bytes()).ok()).collect();
        let named = (!keys.is_empty()).then_some(&named[..]);
        self.lock().items.remove(publisher, named, |item| range.is_none_or(|range| item.access.range == range));
        Ok(())
    }

    /// A process has ended: its data that lasts as long as it lives goes, and its look-ups wait no more.
    pub fn process_ended(&self, proc: &Proc) {
        let mut state = self.lock();
        state.items.remove(proc, None, |item| item.persistence == PERSIST_PROC);
        state.waiting.forget(proc);
    }

    /// A job begins that another one has led to: together with others of that kind it may publish three quarters of what
    /// that one may.
    pub fn namespace_led_by(&self, nspace: &Nspace, parent: &Nspace) {
        self.lock().items.accounts.descend(nspace, parent);
    }

    /// A tool comes. All tools together may publish three quarters of what one job may, be they still there or gone and
    /// have left data for the session.
    pub fn tool_came(&self, tool: &Nspace) {
        // No job has an empty name.
        self.lock().items.accounts.descend(tool, &Nspace::new("").expect("a legal name"));
    }

    /// A namespace has ended, and its applications with it. The items that it has left for the session go where others
    /// need their room, of the namespace first that has left most.
    pub fn namespace_ended(&self, nspace: &Nspace) {
        let mut state = self.lock();
        state.items.remove_of_job(nspace, |item| [PERSIST_PROC, PERSIST_APP].contains(&item.persistence));
        state.items.namespace_ended(nspace);
        state.items.accounts.forget(nspace);
        state.waiting.forget_job(nspace);
    }

    /// Time at which the next look-up has waited long enough: the host calls [`expire`](PublishedData::expire) then.
    pub fn deadline(&self) -> Option<Instant> {
        self.lock().waiting.deadline()
    }

    /// Ends the look-ups that have waited long enough, with `ERR_TIMEOUT`.
    pub fn expire(&self, now: Instant) {
        let late = self.lock().waiting.expire(now);
        late.give();
    }
}
