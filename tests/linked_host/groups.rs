//! Groups of processes on one node and several: how they are made and ended, and what happens when somebody does not come.
use std::sync::Arc;
use std::thread;

use instanton::client::{Client, Infos};
use instanton::data::{DataArray, Info, InfoList, Proc, Query, Rank, Scope, Status, Text, Value, keys};
use instanton::server::{NoHost, Server, ServerConfig};

use crate::death;
use crate::group_calls::*;
use crate::host::{Cluster, Lacks};
use crate::peer;

#[test]
fn a_group_shares_what_its_members_have() {
    for nodes in [1, 2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..nodes * 2).map(|rank| rank / 2).collect();
        let job = cluster.job("job", &placement);
        let ranks = nodes as u32 * 2;
        // Not in the order of their ranks.
        let order: Vec<Proc> = (0..ranks).rev().map(|rank| job.proc(rank)).collect();
        thread::scope(|threads| {
            for client in clients(&job, ranks) {
                let (job, order) = (&job, &order);
                threads.spawn(move || {
                    let me = client.proc().rank.0;
                    client.put(Scope::GLOBAL, "endpoint", Value::from(me)).unwrap();
                    client.commit().unwrap();
                    let make = |name: &str, cid: u64| {
                        let info = [set(keys::GROUP_ASSIGN_CONTEXT_ID).required(), given(cid)];
                        let (status, infos) = client.group_construct(&id(name), order, &info).wait().unwrap();
                        assert_eq!((status, members(&infos)), (OK, (0..ranks).rev().collect()));
                        context(&infos)
                    };
                    let contexts = [make("one", 100 + u64::from(me)), make("two", 200 + u64::from(me))];
                    assert_ne!(contexts[0], contexts[1]);
                    for rank in 0..ranks {
                        let get = |proc: &Proc, key: &str, info: Info| {
                            client.get(proc, key, &[info]).map_err(|error| error.status())
                        };
                        let proc = job.proc(rank);
                        assert_eq!(get(&proc, "endpoint", set(keys::IMMEDIATE)), Ok(Value::from(rank)));
                        for (number, context) in (1..).zip(contexts) {
                            let in_context = || Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context));
                            let value = number * 100 + u64::from(rank);
                            assert_eq!(get(&proc, keys::GROUP_LOCAL_CID, in_context()), Ok(Value::Size(value)));
                            assert_eq!(get(&proc, "site.colour", in_context()), Ok(Value::from(value)));
                            assert_eq!(get(&proc, "site.other", in_context()), Err(Status::ERR_NOT_FOUND));
                        }
                        assert_eq!(
                            get(&proc, "site.colour", set(keys::IMMEDIATE)),
                            Ok(Value::from(200 + u64::from(rank)))
                        );
                        let by_group = Proc::new(id("one"), Rank(ranks - 1 - rank));
                        assert_eq!(get(&by_group, "endpoint", set(keys::IMMEDIATE)), Ok(Value::from(rank)));
                    }
                    client.fence(&[Proc::new(id("one"), Rank::WILDCARD)], &[set(keys::COLLECT_DATA)]).wait().unwrap();
                    client.fence(&[job.all()], &[]).wait().unwrap();
                    client.group_destruct(&id("one"), &[]).wait().unwrap();
                    client.group_destruct(&id("two"), &[]).wait().unwrap();
                    let again = client.group_destruct(&id("one"), &[]).wait().map_err(|error| error.status());
                    assert_eq!(again, Err(Status::ERR_NOT_FOUND));
                    client.finalize(&[]).unwrap();
                });
            }
        });
        let asked = |what: &str| cluster.world.count(what);
        assert_eq!((asked("group 0 one"), asked("group 0 two")), (nodes, nodes));
        assert_eq!(asked("group 1"), if nodes == 1 { 0 } else { 2 * nodes });
        assert_eq!(asked("fence"), if nodes == 1 { 0 } else { 2 * nodes });
    }
}

