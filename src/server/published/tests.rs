//! Rules of the store as a host sees them.
use std::sync::mpsc::{Receiver, channel};

use super::waiting::MAX_AWAITED;
use super::*;
use crate::data::constants::persistence;
use crate::data::{DataArray, DataRange, Rank, Value, keys};
use crate::message::door::Making;
use crate::server::host::Answered;

fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(rank))
}

fn with_range(range: DataRange, mut info: Vec<Info>) -> Vec<Info> {
    info.push(Info::new(keys::RANGE, range));
    info
}

fn data(key: &str, value: &str) -> Vec<Info> {
    vec![Info::new(key, value)]
}

fn ask(
    store: &PublishedData,
    asker: &Proc,
    keys: &[&str],
    info: &[Info],
) -> (Accepted, Receiver<Result<Published, Status>>) {
    let (sender, receiver) = channel();
    let keys: Vec<Text> = keys.iter().map(|key| Text::new(key).unwrap()).collect();
    let accepted = store.lookup(asker, &keys, info, Completion::new(move |found| drop(sender.send(found))));
    (accepted, receiver)
}

/// The values found at once, by the key's order; the status says whether they are all.
fn found(store: &PublishedData, asker: &Proc, keys: &[&str], info: &[Info]) -> Result<Vec<String>, Status> {
    let (accepted, answer) = ask(store, asker, keys, info);
    accepted?;
    let (status, data) = answer.try_recv().expect("an answer at once")?;
    let all = data.len() == keys.len();
    assert_eq!(status, if all { Status::SUCCESS } else { Status::ERR_PARTIAL_SUCCESS });
    Ok(data.into_iter().map(|one| one.value.as_str().unwrap().to_owned()).collect())
}

#[test]
fn data_of_a_node_is_found_there_alone() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("a", 1));
    let at = |node: u32| vec![Info::new(NODE, node)];
    let local = |value: &str, node: u32| [with_range(DataRange::LOCAL, data("k", value)), at(node)].concat();
    store.publish(&a, &local("1", 0)).unwrap();
    assert_eq!(store.publish(&b, &local("2", 0)), Err(Status::ERR_DUPLICATE_KEY));
    assert_eq!(found(&store, &b, &["k"], &at(1)), Err(Status::ERR_NOT_FOUND));
    store.publish(&b, &local("2", 1)).unwrap();
    assert_eq!([0, 1].map(|node| found(&store, &b, &["k"], &at(node))), [Ok(vec!["1".into()]), Ok(vec!["2".into()])]);
    assert_eq!(found(&store, &b, &[NODE], &at(1)), Err(Status::ERR_NOT_FOUND), "the node itself is no data");
}

#[test]
fn what_is_published_is_found_and_what_is_not_is_not() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 1));
    assert_eq!(found(&store, &b, &["k"], &[]), Err(Status::ERR_NOT_FOUND));
    store.publish(&a, &[data("k", "1"), data("l", "2")].concat()).unwrap();
    assert_eq!(found(&store, &b, &["l", "none", "k"], &[]), Ok(vec!["2".into(), "1".into()]));
    assert_eq!(store.publish(&a, &[]), Err(Status::ERR_BAD_PARAM));
    assert_eq!(store.publish(&a, &[data("n", "1"), data("n", "2")].concat()), Err(Status::ERR_DUPLICATE_KEY));
    assert_eq!(store.publish(&b, &[data("n", "1"), data("k", "2")].concat()), Err(Status::ERR_DUPLICATE_KEY));
    let unknown = [data("k", "2"), vec![Info::new("pmix.unknown", true).required()]].concat();
    assert_eq!(store.publish(&b, &unknown), Err(Status::ERR_NOT_SUPPORTED));
    assert_eq!(found(&store, &b, &["n"], &[]), Err(Status::ERR_NOT_FOUND), "all or nothing");
    // A hint is none of what is published, and may be given with everything.
    let hinted = |key| [data(key, "1"), vec![Info::new("pmix.unknown", true)]].concat();
    store.publish(&a, &hinted("n")).unwrap();
    store.publish(&a, &hinted("o")).unwrap();
    assert_eq!(found(&store, &b, &["pmix.unknown"], &[]), Err(Status::ERR_NOT_FOUND));
    assert_eq!(store.publish(&a, &hinted("p")[1..]), Err(Status::ERR_BAD_PARAM), "it is no data");
}

