//! Groups whose members do not all know each other: leaders, and the processes that they add.
//!
//! Leaders name each other, or know only how many they are (`PMIX_GROUP_BOOTSTRAP`): then each names itself. Any of
//! them may add members (`PMIX_GROUP_ADD_MEMBERS`), which know no more than the group's name and name nobody. The group
//! is complete when all leaders and all added members have come.
//!
//! No server knows who belongs to such a group. So a process that comes alone is passed on to the host at once, and
//! leaders that name each other as in any other construction; the host finds out when all have come, and says who they
//! are. A host that does not know such groups leaves them to the server, which makes those of its own node: as soon as
//! it knows all leaders, everybody meets as if each had named them all.
use std::collections::{BTreeMap, BTreeSet};

use super::MAX_OPEN;
use super::bringing::{self, Bringing, Place};
use super::construct::{self, Constructs};
use super::floor::Floor;
use super::make;
use super::part::{Part, added};
use super::sharing::Sharing;
use crate::account::Charge;
use crate::by_number::ByNumber;
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::door::PeerId;
use crate::message::{Infos, Reply};
use crate::server::collective::Collectives;
use crate::server::collective::arrived::Waiter;
use crate::server::collective::brought::Brought;
use crate::server::collective::exchange::Said;
use crate::server::collective::signature::Operation;
use crate::server::ctx::peers::Caller;
use crate::server::ctx::ticket::{Ticket, TrackerId};
use crate::server::ctx::timers::{Deadline, TimerId};
use crate::trace;

/// Attributes that concern only how a group is put together.
const OF_ASSEMBLY: [&str; 2] = [keys::GROUP_BOOTSTRAP, keys::GROUP_ADD_MEMBERS];

/// A process that has come alone.
#[derive(Debug)]
struct Single {
    proc: Proc,
    caller: Caller,
    /// Number of leaders, where this is one.
    leaders: Option<usize>,
    info: Vec<Info>,
    part: Part,
    limit: Option<TimerId>,
    at_host: bool,
    /// Charges to its job for what it brings.
    _charges: Vec<Charge>,
}

/// A group that all have come to, while what the others bring is taken in.
#[derive(Debug)]
pub struct Assembly {
    part: Part,
    /// The host's answer, without that data.
    answer: Infos,
    /// Processes here that came alone, and wait.
    singles: Vec<Caller>,
    /// Constructs of leaders here.
    led: Vec<TrackerId>,
}

impl Assembly {
    /// The peers that wait for it.
    pub fn peers(&self, collectives: &Collectives) -> Vec<PeerId> {
        let led = self.led.iter().flat_map(|id| collectives.peers_of(*id));
        self.singles.iter().map(|caller| caller.peer).chain(led).collect()
    }

    /// Begins to store what members here have given, if all have come.
    ///
    /// # Errors
    /// The status with which it has failed on another node, or `ERR_NOT_SUPPORTED` without a context id that is required.
    pub fn share(&self, result: Result<Said, Status>) -> Result<(Sharing, Said), Status> {
        let said = result?;
        match &said.failure {
            Some(failure) => Err(failure.status),
            None => Ok((make::share(&self.part, &self.answer.1)?, said)),
        }
    }

    /// Makes the group, where all that members have given is stored, and answers those of this node.
    pub fn end(self, floor: &mut Floor<'_>, shared: Result<Said, Status>) {
        let Assembly { part, answer: (status, infos), singles, led } = self;
        let made = shared.map(|said| make::assembled(floor, &part, status, &infos, &said));
        let reply = made.unwrap_or_else(Reply::Done);
        singles.into_iter().for_each(|caller| floor.cx.answer(caller, reply.clone()));
        for tracker in led {
            floor.collectives.finish(floor.cx, floor.jobs, tracker, &reply);
        }
    }
}

/// The processes that have come alone, by the order in which they came.
#[derive(Debug, Default)]
pub struct Singles {
    waiting: ByNumber<u64, Single>,
    /// Processes that came alone to one group, each once.
    by_group: BTreeMap<Nspace, BTreeMap<Proc, u64>>,
    /// The groups that a process has come to.
    groups_of: BTreeMap<Proc, BTreeSet<Nspace>>,
    /// Data for the host that threads prepare.
    bringing: BTreeMap<u64, Place>,
    last: u64,
}

impl Singles {
    /// The numbers of those of one group, in the order in which they came.
    fn numbers(&self, group: &Nspace, which: impl Fn(&Single) -> bool) -> BTreeSet<u64> {
        let of_group = self.by_group.get(group).into_iter().flatten().map(|(_, number)| *number);
        collect_small(of_group.filter(|number| self.waiting.get(number).is_some_and(&which)))
    }

