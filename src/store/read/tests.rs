//! The look-up cache: a value that was found before is found again, and no other instead.
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
        (Directives::NONE, Rank::WILDCARD, "job"),
        (Directives::NONE, Rank(1), "rank 1"),
        (Directives::NONE, Rank(2), "rank 2"),
        (Directives::at(InfoLevel::Job), Rank(1), "job"),
        (Directives::at(InfoLevel::App), Rank(1), "app"),
        (Directives::of_app(0), Rank::WILDCARD, "app"),
        (Directives::at(InfoLevel::Node), Rank::WILDCARD, "node"),
        (Directives::at(InfoLevel::Session), Rank::WILDCARD, "session"),
    ];
    for first in [0, 3, 6] {
        for name in names {
            for turn in 0..levels.len() {
                let (level, rank, said) = &levels[(first + turn) % levels.len()];
                let question = Question::new(*rank, name).with(level);
                let expected = Value::from(format!("{name}{generation} {said}").as_str());
                assert_eq!(reader.get(&question).unwrap(), expected, "{question:?}");
                assert_eq!(reader.pin().unwrap().get(&question).unwrap().to_value().unwrap(), expected, "{question:?}");
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
    let question = Question::new(Rank(1), "pmix.x");
    let mut infos = infos();
    infos.push(Info::new("pmix.x", "another value"));
    writer.replace_info(job_info(&infos)).unwrap();
    catch_up(&reader, &writer);
    assert_eq!(reader.get(&question).unwrap(), Value::from("another value"));
}

#[test]
fn only_the_same_question_has_the_same_answer() {
    let mut writer = writer(&Limits::default());
    let reader = reader(&mut writer);
    let maps = reader.maps();
    let view = maps.view.as_ref().unwrap();
    let found = |question: Question<'_>| view.recall(&question).and_then(|value| value.scalar());
    let question = Question::new(Rank(1), keys::LOCAL_RANK);
    assert_eq!(found(question), None);
    let value = reader.read(&question, |value| value.scalar()).unwrap();
    assert!(value.is_some());
    assert_eq!(found(question), value);
    assert_eq!(found(Question::new(Rank(1), keys::NODE_RANK)), None);
    assert_eq!(found(question.asked_by(Rank(0))), None);
    let (of_job, of_node) = (Directives::at(InfoLevel::Job), Directives::of_node(0));
    assert_eq!(found(question.with(&of_job)), None);
    // An answer about a node that is named is not the answer about the own one.
    let own_node = Directives::at(InfoLevel::Node);
    let size = Question::new(Rank(1), keys::LOCAL_SIZE).with(&own_node);
    assert!(reader.contains(&size).unwrap() && found(size).is_some());
    assert!(reader.contains(&size.with(&of_node)).unwrap() && found(size.with(&of_node)).is_none());
    // Peers are many: their values take no room.
    for peer in [Rank(2), Rank(65)] {
        assert_eq!(reader.contains(&question.of_rank(peer)).unwrap(), peer == Rank(2));
        assert_eq!(found(question.of_rank(peer)), None);
    }
}
