//! Drawings of where ranks are, for people.
//!
//! A machine is drawn with its packages in brackets, its cores between slashes and a sign for each hardware thread: `B`
//! where the rank is bound, and a dot elsewhere.
use std::fmt::Write;

use super::machine::{Kind, Machine, list};
use super::mapping::Spot;

/// A line for each rank: what it is bound to. `nodes` has the names of the nodes.
pub fn bindings(machine: Option<&Machine>, spots: &[Spot], nodes: &[String]) -> String {
    let mut text = String::new();
    for (spot, rank) in spots.iter().zip(0..) {
        let node = &nodes[spot.node as usize];
        let spot = Some(spot).filter(|spot| !spot.units.is_empty());
        let _ = match (machine, spot) {
            (Some(machine), Some(spot)) => {
                let objects = named(machine, &spot.units);
                writeln!(text, "rank {rank} on node {node}: bound to {objects} {}", drawn(machine, &spot.units))
            }
            _ => writeln!(text, "rank {rank} on node {node}: not bound"),
        };
    }
    text
}

/// A line for each rank: its program, and the object that it is mapped to.
pub fn map<'a>(spots: &[Spot], nodes: &[String], programs: impl Iterator<Item = (u32, &'a str)>) -> String {
    let mut text = String::new();
    for (rank, program) in programs {
        let Some(spot) = spots.get(rank as usize) else { continue };
        let (node, object) = (&nodes[spot.node as usize], Some(spot.object).filter(|(kind, _)| *kind != Kind::Node));
        let object = object.map(|(kind, number)| format!(", {} {number}", kind.name())).unwrap_or_default();
        let _ = writeln!(text, "rank {rank} ({program}): node {node}{object}");
    }
    text
}

/// A line about a node, and a drawing of it.
pub fn allocation(machine: Option<&Machine>, node: &str, slots: u32) -> String {
    let Some(machine) = machine else { return format!("node {node}: {slots} slots\n") };
    let all: Vec<usize> = (0..machine.len()).collect();
    let count = |kind: Kind| match machine.count(kind, &all) {
        1 => format!("1 {}", kind.name()),
        number => format!("{number} {}s", kind.name()),
    };
    let kinds = [Kind::Package, Kind::Numa, Kind::Core, Kind::Thread].map(count).join(", ");
    format!("node {node}: {slots} slots; {kinds} {}\n", drawn(machine, &[]))
}

/// The objects of some units: whole cores, or hardware threads.
fn named(machine: &Machine, units: &[usize]) -> String {
    let cores = machine.numbers(Kind::Core, units);
    let whole = machine.objects(Kind::Core).into_iter().filter(|core| cores.contains(&core.number));
    let is_whole = whole.flat_map(|core| core.units).all(|unit| units.contains(&unit));
    let kind = if is_whole { Kind::Core } else { Kind::Thread };
    let numbers = machine.numbers(kind, units);
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{}{plural} {}", kind.name(), list(&numbers))
}

fn drawn(machine: &Machine, bound: &[usize]) -> String {
    let mut text = String::new();
    for package in machine.objects(Kind::Package) {
        let cores = machine.objects(Kind::Core).into_iter().filter(|core| package.units.contains(&core.units[0]));
        let sign = |unit: &usize| if bound.contains(unit) { 'B' } else { '.' };
        let cores = cores.map(|core| core.units.iter().map(sign).collect::<String>());
        let _ = write!(text, "[{}]", cores.collect::<Vec<_>>().join("/"));
    }
    text
}