    fn take(&mut self, group: &Nspace, which: impl Fn(&Single) -> bool) -> Vec<Single> {
        self.numbers(group, which).into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// Returns whether nobody waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let is_waiting = !self.waiting.is_empty() || !self.bringing.is_empty();
        !is_waiting && self.by_group.is_empty() && self.groups_of.is_empty()
    }

    fn add(&mut self, number: u64, single: Single) {
        let (group, proc) = (single.part.group.clone(), single.proc.clone());
        self.by_group.entry(group.clone()).or_default().insert(proc.clone(), number);
        self.groups_of.entry(proc).or_default().insert(group);
        self.waiting.insert(number, single);
    }

    /// Takes a process out of everything that leads to it.
    fn remove(&mut self, number: u64) -> Option<Single> {
        let single = self.waiting.remove(&number)?;
        let group = &single.part.group;
        if let Some(of_group) = self.by_group.get_mut(group) {
            of_group.remove(&single.proc);
            if of_group.is_empty() {
                self.by_group.remove(group);
            }
        }
        if let Some(groups) = self.groups_of.get_mut(&single.proc) {
            groups.remove(group);
            if groups.is_empty() {
                self.groups_of.remove(&single.proc);
            }
        }
        Some(single)
    }

    /// Lets a leader that does not know the others, or a process that others have added, come to make a group.
    pub fn come(
        &mut self,
        floor: &mut Floor<'_>,
        constructs: &mut Constructs,
        caller: Caller,
        (proc, id): (Proc, &Nspace),
        (procs, info): (&[Proc], Vec<Info>),
    ) {
        let operation = Operation::Construct(id.clone());
        if procs.is_empty()
            && let Some(known) = awaited_by(floor, id, &proc)
        {
            return constructs.arrive(floor, Waiter::of(caller), &proc, operation, (&known, &info));
        }
        let leaders = match self.may_come(&proc, id, procs, &info) {
            Ok(leaders) => leaders,
            Err(status) => {
                trace!("{proc} cannot come to the group {id}: {status}");
                return floor.cx.answer_status(caller, Err(status));
            }
        };
        let mut part = Part::new(id);
        part.joined(&proc, procs, &info);
        let (alone, peers) = (std::slice::from_ref(&proc), vec![caller.peer]);
        let bytes = bringing::bytes(floor.jobs, alone, &part);
        let charges = match floor.cx.charge_jobs(&peers, 2 * bytes as usize) {
            Ok(charges) => charges,
            Err(status) => return floor.cx.answer_status(caller, Err(status)),
        };
        self.last += 1;
        let number = self.last;
        let limit = info.time_limit().flatten();
        let limit = limit.map(|limit| floor.cx.set_deadline(limit, Deadline::Single(number)));
        let ticket = move || Ticket::SingleBringing(number);
        let bringing = Bringing::begin(floor.cx, floor.jobs, alone, &part, (bytes, peers), ticket);
        let data = bringing.is_none().then(|| bringing::data(floor.cx, floor.jobs, alone, &part));
        self.add(number, Single { proc, caller, leaders, info, part, limit, at_host: true, _charges: charges });
        self.bringing.extend(bringing.map(|place| (number, place)));
        if let Some(data) = data {
            self.ask(floor, number, data);
        }
    }

    /// A thread has prepared what a process that came alone brings.
    pub fn brought(&mut self, floor: &mut Floor<'_>, number: u64) {
        let Some(place) = self.bringing.remove(&number) else { return };
        let Some(single) = self.waiting.get(&number) else { return bringing::give_up(floor.jobs, &place) };
        let alone = std::slice::from_ref(&single.proc);
        let data = bringing::finish(floor.cx, floor.jobs, &place, alone, &single.part);
        self.ask(floor, number, data);
    }

    /// Asks the host about a process that came alone, with what it brings.
    fn ask(&mut self, floor: &mut Floor<'_>, number: u64, data: Result<Vec<u8>, Status>) {
        let Some(Single { proc, info, leaders, part, .. }) = self.waiting.get(&number) else { return };
        let data = match data {
            Ok(data) => data,
            Err(status) => return self.end(floor, number, status),
        };
        // Only the host can end it for others; so it hears of the time limit, too, and of who this is.
        let ours = [keys::GROUP_ID, keys::GROUP_INFO];
        let mut told: Vec<Info> =
            info.iter().filter(|info| !ours.iter().any(|key| info.key == *key)).cloned().collect();
        told.extend([Info::new(keys::PROCID, proc.clone()), Info::new(keys::GROUP_ENDPT_DATA, data)]);
        // A leader names itself, and an added process nobody.
        let procs = leaders.map(|_| std::slice::from_ref(proc)).unwrap_or_default();
        let operation = Operation::Construct(part.group.clone());
        construct::ask_host(floor.cx, &operation, procs, &told, move |result| Ticket::Single(number, result));
    }

