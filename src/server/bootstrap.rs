//! Groups whose members do not all know each other: leaders, and those whom they add.
//!
//! Leaders name each other, or know only how many they are (`PMIX_GROUP_BOOTSTRAP`): then each names itself. Any of them may add
//! members (`PMIX_GROUP_ADD_MEMBERS`), who know no more than the group's name and name nobody. The group is complete when all
//! leaders and all who were added have come.
//!
//! No server knows who belongs to such a group. So everybody who comes alone is passed on to the host at once, and leaders who name
//! each other as in any other construction; the host finds out when all have come, and says who they are. A host that does not know
//! such groups leaves them to the server, which makes those of its own node: as soon as it knows all leaders, everybody meets as if
//! each had named them all.
use std::collections::BTreeMap;

use super::blob::Others;
use super::construct::is_construct;
use super::ctx::timers::Deadline;
use super::ctx::timers::TimerId;
use super::ctx::timers::time_limit;
use super::fence::{Caller, Tracker};
use super::members::Operation;
use super::of_group::OfGroup;
use super::router::Router;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::{Infos, Reply};
use crate::trace;

/// What concerns only how a group is put together.
const OF_ASSEMBLY: [&str; 2] = [keys::GROUP_BOOTSTRAP, keys::GROUP_ADD_MEMBERS];

/// Somebody who has come alone.
#[derive(Debug)]
struct Single {
    id: Nspace,
    proc: Proc,
    caller: Caller,
    /// How many leaders there are, where this is one.
    leaders: Option<usize>,
    info: Vec<Info>,
    of_group: Box<OfGroup>,
    limit: Option<TimerId>,
    at_host: bool,
}

/// Those who have come alone, by the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Singles {
    waiting: BTreeMap<u64, Single>,
    last: u64,
}

impl Singles {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    fn numbers(&self, which: impl Fn(&Single) -> bool) -> Vec<u64> {
        self.waiting.iter().filter(|(_, single)| which(single)).map(|(number, _)| *number).collect()
    }

    fn take(&mut self, which: impl Fn(&Single) -> bool) -> Vec<Single> {
        let numbers = self.numbers(which);
        numbers.iter().filter_map(|number| self.waiting.remove(number)).collect()
    }
}

/// Who is added to a group, each once; an error where the attribute names no processes.
pub(super) fn added(info: &[Info]) -> Result<Vec<Proc>, Status> {
    let lists = info.iter().filter(|info| info.key == keys::GROUP_ADD_MEMBERS);
    let lists = lists.map(|info| info.value.as_procs().ok_or(Status::ERR_BAD_PARAM));
    Ok(lists.collect::<Result<Vec<_>, _>>()?.concat())
}

fn without_assembly(info: &[Info]) -> Vec<Info> {
    info.iter().filter(|info| !OF_ASSEMBLY.iter().any(|key| info.key == *key)).cloned().collect()
}

impl Router {
    /// A leader that does not know the others, or somebody whom others have added, comes to make a group.
    pub(super) fn come_alone(&mut self, caller: Caller, proc: Proc, id: Nspace, procs: Vec<Proc>, info: Vec<Info>) {
        if procs.is_empty()
            && let Some(known) = self.meeting_of(&id, &proc)
        {
            return self.meet(caller, proc, Operation::Construct(id), known, info);
        }
        let leaders = match self.may_come_alone(&proc, &id, &procs, &info) {
            Ok(leaders) => leaders,
            Err(status) => {
                trace!("{proc} cannot come to the group {id}: {status}");
                return self.cx.reply_status(caller.peer, caller.number, Err(status));
            }
        };
        let operation = Operation::Construct(id.clone());
        let Some(mut of_group) = OfGroup::new(&operation, &info).map(Box::new) else { return };
        of_group.joined(&proc, &procs, &info);
        let data = match self.group_data(std::slice::from_ref(&proc), &of_group) {
            Ok(data) => data,
            Err(status) => return self.cx.reply_status(caller.peer, caller.number, Err(status)),
        };
        self.groups.singles.last += 1;
        let number = self.groups.singles.last;
        let limit = time_limit(&info).flatten();
        let limit = limit.map(|limit| self.cx.set_deadline(limit, Deadline::Single(number)));
        // Only the host can end it for others; so it hears of the time limit, too, and of who this is.
        let ours = [keys::GROUP_ID, keys::GROUP_INFO];
        let mut told: Vec<Info> =
            info.iter().filter(|info| !ours.iter().any(|key| info.key == *key)).cloned().collect();
        told.extend([Info::new(keys::PROCID, proc.clone()), Info::new(keys::GROUP_ENDPT_DATA, data)]);
        let single = Single { id, proc, caller, leaders, info, of_group, limit, at_host: true };
        self.groups.singles.waiting.insert(number, single);
        self.ask_host_of_group(&operation, &procs, &told, move |router, result| router.single_answered(number, result));
    }

