//! Records that continue in older ones: whatever the commits were, what is read is what was put last.
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The expected values of a rank: by key, the one seen here and the one seen elsewhere.
type Model = BTreeMap<String, (Option<(Scope, Value)>, Option<Value>)>;

fn put(model: &mut Model, put: Scope, name: &str, value: Value) {
    let (here, elsewhere) = model.entry(name.to_owned()).or_default();
    // Others see what is seen here as long as that is GLOBAL.
    let shared = here.clone().filter(|(put, _)| *put == Scope::GLOBAL).map(|(_, value)| value);
    match put {
        Scope::GLOBAL => (*here, *elsewhere) = (Some((put, value)), None),
        Scope::LOCAL => {
            *here = Some((put, value));
            *elsewhere = shared.or(elsewhere.take());
        }
        _ => {
            if let Some(shared) = shared {
                *here = Some((Scope::LOCAL, shared));
            }
            *elsewhere = Some(value);
        }
    }
}

fn compare(model: &Model, writer: &JobWriter, reader: &JobReader) {
    catch_up(reader, writer);
    let mut outbound: Vec<_> = writer
        .outbound_all(Rank(0))
        .unwrap()
        .into_iter()
        .map(|posted| (posted.key.to_string(), posted.value))
        .collect();
    outbound.sort_by(|a, b| a.0.cmp(&b.0));
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for (name, (here, elsewhere)) in model {
        let value = get_all_ways(reader, writer.reader(), &Question::new(Rank(0), name));
        assert_eq!(value, here.clone().map(|(_, value)| value), "{name}");
        seen.extend(here.iter().map(|(put, value)| (name.clone(), *put, value.clone())));
        let global = here.iter().filter(|(put, _)| *put == Scope::GLOBAL).map(|(_, value)| value);
        expected.extend(elsewhere.iter().chain(global).map(|value| (name.clone(), value.clone())));
    }
    assert_eq!(outbound, expected);
    let mut all: Vec<_> = reader.all(Rank(0)).unwrap();
    all.retain(|(.., origin)| *origin == Origin::Modex);
    let mut all: Vec<_> = all.into_iter().map(|(key, put, value, _)| (key.to_string(), put, value)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(all, seen);
}

fn any_commit() -> impl Strategy<Value = Vec<(Scope, usize, usize)>> {
    let scopes = prop_oneof![4 => Just(Scope::GLOBAL), 1 => Just(Scope::LOCAL), 1 => Just(Scope::REMOTE)];
    let size = prop_oneof![6 => 0..100usize, 3 => 100..5_000usize, 1 => 5_000..300_000usize];
    vec((scopes, 0..40usize, size), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_last_value_is_the_one_that_is_read(commits in vec(any_commit(), 1..60)) {
        let mut writer = writer(&Limits::default());
        let (reader, _) = attach(&mut writer);
        let mut model = Model::new();
        let mut written = 0u64;
        for (n, commit) in commits.iter().enumerate() {
            let entries: Vec<_> = commit.iter().map(|(put, name, size)| {
                Posted::new(*put, key(&format!("key{name}")), vec![n as u8; *size])
            }).collect();
            for Posted { scope, key, value } in &entries {
                put(&mut model, *scope, &key.to_string(), value.clone());
                written += 4096 + value_bytes(value);
            }
            writer.update(Rank(0), &entries).unwrap();
            if n % 8 == 0 {
                compare(&model, &writer, &reader);
            }
        }
        compare(&model, &writer, &reader);
        prop_assert!(writer.stats().live < 3 * written, "{:?} of {written} bytes", writer.stats());
    }
}

fn value_bytes(value: &Value) -> u64 {
    match value {
        Value::ByteObject(bytes) => bytes.len() as u64,
        _ => 0,
    }
}

#[test]
fn a_small_commit_on_much_data_writes_little() {
    let mut writer = writer(&Limits::default());
    let blobs: Vec<_> =
        (0..10).map(|n| Posted::new(Scope::GLOBAL, key(&format!("blob{n}")), Value::from(vec![n; 1 << 20]))).collect();
    writer.update(Rank(0), &blobs).unwrap();
    let before = writer.stats();
    for n in 0..1000u32 {
        post(&mut writer, 0, &format!("small{}", n % 10), n).unwrap();
    }
    let after = writer.stats();
    assert!(after.live < before.live + (64 << 10), "{after:?} after {before:?}");
    assert!((after.segments, after.waiting_sets) == (before.segments, 0), "{after:?} after {before:?}");
    let (reader, _) = attach(&mut writer);
    for n in 0..10u8 {
        let name = format!("small{n}");
        let value = get_all_ways(&reader, writer.reader(), &Question::new(Rank(0), &name));
        assert_eq!(value, Some(Value::from(990 + u32::from(n))));
        let blob = format!("blob{n}");
        assert_eq!(reader.get(&Question::new(Rank(0), &blob)).unwrap(), Value::from(vec![n; 1 << 20]));
    }
}

#[test]
fn many_small_commits_cost_what_they_bring() {
    let mut writer = writer(&Limits::default());
    let begin = std::time::Instant::now();
    for n in 0..20_000u32 {
        post(&mut writer, 0, &format!("key{n}"), vec![n as u8; 64]).unwrap();
    }
    // Written anew at each commit, this would be 20 GB.
    println!("20000 commits of 64 bytes took {:?}, {:?}", begin.elapsed(), writer.stats());
    let stats = writer.stats();
    assert!(stats.live < 20_000 * 400, "{stats:?}");
    for n in [0u32, 1, 9_999, 19_999] {
        let name = format!("key{n}");
        assert_eq!(writer.reader().get(&Question::new(Rank(0), &name)).unwrap(), Value::from(vec![n as u8; 64]));
    }
}

#[test]
fn a_value_may_be_larger_than_any_other_segment() {
    let mut writer = writer(&Limits::default());
    let (reader, _) = attach(&mut writer);
    for (name, size) in [("ten", 10 << 20), ("seventy", 70 << 20)] {
        post(&mut writer, 0, name, vec![7u8; size]).unwrap();
        catch_up(&reader, &writer);
        let found = reader.read(&Question::new(Rank(0), name), |value| value.len()).unwrap();
        assert_eq!(found, size);
    }
    // A record that is small again gives the memory back.
    for name in ["ten", "seventy"] {
        post(&mut writer, 0, name, 1u32).unwrap();
    }
    post(&mut writer, 0, "other", 1u32).unwrap();
    assert!(writer.stats().bytes < 2 << 20, "{:?}", writer.stats());
}
