//! The namespaces that a server knows, and the processes of each that run on its node.
//!
//! A namespace and its clients are registered in either order; a job is here from the first of them on, with its token.
//! Its data comes with `register_nspace`.
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::FOREIGN_IDS;
use super::ctx::effect::Effect;
use super::ctx::system::WatchId;
use super::ctx::{Ctx, Done};
use super::fork::OfJob;
use super::router::Router;
use super::setup::Change;
use super::stored::{Stored, StoredError};
use crate::data::{Info, Nspace, Proc, Rank, Scope, Status, keys};
use crate::message::door::PeerId;
use crate::message::{Mapped, Posted, Reply};
use crate::store::{BadJobInfo, JobInfoBuilder, ReaderId};
use crate::sys::{memory, process, random};
use crate::trace;

/// What is known of the process that a rank of this node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not come yet.
    Expected,
    /// The host is asked about it.
    Asking,
    /// It is in.
    Joined,
    /// It has said that it is done: its end is no news.
    Finalized,
    /// It is gone and did not say that it was done.
    Lost,
}

/// A process of this node.
#[derive(Debug)]
pub(super) struct Client {
    pub uid: u32,
    pub gid: u32,
    pub phase: Phase,
    /// Its connection, while it has one.
    pub peer: Option<PeerId>,
    /// The process that came last; information only.
    pub pid: i32,
    pub watch: Option<WatchId>,
    /// Whether the host has started that process itself.
    pub is_child: bool,
    /// Its reader page, made before it comes: its Init does not wait for that.
    pub page: Option<ReaderId>,
    /// That page's descriptor, until the process has come.
    pub page_descriptor: Option<OwnedFd>,
    /// Whether its process has ended, one way or the other.
    pub ended: bool,
    /// Whether it has ended and none will come in its place.
    pub gone: bool,
    /// Whether it is a tool, which is gone with its connection.
    pub is_tool: bool,
}

impl Client {
    fn expected(uid: u32, gid: u32) -> Self {
        Client {
            uid,
            gid,
            phase: Phase::Expected,
            peer: None,
            pid: 0,
            watch: None,
            is_child: false,
            page: None,
            page_descriptor: None,
            ended: false,
            gone: false,
            is_tool: false,
        }
    }
}

/// A namespace.
#[derive(Debug)]
pub(super) struct Job {
    pub token: [u8; 32],
    /// How many of its processes run here; known once it is registered.
    pub local_procs: Option<usize>,
    /// Its information and what its processes post.
    pub stored: Option<Stored>,
    pub clients: BTreeMap<Rank, Client>,
    /// Ranks that ended and were deregistered.
    pub departed: BTreeSet<Rank>,
    /// Whether peers may have other ids than those registered.
    pub foreign_ids: bool,
    /// Where the host is told of each fence of all of it that nobody here comes: how often in a row it brought nothing.
    pub misses_fences: Option<u32>,
    /// Peers that came before the namespace was registered.
    pub early: Vec<PeerId>,
    /// What its processes get besides what leads them here.
    pub environment: Arc<[Change]>,
    /// Whether the server itself has registered it, for tools.
    pub of_tools: bool,
    /// Whether a tool has chosen its name, which the host knows nothing of.
    pub self_named: bool,
}

impl Job {
    fn new() -> Result<Self, Status> {
        Ok(Job {
            token: random::bytes().map_err(|_| Status::ERR_OUT_OF_RESOURCE)?,
            local_procs: None,
            stored: None,
            clients: BTreeMap::new(),
            departed: BTreeSet::new(),
            foreign_ids: false,
            misses_fences: None,
            early: Vec::new(),
            environment: Arc::default(),
            of_tools: false,
            self_named: false,
        })
    }

    /// Whether a rank is known to run on this node.
    pub(super) fn is_local(&self, rank: Rank) -> bool {
        self.clients.contains_key(&rank) || self.stored.as_ref().is_some_and(|stored| stored.is_local(rank))
    }

    /// Whether a process of this node has ended, and another one is not expected in its place.
    pub(super) fn is_gone(&self, rank: Rank) -> bool {
        self.departed.contains(&rank) || self.clients.get(&rank).is_some_and(|client| client.gone)
    }

    /// Whether nobody posts or comes as this rank any more unless the host starts it anew. Of one that has said goodbye and ended
    /// that is only known where the host itself had started it: a script may start another program.
    pub(super) fn is_done(&self, rank: Rank) -> bool {
        let has_ended = |client: &Client| client.phase == Phase::Finalized && client.ended && client.is_child;
        self.is_gone(rank) || self.clients.get(&rank).is_some_and(has_ended)
    }

