//! Peers that call themselves a stock server, and are none: whatever they say, a process learns why it has no server.
mod both_ends;
mod replay;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use both_ends::{enter, register, server_of_two};

use super::*;
use crate::client::{Chain, Client, Notice, Output};
use crate::data::{Channels, Info, InfoList, Nspace, Rank, Scope, Status, Value, keys};
use crate::message::{Reply, Request};
use crate::server::{NoHost, StockPorts, ToolSupport};
use crate::stock as door;
use crate::stock::frame::{EVENT, HEADER, Header, OUTPUT};
use crate::stock::requests::{Answer, Asked, command};
use crate::wire::Form;

/// Bytes of the first message of `job:3`, its header included.
const ACK: usize = 16 + 11 + 8 + 1 + 4 + 4 + 6 + 4 + 1 + 5;

/// A listener that does `serve` with its first connection, and its address for a process.
fn impostor(serve: impl FnOnce(TcpStream) + Send + 'static) -> (StockAddress, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let socket = listener.local_addr().unwrap();
    let address = StockAddress::parse(&format!("host.0;tcp4://{socket}"), b"4.2.2").unwrap();
    (address, thread::spawn(move || serve(listener.accept().unwrap().0)))
}

/// The process that an impostor's clients say they are.
fn process() -> Identity {
    Identity::Process(Proc::new(Nspace::new("job").unwrap(), Rank(3)))
}

