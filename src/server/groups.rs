//! Groups of processes: who is in which, and what their members are told.
//!
//! A group begins when its construction ends (`construct`; `bootstrap` where the members do not all know each other), or the one who
//! invited its members has them all (`invite`), and ends with its destruct, or with the last of its members here. From then until then its name is good wherever processes are named: it
//! stands for the members that are in the group, and with a rank for the one at that place of the list it was made from. Requests
//! are translated when they arrive, so nobody behind this file, and no host, sees a group's name where a namespace should be.
//! Processes of different jobs that share a group may map each other's memory, as if they had connected.
//!
//! A member that leaves keeps its place, so that the others keep their ranks. When one dies, those who remain are told so where
//! the group was made that way (`PMIX_GROUP_NOTIFY_TERMINATION`). Each server knows the groups that have members on its node.
use std::collections::{BTreeMap, BTreeSet};

use super::bootstrap::Singles;
use super::construct::is_unserved;
use super::ctx::event::{AfterRaise, Event, Origin};
use super::election::Polls;
use super::fence::Caller;
use super::invite::Invitations;
use super::members::Operation;
use super::router::Router;
use crate::data::{DataArray, DataRange, DataType, Info, InfoList, Nspace, Proc, Rank, Status, Text, Value, keys};
use crate::message::door::PeerId;
use crate::message::{Forward, GroupCall, Request};
use crate::trace;

/// Groups that one server knows, and invitations that it has open.
const MAX_GROUPS: usize = 65536;

/// A group that has been made.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// By group rank; who has left keeps its place.
    places: Vec<Proc>,
    left: BTreeSet<Proc>,
    /// The number that it was given, if it was.
    pub context: Option<u64>,
    /// Whether members are told of the death of others.
    pub notify: bool,
}

impl Group {
    pub(super) fn new(places: Vec<Proc>, context: Option<u64>, notify: bool) -> Self {
        Group { places, left: BTreeSet::new(), context, notify }
    }

    /// Who is in the group.
    pub(super) fn members(&self) -> Vec<Proc> {
        self.places.iter().filter(|proc| !self.left.contains(proc)).cloned().collect()
    }

    pub(super) fn has(&self, proc: &Proc) -> bool {
        self.places.contains(proc) && !self.left.contains(proc)
    }

    /// Those whom a rank of the group names.
    fn named(&self, rank: Rank) -> Result<Vec<Proc>, Status> {
        match rank {
            Rank::WILDCARD => Ok(self.members()),
            rank => Ok(vec![self.places.get(rank.0 as usize).cloned().ok_or(Status::ERR_BAD_PARAM)?]),
        }
    }
}

/// The groups with members on this node, and those that are being made by invitation.
#[derive(Debug, Default)]
pub(super) struct Groups {
    active: BTreeMap<Nspace, Group>,
    pub(super) invitations: Invitations,
    pub(super) singles: Singles,
    pub(super) polls: Polls,
    /// The last context id that was given here.
    last_context: u64,
}

impl Groups {
    /// A context id for a group that is all on this node, where the host knows no groups: it gives none to any other one either,
    /// so that no process comes to hold two that are the same.
    pub(super) fn own_context(&mut self) -> Info {
        self.last_context += 1;
        Info::new(keys::GROUP_CONTEXT_ID, Value::Size(self.last_context))
    }

    pub(super) fn get(&self, id: &Nspace) -> Option<&Group> {
        self.active.get(id)
    }

    /// Whether processes of one namespace share a group with those of the other.
    pub(super) fn bind(&self, a: &Nspace, b: &Nspace) -> bool {
        let has = |group: &Group, nspace: &Nspace| group.places.iter().any(|proc| proc.nspace == *nspace);
        self.active.values().any(|group| has(group, a) && has(group, b))
    }

