//! Mailbox of the control thread, by which other threads reach it: a queue of commands, and a waker.
//!
//! A command is a closure over the state `T` that the receiving thread owns.
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::data::Status;

/// Command for the control thread.
pub(super) type Command<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Commands that wait; none where nobody takes them any more.
struct Queue<T>(Arc<Mutex<Option<VecDeque<Command<T>>>>>);

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<Command<T>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue(self.0.clone())
    }
}

/// Receiving end. Without it, commands are refused, and those that wait are dropped.
pub(super) struct Commands<T>(Queue<T>);

impl<T> Commands<T> {
    /// Takes the next command that is there.
    pub fn take(&self) -> Option<Command<T>> {
        self.0.lock().as_mut()?.pop_front()
    }
}

impl<T> Drop for Commands<T> {
    fn drop(&mut self) {
        // A command may post once more when it is dropped: not under the lock.
        let rest = self.0.lock().take();
        drop(rest);
    }
}

/// Sending end: cheap to clone, usable from any thread, the control thread included.
pub(super) struct Mailbox<T> {
    commands: Queue<T>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl<T> Mailbox<T> {
    /// Creates both ends; `wake` wakes the control thread, from any other.
    pub(super) fn new(wake: impl Fn() + Send + Sync + 'static) -> (Mailbox<T>, Commands<T>) {
        let commands = Queue(Arc::new(Mutex::new(Some(VecDeque::new()))));
        (Mailbox { commands: commands.clone(), wake: Arc::new(wake) }, Commands(commands))
    }

    /// Lets the control thread run `command` when it gets to it.
    ///
    /// # Errors
    /// `ERR_INIT` when the server has ended.
    pub(super) fn post(&self, command: impl FnOnce(&mut T) + Send + 'static) -> Result<(), Status> {
        let command: Command<T> = Box::new(command);
        self.commands.lock().as_mut().ok_or(Status::ERR_INIT)?.push_back(command);
        (self.wake)();
        Ok(())
    }
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox { commands: self.commands.clone(), wake: self.wake.clone() }
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}
