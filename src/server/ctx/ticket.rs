//! Tickets: what comes back to the router later, each with the number of the state that its room keeps for it.
use super::peers::Caller;
use crate::message::Reply;

/// The host's answer to something it was asked, or the result of a worker.
#[derive(Debug)]
pub enum Ticket {
    /// Answer that is the whole reply to a request.
    Reply(Caller, Reply),
    /// A clean-up has removed what it was to remove.
    Swept(u64),
}
