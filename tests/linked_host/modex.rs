//! Rules K2, K3 and K7: scopes, waiting for keys, and direct modex.
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use instanton::client::Client;
use instanton::data::{Info, Nspace, Proc, Rank, Scope, Status, Value, keys};
use instanton::internal::message::{Reply, Request};
use instanton::server::{Accepted, Answer, Completion, Host, Server, ServerConfig};

use crate::death::Victim;
use crate::host::{Cluster, Lacks};
use crate::peer::{PATIENCE, Peer, address, fence_all};

const OK: Status = Status::SUCCESS;
const NOT_FOUND: Result<Value, Status> = Err(Status::ERR_NOT_FOUND);

/// Longer than a peer waits for any answer.
const EVER: Duration = Duration::from_secs(3600);

/// One node, whose server waits so long for a key that may yet come.
fn patient_for(get_patience: Duration) -> Cluster {
    Cluster::with(1, Lacks::default(), |config| ServerConfig { get_patience, ..config })
}

#[test]
fn scopes_say_who_may_see() {
    for nodes in [2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..nodes * 2).map(|rank| rank / 2).collect();
        let job = cluster.job("job", &placement);
        let mut peers = job.peers();
        for peer in &mut peers {
            peer.commit(Scope::LOCAL, "local", 1u32);
            peer.commit(Scope::REMOTE, "remote", 2u32);
            peer.commit(Scope::GLOBAL, "global", 3u32);
        }
        fence_all(&mut peers, &[], &[Info::new(keys::COLLECT_DATA, true)]);
        let immediate = [Info::new(keys::IMMEDIATE, true)];
        for peer in &mut peers {
            let own = peer.rank().0;
            let node = own / 2;
            for rank in (0..nodes as u32 * 2).filter(|rank| *rank != own) {
                let target = job.proc(rank);
                let near = rank / 2 == node;
                let expected = |visible: bool, n: u32| if visible { Ok(Value::Uint32(n)) } else { NOT_FOUND };
                assert_eq!(peer.get(&target, "local", &immediate), expected(near, 1));
                assert_eq!(peer.get(&target, "remote", &immediate), expected(!near, 2));
                assert_eq!(peer.get(&target, "global", &immediate), expected(true, 3));
            }
        }
    }
}

#[test]
fn a_registered_process_runs_here_even_where_the_host_gives_no_placement() {
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    for clients_first in [false, true] {
        let cluster = Cluster::new(2);
        let job = cluster.unregistered_job("job", &[0, 0, 1]);
        let info = [Info::new(keys::JOB_SIZE, 3u32)];
        let register_nspaces = || {
            cluster.server(0).register_nspace(&job.nspace, 2, &info).wait().unwrap();
            cluster.server(1).register_nspace(&job.nspace, 1, &info).wait().unwrap();
        };
        let register_clients = || {
            for (rank, node) in [(0, 0), (1, 0), (2, 1)] {
                cluster.server(node).register_client(&job.proc(rank), uid, gid).wait().unwrap();
            }
        };
        if clients_first {
            register_clients();
            register_nspaces();
        } else {
            register_nspaces();
            register_clients();
        }
        let mut peers = job.peers();
        for peer in &mut peers {
            assert_eq!(peer.commit(Scope::LOCAL, "local", 1u32), OK);
            assert_eq!(peer.commit(Scope::REMOTE, "remote", 2u32), OK);
            assert_eq!(peer.commit(Scope::GLOBAL, "global", 3u32), OK);
        }
        assert_eq!(fence_all(&mut peers, &[], &[Info::new(keys::COLLECT_DATA, true)]), [OK; 3]);
        let immediate = [Info::new(keys::IMMEDIATE, true)];
        let mut get = |of: u32, key: &str| peers[0].get(&job.proc(of), key, &immediate);
        assert_eq!((get(1, "local"), get(2, "local")), (Ok(Value::Uint32(1)), NOT_FOUND));
        assert_eq!((get(1, "remote"), get(2, "remote")), (NOT_FOUND, Ok(Value::Uint32(2))));
        assert_eq!((get(1, "global"), get(2, "global")), (Ok(Value::Uint32(3)), Ok(Value::Uint32(3))));
    }
}