    /// Returns how many leaders there are, where a process that may come alone is one.
    fn may_come(&self, proc: &Proc, id: &Nspace, procs: &[Proc], info: &[Info]) -> Result<Option<usize>, Status> {
        added(info)?;
        let come_to = self.groups_of.get(proc);
        if come_to.is_some_and(|groups| groups.contains(id)) {
            return Err(Status::ERR_EXISTS);
        }
        if come_to.is_some_and(|groups| groups.len() >= MAX_OPEN) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let count = info.find(keys::GROUP_BOOTSTRAP).map(|info| info.value.as_u64().ok_or(Status::ERR_BAD_PARAM));
        match count.transpose()? {
            None if procs.is_empty() => Ok(None),
            Some(leaders) if leaders > 0 && procs == [proc.clone()] => Ok(usize::try_from(leaders).ok()),
            _ => Err(Status::ERR_BAD_PARAM),
        }
    }

    /// The host has answered about a process that came alone. Returns a group that all have come to.
    pub fn answered(
        &mut self,
        floor: &mut Floor<'_>,
        constructs: &mut Constructs,
        number: u64,
        result: Result<Infos, Status>,
    ) -> Option<(Assembly, Brought)> {
        let single = self.waiting.get_mut(&number)?;
        let group = single.part.group.clone();
        match result {
            Ok((status, infos)) if construct::is_assembled(status, &infos) => {
                return Some(self.assemble(floor, constructs, &group, (status, infos)));
            }
            // A host that says nothing of members knows only groups whose members know each other.
            Ok((Status::SUCCESS | Status::OPERATION_SUCCEEDED, _)) | Err(Status::ERR_NOT_SUPPORTED) => {
                single.at_host = false;
                self.assemble_here(floor, constructs, &group);
            }
            Ok((status, _)) | Err(status) => {
                trace!("{} and the group {group}: the host answers {status}", single.proc);
                self.end(floor, number, status);
            }
        }
        None
    }

    /// The host says that all have come: takes those of this node out. The data that the others bring is taken in
    /// before they hear of it.
    pub fn assemble(
        &mut self,
        floor: &mut Floor<'_>,
        constructs: &mut Constructs,
        id: &Nspace,
        (status, mut infos): Infos,
    ) -> (Assembly, Brought) {
        // One whose data is still prepared is unknown to the host, and asks it after this.
        let asked = self.numbers(id, |_| true).into_iter().filter(|number| !self.bringing.contains_key(number));
        let singles: Vec<Single> = asked.collect::<Vec<u64>>().into_iter().filter_map(|it| self.remove(it)).collect();
        let led = constructs.take_led(floor, id);
        let parts = singles.iter().map(|single| &single.part).chain(led.iter().map(|(_, part)| part));
        let part = Part::merged(id, parts);
        singles.iter().for_each(|single| floor.cx.timers.cancel(single.limit));
        let brought = make::take_brought(&mut infos);
        let assembly = Assembly {
            part,
            answer: (status, infos),
            singles: singles.into_iter().map(|single| single.caller).collect(),
            led: led.into_iter().map(|(tracker, _)| tracker).collect(),
        };
        (assembly, brought)
    }

    /// Leaders that know each other have come, and their host cannot find out whether those have whom they add.
    pub fn assemble_led(&mut self, floor: &mut Floor<'_>, constructs: &mut Constructs, id: TrackerId) {
        let Some((mut tracker, part)) = constructs.take(floor, id) else { return };
        let members = together(floor, &part.order, &part.added);
        let is_all_here = !tracker.local.elsewhere && members.iter().all(|proc| floor.jobs.runs_here(proc));
        floor.cx.timers.cancel(tracker.limit.take());
        for proc in tracker.arrived.procs().collect::<Vec<_>>() {
            let Some(Waiter { caller, .. }) = tracker.arrived.take(&proc) else { continue };
            if !is_all_here {
                floor.cx.answer_status(caller, Err(Status::ERR_NOT_SUPPORTED));
                continue;
            }
            let info = part.infos.get(&proc).map(|info| without_assembly(info)).unwrap_or_default();
            let operation = Operation::Construct(part.group.clone());
            constructs.arrive(floor, Waiter::of(caller), &proc, operation, (&members, &info));
        }
        floor.collectives.settle(floor.cx, floor.jobs, &tracker.signature);
        if is_all_here {
            self.assemble_here(floor, constructs, &part.group);
        }
    }

