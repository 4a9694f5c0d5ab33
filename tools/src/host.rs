//! The host that the launcher's PMIx server asks: what is done for ranks and tools.
//!
//! Requests of a rank are done here at once where they need nobody else: published data is kept in a [`PublishedData`],
//! texts are [logged](crate::log), and processes that connect are connected, because all live here. A request about
//! processes becomes an [`Event`] of the launcher's queue, and is answered from there: the server's thread waits for
//! nothing.
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Instant;

use anyhow::anyhow;
use instanton::data::{App, Channels, DataRange, Info, InfoList, Nspace, Proc, Query, Rank, Status, Text, Value, keys};
use instanton::server::{Accepted, Answer, Completion, Credential, Host, Infos, Published, PublishedData, Server};
use nix::unistd::Pid;

use crate::credentials::Credentials;
use crate::event::{Abort, Asked, Event, Leave, Question};
use crate::job::SESSION;
use crate::names::Names;
use crate::record::Record;
use crate::say::say;
use crate::streams::Streams;
use crate::{allocation, control, log, monitor, query, spawn};

/// Attributes that this host looks at, by the functions of its module.
pub const SUPPORTED: [(&str, &str); 13] = [
    ("publish", "PMIX_RANGE PMIX_PERSISTENCE PMIX_TIMEOUT PMIX_EVENT_CUSTOM_RANGE"),
    ("lookup", "PMIX_RANGE PMIX_WAIT PMIX_TIMEOUT PMIX_EVENT_CUSTOM_RANGE"),
    ("unpublish", "PMIX_RANGE PMIX_TIMEOUT PMIX_EVENT_CUSTOM_RANGE"),
    (
        "spawn",
        "PMIX_WDIR PMIX_SET_SESSION_CWD PMIX_PREFIX PMIX_HOST PMIX_HOSTFILE PMIX_SET_ENVAR PMIX_ADD_ENVAR \
         PMIX_UNSET_ENVAR PMIX_PREPEND_ENVAR PMIX_APPEND_ENVAR PMIX_FORKEXEC_AGENT PMIX_PERSONALITY PMIX_FWD_STDIN \
         PMIX_FWD_STDOUT PMIX_FWD_STDERR PMIX_STDIN_TGT PMIX_TAG_OUTPUT PMIX_TIMESTAMP_OUTPUT \
         PMIX_MERGE_STDERR_STDOUT PMIX_OUTPUT_TO_FILE PMIX_OUTPUT_TO_DIRECTORY PMIX_NOTIFY_COMPLETION \
         PMIX_COSPAWN_APP PMIX_NON_PMI PMIX_INDEX_ARGV PMIX_TIMEOUT PMIX_SPAWN_TIMEOUT PMIX_JOB_TIMEOUT PMIX_PSET_NAME \
         PMIX_DEBUG_STOP_ON_EXEC PMIX_DEBUG_STOP_IN_INIT PMIX_DEBUG_STOP_IN_APP \
         PMIX_DEBUGGER_DAEMONS PMIX_DEBUG_TARGET PMIX_DEBUG_JOB PMIX_DEBUG_DAEMONS_PER_NODE \
         PMIX_DEBUG_DAEMONS_PER_PROC",
    ),
    (
        "query",
        "PMIX_QUERY_NAMESPACE_INFO PMIX_QUERY_JOB_STATUS PMIX_QUERY_PROC_TABLE PMIX_QUERY_LOCAL_PROC_TABLE \
         PMIX_QUERY_SPAWN_SUPPORT PMIX_QUERY_DEBUG_SUPPORT PMIX_QUERY_MEMORY_USAGE PMIX_QUERY_REPORT_AVG \
         PMIX_QUERY_REPORT_MINMAX PMIX_QUERY_AVAILABLE_SLOTS PMIX_QUERY_STORAGE_LIST PMIX_PROC_PID PMIX_TIME_REMAINING",
    ),
    (
        "log",
        "PMIX_LOG_STDOUT PMIX_LOG_STDERR PMIX_LOG_SYSLOG PMIX_LOG_LOCAL_SYSLOG PMIX_LOG_GLOBAL_SYSLOG \
         PMIX_LOG_SYSLOG_PRI PMIX_LOG_ONCE PMIX_LOG_TAG_OUTPUT PMIX_LOG_TIMESTAMP_OUTPUT PMIX_LOG_XML_OUTPUT",
    ),
    (
        "job_control",
        "PMIX_JOB_CTRL_KILL PMIX_JOB_CTRL_TERMINATE PMIX_JOB_CTRL_SIGNAL PMIX_JOB_CTRL_PAUSE PMIX_JOB_CTRL_RESUME \
         PMIX_JOB_CTRL_CHECKPOINT PMIX_JOB_CTRL_CHECKPOINT_EVENT PMIX_JOB_CTRL_CHECKPOINT_SIGNAL",
    ),
    ("allocate", "PMIX_ALLOC_ID PMIX_ALLOC_REQ_ID PMIX_ALLOC_NUM_NODES PMIX_ALLOC_NUM_CPUS PMIX_ALLOC_NODE_LIST"),
    ("session_control", "PMIX_SESSION_TERMINATE PMIX_SESSION_PAUSE PMIX_SESSION_RESUME PMIX_SESSION_SIGNAL"),
    ("monitor", "PMIX_MONITOR_PROC_RESOURCE_USAGE PMIX_MONITOR_NODE_RESOURCE_USAGE PMIX_MONITOR_TARGET_PROCS"),
    ("get_credential", "PMIX_CRED_TYPE"),
    ("validate_credential", "PMIX_CRED_TYPE"),
    ("group", "PMIX_GROUP_ASSIGN_CONTEXT_ID"),
];

