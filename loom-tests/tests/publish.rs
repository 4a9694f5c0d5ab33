//! A reader that finds a reference finds the record behind it.
#![cfg(loom)]

use instanton_layout::block::{self, SeqlockRead};
use instanton_layout::job::{self, Reference};
use instanton_layout::words::VecWords;
use instanton_loom_tests::{Forget, RECORD, Weak, model, record, values};
use loom::sync::Arc;

/// The page of the rank table lies behind the record; only its first word matters.
const PAGE: Reference = Reference { segment: 1, word: RECORD as u32 };

fn publish(forget: Forget) {
    model(move || {
        let shared = Arc::new(VecWords::new(RECORD + 1));
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            block::write(&*writer, 0, &record(2, 7));
            job::publish(&Weak(&writer, forget), PAGE, 0, Some(Reference { segment: 1, word: 0 }));
        });
        let words = &*shared;
        if let Some(place) = job::record(&words, PAGE, 0) {
            assert_eq!(place, Reference { segment: 1, word: 0 });
            let read = SeqlockRead::begin(words, 0, None).unwrap().expect("it is whole");
            assert_eq!((values(words, 0), read.is_unchanged()), (Ok((7, 7)), true));
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