#[test]
fn a_node_makes_its_own_groups_without_its_host() {
    let server = Server::start(ServerConfig::default(), Arc::new(NoHost)).unwrap();
    let nspace = id("job");
    let info = [Info::new(keys::JOB_SIZE, 2u32), Info::new(keys::LOCAL_PEERS, "0,1")];
    server.register_nspace(&nspace, 2, &info).wait().unwrap();
    let procs = [0, 1].map(|rank| Proc::new(nspace.clone(), Rank(rank)));
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let clients = procs.each_ref().map(|proc| {
        server.register_client(proc, uid, gid).wait().unwrap();
        Client::connect(&peer::address(&server, proc), &[]).unwrap()
    });
    let all = |name: &str, info: &[Info]| -> Vec<Result<Infos, Status>> {
        let calls = clients.each_ref().map(|client| construct(client, name, &procs, info));
        calls.into_iter().map(Call::end).collect()
    };
    for made in all("plain", &[set(keys::GROUP_LOCAL_ONLY)]) {
        let (status, infos) = made.unwrap();
        assert_eq!((status, members(&infos)), (OK, vec![0, 1]));
    }
    // Context ids as well: MPI makes no communicator without one.
    let contexts = |name: &str, wish: Info| -> Vec<u64> {
        all(name, &[wish]).into_iter().map(|made| context(&made.unwrap().1)).collect()
    };
    assert_eq!(contexts("context", set(keys::GROUP_ASSIGN_CONTEXT_ID)), [1, 1]);
    assert_eq!(contexts("needed", set(keys::GROUP_ASSIGN_CONTEXT_ID).required()), [2, 2]);
    let ask = |keys: &[&str], qualifiers: Vec<Info>| {
        let keys = keys.iter().map(|key| Text::new(key).unwrap()).collect();
        clients[0].query(&[Query { keys, qualifiers }]).wait().unwrap()
    };
    let (status, infos) = ask(&[keys::QUERY_NUM_GROUPS, keys::QUERY_GROUP_NAMES, keys::QUERY_PSET_NAMES], vec![]);
    let names = DataArray::of(["context", "needed", "plain"]);
    assert_eq!((status, &infos[0].value, &infos[1].value), (OK, &Value::Size(3), &Value::DataArray(names)));
    assert_eq!(infos[2].value, Value::from("context,needed,plain"));
    let (_, infos) = ask(&[keys::QUERY_GROUP_MEMBERSHIP], vec![Info::new(keys::GROUP_ID, "plain")]);
    assert_eq!(infos[0].value, Value::DataArray(DataArray::of(procs.clone())));
}

#[test]
fn nodes_need_a_host_that_knows_groups() {
    let cluster = Cluster::with(2, Lacks { groups: true, ..Lacks::default() }, |config| config);
    let job = cluster.job("job", &[0, 1]);
    let clients = clients(&job, 2);
    let calls: Vec<_> = clients.iter().map(|client| construct(client, "g", &procs(&job, 2), &[])).collect();
    for call in calls {
        assert_eq!(made(call).0, Status::ERR_NOT_SUPPORTED);
    }
    let invited = clients[0].group_invite(&id("i"), &[job.proc(1)], &[]).wait().map_err(|error| error.status());
    assert_eq!(invited.map(|_| ()), Err(Status::ERR_NOT_SUPPORTED));
}

