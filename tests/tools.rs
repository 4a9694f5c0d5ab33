//! Tools: their admission and names, their turning from server to server, and what is left when either side is killed.
mod processes;
mod tool_servers;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use instanton::client::Notice;
use instanton::data::{
    App, Channels, DataRange, Info, InfoList, Key, Nspace, Proc, Query, Rank, Scope, Status, Text, Value, keys,
};
use instanton::internal::control::rendezvous::{self, Uri};
use instanton::server::{Server, ServerConfig, ToolSupport};
use instanton::tool::Tool;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket};
use processes::{Job, start_alone};
use tool_servers::{PATIENCE, RecordingHost, at, server, server_of};

fn named(name: &str, rank: u32) -> [Info; 2] {
    [Info::new(keys::TOOL_NSPACE, name), Info::new(keys::TOOL_RANK, rank)]
}

fn refusal(info: &[Info]) -> Status {
    Tool::init(info).unwrap_err().status()
}

fn namespaces(tool: &Tool) -> Value {
    let query = Query { keys: vec![Text::new(keys::QUERY_NAMESPACES).unwrap()], qualifiers: Vec::new() };
    let (status, infos) = tool.primary().query(&[query]).wait().unwrap();
    assert_eq!(status, Status::SUCCESS);
    infos[0].value.clone()
}

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("server") => {
            let (server, _) = server("killed@0");
            println!("\nready {}", server.uri().unwrap());
            std::io::stdout().flush().unwrap();
            thread::park();
        }
        Some("tool") => {
            let uri = std::env::var("URI").unwrap();
            let tool = Tool::init(&[Info::new(keys::SERVER_URI, uri.as_str())]).unwrap();
            println!("\nready {}", tool.proc());
            std::io::stdout().flush().unwrap();
            thread::park();
        }
        Some("daemon") => {
            nix::unistd::close(0).unwrap();
            let uri = std::env::var("URI").unwrap();
            let tool = Tool::init(&[Info::new(keys::SERVER_URI, uri.as_str())]).unwrap();
            let first = std::fs::read_link("/proc/self/fd/0");
            assert!(first.is_err() || !first.unwrap().to_string_lossy().starts_with("socket:"));
            tool.finalize(&[]).unwrap();
        }
        Some(other) => panic!("no such role: {other}"),
    }
}

/// Returns the line that a process prints when it is ready.
fn ready(process: &mut Child) -> String {
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("ready ").map(str::to_owned));
    said.expect("it says that it is ready")
}

#[test]
fn a_tool_tries_again_as_often_as_it_is_told_to() {
    let file = std::env::temp_dir().join(format!("instanton-late-{}", std::process::id()));
    let late = Info::new(keys::TOOL_ATTACHMENT_FILE, file.to_str().unwrap());
    let times = |times| [late.clone(), Info::new(keys::CONNECT_MAX_RETRIES, times), retry_at_once()];
    assert_eq!(refusal(&times(3)), Status::ERR_UNREACH);
    let patient = times(u32::MAX);
    let tool = thread::spawn(move || Tool::init(&patient).unwrap());
    let (server, _) = server("late@0");
    let whole = file.with_extension("whole");
    std::fs::write(&whole, server.uri().unwrap().to_string()).unwrap();
    std::fs::rename(whole, &file).unwrap();
    assert_eq!(tool.join().unwrap().servers(), [server.proc()]);
    std::fs::remove_file(file).unwrap();
}

fn retry_at_once() -> Info {
    Info::new(keys::CONNECT_RETRY_DELAY, 0u32)
}

#[test]
fn what_contradicts_a_tools_first_init_is_refused() {
    let ((server, _), (other, _)) = (server("first@0"), self::server("second@0"));
    let tool = Tool::init(&[at(&server)]).unwrap();
    let check = |info: &[Info]| Tool::check(Some(&tool), info).map_err(|error| error.status());
    assert_eq!((check(&[]), check(&[at(&server)]), check(&[retry_at_once()])), (Ok(()), Ok(()), Ok(())));
    assert_eq!(check(&[at(&other)]), Err(Status::ERR_BAD_PARAM));
    assert_eq!(check(&[Info::new("site.wish", true).required()]), Err(Status::ERR_NOT_SUPPORTED));
}

