//! One collective under way on this node.
use std::collections::BTreeSet;
use std::time::Instant;

use super::arrived::Arrived;
use super::exchange::{self, Sent};
use super::signature::{LocalCount, Operation, Signature};
use crate::account::Charge;
use crate::collect_small::collect_small;
use crate::data::{Info, Key, Nspace, Proc, Status, Value, keys};
use crate::message::door::PeerId;
use crate::server::FAILURE_IS_KNOWN;
use crate::server::ctx::Ctx;
use crate::server::ctx::ticket::TrackerId;
use crate::server::ctx::timers::TimerId;
use crate::server::jobs::{Jobs, Phase};
use crate::store::exchange::Failure;

/// Consequence of a participant's death before it has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// The collective fails for all.
    Fail,
    /// The others go on without it.
    Excuse,
    /// The others go on without it, and when their time is over without those that have not come.
    Optional,
    /// The others go on without it once the tracker's room has released it.
    ExcuseAndHold,
}

/// State of one collective.
#[derive(Debug)]
pub struct Tracker {
    pub id: TrackerId,
    /// Time at which it began.
    pub since: Instant,
    pub signature: Signature,
    pub local: LocalCount,
    pub arrived: Arrived,
    pub on_loss: OnLoss,
    /// Participants of this node that will not arrive, and need not.
    pub excused: BTreeSet<Proc>,
    /// Members of its group that have left it meanwhile, on any node, without whom the others go on.
    pub left: BTreeSet<Proc>,
    /// True if its room has something to decide before it may complete.
    pub held: bool,
    /// The status it has failed with, while latecomers are still to hear of it.
    pub failed: Option<Status>,
    /// Participants that have not arrived because they are dead.
    pub gone: Vec<Proc>,
    /// True if the host need not hear of the failure, or has.
    pub host_knows: bool,
    pub collect: bool,
    /// Attributes of all participants, of each key that of the first who gave it.
    pub info: Vec<Info>,
    /// Charges for `info` to those participants.
    pub charges: Vec<Charge>,
    pub limit: Option<TimerId>,
    /// True if its time limit has passed, and the others on other nodes have a little more time.
    pub is_late: bool,
    /// The group that the participants were named by, or that it makes or ends.
    pub group: Option<Nspace>,
    /// The process that came first; none where this server has begun it.
    pub begun_by: Option<Proc>,
    /// True if something has changed since it was last settled.
    pub changed: bool,
    /// Keys that this node's part carries, to be carried again if the collective fails.
    pub sent: Sent,
    /// Peers that wait for it, once it is complete here and others run on other nodes.
    pub payers: Vec<PeerId>,
    /// Charges to their jobs for its part, as it is read and encoded, until the host has answered.
    pub part: Vec<Charge>,
    /// True while its part is prepared for the host by a thread.
    pub is_preparing: bool,
    /// True if its time limit has passed meanwhile, and who waits was told.
    pub is_given_up: bool,
    /// True if its time limit has passed, and the host ends it for all nodes.
    pub is_withdrawn: bool,
    /// True if its success brings what no participant knows.
    pub tells_more: bool,
}

/// A failure of this node's part, for the host and through it for other nodes.
#[derive(Debug)]
pub struct FailureNotice {
    pub signature: Signature,
    /// True if any participant had arrived.
    pub was_met: bool,
    pub info: Vec<Info>,
    /// This node's blob, which says so too.
    pub data: Vec<u8>,
}

/// Step of a tracker, for the room of its operation.
#[derive(Debug)]
pub enum Step {
    /// Every participant of this node has arrived.
    Complete(Operation, TrackerId),
    /// This node's part has failed; the host is to hear of it.
    Failed(FailureNotice),
    /// A participant has died, the others go on without it, and the tracker is held.
    Excused(TrackerId, Proc),
    /// Participants of a group's destruction are dead, and the destruction fails.
    Lost(Nspace, Vec<Proc>),
}

impl Tracker {
    /// Begins a collective that nobody has arrived at.
    pub fn new(
        (id, since): (TrackerId, Instant),
        signature: Signature,
        jobs: &Jobs,
        info: &[Info],
        group: Option<Nspace>,
    ) -> Self {
        let local = signature.local_count(jobs);
        Tracker {
            id,
            since,
            signature,
            local,
            arrived: Arrived::default(),
            on_loss: OnLoss::Fail,
            excused: BTreeSet::new(),
            left: BTreeSet::new(),
            held: false,
            failed: None,
            gone: Vec::new(),
            host_knows: false,
            collect: false,
            info: info.to_vec(),
            charges: Vec::new(),
            limit: None,
            is_late: false,
            group,
            begun_by: None,
            changed: true,
            sent: Sent::new(),
            payers: Vec::new(),
            part: Vec::new(),
            is_preparing: false,
            is_given_up: false,
            is_withdrawn: false,
            tells_more: false,
        }
    }

    /// Gives back what nobody needs of a tracker that has failed, once the host knows: latecomers get the status alone.
    pub fn forget_attributes(&mut self) {
        self.info = Vec::new();
        self.charges = Vec::new();
    }

