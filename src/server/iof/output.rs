//! Output of processes, for the clients and tools that pull it.
//!
//! A pull that waits for the host's answer is kept under a number; from the answer on it is its peer's.
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::backlog::Backlog;
use super::local_output::LocalOutput;
use super::stream::{Flow, Piece};
use crate::account::{Charge, Kind};
use crate::by_number::ByNumber;
use crate::data::{Channels, Info, Nspace, Proc, Status, keys};
use crate::message::Push;
use crate::message::door::{Outgoing, PeerId};
use crate::message::output::Terms;
use crate::server::ctx::peers::Caller;
use crate::server::ctx::proc_set::ProcSet;
use crate::server::ctx::ticket::Ticket;
use crate::server::ctx::timers::{Deadline, TimerId};
use crate::server::ctx::{Ctx, Done};
use crate::server::jobs::Jobs;

/// Most pulls of one peer.
const MAX_PULLS: usize = 1024;
/// Bytes that a pull counts for beside its own: each piece of output is held against it.
const OF_PULL: usize = 16 << 10;
/// Most processes and patterns of them that one peer names.
const MAX_NAMED: usize = 1 << 20;

/// Request of a peer for the output of processes.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// Number that the peer gives it.
    pub id: u64,
    /// Processes, and patterns of them.
    pub procs: Vec<Proc>,
    pub channels: Channels,
    pub directives: Vec<Info>,
}

/// Pull that the host has agreed to, or is asked about.
#[derive(Debug)]
struct Pull {
    /// The request, with the directives that the host was shown.
    request: PullRequest,
    /// The processes of the request: each piece of output is held against them.
    sources: ProcSet,
    flow: Flow,
    /// Deadline at which what waits is sent, however little it is.
    due: Option<TimerId>,
    /// Bytes of the request itself, and the charge for it and for what waits.
    own_bytes: usize,
    held: Charge,
}

impl Pull {
    /// Holds so many bytes of output from now on. Returns false where the reader may not.
    fn hold(&mut self, bytes: usize) -> bool {
        self.held.resize(Kind::Pull, self.own_bytes + bytes)
    }

    fn covers(&self, source: &Proc, channel: Channels) -> bool {
        self.request.channels.intersects(channel) && self.sources.has(source)
    }
}

/// Room of the output: pulls, what is kept for pulls to come, and the program's own output.
#[derive(Default)]
pub struct Outputs {
    /// Pulls of each peer, by the numbers that it has given them.
    pulls: HashMap<PeerId, BTreeMap<u64, Pull>>,
    /// Pulls that the host is asked about, by their numbers.
    asked: ByNumber<u64, (Caller, Pull)>,
    /// Numbers and identifiers of those, by their peers.
    asked_by: BTreeMap<PeerId, BTreeMap<u64, u64>>,
    last_asked: u64,
    backlog: Backlog,
    /// Callers who wait until everything is read, each with a deadline.
    flushes: Vec<(TimerId, Done<()>)>,
    local: Option<LocalOutput>,
}

impl Outputs {
    /// Creates the room of a server that also writes output itself, where `local` is given.
    pub fn new(local: Option<LocalOutput>) -> Self {
        Outputs { local, ..Outputs::default() }
    }

    /// Asks the host whether a peer may have the output of processes.
    pub fn pull(&mut self, cx: &mut Ctx, jobs: &Jobs, caller: Caller, asker: &Proc, mut request: PullRequest) {
        let Caller { peer, number } = caller;
        let pulls = self.pulls.get(&peer);
        let asked = self.asked_by.get(&peer);
        let waiting = || asked.into_iter().flatten().filter_map(|(_, number)| self.asked.get(number));
        let known = pulls.into_iter().flat_map(BTreeMap::values).chain(waiting().map(|(_, pull)| pull));
        let named = known.map(|pull| pull.request.procs.len()).sum::<usize>() + request.procs.len();
        let count = pulls.map_or(0, BTreeMap::len) + waiting().count();
        let is_known = asked.is_some_and(|ids| ids.contains_key(&request.id))
            || pulls.is_some_and(|pulls| pulls.contains_key(&request.id));
        if request.channels.intersects(Channels::STDIN) {
            return cx.reply_status(peer, number, Err(Status::ERR_NOT_SUPPORTED));
        }
        let own_bytes = OF_PULL + size_of(&request);
        let held = cx.charge(peer, Kind::Pull, own_bytes);
        let (false, Ok(held)) = (count >= MAX_PULLS || named > MAX_NAMED || is_known, held) else {
            return cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
        };
        let flow = Flow::new(Terms::read(&request.directives));
        request.directives = jobs.signed(cx, asker, request.directives);
        self.last_asked += 1;
        let asked = self.last_asked;
        let PullRequest { procs, channels, directives, .. } = &request;
        cx.ask_host(
            |host, done| host.iof_pull(procs, directives, *channels, done),
            (),
            move |result| Ticket::OutputPull(asked, result),
        );
        let sources = request.procs.iter().cloned().collect();
        self.asked_by.entry(peer).or_default().insert(request.id, asked);
        self.asked.insert(asked, (caller, Pull { request, sources, flow, due: None, own_bytes, held }));
    }