/// Tells a server which attributes its host supports.
///
/// # Errors
/// When the server does not take one in.
pub fn register_supported(server: &Server) -> anyhow::Result<()> {
    for (function, attributes) in SUPPORTED {
        let attributes: Vec<String> = attributes.split_ascii_whitespace().map(str::to_owned).collect();
        let registered = server.register_attributes(function, &attributes).wait();
        registered.map_err(|status| anyhow!("the PMIx server does not take in what {function} supports: {status}"))?;
    }
    Ok(())
}

/// Directives of a pull of output that the library or this host looks at.
const OF_PULLS: [&str; 18] = [
    keys::IOF_BUFFERING_SIZE,
    keys::IOF_BUFFERING_TIME,
    keys::IOF_CACHE_SIZE,
    keys::IOF_COPY,
    keys::IOF_DROP_NEWEST,
    keys::IOF_DROP_OLDEST,
    keys::IOF_LOCAL_OUTPUT,
    keys::IOF_OUTPUT_RAW,
    keys::IOF_RANK_OUTPUT,
    keys::IOF_REDIRECT,
    keys::IOF_STOP,
    keys::IOF_TAG_DETAILED_OUTPUT,
    keys::IOF_TAG_FULLNAME_OUTPUT,
    keys::IOF_TAG_OUTPUT,
    keys::IOF_TIMESTAMP_OUTPUT,
    keys::IOF_XML_OUTPUT,
    keys::TAG_OUTPUT,
    keys::TIMESTAMP_OUTPUT,
];

/// Bytes of the message of an abort that are shown.
const LONGEST_MESSAGE: usize = 4096;

/// Refuses attributes that are required and not among those that are served.
fn refuse_unserved(info: &[Info], served: &[&str]) -> Result<(), Status> {
    if info.iter().any(|info| info.is_unserved(served)) { Err(Status::ERR_NOT_SUPPORTED) } else { Ok(()) }
}

