//! Fences that cannot go on as they began: somebody is gone, a namespace ends or becomes known, the time limit has passed.
//!
//! What such a fence's participants are told, and who of them still may come, is said in [`fence`](super::fence).
use super::fence::{Early, Tracker};
use super::jobs::Phase;
use super::members::{Members, Operation};
use super::router::Router;
use crate::data::{Nspace, Proc, Status};
use crate::trace;

/// Fences in a row from which a host may bring nothing to a node that misses them, before it is taken for one that meets nobody.
const MAX_EMPTY: u32 = 1024;

impl Router {
    /// Who runs here, has not come and still may.
    pub(super) fn latecomers(&self, tracker: &Tracker) -> Vec<Proc> {
        self.local_members(&tracker.members, |proc, job| {
            let ended = job.clients.get(&proc.rank).is_some_and(|c| c.phase == Phase::Finalized && c.ended);
            !ended && !job.is_gone(proc.rank) && !tracker.arrived.contains(proc)
        })
    }

    /// Applies `change` to every gathering tracker that `wanted` picks, and settles what follows from it.
    pub(super) fn change_trackers(
        &mut self,
        wanted: impl Fn(&Tracker) -> bool,
        mut change: impl FnMut(&mut Router, &mut Tracker),
    ) {
        let touched: Vec<Members> = self
            .fences
            .gathering
            .iter()
            .filter(|(_, queue)| queue.iter().any(&wanted))
            .map(|(members, _)| members.clone())
            .collect();
        for members in touched {
            let Some(mut queue) = self.fences.gathering.remove(&members) else { continue };
            for tracker in queue.iter_mut().filter(|tracker| wanted(tracker)) {
                change(self, tracker);
            }
            self.fences.gathering.insert(members.clone(), queue);
            self.settle(&members);
        }
    }

    /// A process will not come any more: what it has not come to has failed.
    pub(super) fn fences_without(&mut self, proc: &Proc) {
        self.change_trackers(
            |tracker| tracker.members.contains(proc) && !tracker.arrived.contains(proc),
            |router, tracker| {
                if tracker.failed.is_none() && router.goes_on_without(tracker, proc) {
                    return;
                }
                tracker.gone.push(proc.clone());
                if let Operation::Destruct(id) = tracker.members.operation() {
                    router.group_loses(id, &tracker.gone);
                }
                if tracker.failed.is_none() {
                    router.fail(tracker, without(tracker.members.operation()), &format!("{proc} is gone"));
                }
            },
        );
        let gone = self.fences.early.extract_if(.., |early| early.proc == *proc).collect::<Vec<_>>();
        for early in gone {
            self.cx.timers.cancel(early.limit);
        }
    }

    /// Somebody has left. Where nobody of the job is here any more, and some have gone without a goodbye, the other nodes would wait
    /// for this one at each fence of the whole job: it says that it misses the next one, and when that is over, the one after it.
    pub(super) fn fences_deserted(&mut self, nspace: &Nspace) {
        let Some(job) = self.jobs.get_mut(nspace).filter(|job| job.is_deserted()) else { return };
        if job.misses_fences.is_none() {
            job.misses_fences = Some(0);
            self.miss_fence(&Members::everyone(nspace));
        }
    }

    fn miss_fence(&mut self, members: &Members) {
        let census = self.jobs.census(members);
        if !census.elsewhere {
            return;
        }
        let mut tracker = Tracker::new(self.fences.next_id(), members.clone(), census, &[]);
        tracker.gone = self.local_members(members, |_, _| true);
        self.fences.gathering.entry(members.clone()).or_default().push_back(tracker);
        self.change_trackers(
            |tracker| tracker.members == *members && tracker.failed.is_none() && tracker.arrived.len() == 0,
            |router, tracker| router.fail(tracker, without(&Operation::Fence), "nobody is left here"),
        );
    }

