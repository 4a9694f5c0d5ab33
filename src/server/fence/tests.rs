//! Large contributions to a fence: taken, made by a thread, and given to the host.
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use instanton_layout::sync::{AtomicBool, Ordering};

use super::*;
use crate::account::Account;
use crate::data::{Key, Rank, Scope, Value};
use crate::message::{Posted, Reply};
use crate::server::collective::tracker::Step;
use crate::server::ctx::testing::{self, TestCtx, proc};
use crate::server::host::{Accepted, Answer, Completion, Host};
use crate::store::exchange::{self as encoding, Others, RankData};

/// A host that notes what it is asked for, and answers when the test does.
struct NotingHost(Sender<(Vec<u8>, Completion<Vec<u8>>)>, Arc<AtomicBool>);

impl Host for NotingHost {
    fn fence_nb(&self, _: &[Proc], _: &[Info], data: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        self.0.send((data, done)).unwrap();
        Ok(Answer::Later)
    }

    fn withdraw(&self, operation: &Operation, procs: &[Proc]) -> Result<(), Status> {
        assert_eq!((operation, procs), (&Operation::Fence, &[Proc { rank: Rank::WILDCARD, ..proc("job", 0) }][..]));
        if self.1.load(Ordering::Relaxed) { Ok(()) } else { Err(Status::ERR_NOT_SUPPORTED) }
    }
}

/// A job of three processes, two of which run here.
struct Bench {
    test: TestCtx,
    jobs: Jobs,
    collectives: Collectives,
    fences: Fences,
    asked: Receiver<(Vec<u8>, Completion<Vec<u8>>)>,
    /// True if the host ends collectives that are late.
    withdraws: Arc<AtomicBool>,
    /// Bytes that the job of whoever comes may hold, and the accounts of those who have come.
    limit: Option<u64>,
    accounts: Vec<Account>,
}

impl Bench {
    fn new() -> Self {
        let (sender, asked) = mpsc::channel();
        let withdraws = Arc::new(AtomicBool::new(false));
        let (test, mut jobs) = (testing::ctx(NotingHost(sender, withdraws.clone())), Jobs::default());
        jobs.add(&proc("job", 0).nspace, 3, &[Rank(0), Rank(1)]);
        let (collectives, fences) = (Collectives::default(), Fences::default());
        Bench { test, jobs, collectives, fences, asked, withdraws, limit: None, accounts: Vec::new() }
    }

    /// Has a process commit a large value.
    fn commit(&mut self, rank: u32, of: u8) {
        let entries = vec![Posted { scope: Scope::GLOBAL, key: key(), value: value(of) }];
        self.jobs.commit(&mut self.test.cx, proc("job", rank), entries).unwrap();
    }

    /// Has both processes come to a collecting fence, and lets it go on as far as it does.
    fn fence(&mut self, limit: Option<Duration>) {
        let mut info = vec![Info::new(keys::COLLECT_DATA, true)];
        info.extend(limit.map(|limit| Info::new(keys::TIMEOUT, limit.as_secs() as u32)));
        (0..2).for_each(|rank| self.arrive(rank, Vec::new(), info.clone(), None));
        let Some(Step::Complete(_, id)) = self.collectives.next_step() else { panic!("it is not complete") };
        self.fences.complete(&mut self.test.cx, &mut self.jobs, &mut self.collectives, id);
    }

    /// Has one process come to a fence.
    fn arrive(&mut self, rank: u32, procs: Vec<Proc>, info: Vec<Info>, group: Option<&str>) {
        let proc = proc("job", rank);
        let peer = self.test.connect(&proc);
        self.accounts.extend(self.limit.map(|limit| self.test.limit_memory(peer, limit)));
        let waiter = Waiter { caller: self.test.request(peer), seen: None };
        let group = group.map(|group| Nspace::new(group).unwrap());
        let request = Request { waiter, proc, procs, info, group, is_of_members: false };
        self.fences.fence(&mut self.test.cx, &mut self.jobs, &mut self.collectives, request);
    }

    /// Lets a time limit of a second pass.
    fn expire(&mut self) {
        for deadline in self.test.advance(Duration::from_secs(2)) {
            let Deadline::Collective(id) = deadline else { panic!("{deadline:?}") };
            self.collectives.expired(&mut self.test.cx, &mut self.jobs, id);
        }
    }