    /// Whether every process that was to run here has run and ended.
    pub(super) fn is_over(&self) -> bool {
        let known = self.clients.len() + self.departed.len();
        self.local_procs == Some(known) && self.clients.values().all(|client| client.ended)
    }

    /// Whether nobody is left here who could come to a fence, and not all have said goodbye.
    pub(super) fn is_deserted(&self) -> bool {
        let known = self.clients.len() + self.departed.len();
        let mut clients = self.clients.values();
        let is_lost = clients.clone().any(|client| client.phase == Phase::Lost);
        is_lost && !self.of_tools && self.local_procs == Some(known) && clients.all(|c| c.ended || c.gone)
    }

    /// Makes the reader page of a process that has none of this data.
    fn make_page(&mut self, rank: Rank) {
        let (Some(stored), Some(client)) = (&mut self.stored, self.clients.get_mut(&rank)) else { return };
        (client.page, client.page_descriptor) = match stored.open_page() {
            Ok((page, descriptor)) => (Some(page), Some(descriptor)),
            Err(e) => {
                trace!("there is no reader page for rank {rank}: {e}");
                (None, None)
            }
        };
    }

    /// Makes it for a process that has not come, unless others may need the descriptor that waits for it.
    fn prepare_page(&mut self, rank: Rank) {
        self.make_page(rank);
        let descriptor = self.clients.get(&rank).and_then(|client| client.page_descriptor.as_ref());
        if descriptor.is_some_and(process::is_high) {
            self.leave_page(rank);
        }
    }

    /// The descriptor of a process's reader page, for the process itself.
    pub(super) fn take_page(&mut self, rank: Rank) -> Option<OwnedFd> {
        if self.clients.get(&rank)?.page_descriptor.is_none() {
            self.make_page(rank);
        }
        self.clients.get_mut(&rank)?.page_descriptor.take()
    }

    /// A process does not use its reader page any more.
    pub(super) fn leave_page(&mut self, rank: Rank) {
        let Some(client) = self.clients.get_mut(&rank) else { return };
        client.page_descriptor = None;
        if let (Some(page), Some(stored)) = (client.page.take(), &mut self.stored) {
            stored.close_page(page);
        }
    }

    /// Whether nobody has used the job's segments yet.
    fn is_untouched(&self) -> bool {
        self.clients.values().all(|client| client.phase == Phase::Expected)
            && self.stored.as_ref().is_none_or(|stored| !stored.is_in_use())
    }
}

/// A job of so many processes takes enough memory while it is registered to look after it.
const LARGE: u32 = 1 << 16;

/// Namespaces that are over and not forgotten.
const MAX_OVER: usize = 64;

/// All namespaces.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    known: HashMap<Nspace, Job>,
    /// Those that were deregistered last, the oldest first: nobody waits for them to be registered.
    over: VecDeque<Nspace>,
}

impl Jobs {
    pub(super) fn get(&self, nspace: &Nspace) -> Option<&Job> {
        self.known.get(nspace)
    }

    pub(super) fn get_mut(&mut self, nspace: &Nspace) -> Option<&mut Job> {
        self.known.get_mut(nspace)
    }

    pub(super) fn client(&self, proc: &Proc) -> Option<&Client> {
        self.known.get(&proc.nspace)?.clients.get(&proc.rank)
    }

    pub(super) fn client_mut(&mut self, proc: &Proc) -> Option<&mut Client> {
        self.known.get_mut(&proc.nspace)?.clients.get_mut(&proc.rank)
    }

    /// The data of a namespace that is registered.
    pub(super) fn stored(&self, nspace: &Nspace) -> Option<&Stored> {
        self.known.get(nspace)?.stored.as_ref()
    }

    pub(super) fn stored_mut(&mut self, nspace: &Nspace) -> Option<&mut Stored> {
        self.known.get_mut(nspace)?.stored.as_mut()
    }

    /// Whether a namespace was registered here and is no more.
    pub(super) fn is_over(&self, nspace: &Nspace) -> bool {
        self.over.contains(nspace)
    }

    /// Forgets a namespace. Whether there was one.
    fn remove(&mut self, nspace: &Nspace) -> bool {
        let Some(job) = self.known.remove(nspace) else { return false };
        // Tools come and go; nobody on another node asks for what they have posted.
        if job.local_procs.is_some() && !job.of_tools {
            self.over.push_back(nspace.clone());
            if self.over.len() > MAX_OVER {
                self.over.pop_front();
            }
        }
        true
    }

