//! The thread that receives beside the control thread.
//!
//! The control thread may be in an event handler for as long as the program likes, and an answer that another thread
//! blocks for must not wait for that. So one more thread reads: it gives answers to those who block for them in a
//! look-up or a meeting, and everything else to the control thread, in its order. It calls nothing of the program, and
//! so cannot be held up by it.
//!
//! A process without shared memory asks its server for every value, and has the thread from the start. Any other begins
//! without: the control thread reads by itself, until it is in a handler while another thread blocks. Whoever finds that
//! first, of the one that goes into the handler and the one that asks, starts the thread; both look under the lock of
//! the outbox. The thread stays from then on.
//!
//! What the control thread has not taken is [bounded](super::received): where that is much, the thread reads nothing
//! until there is room. When the server dies, or breaks the protocol, those who block learn of it at once, and the
//! control thread finds the end behind what came before it. When the control thread ends, it shuts the socket down, and
//! this one ends with the stream.
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::control::frame::{self, Kind, MAX_BODY};
use crate::message::Request;
use crate::sys::signals;
use crate::trace;

use super::Inner;
use super::answer::{Answer, Waiter};
use super::connection::Source;
use super::incoming::{End, Frame, Incoming};
use super::received::Received;

/// The thread, and what it hands to the control thread.
pub(super) struct Receiver {
    pub(super) received: Arc<Received>,
    thread: JoinHandle<()>,
}

impl Receiver {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, and what was to be read.
    pub(super) fn start(inner: &Arc<Inner>, incoming: Incoming) -> Result<Self, (io::Error, Option<Incoming>)> {
        let received = Arc::<Received>::default();
        // A thread that does not begin takes nothing with it.
        let lent = Arc::new(Mutex::new(Some(incoming)));
        let (inner, queue, taken) = (inner.clone(), received.clone(), lent.clone());
        let take = |lent: &Mutex<Option<Incoming>>| lent.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = signals::spawn_without_signals("instanton-read", move || {
            if let Some(mut incoming) = take(&taken) {
                receive(&inner, &mut incoming, &queue);
            }
        });
        match thread {
            Ok(thread) => Ok(Receiver { received, thread }),
            Err(error) => Err((error, take(&lent))),
        }
    }

    /// Waits for the end of the thread, once the control thread takes nothing any more and the socket is shut down.
    pub(super) fn end(self) {
        self.received.close();
        // One that has panicked reads nothing any more, either.
        let _ = self.thread.join();
    }
}

impl Inner {
    /// Calls an event handler; on the control thread, which may stay there.
    pub(super) fn in_handler(self: &Arc<Self>, call: impl FnOnce()) {
        if self.link.enter_handler() {
            self.read_aside();
        }
        call();
        self.link.leave_handler();
    }

    /// Sends the request of a look-up that somebody [blocks](super::connection::Link::look_up) for.
    pub(super) fn look_up(self: &Arc<Self>, call: &'static str, request: &Request, waiter: Waiter) {
        if self.link.look_up(call, request, waiter) {
            self.read_aside();
        }
    }

    /// Has another thread read what the control thread has read so far. Where the system has none to give, answers wait
    /// for the handler.
    #[cold]
    pub(super) fn read_aside(self: &Arc<Self>) {
        let mut reading = self.link.reading();
        *reading = match std::mem::take(&mut *reading) {
            Source::Socket(incoming) => match Receiver::start(self, incoming) {
                Ok(receiver) => Source::Received(receiver),
                Err((error, incoming)) => {
                    trace!("no thread reads while an event handler runs: {error}");
                    incoming.map_or(Source::None, Source::Socket)
                }
            },
            other => other,
        };
    }
}

/// Receives until nothing more comes.
fn receive(inner: &Inner, incoming: &mut Incoming, received: &Received) {
    loop {
        let end = match incoming.wait(MAX_BODY, None) {
            Ok(frame) => match hand_out(inner, frame, received) {
                Ok(()) => continue,
                Err(end) => end,
            },
            Err(end) => end,
        };
        received.end(end);
        inner.link.lose_lookups();
        return inner.link.wake();
    }
}

fn hand_out(inner: &Inner, frame: Frame, received: &Received) -> Result<(), End> {
    let (link, number) = (&inner.link, frame.header.number);
    let is_reply = matches!(frame.header.kind, Kind::Reply);
    if is_reply && number == 0 {
        // The fence behind it tells its caller.
        inner.posts.committed(frame::decode(Kind::Reply, &frame.body)?);
        return Ok(());
    }
    if is_reply && link.answers_meeting(number, &frame.body)? {
        return Ok(());
    }
    match is_reply.then(|| link.lookup(number)).flatten() {
        Some(waiter) => {
            let reply = frame::decode(Kind::Reply, &frame.body);
            let answer = reply.map(|reply| Answer { reply, descriptors: frame.descriptors });
            // A reply that cannot be read is the end for everybody.
            let (answer, result) = match answer {
                Ok(answer) => (Ok(answer), Ok(())),
                Err(error) => (Err(super::Error::LostConnection), Err(error.into())),
            };
            waiter(answer);
            result
        }
        None => {
            received.add(frame);
            link.wake();
            Ok(())
        }
    }
}
