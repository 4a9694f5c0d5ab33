//! What processes post, and look-ups that wait for it.
//!
//! A commit goes into the job's shared memory at once, and wakes whoever waits for it. A look-up that comes here is one that a client
//! could not answer from what it has mapped: the server looks itself, and what is not there yet it waits for, where somebody may
//! still post it. A key of another node's process is fetched through the host (direct modex), once for all who ask at the time.
//!
//! When the process that is asked about dies, or ends after its goodbye, what waits for its keys ends with `ERR_NOT_FOUND`. When the
//! process that asks is gone, its look-ups are forgotten.
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::collective::exchange;
use super::ctx::Done;
use super::ctx::timers::Deadline;
use super::ctx::timers::TimerId;
use super::ctx::timers::time_limit;
use super::router::Router;
use crate::data::{DataArray, Info, Key, Nspace, Proc, Rank, Status, Value, keys};
use crate::message::door::PeerId;
use crate::message::{Posted, Reply};
use crate::store::{Directives, InfoLevel, Miss};
use crate::trace;

/// Where an answer goes.
enum Asker {
    /// To a client.
    Peer(PeerId, u64),
    /// To the program that embeds the server.
    Host(Done<Value>),
}

/// A look-up.
struct Question {
    asker: Asker,
    proc: Proc,
    key: Option<Key>,
    directives: Directives,
    /// Who waits, for the trace.
    who: String,
}

struct Wait {
    question: Question,
    limit: Option<TimerId>,
}

struct DirectModexWait {
    proc: Proc,
    done: Done<Vec<u8>>,
    limit: Option<TimerId>,
}

/// Every look-up under way.
#[derive(Default)]
pub(super) struct Waits {
    /// In the order they came.
    waiting: BTreeMap<u64, Wait>,
    /// Processes that the host is asked about, each by the number of the request.
    fetching: HashMap<Proc, u64>,
    /// What other nodes' servers wait for.
    direct_modex: BTreeMap<u64, DirectModexWait>,
    next: u64,
}

impl Waits {
    fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// What a look-up brings.
enum Found {
    One(Value),
    All(Vec<Info>),
}

impl Router {
    /// Takes in what a client has put.
    pub(super) fn commit(&mut self, peer: PeerId, number: u64, proc: Proc, entries: Vec<Posted>) {
        let result = self.store(&proc, entries);
        self.cx.reply_status(peer, number, result);
    }

    pub(super) fn store(&mut self, proc: &Proc, entries: Vec<Posted>) -> Result<(), Status> {
        use crate::data::Scope;
        let is_bad = |entry: &&Posted| ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL].contains(&entry.scope);
        if let Some(bad) = entries.iter().find(is_bad) {
            trace!("{proc} commits {} with scope {}", bad.key, bad.scope.0);
            return Err(Status::ERR_BAD_PARAM);
        }
        let stored = self.jobs.stored_mut(&proc.nspace).ok_or(Status::ERR_NOT_FOUND)?;
        // Whoever waits is told; who comes later is told by `Stored::failure`.
        let names: Vec<Key> = match self.waits.waiting.is_empty() {
            true => Vec::new(),
            false => entries.iter().map(|entry| entry.key.clone()).collect(),
        };
        if let Err(e) = stored.post(proc.rank, entries) {
            trace!("a commit of {proc} fails: {e}");
            if let Some(holder) = e.held_by().and_then(|page| self.jobs.reader(&proc.nspace, page)) {
                trace!("{holder} holds on to memory of {} and keeps it from being used again", proc.nspace);
            }
            // Whoever waits for these keys waits in vain.
            self.end_gets(e.status(), |question| {
                question.proc == *proc && question.key.as_ref().is_some_and(|key| names.contains(key))
            });
            return Err(e.status());
        }
        self.posted(proc);
        Ok(())
    }

    /// A process has posted something: whoever waits for it is answered.
    pub(super) fn posted(&mut self, proc: &Proc) {
        self.gets_after_post(proc);
        if !self.waits.waiting.is_empty() {
            self.gets_of_hidden_end(proc);
        }
        self.direct_modex_look(proc);
    }

