//! Event subscriptions: which peer wants to hear of which codes.
use std::collections::{BTreeMap, BTreeSet};

use crate::collect_small::collect_small;
use crate::data::Status;
use crate::message::door::PeerId;

/// Codes that one peer wants to hear of.
#[derive(Debug, Default)]
pub struct Subscription {
    /// True if it wants all events that are not `PMIX_EVENT_NON_DEFAULT`.
    pub all: bool,
    pub codes: BTreeSet<i32>,
}

/// Subscriptions of all peers.
#[derive(Debug, Default)]
pub struct Subscriptions {
    by_peer: BTreeMap<PeerId, Subscription>,
}

impl Subscriptions {
    /// The subscription of a peer, which begins empty.
    pub fn entry(&mut self, peer: PeerId) -> &mut Subscription {
        self.by_peer.entry(peer).or_default()
    }

    /// Returns whether a peer has registered that very code.
    pub fn wants(&self, peer: PeerId, code: Status) -> bool {
        self.by_peer.get(&peer).is_some_and(|wanted| wanted.codes.contains(&code.0))
    }

    /// Returns whether a peer hears of an event: one for default handlers too, or only for those of that code.
    pub fn hearers(&self, code: Status, default_too: bool) -> impl Iterator<Item = PeerId> {
        let hears = move |wanted: &Subscription| wanted.codes.contains(&code.0) || wanted.all && default_too;
        self.by_peer.iter().filter(move |(_, wanted)| hears(wanted)).map(|(peer, _)| *peer)
    }

    /// Takes codes out of a peer's subscription; all default handlers where none is named.
    pub fn remove(&mut self, peer: PeerId, codes: &[Status]) {
        if let Some(wanted) = self.by_peer.get_mut(&peer) {
            wanted.all &= !codes.is_empty();
            wanted.codes.retain(|code| !codes.contains(&Status(*code)));
            if !wanted.all && wanted.codes.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
    }

    /// Forgets a peer; says whether it had subscribed to anything.
    pub fn forget(&mut self, peer: PeerId) -> bool {
        self.by_peer.remove(&peer).is_some()
    }

    /// Every code that some peer has registered.
    pub fn codes(&self) -> BTreeSet<i32> {
        collect_small(self.by_peer.values().flat_map(|wanted| wanted.codes.iter().copied()))
    }
}
