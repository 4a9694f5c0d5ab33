//! How other threads reach the control thread: a command in a queue, and a poke.
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::host::Completion;
use super::router::Router;
use crate::data::Status;

/// What the control thread is to do.
pub(super) type Command = Box<dyn FnOnce(&mut Router) + Send>;

/// The commands that wait; none where nobody takes them any more.
#[derive(Clone)]
struct Queue(Arc<Mutex<Option<VecDeque<Command>>>>);

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<Command>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiving end. Without it, commands are refused, and what they hold is dropped.
pub(super) struct Commands(Queue);

impl Commands {
    /// The next one that is there.
    pub fn take(&self) -> Option<Command> {
        self.0.lock().as_mut()?.pop_front()
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // What they hold may post once more when it is dropped: not under the lock.
        let rest = self.0.lock().take();
        drop(rest);
    }
}

/// The sending end: cheap to clone, usable from any thread, the control thread included.
#[derive(Clone)]
pub(super) struct Mailbox {
    commands: Queue,
    waker: Arc<mio::Waker>,
}

impl Mailbox {
    pub(super) fn new(waker: mio::Waker) -> (Mailbox, Commands) {
        let commands = Queue(Arc::new(Mutex::new(Some(VecDeque::new()))));
        (Mailbox { commands: commands.clone(), waker: Arc::new(waker) }, Commands(commands))
    }

    /// Lets the control thread run `command` when it gets to it.
    pub(super) fn post(&self, command: impl FnOnce(&mut Router) + Send + 'static) -> Result<(), Status> {
        let command: Command = Box::new(command);
        self.commands.lock().as_mut().ok_or(Status::ERR_INIT)?.push_back(command);
        // An eventfd that cannot be written is full: the thread is awake already.
        let _ = self.waker.wake();
        Ok(())
    }

    /// A completion for the host that brings its answer back to the control thread.
    pub(super) fn completion<T: Send + 'static>(
        &self,
        then: impl FnOnce(&mut Router, Result<T, Status>) + Send + 'static,
    ) -> Completion<T> {
        let mailbox = self.clone();
        Completion::new(move |result| {
            // A server that has ended has nobody waiting.
            let _ = mailbox.post(move |router| then(router, result));
        })
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}
