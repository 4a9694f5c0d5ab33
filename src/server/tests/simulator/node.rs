//! One node: a server as it runs, but for the threads, the sockets and the clock.
use std::sync::Arc;
use std::time::Duration;

use super::host::{SharedHosts, SimHost};
use super::machine::{Clock, Machine};
use super::plan::{JobPlan, Plan};
use super::random::Random;
use crate::data::{Info, Nspace, Proc, Rank, Status, keys};
use crate::message::door::Ready;
use crate::server::config::ServerConfig;
use crate::server::ctx::{Ctx, Identity};
use crate::server::fork_environment::{Common, ForkEnvironments};
use crate::server::mailbox::Mailbox;
use crate::server::reactor::Reactor;
use crate::server::router::Router;
use crate::server::tests::channel_door::{self, PeerSide};
use crate::store::JobInfoBuilder;

/// A server, and what a run knows of its node.
pub struct Node {
    pub reactor: Reactor,
    mailbox: Mailbox<Router>,
    pub peer_side: PeerSide,
    pub machine: Machine,
    pub is_dead: bool,
    /// Time until which it is stopped.
    pub stopped_until: Duration,
}

impl Node {
    /// Starts the server of a node.
    pub fn start(node: usize, plan: &Plan, clock: &Clock, random: &mut Random, hosts: &SharedHosts) -> Node {
        let config = ServerConfig {
            nspace: Nspace::new("servers").expect("a legal name"),
            rank: Rank(node as u32),
            hostname: format!("n{node}").as_str().try_into().expect("a legal name"),
            memory_limit: plan.faults.memory,
            job_memory: 64 << 20,
            ..ServerConfig::default()
        };
        let (door, peer_side) = channel_door::open();
        let (mailbox, commands) = Mailbox::new(|| ());
        let machine = Machine::new(clock.clone(), random.fork(), plan.faults.system);
        let identity = Identity {
            proc: Proc::new(config.nspace.clone(), config.rank),
            nonce: node as u64 + 1,
            uid: 0,
            gid: 0,
            uri: format!("n{node}"),
        };
        let host = Arc::new(SimHost::new(node, hosts.clone()));
        let sink = mailbox.clone();
        let tickets = Arc::new(move |ticket| {
            // A server that has ended has nobody waiting.
            let _ = sink.post(move |router: &mut Router| router.redeem(ticket));
        });
        let cx = Ctx::new(Arc::new(config), identity, host, Box::new(machine.clone()), tickets);
        let router = Router::new(cx, ForkEnvironments::new(Common::default()), None);
        let reactor = Reactor::new(router, vec![Box::new(door)], commands);
        Node { reactor, mailbox, peer_side, machine, is_dead: false, stopped_until: Duration::ZERO }
    }

    /// Lets the door act on what peers have sent.
    pub fn turn(&mut self) {
        self.reactor.ready(0, 0, Ready { readable: true, writable: false, ended: false });
    }

    /// Has the server run a command of its host.
    pub fn command(&mut self, command: impl FnOnce(&mut Router) + Send + 'static) {
        self.mailbox.post(command).expect("the server runs");
        self.reactor.run_commands();
    }

    /// Returns the time at which something is due though nothing happens.
    pub fn due(&self, clock: &Clock) -> Option<Duration> {
        let at = self.reactor.next_deadline().filter(|_| !self.is_dead)?;
        Some(clock.since_begin(at).max(self.stopped_until).max(clock.passed()))
    }
}

/// Returns what the host of a node says of a job.
pub fn job_info(job: &JobPlan, node: usize) -> Vec<Info> {
    let ranks_on = |node: usize| -> String {
        let ranks = job.placement.iter().enumerate().filter(|(_, at)| **at == node);
        ranks.map(|(rank, _)| rank.to_string()).collect::<Vec<_>>().join(",")
    };
    let mut used = job.placement.clone();
    used.sort_unstable();
    used.dedup();
    let names: Vec<String> = used.iter().map(|node| format!("n{node}")).collect();
    let maps: Vec<String> = used.iter().map(|node| ranks_on(*node)).collect();
    vec![
        Info::new(keys::JOB_SIZE, job.placement.len() as u32),
        Info::new(keys::NODE_MAP, names.join(",").as_str()),
        Info::new(keys::PROC_MAP, maps.join(";").as_str()),
        Info::new(keys::LOCAL_PEERS, ranks_on(node).as_str()),
    ]
}

/// Registers a job with the server of a node; the processes first, or the namespace.
pub fn register(router: &mut Router, job: &JobPlan, node: usize, clients_first: bool) -> Result<(), Status> {
    let local: Vec<Proc> = job.procs().filter(|proc| job.placement[proc.rank.0 as usize] == node).collect();
    let Router { cx, jobs, .. } = router;
    let mut clients = || local.iter().try_for_each(|proc| jobs.register_client(cx, proc, 1, 1));
    if clients_first {
        clients()?;
    }
    let mut info = JobInfoBuilder::new(&job.nspace, local.len() as u32, &format!("n{node}"));
    let info = info.infos(&job_info(job, node)).map(|()| info);
    router.jobs.register(&mut router.cx, &job.nspace, local.len(), info)?;
    let Router { cx, jobs, .. } = router;
    local.iter().try_for_each(|proc| jobs.register_client(cx, proc, 1, 1))
}

impl Node {
    /// Checks that the server keeps nothing of jobs that are over: its rooms look as those of a new one, but for the
    /// numbers that they count.
    ///
    /// # Errors
    /// Names what is left.
    pub fn check_empty(&self) -> Result<(), String> {
        match self.machine.watched() {
            0 => self.reactor.router.check_empty(),
            watched => Err(format!("{watched} watches")),
        }
    }
}
