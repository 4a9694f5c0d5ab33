//! Logs of ranks between the lines that ranks print.
//!
//! A log may become many times as long by its form, and takes the thread that gives it that as long. So processes that
//! log have *turns*, some pieces each. After each turn all logs *rest*, so that they take a fifth of the time: what ranks
//! print is forwarded meanwhile, and the processors are others'. Logs that take little wait for nothing, as long as the
//! rests that are owed come to no more than [`FREE`].
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use instanton::data::Proc;

use super::Written;

/// Time that logs rest for each unit of processor time that they have taken, the next turn included.
const REST: u32 = 5;
/// Rests that may be owed while the next turn comes at once.
const FREE: Duration = Duration::from_millis(10);
/// Bytes that end a turn.
const TURN: usize = 64 << 10;

/// Text that is given its form in pieces.
pub trait Pieces: Send {
    /// Adds the next piece to what is shown: whole lines, unless it is the last. Returns whether there are more.
    fn show_next(&mut self, shown: &mut Vec<u8>) -> bool;
}

/// Text with the request that it belongs to.
pub(super) struct Text {
    pub(super) pieces: Box<dyn Pieces>,
    pub(super) request: Written,
}

/// Logs that are to be written.
#[derive(Default)]
pub(super) struct Texts {
    by_proc: BTreeMap<Proc, VecDeque<Text>>,
    /// Processes in the order of their turns.
    turns: VecDeque<Proc>,
    rests_until: Option<Instant>,
}

impl Texts {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn add(&mut self, by: Proc, text: Text) {
        let texts = self.by_proc.entry(by.clone()).or_default();
        if texts.is_empty() {
            self.turns.push_back(by);
        }
        texts.push_back(text);
    }

    /// Returns the time of the next turn, if there is one.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        (!self.is_empty()).then(|| self.rests_until.and_then(|until| until.checked_sub(FREE)).unwrap_or(now))
    }

    /// Shows what belongs to a turn. Returns requests whose texts are over, to be dropped when that is written.
    pub(super) fn turn(&mut self, shown: &mut Vec<u8>) -> Vec<Written> {
        let mut over = Vec::new();
        let most = shown.len() + TURN;
        while shown.len() < most
            && let Some(by) = self.turns.pop_front()
            && let Some(texts) = self.by_proc.get_mut(&by)
        {
            if let Some(first) = texts.front_mut()
                && !first.pieces.show_next(shown)
            {
                over.extend(texts.pop_front().map(|text| text.request));
            }
            match texts.is_empty() {
                true => _ = self.by_proc.remove(&by),
                false => self.turns.push_back(by),
            }
        }
        over
    }

    /// A turn has ended, which has taken so much processor time.
    pub(super) fn rest(&mut self, took: Duration, now: Instant) {
        self.rests_until = Some(self.rests_until.map_or(now, |until| until.max(now)) + REST * took);
    }
}

#[cfg(test)]
mod tests {
    use instanton::data::{Nspace, Rank};
    use instanton::server::Completion;

    use super::*;

    /// Text of so many pieces of a turn each.
    struct Lines(u8, usize);

    impl Pieces for Lines {
        fn show_next(&mut self, shown: &mut Vec<u8>) -> bool {
            shown.extend([self.0; TURN]);
            self.1 -= 1;
            self.1 > 0
        }
    }

    fn add(texts: &mut Texts, rank: u32, name: u8, pieces: usize) {
        let by = Proc::new(Nspace::new("job").unwrap(), Rank(rank));
        let request = Written::new(Completion::new(|_| {}));
        texts.add(by, Text { pieces: Box::new(Lines(name, pieces)), request });
    }

    #[test]
    fn processes_that_log_have_turns_and_their_texts_an_order() {
        let mut texts = Texts::default();
        add(&mut texts, 0, b'a', 3);
        add(&mut texts, 0, b'b', 1);
        add(&mut texts, 1, b'c', 2);
        let (mut order, mut ends) = (Vec::new(), Vec::new());
        while !texts.is_empty() {
            let mut shown = Vec::new();
            ends.push(texts.turn(&mut shown).len());
            assert_eq!(shown.len(), TURN);
            order.push(shown[0]);
        }
        assert_eq!((&order[..], &ends[..]), (&b"acacab"[..], &[0, 0, 0, 1, 1, 1][..]));
        assert!(texts.by_proc.is_empty());
    }

    #[test]
    fn logs_leave_others_four_fifths_of_the_time_unless_they_take_little() {
        for (took, at_once) in [(FREE / 100, 20), (FREE, 1)] {
            let (mut texts, begin) = (Texts::default(), Instant::now());
            add(&mut texts, 0, b'a', 2000);
            let (mut now, mut turns) = (begin, 0);
            while texts.next(now).is_some_and(|next| next <= now) {
                texts.turn(&mut Vec::new());
                texts.rest(took, now);
                turns += 1;
            }
            assert!((at_once..=at_once + 1).contains(&turns), "{turns}");
            while let Some(next) = texts.next(now) {
                now = now.max(next) + took;
                texts.turn(&mut Vec::new());
                texts.rest(took, now);
            }
            let part = (2000 * took).as_secs_f64() / (now - begin).as_secs_f64();
            assert!((0.15..0.25).contains(&part), "{part}");
        }
    }
}
