//! The library's own clients against servers of several nodes: values come out of shared memory.
use std::sync::mpsc;
use std::thread;

use instanton::client::{Chain, Client, Notice};
use instanton::data::{DataArray, DataRange, Info, InfoList, Proc, Rank, Scope, Status, Value, keys};

use crate::death::Victim;
use crate::group_calls;
use crate::host::{Cluster, Job};
use crate::peer::{self, PATIENCE};

fn clients(job: &Job<'_>, ranks: u32) -> Vec<Client> {
    (0..ranks)
        .map(|rank| Client::connect(&peer::address(&job.server_of(rank), &job.proc(rank)), &[]).unwrap())
        .collect()
}

#[test]
fn a_client_finds_out_which_process_a_rank_of_its_node_is() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 0, 1]);
    let client = clients(&job, 1).remove(0);
    let other = Victim::start(&cluster.server(0), &job.proc(1), "stay");
    let pid =
        |rank: u32, info: &[Info]| client.get(&job.proc(rank), keys::PROC_PID, info).map_err(|error| error.status());
    assert_eq!(pid(0, &[]), Ok(Value::Pid(std::process::id() as i32)));
    for info in [&[][..], &[Info::new(keys::IMMEDIATE, true)]] {
        assert_eq!(pid(1, info), Ok(Value::Pid(other.pid())));
        assert_eq!(pid(2, info), Err(Status::ERR_NOT_FOUND), "it has not come");
        assert_eq!(pid(3, info), Err(Status::ERR_NOT_FOUND), "it is on another node");
    }
    assert_eq!(pid(1, &[Info::new(keys::OPTIONAL, true)]), Err(Status::ERR_NOT_FOUND), "nobody is to be asked");
    other.kill();
}

#[test]
fn a_job_exchanges_what_it_posts() {
    for nodes in [1, 2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..nodes * 2).map(|rank| rank / 2).collect();
        let job = cluster.job("job", &placement);
        let ranks = nodes as u32 * 2;
        thread::scope(|threads| {
            for client in clients(&job, ranks) {
                let job = &job;
                threads.spawn(move || {
                    let me = client.proc().rank.0;
                    for round in 0..3u32 {
                        client.put(Scope::GLOBAL, "endpoint", Value::from(vec![me as u8; 5000])).unwrap();
                        client.put(Scope::GLOBAL, "round", Value::from(round * 100 + me)).unwrap();
                        client.put(Scope::LOCAL, "local", Value::from("here")).unwrap();
                        client.put(Scope::REMOTE, "remote", Value::from("there")).unwrap();
                        client.commit().unwrap();
                        client.fence(&[], &[Info::new(keys::COLLECT_DATA, true)]).wait().unwrap();
                        for rank in (0..ranks).filter(|rank| *rank != me) {
                            let get = |name: &str| {
                                let immediate = [Info::new(keys::IMMEDIATE, true)];
                                client.get(&job.proc(rank), name, &immediate).map_err(|e| e.status())
                            };
                            let near = rank / 2 == me / 2;
                            let only = |visible: bool, text: &str| match visible {
                                true => Ok(Value::from(text)),
                                false => Err(Status::ERR_NOT_FOUND),
                            };
                            assert_eq!(get("endpoint"), Ok(Value::from(vec![rank as u8; 5000])));
                            assert_eq!(get("round"), Ok(Value::from(round * 100 + rank)));
                            assert_eq!(get("local"), only(near, "here"));
                            assert_eq!(get("remote"), only(!near, "there"));
                        }
                        client.fence(&[], &[]).wait().unwrap();
                    }
                    client.finalize(&[]).unwrap();
                });
            }
        });
        assert_eq!(cluster.world.count("finalized"), nodes * 2);
        assert_eq!(cluster.world.count("lost"), 0);
    }
}

