//! The program that embeds the server as one more peer: see [`Client::in_process`](crate::client::Client::in_process).
//!
//! It has no connection and no registration, and the name of the server itself. Its requests come through the mailbox, and what it is
//! sent goes straight to its client. It makes the requests of a client, but takes part in no collective as a rank would.
use std::thread::ThreadId;

use super::admission::Peer;
use super::core::Core;
use super::mailbox::Mailbox;
use crate::data::{Proc, Status};
use crate::message::door::{Outgoing, PeerId};
use crate::message::{Delivery, InProcessServer, Request};
use crate::trace;

/// The program's peer id; no door has this number.
pub(super) const PROGRAM: PeerId = PeerId { door: u8::MAX, connection: 0 };

/// Callback that takes in what the program is sent.
pub(super) type DeliveryHandler = Box<dyn Fn(Delivery) + Send>;

/// The program's way to its server.
#[derive(Clone)]
pub(crate) struct ProgramDoor {
    pub(super) mailbox: Mailbox,
    pub(super) thread: Option<ThreadId>,
    pub(super) proc: Proc,
}

impl ProgramDoor {
    /// Sends the program's messages to `handler` from now on.
    pub(crate) fn open(&self, handler: DeliveryHandler) {
        let proc = self.proc.clone();
        // A server that has ended has nothing to tell.
        let _ = self.mailbox.post(move |core| {
            // Another one before it is gone: there is one program.
            core.registrations_end(PROGRAM);
            core.peers.insert(PROGRAM, Peer::program(proc));
            core.program = Some(handler);
        });
    }
}

impl InProcessServer for ProgramDoor {
    fn ask(&self, number: u64, request: Request) -> Result<(), Status> {
        self.mailbox.post(move |core| core.dispatch(PROGRAM, number, request, 0))
    }

    fn is_own_thread(&self) -> bool {
        self.thread == Some(std::thread::current().id())
    }
}

impl Core {
    /// Sends the program what another peer would be sent through a door.
    pub(super) fn tell_program(&self, message: Outgoing) {
        let delivery = match message {
            Outgoing::Reply { number, reply, .. } => Delivery::Reply(number, reply),
            Outgoing::Push(push) => Delivery::Push(push),
            // It has ended the server itself.
            Outgoing::End => return,
            other => return trace!("the server's own program is told {other:?}"),
        };
        if let Some(handler) = &self.program {
            handler(delivery);
        }
    }
}