    /// Takes in what a process of this node posts.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a scope that there is not, `ERR_NOT_FOUND` where the namespace is not registered, and the status of data
    /// that cannot be stored.
    pub(super) fn commit(&mut self, cx: &mut Ctx, proc: Proc, entries: Vec<Posted>) -> Result<(), Status> {
        let is_bad = |entry: &&Posted| ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL].contains(&entry.scope);
        if let Some(bad) = entries.iter().find(is_bad) {
            trace!("{proc} commits {} with scope {}", bad.key, bad.scope.0);
            return Err(Status::ERR_BAD_PARAM);
        }
        let stored = self.stored_mut(&proc.nspace).ok_or(Status::ERR_NOT_FOUND)?;
        let result = stored.post(proc.rank, entries).map_err(|e| {
            trace!("a commit of {proc} fails: {e}");
            if let Some(holder) = e.held_by().and_then(|page| self.reader(&proc.nspace, page)) {
                trace!("{holder} holds on to memory of {} and keeps it from being used again", proc.nspace);
            }
            e.status()
        });
        cx.effect(Effect::Posted(proc));
        result
    }

    /// Whose reader page that is.
    pub(super) fn reader(&self, nspace: &Nspace, page: ReaderId) -> Option<Proc> {
        let (rank, _) = self.get(nspace)?.clients.iter().find(|(_, client)| client.page == Some(page))?;
        Some(Proc::new(nspace.clone(), *rank))
    }

    /// Returns whether a process is known to run on this node.
    pub(super) fn runs_here(&self, proc: &Proc) -> bool {
        self.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank))
    }

    /// Returns whether a process runs on another node, as far as is known here.
    pub(super) fn is_remote(&self, proc: &Proc) -> bool {
        proc.rank.is_process() && !self.runs_here(proc)
    }

    /// Returns whether a process of this node has ended, and another one is not expected in its place.
    pub(super) fn is_gone(&self, proc: &Proc) -> bool {
        self.get(&proc.nspace).is_some_and(|job| job.is_gone(proc.rank))
    }

    /// Returns whether a process of this node has posted all that it will, unless the host starts it anew.
    pub(super) fn is_done(&self, proc: &Proc) -> bool {
        self.get(&proc.nspace).is_some_and(|job| job.is_done(proc.rank))
    }

    /// Returns the single processes of a list, wildcards expanded, each once.
    pub(super) fn each(&self, procs: &[Proc]) -> Vec<Proc> {
        let mut seen = BTreeSet::new();
        let each = procs.iter().flat_map(|proc| {
            let stored = self.stored(&proc.nspace);
            let ranks = match proc.rank {
                Rank::WILDCARD => stored.and_then(|stored| stored.size()).map(|size| (0..size).map(Rank).collect()),
                Rank::LOCAL_NODE | Rank::LOCAL_PEERS => stored.map(|stored| stored.local_ranks()),
                _ => None,
            };
            let ranks: Vec<Rank> = ranks.unwrap_or_else(|| vec![proc.rank]);
            ranks.into_iter().map(|rank| Proc::new(proc.nspace.clone(), rank)).collect::<Vec<_>>()
        });
        each.filter(|proc| seen.insert(proc.clone())).collect()
    }

    /// Returns a request's attributes with user and group of the process that makes it, whatever it says itself of them.
    pub(super) fn signed(&self, cx: &Ctx, proc: &Proc, mut info: Vec<Info>) -> Vec<Info> {
        let own = (*proc == cx.identity.proc).then_some((cx.identity.uid, cx.identity.gid));
        if let Some((uid, gid)) = self.client(proc).map(|client| (client.uid, client.gid)).or(own) {
            info.retain(|info| info.key != keys::USERID && info.key != keys::GRPID);
            info.extend([Info::new(keys::USERID, uid), Info::new(keys::GRPID, gid)]);
        }
        info
    }

    pub(super) fn names(&self) -> Vec<Nspace> {
        self.known.keys().cloned().collect()
    }
}

#[cfg(test)]
impl Jobs {
    /// Registers a process that is to come.
    pub(super) fn expect(&mut self, proc: &Proc, uid: u32, gid: u32) {
        let job = self.known.entry(proc.nspace.clone()).or_insert_with(|| Job::new().unwrap());
        job.clients.insert(proc.rank, Client::expected(uid, gid));
    }
}

