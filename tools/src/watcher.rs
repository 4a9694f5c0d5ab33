//! The watcher: the process between the guardian and the [reaper], which comes after the death of all three others.
//!
//! It is the guardian's child, a copy of it, and the reaper's parent, and a subreaper as they are: whatever the ranks
//! have started, in whichever session, belongs to it when guardian, reaper and launcher are killed together. It ends
//! all of that, and removes what there is to remove. It does nothing else, holds nothing that they need, and is called
//! by neither the command's name nor its arguments, so that who kills the others by these does not kill it.
//!
//! The reaper dies: a launcher that it leaves is killed with all the rest.
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use anyhow::{Context, Result};
use instanton::internal::sys::{birth, process};
use nix::unistd::{Pid, setpgid};

use crate::session::Session;
use crate::{family, reaper};

/// Starts the reaper of a run, and waits for its end. Returns the status to exit with, in both processes.
pub fn run(session: &Session, link: OwnedFd, input: Stdio, arguments: Vec<OsString>) -> Result<u8> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    family::adopt_orphans().context("cannot become a subreaper")?;
    let Some(reaper) = birth::fork().context("cannot start the reaper")? else {
        return reaper::run(session, link, input, arguments);
    };
    drop((link, input));
    process::call_this("inst-watcher");
    let code = reaper::end_of(reaper).map(reaper::code);
    reaper::clear_up(session)?;
    code
}
