//! Registration, admission, and what is passed on to the host.
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use instanton::data::{DataRange, Info, Nspace, Proc, Rank, Scope, Status, Value, keys};
use instanton::internal::control::frame::{self, Kind};
use instanton::internal::message::{Forward, Push, Reply, Request};
use instanton::server::{Accepted, Answer, Completion, Host, Infos, NoHost, Server, ServerConfig};

use crate::host::Cluster;
use crate::peer::{self, Peer, hello};

const OK: Status = Status::SUCCESS;

pub fn ids() -> (u32, u32) {
    (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
}

fn proc(name: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(name).unwrap(), Rank(rank))
}

/// One server with a job of `size` processes, all here.
fn server(host: impl Host, config: ServerConfig, size: u32) -> Server {
    let server = Server::start(config, Arc::new(host)).unwrap();
    let info = [Info::new(keys::JOB_SIZE, size)];
    server.register_nspace(&proc("job", 0).nspace, size as usize, &info).wait().unwrap();
    for rank in 0..size {
        server.register_client(&proc("job", rank), ids().0, ids().1).wait().unwrap();
    }
    server
}

#[test]
fn clients_and_namespaces_are_registered_in_either_order() {
    let cluster = Cluster::new(2);
    let job = cluster.unregistered_job("job", &[0, 1]);
    let mut env: Vec<(std::ffi::OsString, std::ffi::OsString)> = Vec::new();
    assert_eq!(cluster.server(0).setup_fork(&job.proc(0), &mut env), Err(Status::ERR_NOT_FOUND));
    job.register_clients();
    // A process may be started, and come, before its namespace is registered: it waits.
    let address = peer::address(&cluster.server(0), &job.proc(0));
    let early = std::thread::spawn(move || Peer::at(&address));
    job.register_nspace();
    assert!(early.join().unwrap().is_ok());
    let other = cluster.unregistered_job("other", &[0]);
    other.register_nspace();
    other.register_clients();
    drop(other.peer(0));
    job.register_nspace();
    assert_eq!(job.peer(1).get(&job.all(), keys::JOB_SIZE, &[]), Ok(Value::Uint32(2)), "registered again");
}

#[test]
fn nothing_stays_of_who_came_before_its_namespace_and_went() {
    let cluster = Cluster::new(1);
    let (job, other, server) = (cluster.unregistered_job("job", &[0]), cluster.job("other", &[0]), cluster.server(0));
    job.register_clients();
    let address = peer::address(&server, &job.proc(0));
    let mut early = peer::dial(&address);
    early.write_all(&frame::encode(Kind::Hello, 0, 0, &hello(&address)).unwrap()).unwrap();
    // The server hears in order what is said and done one after the other.
    let mut peer = other.peer(0);
    drop(early);
    assert!(peer.get(&other.all(), keys::JOB_SIZE, &[]).is_ok());
    server.deregister_client(&job.proc(0)).wait().unwrap();
    let mut env: Vec<(std::ffi::OsString, std::ffi::OsString)> = Vec::new();
    assert_eq!(server.setup_fork(&job.proc(0), &mut env), Err(Status::ERR_NOT_FOUND));
}

#[test]
fn a_path_socket_opens_and_goes_with_the_server() {
    let config = ServerConfig { path_socket: true, ..ServerConfig::default() };
    let server = server(NoHost, config, 1);
    let address = peer::address(&server, &proc("job", 0));
    let path = address.path.clone().unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert!(matches!(
        peer::greet(&mut stream, &hello(&address)).unwrap(),
        instanton::internal::control::handshake::Welcome::Accepted { .. }
    ));
    server.finalize();
    let directory = std::path::Path::new(&path).parent().unwrap().to_owned();
    assert!(!directory.exists());
}

/// A host that has one verdict on all clients that come in.
struct VerdictHost(Result<Answer, Status>);

impl Host for VerdictHost {
    fn client_connected(&self, _: &Proc, _: Completion<()>) -> Accepted {
        self.0
    }
}

#[test]
fn the_host_decides_who_comes_in() {
    let come = |answer| {
        let config = ServerConfig { host_answer_deadline: Duration::from_millis(200), ..ServerConfig::default() };
        let server = server(VerdictHost(answer), config, 1);
        Peer::connect(&server, &proc("job", 0)).map(|_| ())
    };
    assert_eq!(come(Ok(Answer::Done)), Ok(()));
    assert_eq!(come(Err(Status::ERR_NOT_SUPPORTED)), Ok(()));
    assert_eq!(come(Err(Status::ERR_NO_PERMISSIONS)), Err(Status::ERR_NO_PERMISSIONS));
    assert_eq!(come(Ok(Answer::Later)), Err(Status::ERR_TIMEOUT), "it does not answer");
}

