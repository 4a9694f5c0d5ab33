//! The stock door: the public protocol of the reference implementation, so that processes which bring its library find
//! a server here.
//!
//! Two actors: a server that listens on a loopback TCP port, and the clients of its jobs that know no other protocol.
//! A connection begins with an acknowledgement ([`ack`]) in which the client names itself and how it packs; the kernel
//! tells which user owns the other end, and that is held against the registration. The user that the client names
//! counts for nothing. From then on the connection carries [`frame`]s with a tag that pairs an answer with its request:
//! [`requests`] turns their bodies into the [`Request`](crate::message::Request)s that native clients send, and
//! [`answers`] turns replies into bodies. The information of its job goes to a stock client as values ([`job_info`]),
//! or lies in files that it reads by itself ([`dstore`]).
//!
//! A third actor is the tool ([`tools`]), which no server has started. It finds the address in a file ([`contact`]).
//!
//! Encoding and form of packs belong to a connection, never to a namespace. When a client's end closes before it has
//! said goodbye, its process counts as lost.
use std::net::SocketAddr;

use crate::data::Proc;

pub mod ack;
pub mod answers;
pub mod body;
mod connection;
pub mod contact;
mod conversation;
pub mod dstore;
pub mod folder;
pub mod frame;
pub mod job_info;
pub mod listener;
pub mod parsers;
pub mod requests;
#[cfg(test)]
pub mod testing;
pub mod tools;

/// Returns a server's address as its clients are told it.
pub fn uri(server: &Proc, address: SocketAddr) -> String {
    let protocol = if address.is_ipv4() { "tcp4" } else { "tcp6" };
    format!("{}.{};{protocol}://{address}", server.nspace, server.rank.0)
}

/// Environment variables with the address of the door: one for each encoding, of which a client takes the newest that
/// it knows.
pub const URI_VARIABLES: [&str; 2] = ["PMIX_SERVER_URI41", "PMIX_SERVER_URI3"];
/// Release that this side says it is of. Clients from 4.1 to 7 keep to the forms that this one reads.
pub const VERSION: &str = "4.2.2";
/// Releases whose servers the plug-in of this project serves (crate `instanton-gds`), as `PMIx_Get_version` begins there.
/// Those of 5.0 call themselves one or the other way, by who has packed them.
pub const SERVED: [&str; 15] = [
    "OpenPMIx 4.2.2rc2",
    "OpenPMIx 5.0.7a1",
    "OpenPMIx 5.0.8a1",
    "OpenPMIx 5.0.8",
    "OpenPMIx 5.0.9a1",
    "OpenPMIx 5.0.9",
    "OpenPMIx 5.0.10",
    "OpenPMIx 5.0.11rc1",
    "OpenPMIx 5.0.11",
    "OpenPMIx 6.0.0",
    "OpenPMIx 6.1.0",
    "OpenPMIx 6.1.1rc2",
    "OpenPMIx 6.1.1",
    "OpenPMIx 7.0.0a1",
    "OpenPMIx 7.0.0rc1",
];
