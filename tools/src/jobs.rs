//! The jobs of a run and their processes: those that were started, and how each has ended.
//!
//! The first job stays until the end of the run. One that a rank has started is forgotten when its last process has
//! ended, so that a run may start any number of jobs, one after the other.
mod held;
mod table;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::slice;
use std::time::{Duration, Instant};

use instanton::data::{Nspace, Proc, Rank, Status};
use instanton::internal::wall_clock;
use instanton::launch::MOST_RANKS;
use nix::unistd::Pid;

use crate::job::Job;
use crate::outcome::{End, ProcName};
use crate::survival::{self, MOST_EARLY_DEATHS};
use crate::ties::{Connections, Tells};

/// A rank that was started.
#[derive(Debug, Default)]
struct Process {
    pid: Option<Pid>,
    end: Option<End>,
    /// True if the process was reaped, and its server has not carried out all that it has sent.
    is_heard_out: bool,
    /// Between Init and Finalize.
    is_initialised: bool,
    /// Its end was asked for, and is no failure.
    is_dismissed: bool,
    /// True if the process has failed, and its job goes on without it.
    is_lost: bool,
    /// True if the process has failed and is to be started anew.
    is_awaited: bool,
    /// True if the process was left stopped for a debugger, and nobody has let it go.
    is_held: bool,
    /// True if the process has said that it waits for a debugger's word, which has not come.
    awaits_word: bool,
    /// True if the process has called Init at least once since it was started.
    has_come: bool,
    /// Ends in a row without Init.
    early_deaths: u32,
}

/// A job and its processes.
#[derive(Debug)]
pub struct LiveJob {
    /// The plan.
    pub job: Job,
    /// Events that its parent wants to hear of.
    pub tells: Tells,
    /// The job that somebody has asked for on a command line, and which led to this one: itself, or its parent's; the
    /// first where a tool has started it.
    pub root: u32,
    /// The process of such a job, or the tool, that has begun the chain of spawns which led to this one; none for such a
    /// job itself.
    ancestor: Option<Proc>,
    /// Start of it, in seconds since 1970.
    pub since: u64,
    /// The file of each application's program, once they are started.
    programs: Vec<PathBuf>,
    /// The failure that has ended it, if one has.
    failure: Option<Status>,
    /// The exit status of the process that has failed so.
    exit_code: Option<i32>,
    /// True if it has taken longer than it may.
    is_late: bool,
    ranks: Vec<Process>,
}

/// End of a process of ours.
pub struct ProcessEnd {
    /// The process.
    pub proc: Proc,
    /// The words for it.
    pub who: ProcName,
    /// Its end.
    pub end: End,
    /// True if it left its peers waiting.
    pub is_initialised: bool,
    /// True if its end had been asked for.
    pub is_dismissed: bool,
    /// True if it has called Init at least once.
    pub has_come: bool,
}

impl ProcessEnd {
    /// Returns whether it has failed.
    pub fn is_failure(&self) -> bool {
        !self.is_dismissed && (self.end != End::Code(0) || self.is_initialised)
    }

    /// The Standard's status for it.
    pub fn status(&self) -> Status {
        match self.end {
            _ if self.is_dismissed => Status::ERR_PROC_KILLED_BY_CMD,
            End::Code(_) if self.is_initialised => Status::ERR_PROC_TERM_WO_SYNC,
            End::Code(0) => Status::SUCCESS,
            End::Signal(_) => Status::ERR_PROC_ABORTED_BY_SIG,
            End::Code(_) => Status::ERR_EXIT_NONZERO_TERM,
        }
    }
}

/// A process that is to be started anew.
pub struct Restart {
    /// Time at which it is.
    pub at: Instant,
    /// Number of its job.
    pub job: u32,
    /// Its rank.
    pub rank: u32,
}

/// Consequence of a failure for the process's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The process is started anew, this time after its end.
    Restart(Duration),
    /// The others go on without it.
    Lost,
    /// The job ends.
    Fatal,
}

/// All jobs of a run.
#[derive(Debug, Default)]
pub struct Jobs {
    live: BTreeMap<u32, LiveJob>,
    by_pid: HashMap<Pid, (u32, u32)>,
    connections: Connections,
    last: u32,
}

