use std::cell::Cell;
use std::sync::mpsc;

use super::*;
use crate::attribute_support::HostSupport;
use crate::data::{Rank, Text, keys};
use crate::server::ctx::testing::{self, TestCtx, proc};
use crate::server::host::{Accepted, Answer, Completion, Host};
use crate::server::jobs::Jobs;

thread_local! {
    /// Questions for process sets and groups.
    static SETS: Cell<usize> = const { Cell::new(0) };
}

/// A host that keeps what it is asked.
struct ChannelHost(mpsc::Sender<(Vec<Query>, Completion<Infos>)>);

impl Host for ChannelHost {
    fn query(&self, _: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        self.0.send((queries.to_vec(), done)).unwrap();
        Ok(Answer::Later)
    }
}

struct Bench {
    test: TestCtx,
    jobs: Jobs,
    queries: Queries,
    asked: mpsc::Receiver<(Vec<Query>, Completion<Infos>)>,
    caller: Caller,
}

impl Bench {
    fn new() -> Self {
        let (sender, asked) = mpsc::channel();
        let mut test = testing::ctx(ChannelHost(sender));
        let mut jobs = Jobs::default();
        jobs.add(&proc("job", 0).nspace, 2, &[Rank(0)]);
        let peer = test.connect(&proc("job", 0));
        let caller = test.request(peer);
        Bench { test, jobs, queries: Queries::default(), asked, caller }
    }

    /// Lets something happen where a process set `set` of three is known.
    fn with<R>(&mut self, act: impl FnOnce(&mut Queries, &mut Ctx, &Known) -> R) -> R {
        let sets = |key: &str, _: &Query| {
            SETS.set(SETS.get() + 1);
            (key == keys::QUERY_NUM_PSETS).then_some(Value::Size(3))
        };
        let (support, hostname) = (HostSupport::default(), Text::new("here").unwrap());
        let known = Known {
            jobs: &self.jobs,
            hostname: &hostname,
            uri: None,
            host_support: &support,
            sets: &sets,
            waiting: &|_, _, _| Value::Undef,
        };
        act(&mut self.queries, &mut self.test.cx, &known)
    }

    fn ask(&mut self, keys: &[&[&str]]) {
        self.ask_with(keys, &[]);
    }

    fn ask_with(&mut self, keys: &[&[&str]], qualifiers: &[Info]) {
        let query = |keys: &&[&str]| Query {
            keys: keys.iter().map(|key| Text::new(*key).unwrap()).collect(),
            qualifiers: qualifiers.to_vec(),
        };
        let (asker, queries, caller) = (proc("job", 0), keys.iter().map(query).collect(), self.caller);
        self.with(|room, cx, known| room.ask(cx, known, caller, asker, queries));
    }

    /// The host answers one call; returns the keys it was asked for.
    fn answer(&mut self, result: Result<Infos, Status>) -> Vec<String> {
        let (queries, done) = self.asked.try_recv().expect("the host is asked");
        done.complete(result);
        let Some(Ticket::Query(number, result)) = self.test.ticket() else { panic!("an answer") };
        self.with(|room, cx, known| room.answered(cx, known, number, result));
        queries.iter().flat_map(|query| &query.keys).map(|key| key.as_str().unwrap().to_owned()).collect()
    }

    fn reply(&mut self) -> Option<Reply> {
        self.test.replies().pop().map(|(_, reply)| reply)
    }
}

fn undefined(key: &str) -> Info {
    Info::new(key, Value::Undef)
}

#[test]
fn answers_come_in_the_order_of_the_keys_whoever_gives_them() {
    let mut bench = Bench::new();
    bench.ask(&[&["first", keys::QUERY_NUM_PSETS], &["last"]]);
    assert_eq!(bench.reply(), None);
    let of_host = vec![Info::new("last", 2u32), Info::new("more", 4u32), Info::new("first", 1u32)];
    assert_eq!(bench.answer(Ok((Status::SUCCESS, of_host))), ["first", "last"]);
    let sets = Info::new(keys::QUERY_NUM_PSETS, Value::Size(3));
    let all = vec![Info::new("first", 1u32), sets, Info::new("last", 2u32), Info::new("more", 4u32)];
    assert_eq!(bench.reply(), Some(Reply::Infos(Status::SUCCESS, all)));
}

