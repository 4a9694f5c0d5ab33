//! Ends of peers, processes and jobs, fanned out to every room in one place.
//!
//! A **peer** is over when its connection is gone, or it has finalized: it asks nothing and hears nothing any more. A **process** is
//! gone when the kernel or the host says that it has ended and nobody will come in its place. A **job** is over when the host
//! deregisters its namespace.
use super::Router;
use crate::data::{Nspace, Proc};
use crate::message::door::PeerId;

impl Router {
    /// A peer asks nothing and hears nothing any more.
    pub(in crate::server) fn peer_over(&mut self, peer: PeerId) {
        self.gets_of_peer_end(peer);
        self.output_ends(peer);
        self.groups_of_peer_end(peer);
        self.inputs.forget(peer);
        self.end_monitors(peer, None);
        self.events.peer_over(&mut self.cx, peer);
    }

    /// A process has ended, and none will come in its place.
    pub(in crate::server) fn process_gone(&mut self, proc: &Proc) {
        self.fences_without(proc);
        self.groups_without(proc);
        self.gets_from_end(proc);
    }

    /// A namespace is deregistered.
    pub(in crate::server) fn job_over(&mut self, nspace: &Nspace) {
        self.sweep_job(nspace);
        self.fences_of_job_end(nspace);
        self.groups_of_job_end(nspace);
        self.gets_of_job_end(nspace);
        self.ties.forget(nspace);
        self.local_output_ends(nspace);
    }
}
