//! Modex exchange: what nodes tell each other of posted data, in the hosts' hands, with collecting
//! fences and by direct modex.
//!
//! A fence over a whole namespace carries only what no such fence has carried yet; what one carried that failed goes
//! out again. Other fences, and answers to direct modex, reach some nodes only and carry everything.
//!
//! Hosts may bring all this in any order, so what is said of a process bears the number of commits that it had made by
//! then. Data that was said earlier than what is known already brings keys that are missing here, and changes none.
use super::arrived::Arrived;
use super::intake::{Intake, Progress};
use super::signature::Signature;
use crate::data::{Key, Nspace, Posted, Proc, Status};
use crate::server::ctx::Ctx;
use crate::server::jobs::Jobs;
use crate::server::jobs::store::{JobStoreError, Outbound};
use crate::store::exchange::{self as encoding, Failure, Others, RankData, Sender};
use crate::trace;

/// The keys of what a fence carries of each process, to be carried again if it fails.
pub type Sent = Vec<(Proc, Vec<Key>)>;

/// Words of other nodes beside the data, all of which is taken in.
#[derive(Debug, Default, PartialEq)]
pub struct Said {
    /// The first failure, with all dead participants.
    pub failure: Option<Failure>,
    /// True if there was no data.
    pub is_empty: bool,
    /// Processes of a group that there was data of; of other collectives nobody asks for them.
    pub come: Vec<Proc>,
    /// Orders that members of a group want its members to have, each with who wants it.
    pub orders: Vec<(Proc, Vec<Proc>)>,
    /// Orders in which members have named them, those of their names left aside.
    pub named: Vec<(Proc, Vec<Proc>)>,
}

impl Said {
    /// Returns the status with which a collective has failed on another node as an error.
    ///
    /// # Errors
    /// That status.
    pub fn check(self) -> Result<(), Status> {
        let Some(Failure { status, gone }) = self.failure else { return Ok(()) };
        trace!("a meeting has failed on another node with {status}; gone: {gone:?}");
        Err(status)
    }
}

/// Data that a process has posted for others, to be carried.
pub fn carried(nspace: &Nspace, Outbound { rank, commits, entries }: Outbound) -> RankData {
    RankData { proc: Proc::new(nspace.clone(), rank), commits, entries }
}

/// The blob of a host that keeps posted data itself, for a direct modex: what it knows of some processes. Of two
/// answers, that with the higher number is newer.
///
/// # Errors
/// `ERR_PACK_FAILURE`.
pub fn of_host(server: &Proc, number: u64, ranks: Vec<(Proc, Vec<Posted>)>) -> Result<Vec<u8>, Status> {
    let sender = Sender { server: server.clone(), identity: 0 };
    let ranks = ranks.into_iter().map(|(proc, entries)| RankData { proc, commits: number, entries }).collect();
    encoding::write(&sender, ranks, None).map_err(|e| {
        trace!("posted data cannot be handed on: {e}");
        Status::ERR_PACK_FAILURE
    })
}

/// Collects this node's part of a fence, and what of it is carried only once.
///
/// # Errors
/// The status of posted data that cannot be read, or `ERR_PACK_FAILURE`.
pub fn contribution(
    cx: &Ctx,
    jobs: &mut Jobs,
    signature: &Signature,
    arrived: &Arrived,
) -> Result<(Vec<u8>, Sent), Status> {
    let whole = signature.is_whole_job();
    let mut ranks = Vec::new();
    for nspace in signature.namespaces() {
        let Some(store) = jobs.store_mut(nspace) else { continue };
        let arrived = arrived.of(nspace).map(|(rank, _)| rank);
        let outbound = match whole {
            true => store.take_new(arrived),
            false => arrived.map(|rank| store.outbound(rank)).collect(),
        };
        let outbound = outbound.map_err(|e| {
            trace!("what processes of {nspace} have posted cannot be read: {e}");
            e.status()
        })?;
        ranks.extend(outbound.into_iter().map(|of| carried(nspace, of)));
    }
    let sent = sent(whole, &ranks);
    match encoding::write(&sender(cx), ranks, None) {
        Ok(data) => Ok((data, sent)),
        Err(e) => {
            trace!("this node's data cannot be sent: {e}");
            take_back(jobs, sent);
            Err(Status::ERR_PACK_FAILURE)
        }
    }
}

