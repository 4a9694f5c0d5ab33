//! A context without socket and thread, for the tests of rooms.
//!
//! The clock moves when a test says so, offloaded work waits until a test runs it, and tickets wait in a queue.
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::effect::Effect;
use super::open_requests::OpenRequests;
use super::peers::{Caller, Peer, Role};
use super::system::{System, WatchId, Work, Worker};
use super::ticket::Ticket;
use super::timers::Deadline;
use super::{Ctx, Identity, TicketSink};
use crate::account::Account;
use crate::data::{Nspace, Proc, Rank};
use crate::message::door::{Capabilities, Outgoing, PeerId};
use crate::message::{Push, Reply};
use crate::server::config::ServerConfig;
use crate::server::host::Host;

/// State behind the fake system and the ticket sink.
struct Outside {
    begin: Instant,
    now: Instant,
    work: VecDeque<Work>,
    tickets: VecDeque<Ticket>,
    watched: BTreeMap<u64, Proc>,
    watches: u64,
    lacks_threads: bool,
    has_few_descriptors: bool,
}

/// Handle of the outside of a context; clones share it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Outside>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Outside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_offloaded(&self) {
        let work = std::mem::take(&mut self.lock().work);
        work.into_iter().for_each(|work| work());
    }
}

impl System for Shared {
    fn now(&self) -> Instant {
        self.lock().now
    }

    fn processor_time(&self) -> Duration {
        let outside = self.lock();
        outside.now - outside.begin
    }

    fn offload(&mut self, _: &'static str, work: Work) -> io::Result<Worker> {
        let mut outside = self.lock();
        if outside.lacks_threads {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        outside.work.push_back(work);
        Ok(None)
    }

    fn random(&mut self) -> io::Result<[u8; 32]> {
        Ok([7; 32])
    }

    fn give_back_memory(&mut self) {}

    fn is_short_of_descriptors(&self, _: &OwnedFd) -> bool {
        false
    }

    fn has_few_descriptors(&self, _: &OwnedFd) -> bool {
        self.lock().has_few_descriptors
    }

    fn is_child(&self, _: &OwnedFd) -> bool {
        false
    }

    fn watch(&mut self, proc: Proc, _: OwnedFd) -> io::Result<WatchId> {
        let mut outside = self.lock();
        outside.watches += 1;
        let id = outside.watches;
        outside.watched.insert(id, proc);
        Ok(WatchId(id))
    }

    fn unwatch(&mut self, id: WatchId) {
        self.lock().watched.remove(&id.0);
    }

    fn watch_ended(&mut self, token: u64) -> Option<(Proc, WatchId)> {
        Some((self.lock().watched.remove(&token)?, WatchId(token)))
    }
}

/// A context, and the outside that a test plays.
pub struct TestCtx {
    pub cx: Ctx,
    outside: Shared,
    connections: u64,
    requests: u64,
}

/// Creates the context of a server with that host.
pub fn ctx(host: impl Host) -> TestCtx {
    ctx_of(ServerConfig::default(), Arc::new(host))
}

/// Creates the context of a server that is to run in a certain way.
pub fn ctx_of(config: ServerConfig, host: Arc<dyn Host>) -> TestCtx {
    let now = Instant::now();
    let outside = Shared(Arc::new(Mutex::new(Outside {
        begin: now,
        now,
        work: VecDeque::new(),
        tickets: VecDeque::new(),
        watched: BTreeMap::new(),
        watches: 0,
        lacks_threads: false,
        has_few_descriptors: false,
    })));
    let identity =
        Identity { proc: Proc::new(config.nspace.clone(), config.rank), nonce: 1, uid: 0, gid: 0, uri: "here".into() };
    let sink = outside.clone();
    let tickets = Arc::new(move |ticket| sink.lock().tickets.push_back(ticket));
    let cx = Ctx::new(Arc::new(config), identity, host, Box::new(outside.clone()), tickets);
    TestCtx { cx, outside, connections: 0, requests: 0 }
}

/// The clock, and the threads, of a context that lives on in a server.
pub struct Clock(Shared);

impl Clock {
    /// Lets time pass.
    pub fn pass(&self, by: Duration) {
        self.0.lock().now += by;
    }

