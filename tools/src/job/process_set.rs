//! Process sets of a job.
use std::collections::HashMap;
use std::ops::Range;

use instanton::data::Text;

/// A name for some of a job's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSet {
    /// Its name.
    pub name: Text,
    /// Its members, in order: a name of a whole job takes no more than one of a rank.
    ranges: Vec<Range<u32>>,
}

impl ProcessSet {
    /// The sets of a job whose applications have so many ranks each, and belong to these sets; the first ones are those
    /// of all ranks. Applications that name the same one are in it together.
    pub fn of_apps<'a, N>(
        whole: impl IntoIterator<Item = &'a Text>,
        apps: impl IntoIterator<Item = (u32, N)>,
    ) -> Vec<Self>
    where
        N: IntoIterator<Item = &'a Text>,
    {
        let apps: Vec<(u32, N)> = apps.into_iter().collect();
        let mut sets = Sets::default();
        let all = 0..apps.iter().fold(0, |sum: u32, (size, _)| sum.saturating_add(*size));
        whole.into_iter().for_each(|name| sets.add(name, &all));
        let mut first = 0;
        for (size, names) in apps {
            let ranks = first..first + size;
            names.into_iter().for_each(|name| sets.add(name, &ranks));
            first += size;
        }
        sets.all
    }

    /// Returns the number of its members.
    pub fn size(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }

    /// Its members, in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.ranges.iter().cloned().flatten()
    }

    /// Returns whether a rank is a member.
    pub fn contains(&self, rank: u32) -> bool {
        let after = self.ranges.partition_point(|ranks| ranks.end <= rank);
        self.ranges.get(after).is_some_and(|ranks| ranks.contains(&rank))
    }
}

/// Sets that are made, and the place of each by its name.
#[derive(Default)]
struct Sets<'a> {
    all: Vec<ProcessSet>,
    by_name: HashMap<&'a Text, usize>,
}

impl<'a> Sets<'a> {
    /// Adds ranks that come behind those there are, unless they are there already: one may name a set twice.
    fn add(&mut self, name: &'a Text, ranks: &Range<u32>) {
        let place = *self.by_name.entry(name).or_insert(self.all.len());
        if place == self.all.len() {
            self.all.push(ProcessSet { name: name.clone(), ranges: Vec::new() });
        }
        let ranges = &mut self.all[place].ranges;
        match ranges.last_mut() {
            Some(last) if last.end > ranks.start => {}
            Some(last) if last.end == ranks.start => last.end = ranks.end,
            _ => ranges.push(ranks.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_takes_as_much_as_was_said_of_it_however_many_ranks_it_has() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Text::new(name).unwrap());
        let apps = [(60_000, vec![&b, &b]), (1, vec![]), (5000, vec![&a, &b]), (1, vec![&b, &c])];
        let sets = ProcessSet::of_apps([&a, &a], apps);
        let seen: Vec<_> = sets.iter().map(|set| (&set.name, set.size(), set.ranges.len())).collect();
        assert_eq!(seen, [(&a, 65_002, 1), (&b, 65_001, 2), (&c, 1, 1)]);
        assert_eq!(
            [59_999, 60_000, 60_001, 65_001, 65_002].map(|rank| sets[1].contains(rank)),
            [true, false, true, true, false]
        );
        assert!(sets[1].ranks().eq((0..60_000).chain(60_001..65_002)));
    }
}
