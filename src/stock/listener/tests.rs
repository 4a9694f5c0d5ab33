//! Tests of the door: long messages, turns, and information of jobs that clients share.
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};

use super::*;
use crate::account::Account;
use crate::data::{DataArray, DataType, Info, Key, Nspace, Pdata, Proc, Rank, Scope, Text, Value, keys};
use crate::message::door::Arrival;
use crate::message::{Reply, Request};
use crate::stock::ack::Ack;
use crate::stock::body::{Bodies, Body};
use crate::stock::frame::{HEADER, Header};
use crate::stock::job_info;
use crate::stock::job_info::FEW;
use crate::stock::requests::command;
use crate::stock::testing::{Job, nspace};
use crate::sys::queue;
use crate::wire::Writer;

/// Server's side that notes what it is asked, and how peers left.
#[derive(Default)]
struct Notes {
    arrived: Vec<PeerId>,
    asked: Vec<Request>,
    left: Vec<Left>,
    /// The job that is known by whatever name.
    known: Option<Arc<Job>>,
}

impl Callers for Notes {
    fn job_information(&mut self, _: &Nspace) -> Option<Arc<dyn JobInformation>> {
        self.known.clone().map(|job| job as _)
    }
    fn arrived(&mut self, peer: PeerId, _: Arrival) {
        self.arrived.push(peer);
    }
    fn asked(&mut self, _: PeerId, _: u64, request: Request, _: usize) {
        self.asked.push(request);
    }
    fn refused(&mut self, _: PeerId, _: u64) {}
    fn meets(&mut self, _: PeerId, _: u64, _: u32, _: bool) {}
    fn left(&mut self, _: PeerId, how: Left) {
        self.left.push(how);
    }
}

/// Limit on each wait, which takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

const READY: Ready = Ready { readable: true, writable: false, ended: false };

/// Door with peers, all of one job.
struct Visit {
    poll: mio::Poll,
    door: StockListener,
    peers: Vec<TcpStream>,
    notes: Notes,
}

/// The acknowledgement of a rank of the job.
fn acknowledgement(rank: u32) -> Vec<u8> {
    let mut body = b"native\0\0\0\0\0\0job\0".to_vec();
    body.extend(rank.to_be_bytes());
    body.extend(b"4.2.2\0v41\0\x01hash\0");
    let mut message = [0xff; 8].to_vec();
    message.extend((body.len() as u32).to_ne_bytes());
    message.extend([0; 4]);
    message.extend(body);
    message
}

fn message(tag: u32, body: &[u8]) -> Vec<u8> {
    [&Header { tag, len: body.len() }.bytes()[..], body].concat()
}

/// A commit of a value of so many bytes.
fn commit(key: &str, bytes: usize) -> Vec<u8> {
    let mut inner = Bodies::new(Form::Plain);
    inner.entry(&Key::new(key).unwrap(), &Value::ByteObject(vec![7; bytes])).unwrap();
    let mut out = Bodies::new(Form::Plain);
    out.one(DataType::COMMAND, &command::COMMIT).unwrap().one(DataType::SCOPE, &Scope::LOCAL).unwrap();
    let mut to = Writer::new(&mut out.bytes);
    to.head(Form::Plain, DataType::BUFFER, 1).unwrap();
    to.raw(&[1]);
    to.number(inner.bytes.len() as u64);
    to.raw(&inner.bytes);
    out.bytes
}

/// The keys of all commits, in their order.
fn committed(notes: &Notes) -> Vec<Key> {
    let key = |request: &Request| match request {
        Request::Commit { entries } => entries[0].key.clone(),
        other => panic!("{other:?}"),
    };
    notes.asked.iter().map(key).collect()
}

