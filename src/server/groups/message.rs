//! Messages between the servers and members of a group, and the events that carry them.
//!
//! The Standard shows users events, and hosts carry events; the rest of the groups' room sees [`Message`]s alone. This
//! file turns the one into the other.
//!
//! | event | message | from | to |
//! |---|---|---|---|
//! | `GROUP_INVITED` | `Invited` | the leader | the processes it invites |
//! | `GROUP_INVITE_ACCEPTED`, `_DECLINED`, `_FAILED` | `Answered` | the invited process, or its server | the leader |
//! | `GROUP_CONSTRUCT_COMPLETE` | `Complete` | the leader's server | the leader and its guests |
//! | `GROUP_CONSTRUCT_ABORT` | `Aborted` | whoever gives the group up | the others |
//! | `GROUP_MEMBER_FAILED` | `MemberFailed` | the dead member's server | the leader, or everybody |
//! | `PROC_TERMINATED` | `GuestLost` | the leader's server | a leader that counts answers itself |
//! | `GROUP_LEADER_FAILED` | `LeaderFailed` | the dead leader's server | everybody: an election is called |
//! | `GROUP_LEADER_SELECTED`, with [`POLLED`] | `Polled` | every other server | the dead leader or member, and so its server |
//! | `GROUP_LEADER_SELECTED` | `LeaderSelected` | the dead leader's server | everybody |
//! | `GROUP_LEADER_SELECTED`, with [`DECLARED`] | `Declared` | the server of who leads a construct | the other servers |
//! | `GROUP_LEFT` | `Left` | a member | the others |
use crate::data::{DataRange, Info, InfoList, Nspace, Proc, Status, Value, keys};
use crate::message::{array_of, id_of};
use crate::server::ctx::event::Event;

/// Attribute of a server's answer to an election (array of PROC): the processes it speaks for.
const POLLED: &str = "instanton.group.polled";

/// Attribute of the event that names a leader (array of PROC): the processes it waits for, among those in the group.
const AWAITED: &str = "instanton.group.awaited";

/// Attribute of an event (BOOL): its source has declared itself the leader of a group that all make together. It is for
/// servers, which know then whom to tell of a lost member; nobody else hears of it.
const DECLARED: &str = "instanton.group.declared";

/// Answer to an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Accepted,
    Declined,
    /// The process is dead, or has not answered in time.
    Failed,
}

impl Answer {
    /// The code of the event that carries it.
    pub fn event(self) -> Status {
        match self {
            Answer::Accepted => Status::GROUP_INVITE_ACCEPTED,
            Answer::Declined => Status::GROUP_INVITE_DECLINED,
            Answer::Failed => Status::GROUP_INVITE_FAILED,
        }
    }
}

/// Membership of a group that has been made by invitation.
#[derive(Clone, Debug, PartialEq)]
pub struct Membership {
    pub members: Vec<Proc>,
    pub context: Option<u64>,
    /// True if members are told of the death of others.
    pub notify: bool,
}

/// State of an invitation, for the server of the process that leads it from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Handover {
    /// The processes that are in, in the group's order.
    pub places: Vec<Proc>,
    /// Processes among them that have not answered.
    pub awaited: Vec<Proc>,
    /// Attributes of the invitation.
    pub info: Vec<Info>,
}

/// A message about a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    Invited,
    Answered(Answer),
    Complete(Membership),
    Aborted,
    Left,
    MemberFailed,
    /// An invited process is lost, for a leader that counts answers itself: its library makes the event of groups of it.
    GuestLost,
    LeaderFailed,
    /// The leader in place of the dead; none where nobody wants to.
    LeaderSelected(Option<Proc>, Option<Handover>),
    /// The processes that another server speaks for, and which of them would lead.
    Polled(Vec<Proc>, Option<Proc>),
    /// The process leads a group under construction from its beginning.
    Declared,
}

impl Message {
    /// The code of the event that carries it.
    pub fn event(&self) -> Status {
        match self {
            Message::Invited => Status::GROUP_INVITED,
            Message::Answered(answer) => answer.event(),
            Message::Complete(_) => Status::GROUP_CONSTRUCT_COMPLETE,
            Message::Aborted => Status::GROUP_CONSTRUCT_ABORT,
            Message::Left => Status::GROUP_LEFT,
            Message::MemberFailed => Status::GROUP_MEMBER_FAILED,
            Message::GuestLost => Status::PROC_TERMINATED,
            Message::LeaderFailed => Status::GROUP_LEADER_FAILED,
            Message::LeaderSelected(..) | Message::Polled(..) | Message::Declared => Status::GROUP_LEADER_SELECTED,
        }
    }

