//! Groups without socket and thread: invitations, votes and elections of one node.
use super::*;
use crate::data::{DataArray, Key, Posted, Rank, Scope};
use crate::message::{Decision, Reply};
use crate::server::absorptions::{Absorbed, Absorptions, Purpose};
use crate::server::collective::Step;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::slices::Slice;
use crate::server::ctx::testing::{self, TestCtx, proc};
use crate::server::ctx::ticket::Ticket;
use crate::server::{Accepted, Answer, Completion, Host, NoHost};
use crate::store::Directives;
use crate::store::exchange::{self as encoding, Failure, RankData, Sender};

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
        let info = [&[Info::new(keys::EVENT_CUSTOM_RANGE, message::procs(to))], more].concat();
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
        self.groups.call(below, caller, proc("job", rank), group, call);
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

fn group() -> Nspace {
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

/// What names the group in an event.
fn of_group() -> [Info; 1] {
    [message::id_of(&group())]
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

/// A host that takes every request about a group and answers later.
struct Later;

impl Host for Later {
    fn group(&self, _: i64, _: &Nspace, _: &[Proc], _: &[Info], _: Completion<Infos>) -> Accepted {
        Ok(Answer::Later)
    }
}

/// A host that notes what members of a group bring.
struct Noting(std::sync::mpsc::Sender<Vec<Info>>);

impl Host for Noting {
    fn group(&self, _: i64, _: &Nspace, _: &[Proc], info: &[Info], _: Completion<Infos>) -> Accepted {
        self.0.send(info.to_vec()).unwrap();
        Ok(Answer::Later)
    }
}

/// A job of five processes, the first of which run here, and have posted and will give so much.
struct Bringers {
    test: TestCtx,
    jobs: Jobs,
    collectives: Collectives,
    groups: Groups,
    asked: std::sync::mpsc::Receiver<Vec<Info>>,
    here: u32,
}

impl Bringers {
    fn new(here: u32) -> Self {
        let (sender, asked) = std::sync::mpsc::channel();
        let (test, mut jobs) = (testing::ctx(Noting(sender)), Jobs::default());
        let ranks: Vec<Rank> = (0..here).map(Rank).collect();
        jobs.add(&proc("job", 0).nspace, 5, &ranks);
        let (collectives, groups) = (Collectives::default(), Groups::default());
        let mut bringers = Bringers { test, jobs, collectives, groups, asked, here };
        (0..here).for_each(|rank| bringers.post(rank, 1));
        bringers
    }

    fn post(&mut self, rank: u32, value: u8) {
        let key = Key::new("posted").unwrap();
        let entries = vec![Posted { scope: Scope::GLOBAL, key, value: vec![value; 200_000].into() }];
        self.jobs.commit(&mut self.test.cx, proc("job", rank), entries).unwrap();
    }

    /// Has those of this node come to a group of so many.
    fn construct(&mut self, size: u32) -> Option<TrackerId> {
        let given = Info::new("given", vec![9u8; 40_000]);
        let info = vec![Info::new(keys::GROUP_INFO, DataArray::of_info(vec![given]))];
        let procs: Vec<Proc> = (0..size).map(|rank| proc("job", rank)).collect();
        for rank in 0..self.here {
            let peer = self.test.connect(&proc("job", rank));
            let caller = self.test.request(peer);
            let call = GroupCall::Construct { procs: procs.clone(), info: info.clone() };
            let (below, groups) = self.below();
            groups.call(below, caller, proc("job", rank), &group(), call);
        }
        let Some(Step::Complete(_, id)) = self.collectives.next_step() else { return None };
        let (below, groups) = self.below();
        groups.complete(below, id);
        Some(id)
    }

    fn below(&mut self) -> (Below<'_>, &mut Groups) {
        let below = Below { cx: &mut self.test.cx, jobs: &mut self.jobs, collectives: &mut self.collectives };
        (below, &mut self.groups)
    }

    /// The thread has done its work.
    fn brought(&mut self) {
        self.test.run_offloaded();
        let Some(Ticket::Bringing(id)) = self.test.ticket() else { panic!("a ticket") };
        let (below, groups) = self.below();
        groups.brought(below, id);
    }

    /// Has the room hear of trackers that are over.
    fn forget_over(&mut self) {
        for effect in self.test.effects() {
            if let Effect::TrackerOver(id) = effect {
                let (below, groups) = self.below();
                groups.tracker_over(below, id);
            }
        }
    }

    /// First bytes of what the host is to carry for each process; none where it was not asked.
    fn carried(&self) -> Option<Vec<Vec<u8>>> {
        let info = self.asked.try_recv().ok()?;
        let data = info.find(keys::GROUP_ENDPT_DATA).unwrap().value.as_bytes().unwrap().to_vec();
        let sender = Sender { server: proc("nobody", 0), identity: 77 };
        let ranks = encoding::read(&data, &sender).unwrap().ranks;
        Some(
            ranks.iter().map(|(_, of)| of.entries.iter().map(|of| of.value.as_bytes().unwrap()[0]).collect()).collect(),
        )
    }

    /// Drafts and the like would keep records from being moved.
    fn is_nothing_under_way(&self) -> bool {
        self.groups.constructs.is_empty() && !format!("{:?}", self.groups).contains("Bringing {")
    }
}

#[test]
fn what_members_here_bring_is_prepared_by_a_thread_where_it_is_large() {
    for lacks_threads in [false, true] {
        let mut bringers = Bringers::new(2);
        bringers.test.lack_threads(lacks_threads);
        bringers.construct(5).expect("all of this node have come");
        if !lacks_threads {
            assert_eq!(bringers.carried(), None);
            bringers.brought();
        }
        assert_eq!(bringers.carried(), Some(vec![vec![1, 9]; 2]));
    }
    // Who posts something else meanwhile is read again.
    let mut bringers = Bringers::new(2);
    bringers.construct(5).unwrap();
    bringers.post(1, 2);
    bringers.brought();
    assert_eq!(bringers.carried(), Some(vec![vec![1, 9], vec![2, 9]]));
}

#[test]
fn a_group_that_ends_while_its_data_is_prepared_asks_nobody() {
    let mut bringers = Bringers::new(2);
    bringers.construct(5).unwrap();
    let (below, groups) = bringers.below();
    let mut event = Message::Aborted.to_event(&group(), &proc("job", 4), vec![proc("job", 0)], None);
    groups.hear(below, &mut event, true);
    assert_eq!(bringers.test.replies().len(), 2);
    bringers.forget_over();
    bringers.brought();
    assert!(bringers.carried().is_none() && bringers.is_nothing_under_way());
}

#[test]
fn a_group_whose_time_is_over_while_its_data_is_prepared_fails_on_all_nodes() {
    let mut bringers = Bringers::new(2);
    let id = bringers.construct(5).unwrap();
    bringers.collectives.expired(&mut bringers.test.cx, &mut bringers.jobs, id);
    let replies = bringers.test.replies();
    assert!(replies.len() == 2 && replies.iter().all(|(_, reply)| *reply == Reply::Done(Status::ERR_TIMEOUT)));
    bringers.brought();
    assert!(matches!(bringers.collectives.next_step(), Some(Step::Failed(_))), "the other nodes hear of it");
    bringers.forget_over();
    assert!(bringers.carried().is_none() && bringers.is_nothing_under_way());
}

#[test]
fn what_many_members_give_is_stored_in_slices_before_the_group_is_made() {
    let mut bringers = Bringers::new(5);
    let id = bringers.construct(5).expect("all of this node have come");
    let finds = |bringers: &Bringers, rank| {
        let store = bringers.jobs.store(&proc("job", 0).nspace).unwrap();
        store.get(Rank(0), Rank(rank), &Key::new("given").unwrap(), &Directives::NONE).is_ok()
    };
    let mut slices = 0;
    while let Some(slice) = bringers.test.cx.slices.pop_front() {
        assert_eq!(slice, Slice::Construct(id));
        assert!(finds(&bringers, 0) && !finds(&bringers, 4) && bringers.test.replies().is_empty());
        assert!(bringers.groups.registry.get(&group()).is_none());
        let (below, groups) = bringers.below();
        groups.construct_slice(below, id);
        slices += 1;
    }
    assert!(slices > 0 && finds(&bringers, 4));
    assert_eq!(
        (bringers.groups.registry.get(&group()).unwrap().members().len(), bringers.test.replies().len()),
        (5, 5)
    );
}

/// A construct of a group of many processes, one of them here, whose host has brought what the others post and give.
struct Construct {
    test: TestCtx,
    jobs: Jobs,
    collectives: Collectives,
    groups: Groups,
    absorptions: Absorptions,
    caller: Caller,
    /// The tracker.
    id: TrackerId,
}

impl Construct {
    /// Processes of the group.
    const SIZE: u32 = 400;

    fn new() -> Self {
        let (mut test, mut jobs) = (testing::ctx(Later), Jobs::default());
        jobs.add(&proc("job", 0).nspace, Self::SIZE, &[Rank(0)]);
        let peer = test.connect(&proc("job", 0));
        jobs.client_mut(&proc("job", 0)).unwrap().peer = Some(peer);
        let caller = test.request(peer);
        let (mut collectives, mut groups) = (Collectives::default(), Groups::default());
        let procs = (0..Self::SIZE).map(|rank| proc("job", rank)).collect();
        let below = Below { cx: &mut test.cx, jobs: &mut jobs, collectives: &mut collectives };
        groups.call(below, caller, proc("job", 0), &group(), GroupCall::Construct { procs, info: Vec::new() });
        let Some(Step::Complete(_, id)) = collectives.next_step() else { panic!("all of this node have come") };
        let below = Below { cx: &mut test.cx, jobs: &mut jobs, collectives: &mut collectives };
        groups.complete(below, id);
        Construct { test, jobs, collectives, groups, absorptions: Absorptions::default(), caller, id }
    }

    fn below(&mut self) -> (Below<'_>, &mut Groups) {
        let below = Below { cx: &mut self.test.cx, jobs: &mut self.jobs, collectives: &mut self.collectives };
        (below, &mut self.groups)
    }

    /// Has the host answer, with the words of a node beside the data of its processes.
    fn answer(&mut self, failure: Option<Failure>) {
        let entry = |scope, key: &str| Posted { scope, key: Key::new(key).unwrap(), value: vec![7; 100].into() };
        let of = |rank| {
            let entries = vec![entry(Scope::GLOBAL, "posted"), entry(Scope::INTERNAL, "given")];
            RankData { proc: proc("job", rank), commits: 1, entries }
        };
        let sender = Sender { server: proc("servers", 1), identity: 99 };
        let data = encoding::write(&sender, (1..Self::SIZE).map(of).collect(), failure).unwrap();
        let context = Info::new(keys::GROUP_CONTEXT_ID, Value::Size(5));
        let infos = vec![Info::new(keys::GROUP_ENDPT_DATA, data), context];
        let id = self.id;
        let (below, groups) = self.below();
        let (number, brought) = groups.answered(below, id, Ok((Status::SUCCESS, infos))).expect("data");
        let (cx, jobs) = (&mut self.test.cx, &mut self.jobs);
        assert!(self.absorptions.begin(cx, jobs, Purpose::Group(number), Ok(brought)).is_none());
        self.test.run_offloaded();
        let Some(Ticket::Decoded(absorption)) = self.test.ticket() else { panic!("a ticket") };
        let absorbed = self.absorptions.decoded(&mut self.test.cx, absorption);
        self.absorbed(absorbed);
    }

    /// Takes some more in. Returns false at the end.
    fn slice(&mut self) -> bool {
        let Some(Slice::Absorption(number)) = self.test.cx.slices.pop_front() else { return false };
        let absorbed = self.absorptions.slice(&mut self.test.cx, &mut self.jobs, number);
        self.absorbed(absorbed);
        true
    }

    fn absorbed(&mut self, absorbed: Option<Absorbed>) {
        if let Some(Absorbed { purpose: Purpose::Group(number), result }) = absorbed {
            let (below, groups) = self.below();
            groups.taken_in(below, number, result);
        }
    }

    fn finds(&self, key: &str) -> bool {
        let store = self.jobs.store(&proc("job", 0).nspace).unwrap();
        store.get(Rank(0), Rank(Self::SIZE - 1), &Key::new(key).unwrap(), &Directives::NONE).is_ok()
    }
}

#[test]
fn large_data_that_a_groups_answer_brings_is_taken_in_in_slices_before_the_group_is_made() {
    let mut construct = Construct::new();
    construct.answer(None);
    let mut slices = 0;
    while construct.slice() {
        slices += 1;
        let is_made = construct.groups.registry.get(&group()).is_some();
        assert_eq!(is_made, construct.test.cx.slices.is_empty(), "after {slices} slices");
    }
    assert!(slices > 1 && ["posted", "given", "5@given"].iter().all(|key| construct.finds(key)));
    let members = construct.groups.registry.get(&group()).unwrap().members();
    assert_eq!(members.len(), Construct::SIZE as usize);
    let [(caller, Reply::Infos(Status::SUCCESS, _))] = &construct.test.replies()[..] else { panic!("an answer") };
    assert_eq!((*caller, construct.groups.making.len()), (construct.caller, 0));
}

#[test]
fn a_group_that_has_failed_on_another_node_shares_nothing() {
    let mut construct = Construct::new();
    construct.answer(Some(Failure { status: Status::ERR_PROC_TERM_WO_SYNC, gone: vec![proc("job", 9)] }));
    while construct.slice() {}
    assert!(!construct.finds("posted") && construct.groups.registry.get(&group()).is_none());
    assert_eq!(construct.test.replies(), [(construct.caller, Reply::Done(Status::ERR_PROC_TERM_WO_SYNC))]);
}

#[test]
fn a_group_whose_time_is_over_while_its_data_is_taken_in_is_not_made() {
    let mut construct = Construct::new();
    construct.answer(None);
    assert!(construct.slice());
    construct.collectives.expired(&mut construct.test.cx, &mut construct.jobs, construct.id);
    assert_eq!(construct.test.replies(), [(construct.caller, Reply::Done(Status::ERR_TIMEOUT))]);
    while construct.slice() {}
    assert!(construct.groups.registry.get(&group()).is_none() && construct.test.replies().is_empty());
    assert_eq!(construct.groups.making.len(), 0);
}
