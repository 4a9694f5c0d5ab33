//! Admission without a door: claims, the host's answers and goodbyes.
use std::sync::{Arc, Mutex};

use super::*;
use crate::data::{Info, keys};
use crate::message::door::Capabilities;
use crate::server::config::{ServerConfig, ToolSupport};
use crate::server::ctx::peers::Caller;
use crate::server::ctx::testing::{self, TestCtx, proc};
use crate::server::{Accepted, Answer, Completion, Host, NoHost};

const USER: User = User { uid: 1000, gid: Some(100) };
const PEER: PeerId = PeerId { door: 3, connection: 7 };

/// A host that answers later, what it is told to.
#[derive(Clone, Default)]
struct DeferringHost(Arc<Mutex<Vec<Completion<()>>>>);

impl Host for DeferringHost {
    fn client_connected2(&self, _: &Proc, _: &[Info], done: Completion<()>) -> Accepted {
        self.0.lock().unwrap().push(done);
        Ok(Answer::Later)
    }
}

/// A job with one process, registered or not, and the token of the job.
fn job(test: &mut TestCtx, is_registered: bool) -> (Jobs, [u8; 32]) {
    let mut jobs = Jobs::default();
    let nspace = proc("job", 0).nspace;
    jobs.register_client(&mut test.cx, &proc("job", 0), USER.uid, 100).unwrap();
    if is_registered {
        register(test, &mut jobs);
    }
    let token = jobs.get(&nspace).unwrap().token;
    (jobs, token)
}

fn register(test: &mut TestCtx, jobs: &mut Jobs) {
    let nspace = proc("job", 0).nspace;
    let mut info = crate::store::JobInfoBuilder::new(&nspace, 1, "here");
    let info = info.infos(&[Info::new(keys::JOB_SIZE, 1u32)]).map(|()| info);
    jobs.register(&mut test.cx, &nspace, 1, info).unwrap();
}

fn arrival(token: Option<[u8; 32]>, user: Option<User>) -> Arrival {
    let claim = Claim::Process { proc: proc("job", 0), token };
    Arrival { claim, capabilities: Capabilities::default(), info: Vec::new(), user, pid: 1, process: None }
}

/// Hands tickets to the room as the router does, and returns what the peer is told.
fn outcome(test: &mut TestCtx, jobs: &mut Jobs, admission: &mut Admission) -> Vec<Outgoing> {
    while let Some(ticket) = test.ticket() {
        match ticket {
            Ticket::Admitted(peer, result) => admission.admitted(&mut test.cx, jobs, peer, result),
            Ticket::ToolAdmitted { peer, own, named } => admission.tool_admitted(&mut test.cx, jobs, peer, own, named),
            Ticket::Farewell(caller, result) => admission.farewell_answered(&mut test.cx, caller, result),
            other => panic!("{other:?} is no ticket of admission"),
        }
    }
    test.sent().into_iter().map(|(_, message)| message).collect()
}

fn status(told: &[Outgoing]) -> Option<Status> {
    match told {
        [Outgoing::Accepted { .. }] => Some(Status::SUCCESS),
        [Outgoing::Refused { status, .. }] => Some(*status),
        _ => None,
    }
}

#[test]
fn a_peer_shows_its_token_or_its_user_and_nothing_wrong() {
    let other = Some(User { uid: 1, gid: Some(100) });
    let cases = [
        (true, Some(USER), Status::SUCCESS),
        (true, None, Status::SUCCESS),
        (false, Some(USER), Status::SUCCESS),
        (false, None, Status::ERR_INVALID_CRED),
        (true, other, Status::ERR_INVALID_CRED),
        (false, other, Status::ERR_INVALID_CRED),
    ];
    for (has_token, user, expected) in cases {
        let (mut test, mut admission) = (testing::ctx(NoHost), Admission::default());
        let (mut jobs, token) = job(&mut test, true);
        admission.arrive(&mut test.cx, &mut jobs, PEER, arrival(has_token.then_some(token), user));
        let told = outcome(&mut test, &mut jobs, &mut admission);
        assert_eq!(status(&told), Some(expected), "token {has_token}, {user:?}");
    }
    let (mut test, mut admission) = (testing::ctx(NoHost), Admission::default());
    let (mut jobs, _) = job(&mut test, true);
    admission.arrive(&mut test.cx, &mut jobs, PEER, arrival(Some([1; 32]), Some(USER)));
    let told = outcome(&mut test, &mut jobs, &mut admission);
    assert_eq!(status(&told), Some(Status::ERR_INVALID_CRED), "a wrong token is worse than none");
}