    /// Has the thread prepare this node's part, and lets the fence go on.
    fn prepare(&mut self) {
        self.test.run_offloaded();
        let Some(Ticket::Worked(peers, _)) = self.test.ticket() else { panic!("nobody's time") };
        assert_eq!(peers.len(), 2, "the time of both");
        let Some(Ticket::Contribution(id)) = self.test.ticket() else { panic!("nothing is prepared") };
        self.fences.prepared(&mut self.test.cx, &mut self.jobs, &mut self.collectives, id);
    }

    /// Entries that the host was asked to carry, by rank; none where it was not asked.
    fn carried(&mut self) -> Option<Vec<(u32, Vec<Value>)>> {
        let (data, done) = self.asked.try_recv().ok()?;
        let Others { ranks, .. } = encoding::read(&data, &sender()).unwrap();
        done.complete(Ok(Vec::new()));
        self.answered();
        let values = |of: RankData| (of.proc.rank.0, of.entries.into_iter().map(|posted| posted.value).collect());
        Some(ranks.into_iter().map(|(_, of)| values(of)).collect())
    }

    /// Takes what the host has answered.
    fn answered(&mut self) {
        while let Some(ticket) = self.test.ticket() {
            let Ticket::Fence(id, _, result) = ticket else { continue };
            let result = result.map(|_| Said::default());
            self.fences.answered(&mut self.test.cx, &mut self.jobs, &mut self.collectives, id, result);
        }
    }

    fn statuses(&mut self) -> Vec<Status> {
        let status = |reply| if let Reply::Done(status) = reply { status } else { panic!("{reply:?}") };
        self.test.replies().into_iter().map(|(_, reply)| status(reply)).collect()
    }
}

fn key() -> Key {
    Key::new("endpoint").unwrap()
}

fn value(of: u8) -> Value {
    vec![of; 100_000].into()
}

/// A sender that is none of the test's.
fn sender() -> encoding::Sender {
    encoding::Sender { server: proc("nobody", 0), identity: 77 }
}

#[test]
fn a_large_part_is_made_by_a_thread_and_carried_once() {
    for lacks_threads in [false, true] {
        let mut bench = Bench::new();
        bench.test.lack_threads(lacks_threads);
        (0..2).for_each(|rank| bench.commit(rank, 1));
        bench.fence(None);
        if !lacks_threads {
            assert!(bench.carried().is_none());
            bench.prepare();
        }
        assert_eq!(bench.carried(), Some(vec![(0, vec![value(1)]), (1, vec![value(1)])]));
        assert_eq!(bench.statuses(), [Status::SUCCESS; 2]);
        bench.commit(1, 2);
        bench.fence(None);
        if !lacks_threads {
            bench.prepare();
        }
        assert_eq!(bench.carried(), Some(vec![(0, vec![]), (1, vec![value(2)])]));
    }
}

#[test]
fn what_a_fence_carries_is_charged_to_its_job_until_the_host_has_answered() {
    let mut bench = Bench::new();
    (0..2).for_each(|rank| bench.commit(rank, 1));
    bench.limit = Some(500_000);
    bench.fence(None);
    let used = |bench: &Bench| bench.accounts.iter().map(Account::used).sum::<u64>();
    assert!(used(&bench) > 400_000, "read, and encoded: {}", used(&bench));
    bench.prepare();
    assert!(used(&bench) > 400_000, "the host has it");
    assert_eq!((bench.carried().map(|ranks| ranks.len()), used(&bench)), (Some(2), 0));
    // Where there is no room for it, the fence fails, and the next one carries it.
    bench.test.sent();
    (0..2).for_each(|rank| bench.commit(rank, 2));
    bench.limit = Some(300_000);
    bench.fence(None);
    assert_eq!((bench.statuses(), bench.carried()), (vec![Status::ERR_OUT_OF_RESOURCE; 2], None));
    assert!(matches!(bench.collectives.next_step(), Some(Step::Failed(_))), "the other nodes are told");
    bench.limit = None;
    bench.fence(None);
    bench.prepare();
    assert_eq!(bench.carried(), Some(vec![(0, vec![value(2)]), (1, vec![value(2)])]));
}

#[test]
fn what_changes_while_it_is_made_is_carried_by_the_next_fence() {
    let mut bench = Bench::new();
    (0..2).for_each(|rank| bench.commit(rank, 1));
    bench.fence(None);
    (2..6).for_each(|of| bench.commit(1, of));
    bench.prepare();
    assert_eq!(bench.carried(), Some(vec![(0, vec![value(1)]), (1, vec![value(1)])]));
    bench.fence(None);
    bench.prepare();
    assert_eq!(bench.carried(), Some(vec![(0, vec![]), (1, vec![value(5)])]));
}