    /// Turns the message into its event, for these processes. Default handlers are left alone: most
    /// programs have them for errors.
    pub fn to_event(&self, group: &Nspace, source: &Proc, to: Vec<Proc>, vote: Option<u64>) -> Event {
        let affected = |proc: &Proc| Info::new(keys::EVENT_AFFECTED_PROC, proc.clone());
        let mut info = match self {
            Message::Invited | Message::Aborted => Vec::new(),
            Message::Answered(_)
            | Message::Left
            | Message::MemberFailed
            | Message::GuestLost
            | Message::LeaderFailed => vec![affected(source)],
            Message::Declared => vec![
                Info::new(DECLARED, true),
                Info::new(keys::GROUP_LEADER, true),
                affected(source),
                Info::new(keys::EVENT_DO_NOT_CACHE, true),
            ],
            Message::Complete(Membership { members, context, notify }) => {
                let context = context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context)));
                let notify = notify.then(|| Info::new(keys::GROUP_NOTIFY_TERMINATION, true));
                let members = Info::new(keys::GROUP_MEMBERSHIP, array_of(members.clone()));
                context.into_iter().chain([members]).chain(notify).collect()
            }
            Message::LeaderSelected(leader, handover) => {
                let mut info = Vec::new();
                if let Some(Handover { places, awaited, info: invitation }) = handover {
                    info.extend(invitation.iter().cloned());
                    info.push(Info::new(keys::GROUP_MEMBERSHIP, array_of(places.clone())));
                    info.push(Info::new(AWAITED, array_of(awaited.clone())));
                }
                info.push(Info::new(keys::GROUP_LEADER, leader.is_some()));
                info.extend(leader.as_ref().map(affected));
                info
            }
            Message::Polled(polled, candidate) => {
                let mut info = vec![
                    Info::new(POLLED, array_of(polled.clone())),
                    Info::new(keys::GROUP_LEADER, candidate.is_some()),
                ];
                info.extend(candidate.as_ref().map(affected));
                info
            }
        };
        let range = Info::new(keys::EVENT_CUSTOM_RANGE, array_of(to));
        info.extend([id_of(group), range, Info::new(keys::EVENT_NON_DEFAULT, true)]);
        Event { status: self.event(), source: source.clone(), range: DataRange::CUSTOM, info, vote }
    }

    /// Reads an event as a message about a group; nothing where it is none, or says too little.
    pub fn from_event(event: &Event) -> Option<(Nspace, Message)> {
        let info = &event.info;
        let group = group_of(info)?;
        let list = |key: &str| info.find(key).and_then(|info| info.value.as_procs());
        let message = match event.status {
            Status::GROUP_INVITED => Message::Invited,
            Status::GROUP_INVITE_ACCEPTED => Message::Answered(Answer::Accepted),
            Status::GROUP_INVITE_DECLINED => Message::Answered(Answer::Declined),
            Status::GROUP_INVITE_FAILED => Message::Answered(Answer::Failed),
            Status::GROUP_CONSTRUCT_COMPLETE => Message::Complete(Membership {
                members: list(keys::GROUP_MEMBERSHIP)?,
                context: context_in(info),
                notify: info.is_set(keys::GROUP_NOTIFY_TERMINATION),
            }),
            Status::GROUP_CONSTRUCT_ABORT => Message::Aborted,
            Status::GROUP_LEFT => Message::Left,
            Status::GROUP_MEMBER_FAILED => Message::MemberFailed,
            Status::GROUP_LEADER_FAILED => Message::LeaderFailed,
            Status::GROUP_LEADER_SELECTED if info.is_set(DECLARED) => Message::Declared,
            Status::GROUP_LEADER_SELECTED => {
                let affected = info.find(keys::EVENT_AFFECTED_PROC).and_then(|info| info.value.as_proc());
                let leader = affected.filter(|_| info.is_set(keys::GROUP_LEADER)).cloned();
                let handover = || {
                    let (places, awaited) = (list(keys::GROUP_MEMBERSHIP)?, list(AWAITED)?);
                    Some(Handover { places, awaited, info: info.clone() })
                };
                match list(POLLED) {
                    Some(polled) => Message::Polled(polled, leader),
                    None => Message::LeaderSelected(leader, handover()),
                }
            }
            _ => return None,
        };
        Some((group, message))
    }
}

/// Returns whether an event is for servers alone.
pub fn is_between_servers(event: &Event) -> bool {
    event.info.is_set(DECLARED)
}

/// The words of servers about a group under construction that a host has to hear where it gathers groups itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupNews {
    /// The group has this leader from now on, or none.
    Led(Option<Proc>),
    /// Processes have decided about the death of others, those of one server at a time.
    Decided {
        /// The dead.
        dead: Vec<Proc>,
        /// The processes that have decided.
        by: Vec<Proc>,
    },
}

