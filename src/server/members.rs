//! Who takes part in a collective operation, in one form however it was written.
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::jobs::{Job, Jobs};
use super::router::Router;
use crate::collect_small::collect_small;
use crate::data::{Nspace, Proc, Rank, Status};

/// The participants of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ranks {
    /// All of them.
    All,
    /// These, in order.
    Some(Vec<Rank>),
}

/// What processes meet for. Meetings of the same processes for different purposes do not mix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Fence,
    Connect,
    Disconnect,
    /// To make a group of that name.
    Construct(Nspace),
    /// To end it.
    Destruct(Nspace),
}

/// Participants in an operation. For a fence the same processes make the same `Members`, whether they were named one by one or by
/// wildcard, and in whatever order. Whoever connects or makes a group may name processes of namespaces that are not known here, so
/// there the wildcard stays a name of its own.
///
/// Fences are looked up by their members at each arrival: copies share one list, and its hash is computed once.
#[derive(Clone, Debug)]
pub(super) struct Members(Arc<List>);

#[derive(Debug)]
struct List {
    operation: Operation,
    sets: BTreeMap<Nspace, Ranks>,
    hash: u64,
}

impl PartialEq for Members {
    fn eq(&self, other: &Members) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        Arc::ptr_eq(&self.0, &other.0) || a.hash == b.hash && a.operation == b.operation && a.sets == b.sets
    }
}

impl Eq for Members {}

impl Hash for Members {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// Where members run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Census {
    /// How many of them run here.
    pub here: usize,
    /// Whether others run on other nodes.
    pub elsewhere: bool,
}

/// Why a list of processes makes no members.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoMembers {
    /// It cannot be said before this namespace is registered.
    Unknown(Nspace),
    /// The list is wrong.
    Wrong(Status),
}

impl Members {
    fn new(operation: Operation, sets: BTreeMap<Nspace, Ranks>) -> Self {
        let mut hasher = DefaultHasher::new();
        (&operation, &sets).hash(&mut hasher);
        Members(Arc::new(List { operation, sets, hash: hasher.finish() }))
    }

    /// All of a namespace, to fence.
    pub(super) fn everyone(nspace: &Nspace) -> Self {
        Members::new(Operation::Fence, collect_small([(nspace.clone(), Ranks::All)]))
    }

    /// What they meet for.
    pub(super) fn operation(&self) -> &Operation {
        &self.0.operation
    }

    /// Whether others name the same processes, for whatever purpose.
    pub(super) fn are_those_of(&self, other: &Members) -> bool {
        self.0.sets == other.0.sets
    }

    /// Whether a process takes part.
    pub(super) fn contains(&self, proc: &Proc) -> bool {
        match self.0.sets.get(&proc.nspace) {
            Some(Ranks::All) => true,
            Some(Ranks::Some(ranks)) => ranks.binary_search(&proc.rank).is_ok(),
            None => false,
        }
    }

    /// Whether the members are one whole namespace.
    pub(super) fn is_whole_job(&self) -> bool {
        self.0.sets.len() == 1 && self.0.sets.values().all(|ranks| *ranks == Ranks::All)
    }

    /// The namespaces that take part.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Nspace> {
        self.0.sets.keys()
    }

    /// Whether processes of that namespace take part.
    pub(super) fn involves(&self, nspace: &Nspace) -> bool {
        self.0.sets.contains_key(nspace)
    }

    /// The list for the host: the same on every node.
    pub(super) fn procs(&self) -> Vec<Proc> {
        let of = |(nspace, ranks): (&Nspace, &Ranks)| match ranks {
            Ranks::All => vec![Proc::new(nspace.clone(), Rank::WILDCARD)],
            Ranks::Some(ranks) => ranks.iter().map(|rank| Proc::new(nspace.clone(), *rank)).collect(),
        };
        self.0.sets.iter().flat_map(of).collect()
    }
}

impl Jobs {
    /// Where members run, as far as is known now.
    pub(super) fn census(&self, members: &Members) -> Census {
        let (mut here, mut elsewhere) = (0, false);
        for (nspace, ranks) in &members.0.sets {
            let Some(job) = self.get(nspace) else {
                elsewhere = true;
                continue;
            };
            match ranks {
                Ranks::All => {
                    let local = job.local_procs.unwrap_or(0);
                    let size = job.stored.as_ref().and_then(|stored| stored.size());
                    here += local;
                    elsewhere |= size != Some(local as u32);
                }
                Ranks::Some(ranks) => {
                    let local = ranks.iter().filter(|rank| job.is_local(**rank)).count();
                    here += local;
                    elsewhere |= local < ranks.len();
                }
            }
        }
        Census { here, elsewhere }
    }
}