#[test]
fn what_makes_no_group_is_refused() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 0, 1]);
    let clients = clients(&job, 4);
    let refused = |name: &str, procs: &[Proc], info: &[Info]| {
        clients[0].group_construct(&id(name), procs, info).wait().map_err(|error| error.status()).unwrap_err()
    };
    let (own, pair) = ([job.proc(0)], [job.proc(0), job.proc(1)]);
    assert_eq!(refused("", &own, &[]), Status::ERR_BAD_PARAM);
    assert_eq!(refused("g", &[job.proc(1)], &[]), Status::ERR_NOT_A_MEMBER);
    assert_eq!(refused("g", &[job.proc(0), job.proc(9)], &[]), Status::ERR_BAD_PARAM);
    assert_eq!(refused("job", &own, &[]), Status::ERR_EXISTS, "a namespace");
    assert_eq!(refused("g", &[job.proc(0), job.proc(3)], &[set(keys::GROUP_LOCAL_ONLY)]), Status::ERR_BAD_PARAM);
    assert_eq!(refused("g", &own, &[set("site.magic").required()]), Status::ERR_NOT_SUPPORTED);
    // A group id is used by others while the first of a pair waits.
    let waits = construct(&clients[1], "g", &pair, &[]);
    assert_eq!(construct(&clients[1], "g", &pair, &[]).end().unwrap_err(), Status::ERR_EXISTS, "twice");
    let other = [job.proc(0), job.proc(2)];
    assert_eq!(construct(&clients[2], "g", &other, &[]).end().unwrap_err(), Status::ERR_EXISTS);
    assert_eq!(made(construct(&clients[0], "g", &pair, &[])), (OK, vec![0, 1]));
    assert_eq!(made(waits), (OK, vec![0, 1]));
    assert_eq!(refused("g", &pair, &[]), Status::ERR_EXISTS);
    assert_eq!(clients[2].group_destruct(&id("g"), &[]).wait().map_err(|e| e.status()), Err(Status::ERR_NOT_A_MEMBER));
    assert_eq!(clients[2].group_leave(&id("g"), &[]).wait().map_err(|e| e.status()), Err(Status::ERR_NOT_A_MEMBER));
    assert_eq!(clients[0].group_leave(&id("h"), &[]).wait().map_err(|e| e.status()), Err(Status::ERR_NOT_FOUND));
    let invited = clients[0].group_invite(&id("i"), &[job.proc(1), job.proc(9)], &[]).wait().map_err(|e| e.status());
    assert_eq!(invited.map(drop), Err(Status::ERR_BAD_PARAM), "nobody would ever answer");
    // A required unknown attribute is no hint that could be left aside, in any call about groups.
    let unknown = [set("site.magic").required()];
    let told = |result: Result<Infos, _>| result.map(drop).map_err(|error: instanton::client::Error| error.status());
    let unserved = [
        told(clients[0].group_invite(&id("i"), &[job.proc(1)], &unknown).wait()),
        told(clients[1].group_join(&id("i"), None, true, &unknown).wait()),
        clients[0].group_leave(&id("g"), &unknown).wait().map_err(|error| error.status()),
        clients[0].group_destruct(&id("g"), &unknown).wait().map_err(|error| error.status()),
    ];
    assert_eq!(unserved, [Err(Status::ERR_NOT_SUPPORTED); 4]);
    let ghost = Proc::new(id("g"), Rank(2));
    assert_eq!(clients[0].fence(&[ghost], &[]).wait().map_err(|e| e.status()), Err(Status::ERR_BAD_PARAM));
    assert_eq!(
        clients[2].group_join(&id("x"), None, true, &[]).wait().map_err(|e| e.status()).unwrap_err(),
        Status::ERR_NOT_FOUND
    );
}

#[test]
fn a_time_limit_ends_it_for_those_who_come_later_too() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0]);
    let (clients, both) = (clients(&job, 2), procs(&job, 2));
    assert_eq!(made(construct(&clients[0], "g", &both, &[seconds(1)])).0, Status::ERR_TIMEOUT);
    assert_eq!(made(construct(&clients[1], "g", &both, &[])).0, Status::ERR_TIMEOUT);
    let calls = [construct(&clients[0], "g", &both, &[]), construct(&clients[1], "g", &both, &[])];
    assert_eq!(calls.map(made), [(OK, vec![0, 1]), (OK, vec![0, 1])]);
    let ends = clients[0].group_destruct(&id("g"), &[seconds(1)]).wait().map_err(|error| error.status());
    assert_eq!(ends, Err(Status::ERR_TIMEOUT));
    assert_eq!(destruct(&clients[1], "g").end(), Err(Status::ERR_TIMEOUT));
    assert_eq!([0, 1].map(|rank| destruct(&clients[rank], "g")).map(Call::end), [Ok(()), Ok(())]);
}

#[test]
fn an_optional_group_is_made_without_those_that_do_not_come_in_time() {
    for nodes in [1, 2] {
        let cluster = Cluster::new(nodes);
        // On two nodes, one member of each comes.
        let job = cluster.job("job", &[0, 0, nodes - 1]);
        let (clients, all) = ([0, 2].map(|rank| client(&job, rank)), procs(&job, 3));
        let _late = client(&job, 1);
        let info = [set(keys::GROUP_OPTIONAL), seconds(1)];
        let calls = clients.each_ref().map(|client| construct(client, "g", &all, &info));
        assert_eq!(calls.map(made), [(PARTIAL, vec![0, 2]), (PARTIAL, vec![0, 2])], "{nodes} nodes");
        let meet = clients.iter().map(|client| fence(client, &Proc::new(id("g"), Rank::WILDCARD), &[]));
        assert!(meet.collect::<Vec<_>>().into_iter().all(|call| call.end() == Ok(())));
    }
}

