//! Peers that mean harm, or speak nonsense: refused with a reason, and nobody else is disturbed.
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::thread;

use instanton::client::Address;
use instanton::data::{DataRange, Info, Key, Nspace, Rank, Scope, Status, Text, Value};
use instanton::internal::control::frame::{self, Kind};
use instanton::internal::control::handshake::{Hello, Welcome};
use instanton::internal::message::{DescriptorKind, Forward, Have, Reply, Request};
use instanton::internal::sys::{process, socket};
use instanton::server::ServerConfig;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use crate::death::{alone, descriptors};
use crate::host::{Cluster, Job, Lacks};
use crate::peer::{self, PATIENCE, Peer, dial, fence_all, greet, hello, read_frame};

const OK: Status = Status::SUCCESS;

/// Sends bytes and reads until the server closes; whether it was told a reason.
fn is_cut(mut stream: UnixStream, bytes: &[u8]) -> Option<Welcome> {
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let told = read_frame(&mut stream).ok().map(|(_, body)| frame::decode(Kind::Welcome, &body).unwrap());
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    told
}

fn refusal(address: &Address, hello: &Hello) -> (Status, String) {
    match greet(&mut dial(address), hello).unwrap() {
        Welcome::Refused { status, reason } => (status, reason),
        other => panic!("{other:?}"),
    }
}

/// A job whose two ranks fence again and again while `attack` runs.
pub(crate) fn undisturbed(attack: impl FnOnce(&Cluster, &Job<'_>, &Address)) {
    let cluster = Cluster::new(1);
    let job = cluster.job("good", &[0, 0, 0]);
    let address = peer::address(&cluster.server(0), &job.proc(2));
    let mut peers = [job.peer(0), job.peer(1)];
    let pair = [job.proc(0), job.proc(1)];
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let (met, meetings) = std::sync::mpsc::channel();
    let fences = thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            assert_eq!(fence_all(&mut peers, &pair, &[]), [OK, OK]);
            let _ = met.send(());
        }
    });
    attack(&cluster, &job, &address);
    assert_eq!(job.peer(2).commit(Scope::GLOBAL, "k", 1u32), OK, "the rank itself still gets in");
    // The one under way, and one that began after the attack.
    while meetings.try_recv().is_ok() {}
    assert!((0..2).all(|_| meetings.recv_timeout(PATIENCE).is_ok()), "the others meet as before");
    stop.send(()).unwrap();
    fences.join().unwrap();
}

#[test]
fn random_bytes() {
    undisturbed(|_, _, address| {
        let mut seed = u64::from(std::process::id());
        println!("seed {seed}");
        for turn in 0..200 {
            let bytes: Vec<u8> = (0..1 + turn * 3)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (seed >> 56) as u8
                })
                .collect();
            is_cut(dial(address), &bytes);
        }
    });
}

#[test]
fn truncated_and_wrong_frames() {
    undisturbed(|_, _, address| {
        let good = frame::encode(Kind::Hello, 0, 0, &hello(address)).unwrap();
        for cut in 0..good.len() {
            is_cut(dial(address), &good[..cut]);
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = good.to_vec();
            bytes[at] = byte;
            match is_cut(dial(address), &bytes) {
                Some(Welcome::Refused { status: Status::ERR_HANDSHAKE_FAILED, reason }) => reason,
                other => panic!("byte {at} = {byte}: {other:?}"),
            }
        };
        assert!(with(0, b'X').contains("INST"));
        assert!(with(4, 99).contains("version 99"));
        assert!(with(6, 77).contains("kind 77"));
        assert!(with(6, 3).contains("Request"));
        assert!(with(19, 0x7f).contains("bytes"), "a length that nobody allocates");
    });
}