    /// Charges the jobs of those who wait for its part of so many bytes, which is read and encoded; little is free.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` over the limit of one of the jobs.
    pub fn charge_part(&mut self, cx: &Ctx, bytes: u64) -> Result<(), Status> {
        const FREE: u64 = 1024;
        if bytes > FREE {
            self.part = cx.charge_jobs(&self.arrived.one_of_each(), 2 * bytes as usize)?;
        }
        Ok(())
    }

    /// Attributes for the host. The library keeps the time itself, because two clocks would race. Nor does the host see groups
    /// where no group is meant; of a fence it hears which one was, because its members may leave meanwhile.
    pub fn info_for_host(&self) -> Vec<Info> {
        let ours = [keys::TIMEOUT, keys::GROUP_INFO];
        let of_group = *self.signature.operation() == Operation::Fence && self.group.is_some();
        let is_ours = |info: &Info| ours.iter().any(|key| info.key == *key) || info.key == keys::GROUP_ID && !of_group;
        let mut info: Vec<Info> = self.info.iter().filter(|info| !is_ours(info)).cloned().collect();
        if self.collect {
            // One participant who wants it is enough.
            match info.iter_mut().find(|info| info.key == keys::COLLECT_DATA) {
                Some(collect) => collect.value = Value::Bool(true),
                None => info.push(Info::new(keys::COLLECT_DATA, true)),
            }
        }
        info
    }

    /// Returns those attributes of a participant whose keys nobody has given before.
    pub fn lacks(&self, info: &[Info]) -> Vec<Info> {
        // Most give what the first one gave, or nothing.
        if info.iter().zip(&self.info).all(|(new, known)| new.key == known.key) && info.len() <= self.info.len() {
            return Vec::new();
        }
        let known: BTreeSet<&Key> = collect_small(self.info.iter().map(|info| &info.key));
        info.iter().filter(|info| !known.contains(&info.key)).cloned().collect()
    }

    /// Counts its participants, of whom some may have left or not be known yet.
    pub fn count(&mut self, jobs: &Jobs) {
        self.local = self.signature.local_count(jobs);
        if !self.left.is_empty() {
            self.local.elsewhere = self.signature.is_elsewhere_without(jobs, &self.left);
        }
    }

    /// Returns whether every participant of this node has arrived or is excused, and nothing is to be decided.
    pub fn is_complete(&self) -> bool {
        !self.held && self.arrived.len() + self.excused.len() >= self.local.here
    }

    /// Returns whether every process of one job that runs here has arrived, and nobody of another job takes part.
    pub fn is_of_all(&self, jobs: &Jobs) -> bool {
        let mut names = self.signature.namespaces();
        let (Some(nspace), None) = (names.next(), names.next()) else { return false };
        let here = jobs.get(nspace).and_then(|job| job.local_procs);
        self.excused.is_empty() && here == Some(self.arrived.len())
    }

    /// Returns whether it constructs the group of that name.
    pub fn constructs(&self, id: &Nspace) -> bool {
        matches!(self.signature.operation(), Operation::Construct(of) if of == id)
    }

    /// Returns whether it destructs the group of that name.
    pub fn destructs(&self, id: &Nspace) -> bool {
        matches!(self.signature.operation(), Operation::Destruct(of) if of == id)
    }

    /// Returns whether it constructs or destructs a group.
    pub fn is_of_group(&self) -> bool {
        self.signature.operation().group().is_some()
    }

    /// The names that it has to do with: namespaces of its participants, and its group.
    pub fn names(&self) -> impl Iterator<Item = &Nspace> {
        self.signature.namespaces().chain(&self.group)
    }

    /// Returns whether participants that run here have not arrived and still may.
    pub fn awaits_latecomers(&self, jobs: &Jobs) -> bool {
        let latecomers = self.signature.local_procs(jobs, |proc, job| {
            let ended = job.clients.get(&proc.rank).is_some_and(|c| c.phase == Phase::Finalized && c.ended);
            !ended && !job.is_gone(proc.rank) && !self.arrived.contains(proc)
        });
        !latecomers.is_empty()
    }

    /// Returns whether it waits for a process, and neither has it failed nor has anybody left its group.
    pub fn simply_waits_for(&self, proc: &Proc) -> bool {
        self.failed.is_none() && self.left.is_empty() && self.waits_for(proc)
    }

    /// Returns whether it waits for a process.
    pub fn waits_for(&self, proc: &Proc) -> bool {
        self.signature.contains(proc) && !self.arrived.contains(proc)
    }

    /// Tells the host of a failure here: every participant of this node hears of it otherwise.
    pub fn notice(&self, cx: &Ctx, status: Status) -> FailureNotice {
        let mut info = self.info_for_host();
        info.push(Info::new(keys::LOCAL_COLLECTIVE_STATUS, status));
        let was_met = self.arrived.len() > 0;
        if was_met {
            info.push(Info::new(FAILURE_IS_KNOWN, true));
        }
        let data = exchange::failure_blob(cx, Failure { status, gone: self.gone.clone() });
        FailureNotice { signature: self.signature.clone(), was_met, info, data }
    }
}
