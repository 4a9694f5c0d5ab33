//! Watches on processes: one pidfd each, which the kernel makes readable when the process ends.
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::ctx::system::WatchId;
use crate::data::Proc;

#[derive(Debug)]
pub struct Watches {
    registry: Registry,
    /// Poll token that the watches' own tokens are added to.
    tokens: usize,
    watched: HashMap<WatchId, (OwnedFd, Proc)>,
    next: u64,
}

impl Watches {
    pub fn new(registry: Registry, tokens: usize) -> Self {
        Watches { registry, tokens, watched: HashMap::new(), next: 0 }
    }

    /// Watches the process behind `pidfd`.
    pub fn start(&mut self, proc: Proc, pidfd: OwnedFd) -> io::Result<WatchId> {
        let id = WatchId(self.next);
        let token = Token(self.tokens + id.0 as usize);
        self.registry.register(&mut SourceFd(&pidfd.as_raw_fd()), token, Interest::READABLE)?;
        self.next += 1;
        self.watched.insert(id, (pidfd, proc));
        Ok(id)
    }

    pub fn stop(&mut self, id: WatchId) {
        if let Some((pidfd, _)) = self.watched.remove(&id) {
            // Closing the descriptor takes it out of the poll as well.
            let _ = self.registry.deregister(&mut SourceFd(&pidfd.as_raw_fd()));
        }
    }

    /// The process whose token is ready has ended; it is watched no longer.
    pub fn ended(&mut self, token: u64) -> Option<(Proc, WatchId)> {
        let id = WatchId(token);
        let proc = self.watched.get(&id)?.1.clone();
        self.stop(id);
        Some((proc, id))
    }
}
