//! Output of which a stock server sends several copies.
//!
//! It sends one for each pull that covers the output, and one unasked to a tool that has started the job. The server in
//! this process hands each that it is given to everybody who wants it, so it is to be given one alone.
use std::collections::HashMap;

use crate::data::{Channels, Proc};

/// Number of the pull in copies that come unasked.
const UNASKED: usize = 0;
/// Most sources that are remembered. Of one that is forgotten, a copy too many may pass.
const MOST: usize = 1 << 14;

/// Copies that come, and the one of each source that counts.
#[derive(Default)]
pub(super) struct Copies {
    /// Pulls that there are, in the order of their numbers.
    pulls: Vec<usize>,
    /// The number of the last one that there was.
    last: usize,
    /// The pull whose copies count, by source.
    counting: HashMap<(Proc, Channels), usize>,
}

impl Copies {
    /// A number for a pull that begins.
    pub(super) fn begin(&mut self) -> usize {
        self.last += 1;
        self.pulls.push(self.last);
        self.last
    }

    /// A pull has ended. Copies of another one count from now on.
    pub(super) fn end(&mut self, pull: usize) {
        self.pulls.retain(|known| *known != pull);
        self.counting.retain(|_, counts| *counts != pull);
    }

    /// Returns whether a copy counts.
    pub(super) fn counts(&mut self, source: &Proc, channel: Channels, pull: usize) -> bool {
        let has_ended = pull != UNASKED && pull <= self.last && !self.pulls.contains(&pull);
        if has_ended {
            return false;
        }
        if self.counting.len() >= MOST {
            self.counting.clear();
        }
        *self.counting.entry((source.clone(), channel)).or_insert(pull) == pull
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Rank};

    #[test]
    fn one_copy_of_each_source_counts_whichever_pulls_there_are() {
        let rank = |rank| Proc::new(Nspace::new("job").unwrap(), Rank(rank));
        let (output, errors) = (Channels::STDOUT, Channels::STDERR);
        let mut copies = Copies::default();
        let (first, second) = (copies.begin(), copies.begin());
        // The server sends the output of rank 0 unasked, and nothing else.
        for _ in 0..2 {
            assert!(copies.counts(&rank(0), output, UNASKED));
            assert!(!copies.counts(&rank(0), output, first));
            assert!(copies.counts(&rank(0), errors, first) && copies.counts(&rank(1), output, second));
            assert!(!copies.counts(&rank(0), errors, second) && !copies.counts(&rank(1), output, first));
        }
        copies.end(first);
        assert!(!copies.counts(&rank(0), errors, first), "it was under way");
        assert!(copies.counts(&rank(0), errors, second) && copies.counts(&rank(1), output, second));
        // A server may have numbers of its own.
        assert!(copies.counts(&rank(2), output, 77) && !copies.counts(&rank(2), output, 78));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut copies = Copies::default();
        for rank in 0..2 * MOST as u32 {
            assert!(copies.counts(&Proc::new(Nspace::new("job").unwrap(), Rank(rank)), Channels::STDOUT, UNASKED));
        }
        assert!(copies.counting.len() <= MOST);
    }
}
