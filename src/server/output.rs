//! The output of processes, for clients that have asked for it: the host forwards it to this server, which hands it on.
//!
//! The host is asked whether a client may have what it wants, and told when that wants it no more (`PMIX_IOF_STOP`). What the host delivers
//! goes to everybody who pulls that process and channel. Nobody else waits for a client that does not read: it is sent a
//! [window](WINDOW)'s worth, and more as it says that it has taken that in; what comes meanwhile waits in the cache of its pull, and is
//! dropped as the pull's directives say when the cache is full.
//!
//! What nobody pulls is kept for a while, for who comes later: a job that was just started prints before anybody knows its name.
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::ctx::Done;
use super::ctx::timers::Deadline;
use super::ctx::timers::TimerId;
use super::router::Router;
use crate::data::{Channels, Info, Proc, Status, keys};
use crate::message::Push;
use crate::message::door::{Outgoing, PeerId};
use crate::message::output::{Terms, WINDOW, cost, covers};
use crate::trace;

/// Most bytes that wait for one peer, over all that it pulls.
const MAX_CACHED: usize = 64 << 20;
/// Most pulls of one peer.
const MAX_PULLS: usize = 1024;
/// Most processes and patterns of them that one peer names.
const MAX_NAMED: usize = 1 << 20;
/// Most bytes that are kept for nobody yet, and for how long.
const MAX_KEPT: usize = Terms::CACHE;
const KEPT_FOR: Duration = Duration::from_secs(120);
/// What is sent at once, where several pieces go together.
const CHUNK: usize = 64 << 10;

/// Output as it came.
#[derive(Clone, Debug)]
struct Piece {
    source: Proc,
    channel: Channels,
    /// None where the output ends.
    bytes: Vec<u8>,
    info: Vec<Info>,
}

/// What waits of one process and channel.
#[derive(Debug)]
struct Stream {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl Stream {
    fn is_of(&self, piece: &Piece) -> bool {
        self.pieces.front().is_some_and(|first| (&first.source, first.channel) == (&piece.source, piece.channel))
    }

    fn has_ended(&self) -> bool {
        self.pieces.back().is_some_and(|last| last.bytes.is_empty())
    }

    /// The next to be sent: what came in pieces and differs in nothing else goes together.
    fn next(&mut self) -> Option<Piece> {
        let mut first = self.pieces.pop_front()?;
        while let Some(next) = self.pieces.front()
            && !first.bytes.is_empty()
            && !next.bytes.is_empty()
            && next.info == first.info
            && first.bytes.len() + next.bytes.len() <= CHUNK
        {
            first.bytes.extend(self.pieces.pop_front()?.bytes);
        }
        self.bytes -= first.bytes.len();
        Some(first)
    }
}

/// What one call of a client asks for.
#[derive(Debug)]
struct Pull {
    id: u64,
    procs: Vec<Proc>,
    channels: Channels,
    /// What the host was told.
    directives: Vec<Info>,
    terms: Terms,
    /// Under way to the client.
    unread: usize,
    waiting: Vec<Stream>,
    /// When what waits is sent, however little it is.
    due: Option<TimerId>,
    /// That time has come.
    is_due: bool,
    /// Something was dropped, and the trace has said so.
    has_dropped: bool,
}

impl Pull {
    fn is_read(&self) -> bool {
        self.unread == 0 && self.waiting.is_empty()
    }

    /// Takes a piece in, as far as there is room; `others` is what else waits for the same peer.
    fn take(&mut self, mut piece: Piece, others: usize) {
        let at = self.waiting.iter().position(|stream| stream.is_of(&piece)).unwrap_or_else(|| {
            self.waiting.push(Stream { pieces: VecDeque::new(), bytes: 0 });
            self.waiting.len() - 1
        });
        let most = self.terms.cache.min(MAX_CACHED.saturating_sub(others));
        let (window, drops_oldest) = (WINDOW.saturating_sub(self.unread), self.terms.drops_oldest);
        let stream = &mut self.waiting[at];
        // What can be sent at once takes no room.
        let mut over = (stream.bytes + piece.bytes.len()).saturating_sub(most.max(window));
        if piece.bytes.is_empty() {
            // The end is always told, once.
            if !stream.has_ended() {
                stream.pieces.push_back(piece);
            }
            return;
        }
        if over > 0 && !std::mem::replace(&mut self.has_dropped, true) {
            trace!("output of {} that is not read is dropped: more than {most} bytes wait", piece.source);
        }
        if over > 0 && !drops_oldest {
            let fits = piece.bytes.len() - over.min(piece.bytes.len());
            piece.bytes.truncate(fits);
            if fits == 0 {
                self.waiting.retain(|stream| !stream.pieces.is_empty());
                return;
            }
            over = 0;
        }
        stream.bytes += piece.bytes.len();
        stream.pieces.push_back(piece);
        while over > 0
            && let Some(first) = stream.pieces.front_mut()
        {
            let gone = over.min(first.bytes.len());
            first.bytes.drain(..gone);
            (over, stream.bytes) = (over - gone, stream.bytes - gone);
            if first.bytes.is_empty() && stream.pieces.len() > 1 {
                stream.pieces.pop_front();
            }
        }
    }

