//! Way by which the embedding program reaches its server as a client does: through the mailbox.
use std::thread::ThreadId;

use super::ctx::peers::PROGRAM;
use super::mailbox::Mailbox;
use super::program::DeliveryHandler;
use super::router::Router;
use crate::data::Status;
use crate::message::{InProcessServer, Request};

/// The program's end of that way.
#[derive(Clone)]
pub(crate) struct ProgramDoor {
    pub(super) mailbox: Mailbox<Router>,
    /// Thread of the server; none where it has ended.
    pub(super) thread: Option<ThreadId>,
}

impl ProgramDoor {
    /// Sends the program's messages to `handler` from now on.
    pub(crate) fn open(&self, handler: DeliveryHandler) {
        // A server that has ended has nothing to tell.
        let _ = self.mailbox.post(move |router| {
            // Another one before it is gone: there is one program.
            router.peer_over(PROGRAM);
            router.program.open(&mut router.cx, handler);
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
