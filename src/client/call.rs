//! Calls of a client: how they are prepared, sent, and waited for.
use std::sync::Arc;
use std::time::Duration;

use crate::data::{Info, InfoList, Status};
use crate::message::{Infos, Reply, Request};
use crate::pending::{self, Call, Callback, Pending};
use crate::trace;

use super::answer::Answer;
use super::clock::{end_of, given_up};
use super::{Client, Error, Inner};

/// A call that `start` sends.
struct Prepared<F> {
    inner: Arc<Inner>,
    name: &'static str,
    limit: Option<Duration>,
    start: F,
}

/// Returns the time limit that a caller gives.
pub(super) fn limit_in(info: &[Info]) -> Option<Duration> {
    info.time_limit().flatten()
}

impl<T: 'static, F> Call<T, Error> for Prepared<F>
where
    F: FnOnce(&Arc<Inner>, Callback<T, Error>) -> Result<(), Error> + Send,
{
    fn block(&mut self) -> Result<Option<T>, Error> {
        self.inner.may_wait(self.name).map(|()| None)
    }

    fn send(self: Box<Self>, callback: Callback<T, Error>) -> Result<(), Error> {
        let Prepared { inner, limit, start, .. } = *self;
        inner.life.check()?;
        let callback = inner.link.bound(end_of(limit), given_up, callback);
        start(&inner, callback)
    }
}

/// A request that is prepared.
struct Asked<T> {
    inner: Arc<Inner>,
    name: &'static str,
    request: Result<Request, Status>,
    take: fn(Reply) -> Option<T>,
}

impl<T: Send + 'static> Call<T, Error> for Asked<T> {
    fn block(&mut self) -> Result<Option<T>, Error> {
        let Asked { inner, name, request, take } = self;
        inner.may_wait(name)?;
        let request = request.as_ref().map_err(|status| *status)?;
        taken(inner.ask_blocking(name, request), *take).map(Some)
    }

    fn send(self: Box<Self>, callback: Callback<T, Error>) -> Result<(), Error> {
        let Asked { inner, name, request, take } = *self;
        inner.life.check()?;
        let request = request?;
        let callback = inner.link.bound(end_of(limit_in(request.attributes())), given_up, callback);
        inner.ask_for(name, &request, take, callback)
    }
}

impl Client {
    /// Prepares a call, which is given up some time after its limit; `name` stands in the trace where it must not wait.
    pub(super) fn prepare<T: Send + 'static>(
        &self,
        name: &'static str,
        limit: Option<Duration>,
        start: impl FnOnce(&Arc<Inner>, Callback<T, Error>) -> Result<(), Error> + Send + 'static,
    ) -> Pending<T, Error> {
        self.pending(Prepared { inner: self.inner.clone(), name, limit, start })
    }

    /// Prepares a request to the server, whose reply `take` reads. Its attributes have its time limit.
    pub(super) fn prepare_request<T: Send + 'static>(
        &self,
        name: &'static str,
        request: Result<Request, Status>,
        take: fn(Reply) -> Option<T>,
    ) -> Pending<T, Error> {
        self.pending(Asked { inner: self.inner.clone(), name, request, take })
    }

    /// Wraps a prepared call. One that is dropped unanswered belongs to a client that has been ended meanwhile.
    pub(super) fn pending<T: Send + 'static>(&self, call: impl Call<T, Error> + 'static) -> Pending<T, Error> {
        Pending::new(call, Error::NotInitialized)
    }

    /// Refuses a call that waits on a thread where it would wait for ever.
    pub(crate) fn may_wait(&self, call: &'static str) -> Result<(), Error> {
        self.inner.may_wait(call)
    }
}

/// Calls `start` and blocks until the callback that it is given is called. `name` stands in the trace where that must
/// not be.
///
/// # Errors
/// The call's, or [`Error::WouldBlock`] on a thread that must not wait.
pub fn wait<T: Send + 'static>(
    client: &Client,
    name: &'static str,
    start: impl FnOnce(Callback<T, Error>) -> Result<(), Error>,
) -> Result<T, Error> {
    client.inner.may_wait(name)?;
    pending::block(Error::NotInitialized, start)
}

impl Inner {
    /// Refuses a call that waits on a thread where it would wait for ever.
    pub(super) fn may_wait(&self, call: &'static str) -> Result<(), Error> {
        self.life.check()?;
        if self.link.may_not_wait() {
            trace!("{call} would have to wait and was called from a callback, whose thread would have to end the wait");
            return Err(Error::WouldBlock { call });
        }
        Ok(())
    }

    /// Sends a request to the server, and blocks until it is answered or its time is over.
    fn ask_blocking(self: &Arc<Self>, call: &'static str, request: &Request) -> Result<Answer, Error> {
        self.block(|callback| {
            let callback = self.link.bound(end_of(limit_in(request.attributes())), given_up, callback);
            self.look_up(call, request, callback);
            Ok(())
        })
    }

    /// Sends a request to the server, whose reply `take` reads.
    pub(super) fn ask_for<T: 'static>(
        &self,
        call: &'static str,
        request: &Request,
        take: fn(Reply) -> Option<T>,
        then: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        self.link.request(call, request, Box::new(move |answer| then(taken(answer, take))))
    }
}

/// Returns what `take` reads from an answer.
pub(super) fn taken<T>(answer: Result<Answer, Error>, take: fn(Reply) -> Option<T>) -> Result<T, Error> {
    match answer?.reply {
        Reply::Done(status) if status != Status::SUCCESS => Err(status.into()),
        reply => take(reply).ok_or(Status::ERR_COMM_FAILURE.into()),
    }
}

/// Reads a reply that brings nothing.
pub(super) fn nothing(reply: Reply) -> Option<()> {
    matches!(reply, Reply::Done(_)).then_some(())
}

/// Reads a reply that brings attributes.
pub(super) fn infos(reply: Reply) -> Option<Infos> {
    match reply {
        Reply::Infos(status, infos) => Some((status, infos)),
        Reply::Done(status) => Some((status, Vec::new())),
        _ => None,
    }
}
