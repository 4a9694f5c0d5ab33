//! A oneshot channel: one thread sends one value, another waits for it.
//!
//! A channel of the standard library would do, in twenty times the code for every type of value.
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The end that sends. Dropping it unused tells the receiver that no value will come.
pub(crate) struct Sender<T>(Arc<Slot<T>>);

/// The end that waits.
pub(crate) struct Receiver<T>(Arc<Slot<T>>);

struct Slot<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Empty,
    Sent(T),
    /// The sender was dropped unused.
    Closed,
}

/// Returns the two ends of a new channel.
pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Slot { state: Mutex::new(State::Empty), changed: Condvar::new() });
    (Sender(slot.clone()), Receiver(slot))
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends the value.
    pub fn send(self, value: T) {
        *self.0.lock() = State::Sent(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Empty) {
            *state = State::Closed;
        }
        drop(state);
        self.0.changed.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Waits for the value; none when the sender was dropped unused.
    pub fn recv(self) -> Option<T> {
        let mut state = self.0.lock();
        loop {
            match std::mem::replace(&mut *state, State::Empty) {
                State::Sent(value) => return Some(value),
                State::Closed => return None,
                State::Empty => state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_value_is_received_whether_sent_before_or_after() {
        let (sender, receiver) = channel();
        sender.send(7);
        assert_eq!(receiver.recv(), Some(7));
        let (sender, receiver) = channel();
        let waiting = thread::spawn(|| receiver.recv());
        sender.send("late");
        assert_eq!(waiting.join().unwrap(), Some("late"));
    }

    #[test]
    fn a_dropped_end_leaves_the_other_unharmed() {
        let (sender, receiver) = channel::<u8>();
        let waiting = thread::spawn(|| receiver.recv());
        drop(sender);
        assert_eq!(waiting.join().unwrap(), None);
        let (sender, receiver) = channel();
        drop(receiver);
        sender.send(1);
    }
}
