//! Groups that all members make together, and end together: `PMIx_Group_construct`, `PMIx_Group_destruct`.
//!
//! Those who name each other meet as in a fence, under the group's name, so that a fence of the same processes runs beside. When those of this node have
//! come, a group that is all here is made at once, unless the host is to give it a context id. Otherwise the host is asked, once; what
//! members have posted and given for the group goes with it to the other nodes, as one blob, and theirs comes back. The blob also
//! says who has come.
//!
//! A member that dies before it has come ends the operation for the others. With `PMIX_GROUP_OPTIONAL` or
//! `PMIX_GROUP_FT_COLLECTIVE` the rest goes on without it, and so it does with `PMIX_GROUP_NOTIFY_TERMINATION`: there the leader, or
//! every member where none has declared itself, is told, and the group is not made before the handlers of those told here have
//! decided. One of them may give it up. When the leader itself dies, the others are asked for another one.
use std::collections::BTreeSet;

use super::blob::{self, Failure, OfRank, Others};
use super::bootstrap::{added, is_assembled};
use super::election::Election;
use super::fence::{Caller, Tracker};
use super::groups::{self, Group};
use super::members::Operation;
use super::of_group::OfGroup;
use super::router::Router;
use crate::collect_small::collect_small;
use crate::data::constants::group_operation::{GROUP_CONSTRUCT, GROUP_DESTRUCT};
use crate::data::{Info, InfoList, Key, Nspace, Proc, Scope, Status, Value, keys};
use crate::message::door::PeerId;
use crate::message::{Decision, Infos, Posted, Reply, key_in_context};
use crate::trace;

/// Attributes of making a group that the library serves itself.
const SERVED: [&str; 12] = [
    keys::GROUP_ADD_MEMBERS,
    keys::GROUP_ASSIGN_CONTEXT_ID,
    keys::GROUP_BOOTSTRAP,
    keys::GROUP_ENDPT_DATA,
    keys::GROUP_FT_COLLECTIVE,
    keys::GROUP_ID,
    keys::GROUP_INFO,
    keys::GROUP_LEADER,
    keys::GROUP_LOCAL_ONLY,
    keys::GROUP_NOTIFY_TERMINATION,
    keys::GROUP_OPTIONAL,
    keys::TIMEOUT,
];

/// Whether an attribute is required, and the host would have to serve it.
pub(super) fn is_unserved(info: &Info) -> bool {
    info.is_required() && !SERVED.iter().any(|key| info.key == *key)
}

pub(super) fn is_construct(tracker: &Tracker, id: &Nspace) -> bool {
    matches!(tracker.members.operation(), Operation::Construct(of) if of == id)
}

impl Tracker {
    /// Whether others are to be members than those who meet.
    pub(super) fn has_added(&self) -> bool {
        self.of_group.as_ref().is_some_and(|group| !group.added.is_empty())
    }
}

impl Router {
    /// A client comes to make a group.
    pub(super) fn construct(&mut self, caller: Caller, proc: Proc, id: Nspace, procs: Vec<Proc>, info: Vec<Info>) {
        if procs.is_empty() || info.find(keys::GROUP_BOOTSTRAP).is_some() {
            return self.come_alone(caller, proc, id, procs, info);
        }
        if let Err(status) = self.may_construct(&proc, &id, &procs, &info) {
            trace!("{proc} cannot make the group {id}: {status}");
            return self.cx.reply_status(caller.peer, caller.number, Err(status));
        }
        self.meet(caller, proc, Operation::Construct(id), procs, info);
    }

    fn may_construct(&self, proc: &Proc, id: &Nspace, procs: &[Proc], info: &[Info]) -> Result<(), Status> {
        self.may_begin(id)?;
        added(info)?;
        // What is wrong with the list itself is said by the meeting.
        let Ok(members) = self.members(proc, Operation::Construct(id.clone()), procs) else { return Ok(()) };
        let mut under_way = self.fences.gathering.values().flatten().chain(self.fences.at_host.values());
        let another = |tracker: &Tracker| {
            let same = tracker.members == members && !tracker.arrived.contains(proc);
            tracker.failed.is_none() && is_construct(tracker, id) && !same
        };
        if under_way.any(another) {
            return Err(Status::ERR_EXISTS);
        }
        let elsewhere = self.jobs.census(&members).elsewhere;
        if elsewhere && info.is_set(keys::GROUP_LOCAL_ONLY) {
            return Err(Status::ERR_BAD_PARAM);
        }
        if !elsewhere && info.iter().any(is_unserved) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
    }

