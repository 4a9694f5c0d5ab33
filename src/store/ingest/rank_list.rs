//! Ranks in the order in which a process map names them, in as few bits as they need.
use instanton_layout::info::packed::{Filler, bits_for, nth, words_for};
use instanton_layout::words::Plain;

use crate::sys::scratch::Scratch;

/// Ranks one after the other.
#[derive(Clone)]
pub(super) struct RankList {
    words: Scratch<u64>,
    len: u32,
    bits: u32,
}

impl RankList {
    /// An empty list with room for so many ranks, none of which is more than their number.
    pub(super) fn with_room(ranks: u32) -> Self {
        let bits = bits_for(ranks.into());
        Self { words: Scratch::with_room(words_for(ranks.into(), bits) as usize), len: 0, bits }
    }

    /// Appends so many ranks, none of which is more than `most`.
    pub(super) fn extend(&mut self, count: u32, most: u32, ranks: impl Iterator<Item = u32>) {
        if bits_for(most.into()) > self.bits {
            *self = self.in_bits(bits_for(most.into()), self.len + count);
        }
        let len = self.len + count;
        self.words.resize(words_for(len.into(), self.bits) as usize, 0);
        let mut filler = Filler::new(&mut self.words);
        filler.seek(u64::from(self.len) * u64::from(self.bits));
        ranks.take(count as usize).for_each(|rank| filler.push(rank.into(), self.bits));
        filler.finish();
        self.len = len;
    }

    /// Copies the ranks in so many bits each, with room for so many.
    fn in_bits(&self, bits: u32, room: u32) -> Self {
        let mut words = Scratch::zeroed(words_for(room.into(), bits) as usize);
        let mut filler = Filler::new(&mut words);
        for at in 0..self.len {
            filler.push(nth(&Plain(&self.words), 0, at, self.bits).unwrap_or_default(), bits);
        }
        filler.finish();
        Self { words, len: self.len, bits }
    }

    /// Words for so many ranks, each in as many bits as their number has.
    pub(super) fn into_words(mut self, ranks: u32) -> Scratch<u64> {
        let bits = bits_for(ranks.into());
        if bits != self.bits {
            self = self.in_bits(bits, ranks);
        }
        self.words.resize(words_for(ranks.into(), bits) as usize, 0);
        self.words
    }
}

/// The ranks of one node after the other, as the map has them.
#[derive(Clone)]
pub(super) struct Listed {
    pub(in crate::store) ranks: RankList,
    /// True if the ranks of each node come in the order of their numbers.
    pub(super) in_order: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_become_wider_when_they_must() {
        let ranks: Vec<u32> = (0..5000).map(|nth| nth * 7 % (1 << (nth / 300))).collect();
        for room in [0, 6, 5000, 1 << 24] {
            let mut list = RankList::with_room(room);
            for some in ranks.chunks(97) {
                list.extend(some.len() as u32, some.iter().copied().max().unwrap_or(0), some.iter().copied());
            }
            for of_all in [5000, 1 << 17] {
                let (words, bits) =
                    (list.clone().into_words(of_all.max(1 << 16)), bits_for(of_all.max(1 << 16).into()));
                let read = |at| nth(&Plain(&words), 0, at, bits).unwrap() as u32;
                assert_eq!((0..5000).map(read).collect::<Vec<_>>(), ranks);
                assert_eq!(words.len() as u64, words_for(of_all.max(1 << 16).into(), bits));
            }
        }
    }
}
