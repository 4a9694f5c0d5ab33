//! Spawn requests of ranks and tools: their jobs are launched beside those there are.
use std::io;
use std::time::{Duration, Instant};

use instanton::data::{Nspace, Proc, Rank, Status};
use instanton::internal::sys::{exec_stop, process};
use instanton::launch::programs;
use nix::sys::signal::Signal;

use super::groups::signal;
use super::running::Running;
use super::stage::Stage;
use super::{explain, placing};
use crate::args::Hosts;
use crate::job::{Placement, node_name};
use crate::say::say;
use crate::server::Pmix;
use crate::spawn;

/// Time from which on a request counts by the clock, and not by the processor time that it has taken.
const LONG: Duration = Duration::from_secs(1);

impl Running {
    /// Serves a spawn request, now or when its turn has come.
    pub(super) fn spawn(&mut self, request: spawn::Request, pmix: &Pmix) {
        let (parent, made) = (request.parent.clone(), request.made);
        let ancestor = self.jobs.ancestor(&parent).clone();
        if let Some(request) = self.spawns.come(ancestor, parent, request, made, Instant::now()) {
            self.spawn_now(request, pmix);
        }
    }

    /// Serves spawn requests whose turn has come.
    pub(super) fn spawn_what_is_due(&mut self, now: Instant, pmix: &Pmix) {
        while let Some(request) = self.spawns.due(now) {
            self.spawn_now(request, pmix);
        }
    }

    /// A process is gone: nobody wants the jobs that it has asked for and that have not begun.
    pub(super) fn spawns_for_nobody(&mut self, proc: &Proc) {
        for request in self.spawns.gone(proc) {
            request.done.complete(Err(Status::ERR_UNREACH));
        }
    }

    /// Launches the job of a request, or answers why not.
    fn spawn_now(&mut self, mut request: spawn::Request, pmix: &Pmix) {
        let (begin, since) = (process::thread_time(), Instant::now());
        let result = self.try_spawn(&mut request, pmix);
        let took = process::thread_time().saturating_sub(begin);
        // One that has kept everybody waiting, as for the loader of its program, counts with that.
        let took = Some(since.elapsed()).filter(|waited| *waited > LONG).unwrap_or(took);
        self.spawns.answered(self.jobs.ancestor(&request.parent), took, Instant::now());
        request.done.complete(result);
    }

    fn try_spawn(&mut self, request: &mut spawn::Request, pmix: &Pmix) -> Result<Nspace, Status> {
        let root = self.jobs.number(&request.parent.nspace).map_or(1, |number| self.jobs.root(number));
        let is_ending = self.callers.get(&root).is_some_and(|caller| caller.stage != Stage::Running);
        if self.stage != Stage::Running || !self.has_children && !self.is_up || is_ending {
            return Err(Status::ERR_JOB_FAILED_TO_LAUNCH);
        }
        let limits = request.limits()?;
        let until = limits.start.map(|limit| Instant::now() + limit);
        let up = pmix.nodes_up();
        let homes = request.settle_daemons(|target| self.jobs.homes(target, &up))?;
        let first = self.jobs.first();
        let hosts = Hosts::new(&node_name().map_err(|_| Status::ERR_JOB_SYS_OP_FAILED)?, first.nodes.len() as u32);
        let specs = request.specs(&hosts, first.session.top())?;
        let ranks = specs.iter().fold(0u32, |sum, spec| sum.saturating_add(spec.ranks));
        let (number, before) = self.jobs.next(ranks).ok_or(Status::ERR_JOB_INSUFFICIENT_RESOURCES)?;
        let failed = |_| Status::ERR_JOB_SYS_OP_FAILED;
        let before = if homes.is_some() { 0 } else { before };
        let mut job = first.spawned(number, request.parent.clone(), before, specs).map_err(failed)?;
        request.complete(&mut job)?;
        match homes {
            Some(homes) => job.place(Placement::unbound(homes), Vec::new()),
            None => {
                let policy = request.policy(&first.placement.policy)?;
                if policy.no_oversubscribe && ranks > self.jobs.free_slots() {
                    return Err(Status::ERR_JOB_INSUFFICIENT_RESOURCES);
                }
                let parts = request.parts(&hosts, first.slots)?;
                let placement = placing::beside(&self.jobs, policy, &parts, &up)?;
                job.place(placement, self.jobs.before_on_nodes());
            }
        }
        let programs = programs(&job.apps).map_err(|(_, lacks)| lacks.status())?;
        job.create_directories().map_err(failed)?;
        let nspace = job.nspace.clone();
        let registered = pmix.register(&job).and_then(|()| pmix.define_sets(&job).map_err(|(status, _)| status));
        if registered.is_err() {
            // One of that name is another job's.
            job.psets.clear();
        }
        self.jobs.add(job, request.tells());
        let failed = |(_, error): (u32, anyhow::Error)| match until {
            Some(until) if until <= Instant::now() => Status::ERR_TIMEOUT,
            _ if error.downcast_ref::<io::Error>().is_some_and(exec_stop::is_refused) => {
                say(&format!("job {number}: {}", explain::not_stopped()));
                Status::ERR_NOT_SUPPORTED
            }
            _ => Status::ERR_JOB_FAILED_TO_LAUNCH,
        };
        let starter = self.starter_of(root).clone();
        if let Some(caller) = self.callers.get_mut(&root) {
            caller.jobs.insert(number);
        }
        let started =
            registered.and_then(|()| starter.start(&mut self.jobs, number, &programs, until, pmix).map_err(failed));
        if !self.has_children {
            self.watch_again();
        }
        let run = limits.run.filter(|_| started.is_ok());
        self.limits.extend(run.map(|limit| (Instant::now() + limit, number)));
        if started.is_err() {
            // Nothing of it stays, and its parent, told that it has not begun, does not hear of its end.
            let pids = self.jobs.named(&[Proc::new(nspace.clone(), Rank::WILDCARD)]).unwrap_or_default();
            self.jobs.dismiss(&pids);
            self.jobs.keep_quiet(number);
            signal(&pids, Signal::SIGKILL);
            if pids.is_empty() {
                self.job_over(number, pmix);
            }
        }
        started?;
        if let Some(live) = self.jobs.get(number).filter(|live| live.tells.job_events) {
            pmix.job_started(&live.job);
        }
        self.tell_of_held(number, pmix);
        Ok(nspace)
    }
}
