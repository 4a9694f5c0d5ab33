//! Real processes under bad conditions: a writer that publishes as fast as it can while its readers are killed and
//! stopped at random; a reader that is stopped while it holds on to a value; and readers that write into their pages
//! what they like.
//!
//! Every record can be told from a mixture of two. `INSTANTON_TEST_STRESS_SECONDS` says for how long to go on (one
//! campaign of a few seconds otherwise), `INSTANTON_TEST_SEED` repeats a run.
mod processes;

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdout};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use instanton::client::Client;
use instanton::data::{Info, Key, Proc, Rank, Scope, Status, Value, keys};
use instanton::server::{NoHost, Server, ServerConfig};
use instanton::store::{Miss, PinError, Question};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use processes::{Job, all_well, number, server, start_alone, until_dismissed};

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("writer") => writer(),
        Some("reader") => reader(),
        Some("stopped") => stopped(),
        Some("poster") => poster(),
        Some("holder") => holder(),
        Some("checker") => checker(),
        Some("meddled") => meddled(),
        Some("meddler") => meddler(),
        Some(other) => panic!("no such role: {other}"),
    }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// The keys of a record, and how long their values are at most.
const KEYS: [(&str, u64); 4] = [("a", 200), ("b", 3_000), ("c", 700), ("large", 60_000)];
/// The writer's last round, which readers wait for.
const LAST: u64 = 4_000;

/// The value of a key in a round: the round, and bytes that follow from key and round, as many as follow from them.
fn value(of: usize, round: u64) -> Vec<u8> {
    let mut mixed = (round << 8 | of as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let len = mixed >> 32;
    let mut bytes = round.to_le_bytes().to_vec();
    for _ in 0..len % KEYS[of].1 / 8 {
        mixed = mixed.wrapping_mul(0xd129_0ddb_53c1_2a5f).wrapping_add(1);
        bytes.extend(mixed.to_le_bytes());
    }
    bytes
}

/// The round of a value, if it is one and whole.
fn round_of(of: usize, bytes: &[u8]) -> Option<u64> {
    let round = u64::from_le_bytes(*bytes.first_chunk()?);
    (value(of, round) == bytes).then_some(round)
}

#[test]
fn a_mixture_is_found_out() {
    for of in 0..KEYS.len() {
        let (old, new) = (value(of, 7), value(of, 8));
        assert_eq!((round_of(of, &old), round_of(of, &new)), (Some(7), Some(8)));
        for cut in (8..old.len().min(new.len())).step_by(8) {
            assert_eq!(round_of(of, &[&new[..cut], &old[cut..]].concat()), None, "cut at {cut}");
        }
        assert_eq!(round_of(of, &new[..new.len() - 1]), None);
    }
}

fn writer() {
    let client = Client::init(&[]).unwrap();
    let me = [client.proc().clone()];
    for round in 1..=LAST {
        for (of, (name, _)) in KEYS.iter().enumerate() {
            // Most commits are small beside what is there: their records continue in older ones.
            if *name != "large" || round % 16 == 0 {
                client.put(Scope::GLOBAL, key(name), Value::ByteObject(value(of, round))).unwrap();
            }
        }
        client.commit().unwrap();
        if round % 8 == 0 {
            client.fence(&me, &[]).wait().unwrap();
        }
    }
    client.finalize(&[]).unwrap();
}

fn reader() {
    let client = Client::init(&[]).unwrap();
    let writer = Proc::new(client.proc().nspace.clone(), Rank(0));
    let mut newest = [0; KEYS.len()];
    let mut reads = 0u64;
    while newest[0] < LAST {
        for (of, (name, _)) in KEYS.iter().enumerate() {
            reads += 1;
            let in_place = reads.is_multiple_of(2);
            let round = if in_place { held_round(&client, of, name) } else { None };
            let round = round.unwrap_or_else(|| match client.get(&writer, name, &[]) {
                Ok(Value::ByteObject(bytes)) => round_of(of, &bytes).expect("a mixture was copied"),
                other => panic!("{name}: {other:?}"),
            });
            assert!(round >= newest[of], "{name} went back from round {} to {round}", newest[of]);
            newest[of] = round;
        }
    }
    client.finalize(&[]).unwrap();
}

/// Looks at a value in place, twice.
fn held_round(client: &Client, of: usize, name: &str) -> Option<u64> {
    let guard = match client.pin() {
        Ok(guard) => guard,
        // Stopped under a guard, it has held back too much: it copies, as others do.
        Err(PinError::HoldsBack) => return None,
        Err(error) => panic!("{error}"),
    };
    match guard.get(&Question::new(Rank(0), name)) {
        Ok(found) => {
            let round = round_of(of, &found.bytes()).expect("a mixture was held");
            assert_eq!(round_of(of, &found.bytes()), Some(round), "what is held changed");
            Some(round)
        }
        Err(Miss::Unmapped(_) | Miss::NotFound | Miss::Busy) => None,
        Err(miss) => panic!("{name}: {miss}"),
    }
}

fn signal(process: &Child, signal: Signal) {
    kill(Pid::from_raw(process.id() as i32), signal).unwrap();
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % below
    }
}

