//! Get: where a key is answered.
//!
//! In this order: what the process stored internally; its own Puts; the job's shared memory; and only then the server, which
//! is first asked for segments that are not mapped yet, and last for the value itself. The server can wait for a key that is
//! not posted yet; nothing here does. Of a reserved key the host's word in shared memory comes before a Put, and a Put before what
//! the process knows by itself.
use std::sync::Arc;

use instanton_layout::hash::same;
use instanton_layout::record::Query;

use crate::data::{DataArray, Info, Key, Nspace, Proc, Rank, Status, Value, keys};
use crate::message::{Reply, Request};
use crate::store::{Guard, JobReader, Lookup, Miss, PinError, RawValue, ReadError};
use crate::sys::cell::Epoch;
use crate::trace;

use super::connection::Answer;
use super::{Client, Directives, Error, Inner, Scale};

/// A value where it lies: in shared memory, or in this process.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Found<'a> {
    /// In this process: put or stored by itself, or answered by the server.
    Own(&'a Value),
    /// In shared memory. It may be replaced while one looks at it; see [`Client::get_with`].
    Shared(&'a RawValue<'a>),
}

impl Found<'_> {
    /// The value itself.
    ///
    /// # Errors
    /// When bytes in shared memory are no value.
    pub fn to_value(&self) -> Result<Value, ReadError> {
        match self {
            Found::Own(value) => Ok((*value).clone()),
            Found::Shared(raw) => raw.to_value(),
        }
    }
}

/// The release that the C headers agree with, as `PMIX_VERSION_NUMERIC` gives it; the text that names the version says the same.
/// Hosts refuse a library that is older than what they were built for.
const VERSION: u32 = 0x0006_0100;

/// A question, borrowed from the caller.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) nspace: &'a [u8],
    /// Whether that is the process's own.
    pub(super) own: bool,
    pub(super) rank: Rank,
    /// The key, and its hash.
    pub(super) query: Query<'a>,
    pub(super) directives: &'a Directives,
}

/// What to do next.
pub(super) enum Step {
    /// Nothing: the value was shown.
    Shown,
    /// Nobody has it, and asking would not change that.
    Absent(Status),
    /// Map more of this job first.
    Map,
    /// Ask the server.
    Ask,
}

/// What is shown a value where it lies. One type for all that ask: what leads to a value is long, and there once.
type Show<'a> = &'a mut dyn FnMut(Found<'_>);

impl Question<'_> {
    fn is_reserved(&self) -> bool {
        keys::is_reserved(self.query.key())
    }

    /// Without a level, and whatever of: a process's own values are at no other.
    fn is_default(&self) -> bool {
        self.directives.scale == Scale::Default
    }
}

fn shown(f: Show<'_>, value: &Value) -> Step {
    f(Found::Own(value));
    Step::Shown
}

/// What is at hand of an answer that nobody waits for.
enum Answered {
    Told(Result<Value, Error>),
    Map,
    Ask,
}

/// A question that outlives the call. Without a key it asks for everything known of the process.
struct Asked {
    proc: Proc,
    key: Option<Key>,
    directives: Directives,
}

impl Client {
    /// Looks a key up (`PMIx_Get`). An empty namespace is the process's own.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`, `ERR_TIMEOUT`, ... by rules of the Standard; [`Error::WouldBlock`] where a callback would have to wait.
    pub fn get(&self, proc: &Proc, key: impl AsRef<[u8]>, info: &[Info]) -> Result<Value, Error> {
        let mut directives = Directives::parse(info)?;
        let qualified = directives.qualify(key.as_ref())?;
        let key = qualified.as_ref().map_or(key.as_ref(), Key::as_bytes);
        self.get_with(proc.nspace.as_bytes(), proc.rank, key, &directives, |found| found.to_value())?
            .map_err(Error::from)
    }