    /// Lets those meet whom the host has left to this server, as far as it is known who they are.
    fn assemble_here(&mut self, floor: &mut Floor<'_>, constructs: &mut Constructs, id: &Nspace) {
        let here = |single: &Single| !single.at_host;
        let is_leader = |single: &Single| here(single) && single.leaders.is_some();
        let leaders = self.numbers(id, is_leader);
        let leaders: Vec<&Single> = leaders.iter().filter_map(|number| self.waiting.get(number)).collect();
        let wanted = leaders.first().and_then(|first| first.leaders);
        if leaders.iter().any(|leader| leader.leaders != wanted) {
            trace!("the leaders of the group {id} do not agree on how many they are");
            return self.end_all(floor, id, here, Status::ERR_BAD_PARAM);
        }
        if wanted == Some(leaders.len()) {
            let mut procs: Vec<Proc> = leaders.iter().map(|leader| leader.proc.clone()).collect();
            procs.sort_unstable();
            let added: Vec<Proc> = leaders.iter().flat_map(|leader| leader.part.added.clone()).collect();
            let members = together(floor, &procs, &added);
            if !members.iter().all(|proc| floor.jobs.runs_here(proc)) {
                return self.end_all(floor, id, here, Status::ERR_NOT_SUPPORTED);
            }
            // A process that has died since it came has done its part, and is to be counted before it is missed.
            let named: BTreeSet<&Proc> = collect_small(&members);
            let mut come = self.take(id, |single| here(single) && named.contains(&single.proc));
            come.sort_by_key(|single| !floor.jobs.is_gone(&single.proc));
            come.into_iter().for_each(|single| meet(floor, constructs, single, &members));
        }
        // The others, each where leaders wait for it.
        for number in self.numbers(id, here) {
            let members = self.waiting.get(&number).and_then(|single| awaited_by(floor, id, &single.proc));
            if let Some(members) = members
                && let Some(single) = self.remove(number)
            {
                meet(floor, constructs, single, &members);
            }
        }
    }

    fn end(&mut self, floor: &mut Floor<'_>, number: u64, status: Status) {
        if let Some(single) = self.remove(number) {
            floor.cx.timers.cancel(single.limit);
            floor.cx.answer_status(single.caller, Err(status));
        }
    }

    fn end_all(&mut self, floor: &mut Floor<'_>, id: &Nspace, which: impl Fn(&Single) -> bool, status: Status) {
        let numbers = self.numbers(id, which);
        numbers.into_iter().for_each(|number| self.end(floor, number, status));
    }

    /// A process starts anew: it has come to no group yet.
    pub fn restarted(&mut self, floor: &mut Floor<'_>, proc: &Proc) {
        let groups = self.groups_of.get(proc).into_iter().flatten();
        let numbers = groups.filter_map(|group| self.by_group.get(group)?.get(proc).copied());
        for number in numbers.collect::<Vec<_>>() {
            self.end(floor, number, Status::ERR_PROC_TERM_WO_SYNC);
        }
    }

    /// A namespace is deregistered: nobody of it comes any more.
    pub fn job_over(&mut self, floor: &mut Floor<'_>, nspace: &Nspace) {
        let of_job = self.waiting.iter().filter(|(_, single)| single.proc.nspace == *nspace);
        for number in of_job.map(|(number, _)| number).collect::<Vec<_>>() {
            self.end(floor, number, Status::EVENT_JOB_END);
        }
    }

    /// The time that a process which has come alone gives the others is over.
    pub fn expired(&mut self, floor: &mut Floor<'_>, number: u64) {
        if let Some(single) = self.waiting.get_mut(&number) {
            single.limit = None;
            trace!("{} has waited long enough for the group {}", single.proc, single.part.group);
        }
        self.end(floor, number, Status::ERR_TIMEOUT);
    }
}

fn meet(floor: &mut Floor<'_>, constructs: &mut Constructs, single: Single, members: &[Proc]) {
    floor.cx.timers.cancel(single.limit);
    let info = without_assembly(&single.info);
    let operation = Operation::Construct(single.part.group.clone());
    constructs.arrive(floor, Waiter::of(single.caller), &single.proc, operation, (members, &info));
}

/// Leaders in their order, and behind them the members that they add, which have none.
fn together(floor: &Floor<'_>, leaders: &[Proc], added: &[Proc]) -> Vec<Proc> {
    let mut added = floor.jobs.each(added);
    added.sort_unstable();
    floor.jobs.each(&[leaders, &added].concat())
}

/// The members of a construction under way here that waits for this process.
fn awaited_by(floor: &Floor<'_>, id: &Nspace, proc: &Proc) -> Option<Vec<Proc>> {
    let mut gathering = floor.collectives.gathering(id);
    let tracker = gathering.find(|tracker| {
        tracker.constructs(id) && tracker.signature.contains(proc) && !tracker.arrived.contains(proc)
    })?;
    Some(tracker.signature.procs())
}

fn without_assembly(info: &[Info]) -> Vec<Info> {
    info.iter().filter(|info| !OF_ASSEMBLY.iter().any(|key| info.key == *key)).cloned().collect()
}
