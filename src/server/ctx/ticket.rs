//! Tickets: what comes back to the router later, each with the number of the state that its room keeps for it.
use std::time::Duration;

use super::event::AfterRaise;
use super::ids::Caller;
pub use super::ids::TrackerId;
use crate::account::Charge;
use crate::data::{Nspace, Proc, Status};
use crate::message::door::{Making, PeerId};
use crate::message::{Infos, Reply};
use crate::store::{Draft, Move, WriteError};

/// A file's size, and when it was read and written last, in nanoseconds.
pub type FileState = [i128; 3];

/// The host's answer to something it was asked, or the result of a worker.
#[derive(Debug)]
pub enum Ticket {
    /// Answer that matters to nobody.
    Ignored,
    /// A thread has taken so much processor time for peers.
    Worked(Vec<PeerId>, Duration),
    /// The host has answered a fence that these peers have come to.
    Fence(TrackerId, Vec<PeerId>, Result<Vec<u8>, Status>),
    /// The host has brought what other nodes say to a fence that has failed here.
    FailedFence(u64, Result<Vec<u8>, Status>),
    /// The host has connected or disconnected processes, or not.
    Connect(TrackerId, Result<(), Status>),
    /// The host has answered a group's construct or destruct.
    Group(TrackerId, Result<Infos, Status>),
    /// The host has answered about a process that came alone to make a group.
    Single(u64, Result<Infos, Status>),
    /// The host has given the group of an invitation a context id, or not.
    InvitationContext(u64, Result<Infos, Status>),
    /// The host has said whether there is, or will be, a namespace that processes wait for.
    Awaited(Nspace, Result<(), Status>),
    /// Answer that is the whole reply to a request.
    Reply(Caller, Reply),
    /// Answer to a request that is still to be made.
    Made(Caller, Making),
    /// The host has brought what a process of another node has posted, or not; with the number of the request.
    DirectModex(Proc, u64, Result<Vec<u8>, Status>),
    /// A thread has read and encoded what a process has posted for other nodes, or cannot.
    Departed(u64),
    /// The host has let go of a copy of much data that a process of a job has posted.
    BlobGone(Nspace),
    /// The host has found what the look-up of this number asks for without a rank, or not.
    Unnamed(u64, Result<Vec<u8>, Status>),
    /// A thread has prepared this node's part of a fence.
    Contribution(TrackerId),
    /// A thread has prepared what members of a group bring.
    Bringing(TrackerId),
    /// A thread has prepared what a process brings that came alone to make a group.
    SingleBringing(u64),
    /// A thread has decoded data of other nodes, with the number of its absorption.
    Decoded(u64),
    /// A thread has worked at such data of one process.
    Written(u64),
    /// The host has answered a query, by its number.
    Query(u64, Result<Infos, Status>),
    /// A thread has taken a step of a large commit.
    Draft(u64, Box<Draft>, Result<(), WriteError>),
    /// A thread has taken a step of records that move.
    Move(u64, Box<Move>, Result<(), WriteError>),
    /// A thread has looked at the file of a monitor: its peer, its number, and the file's state where there is one.
    FileSeen(PeerId, u64, Option<FileState>),
    /// The host has registered event codes, or no longer watches for some.
    EventCodes(Result<(), Status>),
    /// The host has passed an event on to other nodes, or not.
    EventPassedOn {
        then: AfterRaise,
        /// True if a client's event has done its work here, even if the host cannot carry it on.
        heard: bool,
        result: Result<(), Status>,
    },
    /// The host has started a job, or not. The new one is tied to its parent, where there is one, and what the host keeps
    /// of it is charged.
    Spawned { caller: Caller, parent: Option<Nspace>, kept: Charge, result: Result<Nspace, Status> },
    /// The host has agreed to a pull of output, or not.
    OutputPull(u64, Result<(), Status>),
    /// The host has taken input of a process, or not.
    InputPushed(Caller, Proc, Result<(), Status>),
    /// The worker of that number has removed the paths of a clean-up.
    Removed(u64),
    /// The host's answer about a peer that comes as a rank.
    Admitted(PeerId, Result<(), Status>),
    /// The host's answer about a tool that comes, or was named here, as `own`: the name that the host gives it.
    ToolAdmitted { peer: PeerId, own: Proc, named: Result<Proc, Status> },
    /// The host's answer to the Finalize of a process.
    Farewell(Caller, Result<(), Status>),
}
