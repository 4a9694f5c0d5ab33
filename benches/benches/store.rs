//! What a look-up and a commit cost, in one process, over descriptors as clients have them.
use std::hint::black_box;
use std::os::fd::AsFd;

use criterion::{Criterion, criterion_group, criterion_main};
use instanton::data::{DataArray, Info, Key, Nspace, Rank, Value, constants::scope, keys};
use instanton::store::{Have, JobInfo, JobReader, JobWriter, Limits, Lookup, MappedSegment, ReaderPage};

const RANKS: u32 = 1024;

fn writer() -> JobWriter {
    let nspace = Nspace::try_from("bench@1").expect("a legal name");
    let mut infos =
        vec![Info::new(keys::JOB_SIZE, RANKS), Info::new(keys::UNIV_SIZE, RANKS), Info::new(keys::TMPDIR, "/tmp")];
    infos.extend((0..RANKS).map(|rank| {
        let of_rank =
            vec![Info::new(keys::RANK, Rank(rank)), Info::new(keys::LOCALITY_STRING, "NM0:SK0:L30:L20:CR0:HT0")];
        Info::new(keys::PROC_INFO_ARRAY, DataArray::of_info(of_rank))
    }));
    let info = JobInfo::from_infos(&nspace, RANKS, &infos, "node").expect("good job information");
    let mut writer = JobWriter::create(&nspace, &info, &Limits::default()).expect("memory");
    for rank in 0..RANKS {
        let entry =
            |name: &str, len: usize| (scope::GLOBAL, Key::try_from(name).expect("a key"), Value::from(vec![7u8; len]));
        writer.update(Rank(rank), &[entry("btl.tcp.5.0", 64), entry("endpoint", 4096)]).expect("memory");
    }
    writer
}

fn reader(writer: &mut JobWriter) -> JobReader {
    let page = writer.make_reader_page().expect("memory");
    let page = ReaderPage::map(page.as_fd()).expect("a page");
    let parts = writer.segments(&Have::default()).into_iter().map(|(_, fd)| MappedSegment::map(fd).expect("a segment"));
    JobReader::attach(parts.collect(), Some(page)).expect("segments of a job")
}

/// As the C interface does it: a copy into memory of the caller's.
fn copy(reader: &JobReader, lookup: &Lookup<'_>) -> (u64, Vec<u8>) {
    let found = reader.read(lookup, |value| {
        let mut bytes = Vec::with_capacity(value.len());
        value.copy_to(bytes.spare_capacity_mut());
        (value.scalar().unwrap_or(0), bytes)
    });
    found.expect("the benchmark asks for what there is")
}

fn look_ups(c: &mut Criterion) {
    let mut writer = writer();
    let reader = reader(&mut writer);
    let mut bench = |name: &str, rank: Option<u32>, key: &str| {
        c.bench_function(name, |b| {
            let mut next = 0;
            b.iter(|| {
                next = (next + 37) % RANKS;
                let lookup = Lookup::new(rank.map_or(Rank::WILDCARD, |rank| Rank((rank + next) % RANKS)), key);
                black_box(copy(&reader, black_box(&lookup)))
            });
        });
    };
    bench("get_job", None, keys::JOB_SIZE);
    bench("get_session", None, keys::UNIV_SIZE);
    bench("get_node", Some(0), keys::HOSTNAME);
    bench("get_derived", Some(0), keys::LOCAL_RANK);
    bench("get_process", Some(0), keys::LOCALITY_STRING);
    bench("get_peer_64", Some(0), "btl.tcp.5.0");
    bench("get_peer_4096", Some(0), "endpoint");
    c.bench_function("get_missing", |b| {
        let lookup = Lookup::new(Rank(5), "pmix.no.such.key");
        b.iter(|| black_box(reader.contains(black_box(&lookup))).ok());
    });
    c.bench_function("pin", |b| b.iter(|| black_box(reader.pin().expect("a slot"))));
    c.bench_function("get_in_place_64", |b| {
        let guard = reader.pin().expect("a slot");
        let lookup = Lookup::new(Rank(5), "btl.tcp.5.0");
        b.iter(|| black_box(guard.get(black_box(&lookup)).expect("a value").bytes()[0]));
    });
}

fn update(c: &mut Criterion) {
    let mut writer = writer();
    let _reader = reader(&mut writer);
    let entry = [(scope::GLOBAL, Key::try_from("small").expect("a key"), Value::from(vec![1u8; 64]))];
    c.bench_function("update", |b| b.iter(|| writer.update(Rank(3), black_box(&entry)).expect("memory")));
}

criterion_group!(benches, look_ups, update);
criterion_main!(benches);
