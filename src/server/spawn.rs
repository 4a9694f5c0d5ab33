//! Jobs that are started from others (`PMIx_Spawn`): the host starts them, and tells the name of each.
//!
//! A new job is tied to the one that it was started from, unless that was not wanted (`PMIX_COSPAWN_APP`): processes of
//! one may map the memory of the other.
use super::ctx::Ctx;
use super::ctx::effect::Effect;
use super::ctx::peers::Caller;
use super::ctx::ticket::Ticket;
use super::jobs::Jobs;
use crate::account::{Charge, Kind};
use crate::data::{App, Info, InfoList, Nspace, Proc, Status, keys};
use crate::message::Reply;
use crate::sys::later;

/// Asks the host to start a job for a process. The request's bytes are charged to the process until the job is over,
/// because its host keeps what it has started.
pub fn spawn(
    cx: &mut Ctx,
    jobs: &Jobs,
    caller: Caller,
    proc: &Proc,
    (job_info, apps): (Vec<Info>, Vec<App>),
    bytes: usize,
) {
    let kept = match cx.charge(caller.peer, Kind::Spawned, bytes) {
        Ok(kept) => kept,
        Err(status) => {
            later::drop_sized(bytes, (job_info, apps));
            return cx.answer_status(caller, Err(status));
        }
    };
    let is_program = cx.is_program(caller.peer);
    // The program of a server speaks for itself, or for a tool of which it knows more.
    let job_info = if is_program { job_info } else { with_parent(jobs, proc, job_info) };
    let job_info = jobs.signed(cx, proc, job_info);
    let is_apart = |info: &[Info]| info.is_set(keys::COSPAWN_APP);
    let has_parent = !is_program && !is_apart(&job_info) && !apps.iter().all(|app| is_apart(&app.info));
    let parent = has_parent.then(|| proc.nspace.clone());
    cx.ask_host(
        |host, done| host.spawn_owned(proc, job_info, apps, done),
        Nspace::new("").expect("a legal name"),
        move |result| Ticket::Spawned { caller, parent, kept, result },
    );
}

/// The host has started a job, or not.
pub fn answered(
    cx: &mut Ctx,
    jobs: &Jobs,
    caller: Caller,
    (parent, kept): (Option<Nspace>, Charge),
    result: Result<Nspace, Status>,
) {
    let reply = match result {
        // A host that says it has done it, and does not say what, has not done it.
        Ok(child) if child.is_empty() => Reply::Done(Status::ERR_INVALID_NAMESPACE),
        Ok(child) => {
            // It may be over already.
            if jobs.get(&child).is_some() {
                cx.accounts.keep_spawned(child.clone(), kept);
            }
            if let Some(parent) = parent {
                cx.effect(Effect::Spawned { parent, child: child.clone() });
            }
            Reply::Spawned(child)
        }
        Err(status) => Reply::Done(status),
    };
    cx.reply(caller.peer, caller.number, reply);
}