/// A host that notes what it is asked.
struct NotingHost(mpsc::Sender<&'static str>);

impl NotingHost {
    fn note(&self, what: &'static str) -> Accepted {
        self.0.send(what).unwrap();
        Ok(Answer::Done)
    }
}

impl Host for NotingHost {
    fn client_connected(&self, _: &Proc, _: Completion<()>) -> Accepted {
        self.note("connected")
    }

    fn publish(&self, _: &Proc, _: &[Info], _: Completion<()>) -> Accepted {
        self.note("publish")
    }

    fn client_finalized(&self, _: &Proc, _: Completion<()>) -> Accepted {
        self.note("finalized")
    }
}

#[test]
fn the_host_hears_of_a_client_before_all_that_it_asks() {
    let (note, noted) = mpsc::channel();
    let server = server(NotingHost(note), ServerConfig::default(), 1);
    let address = peer::address(&server, &proc("job", 0));
    let mut eager = peer::dial(&address);
    let publish = Request::Forward(Forward::Publish { info: vec![Info::new("k", 1u32)] });
    // It does not wait for its welcome.
    for frame in [
        frame::encode(Kind::Hello, 0, 0, &hello(&address)),
        frame::encode(Kind::Request, 1, 0, &publish),
        frame::encode(Kind::Request, 2, 0, &Request::Finalize),
    ] {
        eager.write_all(&frame.unwrap()).unwrap();
    }
    let noted: Vec<&str> = (0..3).map(|_| noted.recv_timeout(Duration::from_secs(60)).unwrap()).collect();
    assert_eq!(noted, ["connected", "publish", "finalized"]);
}

/// A host that never answers clients that go.
struct SilentHost;

impl Host for SilentHost {
    fn client_finalized(&self, _: &Proc, _: Completion<()>) -> Accepted {
        Ok(Answer::Later)
    }
}

#[test]
fn who_goes_is_not_kept_for_ever() {
    let config = ServerConfig { host_farewell_deadline: Duration::from_millis(200), ..ServerConfig::default() };
    let server = server(SilentHost, config, 1);
    assert_eq!(Peer::connect(&server, &proc("job", 0)).unwrap().finalize(), OK);
}

#[test]
fn a_second_process_of_a_rank_may_look_and_is_no_second_participant() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let mut rank = job.peer(0);
    let mut clone = job.peer(0);
    rank.commit(Scope::GLOBAL, "k", 1u32);
    assert_eq!(clone.get(&job.proc(0), "k", &[]), Ok(Value::Uint32(1)));
    assert_eq!(clone.status(Request::Fence { procs: vec![], info: vec![] }), Status::ERR_NOT_SUPPORTED);
    assert_eq!(clone.finalize(), OK);
    assert_eq!(rank.status(Request::Fence { procs: vec![], info: vec![] }), OK);
    assert_eq!((cluster.world.count("connected"), cluster.world.count("finalized")), (1, 0));
}