#[test]
fn strangers_and_impostors() {
    undisturbed(|cluster, job, address| {
        let good = hello(address);
        let (status, reason) = refusal(address, &Hello { token: [0; 32], ..good.clone() });
        assert_eq!(status, Status::ERR_INVALID_CRED, "{reason}");
        let mut other = good.clone();
        other.proc.nspace = Nspace::new("nowhere").unwrap();
        let stranger = refusal(address, &other);
        assert_eq!(stranger.0, Status::ERR_INVALID_CRED);
        assert_eq!(stranger.1.replace("nowhere", "good"), reason, "what exists is not told to strangers");
        for rank in [3, Rank::WILDCARD.0, u32::MAX] {
            let mut other = good.clone();
            other.proc.rank = Rank(rank);
            assert_eq!(refusal(address, &other).0, Status::ERR_PROC_ENTRY_NOT_FOUND);
        }
        let second = cluster.job("second", &[0]);
        let mut other = hello(&peer::address(&cluster.server(0), &second.proc(0)));
        other.proc = job.proc(2);
        assert_eq!(refusal(address, &other).0, Status::ERR_INVALID_CRED, "the token of another job");
    });
}

/// A node whose jobs may make the server hold so much.
fn frugal(job_memory: u64) -> Cluster {
    Cluster::with(1, Lacks::default(), |config| ServerConfig { job_memory, ..config })
}

#[test]
fn who_has_much_waiting_is_refused_more() {
    // Half of it is for one process, and a fence holds its attributes twice: as a request, and for the host.
    let cluster = frugal(128 << 20);
    let job = cluster.job("job", &[0, 0]);
    let mut peers = job.peers();
    let pair = [job.proc(0), job.proc(1)];
    let much = [Info::new("much", Value::string(vec![b'x'; 1 << 20]))];
    let numbers: Vec<u64> = (0..70).map(|_| peers[0].start_fence(&pair, &much)).collect();
    let (waits, refused) = numbers.split_at(31);
    for number in refused {
        assert_eq!(peers[0].done(*number), Status::ERR_OUT_OF_RESOURCE);
    }
    for number in waits {
        assert_eq!(peers[1].status(Request::Fence { procs: pair.to_vec(), info: Vec::new() }), OK);
        assert_eq!(peers[0].done(*number), OK);
    }
    assert_eq!(fence_all(&mut peers, &pair, &much), [OK, OK]);
}

#[test]
fn what_fences_hold_is_given_back_when_their_time_is_over() {
    let cluster = frugal(4 << 20);
    let job = cluster.job("job", &[0, 0]);
    let mut alone = job.peer(0);
    let pair = [job.proc(0), job.proc(1)];
    let info = [Info::new("much", Value::string(vec![b'x'; 700 << 10])), Info::new("pmix.timeout", 1u32)];
    for _ in 0..3 {
        assert_eq!(alone.status(Request::Fence { procs: pair.to_vec(), info: info.to_vec() }), Status::ERR_TIMEOUT);
    }
}

#[test]
fn who_posts_all_it_can_leaves_room_for_those_that_post_little() {
    let cluster = frugal(16 << 20);
    let job = cluster.job("job", &[0, 0]);
    let mut peers = job.peers();
    let value = |bytes| Value::string(vec![b'x'; bytes]);
    let mut posted = 0;
    for bytes in [1 << 20, 64 << 10, 4 << 10] {
        while peers[0].commit(Scope::GLOBAL, &format!("k{posted}"), value(bytes)) == OK {
            posted += 1;
        }
    }
    assert!(posted > 8, "{posted} values");
    for turn in 0..10 {
        assert_eq!(peers[1].commit(Scope::GLOBAL, &format!("k{turn}"), value(1 << 10)), OK);
        assert_eq!(peers[0].commit(Scope::GLOBAL, "more", value(64 << 10)), Status::ERR_OUT_OF_RESOURCE);
    }
    assert_eq!(fence_all(&mut peers, &[job.proc(0), job.proc(1)], &[]), [OK, OK]);
}

