//! Conversation with one process that is in: which requests wait for what, and what is said next.
//!
//! In PMI-1 a process is answered in the order in which it asks: while one request waits, only an abort is taken. In
//! PMI-2 answers come as they are ready, each with the token of its request.
use std::sync::Arc;

use super::requests::{attribute, fence, get, key, put};
use super::spawn::{self, Lines, Spawn};
use super::version::{Version, answer_of};
use super::words::{self, Words};
use crate::account::{Account, Charge, Kind};
use crate::data::{Info, InfoList, Key, Nspace, Proc, Rank, Scope, Status, Text, Value, keys};
use crate::message::door::JobInformation;
use crate::message::numbers::NumberMap;
use crate::message::{Forward, Reply, Request};
use crate::trace;

/// Longest name of a kvs, key and value, as clients of PMI-1 are told them.
const MAXES: [(&str, &[u8]); 3] = [("kvsname_max", b"256"), ("keylen_max", b"64"), ("vallen_max", b"1024")];
/// Longest line that a client of PMI-1 reads.
const LONGEST_ANSWER: usize = 1000;
/// The key whose value is the placement of the ranks.
const MAPPING: &[u8] = b"PMI_process_mapping";
/// Longest token of a request.
const LONGEST_TOKEN: usize = 256;
/// Most requests of a connection that wait at a time. Those for attributes are [counted](super::waiters) by process
/// besides.
const MOST_PENDING: usize = 4096;
/// Bytes that one that waits for an attribute takes beside its own: it is in four tables.
const BESIDE: usize = 1 << 10;

/// Step that follows from a message.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Ask the server.
    Ask(u64, Request),
    /// Ask again when a process of this node has put an attribute under this key.
    Await(Key, u64),
    /// An attribute of the node was put: ask again for those who wait for it, after the answer.
    Put(Key, Vec<u8>),
}

/// Form of the answer to a request.
#[derive(Debug)]
enum Answer {
    /// Yes or no: the call was done.
    Done,
    /// Yes or no: the key was free, and is put then.
    Free(Key, Vec<u8>),
    /// Yes or no: the attribute of the node was put.
    Attribute(Key),
    /// A value.
    Value(Key),
    /// An attribute, which may be told to be there or not; and whether it is waited for.
    Found(Key, bool),
    /// A published port.
    Port,
    /// So many started processes.
    Spawned(usize),
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Pending {
    command: Vec<u8>,
    token: Option<Vec<u8>>,
    answer: Answer,
    /// Charge of one that waits for an attribute. The server has answered it, and given back what it had charged.
    waits: Option<Charge>,
}

impl Pending {
    /// Charges what it takes while it waits for an attribute.
    fn charge(&self, account: &Account, key: &Key) -> Option<Charge> {
        let token = self.token.as_ref().map_or(0, Vec::len);
        account.charge(Kind::Request, BESIDE + self.command.len() + token + 2 * key.as_bytes().len())
    }
}

/// A process that is in.
pub struct Conversation {
    proc: Proc,
    version: Version,
    job: Option<Arc<dyn JobInformation>>,
    mapping: Option<Arc<[u8]>>,
    pending: NumberMap<u64, Pending>,
    /// Number of the last request.
    last: u64,
    lines: Lines,
    account: Account,
    /// True once it has finalized.
    is_over: bool,
}

impl Conversation {
    /// Begins the conversation with a process that was let in, and to whose account counts what it makes us hold.
    pub fn new(
        proc: Proc,
        version: Version,
        job: Option<Arc<dyn JobInformation>>,
        mapping: Option<Arc<[u8]>>,
        account: Account,
    ) -> Self {
        let (pending, lines) = (NumberMap::default(), Lines::default());
        Conversation { proc, version, job, mapping, pending, last: 0, lines, account, is_over: false }
    }

    /// Its version of the protocol.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The job of the process.
    pub fn nspace(&self) -> &Nspace {
        &self.proc.nspace
    }

