//! The current record of each rank, in a set of segments.
use std::collections::{BTreeMap, HashMap, HashSet};

use instanton_layout::Malformed;
use instanton_layout::block::{self, Attempt};
use instanton_layout::record::{self, Item, OwnKeys, Owner, Payload, Query, Record, flags};
use instanton_layout::words::RawWords;

use super::budget::Budget;
use super::encode::{Encode, RawValue, ReadError};
use super::heap::{Block, Maker, SegmentSet};
use super::write_error::WriteError;
use crate::data::{Key, Rank, Value};

/// What becomes of some keys: a scope and a value, or nothing any more.
pub(super) type Changes<'a> = BTreeMap<&'a Key, Option<(u8, &'a Value)>>;

/// Records by rank.
pub(super) struct Table {
    pub(super) set: SegmentSet,
    pub(super) blocks: HashMap<u32, Block>,
    maker: Maker,
}

impl Table {
    /// No records, for the job with that number.
    pub(super) fn new(job: u64, budget: &Budget) -> Self {
        let maker = Maker { job, budget: budget.clone(), last_number: 0, last_version: 0 };
        Self { set: SegmentSet::default(), blocks: HashMap::new(), maker }
    }

    /// Moves all records to segments of their own and answers the old ones; `None` where there is no room for both.
    pub(super) fn renew(&mut self) -> Result<Option<SegmentSet>, ReadError> {
        if self.maker.budget.left() < self.set.live() {
            return Ok(None);
        }
        let last_number = self.maker.last_number;
        let mut set = SegmentSet::default();
        let mut blocks = HashMap::with_capacity(self.blocks.len());
        for (rank, block) in &self.blocks {
            match set.put(self.set.record(block)?, &mut self.maker) {
                Ok(block) => blocks.insert(*rank, block),
                Err(_) => {
                    // Readers count on numbers without gaps.
                    self.maker.last_number = last_number;
                    return Ok(None);
                }
            };
        }
        self.blocks = blocks;
        Ok(Some(std::mem::replace(&mut self.set, set)))
    }

    /// Reads a rank's record in its block, which nobody else writes.
    fn read<'a, T>(
        &'a self,
        rank: Rank,
        f: impl FnOnce(RawWords<'a>, &Record<RawWords<'a>>) -> Result<T, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let Some(block) = self.blocks.get(&rank.0) else { return Ok(None) };
        let segment = self.set.segment(block.at.segment).ok_or(Malformed::Owner)?;
        let words = segment.memory.mapping.words();
        match block::read(words, block.at.word as usize, rank.0, |record, _| Ok(f(words, record))) {
            Attempt::Done(out) => out.map(Some),
            Attempt::Changed => Err(Malformed::Owner.into()),
            Attempt::Bad(error) => Err(error.into()),
        }
    }

    /// What a rank has under a key, with its scope.
    pub(super) fn get(&self, rank: Rank, key: &Key) -> Result<Option<(u8, Value)>, ReadError> {
        let found = self.read(rank, |words, record| {
            let Some(entry) = record.find(&Query::new(key.as_bytes()))? else { return Ok(None) };
            Ok(Some((entry.scope, RawValue::of_entry(words, &entry).to_value()?)))
        })?;
        Ok(found.flatten())
    }

    /// All that a rank has.
    pub(super) fn all(&self, rank: Rank) -> Result<Vec<(u8, Key, Value)>, ReadError> {
        let stored = self.read(rank, stored)?.unwrap_or_default();
        stored.iter().map(|item| Ok((item.scope, item.key()?, item.value.to_value()?))).collect()
    }

    /// Writes a rank's record with some changes to a block of its own, which nothing refers to yet. None is needed where nothing
    /// remains.
    pub(super) fn prepare(&mut self, rank: Rank, changes: &Changes<'_>) -> Result<Option<Block>, WriteError> {
        let new = changes
            .iter()
            .filter_map(|(key, change)| change.map(|(scope, value)| (scope, *key, value)))
            .map(|(scope, key, value)| {
                Encode::new(scope, key, value).map_err(|error| WriteError::Value { key: key.clone(), error })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let changed: HashSet<&[u8]> = changes.keys().map(|key| key.as_bytes()).collect();
        let old = self.read(rank, stored)?.unwrap_or_default();
        let kept = old.iter().map(Stored::item).filter(|item| !changed.contains(item.key));
        let items = kept.chain(new.iter().map(Encode::item));
        if items.clone().next().is_none() {
            return Ok(None);
        }
        let record = record::build(Owner::Modex, rank.0, items, &mut OwnKeys);
        drop(old);
        self.set.put(record, &mut self.maker).map(Some)
    }
}

/// An entry of a record that is about to be replaced.
struct Stored<'a> {
    key: Vec<u8>,
    scope: u8,
    flags: u8,
    value: RawValue<'a>,
    bytes: Vec<u8>,
}

impl Stored<'_> {
    fn key(&self) -> Result<Key, ReadError> {
        Key::new(&self.key).map_err(|_| Malformed::Owner.into())
    }

    fn item(&self) -> Item<'_> {
        let payload = match self.flags {
            flags if flags & flags::NULL != 0 => Payload::Null,
            flags if flags & flags::INLINE != 0 => Payload::Scalar(self.value.scalar().unwrap_or(0)),
            flags if flags & flags::ARCHIVE != 0 => Payload::Archive(&self.bytes),
            _ => Payload::Bytes(&self.bytes),
        };
        Item { key: &self.key, scope: self.scope, data_type: self.value.data_type().0, payload }
    }
}

fn stored<'a>(words: RawWords<'a>, record: &Record<RawWords<'a>>) -> Result<Vec<Stored<'a>>, ReadError> {
    record
        .iter()
        .map(|entry| {
            let entry = entry?;
            let value = RawValue::of_entry(words, &entry);
            let key = words.to_vec(entry.key_word, entry.key_len)?;
            Ok(Stored { key, scope: entry.scope, flags: entry.flags, value, bytes: value.to_bytes() })
        })
        .collect()
}