#[test]
fn requests_that_never_end_are_refused_by_what_they_announce() {
    let cluster = frugal(64 << 20);
    let job = cluster.job("job", &[0, 0, 0]);
    let address = peer::address(&cluster.server(0), &job.proc(2));
    let mut greedy: Vec<Peer> = (0..10).map(|_| Peer::at(&address).unwrap()).collect();
    let request = |bytes: usize| Request::Abort { status: 0, message: Some(vec![b'a'; bytes]), procs: Vec::new() };
    let too_large = frame::encode(Kind::Request, 77, 0, &request(33 << 20)).unwrap();
    for peer in &mut greedy {
        peer.stream.write_all(&too_large[..100_000]).unwrap();
        assert_eq!(peer.done(77), Status::ERR_OUT_OF_RESOURCE, "before it has come");
    }
    // Two that would fit alone, and do not together.
    let large = frame::encode(Kind::Request, 78, 0, &request(20 << 20)).unwrap();
    let [first, second, ..] = &mut greedy[..] else { unreachable!() };
    for peer in [&mut *first, &mut *second] {
        peer.stream.write_all(&too_large[100_000..]).unwrap();
    }
    first.stream.write_all(&large[..1000]).unwrap();
    // The server reads one peer's bytes before it answers the other: the first one's charge is there when this is over.
    assert_eq!(first_is_charged(&job), OK);
    second.stream.write_all(&large).unwrap();
    assert_eq!(second.done(78), Status::ERR_OUT_OF_RESOURCE);
    let mut good = [job.peer(0), job.peer(1)];
    assert_eq!(fence_all(&mut good, &[job.proc(0), job.proc(1)], &[]), [OK, OK]);
    assert_eq!(
        second.commit(Scope::GLOBAL, "k", 1u32),
        Status::ERR_NOT_SUPPORTED,
        "it is served, as the clone that it is"
    );
}

/// Asks the server something that it answers after all that has come to it before.
fn first_is_charged(job: &Job<'_>) -> Status {
    job.peer(1).status(Request::Fence { procs: vec![job.proc(1)], info: Vec::new() })
}

#[test]
fn a_rank_has_so_many_connections_and_no_more() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let address = peer::address(&cluster.server(0), &job.proc(0));
    let _all: Vec<Peer> = (0..256).map(|_| Peer::at(&address).unwrap()).collect();
    assert_eq!(Peer::at(&address).err(), Some(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(job.peer(1).commit(Scope::GLOBAL, "k", 1u32), OK);
}

#[test]
fn another_user() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    undisturbed(|_, job, address| {
        let (theirs, good) = (address.clone(), hello(address));
        let refused = thread::spawn(move || {
            process::become_user_in_this_thread(65534, 65534).unwrap();
            refusal(&theirs, &good)
        });
        let (status, reason) = refused.join().unwrap();
        assert_eq!(status, Status::ERR_INVALID_CRED);
        assert!(reason.contains("user 65534"), "{reason}");

        // Registered for that user, it is this one that is refused.
        job.server_of(0).register_client(&job.proc(2), 65534, 65534).wait().unwrap();
        assert_eq!(refusal(address, &hello(address)).0, Status::ERR_INVALID_CRED);
        job.register_clients();
    });
}

#[test]
fn a_client_that_turns_bad_is_cut_and_counts_as_lost() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let mut good = job.peer(0);
    let number = good.start_fence(&[], &[]);
    for (turn, bytes) in [
        b"nonsense nonsense nonsense".to_vec(),
        frame::encode(Kind::Hello, 0, 0, &hello(&peer::address(&cluster.server(0), &job.proc(1)))).unwrap().to_vec(),
        {
            let mut bytes = frame::encode(Kind::Request, 1, 0, &Request::Finalize).unwrap().to_vec();
            let last = bytes.len() - 1;
            bytes[frame::HEADER..=last].fill(0xff);
            bytes
        },
    ]
    .into_iter()
    .enumerate()
    {
        let mut bad = job.peer(1);
        bad.stream.write_all(&bytes).unwrap();
        assert_eq!(bad.stream.read(&mut [0; 1]).unwrap_or(0), 0, "turn {turn}");
        if turn == 0 {
            assert_eq!(good.done(number), Status::ERR_PARTIAL_SUCCESS);
        }
    }
    assert_eq!(cluster.world.count("lost job:1 PMIX_ERR_LOST_CONNECTION"), 3);
}

