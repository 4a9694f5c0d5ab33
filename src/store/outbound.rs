//! Outbound data: what ranks of this node have posted for other nodes, and which of it these have not been sent.
//!
//! The writer notes the changed keys of each rank until they are taken. Much data is read by another thread, from a
//! [`Departure`]: the writer makes it, and says at its end whether the records are still those that were read. Records
//! do not move to new segments while there is one.
use std::collections::{BTreeMap, HashSet};

use instanton_layout::job::Reference;

use super::error::{ReadError, WriteError};
use super::modex::records::{Records, Snapshot};
use crate::data::{Key, Posted, Rank, Scope};

/// Changed keys of a rank that are known one by one. Where there are more, all that it has posted goes out again.
const MAX_UNSENT: usize = 8192;

/// Changes of a rank that other nodes have not been sent.
pub(super) enum Changed {
    Keys(HashSet<Key>),
    All,
}

/// Changes that other nodes have not been sent, by rank.
#[derive(Default)]
pub(super) struct Unsent(BTreeMap<u32, Changed>);

impl Unsent {
    /// Takes the changes of a rank.
    pub(super) fn take(&mut self, rank: Rank) -> Changed {
        self.0.remove(&rank.0).unwrap_or(Changed::Keys(HashSet::new()))
    }

    /// Adds changed keys of a rank.
    pub(super) fn add(&mut self, rank: Rank, keys: impl IntoIterator<Item = Key>) {
        let unsent = self.0.entry(rank.0).or_insert(Changed::Keys(HashSet::new()));
        let Changed::Keys(known) = unsent else { return };
        known.extend(keys);
        if known.len() > MAX_UNSENT {
            *unsent = Changed::All;
        }
    }

    /// Adds all that a rank has posted.
    pub(super) fn add_all(&mut self, rank: Rank) {
        self.0.insert(rank.0, Changed::All);
    }

    /// Adds changes that were taken.
    pub(super) fn put_back(&mut self, rank: Rank, changed: Changed) {
        match changed {
            Changed::Keys(keys) => self.add(rank, keys),
            Changed::All => self.add_all(rank),
        }
    }

    /// Forgets changed keys of a rank, which has none of them any more.
    pub(super) fn forget(&mut self, rank: Rank, keys: &[Key]) {
        if let Some(Changed::Keys(known)) = self.0.get_mut(&rank.0) {
            keys.iter().for_each(|key| _ = known.remove(key));
        }
    }

    /// Returns whether a rank has changes.
    pub(super) fn has(&self, rank: Rank) -> bool {
        self.0.contains_key(&rank.0)
    }
}

/// Records that each audience sees.
pub(super) struct Sides<'a> {
    pub(super) visible: &'a dyn Records,
    pub(super) hidden: &'a dyn Records,
}

impl Sides<'_> {
    /// All entries that a rank has posted for other nodes.
    pub(super) fn all(&self, rank: Rank) -> Result<Vec<Posted>, ReadError> {
        let mut all = self.visible.all(rank)?;
        all.retain(|posted| posted.scope == Scope::GLOBAL);
        all.extend(self.hidden.all(rank)?);
        Ok(all)
    }

    /// The changed ones.
    pub(super) fn changed(&self, rank: Rank, changed: &Changed) -> Result<Vec<Posted>, ReadError> {
        let Changed::Keys(keys) = changed else { return self.all(rank) };
        let mut new = Vec::with_capacity(keys.len());
        for key in keys {
            let shared = self.visible.get(rank, key)?.filter(|(scope, _)| *scope == Scope::GLOBAL);
            let found = match shared {
                None => self.hidden.get(rank, key)?,
                shared => shared,
            };
            new.extend(found.map(|(scope, value)| Posted { scope, key: key.clone(), value }));
        }
        Ok(new)
    }

    /// The place and version of a rank's newest records.
    pub(super) fn newest(&self, rank: Rank) -> Result<[Option<(Reference, u64)>; 2], ReadError> {
        Ok([self.visible.newest(rank)?, self.hidden.newest(rank)?])
    }

    /// Bytes of a rank's records.
    pub(super) fn bytes(&self, rank: Rank) -> Result<u64, ReadError> {
        Ok(self.visible.bytes(rank)? + self.hidden.bytes(rank)?)
    }
}

/// A rank of a departure.
pub(super) struct Departing {
    pub(super) rank: Rank,
    pub(super) changed: Changed,
    /// The newest records of the rank when the departure was made.
    pub(super) newest: [Option<(Reference, u64)>; 2],
}

/// Data that ranks have posted for other nodes, to be read by another thread.
pub struct Departure {
    /// Job that it is of.
    pub(super) job: u64,
    pub(super) visible: Snapshot,
    pub(super) hidden: Snapshot,
    pub(super) ranks: Vec<Departing>,
    /// True if the changes were taken, and are not only looked at.
    pub(super) takes: bool,
}

impl Departure {
    /// Reads it: the entries of each rank. They may be nonsense where the rank's records have changed since, which the
    /// writer [finds out](super::JobWriter::end_departure).
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read.
    pub fn read(&self) -> Result<Vec<(Rank, Vec<Posted>)>, WriteError> {
        let sides = Sides { visible: self.visible.records(), hidden: self.hidden.records() };
        let of = |departing: &Departing| Ok((departing.rank, sides.changed(departing.rank, &departing.changed)?));
        self.ranks.iter().map(of).collect()
    }
}

impl std::fmt::Debug for Departure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Departure({} ranks)", self.ranks.len())
    }
}