impl Visit {
    /// Lets peers of this job in, each charged to an account.
    fn new(job: &Arc<Job>, accounts: &[Account]) -> Visit {
        let poll = mio::Poll::new().unwrap();
        let registry = poll.registry().try_clone().unwrap();
        let places = [(Ipv4Addr::LOCALHOST, 0).into()];
        let door = StockListener::open(0, registry, 0, &places, &Common::default()).unwrap();
        let mut visit = Visit { poll, door, peers: Vec::new(), notes: Notes::default() };
        for (rank, account) in accounts.iter().enumerate() {
            let mut peer = TcpStream::connect(visit.door.addresses().unwrap()[0]).unwrap();
            peer.write_all(&acknowledgement(rank as u32)).unwrap();
            visit.until(|visit| visit.notes.arrived.len() > rank);
            let proc = Proc::new(nspace(), Rank(rank as u32));
            let (job_info, account) = (Some(job.clone() as _), account.clone());
            let (server, uri, parts) = (proc.clone(), String::new(), Vec::new());
            let id = visit.notes.arrived[rank].connection;
            let accepted = Outgoing::Accepted { server, uri, proc, parts, job_info, account };
            visit.door.send(id, accepted, &mut visit.notes);
            let mut welcome = [1; 8];
            peer.read_exact(&mut welcome).unwrap();
            assert_eq!(welcome, [0; 8]);
            visit.peers.push(peer);
        }
        visit
    }

    /// One look at the poll, and what follows.
    fn turn(&mut self) {
        let mut events = mio::Events::with_capacity(8);
        let until = self.door.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        self.poll.poll(&mut events, Some(until.unwrap_or(PATIENCE).min(PATIENCE))).unwrap();
        for event in &events {
            let ready =
                Ready { readable: event.is_readable(), writable: event.is_writable(), ended: event.is_read_closed() };
            self.door.ready(event.token().0 as u64, ready, &mut self.notes);
        }
        self.door.tick(Instant::now(), &mut self.notes);
    }

    fn until(&mut self, is_so: impl Fn(&Visit) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < PATIENCE, "it does not come: {:?} left", self.notes.left);
            self.turn();
        }
    }

    /// Serves all peers while one reads a message.
    fn hear(&mut self, peer: usize) -> (Header, Vec<u8>) {
        let mut stream = self.peers[peer].try_clone().unwrap();
        let heard = std::thread::spawn(move || {
            let mut header = [0; HEADER];
            stream.read_exact(&mut header).unwrap();
            let header = Header::parse(&header);
            let mut body = vec![0; header.len];
            stream.read_exact(&mut body).unwrap();
            (header, body)
        });
        while !heard.is_finished() {
            let mut events = mio::Events::with_capacity(8);
            self.poll.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
            for event in &events {
                let ready = Ready { readable: event.is_readable(), writable: event.is_writable(), ended: false };
                self.door.ready(event.token().0 as u64, ready, &mut self.notes);
            }
            self.door.tick(Instant::now(), &mut self.notes);
        }
        heard.join().unwrap()
    }

    fn connection(&self, peer: usize) -> &Connection {
        &self.door.connections[&self.notes.arrived[peer].connection]
    }
}

#[test]
fn a_long_message_is_taken_apart_by_a_thread_and_the_next_waits_for_it() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::of_job("job", 1 << 20)]);
    let sent = [message(101, &commit("long", SHORT + 1)), message(102, &commit("short", 10))].concat();
    let mut peer = visit.peers.remove(0);
    let sender = std::thread::spawn(move || {
        peer.write_all(&sent).unwrap();
        peer
    });
    visit.until(|visit| visit.connection(0).is_busy);
    assert!(visit.notes.asked.is_empty(), "the control thread has not read it");
    visit.until(|visit| visit.notes.asked.len() == 2);
    assert_eq!(committed(&visit.notes), [Key::new("long").unwrap(), Key::new("short").unwrap()]);
    assert_eq!(visit.connection(0).account.used(), 0);
    drop(sender.join().unwrap());
}

