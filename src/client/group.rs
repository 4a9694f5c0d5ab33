//! Groups of processes: making them, leaving them, ending them.
//!
//! A group's name stands for its members wherever processes are named. The server knows who they are and translates; a Get is the
//! exception, because it is answered here: so the client remembers the members of its groups. A process that is told of
//! a group under construction may have to decide how that goes on: the answers of the event's handlers go to the server
//! when the last of them has completed.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::control::frame;
use crate::data::{Info, InfoList, Key, Nspace, Proc, Rank, Status, Value, keys};
use crate::message::{Decision, GroupCall, Infos, Request, group_results, key_in_context, replace_named};
use crate::pending::{Call, Callback, Pending};
use crate::store::Directives;

use super::call::{infos, limit_in, nothing, taken};
use super::clock::{end_of, given_up};
use super::events::{Event, procs_of};
use super::get::Way;
use super::names::Members;
use super::{Client, Error, Inner};

/// The groups that this process is in, each with its members by group rank.
#[derive(Default)]
pub(super) struct Groups(Mutex<BTreeMap<Nspace, Vec<Proc>>>);

impl Groups {
    /// The process that is meant where a rank of a group is named.
    pub(super) fn native(&self, proc: &Proc) -> Option<Proc> {
        self.lock().get(&proc.nspace)?.get(proc.rank.0 as usize).cloned()
    }

    /// Returns whether this process is in a group of that name.
    pub(super) fn has(&self, name: &Nspace) -> bool {
        self.lock().contains_key(name)
    }