#[test]
fn a_user_alone_is_not_enough_where_ids_may_be_foreign() {
    let (mut test, mut admission) = (testing::ctx(NoHost), Admission::default());
    let (mut jobs, token) = job(&mut test, true);
    jobs.get_mut(&proc("job", 0).nspace).unwrap().foreign_ids = true;
    admission.arrive(&mut test.cx, &mut jobs, PEER, arrival(None, Some(USER)));
    let told = outcome(&mut test, &mut jobs, &mut admission);
    assert_eq!(status(&told), Some(Status::ERR_INVALID_CRED));
    admission.arrive(&mut test.cx, &mut jobs, PEER, arrival(Some(token), Some(User { uid: 5, gid: Some(5) })));
    let told = outcome(&mut test, &mut jobs, &mut admission);
    assert_eq!(status(&told), Some(Status::SUCCESS));
}

#[test]
fn an_early_peer_waits_for_its_namespace() {
    let (mut test, mut admission) = (testing::ctx(NoHost), Admission::default());
    let (mut jobs, token) = job(&mut test, false);
    admission.arrive(&mut test.cx, &mut jobs, PEER, arrival(Some(token), None));
    assert!(outcome(&mut test, &mut jobs, &mut admission).is_empty());
    register(&mut test, &mut jobs);
    admission.job_registered(&mut test.cx, &mut jobs, &proc("job", 0).nspace);
    assert_eq!(status(&outcome(&mut test, &mut jobs, &mut admission)), Some(Status::SUCCESS));
    assert!(
        test.effects()
            .iter()
            .any(|effect| matches!(effect, Effect::Joined { proc: joined, anew: false } if *joined == proc("job", 0)))
    );
    assert!(test.advance(std::time::Duration::from_secs(60)).is_empty(), "nobody waits for the host any more");
}

#[test]
fn a_host_that_does_not_answer_costs_the_peer_its_place() {
    let host = DeferringHost::default();
    let (mut test, mut admission) = (testing::ctx(host.clone()), Admission::default());
    let (mut jobs, token) = job(&mut test, true);
    admission.arrive(&mut test.cx, &mut jobs, PEER, arrival(Some(token), None));
    assert_eq!(jobs.client(&proc("job", 0)).unwrap().phase, Phase::Asking);
    let late = test.advance(test.cx.config.host_answer_deadline);
    assert!(matches!(late[..], [Deadline::Admission(PEER)]));
    admission.expired(&mut test.cx, &mut jobs, PEER);
    assert_eq!(status(&outcome(&mut test, &mut jobs, &mut admission)), Some(Status::ERR_TIMEOUT));
    assert_eq!(jobs.client(&proc("job", 0)).unwrap().phase, Phase::Expected);
    host.0.lock().unwrap().pop().unwrap().complete(Ok(()));
    assert!(outcome(&mut test, &mut jobs, &mut admission).is_empty(), "its answer finds nobody");
}

#[test]
fn a_second_process_of_a_rank_is_a_clone_and_its_goodbye_is_its_own() {
    let (mut test, mut admission) = (testing::ctx(NoHost), Admission::default());
    let (mut jobs, token) = job(&mut test, true);
    let second = PeerId { connection: 8, ..PEER };
    for (peer, pid) in [(PEER, 1), (second, 2)] {
        admission.arrive(&mut test.cx, &mut jobs, peer, Arrival { pid, ..arrival(Some(token), None) });
        assert_eq!(status(&outcome(&mut test, &mut jobs, &mut admission)), Some(Status::SUCCESS));
    }
    assert_eq!([PEER, second].map(|peer| test.cx.peers[&peer].role), [Role::Rank, Role::Clone]);
    for (peer, phase) in [(second, Phase::Joined), (PEER, Phase::Finalized)] {
        let caller = test.request(peer);
        let role = test.cx.peers[&peer].role;
        admission.finalize(&mut test.cx, &mut jobs, caller, &proc("job", 0), role);
        let told = outcome(&mut test, &mut jobs, &mut admission);
        let done = crate::message::Reply::Done(Status::SUCCESS);
        let is_answer = |message: &Outgoing| {
            matches!(message, Outgoing::Reply { number, reply, .. }
                if Caller { peer, number: *number } == caller && *reply == done)
        };
        assert!(matches!(&told[..], [message] if is_answer(message)));
        assert_eq!(jobs.client(&proc("job", 0)).unwrap().phase, phase);
    }
}

