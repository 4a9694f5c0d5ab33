//! Calls on the handle: how they are prepared, sent, and waited for.
use std::thread::{self, ThreadId};

use super::Server;
use super::mailbox::Mailbox;
use super::router::Router;
use crate::data::Status;
use crate::pending::{Call, Callback, Pending};

/// A call that `start` sends through the mailbox.
struct Prepared<F> {
    mailbox: Mailbox<Router>,
    /// Control thread; none where the server has ended.
    thread: Option<ThreadId>,
    start: F,
}

impl<T, F> Call<T, Status> for Prepared<F>
where
    F: FnOnce(&Mailbox<Router>, Callback<T, Status>) -> Result<(), Status> + Send,
{
    fn block(&mut self) -> Result<Option<T>, Status> {
        match self.thread == Some(thread::current().id()) {
            true => Err(Status::ERR_WOULD_BLOCK),
            false => Ok(None),
        }
    }

    fn send(self: Box<Self>, callback: Callback<T, Status>) -> Result<(), Status> {
        let Prepared { mailbox, start, .. } = *self;
        start(&mailbox, callback)
    }
}

impl Server {
    /// Prepares a call that `start` sends.
    pub(super) fn prepare<T: Send + 'static>(
        &self,
        start: impl FnOnce(&Mailbox<Router>, Callback<T, Status>) -> Result<(), Status> + Send + 'static,
    ) -> Pending<T, Status> {
        let thread = self.thread.as_ref().map(|thread| thread.thread().id());
        Pending::new(Prepared { mailbox: self.mailbox.clone(), thread, start }, Status::ERR_INIT)
    }

    /// Prepares a call that is a command for the control thread, which passes the result to the callback.
    pub(super) fn post<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Router, Callback<T, Status>) + Send + 'static,
    ) -> Pending<T, Status> {
        self.prepare(move |mailbox, callback| mailbox.post(move |router| command(router, callback)))
    }

    /// Prepares a call that is a command for the control thread, which returns the result.
    pub(super) fn command<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Router) -> Result<T, Status> + Send + 'static,
    ) -> Pending<T, Status> {
        self.post(move |router, callback| {
            let result = command(router);
            router.cx.finish(callback, result);
        })
    }
}
