//! A reader that sees a generation of job information finds it complete.
#![cfg(loom)]

use instanton_layout::job::JobWords;
use instanton_layout::sync::Ordering;
use instanton_layout::words::{VecWords, Words, WordsMut};
use instanton_loom_tests::{Forget, Weak, model};
use loom::sync::Arc;

fn replace(forget: Forget) {
    model(move || {
        let shared = Arc::new((VecWords::new(33), [VecWords::of(&[1, 1]), VecWords::new(2)]));
        JobWords::new(&shared.0).set_generation(1);
        let writer = shared.clone();
        let writer = loom::thread::spawn(move || {
            let (job, generations) = &*writer;
            generations[1].store(0, 2, Ordering::Relaxed);
            generations[1].store(1, 2, Ordering::Relaxed);
            JobWords::new(Weak(job, forget)).set_generation(2);
        });
        let (job, generations) = &*shared;
        let generation = JobWords::new(job).generation();
        let words = &generations[generation as usize - 1];
        assert_eq!((words.load(0).unwrap(), words.load(1).unwrap()), (generation, generation));
        writer.join().unwrap();
    });
}

#[test]
fn a_published_generation_is_complete() {
    replace(Forget::Nothing);
}

#[test]
#[should_panic]
fn a_relaxed_generation_comes_too_early() {
    replace(Forget::Release);
}