/// Returns a new job's attributes with what its processes shall know of the process that starts them.
fn with_parent(jobs: &Jobs, proc: &Proc, mut info: Vec<Info>) -> Vec<Info> {
    const OURS: [&str; 4] = [keys::SPAWNED, keys::PARENT_ID, keys::REQUESTOR_IS_CLIENT, keys::REQUESTOR_IS_TOOL];
    let is_tool = jobs.client(proc).is_some_and(|client| client.is_tool);
    info.retain(|info| !OURS.iter().any(|key| info.key == *key));
    info.push(Info::new(keys::SPAWNED, true));
    info.push(Info::new(keys::PARENT_ID, proc.clone()));
    info.push(Info::new(if is_tool { keys::REQUESTOR_IS_TOOL } else { keys::REQUESTOR_IS_CLIENT }, true));
    info
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::ctx::peers::PROGRAM;
    use super::*;
    use crate::server::ctx::peers::{Peer, Role};
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::{Accepted, Answer, Completion, Host, NoHost};
    use crate::store::JobInfoBuilder;

    /// A host that notes the attributes of a job, and names the job as it is told to.
    #[derive(Default)]
    struct SpawningHost(Mutex<Vec<Info>>, &'static str);

    impl Host for Arc<SpawningHost> {
        fn spawn(&self, _: &Proc, job_info: &[Info], _: &[App], done: Completion<Nspace>) -> Accepted {
            *self.0.lock().unwrap() = job_info.to_vec();
            done.complete(Ok(Nspace::new(self.1).unwrap()));
            Ok(Answer::Later)
        }
    }

    /// Spawns a job, and returns the answer with the parent that the new job is tied to.
    fn spawned(test: &mut TestCtx, jobs: &Jobs, caller: Caller, job_info: Vec<Info>) -> (Reply, Option<Nspace>) {
        let apps = [App { cmd: None, argv: Vec::new(), env: Vec::new(), cwd: None, maxprocs: 1, info: Vec::new() }];
        spawn(&mut test.cx, jobs, caller, &proc("parent", 0), (job_info, apps.into()), 0);
        let Some(Ticket::Spawned { caller, parent, kept, result }) = test.ticket() else { panic!("no ticket") };
        answered(&mut test.cx, jobs, caller, (parent, kept), result);
        let tied = match test.cx.next_effect() {
            Some(Effect::Spawned { parent, .. }) => Some(parent),
            None => None,
            other => panic!("{other:?}"),
        };
        (test.replies().pop().unwrap().1, tied)
    }

    #[test]
    fn a_child_is_tied_to_its_parent_unless_it_is_to_be_apart() {
        let launcher = Arc::new(SpawningHost(Mutex::default(), "child"));
        let mut test = testing::ctx(launcher.clone());
        let peer = test.connect(&proc("parent", 0));
        let child = Reply::Spawned(Nspace::new("child").unwrap());
        let caller = test.request(peer);
        let together = spawned(&mut test, &Jobs::default(), caller, Vec::new());
        assert_eq!(together, (child.clone(), Some(proc("parent", 0).nspace)));
        let caller = test.request(peer);
        let apart = spawned(&mut test, &Jobs::default(), caller, vec![Info::new(keys::COSPAWN_APP, true)]);
        assert_eq!(apart, (child, None));
    }

    #[test]
    fn a_request_is_charged_until_the_job_that_it_has_started_is_over() {
        let mut test = testing::ctx(Arc::new(SpawningHost(Mutex::default(), "child")));
        let peer = test.connect(&proc("parent", 0));
        let account = test.limit_memory(peer, 10_000);
        let (mut jobs, child) = (Jobs::default(), proc("child", 0).nspace);
        jobs.add(&child, 1, &[crate::data::Rank(0)]);
        let ask = |test: &mut TestCtx| {
            let caller = test.request(peer);
            spawn(&mut test.cx, &jobs, caller, &proc("parent", 0), (Vec::new(), Vec::new()), 6000);
            if let Some(Ticket::Spawned { caller, parent, kept, result }) = test.ticket() {
                answered(&mut test.cx, &jobs, caller, (parent, kept), result);
            }
            test.replies().pop().unwrap().1
        };
        assert_eq!(ask(&mut test), Reply::Spawned(child.clone()));
        assert_eq!((ask(&mut test), account.used()), (Reply::Done(Status::ERR_OUT_OF_RESOURCE), 6000));
        test.cx.accounts.forget(&child);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn what_a_job_takes_counts_for_the_one_that_has_led_to_it_be_they_tied_or_not() {
        let (mut test, mut jobs) = (testing::ctx(NoHost), Jobs::default());
        let mut register = |name: &str, more: &[Info]| {
            let nspace = proc(name, 0).nspace;
            let mut info = JobInfoBuilder::new(&nspace, 1, "n0");
            info.infos(&[Info::new(keys::LOCAL_PEERS, "0")]).unwrap();
            info.infos(more).unwrap();
            jobs.register(&mut test.cx, &nspace, 1, Ok(info)).unwrap();
            if name == "tool" {
                jobs.get_mut(&nspace).unwrap().of_tools = true;
            }
            test.cx.accounts.joint_used(&proc("parent", 0).nspace)
        };
        let started_by = |name: &str| Info::new(keys::PARENT_ID, proc(name, 0));
        let alone = register("parent", &[]);
        let with_child = register("child", &[started_by("parent")]);
        let with_grandchild = register("grandchild", &[started_by("child"), Info::new(keys::COSPAWN_APP, true)]);
        assert!(alone > 0 && with_child > alone && with_grandchild > with_child);
        register("tool", &[]);
        assert_eq!(register("of-tool", &[started_by("tool")]), with_grandchild, "a tool is nobody's job");
    }

    #[test]
    fn a_job_without_a_name_was_not_started() {
        let mut test = testing::ctx(Arc::new(SpawningHost(Mutex::default(), "")));
        let peer = test.connect(&proc("parent", 0));
        let caller = test.request(peer);
        let answer = spawned(&mut test, &Jobs::default(), caller, Vec::new());
        assert_eq!(answer, (Reply::Done(Status::ERR_INVALID_NAMESPACE), None));
    }

    #[test]
    fn a_process_cannot_speak_for_another_parent_and_the_program_can() {
        let launcher = Arc::new(SpawningHost(Mutex::default(), "child"));
        let mut test = testing::ctx(launcher.clone());
        let peer = test.connect(&proc("parent", 0));
        let forged = || vec![Info::new(keys::PARENT_ID, proc("other", 3))];
        let parents = || {
            let info = launcher.0.lock().unwrap();
            info.iter().filter(|info| info.key == keys::PARENT_ID).map(|info| info.value.clone()).collect::<Vec<_>>()
        };
        let caller = test.request(peer);
        spawned(&mut test, &Jobs::default(), caller, forged());
        assert_eq!(parents(), [proc("parent", 0).into()]);
        test.cx.peers.insert(PROGRAM, Peer::new(proc("server", 0), Role::Program, None));
        let caller = test.request(PROGRAM);
        let (_, tied) = spawned(&mut test, &Jobs::default(), caller, forged());
        assert_eq!((parents(), tied), (vec![proc("other", 3).into()], None));
    }
}
