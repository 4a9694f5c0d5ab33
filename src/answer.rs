//! An answer that one thread waits for and another gives.
//!
//! What a channel of the standard library would do, in a twentieth of its code for every type of answer.
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Who gives the answer. Dropped without one, it is known that there will be none.
pub(crate) struct Teller<T>(Arc<Place<T>>);

/// Who waits.
pub(crate) struct Told<T>(Arc<Place<T>>);

struct Place<T> {
    said: Mutex<Said<T>>,
    changed: Condvar,
}

enum Said<T> {
    NotYet,
    Answer(T),
    Never,
}

/// A place for one answer.
pub(crate) fn answer<T>() -> (Teller<T>, Told<T>) {
    let place = Arc::new(Place { said: Mutex::new(Said::NotYet), changed: Condvar::new() });
    (Teller(place.clone()), Told(place))
}

impl<T> Place<T> {
    fn lock(&self) -> MutexGuard<'_, Said<T>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Teller<T> {
    /// Gives the answer.
    pub fn tell(self, answer: T) {
        *self.0.lock() = Said::Answer(answer);
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        let mut said = self.0.lock();
        if matches!(*said, Said::NotYet) {
            *said = Said::Never;
        }
        drop(said);
        self.0.changed.notify_one();
    }
}

impl<T> Told<T> {
    /// Waits for the answer; none where nobody is left to give one.
    pub fn wait(self) -> Option<T> {
        let mut said = self.0.lock();
        loop {
            match std::mem::replace(&mut *said, Said::NotYet) {
                Said::Answer(answer) => return Some(answer),
                Said::Never => return None,
                Said::NotYet => said = self.0.changed.wait(said).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn an_answer_reaches_who_waits_before_and_after() {
        let (teller, told) = answer();
        teller.tell(7);
        assert_eq!(told.wait(), Some(7));
        let (teller, told) = answer();
        let waiting = thread::spawn(|| told.wait());
        teller.tell("late");
        assert_eq!(waiting.join().unwrap(), Some("late"));
    }

    #[test]
    fn nobody_waits_for_an_answer_that_never_comes() {
        let (teller, told) = answer::<u8>();
        let waiting = thread::spawn(|| told.wait());
        drop(teller);
        assert_eq!(waiting.join().unwrap(), None);
        let (teller, told) = answer();
        drop(told);
        teller.tell(1);
    }
}
