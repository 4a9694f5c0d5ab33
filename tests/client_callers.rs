//! Callers that block for an answer and read it themselves, against a server that says exactly what it is told to.
mod scripted;

use std::sync::{Arc, mpsc};
use std::thread;

use instanton::client::{Chain, Client, Error, Notice};
use instanton::data::{DataRange, Info, Status, Value, keys};
use instanton::internal::control::frame::{self, Kind};
use instanton::internal::message::{Forward, Push, Reply, Request};
use scripted::{PATIENCE, Peer, connected, finalize, proc};

/// How often the control threads of this process have gone to sleep.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let field = |name: &str| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
        if field("Name:")? != "instanton" {
            return None;
        }
        field("voluntary_ctxt_switches:")?.parse::<u64>().ok()
    };
    tasks.filter_map(of).sum()
}

/// The value that the server is asked for, as a number.
fn wanted(request: &Request) -> u32 {
    let Request::Get { proc, .. } = request else { panic!("{request:?}") };
    proc.rank.0
}

fn look_up(client: &Client, number: u32) -> Result<Value, Error> {
    client.get(&proc(number), "k", &[])
}

fn answer(peer: &mut Peer, number: u64, value: u32) {
    peer.reply(number, &Reply::Value(Value::Uint32(value)));
}

fn event(status: Status) -> Push {
    Push::Event { status, source: proc(3), range: DataRange::GLOBAL, info: vec![], vote: None }
}

/// In a process of its own, where no other test has control threads.
#[test]
fn no_answer_to_a_caller_wakes_the_control_thread() {
    const ALONE: &str = "INSTANTON_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "no_answer_to_a_caller_wakes_the_control_thread"]).env(ALONE, "1");
        assert!(command.status().unwrap().success());
        return;
    }
    const CALLS: u32 = 500;
    let (client, mut peer) = connected();
    let server = thread::spawn(move || {
        for _ in 0..=2 * CALLS {
            let (number, request) = peer.request();
            match request {
                Request::Forward(Forward::Publish { .. }) => peer.done(number),
                other => answer(&mut peer, number, wanted(&other)),
            }
        }
        peer.agree()
    });
    look_up(&client, 1).unwrap();
    let before = sleeps();
    for number in 0..CALLS {
        assert_eq!(look_up(&client, number).unwrap(), Value::Uint32(number));
        client.publish(&[Info::new("port", number)]).wait().unwrap();
    }
    let woken = sleeps() - before;
    assert!(woken < u64::from(CALLS) / 10, "it went to sleep {woken} times in {} calls", 2 * CALLS);
    finalize(client, server);
}

#[test]
fn what_is_not_for_callers_comes_to_the_control_thread_while_they_read() {
    let (client, mut peer) = connected();
    let (tell, told) = mpsc::channel();
    let heard = tell.clone();
    let handler = move |notice: Notice, chain: Chain| {
        heard.send(notice.status.0).unwrap();
        chain.complete(Status::SUCCESS, Vec::new());
    };
    thread::scope(|scope| {
        scope.spawn(|| client.register_event_handler(&[], &[], Arc::new(handler)).wait().unwrap());
        let (number, _) = peer.request();
        peer.done(number);
    });
    thread::scope(|scope| {
        let reads = scope.spawn(|| look_up(&client, 7));
        let (number, _) = peer.request();
        client.get_pending(&proc(8), "k", &[]).then(move |value| tell.send(i32::from(value.is_ok())).unwrap()).unwrap();
        let (other, request) = peer.request();
        assert_eq!(wanted(&request), 8);
        peer.push(&event(Status(-7000)));
        // Nobody has an answer yet: the caller still reads.
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), -7000);
        answer(&mut peer, other, 8);
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), 1);
        // One message and a part of the next come together with the answer, and the rest when nobody blocks any more.
        let mut bytes = frame::encode(Kind::Push, 0, 0, &event(Status(-7001))).unwrap().to_vec();
        bytes.extend_from_slice(&frame::encode(Kind::Reply, number, 0, &Reply::Value(Value::Uint32(7))).unwrap());
        bytes.extend_from_slice(&frame::encode(Kind::Push, 0, 0, &event(Status(-7002))).unwrap());
        let last = frame::encode(Kind::Push, 0, 0, &event(Status(-7003))).unwrap();
        let (part, rest) = last.split_at(last.len() / 2);
        bytes.extend_from_slice(part);
        peer.send(&bytes, &[]);
        assert_eq!(reads.join().unwrap().unwrap(), Value::Uint32(7));
        for status in [-7001, -7002] {
            assert_eq!(told.recv_timeout(PATIENCE).unwrap(), status);
        }
        peer.send(rest, &[]);
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), -7003);
    });
    finalize(client, thread::spawn(move || peer.agree()));
}