#[test]
fn a_key_is_waited_for_within_a_node_and_beyond() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let clients = clients(&job, 3);
    let (tell, told) = mpsc::channel();
    for client in [&clients[0], &clients[2]] {
        let tell = tell.clone();
        let done = move |value: Result<Value, _>| tell.send(value.map_err(|_| ())).unwrap();
        client.get_pending(&job.proc(1), "late", &[Info::new(keys::TIMEOUT, 0i32)]).then(done).unwrap();
    }
    clients[1].put(Scope::GLOBAL, "late", Value::from(1u32)).unwrap();
    clients[1].commit().unwrap();
    for _ in 0..2 {
        assert_eq!(told.recv().unwrap(), Ok(Value::from(1u32)));
    }
    let all = clients[2].get_all(&job.proc(1), &[]).wait().unwrap();
    let Value::DataArray(all) = all else { panic!("{all:?}") };
    assert!(all.infos().any(|info| info.key == "late"));
    // The owner of the key need not be named: the server knows it, on either node.
    for client in [&clients[0], &clients[2]] {
        let anybody = Proc::new(job.nspace.clone(), Rank::UNDEF);
        let get = |directive: &str| client.get(&anybody, "late", &[Info::new(directive, true)]);
        assert_eq!(get(keys::IMMEDIATE).unwrap(), Value::from(1u32));
        assert_eq!(get(keys::OPTIONAL).map_err(|e| e.status()), Err(Status::ERR_NOT_FOUND));
    }
    let other = Proc::new(job.nspace.clone(), Rank::WILDCARD);
    assert_eq!(clients[2].get(&other, keys::JOB_SIZE, &[]).unwrap(), Value::from(3u32));
}

/// Data fetched from another node stays as it is until a Get asks for news of it; this node's is always the newest.
#[test]
fn a_refreshing_get_brings_what_has_been_posted_since() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let clients = clients(&job, 3);
    let post = |round: u32| {
        clients[1].put(Scope::GLOBAL, "round", Value::from(round)).unwrap();
        clients[1].commit().unwrap();
        // The server has taken the commit in when it has answered whatever came behind it.
        clients[1].get(&job.proc(2), "none", &[Info::new(keys::GET_REFRESH_CACHE, true)]).unwrap_err();
    };
    let get = |client: &Client, directives: &[&str]| {
        let info: Vec<Info> = directives.iter().map(|key| Info::new(key, true)).collect();
        client.get(&job.proc(1), "round", &info).unwrap().as_u32()
    };
    clients[2].commit().unwrap();
    post(1);
    assert_eq!((get(&clients[0], &[]), get(&clients[2], &[])), (Some(1), Some(1)));
    post(2);
    assert_eq!((get(&clients[0], &[]), get(&clients[2], &[])), (Some(2), Some(1)));
    assert_eq!(get(&clients[2], &[keys::GET_REFRESH_CACHE, keys::IMMEDIATE]), Some(1), "the host is not asked");
    assert_eq!(get(&clients[2], &[keys::GET_REFRESH_CACHE]), Some(2));
    assert_eq!(get(&clients[2], &[]), Some(2), "what was fetched is in memory");
}

#[test]
fn events_come_to_handlers() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let clients = clients(&job, 2);
    let (tell, told) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    clients[0]
        .register_event_handler(
            &[Status(-5000)],
            &[],
            std::sync::Arc::new(move |notice: Notice, chain: Chain| {
                tell.send((notice.status, notice.source.clone())).unwrap();
                chain.complete(Status::SUCCESS, vec![]);
            }),
        )
        .then(move |result| ready.send(result.is_ok()).unwrap())
        .unwrap();
    assert!(is_ready.recv().unwrap());
    clients[1].notify_event(Status(-5000), &job.proc(1), DataRange::LOCAL, &[]).then(|_| {}).unwrap();
    assert_eq!(told.recv().unwrap(), (Status(-5000), job.proc(1)));
}

