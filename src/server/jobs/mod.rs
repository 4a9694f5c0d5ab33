//! The namespaces that a server knows, and the processes of each that run on its node.
//!
//! A namespace and its clients are registered in either order; a job is here from the first of them on, with its token.
//! Its data comes with its registration and lies in the [job store](store), of which the server is the one writer.
//!
//! Nothing here knows a collective or a room. A change tells them of itself by an effect: a namespace was listed or
//! forgotten, a namespace or a process was registered.
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::RandomState;

use super::FOREIGN_IDS;
use super::config::ServerConfig;
use super::ctx::Ctx;
use super::ctx::effect::Effect;
use crate::data::{Info, Key, Nspace, Proc, Rank, Scope, Status, keys};
use crate::message::Posted;
use crate::message::door::{JobFacts, MakesJobFiles};
use crate::store::{BadJobInfo, JobInfoBuilder, Limits, Misuse, ReaderId};
use crate::trace;

mod client;
mod common_info;
mod job;
mod renewed;
pub mod store;
mod visible;

pub use client::{Client, Phase};
use common_info::CommonInfo;
pub use job::Job;
use store::{JobStore, JobStoreError};

/// A job of so many processes takes enough memory while it is registered to look after it.
const LARGE: u32 = 1 << 16;

/// Namespaces that are over and not forgotten.
const MAX_OVER: usize = 64;

/// Table of all namespaces.
#[derive(Debug, Default)]
pub struct Jobs {
    known: HashMap<Nspace, Job>,
    /// Seed of hashes over names that processes choose. No order depends on it.
    pub seed: RandomState,
    /// True if the server lives in the process of its only client: its host keeps what all others post, and tells a list
    /// of all ranks from the namespace.
    pub one_client: bool,
    /// Information that jobs have which are registered later.
    pub common: CommonInfo,
    /// Maker of files with the data of jobs, where some peers look into such.
    pub files: Option<Box<dyn MakesJobFiles>>,
    /// Namespaces that were deregistered last, the oldest first: nobody waits for them to be registered.
    over: VecDeque<Nspace>,
    /// The same of tools, which come and go often.
    tools_over: VecDeque<Nspace>,
    renewals: u64,
}

impl Jobs {
    /// Creates the table of a server.
    pub fn new(config: &ServerConfig) -> Self {
        Jobs { one_client: config.one_client, ..Jobs::default() }
    }

    /// Returns a job by its namespace.
    pub fn get(&self, nspace: &Nspace) -> Option<&Job> {
        self.known.get(nspace)
    }

    /// Returns a job by its namespace, to be changed.
    pub fn get_mut(&mut self, nspace: &Nspace) -> Option<&mut Job> {
        self.known.get_mut(nspace)
    }

    /// All jobs, in no order.
    pub fn all(&self) -> impl Iterator<Item = (&Nspace, &Job)> {
        self.known.iter()
    }

    /// Returns a process of this node.
    pub fn client(&self, proc: &Proc) -> Option<&Client> {
        self.known.get(&proc.nspace)?.clients.get(&proc.rank)
    }

    /// Returns a process of this node, to be changed.
    pub fn client_mut(&mut self, proc: &Proc) -> Option<&mut Client> {
        self.known.get_mut(&proc.nspace)?.clients.get_mut(&proc.rank)
    }

    /// Returns the data of a namespace that is registered.
    pub fn store(&self, nspace: &Nspace) -> Option<&JobStore> {
        self.known.get(nspace)?.store.as_ref()
    }

    /// Returns the data of a namespace that is registered, to be changed.
    pub fn store_mut(&mut self, nspace: &Nspace) -> Option<&mut JobStore> {
        self.known.get_mut(nspace)?.store.as_mut()
    }

    /// Counts the ranks of all jobs whose size is known.
    pub fn ranks(&self) -> usize {
        self.known.values().filter_map(|job| job.store.as_ref()?.size()).map(|size| size as usize).sum()
    }

