//! Clean-up after processes: files and directories that are removed when a process or a job ends (`PMIx_Job_control`).
//!
//! A process registers paths for itself or (with no targets, or a wildcard) for its whole job. Its own paths are
//! removed when it ends, however it ends, unless a process that still runs has registered them as well. Paths of the
//! job are removed when the last process of the job on this node has ended, and at the latest when the namespace is
//! deregistered. Each path is counted as often as processes have registered it, so that the end of one of them looks at no
//! other's. Every other directive of `PMIx_Job_control` is the host's.
//!
//! Directives are read in [`directives`]. The removal itself ([`removal`]) is a worker's: a file system may block, and
//! the worker takes on the rights of the user that the process is registered for. A host that keeps the calls of its
//! clients can do their clean-up after its server has died ([`leftovers`]).
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use std::path::Path;

use super::ctx::peers::Caller;
use super::ctx::system::Worker;
use super::ctx::ticket::Ticket;
use super::ctx::{Ctx, Done};
use super::jobs::Jobs;
use crate::account::{Account, Charge, Kind};
use crate::collect_small::collect_small;
use crate::data::{Info, Nspace, Proc, Rank, Status};
use crate::message::Reply;
use crate::trace;

mod directives;
pub mod leftovers;
mod removal;

use directives::Cleanup;

/// Most paths that a call registers, those of each process counted.
const MAX_REGISTERED: usize = 8192;
/// Bytes that counting a path takes.
const COUNTED: usize = 32;

/// Clean-up of a process or a job, with the charges to those who registered it.
#[derive(Debug, Default)]
struct Registered {
    cleanup: Cleanup,
    charges: Vec<Charge>,
}

impl Registered {
    /// Adds paths, charged to the process that registers them. Calls `added` for each that is new, and returns whether
    /// anything is.
    fn add(&mut self, account: &Account, more: &Cleanup, added: impl FnMut(&Path)) -> Result<bool, Status> {
        let bytes = more.bytes() + more.len() * COUNTED;
        let charge = account.charge(Kind::Cleanup, bytes).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
        let is_new = self.cleanup.add(more, added)?;
        self.charges.extend(is_new.then_some(charge));
        Ok(is_new)
    }
}

/// Clean-up that one job has registered.
#[derive(Debug, Default)]
struct OfJob {
    /// Paths to remove when its last process here has ended.
    whole: Registered,
    /// Paths to remove when a process ends.
    procs: BTreeMap<Rank, Registered>,
    owners: Owners,
}

/// Number of processes that have registered a path for themselves, by its hash, which nobody can foresee. Paths that
/// shared one would be removed after the last of the owners of both.
#[derive(Debug, Default)]
struct Owners {
    hasher: RandomState,
    counts: HashMap<u64, u32>,
}

impl Owners {
    fn add(&mut self, path: &Path) {
        *self.counts.entry(self.hasher.hash_one(path)).or_default() += 1;
    }

    /// One process owns a path no more; returns whether another one does.
    fn remove(&mut self, path: &Path) -> bool {
        let hash = self.hasher.hash_one(path);
        let Some(count) = self.counts.get_mut(&hash) else { return false };
        *count -= 1;
        let is_left = *count > 0;
        if !is_left {
            self.counts.remove(&hash);
        }
        is_left
    }
}

/// Room of the clean-up: what is registered, and the removals under way.
#[derive(Debug, Default)]
pub struct Cleanups {
    jobs: HashMap<Nspace, OfJob>,
    /// Workers that remove, by their numbers.
    running: HashMap<u64, Worker>,
    /// Callers who wait until some of these are done.
    waiting: Vec<Waiting>,
    last_started: u64,
}

/// Caller who waits for removals.
struct Waiting {
    removals: HashSet<u64>,
    done: Done<()>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("removals", &self.removals).finish_non_exhaustive()
    }
}

