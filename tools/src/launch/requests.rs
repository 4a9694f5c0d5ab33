//! Requests of ranks and tools about processes: they are sent signals, or asked to end and killed where they do not.
use std::collections::VecDeque;
use std::time::Instant;

use instanton::data::{Proc, Status};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::groups::signal;
use super::running::Running;
use super::stage::GRACE;
use crate::control;
use crate::control::{Action, Condemned, Origin};

impl Running {
    /// Does to processes what a rank asks for.
    pub(super) fn control(&mut self, request: control::Request) {
        if let (Action::Cancel(name), Some(origin)) = (&request.action, &request.origin) {
            let is_known = self.spare(&origin.by, name.as_deref());
            let answer = if is_known { Ok((Status::SUCCESS, Vec::new())) } else { Err(Status::ERR_NOT_FOUND) };
            return request.done.complete(answer);
        }
        let pids = match &request.targets {
            Some(named) => self.jobs.named(named),
            None => Ok(self.jobs.running().collect()),
        };
        let pids = match pids {
            Ok(pids) => pids,
            Err(status) => return request.done.complete(Err(status)),
        };
        match request.action {
            Action::Kill => {
                self.jobs.dismiss(&pids);
                signal(&pids, Signal::SIGKILL);
            }
            Action::Terminate => self.condemn(pids, request.origin),
            Action::Signal(number) => {
                signal(&pids, number);
                self.let_go_for(number, &pids);
            }
            // The server's business, and done before.
            Action::Checkpoint(_) | Action::Cancel(_) => {}
        }
        request.done.complete(Ok((Status::SUCCESS, Vec::new())));
    }

    /// Asks processes to end, and kills those that do not.
    pub(super) fn terminate(&mut self, pids: Vec<Pid>) {
        self.condemn(pids, None);
    }

    /// A process cancels what it has asked for. Returns whether there was such a thing.
    fn spare(&mut self, by: &Proc, name: Option<&str>) -> bool {
        let all = std::mem::take(&mut self.condemned).into_iter();
        let (spared, kept): (VecDeque<_>, VecDeque<_>) = all.partition(|condemned| condemned.is_cancelled(by, name));
        self.condemned = kept;
        spared.iter().for_each(|condemned| self.jobs.take_back(&condemned.pids));
        !spared.is_empty()
    }

    /// The same for a request that may be cancelled.
    fn condemn(&mut self, pids: Vec<Pid>, origin: Option<Origin>) {
        self.jobs.dismiss(&pids);
        signal(&pids, Signal::SIGTERM);
        // For a process that is stopped and would not get it.
        signal(&pids, Signal::SIGCONT);
        if !pids.is_empty() {
            self.condemned.push_back(Condemned { at: Instant::now() + GRACE, pids, origin });
        }
    }
}
