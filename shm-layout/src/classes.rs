//! Sizes of blocks: four steps to each doubling, so that at most a fifth of a block is waste.

/// The smallest block, in words.
const SMALLEST: usize = 16;
/// Steps to a doubling.
const STEPS: usize = 4;

/// The class whose blocks hold `words` words, and no smaller one does.
pub const fn class(words: usize) -> usize {
    if words <= SMALLEST {
        return 0;
    }
    let doublings = (words - 1).ilog2() as usize - SMALLEST.ilog2() as usize;
    let step = (SMALLEST << doublings) / STEPS;
    let above = words - (SMALLEST << doublings);
    doublings * STEPS + above.div_ceil(step)
}

/// Words of the blocks of a class. All blocks begin at even words, so that archives in them are aligned.
pub const fn words(class: usize) -> usize {
    let base = SMALLEST << (class / STEPS);
    base + base / STEPS * (class % STEPS)
}

/// The largest class whose blocks fit into `words` words, if any does.
pub const fn within(words: usize) -> Option<usize> {
    if words < SMALLEST {
        return None;
    }
    let class = class(words);
    if self::words(class) > words { Some(class - 1) } else { Some(class) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 1..20_000 {
            let class = class(size);
            assert!(words(class) >= size, "{size}");
            assert!(class == 0 || words(class - 1) < size, "{size}");
            assert!(words(class).is_multiple_of(2));
            assert!(class == 0 || words(class) - size <= words(class) / 5, "{size}");
            let within = within(size);
            assert!(within.is_none_or(|class| words(class) <= size && words(class + 1) > size), "{size}");
            assert_eq!(within.is_none(), size < words(0), "{size}");
        }
    }
}
