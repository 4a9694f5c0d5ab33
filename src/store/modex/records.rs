//! Records of ranks, to be read by the writer; and the next record of a rank, composed of what is there and what is new.
//!
//! A rank's record may continue in older ones (`instanton_layout::chain`), so that a small commit of a rank that has
//! posted much costs what is new. Older records are merged into the new one where they are not much larger, so that
//! each byte is written again a limited number of times only; where the look-up would get too long; and where most of
//! what they hold has been replaced.
//!
//! Another thread can compose a large one from a [`Snapshot`]. The writer goes on meanwhile, with other ranks.
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use instanton_layout::Malformed;
use instanton_layout::chain::{self, Walk};
use instanton_layout::job::{JobWords, Reference};
use instanton_layout::key::HashedKey;
use instanton_layout::record::{self, Base, Entry, Item, Payload, Record, flags};
use instanton_layout::words::RawWords;

use super::heap::Block;
use crate::data::{Key, Posted, Rank, Scope, Value};
use crate::store::codec::Encode;
use crate::store::datum::Datum;
use crate::store::error::{ReadError, WriteError};
use crate::store::value_cell::ValueCell;
use crate::sys::memory::Mapping;

/// Records up to this many words are merged into any newer one.
const SMALL: usize = 1024;
/// The ratio of an older record's size to the new one's up to which it is merged into it. With three steps of it from
/// the smallest, four records reach 32 MiB before the limit on their number counts.
const RATIO: usize = 16;

/// Changes by key: a new scope and value, or `None` where the key goes.
pub(in crate::store) type Changes<'a> = BTreeMap<&'a Key, Option<(Scope, &'a Datum<'a>)>>;

/// A record of a rank: the words of its segment, itself, and where it lies.
type Stage<'r, 'a> = (RawWords<'a>, &'r Record<RawWords<'a>>, Part);

/// Segments with records, and the rank table that leads to them.
pub(in crate::store) trait Records {
    /// The words of a segment.
    fn words(&self, segment: u32) -> Option<RawWords<'_>>;
    /// The words with the directory of the rank table.
    fn directory(&self) -> JobWords<RawWords<'_>>;
}

/// Segments as they were at one time. Their records may be replaced meanwhile, and their blocks be written again.
pub(in crate::store) struct Snapshot {
    /// By number, in order.
    pub(super) segments: Vec<(u32, Arc<Mapping>)>,
    pub(super) directory: Mapping,
}

impl Records for Snapshot {
    fn words(&self, segment: u32) -> Option<RawWords<'_>> {
        let at = self.segments.binary_search_by_key(&segment, |(number, _)| *number).ok()?;
        Some(self.segments[at].1.words())
    }

    fn directory(&self) -> JobWords<RawWords<'_>> {
        JobWords::new(self.directory.words())
    }
}

impl Snapshot {
    /// The records, to be read.
    pub(in crate::store) fn records(&self) -> &dyn Records {
        self
    }
}