    /// Whether somebody may come alone; how many leaders there are, where it is one.
    fn may_come_alone(&self, proc: &Proc, id: &Nspace, procs: &[Proc], info: &[Info]) -> Result<Option<usize>, Status> {
        self.may_begin(id)?;
        added(info)?;
        if self.groups.singles.waiting.values().any(|single| single.id == *id && single.proc == *proc) {
            return Err(Status::ERR_EXISTS);
        }
        let count = info.find(keys::GROUP_BOOTSTRAP).map(|info| info.value.as_u64().ok_or(Status::ERR_BAD_PARAM));
        match count.transpose()? {
            None if procs.is_empty() => Ok(None),
            Some(leaders) if leaders > 0 && procs == [proc.clone()] => Ok(usize::try_from(leaders).ok()),
            _ => Err(Status::ERR_BAD_PARAM),
        }
    }

    /// The members of a construction under way here that waits for this process.
    fn meeting_of(&self, id: &Nspace, proc: &Proc) -> Option<Vec<Proc>> {
        let waits = |tracker: &&Tracker| {
            is_construct(tracker, id) && tracker.members.contains(proc) && !tracker.arrived.contains(proc)
        };
        Some(self.fences.gathering.values().flatten().find(waits)?.members.procs())
    }

    fn single_answered(&mut self, number: u64, result: Result<Infos, Status>) {
        let Some(single) = self.groups.singles.waiting.get_mut(&number) else { return };
        let id = single.id.clone();
        match result {
            Ok((status, infos)) if is_assembled(status, &infos) => {
                let others = self.blobs_in(&infos);
                self.assembled(&id, status, &infos, others);
            }
            // A host that says nothing of members knows only groups whose members know each other.
            Ok((Status::SUCCESS | Status::OPERATION_SUCCEEDED, _)) | Err(Status::ERR_NOT_SUPPORTED) => {
                single.at_host = false;
                self.assemble_here(&id);
            }
            Ok((status, _)) | Err(status) => {
                trace!("{} and the group {id}: the host answers {status}", single.proc);
                self.end_single(number, status);
            }
        }
    }

    /// The host says that all have come.
    pub(super) fn assembled(&mut self, id: &Nspace, status: Status, infos: &[Info], others: Result<Others, Status>) {
        let singles = self.groups.singles.take(|single| single.id == *id);
        let led = |tracker: &Tracker| is_construct(tracker, id) && tracker.has_added();
        let trackers: Vec<Tracker> =
            self.fences.at_host.extract_if(|_, tracker| led(tracker)).map(|(_, tracker)| tracker).collect();
        let groups = singles.iter().map(|single| &single.of_group);
        let groups = groups.chain(trackers.iter().filter_map(|tracker| tracker.of_group.as_ref()));
        let Some(merged) = OfGroup::merged(id, groups.map(|group| &**group)) else { return };
        let made = others.and_then(|others| match others.failure {
            Some(failure) => Err(failure.status),
            None => self.make_assembled(&merged, status, infos, others.ranks),
        });
        let reply = made.unwrap_or_else(Reply::Done);
        for single in singles {
            self.cx.timers.cancel(single.limit);
            self.cx.reply(single.caller.peer, single.caller.number, reply.clone());
        }
        for tracker in trackers {
            let members = tracker.members.clone();
            self.answer_with(tracker, &reply);
            self.settle(&members);
        }
    }

    /// Leaders that know each other have come, and their host cannot find out whether those have whom they add.
    pub(super) fn assemble_led(&mut self, mut tracker: Tracker) {
        let Operation::Construct(id) = tracker.members.operation().clone() else { return };
        let Some(group) = tracker.of_group.take() else { return };
        let members = self.together(&group.order, group.added.clone());
        if tracker.census.elsewhere || !members.iter().all(|proc| self.jobs.runs_here(proc)) {
            return self.answer(tracker, Err(Status::ERR_NOT_SUPPORTED));
        }
        self.cx.timers.cancel(tracker.limit.take());
        for proc in tracker.arrived.procs().collect::<Vec<_>>() {
            if let Some(caller) = tracker.arrived.take(&proc) {
                let info = group.infos.get(&proc).map(|info| without_assembly(info)).unwrap_or_default();
                self.meet(caller, proc, Operation::Construct(id.clone()), members.clone(), info);
            }
        }
        self.assemble_here(&id);
    }