#[test]
fn what_the_host_leaves_out_comes_back_without_a_value() {
    let mut bench = Bench::new();
    bench.ask(&[&["first", "left out", keys::QUERY_NAMESPACES]]);
    bench.answer(Ok((Status::SUCCESS, vec![Info::new("first", 1u32)])));
    let all = vec![Info::new("first", 1u32), undefined("left out"), Info::new(keys::QUERY_NAMESPACES, "job")];
    assert_eq!(bench.reply(), Some(Reply::Infos(Status::ERR_PARTIAL_SUCCESS, all)));
    let mut bench = Bench::new();
    bench.ask(&[&["left out"]]);
    bench.answer(Ok((Status::SUCCESS, vec![])));
    assert_eq!(bench.reply(), Some(Reply::Done(Status::ERR_NOT_FOUND)));
    let mut bench = Bench::new();
    bench.ask(&[&["left out", keys::QUERY_NAMESPACES]]);
    bench.answer(Ok((Status::SUCCESS, vec![])));
    let all = vec![undefined("left out"), Info::new(keys::QUERY_NAMESPACES, "job")];
    assert_eq!(bench.reply(), Some(Reply::Infos(Status::ERR_PARTIAL_SUCCESS, all)));
    let mut bench = Bench::new();
    bench.ask(&[&["left out"]]);
    let other = vec![Info::new("other", 1u32)];
    bench.answer(Ok((Status::SUCCESS, other.clone())));
    assert_eq!(bench.reply(), Some(Reply::Infos(Status::SUCCESS, other)), "it has answered in its own way");
}

#[test]
fn a_key_that_is_asked_for_twice_makes_two_calls() {
    let mut bench = Bench::new();
    bench.ask(&[&["k"], &["k"]]);
    assert_eq!(bench.answer(Err(Status::ERR_TIMEOUT)), ["k"]);
    assert_eq!(bench.reply(), None);
    assert_eq!(bench.answer(Ok((Status::SUCCESS, vec![Info::new("k", 1u32)]))), ["k"]);
    let all = vec![undefined("k"), Info::new("k", 1u32)];
    assert_eq!(bench.reply(), Some(Reply::Infos(Status::ERR_PARTIAL_SUCCESS, all)));
}

#[test]
fn the_host_is_asked_once_for_a_key_that_a_query_repeats() {
    let mut bench = Bench::new();
    bench.ask(&[&["k", "other", "k"], &["last", "last"]]);
    let of_host = ["last", "other", "k", "more"].map(|key| Info::new(key, 1u32)).to_vec();
    assert_eq!(bench.answer(Ok((Status::SUCCESS, of_host))), ["k", "other", "last"]);
    let all = ["k", "other", "k", "last", "last", "more"].map(|key| Info::new(key, 1u32)).to_vec();
    assert_eq!(bench.reply(), Some(Reply::Infos(Status::SUCCESS, all)));
    let mut bench = Bench::new();
    bench.ask(&[&["k", "k"]]);
    bench.answer(Err(Status::ERR_TIMEOUT));
    assert_eq!(bench.reply(), Some(Reply::Done(Status::ERR_TIMEOUT)));
    let mut bench = Bench::new();
    bench.ask(&[&vec!["k"; 100]]);
    bench.answer(Ok((Status::SUCCESS, vec![Info::new("k", "x".repeat(MAX_COPIED / 50).as_str())])));
    assert_eq!(bench.reply(), Some(Reply::Done(Status::ERR_OUT_OF_RESOURCE)));
}

