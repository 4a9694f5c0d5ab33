//! The receiving side of the connection to the server: bytes of a stream become frames.
//!
//! One thread at a time reads, so there is no lock. A frame that breaks the protocol, and the end of the stream, are an
//! [`End`]: nothing more will come. When the server dies, that is how its client learns of it.
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::control::frame::{FrameError, HEADER, Header};
use crate::sys::socket;
use crate::trace;

/// Reason why nothing more will come.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("it closed the connection")]
    Closed,
    #[error("the time limit has passed")]
    TimedOut,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
}

/// One frame as it came.
pub(super) struct Frame {
    pub(super) header: Header,
    pub(super) body: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Returns the time until then, for a poll. It is rounded up: before that time there is nothing to do.
pub(super) fn time_left(until: Option<Instant>) -> PollTimeout {
    let Some(until) = until else { return PollTimeout::NONE };
    let left = until.saturating_duration_since(Instant::now()).as_millis() + 1;
    i32::try_from(left).ok().and_then(|left| left.try_into().ok()).unwrap_or(PollTimeout::MAX)
}

/// The receiving side.
pub(super) struct Incoming {
    pub(super) socket: Arc<UnixStream>,
    /// Bytes that have come and were not taken yet, and room behind them.
    bytes: Vec<u8>,
    filled: usize,
    descriptors: Vec<OwnedFd>,
    /// The socket gave less than there was room for: it was empty, unless more has come since.
    is_dry: bool,
}

/// Room for what comes at a time: enough for most frames. Every process has it, and its pages are touched at Init.
const CHUNK: usize = 4 << 10;
/// Room for what comes at a time while a long frame is under way. More than a socket holds is never there at once.
const LONG_CHUNK: usize = 256 << 10;

impl Incoming {
    pub(super) fn new(socket: Arc<UnixStream>) -> Self {
        Self { socket, bytes: vec![0; CHUNK], filled: 0, descriptors: Vec::new(), is_dry: false }
    }

    /// The next frame, if all of it has come; none also where only a poll can tell. `max` bounds its body.
    pub(super) fn next(&mut self, max: usize) -> Result<Option<Frame>, End> {
        loop {
            let wanted = match self.bytes[..self.filled].first_chunk::<HEADER>() {
                None => HEADER,
                Some(head) => {
                    let header = Header::parse(head, max)?;
                    let end = HEADER + header.body;
                    if self.filled >= end {
                        return Ok(Some(self.take(header, end)));
                    }
                    end
                }
            };
            if std::mem::take(&mut self.is_dry) || !self.fill(wanted)? {
                return Ok(None);
            }
        }
    }

    /// Waits for the next frame, until that time at most.
    pub(super) fn wait(&mut self, max: usize, until: Option<Instant>) -> Result<Frame, End> {
        loop {
            if let Some(frame) = self.next(max)? {
                return Ok(frame);
            }
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, time_left(until)) {
                Ok(0) if until.is_some_and(|until| Instant::now() >= until) => return Err(End::TimedOut),
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(End::Io(error.into())),
            }
        }
    }

    /// Returns whether bytes have been received that were not taken yet.
    pub(super) fn has_bytes(&self) -> bool {
        self.filled > 0
    }

    /// Receives once; false when nothing has come.
    fn fill(&mut self, wanted: usize) -> Result<bool, End> {
        if self.bytes.len() < wanted && self.bytes.len() - self.filled < CHUNK {
            self.bytes.resize(wanted.min(self.filled + LONG_CHUNK), 0);
        }
        match socket::receive(&self.socket, &mut self.bytes[self.filled..], &mut self.descriptors) {
            Ok(received) => {
                self.is_dry = received.bytes < self.bytes.len() - self.filled;
                self.filled += received.bytes;
                if received.truncated {
                    trace!("descriptors from the server were lost: this process has too many open");
                }
                if received.bytes == 0 { Err(End::Closed) } else { Ok(true) }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(End::Io(error)),
        }
    }

    fn take(&mut self, header: Header, end: usize) -> Frame {
        let body = self.bytes[HEADER..end].to_vec();
        self.bytes.copy_within(end..self.filled, 0);
        self.filled -= end;
        if self.bytes.len() > LONG_CHUNK && self.filled <= CHUNK {
            // Room for a long frame is given back.
            self.bytes.truncate(CHUNK);
            self.bytes.shrink_to_fit();
        }
        // Descriptors come with their frame's first byte, so they are here by now; fewer than announced, and none can be told
        // from another.
        let descriptors = match self.descriptors.len() >= header.descriptors {
            true => self.descriptors.drain(..header.descriptors).collect(),
            false => Vec::new(),
        };
        Frame { header, body, descriptors }
    }
}
