//! A walk over a record and its base is of one moment, even when both are merged meanwhile and the base's block is
//! written again.
#![cfg(loom)]

use instanton_layout::block;
use instanton_layout::chain::{self, Link, Walk};
use instanton_layout::job::{self, JobWords, Reference};
use instanton_layout::words::VecWords;
use instanton_loom_tests::{Forget, Weak, bounded_model, record, values};
use loom::sync::Arc;

const PAGE: Reference = Reference { segment: 1, word: 0 };
const BASE: Reference = Reference { segment: 1, word: 1 };
const FIRST: Reference = Reference { segment: 1, word: 9 };
const SECOND: Reference = Reference { segment: 1, word: 20 };
const WORDS: usize = 28;

/// A record that continues in the one at `BASE`.
fn on_base(version: u64, value: u64, base_version: u64) -> Vec<u64> {
    let mut words = record(version, value).to_vec();
    words[1] += 24;
    words[3] |= 1 << 40;
    words.extend([1 << 32 | u64::from(BASE.word), base_version, 0]);
    words
}

struct Shared {
    directory: VecWords,
    data: VecWords,
}

fn shared(first: &[u64], base: &[u64], second: &[u64]) -> Arc<Shared> {
    let mut data = vec![0; WORDS];
    for (at, record) in [(FIRST, first), (BASE, base), (SECOND, second)] {
        data[at.word as usize..][..record.len()].copy_from_slice(record);
    }
    data[PAGE.word as usize] = 1 << 32 | u64::from(FIRST.word);
    let directory = VecWords::new(33);
    JobWords::new(&directory).publish_page(0, PAGE);
    Arc::new(Shared { directory, data: VecWords::of(&data) })
}

/// Returns the records that a walk finds, newest first.
fn walk(shared: &Shared, forget: Forget) -> Option<Vec<(u64, u64)>> {
    let words = Weak(&shared.data, forget);
    let mut seen = Vec::new();
    let mut sought = |link: Link<'_, Weak<'_>>| {
        seen.push(values(words, link.at.word as usize)?);
        Ok(None::<()>)
    };
    match chain::walk(&JobWords::new(&shared.directory), 0, |_| Some((words, ())), &mut sought) {
        Walk::Absent => Some(seen),
        Walk::Changed => None,
        other => panic!("{other:?}"),
    }
}

/// Rank 0 has a record of value 2 on a base of value 1. The writer replaces both by one of value 4, then writes the
/// base's block again, with value 9.
fn merge_and_reuse(writer_forgets: Forget, reader_forgets: Forget, reused_version: u64) {
    bounded_model(2, move || {
        let shared = shared(&on_base(4, 2, 2), &record(2, 1), &record(6, 4));
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            let data = Weak(&writer.data, writer_forgets);
            job::publish(&data, PAGE, 0, Some(SECOND));
            block::write(&data, BASE.word as usize, &record(reused_version, 9));
        });
        if let Some(seen) = walk(&shared, reader_forgets) {
            assert!(seen == [(2, 2), (1, 1)] || seen == [(4, 4)], "{seen:?}");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_walk_is_of_one_moment() {
    merge_and_reuse(Forget::Nothing, Forget::Nothing, 8);
}

#[test]
#[should_panic]
fn a_version_that_comes_again_hides_another_base() {
    merge_and_reuse(Forget::Nothing, Forget::Nothing, 2);
}

#[test]
#[should_panic]
fn without_the_writers_orders_a_base_is_mixed() {
    merge_and_reuse(Forget::Fences, Forget::Nothing, 8);
}

#[test]
#[should_panic]
fn without_the_readers_fences_a_base_is_mixed() {
    merge_and_reuse(Forget::Nothing, Forget::Fences, 8);
}

/// Rank 0's block is written again for the rank itself, as a record on a base that was written just before: whoever
/// comes by the old reference finds the base complete.
fn reuse_as_head(writer_forgets: Forget) {
    bounded_model(2, move || {
        let shared = shared(&record(2, 1), &record(0, 0), &[]);
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            let data = Weak(&writer.data, writer_forgets);
            block::write(&data, BASE.word as usize, &record(4, 3));
            block::write(&data, FIRST.word as usize, &on_base(6, 4, 4));
        });
        if let Some(seen) = walk(&shared, Forget::Nothing) {
            assert!(seen == [(1, 1)] || seen == [(4, 4), (3, 3)], "{seen:?}");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_base_is_complete_when_it_is_named() {
    reuse_as_head(Forget::Nothing);
}

#[test]
#[should_panic]
fn a_relaxed_version_overtakes_the_base() {
    reuse_as_head(Forget::Release);
}
