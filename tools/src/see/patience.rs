//! Patience with servers that do not answer: those of another user have the time of one together, or whoever likes could
//! keep root from looking into anything, by sockets that are called as a server's.
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time that a server has for one answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Time after which a user's servers are waited for again.
const FORGIVEN: Duration = Duration::from_secs(60);

/// Owner of a server, by the kernel's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Our user's, or it was named.
    #[default]
    Own,
    /// Another user's.
    Others(u32),
    /// Nobody knows: as many wait at its door as may.
    Unknown,
}

/// Time that was waited in vain, and when that began.
#[derive(Debug)]
struct Spent(Vec<(Whose, Duration, Instant)>);

static SPENT: Mutex<Spent> = Mutex::new(Spent(Vec::new()));

/// Returns the time that is left for a server.
pub fn left(whose: Whose) -> Duration {
    SPENT.lock().unwrap_or_else(PoisonError::into_inner).left(whose, Instant::now())
}

/// Counts time that was waited for a server in vain.
pub fn spend(whose: Whose, time: Duration) {
    SPENT.lock().unwrap_or_else(PoisonError::into_inner).spend(whose, time, Instant::now());
}

impl Spent {
    fn left(&mut self, whose: Whose, now: Instant) -> Duration {
        self.0.retain(|(_, _, since)| now.duration_since(*since) < FORGIVEN);
        let spent = self.0.iter().find(|(of, ..)| *of == whose);
        PATIENCE.saturating_sub(spent.map_or(Duration::ZERO, |(_, spent, _)| *spent))
    }

    fn spend(&mut self, whose: Whose, time: Duration, now: Instant) {
        match self.0.iter_mut().find(|(of, ..)| *of == whose) {
            _ if whose == Whose::Own => {}
            Some((_, spent, _)) => *spent += time,
            None => self.0.push((whose, time, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_another_user_have_the_time_of_one_together() {
        let (mut spent, now) = (Spent(Vec::new()), Instant::now());
        for whose in [Whose::Others(1), Whose::Unknown, Whose::Own] {
            spent.spend(whose, PATIENCE / 2, now);
            spent.spend(whose, PATIENCE, now);
        }
        let left = |spent: &mut Spent, at| {
            [Whose::Others(1), Whose::Unknown, Whose::Others(2), Whose::Own].map(|whose| spent.left(whose, at))
        };
        assert_eq!(left(&mut spent, now), [Duration::ZERO, Duration::ZERO, PATIENCE, PATIENCE]);
        assert_eq!(left(&mut spent, now + FORGIVEN), [PATIENCE; 4]);
    }
}
