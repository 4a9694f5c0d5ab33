//! Fences: processes that wait for each other.
//!
//! A tracker gathers the participants that run on this node. When all of them have come, a fence without others ends at once; one with
//! participants elsewhere goes to the host, once, with what this node adds to the data, and ends with the host's answer. The next one
//! over the same waits for that: mpirun and Slurm lose one of two that they are asked for at a time.
//!
//! Trackers are found by their members. A process that comes joins the first tracker of its members that it has not joined
//! yet: its first fence over them meets everybody's first, its second everybody's second. A tracker that fails keeps its place
//! until everybody who may still come has come, and gets the same answer at once; so the next fence does not mistake a latecomer
//! for one of its own.
//!
//! A fence over one whole namespace ends for all who wait at the word of that job's segment with one system call: see
//! [`Request::Meet`](crate::message::Request::Meet). The word is no more than a quicker way to bring the answer: it says that all
//! have come. Failures, and what goes to a process that cannot use the word, are replies.
//!
//! A participant that ends before it has come ends the fence for all others at once, with `ERR_PARTIAL_SUCCESS` as with stock
//! libraries, and every later fence over it as well. One that dies after it has come has done its part. Processes count, not
//! connections.
//!
//! The host hears of what has failed here as well, in its turn among the meetings of the same processes: the attribute
//! `PMIX_LOCAL_COLLECTIVE_STATUS` says how, and so does this node's blob, for hosts that do not look at attributes. So nobody on
//! another node waits for this one. Where nobody of a whole job is left to come, that is said of its next fence unasked
//! (`absent`).
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::Instant;

use super::arrivals::Arrivals;
use super::blob::Failure;
use super::ctx::timers::TimerId;
use super::ctx::timers::{Deadline, time_limit};
use super::exchange::Sent;
use super::members::{Census, Members, NoMembers, Operation};
use super::of_group::OfGroup;
use super::router::Router;
use crate::data::{Info, InfoList, Nspace, Proc, Rank, Status, keys};
use crate::message::Reply;
use crate::message::door::PeerId;
use crate::message::numbers::{NumberMap, Spread};
use crate::trace;

/// Where an answer goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) peer: PeerId,
    pub(super) number: u64,
    /// What it saw at its job's word of release, if that is where it waits.
    pub(super) seen: Option<u32>,
}

/// A meeting under way.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) id: u64,
    pub members: Members,
    pub(super) census: Census,
    pub(super) arrived: Arrivals,
    /// What failed, while latecomers are still to hear of it.
    pub(super) failed: Option<Status>,
    /// Who has not come because it is dead.
    pub(super) gone: Vec<Proc>,
    /// Whether the host need not hear of the failure, or has.
    host_knows: bool,
    collect: bool,
    info: Vec<Info>,
    pub(super) limit: Option<TimerId>,
    /// What it is besides for a group.
    pub(super) of_group: Option<Box<OfGroup>>,
}

/// What a look at the meetings of the same processes finds to be done.
enum Ready {
    Complete(Tracker),
    Failed(FailureNews),
}

/// What the host is told of a meeting that has failed here.
struct FailureNews {
    members: Members,
    /// Whether anybody had come.
    was_met: bool,
    info: Vec<Info>,
    data: Vec<u8>,
}

/// A fence over a namespace that is not registered yet.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) id: u64,
    pub(super) awaits: Nspace,
    pub(super) caller: Caller,
    pub(super) proc: Proc,
    pub(super) operation: Operation,
    pub(super) procs: Vec<Proc>,
    pub(super) info: Vec<Info>,
    pub(super) limit: Option<TimerId>,
    pub(super) until: Option<Instant>,
}

/// Every fence under way.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// Found by a hash that is made with a list of members.
    pub(super) gathering: HashMap<Members, VecDeque<Tracker>, BuildHasherDefault<Spread>>,
    pub(super) at_host: HashMap<u64, Tracker>,
    /// Whose meetings are being gone on with.
    settling: Vec<Members>,
    pub(super) early: Vec<Early>,
    /// The whole job of each peer that has fenced with it.
    pub(super) whole_jobs: NumberMap<PeerId, Members>,
    last: u64,
}

