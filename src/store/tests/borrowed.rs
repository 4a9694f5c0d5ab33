//! Values that an embedder posts from where they lie, and keys that it takes back.
use super::*;
use crate::data::DataType;

fn entry<'a>(scope: Scope, key: &'a Key, value: Datum<'a>) -> Entry<'a> {
    Entry { scope, key, value }
}

#[test]
fn borrowed_values_are_stored_as_owned_ones_are() {
    let values = [
        Value::from("text"),
        Value::String(None),
        Value::from(7u16),
        Value::from(vec![1u8; 5000]),
        Value::Regex(b"raw:a".to_vec()),
        DataArray::of(["one", "two"]).into(),
    ];
    let keys: Vec<Key> = (0..values.len()).map(|n| key(&format!("key {n}"))).collect();
    let owned: Vec<Posted> =
        keys.iter().zip(&values).map(|(key, value)| Posted::new(Scope::GLOBAL, key.clone(), value.clone())).collect();
    fn borrowed<'a>((key, value): (&'a Key, &'a Value)) -> Entry<'a> {
        let datum = match value {
            Value::ByteObject(bytes) => Datum::Bytes(DataType::BYTE_OBJECT, bytes),
            Value::Regex(bytes) => Datum::Bytes(DataType::REGEX, bytes),
            other => Datum::from(other),
        };
        entry(Scope::GLOBAL, key, datum)
    }
    let mut writer = writer(&Limits::default());
    writer.update(Rank(0), &owned).unwrap();
    writer.post(Rank(1), &keys.iter().zip(&values).map(borrowed).collect::<Vec<_>>()).unwrap();
    for (key, value) in keys.iter().zip(values) {
        for rank in [0, 1] {
            assert_eq!(writer.reader().get(&Question::new(Rank(rank), key)).unwrap(), value, "{key} of {rank}");
        }
    }
    let mut sent = [0, 1].map(|rank| writer.take_outbound_new(Rank(rank)).unwrap());
    sent.iter_mut().for_each(|entries| entries.sort_by(|a, b| a.key.cmp(&b.key)));
    assert_eq!(sent[0], sent[1]);
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_is_stored() {
    let mut writer = writer(&Limits::default());
    let (good, bad) = (key("good"), key("bad"));
    let wrong = [
        Datum::Text(Some(b"a\0b")),
        Datum::Bytes(DataType::STRING, b"text"),
        Datum::Bytes(DataType::PROC, b"x"),
        Datum::Scalar(DataType::BYTE_OBJECT, 1),
    ];
    for datum in wrong {
        let first = entry(Scope::GLOBAL, &good, Datum::Scalar(DataType::UINT32, 1));
        let error = writer.post(Rank(0), &[first, entry(Scope::GLOBAL, &bad, datum.clone())]).unwrap_err();
        assert!(matches!(&error, WriteError::Value { key, .. } if *key == bad), "{datum:?}: {error}");
    }
    assert!(!writer.reader().has_posted(Rank(0)));
}

#[test]
fn a_key_that_is_taken_back_is_gone_here_and_for_others() {
    let mut writer = writer(&Limits::default());
    let (reader, _) = attach(&mut writer);
    let entries =
        [(Scope::GLOBAL, "global"), (Scope::LOCAL, "local"), (Scope::REMOTE, "remote"), (Scope::GLOBAL, "stays")]
            .map(|(scope, name)| Posted::new(scope, key(name), name));
    writer.update(Rank(0), &entries).unwrap();
    // A record on top of the first, which is too large to be merged.
    post(&mut writer, 0, "large", vec![1u8; 1 << 20]).unwrap();
    post(&mut writer, 0, "global", "again").unwrap();
    catch_up(&reader, &writer);
    let get = |name: &str| get_all_ways(&reader, writer.reader(), &Question::new(Rank(0), name));
    assert_eq!(get("global"), Some(Value::from("again")));
    let guard = reader.pin().unwrap();
    let question = Question::new(Rank(0), "global");
    let held = guard.get(&question).unwrap();

    writer.remove(Rank(0), &["global", "local", "remote", "never posted"].map(key)).unwrap();
    catch_up(&reader, &writer);
    let get = |name: &str| get_all_ways(&reader, writer.reader(), &Question::new(Rank(0), name));
    for gone in ["global", "local", "remote", "never posted"] {
        assert_eq!(get(gone), None, "{gone}");
    }
    assert_eq!(held.to_value().unwrap(), Value::from("again"));
    assert_eq!(get("stays"), Some(Value::from("stays")));
    let mut left: Vec<Key> = writer.take_outbound_new(Rank(0)).unwrap().into_iter().map(|posted| posted.key).collect();
    left.sort();
    assert_eq!(left, ["large", "stays"].map(key));
    assert!(!writer.is_outbound(Rank(0), &key("remote")).unwrap());

    writer.remove(Rank(0), &["large", "stays"].map(key)).unwrap();
    assert!(!reader.has_posted(Rank(0)) && writer.outbound_all(Rank(0)).unwrap().is_empty());
    post(&mut writer, 0, "global", "new").unwrap();
    catch_up(&reader, &writer);
    assert_eq!(get_all_ways(&reader, writer.reader(), &question), Some(Value::from("new")));
    assert!(matches!(writer.remove(Rank(99), &[]), Err(WriteError::Rank { .. })));
}
