//! Sending: messages on their way to stock peers, at once or in turns as at the native door.
use std::io;

use mio::Token;

use super::StockListener;
use crate::message::door::{Callers, Left};
use crate::stock::connection::{Breach, Stage, With};
use crate::stock::conversation::Step;
use crate::stock::frame::FIRST_DYNAMIC;
use crate::sys::stopwatch::Stopwatch;
use crate::transport::output::{Full, watch_for_room};

impl StockListener {
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
