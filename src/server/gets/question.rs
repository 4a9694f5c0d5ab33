//! Question of a Get that came to the server: what it asks for, and whether that is here or may still come.
use crate::data::{DataArray, Info, Key, Proc, Rank, Scope, Status, Value, keys};
use crate::message::Reply;
use crate::message::door::Making;
use crate::server::ctx::peers::Caller;
use crate::server::ctx::{Ctx, Done};
use crate::server::jobs::Jobs;
use crate::store::{Directives, InfoLevel, Miss};

/// Asker of a Get, which its answer goes to.
pub enum Asker {
    Peer(Caller),
    /// The program that embeds the server.
    Program(Done<Value>),
}

impl Asker {
    /// Gives the answer.
    pub fn answer(self, cx: &mut Ctx, result: Result<Found, Status>) {
        match (self, result) {
            (Asker::Peer(Caller { peer, number }), Ok(Found::One(value))) => {
                cx.reply(peer, number, Reply::Value(value))
            }
            (Asker::Peer(caller), Ok(Found::Long(answer))) => cx.answer_made(caller, answer),
            (Asker::Program(done), Ok(Found::Long(answer))) => {
                let found = match answer.make() {
                    Reply::Value(value) => Ok(value),
                    Reply::Done(status) => Err(status),
                    _ => Err(Status::ERR_NOT_FOUND),
                };
                cx.finish(done, found);
            }
            (Asker::Peer(caller), Ok(Found::All(infos))) => cx.answer(caller, Reply::Infos(Status::SUCCESS, infos)),
            (Asker::Peer(caller), Err(status)) => cx.answer_status(caller, Err(status)),
            (Asker::Program(done), Ok(Found::One(value))) => cx.finish(done, Ok(value)),
            (Asker::Program(done), Ok(Found::All(infos))) => cx.finish(done, Ok(Value::infos(infos))),
            (Asker::Program(done), Err(status)) => cx.finish(done, Err(status)),
        }
    }

    /// Returns the process that asks, unless it is the server's program.
    pub fn proc(&self, cx: &Ctx) -> Option<Proc> {
        match self {
            Asker::Peer(caller) => cx.peers.get(&caller.peer).map(|entry| entry.proc.clone()),
            Asker::Program(_) => None,
        }
    }

    /// Returns the asker's name for the trace.
    pub fn name(&self, cx: &Ctx) -> String {
        match self {
            Asker::Peer(_) => self.proc(cx).map(|proc| proc.to_string()).unwrap_or_default(),
            Asker::Program(_) => "the server's program".to_owned(),
        }
    }
}

/// Values that answer a question.
pub enum Found {
    One(Value),
    All(Vec<Info>),
    /// A value that takes long to copy.
    Long(Making),
}

/// A look-up.
pub struct Question {
    pub asker: Asker,
    pub proc: Proc,
    /// The key; everything of the process, where there is none.
    pub key: Option<Key>,
    pub directives: Directives,
}

impl Question {
    /// Creates the question after the process, key and attributes of a Get.
    pub fn new(asker: Asker, mut proc: Proc, key: Option<Key>, mut directives: Directives) -> Self {
        if let Some(key) = &key {
            directives.settle(key.as_bytes());
        }
        if let Some(nspace) = directives.nspace.take() {
            proc.nspace = nspace;
        }
        Question { asker, proc, key, directives }
    }

    /// A session or a node that is named is the same whatever the process (Standard, 5.1.5): the job of the asker has it
    /// where that of the process is unknown, unless the key is about the processes of a job.
    #[must_use]
    pub fn about_the_known(mut self, cx: &Ctx, jobs: &Jobs) -> Self {
        const OF_JOB: [&str; 5] =
            [keys::LOCAL_SIZE, keys::LOCAL_PEERS, keys::LOCAL_PROCS, keys::LOCAL_CPUSETS, keys::LOCALLDR];
        let Directives { level, session, node, host, .. } = &self.directives;
        let is_named = match level {
            InfoLevel::Session => session.is_some(),
            InfoLevel::Node => node.is_some() || host.is_some(),
            _ => false,
        };
        let is_of_job = || self.key.as_ref().is_none_or(|key| OF_JOB.iter().any(|other| key == other));
        if is_named && jobs.store(&self.proc.nspace).is_none() && !is_of_job() {
            let known = match &self.asker {
                Asker::Peer(caller) => cx.peers.get(&caller.peer).map(|entry| entry.proc.nspace.clone()),
                Asker::Program(_) => jobs.names().into_iter().filter(|name| jobs.store(name).is_some()).min(),
            };
            self.proc = known.map_or(self.proc, |nspace| Proc::new(nspace, Rank::WILDCARD));
        }
        self
    }

    /// Returns whether what is known is too old for it: what is known of another node's process may be, and asking
    /// again is what REFRESH_CACHE is for.
    pub fn wants_newer(&self, jobs: &Jobs) -> bool {
        self.directives.refresh && jobs.is_remote(&self.proc)
    }

