//! The bytes of every kind of segment are what they were when this layout version was made.
//!
//! A difference means that other versions of this library misread ours: raise `header::VERSION`, then write the dumps
//! anew with `INSTANTON_BLESS=1 cargo test -p instanton-layout --test golden`.
#![cfg(not(loom))]

use std::fmt::Write as _;
use std::path::Path;

use instanton_layout::block;
use instanton_layout::chain::{self, Link, Walk};
use instanton_layout::header::{Header, Kind};
use instanton_layout::info::{
    self, ColumnBuild, Contents, GroupBuild, Index, NameRun, PartitionBuild, Places, RecordBuild, SharedKeys, TextForm,
};
use instanton_layout::job::{self, JobWords, Reference};
use instanton_layout::key::HashedKey;
use instanton_layout::page;
use instanton_layout::record::{self, Base, Item, Keys, OwnKeys, Owner, Payload};
use instanton_layout::words::{VecWords, Words};

const JOB: u64 = 0x0102_0304_0506_0708;

fn dump(words: &impl Words) -> String {
    let word = |at| words.load(at).unwrap_or(0);
    let mut text = String::new();
    for at in (0..words.len()).filter(|at| word(*at) != 0) {
        let bytes = word(at).to_le_bytes();
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown: String = bytes.iter().map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '.' }).collect();
        writeln!(text, "{:06x}  {}  {shown}", at * 8, hex.join(" ")).expect("a string takes everything");
    }
    writeln!(text, "{:06x}", words.len() * 8).expect("a string takes everything");
    text
}

fn compare(name: &str, words: &impl Words) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let found = dump(words);
    if std::env::var_os("INSTANTON_BLESS").is_some() {
        std::fs::write(&path, &found).expect("a writable source tree");
    }
    let expected = std::fs::read_to_string(&path).expect("a dump of this segment");
    assert!(expected == found, "{name} is no longer what it was:\n{found}");
}

fn item<'a>(key: &'a str, scope: u8, data_type: u16, payload: Payload<'a>) -> Item<'a> {
    Item { key: key.as_bytes(), scope, data_type, payload }
}

#[test]
fn a_job_segment() {
    let job = JobWords::format(VecWords::new(job::length(513) as usize / 8), JOB, 513);
    job.set_generation(1);
    job.set_newest(2);
    job.set_oldest(1);
    job.publish_page(1, Reference { segment: 1, word: 512 });
    assert_eq!(job.end_epoch(), Ok(1));
    assert_eq!((job.generation(), job.oldest(), job.newest(), job.epoch(), job.ranks()), (1, 1, 2, 2, 513));
    assert_eq!([job.page(0).map(|at| at.word), job.page(1).map(|at| at.word)], [None, Some(512)]);
    compare("job.txt", &job.into_inner());
}

#[test]
fn a_modex_segment() {
    let words = VecWords::new(1024);
    Header { kind: Kind::Modex, length: 8192, job: JOB, number: 1, ranks: 0 }.write(&words);
    let items = [
        item("scalar", 3, 14, Payload::Scalar(0x1122)),
        item("null", 1, 3, Payload::Null),
        item("bytes.of.a.longer.key", 2, 27, Payload::Bytes(b"ten bytes.")),
        item("archive", 3, 39, Payload::Archive(&[0xaa; 16])),
    ];
    let mut record = record::build(Owner::Modex, 5, items.iter().copied(), &mut OwnKeys);
    record::seal(&mut record, 2);
    block::write(&words, 8, &record);
    let base = Base { at: Reference { segment: 1, word: 8 }, version: 2, outdated: 5 };
    let newer = [item("scalar", 3, 14, Payload::Scalar(0x3344))];
    let mut record = record::build_on(5, newer.iter().copied(), Some(&base));
    record::seal(&mut record, 4);
    block::write(&words, 80, &record);
    let page = Reference { segment: 1, word: 512 };
    job::publish(&words, page, 5, Some(Reference { segment: 1, word: 80 }));

    let job = JobWords::format(VecWords::new(job::length(6) as usize / 8), JOB, 6);
    job.publish_page(0, page);
    let look_up = |rank, key: &str| {
        let mut sought = |link: Link<'_, &VecWords>| {
            link.record.check()?;
            assert_eq!((link.version, link.record.entries()?), if link.depth == 0 { (4, 1) } else { (2, 4) });
            link.record.find(&HashedKey::new(key.as_bytes()))
        };
        chain::read(&job, rank, |_| Some((&words, ())), &mut sought)
    };
    let Walk::Found(entry) = look_up(5, "bytes.of.a.longer.key") else { panic!("it is in the base") };
    assert_eq!((entry.scope, entry.data_type, entry.value_len), (2, 27, 10));
    let Walk::Found(entry) = look_up(5, "scalar") else { panic!("it is in both") };
    assert_eq!(entry.scalar, 0x3344);
    assert_eq!((look_up(5, "nothing"), look_up(4, "scalar")), (Walk::Absent, Walk::Absent));
    compare("modex.txt", &words);
}

