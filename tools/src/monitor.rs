//! Monitors of what processes and the node take of this machine (`PMIx_Process_monitor` with
//! `PMIX_MONITOR_PROC_RESOURCE_USAGE` or `PMIX_MONITOR_NODE_RESOURCE_USAGE`): one look, whose result is the answer.
//!
//! The value of the monitor may be an array of attributes; then only those are told. Looks that are repeated
//! (`PMIX_MONITOR_RESOURCE_RATE`) are not made.
use std::collections::BTreeSet;

use instanton::data::{DataArray, Info, InfoList, Nspace, Proc, Rank, Status, keys};
use instanton::server::{Completion, Infos};
use nix::unistd::Pid;

use crate::jobs::Jobs;
use crate::nodes::NODE;
use crate::usage;

/// Directives that are looked at.
const SERVED: [&str; 6] =
    [keys::MONITOR_TARGET_PROCS, keys::MONITOR_LOCAL_ONLY, keys::MONITOR_ID, keys::USERID, keys::GRPID, NODE];

/// Kind of what is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Processes,
    Node,
}

/// Request of a rank or tool, and the way back.
#[derive(Debug)]
pub struct Request {
    kind: Kind,
    /// The node whose server is asked.
    node: u32,
    /// Processes that are meant.
    targets: Vec<Proc>,
    /// Attributes that are wanted; all, where none is named.
    wanted: Vec<Info>,
    done: Completion<Infos>,
}

impl Request {
    /// Reads a call; without targets all of the asker's job is meant.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for monitors of other kinds, repeated looks, and required directives that are unknown;
    /// `ERR_NOT_FOUND` for the end of a monitor that there is not.
    pub fn read(
        requestor: &Proc,
        monitor: &Info,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Result<Self, Status> {
        let kind = match monitor.key.as_str() {
            Some(keys::MONITOR_PROC_RESOURCE_USAGE) => Kind::Processes,
            Some(keys::MONITOR_NODE_RESOURCE_USAGE) => Kind::Node,
            // The server ends its own; looks leave nothing to be ended.
            Some(keys::MONITOR_CANCEL) => return Err(Status::ERR_NOT_FOUND),
            _ => return Err(Status::ERR_NOT_SUPPORTED),
        };
        let is_unserved = directives.iter().any(|info| info.is_unserved(&SERVED));
        if directives.find(keys::MONITOR_RESOURCE_RATE).is_some() || is_unserved {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let named = directives.find(keys::MONITOR_TARGET_PROCS).and_then(|info| info.value.as_procs());
        let targets = named.unwrap_or_else(|| vec![Proc::new(requestor.nspace.clone(), Rank::WILDCARD)]);
        let wanted = monitor.value.as_array().map(|array| array.infos().cloned().collect()).unwrap_or_default();
        let node = directives.find(NODE).and_then(|info| info.value.as_u32()).unwrap_or(0);
        Ok(Self { kind, node, targets, wanted, done })
    }

    /// Looks, and answers.
    pub fn answer(self, jobs: &Jobs) {
        let answer = match self.kind {
            Kind::Node => {
                let name = jobs.first().nodes.get(self.node as usize).ok_or(Status::ERR_NOT_FOUND);
                name.map(|name| vec![self.told(keys::NODE_RESOURCE_USAGE, usage::of_node(name))])
            }
            Kind::Processes => self.processes(jobs),
        };
        self.done.complete(answer.map(|infos| (Status::SUCCESS, infos)));
    }

    /// Looks at each process once, however often it is named.
    fn processes(&self, jobs: &Jobs) -> Result<Vec<Info>, Status> {
        let mut infos = Vec::new();
        let targets: BTreeSet<&Proc> = self.targets.iter().collect();
        let of: BTreeSet<&Nspace> = targets.iter().map(|target| &target.nspace).collect();
        for nspace in of {
            let live = jobs.number(nspace).and_then(|number| jobs.get(number)).ok_or(Status::ERR_NOT_FOUND)?;
            let is_whole = targets.contains(&Proc::new(nspace.clone(), Rank::WILDCARD));
            let is_meant = |proc: &Proc| is_whole || targets.contains(proc);
            for process in live.table().filter(|process| process.pid > 0 && is_meant(&process.proc)) {
                let usage = usage::of_process(&process.proc, Pid::from_raw(process.pid));
                infos.extend(usage.map(|usage| self.told(keys::PROC_RESOURCE_USAGE, usage)));
            }
        }
        if infos.is_empty() { Err(Status::ERR_NOT_FOUND) } else { Ok(infos) }
    }

    /// One array of what is wanted; the name of its subject is always told.
    fn told(&self, key: &str, mut usage: Vec<Info>) -> Info {
        let names = [keys::PROCID, keys::HOSTNAME];
        let is_wanted = |info: &Info| self.wanted.iter().any(|wanted| wanted.key == info.key);
        usage.retain(|info| self.wanted.is_empty() || names.iter().any(|key| info.key == *key) || is_wanted(info));
        Info::new(key, DataArray::of_info(usage))
    }
}

#[cfg(test)]
mod tests {
    use instanton::launch::AppSpec;

    use super::*;
    use crate::job::Job;
    use crate::session::Session;
    use crate::ties::Tells;

    #[test]
    fn a_process_is_looked_at_once_however_often_it_is_named() {
        let spec = AppSpec { ranks: 2, program: "p".into(), ..AppSpec::default() };
        let mut jobs = Jobs::default();
        jobs.add(Job::new(vec![spec], 1, Session::named("/tmp/x".into()), 1).unwrap(), Tells::default());
        let nspace = jobs.first().nspace.clone();
        for rank in 0..2 {
            jobs.started(1, rank, Pid::this());
        }
        let looks = |targets: Vec<Proc>| {
            let request =
                Request { kind: Kind::Processes, node: 0, targets, wanted: Vec::new(), done: Completion::new(|_| ()) };
            request.processes(&jobs).map(|infos| infos.len())
        };
        let [first, all, none, other] =
            [Rank(0), Rank::WILDCARD, Rank(2), Rank(0)].map(|rank| Proc::new(nspace.clone(), rank));
        assert_eq!(looks(vec![first.clone(); 3]), Ok(1));
        assert_eq!(looks(vec![all.clone(), first, all]), Ok(2));
        assert_eq!(looks(vec![none]), Err(Status::ERR_NOT_FOUND));
        let other = Proc::new(Nspace::new("other").unwrap(), other.rank);
        assert_eq!(looks(vec![other]), Err(Status::ERR_NOT_FOUND));
    }
}
