//! The client: a process of a job, and how it asks.
//!
//! # Actors
//!
//! The *callers* are the program's threads. A Get is answered on the caller's thread, from memory (`get.rs`); everything else is a
//! request that the caller sends itself (`connection.rs`). One *control thread* for each client receives the answers, runs every
//! callback, and sleeps otherwise. The *server* is at the other end of one socket.
//!
//! # States
//!
//! A client runs from its init (`init.rs`) to its finalize; a forked child finds it uninitialised (`fork.rs`). Without a launcher it
//! is a singleton: a job of its own, with its own values and nobody to ask.
//!
//! # When a process dies
//!
//! When the server dies, every call that waits ends with [`Error::LostConnection`], event handlers are told
//! `ERR_LOST_CONNECTION`, and what was in shared memory stays readable. When this process dies, its socket, its mappings and its
//! pins go with it; the server finds out from the kernel.
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../../examples/client.rs")]
//! ```

mod answer;
pub(crate) mod call;
mod caller;
mod clock;
mod connection;
mod debug;
mod error;
mod events;
mod facts;
mod fence;
mod fork;
pub(crate) mod forward;
mod gate;
pub(crate) mod get;
mod group;
mod incoming;
pub(crate) mod init;
mod jobctrl;
mod jobs;
mod local;
mod names;
mod notify;
mod outbox;
mod output;
mod post;
mod publish;
mod qualified;
mod received;
mod receiver;
pub(crate) mod spawn;
mod stdin;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::attribute_support::HostSupport;
use crate::control::handshake::Attach;
use crate::data::{DataRange, Info, InfoList, Key, Nspace, Proc, Rank, Scope, Status, Value, keys};
use crate::handover::Opened;
use crate::message::Request;
use crate::pending::Pending;
use crate::sys::cell::Epoch;
use crate::sys::signals;
use crate::trace;
#[cfg(feature = "server")]
use crate::upstream::{Identity, StockAddress, Upstream};

pub use crate::control::address::Address;
pub use crate::message::{Credential, Infos, Published};
pub use crate::store::{Directives, InfoLevel, Question};
pub use error::{Error, InitError};
pub use get::Found;
pub use notify::Chain;
pub use output::{Output, OutputHandler, to_own_output};

use answer::Answer;
use clock::{GRACE, end_of, given_up};
use connection::{Link, News, Way};
use events::Handlers;
use fence::Meetings;
use fork::Life;
use incoming::Incoming;
use jobs::Jobs;
use local::Local;
use post::Posts;

/// The environment variable that turns shared memory off (`off`): every look-up then goes over the control plane, with the
/// same results. Nobody should need it.
pub const SHARED_MEMORY_VARIABLE: &str = "INSTANTON_SHM";

/// Event, as a handler is told of it.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The handler's own number, from its registration.
    pub handler: usize,
    /// The event's code.
    pub status: Status,
    /// Process that has raised it.
    pub source: Proc,
    /// The event's attributes, with the handler's name and its return object where it has them.
    pub info: Vec<Info>,
    /// Answers of the handlers before it: of each its status, under its name, then its results.
    pub results: Vec<Info>,
}

/// An event handler. It runs on the client's control thread and must not wait there.
pub type Handler = Arc<dyn Fn(Notice, Chain) + Send + Sync>;

/// A process of a job. Every method may be called from any thread.
///
/// A method that has to wait for others returns a [`Pending`] result. A callback that it is given, and a [`Handler`], runs
/// on the client's own thread. A call that would have to wait, made from there, fails with [`Error::WouldBlock`].
pub struct Client {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
    collector: stdin::Collector,
    /// The way to a stock server, for a process that has no other.
    #[cfg(feature = "server")]
    upstream: Mutex<Option<Upstream>>,
}

/// State that callers and the control thread share.
struct Inner {
    life: Life,
    proc: Arc<Proc>,
    server: Option<init::Reached>,
    link: Link,
    jobs: Jobs,
    posts: Posts,
    meetings: Meetings,
    own: Arc<Own>,
}

/// State of the process rather than of one of its connections: a tool may have several.
#[derive(Default)]
struct Own {
    overlay: Local,
    handlers: Handlers,
    groups: group::Groups,
    pulls: output::Pulls,
    /// Attributes that this process supports, should it be somebody's host.
    host_support: Mutex<HostSupport>,
    /// Other jobs that this process has started or was connected with.
    met: Mutex<BTreeSet<Nspace>>,
    connections: Mutex<Vec<Weak<Inner>>>,
}

