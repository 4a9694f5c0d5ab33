//! Get: the order in which a key is looked for.
//!
//! First come the values that the process stored internally, then its own Puts, then the job's shared memory, and only
//! then the server: it is asked first for segments that are not mapped yet, and last for the value itself. The server
//! can wait for a key that is not posted yet; nothing here does. For a reserved key the host's value in shared memory
//! comes before a Put, and a Put before the facts that the process knows by itself.
use std::sync::Arc;
use std::time::Duration;

use instanton_layout::hash::same;

use crate::data::{DataArray, Info, Key, Nspace, Proc, Rank, Scope, Status, Value, keys};
use crate::message::{Reply, Request};
use crate::pending::{Callback, Pending};
use crate::store::{Guard, JobReader, Miss, PinError, RawValue, ReadError};
use crate::sys::cell::Epoch;
use crate::trace;

use super::answer::{Answer, Waiter};
use super::clock::{end_of, given_up};
use super::{Client, Directives, Error, Inner, Question};

/// A value where it lies: in shared memory, or in this process.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Found<'a> {
    /// A value in this process: put or stored by itself, or answered by the server.
    Own(&'a Value),
    /// A value in shared memory. It may be replaced while one looks at it; see [`Client::get_with`].
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

/// Reserved keys of a process that no host need give: which process it is, and the process sets that it is in.
const SERVERS: [&str; 3] = [keys::PROC_PID, keys::PSET_NAME, keys::PSET_NAMES];

/// The next step of a Get.
enum Step {
    /// None: the callback has received the value.
    Shown,
    /// None: nobody has the value, and asking would not change that.
    Absent(Status),
    /// Map more of the job first.
    Map,
    /// Ask the server.
    Ask,
}

/// Callback that receives a borrowed value. One type for all callers: the way to a value is long, and there once.
type Show<'a> = &'a mut dyn FnMut(Found<'_>);

fn shown(f: Show<'_>, value: &Value) -> Step {
    f(Found::Own(value));
    Step::Shown
}

/// The answer of a Get that does not wait, as far as it is at hand.
enum Answered {
    Told(Result<Value, Error>),
    Map,
    Ask,
}

/// How the caller of a Get, or of a fence, receives its result.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// A thread blocks for it.
    Blocked,
    /// By a callback of the program.
    Later,
}

/// A question that outlives the call. Without a key it asks for everything known of the process. The namespace is never
/// empty.
struct OwnedQuestion {
    proc: Proc,
    key: Option<Key>,
    directives: Directives,
}

impl Client {
    /// Looks a key up (`PMIx_Get`). An empty namespace is the process's own.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`, `ERR_TIMEOUT`, ... by rules of the Standard; [`Error::WouldBlock`] where a callback would have
    /// to wait.
    pub fn get(&self, proc: &Proc, key: impl AsRef<[u8]>, info: &[Info]) -> Result<Value, Error> {
        let mut directives = Directives::parse(info)?;
        let qualified = directives.qualify(key.as_ref())?;
        let key = qualified.as_ref().map_or(key.as_ref(), Key::as_bytes);
        let question = Question::new(proc.rank, key).in_nspace(proc.nspace.as_bytes()).with(&directives);
        self.get_with(question, |found| found.to_value())?.map_err(Error::from)
    }

    /// Looks a key up (`PMIx_Get_nb`) as [`get`](Client::get) does, for a caller that does not want to block until the
    /// value is posted.
    ///
    /// # Errors
    /// As [`get`](Client::get).
    pub fn get_pending(&self, proc: &Proc, key: impl AsRef<[u8]>, info: &[Info]) -> Pending<Value, Error> {
        let qualify = |key: &[u8]| -> Result<(Key, Directives), Status> {
            let mut directives = Directives::parse(info)?;
            let key = match directives.qualify(key)? {
                Some(qualified) => qualified,
                None => Key::new(key).map_err(|_| Status::ERR_BAD_PARAM)?,
            };
            Ok((key, directives))
        };
        let (proc, question) = (proc.clone(), qualify(key.as_ref()));
        self.prepare("PMIx_Get", None, move |inner, callback| {
            let (key, directives) = question?;
            inner.get_pending(proc, Some(key), directives, Way::Later, callback)
        })
    }

    /// Looks up everything known of a process, an array of attributes (`PMIx_Get` without a key).
    ///
    /// # Errors
    /// As [`get`](Client::get).
    pub fn get_all(&self, proc: &Proc, info: &[Info]) -> Pending<Value, Error> {
        let (proc, directives) = (proc.clone(), Directives::parse(info));
        self.prepare("PMIx_Get", None, move |inner, callback| {
            inner.get_pending(proc, None, directives?, Way::Later, callback)
        })
    }

    /// A blocking Get that calls `f` on the value where it lies instead of copying it: what is at hand, and the
    /// server's answer where that has none.
    ///
    /// # Errors
    /// As [`get`](Client::get).
    #[inline]
    pub fn get_with<T>(&self, question: Question<'_>, mut f: impl FnMut(Found<'_>) -> T) -> Result<T, Error> {
        if let Some(answer) = peek(self, &Epoch::enter(), question, &mut f) {
            return answer;
        }
        let value = self.get_value(question)?;
        Ok(f(Found::Own(&value)))
    }

    /// The value from the server, waited for.
    #[cold]
    fn get_value(&self, question: Question<'_>) -> Result<Value, Error> {
        let nspace = Nspace::new(question.nspace()).map_err(|_| Status::ERR_BAD_PARAM)?;
        let key = Key::new(question.key()).map_err(|_| Status::ERR_BAD_PARAM)?;
        let (proc, directives) = (Proc::new(nspace, question.rank()), question.directives().clone());
        self.inner.may_wait("PMIx_Get")?;
        self.inner.block(|callback| self.inner.get_pending(proc, Some(key), directives, Way::Blocked, callback))
    }

    /// A [`Guard`] on the own job's shared memory: what is looked up through it is not copied. Values that this process
    /// knows by itself, segments that are not mapped and keys that are not posted yet are for [`get`](Client::get) to
    /// find.
    ///
    /// # Errors
    /// When the job is not mapped, or this thread can have no guard.
    pub fn pin(&self) -> Result<Guard<'_>, PinError> {
        self.inner.life.check().map_err(|_| PinError::Foreign)?;
        self.inner.jobs.own().ok_or(PinError::NoPage)?.pin()
    }
}

