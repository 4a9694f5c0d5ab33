//! A process that waits at the word of release sleeps no longer than until its release, and then sees what was stored
//! before it.
#![cfg(loom)]

use instanton_layout::job::JobWords;
use instanton_layout::sync::Ordering;
use instanton_layout::words::{VecWords, Words, WordsMut};
use instanton_loom_tests::{Forget, Weak, model};
use loom::sync::{Arc, Mutex};

/// The kernel's part: to look at the word and to fall asleep are one step, and so is to wake all sleepers. A sleeper is
/// only counted: one that is never woken would stop the model.
struct Futex(Mutex<u32>);

impl Futex {
    /// Returns whether the waiter slept; then it looks again if it was woken.
    fn wait(&self, is_unchanged: impl Fn() -> bool) -> bool {
        let mut asleep = self.0.lock().unwrap();
        let sleeps = is_unchanged();
        *asleep += u32::from(sleeps);
        sleeps
    }

    fn wake_all(&self) {
        *self.0.lock().unwrap() = 0;
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    StoreThenWake,
    WakeThenStore,
}

/// Two processes wait for one release. The server stores data, then the release, and wakes.
fn release(forget: Forget, order: Order) {
    model(move || {
        let shared = Arc::new((VecWords::new(33), VecWords::new(1), Futex(Mutex::new(0))));
        let seen = JobWords::new(&shared.0).releases();
        let waiters = [(); 2].map(|()| {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                let (job, data, futex) = &*shared;
                let job = JobWords::new(job);
                if futex.wait(|| job.releases() == seen) {
                    return;
                }
                assert_eq!(job.releases(), seen + 1);
                assert_eq!(data.load(0), Ok(5));
            })
        });
        let (job, data, futex) = &*shared;
        data.store(0, 5, Ordering::Relaxed);
        if order == Order::WakeThenStore {
            futex.wake_all();
        }
        JobWords::new(Weak(job, forget)).release();
        if order == Order::StoreThenWake {
            futex.wake_all();
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*futex.0.lock().unwrap(), 0, "somebody sleeps for ever");
    });
}

#[test]
fn everybody_wakes_and_sees_the_data() {
    release(Forget::Nothing, Order::StoreThenWake);
}

#[test]
#[should_panic]
fn a_relaxed_release_comes_before_the_data() {
    release(Forget::Release, Order::StoreThenWake);
}

#[test]
#[should_panic]
fn who_falls_asleep_after_the_wake_up_sleeps_for_ever() {
    release(Forget::Nothing, Order::WakeThenStore);
}