    /// The host has answered to a pull. Its peer may be gone by now.
    pub fn pull_answered(&mut self, cx: &mut Ctx, number: u64, result: Result<(), Status>) {
        let Some((caller, pull)) = self.asked.remove(&number) else { return };
        if let Some(asked) = self.asked_by.get_mut(&caller.peer) {
            asked.remove(&pull.request.id);
            if asked.is_empty() {
                self.asked_by.remove(&caller.peer);
            }
        }
        if result.is_err() {
            return cx.reply_status(caller.peer, caller.number, result);
        }
        if !cx.peers.contains_key(&caller.peer) {
            return stop_at_host(cx, pull.request);
        }
        let PullRequest { id, channels, .. } = pull.request;
        let kept = self.backlog.take(&pull.sources, channels, cx.now());
        self.pulls.entry(caller.peer).or_default().insert(id, pull);
        cx.reply_status(caller.peer, caller.number, Ok(()));
        let mut waiting = self.waiting(caller.peer);
        kept.into_iter().for_each(|piece| self.give(cx, (caller.peer, id), piece, &mut waiting));
    }

    /// A peer ends a pull. Output that waits goes to it before the answer.
    pub fn stop(&mut self, cx: &mut Ctx, caller: Caller, id: u64) {
        if let Some(pulls) = self.pulls.get_mut(&caller.peer)
            && let Some(mut pull) = pulls.remove(&id)
        {
            if pulls.is_empty() {
                self.pulls.remove(&caller.peer);
            }
            send(cx, caller.peer, id, pull.flow.rest());
            forget(cx, pull);
        }
        cx.reply_status(caller.peer, caller.number, Ok(()));
    }

    /// A peer has taken in output of that cost.
    pub fn taken(&mut self, cx: &mut Ctx, caller: Caller, id: u64, cost: u64) {
        if let Some(pull) = self.find(caller.peer, id) {
            pull.flow.taken(cost);
            self.send_ready(cx, caller.peer, id);
        }
        self.look_at_flushes(cx);
        cx.reply_status(caller.peer, caller.number, Ok(()));
    }

    /// A peer is gone: its pulls end.
    pub fn peer_over(&mut self, cx: &mut Ctx, peer: PeerId) {
        for pull in self.pulls.remove(&peer).unwrap_or_default().into_values() {
            forget(cx, pull);
        }
        // Those that the host is asked about end with its answer.
        self.asked_by.remove(&peer);
        self.look_at_flushes(cx);
    }

    /// A job is over. Another one of its name may want its output shown otherwise.
    pub fn job_over(&mut self, nspace: &Nspace) {
        if let Some(local) = &mut self.local {
            local.job_over(nspace);
        }
    }

    /// Takes in output that the host delivers.
    pub fn deliver(&mut self, cx: &mut Ctx, jobs: &Jobs, piece: Piece) {
        let Piece { source, channel, bytes, .. } = &piece;
        if let Some(local) = &mut self.local {
            local.write(source, *channel, bytes, jobs);
        }
        let mut wanted = Vec::new();
        for (peer, pulls) in &self.pulls {
            // Nobody is told what it says itself.
            if cx.peers.get(peer).is_some_and(|entry| entry.proc != *source) {
                let covering = pulls.iter().filter(|(_, pull)| pull.covers(source, *channel));
                wanted.extend(covering.map(|(id, _)| (*peer, *id)));
            }
        }
        let Some(((last, last_id), rest)) = wanted.split_last() else { return self.backlog.keep(piece, cx.now()) };
        // Once for all pulls of a peer, which may be many.
        let mut waiting = (*last, self.waiting(*last));
        for (peer, id) in rest {
            if waiting.0 != *peer {
                waiting = (*peer, self.waiting(*peer));
            }
            self.give(cx, (*peer, *id), piece.clone(), &mut waiting.1);
        }
        if waiting.0 != *last {
            waiting.1 = self.waiting(*last);
        }
        self.give(cx, (*last, *last_id), piece, &mut waiting.1);
    }