/// The part of a Get that needs nobody else; nothing where the server has to be asked. Makes no system call, takes
/// no lock and allocates nothing. The caller is in an epoch, which it must leave before it waits for anything. `f`
/// is called again when the value changed meanwhile: only its last result counts, and what it saw before may have
/// been no value at all.
///
/// # Errors
/// As [`get`](Client::get).
#[inline]
pub fn peek<T>(
    client: &Client,
    epoch: &Epoch,
    question: Question<'_>,
    mut f: impl FnMut(Found<'_>) -> T,
) -> Option<Result<T, Error>> {
    let inner = &*client.inner;
    if let Err(error) = inner.life.check() {
        return Some(Err(error));
    }
    let question = inner.meant(question);
    if let Some(value) = inner.stored(epoch, &question) {
        return Some(Ok(f(Found::Own(value))));
    }
    let reader = inner.reader_of(&question);
    if !question.directives.refresh
        && let Some(known) = reader.and_then(|reader| reader.recall(epoch, &question))
    {
        return Some(Ok(f(Found::Shared(&known))));
    }
    let mut last = None;
    match inner.look(epoch, question, reader, &mut |found| last = Some(f(found))) {
        Step::Shown => last.map(Ok),
        Step::Absent(status) => Some(Err(status.into())),
        Step::Map | Step::Ask => None,
    }
}

impl Inner {
    /// The question as it is meant: for the own job the namespace is empty and this process asks; attributes can name
    /// another namespace.
    #[inline]
    fn meant<'a>(&self, question: Question<'a>) -> Question<'a> {
        let own = self.proc.nspace.as_bytes();
        let nspace = match &question.directives.nspace {
            None => question.nspace,
            Some(named) if self.is_own_job_id(named.as_bytes()) => &[],
            Some(named) => named.as_bytes(),
        };
        match nspace.is_empty() || same(nspace, own) {
            true => Question { nspace: &[], asker: self.proc.rank, ..question },
            false => Question { nspace, ..question },
        }
    }

    /// The host may call the job otherwise than its namespace.
    #[cold]
    fn is_own_job_id(&self, name: &[u8]) -> bool {
        let Some(reader) = self.jobs.own() else { return false };
        let id = reader.get(&Question::new(Rank::WILDCARD, keys::JOBID));
        id.is_ok_and(|id| id.as_bytes() == Some(name))
    }

    /// The namespace of a question, by its name.
    #[inline]
    pub(super) fn nspace_of<'a>(&'a self, question: &Question<'a>) -> &'a [u8] {
        if question.nspace.is_empty() { self.proc.nspace.as_bytes() } else { question.nspace }
    }

    /// The reader of the job that is asked about, if it is mapped.
    #[inline(always)]
    pub(super) fn reader_of(&self, question: &Question<'_>) -> Option<&JobReader> {
        if question.nspace.is_empty() { self.jobs.own() } else { self.jobs.of(question.nspace) }
    }

    /// A value that this process has stored for itself alone; it has no level.
    #[inline(always)]
    fn stored<'a>(&'a self, epoch: &'a Epoch, question: &Question<'_>) -> Option<&'a Value> {
        let may_have = !self.own.overlay.is_empty(epoch) && question.has_default_level();
        if may_have { self.stored_there(epoch, *question) } else { None }
    }

    #[inline(never)]
    fn stored_there<'a>(&'a self, epoch: &'a Epoch, question: Question<'_>) -> Option<&'a Value> {
        let nspace = self.nspace_of(&question);
        let scope = question.directives.scope;
        let stored = |rank| self.own.overlay.get(epoch, (nspace, rank), &question.key, scope);
        // A value of no rank in particular is the job's.
        let of_job = || if question.rank == Rank::UNDEF { stored(Rank::WILDCARD) } else { None };
        stored(question.rank).or_else(of_job)
    }

    /// The whole look-up of a Get that does not wait.
    fn resolve(&self, epoch: &Epoch, question: Question<'_>, f: Show<'_>) -> Step {
        match self.stored(epoch, &question) {
            Some(value) => shown(f, value),
            None => self.look(epoch, question, self.reader_of(&question), f),
        }
    }

    /// Looks at the process's own Puts and at the job's shared memory. Makes no system call, takes no lock, allocates
    /// nothing; except that the first look at what this process itself has put since its last Commit has copies of it
    /// made.
    fn look(&self, epoch: &Epoch, question: Question<'_>, reader: Option<&JobReader>, f: Show<'_>) -> Step {
        if !question.is_reserved()
            && question.has_default_level()
            && let Some(value) = self.own_put(epoch, &question)
        {
            return shown(f, value);
        }
        let Some(reader) = reader else {
            return match self.link.has_server() {
                true if self.jobs.can_map() => self.own_put_or(epoch, &question, f, Step::Map),
                true => Step::Ask,
                false => self.own_put_or(epoch, &question, f, Step::Absent(Status::ERR_NOT_FOUND)),
            };
        };
        if question.directives.refresh
            && self.link.has_server()
            && let Some(step) = self.refresh(reader, &question)
        {
            return step;
        }
        if let Some(second) = self.jobs.second()
            && self.shown_by(second, reader, epoch, &question, f)
        {
            return Step::Shown;
        }
        match reader.read_in(epoch, &question, &mut |raw| f(Found::Shared(raw))) {
            Ok(()) => Step::Shown,
            Err(Miss::NotFound) => match self.jobs.second().filter(|_| question.nspace.is_empty()) {
                None => self.own_put_or(epoch, &question, f, self.absent(&question)),
                Some(second) => self.look_behind(epoch, question, second, f),
            },
            Err(Miss::Unmapped(_)) => self.map_or_ask(),
            // Replaced too often while it was read: the server reads it in peace.
            Err(Miss::Busy) => Step::Ask,
            Err(Miss::Corrupt(error)) => {
                let nspace = String::from_utf8_lossy(self.nspace_of(&question));
                self.jobs.give_up(format_args!("{nspace} has a damaged segment: {error}"));
                Step::Ask
            }
        }
    }

    /// Looks for what the own server has been told of a process of another node, which is what the node's segments have
    /// or later: both see what a fence collects, and it alone what has been asked for.
    #[cold]
    fn shown_by(
        &self,
        second: &JobReader,
        node: &JobReader,
        epoch: &Epoch,
        question: &Question<'_>,
        f: Show<'_>,
    ) -> bool {
        let is_elsewhere = question.nspace.is_empty() && question.rank.is_process() && !node.is_local(question.rank);
        is_elsewhere
            && !question.is_reserved()
            && second.read_in(epoch, question, &mut |raw| f(Found::Shared(raw))).is_ok()
    }

    /// Looks for what the node's segments do not have: it may have come from elsewhere.
    #[cold]
    fn look_behind(&self, epoch: &Epoch, question: Question<'_>, second: &JobReader, f: Show<'_>) -> Step {
        match second.read_in(epoch, &question, &mut |raw| f(Found::Shared(raw))) {
            Ok(()) => Step::Shown,
            Err(Miss::NotFound) => self.own_put_or(epoch, &question, f, self.absent(&question)),
            Err(Miss::Unmapped(_)) => self.map_or_ask(),
            Err(Miss::Busy | Miss::Corrupt(_)) => Step::Ask,
        }
    }

    fn map_or_ask(&self) -> Step {
        if self.jobs.can_map() { Step::Map } else { Step::Ask }
    }

    /// A value that this process has put.
    #[inline]
    fn own_put<'a>(&'a self, epoch: &'a Epoch, question: &Question<'_>) -> Option<&'a Value> {
        // A look-up of what others have waits for no Commit of ours.
        if question.rank == self.proc.rank { self.own_put_there(epoch, *question) } else { None }
    }

    #[inline(never)]
    fn own_put_there<'a>(&'a self, epoch: &'a Epoch, question: Question<'_>) -> Option<&'a Value> {
        let of = (self.nspace_of(&question), question.rank);
        self.posts.own().get(epoch, of, &question.key, question.directives.scope)
    }

    /// A reserved key that the host has not given, and this process has put or knows by itself.
    fn own_put_or(&self, epoch: &Epoch, question: &Question<'_>, f: Show<'_>, otherwise: Step) -> Step {
        if !(question.has_default_level() && question.is_reserved()) {
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

    /// The step that a Get for the newest value (`PMIX_GET_REFRESH_CACHE`) has to take first. Of this node's
    /// processes memory shows the newest anyway; another node is asked again, unless nobody is to be asked.
    #[cold]
    fn refresh(&self, reader: &JobReader, question: &Question<'_>) -> Option<Step> {
        let Question { rank, directives, .. } = *question;
        if reader.stale().is_some() {
            return Some(self.map_or_ask());
        }
        let elsewhere =
            question.has_default_level() && rank.is_process() && (!reader.is_local(rank) || self.has_upstream());
        (elsewhere && !directives.optional && !directives.immediate).then_some(Step::Ask)
    }

    /// Shared memory does not have it, and shows all that the server has.
    ///
    /// So a Get that wants the server's answer without the host's (`PMIX_IMMEDIATE`) has it already: the server looks
    /// into the same segments. Reserved keys and other levels come from the host, which has given what it has; no
    /// process's doing changes them. Only an ordinary key may still be posted, here or on another node, and only the
    /// server can wait for it; and only the server knows whose it is where no rank is named, and what [`SERVERS`]
    /// lists.
    fn absent(&self, question: &Question<'_>) -> Step {
        let Question { rank, directives, .. } = *question;
        let is_servers = SERVERS.iter().any(|key| question.key() == key.as_bytes());
        // Under a stock server the host keeps what other processes have posted, whatever the key.
        let is_kept = self.has_upstream() && rank.is_process() && rank != self.proc.rank;
        let is_hosts = question.is_reserved() && !is_servers && !is_kept;
        // Values that a process keeps to itself were looked for first.
        let is_kept_back = directives.scope == Some(Scope::INTERNAL);
        let settled = !question.has_default_level() || rank == Rank::WILDCARD || is_hosts || is_kept_back;
        let shown = directives.immediate && rank != Rank::UNDEF && !is_servers && !is_kept;
        match directives.optional || shown || settled || !self.link.has_server() {
            true => Step::Absent(Status::ERR_NOT_FOUND),
            false => Step::Ask,
        }
    }

    /// Answers a question from memory, or asks the server.
    fn get_pending(
        self: &Arc<Self>,
        proc: Proc,
        key: Option<Key>,
        mut directives: Directives,
        way: Way,
        then: Callback<Value, Error>,
    ) -> Result<(), Error> {
        let question = Question::new(proc.rank, "").in_nspace(proc.nspace.as_bytes()).with(&directives);
        let nspace = Nspace::new(self.nspace_of(&self.meant(question))).map_err(|_| Status::ERR_BAD_PARAM)?;
        let proc = Proc::new(nspace, proc.rank);
        let proc = self.own.groups.native(&proc).unwrap_or(proc);
        directives.nspace = None;
        let seconds = directives.timeout.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
        let limit = seconds.map(Duration::from_secs);
        let asked = OwnedQuestion { proc, key, directives };
        let answered = match self.answer(&asked) {
            // All of a group have posted nothing, and who is no rank of it neither.
            Answered::Ask | Answered::Map if self.own.groups.has(&asked.proc.nspace) => {
                Answered::Told(Err(Status::ERR_NOT_FOUND.into()))
            }
            answered => answered,
        };
        match (answered, way) {
            (Answered::Told(told), Way::Blocked) => then(told),
            (Answered::Told(told), Way::Later) => self.link.run_later(move || then(told)),
            (Answered::Ask, _) => self.ask(asked, way, self.link.bound(end_of(limit), given_up, then)),
            (Answered::Map, _) => {
                let inner = self.clone();
                let then = self.link.bound(end_of(limit), given_up, then);
                self.map(asked.proc.nspace.clone(), way, move || match inner.answer(&asked) {
                    Answered::Told(told) => then(told),
                    Answered::Map | Answered::Ask => inner.ask(asked, way, then),
                });
            }
        }
        Ok(())
    }

    /// The borrowed form of a question with a key.
    fn question<'a>(&self, asked: &'a OwnedQuestion, key: &'a Key) -> Question<'a> {
        let Proc { nspace, rank } = &asked.proc;
        self.meant(Question::new(*rank, key).in_nspace(nspace.as_bytes()).with(&asked.directives))
    }

    fn answer(&self, asked: &OwnedQuestion) -> Answered {
        let Some(key) = &asked.key else { return self.answer_all(asked) };
        let mut last = None;
        let copy = &mut |found: Found<'_>| last = found.to_value().ok();
        match self.resolve(&Epoch::enter(), self.question(asked, key), copy) {
            // Bytes that are no value: the server has another look at them.
            Step::Shown => last.map_or(Answered::Ask, |value| Answered::Told(Ok(value))),
            Step::Absent(status) => Answered::Told(Err(status.into())),
            Step::Map => Answered::Map,
            Step::Ask => Answered::Ask,
        }
    }

    /// The answer to a question without a key: everything known of a process.
    fn answer_all(&self, asked: &OwnedQuestion) -> Answered {
        let shared = match self.jobs.of(asked.proc.nspace.as_bytes()) {
            Some(reader) => match self.all_in(reader, asked) {
                Ok(all) => all,
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

    /// All that a reader has of a process, and what the one behind it has besides.
    fn all_in(&self, reader: &JobReader, asked: &OwnedQuestion) -> Result<Vec<Info>, Miss> {
        let (Proc { nspace, rank }, scope) = (&asked.proc, asked.directives.scope);
        let mut all = reader.infos(*rank, scope)?;
        if let Some(second) = self.jobs.second().filter(|_| *nspace == self.proc.nspace) {
            all.extend(second.infos(*rank, scope)?);
        }
        Ok(all)
    }

    /// All values of a process, known to others or to this one alone, in the order of a Get; `None` when there are
    /// none.
    fn with_own(&self, asked: &OwnedQuestion, known: Vec<Info>) -> Option<Value> {
        let Proc { nspace, rank } = &asked.proc;
        let mut all: Vec<Info> = Vec::new();
        let mut add = |item: Info| {
            if !all.iter().any(|other| other.key == item.key) {
                all.push(item);
            }
        };
        let info = |key: &Key, value: &Value| Info { key: key.clone(), flags: 0, value: value.clone() };
        let scope = asked.directives.scope;
        self.own.overlay.all(nspace.as_bytes(), *rank, scope, |key, value| add(info(key, value)));
        let mut reserved = Vec::new();
        self.posts.own().all(nspace.as_bytes(), *rank, scope, |key, value| match key.is_reserved() {
            true => reserved.push(info(key, value)),
            false => add(info(key, value)),
        });
        known.into_iter().chain(reserved).for_each(add);
        (!all.is_empty()).then(|| DataArray::of_info(all).into())
    }

    /// The value that this process knows by itself, when nobody else knows one.
    fn own_after_all(&self, asked: &OwnedQuestion) -> Option<Value> {
        let Some(key) = &asked.key else { return self.with_own(asked, Vec::new()) };
        let question = self.question(asked, key);
        if !(question.has_default_level() && question.is_reserved()) {
            return None;
        }
        self.own_put(&Epoch::enter(), &question).cloned().or_else(|| self.own_fact(&question))
    }

    fn ask(self: &Arc<Self>, asked: OwnedQuestion, way: Way, then: Callback<Value, Error>) {
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
        let (request, waiter) = (Request::Get { proc, key, info }, Box::new(waiter));
        self.follow_up(way, &request, waiter);
    }

    /// Sends a request that belongs to a Get, or a fence, that has been accepted: `waiter` is called in any case. Where
    /// somebody blocks, it runs nothing of the program.
    pub(super) fn follow_up(self: &Arc<Self>, way: Way, request: &Request, waiter: Waiter) {
        match way {
            Way::Blocked => self.look_up("PMIx_Get", request, waiter),
            Way::Later => self.link.follow_up("PMIx_Get", request, waiter),
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        trace!("a value in shared memory cannot be read: {error}");
        Error::Status(Status::ERR_UNPACK_FAILURE)
    }
}
