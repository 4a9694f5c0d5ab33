//! Tables of things that have numbers.
use std::collections::BTreeMap;

/// Table by number. Things lie in boxes: whatever they are, tables have the same code then, of which the linker keeps
/// one. A `BTreeMap` that holds them itself takes 5 kB of code for each type.
#[derive(Debug)]
pub(crate) struct ByNumber<K, T>(BTreeMap<K, Box<T>>);

impl<K, T> Default for ByNumber<K, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy, T> ByNumber<K, T> {
    pub fn insert(&mut self, number: K, thing: T) {
        self.0.insert(number, Box::new(thing));
    }

    pub fn remove(&mut self, number: &K) -> Option<T> {
        self.0.remove(number).map(|thing| *thing)
    }

    pub fn get(&self, number: &K) -> Option<&T> {
        self.0.get(number).map(|thing| &**thing)
    }

    pub fn get_mut(&mut self, number: &K) -> Option<&mut T> {
        self.0.get_mut(number).map(|thing| &mut **thing)
    }

    /// The thing of that number, made if there is none.
    pub fn get_or_insert_with(&mut self, number: K, make: impl FnOnce() -> T) -> &mut T {
        self.0.entry(number).or_insert_with(|| Box::new(make()))
    }

    /// All, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.0.iter().map(|(number, thing)| (*number, &**thing))
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|thing| &**thing)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
