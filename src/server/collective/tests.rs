//! Trackers without socket and thread: steps, losses and latecomers.
use std::cell::Cell;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::time::Duration;

use super::*;
use crate::data::{Activity, Rank, RankSet, Value};
use crate::server::ctx::slices::Slice;
use crate::server::ctx::testing::{self, TestCtx, proc};
use crate::server::waiting::Rooms;
use crate::server::{FAILURE_IS_KNOWN, NoHost};

thread_local! {
    /// Failed trackers that were gone through for latecomers.
    pub static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// A job of three processes here, and of more elsewhere where it is larger.
struct Server {
    test: TestCtx,
    jobs: Jobs,
    collectives: Collectives,
    peers: Vec<PeerId>,
}

impl Server {
    fn new(size: u32) -> Self {
        let mut test = testing::ctx(NoHost);
        let mut jobs = Jobs::default();
        jobs.add(&proc("job", 0).nspace, size, &[Rank(0), Rank(1), Rank(2)]);
        let peers = (0..3).map(|rank| test.connect(&proc("job", rank))).collect();
        Server { test, jobs, collectives: Collectives::default(), peers }
    }

    /// Lets a rank arrive at a fence of its whole job, and returns its request.
    fn arrive(&mut self, rank: u32) -> Caller {
        self.arrive_until(rank, None, OnLoss::Fail)
    }

    fn arrive_until(&mut self, rank: u32, limit: Option<Duration>, on_loss: OnLoss) -> Caller {
        self.arrive_with(rank, limit, on_loss, &[])
    }

    fn arrive_with(&mut self, rank: u32, limit: Option<Duration>, on_loss: OnLoss, info: &[Info]) -> Caller {
        let Server { test, jobs, collectives, peers } = self;
        let (proc, caller) = (proc("job", rank), test.request(peers[rank as usize]));
        let signature = collectives.signature(jobs, &proc, Operation::Fence, &[]).unwrap();
        let until = limit.map(|limit| test.cx.now() + limit);
        let waiter = Waiter { caller, seen: None };
        let arrival = Arrival { proc: &proc, waiter, info, until, group: None };
        collectives.arrive(&mut test.cx, jobs, &signature, arrival, |_| Some(on_loss));
        caller
    }

    /// Lets a rank arrive at a fence of the job in the name of a group that goes on without members that are lost.
    fn arrive_as_member(&mut self, rank: u32) -> Caller {
        let Server { test, jobs, collectives, peers } = self;
        let (proc, caller, group) = (proc("job", rank), test.request(peers[rank as usize]), Nspace::new("g").unwrap());
        let signature = collectives.signature(jobs, &proc, Operation::Fence, &[]).unwrap();
        let signature = collectives.of_members(jobs, &group, &proc, signature);
        let waiter = Waiter { caller, seen: None };
        let arrival = Arrival { proc: &proc, waiter, info: &[], until: None, group: Some(group) };
        collectives.arrive(&mut test.cx, jobs, &signature, arrival, |_| Some(OnLoss::Excuse));
        caller
    }

    fn lose(&mut self, rank: u32) {
        self.collectives.lose(&mut self.test.cx, &self.jobs, &proc("job", rank));
    }

    /// The tracker of the next step, which is to be complete.
    fn complete(&mut self) -> TrackerId {
        match self.collectives.next_step() {
            Some(Step::Complete(Operation::Fence, id)) => id,
            other => panic!("no tracker is complete: {other:?}"),
        }
    }

    fn finish(&mut self, id: TrackerId) {
        self.collectives.finish_with(&mut self.test.cx, &mut self.jobs, id, Ok(()));
    }

    fn replies(&mut self) -> Vec<(Caller, Status)> {
        let status = |reply| match reply {
            Reply::Done(status) => status,
            other => panic!("a fence is answered with {other:?}"),
        };
        self.test.replies().into_iter().map(|(caller, reply)| (caller, status(reply))).collect()
    }
}

#[test]
fn a_tracker_is_complete_when_all_of_the_node_have_arrived_and_ends_for_all() {
    let mut server = Server::new(3);
    let callers = [2, 0, 1].map(|rank| {
        assert!(server.collectives.next_step().is_none());
        server.arrive(rank)
    });
    let id = server.complete();
    assert_eq!(server.replies(), [], "its room has not finished it");
    server.finish(id);
    let mut answered = server.replies();
    answered.sort_by_key(|(caller, _)| caller.number);
    assert_eq!(answered, callers.map(|caller| (caller, Status::SUCCESS)));
}

#[test]
fn the_second_fence_of_one_meets_the_second_of_the_others_and_waits_for_the_first() {
    let mut server = Server::new(3);
    for rank in [0, 0, 1, 1, 2, 2] {
        server.arrive(rank);
    }
    let first = server.complete();
    assert!(server.collectives.next_step().is_none(), "a host has one of a signature at a time");
    server.finish(first);
    let second = server.complete();
    assert_ne!(first, second);
    server.finish(second);
    assert_eq!(server.replies().len(), 6);
}

#[test]
fn a_death_fails_a_tracker_for_those_who_came_and_for_those_who_come_later() {
    let mut server = Server::new(4);
    let first = server.arrive(0);
    server.lose(1);
    assert_eq!(server.replies(), [(first, Status::ERR_PARTIAL_SUCCESS)]);
    match server.collectives.next_step() {
        Some(Step::Failed(notice)) => {
            assert!(notice.was_met && !notice.data.is_empty());
            assert!(notice.info.is_set(FAILURE_IS_KNOWN), "the host is not told that somebody knows");
        }
        other => panic!("the other nodes are not told: {other:?}"),
    }
    let late = server.arrive(2);
    assert_eq!(server.replies(), [(late, Status::ERR_PARTIAL_SUCCESS)]);
    server.arrive(0);
    assert_eq!(server.replies(), [], "this is the next fence");
    let nspace = proc("job", 0).nspace;
    let mut gathering = server.collectives.gathering(&nspace);
    assert!(gathering.any(|tracker| tracker.failed.is_none() && tracker.arrived.len() == 1));
}

#[test]
fn a_death_after_the_arrival_harms_nobody() {
    let mut server = Server::new(3);
    server.arrive(0);
    server.arrive(1);
    server.lose(1);
    server.arrive(2);
    let id = server.complete();
    server.finish(id);
    assert!(server.replies().iter().all(|(_, status)| *status == Status::SUCCESS));
}

#[test]
fn an_excused_death_lets_the_others_go_on_once_nothing_holds_the_tracker() {
    let mut server = Server::new(3);
    server.arrive_until(0, None, OnLoss::ExcuseAndHold);
    server.arrive_until(1, None, OnLoss::ExcuseAndHold);
    server.lose(2);
    let id = match server.collectives.next_step() {
        Some(Step::Excused(id, dead)) => {
            assert_eq!(dead, proc("job", 2));
            id
        }
        other => panic!("the room is not told of the death: {other:?}"),
    };
    assert!(server.collectives.next_step().is_none(), "it is held");
    server.collectives.unhold(&mut server.test.cx, &server.jobs, id);
    assert_eq!(server.complete(), id);
}

#[test]
fn attributes_are_charged_until_the_fence_is_over_for_the_host() {
    let mut server = Server::new(3);
    let account = server.test.limit_memory(server.peers[0], 1 << 20);
    let large = [Info::new("large", "a".repeat(600_000).as_str())];
    let limit = Some(Duration::from_secs(1));
    server.arrive_with(0, limit, OnLoss::Fail, &large);
    assert!(server.replies().is_empty(), "there is room for one");
    server.arrive_with(0, limit, OnLoss::Fail, &large);
    assert!(matches!(server.replies()[..], [(_, Status::ERR_OUT_OF_RESOURCE)]), "a second one is over the limit");
    let job = proc("job", 0).nspace;
    let id = server.collectives.gathering(&job).next().unwrap().id;
    server.collectives.expired(&mut server.test.cx, &mut server.jobs, id);
    assert!(matches!(server.replies()[..], [(_, Status::ERR_TIMEOUT)]));
    assert!(
        server.collectives.gathering(&job).next().is_some_and(|tracker| tracker.failed.is_some()),
        "others may come late"
    );
    assert_eq!(account.used(), 0);
}

#[test]
fn the_host_is_given_what_any_participant_has_said_whoever_came_first() {
    let hint = |name: &str, value: u32| Info::new(name, value);
    let said = [
        vec![hint("one", 1)],
        vec![hint("two", 2).required(), Info::new(keys::COLLECT_DATA, true)],
        vec![hint("two", 3), hint("one", 1), Info::new(keys::COLLECT_DATA, false)],
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut server = Server::new(4);
        for rank in order {
            server.arrive_with(rank, None, OnLoss::Fail, &said[rank as usize]);
        }
        let id = server.complete();
        let tracker = server.collectives.completed(id).unwrap();
        let mut given = tracker.info_for_host();
        given.sort_by(|a, b| a.key.cmp(&b.key));
        let keys: Vec<String> = given.iter().map(|info| info.key.to_string()).collect();
        assert_eq!(keys, ["one", keys::COLLECT_DATA, "two"]);
        assert_eq!(given[1].value, Value::Bool(true));
        // Of one key the first word counts.
        let first = order.into_iter().find(|rank| *rank > 0).unwrap();
        assert_eq!(given[2].value, Value::Uint32(first + 1));
    }
}

#[test]
fn a_time_limit_ends_a_tracker_where_it_stands() {
    for arriving in [1, 3] {
        let mut server = Server::new(4);
        for rank in 0..arriving {
            server.arrive_until(rank, Some(Duration::from_secs(5)), OnLoss::Fail);
        }
        for deadline in server.test.advance(Duration::from_secs(6)) {
            let Deadline::Collective(id) = deadline else { panic!("another deadline: {deadline:?}") };
            server.collectives.expired(&mut server.test.cx, &mut server.jobs, id);
        }
        let answered = server.replies();
        assert_eq!(answered.len(), arriving as usize);
        assert!(answered.iter().all(|(_, status)| *status == Status::ERR_TIMEOUT));
    }
}

#[test]
fn nothing_is_kept_of_a_job_that_is_over() {
    let mut server = Server::new(4);
    let waiting = server.arrive(0);
    server.collectives.job_over(&mut server.test.cx, &mut server.jobs, &proc("job", 0).nspace);
    assert_eq!(server.replies(), [(waiting, Status::EVENT_JOB_END)]);
    let Collectives { gathering, complete, whole_jobs, index, .. } = &server.collectives;
    assert!(gathering.is_empty() && complete.is_empty() && whole_jobs.is_empty() && index.is_empty());
}

#[test]
fn a_process_begins_so_many_and_time_limits_go_through_each_a_few_times() {
    let mut server = Server::new(4);
    let limit = Some(Duration::from_secs(5));
    for _ in 0..MAX_BEGUN {
        server.arrive_until(0, limit, OnLoss::Fail);
    }
    let Server { test, jobs, collectives, peers } = &mut server;
    let (first, caller) = (proc("job", 0), test.request(peers[0]));
    let others = Signature::of(jobs, &first, Operation::Fence, &[proc("job", 0), proc("job", 1)]).unwrap();
    let arrival = Arrival { proc: &first, waiter: Waiter { caller, seen: None }, info: &[], until: None, group: None };
    assert!(collectives.join(&mut test.cx, jobs, &others, arrival).is_none(), "whatever the signature");
    assert_eq!(server.replies(), [(caller, Status::ERR_OUT_OF_RESOURCE)]);
    LOOKS.set(0);
    for deadline in server.test.advance(Duration::from_secs(6)) {
        let Deadline::Collective(id) = deadline else { panic!("another deadline: {deadline:?}") };
        server.collectives.expired(&mut server.test.cx, &mut server.jobs, id);
    }
    assert_eq!(server.replies().len(), MAX_BEGUN);
    assert!(LOOKS.get() <= (LOOKED_AT + 1) * MAX_BEGUN, "{} for {MAX_BEGUN}", LOOKS.get());
    // The others come to each of them.
    (1..3).for_each(|rank| (0..MAX_BEGUN).for_each(|_| _ = server.arrive(rank)));
    assert!(server.collectives.gathering.is_empty() && server.collectives.index.is_empty());
}

#[test]
fn no_two_servers_hash_what_processes_choose_alike() {
    let hash = |jobs: &Jobs| jobs.seed.hash_one("job");
    let (one, other) = (Jobs::default(), Jobs::default());
    assert!(hash(&one) == hash(&one) && hash(&one) != hash(&other));
}

#[test]
fn a_pattern_that_is_named_often_is_expanded_once() {
    let mut jobs = Jobs::default();
    let (job, here): (_, Vec<Rank>) = (proc("job", 0).nspace, (0..10_000).map(Rank).collect());
    jobs.add(&job, 10_000, &here);
    // Of each expanded by itself, these would be 10,000,000,000 processes.
    let often = |rank| vec![Proc::new(job.clone(), rank); 1_000_000];
    assert_eq!(jobs.each(&often(Rank::WILDCARD)).len(), here.len());
    let local = Signature::of(&jobs, &proc("job", 0), Operation::Connect, &often(Rank::LOCAL_PEERS)).unwrap();
    assert_eq!(local.procs().len(), here.len());
}

#[test]
fn a_tracker_ends_with_the_first_of_the_limits_of_those_who_have_come() {
    let mut server = Server::new(3);
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    server.arrive_until(0, seconds(4), OnLoss::Fail);
    server.arrive_until(1, seconds(2), OnLoss::Fail);
    let expired = server.test.advance(Duration::from_secs(2));
    assert!(matches!(expired[..], [Deadline::Collective(_)]), "{expired:?}");
    assert!(server.test.advance(Duration::from_secs(60)).is_empty(), "the later limit is given up");
}

/// Lets a rank arrive at a fence of a group that it names by these ranks, and returns its request.
fn arrive_by_group(server: &mut Server, rank: u32, named: &[u32], on_loss: OnLoss) -> Caller {
    let (Server { test, jobs, collectives, peers }, group) = (server, Nspace::new("g").unwrap());
    let (proc, caller) = (proc("job", rank), test.request(peers[rank as usize]));
    let named: Vec<Proc> = named.iter().map(|rank| testing::proc("job", *rank)).collect();
    let signature = Signature::of(jobs, &proc, Operation::Fence, &named).unwrap();
    let signature = collectives.meant(jobs, &group, &proc, signature);
    let waiter = Waiter { caller, seen: None };
    let arrival = Arrival { proc: &proc, waiter, info: &[], until: None, group: Some(group) };
    collectives.arrive(&mut test.cx, jobs, &signature, arrival, |_| Some(on_loss));
    caller
}

#[test]
fn a_member_that_leaves_on_another_node_takes_no_place_of_those_here_who_then_leave_it_out() {
    let mut server = Server::new(4);
    let group = Nspace::new("g").unwrap();
    (0..2).for_each(|rank| _ = arrive_by_group(&mut server, rank, &[0, 1, 2, 3], OnLoss::Excuse));
    server.collectives.leave(&mut server.test.cx, &server.jobs, &group, &proc("job", 3));
    assert!(server.collectives.next_step().is_none(), "one of this node has not come");
    arrive_by_group(&mut server, 2, &[0, 1, 2], OnLoss::Excuse);
    let id = server.complete();
    assert!(!server.collectives.completed(id).unwrap().local.elsewhere, "nobody else is left");
    server.finish(id);
    assert_eq!(server.replies().len(), 3);
}

#[test]
fn who_leaves_a_member_out_is_late_for_a_fence_that_has_failed_because_of_it() {
    let (mut server, group) = (Server::new(3), Nspace::new("g").unwrap());
    let early = arrive_by_group(&mut server, 0, &[0, 1, 2], OnLoss::Fail);
    server.collectives.leave(&mut server.test.cx, &server.jobs, &group, &proc("job", 1));
    let next = arrive_by_group(&mut server, 0, &[0, 2], OnLoss::Fail);
    let late = arrive_by_group(&mut server, 2, &[0, 2], OnLoss::Fail);
    let left = [early, late].map(|caller| (caller, Status::GROUP_LEFT));
    assert_eq!(server.replies(), left, "the first of each is one fence");
    let last = arrive_by_group(&mut server, 2, &[0, 2], OnLoss::Fail);
    let id = server.complete();
    server.finish(id);
    assert_eq!(server.replies(), [next, last].map(|caller| (caller, Status::SUCCESS)));
    // Nothing waits for the one that has left.
    assert!(server.collectives.gathering(&group).next().is_none());
}

#[test]
fn many_collectives_that_wait_for_one_who_dies_fail_in_slices() {
    let mut server = Server::new(4);
    let many = 300;
    let callers: Vec<Caller> = (0..many).map(|_| server.arrive(0)).collect();
    server.lose(1);
    let mut answered = server.replies();
    let mut slices = 0;
    while let Some(slice) = server.test.cx.slices.pop_front() {
        let Slice::Loss(number) = slice else { panic!("{slice:?}") };
        let before = answered.len();
        server.collectives.lose_more(&mut server.test.cx, &server.jobs, number);
        answered.extend(server.replies());
        assert!(answered.len() > before && answered.len() - before < many / 2);
        slices += 1;
    }
    assert!(slices > 3 && answered.len() == many, "{slices} slices, {} answers", answered.len());
    assert!(answered.iter().map(|(caller, _)| *caller).eq(callers), "in their order");
    assert!(answered.iter().all(|(_, status)| *status == Status::ERR_PARTIAL_SUCCESS));
    assert!(server.collectives.losses.is_empty());
}

#[test]
fn a_report_names_all_who_take_part_where_some_are_on_other_nodes() {
    let reported = |server: &Server| {
        let Server { test, jobs, collectives, .. } = server;
        let (fences, gets, groups) = Default::default();
        let rooms = Rooms { jobs, collectives, fences: &fences, gets: &gets, groups: &groups };
        let rows = rooms.report(&test.cx, jobs.seen_by(|_| true)).rows;
        let row = rows.into_iter().find(|row| row.activity == Activity::Waits).unwrap();
        let ranks = |procs: &[(Nspace, RankSet)]| procs.iter().map(|(_, ranks)| ranks.to_string()).collect::<Vec<_>>();
        (ranks(&row.awaited), ranks(&row.participants), row.is_elsewhere)
    };
    let set = |ranks: &str| vec![ranks.to_owned()];
    let mut alone = Server::new(3);
    alone.arrive(0);
    assert_eq!(reported(&alone), (set("1-2"), vec![], false));
    let mut one_of_several = Server::new(9);
    one_of_several.arrive(0);
    assert_eq!(reported(&one_of_several), (set("1-2"), set("0-8"), false));
    for rank in [1, 2] {
        one_of_several.arrive(rank);
    }
    assert_eq!(reported(&one_of_several), (vec![], set("0-8"), true));

    let signature = Signature::of(&alone.jobs, &proc("job", 0), Operation::Connect, &[proc("job", 0), proc("job", 2)]);
    let signature = signature.unwrap();
    let left = BTreeSet::from([proc("job", 2)]);
    let without = |left: &BTreeSet<Proc>| signature.participants(&alone.jobs, left).unwrap();
    let of_job = |ranks: &str| vec![(proc("job", 0).nspace, ranks.parse().unwrap())];
    assert_eq!((without(&BTreeSet::new()), without(&left)), (of_job("0,2"), of_job("0")));
    let unknown = Signature::of(
        &alone.jobs,
        &proc("job", 0),
        Operation::Connect,
        &[proc("job", 0), Proc::new(proc("other", 0).nspace, Rank::WILDCARD)],
    );
    assert_eq!((signature.named(), unknown.unwrap().participants(&alone.jobs, &left)), (2, None));
}

#[test]
fn a_fence_that_goes_on_without_a_lost_member_is_not_that_of_who_is_started_anew() {
    let mut server = Server::new(3);
    let Server { test, jobs, collectives, peers } = &mut server;
    // The fence began before the loss, so its signature is that of all.
    let first = test.request(peers[0]);
    let signature = collectives.signature(jobs, &proc("job", 0), Operation::Fence, &[]).unwrap();
    let group = Some(Nspace::new("g").unwrap());
    let (proc, waiter) = (&proc("job", 0), Waiter { caller: first, seen: None });
    let arrival = Arrival { proc, waiter, info: &[], until: None, group };
    collectives.arrive(&mut test.cx, jobs, &signature, arrival, |_| Some(OnLoss::Excuse));
    server.lose(2);
    let again = testing::proc("job", 2);
    server.collectives.restarted(&mut server.test.cx, &server.jobs, &again);
    let anew = server.arrive(2);
    assert!(server.collectives.next_step().is_none());
    let late = server.arrive_as_member(1);
    let id = server.complete();
    server.finish(id);
    let told = |callers: &[Caller]| callers.iter().map(|caller| (*caller, Status::SUCCESS)).collect::<Vec<_>>();
    assert_eq!(server.replies(), told(&[first, late]));
    // Members that meet in the group's name now do so apart from those who wait for all.
    let members = [server.arrive_as_member(0), server.arrive_as_member(1)];
    assert_eq!(server.replies(), []);
    server.lose(2);
    let id = server.complete();
    server.finish(id);
    assert_eq!(server.replies(), told(&members));
    let all = [server.arrive(0), server.arrive(1)];
    let id = server.complete();
    server.finish(id);
    assert_eq!(server.replies(), told(&[all[0], all[1], anew]));
}
