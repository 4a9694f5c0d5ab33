//! Tests of shares.
use super::*;
use crate::data::{Nspace, Rank};

const MS: Duration = Duration::from_millis(1);

/// Two processes, and the time.
struct Bench {
    shares: Shares,
    now: Instant,
    owners: [Owner; 2],
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        let shares = Shares::new(now);
        shares.wait_as(|| None);
        let owners = [0, 1].map(|rank| shares.join(&Proc::new(Nspace::new("job").unwrap(), Rank(rank)), None));
        Bench { shares, now, owners }
    }

    /// Gives a process a turn that takes so long; returns whether it had one.
    fn turn(&mut self, who: usize, time: Duration) -> bool {
        self.shares.release(self.now, 0);
        let owner = self.owners[who];
        if self.shares.is_held(owner) {
            return false;
        }
        self.shares.begin_turn(owner);
        self.spend(who, time);
        true
    }

    /// Counts time of a process: that of a turn, or of what the turn has led to.
    fn spend(&mut self, who: usize, time: Duration) {
        let owner = self.owners[who];
        self.now += time;
        self.shares.with(|table| {
            table.shares.get_mut(&owner).unwrap().unsettled += time;
            table.settle(owner, self.now);
        });
    }
}

#[test]
fn who_takes_much_leaves_others_most_of_the_time() {
    let mut bench = Bench::new();
    let (mut taken, begin) = (Duration::ZERO, bench.now);
    for _ in 0..10_000 {
        taken += if bench.turn(0, MS) { MS } else { Duration::ZERO };
        assert!(bench.turn(1, MS / 50), "who takes little is never held");
        bench.now += MS / 5;
    }
    let all = bench.now - begin;
    assert!(taken * 3 < all && taken * 8 > all, "{taken:?} of {all:?}");
}

#[test]
fn nobody_is_held_who_is_alone_or_takes_what_others_take() {
    let mut bench = Bench::new();
    assert!((0..1000).all(|_| bench.turn(0, MS)));
    bench.now += 100 * MS;
    assert!((0..1000).all(|_| bench.turn(0, MS) && bench.turn(1, MS)));
}

#[test]
fn what_a_turn_leads_to_makes_its_hold_longer() {
    let mut bench = Bench::new();
    while bench.turn(0, MS) {
        bench.turn(1, MS / 50);
    }
    let until = bench.shares.next_release().unwrap();
    bench.spend(0, MS);
    assert_eq!(bench.shares.next_release(), Some(until + (OTHERS + 1) * MS));
}

#[test]
fn a_hold_is_longer_by_the_time_that_the_thread_has_waited_for_a_processor() {
    thread_local!(static WAITED: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) });
    let mut bench = Bench::new();
    bench.shares.wait_as(|| Some(WAITED.get()));
    while bench.turn(0, MS) {
        bench.turn(1, MS / 50);
    }
    bench.shares.wait(bench.owners[0], 0, 7);
    let until = bench.shares.next_release().unwrap();
    WAITED.set(3 * MS);
    assert_eq!(bench.shares.release(until, 0), VecDeque::new());
    assert_eq!(bench.shares.next_release(), Some(until + 3 * MS));
    assert_eq!(bench.shares.release(until + 3 * MS, 0), VecDeque::from([7]), "it has waited no more");
}

#[test]
fn what_a_turn_leads_to_counts_though_nobody_was_served_since_the_turn() {
    let mut bench = Bench::new();
    assert!(bench.turn(1, MS / 50) && bench.turn(0, MS / 10));
    assert!(!bench.shares.is_held(bench.owners[0]), "a short turn");
    bench.spend(0, 2 * FREE);
    assert!(bench.shares.is_held(bench.owners[0]));
}

#[test]
fn connections_of_one_process_count_together_and_wait_together() {
    let mut bench = Bench::new();
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    assert_eq!(bench.shares.join(&proc, None), bench.owners[0]);
    while bench.turn(0, 5 * MS) {
        bench.turn(1, MS / 20);
    }
    bench.shares.wait(bench.owners[0], 0, 7);
    bench.shares.wait(bench.owners[0], 1, 7);
    bench.shares.wait(bench.owners[0], 0, 8);
    let until = bench.shares.next_release().unwrap();
    assert_eq!(bench.shares.release(until - MS, 0), VecDeque::new());
    assert_eq!(bench.shares.release(until, 0), VecDeque::from([7, 8]));
    assert!(bench.shares.next_turn(1).is_some() && bench.shares.next_turn(0).is_none());
    assert_eq!((bench.shares.release(until, 1), bench.shares.next_turn(1)), (VecDeque::from([7]), None));
    (0..2).for_each(|_| bench.shares.leave(bench.owners[0]));
    assert_eq!(bench.shares.with(|table| (table.shares.len(), table.numbers.len())), (2, 1));
}

#[test]
fn tools_of_a_user_count_together_though_each_is_gone_when_the_next_one_comes() {
    let bench = Bench::new();
    let tools = bench.shares.join_tools(7);
    assert_ne!(bench.shares.join_tools(8), tools);
    while !bench.shares.is_held(tools) {
        bench.shares.begin_turn(tools);
        bench.shares.spend(tools, 5 * MS);
        bench.shares.leave(tools);
        bench.shares.begin_turn(bench.owners[1]);
        assert_eq!(bench.shares.join_tools(7), tools);
    }
    assert!(bench.shares.join_tools(7) == tools && !bench.shares.is_held(bench.shares.join_tools(8)));
}

#[test]
fn processes_of_jobs_that_a_job_has_led_to_have_the_time_of_one() {
    let mut bench = Bench::new();
    let led: Vec<Proc> = ["a", "b"].map(|name| Nspace::new(name).unwrap()).map(|name| Proc::new(name, Rank(0))).into();
    let descent = Some(Descent::numbered(7));
    let owners: Vec<Owner> = led.iter().map(|proc| bench.shares.join(proc, descent)).collect();
    assert!(owners[0] != owners[1] && bench.shares.owner(&led[1]) == Some(owners[1]));
    // Each takes what the other takes, and together they take much.
    let mut turns = 0;
    while !bench.shares.is_held(owners[0]) {
        for owner in &owners {
            bench.shares.begin_turn(*owner);
            bench.shares.spend(*owner, MS);
        }
        assert!(bench.turn(1, MS / 50));
        turns += 1;
        assert!(turns < 100);
    }
    assert!(bench.shares.is_held(owners[1]) && !bench.shares.is_held(bench.owners[0]));
    bench.shares.wait(owners[1], 0, 7);
    let until = bench.shares.next_release().unwrap();
    assert_eq!(bench.shares.release(until, 0), VecDeque::from([7]));
    // A fence of each is cheap by itself, however many they are.
    let fence = Asked { joint: 1, own: 0 };
    assert!(owners.iter().all(|owner| bench.shares.is_cheap(*owner, fence, MS / 50, 0)));
    owners.iter().for_each(|owner| bench.shares.leave(*owner));
    assert_eq!(bench.shares.with(|table| (table.shares.len(), table.descents.len())), (3, 0));
}
