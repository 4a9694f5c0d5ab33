//! Sets of ranks, kept and written as ranges: `0-2,5`.
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Ranks of one namespace, in order. A set of nobody stands for whoever it may be, and is written as `*`.
///
/// ```
/// use instanton::data::RankSet;
/// let ranks: RankSet = [5, 0, 1, 2].into_iter().collect();
/// assert_eq!((ranks.to_string().as_str(), ranks.len()), ("0-2,5", 4));
/// assert_eq!("0-2,5".parse(), Ok(ranks));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSet(Vec<RangeInclusive<u32>>);

/// A text is no set of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRankSet;

impl RankSet {
    /// The ranges, in order; no two touch each other.
    pub fn ranges(&self) -> &[RangeInclusive<u32>] {
        &self.0
    }

    /// Returns the number of ranks.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|range| u64::from(range.end() - range.start()) + 1).sum()
    }

    /// Returns whether nobody is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a rank is in it.
    pub fn contains(&self, rank: u32) -> bool {
        let at = self.0.partition_point(|range| *range.end() < rank);
        self.0.get(at).is_some_and(|range| range.contains(&rank))
    }

    /// The ranks one by one.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().cloned().flatten()
    }

    /// The ranks that are in another set as well.
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut both, mut others) = (Self::default(), other.0.iter().peekable());
        for range in &self.0 {
            while others.next_if(|other| other.end() < range.start()).is_some() {}
            while let Some(other) = others.peek().filter(|other| other.start() <= range.end()) {
                both.push(*range.start().max(other.start())..=*range.end().min(other.end()));
                // It may reach into the next range.
                if other.end() > range.end() {
                    break;
                }
                others.next();
            }
        }
        both
    }

    /// The ranks of both sets.
    pub fn union(&self, other: &Self) -> Self {
        let (mut all, mut ranges) = (Self::default(), [&self.0[..], &other.0].concat());
        ranges.sort_unstable_by_key(|range| *range.start());
        ranges.into_iter().for_each(|range| all.push(range));
        all
    }

    /// Adds a range that begins in or behind the last, or touches it.
    fn push(&mut self, next: RangeInclusive<u32>) {
        match self.0.last_mut() {
            Some(last) if u64::from(*next.start()) <= u64::from(*last.end()) + 1 => {
                *last = *last.start()..=*last.end().max(next.end());
            }
            _ => self.0.push(next),
        }
    }
}

impl From<RangeInclusive<u32>> for RankSet {
    fn from(range: RangeInclusive<u32>) -> Self {
        let mut set = Self::default();
        if !range.is_empty() {
            set.push(range);
        }
        set
    }
}

impl FromIterator<u32> for RankSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ranks: I) -> Self {
        let mut ranks: Vec<u32> = ranks.into_iter().collect();
        ranks.sort_unstable();
        let mut set = Self::default();
        ranks.into_iter().for_each(|rank| set.push(rank..=rank));
        set
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("*");
        }
        for (at, range) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match range.start() == range.end() {
                true => write!(f, "{comma}{}", range.start())?,
                false => write!(f, "{comma}{}-{}", range.start(), range.end())?,
            }
        }
        Ok(())
    }
}

impl FromStr for RankSet {
    type Err = NoRankSet;

    fn from_str(text: &str) -> Result<Self, NoRankSet> {
        let mut set = Self::default();
        if text == "*" {
            return Ok(set);
        }
        for piece in text.split(',') {
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            let number = |text: &str| text.parse::<u32>().map_err(|_| NoRankSet);
            let (first, last) = (number(first)?, number(last)?);
            let is_in_order = set.0.last().is_none_or(|before| *before.end() < first);
            if last < first || !is_in_order {
                return Err(NoRankSet);
            }
            set.push(first..=last);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_follow_each_other_become_one_range() {
        let set: RankSet = [7, 3, 1, 2, 9, 8, u32::MAX, 3].into_iter().collect();
        assert_eq!(set.to_string(), format!("1-3,7-9,{}", u32::MAX));
        assert_eq!((set.len(), set.iter().count()), (7, 7));
        assert!(set.contains(1) && set.contains(8) && !set.contains(0) && !set.contains(4));
        assert_eq!(set.to_string().parse(), Ok(set));
        assert_eq!(("*".parse(), RankSet::default().to_string().as_str()), (Ok(RankSet::default()), "*"));
        for bad in ["", "1,", "2-1", "5,3", "-1", "a", "1-2,2"] {
            assert_eq!(bad.parse::<RankSet>(), Err(NoRankSet), "{bad}");
        }
    }

    #[test]
    fn sets_are_joined_and_cut_range_by_range() {
        let set = |text: &str| text.parse::<RankSet>().unwrap();
        for (one, other, both, all) in [
            ("0-9", "2-3,5,9-12", "2-3,5,9", "0-12"),
            ("0-2,4-6,8", "2-4,8-9", "2,4,8", "0-6,8-9"),
            ("1", "0,2", "*", "0-2"),
            ("*", "0-3", "*", "0-3"),
            ("0,4294967295", "4294967294-4294967295", "4294967295", "0,4294967294-4294967295"),
        ] {
            let (one, other) = (set(one), set(other));
            for (one, other) in [(&one, &other), (&other, &one)] {
                assert_eq!(
                    (one.intersection(other).to_string(), one.union(other).to_string()),
                    (both.into(), all.into())
                );
            }
        }
        assert_eq!((RankSet::from(3..=5), RankSet::from(RangeInclusive::new(1, 0))), (set("3-5"), set("*")));
    }
}