/// One writer and four readers at a time; readers are killed, stopped and sent on.
fn campaign(server: &Server, turn: u64, random: &mut Random) {
    const READERS: usize = 4;
    const ACTIONS: u64 = 120;
    let job = Job::register(server, &format!("stress@{turn}"), 64);
    let mut next = 0;
    let mut start = |role| {
        next += 1;
        job.start(next - 1, role, true)
    };
    let writer = start("writer");
    let mut readers: Vec<Child> = (0..READERS).map(|_| start("reader")).collect();
    for action in 0..ACTIONS {
        let victim = &mut readers[random.next(READERS as u64) as usize];
        // The point of the delay is to be none in particular.
        thread::park_timeout(Duration::from_micros(random.next(20_000)));
        match random.next(8) {
            0 if action < ACTIONS / 2 => {
                let killed = std::mem::replace(victim, start("reader"));
                signal(&killed, Signal::SIGKILL);
                killed.wait_with_output().unwrap();
            }
            0..=3 => signal(victim, Signal::SIGSTOP),
            _ => signal(victim, Signal::SIGCONT),
        }
    }
    readers.iter().for_each(|reader| signal(reader, Signal::SIGCONT));
    readers.push(writer);
    all_well(readers);
    server.deregister_nspace(&job.nspace).wait().unwrap();
}

#[test]
fn no_reader_ever_sees_a_mixture() {
    let any = u64::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
    let seed = number("INSTANTON_TEST_SEED").unwrap_or(any) | 1;
    println!("INSTANTON_TEST_SEED={seed}");
    let mut random = Random(seed);
    let end = Instant::now() + Duration::from_secs(number("INSTANTON_TEST_STRESS_SECONDS").unwrap_or(0));
    let server = server();
    for turn in 0.. {
        campaign(&server, turn, &mut random);
        if Instant::now() >= end {
            break;
        }
    }
}

const BLOB: usize = 64 << 10;

/// Commits beside a reader that does not let go: far more than would fit if all of them stayed.
const COMMITS: u32 = 1_000;
/// Shared memory of the job then.
const MEMORY: u64 = 16 << 20;

/// Posts again and again, once it is told to; says how often that failed.
fn poster() {
    let client = Client::init(&[]).unwrap();
    let me = client.proc().clone();
    let post = |round: u32| {
        client.put(Scope::GLOBAL, "blob", Value::ByteObject(vec![round as u8; BLOB])).unwrap();
        client.commit().and_then(|()| client.fence(std::slice::from_ref(&me), &[]).wait())
    };
    post(0).unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let failed = (1..=COMMITS).filter(|round| post(*round).is_err()).count();
    say(&format!("failed {failed}"));
    until_dismissed();
    client.finalize(&[]).unwrap();
}

/// Is stopped while it holds on to a value.
fn holder() {
    let client = Client::init(&[]).unwrap();
    let poster = Proc::new(client.proc().nspace.clone(), Rank(0));
    let guard = loop {
        // Maps what has to be mapped; the poster may be quicker to write elsewhere.
        client.get(&poster, "blob", &[Info::new(keys::TIMEOUT, 300i32)]).unwrap();
        let guard = client.pin().unwrap();
        match guard.get(&Question::new(Rank(0), "blob")) {
            Ok(_) => break guard,
            Err(miss) => assert!(matches!(miss, Miss::Unmapped(_)), "{miss}"),
        }
    };
    let held = guard.get(&Question::new(Rank(0), "blob")).unwrap();
    let round = held.bytes()[0];
    raise(Signal::SIGSTOP).unwrap();
    assert_eq!(held.bytes().len(), BLOB);
    assert!(held.bytes().iter().all(|byte| *byte == round), "what was held was written");
    drop(guard);
    client.finalize(&[]).unwrap();
}

