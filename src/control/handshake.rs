//! The first frame each way.
#![allow(missing_docs, reason = "rkyv's derive makes types without documentation; every item written here has its own")]

use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{Info, Nspace, Proc, Status};
use crate::message::Part;

/// What a client says first.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq)]
pub struct Hello {
    /// Who it is.
    pub proc: Proc,
    /// The job's token, from the environment that `setup_fork` made.
    pub token: [u8; 32],
    /// Whether it can map segments, and of which layout version; 0 when it looks up over the control plane only.
    pub layout: u32,
    /// What it says of itself, for the host's `client_connected`.
    pub info: Vec<Info>,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token stays out of traces.
        f.debug_struct("Hello").field("proc", &self.proc).field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// What a tool says first: it has no token, and may have no name yet.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Attach {
    /// The name it has or wants; without one, it is given one.
    pub proc: Option<Proc>,
    /// The server it means, where it knows that; another one refuses.
    pub server: Option<Nspace>,
    /// As in [`Hello`].
    pub layout: u32,
    /// What it says of itself, for the host's `tool_connected`.
    pub info: Vec<Info>,
}

/// What the server answers once its host has agreed.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Welcome {
    /// The process is in.
    Accepted {
        /// The server's own name.
        server: Proc,
        /// Where the server is, as tools are told.
        uri: String,
        /// Who the process is.
        proc: Proc,
        /// The descriptors that come with this frame, in order; empty when the client asked for none.
        parts: Vec<Part>,
    },
    /// It is not.
    Refused {
        /// The status for `PMIx_Init`.
        status: Status,
        /// Why, for the client's trace.
        reason: String,
    },
}
