//! Events on their way: raised here or told by the server, then handed from handler to handler.
//!
//! Each event has a chain of its own: the handlers that want it, fixed when it arrives. One is called when the one
//! before it has completed, on the control thread, and sees what those before it answered. A handler that never
//! completes holds up its own event's chain and no other.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::data::{DataRange, Info, InfoList, Proc, Status, keys};
use crate::message::{Push, Request, is_a_servers};
use crate::pending::Callback;
use crate::trace;

use super::answer::Answer;
use super::call::limit_in;
use super::clock::{end_of, given_up};
use super::events::{Called, Event};
use super::names::Members;
use super::output::Output;
use super::{Error, Handler, Inner};

const REGISTER: &str = "PMIx_Register_event_handler";

/// Continuation of an event, which its handler must complete, now or later, from any thread: the next handler is not
/// called before. Dropping it says that nothing was done.
pub struct Chain(Option<Walk>);

struct Walk {
    inner: Arc<Inner>,
    event: Event,
    rest: VecDeque<Called>,
    results: Vec<Info>,
    /// The handler that is to complete.
    current: Called,
}

impl Chain {
    /// Hands on to the next handler, or ends the chain with `EVENT_ACTION_COMPLETE`. The handlers to come are
    /// given `status` and `results`.
    pub fn complete(mut self, status: Status, results: Vec<Info>) {
        self.end(status, results);
    }

    fn end(&mut self, status: Status, results: Vec<Info>) {
        let Some(Walk { inner, event, rest, results: mut before, current }) = self.0.take() else { return };
        let is_last = status == Status::EVENT_ACTION_COMPLETE;
        if inner.life.check().is_err() || is_last && event.vote.is_none() {
            return;
        }
        before.push(Info { key: current.result_key(), flags: 0, value: status.into() });
        before.extend(results);
        if is_last {
            return inner.group_decided(&event, &before);
        }
        let link = inner.clone();
        link.link.run_later(move || inner.walk(event, rest, before));
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.end(Status::EVENT_NO_ACTION_TAKEN, Vec::new());
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Chain").field(&self.0.as_ref().map(|walk| walk.event.status)).finish()
    }
}

impl Inner {
    pub(super) fn register(
        self: &Arc<Self>,
        codes: Vec<Status>,
        info: Vec<Info>,
        handler: Handler,
        then: Callback<usize, Error>,
    ) -> Result<(), Error> {
        let (inner, native) = (self.clone(), info.clone());
        self.with_members(REGISTER, native, move |native| inner.add_handler(codes, (info, &native), handler, then))
    }

    /// Adds a handler; its attributes come as they were given, and with the processes that they mean.
    fn add_handler(
        self: &Arc<Self>,
        codes: Vec<Status>,
        (info, native): (Vec<Info>, &[Info]),
        handler: Handler,
        then: Callback<usize, Error>,
    ) -> Result<(), Error> {
        let (id, news) = match self.own.handlers.add(&codes, native, handler) {
            Ok(added) => added,
            // In the Standard this call returns nothing: programs wait for the callback.
            Err(status) => {
                self.link.run_later(move || then(Err(status.into())));
                return Ok(());
            }
        };
        let inner = self.clone();
        let until = end_of(limit_in(&info));
        let request = news.map(|codes| Request::RegisterEvents { codes, info });
        request.iter().for_each(|request| self.tell_siblings(request));
        let Some(request) = request.filter(|_| self.link.can_ask()) else {
            self.link.run_later(move || inner.registered(id, then));
            return Ok(());
        };
        let late = self.clone();
        let late = move || {
            // The caller will never know its number.
            let _ = late.deregister(id, |_| ());
            given_up()
        };
        let then = self.link.bound(until, late, then);
        let waiter = move |answer: Result<Answer, Error>| match answer.and_then(Answer::done) {
            // A host that knows no events does not keep them from travelling on this node.
            Ok(()) | Err(Error::Status(Status::ERR_NOT_SUPPORTED)) => inner.registered(id, then),
            Err(error) => {
                let _ = inner.own.handlers.remove(id);
                then(Err(error));
            }
        };
        self.link.request(REGISTER, &request, Box::new(waiter)).inspect_err(|_| {
            let _ = self.own.handlers.remove(id);
        })
    }

    /// A handler is in place; on the control thread.
    fn registered(self: &Arc<Self>, id: usize, then: Callback<usize, Error>) {
        let missed = self.own.handlers.activate(id, &self.proc);
        then(Ok(id));
        missed.into_iter().for_each(|(event, called)| self.walk(event, [called].into(), Vec::new()));
    }

    pub(super) fn deregister(
        self: &Arc<Self>,
        id: usize,
        then: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        let removed = self.own.handlers.remove(id);
        let request =
            removed.as_ref().ok().and_then(|codes| codes.clone()).map(|codes| Request::DeregisterEvents { codes });
        request.iter().for_each(|request| self.tell_siblings(request));
        let Some(request) = request.filter(|_| self.link.can_ask()) else {
            // As with a registration, a number that nobody has is told through the callback.
            self.link.run_later(move || then(removed.map(drop).map_err(Error::from)));
            return Ok(());
        };
        // The handler is gone whatever the server answers, and when there is none any more.
        self.link.follow_up("PMIx_Deregister_event_handler", &request, Box::new(move |_| then(Ok(()))));
        Ok(())
    }

