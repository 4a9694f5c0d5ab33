//! Absorptions: what the host brings from other nodes, decoded and taken in before the room that asked hears of it.
//!
//! Small data is taken in at once. Large data, as a fence or a group of thousands of processes brings, is decoded by a
//! thread, and prepared and published in slices between the turns of others. Much data of one process is prepared by a
//! thread as well. The room that asked is named by a [`Purpose`], which comes back with the result; whether anybody
//! still waits is that room's affair, and the data counts all the same.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::collective::brought::{Brought, Decoded};
use super::collective::exchange::{self, Said};
use super::collective::intake::{Intake, Progress, Writing};
use super::ctx::Ctx;
use super::ctx::slices::Slice;
use super::ctx::ticket::{Ticket, TrackerId};
use super::jobs::Jobs;
use crate::account::Charge;
use crate::data::{Proc, Status};
use crate::message::door::PeerId;
use crate::message::numbers::NumberMap;
use crate::store::WriteError;
use crate::trace;

/// Bytes from which on data is large; fewer in tests, so that simulated fences come to it.
const LARGE: usize = if cfg!(test) { 512 } else { 64 << 10 };
/// Bytes that are taken in in one slice, of processes with the mean amount of data.
const SLICE: usize = 64 << 10;

/// Purpose that data is brought for, by the number of the state that its room keeps.
#[derive(Debug, PartialEq)]
pub enum Purpose {
    /// A fence, and the peers that have come to it.
    Fence(TrackerId, Vec<PeerId>),
    /// A fence that has failed here.
    FailedFence(u64),
    /// A direct modex of a process of another node.
    DirectModex(Proc, u64),
    /// A group that is made with it.
    Group(u64),
}

/// Place where a thread leaves what it has decoded.
type Place = Arc<Mutex<Option<Result<Decoded, Status>>>>;
/// The same for data of a process that it has worked at.
type Worked = Arc<Mutex<Option<(Box<Writing>, Result<(), WriteError>)>>>;

/// End of an absorption.
#[derive(Debug)]
pub struct Absorbed {
    pub purpose: Purpose,
    /// Words of the nodes beside the data; or the status with which the host has brought nothing, or it cannot be taken
    /// in.
    pub result: Result<Said, Status>,
}

/// An absorption under way.
#[derive(Debug)]
struct Absorption {
    purpose: Purpose,
    bytes: usize,
    decoded: Place,
    said: Said,
    /// The data, once it is decoded.
    intake: Option<Intake>,
    worked: Worked,
    /// Processes of a slice.
    slice: usize,
    /// Peers that the data is brought for.
    payers: Vec<PeerId>,
    /// Charges for the data, as it has come and decoded.
    _charges: Vec<Charge>,
}

/// Absorptions under way.
#[derive(Debug, Default)]
pub struct Absorptions {
    under_way: NumberMap<u64, Absorption>,
    last: u64,
}

impl Absorptions {
    /// Returns whether data is taken in by and by.
    pub fn is_large(brought: &Brought) -> bool {
        brought.bytes() > LARGE
    }

    /// Takes in what the host has brought, where it is large at the cost of these peers. Returns how that ends, unless
    /// it goes on.
    pub fn begin(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        purpose: Purpose,
        (brought, payers): (Result<Brought, Status>, Vec<PeerId>),
    ) -> Option<Absorbed> {
        let brought = match brought {
            Ok(brought) => brought,
            Err(status) => return Some(Absorbed { purpose, result: Err(status) }),
        };
        if !Self::is_large(&brought) {
            let decoded = brought.decode(&exchange::sender(cx));
            let result = decoded.and_then(|Decoded { ranks, said }| {
                exchange::take_in(cx, jobs, ranks)?;
                Ok(said)
            });
            return Some(Absorbed { purpose, result });
        }
        let bytes = brought.bytes();
        let charges = match cx.charge_jobs(&payers, bytes.saturating_mul(2)) {
            Ok(charges) => charges,
            Err(status) => return Some(Absorbed { purpose, result: Err(status) }),
        };
        self.last += 1;
        let (number, decoded) = (self.last, Place::default());
        let (brought, own, place) = (Arc::new(brought), exchange::sender(cx), decoded.clone());
        let decode = move || _ = lock(&place).insert(brought.decode(&own));
        let said = Said::default();
        let absorption = Absorption {
            purpose,
            bytes,
            decoded,
            said,
            intake: None,
            worked: Worked::default(),
            slice: 1,
            payers: payers.clone(),
            _charges: charges,
        };
        self.under_way.insert(number, absorption);
        let theirs = decode.clone();
        let worker = cx.offload_for(payers, "exchange", move || {
            theirs();
            Ticket::Decoded(number)
        });
        let Err(e) = worker else { return None };
        trace!("no thread for data of other nodes: {e}");
        decode();
        self.decoded(cx, number)
    }

