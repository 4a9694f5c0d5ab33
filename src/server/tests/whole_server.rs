//! A whole server behind a door over channels: init, get, fence, event, group and the death of a process.
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::channel_door::{self, ChannelPeer, PeerSide};
use crate::data::{DataRange, Info, Key, Nspace, Proc, Rank, Scope, Status, Value, Waiting, keys};
use crate::message::door::{Outgoing, PeerId, Ready};
use crate::message::{GroupCall, Posted, Push, Reply, Request};
use crate::server::Host;
use crate::server::config::ServerConfig;
use crate::server::ctx::peers::{Caller, Peer, Role};
use crate::server::ctx::testing;
use crate::server::ctx::ticket::Ticket;
use crate::server::fork_environment::{Common, ForkEnvironments};
use crate::server::mailbox::Mailbox;
use crate::server::reactor::Reactor;
use crate::server::router::Router;
use crate::server::waiting::Rooms;
use crate::store::JobInfoBuilder;

/// A host that notes which processes are lost, and serves nothing.
#[derive(Clone, Default)]
struct RecordingHost(Arc<Mutex<Vec<(Proc, Status)>>>);

impl Host for RecordingHost {
    fn client_lost(&self, proc: &Proc, status: Status) {
        self.0.lock().unwrap().push((proc.clone(), status));
    }
}

/// A server with a job of two processes here, and the other side of its door.
struct TestServer {
    reactor: Reactor,
    mailbox: Mailbox<Router>,
    peer_side: PeerSide,
    nspace: Nspace,
    lost: RecordingHost,
    clock: testing::Clock,
}

impl TestServer {
    fn new() -> Self {
        let lost = RecordingHost::default();
        let (door, peer_side) = channel_door::open();
        let (mailbox, commands) = Mailbox::new(|| ());
        let mut test = testing::ctx_of(ServerConfig::default(), Arc::new(lost.clone()));
        let sink = mailbox.clone();
        test.send_tickets_to(Arc::new(move |ticket| {
            sink.post(move |router: &mut Router| router.redeem(ticket)).unwrap()
        }));
        let clock = test.clock();
        let environments = ForkEnvironments::new(Common::default());
        let router = Router::new(test.cx, environments, None);
        let reactor = Reactor::new(router, vec![Box::new(door)], commands);
        let nspace = Nspace::new("job").unwrap();
        let mut server =
            TestServer { reactor, mailbox: mailbox.clone(), peer_side, nspace: nspace.clone(), lost, clock };
        let registers = move |router: &mut Router| {
            let mut info = JobInfoBuilder::new(&nspace, 2, "here");
            let info = info.infos(&[Info::new(keys::JOB_SIZE, 2u32), Info::new("site.key", "x")]).map(|()| info);
            router.jobs.register(&mut router.cx, &nspace, 2, info).unwrap();
            for rank in [0, 1].map(Rank) {
                router.jobs.register_client(&mut router.cx, &Proc::new(nspace.clone(), rank), 1, 1).unwrap();
            }
        };
        mailbox.post(registers).unwrap();
        server.reactor.run_commands();
        server
    }

    fn proc(&self, rank: u32) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank))
    }

    /// Count of releases at the job's word.
    fn releases(&self) -> u32 {
        self.reactor.router.jobs.store(&self.nspace).map(|store| store.releases()).unwrap()
    }

    /// Lets the door act on what peers have sent.
    fn turn(&mut self) {
        self.reactor.ready(0, 0, Ready { readable: true, writable: false, ended: false });
    }

    /// Lets time pass, and deadlines run out.
    fn pass(&mut self, by: Duration) {
        self.clock.pass(by);
        self.reactor.run_deadlines();
    }

    /// Lets a rank come in.
    fn comes(&mut self, rank: u32) -> ChannelPeer {
        let token = self.reactor.router.jobs.get(&self.nspace).map(|job| job.token);
        let peer = self.peer_side.comes(&self.proc(rank), token);
        self.turn();
        let told = peer.hears();
        let [Outgoing::Accepted { proc, parts, job_info: Some(info), .. }] = &told[..] else { panic!("{told:?}") };
        assert_eq!((proc, parts.len()), (&self.proc(rank), 0));
        assert!(info.of_job().unwrap().contains(&Info::new("site.key", "x")), "{info:?}");
        peer
    }

    /// Lets both ranks come in.
    fn both_come(&mut self) -> [ChannelPeer; 2] {
        [0, 1].map(|rank| self.comes(rank))
    }
}

