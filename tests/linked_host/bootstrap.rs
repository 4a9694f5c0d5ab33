//! Groups whose members do not all know each other: leaders, and members that they add.
use instanton::client::Client;
use instanton::data::{DataArray, Info, Proc, Rank, Scope, Status, Value, keys};

use crate::death::Victim;
use crate::group_calls::{
    Call, DIED, OK, PARTIAL, client, clients, construct, context, destruct, fence, given, id, made, members, seconds,
    set,
};
use crate::host::{Cluster, Job, Lacks};

fn leaders(number: usize) -> Info {
    Info::new(keys::GROUP_BOOTSTRAP, Value::Size(number as u64))
}

fn adds(job: &Job<'_>, ranks: &[u32]) -> Info {
    Info::new(keys::GROUP_ADD_MEMBERS, DataArray::of(ranks.iter().map(|rank| job.proc(*rank)).collect::<Vec<_>>()))
}

/// So many nodes; their hosts know such groups or do not.
fn clusters() -> impl Iterator<Item = (usize, bool, Cluster)> {
    let lacking = Lacks { groups: true, ..Lacks::default() };
    [(1, true), (1, false), (2, true), (4, true)].into_iter().map(move |(nodes, knows)| {
        let lacks = if knows { Lacks::default() } else { lacking };
        (nodes, knows, Cluster::with(nodes, lacks, |config| config))
    })
}

/// Ranks one after the other on the nodes.
fn placement(ranks: usize, nodes: usize) -> Vec<usize> {
    (0..ranks).map(|rank| rank % nodes).collect()
}

/// Six ranks come to a group: 0 and 3 lead, 1 is added by both, 4 and 5 by one; 2 stays away.
fn come(
    job: &Job<'_>,
    clients: &[Client],
    name: &str,
    order: &[usize],
    know_each_other: bool,
    more: &[Info],
) -> Vec<Status> {
    let calls = order.iter().map(|rank| {
        let (me, add) = (job.proc(*rank as u32), if *rank == 0 { vec![1] } else { vec![1, 4, 5] });
        let mut info = more.to_vec();
        info.push(given(100 + *rank as u64));
        let procs = match *rank {
            0 | 3 if know_each_other => vec![job.proc(0), job.proc(3)],
            0 | 3 => vec![me],
            _ => vec![],
        };
        if !procs.is_empty() {
            info.push(adds(job, &add));
            info.extend((!know_each_other).then(|| leaders(2)));
        }
        construct(&clients[*rank], name, &procs, &info)
    });
    let calls: Vec<Call<_>> = calls.collect();
    let results = calls.into_iter().map(|call| match call.end() {
        Ok((status, infos)) => {
            assert_eq!(members(&infos), [0, 3, 1, 4, 5]);
            if more.iter().any(|info| info.key == keys::GROUP_ASSIGN_CONTEXT_ID && info.is_required()) {
                assert!(context(&infos) > 0);
            }
            status
        }
        Err(status) => status,
    });
    results.collect()
}

#[test]
fn leaders_add_members_that_know_nobody() {
    let orders = [[0, 3, 1, 4, 5], [5, 4, 1, 3, 0], [4, 0, 1, 5, 3]];
    for (nodes, knows, cluster) in clusters() {
        let job = cluster.job("job", &placement(6, nodes));
        let clients = clients(&job, 6);
        for (rank, client) in clients.iter().enumerate() {
            client.put(Scope::GLOBAL, "endpoint", Value::from(rank as u32)).unwrap();
            client.commit().unwrap();
        }
        for (turn, order) in orders.iter().enumerate() {
            for know_each_other in [true, false] {
                let name = format!("g{turn}{know_each_other}");
                let wish = set(keys::GROUP_ASSIGN_CONTEXT_ID);
                let wish = if knows { wish.required() } else { wish };
                assert_eq!(come(&job, &clients, &name, order, know_each_other, &[wish]), [OK; 5], "{name} on {nodes}");
                for (place, rank) in [(0, 0u32), (1, 3), (2, 1), (3, 4), (4, 5)] {
                    let by_group = Proc::new(id(&name), Rank(place));
                    for reader in order {
                        let get = |key: &str| clients[*reader].get(&by_group, key, &[set(keys::IMMEDIATE)]);
                        assert_eq!(get("endpoint").unwrap(), Value::from(rank));
                        assert_eq!(get("site.colour").unwrap(), Value::from(100 + u64::from(rank)));
                    }
                }
                let all = Proc::new(id(&name), Rank::WILDCARD);
                if nodes == 1 || knows {
                    let meet: Vec<_> = order.iter().map(|rank| fence(&clients[*rank], &all, &[])).collect();
                    assert!(meet.into_iter().all(|call| call.end() == Ok(())));
                }
                let ends: Vec<_> = order.iter().map(|rank| destruct(&clients[*rank], &name)).collect();
                assert!(ends.into_iter().all(|call| call.end() == Ok(())));
            }
        }
    }
}