#[test]
fn a_limit_that_comes_meanwhile_is_told_at_once_and_the_other_nodes_hear_of_it() {
    let mut bench = Bench::new();
    (0..2).for_each(|rank| bench.commit(rank, 1));
    bench.fence(Some(Duration::from_secs(1)));
    bench.expire();
    assert_eq!(bench.statuses(), [Status::ERR_TIMEOUT; 2]);
    bench.prepare();
    assert_eq!((bench.statuses(), bench.carried()), (vec![], None));
    let Some(Step::Failed(notice)) = bench.collectives.next_step() else { panic!("nobody is told") };
    let status = notice.info.find(keys::LOCAL_COLLECTIVE_STATUS).and_then(|info| info.value.as_status());
    assert_eq!(status, Some(Status::ERR_TIMEOUT));
    bench.fence(None);
    bench.prepare();
    assert_eq!(bench.carried(), Some(vec![(0, vec![value(1)]), (1, vec![value(1)])]), "the next one carries it");
}

#[test]
fn a_host_that_ends_what_is_late_is_waited_for_and_says_how_it_has_ended() {
    for (answers, told) in [
        (Some(Ok(Vec::new())), Status::SUCCESS),
        (Some(Err(Status::ERR_TIMEOUT)), Status::ERR_TIMEOUT),
        (None, Status::ERR_TIMEOUT),
    ] {
        let mut bench = Bench::new();
        bench.withdraws.store(true, Ordering::Relaxed);
        bench.fence(Some(Duration::from_secs(1)));
        let (_, done) = bench.asked.try_recv().unwrap();
        bench.expire();
        assert_eq!(bench.statuses(), []);
        match answers {
            Some(answer) => {
                done.complete(answer);
                bench.answered();
            }
            // It keeps them waiting.
            None => bench.expire(),
        }
        assert_eq!(bench.statuses(), [told; 2]);
    }
}

#[test]
fn a_job_that_begins_anew_meanwhile_has_no_part_in_it() {
    let mut bench = Bench::new();
    (0..2).for_each(|rank| bench.commit(rank, 1));
    bench.fence(None);
    bench.jobs.add(&proc("job", 0).nspace, 3, &[Rank(0), Rank(1)]);
    bench.prepare();
    assert_eq!(bench.carried(), Some(vec![(0, vec![]), (1, vec![])]));
}

#[test]
fn who_names_others_alone_is_told_so_at_once_whether_they_are_known_or_not() {
    let mut bench = Bench::new();
    let all = |nspace: &str| Proc::new(Nspace::new(nspace).unwrap(), Rank::WILDCARD);
    bench.arrive(0, vec![all("unknown")], Vec::new(), None);
    bench.arrive(0, vec![proc("job", 1), all("unknown")], Vec::new(), None);
    assert_eq!(bench.statuses(), [Status::ERR_NOT_A_MEMBER; 2]);
    bench.arrive(0, vec![proc("job", 0), all("")], Vec::new(), None);
    assert_eq!(bench.statuses(), [Status::ERR_BAD_PARAM]);
    // It may be registered yet.
    bench.arrive(0, vec![proc("job", 0), all("unknown")], Vec::new(), None);
    assert_eq!((bench.statuses(), bench.fences.early().count()), (vec![], 1));
    // Unless the host knows that it will not be.
    bench.arrive(0, vec![proc("job", 0), all("other")], Vec::new(), None);
    for (name, said, left) in [("unknown", Ok(()), 2), ("unknown", Err(Status::ERR_NOT_FOUND), 1)] {
        bench.fences.job_announced(&mut bench.test.cx, &all(name).nspace, said);
        assert_eq!(bench.fences.early().count(), left);
    }
    bench.fences.job_announced(&mut bench.test.cx, &all("other").nspace, Err(Status::ERR_NOT_SUPPORTED));
    assert_eq!((bench.statuses(), bench.fences.early().count()), (vec![Status::ERR_NOT_FOUND], 1));
}

#[test]
fn attributes_of_a_group_are_served_in_its_fences_alone() {
    for key in EXCUSES {
        let mut bench = Bench::new();
        let required = || vec![Info::new(key, true).required()];
        let both = || vec![proc("job", 0), proc("job", 1)];
        bench.arrive(0, both(), required(), None);
        assert_eq!(bench.statuses(), [Status::ERR_NOT_SUPPORTED]);
        bench.arrive(0, both(), required(), Some("g"));
        assert_eq!(bench.statuses(), []);
    }
}