#[test]
fn a_type_that_nobody_knows_here_is_answered_and_the_connection_goes_on() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::of_job("job", 1 << 20)]);
    let mut fence = Bodies::new(Form::Plain);
    fence.one(DataType::COMMAND, &command::FENCE).unwrap().size(0).unwrap().size(1).unwrap();
    // One attribute: its key, no flags, and a type of some later release.
    fence.one(DataType::STRING, &Text::new("x").unwrap()).unwrap();
    fence.bytes.extend([0, 200, 1, 0]);
    let sent = [message(101, &fence.bytes), message(102, &commit("next", 10))].concat();
    visit.peers[0].write_all(&sent).unwrap();
    let (header, body) = visit.hear(0);
    let status = Body::new(&body, Form::Plain).one::<Status>(DataType::STATUS);
    assert_eq!((header.tag, status), (101, Ok(Status::ERR_UNKNOWN_DATA_TYPE)));
    visit.until(|visit| visit.notes.asked.len() == 1);
    assert!(visit.notes.left.is_empty());
}

#[test]
fn a_name_that_is_too_long_is_refused_and_the_connection_goes_on() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::of_job("job", 1 << 20)]);
    let long = Text::new("g".repeat(600)).unwrap();
    let group = |command: u8| {
        let mut body = Bodies::new(Form::Plain);
        body.one(DataType::COMMAND, &command).unwrap().one(DataType::STRING, &long).unwrap().infos(&[]).unwrap();
        message(101, &body.bytes)
    };
    let mut get = Bodies::new(Form::Plain);
    get.one(DataType::COMMAND, &command::GET).unwrap().one(DataType::STRING, &Text::new("job").unwrap()).unwrap();
    get.one(DataType::PROC_RANK, &Rank(0)).unwrap().infos(&[]).unwrap().one(DataType::STRING, &long).unwrap();
    for sent in [group(command::GROUP_LEAVE), group(command::RESOLVE_NODES), message(101, &get.bytes)] {
        visit.peers[0].write_all(&sent).unwrap();
        let (header, body) = visit.hear(0);
        let status = Body::new(&body, Form::Plain).one::<Status>(DataType::STATUS);
        assert_eq!((header.tag, status), (101, Ok(Status::ERR_BAD_PARAM)));
    }
    assert_eq!((visit.notes.left.len(), visit.notes.asked.len()), (0, 0));
}

#[test]
fn a_long_message_of_which_more_comes_than_there_is_room_for_is_refused_and_the_next_is_taken() {
    let account = Account::of_job("job", 4 << 20);
    let mut visit = Visit::new(&Job::new(1, 1), std::slice::from_ref(&account));
    let fence = |bits: usize| {
        let mut body = Bodies::new(Form::Plain);
        let bits = Info::new("bits", DataArray::of(std::iter::repeat_n(true, bits)));
        body.one(DataType::COMMAND, &command::FENCE).unwrap();
        body.size(0).unwrap().size(1).unwrap().one(DataType::INFO, &bits).unwrap();
        body.bytes
    };
    let (mut peer, long) = (visit.peers[0].try_clone().unwrap(), message(200, &fence(300_000)));
    let sender = std::thread::spawn(move || peer.write_all(&long).unwrap());
    let (header, answer) = visit.hear(0);
    assert_eq!(header.tag, 200);
    let status = Body::new(&answer, Form::Plain).one::<Status>(DataType::STATUS);
    assert_eq!(status.unwrap(), Status::ERR_OUT_OF_RESOURCE);
    sender.join().unwrap();
    visit.peers[0].write_all(&message(201, &fence(70_000))).unwrap();
    visit.until(|visit| !visit.notes.asked.is_empty());
    assert_eq!((visit.notes.left.len(), account.used()), (0, 0), "the server charges what waits");
}

