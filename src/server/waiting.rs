//! A report of what the processes of this node are at, and whom they wait for.
//!
//! Each room keeps what waits in it: collectives their trackers, look-ups their keys, groups their invitations. The
//! rest are open requests that no room explains, most of which the host is to answer. Here it is put together, in one
//! step of the control thread that changes nothing and looks at so many processes at most ([`MOST_PROCS`]). Requests at
//! the same call for the same processes become one row.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::collective::Collectives;
use super::collective::signature::Operation;
use super::collective::tracker::Tracker;
use super::ctx::Ctx;
use super::ctx::peers::{Caller, Role};
use super::fence::Fences;
use super::gets::Gets;
use super::groups::Groups;
use super::jobs::{Client, Jobs, Phase};
use crate::data::{Activity, Nspace, Proc, Rank, RankSet, WaitReport, Waiting};
use crate::message::door::PeerId;

/// Most rows of a report.
const MOST_ROWS: usize = 4096;
/// Most processes that are looked at for it, each as often as it is named.
const MOST_PROCS: usize = 1 << 18;

/// The rooms that something waits in.
pub struct Rooms<'a> {
    pub jobs: &'a Jobs,
    pub collectives: &'a Collectives,
    pub fences: &'a Fences,
    pub gets: &'a Gets,
    pub groups: &'a Groups,
}

/// Common to all requests of one row.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    nspace: Nspace,
    call: &'static str,
    subject: String,
    awaited: Vec<Proc>,
    is_elsewhere: bool,
}

/// A report in the making.
struct Draft<'a> {
    rooms: &'a Rooms<'a>,
    cx: &'a Ctx,
    now: Instant,
    /// Namespaces that the asker may know of.
    visible: BTreeSet<&'a Nspace>,
    /// Requests that are explained.
    told: BTreeSet<(PeerId, u64)>,
    waits: BTreeMap<Wait, (Vec<u32>, Instant)>,
    /// Ranks that wait, by namespace.
    waiting: BTreeMap<Nspace, BTreeSet<Rank>>,
    report: WaitReport,
    /// Processes that may still be looked at.
    left: usize,
    /// Participants of collectives of several nodes that may still be named.
    nameable: usize,
}

impl Rooms<'_> {
    /// Makes the report for a process: of jobs of its own user; of all for root, the server's user and its program.
    pub fn report_for(&self, cx: &Ctx, asker: &Proc) -> WaitReport {
        self.report(cx, self.jobs.visible_to(cx, asker))
    }

    /// Makes the report of these jobs.
    pub fn report(&self, cx: &Ctx, visible: BTreeSet<&Nspace>) -> WaitReport {
        let mut draft = Draft {
            rooms: self,
            cx,
            now: cx.now(),
            visible,
            told: BTreeSet::new(),
            waits: BTreeMap::new(),
            waiting: BTreeMap::new(),
            report: WaitReport::default(),
            left: MOST_PROCS,
            nameable: MOST_PROCS,
        };
        draft.collectives();
        draft.early_fences();
        draft.groups();
        draft.gets();
        draft.requests();
        draft.end()
    }
}

