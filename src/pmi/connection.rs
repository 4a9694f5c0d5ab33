//! One connection of the PMI door: bytes in, messages out.
use std::io::{self, Write};

use mio::net::UnixStream;

use super::conversation::Conversation;
use super::version::Version;
use super::words::{BadWords, LENGTH, LONGEST, length};
use crate::account::Account;
use crate::data::Proc;
use crate::sys::{queue, socket, strays};
use crate::transport::input::{CHUNK, Fill, Input, Taken};
use crate::transport::output::{Flush, Full, Output, SENT_PER_TURN};
use crate::transport::turns::Place;

/// Longest line of a connection that is not let in: nobody knows yet whom more could be charged to.
pub const FIRST: usize = 4 << 10;

/// A process, and the token that it would show at the native door.
pub type Seat = (Proc, [u8; 32]);

/// Stage of a connection.
pub enum Stage {
    /// Nobody has said whose seat it is.
    Unknown,
    /// The connection is that of a process, which has not spoken.
    Seated,
    /// The process has spoken, in that version, and the server has not answered. Nothing is read from it meanwhile.
    Asking(Version),
    /// The process is in.
    In(Box<Conversation>),
}

/// Breach for which a connection is ended from this side.
#[derive(Debug, thiserror::Error)]
pub enum Breach {
    #[error("its first line names no seat of a process here")]
    NoSeat,
    #[error("its process has {0} connections that have not spoken")]
    Silent(usize),
    #[error("another user's")]
    Foreign,
    #[error("{0}")]
    Message(String),
    #[error("a line of more than {0} bytes")]
    Long(usize),
    #[error(transparent)]
    Words(#[from] BadWords),
    #[error(transparent)]
    Full(#[from] Full),
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("nobody has said in time whose seat it is")]
    Late,
    #[error("it made room for others, with no seat named")]
    Crowded,
}

/// A connection's state.
pub struct Connection {
    pub stream: UnixStream,
    pub stage: Stage,
    /// Its process and that one's token, once it is seated.
    pub seat: Option<Seat>,
    /// Its place among those that have turns.
    pub place: Place,
    /// True while a long request of it is worked at.
    pub is_busy: bool,
    /// True if its other end is closed: nothing comes after what is here.
    pub has_ended: bool,
    /// Bytes that are still to be read of a process that has ended, though another may hold its end open.
    rest: Option<usize>,
    /// True if nobody reads at the other end.
    is_deaf: bool,
    /// True if its poll registration asks for writability.
    pub wants_write: bool,
    pub input: Input,
    pub account: Account,
    /// Bytes of a request of many lines that have come.
    pub unasked: usize,
    output: Output<Vec<u8>, ()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        strays::close(&self.stream);
    }
}

impl Connection {
    pub fn new(stream: UnixStream) -> Self {
        Connection {
            stream,
            stage: Stage::Unknown,
            seat: None,
            place: Place::default(),
            is_busy: false,
            has_ended: false,
            rest: None,
            is_deaf: false,
            wants_write: false,
            input: Input::default(),
            account: Account::unlimited(),
            unasked: 0,
            output: Output::new(),
        }
    }

    /// Reads what has come, a message's worth at most; see [`Input::fill`].
    pub fn fill(&mut self, scratch: &mut [u8; CHUNK], to_end: bool) -> io::Result<Fill> {
        let (stream, rest) = (&self.stream, &mut self.rest);
        let filled = self.input.fill(scratch, LONGEST, to_end, |into| {
            let read = socket::read(stream, into)?;
            *rest = rest.map(|rest| rest.saturating_sub(read));
            Ok(read)
        });
        self.has_ended |= self.rest == Some(0);
        filled
    }

    /// Its process has ended: what has come is all that does.
    pub fn hear_out(&mut self) {
        let rest = *self.rest.get_or_insert_with(|| queue::readable(&self.stream).unwrap_or(0));
        self.has_ended |= rest == 0;
    }

    /// Returns whether something has come that was not handed on.
    pub fn has_more(&self) -> bool {
        !self.input.waiting().is_empty() || queue::readable(&self.stream).is_ok_and(|bytes| bytes > 0)
    }

    /// Nobody reads at the other end any more. Bytes that were written there before are still heard.
    pub fn deafen(&mut self) {
        self.is_deaf = true;
        self.output = Output::new();
    }

    /// Queues a message.
    pub fn push(&mut self, bytes: Vec<u8>) -> Result<(), Breach> {
        if self.is_deaf {
            return Ok(());
        }
        self.output.check()?;
        Ok(self.output.push(bytes, (), Some(&self.account))?)
    }

    /// Number of bytes that are queued.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Sends what the peer takes, a turn's worth at most.
    pub fn flush(&mut self) -> io::Result<Flush> {
        self.output.flush(SENT_PER_TURN, |pieces, _| self.stream.write_vectored(pieces), |()| ())
    }
}

/// Takes the next line, without its end, if one has come: of at most so many bytes, its end included.
pub fn next_line<'a>(input: &'a mut Input, account: &Account, most: usize) -> Result<Option<&'a [u8]>, Breach> {
    let waiting = input.waiting();
    let end = match waiting.iter().position(|byte| *byte == b'\n') {
        Some(end) if end < most => end,
        None if waiting.len() < most => return Ok(None),
        _ => return Err(Breach::Long(most)),
    };
    match input.take(account, 0, end + 1) {
        Taken::Whole(line) => Ok(Some(&line[..end])),
        Taken::Part | Taken::Refused => Ok(None),
    }
}

/// Takes the body of the next frame, if one has come.
pub fn next_frame<'a>(input: &'a mut Input, account: &Account) -> Result<Option<&'a [u8]>, Breach> {
    let Some(head) = input.waiting().first_chunk::<LENGTH>() else { return Ok(None) };
    let len = length(head)?;
    match input.take(account, LENGTH, len) {
        Taken::Whole(body) => Ok(Some(body)),
        Taken::Part | Taken::Refused => Ok(None),
    }
}
