//! Callers that read their answers themselves.
//!
//! An answer that the control thread reads wakes two threads one after the other, and waking a thread takes longer than
//! all else in a look-up. So a caller that blocks shuts the [gate](super::gate) to the control thread before its request
//! goes out, and reads until its answer is there. On the way it hands out what others block for, and leaves events and
//! everything else to the control thread, as the thread that [reads aside](super::receiver) does. One caller at a time
//! reads, others wait to be handed theirs, by the control thread once that caller is through.
//!
//! The answer may also come by another thread: a call that shares a request with others, or whose time is over. Then
//! the waker of the answer nudges the caller. When the server dies, the caller reads the end, tells everybody who
//! blocks, and leaves it to the control thread, too.
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::oneshot;
use crate::pending::Callback;

use super::gate::Gate;
use super::received::Step;
use super::{Error, Inner};

impl Inner {
    /// Calls `start` with a callback and blocks until that is called, while the caller reads itself if it can. The
    /// requests that `start` sends are [look-ups](Inner::look_up).
    ///
    /// # Errors
    /// The call's, and `NotInitialized` where the callback is dropped.
    pub(super) fn block<T>(
        self: &Arc<Self>,
        start: impl FnOnce(Callback<T, Error>) -> Result<(), Error>,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
    {
        let (sender, result) = oneshot::channel();
        let reading = Reading::begin(self);
        start(Box::new(move |result| sender.send(result)))?;
        if let Some(reading) = reading
            && let Some(result) = reading.until(&result)
        {
            return result.unwrap_or(Err(Error::NotInitialized));
        }
        result.recv().unwrap_or(Err(Error::NotInitialized))
    }
}

/// The right to read, which one caller at a time has.
struct Reading<'a> {
    inner: &'a Arc<Inner>,
    gate: &'a Gate,
    socket: &'a UnixStream,
}

impl<'a> Reading<'a> {
    /// Has the calling thread read; none where it cannot, or another caller does.
    fn begin(inner: &'a Arc<Inner>) -> Option<Self> {
        let (gate, socket) = inner.link.gate()?;
        let mut received = inner.link.received();
        // Under the lock, as it is opened: the next caller may come at once.
        let reads = received.give_to_caller(|| gate.shut(socket).is_ok());
        reads.then(|| Self { inner, gate, socket })
    }

    /// Reads until the result is there; none where nothing more is to be read before it.
    fn until<T>(self, result: &oneshot::Receiver<T>) -> Option<Option<T>> {
        let waker = self.gate.waker();
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(result) = result.poll(&mut context) {
                return Some(result);
            }
            match self.inner.take_in(self.inner.link.received()) {
                Step::Again => {}
                Step::Dry => self.gate.wait(self.socket),
                Step::Over => return None,
            }
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let link = &self.inner.link;
        let mut received = link.received();
        let has_rest = received.take_from_caller();
        // An instance that has taken the socket takes a change; without it nobody would read again.
        if self.gate.open(self.socket).is_err() {
            let _ = self.socket.shutdown(Shutdown::Both);
        }
        drop(received);
        if has_rest {
            link.wake();
        }
        if link.handler().is_some() && link.blocks_somebody() {
            self.inner.read_aside();
        }
    }
}
