//! The process of a node other than the launcher's: a PMIx server, whose host is the launcher at the other end of the
//! [link](super::wire).
//!
//! It lives as long as the launcher does, and ends when that is gone or asks for it, after the clean-ups that its ranks
//! have asked for. It starts no process. Requests to end that are meant for the ranks do not reach it. Tools attach to it
//! by the number of its process; what they ask goes the way of what its ranks ask.
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use instanton::data::{
    App, Channels, DataRange, Info, LOAD, Load, Nspace, Proc, Query, Rank, Status, Text, WAITING, WaitReport,
};
use instanton::internal::sys::birth;
use instanton::internal::sys::later::keep_none_that_is_large;
use instanton::server::{
    Accepted, Answer, Completion, Credential, Host, Infos, Operation, Published, Server, ServerConfig, ToolSupport,
};
use nix::sys::signal::{SigSet, Signal};

use super::wire::{Call, Given, Link, Reply};
use crate::environment::Environment;
use crate::host;
use crate::record::Record;

/// The hidden command that the launcher starts a node with.
#[derive(Debug, Args)]
pub struct NodeOptions {
    /// Descriptor of the link to the launcher.
    #[arg(long)]
    pub link: i32,
    /// The number of the node.
    #[arg(long)]
    pub number: u32,
    /// Namespace of the servers.
    #[arg(long)]
    pub servers: String,
    /// The node's name.
    #[arg(long)]
    pub hostname: String,
    /// The node's directory.
    #[arg(long)]
    pub directory: PathBuf,
    /// Most memory of a job.
    #[arg(long)]
    pub job_memory: u64,
}