/// The first fence waits at the word of release, the second for a message; the host hears of it after the first.
#[test]
fn who_waits_at_the_word_is_not_released_by_a_later_fence() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1]);
    let clients = clients(&job, 2);
    let (give, given) = mpsc::channel();
    *cluster.world.answers.lock().unwrap() = Some(give);
    let next = || given.recv_timeout(PATIENCE).expect("all have come");
    let (tell, told) = mpsc::channel();
    let hear = || told.recv_timeout(PATIENCE).unwrap();
    thread::scope(|threads| {
        for client in &clients {
            let tell = tell.clone();
            threads.spawn(move || tell.send(("first", client.fence(&[], &[]).wait().is_ok())).unwrap());
        }
        let answer_first = next();
        for client in &clients {
            let tell = tell.clone();
            client.fence(&[], &[]).then(move |result| tell.send(("second", result.is_ok())).unwrap()).unwrap();
        }
        assert!(told.try_recv().is_err(), "the first one is not over");
        answer_first();
        assert_eq!([hear(), hear()], [("first", true); 2]);
        next()();
        assert_eq!([hear(), hear()], [("second", true); 2]);
    });
}

#[test]
fn events_wait_for_handlers_that_come_later() {
    let cluster = Cluster::new(1);
    let (job, other) = (cluster.job("job", &[0, 0, 0]), cluster.job("other", &[0]));
    let (clients, strangers) = (clients(&job, 2), clients(&other, 1));
    let raise = |number: u32, range: DataRange, more: Option<Info>| {
        let info: Vec<Info> = [Info::new("site.number", number)].into_iter().chain(more).collect();
        clients[1].notify_event(Status(-5000), &job.proc(1), range, &info).wait().unwrap();
    };
    let hear = |client: &Client, codes: &[Status]| {
        let (tell, told) = mpsc::channel();
        let handler = move |notice: Notice, chain: Chain| {
            let number = notice.info.iter().find(|info| info.key == "site.number");
            tell.send(number.and_then(|info| info.value.as_u32()).unwrap()).unwrap();
            chain.complete(Status::EVENT_ACTION_COMPLETE, vec![]);
        };
        let handler = std::sync::Arc::new(handler);
        client.register_event_handler(codes, &[], handler).wait().unwrap();
        told
    };
    let custom = Info::new(keys::EVENT_CUSTOM_RANGE, Value::from(other.proc(0)));
    raise(1, DataRange::NAMESPACE, None);
    raise(2, DataRange::LOCAL, Some(Info::new(keys::EVENT_DO_NOT_CACHE, true)));
    raise(3, DataRange::LOCAL, Some(Info::new(keys::EVENT_NON_DEFAULT, true)));
    raise(4, DataRange::CUSTOM, Some(custom));
    // In the order in which they were raised, to each receiver that was meant, also to one that was not even there.
    let late = Client::connect(&peer::address(&job.server_of(2), &job.proc(2)), &[]).unwrap();
    let latest = hear(&late, &[Status(-5000)]);
    let peer = hear(&clients[0], &[Status(-5000)]);
    let stranger = hear(&strangers[0], &[]);
    let own = hear(&clients[1], &[Status(-5000), Status(-5001)]);
    raise(5, DataRange::LOCAL, None);
    let all = |told: mpsc::Receiver<u32>| {
        let mut numbers: Vec<u32> = told.iter().take_while(|number| *number != 5).collect();
        numbers.push(5);
        numbers
    };
    assert_eq!(all(peer), [1, 3, 5]);
    assert_eq!(all(latest), [1, 3, 5]);
    assert_eq!(all(stranger), [4, 5]);
    assert_eq!(all(own), [1, 3, 5], "what it has raised itself waits for its own handlers");
}

/// Returns a channel with what `tell` makes of each event that a client's handler for these codes gets.
fn listen<T: Send + 'static>(
    client: &Client,
    info: &[Info],
    tell: impl Fn(&Notice) -> T + Send + Sync + 'static,
) -> mpsc::Receiver<T> {
    let (teller, told) = mpsc::channel();
    let handler = std::sync::Arc::new(move |notice: Notice, chain: Chain| {
        let _ = teller.send(tell(&notice));
        chain.complete(Status::SUCCESS, vec![]);
    });
    let codes = [Status(-5000)];
    client.register_event_handler(&codes, info, handler).wait().unwrap();
    told
}

