//! Requests that the host answers: the server adds who asks, passes them on, and brings back what the host says.
use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{App, Info, Proc, Query, ResourceUnit, Status, Text};

/// Request of a client to the host.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Forward {
    /// Publish data (`PMIx_Publish`).
    Publish {
        /// The data, and attributes that say how it is to be published.
        info: Vec<Info>,
    },
    /// Look published data up (`PMIx_Lookup`). Answered by [`Reply::Published`](super::Reply::Published).
    Lookup {
        /// Under which keys.
        keys: Vec<Text>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Take published data back (`PMIx_Unpublish`).
    Unpublish {
        /// Under which keys; none means all that the client has published.
        keys: Vec<Text>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Start a job (`PMIx_Spawn`). Answered by [`Reply::Spawned`](super::Reply::Spawned).
    Spawn {
        /// Attributes of the whole job.
        job_info: Vec<Info>,
        /// Applications to run.
        apps: Vec<App>,
    },
    /// Ask something (`PMIx_Query_info`). Answered by [`Reply::Infos`](super::Reply::Infos).
    Query {
        /// Questions.
        queries: Vec<Query>,
    },
    /// Log something (`PMIx_Log`).
    Log {
        /// Texts, each with its channel.
        data: Vec<Info>,
        /// Attributes.
        directives: Vec<Info>,
    },
    /// Change an allocation (`PMIx_Allocation_request`). Answered by [`Reply::Infos`](super::Reply::Infos).
    Allocate {
        /// A `constants::alloc_directive`.
        directive: u8,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Monitor the caller (`PMIx_Process_monitor`). Answered by [`Reply::Infos`](super::Reply::Infos).
    Monitor {
        /// Attribute that names the subject of the monitor.
        monitor: Info,
        /// The event to raise when it stalls.
        error: Status,
        /// Attributes.
        directives: Vec<Info>,
    },
    /// Make a credential (`PMIx_Get_credential`). Answered by [`Reply::Credential`](super::Reply::Credential).
    GetCredential {
        /// Attributes.
        directives: Vec<Info>,
    },
    /// Judge a credential (`PMIx_Validate_credential`). Answered by [`Reply::Infos`](super::Reply::Infos).
    ValidateCredential {
        /// The credential.
        credential: Vec<u8>,
        /// Attributes.
        directives: Vec<Info>,
    },
    /// Send bytes to the standard input of processes (`PMIx_IOF_push`).
    Push {
        /// Processes whose input it is.
        targets: Vec<Proc>,
        /// The bytes; none ends the input.
        bytes: Vec<u8>,
        /// Attributes.
        directives: Vec<Info>,
    },
    /// Ask about the fabrics (`PMIx_Fabric_register` and its like). Answered by [`Reply::Infos`](super::Reply::Infos).
    Fabric {
        /// A `constants::fabric_operation`.
        operation: i64,
        /// Attributes.
        directives: Vec<Info>,
    },
    /// Control a session (`PMIx_Session_control`). Answered by [`Reply::Infos`](super::Reply::Infos).
    SessionControl {
        /// Number of the session.
        session: u32,
        /// Attributes.
        directives: Vec<Info>,
    },
    /// Define, change or remove a block of resources (`PMIx_Resource_block`).
    ResourceBlock {
        /// A `constants::resource_block_directive`.
        directive: u8,
        /// Its name.
        block: Text,
        /// Units that it is made of.
        units: Vec<ResourceUnit>,
        /// Attributes.
        info: Vec<Info>,
    },
}

impl Forward {
    /// Returns the attributes that say how the call is to be done; none for queries, which have their own each.
    pub(super) fn attributes(&self) -> &[Info] {
        match self {
            Forward::Publish { info }
            | Forward::Lookup { info, .. }
            | Forward::Unpublish { info, .. }
            | Forward::Allocate { info, .. }
            | Forward::ResourceBlock { info, .. } => info,
            Forward::Spawn { job_info, .. } => job_info,
            Forward::Query { .. } => &[],
            Forward::Log { directives, .. }
            | Forward::Monitor { directives, .. }
            | Forward::GetCredential { directives }
            | Forward::ValidateCredential { directives, .. }
            | Forward::Push { directives, .. }
            | Forward::Fabric { directives, .. }
            | Forward::SessionControl { directives, .. } => directives,
        }
    }
}
