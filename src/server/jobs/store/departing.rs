//! Departing data: what ranks of this node have posted for other nodes, read by another thread.
use super::{JobStore, JobStoreError, Outbound};
use crate::data::Rank;
use crate::store::{Departure, WriteError};

/// Data of ranks of this node that is to be read.
#[derive(Debug)]
pub struct Departing {
    departure: Departure,
    /// Commits of each rank.
    commits: Vec<u64>,
}

impl Departing {
    /// Reads it.
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read.
    pub fn read(&self) -> Result<Vec<Outbound>, WriteError> {
        let read = self.departure.read()?.into_iter().zip(&self.commits);
        Ok(read.map(|((rank, entries), commits)| Outbound { rank, commits: *commits, entries }).collect())
    }
}

impl JobStore {
    /// Begins to have another thread read what ranks have posted for other nodes: all of it, or what is
    /// [taken](Self::take_new). It ends with [`end_departing`](Self::end_departing).
    ///
    /// # Errors
    /// [`JobStoreError`] when the records cannot be read, or there is no memory.
    pub fn departing(&mut self, ranks: &[Rank], takes: bool) -> Result<Departing, JobStoreError> {
        let commits = ranks.iter().map(|rank| self.commits(*rank)).collect();
        Ok(Departing { departure: self.writer.departure(ranks, takes)?, commits })
    }

    /// Returns whether departing data is of this job.
    pub fn is_of_this(&self, departing: &Departing) -> bool {
        self.writer.is_own_departure(&departing.departure)
    }

    /// Ends departing data. The data that was taken is new again where it was not read.
    pub fn end_departing(&mut self, departing: Departing, was_read: bool) {
        self.writer.end_departure(departing.departure, was_read);
    }

    /// Bytes that are to be read for ranks.
    pub fn outbound_bytes(&self, ranks: &[Rank], new: bool) -> u64 {
        ranks.iter().map(|rank| self.writer.outbound_bytes(*rank, new)).sum()
    }
}
