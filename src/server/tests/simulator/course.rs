//! Course of a run: one thing after the other, until nothing more can happen.
//!
//! Messages of one connection keep their order; all others overtake each other as the seed has it. After each step the
//! world takes what the servers have said, and the model looks at it.
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::bugs::Bug;
use super::client::{Client, Stage};
use super::node::register;
use super::queue::Happening;
use super::rules::{Broken, Rule};
use super::world::{SLOWEST, World};
use crate::data::Status;
use crate::message::Reply;
use crate::message::door::{Arrival, Capabilities, Claim};

/// Steps after which a run is taken for one without an end.
const MOST_STEPS: u64 = 200_000;

impl World {
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
        let queued = self.queue.next_time();
        let is_due = due.is_some_and(|(at, _)| queued.is_none_or(|queued| at < queued));
        let (at, _) = match (is_due, due, queued) {
            (true, Some(due), _) => due,
            (_, _, Some(at)) => (at, 0),
            _ => return Ok(false),
        };
        self.clock.set(at);
        if let Some((until, client, number)) = self.limits.first().filter(|(until, ..)| *until < at) {
            let what = &self.clients[*client].waiting[number].what;
            return Rule::LimitKept
                .broken(format!("{} has no answer to {what} at {until:?}", self.clients[*client].proc));
        }
        if self.log.steps() > MOST_STEPS {
            return Err(format!("there is no end after {MOST_STEPS} steps").into());
        }
        match due.filter(|_| is_due) {
            Some((_, node)) => {
                self.log.note(at, format_args!("n{node}: a deadline"));
                self.nodes[node].reactor.run_deadlines();
                self.nodes[node].reactor.run_slice();
                self.deliver(node);
            }
            None => {
                if let Some((at, happening)) = self.queue.pop() {
                    self.happen(at, happening)?;
                }
            }
        }
        Ok(true)
    }

    /// Lets something happen, unless it needs a node that is lost or stopped.
    fn happen(&mut self, at: Duration, happening: Happening) -> Result<(), Broken> {
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
                let waiting = self.clients[client].waiting.get(&number);
                let reply = waiting.map_or(Reply::Done(Status::SUCCESS), |one| one.at_word.clone());
                self.answered(client, number, &reply)?;
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
            Happening::Missed(client) => self.missed(client),
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

    /// The host of a node registers a job with its server, and starts the ranks there.
    fn register(&mut self, node: usize, job: usize) {
        let plan = self.plan.jobs[job].clone();
        self.log.note(self.clock.passed(), format_args!("n{node}: {} is registered", plan.nspace));
        let clients_first = self.random.permille(300);
        let router = &mut self.nodes[node].reactor.router;
        let result = register(router, &plan, node, clients_first);
        if self.bug == Some(Bug::TiesStrangers) {
            self.plan.jobs.iter().for_each(|other| router.connections.tie(plan.nspace.clone(), other.nspace.clone()));
        }
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
        if left.is_empty() { Ok(()) } else { Rule::NobodyWaits.broken(left.join("\n")) }
    }

    /// Checks that nothing is left.
    fn check_end(&self) -> Result<(), Broken> {
        self.check_nobody_waits()?;
        if self.manager.waiting() > 0 {
            return Rule::NothingLeft
                .broken(format!("{} requests of servers are not answered", self.manager.waiting()));
        }
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.is_dead) {
            if let Err(left) = node.check_empty() {
                return Rule::NothingLeft.broken(format!("n{number} has {left} when all jobs are over"));
            }
        }
        Ok(())
    }
}
