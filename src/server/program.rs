//! The program that embeds the server, as one more that asks: see [`Client::within`](crate::client::Client::within).
//!
//! It has no connection and no registration. It is known as the server itself; its requests come through the mailbox, and what it is told
//! goes straight to its client. It asks what clients ask, but takes part in nothing as a rank would.
use std::thread::ThreadId;

use super::admission::Peer;
use super::core::Core;
use super::mailbox::Mailbox;
use crate::data::{Proc, Status};
use crate::message::door::{Outgoing, PeerId};
use crate::message::{Request, ServerWithin, Told};
use crate::trace;

/// What stands for its connection; there is no such door.
pub(super) const PROGRAM: PeerId = PeerId { door: u8::MAX, connection: 0 };

/// What takes in what the program is told.
type Ear = Box<dyn Fn(Told) + Send>;

/// The program's way to its server.
#[derive(Clone)]
pub(crate) struct ProgramDoor {
    pub(super) mailbox: Mailbox,
    pub(super) thread: Option<ThreadId>,
    pub(super) proc: Proc,
}

impl ProgramDoor {
    /// From now on `ear` is told.
    pub(crate) fn open(&self, ear: Ear) {
        let proc = self.proc.clone();
        // A server that has ended has nothing to tell.
        let _ = self.mailbox.post(move |core| {
            // Another one before it is gone: there is one program.
            core.registrations_end(PROGRAM);
            core.peers.insert(PROGRAM, Peer::program(proc));
            core.program = Some(ear);
        });
    }
}

impl ServerWithin for ProgramDoor {
    fn ask(&self, number: u64, request: Request) -> Result<(), Status> {
        self.mailbox.post(move |core| core.dispatch(PROGRAM, number, request, 0))
    }

    fn is_own_thread(&self) -> bool {
        self.thread == Some(std::thread::current().id())
    }
}

impl Core {
    /// What would go through a door goes to the program.
    pub(super) fn tell_program(&self, message: Outgoing) {
        let told = match message {
            Outgoing::Reply { number, reply, .. } => Told::Reply(number, reply),
            Outgoing::Push(push) => Told::Push(push),
            // It has ended the server itself.
            Outgoing::End => return,
            other => return trace!("the server's own program is told {other:?}"),
        };
        if let Some(ear) = &self.program {
            ear(told);
        }
    }
}
