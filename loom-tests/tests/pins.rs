//! A block is not written before the guards that were taken for it are gone.
#![cfg(loom)]

use instanton_layout::block;
use instanton_layout::job::{self, JobWords, Reference};
use instanton_layout::page::{self, Pinned};
use instanton_layout::sync::InPlace;
use instanton_layout::words::VecWords;
use instanton_loom_tests::{Forget, RECORD, Weak, model, record, values};
use loom::sync::Arc;

struct Shared {
    job: VecWords,
    page: VecWords,
    data: VecWords,
}

const OLD: Reference = Reference { segment: 1, word: 0 };
const NEW: Reference = Reference { segment: 1, word: RECORD as u32 };
/// Behind the records; only its first word matters.
const PAGE: Reference = Reference { segment: 1, word: 2 * RECORD as u32 };

/// The reader holds a record in place while the writer replaces it and, once it may, writes the old block again.
/// `early`: the writer believes that an epoch protects only what was retired before it.
fn retire_and_reuse(reader_forgets: Forget, writer_forgets: Forget, early: bool) {
    model(move || {
        let shared = Arc::new(Shared {
            job: VecWords::new(33),
            page: VecWords::new(16),
            data: VecWords::of(&[&record(2, 7)[..], &record(0, 0), &[0]].concat()),
        });
        JobWords::format(&shared.job, 1, 1);
        job::publish(&shared.data, PAGE, 0, Some(OLD));
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            let words = JobWords::new(Weak(&writer.job, writer_forgets));
            block::write(&writer.data, RECORD, &record(4, 8));
            job::publish(&Weak(&writer.data, writer_forgets), PAGE, 0, Some(NEW));
            let retired = words.end_epoch().unwrap();
            page::fence_before_scan(&Weak(&writer.job, writer_forgets));
            let free = match page::scan(&writer.page, retired + 1) {
                Pinned::Nothing => true,
                Pinned::Since(since) => since > retired || (early && since >= retired),
                Pinned::Lie(word) => panic!("slot holds {word}"),
            };
            if free {
                page::fence_after_scan(&writer.job);
                block::write(&writer.data, 0, &record(6, 9));
            }
        });
        let page = Weak(&shared.page, reader_forgets);
        assert!(page::pin(&JobWords::new(&shared.job), &page, 0));
        let place = job::record(&shared.data, PAGE, 0).unwrap();
        let at = place.word as usize;
        let expected = if place == OLD { (7, 7) } else { (8, 8) };
        assert_eq!(values(&shared.data, at).unwrap(), expected);
        page::unpin(&page, 0);
        writer.join().unwrap();
    });
}

/// Pins whose reader looks at the block in place: that is no atomic access, so it must be over, for the writer too,
/// before the block is written. Loom checks that of `held`.
fn hold_in_place(unpin_forgets: Forget, scan_forgets: Forget) {
    model(move || {
        let shared =
            Arc::new(Shared { job: VecWords::new(33), page: VecWords::new(16), data: VecWords::new(2 * RECORD + 1) });
        let held = Arc::new(InPlace::default());
        JobWords::format(&shared.job, 1, 1);
        job::publish(&shared.data, PAGE, 0, Some(OLD));
        let (writer, written) = (shared.clone(), held.clone());
        let writer = loom::thread::spawn(move || {
            job::publish(&writer.data, PAGE, 0, Some(NEW));
            let retired = JobWords::new(&writer.job).end_epoch().unwrap();
            page::fence_before_scan(&writer.job);
            if page::scan(&writer.page, retired + 1) == Pinned::Nothing {
                page::fence_after_scan(&Weak(&writer.job, scan_forgets));
                written.write();
            }
        });
        assert!(page::pin(&JobWords::new(&shared.job), &shared.page, 0));
        if job::record(&shared.data, PAGE, 0) == Some(OLD) {
            held.read();
        }
        page::unpin(&Weak(&shared.page, unpin_forgets), 0);
        writer.join().unwrap();
    });
}

#[test]
fn what_was_held_was_read_before_it_is_written() {
    hold_in_place(Forget::Nothing, Forget::Nothing);
}

#[test]
#[should_panic]
fn a_relaxed_unpin_overtakes_the_reads() {
    hold_in_place(Forget::Release, Forget::Nothing);
}

#[test]
#[should_panic]
fn without_the_fence_behind_the_scan_the_block_is_written_too_early() {
    hold_in_place(Forget::Nothing, Forget::Fences);
}

#[test]
fn a_pinned_record_stays() {
    retire_and_reuse(Forget::Nothing, Forget::Nothing, false);
}

#[test]
#[should_panic]
fn without_the_readers_fence_the_pin_comes_too_late() {
    retire_and_reuse(Forget::Fences, Forget::Nothing, false);
}

#[test]
#[should_panic]
fn without_the_writers_fence_the_pin_is_overlooked() {
    retire_and_reuse(Forget::Nothing, Forget::Fences, false);
}

#[test]
#[should_panic]
fn a_relaxed_epoch_overtakes_the_reference() {
    retire_and_reuse(Forget::Nothing, Forget::Release, false);
}

#[test]
#[should_panic]
fn the_epoch_of_retirement_itself_protects() {
    retire_and_reuse(Forget::Nothing, Forget::Nothing, true);
}