#[test]
fn members_have_the_order_that_one_of_them_asks_for() {
    for nodes in [1, 2] {
        let cluster = Cluster::new(nodes);
        let job = cluster.job("job", &[0, nodes - 1, 0]);
        let (clients, all) = (clients(&job, 3), procs(&job, 3));
        let order = [job.proc(2), job.proc(0), job.proc(7)];
        let order = Info::new(keys::GROUP_FINAL_MEMBERSHIP_ORDER, Value::DataArray(DataArray::of(order)));
        let calls: Vec<_> = (0..3)
            .map(|rank| {
                construct(&clients[rank], "g", &all, if rank == 2 { std::slice::from_ref(&order) } else { &[] })
            })
            .collect();
        assert_eq!(calls.into_iter().map(made).collect::<Vec<_>>(), vec![(OK, vec![2, 0, 1]); 3], "{nodes} nodes");
        clients[2].put(Scope::GLOBAL, "k", Value::from(7u32)).unwrap();
        clients[2].commit().unwrap();
        assert_eq!(clients[1].get(&Proc::new(id("g"), Rank(0)), "k", &[seconds(60)]).unwrap(), Value::from(7u32));
    }
}

#[test]
fn a_member_that_dies_after_it_has_come_is_one_and_the_others_hear_of_its_death() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0, 0]);
    let (clients, all) = (clients(&job, 3), procs(&job, 3));
    let heard = handle(&clients[0], &[Status::GROUP_MEMBER_FAILED], vec![]);
    let notify = [set(keys::GROUP_NOTIFY_TERMINATION)];
    let come = [1, 2].map(|rank: usize| construct(&clients[rank], "g", &all, &notify));
    assert!(clients[2].group_leave(&id("x"), &[]).wait().is_err());
    cluster.server(0).client_died(&job.proc(2));
    assert_eq!(made(construct(&clients[0], "g", &all, &notify)), (OK, vec![0, 1, 2]));
    let [first, _dead] = come;
    assert_eq!(made(first), (OK, vec![0, 1, 2]));
    hears(&heard, Status::GROUP_MEMBER_FAILED, &job.proc(2));
}

#[test]
fn a_killed_member_ends_it_or_is_left_out() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0, 0]);
    let (clients, all) = (clients(&job, 2), procs(&job, 3));
    let rank = death::Victim::start(&cluster.server(0), &job.proc(2), "stay");
    let both = |name: &str, info: &[Info]| [0, 1].map(|rank: usize| construct(&clients[rank], name, &all, info));
    let (strict, optional) = (both("strict", &[]), both("optional", &[set(keys::GROUP_OPTIONAL)]));
    let tolerant = both("tolerant", &[set(keys::GROUP_FT_COLLECTIVE)]);
    rank.kill();
    assert_eq!(strict.map(made), [(DIED, vec![]), (DIED, vec![])]);
    assert_eq!(optional.map(made), [(PARTIAL, vec![0, 1]), (PARTIAL, vec![0, 1])]);
    assert_eq!(tolerant.map(made), [(PARTIAL, vec![0, 1]), (PARTIAL, vec![0, 1])]);
    // Nor does anybody wait for it later.
    assert_eq!(both("strict", &[]).map(made), [(DIED, vec![]), (DIED, vec![])]);
    assert_eq!(both("later", &[set(keys::GROUP_OPTIONAL)]).map(made), [(PARTIAL, vec![0, 1]), (PARTIAL, vec![0, 1])]);
    let meet = clients.iter().map(|client| fence(client, &Proc::new(id("later"), Rank::WILDCARD), &[]));
    assert!(meet.collect::<Vec<_>>().into_iter().all(|call| call.end() == Ok(())));
}