impl Router {
    /// The members that `procs` name; none means the caller's whole namespace.
    pub(super) fn members(&self, caller: &Proc, operation: Operation, procs: &[Proc]) -> Result<Members, NoMembers> {
        let fences = operation == Operation::Fence;
        if procs.is_empty() && fences {
            return match self.jobs.get(&caller.nspace) {
                Some(job) if job.stored.is_some() => {
                    Ok(job.everyone.get_or_init(|| Members::everyone(&caller.nspace)).clone())
                }
                _ => Err(NoMembers::Unknown(caller.nspace.clone())),
            };
        }
        if procs.is_empty() {
            return Ok(Members::new(operation, collect_small([(caller.nspace.clone(), Ranks::All)])));
        }
        let mut sets: BTreeMap<&Nspace, Option<BTreeSet<Rank>>> = BTreeMap::new();
        for Proc { nspace, rank } in procs {
            let stored = self.jobs.stored(nspace);
            if stored.is_none() && fences {
                return Err(NoMembers::Unknown(nspace.clone()));
            }
            let ranks = sets.entry(nspace).or_insert_with(|| Some(BTreeSet::new()));
            let more = match *rank {
                Rank::WILDCARD => {
                    *ranks = None;
                    continue;
                }
                Rank::LOCAL_NODE | Rank::LOCAL_PEERS => stored.map(|stored| stored.local_ranks()).unwrap_or_default(),
                rank if rank.is_process() => {
                    let size = stored.and_then(|stored| stored.size());
                    if size.is_some_and(|size| rank.0 >= size) {
                        return Err(NoMembers::Wrong(Status::ERR_BAD_PARAM));
                    }
                    vec![rank]
                }
                _ => return Err(NoMembers::Wrong(Status::ERR_BAD_PARAM)),
            };
            if let Some(ranks) = ranks {
                ranks.extend(more);
            }
        }
        let canonical = |(nspace, ranks): (&Nspace, Option<BTreeSet<Rank>>)| {
            let size = self.jobs.stored(nspace).and_then(|stored| stored.size());
            let ranks = match ranks {
                Some(ranks) if !fences || size != Some(ranks.len() as u32) => Ranks::Some(ranks.into_iter().collect()),
                _ => Ranks::All,
            };
            (nspace.clone(), ranks)
        };
        let members = Members::new(operation, collect_small(sets.into_iter().map(canonical)));
        match members.contains(caller) {
            true => Ok(members),
            false => Err(NoMembers::Wrong(Status::ERR_NOT_A_MEMBER)),
        }
    }

    /// Members that run here, as far as they can be named, and for which `wanted` holds.
    pub(super) fn local_members(&self, members: &Members, wanted: impl Fn(&Proc, &Job) -> bool) -> Vec<Proc> {
        let mut out = Vec::new();
        for (nspace, ranks) in &members.0.sets {
            let Some(job) = self.jobs.get(nspace) else { continue };
            let ranks: BTreeSet<Rank> = match ranks {
                Ranks::All => {
                    let stored = job.stored.iter().flat_map(|stored| stored.local_ranks());
                    collect_small(stored.chain(job.clients.keys().copied()))
                }
                Ranks::Some(ranks) => collect_small(ranks.iter().copied().filter(|rank| job.is_local(*rank))),
            };
            let procs = ranks.into_iter().map(|rank| Proc::new(nspace.clone(), rank));
            out.extend(procs.filter(|proc| wanted(proc, job)));
        }
        out
    }

    /// Members of this node that are dead.
    pub(super) fn dead_members(&self, members: &Members) -> Vec<Proc> {
        let mut out = Vec::new();
        for nspace in members.0.sets.keys() {
            let Some(job) = self.jobs.get(nspace) else { continue };
            let dead = job.clients.keys().chain(&job.departed).filter(|rank| job.is_gone(**rank));
            out.extend(dead.map(|rank| Proc::new(nspace.clone(), *rank)));
        }
        out.retain(|proc| members.contains(proc));
        out
    }
}
