//! Tests of the door: what peers send and leave unread, and whose turn it is.
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use super::*;
use crate::account::{Account, Kind as Held};
use crate::control::bind::{FOR_JOBS, bind_abstract};
use crate::data::{Nspace, Proc, Rank};
use crate::message::Request;

struct Nobody;

impl Callers for Nobody {
    fn arrived(&mut self, _: PeerId, _: Arrival) {}
    fn asked(&mut self, _: PeerId, _: u64, _: Request, _: usize) {}
    fn refused(&mut self, _: PeerId, _: u64) {}
    fn meets(&mut self, _: PeerId, _: u64, _: u32, _: bool) {}
    fn left(&mut self, _: PeerId, _: Left) {}
}

#[test]
fn who_comes_in_a_crowd_has_others_served_between() {
    let (socket, name) = bind_abstract(FOR_JOBS).unwrap();
    let poll = mio::Poll::new().unwrap();
    let mut door = Listener::new(0, poll.registry().try_clone().unwrap(), 0, vec![socket], &Common::default()).unwrap();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let peers: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
    door.ready(0, Ready { readable: true, writable: false, ended: false }, &mut Nobody);
    let mut turns = 1;
    while door.connections.len() < peers.len() {
        assert!(door.deadline().is_some_and(|at| at <= Instant::now()), "it goes on at once");
        door.tick(Instant::now(), &mut Nobody);
        turns += 1;
    }
    assert!(turns > 1);
    door.tick(Instant::now(), &mut Nobody);
    assert!(door.deadline().is_some_and(|at| at > Instant::now()), "and then waits for what they say");
}

#[test]
fn nobody_waits_for_a_handshake_that_is_over() {
    let (socket, name) = bind_abstract(FOR_JOBS).unwrap();
    let poll = mio::Poll::new().unwrap();
    let mut door = Listener::new(0, poll.registry().try_clone().unwrap(), 0, vec![socket], &Common::default()).unwrap();
    assert_eq!(door.deadline(), None);
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let mut peers: Vec<UnixStream> = (0..3).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
    let ready = Ready { readable: true, writable: false, ended: false };
    door.ready(0, ready, &mut Nobody);
    // The listening socket has number 0, and the first to come number 1.
    let last = door.lobby.last_deadline();
    let hello =
        Hello { proc: Proc::new(Nspace::new("job").unwrap(), Rank(0)), token: [0; 32], layout: 0, info: Vec::new() };
    let hello = frame::encode(Kind::Hello, 0, 0, &hello).unwrap();
    peers[1].write_all(&hello).unwrap();
    door.ready(2, ready, &mut Nobody);
    peers[0].write_all(&hello).unwrap();
    door.ready(1, ready, &mut Nobody);
    assert_eq!(door.deadline(), last, "the third one has said nothing");
    drop(peers.remove(2));
    door.ready(3, Ready { ended: true, ..ready }, &mut Nobody);
    assert_eq!(door.deadline(), None, "two have said who they are, and one is gone");
}

/// Door with one peer that is let in and charged to an account.
struct Visit {
    poll: mio::Poll,
    door: Listener,
    peer: UnixStream,
    connection: u64,
}

/// Server's side that notes what it is asked, and the sizes of what is refused.
#[derive(Default)]
struct Notes {
    asked: Vec<(u64, usize)>,
    refused: Vec<u64>,
    left: Vec<Left>,
    /// Request that keeps its peer busy.
    long: Option<u64>,
}

impl Callers for Notes {
    fn arrived(&mut self, _: PeerId, _: Arrival) {}
    fn asked(&mut self, _: PeerId, number: u64, _: Request, bytes: usize) {
        self.asked.push((number, bytes));
    }
    fn refused(&mut self, _: PeerId, number: u64) {
        self.refused.push(number);
    }
    fn meets(&mut self, _: PeerId, number: u64, _: u32, _: bool) {
        self.asked.push((number, 0));
    }
    fn left(&mut self, _: PeerId, how: Left) {
        self.left.push(how);
    }
    fn is_busy(&self, _: PeerId) -> bool {
        self.long.is_some() && self.asked.last().map(|(number, _)| *number) == self.long
    }
}

