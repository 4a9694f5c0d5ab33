//! Placement of jobs: of the first one as the command line says, and of others beside those there are.
use std::fs;
use std::sync::Arc;

use instanton::data::Status;
use instanton::internal::sys::hwloc::{self, Place};

use crate::args::{Hosts, Run};
use crate::job::Placement;
use crate::jobs::Jobs;
use crate::placement::{self, FileRequest, Kind, Machine, Mapping, Nodes, Policy, Spot, read_file};

/// Placement that the command line asks for, once the machine is known.
pub struct Request {
    policy: Policy,
    machine: Option<Machine>,
    file: Option<FileRequest>,
}

impl Request {
    /// Reads the options and the file that they name; `found` is this machine as far as it is known, and `hosts`
    /// finds nodes by their names.
    ///
    /// # Errors
    /// A line that names what is wrong, and its place.
    pub fn read(run: &Run, found: Option<&Place>, hosts: &Hosts) -> Result<Self, String> {
        let mut policy = run.placement.policy()?;
        let synthetic = run.placement.topology.clone();
        let machine = synthetic.or_else(|| found.and_then(|place| Machine::of_cores(&place.cores)));
        if policy.needs_machine() && machine.is_none() {
            if !policy.binding.if_supported {
                return Err(
                    "ranks cannot be placed on parts of this machine: libhwloc.so.15, which knows them, is not \
                            there or fails; install it, or leave out --map-by and --bind-to"
                        .to_owned(),
                );
            }
            policy = Policy { no_oversubscribe: policy.no_oversubscribe, ..Policy::default() };
        }
        let mut file = None;
        if let (Mapping::Sequence | Mapping::RankFile, Some(path)) = (&policy.mapping, &policy.file) {
            let name = path.display();
            let text = fs::read_to_string(path).map_err(|error| format!("cannot read the ranks in {name}: {error}"))?;
            let read = read_file(&text, &policy, machine.as_ref(), |name| hosts.first(name));
            file = Some(read.map_err(|error| format!("{name}:{error}"))?);
        }
        Ok(Self { policy, machine, file })
    }

    /// Returns whether more ranks than slots are refused.
    pub fn refuses_more(&self) -> bool {
        self.policy.no_oversubscribe
    }

    /// Returns the number of processors of a machine that is not there.
    pub fn slots(&self) -> Option<u32> {
        let machine = self.machine.as_ref().filter(|machine| !machine.is_real)?;
        Some(machine.objects(Kind::Core).len() as u32)
    }

    /// Returns the number of ranks that follows from it, on so many nodes.
    pub fn ranks(&self, nodes: u32) -> Option<u32> {
        match (&self.policy.mapping, &self.file, &self.machine) {
            (_, Some(file), _) => Some(file.len()),
            (Mapping::PerObject(number, kind), _, Some(machine)) => {
                Some(number.saturating_mul(machine.objects(*kind).len() as u32).saturating_mul(nodes))
            }
            (Mapping::PerObject(number, _), _, None) => Some(number.saturating_mul(nodes)),
            _ => None,
        }
    }

    /// Places so many ranks on these nodes.
    ///
    /// # Errors
    /// A line that says what the machine, or the file, lacks.
    pub fn place(self, nodes: Nodes<'_>, ranks: u32) -> Result<Placement, String> {
        let Self { policy, machine, file } = self;
        if let (Some(file), Some(path)) = (file.as_ref().filter(|file| file.len() < ranks), &policy.file) {
            return Err(format!("{}: ranks that it places: {}; asked for: {ranks}", path.display(), file.len()));
        }
        // Where nobody knows the machine, it is one thing.
        let unknown = Machine::synthetic(&[(Kind::Core, 1)]);
        let machine_or_one = machine.as_ref().unwrap_or(&unknown);
        let spots = placement::place(&policy, machine_or_one, nodes, ranks, &[], file.as_ref())?;
        Ok(Placement { policy, machine: machine.map(Arc::new), spots })
    }
}

/// This machine, if it is known.
pub fn machine(jobs: &Jobs) -> Option<Arc<Machine>> {
    let known = jobs.all().find_map(|live| live.job.placement.machine.clone());
    known.or_else(|| hwloc::place(true).and_then(|place| Machine::of_cores(&place.cores)).map(Arc::new))
}

/// Ranks of a job that are placed together.
pub struct Part {
    pub ranks: u32,
    /// Slots of every node, where it was said which nodes are meant.
    pub slots: Option<Vec<u32>>,
}

/// Places the ranks of one more job, part by part, on the nodes that are `up`.
///
/// # Errors
/// `ERR_JOB_FAILED_TO_MAP` where the machine lacks something, others are bound there, or no node that is meant is up.
pub fn beside(jobs: &Jobs, policy: Policy, parts: &[Part], up: &[u32]) -> Result<Placement, Status> {
    let machine = if policy.needs_machine() { machine(jobs) } else { None };
    // Where nobody knows the machine, ranks are not bound.
    let unknown = Machine::synthetic(&[(Kind::Core, 1)]);
    let policy = if machine.is_some() || !policy.needs_machine() { policy } else { Policy::default() };
    // Nodes that are down are left out of the numbers here.
    let among = |spot: &Spot| {
        let node = up.iter().position(|node| *node == spot.node)? as u32;
        Some(Spot { node, ..spot.clone() })
    };
    let placements = jobs.all().map(|live| &live.job.placement);
    let mut taken: Vec<Spot> = placements.flat_map(|placement| &placement.spots).filter_map(among).collect();
    let others = taken.len();
    for Part { ranks, slots } in parts {
        let slots = slots.as_ref().or(jobs.first().slots_of_nodes.as_ref());
        let slots = slots.map(|slots| up.iter().map(|node| slots[*node as usize]).collect::<Vec<_>>());
        if slots.as_ref().is_some_and(|slots| slots.iter().all(|slots| *slots == 0)) {
            return Err(Status::ERR_JOB_FAILED_TO_MAP);
        }
        let nodes = Nodes { count: up.len() as u32, slots: slots.as_deref() };
        let before: Vec<&Spot> = taken.iter().collect();
        let spots = placement::place(&policy, machine.as_deref().unwrap_or(&unknown), nodes, *ranks, &before, None);
        taken.extend(spots.map_err(|_| Status::ERR_JOB_FAILED_TO_MAP)?);
    }
    let mut spots = taken.split_off(others);
    spots.iter_mut().for_each(|spot| spot.node = up[spot.node as usize]);
    Ok(Placement { policy, spots, machine })
}
