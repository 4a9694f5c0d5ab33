//! Options of the persistent mode's commands.
use clap::Args;
use instanton::launch::MOST_RANKS;
use nix::sys::signal::Signal;

use super::GeneralArgs;
use crate::nodes::NodesOptions;
use crate::persistent::place;
use crate::signals;

/// `instanton up`.
#[derive(Clone, Debug, Args)]
#[command(args_override_self = true)]
pub struct Up {
    #[command(flatten)]
    pub own: UpOptions,
    #[command(flatten)]
    pub general: GeneralArgs,
    #[command(flatten)]
    pub nodes: NodesOptions,
    /// Return as soon as it is ready, and leave it running without a terminal; `instanton down` ends it
    #[arg(long, help_heading = "Up")]
    pub background: bool,
}

/// Options that its launcher has besides those of a run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Up")]
pub struct UpOptions {
    /// Name by which others find it; by default `up`
    #[arg(long, value_name = "NAME", value_parser = place::name)]
    pub name: Option<String>,
    /// Number of ranks that may run at the same time; by default the number of processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RANKS)))]
    pub slots: Option<u32>,
}

/// Launcher that is meant.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Name or process ID of the `instanton up` (INSTANTON_IN); not needed where there is only one
    #[arg(long = "in", value_name = "NAME|PID")]
    inside: Option<String>,
}

/// `instanton kill`.
#[derive(Clone, Debug, Args)]
pub struct Kill {
    /// Numbers of jobs, as `instanton ps` shows them; each gets SIGTERM, and later SIGKILL if it has not ended
    #[arg(value_name = "JOB", required_unless_present = "node")]
    pub jobs: Vec<u32>,
    /// Kill this simulated node (of `instanton up --nodes` or `instanton run --nodes`) with its ranks
    #[arg(long, value_name = "K", conflicts_with_all = ["jobs", "signal"])]
    pub node: Option<u32>,
    /// Send this signal to the ranks instead, by name or number
    #[arg(short, long, value_name = "SIGNAL", value_parser = signals::named)]
    pub signal: Option<Signal>,
    #[command(flatten)]
    pub target: Target,
}

/// `instanton down`.
#[derive(Clone, Debug, Args)]
pub struct Down {
    #[command(flatten)]
    pub target: Target,
}

impl Target {
    /// Name or process that is meant, if one is said.
    pub fn wanted(&self) -> Option<String> {
        wanted(self.inside.as_ref())
    }
}

/// Variable that names what is up, for runs that are to be in it.
const VARIABLE: &str = "INSTANTON_IN";

/// Name or process that is meant, as its user has said it: by an option, or by the variable.
pub fn as_said(wanted: &str) -> String {
    let is_of_variable = std::env::var(VARIABLE).is_ok_and(|value| value == wanted);
    if is_of_variable { format!("{VARIABLE}={wanted}") } else { wanted.to_owned() }
}

/// Returns what a run is to be in: as its option says, or the environment; none if it is a run of its own.
pub(super) fn wanted(option: Option<&String>) -> Option<String> {
    let variable = || std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
    option.cloned().or_else(variable)
}
