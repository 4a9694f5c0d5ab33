//! The plan of a run, or of a caller's job: what the command line and the files that it names ask for, made before
//! anything is started.
use instanton::data::Rank;
use instanton::internal::sys::hwloc::Place;
use instanton::launch::AppSpec;

use super::placing::{self, Part, Request};
use crate::args::{self, Hosts, Run};
use crate::debugger::stops::Stops;
use crate::job::{Placement, ProcessSet, Simulated, StreamOptions, processors};
use crate::jobs::Jobs;
use crate::outcome::{FAILURE, SENSELESS};
use crate::persistent::visit::JobCall;
use crate::placement::{Mapping, Nodes};

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
    /// Slots of simulated nodes.
    pub simulated: Simulated,
    /// Places at which its ranks stop for a debugger.
    pub stops: Stops,
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
    let specs = run.apps(unnumbered)?;
    let ranks = args::ranks(&specs)?;
    let psets = run.psets(unnumbered);
    if let Some((most, _)) = most.filter(|(_, all)| run.is_numbered() && ranks > *all) {
        let which = if nodes == 1 { "this one" } else { "these" };
        return Err(format!("--npernode {most}: {ranks} ranks need more machines than {which}; leave out one of both"));
    }
    let room = all.unwrap_or(processors.saturating_mul(nodes));
    if (run.hosts.nooversubscribe || request.refuses_more()) && ranks > room {
        return Err(format!(
            "nooversubscribe: {ranks} ranks are more than the {room} slots of {node}; start fewer, or leave that out"
        ));
    }
    let several = run.nodes.nodes > 1;
    let simulated = Simulated { given: given.clone().filter(|_| several), all: several.then_some(room) };
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
    // Without one, names stay as they are.
    let here = std::env::current_dir().unwrap_or_default();
    let stops = run.stops(ranks)?;
    Ok(Plan { specs, psets, placement, slots, seats, simulated, stops, options: run.output.options(&here)? })
}

/// The plan of what begins without a job, on so many slots; as many as there are processors, where nothing is said.
pub fn of_nothing(slots: Option<u32>) -> Plan {
    Plan {
        specs: Vec::new(),
        psets: Vec::new(),
        placement: Placement::default(),
        slots: slots.unwrap_or_else(processors),
        seats: None,
        simulated: Simulated::default(),
        stops: Stops::default(),
        options: StreamOptions::default(),
    }
}

/// Plans a job that a caller asks for beside those there are, on the nodes that are `up`.
///
/// # Errors
/// The status to exit with, and a line that says what makes no sense or does not fit.
pub fn beside(jobs: &Jobs, free: u32, up: &[u32], call: &JobCall) -> Result<Plan, (u8, String)> {
    let senseless = |line| (SENSELESS, line);
    let JobCall { options: run, apps, directory, .. } = call;
    let policy = run.placement.policy().map_err(senseless)?;
    let nodes = up.len() as u32;
    let by_object = || match policy.mapping {
        Mapping::PerObject(number, kind) => {
            let objects = placing::machine(jobs).map_or(1, |machine| machine.objects(kind).len());
            Some(number.saturating_mul(objects as u32).saturating_mul(nodes))
        }
        _ => None,
    };
    let per_node = run.placement.per_node().map(|most| most.saturating_mul(nodes));
    let unnumbered = per_node.or_else(|| by_object().filter(|_| run.is_unnumbered())).unwrap_or(1);
    let mut specs = apps.clone();
    specs.iter_mut().filter(|spec| spec.ranks == 0).for_each(|spec| spec.ranks = unnumbered);
    let ranks = args::ranks(&specs).map_err(senseless)?;
    let slots = jobs.first().slots;
    if ranks > free && (run.hosts.nooversubscribe || policy.no_oversubscribe || !run.hosts.oversubscribes()) {
        let line = format!("{ranks} ranks do not fit: {free} of {slots} slots are free; say --oversubscribe, or wait");
        return Err((FAILURE, line));
    }
    if let Some(rank) = run.output.stdin.target().filter(|rank| rank.is_process() && *rank >= Rank(ranks)) {
        return Err(senseless(format!("--stdin {rank}: there is no such rank, only 0 to {}", ranks - 1)));
    }
    let placement = placing::beside(jobs, policy, &[Part { ranks, slots: None }], up);
    let placement =
        placement.map_err(|_| senseless("its ranks cannot be placed so beside those that run".to_owned()))?;
    let options = run.output.options(directory).map_err(senseless)?;
    let stops = run.stops(ranks).map_err(senseless)?;
    let simulated = Simulated::default();
    Ok(Plan { specs, psets: run.psets(unnumbered), placement, slots, seats: None, simulated, stops, options })
}
