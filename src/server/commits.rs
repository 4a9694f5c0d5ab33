//! Large commits: composed and written by threads, published in one go, and made known in slices.
//!
//! A commit of many megabytes takes longer than others should wait, and so does a small one by which megabytes of what its
//! process has posted before are written anew. A [`Draft`] of it goes to a thread twice: to be composed,
//! and to be written to the blocks that the store has taken for it meanwhile. Then it is published, whole. Those who
//! wait for its keys hear of them in slices. Its peer is busy until then, so its fence comes after its commit; where
//! the peer is gone before it is published, nothing of it is left.
use std::collections::{BTreeMap, VecDeque};
use std::vec::IntoIter;

use super::ctx::Ctx;
use super::ctx::effect::Effect;
use super::ctx::peers::Caller;
use super::ctx::slices::Slice;
use super::ctx::ticket::Ticket;
use super::jobs::{Jobs, awaited_keys};
use crate::account::{Charge, Kind};
use crate::by_number::ByNumber;
use crate::data::{Proc, Status};
use crate::message::Posted;
use crate::message::door::{Outgoing, PeerId};
use crate::store::{Draft, WriteError};
use crate::trace;

/// Bytes of a message from which on a commit is large.
pub const LARGE: usize = 64 << 10;

/// Threads that work at commits at a time.
const MAX_WORKERS: usize = 2;

/// Times that a commit is composed anew by a thread, after which it is stored at once.
const MOST_OVERTAKEN: u32 = 8;

/// Entries that are made known in one slice.
const SLICE: usize = 512;

/// State of a commit.
#[derive(Debug)]
enum Stage {
    /// Its records are composed.
    Composed,
    /// They are written.
    Written,
    /// The commit is published. These entries are still to be made known.
    Published(IntoIter<Posted>),
}

/// A commit under way.
#[derive(Debug)]
struct Commit {
    caller: Caller,
    proc: Proc,
    stage: Stage,
    /// True where its peer is gone.
    is_over: bool,
    /// Number of times that it was overtaken by another change of the process's records.
    overtaken: u32,
    /// Charge for what is composed.
    _charge: Charge,
}

/// Large commits under way.
#[derive(Debug, Default)]
pub struct Commits {
    under_way: ByNumber<u64, Commit>,
    by_peer: BTreeMap<PeerId, u64>,
    /// Drafts that wait for a thread.
    waiting: VecDeque<(u64, Draft)>,
    workers: usize,
    last: u64,
}

impl Commits {
    /// Returns whether a peer's commit is under way.
    pub fn is_busy(&self, peer: PeerId) -> bool {
        self.by_peer.contains_key(&peer)
    }

    /// Begins a commit of a process of this node.
    pub fn begin(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        caller: Caller,
        proc: Proc,
        (entries, bytes): (Vec<Posted>, usize),
    ) {
        let checked = Jobs::check_scopes(&proc, &entries);
        let store = checked.and_then(|()| jobs.store_mut(&proc.nspace).ok_or(Status::ERR_NOT_FOUND));
        let store = match store {
            Ok(store) => store,
            Err(status) => {
                drop_elsewhere(cx, caller.peer, entries);
                return cx.answer_status(caller, Err(status));
            }
        };
        // The draft is as large as the entries that it is composed of.
        let charge = match cx.charge(caller.peer, Kind::Request, bytes) {
            Ok(charge) => charge,
            Err(status) => {
                not_stored(cx, jobs, caller.peer, &proc, entries, status);
                return cx.answer_status(caller, Err(status));
            }
        };
        self.last += 1;
        let number = self.last;
        let drafted = store.draft(proc.rank, entries);
        self.under_way.insert(
            number,
            Commit { caller, proc, stage: Stage::Composed, is_over: false, overtaken: 0, _charge: charge },
        );
        self.by_peer.insert(caller.peer, number);
        match drafted {
            Ok(draft) => self.work(cx, jobs, number, draft),
            Err((e, entries)) => self.fail(cx, jobs, number, &e, entries),
        }
    }

