//! Groups without socket and thread: invitations, votes and elections of one node.
use super::*;
use crate::data::{DataRange, Rank};
use crate::message::{Decision, Reply, array_of, id_of};
use crate::server::NoHost;
use crate::server::collective::tracker::Step;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::testing::{self, TestCtx, proc};

/// A job of four processes, all of them here, which hear of every event of a group.
struct Server {
    test: TestCtx,
    jobs: Jobs,
    collectives: Collectives,
    groups: Groups,
    peers: Vec<PeerId>,
}

impl Server {
    fn new(heard: &[Status]) -> Self {
        let mut test = testing::ctx(NoHost);
        let mut jobs = Jobs::default();
        let ranks: Vec<Rank> = (0..4).map(Rank).collect();
        jobs.add(&proc("job", 0).nspace, 4, &ranks);
        let mut peers = Vec::new();
        for rank in 0..4 {
            let peer = test.connect(&proc("job", rank));
            jobs.client_mut(&proc("job", rank)).unwrap().peer = Some(peer);
            if !heard.is_empty() {
                test.cx.subscriptions.add(peer, heard);
            }
            peers.push(peer);
        }
        Server { test, jobs, collectives: Collectives::default(), groups: Groups::default(), peers }
    }

    /// Gives a process a library that knows no requests for groups by invitation.
    fn knows_events_alone(&mut self, rank: u32) {
        let peer = self.test.cx.peers.get_mut(&self.peers[rank as usize]).unwrap();
        peer.capabilities.votes = false;
        peer.capabilities.groups_by_events = true;
    }

    /// Lets such a process raise an event for these processes. Returns the answer, which comes at once.
    fn says(&mut self, rank: u32, status: Status, to: &[u32], more: &[Info]) -> Status {
        let caller = self.test.request(self.peers[rank as usize]);
        let to = to.iter().map(|rank| proc("job", *rank)).collect();
        let info = [&[Info::new(keys::EVENT_CUSTOM_RANGE, array_of(to))], more].concat();
        let below = Below { cx: &mut self.test.cx, jobs: &mut self.jobs, collectives: &mut self.collectives };
        self.groups.said(below, caller, (&proc("job", rank), status, &info));
        let replies = self.test.replies();
        let answer = replies.into_iter().find(|(to, _)| *to == caller).expect("an answer at once").1;
        let Reply::Done(status) = answer else { panic!("{answer:?}") };
        status
    }

    /// The events that were raised, and for whom.
    fn told(&mut self) -> Vec<(Status, Vec<Proc>)> {
        let raised = self.test.effects().into_iter().filter_map(|effect| match effect {
            Effect::Raise { event, .. } => Some((event.status, message::range_of(&event.info))),
            _ => None,
        });
        raised.collect()
    }

    fn call(&mut self, rank: u32, call: GroupCall) -> Caller {
        self.call_of(&group(), rank, call)
    }

    fn call_of(&mut self, group: &Nspace, rank: u32, call: GroupCall) -> Caller {
        let caller = self.test.request(self.peers[rank as usize]);
        let below = Below { cx: &mut self.test.cx, jobs: &mut self.jobs, collectives: &mut self.collectives };
        self.groups.call(below, Waiter::of(caller), proc("job", rank), group, call);
        caller
    }

    fn invite(&mut self) -> Caller {
        let procs = (0..3).map(|rank| proc("job", rank)).collect();
        self.call(0, GroupCall::Invite { procs, info: Vec::new() })
    }

    fn join(&mut self, rank: u32, accept: bool) -> Caller {
        self.call(rank, GroupCall::Join { leader: None, accept, info: Vec::new() })
    }

    fn decide(&mut self, rank: u32, vote: u64, decision: Decision) {
        self.call(rank, GroupCall::Decide(Decision { vote, ..decision }));
    }

    fn dies(&mut self, rank: u32) {
        let below = Below { cx: &mut self.test.cx, jobs: &mut self.jobs, collectives: &mut self.collectives };
        self.groups.process_gone(below, &proc("job", rank));
    }

