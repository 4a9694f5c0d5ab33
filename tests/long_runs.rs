//! Long runs leave nothing: however often namespaces come and go, processes commit and meet, raise events, publish,
//! make groups, and tools attach, the server and each of its clients hold what they held after a short time.
//!
//! `INSTANTON_TEST_ROUNDS` multiplies how often: with 20 a server sees 100,000 namespaces, and two processes commit and
//! meet 100,000 times, or use services 40,000 times.
mod processes;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex, mpsc};

use instanton::client::{Chain, Client, Notice};
use instanton::data::{DataRange, Info, Nspace, Proc, Rank, Scope, Status, Text, Value, keys};
use instanton::server::{Accepted, Answer, Completion, Host, Published, PublishedData, Server};
use instanton::server::{ServerConfig, ToolSupport};
use instanton::tool::Tool;
use processes::{Job, all_well, rounds, server, start_alone};

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("registrar") => registrar(),
        Some("fences") => fences(),
        Some("fencer") => fencer(),
        Some("services") => services(),
        Some("customer") => customer(),
        Some(other) => panic!("no such role: {other}"),
    }
}

/// Rounds in which things come and go.
const ROUNDS: u64 = 5_000;

/// Number of times that a process measures its holdings in a run.
const LOOKS: u64 = 20;
/// Measurements before the holdings have to stay as they are.
const WARM_UP: u64 = 6;

/// Growth allowed to private memory. The library's own is exact (`capi/tests/c/churn.c` counts it by bytes), but the
/// allocator comes to rest by pages. In a run of 100,000 rounds this finds a byte a round.
const SLACK: u64 = 96 << 10;

/// Has the allocator keep nothing of what threads free for their next time.
const ALLOCATOR: [(&str, &str); 1] = [("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")];

/// Holdings of a process.
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
        server.deregister_nspace(&job.nspace).wait().unwrap();
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
fn fences() {
    let server = server();
    let job = Job::register(&server, "meeting@1", 2);
    let mut first = job.start(0, "fencer", true);
    let mut second = job.start(1, "fencer", true);
    let mut watch = Watch::new("a server of fences");
    for line in BufReader::new(first.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        println!("{line}");
        if line.starts_with("a client") {
            watch.look();
        }
        if watch.looks == LOOKS {
            drop((first.stdin.take(), second.stdin.take()));
        }
    }
    all_well(vec![first, second]);
    assert_eq!(watch.looks, LOOKS);
    server.deregister_nspace(&job.nspace).wait().unwrap();
}

fn fencer() {
    let client = Client::init(&[]).unwrap();
    let key = "endpoint";
    let peer = Proc::new(client.proc().nspace.clone(), Rank(1 - client.proc().rank.0));
    let collect = [Info::new(keys::COLLECT_DATA, true)];
    watched("a client", rounds(ROUNDS), |round| {
        // Every size of block in turn, in another order each time.
        let value = Value::ByteObject(vec![round as u8; (round * 1_237 % 3_000) as usize]);
        client.put(Scope::GLOBAL, key, value.clone()).unwrap();
        client.commit().unwrap();
        client.fence(&[], &collect).wait().unwrap();
        assert_eq!(client.get(&peer, key, &[]).unwrap(), value, "round {round}");
        // Nobody commits before everybody has read.
        client.fence(&[], &[]).wait().unwrap();
        std::io::stdout().flush().unwrap();
    });
    // The server looks as well.
    processes::until_dismissed();
    client.finalize(&[]).unwrap();
}

#[test]
fn commits_and_fences_leave_nothing() {
    report(&start_alone("fences", &ALLOCATOR).wait_with_output().unwrap());
}

/// A host that keeps what is published. It looks at what its process holds when somebody asks for that.
struct PublishingHost {
    published: PublishedData,
    watch: Mutex<Watch>,
}

/// Asked for by the first process between two rounds: the other one waits for it then, and nobody has a tool.
const LOOK: &str = "look";

impl Host for PublishingHost {
    fn publish(&self, proc: &Proc, info: &[Info], _: Completion<()>) -> Accepted {
        self.published.publish(proc, info).map(|()| Answer::Done)
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        if keys.iter().any(|key| key.as_bytes() == LOOK.as_bytes()) {
            self.watch.lock().unwrap().look();
        }
        self.published.lookup(proc, keys, info, done)
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], _: Completion<()>) -> Accepted {
        self.published.unpublish(proc, keys, info).map(|()| Answer::Done)
    }
}

/// A server for all that a process can ask of it besides data.
fn services() {
    let config = ServerConfig { tools: Some(ToolSupport::default()), ..ServerConfig::default() };
    let host =
        PublishingHost { published: PublishedData::default(), watch: Mutex::new(Watch::new("a server of services")) };
    let host = Arc::new(host);
    let server = Server::start(config, host.clone()).unwrap();
    let job = Job::register(&server, "served@1", 2);
    let uri = server.uri().unwrap().to_string();
    all_well([0, 1].map(|rank| job.start_with(rank, "customer", &[("URI", &uri)])).into());
    assert_eq!(host.watch.lock().unwrap().looks + 1, LOOKS);
}

/// Rounds of services: each is some twenty messages, and a tool with a thread of its own.
const SERVICES: u64 = 2_000;

fn customer() {
    let client = Client::init(&[]).unwrap();
    let (me, server) = (client.proc().clone(), std::env::var("URI").unwrap());
    let everybody = [0, 1].map(|rank| Proc::new(me.nspace.clone(), Rank(rank)));
    let (code, group) = (Status(-7_003), Nspace::new("club").unwrap());
    let all = rounds(SERVICES);
    watched("a client", all, |round| {
        if me.rank == Rank(0) && round > 0 && round % (all / LOOKS) == 0 {
            // There is nothing to be found; the server counts the look-ups.
            let _ = client.lookup(&[LOOK], &[]).wait();
        }
        let (tell, told) = mpsc::channel();
        let handler = Arc::new(move |notice: Notice, chain: Chain| {
            let _ = tell.send(notice.source.rank);
            chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
        });
        let handler = client.register_event_handler(&[code], &[], handler).wait().unwrap();
        // Behind this both have a handler.
        client.group_construct(&group, &everybody, &[]).wait().unwrap();
        let range = DataRange::NAMESPACE;
        client.notify_event(code, &me, range, &[]).wait().unwrap();
        let mut heard = [told.recv().unwrap().0, told.recv().unwrap().0];
        heard.sort_unstable();
        assert_eq!(heard, [0, 1], "round {round}");
        client.deregister_event_handler(handler).wait().unwrap();

        let key = format!("{}.{round}", me.rank.0);
        client.publish(&[Info::new(&key, round)]).wait().unwrap();
        let (_, found) = client.lookup(&[&key], &[]).wait().unwrap();
        assert_eq!(found[0].value, Value::Uint64(round));
        client.unpublish_all(&[]).wait().unwrap();

        let tool = Tool::init(&[Info::new(keys::SERVER_URI, server.as_str())]).unwrap();
        assert!(tool.is_connected());
        tool.finalize(&[]).unwrap();
        client.group_destruct(&group, &[]).wait().unwrap();
    });
    client.finalize(&[]).unwrap();
}

#[test]
fn services_leave_nothing() {
    report(&start_alone("services", &ALLOCATOR).wait_with_output().unwrap());
}
