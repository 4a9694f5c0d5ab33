//! Ends of ranks, nodes and jobs. Servers and manager learn of each, in any order.
use std::time::Duration;

use super::bugs::Bug;
use super::client::{Client, Stage};
use super::queue::Happening;
use super::world::{SLOWEST, World};
use crate::data::Nspace;
use crate::server::router::Router;

impl World {
    /// A rank is killed.
    pub fn die(&mut self, client: usize) {
        let Client { proc, stage, .. } = &self.clients[client];
        if *stage != Stage::Ended {
            self.log.note(self.clock.passed(), format_args!("{proc} is killed"));
            self.end(client);
        }
    }

    /// A rank has ended: server and manager learn of it, in any order.
    pub fn end(&mut self, client: usize) {
        self.clients[client].stage = Stage::Ended;
        self.awaits_nothing(client);
        self.send(client, Happening::Closes(client));
        if self.clients[client].is_shown {
            let after = self.clients[client].last_sent + Duration::from_millis(self.random.below(50));
            self.at(after, Happening::Ends(client));
        }
        self.later(SLOWEST * 20, Happening::Missed(client));
    }

    /// The manager learns that the process of a rank has ended, and its host is told.
    pub fn missed(&mut self, client: usize) {
        let proc = self.clients[client].proc.clone();
        self.manager.process_ended(&proc);
        self.carry_out();
        self.tell_of_end(client);
        self.clients[client].is_over = true;
        self.look_whether_over(&proc.nspace);
    }

    /// The host of a rank that has ended tells its server: until then the server waits for one that is started anew.
    fn tell_of_end(&mut self, client: usize) {
        let Client { proc, node, .. } = &self.clients[client];
        let (proc, node) = (proc.clone(), *node);
        let forget = move |router: &mut Router| router.deregister_client(&proc, Box::new(|_| ()));
        self.later(SLOWEST, Happening::Commands(node, "a process has ended", Box::new(forget)));
    }

    /// A node is lost, with its ranks.
    pub fn lose_node(&mut self, node: usize) {
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

    /// The hosts deregister a job of which all processes have ended.
    fn look_whether_over(&mut self, nspace: &Nspace) {
        if self.clients.iter().filter(|client| client.proc.nspace == *nspace).all(|client| client.is_over) {
            self.end_job(nspace);
        }
    }

    /// The hosts deregister a job, once.
    fn end_job(&mut self, nspace: &Nspace) {
        let Some(job) = self.plan.jobs.iter().position(|job| job.nspace == *nspace) else { return };
        if !self.over.insert(job) {
            return;
        }
        self.manager.job_over(nspace);
        let first = usize::from(self.bug == Some(Bug::KeepsJobs));
        for node in first..self.nodes.len() {
            let over = nspace.clone();
            let deregister = move |router: &mut Router| router.deregister_nspace(&over, Box::new(|_| ()));
            self.later(SLOWEST * 3, Happening::Commands(node, "a job is over", Box::new(deregister)));
        }
    }

    /// The hosts end the jobs that do not end by themselves, where that is no fault of a server.
    pub fn end_jobs(&mut self) {
        for job in self.plan.jobs.clone() {
            self.end_job(&job.nspace);
        }
    }
}