#[test]
fn nobody_else_takes_it_back() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("a", 1));
    store.publish(&a, &[data("k", "1"), data("l", "2"), data("m", "3")].concat()).unwrap();
    let k = [Text::new("k").unwrap()];
    store.unpublish(&b, &k, &[]).unwrap();
    assert!(found(&store, &b, &["k"], &[]).is_ok());
    store.unpublish(&a, &k, &with_range(DataRange::NAMESPACE, vec![])).unwrap();
    assert!(found(&store, &b, &["k"], &[]).is_ok(), "it has another range");
    store.unpublish(&a, &k, &[]).unwrap();
    assert_eq!(found(&store, &b, &["k"], &[]), Err(Status::ERR_NOT_FOUND));
    store.publish(&a, &with_range(DataRange::GLOBAL, data("n", "4"))).unwrap();
    store.unpublish(&a, &[Text::new("n").unwrap()], &[]).unwrap();
    assert!(found(&store, &b, &["n"], &[]).is_ok(), "a key is one of the session's range, if nobody says another");
    store.unpublish(&a, &[], &with_range(DataRange::SESSION, vec![])).unwrap();
    assert_eq!(found(&store, &b, &["l", "m"], &[]), Err(Status::ERR_NOT_FOUND));
    assert!(found(&store, &b, &["n"], &[]).is_ok(), "a range that is named is the only one");
    store.publish(&a, &data("k", "1")).unwrap();
    store.unpublish(&b, &[], &[]).unwrap();
    assert!(found(&store, &b, &["n", "k"], &[]).is_ok(), "others have published nothing");
    store.unpublish(&a, &[], &[]).unwrap();
    assert_eq!(store.lock().items.bytes(), 0, "all that it published, whatever the range");
}

#[test]
fn what_is_required_and_unknown_is_refused() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    let (wish, known) = (Info::new("site.wish", true).required(), Info::new(keys::WAIT, 0).required());
    assert_eq!(store.unpublish(&a, &[], std::slice::from_ref(&wish)), Err(Status::ERR_NOT_SUPPORTED));
    store.publish(&a, &data("k", "1")).unwrap();
    assert_eq!(found(&store, &a, &["k"], &[wish]), Err(Status::ERR_NOT_SUPPORTED));
    assert!(found(&store, &a, &["k"], &[known]).is_ok());
}

#[test]
fn a_range_says_who_finds_it() {
    let publisher = proc("a", 0);
    let listed = Info::new(keys::EVENT_CUSTOM_RANGE, Value::DataArray(DataArray::of([proc("b", 7)])));
    let askers = [publisher.clone(), proc("a", 1), proc("b", 7), proc("b", 8)];
    for (range, expected) in [
        (DataRange::RM, [false; 4]),
        (DataRange::LOCAL, [true; 4]),
        (DataRange::NAMESPACE, [true, true, false, false]),
        (DataRange::SESSION, [true; 4]),
        (DataRange::GLOBAL, [true; 4]),
        (DataRange::CUSTOM, [false, false, true, false]),
        (DataRange::PROC_LOCAL, [true, false, false, false]),
    ] {
        let store = PublishedData::default();
        let info = with_range(range, [data("k", "1"), vec![listed.clone()]].concat());
        store.publish(&publisher, &info).unwrap();
        let sees = askers.each_ref().map(|asker| found(&store, asker, &["k"], &[]).is_ok());
        assert_eq!(sees, expected, "{range:?}");
    }
}

#[test]
fn one_key_may_be_there_once_in_each_range() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
    let of = |range, value| with_range(range, data("k", value));
    store.publish(&a, &of(DataRange::NAMESPACE, "a's")).unwrap();
    store.publish(&b, &of(DataRange::NAMESPACE, "b's")).unwrap();
    store.publish(&b, &of(DataRange::GLOBAL, "all's")).unwrap();
    assert_eq!(store.publish(&a, &of(DataRange::GLOBAL, "x")), Err(Status::ERR_DUPLICATE_KEY));
    let look = |asker, range| found(&store, asker, &["k"], &with_range(range, vec![])).unwrap();
    assert_eq!(look(&a, DataRange::NAMESPACE), ["a's"]);
    assert_eq!(look(&b, DataRange::NAMESPACE), ["b's"]);
    assert_eq!(look(&a, DataRange::GLOBAL), ["all's"]);
    // The session is meant where no range is named, whatever came first.
    store.publish(&b, &data("k", "the session's")).unwrap();
    assert_eq!(found(&store, &a, &["k"], &[]).unwrap(), ["the session's"]);
}