impl Own {
    fn connections(&self) -> MutexGuard<'_, Vec<Weak<Inner>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Returns whether a stock server is the host of the server, which lives in this process.
    fn has_upstream(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.has_upstream)
    }

    /// Notes jobs that this process can look into from now on.
    fn meet_jobs(&self, nspaces: impl IntoIterator<Item = Nspace>) {
        self.own.met.lock().unwrap_or_else(PoisonError::into_inner).extend(nspaces);
    }

    /// The other connections of this process.
    fn siblings(self: &Arc<Self>) -> Vec<Arc<Inner>> {
        let all = self.own.connections();
        all.iter().filter_map(Weak::upgrade).filter(|other| !Arc::ptr_eq(other, self)).collect()
    }

    /// Acts on a message of the server that nobody waits for.
    fn hear(self: &Arc<Self>, news: News) {
        match news {
            News::Push(push) => self.pushed(push),
            // Nothing but commits is sent without waiting.
            News::Reply(reply) => self.posts.committed(reply),
        }
    }
}

/// Name that this machine has for itself.
fn own_node() -> Result<String, InitError> {
    let name = nix::sys::utsname::uname().map_err(|error| system("no name of this host")(error.into()))?;
    Ok(name.nodename().to_string_lossy().into_owned())
}

impl Client {
    /// Connects to the server that the environment names (`PMIx_Init`). All job information is readable when it returns. Waits for
    /// a debugger where that is wanted (`PMIX_DEBUG_STOP_IN_INIT`).
    ///
    /// # Errors
    /// [`InitError::Singleton`] when no launcher has started this process.
    pub fn init(info: &[Info]) -> Result<Client, InitError> {
        init::check_directives(info)?;
        let client = Self::launched(info)?;
        client.stop_for_debugger()?;
        Ok(client)
    }

    /// Connects to the server of the launcher that has started this process.
    pub(crate) fn launched(info: &[Info]) -> Result<Client, InitError> {
        match init::place()? {
            init::Place::Native(address) => Self::connect(&address, info),
            #[cfg(feature = "server")]
            init::Place::Stock(address, own) => Self::join(&address, &own, info, None),
        }
    }

    /// Connects to the server at `address`, as the process that it was made for.
    ///
    /// # Errors
    /// When no door opens or the server refuses.
    pub fn connect(address: &Address, info: &[Info]) -> Result<Client, InitError> {
        init::check_directives(info)?;
        let layout = layout();
        Self::connected(init::enter(address, info, layout)?, layout, Arc::default(), None)
    }

    /// Joins a job under a stock server, or attaches to it: by a server in this process, whose host that one is. State
    /// that belongs to the process rather than to a connection is shared with `first`.
    #[cfg(feature = "server")]
    pub(crate) fn join(
        address: &StockAddress,
        who: &Identity,
        info: &[Info],
        first: Option<&Client>,
    ) -> Result<Client, InitError> {
        let until = call::limit_in(info).map(|limit| Instant::now() + limit);
        let layout = layout();
        let (upstream, own, node) = Upstream::join(address, who, layout != 0, until)?;
        let mut accepted = init::enter(&own, info, layout)?;
        accepted.server.has_upstream = true;
        accepted.server.uri.clone_from(&address.uri);
        let shared = first.map_or_else(Arc::default, |client| client.inner.own.clone());
        let client = Self::connected(accepted, layout, shared, node)?;
        *client.upstream.lock().unwrap_or_else(PoisonError::into_inner) = Some(upstream);
        client.inner.register_all();
        Ok(client)
    }

    /// Attaches to a server as a tool. State that belongs to the process rather than to a connection is shared with
    /// `first`, the tool's connection that was there before.
    pub(crate) fn attach(
        call: &init::Attachment<'_>,
        info: &[Info],
        first: Option<&Client>,
    ) -> Result<Client, InitError> {
        let layout = layout();
        let hello = |info| Attach { proc: call.proc.cloned(), server: call.server.cloned(), layout, info };
        let accepted = init::attach(call, hello, info)?;
        let own = first.map_or_else(Arc::default, |client| client.inner.own.clone());
        let client = Self::connected(accepted, layout, own, None)?;
        client.inner.register_all();
        Ok(client)
    }

