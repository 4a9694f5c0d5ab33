//! Files that place ranks one by one: rank files, and sequences of machines.
//!
//! A rank file has lines of `rank N=NAME slot=LIST`: the list is of logical processors (`0-3,8`), or of a package and
//! processors in it (`1:0-3`, `0:*`). A sequence has the name of a machine a line, for one rank after the other. Blank
//! lines and what follows a `#` say nothing.
use super::machine::{Kind, Machine, numbers};
use super::policy::{Mapping, Policy};

/// Node of a rank, and its units, which a sequence does not name.
type Where = (u32, Option<Vec<usize>>);

/// Place of each rank, as a file says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRequest {
    ranks: Vec<Where>,
}

impl FileRequest {
    /// Returns the number of ranks that it places.
    pub fn len(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The units that a rank is to be bound to.
    pub fn units(&self, rank: u32) -> Option<&[usize]> {
        self.ranks.get(rank as usize)?.1.as_deref()
    }

    /// The node that a rank is to run on.
    pub fn node(&self, rank: u32) -> u32 {
        self.ranks.get(rank as usize).map_or(0, |(node, _)| *node)
    }
}

/// Reads the text of the file that a policy names; `node` finds the number of the node that has a name.
///
/// # Errors
/// A line that begins with the number of the line that is wrong, and a colon.
pub fn read_file(
    text: &str,
    policy: &Policy,
    machine: Option<&Machine>,
    node: impl Fn(&str) -> Option<u32>,
) -> Result<FileRequest, String> {
    let mut ranks: Vec<(u32, Where)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let read = match (&policy.mapping, machine) {
            (Mapping::RankFile, Some(machine)) => of_rank(line, policy, machine, &node),
            _ => of_sequence(line, &node).map(|node| (ranks.len() as u32, (node, None))),
        };
        let (rank, place) = read.map_err(|error| format!("{number}: {error}"))?;
        if ranks.iter().any(|(other, _)| *other == rank) {
            return Err(format!("{number}: rank {rank} is there already"));
        }
        ranks.push((rank, place));
    }
    ranks.sort_by_key(|(rank, _)| *rank);
    if let Some(missing) = (0..).zip(&ranks).find_map(|(expected, (rank, _))| (*rank != expected).then_some(expected)) {
        return Err(format!(" rank {missing} is missing"));
    }
    if ranks.is_empty() {
        return Err(" it places no rank".to_owned());
    }
    Ok(FileRequest { ranks: ranks.into_iter().map(|(_, place)| place).collect() })
}

fn of_sequence(line: &str, node: impl Fn(&str) -> Option<u32>) -> Result<u32, String> {
    named(line.split_whitespace().next().unwrap_or_default(), node)
}

fn of_rank(
    line: &str,
    policy: &Policy,
    machine: &Machine,
    node: impl Fn(&str) -> Option<u32>,
) -> Result<(u32, Where), String> {
    let form = || "a line is as 'rank 0=localhost slot=0-3'".to_owned();
    let words = line.replace('=', " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let [rank, number, name, slot, list] = words[..] else { return Err(form()) };
    if !rank.eq_ignore_ascii_case("rank") || !["slot", "slots"].contains(&slot.to_ascii_lowercase().as_str()) {
        return Err(form());
    }
    let number = number.parse().map_err(|_| format!("{number} is no rank"))?;
    let node = named(name, node)?;
    let processor = policy.processor();
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
    Ok((number, (node, Some(units))))
}

fn named(name: &str, node: impl Fn(&str) -> Option<u32>) -> Result<u32, String> {
    // The first of the machines that were given.
    let found = node(name).or_else(|| name.eq_ignore_ascii_case("+n0").then_some(0));
    found.ok_or_else(|| format!("{name} is another machine, and all ranks run on this one; name localhost"))
}