#[test]
fn silent_crowds_keep_nobody_out() {
    undisturbed(|_, job, address| {
        let crowd: Vec<UnixStream> = (0..300).map(|_| dial(address)).collect();
        drop(job.peer(2));
        drop(crowd);
    });
}

#[test]
fn who_does_not_read_is_cut() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let (mut lazy, mut good) = (job.peer(0), job.peer(1));
    // Short enough to be answered at once: longer answers wait until they are read.
    const GETS: usize = 1000;
    const BYTES: usize = 200 << 10;
    for _ in 0..GETS {
        lazy.start_get(&job.proc(1), "big", &[]);
    }
    assert_eq!(good.commit(Scope::GLOBAL, "big", vec![1u8; BYTES]), OK);
    cluster.world.wait_for("lost job:0 PMIX_ERR_LOST_CONNECTION");
    assert_eq!(good.status(Request::Fence { procs: vec![job.proc(1)], info: vec![] }), OK);
    let mut rest = Vec::new();
    let _ = lazy.stream.read_to_end(&mut rest);
    assert!(rest.len() < GETS * BYTES, "the connection ends before all is sent");
}

#[test]
fn long_answers_wait_for_who_reads_late() {
    const GETS: usize = 200;
    const BYTES: usize = 1 << 20;
    let cluster = frugal(16 << 20);
    let job = cluster.job("job", &[0, 0]);
    let (mut late, mut good) = (job.peer(0), job.peer(1));
    assert_eq!(good.commit(Scope::GLOBAL, "big", vec![1u8; BYTES]), OK);
    let numbers: Vec<u64> = (0..GETS).map(|_| late.start_get(&job.proc(1), "big", &[])).collect();
    assert_eq!(good.status(Request::Fence { procs: vec![job.proc(1)], info: vec![] }), OK);
    for number in numbers {
        assert_eq!(late.got(number), Ok(Value::from(vec![1u8; BYTES])));
    }
}

#[test]
fn who_reads_no_long_answers_is_cut_when_its_account_is_full() {
    let cluster = frugal(2 << 20);
    let job = cluster.job("job", &[0, 0]);
    let (mut lazy, mut good) = (job.peer(0), job.peer(1));
    assert_eq!(good.commit(Scope::GLOBAL, "big", vec![1u8; 300 << 10]), OK);
    // The process may make the server hold 1 MiB, and one that waits counts with 1 KiB.
    for number in 1..2000 {
        let get = Request::Get { proc: job.proc(1), key: Some(Key::new("big").unwrap()), info: Vec::new() };
        // It may be cut already.
        let _ = lazy.stream.write_all(&frame::encode(Kind::Request, number, 0, &get).unwrap());
    }
    cluster.world.wait_for("lost job:0 PMIX_ERR_LOST_CONNECTION");
    assert_eq!(good.status(Request::Fence { procs: vec![job.proc(1)], info: vec![] }), OK);
}

#[test]
fn what_would_take_long_in_one_step_is_refused() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let mut peer = job.peer(0);
    let event = |bytes: usize| {
        let info = vec![Info::new("why", "x".repeat(bytes).as_str())];
        Request::Notify { status: Status(-2001), range: DataRange::LOCAL, info }
    };
    assert_eq!(peer.status(event(2 << 20)), Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(peer.status(event(1_000_000)), OK);
    let all = Request::Get { proc: job.proc(0), key: None, info: Vec::new() };
    assert_eq!(peer.commit(Scope::GLOBAL, "small", 1u32), OK);
    assert!(matches!(peer.ask(all.clone()), Reply::Infos(OK, _)));
    assert_eq!(peer.commit(Scope::GLOBAL, "large", vec![1u8; 4 << 20]), OK);
    assert_eq!(peer.status(all), Status::ERR_OUT_OF_RESOURCE);
    let large = vec![1u8; 4 << 20];
    assert_eq!(peer.get(&job.proc(0), "large", &[]), Ok(Value::from(large)), "by its name it is to be had");
    let fence = |count: usize| Request::Fence { procs: vec![job.proc(0); count], info: Vec::new() };
    assert_eq!([fence(8192), fence(8193)].map(|fence| peer.status(fence)), [OK, Status::ERR_OUT_OF_RESOURCE]);
    let with = |bytes: usize| {
        let info = vec![Info::new("why", "x".repeat(bytes).as_str())];
        Request::Fence { procs: vec![job.proc(0)], info }
    };
    assert_eq!([1 << 20, 3 << 20].map(|bytes| peer.status(with(bytes))), [OK, Status::ERR_OUT_OF_RESOURCE]);
    let keys = |count: usize| vec![Text::new("key").unwrap(); count];
    let look_up = |count| Request::Forward(Forward::Lookup { keys: keys(count), info: Vec::new() });
    assert_eq!(peer.status(look_up(8192)), Status::ERR_NOT_FOUND);
    assert_eq!(peer.status(look_up(8193)), Status::ERR_OUT_OF_RESOURCE);
}

