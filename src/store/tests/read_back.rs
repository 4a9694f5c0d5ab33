//! Values are read back exactly as they were written, types included, by the copying read, under a guard, and by the
//! server.
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::data::arbitrary;

type Values = BTreeMap<Key, Value>;

/// The values of a rank that each audience sees, in the simplest form.
#[derive(Default)]
struct Model {
    here: BTreeMap<Key, (Scope, Value)>,
    elsewhere: Values,
}

impl Model {
    fn post(&mut self, put: Scope, key: Key, value: Value) {
        if put != Scope::LOCAL {
            self.elsewhere.insert(key.clone(), value.clone());
        }
        if put != Scope::REMOTE {
            self.here.insert(key, (put, value));
        } else if let Some((seen, _)) = self.here.get_mut(&key) {
            *seen = Scope::LOCAL;
        }
    }
}

fn scopes() -> impl Strategy<Value = Scope> {
    prop::sample::select(vec![Scope::GLOBAL, Scope::LOCAL, Scope::REMOTE])
}

/// A key that means nothing to the store.
fn plain_key() -> impl Strategy<Value = Key> {
    let long = arbitrary::key().prop_map(|key| [b"x", &key.as_bytes()[..key.as_bytes().len().min(500)]].concat());
    prop_oneof!["x[a-c]{1,2}".prop_map(String::into_bytes), long].prop_map(|bytes| Key::new(bytes).unwrap())
}

fn entries() -> impl Strategy<Value = Vec<(Key, Value)>> {
    vec((plain_key(), arbitrary::value()), 0..12)
}

fn as_infos(entries: &[(Key, Value)]) -> Vec<Info> {
    entries.iter().map(|(key, value)| Info { key: key.clone(), flags: 0, value: value.clone() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn posted_data(commits in vec((0..2u32, vec((scopes(), plain_key(), arbitrary::value()), 1..8)), 1..12)) {
        let mut writer = writer(&Limits::default());
        let (reader, _) = attach(&mut writer);
        let mut models: [Model; 2] = Default::default();
        for (rank, commit) in commits {
            let commit: Vec<_> = commit.into_iter().map(|(scope, key, value)| Posted::new(scope, key, value)).collect();
            writer.update(Rank(rank), &commit).unwrap();
            let model = &mut models[rank as usize];
            commit.into_iter().for_each(|Posted { scope, key, value }| model.post(scope, key, value));
        }
        catch_up(&reader, &writer);
        for (rank, model) in (0..).zip(&models) {
            for (key, (put, value)) in &model.here {
                let question = Question::new(Rank(rank), key);
                let found = get_all_ways(&reader, writer.reader(), &question);
                prop_assert_eq!(found.as_ref(), Some(value));
                let (local, global) = (Directives::of_scope(Scope::LOCAL), Directives::of_scope(Scope::GLOBAL));
                prop_assert!(reader.contains(&question.with(&local)).unwrap());
                prop_assert_eq!(reader.contains(&question.with(&global)).unwrap(), *put == Scope::GLOBAL);
            }
            for key in model.elsewhere.keys().filter(|key| !model.here.contains_key(*key)) {
                prop_assert_eq!(get_all_ways(&reader, writer.reader(), &Question::new(Rank(rank), key)), None);
            }
            let outbound = writer.outbound_all(Rank(rank)).unwrap();
            prop_assert_eq!(outbound.len(), model.elsewhere.len());
            let outbound: Values = outbound.into_iter().map(|posted| (posted.key, posted.value)).collect();
            prop_assert_eq!(&outbound, &model.elsewhere);
            let new: Values = writer.take_outbound_new(Rank(rank)).unwrap().into_iter().map(|posted| (posted.key, posted.value)).collect();
            prop_assert_eq!(&new, &model.elsewhere);
        }
    }

    #[test]
    fn job_information(levels in prop::array::uniform5(entries())) {
        let [job, process, app, node, session] = levels;
        let numbered = |array, number: (&str, Value), entries: &[(Key, Value)]| {
            about(array, [vec![Info::new(number.0, number.1)], as_infos(entries)].concat())
        };
        let mut infos = infos();
        infos.extend(as_infos(&job));
        infos.push(numbered(keys::PROC_INFO_ARRAY, (keys::RANK, Rank(2).into()), &process));
        infos.push(numbered(keys::APP_INFO_ARRAY, (keys::APPNUM, 7u32.into()), &app));
        infos.push(numbered(keys::NODE_INFO_ARRAY, (keys::NODEID, 1u32.into()), &node));
        infos.push(numbered(keys::SESSION_INFO_ARRAY, (keys::SESSION_ID, 9u32.into()), &session));
        let mut writer = JobWriter::create(&nspace(), job_info(&infos), &Limits::default()).unwrap();
        let (reader, _) = attach(&mut writer);
        let levels = [
            (Directives::at(InfoLevel::Job), Rank::WILDCARD, &job),
            (Directives::NONE, Rank(2), &process),
            (Directives::of_app(7), Rank::UNDEF, &app),
            (Directives::at(InfoLevel::App), Rank(3), &app),
            (Directives::of_node(1), Rank(0), &node),
            (Directives::of_host(Text::new("beta").unwrap()), Rank(0), &node),
            (Directives::at(InfoLevel::Node), Rank(3), &node),
            (Directives::of_session(9), Rank(0), &session),
            (Directives::at(InfoLevel::Session), Rank(0), &session),
        ];
        for (level, rank, entries) in levels {
            let last: BTreeMap<&Key, &Value> = entries.iter().map(|(key, value)| (key, value)).collect();
            for (key, value) in last {
                let question = Question::new(rank, key).with(&level);
                let found = get_all_ways(&reader, writer.reader(), &question);
                prop_assert_eq!(found.as_ref(), Some(value), "{:?}", question);
            }
        }
        for (key, value) in &process {
            if process.iter().rev().find(|(k, _)| k == key).is_some_and(|(_, last)| last == value) {
                let all = reader.all(Rank(2)).unwrap();
                prop_assert!(all.iter().any(|(k, _, v, origin)| k == key && v == value && *origin == Origin::Info));
            }
        }
    }
}

#[test]
fn every_data_type_survives() {
    let mut writer = writer(&Limits::default());
    let (reader, _) = attach(&mut writer);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut types = 0;
    for number in 0..=u8::MAX {
        let Some(strategy) = arbitrary::value_of(crate::data::DataType(number.into())) else { continue };
        types += 1;
        let value = strategy.new_tree(&mut runner).unwrap().current();
        post(&mut writer, 0, "value", value.clone()).unwrap();
        catch_up(&reader, &writer);
        assert_eq!(get_all_ways(&reader, writer.reader(), &Question::new(Rank(0), "value")), Some(value));
    }
    assert!(types > 60, "{types} types only");
}