/// Eight threads block at once, and are answered in whatever order, in pieces, between events.
#[test]
fn every_caller_has_its_own_answer() {
    const THREADS: u32 = 8;
    const CALLS: u32 = 200;
    let (client, mut peer) = connected();
    let server = thread::spawn(move || {
        let mut waiting: Vec<(u64, u32)> = Vec::new();
        let mut asked = 0;
        while asked < THREADS * CALLS || !waiting.is_empty() {
            // Before that many calls no thread is through, and three of them ask.
            let most = if asked < CALLS { 3 } else { 1 };
            while asked < THREADS * CALLS && waiting.len() < most {
                let (number, request) = peer.request();
                waiting.push((number, wanted(&request)));
                asked += 1;
            }
            let (number, value) = waiting.swap_remove(asked as usize % waiting.len());
            if asked % 7 == 0 {
                peer.push(&event(Status(-7000)));
            }
            let bytes = frame::encode(Kind::Reply, number, 0, &Reply::Value(Value::Uint32(value))).unwrap();
            let (part, rest) = bytes.split_at(if asked % 5 == 0 { 3 } else { 0 });
            peer.send(part, &[]);
            peer.send(rest, &[]);
        }
        peer.agree()
    });
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                for call in 0..CALLS {
                    let number = thread * CALLS + call;
                    assert_eq!(look_up(client, number).unwrap(), Value::Uint32(number));
                }
            });
        }
    });
    finalize(client, server);
}

#[test]
fn a_caller_that_reads_keeps_its_time_limit_and_the_next_one_reads() {
    let (client, mut peer) = connected();
    thread::scope(|scope| {
        let late = scope.spawn(|| client.lookup(&["port"], &[Info::new(keys::TIMEOUT, 1)]).wait().map(drop));
        let (number, _) = peer.request();
        assert_eq!(late.join().unwrap().unwrap_err().status(), Status::ERR_TIMEOUT);
        let next = scope.spawn(|| look_up(&client, 5));
        let (second, _) = peer.request();
        peer.reply(number, &Reply::Published(Status::SUCCESS, Vec::new()));
        answer(&mut peer, second, 5);
        assert_eq!(next.join().unwrap().unwrap(), Value::Uint32(5));
    });
    finalize(client, thread::spawn(move || peer.agree()));
}

#[test]
fn callers_that_read_and_all_others_learn_of_the_end() {
    let (client, mut peer) = connected();
    let (ended, end) = mpsc::channel();
    client.get_pending(&proc(1), "k", &[]).then(move |result| ended.send(result.map(drop)).unwrap()).unwrap();
    peer.request();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..3)
            .map(|number| {
                let client = &client;
                scope.spawn(move || look_up(client, number))
            })
            .collect();
        (0..3).for_each(|_| drop(peer.request()));
        drop(peer);
        for caller in callers {
            assert!(matches!(caller.join().unwrap(), Err(Error::LostConnection)));
        }
    });
    assert!(matches!(end.recv_timeout(PATIENCE).unwrap(), Err(Error::LostConnection)));
    assert!(matches!(look_up(&client, 9), Err(Error::LostConnection)));
    client.finalize(&[]).unwrap();
}

/// The server answers the end, and not the look-up.
#[test]
fn a_client_that_is_ended_lets_go_of_a_caller_that_reads() {
    let (client, mut peer) = connected();
    thread::scope(|scope| {
        let reads = scope.spawn(|| look_up(&client, 1));
        peer.request();
        let ends = scope.spawn(|| client.finalize(&[]));
        let (number, request) = peer.request();
        assert_eq!(request, Request::Finalize);
        peer.done(number);
        ends.join().unwrap().unwrap();
        assert!(reads.join().unwrap().is_err());
    });
}
