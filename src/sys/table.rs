//! A table that threads read while it is added to.
//!
//! Open addressing: each slot is one pointer, to nothing or to an item, and an item's place follows from its hash.
//! Readers load and compare; writers take a lock among themselves. An item that is replaced, and an array that has
//! become too small, is freed when no reader can see it any more. Nothing is ever taken out.
use std::sync::{Mutex, PoisonError};

use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use instanton_layout::sync::Ordering;

use super::cell::Epoch;

/// Slots of the first array.
const FIRST: usize = 16;

struct Item<V> {
    hash: u64,
    value: V,
}

type Slots<V> = Box<[Atomic<Item<V>>]>;

/// Values by a hash that is good in all its bits.
pub struct ReadTable<V: Send + Sync + 'static> {
    /// NULL as long as there is nothing.
    slots: Atomic<Slots<V>>,
    /// Items there are.
    len: Mutex<usize>,
}

impl<V: Send + Sync + 'static> Default for ReadTable<V> {
    fn default() -> Self {
        Self { slots: Atomic::null(), len: Mutex::new(0) }
    }
}

/// The slots in which an item with this hash may be, in order.
fn places(hash: u64, len: usize) -> impl Iterator<Item = usize> {
    (0..len).map(move |step| (hash as usize).wrapping_add(step) & (len - 1))
}

impl<V: Send + Sync + 'static> ReadTable<V> {
    /// Returns whether nothing was ever put in.
    #[inline]
    pub fn is_empty(&self, epoch: &Epoch) -> bool {
        self.slots.load(Ordering::Acquire, epoch.guard()).is_null()
    }

    /// The value with this hash that is the one.
    #[inline]
    pub fn get<'a>(&'a self, epoch: &'a Epoch, hash: u64, is: impl Fn(&V) -> bool) -> Option<&'a V> {
        // SAFETY: an array is freed by epochs, and this thread is in one for 'a.
        let slots = unsafe { self.slots.load(Ordering::Acquire, epoch.guard()).as_ref() }?;
        for place in places(hash, slots.len()) {
            // SAFETY: an item is freed by epochs, and this thread is in one for 'a.
            let item = unsafe { slots[place].load(Ordering::Acquire, epoch.guard()).as_ref() }?;
            if item.hash == hash && is(&item.value) {
                return Some(&item.value);
            }
        }
        None
    }

    /// Puts a value in, in place of the one that is the `same`.
    pub fn put(&self, hash: u64, value: V, same: impl Fn(&V, &V) -> bool) {
        let mut len = self.len.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = Epoch::enter();
        let guard = epoch.guard();
        let slots = self.room_for(*len + 1, guard);
        for place in places(hash, slots.len()) {
            let old = slots[place].load(Ordering::Acquire, guard);
            // SAFETY: as in `get`.
            let free = match unsafe { old.as_ref() } {
                None => true,
                Some(item) if item.hash == hash && same(&item.value, &value) => false,
                Some(_) => continue,
            };
            slots[place].store(Owned::new(Item { hash, value }), Ordering::Release);
            match free {
                true => *len += 1,
                // SAFETY:
                // - it came from `Owned::new` and is in no slot any more; only the holder of the lock
                //   takes items out of slots
                // - whoever still reads it entered its epoch before
                false => unsafe { guard.defer_destroy(old) },
            }
            return;
        }
        unreachable!("a quarter of the slots is empty");
    }

    /// An array of which `len` items fill no more than three quarters. The caller holds the lock.
    fn room_for<'g>(&self, len: usize, guard: &'g Guard) -> &'g [Atomic<Item<V>>] {
        let old = self.slots.load(Ordering::Acquire, guard);
        // SAFETY: as in `get`.
        let now = unsafe { old.as_ref() }.map_or(&[][..], |slots| slots);
        if len <= now.len() / 4 * 3 {
            return now;
        }
        let larger: Slots<V> = (0..(now.len() * 2).max(FIRST)).map(|_| Atomic::null()).collect();
        for slot in now {
            let item = slot.load(Ordering::Relaxed, guard);
            // SAFETY: as in `get`.
            let Some(Item { hash, .. }) = (unsafe { item.as_ref() }) else { continue };
            let free = |place: &usize| larger[*place].load(Ordering::Relaxed, guard).is_null();
            let place = places(*hash, larger.len()).find(free).expect("there is room");
            larger[place].store(item, Ordering::Relaxed);
        }
        let new = Owned::new(larger).into_shared(guard);
        self.slots.store(new, Ordering::Release);
        if !old.is_null() {
            // SAFETY: no reader finds the array any more; its items are in the new one, and an `Atomic` frees nothing.
            unsafe { guard.defer_destroy(old) };
        }
        // SAFETY: just made; nobody replaces it while the caller holds the lock.
        unsafe { new.deref() }
    }

    /// Every value.
    pub fn iter<'a>(&'a self, epoch: &'a Epoch) -> impl Iterator<Item = &'a V> {
        // SAFETY: as in `get`.
        let slots = unsafe { self.slots.load(Ordering::Acquire, epoch.guard()).as_ref() };
        // SAFETY: as in `get`.
        let item = |slot: &'a Atomic<Item<V>>| unsafe { slot.load(Ordering::Acquire, epoch.guard()).as_ref() };
        slots.into_iter().flatten().filter_map(item).map(|item| &item.value)
    }
}

impl<V: Send + Sync + 'static> Drop for ReadTable<V> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the table: what it still holds is freed here, each once.
        unsafe {
            let guard = crossbeam_epoch::unprotected();
            let slots = self.slots.swap(Shared::null(), Ordering::Relaxed, guard);
            if let Some(slots) = slots.try_into_owned() {
                for slot in slots.iter() {
                    drop(slot.swap(Shared::null(), Ordering::Relaxed, guard).try_into_owned());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn values_are_found_while_others_come_and_none_is_dropped_twice_or_never() {
        let table = Arc::new(ReadTable::<(u64, Arc<()>)>::default());
        let alive = Arc::new(());
        // Few hashes, so that they share places.
        let put = |key: u64| table.put(key % 7, (key, alive.clone()), |old, new| old.0 == new.0);
        (0..10).for_each(put);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for round in 0..2000 {
                        let (key, epoch) = (round % 10, Epoch::enter());
                        let found = table.get(&epoch, key % 7, |(known, _)| *known == key);
                        assert_eq!(found.map(|(key, _)| *key), Some(key));
                    }
                });
            }
            (0..500).for_each(|key| put(key % 300));
        });
        let epoch = Epoch::enter();
        assert_eq!(table.iter(&epoch).count(), 300);
        assert!(table.get(&epoch, 301 % 7, |(known, _)| *known == 301).is_none());
        drop(epoch);
        drop(table);
        // A value that was replaced goes with its epoch.
        while Arc::strong_count(&alive) > 1 {
            Epoch::enter().guard().flush();
            std::thread::yield_now();
        }
    }
}