impl Cleanups {
    /// A process controls jobs: directives about clean-up are served here, the others by the host.
    pub fn job_control(
        &mut self,
        cx: &mut Ctx,
        jobs: &Jobs,
        caller: Caller,
        requestor: &Proc,
        targets: &[Proc],
        directives: Vec<Info>,
    ) {
        // The program of the server is no process that anything could be removed after, and a server that lives in the
        // process ends with it: the host is asked for all of it.
        let is_served = !cx.is_program(caller.peer) && !cx.config.one_client;
        let (ours, rest): (Vec<Info>, Vec<Info>) =
            directives.into_iter().partition(|info| is_served && directives::is_about_cleanup(info));
        if !ours.is_empty() {
            match self.register(cx, jobs, caller, requestor, targets, &ours) {
                // A host that keeps the calls of its clients need not keep one twice.
                Ok(false) => {}
                Ok(true) => cx.host.clone().cleanup_registered(requestor, &ours),
                Err(status) => {
                    trace!("{requestor} registers a clean-up that cannot be: {status}");
                    return cx.reply_status(caller.peer, caller.number, Err(status));
                }
            }
            if rest.is_empty() {
                return cx.reply_status(caller.peer, caller.number, Ok(()));
            }
        }
        let rest = jobs.signed(cx, requestor, rest);
        cx.forward(
            caller,
            |host, done| host.job_control(requestor, targets, &rest, done),
            (Status::SUCCESS, Vec::new()),
            |(status, infos)| Reply::Infos(status, infos),
        );
    }