    /// The events that were raised, with their votes.
    fn raised(&mut self) -> Vec<(Status, Option<u64>)> {
        let raised = self.test.effects().into_iter().filter_map(|effect| match effect {
            Effect::Raise { event, .. } => Some((event.status, event.vote)),
            _ => None,
        });
        raised.collect()
    }

    /// The vote that came with an event of this code.
    fn vote_on(&mut self, code: Status) -> Option<u64> {
        self.raised().into_iter().find(|(status, _)| *status == code).expect("the event").1
    }

    fn members(&self) -> Option<Vec<Proc>> {
        Some(self.groups.registry.get(&group())?.members())
    }
}

pub(super) fn group() -> Nspace {
    Nspace::new("g").unwrap()
}

fn nothing() -> Decision {
    Decision { vote: 0, abort: false, lead: false, add: Vec::new() }
}

#[test]
fn an_invitation_is_complete_when_all_have_answered() {
    let mut server = Server::new(&[]);
    let leader = server.invite();
    let first = server.join(1, true);
    assert_eq!((server.members(), server.test.replies()), (None, vec![]));
    let second = server.join(2, true);
    assert_eq!(server.members(), Some((0..3).map(|rank| proc("job", rank)).collect()));
    let answered: Vec<Caller> = server.test.replies().into_iter().map(|(caller, _)| caller).collect();
    assert!([leader, first, second].iter().all(|caller| answered.contains(caller)));
}

#[test]
fn a_job_that_some_name_as_a_whole_and_others_one_by_one_makes_one_group() {
    let mut server = Server::new(&[]);
    let whole = vec![Proc { rank: Rank::WILDCARD, ..proc("job", 0) }];
    let each: Vec<Proc> = (0..4).map(|rank| proc("job", rank)).collect();
    for (rank, procs) in [(2, &whole), (0, &each), (3, &whole), (1, &each)] {
        assert_eq!((server.members(), server.test.replies()), (None, vec![]));
        server.call(rank, GroupCall::Construct { procs: procs.clone(), info: Vec::new() });
    }
    let below = Below { cx: &mut server.test.cx, jobs: &mut server.jobs, collectives: &mut server.collectives };
    let Some(Step::Complete(_, id)) = below.collectives.next_step() else { panic!("all have come") };
    server.groups.complete(below, id);
    assert_eq!((server.members(), server.test.replies().len()), (Some(each), 4));
}

#[test]
fn who_starts_anew_may_come_to_a_group_that_its_like_has_come_to_alone() {
    let mut server = Server::new(&[]);
    let come = |server: &mut Server, rank| {
        let info = vec![Info::new(keys::GROUP_BOOTSTRAP, Value::Size(2))];
        server.call(rank, GroupCall::Construct { procs: vec![proc("job", rank)], info })
    };
    come(&mut server, 0);
    let again = come(&mut server, 0);
    assert_eq!(server.test.replies(), [(again, Reply::Done(Status::ERR_EXISTS))]);
    server.dies(0);
    let below = Below { cx: &mut server.test.cx, jobs: &mut server.jobs, collectives: &mut server.collectives };
    server.groups.restarted(below, &proc("job", 0));
    server.test.replies();
    come(&mut server, 0);
    assert_eq!(server.test.replies(), []);
}

#[test]
fn a_leader_with_a_handler_votes_before_the_group_is_made() {
    let mut server = Server::new(&[Status::GROUP_INVITE_DECLINED]);
    server.invite();
    server.join(1, true);
    server.raised();
    server.join(2, false);
    let vote = server.vote_on(Status::GROUP_INVITE_DECLINED).expect("the leader decides");
    assert_eq!(server.members(), None);
    server.decide(1, vote, nothing());
    assert_eq!(server.members(), None, "nobody has asked that process");
    server.decide(0, vote, Decision { add: vec![proc("job", 3)], ..nothing() });
    assert_eq!(server.members(), None, "the substitute has not answered");
    server.join(3, true);
    let members = server.members().expect("a group");
    assert!(members.contains(&proc("job", 3)) && !members.contains(&proc("job", 2)));
}

