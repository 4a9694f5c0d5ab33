//! Information of a job, as stock clients take it when they come in: what is said of the job as it is, of its nodes and
//! applications as arrays, and what is said of a rank as one entry that holds the rest of it packed.
//!
//! It is packed once for all clients of a job that pack in the same form, by the door's
//! [worker](crate::transport::worker) where there are many ranks, and charged once, to the job. Clients from release 6
//! on take no message of more than 32 MiB: what does not fit is left out, the ranks of other nodes first. A client that
//! misses a reserved key of such a rank asks for it by itself.
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::body::{Bodies, is_for};
use super::dstore;
use crate::account::{self, Account, Charge};
use crate::data::{DataArray, DataType, Info, Key, Rank, Status, Value, keys};
use crate::message::door::{Each, JobInformation};
use crate::trace;
use crate::wire::{Form, WireError};

/// Key under which the entries of a rank come together.
const OF_RANK: &str = "pmix.pblob";
/// Most bytes, beside those of the job itself.
const MOST: usize = 24 << 20;
/// Ranks that show how much all of them will be.
const SAMPLE: u32 = 1024;
/// Most ranks of a job that is packed by the control thread.
pub const FEW: u32 = 64;
/// Time for which the bytes are kept for the next client.
pub const KEPT_FOR: Duration = Duration::from_secs(10);

/// Parts of the information of a job that an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// All of them.
    All,
    /// Parts for which the [files](super::dstore) have no place.
    BesideFiles,
}

/// Kind of an answer: the form of its packs, and its parts.
pub type Kind = (Form, Parts);

/// Packs the answer to the request for the information of a job.
///
/// # Errors
/// A status when the information cannot be read or packed.
pub fn body((form, parts): Kind, job: &dyn JobInformation) -> Result<Vec<u8>, Status> {
    let mut packer = Packer { form, out: Bodies::new(form), begin: 0 };
    let mut of_job = job.of_job()?;
    of_job.retain(|info| parts == Parts::All || dstore::is_array(info));
    packer.out.one(DataType::STRING, job.nspace()).and_then(|out| out.entries(&of_job)).map_err(unpackable)?;
    packer.begin = packer.out.bytes.len();
    // A node without its peers would be worse than none: all are told, or the own one.
    if !packer.arrays(keys::NODE_INFO_ARRAY, |each| job.of_nodes(true, each))? {
        packer.arrays(keys::NODE_INFO_ARRAY, |each| job.of_nodes(false, each))?;
    }
    packer.arrays(keys::APP_INFO_ARRAY, |each| job.of_apps(each))?;
    if parts == Parts::All && !packer.ranks(job, job.ranks(), &mut (0..job.ranks()).map(Rank))? {
        let local = job.local();
        packer.ranks(job, local.len() as u32, &mut local.iter().copied())?;
    }
    Ok(packer.out.bytes)
}

fn unpackable(error: WireError) -> Status {
    trace!("the information of a job cannot be packed: {error}");
    Status::ERR_PACK_FAILURE
}

/// An answer that is put together.
struct Packer {
    form: Form,
    out: Bodies,
    /// Bytes of what is said of the job itself.
    begin: usize,
}

