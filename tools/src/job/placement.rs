//! Placement of a job: where its ranks are on the machine, and what they are told of it.
use std::collections::HashMap;
use std::sync::Arc;

use instanton::data::{Info, keys};

use crate::placement::{Kind, Machine, Policy, Spot};

/// Places of a job's ranks on the machine.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// Wishes that led to them.
    pub policy: Policy,
    /// The machine, where ranks are placed on one that is known.
    pub machine: Option<Arc<Machine>>,
    /// The place of each rank, where there is such a machine.
    pub spots: Vec<Spot>,
}

impl Placement {
    /// Places on these nodes, bound nowhere.
    pub fn unbound(nodes: Vec<u32>) -> Self {
        let spot = |node| Spot { node, object: (Kind::Node, 0), units: Vec::new() };
        Self { spots: nodes.into_iter().map(spot).collect(), ..Self::default() }
    }

    /// The units of the machine that a rank is bound to; none where it is not bound.
    pub fn units(&self, rank: u32) -> &[usize] {
        self.spots.get(rank as usize).map_or(&[], |spot| &spot.units)
    }

    /// The kernel's numbers of the processors that a rank is to be bound to; none on a machine that is not there.
    pub fn processors(&self, rank: u32) -> Vec<usize> {
        let real = self.machine.as_ref().filter(|machine| machine.is_real);
        real.map(|machine| machine.os_numbers(self.units(rank))).unwrap_or_default()
    }

    /// Attributes of each rank's place: its processors, its locality, and its number in its package; nothing where
    /// it is not bound.
    pub fn infos(&self) -> Vec<Vec<Info>> {
        let Some(machine) = &self.machine else { return Vec::new() };
        let mut in_package = HashMap::new();
        let told = |spot: &Spot| {
            if spot.units.is_empty() {
                return Vec::new();
            }
            let mut infos = vec![
                Info::new(keys::CPUSET, machine.cpuset(&spot.units).as_str()),
                Info::new(keys::LOCALITY_STRING, machine.locality(&spot.units).as_str()),
            ];
            let packages = machine.numbers(Kind::Package, &spot.units);
            if packages.len() == 1 {
                let before = in_package.entry(packages).or_insert(0u16);
                infos.push(Info::new(keys::PACKAGE_RANK, *before));
                *before += 1;
            }
            infos
        };
        self.spots.iter().map(told).collect()
    }
}
