//! Long runs leave nothing: however often namespaces come and go, and processes commit and meet, the server and each of its clients hold
//! what they held after a short time.
//!
//! `INSTANTON_TEST_ROUNDS` multiplies how often: with 20 a server sees 100,000 namespaces, and two processes commit and meet 100,000
//! times.
mod processes;

use std::fs;
use std::io::{BufRead, BufReader, Write};

use instanton::client::Client;
use instanton::data::{Info, Key, Proc, Rank, Value, constants::scope, keys};
use processes::{Job, all_well, rounds, server, start_alone};

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("registrar") => registrar(),
        Some("meeting place") => meeting_place(),
        Some("fencer") => fencer(),
        Some(other) => panic!("no such role: {other}"),
    }
}

/// How often things come and go.
const ROUNDS: u64 = 5_000;

/// How often a process looks at what it holds in a run, and how often before that has to stay as it is.
const LOOKS: u64 = 20;
const WARM_UP: u64 = 6;

/// What private memory may grow by. What the library keeps is exact (`capi/tests/c/churn.c` counts it by bytes), but the allocator comes
/// to rest by pages. In a run of 100,000 rounds this finds a byte a round.
const SLACK: u64 = 96 << 10;

/// Has the allocator keep nothing of what threads free for their next time.
const ALLOCATOR: [(&str, &str); 1] = [("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")];

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Holds {
    /// Bytes of private memory that are resident.
    private: u64,
    /// Bytes of shared memory that are resident.
    shared: u64,
    /// Mappings of shared memory.
    mappings: usize,
    descriptors: usize,
}

impl Holds {
    /// Counted page by page: the sums in `/proc/self/status` are approximate on some kernels.
    fn now() -> Self {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
        let mut holds = Holds { private: 0, shared: 0, mappings: 0, descriptors };
        let mut is_shared = false;
        for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            let mut words = line.split_whitespace();
            let bytes = |size: Option<&str>| size.unwrap().parse::<u64>().unwrap() << 10;
            match words.next().unwrap() {
                "Anonymous:" => holds.private += bytes(words.next()),
                "Rss:" if is_shared => holds.shared += bytes(words.next()),
                field if field.ends_with(':') => {}
                _addresses => {
                    is_shared = line.contains("memfd:");
                    holds.mappings += usize::from(is_shared);
                }
            }
        }
        holds
    }
}

/// Looks at what this process holds, so often in a run.
struct Watch {
    who: &'static str,
    looks: u64,
    warm: Option<Holds>,
}

impl Watch {
    fn new(who: &'static str) -> Self {
        // One huge page would be more than the slack.
        nix::sys::prctl::set_thp_disable(true).unwrap();
        Self { who, looks: 0, warm: None }
    }

    fn look(&mut self) {
        self.looks += 1;
        let now = Holds::now();
        println!("{} after {}/{LOOKS}: {now:?}", self.who, self.looks);
        if self.looks < WARM_UP {
            return;
        }
        let warm = self.warm.get_or_insert(now);
        assert_eq!(
            (now.shared, now.mappings, now.descriptors),
            (warm.shared, warm.mappings, warm.descriptors),
            "{}: {now:?} after {warm:?}",
            self.who
        );
        assert!(now.private < warm.private + SLACK, "{}: {now:?} after {warm:?}", self.who);
    }
}

/// Runs `round` so often, and looks now and then.
fn watched(who: &'static str, all: u64, mut round: impl FnMut(u64)) {
    let mut watch = Watch::new(who);
    for n in 0..all {
        round(n);
        if (n + 1) % (all / LOOKS) == 0 {
            watch.look();
        }
    }
}

/// A server whose namespaces come and go.
fn registrar() {
    let server = server();
    watched("a server of namespaces", rounds(ROUNDS), |n| {
        let job = Job::register(&server, &format!("brief@{n}"), 2);
        server.deregister_nspace_wait(&job.nspace).unwrap();
    });
}

#[test]
fn namespaces_that_come_and_go_leave_nothing() {
    let end = start_alone("registrar", &ALLOCATOR).wait_with_output().unwrap();
    report(&end);
}

/// Prints what a process has said, which must have succeeded.
fn report(end: &std::process::Output) {
    println!("{}", String::from_utf8_lossy(&end.stdout));
    assert!(end.status.success(), "{}: {}", end.status, String::from_utf8_lossy(&end.stderr));
}

/// A node with two processes that meet; the server looks whenever the first of them has.
fn meeting_place() {
    let server = server();
    let job = Job::register(&server, "meeting@1", 2);
    let mut first = job.start(0, "fencer", true);
    let second = job.start(1, "fencer", true);
    let mut watch = Watch::new("a server of fences");
    for line in BufReader::new(first.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        println!("{line}");
        // Behind the last one the processes are going.
        if line.starts_with("a client") && watch.looks + 1 < LOOKS {
            watch.look();
        }
    }
    all_well(vec![first, second]);
    assert_eq!(watch.looks + 1, LOOKS);
    server.deregister_nspace_wait(&job.nspace).unwrap();
}

fn fencer() {
    let client = Client::init(&[]).unwrap();
    let key = Key::new("endpoint").unwrap();
    let peer = Proc::new(client.proc().nspace.clone(), Rank(1 - client.proc().rank.0));
    let collect = [Info::new(keys::COLLECT_DATA, true)];
    watched("a client", rounds(ROUNDS), |round| {
        // Every size of block in turn, in another order each time.
        let value = Value::ByteObject(vec![round as u8; (round * 1_237 % 3_000) as usize]);
        client.put(scope::GLOBAL, key.clone(), value.clone()).unwrap();
        client.commit().unwrap();
        client.fence(&[], &collect).unwrap();
        assert_eq!(client.get(&peer, Some(key.as_bytes()), &[]).unwrap(), value, "round {round}");
        // Nobody commits before everybody has read.
        client.fence(&[], &[]).unwrap();
        std::io::stdout().flush().unwrap();
    });
    client.finalize(&[]).unwrap();
}

#[test]
fn commits_and_fences_leave_nothing() {
    report(&start_alone("meeting place", &ALLOCATOR).wait_with_output().unwrap());
}