#[test]
fn who_asks_for_descriptors_and_does_not_read_is_cut() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let (mut lazy, mut good) = (job.peer(0), job.peer(1));
    let segments = Request::Segments { nspace: job.nspace.clone(), have: Have::default() };
    let asks = frame::encode(Kind::Request, 1, 0, &segments).unwrap();
    // The server may cut it before it has read everything.
    let _ = (0..1000).try_for_each(|_| lazy.stream.write_all(&asks));
    assert_eq!(good.commit(Scope::GLOBAL, "k", 1u32), OK);
    let _ = lazy.stream.read_to_end(&mut Vec::new());
    assert_eq!(cluster.world.count("lost job:0 PMIX_ERR_LOST_CONNECTION"), 1);
}

#[test]
fn who_meets_others_that_never_come_does_so_a_bounded_number_of_times() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0; 14]);
    let (mut alone, mut good) = (job.peer(0), [job.peer(1), job.peer(2)]);
    let refused = Status::ERR_OUT_OF_RESOURCE;
    // Again and again the same, and each time others.
    let same: Vec<u64> = (0..=4096).map(|_| alone.start_fence(&[job.proc(0), job.proc(1)], &[])).collect();
    assert_eq!(alone.done(same[4096]), refused);
    let others: Vec<u64> = (1..1 << 13)
        .map(|mask: u32| {
            let with: Vec<_> = (1..14).filter(|rank| mask >> (rank - 1) & 1 == 1).map(|rank| job.proc(rank)).collect();
            alone.start_fence(&[&[job.proc(0)], &with[..]].concat(), &[])
        })
        .collect();
    assert_eq!(alone.done(*others.last().unwrap()), refused);
    assert_eq!(fence_all(&mut good, &[job.proc(1), job.proc(2)], &[]), [OK, OK], "others meet as before");
    drop(alone);
}

#[test]
fn descriptors_wait_until_the_last_ones_are_read() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let mut peer = job.peer(0);
    let segments = || Request::Segments { nspace: job.nspace.clone(), have: Have::default() };
    let numbers: Vec<u64> = (0..10).map(|_| peer.send(segments())).collect();
    for number in numbers {
        // The descriptors themselves are closed by the kernel: this peer reads without room for them.
        let Reply::Segments { parts } = peer.answer(number) else { panic!("no segments") };
        assert!(!parts.is_empty());
    }
    let foreign = Request::Segments { nspace: Nspace::new("other").unwrap(), have: Have::default() };
    assert_eq!(peer.status(foreign), Status::ERR_NO_PERMISSIONS);
}

