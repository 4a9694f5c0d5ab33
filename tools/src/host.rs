//! The PMIx server in the launcher, and the host that it asks: all that this command knows of the library's server.
//!
//! Everything a rank asks of its host is about its own life here: that it came, that it went, that the job should end.
//! What the server tells becomes an [`Event`] of the launcher's queue, and is answered at once: the launcher never keeps
//! a rank waiting.
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};
use instanton::data::{Info, InfoList, Nspace, Proc, Status, Value, keys};
use instanton::server::{self, Accepted, Answer, Completion, Host, Infos, Server, ServerConfig, ToolSupport};
use nix::unistd::{getgid, getuid};

use crate::environment::Environment;
use crate::job::Job;
use crate::launch::Event;
use crate::link;

/// The machine's topology, which takes longest to find out: it is begun before anything else, and waited for before the first rank
/// is born, so that no rank finds it missing and none inherits what is open meanwhile.
pub struct Topology(thread::JoinHandle<Option<String>>);

impl Topology {
    /// Begins to find it out.
    pub fn ask() -> Self {
        Self(thread::spawn(instanton::sys::hwloc::topology_xml))
    }
}

/// The server with one job in it.
pub struct Pmix {
    server: Server,
    procs: Vec<Proc>,
}

impl Pmix {
    /// Starts a server that knows `job`.
    pub fn start(
        job: &Job,
        topology: Topology,
        path_socket: bool,
        events: Sender<Event>,
        guardian: UnixStream,
    ) -> Result<Self> {
        let config = ServerConfig {
            nspace: job.server.clone(),
            tmpdir: job.session.top().into(),
            path_socket,
            // Tools name the process that the user knows, which is the guardian.
            tools: Some(ToolSupport { pid: Some(parent_id() as i32), ..ToolSupport::default() }),
            ..ServerConfig::default()
        };
        let server = Server::start(
            config,
            Arc::new(Launcher { job: job.nspace.clone(), events, guardian, contexts: Mutex::new(0) }),
        )
        .map_err(|error| anyhow!("the PMIx server does not start: {error}"))?;
        let procs: Vec<Proc> = job.ranks().map(|(rank, _)| job.proc(rank)).collect();
        let (done, registered) = mpsc::channel();
        for proc in &procs {
            let done = done.clone();
            let done = move |result| {
                let _ = done.send(result);
            };
            server
                .register_client(proc, getuid().as_raw(), getgid().as_raw(), None, done)
                .map_err(refused("a rank"))?;
        }
        drop(done);
        // Without a topology each rank finds it out for itself.
        let topology = topology.0.join().ok().flatten();
        server
            .register_nspace_wait(&job.nspace, procs.len(), &job.infos(topology.as_deref()))
            .map_err(refused("the job"))?;
        registered.into_iter().collect::<Result<(), Status>>().map_err(refused("a rank"))?;
        Ok(Self { server, procs })
    }

    /// Adds what a rank needs to find the server.
    pub fn set_up(&self, rank: u32, environment: &mut Environment) -> Result<()> {
        self.server.setup_fork(&self.procs[rank as usize], environment).map_err(refused("a rank's environment"))
    }

    /// A rank's process has ended.
    pub fn rank_ended(&self, rank: u32) {
        self.server.client_died(&self.procs[rank as usize]);
    }

    /// Ends the server, after the clean-ups that ranks have asked for.
    pub fn finish(self) {
        self.server.finalize();
    }
}

fn refused(what: &'static str) -> impl Fn(Status) -> anyhow::Error {
    move |status| anyhow!("the PMIx server refuses {what}: {status}")
}

/// Does the clean-ups that ranks had registered with a launcher that was killed.
pub fn clean_up(calls: &[Vec<Info>]) {
    server::clean_up(calls, getuid().as_raw(), getgid().as_raw());
}

struct Launcher {
    job: Nspace,
    events: Sender<Event>,
    guardian: UnixStream,
    /// The last context id that a group was given.
    contexts: Mutex<u64>,
}

impl Launcher {
    fn tell(&self, event: Event) -> Accepted {
        // The launcher hears nothing any more once it ends; then nothing matters.
        let _ = self.events.send(event);
        Ok(Answer::Done)
    }

    /// Whether it is a rank; else it is a tool, whose coming and going is nobody's business.
    fn is_rank(&self, proc: &Proc) -> bool {
        proc.nspace == self.job
    }
}

impl Host for Launcher {
    fn client_connected(&self, proc: &Proc, _: Option<usize>, _: Completion<()>) -> Accepted {
        self.tell(Event::Initialised(proc.rank.0))
    }

    fn client_finalized(&self, proc: &Proc, _: Option<usize>, _: Completion<()>) -> Accepted {
        if !self.is_rank(proc) {
            return Ok(Answer::Done);
        }
        self.tell(Event::Finalized(proc.rank.0))
    }

    /// Ends the whole job, whichever processes are named: what remained of it could not go on.
    fn abort(
        &self,
        proc: &Proc,
        _: Option<usize>,
        status: i32,
        message: Option<&[u8]>,
        _: &[Proc],
        _: Completion<()>,
    ) -> Accepted {
        if !self.is_rank(proc) {
            // What a tool wants ended it says by job control.
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let message = String::from_utf8_lossy(message.unwrap_or_default()).replace(char::is_control, " ");
        self.tell(Event::Abort(proc.rank.0, status, message.trim().to_owned()))
    }

    /// All members are here, so there is nobody to meet: a group gets its context id.
    fn group(&self, _: i64, _: &Nspace, _: &[Proc], directives: &[Info], done: Completion<Infos>) -> Accepted {
        let mut infos = Vec::new();
        if directives.is_set(keys::GROUP_ASSIGN_CONTEXT_ID) {
            let mut last = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            infos.push(Info::new(keys::GROUP_CONTEXT_ID, Value::Size(*last)));
        }
        done.complete(Ok((Status::SUCCESS, infos)));
        Ok(Answer::Later)
    }

    /// The guardian does them in the server's place should this process be killed. It knows before the rank goes on.
    fn cleanup_registered(&self, _: &Proc, directives: &[Info]) {
        // Without a guardian the launcher is about to end the job by itself.
        let _ = link::tell(&self.guardian, directives);
    }
}
