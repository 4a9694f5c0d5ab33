//! Time limits that a client keeps by itself, under a server that says nothing, or does not even read.
#[path = "../src/pending/block_on.rs"]
mod block_on;
mod scripted;

use std::sync::{Arc, mpsc};
use std::thread;

use block_on::block_on;
use instanton::Pending;
use instanton::client::{Client, Error};
use instanton::data::{
    App, Channels, DataRange, Info, Key, Nspace, Posted, Proc, Query, Rank, Scope, Status, Text, Value, keys,
};
use instanton::internal::message::{Reply, Request};
use instanton::store::JobWriter;
use scripted::{PATIENCE, Peer, client_of, connected, job, nspace, proc};

/// The shortest limit that there is.
fn limit() -> Vec<Info> {
    vec![Info::new(keys::TIMEOUT, 1)]
}

fn is_late<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Status(Status::ERR_TIMEOUT)))
}

type Told = mpsc::Sender<(&'static str, bool)>;

/// Gives a call a callback, which tells whether it was given up.
fn send<T: Send + 'static>(told: &Told, name: &'static str, call: Pending<T, Error>) {
    let told = told.clone();
    call.then(move |result| told.send((name, is_late(result))).unwrap()).unwrap();
}

/// Every call that can have a limit.
fn send_all(client: &Client, told: &Told) -> usize {
    let (both, group) = ([proc(0), proc(1)], Nspace::new("group").unwrap());
    let with = |info: Info| [limit(), vec![info]].concat();
    let text = |text: &str| Text::new(text).unwrap();
    let app = App { cmd: Some(text("/bin/true")), argv: vec![], env: vec![], cwd: None, maxprocs: 1, info: vec![] };
    let query = Query { keys: vec![text(keys::QUERY_NAMESPACES)], qualifiers: limit() };
    let monitor = Info::new(keys::MONITOR_HEARTBEAT, true);
    send(told, "fence", client.fence(&[], &limit()));
    send(told, "fence of two", client.fence(&both, &limit()));
    send(told, "get", client.get_pending(&proc(1), "k", &limit()));
    send(told, "get all", client.get_all(&proc(1), &limit()));
    send(told, "connect", client.connect_to(&both, &limit()));
    send(told, "disconnect", client.disconnect_from(&both, &limit()));
    send(told, "construct", client.group_construct(&group, &both, &limit()));
    send(told, "destruct", client.group_destruct(&group, &limit()));
    send(told, "leave", client.group_leave(&group, &limit()));
    send(told, "invite", client.group_invite(&group, &both, &limit()));
    send(told, "join", client.group_join(&group, Some(&proc(1)), true, &limit()));
    send(told, "publish", client.publish(&with(Info::new("k", 1))));
    send(told, "look-up", client.lookup(&["k"], &with(Info::new(keys::WAIT, 1))));
    send(told, "unpublish", client.unpublish(&["k"], &limit()));
    send(told, "spawn", client.spawn(&limit(), &[app]));
    send(told, "query", client.query(&[query]));
    send(told, "log", client.log(&[Info::new(keys::LOG_STDERR, "x")], &limit()));
    send(told, "allocate", client.allocation_request(1, &limit()));
    send(told, "monitor", client.process_monitor(&monitor, Status::MONITOR_HEARTBEAT_ALERT, &limit()));
    send(told, "credential", client.get_credential(&limit()));
    send(told, "validate", client.validate_credential(b"x", &limit()));
    send(told, "push", client.iof_push(&both, b"x", &limit()));
    send(told, "pull", client.iof_pull(&both, Channels::STDOUT, &limit(), Arc::new(|_| ())));
    send(told, "fabric", client.fabric(0, &limit()));
    send(told, "session", client.session_control(1, &limit()));
    send(told, "block", client.resource_block(1, &text("b"), &[], &limit()));
    send(told, "job control", client.job_control(&both, &with(Info::new(keys::JOB_CTRL_PAUSE, true))));
    send(told, "notify", client.notify_event(Status(-7001), &proc(0), DataRange::NAMESPACE, &limit()));
    send(told, "handler", client.register_event_handler(&[Status(-7002)], &limit(), Arc::new(|_, _| ())));
    29
}

