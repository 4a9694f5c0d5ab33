//! Events between the processes of a node, and through the host beyond it.
//!
//! A client registers the codes it wants to hear of, or all of them. An event goes to every registered client within its range,
//! except the one that raised it, which tells its own handlers itself; when the range reaches beyond the node, the host
//! gets it too, with this server's name (`PMIX_EVENT_PROXY`), by which it is known if the host hands it back. A registration
//! ends with its connection.
//!
//! An event is kept for a while ([`Backlog`]): whoever registers for it later, and was within its range, is sent it then, unless it
//! says that it is not to be kept (`PMIX_EVENT_DO_NOT_CACHE`).
use std::collections::{BTreeSet, VecDeque};

use super::ctx::Done;
use super::ctx::peers::PROGRAM;
use super::router::Router;
use crate::collect_small::collect_small;
use crate::data::{DataRange, Info, InfoList, Proc, Status, keys};
use crate::message::backlog::Backlog;
use crate::message::door::{Outgoing, PeerId};
use crate::message::{Push, Reply};
use crate::trace;

/// Most codes that one client can register.
const MAX_CODES: usize = 65536;

/// Registrations that a host may leave unanswered. Beyond that it is told nothing new until it answers: what it is shown stays until then.
const MAX_UNANSWERED: usize = 64;

/// Who wants to hear of what.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    /// Codes that the host was asked to watch for.
    at_host: BTreeSet<i32>,
    /// How often it was told what to watch for, or what not any more, and has not answered.
    unanswered: usize,
    /// It is being told: what it answers at once is gone on with there.
    is_telling: bool,
    /// What it is to be asked yet.
    to_ask: VecDeque<(Vec<Status>, Vec<Info>)>,
    /// For those who register late.
    passed: Backlog<Passed>,
}

/// An event that was passed on.
#[derive(Debug)]
struct Passed {
    status: Status,
    source: Proc,
    range: DataRange,
    info: Vec<Info>,
    audience: Audience,
    /// Who has it: those it was sent to, and the one that raised it.
    told: Vec<PeerId>,
}

impl Passed {
    fn push(&self) -> Outgoing {
        let Passed { status, source, range, info, .. } = self;
        Outgoing::Push(Push::Event { status: *status, source: source.clone(), range: *range, info: info.clone() })
    }
}

/// Who raises an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A client, which tells its own handlers itself.
    Peer(PeerId),
    /// The embedding program, in its own name or passing one on.
    Program,
    /// This server, for one of its processes.
    Library,
}

/// Whether only the host can know of such events: codes of the environment, and those that are not the Standard's.
fn is_the_hosts(code: i32) -> bool {
    let environment = (Status::EVENT_SYS_OTHER.0..=Status::EVENT_SYS_BASE.0).contains(&code);
    environment || !(Status::EXTERNAL_ERR_BASE.0..=0).contains(&code)
}

