//! Groups by invitation: members that join, decline or die meanwhile, and the next leader.
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use instanton::client::{Chain, Client, Infos, Notice};
use instanton::data::{DataArray, DataRange, Info, Nspace, Proc, Rank, Status, Value, keys};
use instanton::server::{Accepted, Answer, Completion, Host, Server, ServerConfig};

use crate::group_calls::*;
use crate::host::Cluster;
use crate::{death, peer};

const COMPLETE: Status = Status::GROUP_CONSTRUCT_COMPLETE;
/// An event that has not come by then does not come.
const DEADLINE: Duration = Duration::from_secs(60);

fn invite(client: &Client, group: &str, procs: &[Proc], info: &[Info]) -> Call<Infos> {
    Call::start(|done| client.group_invite(&id(group), procs, info).then(done))
}

/// Answers the next invitation.
fn join(client: &Client, invited: &mpsc::Receiver<(Status, Option<Proc>)>, group: &str, accept: bool) -> Call<Infos> {
    assert_eq!(invited.recv().unwrap().0, Status::GROUP_INVITED);
    let call = Call::start(|done| client.group_join(&id(group), None, accept, &[]).then(done));
    // The server has taken the answer in when it has answered what came after it.
    assert!(client.group_leave(&id("x"), &[]).wait().is_err());
    call
}

fn hears_once(heard: &mpsc::Receiver<(Status, Option<Proc>)>, event: Status) {
    assert_eq!(heard.recv_timeout(DEADLINE).map(|(status, _)| status), Ok(event));
    assert!(heard.try_recv().is_err(), "{event} came again");
}

#[test]
fn who_is_invited_joins_on_any_node() {
    for nodes in [1, 2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..4).map(|rank| rank % nodes).collect();
        let job = cluster.job("job", &placement);
        let clients = clients(&job, 4);
        let invited: Vec<_> = clients.iter().map(|client| handle(client, &[Status::GROUP_INVITED], vec![])).collect();
        let by_default = handle(&clients[0], &[], vec![]);
        let complete: Vec<_> = clients.iter().map(|client| handle(client, &[COMPLETE], vec![])).collect();
        let context_id = set(keys::GROUP_ASSIGN_CONTEXT_ID).required();
        let leads = invite(&clients[1], "g", &[job.all()], &[context_id]);
        let joins: Vec<_> = [0, 2, 3].iter().map(|rank| join(&clients[*rank], &invited[*rank], "g", true)).collect();
        let results: Vec<_> = joins.into_iter().chain([leads]).map(|call| call.end().unwrap()).collect();
        for (status, infos) in &results {
            assert_eq!((*status, members(infos), context(infos)), (OK, vec![0, 1, 2, 3], 1));
        }
        complete.iter().for_each(|heard| hears_once(heard, COMPLETE));
        let meet = clients.iter().map(|client| fence(client, &Proc::new(id("g"), Rank::WILDCARD), &[]));
        assert!(meet.collect::<Vec<_>>().into_iter().all(|call| call.end() == Ok(())));
        let ends: Vec<_> = clients.iter().map(|client| destruct(client, "g")).collect();
        assert!(ends.into_iter().all(|call| call.end() == Ok(())));
        assert!(by_default.try_recv().is_err(), "a handler for everything hears nothing of it");
    }
}

