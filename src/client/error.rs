//! Errors of a client, for a person; and the one status of each, for the C caller.
use std::io;

use crate::control::frame::FrameError;
use crate::data::{Proc, Status};
#[cfg(feature = "server")]
use crate::upstream::JoinError;

/// Reason why a client could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// Nobody launched this process: no variable of a launcher is set. It can still be a job of its own,
    /// [`Client::singleton`](super::Client::singleton).
    #[error("no launcher has started this process")]
    Singleton,
    /// A launcher has, but none of its doors opens.
    #[error("no server can be reached: {0}")]
    NotAvailable(String),
    /// The server has not answered within the time limit (`PMIX_TIMEOUT`).
    #[error("the server does not answer in time")]
    TimedOut,
    /// There is no server where a tool has looked for one.
    #[error("no server for this tool: {0}")]
    NoServer(String),
    /// A server does not want this tool.
    #[error("the server refuses this tool: {reason} ({status})")]
    NotAdmitted {
        /// The status it gave.
        status: Status,
        /// The reason it gave.
        reason: String,
    },
    /// An attribute makes no sense, by itself or beside another one.
    #[error("{0}")]
    Directive(String),
    /// A variable of the launcher cannot be used.
    #[error("the variable {name} {problem}")]
    Environment {
        /// Name of the variable.
        name: &'static str,
        /// Fault of the variable.
        problem: String,
    },
    /// The server does not want this process.
    #[error("the server of {proc} refuses: {reason} ({status})")]
    Refused {
        /// Process that has asked.
        proc: Proc,
        /// The status it gave.
        status: Status,
        /// The reason it gave.
        reason: String,
    },
    /// The server belongs to somebody who may not be trusted with this job.
    #[error("the server runs as user {found}; root, user {own} or user {named} was expected")]
    ForeignServer {
        /// Its user.
        found: u32,
        /// This process's user.
        own: u32,
        /// The user that the address names.
        named: u32,
    },
    /// The server's answer is no handshake.
    #[error("the handshake failed: {0}")]
    Handshake(#[from] FrameError),
    /// A directive that is required is not supported.
    #[error("the required attribute {0} is not supported")]
    NotSupported(String),
    /// The system refused.
    #[error("{what}: {source}")]
    System {
        /// Operation that was tried.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}

#[cfg(feature = "server")]
impl From<JoinError> for InitError {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Variable { name, problem } => InitError::Environment { name, problem: problem.into() },
            JoinError::NotAvailable(problem) => InitError::NotAvailable(problem),
            JoinError::TimedOut => InitError::TimedOut,
            JoinError::Refused { proc, status, reason } => InitError::Refused { proc, status, reason: reason.into() },
            JoinError::NotAdmitted(status) => {
                InitError::NotAdmitted { status, reason: "the stock server gives no reason".into() }
            }
            JoinError::Foreign { found, own } => InitError::ForeignServer { found, own, named: own },
            JoinError::System { what, source } => InitError::System { what, source },
        }
    }
}

impl InitError {
    /// The status for `PMIx_Init`.
    pub fn status(&self) -> Status {
        match self {
            InitError::Singleton => Status::ERR_UNREACH,
            InitError::NotAvailable(_) => Status::ERR_SERVER_NOT_AVAIL,
            InitError::TimedOut => Status::ERR_TIMEOUT,
            InitError::NoServer(_) => Status::ERR_UNREACH,
            InitError::Environment { .. } => Status::ERR_SERVER_NOT_AVAIL,
            InitError::Refused { status, .. } | InitError::NotAdmitted { status, .. } => *status,
            InitError::Directive(_) => Status::ERR_BAD_PARAM,
            InitError::ForeignServer { .. } => Status::ERR_INVALID_CRED,
            InitError::Handshake(_) => Status::ERR_HANDSHAKE_FAILED,
            InitError::NotSupported(_) => Status::ERR_NOT_SUPPORTED,
            InitError::System { .. } => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// After the last finalize, or in a forked child that has not initialised itself.
    #[error("the client is not initialised")]
    NotInitialized,
    /// A call that waits was made from a callback; the thread that would have to end the wait is the one that calls.
    #[error("{call} would wait for ever: it was called from a callback")]
    WouldBlock {
        /// Call that would wait.
        call: &'static str,
    },
    /// The server is gone.
    #[error("the connection to the server is lost")]
    LostConnection,
    /// The process is a job of its own and has no server to ask.
    #[error("{call} needs a server, and this process has none")]
    NoServer {
        /// Call that needs a server.
        call: &'static str,
    },
    /// A request cannot be put into a frame.
    #[error("the request cannot be sent: {0}")]
    Request(#[from] FrameError),
    /// A rule of the Standard, or the server's or the host's answer.
    #[error("{0}")]
    Status(#[from] Status),
}

impl Error {
    /// The status for the caller.
    pub fn status(&self) -> Status {
        match self {
            Error::NotInitialized => Status::ERR_INIT,
            Error::WouldBlock { .. } => Status::ERR_WOULD_BLOCK,
            Error::LostConnection => Status::ERR_LOST_CONNECTION,
            Error::NoServer { .. } => Status::ERR_UNREACH,
            Error::Request(_) => Status::ERR_OUT_OF_RESOURCE,
            Error::Status(status) => *status,
        }
    }
}