/// Asks something that the server answers, so that everything that came before it has been taken in.
fn is_sound(client: &Client, peer: &mut Peer) {
    let ask = client.get_pending(&proc(2), "sound", &[]);
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask.wait());
        let (number, request) = peer.request();
        assert!(matches!(request, Request::Get { .. }), "{request:?}");
        peer.reply(number, &Reply::Value(Value::Uint8(7)));
        assert_eq!(asked.join().unwrap().unwrap(), Value::Uint8(7));
    });
}

#[test]
fn every_call_ends_by_its_limit_and_the_late_answer_finds_nobody() {
    let (client, mut peer) = connected();
    let (tell, told) = mpsc::channel();
    let count = send_all(&client, &tell);
    let numbers: Vec<u64> = (0..count).map(|_| peer.request().0).collect();
    for _ in 0..count {
        let (name, late) = told.recv_timeout(PATIENCE).expect("every call ends");
        assert!(late, "{name}");
    }
    // A collective that was begun by two of them and cannot be used is ended.
    let after: Vec<Request> = (0..2).map(|_| peer.request().1).collect();
    assert!(after.iter().any(|request| matches!(request, Request::StopOutput { .. })), "{after:?}");
    assert!(after.iter().any(|request| matches!(request, Request::DeregisterEvents { .. })), "{after:?}");
    numbers.into_iter().for_each(|number| peer.done(number));
    is_sound(&client, &mut peer);
    assert!(told.try_recv().is_err(), "a call ended twice");
}

#[test]
fn each_way_of_waiting_ends_by_the_limit() {
    let (client, mut peer) = connected();
    assert!(is_late(client.fence(&[], &limit()).wait()));
    assert!(is_late(client.get(&proc(1), "k", &limit())));
    assert!(is_late(block_on(client.lookup(&["k"], &limit()))));
    (0..3).for_each(|_| drop(peer.request()));
    is_sound(&client, &mut peer);
}

#[test]
fn a_spawn_ends_by_the_limit_of_its_start_as_well() {
    let (client, mut peer) = connected();
    let cmd = Text::new("/bin/true").ok();
    let apps = [App { cmd, argv: vec![], env: vec![], cwd: None, maxprocs: 1, info: vec![] }];
    let in_time = Info::new(keys::SPAWN_TIMEOUT, 1);
    assert!(is_late(client.spawn(&[in_time.clone(), Info::new(keys::TIMEOUT, 1000)], &apps).wait()));
    assert!(is_late(client.spawn(&[in_time], &apps).wait()));
    (0..2).for_each(|_| drop(peer.request()));
    is_sound(&client, &mut peer);
}

#[test]
fn who_ends_gives_the_goodbye_no_longer_than_its_limit() {
    let (client, mut peer) = connected();
    assert!(is_late(client.finalize(&limit())));
    assert_eq!(peer.request().1, Request::Finalize);
    assert!(!client.is_initialized());
}

#[test]
fn a_server_that_does_not_read_keeps_nobody_beyond_the_limit_and_gets_all_in_order() {
    const LARGE: usize = 8 << 20;
    let (client, mut peer) = connected();
    thread::scope(|scope| {
        // It has no limit, and waits until the server has read it.
        client.put(Scope::GLOBAL, "large", Value::ByteObject(vec![1; LARGE])).unwrap();
        let commit = scope.spawn(|| client.commit().unwrap());
        let publish = [limit(), vec![Info::new("k", Value::ByteObject(vec![2; LARGE]))]].concat();
        assert!(is_late(client.publish(&publish).wait()));
        assert!(is_late(client.fence(&[], &limit()).wait()));
        assert!(is_late(client.get(&proc(1), "k", &limit())));
        // Puts and look-ups of its own go on beside it.
        client.put(Scope::LOCAL, "small", Value::Uint8(1)).unwrap();
        assert_eq!(client.get(client.proc(), "small", &[]).unwrap(), Value::Uint8(1));
        let mut requests: Vec<(u64, Request)> = (0..4).map(|_| peer.request()).collect();
        commit.join().unwrap();
        let at = requests.iter().position(|(number, _)| *number == 0).expect("the commit has come");
        let (_, Request::Commit { entries }) = requests.remove(at) else { panic!("no commit") };
        assert_eq!(
            entries,
            [Posted::new(Scope::GLOBAL, Key::new("large").unwrap(), Value::ByteObject(vec![1; LARGE]))]
        );
        assert!(requests.is_sorted_by_key(|(number, _)| *number));
        let kinds = requests.iter().map(|(_, request)| match request {
            Request::Forward(_) => "publish",
            Request::Fence { .. } => "fence",
            Request::Get { .. } => "get",
            _ => "?",
        });
        assert_eq!(kinds.collect::<Vec<_>>(), ["publish", "fence", "get"]);
    });
    is_sound(&client, &mut peer);
}

