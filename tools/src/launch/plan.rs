//! The plan of a run: what the command line and the files that it names ask for, made before anything is started.
use instanton::data::Rank;
use instanton::internal::sys::hwloc::Place;
use instanton::launch::{AppSpec, is_named};

use super::placing::Request;
use crate::args::Run;
use crate::job::{Placement, ProcessSet, StreamOptions, processors};

/// Jobs and placement that are asked for.
pub struct Plan {
    /// The applications of the first job.
    pub specs: Vec<AppSpec>,
    /// Process sets of the first job.
    pub psets: Vec<ProcessSet>,
    /// Places of its ranks.
    pub placement: Placement,
    /// Slots of this machine.
    pub slots: u32,
    /// Form and place of the output of every job.
    pub options: StreamOptions,
}

/// Plans a run; `node` is this machine's name, and `found` what is known of its parts.
///
/// # Errors
/// A line that names what makes no sense, and its place.
pub fn of(run: &Run, node: &str, found: Option<&Place>) -> Result<Plan, String> {
    let request = Request::read(run, found, node)?;
    let processors = request.slots().unwrap_or_else(processors);
    let given = run.hosts.slots(processors, |name| is_named(name, node))?;
    let slots = given.unwrap_or(processors);
    let of_options = run.placement.per_node().or_else(|| request.ranks().or(given).filter(|_| run.is_unnumbered()));
    let unnumbered = of_options.unwrap_or(1);
    let (specs, psets) = (run.apps(unnumbered)?, run.psets(unnumbered));
    let ranks = specs.iter().map(|spec| spec.ranks).sum::<u32>();
    if let Some(most) = run.placement.per_node().filter(|most| run.is_numbered() && ranks > *most) {
        return Err(format!(
            "--npernode {most}: {ranks} ranks need more machines than this one; leave out one of both"
        ));
    }
    if (run.hosts.nooversubscribe || request.refuses_more()) && ranks > slots {
        return Err(format!("nooversubscribe: {ranks} ranks are more than the {slots} slots of {node}"));
    }
    if let Some(rank) = run.output.stdin.target().filter(|rank| rank.is_process() && *rank >= Rank(ranks)) {
        return Err(format!("--stdin {rank}: there is no such rank, only 0 to {}", ranks - 1));
    }
    let placement = request.place(ranks)?;
    Ok(Plan { specs, psets, placement, slots, options: run.output.options()? })
}
