//! Sets of ranks, as the options about debuggers have them.
use instanton::data::{DataArray, Rank, Value};
use instanton::launch::MOST_RANKS;

/// Returns whether a word that stands behind an option is its ranks, as PRRTE has them. No program is called so.
pub fn are_ranks(option: &str, word: &[u8]) -> bool {
    let has_ranks = ["stop-on-exec", "stop-in-init", "stop-in-app"].contains(&option);
    has_ranks && std::str::from_utf8(word).is_ok_and(|word| Ranks::read(word).is_ok())
}

/// A set of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// All of the job.
    All,
    /// These, in order.
    Some(Vec<u32>),
}

impl Ranks {
    /// Reads `all`, or numbers and ranges of them: `1,3-6`.
    ///
    /// # Errors
    /// A line that says how they are written.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Ranks::All);
        }
        let wrong = || format!("`{text}` names no ranks; they are written as all, or as 1,3-6");
        let mut ranks = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u32>().ok().filter(|rank| *rank < MOST_RANKS);
            let (Some(first), Some(last)) = (number(first), number(last)) else { return Err(wrong()) };
            // A part may be named again and again; what one text adds up to stays bounded.
            if first > last || ranks.len() > MOST_RANKS as usize {
                return Err(wrong());
            }
            ranks.extend(first..=last);
        }
        ranks.sort_unstable();
        ranks.dedup();
        Ok(Ranks::Some(ranks))
    }

    /// They as an attribute has them: true for all, else a list.
    pub fn value(&self) -> Value {
        match self {
            Ranks::All => true.into(),
            Ranks::Some(ranks) => Value::DataArray(DataArray::of(ranks.iter().map(|rank| Rank(*rank)))),
        }
    }

    /// The highest of them, if they are counted.
    pub fn last(&self) -> Option<u32> {
        match self {
            Ranks::All => None,
            Ranks::Some(ranks) => ranks.last().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_written_as_for_prrte() {
        assert_eq!(Ranks::read("All"), Ok(Ranks::All));
        assert_eq!(Ranks::read("1,3-5,4"), Ok(Ranks::Some(vec![1, 3, 4, 5])));
        for bad in ["", "-1", "1,", "5-3", "0-4294967295", "some", "1-2-3", "0x1", "65536"] {
            assert!(Ranks::read(bad).is_err(), "{bad}");
        }
        // 80 kB of text that would be 650 million ranks.
        assert!(Ranks::read(&["0-65535"; 10_000].join(",")).is_err());
        assert!(are_ranks("stop-in-init", b"0-3") && !are_ranks("stop-in-init", b"./1") && !are_ranks("np", b"2"));
    }
}