#[test]
fn a_peer_that_maps_nothing_is_given_its_job_as_values() {
    let (mut test, mut admission) = (testing::ctx(NoHost), Admission::default());
    let (mut jobs, token) = job(&mut test, true);
    let capabilities = Capabilities { takes_job_info: true, ..Default::default() };
    admission.arrive(&mut test.cx, &mut jobs, PEER, Arrival { capabilities, ..arrival(Some(token), None) });
    let told = outcome(&mut test, &mut jobs, &mut admission);
    let [Outgoing::Accepted { parts, job_info: Some(info), .. }] = &told[..] else { panic!("{told:?}") };
    assert!(parts.is_empty());
    assert!(info.of_job().unwrap().contains(&Info::new(keys::JOB_SIZE, 1u32)), "{info:?}");
}

#[test]
fn a_tool_is_let_in_by_its_user_alone() {
    let mut config = ServerConfig { tools: Some(ToolSupport::default()), ..ServerConfig::default() };
    config.nspace = proc("server", 0).nspace;
    let mut test = testing::ctx_of(config, Arc::new(NoHost));
    let (mut jobs, mut admission) = (Jobs::default(), Admission::default());
    let tool = |user| Arrival { claim: Claim::Tool { proc: None, server: None }, ..arrival(None, user) };
    for (user, expected) in [
        (None, Status::ERR_INVALID_CRED),
        (Some(USER), Status::ERR_INVALID_CRED),
        (Some(User { uid: 0, gid: Some(0) }), Status::SUCCESS),
    ] {
        admission.arrive(&mut test.cx, &mut jobs, PEER, tool(user));
        let told = outcome(&mut test, &mut jobs, &mut admission);
        assert_eq!(status(&told), Some(expected), "{user:?}");
    }
    assert_eq!(test.cx.peers[&PEER].proc, proc("server.tool.1", 0));
    assert!(jobs.client(&proc("server.tool.1", 0)).unwrap().is_tool);
}

#[test]
fn the_last_descriptors_are_for_ranks() {
    let (mut test, mut admission) = (testing::ctx(NoHost), Admission::default());
    let (mut jobs, token) = job(&mut test, true);
    test.has_few_descriptors();
    for (connection, expected) in [(1, Status::SUCCESS), (2, Status::ERR_OUT_OF_RESOURCE)] {
        let process = Some(std::fs::File::open("/dev/null").unwrap().into());
        let arrival = Arrival { process, ..arrival(Some(token), Some(USER)) };
        admission.arrive(&mut test.cx, &mut jobs, PeerId { connection, ..PEER }, arrival);
        assert_eq!(status(&outcome(&mut test, &mut jobs, &mut admission)), Some(expected));
    }
}

#[test]
fn a_forked_child_is_let_in_as_long_as_its_job_has_room_and_a_rank_always() {
    let config = ServerConfig { job_memory: 4 * CONNECTION as u64, ..ServerConfig::default() };
    let (mut test, mut admission) = (testing::ctx_of(config, Arc::new(NoHost)), Admission::default());
    let (mut jobs, token) = job(&mut test, true);
    let mut come = |connection, expected| {
        let peer = PeerId { connection, ..PEER };
        admission.arrive(&mut test.cx, &mut jobs, peer, arrival(Some(token), Some(USER)));
        let told = outcome(&mut test, &mut jobs, &mut admission);
        assert_eq!(status(&told), Some(expected), "connection {connection}");
        test.cx.peers.get(&peer).map(|entry| entry.requests.account().clone())
    };
    let account = come(1, Status::SUCCESS).unwrap();
    come(2, Status::SUCCESS);
    assert_eq!(account.used(), 2 * CONNECTION as u64);
    come(3, Status::ERR_OUT_OF_RESOURCE);
    (1..3).for_each(|connection| _ = test.cx.peers.remove(&PeerId { connection, ..PEER }));
    assert_eq!(account.used(), 0);
    let _all = account.force(Kind::Connection, 4 * CONNECTION);
    jobs.client_mut(&proc("job", 0)).unwrap().peer = None;
    admission.arrive(&mut test.cx, &mut jobs, PEER, arrival(Some(token), Some(USER)));
    assert_eq!(status(&outcome(&mut test, &mut jobs, &mut admission)), Some(Status::SUCCESS));
}
