//! Readers that find their writer by its address.
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::remote::PATIENCE;
use super::*;
use crate::data::{Info, Key, Nspace, Posted, Rank, Scope, Value, keys};
use crate::store::{Budget, JobInfo, JobWriter, Limits, Miss, Question};
use crate::sys::socket::{self, Door};

fn writer(limits: &Limits) -> JobWriter {
    let nspace = Nspace::new("job@1").unwrap();
    let info = JobInfo::from_infos(&nspace, 2, &[Info::new(keys::JOB_SIZE, 2u32)], "here").unwrap();
    JobWriter::create(&nspace, info, limits).unwrap()
}

fn post(writer: &mut JobWriter, name: &str, value: impl Into<Value>) {
    writer.update(Rank(0), &[Posted::new(Scope::GLOBAL, Key::new(name).unwrap(), value)]).unwrap();
}

/// Serves until `of` has come to its end.
fn serve<T>(listener: &mut Listener, writer: &mut JobWriter, of: JoinHandle<T>) -> T {
    while !of.is_finished() {
        let mut ready = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        poll(&mut ready, PollTimeout::from(5u8)).unwrap();
        listener.serve(writer).unwrap();
    }
    of.join().unwrap()
}

#[test]
fn a_reader_keeps_up_with_its_writer() {
    let (mut listener, mut writer) = (Listener::open().unwrap(), writer(&Limits::default()));
    post(&mut writer, "card", 1u32);
    let address = listener.address().to_owned();
    let opened = thread::spawn(move || RemoteReader::open(&address).unwrap());
    let reader = serve(&mut listener, &mut writer, opened);
    assert_eq!(reader.get(&Question::new(Rank(0), "card")).unwrap(), Value::from(1u32));
    assert_eq!(reader.reader().nspace().unwrap(), Nspace::new("job@1").unwrap());
    assert!(matches!(reader.get(&Question::new(Rank(1), "card")), Err(RemoteMiss::Miss(Miss::NotFound))));

    // More than its segments hold, then other job information.
    post(&mut writer, "large", vec![7u8; 3 << 20]);
    let nspace = writer.nspace().clone();
    writer.replace_info(JobInfo::from_infos(&nspace, 2, &[Info::new("site", "new")], "here").unwrap()).unwrap();
    // No time is too long.
    reader.set_patience(Duration::MAX);
    let looking = thread::spawn(move || {
        let large = Question::new(Rank(0), "large");
        assert!(matches!(reader.reader().get(&large), Err(Miss::Unmapped(_))));
        assert_eq!(reader.get(&large).unwrap().as_bytes().map(<[u8]>::len), Some(3 << 20));
        assert_eq!(reader.get(&Question::new(Rank::WILDCARD, "site")).unwrap(), Value::from("new"));
        let guard = reader.pin().unwrap();
        assert_eq!(guard.get(&large).unwrap().bytes().len(), 3 << 20);
        drop(guard);
        reader
    });
    let reader = serve(&mut listener, &mut writer, looking);
    assert_eq!(listener.readers(), 1);

    // Its writer is gone: what is mapped stays, what is not is said to be missing, and nobody waits.
    let later = Posted::new(Scope::GLOBAL, Key::new("later").unwrap(), vec![7u8; 32 << 20]);
    writer.update(Rank(1), &[later]).unwrap();
    drop((listener, writer));
    assert_eq!(reader.get(&Question::new(Rank(0), "card")).unwrap(), Value::from(1u32));
    assert!(matches!(reader.get(&Question::new(Rank(1), "later")), Err(RemoteMiss::Link(LinkError::Lost(_)))));
    assert_eq!(reader.wait(reader.reader().releases(), None), Waited::WriterGone);
    assert_eq!(reader.wait(reader.reader().releases(), Some(Duration::ZERO)), Waited::TimedOut);
}

