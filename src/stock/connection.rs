//! One connection of the stock door: bytes in, messages out, and a queue for what the peer does not take yet.
use std::io::{self, IoSlice, Read, Write};
use std::ops::Deref;
use std::sync::Arc;

use mio::net::TcpStream;

use super::ack::{self, Ack};
use super::conversation::Conversation;
use super::frame::{HEADER, Header};
use super::job_info::Packed;
use crate::account::Account;
use crate::data::Status;
use crate::message::{LARGEST, Request};
use crate::sys::queue;
use crate::transport::input::{CHUNK, Fill, Input, Taken};
use crate::transport::output::{Companion, Flush, Full, Kept, Output, SENT_PER_TURN};
use crate::transport::shares::Owner;
use crate::transport::turns::Place;
use crate::transport::worker::SHORT;
use crate::wire::Form;

/// Stage of a connection.
pub enum Stage {
    /// The peer has not said yet who it is.
    Unknown,
    /// The peer has said it, and its credential is judged, which is given up with the connection. Nothing is read from
    /// it meanwhile.
    Judging { ack: Ack, _credential: Arc<Vec<u8>> },
    /// The server is asked whether it may come in, as this user. Nothing is read from it meanwhile.
    Asking(Ack, u32),
    /// The peer is in.
    In(Box<Conversation>),
    /// The peer was refused; it is waited for to close its end. The status, in that form, still answers its first
    /// request.
    Refused(Option<(Form, Status)>),
}

