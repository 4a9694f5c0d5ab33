//! The control thread: the loop that a server sleeps in.
//!
//! It waits for a door, a process's end, a deadline or the mailbox, and has the [`Reactor`] take the steps that are
//! due. When nothing happens, nothing runs. Here is also the operating system that rooms see through a trait.
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use super::config::{ServerConfig, ServerError};
use super::ctx::system::{System, WatchId, Work, Worker};
use super::ctx::{Ctx, Identity};
use super::doors::{self, Doors, Files, Uri};
use super::fork_environment::{Common, ForkEnvironment, ForkEnvironments};
use super::host::Host;
use super::iof::local_output::LocalOutput;
use super::mailbox::Mailbox;
use super::reactor::Reactor;
use super::router::Router;
use super::watch::Watches;
use crate::data::Proc;
use crate::message::door::Ready;
use crate::sys::signals::spawn_without_signals;
use crate::sys::{memory, process, random};
use crate::trace;

/// Poll tokens: the upper bits say whose, the lower ones which.
const WHOSE: u32 = usize::BITS - 8;
const WAKER: usize = 0;
const WATCHES: usize = 1;
const DOORS: usize = 2;

/// The loop: a poll, and the server that it wakes.
struct ControlThread {
    poll: Poll,
    reactor: Reactor,
    /// Removed from the file system when the thread ends.
    _files: Files,
}

/// Parts of a server that run beside its control thread.
pub(super) struct Started {
    pub mailbox: Mailbox<Router>,
    /// Address for tools.
    pub tools_uri: Option<Uri>,
    /// Text for a file that tools read.
    pub report: Option<String>,
    pub fork_environment: ForkEnvironment,
    pub thread: JoinHandle<()>,
}

/// Opens the doors and starts the thread.
pub(super) fn start(config: Arc<ServerConfig>, host: Arc<dyn Host>) -> Result<Started, ServerError> {
    let failed = |what| move |source| ServerError::System { what, source };
    let poll = Poll::new().map_err(failed("poll"))?;
    let waker = Waker::new(poll.registry(), Token(WAKER << WHOSE)).map_err(failed("wake a thread"))?;
    let (mailbox, commands) = Mailbox::new(move || {
        // An eventfd that cannot be written is full: the thread is awake already.
        let _ = waker.wake();
    });
    let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    let tokens = |whose: usize| whose << WHOSE;
    let Doors { doors, tools_uri, report, uri, variables, job_files, files } =
        doors::open(&config, uid, poll.registry(), |door| tokens(DOORS + usize::from(door)))?;

    let bytes = |path: &std::path::Path| path.as_os_str().as_encoded_bytes().to_vec();
    let environments = ForkEnvironments::new(Common {
        hostname: config.hostname.as_bytes().to_vec(),
        tmpdir: bytes(&config.tmpdir),
        system_tmpdir: bytes(&config.system_tmpdir),
        doors: variables,
    });
    let fork_environment = environments.published();
    let failed_random = failed("get randomness");
    let identity = Identity {
        proc: Proc::new(config.nspace.clone(), config.rank),
        nonce: u64::from_le_bytes(random::bytes().map_err(failed_random)?),
        uid,
        gid,
        uri: uri.to_string(),
    };
    let registry = poll.registry().try_clone().map_err(failed("poll"))?;
    let mut system = Box::new(RealSystem { watches: Watches::new(registry, tokens(WATCHES)) });
    let local_output = config.local_output.then(|| LocalOutput::start(&mut *system)).transpose();
    let local_output = local_output.map_err(failed("start a thread"))?;
    let sink = mailbox.clone();
    let tickets = Arc::new(move |ticket| {
        // A server that has ended has nobody waiting.
        let _ = sink.post(move |router: &mut Router| router.redeem(ticket));
    });
    let cx = Ctx::new(config, identity, host, system, tickets);
    let mut router = Router::new(cx, environments, local_output);
    router.jobs.files = job_files;
    let thread = ControlThread { poll, reactor: Reactor::new(router, doors, commands), _files: files };
    let thread = spawn_without_signals("instanton", move || thread.run()).map_err(failed("start a thread"))?;
    Ok(Started { mailbox, tools_uri, report, fork_environment, thread })
}

impl ControlThread {
    fn run(mut self) {
        let _span = trace::span!(INFO, "server", of = %self.reactor.router.cx.identity.proc);
        trace::event!(INFO, "serves");
        let mut events = Events::with_capacity(256);
        while !self.reactor.router.cx.stopping {
            let timeout = self.reactor.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    trace!("cannot wait for events: {e}");
                    break;
                }
            }
            for event in &events {
                let (whose, which) = (event.token().0 >> WHOSE, event.token().0 & ((1 << WHOSE) - 1));
                match whose {
                    WAKER => {}
                    WATCHES => self.reactor.watch_ready(which as u64),
                    door => {
                        let ended = event.is_read_closed() || event.is_error();
                        let (readable, writable) = (event.is_readable() || ended, event.is_writable());
                        self.reactor.ready(door - DOORS, which as u64, Ready { readable, writable, ended });
                    }
                }
            }
            self.reactor.run_some_commands();
            self.reactor.run_deadlines();
            self.reactor.run_slice();
        }
        self.reactor.end();
        trace::event!(INFO, "has ended");
    }
}

/// The operating system, as the control thread sees it.
struct RealSystem {
    watches: Watches,
}

impl System for RealSystem {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn processor_time(&self) -> Duration {
        process::thread_time()
    }

    fn offload(&mut self, name: &'static str, work: Work) -> std::io::Result<Worker> {
        spawn_without_signals(name, work).map(Some)
    }

    fn random(&mut self) -> std::io::Result<[u8; 32]> {
        random::bytes()
    }

    fn give_back_memory(&mut self) {
        memory::give_back();
    }

    fn is_short_of_descriptors(&self, latest: &OwnedFd) -> bool {
        process::is_high(latest)
    }

    fn has_few_descriptors(&self, latest: &OwnedFd) -> bool {
        process::is_among_last(latest)
    }

    fn is_child(&self, pidfd: &OwnedFd) -> bool {
        process::is_child(pidfd)
    }

    fn watch(&mut self, proc: Proc, pidfd: OwnedFd) -> std::io::Result<WatchId> {
        self.watches.start(proc, pidfd)
    }

    fn unwatch(&mut self, id: WatchId) {
        self.watches.stop(id);
    }

    fn watch_ended(&mut self, token: u64) -> Option<(Proc, WatchId)> {
        self.watches.ended(token)
    }
}
