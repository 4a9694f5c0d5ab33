//! Rules F1 and F2: participants of a fence, and the host's part in it.
use instanton::data::{Info, Proc, Rank, Scope, Status, Value, keys};
use instanton::internal::message::Request;
use std::sync::mpsc;

use crate::death;
use crate::host::{Cluster, FenceAnswer, Lacks};
use crate::peer::{PATIENCE, Peer, fence_all};

const OK: Status = Status::SUCCESS;

/// Rank r on node r / 2, 2 ranks a node.
fn two_a_node(nodes: usize) -> Vec<usize> {
    (0..nodes * 2).map(|rank| rank / 2).collect()
}

fn collect() -> [Info; 1] {
    [Info::new(keys::COLLECT_DATA, true)]
}

#[test]
fn the_host_is_called_once_a_node_and_not_for_what_is_local() {
    for nodes in [2, 4] {
        let cluster = Cluster::new(nodes);
        let job = cluster.job("job", &two_a_node(nodes));
        let mut peers = job.peers();
        assert_eq!(fence_all(&mut peers, &[], &[]), vec![OK; nodes * 2]);
        assert_eq!(cluster.world.count("fence"), nodes, "one call a node");
        assert_eq!(fence_all(&mut peers[..2], &[job.proc(0), job.proc(1)], &collect()), [OK, OK]);
        assert_eq!(cluster.world.count("fence"), nodes, "none for a fence within a node");
    }
}

#[test]
fn nobody_leaves_before_everybody_has_come() {
    for nodes in [2, 4] {
        let cluster = Cluster::new(nodes);
        let job = cluster.job("job", &two_a_node(nodes));
        let mut peers = job.peers();
        let (last, others) = peers.split_last_mut().unwrap();
        let numbers: Vec<u64> = others.iter_mut().map(|peer| peer.start_fence(&[], &[])).collect();
        for (peer, number) in others.iter_mut().zip(&numbers) {
            assert!(!peer.has_answer(*number), "{} has not waited", peer.rank());
        }
        let number = last.start_fence(&[], &[]);
        assert_eq!(last.done(number), OK);
        for (peer, number) in others.iter_mut().zip(numbers) {
            assert_eq!(peer.done(number), OK);
        }
    }
}

#[test]
fn the_host_has_one_fence_of_the_same_processes_at_a_time() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1]);
    let mut peers = job.peers();
    let mut numbers: Vec<Vec<u64>> = Vec::new();
    for peer in &mut peers {
        numbers.push((0..3).map(|_| peer.start_fence(&[], &[])).collect());
        if numbers.len() == 1 {
            // The server takes what one client asks in order.
            assert_eq!(peer.commit(Scope::GLOBAL, "k", 1u32), OK);
            assert_eq!(cluster.world.count("fence"), 1, "the others wait for the first");
        }
    }
    for (peer, numbers) in peers.iter_mut().zip(numbers) {
        for number in numbers {
            assert_eq!(peer.done(number), OK);
        }
    }
    assert_eq!(cluster.world.count("fence"), 6);
    let expiring = [Info::new(keys::TIMEOUT, 1)];
    let numbers = [(); 2].map(|()| peers[0].start_fence(&[], &expiring));
    assert_eq!(numbers.map(|number| peers[0].done(number)), [Status::ERR_TIMEOUT; 2], "waiting for its turn as well");
}

#[test]
fn the_same_processes_make_the_same_fence_however_they_are_named() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &two_a_node(2));
    let mut peers = job.peers();
    let listed: Vec<Proc> = (0..4).rev().map(|rank| job.proc(rank)).collect();
    let ways = [vec![], vec![job.all()], listed.clone(), [listed, vec![job.proc(0)]].concat()];
    let numbers: Vec<u64> = peers.iter_mut().zip(&ways).map(|(peer, way)| peer.start_fence(way, &[])).collect();
    for (peer, number) in peers.iter_mut().zip(numbers) {
        assert_eq!(peer.done(number), OK);
    }
}

