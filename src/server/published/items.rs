//! Items that were published, by their keys.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::access::Access;
use super::lookup::Lookup;
use crate::account::{Charge, Kind};
use crate::data::constants::persistence;
use crate::data::{Key, Nspace, Pdata, Proc, Rank, Status, Value};
use crate::message::LARGEST;
use crate::message::door::Making;
use crate::server::ctx::accounts::Accounts;
use crate::server::host::{Completion, Published};
use crate::sys::later;

/// Most bytes that a store keeps: of data, as [`Value::kept_size`] counts them, and of what it has to know of them.
const MAX_BYTES: usize = 256 << 20;
/// Most bytes of one job in a store that bounds jobs: those of others have as much.
pub const MAX_OF_JOB: u64 = MAX_BYTES as u64 / 2;
/// Most items of one key that are for processes their publishers name: each look-up of the key goes through them.
const MAX_CUSTOM: usize = 256;

/// Value that was published under a key.
#[derive(Debug)]
pub struct Item {
    /// Shared with answers that are still to be made; there until the item is dropped.
    value: Option<Arc<Value>>,
    /// Bytes of the value, as [`Value::kept_size`] counts them.
    size: usize,
    pub access: Access,
    /// A `constants::persistence`.
    pub persistence: u8,
    /// Charge to its publisher, once it is among the others.
    pub held: Option<Charge>,
}

impl Item {
    pub fn new(value: Value, access: Access, persistence: u8) -> Self {
        Item { size: value.kept_size(), value: Some(Arc::new(value)), access, persistence, held: None }
    }

    /// Bytes of the item. Its key is kept twice: with the item, and with its publisher.
    fn bytes(&self, key: &Key) -> usize {
        size_of::<Self>() + 2 * key.len() + self.size + self.access.audience_bytes()
    }

    /// Bytes of the item in an answer.
    fn answer_bytes(&self, key: &Key) -> usize {
        size_of::<Pdata>() + key.len() + self.access.publisher.nspace.len() + self.size
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        later::drop_sized(self.size, self.value.take());
    }
}

/// Answer to a look-up.
#[derive(Debug)]
pub struct Found {
    status: Status,
    /// Publisher, key and value of each item.
    pub items: Vec<(Proc, Key, Arc<Value>)>,
    bytes: usize,
}

impl Found {
    /// Gives the answer. One that is long is copied when its bytes are needed.
    pub fn give(self, done: Completion<Published>) {
        match self.bytes >= Making::LONG {
            true => done.complete_with(self.bytes, || self.published()),
            false => done.complete(Ok(self.published())),
        }
    }

    fn published(self) -> Published {
        let data = self.items.into_iter().map(|(proc, key, value)| Pdata { proc, key, value: (*value).clone() });
        (self.status, data.collect())
    }
}

/// Items of a store.
#[derive(Debug, Default)]
pub struct Items {
    /// Items of one key in the order in which they came.
    by_key: HashMap<Key, Vec<Item>>,
    /// The keys under which each process has items.
    by_publisher: BTreeMap<Proc, BTreeSet<Key>>,
    bytes: usize,
    pub accounts: Accounts,
    /// Namespaces that are over and have left data, each with the number of its end and its bytes.
    left: BTreeMap<Nspace, (u64, usize)>,
    /// Number of namespaces that have left data so far.
    ends: u64,
    /// Items that were looked at, to find or remove others.
    #[cfg(test)]
    pub steps: std::cell::Cell<usize>,
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
    pub fn add(&mut self, mut new: Vec<(Key, Item)>) -> Result<(), Status> {
        let bytes = new.iter().map(|(key, item)| item.bytes(key)).fold(0, usize::saturating_add);
        let mut keys = HashSet::new();
        for (key, item) in &new {
            let known = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
            if !keys.insert(key) || known.iter().any(|other| other.access.conflicts_with(&item.access)) {
                return Err(Status::ERR_DUPLICATE_KEY);
            }
            let is_custom = |item: &&Item| item.access.is_custom();
            if item.access.is_custom() && known.iter().filter(is_custom).count() >= MAX_CUSTOM {
                return Err(Status::ERR_OUT_OF_RESOURCE);
            }
        }
        for (key, item) in &mut new {
            let account = self.accounts.of(&item.access.publisher, None);
            let held = account.charge(Kind::Published, item.bytes(key)).ok_or(Status::ERR_OUT_OF_RESOURCE)?;
            item.held = Some(held);
        }
        // A namespace that publishes is not over.
        new.iter().for_each(|(_, item)| _ = self.left.remove(&item.access.publisher.nspace));
        if !self.make_room(bytes) {
            return Err(Status::ERR_OUT_OF_RESOURCE);
        }
        self.bytes += bytes;
        for (key, item) in new {
            self.by_publisher.entry(item.access.publisher.clone()).or_default().insert(key.clone());
            self.by_key.entry(key).or_default().push(item);
        }
        Ok(())
    }

    /// Returns the answer to a look-up, if there is enough. Items that are read once are gone then.
    ///
    /// # Errors
    /// `ERR_OUT_OF_RESOURCE` for an answer that no message could carry. It is not built then.
    pub fn answer(&mut self, lookup: &Lookup) -> Option<Result<Found, Status>> {
        self.answer_within(LARGEST, lookup)
    }

