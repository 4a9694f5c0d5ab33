//! The context that the router lends to every room: peers, subscriptions, clock, timers, host, outbox.
//!
//! Rooms own their state and borrow everything else from here. Nothing in this folder names a room, a collective or a
//! job.
//!
//! **Peers** ([`peers`]) are connections that have said who they are, each with its open requests ([`open_requests`]), charged to
//! the account of its process ([`accounts`]) and given back with their answers.
//!
//! **Subscriptions** ([`subscriptions`]) say which peer wants to hear of which event codes, and [`awaited`] whose data
//! is waited for.
//!
//! **The system** ([`system`]) is behind a trait: clock, randomness, worker threads, watches of processes. No room
//! reads a clock or makes a system call, so a simulator can drive them all.
//!
//! **Tickets** ([`ticket`]) are what comes back later: the host's answer, a worker's result, a deadline. A ticket names
//! by number the state that a room keeps for it; it is no closure over the server.
//!
//! **Events** ([`event`]) and their audiences ([`audience`]) are what any room can raise. [`proc_set`] holds processes
//! that a peer names.
//!
//! **Slices** ([`slices`]) are what rooms do a little at a time. **The meter** ([`meter`]) counts the processor time of
//! steps.
//!
//! **Effects** ([`effect`]) are what a step in one room means to others. The router drains them in
//! order, before anything is sent.
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::config::ServerConfig;
use super::host::{Accepted, Answer, Answered, Completion, Host};
use crate::account::{Charge, Kind};
use crate::data::{Proc, Status};
use crate::message::Reply;
use crate::message::door::{Making, Outgoing, PeerId};
use crate::message::numbers::NumberMap;
use crate::store::Budget;
use crate::sys::stopwatch::Stopwatch;

pub mod accounts;
pub mod audience;
pub mod awaited;
mod done;
pub mod effect;
pub mod event;
pub mod ids;
pub mod meter;
pub mod open_requests;
pub mod peers;
pub mod proc_set;
pub mod slices;
pub mod subscriptions;
pub mod system;
#[cfg(test)]
pub mod testing;
pub mod ticket;
pub mod timers;

use accounts::Accounts;
use awaited::Awaited;
pub use done::Done;
use effect::Effect;
use meter::Meter;
use peers::{Caller, Peer, Role};
use slices::Slice;
use subscriptions::Subscriptions;
use system::System;
use ticket::Ticket;
use timers::{Deadline, TimerId, Timers};

/// Way by which tickets of other threads reach the control thread.
pub type TicketSink = Arc<dyn Fn(Ticket) + Send + Sync>;

/// Identity of a server, to its peers and to other servers.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The server's name.
    pub proc: Proc,
    /// Random number that tells this server's blobs from those of another one of that name.
    pub nonce: u64,
    /// User and group that the server runs as.
    pub uid: u32,
    pub gid: u32,
    /// Address that peers are told when they are let in.
    pub uri: String,
}

/// Everything that rooms share.
pub struct Ctx {
    pub config: Arc<ServerConfig>,
    pub identity: Identity,
    pub host: Arc<dyn Host>,
    pub peers: NumberMap<PeerId, Peer>,
    pub accounts: Accounts,
    pub subscriptions: Subscriptions,
    pub awaited: Awaited,
    pub timers: Timers<Deadline>,
    pub system: Box<dyn System>,
    pub meter: Meter,
    /// Peer that this step counts for, where a room says so.
    pub counts_for: Option<PeerId>,
    /// Number of processes that collectives have ended for in this turn of a door.
    pub ended: usize,
    /// Processor time of threads, and the peers that it counts for.
    pub worked: Vec<(PeerId, Duration)>,
    /// Work that goes on, the oldest first.
    pub slices: VecDeque<Slice>,
    /// Messages on their way to peers, in order.
    pub outbox: Vec<(PeerId, Outgoing)>,
    /// Callbacks of the embedding program, called when the step that leads to them is over.
    pub calls: Vec<Box<dyn FnOnce() + Send>>,
    /// True if the control thread ends after this step.
    pub stopping: bool,
    effects: VecDeque<Effect>,
    tickets: TicketSink,
}