    /// A client looks a key up.
    pub(super) fn get(&mut self, peer: PeerId, number: u64, proc: Proc, key: Option<Key>, info: Vec<Info>) {
        let who = self.cx.peers.get(&peer).map(|entry| entry.proc.to_string()).unwrap_or_default();
        match Directives::parse(&info) {
            Ok(directives) => self.ask(Question { asker: Asker::Peer(peer, number), proc, key, directives, who }),
            Err(status) => self.cx.reply_status(peer, number, Err(status)),
        }
    }

    /// The embedding program looks a key up.
    pub(super) fn get_local(&mut self, proc: Proc, key: Key, info: Vec<Info>, done: Done<Value>) {
        match Directives::parse(&info) {
            Ok(directives) => {
                let (asker, who) = (Asker::Host(done), "the server's program".to_owned());
                self.ask(Question { asker, proc, key: Some(key), directives, who });
            }
            Err(status) => self.cx.finish(done, Err(status)),
        }
    }

    fn ask(&mut self, mut question: Question) {
        if let Some(key) = &question.key {
            question.directives.settle(key.as_bytes());
        }
        if let Some(nspace) = question.directives.nspace.take() {
            question.proc.nspace = nspace;
        }
        let remote = self.jobs.is_remote(&question.proc);
        // What is known of another node's process may be old; asking again is what REFRESH_CACHE is for, unless IMMEDIATE
        // forbids it.
        let Directives { refresh, immediate, .. } = question.directives;
        if !(remote && refresh && !immediate) {
            match self.look(&question) {
                Ok(found) => return self.bring(question.asker, Ok(found)),
                Err(Miss::NotFound) => {}
                Err(miss) => {
                    trace!("a look-up of {} fails: {miss}", question.proc);
                    return self.bring(question.asker, Err(Status::ERR_UNPACK_FAILURE));
                }
            }
        }
        if !self.may_come(&question) {
            return self.bring(question.asker, Err(Status::ERR_NOT_FOUND));
        }
        let stored = self.jobs.stored(&question.proc.nspace);
        let failure =
            stored.zip(question.key.as_ref()).and_then(|(stored, key)| stored.failure(question.proc.rank, key));
        if let Some(status) = failure {
            return self.bring(question.asker, Err(status));
        }
        let limit = match question.directives.timeout {
            Some(seconds) if seconds > 0 => Some(Duration::from_secs(seconds.unsigned_abs().into())),
            Some(_) => None,
            None if remote => None,
            None => Some(self.cx.config.get_patience),
        };
        let proc = question.proc.clone();
        let id = self.waits.next_id();
        let limit = limit.map(|limit| self.cx.set_deadline(limit, Deadline::Get(id)));
        self.waits.waiting.insert(id, Wait { question, limit });
        if remote {
            self.fetch(proc);
        }
    }

    /// Whether somebody may still post what is asked for.
    fn may_come(&self, question: &Question) -> bool {
        let Question { proc, key, directives, .. } = question;
        // Reserved keys come from the host, which has given what it has.
        let reserved = key.as_ref().is_some_and(Key::is_reserved) && !directives.refresh;
        let level = directives.level != InfoLevel::Default;
        if directives.optional || directives.immediate || reserved || level || self.is_hidden(question) {
            return false;
        }
        match proc.rank {
            Rank::UNDEF => key.is_some() && self.jobs.stored(&proc.nspace).is_some(),
            rank if rank.is_process() => {
                self.jobs.stored(&proc.nspace).and_then(|stored| stored.size()).is_none_or(|size| rank.0 < size)
                    && !self.jobs.is_done(proc)
            }
            _ => false,
        }
    }

    /// Whether a process of this node has posted the key, and for other nodes alone.
    fn is_hidden(&self, Question { proc, key, .. }: &Question) -> bool {
        let stored = self.jobs.stored(&proc.nspace).filter(|_| proc.rank.is_process());
        stored.zip(key.as_ref()).is_some_and(|(stored, key)| stored.is_for_others(proc.rank, key))
    }

