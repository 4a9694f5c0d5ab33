//! The server of a node: what a resource manager or a launcher embeds.
//!
//! Actors: the [`Server`] handle, which any thread may use; one control thread with all the state; the program that
//! embeds the server, as a [`Host`]; and peers, the processes of the jobs, which come in through a door. The control
//! thread sleeps until a peer, the end of a process, a time limit or the handle's mailbox wakes it.
//!
//! | file | what happens there |
//! |---|---|
//! | `call` | calls on the handle that have a result |
//! | `control_thread` | the loop that everything happens in |
//! | `reactor` | the steps that the loop takes, without the poll |
//! | `doors` | the protocols by which peers come: the one file that names them |
//! | `router` | the way of each request, answer and deadline to its room |
//! | `ctx` | what rooms share: peers and their accounts, subscriptions, deadlines, the host, the outbox |
//! | `admission` | which peers are let in, and as whom; tools |
//! | `registration`, `sessions` | how the host tells of sessions, namespaces and processes |
//! | `jobs` | namespaces and their processes; a job's data, in the store |
//! | `collective`, `fence` | processes that wait for each other, and what travels between nodes |
//! | `connect` | who is connected with whom |
//! | `gets` | pending gets: look-ups that wait for what processes post |
//! | `events` | events |
//! | `groups` | groups of processes: those there are, and the ways to make one |
//! | `forward`, `query`, `spawn` | what the host answers |
//! | `monitors` | heartbeats and files as signs of life |
//! | `published` | published data, for a host that wants to keep it here |
//! | `iof` | output of processes, for those who pull it; input for them |
//! | `program` | the program that embeds the server, when it asks like a client |
//! | `waiting` | a report of what processes are at and whom they wait for |
//! | `load` | a report of requests, of what jobs hold, and of their shared memory |
//! | `psets` | process sets that the host has defined |
//! | `cleanup` | what is removed after a process |
//! | `fork_environment` | the environment of a process to be |
//!
//! A call on the handle that has a result returns it as a [`Pending`]: once that is waited for, awaited or given a
//! callback, a command goes to the control thread, which runs callbacks as well. There nothing can be waited for
//! (`ERR_WOULD_BLOCK`). Calls are worked off in the order in which they were sent. When the server has ended, they fail
//! (`ERR_INIT`).
//!
//! When a process dies, nobody is left hanging: fences and look-ups that wait for it end, and what it registered for
//! clean-up is removed. When the server dies, the kernel frees the segments and closes the doors, and clients see
//! the end of their connection.
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../../examples/server.rs")]
//! ```
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::data::{Channels, DataRange, Info, Key, Load, Nspace, Proc, Rank, Status, Text, Value, WaitReport, keys};
use crate::pending::{Callback, Pending};

mod absorptions;
mod admission;
mod call;
mod cleanup;
mod collective;
mod commits;
mod config;
mod connect;
mod control_thread;
mod ctx;
mod doors;
mod events;
mod fence;
mod fork_environment;
mod forward;
mod gets;
mod groups;
mod host;
mod iof;
mod jobs;
mod load;
mod mailbox;
mod monitors;
mod moves;
mod program;
#[cfg(feature = "client")]
mod program_door;
mod psets;
mod published;
mod query;
mod reactor;
mod registration;
mod router;
mod sessions;
mod spawn;
mod stock_places;
#[cfg(test)]
mod tests;
mod trust;
mod waiting;
mod watch;

pub use crate::message::MEANT;
pub use cleanup::leftovers::clean_up;
#[cfg(feature = "client")]
pub(crate) use collective::exchange::of_host as blob_of_host;
pub use collective::exchange::of_the_gone as part_of_the_gone;
pub use config::{ServerConfig, ServerError, ToolSupport, parse_memory};
use ctx::event::Event;
pub use doors::Uri;
pub use fork_environment::{EnvSink, ForkEnvironment};
pub use gets::blob::Blob;
pub use groups::{GroupNews, group_news, guest_failed, leader_lost, member_failed};
pub use host::{Accepted, Answer, Completion, Credential, Host, Infos, NoHost, Operation, Published};
use iof::stream::Piece;
use mailbox::Mailbox;
pub use published::{NODE, PublishedData};
use router::Router;
pub use stock_places::{StockInterfaces, StockPorts};

/// An attribute of `register_nspace` (BOOL): take this job's token without holding uid and gid of a peer against the
/// registration, for containers whose user namespace shows other numbers.
pub const FOREIGN_IDS: &str = "instanton.foreign.ids";

/// An attribute of `PMIx_server_init` (an integer of bytes, or a string such as "128M"): most bytes that the processes
/// of one job make the server hold, see [`ServerConfig::job_memory`].
pub const JOB_MEMORY: &str = "instanton.job.memory";

