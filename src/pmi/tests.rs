//! Conversations with processes, written by hand, up to the requests and back.
use std::sync::Arc;

use super::conversation::{Conversation, Step};
use super::version::Version;
use super::words::frame;
use crate::account::Account;
use crate::data::{Info, Key, Nspace, Pdata, Proc, Rank, Status, Value};
use crate::message::{Forward, Reply, Request};
use crate::stock::testing::Job;

fn conversation(version: Version) -> Conversation {
    conversation_at(version, Account::unlimited())
}

fn conversation_at(version: Version, account: Account) -> Conversation {
    let proc = Proc::new(Nspace::new("job").unwrap(), Rank(1));
    let mapping = Some(Arc::from(&b"(vector,(0,2,2))"[..]));
    Conversation::new(proc, version, Some(Job::new(2, 2)), mapping, account)
}

/// Says a line, and returns what is said to it at once.
fn said(to: &mut Conversation, line: &str) -> String {
    match to.line(line.as_bytes()) {
        Ok(Some(Step::Send(bytes))) => String::from_utf8(bytes).unwrap(),
        other => panic!("{line}: {other:?}"),
    }
}

/// Says a line, and returns what the server is asked for it.
fn asked(to: &mut Conversation, line: &str) -> (u64, Request) {
    match to.line(line.as_bytes()) {
        Ok(Some(Step::Ask(number, request))) => (number, request),
        other => panic!("{line}: {other:?}"),
    }
}