impl Tracker {
    pub(super) fn new(id: u64, members: Members, census: Census, info: &[Info]) -> Self {
        let of_group = OfGroup::new(members.operation(), info).map(Box::new);
        Tracker {
            id,
            members,
            census,
            arrived: Arrivals::default(),
            failed: None,
            gone: Vec::new(),
            host_knows: false,
            collect: false,
            info: info.to_vec(),
            limit: None,
            of_group,
        }
    }

    /// What the host sees of its attributes. The library keeps the time itself; two clocks would race. Nor does the host see
    /// groups where no group is meant.
    fn info_for_host(&self) -> Vec<Info> {
        let ours = [keys::TIMEOUT, keys::GROUP_ID, keys::GROUP_INFO];
        self.info.iter().filter(|info| !ours.iter().any(|key| info.key == *key)).cloned().collect()
    }

    /// Whether everybody of this node has come.
    fn is_complete(&self) -> bool {
        let (absent, decided) = self.of_group.as_ref().map_or((0, true), |group| group.progress());
        decided && self.arrived.len() + absent >= self.census.here
    }
}

impl Fences {
    pub(super) fn next_id(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Whether a process would begin one more meeting where it waits in very many for others. Those that have failed stay until the
    /// others have come, and their time limits may have passed long ago.
    fn begins_too_many(&self, proc: &Proc, members: &Members) -> bool {
        let waits = |tracker: &&Tracker| tracker.arrived.contains(proc);
        match self.gathering.get(members) {
            Some(queue) => queue.len() >= MAX_AHEAD && queue.iter().all(|tracker| waits(&tracker)),
            None if self.gathering.len() < MANY => false,
            None => self.gathering.values().flatten().filter(waits).nth(MAX_BEGUN).is_some(),
        }
    }
}

/// Meetings of the same processes by which one of them may be ahead of the others.
const MAX_AHEAD: usize = 4096;
/// From so many different meetings under way on, who begins another one may be in so many of them.
const MANY: usize = 4096;
const MAX_BEGUN: usize = 1024;
/// Meetings of one client with namespaces that are not registered yet.
const MAX_EARLY: usize = 16;

/// Attributes of a fence that the library serves itself.
const SERVED: [&str; 3] = [keys::COLLECT_DATA, keys::TIMEOUT, keys::COLLECT_GENERATED_JOB_INFO];

impl Router {
    /// A client comes to meet others.
    pub(super) fn meet(&mut self, caller: Caller, proc: Proc, operation: Operation, procs: Vec<Proc>, info: Vec<Info>) {
        let until = time_limit(&info).flatten().map(|limit| self.cx.now() + limit);
        self.join(caller, proc, operation, procs, info, until);
    }

    /// A client meets all of its namespace once more. Where others wait already, there is nothing to find out: it has come. False
    /// when it has to come the long way.
    pub(super) fn meet_again(&mut self, caller: Caller, collect: bool) -> bool {
        let number = caller.number;
        let Some(entry) = self.cx.peers.get_mut(&caller.peer) else { return false };
        let whole = self.fences.whole_jobs.get(&caller.peer).filter(|_| entry.account.is_simple());
        let Some(members) = whole else { return false };
        let Some(queue) = self.fences.gathering.get_mut(members) else { return false };
        let [tracker] = queue.make_contiguous() else { return false };
        if tracker.failed.is_some() || !tracker.arrived.insert(&entry.proc, Some(caller)) {
            return false;
        }
        entry.account.charge(number, 0);
        tracker.collect |= collect;
        if tracker.is_complete() {
            let members = members.clone();
            self.settle(&members);
        }
        true
    }

