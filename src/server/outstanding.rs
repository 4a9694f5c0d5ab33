//! What one peer waits for: how many requests, and how large they are.
/// Requests that may wait for an answer at a time.
const MOST: usize = 65536;
/// Bytes of the large ones among them, unless it is one alone.
const MOST_BYTES: usize = 64 << 20;
/// From here on a request is large: so few may wait that to go through them costs little, and no map of them is needed.
const LARGE: usize = 4 << 10;

/// Requests that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    count: usize,
    /// The numbers of large ones, and their bytes.
    large: Vec<(u64, usize)>,
    bytes: usize,
}

impl Outstanding {
    /// A request has come. Whether it may wait; an answer it gets either way.
    pub(super) fn begin(&mut self, number: u64, bytes: usize) -> bool {
        self.count += 1;
        if bytes < LARGE {
            return self.count <= MOST;
        }
        let has_room = self.bytes == 0 || self.bytes + bytes <= MOST_BYTES;
        self.large.push((number, bytes));
        self.bytes += bytes;
        has_room && self.count <= MOST
    }

    /// Whether a large request of that number waits: another one must not be taken for it.
    pub(super) fn is_large(&self, number: u64) -> bool {
        self.large.iter().any(|(large, _)| *large == number)
    }

    /// Whether a small request may wait without a look at its number.
    pub(super) fn is_simple(&self) -> bool {
        self.count < MOST && self.large.is_empty()
    }

    /// A request was answered.
    pub(super) fn end(&mut self, number: u64) {
        self.count -= 1;
        if let Some(at) = self.large.iter().position(|(large, _)| *large == number) {
            self.bytes -= self.large.swap_remove(at).1;
        }
    }
}
