//! The program that embeds the server as one more peer: see [`Client::in_process`](crate::client::Client::in_process).
//!
//! It has no connection and no registration, and the name of the server itself. Its requests come through the mailbox, and what it is
//! sent goes straight to its client. It makes the requests of a client, but takes part in no collective as a rank would.
use std::thread::ThreadId;

use super::ctx::peers::{PROGRAM, Peer, Role};
use super::mailbox::Mailbox;
use super::router::Router;
use crate::data::{Proc, Status};
use crate::message::door::Outgoing;
use crate::message::{Delivery, InProcessServer, Request};
use crate::trace;

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
        let _ = self.mailbox.post(move |router| {
            // Another one before it is gone: there is one program.
            router.peer_over(PROGRAM);
            router.cx.peers.insert(PROGRAM, Peer::new(proc, Role::Rank, None));
            router.program = Some(handler);
        });
    }
}

impl InProcessServer for ProgramDoor {
    fn ask(&self, number: u64, request: Request) -> Result<(), Status> {
        self.mailbox.post(move |router| router.dispatch(PROGRAM, number, request, 0))
    }

    fn is_own_thread(&self) -> bool {
        self.thread == Some(std::thread::current().id())
    }
}

impl Router {
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
