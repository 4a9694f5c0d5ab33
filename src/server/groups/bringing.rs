//! Bringing: what members of this node have posted and give for a group, encoded for the other nodes.
//!
//! Where that is large, a thread reads and encodes it. A member whose records have changed by then has not kept still
//! while it makes a group: its data is read at once.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::part::Part;
use crate::data::{Info, Nspace, Proc, Rank, Scope, Status, keys};
use crate::message::door::PeerId;
use crate::message::{Posted, array_of};
use crate::server::collective::brought::NAMED_ORDER;
use crate::server::collective::exchange;
use crate::server::ctx::Ctx;
use crate::server::ctx::ticket::Ticket;
use crate::server::jobs::Jobs;
use crate::server::jobs::store::Departing;
use crate::store::exchange::{self as encoding, RankData, Sender};
use crate::trace;

/// Bytes from which on a thread does it; fewer in tests, so that simulated groups come to it.
const LARGE: u64 = if cfg!(test) { 256 } else { 64 << 10 };

/// Attributes and orders that a member gives for its group, beside what it has posted.
#[derive(Debug)]
struct Given {
    attributes: Arc<Vec<Info>>,
    /// The order that it wants the members to have, and that in which it has named them.
    orders: [Option<Vec<Proc>>; 2],
}

/// Data that is to be encoded.
#[derive(Debug)]
pub struct Bringing {
    sender: Sender,
    members: Vec<(Proc, Given)>,
    posted: Vec<(Nspace, Departing)>,
    made: Option<Result<Vec<u8>, Status>>,
}

/// Place where a thread finds it, and leaves what it has made.
pub type Place = Arc<Mutex<Option<Bringing>>>;

impl Bringing {
    /// Begins what a thread is to do for peers with so many [bytes], with a ticket that tells of its end. `None` where
    /// there is little to do, or this cannot be done: then it is [read at once](data).
    pub fn begin(
        cx: &mut Ctx,
        jobs: &mut Jobs,
        members: &[Proc],
        part: &Part,
        (bytes, peers): (u64, Vec<PeerId>),
        ticket: impl FnOnce() -> Ticket + Send + 'static,
    ) -> Option<Place> {
        if bytes <= LARGE {
            return None;
        }
        let mut begun = Bringing {
            sender: exchange::sender(cx),
            members: members.iter().map(|proc| (proc.clone(), given_by(jobs, part, proc))).collect(),
            posted: Vec::new(),
            made: None,
        };
        for (nspace, ranks) in by_nspace(members) {
            let Some(store) = jobs.store_mut(nspace) else { continue };
            match store.departing(&ranks, false) {
                Ok(departing) => begun.posted.push((nspace.clone(), departing)),
                Err(e) => {
                    trace!("what processes of {nspace} have posted is read at once: {e}");
                    begun.end(jobs);
                    return None;
                }
            }
        }
        let place = Arc::new(Mutex::new(Some(begun)));
        let theirs = place.clone();
        let worker = cx.offload_for(peers, "group", move || {
            lock(&theirs).iter_mut().for_each(Bringing::make);
            ticket()
        });
        if let Err(e) = worker {
            trace!("no thread for what members of a group bring: {e}");
            lock(&place).take().into_iter().for_each(|begun| _ = begun.end(jobs));
            return None;
        }
        Some(place)
    }

    fn make(&mut self) {
        let mut posted = BTreeMap::new();
        for (nspace, departing) in &self.posted {
            let Ok(outbound) = departing.read() else { return };
            posted.extend(outbound.into_iter().map(|of| exchange::carried(nspace, of)).map(|of| (of.proc.clone(), of)));
        }
        let ranks = self.members.iter().map(|(proc, given)| with_given(proc, posted.remove(proc), given)).collect();
        self.made = Some(encode(&self.sender, ranks));
    }

    /// Ends it. Returns what was made, unless it does not count.
    fn end(self, jobs: &mut Jobs) -> Option<Result<Vec<u8>, Status>> {
        let mut counts = true;
        for (nspace, departing) in self.posted {
            let store = jobs.store_mut(&nspace).filter(|store| store.is_of_this(&departing));
            counts &= store.map(|store| store.end_departing(departing, self.made.is_some())).is_some();
        }
        self.made.filter(|_| counts)
    }
}