#[test]
fn a_destruct_that_failed_can_be_tried_again() {
    for nodes in [1, 2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..nodes + 2).map(|rank| rank.saturating_sub(2)).collect();
        let job = cluster.job("job", &placement);
        let ranks = nodes as u32 + 2;
        let all = procs(&job, ranks);
        let clients: Vec<Client> = (0..ranks).filter(|rank| *rank != 1).map(|rank| client(&job, rank)).collect();
        let rank = death::Victim::start(&cluster.server(0), &job.proc(1), "construct;stay");
        let calls: Vec<_> = clients.iter().map(|client| construct(client, "g", &all, &[])).collect();
        assert!(calls.into_iter().all(|call| made(call).0 == OK));
        let ends: Vec<_> = clients[1..].iter().map(|client| destruct(client, "g")).collect();
        rank.kill();
        assert_eq!(ends.into_iter().map(Call::end).collect::<Vec<_>>(), vec![Err(DIED); clients.len() - 1]);
        // Each member hears once that it has failed, and can then try again with the others.
        let again: Vec<_> = clients[1..].iter().map(|client| destruct(client, "g")).collect();
        assert_eq!(destruct(&clients[0], "g").end(), Err(DIED));
        assert_eq!(destruct(&clients[0], "g").end(), Ok(()));
        assert!(again.into_iter().all(|call| call.end() == Ok(())));
        assert_eq!(destruct(&clients[0], "g").end(), Err(Status::ERR_NOT_FOUND));
    }
}

#[test]
fn a_member_that_is_killed_ends_a_construct_on_every_node() {
    for nodes in [2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..nodes + 1).map(|rank| rank.saturating_sub(1)).collect();
        let job = cluster.job("job", &placement);
        let all = procs(&job, nodes as u32 + 1);
        let others: Vec<u32> = (0..nodes as u32 + 1).filter(|rank| *rank != 1).collect();
        let clients: Vec<Client> = others.iter().map(|rank| client(&job, *rank)).collect();
        let rank = death::Victim::start(&cluster.server(0), &job.proc(1), "stay");
        let calls: Vec<_> = clients.iter().map(|client| construct(client, "g", &all, &[])).collect();
        rank.kill();
        assert_eq!(calls.into_iter().map(made).collect::<Vec<_>>(), vec![(DIED, vec![]); nodes]);
        let calls: Vec<_> =
            clients.iter().map(|client| construct(client, "g", &all, &[set(keys::GROUP_OPTIONAL)])).collect();
        assert_eq!(calls.into_iter().map(made).collect::<Vec<_>>(), vec![(PARTIAL, others.clone()); nodes]);
    }
}

#[test]
fn handlers_decide_whether_the_rest_goes_on() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 0, 1]);
    let (clients, all) = ([0, 1, 3].map(|rank| client(&job, rank)), procs(&job, 4));
    let rank = death::Victim::start(&cluster.server(0), &job.proc(2), "stay");
    let notify = set(keys::GROUP_NOTIFY_TERMINATION);
    // Rank 0 leads and goes on; where nobody leads, all are told, and rank 1 gives it up.
    let led = handle(&clients[0], &[Status::GROUP_MEMBER_FAILED], vec![]);
    let lead = [notify.clone(), set(keys::GROUP_LEADER)];
    let calls = [
        construct(&clients[0], "led", &all, &lead),
        construct(&clients[1], "led", &all, std::slice::from_ref(&notify)),
        construct(&clients[2], "led", &all, std::slice::from_ref(&notify)),
    ];
    // The server has taken the calls in when it has answered what came after them.
    clients.iter().for_each(|client| {
        assert!(client.query(&[]).wait().is_err() && client.group_leave(&id("x"), &[]).wait().is_err())
    });
    rank.kill();
    hears(&led, Status::GROUP_MEMBER_FAILED, &job.proc(2));
    assert_eq!(calls.map(made), [0; 3].map(|_| (PARTIAL, vec![0, 1, 3])));
    let told = handle(&clients[1], &[Status::GROUP_MEMBER_FAILED], abort());
    let calls = [0, 1, 2].map(|at| construct(&clients[at], "given up", &all, std::slice::from_ref(&notify)));
    hears(&told, Status::GROUP_MEMBER_FAILED, &job.proc(2));
    assert_eq!(calls.map(made), [0; 3].map(|_| (ABORT, vec![])));
    // A group that was made so hears of deaths until its end, which then comes without an error.
    let last = handle(&clients[2], &[Status::GROUP_MEMBER_FAILED], vec![]);
    let ends = destruct(&clients[0], "led");
    cluster.server(0).client_died(&job.proc(1));
    hears(&last, Status::GROUP_MEMBER_FAILED, &job.proc(1));
    assert_eq!((destruct(&clients[2], "led").end(), ends.end()), (Ok(()), Ok(())));
}