#[test]
fn an_unknown_scope_is_refused_whole() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let mut peer = job.peer(0);
    assert_eq!(peer.commit(Scope::INTERNAL, "k", 1u32), Status::ERR_BAD_PARAM);
    assert_eq!(peer.get(&job.proc(0), "k", &[Info::new(keys::IMMEDIATE, true)]), NOT_FOUND);
}

#[test]
fn direct_modex_waits_until_the_rank_has_posted_and_is_asked_once_for_what_that_has() {
    for nodes in [2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..nodes).collect();
        let job = cluster.job("job", &placement);
        let mut peers = job.peers();
        let target = job.proc(nodes as u32 - 1);
        let (last, others) = peers.split_last_mut().unwrap();
        let numbers: Vec<[u64; 2]> = others
            .iter_mut()
            .map(|peer| [peer.start_get(&target, "k", &[]), peer.start_get(&target, "other", &[])])
            .collect();
        cluster.world.wait_for(&format!("direct modex {target}"));
        assert!(!others[0].has_answer(numbers[0][0]));
        assert!(cluster.world.count("direct modex") < nodes);
        last.commit(Scope::REMOTE, "k", 9u32);
        for (peer, [k, other]) in others.iter_mut().zip(numbers) {
            assert_eq!(peer.got(k), Ok(Value::Uint32(9)));
            assert_eq!(peer.got(other), NOT_FOUND, "it has posted, and not that");
            assert_eq!(peer.get(&target, "k", &[]), Ok(Value::Uint32(9)));
        }
        // The other key was sought when its node had asked already: the answer might be older than that.
        assert_eq!(cluster.world.count("direct modex"), 2 * (nodes - 1), "once a node, and once for what is not there");
        last.commit(Scope::GLOBAL, "later", 10u32);
        assert_eq!(others[0].get(&target, "later", &[]), Ok(Value::Uint32(10)));
        last.commit(Scope::GLOBAL, "k", 11u32);
        assert_eq!(others[0].get(&target, "k", &[]), Ok(Value::Uint32(9)), "what is known is known");
        let refresh = [Info::new(keys::GET_REFRESH_CACHE, true)];
        assert_eq!(others[0].get(&target, "k", &refresh), Ok(Value::Uint32(11)));
    }
}

#[test]
fn who_says_how_long_waits_for_a_key_of_another_node_whatever_its_process_has_posted() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let mut peers = job.peers();
    let (last, others) = peers.split_last_mut().unwrap();
    let target = job.proc(2);
    last.commit(Scope::GLOBAL, "first", 1u32);
    for seconds in [3600, 0] {
        let (name, limit) = (format!("after {seconds}"), [Info::new(keys::TIMEOUT, seconds)]);
        let waits: Vec<_> = others.iter_mut().map(|peer| peer.start_get(&target, &name, &limit)).collect();
        // The host has brought what there is, and is asked once more.
        cluster.world.wait_for(&format!("awaits {name} of {target}"));
        last.commit(Scope::GLOBAL, "between", 2u32);
        assert!(!others[0].has_answer(waits[0]));
        last.commit(Scope::REMOTE, &name, 3u32);
        for (peer, waits) in others.iter_mut().zip(waits) {
            assert_eq!(peer.got(waits), Ok(Value::Uint32(3)));
        }
    }
    assert_eq!(others[0].get(&target, "never", &[Info::new(keys::TIMEOUT, 1)]), Err(Status::ERR_TIMEOUT));
    assert_eq!(others[0].get(&target, "never", &[]), NOT_FOUND);
}

#[test]
fn a_key_that_no_rank_is_named_for_is_found_on_other_nodes() {
    for nodes in [2, 4] {
        let cluster = Cluster::with(nodes, Lacks::default(), |config| ServerConfig { get_patience: EVER, ..config });
        let job = cluster.job("job", &(0..nodes).collect::<Vec<_>>());
        let any = Proc::new(job.nspace.clone(), Rank::UNDEF);
        let mut peers = job.peers();
        let (last, others) = peers.split_last_mut().unwrap();
        last.commit(Scope::GLOBAL, "there", 1u32);
        assert_eq!(others[0].get(&any, "there", &[Info::new(keys::IMMEDIATE, true)]), NOT_FOUND, "nobody is asked");
        assert_eq!(others[0].get(&any, "there", &[]), Ok(Value::Uint32(1)));
        assert_eq!(others[0].get(&any, "there", &[Info::new(keys::IMMEDIATE, true)]), Ok(Value::Uint32(1)));
        // Somebody else may post it, and later.
        let waits = last.start_get(&any, "later", &[]);
        cluster.world.wait_for(&format!("direct modex {}", job.proc(0)));
        assert!(!last.has_answer(waits));
        others[0].commit(Scope::REMOTE, "later", 2u32);
        assert_eq!(last.got(waits), Ok(Value::Uint32(2)));
    }
}