const READY: Ready = Ready { readable: true, writable: false, ended: false };

impl Visit {
    fn new(account: &Account) -> Visit {
        let (socket, name) = bind_abstract(FOR_JOBS).unwrap();
        let poll = mio::Poll::new().unwrap();
        let mut door =
            Listener::new(0, poll.registry().try_clone().unwrap(), 0, vec![socket], &Common::default()).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let mut peer = UnixStream::connect_addr(&address).unwrap();
        door.ready(0, READY, &mut Nobody);
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let hello = Hello { proc: proc.clone(), token: [0; 32], layout: 0, info: Vec::new() };
        peer.write_all(&frame::encode(Kind::Hello, 0, 0, &hello).unwrap()).unwrap();
        door.ready(1, READY, &mut Nobody);
        let (uri, account) = (String::new(), account.clone());
        let parts = Vec::new();
        let accepted = Outgoing::Accepted { server: proc.clone(), uri, proc, parts, job_info: None, account };
        door.send(1, accepted, &mut Nobody);
        door.tick(Instant::now(), &mut Nobody);
        Visit { poll, door, peer, connection: 1 }
    }

    /// Has the door take in whatever there is, as often as it wants to.
    fn turn(&mut self, notes: &mut Notes) {
        self.door.ready(self.connection, READY, notes);
        loop {
            if self.door.turns.deadline().is_some() {
                self.door.tick(Instant::now(), notes);
            } else if self.door.connections.get(&self.connection).is_some_and(|peer| peer.is_busy) {
                self.poll.poll(&mut mio::Events::with_capacity(8), None).unwrap();
                self.door.ready(WORKER, READY, notes);
            } else {
                return;
            }
        }
    }
}

fn meeting(number: u64) -> [u8; frame::HEADER + 8] {
    let mut frame = frame::meet(0, false);
    frame::renumber(&mut frame, number);
    frame
}

fn large(number: u64, bytes: usize) -> rkyv::util::AlignedVec {
    let message = Some(vec![b'a'; bytes]);
    frame::encode(Kind::Request, number, 0, &Request::Abort { status: 0, message, procs: Vec::new() }).unwrap()
}

#[test]
fn a_request_over_the_limit_is_refused_by_its_header_and_the_next_is_served() {
    let account = Account::of_job("job", 2 << 20);
    let mut visit = Visit::new(&account);
    let mut notes = Notes::default();
    let (fits, too_large) = (large(7, 900_000), large(8, 3 << 20));
    // The header and a little more: the charge is for all that it announces.
    visit.peer.write_all(&fits[..1000]).unwrap();
    visit.turn(&mut notes);
    assert!(account.used() > 900_000 && notes.asked.is_empty());
    for chunk in fits[1000..].chunks(50_000) {
        visit.peer.write_all(chunk).unwrap();
        visit.turn(&mut notes);
    }
    assert_eq!((account.used(), notes.asked.len()), (0, 1));
    for chunk in too_large.chunks(50_000) {
        visit.peer.write_all(chunk).unwrap();
        visit.turn(&mut notes);
        assert!(visit.door.connections[&1].is_mid_frame() || notes.refused == [8]);
    }
    visit.peer.write_all(&large(9, 10)).unwrap();
    visit.turn(&mut notes);
    assert_eq!(notes.refused, [8]);
    assert_eq!(notes.asked.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [7, 9]);
    assert_eq!(account.used(), 0);
}

