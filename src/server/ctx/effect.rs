//! Effects: what a step in one room means to others.
//!
//! The router drains them in the order in which they were made, before anything is sent.
use super::ticket::Ticket;

/// Something that has to go on elsewhere.
#[derive(Debug)]
pub enum Effect {
    /// The host has answered at once.
    Returned(Ticket),
}