impl Packer {
    /// Packs an array for each member of a group, or nothing where there is no room for all of them.
    fn arrays(&mut self, key: &str, read: impl FnOnce(Each<'_>) -> Result<(), Status>) -> Result<bool, Status> {
        let key = Key::new(key).expect("a legal key");
        self.all_or_nothing(read, |packer, said| {
            let known = said.into_iter().filter(|info| is_for(packer.form, &info.key, &info.value)).collect();
            packer.out.entry(&key, &Value::from(DataArray::of_info(known)))?;
            Ok(true)
        })
    }

    /// Packs so many ranks, or none where there is no room for all of them.
    fn ranks(
        &mut self,
        job: &dyn JobInformation,
        count: u32,
        ranks: &mut dyn Iterator<Item = Rank>,
    ) -> Result<bool, Status> {
        let key = Key::new(OF_RANK).expect("a legal key");
        let (begin, mut packed) = (self.out.bytes.len(), 0);
        self.all_or_nothing(
            |each| job.of_ranks(ranks, each),
            |packer, said| {
                packer.out.entry(&key, &Value::ByteObject(rank(packer.form, &said)?))?;
                packed += 1;
                let of_all = || (packer.out.bytes.len() - begin) / SAMPLE as usize * count as usize;
                // Nobody packs for long what is thrown away then.
                Ok(packed != SAMPLE || of_all() < 2 * MOST)
            },
        )
    }

    /// Packs each thing that is read. Returns false, and has packed nothing, where there is no room for all of them.
    fn all_or_nothing(
        &mut self,
        read: impl FnOnce(Each<'_>) -> Result<(), Status>,
        mut pack: impl FnMut(&mut Self, Vec<Info>) -> Result<bool, WireError>,
    ) -> Result<bool, Status> {
        let (before, mut result) = (self.out.bytes.len(), Ok(true));
        read(&mut |said| {
            result = pack(self, said).map(|goes_on| goes_on && self.out.bytes.len() - self.begin <= MOST);
            if matches!(result, Ok(true)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let fits = result.map_err(unpackable)?;
        if !fits {
            self.out.bytes.truncate(before);
        }
        Ok(fits)
    }
}

/// A rank, and the other entries.
fn rank(form: Form, entries: &[Info]) -> Result<Vec<u8>, WireError> {
    let mut out = Bodies::new(form);
    let (rank, rest): (Vec<&Info>, Vec<&Info>) = entries.iter().partition(|info| info.key == keys::RANK);
    let Some(Value::ProcRank(rank)) = rank.first().map(|info| &info.value) else {
        return Err(WireError::Malformed("entry of a rank"));
    };
    out.one(DataType::PROC_RANK, rank)?;
    rest.iter().try_for_each(|info| out.entry(&info.key, &info.value).map(|_| ()))?;
    Ok(out.bytes)
}

/// A packed answer, which all clients share that are sent it.
#[derive(Debug)]
pub struct Packed {
    pub bytes: Vec<u8>,
    _charge: Charge,
}

impl Packed {
    /// Charges the bytes to the job of an account; none where that has no room for them.
    pub fn charged(bytes: Vec<u8>, account: &Account) -> Option<Arc<Self>> {
        let charge = account.of_its_job().charge(account::Kind::Answer, bytes.len())?;
        Some(Arc::new(Packed { bytes, _charge: charge }))
    }
}

/// A client that asks: its connection, and what it asks for.
pub type Asker = (u64, For);

/// Purpose of the information of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// The information is the answer to the request with that tag.
    Answer(u32),
    /// The information is a part of the answer to the request with that number.
    Part(u64),
}

/// Job information for a client that asks.
#[derive(Debug)]
pub enum Found {
    /// The answer.
    Packed(Arc<Packed>),
    /// The information is being packed: the client is noted.
    Awaited,
    /// Nothing: the client is noted, and it is to be packed.
    Nothing,
}

/// The answers that were packed, and those that are being packed.
#[derive(Default)]
pub struct Shelf {
    kept: Vec<Kept>,
}

struct Kept {
    job: Weak<dyn JobInformation>,
    kind: Kind,
    state: State,
}

enum State {
    Awaited(Vec<Asker>),
    Packed(Arc<Packed>, Instant),
}

impl Kept {
    fn is(&self, job: &Arc<dyn JobInformation>, kind: Kind) -> bool {
        self.kind == kind && std::ptr::addr_eq(self.job.as_ptr(), Arc::as_ptr(job))
    }
}

impl Shelf {
    /// Looks for an answer.
    pub fn ask(&mut self, job: &Arc<dyn JobInformation>, kind: Kind, asker: Asker, now: Instant) -> Found {
        match self.kept.iter_mut().find(|kept| kept.is(job, kind)).map(|kept| &mut kept.state) {
            Some(State::Packed(packed, until)) => {
                *until = now + KEPT_FOR;
                Found::Packed(packed.clone())
            }
            Some(State::Awaited(askers)) => {
                askers.push(asker);
                Found::Awaited
            }
            None => {
                self.kept.push(Kept { job: Arc::downgrade(job), kind, state: State::Awaited(vec![asker]) });
                Found::Nothing
            }
        }
    }

    /// Keeps an answer that is packed, or nothing where it cannot be had. Returns who has waited.
    pub fn keep(
        &mut self,
        job: &Arc<dyn JobInformation>,
        kind: Kind,
        packed: impl FnOnce(&[Asker]) -> Option<Arc<Packed>>,
        now: Instant,
    ) -> (Vec<Asker>, Option<Arc<Packed>>) {
        let Some(at) = self.kept.iter().position(|kept| kept.is(job, kind)) else { return (Vec::new(), None) };
        let State::Awaited(askers) = &mut self.kept[at].state else { return (Vec::new(), None) };
        let askers = std::mem::take(askers);
        let packed = packed(&askers);
        match &packed {
            Some(packed) => self.kept[at].state = State::Packed(packed.clone(), now + KEPT_FOR),
            None => drop(self.kept.swap_remove(at)),
        }
        (askers, packed)
    }

    /// Returns when to forget something.
    pub fn deadline(&self) -> Option<Instant> {
        let untils = self.kept.iter().filter_map(|kept| match &kept.state {
            State::Packed(_, until) => Some(*until),
            State::Awaited(_) => None,
        });
        untils.min()
    }

    /// Forgets what nobody has asked for of late.
    pub fn forget(&mut self, now: Instant) {
        self.kept.retain(|kept| !matches!(kept.state, State::Packed(_, until) if until <= now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stock::testing::Job;

    #[test]
    fn clients_are_told_of_no_map_expression() {
        let job = Job::new(2, 2);
        let body = body((Form::Plain, Parts::All), &*job).unwrap();
        let names = |key: &str| body.windows(key.len()).any(|bytes| bytes == key.as_bytes());
        assert!(job.of_job().unwrap().iter().any(|info| info.key == keys::NODE_MAP));
        assert!(names(keys::JOB_SIZE) && !names(keys::NODE_MAP), "{body:?}");
    }
}