    /// The data is decoded, or cannot be.
    pub fn decoded(&mut self, cx: &mut Ctx, number: u64) -> Option<Absorbed> {
        let decoded = lock(&self.under_way.get(&number)?.decoded).take()?;
        let Decoded { ranks, said } = match decoded {
            Ok(decoded) => decoded,
            Err(status) => return self.end(number, Err(status)),
        };
        let absorption = self.under_way.get_mut(&number)?;
        absorption.said = said;
        absorption.slice = (ranks.len() * SLICE / absorption.bytes).max(1);
        absorption.intake = Some(Intake::with_threads(ranks));
        cx.slice(Slice::Absorption(number));
        None
    }

    /// Takes some more in.
    pub fn slice(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64) -> Option<Absorbed> {
        let absorption = self.under_way.get_mut(&number)?;
        let progress = absorption.intake.as_mut()?.step(cx, jobs, absorption.slice);
        self.go_on(cx, jobs, number, progress)
    }

    /// A thread has worked at data of a process.
    pub fn worked(&mut self, cx: &mut Ctx, jobs: &mut Jobs, number: u64) -> Option<Absorbed> {
        let absorption = self.under_way.get_mut(&number)?;
        let (writing, result) = lock(&absorption.worked).take()?;
        let progress = absorption.intake.as_mut()?.worked(jobs, writing, result);
        self.go_on(cx, jobs, number, progress)
    }

    fn go_on(
        &mut self,
        cx: &mut Ctx,
        jobs: &mut Jobs,
        number: u64,
        progress: Result<Progress, Status>,
    ) -> Option<Absorbed> {
        match progress {
            Ok(Progress::Done) => self.end(number, Ok(())),
            Ok(Progress::More) => {
                cx.slice(Slice::Absorption(number));
                None
            }
            Ok(Progress::Works(writing)) => {
                let absorption = self.under_way.get(&number)?;
                let place = absorption.worked.clone();
                let work = move |mut writing: Box<Writing>| {
                    let result = writing.step();
                    *lock(&place) = Some((writing, result));
                };
                let theirs = work.clone();
                let worker = cx.offload_with(absorption.payers.clone(), "intake", writing, move |writing| {
                    theirs(writing);
                    Ticket::Written(number)
                });
                let Err((writing, e)) = worker else { return None };
                trace!("no thread for data of other nodes: {e}");
                work(writing);
                self.worked(cx, jobs, number)
            }
            Err(status) => self.end(number, Err(status)),
        }
    }