#[test]
fn a_reader_that_lies_about_what_it_holds_is_cut() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let address = peer::address(&cluster.server(0), &job.proc(0));
    let mut stream = dial(&address);
    let mapping = Hello { layout: instanton_layout::header::VERSION, ..hello(&address) };
    stream.write_all(&frame::encode(Kind::Hello, 0, 0, &mapping).unwrap()).unwrap();
    // The answer may come in several pieces; its descriptors come with the first.
    let (mut bytes, mut descriptors) = ([0; 4096], Vec::new());
    let mut ready = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::try_from(PATIENCE).unwrap()).unwrap();
    let received = socket::receive(&stream, &mut bytes, &mut descriptors).unwrap();
    let welcome = frame::decode(Kind::Welcome, &bytes[frame::HEADER..received.bytes]).unwrap();
    let Welcome::Accepted { parts, .. } = welcome else { panic!("{welcome:?}") };
    let page = &descriptors[parts.iter().position(|part| *part == DescriptorKind::ReaderPage).unwrap()];
    let length = nix::sys::stat::fstat(page).unwrap().st_size;
    for at in (64..length).step_by(8) {
        nix::sys::uio::pwrite(page, &u64::MAX.to_le_bytes(), at).unwrap();
    }
    let segment = &descriptors[parts.iter().position(|part| *part == DescriptorKind::Job).unwrap()];
    assert!(nix::sys::uio::pwrite(segment, &[1], 0).is_err(), "what others read is not its to write");

    let mut good = job.peer(1);
    // A reader that holds nothing back is not looked at.
    for round in 0..20u8 {
        assert_eq!(good.commit(Scope::GLOBAL, "k", vec![round; 1000]), OK);
    }
    assert_eq!(good.status(Request::Fence { procs: vec![job.proc(1)], info: vec![] }), OK);
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0, "it is cut");
    assert_eq!(cluster.world.count("lost job:0 PMIX_ERR_LOST_CONNECTION"), 1);
    assert_eq!(good.commit(Scope::GLOBAL, "k", 1u32), OK);
}

#[test]
fn who_says_nothing_is_cut_in_time() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let address = peer::address(&cluster.server(0), &job.proc(0));
    let (_, body) = read_frame(&mut dial(&address)).expect("a reason");
    let welcome = frame::decode(Kind::Welcome, &body).unwrap();
    assert!(matches!(welcome, Welcome::Refused { status: Status::ERR_HANDSHAKE_FAILED, .. }), "{welcome:?}");
}

#[test]
fn refusals_are_traced_and_descriptors_of_peers_are_refused() {
    let trace = alone("hostile::alone_with_a_stranger");
    for reason in ["begins with", "is not registered here", "no namespace good with that token", "broke off"] {
        assert!(trace.contains(reason), "{reason}: {trace}");
    }
}

#[test]
#[ignore = "run in a process of its own"]
fn alone_with_a_stranger() {
    instanton::trace!("begins");
    let cluster = Cluster::new(1);
    let job = cluster.job("good", &[0]);
    let address = peer::address(&cluster.server(0), &job.proc(0));
    let mut peer: Peer = job.peer(0);
    let turn = |peer: &mut Peer| {
        is_cut(dial(&address), b"nonsense nonsense nonsense");
        is_cut(dial(&address), b"INST");
        refusal(&address, &Hello { token: [1; 32], ..hello(&address) });
        let mut other = hello(&address);
        other.proc.rank = Rank(9);
        refusal(&address, &other);
        let null = std::fs::File::open("/dev/null").unwrap();
        let fds = [null.as_raw_fd(); 100];
        let bytes = frame::encode(Kind::Request, 1 << 40, 0, &Request::DeregisterEvents { codes: vec![] }).unwrap();
        let control = [ControlMessage::ScmRights(&fds)];
        let (socket, iov) = (peer.stream.as_raw_fd(), [IoSlice::new(&bytes)]);
        match sendmsg::<()>(socket, &iov, &control, MsgFlags::empty(), None) {
            Err(errno) => assert_eq!(errno, nix::errno::Errno::EPERM),
            Ok(_) => {
                // An older kernel lets it: it is cut off.
                let _ = peer.stream.read_to_end(&mut Vec::new());
                return false;
            }
        }
        peer.stream.write_all(&bytes).unwrap();
        assert_eq!(peer.done(1 << 40), OK);
        true
    };
    if !turn(&mut peer) {
        return;
    }
    let before = descriptors();
    for _ in 0..20 {
        turn(&mut peer);
    }
    assert_eq!(descriptors(), before);
}