    /// Whoever waits for what a process turns out to have posted for other nodes alone waits no longer.
    fn gets_of_hidden_end(&mut self, proc: &Proc) {
        let waiting = self.waits.waiting.iter().filter(|(_, wait)| wait.question.proc == *proc);
        let hidden: Vec<u64> = waiting.filter(|(_, wait)| self.is_hidden(&wait.question)).map(|(id, _)| *id).collect();
        for id in hidden {
            self.end_get(id, Err(Status::ERR_NOT_FOUND));
        }
    }

    fn look(&self, question: &Question) -> Result<Found, Miss> {
        let Question { proc, key, directives, .. } = question;
        let stored = self.jobs.stored(&proc.nspace).ok_or(Miss::NotFound)?;
        let asker = match question.asker {
            Asker::Peer(peer, _) => self.cx.peers.get(&peer).map(|entry| &entry.proc),
            Asker::Host(_) => None,
        };
        let asker = asker.filter(|asker| asker.nspace == proc.nspace).map_or(Rank::UNDEF, |asker| asker.rank);
        let get = |key: &Key| stored.get(asker, proc.rank, key, directives);
        match key {
            // Hosts give the ranks; a client that maps them makes the names of them itself.
            Some(key) if *key == keys::LOCAL_PROCS => get(key)
                .or_else(|miss| {
                    let peers = Key::new(keys::LOCAL_PEERS).ok().and_then(|key| get(&key).ok());
                    let names = peers.as_ref().and_then(|peers| DataArray::of_ranks(&proc.nspace, peers.as_str()?));
                    names.map(Value::DataArray).ok_or(miss)
                })
                .map(Found::One),
            // Which process a rank is turns out when it comes, and is not in the job's information.
            Some(key) if *key == keys::PROC_PID => get(key)
                .or_else(|miss| {
                    let client = self.jobs.client(proc).filter(|client| client.pid != 0);
                    client.map(|client| Value::Pid(client.pid)).ok_or(miss)
                })
                .map(Found::One),
            Some(key) => get(key).map(Found::One),
            None => match stored.all(proc.rank)? {
                infos if infos.is_empty() => Err(Miss::NotFound),
                infos => Ok(Found::All(infos)),
            },
        }
    }

    fn bring(&mut self, asker: Asker, result: Result<Found, Status>) {
        match (asker, result) {
            (Asker::Peer(peer, number), Ok(Found::One(value))) => self.cx.reply(peer, number, Reply::Value(value)),
            (Asker::Peer(peer, number), Ok(Found::All(infos))) => {
                self.cx.reply(peer, number, Reply::Infos(Status::SUCCESS, infos));
            }
            (Asker::Peer(peer, number), Err(status)) => self.cx.reply_status(peer, number, Err(status)),
            (Asker::Host(done), Ok(Found::One(value))) => self.cx.finish(done, Ok(value)),
            (Asker::Host(done), Ok(Found::All(infos))) => self.cx.finish(done, Ok(Value::infos(infos))),
            (Asker::Host(done), Err(status)) => self.cx.finish(done, Err(status)),
        }
    }

    /// Asks the host for all that another node's process has posted.
    fn fetch(&mut self, proc: Proc) {
        if self.waits.fetching.contains_key(&proc) {
            return;
        }
        let id = self.waits.next_id();
        self.waits.fetching.insert(proc.clone(), id);
        let key = self.waits.waiting.values().find(|w| w.question.proc == proc).and_then(|w| w.question.key.clone());
        let info: Vec<Info> =
            key.map(|key| Info::new(keys::REQUIRED_KEY, Value::string(key.as_bytes()))).into_iter().collect();
        self.ask_host(|host, done| host.direct_modex(&proc.clone(), &info, done), Vec::new(), {
            let proc = proc.clone();
            move |router, result| router.fetched(&proc, id, result)
        });
    }