    /// Has a thread take the next step of a draft, or this one where there is none.
    fn work(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64, draft: Draft) {
        let Some(Commit { stage, caller, .. }) = self.under_way.get(&number) else { return };
        let composes = matches!(stage, Stage::Composed);
        if self.workers >= MAX_WORKERS {
            // A composed draft takes memory until it is written.
            return match composes {
                true => self.waiting.push_back((number, draft)),
                false => self.waiting.push_front((number, draft)),
            };
        }
        let step = move |mut draft: Draft| {
            let result = match composes {
                true => draft.compose(),
                false => draft.write(),
            };
            (Box::new(draft), result)
        };
        let worker = cx.offload_with(vec![caller.peer], "commit", draft, move |draft| {
            let (draft, result) = step(draft);
            Ticket::Draft(number, draft, result)
        });
        self.workers += 1;
        if let Err((draft, e)) = worker {
            trace!("no thread for a commit: {e}");
            let (draft, result) = step(draft);
            self.stepped(cx, jobs, number, draft, result);
        }
    }

    /// A step of a draft is done.
    pub fn stepped(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        number: u64,
        mut draft: Box<Draft>,
        result: Result<(), WriteError>,
    ) {
        self.workers -= 1;
        if let Some((next, waiting)) = self.waiting.pop_front() {
            self.work(cx, jobs, next, waiting);
        }
        let Some(Commit { caller, proc, stage, is_over, overtaken, .. }) = self.under_way.get_mut(&number) else {
            return;
        };
        let peer = caller.peer;
        cx.counts_for = Some(peer);
        let Some(store) = jobs.store_mut(&proc.nspace).filter(|store| store.is_own(&draft)) else {
            self.end(cx, number, Err(Status::ERR_NOT_FOUND));
            return drop_elsewhere(cx, peer, draft.entries);
        };
        if *is_over {
            trace!("{proc} is gone before its commit is published");
            let entries = store.give_up(*draft);
            self.end(cx, number, Ok(()));
            return drop_elsewhere(cx, peer, entries);
        }
        if let Err(e) = result {
            let entries = store.give_up(*draft);
            return self.fail(cx, jobs, number, &e, entries);
        }
        match stage {
            Stage::Composed => match store.reserve(&mut draft) {
                Ok(()) => {
                    *stage = Stage::Written;
                    self.work(cx, jobs, number, *draft);
                }
                Err(e) => {
                    let entries = store.give_up(*draft);
                    self.fail(cx, jobs, number, &e, entries);
                }
            },
            Stage::Written if *overtaken < MOST_OVERTAKEN && !store.is_up_to_date(&draft) => {
                *overtaken += 1;
                *stage = Stage::Composed;
                let rank = draft.rank();
                let entries = store.give_up(*draft);
                match store.draft(rank, entries) {
                    Ok(draft) => self.work(cx, jobs, number, draft),
                    Err((e, entries)) => self.fail(cx, jobs, number, &e, entries),
                }
            }
            Stage::Written => match store.finish(*draft) {
                Ok(entries) => {
                    *stage = Stage::Published(entries.into_iter());
                    cx.slice(Slice::Commit(number));
                }
                Err((e, entries)) => self.fail(cx, jobs, number, &e, entries),
            },
            Stage::Published(_) => {}
        }
    }

    /// Makes some more of a published commit known.
    pub fn slice(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64) {
        let Some(Commit { caller, proc, stage: Stage::Published(rest), .. }) = self.under_way.get_mut(&number) else {
            return;
        };
        cx.counts_for = Some(caller.peer);
        let entries: Vec<Posted> = rest.take(SLICE).collect();
        let is_last = rest.as_slice().is_empty();
        let (proc, keys) = (proc.clone(), awaited_keys(cx, proc, &entries));
        if let Some(store) = jobs.store_mut(&proc.nspace) {
            store.stored(proc.rank, entries);
            if store.is_to_reclaim() {
                cx.effect(Effect::Reclaim(proc.nspace.clone()));
            }
        }
        cx.effect(Effect::Posted { proc, keys });
        match is_last {
            true => self.end(cx, number, Ok(())),
            false => cx.slice(Slice::Commit(number)),
        }
    }

    fn fail(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64, error: &WriteError, entries: Vec<Posted>) {
        let Some(Commit { caller, proc, .. }) = self.under_way.get(&number) else { return };
        trace!("a commit of {proc} fails: {error}");
        not_stored(cx, jobs, caller.peer, proc, entries, error.status());
        self.end(cx, number, Err(error.status()));
    }