#[test]
fn a_decline_without_a_handler_ends_the_invitation_for_all() {
    let mut server = Server::new(&[]);
    let leader = server.invite();
    let waiting = server.join(1, true);
    server.join(2, false);
    assert_eq!(server.members(), None);
    let replies = server.test.replies();
    for caller in [leader, waiting] {
        assert!(replies.contains(&(caller, Reply::Done(Status::GROUP_CONSTRUCT_ABORT))));
    }
    assert!(server.raised().iter().any(|(status, _)| *status == Status::GROUP_CONSTRUCT_ABORT));
}

#[test]
fn guests_are_charged_to_their_leader_until_the_invitation_is_over() {
    let mut server = Server::new(&[]);
    let account = server.test.limit_memory(server.peers[0], 3 << 10);
    server.invite();
    let two_guests = account.used();
    assert!(two_guests >= 2 << 10);
    let other = Nspace::new("other").unwrap();
    let procs = || (0..3).map(|rank| proc("job", rank)).collect();
    let refused = server.call_of(&other, 0, GroupCall::Invite { procs: procs(), info: Vec::new() });
    assert!(server.test.replies().contains(&(refused, Reply::Done(Status::ERR_OUT_OF_RESOURCE))));
    assert_eq!(account.used(), two_guests);
    server.join(2, false);
    assert_eq!(account.used(), 0);
}

#[test]
fn who_hears_a_leader_give_its_invitation_up_is_not_told_again() {
    let told_besides = |range: DataRange, custom: &[u32]| {
        let mut server = Server::new(&[]);
        let leader = server.invite();
        server.told();
        let custom = custom.iter().map(|rank| proc("job", *rank)).collect();
        let info = vec![id_of(&group()), Info::new(keys::EVENT_CUSTOM_RANGE, array_of(custom))];
        let (status, source) = (Status::GROUP_CONSTRUCT_ABORT, proc("job", 0));
        let mut event = Event { status, source, range, info, vote: None };
        let below = Below { cx: &mut server.test.cx, jobs: &mut server.jobs, collectives: &mut server.collectives };
        server.groups.hear(below, &mut event, false);
        assert!(server.test.replies().contains(&(leader, Reply::Done(status))));
        assert!(server.groups.invitations.is_empty() && server.groups.invitations.guests.is_empty());
        server.told()
    };
    let abort = |ranks: &[u32]| (Status::GROUP_CONSTRUCT_ABORT, ranks.iter().map(|rank| proc("job", *rank)).collect());
    assert_eq!(told_besides(DataRange::NAMESPACE, &[]), []);
    assert_eq!(told_besides(DataRange::LOCAL, &[]), []);
    assert_eq!(told_besides(DataRange::CUSTOM, &[1, 2]), []);
    assert_eq!(told_besides(DataRange::CUSTOM, &[1]), [abort(&[2])]);
    assert_eq!(told_besides(DataRange::RM, &[]), [abort(&[1, 2])]);
}

/// Attribute that names the group in an event.
fn of_group() -> [Info; 1] {
    [id_of(&group())]
}

#[test]
fn a_group_is_made_by_events_alone() {
    let mut server = Server::new(&[]);
    (0..3).for_each(|rank| server.knows_events_alone(rank));
    assert_eq!(server.says(0, Status::GROUP_INVITED, &[0, 1, 2], &of_group()), Status::SUCCESS);
    assert_eq!(server.told(), [(Status::GROUP_INVITED, vec![proc("job", 1), proc("job", 2)])]);
    // Libraries name the leader alone, and the oldest invitation is meant.
    for rank in [1, 2] {
        assert_eq!(server.says(rank, Status::GROUP_INVITE_ACCEPTED, &[0], &[]), Status::SUCCESS);
        assert_eq!(server.told(), [(Status::GROUP_INVITE_ACCEPTED, vec![proc("job", 0)])]);
    }
    assert_eq!(server.says(1, Status::GROUP_INVITE_ACCEPTED, &[0], &[]), Status::ERR_NOT_FOUND, "it has answered");
    assert_eq!(server.says(1, Status::GROUP_CONSTRUCT_COMPLETE, &[], &of_group()), Status::ERR_NO_PERMISSIONS);
    assert_eq!(server.members(), None, "the leader says when");
    assert_eq!(server.says(0, Status::GROUP_CONSTRUCT_COMPLETE, &[0, 1, 2], &of_group()), Status::SUCCESS);
    assert_eq!(server.told(), [(Status::GROUP_CONSTRUCT_COMPLETE, vec![proc("job", 1), proc("job", 2)])]);
    assert_eq!(server.members(), Some((0..3).map(|rank| proc("job", rank)).collect()));
    assert!(server.groups.invitations.is_empty() && server.groups.invitations.guests.is_empty());
    assert_eq!(server.says(2, Status::GROUP_LEFT, &[0, 1], &of_group()), Status::SUCCESS);
    assert_eq!(server.told(), [(Status::GROUP_LEFT, vec![proc("job", 0), proc("job", 1)])]);
    assert_eq!(server.members(), Some(vec![proc("job", 0), proc("job", 1)]));
}

