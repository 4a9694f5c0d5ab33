//! Numbers by which rooms and the context name what they keep.
use crate::message::door::PeerId;

/// The request that an answer goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub peer: PeerId,
    pub number: u64,
}

/// Number of a collective's tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackerId(pub u64);