#[test]
fn a_tool_is_a_job_of_its_own_and_sees_those_of_the_server() {
    let (server, host) = server("own@0");
    let job = Job::register(&server, "seen@1", 3);
    let tool = Tool::init(&[at(&server)]).unwrap();
    let client = tool.primary();
    let me = tool.proc().clone();
    assert_eq!(me, Proc::new(Nspace::new("own@0.tool.1").unwrap(), Rank(0)));
    assert_eq!((tool.servers(), tool.is_connected()), (vec![server.proc()], true));
    assert_eq!(namespaces(&tool), Value::string("seen@1"));
    let whole = Proc::new(job.nspace.clone(), Rank::WILDCARD);
    assert_eq!(client.get(&whole, keys::JOB_SIZE, &[]).unwrap(), Value::Uint32(3));
    assert_eq!(client.get(&job.proc(2), keys::LOCAL_RANK, &[]).unwrap(), Value::Uint16(2));
    // As in a job of one process.
    let own = Proc::new(me.nspace.clone(), Rank::WILDCARD);
    assert_eq!(client.get(&own, keys::JOB_SIZE, &[]).unwrap(), Value::Uint32(1));
    assert_eq!(client.get(&own, keys::LOCAL_SIZE, &[]).unwrap(), Value::Uint32(1));
    assert_eq!(client.get(&own, keys::LOCAL_PEERS, &[]).unwrap(), Value::string("0"));
    client.put(Scope::GLOBAL, "k", Value::Int(7)).unwrap();
    client.commit().unwrap();
    client.fence(&[], &[]).wait().unwrap();
    assert_eq!(server.get(&me, "k", &[]).wait().unwrap(), Value::Int(7));

    let told = host.connected.lock().unwrap()[0].clone();
    let uid = nix::unistd::geteuid().as_raw();
    assert_eq!(told.find(keys::USERID).unwrap().value, Value::Uint32(uid));
    assert_eq!(told.find(keys::PROC_PID).unwrap().value, Value::Pid(std::process::id() as i32));
    tool.finalize(&[]).unwrap();
    assert_eq!(*host.finalized.lock().unwrap(), std::slice::from_ref(&me));
    // Its namespace goes with it.
    assert_eq!(server.get(&own, keys::JOB_SIZE, &[]).wait(), Err(Status::ERR_NOT_FOUND));
}

#[test]
fn the_host_names_its_tools_or_refuses_them() {
    let name = Proc::new(Nspace::new("given").unwrap(), Rank(0));
    let host = Arc::new(RecordingHost { names: Some(Ok(name.clone())), ..RecordingHost::default() });
    let server = server_of("naming@0", Some(ToolSupport::default()), host.clone());
    let hint = Info::new(keys::FWD_STDOUT, true);
    let tool = Tool::init(&[at(&server), hint.clone()]).unwrap();
    assert_eq!(*tool.proc(), name);
    assert_eq!(host.connected.lock().unwrap()[0].find(keys::FWD_STDOUT), Some(&hint));
    assert_eq!(refusal(&[at(&server)]), Status::ERR_EXISTS, "two of one name");
    tool.finalize(&[]).unwrap();

    let host = Arc::new(RecordingHost { names: Some(Err(Status::ERR_NO_PERMISSIONS)), ..RecordingHost::default() });
    let server = server_of("refusing@0", Some(ToolSupport::default()), host);
    assert_eq!(refusal(&[at(&server)]), Status::ERR_NO_PERMISSIONS);
    let optional = Info::new(keys::TOOL_CONNECT_OPTIONAL, true);
    let tool = Tool::init(&[at(&server), optional]).unwrap();
    assert!(!tool.is_connected() && tool.servers().is_empty());
    tool.finalize(&[]).unwrap();
}