    fn connected(
        accepted: init::Accepted,
        layout: u32,
        own: Arc<Own>,
        node: Option<Opened>,
    ) -> Result<Client, InitError> {
        let jobs = Jobs::new(layout != 0);
        jobs.begin(&accepted.proc, &accepted.parts, accepted.descriptors, node);
        let link = Link::new(Way::Socket(accepted.socket)).map_err(system("no eventfd"))?;
        Self::start(accepted.proc, Some(accepted.server), link, jobs, Some(accepted.incoming), own)
    }

    /// A process that is a job of its own, without a server: rank 0 of a namespace that nobody else has.
    ///
    /// # Errors
    /// When the system refuses memory or a thread.
    pub fn singleton() -> Result<Client, InitError> {
        let nspace = format!("singleton.{}.{}", own_node()?, std::process::id());
        let nspace = Nspace::new(nspace).map_err(|error| system("no namespace")(io::Error::other(error)))?;
        Self::alone(Proc::new(nspace, Rank(0)), None)
    }

    /// A process without a server, of that name. State that belongs to the process is shared with `first`, if it had a
    /// connection before.
    pub(crate) fn alone(proc: Proc, first: Option<&Client>) -> Result<Client, InitError> {
        let link = Link::new(Way::None).map_err(system("no eventfd"))?;
        let own = first.map_or_else(Arc::default, |client| client.inner.own.clone());
        let jobs = Jobs::new(false);
        // A process that has chosen another rank has told nobody of those before it.
        if proc.rank == Rank(0) {
            jobs.begin_alone(&proc, &own_node()?);
        }
        Self::start(proc, None, link, jobs, None, own)
    }

    /// Makes the client of the program that embeds a server; it has the server's name. It shares what belongs to the process with
    /// `first`, where that has a connection already.
    #[cfg(feature = "server")]
    pub(crate) fn connect_in_process(
        proc: Proc,
        server: Arc<dyn crate::message::InProcessServer>,
        first: Option<&Client>,
    ) -> Result<Client, InitError> {
        let link = Link::new(Way::InProcess(server)).map_err(system("no eventfd"))?;
        let own = first.map_or_else(Arc::default, |client| client.inner.own.clone());
        Self::start(proc, None, link, Jobs::new(false), None, own)
    }

    /// Registers the event handlers of the process with an in-process server.
    #[cfg(feature = "server")]
    pub(crate) fn hear_events(&self) {
        self.inner.register_all();
    }

    /// Returns the callback that takes in what an in-process server sends. It does not keep the client alive.
    #[cfg(feature = "server")]
    pub(crate) fn delivery_handler(&self) -> Box<dyn Fn(crate::message::Delivery) + Send> {
        use crate::message::Delivery;
        let inner = Arc::downgrade(&self.inner);
        Box::new(move |delivery| {
            let Some(inner) = inner.upgrade() else { return };
            inner.clone().link.run_later(move || match delivery {
                Delivery::Reply(number, reply) => inner.link.answered(number, reply),
                Delivery::Push(push) => inner.pushed(push),
            });
        })
    }

    fn start(
        proc: Proc,
        server: Option<init::Reached>,
        link: Link,
        jobs: Jobs,
        incoming: Option<Incoming>,
        own: Arc<Own>,
    ) -> Result<Client, InitError> {
        // A thread's first epoch makes its notes: here, and not at its first Put or Get.
        drop(Epoch::enter());
        let proc = Arc::new(proc);
        let inner = Arc::new(Inner {
            life: Life::begin().map_err(system("no memory"))?,
            proc: proc.clone(),
            server,
            link,
            jobs,
            posts: Posts::of(proc),
            meetings: Meetings::default(),
            own,
        });
        {
            let mut connections = inner.own.connections();
            connections.retain(|other| other.strong_count() > 0);
            connections.push(Arc::downgrade(&inner));
        }
        let served = inner.clone();
        let thread = signals::spawn_without_signals("instanton", move || {
            served.link.serve(incoming, |news| served.hear(news), || served.server_lost());
        });
        let thread = Mutex::new(Some(thread.map_err(system("no thread"))?));
        Ok(Client {
            inner,
            thread,
            collector: stdin::Collector::default(),
            #[cfg(feature = "server")]
            upstream: Mutex::default(),
        })
    }

