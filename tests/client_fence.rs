//! Fences that wake their processes through shared memory, when something goes wrong in the middle of them.
mod processes;

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use instanton::client::{Client, Error};
use instanton::data::{Info, Key, Proc, Rank, Scope, Status, Value, keys};
use instanton::server::{NoHost, Server, ServerConfig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use processes::{Job, all_well, server};

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("mixed") => mixed(),
        Some("again") => again(),
        Some("meet twice") => meet_twice(),
        Some("survivor") => survivor(),
        Some("impatient") => impatient(),
        Some("hangs on") => hangs_on(),
        Some("serve") => serve(),
        Some("unlucky") => unlucky(),
        Some(other) => panic!("no such role: {other}"),
    }
}

fn say(word: &str) {
    println!("{word}");
    std::io::stdout().flush().unwrap();
}

/// Reads what a process prints up to a line with that word; the rest goes on being read.
fn until(process: &mut Child, word: &str) -> String {
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let found = lines.find_map(|line| line.ok().filter(|line| line.contains(word)));
    std::thread::spawn(move || lines.for_each(drop));
    found.unwrap_or_else(|| panic!("it ended and never said {word}"))
}

fn key(round: u32) -> Key {
    Key::new(format!("round.{round}")).unwrap()
}

/// Every kind of fence, one upon the other: what was committed before one is there after it.
fn mixed() {
    let client = Client::init(&[]).unwrap();
    let me = client.proc().clone();
    let peers = |rank| Proc::new(me.nspace.clone(), Rank(rank));
    let everyone = [Proc::new(me.nspace.clone(), Rank::WILDCARD)];
    let both = [peers(0), peers(1)];
    for round in 0..200 {
        client.put(Scope::GLOBAL, key(round), Value::Uint32(me.rank.0)).unwrap();
        client.commit().unwrap();
        match round % 5 {
            0 => client.fence(&[], &[]).wait().unwrap(),
            1 => client.fence(&everyone, &[Info::new(keys::COLLECT_DATA, true)]).wait().unwrap(),
            2 => {
                // The second of these is under way when the blocking one is sent.
                let (tell, told) = mpsc::channel();
                for _ in 0..2 {
                    let tell = tell.clone();
                    client.fence(&[], &[]).then(move |result| tell.send(result).unwrap()).unwrap();
                }
                client.fence(&[], &[]).wait().unwrap();
                (0..2).for_each(|_| told.recv().unwrap().unwrap());
            }
            3 => std::thread::scope(|scope| {
                (0..3).for_each(|_| drop(scope.spawn(|| client.fence(&[], &[]).wait().unwrap())));
            }),
            _ => {
                if me.rank.0 < 2 {
                    client.fence(&both, &[]).wait().unwrap();
                }
                client.fence(&[], &[]).wait().unwrap();
            }
        }
        for rank in 0..4 {
            let value = client.get(&peers(rank), key(round), &[Info::new(keys::OPTIONAL, true)]);
            assert_eq!(value.unwrap(), Value::Uint32(rank), "round {round}, rank {rank}");
        }
    }
    client.finalize(&[]).unwrap();
}

#[test]
fn fences_of_all_kinds_mean_what_they_say_with_and_without_shared_memory() {
    let server = server();
    let job = Job::register(&server, "mixed@1", 4);
    // All of them at the word, none of them, and one that needs a message.
    for shared in [[true; 4], [false; 4], [true, true, false, true]] {
        all_well((0..4).map(|rank| job.start(rank, "mixed", shared[rank as usize])).collect());
    }
}

/// Comes and goes, and each time meets the others anew.
fn again() {
    for life in 0..30 {
        let client = Client::init(&[]).unwrap();
        let me = client.proc().clone();
        client.put(Scope::LOCAL, key(life), Value::Uint32(me.rank.0)).unwrap();
        client.commit().unwrap();
        client.fence(&[], &[]).wait().unwrap();
        for rank in 0..3 {
            let peer = Proc::new(me.nspace.clone(), Rank(rank));
            let value = client.get(&peer, key(life), &[Info::new(keys::OPTIONAL, true)]);
            assert_eq!(value.unwrap(), Value::Uint32(rank), "life {life}, rank {rank}");
        }
        // It goes in the middle of this one. The next process of this rank must not take that fence's end for that of
        // its own.
        client.fence(&[], &[]).then(|_| ()).unwrap();
        client.finalize(&[]).unwrap();
    }
}

#[test]
fn a_rank_that_comes_again_meets_the_others_again() {
    let server = server();
    Job::register(&server, "again@1", 3).run("again", true);
}

fn meet_twice() {
    let client = Client::init(&[]).unwrap();
    say("ready");
    client.fence(&[], &[]).wait().unwrap();
    say("met");
    client.fence(&[], &[]).wait().unwrap();
    client.finalize(&[]).unwrap();
}

/// Waits until a thread of a process sleeps on two words at once.
fn until_asleep(process: &Child) {
    let end = Instant::now() + Duration::from_secs(120);
    let call = format!("{} ", nix::libc::SYS_futex_waitv);
    while Instant::now() < end {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap().flatten();
        let mut calls = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("syscall")).ok());
        if calls.any(|now| now.starts_with(&call)) {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    panic!("process {} does not sleep", process.id());
}