#[test]
fn handlers_decide_on_other_nodes_too_whose_processes_have_all_come() {
    let cluster = Cluster::new(3);
    let job = cluster.job("job", &[0, 0, 1, 2]);
    let (clients, all) = ([0, 2, 3].map(|rank| client(&job, rank)), procs(&job, 4));
    let rank = death::Victim::start(&cluster.server(0), &job.proc(1), "stay");
    rank.kill();
    let notify = set(keys::GROUP_NOTIFY_TERMINATION);
    for (name, decision, made_of) in
        [("made", vec![], (PARTIAL, vec![0, 2, 3])), ("given up", abort(), (ABORT, vec![]))]
    {
        let told = handle(&clients[1], &[Status::GROUP_MEMBER_FAILED], decision);
        let calls = [2, 1, 0].map(|at: usize| {
            let call = construct(&clients[at], name, &all, std::slice::from_ref(&notify));
            assert!(clients[at].group_leave(&id("x"), &[]).wait().is_err(), "the server has taken the call in");
            call
        });
        hears(&told, Status::GROUP_MEMBER_FAILED, &job.proc(1));
        assert_eq!(calls.map(made), [0; 3].map(|_| made_of.clone()));
    }
}

#[test]
fn a_leader_that_dies_after_all_of_its_node_have_come_is_followed() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1, 1]);
    let (clients, all) = ([1, 2].map(|rank| client(&job, rank)), procs(&job, 3));
    let leader = client(&job, 0);
    let follows = handle(&clients[0], &[Status::GROUP_LEADER_FAILED], vec![set(keys::GROUP_LEADER)]);
    let selected = handle(&clients[1], &[Status::GROUP_LEADER_SELECTED], vec![]);
    let led = construct(&leader, "g", &all, &[set(keys::GROUP_LEADER), set(keys::GROUP_NOTIFY_TERMINATION)]);
    let first = construct(&clients[0], "g", &all, &[]);
    [&leader, &clients[0]].iter().for_each(|client| assert!(client.group_leave(&id("x"), &[]).wait().is_err()));
    cluster.server(0).client_died(&job.proc(0));
    hears(&follows, Status::GROUP_LEADER_FAILED, &job.proc(0));
    hears(&selected, Status::GROUP_LEADER_SELECTED, &job.proc(1));
    let second = construct(&clients[1], "g", &all, &[]);
    assert_eq!([first, second].map(made), [(OK, vec![0, 1, 2]), (OK, vec![0, 1, 2])]);
    assert!(led.end().is_err());
}

#[test]
fn who_leads_alone_hears_of_the_dead_and_nobody_does_where_coming_is_optional() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0, 0]);
    let (clients, all) = (clients(&job, 2), procs(&job, 3));
    let rank = death::Victim::start(&cluster.server(0), &job.proc(2), "stay");
    let codes = [Status::GROUP_MEMBER_FAILED, Status::GROUP_LEADER_FAILED];
    let heard = [0, 1].map(|rank: usize| handle(&clients[rank], &codes, vec![]));
    let (lead, notify) = (set(keys::GROUP_LEADER), set(keys::GROUP_NOTIFY_TERMINATION));
    let optional = [0, 1].map(|rank: usize| {
        let info = [set(keys::GROUP_OPTIONAL), notify.clone(), lead.clone()];
        construct(&clients[rank], "optional", &all, &info[..3 - rank])
    });
    let led =
        [0, 1].map(|rank: usize| construct(&clients[rank], "led", &all, &[notify.clone(), lead.clone()][..2 - rank]));
    clients.iter().for_each(|client| assert!(client.group_leave(&id("x"), &[]).wait().is_err()));
    rank.kill();
    assert_eq!(optional.map(made), [(PARTIAL, vec![0, 1]), (PARTIAL, vec![0, 1])]);
    assert_eq!(led.map(made), [(PARTIAL, vec![0, 1]), (PARTIAL, vec![0, 1])]);
    assert_eq!(heard[0].recv().unwrap(), (Status::GROUP_MEMBER_FAILED, Some(job.proc(2))));
    // Events from before the end of a fence have been delivered by then.
    let ends = clients.iter().map(|client| fence(client, &Proc::new(id("led"), Rank::WILDCARD), &[]));
    assert!(ends.collect::<Vec<_>>().into_iter().all(|call| call.end() == Ok(())));
    assert!(heard.iter().all(|heard| heard.try_recv().is_err()), "once, for the group that is led");
}

