//! Messages between peers, as plain enums.
//!
//! A client sends a [`Request`] and gets one [`Reply`] for it; a server tells a client things unasked as a [`Push`].
//! There are no bytes here: a front door (the native [`control`](crate::control) plane, or another protocol beside it)
//! turns its own bytes into these and back, and the server never learns which door a peer came through.
//!
//! The peer's identity (its process, uid, gid) belongs to the connection and is in no message: a peer cannot claim to
//! be somebody else halfway through.
#![allow(missing_docs, reason = "rkyv's derive makes types without documentation; every item written here has its own")]

pub mod backlog;
#[cfg(feature = "server")]
pub mod door;
pub(crate) mod format;
mod forward;
mod group;
pub mod lines;
mod named;
pub mod numbers;
pub mod output;
mod servers_events;
#[cfg(feature = "server")]
mod size;

use rkyv::{Archive, Deserialize, Serialize};

use crate::data::{Channels, DataRange, Info, Key, Nspace, Pdata, Proc, Status, Value};

pub use crate::data::Posted;
pub use crate::data::have::Have;
pub use forward::Forward;
pub(crate) use group::group_results;
pub use group::{Decision, GroupCall, key_in_context};
#[cfg(feature = "server")]
pub(crate) use group::{array_of, id_of};
#[cfg(feature = "server")]
pub use named::MEANT;
#[cfg(feature = "client")]
pub use named::namespaces_named;
pub use named::replace_named;
pub use servers_events::is_a_servers;

/// Most bytes of one message.
pub const LARGEST: usize = 256 << 20;

/// Longest message that the control thread of a server takes apart itself.
#[cfg(feature = "server")]
pub const SHORT: usize = 64 << 10;