/// An attribute of `PMIx_server_init`, an amount as that of [`JOB_MEMORY`]: most bytes that all jobs and tools of one user
/// make the server hold together, see [`ServerConfig::user_memory`].
pub const USER_MEMORY: &str = "instanton.user.memory";

/// An attribute of what a host is told of a collective that has failed on this node (BOOL), beside
/// `PMIX_LOCAL_COLLECTIVE_STATUS`: a participant had arrived here, and knows of the failure. Its next collective is not
/// this one, so the failure stays that of the other nodes when another participant of this node is started anew.
pub const FAILURE_IS_KNOWN: &str = "instanton.failure.is.known";

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    mailbox: Mailbox<Router>,
    fork_environment: ForkEnvironment,
    uri: Option<Uri>,
    report: Option<String>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Opens the doors and starts the control thread. Several servers may live in one process.
    ///
    /// # Errors
    /// When the system refuses a socket, a thread or randomness.
    pub fn start(config: ServerConfig, host: Arc<dyn Host>) -> Result<Server, ServerError> {
        config::job_memory_of_environment()?;
        let config = Arc::new(config);
        let control_thread::Started { mailbox, tools_uri, report, fork_environment, thread } =
            control_thread::start(config.clone(), host)?;
        Ok(Server { config, mailbox, fork_environment, uri: tools_uri, report, thread: Some(thread) })
    }

    /// Returns the address at which tools reach this server; none when it accepts none.
    pub fn uri(&self) -> Option<&Uri> {
        self.uri.as_ref()
    }

    /// Returns the lines of a file by which tools reach this server (`file:` and its name as their address): an address
    /// and a release for those on a stock library, where they are let in, then [`uri`](Self::uri). None when it accepts
    /// no tools.
    pub fn report(&self) -> Option<&str> {
        self.report.as_deref()
    }

    /// The server's own name.
    pub fn proc(&self) -> Proc {
        Proc::new(self.config.nspace.clone(), self.config.rank)
    }

    /// The name of this node.
    pub fn hostname(&self) -> &Text {
        &self.config.hostname
    }

    /// Sets the variables that a process needs to find this server, and removes those that an outer launcher left.
    /// Takes no lock and waits for nothing: it may run in a forked child of a threaded process. The namespace or the
    /// client must be registered.
    ///
    /// ```
    /// # use std::{process::Command, sync::Arc};
    /// # use instanton::{data::{Nspace, Proc, Rank}, server::{NoHost, Server, ServerConfig}};
    /// let server = Server::start(ServerConfig::default(), Arc::new(NoHost))?;
    /// let rank = Proc::new(Nspace::new("job@1")?, Rank(0));
    /// server.register_nspace(&rank.nspace, 1, &[]).wait()?;
    /// let mut command = Command::new("printenv");
    /// server.setup_fork(&rank, &mut command)?;
    /// let output = command.arg("PMIX_NAMESPACE").output()?;
    /// assert_eq!(output.stdout, b"job@1\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when neither is.
    pub fn setup_fork(&self, proc: &Proc, env: &mut dyn EnvSink) -> Result<(), Status> {
        self.fork_environment.setup(proc, env)
    }

    /// [`setup_fork`](Server::setup_fork) for a caller that cannot reach this handle without a lock of its own.
    pub fn fork_environment(&self) -> ForkEnvironment {
        self.fork_environment.clone()
    }

    /// Has another host asked from now on. The one before answers what it has taken over.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn set_host(&self, host: Arc<dyn Host>) -> Result<(), Status> {
        self.mailbox.post(move |router| router.cx.host = host)
    }

    /// Lets the server's thread call something when it is through with what it is at: outside of any method of the
    /// host, even when this is called from one.
    ///
    /// # Errors
    /// When the server has ended; nothing is called then.
    pub fn call_later(&self, call: impl FnOnce() + Send + 'static) -> Result<(), Status> {
        self.mailbox.post(move |router| router.cx.calls.push(Box::new(call)))
    }

    /// Collects what the processes of a job to be launched will need on every node, for the host to carry
    /// there: the environment of its programming library, where `info` asks for that
    /// (`PMIX_SETUP_APP_ENVARS`) and names a known one.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn setup_application(&self, _nspace: &Nspace, info: &[Info]) -> Pending<Vec<Info>, Status> {
        let collected = fork_environment::for_application(info, std::env::vars_os());
        self.command(move |_| Ok(collected))
    }

    /// Takes what [`setup_application`](Server::setup_application) has collected, for the processes of that namespace
    /// here: their environment will have it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for what describes no variable, or makes one longer than the kernel takes, `ERR_OUT_OF_RESOURCE` for
    /// more than 8192 changes; when the server has ended.
    pub fn setup_local_support(&self, nspace: &Nspace, info: &[Info]) -> Pending<(), Status> {
        let (nspace, info) = (nspace.clone(), info.to_vec());
        self.command(move |router| {
            router.environments.setup_local_support(&mut router.cx, &mut router.jobs, &nspace, &info)
        })
    }

    /// Registers information that every namespace has which is registered later.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn register_resources(&self, info: &[Info]) -> Pending<(), Status> {
        let info = info.to_vec();
        self.command(move |router| {
            router.jobs.common.register_resources(info);
            Ok(())
        })
    }

    /// Takes such information back, whatever its value; namespaces that are registered keep it.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn deregister_resources(&self, info: &[Info]) -> Pending<(), Status> {
        let info = info.to_vec();
        self.command(move |router| {
            router.jobs.common.deregister_resources(&info);
            Ok(())
        })
    }

    /// Collects what is known of this node's hardware, as far as the hwloc library can be found: its name and its
    /// topology.
    ///
    /// # Errors
    /// When there is no thread to look in.
    pub fn collect_inventory(&self) -> Pending<Vec<Info>, Status> {
        let hostname = self.config.hostname.clone();
        self.prepare(move |mailbox, callback| {
            let mailbox = mailbox.clone();
            let look = move || {
                let mut inventory = vec![Info::new(keys::HOSTNAME, Value::String(Some(hostname)))];
                let topology = crate::sys::hwloc::topology_xml();
                inventory.extend(topology.map(|xml| Info::new(keys::HWLOC_XML_V2, xml.as_str())));
                // A server that has ended has nobody waiting.
                let _ = mailbox.post(move |router| router.cx.finish(callback, Ok(inventory)));
            };
            // It takes longer than anybody should wait for this server.
            let thread = crate::sys::signals::spawn_without_signals("instanton-inventory", look);
            thread.map(drop).map_err(|_| Status::ERR_OUT_OF_RESOURCE)
        })
    }

    /// Delivers output of a process to the clients here that have asked for it; no bytes where it ends. Answers when
    /// the server has taken the output over.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn iof_deliver(&self, source: &Proc, channel: Channels, bytes: &[u8], info: &[Info]) -> Pending<(), Status> {
        let piece = Piece { source: source.clone(), channel, bytes: bytes.to_vec(), info: info.to_vec() };
        self.command(move |router| {
            router.outputs.deliver(&mut router.cx, &router.jobs, piece);
            Ok(())
        })
    }

    /// Answers when everybody who pulls output has read what was delivered, or after so long: before the server ends,
    /// say.
    ///
    /// # Errors
    /// `ERR_TIMEOUT` when somebody has not.
    pub fn iof_flush(&self, patience: Duration) -> Pending<(), Status> {
        self.post(move |router, callback| router.outputs.flush(&mut router.cx, patience, callback))
    }

    /// Says which attributes the host supports for one function of its module
    /// (`PMIx_Register_attributes`), by their names.
    ///
    /// # Errors
    /// `ERR_REPEAT_ATTR_REGISTRATION` for a function of which that was said.
    pub fn register_attributes(&self, function: &str, attributes: &[String]) -> Pending<(), Status> {
        let (function, attributes) = (function.to_owned(), attributes.to_vec());
        self.command(move |router| router.host_support.register(&function, &attributes))
    }

    /// Stops those who push input to processes through this server, or lets them go on
    /// (`PMIx_server_IOF_flow_control`). A source without a namespace stands for everybody.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for channels that nobody pushes to.
    pub fn iof_flow_control(&self, source: &Proc, channels: Channels, stops: bool) -> Pending<(), Status> {
        let source = source.clone();
        self.prepare(move |mailbox, callback: Callback<(), Status>| {
            if !iof::input::can_be_stopped(channels) {
                return Err(Status::ERR_NOT_SUPPORTED);
            }
            mailbox.post(move |router| {
                match stops {
                    true => router.inputs.stop(&source),
                    false => router.inputs.resume(&mut router.cx, &source),
                }
                router.cx.finish(callback, Ok(()));
            })
        })
    }

    /// The job information of the namespaces that these processes are of, each once (`PMIx_server_collect_job_info`).
    /// Namespaces that are not known are left out.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` when none is known, `ERR_BAD_PARAM` without processes.
    pub fn collect_job_info(&self, procs: &[Proc]) -> Pending<Vec<(Nspace, Vec<Info>)>, Status> {
        let mut names: Vec<Nspace> = procs.iter().map(|proc| proc.nspace.clone()).collect();
        names.sort_unstable();
        names.dedup();
        self.command(move |router| {
            if names.is_empty() {
                return Err(Status::ERR_BAD_PARAM);
            }
            let known = names.into_iter().filter_map(|name| {
                let all = router.jobs.store(&name)?.all(Rank::WILDCARD, None).ok()?;
                Some((name, all))
            });
            let known: Vec<_> = known.collect();
            if known.is_empty() { Err(Status::ERR_NOT_FOUND) } else { Ok(known) }
        })
    }

    /// Gives some processes a name. The processes of this node are told of it (`PROCESS_SET_DEFINE`), and can ask for
    /// it.
    ///
    /// # Errors
    /// `ERR_EXISTS` for a name that is taken, `ERR_BAD_PARAM` for one that is none.
    pub fn define_process_set(&self, name: &Text, members: &[Proc]) -> Pending<(), Status> {
        let (name, members) = (name.clone(), members.to_vec());
        self.command(move |router| router.process_sets.define(&mut router.cx, name, members))
    }

    /// Forgets such a name.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` for a name that nobody has.
    pub fn delete_process_set(&self, name: &Text) -> Pending<(), Status> {
        let name = name.clone();
        self.command(move |router| router.process_sets.delete(&mut router.cx, name))
    }

    /// Reports what the processes of all jobs on this node are at, and whom they wait for. Tools ask for it by the key
    /// [`WAITING`](crate::data::WAITING).
    ///
    /// # Errors
    /// When the server has ended.
    pub fn waiting(&self) -> Pending<WaitReport, Status> {
        self.command(|router| {
            let Router { cx, jobs, collectives, fences, gets, groups, .. } = router;
            Ok(waiting::Rooms { jobs, collectives, fences, gets, groups }.report(cx, jobs.seen_by(|_| true)))
        })
    }

    /// Makes a report of the server's load: requests by kind, and what all jobs hold.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn load(&self) -> Pending<Load, Status> {
        self.command(|router| {
            let own = router.cx.own_name();
            Ok(load::report(&router.cx, &router.jobs, &own, None))
        })
    }

    /// Fetches the data that a process of this node has posted, for another node's server; answers once it has posted
    /// something.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND`, `ERR_TIMEOUT`, ... as a client's Get has them; `ERR_OUT_OF_RESOURCE` where the job of the
    /// process may not hold what is to be sent.
    pub fn dmodex_request(&self, proc: &Proc, info: &[Info]) -> Pending<Blob, Status> {
        let (proc, info) = (proc.clone(), info.to_vec());
        self.post(move |router, callback| {
            router.gets.direct_modex.request(&mut router.cx, &router.jobs, proc, &info, callback);
        })
    }

    /// Looks a key up as a client's Get would.
    ///
    /// # Errors
    /// The errors of a client's Get.
    pub fn get(&self, proc: &Proc, key: impl AsRef<[u8]>, info: &[Info]) -> Pending<Value, Status> {
        let key = Key::new(key).map_err(|_| Status::ERR_BAD_PARAM);
        let (proc, info) = (proc.clone(), info.to_vec());
        self.prepare(move |mailbox, callback| {
            let key = key?;
            mailbox.post(move |router| {
                router.gets.get_for_program(&mut router.cx, &router.jobs, proc, key, &info, callback);
            })
        })
    }

    /// Raises an event: to the clients here that `range` reaches, and through the host where it reaches further.
    ///
    /// # Errors
    /// The host's status.
    pub fn notify_event(&self, status: Status, source: &Proc, range: DataRange, info: &[Info]) -> Pending<(), Status> {
        let event = Event { status, source: source.clone(), range, info: info.to_vec(), vote: None };
        self.post(move |router, callback| router.notify_from_host(event, callback))
    }

    /// Checks that nothing is left of any job, for tests that have ended them all.
    ///
    /// # Errors
    /// Names what is left.
    #[doc(hidden)]
    pub fn check_empty(&self) -> Result<(), String> {
        let (tell, told) = std::sync::mpsc::channel();
        let asked = self.mailbox.post(move |router| _ = tell.send(router.check_empty()));
        asked.map_err(|status| status.to_string())?;
        told.recv().unwrap_or_else(|_| Err("the server has ended".into()))
    }

    /// The way for the program that this server is part of.
    #[cfg(feature = "client")]
    pub(crate) fn program_door(&self) -> program_door::ProgramDoor {
        let thread = self.thread.as_ref().map(|thread| thread.thread().id());
        program_door::ProgramDoor { mailbox: self.mailbox.clone(), thread }
    }

    /// Returns whether the caller runs on this server's control thread, in a callback or a method of the
    /// host: it must not wait there.
    pub fn is_own_thread(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| self.on_control_thread(thread))
    }

    /// Ends the server: connections are cut, clean-ups done, segments freed. Returns when all that is over, except on
    /// the control thread itself, where it only begins.
    pub fn finalize(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let _ = self.mailbox.post(|router| router.stop());
        if !self.on_control_thread(&thread) {
            // A control thread that panicked has ended as well.
            let _ = thread.join();
        }
    }

    fn on_control_thread(&self, thread: &thread::JoinHandle<()>) -> bool {
        thread.thread().id() == thread::current().id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
