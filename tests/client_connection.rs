//! The client against a server that refuses, lies, goes away, or keeps it waiting.
mod scripted;

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use instanton::client::{Client, Error, InitError};
use instanton::data::{DataRange, Info, Key, Nspace, Posted, Proc, Rank, Scope, Status, Value, keys};
use instanton::internal::control::frame::{self, HEADER, Kind};
use instanton::internal::control::handshake::Welcome;
use instanton::internal::message::{DescriptorKind, Push, Reply, Request};
use scripted::{PATIENCE, Scripted, client_of, connected, job, job_info, nspace, proc};

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

#[test]
fn a_refusal_has_its_status_and_its_reason() {
    let server = Scripted::listen();
    let address = server.address.clone();
    let client = thread::spawn(move || Client::connect(&address, &[]).unwrap_err());
    let mut peer = server.accept();
    let hello = peer.hello();
    assert_eq!((hello.proc, hello.token), (proc(0), [7; 32]));
    let refused = Welcome::Refused { status: Status::ERR_INVALID_CRED, reason: "no such token".into() };
    peer.send(&frame::encode(Kind::Welcome, 0, 0, &refused).unwrap(), &[]);
    let error = client.join().unwrap();
    assert_eq!(error.status(), Status::ERR_INVALID_CRED);
    assert!(error.to_string().contains("no such token"), "{error}");
}

#[test]
fn no_door_and_no_handshake_are_told_apart() {
    let nobody = Scripted::listen().address;
    let error = Client::connect(&nobody, &[]).unwrap_err();
    assert!(matches!(&error, InitError::NotAvailable(tried) if tried.contains("abstract socket")), "{error}");
    assert_eq!(error.status(), Status::ERR_SERVER_NOT_AVAIL);
    let answers: [&[u8]; 3] = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"INST\x63\x00\x02\x00................"];
    let statuses = [Status::ERR_SERVER_NOT_AVAIL, Status::ERR_HANDSHAKE_FAILED, Status::ERR_HANDSHAKE_FAILED];
    for (answer, status) in answers.into_iter().zip(statuses) {
        let server = Scripted::listen();
        let address = server.address.clone();
        let client = thread::spawn(move || Client::connect(&address, &[]).unwrap_err());
        let mut peer = server.accept();
        peer.hello();
        peer.send(answer, &[]);
        drop(peer);
        assert_eq!(client.join().unwrap().status(), status);
    }
}