/// The replies that a peer has got, by their numbers; it has got nothing else.
fn replies(peer: &ChannelPeer) -> Vec<(u64, Reply)> {
    let reply = |message: Outgoing| match message.made() {
        Outgoing::Reply { number, reply, .. } => (number, reply),
        other => panic!("{other:?} is no reply"),
    };
    peer.hears().into_iter().map(reply).collect()
}

fn done(status: Status) -> Reply {
    Reply::Done(status)
}

fn fence() -> Request {
    Request::Fence { procs: Vec::new(), info: Vec::new() }
}

fn get(proc: Proc, key: &str) -> Request {
    Request::Get { proc, key: Some(Key::new(key).unwrap()), info: Vec::new() }
}

#[test]
fn a_peer_without_token_and_kernel_user_is_refused() {
    let mut server = TestServer::new();
    let peer = server.peer_side.comes(&server.proc(0), None);
    server.turn();
    let told = peer.hears();
    assert!(matches!(told[..], [Outgoing::Refused { status: Status::ERR_INVALID_CRED, .. }]), "{told:?}");
}

#[test]
fn a_get_waits_until_its_key_is_committed() {
    let mut server = TestServer::new();
    let [mut asks, mut posts] = server.both_come();
    let number = asks.asks(get(server.proc(1), "k"));
    server.turn();
    assert_eq!(replies(&asks), []);
    let entry = Posted { scope: Scope::GLOBAL, key: Key::new("k").unwrap(), value: Value::from(7u32) };
    posts.tells(Request::Commit { entries: vec![entry] });
    server.turn();
    assert_eq!(replies(&asks), [(number, Reply::Value(Value::from(7u32)))]);
    assert_eq!(replies(&posts), [], "nobody waits for a commit that succeeds");
    let number = asks.asks(get(Proc::new(server.nspace.clone(), Rank::WILDCARD), keys::JOB_SIZE));
    server.turn();
    assert_eq!(replies(&asks), [(number, Reply::Value(Value::from(2u32)))]);
}

#[test]
fn what_waits_is_charged_with_the_memory_that_it_takes_and_not_with_its_message() {
    let mut server = TestServer::new();
    let [mut asks, _other] = server.both_come();
    let info = vec![Info::new("x", true); 1000];
    asks.asks(Request::Fence { procs: Vec::new(), info });
    server.turn();
    assert_eq!(replies(&asks), []);
    assert!(server.reactor.router.cx.accounts.charged() as usize > 2 * 1000 * size_of::<Info>(), "request and fence");
}

#[test]
fn an_answer_of_the_host_counts_for_who_has_asked_and_one_to_many_for_nobody() {
    let mut server = TestServer::new();
    let mut peers = server.both_come();
    let proc = server.proc(0);
    let numbers = peers.each_mut().map(|peer| [(); 2].map(|()| peer.asks(get(proc.clone(), "never"))));
    server.turn();
    let answers = move |turn: usize, connections: &'static [u64]| {
        move |router: &mut Router| {
            for connection in connections {
                let caller = Caller {
                    peer: PeerId { door: 0, connection: *connection },
                    number: numbers[*connection as usize - 1][turn],
                };
                router.redeem(Ticket::Reply(caller, done(Status::ERR_NOT_FOUND)));
            }
        }
    };
    server.mailbox.post(answers(0, &[2])).unwrap();
    server.mailbox.post(answers(1, &[1, 2])).unwrap();
    server.reactor.run_commands();
    assert_eq!(peers.map(|peer| replies(&peer).len()), [1, 2]);
    assert_eq!(server.peer_side.spent.try_iter().collect::<Vec<_>>(), [2]);
}

#[test]
fn answers_to_one_peer_go_out_together_those_of_a_turn_and_those_that_the_host_gives_at_once() {
    let mut server = TestServer::new();
    let mut peers = server.both_come();
    let flushed = |server: &TestServer| server.peer_side.flushed.try_iter().collect::<Vec<_>>();
    flushed(&server);
    let of_job = Proc::new(server.nspace.clone(), Rank::WILDCARD);
    peers.iter_mut().for_each(|peer| (0..3).for_each(|_| _ = peer.asks(get(of_job.clone(), keys::JOB_SIZE))));
    server.turn();
    assert_eq!((peers.each_ref().map(|peer| replies(peer).len()), flushed(&server)), ([3, 3], vec![1, 2]));
    let never = server.proc(0);
    let numbers = [(); 2].map(|()| peers[1].asks(get(never.clone(), "never")));
    server.turn();
    for number in numbers {
        let caller = Caller { peer: PeerId { door: 0, connection: 2 }, number };
        let answer = move |router: &mut Router| router.redeem(Ticket::Reply(caller, done(Status::ERR_NOT_FOUND)));
        server.mailbox.post(answer).unwrap();
    }
    server.reactor.run_commands();
    assert_eq!((peers.map(|peer| replies(&peer).len()), flushed(&server)), ([0, 2], vec![2]));
}

