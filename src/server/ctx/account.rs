//! Account of one peer: how many requests it has open, and how large they are.
//!
//! Every request is charged when it arrives and given back with its answer, here and nowhere else.

/// Requests that may wait for an answer at a time.
const MAX_OPEN: usize = 65536;
/// Bytes of the large ones among them, unless it is one alone.
const MAX_BYTES: usize = 64 << 20;
/// Size from which on a request is large: so few may wait that to go through them costs little, and no map of them is
/// needed.
const LARGE: usize = 4 << 10;

/// Charges for requests that have no answer yet.
#[derive(Debug, Default)]
pub struct Account {
    open: usize,
    /// Numbers of large ones, and their bytes.
    large: Vec<(u64, usize)>,
    bytes: usize,
}

impl Account {
    /// Charges a request of so many bytes. Returns whether it may wait; an answer it gets either way.
    pub fn charge(&mut self, number: u64, bytes: usize) -> bool {
        self.open += 1;
        if bytes < LARGE {
            return self.open <= MAX_OPEN;
        }
        let has_room = self.bytes == 0 || self.bytes + bytes <= MAX_BYTES;
        self.large.push((number, bytes));
        self.bytes += bytes;
        has_room && self.open <= MAX_OPEN
    }

    /// Returns whether a large request of that number waits: another one must not be taken for it.
    pub fn is_large(&self, number: u64) -> bool {
        self.large.iter().any(|(large, _)| *large == number)
    }

    /// Returns whether a small request may wait without a look at its number.
    pub fn is_simple(&self) -> bool {
        self.open < MAX_OPEN && self.large.is_empty()
    }

    /// Gives back the charge of a request that was answered.
    pub fn give_back(&mut self, number: u64) {
        self.open -= 1;
        if let Some(at) = self.large.iter().position(|(large, _)| *large == number) {
            self.bytes -= self.large.swap_remove(at).1;
        }
    }
}