    fn end(&mut self, number: u64, result: Result<(), Status>) -> Option<Absorbed> {
        let Absorption { purpose, said, .. } = self.under_way.remove(&number)?;
        Some(Absorbed { purpose, result: result.map(|()| said) })
    }
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Account, Kind};
    use crate::data::{Key, Nspace, Rank, Scope, Value};
    use crate::message::Posted;
    use crate::server::NoHost;
    use crate::server::ctx::effect::Effect;
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::store::Directives;
    use crate::store::exchange::{self as encoding, RankData, Sender};

    /// Processes of the job; the first runs here.
    const SIZE: u32 = 2000;

    struct Bench {
        test: TestCtx,
        jobs: Jobs,
        absorptions: Absorptions,
        /// Peers that the data is brought for.
        payers: Vec<PeerId>,
    }

    impl Bench {
        fn new() -> Self {
            let (test, mut jobs) = (testing::ctx(NoHost), Jobs::default());
            jobs.add(&proc("job", 0).nspace, SIZE, &[Rank(0)]);
            Bench { test, jobs, absorptions: Absorptions::default(), payers: Vec::new() }
        }

        fn begin(&mut self, data: Vec<u8>) -> Option<Absorbed> {
            let brought = (Ok(Brought::Row(data)), self.payers.clone());
            self.absorptions.begin(&mut self.test.cx, &mut self.jobs, Purpose::FailedFence(7), brought)
        }

        /// Has the thread decode what there is.
        fn decode(&mut self) -> Option<Absorbed> {
            self.test.run_offloaded();
            let Some(Ticket::Worked(peers, _)) = self.test.ticket() else { panic!("a ticket") };
            assert_eq!(peers, self.payers);
            let Some(Ticket::Decoded(number)) = self.test.ticket() else { panic!("a ticket") };
            self.absorptions.decoded(&mut self.test.cx, number)
        }

        fn slice(&mut self) -> Option<Absorbed> {
            let Some(Slice::Absorption(number)) = self.test.cx.slices.pop_front() else { panic!("a slice") };
            self.absorptions.slice(&mut self.test.cx, &mut self.jobs, number)
        }

        /// Runs slices to the end; how it ends, and how many there were.
        fn finish(&mut self) -> (Result<Said, Status>, usize) {
            let mut count = 1;
            loop {
                if let Some(Absorbed { purpose, result }) = self.slice() {
                    assert_eq!((purpose, self.test.cx.slices.len()), (Purpose::FailedFence(7), 0));
                    return (result, count);
                }
                count += 1;
            }
        }

        fn get(&self, rank: u32) -> Option<Value> {
            let store = self.jobs.store(&proc("job", 0).nspace).unwrap();
            store.get(Rank(0), Rank(rank), &key(), &Directives::NONE).ok()
        }

        /// Number of processes whose data is seen here.
        fn seen(&self) -> usize {
            (0..SIZE).filter(|rank| self.get(*rank).is_some()).count()
        }
    }

    fn key() -> Key {
        Key::new("endpoint").unwrap()
    }

    /// Data of all processes but the first, as a server says it after so many commits of each.
    fn data(commits: u64, scope_of_last: Scope) -> Vec<u8> {
        let sender = Sender { server: proc("servers", 1), identity: 99 };
        let of = |rank| {
            let scope = if rank == SIZE - 1 { scope_of_last } else { Scope::GLOBAL };
            let value = vec![commits as u8; 200].into();
            RankData { proc: proc("job", rank), commits, entries: vec![Posted { scope, key: key(), value }] }
        };
        encoding::write(&sender, (1..SIZE).map(of).collect(), None).unwrap()
    }

    fn value(commits: u8) -> Option<Value> {
        Some(vec![commits; 200].into())
    }

    #[test]
    fn large_data_is_taken_in_in_slices_and_published_when_all_of_it_is_written() {
        let mut bench = Bench::new();
        assert!(bench.begin(data(1, Scope::GLOBAL)).is_none() && bench.decode().is_none());
        let slice = bench.absorptions.under_way[&1].slice;
        assert!(slice < 400, "{slice} processes in a slice");
        let slices = (SIZE as usize - 1).div_ceil(slice);
        for _ in 0..slices {
            assert!(bench.slice().is_none());
            assert_eq!(bench.seen(), 0);
        }
        assert!(bench.slice().is_none());
        assert_eq!(bench.seen(), slice);
        let (result, _) = bench.finish();
        assert_eq!((result, bench.seen()), (Ok(Said::default()), SIZE as usize - 1));
        let posted = bench.test.effects().iter().filter(|of| matches!(of, Effect::Posted { .. })).count();
        assert_eq!((posted, bench.absorptions.under_way.len()), (SIZE as usize - 1, 0));
    }

    #[test]
    fn nothing_is_seen_of_data_that_cannot_be_stored_as_a_whole() {
        for size in [1000, 50] {
            let mut bench = Bench::new();
            let before = bench.test.cx.accounts.shared().used();
            let sender = Sender { server: proc("servers", 1), identity: 99 };
            let of = |rank| {
                let scope = if rank == size - 1 { Scope::LOCAL } else { Scope::GLOBAL };
                let entries = vec![Posted { scope, key: key(), value: vec![1; 200].into() }];
                RankData { proc: proc("job", rank), commits: 1, entries }
            };
            let data = encoding::write(&sender, (1..size).map(of).collect(), None).unwrap();
            let result = match bench.begin(data) {
                Some(absorbed) => absorbed.result,
                None => {
                    assert!(bench.decode().is_none());
                    bench.finish().0
                }
            };
            assert_eq!((result, bench.seen()), (Err(Status::ERR_BAD_PARAM), 0));
            // The blocks are free again: as much as before fits.
            bench.begin(self::data(1, Scope::GLOBAL));
            bench.decode();
            assert_eq!(bench.finish().0, Ok(Said::default()));
            assert!(bench.test.cx.accounts.shared().used() >= before);
        }
    }

    /// Data of two processes, much and little, with so many commits.
    fn much_and_little(commits: u64) -> Vec<u8> {
        much_and_little_for(commits, Scope::GLOBAL)
    }

    fn much_and_little_for(commits: u64, scope: Scope) -> Vec<u8> {
        let sender = Sender { server: proc("servers", 1), identity: 99 };
        let of = |(rank, bytes): (u32, usize)| {
            let value = vec![commits as u8; bytes].into();
            let entries = vec![Posted { scope, key: key(), value }];
            RankData { proc: proc("job", rank), commits, entries }
        };
        encoding::write(&sender, [(1, 5000), (2, 50)].into_iter().map(of).collect(), None).unwrap()
    }

    /// Takes all steps there are, those of threads included. Returns how it ends, and the steps of threads.
    fn steps(bench: &mut Bench) -> (Option<Absorbed>, usize) {
        let mut of_threads = 0;
        loop {
            bench.test.run_offloaded();
            let absorbed = match bench.test.ticket() {
                Some(Ticket::Written(number)) => {
                    of_threads += 1;
                    assert_eq!(bench.seen(), 0, "nothing is seen before all is written");
                    bench.absorptions.worked(&mut bench.test.cx, &mut bench.jobs, number)
                }
                Some(_) => continue,
                None if bench.test.cx.slices.is_empty() => return (None, of_threads),
                None => bench.slice(),
            };
            if absorbed.is_some() {
                return (absorbed, of_threads);
            }
        }
    }

    #[test]
    fn much_data_of_one_process_is_prepared_by_a_thread_and_published_with_the_rest() {
        let mut bench = Bench::new();
        assert!(bench.begin(much_and_little(1)).is_none() && bench.decode().is_none());
        let (absorbed, of_threads) = steps(&mut bench);
        assert_eq!((absorbed.unwrap().result, of_threads), (Ok(Said::default()), 2), "composed, and written");
        assert_eq!((bench.get(1), bench.get(2)), (Some(vec![1; 5000].into()), Some(vec![1; 50].into())));
    }

    #[test]
    fn nothing_is_seen_of_much_data_that_cannot_be_stored() {
        let mut bench = Bench::new();
        bench.begin(much_and_little_for(1, Scope::LOCAL));
        bench.decode();
        let absorbed = steps(&mut bench).0.unwrap();
        assert_eq!((absorbed.result, bench.seen()), (Err(Status::ERR_BAD_PARAM), 0));
        bench.begin(much_and_little(1));
        bench.decode();
        assert_eq!(steps(&mut bench).0.unwrap().result, Ok(Said::default()));
    }

    #[test]
    fn much_data_of_a_process_that_has_become_known_meanwhile_is_stored_anew() {
        for (late, left) in [(1, 2), (3, 3)] {
            let mut bench = Bench::new();
            bench.begin(much_and_little(late));
            bench.decode();
            assert!(bench.slice().is_none());
            bench.test.run_offloaded();
            let other = exchange::others(&exchange::sender(&bench.test.cx), &much_and_little(2)).unwrap();
            exchange::take_in(&mut bench.test.cx, &mut bench.jobs, other.ranks).unwrap();
            while let Some(ticket) = bench.test.ticket() {
                if let Ticket::Written(number) = ticket {
                    assert!(bench.absorptions.worked(&mut bench.test.cx, &mut bench.jobs, number).is_none());
                    bench.test.run_offloaded();
                }
            }
            assert_eq!(bench.finish().0, Ok(Said::default()));
            assert_eq!(bench.get(1), Some(vec![left; 5000].into()), "{late} before 2");
        }
    }

    #[test]
    fn much_data_of_a_job_that_ends_meanwhile_is_left_aside() {
        for steps_before in 0..3 {
            let mut bench = Bench::new();
            bench.begin(much_and_little(1));
            bench.decode();
            assert!(bench.slice().is_none());
            for _ in 0..steps_before {
                bench.test.run_offloaded();
                let number = loop {
                    match bench.test.ticket() {
                        Some(Ticket::Written(number)) => break number,
                        ticket => assert!(ticket.is_some(), "a ticket"),
                    }
                };
                assert!(bench.absorptions.worked(&mut bench.test.cx, &mut bench.jobs, number).is_none());
            }
            bench.jobs.add(&Nspace::new("job").unwrap(), SIZE, &[Rank(0)]);
            let (absorbed, _) = steps(&mut bench);
            assert_eq!((absorbed.unwrap().result, bench.absorptions.under_way.len()), (Ok(Said::default()), 0));
            assert_eq!(bench.get(1), None);
        }
    }

    #[test]
    fn what_is_brought_is_charged_to_the_jobs_that_it_is_for_until_it_is_taken_in() {
        let mut bench = Bench::new();
        let data = data(1, Scope::GLOBAL);
        let bytes = data.len() as u64;
        let accounts: Vec<Account> = ["job", "other"]
            .into_iter()
            .map(|nspace| {
                let peer = bench.test.connect(&proc(nspace, 0));
                bench.payers.push(peer);
                bench.test.limit_memory(peer, 2 * bytes)
            })
            .collect();
        let used = || [accounts[0].used(), accounts[1].used()];
        assert!(bench.begin(data.clone()).is_none());
        assert_eq!(used(), [bytes; 2], "as it has come, and decoded");
        assert!(bench.decode().is_none());
        assert_eq!((bench.finish().0, used()), (Ok(Said::default()), [0; 2]));
        let _held = accounts[1].charge(Kind::Output, bytes as usize + 1).unwrap();
        let refused = bench.begin(data).unwrap();
        assert_eq!((refused.result, accounts[0].used()), (Err(Status::ERR_OUT_OF_RESOURCE), 0));
    }

    #[test]
    fn what_has_become_known_meanwhile_stays_if_it_is_newer() {
        for (first, second, left) in [(1, 2, value(2)), (2, 1, value(2))] {
            let mut bench = Bench::new();
            bench.begin(data(first, Scope::GLOBAL));
            bench.decode();
            let others = exchange::others(&exchange::sender(&bench.test.cx), &data(second, Scope::GLOBAL)).unwrap();
            bench.slice();
            exchange::take_in(&mut bench.test.cx, &mut bench.jobs, others.ranks).unwrap();
            assert_eq!(bench.finish().0, Ok(Said::default()));
            assert!((1..SIZE).all(|rank| bench.get(rank) == left), "{first} before {second}");
        }
    }

    #[test]
    fn data_of_a_job_that_ends_meanwhile_is_left_aside() {
        for slices in [0, 1, 8] {
            let mut bench = Bench::new();
            bench.begin(data(1, Scope::GLOBAL));
            bench.decode();
            (0..slices).for_each(|_| assert!(bench.slice().is_none()));
            bench.jobs.add(&Nspace::new("job").unwrap(), SIZE, &[Rank(0)]);
            let (result, _) = bench.finish();
            assert_eq!(result, Ok(Said::default()));
            bench.begin(data(2, Scope::GLOBAL));
            bench.decode();
            bench.finish().0.unwrap();
            assert!((1..SIZE).all(|rank| bench.get(rank) == value(2)));
        }
    }

    #[test]
    fn without_threads_and_with_damage_it_ends_all_the_same() {
        let mut bench = Bench::new();
        bench.test.lack_threads(true);
        assert!(bench.begin(data(1, Scope::GLOBAL)).is_none());
        assert_eq!((bench.finish().0, bench.seen()), (Ok(Said::default()), SIZE as usize - 1));
        let mut damaged = data(2, Scope::GLOBAL);
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        let absorbed = bench.begin(damaged).unwrap();
        assert_eq!((absorbed.result, bench.get(1)), (Err(Status::ERR_UNPACK_FAILURE), value(1)));
    }
}
