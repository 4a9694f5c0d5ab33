use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::data::Value;
use crate::stock::body::Body;

/// Written bytes in their order: the file, the offset, and what.
type Log = Rc<RefCell<Vec<(usize, u64, Vec<u8>)>>>;

/// A file whose writes are noted. Those with places come first.
struct Noted {
    number: usize,
    log: Log,
}

impl Sink for Noted {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.log.borrow_mut().push((self.number, at, bytes.to_vec()));
        Ok(())
    }
}

/// The files as a client maps them.
struct Files {
    meta: Vec<u8>,
    datas: Vec<Vec<u8>>,
    /// End of what has been written to the first of those with records.
    written: u64,
}

/// Entries of a rank that a client finds, in their order.
type Found = Vec<(String, Value)>;

impl Files {
    fn number(bytes: &[u8], at: u64) -> u64 {
        u64::from_le_bytes(bytes[at as usize..][..8].try_into().unwrap())
    }

    /// Goes through the records of a slot as the stock library does; each must lie in its file.
    fn walk(&self, slot: u64, mut each: impl FnMut(&str, &[u8]) -> bool) {
        let (_, meta) = layout::meta(slot);
        let mut at = Self::number(&self.meta, meta + 8);
        let mut left = Self::number(&self.meta, meta + 16);
        while left > 0 {
            let (data, place) = (&self.datas[(at / SEGMENT) as usize], at % SEGMENT);
            let word = Self::number(data, place);
            let (flags, len) = ((word >> 56) as u8, word & ((1 << 56) - 1));
            assert!(len as usize >= JUMP_LEN - 8 && place + len <= SEGMENT, "a record of {len} bytes at {place}");
            if flags & PASSED != 0 {
                at += len;
            } else if flags & JUMP != 0 {
                at = Self::number(data, place + TARGET_IN_JUMP);
                if at == 0 {
                    return;
                }
            } else {
                let record = &data[place as usize + 16..(place + len) as usize];
                let end = record.iter().position(|byte| *byte == 0).unwrap();
                if each(std::str::from_utf8(&record[..end]).unwrap(), &record[end + 1..]) {
                    return;
                }
                left -= 1;
                at += len;
            }
        }
    }

    fn value(packed: &[u8]) -> Value {
        Body::new(packed, Form::Plain).one(DataType::VALUE).unwrap()
    }

    fn get(&self, slot: u64, wanted: &str) -> Option<Value> {
        let mut found = None;
        self.walk(slot, |key, packed| {
            found = (key == wanted).then(|| Self::value(packed));
            found.is_some()
        });
        found
    }

    fn all(&self, slot: u64) -> Found {
        let mut all = Vec::new();
        self.walk(slot, |key, packed| {
            all.push((key.to_owned(), Self::value(packed)));
            false
        });
        all
    }

