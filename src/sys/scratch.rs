//! Memory that is needed for a while, and may be many megabytes.
//!
//! An allocator would keep such memory for a next time that never comes: it counts as the process's for as long as that
//! lives. So large pieces are mappings of their own, which go back to the system at once, in huge pages where it has
//! some: a fault for each small one takes longer than what is done with it.
use std::fmt::{self, Debug, Formatter};
use std::ops::{Deref, DerefMut};

use instanton_layout::info::Room as Words;
use memmap2::{Advice, MmapMut, MmapOptions, RemapOptions};

/// From so many bytes on it is a mapping.
const LARGE: usize = 256 << 10;

/// A number for which zeroed memory is 0, and any memory a number.
///
/// # Safety
/// Every pattern of bits is a value, the one of zeroes is the default; and a page may begin with one.
pub(crate) unsafe trait Number: Copy + Default {}

// SAFETY: an integer.
unsafe impl Number for u32 {}
// SAFETY: an integer.
unsafe impl Number for u64 {}

/// Numbers in a row.
pub(crate) struct Scratch<T: Number> {
    room: Room<T>,
    len: usize,
}

/// All of it are numbers, those behind the last one in use as well.
enum Room<T> {
    Heap(Vec<T>),
    Mapped(MmapMut),
}

impl<T: Number> Scratch<T> {
    /// So many zeroes.
    pub(crate) fn zeroed(len: usize) -> Self {
        Self { room: Room::zeroed(len), len }
    }

    /// Nothing, with room for so many.
    pub(crate) fn with_room(len: usize) -> Self {
        Self { room: Room::zeroed(len), len: 0 }
    }

    /// Makes it as long as that; what is new has this value.
    pub(crate) fn resize(&mut self, len: usize, value: T) {
        let before = self.len;
        self.reserve(len.saturating_sub(before));
        self.len = len;
        if let Some(new) = self.get_mut(before..) {
            new.fill(value);
        }
    }

    /// Makes it shorter, and gives back what that leaves.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        match &mut self.room {
            Room::Heap(numbers) => {
                numbers.truncate(self.len.next_multiple_of(2));
                numbers.shrink_to_fit();
            }
            Room::Mapped(mapped) => {
                let len = self.len.max(1).next_multiple_of(2);
                // SAFETY: it is borrowed for this alone, and stays where it is. Where the system keeps it as it is, it is as good.
                let _ = unsafe { mapped.remap(len * size_of::<T>(), RemapOptions::new()) };
            }
        }
    }

    /// Appends numbers.
    #[inline]
    pub(crate) fn extend_from_slice(&mut self, numbers: &[T]) {
        let before = self.len;
        self.reserve(numbers.len());
        self.len += numbers.len();
        self[before..].copy_from_slice(numbers);
    }

    /// Makes room for so many more.
    #[inline]
    fn reserve(&mut self, more: usize) {
        if self.room.all().len() < self.len + more {
            self.grow(self.len + more);
        }
    }

    #[cold]
    fn grow(&mut self, least: usize) {
        let len = least.max(self.room.all().len() * 2).next_multiple_of(2);
        if let Room::Mapped(mapped) = &mut self.room {
            // SAFETY: it is borrowed for this alone, so that nothing refers to where it was.
            let moved = unsafe { mapped.remap(len * size_of::<T>(), RemapOptions::new().may_move(true)) };
            if moved.is_ok() {
                return;
            }
        }
        let mut room = Room::zeroed(len.max(64));
        room.all_mut()[..self.len].copy_from_slice(self);
        self.room = room;
    }
}

impl Scratch<u32> {
    /// Two numbers in each word, the first in its low half; behind the last one is anything.
    pub(crate) fn into_words(self) -> Scratch<u64> {
        let len = self.len.div_ceil(2);
        match self.room {
            Room::Heap(numbers) => {
                let two = |two: &[u32]| u64::from(two[0]) | u64::from(two.get(1).copied().unwrap_or(0)) << 32;
                Scratch { room: Room::Heap(numbers.chunks(2).take(len).map(two).collect()), len }
            }
            Room::Mapped(mapped) => {
                let mut words = Scratch::<u64> { room: Room::Mapped(mapped), len };
                if cfg!(target_endian = "big") {
                    words.iter_mut().for_each(|word| *word = word.rotate_left(32));
                }
                words
            }
        }
    }
}