    /// A client comes to end a group.
    pub(super) fn destruct(&mut self, caller: Caller, proc: Proc, id: Nspace, mut info: Vec<Info>) {
        let refused = match self.groups.get(&id) {
            None => Status::ERR_NOT_FOUND,
            Some(group) if !group.has(&proc) => Status::ERR_NOT_A_MEMBER,
            Some(group)
                if info.iter().any(is_unserved) && group.members().iter().all(|member| self.jobs.runs_here(member)) =>
            {
                Status::ERR_NOT_SUPPORTED
            }
            Some(group) => {
                info.extend(group.notify.then(|| Info::new(keys::GROUP_NOTIFY_TERMINATION, true)));
                let members = self.failed_destruct(&id, &proc).unwrap_or_else(|| group.members());
                return self.meet(caller, proc, Operation::Destruct(id), members, info);
            }
        };
        self.cx.reply_status(caller.peer, caller.number, Err(refused));
    }

    /// The members of a destruct that has failed, for one who has still to hear of it.
    fn failed_destruct(&self, id: &Nspace, proc: &Proc) -> Option<Vec<Proc>> {
        let is_it = |tracker: &&Tracker| {
            let ends = matches!(tracker.members.operation(), Operation::Destruct(of) if of == id);
            ends && tracker.failed.is_some() && !tracker.arrived.contains(proc)
        };
        Some(self.fences.gathering.values().flatten().find(is_it)?.members.procs())
    }