#[test]
fn very_much_is_published_in_little_time_and_found_again() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    let name = |number: u32| format!("k{number}");
    let many: Vec<Info> = (0..100_000).map(|number| Info::new(name(number).as_str(), number)).collect();
    store.publish(&a, &many).unwrap();
    assert_eq!(store.publish(&a, &many[50_000..50_001]), Err(Status::ERR_DUPLICATE_KEY));
    let (_, last) = ask(&store, &a, &["k99999", "none"], &[]);
    assert_eq!(last.recv().unwrap().unwrap().1[0].value, Value::from(99_999u32));
    store.process_ended(&a);
    store.namespace_ended(&a.nspace);
    assert_eq!(store.lock().items.bytes(), 0);
}

#[test]
fn what_is_known_of_data_takes_room_as_well() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    let audience = Value::DataArray(DataArray::of((0..10_000).map(|rank| proc("b", rank))));
    let listed = Info::new(keys::EVENT_CUSTOM_RANGE, audience);
    let publish = |keys: std::ops::Range<u32>| {
        let data = keys.map(|number| Info::new(format!("k{number}").as_str(), number)).chain([listed.clone()]);
        store.publish(&a, &with_range(DataRange::CUSTOM, data.collect()))
    };
    assert_eq!(publish(0..100), Ok(()));
    assert!(store.lock().items.bytes() > 100 * 10_000 * size_of::<Proc>());
    assert_eq!(publish(100..5_000), Err(Status::ERR_OUT_OF_RESOURCE));
    let (_, last) = ask(&store, &proc("b", 9_999), &["k99"], &[]);
    assert_eq!(last.recv().unwrap().unwrap().1.len(), 1);
}

#[test]
fn another_user_finds_nothing_and_is_in_nobodys_way() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    let user = |id: u32| Info::new(keys::USERID, id);
    store.publish(&a, &[data("k", "1"), vec![user(1)]].concat()).unwrap();
    assert_eq!(found(&store, &a, &["k"], &[user(2)]), Err(Status::ERR_NOT_FOUND));
    store.publish(&a, &[data("k", "2"), vec![user(2)]].concat()).unwrap();
    assert_eq!(found(&store, &a, &["k"], &[user(1)]).unwrap(), ["1"]);
}

#[test]
fn other_users_find_what_they_are_given_access_to() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    let of = |user: u32, group: u32| [Info::new(keys::USERID, user), Info::new(keys::GRPID, group)];
    let list = |key: &str, ids: &[u32]| Info::new(key, Value::DataArray(DataArray::of(ids.iter().copied())));
    let publish = |key: &str, how: Info| store.publish(&a, &[&data(key, key)[..], &of(1, 10), &[how]].concat());
    let all = Value::infos(vec![list(keys::ACCESS_USERIDS, &[2, 3]), list(keys::ACCESS_GRPIDS, &[40])]);
    publish("both", Info::new(keys::ACCESS_PERMISSIONS, all)).unwrap();
    publish("user", list(keys::ACCESS_USERIDS, &[2])).unwrap();
    publish("group", list(keys::ACCESS_GRPIDS, &[40])).unwrap();
    let sees = |user, group| {
        let keys = ["both", "user", "group", keys::ACCESS_USERIDS];
        found(&store, &a, &keys, &of(user, group)).unwrap_or_default().join(" ")
    };
    let seen = [sees(1, 10), sees(2, 20), sees(3, 30), sees(4, 40), sees(4, 10)];
    assert_eq!(seen, ["both user group", "both user", "both", "both group", ""]);
    let nonsense = Info::new(keys::ACCESS_USERIDS, "root");
    assert_eq!(publish("nonsense", nonsense), Err(Status::ERR_BAD_PARAM));
}

