//! Inbound data: what ranks of other nodes have posted, on its way into a job's store.
//!
//! All of it is prepared before any of it is published, and each part bears the version that its node said it has. Where
//! a rank's data has become newer in between, a part is stored anew, as one that comes late.
use std::collections::VecDeque;

use super::{JobStore, JobStoreError, Version};
use crate::data::{Key, Rank};
use crate::message::Posted;
use crate::store::{Batch, DraftedPart, Question, WriteError};

/// Data of ranks of other nodes, on its way in.
#[derive(Debug)]
pub struct Inbound {
    batch: Batch,
    versions: VecDeque<Version>,
}

/// Much data of one rank, on its way into inbound data, which a thread composes and writes.
#[derive(Debug)]
pub struct Arriving {
    part: DraftedPart,
    version: Version,
    is_composed: bool,
}

impl Arriving {
    /// Takes the next of two steps: composes it, or writes it to the room that was made for it.
    ///
    /// # Errors
    /// [`WriteError`] for data that cannot be stored.
    pub fn step(&mut self) -> Result<(), WriteError> {
        match std::mem::replace(&mut self.is_composed, true) {
            false => self.part.compose(),
            true => self.part.write(),
        }
    }
}

impl JobStore {
    /// Begins to take data of other nodes in. It ends with [`end_inbound`](Self::end_inbound).
    pub fn inbound(&mut self) -> Result<Inbound, WriteError> {
        Ok(Inbound { batch: self.writer.batch()?, versions: VecDeque::new() })
    }

    /// Returns whether inbound data is for this job.
    pub fn is_for_this(&self, inbound: &Inbound) -> bool {
        self.writer.is_own_batch(&inbound.batch)
    }

    /// Prepares what a rank had posted with so many commits, as its server says.
    ///
    /// # Errors
    /// [`WriteError`], which is what others are told who ask for these keys. The inbound data can only be ended then.
    pub fn prepare(
        &mut self,
        inbound: &mut Inbound,
        (server, commits): (u64, u64),
        rank: Rank,
        entries: Vec<Posted>,
    ) -> Result<(), WriteError> {
        let version = Version { server, commits };
        let entries = self.news(rank, version, entries);
        self.writer.prepare(&mut inbound.batch, rank, entries).map_err(|(error, entries)| {
            self.not_stored(rank, entries, error.status());
            error
        })?;
        inbound.versions.push_back(version);
        Ok(())
    }

    /// Begins to have a thread prepare such data. It ends with [`arrived`](Self::arrived) or
    /// [`give_up_arriving`](Self::give_up_arriving).
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn arriving(
        &mut self,
        (server, commits): (u64, u64),
        rank: Rank,
        entries: Vec<Posted>,
    ) -> Result<Arriving, WriteError> {
        let version = Version { server, commits };
        let entries = self.news(rank, version, entries);
        match self.writer.draft_part(rank, entries) {
            Ok(part) => Ok(Arriving { part, version, is_composed: false }),
            Err((error, entries)) => {
                self.not_stored(rank, entries, error.status());
                Err(error)
            }
        }
    }

    /// Returns whether arriving data is for this job.
    pub fn is_here(&self, arriving: &Arriving) -> bool {
        self.writer.is_own_part(&arriving.part)
    }

    /// Makes room for data that is composed.
    ///
    /// # Errors
    /// [`WriteError`] where there is none.
    pub fn make_room(&mut self, inbound: &mut Inbound, arriving: &mut Arriving) -> Result<(), WriteError> {
        self.writer.reserve_part(&mut inbound.batch, &mut arriving.part)
    }

    /// Adds data that a thread has written to the inbound data.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn arrived(&mut self, inbound: &mut Inbound, arriving: Arriving) -> Result<(), WriteError> {
        let rank = arriving.part.rank();
        self.writer.add(&mut inbound.batch, arriving.part).map_err(|(error, entries)| {
            self.not_stored(rank, entries, error.status());
            error
        })?;
        inbound.versions.push_back(arriving.version);
        Ok(())
    }

    /// Gives up arriving data, which others are told who ask for its keys.
    pub fn give_up_arriving(&mut self, arriving: Arriving, error: &WriteError) {
        let rank = arriving.part.rank();
        let entries = self.writer.give_up_part(arriving.part);
        self.not_stored(rank, entries, error.status());
    }

    /// Publishes what was prepared first, and returns its entries, which are still to be [noted](Self::stored). `None`
    /// where nothing is left.
    ///
    /// # Errors
    /// [`JobStoreError`] for data that was to be stored anew and cannot be.
    pub fn publish_next(&mut self, inbound: &mut Inbound) -> Result<Option<(Rank, Vec<Posted>)>, JobStoreError> {
        let Some(version) = inbound.versions.pop_front() else { return Ok(None) };
        let Some(published) = self.writer.publish_next(&mut inbound.batch)? else { return Ok(None) };
        let (rank, mut entries) = (published.rank, published.entries);
        if !published.is_current {
            entries = self.news(rank, version, entries);
            self.writer.update(rank, &entries)?;
        }
        self.note_version(rank, version);
        Ok(Some((rank, entries)))
    }

    /// Ends inbound data; what is not published, nobody sees.
    pub fn end_inbound(&mut self, inbound: Inbound) {
        self.writer.end_batch(inbound.batch);
    }

    /// Returns the entries that are news: where more is known of a rank already, those that are missing here.
    fn news(&self, rank: Rank, version: Version, mut entries: Vec<Posted>) -> Vec<Posted> {
        if self.is_late(rank, version) {
            let is_missing = |key: &Key| matches!(self.writer.reader().contains(&Question::new(rank, key)), Ok(false));
            entries.retain(|posted| is_missing(&posted.key));
        }
        entries
    }

    /// Returns whether more is known of a rank than this version.
    fn is_late(&self, rank: Rank, version: Version) -> bool {
        let is_newer = |known: &Version| known.server == version.server && known.commits > version.commits;
        self.posted.get(&rank).is_some_and(is_newer)
    }

    fn note_version(&mut self, rank: Rank, version: Version) {
        if !self.is_late(rank, version) {
            self.posted.insert(rank, version);
        }
    }
}