    /// Returns whether nothing but an abort is to be taken now.
    pub fn is_waiting(&self) -> bool {
        matches!(self.version, Version::One(_)) && !self.pending.is_empty()
    }

    /// Returns whether it has finalized, and heard so.
    pub fn has_finalized(&self) -> bool {
        self.is_over && self.pending.is_empty()
    }

    /// Takes in a line of PMI-1, without its end.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Step>, String> {
        if self.lines.is_open() {
            let Some(taken) = self.lines.take(line, &self.account) else { return Ok(None) };
            let spawn = taken.and_then(|commands| spawn::of_lines(&commands));
            return Ok(Some(self.spawn(b"spawn".to_vec(), None, spawn)));
        }
        if line == b"mcmd=spawn" {
            self.lines.begin();
            return Ok(None);
        }
        let words = Words::of_line(line).map_err(|error| error.to_string())?;
        Ok(self.asked_in_lines(&words))
    }

    /// Takes in the body of a frame of PMI-2.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn frame(&mut self, body: &[u8]) -> Result<Option<Step>, String> {
        let words = Words::of_frame(body).map_err(|error| error.to_string())?;
        let token = words.get("thrid");
        if token.is_some_and(|token| token.len() > LONGEST_TOKEN) {
            return Err(format!("a token of more than {LONGEST_TOKEN} bytes"));
        }
        if self.pending.len() >= MOST_PENDING && words.command() != b"abort" {
            return Ok(Some(self.fail(words.command(), token, "too many requests wait")));
        }
        Ok(self.asked_in_frames(&words))
    }

    /// A request of PMI-1.
    fn asked_in_lines(&mut self, words: &Words<'_>) -> Option<Step> {
        let command = words.command().to_vec();
        let size = |this: &Self| this.job.as_ref().map_or(0, |job| job.ranks());
        let number = |number: u32| number.to_string().into_bytes();
        Some(match &command[..] {
            b"abort" => self.abort(words),
            _ if self.is_over => self.fail(&command, None, "finalized"),
            b"get_maxes" => self.answer(&command, None, &MAXES),
            b"get_universe_size" => {
                let universe = number(self.said_of_job(keys::UNIV_SIZE).unwrap_or(size(self)));
                self.answer(&command, None, &[("size", &universe)])
            }
            b"get_appnum" => self.answer(&command, None, &[("appnum", &number(self.appnum()))]),
            b"get_my_kvsname" => self.answer(&command, None, &[("kvsname", self.proc.nspace.as_bytes())]),
            b"put" => match (self.is_own(words.get("kvsname")), key(words), words.get("value")) {
                (true, Some(key), Some(value)) => {
                    let get = get(self.proc.clone(), key.clone());
                    self.ask(command, None, Answer::Free(key, value.to_vec()), get)
                }
                _ => self.fail(&command, None, "no_such_kvs_or_key"),
            },
            b"get" => self.get(command, None, words.get("kvsname"), key(words), Answer::Value),
            b"barrier_in" => match self.group(words.get("group")) {
                Some(procs) => self.ask(command, None, Answer::Done, fence(procs)),
                None => self.fail(&command, None, "no_such_group"),
            },
            b"publish_name" => self.publish(command, None, words.get("service"), words.get("port")),
            b"unpublish_name" => self.unpublish(command, None, words.get("service")),
            b"lookup_name" => self.look_up(command, None, words.get("service")),
            b"finalize" => self.finalize(command, None),
            _ => self.fail(&command, None, "not_supported"),
        })
    }

    /// A request of PMI-2.
    fn asked_in_frames(&mut self, words: &Words<'_>) -> Option<Step> {
        let (command, token) = (words.command().to_vec(), words.get("thrid").map(<[u8]>::to_vec));
        let found = |this: &Self, value: Option<&[u8]>| match value {
            Some(value) => this.answer(&command, token.as_deref(), &[("found", b"TRUE"), ("value", value)]),
            None => this.answer(&command, token.as_deref(), &[("found", b"FALSE")]),
        };
        Some(match &command[..] {
            b"abort" => self.abort(words),
            _ if self.is_over => self.fail(&command, token.as_deref(), "finalized"),
            b"fullinit" => self.full_init(&command, token.as_deref()),
            b"job-getid" => self.answer(&command, token.as_deref(), &[("jobid", self.proc.nspace.as_bytes())]),
            b"info-getjobattr" => match words.get("key") {
                Some(MAPPING) => found(self, self.mapping.as_deref()),
                Some(b"universeSize") => {
                    let universe = self.said_of_job(keys::UNIV_SIZE).map(|size| size.to_string().into_bytes());
                    found(self, universe.as_deref())
                }
                Some(b"hasNameServ") => found(self, Some(b"TRUE")),
                _ => self.get(command, token, None, key(words), |key| Answer::Found(key, false)),
            },
            b"info-putnodeattr" => match (attribute(words), words.get("value")) {
                (Some(key), Some(value)) => {
                    let commit = put(Scope::LOCAL, key.clone(), value);
                    self.ask(command, token, Answer::Attribute(key), commit)
                }
                _ => self.fail(&command, token.as_deref(), "no usable key"),
            },
            b"info-getnodeattr" => {
                let waits = words.get("wait").is_some_and(|wait| wait.eq_ignore_ascii_case(b"true"));
                self.get(command, token, None, attribute(words), |key| Answer::Found(key, waits))
            }
            b"kvs-put" => match (key(words), words.get("value")) {
                (Some(key), Some(value)) => self.ask(command, token, Answer::Done, put(Scope::GLOBAL, key, value)),
                _ => self.fail(&command, token.as_deref(), "no usable key"),
            },
            b"kvs-get" => {
                let job = words.get("jobid").filter(|job| !job.is_empty());
                self.get(command, token, job, key(words), |key| Answer::Found(key, false))
            }
            b"kvs-fence" => self.ask(command, token, Answer::Done, fence(Vec::new())),
            b"name-publish" => self.publish(command, token, words.get("name"), words.get("port")),
            b"name-unpublish" => self.unpublish(command, token, words.get("name")),
            b"name-lookup" => self.look_up(command, token, words.get("name")),
            b"spawn" => self.spawn(command, token, spawn::of_words(words)),
            b"finalize" => self.finalize(command, token),
            _ => self.fail(&command, token.as_deref(), "not supported"),
        })
    }

    /// Takes in a reply of the server.
    pub fn replied(&mut self, number: u64, reply: Reply) -> Option<Step> {
        let mut pending = self.pending.remove(&number)?;
        if let (Answer::Found(key, true), false) = (&pending.answer, is_text(&reply)) {
            let key = key.clone();
            pending.waits = pending.waits.take().or_else(|| pending.charge(&self.account, &key));
            if pending.waits.is_none() {
                return Some(self.fail(&pending.command, pending.token.as_deref(), "no room for a request that waits"));
            }
            self.pending.insert(number, pending);
            return Some(Step::Await(key, number));
        }
        let Pending { command, token, answer, .. } = pending;
        let token = token.as_deref();
        let done = |reply: &Reply| match reply {
            Reply::Done(status) | Reply::Infos(status, _) | Reply::Published(status, _) => match *status {
                Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(()),
                status => Err(status),
            },
            _ => Ok(()),
        };
        Some(match (answer, reply) {
            (Answer::Free(key, _), Reply::Value(_)) => {
                let of = format!("duplicate_key_{}", String::from_utf8_lossy(key.as_bytes()));
                self.fail(&command, token, &of)
            }
            (Answer::Free(key, value), _) => {
                let commit = put(Scope::GLOBAL, key, &value);
                self.ask(command, token.map(<[u8]>::to_vec), Answer::Done, commit)
            }
            (Answer::Value(key), Reply::Value(value)) => match value.as_text() {
                Some(text) => self.answer(&command, token, &[("value", text.as_bytes())]),
                None => self.missing(&command, token, &key),
            },
            (Answer::Value(key), _) => self.missing(&command, token, &key),
            (Answer::Found(..), Reply::Value(value)) if value.as_text().is_some() => {
                let text = value.as_text().map(Text::as_bytes).unwrap_or_default();
                self.answer(&command, token, &[("found", b"TRUE"), ("value", text)])
            }
            (Answer::Found(..), _) => self.answer(&command, token, &[("found", b"FALSE")]),
            (Answer::Port, Reply::Published(_, items)) => {
                match items.first().and_then(|item| item.value.as_text()).map(Text::as_bytes) {
                    Some(port) if matches!(self.version, Version::Two) => {
                        self.answer(&command, token, &[("port", port), ("value", port)])
                    }
                    Some(port) => self.answer(&command, token, &[("port", port)]),
                    None => self.fail(&command, token, "no such name"),
                }
            }
            (Answer::Spawned(processes), Reply::Spawned(nspace)) => self.spawned(&command, token, &nspace, processes),
            (answer, reply) => match (done(&reply), answer) {
                (Ok(()), Answer::Attribute(key)) => Step::Put(key, self.answered(&command, token, &[])),
                (Ok(()), Answer::Done) => self.answer(&command, token, &[]),
                (Ok(()), _) => self.fail(&command, token, "no answer"),
                (Err(status), _) => self.fail(&command, token, &status.to_string()),
            },
        })
    }

    /// Returns the request to make again for one that waits for an attribute of the node.
    pub fn again(&self, number: u64) -> Option<Step> {
        let Answer::Found(key, _) = &self.pending.get(&number)?.answer else { return None };
        Some(Step::Ask(number, get(Proc::new(self.proc.nspace.clone(), Rank::UNDEF), key.clone())))
    }

    /// Returns the answer to one that would wait for an attribute where its process has too many that do.
    pub fn cannot_wait(&mut self, number: u64) -> Option<Step> {
        let Pending { command, token, .. } = self.pending.remove(&number)?;
        Some(self.fail(&command, token.as_deref(), "too many requests wait"))
    }

    fn ask(&mut self, command: Vec<u8>, token: Option<Vec<u8>>, answer: Answer, request: Request) -> Step {
        self.last += 1;
        self.pending.insert(self.last, Pending { command, token, answer, waits: None });
        Step::Ask(self.last, request)
    }

    fn get(
        &mut self,
        command: Vec<u8>,
        token: Option<Vec<u8>>,
        job: Option<&[u8]>,
        key: Option<Key>,
        answer: impl FnOnce(Key) -> Answer,
    ) -> Step {
        let nspace = job.map_or(Ok(self.proc.nspace.clone()), Nspace::new);
        let (Ok(nspace), Some(key)) = (nspace, key) else {
            return self.fail(&command, token.as_deref(), "no such kvs or key");
        };
        if key.as_bytes() == MAPPING && nspace == self.proc.nspace {
            return match (&self.mapping, self.version) {
                (Some(mapping), Version::One(_)) => self.answer(&command, None, &[("value", mapping)]),
                (Some(mapping), Version::Two) => {
                    self.answer(&command, token.as_deref(), &[("found", b"TRUE"), ("value", mapping)])
                }
                (None, Version::One(_)) => self.missing(&command, None, &key),
                (None, Version::Two) => self.answer(&command, token.as_deref(), &[("found", b"FALSE")]),
            };
        }
        let request = get(Proc::new(nspace, Rank::UNDEF), key.clone());
        self.ask(command, token, answer(key), request)
    }

    fn abort(&mut self, words: &Words<'_>) -> Step {
        let status = words.number("exitcode").and_then(|code| i32::try_from(code).ok()).unwrap_or(1);
        let message = words.get("message").or_else(|| words.get("error_message")).or_else(|| words.get("msg"));
        // Its process hears no answer.
        self.last += 1;
        Step::Ask(self.last, Request::Abort { status, message: message.map(<[u8]>::to_vec), procs: Vec::new() })
    }

    fn finalize(&mut self, command: Vec<u8>, token: Option<Vec<u8>>) -> Step {
        self.is_over = true;
        self.ask(command, token, Answer::Done, Request::Finalize)
    }

    fn publish(&mut self, command: Vec<u8>, token: Option<Vec<u8>>, name: Option<&[u8]>, port: Option<&[u8]>) -> Step {
        let (Some(Ok(key)), Some(port)) = (name.map(Key::new), port) else {
            return self.fail(&command, token.as_deref(), "no usable name");
        };
        let info = vec![Info { key, flags: 0, value: Value::string(port) }];
        self.ask(command, token, Answer::Done, Request::Forward(Forward::Publish { info }))
    }

    fn unpublish(&mut self, command: Vec<u8>, token: Option<Vec<u8>>, name: Option<&[u8]>) -> Step {
        let Some(Ok(name)) = name.filter(|name| !name.is_empty()).map(Text::new) else {
            return self.fail(&command, token.as_deref(), "no usable name");
        };
        let forward = Forward::Unpublish { keys: vec![name], info: Vec::new() };
        self.ask(command, token, Answer::Done, Request::Forward(forward))
    }

    fn look_up(&mut self, command: Vec<u8>, token: Option<Vec<u8>>, name: Option<&[u8]>) -> Step {
        let Some(Ok(name)) = name.filter(|name| !name.is_empty()).map(Text::new) else {
            return self.fail(&command, token.as_deref(), "no usable name");
        };
        let forward = Forward::Lookup { keys: vec![name], info: Vec::new() };
        self.ask(command, token, Answer::Port, Request::Forward(forward))
    }

    fn spawn(&mut self, command: Vec<u8>, token: Option<Vec<u8>>, spawn: Result<Spawn, spawn::BadSpawn>) -> Step {
        match spawn {
            _ if self.is_over => self.fail(&command, token.as_deref(), "finalized"),
            Ok(Spawn { request, processes }) => {
                self.ask(command, token, Answer::Spawned(processes), Request::Forward(request))
            }
            Err(error) => self.fail(&command, token.as_deref(), &error.to_string()),
        }
    }

    fn spawned(&self, command: &[u8], token: Option<&[u8]>, nspace: &Nspace, processes: usize) -> Step {
        if matches!(self.version, Version::Two) {
            return self.answer(command, token, &[("jobid", nspace.as_bytes()), ("nerrs", b"0")]);
        }
        let codes = vec!["0"; processes].join(",");
        match codes.len() < LONGEST_ANSWER {
            true => self.answer(command, token, &[("errcodes", codes.as_bytes())]),
            false => self.answer(command, token, &[]),
        }
    }

    fn full_init(&self, command: &[u8], token: Option<&[u8]>) -> Step {
        let text = |number: u32| number.to_string().into_bytes();
        let (rank, size) = (text(self.proc.rank.0), text(self.job.as_ref().map_or(0, |job| job.ranks())));
        let (appnum, parent) = (text(self.appnum()), self.parent());
        let mut said: Vec<(&str, &[u8])> = vec![
            ("pmi-version", b"2"),
            ("pmi-subversion", b"0"),
            ("rank", &rank),
            ("size", &size),
            ("appnum", &appnum),
            ("debugged", b"FALSE"),
            ("pmiverbose", b"FALSE"),
        ];
        if let Some(parent) = &parent {
            said.push(("spawner-jobid", parent.nspace.as_bytes()));
        }
        self.answer(command, token, &said)
    }

    /// The job that has spawned this one.
    fn parent(&self) -> Option<Proc> {
        let said = self.job.as_ref()?.of_job().ok()?;
        said.find(keys::PARENT_ID).and_then(|info| match &info.value {
            Value::Proc(proc) => Some(proc.clone()),
            _ => None,
        })
    }

    /// A number that is said of the job.
    fn said_of_job(&self, key: &str) -> Option<u32> {
        self.job.as_ref()?.of_job().ok()?.find(key).and_then(|info| info.value.as_u32())
    }

    /// The number of the process's application.
    fn appnum(&self) -> u32 {
        let mut number = None;
        if let Some(job) = &self.job {
            let read = job.of_ranks(&mut std::iter::once(self.proc.rank), &mut |said| {
                number = said.find(keys::APPNUM).and_then(|info| info.value.as_u32());
                std::ops::ControlFlow::Break(())
            });
            if let Err(status) = read {
                trace!("the application of {} is not known: {status}", self.proc);
            }
        }
        number.unwrap_or(0)
    }

    /// Returns whether a name of a kvs is that of the own job.
    fn is_own(&self, name: Option<&[u8]>) -> bool {
        name.is_none_or(|name| name == self.proc.nspace.as_bytes())
    }

    /// The processes of a barrier's group, where there are some; none stand for all of the job.
    fn group(&self, name: Option<&[u8]>) -> Option<Vec<Proc>> {
        let of = |ranks: &mut dyn Iterator<Item = Rank>| {
            ranks.map(|rank| Proc::new(self.proc.nspace.clone(), rank)).collect()
        };
        match name {
            None | Some(b"" | b"WORLD") => Some(Vec::new()),
            Some(b"NODE") => self.job.as_ref().map(|job| of(&mut job.local().iter().copied())),
            Some(list) => {
                let size = self.job.as_ref().map_or(0, |job| job.ranks());
                let mut ranks = Vec::new();
                for part in std::str::from_utf8(list).ok()?.split(',') {
                    let (first, last) = part.split_once('-').unwrap_or((part, part));
                    let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
                    if last >= size || ranks.len() > size as usize {
                        return None;
                    }
                    ranks.extend((first..=last).map(Rank));
                }
                Some(of(&mut ranks.into_iter()))
            }
        }
    }

    fn missing(&self, command: &[u8], token: Option<&[u8]>, key: &Key) -> Step {
        self.fail(command, token, &format!("key {} not found", String::from_utf8_lossy(key.as_bytes())))
    }

    fn answer(&self, command: &[u8], token: Option<&[u8]>, more: &[(&str, &[u8])]) -> Step {
        Step::Send(self.answered(command, token, more))
    }

    fn answered(&self, command: &[u8], token: Option<&[u8]>, more: &[(&str, &[u8])]) -> Vec<u8> {
        let name = answer_of(self.version, command);
        let mut pairs: Vec<(&str, &[u8])> = vec![("cmd", &name)];
        pairs.extend(token.map(|token| ("thrid", token)));
        pairs.push(("rc", b"0"));
        pairs.extend(more);
        match self.version {
            Version::One(_) => words::line(&pairs),
            Version::Two => words::frame(&pairs),
        }
    }

    fn fail(&self, command: &[u8], token: Option<&[u8]>, why: &str) -> Step {
        let name = answer_of(self.version, command);
        let mut pairs: Vec<(&str, &[u8])> = vec![("cmd", &name)];
        pairs.extend(token.map(|token| ("thrid", token)));
        pairs.push(("rc", b"-1"));
        Step::Send(match self.version {
            Version::One(_) => {
                let why = why.replace(|c: char| c.is_whitespace(), "_");
                words::line(&[&pairs[..], &[("msg", why.as_bytes())]].concat())
            }
            Version::Two => words::frame(&[&pairs[..], &[("errmsg", why.as_bytes())]].concat()),
        })
    }
}

/// Returns whether a reply brings a text.
fn is_text(reply: &Reply) -> bool {
    matches!(reply, Reply::Value(value) if value.as_text().is_some())
}
