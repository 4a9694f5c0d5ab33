//! One connection, seen from the server: bytes in, frames out, and a queue for what the peer does not take yet.
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use mio::net::UnixStream;
use rkyv::util::AlignedVec;

use super::frame::{self, FrameError, HEADER, Header, Kind, MAX_DESCRIPTORS, MAX_HANDSHAKE};
use crate::account::{self, Account, Charge};
use crate::data::archive::Wire;
use crate::sys::{queue, socket};

/// Most bytes that wait for a peer that does not read before it is cut off. One frame more than this fits always.
pub const MAX_QUEUED: usize = 64 << 20;
/// Most descriptors that wait for it. Each of them is one of this process, which others need as well.
pub const MAX_QUEUED_DESCRIPTORS: usize = 4 * MAX_DESCRIPTORS;
/// Bytes taken from a socket at a time.
pub const CHUNK: usize = 64 << 10;
/// Bytes of a frame that a connection may take in without a charge.
const UNCHARGED: usize = CHUNK;
/// Chunks taken from one peer before the others get their turn.
const CHUNKS_PER_TURN: usize = 16;

/// Stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not said yet who it is.
    Unknown,
    /// It has, and the server has not answered. Nothing is read from it meanwhile.
    Asking,
    /// It is in.
    In,
    /// It was refused; what is queued goes out, and then it ends.
    Refused,
}

struct Queued {
    bytes: AlignedVec,
    sent: usize,
    descriptors: Vec<OwnedFd>,
    /// None for a short frame that nothing waited before.
    _charge: Option<Charge>,
}

/// A connection's state.
pub struct Connection {
    /// The socket.
    pub stream: UnixStream,
    /// Process at the other end, as the kernel names it.
    pub peer: socket::Peer,
    /// Stage that it has reached.
    pub stage: Stage,
    /// True if its poll registration asks for writability.
    pub wants_write: bool,
    input: Vec<u8>,
    /// Number of bytes of `input` that have become frames.
    taken: usize,
    /// Account of the process, once it is let in.
    account: Account,
    /// Charge for a long frame that has not come in whole.
    charge: Option<Charge>,
    /// Number of bytes of a refused frame that are still to be discarded.
    refused: usize,
    output: VecDeque<Queued>,
    queued: usize,
    queued_descriptors: usize,
}

/// Frame that has come in.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A whole frame, and its body.
    Frame(Header, &'a [u8]),
    /// The header of a frame that is larger than what the process's account has left. Its body is discarded.
    Refused(Header),
}

/// Result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// All there was.
    Drained,
    /// A turn's worth; there may be more.
    More,
    /// The other end is closed.
    Closed,
}

/// Result of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Nothing is queued any more.
    Empty,
    /// The rest waits until the peer reads.
    Waits,
}

impl Connection {
    /// A connection just accepted.
    pub fn new(stream: UnixStream, peer: socket::Peer) -> Self {
        Connection {
            stream,
            peer,
            stage: Stage::Unknown,
            wants_write: false,
            input: Vec::new(),
            taken: 0,
            account: Account::unlimited(),
            charge: None,
            refused: 0,
            output: VecDeque::new(),
            queued: 0,
            queued_descriptors: 0,
        }
    }

    /// Lets the peer in: what it makes the server hold is charged to this account.
    pub fn let_in(&mut self, account: Account) {
        self.stage = Stage::In;
        self.account = account;
    }

    /// Reads what has come, a turn's worth at most. There is no room for control data: descriptors that a peer sends
    /// are closed by the kernel.
    ///
    /// A short read has emptied the socket, and the poll tells of what comes after it; `to_end` says that it has told
    /// already, and that there may be an end to be found.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fill(&mut self, scratch: &mut [u8; CHUNK], to_end: bool) -> io::Result<Fill> {
        match std::mem::take(&mut self.taken) {
            all if all == self.input.len() => {
                self.input.clear();
                self.input.shrink_to(CHUNK);
            }
            some => drop(self.input.drain(..some)),
        }
        for _ in 0..CHUNKS_PER_TURN {
            // Nobody knows yet whom more than a handshake could be charged to.
            if self.stage == Stage::Unknown && self.input.len() >= HEADER + MAX_HANDSHAKE {
                return Ok(Fill::Drained);
            }
            match socket::read(&self.stream, scratch) {
                Ok(0) => return Ok(Fill::Closed),
                Ok(n) => {
                    let discarded = self.refused.min(n);
                    self.refused -= discarded;
                    self.input.extend_from_slice(&scratch[discarded..n]);
                    if n < CHUNK && !to_end {
                        return Ok(Fill::Drained);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Fill::Drained),
                Err(e) => return Err(e),
            }
        }
        Ok(Fill::More)
    }