impl dyn Records + '_ {
    /// Goes through a rank's records, newest first, until `body` finds something.
    fn walk<'a, T>(
        &'a self,
        rank: Rank,
        mut body: impl FnMut(Stage<'_, 'a>) -> Result<Option<T>, Malformed>,
    ) -> Result<Option<T>, ReadError> {
        let mut found = None;
        self.walk_until(rank, &mut |stage| {
            found = body(stage)?;
            Ok(found.is_some())
        })?;
        Ok(found)
    }

    /// [`walk`](Self::walk) until `body` returns true. It is in the library once, for all that is not done in a hurry.
    fn walk_until<'a>(
        &'a self,
        rank: Rank,
        body: &mut dyn FnMut(Stage<'_, 'a>) -> Result<bool, Malformed>,
    ) -> Result<(), ReadError> {
        let segment = |number| Some((self.words(number)?, ()));
        let mut sought = |link: chain::Link<'_, RawWords<'a>>| {
            let part = Part { at: link.at, version: link.version, words: link.record.words() };
            Ok(body((link.words, link.record, part))?.then_some(()))
        };
        match chain::walk(&self.directory(), rank.0, segment, &mut sought) {
            Walk::Found(()) | Walk::Absent => Ok(()),
            Walk::Bad(error, _) => Err(error.into()),
            Walk::Unmapped(_) | Walk::Changed => Err(Malformed::Owner.into()),
        }
    }

    /// The value of a rank's key, with its scope.
    pub(in crate::store) fn get(&self, rank: Rank, key: &Key) -> Result<Option<(Scope, Value)>, ReadError> {
        let query = HashedKey::new(key.as_bytes());
        let found = self.walk(rank, |(words, record, _)| {
            let found = record.find(&query)?;
            let cell = found.map(|entry| ValueCell::of_entry(&entry));
            cell.map(|cell| Ok((cell, words.to_vec(cell.word, cell.len)?))).transpose()
        })?;
        found.map(|(cell, bytes)| Ok((cell.scope(), cell.decode(bytes)?))).transpose()
    }

    /// The scope of the value of a rank's key, and its bytes.
    pub(in crate::store) fn value_bytes(&self, rank: Rank, key: &Key) -> Result<Option<(Scope, usize)>, ReadError> {
        let query = HashedKey::new(key.as_bytes());
        let of_entry = |entry: Entry| (Scope(entry.scope), entry.value_len);
        self.walk(rank, |(_, record, _)| Ok(record.find(&query)?.map(of_entry)))
    }

    /// All entries of a rank.
    pub(in crate::store) fn all(&self, rank: Rank) -> Result<Vec<Posted>, ReadError> {
        let stored = self.stored(rank, chain::LONGEST, &[])?;
        let posted = |item: Stored| {
            Ok(Posted { scope: item.cell.scope(), key: item.key()?, value: item.cell.decode(item.bytes)? })
        };
        stored.into_iter().map(posted).collect()
    }

    /// The entries in the newest `count` records of a rank, but for those of some keys, which are sorted.
    pub(super) fn stored(&self, rank: Rank, count: usize, but: &[&[u8]]) -> Result<Vec<Stored>, ReadError> {
        let mut stored: Vec<Stored> = Vec::new();
        // The newest value of a key comes first.
        let mut known = HashSet::new();
        let mut records = 0;
        self.walk(rank, |(words, record, _)| {
            if records == count {
                return Ok(Some(()));
            }
            records += 1;
            for entry in record.iter() {
                let entry = entry?;
                let key = words.to_vec(entry.key_word, entry.key_len)?;
                if but.binary_search(&&key[..]).is_ok() || count > 1 && !known.insert(key.clone()) {
                    continue;
                }
                let cell = ValueCell::of_entry(&entry);
                stored.push(Stored { key, flags: entry.flags, cell, bytes: words.to_vec(cell.word, cell.len)? });
            }
            Ok(None)
        })?;
        Ok(stored)
    }

    fn parts(&self, rank: Rank) -> Result<Vec<Part>, ReadError> {
        let mut parts = Vec::new();
        self.walk(rank, |(_, _, part)| {
            parts.push(part);
            Ok(None::<()>)
        })?;
        Ok(parts)
    }

    /// Bytes of a rank's records.
    pub(in crate::store) fn bytes(&self, rank: Rank) -> Result<u64, ReadError> {
        Ok(self.parts(rank)?.iter().map(|part| part.words as u64 * 8).sum())
    }

    /// The place and version of a rank's newest record.
    pub(in crate::store) fn newest(&self, rank: Rank) -> Result<Option<(Reference, u64)>, ReadError> {
        self.walk(rank, |(_, _, part)| Ok(Some((part.at, part.version))))
    }

    /// Composes the next record of a rank. `None` where nothing changes.
    ///
    /// # Errors
    /// [`WriteError`]; [`WriteError::TakesLong`] where more than `most` bytes of older records go into it.
    pub(in crate::store) fn next(
        &self,
        rank: Rank,
        changes: &Changes<'_>,
        most: usize,
    ) -> Result<Option<Next>, WriteError> {
        let mut new = Vec::with_capacity(changes.len());
        let mut removed = 0;
        for (key, change) in changes {
            match change {
                Some((scope, value)) => {
                    let encoded = value.encode().map_err(|error| WriteError::value(key, error))?;
                    new.push(Encode::of(*scope, key, value.data_type(), encoded));
                }
                None => removed = removed.max(self.last_with(rank, key)?),
            }
        }
        if new.is_empty() && removed == 0 {
            return Ok(None);
        }
        self.compose(rank, changes, &new, (removed, most)).map(Some)
    }

    /// Composes the newest record of a rank from the new entries. Keys that go are in the first `removed` of its
    /// records, of which at most `most` bytes go into the new one.
    fn compose(
        &self,
        rank: Rank,
        changes: &Changes<'_>,
        new: &[Encode<'_>],
        (removed, most): (usize, usize),
    ) -> Result<Next, WriteError> {
        let parts = self.parts(rank)?;
        let mut changed: Vec<&[u8]> = changes.keys().map(|key| key.as_bytes()).collect();
        changed.sort_unstable();
        let mut merged = how_many_to_merge(record::size(new.iter().map(Encode::item)), removed, &parts);
        loop {
            let bytes = parts[..merged].iter().map(|part| part.words * 8).sum();
            if bytes > most {
                return Err(WriteError::TakesLong { bytes });
            }
            let kept = self.stored(rank, merged, &changed)?;
            let items = kept.iter().map(Stored::item).chain(new.iter().map(Encode::item));
            let size = record::size(items.clone());
            if size > record::LARGEST {
                return Err(WriteError::TooLarge { bytes: size as u64 * 8 });
            }
            let (gone, stay) = parts.split_at(merged);
            let mut base = None;
            if let Some(part) = stay.first() {
                let outdated = self.outdated(rank, merged, items.clone().map(|item| item.key))?;
                if 2 * outdated > stay.iter().map(|part| part.words as u64).sum() {
                    // Most of what it would continue in is of no use any more.
                    merged = parts.len();
                    continue;
                }
                base = Some(Base { at: part.at, version: part.version, outdated });
            }
            let is_empty = items.clone().next().is_none();
            return Ok(Next {
                record: (!is_empty).then(|| record::build_on(rank.0, items, base.as_ref())),
                base: base.map(|base| base.at),
                replaced: gone.iter().map(|part| Block::of(part.at, part.words)).collect(),
                before: parts.first().map(|part| (part.at, part.version)),
                words: parts.iter().map(|part| part.words).sum(),
            });
        }
    }

    /// Composes one record of all that a rank has. `None` where it has nothing.
    pub(in crate::store) fn whole(&self, rank: Rank) -> Result<Option<Next>, WriteError> {
        let parts = self.parts(rank)?;
        let Some(first) = parts.first() else { return Ok(None) };
        let stored = self.stored(rank, chain::LONGEST, &[])?;
        Ok(Some(Next {
            record: Some(record::build_on(rank.0, stored.iter().map(Stored::item), None)),
            base: None,
            before: Some((first.at, first.version)),
            replaced: parts.iter().map(|part| Block::of(part.at, part.words)).collect(),
            words: parts.iter().map(|part| part.words).sum(),
        }))
    }

    /// The segments that a rank's records lie in, and the bytes of these.
    pub(in crate::store) fn places(&self, rank: Rank) -> Result<(impl Iterator<Item = u32> + use<>, usize), ReadError> {
        let parts = self.parts(rank)?;
        let bytes = parts.iter().map(|part| part.words * 8).sum();
        Ok((parts.into_iter().map(|part| part.at.segment), bytes))
    }

    /// The number of a rank's records up to the last one that has a key.
    fn last_with(&self, rank: Rank, key: &Key) -> Result<usize, ReadError> {
        let query = HashedKey::new(key.as_bytes());
        let (mut count, mut last) = (0, 0);
        self.walk(rank, |(_, record, _)| {
            count += 1;
            if record.find(&query)?.is_some() {
                last = count;
            }
            Ok(None::<()>)
        })?;
        Ok(last)
    }

    /// Words of what a rank has in its records behind the first `skip` that is replaced once `keys` are.
    fn outdated<'k>(&self, rank: Rank, skip: usize, keys: impl Iterator<Item = &'k [u8]>) -> Result<u64, ReadError> {
        let mut depth = 0;
        let mut outdated = 0;
        let mut keys: Vec<HashedKey<'_>> = keys.map(HashedKey::new).collect();
        self.walk(rank, |(_, record, _)| {
            depth += 1;
            if depth <= skip {
                return Ok(None::<()>);
            }
            if depth == skip + 1 {
                outdated = record.base()?.map_or(0, |base| base.outdated);
            }
            let mut failed = None;
            keys.retain(|key| match record.find(key) {
                Ok(None) => true,
                Ok(Some(entry)) => {
                    outdated += entry_words(&entry);
                    false
                }
                Err(error) => {
                    failed = Some(error);
                    true
                }
            });
            failed.map_or(Ok(None), Err)
        })?;
        Ok(outdated)
    }
}