/// Serves a node until the launcher is gone.
pub fn run(options: NodeOptions) -> Result<u8> {
    nix::sys::prctl::set_name(c"inst-node")?;
    keep_none_that_is_large();
    let deaf: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    deaf.thread_block().context("cannot block signals")?;
    let socket = UnixStream::from(birth::inherited(options.link).context("the launcher does not answer")?);
    // The node's directory lies in that of the run.
    let record = options.directory.parent().and_then(|session| Record::open(session).ok());
    let host = Arc::new(Upwards { link: OnceLock::new(), record });
    let config = ServerConfig {
        nspace: Nspace::new(&options.servers)?,
        rank: Rank(options.number),
        hostname: Text::new(options.hostname.as_bytes())?,
        tmpdir: options.directory,
        job_memory: options.job_memory,
        // Those of the launcher's server lie beside the node's directory, and lead to the whole run.
        tools: Some(ToolSupport { without_files: true, ..ToolSupport::default() }),
        pmi: true,
        ..ServerConfig::default()
    };
    let server = Server::start(config, host.clone()).map_err(|error| anyhow!("no PMIx server starts: {error}"))?;
    host::register_supported(&server)?;
    let server = Arc::new(Mutex::new(Some(server)));
    let (over, is_over) = mpsc::channel();
    let (served, finish) = (server.clone(), over.clone());
    let serve = move |call, reply: Reply| match (call, &*lock(&served)) {
        (Call::Finish, _) => drop(finish.send(Some(reply))),
        (call, Some(server)) => serve(server, call, reply),
        (_, None) => reply(Err(Status::ERR_NOT_SUPPORTED)),
    };
    let link = Link::open(socket, serve, move || drop(over.send(None)))?;
    // Nobody has called for anything yet that makes the server call its host.
    let _ = host.link.set(link);
    let reply = is_over.recv().ok().flatten();
    let server = lock(&server).take();
    // Every job is over now, and cleaned up.
    drop(server);
    if let Some(reply) = reply {
        reply(Ok(Given::Nothing));
        // The launcher closes when it has read that.
        let _ = is_over.recv();
    }
    Ok(0)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does to the server what the launcher calls for. Nothing here waits.
fn serve(server: &Server, call: Call, reply: Reply) {
    let nothing = |reply: Reply| move |result: Result<(), Status>| reply(result.map(|()| Given::Nothing));
    // A server that has ended refuses, and forgets the way back.
    let _ = match call {
        Call::RegisterClients { procs, uid, gid } => {
            let (last, others) = match procs.split_last() {
                Some(split) => split,
                None => return reply(Ok(Given::Nothing)),
            };
            others.iter().for_each(|proc| _ = server.register_client(proc, uid, gid).then(|_| ()));
            server.register_client(last, uid, gid).then(nothing(reply))
        }
        Call::DeregisterClient(proc) => server.deregister_client(&proc).then(nothing(reply)),
        Call::Support { nspace, infos } => server.setup_local_support(&nspace, &infos).then(nothing(reply)),
        Call::Register { nspace, local, infos } => {
            server.register_nspace(&nspace, local as usize, &infos).then(nothing(reply))
        }
        Call::SetUpFork(proc) => {
            let mut variables = Environment::new();
            let result = server.setup_fork(&proc, &mut variables);
            let all =
                variables.into_iter().map(|(name, value)| (name.into_encoded_bytes(), value.into_encoded_bytes()));
            reply(result.map(|()| Given::Variables(all.collect())));
            Ok(())
        }
        Call::Died(proc) => server.hear_out(&proc).then(nothing(reply)),
        Call::Tool(tool) => server.add_remote_tool(&tool).then(nothing(reply)),
        Call::ToolGone(tool) => server.remove_remote_tool(&tool).then(nothing(reply)),
        Call::Deregister(nspace) => server.deregister_nspace(&nspace).then(nothing(reply)),
        Call::Deliver { source, channels, bytes, infos } => {
            server.iof_deliver(&source, Channels(channels), &bytes, &infos).then(nothing(reply))
        }
        Call::DefineSet { name, members } => server.define_process_set(&name, &members).then(nothing(reply)),
        Call::DeleteSet(name) => server.delete_process_set(&name).then(nothing(reply)),
        Call::Waiting => server.waiting().then(move |result| {
            let info = |report: WaitReport| vec![Info::new(WAITING, report.into_value())];
            reply(result.map(|report| Given::Infos(Status::SUCCESS, info(report))));
        }),
        Call::Load => server.load().then(move |result| {
            let info = |load: Load| vec![Info::new(LOAD, load.into_value())];
            reply(result.map(|load| Given::Infos(Status::SUCCESS, info(load))));
        }),
        Call::Dmodex { proc, infos } => {
            server.dmodex_request(&proc, &infos).then(move |result| reply(result.map(Given::Bytes)))
        }
        Call::Event { status, source, range, infos } => {
            server.notify_event(status, &source, range, &infos).then(nothing(reply))
        }
        _ => {
            reply(Err(Status::ERR_NOT_SUPPORTED));
            Ok(())
        }
    };
}

/// The host of a node's server: the launcher.
struct Upwards {
    link: OnceLock<Link>,
    /// The record of the run, where it can be written.
    record: Option<Record>,
}

impl Upwards {
    fn ask<T: 'static>(&self, call: Call, done: Completion<T>, take: fn(Given) -> Option<T>) -> Accepted {
        let link = self.link.get().ok_or(Status::ERR_NOT_SUPPORTED)?;
        link.ask(call, move |result| {
            done.complete(result.and_then(|given| take(given).ok_or(Status::ERR_BAD_PARAM)));
        });
        Ok(Answer::Later)
    }

    fn ask_for_nothing(&self, call: Call, done: Completion<()>) -> Accepted {
        self.ask(call, done, |given| matches!(given, Given::Nothing).then_some(()))
    }

    fn ask_for_infos(&self, call: Call, done: Completion<Infos>) -> Accepted {
        self.ask(call, done, |given| match given {
            Given::Infos(status, infos) => Some((status, infos)),
            _ => None,
        })
    }

    fn ask_for_bytes(&self, call: Call, done: Completion<Vec<u8>>) -> Accepted {
        self.ask(call, done, |given| match given {
            Given::Bytes(blob) => Some(blob.into()),
            _ => None,
        })
    }

    fn tell(&self, call: Call) {
        if let Some(link) = self.link.get() {
            link.ask(call, |_| ());
        }
    }
}

impl Host for Upwards {
    fn client_connected(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        self.ask_for_nothing(Call::Connected(proc.clone()), done)
    }

    fn client_finalized(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        self.ask_for_nothing(Call::Finalized(proc.clone()), done)
    }

    fn client_lost(&self, proc: &Proc, status: Status) {
        self.tell(Call::Lost(proc.clone(), status));
    }

    fn tool_admitted(&self, tool: &Proc) {
        self.tell(Call::Admitted(tool.clone()));
    }

    fn namespace_awaited(&self, nspace: &Nspace, done: Completion<()>) -> Accepted {
        self.ask_for_nothing(Call::Awaited(nspace.clone()), done)
    }

    fn abort(
        &self,
        proc: &Proc,
        status: i32,
        message: Option<&[u8]>,
        procs: &[Proc],
        done: Completion<()>,
    ) -> Accepted {
        let (proc, message, procs) = (proc.clone(), message.map(<[u8]>::to_vec), procs.to_vec());
        self.ask_for_nothing(Call::Abort { proc, status, message, procs }, done)
    }

    fn fence_nb(&self, procs: &[Proc], info: &[Info], data: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        self.ask_for_bytes(Call::Fence { procs: procs.to_vec(), infos: info.to_vec(), data }, done)
    }

    fn withdraw(&self, operation: &Operation, procs: &[Proc]) -> Result<(), Status> {
        self.tell(Call::Withdraw { kind: operation.into(), procs: procs.to_vec() });
        Ok(())
    }

