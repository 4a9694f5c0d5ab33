//! Requests on their way: bytes that the socket has not taken, and those who wait for an answer.
//!
//! Nobody blocks in a send: a server that does not read would keep the caller longer than its time limit, and with it
//! everybody who wants to send after it. Bytes that the socket does not take stay here, in their order, and go out when
//! it takes more.
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use crate::control::frame;
use crate::message::numbers::NumberMap;
use crate::sys::socket;
use crate::trace;

use super::Error;
use super::answer::{Answer, Waiter};

#[derive(Default)]
pub(super) struct Outbox {
    /// Number of the latest request.
    pub(super) last: u64,
    unsent: Unsent,
    /// Requests that wait for an answer: one, the only one of most callers, beside the table of all others.
    one: Option<(u64, Waiter)>,
    waiting: NumberMap<u64, Waiter>,
    /// Look-ups that somebody blocks for.
    pub(super) lookups: NumberMap<u64, Waiter>,
    pub(super) meeting: Meeting,
    /// The control thread is in an event handler of the program.
    pub(super) in_handler: bool,
    /// The number of those that it has been in.
    pub(super) handlers: u64,
    pub(super) lost: bool,
}

/// A request to meet all, whose answer may come in another way. It takes no memory, and there is one at a time.
#[derive(Default)]
pub(super) enum Meeting {
    #[default]
    None,
    /// The number of the request.
    UnderWay(u64),
    Answered(Result<Box<Answer>, Error>),
    /// Its caller waits no more.
    GivenUp {
        /// The number of the request.
        number: u64,
        /// Count of releases that its caller saw when it began.
        seen: u32,
    },
    /// Answered when its caller had given up.
    Over,
}

impl Meeting {
    /// Returns whether a reply of that number is the answer to it.
    pub(super) fn is_of(&self, number: u64) -> bool {
        matches!(self, Self::UnderWay(own) | Self::GivenUp { number: own, .. } if *own == number)
    }
}

impl Outbox {
    /// Returns whether somebody blocks for an answer that another thread than the control thread could hand over.
    pub(super) fn blocks_somebody(&self) -> bool {
        !self.lookups.is_empty() || matches!(self.meeting, Meeting::UnderWay(_))
    }

    /// Puts a frame on its way, with the next number if it is answered.
    #[inline]
    pub(super) fn post(
        &mut self,
        call: &'static str,
        socket: &UnixStream,
        frame: &mut [u8],
        answered: bool,
    ) -> Result<(), Error> {
        if self.lost {
            return Err(Error::LostConnection);
        }
        self.last += u64::from(answered);
        frame::renumber(frame, if answered { self.last } else { 0 });
        let (sent, result) = if self.unsent.is_empty() { send(socket, frame) } else { (0, Ok(())) };
        if let Err(error) = result {
            trace!("{call} cannot be sent: {error}");
            if sent > 0 {
                // The server would take the next request for the rest of this one.
                self.lose(socket);
            }
            return Err(Error::LostConnection);
        }
        if sent < frame.len() {
            self.unsent.add(&frame[sent..]);
        }
        Ok(())
    }

    /// Sends what the socket takes now of what it has not taken.
    pub(super) fn flush(&mut self, socket: &UnixStream) {
        if self.unsent.is_empty() {
            return;
        }
        let (sent, result) = send(socket, self.unsent.rest());
        self.unsent.forget(sent);
        if let Err(error) = result {
            trace!("requests cannot be sent: {error}");
            self.lose(socket);
        }
    }

    /// Returns whether bytes wait for the socket.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns the bytes that have waited for the socket so far, and how many of them have gone out.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.unsent.added, self.unsent.gone)
    }

    /// Gives the connection up; the thread that receives learns of it by the end of the stream.
    fn lose(&mut self, socket: &UnixStream) {
        self.lost = true;
        self.unsent = Unsent::default();
        let _ = socket.shutdown(Shutdown::Both);
    }

    pub(super) fn await_answer(&mut self, number: u64, waiter: Option<Waiter>) {
        let Some(waiter) = waiter else { return };
        match self.one {
            None => self.one = Some((number, waiter)),
            Some(_) => _ = self.waiting.insert(number, waiter),
        }
    }

    /// Returns the one who waits for the answer to a request; nobody any more.
    pub(super) fn take(&mut self, number: u64) -> Option<Waiter> {
        match self.one.take_if(|(one, _)| *one == number) {
            Some((_, waiter)) => Some(waiter),
            None => self.waiting.remove(&number).or_else(|| self.lookups.remove(&number)),
        }
    }

    pub(super) fn take_all(&mut self) -> Vec<Waiter> {
        let one = self.one.take().map(|(_, waiter)| waiter);
        let tables = [&mut self.waiting, &mut self.lookups].map(std::mem::take);
        one.into_iter().chain(tables.into_iter().flat_map(NumberMap::into_values)).collect()
    }
}

/// Sends as much as the socket takes, and returns how much that was.
#[inline]
fn send(socket: &UnixStream, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket::send(socket, &bytes[sent..], &[]) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return (sent, Err(error)),
        }
    }
    (sent, Ok(()))
}

/// Bytes that wait for the socket to take them.
#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    /// The number of those that it has taken since.
    taken: usize,
    /// Bytes that have ever waited.
    added: u64,
    /// Number of them that wait no more.
    gone: u64,
}

impl Unsent {
    #[inline]
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    #[cold]
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.added += bytes.len() as u64;
    }

    fn forget(&mut self, sent: usize) {
        self.taken += sent;
        self.gone += sent as u64;
        if self.taken == self.bytes.len() {
            (self.bytes, self.taken) = (Vec::new(), 0);
        } else if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }
}
