//! Events between the processes of a node, and through the host beyond it.
//!
//! A client registers the codes it wants to hear of, or all of them. An event goes to every registered client within
//! its range, except the one that raised it, which tells its own handlers itself; when the range reaches beyond the
//! node, the host gets it too, with this server's name (`PMIX_EVENT_PROXY`), by which it is known if the host hands it
//! back. A registration ends with its connection.
//!
//! An event is kept for a while ([`Backlog`]): a client that registers for it later, and was within its range, is sent
//! it then, unless the event says that it is not to be kept (`PMIX_EVENT_DO_NOT_CACHE`).
use std::collections::BTreeSet;
use std::sync::Arc;

use super::ctx::Ctx;
use super::ctx::audience::Audience;
use super::ctx::effect::Effect;
use super::ctx::event::{AfterRaise, Event, Origin};
use super::ctx::peers::{Caller, Peer, Role};
use super::ctx::ticket::Ticket;
use super::jobs::Jobs;
use crate::account::{Charge, Kind};
use crate::collect_small::collect_small;
use crate::data::{Info, InfoList, Proc, Rank, Status, WATCH, keys};
use crate::message::Push;
use crate::message::backlog::Backlog;
use crate::message::door::{Outgoing, PeerId};
use crate::trace;

mod host_codes;
mod stops;
mod watchers;

use host_codes::HostCodes;
use watchers::Watchers;

/// Most codes that one client can register, and name at a time: they are gone through in one step.
const MAX_CODES: usize = 8192;

/// Most bytes of an event that a client raises: it is encoded, and copied to each who hears of it, in one step.
pub const MAX_EVENT: usize = 1 << 20;

/// Event codes at the host, and events that are kept for those who register late.
#[derive(Debug, Default)]
pub struct Events {
    host_codes: HostCodes,
    kept: Backlog<Kept>,
    /// Tools that see every event.
    pub watchers: Watchers,
}

/// An event that was delivered, and is kept.
#[derive(Debug)]
struct Kept {
    event: Event,
    audience: Audience,
    /// Peers that have it: those it was sent to, and the one that raised it.
    told: BTreeSet<PeerId>,
    /// Charge to the client that raised it.
    _charge: Option<Charge>,
}