    fn direct_modex(&self, proc: &Proc, info: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        self.ask_for_bytes(Call::DirectModex { proc: proc.clone(), infos: info.to_vec() }, done)
    }

    fn publish(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        self.ask_for_nothing(Call::Publish { proc: proc.clone(), infos: info.to_vec() }, done)
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        let call = Call::Lookup { proc: proc.clone(), keys: keys.to_vec(), infos: info.to_vec() };
        self.ask(call, done, |given| match given {
            Given::Published(status, data) => Some((status, data)),
            _ => None,
        })
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<()>) -> Accepted {
        let call = Call::Unpublish { proc: proc.clone(), keys: keys.to_vec(), infos: info.to_vec() };
        self.ask_for_nothing(call, done)
    }

    fn spawn(&self, proc: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        let call = Call::Spawn { proc: proc.clone(), infos: job_info.to_vec(), apps: apps.to_vec() };
        self.ask(call, done, |given| match given {
            Given::Name(nspace) => Some(nspace),
            _ => None,
        })
    }

    fn connect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        self.ask_for_nothing(Call::Connect { procs: procs.to_vec(), infos: info.to_vec() }, done)
    }

    fn disconnect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        self.ask_for_nothing(Call::Disconnect { procs: procs.to_vec(), infos: info.to_vec() }, done)
    }

    fn register_events(&self, _: &[Status], _: &[Info], _: Completion<()>) -> Accepted {
        Ok(Answer::Done)
    }

    fn deregister_events(&self, _: &[Status], _: Completion<()>) -> Accepted {
        Ok(Answer::Done)
    }

    fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: DataRange,
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        self.ask_for_nothing(Call::Event { status, source: source.clone(), range, infos: info.to_vec() }, done)
    }

    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        self.ask_for_infos(Call::Query { proc: proc.clone(), queries: queries.to_vec() }, done)
    }

    fn log(&self, client: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        let call = Call::Log { proc: client.clone(), data: data.to_vec(), infos: directives.to_vec() };
        self.ask_for_nothing(call, done)
    }

    fn job_control(
        &self,
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        let call = Call::Control { proc: requestor.clone(), targets: targets.to_vec(), infos: directives.to_vec() };
        self.ask_for_infos(call, done)
    }

    fn allocate(&self, client: &Proc, directive: u8, data: &[Info], done: Completion<Infos>) -> Accepted {
        self.ask_for_infos(Call::Allocate { proc: client.clone(), directive, infos: data.to_vec() }, done)
    }

    fn session_control(&self, proc: &Proc, session: u32, directives: &[Info], done: Completion<Infos>) -> Accepted {
        self.ask_for_infos(Call::Session { proc: proc.clone(), session, infos: directives.to_vec() }, done)
    }

    fn monitor(
        &self,
        requestor: &Proc,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        let (proc, monitor, infos) = (requestor.clone(), monitor.clone(), directives.to_vec());
        self.ask_for_infos(Call::Monitor { proc, monitor, error, infos }, done)
    }

    fn get_credential(&self, proc: &Proc, directives: &[Info], done: Completion<Credential>) -> Accepted {
        let call = Call::GetCredential { proc: proc.clone(), infos: directives.to_vec() };
        self.ask(call, done, |given| match given {
            Given::Credential(credential, infos) => Some((credential, infos)),
            _ => None,
        })
    }

    fn validate_credential(
        &self,
        proc: &Proc,
        credential: &[u8],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        let (proc, credential) = (proc.clone(), credential.to_vec());
        self.ask_for_infos(Call::Validate { proc, credential, infos: directives.to_vec() }, done)
    }

    fn iof_pull(&self, procs: &[Proc], directives: &[Info], channels: Channels, done: Completion<()>) -> Accepted {
        let call = Call::IofPull { procs: procs.to_vec(), infos: directives.to_vec(), channels: channels.0 };
        self.ask_for_nothing(call, done)
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        directives: &[Info],
        bytes: &[u8],
        done: Completion<()>,
    ) -> Accepted {
        let (source, targets) = (source.clone(), targets.to_vec());
        let call = Call::PushStdin { source, targets, infos: directives.to_vec(), bytes: bytes.to_vec() };
        self.ask_for_nothing(call, done)
    }

    fn group(
        &self,
        operation: i64,
        group: &Nspace,
        procs: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        let (group, procs, infos) = (group.clone(), procs.to_vec(), directives.to_vec());
        self.ask_for_infos(Call::Group { operation, group, procs, infos }, done)
    }

    /// They are on record before the rank goes on: what the launcher is told is lost where this process is killed next.
    fn cleanup_registered(&self, proc: &Proc, directives: &[Info]) {
        if self.record.as_ref().is_some_and(|record| record.append(&proc.nspace, directives).is_ok()) {
            return;
        }
        self.tell(Call::CleanUp { proc: proc.clone(), infos: directives.to_vec() });
    }
}
