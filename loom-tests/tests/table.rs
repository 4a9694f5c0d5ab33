//! A page of the rank table that a reader finds has what was in it when it was published. When the records
//! move to other segments, a reader finds them all the time, by the old page or by the new one; by the new one
//! if it has unmapped the old.
#![cfg(loom)]

use instanton_layout::job::{self, JobWords, Reference};
use instanton_layout::words::VecWords;
use instanton_loom_tests::{Forget, Weak, bounded_model, model};
use loom::sync::Arc;

const OLD: Reference = Reference { segment: 1, word: 0 };
const NEW: Reference = Reference { segment: 2, word: 0 };

fn at(segment: u32) -> Reference {
    Reference { segment, word: 8 }
}

/// `old`: whether there is a page already. The new one is filled, then published.
fn move_page(old: bool, forget: Forget) {
    model(move || {
        let shared = Arc::new((VecWords::new(33), [VecWords::new(1), VecWords::new(1)]));
        if old {
            job::publish(&shared.1[0], OLD, 0, Some(at(1)));
            JobWords::new(&shared.0).publish_page(0, OLD);
        }
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            let (directory, segments) = &*writer;
            job::publish(&Weak(&segments[1], forget), NEW, 0, Some(at(2)));
            JobWords::new(Weak(directory, forget)).publish_page(0, NEW);
        });
        let (directory, segments) = &*shared;
        match JobWords::new(directory).page(0) {
            None => assert!(!old, "the page was there"),
            Some(page) => {
                let found = job::record(&segments[page.segment as usize - 1], page, 0);
                assert_eq!(found, Some(at(page.segment)), "a page without its references");
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_page_comes_with_its_references() {
    move_page(false, Forget::Nothing);
}

#[test]
fn records_that_move_are_found_all_the_time() {
    move_page(true, Forget::Nothing);
}

#[test]
#[should_panic]
fn a_relaxed_page_comes_too_early() {
    move_page(false, Forget::Release);
}

#[test]
#[should_panic]
fn a_relaxed_move_comes_too_early() {
    move_page(true, Forget::Release);
}

/// The page moves; then the old segment is said to be of no use any more.
fn unmap_old(forget: Forget) {
    bounded_model(3, move || {
        let shared = Arc::new(VecWords::new(33));
        JobWords::new(&*shared).publish_page(0, OLD);
        JobWords::new(&*shared).set_oldest(1);
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            let job = JobWords::new(Weak(&writer, forget));
            job.set_newest(2);
            job.publish_page(0, NEW);
            job.set_oldest(2);
        });
        let job = JobWords::new(&*shared);
        let oldest = job.oldest();
        let page = job.page(0).unwrap();
        assert!(u64::from(page.segment) >= oldest, "the way leads to a segment that is gone");
        assert!(job.newest() >= u64::from(page.segment) || page == OLD, "a segment that nobody has heard of");
        writer.join().unwrap();
    });
}

#[test]
fn nothing_leads_to_what_is_older_than_the_oldest() {
    unmap_old(Forget::Nothing);
}

#[test]
#[should_panic]
fn a_relaxed_announcement_overtakes_the_page() {
    unmap_old(Forget::Release);
}