#[test]
fn what_threads_and_slices_take_for_a_large_commit_counts_for_its_process() {
    let mut server = TestServer::new();
    let [commits, _] = server.both_come();
    let entry = |number: usize| Posted {
        scope: Scope::GLOBAL,
        key: Key::new(format!("k{number}").as_str()).unwrap(),
        value: vec![7u8; 100].into(),
    };
    let request = Request::Commit { entries: (0..1000).map(entry).collect() };
    let peer = PeerId { door: 0, connection: 1 };
    server.mailbox.post(move |router: &mut Router| router.dispatch(peer, 1, request, 100_000)).unwrap();
    server.reactor.run_commands();
    while !commits.hears().iter().any(|message| matches!(message, Outgoing::Reply { .. })) {
        server.clock.run_offloaded();
        server.reactor.run_commands();
        server.reactor.run_slice();
    }
    // Two steps of a thread, what follows on each of them, and two slices.
    assert_eq!(server.peer_side.spent.try_iter().collect::<Vec<_>>(), [1; 6]);
}

#[test]
fn a_fence_ends_for_all_when_the_last_has_come() {
    let mut server = TestServer::new();
    let mut peers = server.both_come();
    for _ in 0..3 {
        let first = peers[0].asks(fence());
        server.turn();
        assert_eq!(replies(&peers[0]), []);
        let second = peers[1].asks(fence());
        server.turn();
        assert_eq!(replies(&peers[0]), [(first, done(Status::SUCCESS))]);
        assert_eq!(replies(&peers[1]), [(second, done(Status::SUCCESS))]);
    }
}

#[test]
fn an_event_comes_to_those_who_have_registered_its_code() {
    let mut server = TestServer::new();
    let [mut raises, mut hears] = server.both_come();
    let code = Status(-2001);
    let registered = hears.asks(Request::RegisterEvents { codes: vec![code], info: Vec::new() });
    server.turn();
    assert_eq!(replies(&hears), [(registered, done(Status::SUCCESS))]);
    for status in [Status(-2002), code] {
        raises.asks(Request::Notify { status, range: DataRange::LOCAL, info: vec![Info::new("why", "x")] });
    }
    server.turn();
    let heard = hears.hears();
    let [Outgoing::Shared(push)] = &heard[..] else { panic!("{heard:?}") };
    let Push::Event { status, source, info, .. } = &**push else { panic!("{push:?}") };
    assert_eq!((*status, source), (code, &server.proc(0)));
    assert!(info.contains(&Info::new("why", "x")), "{info:?}");
}

#[test]
fn a_group_is_made_of_those_who_construct_it() {
    let mut server = TestServer::new();
    let mut peers = server.both_come();
    let procs = vec![server.proc(1), server.proc(0)];
    let construct = || GroupCall::Construct { procs: procs.clone(), info: Vec::new() };
    let group = Nspace::new("group").unwrap();
    let numbers = [0, 1].map(|at| {
        let number = peers[at].asks(Request::Group { group: group.clone(), call: construct(), seen: None });
        server.turn();
        number
    });
    for (peer, number) in peers.iter().zip(numbers) {
        let told = replies(peer);
        let [(answered, Reply::Infos(Status::SUCCESS, info))] = &told[..] else { panic!("{told:?}") };
        assert_eq!(*answered, number);
        let membership = info.iter().find(|info| info.key == keys::GROUP_MEMBERSHIP).expect("the members");
        let Value::DataArray(members) = &membership.value else { panic!("{membership:?}") };
        let members: Vec<_> = members.items().iter().filter_map(|member| member.as_proc()).cloned().collect();
        assert_eq!(members, procs);
    }
    // A fence of the group is one of its members.
    let of_group = || Request::Fence { procs: vec![Proc::new(group.clone(), Rank::WILDCARD)], info: Vec::new() };
    let numbers = [0, 1].map(|at| peers[at].asks(of_group()));
    server.turn();
    for (peer, number) in peers.iter().zip(numbers) {
        assert_eq!(replies(peer), [(number, done(Status::SUCCESS))]);
    }
}