#[test]
fn an_abort_is_passed_on_whatever_its_status() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let mut peer = job.peer(1);
    for status in [0, 7, -1] {
        let request = Request::Abort { status, message: Some(b"why".to_vec()), procs: vec![job.proc(0)] };
        assert_eq!(peer.status(request), OK);
        assert_eq!(cluster.world.count(&format!("abort job:1 {status} Some(\"why\") [job:0]")), 1);
    }
    let server = server(NoHost, ServerConfig::default(), 1);
    let mut peer = Peer::connect(&server, &proc("job", 0)).unwrap();
    let request = Request::Abort { status: 1, message: None, procs: vec![] };
    assert_eq!(peer.status(request), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn a_memory_limit_is_an_answer() {
    let limit = 1 << 20;
    let config = ServerConfig { memory_limit: Some(limit), ..ServerConfig::default() };
    let server = server(NoHost, config, 2);
    let mut peer = Peer::connect(&server, &proc("job", 0)).unwrap();
    let mut other = Peer::connect(&server, &proc("job", 1)).unwrap();
    assert_eq!(peer.commit(Scope::GLOBAL, "small", 1u32), OK);
    let waits = other.start_get(&proc("job", 0), "large", &[Info::new(keys::TIMEOUT, 0i32)]);
    assert!(!other.has_answer(waits));
    assert_eq!(peer.commit(Scope::GLOBAL, "large", vec![0u8; 2 << 20]), Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(other.got(waits), Err(Status::ERR_OUT_OF_RESOURCE), "whoever waits for it hears of it");
    let late = other.start_get(&proc("job", 0), "large", &[Info::new(keys::TIMEOUT, 0i32)]);
    assert_eq!(other.got(late), Err(Status::ERR_OUT_OF_RESOURCE), "whoever asks later, too");
    assert_eq!(peer.commit(Scope::GLOBAL, "large", vec![0u8; 2 << 10]), OK);
    assert_eq!(other.get(&proc("job", 0), "large", &[]), Ok(Value::from(vec![0u8; 2 << 10])), "until it is stored");
    assert_eq!(other.get(&proc("job", 0), "small", &[]), Ok(Value::Uint32(1)), "what was committed is there");
}

/// A host that notes what reaches it.
#[derive(Clone, Default)]
struct RecordingHost(Arc<Mutex<Vec<String>>>);

impl RecordingHost {
    fn say(&self, text: String) -> Accepted {
        self.0.lock().unwrap().push(text);
        Ok(Answer::Done)
    }
}

impl Host for RecordingHost {
    fn notify_event(&self, status: Status, source: &Proc, _: DataRange, _: &[Info], _: Completion<()>) -> Accepted {
        self.say(format!("event {} of {source}", status.0))
    }

    fn register_events(&self, codes: &[Status], _: &[Info], _: Completion<()>) -> Accepted {
        self.say(format!("watch {}", codes.iter().map(|code| code.0.to_string()).collect::<String>()))
    }

    fn deregister_events(&self, codes: &[Status], _: Completion<()>) -> Accepted {
        self.say(format!("forget {}", codes.iter().map(|code| code.0.to_string()).collect::<String>()))
    }

    fn job_control(&self, _: &Proc, _: &[Proc], directives: &[Info], done: Completion<Infos>) -> Accepted {
        let names: Vec<String> = directives.iter().map(|info| info.key.to_string()).collect();
        let _ = self.say(format!("control {names:?}"));
        done.complete(Ok((Status::ERR_NO_PERMISSIONS, vec![Info::new("why", "because")])));
        Ok(Answer::Later)
    }
}

/// A host that answers nothing about events before it is told to: what it was asked, and the ways back.
#[derive(Clone, Default)]
struct DeferringHost(RecordingHost, Arc<Mutex<Vec<Completion<()>>>>);

impl Host for DeferringHost {
    fn register_events(&self, codes: &[Status], info: &[Info], done: Completion<()>) -> Accepted {
        self.1.lock().unwrap().push(done);
        self.0.register_events(codes, info, Completion::new(|_| ())).map(|_| Answer::Later)
    }

    fn deregister_events(&self, codes: &[Status], done: Completion<()>) -> Accepted {
        self.1.lock().unwrap().push(done);
        self.0.deregister_events(codes, Completion::new(|_| ())).map(|_| Answer::Later)
    }
}

#[test]
fn a_host_that_does_not_answer_is_not_asked_for_ever() {
    let host = DeferringHost::default();
    let server = server(host.clone(), ServerConfig::default(), 1);
    let mut peer = Peer::connect(&server, &proc("job", 0)).unwrap();
    let codes = |code: u32| vec![Status(code as i32 + 1)];
    for turn in 0..200 {
        assert_eq!(peer.status(Request::RegisterEvents { codes: codes(turn), info: vec![] }), OK);
        if turn < 199 {
            assert_eq!(peer.status(Request::DeregisterEvents { codes: codes(turn) }), OK);
        }
    }
    let asked = host.1.lock().unwrap().len();
    assert!((1..200).contains(&asked), "{asked}");
    // Once it does, it hears how things are by then.
    while let Some(done) = { host.1.lock().unwrap().pop() } {
        done.complete(Ok(()));
        // Consequences of the answer are complete when this fence is.
        assert_eq!(peer.status(Request::Fence { procs: vec![], info: vec![] }), OK);
    }
    let notes = host.0.0.lock().unwrap();
    assert_eq!(notes.last().map(String::as_str), Some("watch 200"), "{notes:?}");
    let balance = notes.iter().map(|note| if note.starts_with("watch") { 1 } else { -1 }).sum::<i32>();
    assert_eq!(balance, 1, "{notes:?}");
}

#[test]
fn events_reach_whom_they_are_for() {
    let notes = RecordingHost::default();
    let server = server(notes.clone(), ServerConfig::default(), 3);
    let mut peers: Vec<Peer> = (0..3).map(|rank| Peer::connect(&server, &proc("job", rank)).unwrap()).collect();
    let register =
        |codes: &[i32]| Request::RegisterEvents { codes: codes.iter().copied().map(Status).collect(), info: vec![] };
    let notify =
        |status: i32, range: DataRange, info: Vec<Info>| Request::Notify { status: Status(status), range, info };
    assert_eq!(peers[0].status(register(&[-5000, 7])), OK);
    assert_eq!(peers[1].status(register(&[])), OK);
    assert_eq!(peers[2].status(register(&[-5000])), OK);
    assert_eq!(peers[2].status(notify(-5000, DataRange::NAMESPACE, vec![])), OK);
    let code = |push: Push| match push {
        Push::Event { status, source, .. } => (status.0, source),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(peers[0].push()), (-5000, proc("job", 2)));
    assert_eq!(code(peers[1].push()), (-5000, proc("job", 2)));

    let custom = Info::new(keys::EVENT_CUSTOM_RANGE, proc("job", 0));
    assert_eq!(peers[1].status(notify(7, DataRange::CUSTOM, vec![custom])), OK);
    assert_eq!(code(peers[0].push()), (7, proc("job", 1)));
    let non_default = vec![Info::new(keys::EVENT_NON_DEFAULT, true)];
    assert_eq!(peers[2].status(notify(-6000, DataRange::LOCAL, non_default)), OK);
    assert_eq!(peers[2].status(notify(-6001, DataRange::GLOBAL, vec![])), OK);
    assert_eq!(code(peers[1].push()).0, -6001, "not -6000, which is not for default handlers");

    let (told, tells) = mpsc::channel();
    let undefined = Proc::new(Nspace::new("").unwrap(), Rank::UNDEF);
    server
        .notify_event(Status(-5000), &undefined, DataRange::LOCAL, &[])
        .then(move |result| {
            told.send(result).unwrap();
        })
        .unwrap();
    assert_eq!(tells.recv().unwrap(), Ok(()));
    for peer in &mut peers {
        assert_eq!(code(peer.push()), (-5000, undefined.clone()));
    }
    // An event that another server of this namespace or this one has raised, and the host passes on, is delivered here
    // and goes no further.
    let own = server.proc();
    for source in [Proc::new(own.nspace.clone(), Rank(own.rank.0 + 1)), own] {
        let (told, tells) = mpsc::channel();
        let info = [Info::new(keys::EVENT_PROXY, source.clone())];
        let done = move |result| told.send(result).unwrap();
        server.notify_event(Status(-6002), &source, DataRange::GLOBAL, &info).then(done).unwrap();
        assert_eq!(tells.recv().unwrap(), Ok(()));
    }
    assert_eq!(code(peers[1].push()).0, -6002);
    let bad = Request::Notify { status: Status(1), range: DataRange::PROC_LOCAL, info: vec![] };
    assert_eq!(peers[0].status(bad), Status::ERR_BAD_PARAM);

    let codes = vec![Status(-5000)];
    assert_eq!(peers[0].status(Request::DeregisterEvents { codes: codes.clone() }), OK);
    assert_eq!(peers[2].status(Request::DeregisterEvents { codes }), OK);
    let notes = notes.0.lock().unwrap();
    assert_eq!(*notes, ["watch -50007", "event -6001 of job:2", "forget -5000"]);
}

#[test]
fn an_event_beyond_the_node_needs_a_host_that_carries_it() {
    let server = server(NoHost, ServerConfig::default(), 2);
    let mut peers: Vec<Peer> = (0..2).map(|rank| Peer::connect(&server, &proc("job", rank)).unwrap()).collect();
    assert_eq!(peers[0].status(Request::RegisterEvents { codes: vec![Status(-5000)], info: vec![] }), OK);
    let (own, code) = (server.proc(), Status(-5000));
    let by_server = |range| server.notify_event(code, &own, range, &[]).wait();
    assert_eq!(by_server(DataRange::GLOBAL), Err(Status::ERR_NOT_SUPPORTED));
    assert_eq!(by_server(DataRange::LOCAL), Ok(()));
    // Of a process's event, being heard by somebody is enough.
    let by_peer = |status| Request::Notify { status, range: DataRange::GLOBAL, info: vec![] };
    assert_eq!(peers[1].status(by_peer(Status(-5001))), Status::ERR_NOT_SUPPORTED);
    assert_eq!(peers[1].status(by_peer(code)), OK);
    let sources = [0; 3].map(|_| match peers[0].push() {
        Push::Event { source, .. } => source,
        other => panic!("{other:?}"),
    });
    assert_eq!(sources, [own.clone(), own, proc("job", 1)], "the node's own are told in any case");
}

#[test]
fn what_is_no_clean_up_is_the_hosts() {
    let notes = RecordingHost::default();
    let server = server(notes.clone(), ServerConfig::default(), 1);
    let mut peer = Peer::connect(&server, &proc("job", 0)).unwrap();
    let control = |directives: Vec<Info>| Request::JobControl { targets: vec![], directives };
    let clean_up = Info::new(keys::REGISTER_CLEANUP, "/nonexistent/file");
    assert_eq!(peer.status(control(vec![clean_up.clone()])), OK);
    let kill = Info::new(keys::JOB_CTRL_KILL, true);
    let reply = peer.ask(control(vec![clean_up, kill]));
    assert_eq!(reply, Reply::Infos(Status::ERR_NO_PERMISSIONS, vec![Info::new("why", "because")]));
    assert_eq!(*notes.0.lock().unwrap(), ["control [\"pmix.jctrl.kill\", \"pmix.euid\", \"pmix.egid\"]"]);
    let relative = Info::new(keys::REGISTER_CLEANUP, "file");
    assert_eq!(peer.status(control(vec![relative])), Status::ERR_BAD_PARAM);
}

#[test]
fn blocking_calls_are_refused_where_they_would_never_return() {
    let server = Arc::new(server(NoHost, ServerConfig::default(), 1));
    let (sender, receiver) = mpsc::channel();
    let inside = server.clone();
    server
        .register_client(&proc("job", 0), 0, 0)
        .then(move |_| {
            sender.send(inside.get(&proc("job", 0), "k", &[]).wait()).unwrap();
        })
        .unwrap();
    assert_eq!(receiver.recv().unwrap(), Err(Status::ERR_WOULD_BLOCK));
}

/// The system call behind epoll_wait: processors that came late have only the one that takes signals too.
#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
const EPOLL_WAIT: nix::libc::c_long = nix::libc::SYS_epoll_wait;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const EPOLL_WAIT: nix::libc::c_long = nix::libc::SYS_epoll_pwait;

#[test]
fn a_server_with_nothing_to_do_does_nothing() {
    crate::death::alone("jobs::idle");
}

#[test]
#[ignore = "run in a process of its own"]
fn idle() {
    let server = server(NoHost, ServerConfig::default(), 2);
    let mut peers: Vec<Peer> = (0..2).map(|rank| Peer::connect(&server, &proc("job", rank)).unwrap()).collect();
    let number = peers[0].start_fence(&[], &[]);
    assert!(!peers[0].has_answer(number));
    // All that it was asked lies before the answer to this.
    assert_eq!(peers[0].commit(Scope::GLOBAL, "k", 1u32), OK);
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_servers = |path: &std::path::PathBuf| std::fs::read_to_string(path.join("comm")).unwrap() == "instanton\n";
    let thread = threads.into_iter().find(is_servers).unwrap();
    let read = |file: &str| std::fs::read_to_string(thread.join(file)).unwrap();
    // It may still be on its way there, or wait until a connection that took much time has its turn again: the fourth
    // argument of the system call is the limit, -1 for none.
    let call = format!("{EPOLL_WAIT} ");
    let has_no_limit = |limit: &str| u64::from_str_radix(limit.trim_start_matches("0x"), 16).unwrap() as i32 == -1;
    let waits = |line: &str| line.starts_with(&call) && has_no_limit(line.split(' ').nth(4).unwrap());
    let (_never, window) = mpsc::channel::<()>();
    let since = Instant::now();
    while !waits(&read("syscall")) {
        assert!(since.elapsed() < Duration::from_secs(60), "it always plans to wake");
        let _ = window.recv_timeout(Duration::from_millis(1));
    }
    // Time on a processor, time waiting for one, and how often.
    let before = read("schedstat");
    let _ = window.recv_timeout(Duration::from_millis(500));
    assert_eq!(read("schedstat"), before);
}

#[test]
fn what_waits_ends_with_the_server() {
    let server = server(NoHost, ServerConfig::default(), 2);
    let mut peer = Peer::connect(&server, &proc("job", 0)).unwrap();
    let number = peer.start_fence(&[], &[]);
    assert!(!peer.has_answer(number));
    let (tell, told) = mpsc::channel();
    let for_ever = [Info::new(keys::TIMEOUT, 0i32)];
    server.get(&proc("job", 1), "k", &for_ever).then(move |result| tell.send(result).unwrap()).unwrap();
    server.finalize();
    assert_eq!(told.recv().unwrap(), Err(Status::ERR_NOT_FOUND));
    assert_eq!(peer.stream.read(&mut [0; 1]).unwrap_or(0), 0, "the connection has ended");
}
