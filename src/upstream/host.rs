//! A stock server as the host of the server in this process: each upcall becomes a command, its answer the host's.
//!
//! The answers come on the receiving thread. A job that a spawn or a connect brings is registered before the caller
//! hears of it.
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};

use super::answers;
use super::commands::{body, commits, for_host, texts, uid, with_values};
use super::connection::Connection;
use super::copies::Copies;
use super::job_info::JobInfo;
use super::modex::{self, Modex};
use crate::data::{
    App, Channels, DataRange, DataType, Info, InfoList, Key, Nspace, Posted, Proc, Query, Rank, Status, Text, Value,
    constants, keys,
};
use crate::server::{Accepted, Answer, Completion, Credential, Host, Infos, Published, Server};
use crate::stock::body::{Bodies, Body};
use crate::stock::requests::command;
use crate::wire::WireError;
use crate::{trace, wall_clock};

use DataType as T;

/// First release of the reference implementation whose server keeps the way of information of each process apart.
const STORE_PER_PEER: u32 = 7;

/// Jobs that are registered, and what the stock server calls the pulls of output.
#[derive(Default)]
struct Known {
    jobs: BTreeSet<Nspace>,
    pulls: Vec<Pull>,
    copies: Copies,
}

/// A pull of output.
struct Pull {
    procs: Vec<Proc>,
    channels: Channels,
    /// The server's number of it.
    number: u64,
    /// This process's.
    own: usize,
}

/// The stock server.
pub struct StockHost {
    link: Arc<Connection>,
    server: OnceLock<Weak<Server>>,
    /// Major number of its release.
    major: u32,
    /// This process asks for the node's segments.
    has_segments: bool,
    known: Arc<Mutex<Known>>,
    modex: Arc<Modex>,
    /// Done when the events of groups are asked for, which are for who names them.
    group_events: Once,
}

/// Events by which members of a group that is made by invitation agree.
const OF_GROUPS: [Status; 9] = [
    Status::GROUP_INVITED,
    Status::GROUP_INVITE_ACCEPTED,
    Status::GROUP_INVITE_DECLINED,
    Status::GROUP_INVITE_FAILED,
    Status::GROUP_CONSTRUCT_COMPLETE,
    Status::GROUP_CONSTRUCT_ABORT,
    Status::GROUP_MEMBER_FAILED,
    Status::GROUP_LEADER_SELECTED,
    Status::GROUP_LEFT,
];

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StockHost {
    pub fn new(link: Arc<Connection>, nspace: &Nspace, major: u32, has_segments: bool) -> Self {
        let known = Known { jobs: [nspace.clone()].into(), ..Known::default() };
        let modex = Arc::new(Modex::new(link.clone()));
        let known = Arc::new(Mutex::new(known));
        StockHost { link, server: OnceLock::new(), major, has_segments, known, modex, group_events: Once::new() }
    }

    /// Returns whether output is to be handed on that is sent for a pull: of several copies, one is.
    pub fn counts(&self, source: &Proc, channel: Channels, pull: usize) -> bool {
        lock(&self.known).copies.counts(source, channel, pull)
    }

    /// Names the server that this is the host of.
    pub fn serve(&self, server: Weak<Server>) {
        // There is one, from the start on.
        let _ = self.server.set(server);
    }

    /// Asks for events of every code: the server in this process sorts out which of them its client wants. Codes that
    /// are for who names them are asked for by name, when its client does.
    pub fn hear_everything(&self) {
        self.hear(&[]);
    }

    /// Asks for events of these codes, or of all where there are none.
    fn hear(&self, codes: &[Status]) {
        if let Ok(body) = body(command::REGISTER_EVENTS, |out| out.list(T::STATUS, codes)?.infos(&[]).map(drop)) {
            self.link.say(&body);
        }
    }

    /// Sends a command, whose answer `read` takes in.
    fn ask<V: Send + 'static>(
        &self,
        command: u8,
        write: impl FnOnce(&mut Bodies) -> Result<(), WireError>,
        done: Completion<V>,
        read: impl FnOnce(Status, &mut Body<'_>) -> Result<V, WireError> + Send + 'static,
    ) -> Accepted {
        self.send(body(command, write)?, done, read)
    }

    /// Sends a body, whose answer `read` takes in.
    fn send<V: Send + 'static>(
        &self,
        body: Vec<u8>,
        done: Completion<V>,
        read: impl FnOnce(Status, &mut Body<'_>) -> Result<V, WireError> + Send + 'static,
    ) -> Accepted {
        self.link.ask(&body, move |result| done.complete(result.and_then(|bytes| answers::read(bytes, read))));
        Ok(Answer::Later)
    }

    /// Sends a command whose answer is a status.
    fn order(
        &self,
        command: u8,
        done: Completion<()>,
        write: impl FnOnce(&mut Bodies) -> Result<(), WireError>,
    ) -> Accepted {
        self.ask(command, write, done, answers::nothing)
    }

    /// Registers jobs that are not known yet, one after the other, and then goes on.
    fn register(
        known: Arc<Mutex<Known>>,
        server: Weak<Server>,
        mut jobs: Vec<JobInfo>,
        then: Box<dyn FnOnce() + Send>,
    ) {
        let new = loop {
            let Some(job) = jobs.pop() else { return then() };
            let Some(nspace) = job.nspace.clone() else { continue };
            if lock(&known).jobs.insert(nspace.clone()) {
                break (nspace, job);
            }
        };
        let (nspace, job) = new;
        let Some(strong) = server.upgrade() else { return then() };
        let (name, next) = (nspace.clone(), server.clone());
        let rest = known.clone();
        let asked = strong.register_nspace(&nspace, 0, &job.info).then(move |result| {
            if let Err(status) = result {
                trace!("the stock server's information about {name} is not usable: {status}");
            }
            StockHost::register(rest, next, jobs, then);
        });
        if asked.is_err() {
            trace!("{nspace} is not registered: the server has ended");
        }
    }

    fn server(&self) -> Weak<Server> {
        self.server.get().cloned().unwrap_or_default()
    }
}