    /// Returns whether what is not posted yet is not waited for.
    pub fn is_at_once(&self) -> bool {
        self.directives.immediate || self.key.as_ref().is_some_and(Key::is_reserved)
    }

    /// Returns the key that is waited for whatever else its process has posted, and for how many seconds: the asker has
    /// said so.
    pub fn awaits_key(&self) -> Option<(Key, i32)> {
        let seconds = self.directives.timeout.filter(|_| !self.is_at_once())?;
        Some((self.key.clone()?, seconds))
    }

    /// Returns whether somebody may still post the answer.
    pub fn may_come(&self, jobs: &Jobs) -> bool {
        let Question { proc, key, directives, .. } = self;
        if jobs.is_unheard_of(proc) && directives.scope != Some(Scope::INTERNAL) {
            return !directives.optional;
        }
        // Reserved keys come from the host, which has given what it has.
        let reserved = key.as_ref().is_some_and(Key::is_reserved) && !directives.refresh;
        let level = directives.level != InfoLevel::Default;
        // A host that keeps what others post says at once what there is.
        let is_said = (reserved || directives.immediate)
            && !(jobs.one_client && jobs.is_remote(proc) || jobs.is_unnamed_elsewhere(proc));
        // A value that a process keeps to itself never comes here.
        let is_kept_back = directives.scope == Some(Scope::INTERNAL);
        if directives.optional || is_said || level || is_kept_back || self.is_hidden(jobs) {
            return false;
        }
        match proc.rank {
            Rank::UNDEF => key.is_some() && jobs.store(&proc.nspace).is_some(),
            rank if rank.is_process() => {
                jobs.store(&proc.nspace).and_then(|store| store.size()).is_none_or(|size| rank.0 < size)
                    && !jobs.is_done(proc)
            }
            _ => false,
        }
    }

    /// Returns whether a process of this node has posted the key, and for other nodes alone.
    pub fn is_hidden(&self, jobs: &Jobs) -> bool {
        let store = jobs.store(&self.proc.nspace).filter(|_| self.proc.rank.is_process());
        store.zip(self.key.as_ref()).is_some_and(|(store, key)| store.is_for_others(self.proc.rank, key))
    }

    /// Returns why the key is not stored although the process has committed it.
    pub fn failure(&self, jobs: &Jobs) -> Option<Status> {
        jobs.store(&self.proc.nspace)?.failure(self.proc.rank, self.key.as_ref()?)
    }

    /// Looks the answer up.
    pub fn look(&self, cx: &Ctx, jobs: &Jobs) -> Result<Found, Miss> {
        let Question { asker, proc, key, directives } = self;
        let store = jobs.store(&proc.nspace).ok_or(Miss::NotFound)?;
        let peer = match asker {
            Asker::Peer(caller) => cx.peers.get(&caller.peer),
            Asker::Program(_) => None,
        };
        let of_job = peer.filter(|peer| peer.proc.nspace == proc.nspace);
        let asker = of_job.map_or(Rank::UNDEF, |peer| peer.proc.rank);
        // The data that a process has posted comes together, unless it is more than one answer brings.
        let takes_all = peer.is_some_and(|peer| peer.capabilities.takes_all_posted)
            && proc.rank.is_process()
            && !store.is_much(proc.rank);
        let get = |key: &Key| store.get(asker, proc.rank, key, directives);
        match key {
            // Hosts give the ranks; a client that maps them makes the names of them itself.
            Some(key) if *key == keys::LOCAL_PROCS => get(key)
                .or_else(|miss| {
                    let peers = Key::new(keys::LOCAL_PEERS).ok().and_then(|key| get(&key).ok());
                    let names = peers.as_ref().and_then(|peers| DataArray::of_ranks(&proc.nspace, peers.as_str()?));
                    names.map(Value::DataArray).ok_or(miss)
                })
                .map(Found::One),
            // The pid of a rank turns out when its process comes, and is not in the job's information.
            Some(key) if *key == keys::PROC_PID => get(key)
                .or_else(|miss| {
                    let client = jobs.client(proc).filter(|client| client.pid != 0);
                    client.map(|client| Value::Pid(client.pid)).ok_or(miss)
                })
                .map(Found::One),
            Some(key) if takes_all && !key.is_reserved() => {
                store.posted_beside(asker, proc.rank, key, directives).map(Found::All)
            }
            Some(key) => match store.long_answer(asker, proc.rank, key, directives) {
                Some(answer) => Ok(Found::Long(answer)),
                None => get(key).map(Found::One),
            },
            None if store.is_much(proc.rank) => Err(Miss::Busy),
            None => match store.all(proc.rank, directives.scope)? {
                infos if infos.is_empty() => Err(Miss::NotFound),
                infos => Ok(Found::All(infos)),
            },
        }
    }
}
