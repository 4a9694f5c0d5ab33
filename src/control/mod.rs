//! The native control plane: the first front door.
//!
//! Two actors: a server that listens on an abstract Unix socket (and on request on a path socket), and the clients of
//! its jobs. A connection begins with a [`Hello`](handshake::Hello) that names the process and shows the job's token;
//! the server holds it against the kernel's word on the peer and against its registration, and answers with a
//! [`Welcome`](handshake::Welcome) that brings the job's descriptors, or with a refusal that says why. From then on the
//! connection carries [frames](frame): requests and replies paired by a number, and pushes.
//!
//! A tool, which no launcher has given an address and a token, finds its server by other ways ([`rendezvous`]) and
//! begins with an [`Attach`](handshake::Attach); everything after that is the same.
//!
//! When a client's end closes, the server drops the connection; the process counts as dead only when the kernel says
//! so. When the server's end closes, every request that waits in the client ends with `ERR_LOST_CONNECTION`.

pub mod address;
#[cfg(feature = "server")]
pub mod bind;
#[cfg(feature = "server")]
mod connection;
pub mod frame;
pub mod handshake;
#[cfg(feature = "server")]
pub mod listener;
pub mod rendezvous;
pub mod report;