#[test]
fn an_added_member_that_is_killed_is_waited_for_by_nobody() {
    for (nodes, _, cluster) in clusters() {
        for know_each_other in [true, false] {
            let job = cluster.job(if know_each_other { "known" } else { "counted" }, &placement(3, nodes));
            let clients = [0, 1].map(|rank| client(&job, rank));
            let victim = Victim::start(&job.server_of(2), &job.proc(2), "stay");
            let tolerant = set(keys::GROUP_FT_COLLECTIVE);
            let start = |name: &str, more: &[Info]| {
                [0, 1].map(|rank: usize| {
                    let mut info = vec![adds(&job, &[2])];
                    info.extend(more.iter().cloned());
                    match know_each_other {
                        true => construct(&clients[rank], name, &[job.proc(0), job.proc(1)], &info),
                        false => {
                            info.push(leaders(2));
                            construct(&clients[rank], name, &[job.proc(rank as u32)], &info)
                        }
                    }
                })
            };
            let calls = [start("strict", &[]), start("tolerant", &[tolerant])];
            victim.kill();
            let [strict, tolerant] = calls.map(|calls| calls.map(made));
            assert_eq!(strict, [(DIED, vec![]), (DIED, vec![])], "{nodes} nodes");
            assert_eq!(tolerant, [(PARTIAL, vec![0, 1]), (PARTIAL, vec![0, 1])], "{nodes} nodes");
            let again = start("strict", &[]).map(made);
            assert_eq!(again, [(DIED, vec![]), (DIED, vec![])], "nor later");
            drop(clients);
            job.deregister();
        }
    }
}

#[test]
fn a_leader_that_is_killed_ends_it_for_those_that_know_it() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1, 1]);
    let clients = [0, 2, 3].map(|rank| client(&job, rank));
    let victim = Victim::start(&cluster.server(0), &job.proc(1), "stay");
    let all = [0, 1, 2].map(|rank| job.proc(rank));
    let leads = |at: usize| construct(&clients[at], "g", &all, &[adds(&job, &[3])]);
    let calls = [leads(0), leads(1), construct(&clients[2], "g", &[], &[])];
    // A rank that comes later waits for others that make a group of this name.
    ["job:3", "a node of leaders"].iter().for_each(|who| cluster.world.wait_for(&format!("{who} comes to g")));
    victim.kill();
    assert_eq!(calls.map(made), [(DIED, vec![]), (DIED, vec![]), (DIED, vec![])]);
}

#[test]
fn who_makes_no_sense_is_refused() {
    for (nodes, knows, cluster) in clusters() {
        let job = cluster.job("job", &placement(4, nodes));
        let clients = clients(&job, 4);
        let bad = |call: Call<_>| assert_eq!(made(call), (Status::ERR_BAD_PARAM, vec![]));
        bad(construct(&clients[0], "g", &[job.proc(0), job.proc(1)], &[leaders(2)]));
        bad(construct(&clients[0], "g", &[job.proc(1)], &[leaders(2)]));
        bad(construct(&clients[0], "g", &[job.proc(0)], &[leaders(0)]));
        bad(construct(&clients[0], "g", &[], &[leaders(2)]));
        bad(construct(&clients[0], "g", &[job.proc(0)], &[Info::new(keys::GROUP_ADD_MEMBERS, "x")]));
        // Nobody makes the group: nobody comes twice to wait for it, and the time limit ends it.
        let _waits = construct(&clients[1], "g", &[], &[]);
        assert_eq!(made(construct(&clients[1], "g", &[], &[])).0, Status::ERR_EXISTS);
        assert_eq!(made(construct(&clients[2], "h", &[], &[seconds(1)])).0, Status::ERR_TIMEOUT);
        if !knows {
            let calls = [0, 1].map(|rank| {
                construct(&clients[rank], "few", &[job.proc(rank as u32)], &[leaders(2 + rank), seconds(60)])
            });
            calls.into_iter().for_each(bad);
        }
    }
    // A host that does not know such groups leaves only those of one node.
    let cluster = Cluster::with(2, Lacks { groups: true, ..Lacks::default() }, |config| config);
    let job = cluster.job("job", &[0, 1]);
    let leader = client(&job, 0);
    let call = construct(&leader, "g", &[job.proc(0)], &[leaders(1), adds(&job, &[1])]);
    assert_eq!(made(call).0, Status::ERR_NOT_SUPPORTED);
    let call = construct(&leader, "g", &[job.proc(0)], &[adds(&job, &[1])]);
    assert_eq!(made(call).0, Status::ERR_NOT_SUPPORTED);
}