impl Jobs {
    /// Takes a job in, of which nothing runs yet.
    pub fn add(&mut self, job: Job, tells: Tells) {
        let ranks = (0..job.size()).map(|_| Process::default()).collect();
        self.last = self.last.max(job.number);
        let root = match &job.parent {
            None => job.number,
            Some(parent) => self.number(&parent.nspace).map_or(1, |number| self.root(number)),
        };
        let ancestor = job.parent.as_ref().map(|parent| self.ancestor(parent).clone());
        let since = wall_clock::since_1970().as_secs();
        let (programs, failure) = (Vec::new(), None);
        let live =
            LiveJob { job, tells, root, ancestor, since, programs, failure, exit_code: None, is_late: false, ranks };
        self.live.insert(live.job.number, live);
    }

    /// The process, of a job that somebody has asked for, whose spawns have led to that of a process; that itself where
    /// none have.
    pub fn ancestor<'a>(&'a self, proc: &'a Proc) -> &'a Proc {
        let job = self.number(&proc.nspace).and_then(|number| self.live.get(&number));
        job.and_then(|live| live.ancestor.as_ref()).unwrap_or(proc)
    }

    /// The job on whose command line a job depends.
    pub fn root(&self, number: u32) -> u32 {
        self.live.get(&number).map_or(1, |live| live.root)
    }

    /// The same of a rank's process.
    pub fn root_of(&self, pid: Pid) -> u32 {
        self.by_pid.get(&pid).map_or(1, |(job, _)| self.root(*job))
    }

    /// The jobs that depend on the command line of one, itself included.
    pub fn below(&self, root: u32) -> impl Iterator<Item = &LiveJob> {
        self.live.values().filter(move |live| live.root == root)
    }

    /// The processes of those that run.
    pub fn pids_below(&self, root: u32) -> Vec<Pid> {
        self.by_pid.iter().filter(|(_, (job, _))| self.root(*job) == root).map(|(pid, _)| *pid).collect()
    }

    /// Returns whether a process is a rank's that runs.
    pub fn is_rank(&self, pid: Pid) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// Every job that is not over, in the order of their start.
    pub fn all(&self) -> impl Iterator<Item = &LiveJob> {
        self.live.values()
    }

    /// The job with a number; a job that is over is not there.
    pub fn get(&self, number: u32) -> Option<&LiveJob> {
        self.live.get(&number)
    }

    /// The first job of the run.
    pub fn first(&self) -> &Job {
        &self.live[&1].job
    }

    /// A tool steers the first job, of which nothing runs yet, and wants to hear of it.
    pub fn steer(&mut self, tool: &Proc, tells: Tells, with: impl FnOnce(&mut Job)) {
        if let Some(live) = self.live.get_mut(&1) {
            live.job.steerer = Some(tool.clone());
            live.tells = tells;
            with(&mut live.job);
        }
    }

    /// The number of the next job, and how many ranks of the run come before its own; none when no more can be
    /// numbered. Daemons of debuggers do not count.
    pub fn next(&self, ranks: u32) -> Option<(u32, u32)> {
        let counted = self.live.values().filter(|live| live.job.daemons.is_none());
        let before = counted.map(|live| live.job.before + live.job.size()).max().unwrap_or(0);
        (u64::from(before) + u64::from(ranks) <= u64::from(MOST_RANKS)).then_some((self.last + 1, before))
    }

    /// The number of ranks that come before those of the next job on each node. Daemons of debuggers do not count.
    pub fn before_on_nodes(&self) -> Vec<u32> {
        let counted = |node| {
            let jobs = self.live.values().filter(|live| live.job.daemons.is_none());
            jobs.map(|live| live.job.size_on(node)).max().unwrap_or(0)
        };
        (0..self.first().nodes.len() as u32).map(counted).collect()
    }

    /// Returns the number of ranks of all jobs together.
    pub fn size(&self) -> u32 {
        self.live.values().map(|live| live.job.size()).sum()
    }

    /// Returns the number of slots of the session that no rank of a job holds.
    pub fn free_slots(&self) -> u32 {
        let holding = self.live.values().filter(|live| live.job.daemons.is_none());
        self.first().universe().saturating_sub(holding.map(|live| live.job.size()).sum())
    }

    /// Returns whether some process that was started has not ended.
    pub fn anybody_runs(&self) -> bool {
        !self.by_pid.is_empty()
    }

    /// Returns whether some process is to be started anew, or heard out.
    pub fn anybody_is_awaited(&self) -> bool {
        self.live.values().any(|live| live.ranks.iter().any(Process::is_awaited))
    }

    /// Returns whether nobody of a job runs, or will.
    pub fn is_over(&self, number: u32) -> bool {
        let runs = || self.by_pid.values().any(|(job, _)| *job == number);
        let is_awaited = |live: &LiveJob| live.ranks.iter().any(Process::is_awaited);
        !runs() && !self.live.get(&number).is_some_and(is_awaited)
    }