/// Breach for which a connection is ended from this side.
#[derive(Debug, thiserror::Error)]
pub enum Breach {
    #[error("its first message is none of this protocol")]
    NotStock,
    #[error(transparent)]
    Ack(#[from] ack::BadAck),
    #[error("a message of {0} bytes; at most {LARGEST} are allowed")]
    Length(usize),
    #[error("a message that cannot be read: {0}")]
    Message(#[from] crate::wire::WireError),
    #[error(transparent)]
    Full(#[from] Full),
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("it broke off within a message")]
    Truncated,
    #[error("it did not say in time who it is")]
    Late,
    #[error("it made room for others, not having said who it is")]
    Crowded,
}

/// Message that has come in.
pub enum Incoming<'a> {
    /// Body of the first message.
    Ack(&'a [u8]),
    /// A whole message.
    Message(Header, &'a [u8]),
    /// Header of a message that is larger than what the process's account has left. Its body is discarded.
    Refused(Header),
}

/// Bytes of a message.
pub enum Bytes {
    /// Of one connection.
    Own(Vec<u8>),
    /// Of an answer that several connections are sent.
    Shared(Arc<Packed>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(packed) => &packed.bytes,
        }
    }
}

/// Companions of a message.
#[derive(Default)]
pub struct With {
    /// Request to the server once the message is on its way.
    pub then: Option<Request>,
    /// Process that is sent for, where it is another one than that which it is sent to.
    pub cause: Option<Owner>,
}

impl Companion for With {}

/// A connection's state.
pub struct Connection {
    pub stream: TcpStream,
    pub stage: Stage,
    /// Its place among those that have turns.
    pub place: Place,
    /// True while a long request of it is worked at.
    pub is_busy: bool,
    /// True if its other end is closed, or its process has ended: nothing comes after what is here.
    pub has_ended: bool,
    /// True if its poll registration asks for writability.
    pub wants_write: bool,
    pub input: Input,
    pub account: Account,
    output: Output<Bytes, With>,
}

impl Connection {
    pub fn new(stream: TcpStream) -> Self {
        Connection {
            stream,
            stage: Stage::Unknown,
            place: Place::default(),
            is_busy: false,
            has_ended: false,
            wants_write: false,
            input: Input::default(),
            account: Account::unlimited(),
            output: Output::new(),
        }
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self.stage, Stage::Unknown)
    }

    /// Returns whether it waits for a word that says who it is, or whether it may come in.
    pub fn waits(&self) -> bool {
        matches!(self.stage, Stage::Judging { .. } | Stage::Asking(..))
    }

    /// Lets the peer in: what it makes the server hold is charged to this account.
    pub fn let_in(&mut self, conversation: Conversation, account: Account) {
        self.stage = Stage::In(Box::new(conversation));
        self.account = account;
    }

    /// Reads what has come, a turn's worth at most; see [`Input::fill`].
    pub fn fill(&mut self, scratch: &mut [u8; CHUNK], to_end: bool) -> io::Result<Fill> {
        // Nobody knows yet whom more than an acknowledgement could be charged to.
        let most = match self.stage {
            Stage::Unknown => HEADER + ack::MAX,
            Stage::Refused(_) => HEADER + SHORT,
            _ => usize::MAX,
        };
        self.input.fill(scratch, most, to_end, |into| self.stream.read(into))
    }

    /// Its process has ended: what has come is all that does. Returns whether some of that was not handed on.
    pub fn hear_out(&mut self) -> bool {
        let is_at_socket = self.input.ends_after(|| queue::readable(&self.stream).unwrap_or(0));
        self.has_ended |= !is_at_socket;
        is_at_socket || self.has_message()
    }

    /// Returns whether the next message has come in whole already.
    pub fn has_message(&self) -> bool {
        let waiting = self.input.waiting();
        let len = |first| if self.is_unknown() { ack::length(first) } else { Some(Header::parse(first).len) };
        waiting.first_chunk::<HEADER>().and_then(len).is_some_and(|len| waiting.len() - HEADER >= len)
    }

    /// Queues a message.
    pub fn push(&mut self, tag: u32, body: &[u8], with: With) -> Result<(), Breach> {
        self.output.check()?;
        Ok(self.output.push(Bytes::Own(message(tag, body)?), with, Some(&self.account))?)
    }

    /// Keeps the place of a message of about so many bytes, which is still to be made.
    pub fn keep(&mut self, bytes: usize) -> Result<Kept, Breach> {
        self.output.check()?;
        Ok(self.output.keep(bytes, With::default(), &self.account)?)
    }

    /// Fills a place with its message. Where its account has no room for that, the place is still kept.
    pub fn fill_kept(&mut self, kept: &Kept, message: Vec<u8>) -> Result<(), Breach> {
        Ok(self.output.fill(kept, Bytes::Own(message))?)
    }

    /// Queues a message with a body that is charged already.
    pub fn push_shared(&mut self, tag: u32, body: Arc<Packed>) -> Result<(), Breach> {
        self.output.check()?;
        let header = Header { tag, len: body.bytes.len() }.bytes().to_vec();
        self.output.push(Bytes::Own(header), With::default(), None)?;
        Ok(self.output.push(Bytes::Shared(body), With::default(), None)?)
    }

    /// Queues bytes as they are, as the handshake has them.
    pub fn push_raw(&mut self, bytes: &[u8]) -> Result<(), Breach> {
        Ok(self.output.push(Bytes::Own(bytes.to_vec()), With::default(), Some(&self.account))?)
    }

    /// Number of bytes that are queued.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Process that the oldest message on its way is sent for.
    pub fn cause(&self) -> Owner {
        self.output.first().and_then(|with| with.cause).unwrap_or(self.place.owner)
    }

    /// Sends what the peer takes, a turn's worth at most. Returns what is left, and what the server is to be asked now.
    pub fn flush(&mut self) -> io::Result<(Flush, Vec<Request>)> {
        let mut asked = Vec::new();
        let send = |pieces: &[IoSlice<'_>], _: Option<&mut With>| self.stream.write_vectored(pieces);
        let flushed = self.output.flush(SENT_PER_TURN, send, |with| asked.extend(with.then))?;
        Ok((flushed, asked))
    }
}

/// A whole message.
pub fn message(tag: u32, body: &[u8]) -> Result<Vec<u8>, Breach> {
    let mut bytes = Vec::new();
    if body.len() > LARGEST || bytes.try_reserve_exact(HEADER + body.len()).is_err() {
        return Err(Breach::Length(body.len()));
    }
    bytes.extend_from_slice(&Header { tag, len: body.len() }.bytes());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// Takes the next whole message of a peer, if one has come, of at most so many bytes. The first one is its
/// acknowledgement.
pub fn next<'a>(
    input: &'a mut Input,
    account: &Account,
    is_first: bool,
    most: usize,
) -> Result<Option<Incoming<'a>>, Breach> {
    let Some(first) = input.waiting().first_chunk::<HEADER>() else { return Ok(None) };
    let header = match is_first {
        true => Header { tag: u32::MAX, len: ack::length(first).ok_or(Breach::NotStock)? },
        false => Header::parse(first),
    };
    if header.len > most {
        return Err(Breach::Length(header.len));
    }
    Ok(match input.take(account, HEADER, header.len) {
        Taken::Part => None,
        Taken::Refused => Some(Incoming::Refused(header)),
        Taken::Whole(body) if is_first => Some(Incoming::Ack(body)),
        Taken::Whole(body) => Some(Incoming::Message(header, body)),
    })
}