/// Reads an event that servers have raised about a group under construction; nothing where it is none.
pub fn group_news(status: Status, source: &Proc, info: &[Info]) -> Option<(Nspace, GroupNews)> {
    let event = Event { status, source: source.clone(), range: DataRange::CUSTOM, info: info.to_vec(), vote: None };
    let (group, message) = Message::from_event(&event)?;
    let news = match message {
        Message::Declared => GroupNews::Led(Some(source.clone())),
        Message::LeaderSelected(leader, _) => GroupNews::Led(leader),
        Message::LeaderFailed => GroupNews::Led(None),
        Message::Polled(by, _) => GroupNews::Decided { dead: range_of(info), by },
        _ => return None,
    };
    Some((group, news))
}

/// The attributes of `PMIX_GROUP_MEMBER_FAILED` with which a host has the servers of these processes ask them whether a
/// group is to be made without one that is dead; `server` is that of the host.
pub fn member_failed(server: &Proc, group: &Nspace, dead: &Proc, to: Vec<Proc>) -> Vec<Info> {
    of_host(Message::MemberFailed, server, (group, dead), to)
}

/// The attributes of `PMIX_GROUP_INVITE_FAILED` with which a host tells the leader of an invitation that a guest is lost
/// with its server, which would have said so.
pub fn guest_failed(server: &Proc, group: &Nspace, guest: &Proc, leader: Proc) -> Vec<Info> {
    of_host(Message::Answered(Answer::Failed), server, (group, guest), vec![leader])
}

/// The attributes of `PMIX_GROUP_CONSTRUCT_ABORT` with which a host ends an invitation for these guests whose leader is
/// lost with its server, which alone could have called an election.
pub fn leader_lost(server: &Proc, group: &Nspace, leader: &Proc, guests: Vec<Proc>) -> Vec<Info> {
    of_host(Message::Aborted, server, (group, leader), guests)
}

fn of_host(message: Message, server: &Proc, (group, source): (&Nspace, &Proc), to: Vec<Proc>) -> Vec<Info> {
    let mut event = message.to_event(group, source, to, None);
    event.sign(server.clone());
    event.info
}

/// The processes that an event is for.
pub fn range_of(info: &[Info]) -> Vec<Proc> {
    info.find(keys::EVENT_CUSTOM_RANGE).and_then(|info| info.value.as_procs()).unwrap_or_default()
}

/// The group that attributes name.
pub fn group_of(info: &[Info]) -> Option<Nspace> {
    Nspace::new(info.find(keys::GROUP_ID)?.value.as_text()?).ok()
}

/// The context id that attributes give a group.
pub fn context_in(info: &[Info]) -> Option<u64> {
    info.find(keys::GROUP_CONTEXT_ID).and_then(|info| info.value.as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rank;

    #[test]
    fn a_message_comes_back_from_its_event() {
        let group = Nspace::new("g").unwrap();
        let proc = |rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank));
        let membership = Membership { members: vec![proc(0), proc(1)], context: Some(7), notify: true };
        let handover = Handover { places: vec![proc(1), proc(2)], awaited: vec![proc(2)], info: Vec::new() };
        let messages = [
            Message::Invited,
            Message::Answered(Answer::Accepted),
            Message::Answered(Answer::Declined),
            Message::Answered(Answer::Failed),
            Message::Complete(membership),
            Message::Aborted,
            Message::Left,
            Message::MemberFailed,
            Message::LeaderFailed,
            Message::LeaderSelected(None, None),
            Message::LeaderSelected(Some(proc(1)), None),
            Message::LeaderSelected(Some(proc(1)), Some(handover.clone())),
            Message::Polled(vec![proc(1), proc(2)], Some(proc(2))),
            Message::Polled(vec![proc(1)], None),
            Message::Declared,
        ];
        for message in messages {
            let event = message.to_event(&group, &proc(0), vec![proc(1)], Some(3));
            assert_eq!((event.vote, range_of(&event.info)), (Some(3), vec![proc(1)]));
            let (of, mut back) = Message::from_event(&event).unwrap();
            if let Message::LeaderSelected(_, Some(found)) = &mut back {
                // Attributes that the event has besides go on to the next leader.
                found.info.clear();
            }
            assert_eq!((of, back), (group.clone(), message));
        }
        let other = Event {
            status: Status::GROUP_CONSTRUCT_COMPLETE,
            ..Message::Left.to_event(&group, &proc(0), vec![], None)
        };
        assert_eq!(Message::from_event(&other), None, "without members it completes nothing");
    }
}