    /// Tells every other server that this process is attached to, or is itself; nobody waits for what they answer.
    fn tell_siblings(self: &Arc<Self>, request: &Request) {
        for other in self.siblings().iter().filter(|other| other.link.can_ask()) {
            // One that is lost tells nobody of events any more.
            let _ = other.link.request(REGISTER, request, Box::new(|_| ()));
        }
    }

    /// Tells a server that the process has just attached to of all that its handlers want to hear of.
    pub(super) fn register_all(&self) {
        for codes in self.own.handlers.wanted() {
            let request = Request::RegisterEvents { codes, info: Vec::new() };
            let _ = self.link.request(REGISTER, &request, Box::new(|_| ()));
        }
    }

    pub(super) fn notify(
        self: &Arc<Self>,
        status: Status,
        source: Proc,
        range: DataRange,
        info: Vec<Info>,
        then: Callback<(), Error>,
    ) -> Result<(), Error> {
        let native = self.own.groups.translate(&info, &Members::new());
        let reaches_me = match range {
            DataRange::RM => false,
            DataRange::CUSTOM => {
                let named = native.find(keys::EVENT_CUSTOM_RANGE).and_then(|item| item.value.as_procs());
                named.ok_or(Status::ERR_BAD_PARAM)?.iter().any(|proc| proc.matches(&self.proc))
            }
            known if known <= DataRange::PROC_LOCAL => true,
            _ => return Err(Status::ERR_BAD_PARAM.into()),
        };
        let only_me = range == DataRange::PROC_LOCAL || !self.link.has_server();
        // The server would refuse it, when the handlers here have had it. Leaders may say that their group is complete.
        if !only_me && is_a_servers(status) && status != Status::GROUP_CONSTRUCT_COMPLETE {
            return Err(Status::ERR_NO_PERMISSIONS.into());
        }
        let source = if source.nspace.is_empty() { Proc::clone(&self.proc) } else { source };
        let event = reaches_me.then(|| Event::new(status, source, native));
        let inner = self.clone();
        if only_me {
            self.link.run_later(move || {
                then(Ok(()));
                event.into_iter().for_each(|event| inner.deliver(event));
            });
            return Ok(());
        }
        // In its turn before all that the server says once it has heard of it; and not at all if that fails. The thread is
        // woken behind the request: others wait for that.
        let own = Arc::new(Mutex::new(event));
        let take = |own: &Mutex<Option<Event>>| own.lock().unwrap_or_else(PoisonError::into_inner).take();
        let queued = own.clone();
        self.link.queue(move || take(&queued).into_iter().for_each(|event| inner.deliver(event)));
        // The server tells the others, and not the one who raised it.
        let request = Request::Notify { status, range, info };
        // A tool that is a server as well has clients of its own.
        for own in self.siblings().iter().filter(|other| other.server.is_none() && other.link.can_ask()) {
            let _ = own.link.request("PMIx_Notify_event", &request, Box::new(|_| ()));
        }
        let asked = self.link.request(
            "PMIx_Notify_event",
            &request,
            Box::new(move |answer: Result<Answer, Error>| then(answer.and_then(Answer::done))),
        );
        let asked = asked.inspect_err(|_| drop(take(&own)));
        self.link.wake();
        asked
    }

    /// Acts on a message that no request asked for; on the control thread.
    pub(super) fn pushed(self: &Arc<Self>, push: Push) {
        match push {
            Push::Event { status, source, info, vote, .. } => {
                self.deliver(Event { vote, ..Event::new(status, source, info) });
            }
            Push::Output { pull, source, channel, bytes, info } => {
                // A number of this process's own.
                let Ok(pull) = usize::try_from(pull) else { return };
                self.output_comes(Output { pull, source, channel, bytes, info });
            }
        }
    }

    /// The server is gone; on the control thread.
    pub(super) fn server_lost(self: &Arc<Self>) {
        let Some(source) = self.server.as_ref().map(|server| server.name.clone()) else { return };
        self.deliver(Event::new(Status::ERR_LOST_CONNECTION, source, Vec::new()));
    }

    /// Keeps an event of this process for the next handler that is registered for it, as one that nobody has wanted so
    /// far.
    pub(super) fn keep_for_later(&self, status: Status, info: Vec<Info>) {
        self.own.handlers.keep(&Event::new(status, Proc::clone(&self.proc), info));
    }

    fn deliver(self: &Arc<Self>, mut event: Event) {
        if self.life.check().is_err() {
            return;
        }
        let is_near = |Proc { nspace, rank }: &Proc| {
            // Nobody here knows the nodes of a job that is not mapped.
            let reader = self.jobs.of(nspace.as_bytes()).filter(|_| rank.is_process());
            reader.is_none_or(|reader| reader.is_local(*rank))
        };
        let called: VecDeque<_> = self.own.handlers.matching(&mut event, &self.proc, is_near).collect();
        if called.is_empty() {
            trace!("nobody here wants event {} of {}", event.status, event.source);
        }
        self.walk(event, called, Vec::new());
    }

    /// Calls the next handler; on the control thread, with no lock held.
    fn walk(self: &Arc<Self>, event: Event, mut rest: VecDeque<Called>, results: Vec<Info>) {
        while let Some(current) = rest.pop_front() {
            // It may have been taken back since the event arrived.
            let wanted = match current.once {
                true => self.deregister(current.id, |_| {}).is_ok(),
                false => self.own.handlers.has(current.id),
            };
            if wanted {
                let (handler, notice) = current.notice(&event, &results);
                let chain = Chain(Some(Walk { inner: self.clone(), event, rest, results, current }));
                return self.in_handler(|| handler(notice, chain));
            }
        }
        self.group_decided(&event, &results);
    }
}
