//! Flow of one pull: the window of what is under way, and the cache of what waits.
use std::collections::VecDeque;

use crate::data::{Channels, Info, Proc};
use crate::message::output::{Terms, WINDOW, cost};
use crate::trace;

/// Most bytes that wait for one peer, over all its pulls.
pub const MAX_CACHED: usize = 64 << 20;
/// Most bytes that are sent as one piece, where several go together.
const CHUNK: usize = 64 << 10;

/// Output of one process and channel, as the host has delivered it.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub source: Proc,
    pub channel: Channels,
    /// No bytes where the output ends.
    pub bytes: Vec<u8>,
    pub info: Vec<Info>,
}

/// Pieces of one process and channel that wait, in order.
#[derive(Debug, Default)]
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

    /// Takes the next piece to be sent. Pieces that differ in nothing but their bytes go together.
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

    /// Drops so many bytes, the oldest first. An empty piece would mean an end: the last one stays, however short.
    fn drop_oldest(&mut self, mut bytes: usize) {
        while bytes > 0
            && let Some(first) = self.pieces.front_mut()
        {
            let gone = bytes.min(first.bytes.len());
            first.bytes.drain(..gone);
            (bytes, self.bytes) = (bytes - gone, self.bytes - gone);
            if first.bytes.is_empty() && self.pieces.len() > 1 {
                self.pieces.pop_front();
            }
        }
    }
}

/// Output of one pull on its way to the peer.
#[derive(Debug)]
pub struct Flow {
    terms: Terms,
    /// Cost of what was sent and is not taken in.
    unread: usize,
    streams: Vec<Stream>,
    /// True if what waits is sent, however little it is.
    is_due: bool,
    /// True if something was dropped, and the trace has said so.
    has_dropped: bool,
}

impl Flow {
    /// A flow that nothing has come into.
    pub fn new(terms: Terms) -> Self {
        Flow { terms, unread: 0, streams: Vec::new(), is_due: false, has_dropped: false }
    }

    /// The pull's directives, as far as they concern the server.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns true when nothing is under way and nothing waits.
    pub fn is_read(&self) -> bool {
        self.unread == 0 && self.streams.is_empty()
    }

    /// Returns true when something waits for which no time has run out.
    pub fn waits_for_more(&self) -> bool {
        !self.streams.is_empty() && !self.is_due
    }