impl Router {
    pub(super) fn register_events(&mut self, peer: PeerId, number: u64, codes: Vec<Status>, info: Vec<Info>) {
        let wanted = self.cx.subscriptions.entry(peer);
        if wanted.codes.len() + codes.len() > MAX_CODES {
            return self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        wanted.all |= codes.is_empty();
        wanted.codes.extend(codes.iter().map(|code| code.0));
        let known = |code: &i32| {
            let Registrations { at_host, to_ask, .. } = &self.registrations;
            at_host.contains(code) || to_ask.iter().any(|(codes, _)| codes.contains(&Status(*code)))
        };
        let new: BTreeSet<i32> =
            collect_small(codes.iter().map(|code| code.0).filter(|code| is_the_hosts(*code) && !known(code)));
        if !new.is_empty() {
            self.registrations.to_ask.push_back((new.into_iter().map(Status).collect(), info));
        }
        self.cx.reply_status(peer, number, Ok(()));
        self.send_missed(peer, &codes);
        if !self.registrations.to_ask.is_empty() {
            self.tell_host_of_codes();
        }
    }

    /// Sends a client that has registered for these codes what it has missed.
    fn send_missed(&mut self, peer: PeerId, codes: &[Status]) {
        let Some(proc) = self.cx.peers.get(&peer).map(|peer| &peer.proc) else { return };
        for event in self.registrations.passed.events(self.cx.now()) {
            let is_in = peer == PROGRAM || event.audience.has(proc);
            let wanted = match codes {
                [] => !event.info.is_set(keys::EVENT_NON_DEFAULT),
                codes => codes.contains(&event.status),
            };
            if wanted && is_in && !event.told.contains(&peer) {
                event.told.push(peer);
                self.cx.outbox.push((peer, event.push()));
            }
        }
    }

    pub(super) fn deregister_events(&mut self, peer: PeerId, number: u64, codes: Vec<Status>) {
        self.cx.subscriptions.remove(peer, &codes);
        self.release_host_codes();
        self.cx.reply_status(peer, number, Ok(()));
    }

    pub(super) fn subscription_ends(&mut self, peer: PeerId) {
        if self.cx.subscriptions.forget(peer) {
            // No other connection will ever have its number.
            let now = self.cx.now();
            self.registrations.passed.events(now).for_each(|event| event.told.retain(|told| *told != peer));
            self.release_host_codes();
        }
    }

    /// Some codes may be wanted by nobody any more.
    fn release_host_codes(&mut self) {
        let Registrations { at_host, to_ask, .. } = &self.registrations;
        if at_host.is_empty() && to_ask.is_empty() {
            return;
        }
        let wanted = self.cx.subscriptions.codes();
        self.registrations.to_ask.retain_mut(|(codes, _)| {
            codes.retain(|code| wanted.contains(&code.0));
            !codes.is_empty()
        });
        self.tell_host_of_codes();
    }

    /// Tells the host what it is to watch for and what not any more.
    fn tell_host_of_codes(&mut self) {
        let answered = |router: &mut Router| {
            router.registrations.unanswered -= 1;
            router.tell_host_of_codes();
        };
        if self.registrations.unanswered >= MAX_UNANSWERED || self.registrations.is_telling {
            return;
        }
        self.registrations.is_telling = true;
        let wanted = self.cx.subscriptions.codes();
        let gone: Vec<Status> = self.registrations.at_host.difference(&wanted).copied().map(Status).collect();
        if !gone.is_empty() {
            self.registrations.unanswered += 1;
            self.registrations.at_host.retain(|code| wanted.contains(code));
            self.ask_host(|host, done| host.deregister_events(&gone, done), (), move |router, _| answered(router));
        }
        while self.registrations.unanswered < MAX_UNANSWERED
            && let Some((new, info)) = self.registrations.to_ask.pop_front()
        {
            self.registrations.unanswered += 1;
            self.registrations.at_host.extend(new.iter().map(|code| code.0));
            // A host that cannot watch for them leaves those that clients raise themselves.
            self.ask_host(
                |host, done| host.register_events(&new, &info, done),
                (),
                move |router, result| {
                    if let Err(status) = result {
                        trace!("the host does not watch for events: {status}");
                    }
                    answered(router);
                },
            );
        }
        self.registrations.is_telling = false;
    }

    /// A client raises an event.
    pub(super) fn notify(
        &mut self,
        peer: PeerId,
        number: u64,
        source: Proc,
        status: Status,
        range: DataRange,
        info: Vec<Info>,
    ) {
        let range = if range == DataRange::UNDEF { DataRange::SESSION } else { range };
        self.groups_hear(status, &source, &info, Origin::Peer(peer));
        self.spread(Origin::Peer(peer), status, source, range, info, move |router, result| {
            router.cx.reply(peer, number, Reply::Done(result.err().unwrap_or(Status::SUCCESS)));
        });
    }

    /// The embedding program raises an event, or passes one on.
    pub(super) fn notify_from_host(
        &mut self,
        status: Status,
        source: Proc,
        range: DataRange,
        info: Vec<Info>,
        done: Done<()>,
    ) {
        if self.is_back(&source, &info) {
            return self.cx.finish(done, Ok(()));
        }
        self.groups_hear(status, &source, &info, Origin::Program);
        self.spread(Origin::Program, status, source, range, info, move |router, result| router.cx.finish(done, result));
    }

    /// Whether this is an event of a process here, or of this server, that the host hands back: who is within its range has it. Two
    /// servers of a careless host may have the same name, but not the same processes.
    fn is_back(&self, source: &Proc, info: &[Info]) -> bool {
        let own = self.cx.own_name();
        proxy_of(info) == Some(&own) && (*source == own || self.is_here(source))
    }

    pub(super) fn spread(
        &mut self,
        from: Origin,
        status: Status,
        source: Proc,
        range: DataRange,
        info: Vec<Info>,
        then: impl FnOnce(&mut Router, Result<(), Status>) + Send + 'static,
    ) {
        let audience = match Audience::new(range, &source, &info) {
            Ok(audience) => audience,
            Err(refused) => return then(self, Err(refused)),
        };
        let default_too = !info.is_set(keys::EVENT_NON_DEFAULT);
        // What the host passes on comes from elsewhere already; only what it raises in a server's name is for elsewhere, and
        // not if another server has given it to its host: it would go to and fro for ever.
        let by_another = proxy_of(&info).is_some_and(|proxy| *proxy != self.cx.own_name());
        let passed_on = from == Origin::Program && (source.nspace != self.cx.config.nspace || by_another);
        // Who raised it has told its own handlers, and some hosts hand a server its own events back.
        let raiser = match from {
            Origin::Peer(peer) => Some(peer),
            Origin::Program if passed_on => self.jobs.client(&source).and_then(|client| client.peer),
            Origin::Program | Origin::Library => None,
        };
        let told: Vec<PeerId> = self
            .cx
            .subscriptions
            .hearers(status, default_too)
            .filter(|peer| Some(*peer) != raiser && self.is_in(&audience, *peer))
            .collect();
        let stays_here = passed_on || self.is_all_here(&audience);
        // A client's event that somebody here has heard has done its work even if the host has no way to carry it on.
        let heard = matches!(from, Origin::Peer(_)) && !told.is_empty();
        let mut event = Passed { status, source: source.clone(), range, info: info.clone(), audience, told };
        for peer in &event.told {
            self.cx.outbox.push((*peer, event.push()));
        }
        if !info.is_set(keys::EVENT_DO_NOT_CACHE) {
            event.told.extend(raiser);
            self.registrations.passed.keep(event, &info, self.cx.now());
        }
        if stays_here {
            return then(self, Ok(()));
        }
        let mut info = info;
        if proxy_of(&info).is_none() {
            info.push(Info::new(keys::EVENT_PROXY, self.cx.own_name()));
        }
        self.ask_host(
            |host, done| host.notify_event(status, &source, range, &info, done),
            (),
            move |router, result| match result {
                Err(Status::ERR_NOT_SUPPORTED) if heard => then(router, Ok(())),
                result => then(router, result),
            },
        );
    }

    fn is_in(&self, audience: &Audience, peer: PeerId) -> bool {
        // The server's program hears of everything that goes through its server.
        peer == PROGRAM || self.cx.peers.get(&peer).is_some_and(|entry| audience.has(&entry.proc))
    }

    fn is_all_here(&self, audience: &Audience) -> bool {
        match audience {
            Audience::Node => true,
            Audience::Namespace(proc) => self.is_here(proc),
            Audience::Procs(procs) => procs.iter().all(|proc| self.is_here(proc)),
            Audience::Everybody | Audience::HostAlone => false,
        }
    }

    /// Whether all that `proc` names runs on this node.
    fn is_here(&self, proc: &Proc) -> bool {
        let Some(job) = self.jobs.get(&proc.nspace) else { return false };
        let size = job.stored.as_ref().and_then(|stored| stored.size());
        job.is_local(proc.rank) || !proc.rank.is_process() && size == job.local_procs.map(|n| n as u32)
    }
}

/// Whom an event is for.
#[derive(Debug)]
enum Audience {
    Node,
    /// Everybody in the namespace of this process.
    Namespace(Proc),
    Procs(Vec<Proc>),
    Everybody,
    HostAlone,
}

impl Audience {
    fn new(range: DataRange, source: &Proc, info: &[Info]) -> Result<Self, Status> {
        Ok(match range {
            DataRange::LOCAL => Audience::Node,
            DataRange::NAMESPACE => Audience::Namespace(Proc::new(source.nspace.clone(), crate::data::Rank::WILDCARD)),
            DataRange::UNDEF | DataRange::SESSION | DataRange::GLOBAL => Audience::Everybody,
            DataRange::RM => Audience::HostAlone,
            DataRange::CUSTOM => Audience::Procs(custom(info).ok_or(Status::ERR_BAD_PARAM)?),
            // PROC_LOCAL never leaves its process.
            _ => return Err(Status::ERR_BAD_PARAM),
        })
    }