    fn fetched(&mut self, proc: &Proc, id: u64, result: Result<Vec<u8>, Status>) {
        if self.waits.fetching.get(proc) != Some(&id) {
            return trace!("the host brings what {proc} has posted when nobody waits for it, or its job is over");
        }
        self.waits.fetching.remove(proc);
        let status = match result {
            Ok(data) => exchange::absorb(&mut self.cx, &mut self.jobs, &data).err().unwrap_or(Status::ERR_NOT_FOUND),
            Err(Status::ERR_NOT_SUPPORTED) => Status::ERR_NOT_FOUND,
            Err(status) => {
                trace!("the host cannot fetch what {proc} has posted: {status}");
                status
            }
        };
        // What was found has been answered by now: the process has posted, and the rest is not among it.
        self.gets_refreshed(proc);
        self.end_gets(status, |question| question.proc == *proc);
    }

    /// The newest of a process is here: what waited for that is answered too.
    fn gets_refreshed(&mut self, proc: &Proc) {
        for wait in self.waits.waiting.values_mut().filter(|wait| wait.question.proc == *proc) {
            wait.question.directives.refresh = false;
        }
        self.gets_after_post(proc);
    }

    /// A process has posted something: looks again for whoever waits for it.
    pub(super) fn gets_after_post(&mut self, proc: &Proc) {
        self.look_again(|question| {
            question.proc.nspace == proc.nspace && [proc.rank, Rank::UNDEF].contains(&question.proc.rank)
        });
    }

    /// A namespace has new information.
    pub(super) fn gets_look_again(&mut self, nspace: &Nspace) {
        self.look_again(|question| question.proc.nspace == *nspace);
        let waiting = self.waits.direct_modex.values().map(|wait| wait.proc.clone());
        for proc in waiting.filter(|proc| proc.nspace == *nspace).collect::<HashSet<_>>() {
            self.direct_modex_look(&proc);
        }
    }

    fn look_again(&mut self, wanted: impl Fn(&Question) -> bool) {
        let found: Vec<(u64, Found)> = self
            .waits
            .waiting
            .iter()
            .filter(|(_, wait)| wanted(&wait.question))
            .filter(|(_, wait)| !(wait.question.directives.refresh && self.jobs.is_remote(&wait.question.proc)))
            .filter_map(|(id, wait)| Some((*id, self.look(&wait.question).ok()?)))
            .collect();
        for (id, found) in found {
            self.end_get(id, Ok(found));
        }
    }

    fn end_get(&mut self, id: u64, result: Result<Found, Status>) {
        let Some(Wait { question, limit }) = self.waits.waiting.remove(&id) else { return };
        self.cx.timers.cancel(limit);
        self.bring(question.asker, result);
    }

    fn end_gets(&mut self, status: Status, which: impl Fn(&Question) -> bool) {
        let ids: Vec<u64> =
            self.waits.waiting.iter().filter(|(_, wait)| which(&wait.question)).map(|(id, _)| *id).collect();
        for id in ids {
            self.end_get(id, Err(status));
        }
    }

    pub(super) fn get_expired(&mut self, id: u64) {
        if let Some(Wait { question, .. }) = self.waits.waiting.get(&id) {
            let key = question.key.as_ref().map_or("anything".to_owned(), |key| format!("{key:?}"));
            trace!("{} has waited in vain for {} to post {key}", question.who, question.proc);
        }
        self.end_get(id, Err(Status::ERR_TIMEOUT));
    }

    /// A process that may have been asked about will post nothing any more.
    pub(super) fn gets_from_end(&mut self, proc: &Proc) {
        self.end_gets(Status::ERR_NOT_FOUND, |question| question.proc == *proc);
        self.end_direct_modex(Status::ERR_NOT_FOUND, |wanted| wanted == proc);
    }

    /// A peer that may have asked is gone.
    pub(super) fn gets_of_peer_end(&mut self, peer: PeerId) {
        let asked = |wait: &Wait| matches!(wait.question.asker, Asker::Peer(asker, _) if asker == peer);
        let gone = take_where(&mut self.waits.waiting, asked);
        if !gone.is_empty() && !self.waits.fetching.is_empty() {
            // What the host has not answered for those that are gone it may never answer: it is asked anew for who comes next.
            let wanted: HashSet<Proc> = self.waits.waiting.values().map(|wait| wait.question.proc.clone()).collect();
            self.waits.fetching.retain(|proc, _| wanted.contains(proc));
        }
        gone.into_iter().for_each(|wait| self.cx.timers.cancel(wait.limit));
    }

