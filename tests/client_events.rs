//! Event handlers in whole jobs: whom an event reaches, and what goes on while a handler runs.
mod processes;
#[path = "processes/ranks.rs"]
mod ranks;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use instanton::client::{Chain, Client, Notice};
use instanton::data::{DataArray, DataRange, Info, Rank, Scope, Status, Value, keys};
use processes::{Job, server};
use ranks::{collect, key, posted, rank_of, size};

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("held") => held(),
        Some("short") => short(),
        Some("tell") => tell(),
        Some(other) => panic!("no such role: {other}"),
    }
}

/// The threads of this process that read beside the control thread: how often each has gone to sleep.
fn readers() -> Vec<u32> {
    let status =
        |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("status")).ok();
    let all = std::fs::read_dir("/proc/self/task").unwrap().filter_map(status);
    let field =
        |status: &str, name: &str| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
    all.filter(|status| field(status, "Name:").as_deref() == Some("instanton-read"))
        .map(|status| field(&status, "voluntary_ctxt_switches:").unwrap().parse().unwrap())
        .collect()
}

/// An event handler of rank 0 holds the client's thread up, and another thread looks things up and meets the others
/// meanwhile.
fn held() {
    let client = Client::init(&[]).unwrap();
    let (me, last) = (client.proc().rank.0, rank_of(&client, size(&client) - 1));
    let (enter, entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let handler = Arc::new(move |_: Notice, chain: Chain| {
        enter.send(()).unwrap();
        let in_time = released.lock().unwrap().recv_timeout(Duration::from_secs(60)).is_ok();
        chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
        assert!(in_time, "calls of other threads wait for the handler");
    });
    client.register_event_handler(&[Status(-4711)], &[], handler).wait().unwrap();
    for (name, value) in posted(me, 0) {
        client.put(Scope::GLOBAL, key(name), value).unwrap();
    }
    client.commit().unwrap();
    client.fence(&[], &collect()).wait().unwrap();
    // The event is raised behind the second fence, and so nobody is held up before that.
    assert!(readers().is_empty(), "no other thread reads before the client's own is held up");
    client.fence(&[], &[]).wait().unwrap();
    if me == 0 {
        entered.recv().unwrap();
        let nothing = client.get(&last, "nothing", &[Info::new(keys::IMMEDIATE, true)]).unwrap_err();
        assert_eq!(nothing.status(), Status::ERR_NOT_FOUND);
        for (name, value) in posted(last.rank.0, 0) {
            assert_eq!(client.get(&last, name, &[]).unwrap(), value, "{name}");
        }
    } else if *client.proc() == last {
        client
            .notify_event(
                Status(-4711),
                &last,
                DataRange::CUSTOM,
                &[Info::new(keys::EVENT_CUSTOM_RANGE, Value::DataArray(DataArray::of(vec![rank_of(&client, 0)])))],
            )
            .wait()
            .unwrap();
    }
    // The data of each fence lie in new segments.
    let both = [rank_of(&client, 0), last.clone()];
    for (round, procs) in [&[][..], &both, &[]].into_iter().enumerate() {
        let name = format!("round {round}");
        client.put(Scope::GLOBAL, key(&name), Value::ByteObject(vec![me as u8; 3 << 20])).unwrap();
        client.commit().unwrap();
        client.fence(procs, &collect()).wait().unwrap();
        assert_eq!(client.get(&last, name, &[]).unwrap(), Value::ByteObject(vec![last.rank.0 as u8; 3 << 20]));
    }
    client.fence_all(true).unwrap();
    // Posted only now, it is waited for.
    if *client.proc() == last {
        client.put(Scope::GLOBAL, key("late"), Value::Bool(true)).unwrap();
        client.commit().unwrap();
    }
    assert_eq!(client.get(&last, "late", &[]).unwrap(), Value::Bool(true));
    if me == 0 {
        // Without shared memory each call here is one whose caller reads its answer itself.
        let meets_at_word = std::env::var("INSTANTON_SHM").as_deref() != Ok("off");
        assert_eq!(readers().len(), usize::from(meets_at_word));
        release.send(()).unwrap();
    }
    // Messages that have come meanwhile are not lost.
    client.fence(&[], &[]).wait().unwrap();
    client.finalize(&[]).unwrap();
}

/// Rank 1 raises events while rank 0 waits for it in a fence.
fn short() {
    const EVENTS: usize = 200;
    let client = Client::init(&[]).unwrap();
    let (tell, told) = mpsc::channel();
    let handler = Arc::new(move |_: Notice, chain: Chain| {
        tell.send(()).unwrap();
        chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    });
    client.register_event_handler(&[Status(-4711)], &[], handler).wait().unwrap();
    client.fence(&[], &[]).wait().unwrap();
    if client.proc().rank.0 == 1 {
        let raise = || client.notify_event(Status(-4711), client.proc(), DataRange::NAMESPACE, &[]);
        (0..EVENTS).for_each(|_| raise().wait().unwrap());
    }
    client.fence(&[], &[]).wait().unwrap();
    (0..EVENTS).for_each(|_| told.recv_timeout(Duration::from_secs(60)).unwrap());
    // Some handlers are not short: a busy machine keeps them from running.
    let woken: u32 = readers().into_iter().sum();
    assert!(woken < EVENTS as u32 / 2, "{woken} times for {EVENTS} events");
    client.finalize(&[]).unwrap();
}

#[test]
fn no_other_thread_wakes_for_a_short_handler() {
    let server = server();
    Job::register(&server, "short@1", 2).run("short", true);
    Job::register(&server, "short@2", 2).run("short", false);
}

#[test]
fn no_look_up_and_no_fence_waits_for_a_handler() {
    let server = server();
    Job::register(&server, "held@1", 2).run("held", true);
    Job::register(&server, "held@2", 2).run("held", false);
}

/// Rank 0 raises an event; everybody hears it once, rank 0 included. An event that is refused is heard by nobody.
fn tell() {
    let client = Client::init(&[]).unwrap();
    let code = Status(-7001);
    let (tell, told) = mpsc::channel();
    let handler = move |notice: Notice, chain: Chain| {
        tell.send((notice.status, notice.source.rank)).unwrap();
        chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    };
    client.register_event_handler(&[code, Status::ERR_PROC_ABORTED], &[], Arc::new(handler)).wait().unwrap();
    client.fence(&[], &[]).wait().unwrap();
    if client.proc().rank.0 == 0 {
        let (me, range) = (client.proc().clone(), DataRange::NAMESPACE);
        let refused =
            |code, range, info: &[Info]| client.notify_event(code, &me, range, info).wait().unwrap_err().status();
        assert_eq!(refused(code, DataRange::CUSTOM, &[]), Status::ERR_BAD_PARAM);
        let nobody = [Info::new(keys::EVENT_CUSTOM_RANGE, "nobody")];
        assert_eq!(refused(code, DataRange::CUSTOM, &nobody), Status::ERR_BAD_PARAM);
        assert_eq!(refused(Status::ERR_PROC_ABORTED, range, &[]), Status::ERR_NO_PERMISSIONS);
        client.notify_event(code, &me, range, &[]).wait().unwrap();
    }
    assert_eq!(told.recv().unwrap(), (code, Rank(0)));
    client.fence(&[], &[]).wait().unwrap();
    client.finalize(&[]).unwrap();
    assert!(told.try_recv().is_err(), "once");
}

#[test]
fn an_event_reaches_the_processes_of_the_node() {
    let server = server();
    Job::register(&server, "tell@1", 3).run("tell", true);
}