    /// Returns true when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.streams.iter().map(|stream| stream.bytes).sum()
    }

    /// Bytes that wait of the stream that a piece belongs to.
    pub fn bytes_with(&self, piece: &Piece) -> usize {
        self.streams.iter().find(|stream| stream.is_of(piece)).map_or(0, |stream| stream.bytes)
    }

    /// The time to wait for more is over: what waits is sent, however little it is.
    pub fn make_due(&mut self) {
        self.is_due = true;
    }

    /// The peer has taken in output of that cost.
    pub fn taken(&mut self, cost: u64) {
        self.unread = self.unread.saturating_sub(usize::try_from(cost).unwrap_or(usize::MAX));
    }

    /// Takes a piece in, as far as there is room beside the bytes that `others` hold for the same peer.
    pub fn push(&mut self, mut piece: Piece, others: usize) {
        let at = self.streams.iter().position(|stream| stream.is_of(&piece)).unwrap_or_else(|| {
            self.streams.push(Stream::default());
            self.streams.len() - 1
        });
        let most = self.terms.cache.min(MAX_CACHED.saturating_sub(others));
        let (window, drops_oldest) = (WINDOW.saturating_sub(self.unread), self.terms.drops_oldest);
        let stream = &mut self.streams[at];
        if piece.bytes.is_empty() {
            // The end is always told, once.
            if !stream.has_ended() {
                stream.pieces.push_back(piece);
            }
            return;
        }
        // Bytes that can be sent at once take no room.
        let over = (stream.bytes + piece.bytes.len()).saturating_sub(most.max(window));
        if over > 0 && !std::mem::replace(&mut self.has_dropped, true) {
            trace!("output of {} that is not read is dropped: more than {most} bytes wait", piece.source);
        }
        if over > 0 && !drops_oldest {
            let fits = piece.bytes.len() - over.min(piece.bytes.len());
            piece.bytes.truncate(fits);
            if fits == 0 {
                self.streams.retain(|stream| !stream.pieces.is_empty());
                return;
            }
        }
        stream.bytes += piece.bytes.len();
        stream.pieces.push_back(piece);
        if drops_oldest {
            stream.drop_oldest(over);
        }
    }

    /// Takes the pieces that may be sent now.
    pub fn ready(&mut self) -> Vec<Piece> {
        let mut ready = Vec::new();
        for stream in &mut self.streams {
            let goes = self.is_due || stream.has_ended() || stream.bytes >= self.terms.least;
            while goes
                && self.unread < WINDOW
                && let Some(piece) = stream.next()
            {
                self.unread += cost(piece.bytes.len());
                ready.push(piece);
            }
        }
        self.streams.retain(|stream| !stream.pieces.is_empty());
        self.is_due &= !self.streams.is_empty();
        ready
    }

    /// Takes what one last window holds of what waits: the pull has ended.
    pub fn rest(&mut self) -> Vec<Piece> {
        (self.is_due, self.unread) = (true, 0);
        self.ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ctx::testing::proc;

    fn piece(rank: u32, bytes: &[u8]) -> Piece {
        Piece { source: proc("job", rank), channel: Channels::STDOUT, bytes: bytes.to_vec(), info: Vec::new() }
    }

    fn flow(cache: usize, drops_oldest: bool) -> Flow {
        Flow::new(Terms { cache, drops_oldest, least: 0, patience: None })
    }

    /// A flow whose window is full.
    fn full(cache: usize, drops_oldest: bool) -> Flow {
        let mut flow = flow(cache, drops_oldest);
        flow.push(piece(9, &vec![0; WINDOW]), 0);
        assert_eq!(flow.ready().len(), 1);
        flow
    }

    #[test]
    fn a_peer_is_sent_one_window_until_it_has_taken_that_in() {
        let mut flow = flow(Terms::CACHE, false);
        for _ in 0..=WINDOW / CHUNK {
            flow.push(piece(0, &vec![0; CHUNK]), 0);
        }
        let sent = flow.ready();
        assert_eq!(sent.len(), WINDOW / CHUNK);
        assert!(flow.ready().is_empty() && !flow.is_read());
        let taken: usize = sent.iter().map(|piece| cost(piece.bytes.len())).sum();
        flow.taken(taken as u64);
        assert_eq!(flow.ready().len(), 1);
        flow.taken(u64::MAX);
        assert!(flow.is_read());
    }

    #[test]
    fn a_full_cache_drops_what_comes_or_what_is_oldest() {
        let bytes = |flow: &mut Flow| flow.rest().into_iter().flat_map(|piece| piece.bytes).collect::<Vec<u8>>();
        for (drops_oldest, kept) in [(false, b"aaabbb"), (true, b"bbbccc")] {
            let mut flow = full(6, drops_oldest);
            for new in [b"aaa", b"bbb", b"ccc"] {
                flow.push(piece(0, new), 0);
            }
            assert_eq!(bytes(&mut flow), kept);
        }
        let mut flow = full(6, false);
        flow.push(piece(0, b"aaa"), MAX_CACHED);
        assert!(flow.is_empty(), "other pulls of the peer hold all the room");
    }

    #[test]
    fn pieces_of_one_stream_go_together_and_streams_stay_apart() {
        let mut flow = flow(Terms::CACHE, false);
        flow.terms.least = 100;
        for (rank, bytes) in [(0, b"a"), (1, b"x"), (0, b"b")] {
            flow.push(piece(rank, bytes), 0);
        }
        assert!(flow.ready().is_empty() && flow.waits_for_more(), "too little for one piece");
        flow.make_due();
        assert_eq!(flow.ready(), [piece(0, b"ab"), piece(1, b"x")]);
    }

    #[test]
    fn an_end_is_told_once_though_the_cache_is_full() {
        let mut flow = full(0, false);
        for bytes in [&b"lost"[..], b"", b""] {
            flow.push(piece(0, bytes), 0);
        }
        assert_eq!(flow.rest(), [piece(0, b"")]);
    }
}
