//! Groups that all members make together, and end together: `PMIx_Group_construct`, `PMIx_Group_destruct`.
//!
//! Members that name each other meet by a collective under the group's name, so that a fence of the same processes runs
//! beside. When those of this node have arrived, a group that is all here is made at once, unless the host is to give
//! it a context id. Otherwise the host is asked, once; what members have posted and given for the group goes with it to
//! the other nodes, as one blob, and theirs comes back. The blob also says who has come.
//!
//! A member that dies before it has arrived ends the operation for the others. With `PMIX_GROUP_OPTIONAL` or
//! `PMIX_GROUP_FT_COLLECTIVE` the rest goes on without it, and so it does with `PMIX_GROUP_NOTIFY_TERMINATION`:
//! there the leader, or every member where none has declared itself, is told, and the tracker is held until the
//! handlers of those told have voted, here and on other nodes. One of them may give the group up. When the leader
//! itself dies before the group is made, the others elect another one.
mod arrival;

use std::collections::BTreeMap;

use super::MAX_OPEN;
use super::bringing::{self, Bringing, Place};
use super::election::Election;
use super::floor::Floor;
use super::make;
use super::message::Message;
use super::part::Part;
use super::sharing::Sharing;
use super::vote::Subject;
use crate::by_number::ByNumber;
use crate::collect_small::collect_small;
use crate::data::constants::group_operation::{GROUP_CONSTRUCT, GROUP_DESTRUCT};
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::{Decision, Infos, Reply, array_of};
use crate::server::collective::exchange::Said;
use crate::server::collective::signature::Operation;
use crate::server::collective::tracker::{FailureNotice, Tracker};
use crate::server::ctx::Ctx;
use crate::server::ctx::slices::Slice;
use crate::server::ctx::ticket::{Ticket, TrackerId};
use crate::store::exchange::Failure;
use crate::trace;

pub use arrival::is_unserved;

/// The host's answer to a construct or destruct that does not end it yet.
#[derive(Debug)]
pub enum Answered {
    /// All members have come, and what they bring is to be taken in.
    Come(TrackerId, Vec<Info>),
    /// The host says that all have come to a group, those who came alone among them.
    Assembled { group: Nspace, status: Status, infos: Vec<Info> },
    /// The host cannot find out whether those have come whom the leaders add.
    LeftToServer(TrackerId),
}

/// A group that is made when what members here have given is stored.
#[derive(Debug)]
struct Shared {
    sharing: Sharing,
    infos: Vec<Info>,
    said: Said,
}

/// Constructs and destructs under way.
#[derive(Debug, Default)]
pub struct Constructs {
    parts: ByNumber<TrackerId, Part>,
    /// Data for the host that threads prepare.
    bringing: BTreeMap<TrackerId, Place>,
    sharing: ByNumber<TrackerId, Shared>,
    /// Processes of other nodes that have declared themselves leaders of groups which nobody here has come to yet.
    leaders: BTreeMap<Nspace, Proc>,
}

impl Constructs {
    /// Every participant of this node has arrived: asks the host, or makes or ends the group.
    pub fn complete(&mut self, floor: &mut Floor<'_>, id: TrackerId) {
        let (Some(tracker), Some(part)) = (floor.collectives.completed(id), self.parts.get(&id)) else { return };
        let constructs = tracker.constructs(&part.group);
        let needs_host = tracker.local.elsewhere || constructs && (part.context || !part.added.is_empty());
        if !needs_host {
            return self.done(floor, id, &[], Said::default());
        }
        if !constructs {
            return self.ask(floor, id, None);
        }
        let come: Vec<Proc> = tracker.arrived.procs().collect();
        let bytes = bringing::bytes(floor.jobs, &come, part);
        if let Err(status) = tracker.charge_part(floor.cx, bytes) {
            return floor.collectives.fail_complete(floor.cx, floor.jobs, id, status);
        }
        let for_whom = (bytes, tracker.arrived.peers());
        match Bringing::begin(floor.cx, floor.jobs, &come, part, for_whom, move || Ticket::Bringing(id)) {
            Some(place) => {
                tracker.is_preparing = true;
                self.bringing.insert(id, place);
            }
            None => {
                let data = bringing::data(floor.cx, floor.jobs, &come, part);
                self.ask(floor, id, Some(data));
            }
        }
    }

