//! Messages from the server: bytes at the socket, and before them messages that were
//! [read aside](super::receiver) and wait for the control thread.
use std::collections::VecDeque;

use crate::control::frame::MAX_BODY;

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
            None => self.incoming.as_mut().map_or(Ok(None), |incoming| incoming.next(MAX_BODY)),
        }
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