    /// Registers paths, and returns whether any of them is new.
    fn register(
        &mut self,
        cx: &Ctx,
        jobs: &Jobs,
        caller: Caller,
        requestor: &Proc,
        targets: &[Proc],
        ours: &[Info],
    ) -> Result<bool, Status> {
        let account = cx.peers.get(&caller.peer).ok_or(Status::ERR_NOT_FOUND)?.requests.account();
        let job = jobs.get(&requestor.nspace).ok_or(Status::ERR_NOT_FOUND)?;
        let client = job.clients.get(&requestor.rank).ok_or(Status::ERR_NOT_FOUND)?;
        let more = Cleanup::parse(ours, client.uid, client.gid)?;
        if targets.iter().any(|target| target.nspace != requestor.nspace) {
            return Err(Status::ERR_NO_PERMISSIONS);
        }
        let registered = self.jobs.entry(requestor.nspace.clone()).or_default();
        if targets.is_empty() || targets.iter().any(|target| target.rank == Rank::WILDCARD) {
            return registered.whole.add(account, &more, |_| ());
        }
        // Each process once, however often it is named.
        let ranks: BTreeSet<Rank> = collect_small(targets.iter().map(|target| target.rank));
        if more.len().max(1) * ranks.len() > MAX_REGISTERED {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let OfJob { procs, owners, .. } = registered;
        let mut is_new = false;
        for rank in ranks {
            if !job.clients.contains_key(&rank) {
                return Err(Status::ERR_NOT_FOUND);
            }
            is_new |= procs.entry(rank).or_default().add(account, &more, |path| owners.add(path))?;
        }
        Ok(is_new)
    }

    /// A process has ended: its own paths are removed, and those of its job when it was the last one.
    pub fn process_ended(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc) {
        let job = jobs.get(&proc.nspace).filter(|job| job.clients.contains_key(&proc.rank));
        let (Some(job), Some(registered)) = (job, self.jobs.get_mut(&proc.nspace)) else { return };
        let mut own = registered.procs.remove(&proc.rank).unwrap_or_default().cleanup;
        // Paths that others of the job have registered as well are theirs to leave behind.
        let OfJob { whole, owners, .. } = registered;
        own.retain(|path| !owners.remove(path) && !whole.cleanup.has(path));
        let whole = if job.is_over() { std::mem::take(&mut registered.whole) } else { Registered::default() };
        self.start(cx, &own);
        self.start(cx, &whole.cleanup);
    }

    /// A namespace is deregistered, after its processes.
    pub fn job_over(&mut self, cx: &mut Ctx, nspace: &Nspace) {
        if let Some(registered) = self.jobs.remove(nspace) {
            self.start(cx, &registered.whole.cleanup);
        }
    }

    /// A namespace that was never registered is forgotten with the last of its processes, and what they have said with
    /// it.
    pub fn job_forgotten(&mut self, nspace: &Nspace) {
        self.jobs.remove(nspace);
    }

    /// Has workers remove paths, one for each user.
    fn start(&mut self, cx: &mut Ctx, cleanup: &Cleanup) {
        for (uid, gid) in cleanup.users() {
            let (items, ignored) = (cleanup.of_user(uid, gid), cleanup.ignored().clone());
            self.last_started += 1;
            let number = self.last_started;
            let worker = cx.offload("instanton-sweep", move || {
                removal::remove(&items, &ignored, uid, gid);
                Ticket::Removed(number)
            });
            match worker {
                Ok(worker) => _ = self.running.insert(number, worker),
                Err(e) => trace!("nothing is cleaned up for user {uid}: {e}"),
            }
        }
    }

    /// A worker has removed what it was to remove.
    pub fn removed(&mut self, cx: &mut Ctx, number: u64) {
        if let Some(Some(worker)) = self.running.remove(&number) {
            // A thread that panicked has ended as well.
            let _ = worker.join();
        }
        for waiting in &mut self.waiting {
            waiting.removals.remove(&number);
        }
        for waiting in self.waiting.extract_if(.., |waiting| waiting.removals.is_empty()) {
            cx.finish(waiting.done, Ok(()));
        }
    }

    /// Calls `done` when all removals that have begun are over.
    pub fn after_removals(&mut self, cx: &mut Ctx, done: Done<()>) {
        match self.running.is_empty() {
            true => cx.finish(done, Ok(())),
            false => self.waiting.push(Waiting { removals: self.running.keys().copied().collect(), done }),
        }
    }

    /// Waits for all workers, at the server's end.
    pub fn join(&mut self) {
        for worker in self.running.drain().filter_map(|(_, worker)| worker) {
            let _ = worker.join();
        }
        for waiting in self.waiting.drain(..) {
            (waiting.done)(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::data::keys;
    use crate::message::door::PeerId;
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::{Accepted, Answer, Completion, Host, Infos, NoHost};

    /// A host that notes the calls it is told of, and the number of directives it is asked to act on.
    #[derive(Default)]
    struct RecordingHost(Mutex<(usize, Vec<usize>)>);

    impl Host for Arc<RecordingHost> {
        fn cleanup_registered(&self, _: &Proc, _: &[Info]) {
            self.0.lock().unwrap().0 += 1;
        }

        fn job_control(&self, _: &Proc, _: &[Proc], directives: &[Info], _: Completion<Infos>) -> Accepted {
            self.0.lock().unwrap().1.push(directives.len());
            Ok(Answer::Done)
        }
    }

    /// A job of two processes, both here, and the room.
    struct Room {
        cleanups: Cleanups,
        jobs: Jobs,
        test: TestCtx,
        peer: PeerId,
    }

    impl Room {
        fn new(host: impl Host) -> Room {
            let mut test = testing::ctx(host);
            let mut jobs = Jobs::default();
            (0..2).for_each(|rank| jobs.expect(&proc("job", rank), 1, 2));
            jobs.get_mut(&proc("job", 0).nspace).unwrap().local_procs = Some(2);
            let peer = test.connect(&proc("job", 0));
            Room { cleanups: Cleanups::default(), jobs, test, peer }
        }

        fn control(&mut self, requestor: u32, targets: &[Proc], directives: &[Info]) -> Option<Reply> {
            let caller = self.test.request(self.peer);
            let (cx, requestor) = (&mut self.test.cx, proc("job", requestor));
            self.cleanups.job_control(cx, &self.jobs, caller, &requestor, targets, directives.to_vec());
            self.test.replies().pop().map(|(_, reply)| reply)
        }

        fn end(&mut self, rank: u32) {
            self.jobs.client_mut(&proc("job", rank)).unwrap().ended = true;
            self.cleanups.process_ended(&mut self.test.cx, &self.jobs, &proc("job", rank));
        }

        fn removals(&self) -> usize {
            self.cleanups.running.len()
        }
    }

    fn file(path: &str) -> Info {
        Info::new(keys::REGISTER_CLEANUP, path)
    }

    #[test]
    fn a_path_of_two_processes_is_removed_after_the_last_of_them() {
        let mut room = Room::new(NoHost);
        for rank in 0..2 {
            assert_eq!(room.control(rank, &[proc("job", rank)], &[file("/a")]), Some(Reply::Done(Status::SUCCESS)));
        }
        room.end(0);
        assert_eq!(room.removals(), 0);
        room.end(1);
        assert_eq!(room.removals(), 1);
        room.end(1);
        assert_eq!(room.removals(), 1, "there is nothing left to remove");
    }

    #[test]
    fn paths_of_a_job_are_removed_after_its_last_process_or_with_its_namespace() {
        let mut room = Room::new(NoHost);
        room.control(0, &[], &[file("/a")]);
        room.end(0);
        assert_eq!(room.removals(), 0);
        room.end(1);
        assert_eq!(room.removals(), 1);
        let mut room = Room::new(NoHost);
        room.control(0, &[Proc::new(proc("job", 0).nspace, Rank::WILDCARD)], &[file("/a")]);
        room.cleanups.job_over(&mut room.test.cx, &proc("job", 0).nspace);
        assert_eq!(room.removals(), 1);
    }

    #[test]
    fn paths_are_charged_until_they_are_removed() {
        let mut room = Room::new(NoHost);
        let account = room.test.limit_memory(room.peer, 10_000);
        let path = format!("/{}", "a".repeat(3000));
        assert_eq!(room.control(0, &[proc("job", 0)], &[file(&path)]), Some(Reply::Done(Status::SUCCESS)));
        let once = account.used();
        assert!(once > 3000);
        assert_eq!(room.control(0, &[proc("job", 0)], &[file(&path)]), Some(Reply::Done(Status::SUCCESS)));
        assert_eq!(account.used(), once, "the path is there already");
        let many: Vec<Info> = (0..4).map(|n| file(&format!("{path}{n}"))).collect();
        assert_eq!(room.control(0, &[proc("job", 0)], &many), Some(Reply::Done(Status::ERR_OUT_OF_RESOURCE)));
        room.end(0);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn nobody_registers_for_processes_of_another_job_or_that_are_not_here() {
        let mut room = Room::new(NoHost);
        for (target, refusal) in
            [(proc("other", 0), Status::ERR_NO_PERMISSIONS), (proc("job", 2), Status::ERR_NOT_FOUND)]
        {
            assert_eq!(room.control(0, &[target], &[file("/a")]), Some(Reply::Done(refusal)));
        }
        assert_eq!(room.control(0, &[], &[file("relative")]), Some(Reply::Done(Status::ERR_BAD_PARAM)));
    }

    #[test]
    fn the_host_is_told_of_each_clean_up_once_and_asked_for_the_rest() {
        let host = Arc::new(RecordingHost::default());
        let mut room = Room::new(host.clone());
        for paths in ["/no/a", "/no/b", "/no/a", "/no/a,/no/b"] {
            room.control(0, &[], &[file(paths)]);
            room.control(0, &[proc("job", 0)], &[file(paths)]);
        }
        assert_eq!(host.0.lock().unwrap().0, 4, "two files of the process, and of its job");
        assert_eq!(room.control(0, &[], &[file("/no/c"), Info::new("pause", true)]), None);
        let directive_and_user = 3;
        assert_eq!(host.0.lock().unwrap().1, [directive_and_user]);
        assert!(matches!(room.test.ticket(), Some(Ticket::Reply(_, Reply::Infos(Status::SUCCESS, _)))));
    }

    #[test]
    fn a_caller_waits_for_the_removals_that_have_begun() {
        let mut room = Room::new(NoHost);
        let (sender, receiver) = std::sync::mpsc::channel();
        (0..2).for_each(|rank| _ = room.control(rank, &[proc("job", rank)], &[file(&format!("/{rank}"))]));
        room.end(0);
        let done = Box::new(move |result| sender.send(result).unwrap());
        room.cleanups.after_removals(&mut room.test.cx, done);
        room.end(1);
        room.test.call_back();
        assert!(receiver.try_recv().is_err());
        room.cleanups.removed(&mut room.test.cx, 1);
        room.test.call_back();
        assert_eq!((receiver.try_recv(), room.removals()), (Ok(Ok(())), 1));
    }

    #[test]
    fn nobody_waits_for_a_removal_that_has_no_thread() {
        let mut room = Room::new(NoHost);
        room.test.lack_threads(true);
        room.control(0, &[], &[file("/a")]);
        room.cleanups.job_over(&mut room.test.cx, &proc("job", 0).nspace);
        assert_eq!(room.removals(), 0);
    }

    #[test]
    fn a_call_registers_so_many_paths_for_all_whom_it_names_together() {
        let mut room = Room::new(NoHost);
        let both = [proc("job", 0), proc("job", 1)];
        let paths: Vec<String> = (0..4096).map(|number| format!("/no/{number}")).collect();
        assert_eq!(room.control(0, &both, &[file(&paths.join(","))]), Some(Reply::Done(Status::SUCCESS)));
        (2..9).for_each(|rank| room.jobs.expect(&proc("job", rank), 1, 2));
        let three: Vec<Proc> = (2..5).map(|rank| proc("job", rank)).collect();
        assert_eq!(room.control(0, &three, &[file(&paths.join(","))]), Some(Reply::Done(Status::ERR_OUT_OF_RESOURCE)));
    }

    #[test]
    fn a_process_that_is_named_often_is_registered_for_once() {
        let mut room = Room::new(NoHost);
        let paths: Vec<String> = (0..4096).map(|number| format!("/no/{number}")).collect();
        // The paths for each of these would be 4,096,000,000 steps.
        let often = vec![proc("job", 0); 1_000_000];
        let reply = room.control(0, &often, &[file(&paths.join(","))]);
        assert_eq!(reply, Some(Reply::Done(Status::SUCCESS)));
        room.end(0);
        assert_eq!(room.removals(), 1);
    }
}