impl Router {
    pub(super) fn register_nspace(
        &mut self,
        nspace: Nspace,
        local_procs: usize,
        info: Result<JobInfoBuilder, BadJobInfo>,
    ) -> Result<(), Status> {
        let limits = self.limits.clone();
        let info = info.and_then(|info| self.with_sessions(self.with_resources(info)?).build());
        let foreign_ids = info.as_ref().is_ok_and(|info| info.is_set(FOREIGN_IDS));
        let parent = info.as_ref().ok().filter(|info| !info.is_set(keys::COSPAWN_APP));
        let parent = parent.and_then(|info| info.get(keys::PARENT_ID)?.as_proc()).map(|parent| parent.nspace.clone());
        let job = self.job_entry(&nspace)?;
        let untouched = job.is_untouched();
        let anew = untouched || job.stored.is_none();
        let made = info.map_err(StoredError::from).and_then(|info| match &mut job.stored {
            Some(stored) if !anew => stored.replace(info),
            stored => Stored::create(&nspace, info, &limits).map(|made| *stored = Some(made)),
        });
        if let Err(e) = made {
            trace!("namespace {nspace} cannot be registered: {e}");
            self.forget_empty(&nspace);
            return Err(e.status());
        }
        if let Some(stored) = &mut job.stored {
            job.clients.keys().for_each(|rank| stored.mark_local(*rank));
            if stored.size().is_some_and(|size| size >= LARGE) {
                memory::give_back();
            }
        }
        if anew {
            let ranks: Vec<Rank> = job.clients.keys().copied().collect();
            ranks.into_iter().for_each(|rank| job.prepare_page(rank));
        }
        job.local_procs = Some(local_procs);
        job.foreign_ids = foreign_ids;
        let early = std::mem::take(&mut job.early);
        if let Some(parent) = parent {
            // Its processes may ask for what their parents have before the host says that they were started.
            self.connections.tie(parent, nspace.clone());
        }
        for peer in early {
            self.consider(peer);
        }
        self.job_changed(&nspace);
        self.gets.job_registered(&mut self.cx, &self.jobs, &nspace);
        Ok(())
    }

    pub(super) fn register_client(&mut self, proc: Proc, uid: u32, gid: u32) -> Result<(), Status> {
        if !proc.rank.is_process() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let job = self.job_entry(&proc.nspace)?;
        job.departed.remove(&proc.rank);
        if let Some(stored) = &mut job.stored {
            stored.mark_local(proc.rank);
        }
        match job.clients.get_mut(&proc.rank) {
            Some(client) => (client.uid, client.gid) = (uid, gid),
            None => {
                job.clients.insert(proc.rank, Client::expected(uid, gid));
                job.prepare_page(proc.rank);
            }
        }
        self.job_changed(&proc.nspace);
        Ok(())
    }

    /// The process is gone for the host; so it is here.
    pub(super) fn deregister_client(&mut self, proc: &Proc, done: Done<()>) {
        self.client_died(proc);
        if let Some(job) = self.jobs.get_mut(&proc.nspace) {
            if job.clients.remove(&proc.rank).is_some() {
                job.departed.insert(proc.rank);
            }
            self.forget_empty(&proc.nspace);
        }
        self.cleanups.after_removals(&mut self.cx, done);
    }

    /// Everything of the namespace goes: clients, fences with it, look-ups in it, data, and what was to be cleaned up.
    pub(super) fn deregister_nspace(&mut self, nspace: &Nspace, done: Done<()>) {
        let ranks: Vec<Rank> =
            self.jobs.get(nspace).map(|job| job.clients.keys().copied().collect()).unwrap_or_default();
        for rank in ranks {
            self.client_died(&Proc::new(nspace.clone(), rank));
        }
        let early = self.jobs.get_mut(nspace).map(|job| std::mem::take(&mut job.early)).unwrap_or_default();
        for peer in early {
            self.refuse(peer, Status::ERR_NOT_FOUND, format!("namespace {nspace} is deregistered"));
        }
        self.job_over(nspace);
        if self.jobs.remove(nspace) {
            self.publish_fork(nspace);
        }
        self.cleanups.after_removals(&mut self.cx, done);
    }

    /// A process is given the descriptors of its own job, and of those it is tied to or shares a group with.
    fn may_map(&self, own: &Nspace, other: &Nspace) -> bool {
        own == other || self.connections.bind(own, other) || self.groups.bind(own, other)
    }