#[test]
fn who_declines_is_left_out_replaced_or_ends_it() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 0, 1, 1]);
    let clients = clients(&job, 4);
    let invited: Vec<_> = clients.iter().map(|client| handle(client, &[Status::GROUP_INVITED], vec![])).collect();
    let (guests, both) = ([job.proc(1), job.proc(2)], [true, false]);
    let start = |name: &str, info: &[Info]| {
        let leads = invite(&clients[0], name, &guests, info);
        let joins = [1, 2].map(|rank: usize| join(&clients[rank], &invited[rank], name, both[rank - 1]));
        [leads].into_iter().chain(joins).collect::<Vec<_>>()
    };
    let end = |calls: Vec<Call<Infos>>| calls.into_iter().map(made).collect::<Vec<_>>();
    // Without a handler it is an error, unless coming is optional.
    let given_up = [0, 1, 2].map(|rank: usize| handle(&clients[rank], &[ABORT], vec![]));
    assert_eq!(end(start("nobody", &[])), [(ABORT, vec![]), (ABORT, vec![]), (OK, vec![])]);
    given_up.iter().for_each(|heard| hears_once(heard, ABORT));
    let left_out = [(PARTIAL, vec![0, 1]), (OK, vec![0, 1]), (OK, vec![])];
    assert_eq!(end(start("optional", &[set(keys::GROUP_OPTIONAL)])), left_out);
    let declined = handle(&clients[0], &[Status::GROUP_INVITE_DECLINED], vec![]);
    assert_eq!(end(start("left out", &[])), left_out);
    hears(&declined, Status::GROUP_INVITE_DECLINED, &job.proc(2));
    // Another leader replaces it, a third gives up.
    let instead = vec![Info::new(keys::GROUP_ADD_MEMBERS, DataArray::of([job.proc(0)]))];
    let declined = handle(&clients[3], &[Status::GROUP_INVITE_DECLINED], instead);
    let leads = invite(&clients[3], "replaced", &guests, &[]);
    let joins = [1, 2].map(|rank: usize| join(&clients[rank], &invited[rank], "replaced", both[rank - 1]));
    assert_eq!(declined.recv().unwrap().1, Some(job.proc(2)));
    let substitute = join(&clients[0], &invited[0], "replaced", true);
    let [stays, _] = joins;
    assert_eq!([leads, stays, substitute].map(made), [0; 3].map(|_| (OK, vec![3, 1, 0])));
    handle(&clients[1], &[Status::GROUP_INVITE_DECLINED], abort());
    let leads = invite(&clients[1], "given up", &[job.proc(0), job.proc(2)], &[set(keys::GROUP_OPTIONAL)]);
    let stays = join(&clients[0], &invited[0], "given up", true);
    assert_eq!(made(join(&clients[2], &invited[2], "given up", false)).0, OK);
    assert_eq!([leads, stays].map(made), [(ABORT, vec![]), (ABORT, vec![])]);
}

#[test]
fn who_is_killed_or_late_does_not_come() {
    let cluster = Cluster::new(2);
    let job = cluster.job("job", &[0, 1, 1]);
    let clients = clients(&job, 2);
    let invited = handle(&clients[1], &[Status::GROUP_INVITED], vec![]);
    let rank = death::Victim::start(&cluster.server(1), &job.proc(2), "stay");
    let (guests, optional) = ([job.proc(1), job.proc(2)], set(keys::GROUP_OPTIONAL));
    // Time enough for the member that joins.
    let limit = seconds(10);
    let leads = invite(&clients[0], "late", &guests, &[limit.clone(), optional.clone()]);
    let stays = join(&clients[1], &invited, "late", true);
    let too_late_leads = invite(&clients[0], "too late", &guests, &[limit]);
    let too_late_stays = join(&clients[1], &invited, "too late", true);
    assert_eq!([leads, stays].map(made), [(PARTIAL, vec![0, 1]), (OK, vec![0, 1])]);
    assert_eq!([too_late_leads, too_late_stays].map(made), [(Status::ERR_TIMEOUT, vec![]), (ABORT, vec![])]);
    let leads = invite(&clients[0], "impatient", &guests, std::slice::from_ref(&optional));
    assert_eq!(invited.recv().unwrap().0, Status::GROUP_INVITED);
    let stays = clients[1].group_join(&id("impatient"), Some(&job.proc(0)), true, &[seconds(1)]).wait();
    assert_eq!(stays.map_err(|error| error.status()), Err(Status::ERR_TIMEOUT));
    let failed = handle(&clients[0], &[Status::GROUP_INVITE_FAILED], vec![]);
    rank.kill();
    hears(&failed, Status::GROUP_INVITE_FAILED, &job.proc(2));
    assert_eq!(made(leads), (PARTIAL, vec![0]));
    // The dead need not be waited for to answer.
    let leads = invite(&clients[0], "dead", &guests, &[]);
    hears(&failed, Status::GROUP_INVITE_FAILED, &job.proc(2));
    let stays = join(&clients[1], &invited, "dead", true);
    assert_eq!([leads, stays].map(made), [(PARTIAL, vec![0, 1]), (OK, vec![0, 1])]);
    // Nor is a process that finalizes without an answer.
    let leads = invite(&clients[0], "done", &[job.proc(1)], &[]);
    assert_eq!(invited.recv().unwrap().0, Status::GROUP_INVITED);
    clients[1].finalize(&[]).unwrap();
    hears(&failed, Status::GROUP_INVITE_FAILED, &job.proc(1));
    assert_eq!(made(leads), (PARTIAL, vec![0]));
}

