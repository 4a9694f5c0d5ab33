//! Packed integers: a list of numbers in little memory. Most keys have small numbers, or one for every process, or an
//! affine run: each rank has one more than the rank before.

/// A list of numbers.
#[derive(Debug, Clone)]
pub(super) enum PackedInts {
    /// An affine run: `len` numbers from `base` on, each `step` more than the one before.
    Affine {
        base: u64,
        step: u64,
        len: usize,
    },
    Bytes(Vec<u8>),
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Default for PackedInts {
    fn default() -> Self {
        PackedInts::Affine { base: 0, step: 0, len: 0 }
    }
}

impl PackedInts {
    #[inline(always)]
    pub(super) fn push(&mut self, number: u64) {
        match self {
            PackedInts::Affine { base, step, len } if *len > 1 && number == affine(*base, *step, *len) => *len += 1,
            PackedInts::Bytes(numbers) if number <= u8::MAX.into() => numbers.push(number as u8),
            PackedInts::Narrow(numbers) if number <= u32::MAX.into() => numbers.push(number as u32),
            PackedInts::Wide(numbers) => numbers.push(number),
            _ => self.push_another(number),
        }
    }

    /// Pushes a number that has no room in the present form.
    #[cold]
    #[inline(never)]
    fn push_another(&mut self, number: u64) {
        match self {
            PackedInts::Affine { base, len: len @ 0, .. } => (*base, *len) = (number, 1),
            PackedInts::Affine { base, step, len: len @ 1 } => (*step, *len) = (number.wrapping_sub(*base), 2),
            _ => {
                *self = match self.iter().fold(number, u64::max) {
                    0..=0xff => PackedInts::Bytes(self.iter().map(|number| number as u8).collect()),
                    0x100..=0xffff_ffff => PackedInts::Narrow(self.iter().map(|number| number as u32).collect()),
                    _ => PackedInts::Wide(self.iter().collect()),
                };
                self.push(number);
            }
        }
    }

    pub(super) fn pop(&mut self) {
        match self {
            PackedInts::Affine { len, .. } => *len = len.saturating_sub(1),
            PackedInts::Bytes(numbers) => drop(numbers.pop()),
            PackedInts::Narrow(numbers) => drop(numbers.pop()),
            PackedInts::Wide(numbers) => drop(numbers.pop()),
        }
    }

    #[inline]
    pub(in crate::store) fn len(&self) -> usize {
        match self {
            PackedInts::Affine { len, .. } => *len,
            PackedInts::Bytes(numbers) => numbers.len(),
            PackedInts::Narrow(numbers) => numbers.len(),
            PackedInts::Wide(numbers) => numbers.len(),
        }
    }

    /// The number at a place below [`len`](Self::len).
    #[inline]
    pub(in crate::store) fn get(&self, at: usize) -> u64 {
        match self {
            PackedInts::Affine { base, step, .. } => affine(*base, *step, at),
            PackedInts::Bytes(numbers) => numbers[at].into(),
            PackedInts::Narrow(numbers) => numbers[at].into(),
            PackedInts::Wide(numbers) => numbers[at],
        }
    }

    #[inline]
    pub(super) fn last(&self) -> Option<u64> {
        self.len().checked_sub(1).map(|last| self.get(last))
    }

    /// The place of the first number above a limit, if one is.
    pub(super) fn first_above(&self, limit: u64) -> Option<usize> {
        // In one pass without branches, and mostly without any.
        let is_within = match self {
            PackedInts::Affine { len: 0, .. } => true,
            PackedInts::Affine { base, step, len } => {
                let last = i128::from(*base) + i128::from(*step as i64) * (*len as i128 - 1);
                i128::from(*base).max(last) <= limit.into() && last >= 0
            }
            PackedInts::Bytes(numbers) => {
                limit >= u8::MAX.into() || numbers.iter().fold(0, |most, number| most.max(*number)) as u64 <= limit
            }
            PackedInts::Narrow(numbers) => {
                limit >= u32::MAX.into() || u64::from(numbers.iter().fold(0, |most, number| most.max(*number))) <= limit
            }
            PackedInts::Wide(numbers) => {
                limit == u64::MAX || numbers.iter().fold(0, |most, number| most.max(*number)) <= limit
            }
        };
        if is_within { None } else { self.iter().position(|number| number > limit) }
    }

    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }
}

impl FromIterator<u64> for PackedInts {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        let mut all = Self::default();
        numbers.into_iter().for_each(|number| all.push(number));
        all
    }
}

#[inline(always)]
fn affine(base: u64, step: u64, at: usize) -> u64 {
    base.wrapping_add(step.wrapping_mul(at as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_what_they_are_as_wider_ones_come() {
        let line = |base: u64, step: u64, len: u64| (0..len).map(move |at| base.wrapping_add(step.wrapping_mul(at)));
        let kinds: [Vec<u64>; 6] = [
            line(7, 0, 9).collect(),
            line(u64::MAX - 3, 2, 9).collect(),
            line(9, u64::MAX, 20).collect(),
            vec![3, 1, 255, 0],
            vec![256, 9, 1 << 31, 1],
            vec![1 << 32, u64::MAX, 4],
        ];
        for (first, second) in kinds.iter().flat_map(|first| kinds.iter().map(move |second| (first, second))) {
            let all = [&first[..], second, first].concat();
            let mut numbers: PackedInts = all.iter().copied().collect();
            for limit in [0, 1, 7, 254, 255, 256, 1 << 31, u64::from(u32::MAX), u64::MAX - 3, u64::MAX] {
                assert_eq!(numbers.first_above(limit), all.iter().position(|number| *number > limit), "{limit}");
            }
            assert_eq!(numbers.iter().collect::<Vec<_>>(), all);
            for len in (0..all.len()).rev() {
                numbers.pop();
                assert_eq!((numbers.len(), numbers.last()), (len, len.checked_sub(1).map(|last| all[last])));
            }
            numbers.push(5);
            assert_eq!(numbers.iter().collect::<Vec<_>>(), [5]);
        }
    }
}
