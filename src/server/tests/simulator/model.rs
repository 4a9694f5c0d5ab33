//! Model of the [rules](super::rules) that must hold, kept beside the servers and far simpler than they are.
use std::collections::{BTreeMap, BTreeSet};

use super::host::Purpose;
use super::node::Node;
use super::posted::{KEYS, Versions, version_of};
use super::rules::{Broken, Rule};
use crate::data::{Info, InfoList, Key, Nspace, Proc, Scope, Status, Value, keys};
use crate::message::Reply;
use crate::store::Directives;

/// A collective: purpose, group and participants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Collective {
    pub purpose: Purpose,
    pub group: Option<Nspace>,
    pub members: Vec<Proc>,
}

/// Answer that a request should have.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Answer of a collective, which the rank has come to as often before.
    Met(Collective, usize),
    /// The value of a key, by its place among all.
    Value(Proc, usize),
    Segments(Nspace),
    Goodbye,
}

/// A rank's arrival at a collective.
#[derive(Clone, Debug)]
struct Attendance {
    collects: bool,
    committed: Versions,
    /// True if it may have been refused, and have met nobody.
    may_be_none: bool,
    /// True if its node may have had no memory for what others brought to it, and fetches that once it is asked for.
    may_lack_data: bool,
    /// True if it has failed for the rank, be it before the host has answered: its data may come behind the next one's,
    /// and is fetched by who asks before.
    has_failed: bool,
}

/// Everything that is known of a run, apart from its servers.
#[derive(Debug, Default)]
pub struct Model {
    /// True if servers have a limit of shared memory.
    is_short_of_memory: bool,
    attended: BTreeMap<Collective, BTreeMap<Proc, Vec<Attendance>>>,
    /// Versions that each rank has committed at least once.
    committed: BTreeMap<Proc, Versions>,
    /// Pairs of jobs of which processes have wished to be tied.
    wished: BTreeMap<(Nspace, Nspace), BTreeSet<Nspace>>,
    /// First answer about each group, by the number of times that it was made.
    groups: BTreeMap<(Collective, usize), (Vec<Proc>, Option<Value>)>,
    /// Ranks of which a commit has failed: what they have posted is not known.
    unknown: BTreeSet<Proc>,
}

/// Statuses of collectives that a rank has come to; with others it may have been refused.
const HAS_COME: [Status; 4] =
    [Status::ERR_TIMEOUT, Status::ERR_PARTIAL_SUCCESS, Status::ERR_PROC_TERM_WO_SYNC, Status::ERR_LOST_CONNECTION];

impl Model {
    pub fn new(is_short_of_memory: bool) -> Self {
        Self { is_short_of_memory, ..Self::default() }
    }

    /// Notes what a rank commits.
    pub fn commits(&mut self, proc: &Proc, versions: Versions) {
        self.committed.insert(proc.clone(), versions);
    }

    /// Notes that a commit of a rank has failed.
    pub fn failed_to_commit(&mut self, proc: &Proc) {
        self.unknown.insert(proc.clone());
    }

    /// Notes that a rank comes to a collective; returns how often it had before.
    pub fn comes(&mut self, proc: &Proc, collective: &Collective, collects: bool, committed: Versions) -> usize {
        if collective.purpose != Purpose::Fence {
            for other in &collective.members {
                let mut pair = [proc.nspace.clone(), other.nspace.clone()];
                pair.sort_unstable();
                let [a, b] = pair;
                self.wished.entry((a, b)).or_default().insert(proc.nspace.clone());
            }
        }
        let of = self.attended.entry(collective.clone()).or_default().entry(proc.clone()).or_default();
        of.push(Attendance { collects, committed, may_be_none: false, may_lack_data: false, has_failed: false });
        of.len() - 1
    }

    /// Checks an answer to a rank, whose node is `here`.
    pub fn answered(&mut self, node: &Node, proc: &Proc, expected: &Expected, reply: &Reply) -> Result<(), Broken> {
        match (expected, reply) {
            (Expected::Met(collective, at), reply) => {
                let status = match reply {
                    Reply::Done(status) | Reply::Infos(status, _) => *status,
                    other => return Err(format!("{other:?} is no answer to a collective").into()),
                };
                if status != Status::SUCCESS {
                    self.failed(collective, proc, *at, status);
                    return Ok(());
                }
                self.met(node, proc, collective, *at)?;
                match reply {
                    Reply::Infos(_, infos) => self.made(collective, *at, infos),
                    _ => Ok(()),
                }
            }
            (Expected::Value(of, key), Reply::Value(value)) => self.found(of, *key, value),
            (Expected::Segments(nspace), Reply::Segments { .. }) => self.mapped(proc, nspace),
            (Expected::Value(..), Reply::Done(Status::SUCCESS)) => Err("a look-up has success and no value".into()),
            _ => Ok(()),
        }
    }

    /// Notes how a collective has failed for one of its members.
    fn failed(&mut self, collective: &Collective, proc: &Proc, at: usize, status: Status) {
        let of = self.attended.get_mut(collective).and_then(|attended| attended.get_mut(proc));
        if let Some(attendance) = of.and_then(|of| of.get_mut(at)) {
            attendance.has_failed = true;
            attendance.may_be_none |= !HAS_COME.contains(&status);
            attendance.may_lack_data |= self.is_short_of_memory;
        }
    }