/// A host that answers when the test does.
struct ChannelHost(Mutex<mpsc::Sender<Completion<Vec<u8>>>>);

impl Host for ChannelHost {
    fn direct_modex(&self, _: &Proc, _: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        self.0.lock().unwrap().send(done).unwrap();
        Ok(Answer::Later)
    }
}

#[test]
fn a_host_that_has_left_an_asker_waiting_is_asked_again_for_the_next() {
    let (tell, asked) = mpsc::channel();
    let server = Server::start(ServerConfig::default(), Arc::new(ChannelHost(Mutex::new(tell)))).unwrap();
    let proc = |rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank));
    let job = [Info::new(keys::JOB_SIZE, 3u32), Info::new(keys::LOCAL_PEERS, "0,1")];
    server.register_nspace(&proc(0).nspace, 2, &job).wait().unwrap();
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let [mut first, mut second] = [0, 1].map(|rank| {
        server.register_client(&proc(rank), uid, gid).wait().unwrap();
        Peer::connect(&server, &proc(rank)).unwrap()
    });
    first.start_get(&proc(2), "k", &[]);
    let unanswered = asked.recv().unwrap();
    assert_eq!(first.finalize(), OK);
    let waits = second.start_get(&proc(2), "k", &[]);
    asked.recv_timeout(PATIENCE).expect("it is asked again").complete(Err(Status::ERR_UNREACH));
    assert_eq!(second.got(waits), Err(Status::ERR_UNREACH));
    unanswered.complete(Ok(Vec::new()));
}

#[test]
fn a_local_key_is_waited_for() {
    let cluster = patient_for(EVER);
    let job = cluster.job("job", &[0, 0]);
    let mut peers = job.peers();
    let target = job.proc(1);
    let waits = peers[0].start_get(&target, "k", &[]);
    peers[1].commit(Scope::GLOBAL, "other", 1u32);
    assert!(!peers[0].has_answer(waits));
    peers[1].commit(Scope::GLOBAL, "k", 2u32);
    assert_eq!(peers[0].got(waits), Ok(Value::Uint32(2)));

    // A value that cannot come is not found: no peer here would wait for the answer.
    for directive in [keys::OPTIONAL, keys::IMMEDIATE] {
        assert_eq!(peers[0].get(&target, "never", &[Info::new(directive, true)]), NOT_FOUND);
    }
    assert_eq!(peers[0].get(&target, keys::CPUSET, &[]), NOT_FOUND, "nobody will post a reserved key");
    assert_eq!(peers[0].get(&job.all(), "never", &[]), NOT_FOUND, "nobody posts for a whole job");
}

#[test]
fn a_local_key_that_does_not_come_is_given_up() {
    let cluster = patient_for(Duration::from_millis(300));
    let job = cluster.job("job", &[0, 0]);
    let mut peers = job.peers();
    let target = job.proc(1);
    let since = Instant::now();
    assert_eq!(peers[0].get(&target, "never", &[]), Err(Status::ERR_TIMEOUT));
    assert!(since.elapsed() >= Duration::from_millis(300));

    let for_ever = peers[0].start_get(&target, "late", &[Info::new(keys::TIMEOUT, 0i32)]);
    let any_rank = Proc::new(job.nspace.clone(), Rank::UNDEF);
    let from_anybody = peers[0].start_get(&any_rank, "late", &[Info::new(keys::TIMEOUT, 0i32)]);
    assert_eq!(peers[0].get(&target, "never", &[]), Err(Status::ERR_TIMEOUT));
    peers[1].commit(Scope::LOCAL, "late", 3u32);
    assert_eq!(peers[0].got(for_ever), Ok(Value::Uint32(3)));
    assert_eq!(peers[0].got(from_anybody), Ok(Value::Uint32(3)));
}

