//! A reader that finds a reference finds the record behind it.
#![cfg(loom)]

use instanton_layout::block::{self, Attempt};
use instanton_layout::job::{JobWords, Reference};
use instanton_layout::words::VecWords;
use instanton_loom_tests::{Forget, RECORD, Weak, model, record, values};
use loom::sync::Arc;

fn publish(forget: Forget) {
    model(move || {
        let shared = Arc::new((VecWords::new(33), VecWords::new(RECORD)));
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            let (job, data) = &*writer;
            block::write(data, 0, &record(2, 7));
            JobWords::new(Weak(job, forget)).publish(0, Reference { segment: 1, word: 0 });
        });
        let (job, data) = &*shared;
        if let Some(place) = JobWords::new(job).record(0) {
            assert_eq!(place, Reference { segment: 1, word: 0 });
            assert_eq!(block::read(data, 0, 0, |_, _| values(data, 0)), Attempt::Done((7, 7)));
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_published_record_is_whole() {
    publish(Forget::Nothing);
}

#[test]
#[should_panic]
fn a_relaxed_reference_comes_too_early() {
    publish(Forget::Release);
}
