//! Output that no pull wants yet, kept for a while for pulls to come.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::stream::Piece;
use crate::data::Channels;
use crate::message::output::{Terms, cost};
use crate::server::ctx::proc_set::ProcSet;

/// Most bytes that are kept, each piece with its overhead.
const MAX_BYTES: usize = Terms::CACHE;
/// Time for which a piece is kept.
const KEPT_FOR: Duration = Duration::from_secs(120);

/// Kept pieces, the oldest first.
#[derive(Debug, Default)]
pub struct Backlog {
    pieces: VecDeque<(Instant, Piece)>,
    bytes: usize,
}

impl Backlog {
    /// Keeps a piece. Older ones give way to it where there is no room, or when their time is over.
    pub fn keep(&mut self, piece: Piece, now: Instant) {
        self.bytes += cost(piece.bytes.len());
        self.pieces.push_back((now, piece));
        while let Some((since, first)) = self.pieces.front()
            && (self.bytes > MAX_BYTES || now.duration_since(*since) > KEPT_FOR)
        {
            self.bytes -= cost(first.bytes.len());
            self.pieces.pop_front();
        }
    }

    /// Takes out the pieces that a pull of these processes and channels wants.
    pub fn take(&mut self, sources: &ProcSet, channels: Channels, now: Instant) -> Vec<Piece> {
        let (found, rest): (VecDeque<_>, _) = std::mem::take(&mut self.pieces)
            .into_iter()
            .filter(|(since, _)| now.duration_since(*since) <= KEPT_FOR)
            .partition(|(_, piece)| channels.intersects(piece.channel) && sources.has(&piece.source));
        self.pieces = rest;
        self.bytes = self.pieces.iter().map(|(_, piece)| cost(piece.bytes.len())).sum();
        found.into_iter().map(|(_, piece)| piece).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ctx::testing::proc;

    fn piece(rank: u32, bytes: usize) -> Piece {
        Piece { source: proc("job", rank), channel: Channels::STDOUT, bytes: vec![0; bytes], info: Vec::new() }
    }

    #[test]
    fn a_pull_takes_what_it_covers_and_leaves_the_rest() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        (0..2).for_each(|rank| backlog.keep(piece(rank, 1), now));
        let first: ProcSet = [proc("job", 0)].into_iter().collect();
        assert!(backlog.take(&first, Channels::STDERR, now).is_empty());
        assert_eq!(backlog.take(&first, Channels::STDOUT, now), [piece(0, 1)]);
        let both = [proc("job", 0), proc("job", 1)].into_iter().collect();
        assert_eq!(backlog.take(&both, Channels::ALL, now), [piece(1, 1)]);
    }

    #[test]
    fn old_pieces_and_those_beyond_the_room_are_forgotten() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        (0..3).for_each(|rank| backlog.keep(piece(rank, MAX_BYTES / 2), now));
        let all = [0, 1, 2].map(|rank| proc("job", rank)).into_iter().collect();
        assert_eq!(backlog.take(&all, Channels::ALL, now).len(), 1, "a piece has an overhead");
        backlog.keep(piece(0, 1), now);
        assert!(backlog.take(&all, Channels::ALL, now + KEPT_FOR + Duration::from_nanos(1)).is_empty());
        assert_eq!(backlog.bytes, 0);
    }

    #[test]
    fn very_many_pieces_are_held_against_very_many_processes() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        let pieces = MAX_BYTES / cost(1);
        (0..pieces).for_each(|_| backlog.keep(piece(7, 1), now));
        // Of each pair compared, these would be 60,000,000,000 steps.
        let others: ProcSet = (0..1_000_000).map(|rank| proc("job", 8 + rank)).collect();
        assert!(backlog.take(&others, Channels::ALL, now).is_empty());
        assert_eq!(backlog.pieces.len(), pieces);
    }
}
