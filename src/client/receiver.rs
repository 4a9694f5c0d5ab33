//! The thread that receives in a process without shared memory.
//!
//! Such a process asks its server for every value. Its control thread may be in a callback for as long as the program
//! likes, and a look-up that another thread waits for must not wait for that. So one more thread reads: it gives answers
//! to look-ups that somebody blocks for to those, and everything else to the control thread, in its order. It calls
//! nobody else, and so cannot be held up by the program.
//!
//! What the control thread has not taken is [bounded](super::received): where that is much, the thread reads nothing
//! until there is room. When the server dies, or breaks the protocol, look-ups fail at once, and the control thread
//! finds the end behind what came before it. When the control thread ends, it shuts the socket down, and this one ends
//! with the stream.
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::control::frame::{self, Kind, MAX_BODY};

use super::answer::Answer;
use super::connection::Link;
use super::incoming::{End, Frame, Incoming};
use super::received::Received;

/// The thread, and what it hands to the control thread.
pub(super) struct Receiver {
    pub(super) received: Arc<Received>,
    pub(super) thread: JoinHandle<()>,
}

impl Receiver {
    /// Waits for the end of the thread, once the control thread takes nothing any more.
    pub(super) fn end(self) {
        self.received.close();
        // One that has panicked reads nothing any more, either.
        let _ = self.thread.join();
    }
}

/// Receives until nothing more comes.
pub(super) fn receive(link: &Link, incoming: &mut Incoming, received: &Received) {
    loop {
        let end = match incoming.wait(MAX_BODY, None) {
            Ok(frame) => match hand_out(link, frame, received) {
                Ok(()) => continue,
                Err(end) => end,
            },
            Err(end) => end,
        };
        received.end(end);
        link.lose_lookups();
        return link.wake();
    }
}

fn hand_out(link: &Link, frame: Frame, received: &Received) -> Result<(), End> {
    let is_reply = matches!(frame.header.kind, Kind::Reply);
    match is_reply.then(|| link.lookup(frame.header.number)).flatten() {
        Some(waiter) => {
            let reply = frame::decode(Kind::Reply, &frame.body);
            let answer = reply.map(|reply| Answer { reply, descriptors: frame.descriptors });
            // A reply that cannot be read is the end for everybody.
            let (answer, result) = match answer {
                Ok(answer) => (Ok(answer), Ok(())),
                Err(error) => (Err(super::Error::LostConnection), Err(error.into())),
            };
            waiter(answer);
            result
        }
        None => {
            received.add(frame);
            link.wake();
            Ok(())
        }
    }
}
