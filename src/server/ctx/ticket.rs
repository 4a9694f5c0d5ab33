//! Tickets: what comes back to the router later, each with the number of the state that its room keeps for it.
use super::event::AfterRaise;
use super::peers::Caller;
use crate::data::Status;
use crate::message::Reply;

/// The host's answer to something it was asked, or the result of a worker.
#[derive(Debug)]
pub enum Ticket {
    /// Answer that is the whole reply to a request.
    Reply(Caller, Reply),
    /// A clean-up has removed what it was to remove.
    Swept(u64),
    /// The host has registered event codes, or no longer watches for some.
    EventCodes(Result<(), Status>),
    /// The host has passed an event on to other nodes, or not.
    EventPassedOn {
        then: AfterRaise,
        /// Whether a client's event has done its work here, even if the host cannot carry it on.
        heard: bool,
        result: Result<(), Status>,
    },
}
