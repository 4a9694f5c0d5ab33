//! The first frame each way.
#![allow(missing_docs, reason = "rkyv's derive makes types without documentation; every item written here has its own")]

use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{Info, Nspace, Proc, Status};
use crate::message::DescriptorKind;

/// First frame of a client.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq)]
pub struct Hello {
    /// Process that it claims to be.
    pub proc: Proc,
    /// The job's token, from the environment that `setup_fork` made.
    pub token: [u8; 32],
    /// Version of the segments' layout that it can map; 0 when it looks up over the control plane only.
    pub layout: u32,
    /// Attributes that it gives of itself, for the host's `client_connected`.
    pub info: Vec<Info>,
}

impl std::fmt::Debug for Hello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token stays out of traces.
        f.debug_struct("Hello").field("proc", &self.proc).field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// First frame of a tool: it has no token, and may have no name yet.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Attach {
    /// The name it has or wants; without one, it is given one.
    pub proc: Option<Proc>,
    /// The server it means, where it knows that; another one refuses.
    pub server: Option<Nspace>,
    /// As in [`Hello`].
    pub layout: u32,
    /// Attributes that it gives of itself, for the host's `tool_connected`.
    pub info: Vec<Info>,
}

/// Answer of the server to the first frame, once its host has decided.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Welcome {
    /// The process is in.
    Accepted {
        /// The server's own name.
        server: Proc,
        /// Address of the server, as tools are told it.
        uri: String,
        /// Name of the process.
        proc: Proc,
        /// The descriptors that come with this frame, in order; empty when the client asked for none.
        parts: Vec<DescriptorKind>,
    },
    /// The process is not let in.
    Refused {
        /// The status for `PMIx_Init`.
        status: Status,
        /// Reason, for the client's trace.
        reason: String,
    },
}
