//! Arrival at a construct or destruct: what is refused, and which collective a member means.
//!
//! Most members come with the list of those before them, and nothing of it has to be found out again. A member that has
//! still to hear of a destruct that has failed comes to that one, though the others have begun another.
use super::{Constructs, trackers_of};
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::server::collective::Arrival;
use crate::server::collective::arrived::Waiter;
use crate::server::collective::signature::{Operation, Signature};
use crate::server::collective::tracker::Tracker;
use crate::server::groups::floor::Floor;
use crate::server::groups::message::Message;
use crate::server::groups::part::{Part, added};
use crate::trace;

/// Attributes of making a group that the library serves itself.
const SERVED: [&str; 13] = [
    keys::GROUP_ADD_MEMBERS,
    keys::GROUP_ASSIGN_CONTEXT_ID,
    keys::GROUP_BOOTSTRAP,
    keys::GROUP_ENDPT_DATA,
    keys::GROUP_FINAL_MEMBERSHIP_ORDER,
    keys::GROUP_FT_COLLECTIVE,
    keys::GROUP_ID,
    keys::GROUP_INFO,
    keys::GROUP_LEADER,
    keys::GROUP_LOCAL_ONLY,
    keys::GROUP_NOTIFY_TERMINATION,
    keys::GROUP_OPTIONAL,
    keys::TIMEOUT,
];

/// Returns whether an attribute is required, and the host would have to serve it.
pub fn is_unserved(info: &Info) -> bool {
    info.is_unserved(&SERVED)
}

/// A construction that others have come to.
struct Known {
    signature: Signature,
    /// True if members run on other nodes.
    elsewhere: bool,
}

impl Constructs {
    /// Lets a client arrive at the construction of a group whose members know each other.
    pub fn construct(
        &mut self,
        floor: &mut Floor<'_>,
        waiter: Waiter,
        proc: &Proc,
        id: &Nspace,
        (procs, info): (&[Proc], &[Info]),
    ) {
        let known = self.known(floor, id, proc, procs);
        if let Err(status) = may_construct(floor, proc, id, known.as_ref(), (procs, info)) {
            trace!("{proc} cannot make the group {id}: {status}");
            return floor.cx.answer_status(waiter.caller, Err(status));
        }
        match known {
            Some(Known { signature, .. }) => self.join(floor, waiter, proc, &signature, (procs, info)),
            None => self.arrive(floor, waiter, proc, Operation::Construct(id.clone()), (procs, info)),
        }
    }

    /// Lets a client arrive at the destruction of a group.
    pub fn destruct(&mut self, floor: &mut Floor<'_>, waiter: Waiter, proc: &Proc, id: &Nspace, mut info: Vec<Info>) {
        let refused = match floor.registry.get(id) {
            None => Status::ERR_NOT_FOUND,
            Some(group) if !group.awaits(proc) || group.has_lost(proc) => Status::ERR_NOT_A_MEMBER,
            Some(group)
                if info.iter().any(is_unserved)
                    && group.members().iter().all(|member| floor.jobs.runs_here(member)) =>
            {
                Status::ERR_NOT_SUPPORTED
            }
            Some(group) => {
                info.extend(group.notify.then(|| Info::new(keys::GROUP_NOTIFY_TERMINATION, true)));
                let failed = failed_destruct(floor, id, proc);
                let ends = |tracker: &&Tracker| tracker.destructs(id) && tracker.simply_waits_for(proc);
                let known = floor.collectives.gathering(id).find(ends).filter(|_| failed.is_none());
                if let Some(signature) = known.map(|tracker| tracker.signature.clone()) {
                    return self.join(floor, waiter, proc, &signature, (&[], &info));
                }
                let members = failed.unwrap_or_else(|| group.awaited());
                return self.arrive(floor, waiter, proc, Operation::Destruct(id.clone()), (&members, &info));
            }
        };
        floor.cx.answer_status(waiter.caller, Err(refused));
    }

    /// Lets a client arrive at a collective for a group.
    pub fn arrive(
        &mut self,
        floor: &mut Floor<'_>,
        waiter: Waiter,
        proc: &Proc,
        operation: Operation,
        (procs, info): (&[Proc], &[Info]),
    ) {
        let Some(group) = operation.group().cloned() else { return };
        let signature = match Signature::of(floor.jobs, proc, operation, procs) {
            Ok(signature) => floor.collectives.meant(floor.jobs, &group, proc, signature),
            Err(bad) => return bad.refuse(floor.cx, waiter.caller, proc),
        };
        self.join(floor, waiter, proc, &signature, (procs, info));
    }