#[test]
fn a_leader_on_another_node_alone_hears_of_the_dead() {
    let cluster = Cluster::new(3);
    let job = cluster.job("job", &[0, 0, 1, 2]);
    let (clients, all) = ([0, 2, 3].map(|rank| client(&job, rank)), procs(&job, 4));
    let rank = death::Victim::start(&cluster.server(0), &job.proc(1), "stay");
    let codes = [Status::GROUP_MEMBER_FAILED, Status::GROUP_LEADER_SELECTED];
    let heard = clients.each_ref().map(|client| handle(client, &codes, vec![]));
    let (lead, notify) = (set(keys::GROUP_LEADER), set(keys::GROUP_NOTIFY_TERMINATION));
    // The leader comes before, or behind the others.
    let comes = |name: &'static str| {
        let (all, lead, notify) = (&all, &lead, &notify);
        move |at: usize, client: &Client| {
            let info = if at == 1 { vec![notify.clone(), lead.clone()] } else { vec![notify.clone()] };
            let call = construct(client, name, all, &info);
            assert!(client.group_leave(&id("x"), &[]).wait().is_err(), "the server has taken the call in");
            call
        }
    };
    let (first, last) = (comes("first"), comes("last"));
    let calls = [(1, &first), (0, &first), (0, &last), (1, &last)].map(|(at, comes)| comes(at, &clients[at]));
    cluster.world.wait_for(&format!("event {} of {} from node 1", Status::GROUP_LEADER_SELECTED, job.proc(2)));
    rank.kill();
    for _ in 0..2 {
        assert_eq!(heard[1].recv().unwrap(), (Status::GROUP_MEMBER_FAILED, Some(job.proc(1))));
    }
    let calls = calls.into_iter().chain([first(2, &clients[2]), last(2, &clients[2])]);
    assert_eq!(calls.map(made).collect::<Vec<_>>(), vec![(PARTIAL, vec![0, 2, 3]); 6]);
    let ends = clients.iter().map(|client| fence(client, &Proc::new(id("last"), Rank::WILDCARD), &[]));
    assert!(ends.collect::<Vec<_>>().into_iter().all(|call| call.end() == Ok(())));
    assert!(heard.iter().all(|heard| heard.try_recv().is_err()));
}

#[test]
fn a_fence_and_a_group_of_the_same_processes_are_made_beside_each_other() {
    for nodes in [1, 2] {
        let cluster = Cluster::new(nodes);
        // Not all of the job, so that both are listed one by one.
        let job = cluster.job("job", &[0, nodes - 1, 0]);
        let (clients, both) = (clients(&job, 2), procs(&job, 2));
        let meet = |rank: usize| Call::start(|done| clients[rank].fence(&both, &[]).then(done));
        // Each begins with another one of the two.
        let first = (meet(0), construct(&clients[1], "g", &both, &[]));
        let second = (construct(&clients[0], "g", &both, &[]), meet(1));
        assert_eq!((first.0.end(), second.1.end()), (Ok(()), Ok(())));
        for call in [first.1, second.0] {
            let (status, infos) = call.end().unwrap();
            assert_eq!((status, members(&infos)), (OK, vec![0, 1]));
            assert!(infos.find(keys::GROUP_CONTEXT_ID).is_none(), "nobody has asked for one");
        }
    }
}