impl Host for StockHost {
    fn client_finalized(&self, _: &Proc, done: Completion<()>) -> Accepted {
        self.order(command::FINALIZE, done, |_| Ok(()))
    }

    fn committed(&self, _: &Proc, entries: &[Posted]) {
        for said in commits(entries) {
            match said {
                Ok(body) => self.link.ask(&body, |result| {
                    if let Err(status) = result.and_then(|bytes| answers::read(bytes, answers::nothing)) {
                        trace!("the stock server does not take a commit: {status}");
                    }
                }),
                Err(status) => trace!("a commit cannot be sent: {status}"),
            }
        }
    }

    fn abort(&self, _: &Proc, status: i32, message: Option<&[u8]>, procs: &[Proc], done: Completion<()>) -> Accepted {
        let message = message.and_then(|message| Text::new(message).ok());
        self.order(command::ABORT, done, |out| {
            out.one(T::STATUS, &Status(status))?.one(T::STRING, &message)?.list(T::PROC, procs).map(drop)
        })
    }

    fn fence_nb(&self, procs: &[Proc], info: &[Info], _: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        // Posted data has gone there with each commit, and is asked for when it is needed.
        let body = body(command::FENCE, |out| out.list(T::PROC, procs)?.infos(&for_host(info)).map(drop));
        let collects = info.iter().any(|item| item.key == keys::COLLECT_DATA && item.value != Value::Bool(false));
        let (modex, procs) = (self.modex.clone(), procs.to_vec());
        let done = Completion::new(move |met: Result<(), Status>| match met {
            Ok(()) if collects => modex.refresh(&procs, done),
            Ok(()) => done.complete(Ok(Vec::new())),
            Err(status) => done.complete(Err(status)),
        });
        self.send(body?, done, answers::nothing)
    }

    fn direct_modex(&self, proc: &Proc, info: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        let key = info.iter().find(|item| item.key == keys::REQUIRED_KEY).and_then(|item| item.value.as_bytes());
        let key = key.and_then(|key| Key::new(key).ok());
        let is_told = |item: &&Info| item.key == keys::IMMEDIATE || item.key == keys::TIMEOUT;
        let told: Vec<Info> = info.iter().filter(is_told).cloned().collect();
        // A server keeps a request about a job that it does not know until its limit, and without a word about now it asks
        // its host for that job. Slurm's daemons do not survive such a question.
        let mut about_job = told.clone();
        if info.is_set(keys::IMMEDIATE) && info.find(keys::TIMEOUT).is_none() {
            about_job.push(Info::new(keys::TIMEOUT, 1u32));
        }
        let (server, asked, modex) = (self.server(), proc.clone(), self.modex.clone());
        let fetch = move || match (asked.rank, key) {
            (rank, key) if rank.is_process() => modex.fetch(&asked, key.as_ref(), &told, done),
            (Rank::UNDEF, Some(key)) => modex.find(&asked, &key, &told, done),
            // The job itself was asked for: it is registered, or nobody knows it.
            _ => done.complete(Ok(Vec::new())),
        };
        if lock(&self.known).jobs.contains(&proc.nspace) {
            fetch();
        } else {
            // A job that this process has not heard of: first what is known of the job itself.
            let (known, nspace) = (self.known.clone(), proc.nspace.clone());
            let job = Proc::new(proc.nspace.clone(), Rank::WILDCARD);
            modex::ask(&self.link, &job, None, &about_job, move |result| {
                let info: Vec<Info> = result.into_iter().flatten().flat_map(|(_, info)| info).collect();
                let jobs = vec![JobInfo { nspace: Some(nspace).filter(|_| !info.is_empty()), info }];
                StockHost::register(known, server, jobs, Box::new(fetch));
            });
        }
        Ok(Answer::Later)
    }