    /// A rank was started.
    pub fn started(&mut self, job: u32, rank: u32, pid: Pid) {
        let Some(live) = self.live.get_mut(&job) else { return };
        let is_held = live.job.stops.is_on_exec(&live.job.proc(rank));
        if let Some(process) = live.ranks.get_mut(rank as usize) {
            *process = Process { pid: Some(pid), is_held, early_deaths: process.early_deaths, ..Process::default() };
            self.by_pid.insert(pid, (job, rank));
        }
    }

    /// A rank has called Init, or Finalize. Returns its process.
    pub fn set_initialised(&mut self, proc: &Proc, is: bool) -> Option<Pid> {
        let number = self.number(&proc.nspace)?;
        let process = self.process_mut(number, proc.rank.0)?;
        process.is_initialised = is;
        if is {
            process.is_held = false;
            (process.has_come, process.early_deaths) = (true, 0);
        }
        process.pid
    }

    /// A process was reaped; none of ours if it is an orphan that we were given. It is to be heard out before its end
    /// is [told](Self::ended).
    pub fn reaped(&mut self, pid: Pid, end: End) -> Option<(&Job, Proc)> {
        let (number, rank) = self.by_pid.remove(&pid)?;
        let live = self.live.get_mut(&number)?;
        let process = &mut live.ranks[rank as usize];
        (process.end, process.is_heard_out) = (Some(end), true);
        Some((&live.job, live.job.proc(rank)))
    }

    /// The end of a process that was reaped and is heard out.
    pub fn ended(&mut self, proc: &Proc) -> Option<ProcessEnd> {
        let (number, rank) = (self.number(&proc.nspace)?, proc.rank.0);
        let who = self.who(number, rank);
        let live = self.live.get_mut(&number)?;
        let process = live.ranks.get_mut(rank as usize)?;
        process.is_heard_out = false;
        let end = process.end?;
        let Process { is_initialised, is_dismissed, has_come, .. } = *process;
        Some(ProcessEnd { proc: proc.clone(), who, end, is_initialised, is_dismissed, has_come })
    }

    /// Decides upon a process that has failed. One that is to be started anew is awaited from here on.
    pub fn judge(&mut self, number: u32, rank: u32) -> Verdict {
        let Some(live) = self.live.get_mut(&number) else { return Verdict::Fatal };
        let survival = live.job.survival;
        let process = &mut live.ranks[rank as usize];
        if !process.has_come && !live.job.is_non_pmi {
            process.early_deaths += 1;
        }
        if !survival.survives() || process.early_deaths >= MOST_EARLY_DEATHS {
            return Verdict::Fatal;
        }
        let restarts = live.job.reincarnation(rank);
        if restarts < survival.restarts {
            process.is_awaited = true;
            return Verdict::Restart(survival::delay(restarts));
        }
        if survival.is_recoverable {
            process.is_lost = true;
            return Verdict::Lost;
        }
        Verdict::Fatal
    }

    /// A process that is to be started anew cannot be. Returns whether its job goes on without it.
    pub fn lose(&mut self, number: u32, rank: u32) -> bool {
        let Some(live) = self.live.get_mut(&number) else { return false };
        let (is_recoverable, process) = (live.job.survival.is_recoverable, &mut live.ranks[rank as usize]);
        (process.is_awaited, process.is_lost) = (false, is_recoverable);
        is_recoverable
    }

    /// A process that is awaited is about to be started anew. Returns the job's number and the rank; none if nobody
    /// waits for it any more.
    pub fn reincarnate(&mut self, number: u32, rank: u32) -> Option<&LiveJob> {
        let live = self.live.get_mut(&number)?;
        if !live.ranks.get(rank as usize)?.is_awaited {
            return None;
        }
        *live.job.reincarnations.entry(rank).or_default() += 1;
        Some(live)
    }

    /// Nobody of a job is started anew any more.
    pub fn await_nobody(&mut self, number: u32) {
        if let Some(live) = self.live.get_mut(&number) {
            live.ranks.iter_mut().for_each(|process| process.is_awaited = false);
        }
    }

    /// A job is about to fail because a process has ended with that exit status.
    pub fn exits(&mut self, number: u32, code: i32) {
        if let Some(live) = self.live.get_mut(&number) {
            live.exit_code.get_or_insert(code);
        }
    }