#[test]
fn the_second_door_is_tried() {
    let path = std::env::temp_dir().join(format!("instanton-door-{}", std::process::id()));
    // Left by a run that was interrupted, whose number this process has now.
    let _ = std::fs::remove_file(&path);
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut address = Scripted::listen().address;
    address.path = Some(path.to_str().unwrap().into());
    let client = thread::spawn(move || Client::connect(&address, &[]).unwrap_err());
    drop(listener.accept().unwrap());
    assert_eq!(client.join().unwrap().status(), Status::ERR_SERVER_NOT_AVAIL);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn when_the_server_goes_everybody_is_told() {
    let (client, mut peer) = connected();
    let (tell, told) = mpsc::channel();
    let heard = tell.clone();
    let handler = move |notice: instanton::client::Notice, _| heard.send((notice.status, notice.source)).unwrap();
    let id = thread::scope(|scope| {
        let id = scope.spawn(|| client.register_event_handler(&[], &[], Arc::new(handler)).wait());
        let (number, request) = peer.request();
        assert!(matches!(request, Request::RegisterEvents { codes, .. } if codes.is_empty()));
        peer.done(number);
        id.join().unwrap()
    });
    assert_eq!(id.unwrap(), 0);
    let (ended, end) = mpsc::channel();
    let waiting = ended.clone();
    client.get_pending(&proc(1), "k", &[]).then(move |result| waiting.send(result.map(drop)).unwrap()).unwrap();
    client.fence(&[], &[]).then(move |result| ended.send(result).unwrap()).unwrap();
    thread::scope(|scope| {
        let blocked = scope.spawn(|| client.fence(&[], &[]).wait());
        (0..3).for_each(|_| drop(peer.request()));
        drop(peer);
        assert!(matches!(blocked.join().unwrap(), Err(Error::LostConnection)));
    });
    for _ in 0..2 {
        assert!(matches!(end.recv_timeout(PATIENCE).unwrap(), Err(Error::LostConnection)));
    }
    let (status, source) = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((status, source.nspace), (Status::ERR_LOST_CONNECTION, Nspace::new("server").unwrap()));
    assert!(matches!(client.fence(&[], &[]).wait(), Err(Error::LostConnection)));
    // Values that the process knows by itself are still there.
    client.put(Scope::GLOBAL, "mine", Value::Int(1)).unwrap();
    assert_eq!(client.get(&proc(0), "mine", &[]).unwrap(), Value::Int(1));
    client.finalize(&[]).unwrap();
    assert!(matches!(client.get(&proc(0), "mine", &[]), Err(Error::NotInitialized)));
}

/// A process makes a file after registering it, and with the server gone nobody would remove it.
#[test]
fn a_registration_that_is_lost_with_the_server_holds_its_caller_until_the_host_has_ended_it() {
    let (client, mut peer) = connected();
    let file = [Info::new(keys::REGISTER_CLEANUP, "/no/such")];
    let register = || {
        let asked = Instant::now();
        let error = client.job_control(&[], &file).wait().unwrap_err();
        assert!(matches!(error, Error::LostConnection), "{error}");
        assert!(asked.elapsed() >= Duration::from_millis(500), "it was let go after {:?}", asked.elapsed());
    };
    thread::scope(|scope| {
        let waiting = scope.spawn(register);
        peer.request();
        drop(peer);
        waiting.join().unwrap();
    });
    register();
    client.finalize(&[]).unwrap();
}

#[test]
fn what_is_no_frame_ends_the_connection() {
    let reply = frame::encode(Kind::Reply, 1, 0, &Reply::Done(Status::SUCCESS)).unwrap();
    let mut wrong_kind = reply.to_vec();
    wrong_kind[6] = Kind::Request as u8;
    let mut wrong_body = reply.to_vec();
    wrong_body[HEADER..].fill(0xff);
    let mut too_long = reply.to_vec();
    too_long[16..20].fill(0xff);
    for bytes in [wrong_kind, wrong_body, too_long, b"garbage, and no end of it, really".to_vec()] {
        let (client, mut peer) = connected();
        thread::scope(|scope| {
            let blocked = scope.spawn(|| client.fence(&[], &[]).wait());
            peer.request();
            peer.send(&bytes, &[]);
            assert!(matches!(blocked.join().unwrap(), Err(Error::LostConnection)));
        });
    }
}

#[test]
fn a_callback_may_ask_but_not_wait() {
    let (client, mut peer) = connected();
    let client = Arc::new(client);
    let (tell, told) = mpsc::channel();
    let inner = client.clone();
    let ask = move |result: Result<(), Error>| {
        let fence = inner.fence(&[], &[]).wait();
        let get = inner.get(&proc(1), "k", &[]);
        let end = inner.finalize(&[]);
        inner.store_internal(&proc(1), "here", Value::Int(5)).unwrap();
        let here = inner.get(&proc(1), "here", &[]);
        inner.fence(&[], &[]).then(move |again| tell.send((result, fence, get, end, here, again)).unwrap()).unwrap();
    };
    client.fence(&[], &[]).then(ask).unwrap();
    for _ in 0..2 {
        let (number, request) = peer.request();
        assert!(matches!(request, Request::Fence { .. }));
        peer.done(number);
    }
    let (first, fence, get, end, here, again) = told.recv_timeout(PATIENCE).unwrap();
    assert!(first.is_ok() && again.is_ok());
    assert!(matches!(fence, Err(Error::WouldBlock { call: "PMIx_Fence" })));
    assert!(matches!(get, Err(Error::WouldBlock { call: "PMIx_Get" })));
    assert!(matches!(end, Err(Error::WouldBlock { call: "PMIx_Finalize" })));
    assert_eq!(here.unwrap(), Value::Int(5));
    let server = thread::spawn(move || peer.agree());
    client.finalize(&[]).unwrap();
    drop(client);
    assert_eq!(server.join().unwrap(), [Request::Finalize]);
}

#[test]
fn a_callback_that_panics_leaves_nobody_waiting() {
    let (client, mut peer) = connected();
    client.fence(&[], &[]).then(|_| panic!("as this test wants it")).unwrap();
    let (number, _) = peer.request();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.fence(&[], &[]).wait());
        peer.request();
        peer.done(number);
        waiting.join().unwrap().unwrap_err();
    });
    client.fence(&[], &[]).wait().unwrap_err();
    client.finalize(&[]).unwrap_err();
}