    /// Processes with the names of groups replaced by their members.
    pub(super) fn native(&self, procs: Vec<Proc>) -> Result<Vec<Proc>, Status> {
        if !procs.iter().any(|proc| self.active.contains_key(&proc.nspace)) {
            return Ok(procs);
        }
        let named = |proc: Proc| match self.active.get(&proc.nspace) {
            Some(group) => group.named(proc.rank),
            None => Ok(vec![proc]),
        };
        Ok(procs.into_iter().map(named).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// A request with the names of groups replaced by their members. A fence remembers by which group it was named.
    pub(super) fn translate(&self, mut request: Request) -> Result<Request, Status> {
        if self.active.is_empty() {
            return Ok(request);
        }
        match &mut request {
            Request::Fence { procs, info } | Request::Connect { procs, info } | Request::Disconnect { procs, info } => {
                let group = procs.iter().find(|proc| self.active.contains_key(&proc.nspace));
                info.extend(group.map(|group| id_of(&group.nspace)));
                *procs = self.native(std::mem::take(procs))?;
            }
            Request::Abort { procs, .. }
            | Request::JobControl { targets: procs, .. }
            | Request::PullOutput { procs, .. }
            | Request::Group { call: GroupCall::Construct { procs, .. } | GroupCall::Invite { procs, .. }, .. } => {
                *procs = self.native(std::mem::take(procs))?;
            }
            Request::Get { proc, .. } => {
                if let Some(group) = self.active.get(&proc.nspace).filter(|_| proc.rank.is_process()) {
                    *proc = group.named(proc.rank)?.remove(0);
                }
            }
            Request::Forward(Forward::Push { targets: procs, .. }) => *procs = self.native(std::mem::take(procs))?,
            Request::Notify { info, .. }
            | Request::Forward(Forward::Publish { info } | Forward::Monitor { directives: info, .. }) => {
                for range in info.iter_mut().filter(|info| info.key == keys::EVENT_CUSTOM_RANGE) {
                    range.value = procs(self.native(range.value.as_procs().unwrap_or_default())?);
                }
            }
            _ => {}
        }
        Ok(request)
    }

    /// What a query for one of their keys answers; `group` is the one that the query names.
    pub(super) fn answer(&self, key: &str, group: Option<&Text>) -> Option<Value> {
        match key {
            keys::QUERY_NUM_GROUPS => Some(Value::Size(self.active.len() as u64)),
            keys::QUERY_GROUP_NAMES => {
                let names = self.names().map(|name| Value::string(name.as_bytes())).collect();
                DataArray::new(DataType::STRING, names).ok().map(Value::DataArray)
            }
            keys::QUERY_GROUP_MEMBERSHIP => {
                let id = Nspace::new(group?.as_bytes()).ok()?;
                Some(procs(self.active.get(&id)?.members()))
            }
            _ => None,
        }
    }

    /// The names of all groups.
    pub(super) fn names(&self) -> impl Iterator<Item = &Nspace> {
        self.active.keys()
    }
}

/// The attribute that names a group.
pub(super) fn id_of(group: &Nspace) -> Info {
    Info::new(keys::GROUP_ID, Value::string(group.as_bytes()))
}

/// An array of processes.
pub(super) fn procs(procs: Vec<Proc>) -> Value {
    let procs = procs.into_iter().map(Value::from).collect();
    DataArray::new(DataType::PROC, procs).map_or(Value::Undef, Value::DataArray)
}

/// Whom an event is for.
fn range_of(info: &[Info]) -> Vec<Proc> {
    info.find(keys::EVENT_CUSTOM_RANGE).and_then(|info| info.value.as_procs()).unwrap_or_default()
}

/// The group that an event is about.
pub(super) fn group_of(info: &[Info]) -> Option<Nspace> {
    Nspace::new(info.find(keys::GROUP_ID)?.value.as_text()?).ok()
}

impl Router {
    /// A client wants something of a group.
    pub(super) fn group_call(&mut self, caller: Caller, proc: Proc, id: Nspace, call: GroupCall) {
        let Caller { peer, number, .. } = caller;
        let refused = match &call {
            _ if id.is_empty() => Some(Status::ERR_BAD_PARAM),
            GroupCall::Leave { info } | GroupCall::Invite { info, .. } | GroupCall::Join { info, .. } => {
                info.iter().any(is_unserved).then_some(Status::ERR_NOT_SUPPORTED)
            }
            _ => None,
        };
        if let Some(status) = refused {
            trace!("{proc} asks for what cannot be of the group {id}: {status}");
            return self.cx.reply_status(peer, number, Err(status));
        }
        match call {
            GroupCall::Construct { procs, info } => self.construct(caller, proc, id, procs, info),
            GroupCall::Destruct { info } => self.destruct(caller, proc, id, info),
            GroupCall::Leave { .. } => {
                let result = self.leave(&proc, &id);
                self.cx.reply_status(peer, number, result);
            }
            GroupCall::Invite { procs, info } => self.invite(caller, proc, id, procs, info),
            GroupCall::Join { leader, accept, info } => {
                self.join_group(caller, proc, id, leader.as_ref(), accept, &info);
            }
            GroupCall::Decide(decision) => {
                self.construct_decided(peer, &id, &decision);
                self.poll_decided(peer, &id, &decision);
                self.invite_decided(peer, &id, decision);
                self.cx.reply_status(peer, number, Ok(()));
            }
        }
    }

    /// Whether a group of that name may be made.
    pub(super) fn may_begin(&self, id: &Nspace) -> Result<(), Status> {
        let Groups { active, invitations, singles, .. } = &self.groups;
        match active.contains_key(id) || invitations.has(id) || self.jobs.get(id).is_some() {
            true => Err(Status::ERR_EXISTS),
            false if active.len() + invitations.len() + singles.len() >= MAX_GROUPS => Err(Status::ERR_OUT_OF_RESOURCE),
            false => Ok(()),
        }
    }

    /// A group has been made. Members that have died meanwhile are missing from the beginning.
    pub(super) fn enroll(&mut self, id: Nspace, group: Group) {
        let dead: Vec<Proc> = group.places.iter().filter(|proc| self.jobs.is_gone(proc)).cloned().collect();
        if group.places.iter().any(|proc| self.jobs.runs_here(proc)) {
            self.groups.active.insert(id, group);
            dead.iter().for_each(|proc| self.groups_without(proc));
        }
    }

    /// A group is no more.
    pub(super) fn disband(&mut self, id: &Nspace) {
        self.groups.active.remove(id);
    }

    /// A destruct has failed because members are dead. They are no members any more, so that it can be tried again.
    pub(super) fn group_loses(&mut self, id: &Nspace, gone: &[Proc]) {
        let Some(group) = self.groups.active.get_mut(id) else { return };
        group.left.extend(gone.iter().filter(|proc| group.places.contains(proc)).cloned());
        let rest = group.members();
        if !rest.iter().any(|proc| self.jobs.runs_here(proc)) {
            self.disband(id);
        }
    }

    fn leave(&mut self, proc: &Proc, id: &Nspace) -> Result<(), Status> {
        let group = self.groups.active.get(id).ok_or(Status::ERR_NOT_FOUND)?;
        if !group.has(proc) {
            return Err(Status::ERR_NOT_A_MEMBER);
        }
        self.left(proc, id);
        let others = self.groups.active.get(id).map(Group::members).unwrap_or_default();
        let affected = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc.clone())];
        self.tell_group(Status::GROUP_LEFT, proc, others, id, affected);
        Ok(())
    }

