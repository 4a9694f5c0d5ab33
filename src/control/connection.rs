//! One connection, seen from the server: bytes in, frames out, and a queue for what the peer does not take yet.
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use mio::net::UnixStream;
use rkyv::util::AlignedVec;

use super::frame::{self, BEFORE, FrameError, HEADER, Header, Kind, MAX_DESCRIPTORS, MAX_HANDSHAKE};
use crate::account::{Account, Charge, Kind as Held};
use crate::data::archive::Wire;
use crate::message::door::Making;
use crate::sys::{later, queue, socket, strays};
use crate::transport::input::{CHUNK, Fill, Input, Taken};
use crate::transport::output::{Companion, Flush, Full, Kept, Output, SENT_PER_TURN};
use crate::transport::shares::Owner;
use crate::transport::turns::Place;

/// Most descriptors that wait for a peer. Each of them is one of this process, which others need as well.
pub const MAX_QUEUED_DESCRIPTORS: usize = 4 * MAX_DESCRIPTORS;

/// Bytes on their way behind which long answers wait to be made: a peer that asks for many is given them as it reads.
const MADE_AHEAD: usize = 16 << 20;

/// Bytes that the frame of a long answer has beside its value, with some to spare: one that is made is to have room.
const BESIDE: usize = 4 << 10;

/// Bytes that one that waits is charged with: what the kernel keeps of it, and as its share of a scarce thing.
const DESCRIPTOR: usize = 4 << 10;

/// Companions of a message.
struct With {
    descriptors: Vec<OwnedFd>,
    _charge: Option<Charge>,
    /// Process that is sent for, where it is another one than that which it is sent to.
    cause: Option<Owner>,
}

impl Companion for With {
    fn goes_alone(&self) -> bool {
        !self.descriptors.is_empty()
    }
}

/// Stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The peer has not said yet who it is.
    Unknown,
    /// The peer has said it, and the server has not answered. Nothing is read from it meanwhile.
    Asking,
    /// The peer is in.
    In,
    /// The peer was refused; what is queued goes out, and then the connection ends.
    Refused,
}

/// Bytes of a frame.
pub enum Bytes {
    /// Of one connection.
    Own(AlignedVec),
    /// Of one connection, encoded in one piece.
    Long(AlignedVec),
    /// Of a push that several connections are sent.
    Shared(Arc<AlignedVec>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Long(bytes) => &bytes[BEFORE..],
            Bytes::Shared(bytes) => bytes,
        }
    }
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
    /// Its place among those that have turns.
    pub place: Place,
    /// True for a tool.
    pub is_tool: bool,
    /// True while its last request is worked at. Nothing more is taken from it meanwhile.
    pub is_busy: bool,
    /// True if its other end is closed, or its process has ended: nothing comes after what is here.
    pub has_ended: bool,
    input: Input,
    /// Account of the process, once it is let in.
    account: Account,
    /// Frames on their way.
    output: Output<Bytes, With>,
    /// Long answers that are made once more of the output is gone, with the numbers of their requests.
    unmade: VecDeque<(u64, Making)>,
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

impl Drop for Connection {
    fn drop(&mut self) {
        strays::close(&self.stream);
        later::drop_sized(self.unmade.len() * Making::WAITING, std::mem::take(&mut self.unmade));
    }
}

impl Connection {
    /// A connection just accepted.
    pub fn new(stream: UnixStream, peer: socket::Peer) -> Self {
        Connection {
            stream,
            peer,
            stage: Stage::Unknown,
            wants_write: false,
            place: Place::default(),
            is_tool: false,
            is_busy: false,
            has_ended: false,
            input: Input::default(),
            account: Account::unlimited(),
            output: Output::new(),
            unmade: VecDeque::new(),
            queued_descriptors: 0,
        }
    }

    /// Lets the peer in: what it makes the server hold is charged to this account.
    pub fn let_in(&mut self, account: Account) {
        self.stage = Stage::In;
        self.account = account;
    }

