//! A copying read of a block that is written again meanwhile is of one record, or says that it is not.
#![cfg(loom)]

use instanton_layout::block::{self, SeqlockRead};
use instanton_layout::words::VecWords;
use instanton_loom_tests::{Forget, Weak, bounded_model, record, values};
use loom::sync::Arc;

fn reuse(writer_forgets: Forget, reader_forgets: Forget, version: u64) {
    bounded_model(3, move || {
        let data = Arc::new(VecWords::of(&record(2, 7)));
        let writer = data.clone();
        let writer = loom::thread::spawn(move || block::write(&Weak(&writer, writer_forgets), 0, &record(version, 9)));
        let words = Weak(&data, reader_forgets);
        if let Some(read) = SeqlockRead::begin(words, 0, None).unwrap() {
            let copy = (read.version, values(words, 0).unwrap());
            assert!(!read.is_unchanged() || copy == (2, (7, 7)) || copy == (version, (9, 9)), "{copy:?}");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_copy_is_of_one_version() {
    reuse(Forget::Nothing, Forget::Nothing, 4);
}

#[test]
#[should_panic]
fn without_the_writers_fence_a_copy_is_mixed() {
    reuse(Forget::Fences, Forget::Nothing, 4);
}

#[test]
#[should_panic]
fn a_relaxed_version_overtakes_the_record() {
    reuse(Forget::Release, Forget::Nothing, 4);
}

#[test]
#[should_panic]
fn without_the_readers_fences_a_copy_is_mixed() {
    reuse(Forget::Nothing, Forget::Fences, 4);
}

#[test]
#[should_panic]
fn a_version_that_comes_again_hides_the_change() {
    reuse(Forget::Nothing, Forget::Nothing, 2);
}
