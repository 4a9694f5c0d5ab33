//! Peers: connections that have said who they are.
pub use super::ids::Caller;
use super::open_requests::OpenRequests;
use super::timers::TimerId;
use crate::account::{Account, Charge};
use crate::data::Proc;
use crate::message::door::{Arrival, Capabilities, PeerId};

/// Peer that stands for the embedding program; there is no such door.
pub const PROGRAM: PeerId = PeerId { door: u8::MAX, connection: 0 };

/// Relation of a connection to its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not decided yet.
    Asking,
    /// The peer is the rank.
    Rank,
    /// The peer is a process that the rank has forked.
    Clone,
    /// The peer is the program that embeds the server, and no rank.
    Program,
}

/// A connection that has said who it is.
#[derive(Debug)]
pub struct Peer {
    pub proc: Proc,
    pub role: Role,
    /// Abilities, as its door knows them.
    pub capabilities: Capabilities,
    /// Requests that have no answer yet.
    pub requests: OpenRequests,
    /// Charge for the connection itself, once it is let in.
    pub place: Option<Charge>,
    /// True if it was told of a failure that it had not asked about, and of nothing after.
    pub has_bad_news: bool,
    /// Its claim, until it is in.
    pub arrival: Option<Arrival>,
    /// Deadline of the host's answer about it.
    pub limit: Option<TimerId>,
    /// Number of its Finalize, once it has said that.
    pub leaving: Option<u64>,
}

impl Peer {
    /// A connection in a role, without an open request. Its requests are charged to nobody until it is let in.
    pub fn new(proc: Proc, role: Role, arrival: Option<Arrival>) -> Self {
        let capabilities = arrival.as_ref().map(|arrival| arrival.capabilities).unwrap_or_default();
        Peer {
            proc,
            role,
            capabilities,
            requests: OpenRequests::of(Account::unlimited()),
            place: None,
            has_bad_news: false,
            arrival,
            limit: None,
            leaving: None,
        }
    }
}