    /// Returns what those are told who would meet a namespace that was registered here and is no more: that a job is over,
    /// and of tools what they hear who wait for one as it goes.
    pub fn status_of_end(&self, nspace: &Nspace) -> Option<Status> {
        let of_tools = || self.tools_over.contains(nspace).then_some(Status::ERR_PARTIAL_SUCCESS);
        self.over.contains(nspace).then_some(Status::EVENT_JOB_END).or_else(of_tools)
    }

    /// Returns the entry of a namespace; a new one has a token of its own, and is published to `setup_fork`.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without a name, `ERR_OUT_OF_RESOURCE` without randomness.
    pub fn entry(&mut self, cx: &mut Ctx, nspace: &Nspace) -> Result<&mut Job, Status> {
        if nspace.as_bytes().is_empty() {
            return Err(Status::ERR_BAD_PARAM);
        }
        match self.known.entry(nspace.clone()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let job = place.insert(Job::new(cx)?);
                self.over.retain(|over| over != nspace);
                self.tools_over.retain(|over| over != nspace);
                cx.effect(Effect::JobListed(nspace.clone()));
                Ok(job)
            }
        }
    }

    /// Keeps the information of a namespace, new or instead of what was known, and makes the reader pages of its
    /// processes.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for information that makes no sense, else those of the store.
    pub fn register(
        &mut self,
        cx: &mut Ctx,
        nspace: &Nspace,
        local_procs: usize,
        info: Result<JobInfoBuilder, BadJobInfo>,
    ) -> Result<(), Status> {
        let info = info.and_then(|info| self.common.add_to(info)?.build());
        let foreign_ids = info.as_ref().is_ok_and(|info| info.is_set(FOREIGN_IDS));
        let facts = info.as_ref().ok();
        let parent = facts.and_then(|info| info.get(keys::PARENT_ID)?.as_proc()).map(|parent| parent.nspace.clone());
        // A job that a tool has started belongs to nobody's job.
        if let Some(parent) = parent.as_ref().filter(|parent| self.get(parent).is_some_and(|job| !job.of_tools)) {
            cx.accounts.descend(nspace, parent);
        }
        let parent = parent.filter(|_| facts.is_some_and(|info| !info.is_set(keys::COSPAWN_APP)));
        let limits = Limits { budget: cx.accounts.shared_of(nspace), ..Limits::default() };
        let job = self.entry(cx, nspace)?;
        let anew = job.store.is_none() || job.is_untouched();
        let as_many = job.local_procs == Some(local_procs);
        let made = info.map_err(JobStoreError::from).and_then(|info| match &mut job.store {
            Some(store) if !anew => store.replace(nspace, info),
            store => JobStore::create(nspace, info, &limits).map(|made| {
                let former = store.replace(made);
                if let (Some(former), Some(made)) = (former.filter(|_| as_many), store) {
                    made.take_files(nspace, former);
                }
            }),
        });
        if let Err(e) = made {
            trace!("namespace {nspace} cannot be registered: {e}");
            cx.host.not_registered(nspace, &e.to_string());
            self.forget_empty(cx, nspace);
            return Err(e.status());
        }
        if let Some(store) = &mut job.store {
            if cx.config.one_client {
                store.serve_marked_alone();
            }
            job.clients.keys().for_each(|rank| store.mark_local(*rank));
            if store.size().is_some_and(|size| size >= LARGE) {
                cx.system.give_back_memory();
            }
        }
        if anew {
            let ranks: Vec<Rank> = job.clients.keys().copied().collect();
            ranks.into_iter().for_each(|rank| job.prepare_page(cx, rank));
        }
        job.local_procs = Some(local_procs);
        job.foreign_ids = foreign_ids;
        if !anew {
            self.note_renewed(nspace);
        }
        cx.effect(Effect::JobRegistered { nspace: nspace.clone(), parent });
        Ok(())
    }

    /// Expects a process of a namespace, registered or not.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for what is no single process.
    pub fn register_client(&mut self, cx: &mut Ctx, proc: &Proc, uid: u32, gid: u32) -> Result<(), Status> {
        if !proc.rank.is_process() {
            return Err(Status::ERR_BAD_PARAM);
        }
        let job = self.entry(cx, &proc.nspace)?;
        let has_come = job.departed.remove(&proc.rank);
        if let Some(store) = &mut job.store {
            store.mark_local(proc.rank);
        }
        match job.clients.get_mut(&proc.rank) {
            Some(client) => (client.uid, client.gid) = (uid, gid),
            None => {
                job.clients.insert(proc.rank, Client { has_come, ..Client::expected(uid, gid) });
                job.prepare_page(cx, proc.rank);
            }
        }
        cx.effect(Effect::ClientRegistered(proc.nspace.clone()));
        Ok(())
    }

    /// Forgets a process, and its namespace with the last one where that was never registered.
    pub fn deregister_client(&mut self, cx: &mut Ctx, proc: &Proc) {
        let Some(job) = self.known.get_mut(&proc.nspace) else { return };
        if job.clients.remove(&proc.rank).is_some() {
            job.departed.insert(proc.rank);
        }
        self.forget_empty(cx, &proc.nspace);
    }

    /// Forgets a namespace that was never registered and has neither clients nor peers that wait for it.
    pub fn forget_empty(&mut self, cx: &mut Ctx, nspace: &Nspace) {
        let empty = |job: &Job| job.local_procs.is_none() && job.clients.is_empty() && job.early.is_empty();
        if self.get(nspace).is_some_and(empty) {
            self.remove(cx, nspace);
        }
    }

    /// Forgets a namespace.
    pub fn remove(&mut self, cx: &mut Ctx, nspace: &Nspace) {
        let Some(job) = self.known.remove(nspace) else { return };
        if job.local_procs.is_some() {
            let over = if job.of_tools { &mut self.tools_over } else { &mut self.over };
            over.push_back(nspace.clone());
            if over.len() > MAX_OVER {
                over.pop_front();
            }
        }
        cx.effect(Effect::JobListed(nspace.clone()));
    }

    /// Frees memory of a job that no reader holds; returns the processes that lie in their reader pages about what they
    /// hold, or hold back too much.
    pub fn reclaim(&mut self, nspace: &Nspace) -> Vec<(Proc, Misuse)> {
        let misused = self.store_mut(nspace).map(JobStore::reclaim).unwrap_or_default();
        misused.into_iter().filter_map(|(page, misuse)| Some((self.reader(nspace, page)?, misuse))).collect()
    }

    /// Makes files with the data of a job, where they can be had, once it is known who its processes are. Returns
    /// whether there are some now that there were not.
    pub fn make_files(&mut self, nspace: &Nspace) -> bool {
        let (Some(maker), Some(job)) = (&self.files, self.known.get_mut(nspace)) else { return false };
        let (of_tools, foreign_ids, local) = (job.of_tools, job.foreign_ids, job.local_procs);
        let client = job.clients.values().next().map(|client| (client.uid, client.gid));
        let (Some((uid, gid)), Some(local), Some(store)) = (client, local, &mut job.store) else { return false };
        let (Some(ranks), Ok(local)) = (store.size(), u32::try_from(local)) else { return false };
        if of_tools || foreign_ids || local == 0 || store.has_tried_files() {
            return false;
        }
        store.keep_files(maker.make(&JobFacts { nspace, ranks, local, uid, gid }))
    }

    /// Takes the reader page back from a process that does not use it any more.
    pub fn leave_page(&mut self, proc: &Proc) {
        if let Some(job) = self.get_mut(&proc.nspace) {
            job.leave_page(proc.rank);
        }
    }

    /// Checks the scopes of what a process posts.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for one that there is not.
    pub fn check_scopes(proc: &Proc, entries: &[Posted]) -> Result<(), Status> {
        let is_bad = |entry: &&Posted| ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL].contains(&entry.scope);
        let Some(bad) = entries.iter().find(is_bad) else { return Ok(()) };
        trace!("{proc} commits {} with scope {}", bad.key, bad.scope.0);
        Err(Status::ERR_BAD_PARAM)
    }

    /// Takes in what a process of this node posts.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a scope that there is not, `ERR_NOT_FOUND` where the namespace is not registered, and the
    /// status of data that cannot be stored.
    pub fn commit(&mut self, cx: &mut Ctx, proc: Proc, entries: Vec<Posted>) -> Result<(), Status> {
        let post = |store: &mut JobStore, entries| Ok(store.post(proc.rank, entries));
        self.commit_by(cx, &proc, entries, post).unwrap_or(Err(Status::ERROR))
    }

    /// Takes in what a process of this node posts, unless that takes long because of what it has posted before.
    ///
    /// # Errors
    /// The entries, where it takes long. Within them as above.
    pub fn commit_briefly(
        &mut self,
        cx: &mut Ctx,
        proc: &Proc,
        entries: Vec<Posted>,
    ) -> Result<Result<(), Status>, Vec<Posted>> {
        self.commit_by(cx, proc, entries, |store, entries| store.post_briefly(proc.rank, entries))
    }

    fn commit_by(
        &mut self,
        cx: &mut Ctx,
        proc: &Proc,
        entries: Vec<Posted>,
        post: impl FnOnce(&mut JobStore, Vec<Posted>) -> Result<Result<(), JobStoreError>, Vec<Posted>>,
    ) -> Result<Result<(), Status>, Vec<Posted>> {
        if let Err(status) = Jobs::check_scopes(proc, &entries) {
            return Ok(Err(status));
        }
        let Some(store) = self.store_mut(&proc.nspace) else { return Ok(Err(Status::ERR_NOT_FOUND)) };
        let keys = awaited_keys(cx, proc, &entries);
        let result = post(store, entries)?.map_err(|e| {
            trace!("a commit of {proc} fails: {e}");
            e.status()
        });
        if store.is_to_reclaim() {
            cx.effect(Effect::Reclaim(proc.nspace.clone()));
        }
        cx.effect(Effect::Posted { proc: proc.clone(), keys });
        Ok(result)
    }

    /// Returns the process that a reader page is of.
    pub fn reader(&self, nspace: &Nspace, page: ReaderId) -> Option<Proc> {
        let (rank, _) = self.get(nspace)?.clients.iter().find(|(_, client)| client.page == Some(page))?;
        Some(Proc::new(nspace.clone(), *rank))
    }

    /// Returns whether a process is known to run on this node.
    pub fn runs_here(&self, proc: &Proc) -> bool {
        self.get(&proc.nspace).is_some_and(|job| job.is_local(proc.rank))
    }

    /// Returns whether a process runs on another node, as far as is known here.
    pub fn is_remote(&self, proc: &Proc) -> bool {
        proc.rank.is_process() && !self.runs_here(proc)
    }

    /// Returns whether a job is known to have no process of that rank.
    pub fn is_beyond(&self, proc: &Proc) -> bool {
        let size = self.store(&proc.nspace).and_then(|store| store.size());
        proc.rank.is_process() && size.is_some_and(|size| proc.rank.0 >= size)
    }

    /// The processes of a job on other nodes, unless the job has more than so many.
    pub fn elsewhere(&self, nspace: &Nspace, most: u32) -> Vec<Proc> {
        let size = self.store(nspace).and_then(|store| store.size()).filter(|size| *size <= most).unwrap_or(0);
        let each = (0..size).map(|rank| Proc::new(nspace.clone(), Rank(rank)));
        each.filter(|proc| self.is_remote(proc)).collect()
    }

    /// Returns whether whichever process of a job is meant, and a host that serves one process keeps what the others post.
    pub fn is_unnamed_elsewhere(&self, proc: &Proc) -> bool {
        self.one_client && proc.rank == Rank::UNDEF
    }

    /// Returns whether the host of a server for one process may know a job that this server has not heard of.
    pub fn is_unheard_of(&self, proc: &Proc) -> bool {
        self.one_client && !proc.nspace.is_empty() && self.store(&proc.nspace).is_none()
    }

    /// Returns whether a process of this node has ended, and another one is not expected in its place.
    pub fn is_gone(&self, proc: &Proc) -> bool {
        self.get(&proc.nspace).is_some_and(|job| job.is_gone(proc.rank))
    }

    /// Returns whether a process of this node has posted all that it will, unless the host starts it anew.
    pub fn is_done(&self, proc: &Proc) -> bool {
        self.get(&proc.nspace).is_some_and(|job| job.is_done(proc.rank))
    }

    /// Returns the single processes of a list, wildcards expanded, each once.
    pub fn each(&self, procs: &[Proc]) -> Vec<Proc> {
        let mut seen = BTreeSet::new();
        // A wildcard that is named often is expanded once.
        let mut patterns = BTreeSet::new();
        let procs = procs.iter().filter(|proc| proc.rank.is_process() || patterns.insert((*proc).clone()));
        let each = procs.flat_map(|proc| {
            let store = self.store(&proc.nspace);
            let ranks = match proc.rank {
                Rank::WILDCARD => store.and_then(|store| store.size()).map(|size| (0..size).map(Rank).collect()),
                Rank::LOCAL_NODE | Rank::LOCAL_PEERS => store.map(|store| store.local_ranks()),
                _ => None,
            };
            let ranks: Vec<Rank> = ranks.unwrap_or_else(|| vec![proc.rank]);
            ranks.into_iter().map(|rank| Proc::new(proc.nspace.clone(), rank)).collect::<Vec<_>>()
        });
        each.filter(|proc| seen.insert(proc.clone())).collect()
    }

    /// Returns a request's attributes with user and group of the process that makes it, whatever it says itself of
    /// them.
    pub fn signed(&self, cx: &Ctx, proc: &Proc, mut info: Vec<Info>) -> Vec<Info> {
        let own = (*proc == cx.identity.proc).then_some((cx.identity.uid, cx.identity.gid));
        if let Some((uid, gid)) = self.client(proc).map(|client| (client.uid, client.gid)).or(own) {
            info.retain(|info| info.key != keys::USERID && info.key != keys::GRPID);
            info.extend([Info::new(keys::USERID, uid), Info::new(keys::GRPID, gid)]);
        }
        info
    }

    /// Returns the names of all namespaces, in no order.
    pub fn names(&self) -> Vec<Nspace> {
        self.known.keys().cloned().collect()
    }
}

