//! A machine as far as ranks are placed on it: its processing units in order, and the objects that each is part of.
use std::collections::BTreeSet;

use instanton::internal::sys::hwloc::Core;

/// A kind of object, from the largest to the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Node,
    Package,
    Numa,
    L3,
    L2,
    L1,
    Core,
    Thread,
}

/// Kinds of which a locality string names objects, in its order, with their names there.
const NAMED: [(Kind, &str); 7] = [
    (Kind::Package, "SK"),
    (Kind::L3, "L3"),
    (Kind::L2, "L2"),
    (Kind::L1, "L1"),
    (Kind::Core, "CR"),
    (Kind::Thread, "HT"),
    (Kind::Numa, "NM"),
];
/// The number of kinds.
const KINDS: usize = 8;

/// One processing unit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unit {
    /// The kernel's number.
    os: usize,
    /// The logical number of the object of each kind that it is part of; none where the machine has none.
    within: [Option<u32>; KINDS],
}

/// The processing units that ranks may run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    units: Vec<Unit>,
    /// True if it is this one.
    pub is_real: bool,
}

/// An object: its logical number, and its units as numbers in the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Logical number.
    pub number: u32,
    /// Units, in order.
    pub units: Vec<usize>,
}

impl Kind {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Package => "package",
            Kind::Numa => "numa",
            Kind::L3 => "l3cache",
            Kind::L2 => "l2cache",
            Kind::L1 => "l1cache",
            Kind::Core => "core",
            Kind::Thread => "hwthread",
        }
    }

    /// The word of Open MPI's launchers for a binding to it (`PMIX_BINDTO`).
    pub fn word(self) -> &'static str {
        match self {
            Kind::Node => "NONE",
            Kind::Package => "PACKAGE",
            Kind::Numa => "NUMA",
            Kind::L3 => "L3CACHE",
            Kind::L2 => "L2CACHE",
            Kind::L1 => "L1CACHE",
            Kind::Core => "CORE",
            Kind::Thread => "HWTHREAD",
        }
    }
}

impl Machine {
    /// This machine, by its cores; none if what is said of them cannot be read.
    pub fn of_cores(cores: &[Core]) -> Option<Self> {
        let mut units = Vec::new();
        for core in cores {
            let mut within = [None; KINDS];
            let mut threads = Vec::new();
            for part in core.locality.split(':') {
                let (name, list) = part.split_at_checked(2)?;
                let (kind, _) = NAMED.iter().find(|(_, known)| *known == name)?;
                let numbers = numbers(list)?;
                match kind {
                    Kind::Thread => threads = numbers,
                    // A core of several memories is of the first.
                    _ => within[*kind as usize] = numbers.first().copied(),
                }
            }
            within[Kind::Node as usize] = Some(0);
            if threads.len() != core.units.len() {
                return None;
            }
            for (&os, thread) in core.units.iter().zip(threads) {
                within[Kind::Thread as usize] = Some(thread);
                units.push(Unit { os, within });
            }
        }
        (!units.is_empty()).then_some(Self { units, is_real: true })
    }

    /// A machine that is not there: so many objects of each kind within each of the one before.
    pub fn synthetic(levels: &[(Kind, u32)]) -> Self {
        let all = levels.iter().map(|(_, count)| *count as usize).product::<usize>();
        let unit = |os: usize| {
            let mut within = [None; KINDS];
            within[Kind::Node as usize] = Some(0);
            let mut share = all;
            for (kind, count) in levels {
                share /= *count as usize;
                within[*kind as usize] = Some((os / share) as u32);
            }
            // A level that nobody has told of is as fine as it can be, or there once.
            within[Kind::Thread as usize].get_or_insert(os as u32);
            let core = within[Kind::Thread as usize].filter(|_| levels.iter().all(|(kind, _)| *kind != Kind::Core));
            within[Kind::Core as usize] = within[Kind::Core as usize].or(core);
            within[Kind::Package as usize].get_or_insert(0);
            within[Kind::Numa as usize].get_or_insert(0);
            Unit { os, within }
        };
        Self { units: (0..all).map(unit).collect(), is_real: false }
    }

    /// Returns the number of its units.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Its objects of a kind, in order; none where it has none.
    pub fn objects(&self, kind: Kind) -> Vec<Object> {
        let mut objects: Vec<Object> = Vec::new();
        for (unit, at) in self.units.iter().zip(0..) {
            let Some(number) = unit.within[kind as usize] else { continue };
            match objects.last_mut().filter(|last| last.number == number) {
                Some(last) => last.units.push(at),
                None => match objects.iter_mut().find(|other| other.number == number) {
                    Some(other) => other.units.push(at),
                    None => objects.push(Object { number, units: vec![at] }),
                },
            }
        }
        objects.sort_by_key(|object| object.number);
        objects
    }

    /// Returns the number of objects of a kind that some units are part of.
    pub fn count(&self, kind: Kind, units: &[usize]) -> usize {
        self.numbers(kind, units).len()
    }

    /// The kernel's numbers of some units.
    pub fn os_numbers(&self, units: &[usize]) -> Vec<usize> {
        units.iter().map(|&at| self.units[at].os).collect()
    }

    /// Some units in hwloc's words: `hwloc:0-3,8`.
    pub fn cpuset(&self, units: &[usize]) -> String {
        let os = units.iter().map(|&at| self.units[at].os as u32).collect();
        format!("hwloc:{}", list(&os))
    }

    /// The objects that some units are part of: `SK0:L30:CR0-1:HT0-1:NM0`.
    pub fn locality(&self, units: &[usize]) -> String {
        let part = |(kind, name): &(Kind, &str)| {
            let numbers = self.numbers(*kind, units);
            (!numbers.is_empty()).then(|| format!("{name}{}", list(&numbers)))
        };
        NAMED.iter().filter_map(part).collect::<Vec<_>>().join(":")
    }

    /// The logical numbers of the objects of a kind that some units are part of.
    pub fn numbers(&self, kind: Kind, units: &[usize]) -> BTreeSet<u32> {
        units.iter().filter_map(|&at| self.units[at].within[kind as usize]).collect()
    }
}

/// Numbers as a list of ranges, `0-3,8`.
pub fn list(numbers: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut().filter(|(_, last)| *last + 1 == number) {
            Some((_, last)) => *last = number,
            None => ranges.push((number, number)),
        }
    }
    let range = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// Most numbers of a list: no machine has more processors.
const MOST: usize = 1 << 16;

/// The numbers of a list of ranges, in its order; none where it is no such list, or one of more than a machine has.
pub fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || (last - first) as usize >= MOST - all.len() {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}
