//! A namespace that a server knows, and its processes on this node.
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use super::client::{Client, Phase};
use super::renewed::Renewed;
use super::store::JobStore;
use crate::data::{Rank, Status};
use crate::message::door::PeerId;
use crate::server::ctx::Ctx;
use crate::trace;

/// A namespace.
#[derive(Debug)]
pub struct Job {
    pub token: [u8; 32],
    /// Number of its processes that run here; known once it is registered.
    pub local_procs: Option<usize>,
    /// Its information and what its processes post.
    pub store: Option<JobStore>,
    pub clients: BTreeMap<Rank, Client>,
    /// Ranks that ended and were deregistered.
    pub departed: BTreeSet<Rank>,
    /// True if peers may have other ids than those registered.
    pub foreign_ids: bool,
    /// Number of fences of the whole job in a row that brought nothing, where nobody is left here to come to them and
    /// the host is told of each; none where the host is told of none.
    pub fruitless_fences: Option<u32>,
    /// Peers that came before the namespace was registered.
    pub early: Vec<PeerId>,
    /// True if the server itself has registered it, for tools.
    pub of_tools: bool,
    /// Tools of it that other servers have let in.
    pub tools_elsewhere: BTreeSet<Rank>,
    /// True if a tool has chosen its name, which the host knows nothing of.
    pub self_named: bool,
    /// Its ranks that were started anew, in their order.
    pub(super) renewed: Vec<Renewed>,
}

impl Job {
    /// Creates a job that is not registered, with a token of its own.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` without randomness.
    pub fn new(cx: &mut Ctx) -> Result<Self, Status> {
        Ok(Job {
            token: cx.system.random().map_err(|_| Status::ERR_OUT_OF_RESOURCE)?,
            local_procs: None,
            store: None,
            clients: BTreeMap::new(),
            departed: BTreeSet::new(),
            foreign_ids: false,
            fruitless_fences: None,
            early: Vec::new(),
            of_tools: false,
            tools_elsewhere: BTreeSet::new(),
            self_named: false,
            renewed: Vec::new(),
        })
    }

    /// Returns whether a rank is known to run on this node.
    pub fn is_local(&self, rank: Rank) -> bool {
        self.clients.contains_key(&rank) || self.store.as_ref().is_some_and(|store| store.is_local(rank))
    }

    /// Returns whether a process of this node has ended, and another one is not expected in its place.
    pub fn is_gone(&self, rank: Rank) -> bool {
        self.departed.contains(&rank) || self.clients.get(&rank).is_some_and(|client| client.gone)
    }

    /// Returns whether nobody posts or comes as this rank any more unless the host starts it anew. Of one that has said
    /// goodbye and ended that is only known where the host itself had started it: a script may start another program.
    pub fn is_done(&self, rank: Rank) -> bool {
        let has_ended = |client: &Client| client.phase == Phase::Finalized && client.ended && client.is_child;
        self.is_gone(rank) || self.clients.get(&rank).is_some_and(has_ended)
    }

    /// Returns whether it was for tools, and none is left.
    pub fn is_left_by_tools(&self) -> bool {
        self.of_tools && self.clients.is_empty() && self.tools_elsewhere.is_empty()
    }

    /// Returns whether every process that was to run here has run and ended.
    pub fn is_over(&self) -> bool {
        let known = self.clients.len() + self.departed.len();
        self.local_procs == Some(known) && self.clients.values().all(|client| client.ended)
    }

    /// Returns whether nobody is left here who could come to a fence, and not all have said goodbye.
    pub fn is_deserted(&self) -> bool {
        let known = self.clients.len() + self.departed.len();
        let mut clients = self.clients.values();
        let is_lost = clients.clone().any(|client| client.phase == Phase::Lost);
        is_lost && !self.of_tools && self.local_procs == Some(known) && clients.all(|c| c.ended || c.gone)
    }

    /// Makes the reader page of a process that has none of this data.
    fn make_page(&mut self, rank: Rank) {
        let (Some(store), Some(client)) = (&mut self.store, self.clients.get_mut(&rank)) else { return };
        (client.page, client.page_descriptor) = match store.open_page() {
            Ok((page, descriptor)) => (Some(page), Some(descriptor)),
            Err(e) => {
                trace!("there is no reader page for rank {rank}: {e}");
                (None, None)
            }
        };
    }

    /// Makes the reader page of a process that has not come, unless others may need the descriptor that waits for it.
    pub fn prepare_page(&mut self, cx: &Ctx, rank: Rank) {
        self.make_page(rank);
        let descriptor = self.clients.get(&rank).and_then(|client| client.page_descriptor.as_ref());
        if descriptor.is_some_and(|descriptor| cx.system.is_short_of_descriptors(descriptor)) {
            self.leave_page(rank);
        }
    }

    /// Takes the descriptor of a process's reader page, for the process itself.
    pub fn take_page(&mut self, rank: Rank) -> Option<OwnedFd> {
        if self.clients.get(&rank)?.page_descriptor.is_none() {
            self.make_page(rank);
        }
        self.clients.get_mut(&rank)?.page_descriptor.take()
    }

    /// Takes the reader page back from a process that does not use it any more.
    pub fn leave_page(&mut self, rank: Rank) {
        let Some(client) = self.clients.get_mut(&rank) else { return };
        client.page_descriptor = None;
        if let (Some(page), Some(store)) = (client.page.take(), &mut self.store) {
            store.close_page(page);
        }
    }

    /// Returns whether nobody has used the job's segments yet.
    pub fn is_untouched(&self) -> bool {
        self.clients.values().all(|client| client.phase == Phase::Expected)
            && self.store.as_ref().is_none_or(|store| !store.is_in_use())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Nspace;
    use crate::server::NoHost;
    use crate::server::ctx::testing;
    use crate::store::{JobInfo, Limits};

    #[test]
    fn a_page_is_ready_before_its_process_comes_and_no_two_have_the_same() {
        let nspace = Nspace::new("job").unwrap();
        let info = JobInfo::from_infos(&nspace, 1, &[], "here").unwrap();
        let store = || JobStore::create(&nspace, info.clone(), &Limits::default()).unwrap();
        let mut test = testing::ctx(NoHost);
        let mut job = Job::new(&mut test.cx).unwrap();
        job.clients.insert(Rank(0), Client::expected(0, 0));
        job.prepare_page(&test.cx, Rank(0));
        assert_eq!(job.clients[&Rank(0)].page, None, "there is no data yet");
        for _ in 0..2 {
            job.store = Some(store());
            job.prepare_page(&test.cx, Rank(0));
        }
        let ready = job.clients[&Rank(0)].page;
        assert!(ready.is_some() && job.take_page(Rank(0)).is_some());
        assert_eq!(job.clients[&Rank(0)].page, ready);
        // Another process comes as that rank.
        job.leave_page(Rank(0));
        assert!(job.clients[&Rank(0)].page.is_none() && job.take_page(Rank(0)).is_some());
        assert_ne!(job.clients[&Rank(0)].page, ready);
        assert!(job.take_page(Rank(1)).is_none(), "nobody has registered it");
    }
}
