//! Upcalls of a server to the program that it is embedded in: a resource manager's daemon, a launcher.
//!
//! The library is a messenger. The [`Host`] does everything that reaches beyond this node, starts or ends processes or
//! needs a policy, with one method for each callback of the Standard's server module. Methods run on the server's
//! control thread and with no lock held: they must not block, and may call back into the [`Server`](super::Server) (but
//! not [wait](crate::Pending::wait) for it).
//!
//! A method takes the request over with `Ok(Answer::Later)` and completes its [`Completion`] whenever it likes, from
//! any thread, also before it returns. `Ok(Answer::Done)` says that it is done already, and an error that it will not
//! be: the completion is not looked at in either case. A completion that is dropped is no answer: what waits for it
//! ends by a time limit, or when the process that asked dies.
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::data::{App, Channels, DataRange, Info, Nspace, Posted, Proc, Query, ResourceUnit, Status, Text};
pub use crate::message::{Credential, Infos, Published};
pub use crate::server::collective::signature::Operation;
use crate::sys::later;

/// Way in which a host took a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The completion will be completed.
    Later,
    /// The request is done (`PMIX_OPERATION_SUCCEEDED`): the completion never will be.
    Done,
}

/// Result of a host's method; an error means that the host does not do it, and never completes the completion.
pub type Accepted = Result<Answer, Status>;

/// Answer of a host.
pub(super) enum Answered<T> {
    Is(Result<T, Status>),
    /// So many bytes, which are still to be made.
    WillBe(usize, Box<dyn FnOnce() -> T + Send>),
}

impl<T> Answered<T> {
    /// The answer, made now where it is not.
    pub(super) fn get(self) -> Result<T, Status> {
        match self {
            Answered::Is(result) => result,
            Answered::WillBe(_, make) => Ok(make()),
        }
    }
}

/// The way back from a host: completed at most once, from any thread.
pub struct Completion<T>(Box<dyn FnOnce(Answered<T>) + Send>);