#[test]
fn a_leader_by_events_meets_guests_by_requests() {
    let mut server = Server::new(&[]);
    server.knows_events_alone(0);
    server.says(0, Status::GROUP_INVITED, &[0, 1, 2, 3], &of_group());
    let joined = server.join(1, true);
    server.join(2, false);
    server.told();
    server.dies(3);
    // Its library makes an event of groups of that.
    assert_eq!(server.told(), [(Status::PROC_TERMINATED, vec![proc("job", 0)])]);
    assert_eq!(server.members(), None, "who does not come ends nothing: the leader decides");
    server.says(0, Status::GROUP_CONSTRUCT_COMPLETE, &[0, 1], &of_group());
    let members = vec![proc("job", 0), proc("job", 1)];
    assert_eq!(server.members(), Some(members));
    assert!(server.groups.invitations.guests.is_empty(), "{joined:?}");
}

#[test]
fn a_leader_by_requests_meets_guests_by_events() {
    let mut server = Server::new(&[]);
    server.knows_events_alone(1);
    server.knows_events_alone(2);
    let leader = server.invite();
    assert_eq!(server.says(1, Status::GROUP_INVITE_ACCEPTED, &[], &[]), Status::SUCCESS);
    let caller = server.test.request(server.peers[2]);
    let info = of_group();
    let below = Below { cx: &mut server.test.cx, jobs: &mut server.jobs, collectives: &mut server.collectives };
    server.groups.said(below, caller, (&proc("job", 2), Status::GROUP_INVITE_ACCEPTED, &info));
    let answered: Vec<Caller> = server.test.replies().into_iter().map(|(to, _)| to).collect();
    assert_eq!(answered, [caller, leader], "the leader has its group");
    // Programs written for other libraries say so as well.
    assert_eq!(server.says(0, Status::GROUP_CONSTRUCT_COMPLETE, &[1, 2], &of_group()), Status::SUCCESS);
    assert_eq!(server.says(3, Status::GROUP_CONSTRUCT_COMPLETE, &[1, 2], &of_group()), Status::ERR_NO_PERMISSIONS);
    assert_eq!(server.members().map(|members| members.len()), Some(3));
}

#[test]
fn a_leader_by_events_that_dies_is_followed_by_one_that_votes() {
    let mut server = Server::new(&[Status::GROUP_LEADER_FAILED]);
    server.knows_events_alone(0);
    server.says(0, Status::GROUP_INVITED, &[1, 2], &of_group());
    server.raised();
    server.dies(0);
    let vote = server.vote_on(Status::GROUP_LEADER_FAILED).expect("the guests decide");
    server.decide(1, vote, Decision { lead: true, ..nothing() });
    server.decide(2, vote, nothing());
    server.join(2, true);
    assert_eq!(server.members(), Some(vec![proc("job", 1), proc("job", 2)]));
}

