//! Options of placement: what ranks are mapped to, how they are numbered, what they are bound to, and what is shown of
//! that.
use std::path::PathBuf;

use clap::Args;

use super::app::ranks;
use crate::choice::choose;
use crate::placement::{Machine, Mapping, Policy, synthetic_machine};

/// Options of placement.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Placement")]
pub struct PlacementArgs {
    /// Map ranks by slot, hwthread, core, l1cache, l2cache, l3cache, numa, package, node, ppr:N:OBJECT, pe-list=LIST,
    /// seq or rankfile. Modifiers follow, each after a colon: pe=N, oversubscribe, nooversubscribe, span, hwtcpus,
    /// ordered, file=FILE
    #[arg(long, value_name = "HOW")]
    map_by: Option<String>,
    /// Number ranks as they are mapped (slot, node, span), or fill one object after the other (fill)
    #[arg(long, value_name = "HOW")]
    rank_by: Option<String>,
    /// Bind each rank to a hwthread, core, l1cache, l2cache, l3cache, numa or package, or to none. Modifiers follow,
    /// each after a colon: overload (ranks may share), if-supported (left unbound where it cannot be bound)
    #[arg(long, value_name = "WHAT")]
    bind_to: Option<String>,
    /// Run N ranks on each node
    #[arg(short = 'N', long, visible_alias = "ntasks-per-node", value_name = "N", value_parser = ranks)]
    pub npernode: Option<u32>,
    /// Place each rank as a file says: --map-by rankfile:file=FILE
    #[arg(long, visible_alias = "rf", value_name = "FILE")]
    rankfile: Option<PathBuf>,
    /// Use these processors alone: --map-by pe-list=LIST
    #[arg(long, visible_alias = "cpu-list", value_name = "LIST")]
    cpu_set: Option<String>,
    /// Bind each rank to N processors: --map-by :pe=N
    #[arg(long, visible_aliases = ["cpus-per-proc", "cpus-per-task"], value_name = "N", value_parser = ranks)]
    cpus_per_rank: Option<u32>,
    /// Run N ranks on each object of a kind: --map-by ppr:N:OBJECT
    #[arg(long, value_name = "N:OBJECT")]
    ppr: Option<String>,
    /// Run N ranks on each package: --map-by ppr:N:package
    #[arg(long, value_name = "N", value_parser = ranks)]
    npersocket: Option<u32>,
    /// Count each hardware thread as a processor: --map-by :hwtcpus
    #[arg(long)]
    use_hwthread_cpus: bool,
    #[arg(long, hide = true)]
    pernode: bool,
    #[arg(long, hide = true)]
    bycore: bool,
    #[arg(long, hide = true)]
    bynode: bool,
    #[arg(long, hide = true)]
    byslot: bool,
    #[arg(long, hide = true)]
    bind_to_core: bool,
    #[arg(long, hide = true)]
    bind_to_socket: bool,
    /// Show what each rank is bound to, on standard error
    #[arg(long)]
    pub report_bindings: bool,
    /// Show these on standard output: map, bind, allocation, separated by commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = display)]
    pub display: Vec<&'static str>,
    #[arg(long, hide = true)]
    display_map: bool,
    #[arg(long, hide = true)]
    display_allocation: bool,
    /// Start nothing: show what --display and --report-bindings say
    #[arg(long)]
    pub do_not_launch: bool,
    /// Place ranks as on another machine, such as 'package:2 numa:2 core:8 pu:2'; nothing is bound then
    #[arg(long, value_name = "TEXT", value_parser = synthetic_machine)]
    pub topology: Option<Machine>,
}

/// Things that can be shown.
const SHOWN: [&str; 4] = ["map", "bindings", "allocation", "topo"];

fn display(text: &str) -> Result<&'static str, String> {
    choose("display", text.split(':').next().unwrap_or_default(), &SHOWN)
}

impl PlacementArgs {
    /// The policy of the run.
    ///
    /// # Errors
    /// A line that names the option and the word that is wrong.
    pub fn policy(&self) -> Result<Policy, String> {
        let mut policy = Policy::default();
        let mut map = |option: &str, text: &str| {
            policy.map_by(text).map_err(|error| format!("--{option} {}: {error}", text.trim_start_matches(':')))
        };
        for (is_set, word) in [(self.bycore, "core"), (self.bynode, "node"), (self.byslot, "slot")] {
            if is_set {
                map("map-by", word)?;
            }
        }
        if let Some(list) = &self.cpu_set {
            map("cpu-set", &format!("pe-list={list}"))?;
        }
        if let Some(ppr) = &self.ppr {
            map("ppr", &format!("ppr:{ppr}"))?;
        }
        if let Some(number) = self.npersocket {
            map("npersocket", &format!("ppr:{number}:package"))?;
        }
        if self.use_hwthread_cpus {
            map("use-hwthread-cpus", ":hwtcpus")?;
        }
        if let Some(text) = &self.map_by {
            map("map-by", text)?;
        }
        if let Some(file) = &self.rankfile {
            map("rankfile", "rankfile")?;
            policy.file = Some(file.clone());
        }
        policy.per_rank = policy.per_rank.or(self.cpus_per_rank);
        for (is_set, word) in [(self.bind_to_core, "core"), (self.bind_to_socket, "package")] {
            if is_set {
                policy.bind_to(word)?;
            }
        }
        if let Some(text) = &self.bind_to {
            policy.bind_to(text).map_err(|error| format!("--bind-to {text}: {error}"))?;
        }
        if let Some(text) = &self.rank_by {
            policy.rank_by(text).map_err(|error| format!("--rank-by {text}: {error}"))?;
        }
        if policy.mapping == Mapping::RankFile && policy.file.is_none() {
            return Err("--map-by rankfile: the file is missing, as in rankfile:file=FILE".to_owned());
        }
        Ok(policy)
    }

    /// Ranks of an application that is given no number, where the options say so by themselves.
    pub fn per_node(&self) -> Option<u32> {
        self.npernode.or(self.pernode.then_some(1))
    }

    /// Returns whether something is shown on standard output.
    pub fn shows(&self, what: &str) -> bool {
        self.display.contains(&what)
            || what == "map" && self.display_map
            || what == "allocation" && (self.display_allocation || self.display.contains(&"topo"))
    }

    /// Returns whether the machine has to be known, to place ranks on it or to show it.
    pub fn needs_machine(&self) -> bool {
        self.topology.is_none()
            && (self.shows("allocation") || self.policy().is_ok_and(|policy| policy.needs_machine()))
    }
}