    /// Bytes of output that wait for a peer.
    fn waiting(&self, peer: PeerId) -> usize {
        self.pulls.get(&peer).into_iter().flat_map(BTreeMap::values).map(|pull| pull.flow.bytes()).sum()
    }

    /// The time to wait for more output is over.
    pub fn due(&mut self, cx: &mut Ctx, peer: PeerId, id: u64) {
        if let Some(pull) = self.find(peer, id) {
            cx.timers.cancel(pull.due.take());
            pull.flow.make_due();
            self.send_ready(cx, peer, id);
        }
    }

    /// Calls `done` when everything that was delivered is read, or with `ERR_TIMEOUT` after so long.
    pub fn flush(&mut self, cx: &mut Ctx, patience: Duration, done: Done<()>) {
        let limit = cx.set_deadline(patience, Deadline::OutputFlush);
        self.flushes.push((limit, done));
        // Output that waits for more is sent now.
        let of_peer = |(peer, pulls): (&PeerId, &BTreeMap<u64, Pull>)| {
            let peer = *peer;
            pulls.keys().map(move |id| (peer, *id)).collect::<Vec<_>>()
        };
        let pulls: Vec<_> = self.pulls.iter().flat_map(of_peer).collect();
        pulls.into_iter().for_each(|(peer, id)| self.due(cx, peer, id));
        self.look_at_flushes(cx);
    }

    /// Ends every flush with a result.
    pub fn end_flushes(&mut self, cx: &mut Ctx, result: Result<(), Status>) {
        for (limit, done) in std::mem::take(&mut self.flushes) {
            cx.timers.cancel(limit);
            cx.finish(done, result);
        }
    }

    fn find(&mut self, peer: PeerId, id: u64) -> Option<&mut Pull> {
        self.pulls.get_mut(&peer)?.get_mut(&id)
    }

    /// Gives a piece to one pull of a peer, which so many bytes wait for.
    fn give(&mut self, cx: &mut Ctx, (peer, id): (PeerId, u64), piece: Piece, waiting: &mut usize) {
        let Some(pull) = self.find(peer, id) else { return };
        let before = pull.flow.bytes();
        let own = pull.flow.bytes_with(&piece);
        // The end of a stream is told in any case.
        if piece.bytes.is_empty() || pull.hold(before + piece.bytes.len()) {
            pull.flow.push(piece, *waiting - own);
        }
        self.send_ready(cx, peer, id);
        let after = self.find(peer, id).map_or(0, |pull| pull.flow.bytes());
        *waiting = *waiting + after - before;
    }

    fn send_ready(&mut self, cx: &mut Ctx, peer: PeerId, id: u64) {
        let Some(pull) = self.find(peer, id) else { return };
        let ready = pull.flow.ready();
        let is_less = pull.hold(pull.flow.bytes());
        debug_assert!(is_less, "what was held is given back");
        match (pull.flow.terms().patience, pull.due) {
            (Some(patience), None) if pull.flow.waits_for_more() => {
                pull.due = Some(cx.set_deadline(patience, Deadline::Output(peer, id)));
            }
            (_, Some(due)) if pull.flow.is_empty() => {
                pull.due = None;
                cx.timers.cancel(due);
            }
            _ => {}
        }
        send(cx, peer, id, ready);
    }

    fn look_at_flushes(&mut self, cx: &mut Ctx) {
        if !self.flushes.is_empty() && self.pulls.values().flat_map(BTreeMap::values).all(|pull| pull.flow.is_read()) {
            self.end_flushes(cx, Ok(()));
        }
    }
}

fn send(cx: &mut Ctx, peer: PeerId, pull: u64, pieces: Vec<Piece>) {
    for Piece { source, channel, bytes, info } in pieces {
        cx.send(peer, Outgoing::Push(Push::Output { pull, source, channel, bytes, info }));
    }
}