/// The host.
pub struct Launcher {
    pub names: Arc<Names>,
    /// The run's own name, and that of its first job.
    pub server: Nspace,
    pub first: Nspace,
    pub events: Sender<Event>,
    pub record: Arc<Record>,
    /// Done once the user is told that the record takes no more.
    pub is_unrecorded: Once,
    /// The last context id that a group was given.
    pub contexts: Mutex<u64>,
    pub streams: Streams,
    pub published: Arc<PublishedData>,
    /// Reason why a job was not registered.
    pub refusal: Arc<Mutex<Option<String>>>,
    pub credentials: Arc<Credentials>,
}

impl Launcher {
    fn tell(&self, event: Event) -> Accepted {
        // The launcher hears nothing any more once it ends; then nothing matters.
        let _ = self.events.send(event);
        Ok(Answer::Done)
    }

    /// Refuses what would be kept for a process whose job is over, as one that a rank has left behind: nobody would give it
    /// back.
    fn refuse_gone(&self, proc: &Proc) -> Result<(), Status> {
        self.names.check(std::slice::from_ref(proc)).map_err(|_| Status::ERR_UNREACH)
    }

    /// Returns whether it is a rank; else it is a tool, whose coming and going changes nothing.
    fn is_rank(&self, proc: &Proc) -> bool {
        self.names.number(&proc.nspace).is_some()
    }

    /// A tool is gone.
    fn tool_gone(&self, tool: &Proc, leave: Leave) -> Accepted {
        self.names.leave(tool);
        self.tell(Event::ToolGone(tool.clone(), leave))
    }

    /// All ranks of the first job.
    fn first_job(&self) -> Proc {
        Proc::new(self.first.clone(), Rank::WILDCARD)
    }

    /// Sends a question, which brings the way back with it.
    fn question(&self, by: &Proc, what: Asked) -> Accepted {
        self.ask(Event::Question(Question { by: by.clone(), made: Instant::now(), what }))
    }

    /// Sends an event that brings the way back with it.
    fn ask(&self, event: Event) -> Accepted {
        self.tell(event).map(|_| Answer::Later)
    }
}

const DONE: Accepted = Ok(Answer::Done);

impl Host for Launcher {
    fn client_connected(&self, proc: &Proc, _: Completion<()>) -> Accepted {
        self.tell(Event::Initialised(proc.clone()))
    }

    /// Leaves it to the server to name the tool; a rank that is one needs not attach as a rank.
    fn tool_connected(&self, info: &[Info], _: Completion<Proc>) -> Accepted {
        if let Some(Value::Pid(pid)) = info.find(keys::PROC_PID).map(|info| &info.value) {
            self.tell(Event::ToolCame(Pid::from_raw(*pid)))?;
        }
        Err(Status::ERR_NOT_SUPPORTED)
    }

    fn tool_admitted(&self, tool: &Proc) {
        if !self.is_rank(tool) {
            self.published.tool_came(&tool.nspace);
        }
        self.names.admit(tool);
    }

    fn client_finalized(&self, proc: &Proc, _: Completion<()>) -> Accepted {
        match self.is_rank(proc) {
            true => self.tell(Event::Finalized(proc.clone())),
            false => self.tool_gone(proc, Leave::Taken),
        }
    }

    /// Ends the caller's job where it names nobody, or all of that. Processes that are named are ended as by job control,
    /// and for a tool that names none, the jobs that it has started.
    fn abort(
        &self,
        proc: &Proc,
        status: i32,
        message: Option<&[u8]>,
        procs: &[Proc],
        done: Completion<()>,
    ) -> Accepted {
        let is_own = |named: &&Proc| named.nspace == proc.nspace;
        if !self.is_rank(proc) {
            // A tool ends itself; of its namespace there is nobody else.
            let others: Vec<Proc> = procs.iter().filter(|named| !is_own(named)).cloned().collect();
            return self.ask(match others.is_empty() {
                true => Event::AbortBy(proc.clone(), done),
                false => Event::Control(control::Request::end(others, done)),
            });
        }
        let message = message.unwrap_or_default();
        let message = &message[..message.len().min(LONGEST_MESSAGE)];
        let message = String::from_utf8_lossy(message).replace(char::is_control, " ");
        let abort = Abort { by: proc.clone(), status, message: message.trim().to_owned(), procs: procs.to_vec(), done };
        self.ask(Event::Abort(abort))
    }