#[test]
fn one_who_is_stopped_in_a_fence_is_released_when_it_goes_on() {
    let server = server();
    let job = Job::register(&server, "stopped@1", 3);
    let mut ranks: Vec<Child> = (0..2).map(|rank| job.start(rank, "meet twice", true)).collect();
    ranks.iter_mut().for_each(|rank| drop(until(rank, "ready")));
    ranks.iter().for_each(until_asleep);
    let stopped = Pid::from_raw(ranks[0].id() as i32);
    kill(stopped, Signal::SIGSTOP).unwrap();
    // It has come to the first fence, so that the others are through; and then they wait for it.
    let mut late = job.start(2, "meet twice", true);
    until(&mut late, "met");
    until_asleep(&late);
    kill(stopped, Signal::SIGCONT).unwrap();
    ranks.push(late);
    all_well(ranks);
}

/// Meets until somebody is dead, and hears of it at once.
fn survivor() {
    let client = Client::init(&[]).unwrap();
    client.fence(&[], &[]).wait().unwrap();
    say("ready");
    let (error, waited) = loop {
        let begin = Instant::now();
        if let Err(error) = client.fence(&[], &[]).wait() {
            break (error, begin.elapsed());
        }
    };
    assert_eq!(error.status(), Status::ERR_PARTIAL_SUCCESS);
    assert!(waited < Duration::from_secs(20), "{error} came late");
    client.finalize(&[]).unwrap();
}

#[test]
fn those_who_wait_at_the_word_hear_of_a_death_by_message() {
    let server = server();
    for turn in 0..10 {
        let job = Job::register(&server, &format!("dead@{turn}"), 4);
        let mut ranks: Vec<Child> = (0..4).map(|rank| job.start(rank, "survivor", true)).collect();
        ranks.iter_mut().for_each(|rank| drop(until(rank, "ready")));
        let mut victim = ranks.swap_remove(turn % 4);
        victim.kill().unwrap();
        victim.wait().unwrap();
        all_well(ranks);
        server.deregister_nspace(&job.nspace).wait().unwrap();
    }
}

/// Rank 0 has a time limit, which passes; rank 1 comes to the same fence when it has.
fn impatient() {
    let client = Client::init(&[]).unwrap();
    let me = client.proc().clone();
    let other = Proc::new(me.nspace.clone(), Rank(1 - me.rank.0));
    let limit = |seconds| [Info::new(keys::TIMEOUT, Value::Int(seconds))];
    let tell = || {
        client.put(Scope::LOCAL, key(0), Value::Bool(true)).unwrap();
        client.commit().unwrap();
    };
    let until_told = || client.get(&other, key(0), &limit(300)).unwrap();
    let fence = |limit: &[Info]| client.fence(&[], limit).wait().unwrap_err().status();
    if me.rank.0 == 0 {
        until_told();
        assert_eq!(fence(&limit(1)), Status::ERR_TIMEOUT);
        tell();
    } else {
        tell();
        until_told();
        assert_eq!(fence(&[]), Status::ERR_TIMEOUT);
    }
    client.fence(&[], &[]).wait().unwrap();
    client.finalize(&[]).unwrap();
}

#[test]
fn a_time_limit_ends_the_fence_of_all_and_the_next_is_the_next_for_each() {
    let server = server();
    Job::register(&server, "impatient@1", 2).run("impatient", true);
}

/// A fence reports data that the server cannot store, though it has been released; and only once.
fn unlucky() {
    let client = Client::init(&[]).unwrap();
    for round in 0..20 {
        let fails = client.proc().rank.0 == 0 && round % 2 == 0;
        if fails {
            let too_much = Value::ByteObject(vec![1; 32 << 20]);
            client.put(Scope::LOCAL, key(round), too_much).unwrap();
            client.commit().unwrap();
        }
        let result = client.fence(&[], &[]).wait();
        assert_eq!(result.is_err(), fails, "round {round}: {result:?}");
    }
    client.finalize(&[]).unwrap();
}

#[test]
fn a_commit_that_fails_is_told_by_the_fence_behind_it() {
    let config = ServerConfig { memory_limit: Some(8 << 20), ..ServerConfig::default() };
    let server = Server::start(config, Arc::new(NoHost)).unwrap();
    Job::register(&server, "unlucky@1", 2).run("unlucky", true);
}

/// Waits for a participant that never comes, and for the server that dies meanwhile.
fn hangs_on() {
    let client = Client::init(&[]).unwrap();
    say("ready");
    let is_lost = matches!(client.fence(&[], &[]).wait(), Err(Error::LostConnection));
    // At once: nobody reads any more what the test harness would print.
    std::process::exit(if is_lost { 0 } else { 1 });
}

/// A server whose one rank waits for ever; it prints which.
fn serve() {
    let server = server();
    let job = Job::register(&server, "served@1", 2);
    let mut rank = job.start(0, "hangs on", true);
    until(&mut rank, "ready");
    say(&format!("waiting {}", rank.id()));
    let end = rank.wait_with_output().unwrap();
    panic!("the rank ended before its server: {end:?}");
}

#[test]
fn a_dead_server_leaves_nobody_asleep() {
    // The rank becomes ours when its server is dead.
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    let mut serving = processes::start_alone("serve", &[]);
    let line = until(&mut serving, "waiting");
    let rank = Pid::from_raw(line.rsplit(' ').next().unwrap().parse().unwrap());
    serving.kill().unwrap();
    serving.wait().unwrap();
    let end = nix::sys::wait::waitpid(rank, None).unwrap();
    assert!(matches!(end, nix::sys::wait::WaitStatus::Exited(_, 0)), "{end:?}");
}
