//! Event subscriptions: which peer wants to hear of which codes.
use std::collections::{BTreeMap, BTreeSet};

use crate::account::{Account, Charge, Kind};
use crate::data::Status;
use crate::message::door::PeerId;

/// Bytes that a code of a peer counts for.
const OF_CODE: usize = 64;

/// Codes that one peer wants to hear of.
#[derive(Debug, Default)]
struct Subscription {
    /// True if it wants all events that are not `PMIX_EVENT_NON_DEFAULT`.
    all: bool,
    codes: BTreeSet<i32>,
    /// Charge for the codes.
    charge: Option<Charge>,
}

impl Subscription {
    /// Charges the peer for its codes, of which there are no more than before.
    fn settle(&mut self) {
        if let Some(charge) = &mut self.charge {
            let is_less = charge.resize(Kind::Event, self.codes.len() * OF_CODE);
            debug_assert!(is_less, "what was held is given back");
        }
    }
}

/// Subscriptions of all peers.
#[derive(Debug, Default)]
pub struct Subscriptions {
    by_peer: BTreeMap<PeerId, Subscription>,
    /// Number of peers that have registered each code.
    wanted: BTreeMap<i32, usize>,
}

impl Subscriptions {
    /// Counts the codes that a peer has registered.
    pub fn count(&self, peer: PeerId) -> usize {
        self.by_peer.get(&peer).map_or(0, |wanted| wanted.codes.len())
    }

    /// Charges a peer for codes that it is about to register; returns false where its account has no room.
    pub fn charge(&mut self, peer: PeerId, account: &Account, codes: &[Status]) -> bool {
        let bytes = (self.count(peer) + codes.len()) * OF_CODE;
        if codes.is_empty() {
            return true;
        }
        let known = self.by_peer.get_mut(&peer);
        if let Some(charge) = known.and_then(|wanted| wanted.charge.as_mut()) {
            return charge.resize(Kind::Event, bytes);
        }
        let charge = account.charge(Kind::Event, bytes);
        let has_room = charge.is_some();
        if has_room {
            self.by_peer.entry(peer).or_default().charge = charge;
        }
        has_room
    }

    /// Adds codes to a peer's subscription; default handlers where none is named.
    pub fn add(&mut self, peer: PeerId, codes: &[Status]) {
        let wanted = self.by_peer.entry(peer).or_default();
        wanted.all |= codes.is_empty();
        for code in codes {
            if wanted.codes.insert(code.0) {
                *self.wanted.entry(code.0).or_default() += 1;
            }
        }
        wanted.settle();
    }

    /// Returns whether a peer has registered that very code.
    pub fn wants(&self, peer: PeerId, code: Status) -> bool {
        self.by_peer.get(&peer).is_some_and(|wanted| wanted.codes.contains(&code.0))
    }

    /// Returns whether any peer has registered that code.
    pub fn is_wanted(&self, code: i32) -> bool {
        self.wanted.contains_key(&code)
    }

    /// Returns the peers that hear of an event: one for default handlers too, or only for those of that code.
    pub fn hearers(&self, code: Status, default_too: bool) -> impl Iterator<Item = PeerId> {
        let hears = move |wanted: &Subscription| wanted.codes.contains(&code.0) || wanted.all && default_too;
        self.by_peer.iter().filter(move |(_, wanted)| hears(wanted)).map(|(peer, _)| *peer)
    }

    /// Takes codes out of a peer's subscription; all default handlers where none is named. Returns the codes that
    /// nobody wants any more.
    pub fn remove(&mut self, peer: PeerId, codes: &[Status]) -> Vec<i32> {
        let Some(wanted) = self.by_peer.get_mut(&peer) else { return Vec::new() };
        wanted.all &= !codes.is_empty();
        let taken: Vec<i32> = codes.iter().map(|code| code.0).filter(|code| wanted.codes.remove(code)).collect();
        wanted.settle();
        if !wanted.all && wanted.codes.is_empty() {
            self.by_peer.remove(&peer);
        }
        self.release(taken)
    }

    /// Forgets a peer. Returns the codes that nobody wants any more; nothing where it had not subscribed to anything.
    pub fn forget(&mut self, peer: PeerId) -> Option<Vec<i32>> {
        let gone = self.by_peer.remove(&peer)?;
        Some(self.release(gone.codes.into_iter().collect()))
    }

    /// Counts codes down of which a peer is gone, and returns those that have no other one.
    fn release(&mut self, mut codes: Vec<i32>) -> Vec<i32> {
        codes.retain(|code| match self.wanted.get_mut(code) {
            Some(peers) if *peers > 1 => {
                *peers -= 1;
                false
            }
            _ => self.wanted.remove(code).is_some(),
        });
        codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_released_with_the_last_peer_that_wants_it() {
        let [a, b] = [1, 2].map(|connection| PeerId { door: 0, connection });
        let codes = [-1, -2, -3].map(Status);
        let mut subscriptions = Subscriptions::default();
        subscriptions.add(a, &codes);
        subscriptions.add(a, &codes);
        subscriptions.add(b, &codes[..1]);
        assert_eq!((subscriptions.count(a), subscriptions.count(b)), (3, 1));
        assert_eq!(subscriptions.remove(a, &[codes[0], codes[1], codes[1]]), [-2]);
        assert!(subscriptions.remove(a, &codes[..1]).is_empty(), "another one wants it");
        assert!(subscriptions.remove(a, &codes[..1]).is_empty(), "it has it no more");
        assert!(subscriptions.is_wanted(-1) && !subscriptions.is_wanted(-2));
        assert_eq!(subscriptions.forget(b), Some(vec![-1]));
        assert_eq!(subscriptions.forget(b), None);
        assert_eq!(subscriptions.forget(a), Some(vec![-3]));
        assert!(subscriptions.by_peer.is_empty() && subscriptions.wanted.is_empty());
    }
}