    fn publish(&self, _: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        self.order(command::PUBLISH, done, |out| out.one(T::UINT32, &uid())?.infos(info).map(drop))
    }

    fn lookup(&self, _: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        let write = |out: &mut Bodies| texts(out.one(T::UINT32, &uid())?, keys)?.infos(info).map(drop);
        self.ask(command::LOOKUP, write, done, answers::published)
    }

    fn unpublish(&self, _: &Proc, keys: &[Text], info: &[Info], done: Completion<()>) -> Accepted {
        self.order(command::UNPUBLISH, done, |out| texts(out.one(T::UINT32, &uid())?, keys)?.infos(info).map(drop))
    }

    fn spawn(&self, _: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        let (known, server) = (self.known.clone(), self.server());
        let done = Completion::new(move |result: Result<JobInfo, Status>| match result {
            Ok(JobInfo { nspace: Some(nspace), info }) => {
                let job = JobInfo { nspace: Some(nspace.clone()), info };
                StockHost::register(known, server, vec![job], Box::new(move || done.complete(Ok(nspace))));
            }
            Ok(_) => done.complete(Err(Status::ERR_UNPACK_FAILURE)),
            Err(status) => done.complete(Err(status)),
        });
        let apps: Vec<App> = match self.major < STORE_PER_PEER {
            true => apps.iter().map(|app| with_values(app, self.has_segments)).collect(),
            false => apps.to_vec(),
        };
        self.ask(command::SPAWN, |out| out.infos(job_info)?.list(T::APP, &apps).map(drop), done, answers::spawned)
    }

