//! Lives of jobs, processes and peers, fanned out to every room in one place.
//!
//! A **job** is registered by the host, or for a tool by the server itself, and over when its namespace is
//! deregistered. A **process** has joined when it is let in as its rank, and is gone when the kernel or the host says
//! that it has ended and nobody will come in its place. A **peer** is over when its connection is gone, or it has
//! finalized: it asks nothing and hears nothing any more.
//!
//! The ways in which the server learns of an end are in [`ends`](super::ends).
use super::Router;
use crate::data::{Nspace, Proc, Status};
use crate::message::door::PeerId;
use crate::server::fence;
use crate::trace;

impl Router {
    /// A namespace was registered, as a child of `parent` where the host says so.
    pub(in crate::server) fn job_registered(&mut self, nspace: &Nspace, parent: Option<Nspace>) {
        if let Some(parent) = parent {
            // Its processes may ask for what their parents have before the host says that they were started.
            self.connections.tie(parent, nspace.clone());
        }
        trace::event!(INFO, %nspace, "a job is registered");
        self.admission.job_registered(&mut self.cx, &mut self.jobs, nspace);
        self.job_changed(nspace);
        self.gets.job_registered(&mut self.cx, &self.jobs, nspace);
        self.events.watchers.job(&mut self.cx, &self.jobs, nspace, Status::EVENT_JOB_START);
    }

    /// A process has come as its rank. One that comes for the first time is late for what has failed before, and one
    /// that comes anew has nothing to do with it.
    pub(in crate::server) fn process_joined(&mut self, proc: &Proc, anew: bool) {
        trace::event!(INFO, %proc, anew, "a process is let in");
        if anew {
            self.collectives.restarted(&mut self.cx, &self.jobs, proc);
            self.groups.restarted(below!(self), proc);
        }
        if let Some(job) = self.jobs.get_mut(&proc.nspace) {
            job.fruitless_fences = None;
        }
    }

    /// A peer asks nothing and hears nothing any more.
    pub(in crate::server) fn peer_over(&mut self, peer: PeerId) {
        self.gets.peer_over(&mut self.cx, &self.jobs, peer);
        self.commits.peer_over(peer);
        self.queries.peer_over(peer);
        self.outputs.peer_over(&mut self.cx, peer);
        self.groups.peer_over(below!(self), peer);
        self.collectives.peer_over(peer);
        self.inputs.peer_over(peer);
        self.monitors.peer_over(&mut self.cx, peer);
        self.events.peer_over(&mut self.cx, peer);
    }

    /// A process has ended, and none will come in its place.
    pub(in crate::server) fn process_gone(&mut self, proc: &Proc) {
        self.not_coming(proc);
        self.groups.process_gone(below!(self), proc);
        self.gets.process_gone(&mut self.cx, &self.jobs, proc);
    }

    /// A process has said that it is done.
    pub(in crate::server) fn process_finalized(&mut self, proc: &Proc) {
        trace::event!(INFO, %proc, "a process has finalized");
        self.groups.process_finalized(below!(self), proc);
    }

    /// A process will not arrive at any collective any more.
    pub(in crate::server) fn not_coming(&mut self, proc: &Proc) {
        self.collectives.lose(&mut self.cx, &self.jobs, proc);
        self.fences.process_gone(&mut self.cx, proc);
    }

    /// A process has ended: nobody of its job may be left here.
    pub(in crate::server) fn process_left(&mut self, nspace: &Nspace) {
        fence::deserted(&mut self.cx, &mut self.jobs, &mut self.collectives, nspace);
    }

    /// A namespace, or a process of it, was registered: what was not known before may be now.
    pub(in crate::server) fn job_changed(&mut self, nspace: &Nspace) {
        if self.jobs.make_files(nspace) {
            self.environments.publish(&self.jobs, nspace);
        }
        self.collectives.job_changed(&mut self.cx, &self.jobs, nspace);
        self.fences.job_changed(&mut self.cx, &mut self.jobs, &mut self.collectives, nspace);
    }

    /// A namespace is deregistered.
    pub(in crate::server) fn job_over(&mut self, nspace: &Nspace) {
        trace::event!(INFO, %nspace, "a job is over");
        self.events.watchers.job(&mut self.cx, &self.jobs, nspace, Status::EVENT_JOB_END);
        self.admission.job_over(&mut self.cx, &mut self.jobs, nspace);
        self.cleanups.job_over(&mut self.cx, nspace);
        self.collectives.job_over(&mut self.cx, &mut self.jobs, nspace);
        self.groups.job_over(below!(self), nspace);
        self.gets.job_over(&mut self.cx, &self.jobs, nspace);
        self.connections.job_over(nspace);
        self.outputs.job_over(nspace);
        self.cx.accounts.forget(nspace);
    }
}
