//! What a process has found before is found again, and nothing else instead.
use instanton_layout::record::Query;

use super::lookup_cache::LookupCache;
use crate::data::{Info, Rank, Value, keys};
use crate::store::tests::{about, attach, catch_up, infos, job_info, key, nspace, writer};
use crate::store::*;

/// The reader of rank 1, of job information in which `names` have a value of their own at every level.
fn reader(writer: &mut JobWriter) -> JobReader {
    let (reader, _) = attach(writer);
    reader.populate_own(Rank(1)).unwrap();
    reader
}

fn infos_with(names: &[String]) -> Vec<Info> {
    let of = |level: &str| -> Vec<Info> {
        let value =
            |name: &String| Info { key: key(name), flags: 0, value: Value::from(format!("{name} {level}").as_str()) };
        names.iter().map(value).collect()
    };
    let with = |first: Info, level: &str| [vec![first], of(level)].concat();
    let mut infos = infos();
    infos.extend(of("job"));
    infos.push(about(keys::APP_INFO_ARRAY, with(Info::new(keys::APPNUM, 0u32), "app")));
    infos.push(about(keys::NODE_INFO_ARRAY, with(Info::new(keys::NODEID, 0u32), "node")));
    infos.push(about(keys::SESSION_INFO_ARRAY, with(Info::new(keys::SESSION_ID, 7u32), "session")));
    for rank in 0..4 {
        infos.push(about(keys::PROC_INFO_ARRAY, with(Info::new(keys::RANK, Rank(rank)), &format!("rank {rank}"))));
    }
    infos
}

/// Asks everything three times, each time beginning elsewhere.
fn ask_all(reader: &JobReader, names: &[String], generation: &str) {
    let levels = [
        (Level::Default, Rank::WILDCARD, "job"),
        (Level::Default, Rank(1), "rank 1"),
        (Level::Default, Rank(2), "rank 2"),
        (Level::Job, Rank(1), "job"),
        (Level::App(None), Rank(1), "app"),
        (Level::App(Some(0)), Rank::WILDCARD, "app"),
        (Level::Node(NodeSel::Own), Rank::WILDCARD, "node"),
        (Level::Session(None), Rank::WILDCARD, "session"),
    ];
    for first in [0, 3, 6] {
        for name in names {
            for turn in 0..levels.len() {
                let (level, rank, said) = levels[(first + turn) % levels.len()];
                let lookup = Lookup { level, ..Lookup::new(rank, name) };
                let expected = Value::from(format!("{name}{generation} {said}").as_str());
                assert_eq!(reader.get(&lookup).unwrap(), expected, "{lookup:?}");
                assert_eq!(reader.pin().unwrap().get(&lookup).unwrap().to_value().unwrap(), expected, "{lookup:?}");
            }
        }
    }
}

#[test]
fn every_level_keeps_its_own_answer() {
    // More than there are places for, so that many lead to the same.
    let names: Vec<_> = (0..100).map(|i| format!("pmix.x{i}")).collect();
    let mut writer = JobWriter::create(&nspace(), job_info(&infos_with(&names)), &Limits::default()).unwrap();
    ask_all(&reader(&mut writer), &names, "");
}

#[test]
fn the_next_generation_is_asked_anew() {
    let names = ["pmix.x"].map(String::from);
    let mut writer = JobWriter::create(&nspace(), job_info(&infos_with(&names)), &Limits::default()).unwrap();
    let reader = reader(&mut writer);
    ask_all(&reader, &names, "");
    let lookup = Lookup::new(Rank(1), "pmix.x");
    let mut infos = infos();
    infos.push(Info::new("pmix.x", "another value"));
    writer.replace_info(job_info(&infos)).unwrap();
    catch_up(&reader, &writer);
    assert_eq!(reader.get(&lookup).unwrap(), Value::from("another value"));
}

#[test]
fn only_the_same_question_has_the_same_answer() {
    let mut writer = writer(&Limits::default());
    let reader = reader(&mut writer);
    let maps = reader.maps();
    let view = maps.view.as_ref().unwrap();
    let cache = LookupCache::new();
    let (name, other) = (keys::LOCAL_RANK, keys::NODE_RANK);
    let (query, lookup) = (Query::new(name.as_bytes()), Lookup::new(Rank(1), name));
    let value = view.find(&lookup, &query).unwrap().unwrap();
    cache.keep(Rank(1), &lookup, &query, value);
    let found = |lookup: Lookup<'_>| {
        let query = Query::new(lookup.key);
        cache.find(&lookup, &query).and_then(|cell| cell.scalar())
    };
    assert_eq!(found(lookup), value.scalar());
    assert_eq!(found(Lookup { key: other.as_bytes(), ..lookup }), None);
    assert_eq!(found(Lookup { rank: Rank(2), ..lookup }), None);
    assert_eq!(found(Lookup { rank: Rank(65), ..lookup }), None);
    assert_eq!(found(Lookup { asker: Rank(0), ..lookup }), None);
    assert_eq!(found(Lookup { level: Level::Job, ..lookup }), None);
    // Peers are many: what is asked of them takes no place.
    let peer = Lookup { rank: Rank(3), ..lookup };
    cache.keep(Rank(1), &peer, &query, value);
    assert_eq!(found(peer), None);
}