    /// Looks a key up (`PMIx_Get_nb`) and calls `done` with the value.
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn get_nb(
        &self,
        proc: &Proc,
        key: impl AsRef<[u8]>,
        info: &[Info],
        done: impl FnOnce(Result<Value, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let mut directives = Directives::parse(info)?;
        let qualified = directives.qualify(key.as_ref())?;
        let key = qualified.as_ref().map_or(key.as_ref(), Key::as_bytes);
        self.inner.get_nb(proc, Some(key), directives, done)
    }

    /// Returns everything known of a process, as an array of attributes (`PMIx_Get` without a key).
    ///
    /// # Errors
    /// As [`get`](Client::get).
    pub fn get_all(&self, proc: &Proc, info: &[Info]) -> Result<Value, Error> {
        self.wait("PMIx_Get", |done| self.get_all_nb(proc, info, done))
    }

    /// Calls `done` with everything known of a process (`PMIx_Get_nb` without a key).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn get_all_nb(
        &self,
        proc: &Proc,
        info: &[Info],
        done: impl FnOnce(Result<Value, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.inner.get_nb(proc, None, Directives::parse(info)?, done)
    }

    /// The whole of a blocking Get, with `f` called on the value where it lies instead of a copy: [`peek`](Client::peek), and the
    /// server's answer where that has none.
    ///
    /// # Errors
    /// As [`get`](Client::get).
    #[inline]
    pub fn get_with<T>(
        &self,
        nspace: &[u8],
        rank: Rank,
        key: &[u8],
        directives: &Directives,
        mut f: impl FnMut(Found<'_>) -> T,
    ) -> Result<T, Error> {
        if let Some(answer) = self.peek(&Epoch::enter(), nspace, rank, key, directives, &mut f) {
            return answer;
        }
        let (nspace, _) = self.inner.effective(nspace, directives);
        let proc = Proc::new(Nspace::new(nspace).map_err(|_| Status::ERR_BAD_PARAM)?, rank);
        let directives = Directives { nspace: None, ..directives.clone() };
        let value = self.wait("PMIx_Get", |then| self.inner.get_nb(&proc, Some(key), directives, then))?;
        Ok(f(Found::Own(&value)))
    }

    /// The part of a Get that needs nobody else; nothing where the server has to be asked. Makes no system call, takes no lock and
    /// allocates nothing. The caller is in an epoch, which it must leave before it waits for anything. `f` is called again when the
    /// value changed meanwhile: only its last result counts, and what it saw before may have been no value at all.
    ///
    /// # Errors
    /// As [`get`](Client::get).
    #[inline]
    pub fn peek<T>(
        &self,
        epoch: &Epoch,
        nspace: &[u8],
        rank: Rank,
        key: &[u8],
        directives: &Directives,
        mut f: impl FnMut(Found<'_>) -> T,
    ) -> Option<Result<T, Error>> {
        if let Err(error) = self.inner.life.check() {
            return Some(Err(error));
        }
        let (nspace, own) = self.inner.effective(nspace, directives);
        let query = Query::new(key);
        if own && let Some(known) = self.inner.recall(epoch, rank, &query, directives) {
            return Some(Ok(f(Found::Shared(&known))));
        }
        let question = Question { nspace, own, rank, query, directives };
        let mut last = None;
        match self.inner.resolve(epoch, &question, &mut |found| last = Some(f(found))) {
            Step::Shown => last.map(Ok),
            Step::Absent(status) => Some(Err(status.into())),
            Step::Map | Step::Ask => None,
        }
    }

    /// A [`Guard`] on the own job's shared memory: what is looked up through it is not copied. Values that this process knows by itself,
    /// segments that are not mapped and keys that are not posted yet are for [`get`](Client::get) to find.
    ///
    /// # Errors
    /// When the job is not mapped, or this thread can have no guard.
    pub fn pin(&self) -> Result<Guard<'_>, PinError> {
        self.inner.life.check().map_err(|_| PinError::Foreign)?;
        self.inner.jobs.own().ok_or(PinError::NoPage)?.pin()
    }
}

impl Inner {
    /// The namespace that is meant, and whether it is the own one: so is an empty one, and attributes can name another.
    #[inline]
    pub(super) fn effective<'a>(&'a self, nspace: &'a [u8], directives: &'a Directives) -> (&'a [u8], bool) {
        let own = self.proc.nspace.as_bytes();
        match &directives.nspace {
            None if nspace.is_empty() || same(nspace, own) => (own, true),
            None => (nspace, false),
            Some(named) if named.as_bytes() == own || self.is_own_job_id(named.as_bytes()) => (own, true),
            Some(named) => (named.as_bytes(), false),
        }
    }

    /// The host may call the job otherwise than its namespace.
    fn is_own_job_id(&self, name: &[u8]) -> bool {
        let Some(reader) = self.jobs.own() else { return false };
        let id = reader.get(&Lookup::new(Rank::WILDCARD, keys::JOBID));
        id.is_ok_and(|id| id.as_bytes() == Some(name))
    }

    /// What this process has asked of its own job before. Nearly all that programs ask again and again is found here, and nothing else
    /// is looked at then.
    #[inline(always)]
    fn recall<'a>(
        &'a self,
        epoch: &'a Epoch,
        rank: Rank,
        query: &Query<'_>,
        directives: &Directives,
    ) -> Option<RawValue<'a>> {
        let Proc { nspace, rank: me } = &*self.proc;
        let may_be_known = rank == *me || !rank.is_process();
        if !may_be_known || directives.refresh || !keys::is_reserved(query.key()) {
            return None;
        }
        if directives.scale == Scale::Default && self.stored(epoch, (nspace.as_bytes(), rank), query).is_some() {
            return None;
        }
        self.jobs.own()?.recall(epoch, &directives.lookup(*me, rank, query.key()), query)
    }

    /// What this process has stored for itself alone.
    #[inline(always)]
    fn stored<'a>(&'a self, epoch: &'a Epoch, of: (&[u8], Rank), query: &Query<'_>) -> Option<&'a Value> {
        if self.own.overlay.is_empty(epoch) { None } else { self.stored_there(epoch, of, query) }
    }

    #[inline(never)]
    fn stored_there<'a>(
        &'a self,
        epoch: &'a Epoch,
        (nspace, rank): (&[u8], Rank),
        query: &Query<'_>,
    ) -> Option<&'a Value> {
        let stored = |rank| self.own.overlay.get(epoch, (nspace, rank), (query.key(), query.hash()), None);
        // What is of no rank in particular is of the job.
        stored(rank).or_else(|| if rank == Rank::UNDEF { stored(Rank::WILDCARD) } else { None })
    }

    /// Looks for an answer at hand. Makes no system call, takes no lock, allocates nothing; except that the first look at what this
    /// process itself has put since its last Commit has copies of it made.
    fn resolve(&self, epoch: &Epoch, question: &Question<'_>, f: Show<'_>) -> Step {
        let Question { nspace, own, rank, ref query, directives } = *question;
        if question.is_default() {
            if let Some(value) = self.stored(epoch, (nspace, rank), query) {
                return shown(f, value);
            }
            if !question.is_reserved()
                && let Some(value) = self.own_put(epoch, question)
            {
                return shown(f, value);
            }
        }
        let Some(reader) = (if own { self.jobs.own() } else { self.jobs.of(nspace) }) else {
            return match self.link.has_server() {
                true if self.jobs.can_map() => self.own_put_or(epoch, question, f, Step::Map),
                true => Step::Ask,
                false => self.own_put_or(epoch, question, f, Step::Absent(Status::ERR_NOT_FOUND)),
            };
        };
        if directives.refresh
            && self.link.has_server()
            && let Some(step) = self.refresh(reader, question)
        {
            return step;
        }
        let asker = if own { self.proc.rank } else { Rank::UNDEF };
        let lookup = directives.lookup(asker, rank, query.key());
        match reader.read_in(epoch, &lookup, query, &mut |raw| f(Found::Shared(raw))) {
            Ok(()) => Step::Shown,
            Err(Miss::NotFound) => self.own_put_or(epoch, question, f, self.absent(question)),
            Err(Miss::Unmapped(_)) => self.map_or_ask(),
            // Replaced too often while it was read: the server reads it in peace.
            Err(Miss::Busy) => Step::Ask,
            Err(Miss::Corrupt(error)) => {
                self.jobs.give_up(format_args!("{} has a damaged segment: {error}", String::from_utf8_lossy(nspace)));
                Step::Ask
            }
        }
    }

    fn map_or_ask(&self) -> Step {
        if self.jobs.can_map() { Step::Map } else { Step::Ask }
    }

    /// What this process has put.
    #[inline]
    fn own_put<'a>(&'a self, epoch: &'a Epoch, question: &Question<'_>) -> Option<&'a Value> {
        // Who looks for what others have waits for no Commit of ours.
        if question.rank == self.proc.rank { self.own_put_there(epoch, question) } else { None }
    }

    #[inline(never)]
    fn own_put_there<'a>(&'a self, epoch: &'a Epoch, question: &Question<'_>) -> Option<&'a Value> {
        let Question { nspace, rank, query, directives, .. } = *question;
        self.posts.own().get(epoch, (nspace, rank), (query.key(), query.hash()), directives.scope)
    }

    /// A reserved key that the host has not given, and this process has put or knows by itself.
    fn own_put_or(&self, epoch: &Epoch, question: &Question<'_>, f: Show<'_>, otherwise: Step) -> Step {
        if !(question.is_default() && question.is_reserved()) {
            return otherwise;
        }
        if let Some(value) = self.own_put(epoch, question) {
            return shown(f, value);
        }
        match self.own_fact(question) {
            Some(value) => shown(f, &value),
            None => otherwise,
        }
    }

    /// What a process knows of itself without having been told by its host: its name, its server's, and the library's version. Without
    /// a rank, what the host gives of a process is meant of the caller as well.
    #[cold]
    fn own_fact(&self, question: &Question<'_>) -> Option<Value> {
        let Question { own, rank, query, .. } = *question;
        let unnamed = own && rank == Rank::UNDEF;
        let of_me = unnamed || own && rank == self.proc.rank;
        let key = std::str::from_utf8(query.key()).ok()?;
        if unnamed && let Some(Ok(given)) = self.jobs.own().map(|reader| reader.get(&Lookup::new(self.proc.rank, key)))
        {
            return Some(given);
        }
        let server = self.server.as_ref().filter(|_| of_me);
        match key {
            // The rank that a process asks for without knowing it.
            keys::RANK if own && rank == Rank::INVALID => Some(Value::ProcRank(self.proc.rank)),
            keys::PROCID if of_me => Some(Value::Proc(Proc::clone(&self.proc))),
            keys::PROC_PID if of_me => Some(Value::Pid(std::process::id() as i32)),
            keys::VERSION_NUMERIC => Some(Value::Uint32(VERSION)),
            keys::SERVER_NSPACE => server.map(|server| Value::string(server.name.nspace.as_bytes())),
            keys::SERVER_RANK => server.map(|server| Value::ProcRank(server.name.rank)),
            keys::SERVER_URI => server.map(|server| Value::string(server.uri.as_bytes())),
            keys::LOCAL_PROCS => self.local_procs(question),
            _ => None,
        }
    }

    /// The processes of a job on a node, as names; hosts give their ranks.
    fn local_procs(&self, question: &Question<'_>) -> Option<Value> {
        let Question { nspace, own, rank, .. } = *question;
        let reader = if own { self.jobs.own() } else { self.jobs.of(nspace) }?;
        let ranks = reader.get(&Lookup::new(rank, keys::LOCAL_PEERS)).ok()?;
        DataArray::of_ranks(&Nspace::new(nspace).ok()?, ranks.as_text()?.as_str()?).map(Value::DataArray)
    }

    /// What has to happen before a Get may answer that wants the newest there is (`PMIX_GET_REFRESH_CACHE`). Of this node's
    /// processes memory shows the newest anyway; another node is asked again, unless nobody is to be asked.
    #[cold]
    fn refresh(&self, reader: &JobReader, question: &Question<'_>) -> Option<Step> {
        let Question { rank, directives, .. } = *question;
        if reader.stale().is_some() {
            return Some(self.map_or_ask());
        }
        let elsewhere = question.is_default() && rank.is_process() && !reader.is_local(rank);
        (elsewhere && !directives.optional && !directives.immediate).then_some(Step::Ask)
    }

    /// Shared memory does not have it, and shows all that the server has.
    ///
    /// So a Get that wants the server's answer without the host's (`PMIX_IMMEDIATE`) has it already: the server looks into the
    /// same segments. Reserved keys and other levels come from the host, which has given what it has; no process's doing
    /// changes them. Only an ordinary key may still be posted, here or on another node, and only the server can wait for it;
    /// and only the server knows whose it is where no rank is named, and which process a rank is (`PMIX_PROC_PID`).
    fn absent(&self, question: &Question<'_>) -> Step {
        let Question { rank, directives, .. } = *question;
        let is_pid = question.query.key() == keys::PROC_PID.as_bytes();
        let settled = !question.is_default() || rank == Rank::WILDCARD || question.is_reserved() && !is_pid;
        let shown = directives.immediate && rank != Rank::UNDEF && !is_pid;
        match directives.optional || shown || settled || !self.link.has_server() {
            true => Step::Absent(Status::ERR_NOT_FOUND),
            false => Step::Ask,
        }
    }

    pub(super) fn get_nb(
        self: &Arc<Self>,
        proc: &Proc,
        key: Option<&[u8]>,
        directives: Directives,
        then: impl FnOnce(Result<Value, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        let (nspace, _) = self.effective(proc.nspace.as_bytes(), &directives);
        let nspace = Nspace::new(nspace).map_err(|_| Status::ERR_BAD_PARAM)?;
        let proc = Proc::new(nspace, proc.rank);
        let proc = self.own.groups.native(&proc).unwrap_or(proc);
        let key = key.map(Key::new).transpose().map_err(|_| Status::ERR_BAD_PARAM)?;
        let asked = Asked { proc, key, directives };
        match self.answer(&asked) {
            Answered::Told(told) => self.link.run_later(move || then(told)),
            Answered::Ask => self.ask(asked, then),
            Answered::Map => {
                let inner = self.clone();
                self.map(asked.proc.nspace.clone(), move || match inner.answer(&asked) {
                    Answered::Told(told) => then(told),
                    Answered::Map | Answered::Ask => inner.ask(asked, then),
                });
            }
        }
        Ok(())
    }

    fn question<'a>(&self, asked: &'a Asked, key: &'a Key) -> Question<'a> {
        let (nspace, key) = (asked.proc.nspace.as_bytes(), key.as_bytes());
        Question {
            nspace,
            own: nspace == self.proc.nspace.as_bytes(),
            rank: asked.proc.rank,
            query: Query::new(key),
            directives: &asked.directives,
        }
    }

    fn answer(&self, asked: &Asked) -> Answered {
        let Some(key) = &asked.key else { return self.answer_all(asked) };
        let mut last = None;
        let copy = &mut |found: Found<'_>| last = found.to_value().ok();
        match self.resolve(&Epoch::enter(), &self.question(asked, key), copy) {
            // Bytes that are no value: the server has another look at them.
            Step::Shown => last.map_or(Answered::Ask, |value| Answered::Told(Ok(value))),
            Step::Absent(status) => Answered::Told(Err(status.into())),
            Step::Map => Answered::Map,
            Step::Ask => Answered::Ask,
        }
    }

    /// Everything known of a process.
    fn answer_all(&self, asked: &Asked) -> Answered {
        let Proc { nspace, rank } = &asked.proc;
        let shared = match self.jobs.of(nspace.as_bytes()) {
            Some(reader) => match reader.all(*rank) {
                Ok(all) => all.into_iter().map(|(key, _, value, _)| Info { key, flags: 0, value }).collect(),
                Err(Miss::Unmapped(_)) if self.jobs.can_map() => return Answered::Map,
                Err(_) => return Answered::Ask,
            },
            None if !self.link.has_server() => Vec::new(),
            None if self.jobs.can_map() => return Answered::Map,
            None => return Answered::Ask,
        };
        match self.with_own(asked, shared) {
            Some(value) => Answered::Told(Ok(value)),
            None if asked.directives.optional || !self.link.has_server() => {
                Answered::Told(Err(Status::ERR_NOT_FOUND.into()))
            }
            None => Answered::Ask,
        }
    }

    /// What others know of a process, and what this one knows by itself, in the order of a Get; none when that is nothing.
    fn with_own(&self, asked: &Asked, known: Vec<Info>) -> Option<Value> {
        let Proc { nspace, rank } = &asked.proc;
        let mut all: Vec<Info> = Vec::new();
        let mut add = |item: Info| {
            if !all.iter().any(|other| other.key == item.key) {
                all.push(item);
            }
        };
        let info = |key: &Key, value: &Value| Info { key: key.clone(), flags: 0, value: value.clone() };
        self.own.overlay.all(nspace.as_bytes(), *rank, None, |key, value| add(info(key, value)));
        let mut reserved = Vec::new();
        self.posts.own().all(nspace.as_bytes(), *rank, asked.directives.scope, |key, value| match key.is_reserved() {
            true => reserved.push(info(key, value)),
            false => add(info(key, value)),
        });
        known.into_iter().chain(reserved).for_each(add);
        (!all.is_empty()).then(|| DataArray::of_info(all).into())
    }

    /// What this process knows by itself, when nobody else knows anything.
    fn own_after_all(&self, asked: &Asked) -> Option<Value> {
        let Some(key) = &asked.key else { return self.with_own(asked, Vec::new()) };
        let question = self.question(asked, key);
        if !(question.is_default() && question.is_reserved()) {
            return None;
        }
        self.own_put(&Epoch::enter(), &question).cloned().or_else(|| self.own_fact(&question))
    }

    fn ask(self: &Arc<Self>, asked: Asked, then: impl FnOnce(Result<Value, Error>) + Send + 'static) {
        let (proc, key, info) = (asked.proc.clone(), asked.key.clone(), asked.directives.to_infos());
        let inner = self.clone();
        let waiter = move |answer: Result<Answer, Error>| {
            then(match answer.map(|answer| answer.reply) {
                Ok(Reply::Value(value)) => Ok(value),
                Ok(Reply::Infos(Status::SUCCESS, infos)) => {
                    inner.with_own(&asked, infos).ok_or(Status::ERR_NOT_FOUND.into())
                }
                Ok(Reply::Done(status) | Reply::Infos(status, _)) if status != Status::SUCCESS => {
                    inner.own_after_all(&asked).ok_or(status.into())
                }
                Ok(_) => Err(Status::ERR_COMM_FAILURE.into()),
                Err(error) => Err(error),
            });
        };
        self.link.follow_up("PMIx_Get", &Request::Get { proc, key, info }, Box::new(waiter));
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        trace!("a value in shared memory cannot be read: {error}");
        Error::Status(Status::ERR_UNPACK_FAILURE)
    }
}
