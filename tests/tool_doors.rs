//! Tools at the two doors of a server, byte for byte: the native one and that of stock libraries let in the same.
mod processes;
mod tool_servers;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use instanton::data::{Info, Nspace, Proc, Rank, Status, Value, keys};
use instanton::internal::control::frame::{self, HEADER, Header, Kind, MAX_BODY};
use instanton::internal::control::handshake::{Attach, Welcome};
use instanton::internal::control::rendezvous::Uri;
use instanton::internal::message::Request;
use instanton::server::{Server, ToolSupport};
use instanton::tool::Tool;
use processes::Job;
use tool_servers::{PATIENCE, at, server, server_of};

fn dial(uri: &Uri) -> UnixStream {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(&uri.name).unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Says something, and reads the answer; none where the connection ends.
fn greet(stream: &mut UnixStream, bytes: &[u8]) -> Option<Welcome> {
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut header = [0; HEADER];
    stream.read_exact(&mut header).ok()?;
    let header = Header::parse(&header, MAX_BODY).unwrap();
    let mut body = vec![0; header.body];
    stream.read_exact(&mut body).ok()?;
    Some(frame::decode(Kind::Welcome, &body).unwrap())
}

/// A thread of another user. Only root can be one.
#[test]
fn other_users_are_let_in_only_where_the_server_leaves_them_to_its_host() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let knock = |server: &Server| {
        let uri = server.uri().unwrap().clone();
        let other = thread::spawn(move || {
            instanton::internal::sys::process::become_user_in_this_thread(65534, 65534).unwrap();
            let attach = Attach { proc: None, server: None, layout: 0, info: Vec::new() };
            greet(&mut dial(&uri), &frame::encode(Kind::Attach, 0, 0, &attach).unwrap())
        });
        other.join().unwrap()
    };
    let (own, host) = server("mine@0");
    assert!(matches!(knock(&own), Some(Welcome::Refused { status: Status::ERR_INVALID_CRED, .. })));
    assert!(host.connected.lock().unwrap().is_empty(), "the host is not asked about it");
    let support = ToolSupport { allows_foreign: true, ..ToolSupport::default() };
    let open = server_of("open@0", Some(support), Arc::default());
    assert!(matches!(knock(&open), Some(Welcome::Accepted { .. })));
}

/// A thread of another user, whose sockets bear the number of a process. Only root can be one.
#[test]
fn roots_tool_goes_to_a_process_of_another_user_and_to_no_socket_that_only_bears_its_number() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let sleeper = |user: u32| Command::new("sleep").arg("1000").uid(user).spawn().unwrap();
    let (mut roots, mut anothers) = (sleeper(0), sleeper(65534));
    let others_listen = |pid: u32, sockets: u32| {
        let listening = thread::spawn(move || {
            instanton::internal::sys::process::become_user_in_this_thread(65534, 65534).unwrap();
            let name = |number| format!("instanton-tools-{pid}-real@0.{number}-{pid:032}");
            let listen = |number| UnixListener::bind_addr(&SocketAddr::from_abstract_name(name(number)).unwrap());
            (1..=sockets).map(|number| listen(number).unwrap()).collect::<Vec<_>>()
        });
        listening.join().unwrap()
    };
    let by_process = |pid: u32| Info::new(keys::SERVER_PIDINFO, Value::Pid(pid as i32));
    let support = ToolSupport { pid: Some(roots.id() as i32), ..ToolSupport::default() };
    let own = server_of("real@0", Some(support), Arc::default());
    let impostors = others_listen(roots.id(), 20);
    let tool = Tool::init(&[by_process(roots.id())]).unwrap();
    assert_eq!(tool.servers(), [own.proc()]);
    for impostor in impostors {
        let Ok((mut stream, _)) = impostor.set_nonblocking(true).and_then(|()| impostor.accept()) else { continue };
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert_eq!(said, b"", "it was told something");
    }
    let pid = anothers.id();
    let theirs = others_listen(pid, 1).remove(0);
    let is_told = thread::spawn(move || {
        let mut said = [0; HEADER];
        theirs.accept().unwrap().0.read_exact(&mut said)
    });
    assert!(Tool::init(&[by_process(pid)]).is_err(), "it ends the connection");
    is_told.join().unwrap().unwrap();
    for sleeper in [&mut roots, &mut anothers] {
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
    tool.finalize(&[]).unwrap();
}