#[test]
fn a_long_message_that_makes_no_sense_ends_its_connection() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::unlimited()]);
    visit.peers[0].write_all(&message(101, &vec![0xff; SHORT + 1])).unwrap();
    visit.until(|visit| !visit.notes.left.is_empty());
    assert_eq!((&visit.notes.left[..], visit.notes.asked.len()), (&[Left::Cut][..], 0));
}

#[test]
fn many_messages_take_turns_and_are_heard_after_the_end() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::unlimited()]);
    let many: Vec<u8> = (0..2000).flat_map(|tag| message(101 + tag, &commit("k", 100))).collect();
    let mut peer = visit.peers.remove(0);
    let sender = std::thread::spawn(move || {
        peer.write_all(&many).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        peer
    });
    visit.until(|visit| !visit.notes.left.is_empty());
    assert_eq!((visit.notes.asked.len(), &visit.notes.left[..]), (2000, &[Left::Closed][..]));
    drop(sender.join().unwrap());
}

#[test]
fn a_message_without_an_answer_is_acknowledged_at_once() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::unlimited()]);
    let mut body = Bodies::new(Form::Plain);
    body.one(DataType::COMMAND, &command::DEREGISTER_EVENTS).unwrap();
    body.one(DataType::STATUS, &Status::EVENT_JOB_END).unwrap();
    for round in 1..=3 {
        visit.peers[0].write_all(&message(100 + round as u32, &body.bytes)).unwrap();
        visit.until(|visit| visit.notes.asked.len() == round);
        assert_eq!(queue::unread(&visit.peers[0]).unwrap(), 0, "round {round}");
    }
}

#[test]
fn a_turn_ends_though_there_is_more() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::unlimited()]);
    let many: Vec<u8> = (0..2000).flat_map(|tag| message(101 + tag, &commit("k", 20))).collect();
    visit.peers[0].write_all(&many).unwrap();
    let id = visit.notes.arrived[0].connection;
    let has_come = |visit: &Visit| visit.connection(0).stream.peek(&mut [0; 65536]).unwrap_or(0) > 60_000;
    while !has_come(&visit) {
        std::thread::yield_now();
    }
    while visit.door.turns.next(Instant::now()).is_some() {}
    visit.door.connections.get_mut(&id).unwrap().place.call();
    visit.door.ready(id, READY, &mut visit.notes);
    let first = visit.notes.asked.len();
    assert!(first > 0 && first < 2000, "{first} in the first turn");
    visit.until(|visit| visit.notes.asked.len() == 2000);
}

#[test]
fn clients_of_a_job_share_its_information_and_the_job_pays_once() {
    let of_job = Account::of_job("job", 1 << 30);
    let accounts = [0, 1, 2].map(|rank| of_job.of_process(rank));
    let job = Job::new(2, FEW);
    let mut visit = Visit::new(&job, &accounts);
    for peer in &mut visit.peers {
        peer.write_all(&message(101, &[2, command::JOB_INFO])).unwrap();
    }
    let heard = [0, 1, 2].map(|peer| visit.hear(peer));
    assert!(heard.iter().all(|one| *one == heard[0]) && heard[0].0.tag == 101);
    assert_eq!(job.reads(), 1, "packed once");
    assert_eq!(of_job.used(), heard[0].1.len() as u64);
    let later = Instant::now() + job_info::KEPT_FOR;
    visit.door.tick(later, &mut visit.notes);
    assert_eq!((of_job.used(), visit.door.shelf.deadline()), (0, None));
}

#[test]
fn information_that_the_job_has_no_room_for_is_refused() {
    let mut visit = Visit::new(&Job::new(2, FEW), &[Account::of_job("job", 1000)]);
    visit.peers[0].write_all(&message(101, &[2, command::JOB_INFO])).unwrap();
    let (header, body) = visit.hear(0);
    let mut body = Body::new(&body, Form::Plain);
    assert_eq!((header.tag, body.one::<Status>(DataType::STATUS)), (101, Ok(Status::ERR_OUT_OF_RESOURCE)));
}