    /// A thread has prepared what members of this node bring.
    pub fn brought(&mut self, floor: &mut Floor<'_>, id: TrackerId) {
        let Some(place) = self.bringing.remove(&id) else { return };
        let (Some(tracker), Some(part)) = (floor.collectives.completed(id), self.parts.get(&id)) else {
            return bringing::give_up(floor.jobs, &place);
        };
        tracker.is_preparing = false;
        if tracker.is_given_up {
            // Nobody here becomes a member any more; the other nodes are to hear of it.
            bringing::give_up(floor.jobs, &place);
            return floor.collectives.fail_complete(floor.cx, floor.jobs, id, Status::ERR_TIMEOUT);
        }
        let come: Vec<Proc> = tracker.arrived.procs().collect();
        let data = bringing::finish(floor.cx, floor.jobs, &place, &come, part);
        self.ask(floor, id, Some(data));
    }

    /// Asks the host, with what members of this node bring.
    fn ask(&mut self, floor: &mut Floor<'_>, id: TrackerId, data: Option<Result<Vec<u8>, Status>>) {
        let (Some(tracker), Some(part)) = (floor.collectives.completed(id), self.parts.get(&id)) else { return };
        let constructs = tracker.constructs(&part.group);
        let (signature, mut info) = (tracker.signature.clone(), tracker.info_for_host());
        match data.transpose() {
            Ok(data) => info.extend(data.map(|data| Info::new(keys::GROUP_ENDPT_DATA, data))),
            Err(status) => return floor.collectives.fail_complete(floor.cx, floor.jobs, id, status),
        }
        // One of the others may have said so, and not the first.
        if constructs && part.context && info.find(keys::GROUP_ASSIGN_CONTEXT_ID).is_none() {
            info.push(Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true));
        }
        if !part.added.is_empty() {
            info.retain(|info| info.key != keys::GROUP_ADD_MEMBERS);
            info.push(Info::new(keys::GROUP_ADD_MEMBERS, array_of(floor.jobs.each(&part.added))));
        }
        let ticket = move |result| Ticket::Group(id, result);
        ask_host(floor.cx, signature.operation(), &signature.procs(), &info, ticket);
    }

    /// The host has answered. Returns what goes on.
    pub fn answered(
        &mut self,
        floor: &mut Floor<'_>,
        id: TrackerId,
        result: Result<Infos, Status>,
    ) -> Option<Answered> {
        let (Some(tracker), Some(part)) = (floor.collectives.completed(id), self.parts.get(&id)) else { return None };
        tracker.part.clear();
        let group = part.group.clone();
        let is_led = tracker.constructs(&group) && !part.added.is_empty();
        let elsewhere = tracker.local.elsewhere;
        match result {
            Ok((status, infos)) if is_led && is_assembled(status, &infos) => {
                return Some(Answered::Assembled { group, status, infos });
            }
            Ok((Status::SUCCESS | Status::OPERATION_SUCCEEDED, _)) | Err(Status::ERR_NOT_SUPPORTED) if is_led => {
                return Some(Answered::LeftToServer(id));
            }
            Ok((Status::SUCCESS | Status::OPERATION_SUCCEEDED | Status::ERR_PARTIAL_SUCCESS, infos)) => {
                if !tracker.constructs(&group) || !make::lacks_context(part, &infos) {
                    return Some(Answered::Come(id, infos));
                }
                trace!("the host gives the group {group} no context id");
                self.finish(floor, id, &Reply::Done(Status::ERR_NOT_SUPPORTED));
            }
            Err(Status::ERR_NOT_SUPPORTED) if !elsewhere => {
                let context = part.context.then(|| floor.registry.own_context());
                self.done(floor, id, context.as_slice(), Said::default());
            }
            Ok((status, _)) | Err(status) => {
                trace!("meeting {} of a group: the host answers {status}", id.0);
                self.finish(floor, id, &Reply::Done(status));
            }
        }
        None
    }

    /// Data of the members on other nodes is taken in, or cannot be.
    pub fn taken_in(&mut self, floor: &mut Floor<'_>, id: TrackerId, infos: &[Info], result: Result<Said, Status>) {
        match result {
            Ok(said) => self.done(floor, id, infos, said),
            Err(status) => self.finish(floor, id, &Reply::Done(status)),
        }
    }

    /// All members have come, on all nodes.
    fn done(&mut self, floor: &mut Floor<'_>, id: TrackerId, infos: &[Info], said: Said) {
        let (Some(tracker), Some(part)) = (floor.collectives.completed(id), self.parts.get(&id)) else { return };
        let destructs = !tracker.constructs(&part.group);
        let reply = match &said.failure {
            Some(Failure { status, gone }) => {
                trace!("meeting {} of a group has failed on another node with {status}; gone: {gone:?}", id.0);
                if destructs {
                    floor.registry.lose(floor.jobs, &part.group, gone);
                }
                Reply::Done(*status)
            }
            None if destructs => {
                floor.registry.disband(&part.group);
                Reply::Done(Status::SUCCESS)
            }
            None => {
                return match make::share(part, infos) {
                    Ok(sharing) => self.share(floor, id, Shared { sharing, infos: infos.to_vec(), said }),
                    Err(status) => self.finish(floor, id, &Reply::Done(status)),
                };
            }
        };
        self.finish(floor, id, &reply);
    }

    /// Stores some of what members here have given, and makes the group when all of it is stored.
    fn share(&mut self, floor: &mut Floor<'_>, id: TrackerId, mut shared: Shared) {
        let reply = match shared.sharing.step(floor) {
            Ok(false) => {
                self.sharing.insert(id, shared);
                return floor.cx.slice(Slice::Construct(id));
            }
            Ok(true) => {
                let (Some(tracker), Some(part)) = (floor.collectives.completed(id), self.parts.get(&id)) else {
                    return;
                };
                let excused = tracker.excused.clone();
                let reply = make::group(floor, part, &excused, &shared.infos, &shared.said);
                if let Some(tracker) = floor.collectives.completed(id) {
                    tracker.tells_more = !part.is_as_named(&reply);
                }
                reply
            }
            Err(status) => Reply::Done(status),
        };
        self.finish(floor, id, &reply);
    }

    /// Goes on with what members here have given.
    pub fn slice(&mut self, floor: &mut Floor<'_>, id: TrackerId) {
        if let Some(shared) = self.sharing.remove(&id) {
            self.share(floor, id, shared);
        }
    }

    fn finish(&mut self, floor: &mut Floor<'_>, id: TrackerId, reply: &Reply) {
        self.over(floor, id);
        floor.collectives.finish(floor.cx, floor.jobs, id, reply);
    }

    /// Returns whether nothing is under way.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.bringing.is_empty() && self.sharing.is_empty()
    }

    /// Forgets the part of a tracker that has ended.
    pub fn over(&mut self, floor: &mut Floor<'_>, id: TrackerId) {
        self.parts.remove(&id);
        self.sharing.remove(&id);
        floor.votes.close(&Subject::Construct(id));
    }

    /// Takes out the constructs of a group whose leaders add members, and which wait for the host.
    pub fn take_led(&mut self, floor: &mut Floor<'_>, id: &Nspace) -> Vec<(TrackerId, Part)> {
        let is_led = |number: &TrackerId| {
            let adds = self.parts.get(number).is_some_and(|part| !part.added.is_empty());
            adds && !self.bringing.contains_key(number)
        };
        let constructs = floor.collectives.complete(id).filter(|tracker| tracker.constructs(id));
        let led: Vec<TrackerId> = constructs.map(|tracker| tracker.id).filter(is_led).collect();
        led.into_iter().filter_map(|number| Some((number, self.parts.remove(&number)?))).collect()
    }

    /// Takes out a construct that its host leaves to the server.
    pub fn take(&mut self, floor: &mut Floor<'_>, id: TrackerId) -> Option<(Tracker, Part)> {
        Some((floor.collectives.take(id)?, self.parts.remove(&id)?))
    }

    /// A member has died before it has arrived, and the others go on: those who want to know are told, and vote, here and
    /// on other nodes.
    pub fn excused(&mut self, floor: &mut Floor<'_>, id: TrackerId, proc: &Proc) {
        if let Some(part) = self.parts.get_mut(&id) {
            let everybody = || floor.jobs.each(&part.order);
            let others = part.leader.clone().map_or_else(everybody, |leader| vec![leader]);
            let others: Vec<Proc> = others.into_iter().filter(|other| other != proc).collect();
            let elsewhere = others.iter().filter(|other| !floor.jobs.runs_here(other));
            part.asked.insert(proc.clone(), collect_small(elsewhere.cloned()));
            let voters = floor.voters(&others, Message::MemberFailed.event());
            let vote = floor.votes.open(Subject::Construct(id), voters);
            floor.tell(&part.group, proc, others, &Message::MemberFailed, (vote, None));
        }
        self.go_on(floor, id);
    }

    /// A process is dead that may lead constructions under way: the others elect another leader.
    pub fn process_gone(&mut self, floor: &mut Floor<'_>, proc: &Proc) {
        let leads = |part: &Part| part.leader.as_ref() == Some(proc) && !part.optional;
        let is_led = |id: &TrackerId| self.parts.get(id).is_some_and(leads);
        let collectives = &floor.collectives;
        let gathering = collectives.gathering(&proc.nspace).filter(|tracker| tracker.failed.is_none());
        let under_way = gathering.chain(collectives.complete(&proc.nspace));
        let led: Vec<TrackerId> = under_way.map(|tracker| tracker.id).filter(is_led).collect();
        for id in led {
            let Some(part) = self.parts.get_mut(&id) else { continue };
            part.leader = None;
            let others = floor.jobs.each(&part.order).into_iter().filter(|other| other != proc).collect();
            let group = part.group.clone();
            part.electing = Some(call_election(floor, Subject::Construct(id), &group, proc, (others, None)));
            floor.collectives.hold(id);
            self.go_on(floor, id);
        }
    }

    /// Goes on with a tracker that was held, if nobody has still to decide about it.
    pub fn go_on(&mut self, floor: &mut Floor<'_>, id: TrackerId) {
        let decided = !floor.votes.is_open(&Subject::Construct(id));
        if let Some(part) = self.parts.get_mut(&id) {
            if let Some((dead, leader)) = Election::end(&mut part.electing, decided) {
                part.leader.clone_from(&leader);
                let everybody = floor.jobs.each(&part.order);
                let group = part.group.clone();
                floor.tell(&group, &dead, everybody, &Message::LeaderSelected(leader, None), (None, None));
            }
            if part.electing.is_some() || part.asked.values().any(|asked| !asked.is_empty()) {
                return;
            }
        }
        if decided {
            floor.collectives.unhold(floor.cx, floor.jobs, id);
        }
    }

    /// A process has voted about an event of a construction.
    pub fn voted(&mut self, floor: &mut Floor<'_>, id: TrackerId, proc: &Proc, decision: &Decision) {
        let Some(part) = self.parts.get_mut(&id) else { return };
        if let (Some(election), true) = (&mut part.electing, decision.lead) {
            election.stand(proc.clone());
        }
        if !decision.abort {
            return self.go_on(floor, id);
        }
        let others = floor.jobs.each(&part.order).into_iter().filter(|other| !floor.jobs.runs_here(other)).collect();
        let group = part.group.clone();
        let Floor { cx, jobs, collectives, .. } = floor;
        collectives.fail_one(cx, jobs, id, Status::GROUP_CONSTRUCT_ABORT, &given_up_by(proc));
        if floor.collectives.completed(id).is_some() {
            // The host has this node's part; the others hear of it by the event.
            self.finish(floor, id, &Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
        floor.tell(&group, proc, others, &Message::Aborted, (None, None));
    }

    /// A member has given a construction up.
    pub fn aborted(&mut self, floor: &mut Floor<'_>, source: &Proc, group: &Nspace) {
        let given_up = |tracker: &Tracker| tracker.constructs(group) && tracker.signature.contains(source);
        let Floor { cx, jobs, collectives, .. } = floor;
        collectives.fail(cx, jobs, group, given_up, (Status::GROUP_CONSTRUCT_ABORT, &given_up_by(source)));
        let at_host: Vec<TrackerId> =
            collectives.complete(group).filter(|tracker| given_up(tracker)).map(|tracker| tracker.id).collect();
        for id in at_host {
            self.finish(floor, id, &Reply::Done(Status::GROUP_CONSTRUCT_ABORT));
        }
    }

    /// Another server says who leads a group in place of one that is dead; nobody may, from now on or until then.
    pub fn follow(&mut self, floor: &Floor<'_>, group: &Nspace, leader: Option<&Proc>) {
        self.leaders.remove(group);
        for id in trackers_of(floor, group) {
            self.parts.get_mut(&id).into_iter().for_each(|part| part.leader = leader.cloned());
        }
    }

    /// A process of another node has declared itself the leader of a construct, which nobody here may have come to.
    pub fn declared(&mut self, floor: &Floor<'_>, group: &Nspace, leader: &Proc) {
        let mut is_known = false;
        for id in trackers_of(floor, group) {
            if let Some(part) = self.parts.get_mut(&id) {
                part.leader.get_or_insert_with(|| leader.clone());
                is_known = true;
            }
        }
        if !is_known && self.leaders.len() < MAX_OPEN {
            self.leaders.insert(group.clone(), leader.clone());
        }
    }

    /// A namespace is deregistered, and leads nothing any more.
    pub fn job_over(&mut self, nspace: &Nspace) {
        self.leaders.retain(|_, leader| leader.nspace != *nspace);
    }

    /// Another server has asked these processes about one that is `dead`; one of them may want to lead in its place.
    pub fn heard(
        &mut self,
        floor: &mut Floor<'_>,
        group: &Nspace,
        dead: &[Proc],
        (polled, candidate): (&[Proc], Option<&Proc>),
    ) {
        self.hear(floor, group, |part| {
            if let Some(election) = part.electing.as_mut().filter(|election| election.replaces(dead)) {
                election.hear(polled, candidate);
            }
            for (_, asked) in part.asked.iter_mut().filter(|(of, _)| dead.contains(of)) {
                asked.retain(|proc| !polled.contains(proc));
            }
        });
    }

    /// No other server can be asked about a dead leader, or a dead member.
    pub fn unheard(&mut self, floor: &mut Floor<'_>, group: &Nspace) {
        self.hear(floor, group, |part| {
            part.electing.iter_mut().for_each(Election::hear_nobody);
            part.asked.clear();
        });
    }

    /// Goes on with what waits for the answers of other servers.
    fn hear(&mut self, floor: &mut Floor<'_>, group: &Nspace, answer: impl Fn(&mut Part)) {
        for id in trackers_of(floor, group) {
            let waits = |part: &&mut Part| part.electing.is_some() || !part.asked.is_empty();
            if let Some(part) = self.parts.get_mut(&id).filter(waits) {
                answer(part);
                self.go_on(floor, id);
            }
        }
    }
}

/// The constructs and destructs of a group, wherever they stand.
fn trackers_of(floor: &Floor<'_>, group: &Nspace) -> Vec<TrackerId> {
    let Floor { collectives, .. } = floor;
    collectives.gathering(group).chain(collectives.complete(group)).map(|tracker| tracker.id).collect()
}

fn given_up_by(proc: &Proc) -> String {
    format!("{proc} has given it up")
}

/// Tells everybody that their leader is dead, and calls an election among them.
pub fn call_election(
    floor: &mut Floor<'_>,
    subject: Subject,
    group: &Nspace,
    dead: &Proc,
    (others, invitation): (Vec<Proc>, Option<u64>),
) -> Election {
    let election = Election::new(dead, others.iter().filter(|proc| !floor.jobs.runs_here(proc)).cloned());
    let voters = floor.voters(&others, Message::LeaderFailed.event());
    let vote = floor.votes.open(subject, voters);
    floor.tell(group, dead, others, &Message::LeaderFailed, (vote, invitation));
    election
}

/// Has the host know that this node's part has failed; its answer matters to nobody.
pub fn tell_failure(cx: &mut Ctx, notice: FailureNotice) {
    let FailureNotice { signature, mut info, data, .. } = notice;
    info.push(Info::new(keys::GROUP_ENDPT_DATA, data));
    ask_host(cx, signature.operation(), &signature.procs(), &info, |_| Ticket::Ignored);
}

/// Has the host do a group's operation.
pub fn ask_host(
    cx: &mut Ctx,
    operation: &Operation,
    procs: &[Proc],
    info: &[Info],
    ticket: impl FnOnce(Result<Infos, Status>) -> Ticket + Send + 'static,
) {
    let (operation, group) = match operation {
        Operation::Construct(group) => (GROUP_CONSTRUCT, group),
        Operation::Destruct(group) => (GROUP_DESTRUCT, group),
        _ => return,
    };
    let nothing = (Status::SUCCESS, Vec::new());
    cx.ask_host(|host, done| host.group(operation, group, procs, info, done), nothing, ticket);
}

/// Returns whether a host says who is in a group.
pub fn is_assembled(status: Status, infos: &[Info]) -> bool {
    let good = [Status::SUCCESS, Status::OPERATION_SUCCEEDED, Status::ERR_PARTIAL_SUCCESS].contains(&status);
    good && infos.find(keys::GROUP_MEMBERSHIP).is_some()
}