    /// Everybody of this node has come to make a group, or to end one.
    pub(super) fn group_at_host(&mut self, tracker: Tracker) {
        let Some(of_group) = &tracker.of_group else { return };
        let (group, context) = (of_group.id.clone(), of_group.context);
        let constructs = is_construct(&tracker, &group);
        let added = of_group.added.clone();
        let needs_host = tracker.census.elsewhere || constructs && (context || !added.is_empty());
        if !needs_host {
            return self.group_done(tracker, &[], Others::default());
        }
        let come: Vec<Proc> = tracker.arrived.procs().collect();
        let data = match constructs.then(|| self.group_data(&come, of_group)).transpose() {
            Ok(data) => data,
            Err(status) => return self.fails_at_host(tracker, status),
        };
        let operation = tracker.members.operation().clone();
        let (id, procs, mut info) = self.hand_over(tracker);
        info.extend(data.map(|data| Info::new(keys::GROUP_ENDPT_DATA, data)));
        // One of the others may have said so, and not the first.
        if constructs && context && info.find(keys::GROUP_ASSIGN_CONTEXT_ID).is_none() {
            info.push(Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true));
        }
        if !added.is_empty() {
            info.retain(|info| info.key != keys::GROUP_ADD_MEMBERS);
            info.push(Info::new(keys::GROUP_ADD_MEMBERS, groups::procs(self.jobs.each(&added))));
        }
        self.ask_host_of_group(&operation, &procs, &info, move |router, result| router.group_answered(id, result));
    }

    /// Has the host do a group's operation.
    pub(super) fn ask_host_of_group(
        &mut self,
        operation: &Operation,
        procs: &[Proc],
        info: &[Info],
        then: impl FnOnce(&mut Router, Result<Infos, Status>) + Send + 'static,
    ) {
        let (operation, group) = match operation {
            Operation::Construct(group) => (GROUP_CONSTRUCT, group),
            Operation::Destruct(group) => (GROUP_DESTRUCT, group),
            _ => return,
        };
        let nothing = (Status::SUCCESS, Vec::new());
        self.ask_host(|host, done| host.group(operation, group, procs, info, done), nothing, then);
    }

    /// What members of this node have posted, and given for the group: the latter with the scope INTERNAL.
    pub(super) fn group_data(&self, come: &[Proc], group: &OfGroup) -> Result<Vec<u8>, Status> {
        let mut ranks = Vec::new();
        for proc in come {
            let posted = self.jobs.stored(&proc.nspace).map(|stored| stored.outbound(proc.rank)).transpose();
            let mut of = match posted.map_err(|e| e.status())? {
                Some(posted) => OfRank::new(&proc.nspace, posted),
                None => OfRank { proc: proc.clone(), commits: 0, entries: Vec::new() },
            };
            let given = group.given.get(proc).into_iter().flatten().cloned();
            of.entries.extend(given.map(|Info { key, value, .. }| Posted { scope: Scope::INTERNAL, key, value }));
            ranks.push(of);
        }
        blob::write(&self.sender(), ranks, None).map_err(|e| {
            trace!("what members of a group have posted cannot be sent: {e}");
            Status::ERR_PACK_FAILURE
        })
    }

    fn group_answered(&mut self, id: u64, result: Result<Infos, Status>) {
        let Some(tracker) = self.fences.at_host.remove(&id) else { return };
        let members = tracker.members.clone();
        self.group_answers(id, tracker, result);
        self.settle(&members);
    }

    fn group_answers(&mut self, id: u64, tracker: Tracker, result: Result<Infos, Status>) {
        let led = match tracker.members.operation() {
            Operation::Construct(group) if tracker.has_added() => Some(group.clone()),
            _ => None,
        };
        match result {
            Ok((status, infos)) if led.is_some() && is_assembled(status, &infos) => {
                let others = self.blobs_in(&infos);
                self.fences.at_host.insert(id, tracker);
                if let Some(group) = led {
                    self.assembled(&group, status, &infos, others);
                }
            }
            Ok((Status::SUCCESS | Status::OPERATION_SUCCEEDED, _)) | Err(Status::ERR_NOT_SUPPORTED)
                if led.is_some() =>
            {
                self.assemble_led(tracker);
            }
            Ok((Status::SUCCESS | Status::OPERATION_SUCCEEDED | Status::ERR_PARTIAL_SUCCESS, infos)) => {
                let others = self.blobs_in(&infos);
                match others {
                    Ok(others) => self.group_done(tracker, &infos, others),
                    Err(status) => self.answer(tracker, Err(status)),
                }
            }
            Err(Status::ERR_NOT_SUPPORTED) if !tracker.census.elsewhere => {
                let wanted = tracker.of_group.as_ref().is_some_and(|group| group.context);
                let context = wanted.then(|| self.groups.own_context());
                self.group_done(tracker, context.as_slice(), Others::default());
            }
            Ok((status, _)) | Err(status) => {
                trace!("meeting {id} of a group: the host answers {status}");
                self.answer(tracker, Err(status));
            }
        }
    }

    /// All members have come, on all nodes.
    fn group_done(&mut self, tracker: Tracker, infos: &[Info], others: Others) {
        if let Some(Failure { status, gone }) = &others.failure {
            trace!("meeting {} of a group has failed on another node with {status}; gone: {gone:?}", tracker.id);
            if let Operation::Destruct(id) = tracker.members.operation() {
                self.group_loses(&id.clone(), gone);
            }
            return self.answer(tracker, Err(*status));
        }
        if let Operation::Destruct(id) = tracker.members.operation() {
            self.disband(&id.clone());
            return self.answer(tracker, Ok(()));
        }
        match self.make_group(&tracker, infos, others.ranks) {
            Ok(reply) => self.answer_with(tracker, &reply),
            Err(status) => self.answer(tracker, Err(status)),
        }
    }

    fn make_group(&mut self, tracker: &Tracker, infos: &[Info], others: Vec<(u64, OfRank)>) -> Result<Reply, Status> {
        let group = tracker.of_group.as_ref().ok_or(Status::ERROR)?;
        let come: Option<BTreeSet<Proc>> =
            (!others.is_empty()).then(|| collect_small(others.iter().map(|(_, of)| of.proc.clone())));
        let context = self.share(group, infos, others)?;

        let wanted = self.jobs.each(&group.order);
        let named = named_in(infos);
        let is_in = |proc: &Proc| match self.jobs.runs_here(proc) {
            true => !group.absent.contains(proc),
            false => {
                come.as_ref().is_none_or(|come| come.contains(proc))
                    && named.as_ref().is_none_or(|named| named.iter().any(|name| name.matches(proc)))
            }
        };
        let places: Vec<Proc> = wanted.iter().filter(|proc| is_in(proc)).cloned().collect();
        let status = if places.len() < wanted.len() { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
        Ok(self.found(group, context, places, status))
    }

    /// The same where the host says who the members are.
    pub(super) fn make_assembled(
        &mut self,
        group: &OfGroup,
        status: Status,
        infos: &[Info],
        others: Vec<(u64, OfRank)>,
    ) -> Result<Reply, Status> {
        let context = self.share(group, infos, others)?;
        let places = self.jobs.each(&named_in(infos).unwrap_or_default());
        let status = if status == Status::ERR_PARTIAL_SUCCESS { status } else { Status::SUCCESS };
        Ok(self.found(group, context, places, status))
    }

    /// A group exists from now on; what its members are told.
    fn found(&mut self, group: &OfGroup, context: Option<u64>, places: Vec<Proc>, status: Status) -> Reply {
        let results = results(&group.id, context, &places);
        self.enroll(group.id.clone(), Group::new(places, context, group.notify));
        Reply::Infos(status, results)
    }

    /// Stores what members have posted and given, and returns the context id under which the latter is found.
    fn share(
        &mut self,
        group: &OfGroup,
        infos: &[Info],
        mut others: Vec<(u64, OfRank)>,
    ) -> Result<Option<u64>, Status> {
        let context = infos.find(keys::GROUP_CONTEXT_ID).and_then(|info| info.value.as_u64());
        if group.needs_context && context.is_none() {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        for (_, of) in &mut others {
            let (given, posted): (Vec<_>, Vec<_>) =
                std::mem::take(&mut of.entries).into_iter().partition(|entry| entry.scope == Scope::INTERNAL);
            let given = given.into_iter().map(|entry| (entry.key, entry.value));
            of.entries = [posted, in_context(given, context, Scope::GLOBAL)?].concat();
        }
        self.take_in(others)?;
        for (proc, given) in group.given.iter().filter(|(_, given)| !given.is_empty()) {
            let given = given.iter().map(|info| (info.key.clone(), info.value.clone()));
            self.store(proc, in_context(given, context, Scope::LOCAL)?)?;
        }
        Ok(context)
    }

    /// What other nodes say in the blobs that the host brings: one after the other in an attribute, or in an array.
    pub(super) fn blobs_in(&self, infos: &[Info]) -> Result<Others, Status> {
        let mut others = Others::default();
        for data in infos.iter().filter(|info| info.key == keys::GROUP_ENDPT_DATA) {
            match &data.value {
                Value::DataArray(array) => {
                    for bytes in array.items().iter().filter_map(|item| item.as_bytes()) {
                        others.add(self.others(bytes)?);
                    }
                }
                value => others.add(self.others(value.as_bytes().ok_or(Status::ERR_UNPACK_FAILURE)?)?),
            }
        }
        Ok(others)
    }

    /// A member that has not come is dead; whether the others go on.
    pub(super) fn goes_on_without(&mut self, tracker: &mut Tracker, proc: &Proc) -> bool {
        let constructs = matches!(tracker.members.operation(), Operation::Construct(_));
        let Some(group) = &mut tracker.of_group else { return false };
        let Some(news) = group.excuse(proc, false) else { return false };
        if news && constructs && group.notify && !group.optional {
            let others = group.leader.clone().map_or_else(|| self.jobs.each(&group.order), |leader| vec![leader]);
            let others = others.into_iter().filter(|other| other != proc).collect();
            let affected = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc.clone())];
            let told = self.tell_group(Status::GROUP_MEMBER_FAILED, proc, others, &group.id, affected);
            group.await_decisions(told);
        }
        true
    }

    /// A process is dead that may lead constructions under way.
    pub(super) fn construct_without(&mut self, proc: &Proc) {
        self.change_trackers(
            |tracker| {
                let led = |group: &OfGroup| group.leader.as_ref() == Some(proc) && !group.optional;
                tracker.failed.is_none() && tracker.of_group.as_ref().is_some_and(|group| led(group))
            },
            |router, tracker| {
                let Some(group) = &mut tracker.of_group else { return };
                group.leader = None;
                let others = router.jobs.each(&group.order).into_iter().filter(|other| other != proc).collect();
                let (told, election) = router.call_election(&group.id, proc, others);
                group.await_decisions(told);
                group.electing = Some(election);
                router.elected(tracker);
            },
        );
    }

    /// Says who leads when all have decided.
    pub(super) fn elected(&mut self, tracker: &mut Tracker) {
        let Some(group) = &mut tracker.of_group else { return };
        let Some((dead, leader)) = Election::end(&mut group.electing, group.deciding.is_empty()) else { return };
        group.leader = leader;
        let everybody = self.jobs.each(&group.order);
        self.tell_leader(&dead, group.leader.as_ref(), everybody, &group.id, Vec::new());
    }

    /// Tells who leads a group under construction in place of the dead, and what it is to know; none: nobody wants to. The event
    /// has a process of this node as its source, so that everybody else hears of it, wherever the host passes it on.
    pub(super) fn tell_leader(
        &mut self,
        dead: &Proc,
        leader: Option<&Proc>,
        to: Vec<Proc>,
        id: &Nspace,
        mut info: Vec<Info>,
    ) {
        info.push(Info::new(keys::GROUP_LEADER, leader.is_some()));
        info.extend(leader.map(|leader| Info::new(keys::EVENT_AFFECTED_PROC, leader.clone())));
        self.tell_group(Status::GROUP_LEADER_SELECTED, dead, to, id, info);
    }

    /// A process has decided about an event of a construction.
    pub(super) fn construct_decided(&mut self, peer: PeerId, id: &Nspace, decision: &Decision) {
        let Some(proc) = self.cx.peers.get(&peer).map(|entry| entry.proc.clone()) else { return };
        self.change_trackers(
            |tracker| {
                tracker.of_group.as_ref().is_some_and(|group| group.is_of(id) && group.deciding.contains_key(&peer))
            },
            |router, tracker| {
                let Some(group) = &mut tracker.of_group else { return };
                group.decided(peer);
                if let (Some(election), true) = (&mut group.electing, decision.lead) {
                    election.stands(proc.clone());
                }
                if !decision.abort {
                    return router.elected(tracker);
                }
                let others =
                    router.jobs.each(&group.order).into_iter().filter(|other| !router.jobs.runs_here(other)).collect();
                let id = group.id.clone();
                router.fail(tracker, Status::GROUP_CONSTRUCT_ABORT, &format!("{proc} has given it up"));
                router.tell_group(Status::GROUP_CONSTRUCT_ABORT, &proc, others, &id, Vec::new());
            },
        );
    }

    /// A connection is gone, and nobody decides there any more.
    pub(super) fn construct_undecided(&mut self, peer: PeerId) {
        self.change_trackers(
            |tracker| tracker.of_group.as_ref().is_some_and(|group| group.deciding.contains_key(&peer)),
            |router, tracker| {
                if let Some(group) = &mut tracker.of_group {
                    group.deciding.remove(&peer);
                }
                router.elected(tracker);
            },
        );
    }

    /// A member on another node has failed: those here who hear of it may decide.
    pub(super) fn construct_awaits(&mut self, id: &Nspace, event: Status, told: &[Proc]) {
        let peers = told.iter().filter_map(|proc| self.jobs.client(proc)?.peer);
        let told: Vec<PeerId> = peers.filter(|peer| self.cx.subscriptions.wants(*peer, event)).collect();
        self.change_trackers(
            |tracker| tracker.failed.is_none() && is_construct(tracker, id),
            |_, tracker| {
                if let Some(group) = &mut tracker.of_group {
                    group.await_decisions(told.iter().copied());
                }
            },
        );
    }

    /// A member has given a construction up.
    pub(super) fn construct_aborted(&mut self, source: &Proc, id: &Nspace) {
        let given_up = |tracker: &Tracker| is_construct(tracker, id) && tracker.members.contains(source);
        self.change_trackers(
            |tracker| tracker.failed.is_none() && given_up(tracker),
            |router, tracker| router.fail(tracker, Status::GROUP_CONSTRUCT_ABORT, &format!("{source} has given it up")),
        );
        let at_host = self.fences.at_host.extract_if(|_, tracker| given_up(tracker)).collect::<Vec<_>>();
        for (_, tracker) in at_host {
            let members = tracker.members.clone();
            self.answer(tracker, Err(Status::GROUP_CONSTRUCT_ABORT));
            self.settle(&members);
        }
    }
}

/// The members that the host names.
fn named_in(infos: &[Info]) -> Option<Vec<Proc>> {
    infos.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs())
}

/// What a member has given for a group, as it is stored: to be found with the group's context id, and the newest without.
fn in_context(
    given: impl Iterator<Item = (Key, Value)>,
    context: Option<u64>,
    scope: Scope,
) -> Result<Vec<Posted>, Status> {
    let mut entries = Vec::new();
    for (key, value) in given {
        if let Some(context) = context {
            let key = key_in_context(context, key.as_bytes()).ok_or(Status::ERR_BAD_PARAM)?;
            entries.push(Posted { scope, key, value: value.clone() });
        }
        entries.push(Posted { scope, key, value });
    }
    Ok(entries)
}

/// What members are told of a group that has been made.
pub(super) fn results(id: &Nspace, context: Option<u64>, members: &[Proc]) -> Vec<Info> {
    let context = context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context)));
    let membership = Info::new(keys::GROUP_MEMBERSHIP, groups::procs(members.to_vec()));
    context.into_iter().chain([membership, groups::id_of(id)]).collect()
}
