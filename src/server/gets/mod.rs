//! Pending gets: look-ups that wait for what processes post.
//!
//! A look-up that comes here is one that a client could not answer from what it has mapped: the server looks itself,
//! and what is not there yet it waits for, where somebody may still post it. A key of another node's process is fetched
//! through the host (direct modex), once for all who ask at the time; one that no rank is named for is fetched from each
//! process of the job on other nodes, unless those are many. Where the host keeps what others post, such a key is the
//! host's to find: its value goes to who has asked, and is stored nowhere, as it has no name.
//!
//! When the process that is asked about dies, or ends after its goodbye, what waits for its keys ends with
//! `ERR_NOT_FOUND`. When the process that asks is gone, its look-ups are forgotten. Where an event is about many, it
//! goes through them in [slices](sweeps).
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::collective::exchange::{self, Said};
use super::ctx::peers::Caller;
use super::ctx::ticket::Ticket;
use super::ctx::timers::{Deadline, TimerId};
use super::ctx::{Ctx, Done};
use super::jobs::Jobs;
use crate::by_number::ByNumber;
use crate::collect_small::collect_small;
use crate::data::{Info, Key, Nspace, Proc, Rank, Status, Value, keys};
use crate::message::door::PeerId;
use crate::store::{Directives, Miss};
use crate::trace;

pub mod blob;
mod direct_modex;
mod fetches;
mod question;
mod sweeps;
#[cfg(test)]
mod tests;

use direct_modex::DirectModex;
use fetches::Fetches;
use question::{Asker, Found, Question};
use sweeps::{Act, Sweeps};

/// Most processes of a job of which those on other nodes are asked for a key that no rank is named for.
const MOST_ASKED: u32 = 1024;

/// Time at which the host is to bring what another node's process has posted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Until {
    /// Now, be it nothing.
    Now,
    /// As soon as the process has posted anything.
    Posted,
    /// As soon as it has posted this key, or when so many seconds are over; 0 for never.
    Key(Key, i32),
}

/// A question that waits.
struct Wait {
    question: Question,
    deadline: Option<TimerId>,
}

/// Numbers of the look-ups that wait for each key of a process, or for anything of it.
type ByKey = BTreeMap<Option<Key>, BTreeSet<u64>>;
/// Look-ups of each process.
type ByProc = BTreeMap<Proc, ByKey>;

/// Every look-up under way.
#[derive(Default)]
pub struct Gets {
    /// By number, in the order they came.
    waiting: ByNumber<u64, Wait>,
    by_proc: ByProc,
    by_peer: BTreeMap<PeerId, BTreeSet<u64>>,
    sweeps: Sweeps,
    fetches: Fetches,
    /// Number of the last question or request.
    last: u64,
    pub direct_modex: DirectModex,
}

impl Gets {
    /// A client looks a key up.
    pub fn get(&mut self, cx: &mut Ctx, jobs: &Jobs, caller: Caller, proc: Proc, key: Option<Key>, info: &[Info]) {
        match Directives::parse(info) {
            Ok(directives) => self.ask(cx, jobs, Question::new(Asker::Peer(caller), proc, key, directives)),
            Err(status) => cx.answer_status(caller, Err(status)),
        }
    }

    /// The embedding program looks a key up.
    pub fn get_for_program(
        &mut self,
        cx: &mut Ctx,
        jobs: &Jobs,
        proc: Proc,
        key: Key,
        info: &[Info],
        done: Done<Value>,
    ) {
        match Directives::parse(info) {
            Ok(directives) => self.ask(cx, jobs, Question::new(Asker::Program(done), proc, Some(key), directives)),
            Err(status) => cx.finish(done, Err(status)),
        }
    }

