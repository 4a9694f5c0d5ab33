//! A group: its members by their ranks, and who of them is there.
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::account::{Account, Charge, Kind};
use crate::collect_small::collect_small;
use crate::data::{Nspace, Proc, Rank, Status};
use crate::server::jobs::Jobs;

/// Bytes that a group takes, and each of its members.
const GROUP: usize = 1024;
const MEMBER: usize = 128;

/// A group that has been made.
#[derive(Clone, Debug)]
pub struct Group {
    /// Members by group rank; one that has left keeps its place.
    pub(super) places: Vec<Proc>,
    /// The processes that are in the group.
    pub(super) present: BTreeSet<Proc>,
    /// Members that are dead, and that its destruct waits for no more.
    pub(super) excused: BTreeSet<Proc>,
    /// Members that have died. A process that is started anew in the place of one is no member.
    pub(super) lost: BTreeSet<Proc>,
    /// Number of renewals when it was made.
    pub(super) since: u64,
    /// The jobs whose processes may map each other's memory, because they share this group.
    pub(super) bound: BTreeSet<Nspace>,
    /// The context id that it was given, if it was.
    pub context: Option<u64>,
    /// True if members are told of the death of others.
    pub notify: bool,
    /// Charge for it, to the job of its first member here.
    charge: Option<Arc<Charge>>,
}

impl Group {
    /// Makes a group of members who have all come, here or at other servers by the host's word.
    pub fn new(places: Vec<Proc>, context: Option<u64>, notify: bool) -> Self {
        let bound = collect_small(places.iter().map(|proc| proc.nspace.clone()));
        Group { bound, ..Group::announced(places, context, notify) }
    }

    /// Makes a group of members of whom nobody has come here: an event names them. It grants nothing.
    pub(super) fn announced(places: Vec<Proc>, context: Option<u64>, notify: bool) -> Self {
        let present = collect_small(places.iter().cloned());
        Group {
            places,
            present,
            excused: BTreeSet::new(),
            lost: BTreeSet::new(),
            since: 0,
            bound: BTreeSet::new(),
            context,
            notify,
            charge: None,
        }
    }

    /// Charges it to a job.
    pub fn charge_to(&mut self, account: &Account) {
        let bytes = GROUP + self.places.len() * MEMBER;
        self.charge = Some(Arc::new(account.force(Kind::Collective, bytes)));
    }

    /// The first of its members that run here.
    pub fn first_here(&self, jobs: &Jobs) -> Option<&Proc> {
        self.places.iter().find(|proc| jobs.runs_here(proc))
    }

    /// Makes a group of invited members, some of whom have come to this server by requests of their own.
    pub fn invited(places: Vec<Proc>, come: &[Proc], context: Option<u64>, notify: bool) -> Self {
        let group = Group::announced(places, context, notify);
        let bound = collect_small(come.iter().filter(|proc| group.has(proc)).map(|proc| proc.nspace.clone()));
        Group { bound, ..group }
    }

    /// The processes that are in the group.
    pub fn members(&self) -> Vec<Proc> {
        self.places.iter().filter(|proc| self.present.contains(proc)).cloned().collect()
    }

    /// The processes that its destruct waits for.
    pub fn awaited(&self) -> Vec<Proc> {
        self.places.iter().filter(|proc| self.awaits(proc)).cloned().collect()
    }

    /// The members that have died, and that no collective of the group waits for.
    pub fn lost(&self) -> Vec<Proc> {
        self.lost.iter().cloned().collect()
    }

    /// Returns whether a process was started anew in the place of a member, here or elsewhere.
    pub fn is_replaced(&self, jobs: &Jobs) -> bool {
        let here = |proc: &Proc| jobs.runs_here(proc) && !jobs.is_gone(proc);
        let elsewhere = |proc: &Proc| !jobs.runs_here(proc) && jobs.is_renewed(proc, self.since);
        self.lost.iter().any(here) || jobs.renewals() > self.since && self.present.iter().any(elsewhere)
    }

    /// Returns whether its destruct waits for a process.
    pub fn awaits(&self, proc: &Proc) -> bool {
        self.present.contains(proc) && !self.excused.contains(proc)
    }

    /// Returns whether a process is in the group.
    pub fn has(&self, proc: &Proc) -> bool {
        self.present.contains(proc)
    }

    /// Returns whether a member of that name has died.
    pub fn has_lost(&self, proc: &Proc) -> bool {
        self.lost.contains(proc)
    }

    /// The namespaces of those that were to be in the group.
    pub(super) fn jobs(&self) -> BTreeSet<Nspace> {
        collect_small(self.places.iter().map(|proc| proc.nspace.clone()))
    }

    /// The members that a rank of the group names.
    pub(super) fn named(&self, rank: Rank) -> Result<Vec<Proc>, Status> {
        match rank {
            Rank::WILDCARD => Ok(self.members()),
            rank => Ok(vec![self.places.get(rank.0 as usize).cloned().ok_or(Status::ERR_BAD_PARAM)?]),
        }
    }
}
