//! Contribution: this node's part of a fence, where it is large: read and encoded by a thread.
//!
//! The data is taken first, so that two fences do not carry it twice. Data that ranks post meanwhile is for the next
//! one. If a job is over by the time that it is made, or cannot be read, it does not count, and what it took is new
//! again.
use super::arrived::Arrived;
use super::exchange::{self, Sent};
use super::signature::Signature;
use crate::data::{Nspace, Rank};
use crate::server::ctx::Ctx;
use crate::server::jobs::Jobs;
use crate::server::jobs::store::Departing;
use crate::store::exchange::{self as encoding, Sender};
use crate::trace;

/// Bytes of records from which on a contribution is large; fewer in tests, so that simulated fences come to it.
const LARGE: u64 = if cfg!(test) { 256 } else { 64 << 10 };

/// This node's part of a fence.
#[derive(Debug)]
pub struct Contribution {
    sender: Sender,
    /// True if it is carried only once.
    whole: bool,
    parts: Vec<(Nspace, Departing)>,
    made: Option<(Vec<u8>, Sent)>,
}

impl Contribution {
    /// Bytes of the records that are to be carried.
    pub fn bytes(jobs: &Jobs, signature: &Signature, arrived: &Arrived) -> u64 {
        let whole = signature.is_whole_job();
        let bytes = |nspace| Some(jobs.store(nspace)?.outbound_bytes(&ranks(arrived, nspace), whole));
        signature.namespaces().filter_map(bytes).sum()
    }

    /// Begins a large one, of so many bytes. `None` where it is small, or this cannot be done.
    pub fn begin(cx: &Ctx, jobs: &mut Jobs, signature: &Signature, arrived: &Arrived, bytes: u64) -> Option<Self> {
        if bytes <= LARGE {
            return None;
        }
        let whole = signature.is_whole_job();
        let mut begun = Contribution { sender: exchange::sender(cx), whole, parts: Vec::new(), made: None };
        for nspace in signature.namespaces() {
            let Some(store) = jobs.store_mut(nspace) else { continue };
            match store.departing(&ranks(arrived, nspace), whole) {
                Ok(departing) => begun.parts.push((nspace.clone(), departing)),
                Err(e) => {
                    trace!("what processes of {nspace} have posted is read at once: {e}");
                    begun.end(jobs);
                    return None;
                }
            }
        }
        Some(begun)
    }

    /// Makes it.
    pub fn make(&mut self) {
        let mut ranks = Vec::new();
        for (nspace, departing) in &self.parts {
            let Ok(outbound) = departing.read() else { return };
            ranks.extend(outbound.into_iter().map(|of| exchange::carried(nspace, of)));
        }
        let sent = exchange::sent(self.whole, &ranks);
        self.made = encoding::write(&self.sender, ranks, None).ok().map(|data| (data, sent));
    }

    /// Ends it. Returns what was made, and is carried only once, unless it does not count.
    pub fn end(self, jobs: &mut Jobs) -> Option<(Vec<u8>, Sent)> {
        let mut counts = true;
        let mut ended = Vec::new();
        for (nspace, departing) in self.parts {
            let store = jobs.store_mut(&nspace).filter(|store| store.is_of_this(&departing));
            let of_this = store.map(|store| store.end_departing(departing, self.made.is_some())).is_some();
            counts &= of_this;
            ended.push((nspace, of_this));
        }
        let (data, sent) = self.made?;
        if counts {
            return Some((data, sent));
        }
        // Data of the jobs that count was taken for this contribution, and nobody carries it now.
        let counted = |nspace: &Nspace| ended.iter().any(|(of, counts)| of == nspace && *counts);
        exchange::take_back(jobs, sent.into_iter().filter(|(proc, _)| counted(&proc.nspace)).collect());
        None
    }
}

/// The ranks of a namespace that have arrived.
fn ranks(arrived: &Arrived, nspace: &Nspace) -> Vec<Rank> {
    arrived.of(nspace).map(|(rank, _)| rank).collect()
}