    fn ask(&mut self, cx: &mut Ctx, jobs: &Jobs, question: Question) {
        let question = question.about_the_known(cx, jobs);
        if !question.wants_newer(jobs) || question.directives.immediate {
            match question.look(cx, jobs) {
                Ok(found) => return question.asker.answer(cx, Ok(found)),
                Err(Miss::NotFound) => {}
                Err(Miss::Busy) => {
                    trace!("{} has posted more than one answer brings", question.proc);
                    return question.asker.answer(cx, Err(Status::ERR_OUT_OF_RESOURCE));
                }
                Err(miss) => {
                    trace!("a look-up of {} fails: {miss}", question.proc);
                    return question.asker.answer(cx, Err(Status::ERR_UNPACK_FAILURE));
                }
            }
        }
        if !question.may_come(jobs) {
            return question.asker.answer(cx, Err(Status::ERR_NOT_FOUND));
        }
        if let Some(status) = question.failure(jobs) {
            return question.asker.answer(cx, Err(status));
        }
        let unnamed = jobs.is_unnamed_elsewhere(&question.proc);
        let remote = jobs.is_remote(&question.proc) || jobs.is_unheard_of(&question.proc);
        let limit = match question.directives.timeout {
            Some(seconds) if seconds > 0 => Some(Duration::from_secs(seconds.unsigned_abs().into())),
            Some(_) => None,
            None if remote || unnamed => None,
            None => Some(cx.config.get_patience),
        };
        self.last += 1;
        let deadline = limit.map(|limit| cx.set_deadline(limit, Deadline::Get(self.last)));
        let (proc, key, hints) = (question.proc.clone(), question.key.clone(), question.directives.rest.clone());
        let until = if question.is_at_once() { Until::Now } else { Until::Posted };
        let by = question.asker.proc(cx);
        self.add(cx, self.last, Wait { question, deadline });
        if unnamed {
            let number = self.last;
            ask_host(cx, proc, key, &until, hints, move |result| Ticket::Unnamed(number, result));
        } else if remote {
            self.fetch(cx, by.as_ref(), proc, (key, until, hints));
        } else if proc.rank == Rank::UNDEF {
            let others = jobs.elsewhere(&proc.nspace, MOST_ASKED);
            for other in others {
                self.fetch(cx, by.as_ref(), other, (key.clone(), until.clone(), hints.clone()));
            }
        }
    }

    /// Lets a question wait.
    fn add(&mut self, cx: &mut Ctx, number: u64, wait: Wait) {
        let Question { asker, proc, key, .. } = &wait.question;
        cx.awaited.add(proc);
        self.by_proc.entry(proc.clone()).or_default().entry(key.clone()).or_default().insert(number);
        if let Asker::Peer(caller) = asker {
            self.by_peer.entry(caller.peer).or_default().insert(number);
        }
        self.waiting.insert(number, wait);
    }

    /// The look-ups of peers that wait, each with the process that it is about.
    pub fn waits(&self) -> impl Iterator<Item = (Caller, &Proc)> {
        self.waiting.values().filter_map(|Wait { question, .. }| match &question.asker {
            Asker::Peer(caller) => Some((*caller, &question.proc)),
            Asker::Program(_) => None,
        })
    }

    /// The peers that wait for something of a process.
    pub fn askers(&self, proc: &Proc) -> Vec<PeerId> {
        let waits = self.by_proc.get(proc).into_iter().flat_map(BTreeMap::values).flatten();
        let asker = |number| match self.waiting.get(number)?.question.asker {
            Asker::Peer(caller) => Some(caller.peer),
            Asker::Program(_) => None,
        };
        collect_small::<BTreeSet<PeerId>, _>(waits.filter_map(asker)).into_iter().collect()
    }

    /// Takes a question out of everything that leads to it. Nothing runs out for it any more.
    fn take(&mut self, cx: &mut Ctx, number: u64) -> Option<Question> {
        let Wait { question, deadline } = self.waiting.remove(&number)?;
        cx.timers.cancel(deadline);
        let Question { asker, proc, key, .. } = &question;
        cx.awaited.remove(proc);
        if let Some(by_key) = self.by_proc.get_mut(proc) {
            forget(by_key, key, number);
            if by_key.is_empty() {
                self.by_proc.remove(proc);
                self.fetches.nobody_waits(cx, proc);
            }
        }
        if let Asker::Peer(caller) = asker {
            forget(&mut self.by_peer, &caller.peer, number);
        }
        Some(question)
    }

