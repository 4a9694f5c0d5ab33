//! Tests of the door: strangers, messages in pieces, those that are too long, and ends in the middle.
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use nix::unistd::getuid;

use super::*;
use crate::account::Account;
use crate::control::bind::{FOR_JOBS, bind_abstract};
use crate::data::{Proc, Rank, Status};
use crate::message::door::User;
use crate::message::{Reply, Request};
use crate::pmi::waiters::WOKEN;
use crate::pmi::words::frame;
use crate::stock::testing::{Job, nspace};
use crate::transport::shares::STRANGERS;

/// Server's side that notes what it hears.
#[derive(Default)]
struct Notes {
    arrived: Vec<(PeerId, Proc)>,
    asked: Vec<(PeerId, u64, Request)>,
    left: Vec<(PeerId, Left)>,
}

impl Callers for Notes {
    fn expects(&self, _: &Proc, token: &[u8; 32], user: User) -> bool {
        *token == TOKEN && user.uid == getuid().as_raw()
    }
    fn arrived(&mut self, peer: PeerId, arrival: Arrival) {
        let Claim::Process { proc, token: Some(TOKEN) } = arrival.claim else { panic!("{:?}", arrival.claim) };
        self.arrived.push((peer, proc));
    }
    fn asked(&mut self, peer: PeerId, number: u64, request: Request, _: usize) {
        self.asked.push((peer, number, request));
    }
    fn refused(&mut self, _: PeerId, _: u64) {}
    fn meets(&mut self, _: PeerId, _: u64, _: u32, _: bool) {}
    fn left(&mut self, peer: PeerId, how: Left) {
        self.left.push((peer, how));
    }
}

const READY: Ready = Ready { readable: true, writable: false, ended: false };
const TOKEN: [u8; 32] = [7; 32];
const INIT_1: &[u8] = b"cmd=init pmi_version=1 pmi_subversion=1\n";

/// Door with one connection.
struct Visit {
    door: PmiListener,
    peer: UnixStream,
    connection: u64,
    notes: Notes,
    account: Account,
    name: String,
    _poll: mio::Poll,
}

impl Visit {
    /// A connection of which nothing is known, at the door of that user.
    fn of_user(uid: u32) -> Visit {
        let (socket, name) = bind_abstract(FOR_JOBS).unwrap();
        let poll = mio::Poll::new().unwrap();
        let registry = poll.registry().try_clone().unwrap();
        let mut door = PmiListener::new(0, registry, 0, socket, uid, &Common::default()).unwrap();
        let peer = connect(&name);
        let mut notes = Notes::default();
        door.ready(0, READY, &mut notes);
        Visit { door, peer, connection: 1, notes, account: Account::of_job("job", 1 << 20), name, _poll: poll }
    }

    fn unknown() -> Visit {
        Self::of_user(getuid().as_raw())
    }

    /// Visit of a process whose seat is named.
    fn seated() -> Visit {
        let mut visit = Self::unknown();
        visit.say(&seat::line(&proc(), &TOKEN));
        visit
    }

    /// Visit of a process that is in, in PMI-1 or PMI-2.
    fn admitted(version: u8) -> Visit {
        let mut visit = Self::seated();
        visit.say(format!("cmd=init pmi_version={version} pmi_subversion=0\n").as_bytes());
        visit.admit();
        let heard = visit.heard();
        assert_eq!(heard, format!("cmd=response_to_init pmi_version={version} pmi_subversion=0 rc=0\n"));
        visit
    }

    fn admit(&mut self) {
        let (server, uri, parts) = (proc(), String::new(), Vec::new());
        let (job_info, account) = (Some(Job::new(1, 2) as _), self.account.clone());
        self.connection = self.notes.arrived.last().expect("it has arrived").0.connection;
        let accepted = Outgoing::Accepted { server, uri, proc: proc(), parts, job_info, account };
        Door::send(&mut self.door, self.connection, accepted, &mut self.notes);
        self.go_on();
    }

    /// Has the door take in some bytes.
    fn say(&mut self, bytes: &[u8]) {
        // A door that has cut it off hears nothing.
        let _ = self.peer.write_all(bytes);
        self.door.ready(self.connection, READY, &mut self.notes);
        self.go_on();
    }

    /// Gives it the turns that it waits for.
    fn go_on(&mut self) {
        while self.door.turns.deadline().is_some() {
            self.door.tick(Instant::now(), &mut self.notes);
        }
    }

