//! Signature of a collective: its operation and its participants, in one form however they were written.
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use crate::collect_small::collect_small;
use crate::data::{Nspace, Proc, Rank, RankSet, Status};
use crate::server::ctx::Ctx;
use crate::server::ctx::peers::Caller;
use crate::server::jobs::{Job, Jobs};
use crate::trace;

/// Most processes of a job that a wildcard is replaced by in the construction of a group.
const MOST_NAMED: u32 = 1 << 16;

/// The participants of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ranks {
    /// All of them.
    All,
    /// These, in order.
    Some(Vec<Rank>),
}

/// Purpose of a collective. Collectives of the same processes for different purposes do not mix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A fence.
    Fence,
    /// A connect.
    Connect,
    /// The end of a connect.
    Disconnect,
    /// Construction of the group of that name.
    Construct(Nspace),
    /// Destruction of that group.
    Destruct(Nspace),
}

impl Operation {
    /// The group that it constructs or destructs.
    pub fn group(&self) -> Option<&Nspace> {
        match self {
            Operation::Construct(group) | Operation::Destruct(group) => Some(group),
            _ => None,
        }
    }
}

/// Operation and participants of a collective. For a fence the same processes make the same signature, whether they
/// were named one by one or by wildcard, and in whatever order. A connect or a group may name processes of namespaces
/// that are not known here, so there the wildcard stays a name of its own; but for a group that is made of one job of no
/// more than [so many](MOST_NAMED), which every server with a member knows.
///
/// Trackers are looked up by their signature at each arrival: copies share one list, and its hash is computed once,
/// with the seed of the server's [`Jobs`]. Processes choose what is hashed, and could choose it so that all of it
/// collides if they knew the seed.
#[derive(Clone, Debug)]
pub struct Signature(Arc<List>);

#[derive(Debug)]
struct List {
    operation: Operation,
    sets: BTreeMap<Nspace, Ranks>,
    /// The group that its members meet in the name of, one of whom was lost and its rank started anew: the new process
    /// is no participant.
    group: Option<Nspace>,
    hash: u64,
}

impl PartialEq for Signature {
    fn eq(&self, other: &Signature) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        let alike = || a.hash == b.hash && a.operation == b.operation && a.sets == b.sets && a.group == b.group;
        Arc::ptr_eq(&self.0, &other.0) || alike()
    }
}

impl Eq for Signature {}

impl Hash for Signature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// Participants of this node, and whether there are others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalCount {
    /// Number of them that run here.
    pub here: usize,
    /// True if others run on other nodes.
    pub elsewhere: bool,
}

/// Reason why a list of processes makes no signature.
#[derive(Debug, PartialEq, Eq)]
pub enum BadSignature {
    /// The signature cannot be said before this namespace is registered.
    Unknown(Nspace),
    /// The list is wrong.
    Wrong(Status),
}

impl BadSignature {
    /// The answer to a process that cannot be served.
    pub fn status(&self) -> Status {
        match self {
            BadSignature::Unknown(_) => Status::ERR_NOT_FOUND,
            BadSignature::Wrong(status) => *status,
        }
    }

    /// Answers a process that cannot be served.
    pub fn refuse(&self, cx: &mut Ctx, caller: Caller, proc: &Proc) {
        trace!("{proc} would meet processes that it cannot: {}", self.status());
        cx.answer_status(caller, Err(self.status()));
    }
}

impl Signature {
    fn new(jobs: &Jobs, operation: Operation, sets: BTreeMap<Nspace, Ranks>) -> Self {
        Signature::with(jobs, operation, sets, None)
    }

    fn with(jobs: &Jobs, operation: Operation, sets: BTreeMap<Nspace, Ranks>, group: Option<Nspace>) -> Self {
        let hash = jobs.seed.hash_one((&operation, &sets, &group));
        Signature(Arc::new(List { operation, sets, group, hash }))
    }

    /// The signature of the same operation for the members of a group alone, whoever else has their ranks by now.
    pub fn of_members(&self, jobs: &Jobs, group: &Nspace) -> Self {
        Signature::with(jobs, self.0.operation.clone(), self.0.sets.clone(), Some(group.clone()))
    }

    /// The signature of a fence of a whole namespace.
    pub fn whole_job(jobs: &Jobs, nspace: &Nspace) -> Self {
        Signature::new(jobs, Operation::Fence, collect_small([(nspace.clone(), Ranks::All)]))
    }

    /// The purpose of the collective.
    pub fn operation(&self) -> &Operation {
        &self.0.operation
    }

    /// Returns whether another signature names the same processes, for whatever purpose.
    pub fn has_procs_of(&self, other: &Signature) -> bool {
        self.0.sets == other.0.sets
    }

    /// Returns whether a process takes part.
    pub fn contains(&self, proc: &Proc) -> bool {
        match self.0.sets.get(&proc.nspace) {
            Some(Ranks::All) => true,
            Some(Ranks::Some(ranks)) => ranks.binary_search(&proc.rank).is_ok(),
            None => false,
        }
    }