#[test]
fn a_key_that_is_for_other_nodes_alone_is_not_waited_for() {
    let cluster = patient_for(EVER);
    let job = cluster.job("job", &[0, 0]);
    let mut peers = job.peers();
    let target = job.proc(1);
    let early = peers[0].start_get(&target, "far", &[]);
    peers[1].commit(Scope::REMOTE, "far", 1u32);
    assert_eq!(peers[0].got(early), NOT_FOUND, "who waits hears that it is not for him");
    assert_eq!(peers[0].get(&target, "far", &[]), NOT_FOUND);
    peers[1].commit(Scope::LOCAL, "far", 2u32);
    assert_eq!(peers[0].get(&target, "far", &[]), Ok(Value::Uint32(2)));
}

#[test]
fn a_host_without_direct_modex_means_not_found() {
    let cluster = Cluster::with(2, Lacks { direct_modex: true, ..Lacks::default() }, |config| config);
    let job = cluster.job("job", &[0, 1]);
    let mut peer = job.peer(0);
    assert_eq!(peer.get(&job.proc(1), "k", &[]), NOT_FOUND);
    assert_eq!(peer.get(&job.proc(77), "k", &[]), NOT_FOUND, "there is no such rank");
}

#[test]
fn nobody_waits_for_keys_of_who_has_finalized_and_ended_without_them() {
    for (reader, target) in [(0, 1), (0, 2)] {
        let cluster = Cluster::with(2, Lacks::default(), |config| ServerConfig { get_patience: EVER, ..config });
        let job = cluster.job("job", &[0, 0, 1]);
        let mut peer = job.peer(reader);
        let target = job.proc(target);
        let early = peer.start_get(&target, "k", &[]);
        assert!(!peer.has_answer(early));
        let rank = Victim::start(&job.server_of(target.rank.0), &target, "finalize");
        assert_eq!(peer.got(early), NOT_FOUND);
        rank.wait();
        assert_eq!(peer.get(&target, "k", &[]), NOT_FOUND, "nor for those who ask later");
        // The host may start it anew.
        let again = Victim::start(&job.server_of(target.rank.0), &target, "stay");
        let waits = peer.start_get(&target, "k", &[]);
        assert!(!peer.has_answer(waits));
        again.kill();
        assert_eq!(peer.got(waits), NOT_FOUND);
    }
}

#[test]
fn what_was_committed_is_there_for_other_nodes_as_long_as_the_job_is() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1, 1]);
    let mut peer = job.peer(0);
    let mut far = job.peer(1);
    assert_eq!(far.commit(Scope::GLOBAL, "k", 1u32), OK);
    assert_eq!(far.finalize(), OK);
    let rank = Victim::start(&cluster.server(1), &job.proc(2), "commit;finalize");
    rank.wait();
    assert_eq!(peer.get(&job.proc(1), "k", &[]), Ok(Value::Uint32(1)));
    assert_eq!(peer.get(&job.proc(2), "k", &[]), Ok(Value::Uint32(2)));
    // The other node is through with the job, and does not wait for it to come.
    cluster.server(1).deregister_nspace(&job.nspace).wait().unwrap();
    assert_eq!(peer.get(&job.proc(1), "other", &[]), NOT_FOUND);
}

#[test]
fn everything_of_a_process_comes_at_once() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let mut peers = job.peers();
    peers[0].commit(Scope::GLOBAL, "a", 1u32);
    peers[0].commit(Scope::LOCAL, "b", "x");
    let reply = peers[1].ask(Request::Get { proc: job.proc(0), key: None, info: vec![] });
    let Reply::Infos(OK, infos) = reply else { panic!("{reply:?}") };
    for (key, value) in [("a", Value::Uint32(1)), ("b", Value::string("x"))] {
        assert!(infos.iter().any(|info| info.key == key && info.value == value), "{key}: {infos:?}");
    }
}

#[test]
fn the_embedding_program_can_look_too() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let mut peer = job.peer(0);
    peer.commit(Scope::GLOBAL, "k", 4u32);
    let server = cluster.server(0);
    assert_eq!(server.get(&job.proc(0), "k", &[]).wait(), Ok(Value::Uint32(4)));
    assert_eq!(server.get(&job.all(), keys::JOB_SIZE, &[]).wait(), Ok(Value::Uint32(1)));
    assert_eq!(server.get(&job.all(), keys::TMPDIR, &[Info::new(keys::IMMEDIATE, true)]).wait(), NOT_FOUND);
}