/// Request of a client to its server.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// Store what was put since the last commit. The client does not wait for it, and numbers it 0: only a failure is
    /// answered.
    Commit {
        /// Only what changed.
        entries: Vec<Posted>,
    },
    /// Meet the other participants (`PMIx_Fence`).
    Fence {
        /// Participants as the caller named them; none means the caller's whole namespace.
        procs: Vec<Proc>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Meet all of the caller's namespace. The caller has no other fence under way, and watches the job segment's word
    /// of release: a change there answers this with success, unless a reply does.
    Meet {
        /// Value of that word before this was sent.
        seen: u32,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Look a key up (`PMIx_Get`), waiting for it where the Standard says so.
    Get {
        /// Process whose data is meant.
        proc: Proc,
        /// Key; none for everything known of that process.
        key: Option<Key>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Send the descriptors of what the client has not mapped yet.
    Segments {
        /// Namespace of the job.
        nspace: Nspace,
        /// Segments that the client has.
        have: Have,
    },
    /// End processes (`PMIx_Abort`).
    Abort {
        /// The status to end with, whatever it is.
        status: i32,
        /// Message to print.
        message: Option<Vec<u8>>,
        /// Processes to end; none means the caller's whole namespace.
        procs: Vec<Proc>,
    },
    /// The process is done with PMIx.
    Finalize,
    /// Send events with these codes from now on; no codes means every event.
    RegisterEvents {
        /// Codes.
        codes: Vec<Status>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Stop sending events with these codes.
    DeregisterEvents {
        /// Codes; none takes back the registration for every event.
        codes: Vec<Status>,
    },
    /// Raise an event (`PMIx_Notify_event`). It does not come back to the sender, who tells its own handlers itself.
    Notify {
        /// The event's code.
        status: Status,
        /// Range of processes that it goes to.
        range: DataRange,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Control processes, or register what is to be cleaned up after them (`PMIx_Job_control`).
    JobControl {
        /// Processes to control; none means the caller's whole namespace.
        targets: Vec<Proc>,
        /// Directives.
        directives: Vec<Info>,
    },
    /// Meet the other participants and be connected with them (`PMIx_Connect`).
    Connect {
        /// Participants: the same list at each of them.
        procs: Vec<Proc>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Meet them again and be connected no more (`PMIx_Disconnect`).
    Disconnect {
        /// The participants of the connect.
        procs: Vec<Proc>,
        /// Attributes.
        info: Vec<Info>,
    },
    /// Something about a group of processes.
    Group {
        /// The group's name.
        group: Nspace,
        /// Call on the group.
        call: GroupCall,
        /// Value of the word of release before this was sent, where a change there answers a construct or destruct as
        /// it does [`Meet`](Request::Meet), unless a reply does: the group is made of the members as they were named,
        /// or has ended.
        seen: Option<u32>,
    },
    /// Something that the host answers.
    Forward(Forward),
    /// Send the output of processes from now on (`PMIx_IOF_pull`).
    PullOutput {
        /// The client's number for it.
        id: u64,
        /// Processes whose output is meant.
        procs: Vec<Proc>,
        /// The streams.
        channels: Channels,
        /// Attributes.
        directives: Vec<Info>,
    },
    /// End what such a request has begun.
    StopOutput {
        /// Its number.
        id: u64,
    },
    /// Output has been taken in. The client does not wait for it, and numbers it 0.
    OutputTaken {
        /// The number of the pull.
        id: u64,
        /// Part of the window that it has taken, by `output::cost`.
        cost: u64,
    },
}

/// Name of the kind of a fence.
pub(crate) const FENCE: &str = "a fence";

impl Request {
    /// The value of its job's word that the caller saw before it sleeps there until that changes, if it does.
    #[cfg(feature = "server")]
    pub(crate) fn seen(&self) -> Option<u32> {
        match self {
            Request::Meet { seen, .. } => Some(*seen),
            Request::Group { seen, .. } => *seen,
            _ => None,
        }
    }

    /// Returns the name of its kind, for the trace.
    pub fn kind(&self) -> &'static str {
        match self {
            Request::Commit { .. } => "a commit",
            Request::Fence { .. } | Request::Meet { .. } => FENCE,
            Request::Get { .. } => "a get",
            Request::Segments { .. } => "a request for segments",
            Request::Abort { .. } => "an abort",
            Request::Finalize => "a finalize",
            Request::RegisterEvents { .. } => "a registration of events",
            Request::DeregisterEvents { .. } => "a deregistration of events",
            Request::Notify { .. } => "an event",
            Request::JobControl { .. } => "job control",
            Request::Connect { .. } => "a connect",
            Request::Disconnect { .. } => "a disconnect",
            Request::Group { call, .. } => call.kind(),
            Request::Forward(Forward::Query { .. }) => "a query",
            Request::Forward(Forward::Publish { .. }) => "a publication",
            Request::Forward(Forward::Lookup { .. }) => "a look-up",
            Request::Forward(Forward::Spawn { .. }) => "a spawn",
            Request::Forward(_) => "a request to the host",
            Request::PullOutput { .. } | Request::StopOutput { .. } | Request::OutputTaken { .. } => "a pull of output",
        }
    }

    /// Returns what the call is about, for who reads it: a key, a group, a program; empty where there is no such thing.
    #[cfg(feature = "server")]
    pub(crate) fn subject(&self) -> String {
        /// Most keys that are named.
        const NAMED: usize = 4;
        /// Most bytes of each that are shown.
        const SHOWN: usize = 512;
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
        match self {
            Request::Get { key: Some(key), .. } => text(key.as_bytes()),
            Request::Group { group, .. } => text(group.as_bytes()),
            Request::Forward(Forward::Lookup { keys, .. }) => {
                let named: Vec<String> = keys.iter().take(NAMED).map(|key| text(key.as_bytes())).collect();
                let more = if keys.len() > NAMED { ", ..." } else { "" };
                named.join(", ") + more
            }
            Request::Forward(Forward::Spawn { apps, .. }) => {
                let program = apps.first().and_then(|app| app.cmd.as_ref());
                program.map_or_else(String::new, |program| text(program.as_bytes()))
            }
            _ => String::new(),
        }
    }

    /// Returns the attributes that say how the call is to be done; none for one that takes none, or several lists.
    pub(crate) fn attributes(&self) -> &[Info] {
        match self {
            Request::Commit { .. }
            | Request::Segments { .. }
            | Request::Abort { .. }
            | Request::Finalize
            | Request::DeregisterEvents { .. }
            | Request::StopOutput { .. }
            | Request::OutputTaken { .. } => &[],
            Request::Fence { info, .. }
            | Request::Meet { info, .. }
            | Request::Get { info, .. }
            | Request::RegisterEvents { info, .. }
            | Request::Notify { info, .. }
            | Request::Connect { info, .. }
            | Request::Disconnect { info, .. } => info,
            Request::JobControl { directives, .. } | Request::PullOutput { directives, .. } => directives,
            Request::Group { call, .. } => call.attributes(),
            Request::Forward(request) => request.attributes(),
        }
    }
}

/// Answer of a server.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// The request is done, or it failed with this status.
    Done(Status),
    /// The value asked for.
    Value(Value),
    /// Attributes that go with a status (`PMIx_Job_control`, or everything known of a process).
    Infos(Status, Vec<Info>),
    /// Published data, and how the look-up went: some of it may be missing.
    Published(Status, Vec<Pdata>),
    /// The namespace of a job that was started.
    Spawned(Nspace),
    /// A credential, and what is to be known about it.
    Credential(Vec<u8>, Vec<Info>),
    /// Descriptors come with this message, in this order; none when the client has all there is.
    Segments {
        /// Kind of each descriptor.
        parts: Vec<DescriptorKind>,
    },
}

#[cfg(feature = "server")]
impl Reply {
    /// Returns the bytes of what it brings, more or less.
    pub(crate) fn bytes(&self) -> usize {
        let infos = |infos: &[Info]| infos.iter().map(|info| info.key.len() + info.value.kept_size()).sum::<usize>();
        match self {
            Reply::Value(value) => value.kept_size(),
            Reply::Infos(_, all) => infos(all),
            Reply::Published(_, data) => data.iter().map(|data| data.key.len() + data.value.kept_size()).sum(),
            Reply::Credential(bytes, all) => bytes.len() + infos(all),
            Reply::Done(_) | Reply::Spawned(_) | Reply::Segments { .. } => 0,
        }
    }
}

/// Attributes, and how it went: they may explain a failure.
pub type Infos = (Status, Vec<Info>);

/// Published data, and how the look-up went: some of it may be missing.
pub type Published = (Status, Vec<Pdata>);

/// A credential, and what is to be known about it.
pub type Credential = (Vec<u8>, Vec<Info>);

/// Kind of one descriptor of a [`Reply::Segments`].
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorKind {
    /// The job segment.
    Job,
    /// The info segment of that generation.
    Info(u64),
    /// The modex segment of that index.
    Modex(u32),
    /// The client's own reader page.
    ReaderPage,
}

/// A message from an in-process server to its client.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The reply to the request of that number.
    Reply(u64, Reply),
    /// A message that no request asked for.
    Push(Push),
}

/// A server in its client's own process.
pub(crate) trait InProcessServer: Send + Sync {
    /// Queues a request; its reply comes as a [`Delivery`].
    fn ask(&self, number: u64, request: Request) -> Result<(), Status>;
    /// Returns true on the server's own thread, which must not wait for itself.
    fn is_own_thread(&self) -> bool;
}

/// Message of a server to a client that no request asked for.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Push {
    /// An event the client registered for.
    Event {
        /// Its code.
        status: Status,
        /// Process that has raised it.
        source: Proc,
        /// Range of processes that it goes to.
        range: DataRange,
        /// Attributes.
        info: Vec<Info>,
        /// Number of the vote that the handlers of this process take part in, for an event of a group under
        /// construction.
        vote: Option<u64>,
    },
    /// Output of a process that the client has asked for.
    Output {
        /// The client's number for what it has asked.
        pull: u64,
        /// Process that has printed it.
        source: Proc,
        /// The stream.
        channel: Channels,
        /// The bytes; none where the output ends.
        #[rkyv(with = crate::data::archive::Bytes)]
        bytes: Vec<u8>,
        /// Attributes.
        info: Vec<Info>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::frame::{self, Kind};
    use crate::data::{DataArray, DataType, Rank, Scope};

    #[test]
    fn a_request_comes_back_as_it_was() {
        let request = Request::Get {
            proc: Proc::new(Nspace::new("job").unwrap(), Rank::WILDCARD),
            key: Some(Key::new("pmix.job.size").unwrap()),
            info: vec![
                Info::new("pmix.optional", true),
                Info::new("x", DataArray::of_info(vec![Info::new("y", 1u32)])),
            ],
        };
        let bytes = frame::encode(Kind::Request, 7, 0, &request).unwrap();
        assert_eq!(frame::decode::<Request>(Kind::Request, &bytes[frame::HEADER..]).unwrap(), request);
    }

    #[test]
    fn nesting_without_end_is_refused() {
        let mut value = Value::Undef;
        for _ in 0..10_000 {
            value = Value::DataArray(DataArray::new(value.data_type(), vec![value]).unwrap());
        }
        // However it was made, a receiver does not follow it to the bottom.
        let deep = std::thread::Builder::new().stack_size(256 << 20).spawn(move || {
            let bytes = crate::data::archive::encode(&value).map(|b| b.to_vec());
            (bytes, std::mem::forget(value))
        });
        if let (Ok(bytes), ()) = deep.unwrap().join().unwrap() {
            assert!(crate::data::archive::decode::<Value>(&bytes).is_err());
        }
    }

    #[test]
    fn garbage_is_refused() {
        let request =
            Request::Commit { entries: vec![Posted::new(Scope::GLOBAL, Key::new("k").unwrap(), Value::Undef)] };
        let bytes = frame::encode(Kind::Request, 1, 0, &request).unwrap();
        let body = &bytes[frame::HEADER..];
        for cut in 0..body.len() {
            let _ = frame::decode::<Request>(Kind::Request, &body[..cut]);
        }
        assert!(frame::decode::<Request>(Kind::Request, &[0xff; 64]).is_err());
        assert_eq!(Value::Undef.data_type(), DataType::UNDEF);
    }
}