    /// The next whole frame and its body of at most `max` bytes, if one has come.
    ///
    /// # Errors
    /// When what has come is no frame.
    #[inline]
    pub fn next_frame(&mut self, max: usize) -> Result<Option<Incoming<'_>>, FrameError> {
        let waiting = &self.input[self.taken..];
        let Some(first) = waiting.first_chunk::<HEADER>() else { return Ok(None) };
        let header = Header::parse(first, max)?;
        if waiting.len() < HEADER + header.body {
            let is_charged = header.body <= UNCHARGED || self.charge.is_some() || self.expect(header.body);
            return Ok((!is_charged).then(|| self.refuse(header)));
        }
        self.charge = None;
        let start = self.taken + HEADER;
        self.taken = start + header.body;
        Ok(Some(Incoming::Frame(header, &self.input[start..self.taken])))
    }

    /// Charges a long frame that has begun, and makes room for it. Returns whether there is room.
    fn expect(&mut self, body: usize) -> bool {
        self.charge = self.account.charge(account::Kind::Input, body);
        let missing = HEADER + body - (self.input.len() - self.taken);
        self.charge.is_some() && self.input.try_reserve_exact(missing).is_ok()
    }

    /// Discards a frame that has begun.
    #[cold]
    fn refuse(&mut self, header: Header) -> Incoming<'static> {
        self.charge = None;
        self.refused = HEADER + header.body - (self.input.len() - self.taken);
        self.taken = self.input.len();
        Incoming::Refused(header)
    }

    /// Returns whether the peer broke off in the middle of a frame.
    pub fn is_mid_frame(&self) -> bool {
        self.taken < self.input.len() || self.refused > 0
    }

    /// Queues a frame.
    ///
    /// # Errors
    /// When it cannot be encoded, or the peer has left too much unread already: nothing of it is queued then.
    pub fn push<T: Wire>(
        &mut self,
        kind: Kind,
        number: u64,
        descriptors: Vec<OwnedFd>,
        body: &T,
    ) -> Result<(), PushError> {
        if self.queued > MAX_QUEUED {
            return Err(PushError::Unread(self.queued));
        }
        if self.queued_descriptors > MAX_QUEUED_DESCRIPTORS {
            return Err(PushError::UnreadDescriptors(self.queued_descriptors));
        }
        let bytes = frame::encode(kind, number, descriptors.len(), body)?;
        // A small frame that nothing waits before is mostly gone at once.
        let is_charged = self.queued > 0 || bytes.len() > UNCHARGED;
        let charge = match is_charged {
            true => match self.account.charge(account::Kind::Output, bytes.len()) {
                Some(charge) => Some(charge),
                None => return Err(PushError::OverLimit(bytes.len())),
            },
            false => None,
        };
        self.queued += bytes.len();
        self.queued_descriptors += descriptors.len();
        self.output.push_back(Queued { bytes, sent: 0, descriptors, _charge: charge });
        Ok(())
    }

    /// Sends what the peer takes. Descriptors go only when everything before them has been read: so at most one message
    /// with descriptors is under way to a peer, whatever it asks.
    ///
    /// # Errors
    /// The kernel's.
    pub fn flush(&mut self) -> io::Result<Flush> {
        while let Some(front) = self.output.front_mut() {
            let descriptors: Vec<_> = match front.sent {
                0 => front.descriptors.iter().map(AsFd::as_fd).collect(),
                _ => Vec::new(),
            };
            if !descriptors.is_empty() && queue::unread(&self.stream)? > 0 {
                return Ok(Flush::Waits);
            }
            match socket::send(&self.stream, &front.bytes[front.sent..], &descriptors) {
                Ok(n) => {
                    front.sent += n;
                    self.queued_descriptors -= front.descriptors.len();
                    front.descriptors.clear();
                    if front.sent == front.bytes.len() {
                        self.queued -= front.bytes.len();
                        self.output.pop_front();
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Flush::Waits),
                Err(e) => return Err(e),
            }
        }
        Ok(Flush::Empty)
    }
}

/// A frame that cannot be queued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The peer does not read.
    #[error("{0} bytes wait to be read")]
    Unread(usize),
    /// The peer does not read, and holds descriptors in that way.
    #[error("{0} descriptors wait to be read")]
    UnreadDescriptors(usize),
    /// The account of the process has not enough left.
    #[error("{0} bytes more to be read are over the limit of its job")]
    OverLimit(usize),
    /// It is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
}
