//! Requests that are only passed on: the host's answer is the reply.
//!
//! The server adds to a request who makes it, hands it to the host, and brings the answer back, whenever it comes.
//! It keeps nothing meanwhile: a client that dies gets no answer, and a host that never answers keeps nobody
//! waiting but the one who asked.
use super::ctx::Ctx;
use super::ctx::peers::Caller;
use super::ctx::ticket::Ticket;
use super::jobs::Jobs;
use crate::account::Kind;
use crate::data::{Info, Proc, Status};
use crate::message::{Forward, Infos, Reply};
use crate::sys::later;
use crate::trace;

/// Passes a request of `proc` on, which came in so many bytes. Requests that rooms of this server have a part in are not
/// supported here.
pub fn pass_on(cx: &mut Ctx, jobs: &Jobs, caller: Caller, proc: &Proc, (mut request, bytes): (Forward, usize)) {
    let nothing: Infos = (Status::SUCCESS, Vec::new());
    let infos = |(status, infos): Infos| Reply::Infos(status, infos);
    let sign = |cx: &Ctx, info: &mut Vec<Info>| *info = jobs.signed(cx, proc, std::mem::take(info));
    match &mut request {
        Forward::Publish { info } => {
            sign(cx, info);
            let info = std::mem::take(info);
            cx.forward(caller, |host, done| host.publish_owned(proc, info, done), (), success);
        }
        Forward::Lookup { keys, info } => {
            sign(cx, info);
            // A host that has done it and brings nothing has found nothing.
            cx.forward(
                caller,
                |host, done| host.lookup(proc, keys, info, done),
                (Status::ERR_NOT_FOUND, Vec::new()),
                |(status, data)| Reply::Published(status, data),
            );
        }
        Forward::Unpublish { keys, info } => {
            sign(cx, info);
            cx.forward(caller, |host, done| host.unpublish(proc, keys, info, done), (), success);
        }
        Forward::Log { data, directives } => {
            sign(cx, directives);
            let data = std::mem::take(data);
            // Data that the host keeps until it is written stays charged where the process is gone.
            let bytes = data.iter().map(|info| info.value.size()).sum();
            let account = cx.peers.get(&caller.peer).map(|entry| entry.requests.account());
            let kept = account.map(|account| account.force(Kind::Request, bytes));
            cx.ask_host(
                |host, done| host.log_owned(proc, data, directives, done),
                (),
                move |result| {
                    drop(kept);
                    Ticket::Reply(caller, result.map_or_else(Reply::Done, success))
                },
            );
        }
        Forward::Allocate { directive, info } => {
            sign(cx, info);
            cx.forward(caller, |host, done| host.allocate(proc, *directive, info, done), nothing, infos);
        }
        Forward::GetCredential { directives } => {
            sign(cx, directives);
            cx.forward(
                caller,
                |host, done| host.get_credential(proc, directives, done),
                (Vec::new(), Vec::new()),
                |(credential, infos)| Reply::Credential(credential, infos),
            );
        }
        Forward::ValidateCredential { credential, directives } => {
            sign(cx, directives);
            cx.forward(
                caller,
                |host, done| host.validate_credential(proc, credential, directives, done),
                nothing,
                infos,
            );
        }
        Forward::Fabric { operation, directives } => {
            cx.forward(caller, |host, done| host.fabric(proc, *operation, directives, done), nothing, infos);
        }
        Forward::SessionControl { session, directives } => {
            sign(cx, directives);
            cx.forward(caller, |host, done| host.session_control(proc, *session, directives, done), nothing, infos);
        }
        Forward::ResourceBlock { directive, block, units, info } => {
            sign(cx, info);
            cx.forward(
                caller,
                |host, done| host.resource_block(proc, *directive, block, units, info, done),
                (),
                success,
            );
        }
        Forward::Spawn { .. } | Forward::Query { .. } | Forward::Monitor { .. } | Forward::Push { .. } => {
            cx.reply_status(caller.peer, caller.number, Err(Status::ERR_NOT_SUPPORTED));
        }
    }
    later::drop_sized(bytes, request);
}

