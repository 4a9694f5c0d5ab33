//! The plan of a run: what the command line and the files that it names ask for, made before anything is started.
use instanton::data::Rank;
use instanton::internal::sys::hwloc::Place;
use instanton::launch::AppSpec;

use super::placing::Request;
use crate::args::{Hosts, Run};
use crate::job::{Placement, ProcessSet, StreamOptions, processors};
use crate::placement::Nodes;

/// Jobs and placement that are asked for.
pub struct Plan {
    /// The applications of the first job.
    pub specs: Vec<AppSpec>,
    /// Process sets of the first job.
    pub psets: Vec<ProcessSet>,
    /// Places of its ranks.
    pub placement: Placement,
    /// Slots of this machine, or of each simulated node.
    pub slots: u32,
    /// Slots of each node where the options give them, in which its ranks are seated.
    pub seats: Option<Vec<u32>>,
    /// Form and place of the output of every job.
    pub options: StreamOptions,
}

/// Plans a run; `node` is this machine's name, and `found` what is known of its parts.
///
/// # Errors
/// A line that names what makes no sense, and its place.
pub fn of(run: &Run, node: &str, found: Option<&Place>) -> Result<Plan, String> {
    let hosts = Hosts::new(node, run.nodes.nodes);
    let request = Request::read(run, found, &hosts)?;
    let processors = request.slots().unwrap_or_else(processors);
    let given = run.hosts.slots(processors, &hosts)?;
    let all = given.as_ref().map(|given| given.iter().fold(0u32, |sum, slots| sum.saturating_add(*slots)));
    let slots = if run.nodes.nodes > 1 { processors } else { all.unwrap_or(processors) };
    let nodes = given.as_ref().map_or(run.nodes.nodes, |given| given.iter().filter(|slots| **slots > 0).count() as u32);
    let most = run.placement.per_node().map(|most| (most, most.saturating_mul(nodes)));
    let of_options = most.map(|(_, all)| all).or_else(|| request.ranks(nodes).or(all).filter(|_| run.is_unnumbered()));
    let unnumbered = of_options.unwrap_or(1);
    let (specs, psets) = (run.apps(unnumbered)?, run.psets(unnumbered));
    let ranks = specs.iter().map(|spec| spec.ranks).sum::<u32>();
    if let Some((most, _)) = most.filter(|(_, all)| run.is_numbered() && ranks > *all) {
        let which = if nodes == 1 { "this one" } else { "these" };
        return Err(format!("--npernode {most}: {ranks} ranks need more machines than {which}; leave out one of both"));
    }
    let room = all.unwrap_or(processors.saturating_mul(nodes));
    if (run.hosts.nooversubscribe || request.refuses_more()) && ranks > room {
        return Err(format!("nooversubscribe: {ranks} ranks are more than the {room} slots of {node}"));
    }
    // So many on each, before the next gets any.
    let seats = match most {
        Some((most, _)) => Some(
            (0..run.nodes.nodes as usize)
                .map(|node| if given.as_ref().is_none_or(|given| given[node] > 0) { most } else { 0 })
                .collect(),
        ),
        None => given,
    };
    if let Some(rank) = run.output.stdin.target().filter(|rank| rank.is_process() && *rank >= Rank(ranks)) {
        return Err(format!("--stdin {rank}: there is no such rank, only 0 to {}", ranks - 1));
    }
    let nodes = Nodes { count: run.nodes.nodes, slots: seats.as_deref() };
    let placement = request.place(nodes, ranks)?;
    Ok(Plan { specs, psets, placement, slots, seats, options: run.output.options()? })
}
