//! Processes killed with -9 at random points of put, commit, fence and get: the others hear of it at once, the server serves
//! on, and nothing is left of them.
//!
//! `INSTANTON_TEST_KILLS` says how many (40), `INSTANTON_TEST_SEED` repeats a run.
mod processes;

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use instanton::client::{Client, Error};
use instanton::data::{Info, Proc, Rank, Scope, Value, keys};
use instanton::server::Server;
use processes::{Job, all_well, server};

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("restless") => restless(),
        Some(other) => panic!("no such role: {other}"),
    }
}

/// Posts, meets and reads until a meeting fails.
fn restless() {
    let client = Client::init(&[]).unwrap();
    let peer = Proc::new(client.proc().nspace.clone(), Rank(1 - client.proc().rank.0));
    let collect = [Info::new(keys::COLLECT_DATA, true)];
    for round in 0.. {
        let begin = Instant::now();
        match meet(&client, &peer, round, &collect) {
            Ok(()) => {}
            Err(error) => {
                assert!(!matches!(error, Error::LostConnection), "the server is gone");
                assert!(begin.elapsed() < Duration::from_secs(20), "{error} came late");
                break;
            }
        }
        // By then the server has what it opens for the first long request.
        if round == 3 {
            println!("ready");
            std::io::stdout().flush().unwrap();
        }
    }
    client.finalize(&[]).unwrap();
}

fn meet(client: &Client, peer: &Proc, round: u32, collect: &[Info]) -> Result<(), Error> {
    let size = [8, 500, 5_000, 70_000][round as usize % 4];
    for name in ["a", "b"] {
        client.put(Scope::GLOBAL, name, Value::ByteObject(vec![round as u8; size]))?;
    }
    client.commit()?;
    client.fence(&[], collect).wait()?;
    for name in ["a", "b"] {
        let value = client.get(peer, name, &[])?;
        assert_eq!(value, Value::ByteObject(vec![round as u8; size]), "{name} in round {round}");
    }
    client.fence(&[], &[]).wait()
}

/// Waits for the line with which a process says that it is at work; the thread ends with the process.
fn until_ready(process: &mut Child) -> JoinHandle<()> {
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")), "it ended before it was at work");
    // The rest of its output must go somewhere.
    thread::spawn(move || lines.for_each(drop))
}

/// Descriptors and mappings of this process, the server's among them.
fn held() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (std::fs::read_dir("/proc/self/fd").unwrap().count(), maps.matches("memfd:").count())
}

/// Returns the open descriptors by name, which helps to find one too many.
fn open() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    entries.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string())).collect()
}

fn kill_one(server: &Server, turn: usize, random: &mut u64) {
    let job = Job::register(server, &format!("killed@{turn}"), 2);
    // Every fourth job looks up over the control plane.
    let mut ranks: Vec<Child> = (0..2).map(|rank| job.start(rank, "restless", turn % 4 != 3)).collect();
    let outputs: Vec<_> = ranks.iter_mut().map(until_ready).collect();
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    // The point of the delay is to be none in particular.
    thread::park_timeout(Duration::from_micros(*random % 3000));
    let mut victim = ranks.swap_remove((*random >> 32) as usize % 2);
    victim.kill().unwrap();
    victim.wait().unwrap();
    all_well(ranks);
    outputs.into_iter().for_each(|output| output.join().unwrap());
    server.deregister_nspace(&job.nspace).wait().unwrap();
}

#[test]
fn the_killed_leave_nothing_and_nobody_hanging() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let kills = number("INSTANTON_TEST_KILLS").unwrap_or(40) as usize;
    let any = u64::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
    let mut random = number("INSTANTON_TEST_SEED").unwrap_or(any) | 1;
    println!("INSTANTON_TEST_SEED={random}");
    let server = server();
    kill_one(&server, 0, &mut random);
    let before = held();
    (1..=kills).for_each(|turn| kill_one(&server, turn, &mut random));
    // The kernel may still be telling the server of the last one.
    let end = Instant::now() + Duration::from_secs(120);
    let more = |now: (usize, usize)| now.0 > before.0 || now.1 > before.1;
    while more(held()) && Instant::now() < end {
        thread::park_timeout(Duration::from_millis(10));
    }
    let after = held();
    assert!(!more(after), "descriptors and mappings: {before:?} before, {after:?} after: {:?}", open());
}
