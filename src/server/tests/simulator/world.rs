//! A run: nodes, ranks and what is under way between them, in one thread and in simulated time.
//!
//! Everything that will happen stands in one queue by its time. Messages of one connection keep their order; all others
//! overtake each other as the seed has it. After each step the world takes what the servers have said, and the model
//! looks at it.
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::client::{Client, Stage};
use super::host::{Ask, Hosts, Purpose, SharedHosts};
use super::log::Log;
use super::machine::{Clock, lock};
use super::manager::{Manager, Outcome};
use super::model::{Broken, Collective, Expected, Model};
use super::node::{Node, register};
use super::plan::Plan;
use super::random::Random;
use crate::data::{Nspace, Status};
use crate::message::door::{Arrival, Capabilities, Claim, Outgoing};
use crate::message::{Reply, Request};
use crate::server::router::Router;

/// Longest way of a message, and of a word between a host and the manager.
const SLOWEST: Duration = Duration::from_millis(40);
/// Time that an answer may take beyond its limit: to the server, and back.
pub const SLACK: Duration = Duration::from_millis(100);
/// Steps after which a run is taken for one without an end.
const MOST_STEPS: u64 = 200_000;

/// Something that will happen.
pub enum Happening {
    /// The host of a node registers a job.
    Registers {
        node: usize,
        job: usize,
    },
    /// A rank is started.
    Starts(usize),
    /// A rank comes to the door of its server.
    Comes(usize),
    /// A rank does the next thing.
    Acts(usize),
    /// A request of a rank comes to its server.
    Asks(usize, u64, Request),
    /// The most frequent request of a rank, in its short form: the count that was seen, and true if data are collected.
    Meets(usize, u64, u32, bool),
    /// A rank is told something.
    Told(usize, Outgoing),
    /// The end of a collective shows at the job's word.
    Released(usize, u64),
    /// A rank is killed.
    Dies(usize),
    /// The connection of a rank is closed for its server.
    Closes(usize),
    /// The kernel says that the process of a rank has ended.
    Ends(usize),
    /// The manager hears a host.
    Hears(usize, Ask),
    /// A host hears the manager.
    Answers(usize, &'static str, Box<dyn FnOnce() + Send>),
    Commands(usize, &'static str, Box<dyn FnOnce(&mut Router) + Send>),
    /// The manager learns that a process has ended.
    Missed(usize),
    /// A node is lost, and the manager learns of it.
    NodeDies(usize),
    NodeMissed(usize),
    /// A server is stopped for so long.
    Stops(usize, Duration),
    /// A server works off what it gave to threads.
    Works(usize),
}

impl Happening {
    /// Returns the node that it needs to run.
    fn node(&self, clients: &[Client]) -> Option<usize> {
        match self {
            Happening::Comes(client)
            | Happening::Asks(client, ..)
            | Happening::Meets(client, ..)
            | Happening::Closes(client)
            | Happening::Ends(client) => Some(clients[*client].node),
            Happening::Registers { node, .. }
            | Happening::Answers(node, ..)
            | Happening::Commands(node, ..)
            | Happening::Works(node) => Some(*node),
            _ => None,
        }
    }
}

/// Place in the queue.
struct Entry {
    at: Duration,
    number: u64,
    happening: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// A run.
pub struct World {
    pub plan: Plan,
    pub clock: Clock,
    pub random: Random,
    queue: BinaryHeap<Reverse<Entry>>,
    number: u64,
    pub nodes: Vec<Node>,
    pub clients: Vec<Client>,
    pub model: Model,
    pub manager: Manager,
    hosts: SharedHosts,
    /// Time of the last word from each host to the manager, which keep their order.
    last_heard: Vec<Duration>,
    /// Requests by the time at which they must have been answered.
    limits: BTreeSet<(Duration, usize, u64)>,
    /// True if a rank has left out what others may wait for.
    pub is_left_out: bool,
    /// Jobs that the hosts have deregistered.
    over: BTreeSet<usize>,
    pub log: Log,
}

impl World {
    /// Creates the world of a seed: nothing has happened yet.
    pub fn new(seed: u64) -> World {
        let mut random = Random::of(seed);
        let plan = Plan::draw(&mut random);
        let clock = Clock::new();
        let hosts = Hosts::shared(random.fork(), plan.faults.refusals);
        let mut manager = Manager::new(random.fork(), hosts.clone(), plan.nodes);
        let nodes = (0..plan.nodes).map(|node| Node::start(node, &plan, &clock, &mut random, &hosts)).collect();
        let mut clients = Vec::new();
        for job in &plan.jobs {
            manager.place(&job.nspace, job.placement.clone());
            clients.extend(job.procs().zip(&job.placement).map(|(proc, node)| Client::new(proc, *node, random.fork())));
        }
        let mut world = World {
            last_heard: vec![Duration::ZERO; plan.nodes],
            plan,
            clock,
            random,
            queue: BinaryHeap::new(),
            number: 0,
            nodes,
            clients,
            model: Model::default(),
            manager,
            hosts,
            limits: BTreeSet::new(),
            is_left_out: false,
            over: BTreeSet::new(),
            log: Log::new(),
        };
        world.begin();
        world
    }

    /// Puts into the queue what the plan has decided.
    fn begin(&mut self) {
        for job in 0..self.plan.jobs.len() {
            for node in 0..self.plan.nodes {
                self.later(SLOWEST, Happening::Registers { node, job });
            }
        }
        let faults = self.plan.faults;
        for client in 0..self.clients.len() {
            if self.random.permille(faults.deaths) {
                let after = Duration::from_millis(self.random.below(3000));
                self.after(after, Happening::Dies(client));
            }
        }
        for node in 0..self.plan.nodes {
            if self.random.permille(faults.lost_nodes / 4) {
                let after = Duration::from_millis(self.random.below(3000));
                self.after(after, Happening::NodeDies(node));
            }
            if self.random.permille(faults.stops) {
                let after = Duration::from_millis(self.random.below(3000));
                let time = Duration::from_millis(self.random.between(1, 4000));
                self.after(after, Happening::Stops(node, time));
            }
        }
    }

    /// Has something happen at that time.
    pub fn at(&mut self, at: Duration, happening: Happening) {
        self.number += 1;
        self.queue.push(Reverse(Entry { at, number: self.number, happening }));
    }

    /// Has something happen after that time.
    pub fn after(&mut self, after: Duration, happening: Happening) {
        self.at(self.clock.passed() + after, happening);
    }

    /// Has something happen within that time.
    pub fn later(&mut self, most: Duration, happening: Happening) {
        let after = Duration::from_nanos(self.random.below(most.as_nanos() as u64));
        self.after(after, happening);
    }

    /// Has a message of a rank come to its server, after those before it.
    pub fn send(&mut self, client: usize, happening: Happening) {
        let way = Duration::from_nanos(self.random.below(SLOWEST.as_nanos() as u64));
        let at = (self.clock.passed() + way).max(self.clients[client].last_sent);
        self.clients[client].last_sent = at;
        self.at(at, happening);
    }

    /// Returns the time of an answer at the latest.
    pub fn limit(&mut self, client: usize, number: u64, until: Duration) {
        self.limits.insert((until, client, number));
    }

    /// Gives a limit up: nobody waits for that answer any more.
    pub fn no_limit(&mut self, client: usize, number: u64, until: Duration) {
        self.limits.remove(&(until, client, number));
    }

    /// Runs until nothing more can happen.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn run(&mut self) -> Result<(), Broken> {
        while self.step()? {}
        self.check_quiet()?;
        self.end_jobs();
        while self.step()? {}
        self.check_end()
    }

    /// Lets the next thing happen; returns whether there was one.
    fn step(&mut self) -> Result<bool, Broken> {
        let due = (0..self.nodes.len()).filter_map(|node| Some((self.nodes[node].due(&self.clock)?, node))).min();
        let queued = self.queue.peek().map(|Reverse(entry)| entry.at);
        let is_due = due.is_some_and(|(at, _)| queued.is_none_or(|queued| at < queued));
        let (at, _) = match (is_due, due, queued) {
            (true, Some(due), _) => due,
            (_, _, Some(at)) => (at, 0),
            _ => return Ok(false),
        };
        self.clock.set(at);
        if let Some((until, client, number)) = self.limits.first().filter(|(until, ..)| *until < at) {
            let what = &self.clients[*client].waiting[number].what;
            return Err(format!("{} has no answer to {what} at {until:?}", self.clients[*client].proc));
        }
        if self.log.steps() > MOST_STEPS {
            return Err(format!("there is no end after {MOST_STEPS} steps"));
        }
        match due.filter(|_| is_due) {
            Some((_, node)) => {
                self.log.note(at, format_args!("n{node}: a deadline"));
                self.nodes[node].reactor.run_deadlines();
                self.nodes[node].reactor.run_slice();
                self.deliver(node);
            }
            None => {
                if let Some(Reverse(entry)) = self.queue.pop() {
                    self.happen(entry)?;
                }
            }
        }
        Ok(true)
    }

    fn happen(&mut self, entry: Entry) -> Result<(), Broken> {
        let Entry { at, happening, .. } = entry;
        let node = happening.node(&self.clients);
        if let Some(node) = node {
            if self.nodes[node].is_dead {
                return Ok(());
            }
            if self.nodes[node].stopped_until > at {
                self.at(self.nodes[node].stopped_until, happening);
                return Ok(());
            }
        }
        match happening {
            Happening::Registers { node, job } => self.register(node, job),
            Happening::Starts(client) => {
                if self.clients[client].stage == Stage::Unborn {
                    self.clients[client].stage = Stage::Coming;
                    self.send(client, Happening::Comes(client));
                }
            }
            Happening::Comes(client) => self.come(client)?,
            Happening::Acts(client) => self.act(client),
            Happening::Asks(client, number, request) => {
                let Client { proc, peer, node, .. } = &self.clients[client];
                self.log.note(at, format_args!("n{node}: {proc} asks {number}: {request:?}"));
                if let Some(peer) = peer {
                    peer.asks_as(number, request);
                    self.nodes[*node].turn();
                }
            }
            Happening::Meets(client, number, seen, collects) => {
                let Client { proc, peer, node, .. } = &self.clients[client];
                self.log
                    .note(at, format_args!("n{node}: {proc} meets all, {number}: seen {seen}, collects {collects}"));
                if let Some(peer) = peer {
                    peer.meets_as(number, seen, collects);
                    self.nodes[*node].turn();
                }
            }
            Happening::Told(client, message) => self.told(client, message)?,
            Happening::Released(client, number) => {
                self.log.note(at, format_args!("{} sees the word change", self.clients[client].proc));
                self.answered(client, number, &Reply::Done(Status::SUCCESS))?;
            }
            Happening::Dies(client) => self.die(client),
            Happening::Closes(client) => {
                let Client { proc, peer, node, .. } = &mut self.clients[client];
                self.log.note(at, format_args!("n{node}: the connection of {proc} is closed"));
                if let Some(peer) = peer.take() {
                    peer.goes();
                    self.nodes[*node].turn();
                }
            }
            Happening::Ends(client) => {
                let Client { proc, node, .. } = &self.clients[client];
                self.log.note(at, format_args!("n{node}: the process of {proc} has ended"));
                let node = &mut self.nodes[*node];
                node.machine.watches_of(proc).into_iter().for_each(|token| node.reactor.watch_ready(token));
            }
            Happening::Hears(node, ask) => {
                self.log.note(at, format_args!("the manager hears n{node}: {ask}"));
                self.manager.hears(node, ask);
                self.carry_out();
            }
            Happening::Answers(node, what, answer) => {
                self.log.note(at, format_args!("n{node}: the host answers: {what}"));
                answer();
                self.nodes[node].reactor.run_commands();
            }
            Happening::Commands(node, what, command) => {
                self.log.note(at, format_args!("n{node}: the host says: {what}"));
                self.nodes[node].command(command);
            }
            Happening::Missed(client) => {
                let proc = self.clients[client].proc.clone();
                self.manager.process_ended(&proc);
                self.carry_out();
                self.tell_of_end(client);
                self.clients[client].is_over = true;
                self.look_whether_over(&proc.nspace);
            }
            Happening::NodeDies(node) => self.lose_node(node),
            Happening::NodeMissed(node) => {
                self.manager.node_ended(node);
                self.carry_out();
            }
            Happening::Stops(node, time) => self.stop(node, time),
            Happening::Works(node) => {
                for work in self.nodes[node].machine.take_work() {
                    work();
                }
                self.nodes[node].reactor.run_commands();
            }
        }
        if let Some(node) = node {
            self.deliver(node);
        }
        Ok(())
    }

    /// A rank comes to the door of its server.
    fn come(&mut self, client: usize) -> Result<(), Broken> {
        let Client { proc, node, is_shown, peer, .. } = &mut self.clients[client];
        self.log.note(self.clock.passed(), format_args!("n{node}: {proc} comes"));
        let node = &mut self.nodes[*node];
        let token = node.reactor.router.jobs.get(&proc.nspace).map(|job| job.token);
        let process = is_shown.then(|| std::fs::File::open("/dev/null").map(OwnedFd::from));
        let process = process.transpose().map_err(|e| format!("/dev/null: {e}"))?;
        let claim = Claim::Process { proc: proc.clone(), token };
        let capabilities = Capabilities { waits_at_words: true, votes: true, ..Capabilities::default() };
        *peer = Some(node.peer_side.arrives(Arrival {
            claim,
            capabilities,
            info: Vec::new(),
            user: None,
            pid: client as i32 + 1,
            process,
        }));
        node.turn();
        Ok(())
    }

    fn register(&mut self, node: usize, job: usize) {
        let plan = self.plan.jobs[job].clone();
        self.log.note(self.clock.passed(), format_args!("n{node}: {} is registered", plan.nspace));
        let clients_first = self.random.permille(300);
        let result = register(&mut self.nodes[node].reactor.router, &plan, node, clients_first);
        self.nodes[node].reactor.run_deadlines();
        let here: Vec<usize> = (0..self.clients.len())
            .filter(|client| self.clients[*client].node == node && self.clients[*client].proc.nspace == plan.nspace)
            .collect();
        for client in here {
            match result {
                Ok(()) => self.later(SLOWEST * 4, Happening::Starts(client)),
                // The host starts nobody where the server has refused the job.
                Err(_) => {
                    self.clients[client].stage = Stage::Ended;
                    self.later(SLOWEST, Happening::Missed(client));
                }
            }
        }
    }

    /// Takes what the server of a node has said, and has it come to where it goes.
    fn deliver(&mut self, node: usize) {
        // The host may have answered at once.
        self.nodes[node].reactor.run_commands();
        if !self.nodes[node].machine.has_no_work() {
            self.later(SLOWEST, Happening::Works(node));
        }
        for client in 0..self.clients.len() {
            if self.clients[client].node != node {
                continue;
            }
            let said = self.clients[client].peer.as_ref().map(|peer| peer.hears()).unwrap_or_default();
            for message in said {
                let way = Duration::from_nanos(self.random.below(SLOWEST.as_nanos() as u64));
                let at = (self.clock.passed() + way).max(self.clients[client].last_told);
                self.clients[client].last_told = at;
                self.at(at, Happening::Told(client, message));
            }
            self.look_at_word(client);
        }
        let asks = lock(&self.hosts).take();
        for (node, ask) in asks {
            let way = Duration::from_nanos(self.random.below(SLOWEST.as_nanos() as u64));
            let at = (self.clock.passed() + way).max(self.last_heard[node]);
            self.last_heard[node] = at;
            self.at(at, Happening::Hears(node, ask));
        }
    }

    /// Looks whether a rank that waits at its job's word is released.
    fn look_at_word(&mut self, client: usize) {
        let Client { proc, node, waiting, .. } = &mut self.clients[client];
        let Some((number, word)) = waiting.iter_mut().find_map(|(number, one)| Some((*number, one.word.as_mut()?)))
        else {
            return;
        };
        let store = self.nodes[*node].reactor.router.jobs.store(&proc.nspace);
        if store.is_some_and(|store| store.releases() != *word) {
            waiting.entry(number).and_modify(|one| one.word = None);
            let at = self.clock.passed();
            self.at(at, Happening::Released(client, number));
        }
    }

    /// Does what the manager has decided.
    fn carry_out(&mut self) {
        for outcome in std::mem::take(&mut self.manager.outcomes) {
            match outcome {
                Outcome::Answer(node, what, answer) => self.later(SLOWEST, Happening::Answers(node, what, answer)),
                Outcome::Command(node, what, command) => self.later(SLOWEST, Happening::Commands(node, what, command)),
                Outcome::Kill(proc) => {
                    let victim = self.clients.iter().position(|client| client.proc == proc);
                    victim.into_iter().for_each(|victim| self.later(SLOWEST, Happening::Dies(victim)));
                }
            }
        }
    }

    fn told(&mut self, client: usize, message: Outgoing) -> Result<(), Broken> {
        let Client { proc, stage, .. } = &self.clients[client];
        if *stage == Stage::Ended {
            return Ok(());
        }
        let at = self.clock.passed();
        match message {
            Outgoing::Accepted { proc: as_whom, .. } => {
                self.log.note(at, format_args!("{proc} is let in"));
                if as_whom != *proc {
                    return Err(format!("{proc} is let in as {as_whom}"));
                }
                self.clients[client].stage = Stage::In;
                self.later(SLOWEST, Happening::Acts(client));
                Ok(())
            }
            Outgoing::Refused { status, .. } => {
                self.log.note(at, format_args!("{proc} is refused: {status}"));
                self.end(client);
                Ok(())
            }
            Outgoing::Reply { number, reply, .. } => {
                self.log.note(at, format_args!("{proc} is answered {number}: {reply:?}"));
                self.answered(client, number, &reply)
            }
            Outgoing::Push(push) => {
                self.log.note(at, format_args!("{proc} is told {push:?}"));
                Ok(())
            }
            Outgoing::Shared(push) => {
                self.log.note(at, format_args!("{proc} is told {push:?}"));
                Ok(())
            }
            // Nothing that a rank sends here is long.
            Outgoing::GoOn => Ok(()),
            Outgoing::End => {
                self.log.note(at, format_args!("{proc} is cut off"));
                self.end(client);
                Ok(())
            }
        }
    }

    /// A rank has an answer.
    fn answered(&mut self, client: usize, number: u64, reply: &Reply) -> Result<(), Broken> {
        let Client { proc, node, waiting, groups, stage, .. } = &mut self.clients[client];
        if *stage == Stage::Ended {
            return Ok(());
        }
        if number == 0 {
            self.model.failed_to_commit(proc);
            return Ok(());
        }
        let Some(one) = waiting.remove(&number) else {
            // It was on its way when the rank said goodbye.
            if *stage == Stage::Leaving {
                return Ok(());
            }
            return Err(format!("{proc} is answered {number}, which it does not wait for: {reply:?}"));
        };
        if let Some(until) = one.until {
            self.limits.remove(&(until, client, number));
        }
        self.model.answered(&self.nodes[*node], proc, &one.expected, reply)?;
        if let (Expected::Met(Collective { group: Some(group), .. }, _), Reply::Infos(Status::SUCCESS, _)) =
            (&one.expected, reply)
        {
            groups.insert(group.clone());
        }
        let is_made = matches!(reply, Reply::Done(Status::SUCCESS) | Reply::Infos(Status::SUCCESS, _));
        if !is_made && matches!(&one.expected, Expected::Met(collective, _) if collective.purpose != Purpose::Fence) {
            // Those who have made it wait for this one to end it with them.
            self.is_left_out = true;
        }
        match one.expected {
            Expected::Goodbye => self.end(client),
            _ if one.blocks => self.later(SLOWEST, Happening::Acts(client)),
            _ => {}
        }
        Ok(())
    }

    /// A rank is killed.
    fn die(&mut self, client: usize) {
        let Client { proc, stage, .. } = &self.clients[client];
        if *stage != Stage::Ended {
            self.log.note(self.clock.passed(), format_args!("{proc} is killed"));
            self.end(client);
        }
    }

    /// A rank has ended: server and manager learn of it, in any order.
    fn end(&mut self, client: usize) {
        self.clients[client].stage = Stage::Ended;
        for (number, one) in std::mem::take(&mut self.clients[client].waiting) {
            one.until.into_iter().for_each(|until| _ = self.limits.remove(&(until, client, number)));
        }
        self.send(client, Happening::Closes(client));
        if self.clients[client].is_shown {
            let after = self.clients[client].last_sent + Duration::from_millis(self.random.below(50));
            self.at(after, Happening::Ends(client));
        }
        self.later(SLOWEST * 20, Happening::Missed(client));
    }

    /// The host of a rank that has ended tells its server: until then the server waits for one that is started anew.
    fn tell_of_end(&mut self, client: usize) {
        let Client { proc, node, .. } = &self.clients[client];
        let (proc, node) = (proc.clone(), *node);
        let forget = move |router: &mut Router| router.deregister_client(&proc, Box::new(|_| ()));
        self.later(SLOWEST, Happening::Commands(node, "a process has ended", Box::new(forget)));
    }

    fn lose_node(&mut self, node: usize) {
        if self.nodes[node].is_dead {
            return;
        }
        self.log.note(self.clock.passed(), format_args!("n{node} is lost"));
        self.nodes[node].is_dead = true;
        for client in 0..self.clients.len() {
            if self.clients[client].node == node && self.clients[client].stage != Stage::Ended {
                self.end(client);
            }
        }
        self.later(SLOWEST * 20, Happening::NodeMissed(node));
    }

    /// A server is stopped: what its ranks wait for may take as much longer.
    fn stop(&mut self, node: usize, time: Duration) {
        self.log.note(self.clock.passed(), format_args!("n{node} is stopped for {time:?}"));
        self.nodes[node].stopped_until = self.clock.passed() + time;
        let of_node = |client: &usize| self.clients[*client].node == node;
        let (stopped, others): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.limits).into_iter().partition(|(_, client, _)| of_node(client));
        self.limits = others;
        for (until, client, number) in stopped {
            let until = until + time;
            self.limits.insert((until, client, number));
            self.clients[client].waiting.entry(number).and_modify(|one| one.until = Some(until));
        }
    }

    /// The hosts deregister a job of which all processes have ended.
    fn look_whether_over(&mut self, nspace: &Nspace) {
        if self.clients.iter().filter(|client| client.proc.nspace == *nspace).all(|client| client.is_over) {
            self.end_job(nspace);
        }
    }

    fn end_job(&mut self, nspace: &Nspace) {
        let Some(job) = self.plan.jobs.iter().position(|job| job.nspace == *nspace) else { return };
        if !self.over.insert(job) {
            return;
        }
        self.manager.job_over(nspace);
        for node in 0..self.nodes.len() {
            let over = nspace.clone();
            let deregister = move |router: &mut Router| router.deregister_nspace(&over, Box::new(|_| ()));
            self.later(SLOWEST * 3, Happening::Commands(node, "a job is over", Box::new(deregister)));
        }
    }

    /// The hosts end the jobs that do not end by themselves, where that is no fault of a server.
    fn end_jobs(&mut self) {
        for job in self.plan.jobs.clone() {
            self.end_job(&job.nspace);
        }
    }

    /// Checks that nobody waits, where hosts say who will not come any more.
    fn check_quiet(&self) -> Result<(), Broken> {
        // Ranks that leave out what others wait for may all wait without a fault of a server.
        match self.plan.faults.system == 0 && !self.is_left_out {
            true => self.check_nobody_waits(),
            false => Ok(()),
        }
    }

    fn check_nobody_waits(&self) -> Result<(), Broken> {
        let left = self.clients.iter().filter(|client| client.stage != Stage::Ended);
        let waits = |client: &Client| {
            let what: Vec<&str> = client.waiting.values().map(|one| one.what.as_str()).collect();
            format!("{} is {:?} and waits for {what:?} when nothing more can happen", client.proc, client.stage)
        };
        let left: Vec<String> = left.map(waits).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    }

    /// Checks that nothing is left.
    fn check_end(&self) -> Result<(), Broken> {
        self.check_nobody_waits()?;
        if self.manager.waiting() > 0 {
            return Err(format!("{} requests of servers are not answered", self.manager.waiting()));
        }
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.is_dead) {
            node.check_empty().map_err(|left| format!("n{number} has {left} when all jobs are over"))?;
        }
        Ok(())
    }
}