    /// Answers, and lets the peer go on.
    fn end(&mut self, cx: &mut Ctx, number: u64, result: Result<(), Status>) {
        let Some(Commit { caller, is_over: false, .. }) = self.under_way.remove(&number) else { return };
        self.by_peer.remove(&caller.peer);
        cx.answer_status(caller, result);
        cx.send(caller.peer, Outgoing::GoOn);
    }

    /// A peer is gone. The data that it has published stays, and nothing else.
    pub fn peer_over(&mut self, peer: PeerId) {
        let commit = self.by_peer.remove(&peer).and_then(|number| self.under_way.get_mut(&number));
        commit.into_iter().for_each(|commit| commit.is_over = true);
    }
}

/// Tells who waits for some of these entries that they are not stored, and why.
fn not_stored(cx: &mut Ctx, jobs: &mut Jobs, peer: PeerId, proc: &Proc, mut entries: Vec<Posted>, status: Status) {
    let some: Vec<Posted> = entries.drain(..entries.len().min(SLICE)).collect();
    let keys = awaited_keys(cx, proc, &some);
    if let Some(store) = jobs.store_mut(&proc.nspace) {
        store.not_stored(proc.rank, some, status);
    }
    cx.effect(Effect::Posted { proc: proc.clone(), keys });
    drop_elsewhere(cx, peer, entries);
}