#[test]
fn an_answer_that_comes_late_costs_neither_the_connection_nor_what_guards_hold() {
    let (mut listener, mut writer) = (Listener::open().unwrap(), writer(&Limits::default()));
    post(&mut writer, "card", vec![1u8; 4096]);
    let address = listener.address().to_owned();
    let opened = thread::spawn(move || RemoteReader::open(&address).unwrap());
    let reader = serve(&mut listener, &mut writer, opened);
    let (card, large) = (Question::new(Rank(0), "card"), Question::new(Rank(0), "large"));
    let guard = reader.pin().unwrap();
    let held = guard.get(&card).unwrap();

    post(&mut writer, "large", vec![7u8; 3 << 20]);
    reader.set_patience(Duration::from_millis(1));
    for _ in 0..2 {
        // Nobody serves, and the second look waits for the answer to the first.
        let late = reader.get(&large);
        assert!(matches!(late, Err(RemoteMiss::Link(LinkError::Lost(e))) if e.kind() == std::io::ErrorKind::TimedOut));
    }
    assert_eq!(reader.wait(0, Some(Duration::ZERO)), Waited::TimedOut);
    for round in 0..1000 {
        post(&mut writer, "card", vec![round as u8 | 2; 4096]);
        listener.serve(&mut writer).unwrap();
    }
    writer.reclaim();
    assert!(held.bytes().iter().all(|byte| *byte == 1), "the writer has forgotten the reader's page");
    assert_eq!(listener.readers(), 1);
    reader.set_patience(PATIENCE);
    let found = thread::scope(|scope| {
        let looking = scope.spawn(|| reader.get(&large).unwrap());
        while !looking.is_finished() {
            listener.serve(&mut writer).unwrap();
        }
        looking.join().unwrap()
    });
    assert_eq!(found.as_bytes().map(<[u8]>::len), Some(3 << 20));
}

#[test]
fn a_reader_asks_again_where_descriptors_could_not_be_passed() {
    let mut writer = writer(&Limits::default());
    post(&mut writer, "card", 1u32);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let opened = thread::spawn(move || RemoteReader::over(theirs).unwrap());
    let asked = || {
        let mut request = [0; message::REQUEST];
        (&ours).read_exact(&mut request).unwrap();
        message::Request::from_bytes(&request).unwrap()
    };
    let answer = |outcome, all: &[_]| socket::send(&ours, &message::answer(outcome, all.len()), all).unwrap();
    for (wish, outcome) in
        [(message::Wish::Page, message::Outcome::NoRoom), (message::Wish::Segments, message::Outcome::Given)]
    {
        assert_eq!(asked().wish, wish);
        answer(message::Outcome::Later, &[]);
        let request = asked();
        assert_eq!(request.wish, wish);
        let all = writer.segments(&request.have).into_iter().map(|(_, descriptor)| descriptor);
        let all: Vec<_> = all.filter(|_| wish == message::Wish::Segments).collect();
        answer(outcome, &all);
    }
    let reader = opened.join().unwrap();
    assert_eq!(reader.get(&Question::new(Rank(0), "card")).unwrap(), Value::from(1u32));
}

#[test]
fn whoever_waits_is_told_of_what_comes() {
    let (mut listener, mut writer) = (Listener::open().unwrap(), writer(&Limits::default()));
    let (ours, theirs) = UnixStream::pair().unwrap();
    listener.adopt(ours).unwrap();
    let opened = thread::spawn(move || RemoteReader::over(theirs).unwrap());
    let reader = serve(&mut listener, &mut writer, opened);
    let early = reader.get_when_there(&Question::new(Rank(0), "card"), Some(Duration::ZERO));
    assert!(matches!(early, Err(RemoteMiss::Miss(Miss::NotFound))));
    let waiting = thread::spawn(move || reader.get_when_there(&Question::new(Rank(0), "card"), None).unwrap());
    post(&mut writer, "other", 1u32);
    writer.release();
    post(&mut writer, "card", vec![1u8; 1 << 20]);
    writer.release();
    assert_eq!(serve(&mut listener, &mut writer, waiting), Value::from(vec![1u8; 1 << 20]));
}