/// Begins a fence of all with these attributes and returns its request, with what `answer` has the server do about it.
fn fence(
    client: &Client,
    peer: &mut Peer,
    info: &[Info],
    answer: impl FnOnce(&mut Peer, u64),
) -> (Request, Result<(), Error>) {
    thread::scope(|scope| {
        let fence = scope.spawn(|| client.fence(&[], info).wait());
        let (number, request) = peer.request();
        answer(peer, number);
        (request, fence.join().unwrap())
    })
}

/// A client that has given up a fence at the word; returns the number of its request.
fn given_up(job: &JobWriter) -> (Client, Peer, u64) {
    let (client, mut peer) = client_of(job);
    let mut given_up = 0;
    let (request, result) = fence(&client, &mut peer, &limit(), |_, number| given_up = number);
    assert!(matches!(request, Request::Meet { seen: 0, .. }), "{request:?}");
    assert!(is_late(result));
    (client, peer, given_up)
}

#[test]
fn the_release_of_a_fence_that_was_given_up_does_not_end_the_next_one() {
    let mut job = job();
    let (client, mut peer, _) = given_up(&job);
    // The first fence is not over, so the next takes a message, whatever happens at the word meanwhile.
    let told = thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let client = &client;
        scope.spawn(move || tell.send(client.fence(&[], &[]).wait()).unwrap());
        let (number, request) = peer.request();
        assert!(matches!(request, Request::Fence { .. }), "{request:?}");
        job.release();
        is_sound(client, &mut peer);
        assert!(told.try_recv().is_err(), "the release of the first fence has ended the second");
        peer.done(number);
        told.recv_timeout(PATIENCE).unwrap()
    });
    told.unwrap();
    // Now that is over, and the word is good again.
    let (request, result) = fence(&client, &mut peer, &[], |_, _| job.release());
    assert!(matches!(request, Request::Meet { seen: 1, .. }), "{request:?}");
    result.unwrap();
}

#[test]
fn a_late_answer_ends_a_fence_that_was_given_up() {
    for late in [Status::SUCCESS, Status::ERR_TIMEOUT, Status::ERR_PARTIAL_SUCCESS] {
        let mut job = job();
        let (client, mut peer, number) = given_up(&job);
        peer.reply(number, &Reply::Done(late));
        is_sound(&client, &mut peer);
        let (request, result) = fence(&client, &mut peer, &[], |_, _| job.release());
        assert!(matches!(request, Request::Meet { seen: 0, .. }), "{request:?}");
        result.unwrap();
    }
}

#[test]
fn fences_with_a_message_are_given_up_as_well_and_the_word_waits_for_all_of_them() {
    let mut job = job();
    let (client, mut peer, first) = given_up(&job);
    let mut second = 0;
    let (_, result) = fence(&client, &mut peer, &limit(), |_, number| second = number);
    assert!(is_late(result));
    for (number, is_free) in [(first, false), (second, true)] {
        peer.done(number);
        is_sound(&client, &mut peer);
        let (request, result) = fence(&client, &mut peer, &[], |peer, number| peer.done(number));
        assert_eq!(matches!(request, Request::Meet { .. }), is_free, "{request:?}");
        result.unwrap();
    }
    let (_, result) = fence(&client, &mut peer, &limit(), |_, _| job.release());
    result.unwrap();
}

#[test]
fn segments_that_do_not_come_in_time_make_no_fence_fail() {
    let mut job = job();
    let (client, mut peer) = client_of(&job);
    job.update(Rank(1), &[Posted::new(Scope::GLOBAL, Key::new("k").unwrap(), Value::from("one"))]).unwrap();
    for shared in [true, false] {
        let procs: &[Proc] = if shared { &[] } else { &[proc(0), proc(1)] };
        thread::scope(|scope| {
            let fence = scope.spawn(|| client.fence(procs, &limit()).wait());
            let (number, _) = peer.request();
            peer.done(number);
            let (_, request) = peer.request();
            assert!(matches!(request, Request::Segments { .. }), "{request:?}");
            fence.join().unwrap().unwrap();
        });
    }
    assert_eq!(client.namespaces(), [nspace()]);
}