    /// Asks the host for all that another node's process has posted, unless it is asked already, or for that later where
    /// the asker has it wait for several keys of that process.
    fn fetch(
        &mut self,
        cx: &mut Ctx,
        by: Option<&Proc>,
        proc: Proc,
        (key, until, hints): (Option<Key>, Until, Vec<Info>),
    ) {
        if self.fetches.is_under_way(&proc, &until) {
            return;
        }
        self.last += 1;
        let number = self.last;
        if !self.fetches.begin(number, by, &proc, &until) {
            return self.fetches.ask_again(cx, &proc, number);
        }
        ask_host(cx, proc.clone(), key, &until, hints, move |result| Ticket::DirectModex(proc, number, result));
    }

    /// The host has found what a look-up without a rank asks for, or not.
    pub fn unnamed(&mut self, cx: &mut Ctx, number: u64, result: Result<Vec<u8>, Status>) {
        let Some(Wait { question, .. }) = self.waiting.get(&number) else { return };
        let found = result.and_then(|row| exchange::others(&exchange::sender(cx), &row)).and_then(|others| {
            let entries = others.ranks.into_iter().flat_map(|(_, of)| of.entries);
            let mut values = entries.filter(|entry| question.key.as_ref() == Some(&entry.key)).map(|entry| entry.value);
            values.next().map(Found::One).ok_or(Status::ERR_NOT_FOUND)
        });
        self.end_one(cx, number, found);
    }

    /// The host has brought all that another node's process has posted, which is taken in, or not. A key that is not there now is not
    /// among it.
    pub fn fetched(&mut self, cx: &mut Ctx, jobs: &mut Jobs, proc: &Proc, number: u64, result: Result<Said, Status>) {
        let Some(until) = self.fetches.end(number) else {
            return trace!("the host brings what {proc} has posted when nobody waits for it, or its job is over");
        };
        let failed = match result {
            Ok(said) => said.check().err(),
            Err(Status::ERR_NOT_SUPPORTED) => Some(Status::ERR_NOT_FOUND),
            Err(status) => {
                trace!("the host cannot fetch what {proc} has posted: {status}");
                Some(status)
            }
        };
        self.sweeps.of_proc(proc.clone(), self.last, Act::Fetched { failed, until, asked: number });
        self.sweeps.of_proc(any_of(proc), self.last, Act::Look);
        self.sweep(cx, jobs);
    }

    /// A process is asked for again, for those who wait for more keys of it than the host does.
    pub fn fetch_again(&mut self, cx: &mut Ctx, number: u64) {
        let Some(proc) = self.fetches.is_due(number) else { return };
        let waits = self.by_proc.get(&proc).into_iter().flat_map(BTreeMap::values).flatten();
        let Some(Wait { question, .. }) = waits.filter_map(|number| self.waiting.get(number)).next() else { return };
        let (key, hints) = (question.key.clone(), question.directives.rest.clone());
        self.fetch(cx, None, proc, (key, Until::Posted, hints));
    }

    /// A process has posted something under these keys, or a commit of it has failed: looks again for whoever waits for
    /// it.
    pub fn posted(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc, keys: &[Key]) {
        for of in [proc.clone(), any_of(proc)] {
            let Some(by_key) = self.by_proc.get(&of) else { continue };
            let posted = std::iter::once(None).chain(keys.iter().cloned().map(Some));
            for key in posted.filter(|key| by_key.contains_key(key)) {
                self.sweeps.posted(&of, key, proc);
            }
        }
        self.sweep(cx, jobs);
        self.direct_modex.posted(cx, proc, keys);
        self.direct_modex.look(cx, jobs, proc);
    }

    /// A namespace has new information.
    pub fn job_registered(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        self.sweeps.of_job(nspace.clone(), self.last, Act::Look);
        self.sweep(cx, jobs);
        self.direct_modex.look_at_job(cx, jobs, nspace);
    }

    /// Ends a look-up with its answer, unless its peer is gone.
    fn end_one(&mut self, cx: &mut Ctx, number: u64, result: Result<Found, Status>) {
        let is_gone = |question: &Question| match &question.asker {
            Asker::Peer(caller) => !self.by_peer.contains_key(&caller.peer),
            Asker::Program(_) => false,
        };
        match self.waiting.get(&number).is_some_and(|wait| is_gone(&wait.question)) {
            true => self.forget_one(cx, number),
            false => {
                if let Some(question) = self.take(cx, number) {
                    question.asker.answer(cx, result);
                }
            }
        }
    }