impl Events {
    /// A client registers codes; all of them, where it names none.
    pub fn register(&mut self, cx: &mut Ctx, jobs: &Jobs, caller: Caller, codes: &[Status], mut info: Vec<Info>) {
        let Ctx { subscriptions, peers, .. } = cx;
        let account = peers.get(&caller.peer).map(|entry| entry.requests.account());
        let are_few = subscriptions.count(caller.peer) + codes.len() <= MAX_CODES;
        if !are_few || !account.is_none_or(|account| subscriptions.charge(caller.peer, account, codes)) {
            return cx.reply_status(caller.peer, caller.number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        cx.subscriptions.add(caller.peer, codes);
        self.watchers.registered(cx, jobs, caller.peer, &info);
        cx.reply_status(caller.peer, caller.number, Ok(()));
        self.send_kept(cx, caller.peer, codes);
        info.retain(|info| info.key != WATCH);
        if let Some(proc) = cx.peers.get(&caller.peer).map(|entry| entry.proc.clone()) {
            info = jobs.signed(cx, &proc, info);
        }
        self.host_codes.watch(cx, codes, info);
    }

    /// A client takes codes back.
    pub fn deregister(&mut self, cx: &mut Ctx, caller: Caller, codes: &[Status]) {
        // So many it has never registered.
        if codes.len() > MAX_CODES {
            return cx.reply_status(caller.peer, caller.number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let unwanted = cx.subscriptions.remove(caller.peer, codes);
        self.host_codes.release(cx, &unwanted);
        cx.reply_status(caller.peer, caller.number, Ok(()));
    }

    /// The registrations of a peer end.
    pub fn peer_over(&mut self, cx: &mut Ctx, peer: PeerId) {
        self.watchers.over(peer);
        if let Some(unwanted) = cx.subscriptions.forget(peer) {
            // No other connection will ever have its number.
            self.kept.events(cx.now()).for_each(|kept| _ = kept.told.remove(&peer));
            self.host_codes.release(cx, &unwanted);
        }
    }

    /// The host has registered codes, or no longer watches for some.
    pub fn host_watches(&mut self, cx: &mut Ctx, result: Result<(), Status>) {
        self.host_codes.answered(cx, result);
    }

    /// Sends a client that has registered codes what it has missed.
    fn send_kept(&mut self, cx: &mut Ctx, peer: PeerId, codes: &[Status]) {
        let named: BTreeSet<i32> = collect_small(codes.iter().map(|code| code.0));
        for Kept { event, audience, told, .. } in self.kept.events(cx.now()) {
            let is_wanted = match codes {
                [] => !event.info.is_set(keys::EVENT_NON_DEFAULT),
                _ => named.contains(&event.status.0),
            };
            if is_wanted && is_in(cx, audience, peer) && told.insert(peer) {
                cx.send(peer, Outgoing::Push(push(event)));
            }
        }
    }

    /// Sends an event to a client that has registered for it.
    pub fn tell(&self, cx: &mut Ctx, peer: PeerId, event: &Event) {
        let default_too = !event.info.is_set(keys::EVENT_NON_DEFAULT);
        if cx.subscriptions.hearers(event.status, default_too).any(|hearer| hearer == peer) {
            cx.send(peer, Outgoing::Push(push(event)));
        }
    }

    /// Raises an event: delivers it to the clients here that it is for, and has the host carry it where others are
    /// among them.
    pub fn raise(&mut self, cx: &mut Ctx, jobs: &Jobs, event: Event, origin: Origin, then: AfterRaise) {
        let audience = match Audience::of(&event) {
            Ok(audience) => audience,
            Err(refused) => return follow(cx, then, Err(refused)),
        };
        // An event that the host passes on comes from elsewhere already. Only one that it raises in a server's name is
        // for elsewhere, and not if another server has given it to its host: it would go to and fro for ever.
        let by_another = proxy_of(&event).is_some_and(|proxy| *proxy != cx.identity.proc);
        let passed_on = origin == Origin::Program && (event.source.nspace != cx.config.nspace || by_another);
        // The raiser has told its own handlers, and some hosts hand a server its own events back.
        let raiser = match origin {
            Origin::Peer(peer) => Some(peer),
            Origin::Program if passed_on => jobs.client(&event.source).and_then(|client| client.peer),
            Origin::Program | Origin::Library => None,
        };
        let default_too = !event.info.is_set(keys::EVENT_NON_DEFAULT);
        let hearers = cx.subscriptions.hearers(event.status, default_too);
        let mut told: BTreeSet<PeerId> =
            collect_small(hearers.filter(|peer| Some(*peer) != raiser && is_in(cx, &audience, *peer)));
        if !told.is_empty() {
            let push = Arc::new(push(&event));
            told.iter().for_each(|peer| cx.send(*peer, Outgoing::Shared(push.clone())));
        }
        self.watchers.show(cx, &event, &told);
        let all_here = is_all_here(jobs, &audience, origin);
        // A host may have stopped processes itself: it hears of their release wherever they are.
        let stays_here = passed_on || all_here && event.status != Status::DEBUGGER_RELEASE;
        // A client's event that all who are here have heard, or somebody, has done its work even if the host has no way to
        // carry it on.
        let heard = matches!(origin, Origin::Peer(_)) && (all_here || !told.is_empty());
        if !event.info.is_set(keys::EVENT_DO_NOT_CACHE) {
            told.extend(raiser);
            let charge = match origin {
                Origin::Peer(peer) => cx.charge(peer, Kind::Event, size_of(&event)).map(Some),
                Origin::Program | Origin::Library => Ok(None),
            };
            // One that its raiser has no room for is not kept, and was told to those who are here.
            if let Ok(_charge) = charge {
                self.kept.keep(
                    Kept { event: event.clone(), audience, told, _charge },
                    &event.source,
                    &event.info,
                    cx.now(),
                );
            }
        }
        match stays_here {
            true => follow(cx, then, Ok(())),
            false => pass_on(cx, event, origin, heard, then),
        }
    }

    /// Returns whether this is an event of a process here, or of this server, that the host hands back: everybody
    /// within its range has it. Two servers of a careless host may have the same name, but not the same processes.
    pub fn is_back(&self, cx: &Ctx, jobs: &Jobs, event: &Event) -> bool {
        let own = &cx.identity.proc;
        proxy_of(event) == Some(own) && (event.source == *own || all_run_here(jobs, &event.source))
    }

    /// The host has passed an event on, or not.
    pub fn passed_on(&mut self, cx: &mut Ctx, then: AfterRaise, heard: bool, result: Result<(), Status>) {
        match result {
            Err(Status::ERR_NOT_SUPPORTED) if heard => follow(cx, then, Ok(())),
            result => follow(cx, then, result),
        }
    }
}

/// Bytes that a kept event takes.
fn size_of(event: &Event) -> usize {
    event.info.iter().map(Info::kept_size).fold(std::mem::size_of::<Kept>(), usize::saturating_add)
}

/// Has the host carry an event to other nodes.
fn pass_on(cx: &mut Ctx, mut event: Event, origin: Origin, heard: bool, then: AfterRaise) {
    if proxy_of(&event).is_none() {
        event.info.push(Info::new(keys::EVENT_PROXY, cx.own_name()));
    }
    if origin == Origin::Library {
        event.sign(cx.own_name());
    }
    let Event { status, source, range, info, .. } = event;
    cx.ask_host(
        |host, done| host.notify_event(status, &source, range, &info, done),
        (),
        move |result| Ticket::EventPassedOn { then, heard, result },
    );
}

/// Goes on after a raise.
fn follow(cx: &mut Ctx, then: AfterRaise, result: Result<(), Status>) {
    match (then, result) {
        (AfterRaise::Reply(caller), result) => cx.reply_status(caller.peer, caller.number, result),
        (AfterRaise::Done(done), result) => cx.finish(done, result),
        (AfterRaise::Nothing | AfterRaise::Group { .. }, Ok(())) => {}
        (AfterRaise::Nothing, Err(status)) => trace!("not everybody hears of an event: {status}"),
        (AfterRaise::Group { group, number, status: event }, Err(failure)) => {
            cx.effect(Effect::Unreached { group, number, event, failure });
        }
    }
}

fn push(event: &Event) -> Push {
    let Event { status, source, range, info, vote } = event.clone();
    Push::Event { status, source, range, info, vote }
}

/// Returns whether a peer is among those an event is for.
fn is_in(cx: &Ctx, audience: &Audience, peer: PeerId) -> bool {
    // The server's program hears of everything that goes through its server.
    let hears = |entry: &Peer| entry.role == Role::Program || audience.has(&entry.proc);
    cx.peers.get(&peer).is_some_and(hears)
}

fn is_all_here(jobs: &Jobs, audience: &Audience, origin: Origin) -> bool {
    match audience {
        // A server in the process of its only client has the node's other processes behind its host.
        Audience::Node => !jobs.one_client || !matches!(origin, Origin::Peer(_)),
        Audience::Namespace(nspace) => all_run_here(jobs, &Proc::new(nspace.clone(), Rank::WILDCARD)),
        Audience::Procs(procs) => procs.iter().all(|proc| all_run_here(jobs, proc)),
        Audience::Everybody | Audience::HostAlone => false,
    }
}

/// Returns whether all that `proc` names runs on this node.
fn all_run_here(jobs: &Jobs, proc: &Proc) -> bool {
    let Some(job) = jobs.get(&proc.nspace) else { return false };
    let size = job.store.as_ref().and_then(|store| store.size());
    job.is_local(proc.rank) || !proc.rank.is_process() && size == job.local_procs.map(|n| n as u32)
}

/// The server that has given the event to its host, where one says so.
fn proxy_of(event: &Event) -> Option<&Proc> {
    event.info.find(keys::EVENT_PROXY)?.value.as_proc()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::data::DataRange;
    use crate::message::Reply;
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::{Accepted, Answer, Completion, Host, NoHost};

    const CODE: Status = Status::ERR_PROC_ABORTED;

    /// A host that takes every event and tells how it looked.
    struct ChannelHost(mpsc::Sender<(Proc, Vec<Info>, Completion<()>)>);

    impl Host for ChannelHost {
        fn notify_event(
            &self,
            _: Status,
            source: &Proc,
            _: DataRange,
            info: &[Info],
            done: Completion<()>,
        ) -> Accepted {
            self.0.send((source.clone(), info.to_vec(), done)).unwrap();
            Ok(Answer::Later)
        }
    }

    fn event(source: &Proc, range: DataRange, info: Vec<Info>) -> Event {
        Event { status: CODE, source: source.clone(), range, info, vote: None }
    }

    /// Two processes of a job and one of another, all registered for [`CODE`].
    fn three(test: &mut TestCtx, events: &mut Events) -> [(Proc, PeerId); 3] {
        let three = [proc("job", 0), proc("job", 1), proc("other", 0)].map(|proc| {
            let peer = test.connect(&proc);
            (proc, peer)
        });
        for (_, peer) in &three {
            let caller = test.request(*peer);
            events.register(&mut test.cx, &Jobs::default(), caller, &[CODE], Vec::new());
        }
        test.sent();
        three
    }

    fn told(test: &mut TestCtx) -> Vec<PeerId> {
        test.pushes().into_iter().map(|(peer, _)| peer).collect()
    }

    fn pass_on(test: &mut TestCtx, events: &mut Events) {
        while let Some(ticket) = test.ticket() {
            let Ticket::EventPassedOn { then, heard, result } = ticket else { panic!("{ticket:?}") };
            events.passed_on(&mut test.cx, then, heard, result);
        }
    }

    #[test]
    fn an_event_goes_to_those_in_its_range_except_its_raiser() {
        let (mut test, mut events, jobs) = (testing::ctx(NoHost), Events::default(), Jobs::default());
        let [(source, a), (_, b), (_, c)] = three(&mut test, &mut events);
        let mut raise = |event, origin| {
            events.raise(&mut test.cx, &jobs, event, origin, AfterRaise::Nothing);
            told(&mut test)
        };
        assert_eq!(raise(event(&source, DataRange::LOCAL, vec![]), Origin::Peer(a)), [b, c]);
        assert_eq!(raise(event(&source, DataRange::NAMESPACE, vec![]), Origin::Peer(a)), [b]);
        assert_eq!(raise(event(&source, DataRange::NAMESPACE, vec![]), Origin::Library), [a, b]);
        let custom = vec![Info::new(keys::EVENT_CUSTOM_RANGE, proc("other", 0))];
        assert_eq!(raise(event(&source, DataRange::CUSTOM, custom), Origin::Peer(a)), [c]);
        assert_eq!(raise(event(&source, DataRange::RM, vec![]), Origin::Peer(a)), []);
    }

    #[test]
    fn the_raiser_is_answered_when_the_host_has_carried_it_on_and_is_told_of_a_failure() {
        let (sender, carried) = mpsc::channel();
        let (mut test, mut events, jobs) = (testing::ctx(ChannelHost(sender)), Events::default(), Jobs::default());
        let [(source, a), ..] = three(&mut test, &mut events);
        for (result, expected) in [
            (Ok(()), Status::SUCCESS),
            (Err(Status::ERR_NOT_SUPPORTED), Status::SUCCESS),
            (Err(Status::ERR_TIMEOUT), Status::ERR_TIMEOUT),
        ] {
            let caller = test.request(a);
            let raised = event(&source, DataRange::GLOBAL, vec![]);
            events.raise(&mut test.cx, &jobs, raised, Origin::Peer(a), AfterRaise::Reply(caller));
            assert_eq!(test.replies(), []);
            let (from, info, done) = carried.try_recv().unwrap();
            assert_eq!((from, info), (source.clone(), vec![Info::new(keys::EVENT_PROXY, test.cx.own_name())]));
            done.complete(result);
            pass_on(&mut test, &mut events);
            assert_eq!(test.replies(), [(caller, Reply::Done(expected))]);
        }
    }

    #[test]
    fn a_host_hears_whose_registration_it_is() {
        struct Registrar(mpsc::Sender<Vec<Info>>);
        impl Host for Registrar {
            fn register_events(&self, _: &[Status], info: &[Info], _: Completion<()>) -> Accepted {
                self.0.send(info.to_vec()).unwrap();
                Ok(Answer::Done)
            }
        }
        let (sender, registered) = mpsc::channel();
        let (mut test, mut events, mut jobs) = (testing::ctx(Registrar(sender)), Events::default(), Jobs::default());
        let source = proc("job", 0);
        jobs.add(&source.nspace, 1, &[Rank(0)]);
        let peer = test.connect(&source);
        let caller = test.request(peer);
        let said = vec![Info::new(keys::USERID, 7u32), Info::new(keys::RANGE, DataRange::GLOBAL)];
        events.register(&mut test.cx, &jobs, caller, &[Status(1)], said);
        let client = jobs.client(&source).unwrap();
        let ids = [Info::new(keys::USERID, client.uid), Info::new(keys::GRPID, client.gid)];
        let range = Info::new(keys::RANGE, DataRange::GLOBAL);
        assert_eq!(registered.try_recv().unwrap(), [&[range][..], &ids].concat());
    }

    #[test]
    fn a_host_hears_of_the_release_of_processes_that_are_all_here() {
        let (sender, carried) = mpsc::channel();
        let (mut test, mut events, jobs) = (testing::ctx(ChannelHost(sender)), Events::default(), Jobs::default());
        let [(source, a), ..] = three(&mut test, &mut events);
        let release = |status| Event { status, ..event(&source, DataRange::LOCAL, vec![]) };
        for (status, is_carried) in [(CODE, false), (Status::DEBUGGER_RELEASE, true)] {
            let caller = test.request(a);
            events.raise(&mut test.cx, &jobs, release(status), Origin::Peer(a), AfterRaise::Reply(caller));
            let asked: Vec<_> = carried.try_iter().collect();
            assert_eq!(asked.len(), usize::from(is_carried));
            asked.into_iter().for_each(|(_, _, done)| done.complete(Err(Status::ERR_NOT_SUPPORTED)));
            pass_on(&mut test, &mut events);
            assert_eq!(test.replies(), [(caller, Reply::Done(Status::SUCCESS))]);
        }
    }

    #[test]
    fn what_another_server_has_given_to_its_host_goes_no_further() {
        let (sender, carried) = mpsc::channel();
        let (mut test, mut events, jobs) = (testing::ctx(ChannelHost(sender)), Events::default(), Jobs::default());
        let [_, _, (_, c)] = three(&mut test, &mut events);
        let proxy = |proxy: Proc| vec![Info::new(keys::EVENT_PROXY, proxy)];
        let own = test.cx.own_name();
        let foreign = event(&own, DataRange::GLOBAL, proxy(proc("far", 0)));
        events.raise(&mut test.cx, &jobs, foreign, Origin::Program, AfterRaise::Nothing);
        assert!(told(&mut test).contains(&c) && carried.try_recv().is_err());
        let raised = event(&own, DataRange::GLOBAL, vec![]);
        assert!(!events.is_back(&test.cx, &jobs, &raised));
        events.raise(&mut test.cx, &jobs, raised, Origin::Program, AfterRaise::Nothing);
        let (_, info, _) = carried.try_recv().unwrap();
        assert!(events.is_back(&test.cx, &jobs, &event(&own, DataRange::GLOBAL, info)));
    }

    #[test]
    fn a_late_registration_is_sent_what_was_kept_once() {
        let (mut test, mut events, jobs) = (testing::ctx(NoHost), Events::default(), Jobs::default());
        let [(source, a), ..] = three(&mut test, &mut events);
        for info in [vec![], vec![Info::new(keys::EVENT_DO_NOT_CACHE, true)]] {
            let raised = event(&source, DataRange::NAMESPACE, info);
            events.raise(&mut test.cx, &jobs, raised, Origin::Peer(a), AfterRaise::Nothing);
        }
        let mut registers = |test: &mut TestCtx, peer| {
            let caller = test.request(peer);
            events.register(&mut test.cx, &Jobs::default(), caller, &[CODE], Vec::new());
            told(test)
        };
        let (late, stranger) = (test.connect(&proc("job", 2)), test.connect(&proc("stranger", 0)));
        test.sent();
        assert_eq!(registers(&mut test, late), [late]);
        assert_eq!(registers(&mut test, late), []);
        assert_eq!(registers(&mut test, a), [], "the raiser has it");
        assert_eq!(registers(&mut test, stranger), []);
        test.advance(crate::message::backlog::KEPT_FOR);
        let later = test.connect(&proc("job", 3));
        assert_eq!(registers(&mut test, later), []);
    }

    #[test]
    fn a_watcher_sees_what_is_for_others_and_counts_for_nobody() {
        let (mut test, mut events, mut jobs) = (testing::ctx(NoHost), Events::default(), Jobs::default());
        let [(source, a), ..] = three(&mut test, &mut events);
        let own = test.cx.identity.proc.clone();
        let (watcher, stranger) = (test.connect(&own), test.connect(&proc("stranger", 0)));
        for peer in [watcher, stranger] {
            let caller = test.request(peer);
            events.register(&mut test.cx, &jobs, caller, &[], vec![Info::new(WATCH, true)]);
        }
        test.sent();
        let custom =
            vec![Info::new(keys::EVENT_CUSTOM_RANGE, source.clone()), Info::new(keys::EVENT_NON_DEFAULT, true)];
        events.raise(
            &mut test.cx,
            &jobs,
            event(&source, DataRange::CUSTOM, custom),
            Origin::Peer(a),
            AfterRaise::Nothing,
        );
        let pushes = test.pushes();
        let [(peer, Push::Event { info, .. })] = &pushes[..] else { panic!("{pushes:?}") };
        assert!(*peer == watcher && info.find(keys::EVENT_NON_DEFAULT).is_none(), "{info:?}");
        jobs.add(&source.nspace, 1, &[Rank(0)]);
        events.watchers.job(&mut test.cx, &jobs, &source.nspace, Status::EVENT_JOB_START);
        events.watchers.process_ended(&mut test.cx, &jobs, &source);
        assert_eq!(told(&mut test), [watcher, watcher]);
        events.peer_over(&mut test.cx, watcher);
        events.watchers.process_ended(&mut test.cx, &jobs, &source);
        assert_eq!(told(&mut test), []);
    }

    #[test]
    fn a_group_learns_that_its_event_does_not_reach_other_nodes() {
        let (mut test, mut events, jobs) = (testing::ctx(NoHost), Events::default(), Jobs::default());
        let (source, group) = (proc("job", 0), proc("group", 0).nspace);
        let then = AfterRaise::Group { group: group.clone(), number: Some(7), status: CODE };
        let raised = event(&source, DataRange::GLOBAL, vec![]);
        events.raise(&mut test.cx, &jobs, raised, Origin::Library, then);
        pass_on(&mut test, &mut events);
        let effects = test.effects();
        let [Effect::Unreached { group: of, number: Some(7), event: CODE, failure: Status::ERR_NOT_SUPPORTED }] =
            &effects[..]
        else {
            panic!("{effects:?}")
        };
        assert_eq!(*of, group);
    }

    #[test]
    fn codes_are_charged_until_they_are_taken_back() {
        let (mut test, mut events) = (testing::ctx(NoHost), Events::default());
        let peer = test.connect(&proc("job", 0));
        // A request counts beside them while it is open.
        let account = test.limit_memory(peer, 2 << 10);
        let codes: Vec<Status> = (0..20).map(|code| Status(-7000 - code)).collect();
        let mut call = |codes: &[Status], registers: bool| {
            let caller = test.request(peer);
            match registers {
                true => events.register(&mut test.cx, &Jobs::default(), caller, codes, Vec::new()),
                false => events.deregister(&mut test.cx, caller, codes),
            }
            (test.replies().pop().unwrap().1, account.used())
        };
        let (done, refused) = (Reply::Done(Status::SUCCESS), Reply::Done(Status::ERR_OUT_OF_RESOURCE));
        let (reply, ten) = call(&codes[..10], true);
        assert!(reply == done && ten > 0);
        assert_eq!(call(&codes[..10], true), (refused.clone(), ten), "they could be others");
        assert_eq!(call(&codes[..3], true), (done.clone(), ten), "they are there already");
        assert_eq!(call(&codes[..5], false), (done.clone(), ten / 2));
        assert_eq!(call(&codes[10..], true), (done.clone(), ten / 2 + ten));
        assert_eq!(call(&codes, false), (done, 0));
    }

    #[test]
    fn two_million_codes_are_refused_and_those_that_fit_cost_as_much_as_they_are() {
        let (mut test, mut events) = (testing::ctx(NoHost), Events::default());
        let peer = test.connect(&proc("job", 0));
        let codes: Vec<Status> = (0..2_000_000).map(|code| Status(-code)).collect();
        let mut call = |codes: &[Status], registers: bool| {
            let caller = test.request(peer);
            match registers {
                true => events.register(&mut test.cx, &Jobs::default(), caller, codes, Vec::new()),
                false => events.deregister(&mut test.cx, caller, codes),
            }
            (test.replies().pop().unwrap().1, test.cx.subscriptions.count(peer))
        };
        let (done, refused) = (Reply::Done(Status::SUCCESS), Reply::Done(Status::ERR_OUT_OF_RESOURCE));
        assert_eq!(call(&codes[..MAX_CODES], true), (done.clone(), MAX_CODES));
        assert_eq!(call(&codes, false), (refused, MAX_CODES));
        // Each call of one code: what is registered besides is not gone through, or this would be 4,294,967,296 steps.
        for (left, code) in codes[..MAX_CODES].iter().enumerate().rev() {
            assert_eq!(call(std::slice::from_ref(code), false), (done.clone(), left));
        }
    }
}