/// Bytes that the server keeps of a request: it, and the processes that it names once more.
fn size_of(request: &PullRequest) -> usize {
    let procs = request.procs.iter().map(|proc| 2 * proc.kept_size());
    let info = request.directives.iter().map(Info::kept_size);
    procs.chain(info).fold(std::mem::size_of::<Pull>(), usize::saturating_add)
}

fn forget(cx: &mut Ctx, pull: Pull) {
    cx.timers.cancel(pull.due);
    stop_at_host(cx, pull.request);
}

/// Tells the host that a pull has ended.
fn stop_at_host(cx: &mut Ctx, request: PullRequest) {
    let PullRequest { procs, channels, mut directives, .. } = request;
    directives.push(Info::new(keys::IOF_STOP, true));
    cx.ask_host(|host, done| host.iof_pull(&procs, &directives, channels, done), (), |_| Ticket::Ignored);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::message::Reply;
    use crate::message::output::WINDOW;
    use crate::server::ctx::testing::{self, TestCtx, proc};
    use crate::server::host::{Accepted, Answer, Completion, Host};

    /// A host that lets pulls wait, and notes those that have ended.
    #[derive(Default)]
    struct DeferringHost {
        asked: Mutex<Vec<Completion<()>>>,
        stopped: Mutex<usize>,
    }

    impl Host for std::sync::Arc<DeferringHost> {
        fn iof_pull(&self, _: &[Proc], directives: &[Info], _: Channels, done: Completion<()>) -> Accepted {
            use crate::data::InfoList;
            if directives.is_set(keys::IOF_STOP) {
                *self.stopped.lock().unwrap() += 1;
                return Ok(Answer::Done);
            }
            self.asked.lock().unwrap().push(done);
            Ok(Answer::Later)
        }
    }

    struct Room {
        outputs: Outputs,
        test: TestCtx,
        host: std::sync::Arc<DeferringHost>,
        reader: PeerId,
    }

    impl Room {
        fn new() -> Room {
            let host = std::sync::Arc::new(DeferringHost::default());
            let mut test = testing::ctx(host.clone());
            let reader = test.connect(&proc("tool", 0));
            Room { outputs: Outputs::default(), test, host, reader }
        }

        /// Asks for the output of a process. The host has not answered yet.
        fn ask(&mut self, directives: &[Info]) {
            self.ask_as(7, directives);
        }

        /// Asks under a number.
        fn ask_as(&mut self, id: u64, directives: &[Info]) {
            let caller = self.test.request(self.reader);
            let directives = directives.to_vec();
            let request = PullRequest { id, procs: vec![proc("job", 0)], channels: Channels::STDOUT, directives };
            self.outputs.pull(&mut self.test.cx, &Jobs::default(), caller, &proc("tool", 0), request);
        }

        fn answer(&mut self, result: Result<(), Status>) {
            self.host.asked.lock().unwrap().remove(0).complete(result);
            match self.test.ticket() {
                Some(Ticket::OutputPull(number, result)) => {
                    self.outputs.pull_answered(&mut self.test.cx, number, result);
                }
                other => panic!("{other:?}"),
            }
        }

        fn deliver(&mut self, bytes: &[u8]) {
            let (source, channel) = (proc("job", 0), Channels::STDOUT);
            let piece = Piece { source, channel, bytes: bytes.to_vec(), info: Vec::new() };
            self.outputs.deliver(&mut self.test.cx, &Jobs::default(), piece);
        }

        fn read(&mut self) -> Vec<Vec<u8>> {
            let bytes = |(peer, push)| match push {
                Push::Output { pull: 7, bytes, .. } if peer == self.reader => bytes,
                other => panic!("{other:?}"),
            };
            self.test.pushes().into_iter().map(bytes).collect()
        }
    }

    #[test]
    fn output_from_before_the_hosts_answer_follows_the_reply() {
        let mut room = Room::new();
        room.ask(&[]);
        room.deliver(b"early");
        assert!(room.test.sent().is_empty());
        room.answer(Ok(()));
        let sent = room.test.sent();
        assert!(matches!(sent[0].1, Outgoing::Reply { reply: Reply::Done(Status::SUCCESS), .. }));
        assert!(matches!(&sent[1].1, Outgoing::Push(Push::Output { bytes, .. }) if bytes == b"early"));
        room.deliver(b"late");
        assert_eq!(room.read(), [b"late"]);
    }

    #[test]
    fn a_pull_that_the_host_grants_too_late_is_stopped_there() {
        let mut room = Room::new();
        room.ask(&[]);
        room.test.cx.peers.remove(&room.reader);
        room.outputs.peer_over(&mut room.test.cx, room.reader);
        assert_eq!(*room.host.stopped.lock().unwrap(), 0);
        room.answer(Ok(()));
        assert_eq!(*room.host.stopped.lock().unwrap(), 1);
        room.deliver(b"for nobody");
        assert!(room.test.sent().is_empty());
    }

    #[test]
    fn a_refused_pull_gets_no_output() {
        let mut room = Room::new();
        room.ask(&[]);
        room.answer(Err(Status::ERR_NO_PERMISSIONS));
        room.deliver(b"x");
        let replies = room.test.replies();
        assert_eq!(replies[0].1, Reply::Done(Status::ERR_NO_PERMISSIONS));
        assert_eq!((replies.len(), *room.host.stopped.lock().unwrap()), (1, 0));
    }

    #[test]
    fn little_output_waits_for_more_until_its_time_is_over() {
        let mut room = Room::new();
        room.ask(&[Info::new(keys::IOF_BUFFERING_TIME, 2u32)]);
        room.answer(Ok(()));
        room.test.sent();
        room.deliver(b"a");
        room.deliver(b"b");
        assert!(room.read().is_empty());
        let expired = room.test.advance(Duration::from_secs(2));
        assert!(matches!(expired[..], [Deadline::Output(_, 7)]), "{expired:?}");
        room.outputs.due(&mut room.test.cx, room.reader, 7);
        assert_eq!(room.read(), [b"ab"]);
    }

    #[test]
    fn a_flush_is_over_when_everything_is_read() {
        let mut room = Room::new();
        room.ask(&[]);
        room.answer(Ok(()));
        room.deliver(&[0; WINDOW]);
        room.test.sent();
        let (sender, receiver) = std::sync::mpsc::channel();
        let done = Box::new(move |result| sender.send(result).unwrap());
        room.outputs.flush(&mut room.test.cx, Duration::from_secs(1), done);
        room.test.call_back();
        assert!(receiver.try_recv().is_err());
        let caller = room.test.request(room.reader);
        room.outputs.taken(&mut room.test.cx, caller, 7, u64::MAX);
        room.test.call_back();
        assert_eq!(receiver.try_recv(), Ok(Ok(())));
        assert!(room.test.advance(Duration::from_secs(1)).is_empty(), "its deadline is taken back");
    }

    #[test]
    fn a_pull_counts_for_what_it_takes_to_look_at_it() {
        let mut room = Room::new();
        let account = room.test.limit_memory(room.reader, 4 * OF_PULL as u64);
        (0..5).for_each(|id| room.ask_as(id, &[]));
        let replies: Vec<_> = room.test.replies().into_iter().map(|(_, reply)| reply).collect();
        assert_eq!(replies, vec![Reply::Done(Status::ERR_OUT_OF_RESOURCE); 2], "each takes a little more than that");
        (0..3).for_each(|_| room.answer(Ok(())));
        room.test.sent();
        for (id, left) in [(1, 2), (0, 1), (2, 0)] {
            let caller = room.test.request(room.reader);
            room.outputs.stop(&mut room.test.cx, caller, id);
            assert_eq!(account.used() / OF_PULL as u64, left);
        }
    }

    #[test]
    fn pulls_that_wait_for_the_host_are_counted_and_charged() {
        let mut room = Room::new();
        let account = room.test.limit_memory(room.reader, 1 << 20);
        for _ in 0..2 {
            room.ask(&[]);
        }
        let refused = |room: &mut Room| room.test.replies().into_iter().map(|(_, reply)| reply).collect::<Vec<_>>();
        assert_eq!(refused(&mut room), [Reply::Done(Status::ERR_OUT_OF_RESOURCE)], "one of that name waits");
        assert_eq!(room.host.asked.lock().unwrap().len(), 1);
        room.answer(Ok(()));
        room.test.sent();
        let idle = account.used();
        let whole = vec![0; WINDOW];
        (0..3).for_each(|_| room.deliver(&whole));
        assert!(account.used() >= idle + 2 * WINDOW as u64, "what waits for the reader is charged");
        (0..8).for_each(|_| room.deliver(&whole));
        assert!(account.used() <= 1 << 20);
        room.test.sent();
        room.outputs.peer_over(&mut room.test.cx, room.reader);
        room.test.cx.peers.remove(&room.reader);
        assert_eq!(account.used(), 0);
    }
}
