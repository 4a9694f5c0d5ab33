//! Slices: long work of rooms, done a little at a time between the turns of others.
//!
//! A room that has more to do than others should wait for keeps the rest as its own state, and asks for a slice by that
//! state's number. The reactor has the router run one slice a turn, the oldest first. A step that takes several slices
//! ends as any step does: with an answer, or with nothing where its caller is gone.
use super::Ctx;
use super::ids::TrackerId;

/// Work that goes on, with the number of the state that its room keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// A large commit is made known.
    Commit(u64),
    /// Data of other nodes is taken in.
    Absorption(u64),
    /// Look-ups are answered that wait for one thing.
    Gets,
    /// Data that members give for a group is stored.
    Construct(TrackerId),
    /// Data that members give for a group that they came to alone is stored.
    Assembly(u64),
    /// Collectives go on without a process that has died, or fail.
    Loss(u64),
    /// A process's data is read for other nodes.
    Departure(u64),
    /// Records of a job move.
    Move(u64),
    /// Groups hear of the death of a member.
    Farewell(u64),
}

impl Ctx {
    /// Asks for a slice, after those that were asked for before.
    pub fn slice(&mut self, slice: Slice) {
        self.slices.push_back(slice);
    }
}
