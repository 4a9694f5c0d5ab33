//! Reasons why a process does not join its job by a stock server.
use std::io;

use crate::data::{Proc, Status};

/// Status of a server that is not ready yet, which stock libraries keep among themselves (`PMIX_ERR_TEMP_UNAVAILABLE`).
pub const NOT_READY: Status = Status(-1367);

/// Reason why a process does not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A variable cannot be used.
    #[error("the variable {name} {problem}")]
    Variable { name: &'static str, problem: &'static str },
    /// The server cannot be reached, or is none.
    #[error("{0}")]
    NotAvailable(String),
    /// The server has not answered within the time limit.
    #[error("the stock server does not answer in time")]
    TimedOut,
    /// The server does not want this process.
    #[error("the stock server refuses {proc}: {reason} ({status})")]
    Refused { proc: Proc, status: Status, reason: &'static str },
    /// The server does not want this tool.
    #[error("the stock server does not let this tool in ({0})")]
    NotAdmitted(Status),
    /// Another user listens where the server should.
    #[error("the stock server runs as user {found}; root or user {own} was expected")]
    Foreign { found: u32, own: u32 },
    /// The system refuses something.
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl JoinError {
    /// Returns whether the server asks to be asked again.
    pub fn is_too_early(&self) -> bool {
        matches!(self, JoinError::Refused { status: NOT_READY, .. } | JoinError::NotAdmitted(NOT_READY))
    }
}