    /// All that the process can read now.
    fn heard(&mut self) -> String {
        let mut heard = Vec::new();
        match self.peer.read_to_end(&mut heard) {
            Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionReset) => panic!("{e}"),
            _ => String::from_utf8(heard).unwrap(),
        }
    }

    /// Answers the last request of the process.
    fn reply(&mut self, reply: Reply) {
        let (peer, number, _) = self.notes.asked.last().expect("it has asked");
        let (connection, number) = (peer.connection, *number);
        let answer = Outgoing::Reply { number, reply, descriptors: Vec::new() };
        Door::send(&mut self.door, connection, answer, &mut self.notes);
        self.go_on();
    }

    /// The other end closes.
    fn end(&mut self) {
        self.peer.shutdown(std::net::Shutdown::Write).unwrap();
        self.door.ready(self.connection, Ready { ended: true, ..READY }, &mut self.notes);
        self.go_on();
    }

    fn is_there(&self) -> bool {
        self.door.connections.contains_key(&self.connection)
    }

    fn left(&self) -> Vec<Left> {
        self.notes.left.iter().map(|(_, how)| *how).collect()
    }
}

fn connect(name: &str) -> UnixStream {
    let peer = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    peer.set_nonblocking(true).unwrap();
    peer
}

fn proc() -> Proc {
    Proc::new(nspace(), Rank(1))
}

#[test]
fn strangers_are_cut_off_and_the_server_hears_nothing_of_them() {
    let long = vec![b'a'; FIRST];
    let long_seat = [&b"cmd=seat x="[..], &long, b" ", &seat::line(&proc(), &TOKEN)[9..]].concat();
    for first in [
        &b"GET / HTTP/1.1\n"[..],
        b"cmd=init pmi_version=1 pmi_subversion=1\n",
        b"cmd=seat nspace=6a rank=0\n",
        b"cmd=seat nspace=6a rank=0 token=00\0\n",
        b"\n",
        &long,
        &long_seat,
        &seat::line(&proc(), &[8; 32]),
    ] {
        let mut visit = Visit::unknown();
        visit.say(first);
        assert!(!visit.is_there(), "{:?}", first.escape_ascii().to_string());
        assert!(visit.notes.arrived.is_empty() && visit.notes.left.is_empty());
        assert_eq!(visit.heard(), "");
    }
    let foreign = Visit::of_user(getuid().as_raw() + 1);
    assert!(!foreign.is_there(), "another user's");
    let mut silent = Visit::unknown();
    silent.say(b"cmd=se");
    let late = silent.door.lobby.last_deadline().expect("a limit");
    silent.door.tick(late, &mut silent.notes);
    assert!(!silent.is_there());
    let mut gone = Visit::unknown();
    gone.say(b"cmd=seat nspa");
    gone.end();
    assert!(!gone.is_there() && gone.notes.left.is_empty());
}

#[test]
fn a_crowd_that_comes_while_a_process_is_heard_out_has_the_next_turns() {
    const FEW: usize = 40;
    let mut visit = Visit::unknown();
    visit.door.turns.shares.wait_as(|| None);
    // Those that are gone again wait at the door all the same.
    (0..2 * FEW).for_each(|_| drop(connect(&visit.name)));
    visit.door.out_of_turn = FEW;
    let other = Proc::new(nspace(), Rank(0));
    assert!(
        !visit.door.hear_out(&other, None, &mut visit.notes) && !visit.door.hear_out(&other, None, &mut visit.notes)
    );
    assert_eq!(visit.door.last, 1 + FEW as u64, "for all that have ended since its last turn");
    let mut turns = 0;
    while visit.door.last < 1 + 2 * FEW as u64 {
        assert!(turns < 100, "{}", visit.door.last);
        turns += 1;
        let next = visit.door.deadline().expect("a turn");
        visit.door.tick(next, &mut visit.notes);
    }
    assert!(turns >= FEW / 16 && visit.door.out_of_turn > FEW, "{turns}");
}