    /// A job fails. Returns all jobs that end with it: those that it has started and that are tied to it, and those that
    /// are connected with one of them.
    pub fn fails(&mut self, number: u32, status: Status) -> BTreeSet<u32> {
        if let Some(live) = self.live.get_mut(&number) {
            live.failure.get_or_insert(status);
        }
        let (mut ending, mut todo) = (BTreeSet::from([number]), vec![number]);
        while let Some(next) = todo.pop() {
            let Some(nspace) = self.live.get(&next).map(|live| &live.job.nspace) else { continue };
            let is_child =
                |job: &Job| !job.is_independent && job.parent.as_ref().is_some_and(|parent| parent.nspace == *nspace);
            let children = self.live.values().filter(|live| is_child(&live.job)).map(|live| live.job.number);
            let tied: Vec<u32> = children.chain(self.connections.of(next)).collect();
            todo.extend(tied.into_iter().filter(|tied| self.live.contains_key(tied) && ending.insert(*tied)));
        }
        ending
    }

    /// Processes have connected.
    pub fn connect(&mut self, procs: Vec<Proc>) {
        let live = &self.live;
        self.connections.connect(procs, |nspace| number_of(live, nspace));
    }

    /// The last tool of a namespace is gone.
    pub fn forget_tools(&mut self, nspace: &Nspace) {
        self.connections.forget_tools(nspace);
    }

    /// Processes have disconnected.
    pub fn disconnect(&mut self, procs: &[Proc]) {
        self.connections.disconnect(procs);
    }

    /// Forgets a job that is over, unless it is the first.
    pub fn forget(&mut self, number: u32) -> Option<LiveJob> {
        self.connections.forget(number);
        if number == 1 { None } else { self.live.remove(&number) }
    }

    /// The words for a rank.
    pub fn who(&self, job: u32, rank: u32) -> ProcName {
        let process = self.live.get(&job).and_then(|live| live.ranks.get(rank as usize));
        let pid = process.and_then(|process| process.pid).map(Pid::as_raw);
        let node = self.live.get(&job).map_or_else(|| self.first(), |live| &live.job).node_name(rank).to_owned();
        ProcName { job, rank, node, pid }
    }

    /// The words for a process.
    pub fn who_is(&self, proc: &Proc) -> ProcName {
        self.who(self.number(&proc.nspace).unwrap_or(1), proc.rank.0)
    }

    /// The number of a namespace.
    pub fn number(&self, nspace: &Nspace) -> Option<u32> {
        number_of(&self.live, nspace)
    }

    /// Every process that runs, with its job and rank.
    pub fn running(&self) -> impl Iterator<Item = Pid> {
        self.by_pid.keys().copied()
    }

    /// All processes that have connected with one and not disconnected since, itself among them.
    pub fn tied_to(&self, proc: &Proc) -> Vec<Proc> {
        self.connections.with(proc).into_iter().cloned().collect()
    }

    /// The jobs that are connected with one: its own, that of the process that has started it, and those that its
    /// processes have started.
    pub fn connected(&self, number: u32) -> Vec<Proc> {
        let Some(own) = self.get(number).map(|live| &live.job) else { return Vec::new() };
        let parent = |job: &Job| {
            let parent = job.parent.as_ref().filter(|_| !job.is_apart);
            parent.map(|parent| parent.nspace.clone())
        };
        let children = self.live.values().map(|live| &live.job).filter(|job| parent(job).as_ref() == Some(&own.nspace));
        let nspaces = children.map(|job| job.nspace.clone()).chain(parent(own)).chain([own.nspace.clone()]);
        nspaces.map(|nspace| Proc::new(nspace, Rank::WILDCARD)).collect()
    }

    /// All processes of the jobs that somebody has started.
    pub fn started_by(&self, parent: &Proc) -> Vec<Proc> {
        let theirs = self.live.values().filter(|live| live.job.parent.as_ref() == Some(parent));
        theirs.map(|live| Proc::new(live.job.nspace.clone(), Rank::WILDCARD)).collect()
    }