    fn publish(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        self.publish_owned(proc, info.to_vec(), done)
    }

    fn publish_owned(&self, proc: &Proc, info: Vec<Info>, _: Completion<()>) -> Accepted {
        self.refuse_gone(proc)?;
        self.published.publish_owned(proc, info).map(|()| Answer::Done)
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        let accepted = self.published.lookup(proc, keys, info, done)?;
        // It may be the first to wait, or the first whose time is over.
        self.tell(Event::Waits)?;
        Ok(accepted)
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], _: Completion<()>) -> Accepted {
        self.published.unpublish(proc, keys, info).map(|()| Answer::Done)
    }

    fn spawn(&self, proc: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        self.spawn_owned(proc, job_info.to_vec(), apps.to_vec(), done)
    }

    fn spawn_owned(&self, proc: &Proc, info: Vec<Info>, apps: Vec<App>, done: Completion<Nspace>) -> Accepted {
        self.ask(Event::Spawn(spawn::Request {
            parent: proc.clone(),
            info,
            apps,
            made: Instant::now(),
            daemons: None,
            done,
        }))
    }

    /// All live here, if they do at all; but they share a fate from now on.
    fn connect(&self, procs: &[Proc], info: &[Info], _: Completion<()>) -> Accepted {
        refuse_unserved(info, &[])?;
        self.names.check(procs)?;
        self.tell(Event::Connected(procs.to_vec()))
    }

    fn disconnect(&self, procs: &[Proc], info: &[Info], _: Completion<()>) -> Accepted {
        refuse_unserved(info, &[])?;
        self.tell(Event::Disconnected(procs.to_vec()))
    }

    /// Nothing happens here that the server does not see itself.
    fn register_events(&self, _: &[Status], _: &[Info], _: Completion<()>) -> Accepted {
        DONE
    }

    fn deregister_events(&self, _: &[Status], _: Completion<()>) -> Accepted {
        DONE
    }

    /// No process lives beyond this node; but one that waits for a debugger says so to its launcher, and debuggers
    /// release what it has left stopped.
    fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: DataRange,
        info: &[Info],
        _: Completion<()>,
    ) -> Accepted {
        match status {
            Status::DEBUGGER_RELEASE => self.tell(Event::Released(match range {
                DataRange::NAMESPACE => Some(vec![Proc::new(source.nspace.clone(), Rank::WILDCARD)]),
                DataRange::CUSTOM => info.find(keys::EVENT_CUSTOM_RANGE).and_then(|info| info.value.as_procs()),
                _ => None,
            })),
            Status::READY_FOR_DEBUG => self.tell(Event::Stopped(source.clone(), info.find(keys::BREAKPOINT).cloned())),
            _ => DONE,
        }
    }

    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        self.question(proc, Asked::Query(query::Request { asker: proc.clone(), queries: queries.to_vec(), done }))
    }

    fn log(&self, client: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        self.log_owned(client, data.to_vec(), directives, done)
    }

    fn log_owned(&self, client: &Proc, data: Vec<Info>, directives: &[Info], done: Completion<()>) -> Accepted {
        log::log(&self.streams.feeds, client, data, directives, done)
    }

    fn job_control(
        &self,
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        if control::wants_nothing(directives) {
            return DONE;
        }
        self.question(requestor, Asked::Control(control::Request::read(requestor, targets, directives, done)?))
    }

    fn allocate(&self, client: &Proc, directive: u8, data: &[Info], done: Completion<Infos>) -> Accepted {
        let (owner, data) = (client.clone(), data.to_vec());
        self.question(client, Asked::Allocation(allocation::Request { owner, directive, data, done }))
    }

    /// There is one session: that of the run, with all of its jobs.
    fn session_control(&self, client: &Proc, session: u32, directives: &[Info], done: Completion<Infos>) -> Accepted {
        if session != SESSION {
            return Err(Status::ERR_NOT_FOUND);
        }
        self.question(client, Asked::Control(control::Request::of_session(directives, done)?))
    }

    fn monitor(
        &self,
        requestor: &Proc,
        monitor: &Info,
        _: Status,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.question(requestor, Asked::Measure(monitor::Request::read(requestor, monitor, directives, done)?))
    }

    fn get_credential(&self, proc: &Proc, directives: &[Info], done: Completion<Credential>) -> Accepted {
        self.refuse_gone(proc)?;
        self.credentials.get(proc, directives, done)
    }

    fn validate_credential(
        &self,
        _: &Proc,
        credential: &[u8],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.credentials.validate(credential, directives, done)
    }

    /// Every asker is of our own user, so that none is refused; output that has not begun is forwarded when it does.
    fn iof_pull(&self, procs: &[Proc], directives: &[Info], channels: Channels, _: Completion<()>) -> Accepted {
        refuse_unserved(directives, &OF_PULLS)?;
        self.streams.pulls.pull(procs, directives, channels);
        DONE
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        directives: &[Info],
        bytes: &[u8],
        _: Completion<()>,
    ) -> Accepted {
        // Input for the launcher, as for one that reads its own input, is for its ranks.
        let named = |target: &Proc| if target.nspace == self.server { self.first_job() } else { target.clone() };
        let targets: Vec<Proc> = targets.iter().map(named).collect();
        self.streams.inputs.push(source, &targets, directives, bytes)
    }

    /// The ends of ranks are known from the kernel. That of a tool comes in its turn: what it has asked for before is
    /// begun.
    fn client_lost(&self, proc: &Proc, _: Status) {
        if !self.is_rank(proc) {
            let _ = self.tool_gone(proc, Leave::None);
        }
    }

    /// All members are here, so there is no other host to ask: a group gets its context id. The server finds out which
    /// members are added by others.
    fn group(&self, _: i64, _: &Nspace, procs: &[Proc], directives: &[Info], done: Completion<Infos>) -> Accepted {
        let by_leaders = [keys::GROUP_BOOTSTRAP, keys::GROUP_ADD_MEMBERS];
        if procs.is_empty() || by_leaders.iter().any(|key| directives.find(key).is_some()) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let mut infos = Vec::new();
        if directives.is_set(keys::GROUP_ASSIGN_CONTEXT_ID) {
            let mut last = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            infos.push(Info::new(keys::GROUP_CONTEXT_ID, Value::Size(*last)));
        }
        done.complete(Ok((Status::SUCCESS, infos)));
        Ok(Answer::Later)
    }

    /// The process that comes after this one does the clean-ups in the server's place, should it be killed. They are on
    /// record before the rank goes on.
    fn cleanup_registered(&self, proc: &Proc, directives: &[Info]) {
        if let Err(error) = self.record.append(&proc.nspace, directives) {
            let pid = std::process::id();
            self.is_unrecorded.call_once(|| {
                say(&format!(
                    "clean-ups that ranks register cannot be recorded ({error:#}): they would not be done if this \
                     launcher, process {pid}, were killed"
                ));
            });
        }
    }

    /// A job is known from before its registration on.
    fn namespace_awaited(&self, nspace: &Nspace, _: Completion<()>) -> Accepted {
        self.names.check(&[Proc::new(nspace.clone(), Rank::WILDCARD)]).map(|()| Answer::Done)
    }

    fn not_registered(&self, _: &Nspace, reason: &str) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
    }
}