#[test]
fn who_connects_takes_the_time_of_strangers() {
    let mut visit = Visit::unknown();
    let shares = visit.door.turns.shares.clone();
    shares.wait_as(|| None);
    let other = shares.join(&proc(), None);
    while !shares.is_held(STRANGERS) {
        shares.begin_turn(other);
        shares.begin_turn(STRANGERS);
        shares.spend(STRANGERS, Duration::from_millis(5));
    }
    let _late = connect(&visit.name);
    visit.door.ready(0, READY, &mut visit.notes);
    assert_eq!(visit.door.last, 1, "it waits");
    for _ in 0..100 {
        if visit.door.last > 1 {
            break;
        }
        let next = visit.door.deadline().expect("a turn");
        visit.door.tick(next, &mut visit.notes);
    }
    assert_eq!(visit.door.last, 2, "until they are held no more");
}

#[test]
fn a_process_has_so_many_seats_that_are_silent_and_no_more() {
    let mut visit = Visit::seated();
    let more: Vec<UnixStream> = (0..20).map(|_| connect(&visit.name)).collect();
    visit.door.ready(0, READY, &mut visit.notes);
    visit.door.accept(&mut visit.notes);
    for (mut peer, id) in more.iter().zip(2..) {
        peer.write_all(&seat::line(&proc(), &TOKEN)).unwrap();
        visit.door.ready(id, READY, &mut visit.notes);
    }
    visit.go_on();
    assert_eq!((visit.door.connections.len(), visit.door.last), (16, 21));
    visit.connection = 1;
    visit.say(INIT_1);
    visit.admit();
    assert!(visit.heard().ends_with("rc=0\n"), "the first is that of the launcher");
}

#[test]
fn a_process_says_which_version_it_speaks_and_may_be_refused() {
    let mut visit = Visit::seated();
    assert!(visit.notes.arrived.is_empty(), "it has said nothing yet");
    visit.say(b"cmd=init pmi_version=9 pmi_subversion=0\n");
    assert_eq!(visit.heard(), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
    for piece in INIT_1.chunks(7) {
        visit.say(piece);
    }
    assert_eq!(visit.notes.arrived, [(PeerId { door: 0, connection: 1 }, proc())]);
    let refusal = Outgoing::Refused { status: Status::ERR_NO_PERMISSIONS, reason: String::new() };
    Door::send(&mut visit.door, 1, refusal, &mut visit.notes);
    assert_eq!(visit.heard(), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
    assert!(!visit.is_there() && visit.notes.left.is_empty(), "the server knows that it has refused it");
    let mut gone = Visit::seated();
    gone.say(INIT_1);
    gone.end();
    assert_eq!(gone.left(), [Left::Closed], "one that asks is told to have gone");
}

#[test]
fn lines_come_in_pieces_and_several_at_a_time() {
    let mut visit = Visit::admitted(1);
    for piece in b"cmd=get_appnum\n".chunks(4) {
        visit.say(piece);
    }
    assert_eq!(visit.heard(), "cmd=appnum rc=0 appnum=0\n");
    visit.say(b"cmd=get_my_kvsname\ncmd=barrier_in\ncmd=get_appnum\ncmd=get_ma");
    assert_eq!(visit.heard(), "cmd=my_kvsname rc=0 kvsname=job\n");
    assert!(matches!(visit.notes.asked[..], [(_, _, Request::Fence { .. })]), "the rest waits");
    visit.reply(Reply::Done(Status::SUCCESS));
    assert_eq!(visit.heard(), "cmd=barrier_out rc=0\ncmd=appnum rc=0 appnum=0\n");
    visit.say(b"xes\n");
    assert!(visit.heard().starts_with("cmd=maxes rc=0 "));
}

#[test]
fn frames_come_in_pieces_and_several_at_a_time() {
    let mut visit = Visit::admitted(2);
    let both = [frame(&[("cmd", b"job-getid")]), frame(&[("cmd", b"kvs-fence"), ("thrid", b"a")])].concat();
    let (first, rest) = both.split_at(9);
    visit.say(first);
    assert_eq!(visit.heard(), "");
    visit.say(rest);
    assert_eq!(visit.heard(), "    38cmd=job-getid-response;rc=0;jobid=job;");
    // In frames nobody waits for an answer.
    visit.say(&frame(&[("cmd", b"job-getid"), ("thrid", b"b")]));
    visit.reply(Reply::Done(Status::SUCCESS));
    assert!(visit.heard().ends_with("cmd=kvs-fence-response;thrid=a;rc=0;"));
}

#[test]
fn who_breaks_the_protocol_is_cut_off_and_who_ends_in_the_middle_has_left() {
    let long = vec![b'a'; LONGEST];
    let token = frame(&[("cmd", b"kvs-fence"), ("thrid", &[b't'; 300])]);
    for (version, bad) in [
        (1, &long[..]),
        (1, b"get_appnum\n"),
        (1, b"cmd=put key=\0\n"),
        (2, b"99999 cmd="),
        (2, b"cmd=kvs-fence;"),
        (2, b"     7key=a;b"),
        (2, &token),
    ] {
        let mut visit = Visit::admitted(version);
        visit.say(bad);
        assert_eq!(visit.left(), [Left::Cut], "{:?}", bad[..bad.len().min(80)].escape_ascii().to_string());
        assert!(!visit.is_there());
    }
    for (version, part) in [(1, &b"cmd=barrier"[..]), (1, b"mcmd=spawn\nnprocs=1\n"), (2, b"    40cmd=kvs")] {
        let mut visit = Visit::admitted(version);
        visit.say(part);
        visit.end();
        assert_eq!(visit.left(), [Left::Closed]);
        assert!(!visit.is_there() && visit.notes.asked.is_empty() && visit.account.used() == 0);
    }
}

#[test]
fn what_was_said_before_the_end_is_heard() {
    let mut visit = Visit::admitted(1);
    visit.peer.write_all(b"cmd=abort exitcode=3\n").unwrap();
    visit.end();
    assert!(matches!(visit.notes.asked[..], [(_, _, Request::Abort { status: 3, .. })]));
    assert_eq!(visit.left(), [Left::Closed]);
}

/// An abort is the last that was asked, and the connection is gone.
fn assert_aborts(visit: &Visit) {
    let last = visit.notes.asked.last();
    assert!(matches!(last, Some((_, _, Request::Abort { status: 3, .. }))), "{last:?}");
    assert_eq!((visit.is_there(), visit.left()), (false, vec![Left::Closed]));
}

#[test]
fn what_was_said_before_the_end_is_heard_though_it_was_not_let_in() {
    let mut visit = Visit::seated();
    visit.say(INIT_1);
    visit.peer.write_all(b"cmd=abort exitcode=3\n").unwrap();
    // The answer to its Init finds nobody who reads.
    let (none, _) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut visit.peer, none));
    visit.door.ready(visit.connection, Ready { ended: true, ..READY }, &mut visit.notes);
    visit.admit();
    assert_aborts(&visit);
}