/// Numbers of the nodes and of the ranks that an answer tells of.
fn told(body: &[u8]) -> (usize, Vec<Rank>) {
    let mut body = Body::new(body, Form::Plain);
    assert_eq!(body.one::<Nspace>(DataType::STRING), Ok(nspace()));
    let (mut nodes, mut ranks) = (0, Vec::new());
    while !body.is_empty() {
        match body.entry().unwrap() {
            (key, _) if key == *keys::NODE_INFO_ARRAY => nodes += 1,
            (_, Value::ByteObject(rank)) => {
                ranks.push(Body::new(&rank, Form::Plain).one::<Rank>(DataType::PROC_RANK).unwrap());
            }
            _ => {}
        }
    }
    (nodes, ranks)
}

#[test]
fn what_does_not_fit_is_left_out_the_ranks_of_other_nodes_first() {
    for (nodes, per_node, of_nodes) in [(1000, 100, 1000), (1000, 1000, 1000), (1_000_000, 2, 1)] {
        let job = Job::new(nodes, per_node);
        let body = job_info::body((Form::Plain, job_info::Parts::All), &*job).unwrap();
        assert!(body.len() < 32 << 20, "{} bytes", body.len());
        let of_ranks = if nodes * per_node == 100_000 { 100_000 } else { per_node };
        assert_eq!(told(&body), (of_nodes, (0..of_ranks).map(Rank).collect::<Vec<_>>()));
    }
}

#[test]
fn a_connect_and_a_spawn_bring_other_jobs_with_their_ranks() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::unlimited()]);
    visit.notes.known = Some(Job::new(2, FEW));
    let id = visit.notes.arrived[0].connection;
    let other = Proc::new(Nspace::new("other").unwrap(), Rank::WILDCARD);
    let mut connect = Bodies::new(Form::Plain);
    connect
        .one(DataType::COMMAND, &command::CONNECT)
        .unwrap()
        .list(DataType::PROC, std::slice::from_ref(&other))
        .unwrap();
    let mut spawn = Bodies::new(Form::Plain);
    spawn.one(DataType::COMMAND, &command::SPAWN).unwrap().infos(&[]).unwrap();
    for (body, reply) in [(connect, Reply::Done(Status::SUCCESS)), (spawn, Reply::Spawned(other.nspace.clone()))] {
        let (number, mut body) = (visit.notes.asked.len() as u64 + 1, body);
        // No attributes, or no applications.
        body.one(DataType::SIZE, &0usize).unwrap();
        visit.peers[0].write_all(&message(101, &body.bytes)).unwrap();
        visit.until(|visit| visit.notes.asked.len() as u64 == number);
        let reply = Outgoing::Reply { number, reply, descriptors: Vec::new() };
        visit.door.send(id, reply, &mut visit.notes);
        let (header, answer) = visit.hear(0);
        assert_eq!(header.tag, 101);
        let mut answer = Body::new(&answer, Form::Plain);
        assert_eq!(answer.one::<Status>(DataType::STATUS), Ok(Status::SUCCESS));
        let of_job = match number {
            1 => answer.one::<Vec<u8>>(DataType::BYTE_OBJECT).unwrap(),
            _ => answer.reader.rest().to_vec(),
        };
        assert_eq!(told(&of_job), (2, (0..2 * FEW).map(Rank).collect::<Vec<_>>()));
    }
}