/// The records of a rank after a commit.
pub(in crate::store) struct Next {
    /// The new record, unless there is nothing in it.
    pub(super) record: Option<Vec<u64>>,
    /// The record that it continues in.
    pub(super) base: Option<Reference>,
    /// The records that went into the new one.
    pub(super) replaced: Vec<Block>,
    /// The newest record so far, and its version.
    pub(in crate::store) before: Option<(Reference, u64)>,
    /// Words of all its records so far.
    pub(super) words: usize,
}

/// A record of a rank.
struct Part {
    at: Reference,
    version: u64,
    words: usize,
}

/// The number of a rank's records, newest first, that a new one of `size` words takes in; at least `least`.
fn how_many_to_merge(mut size: usize, least: usize, parts: &[Part]) -> usize {
    let mut count = 0;
    for part in parts {
        let too_many = parts.len() - count + 1 > chain::LONGEST;
        if count >= least && !too_many && part.words > SMALL.max(RATIO * size) {
            break;
        }
        size += part.words;
        count += 1;
    }
    count
}

/// An entry of a record that is about to be replaced.
pub(super) struct Stored {
    key: Vec<u8>,
    flags: u8,
    cell: ValueCell,
    bytes: Vec<u8>,
}

impl Stored {
    fn key(&self) -> Result<Key, ReadError> {
        Key::new(&self.key).map_err(|_| Malformed::Owner.into())
    }

    pub(super) fn item(&self) -> Item<'_> {
        let payload = match self.flags {
            flags if flags & flags::NULL != 0 => Payload::Null,
            flags if flags & flags::INLINE != 0 => Payload::Scalar(self.cell.scalar().unwrap_or(0)),
            flags if flags & flags::ARCHIVE != 0 => Payload::Archive(&self.bytes),
            _ => Payload::Bytes(&self.bytes),
        };
        Item { key: &self.key, scope: self.cell.scope().0, data_type: self.cell.data_type().0, payload }
    }
}

/// Words that an entry takes up.
fn entry_words(entry: &Entry) -> u64 {
    (record::ENTRY + entry.key_len.div_ceil(8) + entry.value_len.div_ceil(8)) as u64
}
