//! Effects: what a step in one room means to others.
//!
//! The router drains them in the order in which they were made, before anything is sent.
use super::event::{AfterRaise, Event, Origin};
use super::ticket::{Ticket, TrackerId};
use crate::data::{Key, Nspace, Proc, Status};

/// Something that has to go on elsewhere.
#[derive(Debug)]
pub enum Effect {
    /// A collective has a step to take.
    Collective,
    /// The tracker of a group's construct or destruct has ended.
    TrackerOver(TrackerId),
    /// Memory that readers of a job may have given back is looked through.
    Reclaim(Nspace),
    /// The host has answered at once.
    Returned(Ticket),
    /// A process has posted something, or a commit of it has failed.
    Posted {
        proc: Proc,
        /// Keys of what was posted, or was not stored; none where nobody waits for that process.
        keys: Vec<Key>,
    },
    /// An event is raised.
    Raise { event: Event, origin: Origin, then: AfterRaise },
    /// An event of a group has not reached everybody it is for.
    Unreached {
        group: Nspace,
        /// Number of the invitation that was open under that name when it was raised.
        number: Option<u64>,
        /// Code of the event.
        event: Status,
        /// Reason of the failure.
        failure: Status,
    },
    /// The host has started a job from another one.
    Spawned { parent: Nspace, child: Nspace },
    /// Input that has waited goes to the host, once its answer to the one before is in.
    InputReleased,
    /// A namespace is in the table of jobs from now on, or no more.
    JobListed(Nspace),
    /// A namespace was registered, as a child of another one where the host says so.
    JobRegistered { nspace: Nspace, parent: Option<Nspace> },
    /// A process of a namespace was registered.
    ClientRegistered(Nspace),
    /// A process has come as its rank, for the first time or anew.
    Joined { proc: Proc, anew: bool },
    /// A tool is gone, if the process was one.
    ToolLeft(Proc),
    /// A namespace that was registered for tools may have none left.
    ToolsChanged(Nspace),
}