#[test]
fn an_invitation_outlives_its_leader_when_another_takes_it_over() {
    let cluster = Cluster::new(1);
    for takes_over in [true, false] {
        let name = if takes_over { "follows" } else { "ends" };
        let job = cluster.job(name, &[0, 0, 0]);
        let clients = clients(&job, 3);
        let invited = [1, 2].map(|rank: usize| handle(&clients[rank], &[Status::GROUP_INVITED], vec![]));
        let answer = if takes_over { vec![set(keys::GROUP_LEADER)] } else { vec![] };
        let failed = handle(&clients[1], &[Status::GROUP_LEADER_FAILED], answer);
        let leads = invite(&clients[0], "g", &[job.proc(1), job.proc(2)], &[]);
        let first = join(&clients[1], &invited[0], "g", true);
        assert_eq!(invited[1].recv().unwrap().0, Status::GROUP_INVITED);
        cluster.server(0).client_died(&job.proc(0));
        hears(&failed, Status::GROUP_LEADER_FAILED, &job.proc(0));
        assert!(leads.end().is_err());
        let expected = if takes_over { (OK, vec![1, 2]) } else { (ABORT, vec![]) };
        if takes_over {
            let second = Call::start(|done| clients[2].group_join(&id("g"), None, true, &[]).then(done));
            assert_eq!(made(second), expected);
        }
        assert_eq!(made(first), expected);
        drop(clients);
        job.deregister();
    }
}

#[test]
fn a_leader_on_another_node_follows_one_that_is_killed() {
    for nodes in [2, 4] {
        let cluster = Cluster::new(nodes);
        let placement: Vec<usize> = (0..nodes + 1).map(|rank| rank % nodes).collect();
        let ranks = nodes as u32 + 1;
        for (turn, aborts) in [false, true].into_iter().enumerate() {
            // The leader of a construct, which has come; another member of its node has not.
            let job = cluster.job(&format!("construct{turn}"), &placement);
            let all = procs(&job, ranks);
            let clients: Vec<Client> = (1..ranks).map(|rank| client(&job, rank)).collect();
            let at = |rank: u32| &clients[rank as usize - 1];
            let leader = client(&job, 0);
            let led = construct(&leader, "g", &all, &[set(keys::GROUP_LEADER), set(keys::GROUP_NOTIFY_TERMINATION)]);
            assert!(leader.group_leave(&id("x"), &[]).wait().is_err());
            let answer = if aborts { abort() } else { vec![set(keys::GROUP_LEADER)] };
            let follows = handle(at(1), &[Status::GROUP_LEADER_FAILED], answer);
            let selected: Vec<_> =
                clients.iter().map(|client| handle(client, &[Status::GROUP_LEADER_SELECTED], vec![])).collect();
            let others: Vec<_> = (1..ranks - 1).map(|rank| construct(at(rank), "g", &all, &[])).collect();
            cluster.server(0).client_died(&job.proc(0));
            hears(&follows, Status::GROUP_LEADER_FAILED, &job.proc(0));
            if !aborts {
                selected.iter().for_each(|heard| hears(heard, Status::GROUP_LEADER_SELECTED, &job.proc(1)));
            }
            // It had come, and so it is a member, if a dead one.
            let expected = if aborts { (ABORT, vec![]) } else { (OK, (0..ranks).collect()) };
            let last = construct(at(ranks - 1), "g", &all, &[]);
            others.into_iter().chain([last]).for_each(|call| assert_eq!(made(call), expected));
            assert!(led.end().is_err());
            drop((clients, leader));
            job.deregister();
        }
    }
}