#[test]
fn what_comes_behind_a_request_that_waits_is_heard_at_the_end() {
    let mut visit = Visit::admitted(1);
    visit.peer.write_all(b"cmd=barrier_in\ncmd=put kvsname=job key=a value=b\ncmd=abort exitcode=3\n").unwrap();
    visit.end();
    assert_aborts(&visit);
}

#[test]
fn a_process_that_has_ended_is_heard_out_though_another_holds_its_connection() {
    let mut visit = Visit::admitted(1);
    visit.peer.write_all(b"cmd=abort exitcode=3\n").unwrap();
    assert!(!visit.door.hear_out(&Proc::new(nspace(), Rank(0)), None, &mut visit.notes), "it is another's");
    assert!(visit.door.hear_out(&proc(), None, &mut visit.notes));
    // A request that comes after its end is another's.
    visit.peer.write_all(b"cmd=get_appnum\n").unwrap();
    visit.go_on();
    assert_aborts(&visit);

    let mut silent = Visit::admitted(1);
    assert!(silent.door.hear_out(&proc(), None, &mut silent.notes));
    silent.go_on();
    assert!(!silent.is_there() && silent.notes.asked.is_empty());
    assert!(!silent.door.hear_out(&proc(), None, &mut silent.notes));
}

#[test]
fn a_process_that_has_ended_is_heard_out_though_nobody_has_taken_it_in() {
    let mut visit = Visit::unknown();
    visit.peer.write_all(&[&seat::line(&proc(), &TOKEN)[..], INIT_1, b"cmd=abort exitcode=3\n"].concat()).unwrap();
    assert!(visit.door.hear_out(&proc(), None, &mut visit.notes));
    visit.admit();
    assert_aborts(&visit);

    let mut silent = Visit::seated();
    assert!(silent.door.hear_out(&proc(), None, &mut silent.notes));
    assert!(!silent.is_there() && silent.left().is_empty(), "the server knows nothing of it");
}