    /// Lets those meet whom the host has left to this server, as far as it is known who they are.
    fn assemble_here(&mut self, id: &Nspace) {
        let here = |single: &Single| single.id == *id && !single.at_host;
        let waiting = || self.groups.singles.waiting.values().filter(|single| here(single));
        let leaders: Vec<&Single> = waiting().filter(|single| single.leaders.is_some()).collect();
        let wanted = leaders.first().and_then(|first| first.leaders);
        if leaders.iter().any(|leader| leader.leaders != wanted) {
            trace!("the leaders of the group {id} do not agree on how many they are");
            return self.end_singles(here, Status::ERR_BAD_PARAM);
        }
        if wanted == Some(leaders.len()) {
            let mut procs: Vec<Proc> = leaders.iter().map(|leader| leader.proc.clone()).collect();
            procs.sort();
            let members =
                self.together(&procs, leaders.iter().flat_map(|leader| leader.of_group.added.clone()).collect());
            if !members.iter().all(|proc| self.jobs.runs_here(proc)) {
                return self.end_singles(here, Status::ERR_NOT_SUPPORTED);
            }
            // Who has died since it came has done its part, and is to be counted before it is missed.
            let mut come = self.groups.singles.take(|single| here(single) && members.contains(&single.proc));
            come.sort_by_key(|single| !self.jobs.is_gone(&single.proc));
            come.into_iter().for_each(|single| self.meet_others(single, members.clone()));
        }
        // The others, each where leaders wait for it.
        let meets = |(number, single): (&u64, &Single)| {
            let members = self.meeting_of(id, &single.proc).filter(|_| here(single))?;
            Some((*number, members))
        };
        for (number, members) in self.groups.singles.waiting.iter().filter_map(meets).collect::<Vec<_>>() {
            if let Some(single) = self.groups.singles.waiting.remove(&number) {
                self.meet_others(single, members);
            }
        }
    }

    /// Leaders in their order, and behind them whom they add, who have none.
    fn together(&self, leaders: &[Proc], added: Vec<Proc>) -> Vec<Proc> {
        let mut added = self.jobs.each(&added);
        added.sort();
        self.jobs.each(&[leaders, &added].concat())
    }

    fn meet_others(&mut self, single: Single, members: Vec<Proc>) {
        self.cx.timers.cancel(single.limit);
        let info = without_assembly(&single.info);
        self.meet(single.caller, single.proc, Operation::Construct(single.id), members, info);
    }

    fn end_single(&mut self, number: u64, status: Status) {
        if let Some(single) = self.groups.singles.waiting.remove(&number) {
            self.cx.timers.cancel(single.limit);
            self.cx.reply_status(single.caller.peer, single.caller.number, Err(status));
        }
    }

    fn end_singles(&mut self, which: impl Fn(&Single) -> bool, status: Status) {
        let numbers = self.groups.singles.numbers(which);
        numbers.into_iter().for_each(|number| self.end_single(number, status));
    }

    /// A namespace is deregistered: nobody of it comes any more.
    pub(super) fn singles_of_job_end(&mut self, nspace: &Nspace) {
        self.end_singles(|single| single.proc.nspace == *nspace, Status::EVENT_JOB_END);
    }

    /// The time that somebody who has come alone gives the others is over.
    pub(super) fn single_expired(&mut self, number: u64) {
        if let Some(single) = self.groups.singles.waiting.get_mut(&number) {
            single.limit = None;
            trace!("{} has waited long enough for the group {}", single.proc, single.id);
        }
        self.end_single(number, Status::ERR_TIMEOUT);
    }
}

/// Whether a host says who is in a group.
pub(super) fn is_assembled(status: Status, infos: &[Info]) -> bool {
    let good = [Status::SUCCESS, Status::OPERATION_SUCCEEDED, Status::ERR_PARTIAL_SUCCESS].contains(&status);
    good && infos.find(keys::GROUP_MEMBERSHIP).is_some()
}