    /// Has what was written since arrive byte by byte, in any order within one write where it cannot be seen, and has
    /// the files looked at after each.
    fn catch_up(&mut self, log: &Log, mut look: impl FnMut(&Files)) {
        for (number, at, bytes) in std::mem::take(&mut *log.borrow_mut()) {
            let file = if number == 0 { &mut self.meta } else { &mut self.datas[number - 1] };
            let range = at as usize..at as usize + bytes.len();
            if number == 1 {
                self.written = self.written.max(range.end as u64);
            }
            if bytes.len() > 64 {
                file[range].copy_from_slice(&bytes);
                look(self);
                continue;
            }
            for place in range.clone().rev() {
                let file = if number == 0 { &mut self.meta } else { &mut self.datas[number - 1] };
                file[place] = bytes[place - range.start];
                look(self);
            }
        }
    }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// Files of a job of so many ranks; each slot has two entries from the host.
fn created(ranks: u64) -> (Store<Noted>, Files, Log) {
    let log = Log::default();
    let said: Vec<Vec<Info>> =
        (0..=ranks).map(|slot| vec![Info::new("pmix.a", slot as u32), Info::new("pmix.b", "said")]).collect();
    let mut made = (0, 0);
    let store = Store::create(Form::Plain, &said, |metas, datas| {
        made = (metas, datas);
        let file = |number| Noted { number, log: log.clone() };
        Ok((vec![file(0)], (1..=datas).map(file).collect()))
    })
    .unwrap();
    assert_eq!(made.0, 1);
    let mut files =
        Files { meta: vec![0; SEGMENT as usize], datas: vec![vec![0; SEGMENT as usize]; made.1], written: 0 };
    files.catch_up(&log, |_| {});
    (store, files, log)
}

fn post(store: &mut Store<Noted>, slot: u64, entries: &[(&str, Option<Value>)]) -> io::Result<()> {
    let keys: Vec<Key> = entries.iter().map(|(name, _)| key(name)).collect();
    store.post(slot, keys.iter().zip(entries).map(|(key, (_, value))| (key, value.as_ref())))
}

#[test]
fn what_the_host_has_said_is_found() {
    let (_, files, _) = created(3);
    for slot in 0..=3 {
        let said = vec![("pmix.a".to_owned(), Value::from(slot as u32)), ("pmix.b".to_owned(), Value::from("said"))];
        assert_eq!(files.all(slot), said);
        assert_eq!(files.get(slot, "pmix.c"), None);
    }
}

#[test]
fn what_ranks_post_lies_on_pages_that_there_are() {
    let (mut store, files, log) = created(3);
    let written = files.written;
    assert!(store.bytes() >= SEGMENT + written, "pages are charged for");
    for slot in 1..=3 {
        post(&mut store, slot, &[("posted", Some(Value::ByteObject(vec![1; 3 << 10])))]).unwrap();
    }
    let end = |(number, at, bytes): &(usize, u64, Vec<u8>)| if *number == 0 { 0 } else { at + bytes.len() as u64 };
    let end = log.borrow().iter().map(end).max().unwrap();
    assert!(end > 9 << 10 && end <= written, "{end} of {written}");
}

#[test]
fn what_is_said_anew_takes_the_place_of_all_that_was_said() {
    let (mut store, mut files, log) = created(1);
    post(&mut store, 1, &[("posted", Some(1u32.into()))]).unwrap();
    store.say(1, &[Info::new("pmix.b", "anew")]).unwrap();
    files.catch_up(&log, |files| assert!(files.get(1, "pmix.b").is_some()));
    let mut all = files.all(1);
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(all, [("pmix.b".to_owned(), Value::from("anew")), ("posted".to_owned(), 1u32.into())]);
}

#[test]
fn records_go_on_in_the_next_file_and_what_fits_nowhere_is_found_nowhere() {
    let (mut store, mut files, log) = created(2000);
    let large = |byte: u8| Some(Value::ByteObject(vec![byte; 1 << 20]));
    let mut at = 0u8;
    let result = loop {
        at += 1;
        match post(&mut store, 1, &[("large", large(at)), ("small", Some(u32::from(at).into()))]) {
            Ok(()) => files.catch_up(&log, |_| {}),
            Err(e) => break e,
        }
        assert_eq!(files.get(1, "small"), Some(u32::from(at).into()));
        assert_eq!(files.get(1, "large"), large(at));
    };
    assert_eq!(result.kind(), io::ErrorKind::StorageFull);
    assert!(at > 4, "there are several files");
    // Nothing that is no longer true is left.
    files.catch_up(&log, |_| {});
    assert_eq!((files.get(1, "small"), files.get(1, "large")), (None, None));
    assert_eq!(files.all(1).len(), 2);
    post(&mut store, 2, &[("little", Some(1u32.into()))]).unwrap();
    files.catch_up(&log, |_| {});
    assert_eq!(files.get(2, "little"), Some(1u32.into()));
    // More than a file has is left out, and the rest is there.
    post(&mut store, 3, &[("huge", Some(Value::ByteObject(vec![0; SEGMENT as usize]))), ("k", Some(2u32.into()))])
        .unwrap();
    files.catch_up(&log, |_| {});
    assert_eq!((files.get(3, "huge"), files.get(3, "k")), (None, Some(2u32.into())));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A reader that looks at any time between two bytes that arrive finds the old value or the new one.
    #[test]
    fn every_look_finds_what_was_or_what_will_be(
        commits in prop::collection::vec(prop::collection::btree_map(0u32..6, 0u32..4, 1..5), 1..12),
        many in prop::bool::ANY,
    ) {
        let (mut store, mut files, log) = created(2);
        if many {
            // The number of records has more than one byte.
            let names: Vec<String> = (0..252).map(|number| format!("many-{number}")).collect();
            let entries: Vec<_> = names.iter().map(|name| (name.as_str(), Some(1u32.into()))).collect();
            post(&mut store, 1, &entries).unwrap();
            files.catch_up(&log, |_| {});
        }
        let mut known: BTreeMap<u32, u32> = BTreeMap::new();
        for commit in commits {
            let mut after = known.clone();
            let names: Vec<String> = commit.keys().map(|number| format!("key-{number}")).collect();
            // 0 is a value that is for others alone.
            let seen = |value: u32| (value > 0).then_some(value);
            let entry = |(name, value): (&String, &u32)| (name.clone(), seen(*value).map(Value::from));
            let entries: Vec<(String, Option<Value>)> = names.iter().zip(commit.values()).map(entry).collect();
            let entries: Vec<_> = entries.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            for (number, value) in &commit {
                match seen(*value) {
                    Some(value) => _ = after.insert(*number, value),
                    None => _ = after.remove(number),
                }
            }
            post(&mut store, 1, &entries).unwrap();
            files.catch_up(&log, |files| {
                for number in 0..6 {
                    let found = files.get(1, &format!("key-{number}"));
                    let may_be = [known.get(&number), after.get(&number)].map(|value| value.copied().map(Value::from));
                    assert!(may_be.contains(&found), "key-{number}: {found:?}, not {may_be:?}");
                }
                assert_eq!(files.get(1, "pmix.b"), Some("said".into()));
                assert_eq!(files.all(2).len(), 2);
            });
            known = after;
            prop_assert_eq!(files.all(1).len(), 2 + known.len() + if many { 252 } else { 0 });
        }
    }
}