#[test]
fn data_goes_around_only_when_it_is_collected_and_only_once() {
    for nodes in [2, 4] {
        let cluster = Cluster::with(nodes, Lacks { direct_modex: true, ..Lacks::default() }, |config| config);
        let job = cluster.job("job", &two_a_node(nodes));
        let mut peers = job.peers();
        let far = job.proc(nodes as u32 * 2 - 1);
        let [first, last] = [0, nodes * 2 - 1];
        for peer in &mut peers {
            let name = format!("key of {}", peer.rank());
            assert_eq!(peer.commit(Scope::GLOBAL, "big", vec![7u8; 100_000]), OK);
            assert_eq!(peer.commit(Scope::GLOBAL, "name", name.as_str()), OK);
        }
        fence_all(&mut peers, &[], &[]);
        assert_eq!(peers[first].get(&far, "name", &[]), Err(Status::ERR_NOT_FOUND), "nothing was collected");
        fence_all(&mut peers, &[], &collect());
        for peer in &mut peers {
            for rank in 0..nodes as u32 * 2 {
                let name = format!("key of {rank}");
                assert_eq!(peer.get(&job.proc(rank), "name", &[]), Ok(Value::string(&name)));
            }
        }
        assert_eq!(peers[last].commit(Scope::GLOBAL, "name", "a new one"), OK);
        fence_all(&mut peers, &[], &collect());
        assert_eq!(peers[first].get(&far, "name", &[]), Ok(Value::string("a new one")));
        assert_eq!(peers[first].get(&far, "big", &[]), Ok(Value::from(vec![7u8; 100_000])));
        let said = cluster.world.said.lock().unwrap();
        let sizes = said
            .iter()
            .filter(|s| s.starts_with("fence"))
            .map(|s| s.rsplit(' ').next().unwrap().parse::<usize>().unwrap());
        let sizes: Vec<usize> = sizes.collect();
        assert!(sizes[..nodes].iter().all(|size| *size == 0), "{sizes:?}");
        assert!(sizes[nodes..2 * nodes].iter().all(|size| *size > 200_000), "{sizes:?}");
        assert!(sizes[2 * nodes..].iter().all(|size| *size < 2_000), "only what is new: {sizes:?}");
    }
}

#[test]
fn a_fence_over_some_carries_everything_to_those_who_have_not_seen_it() {
    let cluster = Cluster::with(4, Lacks { direct_modex: true, ..Lacks::default() }, |config| config);
    let job = cluster.job("job", &[0, 1, 2, 3]);
    let mut peers = job.peers();
    peers[0].commit(Scope::GLOBAL, "k", 1u32);
    for other in [1, 2] {
        let pair = [job.proc(0), job.proc(other)];
        let zero = peers[0].start_fence(&pair, &collect());
        let number = peers[other as usize].start_fence(&pair, &collect());
        assert_eq!((peers[0].done(zero), peers[other as usize].done(number)), (OK, OK));
        assert_eq!(peers[other as usize].get(&job.proc(0), "k", &[]), Ok(Value::Uint32(1)));
    }
    assert_eq!(peers[3].get(&job.proc(0), "k", &[]), Err(Status::ERR_NOT_FOUND));
}

#[test]
fn two_jobs_fence_together_and_one_may_be_registered_late() {
    let cluster = Cluster::new(2);
    let (a, b) = (cluster.job("a", &[0, 1]), cluster.unregistered_job("b", &[0, 1]));
    b.register_clients();
    let both = [b.all(), a.all()];
    let mut peers = a.peers();
    let numbers: Vec<u64> = peers.iter_mut().map(|peer| peer.start_fence(&both, &collect())).collect();
    assert!(!peers[0].has_answer(numbers[0]));
    b.register_nspace();
    let mut others = b.peers();
    others[1].commit(Scope::GLOBAL, "k", 5u32);
    assert_eq!(fence_all(&mut others, &both, &collect()), [OK, OK]);
    for (peer, number) in peers.iter_mut().zip(numbers) {
        assert_eq!(peer.done(number), OK);
    }
    assert_eq!(peers[0].get(&b.proc(1), "k", &[]), Ok(Value::Uint32(5)));
}

#[test]
fn a_process_that_is_not_even_registered_is_waited_for() {
    let cluster = Cluster::new(1);
    let job = cluster.unregistered_job("job", &[0, 0]);
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let server = cluster.server(0);
    // The number of local processes is known.
    server.register_nspace(&job.nspace, 2, &[Info::new(keys::JOB_SIZE, 2u32)]).wait().unwrap();
    server.register_client(&job.proc(0), uid, gid).wait().unwrap();
    let mut first = job.peer(0);
    let numbers = [first.start_fence(&[], &[]), first.start_fence(&[job.proc(0)], &[])];
    assert_eq!(first.done(numbers[1]), OK);
    assert!(!first.has_answer(numbers[0]));
    server.register_client(&job.proc(1), uid, gid).wait().unwrap();
    assert_eq!(job.peer(1).status(Request::Fence { procs: vec![], info: vec![] }), OK);
    assert_eq!(first.done(numbers[0]), OK);
}

