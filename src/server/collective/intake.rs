//! Intake: data of other nodes on its way into the stores of jobs, as much at a time as the caller likes.
//!
//! Everything is prepared before anything is published: what cannot be stored as a whole, nobody sees any of. A job
//! that is over by then, or has begun anew, has no part in it any more.
use std::collections::BTreeMap;
use std::vec::IntoIter;

use crate::data::{Nspace, Proc, Status};
use crate::server::ctx::Ctx;
use crate::server::ctx::effect::Effect;
use crate::server::jobs::store::{Inbound, JobStore};
use crate::server::jobs::{Jobs, awaited_keys};
use crate::store::exchange::RankData;
use crate::trace;

/// Data of other nodes that is taken in.
#[derive(Debug)]
pub struct Intake {
    /// Data that is to be prepared, each with the identity of the server that sent it.
    rest: IntoIter<(u64, RankData)>,
    /// Data that is prepared, by job.
    prepared: BTreeMap<Nspace, Inbound>,
}

impl Intake {
    pub fn new(ranks: Vec<(u64, RankData)>) -> Self {
        Intake { rest: ranks.into_iter(), prepared: BTreeMap::new() }
    }

    /// Goes on with the data of so many processes. Returns whether all is done.
    ///
    /// # Errors
    /// The status of data that cannot be stored. It is over then, and what is not published will not be.
    pub fn step(&mut self, cx: &mut Ctx, jobs: &mut Jobs, most: usize) -> Result<bool, Status> {
        let result = match self.rest.as_slice().is_empty() {
            false => self.prepare(jobs, most).map(|()| false),
            true => self.publish(cx, jobs, most),
        };
        if result.is_err() {
            self.give_up(jobs);
        }
        result
    }

    fn prepare(&mut self, jobs: &mut Jobs, most: usize) -> Result<(), Status> {
        for (sender, RankData { proc, commits, entries }) in self.rest.by_ref().take(most) {
            let Some(store) = jobs.store_mut(&proc.nspace) else {
                trace!("another node sends data of {proc}, whose namespace is not registered here");
                continue;
            };
            if store.is_local(proc.rank) {
                trace!("another node sends data of {proc}, which runs here; it is left aside");
                continue;
            }
            let not_stored = |e: &dyn std::error::Error, status| {
                trace!("data of {proc} cannot be stored: {e}");
                status
            };
            if self.prepared.get(&proc.nspace).is_none_or(|inbound| !store.is_for_this(inbound)) {
                let inbound = store.inbound().map_err(|e| not_stored(&e, e.status()))?;
                self.prepared.insert(proc.nspace.clone(), inbound);
            }
            let Some(inbound) = self.prepared.get_mut(&proc.nspace) else { continue };
            store.prepare(inbound, (sender, commits), proc.rank, entries).map_err(|e| not_stored(&e, e.status()))?;
        }
        Ok(())
    }

    fn publish(&mut self, cx: &mut Ctx, jobs: &mut Jobs, most: usize) -> Result<bool, Status> {
        for _ in 0..most {
            let Some(mut first) = self.prepared.first_entry() else { return Ok(true) };
            let nspace = first.key().clone();
            let Some(store) = own_store(jobs, &nspace, first.get()) else {
                trace!("{nspace} is over before data of other nodes is taken in");
                first.remove();
                continue;
            };
            let published = store.publish_next(first.get_mut()).map_err(|e| {
                trace!("data of {nspace} cannot be stored: {e}");
                e.status()
            })?;
            let Some((rank, entries)) = published else {
                store.end_inbound(first.remove());
                continue;
            };
            let proc = Proc::new(nspace, rank);
            let keys = awaited_keys(cx, &proc, &entries);
            store.stored(rank, entries);
            if store.is_to_reclaim() {
                cx.effect(Effect::Reclaim(proc.nspace.clone()));
            }
            cx.effect(Effect::Posted { proc, keys });
        }
        Ok(self.prepared.is_empty())
    }

    /// Leaves what is not published.
    fn give_up(&mut self, jobs: &mut Jobs) {
        for (nspace, inbound) in std::mem::take(&mut self.prepared) {
            if let Some(store) = own_store(jobs, &nspace, &inbound) {
                store.end_inbound(inbound);
            }
        }
        self.rest = Vec::new().into_iter();
    }
}

/// Returns the store that inbound data is for, where it is still there.
fn own_store<'a>(jobs: &'a mut Jobs, nspace: &Nspace, inbound: &Inbound) -> Option<&'a mut JobStore> {
    jobs.store_mut(nspace).filter(|store| store.is_for_this(inbound))
}