/// Ends what a thread has done. Returns the data of these members, read now where it has changed meanwhile.
///
/// # Errors
/// As [`data`].
pub fn finish(cx: &Ctx, jobs: &mut Jobs, place: &Place, members: &[Proc], part: &Part) -> Result<Vec<u8>, Status> {
    let made = lock(place).take().and_then(|begun| begun.end(jobs));
    made.unwrap_or_else(|| data(cx, jobs, members, part))
}

/// Ends what a thread has done for nobody.
pub fn give_up(jobs: &mut Jobs, place: &Place) {
    lock(place).take().into_iter().for_each(|begun| _ = begun.end(jobs));
}

/// Collects what members of this node have posted, and given for the group: the latter with the scope INTERNAL, and so
/// the order that they want the members to have.
///
/// # Errors
/// The status of data that cannot be read, or `ERR_PACK_FAILURE`.
pub fn data(cx: &Ctx, jobs: &Jobs, members: &[Proc], part: &Part) -> Result<Vec<u8>, Status> {
    let mut ranks = Vec::new();
    for proc in members {
        let posted = jobs.store(&proc.nspace).map(|store| store.outbound(proc.rank)).transpose();
        let posted = posted.map_err(|e| e.status())?.map(|posted| exchange::carried(&proc.nspace, posted));
        ranks.push(with_given(proc, posted, &given_by(jobs, part, proc)));
    }
    encode(&exchange::sender(cx), ranks)
}

fn given_by(jobs: &Jobs, part: &Part, proc: &Proc) -> Given {
    // That of the first member of all by name counts, and is told unless everybody knows it.
    let is_first = part.first.as_ref() == Some(proc);
    let named = is_first.then(|| jobs.each(&part.order)).filter(|order| !order.is_sorted());
    let attributes = part.given.get(proc).cloned().unwrap_or_default();
    Given { attributes, orders: [part.final_orders.get(proc).cloned(), named] }
}

fn with_given(proc: &Proc, posted: Option<RankData>, Given { attributes, orders }: &Given) -> RankData {
    let mut of = posted.unwrap_or_else(|| RankData { proc: proc.clone(), commits: 0, entries: Vec::new() });
    let keys = [keys::GROUP_FINAL_MEMBERSHIP_ORDER, NAMED_ORDER];
    let orders = keys.into_iter().zip(orders.iter().cloned());
    let orders = orders.filter_map(|(key, order)| Some(Info::new(key, array_of(order?))));
    let given = attributes.iter().cloned().chain(orders);
    of.entries.extend(given.map(|Info { key, value, .. }| Posted { scope: Scope::INTERNAL, key, value }));
    of
}

fn encode(sender: &Sender, ranks: Vec<RankData>) -> Result<Vec<u8>, Status> {
    encoding::write(sender, ranks, None).map_err(|e| {
        trace!("what members of a group have posted cannot be sent: {e}");
        Status::ERR_PACK_FAILURE
    })
}

/// Bytes that members of this node have posted and give.
pub fn bytes(jobs: &Jobs, members: &[Proc], part: &Part) -> u64 {
    let posted = |(nspace, ranks): (&Nspace, Vec<Rank>)| Some(jobs.store(nspace)?.outbound_bytes(&ranks, false));
    let given = members.iter().filter_map(|proc| part.given.get(proc)).map(|given| size(given) as u64);
    by_nspace(members).into_iter().filter_map(posted).sum::<u64>() + given.sum::<u64>()
}

fn by_nspace(members: &[Proc]) -> BTreeMap<&Nspace, Vec<Rank>> {
    let mut ranks: BTreeMap<&Nspace, Vec<Rank>> = BTreeMap::new();
    members.iter().for_each(|proc| ranks.entry(&proc.nspace).or_default().push(proc.rank));
    ranks
}

/// Bytes of attributes.
pub fn size(given: &[Info]) -> usize {
    given.iter().map(|info| info.value.size()).sum()
}

fn lock(place: &Place) -> std::sync::MutexGuard<'_, Option<Bringing>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
