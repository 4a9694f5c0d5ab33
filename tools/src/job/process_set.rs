//! Process sets of a job.
use instanton::data::Text;

/// A name for some of a job's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSet {
    /// Its name.
    pub name: Text,
    /// Its members, in order.
    pub ranks: Vec<u32>,
}

impl ProcessSet {
    /// The sets of a job whose applications have so many ranks each, and belong to these sets. Applications that name
    /// the same one are in it together.
    pub fn of_apps(apps: impl IntoIterator<Item = (u32, Vec<Text>)>) -> Vec<Self> {
        let mut sets: Vec<Self> = Vec::new();
        let mut first = 0;
        for (size, names) in apps {
            for name in names {
                let ranks = first..first + size;
                match sets.iter_mut().find(|set| set.name == name) {
                    // One application may name it twice.
                    Some(set) if set.ranks.last().is_some_and(|last| *last >= first) => {}
                    Some(set) => set.ranks.extend(ranks),
                    None => sets.push(Self { name, ranks: ranks.collect() }),
                }
            }
            first += size;
        }
        sets
    }
}
