//! Hash index: finds the number of a thing that lies elsewhere by the thing's hash.

/// A table of numbers. It knows half of the hash of each thing: so no other thing is looked at, and nothing is hashed
/// again when the table grows.
#[derive(Debug, Default, Clone)]
pub(super) struct HashIndex {
    /// By hash: the half that selects the slot, and one more than the number.
    slots: Vec<(u32, u32)>,
    entries: usize,
}

impl HashIndex {
    /// The number with this half of a hash of which `is_it` is true.
    #[inline]
    pub(super) fn find(&self, half: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = half as usize & mask;
        while let (known, Some(number)) = (self.slots[slot].0, self.slots[slot].1.checked_sub(1)) {
            if known == half && is_it(number) {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    /// Enters a number that is not there yet.
    pub(super) fn enter(&mut self, half: u32, number: u32) {
        self.entries += 1;
        if self.slots.len() < self.entries * 2 {
            let longer = vec![(0, 0); (self.slots.len() * 2).max(64)];
            let entries = std::mem::replace(&mut self.slots, longer);
            entries.into_iter().filter(|(_, number)| *number != 0).for_each(|entry| self.put(entry));
        }
        self.put((half, number + 1));
    }

    fn put(&mut self, entry: (u32, u32)) {
        let mask = self.slots.len() - 1;
        let mut slot = entry.0 as usize & mask;
        while self.slots[slot].1 != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_among_others_of_its_half_and_of_none() {
        let mut table = HashIndex::default();
        assert_eq!(table.find(0, |_| true), None);
        for number in 0..1000 {
            assert_eq!(table.find(number % 7, |known| known == number), None);
            table.enter(number % 7, number);
        }
        for number in 0..1000 {
            assert_eq!(table.find(number % 7, |known| known == number), Some(number));
            assert_eq!(table.find(number % 7 + 1, |known| known == number), None);
        }
        assert_eq!(table.find(9, |_| true), None);
    }
}