fn replied(to: &mut Conversation, number: u64, reply: Reply) -> String {
    match to.replied(number, reply) {
        Some(Step::Send(bytes)) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

const DONE: Reply = Reply::Done(Status::SUCCESS);

#[test]
fn a_conversation_in_lines() {
    let mut one = conversation(Version::One(1));
    assert_eq!(said(&mut one, "cmd=get_maxes"), "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n");
    assert_eq!(said(&mut one, "cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=job\n");
    assert_eq!(said(&mut one, "cmd=get_universe_size"), "cmd=universe_size rc=0 size=4\n");
    let mapping = said(&mut one, "cmd=get kvsname=job key=PMI_process_mapping");
    assert_eq!(mapping, "cmd=get_result rc=0 value=(vector,(0,2,2))\n");
    let (number, request) = asked(&mut one, "cmd=put kvsname=job key=k value=a=b");
    assert!(matches!(request, Request::Get { .. }) && one.is_waiting());
    let Some(Step::Ask(number, Request::Commit { entries })) = one.replied(number, Reply::Done(Status::ERR_NOT_FOUND))
    else {
        panic!("a free key is put")
    };
    assert_eq!(entries[0].value, Value::string("a=b"));
    assert_eq!(replied(&mut one, number, DONE), "cmd=put_result rc=0\n");
    let (number, _) = asked(&mut one, "cmd=put kvsname=job key=k value=c");
    assert!(replied(&mut one, number, Reply::Value(Value::string("a=b"))).starts_with("cmd=put_result rc=-1 msg=dup"));
    let (number, request) = asked(&mut one, "cmd=barrier_in");
    assert!(matches!(request, Request::Fence { procs, .. } if procs.is_empty()));
    assert_eq!(replied(&mut one, number, DONE), "cmd=barrier_out rc=0\n");
    for (group, ranks) in [("NODE", vec![0, 1]), ("0,2-3", vec![0, 2, 3])] {
        let (number, request) = asked(&mut one, &format!("cmd=barrier_in group={group}"));
        let Request::Fence { procs, .. } = request else { panic!("{request:?}") };
        assert_eq!(procs.iter().map(|proc| proc.rank.0).collect::<Vec<_>>(), ranks);
        replied(&mut one, number, DONE);
    }
    assert_eq!(said(&mut one, "cmd=barrier_in group=2-9"), "cmd=barrier_out rc=-1 msg=no_such_group\n");
    let (number, _) = asked(&mut one, "cmd=get kvsname=job key=k");
    assert_eq!(replied(&mut one, number, Reply::Value(Value::string("v"))), "cmd=get_result rc=0 value=v\n");
    let (number, _) = asked(&mut one, "cmd=get kvsname=job key=k");
    let missing = replied(&mut one, number, Reply::Done(Status::ERR_NOT_FOUND));
    assert_eq!(missing, "cmd=get_result rc=-1 msg=key_k_not_found\n");
    let (_, request) = asked(&mut one, "cmd=abort exitcode=7 message=the end");
    assert_eq!(request, Request::Abort { status: 7, message: Some(b"the end".to_vec()), procs: vec![] });
    assert!(!one.is_waiting(), "nobody answers an abort");
    let (number, request) = asked(&mut one, "cmd=finalize");
    assert_eq!((request, replied(&mut one, number, DONE)), (Request::Finalize, "cmd=finalize_ack rc=0\n".to_owned()));
    assert_eq!(said(&mut one, "cmd=get_appnum"), "cmd=appnum rc=-1 msg=finalized\n");
}

#[test]
fn names_and_spawns_in_lines() {
    let mut one = conversation(Version::One(1));
    let (number, request) = asked(&mut one, "cmd=publish_name service=s port=p$1");
    let info = vec![Info::new("s", "p$1")];
    assert_eq!(request, Request::Forward(Forward::Publish { info }));
    assert_eq!(replied(&mut one, number, DONE), "cmd=publish_result rc=0\n");
    let (number, _) = asked(&mut one, "cmd=lookup_name service=s");
    let found = Pdata {
        proc: Proc::new(Nspace::new("job").unwrap(), Rank(0)),
        key: Key::new("s").unwrap(),
        value: Value::string("p$1"),
    };
    let published = Reply::Published(Status::SUCCESS, vec![found]);
    assert_eq!(replied(&mut one, number, published), "cmd=lookup_result rc=0 port=p$1\n");
    let (number, _) = asked(&mut one, "cmd=lookup_name service=none");
    let reply = replied(&mut one, number, Reply::Done(Status::ERR_NOT_FOUND));
    assert!(reply.starts_with("cmd=lookup_result rc=-1 "), "{reply}");
    for line in ["mcmd=spawn", "nprocs=3", "execname=a", "totspawns=1", "spawnssofar=1"] {
        assert_eq!(one.line(line.as_bytes()), Ok(None));
    }
    let (number, _) = asked(&mut one, "endcmd");
    let spawned = Reply::Spawned(Nspace::new("child").unwrap());
    assert_eq!(replied(&mut one, number, spawned), "cmd=spawn_result rc=0 errcodes=0,0,0\n");
    assert!(said(&mut one, "cmd=moon x=1").starts_with("cmd=moon rc=-1 "));
}

/// Says a frame.
fn framed(to: &mut Conversation, pairs: &[(&str, &str)]) -> Step {
    let pairs: Vec<(&str, &[u8])> = pairs.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    to.frame(&frame(&pairs)[6..]).unwrap().unwrap()
}

fn text(step: Step) -> String {
    match step {
        Step::Send(bytes) | Step::Put(_, bytes) => String::from_utf8(bytes[6..].to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_conversation_in_frames_answers_each_request_with_its_token() {
    let mut two = conversation(Version::Two);
    let init = text(framed(&mut two, &[("cmd", "fullinit"), ("pmirank", "1"), ("thrid", "a")]));
    assert!(init.starts_with("cmd=fullinit-response;thrid=a;rc=0;") && init.contains(";rank=1;size=4;"), "{init}");
    assert!(!init.contains("spawner"), "{init}");
    let step = framed(&mut two, &[("cmd", "info-getjobattr"), ("key", "PMI_process_mapping")]);
    assert_eq!(text(step), "cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,2,2));");
    let ask = |step| match step {
        Step::Ask(number, _) => number,
        other => panic!("{other:?}"),
    };
    let fence = ask(framed(&mut two, &[("cmd", "kvs-fence"), ("thrid", "f")]));
    let get = ask(framed(&mut two, &[("cmd", "kvs-get"), ("key", "k"), ("thrid", "g")]));
    let found = two.replied(get, Reply::Value(Value::string("a;b"))).unwrap();
    assert_eq!(text(found), "cmd=kvs-get-response;thrid=g;rc=0;found=TRUE;value=a;;b;");
    assert_eq!(text(two.replied(fence, DONE).unwrap()), "cmd=kvs-fence-response;thrid=f;rc=0;");
    assert_eq!(
        text(framed(&mut two, &[("cmd", "job-connect")])),
        "cmd=job-connect-response;rc=-1;errmsg=not supported;"
    );
}

#[test]
fn an_attribute_of_the_node_is_waited_for() {
    let mut two = conversation(Version::Two);
    let Step::Ask(number, _) = framed(&mut two, &[("cmd", "info-getnodeattr"), ("key", "k"), ("wait", "TRUE")]) else {
        panic!("it is looked for")
    };
    let Some(Step::Await(key, _)) = two.replied(number, Reply::Done(Status::ERR_NOT_FOUND)) else { panic!("it waits") };
    let Step::Ask(put, _) = framed(&mut two, &[("cmd", "info-putnodeattr"), ("key", "k"), ("value", "v")]) else {
        panic!("it is put")
    };
    assert!(matches!(two.replied(put, DONE), Some(Step::Put(known, _)) if known == key));
    assert!(matches!(two.again(number), Some(Step::Ask(again, _)) if again == number));
    let found = text(two.replied(number, Reply::Value(Value::string("v"))).unwrap());
    assert_eq!(found, "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=v;");
}

#[test]
fn one_that_waits_for_an_attribute_is_charged_until_it_is_answered() {
    let account = Account::of_job("job", 5 << 10);
    let mut two = conversation_at(Version::Two, account.clone());
    let (key, token) = ("k".repeat(400), "t".repeat(250));
    let ask = [("cmd", "info-getnodeattr"), ("thrid", token.as_str()), ("key", key.as_str()), ("wait", "TRUE")];
    let missing = || Reply::Done(Status::ERR_NOT_FOUND);
    let mut waits = || {
        let Step::Ask(number, _) = framed(&mut two, &ask) else { panic!("it is looked for") };
        (number, two.replied(number, missing()).expect("a step"))
    };
    let (number, first) = waits();
    assert!(matches!(first, Step::Await(..)), "{first:?}");
    let one = account.used();
    assert!(one > 1024 + 400 + 250, "{one}");
    let (second, _) = waits();
    let refused = text(waits().1);
    assert!(refused.ends_with(";rc=-1;errmsg=no room for a request that waits;"), "{refused}");
    assert_eq!(account.used(), 2 * one);
    assert!(matches!(two.again(number), Some(Step::Ask(..))));
    assert!(matches!(two.replied(number, missing()), Some(Step::Await(..))), "it was put and taken back");
    assert_eq!(account.used(), 2 * one, "no second time");
    text(two.replied(number, Reply::Value(Value::string("v"))).expect("an answer"));
    assert_eq!(account.used(), one);
    let refused = text(two.cannot_wait(second).expect("an answer"));
    assert!(refused.ends_with(";rc=-1;errmsg=too many requests wait;") && account.used() == 0, "{refused}");
}