#[test]
fn what_is_published_without_directives_is_for_everybody_until_its_application_ends() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
    store.publish(&a, &data("k", "1")).unwrap();
    store.process_ended(&a);
    assert_eq!(found(&store, &b, &["k"], &[]).unwrap(), ["1"]);
    store.namespace_ended(&a.nspace);
    assert_eq!(found(&store, &b, &["k"], &[]), Err(Status::ERR_NOT_FOUND));
}

#[test]
fn data_goes_when_its_persistence_says_so() {
    let store = PublishedData::default();
    let (a, b, other) = (proc("a", 0), proc("a", 1), proc("b", 0));
    let publish = |key: &str, persistence| {
        let how = Info::new(keys::PERSISTENCE, Value::Persist(persistence));
        store.publish(&a, &[data(key, key), vec![how]].concat()).unwrap();
    };
    publish("once", persistence::PERSIST_FIRST_READ);
    publish("proc", persistence::PERSIST_PROC);
    publish("app", persistence::PERSIST_APP);
    publish("session", persistence::PERSIST_SESSION);
    publish("ever", persistence::PERSIST_INDEF);
    let all = ["once", "proc", "app", "session", "ever"];
    assert_eq!(found(&store, &other, &all, &[]).unwrap(), all);
    assert_eq!(found(&store, &other, &all, &[]).unwrap(), all[1..]);
    store.process_ended(&b);
    assert_eq!(found(&store, &other, &all, &[]).unwrap(), all[1..]);
    store.process_ended(&a);
    assert_eq!(found(&store, &other, &all, &[]).unwrap(), all[2..]);
    store.namespace_ended(&a.nspace);
    assert_eq!(found(&store, &other, &all, &[]).unwrap(), all[3..]);
}

#[test]
fn who_waits_is_answered_when_there_is_enough() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
    let wait = |count: i32| vec![Info::new(keys::WAIT, count)];
    let (_, one) = ask(&store, &b, &["k", "l"], &wait(1));
    let (_, all) = ask(&store, &b, &["k", "l"], &wait(0));
    store.publish(&a, &data("l", "2")).unwrap();
    let (status, found) = one.try_recv().unwrap().unwrap();
    assert_eq!((status, found.len()), (Status::ERR_PARTIAL_SUCCESS, 1), "not all of what was asked for");
    assert!(all.try_recv().is_err());
    store.publish(&a, &data("k", "1")).unwrap();
    let (status, found) = all.try_recv().unwrap().unwrap();
    assert_eq!((status, found.len()), (Status::SUCCESS, 2));
    assert!(store.lock().waiting.is_empty());
}

#[test]
fn who_waits_too_long_or_dies_waits_no_more() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
    let limit = |seconds: i32| vec![Info::new(keys::WAIT, 1), Info::new(keys::TIMEOUT, seconds)];
    let (_, short) = ask(&store, &a, &["k"], &limit(1));
    let (_, long) = ask(&store, &b, &["k"], &limit(1000));
    let (_, ever) = ask(&store, &b, &["k"], &limit(0));
    store.expire(store.deadline().unwrap());
    assert_eq!(short.try_recv().unwrap().unwrap_err(), Status::ERR_TIMEOUT);
    store.process_ended(&b);
    assert!(long.recv().is_err() && ever.recv().is_err(), "the way back is dropped");
    assert_eq!(store.deadline(), None);
}

#[test]
fn a_key_that_is_named_often_counts_once_and_is_answered_once() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    store.publish(&a, &data("k", "1")).unwrap();
    let often = ["k"; 300];
    let (_, once) = ask(&store, &a, &often, &[Info::new(keys::WAIT, 0)]);
    let (status, found) = once.try_recv().unwrap().unwrap();
    assert_eq!((status, found.len()), (Status::SUCCESS, 1));
    let (_, partly) = ask(&store, &a, &["k", "none", "k", "none"], &[]);
    let (status, found) = partly.try_recv().unwrap().unwrap();
    assert_eq!((status, found.len()), (Status::ERR_PARTIAL_SUCCESS, 1));
}