/// Reads the first message of a client, and gives these answers to it and to the request behind it.
fn answer(mut stream: TcpStream, status: &[u8], job_info: &[u8]) {
    stream.read_exact(&mut [0; ACK]).unwrap();
    stream.write_all(status).unwrap();
    let mut request = [0; 16];
    if stream.read_exact(&mut request).is_err() {
        return;
    }
    stream.read_exact(&mut [0; 2]).unwrap();
    let mut message = request;
    message[8..12].copy_from_slice(&(job_info.len() as u32).to_be_bytes());
    stream.write_all(&message).unwrap();
    stream.write_all(job_info).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

fn joins(address: &StockAddress) -> Result<(), JoinError> {
    Upstream::join(address, &process(), true, Some(Instant::now() + Duration::from_secs(60))).map(drop)
}

#[test]
fn a_server_that_closes_is_not_available() {
    let (address, server) = impostor(drop);
    assert!(matches!(joins(&address), Err(JoinError::NotAvailable(_))));
    server.join().unwrap();
    // Nobody listens there any more.
    assert!(matches!(joins(&address), Err(JoinError::NotAvailable(_))));
}

#[test]
fn a_refusal_is_told_with_its_status() {
    let (address, server) = impostor(|stream| answer(stream, &Status::ERR_NOT_FOUND.0.to_be_bytes(), &[]));
    assert!(matches!(joins(&address), Err(JoinError::Refused { status: Status::ERR_NOT_FOUND, .. })));
    server.join().unwrap();
}

#[test]
fn answers_that_are_none_are_refused_and_none_is_waited_for_forever() {
    let whole = job_info::tests::answer(&Nspace::new("job").unwrap(), 4, 0);
    for cut in 0..whole.len() {
        let bytes = whole[..cut].to_vec();
        let (address, server) = impostor(move |stream| answer(stream, &[0; 8], &bytes));
        assert!(joins(&address).is_err(), "{cut} bytes of an answer");
        server.join().unwrap();
    }
    // The whole of it is a job, under a server that goes away at once.
    let (address, server) = impostor(move |stream| answer(stream, &[0; 8], &whole));
    joins(&address).unwrap();
    server.join().unwrap();
}

#[test]
fn a_message_without_end_is_not_taken_in() {
    let (address, server) = impostor(|mut stream| {
        stream.read_exact(&mut [0; ACK]).unwrap();
        stream.write_all(&[0; 8]).unwrap();
        stream.write_all(&[[0; 4], [0, 0, 0, 101], [0xff; 4], [0; 4]].concat()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert!(matches!(joins(&address), Err(JoinError::NotAvailable(_))));
    server.join().unwrap();
}

#[test]
fn a_silent_server_is_given_up_at_the_time_limit() {
    let (address, server) = impostor(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let limit = Some(Instant::now() + Duration::from_millis(50));
    assert!(matches!(Upstream::join(&address, &process(), true, limit), Err(JoinError::TimedOut)));
    server.join().unwrap();
}

#[test]
fn a_server_that_answers_a_byte_at_a_time_draws_no_limit_out() {
    let whole = job_info::tests::answer(&Nspace::new("job").unwrap(), 4, 0);
    let header = Header { tag: 101, len: whole.len() }.bytes();
    for welcome in [0, 8] {
        let (said, gone) = ([&[0; 8], &header[..], &whole].concat(), mpsc::channel::<()>());
        let (address, server) = impostor(move |mut stream| {
            stream.set_nodelay(true).unwrap();
            stream.read_exact(&mut [0; ACK]).unwrap();
            stream.write_all(&said[..welcome]).unwrap();
            // Each byte comes well within the limit.
            for byte in &said[welcome..] {
                let _ = gone.1.recv_timeout(Duration::from_millis(30));
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        });
        let limit = Some(Instant::now() + Duration::from_millis(100));
        assert!(matches!(Upstream::join(&address, &process(), true, limit), Err(JoinError::TimedOut)));
        server.join().unwrap();
    }
}

#[test]
fn a_server_that_tells_without_end_before_its_answer_is_none() {
    let (address, server) = impostor(|mut stream| {
        stream.read_exact(&mut [0; ACK]).unwrap();
        stream.write_all(&[0; 8]).unwrap();
        let event =
            door::answers::event(Form::Plain, Status(-2001), &Proc::new(Nspace::new("job").unwrap(), Rank(0)), &[]);
        let event = event.unwrap();
        let message = [&Header { tag: EVENT, len: event.len() }.bytes()[..], &event].concat();
        while stream.write_all(&message).is_ok() {}
    });
    assert!(matches!(joins(&address), Err(JoinError::NotAvailable(_))));
    server.join().unwrap();
}

#[test]
fn the_end_waits_for_no_server_that_takes_nothing() {
    let whole = job_info::tests::answer(&Nspace::new("job").unwrap(), 4, 0);
    let (over, until) = mpsc::channel::<()>();
    let (address, server) = impostor(move |mut stream| {
        stream.read_exact(&mut [0; ACK]).unwrap();
        stream.write_all(&[0; 8]).unwrap();
        stream.read_exact(&mut [0; HEADER + 2]).unwrap();
        stream.write_all(&Header { tag: 101, len: whole.len() }.bytes()).unwrap();
        stream.write_all(&whole).unwrap();
        // It reads nothing more.
        let _ = until.recv();
    });
    let (upstream, own, _) = Upstream::join(&address, &process(), true, None).unwrap();
    let client = Client::connect(&own, &[]).unwrap();
    client.put(Scope::GLOBAL, "large", Value::ByteObject(vec![1; 64 << 20])).unwrap();
    client.commit().unwrap();
    assert!(client.fence(&[], &[Info::new(keys::TIMEOUT, 1u32)]).wait().is_err());
    drop(upstream);
    drop(client);
    drop(over);
    server.join().unwrap();
}

/// Stock servers ask their host for a job that they do not know, unless somebody wants to know it now.
#[test]
fn who_wants_to_know_now_of_a_job_says_so_and_waits_within_bounds() {
    let (tell, asked) = mpsc::channel();
    let (address, server) = impostor(move |mut stream| {
        stream.read_exact(&mut [0; ACK]).unwrap();
        stream.write_all(&[0; 8]).unwrap();
        let (tag, _) = read_message(&mut stream).unwrap();
        say(&mut stream, tag, &job_info::tests::answer(&Nspace::new("job").unwrap(), 4, 0));
        while let Ok((tag, body)) = read_message(&mut stream) {
            let asked = door::requests::read(&body, Form::Plain, 1, usize::MAX);
            if let Ok(Asked::Request(request, _)) = asked
                && let Request::Get { proc, info, .. } = *request
            {
                let seconds = info.time_limit().flatten().map(|limit| limit.as_secs());
                tell.send((proc.nspace.to_string(), info.is_set(keys::IMMEDIATE), seconds)).unwrap();
            }
            say(&mut stream, tag, &door::answers::status(Form::Plain, Status::ERR_NOT_FOUND).unwrap());
        }
    });
    let (upstream, own, _) = Upstream::join(&address, &process(), true, None).unwrap();
    let client = Client::connect(&own, &[]).unwrap();
    let (now, limit) = (Info::new(keys::IMMEDIATE, true), Info::new(keys::TIMEOUT, 7u32));
    // The caller's own limit is kept on this side.
    for (info, told) in [
        (vec![now.clone()], (true, Some(1))),
        (vec![now, limit.clone()], (true, Some(1))),
        (vec![limit], (false, None)),
    ] {
        let found = client.get(&Proc::new(Nspace::new("other").unwrap(), Rank(0)), "mine", &info);
        assert_eq!(found.unwrap_err().status(), Status::ERR_NOT_FOUND);
        // Behind that the process itself is asked about.
        let all: Vec<_> = asked.try_iter().collect();
        assert_eq!(all[0], ("other".to_owned(), told.0, told.1), "{all:?}");
    }
    drop((upstream, client));
    server.join().unwrap();
}

/// Hears events of a code.
fn hear(client: &Client, code: Status) -> mpsc::Receiver<Notice> {
    let (sender, receiver) = mpsc::channel();
    // A receiver that has heard enough is gone.
    let handler = move |notice: Notice, _: Chain| drop(sender.send(notice));
    client.register_event_handler(&[code], &[], Arc::new(handler)).wait().unwrap();
    receiver
}

/// Reads a message of a client: its tag, and its body.
fn read_message(stream: &mut TcpStream) -> std::io::Result<(u32, Vec<u8>)> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let Header { tag, len } = Header::parse(&header);
    let mut body = vec![0; len];
    stream.read_exact(&mut body)?;
    Ok((tag, body))
}

/// A server of two ranks that passes the events of each on to the other, as stock servers do, and agrees to all else.
fn relay() -> (StockAddress, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = StockAddress::parse(&format!("host.0;tcp4://{}", listener.local_addr().unwrap()), b"4.2.2");
    let serve = move || {
        let streams = [0, 1].map(|rank| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut ack = [0; ACK];
            stream.read_exact(&mut ack).unwrap();
            assert_eq!(door::ack::parse(&ack[HEADER..]).unwrap().proc.rank, Rank(rank));
            stream.write_all(&[0; 8]).unwrap();
            // The next one comes in when this one is.
            let (tag, body) = read_message(&mut stream).unwrap();
            assert_eq!(body[1], command::JOB_INFO);
            say(&mut stream, tag, &job_info::tests::answer(&Nspace::new("job").unwrap(), 2, 0));
            Mutex::new(stream)
        });
        thread::scope(|scope| {
            for rank in 0..2usize {
                let streams = &streams;
                let mut stream = streams[rank].lock().unwrap().try_clone().unwrap();
                scope.spawn(move || {
                    while let Ok((tag, body)) = read_message(&mut stream) {
                        let Ok(Asked::Request(request, answer)) =
                            door::requests::read(&body, Form::Plain, 1, usize::MAX)
                        else {
                            panic!("{body:?} is no request");
                        };
                        if let Request::Get { proc, .. } = &*request {
                            assert_eq!(proc.nspace, "job", "no stock server ever answers for a job that there is not");
                        }
                        if let Request::Notify { status, info, .. } = *request {
                            let source = Proc::new(Nspace::new("job").unwrap(), Rank(rank as u32));
                            let event = door::answers::event(Form::Plain, status, &source, &info).unwrap();
                            say(&mut streams[1 - rank].lock().unwrap(), EVENT, &event);
                        }
                        let done =
                            door::answers::body(Form::Plain, [4, 2, 9], answer, Reply::Done(Status::SUCCESS), &[]);
                        say(&mut streams[rank].lock().unwrap(), tag, &done.unwrap());
                    }
                });
            }
        });
    };
    (address.unwrap(), thread::spawn(serve))
}

/// Sends a message, whose reader may be gone.
fn say(stream: &mut TcpStream, tag: u32, body: &[u8]) {
    let _ = stream.write_all(&[&Header { tag, len: body.len() }.bytes()[..], body].concat());
}

#[test]
fn of_output_that_comes_in_several_copies_one_is_handed_on() {
    let nspace = Nspace::new("job").unwrap();
    let source = Proc::new(nspace.clone(), Rank(0));
    let printed = source.clone();
    let (address, server) = impostor(move |mut stream| {
        stream.read_exact(&mut [0; ACK]).unwrap();
        stream.write_all(&[0; 8]).unwrap();
        let mut pulls = Vec::new();
        while let Ok((tag, body)) = read_message(&mut stream) {
            match body[1] {
                command::JOB_INFO => say(&mut stream, tag, &job_info::tests::answer(&nspace, 4, 0)),
                command::PUSH_INPUT => {
                    let ended = door::answers::status(Form::Plain, Status::ERR_IOF_COMPLETE).unwrap();
                    say(&mut stream, tag, &ended);
                }
                command::PULL_OUTPUT => {
                    let read = door::requests::read(&body, Form::Plain, 77, usize::MAX);
                    let Ok(Asked::Request(_, Answer::Pull(pull))) = read else { panic!("{body:?} is no pull") };
                    pulls.push(pull);
                    let done = Reply::Done(Status::SUCCESS);
                    let done = door::answers::body(Form::Plain, [4, 2, 9], Answer::Pull(pull), done, &[]);
                    say(&mut stream, tag, &done.unwrap());
                    // Unasked first, and then for each of the pulls.
                    for bytes in [format!("{}", pulls.len()), String::new()] {
                        for pull in [0].iter().chain(&pulls).filter(|_| !bytes.is_empty() || pulls.len() == 2) {
                            let (channel, bytes) = (Channels::STDOUT, bytes.clone().into_bytes());
                            let ends = Info::new(keys::IOF_COMPLETE, true);
                            let info = if bytes.is_empty() { vec![ends] } else { Vec::new() };
                            let output = door::answers::output(Form::Plain, *pull, &printed, channel, bytes, &info);
                            say(&mut stream, OUTPUT, &output.unwrap());
                        }
                    }
                }
                _ => {}
            }
        }
    });
    let (upstream, own, _) = Upstream::join(&address, &process(), true, None).unwrap();
    let client = Client::connect(&own, &[]).unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..2 {
        let sender = sender.clone();
        let handler = move |output: Output| drop(sender.send((output.pull, output.bytes)));
        client.iof_pull(std::slice::from_ref(&source), Channels::STDOUT, &[], Arc::new(handler)).wait().unwrap();
    }
    let mut heard = [Vec::new(), Vec::new()];
    let mut ends = 0;
    while ends < 2 {
        let (pull, bytes) = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        ends += usize::from(bytes.is_empty());
        heard[usize::from(pull > 1)].extend(bytes);
    }
    assert_eq!(heard, [b"12".to_vec(), b"2".to_vec()]);
    client.iof_push(&[source], &[], &[]).wait().expect("the end of the input is no failure");
    drop((client, upstream));
    server.join().unwrap();
}

#[test]
fn a_group_is_made_by_invitation() {
    let (address, server) = relay();
    let procs = [0, 1].map(|rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank)));
    let [(one, leader), (other, guest)] = procs.each_ref().map(|proc| enter(&(address.clone(), proc.clone())));
    for accepts in [true, false] {
        let invited = hear(&guest, Status::GROUP_INVITED);
        let group = Nspace::new(if accepts { "accepted" } else { "declined" }).unwrap();
        let (sender, made) = mpsc::channel();
        let sent = sender.clone();
        let optional = [Info::new(keys::GROUP_OPTIONAL, false)];
        leader.group_invite(&group, &procs, &optional).then(move |result| sent.send(result).unwrap()).unwrap();
        let notice = invited.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(notice.source, procs[0]);
        let answered = guest.group_join(&group, Some(&notice.source), accepts, &[]);
        answered
            .then(move |result| {
                if accepts {
                    sender.send(result).unwrap()
                }
            })
            .unwrap();
        for _ in 0..1 + usize::from(accepts) {
            let result = made.recv_timeout(Duration::from_secs(60)).unwrap();
            match accepts {
                true => {
                    let (_, infos) = result.unwrap();
                    let members = infos.iter().find(|info| info.key == keys::GROUP_MEMBERSHIP).unwrap();
                    assert_eq!(members.value.as_procs(), Some(procs.to_vec()));
                }
                false => drop(result.unwrap_err()),
            }
        }
    }
    // Its name stands for its members in a Get, and for nobody else.
    for rank in [Rank::WILDCARD, Rank::UNDEF, Rank(2)] {
        let nobody = Proc::new(Nspace::new("accepted").unwrap(), rank);
        assert_eq!(leader.get(&nobody, "k", &[]).unwrap_err().status(), Status::ERR_NOT_FOUND);
    }
    let left = hear(&leader, Status::GROUP_LEFT);
    guest.group_leave(&Nspace::new("accepted").unwrap(), &[]).wait().unwrap();
    assert_eq!(left.recv_timeout(Duration::from_secs(60)).unwrap().source, procs[1]);
    drop((leader, guest, one, other));
    server.join().unwrap();
}

#[test]
fn the_stock_server_misses_heartbeats_that_do_not_come() {
    let (_server, addresses) = server_of_two();
    let [(_one, client), (_other, sibling)] = addresses.each_ref().map(enter);
    // No stock server tells a process what is raised in its own name.
    let missed = hear(&sibling, Status::MONITOR_HEARTBEAT_ALERT);
    let beats = Info::new(keys::MONITOR_HEARTBEAT, true);
    let often = [Info::new(keys::MONITOR_HEARTBEAT_TIME, 1u32), Info::new(keys::MONITOR_HEARTBEAT_DROPS, 1u32)];
    client.process_monitor(&beats, Status::MONITOR_HEARTBEAT_ALERT, &often).wait().unwrap();
    assert_eq!(missed.recv_timeout(Duration::from_secs(60)).unwrap().source, addresses[0].1);
}

#[test]
fn a_server_that_is_not_ready_is_asked_again() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let socket = listener.local_addr().unwrap();
    let address = StockAddress::parse(&format!("host.0;tcp4://{socket}"), b"4.2.2").unwrap();
    let whole = job_info::tests::answer(&Nspace::new("job").unwrap(), 4, 0);
    let server = thread::spawn(move || {
        for _ in 0..3 {
            answer(listener.accept().unwrap().0, &error::NOT_READY.0.to_be_bytes(), &[]);
        }
        answer(listener.accept().unwrap().0, &[0; 8], &whole);
    });
    joins(&address).unwrap();
    server.join().unwrap();
    // Within the limit, and no longer.
    let (address, server) = impostor(|stream| answer(stream, &error::NOT_READY.0.to_be_bytes(), &[]));
    let joined = Upstream::join(&address, &process(), true, Some(Instant::now() + Duration::from_millis(1)));
    assert!(matches!(
        joined.map(drop),
        Err(JoinError::TimedOut | JoinError::Refused { status: error::NOT_READY, .. } | JoinError::NotAvailable(_))
    ));
    drop(TcpStream::connect(address.socket));
    server.join().unwrap();
}

#[test]
fn the_end_of_the_stock_server_ends_what_waits_for_it() {
    let (server, addresses) = server_of_two();
    let (_upstream, client) = enter(&addresses[0]);
    let (sender, receiver) = mpsc::channel();
    // The other process never comes.
    client.fence(&[], &[]).then(move |result| sender.send(result).unwrap()).unwrap();
    drop(server);
    let lost = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(lost.unwrap_err().status(), Status::ERR_LOST_CONNECTION);
}

#[test]
fn a_tool_is_named_by_the_server_and_sees_a_job_that_it_has_not_heard_of() {
    let config = ServerConfig { stock_clients: true, tools: Some(ToolSupport::default()), ..ServerConfig::default() };
    let server = Server::start(config, Arc::new(NoHost)).unwrap();
    let rank = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    let [(address, _)] = register(&server, [rank.clone()]);
    let wanted = Proc::new(Nspace::new("mine").unwrap(), Rank(3));
    for proc in [None, Some(wanted)] {
        let who =
            Identity::Tool { proc: proc.clone(), named: true, is_launcher: false, info: vec![Info::new("x", 7u32)] };
        let tool = Client::join(&address, &who, &[], None).unwrap();
        assert!(proc.is_none_or(|proc| proc == *tool.proc()) && tool.proc() != &rank);
        assert_eq!(tool.server(), Some(&address.server));
        let job = Proc::new(rank.nspace.clone(), Rank::WILDCARD);
        assert_eq!(tool.get(&job, keys::JOB_SIZE, &[]).unwrap(), Value::Uint32(1));
        let unknown = Proc::new(Nspace::new("unknown").unwrap(), Rank::WILDCARD);
        assert_eq!(tool.get(&unknown, keys::JOB_SIZE, &[]).unwrap_err().status(), Status::ERR_NOT_FOUND);
        tool.finalize(&[]).unwrap();
    }
}

#[test]
fn a_tool_learns_why_it_is_not_let_in() {
    let joins = |address: &StockAddress| {
        let who = Identity::Tool { proc: None, named: true, is_launcher: false, info: Vec::new() };
        Upstream::join(address, &who, true, Some(Instant::now() + Duration::from_secs(60))).map(drop)
    };
    let (address, server) = impostor(drop);
    assert!(matches!(joins(&address), Err(JoinError::NotAvailable(_))));
    server.join().unwrap();
    // A status, and half of a name.
    for said in [Status::ERR_NOT_SUPPORTED.0.to_be_bytes().to_vec(), vec![0; 4 + 100]] {
        let is_refusal = said.len() == 4;
        let (address, server) = impostor(move |mut stream| {
            stream.write_all(&said).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let failed = joins(&address).unwrap_err();
        assert_eq!(matches!(failed, JoinError::NotAdmitted(Status::ERR_NOT_SUPPORTED)), is_refusal, "{failed}");
        server.join().unwrap();
    }
}

#[test]
fn nothing_is_said_to_another_users_listener() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED nothing_is_said_to_another_users_listener: only root opens sockets as somebody else");
        return;
    }
    let foreign = 65534;
    // A socket is of the user as which the thread that opens it goes to files.
    let listener = thread::spawn(move || {
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(foreign));
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
    });
    let listener = listener.join().unwrap();
    let uri = format!("host.0;tcp4://{}", listener.local_addr().unwrap());
    let address = StockAddress::parse(&uri, b"4.2.2").unwrap();
    let tool = Identity::Tool { proc: None, named: false, is_launcher: false, info: Vec::new() };
    for who in [process(), tool] {
        let joined = Upstream::join(&address, &who, true, Some(Instant::now() + Duration::from_secs(60))).map(drop);
        assert!(matches!(joined, Err(JoinError::Foreign { found, .. }) if found == foreign), "{joined:?}");
        let mut said = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut said).unwrap();
        assert_eq!(said, []);
    }
}