#[test]
fn an_invitation_goes_on_under_a_leader_of_another_node() {
    for nodes in [2, 4] {
        for decision in ["follow", "nothing", "abort"] {
            let cluster = Cluster::new(nodes);
            let placement: Vec<usize> = (0..nodes + 3).map(|rank| rank % nodes).collect();
            let job = cluster.job("job", &placement);
            let ranks = nodes as u32 + 3;
            let clients: Vec<Client> = (1..ranks).map(|rank| client(&job, rank)).collect();
            let invited: Vec<_> =
                clients.iter().map(|client| handle(client, &[Status::GROUP_INVITED], vec![])).collect();
            let answer = match decision {
                "follow" => vec![set(keys::GROUP_LEADER)],
                "abort" => abort(),
                _ => vec![],
            };
            let failed = handle(&clients[0], &[Status::GROUP_LEADER_FAILED], answer);
            let declined = handle(&clients[0], &[Status::GROUP_INVITE_DECLINED], vec![]);
            // A handler that does not decide.
            let idle = handle(&clients[nodes], &[Status::GROUP_LEADER_FAILED], vec![]);
            let leader = death::Victim::start(&cluster.server(0), &job.proc(0), "invite;stay");
            // Some have accepted before the leader dies, one of them on its node; the last answer comes afterwards.
            let early = join(&clients[nodes], &invited[nodes], "g", true);
            let on_its_node = join(&clients[nodes - 1], &invited[nodes - 1], "g", true);
            invited[0].recv().unwrap();
            leader.kill();
            hears(&failed, Status::GROUP_LEADER_FAILED, &job.proc(0));
            hears(&idle, Status::GROUP_LEADER_FAILED, &job.proc(0));
            let calls = [early, on_its_node];
            if decision != "follow" {
                assert_eq!(calls.map(made), [(ABORT, vec![]), (ABORT, vec![])], "{decision} on {nodes}");
                continue;
            }
            // The remaining rank declines, and the new leader gets the event. Until then the group is not complete, and its
            // leader may join it like the others.
            let leads = Call::start(|done| clients[0].group_join(&id("g"), None, true, &[]).then(done));
            let rest: Vec<usize> = (1..clients.len()).filter(|at| *at != nodes && *at != nodes - 1).collect();
            for at in &rest {
                let declines = join(&clients[*at], &invited[*at], "g", false);
                assert_eq!(made(declines).0, OK);
                hears(&declined, Status::GROUP_INVITE_DECLINED, &job.proc(*at as u32 + 1));
            }
            let members: Vec<u32> = (1..ranks).filter(|rank| !rest.contains(&(*rank as usize - 1))).collect();
            for call in calls.into_iter().chain([leads]) {
                assert_eq!(made(call), (OK, members.clone()), "on {nodes}");
            }
            let ends: Vec<_> = members.iter().map(|rank| destruct(&clients[*rank as usize - 1], "g")).collect();
            assert!(ends.into_iter().all(|call| call.end() == Ok(())));
        }
    }
}

#[test]
fn who_leads_in_place_of_the_dead_may_join_when_the_group_is_complete() {
    for nodes in [1, 2] {
        let cluster = Cluster::new(nodes);
        let job = cluster.job("job", &[0, nodes - 1, 0]);
        let clients = [1, 2].map(|rank| client(&job, rank));
        let invited = clients.each_ref().map(|client| handle(client, &[Status::GROUP_INVITED], vec![]));
        let failed = handle(&clients[0], &[Status::GROUP_LEADER_FAILED], vec![set(keys::GROUP_LEADER)]);
        let leader = death::Victim::start(&cluster.server(0), &job.proc(0), "invite;stay");
        let other = join(&clients[1], &invited[1], "g", true);
        assert_eq!(invited[0].recv().unwrap().0, Status::GROUP_INVITED);
        leader.kill();
        hears(&failed, Status::GROUP_LEADER_FAILED, &job.proc(0));
        assert_eq!(made(other), (OK, vec![1, 2]), "it leads, and so it has come");
        let late = |accept| Call::start(|done| clients[0].group_join(&id("g"), None, accept, &[]).then(done));
        assert_eq!(made(late(true)), (OK, vec![1, 2]), "on {nodes}");
        assert_eq!(made(late(false)).0, Status::ERR_NOT_FOUND, "there is nothing to decline");
    }
}