#[test]
fn a_name_is_taken_once_and_never_from_a_job() {
    let (server, _) = server("names@0");
    let _job = Job::register(&server, "taken@1", 2);
    let with = |name: &str, rank| [&[at(&server)], &named(name, rank)[..]].concat();
    let first = Tool::init(&with("set", 1)).unwrap();
    let second = Tool::init(&with("set", 3)).unwrap();
    let third = Tool::init(&with("set", 0)).unwrap();
    assert_eq!((first.proc().rank, second.proc().rank, third.proc().rank), (Rank(1), Rank(3), Rank(0)));
    // Of all for whom there is room, those are here who have come.
    let all = Proc::new(third.proc().nspace.clone(), Rank::WILDCARD);
    assert_eq!(third.primary().get(&all, keys::LOCAL_PEERS, &[]).unwrap(), Value::string("0,1,3"));
    assert_eq!(refusal(&with("set", 3)), Status::ERR_EXISTS);
    assert_eq!(refusal(&with("taken@1", 0)), Status::ERR_NO_PERMISSIONS);
    assert_eq!(refusal(&with("taken@1", 9)), Status::ERR_NO_PERMISSIONS);
    assert_eq!(refusal(&with("set", u32::MAX)), Status::ERR_BAD_PARAM);
    assert_eq!(refusal(&with("huge", 1 << 24)), Status::ERR_BAD_PARAM);
    second.finalize(&[]).unwrap();
    Tool::init(&with("set", 3)).expect("its place is free again");
}

#[test]
fn a_job_takes_its_name_back_from_a_tool_that_the_host_did_not_name() {
    let (server, host) = server("takes-back@0");
    let (tell, lost) = mpsc::channel();
    *host.lost.lock().unwrap() = Some(tell);
    let with = |name: &str| [&[at(&server)], &named(name, 5)[..]].concat();
    let (thief, other) = (Tool::init(&with("later@1")).unwrap(), Tool::init(&with("mine")).unwrap());
    let job = Job::register(&server, "later@1", 2);
    assert_eq!(lost.recv_timeout(PATIENCE).unwrap().0, *thief.proc());
    assert_eq!(thief.primary().fence(&[], &[]).wait().unwrap_err().status(), Status::ERR_LOST_CONNECTION);
    let size = || server.get(&Proc::new(job.nspace.clone(), Rank::WILDCARD), keys::JOB_SIZE, &[]).wait();
    assert_eq!(size(), Ok(Value::Uint32(2)));
    assert_eq!(refusal(&with("later@1")), Status::ERR_NO_PERMISSIONS);
    assert!(other.is_connected());
    other.finalize(&[]).unwrap();
    assert_eq!(size(), Ok(Value::Uint32(2)));

    // One that the host has agreed to is the host's own.
    let name = Proc::new(Nspace::new("agreed").unwrap(), Rank(0));
    let host = Arc::new(RecordingHost { names: Some(Ok(name.clone())), ..RecordingHost::default() });
    let server = server_of("agrees@0", Some(ToolSupport::default()), host);
    let tool = Tool::init(&[at(&server)]).unwrap();
    server.register_nspace(&name.nspace, 1, &[Info::new(keys::JOB_SIZE, 1u32)]).wait().unwrap();
    tool.primary().fence(&[], &[]).wait().unwrap();
    tool.finalize(&[]).unwrap();
}

#[test]
fn two_servers_without_names_are_told_apart() {
    let default = |pid| {
        let tools = Some(ToolSupport { pid: Some(pid), ..ToolSupport::default() });
        Server::start(ServerConfig { tools, ..ServerConfig::default() }, Arc::<RecordingHost>::default()).unwrap()
    };
    let (a, b) = (default(i32::MAX - 2), default(i32::MAX - 3));
    assert_ne!(a.proc(), b.proc());
    let tool = Tool::init(&[at(&a)]).unwrap();
    assert_eq!(tool.attach(&[at(&b)]).unwrap(), b.proc());
    assert_eq!(tool.servers(), [a.proc(), b.proc()]);
    tool.finalize(&[]).unwrap();
}

#[test]
fn a_server_that_was_not_asked_to_accepts_no_tools_and_is_not_found() {
    let quiet = server_of("quiet@0", None, Arc::default());
    assert!(quiet.uri().is_none());
    // By the socket of its jobs, which every process of a job can name.
    let job = Job::register(&quiet, "job@1", 1);
    let mut env: Vec<(std::ffi::OsString, std::ffi::OsString)> = Vec::new();
    quiet.setup_fork(&job.proc(0), &mut env).unwrap();
    let (_, address) = env.iter().find(|(name, _)| name == "INSTANTON_SERVER").unwrap();
    let address: instanton::client::Address = address.to_str().unwrap().parse().unwrap();
    let uri = Uri { server: quiet.proc(), name: address.abstract_name };
    assert_eq!(refusal(&[Info::new(keys::SERVER_URI, uri.to_string().as_str())]), Status::ERR_NOT_SUPPORTED);
    assert_eq!(refusal(&[Info::new(keys::SERVER_NSPACE, "quiet@0")]), Status::ERR_UNREACH);
    assert_eq!(refusal(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(i32::MAX))]), Status::ERR_UNREACH);
}