/// Passes an abort on. The client waits for the host's answer however long that takes.
pub fn abort(cx: &mut Ctx, caller: Caller, proc: &Proc, status: i32, message: Option<&[u8]>, targets: &[Proc]) {
    trace!("{proc} asks to abort with status {status}");
    cx.forward(caller, |host, done| host.abort(proc, status, message, targets, done), (), success);
}

/// Passes the embedding program's wish to connect processes on: it takes part in no collective itself.
pub fn connect(cx: &mut Ctx, caller: Caller, procs: &[Proc], info: &[Info]) {
    cx.forward(caller, |host, done| host.connect(procs, info, done), (), success);
}

/// Passes the embedding program's wish to disconnect processes on.
pub fn disconnect(cx: &mut Ctx, caller: Caller, procs: &[Proc], info: &[Info]) {
    cx.forward(caller, |host, done| host.disconnect(procs, info, done), (), success);
}

fn success((): ()) -> Reply {
    Reply::Done(Status::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::data::{InfoList, keys};
    use crate::server::ctx::testing::{self, proc};
    use crate::server::host::{Accepted, Answer, Completion, Host, NoHost};

    /// A host that notes the attributes of a publication and answers later.
    #[derive(Default)]
    struct DeferringHost(Mutex<Option<(Vec<Info>, Completion<()>)>>);

    impl Host for Arc<DeferringHost> {
        fn publish(&self, _: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
            *self.0.lock().unwrap() = Some((info.to_vec(), done));
            Ok(Answer::Later)
        }

        fn log(&self, proc: &Proc, data: &[Info], _: &[Info], done: Completion<()>) -> Accepted {
            self.publish(proc, data, done)
        }
    }

    #[test]
    fn a_log_is_charged_until_its_host_has_written_it_though_its_process_is_gone() {
        let store = Arc::new(DeferringHost::default());
        let mut test = testing::ctx(store.clone());
        let (mut jobs, writer) = (Jobs::default(), proc("job", 0));
        jobs.expect(&writer, 11, 12);
        let peer = test.connect(&writer);
        let account = test.limit_memory(peer, 1 << 20);
        let caller = test.request(peer);
        let data = vec![Info::new(keys::LOG_STDOUT, vec![b'x'; 1000])];
        pass_on(&mut test.cx, &jobs, caller, &writer, (Forward::Log { data, directives: Vec::new() }, 0));
        test.cx.peers.remove(&peer);
        assert!(account.used() >= 1000, "{}", account.used());
        let (_, done) = store.0.lock().unwrap().take().unwrap();
        done.complete(Ok(()));
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn a_request_is_signed_by_the_server_and_answered_when_the_host_answers() {
        let store = Arc::new(DeferringHost::default());
        let mut test = testing::ctx(store.clone());
        let (mut jobs, publisher) = (Jobs::default(), proc("job", 0));
        jobs.expect(&publisher, 11, 12);
        let peer = test.connect(&publisher);
        let caller = test.request(peer);
        let info = vec![Info::new("key", "value"), Info::new(keys::USERID, 0u32)];
        pass_on(&mut test.cx, &jobs, caller, &publisher, (Forward::Publish { info }, 0));
        let (info, done) = store.0.lock().unwrap().take().unwrap();
        let users: Vec<_> = info.iter().filter(|info| info.key == keys::USERID).collect();
        assert_eq!(users, [&Info::new(keys::USERID, 11u32)], "its own word on its user does not count");
        assert!(info.find(keys::GRPID).is_some() && test.replies().is_empty());
        done.complete(Err(Status::ERR_DUPLICATE_KEY));
        let ticket = test.ticket();
        assert!(
            matches!(ticket, Some(Ticket::Reply(to, Reply::Done(Status::ERR_DUPLICATE_KEY))) if to == caller),
            "{ticket:?}"
        );
    }

    #[test]
    fn a_host_that_does_not_know_a_request_refuses_it_at_once() {
        let mut test = testing::ctx(NoHost);
        let peer = test.connect(&proc("job", 0));
        let caller = test.request(peer);
        let request = Forward::Fabric { operation: 1, directives: Vec::new() };
        pass_on(&mut test.cx, &Jobs::default(), caller, &proc("job", 0), (request, 0));
        assert!(matches!(test.ticket(), Some(Ticket::Reply(_, Reply::Done(Status::ERR_NOT_SUPPORTED)))));
    }
}