    /// A namespace is deregistered.
    pub(super) fn gets_of_job_end(&mut self, nspace: &Nspace) {
        self.waits.fetching.retain(|proc, _| proc.nspace != *nspace);
        self.end_gets(Status::ERR_NOT_FOUND, |question| question.proc.nspace == *nspace);
        self.end_direct_modex(Status::ERR_NOT_FOUND, |wanted| wanted.nspace == *nspace);
    }

    /// The server ends, and with it whatever still waits.
    pub(super) fn gets_end(&mut self) {
        self.end_gets(Status::ERR_INIT, |_| true);
        self.end_direct_modex(Status::ERR_INIT, |_| true);
    }

    /// Another node's server asks for what a process here has posted; the answer waits until there is something. A namespace
    /// that is not registered here may be soon: that node was quicker. One that was, and is over, will not be.
    pub(super) fn dmodex_request(&mut self, proc: Proc, info: &[Info], done: Done<Vec<u8>>) {
        if self.jobs.is_over(&proc.nspace) {
            trace!("another node asks for what {proc} had posted in a job that is over");
            return self.cx.finish(done, Err(Status::ERR_NOT_FOUND));
        }
        let limit = time_limit(info).flatten();
        let limit = match self.jobs.stored(&proc.nspace) {
            Some(_) => limit,
            None => Some(self.cx.config.host_answer_deadline.min(limit.unwrap_or(Duration::MAX))),
        };
        let id = self.waits.next_id();
        let limit = limit.map(|limit| self.cx.set_deadline(limit, Deadline::DirectModex(id)));
        self.waits.direct_modex.insert(id, DirectModexWait { proc: proc.clone(), done, limit });
        self.direct_modex_look(&proc);
    }

    /// Answers other nodes' servers about a process as far as that can be done now.
    fn direct_modex_look(&mut self, proc: &Proc) {
        if self.waits.direct_modex.values().all(|wait| wait.proc != *proc) {
            return;
        }
        let Some(stored) = self.jobs.stored(&proc.nspace) else { return };
        let remote = self.jobs.is_remote(proc);
        if !remote && stored.has_posted(proc.rank) {
            let blob = exchange::posted_blob(&self.cx, &self.jobs, proc);
            for wait in take_where(&mut self.waits.direct_modex, |wait| wait.proc == *proc) {
                self.cx.timers.cancel(wait.limit);
                self.cx.finish(wait.done, blob.clone());
            }
        } else if remote || self.jobs.is_done(proc) {
            trace!("another node asks for what {proc} has posted, which does not run here any more, or never has");
            self.end_direct_modex(Status::ERR_NOT_FOUND, |wanted| wanted == proc);
        }
    }

    fn end_direct_modex(&mut self, status: Status, which: impl Fn(&Proc) -> bool) {
        for wait in take_where(&mut self.waits.direct_modex, |wait| which(&wait.proc)) {
            self.cx.timers.cancel(wait.limit);
            self.cx.finish(wait.done, Err(status));
        }
    }

    pub(super) fn dmodex_expired(&mut self, id: u64) {
        if let Some(wait) = self.waits.direct_modex.remove(&id) {
            trace!("another node has waited in vain for {} to post", wait.proc);
            self.cx.finish(wait.done, Err(Status::ERR_TIMEOUT));
        }
    }
}

/// Takes what `which` picks out of a map.
fn take_where<T>(map: &mut BTreeMap<u64, T>, which: impl Fn(&T) -> bool) -> Vec<T> {
    let ids: Vec<u64> = map.iter().filter(|(_, item)| which(item)).map(|(id, _)| *id).collect();
    ids.iter().filter_map(|id| map.remove(id)).collect()
}