    /// What may be sent now.
    fn ready(&mut self) -> Vec<Piece> {
        let mut ready = Vec::new();
        for stream in &mut self.waiting {
            let goes = self.is_due || stream.has_ended() || stream.bytes >= self.terms.least;
            while goes
                && self.unread < WINDOW
                && let Some(piece) = stream.next()
            {
                self.unread += cost(piece.bytes.len());
                ready.push(piece);
            }
        }
        self.waiting.retain(|stream| !stream.pieces.is_empty());
        self.is_due &= !self.waiting.is_empty();
        ready
    }
}

/// Who wants which output.
#[derive(Default)]
pub(super) struct Outputs {
    pulls: HashMap<PeerId, Vec<Pull>>,
    /// What nobody has wanted yet, the oldest first.
    kept: VecDeque<(Instant, Piece)>,
    kept_bytes: usize,
    /// Who waits until everything is read, and how long.
    flushed: Vec<(TimerId, Done<()>)>,
}

impl Outputs {
    fn of(&mut self, peer: PeerId, id: u64) -> Option<&mut Pull> {
        self.pulls.get_mut(&peer)?.iter_mut().find(|pull| pull.id == id)
    }

    fn keep(&mut self, piece: Piece, now: Instant) {
        self.kept_bytes += cost(piece.bytes.len());
        self.kept.push_back((now, piece));
        while let Some((since, first)) = self.kept.front()
            && (self.kept_bytes > MAX_KEPT || now.duration_since(*since) > KEPT_FOR)
        {
            self.kept_bytes -= cost(first.bytes.len());
            self.kept.pop_front();
        }
    }

