//! Effects: what a step in one room means to others.
//!
//! The router drains them in the order in which they were made, before anything is sent.
use super::event::{AfterRaise, Event, Origin};
use super::ticket::{Ticket, TrackerId};
use crate::data::{Nspace, Proc, Status};

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
    Posted(Proc),
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
}
