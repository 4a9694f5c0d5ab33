//! Votes: connections that still have to decide about an event of a group.
//!
//! A vote is opened for an event among the connections of this node that hear of it. Its number goes out with the event
//! and comes back with the decision of each connection's handlers. Nothing is made of the [subject](Subject) before all
//! its votes are closed; a connection that is gone does not decide any more.
use std::collections::{BTreeMap, BTreeSet};

use crate::by_number::ByNumber;
use crate::collect_small::collect_small;
use crate::data::{Nspace, Proc};
use crate::message::door::PeerId;
use crate::server::ctx::ticket::TrackerId;

/// The matter that a vote is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A group under construction.
    Construct(TrackerId),
    /// An invitation, by its number.
    Invitation(u64),
    /// A poll for a server on another node, by the group and the dead process.
    Poll(Nspace, Proc),
}

#[derive(Debug)]
struct Vote {
    subject: Subject,
    undecided: BTreeSet<PeerId>,
}

/// The votes that are open.
#[derive(Debug, Default)]
pub struct Votes {
    open: ByNumber<u64, Vote>,
    by_subject: BTreeMap<Subject, BTreeSet<u64>>,
    by_peer: BTreeMap<PeerId, BTreeSet<u64>>,
    last: u64,
}

impl Votes {
    /// Opens a vote among these connections and returns its number; none where there is nobody to decide.
    pub fn open(&mut self, subject: Subject, among: impl IntoIterator<Item = PeerId>) -> Option<u64> {
        let undecided: BTreeSet<PeerId> = collect_small(among);
        if undecided.is_empty() {
            return None;
        }
        self.last += 1;
        for peer in &undecided {
            self.by_peer.entry(*peer).or_default().insert(self.last);
        }
        self.by_subject.entry(subject.clone()).or_default().insert(self.last);
        self.open.insert(self.last, Vote { subject, undecided });
        Some(self.last)
    }

    /// Returns whether anybody has still to decide about a subject.
    pub fn is_open(&self, subject: &Subject) -> bool {
        self.by_subject.contains_key(subject)
    }

    /// Counts the decision of a connection. Returns the subject; nothing where the connection had none to make.
    pub fn cast(&mut self, number: u64, peer: PeerId) -> Option<Subject> {
        let vote = self.open.get_mut(&number)?;
        if !vote.undecided.remove(&peer) {
            return None;
        }
        let subject = vote.subject.clone();
        forget(&mut self.by_peer, &peer, number);
        if vote.undecided.is_empty() {
            self.open.remove(&number);
            forget(&mut self.by_subject, &subject, number);
        }
        Some(subject)
    }

    /// Takes a connection out of all votes. Returns what they are about.
    pub fn withdraw(&mut self, peer: PeerId) -> BTreeSet<Subject> {
        let numbers = self.by_peer.get(&peer).cloned().unwrap_or_default();
        collect_small(numbers.into_iter().filter_map(|number| self.cast(number, peer)))
    }

    /// Closes all votes about a subject: it is over.
    pub fn close(&mut self, subject: &Subject) {
        for number in self.by_subject.remove(subject).unwrap_or_default() {
            for peer in self.open.remove(&number).map(|vote| vote.undecided).unwrap_or_default() {
                forget(&mut self.by_peer, &peer, number);
            }
        }
    }
}

fn forget<K: Ord>(index: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, number: u64) {
    if let Some(numbers) = index.get_mut(key) {
        numbers.remove(&number);
        if numbers.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(connection: u64) -> PeerId {
        PeerId { door: 0, connection }
    }

    #[test]
    fn a_subject_is_open_until_each_has_decided_about_each_event() {
        let (mut votes, subject) = (Votes::default(), Subject::Invitation(1));
        assert_eq!(votes.open(subject.clone(), []), None);
        let first = votes.open(subject.clone(), [peer(1), peer(2)]).unwrap();
        let second = votes.open(subject.clone(), [peer(1)]).unwrap();
        assert_eq!(votes.cast(first, peer(1)), Some(subject.clone()));
        assert_eq!(votes.cast(first, peer(1)), None, "it has decided");
        assert_eq!(votes.cast(first, peer(3)), None, "nobody has asked it");
        assert_eq!(votes.cast(first, peer(2)), Some(subject.clone()));
        assert!(votes.is_open(&subject), "the second event is undecided");
        assert_eq!(votes.cast(second, peer(1)), Some(subject.clone()));
        assert!(!votes.is_open(&subject));
    }

    #[test]
    fn a_connection_that_is_gone_decides_nothing() {
        let (mut votes, construct) = (Votes::default(), Subject::Construct(TrackerId(4)));
        let group = Nspace::new("g").unwrap();
        let poll = Subject::Poll(group.clone(), Proc::new(group, crate::data::Rank(0)));
        votes.open(construct.clone(), [peer(1), peer(2)]);
        votes.open(poll.clone(), [peer(1)]);
        assert_eq!(votes.withdraw(peer(1)), BTreeSet::from([construct.clone(), poll.clone()]));
        assert!(votes.is_open(&construct) && !votes.is_open(&poll));
        votes.close(&construct);
        assert!(!votes.is_open(&construct) && votes.by_peer.is_empty() && votes.open.is_empty());
    }
}
