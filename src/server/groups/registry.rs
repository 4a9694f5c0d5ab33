//! The groups there are: members, and names that stand for them.
//!
//! A group's name is good wherever processes are named: it stands for the members that are in the group, and with a
//! rank for the one at that place of the list it was made from. So does that of a process set, where nothing else has
//! its name. Requests are translated when they arrive, so no other room, and no host, sees a group's name where a
//! namespace should be. A member that leaves keeps its place, so that the others keep their ranks.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::group::Group;
use crate::data::{DataArray, DataRange, DataType, Info, InfoList, Nspace, Proc, Rank, Status, Text, Value, keys};
use crate::message::{Forward, GroupCall, MEANT, Request, array_of, id_of, replace_named};
use crate::server::jobs::Jobs;
use crate::server::psets::ProcessSets;

/// Most processes that the queries of one call mean by the names of groups and sets.
const MAX_MEANT: usize = 65536;

/// The groups with members on this node.
#[derive(Debug, Default)]
pub struct Registry {
    active: BTreeMap<Nspace, Group>,
    /// The groups that were made with processes of a namespace.
    of_job: BTreeMap<Nspace, BTreeSet<Nspace>>,
    /// Number of the groups whose first member is this process.
    of_first: BTreeMap<Proc, usize>,
    /// The last context id that was given here.
    last_context: u64,
}

impl Registry {
    /// Makes a context id for a group that is all on this node, where the host knows no groups: it gives none to any
    /// other one either, so that no process comes to hold two that are alike.
    pub fn own_context(&mut self) -> Info {
        self.last_context += 1;
        Info::new(keys::GROUP_CONTEXT_ID, Value::Size(self.last_context))
    }

    pub fn get(&self, id: &Nspace) -> Option<&Group> {
        self.active.get(id)
    }

    /// Counts the groups of a namespace.
    pub fn count_of(&self, nspace: &Nspace) -> usize {
        self.of_job.get(nspace).map_or(0, BTreeSet::len)
    }

    /// Counts the groups that a process is the first member of, as it is of those that it has made alone.
    pub fn count_led_by(&self, proc: &Proc) -> usize {
        self.of_first.get(proc).copied().unwrap_or_default()
    }

    /// The groups of a namespace, by name.
    fn groups_of(&self, nspace: &Nspace) -> Vec<Nspace> {
        self.of_job.get(nspace).into_iter().flatten().cloned().collect()
    }

    /// Returns whether processes of one namespace may map the other's memory, because they share a group.
    pub fn bind(&self, a: &Nspace, b: &Nspace) -> bool {
        let (Some(of_a), Some(of_b)) = (self.of_job.get(a), self.of_job.get(b)) else { return false };
        let few = if of_a.len() < of_b.len() { of_a } else { of_b };
        let binds = |group: &Group| group.bound.contains(a) && group.bound.contains(b);
        few.iter().any(|id| self.active.get(id).is_some_and(binds))
    }

    /// Adds a group that has been made, if any of its members runs here. Returns those that have died meanwhile.
    pub fn enroll(&mut self, jobs: &Jobs, id: Nspace, mut group: Group) -> Vec<Proc> {
        if !group.places.iter().any(|proc| jobs.runs_here(proc)) {
            return Vec::new();
        }
        let dead: Vec<Proc> = group.places.iter().filter(|proc| jobs.is_gone(proc)).cloned().collect();
        group.lost.extend(dead.iter().cloned());
        group.since = jobs.renewals();
        self.disband(&id);
        for nspace in group.jobs() {
            self.of_job.entry(nspace).or_default().insert(id.clone());
        }
        if let Some(first) = group.places.first() {
            *self.of_first.entry(first.clone()).or_default() += 1;
        }
        self.active.insert(id, group);
        dead
    }

    /// Forgets a group.
    pub fn disband(&mut self, id: &Nspace) {
        let Some(group) = self.active.remove(id) else { return };
        if let Some((first, count)) =
            group.places.first().and_then(|first| Some((first, self.of_first.get_mut(first)?)))
        {
            *count -= 1;
            if *count == 0 {
                self.of_first.remove(first);
            }
        }
        for nspace in group.jobs() {
            if let Some(groups) = self.of_job.get_mut(&nspace) {
                groups.remove(id);
                if groups.is_empty() {
                    self.of_job.remove(&nspace);
                }
            }
        }
    }

