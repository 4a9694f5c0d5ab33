//! Sending: messages on their way to stock peers, at once or in turns as at the native door.
use std::io;
use std::sync::Arc;

use mio::Token;

use super::{Done, Made, StockListener};
use crate::message::Push;
use crate::message::door::{Callers, Left, Making};
use crate::stock::connection::{Breach, Stage, With, message};
use crate::stock::conversation::{Next, Step};
use crate::stock::frame::FIRST_DYNAMIC;
use crate::sys::later;
use crate::sys::stopwatch::Stopwatch;
use crate::transport::output::{Full, watch_for_room};
use crate::transport::shares::Owner;

impl StockListener {
    /// Sends what the server says unasked.
    pub(super) fn push_unasked(&mut self, id: u64, push: Push, callers: &mut dyn Callers) -> Result<(), Breach> {
        let Some(Stage::In(conversation)) = self.connections.get(&id).map(|connection| &connection.stage) else {
            return Ok(());
        };
        let cause = self.cause(&push);
        let (Step::Send(tag, body), then) = conversation.pushed(push)? else { return Ok(()) };
        let then = then.and_then(|step| if let Step::Ask(_, request) = step { Some(request) } else { None });
        self.push(id, tag, &body, With { then, cause }, callers)
    }

    /// Sends what several peers are told; it is packed once for those of one form.
    pub(super) fn push_to_many(&mut self, id: u64, push: &Arc<Push>, callers: &mut dyn Callers) -> Result<(), Breach> {
        let Some(Stage::In(conversation)) = self.connections.get(&id).map(|connection| &connection.stage) else {
            return Ok(());
        };
        let form = conversation.form();
        // A push that a weak reference is left of keeps its place: no other one has it.
        let known = self.shared.take().filter(|(of, in_form, ..)| of.as_ptr() == Arc::as_ptr(push) && *in_form == form);
        let (of, _, tag, body) = match known {
            Some(known) => known,
            None => match conversation.pushed(Push::clone(push))? {
                (Step::Send(tag, body), None) => (Arc::downgrade(push), form, tag, body),
                _ => return self.push_unasked(id, Push::clone(push), callers),
            },
        };
        let with = With { then: None, cause: self.cause(push) };
        let sent = self.push(id, tag, &body, with, callers);
        self.shared = Some((of, form, tag, body));
        sent
    }

    /// The owner of the process that has raised an event.
    fn cause(&self, push: &Push) -> Option<Owner> {
        match push {
            Push::Event { source, .. } => self.turns.shares.owner(source),
            _ => None,
        }
    }

    /// Queues a message, and sends it now or in turns.
    pub(super) fn push(
        &mut self,
        id: u64,
        tag: u32,
        body: &[u8],
        with: With,
        callers: &mut dyn Callers,
    ) -> Result<(), Breach> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        match connection.push(tag, body, with) {
            // An answer that its process has no room for becomes the news of that.
            Err(Breach::Full(Full::OverLimit(_))) if tag >= FIRST_DYNAMIC => {
                let Stage::In(conversation) = &connection.stage else { return Ok(()) };
                if let Step::Send(tag, body) = conversation.refused(tag)? {
                    connection.push(tag, &body, With::default())?;
                }
            }
            pushed => pushed?,
        }
        self.send_soon(id, callers);
        Ok(())
    }

    /// Has a thread make a long answer and pack it, which keeps its place among the others. Where there is none, that is
    /// done here.
    pub(super) fn make(
        &mut self,
        id: u64,
        number: u64,
        answer: Making,
        callers: &mut dyn Callers,
    ) -> Result<(), Breach> {
        let has_thread = self.worker.is_there(&self.registry);
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let Stage::In(conversation) = &mut connection.stage else { return Ok(()) };
        let packing = match conversation.replied_later(number, answer)? {
            Next::Pack(packing) => packing,
            Next::Step(None) => return Ok(()),
            Next::Step(Some(step)) => return self.step(id, step, 0, callers),
        };
        let tag = packing.tag();
        if !has_thread {
            return self.push(id, tag, &packing.pack()?, With::default(), callers);
        }
        match connection.keep(packing.bytes()) {
            Ok(kept) => {
                _ = self.worker.run(move || {
                    let begin = Stopwatch::begin();
                    // The connection may be gone.
                    let packing = kept.is_there().then_some(packing)?;
                    let message = packing.pack().map_err(Breach::from).and_then(|body| message(tag, &body));
                    Some(Done::Made(Made { connection: id, tag, kept, message, took: begin.elapsed() }))
                })
            }
            Err(Breach::Full(Full::OverLimit(_))) => {
                let refusal = self.refusal(id, tag)?;
                self.push(id, tag, &refusal, With::default(), callers)?;
            }
            Err(breach) => return Err(breach),
        }
        Ok(())
    }

    /// Queues an answer that was made.
    pub(super) fn made(&mut self, made: Made, callers: &mut dyn Callers) {
        let Made { connection: id, tag, kept, message: made, took } = made;
        let Some(connection) = self.connections.get_mut(&id) else {
            return later::drop_sized(made.as_ref().map_or(0, Vec::len), made);
        };
        self.turns.shares.spend(connection.place.owner, took);
        let filled = match made.and_then(|made| connection.fill_kept(&kept, made)) {
            Err(Breach::Full(Full::OverLimit(_))) => self.refusal(id, tag).and_then(|body| {
                let refusal = message(tag, &body)?;
                self.connections.get_mut(&id).map_or(Ok(()), |connection| connection.fill_kept(&kept, refusal))
            }),
            filled => filled,
        };
        match filled {
            Ok(()) => self.send_soon(id, callers),
            Err(breach) => self.cut(id, &breach, callers),
        }
    }

    /// Returns the body of the news that there is no room for an answer.
    fn refusal(&self, id: u64, tag: u32) -> Result<Vec<u8>, Breach> {
        let conversation = self.connections.get(&id).map(|connection| &connection.stage);
        Ok(match conversation {
            Some(Stage::In(conversation)) => match conversation.refused(tag)? {
                Step::Send(_, body) => body,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        })
    }

    /// Sends little at once, and much in turns.
    pub(super) fn send_soon(&mut self, id: u64, callers: &mut dyn Callers) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (queued, waits) = (connection.queued(), connection.wants_write);
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
        let (flushed, asked) = match connection.flush() {
            Ok(flushed) => flushed,
            Err(e) if matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                return self.close(id, Left::Closed, callers);
            }
            Err(e) => return self.cut(id, &e.into(), callers),
        };
        self.turns.has_sent(id, flushed, &mut connection.place);
        let at = (&mut connection.stream, Token(self.tokens + id as usize));
        if let Err(e) = watch_for_room(flushed, &mut connection.wants_write, &self.registry, at) {
            return self.cut(id, &e.into(), callers);
        }
        let peer = self.peer_id(id);
        asked.into_iter().for_each(|request| callers.asked(peer, 0, request, 0));
    }
}