    /// Returns the answer to a look-up, if there is enough and it has no more than so many bytes.
    pub(super) fn answer_within(&mut self, most: usize, lookup: &Lookup) -> Option<Result<Found, Status>> {
        let places: Vec<(&Key, usize)> =
            lookup.keys.iter().flatten().filter_map(|key| Some((key, self.find(key, lookup)?))).collect();
        if places.is_empty() || places.len() < lookup.enough {
            return None;
        }
        let found = || places.iter().map(|(key, at)| (*key, &self.by_key[*key][*at]));
        let bytes = found().map(|(key, item)| item.answer_bytes(key)).fold(0, usize::saturating_add);
        if bytes > most {
            return Some(Err(Status::ERR_OUT_OF_RESOURCE));
        }
        let shared =
            |(key, item): (&Key, &Item)| Some((item.access.publisher.clone(), key.clone(), item.value.clone()?));
        let items = found().filter_map(shared).collect();
        let status = if places.len() < lookup.keys.len() { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
        for (key, at) in places {
            self.mark_read(key, at);
        }
        Some(Ok(Found { status, items, bytes }))
    }

    /// Removes items of a process, under some of its keys, and gives their room back.
    pub fn remove(&mut self, publisher: &Proc, keys: Option<&[Key]>, mut is_over: impl FnMut(&Item) -> bool) {
        let Some(published) = self.by_publisher.get(publisher) else { return };
        let meant: Vec<Key> = match keys {
            Some(keys) => keys.iter().filter(|key| published.contains(*key)).cloned().collect(),
            None => published.iter().cloned().collect(),
        };
        for key in &meant {
            let Some(items) = self.by_key.get_mut(key) else { continue };
            #[cfg(test)]
            self.steps.set(self.steps.get() + items.len());
            let is_meant = |item: &mut Item| item.access.publisher == *publisher && is_over(item);
            self.bytes -= items.extract_if(.., is_meant).map(|item| item.bytes(key)).sum::<usize>();
            self.forget_key(publisher, key);
        }
    }

    /// Removes items of all processes of a namespace.
    pub fn remove_of_job(&mut self, nspace: &Nspace, mut is_over: impl FnMut(&Item) -> bool) {
        let first = Proc::new(nspace.clone(), Rank(0));
        let of_job = self.by_publisher.range(first..).map(|(publisher, _)| publisher);
        let publishers: Vec<Proc> = of_job.take_while(|publisher| publisher.nspace == *nspace).cloned().collect();
        publishers.iter().for_each(|publisher| self.remove(publisher, None, &mut is_over));
    }

    /// A namespace is over, and may have left data for the session: others take its room where they need it.
    pub fn namespace_ended(&mut self, nspace: &Nspace) {
        let of_it = self.by_publisher.range(Proc::new(nspace.clone(), Rank(0))..);
        let of_it = of_it.take_while(|(publisher, _)| publisher.nspace == *nspace);
        let bytes_of = |publisher: &Proc, key: &Key| -> usize {
            let items = self.by_key.get(key).into_iter().flatten();
            items.filter(|item| item.access.publisher == *publisher).map(|item| item.bytes(key)).sum()
        };
        let bytes = of_it.flat_map(|(publisher, keys)| keys.iter().map(move |key| bytes_of(publisher, key))).sum();
        if bytes > 0 {
            self.ends += 1;
            self.left.insert(nspace.clone(), (self.ends, bytes));
        }
    }

    /// Makes room for so many bytes, by what namespaces have left that are over: those that have left most, the oldest
    /// first. Returns whether there is room.
    fn make_room(&mut self, bytes: usize) -> bool {
        while self.bytes.saturating_add(bytes) > MAX_BYTES {
            let most = self.left.iter().max_by_key(|(_, (end, bytes))| (*bytes, Reverse(*end)));
            let Some(nspace) = most.map(|(nspace, _)| nspace.clone()) else { return false };
            self.left.remove(&nspace);
            self.remove_of_job(&nspace, |_| true);
        }
        true
    }

    fn find(&self, key: &Key, lookup: &Lookup) -> Option<usize> {
        let items = self.by_key.get(key)?;
        #[cfg(test)]
        self.steps.set(self.steps.get() + items.len());
        let is_found = |item: &Item| item.access.admits(&lookup.asker);
        let exact = items.iter().position(|item| is_found(item) && item.access.range == lookup.range);
        exact.or_else(|| items.iter().position(is_found))
    }

    /// Removes an item that is read once.
    fn mark_read(&mut self, key: &Key, at: usize) {
        let is_read_once = |items: &&mut Vec<Item>| items[at].persistence == persistence::PERSIST_FIRST_READ;
        let Some(items) = self.by_key.get_mut(key).filter(is_read_once) else { return };
        let item = items.remove(at);
        self.bytes -= item.bytes(key);
        self.forget_key(&item.access.publisher, key);
    }

    /// Forgets a key of a process that has no item under it any more.
    fn forget_key(&mut self, publisher: &Proc, key: &Key) {
        let items = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        if items.iter().all(|item| item.access.publisher != *publisher)
            && let Some(keys) = self.by_publisher.get_mut(publisher)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_publisher.remove(publisher);
            }
        }
        if self.by_key.get(key).is_some_and(Vec::is_empty) {
            self.by_key.remove(key);
        }
    }
}