#[test]
fn who_says_that_others_are_invited_is_refused() {
    let cluster = Cluster::new(1);
    let job = cluster.job("job", &[0; 3]);
    let clients = clients(&job, 3);
    let invited = handle(&clients[1], &[Status::GROUP_INVITED], vec![]);
    let says = [
        Info::new(keys::GROUP_ID, "g"),
        Info::new(keys::EVENT_CUSTOM_RANGE, DataArray::of([job.proc(1)])),
        Info::new(keys::EVENT_NON_DEFAULT, true),
    ];
    let said = clients[2].notify_event(Status::GROUP_INVITED, clients[2].proc(), DataRange::CUSTOM, &says).wait();
    assert_eq!(said.unwrap_err().status(), Status::ERR_NO_PERMISSIONS, "servers alone say so");
    let joins = clients[1].group_join(&id("g"), None, true, &[]).wait();
    assert_eq!(joins.map_err(|error| error.status()), Err(Status::ERR_NOT_FOUND));
    let leads = invite(&clients[0], "g", &[job.proc(1)], &[]);
    let stays = join(&clients[1], &invited, "g", true);
    assert_eq!([leads, stays].map(made), [0; 2].map(|_| (OK, vec![0, 1])));
}

/// A host that gives context ids when the test does.
struct GroupChannelHost(Mutex<mpsc::Sender<Completion<Infos>>>);

impl Host for GroupChannelHost {
    fn group(&self, _: i64, _: &Nspace, _: &[Proc], _: &[Info], done: Completion<Infos>) -> Accepted {
        self.0.lock().unwrap().send(done).unwrap();
        Ok(Answer::Later)
    }
}

/// The first two of so many processes, on one node.
fn two_of(size: u32, server: &Server) -> [Client; 2] {
    let nspace = id("job");
    let job = [Info::new(keys::JOB_SIZE, size), Info::new(keys::LOCAL_PEERS, "0,1")];
    server.register_nspace(&nspace, 2, &job).wait().unwrap();
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    [0, 1].map(|rank| {
        let proc = Proc::new(nspace.clone(), Rank(rank));
        server.register_client(&proc, uid, gid).wait().unwrap();
        Client::connect(&peer::address(server, &proc), &[]).unwrap()
    })
}

fn gives_up(leader: &Client, group: &str, guests: &[Proc]) {
    let range = Info::new(keys::EVENT_CUSTOM_RANGE, DataArray::of(guests.to_vec()));
    let says = [Info::new(keys::GROUP_ID, group), range];
    let said = Call::start(|done| leader.notify_event(ABORT, leader.proc(), DataRange::CUSTOM, &says).then(done));
    assert_eq!(said.end(), Ok(()));
}

/// A host that says when the test does whether an invitation goes out.
struct EventChannelHost(Mutex<mpsc::Sender<Completion<()>>>);

impl Host for EventChannelHost {
    fn notify_event(&self, status: Status, _: &Proc, _: DataRange, _: &[Info], done: Completion<()>) -> Accepted {
        if status != Status::GROUP_INVITED {
            return Ok(Answer::Done);
        }
        self.0.lock().unwrap().send(done).unwrap();
        Ok(Answer::Later)
    }
}

