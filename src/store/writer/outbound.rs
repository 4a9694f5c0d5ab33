//! Outbound data of the writer's ranks: taken for other nodes, and read at once or by another thread.
use super::JobWriter;
use crate::data::{Key, Posted, Rank};
use crate::store::error::WriteError;
use crate::store::outbound::{Changed, Departing, Departure, Sides};

impl JobWriter {
    pub(super) fn sides(&self) -> Sides<'_> {
        Sides { visible: self.visible.records(), hidden: self.hidden.records() }
    }

    /// Takes the entries that a rank has posted for other nodes since they were last taken.
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read; nothing is taken then.
    pub fn take_outbound_new(&mut self, rank: Rank) -> Result<Vec<Posted>, WriteError> {
        let changed = self.unsent.take(rank);
        self.sides().changed(rank, &changed).map_err(|error| {
            self.unsent.put_back(rank, changed);
            error.into()
        })
    }

    /// Marks entries as new again that were taken for other nodes and did not arrive there. They have the values of
    /// now.
    pub fn put_back_outbound(&mut self, rank: Rank, keys: impl IntoIterator<Item = Key>) {
        self.unsent.add(rank, keys);
    }

    /// Begins to have another thread read what ranks have posted for other nodes: all of it, or what has not been taken
    /// yet, which is taken then. It ends with [`end_departure`](Self::end_departure).
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read, or there is no memory.
    pub fn departure(&mut self, ranks: &[Rank], takes: bool) -> Result<Departure, WriteError> {
        let (visible, hidden) = (self.visible.frozen(ranks)?, self.hidden.frozen(ranks)?);
        let mut changed = |rank| if takes { self.unsent.take(rank) } else { Changed::All };
        let ranks = ranks.iter().map(|rank| Departing { rank: *rank, changed: changed(*rank) }).collect();
        let number = self.departures.begin(self.words().epoch());
        Ok(Departure { job: self.reader.job_id(), number, visible, hidden, ranks, takes })
    }

    /// Ends a departure. The data that it took is new again where it was not read. A departure of another writer is
    /// only dropped.
    pub fn end_departure(&mut self, departure: Departure, was_read: bool) {
        if !self.is_own_departure(&departure) {
            return;
        }
        self.departures.end(departure.number).into_iter().for_each(|block| self.hidden.discard_block(block));
        if departure.takes && !was_read {
            departure.ranks.into_iter().for_each(|of| self.unsent.put_back(of.rank, of.changed));
        }
    }

    /// Returns whether a departure is one of this job.
    pub fn is_own_departure(&self, departure: &Departure) -> bool {
        departure.job == self.reader.job_id()
    }

    /// Bytes of the records of a rank, or none if `new` is asked for and there is nothing new for other nodes.
    pub fn outbound_bytes(&self, rank: Rank, new: bool) -> u64 {
        if new && !self.unsent.has(rank) { 0 } else { self.sides().bytes(rank).unwrap_or(0) }
    }

    /// Returns whether a rank of this node has posted a key for other nodes, be it for this node as well or not.
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read.
    pub fn is_outbound(&self, rank: Rank, key: &Key) -> Result<bool, WriteError> {
        Ok(self.hidden.get(rank, key)?.is_some())
    }

    /// All entries that a rank has posted for other nodes.
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read.
    pub fn outbound_all(&self, rank: Rank) -> Result<Vec<Posted>, WriteError> {
        Ok(self.sides().all(rank)?)
    }
}