#[test]
fn several_fences_at_once_meet_in_order() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let mut peers = job.peers();
    let pair = [job.proc(0), job.proc(1)];
    let zero = [peers[0].start_fence(&[], &[]), peers[0].start_fence(&[], &[]), peers[0].start_fence(&pair, &[])];
    let one = peers[1].start_fence(&pair, &[]);
    assert_eq!((peers[0].done(zero[2]), peers[1].done(one)), (OK, OK), "other processes, another fence");
    let one = peers[1].start_fence(&[], &[]);
    let two = peers[2].start_fence(&[], &[]);
    assert_eq!((peers[0].done(zero[0]), peers[1].done(one), peers[2].done(two)), (OK, OK, OK));
    assert!(!peers[0].has_answer(zero[1]));
    let (one, two) = (peers[1].start_fence(&[], &[]), peers[2].start_fence(&[], &[]));
    assert_eq!((peers[0].done(zero[1]), peers[1].done(one), peers[2].done(two)), (OK, OK, OK));
}

#[test]
fn a_time_limit_ends_a_fence_and_latecomers_hear_of_it() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0, 0]);
    let mut peers = job.peers();
    let limited = [Info::new(keys::TIMEOUT, 1i32)];
    let first = [peers[0].start_fence(&[], &limited), peers[1].start_fence(&[], &limited)];
    for (peer, number) in peers.iter_mut().zip(first) {
        assert_eq!(peer.done(number), Status::ERR_TIMEOUT);
    }
    assert_eq!(peers[2].status(Request::Fence { procs: vec![], info: vec![] }), Status::ERR_TIMEOUT);
    assert_eq!(fence_all(&mut peers, &[], &[]), [OK; 3], "the next one is not disturbed");
}

/// Returns the fences that the hosts were given.
fn told(cluster: &Cluster) -> Vec<String> {
    cluster.world.said.lock().unwrap().iter().filter(|said| said.starts_with("fence")).cloned().collect()
}

#[test]
fn a_participant_that_is_killed_ends_the_fence_on_every_node() {
    for nodes in [2, 4] {
        let cluster = Cluster::new(nodes);
        let job = cluster.job("job", &two_a_node(nodes));
        let mut peers: Vec<Peer> = (0..nodes as u32 * 2).filter(|rank| *rank != 1).map(|rank| job.peer(rank)).collect();
        let rank = death::Victim::start(&cluster.server(0), &job.proc(1), "stay");
        peers[1].commit(Scope::GLOBAL, "k", 7u32);
        let numbers: Vec<u64> = peers.iter_mut().map(|peer| peer.start_fence(&[], &collect())).collect();
        assert!(!peers[1].has_answer(numbers[1]));
        rank.kill();
        for (peer, number) in peers.iter_mut().zip(numbers) {
            assert_eq!(peer.done(number), Status::ERR_PARTIAL_SUCCESS, "{}", peer.rank());
        }
        let told = told(&cluster);
        let failed: Vec<&String> = told.iter().filter(|said| said.contains(keys::LOCAL_COLLECTIVE_STATUS)).collect();
        assert!(told.len() == nodes && failed.len() == 1 && failed[0].starts_with("fence node 0"), "{told:?}");
        // No later fence waits either; and living processes have fences of their own, and get what was not brought
        // then.
        assert_eq!(fence_all(&mut peers, &[], &[]), vec![Status::ERR_PARTIAL_SUCCESS; nodes * 2 - 1]);
        let alive: Vec<Proc> = peers.iter().map(|peer| peer.proc.clone()).collect();
        assert_eq!(fence_all(&mut peers, &alive, &collect()), vec![OK; nodes * 2 - 1]);
        assert_eq!(peers[0].get(&alive[1], "k", &[Info::new(keys::IMMEDIATE, true)]), Ok(Value::Uint32(7)));
    }
}

#[test]
fn a_node_that_nobody_is_left_on_keeps_no_fence_waiting() {
    for nodes in [2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..nodes).collect();
        let job = cluster.job("job", &placement);
        let rank = death::Victim::start(&cluster.server(0), &job.proc(0), "stay");
        let mut peers: Vec<Peer> = (1..nodes as u32).map(|rank| job.peer(rank)).collect();
        let numbers: Vec<u64> = peers.iter_mut().map(|peer| peer.start_fence(&[], &collect())).collect();
        assert!(!peers[0].has_answer(numbers[0]));
        rank.kill();
        for (peer, number) in peers.iter_mut().zip(numbers) {
            assert_eq!(peer.done(number), Status::ERR_PARTIAL_SUCCESS, "{}", peer.rank());
        }
        // No later one does, with data or without, and living processes have fences of their own.
        for info in [&[][..], &collect(), &[]] {
            assert_eq!(fence_all(&mut peers, &[], info), vec![Status::ERR_PARTIAL_SUCCESS; nodes - 1]);
        }
        let alive: Vec<Proc> = peers.iter().map(|peer| peer.proc.clone()).collect();
        assert_eq!(fence_all(&mut peers, &alive, &[]), vec![OK; nodes - 1]);
        let before = told(&cluster).len();
        (1..nodes as u32).for_each(|rank| job.server_of(rank).client_died(&job.proc(rank)));
        job.deregister();
        assert!(
            told(&cluster).len() <= before + nodes,
            "where nobody lives, nobody is told for ever: {:?}",
            told(&cluster)
        );
    }
}