    fn has(&self, proc: &Proc) -> bool {
        match self {
            Audience::Node | Audience::Everybody => true,
            Audience::Namespace(of) => of.nspace == proc.nspace,
            Audience::Procs(procs) => procs.iter().any(|named| named.matches(proc)),
            Audience::HostAlone => false,
        }
    }
}

/// Whether an event of that process with that range can be sent to anybody.
pub(super) fn reaches(range: DataRange, source: &Proc, info: &[Info]) -> bool {
    Audience::new(range, source, info).is_ok()
}

/// The server that has given the event to its host, where one says so.
fn proxy_of(info: &[Info]) -> Option<&Proc> {
    info.find(keys::EVENT_PROXY)?.value.as_proc()
}

fn custom(info: &[Info]) -> Option<Vec<Proc>> {
    info.find(keys::EVENT_CUSTOM_RANGE)?.value.as_procs()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use super::*;
    use crate::server::{Accepted, Answer, Completion, Host, Server, ServerConfig};

    /// A host that lets questions wait, and later answers at once.
    #[derive(Default)]
    struct Slow(Mutex<(Vec<Completion<()>>, bool)>);

    impl Host for Slow {
        fn register_events(&self, _: &[Status], _: &[Info], done: Completion<()>) -> Accepted {
            let mut state = self.0.lock().unwrap();
            if state.1 {
                return Ok(Answer::Done);
            }
            state.0.push(done);
            Ok(Answer::Later)
        }
    }

    #[test]
    fn a_host_that_answers_at_once_after_a_while_is_told_all_that_has_waited() {
        let host = Arc::new(Slow::default());
        let server = Server::start(ServerConfig::default(), host.clone()).unwrap();
        let (tell, told) = mpsc::channel();
        let registers = move |router: &mut Router| {
            for code in 1..10_000 {
                let code = Status(Status::EXTERNAL_ERR_BASE.0 - code);
                router.register_events(PeerId { door: 0, connection: 0 }, 0, vec![code], Vec::new());
            }
            tell.send(()).unwrap();
        };
        server.mailbox.post(registers).unwrap();
        told.recv().unwrap();
        let first = {
            let mut state = host.0.lock().unwrap();
            assert_eq!(state.0.len(), MAX_UNANSWERED);
            state.1 = true;
            state.0.remove(0)
        };
        first.complete(Ok(()));
        let (tell, told) = mpsc::channel();
        let looks = move |router: &mut Router| {
            tell.send((router.registrations.to_ask.len(), router.registrations.unanswered)).unwrap();
        };
        server.mailbox.post(looks).unwrap();
        assert_eq!(told.recv(), Ok((0, MAX_UNANSWERED - 1)));
    }
}
