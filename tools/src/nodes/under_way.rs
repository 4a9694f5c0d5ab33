//! Output on its way to a node: so much at a time, whatever the node's process does.
//!
//! A thread that forwards output waits a moment for a node that falls behind, once. A node that takes nothing then gets
//! no more of it until it has caught up by half: it is stopped, and all that is printed would be held for it.
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most bytes that are on their way.
pub const MOST: usize = 16 << 20;
/// Time for a node to take some of them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Output on its way to one node.
#[derive(Default)]
pub struct UnderWay {
    state: Mutex<State>,
    less: Condvar,
}

#[derive(Default)]
struct State {
    bytes: usize,
    is_stuck: bool,
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes bytes that are to go. Returns false where the node is to do without them.
    pub fn take(&self, bytes: usize) -> bool {
        self.take_within(bytes, PATIENCE)
    }

    fn take_within(&self, bytes: usize, patience: Duration) -> bool {
        let is_too_much = |state: &mut State| bytes > 0 && state.bytes > 0 && state.bytes + bytes > MOST;
        let mut state = self.lock();
        if is_too_much(&mut state) && !state.is_stuck {
            let waited = self.less.wait_timeout_while(state, patience, is_too_much);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.is_stuck = is_too_much(&mut state);
        }
        let goes = !state.is_stuck || bytes == 0;
        state.bytes += if goes { bytes } else { 0 };
        goes
    }

    /// The node has taken bytes.
    pub fn give(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes -= bytes;
        state.is_stuck &= state.bytes > MOST / 2;
        drop(state);
        self.less.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_takes_nothing_is_waited_for_once_and_has_more_when_it_has_caught_up() {
        let way = UnderWay::default();
        assert!(way.take(MOST - 1) && way.take(1));
        assert!(!way.take_within(1, Duration::from_millis(1)));
        assert!(!way.take_within(1, Duration::from_secs(3600)), "nobody waits a second time");
        assert!(way.take(0), "the end of a stream has no bytes");
        way.give(1);
        assert!(!way.take_within(1, Duration::from_secs(3600)), "it has not caught up");
        way.give(MOST - 1);
        assert!(way.take(2 * MOST), "a piece alone may be as long as it likes");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| way.take_within(1, Duration::from_secs(60)));
            way.give(2 * MOST);
            assert!(waits.join().unwrap());
        });
    }
}
