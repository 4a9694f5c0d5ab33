//! The PMI door: PMI-1 and PMI-2, which MPICH, Intel MPI and their kin speak.
//!
//! Three actors. A *launcher* connects to the door for a process that it is about to start, says in a first line whose
//! [seat] that is, and leaves the connected socket to the process, which finds it by its number (`PMI_FD`).
//! The *process* speaks over it: its first [line](words) chooses the version. The *door* ([`listener`]) turns what it says
//! into the [`Request`](crate::message::Request)s that native clients send ([`conversation`]), so that data put through
//! PMI lies in the job's store, a barrier is a fence that collects, and names are published data.
//!
//! A connection is *unknown* until its seat is named, that of a process that is registered; *seated* until the process
//! says `init`; then it *asks* to be let in, is *in*, and at last *finalized*, with its socket open until the process
//! ends; it may say `init` once more, and then is a new peer to the server. Nothing is read of one that asks.
//!
//! A launcher that dies before it has named a seat leaves a connection that ends, or is cut in time. The end of a process
//! is what its host reports; where its socket ends before it has finalized, it counts as lost.
use std::io;

use crate::data::Proc;

mod connection;
pub mod conversation;
pub mod listener;
pub mod mapping;
pub mod parsers;
mod requests;
pub mod seat;
pub mod spawn;
#[cfg(test)]
mod tests;
pub mod version;
mod waiters;
pub mod words;

/// Key of information of a job (an array) that its processes find among what was put, before any of them puts something.
pub const PREPUT: &str = "pmi.preput";

/// Attribute of an application that is to be started: directories to look for its program in, as in `PATH`.
pub const PATH: &str = "pmi.path";

/// Variable with the name of the door's socket.
pub const VARIABLE: &str = "INSTANTON_PMI";

/// Connects a socket to the door for a process that is registered, and names its seat there. `variable` is the value of
/// [`VARIABLE`], and `token` the one that the process would show at the native door.
///
/// # Errors
/// The kernel's.
pub fn connect(variable: &str, proc: &Proc, token: &[u8; 32]) -> io::Result<std::os::unix::net::UnixStream> {
    use std::io::Write;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};

    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(variable)?)?;
    stream.write_all(&seat::line(proc, token))?;
    Ok(stream)
}
