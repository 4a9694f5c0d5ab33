//! Messages from the server: bytes at the socket, and before them messages that were read aside and wait for the
//! control thread.
//!
//! Others than the control thread read where it is in an event handler ([`receiver`](super::receiver)), and where a
//! caller blocks for an answer ([`caller`](super::caller)). They hand out what somebody blocks for, and leave everything
//! else to the control thread, in its order: so they run nothing of the program.
use std::collections::VecDeque;
use std::sync::MutexGuard;

use crate::control::frame::{self, Kind, MAX_BODY};

use super::Inner;
use super::answer::{Answer, Waiter};
use super::incoming::{End, Frame, Incoming};
use super::receiver::Receiver;

/// Bytes of messages that wait for the control thread, beyond which no more are read aside.
const MOST: usize = 16 << 20;

/// Messages for the control thread.
#[derive(Default)]
pub(super) struct Received {
    /// The receiving side; none where there is no server, or not any more.
    pub(super) incoming: Option<Incoming>,
    /// Messages that were read aside, in their order.
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Reason why nothing comes behind them.
    end: Option<End>,
    /// The thread that reads aside, once it has been needed.
    pub(super) receiver: Option<Receiver>,
    /// A caller reads, and nobody else.
    with_caller: bool,
}

impl Received {
    /// The next message for the control thread, if all of it has come.
    ///
    /// # Errors
    /// The end, behind all messages.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, End> {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= frame.body.len();
            return Ok(Some(frame));
        }
        match self.end.take() {
            Some(end) => Err(end),
            None if self.with_caller => Ok(None),
            None => self.incoming.as_mut().map_or(Ok(None), |incoming| incoming.next(MAX_BODY)),
        }
    }

    /// Returns whether a caller reads, and so nobody else may.
    pub(super) fn is_with_caller(&self) -> bool {
        self.with_caller
    }

    /// From now on a caller reads, if `shut` shuts the gate; false where another one does, or nothing more is to be read
    /// aside.
    pub(super) fn give_to_caller(&mut self, shut: impl FnOnce() -> bool) -> bool {
        let may_read = !self.with_caller && self.aside().is_some() && shut();
        self.with_caller |= may_read;
        may_read
    }

    /// The caller reads no more. Returns whether bytes are left that no poll shows.
    pub(super) fn take_from_caller(&mut self) -> bool {
        self.with_caller = false;
        self.incoming.as_ref().is_some_and(Incoming::has_bytes)
    }

    /// The socket, unless nothing more is to be read aside: too much waits already, or the end has come.
    pub(super) fn aside(&mut self) -> Option<&mut Incoming> {
        self.incoming.as_mut().filter(|_| self.bytes <= MOST && self.end.is_none())
    }

    /// A message that was read aside waits for the control thread.
    pub(super) fn add(&mut self, frame: Frame) {
        self.bytes += frame.body.len();
        self.frames.push_back(frame);
    }

    /// Nothing comes any more, for this reason.
    pub(super) fn end(&mut self, end: End) {
        self.end = Some(end);
    }
}

/// Next step of one who reads aside.
pub(super) enum Step {
    Again,
    /// Nothing has come.
    Dry,
    /// Nothing more is to be read.
    Over,
}

impl Inner {
    /// Reads one message aside, and gives it to whom it is for.
    pub(super) fn take_in(&self, mut received: MutexGuard<'_, Received>) -> Step {
        let Some(incoming) = received.aside() else { return Step::Over };
        let handed = match incoming.next(MAX_BODY) {
            Ok(None) => return Step::Dry,
            Ok(Some(frame)) => self.hand_out(frame, &mut received),
            Err(end) => Err(end),
        };
        match handed {
            Ok(answered) => {
                // It may send a request.
                drop(received);
                answered.into_iter().for_each(|(waiter, answer)| waiter(Ok(answer)));
            }
            Err(end) => {
                received.end(end);
                drop(received);
                self.link.lose_lookups();
                self.link.wake();
            }
        }
        Step::Again
    }

    /// Gives a message to whom it is for. Returns the one who blocks for it, with the answer.
    fn hand_out(&self, frame: Frame, received: &mut Received) -> Result<Option<(Waiter, Answer)>, End> {
        let (link, number) = (&self.link, frame.header.number);
        if !matches!(frame.header.kind, Kind::Reply) {
            self.leave(frame, received);
        } else if number == 0 {
            // The fence behind it tells its caller.
            self.posts.committed(frame::decode(Kind::Reply, &frame.body)?);
        } else if link.is_looked_up(number) {
            // A reply that cannot be read is the end for everybody.
            let reply = frame::decode(Kind::Reply, &frame.body)?;
            let waiter = link.lookup(number);
            return Ok(waiter.map(|waiter| (waiter, Answer { reply, descriptors: frame.descriptors })));
        } else if !link.answers_meeting(number, &frame.body)? {
            self.leave(frame, received);
        }
        Ok(None)
    }

    /// Leaves a message to the control thread, which no byte at the socket wakes for it.
    fn leave(&self, frame: Frame, received: &mut Received) {
        received.add(frame);
        if received.is_with_caller() {
            self.link.wake();
        }
    }
}