#[test]
fn what_would_take_long_in_one_step_is_refused() {
    let reports = |count: usize| {
        let mut bench = Bench::new();
        bench.ask(&vec![&[keys::QUERY_AVAIL_SERVERS, keys::QUERY_AVAIL_SERVERS][..]; count]);
        bench.reply()
    };
    // This holds with and without servers on this machine.
    assert_ne!(reports(MAX_REPORTS), Some(Reply::Done(Status::ERR_OUT_OF_RESOURCE)));
    assert_eq!(reports(MAX_REPORTS + 1), Some(Reply::Done(Status::ERR_OUT_OF_RESOURCE)));
    let names: Vec<String> = (0..1000).map(|at| format!("k{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::new();
    bench.ask_with(&[&names], &vec![Info::new("qualifier", true); MAX_QUALIFIED / 1000 + 1]);
    assert_eq!(bench.reply(), Some(Reply::Done(Status::ERR_OUT_OF_RESOURCE)));
}

#[test]
fn the_server_answers_what_the_host_leaves_open() {
    let mut bench = Bench::new();
    bench.ask(&[&[keys::QUERY_NAMESPACES, "unknown"]]);
    bench.answer(Err(Status::ERR_NOT_SUPPORTED));
    let all = vec![Info::new(keys::QUERY_NAMESPACES, "job"), undefined("unknown")];
    assert_eq!(bench.reply(), Some(Reply::Infos(Status::ERR_PARTIAL_SUCCESS, all)));
    let mut bench = Bench::new();
    bench.ask(&[&["unknown"]]);
    bench.answer(Err(Status::ERR_NOT_SUPPORTED));
    assert_eq!(bench.reply(), Some(Reply::Done(Status::ERR_NOT_SUPPORTED)), "a failure comes alone");
}

#[test]
fn a_key_of_processes_is_about_the_asker_where_none_is_named() {
    let whole = [Info::new(keys::NSPACE, "job"), Info::new(keys::RANK, Rank::WILDCARD)];
    let own = Reply::Infos(Status::SUCCESS, vec![Info::new(keys::LOCAL_RANK, 0u16)]);
    for (named, expected) in [(&[][..], own), (&whole, Reply::Done(Status::ERR_NOT_SUPPORTED))] {
        let mut bench = Bench::new();
        bench.ask_with(&[&[keys::LOCAL_RANK]], named);
        bench.answer(Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(bench.reply(), Some(expected));
    }
}

#[test]
fn a_rank_of_no_namespace_is_refused_and_so_is_a_process_that_is_named_twice() {
    let process = || Info::new(keys::PROCID, proc("job", 0));
    let (rank, nspace) = (Info::new(keys::RANK, Rank(0)), Info::new(keys::NSPACE, "job"));
    let twice = [vec![process(); 2], vec![nspace.clone(); 2], vec![nspace.clone(), rank.clone(), rank.clone()]];
    let mixed = [vec![rank.clone()], vec![process(), rank.clone()], vec![process(), nspace.clone()]];
    for wrong in twice.into_iter().chain(mixed) {
        let mut bench = Bench::new();
        bench.ask_with(&[&["k"]], &wrong);
        assert_eq!(bench.reply(), Some(Reply::Done(Status::ERR_BAD_PARAM)), "{wrong:?}");
    }
    let mut bench = Bench::new();
    bench.ask_with(&[&["k"]], &[nspace, rank]);
    assert_eq!(bench.answer(Ok((Status::SUCCESS, vec![Info::new("k", 1u32)]))), ["k"]);
}

#[test]
fn a_job_a_session_or_a_node_that_is_named_is_the_one_that_is_meant_or_none_is() {
    let mut bench = Bench::new();
    bench.jobs.add(&proc("other", 0).nspace, 5, &[Rank(0), Rank(1)]);
    let mut value = |key: &str, qualifiers: &[Info]| {
        bench.caller = bench.test.request(bench.caller.peer);
        bench.ask_with(&[&[key]], qualifiers);
        bench.answer(Err(Status::ERR_NOT_SUPPORTED));
        match bench.reply() {
            Some(Reply::Infos(Status::SUCCESS, infos)) => Some(infos[0].value.clone()),
            Some(Reply::Done(_)) => None,
            other => panic!("{other:?}"),
        }
    };
    let job = |name: &str| Info::new(keys::JOBID, name);
    assert_eq!(value(keys::JOB_SIZE, &[job("other")]), Some(Value::Uint32(5)));
    assert_eq!(value(keys::JOB_SIZE, &[job("nosuch")]), None);
    let nspace = Info::new(keys::NSPACE, "other");
    assert_eq!(value(keys::JOB_SIZE, &[job("other"), nspace.clone()]), Some(Value::Uint32(5)));
    assert_eq!(value(keys::JOB_SIZE, &[job("job"), nspace]), None, "two jobs");
    let rank = Info::new(keys::RANK, Rank(0));
    assert_eq!(value(keys::LOCAL_RANK, &[job("other"), rank]), Some(Value::Uint16(0)));
    let mut rows = |qualifiers: &[Info]| {
        let table = value(keys::QUERY_LOCAL_PROC_TABLE, qualifiers)?;
        Some(table.as_array().expect("a table").len())
    };
    assert_eq!(rows(&[]), Some(1));
    assert_eq!(rows(&[job("other")]), Some(2));
    let node = |name: &str| Info::new(keys::HOSTNAME, name);
    assert_eq!((rows(&[node("here")]), rows(&[node("nosuch")])), (Some(1), None));
    let number = |number: u32| Info::new(keys::NODEID, number);
    assert_eq!((rows(&[number(0)]), rows(&[number(9)])), (Some(1), None));
    let session = |number: u32| Info::new(keys::SESSION_ID, number);
    assert_eq!((rows(&[session(77)]), rows(&[session(u32::MAX)])), (None, Some(1)));
    assert_eq!(value(keys::QUERY_NAMESPACES, &[session(u32::MAX)]), Some(Value::string("job,other")));
    assert_eq!(value(keys::QUERY_NAMESPACES, &[session(77)]), None);
}

#[test]
fn a_required_qualifier_that_nobody_knows_is_not_left_aside() {
    let unknown = [Info::new("site.wish", true).required()];
    for key in [keys::QUERY_NAMESPACES, keys::QUERY_NUM_PSETS] {
        for refusal in [Status::ERR_NOT_SUPPORTED, Status::ERR_NOT_FOUND] {
            let mut bench = Bench::new();
            bench.ask_with(&[&[key]], &unknown);
            assert_eq!(bench.answer(Err(refusal)), [key], "the host may know it");
            assert_eq!(bench.reply(), Some(Reply::Done(Status::ERR_NOT_SUPPORTED)));
        }
    }
}

#[test]
fn the_query_of_a_peer_that_is_gone_goes_no_further() {
    let mut bench = Bench::new();
    bench.ask(&[&["k"], &["k"]]);
    bench.queries.peer_over(bench.caller.peer);
    bench.answer(Err(Status::ERR_TIMEOUT));
    assert!(bench.queries.pending.is_empty() && bench.asked.try_recv().is_err());
}

#[test]
fn very_many_keys_and_answers_are_put_together_in_one_go_through_them() {
    let mut bench = Bench::new();
    let names: Vec<String> = (0..MAX_KEYS).map(|number| format!("host{number}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    bench.ask(&[&keys]);
    // The last one first: of each pair compared, these would be 67,108,864 steps.
    let found: Vec<Info> = keys.iter().rev().map(|key| Info::new(*key, 1u32)).collect();
    bench.answer(Ok((Status::SUCCESS, found)));
    let Some(Reply::Infos(Status::SUCCESS, all)) = bench.reply() else { panic!("an answer") };
    assert!(all.iter().map(|info| info.key.as_bytes()).eq(keys.iter().map(|key| key.as_bytes())));
}

#[test]
fn a_call_asks_for_so_many_keys_and_gets_so_many_bytes() {
    let refused = Some(Reply::Done(Status::ERR_OUT_OF_RESOURCE));
    let mut bench = Bench::new();
    bench.ask(&[&vec!["k"; MAX_KEYS + 1]]);
    assert_eq!(bench.reply(), refused);
    assert!(bench.asked.try_recv().is_err());
    let mut bench = Bench::new();
    bench.ask(&[&["k"], &["k"]]);
    let much = || vec![Info::new("k", "x".repeat(MAX_BYTES / 2).as_str())];
    bench.answer(Ok((Status::SUCCESS, much())));
    assert_eq!(bench.reply(), None);
    bench.answer(Ok((Status::SUCCESS, much())));
    assert_eq!(bench.reply(), refused);
}

#[test]
fn a_key_of_the_server_that_is_asked_for_often_is_found_out_once() {
    let mut bench = Bench::new();
    bench.ask(&[&vec![keys::QUERY_NUM_PSETS; MAX_KEYS]]);
    let Some(Reply::Infos(Status::SUCCESS, all)) = bench.reply() else { panic!("an answer") };
    assert_eq!((all.len(), SETS.get()), (MAX_KEYS, 1));
}