/// Drops what takes long to drop in a thread of its own, where there is one.
fn drop_elsewhere(cx: &mut Ctx, peer: PeerId, entries: Vec<Posted>) {
    if entries.len() > SLICE {
        let _ = cx.offload_for(vec![peer], "drop", move || {
            drop(entries);
            Ticket::Ignored
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Key, Rank, Scope, Value};
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::NoHost;
    use crate::store::Directives;

    /// A job of two processes here, the first of which commits.
    struct Bench {
        test: TestCtx,
        jobs: Jobs,
        commits: Commits,
        caller: Caller,
    }

    impl Bench {
        fn new() -> Self {
            let (mut test, mut jobs) = (testing::ctx(NoHost), Jobs::default());
            jobs.add(&proc("job", 0).nspace, 2, &[Rank(0), Rank(1)]);
            let peer = test.connect(&proc("job", 0));
            let caller = test.request(peer);
            Bench { test, jobs, commits: Commits::default(), caller }
        }

        fn begin(&mut self, count: usize) {
            let entries = (entries(count, 7), 100 * count);
            self.commits.begin(&mut self.test.cx, &mut self.jobs, self.caller, proc("job", 0), entries);
        }

        /// Has the threads take a step.
        fn step(&mut self) {
            self.test.run_offloaded();
            while let Some(ticket) = self.test.ticket() {
                let Ticket::Draft(number, draft, result) = ticket else { continue };
                self.commits.stepped(&mut self.test.cx, &mut self.jobs, number, draft, result);
            }
        }

        /// Runs a slice; returns whether there was one.
        fn slice(&mut self) -> bool {
            let Some(Slice::Commit(number)) = self.test.cx.slices.pop_front() else { return false };
            self.commits.slice(&mut self.test.cx, &mut self.jobs, number);
            true
        }

        /// Commits one value as rank 0 or 1 in one go.
        fn commit(&mut self, rank: u32, value: u32) {
            self.jobs.commit(&mut self.test.cx, proc("job", rank), entries(1, value)).unwrap();
        }

        fn get(&self, rank: u32, key: usize) -> Option<Value> {
            let store = self.jobs.store(&proc("job", 0).nspace).unwrap();
            store.get(Rank(1), Rank(rank), &Key::new(format!("k{key}").as_str()).unwrap(), &Directives::NONE).ok()
        }
    }

    fn entries(count: usize, value: u32) -> Vec<Posted> {
        let key = |number: usize| Key::new(format!("k{number}").as_str()).unwrap();
        (0..count).map(|number| Posted { scope: Scope::GLOBAL, key: key(number), value: value.into() }).collect()
    }

    #[test]
    fn a_large_commit_is_seen_whole_and_others_are_served_between_its_steps() {
        let mut bench = Bench::new();
        let count = 3 * SLICE;
        bench.begin(count);
        for value in 1..=2 {
            assert!(bench.commits.is_busy(bench.caller.peer));
            assert_eq!((bench.get(0, 0), bench.get(0, count - 1)), (None, None));
            bench.commit(1, value);
            assert_eq!(bench.get(1, 0), Some(value.into()));
            bench.step();
        }
        assert!((0..count).all(|key| bench.get(0, key) == Some(7u32.into())));
        let mut slices = 0;
        while bench.slice() {
            slices += 1;
            bench.commit(1, 10 + slices);
            assert_eq!(bench.get(1, 0), Some((10 + slices).into()));
            let (answered, is_busy) = (bench.test.sent(), bench.commits.is_busy(bench.caller.peer));
            assert_eq!((answered.len(), is_busy), if slices == 3 { (2, false) } else { (0, true) }, "{answered:?}");
        }
        assert_eq!((slices, bench.commits.under_way.len()), (3, 0));
        bench.commit(0, 8);
        assert_eq!((bench.get(0, 0), bench.get(0, 1)), (Some(8u32.into()), Some(7u32.into())));
    }

    #[test]
    fn nothing_is_left_of_a_commit_whose_peer_is_gone() {
        for steps in 0..2 {
            let mut bench = Bench::new();
            bench.begin(1000);
            (0..steps).for_each(|_| bench.step());
            bench.commits.peer_over(bench.caller.peer);
            (0..3).for_each(|_| bench.step());
            assert!(!bench.slice() && bench.test.sent().is_empty());
            assert_eq!((bench.get(0, 0), bench.commits.under_way.len(), bench.commits.workers), (None, 0, 0));
            bench.commit(0, 8);
            assert_eq!((bench.get(0, 0), bench.get(0, 1)), (Some(8u32.into()), None));
        }
    }

    #[test]
    fn a_commit_that_was_overtaken_is_composed_anew() {
        let mut bench = Bench::new();
        bench.begin(1000);
        bench.step();
        bench.jobs.commit(&mut bench.test.cx, proc("job", 0), entries(2000, 9)).unwrap();
        bench.step();
        assert_eq!(bench.get(0, 0), Some(9u32.into()), "a thread composes it");
        (0..2).for_each(|_| bench.step());
        assert_eq!((bench.get(0, 0), bench.get(0, 1500)), (Some(7u32.into()), Some(9u32.into())));
    }

    #[test]
    fn what_is_composed_is_charged_until_the_commit_is_over() {
        let mut bench = Bench::new();
        let account = bench.test.limit_memory(bench.caller.peer, 150_000);
        bench.caller = bench.test.request(bench.caller.peer);
        bench.begin(2000);
        let refused = [(bench.caller, crate::message::Reply::Done(Status::ERR_OUT_OF_RESOURCE))];
        assert_eq!((bench.test.replies(), bench.commits.under_way.len()), (refused.to_vec(), 0));
        let failure = bench.jobs.store(&proc("job", 0).nspace).unwrap().failure(Rank(0), &entries(1, 0)[0].key);
        assert_eq!(failure, Some(Status::ERR_OUT_OF_RESOURCE), "who waits for a key of it is told");
        assert!(matches!(bench.test.effects()[..], [Effect::Posted { .. }]));
        bench.caller = bench.test.request(bench.caller.peer);
        bench.begin(1000);
        let charged = account.used();
        assert!(charged >= 100_000);
        (0..2).for_each(|_| bench.step());
        while bench.slice() {}
        assert!(account.used() <= charged - 100_000);
    }

    #[test]
    fn without_threads_it_is_done_at_once() {
        let mut bench = Bench::new();
        bench.test.lack_threads(true);
        bench.begin(1000);
        assert_eq!(bench.get(0, 999), Some(7u32.into()));
        while bench.slice() {}
        assert_eq!(bench.test.replies(), [(bench.caller, crate::message::Reply::Done(Status::SUCCESS))]);
    }

    #[test]
    fn only_so_many_threads_work_at_commits() {
        let mut bench = Bench::new();
        let callers: Vec<Caller> = (0..4)
            .map(|_| {
                let peer = bench.test.connect(&proc("job", 0));
                bench.test.request(peer)
            })
            .collect();
        for caller in callers {
            bench.caller = caller;
            bench.begin(1000);
        }
        assert_eq!((bench.commits.workers, bench.commits.waiting.len()), (MAX_WORKERS, 2));
        // Each overtakes those that are composed by then.
        (0..20).for_each(|_| bench.step());
        while bench.slice() {}
        assert_eq!((bench.commits.workers, bench.commits.under_way.len()), (0, 0));
    }
}
