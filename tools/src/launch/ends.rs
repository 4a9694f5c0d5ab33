//! Ends of processes: each is taken, told to whoever has to know, and counted for the run or the caller that its job is
//! of.
use instanton::data::Proc;
use instanton::internal::sys::process::take_child;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::groups::signal;
use super::running::Running;
use super::stage::Stage;
use crate::event::Event;
use crate::jobs::LiveJob;
use crate::outcome::End;
use crate::say::say;
use crate::server::Pmix;
use crate::signals;
use crate::strangers::Stranger;

impl Running {
    /// Takes a child that has ended, unless its birth has failed and the starting thread has; its number may be
    /// another's from here on.
    pub(super) fn take_child(&mut self, pid: Pid, pmix: &Pmix) {
        let strangers = self.strangers(self.jobs.root_of(pid)).clone();
        let stranger = strangers.leaves(pid);
        if let Ok(Some((_, status))) = take_child(Some(pid.as_raw())) {
            self.asked.remove(&pid);
            self.condemned.iter_mut().for_each(|condemned| condemned.pids.retain(|other| *other != pid));
            self.condemned.retain(|condemned| !condemned.pids.is_empty());
            self.callers.values_mut().for_each(|caller| _ = caller.asked.remove(&pid));
            let stranger = stranger.filter(|_| status.code().is_some());
            self.reaped(pid, End::of(status), stranger, pmix);
        }
        let _ = self.taken.send(());
    }

    /// A process was reaped. Requests that it has sent before, an abort among them, are told by events, and its end is
    /// told behind them.
    fn reaped(&mut self, pid: Pid, end: End, stranger: Option<Stranger>, pmix: &Pmix) {
        let Some((job, proc)) = self.jobs.reaped(pid, end) else { return self.node_ended(pid, end, pmix) };
        self.leaving_strangers.extend(stranger.map(|stranger| (proc.clone(), stranger)));
        let events = self.events.clone();
        // The launcher hears nothing any more once it ends.
        pmix.hear_out(job, &proc.clone(), move || drop(events.send(Event::HeardOut(proc))));
    }

    /// A process has called Finalize. Those that it is connected with hear of it: it should have disconnected.
    pub(super) fn finalized(&mut self, proc: &Proc, pmix: &Pmix) {
        let _ = self.jobs.set_initialised(proc, false);
        let tied = self.jobs.tied_to(proc);
        if !tied.is_empty() {
            pmix.left_without_a_word(proc, tied);
        }
    }

    /// A process that has ended is heard out.
    pub(super) fn ended(&mut self, proc: &Proc, pmix: &Pmix) {
        let Some(ended) = self.jobs.ended(proc) else { return };
        let end = ended.end;
        tracing::info!(target: "run", of = %ended.proc, who = %ended.who, end = ?end, "a rank has ended");
        if ended.is_initialised {
            let told = [self.jobs.connected(ended.who.job), self.jobs.tied_to(&ended.proc)].concat();
            pmix.left_without_a_word(&ended.proc, told);
        }
        let number = ended.who.job;
        let root = self.jobs.root(number);
        if let Some(stranger) = self.leaving_strangers.remove(&ended.proc).filter(|_| !ended.has_come) {
            self.strangers(root).exited(stranger);
        }
        pmix.gone(&ended.proc);
        self.allocations.process_ended(&ended.proc);
        self.spawns_for_nobody(&ended.proc);
        self.questions_of_nobody(&ended.proc);
        self.streams.inputs.ended(&ended.proc);
        self.starter_gone(&ended.proc, pmix);
        let mut goes_on = false;
        let (is_running, is_wanted) = match self.callers.get(&root) {
            Some(caller) => (caller.stage == Stage::Running, caller.insisted > 0 || caller.outcome.is_answer(end)),
            None => (true, self.insisted > 0 || self.outcome.is_answer(end)),
        };
        let is_running = is_running && self.stage == Stage::Running;
        if ended.is_failure() && is_running && !is_wanted {
            goes_on = self.failed(&ended, pmix);
        } else if !ended.is_dismissed {
            self.outcome_of(root).ended(ended.who.clone(), ended.end, ended.is_initialised);
        } else if number == root && self.jobs.get(number).is_some_and(LiveJob::is_dismissed) {
            self.outcome_of(root).ended_on_request(ended.end);
        }
        if let Some(live) = self.jobs.get(number) {
            let asked = live.tells.ends || live.tells.failures && ended.is_failure();
            let mut members = if goes_on { self.jobs.connected(number) } else { Vec::new() };
            // A parent that has asked hears of it once.
            let parent = live.job.starter().filter(|_| asked);
            members.retain(|member| parent.is_none_or(|parent| parent.nspace != member.nspace));
            pmix.process_ended(&live.job, &ended, asked, members);
        }
        if self.jobs.is_over(number) {
            self.job_over(number, pmix);
        }
    }

    /// A node that has ended before it was told to takes its ranks with it.
    fn node_ended(&mut self, pid: Pid, end: End, pmix: &Pmix) {
        let Some(node) = pmix.node_ended(pid) else { return };
        let how = match end {
            End::Code(code) => format!("its server exited with code {code}"),
            End::Signal(signal) => format!("its server was killed by {}", signals::name(signal)),
        };
        let first = self.jobs.first();
        say(&format!("node {} is down: {how}", first.nodes[node as usize]));
        pmix.node_down(first, node);
        signal(&self.jobs.on_node(node), Signal::SIGKILL);
    }

    /// Nobody of a job is left.
    pub(super) fn job_over(&mut self, number: u32, pmix: &Pmix) {
        if let Some(live) = self.jobs.get(number) {
            tracing::info!(target: "run", nspace = %live.job.nspace, "a job has ended");
            pmix.job_ended(&live.job, (live.status(), live.exit_code()), live.tells);
        }
        self.target_over(number, pmix);
        self.limits.retain(|(_, limited)| *limited != number);
        if let Some(live) = self.jobs.forget(number) {
            self.leaving += 1;
            self.allocations.job_ended(&live.job.nspace);
            let events = self.events.clone();
            // The launcher hears nothing any more once it ends.
            pmix.forget(&live.job, move || drop(events.send(Event::Forgotten)));
        }
    }
}