/// Finds what was committed last.
fn checker() {
    let client = Client::init(&[]).unwrap();
    let poster = Proc::new(client.proc().nspace.clone(), Rank(0));
    let expected = Value::ByteObject(vec![COMMITS as u8; BLOB]);
    assert_eq!(client.get(&poster, "blob", &[]).unwrap(), expected);
    client.finalize(&[]).unwrap();
}

/// Output of a process; it may go on to say something as long as this lives.
type Said = Lines<BufReader<ChildStdout>>;

/// Lets the poster post; none of its commits fails, and what it has posted last is found.
fn goes_on(job: &Job<'_>, poster: &mut Child) -> Said {
    poster.stdin.as_mut().unwrap().write_all(b"post\n").unwrap();
    let mut lines = BufReader::new(poster.stdout.take().unwrap()).lines();
    let failed = lines.find_map(|line| Some(line.unwrap().strip_prefix("failed ")?.parse::<u32>().unwrap())).unwrap();
    assert_eq!(failed, 0, "of {COMMITS} commits");
    all_well(vec![job.start(2, "checker", true)]);
    lines
}

fn server_of_little() -> Server {
    let config = ServerConfig { job_memory: MEMORY, ..ServerConfig::default() };
    Server::start(config, Arc::new(NoHost)).unwrap()
}

/// A node with a poster and a holder.
fn stopped() {
    let server = server_of_little();
    let job = Job::register(&server, "stopped@1", 3);
    let holder = job.start(1, "holder", true);
    let mut poster = job.start(0, "poster", true);
    let pid = Pid::from_raw(holder.id() as i32);
    assert_eq!(waitpid(pid, Some(WaitPidFlag::WUNTRACED)), Ok(WaitStatus::Stopped(pid, Signal::SIGSTOP)));
    let _said = goes_on(&job, &mut poster);
    signal(&holder, Signal::SIGCONT);
    all_well(vec![holder, poster]);
    server.deregister_nspace(&job.nspace).wait().unwrap();
}

/// Runs a node by itself, and returns the lines of its trace.
fn traced(role: &str) -> String {
    let trace = std::env::temp_dir().join(format!("instanton-{role}-{}.txt", std::process::id()));
    all_well(vec![start_alone(role, &[("INSTANTON_TRACE", trace.to_str().unwrap())])]);
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    lines
}

#[test]
fn a_reader_that_is_stopped_holds_up_nobody_and_is_named() {
    let lines = traced("stopped");
    let named = |line: &str| line.contains("stopped@1:1 holds on to");
    assert!(lines.lines().any(named), "{lines}");
}

/// Writes a value into all slots of its reader page, over and over.
fn meddler() {
    let client = Client::init(&[]).unwrap();
    let poster = Proc::new(client.proc().nspace.clone(), Rank(0));
    client.get(&poster, "blob", &[]).unwrap();
    let value: u64 = std::env::var("VALUE").unwrap().parse().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("memfd:instanton-page") && line.contains("rw-s")).unwrap();
    let page = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    for line in 1..64 {
        memory.write_all_at(&value.to_le_bytes(), page + line * 64).unwrap();
    }
    say("written");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let fenced = client.fence(&[client.proc().clone()], &[]).wait().map_err(|error| error.status());
    match value {
        u64::MAX => assert_eq!(fenced, Err(Status::ERR_LOST_CONNECTION)),
        _ => {
            assert_eq!(fenced, Ok(()));
            assert_eq!(client.get(&poster, "blob", &[]).unwrap(), Value::ByteObject(vec![COMMITS as u8; BLOB]));
        }
    }
}

/// Nodes with a poster and a meddler each.
fn meddled() {
    let server = server_of_little();
    for (number, value) in [1, u64::MAX].into_iter().enumerate() {
        let job = Job::register(&server, &format!("meddled@{number}"), 3);
        let mut poster = job.start(0, "poster", true);
        let mut meddler = job.start_with(1, "meddler", &[("VALUE", &value.to_string())]);
        let mut lines = BufReader::new(meddler.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "written"));
        let _said = goes_on(&job, &mut poster);
        meddler.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
        all_well(vec![meddler, poster]);
        server.deregister_nspace(&job.nspace).wait().unwrap();
    }
}

#[test]
fn a_reader_that_writes_into_its_slots_what_it_likes_harms_itself_alone() {
    let lines = traced("meddled");
    let names = |text: &str| lines.lines().any(|line| line.contains(text));
    assert!(names("holds on to") && names("holds an epoch that has not been; it is cut off"), "{lines}");
}
