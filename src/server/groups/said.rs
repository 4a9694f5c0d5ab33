//! Groups by events: members on libraries that know no requests for groups by invitation raise events instead.
//!
//! | event | from | meaning |
//! |---|---|---|
//! | `GROUP_INVITED` | a leader | it invites the processes of the event's range, counts their answers itself |
//! | `GROUP_INVITE_ACCEPTED`, `_DECLINED` | a guest | it joins the leader in the range, or not; most name no group |
//! | `GROUP_CONSTRUCT_COMPLETE` | the leader | the group is complete, of the members that it names, or of all who have come |
//! | `GROUP_LEFT` | a member | it leaves |
//!
//! None of them goes on as it is: each is done as a request of its process is, in that process's name alone, and
//! answered at once. The consequences are told by the events that servers raise, so members on other libraries and on
//! other nodes see no difference. A guest that dies is told to such a leader as a process that has ended
//! (`PROC_TERMINATED`), which its library waits for. When the leader dies, a process may follow that leads by requests.
use super::floor::Floor;
use super::invitation::Lead;
use super::{Below, Groups, leave, message};
use crate::data::{Info, InfoList, Proc, Status, keys};
use crate::message::GroupCall;
use crate::message::door::Capabilities;
use crate::server::ctx::peers::Caller;
use crate::trace;

/// Events that are taken for requests; the first of them also from members whose library knows requests, because
/// programs raise it as leaders.
const WORDS: [Status; 5] = [
    Status::GROUP_CONSTRUCT_COMPLETE,
    Status::GROUP_INVITED,
    Status::GROUP_INVITE_ACCEPTED,
    Status::GROUP_INVITE_DECLINED,
    Status::GROUP_LEFT,
];

/// Returns the events that a peer with these abilities raises in place of requests.
pub fn words_of(capabilities: &Capabilities) -> &'static [Status] {
    if capabilities.groups_by_events { &WORDS } else { &WORDS[..1] }
}

impl Groups {
    /// Acts on an event that a process has raised in place of a request.
    pub fn said(&mut self, below: Below<'_>, caller: Caller, (proc, status, info): (&Proc, Status, &[Info])) {
        let (group, range) = (message::group_of(info), message::range_of(info));
        let is_answer = matches!(status, Status::GROUP_INVITE_ACCEPTED | Status::GROUP_INVITE_DECLINED);
        let oldest = || self.invitations.guests.oldest(proc, range.first()).filter(|_| is_answer);
        let Some(group) = group.or_else(oldest) else {
            trace!("{proc} raises {status} about no group, and is invited to none");
            return below.cx.answer_status(caller, Err(Status::ERR_NOT_FOUND));
        };
        let invitation = GroupCall::Invite { procs: Vec::new(), info: Vec::new() };
        let may_invite = self.may_call(below.cx, below.jobs, proc, &group, &invitation);
        let Groups { registry, votes, invitations, .. } = self;
        let Below { cx, jobs, collectives } = below;
        let floor = &mut Floor { cx, jobs, collectives, registry, votes };
        let result = match status {
            _ if is_answer => {
                let answer = (status == Status::GROUP_INVITE_ACCEPTED, &[][..]);
                return invitations.join(floor, (caller, false), (proc, &group), range.first(), answer);
            }
            Status::GROUP_INVITED => may_invite.and_then(|()| {
                let said = (&range[..], Vec::new());
                invitations.invite(floor, caller, (proc, Lead::Announces), &group, said)
            }),
            Status::GROUP_LEFT => leave(floor, proc, &group),
            // It has been said already, by this server or by the leader.
            _ if floor.registry.get(&group).is_some_and(|made| made.has(proc)) => Ok(()),
            _ => {
                let named = info.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs());
                invitations.announced(floor, &group, proc, (named.as_deref(), message::context_in(info)))
            }
        };
        if let Err(status) = result {
            trace!("{proc} raises what cannot be of the group {group}: {status}");
        }
        floor.cx.answer_status(caller, result);
    }
}