#[test]
fn a_node_that_everybody_has_left_with_a_goodbye_says_nothing() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1]);
    let rank = death::Victim::start(&cluster.server(0), &job.proc(0), "finalize");
    rank.wait();
    assert_eq!(job.peer(1).finalize(), OK);
    cluster.server(1).client_died(&job.proc(1));
    job.deregister();
    assert_eq!(told(&cluster), Vec::<String>::new());
}

#[test]
fn a_time_limit_on_one_node_ends_the_fence_that_it_was_given_to_on_all() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let mut peers = job.peers();
    let limited = [Info::new(keys::TIMEOUT, 1i32)];
    let zero = [peers[0].start_fence(&[], &[]), peers[0].start_fence(&[], &limited)];
    let two = [peers[2].start_fence(&[], &[]), peers[2].start_fence(&[], &[])];
    assert_eq!(peers[0].done(zero[1]), Status::ERR_TIMEOUT);
    // The one before it goes on, and is told to the host first.
    assert!(!peers[2].has_answer(two[0]) && told(&cluster).iter().all(|said| said.starts_with("fence node 1")));
    let one = peers[1].start_fence(&[], &[]);
    assert_eq!((peers[0].done(zero[0]), peers[1].done(one), peers[2].done(two[0])), (OK, OK, OK));
    assert_eq!(peers[2].done(two[1]), Status::ERR_TIMEOUT);
    assert_eq!(peers[1].status(Request::Fence { procs: vec![], info: vec![] }), Status::ERR_TIMEOUT);
    assert_eq!(fence_all(&mut peers, &[], &[]), [OK; 3]);
}

#[test]
fn a_host_that_never_answers_does_not_outlive_the_time_limit() {
    let cluster = Cluster::with(2, Lacks { answers: true, ..Lacks::default() }, |config| config);
    let job = cluster.job("job", &[0, 1]);
    let mut peer = job.peer(0);
    let info = vec![Info::new(keys::TIMEOUT, 1i32), Info::new(keys::COLLECT_DATA, true)];
    assert_eq!(peer.status(Request::Fence { procs: vec![], info }), Status::ERR_TIMEOUT);
    let said = cluster.world.said.lock().unwrap();
    let fence = said.iter().find(|s| s.starts_with("fence")).unwrap();
    assert!(fence.contains(keys::COLLECT_DATA) && !fence.contains(keys::TIMEOUT), "{fence}");
}

#[test]
fn wrong_participants_are_named() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let mut peer = job.peer(0);
    let mut fence =
        |procs: &[Proc], info: &[Info]| peer.status(Request::Fence { procs: procs.to_vec(), info: info.to_vec() });
    assert_eq!(fence(&[job.proc(1)], &[]), Status::ERR_NOT_A_MEMBER);
    assert_eq!(fence(&[job.proc(0), job.proc(7)], &[]), Status::ERR_BAD_PARAM);
    let undefined = Proc::new(job.nspace.clone(), Rank::UNDEF);
    assert_eq!(fence(&[undefined], &[]), Status::ERR_BAD_PARAM);
    let mut algorithm = Info::new(keys::COLLECTIVE_ALGO, "ring");
    algorithm.flags = instanton::data::constants::info_directives::INFO_REQD;
    assert_eq!(fence(&[], &[algorithm]), Status::ERR_NOT_SUPPORTED);
    assert_eq!(fence(&[job.proc(0)], &[]), OK, "alone");
}

#[test]
fn deregistration_ends_what_waits() {
    let cluster = Cluster::new(1);
    let (a, b) = (cluster.job("a", &[0]), cluster.job("b", &[0]));
    let mut peer = a.peer(0);
    let number = peer.start_fence(&[a.all(), b.all()], &[]);
    assert!(!peer.has_answer(number));
    b.deregister();
    assert_ne!(peer.done(number), OK);
    // Nobody waits for what is over to be registered.
    let late = Request::Fence { procs: vec![a.all(), b.all()], info: vec![] };
    assert_eq!(peer.status(late), Status::EVENT_JOB_END);
}

