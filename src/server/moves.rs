//! Moves: records of jobs that are written anew in new segments, a little at a time, so that scattered memory comes back.
//!
//! Threads compose and write the records ([`Move`]); the control thread takes blocks for them and publishes them. Commits go
//! on meanwhile. A job has one move under way at a time.
use std::collections::BTreeMap;

use super::ctx::Ctx;
use super::ctx::slices::Slice;
use super::ctx::ticket::Ticket;
use super::jobs::Jobs;
use crate::by_number::ByNumber;
use crate::data::Nspace;
use crate::store::{Move, NextMove, WriteError};
use crate::trace;

/// Step that a thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Composed,
    Written,
    /// No thread is at work; a slice goes on.
    Between,
}

/// Moves under way, by number.
#[derive(Debug, Default)]
pub struct Moves {
    under_way: ByNumber<u64, (Nspace, Stage)>,
    by_job: BTreeMap<Nspace, u64>,
    last: u64,
}

impl Moves {
    /// Begins to move records of a job, where they are scattered and none move yet.
    pub fn begin(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        if self.by_job.contains_key(nspace) || !jobs.store(nspace).is_some_and(|store| store.is_to_move()) {
            return;
        }
        self.last += 1;
        self.under_way.insert(self.last, (nspace.clone(), Stage::Between));
        self.by_job.insert(nspace.clone(), self.last);
        cx.slice(Slice::Move(self.last));
    }

    /// Goes on with a move.
    pub fn slice(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64) {
        let Some((nspace, stage)) = self.under_way.get_mut(&number) else { return };
        let next = jobs.store_mut(nspace).map_or(Ok(NextMove::Nothing), |store| store.next_move());
        match next {
            Ok(NextMove::Ranks(ranks)) => {
                *stage = Stage::Composed;
                self.work(cx, jobs, number, ranks);
            }
            Ok(NextMove::More) => cx.slice(Slice::Move(number)),
            Ok(NextMove::Nothing) => self.end(number),
            Err(e) => self.fail(number, &e),
        }
    }

    /// Has a thread take the next step, or this one where there is none.
    fn work(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64, ranks: Move) {
        let Some((_, stage)) = self.under_way.get(&number) else { return };
        let stage = *stage;
        let step = move |mut ranks: Move| {
            let result = if stage == Stage::Composed { ranks.compose() } else { ranks.write() };
            (Box::new(ranks), result)
        };
        let worker = cx.offload_with(Vec::new(), "move", ranks, move |ranks| {
            let (ranks, result) = step(ranks);
            Ticket::Move(number, ranks, result)
        });
        if let Err((ranks, e)) = worker {
            trace!("no thread for records that move: {e}");
            let (ranks, result) = step(ranks);
            self.stepped(cx, jobs, number, ranks, result);
        }
    }

    /// A step is done.
    pub fn stepped(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        number: u64,
        mut ranks: Box<Move>,
        result: Result<(), WriteError>,
    ) {
        let Some((nspace, stage)) = self.under_way.get_mut(&number) else { return };
        let Some(store) = jobs.store_mut(nspace).filter(|store| store.is_own_move(&ranks)) else {
            return self.end(number);
        };
        let is_composed = *stage == Stage::Composed;
        let result = result.and_then(|()| if is_composed { store.reserve_move(&mut ranks) } else { Ok(()) });
        if let Err(e) = result {
            store.give_up_move(*ranks);
            return self.fail(number, &e);
        }
        if is_composed {
            *stage = Stage::Written;
            return self.work(cx, jobs, number, *ranks);
        }
        match store.finish_move(*ranks) {
            Ok(()) => {
                *stage = Stage::Between;
                cx.slice(Slice::Move(number));
            }
            Err(e) => self.fail(number, &e),
        }
    }

    fn fail(&mut self, number: u64, error: &WriteError) {
        if let Some((nspace, _)) = self.under_way.get(&number) {
            trace!("records of {nspace} stay where they are for now: {error}");
        }
        self.end(number);
    }