#[test]
fn requests_have_turns_and_keep_their_order_behind_a_long_one() {
    let mut visit = Visit::new(&Account::unlimited());
    let mut notes = Notes::default();
    let frames: Vec<u8> = (0..300).flat_map(|number| meeting(number).to_vec()).collect();
    visit.peer.write_all(&frames).unwrap();
    visit.door.ready(1, READY, &mut notes);
    assert_eq!(notes.asked.len(), MEETINGS_PER_TURN, "a turn ends though there is more");
    assert!(visit.door.deadline().is_some_and(|at| at <= Instant::now()));
    visit.turn(&mut notes);
    assert!(notes.asked.iter().map(|(number, _)| *number).eq(0..300));
    notes.asked.clear();
    let frames = [large(1, 100_000).as_slice(), &meeting(2), large(3, 90_000).as_slice(), &meeting(4)].concat();
    for chunk in frames.chunks(50_000) {
        visit.peer.write_all(chunk).unwrap();
        visit.turn(&mut notes);
    }
    assert_eq!(notes.asked.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn a_turn_has_so_many_requests_as_are_answered_soon() {
    let mut visit = Visit::new(&Account::unlimited());
    let mut notes = Notes::default();
    let commit = |number| frame::encode(Kind::Request, number, 0, &Request::Commit { entries: Vec::new() }).unwrap();
    let frames: Vec<u8> = (0..4 * REQUESTS_PER_TURN as u64).flat_map(|number| commit(number).to_vec()).collect();
    visit.peer.write_all(&frames).unwrap();
    visit.door.ready(1, READY, &mut notes);
    // Where processors are slow, it ends earlier.
    assert!((1..=REQUESTS_PER_TURN).contains(&notes.asked.len()));
    visit.turn(&mut notes);
    assert_eq!(notes.asked.len(), 4 * REQUESTS_PER_TURN);
}

#[test]
fn what_comes_behind_a_short_commit_that_takes_long_waits_for_its_end() {
    let mut visit = Visit::new(&Account::unlimited());
    let mut notes = Notes { long: Some(2), ..Notes::default() };
    let commit = |number| frame::encode(Kind::Request, number, 0, &Request::Commit { entries: Vec::new() }).unwrap();
    let frames: [&[u8]; 4] = [&commit(1), &commit(2), &meeting(3), &commit(4)];
    visit.peer.write_all(&frames.concat()).unwrap();
    visit.door.ready(1, READY, &mut notes);
    // Where processors are slow, a turn ends after any request.
    while visit.door.turns.deadline().is_some() {
        visit.door.tick(Instant::now(), &mut notes);
    }
    let asked = |notes: &Notes| notes.asked.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    assert_eq!(asked(&notes), [1, 2]);
    visit.door.send(1, Outgoing::GoOn, &mut notes);
    visit.turn(&mut notes);
    assert_eq!(asked(&notes), [1, 2, 3, 4]);
}

#[test]
fn what_a_peer_has_said_before_its_end_is_heard() {
    let mut visit = Visit::new(&Account::unlimited());
    let mut notes = Notes::default();
    let frames: Vec<u8> = (0..300).flat_map(|number| meeting(number).to_vec()).collect();
    visit.peer.write_all(&frames).unwrap();
    visit.peer.shutdown(std::net::Shutdown::Both).unwrap();
    visit.door.ready(1, Ready { ended: true, ..READY }, &mut notes);
    while visit.door.turns.deadline().is_some() {
        visit.door.tick(Instant::now(), &mut notes);
    }
    assert_eq!((notes.asked.len(), &notes.left[..]), (300, &[Left::Closed][..]));
}

#[test]
fn a_process_that_has_ended_is_heard_out_though_another_holds_its_connection() {
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    for first in [meeting(7).to_vec(), large(7, 100_000).to_vec()] {
        let (mut visit, mut notes) = (Visit::new(&Account::unlimited()), Notes::default());
        visit.peer.write_all(&[first, meeting(8).to_vec()].concat()).unwrap();
        assert!(!visit.door.hear_out(&proc, None, &mut notes), "it is at another door");
        assert!(visit.door.hear_out(&proc, Some(1), &mut notes));
        // A request that comes after its end is another's.
        visit.peer.write_all(&meeting(9)).unwrap();
        visit.turn(&mut notes);
        assert_eq!(notes.asked.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [7, 8]);
        assert_eq!(notes.left, [Left::Closed]);
        assert!(!visit.door.hear_out(&proc, Some(1), &mut notes), "it is gone");
    }
    let (mut silent, mut notes) = (Visit::new(&Account::unlimited()), Notes::default());
    assert!(!silent.door.hear_out(&proc, Some(1), &mut notes), "it has said nothing");
}

#[test]
fn a_request_that_breaks_off_gives_its_charge_back() {
    let account = Account::of_job("job", 1 << 20);
    let mut visit = Visit::new(&account);
    let mut notes = Notes::default();
    visit.peer.write_all(&large(7, 900_000)[..1000]).unwrap();
    visit.turn(&mut notes);
    assert!(account.used() > 0);
    visit.peer.shutdown(std::net::Shutdown::Both).unwrap();
    visit.turn(&mut notes);
    assert_eq!((account.used(), &notes.left[..]), (0, &[Left::Cut][..]));
}

#[test]
fn a_push_to_several_is_encoded_once_and_each_one_by_itself() {
    let mut visit = Visit::new(&Account::unlimited());
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
    let (range, info) = (crate::data::DataRange::LOCAL, Vec::new());
    let event =
        |status| Push::Event { status: Status(status), source: proc.clone(), range, info: info.clone(), vote: None };
    let mut frames = Vec::new();
    for status in [-1, -2] {
        let push = Arc::new(event(status));
        for _ in 0..2 {
            visit.door.send(1, Outgoing::Shared(push.clone()), &mut Nobody);
            frames.push(visit.door.shared.as_ref().map(|(_, frame)| frame.clone()).unwrap());
        }
    }
    assert!(Arc::ptr_eq(&frames[0], &frames[1]) && Arc::ptr_eq(&frames[2], &frames[3]));
    let heard = |frame: &[u8]| frame::decode::<Push>(Kind::Push, &frame[frame::HEADER..]).unwrap();
    assert_eq!((heard(&frames[0]), heard(&frames[2])), (event(-1), event(-2)));
}

#[test]
fn answers_that_nobody_reads_are_refused_over_the_limit() {
    let account = Account::of_job("job", 8 << 20);
    let mut visit = Visit::new(&account);
    let mut notes = Notes::default();
    let value = |bytes: usize| Reply::Value(crate::data::Value::from("a".repeat(bytes).as_str()));
    for number in 1..=4 {
        let reply = Outgoing::Reply { number, reply: value(3 << 20), descriptors: Vec::new() };
        visit.door.send(visit.connection, reply, &mut notes);
    }
    assert!(account.used() > 6 << 20 && account.used() < 7 << 20, "two answers and two refusals");
    assert!(notes.left.is_empty());
    visit.peer.shutdown(std::net::Shutdown::Both).unwrap();
    visit.turn(&mut notes);
    assert_eq!((account.used(), &notes.left[..]), (0, &[Left::Closed][..]));
}

#[test]
fn descriptors_that_wait_are_charged_until_they_are_sent() {
    let account = Account::of_job("job", 1 << 20);
    let mut visit = Visit::new(&account);
    let mut notes = Notes::default();
    let reply = |number| {
        let descriptors = (0..10).map(|_| OwnedFd::from(std::fs::File::open("/dev/null").unwrap())).collect();
        Outgoing::Reply { number, reply: Reply::Segments { parts: vec![DescriptorKind::Job; 10] }, descriptors }
    };
    visit.door.send(visit.connection, reply(1), &mut notes);
    assert!(account.used() >= 10 * 4096, "what came before has not been read");
    std::io::Read::read(&mut visit.peer, &mut [0; 4096]).unwrap();
    visit.door.ready(visit.connection, Ready { writable: true, readable: false, ended: false }, &mut notes);
    assert_eq!(account.used(), 0, "they are on their way");
    let held = account.force(Held::Input, (1 << 20) - 10 * 4096 + 1);
    let before = account.used();
    visit.door.send(visit.connection, reply(2), &mut notes);
    assert!(notes.left.is_empty(), "it is the news of a refusal now");
    assert!(account.used() < before + 4096);
    drop((held, visit.peer));
    visit.door.ready(1, Ready { ended: true, ..READY }, &mut notes);
    assert_eq!(account.used(), 0);
}

#[test]
fn what_an_answer_of_the_host_takes_counts_for_who_has_asked() {
    let mut visit = Visit::new(&Account::unlimited());
    let owner = visit.door.connections[&visit.connection].place.owner;
    let other = visit.door.turns.shares.join(&Proc::new(Nspace::new("job").unwrap(), Rank(1)), None);
    for _ in 0..4 {
        visit.door.turns.shares.begin_turn(other);
        visit.door.spent_for(visit.connection, Duration::from_millis(5));
    }
    assert!(visit.door.turns.shares.is_held(owner) && !visit.door.turns.shares.is_held(other));
}

#[test]
fn what_a_thread_takes_to_read_a_request_counts_for_who_has_sent_it() {
    let mut visit = Visit::new(&Account::unlimited());
    let owner = visit.door.connections[&visit.connection].place.owner;
    let other = visit.door.turns.shares.join(&Proc::new(Nspace::new("job").unwrap(), Rank(1)), None);
    let (connection, took) = (visit.connection, Duration::from_millis(5));
    for number in 0..4 {
        visit.door.turns.shares.begin_turn(other);
        let bytes = large(number, 10);
        let header = Header::parse(bytes.first_chunk().unwrap(), MAX_BODY).unwrap();
        let request = frame::request_in(header.kind, &bytes[frame::HEADER..]);
        let (kept, charge) = (header.body, Account::unlimited().force(Held::Input, header.body));
        visit.door.decoded(Decoded { connection, header, request, kept, charge, took }, &mut Nobody);
    }
    assert!(visit.door.turns.shares.is_held(owner) && !visit.door.turns.shares.is_held(other));
}

/// An event of so many bytes that rank 1 has raised.
fn event(bytes: usize) -> Outgoing {
    let source = Proc::new(Nspace::new("job").unwrap(), Rank(1));
    let info = vec![crate::data::Info::new("text", "a".repeat(bytes).as_str())];
    let range = crate::data::DataRange::LOCAL;
    Outgoing::Shared(Arc::new(Push::Event { status: Status(-1), source, range, info, vote: None }))
}

impl Visit {
    /// Reads what has come to the peer, without waiting for more.
    fn read(&mut self) -> usize {
        self.peer.set_nonblocking(true).unwrap();
        let (mut buffer, mut read) = (vec![0; 1 << 20], 0);
        while let Ok(n) = std::io::Read::read(&mut self.peer, &mut buffer) {
            read += n;
        }
        read
    }
}

#[test]
fn much_is_sent_in_turns_and_to_a_held_process_when_others_have_had_theirs() {
    let mut visit = Visit::new(&Account::unlimited());
    let owner = visit.door.connections[&visit.connection].place.owner;
    let other = visit.door.turns.shares.join(&Proc::new(Nspace::new("job").unwrap(), Rank(2)), None);
    visit.read();
    visit.door.send(1, event(900_000), &mut Nobody);
    assert_eq!(visit.read(), 0, "it has a turn of its own");
    while !visit.door.turns.shares.is_held(owner) {
        visit.door.turns.shares.begin_turn(other);
        visit.door.turns.shares.begin_turn(owner);
        visit.door.turns.shares.spend(owner, Duration::from_millis(5));
    }
    // It is told that there is room, and the time of the hold is not over.
    let writable = Ready { readable: false, writable: true, ended: false };
    let until = visit.door.turns.shares.next_release().unwrap();
    let before = until - Duration::from_nanos(1);
    for _ in 0..3 {
        visit.door.ready(1, writable, &mut Nobody);
        visit.door.tick(before, &mut Nobody);
        assert_eq!(visit.read(), 0);
    }
    let mut read = 0;
    for turn in 0.. {
        visit.door.tick(until + Duration::from_secs(turn), &mut Nobody);
        read += visit.read();
        let connection = &visit.door.connections[&1];
        if !connection.place.may_send && !connection.wants_write {
            break;
        }
        visit.door.ready(1, writable, &mut Nobody);
    }
    assert!(read > 900_000, "{read}");
}

#[test]
fn who_has_raised_an_event_pays_for_what_others_are_sent() {
    let mut visit = Visit::new(&Account::unlimited());
    let hears = visit.door.connections[&visit.connection].place.owner;
    let raises = visit.door.turns.shares.join(&Proc::new(Nspace::new("job").unwrap(), Rank(1)), None);
    let owner = |visit: &Visit| visit.door.connections[&1].cause();
    assert_eq!(owner(&visit), hears);
    visit.door.send(1, event(900_000), &mut Nobody);
    assert_eq!(owner(&visit), raises);
    let reply = Outgoing::Reply { number: 1, reply: Reply::Done(Status::SUCCESS), descriptors: Vec::new() };
    visit.door.send(1, reply, &mut Nobody);
    assert_eq!(owner(&visit), raises, "the event is sent first");
}

#[test]
fn a_process_that_dies_while_it_is_held_and_has_much_to_read_is_gone_after_its_hold() {
    let mut visit = Visit::new(&Account::unlimited());
    visit.door.turns.shares.wait_as(|| None);
    let mut notes = Notes::default();
    let owner = visit.door.connections[&visit.connection].place.owner;
    let other = visit.door.turns.shares.join(&Proc::new(Nspace::new("job").unwrap(), Rank(2)), None);
    while !visit.door.turns.shares.is_held(owner) {
        visit.door.turns.shares.begin_turn(other);
        visit.door.turns.shares.begin_turn(owner);
        visit.door.turns.shares.spend(owner, Duration::from_millis(5));
    }
    visit.door.send(1, event(900_000), &mut notes);
    visit.peer.shutdown(std::net::Shutdown::Both).unwrap();
    visit.door.ready(1, Ready { readable: true, writable: true, ended: true }, &mut notes);
    assert!(notes.left.is_empty());
    let until = visit.door.turns.shares.next_release().unwrap();
    visit.door.tick(until, &mut notes);
    assert_eq!((&notes.left[..], visit.door.connections.len()), (&[Left::Closed][..], 0));
}

#[test]
fn a_request_that_could_not_be_read_within_the_limit_is_refused() {
    let account = Account::of_job("job", 1 << 20);
    let mut visit = Visit::new(&account);
    let mut notes = Notes::default();
    for (number, bytes) in [(1, 900_000), (2, 400_000)] {
        for chunk in large(number, bytes).chunks(50_000) {
            visit.peer.write_all(chunk).unwrap();
            visit.turn(&mut notes);
        }
    }
    assert_eq!((&notes.refused[..], notes.asked.len(), account.used()), (&[1][..], 1, 0));
}

impl Visit {
    /// Serves the peer while it reads so many frames, and returns the answers among them.
    fn hear(&mut self, frames: usize) -> Vec<(u64, Reply)> {
        let mut stream = self.peer.try_clone().unwrap();
        let heard = std::thread::spawn(move || {
            let frame = |stream: &mut UnixStream| {
                let mut header = [0; frame::HEADER];
                std::io::Read::read_exact(stream, &mut header).unwrap();
                let header = Header::parse(&header, MAX_BODY).unwrap();
                let mut body = vec![0; header.body];
                std::io::Read::read_exact(stream, &mut body).unwrap();
                (header, body)
            };
            let all = (0..frames).map(|_| frame(&mut stream)).collect::<Vec<_>>();
            let replies = all.into_iter().filter(|(header, _)| header.kind == Kind::Reply);
            replies.map(|(header, body)| (header.number, frame::decode(header.kind, &body).unwrap())).collect()
        });
        while !heard.is_finished() {
            let mut events = mio::Events::with_capacity(8);
            self.poll.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
            for event in &events {
                let ready = Ready { readable: event.is_readable(), writable: event.is_writable(), ended: false };
                self.door.ready(event.token().0 as u64, ready, &mut Nobody);
            }
            self.door.tick(Instant::now(), &mut Nobody);
        }
        heard.join().unwrap()
    }
}

#[test]
fn what_is_queued_for_a_peer_waits_until_it_is_flushed() {
    let account = Account::of_job("job", 1 << 20);
    let mut visit = Visit::new(&account);
    let reply = Reply::Done(Status::SUCCESS);
    visit.hear(1);
    for number in 1..=3 {
        visit.door.queue(1, Outgoing::Reply { number, reply: reply.clone(), descriptors: Vec::new() }, &mut Nobody);
    }
    visit.peer.set_nonblocking(true).unwrap();
    let nothing = std::io::Read::read(&mut visit.peer, &mut [0; 64]).unwrap_err();
    assert_eq!((nothing.kind(), account.used()), (io::ErrorKind::WouldBlock, 0), "a few are not charged");
    visit.peer.set_nonblocking(false).unwrap();
    visit.door.flush(1, &mut Nobody);
    assert!(visit.hear(3).into_iter().eq((1..=3).map(|number| (number, reply.clone()))));
}

#[test]
fn a_long_answer_is_made_by_a_thread_and_keeps_its_place() {
    let account = Account::of_job("job", 8 << 20);
    let mut visit = Visit::new(&account);
    let (by, made) = std::sync::mpsc::channel();
    let long = Reply::Value(crate::data::Value::from(vec![7u8; 1 << 20]));
    let (short, reply) = (Reply::Done(Status::SUCCESS), long.clone());
    let answer = Making::new(1 << 20, move || {
        by.send(std::thread::current().id()).unwrap();
        reply
    });
    visit.door.send(1, Outgoing::Made { number: 1, answer }, &mut Nobody);
    for (number, reply) in [(2, short.clone()), (3, long.clone())] {
        visit.door.send(1, Outgoing::Reply { number, reply, descriptors: Vec::new() }, &mut Nobody);
    }
    assert!(account.used() >= 2 << 20, "charged before they are made");
    assert_eq!(visit.hear(4), [(1, long.clone()), (2, short), (3, long)]);
    assert_ne!(made.recv().unwrap(), std::thread::current().id());
    assert_eq!(account.used(), 0);
}

#[test]
fn long_answers_are_made_as_the_peer_takes_those_before() {
    const ANSWERS: u64 = 100;
    let account = Account::of_job("job", 10 << 20);
    let mut visit = Visit::new(&account);
    let reply = |number: u64| Reply::Value(crate::data::Value::from(vec![number as u8; 1 << 20]));
    for number in 0..ANSWERS {
        let answer = Making::light(1 << 20, move || reply(number)).let_wait(&account);
        visit.door.send(1, Outgoing::Made { number, answer }, &mut Nobody);
    }
    // More than a peer may leave unread, and than its account has room for. The welcome comes first.
    let heard = visit.hear(ANSWERS as usize + 1);
    assert!(heard.into_iter().eq((0..ANSWERS).map(|number| (number, reply(number)))));
    assert_eq!(account.used(), 0);
}

#[test]
fn long_answers_that_wait_in_vain_are_refused_one_after_another() {
    const ANSWERS: u64 = 5000;
    let account = Account::of_job("job", 40 << 20);
    let mut visit = Visit::new(&account);
    // It is sent in turns: what comes behind it waits.
    let before = Reply::Value(crate::data::Value::from(vec![0u8; 200 << 10]));
    visit.door.send(1, Outgoing::Reply { number: 0, reply: before.clone(), descriptors: Vec::new() }, &mut Nobody);
    for number in 1..=ANSWERS {
        let answer = Making::light(50 << 20, || panic!("it has no room")).let_wait(&account);
        visit.door.send(1, Outgoing::Made { number, answer }, &mut Nobody);
    }
    let refusals = (1..=ANSWERS).map(|number| (number, Reply::Done(Status::ERR_OUT_OF_RESOURCE)));
    assert!(visit.hear(ANSWERS as usize + 2).into_iter().eq(std::iter::once((0, before)).chain(refusals)));
    assert_eq!(account.used(), 0);
}

#[test]
fn what_is_made_for_a_peer_that_is_gone_leaves_nothing() {
    let account = Account::of_job("job", 8 << 20);
    let (mut visit, mut notes) = (Visit::new(&account), Notes::default());
    let (begin, begins) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (made, makes) = std::sync::mpsc::channel();
    let first = Making::new(1 << 20, move || {
        begun.send(()).unwrap();
        begins.recv().unwrap();
        Reply::Done(Status::SUCCESS)
    });
    let second = Making::new(1 << 20, move || {
        made.send(()).unwrap();
        Reply::Done(Status::SUCCESS)
    });
    for (number, answer) in [(1, first), (2, second)] {
        visit.door.send(1, Outgoing::Made { number, answer }, &mut notes);
    }
    // An answer that no thread has begun with is not made at all.
    has_begun.recv().unwrap();
    visit.peer.shutdown(std::net::Shutdown::Both).unwrap();
    visit.turn(&mut notes);
    assert_eq!((&notes.left[..], account.used()), (&[Left::Closed][..], 0));
    begin.send(()).unwrap();
    assert!(makes.recv().is_err(), "it is made for nobody");
}
