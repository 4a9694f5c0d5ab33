//! Messages that the [receiving thread](super::receiver) has read and the control thread has not taken.
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::incoming::{End, Frame};

/// Bytes of messages that wait for the control thread, beyond which no more are read.
const MOST: usize = 16 << 20;

/// Messages for the control thread.
#[derive(Default)]
pub(super) struct Received {
    queue: Mutex<Queue>,
    /// Signalled when there is room again, or nobody will make any.
    room: Condvar,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    end: Option<End>,
    /// Nobody takes anything any more.
    is_closed: bool,
}

impl Received {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next frame, if there is one.
    ///
    /// # Errors
    /// The end, behind all frames.
    pub(super) fn next(&self) -> Result<Option<Frame>, End> {
        let mut queue = self.lock();
        let Some(frame) = queue.frames.pop_front() else { return queue.end.take().map_or(Ok(None), Err) };
        queue.bytes -= frame.body.len();
        self.room.notify_one();
        Ok(Some(frame))
    }

    /// Nobody takes anything any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.room.notify_one();
    }

    /// Adds a frame, once there is room.
    pub(super) fn add(&self, frame: Frame) {
        let is_full = |queue: &mut Queue| queue.bytes > MOST && !queue.is_closed;
        let mut queue = self.room.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        queue.bytes += frame.body.len();
        queue.frames.push_back(frame);
    }

    /// Nothing comes any more, for this reason.
    pub(super) fn end(&self, end: End) {
        self.lock().end = Some(end);
    }
}
