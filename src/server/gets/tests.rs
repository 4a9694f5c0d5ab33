//! Tests of Gets: what they wait for, what ends them, and in whose time.
use std::cell::Cell;
use std::sync::mpsc;

use super::blob::Blob;
use super::fetches::MOST_KEYS;
use super::sweeps::SLICE;
use super::*;
use crate::data::Scope;
use crate::message::door::{Making, Outgoing};
use crate::message::{Posted, Reply};
use crate::server::ctx::accounts::Accounts;
use crate::server::ctx::effect::Effect;
use crate::server::ctx::slices::Slice;
use crate::server::ctx::testing::{self, TestCtx, proc};
use crate::server::host::{Accepted, Answer, Completion, Host, NoHost};

mod direct_modex;

thread_local! {
    /// Look-ups that were made again.
    pub static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// A host that keeps what it is asked.
struct ChannelHost(mpsc::Sender<(Proc, Completion<Vec<u8>>)>);

impl Host for ChannelHost {
    fn direct_modex(&self, proc: &Proc, _: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        self.0.send((proc.clone(), done)).unwrap();
        Ok(Answer::Later)
    }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A job of four ranks, of which 0 and 1 run here.
fn bench(host: impl Host) -> (TestCtx, Jobs, Gets) {
    let mut jobs = Jobs::default();
    jobs.add(&proc("job", 0).nspace, 4, &[Rank(0), Rank(1)]);
    (testing::ctx(host), jobs, Gets::default())
}

fn commit(test: &mut TestCtx, jobs: &mut Jobs, gets: &mut Gets, rank: u32, name: &str, scope: Scope) {
    let entry = Posted { scope, key: key(name), value: Value::from(rank) };
    jobs.commit(&mut test.cx, proc("job", rank), vec![entry]).unwrap();
    posted(test, jobs, gets);
}

fn posted(test: &mut TestCtx, jobs: &Jobs, gets: &mut Gets) {
    for effect in test.effects() {
        match effect {
            Effect::Posted { proc, keys } => gets.posted(&mut test.cx, jobs, &proc, &keys),
            // The host has not been to other nodes, which it was asked about for a key of no rank.
            Effect::Returned(Ticket::DirectModex(_, _, Err(Status::ERR_NOT_SUPPORTED))) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_get_waits_until_the_key_is_posted_by_that_rank_or_by_any() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let peer = test.connect(&proc("job", 0));
    let [named, any] = [Rank(1), Rank::UNDEF].map(|rank| {
        let caller = test.request(peer);
        let of = Proc::new(proc("job", 0).nspace, rank);
        gets.get(&mut test.cx, &jobs, caller, of, Some(key("k")), &[]);
        caller
    });
    commit(&mut test, &mut jobs, &mut gets, 1, "other", Scope::GLOBAL);
    assert_eq!(test.replies(), []);
    commit(&mut test, &mut jobs, &mut gets, 1, "k", Scope::GLOBAL);
    let value = || Reply::Value(Value::from(1u32));
    assert_eq!(test.replies(), [(named, value()), (any, value())]);
    assert!(test.advance(Duration::from_secs(3600)).is_empty(), "no deadline is left behind");
}

#[test]
fn a_value_that_takes_long_to_copy_is_read_when_its_answer_is_made() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let peer = test.connect(&proc("job", 0));
    let value = |byte: u8| Value::from(vec![byte; Making::LONG]);
    let put = |test: &mut TestCtx, jobs: &mut Jobs, byte| {
        let entry = Posted { scope: Scope::LOCAL, key: key("k"), value: value(byte) };
        jobs.commit(&mut test.cx, proc("job", 1), vec![entry]).unwrap();
    };
    // One waits for it, another one finds it, and a third does not, in its scope.
    let ask = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs, rank, info: &[Info]| {
        let (caller, of) = (test.request(peer), Proc::new(proc("job", 0).nspace, rank));
        gets.get(&mut test.cx, jobs, caller, of, Some(key("k")), info);
    };
    ask(&mut test, &mut gets, &jobs, Rank(1), &[]);
    put(&mut test, &mut jobs, 7);
    posted(&mut test, &jobs, &mut gets);
    ask(&mut test, &mut gets, &jobs, Rank::UNDEF, &[]);
    let scope = |scope| [Info::new(keys::DATA_SCOPE, Value::Scope(scope)), Info::new(keys::OPTIONAL, true)];
    ask(&mut test, &mut gets, &jobs, Rank(1), &scope(Scope::LOCAL));
    let is_made = |(_, message): &(PeerId, Outgoing)| matches!(message, Outgoing::Made { .. });
    assert!(test.cx.outbox.len() == 3 && test.cx.outbox.iter().all(is_made), "{:?}", test.cx.outbox);
    put(&mut test, &mut jobs, 8);
    let replies = test.replies();
    assert!(replies.iter().all(|(_, reply)| *reply == Reply::Value(value(8))), "what is there when it is read");
    test.effects();
    ask(&mut test, &mut gets, &jobs, Rank(1), &scope(Scope::REMOTE));
    assert_eq!(test.replies().pop().map(|(_, reply)| reply), Some(Reply::Done(Status::ERR_NOT_FOUND)));
}

#[test]
fn a_peer_that_takes_all_is_told_all_that_is_posted_or_the_value_where_that_is_much() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let peer = test.connect(&proc("job", 0));
    test.cx.peers.get_mut(&peer).unwrap().capabilities.takes_all_posted = true;
    let ask = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs| {
        let caller = test.request(peer);
        gets.get(&mut test.cx, jobs, caller, proc("job", 1), Some(key("k")), &[]);
    };
    ask(&mut test, &mut gets, &jobs);
    commit(&mut test, &mut jobs, &mut gets, 1, "other", Scope::GLOBAL);
    assert_eq!(test.replies(), []);
    commit(&mut test, &mut jobs, &mut gets, 1, "k", Scope::GLOBAL);
    let [(_, Reply::Infos(Status::SUCCESS, infos))] = &test.replies()[..] else { panic!("not all") };
    let mut keys: Vec<_> = infos.iter().map(|info| info.key.clone()).collect();
    keys.sort();
    assert_eq!(keys, [key("k"), key("other")]);
    let large = Posted { scope: Scope::LOCAL, key: key("large"), value: Value::from(vec![7; 2 << 20]) };
    jobs.commit(&mut test.cx, proc("job", 1), vec![large]).unwrap();
    posted(&mut test, &jobs, &mut gets);
    ask(&mut test, &mut gets, &jobs);
    assert_eq!(test.replies().pop().map(|(_, reply)| reply), Some(Reply::Value(Value::from(1u32))));
}

#[test]
fn a_get_ends_when_it_has_waited_long_enough() {
    let (mut test, jobs, mut gets) = bench(NoHost);
    let peer = test.connect(&proc("job", 0));
    let caller = test.request(peer);
    gets.get(&mut test.cx, &jobs, caller, proc("job", 1), Some(key("k")), &[]);
    let patience = test.cx.config.get_patience;
    assert!(test.advance(patience - Duration::from_millis(1)).is_empty());
    let expired = test.advance(Duration::from_millis(1));
    let [Deadline::Get(number)] = expired[..] else { panic!("{expired:?}") };
    gets.expired(&mut test.cx, number);
    assert_eq!(test.replies(), [(caller, Reply::Done(Status::ERR_TIMEOUT))]);
}

#[test]
fn what_cannot_come_is_not_waited_for() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let peer = test.connect(&proc("job", 0));
    let ask = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs, name, info: &[Info]| {
        let caller = test.request(peer);
        gets.get(&mut test.cx, jobs, caller, proc("job", 1), Some(key(name)), info);
        test.replies().into_iter().map(|(_, reply)| reply).next()
    };
    let nothing = Some(Reply::Done(Status::ERR_NOT_FOUND));
    assert_eq!(ask(&mut test, &mut gets, &jobs, "k", &[Info::new(keys::OPTIONAL, true)]), nothing);
    assert_eq!(ask(&mut test, &mut gets, &jobs, "pmix.reserved", &[]), nothing);
    // A key for other nodes alone ends the wait for it.
    assert_eq!(ask(&mut test, &mut gets, &jobs, "hidden", &[]), None);
    commit(&mut test, &mut jobs, &mut gets, 1, "hidden", Scope::REMOTE);
    assert_eq!(test.replies().pop().map(|(_, reply)| reply), nothing);
    assert_eq!(ask(&mut test, &mut gets, &jobs, "hidden", &[]), nothing);
    // So does the end of the process.
    assert_eq!(ask(&mut test, &mut gets, &jobs, "k", &[]), None);
    gets.process_gone(&mut test.cx, &jobs, &proc("job", 1));
    assert_eq!(test.replies().pop().map(|(_, reply)| reply), nothing);
}

#[test]
fn a_scope_limits_what_is_posted_and_what_is_internal_never_comes() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let peer = test.connect(&proc("job", 0));
    commit(&mut test, &mut jobs, &mut gets, 1, "local", Scope::LOCAL);
    commit(&mut test, &mut jobs, &mut gets, 1, "global", Scope::GLOBAL);
    let mut ask = |key, scope| {
        let caller = test.request(peer);
        let info = [Info::new(keys::DATA_SCOPE, scope)];
        gets.get(&mut test.cx, &jobs, caller, proc("job", 1), key, &info);
        test.replies().pop().map(|(_, reply)| reply)
    };
    let mut posted = |scope| {
        let Some(Reply::Infos(_, infos)) = ask(None, scope) else { panic!("all of it") };
        let names = infos.iter().filter_map(|info| info.key.as_str()).filter(|key| !key.starts_with("pmix."));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(posted(Scope::LOCAL), ["local", "global"]);
    assert_eq!((posted(Scope::GLOBAL), posted(Scope::REMOTE)), (vec!["global".into()], vec!["global".into()]));
    assert_eq!(ask(Some(key("k")), Scope::INTERNAL), Some(Reply::Done(Status::ERR_NOT_FOUND)));
    assert_eq!(ask(Some(key("k")), Scope::LOCAL), None);
}

#[test]
fn a_node_and_a_session_are_known_whatever_the_process() {
    let (mut test, jobs, mut gets) = bench(NoHost);
    let peer = test.connect(&proc("job", 0));
    let mut ask = |key: &str, named: bool| {
        let caller = test.request(peer);
        let place = Info::new(keys::HOSTNAME, "here");
        let info: Vec<Info> = [Info::new(keys::NODE_INFO, true)].into_iter().chain(named.then_some(place)).collect();
        gets.get(&mut test.cx, &jobs, caller, proc("unknown", 7), Key::new(key).ok(), &info);
        test.replies().pop().map(|(_, reply)| reply)
    };
    let nothing = Some(Reply::Done(Status::ERR_NOT_FOUND));
    assert_eq!(ask(keys::HOSTNAME, true), Some(Reply::Value("here".into())));
    assert_eq!((ask(keys::HOSTNAME, false), ask(keys::LOCAL_SIZE, true)), (nothing.clone(), nothing));
}

#[test]
fn the_host_is_asked_once_for_all_who_wait_and_anew_after_they_have_gone() {
    let (sender, asked) = mpsc::channel();
    let (mut test, mut jobs, mut gets) = bench(ChannelHost(sender));
    let peers = [0, 1].map(|rank| test.connect(&proc("job", rank)));
    let ask = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs, peer| {
        let caller = test.request(peer);
        gets.get(&mut test.cx, jobs, caller, proc("job", 3), Some(key("k")), &[]);
        caller
    };
    for peer in peers {
        ask(&mut test, &mut gets, &jobs, peer);
    }
    let (first, done) = asked.try_recv().unwrap();
    assert!(first == proc("job", 3) && asked.try_recv().is_err());
    peers.iter().for_each(|peer| gets.peer_over(&mut test.cx, &jobs, *peer));
    let late = test.connect(&proc("job", 0));
    let caller = ask(&mut test, &mut gets, &jobs, late);
    let (_, anew) = asked.try_recv().expect("the host is asked anew");
    let nothing = Reply::Done(Status::ERR_NOT_FOUND);
    for (done, replies) in [(done, vec![]), (anew, vec![(caller, nothing)])] {
        done.complete(Ok(Vec::new()));
        let Some(Ticket::DirectModex(of, number, result)) = test.ticket() else { panic!("an answer") };
        gets.fetched(&mut test.cx, &mut jobs, &of, number, result.map(|_| Said::default()));
        assert_eq!(test.replies(), replies);
    }
}

#[test]
fn who_asks_while_the_host_is_asked_is_not_told_what_was_there_before() {
    let (sender, asked) = mpsc::channel();
    let (mut test, mut jobs, mut gets) = bench(ChannelHost(sender));
    let peers = [0, 1].map(|rank| test.connect(&proc("job", rank)));
    let mut callers = ["before", "since"].iter().zip(peers).map(|(name, peer)| {
        let caller = test.request(peer);
        gets.get(&mut test.cx, &jobs, caller, proc("job", 3), Some(key(name)), &[]);
        caller
    });
    let [early, late] = [(); 2].map(|()| callers.next().unwrap());
    drop(callers);
    for caller in [early, late] {
        let (_, done) = asked.try_recv().expect("the host is asked, and anew for who has come since");
        assert!(asked.try_recv().is_err(), "and once for both");
        done.complete(Ok(Vec::new()));
        let Some(Ticket::DirectModex(of, number, result)) = test.ticket() else { panic!("an answer") };
        gets.fetched(&mut test.cx, &mut jobs, &of, number, result.map(|_| Said::default()));
        assert_eq!(test.replies(), [(caller, Reply::Done(Status::ERR_NOT_FOUND))]);
    }
    assert_eq!((asked.try_recv().is_err(), gets.open()), (true, 0));
}

#[test]
fn a_key_of_another_node_is_waited_for_as_long_as_the_asker_says() {
    let (sender, asked) = mpsc::channel();
    let (mut test, mut jobs, mut gets) = bench(ChannelHost(sender));
    let peer = test.connect(&proc("job", 0));
    let nothing = Reply::Done(Status::ERR_NOT_FOUND);
    let brought = |test: &mut TestCtx, jobs: &mut Jobs, gets: &mut Gets, done: Completion<Vec<u8>>, result| {
        done.complete(result);
        let Some(Ticket::DirectModex(of, number, result)) = test.ticket() else { panic!("an answer") };
        gets.fetched(&mut test.cx, jobs, &of, number, result.map(|_| Said::default()));
    };
    for (seconds, failed) in [(None, None), (Some(5), None), (Some(0), None), (Some(5), Some(Status::ERR_UNREACH))] {
        let caller = test.request(peer);
        let info: Vec<Info> = seconds.map(|seconds: i32| Info::new(keys::TIMEOUT, seconds)).into_iter().collect();
        gets.get(&mut test.cx, &jobs, caller, proc("job", 3), Some(key("k")), &info);
        let (_, done) = asked.try_recv().unwrap();
        let Some(_) = seconds else {
            brought(&mut test, &mut jobs, &mut gets, done, Ok(Vec::new()));
            assert_eq!(test.replies(), [(caller, nothing.clone())]);
            continue;
        };
        brought(&mut test, &mut jobs, &mut gets, done, failed.map_or(Ok(Vec::new()), Err));
        if let Some(status) = failed {
            assert_eq!(test.replies(), [(caller, Reply::Done(status))]);
            continue;
        }
        // It has posted others: the host is asked for what there is once the key is there, and once only.
        let (_, done) = asked.try_recv().expect("the host is asked for the key");
        assert_eq!(test.replies(), []);
        brought(&mut test, &mut jobs, &mut gets, done, Ok(Vec::new()));
        assert_eq!(test.replies(), [(caller, nothing.clone())]);
        assert!(asked.try_recv().is_err());
        assert_eq!(gets.open(), 0);
    }
}

#[test]
fn the_host_waits_for_a_few_keys_for_each_who_asks_and_is_asked_again_for_more() {
    let (sender, asked) = mpsc::channel();
    let (mut test, mut jobs, mut gets) = bench(ChannelHost(sender));
    let peers = [0, 1].map(|rank| test.connect(&proc("job", rank)));
    let ask = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs, peer, name: &str| {
        let caller = test.request(peer);
        let info = [Info::new(keys::TIMEOUT, 1000)];
        gets.get(&mut test.cx, jobs, caller, proc("job", 3), Some(key(name)), &info);
    };
    let brought = |test: &mut TestCtx, jobs: &mut Jobs, gets: &mut Gets, done: Completion<Vec<u8>>, result| {
        done.complete(result);
        let Some(Ticket::DirectModex(of, number, result)) = test.ticket() else { panic!("an answer") };
        gets.fetched(&mut test.cx, jobs, &of, number, result.map(|_| Said::default()));
    };
    let all_asked = || std::iter::from_fn(|| asked.try_recv().ok().map(|(_, done)| done)).collect::<Vec<_>>();
    let many = MOST_KEYS + 3;
    (0..many).for_each(|at| ask(&mut test, &mut gets, &jobs, peers[0], &format!("never{at}")));
    let [posted] = <[_; 1]>::try_from(all_asked()).unwrap_or_else(|all| panic!("{} requests", all.len()));
    brought(&mut test, &mut jobs, &mut gets, posted, Ok(Vec::new()));
    let mut waiting = all_asked();
    assert_eq!(waiting.len(), MOST_KEYS);
    // Another one is not in the way of that.
    ask(&mut test, &mut gets, &jobs, peers[1], "late");
    brought(&mut test, &mut jobs, &mut gets, all_asked().pop().expect("what is posted"), Ok(Vec::new()));
    let late = all_asked();
    assert_eq!(late.len(), 1);
    waiting.extend(late);
    // The rest is asked for after pauses.
    for pause in [50, 100] {
        assert!(test.advance(Duration::from_millis(pause - 1)).is_empty());
        let due = test.advance(Duration::from_millis(1));
        let [Deadline::FetchAgain(number)] = due[..] else { panic!("{due:?}") };
        gets.fetch_again(&mut test.cx, number);
        let mut again = all_asked();
        let result = if pause == 50 { Ok(Vec::new()) } else { Err(Status::ERR_NOT_FOUND) };
        brought(&mut test, &mut jobs, &mut gets, again.pop().expect("what is posted"), result);
        assert_eq!((again.len(), all_asked().len()), (0, 0));
    }
    assert_eq!(test.replies().len(), many + 1, "it posts nothing any more");
    waiting.into_iter().for_each(|done| brought(&mut test, &mut jobs, &mut gets, done, Ok(Vec::new())));
    assert_eq!((gets.open(), test.advance(Duration::from_secs(2000)).len()), (0, 0));
}

#[test]
fn a_key_without_a_rank_is_found_by_a_host_that_keeps_what_others_post() {
    let (sender, asked) = mpsc::channel();
    let (mut test, mut jobs, mut gets) = bench(ChannelHost(sender));
    jobs.one_client = true;
    let peer = test.connect(&proc("job", 0));
    let any = Proc::new(proc("job", 0).nspace, Rank::UNDEF);
    let entries = ["other", "k"].map(|name| Posted { scope: Scope::GLOBAL, key: key(name), value: Value::from(7u32) });
    let row = exchange::of_host(&proc("server", 0), 1, vec![(any.clone(), entries.to_vec())]);
    let none = Err(Status::ERR_NOT_FOUND);
    for (name, row, reply) in [
        ("k", row.clone(), Reply::Value(Value::from(7u32))),
        ("absent", row, Reply::Done(Status::ERR_NOT_FOUND)),
        ("k", none, Reply::Done(Status::ERR_NOT_FOUND)),
    ] {
        let caller = test.request(peer);
        gets.get(&mut test.cx, &jobs, caller, any.clone(), Some(key(name)), &[]);
        assert!(test.advance(Duration::from_secs(3600)).is_empty(), "the host's patience counts");
        let (of, done) = asked.try_recv().unwrap();
        assert_eq!((of, test.replies()), (any.clone(), vec![]));
        done.complete(row);
        let Some(Ticket::Unnamed(number, result)) = test.ticket() else { panic!("an answer") };
        gets.unnamed(&mut test.cx, number, result);
        assert_eq!(test.replies(), [(caller, reply)]);
        assert_eq!(gets.open(), 0);
    }
}

#[test]
fn what_a_process_posts_is_looked_at_for_those_alone_who_wait_for_that() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let peers = [0, 1].map(|rank| test.connect(&proc("job", rank)));
    let ask = |test: &mut TestCtx, gets: &mut Gets, jobs: &Jobs, peer, of: u32, name: &str| {
        let caller = test.request(peer);
        let limit = [Info::new(keys::TIMEOUT, 0)];
        gets.get(&mut test.cx, jobs, caller, proc("job", of), Some(key(name)), &limit);
        caller
    };
    for number in 0..20_000 {
        ask(&mut test, &mut gets, &jobs, peers[0], 1, &format!("never{number}"));
    }
    let wanted = ask(&mut test, &mut gets, &jobs, peers[1], 0, "k");
    LOOKS.set(0);
    for round in 0..100 {
        commit(&mut test, &mut jobs, &mut gets, 1, &format!("other{round}"), Scope::GLOBAL);
    }
    commit(&mut test, &mut jobs, &mut gets, 0, "k", Scope::GLOBAL);
    assert_eq!(test.replies(), [(wanted, Reply::Value(Value::from(0u32)))]);
    assert_eq!(LOOKS.get(), 1);
    peers.iter().for_each(|peer| gets.peer_over(&mut test.cx, &jobs, *peer));
    while let Some(Slice::Gets) = test.cx.slices.pop_front() {
        gets.slice(&mut test.cx, &jobs);
    }
    assert!(gets.waiting.is_empty() && gets.by_proc.is_empty() && gets.by_peer.is_empty());
    assert!(!test.cx.awaited.has(&proc("job", 1)));
}

