//! Pending results: one type for every call that waits.
//!
//! A method that has to wait for somebody else only prepares its call and returns a [`Pending`]. Its caller then
//! chooses one of three ways to the result, and the choice sends the call:
//!
//! | way | for |
//! |---|---|
//! | [`wait`](Pending::wait) | a thread that may block |
//! | [`await`](PendingFuture) | a task of any executor |
//! | [`then`](Pending::then) | a program with callbacks, as C programs are |
//!
//! The call is not sent any earlier, because a caller that blocks may have a shorter way than a callback: a fence
//! sleeps at the word by which the server releases its whole job.
//!
//! # Example
//!
//! ```
#![doc = include_str!("pending/block_on.rs")]
//!
//! use std::sync::mpsc;
//!
//! use instanton::client::Client;
//!
//! let client = Client::singleton()?;
//! // Blocks.
//! client.fence(&[], &[]).wait()?;
//! // Awaits.
//! block_on(async { client.fence(&[], &[]).await })?;
//! // Gives a callback, which runs on a thread of the client.
//! let (sender, receiver) = mpsc::channel();
//! client.fence(&[], &[]).then(move |result| sender.send(result).expect("somebody listens"))?;
//! receiver.recv()??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
use std::fmt;
use std::future::{Future, IntoFuture};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::oneshot::{self, Receiver};

/// Callback that receives the result of a call.
pub type Callback<T, E> = Box<dyn FnOnce(Result<T, E>) + Send>;

/// A prepared call.
pub(crate) trait Call<T, E>: Send {
    /// Sends the call and blocks, where that has a shorter way than a callback; returns none where it has not, and the
    /// call is still to be sent.
    ///
    /// # Errors
    /// The call's own, and the refusal of a thread that must not block.
    fn block(&mut self) -> Result<Option<T>, E>;

    /// Sends the call. `callback` receives the result, unless this fails.
    fn send(self: Box<Self>, callback: Callback<T, E>) -> Result<(), E>;
}

/// A call that is prepared and not sent yet. Dropping it sends nothing.
#[must_use = "the call is sent when it is waited for, awaited or given a callback"]
pub struct Pending<T, E> {
    call: Box<dyn Call<T, E>>,
    /// Error of a call that is dropped unanswered, as when its client or server ends.
    ended: E,
}

impl<T: Send + 'static, E: Send + 'static> Pending<T, E> {
    /// Wraps a call; `ended` is the error of one that is dropped unanswered.
    pub(crate) fn new(call: impl Call<T, E> + 'static, ended: E) -> Self {
        Pending { call: Box::new(call), ended }
    }

    /// Sends the call and blocks until the result is there.
    ///
    /// # Errors
    /// The errors of the call. `ERR_WOULD_BLOCK`, with nothing sent, on the thread of the library that has to bring
    /// the result: the one that runs callbacks, event handlers and the methods of a host.
    pub fn wait(mut self) -> Result<T, E> {
        match self.call.block()? {
            Some(result) => Ok(result),
            None => block(self.ended, |callback| self.call.send(callback)),
        }
    }

    /// Sends the call and returns. `callback` receives the result on a thread of the library, where it must not block;
    /// that of a client's call is not called before this has returned. When the client or server ends before the result
    /// is there, it receives an error or is dropped uncalled.
    ///
    /// # Errors
    /// The errors of the call that show at once; `callback` is not called then.
    pub fn then(self, callback: impl FnOnce(Result<T, E>) + Send + 'static) -> Result<(), E> {
        self.call.send(Box::new(callback))
    }
}

impl<T, E> fmt::Debug for Pending<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl<T: Send + 'static, E: Send + 'static> IntoFuture for Pending<T, E> {
    type Output = Result<T, E>;
    type IntoFuture = PendingFuture<T, E>;

    /// Returns the future of the result.
    fn into_future(self) -> PendingFuture<T, E> {
        PendingFuture(Stage::Prepared(self))
    }
}

/// Future of a [`Pending`] result, which sends the call when it is first polled.
///
/// It needs no executor in particular: a thread of the library wakes its task. Dropping it after the first poll does
/// not take the call back; the result is discarded.
#[must_use = "futures do nothing unless they are polled"]
pub struct PendingFuture<T, E>(Stage<T, E>);

enum Stage<T, E> {
    Prepared(Pending<T, E>),
    Sent { result: Receiver<Result<T, E>>, ended: E },
    Over,
}

// Nothing in it is pinned.
impl<T, E> Unpin for PendingFuture<T, E> {}

impl<T: Send + 'static, E: Send + 'static> Future for PendingFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (result, ended) = match mem::replace(&mut self.0, Stage::Over) {
            Stage::Prepared(Pending { call, ended }) => {
                let (sender, result) = oneshot::channel();
                call.send(Box::new(move |result| sender.send(result)))?;
                (result, ended)
            }
            Stage::Sent { result, ended } => (result, ended),
            Stage::Over => panic!("a future is polled after its end"),
        };
        match result.poll(cx) {
            Poll::Ready(result) => Poll::Ready(result.unwrap_or(Err(ended))),
            Poll::Pending => {
                self.0 = Stage::Sent { result, ended };
                Poll::Pending
            }
        }
    }
}

