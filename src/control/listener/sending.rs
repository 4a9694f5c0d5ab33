//! Sending: frames on their way to peers.
//!
//! Little is sent at once, several frames for one peer together. Much is sent in turns of its connection, as time of the
//! process that it is sent for, and so not while that process is held. Bytes that a peer does not take wait until it
//! reads.
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use mio::Token;

use super::{Done, Encoded, Listener};
use crate::control::connection::{Bytes, PushError, Stage};
use crate::control::frame::{self, Kind};
use crate::data::Status;
use crate::data::archive::Wire;
use crate::message::door::{Callers, Left, Making};
use crate::message::{Push, Reply};
use crate::sys::later;
use crate::sys::stopwatch::Stopwatch;
use crate::transport::output::{Flush, Full, Kept, watch_for_room};

/// News that there is no room for an answer.
const REFUSAL: Reply = Reply::Done(Status::ERR_OUT_OF_RESOURCE);

impl Listener {
    /// Queues a frame.
    pub(super) fn push<T: Wire>(
        &mut self,
        id: u64,
        kind: Kind,
        number: u64,
        descriptors: Vec<OwnedFd>,
        body: &T,
        callers: &mut dyn Callers,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let pushed = match connection.push(kind, number, descriptors, body) {
            // An answer that its process has no room for becomes the news of that.
            Err(PushError::Full(Full::OverLimit(_))) if kind == Kind::Reply => {
                connection.push(kind, number, Vec::new(), &REFUSAL)
            }
            other => other,
        };
        if let Err(e) = pushed {
            self.cut(id, &e.into(), callers);
        }
    }

    /// Queues a push, which is encoded for the first peer that is sent it.
    pub(super) fn push_shared(&mut self, id: u64, push: &Arc<Push>, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        // A push that a weak reference is left of keeps its place: no other one has it.
        let known = self.shared.as_ref().filter(|(of, _)| of.as_ptr() == Arc::as_ptr(push));
        let frame = match known {
            Some((_, frame)) => Ok(frame.clone()),
            None => frame::encode::<Push>(Kind::Push, 0, 0, push).map(Arc::new),
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(e) => return self.cut(id, &e.into(), callers),
        };
        self.shared = Some((Arc::downgrade(push), frame.clone()));
        let cause = match &**push {
            Push::Event { source, .. } => self.turns.shares.owner(source),
            _ => None,
        };
        if let Err(e) = connection.push_shared(frame, cause) {
            self.cut(id, &e.into(), callers);
        }
    }

    /// Has a long answer made when the peer has taken most of what was sent before. Where there is no thread for that, it
    /// is made here.
    pub(super) fn make(&mut self, id: u64, number: u64, answer: Making, callers: &mut dyn Callers) {
        if !self.worker.is_there(&self.registry) {
            return self.push::<Reply>(id, Kind::Reply, number, Vec::new(), &answer.make(), callers);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.keep_long(&answer) {
            Ok(Some(kept)) => self.begin_to_make(id, number, answer, kept),
            Ok(None) => connection.make_later(number, answer),
            Err(PushError::Full(Full::OverLimit(_))) => self.refuse_answer(id, number, callers),
            Err(e) => self.cut(id, &e.into(), callers),
        }
    }

    /// Has the long answers made that have waited, as far as the peer has taken what came before.
    fn make_next(&mut self, id: u64, callers: &mut dyn Callers) {
        while let Some(connection) = self.connections.get_mut(&id)
            && let Some((number, answer, kept)) = connection.next_to_make()
        {
            let refused = match kept {
                Ok(kept) => {
                    self.begin_to_make(id, number, answer, kept);
                    continue;
                }
                Err(PushError::Full(Full::OverLimit(_))) => connection.push(Kind::Reply, number, Vec::new(), &REFUSAL),
                Err(e) => Err(e),
            };
            match refused {
                // It goes in a turn of its own: many may be refused one after another.
                Ok(()) => self.turns.send_later(id, &mut connection.place),
                Err(e) => self.cut(id, &e.into(), callers),
            }
        }
    }

    /// Has a thread make a long answer and encode it, which has its place among the others.
    fn begin_to_make(&mut self, id: u64, number: u64, answer: Making, kept: Kept) {
        self.worker.run(move || {
            let begin = Stopwatch::begin();
            // The connection may be gone.
            let len = kept.is_there().then_some(answer.bytes)?;
            let frame = frame::encode_long::<Reply>(Kind::Reply, number, &answer.make(), len);
            Some(Done::Encoded(Encoded { connection: id, number, kept, frame, took: begin.elapsed() }))
        });
    }

    /// Queues an answer that was made.
    pub(super) fn encoded(&mut self, answer: Encoded, callers: &mut dyn Callers) {
        let Encoded { connection: id, number, kept, frame, took } = answer;
        let Some(connection) = self.connections.get_mut(&id) else {
            let bytes = frame.as_ref().map_or(0, |frame| frame.len());
            return later::drop_sized(bytes, frame);
        };
        self.turns.shares.spend(connection.place.owner, took);
        let filled = match frame {
            Ok(frame) => connection.fill_kept(&kept, Bytes::Long(frame)),
            Err(e) => Err(e.into()),
        };
        let filled = match filled {
            Err(PushError::Full(Full::OverLimit(_))) => {
                let frame = frame::encode(Kind::Reply, number, 0, &REFUSAL).map_err(PushError::from);
                frame.and_then(|frame| connection.fill_kept(&kept, Bytes::Own(frame)))
            }
            filled => filled,
        };
        match filled {
            Ok(()) => self.send_soon(id, callers),
            Err(e) => self.cut(id, &e.into(), callers),
        }
    }

    /// An answer that its process has no room for becomes the news of that.
    fn refuse_answer(&mut self, id: u64, number: u64, callers: &mut dyn Callers) {
        self.push::<Reply>(id, Kind::Reply, number, Vec::new(), &REFUSAL, callers);
    }

    /// Sends little at once, and much in turns.
    pub(super) fn send_soon(&mut self, id: u64, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (queued, waits) = (connection.queued(), connection.wants_write);
        if queued == 0 && connection.stage != Stage::Refused {
            return;
        }
        if self.turns.sends_at_once(id, queued, waits, &mut connection.place) {
            self.write(id, callers);
        }
    }

    /// Sends what there is a turn for, as time of the process that it is sent for.
    pub(super) fn send_some(&mut self, id: u64, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (cause, begin) = (connection.cause(), Stopwatch::begin());
        self.write(id, callers);
        self.turns.shares.spend(cause, begin.elapsed());
    }

    /// Sends what the peer takes, and asks to be told when it takes more.
    pub(super) fn write(&mut self, id: u64, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let flushed = match connection.flush() {
            Ok(flushed) => flushed,
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return self.close(id, Left::Closed, callers);
            }
            Err(e) => return self.cut(id, &e.into(), callers),
        };
        self.turns.has_sent(id, flushed, &mut connection.place);
        if flushed == Flush::Empty && connection.stage == Stage::Refused {
            return self.close(id, Left::Closed, callers);
        }
        let at = (&mut connection.stream, Token(self.tokens + id as usize));
        if let Err(e) = watch_for_room(flushed, &mut connection.wants_write, &self.registry, at) {
            return self.cut(id, &e.into(), callers);
        }
        self.make_next(id, callers);
    }
}