    /// Sends descriptors of what a client has not mapped.
    pub(super) fn segments(&mut self, peer: PeerId, number: u64, nspace: &Nspace, have: &Mapped) {
        let own = self.cx.peers.get(&peer).is_some_and(|entry| self.may_map(&entry.proc.nspace, nspace));
        let parts = match self.jobs.stored(nspace) {
            Some(stored) if own => stored.parts(have),
            _ => return self.cx.reply_status(peer, number, Err(Status::ERR_NO_PERMISSIONS)),
        };
        match parts {
            Ok(parts) => {
                let (parts, descriptors) = parts.into_iter().unzip();
                self.cx.reply_with(peer, number, Reply::Segments { parts }, descriptors);
            }
            Err(e) => {
                trace!("no descriptor of {nspace} can be sent: {e}");
                self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
            }
        }
    }

    /// Frees what no reader of a job holds, and cuts off readers that lie about what they hold.
    pub(super) fn reclaim(&mut self, nspace: &Nspace) {
        let Some(job) = self.jobs.get_mut(nspace) else { return };
        let liars = job.stored.as_mut().map(Stored::reclaim).unwrap_or_default();
        for proc in liars.iter().filter_map(|page| self.jobs.reader(nspace, *page)).collect::<Vec<_>>() {
            trace!("the reader page of {proc} holds an epoch that has not been");
            self.cut_off(&proc);
        }
    }

    pub(super) fn job_entry(&mut self, nspace: &Nspace) -> Result<&mut Job, Status> {
        if nspace.as_bytes().is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        if self.jobs.get(nspace).is_none() {
            self.jobs.known.insert(nspace.clone(), Job::new()?);
            self.jobs.over.retain(|over| over != nspace);
            self.publish_fork(nspace);
        }
        self.jobs.get_mut(nspace).ok_or(Status::ERR_NOT_FOUND)
    }

    /// A job that was never registered lives as long as its clients.
    pub(super) fn forget_empty(&mut self, nspace: &Nspace) {
        let empty = |job: &Job| job.local_procs.is_none() && job.clients.is_empty() && job.early.is_empty();
        if self.jobs.get(nspace).is_some_and(empty) {
            self.jobs.remove(nspace);
            self.cleanups.job_forgotten(nspace);
            self.publish_fork(nspace);
        }
    }

    /// Makes known to `setup_fork` what there is of a job now.
    pub(super) fn publish_fork(&self, nspace: &Nspace) {
        let of_job = |job: &Job| OfJob { token: job.token, environment: job.environment.clone() };
        self.forks.publish(self.common.clone(), nspace, self.jobs.get(nspace).map(of_job));
    }
}

#[cfg(test)]
impl Jobs {
    /// Registers a job of so many processes, some of which run here.
    pub(super) fn add(&mut self, nspace: &Nspace, size: u32, here: &[Rank]) {
        let mut job = Job::new().expect("randomness");
        let peers: Vec<String> = here.iter().map(|rank| rank.0.to_string()).collect();
        let info = [Info::new(keys::JOB_SIZE, size), Info::new(keys::LOCAL_PEERS, peers.join(",").as_str())];
        let info =
            crate::store::JobInfo::from_infos(nspace, here.len() as u32, &info, "here").expect("good information");
        job.stored = Some(Stored::create(nspace, info, &crate::store::Limits::default()).expect("memory"));
        job.clients.extend(here.iter().map(|rank| (*rank, Client::expected(0, 0))));
        job.local_procs = Some(here.len());
        self.known.insert(nspace.clone(), job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{JobInfo, Limits};

    #[test]
    fn a_page_is_ready_before_its_process_comes_and_no_two_have_the_same() {
        let nspace = Nspace::new("job").unwrap();
        let info = JobInfo::from_infos(&nspace, 1, &[], "here").unwrap();
        let stored = || Stored::create(&nspace, info.clone(), &Limits::default()).unwrap();
        let mut job = Job::new().unwrap();
        job.clients.insert(Rank(0), Client::expected(0, 0));
        job.prepare_page(Rank(0));
        assert_eq!(job.clients[&Rank(0)].page, None, "there is no data yet");
        for _ in 0..2 {
            job.stored = Some(stored());
            job.prepare_page(Rank(0));
        }
        let ready = job.clients[&Rank(0)].page;
        assert!(ready.is_some() && job.take_page(Rank(0)).is_some());
        assert_eq!(job.clients[&Rank(0)].page, ready);
        // Another process comes as that rank.
        job.leave_page(Rank(0));
        assert!(job.clients[&Rank(0)].page.is_none() && job.take_page(Rank(0)).is_some());
        assert_ne!(job.clients[&Rank(0)].page, ready);
        assert!(job.take_page(Rank(1)).is_none(), "nobody has registered it");
    }
}
