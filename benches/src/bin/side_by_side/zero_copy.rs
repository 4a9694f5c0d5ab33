//! Reads in place through the Rust interface, which the stock library has no match for.
use std::hint::black_box;
use std::time::Instant;

use instanton::data::{Rank, keys};
use instanton::store::Question;
use instanton_benches::jobs::{self, Blocks};
use instanton_benches::samples::Samples;

const RANKS: u32 = 32;
const BATCH: u32 = 64;

/// Reads that take a guard each, as a program makes them now and then; and many under one guard.
pub fn measure(calls: u32, samples: &mut Samples) {
    let mut writer = jobs::posting(Blocks { ranks: RANKS, per_node: RANKS });
    let reader = jobs::reader(&mut writer);
    // As every client does at its Init.
    reader.populate_own(Rank(0)).expect("job information");
    let mut time = |row: &str, read: &dyn Fn(u32)| {
        for batch in 0..calls / BATCH {
            let start = Instant::now();
            for i in 0..BATCH {
                read((batch + i) % RANKS);
            }
            let took = start.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH);
            if batch > 0 {
                samples.push(row, took, 0);
            }
        }
    };
    let guard = reader.pin().expect("a slot");
    let mut under_guard = |row: &str, rank: Option<Rank>, key: &str| {
        time(row, &|other| {
            let question = Question::new(rank.unwrap_or(Rank(other)), key);
            let value = guard.get(black_box(&question)).expect("a value");
            black_box((value.scalar(), value.bytes().first()));
        });
    };
    under_guard("in place job", Some(Rank::WILDCARD), keys::JOB_SIZE);
    under_guard("in place own", None, keys::LOCALITY_STRING);
    under_guard("in place 64", None, "endpoint");
    under_guard("in place 4096", None, "blob");
    time("pin and get 64", &|other| {
        let guard = reader.pin().expect("a slot");
        let question = Question::new(Rank(other), "endpoint");
        black_box(guard.get(black_box(&question)).expect("a value").bytes()[0]);
    });
}