/// Returns the keys of what a process posts, for those who wait for it.
pub fn awaited_keys(cx: &Ctx, proc: &Proc, entries: &[Posted]) -> Vec<Key> {
    match cx.awaited.has(proc) {
        true => entries.iter().map(|entry| entry.key.clone()).collect(),
        false => Vec::new(),
    }
}

#[cfg(test)]
impl Jobs {
    /// Registers a process that is to come, of a job that may not be registered yet.
    pub fn expect(&mut self, proc: &Proc, uid: u32, gid: u32) {
        let mut test = super::ctx::testing::ctx(super::NoHost);
        let new = || Job::new(&mut test.cx).expect("randomness");
        let job = self.known.entry(proc.nspace.clone()).or_insert_with(new);
        job.clients.insert(proc.rank, Client::expected(uid, gid));
    }

    /// Registers a job of so many processes, some of which run here.
    pub fn add(&mut self, nspace: &Nspace, size: u32, here: &[Rank]) {
        let mut test = super::ctx::testing::ctx(super::NoHost);
        let peers: Vec<String> = here.iter().map(|rank| rank.0.to_string()).collect();
        let info = [Info::new(keys::JOB_SIZE, size), Info::new(keys::LOCAL_PEERS, peers.join(",").as_str())];
        let info =
            crate::store::JobInfo::from_infos(nspace, here.len() as u32, &info, "here").expect("good information");
        let mut job = Job::new(&mut test.cx).expect("randomness");
        job.store = Some(JobStore::create(nspace, info, &Limits::default()).expect("memory"));
        job.clients.extend(here.iter().map(|rank| (*rank, Client::expected(0, 0))));
        job.local_procs = Some(here.len());
        self.known.insert(nspace.clone(), job);
    }
}
