//! The control thread: the loop that a server sleeps in.
//!
//! It waits for a door, a process's end, a time limit or the mailbox, lets [`Router`] take the step, takes what that has to say to
//! the doors, and then calls what is to be called of the embedding program. When nothing happens, nothing runs.
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use mio::{Events, Poll, Token, Waker};

use super::cleanup::Cleanups;
use super::collective::Collectives;
use super::config::{ServerConfig, ServerError};
use super::connect::Connections;
use super::ctx::system::{System, WatchId, Work, Worker};
use super::ctx::{Ctx, Identity};
use super::events;
use super::fence::Fences;
use super::fork::{Common, Forks};
use super::gets::Gets;
use super::groups::Groups;
use super::host::Host;
use super::iof::input::Inputs;
use super::iof::local_output::LocalOutput;
use super::iof::output::Outputs;
use super::jobs::Jobs;
use super::mailbox::{Commands, Mailbox};
use super::monitors::Monitors;
use super::program::Program;
use super::psets::ProcessSets;
use super::query::Queries;
use super::router::Router;
use super::watch::Watches;
use crate::attribute_support::HostSupport;
use crate::control::bind::{self, PathSocket};
use crate::control::listener::Listener;
use crate::control::rendezvous::{self, Uri};
use crate::control::report::UriFile;
use crate::data::Proc;
use crate::message::door::{Door, Ready};
use crate::store::{Budget, Limits};
use crate::sys::random;
use crate::sys::signals::spawn_without_signals;
use crate::trace;

/// Poll tokens: the upper bits say whose, the lower ones which.
const WHOSE: u32 = usize::BITS - 8;
const WAKER: usize = 0;
const WATCHES: usize = 1;
const DOORS: usize = 2;

/// What the loop owns beside the state.
struct ControlThread {
    poll: Poll,
    commands: Commands<Router>,
    doors: Vec<Box<dyn Door>>,
    router: Router,
    /// Removed from the file system when the thread ends.
    _path: Option<PathSocket>,
    _uri_file: Option<UriFile>,
}

/// What the rest of the program has of the thread.
pub(super) struct Started {
    pub mailbox: Mailbox<Router>,
    /// Where tools reach the server.
    pub uri: Option<Uri>,
    pub thread: JoinHandle<()>,
}

/// Opens the doors and starts the thread.
pub(super) fn start(config: Arc<ServerConfig>, host: Arc<dyn Host>, forks: Arc<Forks>) -> Result<Started, ServerError> {
    let failed = |what| move |source| ServerError::System { what, source };
    let poll = Poll::new().map_err(failed("poll"))?;
    let waker = Waker::new(poll.registry(), Token(WAKER << WHOSE)).map_err(failed("wake a thread"))?;
    let registry = || poll.registry().try_clone().map_err(failed("poll"));
    let (mailbox, commands) = Mailbox::new(waker);

    let (socket, abstract_name) = bind::bind_abstract(bind::FOR_JOBS).map_err(failed("open a socket"))?;
    let mut sockets = vec![socket];
    let path = match config.path_socket {
        true => {
            let (socket, path) = bind::bind_path(&config.tmpdir).map_err(failed("open a path socket"))?;
            sockets.push(socket);
            Some(path)
        }
        false => None,
    };
    let uri = match config.tools {
        Some(support) => {
            let pid = support.pid.unwrap_or(std::process::id() as i32);
            let server = Proc::new(config.nspace.clone(), config.rank);
            let prefix = rendezvous::prefix(pid, support.is_system, &server);
            let (socket, name) = bind::bind_abstract(&prefix).map_err(failed("open a socket for tools"))?;
            sockets.push(socket);
            Some(Uri { server, name })
        }
        None => None,
    };
    let report = |file: &PathBuf| uri.as_ref().map(|uri| UriFile::write(file, uri));
    let uri_file = config.uri_file.as_ref().and_then(report).transpose();
    let uri_file = uri_file.map_err(failed("write the address for tools"))?;
    let tokens = |whose: usize| whose << WHOSE;
    let listener = Listener::new(0, registry()?, tokens(DOORS), sockets).map_err(failed("poll a socket"))?;

    let bytes = |path: &std::path::Path| path.as_os_str().as_encoded_bytes().to_vec();
    let common = Arc::new(Common {
        uid: nix::unistd::geteuid().as_raw(),
        abstract_name,
        path: path.as_ref().and_then(|socket| socket.path.to_str().map(str::to_owned)),
        hostname: config.hostname.as_bytes().to_vec(),
        tmpdir: bytes(&config.tmpdir),
        system_tmpdir: bytes(&config.system_tmpdir),
        uri: uri.clone(),
    });
    let failed_random = failed("get randomness");
    let identity = Identity {
        proc: Proc::new(config.nspace.clone(), config.rank),
        nonce: u64::from_le_bytes(random::bytes().map_err(failed_random)?),
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
    };
    let mut system = Box::new(RealSystem { watches: Watches::new(registry()?, tokens(WATCHES)) });
    let local_output = config.local_output.then(|| LocalOutput::start(&mut *system)).transpose();
    let local_output = local_output.map_err(failed("start a thread"))?;
    let sink = mailbox.clone();
    let tickets = Arc::new(move |ticket| {
        // A server that has ended has nobody waiting.
        let _ = sink.post(move |router: &mut Router| router.returned(ticket));
    });
    let limits = Limits { budget: Budget::new(config.memory_limit.unwrap_or(u64::MAX)), ..Limits::default() };
    let router = Router {
        cx: Ctx::new(config, identity, host, system, tickets),
        mailbox: mailbox.clone(),
        forks,
        common,
        jobs: Jobs::default(),
        limits,
        collectives: Collectives::default(),
        fences: Fences::default(),
        connections: Connections::default(),
        groups: Groups::default(),
        process_sets: ProcessSets::default(),
        outputs: Outputs::new(local_output),
        inputs: Inputs::default(),
        resources: Vec::new(),
        sessions: BTreeMap::new(),
        gets: Gets::default(),
        queries: Queries::default(),
        monitors: Monitors::default(),
        events: events::Events::default(),
        tools_named: 0,
        host_support: HostSupport::default(),
        cleanups: Cleanups::default(),
        program: Program::default(),
    };
    let thread =
        ControlThread { poll, commands, doors: vec![Box::new(listener)], router, _path: path, _uri_file: uri_file };
    let thread = spawn_without_signals("instanton", move || thread.run()).map_err(failed("start a thread"))?;
    Ok(Started { mailbox, uri, thread })
}