fn number(notice: &Notice) -> u32 {
    notice.info.find("site.number").and_then(|info| info.value.as_u32()).unwrap()
}

fn raise(client: &Client, number: u32, range: DataRange, more: Option<Info>) {
    let info: Vec<Info> = [Info::new("site.number", number)].into_iter().chain(more).collect();
    client.notify_event(Status(-5000), client.proc(), range, &info).wait().unwrap();
}

fn up_to<T: PartialEq>(told: &mpsc::Receiver<T>, last: T) -> Vec<T> {
    let mut all = Vec::new();
    while all.last() != Some(&last) {
        all.push(told.recv_timeout(PATIENCE).unwrap());
    }
    all
}

#[test]
fn processes_that_are_named_hear_of_an_event_however_they_are_named() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0, 0]);
    let clients = clients(&job, 3);
    let members = [job.proc(1), job.proc(0)];
    let calls = [0, 1].map(|rank: usize| group_calls::construct(&clients[rank], "g", &members, &[]));
    assert!(calls.into_iter().all(|call| call.end().is_ok()));
    let heard: Vec<_> = clients.iter().map(|client| listen(client, &[], number)).collect();
    let group = |rank| Proc::new(group_calls::id("g"), rank);
    let ranges = [
        Value::from(job.proc(0)),
        Value::DataArray(DataArray::of([job.proc(0), job.proc(2)])),
        Value::from(group(Rank::WILDCARD)),
        Value::DataArray(DataArray::of([group(Rank(0))])),
    ];
    for (turn, range) in (1..).zip(ranges) {
        raise(&clients[0], turn, DataRange::CUSTOM, Some(Info::new(keys::EVENT_CUSTOM_RANGE, range)));
    }
    raise(&clients[0], 5, DataRange::LOCAL, None);
    let heard: Vec<Vec<u32>> = heard.iter().map(|heard| up_to(heard, 5)).collect();
    assert_eq!(heard, [vec![1, 2, 3, 5], vec![3, 4, 5], vec![2, 5]], "the one who raises it among them");
}

#[test]
fn members_hear_of_an_event_by_their_groups_name_from_a_node_without_one() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 0, 1]);
    let clients = clients(&job, 4);
    let members = [job.proc(1), job.proc(0)];
    let calls = [0, 1].map(|rank: usize| group_calls::construct(&clients[rank], "g", &members, &[]));
    assert!(calls.into_iter().all(|call| call.end().is_ok()));
    let heard: Vec<_> = clients[..3].iter().map(|client| listen(client, &[], number)).collect();
    for (turn, rank) in [(1, Rank::WILDCARD), (2, Rank(0)), (3, Rank(7))] {
        let named = Proc::new(group_calls::id("g"), rank);
        raise(&clients[3], turn, DataRange::CUSTOM, Some(Info::new(keys::EVENT_CUSTOM_RANGE, named)));
    }
    raise(&clients[3], 4, DataRange::GLOBAL, None);
    let heard: Vec<Vec<u32>> = heard.iter().map(|heard| up_to(heard, 4)).collect();
    assert_eq!(heard, [vec![1, 4], vec![1, 2, 4], vec![4]]);
}

