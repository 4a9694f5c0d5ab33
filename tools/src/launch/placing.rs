//! Placement of jobs: of the first one as the command line says, and of others beside those there are.
use std::fs;
use std::sync::Arc;

use instanton::data::Status;
use instanton::internal::sys::hwloc::{self, Place};
use instanton::launch::is_named;

use crate::args::Run;
use crate::job::Placement;
use crate::jobs::Jobs;
use crate::placement::{self, FileRequest, Kind, Machine, Mapping, Policy, read_file};

/// Placement that the command line asks for, once the machine is known.
pub struct Request {
    policy: Policy,
    machine: Option<Machine>,
    file: Option<FileRequest>,
}

impl Request {
    /// Reads the options and the file that they name; `found` is this machine as far as it is known, and `node` its
    /// name.
    ///
    /// # Errors
    /// A line that names what is wrong, and its place.
    pub fn read(run: &Run, found: Option<&Place>, node: &str) -> Result<Self, String> {
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
            let read = read_file(&text, &policy, machine.as_ref(), |name| is_named(name, node));
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

    /// Returns the number of ranks that follows from it.
    pub fn ranks(&self) -> Option<u32> {
        match (&self.policy.mapping, &self.file, &self.machine) {
            (_, Some(file), _) => Some(file.len()),
            (Mapping::PerObject(number, kind), _, Some(machine)) => {
                Some(number.saturating_mul(machine.objects(*kind).len() as u32))
            }
            (Mapping::PerObject(number, _), _, None) => Some(*number),
            _ => None,
        }
    }

    /// Places so many ranks.
    ///
    /// # Errors
    /// A line that says what the machine, or the file, lacks.
    pub fn place(self, ranks: u32) -> Result<Placement, String> {
        let Self { policy, machine, file } = self;
        if let (Some(file), Some(path)) = (file.as_ref().filter(|file| file.len() < ranks), &policy.file) {
            return Err(format!("{}: it places {} ranks, and {ranks} are asked for", path.display(), file.len()));
        }
        // Where nobody knows the machine, it is one thing.
        let unknown = Machine::synthetic(&[(Kind::Core, 1)]);
        let spots = placement::place(&policy, machine.as_ref().unwrap_or(&unknown), ranks, &[], file.as_ref())?;
        Ok(Placement { policy, machine: machine.map(Arc::new), spots })
    }
}

/// Places the ranks of one more job.
///
/// # Errors
/// `ERR_JOB_FAILED_TO_MAP` where the machine lacks something, or others are bound there.
pub fn beside(jobs: &Jobs, policy: Policy, ranks: u32) -> Result<Placement, Status> {
    if !policy.needs_machine() {
        return Ok(Placement { policy, ..Placement::default() });
    }
    let known = jobs.all().find_map(|live| live.job.placement.machine.clone());
    let found = || hwloc::place(true).and_then(|place| Machine::of_cores(&place.cores)).map(Arc::new);
    let Some(machine) = known.or_else(found) else {
        return Ok(Placement::default());
    };
    let placements = jobs.all().map(|live| &live.job.placement);
    let taken: Vec<&[usize]> = placements.flat_map(|placement| &placement.spots).map(|spot| &spot.units[..]).collect();
    let spots = placement::place(&policy, &machine, ranks, &taken, None).map_err(|_| Status::ERR_JOB_FAILED_TO_MAP)?;
    Ok(Placement { policy, machine: Some(machine), spots })
}