#[test]
fn a_commit_that_fails_is_told_once_and_later() {
    let (client, mut peer) = connected();
    client.put(Scope::GLOBAL, "a", Value::Int(1)).unwrap();
    client.put(Scope::INTERNAL, "b", Value::Int(2)).unwrap();
    assert_eq!(client.put(Scope(99), "c", Value::Int(3)).unwrap_err().status(), Status::ERR_BAD_PARAM);
    assert_eq!(client.put(Scope::DEL_GLOBAL, "c", Value::Int(3)).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    client.commit().unwrap();
    let (number, request) = peer.request();
    let Request::Commit { entries } = request else { panic!("{request:?}") };
    assert_eq!(entries.iter().map(|entry| entry.key.as_bytes()).collect::<Vec<_>>(), [b"a"]);
    client.commit().unwrap();
    thread::scope(|scope| {
        let fence = scope.spawn(|| client.fence(&[], &[]).wait());
        let (fence_number, request) = peer.request();
        assert!(matches!(request, Request::Fence { .. }), "a commit of nothing new is sent");
        peer.reply(number, &Reply::Done(Status::ERR_OUT_OF_RESOURCE));
        peer.done(fence_number);
        assert_eq!(fence.join().unwrap().unwrap_err().status(), Status::ERR_OUT_OF_RESOURCE);
    });
    client.commit().unwrap();
    let server = thread::spawn(move || peer.agree());
    client.finalize(&[]).unwrap();
    drop(client);
    server.join().unwrap();
}

#[test]
fn events_go_from_handler_to_handler() {
    let (client, peer) = connected();
    let server = thread::spawn(move || {
        let mut peer = peer;
        let (number, _) = peer.request();
        peer.done(number);
        let code = Status(-7000);
        let push = Push::Event { status: code, source: proc(3), range: DataRange::GLOBAL, info: vec![], vote: None };
        peer.push(&push);
        peer.agree()
    });
    let code = Status(-7000);
    let (tell, told) = mpsc::channel();
    let register = |name: &'static str, info: Vec<Info>, answer: Status| {
        let tell = tell.clone();
        let handler = move |notice: instanton::client::Notice, chain: instanton::client::Chain| {
            let seen: Vec<_> = notice.results.iter().map(|item| item.key.to_string()).collect();
            tell.send((name, notice.source.rank, seen)).unwrap();
            // From another thread, as a program may.
            thread::spawn(move || chain.complete(answer, vec![Info::new("result.of.it", 1u32)]));
        };
        let info: Vec<_> = info.into_iter().chain([Info::new(keys::EVENT_HDLR_NAME, name)]).collect();
        client.register_event_handler(&[code], &info, Arc::new(handler)).wait().unwrap()
    };
    let second = register("second", vec![], Status::SUCCESS);
    let heard = |rank, name, seen: &[&str]| {
        let (told_name, told_rank, told_seen) = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(
            (told_name, told_rank, &told_seen.iter().map(String::as_str).collect::<Vec<_>>()[..]),
            (name, Rank(rank), seen)
        );
    };
    heard(3, "second", &[]);
    register("first", vec![Info::new(keys::EVENT_HDLR_PREPEND, true)], Status::EVENT_NO_ACTION_TAKEN);
    let notify = || {
        let here = Proc::new(Nspace::new("").unwrap(), Rank::UNDEF);
        let local = DataRange::PROC_LOCAL;
        client.notify_event(code, &here, local, &[]).wait().unwrap();
    };
    notify();
    heard(0, "first", &[]);
    heard(0, "second", &["first", "result.of.it"]);
    register("stop", vec![Info::new(keys::EVENT_HDLR_FIRST, true)], Status::EVENT_ACTION_COMPLETE);
    notify();
    heard(0, "stop", &[]);
    client.deregister_event_handler(second).wait().unwrap();
    // A program may wait for the callback whatever the call returns: in the Standard it returns nothing.
    let again: Result<(), Error> = client.deregister_event_handler(second).wait();
    assert_eq!(again.unwrap_err().status(), Status::ERR_BAD_PARAM);
    let unknown = [Info::new("site.directive", true)];
    let (answer, answered) = mpsc::channel();
    let ignored: instanton::client::Handler = Arc::new(|_, _| {});
    client.register_event_handler(&[code], &unknown, ignored).then(move |number| answer.send(number).unwrap()).unwrap();
    assert_eq!(answered.recv().unwrap().unwrap_err().status(), Status::ERR_BAD_PARAM);
    client.finalize(&[]).unwrap();
    assert!(told.try_recv().is_err());
    drop(client);
    assert_eq!(server.join().unwrap(), [Request::Finalize]);
}