    /// A member has left, here or elsewhere.
    fn left(&mut self, proc: &Proc, id: &Nspace) {
        let Some(group) = self.groups.active.get_mut(id).filter(|group| group.has(proc)) else { return };
        group.left.insert(proc.clone());
        let rest = group.members();
        self.meetings_without(proc, id);
        if !rest.iter().any(|proc| self.jobs.runs_here(proc)) {
            self.disband(id);
        }
    }

    /// A process has died: its groups are told where they want to know.
    pub(super) fn groups_without(&mut self, proc: &Proc) {
        let told: Vec<(Nspace, Group)> = self
            .groups
            .active
            .iter()
            .filter(|(_, group)| group.notify && group.has(proc))
            .map(|(id, group)| (id.clone(), group.clone()))
            .collect();
        for (id, group) in told {
            let others = group.members().into_iter().filter(|other| other != proc).collect();
            let affected = vec![Info::new(keys::EVENT_AFFECTED_PROC, proc.clone())];
            self.tell_group(Status::GROUP_MEMBER_FAILED, proc, others, &id, affected);
        }
        self.construct_without(proc);
        self.invitations_without(proc);
    }

    /// A connection is gone, and nobody decides there any more.
    pub(super) fn groups_of_peer_end(&mut self, peer: PeerId) {
        self.construct_undecided(peer);
        self.poll_undecided(peer);
        self.invite_undecided(peer);
    }