#[test]
fn what_many_wait_for_is_answered_in_slices() {
    const MANY: usize = 3 * SLICE;
    let nothing = Reply::Done(Status::ERR_NOT_FOUND);
    for end in ["posted", "gone", "left", "over"] {
        let (mut test, mut jobs, mut gets) = bench(NoHost);
        let peer = test.connect(&proc("job", 0));
        for _ in 0..MANY {
            let caller = test.request(peer);
            gets.get(&mut test.cx, &jobs, caller, proc("job", 1), Some(key("k")), &[]);
        }
        match end {
            "posted" => commit(&mut test, &mut jobs, &mut gets, 1, "k", Scope::GLOBAL),
            "gone" => gets.process_gone(&mut test.cx, &jobs, &proc("job", 1)),
            "left" => gets.peer_over(&mut test.cx, &jobs, peer),
            _ => gets.job_over(&mut test.cx, &jobs, &proc("job", 1).nspace),
        }
        assert_eq!(gets.waiting.len(), MANY - SLICE, "{end}");
        // A Get that comes meanwhile does not push in, and an end later does not take away what was posted before.
        gets.process_gone(&mut test.cx, &jobs, &proc("job", 1));
        assert_eq!(gets.waiting.len(), MANY - SLICE, "{end}");
        let mut slices = 0;
        while let Some(Slice::Gets) = test.cx.slices.pop_front() {
            slices += 1;
            gets.slice(&mut test.cx, &jobs);
        }
        let replies = test.replies();
        let all_are = |wanted: Reply| replies.iter().all(|(_, reply)| *reply == wanted);
        match end {
            "posted" => assert!(all_are(Reply::Value(Value::from(1u32))) && replies.len() == MANY),
            "left" => assert!(replies.is_empty()),
            _ => assert!(all_are(nothing.clone()) && replies.len() == MANY),
        }
        assert!((2..=4).contains(&slices) && gets.open() == 0, "{end}: {slices} slices");
        assert!(test.advance(Duration::from_secs(3600)).is_empty(), "no deadline is left behind");
    }
}

