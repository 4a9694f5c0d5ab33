//! What the host answers: publishing and looking up, spawning, logging, credentials and the like.
//!
//! The server adds to a client's request who asks, hands it to the host, and brings back what that says, whenever it says
//! it. It keeps nothing meanwhile but the way back: a client that dies gets no answer, and a host that never answers keeps
//! nobody waiting but the one who asked.
use super::ctx::peers::{Caller, PROGRAM};
use super::host::{Accepted, Completion, Host};
use super::monitors::MonitorRequest;
use super::router::Router;
use crate::data::{Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::door::PeerId;
use crate::message::{Forward, Reply};

impl Router {
    /// A client asks for something that is the host's.
    pub(super) fn forward(&mut self, peer: PeerId, number: u64, proc: Proc, request: Forward) {
        let infos = |(status, infos)| Reply::Infos(status, infos);
        let no_infos = (Status::SUCCESS, Vec::new());
        match request {
            Forward::Publish { info } => {
                let info = self.jobs.signed(&self.cx, &proc, info);
                self.pass_on(peer, number, |host, done| host.publish(&proc, &info, done), (), no_more);
            }
            Forward::Lookup { keys, info } => {
                let info = self.jobs.signed(&self.cx, &proc, info);
                self.pass_on(
                    peer,
                    number,
                    |host, done| host.lookup(&proc, &keys, &info, done),
                    (Status::SUCCESS, Vec::new()),
                    |(status, data)| Reply::Published(status, data),
                );
            }
            Forward::Unpublish { keys, info } => {
                let info = self.jobs.signed(&self.cx, &proc, info);
                self.pass_on(peer, number, |host, done| host.unpublish(&proc, &keys, &info, done), (), no_more);
            }
            Forward::Spawn { job_info, apps } => {
                // A server's program speaks for itself, or for a tool of which it knows more.
                let job_info = if peer == PROGRAM { job_info } else { self.born_of(&proc, job_info) };
                let job_info = self.jobs.signed(&self.cx, &proc, job_info);
                let apart = |info: &[Info]| info.is_set(keys::COSPAWN_APP);
                let apart = peer == PROGRAM || apart(&job_info) || apps.iter().all(|app| apart(&app.info));
                let parent = proc.nspace.clone();
                self.ask_host(
                    |host, done| host.spawn(&proc, &job_info, &apps, done),
                    Nspace::new("").expect("a legal name"),
                    move |router, result| router.spawned(peer, number, parent, apart, result),
                );
            }
            Forward::Query { queries } => self.query(Caller { peer, number }, proc, queries),
            Forward::Log { data, directives } => {
                let directives = self.jobs.signed(&self.cx, &proc, directives);
                self.pass_on(peer, number, |host, done| host.log2(&proc, &data, &directives, done), (), no_more);
            }
            Forward::Allocate { directive, info } => {
                let info = self.jobs.signed(&self.cx, &proc, info);
                self.pass_on(peer, number, |host, done| host.allocate(&proc, directive, &info, done), no_infos, infos);
            }
            Forward::Monitor { monitor, error, directives } => {
                let request = MonitorRequest { proc, monitor, error, directives };
                self.monitors.request(&mut self.cx, &self.jobs, Caller { peer, number }, request);
            }
            Forward::GetCredential { directives } => self.pass_on(
                peer,
                number,
                |host, done| host.get_credential(&proc, &directives, done),
                (Vec::new(), Vec::new()),
                |(credential, infos)| Reply::Credential(credential, infos),
            ),
            Forward::ValidateCredential { credential, directives } => self.pass_on(
                peer,
                number,
                |host, done| host.validate_credential(&proc, &credential, &directives, done),
                no_infos,
                infos,
            ),
            Forward::Push { targets, bytes, directives } => {
                let directives = self.jobs.signed(&self.cx, &proc, directives);
                self.push_input(peer, number, proc, (targets, bytes, directives));
            }
            Forward::Fabric { operation, directives } => {
                self.pass_on(
                    peer,
                    number,
                    |host, done| host.fabric(&proc, operation, &directives, done),
                    no_infos,
                    infos,
                );
            }
            Forward::SessionControl { session, directives } => {
                let directives = self.jobs.signed(&self.cx, &proc, directives);
                self.pass_on(
                    peer,
                    number,
                    |host, done| host.session_control(&proc, session, &directives, done),
                    no_infos,
                    infos,
                );
            }
            Forward::ResourceBlock { directive, block, units, info } => {
                let info = self.jobs.signed(&self.cx, &proc, info);
                self.pass_on(
                    peer,
                    number,
                    |host, done| host.resource_block(&proc, directive, &block, &units, &info, done),
                    (),
                    no_more,
                );
            }
        }
    }

    /// Asks the host, and answers with what `reply` makes of its word; `done` is that of a host that has done it already.
    pub(super) fn pass_on<T: Send + 'static>(
        &mut self,
        peer: PeerId,
        number: u64,
        ask: impl FnOnce(&dyn Host, Completion<T>) -> Accepted,
        done: T,
        reply: fn(T) -> Reply,
    ) {
        self.cx.forward(Caller { peer, number }, ask, done, reply);
    }

    /// A new job's attributes with what its processes shall know of where they come from.
    fn born_of(&self, proc: &Proc, mut info: Vec<Info>) -> Vec<Info> {
        const OURS: [&str; 4] = [keys::SPAWNED, keys::PARENT_ID, keys::REQUESTOR_IS_CLIENT, keys::REQUESTOR_IS_TOOL];
        let is_tool = self.jobs.client(proc).is_some_and(|client| client.is_tool);
        info.retain(|info| !OURS.iter().any(|key| info.key == *key));
        info.push(Info::new(keys::SPAWNED, true));
        info.push(Info::new(keys::PARENT_ID, proc.clone()));
        info.push(Info::new(if is_tool { keys::REQUESTOR_IS_TOOL } else { keys::REQUESTOR_IS_CLIENT }, true));
        info
    }

    /// The host has started a job, or not. It is connected with the one it was started from, unless that was not wanted.
    fn spawned(&mut self, peer: PeerId, number: u64, parent: Nspace, apart: bool, result: Result<Nspace, Status>) {
        let reply = match result {
            // A host that has done it and does not say what has not done it.
            Ok(nspace) if nspace.is_empty() => Reply::Done(Status::ERR_INVALID_NAMESPACE),
            Ok(nspace) => {
                // A parent that is gone has nothing to share.
                if !apart && self.jobs.get(&parent).is_some() {
                    self.connections.tie(parent, nspace.clone());
                }
                Reply::Spawned(nspace)
            }
            Err(status) => Reply::Done(status),
        };
        self.cx.reply(peer, number, reply);
    }
}

pub(super) fn no_more((): ()) -> Reply {
    Reply::Done(Status::SUCCESS)
}