impl Draft<'_> {
    /// Takes from what may still be done; returns whether there was enough left.
    fn may_look_at(&mut self, procs: usize) -> bool {
        let is_enough = procs <= self.left && self.report.rows.len() + self.waits.len() < MOST_ROWS;
        match is_enough {
            true => self.left -= procs,
            false => self.report.is_cut = true,
        }
        is_enough
    }

    fn collectives(&mut self) {
        for (tracker, is_complete) in self.rooms.collectives.under_way() {
            let is_meant = tracker.signature.namespaces().any(|nspace| self.visible.contains(nspace));
            if tracker.failed.is_none() && is_meant && self.may_look_at(tracker.local.here) {
                self.collective(tracker, is_complete);
            }
        }
    }

    fn collective(&mut self, tracker: &Tracker, is_complete: bool) {
        let (call, group) = match tracker.signature.operation() {
            Operation::Fence => ("fence", None),
            Operation::Connect => ("connect", None),
            Operation::Disconnect => ("disconnect", None),
            Operation::Construct(group) => ("group construct", Some(group)),
            Operation::Destruct(group) => ("group destruct", Some(group)),
        };
        let is_late = |proc: &Proc| !tracker.arrived.contains(proc) && !tracker.excused.contains(proc);
        let late = match is_complete {
            true => Vec::new(),
            false => tracker.signature.local_procs(self.rooms.jobs, |proc, _| is_late(proc)),
        };
        let is_elsewhere = late.is_empty() && tracker.local.elsewhere;
        let (awaited, participants) = (by_nspace(&late), self.participants(tracker));
        for nspace in tracker.signature.namespaces() {
            let mut ranks = Vec::new();
            for (rank, waiter) in tracker.arrived.of(nspace) {
                let Some(waiter) = waiter else { continue };
                self.told.insert((waiter.caller.peer, waiter.caller.number));
                ranks.push(rank.0);
            }
            if ranks.is_empty() || !self.visible.contains(nspace) {
                continue;
            }
            self.note_waiting(nspace, &ranks);
            self.report.rows.push(Waiting {
                nspace: nspace.clone(),
                ranks: ranks.into_iter().collect(),
                activity: Activity::Waits,
                call: call.to_owned(),
                subject: group.map_or_else(String::new, ToString::to_string),
                since: self.now.saturating_duration_since(tracker.since),
                awaited: awaited.clone(),
                participants: participants.clone(),
                is_elsewhere,
            });
        }
    }

    /// All who take part in a collective of several nodes, as far as so many may be named.
    fn participants(&mut self, tracker: &Tracker) -> Vec<(Nspace, RankSet)> {
        // Each of its namespaces may become a row.
        let named = tracker.signature.named() * tracker.signature.namespaces().count();
        if !tracker.local.elsewhere || named > self.nameable {
            return Vec::new();
        }
        self.nameable -= named;
        tracker.signature.participants(self.rooms.jobs, &tracker.left).unwrap_or_default()
    }

    fn early_fences(&mut self) {
        for (caller, proc, awaits, since) in self.rooms.fences.early() {
            let awaited = vec![Proc::new(awaits.clone(), Rank::WILDCARD)];
            self.add(caller, proc, ("fence", String::new()), (awaited, false), since);
        }
    }

    fn groups(&mut self) {
        for (caller, awaited) in self.rooms.groups.waits() {
            self.request(caller, (awaited, false));
        }
    }

    fn gets(&mut self) {
        for (caller, of) in self.rooms.gets.waits() {
            self.request(caller, (vec![of.clone()], self.rooms.jobs.is_remote(of)));
        }
    }

    /// Everything that waits and that no room has explained: it is for the host.
    fn requests(&mut self) {
        let cx = self.cx;
        for (peer, entry) in cx.peers.iter() {
            if entry.role == Role::Program || !self.visible.contains(&entry.proc.nspace) {
                continue;
            }
            for (number, _) in entry.requests.noted() {
                // Nobody waits for the others.
                if number != 0 && !self.told.contains(&(*peer, number)) {
                    self.request(Caller { peer: *peer, number }, (Vec::new(), false));
                }
            }
        }
    }

    /// Adds an open request, with whom it waits for.
    fn request(&mut self, caller: Caller, awaited: (Vec<Proc>, bool)) {
        let cx = self.cx;
        let Some(entry) = cx.peers.get(&caller.peer) else { return };
        let Some(asked) = entry.requests.asked(caller.number) else { return };
        // A call for a table of calls begins without its article.
        let call = asked.call.split_once(' ').map_or(asked.call, |(_, call)| call);
        self.add(caller, &entry.proc, (call, asked.subject.clone()), awaited, asked.since);
    }

    fn add(
        &mut self,
        caller: Caller,
        proc: &Proc,
        (call, subject): (&'static str, String),
        (awaited, is_elsewhere): (Vec<Proc>, bool),
        since: Instant,
    ) {
        self.told.insert((caller.peer, caller.number));
        if !self.visible.contains(&proc.nspace) || !self.may_look_at(1 + awaited.len()) {
            return;
        }
        self.note_waiting(&proc.nspace, &[proc.rank.0]);
        let wait = Wait { nspace: proc.nspace.clone(), call, subject, awaited, is_elsewhere };
        let (ranks, first) = self.waits.entry(wait).or_insert_with(|| (Vec::new(), since));
        ranks.push(proc.rank.0);
        *first = since.min(*first);
    }

    fn note_waiting(&mut self, nspace: &Nspace, ranks: &[u32]) {
        let waiting = self.waiting.entry(nspace.clone()).or_default();
        ranks.iter().for_each(|rank| _ = waiting.insert(Rank(*rank)));
    }

    /// Adds who waits for nothing, and returns the report.
    fn end(mut self) -> WaitReport {
        for (wait, (ranks, since)) in std::mem::take(&mut self.waits) {
            self.report.rows.push(Waiting {
                nspace: wait.nspace,
                ranks: ranks.into_iter().collect(),
                activity: Activity::Waits,
                call: wait.call.to_owned(),
                subject: wait.subject,
                since: self.now.saturating_duration_since(since),
                awaited: by_nspace(&wait.awaited),
                participants: Vec::new(),
                is_elsewhere: wait.is_elsewhere,
            });
        }
        for nspace in std::mem::take(&mut self.visible) {
            let Some(job) = self.rooms.jobs.get(nspace) else { continue };
            if !self.may_look_at(job.clients.len() + job.departed.len()) {
                continue;
            }
            let waiting = self.waiting.remove(nspace).unwrap_or_default();
            let mut idle: BTreeMap<Activity, Vec<u32>> = BTreeMap::new();
            let clients = job.clients.iter().map(|(rank, client)| (*rank, activity(client)));
            for (rank, activity) in clients.chain(job.departed.iter().map(|rank| (*rank, Activity::Ended))) {
                if !waiting.contains(&rank) {
                    idle.entry(activity).or_default().push(rank.0);
                }
            }
            for (activity, ranks) in idle {
                self.report.rows.push(Waiting::idle(nspace.clone(), ranks.into_iter().collect(), activity));
            }
        }
        self.report
    }
}

/// Activity of a process that waits for nothing.
fn activity(client: &Client) -> Activity {
    match client.phase {
        _ if client.ended || client.gone => Activity::Ended,
        Phase::Expected | Phase::Asking => Activity::Absent,
        Phase::Joined => Activity::Runs,
        Phase::Finalized => Activity::Finalized,
        Phase::Lost => Activity::Ended,
    }
}

/// Processes by their namespaces, which follow each other. One that is no single process stands for anybody.
fn by_nspace(procs: &[Proc]) -> Vec<(Nspace, RankSet)> {
    let of = |procs: &[Proc]| procs.iter().filter(|proc| proc.rank.is_process()).map(|proc| proc.rank.0).collect();
    procs.chunk_by(|a, b| a.nspace == b.nspace).map(|procs| (procs[0].nspace.clone(), of(procs))).collect()
}
