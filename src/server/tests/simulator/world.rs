//! State of a run: nodes, ranks and manager, what will happen, and by when answers are due.
use std::collections::BTreeSet;
use std::time::Duration;

use super::bugs::Bug;
use super::client::{Client, Waiting};
use super::host::{Hosts, SharedHosts};
use super::log::Log;
use super::machine::Clock;
use super::manager::{Manager, Outcome};
use super::model::Model;
use super::node::Node;
use super::plan::Plan;
use super::queue::{Happening, Queue};
use super::random::Random;

/// Longest way of a message, and of a word between a host and the manager.
pub const SLOWEST: Duration = Duration::from_millis(40);

/// A run.
pub struct World {
    pub plan: Plan,
    /// The seeded bug that it has.
    pub bug: Option<Bug>,
    pub clock: Clock,
    pub random: Random,
    pub queue: Queue,
    pub nodes: Vec<Node>,
    pub clients: Vec<Client>,
    pub model: Model,
    pub manager: Manager,
    pub hosts: SharedHosts,
    /// Time of the last word from each host to the manager, which keep their order.
    pub last_heard: Vec<Duration>,
    /// Requests by the time at which they must have been answered.
    pub limits: BTreeSet<(Duration, usize, u64)>,
    /// True if a rank has left out what others may wait for.
    pub is_left_out: bool,
    /// Jobs that the hosts have deregistered.
    pub over: BTreeSet<usize>,
    pub log: Log,
}

impl World {
    /// Creates the world of a seed, with a bug or without: nothing has happened yet.
    pub fn new(seed: u64, bug: Option<Bug>) -> World {
        let mut random = Random::of(seed);
        let plan = Plan::draw(&mut random);
        let clock = Clock::new();
        let hosts = Hosts::shared(random.fork(), plan.faults.refusals);
        let mut manager = Manager::new(random.fork(), hosts.clone(), plan.nodes, bug);
        let nodes = (0..plan.nodes).map(|node| Node::start(node, &plan, &clock, &mut random, &hosts)).collect();
        let mut clients = Vec::new();
        for job in &plan.jobs {
            manager.place(&job.nspace, job.placement.clone());
            clients.extend(job.procs().zip(&job.placement).map(|(proc, node)| Client::new(proc, *node, random.fork())));
        }
        let model = Model::new(plan.faults.memory.is_some());
        let mut world = World {
            last_heard: vec![Duration::ZERO; plan.nodes],
            plan,
            bug,
            clock,
            random,
            queue: Queue::default(),
            nodes,
            clients,
            model,
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
        self.queue.push(at, happening);
    }

    /// Has something happen after that time.
    pub fn after(&mut self, after: Duration, happening: Happening) {
        self.at(self.clock.passed() + after, happening);
    }

    /// Has something happen within that time.
    pub fn later(&mut self, most: Duration, happening: Happening) {
        let at = self.within(most);
        self.at(at, happening);
    }

    /// Draws a time that is at most so far away.
    pub fn within(&mut self, most: Duration) -> Duration {
        self.clock.passed() + Duration::from_nanos(self.random.below(most.as_nanos() as u64))
    }

    /// Has a message of a rank come to its server, after those before it.
    pub fn send(&mut self, client: usize, happening: Happening) {
        let at = self.within(SLOWEST).max(self.clients[client].last_sent);
        self.clients[client].last_sent = at;
        self.at(at, happening);
    }

    /// Returns the time of an answer at the latest.
    pub fn limit(&mut self, client: usize, number: u64, until: Duration) {
        self.limits.insert((until, client, number));
    }

    /// Gives a request up: its answer has come, or nobody waits for it any more.
    pub fn no_longer_awaits(&mut self, client: usize, number: u64) -> Option<Waiting> {
        let one = self.clients[client].waiting.remove(&number)?;
        one.until.into_iter().for_each(|until| _ = self.limits.remove(&(until, client, number)));
        Some(one)
    }

    /// Gives up all requests of a rank.
    pub fn awaits_nothing(&mut self, client: usize) {
        while let Some(number) = self.clients[client].waiting.keys().next().copied() {
            self.no_longer_awaits(client, number);
        }
    }

    /// Puts into the queue what the manager has decided.
    pub fn carry_out(&mut self) {
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
}