impl ControlThread {
    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        while !self.router.cx.stopping {
            let next = self.doors.iter().filter_map(|door| door.deadline()).chain(self.router.cx.timers.next()).min();
            let timeout = next.map(|at| at.saturating_duration_since(Instant::now()));
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
                    WATCHES => {
                        if let Some((proc, watch)) = self.router.cx.system.watch_ended(which as u64) {
                            self.router.process_ended(&proc, watch);
                        }
                    }
                    door => {
                        let ended = event.is_read_closed() || event.is_error();
                        let (readable, writable) = (event.is_readable() || ended, event.is_writable());
                        let ready = Ready { readable, writable, ended };
                        self.doors[door - DOORS].ready(which as u64, ready, &mut self.router);
                    }
                }
                self.deliver();
            }
            while let Some(command) = self.commands.take() {
                command(&mut self.router);
                self.deliver();
            }
            let now = Instant::now();
            while let Some(limit) = self.router.cx.timers.expired(now) {
                self.router.expire(limit);
                self.deliver();
            }
            for door in &mut self.doors {
                // A door that wants to go on at once says "now", which is later than the `now` above.
                if door.deadline().is_some_and(|at| at <= Instant::now()) {
                    door.tick(Instant::now(), &mut self.router);
                }
            }
            self.deliver();
        }
        // What was accepted before the end is still done, and whoever waits hears of the end.
        while let Some(command) = self.commands.take() {
            command(&mut self.router);
            self.deliver();
        }
        self.router.end();
        self.deliver();
    }

    /// Takes the outbox to the doors, where a peer that turns out to be gone may put more into it. Then the callbacks have their
    /// turn.
    fn deliver(&mut self) {
        self.router.drain();
        while !self.router.cx.outbox.is_empty() {
            for (peer, message) in std::mem::take(&mut self.router.cx.outbox) {
                match self.doors.get_mut(usize::from(peer.door)) {
                    Some(door) => door.send(peer.connection, message, &mut self.router),
                    None => self.router.program.deliver(message),
                }
            }
            self.router.drain();
        }
        std::mem::take(&mut self.router.cx.calls).into_iter().for_each(|call| call());
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

    fn offload(&mut self, name: &'static str, work: Work) -> std::io::Result<Worker> {
        spawn_without_signals(name, work).map(Some)
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