#[test]
fn lines_of_a_spawn_are_charged_and_one_without_room_is_refused() {
    let mut visit = Visit::admitted(1);
    let line = [b"arg1=".to_vec(), vec![b'x'; 50_000], b"\n".to_vec()].concat();
    visit.say(b"mcmd=spawn\n");
    visit.say(&line);
    assert!(visit.account.used() > 50_000, "{}", visit.account.used());
    for _ in 0..30 {
        visit.say(&line);
    }
    assert_eq!((visit.account.used(), visit.heard().as_str()), (0, ""), "nothing of it is kept");
    visit.say(b"endcmd\n");
    let heard = visit.heard();
    assert!(heard.starts_with("cmd=spawn_result rc=-1 msg=") && visit.notes.asked.is_empty(), "{heard}");
    visit.say(b"mcmd=spawn\nnprocs=1\nexecname=a\nendcmd\n");
    assert!(matches!(visit.notes.asked[..], [(_, _, Request::Forward(_))]), "the next one is served");
}

#[test]
fn a_process_that_has_finalized_may_begin_once_more() {
    for version in [1, 2] {
        let mut visit = Visit::admitted(version);
        match version {
            1 => visit.say(b"cmd=finalize\n"),
            _ => visit.say(&frame(&[("cmd", b"finalize")])),
        }
        visit.reply(Reply::Done(Status::SUCCESS));
        visit.say(b"cmd=in");
        assert!(visit.heard().contains("finalize") && visit.notes.left.is_empty());
        let again = if version == 1 { 2 } else { 1 };
        visit.say(format!("it pmi_version={again} pmi_subversion=0\n").as_bytes());
        assert_eq!(visit.left(), [Left::Closed], "the first peer is gone");
        visit.admit();
        let [(first, _), (second, _)] = visit.notes.arrived[..] else { panic!("{:?}", visit.notes.arrived) };
        assert_ne!(first, second);
        assert!(visit.heard().ends_with(&format!("cmd=response_to_init pmi_version={again} pmi_subversion=0 rc=0\n")));
        match again {
            1 => visit.say(b"cmd=get_appnum\n"),
            _ => visit.say(&frame(&[("cmd", b"job-getid")])),
        }
        assert!(visit.heard().contains("rc=0"));
    }
}

#[test]
fn much_is_sent_in_turns_of_its_process() {
    let mut visit = Visit::admitted(1);
    let few = vec![b'a'; 1000];
    visit.door.send(visit.connection, few, &mut visit.notes).unwrap();
    assert_eq!(visit.heard().len(), 1000);
    visit.door.send(visit.connection, vec![b'a'; 400_000], &mut visit.notes).unwrap();
    assert_eq!(visit.heard(), "", "it has a turn of its own");
    let (begin, mut heard) = (Instant::now(), 0);
    let writable = Ready { readable: false, writable: true, ended: false };
    while heard < 400_000 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{heard}");
        visit.door.tick(Instant::now(), &mut visit.notes);
        heard += visit.heard().len();
        visit.door.ready(visit.connection, writable, &mut visit.notes);
    }
}

#[test]
fn many_who_wait_for_an_attribute_are_woken_in_slices_and_forgotten_at_the_end() {
    let mut visit = Visit::admitted(2);
    let many = 2 * WOKEN + 1;
    for _ in 0..many {
        visit.say(&frame(&[("cmd", b"info-getnodeattr"), ("key", b"k"), ("wait", b"TRUE")]));
        visit.reply(Reply::Done(Status::ERR_NOT_FOUND));
    }
    assert!(visit.account.used() > (many << 10) as u64, "they are charged while they wait");
    visit.say(&frame(&[("cmd", b"info-putnodeattr"), ("key", b"k"), ("value", b"v")]));
    let before = visit.notes.asked.len();
    visit.reply(Reply::Done(Status::SUCCESS));
    while visit.door.waiters.are_due() {
        let asked = visit.notes.asked.len();
        let next = visit.door.deadline().expect("a turn");
        visit.door.tick(next, &mut visit.notes);
        assert!(visit.notes.asked.len() <= asked + WOKEN);
    }
    assert_eq!(visit.notes.asked.len(), before + many);
    visit.reply(Reply::Done(Status::ERR_NOT_FOUND));
    visit.end();
    assert!(!visit.is_there() && visit.account.used() == 0 && !visit.door.waiters.are_due());
}