#[test]
fn servers_are_found_by_name_by_process_and_as_the_systems() {
    let support = ToolSupport { is_system: true, pid: Some(i32::MAX - 1), ..ToolSupport::default() };
    let system = server_of("system@0", Some(support), Arc::default());
    let (other, _) = server("other@0");
    let found = |info: Info| {
        let tool = Tool::init(&[info]).unwrap();
        let servers = tool.servers();
        tool.finalize(&[]).unwrap();
        servers
    };
    assert_eq!(found(Info::new(keys::SERVER_NSPACE, "other@0")), [other.proc()]);
    assert_eq!(found(Info::new(keys::CONNECT_TO_SYSTEM, true)), [system.proc()]);
    assert_eq!(found(Info::new(keys::CONNECT_SYSTEM_FIRST, true)), [system.proc()]);
    assert_eq!(found(Info::new(keys::SERVER_PIDINFO, Value::Pid(i32::MAX - 1))), [system.proc()]);
    // A name in an address that is another's.
    let wrong = Uri { server: system.proc(), ..other.uri().unwrap().clone() };
    assert_eq!(refusal(&[Info::new(keys::SERVER_URI, wrong.to_string().as_str())]), Status::ERR_NOT_FOUND);
    let file = std::env::temp_dir().join(format!("instanton-tool-test-{}", std::process::id()));
    std::fs::write(&file, format!("{}\nmore\n", other.uri().unwrap())).unwrap();
    let path = file.to_str().unwrap();
    assert_eq!(found(Info::new(keys::TOOL_ATTACHMENT_FILE, path)), [other.proc()]);
    assert_eq!(found(Info::new(keys::SERVER_URI, format!("file:{path}").as_str())), [other.proc()]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(refusal(&[Info::new(keys::TOOL_ATTACHMENT_FILE, path)]), Status::ERR_UNREACH);
}

/// Sockets that are called as those of a server with that process, and as full as they want to be.
fn full_doors(pid: i32) -> Vec<OwnedFd> {
    let of = |number: u32| {
        let name = format!("instanton-tools-{pid}-full@0.{number}-{:032}", std::process::id());
        let address = UnixAddr::new_abstract(name.as_bytes()).unwrap();
        let made = |flags| socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
        let door = made(SockFlag::SOCK_CLOEXEC);
        bind(door.as_raw_fd(), &address).unwrap();
        listen(&door, Backlog::new(0).unwrap()).unwrap();
        let mut held = vec![door];
        let waits = loop {
            let caller = made(SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK);
            let waits = connect(caller.as_raw_fd(), &address);
            held.push(caller);
            if waits.is_err() {
                break waits;
            }
        };
        assert_eq!(waits, Err(Errno::EAGAIN));
        held
    };
    (0..20).flat_map(of).collect()
}

#[test]
fn who_has_callers_wait_under_a_servers_name_keeps_no_tool_from_its_server_or_beyond_its_limit() {
    let pid = i32::MAX - 2;
    let doors = full_doors(pid);
    let by_process = Info::new(keys::SERVER_PIDINFO, Value::Pid(pid));
    let begin = Instant::now();
    assert_eq!(refusal(&[by_process.clone(), Info::new(keys::TIMEOUT, 1)]), Status::ERR_TIMEOUT);
    assert_eq!(refusal(std::slice::from_ref(&by_process)), Status::ERR_TIMEOUT);
    assert!(begin.elapsed() < PATIENCE / 4, "{:?}", begin.elapsed());
    let support = ToolSupport { pid: Some(pid), ..ToolSupport::default() };
    let server = server_of("free@0", Some(support), Arc::default());
    let begin = Instant::now();
    let tool = Tool::init(&[by_process, Info::new(keys::TIMEOUT, PATIENCE.as_secs() as u32)]).unwrap();
    assert_eq!(tool.servers(), [server.proc()]);
    assert!(begin.elapsed() < PATIENCE / 4, "{:?}", begin.elapsed());
    tool.finalize(&[]).unwrap();
    drop(doors);
}

#[test]
fn a_tool_turns_from_server_to_server_and_keeps_what_is_its_own() {
    let (a, _) = server("a@0");
    let (b, _) = server("b@0");
    Job::register(&a, "of-a@1", 1);
    Job::register(&b, "of-b@1", 1);
    let tool = Tool::init(&[Info::new(keys::TOOL_DO_NOT_CONNECT, true)]).unwrap();
    let me = tool.proc().clone();
    assert!(!tool.is_connected() && me.nspace.to_string().starts_with("tool."));
    let key = Key::new("mine").unwrap();
    tool.primary().store_internal(&me, key, Value::Int(1)).unwrap();
    const CODE: Status = Status(-7000);
    let (tell, told) = mpsc::channel();
    let handler = Arc::new(move |notice: Notice, _| drop(tell.send(notice.source)));
    let client = tool.primary();
    client.register_event_handler(&[CODE], &[], handler).wait().unwrap();

    assert_eq!(tool.attach(&[]).unwrap_err().status(), Status::ERR_BAD_PARAM, "no server is named");
    assert_eq!(tool.set_server(&a.proc(), &[]).unwrap_err().status(), Status::ERR_UNREACH);
    assert_eq!(tool.attach(&[at(&a)]).unwrap(), a.proc());
    assert!(!tool.is_connected(), "it is not the primary server");
    assert_eq!(tool.attach(&[at(&b), Info::new(keys::PRIMARY_SERVER, true)]).unwrap(), b.proc());
    assert_eq!((tool.servers(), tool.is_connected()), (vec![b.proc(), a.proc()], true));
    assert_eq!(namespaces(&tool), Value::string("of-b@1"));
    tool.set_server(&a.proc(), &[]).unwrap();
    assert_eq!((tool.servers(), namespaces(&tool)), (vec![a.proc(), b.proc()], Value::string("of-a@1")));
    assert_eq!((tool.primary().proc(), tool.proc()), (&me, &me), "it keeps its name");
    assert_eq!(tool.primary().get(&me, "mine", &[]).unwrap(), Value::Int(1));
    assert_eq!(tool.attach(&[at(&b)]).unwrap_err().status(), Status::ERR_EXISTS, "once is enough");

    // Both servers' events reach the handler that was there before either. A request that comes after the registration is
    // answered after it.
    for server in [&a, &b] {
        tool.set_server(&server.proc(), &[]).unwrap();
        namespaces(&tool);
        server.notify_event(CODE, &server.proc(), DataRange::LOCAL, &[]).then(|_| ()).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), server.proc());
    }

    tool.disconnect(&b.proc()).unwrap();
    assert_eq!((tool.servers(), tool.is_connected()), (vec![a.proc()], false));
    assert_eq!(tool.disconnect(&b.proc()).unwrap_err().status(), Status::ERR_NOT_FOUND);
    assert_eq!(tool.primary().get(&me, "mine", &[]).unwrap(), Value::Int(1));
    // Another thread attaches while this one waits for it.
    let waits = [Info::new(keys::WAIT_FOR_CONNECTION, true), Info::new(keys::TIMEOUT, 60)];
    thread::scope(|scope| {
        let waiting = scope.spawn(|| tool.set_server(&b.proc(), &waits));
        tool.attach(&[at(&b)]).unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert!(tool.is_connected());
    tool.finalize(&[]).unwrap();
    assert!(!tool.is_connected() && tool.servers().is_empty());
}

#[test]
fn output_reaches_the_tool_that_asks_for_it() {
    let (server, _) = server("output@0");
    let job = Job::register(&server, "talks@1", 2);
    let tool = Tool::init(&[at(&server)]).unwrap();
    let client = tool.primary();
    let (tell, told) = mpsc::channel();
    let handler = Arc::new(move |output: instanton::client::Output| drop(tell.send(output)));
    let whole = Proc::new(job.nspace.clone(), Rank::WILDCARD);
    let channel = Channels::STDOUT;
    let pull = client.iof_pull(&[whole], channel, &[], handler).wait().unwrap();
    server.iof_deliver(&job.proc(1), Channels::STDERR, b"not this", &[]).then(|_| ()).unwrap();
    server.iof_deliver(&job.proc(1), channel, b"hello", &[]).then(|_| ()).unwrap();
    let output = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((output.pull, output.source, &output.bytes[..]), (pull, job.proc(1), &b"hello"[..]));
    client.iof_deregister(pull).wait().unwrap();
    tool.finalize(&[]).unwrap();
}

#[test]
fn a_tool_that_starts_a_job_says_that_it_is_one() {
    let (server, host) = server("spawns@0");
    let tool = Tool::init(&[at(&server)]).unwrap();
    let cmd = Text::new("prog").unwrap();
    let app = App { cmd: Some(cmd), argv: vec![], env: vec![], cwd: None, maxprocs: 1, info: vec![] };
    // A tool's own word about its kind does not count.
    let lie = Info::new(keys::REQUESTOR_IS_CLIENT, true);
    assert_eq!(tool.primary().spawn(&[lie], &[app]).wait().unwrap().to_string(), "child@1");
    let told = host.spawned.lock().unwrap().clone();
    assert!(told.is_set(keys::REQUESTOR_IS_TOOL) && told.find(keys::REQUESTOR_IS_CLIENT).is_none());
    assert_eq!(told.find(keys::PARENT_ID).unwrap().value, Value::Proc(tool.proc().clone()));
    tool.finalize(&[]).unwrap();
}

#[test]
fn a_source_of_input_that_the_host_stops_waits_until_it_may_go_on() {
    let (server, host) = server("input@0");
    let job = Job::register(&server, "reads@1", 1);
    let (one, two) = (Tool::init(&[at(&server)]).unwrap(), Tool::init(&[at(&server)]).unwrap());
    let pushed = || host.pushed.lock().unwrap().concat();
    let (tell, told) = mpsc::channel();
    let push = |tool: &Tool, bytes: &[u8]| {
        let tell = tell.clone();
        let targets = [job.proc(0)];
        tool.primary().iof_push(&targets, bytes, &[]).then(move |result| tell.send(result.is_ok()).unwrap()).unwrap();
    };
    push(&one, b"a");
    assert!(told.recv_timeout(PATIENCE).unwrap(), "what the host has taken has not failed");
    push(&one, b"b");
    push(&one, b"c");
    // Answered after what came before it on the same connection.
    namespaces(&one);
    assert_eq!(pushed(), b"a");
    push(&two, b"x");
    assert!(told.recv_timeout(PATIENCE).unwrap(), "others go on");
    assert_eq!(pushed(), b"ax");
    let stdin = Channels::STDIN;
    server.iof_flow_control(two.proc(), stdin, false).wait().unwrap();
    assert_eq!(pushed(), b"ax", "that was the other one");
    server.iof_flow_control(one.proc(), stdin, false).wait().unwrap();
    assert!(told.recv_timeout(PATIENCE).unwrap() && told.recv_timeout(PATIENCE).unwrap());
    assert_eq!(pushed(), b"axbc");
    // Everybody, and one of them goes before it may go on.
    let everybody = Proc::new(Nspace::new("").unwrap(), Rank::WILDCARD);
    server.iof_flow_control(&everybody, stdin, true).wait().unwrap();
    push(&one, b"d");
    push(&two, b"y");
    namespaces(&one);
    namespaces(&two);
    two.finalize(&[]).unwrap();
    server.iof_flow_control(&everybody, stdin, false).wait().unwrap();
    namespaces(&one);
    assert_eq!(pushed(), b"axbcd");
    let status = server.iof_flow_control(&everybody, Channels::STDOUT, true).wait();
    assert_eq!(status, Err(Status::ERR_NOT_SUPPORTED));
    one.finalize(&[]).unwrap();
    // One that comes in the place of another that was stopped, was not.
    let of_one_name = || Tool::init(&[&[at(&server)][..], &named("pushes", 0)].concat()).unwrap();
    let stopped = of_one_name();
    server.iof_flow_control(stopped.proc(), stdin, true).wait().unwrap();
    stopped.finalize(&[]).unwrap();
    let again = of_one_name();
    push(&again, b"z");
    namespaces(&again);
    assert_eq!(pushed(), b"axbcdz");
    again.finalize(&[]).unwrap();
}

#[test]
fn a_tool_that_is_killed_is_gone_at_once_and_leaves_nothing() {
    let (server, host) = server("survives@0");
    let (tell, lost) = mpsc::channel();
    *host.lost.lock().unwrap() = Some(tell);
    let uri = server.uri().unwrap().to_string();
    for round in 1..=3 {
        let mut tool = start_alone("tool", &[("URI", &uri)]);
        let name = ready(&mut tool);
        tool.kill().unwrap();
        let (proc, status) = lost.recv_timeout(PATIENCE).unwrap();
        assert_eq!((proc.to_string(), proc.nspace.to_string()), (name, format!("survives@0.tool.{round}")));
        assert!([Status::ERR_LOST_CONNECTION, Status::ERR_PROC_TERM_WO_SYNC].contains(&status), "{status}");
        let own = Proc::new(proc.nspace, Rank::WILDCARD);
        assert_eq!(server.get(&own, keys::JOB_SIZE, &[]).wait(), Err(Status::ERR_NOT_FOUND));
        tool.wait().unwrap();
    }
}

#[test]
fn a_connection_takes_no_place_of_a_stream_that_is_closed() {
    let (server, _) = server("daemons@0");
    let uri = server.uri().unwrap().to_string();
    let mut daemon = start_alone("daemon", &[("URI", &uri)]);
    std::io::copy(&mut daemon.stdout.take().unwrap(), &mut std::io::sink()).unwrap();
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn a_tool_leaves_a_server_that_is_stopped() {
    let mut server = start_alone("server", &[]);
    let uri = ready(&mut server);
    let at = [Info::new(keys::SERVER_URI, uri.as_str())];
    let (leaves, turns) = (Tool::init(&at).unwrap(), Tool::init(&at).unwrap());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(server.id() as i32), nix::sys::signal::Signal::SIGSTOP).unwrap();
    // A tool that looks for it by its process hears that it is there.
    let by_process = Info::new(keys::SERVER_PIDINFO, Value::Pid(server.id() as i32));
    assert_eq!(refusal(&[by_process, Info::new(keys::TIMEOUT, 1)]), Status::ERR_TIMEOUT);
    thread::scope(|scope| {
        let turned = scope.spawn(|| turns.disconnect(&turns.servers()[0]).unwrap_err().status());
        assert_eq!(leaves.finalize(&[]).unwrap_err().status(), Status::ERR_TIMEOUT);
        assert_eq!(turned.join().unwrap(), Status::ERR_TIMEOUT);
    });
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_server_that_is_killed_is_lost_to_its_tools_and_found_no_more() {
    let mut server = start_alone("server", &[]);
    let uri = ready(&mut server);
    let pid = server.id() as i32;
    let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(pid))]).unwrap();
    assert_eq!(tool.servers()[0].nspace.to_string(), "killed@0");
    let (tell, told) = mpsc::channel();
    let handler = Arc::new(move |notice: Notice, _| drop(tell.send((notice.status, notice.source))));
    let client = tool.primary();
    client.register_event_handler(&[], &[], handler).wait().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let lost = tool.servers().first().cloned();
    let (status, source) = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((status, source.nspace.to_string().as_str()), (Status::ERR_LOST_CONNECTION, "killed@0"));
    assert!(!tool.is_connected() && tool.servers().is_empty(), "{lost:?}");
    assert_eq!(client.fence(&[], &[]).wait().unwrap_err().status(), Status::ERR_LOST_CONNECTION);
    assert!(rendezvous::servers().unwrap().iter().all(|server| server.pid != pid));
    assert_eq!(refusal(&[Info::new(keys::SERVER_URI, uri.as_str())]), Status::ERR_UNREACH);
    // It goes on with another one.
    let (next, _) = self::server("next@0");
    tool.attach(&[at(&next), Info::new(keys::PRIMARY_SERVER, true)]).unwrap();
    assert_eq!(tool.servers(), [next.proc()]);
    tool.finalize(&[]).unwrap();
}