    /// Lets a destruct go on without dead members because of whom one has failed, so that it can be tried again. The
    /// group's name stands for them as before: whoever meets by it is to hear that they are gone.
    pub fn lose(&mut self, jobs: &Jobs, id: &Nspace, gone: &[Proc]) {
        if let Some(group) = self.active.get_mut(id) {
            group.excused.extend(gone.iter().cloned());
            self.forget_if_deserted(jobs, id);
        }
    }

    /// Takes a member out of a group. Returns whether it was one.
    pub fn leave(&mut self, jobs: &Jobs, id: &Nspace, proc: &Proc) -> bool {
        if !self.active.get_mut(id).is_some_and(|group| group.present.remove(proc)) {
            return false;
        }
        self.forget_if_deserted(jobs, id);
        true
    }

    fn forget_if_deserted(&mut self, jobs: &Jobs, id: &Nspace) {
        let is_left = |group: &Group, proc: &Proc| group.awaits(proc) && !group.has_lost(proc) && jobs.runs_here(proc);
        let awaits = |group: &Group| group.present.iter().any(|proc| is_left(group, proc));
        if !self.active.get(id).is_some_and(awaits) {
            self.disband(id);
        }
    }

    /// The next group of a namespace by name, and the places in it.
    pub fn next_of(&self, nspace: &Nspace, after: Option<&Nspace>) -> Option<(Nspace, usize)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let id = self.of_job.get(nspace)?.range::<Nspace, _>((from, Bound::Unbounded)).next()?;
        Some((id.clone(), self.active.get(id).map_or(0, |group| group.places.len())))
    }

    /// The other members of a group that wants to know of the death of one; none where it does not.
    pub fn to_notify(&self, id: &Nspace, proc: &Proc) -> Vec<Proc> {
        let concerned = self.get(id).filter(|group| group.notify && group.has(proc));
        let is_told = |group: &Group, other: &Proc| other != proc && !group.has_lost(other);
        let others = |group: &Group| group.members().into_iter().filter(|other| is_told(group, other)).collect();
        concerned.map(others).unwrap_or_default()
    }

    /// Forgets a group that had a process which has died as its last member here. In others it keeps its place: whoever
    /// meets by their names is to hear that it is gone.
    pub fn member_gone(&mut self, jobs: &Jobs, id: &Nspace, gone: &Proc) {
        let Some(group) = self.active.get_mut(id).filter(|group| group.has(gone)) else { return };
        group.lost.insert(gone.clone());
        let is_left = |proc: &Proc| {
            let lives = |of: &Proc| jobs.get(&of.nspace).is_some_and(|job| !job.is_gone(of.rank));
            !group.has_lost(proc) && jobs.runs_here(proc) && lives(proc)
        };
        if !group.present.iter().any(is_left) {
            self.disband(id);
        }
    }

    /// A namespace is deregistered, and so are its processes as members.
    pub fn job_over(&mut self, jobs: &Jobs, nspace: &Nspace) {
        for id in self.groups_of(nspace) {
            if let Some(group) = self.active.get_mut(&id) {
                group.present.retain(|proc| proc.nspace != *nspace);
            }
            self.forget_if_deserted(jobs, &id);
        }
    }

    /// The group that a name stands for; a job's name stands for the job, whatever groups are called.
    fn meant(&self, jobs: &Jobs, name: &Nspace) -> Option<&Group> {
        self.active.get(name).filter(|_| jobs.get(name).is_none())
    }

    /// Returns the processes that one name stands for, if it is that of a group, or of a process set that nothing else
    /// has the name of.
    fn named(&self, (jobs, sets): (&Jobs, &ProcessSets), proc: &Proc) -> Option<Result<Vec<Proc>, Status>> {
        if let Some(group) = self.meant(jobs, &proc.nspace) {
            return Some(group.named(proc.rank));
        }
        let members = sets.members(&proc.nspace).filter(|_| jobs.get(&proc.nspace).is_none())?;
        Some(match proc.rank {
            Rank::WILDCARD => Ok(members.to_vec()),
            rank => members.get(rank.0 as usize).map(|member| vec![member.clone()]).ok_or(Status::ERR_BAD_PARAM),
        })
    }

    /// Processes with the names of groups and of process sets replaced by their members.
    fn native(&self, known: (&Jobs, &ProcessSets), procs: Vec<Proc>) -> Result<Vec<Proc>, Status> {
        let is_name = |proc: &Proc| self.active.contains_key(&proc.nspace) || known.1.members(&proc.nspace).is_some();
        if !procs.iter().any(is_name) {
            return Ok(procs);
        }
        // A job that is named as a whole, however often, stands for its members once.
        let mut whole = BTreeSet::new();
        let named = |proc: Proc| {
            let is_whole = proc.rank == Rank::WILDCARD;
            if is_whole && whole.contains(&proc.nspace) {
                return Ok(Vec::new());
            }
            let Some(members) = self.named(known, &proc) else { return Ok(vec![proc]) };
            if is_whole {
                whole.insert(proc.nspace);
            }
            members
        };
        Ok(procs.into_iter().map(named).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// A request with the names of groups and of process sets replaced by their members. A fence remembers by which
    /// group it was named.
    pub fn translate(&self, known: (&Jobs, &ProcessSets), mut request: Request) -> Result<Request, Status> {
        let (jobs, sets) = known;
        if self.active.is_empty() && sets.is_empty() {
            return Ok(request);
        }
        match &mut request {
            Request::Fence { procs, info } | Request::Connect { procs, info } | Request::Disconnect { procs, info } => {
                let group = procs.iter().find(|proc| self.meant(jobs, &proc.nspace).is_some());
                info.extend(group.map(|group| id_of(&group.nspace)));
                *procs = self.native(known, std::mem::take(procs))?;
            }
            Request::Abort { procs, .. }
            | Request::JobControl { targets: procs, .. }
            | Request::PullOutput { procs, .. }
            | Request::Group { call: GroupCall::Construct { procs, .. } | GroupCall::Invite { procs, .. }, .. } => {
                *procs = self.native(known, std::mem::take(procs))?;
            }
            Request::Get { proc, .. } => {
                if let Some(members) = self.named(known, proc).filter(|_| proc.rank.is_process()) {
                    *proc = members?.remove(0);
                }
            }
            Request::Forward(Forward::Push { targets: procs, .. }) => {
                *procs = self.native(known, std::mem::take(procs))?
            }
            Request::Notify { info, .. }
            | Request::Forward(Forward::Publish { info } | Forward::Monitor { directives: info, .. }) => {
                replace_named(info, |procs| self.native(known, procs))?;
            }
            Request::Forward(Forward::Query { queries }) => {
                let mut named = 0;
                for query in queries {
                    named += self.qualify(known, &mut query.qualifiers)?;
                    if named > MAX_MEANT {
                        return Err(Status::ERR_OUT_OF_RESOURCE);
                    }
                }
            }
            _ => {}
        }
        Ok(request)
    }

    /// Attributes with the names of groups and of process sets replaced by their members, up to one that has no such rank.
    pub fn resolve(&self, known: (&Jobs, &ProcessSets), info: &mut [Info]) {
        let _ = replace_named(info, |procs| self.native(known, procs));
    }

    /// Puts the process that is meant in the place of a rank of a group that qualifiers of a query name. Several, where
    /// it names the group as a whole, stand beside it. Returns how many are meant.
    fn qualify(&self, known: (&Jobs, &ProcessSets), qualifiers: &mut Vec<Info>) -> Result<usize, Status> {
        let text = |key| qualifiers.find(key).and_then(|info| info.value.as_text());
        let rank = qualifiers.find(keys::RANK).and_then(|info| info.value.as_rank());
        let pair = text(keys::NSPACE).and_then(|name| Nspace::new(name).ok()).zip(rank);
        let whole = qualifiers.find(keys::PROCID).and_then(|info| info.value.as_proc().cloned());
        let asked = whole.or_else(|| pair.map(|(name, rank)| Proc::new(name, rank)));
        let asked = asked.filter(|proc| proc.rank.is_process() || proc.rank == Rank::WILDCARD);
        let meant = asked.and_then(|proc| self.named(known, &proc)).transpose()?.unwrap_or_default();
        let [member] = &meant[..] else {
            let several = meant.len();
            qualifiers.extend((several > 0).then(|| Info::new(MEANT, DataArray::of(meant))));
            return Ok(several);
        };
        for info in qualifiers {
            match info.key.as_str() {
                Some(keys::PROCID) => info.value = Value::Proc(member.clone()),
                Some(keys::NSPACE) => info.value = Value::string(&member.nspace),
                Some(keys::RANK) => info.value = Value::ProcRank(member.rank),
                _ => {}
            }
        }
        Ok(1)
    }

    /// Returns whether an event is for its raiser by the name of a process set alone: libraries of processes know their
    /// groups, and no sets, so its own handlers have not had it.
    pub fn is_for_raiser_by_set(&self, known: (&Jobs, &ProcessSets), raiser: &Proc, request: &Request) -> bool {
        let Request::Notify { range: DataRange::CUSTOM, info, .. } = request else { return false };
        if known.1.is_empty() {
            return false;
        }
        let named = info.find(keys::EVENT_CUSTOM_RANGE).and_then(|info| info.value.as_procs()).unwrap_or_default();
        let means = |name: &Proc| match self.named(known, name) {
            Some(members) => members.is_ok_and(|members| members.iter().any(|member| member.matches(raiser))),
            None => name.matches(raiser),
        };
        let is_set = |name: &Proc| self.meant(known.0, &name.nspace).is_none() && self.named(known, name).is_some();
        let (by_set, otherwise): (Vec<&Proc>, Vec<&Proc>) = named.iter().partition(|name| is_set(name));
        by_set.into_iter().any(&means) && !otherwise.into_iter().any(&means)
    }

    /// Answers a query for a key about groups; `group` is the one that the query names.
    pub fn answer(&self, key: &str, group: Option<&Text>) -> Option<Value> {
        match key {
            keys::QUERY_NUM_GROUPS => Some(Value::Size(self.active.len() as u64)),
            keys::QUERY_GROUP_NAMES => {
                let names = self.names().map(|name| Value::string(name.as_bytes())).collect();
                DataArray::new(DataType::STRING, names).ok().map(Value::DataArray)
            }
            keys::QUERY_GROUP_MEMBERSHIP => {
                let id = Nspace::new(group?.as_bytes()).ok()?;
                Some(array_of(self.active.get(&id)?.members()))
            }
            _ => None,
        }
    }

    /// The names of all groups.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Nspace> {
        self.active.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Channels, Key, Query};
    use crate::server::NoHost;
    use crate::server::ctx::testing;

    fn proc(nspace: &str, rank: Rank) -> Proc {
        Proc::new(Nspace::new(nspace).unwrap(), rank)
    }

    #[test]
    fn a_group_that_is_named_often_as_a_whole_stands_for_its_members_once() {
        let mut groups = Registry::default();
        let members: Vec<Proc> = (0..10_000).map(|rank| proc("job", Rank(rank))).collect();
        groups.active.insert(Nspace::new("g").unwrap(), Group::new(members.clone(), None, false));
        // A name of each member for each of these would be 10,000,000,000 of them.
        assert_eq!(
            groups.native((&Jobs::default(), &ProcessSets::default()), vec![proc("g", Rank::WILDCARD); 1_000_000]),
            Ok(members)
        );
    }

    #[test]
    fn a_process_set_stands_for_its_members_where_nothing_else_has_its_name() {
        let (mut test, mut sets) = (testing::ctx(NoHost), ProcessSets::default());
        let (mut groups, mut jobs) = (Registry::default(), Jobs::default());
        let members: Vec<Proc> = [2, 0].map(|rank| proc("job", Rank(rank))).to_vec();
        sets.define(&mut test.cx, Text::new("set").unwrap(), members.clone()).unwrap();
        let native = |groups: &Registry, jobs: &Jobs, rank| groups.native((jobs, &sets), vec![proc("set", rank); 2]);
        assert_eq!(native(&groups, &jobs, Rank::WILDCARD), Ok(members.clone()));
        assert_eq!(native(&groups, &jobs, Rank(0)), Ok(vec![members[0].clone(); 2]));
        assert_eq!(native(&groups, &jobs, Rank(2)), Err(Status::ERR_BAD_PARAM));
        let own = vec![proc("job", Rank(1))];
        groups.active.insert(Nspace::new("set").unwrap(), Group::new(own.clone(), None, false));
        assert_eq!(native(&groups, &jobs, Rank::WILDCARD), Ok(own));
        jobs.add(&Nspace::new("set").unwrap(), 1, &[Rank(0)]);
        assert_eq!(native(&groups, &jobs, Rank(0)), Ok(vec![proc("set", Rank(0)); 2]), "a job's name is the job's");
    }

    #[test]
    fn who_shares_a_group_is_known_without_a_look_at_its_members() {
        let (mut groups, mut jobs) = (Registry::default(), Jobs::default());
        jobs.add(&proc("a", Rank(0)).nspace, 1, &[Rank(0)]);
        let [a, b, c] = ["a", "b", "c"].map(|job| proc(job, Rank(0)).nspace);
        let shared = Nspace::new("shared").unwrap();
        groups.enroll(&jobs, shared.clone(), Group::new(vec![proc("a", Rank(0)), proc("b", Rank(0))], None, true));
        for number in 0..1000 {
            let own = Group::new(vec![proc("a", Rank(0))], None, false);
            groups.enroll(&jobs, Nspace::new(format!("own{number}")).unwrap(), own);
        }
        assert!(groups.bind(&a, &b) && groups.bind(&b, &a) && !groups.bind(&a, &c));
        assert_eq!((groups.count_of(&a), groups.count_of(&b)), (1001, 1));
        let others = vec![proc("b", Rank(0))];
        let own = Nspace::new("own7").unwrap();
        let told = [&shared, &own].map(|id| groups.to_notify(id, &proc("a", Rank(0))));
        assert_eq!(told, [others, vec![]]);
        assert!(groups.leave(&jobs, &shared, &proc("a", Rank(0))) && groups.get(&shared).is_none());
        assert!(!groups.bind(&a, &b));
        groups.job_over(&jobs, &a);
        assert!(groups.active.is_empty() && groups.of_job.is_empty());
    }

    #[test]
    fn a_group_ends_with_the_last_of_its_members_here() {
        let (mut groups, mut jobs) = (Registry::default(), Jobs::default());
        let members: Vec<Proc> = (0..3).map(|rank| proc("a", Rank(rank))).collect();
        jobs.add(&members[0].nspace, 3, &[Rank(0), Rank(1)]);
        let id = Nspace::new("g").unwrap();
        groups.enroll(&jobs, id.clone(), Group::new(members.clone(), None, true));
        let mut test = testing::ctx(NoHost);
        let mut dies = |groups: &mut Registry, of: &Proc| {
            groups.member_gone(&jobs, &id, of);
            jobs.deregister_client(&mut test.cx, of);
        };
        dies(&mut groups, &members[0]);
        assert_eq!(groups.get(&id).map(Group::members), Some(members.clone()));
        dies(&mut groups, &members[1]);
        assert!(groups.active.is_empty() && groups.of_job.is_empty());
    }

    #[test]
    fn who_is_started_anew_in_the_place_of_a_member_is_none() {
        let (mut groups, mut jobs) = (Registry::default(), Jobs::default());
        let members: Vec<Proc> = (0..2).map(|rank| proc("a", Rank(rank))).collect();
        jobs.add(&members[0].nspace, 2, &[Rank(0), Rank(1)]);
        let id = Nspace::new("g").unwrap();
        groups.enroll(&jobs, id.clone(), Group::new(members.clone(), None, true));
        groups.member_gone(&jobs, &id, &members[0]);
        let group = groups.get(&id).unwrap();
        assert_eq!((group.lost(), group.members()), (members[..1].to_vec(), members.clone()));
        assert_eq!(groups.to_notify(&id, &members[1]), [], "nobody else is left");
        // Both run by now.
        groups.member_gone(&jobs, &id, &members[1]);
        assert!(groups.active.is_empty());
    }

    #[test]
    fn a_member_elsewhere_is_replaced_when_its_rank_is_started_anew_after_the_group_was_made() {
        let (mut groups, mut jobs) = (Registry::default(), Jobs::default());
        let members: Vec<Proc> = [0, 2].map(|rank| proc("a", Rank(rank))).to_vec();
        jobs.add(&members[0].nspace, 4, &[Rank(0)]);
        jobs.renew(&members[1]);
        let id = Nspace::new("g").unwrap();
        groups.enroll(&jobs, id.clone(), Group::new(members.clone(), None, false));
        jobs.renew(&proc("a", Rank(3)));
        assert!(!groups.get(&id).unwrap().is_replaced(&jobs), "one before it, and one that is no member");
        jobs.renew(&members[1]);
        assert!(groups.get(&id).unwrap().is_replaced(&jobs));
        groups.enroll(&jobs, id.clone(), Group::new(members.clone(), None, false));
        assert!(!groups.get(&id).unwrap().is_replaced(&jobs), "the group is made anew with it");
    }

    #[test]
    fn a_groups_name_stands_for_its_dead_members_when_a_destruct_has_failed_because_of_them() {
        let (mut groups, mut jobs) = (Registry::default(), Jobs::default());
        let members: Vec<Proc> = (0..3).map(|rank| proc("a", Rank(rank))).collect();
        jobs.add(&members[0].nspace, 3, &[Rank(0), Rank(1), Rank(2)]);
        let id = Nspace::new("g").unwrap();
        groups.enroll(&jobs, id.clone(), Group::new(members.clone(), None, false));
        groups.lose(&jobs, &id, &members[..1]);
        let named = vec![proc("g", Rank::WILDCARD)];
        assert_eq!(groups.native((&jobs, &ProcessSets::default()), named), Ok(members.clone()));
        assert_eq!(groups.get(&id).map(Group::awaited), Some(members[1..].to_vec()));
        groups.lose(&jobs, &id, &members[1..]);
        assert!(groups.get(&id).is_none(), "nobody is left who could end it");
    }

    #[test]
    fn an_announced_group_lets_nobody_map_the_memory_of_who_has_not_come_here() {
        let (mut groups, mut jobs) = (Registry::default(), Jobs::default());
        let [a, b, c] = ["a", "b", "c"].map(|job| proc(job, Rank(0)));
        [&a, &b, &c].iter().for_each(|one| jobs.add(&one.nspace, 1, &[Rank(0)]));
        let all = || vec![a.clone(), b.clone(), c.clone()];
        let bind = |groups: &Registry| {
            [(&a, &b), (&b, &c), (&a, &c)].map(|(one, other)| groups.bind(&one.nspace, &other.nspace))
        };
        groups.enroll(&jobs, Nspace::new("announced").unwrap(), Group::invited(all(), &[], None, false));
        assert_eq!(bind(&groups), [false; 3]);
        let come = [b.clone(), c.clone()];
        groups.enroll(&jobs, Nspace::new("invited").unwrap(), Group::invited(all(), &come, None, false));
        assert_eq!(bind(&groups), [false, true, false]);
    }

    #[test]
    fn a_groups_name_stands_for_its_members_wherever_processes_are_named() {
        let ([a, b], mut jobs) = ([0, 7].map(|rank| proc("job", Rank(rank))), Jobs::default());
        let mut groups = Registry::default();
        let group = Group::new(vec![b.clone(), a.clone()], None, false);
        groups.active.insert(Nspace::new("g").unwrap(), group);
        let range = |procs: Vec<Proc>| vec![Info::new(keys::EVENT_CUSTOM_RANGE, DataArray::of(procs))];
        type Naming = fn(Vec<Proc>, Vec<Info>) -> Request;
        let requests: [Naming; 13] = [
            |procs, _| {
                let targets = Info::new(keys::MONITOR_TARGET_PROCS, DataArray::of(procs));
                let monitor = Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, Value::Undef);
                Request::Forward(Forward::Monitor { monitor, error: Status(1), directives: vec![targets] })
            },
            |procs, _| Request::Fence { procs, info: vec![id_of(&Nspace::new("g").unwrap())] },
            |procs, _| Request::Abort { status: 1, message: None, procs },
            |procs, _| Request::JobControl { targets: procs, directives: vec![] },
            |procs, _| Request::PullOutput { id: 1, procs, channels: Channels::STDIN, directives: vec![] },
            |procs, _| Request::Forward(Forward::Push { targets: procs, bytes: vec![], directives: vec![] }),
            |_, info| Request::Notify { status: Status(1), range: DataRange::CUSTOM, info },
            |procs, _| {
                let info = vec![Info::new(keys::EVENT_AFFECTED_PROC, procs[0].clone())];
                Request::Notify { status: Status(1), range: DataRange::LOCAL, info }
            },
            |procs, _| {
                let qualifiers = vec![Info::new(keys::PROCID, procs[0].clone())];
                Request::Forward(Forward::Query { queries: vec![Query { keys: vec![], qualifiers }] })
            },
            |procs, _| {
                let (nspace, rank) = (Value::string(&procs[0].nspace), Value::ProcRank(procs[0].rank));
                let qualifiers = vec![Info::new(keys::NSPACE, nspace), Info::new(keys::RANK, rank)];
                Request::Forward(Forward::Query { queries: vec![Query { keys: vec![], qualifiers }] })
            },
            |_, info| Request::Forward(Forward::Publish { info }),
            |_, directives| {
                let monitor = Info::new(keys::MONITOR_HEARTBEAT, true);
                Request::Forward(Forward::Monitor { monitor, error: Status(1), directives })
            },
            |mut procs, _| Request::Get { proc: procs.remove(0), key: None, info: vec![] },
        ];
        for request in requests {
            let mut named =
                request(vec![proc("g", Rank(1)), proc("g", Rank(0))], range(vec![proc("g", Rank::WILDCARD)]));
            // A fence gets the attribute that names its group with the translation.
            if let Request::Fence { info, .. } = &mut named {
                info.clear();
            }
            let native = request(vec![a.clone(), b.clone()], range(vec![b.clone(), a.clone()]));
            assert_eq!(groups.translate((&jobs, &ProcessSets::default()), named), Ok(native));
        }
        let of_all = Info::new(keys::PROCID, proc("g", Rank::WILDCARD));
        let asks = |qualifiers| Request::Forward(Forward::Query { queries: vec![Query { keys: vec![], qualifiers }] });
        let meant = Info::new(MEANT, DataArray::of([b.clone(), a.clone()]));
        let translated = groups.translate((&jobs, &ProcessSets::default()), asks(vec![of_all.clone()]));
        assert_eq!(translated, Ok(asks(vec![of_all.clone(), meant])));
        let queries = vec![Query { keys: vec![], qualifiers: vec![of_all] }; MAX_MEANT / 2 + 1];
        let too_many = groups.translate((&jobs, &ProcessSets::default()), Request::Forward(Forward::Query { queries }));
        assert_eq!(too_many, Err(Status::ERR_OUT_OF_RESOURCE));
        let affected = |key, value| {
            let info = vec![Info { key: Key::new(key).unwrap(), flags: 0, value }];
            Request::Notify { status: Status(1), range: DataRange::LOCAL, info }
        };
        let all = affected(keys::EVENT_AFFECTED_PROC, proc("g", Rank::WILDCARD).into());
        let members = affected(keys::EVENT_AFFECTED_PROCS, DataArray::of([b.clone(), a.clone()]).into());
        assert_eq!(groups.translate((&jobs, &ProcessSets::default()), all), Ok(members));
        let nobody = Request::Abort { status: 1, message: None, procs: vec![proc("g", Rank(2))] };
        assert_eq!(groups.translate((&jobs, &ProcessSets::default()), nobody), Err(Status::ERR_BAD_PARAM));
        // A job of that name, registered later, is what its processes mean by it.
        jobs.add(&Nspace::new("g").unwrap(), 2, &[Rank(0)]);
        let own = || Request::Fence { procs: vec![proc("g", Rank::WILDCARD)], info: vec![] };
        assert_eq!(groups.translate((&jobs, &ProcessSets::default()), own()), Ok(own()));
    }
}
