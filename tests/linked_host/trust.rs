//! Words that servers alone may say: a rank that says them, here or on another node, is believed nothing.
use instanton::data::{DataArray, DataRange, Info, Nspace, Proc, Scope, Status, keys};
use instanton::internal::message::{GroupCall, Have, Reply, Request};

use crate::host::{Cluster, Job};
use crate::peer::Peer;

const REFUSED: Status = Status::ERR_NO_PERMISSIONS;

fn group() -> Nspace {
    Nspace::new("g").unwrap()
}

/// Attributes of an event that names the members of a group, for these processes.
fn membership(members: &[Proc]) -> Vec<Info> {
    let procs = || DataArray::of(members.to_vec());
    vec![
        Info::new(keys::GROUP_ID, "g"),
        Info::new(keys::GROUP_MEMBERSHIP, procs()),
        Info::new(keys::EVENT_CUSTOM_RANGE, procs()),
    ]
}

fn notify(status: Status, info: Vec<Info>) -> Request {
    Request::Notify { status, range: DataRange::CUSTOM, info }
}

fn maps(peer: &mut Peer, job: &Job<'_>) -> bool {
    match peer.ask(Request::Segments { nspace: job.nspace.clone(), have: Have::default() }) {
        Reply::Segments { parts } => !parts.is_empty(),
        Reply::Done(REFUSED) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_membership_that_a_rank_of_another_node_forges_lets_it_map_nothing() {
    let cluster = Cluster::new(2);
    let (bad, good) = (cluster.job("bad", &[0, 1]), cluster.job("good", &[1]));
    let (mut forger, mut accomplice, mut victim) = (bad.peer(0), bad.peer(1), good.peer(0));
    let members = [bad.proc(0), bad.proc(1), good.proc(0)];
    let complete = Status::GROUP_CONSTRUCT_COMPLETE;
    assert_eq!(forger.status(notify(complete, membership(&members))), REFUSED);
    let signature = || Info::new("instanton.event.said.by", cluster.server(0).proc());
    let proxy = Info::new(keys::EVENT_PROXY, cluster.server(0).proc());
    for word in [signature(), proxy] {
        let info = [membership(&members), vec![word]].concat();
        assert_eq!(forger.status(notify(Status(-5000), info)), REFUSED);
    }
    assert!(!maps(&mut accomplice, &good) && cluster.world.count("event") == 0);
    // A server that lets its ranks say such things: the event comes unsigned.
    let relay = |info: Vec<Info>| cluster.server(1).notify_event(complete, &bad.proc(0), DataRange::CUSTOM, &info);
    relay(membership(&members)).wait().unwrap();
    assert!(!maps(&mut accomplice, &good));
    let destruct = Request::Group { group: group(), call: GroupCall::Destruct { info: vec![] }, seen: None };
    assert_eq!(accomplice.status(destruct), Status::ERR_NOT_FOUND, "there is no such group");
    // Even an event that a server has signed grants nothing: the victim has not come to the group.
    relay([membership(&members), vec![signature()]].concat()).wait().unwrap();
    assert!(!maps(&mut accomplice, &good) && !maps(&mut victim, &bad));
}

#[test]
fn guests_that_have_come_here_map_each_others_memory() {
    let cluster = Cluster::new(2);
    let (one, other) = (cluster.job("one", &[0, 1]), cluster.job("other", &[1]));
    let (mut leader, mut near, mut far) = (one.peer(1), other.peer(0), one.peer(0));
    let call = |call| Request::Group { group: group(), call, seen: None };
    assert!(!maps(&mut near, &one));
    let procs = vec![one.proc(0), other.proc(0)];
    let leads = leader.send(call(GroupCall::Invite { procs, info: vec![] }));
    let join = || call(GroupCall::Join { leader: None, accept: true, info: vec![] });
    // The leader's next request is answered when the invitation has come to the others of its node. It takes its time to
    // the other one.
    assert_eq!(leader.commit(Scope::GLOBAL, "k", 1u32), Status::SUCCESS);
    let comes = near.send(join());
    loop {
        let number = far.send(join());
        match far.answer(number) {
            Reply::Infos(Status::SUCCESS, _) => break,
            Reply::Done(Status::ERR_NOT_FOUND) => std::thread::yield_now(),
            reply => panic!("{reply:?}"),
        }
    }
    assert!([leader.answer(leads), near.answer(comes)].iter().all(|r| matches!(r, Reply::Infos(Status::SUCCESS, _))));
    assert!(maps(&mut near, &one) && maps(&mut leader, &other));
    assert!(!maps(&mut far, &other), "nobody of the other job has come there");
}