/// A request to make the group of these, or to end it, which is waited for at the word.
fn of_group(server: &TestServer, construct: Option<&[u32]>, info: &[Info], waits_at_word: bool) -> Request {
    let call = match construct {
        Some(ranks) => {
            GroupCall::Construct { procs: ranks.iter().map(|rank| server.proc(*rank)).collect(), info: info.to_vec() }
        }
        None => GroupCall::Destruct { info: info.to_vec() },
    };
    let seen = waits_at_word.then(|| server.releases());
    Request::Group { group: Nspace::new("group").unwrap(), call, seen }
}

#[test]
fn a_group_of_all_is_made_and_ended_at_the_word_where_that_says_all() {
    let context = [Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true)];
    for (lists, info, waiting, at_word) in [
        ([[0, 1]; 2], &[][..], [true; 2], true),
        ([[1, 0]; 2], &[][..], [true; 2], true),
        // One of them would learn nothing of the other's order.
        ([[0, 1], [1, 0]], &[][..], [true; 2], false),
        ([[0, 1]; 2], &[][..], [true, false], false),
        ([[0, 1]; 2], &context[..], [true; 2], false),
    ] {
        let mut server = TestServer::new();
        let mut peers = server.both_come();
        for (is_destruct, at_word) in [(false, at_word), (true, waiting == [true; 2])] {
            let before = server.releases();
            let numbers = [0, 1].map(|at| {
                let construct = (!is_destruct).then_some(&lists[at][..]);
                let info = if is_destruct { &[] } else { info };
                let number = peers[at].asks(of_group(&server, construct, info, waiting[at]));
                server.turn();
                number
            });
            assert_eq!(server.releases() != before, at_word, "{lists:?} {info:?} {waiting:?}, destruct: {is_destruct}");
            for (peer, number) in peers.iter().zip(numbers) {
                let told: Vec<u64> = replies(peer).into_iter().map(|(number, _)| number).collect();
                assert_eq!(told, if at_word { Vec::new() } else { vec![number] });
            }
        }
    }
}

#[test]
fn who_waits_at_the_word_for_a_group_is_not_woken_by_a_fence_of_all() {
    let mut server = TestServer::new();
    let [mut first, mut second] = server.both_come();
    first.asks(of_group(&server, Some(&[0, 1]), &[], true));
    let by_thread = first.asks(fence());
    let before = server.releases();
    let fenced = second.asks(Request::Meet { seen: before, info: Vec::new() });
    server.turn();
    assert_eq!(replies(&first), [(by_thread, done(Status::SUCCESS))]);
    assert_eq!((replies(&second), server.releases()), (vec![(fenced, done(Status::SUCCESS))], before));
    second.asks(of_group(&server, Some(&[0, 1]), &[], true));
    server.turn();
    assert_eq!((replies(&first), replies(&second), server.releases()), (vec![], vec![], before + 1));
    // It waits no more.
    first.asks(fence());
    second.asks(Request::Meet { seen: before + 1, info: Vec::new() });
    server.turn();
    assert_eq!(server.releases(), before + 2);
}

#[test]
fn who_may_not_have_read_its_answer_is_not_woken_at_the_word() {
    let context = Info::new(keys::GROUP_ASSIGN_CONTEXT_ID, true);
    let unknown = Info::new("unknown", true).required();
    // One that is made, and two that are refused.
    for (ranks, info) in [(&[0][..], context), (&[0, 1], unknown), (&[1], Info::new("why", true))] {
        let mut server = TestServer::new();
        let [mut first, mut second] = server.both_come();
        // A message answers this, whatever it says; the thread that waits may be asleep still.
        let answered = first.asks(of_group(&server, Some(ranks), &[info], true));
        server.turn();
        assert_eq!(replies(&first).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [answered]);
        let before = server.releases();
        let by_thread = first.asks(fence());
        let fenced = second.asks(Request::Meet { seen: before, info: Vec::new() });
        server.turn();
        assert_eq!(replies(&first), [(by_thread, done(Status::SUCCESS))]);
        assert_eq!((replies(&second), server.releases()), (vec![(fenced, done(Status::SUCCESS))], before));
        // It has woken up: it waits there anew.
        first.meets_as(20, before, false);
        second.meets_as(20, before, false);
        server.turn();
        assert_eq!(server.releases(), before + 1);
    }
}