/// Returns what is carried only once of data: nothing unless it goes to the whole job.
pub fn sent(whole: bool, ranks: &[RankData]) -> Sent {
    let keys = |of: &RankData| (of.proc.clone(), of.entries.iter().map(|posted| posted.key.clone()).collect());
    if whole { ranks.iter().map(keys).collect() } else { Sent::new() }
}

/// Has the next fence carry again what one carried that has not arrived.
pub fn take_back(jobs: &mut Jobs, sent: Sent) {
    for (proc, keys) in sent {
        if let Some(store) = jobs.store_mut(&proc.nspace) {
            store.put_back(proc.rank, keys);
        }
    }
}

/// Collects all that a process of this node has posted for other nodes.
///
/// # Errors
/// `ERR_NOT_FOUND`, the status of data that cannot be read, or `ERR_PACK_FAILURE`.
pub fn posted_blob(cx: &Ctx, jobs: &Jobs, proc: &Proc) -> Result<Vec<u8>, Status> {
    let store = jobs.store(&proc.nspace).ok_or(Status::ERR_NOT_FOUND)?;
    blob_of(&sender(cx), proc, store.outbound(proc.rank).map(|outbound| vec![outbound]))
}

/// Encodes all that a process of this node has posted for other nodes, as it was read.
///
/// # Errors
/// The status of data that cannot be read, or `ERR_PACK_FAILURE`.
pub fn blob_of(
    sender: &Sender,
    proc: &Proc,
    outbound: Result<Vec<Outbound>, JobStoreError>,
) -> Result<Vec<u8>, Status> {
    let outbound = outbound.map_err(|e| {
        trace!("what {proc} has posted cannot be read: {e}");
        e.status()
    })?;
    let carried = outbound.into_iter().map(|of| carried(&proc.nspace, of)).collect();
    encoding::write(sender, carried, None).map_err(|e| {
        trace!("what {proc} has posted cannot be sent: {e}");
        Status::ERR_PACK_FAILURE
    })
}

/// This server's name and nonce.
pub fn sender(cx: &Ctx) -> Sender {
    Sender { server: cx.own_name(), identity: cx.identity.nonce }
}

/// Encodes that this node's part of a collective has failed.
pub fn failure_blob(cx: &Ctx, failure: Failure) -> Vec<u8> {
    encoding::write(&sender(cx), Vec::new(), Some(failure)).unwrap_or_default()
}

/// The part of a node of which nobody is left who could come to a collective, for a host that speaks for it.
pub fn of_the_gone(server: &Proc, status: Status, gone: Vec<Proc>) -> Vec<u8> {
    let sender = Sender { server: server.clone(), identity: 0 };
    encoding::write(&sender, Vec::new(), Some(Failure { status, gone })).unwrap_or_default()
}

/// Decodes a row of blobs of other nodes.
///
/// # Errors
/// `ERR_UNPACK_FAILURE`.
pub fn others(own: &Sender, data: &[u8]) -> Result<Others, Status> {
    encoding::read(data, own).map_err(|e| {
        trace!("data from other nodes cannot be read: {e}");
        Status::ERR_UNPACK_FAILURE
    })
}

/// Stores what processes of other nodes have posted, each with the identity of the server that says so: all of it, or
/// nothing.
///
/// # Errors
/// The status of data that cannot be stored.
pub fn take_in(cx: &mut Ctx, jobs: &mut Jobs, ranks: Vec<(u64, RankData)>) -> Result<(), Status> {
    let mut intake = Intake::new(ranks);
    while !matches!(intake.step(cx, jobs, usize::MAX)?, Progress::Done) {}
    Ok(())
}