#[test]
fn a_handler_hears_only_of_the_sources_that_it_wants_and_has_its_object_for_itself() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let clients = clients(&job, 3);
    let members = [job.proc(0), job.proc(2)];
    let calls = [0, 2].map(|rank: usize| group_calls::construct(&clients[rank], "g", &members, &[]));
    assert!(calls.into_iter().all(|call| call.end().is_ok()));
    let range = |range| Info::new(keys::RANGE, range);
    let group = Info::new(keys::EVENT_CUSTOM_RANGE, Proc::new(group_calls::id("g"), Rank::WILDCARD));
    let object = Info::new(keys::EVENT_RETURN_OBJECT, 7u32);
    let ways = [vec![], vec![range(DataRange::LOCAL), object], vec![range(DataRange::CUSTOM), group]];
    let heard = ways.map(|info| {
        let tell = |notice: &Notice| (number(notice), notice.info.find(keys::EVENT_RETURN_OBJECT).is_some());
        listen(&clients[0], &info, tell)
    });
    for source in [2, 1, 0] {
        raise(&clients[source as usize], source, DataRange::GLOBAL, None);
        // The next one is not raised before this one is here.
        assert_eq!(heard[0].recv_timeout(PATIENCE).unwrap(), (source, false), "any, and nobody else's object");
    }
    assert_eq!(up_to(&heard[1], (0, true)), [(1, true), (0, true)], "of this node");
    assert_eq!(up_to(&heard[2], (0, false)), [(2, false), (0, false)], "of the group");
}

#[test]
fn a_handler_that_does_not_complete_holds_up_its_own_event_and_no_other() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let clients = clients(&job, 1);
    let (keep, kept) = mpsc::channel();
    let first = std::sync::Arc::new(move |notice: Notice, chain: Chain| match number(&notice) {
        1 => keep.send(chain).unwrap(),
        _ => chain.complete(Status::SUCCESS, vec![]),
    });
    let (codes, info) = ([Status(-5000)], [Info::new(keys::EVENT_HDLR_FIRST, true)]);
    clients[0].register_event_handler(&codes, &info, first).wait().unwrap();
    let heard = listen(&clients[0], &[], number);
    (1..4).for_each(|number| raise(&clients[0], number, DataRange::PROC_LOCAL, None));
    assert_eq!(up_to(&heard, 3), [2, 3]);
    kept.recv_timeout(PATIENCE).unwrap().complete(Status::SUCCESS, vec![]);
    assert_eq!(up_to(&heard, 1), [1]);
}

#[test]
fn who_hears_of_an_event_hears_of_it_once() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let clients = clients(&job, 3);
    let heard: Vec<_> = clients
        .iter()
        .map(|client| {
            let (tell, told) = mpsc::channel();
            let handler = std::sync::Arc::new(move |notice: Notice, chain: Chain| {
                tell.send(notice.status.0).unwrap();
                chain.complete(Status::EVENT_ACTION_COMPLETE, vec![]);
            });
            client.register_event_handler(&[], &[], handler).wait().unwrap();
            told
        })
        .collect();
    for code in -5003..=-5000 {
        clients[0].notify_event(Status(code), &job.proc(0), DataRange::GLOBAL, &[]).wait().unwrap();
    }
    for told in heard {
        let codes: Vec<i32> = (0..4).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
        assert_eq!(codes, [-5003, -5002, -5001, -5000]);
    }
}

/// Open MPI's `mpirun` hands a server back what it got from it.
#[test]
fn what_a_process_raised_does_not_reach_it_again_through_the_host() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0]);
    let clients = clients(&job, 1);
    let (code, me, range) = (Status(-5000), job.proc(0), DataRange::GLOBAL);
    let (tell, told) = mpsc::channel();
    let handler = std::sync::Arc::new(move |notice: Notice, chain: Chain| {
        tell.send((notice.source.rank, notice.info.len())).unwrap();
        chain.complete(Status::EVENT_ACTION_COMPLETE, vec![]);
    });
    clients[0].register_event_handler(&[code], &[], handler).wait().unwrap();
    clients[0].notify_event(code, &me, range, &[]).wait().unwrap();
    let server = job.server_of(0);
    let pass_on = |source: &Proc, infos: &[Info]| server.notify_event(code, source, range, infos).wait().unwrap();
    pass_on(&me, &[Info::new("host.loops", true)]);
    let elsewhere = Proc::new(job.nspace.clone(), Rank(7));
    pass_on(&elsewhere, &[]);
    let hear = || told.recv_timeout(PATIENCE).unwrap();
    assert_eq!([hear(), hear()], [(Rank(0), 0), (Rank(7), 0)]);
}