impl Ctx {
    /// Creates the context of a server that nobody has come to yet.
    pub fn new(
        config: Arc<ServerConfig>,
        identity: Identity,
        host: Arc<dyn Host>,
        system: Box<dyn System>,
        tickets: TicketSink,
    ) -> Self {
        let shared = Budget::new(config.memory_limit.unwrap_or(u64::MAX));
        Ctx {
            accounts: Accounts::sharing(shared, config.job_memory, config.memory_of_user()),
            config,
            identity,
            host,
            peers: NumberMap::default(),
            subscriptions: Subscriptions::default(),
            awaited: Awaited::default(),
            timers: Timers::default(),
            system,
            meter: Meter::default(),
            counts_for: None,
            ended: 0,
            worked: Vec::new(),
            slices: VecDeque::new(),
            outbox: Vec::new(),
            calls: Vec::new(),
            stopping: false,
            effects: VecDeque::new(),
            tickets,
        }
    }

    /// The way by which tickets of other threads come back.
    pub fn ticket_sink(&self) -> TicketSink {
        self.tickets.clone()
    }

    /// The server's own name.
    pub fn own_name(&self) -> Proc {
        self.identity.proc.clone()
    }

    /// Returns true if a peer is the program that embeds this server, and no process of a job.
    pub fn is_program(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|peer| peer.role == Role::Program)
    }

    /// The time of this step.
    pub fn now(&self) -> Instant {
        self.system.now()
    }

    /// Sets a deadline.
    pub fn set_deadline(&mut self, after: Duration, deadline: Deadline) -> TimerId {
        let at = self.now() + after;
        self.timers.set(at, deadline)
    }

    /// Has the router act on something that happened here and matters elsewhere.
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Takes the oldest effect that is not drained.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Charges the process of a peer for what is kept for it beside its requests.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` over its limit or that of its job, and for a peer that is gone.
    pub fn charge(&self, peer: PeerId, kind: Kind, bytes: usize) -> Result<Charge, Status> {
        let account = self.peers.get(&peer).map(|entry| entry.requests.account());
        account.and_then(|account| account.charge(kind, bytes)).ok_or(Status::ERR_OUT_OF_RESOURCE)
    }

    /// Charges the jobs of peers for data that these exchange, with an equal part for each of them.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` over the limit of one of the jobs.
    pub fn charge_jobs(&self, peers: &[PeerId], bytes: usize) -> Result<Vec<Charge>, Status> {
        let part = bytes.div_ceil(peers.len().max(1));
        let accounts = peers.iter().filter_map(|peer| Some(self.peers.get(peer)?.requests.account().of_its_job()));
        let charges = accounts.map(|account| account.charge(Kind::Collective, part)).collect::<Option<_>>();
        charges.ok_or(Status::ERR_OUT_OF_RESOURCE)
    }

    /// Puts a message on its way.
    pub fn send(&mut self, peer: PeerId, message: Outgoing) {
        self.outbox.push((peer, message));
    }

    /// Gives the embedding program a result, when this step is over.
    pub fn finish<T: Send + 'static>(
        &mut self,
        done: impl FnOnce(Result<T, Status>) + Send + 'static,
        result: Result<T, Status>,
    ) {
        self.calls.push(Box::new(move || done(result)));
    }

    /// Answers a request; a peer that has gone gets no answer.
    pub fn reply(&mut self, peer: PeerId, number: u64, reply: Reply) {
        self.reply_with(peer, number, reply, Vec::new());
    }

    /// Answers a request with descriptors.
    pub fn reply_with(&mut self, peer: PeerId, number: u64, reply: Reply, descriptors: Vec<OwnedFd>) {
        if let Some(entry) = self.peers.get_mut(&peer) {
            entry.requests.close(number);
            if number == 0 {
                // Nobody waits for it: only a failure is told.
                if matches!(&reply, Reply::Done(Status::SUCCESS) | Reply::Infos(Status::SUCCESS, _)) {
                    return;
                }
                entry.has_bad_news = true;
            }
            self.send(peer, Outgoing::Reply { number, reply, descriptors });
        }
    }

    /// Answers a request with what is still to be made.
    pub fn answer_made(&mut self, caller: Caller, answer: Making) {
        if let Some(entry) = self.peers.get_mut(&caller.peer) {
            entry.requests.close(caller.number);
            let answer = answer.let_wait(entry.requests.account());
            self.send(caller.peer, Outgoing::Made { number: caller.number, answer });
        }
    }

    /// Answers a request that has nothing but a status to bring.
    pub fn reply_status(&mut self, peer: PeerId, number: u64, result: Result<(), Status>) {
        self.reply(peer, number, Reply::Done(result.err().unwrap_or(Status::SUCCESS)));
    }

    /// Answers a request.
    pub fn answer(&mut self, caller: Caller, reply: Reply) {
        self.reply(caller.peer, caller.number, reply);
    }

    /// Answers a request that has nothing but a status to bring.
    pub fn answer_status(&mut self, caller: Caller, result: Result<(), Status>) {
        self.reply_status(caller.peer, caller.number, result);
    }

    /// Calls the host with no lock held. Its answer comes back as the ticket that `ticket` makes of it: as an
    /// effect of this step where the host did it or will not (`done` stands for what it would bring), else
    /// whenever the host answers.
    pub fn ask_host<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&dyn Host, Completion<T>) -> Accepted,
        done: T,
        ticket: impl FnOnce(Result<T, Status>) -> Ticket + Send + 'static,
    ) {
        self.ask_host_for(ask, done, |answered| ticket(answered.get()));
    }

    fn ask_host_for<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&dyn Host, Completion<T>) -> Accepted,
        done: T,
        ticket: impl FnOnce(Answered<T>) -> Ticket + Send + 'static,
    ) {
        // The one of the host's two ways to answer that comes first takes the ticket.
        let ticket = Arc::new(Mutex::new(Some(ticket)));
        let (later, tickets) = (ticket.clone(), self.tickets.clone());
        let completion = Completion::of(move |answered| {
            let ticket = later.lock().ok().and_then(|mut ticket| ticket.take());
            if let Some(ticket) = ticket {
                tickets(ticket(answered));
            }
        });
        let host = self.host.clone();
        let kind = std::any::type_name_of_val(&ask);
        let result = match self.call_host(|| ask(&*host, completion), kind) {
            Ok(Answer::Later) => return,
            Ok(Answer::Done) => Ok(done),
            Err(status) => Err(status),
        };
        let ticket = ticket.lock().ok().and_then(|mut ticket| ticket.take());
        if let Some(ticket) = ticket {
            self.effect(Effect::Returned(ticket(Answered::Is(result))));
        }
    }

    /// Passes a peer's request on to the host, whose answer is the reply: `reply` makes it of what the host brings.
    pub fn forward<T: Send + 'static>(
        &mut self,
        caller: Caller,
        ask: impl FnOnce(&dyn Host, Completion<T>) -> Accepted,
        done: T,
        reply: fn(T) -> Reply,
    ) {
        self.ask_host_for(ask, done, move |answered| match answered {
            Answered::Is(result) => Ticket::Reply(caller, result.map_or_else(Reply::Done, reply)),
            Answered::WillBe(bytes, make) => Ticket::Made(caller, Making::new(bytes, move || reply(make()))),
        });
    }

    /// Runs work that may block in a thread of its own; its result comes back as a ticket.
    ///
    /// # Errors
    /// The system's error, when it has no thread to give.
    pub fn offload(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Ticket + Send + 'static,
    ) -> std::io::Result<system::Worker> {
        let tickets = self.tickets.clone();
        self.system.offload(name, Box::new(move || tickets(work())))
    }

    /// [Runs work](Self::offload) whose processor time counts as that of peers, in equal parts.
    ///
    /// # Errors
    /// As [`offload`](Self::offload).
    pub fn offload_for(
        &mut self,
        peers: Vec<PeerId>,
        name: &'static str,
        work: impl FnOnce() -> Ticket + Send + 'static,
    ) -> std::io::Result<system::Worker> {
        let tickets = self.tickets.clone();
        let work = move || {
            let begin = Stopwatch::begin();
            let ticket = work();
            // A peer is held, where it has to be, before it may go on.
            tickets(Ticket::Worked(peers, begin.elapsed()));
            tickets(ticket);
        };
        self.system.offload(name, Box::new(work))
    }

    /// [Runs work](Self::offload_for) with something that is needed here where no thread is to be had.
    ///
    /// # Errors
    /// The thing that was given, and why there is no thread.
    pub fn offload_with<T: Send + 'static>(
        &mut self,
        peers: Vec<PeerId>,
        name: &'static str,
        thing: T,
        work: impl FnOnce(T) -> Ticket + Send + 'static,
    ) -> Result<(), (T, std::io::Error)> {
        let shared = Arc::new(Mutex::new(Some(thing)));
        let theirs = shared.clone();
        let taken = |shared: &Mutex<Option<T>>| shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        match self.offload_for(peers, name, move || taken(&theirs).map_or(Ticket::Ignored, work)) {
            Ok(_) => Ok(()),
            Err(e) => taken(&shared).map_or(Ok(()), |thing| Err((thing, e))),
        }
    }
}
