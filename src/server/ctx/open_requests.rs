//! Requests of one peer that have no answer yet.
//!
//! Every request is charged to its process's [account](crate::account) when it arrives, and given back with its answer, here and
//! nowhere else.
use std::collections::BTreeMap;
use std::time::Instant;

use crate::account::{Account, Charge, Kind};

/// Requests that may wait for an answer at a time.
const MAX_OPEN: usize = 65536;
/// Requests that are promised to every peer, however much its job holds: it can meet others, and end.
const PROMISED: usize = 64;
/// Size of those.
const SMALL: usize = 4 << 10;
/// Bytes that a request takes beside its own: a Get that waits is in six tables.
const OVERHEAD: usize = 1 << 10;

/// Purpose of a request, for who wants to know why it waits.
#[derive(Debug)]
pub struct Asked {
    /// Kind of the call, as [`Request::kind`](crate::message::Request::kind) names it.
    pub call: &'static str,
    /// The key, the group or the program that it is about; empty for none.
    pub subject: String,
    /// Time at which it came.
    pub since: Instant,
}

/// A request that waits.
#[derive(Debug)]
struct Open {
    /// Given back with the answer.
    _charge: Charge,
    asked: Option<Asked>,
}

/// Open requests, and the account that they are charged to.
#[derive(Debug)]
pub struct OpenRequests {
    account: Account,
    open: usize,
    /// Number of requests that have come.
    taken: u64,
    /// Requests by number, which the peer chooses: all but the short ones of a fence.
    charged: BTreeMap<u64, Open>,
    /// Count of releases that the peer saw when it last began to wait at its job's word.
    seen_at_word: Option<u32>,
}

impl OpenRequests {
    /// No request, and an account for those to come.
    pub fn of(account: Account) -> Self {
        OpenRequests { account, open: 0, taken: 0, charged: BTreeMap::new(), seen_at_word: None }
    }

    /// The account of the peer's process.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Opens a request that holds so many bytes. Returns whether it may wait; an answer it gets either way.
    pub fn open(&mut self, number: u64, bytes: usize) -> bool {
        self.open += 1;
        self.taken += 1;
        let charge = match bytes < SMALL && self.open <= PROMISED {
            true => Some(self.account.force(Kind::Request, bytes + OVERHEAD)),
            false => self.account.charge(Kind::Request, bytes.saturating_add(OVERHEAD)),
        };
        let has_room = charge.is_some() && self.open <= MAX_OPEN;
        if let Some(charge) = charge {
            self.charged.insert(number, Open { _charge: charge, asked: None });
        }
        has_room
    }

    /// Opens a request that holds nothing worth a charge, or is answered at once. Returns whether it may wait.
    pub fn open_briefly(&mut self) -> bool {
        self.open += 1;
        self.taken += 1;
        self.open <= MAX_OPEN
    }

    /// Number of requests that have come so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Notes the purpose of an open request.
    pub fn note(&mut self, number: u64, asked: Asked) {
        if let Some(open) = self.charged.get_mut(&number) {
            open.asked = Some(asked);
        }
    }

    /// The purpose of an open request, as far as that was noted.
    pub fn asked(&self, number: u64) -> Option<&Asked> {
        self.charged.get(&number)?.asked.as_ref()
    }

    /// The open requests of which that was noted, by number.
    pub fn noted(&self) -> impl Iterator<Item = (u64, &Asked)> {
        self.charged.iter().filter_map(|(number, open)| Some((*number, open.asked.as_ref()?)))
    }

    /// Returns whether a request of that number waits with a charge: another one must not be taken for it.
    pub fn has(&self, number: u64) -> bool {
        self.charged.contains_key(&number)
    }

    /// Returns whether a short request may wait without a look at its number.
    pub fn is_simple(&self) -> bool {
        self.open < MAX_OPEN && self.charged.is_empty()
    }

    /// Notes that the peer waits at its job's word, which has told it of so many releases. It waits for one thing there
    /// at a time.
    pub fn wait_at_word(&mut self, seen: u32) {
        self.seen_at_word = Some(seen);
    }

    /// Returns whether the peer may sleep at its job's word, after so many releases. One that was answered by a message
    /// may not have read that yet.
    pub fn may_sleep_at_word(&self, releases: u32) -> bool {
        self.seen_at_word == Some(releases)
    }

    /// Gives back the charge of a request that was answered.
    pub fn close(&mut self, number: u64) {
        self.open -= 1;
        if !self.charged.is_empty() {
            self.charged.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_charged_until_they_are_answered() {
        let account = Account::of_job("job", 1 << 20);
        let mut open = OpenRequests::of(account.clone());
        assert!(open.open(1, 100_000) && open.has(1) && !open.is_simple());
        assert_eq!(account.used(), 100_000 + OVERHEAD as u64);
        assert!(!open.open(2, 1 << 20), "over the limit");
        (1..=2).for_each(|number| open.close(number));
        assert!(open.is_simple());
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn a_few_short_requests_are_never_refused() {
        let account = Account::of_job("job", 10);
        let mut open = OpenRequests::of(account.clone());
        assert!((0..PROMISED as u64).all(|number| open.open(number, 100)));
        assert!(!open.open(PROMISED as u64, 100) && !open.open(1000, SMALL));
        drop(open);
        assert_eq!(account.used(), 0);
    }
}
