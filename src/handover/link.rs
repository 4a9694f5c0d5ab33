//! A reader's connection to its writer: one question, one answer.
//!
//! The page of a reader ends with its connection, and with the page what its guards hold. So the connection stays open
//! as long as the reader, whatever becomes of an answer. One that comes too late is not taken for the next one's.
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::message::{self, ANSWER, Outcome, Request, Token, Wish};
use super::remote::LinkError;
use crate::store::{AttachError, Have, MappedSegment};
use crate::sys::socket;

/// Longest time that is waited: more is no instant any more.
pub(super) const LONGEST: Duration = Duration::from_secs(1 << 31);
/// Time after which a writer that could not pass descriptors is asked again.
const PAUSE: Duration = Duration::from_millis(5);

/// The connection.
pub(super) struct Link {
    stream: UnixStream,
    /// Nothing is asked any more: the other end is gone, or refuses, or speaks something else.
    is_over: bool,
    /// Bytes of an answer that have not come yet.
    late: usize,
    token: Token,
    /// Time that the writer has for each answer.
    pub(super) patience: Duration,
    #[cfg_attr(not(feature = "named-segments"), expect(dead_code, reason = "all segments are sealed"))]
    trust: Trust,
}

/// Trust in the owner of segments that are not sealed.
#[cfg(feature = "named-segments")]
pub(super) type Trust = bool;
#[cfg(not(feature = "named-segments"))]
pub(super) struct Trust;

#[cfg(feature = "named-segments")]
pub(super) const NO_TRUST: Trust = false;
#[cfg(not(feature = "named-segments"))]
pub(super) const NO_TRUST: Trust = Trust;

impl Link {
    pub(super) fn new(stream: UnixStream, token: Token, patience: Duration, trust: Trust) -> Self {
        Self { stream, is_over: false, late: 0, token, patience, trust }
    }

    /// Maps a segment that the writer has sent.
    pub(super) fn map(&self, segment: &OwnedFd) -> Result<MappedSegment, AttachError> {
        #[cfg(feature = "named-segments")]
        if self.trust {
            return MappedSegment::map_trusting_owner(segment.as_fd());
        }
        MappedSegment::map(segment.as_fd())
    }

    /// Returns whether the writer is still there.
    pub(super) fn is_up(&self) -> bool {
        // Of its end the kernel tells without being asked for anything; an answer that is late is none.
        let mut ended = [PollFd::new(self.stream.as_fd(), PollFlags::empty())];
        !self.is_over && poll(&mut ended, PollTimeout::ZERO).is_ok_and(|ended| ended == 0)
    }

    /// Asks nothing any more.
    pub(super) fn give_up(&mut self, error: io::Error) -> LinkError {
        self.is_over = true;
        LinkError::Lost(error)
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, wish: Wish, have: Have) -> Result<Vec<OwnedFd>, LinkError> {
        if self.is_over {
            return Err(LinkError::Lost(io::ErrorKind::NotConnected.into()));
        }
        let request = Request { wish, token: self.token, have }.to_bytes();
        let until = Instant::now() + self.patience.min(LONGEST);
        loop {
            match self.exchange(&request, until)? {
                (Outcome::Given, descriptors) => return Ok(descriptors),
                (Outcome::NoRoom, _) => return Err(LinkError::NoRoom),
                (Outcome::Refused, _) => {
                    self.is_over = true;
                    return Err(LinkError::Refused);
                }
                (Outcome::Later, _) => wait(&self.stream, PollFlags::empty(), until, PAUSE).map_err(LinkError::Lost)?,
            }
        }
    }

    fn exchange(&mut self, request: &[u8], until: Instant) -> Result<(Outcome, Vec<OwnedFd>), LinkError> {
        let mut descriptors = Vec::new();
        self.receive(&mut [0; ANSWER], &mut descriptors, until).map_err(|error| self.failed(error))?;
        descriptors.clear();
        // Nothing else is under way, so there is room for all of it. Where the other end has closed before, it may have
        // said why.
        match socket::send(&self.stream, request, &[]) {
            Ok(sent) if sent != request.len() => return Err(self.give_up(io::ErrorKind::WriteZero.into())),
            Err(error) if !is_end(&error) => return Err(self.failed(error)),
            _ => self.late = ANSWER,
        }
        let mut answer = [0; ANSWER];
        let whole = self.receive(&mut answer, &mut descriptors, until).map_err(|error| self.failed(error))?;
        match message::outcome(answer) {
            Some(_) if !whole => Err(LinkError::NoDescriptors),
            Some((outcome, count)) if count == descriptors.len() => Ok((outcome, descriptors)),
            _ => Err(self.give_up(io::Error::other("an answer of another protocol"))),
        }
    }

    /// Receives what has not come yet of an answer. Returns whether all its descriptors found room in this process.
    fn receive(
        &mut self,
        answer: &mut [u8; ANSWER],
        descriptors: &mut Vec<OwnedFd>,
        until: Instant,
    ) -> io::Result<bool> {
        let mut whole = true;
        while self.late > 0 {
            match socket::receive(&self.stream, &mut answer[ANSWER - self.late..], descriptors) {
                Ok(received) if received.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => {
                    self.late -= received.bytes;
                    whole &= !received.truncated;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.stream, PollFlags::POLLIN, until, LONGEST)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(whole)
    }

    /// An error of the system: it may pass, unless it is the end.
    fn failed(&mut self, error: io::Error) -> LinkError {
        self.is_over |= is_end(&error);
        LinkError::Lost(error)
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Waits for something, or the end of the connection, at most so long; an error when the time is over.
fn wait(stream: &UnixStream, awaited: PollFlags, until: Instant, most: Duration) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    // Up to the next millisecond, or it would spin through the last one.
    let left = PollTimeout::try_from(left.min(most) + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(stream.as_fd(), awaited)], left) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
