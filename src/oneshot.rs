//! A oneshot channel: one thread sends one value, another thread or task waits for it.
//!
//! A channel of the standard library would do, in twenty times the code for every type of value.
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The end that sends. Dropping it unused tells the receiver that no value will come.
pub(crate) struct Sender<T>(Arc<Slot<T>>);

/// The end that waits.
pub(crate) struct Receiver<T>(Arc<Slot<T>>);

struct Slot<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

struct Inner<T> {
    state: State<T>,
    /// Waker of the task that waits.
    waker: Option<Waker>,
}

enum State<T> {
    Empty,
    Sent(T),
    /// The sender was dropped unused.
    Closed,
}

impl<T> Inner<T> {
    /// Takes the value that was sent; none when the sender was dropped unused. Neither has happened while this is
    /// pending.
    fn take(&mut self) -> Poll<Option<T>> {
        match std::mem::replace(&mut self.state, State::Empty) {
            State::Sent(value) => Poll::Ready(Some(value)),
            State::Closed => Poll::Ready(None),
            State::Empty => Poll::Pending,
        }
    }
}

/// Returns the two ends of a new channel.
pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let inner = Mutex::new(Inner { state: State::Empty, waker: None });
    let slot = Arc::new(Slot { inner, changed: Condvar::new() });
    (Sender(slot.clone()), Receiver(slot))
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends the value.
    pub fn send(self, value: T) {
        self.0.lock().state = State::Sent(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        if matches!(inner.state, State::Empty) {
            inner.state = State::Closed;
        }
        let waker = inner.waker.take();
        drop(inner);
        self.0.changed.notify_one();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Receiver<T> {
    /// Waits for the value; none when the sender was dropped unused.
    pub fn recv(self) -> Option<T> {
        let mut inner = self.0.lock();
        loop {
            if let Poll::Ready(value) = inner.take() {
                return value;
            }
            inner = self.0.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the value if it is there, none when the sender was dropped unused; else has the task woken then. The
    /// last task that asked is woken.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut inner = self.0.lock();
        let taken = inner.take();
        if taken.is_pending() {
            inner.waker = Some(cx.waker().clone());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;
    use std::thread;

    use instanton_layout::sync::{AtomicUsize, Ordering};

    use super::*;

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
    fn the_last_task_that_asked_is_woken() {
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let counts = [(); 2].map(|()| Arc::new(Count(AtomicUsize::new(0))));
        let (sender, receiver) = channel();
        for count in &counts {
            assert!(receiver.poll(&mut Context::from_waker(&Waker::from(count.clone()))).is_pending());
        }
        sender.send(7);
        assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [0, 1]);
        assert_eq!(receiver.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Some(7)));
        let (sender, receiver) = channel::<u8>();
        drop(sender);
        assert_eq!(receiver.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
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