    /// Returns whether this process may use the client: neither after [`finalize`](Client::finalize) nor in a forked child.
    pub fn is_initialized(&self) -> bool {
        self.inner.life.check().is_ok()
    }

    /// Returns the name of this process.
    pub fn proc(&self) -> &Proc {
        &self.inner.proc
    }

    /// The name of the server; none for a process without one.
    pub fn server(&self) -> Option<&Proc> {
        self.inner.server.as_ref().map(|server| &server.name)
    }

    /// Returns whether there never was a server to ask.
    pub fn is_alone(&self) -> bool {
        !self.inner.link.can_ask()
    }

    /// Returns whether there is a server that requests reach.
    pub fn is_connected(&self) -> bool {
        self.is_initialized() && self.inner.link.is_connected()
    }

    /// Returns whether the caller runs on a thread that has to bring the results of calls, as callbacks and event
    /// handlers do: [`wait`](Pending::wait) is refused there.
    pub fn is_own_thread(&self) -> bool {
        self.inner.link.may_not_wait()
    }

    /// Keeps a value for the next [`commit`](Client::commit) (`PMIx_Put`); this process itself sees it at once. Under the key
    /// `PMIX_QUALIFIED_VALUE`, the value is an array of one attribute and those that qualify it, which a Get names as well.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a scope or key that is none, `ERR_NOT_SUPPORTED` for a scope that takes back.
    pub fn put(&self, scope: Scope, key: impl AsRef<[u8]>, value: Value) -> Result<(), Error> {
        self.inner.life.check()?;
        let key = Key::new(key).map_err(|_| Status::ERR_BAD_PARAM)?;
        let (key, value) = if key == keys::QUALIFIED_VALUE { qualified::unfold(&value)? } else { (key, value) };
        self.inner.posts.put(scope, key, value)
    }

    /// Gives the server what was put (`PMIx_Commit`), without waiting for it. A commit that fails later is reported by
    /// the next commit, fence or finalize.
    ///
    /// # Errors
    /// When the server is gone, or an earlier commit has failed.
    pub fn commit(&self) -> Result<(), Error> {
        self.inner.life.check()?;
        self.inner.jobs.unmap_replaced();
        self.inner.posts.commit(&self.inner.link)
    }

    /// The namespaces that this process can look into: its own first, then those of jobs that it has started or was connected with.
    pub fn namespaces(&self) -> Vec<Nspace> {
        let met = self.inner.own.met.lock().unwrap_or_else(PoisonError::into_inner);
        let own = &self.inner.proc.nspace;
        std::iter::once(own).chain(met.iter().filter(|nspace| *nspace != own)).cloned().collect()
    }

    /// Keeps a value for this process alone (`PMIx_Store_internal`); every later Get without a level finds it first.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a key that is none; after finalize or fork.
    pub fn store_internal(&self, proc: &Proc, key: impl AsRef<[u8]>, value: Value) -> Result<(), Error> {
        self.inner.life.check()?;
        let key = Key::new(key).map_err(|_| Status::ERR_BAD_PARAM)?;
        let nspace = if proc.nspace.is_empty() { &self.inner.proc.nspace } else { &proc.nspace };
        let proc = Proc::new(nspace.clone(), proc.rank);
        let proc = self.inner.own.groups.native(&proc).unwrap_or(proc);
        self.inner.own.overlay.store(Arc::new(proc), Scope::INTERNAL, key, value);
        Ok(())
    }

    /// Registers a handler for events with these codes; none for every event (`PMIx_Register_event_handler`). Answers
    /// the handler's number.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a directive that is no attribute of the Standard.
    pub fn register_event_handler(&self, codes: &[Status], info: &[Info], handler: Handler) -> Pending<usize, Error> {
        let (codes, info) = (codes.to_vec(), info.to_vec());
        self.prepare("PMIx_Register_event_handler", None, move |inner, callback| {
            inner.register(codes, info, handler, callback)
        })
    }

    /// Takes a handler back (`PMIx_Deregister_event_handler`).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a number that nobody has.
    pub fn deregister_event_handler(&self, handler: usize) -> Pending<(), Error> {
        self.prepare("PMIx_Deregister_event_handler", None, move |inner, callback| inner.deregister(handler, callback))
    }