impl<T: 'static> Completion<T> {
    /// A completion that calls `done`.
    pub fn new(done: impl FnOnce(Result<T, Status>) + Send + 'static) -> Self {
        Completion(Box::new(|answered| done(answered.get())))
    }

    /// A completion that calls `done`, be the answer made or not.
    pub(super) fn of(done: impl FnOnce(Answered<T>) + Send + 'static) -> Self {
        Completion(Box::new(done))
    }

    /// Gives the answer.
    pub fn complete(self, result: Result<T, Status>) {
        (self.0)(Answered::Is(result));
    }

    /// Gives an answer of about so many bytes, which is made when it is needed. Where it is the answer to a process, a
    /// thread of the server makes it: it may take long.
    pub fn complete_with(self, bytes: usize, make: impl FnOnce() -> T + Send + 'static) {
        (self.0)(Answered::WillBe(bytes, Box::new(make)));
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

const NO: Accepted = Err(Status::ERR_NOT_SUPPORTED);

/// The program that a server is embedded in. Every method has a default: not supported.
#[allow(unused_variables, reason = "the defaults look at nothing")]
pub trait Host: Send + Sync + 'static {
    /// A client called Init, and waits. Not supported counts as yes; an error refuses it with that status. A host that
    /// does not answer within [`host_answer_deadline`](super::ServerConfig::host_answer_deadline) refuses it.
    fn client_connected(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        NO
    }

    /// As [`client_connected`](Host::client_connected), with the attributes that the client gives of itself.
    fn client_connected2(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        self.client_connected(proc, done)
    }

    /// A client called Finalize, and waits; not supported counts as yes, and so does no answer within
    /// [`host_farewell_deadline`](super::ServerConfig::host_farewell_deadline).
    fn client_finalized(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        NO
    }

    /// A client is gone and never called Finalize: `ERR_PROC_TERM_WO_SYNC` when its process has ended,
    /// `ERR_LOST_CONNECTION` when only its connection has. The Standard's module has no such callback; its
    /// hosts hear of it as an event.
    fn client_lost(&self, proc: &Proc, status: Status) {}

    /// A client commits these values, which the server stores. The Standard's module has no such callback; a host that
    /// keeps posted data itself hears of it here.
    fn committed(&self, proc: &Proc, entries: &[Posted]) {}

    /// A client asks that processes be ended with `status`, whatever that is; no processes means its whole namespace.
    /// The client stays blocked until the answer.
    fn abort(
        &self,
        proc: &Proc,
        status: i32,
        message: Option<&[u8]>,
        procs: &[Proc],
        done: Completion<()>,
    ) -> Accepted {
        NO
    }

    /// All local participants of a fence have arrived and others live elsewhere: meet them. `data` is what this
    /// node adds (empty: nothing); the answer is what all nodes add, one after the other in any order, this
    /// node's own included or not.
    fn fence_nb(&self, procs: &[Proc], info: &[Info], data: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        NO
    }

    /// The time limit of a collective has passed here, which this host has been asked for and has not answered. A host
    /// that returns `Ok` ends it for all nodes, and answers what it was asked: with `ERR_TIMEOUT`, or with what all have
    /// met for. So all nodes are told the same. With an error this node's processes are told `ERR_TIMEOUT` at once, and
    /// those of other nodes may succeed. The Standard's module has no such callback.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED`, as by default, or whatever the host likes.
    fn withdraw(&self, operation: &Operation, procs: &[Proc]) -> Result<(), Status> {
        Err(Status::ERR_NOT_SUPPORTED)
    }

    /// Fetch what a process on another node has posted: its node's server answers
    /// [`dmodex_request`](super::Server::dmodex_request), and the answer is that blob.
    fn direct_modex(&self, proc: &Proc, info: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        NO
    }

    /// Publish data for a client.
    fn publish(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        NO
    }

    /// As [`publish`](Host::publish), with what is published given away: a host that keeps it copies nothing.
    fn publish_owned(&self, proc: &Proc, info: Vec<Info>, done: Completion<()>) -> Accepted {
        let accepted = self.publish(proc, &info, done);
        let_go(info);
        accepted
    }

    /// Look published data up.
    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        NO
    }

    /// Take published data back; no keys means all that the client has published.
    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<()>) -> Accepted {
        NO
    }

    /// Start a job; answered with its namespace once all its processes have started.
    fn spawn(&self, proc: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        NO
    }

    /// As [`spawn`](Host::spawn), with the request given away: a host that keeps it copies nothing.
    fn spawn_owned(&self, proc: &Proc, job_info: Vec<Info>, apps: Vec<App>, done: Completion<Nspace>) -> Accepted {
        let accepted = self.spawn(proc, &job_info, &apps, done);
        later::drop_sized(apps.iter().map(App::size).sum(), apps);
        let_go(job_info);
        accepted
    }

    /// Connect processes. `ERR_NOT_SUPPORTED` is taken for a yes where all of them run on this node.
    fn connect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        NO
    }

    /// Undo a connect; the same holds.
    fn disconnect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        NO
    }

    /// Somebody here wants these events: codes of the environment, or outside the Standard's range. Once for each code.
    fn register_events(&self, codes: &[Status], info: &[Info], done: Completion<()>) -> Accepted {
        NO
    }

    /// Nobody here wants these events any more.
    fn deregister_events(&self, codes: &[Status], done: Completion<()>) -> Accepted {
        NO
    }

    /// Accept connections on that socket in the library's place and hand each one to `accepted`.
    fn listener(&self, listening: BorrowedFd<'_>, accepted: Box<dyn Fn(OwnedFd) + Send + Sync>) -> Accepted {
        NO
    }

    /// Spread an event beyond this node. The answer says that it is on its way, not that it has arrived.
    fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: DataRange,
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        NO
    }

    /// Answer a query.
    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        NO
    }

    /// A tool asks to be let in; the host alone decides, and names it.
    fn tool_connected(&self, info: &[Info], done: Completion<Proc>) -> Accepted {
        NO
    }

    /// As [`tool_connected`](Host::tool_connected); a host that has this one can refuse at once.
    fn tool_connected2(&self, info: &[Info], done: Completion<Proc>) -> Accepted {
        self.tool_connected(info, done)
    }

    /// A tool is let in, by the name that it came with or that the host or this server has given it. Its end is told as
    /// a client's. The Standard's module has no such callback.
    fn tool_admitted(&self, tool: &Proc) {}

    /// Log for a client.
    fn log(&self, client: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        NO
    }

    /// As [`log`](Host::log); a host that has this one can refuse at once.
    fn log2(&self, client: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        self.log(client, data, directives, done)
    }

    /// As [`log2`](Host::log2), with the data given away: a host that keeps it copies nothing.
    fn log_owned(&self, client: &Proc, data: Vec<Info>, directives: &[Info], done: Completion<()>) -> Accepted {
        let accepted = self.log2(client, &data, directives, done);
        let_go(data);
        accepted
    }

    /// Change an allocation; `directive` is a `constants::alloc_directive`.
    fn allocate(&self, client: &Proc, directive: u8, data: &[Info], done: Completion<Infos>) -> Accepted {
        NO
    }

    /// Control processes; no targets means the caller's namespace. The library serves the registration of clean-ups
    /// itself.
    fn job_control(
        &self,
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        NO
    }

    /// A client registered clean-ups (these attributes of job control), which the library will do itself. A host that
    /// is to do them in its place, should this process be killed, keeps them and calls [`clean_up`](super::clean_up).
    /// The client waits until this returns.
    fn cleanup_registered(&self, proc: &Proc, directives: &[Info]) {}

    /// Processes wait for this namespace to be registered. One that the host knows, or will know, is waited for; with an
    /// error, all who wait get that status. The Standard's module has no such callback, and without it all are waited for.
    fn namespace_awaited(&self, nspace: &Nspace, done: Completion<()>) -> Accepted {
        NO
    }

    /// A namespace is not registered, as the host is told by a status next; this is the reason in words, with what the
    /// system refused.
    fn not_registered(&self, nspace: &Nspace, reason: &str) {}

    /// Monitor a process in a way the library does not, raising `error` when it stalls.
    fn monitor(
        &self,
        requestor: &Proc,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        NO
    }

    /// Make a credential.
    fn get_credential(&self, proc: &Proc, directives: &[Info], done: Completion<Credential>) -> Accepted {
        NO
    }

    /// Judge a credential.
    fn validate_credential(
        &self,
        proc: &Proc,
        credential: &[u8],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        NO
    }

    /// Forward the output of processes to this server. This call with `PMIX_IOF_STOP` besides says that whoever asked
    /// for it wants it no more.
    fn iof_pull(&self, procs: &[Proc], directives: &[Info], channels: Channels, done: Completion<()>) -> Accepted {
        NO
    }

    /// Forward input to processes.
    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        directives: &[Info],
        bytes: &[u8],
        done: Completion<()>,
    ) -> Accepted {
        NO
    }

    /// Do a group's operation across nodes; `operation` is a `constants::group_operation`. Each node is asked once,
    /// with those who take part.
    ///
    /// A leader that knows only how many leaders there are (`PMIX_GROUP_BOOTSTRAP`) is alone in `procs`, and who is
    /// added to a group by others (`PMIX_GROUP_ADD_MEMBERS`) comes with none: each is passed on by itself, with its
    /// name as `PMIX_PROCID`. The host answers all of them, and leaders that were passed on together, when all leaders
    /// and all who were added have come or are dead, with the members of the group (`PMIX_GROUP_MEMBERSHIP`). One that
    /// refuses these with `ERR_NOT_SUPPORTED` gets groups of this kind made by the server, among the processes of its
    /// node; the context ids that it gives them are no other group's of these processes.
    fn group(
        &self,
        operation: i64,
        group: &Nspace,
        procs: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        NO
    }

    /// Say something of the fabrics; `operation` is a `constants::fabric_operation`.
    fn fabric(&self, requestor: &Proc, operation: i64, directives: &[Info], done: Completion<Infos>) -> Accepted {
        NO
    }

    /// Control a session.
    fn session_control(
        &self,
        requestor: &Proc,
        session: u32,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        NO
    }

    /// Define, change or remove a resource block.
    fn resource_block(
        &self,
        requestor: &Proc,
        directive: u8,
        block: &Text,
        units: &[ResourceUnit],
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        NO
    }
}

/// Drops attributes: many or large ones later.
pub(super) fn let_go(info: Vec<Info>) {
    later::drop_sized(info.iter().map(|info| info.value.size()).sum(), info);
}

/// A host that does nothing: local clients are served, and nothing beyond.
#[derive(Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}