#[test]
fn segments_come_when_they_are_needed_and_before_the_fence_ends() {
    let mut job = job();
    let (client, mut peer) = client_of(&job);
    let wildcard = Proc::new(nspace(), Rank::WILDCARD);
    assert_eq!(client.get(&wildcard, keys::JOB_SIZE, &[]).unwrap(), Value::Uint32(4));

    // A segment that is not mapped yet: no fence was made, the Get asks for it.
    job.update(Rank(1), &[Posted::new(Scope::GLOBAL, key("k"), Value::from("one"))]).unwrap();
    let answer = thread::scope(|scope| {
        let get = scope.spawn(|| client.get(&proc(1), "k", &[Info::new(keys::OPTIONAL, true)]));
        let (number, request) = peer.request();
        let Request::Segments { have, .. } = request else { panic!("{request:?}") };
        peer.segments(number, &have, &job);
        get.join().unwrap()
    });
    assert_eq!(answer.unwrap(), Value::from("one"));

    // More of it, and other job information: the end of the fence brings them.
    let large = Value::ByteObject(vec![7; 100_000]);
    job.update(Rank(2), &[Posted::new(Scope::GLOBAL, key("k"), large.clone())]).unwrap();
    job.replace_info(job_info("/tmp/y")).unwrap();
    assert_eq!(client.get(&wildcard, keys::TMPDIR, &[]).unwrap(), Value::from("/tmp/x"));
    thread::scope(|scope| {
        let fence = scope.spawn(|| client.fence(&[], &[]).wait());
        let (number, _) = peer.request();
        peer.done(number);
        let (number, request) = peer.request();
        let Request::Segments { have, .. } = request else { panic!("{request:?}") };
        peer.segments(number, &have, &job);
        fence.join().unwrap().unwrap();
    });
    assert_eq!(client.get(&wildcard, keys::TMPDIR, &[]).unwrap(), Value::from("/tmp/y"));
    assert_eq!(client.get(&proc(2), "k", &[]).unwrap(), large);
    let everything = client.get_all(&proc(2), &[]).wait().unwrap();
    let everything: Vec<_> = everything.as_array().unwrap().infos().map(|item| item.key.to_string()).collect();
    assert!(["k", keys::RANK, keys::NODEID].iter().all(|key| everything.iter().any(|k| k == key)), "{everything:?}");

    // A process that cannot wait for a fence asks for the newest.
    job.replace_info(job_info("/tmp/z")).unwrap();
    let refresh = [Info::new(keys::GET_REFRESH_CACHE, true)];
    let newest = thread::scope(|scope| {
        let get = scope.spawn(|| client.get(&wildcard, keys::TMPDIR, &refresh));
        let (number, request) = peer.request();
        let Request::Segments { have, .. } = request else { panic!("{request:?}") };
        peer.segments(number, &have, &job);
        get.join().unwrap()
    });
    assert_eq!(newest.unwrap(), Value::from("/tmp/z"));

    // By the host's name of the job, too.
    let elsewhere = Proc::new(Nspace::new("any").unwrap(), Rank::WILDCARD);
    let of_job = [Info::new(keys::JOBID, "the.job")];
    assert_eq!(client.get(&elsewhere, keys::JOB_SIZE, &of_job).unwrap(), Value::Uint32(4));
    let server = thread::spawn(move || peer.agree());
    drop(client);
    assert_eq!(server.join().unwrap(), [], "everything else was at hand");
}

#[test]
fn callbacks_that_wait_for_segments_share_the_requests_for_them() {
    let mut job = job();
    let (client, mut peer) = client_of(&job);
    job.update(Rank(1), &[Posted::new(Scope::GLOBAL, key("k"), Value::from("one"))]).unwrap();
    let (tell, told) = mpsc::channel();
    const GETS: usize = 1000;
    for _ in 0..GETS {
        let tell = tell.clone();
        client.get_pending(&proc(1), "k", &[]).then(move |result| tell.send(result).unwrap()).unwrap();
    }
    // The first, and all others together.
    for _ in 0..2 {
        let (number, request) = peer.request();
        let Request::Segments { have, .. } = request else { panic!("{request:?}") };
        peer.segments(number, &have, &job);
    }
    for _ in 0..GETS {
        assert_eq!(told.recv_timeout(PATIENCE).unwrap().unwrap(), Value::from("one"));
    }
    let server = thread::spawn(move || peer.agree());
    drop(client);
    assert_eq!(server.join().unwrap(), [], "nobody asked by itself");
}