    /// The host has brought what other nodes have to say to a fence that this one misses. When nobody is left there either, it
    /// was the last one.
    pub(super) fn fence_missed(&mut self, members: &Members, data: &[u8]) {
        let Ok(others) = self.others(data) else { return };
        let missing = others.failure.as_ref().map_or(0, |failure| failure.gone.len());
        let is_empty = others.ranks.is_empty() && others.failure.is_none();
        // What they bring is data all the same.
        let _ = self.take_in(others.ranks);
        let Some(nspace) = members.namespaces().next() else { return };
        let Some(job) = self.jobs.get_mut(nspace).filter(|job| job.is_deserted()) else { return };
        let all = job.stored.as_ref().and_then(|stored| stored.size()).unwrap_or(0) as usize;
        let here = job.local_procs.unwrap_or(0);
        let empty = job.misses_fences.get_or_insert(0);
        *empty = if is_empty { *empty + 1 } else { 0 };
        if *empty < MAX_EMPTY && here + missing < all {
            self.miss_fence(members);
        }
    }

    /// A process starts anew: it owes nothing to what failed before.
    pub(super) fn fences_excuse(&mut self, proc: &Proc) {
        self.change_trackers(
            |tracker| tracker.failed.is_some() && tracker.members.contains(proc),
            |_, tracker| _ = tracker.arrived.insert(proc, None),
        );
    }

    /// A namespace or a process of it was registered: what was not known before may be now.
    pub(super) fn fences_look_again(&mut self, nspace: &Nspace) {
        self.change_trackers(
            |tracker| tracker.members.involves(nspace),
            |router, tracker| tracker.census = router.jobs.census(&tracker.members),
        );
        if self.jobs.stored(nspace).is_none() {
            return;
        }
        let ready = self.fences.early.extract_if(.., |early| early.awaits == *nspace).collect::<Vec<_>>();
        for Early { caller, proc, operation, procs, info, limit, until, .. } in ready {
            self.cx.timers.cancel(limit);
            self.join(caller, proc, operation, procs, info, until);
        }
    }

    /// A namespace is deregistered, and every fence over it is over.
    pub(super) fn fences_of_job_end(&mut self, nspace: &Nspace) {
        self.change_trackers(
            |tracker| tracker.failed.is_none() && tracker.members.involves(nspace),
            |router, tracker| router.fail(tracker, Status::EVENT_JOB_END, &format!("{nspace} is deregistered")),
        );
        self.fences.gathering.retain(|members, _| !members.involves(nspace));
        let at_host = self.fences.at_host.extract_if(|_, tracker| tracker.members.involves(nspace));
        for (id, tracker) in at_host.collect::<Vec<_>>() {
            trace!("fence {id} ends while the host has it: {nspace} is deregistered");
            self.answer(tracker, Err(Status::EVENT_JOB_END));
        }
    }

    pub(super) fn fence_expired(&mut self, id: u64) {
        self.change_trackers(
            |tracker| tracker.id == id && tracker.failed.is_none(),
            |router, tracker| {
                tracker.limit = None;
                router.fail(tracker, Status::ERR_TIMEOUT, "the time limit has passed");
            },
        );
        if let Some(mut tracker) = self.fences.at_host.remove(&id) {
            trace!(
                "fence {id}: all {} processes here have come; the host does not answer in time",
                tracker.census.here
            );
            tracker.limit = None;
            let members = tracker.members.clone();
            self.answer(tracker, Err(Status::ERR_TIMEOUT));
            self.settle(&members);
        }
        if let Some(at) = self.fences.early.iter().position(|early| early.id == id) {
            let Early { awaits, caller, proc, .. } = self.fences.early.swap_remove(at);
            trace!("a fence of {proc} ends with the time limit: {awaits} is not registered here");
            self.cx.reply_status(caller.peer, caller.number, Err(Status::ERR_TIMEOUT));
        }
    }
}

/// What those who have come are told when somebody cannot come any more.
fn without(operation: &Operation) -> Status {
    match operation {
        Operation::Fence | Operation::Connect | Operation::Disconnect => Status::ERR_PARTIAL_SUCCESS,
        Operation::Construct(_) | Operation::Destruct(_) => Status::ERR_PROC_TERM_WO_SYNC,
    }
}