    /// The processes that run among those named, each once.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when a name is nobody's, `ERR_BAD_PARAM` for one that can be nobody's.
    pub fn named(&self, procs: &[Proc]) -> Result<Vec<Pid>, Status> {
        let mut found = BTreeSet::new();
        for proc in procs.iter().collect::<BTreeSet<_>>() {
            let live = self.number(&proc.nspace).and_then(|number| self.live.get(&number));
            let ranks = &live.ok_or(Status::ERR_NOT_FOUND)?.ranks;
            let named = match proc.rank {
                // All ranks are on this node.
                Rank::WILDCARD | Rank::LOCAL_NODE | Rank::LOCAL_PEERS => &ranks[..],
                rank if rank.is_process() => slice::from_ref(ranks.get(rank.0 as usize).ok_or(Status::ERR_NOT_FOUND)?),
                _ => return Err(Status::ERR_BAD_PARAM),
            };
            found.extend(named.iter().filter(|process| process.end.is_none()).filter_map(|process| process.pid));
        }
        Ok(found.into_iter().collect())
    }

    /// The processes that run on a node.
    pub fn on_node(&self, node: u32) -> Vec<Pid> {
        let is_there = |job: &u32, rank: u32| self.live.get(job).is_some_and(|live| live.job.node_of(rank) == node);
        self.by_pid.iter().filter(|(_, (job, rank))| is_there(job, *rank)).map(|(pid, _)| *pid).collect()
    }

    /// The end of these processes is asked for.
    pub fn dismiss(&mut self, pids: &[Pid]) {
        self.set_dismissed(pids, true);
    }

    /// The end of these processes is not asked for any more.
    pub fn take_back(&mut self, pids: &[Pid]) {
        self.set_dismissed(pids, false);
    }

    fn set_dismissed(&mut self, pids: &[Pid], is: bool) {
        for pid in pids {
            if let Some((job, rank)) = self.by_pid.get(pid).copied()
                && let Some(process) = self.process_mut(job, rank)
            {
                process.is_dismissed = is;
            }
        }
    }

    /// A job has taken longer than it may. Returns its processes that still run.
    pub fn late(&mut self, number: u32) -> Vec<Pid> {
        let Some(live) = self.live.get_mut(&number) else { return Vec::new() };
        live.is_late = true;
        self.by_pid.iter().filter(|(_, (job, _))| *job == number).map(|(pid, _)| *pid).collect()
    }

    /// The end of a job is told to nobody.
    pub fn keep_quiet(&mut self, number: u32) {
        if let Some(live) = self.live.get_mut(&number) {
            live.tells = Tells::default();
        }
    }

    fn process_mut(&mut self, job: u32, rank: u32) -> Option<&mut Process> {
        self.live.get_mut(&job)?.ranks.get_mut(rank as usize)
    }
}

impl Process {
    /// Returns whether its job is not over though it does not run.
    fn is_awaited(&self) -> bool {
        self.is_awaited || self.is_heard_out
    }
}

impl LiveJob {
    /// Returns the end of the job as a whole: that of the first of its ranks that did not end well.
    pub fn status(&self) -> Status {
        if let Some(failure) = self.failure {
            return failure;
        }
        if self.is_late {
            return Status::ERR_TIMEOUT;
        }
        let of = |process: &Process| match process.end {
            Some(End::Code(0)) if process.is_initialised && !process.is_dismissed => Some(Status::ERR_JOB_TERM_WO_SYNC),
            None | Some(End::Code(0)) => None,
            _ if process.is_lost => None,
            _ if process.is_dismissed => Some(Status::ERR_JOB_KILLED_BY_CMD),
            Some(End::Signal(_)) => Some(Status::ERR_JOB_ABORTED_BY_SIG),
            Some(End::Code(_)) => Some(Status::ERR_JOB_NON_ZERO_TERM),
        };
        self.ranks.iter().find_map(of).unwrap_or(Status::SUCCESS)
    }

    /// Returns the exit status of the job as a whole: that of the process that has failed first. None where it has ended
    /// for another reason.
    pub fn exit_code(&self) -> Option<i32> {
        match self.status() {
            Status::SUCCESS => Some(0),
            _ => self.exit_code,
        }
    }

    /// Returns whether every process of it was ended because somebody asked for that.
    pub fn is_dismissed(&self) -> bool {
        self.ranks.iter().all(|process| process.is_dismissed && process.end.is_some())
    }

    /// Its state, in a word.
    pub fn words(&self) -> &'static str {
        match () {
            () if self.failure.is_some() || self.is_late => "ending",
            () if self.ranks.iter().any(|process| process.is_dismissed && process.end.is_none()) => "ending",
            () if self.ranks.iter().any(|process| process.is_awaited) => "restarting",
            () => "running",
        }
    }
}

/// The number of a job by its namespace.
fn number_of(live: &BTreeMap<u32, LiveJob>, nspace: &Nspace) -> Option<u32> {
    live.values().find(|live| live.job.nspace == *nspace).map(|live| live.job.number)
}