    /// Returns whether the participants are one whole namespace.
    pub fn is_whole_job(&self) -> bool {
        self.0.group.is_none() && self.0.sets.len() == 1 && self.0.sets.values().all(|ranks| *ranks == Ranks::All)
    }

    /// The namespaces that take part.
    pub fn namespaces(&self) -> impl Iterator<Item = &Nspace> {
        self.0.sets.keys()
    }

    /// Returns whether processes of that namespace take part.
    pub fn involves(&self, nspace: &Nspace) -> bool {
        self.0.sets.contains_key(nspace)
    }

    /// The participants as the host is told of them: alike on every node.
    pub fn procs(&self) -> Vec<Proc> {
        let of = |(nspace, ranks): (&Nspace, &Ranks)| match ranks {
            Ranks::All => vec![Proc::new(nspace.clone(), Rank::WILDCARD)],
            Ranks::Some(ranks) => ranks.iter().map(|rank| Proc::new(nspace.clone(), *rank)).collect(),
        };
        self.0.sets.iter().flat_map(of).collect()
    }
}

impl Signature {
    /// Makes the signature of an operation over `procs`; none means the caller's whole namespace.
    ///
    /// # Errors
    /// [`BadSignature`] when a fence names a namespace that is not registered, or the list names a rank that there is
    /// not or leaves the caller out.
    pub fn of(jobs: &Jobs, caller: &Proc, operation: Operation, procs: &[Proc]) -> Result<Self, BadSignature> {
        let fences = operation == Operation::Fence;
        if procs.is_empty() {
            return match jobs.store(&caller.nspace) {
                None if fences => Err(BadSignature::Unknown(caller.nspace.clone())),
                _ => Ok(Signature::new(jobs, operation, collect_small([(caller.nspace.clone(), Ranks::All)]))),
            };
        }
        let mut sets: BTreeMap<&Nspace, Option<BTreeSet<Rank>>> = BTreeMap::new();
        let mut local = BTreeSet::new();
        if procs.iter().any(|proc| proc.nspace.is_empty()) {
            return Err(BadSignature::Wrong(Status::ERR_BAD_PARAM));
        }
        // A namespace that is not known yet, whatever it turns out to be, has no caller of another one in it.
        let names_caller =
            |Proc { nspace, rank }: &Proc| *nspace == caller.nspace && (*rank == caller.rank || !rank.is_process());
        if fences && !procs.iter().any(names_caller) {
            return Err(BadSignature::Wrong(Status::ERR_NOT_A_MEMBER));
        }
        for Proc { nspace, rank } in procs {
            let store = jobs.store(nspace);
            // The host of a single client knows jobs that this server has not heard of.
            if store.is_none() && fences && !jobs.one_client {
                return Err(BadSignature::Unknown(nspace.clone()));
            }
            let ranks = sets.entry(nspace).or_insert_with(|| Some(BTreeSet::new()));
            let more = match *rank {
                Rank::WILDCARD => {
                    *ranks = None;
                    continue;
                }
                // Named again, it adds nothing.
                Rank::LOCAL_NODE | Rank::LOCAL_PEERS if !local.insert(nspace) => continue,
                Rank::LOCAL_NODE | Rank::LOCAL_PEERS => store.map(|store| store.local_ranks()).unwrap_or_default(),
                rank if rank.is_process() => {
                    let size = store.and_then(|store| store.size());
                    if size.is_some_and(|size| rank.0 >= size) {
                        return Err(BadSignature::Wrong(Status::ERR_BAD_PARAM));
                    }
                    vec![rank]
                }
                _ => return Err(BadSignature::Wrong(Status::ERR_BAD_PARAM)),
            };
            if let Some(ranks) = ranks {
                ranks.extend(more);
            }
        }
        let is_of_one_job = matches!(operation, Operation::Construct(_)) && sets.len() == 1 && !jobs.one_client;
        let canonical = |(nspace, ranks): (&Nspace, Option<BTreeSet<Rank>>)| {
            let size = jobs.store(nspace).and_then(|store| store.size());
            let is_whole = |ranks: &BTreeSet<Rank>| fences && !jobs.one_client && size == Some(ranks.len() as u32);
            let ranks = match (ranks, size.filter(|size| is_of_one_job && *size <= MOST_NAMED)) {
                (Some(ranks), _) if !is_whole(&ranks) => Ranks::Some(ranks.into_iter().collect()),
                (None, Some(size)) => Ranks::Some((0..size).map(Rank).collect()),
                _ => Ranks::All,
            };
            (nspace.clone(), ranks)
        };
        let signature = Signature::new(jobs, operation, collect_small(sets.into_iter().map(canonical)));
        match signature.contains(caller) {
            true => Ok(signature),
            false => Err(BadSignature::Wrong(Status::ERR_NOT_A_MEMBER)),
        }
    }