    /// Checks a collective that has succeeded for one of its members.
    fn met(&self, node: &Node, proc: &Proc, collective: &Collective, at: usize) -> Result<(), Broken> {
        // A rank that disconnects from a job that is over meets nobody of it.
        let counts = collective.purpose != Purpose::Disconnect;
        let Some(attended) = self.attended.get(collective).filter(|_| counts) else { return Ok(()) };
        let before = |proc: &Proc| attended.get(proc).map_or(&[][..], Vec::as_slice);
        // Arrivals that were refused may have met nobody: the others count for sure.
        let least = before(proc).iter().take(at).filter(|attendance| !attendance.may_be_none).count();
        for member in &collective.members {
            let theirs = before(member);
            if theirs.len() <= least {
                return Rule::AllHaveCome.broken(format!(
                    "{collective:?} succeeds for {proc} as number {least}, and {member} has come {} times",
                    theirs.len()
                ));
            }
            let exact = before(proc).iter().take(at).chain(theirs.iter().take(at)).all(|one| !one.may_be_none);
            let collects =
                collective.members.iter().all(|member| before(member).get(at).is_some_and(|one| one.collects));
            let lacks_data = before(proc).iter().take(at).any(|one| one.may_lack_data);
            if exact && collects && !lacks_data && !self.unknown.contains(member) {
                kept(node, proc, member, &surely_there(before(proc), &theirs[..=at]))?;
            }
        }
        Ok(())
    }

    /// Checks that members of a group are told the same of it.
    fn made(&mut self, collective: &Collective, at: usize, infos: &[Info]) -> Result<(), Broken> {
        let members = infos.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs()).unwrap_or_default();
        let context = infos.find(keys::GROUP_CONTEXT_ID).map(|info| info.value.clone());
        let told = (members, context);
        let first = self.groups.entry((collective.clone(), at)).or_insert_with(|| told.clone());
        match *first == told {
            true => Ok(()),
            false => Rule::GroupAgreed.broken(format!("{collective:?} is {first:?} for one and {told:?} for another")),
        }
    }

    /// Checks a value that was found.
    fn found(&self, of: &Proc, key: usize, value: &Value) -> Result<(), Broken> {
        let most = self.committed.get(of).map_or(0, |versions| versions[key]);
        match version_of(value) {
            Some(version) if version > 0 && version <= most => Ok(()),
            version => Rule::ValueCommitted.broken(format!(
                "{} of {of} is found as {version:?}; {most} is the last that was committed",
                KEYS[key].0
            )),
        }
    }

    /// Checks that a rank may have descriptors of a job.
    fn mapped(&self, proc: &Proc, nspace: &Nspace) -> Result<(), Broken> {
        let mut pair = [proc.nspace.clone(), nspace.clone()];
        pair.sort_unstable();
        let [a, b] = pair;
        let both =
            [&a, &b].iter().all(|job| self.wished.get(&(a.clone(), b.clone())).is_some_and(|by| by.contains(*job)));
        match proc.nspace == *nspace || both {
            true => Ok(()),
            false => {
                Rule::SegmentsOfTied.broken(format!("{proc} is given segments of {nspace}, which has not wished so"))
            }
        }
    }
}

/// Returns the versions that a member had committed when it came to the last of these, and none where one that has failed
/// for the rank itself was the first to carry them.
fn surely_there(own: &[Attendance], theirs: &[Attendance]) -> Versions {
    let mut versions = theirs.last().map(|last| last.committed).unwrap_or_default();
    for (key, version) in versions.iter_mut().enumerate() {
        let carrier = theirs.iter().position(|one| one.committed[key] >= *version);
        if carrier.and_then(|at| own.get(at)).is_some_and(|own| own.has_failed) {
            *version = 0;
        }
    }
    versions
}

/// Checks that what a member had committed is in the store of another one's node.
fn kept(node: &Node, proc: &Proc, member: &Proc, committed: &Versions) -> Result<(), Broken> {
    let jobs = &node.reactor.router.jobs;
    let Some(store) = jobs.store(&member.nspace) else { return Ok(()) };
    let is_here = jobs.runs_here(member);
    for ((name, scope), version) in KEYS.iter().zip(committed) {
        let is_visible = match *scope {
            Scope::LOCAL => is_here,
            Scope::REMOTE => !is_here,
            _ => true,
        };
        if *version == 0 || !is_visible {
            continue;
        }
        let key = Key::new(name).map_err(|_| "a bad key")?;
        let directives = Directives::parse(&[]).map_err(|_| "bad directives")?;
        let found = store.get(proc.rank, member.rank, &key, &directives);
        if !found.as_ref().is_ok_and(|value| version_of(value).is_some_and(|found| found >= *version)) {
            return Rule::DataThere.broken(format!(
                "after a collecting fence {proc} finds {name} of {member} as {:?}; version {version} was committed before",
                found.map(|value| version_of(&value))
            ));
        }
    }
    Ok(())
}