#[test]
fn a_refusal_of_an_invitation_that_was_given_up_ends_no_other_one() {
    let (tell, asked) = mpsc::channel();
    let server = Server::start(ServerConfig::default(), Arc::new(EventChannelHost(Mutex::new(tell)))).unwrap();
    let clients = two_of(3, &server);
    let [leader, here, elsewhere] = [0, 1, 2].map(|rank| Proc::new(id("job"), Rank(rank)));
    let guests = [here, elsewhere.clone()];
    let invited = handle(&clients[1], &[Status::GROUP_INVITED], vec![]);
    let first = invite(&clients[0], "g", &guests, &[]);
    let late = asked.recv().unwrap();
    gives_up(&clients[0], "g", &guests);
    assert_eq!(made(first).0, ABORT);
    assert_eq!(invited.recv().unwrap().0, Status::GROUP_INVITED);
    let second = invite(&clients[0], "g", &guests, &[]);
    late.complete(Err(Status::ERR_UNREACH));
    asked.recv().unwrap().complete(Ok(()));
    let stays = join(&clients[1], &invited, "g", true);
    let answer = [
        Info::new(keys::GROUP_ID, "g"),
        Info::new(keys::EVENT_CUSTOM_RANGE, DataArray::of([leader])),
        Info::new(keys::EVENT_AFFECTED_PROC, elsewhere.clone()),
        Info::new("instanton.event.said.by", server.proc()),
    ];
    server.notify_event(Status::GROUP_INVITE_ACCEPTED, &elsewhere, DataRange::CUSTOM, &answer).then(|_| ()).unwrap();
    assert_eq!([second, stays].map(made), [0; 2].map(|_| (OK, vec![0, 1, 2])));
}

#[test]
fn an_answer_for_an_invitation_that_was_given_up_completes_no_other_one() {
    let (tell, asked) = mpsc::channel();
    let server = Server::start(ServerConfig::default(), Arc::new(GroupChannelHost(Mutex::new(tell)))).unwrap();
    let clients = two_of(2, &server);
    let guest = clients[1].proc().clone();
    let invited = handle(&clients[1], &[Status::GROUP_INVITED], vec![]);
    let start = || {
        let leads = invite(&clients[0], "g", std::slice::from_ref(&guest), &[set(keys::GROUP_ASSIGN_CONTEXT_ID)]);
        assert_eq!(invited.recv().unwrap().0, Status::GROUP_INVITED);
        leads
    };
    let joins = || Call::start(|done| clients[1].group_join(&id("g"), None, true, &[]).then(done));
    let answer = |done: Completion<Infos>, context| {
        done.complete(Ok((OK, vec![Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context))])));
    };
    let (leads, stays) = (start(), joins());
    let late = asked.recv().unwrap();
    gives_up(&clients[0], "g", std::slice::from_ref(&guest));
    assert_eq!([leads, stays].map(made), [0; 2].map(|_| (ABORT, vec![])));
    let leads = start();
    answer(late, 7);
    let stays = joins();
    answer(asked.recv_timeout(DEADLINE).expect("it is asked for the group that there is"), 8);
    for (status, infos) in [leads, stays].map(|call| call.end().unwrap()) {
        assert_eq!((status, members(&infos), context(&infos)), (OK, vec![0, 1], 8));
    }
}

#[test]
fn nobody_else_ends_an_invitation_whose_leader_is_dead() {
    let cluster = Cluster::new(1);
    let (job, other) = (cluster.job("job", &[0; 3]), cluster.job("other", &[0]));
    let (clients, stranger) = (clients(&job, 3), client(&other, 0));
    let invited = [1, 2].map(|rank: usize| handle(&clients[rank], &[Status::GROUP_INVITED], vec![]));
    let (tell, asked) = mpsc::channel();
    // It decides when the test does.
    let handler = move |_: Notice, chain: Chain| tell.send(chain).unwrap();
    let failed = [Status::GROUP_LEADER_FAILED];
    Call::start(|done| clients[1].register_event_handler(&failed, &[], Arc::new(handler)).then(done)).end().unwrap();
    let leads = invite(&clients[0], "g", &[job.proc(1), job.proc(2)], &[]);
    let first = join(&clients[1], &invited[0], "g", true);
    cluster.server(0).client_died(&job.proc(0));
    let chain = asked.recv().unwrap();
    let says = [Info::new(keys::GROUP_ID, "g"), Info::new(keys::EVENT_CUSTOM_RANGE, DataArray::of([job.proc(0)]))];
    let said = Call::start(|done| stranger.notify_event(ABORT, stranger.proc(), DataRange::CUSTOM, &says).then(done));
    assert_eq!(said.end(), Ok(()));
    chain.complete(OK, vec![set(keys::GROUP_LEADER)]);
    let second = join(&clients[2], &invited[1], "g", true);
    assert_eq!([first, second].map(made), [0; 2].map(|_| (OK, vec![1, 2])));
    assert!(leads.end().is_err());
}
