//! `instanton up`: begins the persistent mode, and stays until it is ended.
//!
//! In front of the user it is the guardian of a run. Its launcher opens the door when everything is there, and then says
//! so in one line of output.
use std::ffi::OsString;

use anyhow::Result;
use clap::Args;
use instanton::launch::MOST_RANKS;

use super::place::{self, Kind};
use crate::args::GeneralArgs;
use crate::guardian;
use crate::nodes::NodesOptions;
use crate::outcome::FAILURE;
use crate::say::say;

/// `instanton up`.
#[derive(Clone, Debug, Args)]
#[command(args_override_self = true)]
pub struct Up {
    #[command(flatten)]
    pub own: UpOptions,
    #[command(flatten)]
    general: GeneralArgs,
    #[command(flatten)]
    nodes: NodesOptions,
}

/// Options that its launcher has besides those of a run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Up")]
pub struct UpOptions {
    /// Name by which it is found
    #[arg(long, value_name = "NAME", value_parser = place::name)]
    pub name: Option<String>,
    /// Ranks that may run at the same time: as many as there are processors, unless a number is given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RANKS)))]
    pub slots: Option<u32>,
}

/// Name of what is given none.
const NAME: &str = "up";

/// Begins the persistent mode; `arguments` are those behind `instanton up`. Returns the status to exit with.
pub fn run(mut arguments: Vec<OsString>, options: &Up) -> Result<u8> {
    let name = options.own.name.as_deref().unwrap_or(NAME);
    if let Some((other, _)) = place::launchers(Kind::Up, Some(name)).first() {
        say(&format!("{} is up already; give another one a --name, or end it by `instanton down`", other.words()));
        return Ok(FAILURE);
    }
    arguments.splice(0..0, ["--name", name].map(OsString::from));
    // The launcher reads a run, which has a program; this one starts none.
    let ending = ["--", "up"].map(OsString::from);
    arguments.extend(ending);
    guardian::run_up(arguments, options.general.report_pid.as_deref())
}
