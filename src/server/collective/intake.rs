//! Intake: data of other nodes on its way into the stores of jobs, as much at a time as the caller likes.
//!
//! Everything is prepared before anything is published: what cannot be stored as a whole, nobody sees any of. A job
//! that is over by then, or has begun anew, has no part in it any more. Much data of one process is composed and written
//! by a thread, where the caller has one: then the intake waits for that.
use std::collections::BTreeMap;
use std::vec::IntoIter;

use crate::data::{Nspace, Proc, Status};
use crate::server::ctx::Ctx;
use crate::server::ctx::effect::Effect;
use crate::server::jobs::store::{Arriving, Inbound, JobStore};
use crate::server::jobs::{Jobs, awaited_keys};
use crate::store::WriteError;
use crate::store::exchange::RankData;
use crate::trace;

/// Bytes of one process's data from which on a thread prepares it; fewer in tests, so that simulated data comes to it.
const MUCH: usize = if cfg!(test) { 700 } else { 256 << 10 };

/// How far an intake has come.
#[derive(Debug)]
pub enum Progress {
    Done,
    /// There is more for the next step.
    More,
    /// A thread is to [work](Writing::step) at data of a process, which is [given back](Intake::worked) then.
    Works(Box<Writing>),
}

/// Data of a process that a thread composes, and then writes.
#[derive(Debug)]
pub struct Writing {
    proc: Proc,
    arriving: Arriving,
    has_room: bool,
}

impl Writing {
    /// Takes the next step.
    ///
    /// # Errors
    /// [`WriteError`] for data that cannot be stored.
    pub fn step(&mut self) -> Result<(), WriteError> {
        self.arriving.step()
    }
}

/// Data of other nodes that is taken in.
#[derive(Debug)]
pub struct Intake {
    /// Data that is to be prepared, each with the identity of the server that sent it.
    rest: IntoIter<(u64, RankData)>,
    /// Data that is prepared, by job.
    prepared: BTreeMap<Nspace, Inbound>,
    /// Bytes of a process's data from which on a thread prepares it.
    much: usize,
}

impl Intake {
    /// Data that is taken in with no help of threads.
    pub fn new(ranks: Vec<(u64, RankData)>) -> Self {
        Intake { rest: ranks.into_iter(), prepared: BTreeMap::new(), much: usize::MAX }
    }

    /// Data of which threads prepare what is much.
    pub fn with_threads(ranks: Vec<(u64, RankData)>) -> Self {
        Intake { much: MUCH, ..Intake::new(ranks) }
    }

    /// Goes on with the data of so many processes.
    ///
    /// # Errors
    /// The status of data that cannot be stored. It is over then, and what is not published will not be.
    pub fn step(&mut self, cx: &mut Ctx, jobs: &mut Jobs, most: usize) -> Result<Progress, Status> {
        let result = match self.rest.as_slice().is_empty() {
            false => self.prepare(jobs, most),
            true => self.publish(cx, jobs, most).map(|is_done| if is_done { Progress::Done } else { Progress::More }),
        };
        if result.is_err() {
            self.give_up(jobs);
        }
        result
    }

    /// A thread has taken a step of what was to be prepared.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn worked(
        &mut self,
        jobs: &mut Jobs,
        mut writing: Box<Writing>,
        result: Result<(), WriteError>,
    ) -> Result<Progress, Status> {
        let Writing { proc, arriving, .. } = &mut *writing;
        let store = jobs.store_mut(&proc.nspace).filter(|store| store.is_here(arriving));
        let (Some(store), Some(inbound)) = (store, self.prepared.get_mut(&proc.nspace)) else {
            trace!("{} is over before data of other nodes is taken in", proc.nspace);
            return Ok(Progress::More);
        };
        let has_room = std::mem::replace(&mut writing.has_room, true);
        let result = match (result, has_room) {
            (Ok(()), false) => store.make_room(inbound, &mut writing.arriving),
            (result, _) => result,
        };
        match result {
            Ok(()) if has_room => match store.arrived(inbound, writing.arriving) {
                Ok(()) => Ok(Progress::More),
                Err(error) => {
                    let status = not_stored(&writing.proc, &error, error.status());
                    self.give_up(jobs);
                    Err(status)
                }
            },
            Ok(()) => Ok(Progress::Works(writing)),
            Err(error) => {
                store.give_up_arriving(writing.arriving, &error);
                let status = not_stored(&writing.proc, &error, error.status());
                self.give_up(jobs);
                Err(status)
            }
        }
    }

    fn prepare(&mut self, jobs: &mut Jobs, most: usize) -> Result<Progress, Status> {
        for (sender, RankData { proc, commits, entries }) in self.rest.by_ref().take(most) {
            let Some(store) = jobs.store_mut(&proc.nspace) else {
                trace!("another node sends data of {proc}, whose namespace is not registered here");
                continue;
            };
            if store.is_local(proc.rank) {
                trace!("another node sends data of {proc}, which runs here; it is left aside");
                continue;
            }
            if self.prepared.get(&proc.nspace).is_none_or(|inbound| !store.is_for_this(inbound)) {
                let inbound = store.inbound().map_err(|e| not_stored(&proc, &e, e.status()))?;
                self.prepared.insert(proc.nspace.clone(), inbound);
            }
            let Some(inbound) = self.prepared.get_mut(&proc.nspace) else { continue };
            let bytes = entries.iter().map(|entry| entry.value.size()).fold(0, usize::saturating_add);
            if bytes >= self.much {
                let arriving = store.arriving((sender, commits), proc.rank, entries);
                let arriving = arriving.map_err(|e| not_stored(&proc, &e, e.status()))?;
                return Ok(Progress::Works(Box::new(Writing { proc, arriving, has_room: false })));
            }
            let prepared = store.prepare(inbound, (sender, commits), proc.rank, entries);
            prepared.map_err(|e| not_stored(&proc, &e, e.status()))?;
        }
        Ok(Progress::More)
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

fn not_stored(proc: &Proc, error: &dyn std::error::Error, status: Status) -> Status {
    trace!("data of {proc} cannot be stored: {error}");
    status
}

/// Returns the store that inbound data is for, where it is still there.
fn own_store<'a>(jobs: &'a mut Jobs, nspace: &Nspace, inbound: &Inbound) -> Option<&'a mut JobStore> {
    jobs.store_mut(nspace).filter(|store| store.is_for_this(inbound))
}
