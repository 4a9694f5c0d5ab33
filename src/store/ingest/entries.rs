//! Keys and values of one record while it is put together.
use std::borrow::Cow;
use std::collections::HashMap;

use crate::data::{Info, Key, Value};
use crate::store::error::BadJobInfo;

/// Keys and values of one record.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct Entries {
    all: Vec<(Key, Value)>,
    /// Places by key, once there are so many that looking for one takes long.
    places: HashMap<Key, usize>,
}

/// From so many entries on they are found by their hash.
const MANY: usize = 24;

impl Entries {
    pub(super) fn place(&self, key: &[u8]) -> Option<usize> {
        match self.places.is_empty() {
            true => self.all.iter().position(|(known, _)| known.as_bytes() == key),
            false => self.places.get(key).copied(),
        }
    }

    fn push(&mut self, key: Key, value: Value) {
        if self.all.len() == MANY {
            self.places = self.all.iter().zip(0..).map(|((key, _), at)| (key.clone(), at)).collect();
        }
        if self.all.len() >= MANY {
            self.places.insert(key.clone(), self.all.len());
        }
        self.all.push((key, value));
    }

    /// Stores a value. The second of a key overwrites the first.
    pub(in crate::store) fn put(&mut self, key: Key, value: Value) {
        match self.place(key.as_bytes()) {
            Some(at) => self.all[at].1 = value,
            None => self.push(key, value),
        }
    }

    /// Stores values in order. The last of a key counts.
    ///
    /// # Errors
    /// As of [`put_info`](Self::put_info).
    pub(super) fn put_all(&mut self, infos: Vec<Cow<'_, Info>>) -> Result<(), BadJobInfo> {
        infos.into_iter().try_for_each(|info| self.put_info(info))
    }

    /// Stores a value that is owned or is copied.
    ///
    /// # Errors
    /// [`BadJobInfo::Depth`] for one that is nested more deeply than can be stored.
    pub(super) fn put_info(&mut self, info: Cow<'_, Info>) -> Result<(), BadJobInfo> {
        if info.value.is_too_deep() {
            return Err(BadJobInfo::Depth { key: info.key.clone() });
        }
        let Info { key, value, .. } = info.into_owned();
        self.put(key, value);
        Ok(())
    }

    /// Adds a value that follows from something else, unless one was given.
    pub(super) fn imply(&mut self, key: &'static str, value: impl Into<Value>) {
        if self.get(key).is_none() {
            self.push(Key::new(key).expect("keys of the Standard are legal"), value.into());
        }
    }

    pub(in crate::store) fn get(&self, key: &str) -> Option<&Value> {
        self.place(key.as_bytes()).map(|at| &self.all[at].1)
    }

    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = &(Key, Value)> + Clone {
        self.all.iter()
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&(Key, Value)) -> bool) {
        self.all.retain(keep);
        let index = !self.places.is_empty();
        self.places = match index && !self.all.is_empty() {
            true => self.all.iter().zip(0..).map(|((key, _), at)| (key.clone(), at)).collect(),
            false => HashMap::new(),
        };
    }
}

/// Values that count as a number.
pub(super) const NUMBER: &str = "a number from 0 to 4294967295";

/// The number that an attribute has.
pub(in crate::store) fn number(key: &'static str, value: &Value) -> Result<u32, BadJobInfo> {
    value.as_u32().ok_or(BadJobInfo::Type { key, found: value.data_type(), wanted: NUMBER })
}