    /// Counts the participants of this node, as far as they are known now.
    pub fn local_count(&self, jobs: &Jobs) -> LocalCount {
        let (mut here, mut elsewhere) = (0, false);
        for (nspace, ranks) in &self.0.sets {
            let Some(job) = jobs.get(nspace) else {
                elsewhere = true;
                continue;
            };
            match ranks {
                Ranks::All => {
                    let local = job.local_procs.unwrap_or(0);
                    let size = job.store.as_ref().and_then(|store| store.size());
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
        LocalCount { here, elsewhere }
    }

    /// Returns whether others run on other nodes than these, some of whom have `left`.
    pub fn is_elsewhere_without(&self, jobs: &Jobs, left: &BTreeSet<Proc>) -> bool {
        let stays = |nspace: &Nspace, rank: Rank| !left.contains(&Proc::new(nspace.clone(), rank));
        self.0.sets.iter().any(|(nspace, ranks)| match (jobs.get(nspace), ranks_of(jobs, nspace, ranks)) {
            (Some(job), Some(ranks)) => ranks.into_iter().any(|rank| !job.is_local(rank) && stays(nspace, rank)),
            _ => true,
        })
    }

    /// Number of ranks that it names one by one.
    pub fn named(&self) -> usize {
        let named = |ranks: &Ranks| if let Ranks::Some(ranks) = ranks { ranks.len() } else { 0 };
        self.0.sets.values().map(named).sum()
    }

    /// All participants but those that have `left`, if the ranks of all are known.
    pub fn participants(&self, jobs: &Jobs, left: &BTreeSet<Proc>) -> Option<Vec<(Nspace, RankSet)>> {
        let of = |(nspace, ranks): (&Nspace, &Ranks)| {
            let ranks = match ranks {
                Ranks::All if left.is_empty() => RankSet::from(0..=jobs.store(nspace)?.size()?.checked_sub(1)?),
                ranks => {
                    let stays = |rank: &Rank| !left.contains(&Proc::new(nspace.clone(), *rank));
                    ranks_of(jobs, nspace, ranks)?.into_iter().filter(stays).map(|rank| rank.0).collect()
                }
            };
            Some((nspace.clone(), ranks))
        };
        self.0.sets.iter().map(of).collect()
    }

    /// Returns whether another signature names the same processes for the same purpose but those that have `left`.
    pub fn is_without(&self, jobs: &Jobs, whole: &Signature, left: &BTreeSet<Proc>) -> bool {
        let each = |signature: &Signature| {
            let of = |(nspace, ranks): (&Nspace, &Ranks)| {
                let ranks = ranks_of(jobs, nspace, ranks)?;
                Some(ranks.into_iter().map(|rank| Proc::new(nspace.clone(), rank)).collect::<Vec<_>>())
            };
            Some(signature.0.sets.iter().map(of).collect::<Option<Vec<_>>>()?.concat())
        };
        let Some((named, mut all)) = each(self).zip(each(whole)) else { return false };
        all.retain(|proc| !left.contains(proc));
        self.operation() == whole.operation() && named == all
    }

    /// Lists participants that run here, as far as they can be named, and for which `wanted` holds.
    pub fn local_procs(&self, jobs: &Jobs, wanted: impl Fn(&Proc, &Job) -> bool) -> Vec<Proc> {
        let mut out = Vec::new();
        for (nspace, ranks) in &self.0.sets {
            let Some(job) = jobs.get(nspace) else { continue };
            let ranks: BTreeSet<Rank> = match ranks {
                Ranks::All => {
                    let known = job.store.iter().flat_map(|store| store.local_ranks());
                    collect_small(known.chain(job.clients.keys().copied()).filter(|rank| job.is_local(*rank)))
                }
                Ranks::Some(ranks) => collect_small(ranks.iter().copied().filter(|rank| job.is_local(*rank))),
            };
            let procs = ranks.into_iter().map(|rank| Proc::new(nspace.clone(), rank));
            out.extend(procs.filter(|proc| wanted(proc, job)));
        }
        out
    }

    /// Lists participants of this node that are dead.
    pub fn dead_procs(&self, jobs: &Jobs) -> Vec<Proc> {
        let mut out = Vec::new();
        for nspace in self.0.sets.keys() {
            let Some(job) = jobs.get(nspace) else { continue };
            let dead = job.clients.keys().chain(&job.departed).filter(|rank| job.is_gone(**rank));
            out.extend(dead.map(|rank| Proc::new(nspace.clone(), *rank)));
        }
        out.retain(|proc| self.contains(proc));
        out
    }
}

/// The ranks of a namespace that take part, where they are known.
fn ranks_of(jobs: &Jobs, nspace: &Nspace, ranks: &Ranks) -> Option<Vec<Rank>> {
    match ranks {
        Ranks::Some(ranks) => Some(ranks.clone()),
        Ranks::All => Some((0..jobs.store(nspace)?.size()?).map(Rank).collect()),
    }
}