#[test]
fn an_answer_that_is_too_large_is_refused_before_it_is_built() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    let large = || Value::from(vec![0u8; 1000]);
    store.publish(&a, &[Info::new("k", large()), Info::new("l", large())]).unwrap();
    let ask = |keys: &[&str], most: usize| {
        let keys: Vec<Text> = keys.iter().map(|key| Text::new(key).unwrap()).collect();
        let (lookup, _) = Lookup::read(&a, &keys, &[]).unwrap();
        store.lock().items.answer_within(most, &lookup).map(|answer| answer.map(|found| found.items.len()))
    };
    assert_eq!(ask(&["k", "l"], 2000), Some(Err(Status::ERR_OUT_OF_RESOURCE)));
    assert_eq!(ask(&["k", "k", "k"], 2000), Some(Ok(1)));
    // A small element has a place of its own in a message.
    let small = Value::DataArray(DataArray::of([0u32; 100]));
    store.publish(&a, &[Info::new("small", small)]).unwrap();
    assert_eq!(ask(&["small"], 100 * size_of::<Value>()), Some(Err(Status::ERR_OUT_OF_RESOURCE)));
}

#[test]
fn a_large_item_is_neither_copied_when_it_is_published_nor_when_it_is_found() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    let bytes = vec![7u8; Making::LONG];
    let place = bytes.as_ptr();
    store.publish_owned(&a, vec![Info::new("k", bytes)]).unwrap();
    let (keys, (give, given)) = ([Text::new("k").unwrap()], channel());
    let done = Completion::of(move |answered| give.send(answered).unwrap());
    store.lookup(&a, &keys, &[], done).unwrap();
    let (lookup, _) = Lookup::read(&a, &keys, &[]).unwrap();
    let found = store.lock().items.answer(&lookup).unwrap().unwrap();
    assert_eq!(found.items[0].2.as_bytes().map(<[u8]>::as_ptr), Some(place));
    store.unpublish(&a, &[], &[]).unwrap();
    let Answered::WillBe(most, make) = given.recv().unwrap() else { panic!("it is made") };
    let (status, data) = make();
    assert!(most >= Making::LONG && status == Status::SUCCESS && data[0].value == vec![7u8; Making::LONG].into());
}

#[test]
fn one_publishes_and_takes_back_what_is_its_own_whatever_else_is_there() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
    let many: Vec<Info> = (0..50_000).map(|number| Info::new(format!("k{number}").as_str(), number)).collect();
    store.publish(&a, &many).unwrap();
    let waiting: Vec<_> = (0..MAX_AWAITED)
        .map(|number| ask(&store, &b, &[&format!("w{number}")], &[Info::new(keys::WAIT, 1)]).1)
        .collect();
    let (before, own) = (store.lock().items.steps.get(), Text::new("own").unwrap());
    for _ in 0..100 {
        store.publish(&b, &data("own", "1")).unwrap();
        store.unpublish(&b, std::slice::from_ref(&own), &[]).unwrap();
    }
    store.publish(&b, &data("w7", "1")).unwrap();
    assert!(waiting[7].try_recv().unwrap().is_ok());
    assert!(store.lock().items.steps.get() - before <= 200, "nothing else is looked at");
}

#[test]
fn a_process_waits_for_so_many_keys_and_no_other_has_fewer_for_it() {
    let (store, a, b) = (PublishedData::default(), proc("a", 0), proc("b", 0));
    let wait = |asker: &Proc, number: usize| ask(&store, asker, &[&format!("w{number}")], &[Info::new(keys::WAIT, 1)]);
    let kept: Vec<_> = (0..MAX_AWAITED).map(|number| wait(&a, number)).collect();
    assert!(kept.iter().all(|(accepted, _)| accepted.is_ok()));
    assert_eq!(wait(&a, 0).0.err(), Some(Status::ERR_OUT_OF_RESOURCE));
    let (accepted, answer) = wait(&b, 0);
    assert!(accepted.is_ok());
    store.namespace_ended(&a.nspace);
    assert!(wait(&a, 0).0.is_ok() && answer.try_recv().is_err());
    store.process_ended(&a);
    store.process_ended(&b);
    assert!(store.lock().waiting.is_empty());
}