#[test]
fn strangers_and_nonsense_are_cut_off_and_nobody_else() {
    let limits = Limits::default();
    let (mut listener, mut writer) = (Listener::open().unwrap(), writer(&limits));
    let before = limits.budget.used();
    let address = listener.address().to_owned();
    let (name, token) = message::parse(&address).map(|(name, token)| (name.to_owned(), token)).unwrap();
    let mut wrong = token;
    wrong[15] ^= 1;
    let wrong = message::address(&name, &wrong);
    let refused = thread::spawn(move || RemoteReader::open(&wrong).err().unwrap());
    let refused = serve(&mut listener, &mut writer, refused);
    assert!(matches!(refused, OpenError::Link(LinkError::Refused)), "{refused}");

    let nonsense = socket::connect(&Door::Abstract(&name), None).unwrap();
    socket::send(&nonsense, &[0x20; message::REQUEST], &[]).unwrap();
    let slow = socket::connect(&Door::Abstract(&name), None).unwrap();
    socket::send(&slow, b"INSH", &[]).unwrap();
    let opened = thread::spawn(move || RemoteReader::open(&address).unwrap());
    let reader = serve(&mut listener, &mut writer, opened);
    assert_eq!(listener.readers(), 2, "the slow one and the reader");
    assert_eq!(socket::receive(&nonsense, &mut [0; 8], &mut Vec::new()).unwrap().bytes, 0);

    // A peer that asks and never reads.
    let greedy = message::Request { wish: message::Wish::Segments, token, have: Default::default() }.to_bytes();
    for _ in 0..1000 {
        let Ok(_) = socket::send(&slow, &greedy, &[]) else { break };
        listener.serve(&mut writer).unwrap();
    }
    assert_eq!(listener.readers(), 1);
    assert!(limits.budget.used() > before, "the reader has a page");
    drop(reader);
    listener.serve(&mut writer).unwrap();
    assert_eq!((listener.readers(), limits.budget.used()), (0, before));
    for none in ["", "instanton-store:1:", "instanton-store:1:x:00"] {
        assert!(matches!(RemoteReader::open(none), Err(OpenError::Address)), "{none}");
    }
    let newer = RemoteReader::open("instanton-store:2:x:00112233445566778899aabbccddeeff");
    assert!(matches!(newer, Err(OpenError::Version(2))));
}

#[test]
fn a_reader_that_sends_descriptors_is_refused_or_cut_off() {
    let (mut listener, mut writer) = (Listener::open().unwrap(), writer(&Limits::default()));
    let (theirs, ours) = UnixStream::pair().unwrap();
    listener.adopt(ours).unwrap();
    match socket::send(&theirs, b"x", &[theirs.as_fd()]) {
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        // The kernel is older.
        Ok(_) => {
            listener.serve(&mut writer).unwrap();
            assert_eq!(listener.readers(), 0);
        }
    }
}

#[test]
fn a_reader_that_gets_no_page_copies() {
    let mut writer = writer(&Limits { budget: Budget::new(1 << 20), ..Limits::default() });
    post(&mut writer, "card", 1u32);
    let mut pages = Vec::new();
    while let Ok(page) = writer.make_reader_page() {
        pages.push(page);
    }
    let mut listener = Listener::open().unwrap();
    let address = listener.address().to_owned();
    let reader = serve(&mut listener, &mut writer, thread::spawn(move || RemoteReader::open(&address).unwrap()));
    assert!(reader.pin().is_err());
    assert_eq!(reader.get(&Question::new(Rank(0), "card")).unwrap(), Value::from(1u32));
}

#[test]
fn who_opens_waits_no_longer_than_it_says() {
    let listener = Listener::open().unwrap();
    // Nobody serves.
    let opened = RemoteReader::open_within(listener.address(), Duration::from_millis(20));
    assert!(matches!(opened, Err(OpenError::Link(LinkError::Lost(e))) if e.kind() == std::io::ErrorKind::TimedOut));
}
