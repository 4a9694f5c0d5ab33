//! Segments: which descriptors of shared memory a peer is given.
use super::Router;
use crate::data::{Nspace, Status};
use crate::message::{Have, Reply};
use crate::server::ctx::peers::Caller;
use crate::trace;

impl Router {
    /// Returns whether processes of one job may map another's: their own, and those that they are tied
    /// to or share a group with.
    fn may_map(&self, own: &Nspace, other: &Nspace) -> bool {
        own == other || self.connections.bind(own, other) || self.groups.bind(own, other)
    }

    /// Sends descriptors of the segments that a peer has not mapped.
    pub(super) fn segments(&mut self, Caller { peer, number }: Caller, nspace: &Nspace, have: &Have) {
        let is_allowed = self.cx.peers.get(&peer).is_some_and(|entry| self.may_map(&entry.proc.nspace, nspace));
        let parts = match self.jobs.store(nspace) {
            Some(store) if is_allowed => store.parts(have),
            _ => return self.cx.reply_status(peer, number, Err(Status::ERR_NO_PERMISSIONS)),
        };
        match parts {
            Ok(parts) => {
                let (parts, descriptors) = parts.into_iter().unzip();
                self.cx.reply_with(peer, number, Reply::Segments { parts }, descriptors);
            }
            Err(e) => {
                trace!("no descriptor of {nspace} can be sent: {e}");
                self.cx.reply_status(peer, number, Err(Status::ERR_OUT_OF_RESOURCE));
            }
        }
    }
}