    /// Reads what has come, a turn's worth at most. One that has sent descriptors is cut off, where the kernel has let it.
    ///
    /// A short read has emptied the socket, and the poll tells of what comes after it; `to_end` says that it has told
    /// already, and that there may be an end to be found.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fill(&mut self, scratch: &mut [u8; CHUNK], to_end: bool) -> io::Result<Fill> {
        // Nobody knows yet whom more than a handshake could be charged to.
        let most = if self.stage == Stage::Unknown { HEADER + MAX_HANDSHAKE } else { usize::MAX };
        self.input.fill(scratch, most, to_end, |into| socket::read(&self.stream, into))
    }

    /// Its process has ended: what has come is all that does. Returns whether some of that was not handed on.
    pub fn hear_out(&mut self) -> bool {
        let is_at_socket = self.input.ends_after(|| queue::readable(&self.stream).unwrap_or(0));
        self.has_ended |= !is_at_socket;
        is_at_socket || self.has_frame()
    }

    /// The next whole frame and its body of at most `max` bytes, if one has come.
    ///
    /// # Errors
    /// When what has come is no frame.
    #[inline]
    pub fn next_frame(&mut self, max: usize) -> Result<Option<Incoming<'_>>, FrameError> {
        let Some(first) = self.input.waiting().first_chunk::<HEADER>() else { return Ok(None) };
        let header = Header::parse(first, max)?;
        Ok(match self.input.take(&self.account, HEADER, header.body) {
            Taken::Part => None,
            Taken::Refused => Some(Incoming::Refused(header)),
            Taken::Whole(body) => Some(Incoming::Frame(header, body)),
        })
    }

    /// Returns whether the rest of a long frame is read next: into memory that is new, which takes longer.
    pub fn is_mid_long(&self) -> bool {
        self.input.is_mid_long()
    }

    /// Returns the number of bytes that wait to become frames.
    pub fn waiting(&self) -> usize {
        self.input.waiting().len()
    }

    /// Returns whether the next frame has come in whole already.
    pub fn has_frame(&self) -> bool {
        let waiting = self.input.waiting();
        let length = waiting.first_chunk::<HEADER>().map(frame::announced);
        length.is_some_and(|length| waiting.len() - HEADER >= length)
    }

    /// Takes the body of the frame out that came last, to be read elsewhere: bytes that end with it, and their charge.
    /// None where the account has no room for what is read from them.
    pub fn detach(&mut self) -> Option<(Vec<u8>, Charge)> {
        self.input.detach(&self.account)
    }

    /// Returns whether the peer broke off in the middle of a frame.
    pub fn is_mid_frame(&self) -> bool {
        self.input.is_mid_message()
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
        self.check_queue()?;
        let bytes = frame::encode(kind, number, descriptors.len(), body)?;
        // A peer that is let in has asked for nothing yet.
        self.queue(Bytes::Own(bytes), descriptors, None, kind == Kind::Welcome)
    }

    /// Queues a frame that was encoded, which this process has caused.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_shared(&mut self, bytes: Arc<AlignedVec>, cause: Option<Owner>) -> Result<(), PushError> {
        self.check_queue()?;
        self.queue(Bytes::Shared(bytes), Vec::new(), cause, false)
    }

    /// Keeps the place of a long answer. One that may wait has none yet while there is enough on its way, and is given
    /// back.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn keep_long(&mut self, answer: &Making) -> Result<Option<Kept>, PushError> {
        match answer.may_wait() {
            true if !self.unmade.is_empty() => Ok(None),
            true => self.keep_next(answer.bytes),
            false => self.keep(answer.bytes).map(Some),
        }
    }

    /// Keeps a place for so many bytes. There is none while enough is on its way, or while the end of that makes room.
    fn keep_next(&mut self, bytes: usize) -> Result<Option<Kept>, PushError> {
        let is_empty = self.queued() == 0;
        if !is_empty && self.queued() + bytes > MADE_AHEAD {
            return Ok(None);
        }
        match self.keep(bytes + BESIDE) {
            Err(PushError::Full(Full::OverLimit(_))) if !is_empty => Ok(None),
            kept => kept.map(Some),
        }
    }

    /// Has a long answer wait until the peer has taken more.
    pub fn make_later(&mut self, number: u64, answer: Making) {
        self.unmade.push_back((number, answer));
    }

    /// Returns the next long answer that has waited and is to be made now, with its place or the reason why it has none.
    pub fn next_to_make(&mut self) -> Option<(u64, Making, Result<Kept, PushError>)> {
        let bytes = self.unmade.front()?.1.bytes;
        let kept = self.keep_next(bytes).transpose()?;
        self.unmade.pop_front().map(|(number, answer)| (number, answer, kept))
    }

    /// Keeps the place of a frame of about so many bytes, which is still to be made.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn keep(&mut self, bytes: usize) -> Result<Kept, PushError> {
        self.check_queue()?;
        let with = With { descriptors: Vec::new(), _charge: None, cause: None };
        Ok(self.output.keep(bytes, with, &self.account)?)
    }

    /// Fills a place with its frame.
    ///
    /// # Errors
    /// Where its account has no room for it: the place is still kept then.
    pub fn fill_kept(&mut self, kept: &Kept, frame: Bytes) -> Result<(), PushError> {
        Ok(self.output.fill(kept, frame)?)
    }

    /// Number of bytes that are queued.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Process that the oldest frame on its way is sent for.
    pub fn cause(&self) -> Owner {
        self.output.first().and_then(|with| with.cause).unwrap_or(self.place.owner)
    }

    fn check_queue(&self) -> Result<(), PushError> {
        self.output.check()?;
        if self.queued_descriptors > MAX_QUEUED_DESCRIPTORS {
            return Err(PushError::UnreadDescriptors(self.queued_descriptors));
        }
        Ok(())
    }

    fn queue(
        &mut self,
        bytes: Bytes,
        descriptors: Vec<OwnedFd>,
        cause: Option<Owner>,
        is_promised: bool,
    ) -> Result<(), PushError> {
        let more = descriptors.len();
        let charge = match more * DESCRIPTOR {
            0 => None,
            held if is_promised => Some(self.account.force(Held::Descriptors, held)),
            held => Some(self.account.charge(Held::Descriptors, held).ok_or(Full::OverLimit(held))?),
        };
        self.output.push(bytes, With { descriptors, _charge: charge, cause }, Some(&self.account))?;
        self.queued_descriptors += more;
        Ok(())
    }

    /// Sends what the peer takes, a turn's worth at most. Descriptors go only when everything before them has been read:
    /// so at most one message with descriptors is under way to a peer, whatever it asks.
    ///
    /// # Errors
    /// The kernel's.
    pub fn flush(&mut self) -> io::Result<Flush> {
        let (stream, queued) = (&self.stream, &mut self.queued_descriptors);
        let send = |pieces: &[IoSlice<'_>], with: Option<&mut With>| {
            let (bytes, Some(With { descriptors, .. })) = (&pieces[0], with) else {
                return match pieces {
                    [bytes] => socket::send(stream, bytes, &[]),
                    pieces => socket::send_pieces(stream, pieces),
                };
            };
            if queue::unread(stream)? > 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            let sent = socket::send(stream, bytes, &borrowed)?;
            *queued -= descriptors.len();
            descriptors.clear();
            Ok(sent)
        };
        self.output.flush(SENT_PER_TURN, send, drop)
    }
}

/// A frame that cannot be queued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// There is no room for it.
    #[error(transparent)]
    Full(#[from] Full),
    /// The peer does not read, and holds descriptors in that way.
    #[error("{0} descriptors wait to be read")]
    UnreadDescriptors(usize),
    /// The bytes are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
}