    /// A namespace is deregistered, and so are its processes as members.
    pub(super) fn groups_of_job_end(&mut self, nspace: &Nspace) {
        for group in self.groups.active.values_mut() {
            group.left.extend(group.places.iter().filter(|proc| proc.nspace == *nspace).cloned());
        }
        let mut active = std::mem::take(&mut self.groups.active);
        active.retain(|_, group| group.members().iter().any(|proc| self.jobs.runs_here(proc)));
        self.groups.active = active;
        self.invitations_of_job_end(nspace);
        self.singles_of_job_end(nspace);
        self.polls_of_job_end(nspace);
    }

    /// Raises an event of a group for these processes, wherever they run; says which connections here hear of it. Handlers for
    /// everything are left alone: most programs have them for errors.
    pub(super) fn tell_group(
        &mut self,
        event: Status,
        source: &Proc,
        to: Vec<Proc>,
        id: &Nspace,
        mut info: Vec<Info>,
    ) -> Vec<PeerId> {
        if to.is_empty() {
            return Vec::new();
        }
        let peers = to.iter().filter_map(|proc| self.jobs.client(proc)?.peer);
        let told = peers.filter(|peer| self.cx.subscriptions.wants(*peer, event)).collect();
        let range = Info::new(keys::EVENT_CUSTOM_RANGE, procs(to));
        info.extend([id_of(id), range, Info::new(keys::EVENT_NON_DEFAULT, true)]);
        let then = AfterRaise::Group { group: id.clone(), number: self.groups.invitations.number(id), status: event };
        let event = Event { status: event, source: source.clone(), range: DataRange::CUSTOM, info };
        self.raise(event, Origin::Library, then);
        told
    }

    /// An event of a group does not reach other nodes. Another invitation of that name may be open by now.
    pub(super) fn group_event_unreached(&mut self, id: &Nspace, number: Option<u64>, event: Status, failure: Status) {
        trace!("{event} of group {id} does not reach other nodes: {failure}");
        match event {
            _ if self.groups.invitations.number(id) != number => {}
            Status::GROUP_INVITED => self.give_up_invitation(id, failure),
            Status::GROUP_LEADER_FAILED => self.election_heard(id, None),
            _ => {}
        }
    }