impl Words for Scratch<u64> {
    fn zeroed(words: usize) -> Self {
        Scratch::zeroed(words)
    }

    fn truncate(&mut self, words: usize) {
        Scratch::truncate(self, words);
    }
}

impl<T: Number> Room<T> {
    /// For as many as that, or one more: of numbers of half a word, each has its other half.
    fn zeroed(len: usize) -> Self {
        let len = len.next_multiple_of(2);
        let bytes = len.saturating_mul(size_of::<T>());
        let mapped = (bytes >= LARGE).then(|| MmapOptions::new().len(bytes).map_anon().ok()).flatten();
        match mapped {
            Some(mapped) => {
                // Only a hint.
                let _ = mapped.advise(Advice::HugePage);
                Room::Mapped(mapped)
            }
            // An allocator that has no memory either ends the process, as it does for everything else.
            None => Room::Heap(vec![T::default(); len]),
        }
    }

    #[inline]
    fn all(&self) -> &[T] {
        match self {
            Room::Heap(numbers) => numbers,
            // SAFETY: the bytes are those of numbers, by the contract of `Number`.
            Room::Mapped(mapped) => unsafe { mapped.align_to().1 },
        }
    }

    #[inline]
    fn all_mut(&mut self) -> &mut [T] {
        match self {
            Room::Heap(numbers) => numbers,
            // SAFETY: as in `all`; and whatever is written is bytes again.
            Room::Mapped(mapped) => unsafe { mapped.align_to_mut().1 },
        }
    }
}

impl<T: Number> Default for Scratch<T> {
    fn default() -> Self {
        Self { room: Room::Heap(Vec::new()), len: 0 }
    }
}

impl<T: Number> Deref for Scratch<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.room.all()[..self.len]
    }
}

impl<T: Number> DerefMut for Scratch<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.room.all_mut()[..self.len]
    }
}

impl<T: Number> From<&[T]> for Scratch<T> {
    fn from(numbers: &[T]) -> Self {
        let mut all = Self::zeroed(numbers.len());
        all.copy_from_slice(numbers);
        all
    }
}

impl<T: Number> Extend<T> for Scratch<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, numbers: I) {
        let numbers = numbers.into_iter();
        self.reserve(numbers.size_hint().0);
        let before = self.len;
        let mut numbers = numbers;
        let room = self.room.all_mut()[before..].iter_mut().zip(&mut numbers);
        self.len += room.map(|(place, number)| *place = number).count();
        for number in numbers {
            self.extend_from_slice(&[number]);
        }
    }
}

impl<T: Number> Clone for Scratch<T> {
    fn clone(&self) -> Self {
        Self::from(&self[..])
    }
}

impl<T: Number + Debug> Debug for Scratch<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_while_their_room_grows() {
        let mut scratch = Scratch::default();
        let mut model: Vec<u32> = Vec::new();
        for step in 0..40u32 {
            scratch.resize(scratch.len() + 1000, step);
            model.resize(model.len() + 1000, step);
            scratch.extend_from_slice(&[7; 3000]);
            model.extend_from_slice(&[7; 3000]);
            scratch.extend(0..step);
            model.extend(0..step);
        }
        assert!(matches!(scratch.room, Room::Mapped(_)));
        assert_eq!(&scratch[..], &model[..]);
        assert_eq!(&scratch.clone()[..], &model[..]);
        scratch.resize(5, 9);
        assert_eq!(&scratch[..], [0; 5]);
        scratch.truncate(4);
        assert_eq!(&scratch[..], [0; 4]);
        scratch.truncate(0);
        assert!(scratch.is_empty());
        scratch.resize(100_000, 3);
        assert!(scratch.iter().all(|number| *number == 3), "not what was there before");
        assert!(Scratch::<u64>::zeroed(1 << 20).iter().all(|number| *number == 0));
    }

    #[test]
    fn numbers_become_halves_of_words() {
        for count in [0, 1, 2, 7, 99_999, 100_000] {
            let mut numbers = Scratch::<u32>::default();
            numbers.extend(0..count);
            let mut words = numbers.into_words();
            let halves = |words: &[u64]| words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect();
            let all: Vec<u32> = halves(&words);
            assert!(all[..count as usize].iter().copied().eq(0..count), "{count}");
            words.truncate(count as usize / 4);
            assert_eq!(halves(&words), all[..count as usize / 4 * 2]);
            words.resize(200_000, 3);
            assert_eq!(words[199_999], 3);
        }
    }
}
