//! Outbound data: what ranks of this node have posted for other nodes, and which of it these have not been sent.
//!
//! The writer notes the changed keys of each rank until they are taken. Much data is read by another thread, from a
//! [`Departure`]: it leads to the records of the moment at which the writer made it, whatever ranks post meanwhile, and
//! their blocks are not written again before it ends.
use std::collections::{BTreeMap, HashSet, VecDeque};

use super::error::{ReadError, WriteError};
use super::modex::heap::Block;
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

    /// Bytes of a rank's records.
    pub(super) fn bytes(&self, rank: Rank) -> Result<u64, ReadError> {
        Ok(self.visible.bytes(rank)? + self.hidden.bytes(rank)?)
    }
}

/// A rank of a departure.
pub(super) struct Departing {
    pub(super) rank: Rank,
    pub(super) changed: Changed,
}

/// Departures that are under way, and what they hold.
#[derive(Default)]
pub(super) struct Departures {
    /// The epoch of each, by its number.
    under_way: BTreeMap<u64, u64>,
    last: u64,
    /// Blocks that were replaced out of sight of readers, each with the number of the last departure that may look at it.
    held: VecDeque<(u64, Block)>,
}

impl Departures {
    /// Adds one that begins in an epoch, and returns its number.
    pub(super) fn begin(&mut self, epoch: u64) -> u64 {
        self.last += 1;
        self.under_way.insert(self.last, epoch);
        self.last
    }

    /// Takes one out, and returns the blocks that none of the others holds.
    pub(super) fn end(&mut self, number: u64) -> Vec<Block> {
        self.under_way.remove(&number);
        let oldest = self.under_way.keys().next().copied().unwrap_or(u64::MAX);
        let held = self.held.iter().take_while(|(last, _)| *last < oldest).count();
        self.held.drain(..held).map(|(_, block)| block).collect()
    }

    /// The oldest epoch that one of them holds, all ones if none does.
    pub(super) fn oldest(&self) -> u64 {
        self.under_way.values().min().copied().unwrap_or(u64::MAX)
    }

    /// Holds a block that was replaced, or returns it.
    pub(super) fn hold(&mut self, block: Block) -> Option<Block> {
        if self.under_way.is_empty() {
            return Some(block);
        }
        self.held.push_back((self.last, block));
        None
    }

    /// Forgets blocks that are held, whose segments are not in use any more.
    pub(super) fn forget_blocks(&mut self) {
        self.held.clear();
    }
}

/// Data that ranks have posted for other nodes, to be read by another thread.
pub struct Departure {
    /// Job that it is of.
    pub(super) job: u64,
    /// Its number among those of the job.
    pub(super) number: u64,
    pub(super) visible: Snapshot,
    pub(super) hidden: Snapshot,
    pub(super) ranks: Vec<Departing>,
    /// True if the changes were taken, and are not only looked at.
    pub(super) takes: bool,
}

impl Departure {
    /// Reads it: the entries of each rank, as they were when it was made.
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