#[test]
fn whoever_stands_first_follows_a_leader_that_dies() {
    let mut server = Server::new(&[Status::GROUP_LEADER_FAILED]);
    server.invite();
    server.raised();
    server.dies(0);
    let vote = server.vote_on(Status::GROUP_LEADER_FAILED).expect("the guests decide");
    server.decide(2, vote, Decision { lead: true, ..nothing() });
    assert!(server.raised().is_empty(), "one has not decided");
    server.decide(1, vote, Decision { lead: true, ..nothing() });
    assert_eq!(server.raised()[0].0, Status::GROUP_LEADER_SELECTED);
    server.join(1, true);
    assert_eq!(server.members(), Some(vec![proc("job", 1), proc("job", 2)]), "the new leader is in without joining");
}

#[test]
fn an_invitation_whose_leader_dies_ends_where_nobody_follows() {
    let mut server = Server::new(&[]);
    server.invite();
    let waiting = server.join(1, true);
    server.dies(0);
    assert!(server.test.replies().contains(&(waiting, Reply::Done(Status::GROUP_CONSTRUCT_ABORT))));
    assert_eq!((server.members(), server.groups.invitations.is_empty()), (None, true));
}

#[test]
fn a_connection_that_is_gone_holds_nobody_up() {
    let mut server = Server::new(&[Status::GROUP_INVITE_ACCEPTED]);
    server.invite();
    server.join(1, true);
    server.join(2, true);
    assert_eq!(server.members(), None, "the leader has not decided");
    let peer = server.peers[0];
    let below = Below { cx: &mut server.test.cx, jobs: &mut server.jobs, collectives: &mut server.collectives };
    server.groups.peer_over(below, peer);
    assert!(server.members().is_some());
}

#[test]
fn an_answer_to_the_dead_leader_is_noted_when_it_comes_to_the_new_one() {
    let mut server = Server::new(&[Status::GROUP_INVITE_DECLINED]);
    let (dead, leader, guest) = (proc("far", 0), proc("job", 1), proc("far", 2));
    let mut hear = |message: Message, source: &Proc, to: &Proc| {
        let mut event = message.to_event(&group(), source, vec![to.clone()], None);
        let below = Below { cx: &mut server.test.cx, jobs: &mut server.jobs, collectives: &mut server.collectives };
        server.groups.hear(below, &mut event, true);
        event.vote
    };
    let places = vec![leader.clone(), guest.clone()];
    let handover = message::Handover { places, awaited: vec![guest.clone()], info: Vec::new() };
    hear(Message::LeaderSelected(Some(leader.clone()), Some(handover)), &dead, &leader);
    let declined = || Message::Answered(message::Answer::Declined);
    assert_eq!(hear(declined(), &guest, &dead), None, "the leader does not hear this one");
    let vote = hear(declined(), &guest, &leader).expect("the leader decides");
    assert_eq!(server.members(), None);
    server.decide(1, vote, nothing());
    assert_eq!(server.members(), Some(vec![leader]));
}

#[test]
fn a_process_leads_so_many_invitations_and_its_end_is_that_of_those_alone() {
    let mut server = Server::new(&[]);
    let refused = [Reply::Done(Status::ERR_OUT_OF_RESOURCE)];
    let invite = |server: &mut Server, leader: u32, number: usize| {
        let procs = vec![proc("job", 2), proc("job", 3)];
        let group = Nspace::new(format!("of-{leader}-{number}")).unwrap();
        server.call_of(&group, leader, GroupCall::Invite { procs, info: Vec::new() });
        server.test.replies().into_iter().map(|(_, reply)| reply).collect::<Vec<_>>()
    };
    assert!((0..MAX_OPEN).all(|number| invite(&mut server, 0, number).is_empty()));
    assert_eq!(invite(&mut server, 0, MAX_OPEN), refused);
    assert_eq!(invite(&mut server, 1, 0), []);
    server.dies(0);
    let invitations = &server.groups.invitations;
    assert_eq!((invitations.led_by(&proc("job", 0)), invitations.led_by(&proc("job", 1))), (0, 1));
    assert!(!invitations.guests.is_empty(), "the other one waits for its guests");
    server.test.replies();
    server.dies(2);
    assert_eq!(server.test.replies().len(), 1);
    assert!(server.groups.invitations.is_empty() && server.groups.invitations.guests.is_empty());
}