    /// Attributes with the members of groups, and of sets that are `known`, in the place of their names, where they say
    /// for whom or of whom something is.
    pub(super) fn translate(&self, info: &[Info], known: &Members) -> Vec<Info> {
        let (groups, mut info) = (self.lock(), info.to_vec());
        let named = |name: &Nspace| groups.get(name).or_else(|| known.get(name));
        let members = |proc: Proc| match (named(&proc.nspace), proc.rank) {
            (Some(members), Rank::WILDCARD) => members.clone(),
            (Some(members), Rank(rank)) => members.get(rank as usize).cloned().into_iter().collect(),
            (None, _) => vec![proc],
        };
        if !groups.is_empty() || !known.is_empty() {
            let _ = replace_named(&mut info, |procs| Ok(procs.into_iter().flat_map(members).collect()));
        }
        info
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Nspace, Vec<Proc>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Directives {
    /// The key to look up where information is meant that processes have given to a group (`PMIX_GROUP_CONTEXT_ID`). It came
    /// with the group: nobody posts it later.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a key that is too long.
    pub(super) fn in_context(&mut self, key: &[u8]) -> Result<Option<Key>, Status> {
        let Some(context) = self.context.take() else { return Ok(None) };
        self.immediate = true;
        key_in_context(context, key).map(Some).ok_or(Status::ERR_BAD_PARAM)
    }
}

/// The way of a call about a group by a message.
type ByMessage<T> = fn(&Arc<Inner>, &'static str, Nspace, GroupCall, Callback<T, Error>) -> Result<(), Error>;

/// A call about a group, prepared.
struct OfGroup<T> {
    inner: Arc<Inner>,
    name: &'static str,
    group: Nspace,
    call: Result<GroupCall, Status>,
    take: fn(Infos) -> T,
    send: ByMessage<T>,
}

impl<T: 'static> Call<T, Error> for OfGroup<T> {
    fn block(&mut self) -> Result<Option<T>, Error> {
        self.inner.may_wait(self.name)?;
        let Ok(call) = &mut self.call else { return Ok(None) };
        let met = self.inner.meet_group(self.name, &self.group, call)?;
        met.map(|result| result.map(self.take)).transpose()
    }

    fn send(self: Box<Self>, callback: Callback<T, Error>) -> Result<(), Error> {
        let OfGroup { inner, name, group, call, send, .. } = *self;
        inner.life.check()?;
        let limit = call.as_ref().ok().and_then(|call| limit_in(call.attributes()));
        let callback = inner.link.bound(end_of(limit), given_up, callback);
        send(&inner, name, group, call?, callback)
    }
}

impl Inner {
    /// Makes a group, and has what its members have posted at hand before `then` is called.
    fn enter_group(
        self: &Arc<Self>,
        call: &'static str,
        group: Nspace,
        what: GroupCall,
        then: Callback<Infos, Error>,
    ) -> Result<(), Error> {
        if group.is_empty() {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        let (inner, name) = (self.clone(), group.clone());
        let waiter = move |answer| {
            let result = taken(answer, infos);
            inner.note_group(name, &result);
            inner.clone().map_news(Way::Later, move || then(result));
        };
        self.link.request(call, &Request::Group { group, call: what, seen: None }, Box::new(waiter))
    }

    /// Ends a group, or this process's part in it.
    fn end_group(
        self: &Arc<Self>,
        call: &'static str,
        group: Nspace,
        what: GroupCall,
        then: Callback<(), Error>,
    ) -> Result<(), Error> {
        if group.is_empty() {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        let (inner, name) = (self.clone(), group.clone());
        self.ask_for(call, &Request::Group { group, call: what, seen: None }, nothing, move |result| {
            if result.is_ok() {
                inner.own.groups.lock().remove(&name);
            }
            then(result);
        })
    }

    /// Remembers the members of a group that this process is in now.
    fn note_group(&self, group: Nspace, result: &Result<Infos, Error>) {
        let Ok((_, infos)) = result else { return };
        if infos.find(keys::GROUP_MEMBERSHIP).is_some() {
            self.own.groups.lock().insert(group, procs_of(infos, keys::GROUP_MEMBERSHIP));
        }
    }

    /// Makes or ends a group while the caller sleeps, mostly until the job's word of release changes; none where that
    /// way is not open. Only a group of all of the job is made or ended at the word, and another one by a message all
    /// the same.
    fn meet_group(
        self: &Arc<Self>,
        name: &'static str,
        group: &Nspace,
        call: &mut GroupCall,
    ) -> Result<Option<Result<Infos, Error>>, Error> {
        let (constructs, procs) = match &*call {
            GroupCall::Construct { procs, .. } => (true, &procs[..]),
            GroupCall::Destruct { .. } => (false, &[][..]),
            _ => return Ok(None),
        };
        // A call that is late may still make a group, and has to be seen to.
        let may_be_late = limit_in(call.attributes()).is_some();
        if group.is_empty() || may_be_late || procs.iter().any(|proc| proc.nspace != self.proc.nspace) {
            return Ok(None);
        }
        let taken_out = std::mem::replace(call, GroupCall::Destruct { info: Vec::new() });
        let mut request = Request::Group { group: group.clone(), call: taken_out, seen: None };
        let met = self.meet_at_word(None, |link, now| {
            if let Request::Group { seen, .. } = &mut request {
                *seen = Some(now);
            }
            link.meet(name, frame::request(&request)?.bytes())
        })?;
        if let Request::Group { call: sent, .. } = request {
            *call = sent;
        }
        let Some(met) = met else { return Ok(None) };
        let result = met.and_then(|answer| match (answer, &*call) {
            (Some(answer), _) => taken(Ok(*answer), infos),
            (None, GroupCall::Construct { procs, .. }) => Ok((Status::SUCCESS, group_results(group, None, procs))),
            (None, _) => Ok((Status::SUCCESS, Vec::new())),
        });
        if constructs {
            self.note_group(group.clone(), &result);
            if self.jobs.is_behind() {
                self.wait_for_news(None)?;
            }
        } else if result.is_ok() {
            self.own.groups.lock().remove(group);
        }
        Ok(Some(result))
    }

    /// The handlers of an event are through: their answer may matter to a group; on the control thread.
    pub(super) fn group_decided(&self, event: &Event, results: &[Info]) {
        let Some(vote) = event.vote.filter(|_| self.link.is_connected()) else { return };
        let name = event.info.find(keys::GROUP_ID).and_then(|info| info.value.as_text());
        let Some(group) = name.and_then(|name| Nspace::new(name).ok()) else { return };
        let decision = Decision {
            vote,
            abort: results.iter().any(|info| info.value == Value::Status(Status::GROUP_CONSTRUCT_ABORT)),
            lead: results.is_set(keys::GROUP_LEADER),
            add: procs_of(results, keys::GROUP_ADD_MEMBERS),
        };
        // A server that is gone has no group under construction.
        let request = Request::Group { group, call: GroupCall::Decide(decision), seen: None };
        let _ = self.ask_for("an event handler", &request, nothing, |_| ());
    }
}

impl Client {
    /// Makes a group of processes, which all call this with the same list (`PMIx_Group_construct`), and waits for them. Answers the
    /// group's members (`PMIX_GROUP_MEMBERSHIP`) and the context id that the host has given it, where one was asked for; the status
    /// is `ERR_PARTIAL_SUCCESS` when some have not come and need not.
    ///
    /// Processes on the list may add members (`PMIX_GROUP_ADD_MEMBERS`), who call this without a list. Leaders that do
    /// not know each other name themselves, and how many they are (`PMIX_GROUP_BOOTSTRAP`).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without a name, `ERR_EXISTS` for a name that is taken, `ERR_NOT_A_MEMBER` when this process is not
    /// among them; `ERR_PROC_TERM_WO_SYNC` when one of them is gone, `GROUP_CONSTRUCT_ABORT` when one gives it up, `ERR_TIMEOUT`;
    /// `ERR_NOT_SUPPORTED` by a host without groups, where it is needed.
    pub fn group_construct(&self, group: &Nspace, procs: &[Proc], info: &[Info]) -> Pending<Infos, Error> {
        let call = GroupCall::Construct { procs: procs.to_vec(), info: info.to_vec() };
        self.enter_group("PMIx_Group_construct", group, Ok(call))
    }

    /// Ends a group (`PMIx_Group_destruct`): all its members call this.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when there is no such group, `ERR_NOT_A_MEMBER` when this process is not in it; `ERR_PROC_TERM_WO_SYNC` when a
    /// member is gone, unless the group's members are told so by an event; `ERR_TIMEOUT`; what the host answers.
    pub fn group_destruct(&self, group: &Nspace, info: &[Info]) -> Pending<(), Error> {
        self.end_group("PMIx_Group_destruct", group, GroupCall::Destruct { info: info.to_vec() })
    }

    /// Leaves a group (`PMIx_Group_leave`). The others are told by the event `GROUP_LEFT`, which is on its way when
    /// this is answered.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when there is no such group, `ERR_NOT_A_MEMBER` when this process is not in it.
    pub fn group_leave(&self, group: &Nspace, info: &[Info]) -> Pending<(), Error> {
        self.end_group("PMIx_Group_leave", group, GroupCall::Leave { info: info.to_vec() })
    }

    fn end_group(&self, name: &'static str, group: &Nspace, call: GroupCall) -> Pending<(), Error> {
        let (inner, group) = (self.inner.clone(), group.clone());
        self.pending(OfGroup { inner, name, group, call: Ok(call), take: |_| (), send: Inner::end_group })
    }

    /// Prepares a call that makes a group.
    fn enter_group(
        &self,
        name: &'static str,
        group: &Nspace,
        call: Result<GroupCall, Status>,
    ) -> Pending<Infos, Error> {
        let (inner, group) = (self.inner.clone(), group.clone());
        self.pending(OfGroup { inner, name, group, call, take: |infos| infos, send: Inner::enter_group })
    }

    /// Invites processes into a new group that this process leads (`PMIx_Group_invite`), and waits until each has accepted or was
    /// given up. Those that accept are released from their join when this ends.
    ///
    /// # Errors
    /// As [`group_construct`](Client::group_construct); `GROUP_CONSTRUCT_ABORT` when somebody does not come and no handler of this
    /// process for that event says that the rest goes on.
    pub fn group_invite(&self, group: &Nspace, procs: &[Proc], info: &[Info]) -> Pending<Infos, Error> {
        let call = match procs {
            [] => Err(Status::ERR_BAD_PARAM),
            procs => Ok(GroupCall::Invite { procs: procs.to_vec(), info: info.to_vec() }),
        };
        self.enter_group("PMIx_Group_invite", group, call)
    }

    /// Answers an invitation (`PMIx_Group_join`), and waits for the group when that is yes. It is answered to `leader`, or without
    /// one to whoever has invited.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when this process is not invited, `GROUP_CONSTRUCT_ABORT` when the group is not made, `ERR_TIMEOUT`.
    pub fn group_join(
        &self,
        group: &Nspace,
        leader: Option<&Proc>,
        accept: bool,
        info: &[Info],
    ) -> Pending<Infos, Error> {
        let call = GroupCall::Join { leader: leader.cloned(), accept, info: info.to_vec() };
        self.enter_group("PMIx_Group_join", group, Ok(call))
    }
}