    fn connect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        let (known, server) = (self.known.clone(), self.server());
        let done = Completion::new(move |result: Result<Vec<JobInfo>, Status>| match result {
            Ok(jobs) => StockHost::register(known, server, jobs, Box::new(move || done.complete(Ok(())))),
            Err(status) => done.complete(Err(status)),
        });
        let write = |out: &mut Bodies| out.list(T::PROC, procs)?.infos(&for_host(info)).map(drop);
        self.ask(command::CONNECT, write, done, answers::connected)
    }

    fn disconnect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        self.order(command::DISCONNECT, done, |out| out.list(T::PROC, procs)?.infos(&for_host(info)).map(drop))
    }

    fn register_events(&self, codes: &[Status], info: &[Info], done: Completion<()>) -> Accepted {
        self.order(command::REGISTER_EVENTS, done, |out| out.list(T::STATUS, codes)?.infos(&for_host(info)).map(drop))
    }

    fn deregister_events(&self, _: &[Status], _: Completion<()>) -> Accepted {
        Ok(Answer::Done)
    }

    fn notify_event(
        &self,
        status: Status,
        _: &Proc,
        range: DataRange,
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        if OF_GROUPS.contains(&status) {
            self.group_events.call_once(|| self.hear(&OF_GROUPS));
        }
        self.order(command::NOTIFY, done, |out| {
            out.one(T::STATUS, &status)?.one(T::DATA_RANGE, &range)?.infos(&for_host(info)).map(drop)
        })
    }

    fn query(&self, _: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        self.ask(command::QUERY, |out| out.list(T::QUERY, queries).map(drop), done, answers::infos)
    }

    fn log(&self, _: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        let now = wall_clock::since_1970().as_secs();
        self.order(command::LOG, done, |out| {
            out.one(T::TIME, &now)?.infos(data)?.infos(&for_host(directives)).map(drop)
        })
    }

    fn allocate(&self, _: &Proc, directive: u8, data: &[Info], done: Completion<Infos>) -> Accepted {
        let write = |out: &mut Bodies| out.one(T::ALLOC_DIRECTIVE, &directive)?.infos(&for_host(data)).map(drop);
        self.ask(command::ALLOCATE, write, done, answers::infos)
    }

    fn job_control(&self, _: &Proc, targets: &[Proc], directives: &[Info], done: Completion<Infos>) -> Accepted {
        let write = |out: &mut Bodies| out.list(T::PROC, targets)?.infos(&for_host(directives)).map(drop);
        self.ask(command::JOB_CONTROL, write, done, answers::infos)
    }

    fn monitor(
        &self,
        _: &Proc,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        if monitor.key == keys::SEND_HEARTBEAT {
            // It has no answer.
            self.link.beat();
            done.complete(Ok((Status::SUCCESS, Vec::new())));
            return Ok(Answer::Later);
        }
        let write = |out: &mut Bodies| {
            out.one(T::INFO, monitor)?.one(T::STATUS, &error)?.infos(&for_host(directives)).map(drop)
        };
        self.ask(command::MONITOR, write, done, answers::infos)
    }

    fn get_credential(&self, _: &Proc, directives: &[Info], done: Completion<Credential>) -> Accepted {
        let write = |out: &mut Bodies| out.infos(&for_host(directives)).map(drop);
        self.ask(command::GET_CREDENTIAL, write, done, answers::credential)
    }

    fn validate_credential(
        &self,
        _: &Proc,
        credential: &[u8],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        let write =
            |out: &mut Bodies| out.one(T::BYTE_OBJECT, &credential.to_vec())?.infos(&for_host(directives)).map(drop);
        self.ask(command::VALIDATE_CREDENTIAL, write, done, answers::infos)
    }

    fn iof_pull(&self, procs: &[Proc], directives: &[Info], channels: Channels, done: Completion<()>) -> Accepted {
        let stops = directives.iter().any(|info| info.key == keys::IOF_STOP);
        if stops {
            let number = {
                let mut known = lock(&self.known);
                let at = known.pulls.iter().position(|pull| pull.procs == procs && pull.channels == channels);
                let pull = at.map(|at| known.pulls.swap_remove(at));
                pull.map(|Pull { number, own, .. }| {
                    known.copies.end(own);
                    number
                })
            };
            let Some(number) = number else { return Err(Status::ERR_NOT_FOUND) };
            return self.order(command::STOP_OUTPUT, done, |out| out.infos(&[])?.one(T::SIZE, &number).map(drop));
        }
        let (known, procs) = (self.known.clone(), procs.to_vec());
        let pulled = procs.clone();
        let own = lock(&known).copies.begin();
        let done = Completion::new(move |result: Result<u64, Status>| {
            let result = result.map(|number| Pull { procs: pulled, channels, number, own });
            let mut known = lock(&known);
            let result = match result {
                Ok(pull) => {
                    known.pulls.push(pull);
                    Ok(())
                }
                Err(status) => {
                    known.copies.end(own);
                    Err(status)
                }
            };
            drop(known);
            done.complete(result);
        });
        let write = |out: &mut Bodies| {
            out.list(T::PROC, &procs)?.infos(&for_host(directives))?;
            out.one(T::IOF_CHANNEL, &channels)?.one(T::SIZE, &own).map(drop)
        };
        self.ask(command::PULL_OUTPUT, write, done, answers::pull)
    }

    fn push_stdin(
        &self,
        _: &Proc,
        targets: &[Proc],
        directives: &[Info],
        bytes: &[u8],
        done: Completion<()>,
    ) -> Accepted {
        let ends = bytes.is_empty();
        let done = Completion::new(move |result| match result {
            // Its way to say that the input has ended, as it is to.
            Err(Status::ERR_IOF_COMPLETE) if ends => done.complete(Ok(())),
            result => done.complete(result),
        });
        self.order(command::PUSH_INPUT, done, |out| {
            out.list(T::PROC, targets)?.infos(&for_host(directives))?.one(T::BYTE_OBJECT, &bytes.to_vec()).map(drop)
        })
    }

    fn group(
        &self,
        operation: i64,
        group: &Nspace,
        procs: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        // The library's own blob of endpoints says nothing to another library.
        let directives: Vec<Info> =
            for_host(directives).into_iter().filter(|info| info.key != keys::GROUP_ENDPT_DATA).collect();
        let write = |out: &mut Bodies| out.one(T::STRING, group)?.list(T::PROC, procs)?.infos(&directives).map(drop);
        match operation {
            constants::group_operation::GROUP_CONSTRUCT => {
                let major = self.major;
                self.ask(command::GROUP_CONSTRUCT, write, done, move |status, body| answers::group(major, status, body))
            }
            constants::group_operation::GROUP_DESTRUCT => {
                self.ask(command::GROUP_DESTRUCT, write, done, answers::infos)
            }
            _ => Err(Status::ERR_NOT_SUPPORTED),
        }
    }
}