impl<T, E> fmt::Debug for PendingFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingFuture")
    }
}

/// Calls `send` with a callback and blocks until that is called. Returns `ended` when it is dropped instead.
pub(crate) fn block<T: Send + 'static, E: Send + 'static>(
    ended: E,
    send: impl FnOnce(Callback<T, E>) -> Result<(), E>,
) -> Result<T, E> {
    let (sender, result) = oneshot::channel();
    send(Box::new(move |result| sender.send(result)))?;
    result.recv().unwrap_or(Err(ended))
}

// The executor of the example above, for tests.
#[cfg(test)]
mod block_on;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::sync::{Arc, Mutex};
    use std::task::Waker;
    use std::thread;

    use super::block_on::block_on;
    use super::*;

    type Outcome<T> = Result<T, &'static str>;
    type Way = fn(Pending<u8, &'static str>) -> Outcome<u8>;
    type Sends = Receiver<Callback<u8, &'static str>>;

    /// A call that hands its callback over when it is sent.
    struct Recorded {
        sent: Sender<Callback<u8, &'static str>>,
        /// Result of a shorter way than the callback.
        short: Outcome<Option<u8>>,
        refused: bool,
    }

    impl Call<u8, &'static str> for Recorded {
        fn block(&mut self) -> Outcome<Option<u8>> {
            self.short
        }

        fn send(self: Box<Self>, callback: Callback<u8, &'static str>) -> Outcome<()> {
            match self.refused {
                true => Err("refused"),
                false => self.sent.send(callback).map_err(|_| "nobody listens"),
            }
        }
    }

    fn pending(short: Outcome<Option<u8>>, refused: bool) -> (Pending<u8, &'static str>, Sends) {
        let (sent, sends) = mpsc::channel();
        (Pending::new(Recorded { sent, short, refused }, "ended"), sends)
    }

    #[test]
    fn each_way_sends_the_call_once_and_brings_its_result() {
        let ways: [Way; 3] = [
            |pending| pending.wait(),
            |pending| block_on(pending),
            |pending| {
                let (tell, told) = mpsc::channel();
                pending.then(move |result| tell.send(result).unwrap())?;
                told.recv().unwrap()
            },
        ];
        for way in ways {
            let (pending, sends) = pending(Ok(None), false);
            let result = thread::scope(|scope| {
                let waiting = scope.spawn(move || way(pending));
                sends.recv().unwrap()(Ok(7));
                waiting.join().unwrap()
            });
            assert_eq!(result, Ok(7));
            assert!(sends.recv().is_err(), "it was sent again");
        }
    }

    #[test]
    fn a_call_that_is_dropped_before_is_not_sent() {
        let (call, sends) = pending(Ok(None), false);
        drop(call);
        assert!(sends.recv().is_err());
        let (call, sends) = pending(Ok(None), false);
        drop(call.into_future());
        assert!(sends.recv().is_err());
    }

    #[test]
    fn an_error_that_shows_at_once_is_returned_and_not_called_back() {
        let (call, _sends) = pending(Ok(None), true);
        let called = Arc::new(Mutex::new(false));
        let tell = called.clone();
        assert_eq!(call.then(move |_| *tell.lock().unwrap() = true), Err("refused"));
        assert!(!*called.lock().unwrap());
        assert_eq!(pending(Ok(None), true).0.wait(), Err("refused"));
        assert_eq!(block_on(pending(Ok(None), true).0), Err("refused"));
    }

    #[test]
    fn a_caller_that_blocks_goes_the_shorter_way_and_one_that_must_not_is_refused() {
        let (call, sends) = pending(Ok(Some(5)), false);
        assert_eq!(call.wait(), Ok(5));
        assert!(sends.recv().is_err());
        let (call, sends) = pending(Err("it would block"), false);
        assert_eq!(call.wait(), Err("it would block"));
        assert!(sends.recv().is_err());
    }

    #[test]
    fn a_callback_that_is_dropped_uncalled_ends_the_wait() {
        for way in [|call: Pending<_, _>| call.wait(), |call: Pending<_, _>| block_on(call)] {
            let (call, sends) = pending(Ok(None), false);
            thread::scope(|scope| {
                let waiting = scope.spawn(move || way(call));
                drop(sends.recv().unwrap());
                assert_eq!(waiting.join().unwrap(), Err("ended"));
            });
        }
    }

    #[test]
    fn a_result_whose_future_is_gone_is_discarded() {
        let (call, sends) = pending(Ok(None), false);
        let mut future = call.into_future();
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(future);
        sends.recv().unwrap()(Ok(1));
    }
}
