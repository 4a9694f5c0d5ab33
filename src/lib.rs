//! Instanton: the PMIx Standard, shared-memory first.
//!
//! A node's [`server`] writes what it knows about every job once into shared memory, and every process of the job reads
//! it in place: a Get is a memory read. Without default features this crate is the data model ([`data`]) and the engine
//! ([`store`]) alone; `client` and `server` add the two ends of the control plane.
#![deny(unsafe_code)]
// What has its use in a program with both ends is dead where one of them is left out.
#![cfg_attr(not(all(feature = "client", feature = "server")), allow(dead_code))]

#[cfg(any(feature = "client", feature = "server"))]
mod attribute_support;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "client", feature = "server"))]
mod collect_small;
#[cfg(feature = "peers")]
pub mod control;
pub mod data;
pub mod fd_passing;
#[cfg(all(feature = "client", feature = "server"))]
mod in_process;
#[cfg(feature = "server")]
pub mod launch;
#[cfg(feature = "peers")]
pub mod message;
#[cfg(any(feature = "client", feature = "server"))]
mod oneshot;
#[cfg(feature = "server")]
pub mod server;
pub mod store;
pub mod sys;
#[cfg(feature = "client")]
pub mod tool;
pub mod trace;
#[cfg(feature = "peers")]
pub mod wire;
