//! Costs of the store's operations, in one process, over descriptors as clients have them.
use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use instanton::data::{Rank, keys};
use instanton::store::{JobReader, Question};
use instanton_benches::jobs::{self, Blocks, posted};

const JOB: Blocks = Blocks { ranks: 1024, per_node: 32 };

/// Reads as the C interface does: a copy into memory of the caller's.
fn copy(reader: &JobReader, question: &Question<'_>) -> (u64, Vec<u8>) {
    let found = reader.read(question, |value| {
        let mut bytes = Vec::with_capacity(value.len());
        value.copy_to(bytes.spare_capacity_mut());
        (value.scalar().unwrap_or(0), bytes)
    });
    found.expect("the benchmark asks for what there is")
}

/// Reads: a name, the first rank (none: the job), and the key. Each read takes another rank.
const READS: [(&str, Option<u32>, &str); 7] = [
    ("job", None, keys::JOB_SIZE),
    ("node", Some(0), keys::HOSTNAME),
    ("local_peers", Some(0), keys::LOCAL_PEERS),
    ("scalar", Some(0), keys::LOCAL_RANK),
    ("string", Some(0), keys::LOCALITY_STRING),
    ("posted_64", Some(0), "endpoint"),
    ("posted_4096", Some(0), "blob"),
];

fn read(c: &mut Criterion) {
    let mut writer = jobs::posting(JOB);
    let reader = jobs::reader(&mut writer);
    let of = |rank: Option<u32>, next: u32| rank.map_or(Rank::WILDCARD, |rank| Rank((rank + next) % JOB.ranks));
    for (name, rank, key) in READS {
        c.bench_function(&format!("copy_{name}"), |b| {
            let mut next = 0;
            b.iter(|| {
                next = (next + 37) % JOB.ranks;
                let question = Question::new(of(rank, next), key);
                black_box(copy(&reader, black_box(&question)))
            });
        });
    }
    c.bench_function("contains_missing", |b| {
        let question = Question::new(Rank(5), "pmix.no.such.key");
        b.iter(|| black_box(reader.contains(black_box(&question))).ok());
    });
    c.bench_function("pin", |b| b.iter(|| black_box(reader.pin().expect("a slot"))));
    let guard = reader.pin().expect("a slot");
    for (name, rank, key) in READS {
        c.bench_function(&format!("get_{name}_under_guard"), |b| {
            let mut next = 0;
            b.iter(|| {
                next = (next + 37) % JOB.ranks;
                let question = Question::new(of(rank, next), key);
                let value = guard.get(black_box(&question)).expect("a value");
                black_box((value.scalar(), value.bytes().first().copied()))
            });
        });
    }
}

fn write(c: &mut Criterion) {
    let mut writer = jobs::posting(JOB);
    let _reader = jobs::reader(&mut writer);
    for (name, len) in [("update_64", 64), ("update_4096", 4096)] {
        let entry = [posted("endpoint", 1, len)];
        c.bench_function(name, |b| b.iter(|| writer.update(Rank(3), black_box(&entry)).expect("memory")));
    }
    c.bench_function("add_key_to_new_rank", |b| {
        let ranks = Blocks { ranks: 1, per_node: 1 };
        let entry = [posted("endpoint", 1, 64)];
        b.iter_batched_ref(
            || jobs::register(&ranks.maps(), 1),
            |writer| writer.update(Rank(0), black_box(&entry)).expect("memory"),
            BatchSize::SmallInput,
        );
    });
}

fn register(c: &mut Criterion) {
    let mut group = c.benchmark_group("register");
    group.sample_size(10);
    for ranks in [1_000, 100_000] {
        let job = Blocks { ranks, per_node: 32 };
        let (maps, keys) = (job.maps(), job.keys());
        group.bench_function(format!("maps_{ranks}"), |b| b.iter(|| jobs::register(black_box(&maps), 32)));
        group.bench_function(format!("eleven_keys_{ranks}"), |b| b.iter(|| jobs::register(black_box(&keys), 32)));
    }
    group.finish();
    let maps = Blocks { ranks: 100_000, per_node: 32 }.maps();
    let mut writer = jobs::register(&maps, 32);
    c.bench_function("attach_100000", |b| b.iter(|| jobs::reader(&mut writer)));
}

criterion_group!(benches, read, write, register);
criterion_main!(benches);