#[test]
fn a_long_answer_is_made_by_a_thread_and_keeps_its_place() {
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::of_job("job", 8 << 20)]);
    let id = visit.notes.arrived[0].connection;
    let mut lookup = Bodies::new(Form::Plain);
    lookup.one(DataType::COMMAND, &command::LOOKUP).unwrap().one(DataType::UINT32, &0u32).unwrap();
    lookup.list(DataType::STRING, &[Text::new("k").unwrap()]).unwrap().infos(&[]).unwrap();
    for tag in [101, 102] {
        visit.peers[0].write_all(&message(tag, &lookup.bytes)).unwrap();
    }
    visit.until(|visit| visit.notes.asked.len() == 2);
    let (by, made) = std::sync::mpsc::channel();
    let answer = Making::new(1 << 20, move || {
        by.send(std::thread::current().id()).unwrap();
        let (proc, key) = (Proc::new(nspace(), Rank(0)), Key::new("k").unwrap());
        Reply::Published(Status::SUCCESS, vec![Pdata { proc, key, value: vec![7u8; 1 << 20].into() }])
    });
    visit.door.send(id, Outgoing::Made { number: 1, answer }, &mut visit.notes);
    let reply = Outgoing::Reply { number: 2, reply: Reply::Done(Status::ERR_NOT_FOUND), descriptors: Vec::new() };
    visit.door.send(id, reply, &mut visit.notes);
    assert!(visit.connection(0).account.used() >= 1 << 20, "charged before it is made");
    let ((first, body), (second, _)) = (visit.hear(0), visit.hear(0));
    assert!(first.tag == 101 && body.len() > 1 << 20 && second.tag == 102);
    assert_ne!(made.recv().unwrap(), std::thread::current().id());
    assert_eq!(visit.connection(0).account.used(), 0);
}

