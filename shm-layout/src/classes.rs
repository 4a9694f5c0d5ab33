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
        }
    }
}