    /// Ends a move, for now.
    fn end(&mut self, number: u64) {
        if let Some((nspace, _)) = self.under_way.remove(&number) {
            self.by_job.remove(&nspace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Key, Posted, Rank, Scope, Value};
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::NoHost;
    use crate::store::Directives;

    const KEYS: usize = 40;

    fn commit(test: &mut TestCtx, jobs: &mut Jobs, rank: u32, name: &str, value: Value) {
        let entries = vec![Posted::new(Scope::GLOBAL, Key::new(name).unwrap(), value)];
        jobs.commit(&mut test.cx, proc("job", rank), entries).unwrap();
    }

    fn get(jobs: &Jobs, rank: u32, name: &str) -> Option<Value> {
        let store = jobs.store(&proc("job", 0).nspace).unwrap();
        store.get(Rank(1), Rank(rank), &Key::new(name).unwrap(), &Directives::NONE).ok()
    }

    /// A job whose two processes have posted much, of which little is left.
    fn scattered() -> (TestCtx, Jobs) {
        let (mut test, mut jobs) = (testing::ctx(NoHost), Jobs::default());
        jobs.add(&proc("job", 0).nspace, 2, &[Rank(0), Rank(1)]);
        for len in [200 << 10, 30 << 10] {
            for (rank, key) in (0..2 * KEYS).map(|number| (number as u32 % 2, number / 2)) {
                commit(&mut test, &mut jobs, rank, &format!("k{key}"), vec![key as u8; len].into());
            }
        }
        (test, jobs)
    }

    #[test]
    fn records_move_in_slices_and_others_are_served_between_them() {
        for lacks_threads in [false, true] {
            let ((mut test, mut jobs), mut moves) = (scattered(), Moves::default());
            test.lack_threads(lacks_threads);
            let nspace = proc("job", 0).nspace;
            let before = jobs.store(&nspace).unwrap().stats().bytes;
            moves.begin(&mut test.cx, &jobs, &nspace);
            let mut steps = 0u32;
            loop {
                test.run_offloaded();
                while let Some(ticket) = test.ticket() {
                    let Ticket::Move(number, ranks, result) = ticket else { continue };
                    moves.stepped(&mut test.cx, &mut jobs, number, ranks, result);
                }
                match test.cx.slices.pop_front() {
                    Some(Slice::Move(number)) => moves.slice(&mut test.cx, &mut jobs, number),
                    _ if moves.under_way.is_empty() => break,
                    _ => {}
                }
                steps += 1;
                if steps < 6 {
                    commit(&mut test, &mut jobs, 1, "new", steps.into());
                    assert_eq!(get(&jobs, 1, "new"), Some(steps.into()));
                }
                assert_eq!(get(&jobs, 0, "k7"), Some(vec![7u8; 30 << 10].into()));
                assert!(steps < 200);
            }
            assert!(steps > 3 && moves.by_job.is_empty() && !jobs.store(&nspace).unwrap().is_to_move(), "{steps}");
            let value = |key: usize| Value::from(vec![key as u8; 30 << 10]);
            assert!((0..2).all(|rank| (0..KEYS).all(|key| get(&jobs, rank, &format!("k{key}")) == Some(value(key)))));
            let after = jobs.store(&nspace).unwrap().stats();
            assert!(after.bytes < before / 2, "{after:?} after {before}");
        }
    }

    #[test]
    fn nothing_is_left_of_a_move_whose_job_is_over() {
        let ((mut test, mut jobs), mut moves) = (scattered(), Moves::default());
        moves.begin(&mut test.cx, &jobs, &proc("job", 0).nspace);
        let Some(Slice::Move(number)) = test.cx.slices.pop_front() else { panic!("a slice") };
        moves.slice(&mut test.cx, &mut jobs, number);
        jobs.add(&proc("job", 0).nspace, 2, &[Rank(0), Rank(1)]);
        test.run_offloaded();
        while let Some(ticket) = test.ticket() {
            if let Ticket::Move(number, ranks, result) = ticket {
                moves.stepped(&mut test.cx, &mut jobs, number, ranks, result);
            }
        }
        assert!(moves.under_way.is_empty() && moves.by_job.is_empty());
    }
}