#[test]
fn a_key_has_a_bounded_number_of_audiences() {
    let (store, a) = (PublishedData::default(), proc("a", 0));
    let publish = |rank: u32| {
        let listed = Info::new(keys::EVENT_CUSTOM_RANGE, Value::DataArray(DataArray::of([proc("b", rank)])));
        store.publish(&a, &with_range(DataRange::CUSTOM, [data("k", "1"), vec![listed]].concat()))
    };
    let refused = (0..1000).map(publish).position(|result| result == Err(Status::ERR_OUT_OF_RESOURCE));
    assert!(refused.is_some_and(|at| at >= 256));
    assert!(store.publish(&a, &data("k", "all's")).is_ok(), "the other ranges have their place");
}

#[test]
fn a_job_publishes_as_much_as_it_may_and_another_does_not_lack_it() {
    let store = PublishedData::with_job_memory(1 << 20);
    let large = |key: &str| data(key, &"x".repeat(400 << 10));
    let full = Err(Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(store.publish(&proc("a", 0), &large("k")), Ok(()));
    assert_eq!(store.publish(&proc("a", 0), &large("l")), full, "half of it is for one process");
    assert_eq!(store.publish(&proc("a", 1), &large("l")), Ok(()));
    assert_eq!(store.publish(&proc("a", 2), &large("m")), full);
    assert_eq!(store.publish(&proc("b", 0), &large("m")), Ok(()));
    store.unpublish(&proc("a", 0), &[], &[]).unwrap();
    assert_eq!(store.publish(&proc("a", 2), &large("n")), Ok(()));
}

#[test]
fn a_job_that_may_publish_much_leaves_half_of_the_store_to_others() {
    let store = PublishedData::with_job_memory(u64::MAX);
    let large = data("k", &"x".repeat(31 << 20));
    let publish = |job: &str, rank: u32, at: usize| {
        let renamed = large.iter().map(|info| Info::new(format!("k.{job}.{rank}.{at}").as_str(), info.value.clone()));
        store.publish_owned(&proc(job, rank), renamed.collect()).is_ok()
    };
    let published = |job: &str| (0..4).map(|rank| (0..4).filter(|at| publish(job, rank, *at)).count()).sum::<usize>();
    assert_eq!((published("a"), published("b")), (4, 4));
}

#[test]
fn what_jobs_have_left_for_the_session_makes_room_for_others() {
    let store = PublishedData::default();
    let session = Info::new(keys::PERSISTENCE, Value::Persist(PERSIST_SESSION));
    let publish = |job: &str, key: &str, bytes: usize| {
        store.publish_owned(&proc(job, 0), [data(key, &"x".repeat(bytes)), vec![session.clone()]].concat())
    };
    let is_there = |key: &str| found(&store, &proc("asker", 0), &[key], &[]).is_ok();
    assert_eq!(publish("small", "small", 1), Ok(()));
    (0..8).for_each(|at| assert_eq!(publish("large", &format!("large{at}"), 31 << 20), Ok(())));
    let full = Err(Status::ERR_OUT_OF_RESOURCE);
    assert_eq!(publish("other", "other", 31 << 20), full, "none of them is over");
    ["small", "large"].iter().for_each(|job| store.namespace_ended(&proc(job, 0).nspace));
    assert!(is_there("small") && is_there("large0"));
    assert_eq!(publish("other", "other", 31 << 20), Ok(()));
    assert_eq!([is_there("small"), is_there("large0"), is_there("large7")], [true, false, false]);
}

#[test]
fn jobs_that_a_job_has_led_to_share_room_for_what_they_publish() {
    let store = PublishedData::with_job_memory(1 << 20);
    let large = |key: &str| data(key, &"x".repeat(300 << 10));
    store.namespace_led_by(&proc("b", 0).nspace, &proc("a", 0).nspace);
    store.namespace_led_by(&proc("c", 0).nspace, &proc("b", 0).nspace);
    assert_eq!(store.publish(&proc("b", 0), &large("k")), Ok(()));
    assert_eq!(store.publish(&proc("c", 0), &large("l")), Err(Status::ERR_OUT_OF_RESOURCE));
    assert_eq!(store.publish(&proc("a", 0), &large("m")), Ok(()));
    store.namespace_ended(&proc("b", 0).nspace);
    assert_eq!(store.publish(&proc("c", 0), &large("n")), Ok(()));
}
