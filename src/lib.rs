//! Instanton: the PMIx Standard, shared-memory first.
//!
//! A node's server writes what it knows about every job once into shared memory, and every process of the job reads it in place: a Get
//! is a memory read.
//!
//! | you write | start with |
//! |---|---|
//! | a library or application whose processes find each other (MPI, OpenSHMEM, AI frameworks) | [`client::Client`] |
//! | a resource manager, a launcher: something that starts processes | [`server::Server`] and [`server::Host`], [`launch`] |
//! | a debugger, a monitor: something that looks at the jobs of others | [`tool::Tool`] |
//! | a data backend of your own, with the store alone | [`store::JobWriter`] and [`store::JobReader`] |
//!
#![cfg_attr(not(feature = "client"), doc = "[`client::Client`]: #features")]
#![cfg_attr(not(feature = "server"), doc = "[`server::Server`]: #features")]
#![cfg_attr(not(feature = "server"), doc = "[`server::Host`]: #features")]
#![cfg_attr(not(feature = "server"), doc = "[`launch`]: #features")]
#![cfg_attr(not(feature = "client"), doc = "[`tool::Tool`]: #features")]
//!
//! All of them speak in the words of the Standard's data model, [`data`]: a [`Proc`](data::Proc) is a namespace and a rank, an
//! [`Info`](data::Info) an attribute, its key one of [`data::keys`]. Errors are, or become, a [`Status`](data::Status). The line
//! behind a refusal is in the [`trace`](mod@trace).
//!
//! # Features
//!
//! `client` and `server`, both on by default, are the two ends of the control plane. Without them the crate is the data model and the
//! store. `pmi`, on by default too, lets servers offer a door for processes that speak PMI-1 and PMI-2; `libpmix.so.2` is built
//! without it. `named-segments`, off by default, lets a writer of the store have its segments as files under a name, for readers in
//! other namespaces and for those that come when it is dead.
#![deny(unsafe_code)]
// Code of a program with both ends is dead where one of them is left out.
#![cfg_attr(not(all(feature = "client", feature = "server")), allow(dead_code))]

#[cfg(feature = "peers")]
mod account;
#[cfg(any(feature = "client", feature = "server"))]
mod attribute_support;
#[cfg(feature = "server")]
mod by_number;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "client", feature = "server"))]
mod collect_small;
#[cfg(feature = "peers")]
mod control;
pub mod data;
pub mod fd_passing;
pub mod handover;
#[cfg(all(feature = "client", feature = "server"))]
mod in_process;
#[cfg(feature = "server")]
pub mod launch;
#[cfg(feature = "peers")]
mod message;
#[cfg(any(feature = "client", feature = "server"))]
mod oneshot;
#[cfg(any(feature = "client", feature = "server"))]
mod pending;
#[cfg(feature = "pmi")]
mod pmi;
mod printable;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
mod stock;
pub mod store;
mod sys;
#[cfg(feature = "client")]
pub mod tool;
pub mod trace;
#[cfg(feature = "server")]
mod transport;
#[cfg(all(feature = "client", feature = "server"))]
mod upstream;
mod wall_clock;
#[cfg(feature = "peers")]
mod wire;

#[cfg(any(feature = "client", feature = "server"))]
pub use pending::{Pending, PendingFuture};
pub use printable::printable;

/// Parts that the other crates and the tests of this workspace use. They change without notice.
#[doc(hidden)]
#[allow(missing_docs, reason = "each is documented where it is")]
pub mod internal {
    #[cfg(feature = "client")]
    pub mod client {
        pub use crate::attribute_support::{PROVISIONAL_ABI, STABLE_ABI};
        pub use crate::client::call::wait;
        pub use crate::client::forward::abi_versions;
        pub use crate::client::get::peek;
        pub use crate::client::init::{check_directives, check_finalize, from_variables};
        pub use crate::client::spawn::complete_apps;
        pub use crate::message::format::write_out;
        pub use crate::pending::Callback;
    }
    #[cfg(feature = "peers")]
    pub mod control {
        pub use crate::control::{address, frame, handshake, rendezvous};
    }
    #[cfg(feature = "peers")]
    pub mod message {
        pub use crate::message::{
            Decision, DescriptorKind, Forward, GroupCall, Have, Push, Reply, Request, key_in_context, lines,
        };
    }
    #[cfg(feature = "server")]
    pub mod server {
        pub use crate::store::exchange::is_exchange;
    }
    #[cfg(feature = "pmi")]
    pub mod pmi {
        pub use crate::pmi::parsers::is_pmi;
        pub use crate::pmi::{PATH, PREPUT, VARIABLE, connect};
    }
    #[cfg(feature = "server")]
    pub mod stock {
        pub use crate::stock::SERVED;
        pub use crate::stock::parsers::{is_ack, is_conversation, is_request};
    }
    pub mod sys {
        #[cfg(feature = "server")]
        pub mod later {
            pub use crate::sys::later::keep_none_that_is_large;
        }
        #[cfg(feature = "peers")]
        pub use crate::sys::signals;
        #[cfg(feature = "client")]
        pub use crate::sys::table;
        #[cfg(feature = "server")]
        pub use crate::sys::{birth, exec_stop, hwloc, munge, probe, process, random, regular_file, sock_diag, spawn};
        pub use crate::sys::{cell, socket};
    }
    #[cfg(all(feature = "client", feature = "server"))]
    pub mod upstream {
        pub use crate::upstream::parsers::{is_answer, is_job_info, is_news};
        pub use crate::upstream::{contacts, exchange, node, told};
    }
    #[cfg(feature = "peers")]
    pub mod wall_clock {
        pub use crate::wall_clock::since_1970;
    }
    #[cfg(feature = "peers")]
    pub mod wire {
        pub use crate::wire::{Form, Reader, Sink, Unpacked, WireError, Writer, flex, zlib};
    }
}
