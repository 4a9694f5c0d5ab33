//! Inbound data: what ranks of other nodes have posted, on its way into a job's store.
//!
//! All of it is prepared before any of it is published, and each part bears the version that its node said it has. Where
//! a rank's data has become newer in between, a part is stored anew, as one that comes late.
use std::collections::VecDeque;

use super::{JobStore, JobStoreError, Version};
use crate::data::{Key, Rank};
use crate::message::Posted;
use crate::store::{Batch, Miss, Question, WriteError};

/// Data of ranks of other nodes, on its way in.
#[derive(Debug)]
pub struct Inbound {
    batch: Batch,
    versions: VecDeque<Version>,
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
            let is_missing =
                |key: &Key| matches!(self.writer.reader().get(&Question::new(rank, key)), Err(Miss::NotFound));
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