#[test]
fn what_cannot_be_mapped_is_asked_for() {
    let mut job = job();
    let (client, mut peer) = client_of(&job);
    job.update(Rank(1), &[Posted::new(Scope::GLOBAL, key("k"), Value::from("one"))]).unwrap();
    thread::scope(|scope| {
        let get = scope.spawn(|| client.get(&proc(1), "k", &[]));
        let (number, _) = peer.request();
        // A descriptor that is no segment, and one that was announced and does not come.
        let parts = vec![DescriptorKind::Modex(1)];
        let socket = peer.socket.try_clone().unwrap();
        peer.send(&frame::encode(Kind::Reply, number, 1, &Reply::Segments { parts }).unwrap(), &[socket.as_fd()]);
        drop(socket);
        let (number, request) = peer.request();
        assert!(matches!(request, Request::Get { .. }), "{request:?}");
        peer.reply(number, &Reply::Value(Value::from("one")));
        assert_eq!(get.join().unwrap().unwrap(), Value::from("one"));
        // It is not tried again.
        let get = scope.spawn(|| client.get(&proc(1), "k", &[]));
        let (number, request) = peer.request();
        assert!(matches!(request, Request::Get { .. }), "{request:?}");
        peer.reply(number, &Reply::Done(Status::ERR_NOT_FOUND));
        assert_eq!(get.join().unwrap().unwrap_err().status(), Status::ERR_NOT_FOUND);
    });
    // Mapped segments stay readable.
    let wildcard = Proc::new(nspace(), Rank::WILDCARD);
    assert_eq!(client.get(&wildcard, keys::JOB_SIZE, &[]).unwrap(), Value::Uint32(4));
    // Had the client kept what it was sent, a descriptor of the server's own end, that end would stay open now.
    let (tell, told) = mpsc::channel();
    client.fence(&[], &[]).then(move |end| tell.send(end).unwrap()).unwrap();
    drop(peer);
    assert!(matches!(told.recv_timeout(PATIENCE).unwrap(), Err(Error::LostConnection)));
}

#[test]
fn the_own_word_comes_first_and_the_hosts_before_a_put() {
    let job = job();
    let (client, peer) = client_of(&job);
    let me = proc(0);
    let get = |proc: &Proc, key: &str, info: &[Info]| client.get(proc, key, info);
    client.put(Scope::GLOBAL, "mine", Value::String(None)).unwrap();
    client.put(Scope::GLOBAL, keys::HOSTNAME, Value::from("put")).unwrap();
    client.put(Scope::GLOBAL, keys::CPUSET, Value::from("0-1")).unwrap();
    client.put(Scope::REMOTE, "far", Value::Int(1)).unwrap();
    assert_eq!(get(&me, "mine", &[]).unwrap(), Value::String(None));
    assert_eq!(get(&me, keys::HOSTNAME, &[]).unwrap(), Value::from("alpha"));
    assert_eq!(get(&me, keys::CPUSET, &[]).unwrap(), Value::from("0-1"));
    let local = [Info::new(keys::DATA_SCOPE, Scope::LOCAL), Info::new(keys::OPTIONAL, true)];
    assert_eq!(get(&me, "far", &local).unwrap_err().status(), Status::ERR_NOT_FOUND);
    assert_eq!(get(&me, "far", &[]).unwrap(), Value::Int(1));
    client.store_internal(&me, keys::HOSTNAME, Value::from("stored")).unwrap();
    client.store_internal(&proc(1), "pmix.loc", Value::Uint16(127)).unwrap();
    assert_eq!(get(&me, keys::HOSTNAME, &[]).unwrap(), Value::from("stored"));
    assert_eq!(get(&proc(1), "pmix.loc", &[]).unwrap(), Value::Uint16(127));
    assert_eq!(get(&me, keys::HOSTNAME, &[Info::new(keys::NODE_INFO, true)]).unwrap(), Value::from("alpha"));
    // Nobody will ever post these: no question leaves the process.
    let optional = [Info::new(keys::OPTIONAL, true)];
    for (proc, key, info) in [
        (&Proc::new(nspace(), Rank::WILDCARD), "pmix.no.such", &[][..]),
        (&Proc::new(nspace(), Rank::UNDEF), "pmix.no.such", &[]),
        (&me, "pmix.no.such", &[]),
        (&proc(1), "k", &optional),
        (&proc(1), keys::CPUSET, &optional),
    ] {
        assert_eq!(get(proc, key, info).unwrap_err().status(), Status::ERR_NOT_FOUND, "{proc} {key}");
    }
    let server = thread::spawn(move || peer.agree());
    drop(client);
    assert_eq!(server.join().unwrap(), []);
}