    /// Lets a client arrive at the collective of that signature.
    fn join(
        &mut self,
        floor: &mut Floor<'_>,
        waiter: Waiter,
        proc: &Proc,
        signature: &Signature,
        (procs, info): (&[Proc], &[Info]),
    ) {
        let Some(group) = signature.operation().group() else { return };
        let constructs = matches!(signature.operation(), Operation::Construct(_));
        if constructs {
            self.declare(floor, group, proc, (procs, info));
        }
        let until = info.time_limit().flatten().map(|limit| floor.cx.now() + limit);
        let arrival = Arrival { proc, waiter, info, until, group: Some(group.clone()) };
        let Floor { cx, jobs, collectives, .. } = floor;
        collectives.arrive(cx, jobs, signature, arrival, |joined| {
            if joined.has_failed() {
                return None;
            }
            let part = self.parts.get_or_insert_with(joined.id, || {
                let leader = self.leaders.remove(group).filter(|leader| constructs && signature.contains(leader));
                Part::led_by(group, leader)
            });
            part.joined(proc, procs, info);
            Some(part.on_loss(constructs))
        });
    }

    /// Has other nodes know who leads a construct, if this process is the first to say that it does: whoever hears of a
    /// lost member there tells the leader alone.
    fn declare(&self, floor: &mut Floor<'_>, group: &Nspace, proc: &Proc, (procs, info): (&[Proc], &[Info])) {
        // Nobody hears of members that are lost where coming is optional; and behind the host of a single client are servers
        // on other libraries, which would tell everybody.
        let is_told = info.is_set(keys::GROUP_LEADER) && !info.is_set(keys::GROUP_OPTIONAL);
        if !is_told || floor.cx.config.one_client || self.leaders.contains_key(group) {
            return;
        }
        let is_led = |id| self.parts.get(id).is_some_and(|part| part.leader.is_some());
        if trackers_of(floor, group).iter().any(is_led) {
            return;
        }
        let elsewhere = floor.jobs.each(procs).into_iter().filter(|other| !floor.jobs.runs_here(other)).collect();
        floor.tell(group, proc, elsewhere, &Message::Declared, (None, None));
    }

    /// The construction under way that others have come to with the same list, and this process has not: most are that,
    /// and nothing of the list has to be found out again.
    fn known(&self, floor: &Floor<'_>, id: &Nspace, proc: &Proc, procs: &[Proc]) -> Option<Known> {
        let is_it = |tracker: &&Tracker| {
            let named = |part: &Part| part.order == procs;
            tracker.constructs(id) && tracker.simply_waits_for(proc) && self.parts.get(&tracker.id).is_some_and(named)
        };
        let tracker = floor.collectives.gathering(id).find(is_it)?;
        Some(Known { signature: tracker.signature.clone(), elsewhere: tracker.local.elsewhere })
    }
}

/// Checks whether a process may come to a construction, which may be one that is under way.
fn may_construct(
    floor: &Floor<'_>,
    proc: &Proc,
    id: &Nspace,
    known: Option<&Known>,
    (procs, info): (&[Proc], &[Info]),
) -> Result<(), Status> {
    added(info)?;
    let elsewhere = match known {
        Some(known) => known.elsewhere,
        None => {
            let operation = Operation::Construct(id.clone());
            // A list that is wrong in itself is refused where the process arrives.
            let Ok(signature) = Signature::of(floor.jobs, proc, operation, procs) else { return Ok(()) };
            let mut under_way = floor.collectives.gathering(id).chain(floor.collectives.complete(id));
            let another = |tracker: &Tracker| {
                let is_this = tracker.signature == signature && !tracker.arrived.contains(proc);
                tracker.failed.is_none() && tracker.constructs(id) && !is_this
            };
            if under_way.any(another) {
                return Err(Status::ERR_EXISTS);
            }
            signature.local_count(floor.jobs).elsewhere
        }
    };
    if elsewhere && info.is_set(keys::GROUP_LOCAL_ONLY) {
        return Err(Status::ERR_BAD_PARAM);
    }
    if !elsewhere && info.iter().any(is_unserved) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

/// The members of a destruct that has failed, for one that has still to hear of it.
fn failed_destruct(floor: &Floor<'_>, id: &Nspace, proc: &Proc) -> Option<Vec<Proc>> {
    let is_it =
        |tracker: &&Tracker| tracker.destructs(id) && tracker.failed.is_some() && !tracker.arrived.contains(proc);
    Some(floor.collectives.gathering(id).find(is_it)?.signature.procs())
}