#[test]
fn a_process_waits_alone_for_so_many_groups() {
    let mut server = Server::new(&[]);
    let come = |server: &mut Server, rank: u32, number: usize| {
        let group = Nspace::new(format!("g{number}")).unwrap();
        server.call_of(&group, rank, GroupCall::Construct { procs: Vec::new(), info: Vec::new() });
        server.test.replies().into_iter().map(|(_, reply)| reply).collect::<Vec<_>>()
    };
    assert!((0..MAX_OPEN).all(|number| come(&mut server, 0, number).is_empty()));
    assert_eq!(come(&mut server, 0, MAX_OPEN), [Reply::Done(Status::ERR_OUT_OF_RESOURCE)]);
    assert_eq!(come(&mut server, 0, 0), [Reply::Done(Status::ERR_EXISTS)]);
    assert_eq!(come(&mut server, 1, 0), []);
    let below = Below { cx: &mut server.test.cx, jobs: &mut server.jobs, collectives: &mut server.collectives };
    server.groups.job_over(below, &proc("job", 0).nspace);
    assert_eq!(server.test.replies().len(), MAX_OPEN + 1);
    assert!(server.groups.singles.is_empty());
}

#[test]
fn a_process_that_makes_all_groups_it_may_leaves_others_room() {
    let mut server = Server::new(&[]);
    let account = server.test.cx.accounts.of(&proc("job", 0), None);
    let name = |number: usize| Nspace::new(format!("g{number}")).unwrap();
    let may = |server: &Server, rank: u32| {
        server.groups.may_begin(&server.test.cx, &server.jobs, &proc("job", rank), &name(usize::MAX))
    };
    let mut made = 0;
    let mut make = |server: &mut Server, rank: u32, most: usize| {
        let before = made;
        while made - before < most && may(server, rank).is_ok() {
            let Server { test, jobs, collectives, groups, .. } = server;
            let (registry, votes) = (&mut groups.registry, &mut groups.votes);
            let floor = &mut Floor { cx: &mut test.cx, jobs, collectives, registry, votes };
            make::enroll(floor, &name(made), group::Group::new(vec![proc("job", rank)], None, false));
            made += 1;
        }
        made - before
    };
    let others = make(&mut server, 3, FEW_GROUPS);
    assert_eq!(make(&mut server, 0, usize::MAX), MAX_GROUPS / 2);
    assert_eq!(make(&mut server, 1, usize::MAX), MAX_GROUPS / 2 - others);
    assert_eq!(make(&mut server, 2, usize::MAX), FEW_GROUPS, "there is room for those that are of few");
    assert!([0, 1, 2].iter().all(|rank| may(&server, *rank) == Err(Status::ERR_OUT_OF_RESOURCE)));
    let job = server.test.cx.accounts.of_job(&proc("job", 0).nspace).unwrap().clone();
    assert!(job.used() > 0);
    (0..made).for_each(|number| server.groups.registry.disband(&name(number)));
    assert_eq!((job.used(), account.used(), may(&server, 0)), (0, 0, Ok(())));
}

#[test]
fn many_groups_hear_of_the_death_of_a_member_in_slices() {
    let mut server = Server::new(&[Status::GROUP_MEMBER_FAILED]);
    let many = 1000;
    for number in 0..many {
        let members = vec![proc("job", 0), proc("job", 1)];
        let made = group::Group::new(members, None, true);
        server.groups.registry.enroll(&server.jobs, Nspace::new(format!("g{number}")).unwrap(), made);
    }
    server.dies(0);
    let mut told = server.told().len();
    let mut slices = 0;
    while let Some(slice) = server.test.cx.slices.pop_front() {
        let Slice::Farewell(number) = slice else { panic!("{slice:?}") };
        let below = Below { cx: &mut server.test.cx, jobs: &mut server.jobs, collectives: &mut server.collectives };
        server.groups.farewell_slice(below, number);
        let more = server.told();
        assert!(!more.is_empty() && more.len() < many / 2 && more.iter().all(|(_, to)| *to == [proc("job", 1)]));
        told += more.len();
        slices += 1;
    }
    assert!(slices > 3 && told == many, "{slices} slices tell {told}");
}
