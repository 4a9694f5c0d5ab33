//! Files that place ranks one by one: rank files, and sequences of machines.
//!
//! A rank file has lines of `rank N=NAME slot=LIST`: the list is of logical processors (`0-3,8`), or of a package and
//! processors in it (`1:0-3`, `0:*`). A sequence has the name of a machine a line, for one rank after the other. Blank
//! lines and what follows a `#` say nothing.
use super::machine::{Kind, Machine, numbers};
use super::policy::{Mapping, Policy};

/// Place of each rank, as a file says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRequest {
    /// Units of each, which a sequence does not name.
    ranks: Vec<Option<Vec<usize>>>,
}

impl FileRequest {
    /// Returns the number of ranks that it places.
    pub fn len(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The units that a rank is to be bound to.
    pub fn units(&self, rank: u32) -> Option<&[usize]> {
        self.ranks.get(rank as usize)?.as_deref()
    }
}

/// Reads the text of the file that a policy names; `is_here` tells names of this machine.
///
/// # Errors
/// A line that begins with the number of the line that is wrong, and a colon.
pub fn read_file(
    text: &str,
    policy: &Policy,
    machine: Option<&Machine>,
    is_here: impl Fn(&str) -> bool,
) -> Result<FileRequest, String> {
    let mut ranks: Vec<(u32, Option<Vec<usize>>)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let read = match (&policy.mapping, machine) {
            (Mapping::RankFile, Some(machine)) => of_rank(line, policy, machine, &is_here),
            _ => of_sequence(line, &is_here).map(|()| (ranks.len() as u32, None)),
        };
        let (rank, units) = read.map_err(|error| format!("{number}: {error}"))?;
        if ranks.iter().any(|(other, _)| *other == rank) {
            return Err(format!("{number}: rank {rank} is there already"));
        }
        ranks.push((rank, units));
    }
    ranks.sort_by_key(|(rank, _)| *rank);
    if let Some(missing) = (0..).zip(&ranks).find_map(|(expected, (rank, _))| (*rank != expected).then_some(expected)) {
        return Err(format!(" rank {missing} is missing"));
    }
    if ranks.is_empty() {
        return Err(" it places no rank".to_owned());
    }
    Ok(FileRequest { ranks: ranks.into_iter().map(|(_, units)| units).collect() })
}

fn of_sequence(line: &str, is_here: impl Fn(&str) -> bool) -> Result<(), String> {
    named(line.split_whitespace().next().unwrap_or_default(), is_here)
}

fn of_rank(
    line: &str,
    policy: &Policy,
    machine: &Machine,
    is_here: impl Fn(&str) -> bool,
) -> Result<(u32, Option<Vec<usize>>), String> {
    let form = || "a line is as 'rank 0=localhost slot=0-3'".to_owned();
    let words = line.replace('=', " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let [rank, number, name, slot, list] = words[..] else { return Err(form()) };
    if !rank.eq_ignore_ascii_case("rank") || !["slot", "slots"].contains(&slot.to_ascii_lowercase().as_str()) {
        return Err(form());
    }
    let number = number.parse().map_err(|_| format!("{number} is no rank"))?;
    named(name, is_here)?;
    let processor = if policy.by_thread { Kind::Thread } else { Kind::Core };
    let mut units = Vec::new();
    let mut package = None;
    for part in list.split(',') {
        let part = match part.split_once(':') {
            Some((of, rest)) => {
                let of = of.trim_start_matches(['S', 's', 'P', 'p']);
                package = Some(of.parse::<u32>().map_err(|_| format!("{part} names no package"))?);
                rest
            }
            None => part,
        };
        let within = match package {
            Some(package) => {
                let all = machine.objects(Kind::Package);
                let found = all.into_iter().find(|object| object.number == package);
                Some(found.ok_or_else(|| format!("there is no package {package} to run on"))?.units)
            }
            None => None,
        };
        let mut processors = machine.objects(processor);
        if let Some(within) = &within {
            processors.retain(|object| within.contains(&object.units[0]));
        }
        if part == "*" {
            units.extend(processors.into_iter().flat_map(|object| object.units));
            continue;
        }
        for wanted in numbers(part).ok_or_else(|| format!("{part} is no list of processors, as 0-3,8 is"))? {
            // In a package they are counted from its own first.
            let found = match within {
                Some(_) => processors.get(wanted as usize),
                None => processors.iter().find(|object| object.number == wanted),
            };
            let found = found.ok_or_else(|| format!("there is no {} {wanted} to run on", processor.name()))?;
            units.extend(&found.units);
        }
    }
    units.sort_unstable();
    units.dedup();
    Ok((number, Some(units)))
}

fn named(name: &str, is_here: impl Fn(&str) -> bool) -> Result<(), String> {
    // The first of the machines that were given.
    match is_here(name) || name.eq_ignore_ascii_case("+n0") {
        true => Ok(()),
        false => Err(format!("{name} is another machine, and all ranks run on this one; name localhost")),
    }
}
