//! The cores of this machine, and binding to them.
use anyhow::{Context, ensure};
use hwlocality::Topology;
use hwlocality::cpu::binding::CpuBindingFlags;
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::object::types::ObjectType;

/// Cores that hwloc found. Of a core with several hardware threads only the first is used.
pub struct Cores {
    topology: Topology,
    sets: Vec<CpuSet>,
}

impl Cores {
    pub fn new() -> anyhow::Result<Self> {
        let topology = Topology::new().context("hwloc does not see this machine")?;
        let first_thread = |set: &CpuSet| {
            let mut set = set.clone();
            set.singlify();
            set
        };
        let cores = topology.objects_with_type(ObjectType::Core);
        let sets: Vec<CpuSet> = cores.filter_map(|core| core.cpuset().map(|set| first_thread(&set))).collect();
        ensure!(!sets.is_empty(), "hwloc sees no core");
        Ok(Self { topology, sets })
    }

    pub fn count(&self) -> usize {
        self.sets.len()
    }

    /// Binds the calling thread. More readers than cores share them in turn.
    pub fn bind(&self, core: usize) -> anyhow::Result<()> {
        let set = &self.sets[core % self.sets.len()];
        self.topology.bind_cpu(set, CpuBindingFlags::THREAD).with_context(|| format!("cannot bind to core {core}"))
    }

    pub fn bind_to_last(&self) -> anyhow::Result<()> {
        self.bind(self.sets.len() - 1)
    }
}