#[test]
fn who_comes_alone_to_a_group_at_the_word_is_not_woken_by_a_fence_of_all() {
    let mut server = TestServer::new();
    let [mut first, mut second] = server.both_come();
    let leaders = Info::new(keys::GROUP_BOOTSTRAP, Value::Size(2));
    first.asks(of_group(&server, Some(&[0]), std::slice::from_ref(&leaders), true));
    let before = server.releases();
    first.asks(fence());
    second.asks(Request::Meet { seen: before, info: Vec::new() });
    server.turn();
    assert_eq!(server.releases(), before);
}

#[test]
fn the_death_of_a_process_ends_what_waits_for_it() {
    let mut server = TestServer::new();
    let [mut waits, dies] = server.both_come();
    let fenced = waits.asks(fence());
    let asked = waits.asks(get(server.proc(1), "never"));
    server.turn();
    assert_eq!(replies(&waits), []);
    dies.goes();
    server.turn();
    let mut told = replies(&waits);
    told.sort_by_key(|(number, _)| *number);
    assert_eq!(told, [(fenced, done(Status::ERR_PARTIAL_SUCCESS)), (asked, done(Status::ERR_NOT_FOUND))]);
    assert_eq!(*server.lost.0.lock().unwrap(), [(server.proc(1), Status::ERR_PROC_TERM_WO_SYNC)]);

    // Another process may come as that rank, and meets its peers anew.
    let mut again = server.comes(1);
    let numbers = [waits.asks(fence()), again.asks(fence())];
    server.turn();
    assert_eq!(replies(&waits), [(numbers[0], done(Status::SUCCESS))]);
    assert_eq!(replies(&again), [(numbers[1], done(Status::SUCCESS))]);
    let goodbye = again.asks(Request::Finalize);
    server.turn();
    assert_eq!(replies(&again), [(goodbye, done(Status::SUCCESS))]);
}

/// Lets a process come in that a rank has forked.
fn clone_of(server: &mut TestServer, rank: u32) -> ChannelPeer {
    let clone = server.comes(rank);
    let is_clone = |entry: &Peer| entry.role == Role::Clone && entry.proc.rank == Rank(rank);
    assert!(server.reactor.router.cx.peers.values().any(is_clone));
    clone
}

#[test]
fn what_a_process_has_forked_is_cut_off_with_it_by_the_hosts_word() {
    let mut server = TestServer::new();
    let _ranks = server.both_come();
    let [of_one, of_other] = [1, 0].map(|rank| clone_of(&mut server, rank));
    let (one, nspace) = (server.proc(1), server.nspace.clone());
    let is_cut = |clone: &ChannelPeer| clone.hears().iter().any(|told| matches!(told, Outgoing::End));
    server.mailbox.post(move |router: &mut Router| router.client_died(&one)).unwrap();
    server.reactor.run_commands();
    server.turn();
    assert_eq!([&of_one, &of_other].map(is_cut), [true, false]);
    // Nobody of a job is left behind it.
    let over = move |router: &mut Router| router.deregister_nspace(&nspace, Box::new(|_| {}));
    server.mailbox.post(over).unwrap();
    server.reactor.run_commands();
    server.turn();
    assert_eq!((is_cut(&of_other), server.reactor.router.cx.peers.len()), (true, 0));
}

/// Has both ranks make a group, and the second one die. Returns the first.
fn left_of_a_group(server: &mut TestServer) -> ChannelPeer {
    let [mut stays, mut dies] = server.both_come();
    stays.asks(of_group(server, Some(&[0, 1]), &[], false));
    dies.asks(of_group(server, Some(&[0, 1]), &[], false));
    server.turn();
    assert_eq!(replies(&stays).len(), 1);
    dies.goes();
    server.turn();
    stays
}

#[test]
fn who_is_started_anew_is_in_no_group_of_the_one_before() {
    let mut server = TestServer::new();
    let mut stays = left_of_a_group(&mut server);
    let mut again = server.comes(1);
    let members = Proc::new(Nspace::new("group").unwrap(), Rank::WILDCARD);
    let of_members = || Request::Fence { procs: vec![members.clone()], info: Vec::new() };
    let refused = [again.asks(of_members()), again.asks(of_group(&server, None, &[], false))];
    let failed = [stays.asks(of_members()), stays.asks(of_group(&server, None, &[], false))];
    server.turn();
    assert_eq!(replies(&again), refused.map(|number| (number, done(Status::ERR_NOT_A_MEMBER))));
    let statuses = [Status::ERR_PARTIAL_SUCCESS, Status::ERR_PROC_TERM_WO_SYNC];
    assert_eq!(replies(&stays), [0, 1].map(|at| (failed[at], done(statuses[at]))));
    // It owes nothing to those, and meets the other by its own name; the group can be ended without it.
    let fenced = again.asks(fence());
    server.turn();
    assert_eq!(replies(&again), []);
    let numbers = [stays.asks(fence()), stays.asks(of_group(&server, None, &[], false))];
    server.turn();
    assert_eq!(replies(&again), [(fenced, done(Status::SUCCESS))]);
    let mut told = replies(&stays).into_iter();
    assert_eq!(told.next(), Some((numbers[0], done(Status::SUCCESS))));
    let (number, ended) = told.next().expect("the group is over");
    assert_eq!((number, ended), (numbers[1], done(Status::SUCCESS)));
}

