//! Shortage: the time in which a process has no descriptor left for those who come to a door.
//!
//! They wait in the kernel's queue, because a shortage is short where many come and go. A connection that has waited
//! for as long as anybody may take to say who it is, is refused: a descriptor that the door keeps in reserve lets it
//! in, and the end of the connection tells it more than silence does. The trace says once when a shortage begins, and
//! once when it is over.
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use super::lobby::HANDSHAKE_DEADLINE;
use crate::trace;

/// Time between two looks for descriptors.
pub const PAUSE: Duration = Duration::from_millis(100);

/// The shortage of a door, if there is one, and its reserve.
pub struct Shortage {
    /// Time at which it began, and those who were refused since.
    since: Option<(Instant, u64)>,
    reserve: Option<File>,
}

impl Shortage {
    /// No shortage yet. Without a descriptor to reserve nobody is refused, and all wait.
    pub fn none() -> Self {
        Shortage { since: None, reserve: reserve() }
    }

    /// Nobody can be accepted for this reason. Returns whether the next one who waits is to be refused, for which the
    /// reserve is free until [`refused`](Self::refused).
    pub fn begin_or_go_on(&mut self, now: Instant, why: &io::Error) -> bool {
        let (since, _) = *self.since.get_or_insert_with(|| {
            trace!("nobody can be let in, for now: {why}");
            (now, 0)
        });
        let is_long = now.saturating_duration_since(since) >= HANDSHAKE_DEADLINE;
        is_long && self.reserve.take().is_some()
    }

    /// A connection that waited was refused, or had gone.
    pub fn refused(&mut self, was_there: bool) {
        if let Some((_, refused)) = &mut self.since {
            *refused += u64::from(was_there);
        }
        self.reserve = reserve();
    }

    /// Somebody was accepted, or nobody waits any more.
    #[inline]
    pub fn end(&mut self) {
        if let Some((since, refused)) = self.since.take() {
            trace!("whoever comes is let in again, after {} ms; {refused} were refused", since.elapsed().as_millis());
        }
        if self.reserve.is_none() {
            self.reserve = reserve();
        }
    }
}

fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_waits_at_first_and_is_refused_when_the_shortage_lasts() {
        let (now, why) = (Instant::now(), io::Error::from_raw_os_error(libc::EMFILE));
        let mut shortage = Shortage::none();
        let after = |shortage: &mut Shortage, ms| {
            let refuses = shortage.begin_or_go_on(now + Duration::from_millis(ms), &why);
            assert_eq!(refuses, shortage.reserve.is_none());
            refuses
        };
        assert!(!after(&mut shortage, 0) && !after(&mut shortage, 9_900));
        for _ in 0..3 {
            assert!(after(&mut shortage, 10_000));
            shortage.refused(true);
        }
        assert_eq!(shortage.since, Some((now, 3)));
        shortage.end();
        assert!(shortage.reserve.is_some() && !after(&mut shortage, 20_000), "another one begins");
    }
}
