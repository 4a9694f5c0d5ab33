//! What nodes tell each other of what their processes have posted, in the hosts' hands: with collecting fences, and by direct modex.
//!
//! A fence over a whole namespace carries only what no such fence has carried yet; what one carried that failed goes out again. Other
//! fences, and answers to direct modex, reach some nodes only and carry everything.
//!
//! Hosts may bring all this in any order, so what is said of a process bears the number of commits that it had made by then. What was
//! said earlier than what is known already brings keys that are missing here, and changes none.
use super::blob::{self, Failure, Others};
use super::fence::Tracker;
use super::router::Router;
use crate::data::{Key, Proc, Status};
use crate::trace;

/// The keys of what a fence carries of each process, to be carried again if it fails.
pub(super) type Sent = Vec<(Proc, Vec<Key>)>;

impl Router {
    /// What this node adds to a fence, and what of it is carried only once.
    pub(super) fn contribution(&mut self, tracker: &Tracker) -> Result<(Vec<u8>, Sent), Status> {
        let whole = tracker.members.is_whole_job();
        let mut ranks = Vec::new();
        for nspace in tracker.members.namespaces() {
            let Some(stored) = self.jobs.stored_mut(nspace) else { continue };
            let arrived = tracker.arrived.of(nspace).map(|(rank, _)| rank);
            let outbound = match whole {
                true => stored.take_new(arrived),
                false => arrived.map(|rank| stored.outbound(rank)).collect(),
            };
            let outbound = outbound.map_err(|e| {
                trace!("what processes of {nspace} have posted cannot be read: {e}");
                e.status()
            })?;
            ranks.extend(outbound.into_iter().map(|of| blob::OfRank::new(nspace, of)));
        }
        let keys = |of: &blob::OfRank| (of.proc.clone(), of.entries.iter().map(|posted| posted.key.clone()).collect());
        let sent = if whole { ranks.iter().map(keys).collect() } else { Sent::new() };
        match blob::write(&self.sender(), ranks, None) {
            Ok(data) => Ok((data, sent)),
            Err(e) => {
                trace!("this node's data cannot be sent: {e}");
                self.take_back(sent);
                Err(Status::ERR_PACK_FAILURE)
            }
        }
    }

    /// What a fence carried has not arrived; the next one carries it again.
    pub(super) fn take_back(&mut self, sent: Sent) {
        for (proc, keys) in sent {
            if let Some(stored) = self.jobs.stored_mut(&proc.nspace) {
                stored.put_back(proc.rank, keys);
            }
        }
    }

    /// All that a process of this node has posted for other nodes.
    pub(super) fn posted_blob(&self, proc: &Proc) -> Result<Vec<u8>, Status> {
        let stored = self.jobs.stored(&proc.nspace).ok_or(Status::ERR_NOT_FOUND)?;
        let outbound = stored.outbound(proc.rank).map_err(|e| {
            trace!("what {proc} has posted cannot be read: {e}");
            e.status()
        })?;
        blob::write(&self.sender(), vec![blob::OfRank::new(&proc.nspace, outbound)], None).map_err(|e| {
            trace!("what {proc} has posted cannot be sent: {e}");
            Status::ERR_PACK_FAILURE
        })
    }

    pub(super) fn sender(&self) -> blob::Sender {
        blob::Sender { server: self.cx.own_name(), identity: self.cx.identity.nonce }
    }

    /// What tells other nodes that this one's part of a meeting has failed.
    pub(super) fn failure_blob(&self, failure: Failure) -> Vec<u8> {
        blob::write(&self.sender(), Vec::new(), Some(failure)).unwrap_or_default()
    }

    /// What other nodes say in a row of blobs.
    pub(super) fn others(&self, data: &[u8]) -> Result<Others, Status> {
        blob::read(data, &self.sender()).map_err(|e| {
            trace!("data from other nodes cannot be read: {e}");
            Status::ERR_UNPACK_FAILURE
        })
    }

    /// Takes in what other nodes have sent: all of it, or nothing when a part cannot be read. The meeting that it came with has
    /// failed when it has on one of them.
    pub(super) fn absorb(&mut self, data: &[u8]) -> Result<(), Status> {
        let Others { ranks, failure } = self.others(data)?;
        self.take_in(ranks)?;
        match failure {
            Some(Failure { status, gone }) => {
                trace!("a meeting has failed on another node with {status}; gone: {gone:?}");
                Err(status)
            }
            None => Ok(()),
        }
    }

    /// Stores what processes of other nodes have posted, each with the identity of the server that says so.
    pub(super) fn take_in(&mut self, ranks: Vec<(u64, blob::OfRank)>) -> Result<(), Status> {
        for (sender, blob::OfRank { proc, commits, entries }) in ranks {
            let Some(stored) = self.jobs.stored_mut(&proc.nspace) else {
                trace!("another node sends data of {proc}, whose namespace is not registered here");
                continue;
            };
            if stored.is_local(proc.rank) {
                trace!("another node sends data of {proc}, which runs here; it is left aside");
                continue;
            }
            stored.post_from(sender, commits, proc.rank, entries).map_err(|e| {
                trace!("data of {proc} cannot be stored: {e}");
                e.status()
            })?;
            self.gets_after_post(&proc);
        }
        Ok(())
    }
}