#[test]
fn who_is_started_anew_does_not_meet_a_group_that_goes_by_its_name() {
    let excused = vec![Info::new(keys::GROUP_OPTIONAL, true)];
    for (info, ends) in [(Vec::new(), Status::ERR_PARTIAL_SUCCESS), (excused, Status::SUCCESS)] {
        let mut server = TestServer::new();
        let mut stays = left_of_a_group(&mut server);
        // It is there first, and waits for the other's fence of all.
        let mut again = server.comes(1);
        let fenced = again.asks(fence());
        server.turn();
        let members = vec![Proc::new(Nspace::new("group").unwrap(), Rank::WILDCARD)];
        let of_members = stays.asks(Request::Fence { procs: members, info });
        server.turn();
        assert_eq!((replies(&stays), replies(&again)), (vec![(of_members, done(ends))], vec![]));
        let of_all = stays.asks(fence());
        server.turn();
        assert_eq!(replies(&stays), [(of_all, done(Status::SUCCESS))]);
        assert_eq!(replies(&again), [(fenced, done(Status::SUCCESS))]);
    }
}

#[test]
fn the_first_fence_of_a_late_rank_is_the_first_one_of_the_others_that_has_failed() {
    let mut server = TestServer::new();
    let mut early = server.comes(0);
    let limited = || Request::Fence { procs: Vec::new(), info: vec![Info::new(keys::TIMEOUT, 1)] };
    let first = early.asks(limited());
    server.turn();
    server.pass(Duration::from_secs(1));
    assert_eq!(replies(&early), [(first, done(Status::ERR_TIMEOUT))]);
    let mut late = server.comes(1);
    let numbers = [early.asks(fence()), late.asks(fence()), late.asks(fence())];
    server.turn();
    assert_eq!(replies(&late), [(numbers[1], done(Status::ERR_TIMEOUT)), (numbers[2], done(Status::SUCCESS))]);
    assert_eq!(replies(&early), [(numbers[0], done(Status::SUCCESS))]);
}

#[test]
fn who_waits_for_whom_is_reported_to_those_who_may_know() {
    let mut server = TestServer::new();
    let mut first = server.comes(0);
    let report = |server: &TestServer, uid: u32| {
        let Router { cx, jobs, collectives, fences, gets, groups, .. } = &server.reactor.router;
        let rooms = Rooms { jobs, collectives, fences, gets, groups };
        let mut report = rooms.report(cx, jobs.seen_by(|user| user == uid));
        report.sort();
        let awaited =
            |row: &Waiting| row.awaited.iter().map(|(_, ranks)| ranks.to_string()).collect::<Vec<_>>().join(";");
        let line = |row: &Waiting| {
            format!(
                "{} {} {} {} {:?} {}",
                row.ranks,
                row.activity.name(),
                row.call,
                row.subject,
                row.since,
                awaited(row)
            )
        };
        report.rows.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(report(&server, 1), ["0 running   0ns ", "1 never attached   0ns "]);
    let mut second = server.comes(1);
    first.asks(fence());
    second.asks(get(server.proc(0), "never.put"));
    second.asks(Request::Group {
        group: Nspace::new("g").unwrap(),
        call: GroupCall::Construct { procs: vec![server.proc(0), server.proc(1)], info: Vec::new() },
        seen: None,
    });
    server.turn();
    server.pass(Duration::from_secs(1));
    let group = "1 waits group construct g 1s 0";
    assert_eq!(report(&server, 1), ["0 waits fence  1s 1", group, "1 waits get never.put 1s 0"]);
    assert_eq!(report(&server, 2), [""; 0], "another user's");
    second.asks(fence());
    server.turn();
    assert!(report(&server, 1).iter().any(|row| row == "0 running   0ns "), "the fence is over");
}