    /// Runs the work that waits for a thread.
    pub fn run_offloaded(&self) {
        self.0.run_offloaded();
    }
}

#[allow(dead_code, reason = "no room's tests need all of it")]
impl TestCtx {
    /// Returns the clock.
    pub fn clock(&self) -> Clock {
        Clock(self.outside.clone())
    }

    /// Lets time pass, and returns the deadlines that have run out.
    pub fn advance(&mut self, by: Duration) -> Vec<Deadline> {
        let now = {
            let mut outside = self.outside.lock();
            outside.now += by;
            outside.now
        };
        std::iter::from_fn(|| self.cx.timers.expired(now)).collect()
    }

    /// Sends the tickets that come back later to a sink from now on, instead of keeping them.
    pub fn send_tickets_to(&mut self, sink: TicketSink) {
        self.cx.tickets = sink;
    }

    /// Adds a connection that has said who it is.
    pub fn connect(&mut self, proc: &Proc) -> PeerId {
        self.connections += 1;
        let peer = PeerId { door: 0, connection: self.connections };
        let able = Capabilities { waits_at_words: true, votes: true, ..Capabilities::default() };
        self.cx.peers.insert(peer, Peer { capabilities: able, ..Peer::new(proc.clone(), Role::Rank, None) });
        peer
    }

    /// Charges a peer to an account of so many bytes from now on, and returns that.
    pub fn limit_memory(&mut self, peer: PeerId, bytes: u64) -> Account {
        let account = Account::of_job("test", bytes);
        self.cx.peers.get_mut(&peer).expect("a known peer").requests = OpenRequests::of(account.clone());
        account
    }

    /// Charges a peer with a request, which is to be answered.
    pub fn request(&mut self, peer: PeerId) -> Caller {
        self.requests += 1;
        let number = self.requests;
        self.cx.peers.get_mut(&peer).expect("a known peer").requests.open(number, 0);
        Caller { peer, number }
    }

    /// Takes the messages out that are on their way to peers.
    pub fn sent(&mut self) -> Vec<(PeerId, Outgoing)> {
        std::mem::take(&mut self.cx.outbox).into_iter().map(|(peer, message)| (peer, message.made())).collect()
    }

    /// Takes the messages out, and returns the answers among them.
    pub fn replies(&mut self) -> Vec<(Caller, Reply)> {
        let replies = self.sent().into_iter().filter_map(|(peer, message)| match message {
            Outgoing::Reply { number, reply, .. } => Some((Caller { peer, number }, reply)),
            _ => None,
        });
        replies.collect()
    }

    /// Takes the messages out, and returns those among them that nobody has asked for.
    pub fn pushes(&mut self) -> Vec<(PeerId, Push)> {
        let pushes = self.sent().into_iter().filter_map(|(peer, message)| match message {
            Outgoing::Push(push) => Some((peer, push)),
            Outgoing::Shared(push) => Some((peer, Arc::unwrap_or_clone(push))),
            _ => None,
        });
        pushes.collect()
    }

    /// Takes the effects out that are not drained.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.cx.next_effect()).collect()
    }

    /// Takes the oldest ticket that has come back: as an effect of a host that has answered at once, or from elsewhere.
    /// Other effects stay.
    pub fn ticket(&mut self) -> Option<Ticket> {
        match self.cx.effects.iter().position(|effect| matches!(effect, Effect::Returned(_))) {
            Some(at) => match self.cx.effects.remove(at) {
                Some(Effect::Returned(ticket)) => Some(ticket),
                _ => None,
            },
            None => self.outside.lock().tickets.pop_front(),
        }
    }

    /// Runs the work that waits for a thread.
    pub fn run_offloaded(&mut self) {
        self.outside.run_offloaded();
    }

    /// Lets the system have threads from now on, or none.
    pub fn lack_threads(&mut self, lacks: bool) {
        self.outside.lock().lacks_threads = lacks;
    }

    /// Lets the system have few descriptors left.
    pub fn has_few_descriptors(&mut self) {
        self.outside.lock().has_few_descriptors = true;
    }

    /// Calls the embedding program's callbacks.
    pub fn call_back(&mut self) {
        std::mem::take(&mut self.cx.calls).into_iter().for_each(|call| call());
    }
}

/// Returns the name of a process.
pub fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(nspace).expect("a legal name"), Rank(rank))
}
