//! Data of a process for another node's server, charged to its job while it is held.
use std::fmt;
use std::ops::Deref;

use crate::account::Charge;
use crate::data::Nspace;
use crate::server::ctx::TicketSink;
use crate::server::ctx::ticket::Ticket;

/// Data that a process has posted, encoded for another node's server.
///
/// It may be many megabytes, which are charged to the job of the process until this is dropped: a host that queues it
/// for a slow network keeps it as it is, so that the job's limit bounds what waits there. `Vec::from` takes the bytes
/// out, and nobody is charged for them any more.
#[derive(Default)]
pub struct Blob {
    bytes: Vec<u8>,
    hold: Option<Hold>,
}

/// Hold of a host on data of a job: its charge, and the word to the server that it is over.
pub(crate) struct Hold {
    pub charge: Option<Charge>,
    pub nspace: Nspace,
    pub tickets: TicketSink,
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.charge.take());
        (self.tickets)(Ticket::BlobGone(self.nspace.clone()));
    }
}

impl Blob {
    pub(crate) fn held(bytes: Vec<u8>, hold: Hold) -> Self {
        Self { bytes, hold: Some(hold) }
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that are charged to nobody.
impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, hold: None }
    }
}

impl From<Blob> for Vec<u8> {
    fn from(blob: Blob) -> Self {
        blob.bytes
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.hold.is_some() { "charged" } else { "charged to nobody" };
        write!(f, "Blob({} bytes, {whose})", self.len())
    }
}