#[test]
fn requests_about_processes_say_what_the_caller_said() {
    let (client, mut peer) = connected();
    thread::scope(|scope| {
        let abort = scope.spawn(|| client.abort(7, Some(b"enough"), &[proc(1)]).wait());
        let (number, request) = peer.request();
        let asked = Request::Abort { status: 7, message: Some(b"enough".to_vec()), procs: vec![proc(1)] };
        assert_eq!(request, asked);
        peer.reply(number, &Reply::Done(Status::ERR_NOT_SUPPORTED));
        assert_eq!(abort.join().unwrap().unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    });
    let (tell, told) = mpsc::channel();
    let directives = vec![Info::new(keys::REGISTER_CLEANUP, "/tmp/file")];
    client.job_control(&[], &directives).then(move |answer| tell.send(answer).unwrap()).unwrap();
    let (number, request) = peer.request();
    assert_eq!(request, Request::JobControl { targets: vec![], directives: directives.clone() });
    peer.reply(number, &Reply::Infos(Status::SUCCESS, directives.clone()));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap().unwrap(), (Status::SUCCESS, directives));
    // A request without contents is for the host to judge.
    let (tell, told) = mpsc::channel();
    client.job_control(&[], &[]).then(move |answer| tell.send(answer).unwrap()).unwrap();
    let (number, request) = peer.request();
    assert_eq!(request, Request::JobControl { targets: vec![], directives: vec![] });
    peer.reply(number, &Reply::Infos(Status::SUCCESS, vec![]));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap().unwrap(), (Status::SUCCESS, vec![]));
}

#[test]
fn a_singleton_is_a_job_of_its_own() {
    let client = Client::singleton().unwrap();
    assert_eq!((client.proc().rank, client.server()), (Rank(0), None));
    let me = client.proc().clone();
    client.put(Scope::GLOBAL, "k", Value::Int(1)).unwrap();
    client.commit().unwrap();
    client.fence(&[], &[]).wait().unwrap();
    client.fence(std::slice::from_ref(&me), &[]).wait().unwrap();
    assert_eq!(client.fence(&[proc(1)], &[]).wait().unwrap_err().status(), Status::ERR_UNREACH);
    assert_eq!(client.get(&me, "k", &[]).unwrap(), Value::Int(1));
    assert_eq!(client.get(&me, "l", &[]).unwrap_err().status(), Status::ERR_NOT_FOUND);
    // It knows what a host would have told it.
    let asked = |rank, key: &str| client.get(&Proc::new(me.nspace.clone(), rank), key, &[]);
    assert_eq!(asked(Rank(0), keys::RANK).unwrap(), Value::ProcRank(Rank(0)));
    assert_eq!(
        asked(Rank::UNDEF, keys::LOCAL_RANK).unwrap(),
        Value::Uint16(0),
        "without a process, the caller is meant"
    );
    assert_eq!(asked(Rank::WILDCARD, keys::JOB_SIZE).unwrap(), Value::Uint32(1));
    assert_eq!(asked(Rank::WILDCARD, keys::LOCAL_PEERS).unwrap(), Value::from("0"));
    assert_eq!(asked(Rank(1), keys::LOCAL_RANK).unwrap_err().status(), Status::ERR_NOT_FOUND);
    assert_eq!(
        client.get(&me, "l", &[Info::new(keys::GET_REFRESH_CACHE, true)]).unwrap_err().status(),
        Status::ERR_NOT_FOUND
    );
    assert!(client.get_all(&me, &[]).wait().unwrap().as_array().unwrap().len() > 1);
    let wish = Info::new("site.wish", true).required();
    assert_eq!(client.finalize(&[wish]).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    client.finalize(&[]).unwrap();
    assert!(matches!(client.finalize(&[]), Err(Error::NotInitialized)));
}