    /// An event that a client has raised, or that the host has passed on: those of groups change what is known of them.
    /// A client can speak for itself only; the rest comes from other servers, by way of the host.
    pub(super) fn groups_hear(&mut self, event: Status, source: &Proc, info: &[Info], from: Origin) {
        let Some(id) = group_of(info) else { return };
        let others = from == Origin::Program;
        match event {
            Status::GROUP_LEFT => self.left(source, &id),
            Status::GROUP_CONSTRUCT_ABORT => {
                self.construct_aborted(source, &id);
                self.invite_aborted(source, &id, &range_of(info));
            }
            // Who invites here does so by a request.
            Status::GROUP_INVITED if others => self.guests_here(&id, source, &range_of(info)),
            Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED => {
                self.answer_passes(event, &id, source, &range_of(info));
            }
            Status::GROUP_INVITE_FAILED if others => self.answer_passes(event, &id, source, &range_of(info)),
            Status::GROUP_CONSTRUCT_COMPLETE if others => self.guests_go_on(&id, info),
            Status::GROUP_LEADER_FAILED if others => self.election_called(&id, source, &range_of(info)),
            Status::GROUP_LEADER_SELECTED if others => self.leader_selected(&id, info),
            Status::GROUP_MEMBER_FAILED if others => self.construct_awaits(&id, event, &range_of(info)),
            _ => {}
        }
    }

    /// What a member has not come to, and will not, because it has left the group.
    fn meetings_without(&mut self, proc: &Proc, id: &Nspace) {
        self.change_trackers(
            |tracker| {
                let of_group = tracker.of_group.as_ref().is_some_and(|group| group.is_of(id));
                of_group && tracker.members.contains(proc) && !tracker.arrived.contains(proc)
            },
            |router, tracker| {
                let ends = matches!(tracker.members.operation(), Operation::Destruct(_));
                let excused = tracker.of_group.as_mut().and_then(|group| group.excuse(proc, ends)).is_some();
                if tracker.failed.is_none() && !excused {
                    router.fail(tracker, Status::GROUP_LEFT, &format!("{proc} has left the group"));
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Channels;

    fn proc(nspace: &str, rank: Rank) -> Proc {
        Proc::new(Nspace::new(nspace).unwrap(), rank)
    }

    #[test]
    fn a_groups_name_stands_for_its_members_wherever_processes_are_named() {
        let [a, b] = [0, 7].map(|rank| proc("job", Rank(rank)));
        let mut groups = Groups::default();
        let group = Group::new(vec![b.clone(), a.clone()], None, false);
        groups.active.insert(Nspace::new("g").unwrap(), group);
        let range = |procs: Vec<Proc>| vec![Info::new(keys::EVENT_CUSTOM_RANGE, DataArray::of(procs))];
        type Naming = fn(Vec<Proc>, Vec<Info>) -> Request;
        let requests: [Naming; 9] = [
            |procs, _| Request::Fence { procs, info: vec![id_of(&Nspace::new("g").unwrap())] },
            |procs, _| Request::Abort { status: 1, message: None, procs },
            |procs, _| Request::JobControl { targets: procs, directives: vec![] },
            |procs, _| Request::PullOutput { id: 1, procs, channels: Channels::STDIN, directives: vec![] },
            |procs, _| Request::Forward(Forward::Push { targets: procs, bytes: vec![], directives: vec![] }),
            |_, info| Request::Notify { status: Status(1), range: DataRange::CUSTOM, info },
            |_, info| Request::Forward(Forward::Publish { info }),
            |_, directives| {
                let monitor = Info::new(keys::MONITOR_HEARTBEAT, true);
                Request::Forward(Forward::Monitor { monitor, error: Status(1), directives })
            },
            |mut procs, _| Request::Get { proc: procs.remove(0), key: None, info: vec![] },
        ];
        for request in requests {
            let mut named =
                request(vec![proc("g", Rank(1)), proc("g", Rank(0))], range(vec![proc("g", Rank::WILDCARD)]));
            // What names it in a fence is kept with that.
            if let Request::Fence { info, .. } = &mut named {
                info.clear();
            }
            let native = request(vec![a.clone(), b.clone()], range(vec![b.clone(), a.clone()]));
            assert_eq!(groups.translate(named), Ok(native));
        }
        let nobody = Request::Abort { status: 1, message: None, procs: vec![proc("g", Rank(2))] };
        assert_eq!(groups.translate(nobody), Err(Status::ERR_BAD_PARAM));
    }
}
