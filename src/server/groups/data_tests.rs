//! Groups without socket and thread: what members bring, and what a host's answer brings, in slices.
use super::part::Part;
use super::tests::group;
use super::*;
use crate::account::Account;
use crate::data::{DataArray, Key, Posted, Rank, Scope};
use crate::message::{Reply, array_of};
use crate::server::absorptions::{Absorbed, Absorptions, Purpose};
use crate::server::collective::brought::{Decoded, NAMED_ORDER};
use crate::server::collective::exchange;
use crate::server::collective::tracker::Step;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::slices::Slice;
use crate::server::ctx::testing::{self, TestCtx, proc};
use crate::server::ctx::ticket::Ticket;
use crate::server::{Accepted, Answer, Completion, Host};
use crate::store::Directives;
use crate::store::exchange::{self as encoding, Failure, RankData, Sender};

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
    /// Bytes that the job of each member may hold, and the accounts of those who have come.
    limit: Option<u64>,
    accounts: Vec<Account>,
}

impl Bringers {
    fn new(here: u32) -> Self {
        let (sender, asked) = std::sync::mpsc::channel();
        let (test, mut jobs) = (testing::ctx(Noting(sender)), Jobs::default());
        let ranks: Vec<Rank> = (0..here).map(Rank).collect();
        jobs.add(&proc("job", 0).nspace, 5, &ranks);
        let (collectives, groups) = (Collectives::default(), Groups::default());
        let mut bringers = Bringers { test, jobs, collectives, groups, asked, here, limit: None, accounts: Vec::new() };
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
            self.accounts.extend(self.limit.map(|limit| self.test.limit_memory(peer, limit)));
            let caller = self.test.request(peer);
            let call = GroupCall::Construct { procs: procs.clone(), info: info.clone() };
            let (below, groups) = self.below();
            groups.call(below, Waiter::of(caller), proc("job", rank), &group(), call);
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
        let Some(Ticket::Worked(peers, _)) = self.test.ticket() else { panic!("a ticket") };
        assert_eq!(peers.len(), self.here as usize, "each member's time");
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
    // A member that posts something else meanwhile has brought what it had when all had come.
    let mut bringers = Bringers::new(2);
    bringers.construct(5).unwrap();
    (2..6).for_each(|value| bringers.post(1, value));
    bringers.brought();
    assert_eq!(bringers.carried(), Some(vec![vec![1, 9]; 2]));
}

#[test]
fn what_a_group_carries_is_charged_to_the_jobs_of_its_members() {
    let used = |bringers: &Bringers| bringers.accounts.iter().map(Account::used).sum::<u64>();
    let mut bringers = Bringers::new(2);
    bringers.limit = Some(2_000_000);
    let id = bringers.construct(5).unwrap();
    assert!(used(&bringers) > 2 * 2 * 240_000, "read, and encoded: {}", used(&bringers));
    bringers.brought();
    assert!(bringers.carried().is_some() && used(&bringers) > 2 * 2 * 240_000, "the host has it");
    let (below, _) = bringers.below();
    below.collectives.finish_with(below.cx, below.jobs, id, Ok(()));
    // Attributes of a request are charged as long as it waits.
    assert_eq!(used(&bringers), 0);
    // Where there is no room for it, the construct fails, here and on the other nodes.
    let mut bringers = Bringers::new(2);
    bringers.limit = Some(300_000);
    bringers.construct(5).unwrap();
    let refused = bringers.test.replies().into_iter().map(|(_, reply)| reply).collect::<Vec<_>>();
    assert_eq!(refused, [const { Reply::Done(Status::ERR_OUT_OF_RESOURCE) }; 2]);
    assert!(matches!(bringers.collectives.next_step(), Some(Step::Failed(_))), "the other nodes are told");
    assert_eq!(bringers.carried(), None);
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
        let call = GroupCall::Construct { procs, info: Vec::new() };
        groups.call(below, Waiter::of(caller), proc("job", 0), &group(), call);
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
        assert!(self.absorptions.begin(cx, jobs, Purpose::Group(number), (Ok(brought), Vec::new())).is_none());
        self.test.run_offloaded();
        let Some(Ticket::Worked(..)) = self.test.ticket() else { panic!("a ticket") };
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

#[test]
fn members_have_the_order_in_which_the_first_of_them_has_named_them() {
    let named = |ranks: [u32; 3]| ranks.map(|rank| proc("job", rank)).to_vec();
    let nobody = Sender { server: proc("nobody", 0), identity: 77 };
    // It goes to the other nodes, unless it is that of the names.
    for (order, told) in [([3, 1, 2], true), ([1, 2, 3], false)] {
        let (test, mut jobs) = (testing::ctx(Later), Jobs::default());
        jobs.add(&proc("job", 0).nspace, 5, &[Rank(1), Rank(2)]);
        let mut part = Part::new(&group());
        part.joined(&proc("job", 2), &named([2, 3, 1]), &[]);
        part.joined(&proc("job", 1), &named(order), &[]);
        let data = bringing::data(&test.cx, &jobs, &[1, 2].map(|rank| proc("job", rank)), &part).unwrap();
        let Decoded { said, .. } = Brought::OfGroup(vec![Value::from(data)], None).decode(&nobody).unwrap();
        assert_eq!(said.named, told.then(|| (proc("job", 1), named(order))).into_iter().collect::<Vec<_>>());
    }
    // It comes from them.
    for (told, order) in [(Some([3, 0, 2]), [3, 0, 2]), (None, [0, 2, 3])] {
        let (mut test, mut jobs) = (testing::ctx(Later), Jobs::default());
        jobs.add(&proc("job", 0).nspace, 5, &[Rank(2)]);
        let peer = test.connect(&proc("job", 2));
        let caller = test.request(peer);
        let (mut collectives, mut groups) = (Collectives::default(), Groups::default());
        let below = Below { cx: &mut test.cx, jobs: &mut jobs, collectives: &mut collectives };
        let call = GroupCall::Construct { procs: named([2, 3, 0]), info: Vec::new() };
        groups.call(below, Waiter::of(caller), proc("job", 2), &group(), call);
        let Some(Step::Complete(_, id)) = collectives.next_step() else { panic!("all of this node have come") };
        let below = Below { cx: &mut test.cx, jobs: &mut jobs, collectives: &mut collectives };
        groups.complete(below, id);
        let of = |rank, order: Option<[u32; 3]>| {
            let key = Key::new(NAMED_ORDER).unwrap();
            let order = order.map(|order| Posted { scope: Scope::INTERNAL, key, value: array_of(named(order)) });
            RankData { proc: proc("job", rank), commits: 0, entries: order.into_iter().collect() }
        };
        let data = encoding::write(&nobody, vec![of(3, Some([3, 2, 0])), of(0, told)], None).unwrap();
        let infos = vec![Info::new(keys::GROUP_ENDPT_DATA, data)];
        let below = Below { cx: &mut test.cx, jobs: &mut jobs, collectives: &mut collectives };
        let (number, brought) = groups.answered(below, id, Ok((Status::SUCCESS, infos))).expect("data");
        let said = brought.decode(&exchange::sender(&test.cx)).unwrap().said;
        let below = Below { cx: &mut test.cx, jobs: &mut jobs, collectives: &mut collectives };
        groups.taken_in(below, number, Ok(said));
        assert_eq!(groups.registry.get(&group()).unwrap().members(), named(order));
    }
}