#[test]
fn who_asks_for_no_rank_in_particular_means_its_own_application() {
    let cluster = Cluster::new(1);
    let job = cluster.unregistered_job("job", &[0, 0, 0]);
    let app = |number: u32, size: u32| {
        Info::new(
            keys::APP_INFO_ARRAY,
            Value::infos(vec![Info::new(keys::APPNUM, number), Info::new(keys::APP_SIZE, size)]),
        )
    };
    let info = [job.info(0), vec![app(0, 1), app(1, 2)]].concat();
    cluster.server(0).register_nspace(&job.nspace, 3, &info).wait().unwrap();
    job.register_clients();
    for level in [vec![], vec![Info::new(keys::APP_INFO, true)]] {
        for (rank, size) in [(0, 1u32), (1, 2), (2, 2)] {
            let by_message = job.peer(rank).get(&job.all(), keys::APP_SIZE, &level);
            assert_eq!(by_message, Ok(Value::Uint32(size)), "rank {rank} asks the server");
            let client = Client::connect(&address(&cluster.server(0), &job.proc(rank)), &[]).unwrap();
            let in_memory = client.get(&job.all(), keys::APP_SIZE, &level);
            assert_eq!(in_memory.unwrap(), Value::Uint32(size), "rank {rank} looks for itself");
        }
    }
}

/// The key says at which level it is, and the attribute which one is meant there.
#[test]
fn who_names_an_application_a_node_or_a_session_need_not_say_the_level() {
    let cluster = Cluster::new(2);
    let job = cluster.unregistered_job("job", &[0, 0, 0, 1]);
    let of = |array, infos: Vec<Info>| Info::new(array, Value::infos(infos));
    let app = |number: u32, size: u32| {
        of(keys::APP_INFO_ARRAY, vec![Info::new(keys::APPNUM, number), Info::new(keys::APP_SIZE, size)])
    };
    let session = |number: u32, size: u32| {
        of(keys::SESSION_INFO_ARRAY, vec![Info::new(keys::SESSION_ID, number), Info::new(keys::UNIV_SIZE, size)])
    };
    let info = [job.info(0), vec![app(0, 1), app(1, 3), session(7, 4), session(8, 99)]].concat();
    cluster.server(0).register_nspace(&job.nspace, 3, &info).wait().unwrap();
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    (0..3).for_each(|rank| cluster.server(0).register_client(&job.proc(rank), uid, gid).wait().unwrap());
    let mut peer = job.peer(1);
    assert_eq!(peer.commit(Scope::GLOBAL, "posted", 1u32), OK);
    let client = Client::connect(&address(&cluster.server(0), &job.proc(2)), &[]).unwrap();
    let beta = Info::new(keys::HOSTNAME, "n1");
    for (key, named, expected) in [
        (keys::APP_SIZE, Info::new(keys::APPNUM, 0u32), Ok(1)),
        (keys::APP_SIZE, Info::new(keys::APPNUM, 1u32), Ok(3)),
        (keys::APP_SIZE, Info::new(keys::APPNUM, 2u32), Err(Status::ERR_NOT_FOUND)),
        (keys::NODE_SIZE, beta.clone(), Ok(1)),
        (keys::LOCAL_SIZE, Info::new(keys::NODEID, 1u32), Ok(1)),
        (keys::UNIV_SIZE, Info::new(keys::SESSION_ID, 8u32), Ok(99)),
        // A key of another level is not meant by it.
        (keys::JOB_SIZE, Info::new(keys::APPNUM, 0u32), Ok(4)),
        (keys::LOCAL_SIZE, Info::new(keys::APPNUM, 0u32), Ok(3)),
        ("posted", beta, Ok(1)),
    ] {
        for whom in [job.all(), job.proc(1)].iter().filter(|whom| key != "posted" || whom.rank.is_process()) {
            let info = [named.clone()];
            let number = |value: Value| value.as_u32().unwrap();
            let in_memory = client.get(whom, key, &info).map_err(|error| error.status());
            assert_eq!(in_memory.map(number), expected, "{key} of {whom} with {}", info[0].key);
            assert_eq!(peer.get(whom, key, &info).map(number), expected, "{key} of {whom} with {}", info[0].key);
        }
    }
}
