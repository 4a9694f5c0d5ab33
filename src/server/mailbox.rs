//! How other threads reach the control thread: a command in a channel, and a poke.
use std::fmt;
use std::sync::{Arc, mpsc};

use super::core::Core;
use super::host::Completion;
use crate::data::Status;

/// What the control thread is to do.
pub(super) type Command = Box<dyn FnOnce(&mut Core) + Send>;

/// The sending end: cheap to clone, usable from any thread, the control thread included.
#[derive(Clone)]
pub(super) struct Mailbox {
    commands: mpsc::Sender<Command>,
    waker: Arc<mio::Waker>,
}

impl Mailbox {
    pub(super) fn new(waker: mio::Waker) -> (Mailbox, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel();
        (Mailbox { commands, waker: Arc::new(waker) }, receiver)
    }

    /// Lets the control thread run `command` when it gets to it.
    pub(super) fn post(&self, command: impl FnOnce(&mut Core) + Send + 'static) -> Result<(), Status> {
        self.commands.send(Box::new(command)).map_err(|_| Status::ERR_INIT)?;
        // An eventfd that cannot be written is full: the thread is awake already.
        let _ = self.waker.wake();
        Ok(())
    }

    /// A completion for the host that brings its answer back to the control thread.
    pub(super) fn completion<T: Send + 'static>(
        &self,
        then: impl FnOnce(&mut Core, Result<T, Status>) + Send + 'static,
    ) -> Completion<T> {
        let mailbox = self.clone();
        Completion::new(move |result| {
            // A server that has ended has nobody waiting.
            let _ = mailbox.post(move |core| then(core, result));
        })
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}