#[test]
fn an_info_segment() {
    let mut keys = SharedKeys::default();
    let mut record = |place, kind, owner, items: &[Item<'_>]| {
        RecordBuild::new(kind, owner, items.iter().copied(), &mut keys.at(place))
    };
    let long = [b'n'; 300];
    let of_job =
        [item("pmix.job.size", 0, 14, Payload::Scalar(6)), item("pmix.node.list", 0, 3, Payload::Bytes(&long))];
    let job = record(Places::JOB, Owner::Job, 0, &of_job);
    let name = [item("pmix.hname", 0, 3, Payload::Bytes(b"n1\0"))];
    let node = record(Places::OWN_NODE, Owner::Node, 0, &name);
    let process = record(Places::PROCESSES, Owner::Process, 5, &[item("pmix.hname", 0, 3, Payload::Bytes(b"other\0"))]);
    let counted = NameRun { first: 0, count: 2, number: 1, before: b"n", after: b"", digits: 1, found: true };
    let names = [counted, NameRun::one(2, b"head"), NameRun::nameless(3, 1)];
    let nodes_of = PartitionBuild::of(&[0, 0, 1, 1, 0, info::NONE], 4);
    // Without a rule: more changes than ranks.
    let apps_of = PartitionBuild::of(&(0..60u32).map(|rank| rank * rank % 7 % 2).collect::<Vec<_>>(), 2);
    let columns = [
        ColumnBuild::new(b"line", 14, false, &[(0, 6)], |at| 7 + 3 * at as u64).expect("a column"),
        ColumnBuild::new(b"holes", 13, false, &[(1, 2), (4, 1)], |at| 0x1234 + at as u64).expect("a column"),
        ColumnBuild::new(b"text", 3, true, &[(0, 4)], |at| [0, 1, 2, 1][at]).expect("a column"),
    ];
    let contents = Contents {
        size: 6,
        ranks: 6,
        offset: 100,
        own_node: 0,
        job,
        groups: [
            GroupBuild { numbers: Some(vec![3, 4, 5, 9]), count: 4, records: vec![(0, node)] },
            GroupBuild { numbers: None, count: 2, records: vec![] },
            GroupBuild::default(),
        ],
        processes: vec![(5, process)],
        nodes_of,
        apps_of,
        names: names.into_iter(),
        aliases: vec![(b"login", 2)],
        columns: &columns,
        strings: &[Some(b"a\0".as_slice().into()), None, Some(b"c\0".as_slice().into())],
        own_strings: 2,
        own_ranks: &[0, 1, 4],
        texts: [Some(TextForm { data_type: 3, form: 1, len: 11 }), None, None],
        keys,
    };
    let (built, mut words) = (info::build(contents, JOB, 1).expect("small enough"), Vec::new());
    let len = built.len();
    let written = built.write(|piece| {
        words.extend_from_slice(piece);
        Ok::<_, std::convert::Infallible>(())
    });
    assert_eq!((written, words.len()), (Ok(()), len));
    let words = VecWords::of(&words);
    let index = Index::read(&words).expect("a sound head");
    assert_eq!((index.size(), index.ranks(), index.own_node(), index.offset()), (6, 6, 0, 100));
    assert_eq!(index.by_number(&words, info::Group::Nodes, 9), Ok(Some(3)));
    assert_eq!(index.by_number(&words, info::Group::Apps, 1), Ok(Some(1)));
    assert_eq!(index.by_number(&words, info::Group::Sessions, 0), Ok(None));
    assert_eq!(index.nodes.place(&words, 4), Ok(Some((0, 2))));
    assert_eq!(index.nodes.place(&words, 5), Ok(None));
    assert_eq!(index.names.find(&words, b"n2"), Ok(Some(1)));
    assert_eq!(index.names.find(&words, b"n3"), Ok(None));
    assert_eq!(index.names.find(&words, b"head"), Ok(Some(2)));
    for (index_of, rank, value) in [(0, 3, Some(16)), (1, 0, None), (1, 4, Some(0x1236)), (1, 3, None), (2, 3, Some(1))]
    {
        let column = index.column(&words, index_of).expect("a sound column");
        assert_eq!(column.value(&words, rank), Ok(value), "column {index_of}, rank {rank}");
    }
    assert_eq!(index.verify(&words), Ok(()));
    compare("info.txt", &words);
}

#[test]
fn a_reader_page() {
    let words = VecWords::new(page::WORDS);
    page::format(&words, JOB, 9);
    let job = JobWords::format(VecWords::new(33), JOB, 1);
    assert!(page::pin(&job, &words, 0));
    assert_eq!(page::scan(&words, 1), page::Pinned::Since(1));
    assert_eq!(page::scan(&words, 0), page::Pinned::Lie(1));
    compare("page.txt", &words);
    page::unpin(&words, 0);
    assert_eq!(page::scan(&words, 1), page::Pinned::Nothing);
}

#[test]
fn shared_keys_are_placed_once() {
    let mut keys = SharedKeys::default();
    let first = keys.at(Places::JOB).place(&mut Vec::new(), b"pmix.rank");
    assert_ne!(keys.at(Places::JOB).place(&mut Vec::new(), b"pmix.size"), first);
    assert_eq!(keys.at(Places::NODES).place(&mut Vec::new(), b"pmix.rank"), first);
}