#[test]
fn a_leader_that_is_killed_is_followed() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0, 0, 0]);
    let (clients, all) = (clients(&job, 2), procs(&job, 3));
    let leader = client(&job, 2);
    let follows = handle(&clients[0], &[Status::GROUP_LEADER_FAILED], vec![set(keys::GROUP_LEADER)]);
    let selected = handle(&clients[1], &[Status::GROUP_LEADER_SELECTED], vec![]);
    let led = construct(&leader, "g", &all, &[set(keys::GROUP_LEADER), set(keys::GROUP_NOTIFY_TERMINATION)]);
    assert!(leader.group_leave(&id("x"), &[]).wait().is_err());
    let first = construct(&clients[0], "g", &all, &[]);
    assert!(clients[0].group_leave(&id("x"), &[]).wait().is_err());
    cluster.server(0).client_died(&job.proc(2));
    hears(&follows, Status::GROUP_LEADER_FAILED, &job.proc(2));
    hears(&selected, Status::GROUP_LEADER_SELECTED, &job.proc(0));
    // It had come, and so it is a member, if a dead one.
    let second = construct(&clients[1], "g", &all, &[]);
    assert_eq!([first, second].map(made), [(OK, vec![0, 1, 2]), (OK, vec![0, 1, 2])]);
    assert!(led.end().is_err());
}

#[test]
fn a_member_that_leaves_keeps_the_ranks_of_the_others() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1]);
    let (clients, all) = (clients(&job, 3), procs(&job, 3));
    let calls: Vec<_> = clients.iter().map(|client| construct(client, "g", &all, &[])).collect();
    assert!(calls.into_iter().all(|call| made(call).0 == OK));
    let heard = [1, 2].map(|rank: usize| handle(&clients[rank], &[Status::GROUP_LEFT], vec![]));
    let everybody = Proc::new(id("g"), Rank::WILDCARD);
    let (strict, tolerant) =
        (fence(&clients[1], &everybody, &[]), fence(&clients[1], &everybody, &[set(keys::GROUP_FT_COLLECTIVE)]));
    assert!(clients[1].group_leave(&id("x"), &[]).wait().is_err());
    clients[0].group_leave(&id("g"), &[]).wait().unwrap();
    heard.iter().for_each(|heard| assert_eq!(heard.recv().unwrap(), (Status::GROUP_LEFT, Some(job.proc(0)))));
    assert_eq!(strict.end(), Err(Status::GROUP_LEFT));
    drop(tolerant);
    assert_eq!(clients[0].group_leave(&id("g"), &[]).wait().map_err(|e| e.status()), Err(Status::ERR_NOT_A_MEMBER));
    clients[2].put(Scope::GLOBAL, "k", Value::from(7u32)).unwrap();
    clients[2].commit().unwrap();
    let last = Proc::new(id("g"), Rank(2));
    assert_eq!(clients[1].get(&last, "k", &[seconds(60)]).unwrap(), Value::from(7u32));
    let ends = [1, 2].map(|rank: usize| destruct(&clients[rank], "g"));
    assert_eq!(ends.map(Call::end), [Ok(()), Ok(())]);
}

#[test]
fn members_of_other_jobs_may_be_read_while_the_group_lasts() {
    let cluster = Cluster::new(1);
    let (one, two) = (cluster.job("one", &[0]), cluster.job("two", &[0]));
    let (a, b) = (client(&one, 0), client(&two, 0));
    let (stranger, all) = (peer::Peer::connect(&cluster.server(0), &one.proc(0)), [one.proc(0), two.proc(0)]);
    drop(stranger);
    let segments = || {
        let mut clone = peer::Peer::connect(&cluster.server(0), &one.proc(0)).unwrap();
        clone.ask(instanton::internal::message::Request::Segments {
            nspace: two.nspace.clone(),
            have: Default::default(),
        })
    };
    assert_eq!(segments(), instanton::internal::message::Reply::Done(Status::ERR_NO_PERMISSIONS));
    let calls = [construct(&a, "g", &all, &[]), construct(&b, "g", &all, &[])];
    assert_eq!(calls.map(made), [(OK, vec![0, 0]), (OK, vec![0, 0])]);
    assert!(matches!(segments(), instanton::internal::message::Reply::Segments { .. }));
    assert_eq!([destruct(&a, "g"), destruct(&b, "g")].map(Call::end), [Ok(()), Ok(())]);
    assert_eq!(segments(), instanton::internal::message::Reply::Done(Status::ERR_NO_PERMISSIONS));
}