#[test]
fn who_is_being_judged_has_not_said_who_it_is() {
    let mut visit = Visit::new(&Job::new(1, 1), &[]);
    let mut peer = TcpStream::connect(visit.door.addresses().unwrap()[0]).unwrap();
    visit.until(|visit| visit.door.last == 1);
    // As an acknowledgement from elsewhere is taken in, with a service that takes its time.
    let body = &acknowledgement(0)[HEADER..];
    let ack = || Ack { credential: Some(b"MUNGE:AAAA:".to_vec()), ..ack::parse(body).unwrap() };
    let far = Ipv4Addr::new(192, 0, 2, 1).into();
    visit.door.judge(1, ack(), far, &mut visit.notes);
    assert!(!is_settled(&visit.door.connections, 1) && visit.notes.arrived.is_empty());
    assert_eq!((visit.door.judging, visit.door.lobby.deadline().is_some()), (1, true));
    visit.until(|visit| visit.door.judging == 0);
    let mut status = [0; 4];
    peer.read_exact(&mut status).unwrap();
    assert!([Status::ERR_INVALID_CRED, Status::ERR_NOT_SUPPORTED].contains(&Status(i32::from_be_bytes(status))));
    // It is not the one to end the connection.
    peer.set_nonblocking(true).unwrap();
    assert_eq!(peer.read(&mut status).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(peer);
    visit.until(|visit| visit.door.connections.is_empty());

    // One that is late while it is judged is told, and one that is gone is not looked for.
    let mut peer = TcpStream::connect(visit.door.addresses().unwrap()[0]).unwrap();
    visit.until(|visit| visit.door.last == 2);
    visit.door.judge(2, ack(), far, &mut visit.notes);
    let late = Instant::now() + crate::transport::lobby::HANDSHAKE_DEADLINE;
    visit.door.tick(late, &mut visit.notes);
    peer.read_exact(&mut status).unwrap();
    assert_eq!(Status(i32::from_be_bytes(status)), Status::ERR_HANDSHAKE_FAILED);
    visit.until(|visit| visit.door.judging == 0);
    assert!(visit.notes.arrived.is_empty() && visit.notes.left.is_empty());

    // So many and no more are judged at a time.
    let mut peer = TcpStream::connect(visit.door.addresses().unwrap()[0]).unwrap();
    visit.until(|visit| visit.door.last == 3);
    visit.door.judging = crate::transport::lobby::MAX_UNKNOWN;
    visit.door.judge(3, ack(), far, &mut visit.notes);
    peer.read_exact(&mut status).unwrap();
    assert_eq!(Status(i32::from_be_bytes(status)), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn a_place_that_is_taken_is_named() {
    let visit = Visit::new(&Job::new(1, 1), &[]);
    let (poll, taken) = (mio::Poll::new().unwrap(), visit.door.addresses().unwrap()[0]);
    let registry = poll.registry().try_clone().unwrap();
    let places = [(Ipv4Addr::LOCALHOST, 0).into(), taken];
    let refused = StockListener::open(0, registry, 0, &places, &Common::default()).err().unwrap();
    assert_eq!(refused.to_string(), format!("cannot listen at {taken}: Address already in use (os error 98)"));
}

#[test]
fn much_is_sent_in_turns_and_to_a_held_process_when_others_have_had_theirs() {
    let mut visit = Visit::new(&Job::new(1, 2), &[Account::unlimited(), Account::unlimited()]);
    let id = visit.notes.arrived[0].connection;
    let [owner, raiser] = [0, 1].map(|rank| visit.connection(rank).place.owner);
    visit.peers[0].set_nonblocking(true).unwrap();
    let source = Proc::new(nspace(), Rank(1));
    let info = vec![crate::data::Info::new("text", "a".repeat(900_000).as_str())];
    let event = Push::Event { status: Status(-1), source, range: crate::data::DataRange::LOCAL, info, vote: None };
    visit.door.send(id, Outgoing::Push(event), &mut visit.notes);
    let read = |visit: &mut Visit| {
        let (mut buffer, mut read) = (vec![0; 1 << 20], 0);
        while let Ok(n @ 1..) = visit.peers[0].read(&mut buffer) {
            read += n;
        }
        read
    };
    assert_eq!(read(&mut visit), 0, "it has a turn of its own");
    assert_eq!(visit.connection(0).cause(), raiser, "who has raised it pays for it");
    while !visit.door.turns.shares.is_held(owner) {
        visit.door.turns.shares.begin_turn(raiser);
        visit.door.turns.shares.begin_turn(owner);
        visit.door.turns.shares.spend(owner, Duration::from_millis(5));
    }
    // It is told that there is room, and the time of the hold is not over.
    let writable = Ready { readable: false, writable: true, ended: false };
    let until = visit.door.turns.shares.next_release().unwrap();
    let before = until - Duration::from_nanos(1);
    for _ in 0..3 {
        visit.door.ready(id, writable, &mut visit.notes);
        visit.door.tick(before, &mut visit.notes);
        assert_eq!(read(&mut visit), 0);
    }
    let (mut sum, begin, mut now) = (0, Instant::now(), until);
    while visit.connection(0).queued() > 0 || sum < 900_000 {
        assert!(begin.elapsed() < PATIENCE, "{sum}");
        now += Duration::from_secs(1);
        visit.door.tick(now, &mut visit.notes);
        sum += read(&mut visit);
        visit.door.ready(id, writable, &mut visit.notes);
    }
}

#[test]
fn a_process_that_has_ended_is_heard_out_though_another_holds_its_connection() {
    let proc = Proc::new(nspace(), Rank(0));
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::unlimited()]);
    let id = visit.notes.arrived[0].connection;
    assert!(!visit.door.hear_out(&proc, Some(id), &mut visit.notes), "it has said nothing");
    let mut visit = Visit::new(&Job::new(1, 1), &[Account::unlimited()]);
    visit.peers[0].write_all(&message(FIRST_DYNAMIC, &commit("a", 10))).unwrap();
    assert!(!visit.door.hear_out(&proc, None, &mut visit.notes), "it is at another door");
    assert!(visit.door.hear_out(&proc, Some(id), &mut visit.notes));
    // A request that comes after its end is another's.
    visit.peers[0].write_all(&message(FIRST_DYNAMIC, &commit("b", 10))).unwrap();
    visit.until(|visit| !visit.notes.left.is_empty());
    assert_eq!(committed(&visit.notes), [Key::new("a").unwrap()]);
}