    pub(super) fn join(
        &mut self,
        caller: Caller,
        proc: Proc,
        operation: Operation,
        procs: Vec<Proc>,
        info: Vec<Info>,
        until: Option<Instant>,
    ) {
        let members = match self.members(&proc, operation.clone(), &procs) {
            Ok(members) => members,
            Err(NoMembers::Unknown(over)) if self.jobs.is_over(&over) => {
                trace!("{proc} would meet processes of {over}, which is over");
                return self.cx.reply_status(caller.peer, caller.number, Err(Status::EVENT_JOB_END));
            }
            Err(NoMembers::Unknown(awaits)) => {
                if self.fences.early.iter().filter(|early| early.proc == proc).count() >= MAX_EARLY {
                    trace!("{proc} waits for {MAX_EARLY} namespaces to be registered, and {awaits} is one too many");
                    return self.cx.reply_status(caller.peer, caller.number, Err(Status::ERR_OUT_OF_RESOURCE));
                }
                let id = self.fences.next_id();
                let limit = until.map(|at| self.cx.timers.set(at, Deadline::Fence(id)));
                return self.fences.early.push(Early {
                    id,
                    awaits,
                    caller,
                    proc,
                    operation,
                    procs,
                    info,
                    limit,
                    until,
                });
            }
            Err(NoMembers::Wrong(status)) => {
                trace!("{proc} would meet processes that it cannot: {status}");
                return self.cx.reply_status(caller.peer, caller.number, Err(status));
            }
        };
        if operation == Operation::Disconnect && !self.ties.are_connected(&members) {
            trace!("{proc} disconnects from processes that it is not connected with");
            return self.cx.reply_status(caller.peer, caller.number, Err(Status::ERR_INVALID_OPERATION));
        }
        let unserved = |info: &&Info| info.is_required() && !SERVED.iter().any(|key| info.key == *key);
        if operation == Operation::Fence
            && let Some(info) = info.iter().find(unserved)
            && !self.jobs.census(&members).elsewhere
        {
            trace!("{proc} requires {} of a fence", info.key);
            return self.cx.reply_status(caller.peer, caller.number, Err(Status::ERR_NOT_SUPPORTED));
        }

        if caller.seen.is_some() && self.cx.peers.contains_key(&caller.peer) {
            self.fences.whole_jobs.entry(caller.peer).or_insert_with(|| members.clone());
        }
        if self.fences.begins_too_many(&proc, &members) {
            trace!("{proc} has come to too many meetings that others have not come to");
            return self.cx.reply_status(caller.peer, caller.number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let queue = self.fences.gathering.entry(members.clone()).or_default();
        let known = queue.iter().position(|tracker| !tracker.arrived.contains(&proc));
        if known.is_none() {
            self.fences.last += 1;
            let census = self.jobs.census(&members);
            queue.push_back(Tracker::new(self.fences.last, members.clone(), census, &info));
        }
        let at = known.unwrap_or(queue.len() - 1);
        let tracker = &mut queue[at];
        let failed = tracker.failed;
        if let Some(group) = &mut tracker.of_group {
            group.joined(&proc, &procs, &info);
        }
        tracker.arrived.insert(&proc, Some(caller).filter(|_| failed.is_none()));
        tracker.collect |= info.is_set(keys::COLLECT_DATA);
        if let (Some(at), None, None) = (until, tracker.limit, failed) {
            tracker.limit = Some(self.cx.timers.set(at, Deadline::Fence(tracker.id)));
        }
        let is_over = failed.is_some() || tracker.is_complete();
        if let Some(status) = failed {
            self.cx.reply_status(caller.peer, caller.number, Err(status));
        }
        if known.is_none() {
            // Who dies from now on ends it then.
            self.dead_members(&members).iter().for_each(|dead| self.fences_without(dead));
        }
        if is_over {
            self.settle(&members);
        }
    }

    /// Goes on with the meetings of these members as far as they and the host let it.
    pub(super) fn settle(&mut self, members: &Members) {
        // What is answered while this runs comes back here, and is seen in the next round.
        if self.fences.settling.contains(members) {
            return;
        }
        self.fences.settling.push(members.clone());
        while self.settle_next(members) {}
        self.fences.settling.pop();
    }

    /// Looks which tracker of these members is complete, and which are done with. False when none is complete.
    fn settle_next(&mut self, members: &Members) -> bool {
        let Some(queue) = self.fences.gathering.remove(members) else { return false };
        let mut rest = VecDeque::new();
        let mut ready = Vec::new();
        // The host pairs what the nodes bring by its order, failures included, and those known take one at a time.
        let mut in_turn = !self.fences.at_host.values().any(|tracker| tracker.members == *members);
        let mut goes_on = false;
        for mut tracker in queue {
            let Some(status) = tracker.failed else {
                match tracker.is_complete() && in_turn {
                    true => {
                        goes_on = true;
                        ready.push(Ready::Complete(tracker));
                    }
                    false => rest.push_back(tracker),
                }
                in_turn = false;
                continue;
            };
            if in_turn && !tracker.host_knows {
                tracker.host_knows = true;
                ready.push(Ready::Failed(self.news_of_failure(&tracker, status)));
            }
            if !tracker.host_knows || !self.latecomers(&tracker).is_empty() {
                rest.push_back(tracker);
            }
        }
        if !rest.is_empty() {
            self.fences.gathering.insert(members.clone(), rest);
        }
        for meeting in ready {
            match meeting {
                Ready::Complete(tracker) => self.complete_here(tracker),
                Ready::Failed(news) => self.tell_host_of_failure(news),
            }
        }
        goes_on
    }

    /// What the host is told of a meeting that has failed here.
    fn news_of_failure(&self, tracker: &Tracker, status: Status) -> FailureNews {
        let mut info = tracker.info_for_host();
        info.push(Info::new(keys::LOCAL_COLLECTIVE_STATUS, status));
        let data = self.failure_blob(Failure { status, gone: tracker.gone.clone() });
        FailureNews { members: tracker.members.clone(), was_met: tracker.arrived.len() > 0, info, data }
    }

    /// Has the host know that this node's part has failed. Everybody here knows that already: how it ends for others is their
    /// business, and what they bring is data all the same.
    fn tell_host_of_failure(&mut self, news: FailureNews) {
        let FailureNews { members, was_met, mut info, data } = news;
        let procs = members.procs();
        let nothing = |_: &mut Router, _| ();
        match members.operation() {
            Operation::Fence => self.ask_host(
                |host, done| host.fence_nb(&procs, &info, data, done),
                Vec::new(),
                move |router, result: Result<Vec<u8>, Status>| {
                    let Ok(data) = result else { return };
                    match was_met {
                        true => _ = router.absorb(&data),
                        false => router.fence_missed(&members, &data),
                    }
                },
            ),
            Operation::Connect => self.ask_host(|host, done| host.connect(&procs, &info, done), (), nothing),
            Operation::Disconnect => self.ask_host(|host, done| host.disconnect(&procs, &info, done), (), nothing),
            operation @ (Operation::Construct(_) | Operation::Destruct(_)) => {
                info.push(Info::new(keys::GROUP_ENDPT_DATA, data));
                self.ask_host_of_group(operation, &procs, &info, |_, _| ());
            }
        }
    }

    /// Everybody of this node has come.
    fn complete_here(&mut self, tracker: Tracker) {
        match tracker.members.operation() {
            Operation::Fence => {}
            Operation::Connect | Operation::Disconnect => return self.connect_at_host(tracker),
            Operation::Construct(_) | Operation::Destruct(_) => return self.group_at_host(tracker),
        }
        if !tracker.census.elsewhere {
            // What local processes have committed is in their common memory already.
            return self.answer(tracker, Ok(()));
        }
        let (data, sent) = match tracker.collect {
            false => Default::default(),
            true => match self.contribution(&tracker) {
                Ok(contribution) => contribution,
                Err(status) => return self.fails_at_host(tracker, status),
            },
        };
        let (id, procs, info) = self.hand_over(tracker);
        self.ask_host(
            |host, done| host.fence_nb(&procs, &info, data, done),
            Vec::new(),
            move |router, result| router.fence_answered(id, sent, result),
        );
    }

    /// All of this node have come, and their part cannot be brought to the others.
    pub(super) fn fails_at_host(&mut self, tracker: Tracker, status: Status) {
        self.tell_host_of_failure(self.news_of_failure(&tracker, status));
        self.answer(tracker, Err(status));
    }

    /// Keeps a tracker until the host has answered; its number, and whom and what the host is asked.
    pub(super) fn hand_over(&mut self, tracker: Tracker) -> (u64, Vec<Proc>, Vec<Info>) {
        let (id, procs, info) = (tracker.id, tracker.members.procs(), tracker.info_for_host());
        self.fences.at_host.insert(id, tracker);
        (id, procs, info)
    }

    /// The host has answered.
    pub(super) fn met(&mut self, id: u64, result: Result<(), Status>) {
        if let Some(tracker) = self.fences.at_host.remove(&id) {
            let members = tracker.members.clone();
            self.answer(tracker, result);
            self.settle(&members);
        }
    }

    fn fence_answered(&mut self, id: u64, sent: Sent, result: Result<Vec<u8>, Status>) {
        // Data that comes after a time limit is data all the same.
        let result = result.and_then(|data| self.absorb(&data));
        if let Err(status) = result {
            trace!("fence {id}: the host brings {status}");
            self.take_back(sent);
        }
        self.met(id, result);
    }

    /// Tells everybody who has come.
    pub(super) fn answer(&mut self, tracker: Tracker, result: Result<(), Status>) {
        self.answer_with(tracker, &Reply::Done(result.err().unwrap_or(Status::SUCCESS)));
    }

    /// The same where there is more to say.
    pub(super) fn answer_with(&mut self, mut tracker: Tracker, reply: &Reply) {
        if *reply == Reply::Done(Status::SUCCESS) {
            self.release(&mut tracker);
        }
        self.tell(&mut tracker, reply);
        tracker.members.namespaces().for_each(|nspace| self.reclaim(nspace));
    }

    /// Wakes all those at once who wait at their job's word; they are told no more.
    fn release(&mut self, tracker: &mut Tracker) {
        let is_for_all = *tracker.members.operation() == Operation::Fence && tracker.members.is_whole_job();
        let Some(nspace) = tracker.members.namespaces().next().filter(|_| is_for_all) else {
            return;
        };
        let Some(job) = self.jobs.get(nspace) else { return };
        // Whoever waits there has nothing else under way that it asked for before. So whatever fence of all ends first is the
        // one it waits for: unless its process has come anew since, by another connection. One with bad news must hear those
        // first.
        let is_there = |rank: Rank, caller: &Caller| {
            let has_bad_news = self.cx.peers.get(&caller.peer).is_none_or(|entry| entry.has_bad_news);
            !has_bad_news && job.clients.get(&rank).is_some_and(|client| client.peer == Some(caller.peer))
        };
        let all_there =
            tracker.arrived.of(nspace).all(|(rank, caller)| caller.is_some_and(|caller| is_there(rank, caller)));
        let Some(stored) = self.jobs.stored_mut(nspace).filter(|_| all_there) else { return };
        let releases = stored.releases();
        let waits = |caller: &mut Caller| caller.seen == Some(releases);
        let released: Vec<Caller> = tracker.arrived.callers().filter_map(|caller| caller.take_if(waits)).collect();
        if released.is_empty() {
            return;
        }
        stored.release();
        for caller in released {
            if let Some(entry) = self.cx.peers.get_mut(&caller.peer) {
                entry.account.give_back(caller.number);
            }
        }
    }

    fn tell(&mut self, tracker: &mut Tracker, reply: &Reply) {
        self.cx.timers.cancel(tracker.limit.take());
        for caller in tracker.arrived.callers().filter_map(Option::take) {
            self.cx.reply(caller.peer, caller.number, reply.clone());
            if let Some(entry) = self.cx.peers.get_mut(&caller.peer) {
                entry.has_bad_news = false;
            }
        }
    }

    /// Ends a tracker that is still gathering with an error; it stays for latecomers.
    pub(super) fn fail(&mut self, tracker: &mut Tracker, status: Status, why: &str) {
        let missing = self.local_members(&tracker.members, |proc, _| !tracker.arrived.contains(proc));
        trace!(
            "fence {} over {:?} ends with {status}: {why}; {} of {} processes here have come, missing: {missing:?}",
            tracker.id,
            tracker.members.procs(),
            tracker.arrived.len(),
            tracker.census.here
        );
        tracker.failed = Some(status);
        // A meeting within this node is nobody else's business, and the host knows itself which jobs are over.
        tracker.host_knows = !tracker.census.elsewhere || status == Status::EVENT_JOB_END;
        self.tell(tracker, &Reply::Done(status));
    }
}
