//! Calls of a node's server, as they come over its [link](super::wire), and the answers of its [host](super::host).
use std::sync::{Arc, Mutex, PoisonError};

use instanton::data::{Channels, Status};
use instanton::server::{Accepted, Answer, Blob, Completion, Host, Infos};

use super::host::NodeHost;
use super::wire::{Call, Given, Reply};

/// Does what the server of a node calls its host for.
pub fn dispatch(host: &NodeHost, call: Call, reply: Reply) {
    let nothing = |()| Given::Nothing;
    let infos = |(status, infos): Infos| Given::Infos(status, infos);
    let no_infos = || (Status::SUCCESS, Vec::new());
    match call {
        Call::Connected(proc) => answer(reply, (), nothing, |done| host.client_connected(&proc, done)),
        Call::Finalized(proc) => answer(reply, (), nothing, |done| host.client_finalized(&proc, done)),
        Call::Lost(proc, status) => host.client_lost(&proc, status),
        Call::Admitted(tool) => host.tool_admitted(&tool),
        Call::Awaited(nspace) => answer(reply, (), nothing, |done| host.namespace_awaited(&nspace, done)),
        Call::Abort { proc, status, message, procs } => {
            answer(reply, (), nothing, |done| host.abort(&proc, status, message.as_deref(), &procs, done));
        }
        Call::Fence { procs, infos, data } => {
            let bytes = |bytes: Vec<u8>| Given::Bytes(bytes.into());
            answer(reply, Vec::new(), bytes, |done| host.fence_nb(&procs, &infos, data, done));
        }
        Call::Withdraw { kind, procs } => host.late(&kind, &procs),
        Call::DirectModex { proc, infos } => {
            answer(reply, Blob::default(), Given::Bytes, |done| host.posted(&proc, &infos, done));
        }
        Call::Publish { proc, infos } => answer(reply, (), nothing, |done| host.publish(&proc, &infos, done)),
        Call::Lookup { proc, keys, infos } => {
            let published = |(status, data)| Given::Published(status, data);
            let none = (Status::SUCCESS, Vec::new());
            answer(reply, none, published, |done| host.lookup(&proc, &keys, &infos, done));
        }
        Call::Unpublish { proc, keys, infos } => {
            answer(reply, (), nothing, |done| host.unpublish(&proc, &keys, &infos, done));
        }
        Call::Spawn { proc, infos, apps } => {
            let nobody = proc.nspace.clone();
            answer(reply, nobody, Given::Name, |done| host.spawn(&proc, &infos, &apps, done));
        }
        Call::Connect { procs, infos } => answer(reply, (), nothing, |done| host.connect(&procs, &infos, done)),
        Call::Disconnect { procs, infos } => answer(reply, (), nothing, |done| host.disconnect(&procs, &infos, done)),
        Call::Event { status, source, range, infos } => {
            answer(reply, (), nothing, |done| host.notify_event(status, &source, range, &infos, done));
        }
        Call::Query { proc, queries } => answer(reply, no_infos(), infos, |done| host.query(&proc, &queries, done)),
        Call::Log { proc, data, infos } => answer(reply, (), nothing, |done| host.log(&proc, &data, &infos, done)),
        Call::Control { proc, targets, infos: directives } => {
            answer(reply, no_infos(), infos, |done| host.job_control(&proc, &targets, &directives, done));
        }
        Call::IofPull { procs, infos, channels } => {
            answer(reply, (), nothing, |done| host.iof_pull(&procs, &infos, Channels(channels), done));
        }
        Call::PushStdin { source, targets, infos, bytes } => {
            answer(reply, (), nothing, |done| host.push_stdin(&source, &targets, &infos, &bytes, done));
        }
        Call::Group { operation, group, procs, infos: directives } => {
            answer(reply, no_infos(), infos, |done| host.group(operation, &group, &procs, &directives, done));
        }
        Call::Allocate { proc, directive, infos: data } => {
            answer(reply, no_infos(), infos, |done| host.allocate(&proc, directive, &data, done));
        }
        Call::Session { proc, session, infos: directives } => {
            answer(reply, no_infos(), infos, |done| host.session_control(&proc, session, &directives, done));
        }
        Call::Monitor { proc, monitor, error, infos: directives } => {
            answer(reply, no_infos(), infos, |done| host.monitor(&proc, &monitor, error, &directives, done));
        }
        Call::GetCredential { proc, infos } => {
            let credential = |(credential, infos)| Given::Credential(credential, infos);
            answer(reply, (Vec::new(), Vec::new()), credential, |done| host.get_credential(&proc, &infos, done));
        }
        Call::Validate { proc, credential, infos: directives } => {
            let ask = |done| host.validate_credential(&proc, &credential, &directives, done);
            answer(reply, no_infos(), infos, ask);
        }
        Call::CleanUp { proc, infos } => host.cleanup_registered(&proc, &infos),
        _ => reply(Err(Status::ERR_NOT_SUPPORTED)),
    }
}

/// Asks the host, and leads its answer back however it comes; `nothing` is what is given by one that is done already.
fn answer<T: 'static>(
    reply: Reply,
    nothing: T,
    give: impl Fn(T) -> Given + Send + 'static + Copy,
    ask: impl FnOnce(Completion<T>) -> Accepted,
) {
    let way = Arc::new(Mutex::new(Some(reply)));
    let back = way.clone();
    let accepted = ask(Completion::new(move |result: Result<T, Status>| {
        if let Some(reply) = back.lock().unwrap_or_else(PoisonError::into_inner).take() {
            reply(result.map(give));
        }
    }));
    let result = match accepted {
        Ok(Answer::Later) => return,
        Ok(Answer::Done) => Ok(give(nothing)),
        Err(status) => Err(status),
    };
    let reply = way.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(reply) = reply {
        reply(result);
    }
}