#[test]
fn the_few_look_ups_of_a_job_do_not_wait_for_the_many_of_another() {
    const MANY: usize = 10 * SLICE;
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    jobs.add(&proc("other", 0).nspace, 2, &[Rank(0), Rank(1)]);
    let [greedy, other] = ["job", "other"].map(|nspace| test.connect(&proc(nspace, 0)));
    for (peer, nspace, count) in [(greedy, "job", MANY), (other, "other", 3)] {
        for _ in 0..count {
            let caller = test.request(peer);
            gets.get(&mut test.cx, &jobs, caller, proc(nspace, 1), Some(key("k")), &[]);
        }
    }
    ["job", "other"].iter().for_each(|nspace| gets.process_gone(&mut test.cx, &jobs, &proc(nspace, 1)));
    assert_eq!(test.cx.slices.pop_front(), Some(Slice::Gets));
    gets.slice(&mut test.cx, &jobs);
    let answered = test.replies().iter().filter(|(caller, _)| caller.peer == other).count();
    assert_eq!((answered, gets.waiting.len()), (3, MANY + 3 - 2 * SLICE));
}

#[test]
fn large_answers_are_given_a_few_at_a_time() {
    let (mut test, mut jobs, mut gets) = bench(NoHost);
    let peer = test.connect(&proc("job", 0));
    for _ in 0..100 {
        let caller = test.request(peer);
        gets.get(&mut test.cx, &jobs, caller, proc("job", 1), Some(key("k")), &[]);
    }
    let entry = Posted { scope: Scope::GLOBAL, key: key("k"), value: Value::from(vec![0u8; Making::LONG / 2]) };
    jobs.commit(&mut test.cx, proc("job", 1), vec![entry]).unwrap();
    posted(&mut test, &jobs, &mut gets);
    let mut answered = test.replies().len();
    assert!(answered < 10, "{answered}");
    while let Some(Slice::Gets) = test.cx.slices.pop_front() {
        gets.slice(&mut test.cx, &jobs);
        answered += test.replies().len();
    }
    assert_eq!((answered, gets.open()), (100, 0));
}
