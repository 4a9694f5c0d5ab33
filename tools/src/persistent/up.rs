//! `instanton up`: begins the persistent mode, and stays until it is ended.
//!
//! In front of the user it is the guardian of a run. Its launcher opens the door when everything is there, and then says
//! so in one line of output.
use std::ffi::OsString;

use anyhow::Result;

use super::place::{self, Kind};
use crate::args::Up;
use crate::guardian;
use crate::outcome::FAILURE;
use crate::say::say;
use crate::signals::SignalOptions;

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
    let report_pid = options.general.report_pid.as_deref();
    guardian::run(arguments, report_pid, &SignalOptions::default(), false)
}
