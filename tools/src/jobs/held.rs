//! Debuggers' share of jobs: ranks that were left stopped at their first instruction or wait for a word, and daemons.
use instanton::data::{Nspace, Proc, Rank, RankSet, Status};
use nix::unistd::Pid;

use super::{Jobs, LiveJob, Process};
use crate::debugger::stops::Stops;

impl Jobs {
    /// The ranks of a job that are stopped still, as far as is known here.
    pub fn held(&self, number: u32) -> Vec<u32> {
        let Some(live) = self.live.get(&number) else { return Vec::new() };
        let held = live.ranks.iter().zip(0..).filter(|(process, _)| process.is_held && process.end.is_none());
        held.map(|(_, rank)| rank).collect()
    }

    /// A rank has said that it waits for a debugger's word.
    pub fn awaits_word(&mut self, proc: &Proc) {
        if let Some(process) = self.number(&proc.nspace).and_then(|number| self.process_mut(number, proc.rank.0)) {
            process.awaits_word = true;
        }
    }

    /// The ranks of a job that wait for a debugger, in whatever way.
    pub fn awaiting_debugger(&self, number: u32) -> RankSet {
        let Some(live) = self.live.get(&number) else { return RankSet::default() };
        let awaits = |process: &Process| (process.is_held || process.awaits_word) && process.end.is_none();
        live.ranks.iter().zip(0..).filter(|(process, _)| awaits(process)).map(|(_, rank)| rank).collect()
    }

    /// Held processes of all jobs that some name chooses, all without one, go on from here. Returns their processes.
    pub fn let_go(&mut self, named: Option<&[Proc]>) -> Vec<Pid> {
        let mut released = Vec::new();
        for live in self.live.values_mut() {
            for (process, rank) in live.ranks.iter_mut().zip(0..) {
                let proc = Proc::new(live.job.nspace.clone(), Rank(rank));
                let is_named = named.is_none_or(|named| named.iter().any(|name| name.matches(&proc)));
                process.awaits_word &= !is_named;
                if is_named && process.end.is_none() && std::mem::take(&mut process.is_held) {
                    released.extend(process.pid);
                }
            }
        }
        released
    }

    /// The stopped ones among these processes go on from here.
    pub fn let_go_of(&mut self, pids: &[Pid]) -> Vec<Pid> {
        let mut released = Vec::new();
        for pid in pids {
            if let Some((job, rank)) = self.by_pid.get(pid).copied()
                && let Some(process) = self.process_mut(job, rank)
                && std::mem::take(&mut process.is_held)
            {
                released.push(*pid);
            }
        }
        released
    }

    /// Jobs that somebody has started and whose ranks stop for a debugger.
    pub fn stopping_for(&self, parent: Option<&Proc>) -> Vec<u32> {
        let theirs = self.live.values().map(|live| &live.job).filter(|job| job.parent.as_ref() == parent);
        theirs.filter(|job| !job.stops.infos().is_empty()).map(|job| job.number).collect()
    }

    /// The jobs of daemons that look into a job, by their numbers.
    pub fn daemons_of(&self, nspace: &Nspace) -> Vec<u32> {
        let look = |live: &&LiveJob| live.job.daemons.as_ref().is_some_and(|daemons| daemons.look_into(nspace));
        self.live.values().filter(look).map(|live| live.job.number).collect()
    }

    /// The jobs of daemons that somebody has started.
    pub fn daemons_by(&self, parent: &Proc) -> Vec<u32> {
        let theirs = self.live.values().map(|live| &live.job).filter(|job| job.parent.as_ref() == Some(parent));
        theirs.filter(|job| job.daemons.is_some()).map(|job| job.number).collect()
    }

    /// The nodes of the ranks that a name is of, but for those of nodes that are not `up`.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` where it is nobody's, or none is left.
    pub fn homes(&self, name: &Proc, up: &[u32]) -> Result<Vec<u32>, Status> {
        let live = self.number(&name.nspace).and_then(|number| self.live.get(&number)).ok_or(Status::ERR_NOT_FOUND)?;
        let mut homes = match name.rank.is_process() {
            false => live.job.homes().to_vec(),
            true if name.rank.0 < live.job.size() => vec![live.job.node_of(name.rank.0)],
            true => Vec::new(),
        };
        homes.retain(|node| up.contains(node));
        if homes.is_empty() { Err(Status::ERR_NOT_FOUND) } else { Ok(homes) }
    }

    /// Nobody of a job stops for a debugger any more, and who is started anew does not.
    pub fn stop_no_more(&mut self, number: u32) {
        if let Some(live) = self.live.get_mut(&number) {
            live.job.stops = Stops::over();
        }
    }
}