#[test]
fn a_rank_that_comes_again_starts_anew() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1]);
    for _ in 0..3 {
        let mut peers = job.peers();
        assert_eq!(fence_all(&mut peers, &[], &collect()), [OK, OK]);
        assert_eq!(fence_all(&mut peers, &[], &[]), [OK, OK]);
        for peer in peers {
            assert_eq!(peer.finalize(), OK);
        }
    }
    assert_eq!(cluster.world.count("connected"), 6);
    assert_eq!(cluster.world.count("finalized"), 6);
}

#[test]
fn what_a_failed_fence_carried_is_carried_again() {
    let cluster = Cluster::with(2, Lacks { direct_modex: true, ..Lacks::default() }, |config| config);
    let job = cluster.job("job", &[0, 1]);
    let mut peers = job.peers();
    assert_eq!(peers[0].commit(Scope::GLOBAL, "a", 1u32), OK);
    let lost = Status::ERR_LOST_CONNECTION;
    *cluster.world.fences.lock().unwrap() = Some(Err(lost));
    assert_eq!(fence_all(&mut peers, &[], &collect()), [lost, lost]);
    *cluster.world.fences.lock().unwrap() = None;
    assert_eq!(peers[0].commit(Scope::GLOBAL, "b", 2u32), OK);
    assert_eq!(fence_all(&mut peers, &[], &collect()), [OK, OK]);
    assert_eq!(peers[1].get(&job.proc(0), "a", &[]), Ok(Value::Uint32(1)));
    assert_eq!(peers[1].get(&job.proc(0), "b", &[]), Ok(Value::Uint32(2)));
}

#[test]
fn a_host_that_brings_nonsense_is_an_error() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1]);
    let mut peers = job.peers();
    for nonsense in [b"?".to_vec(), vec![0xff; 100], b"INSB".repeat(20)] {
        *cluster.world.fences.lock().unwrap() = Some(Ok(nonsense));
        assert_eq!(fence_all(&mut peers, &[], &collect()), [Status::ERR_UNPACK_FAILURE; 2]);
    }
    *cluster.world.fences.lock().unwrap() = None;
    assert_eq!(fence_all(&mut peers, &[], &collect()), [OK, OK]);
}

/// The answers that the hosts would give, to be given in another order.
fn answers(cluster: &Cluster) -> impl Fn() -> FenceAnswer {
    let (give, given) = mpsc::channel();
    *cluster.world.answers.lock().unwrap() = Some(give);
    move || given.recv_timeout(PATIENCE).expect("all have come")
}

#[test]
fn what_a_host_brings_late_takes_nothing_back() {
    let cluster = Cluster::with(2, Lacks { direct_modex: true, ..Lacks::default() }, |config| config);
    let job = cluster.job("job", &[0, 1]);
    let mut peers = job.peers();
    let next = answers(&cluster);
    let fence = |peers: &mut [Peer], round: u32, info: &[Info]| {
        peers[0].commit(Scope::GLOBAL, "k", round);
        peers[0].commit(Scope::GLOBAL, &format!("k{round}"), round);
        let numbers: Vec<u64> = peers.iter_mut().map(|peer| peer.start_fence(&[], info)).collect();
        (numbers, next())
    };
    let ends = |peers: &mut [Peer], numbers: Vec<u64>| [0, 1].map(|at| peers[at].done(numbers[at]));
    let limited = [Info::new(keys::COLLECT_DATA, true), Info::new(keys::TIMEOUT, 1)];
    let (first, answer_first) = fence(&mut peers, 1, &limited);
    assert_eq!(ends(&mut peers, first), [Status::ERR_TIMEOUT; 2]);
    let (second, answer_second) = fence(&mut peers, 2, &collect());
    let get = |peers: &mut [Peer], key: &str| peers[1].get(&job.proc(0), key, &[]);

    answer_second();
    assert_eq!(ends(&mut peers, second), [OK; 2]);
    assert_eq!(get(&mut peers, "k"), Ok(Value::Uint32(2)));
    assert_eq!(get(&mut peers, "k2"), Ok(Value::Uint32(2)));

    answer_first();
    let third: Vec<u64> = peers.iter_mut().map(|peer| peer.start_fence(&[], &[])).collect();
    next()();
    assert_eq!(ends(&mut peers, third), [OK; 2]);
    assert_eq!(get(&mut peers, "k"), Ok(Value::Uint32(2)), "what was sent earlier has come later");
    assert_eq!(get(&mut peers, "k1"), Ok(Value::Uint32(1)), "nobody else brings that");
}