#[test]
fn what_is_no_attachment_is_cut_off_and_nobody_else_notices() {
    let (server, host) = server("hostile@0");
    let uri = server.uri().unwrap();
    let tool = Tool::init(&[at(&server)]).unwrap();
    let attach = Attach { proc: None, server: None, layout: 0, info: vec![Info::new("k", "v")] };
    let good = frame::encode(Kind::Attach, 0, 0, &attach).unwrap();
    let broken_off = |bytes: &[u8]| {
        let mut stream = dial(uri);
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    };
    (0..good.len()).for_each(|cut| broken_off(&good[..cut]));
    for at in HEADER..good.len() {
        let mut bytes = good.to_vec();
        bytes[at] ^= 0xff;
        broken_off(&bytes);
    }
    let request = frame::encode(Kind::Request, 1, 0, &Request::Finalize).unwrap();
    assert!(matches!(greet(&mut dial(uri), &request), Some(Welcome::Refused { .. })), "it has said no name");
    // A second name on the same connection.
    assert!(matches!(greet(&mut dial(uri), &[&good[..], &good[..]].concat()), Some(Welcome::Accepted { .. })));
    assert!(tool.is_connected());
    tool.primary().fence(&[], &[]).wait().unwrap();
    assert!(host.finalized.lock().unwrap().is_empty());
    tool.finalize(&[]).unwrap();
}

/// Goes to the door for stock libraries as a tool of such a kind does, and reads the status of the answer and what
/// follows that.
fn knock_as_stock(port: u16, kind: u8, name: Option<&Proc>) -> (Status, Vec<u8>) {
    let mut body = b"none\0\0\0\0\0".to_vec();
    body.push(kind);
    // It says that it is root, which counts for nothing.
    body.extend([0; 8]);
    if let Some(Proc { nspace, rank }) = name {
        body.extend([nspace.as_bytes(), b"\0", &rank.0.to_be_bytes()].concat());
    }
    body.extend(b"5.0.11\0v41\0\x01hash\0");
    let mut message = [[0xff; 8].as_slice(), &(body.len() as u32).to_ne_bytes(), &[0; 4], &body].concat();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&message).unwrap();
    message.clear();
    let mut status = [0; 4];
    stream.read_exact(&mut status).unwrap();
    let status = Status(i32::from_be_bytes(status));
    if status == Status::SUCCESS {
        // Nothing follows before it asks for something.
        message.resize(if name.is_some() { 264 } else { 524 }, 0);
        stream.read_exact(&mut message).unwrap();
    }
    (status, message)
}

/// The port for stock libraries, as the processes of a job are told.
fn stock_port(job: &Job<'_>) -> u16 {
    let mut env: Vec<(std::ffi::OsString, std::ffi::OsString)> = Vec::new();
    job.server.setup_fork(&job.proc(0), &mut env).unwrap();
    let (_, uri) = env.iter().find(|(name, _)| name == "PMIX_SERVER_URI41").expect("a door");
    uri.to_str().unwrap().rsplit(':').next().unwrap().parse().unwrap()
}

#[test]
fn stock_tools_are_let_in_as_native_ones_are() {
    let (server, host) = server("stock@0");
    let job = Job::register(&server, "seen@1", 1);
    let port = stock_port(&job);
    let named = |name: &str, rank| Proc::new(Nspace::new(name).unwrap(), Rank(rank));
    let (status, names) = knock_as_stock(port, 3, None);
    assert_eq!((status, &names[..12], &names[260..267]), (Status::SUCCESS, &b"stock@0.tool"[..], &b"stock@0"[..]));
    let (status, names) = knock_as_stock(port, 7, Some(&named("mine", 2)));
    assert_eq!((status, &names[..7]), (Status::SUCCESS, &b"stock@0"[..]));
    // The host is told what the kernel says.
    let told = host.connected.lock().unwrap().clone();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|info| info.contains(&Info::new(keys::USERID, nix::unistd::geteuid().as_raw()))));
    assert_eq!(knock_as_stock(port, 4, Some(&job.proc(0))).0, Status::ERR_NO_PERMISSIONS);
    // A tool that is a rank as well is one.
    assert_eq!(knock_as_stock(port, 5, Some(&job.proc(0))).0, Status::SUCCESS);
    assert_eq!(knock_as_stock(port, 8, Some(&named("seen@1", 5))).0, Status::ERR_PROC_ENTRY_NOT_FOUND);
    let alone = server_of("alone@0", None, Arc::default());
    let job = Job::register(&alone, "seen@2", 1);
    assert_eq!(knock_as_stock(stock_port(&job), 3, None).0, Status::ERR_NOT_SUPPORTED);
}

#[test]
fn stock_tools_of_other_users_are_let_in_only_where_the_host_judges() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let knock = |port| {
        let other = thread::spawn(move || {
            instanton::internal::sys::process::become_user_in_this_thread(65534, 65534).unwrap();
            knock_as_stock(port, 3, None).0
        });
        other.join().unwrap()
    };
    let (own, host) = server("mine@0");
    assert_eq!(knock(stock_port(&Job::register(&own, "a@1", 1))), Status::ERR_INVALID_CRED);
    assert!(host.connected.lock().unwrap().is_empty(), "the host is not asked about it");
    let support = ToolSupport { allows_foreign: true, ..ToolSupport::default() };
    let open = server_of("open@0", Some(support), Arc::default());
    assert_eq!(knock(stock_port(&Job::register(&open, "b@1", 1))), Status::SUCCESS);
}