    /// Raises an event (`PMIx_Notify_event`), and answers when it is on its way. A source without a namespace is this
    /// process.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a range that is none or should name processes and does not, `ERR_NO_PERMISSIONS` for an
    /// event that servers alone raise: nobody hears of these, this process's own handlers included. The host's answer.
    pub fn notify_event(&self, status: Status, source: &Proc, range: DataRange, info: &[Info]) -> Pending<(), Error> {
        let (source, info) = (source.clone(), info.to_vec());
        self.prepare("PMIx_Notify_event", call::limit_in(&info), move |inner, callback| {
            inner.notify(status, source, range, info, callback)
        })
    }

    /// Keeps an event of this process, of which those who wait for it now are not told, for the next handler that is
    /// registered for it.
    pub fn keep_event(&self, status: Status, info: &[Info]) {
        self.inner.keep_for_later(status, info.to_vec());
    }

    /// Has the client's own thread call something, when it is through with what it is at.
    ///
    /// # Errors
    /// After finalize or fork; nothing is called then.
    pub fn call_later(&self, call: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.inner.life.check()?;
        self.inner.link.run_later(call);
        Ok(())
    }

    /// Ends the client (`PMIx_Finalize`): tells the server, ends what still waits, joins the client's thread. Later calls fail.
    ///
    /// # Errors
    /// An earlier commit's failure, or the server's, or `ERR_TIMEOUT`; the client is ended all the same.
    pub fn finalize(&self, info: &[Info]) -> Result<(), Error> {
        init::check_finalize(info)?;
        let limit: Vec<Info> = info.find(keys::TIMEOUT).cloned().into_iter().collect();
        let until = end_of(call::limit_in(&limit));
        let barrier = match info.is_set(keys::EMBED_BARRIER) {
            true => self.fence(&[], &limit).wait(),
            false => Ok(()),
        };
        // A barrier that takes all of the time leaves some for the goodbye.
        let until = until.map(|at| at.max(Instant::now() + GRACE));
        let told = match self.inner.link.is_connected() {
            true => call::wait(self, "PMIx_Finalize", |then| {
                self.inner.link.expect_end();
                let then = self.inner.link.bound(until, given_up, then);
                let inner = self.inner.clone();
                let then: answer::Waiter = Box::new(move |answer| {
                    // The thread ends while the caller wakes up, who would wake it once more for that.
                    inner.link.stop();
                    then(answer.and_then(Answer::done));
                });
                self.inner.link.request("PMIx_Finalize", &Request::Finalize, then)
            }),
            false => call::wait(self, "PMIx_Finalize", |then| {
                self.inner.link.run_later(move || then(Ok(())));
                Ok(())
            }),
        };
        if let Err(error @ (Error::WouldBlock { .. } | Error::NotInitialized)) = told {
            return Err(error);
        }
        self.inner.life.end()?;
        self.stop();
        barrier.and(self.inner.posts.outcome()).and(told)
    }

    fn stop(&self) {
        self.inner.link.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped from one of its own callbacks, it ends by itself.
        if let Some(thread) = thread.filter(|_| !self.inner.link.is_own_thread()) {
            let _ = thread.join();
        }
        self.collector.end(!self.inner.link.is_own_thread());
        #[cfg(feature = "server")]
        drop(self.upstream.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.inner.life.is_forked() {
            // The child has neither the thread nor all of the mappings: it lets everything lie.
            std::mem::forget(self.inner.clone());
            std::mem::forget(self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            std::mem::forget(std::mem::take(&mut self.collector));
            #[cfg(feature = "server")]
            std::mem::forget(self.upstream.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        } else if self.inner.life.end().is_ok() {
            self.stop();
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("proc", self.proc()).field("server", &self.server()).finish_non_exhaustive()
    }
}

/// The version of segments that can be mapped, 0 for none.
fn layout() -> u32 {
    if std::env::var_os(SHARED_MEMORY_VARIABLE).is_some_and(|value| value == "off") {
        trace!("shared memory is turned off by {SHARED_MEMORY_VARIABLE}");
        return 0;
    }
    instanton_layout::header::VERSION
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> InitError {
    move |source| InitError::System { what, source }
}