    /// What was kept of this.
    fn kept(&mut self, procs: &[Proc], channels: Channels, now: Instant) -> Vec<Piece> {
        let (found, rest): (VecDeque<_>, _) = std::mem::take(&mut self.kept)
            .into_iter()
            .filter(|(since, _)| now.duration_since(*since) <= KEPT_FOR)
            .partition(|(_, piece)| covers(procs, channels, &piece.source, piece.channel));
        self.kept = rest;
        self.kept_bytes = self.kept.iter().map(|(_, piece)| cost(piece.bytes.len())).sum();
        found.into_iter().map(|(_, piece)| piece).collect()
    }
}

impl Router {
    /// A client asks for the output of processes.
    pub(super) fn pull_output(
        &mut self,
        peer: PeerId,
        number: u64,
        asker: &Proc,
        (id, procs, channels, directives): (u64, Vec<Proc>, Channels, Vec<Info>),
    ) {
        let pulls = self.outputs.pulls.get(&peer).map_or(&[][..], Vec::as_slice);
        let named = pulls.iter().map(|pull| pull.procs.len()).sum::<usize>() + procs.len();
        if channels.intersects(Channels::STDIN) {
            return self.cx.reply_status(peer, number, Err(Status::ERR_NOT_SUPPORTED));
        }
        if pulls.len() >= MAX_PULLS || named > MAX_NAMED || pulls.iter().any(|pull| pull.id == id) {
            return self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let terms = Terms::read(&directives);
        let directives = self.jobs.signed(&self.cx, asker, directives);
        let pull = Pull {
            id,
            procs: procs.clone(),
            channels,
            directives: directives.clone(),
            terms,
            unread: 0,
            waiting: Vec::new(),
            due: None,
            is_due: false,
            has_dropped: false,
        };
        self.ask_host(
            |host, done| host.iof_pull(&procs, &directives, channels, done),
            (),
            move |router, result| {
                let is_here = router.cx.peers.contains_key(&peer);
                if result.is_ok() && is_here {
                    let kept = {
                        let now = router.cx.now();
                        router.outputs.kept(&pull.procs, pull.channels, now)
                    };
                    router.outputs.pulls.entry(peer).or_default().push(pull);
                    router.cx.reply_status(peer, number, result);
                    kept.into_iter().for_each(|piece| router.give_output(peer, id, piece));
                } else {
                    if result.is_ok() {
                        router.host_stops_output(pull);
                    }
                    router.cx.reply_status(peer, number, result);
                }
            },
        );
    }

    /// It wants it no more. What waits goes to it before the answer.
    pub(super) fn stop_output(&mut self, peer: PeerId, number: u64, id: u64) {
        if let Some(pulls) = self.outputs.pulls.get_mut(&peer)
            && let Some(at) = pulls.iter().position(|pull| pull.id == id)
        {
            let mut pull = pulls.swap_remove(at);
            if pulls.is_empty() {
                self.outputs.pulls.remove(&peer);
            }
            (pull.is_due, pull.unread) = (true, 0);
            let rest = pull.ready();
            self.send_output(peer, id, rest);
            self.forget_pull(pull);
        }
        self.cx.reply_status(peer, number, Ok(()));
    }

    /// A client has taken in so much of what it was sent.
    pub(super) fn output_taken(&mut self, peer: PeerId, number: u64, id: u64, taken: u64) {
        if let Some(pull) = self.outputs.of(peer, id) {
            pull.unread = pull.unread.saturating_sub(usize::try_from(taken).unwrap_or(usize::MAX));
            self.send_ready(peer, id);
        }
        self.output_was_read();
        self.cx.reply_status(peer, number, Ok(()));
    }

    /// A client is gone, and wants nothing any more.
    pub(super) fn output_ends(&mut self, peer: PeerId) {
        for pull in self.outputs.pulls.remove(&peer).unwrap_or_default() {
            self.forget_pull(pull);
        }
        self.output_was_read();
    }

    fn forget_pull(&mut self, pull: Pull) {
        self.cx.timers.cancel(pull.due);
        self.host_stops_output(pull);
    }

    /// Tells the host that a pull has ended. It does what it likes with that.
    fn host_stops_output(&mut self, pull: Pull) {
        let Pull { procs, channels, mut directives, .. } = pull;
        directives.push(Info::new(keys::IOF_STOP, true));
        self.ask_host(|host, done| host.iof_pull(&procs, &directives, channels, done), (), |_, _| ());
    }

    /// The host delivers output.
    pub(super) fn deliver_output(&mut self, source: &Proc, channel: Channels, bytes: &[u8], info: &[Info]) {
        self.write_output(source, channel, bytes);
        let mut pulls = Vec::new();
        for (peer, of_peer) in &self.outputs.pulls {
            // Nobody is told what it says itself.
            if self.cx.peers.get(peer).is_some_and(|entry| entry.proc != *source) {
                let wanted = of_peer.iter().filter(|pull| covers(&pull.procs, pull.channels, source, channel));
                pulls.extend(wanted.map(|pull| (*peer, pull.id)));
            }
        }
        let piece = || Piece { source: source.clone(), channel, bytes: bytes.to_vec(), info: info.to_vec() };
        if pulls.is_empty() {
            return self.outputs.keep(piece(), self.cx.now());
        }
        for (peer, id) in pulls {
            self.give_output(peer, id, piece());
        }
    }

    /// A piece for one pull.
    fn give_output(&mut self, peer: PeerId, id: u64, piece: Piece) {
        let streams = |pull: &Pull| pull.waiting.iter().map(|stream| stream.bytes).sum::<usize>();
        let all: usize = self.outputs.pulls.get(&peer).into_iter().flatten().map(streams).sum();
        let Some(pull) = self.outputs.of(peer, id) else { return };
        let own = pull.waiting.iter().find(|stream| stream.is_of(&piece)).map_or(0, |stream| stream.bytes);
        pull.take(piece, all - own);
        self.send_ready(peer, id);
    }

    /// What was waited for long enough is sent.
    pub(super) fn output_is_due(&mut self, peer: PeerId, id: u64) {
        if let Some(pull) = self.outputs.of(peer, id) {
            (pull.due, pull.is_due) = (None, true);
            self.send_ready(peer, id);
        }
    }

    fn send_ready(&mut self, peer: PeerId, id: u64) {
        let Some(pull) = self.outputs.of(peer, id) else { return };
        let ready = pull.ready();
        match (pull.terms.patience, pull.waiting.is_empty(), pull.due) {
            (Some(patience), false, None) if !pull.is_due => {
                let due = self.cx.set_deadline(patience, Deadline::Output(peer, id));
                if let Some(pull) = self.outputs.of(peer, id) {
                    pull.due = Some(due);
                }
            }
            (_, true, Some(due)) => {
                pull.due = None;
                self.cx.timers.cancel(due);
            }
            _ => {}
        }
        self.send_output(peer, id, ready);
    }

    fn send_output(&mut self, peer: PeerId, pull: u64, pieces: Vec<Piece>) {
        for Piece { source, channel, bytes, info } in pieces {
            self.cx.send(peer, Outgoing::Push(Push::Output { pull, source, channel, bytes, info }));
        }
    }

    /// `done` is called when everybody has read what was delivered, or after so long.
    pub(super) fn flush_output(&mut self, patience: Duration, done: Done<()>) {
        let limit = self.cx.set_deadline(patience, Deadline::OutputFlush);
        self.outputs.flushed.push((limit, done));
        // What waits for company waits no more.
        let pulls: Vec<_> = self.outputs.pulls.iter().flat_map(|(peer, of)| of.iter().map(|p| (*peer, p.id))).collect();
        pulls.into_iter().for_each(|(peer, id)| self.output_is_due(peer, id));
        self.output_was_read();
    }

    /// Tells who waits for it, where everything is read.
    fn output_was_read(&mut self) {
        if !self.outputs.flushed.is_empty() && self.outputs.pulls.values().flatten().all(Pull::is_read) {
            self.output_flushed(Ok(()));
        }
    }

    pub(super) fn output_flushed(&mut self, result: Result<(), Status>) {
        for (limit, done) in std::mem::take(&mut self.outputs.flushed) {
            self.cx.timers.cancel(limit);
            self.cx.finish(done, result);
        }
    }
}
