//! Items that were published, by their keys.
use std::collections::{HashMap, HashSet};

use super::access::Access;
use super::lookup::Lookup;
use crate::data::constants::persistence;
use crate::data::{Key, Pdata, Status, Value};
use crate::server::host::Published;

/// Most bytes that a store keeps: of data, as [`Value::size`] counts them, and of what it has to know of them.
const MAX_BYTES: usize = 256 << 20;

/// Value that was published under a key.
#[derive(Debug)]
pub struct Item {
    pub value: Value,
    pub access: Access,
    /// A `constants::persistence`.
    pub persistence: u8,
}

impl Item {
    fn bytes(&self, key: &Key) -> usize {
        size_of::<Self>() + key.len() + self.value.size() + self.access.audience_bytes()
    }

    fn to_pdata(&self, key: &Key) -> Pdata {
        Pdata { proc: self.access.publisher.clone(), key: key.clone(), value: self.value.clone() }
    }
}

/// Items of a store.
#[derive(Debug, Default)]
pub struct Items {
    /// Items of one key in the order in which they came.
    by_key: HashMap<Key, Vec<Item>>,
    bytes: usize,
}

impl Items {
    /// Bytes that all items take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds items: all of them, or none.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` when there is no room; `ERR_DUPLICATE_KEY` for a key that is there twice,
    /// or in that range already.
    pub fn add(&mut self, new: Vec<(Key, Item)>) -> Result<(), Status> {
        let bytes = new.iter().map(|(key, item)| item.bytes(key)).fold(0, usize::saturating_add);
        if self.bytes.saturating_add(bytes) > MAX_BYTES {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        let mut keys = HashSet::new();
        let is_taken = |key, item: &Item| {
            self.by_key.get(key).into_iter().flatten().any(|other| other.access.conflicts_with(&item.access))
        };
        if new.iter().any(|(key, item)| !keys.insert(key) || is_taken(key, item)) {
            return Err(Status::ERR_DUPLICATE_KEY);
        }
        self.bytes += bytes;
        for (key, item) in new {
            self.by_key.entry(key).or_default().push(item);
        }
        Ok(())
    }

    /// Returns the answer to a look-up, if there is enough. Items that are read once are gone then.
    pub fn answer(&mut self, lookup: &Lookup) -> Option<Published> {
        let places: Vec<(&Key, usize)> =
            lookup.keys.iter().flatten().filter_map(|key| Some((key, self.find(key, lookup)?))).collect();
        if places.is_empty() || places.len() < lookup.enough {
            return None;
        }
        let found = places.iter().map(|(key, at)| self.by_key[*key][*at].to_pdata(key)).collect();
        let status = if places.len() < lookup.keys.len() { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
        // A key that is asked for twice has one place.
        for (key, at) in places.into_iter().collect::<HashSet<_>>() {
            self.mark_read(key, at);
        }
        Some((status, found))
    }

    /// Removes items, and gives their room back.
    pub fn remove(&mut self, mut is_over: impl FnMut(&Key, &Item) -> bool) {
        let bytes = &mut self.bytes;
        self.by_key.retain(|key, items| {
            for item in items.extract_if(.., |item| is_over(key, item)) {
                *bytes -= item.bytes(key);
            }
            !items.is_empty()
        });
    }

    fn find(&self, key: &Key, lookup: &Lookup) -> Option<usize> {
        let items = self.by_key.get(key)?;
        let is_found = |item: &Item| item.access.admits(&lookup.asker);
        let exact = items.iter().position(|item| is_found(item) && Some(item.access.range) == lookup.range);
        exact.or_else(|| items.iter().position(is_found))
    }

    /// Removes an item that is read once.
    fn mark_read(&mut self, key: &Key, at: usize) {
        let is_read_once = |items: &&mut Vec<Item>| items[at].persistence == persistence::PERSIST_FIRST_READ;
        let Some(items) = self.by_key.get_mut(key).filter(is_read_once) else { return };
        self.bytes -= items.remove(at).bytes(key);
        if items.is_empty() {
            self.by_key.remove(key);
        }
    }
}