    /// The time limit of a look-up has run out.
    pub fn expired(&mut self, cx: &mut Ctx, number: u64) {
        if let Some(Wait { question, .. }) = self.waiting.get(&number) {
            let key = question.key.as_ref().map_or("anything".to_owned(), |key| format!("{key:?}"));
            trace!("{} has waited in vain for {} to post {key}", question.asker.name(cx), question.proc);
        }
        self.end_one(cx, number, Err(Status::ERR_TIMEOUT));
    }

    /// A process that may have been asked about will post nothing any more.
    pub fn process_gone(&mut self, cx: &mut Ctx, jobs: &Jobs, proc: &Proc) {
        self.sweeps.of_proc(proc.clone(), self.last, Act::End(Status::ERR_NOT_FOUND));
        self.sweep(cx, jobs);
        self.direct_modex.process_gone(cx, proc);
    }

    /// A peer that may have asked is gone.
    pub fn peer_over(&mut self, cx: &mut Ctx, jobs: &Jobs, peer: PeerId) {
        let Some(numbers) = self.by_peer.remove(&peer) else { return };
        let first = numbers.first().and_then(|number| self.waiting.get(number));
        if let Some(nspace) = first.map(|wait| wait.question.proc.nspace.clone()) {
            self.sweeps.forget(nspace, numbers);
            self.sweep(cx, jobs);
        }
    }

    /// Forgets a look-up of a peer that is gone.
    fn forget_one(&mut self, cx: &mut Ctx, number: u64) {
        let Some(Question { proc, .. }) = self.take(cx, number) else { return };
        // The host may never answer what it was asked for peers that are gone: it is asked anew for the next one.
        if !self.by_proc.contains_key(&proc) {
            self.fetches.forget(|of| *of == proc);
        }
    }

    /// A namespace is deregistered.
    pub fn job_over(&mut self, cx: &mut Ctx, jobs: &Jobs, nspace: &Nspace) {
        self.fetches.forget(|of| of.nspace == *nspace);
        self.sweeps.of_job(nspace.clone(), self.last, Act::End(Status::ERR_NOT_FOUND));
        self.sweep(cx, jobs);
        self.direct_modex.end_job(cx, &Err(Status::ERR_NOT_FOUND), nspace);
    }

    /// Returns the number of look-ups that are known in any way.
    pub fn open(&self) -> usize {
        let indexed = self.by_proc.len() + self.by_peer.len() + self.fetches.len() + self.sweeps.len();
        self.waiting.len() + indexed + self.direct_modex.open()
    }

    /// The server ends, and with it whatever still waits.
    pub fn server_over(&mut self, cx: &mut Ctx) {
        for number in self.waiting.iter().map(|(number, _)| number).collect::<Vec<_>>() {
            self.end_one(cx, number, Err(Status::ERR_INIT));
        }
        self.direct_modex.end_everything(cx, &Err(Status::ERR_INIT));
    }
}

/// Asks the host for what a process has posted, above all for a key.
fn ask_host(
    cx: &mut Ctx,
    proc: Proc,
    key: Option<Key>,
    until: &Until,
    hints: Vec<Info>,
    ticket: impl FnOnce(Result<Vec<u8>, Status>) -> Ticket + Send + 'static,
) {
    let required = key.map(|key| Info::new(keys::REQUIRED_KEY, Value::string(key.as_bytes())));
    let until = match until {
        Until::Now => Some(Info::new(keys::IMMEDIATE, true)),
        Until::Posted => None,
        Until::Key(_, seconds) => Some(Info::new(keys::TIMEOUT, *seconds)),
    };
    let info: Vec<Info> = required.into_iter().chain(until).chain(hints).collect();
    cx.ask_host(|host, done| host.direct_modex(&proc, &info, done), Vec::new(), ticket);
}

/// Any process of a namespace.
fn any_of(proc: &Proc) -> Proc {
    Proc::new(proc.nspace.clone(), Rank::UNDEF)
}

/// Takes a number out of an index.
fn forget<K: Ord>(index: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    if let Some(numbers) = index.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            index.remove(key);
        }
    }
}
