//! `instanton up`: begins the persistent mode, and stays until it is ended.
//!
//! In front of the user it is the guardian of a run. Its launcher opens the door when everything is there, and then says
//! so in one line of output. In the background it is another process, which the user's own starts and waits for until
//! the door is open. That process has no terminal and no streams, and is in a process group of its own: it outlives
//! whoever has started it, and says nothing more.
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use instanton::internal::sys::process;
use nix::poll::{PollFd, PollFlags, poll};

use super::place::{self, Kind};
use crate::args::Up;
use crate::guardian;
use crate::out;
use crate::outcome::FAILURE;
use crate::say::say;
use crate::signals::SignalOptions;

/// Name of what is given none.
const NAME: &str = "up";
/// Time in milliseconds between two looks for the door of one in the background.
const LOOK: u16 = 10;

/// Begins the persistent mode; `arguments` are those behind `instanton up`. Returns the status to exit with.
pub fn run(mut arguments: Vec<OsString>, options: &Up) -> Result<u8> {
    let name = options.own.name.as_deref().unwrap_or(NAME);
    // Its launcher looks once more, when it is its turn: to start one takes a while.
    if let Some(taken) = place::taken(name) {
        say(&taken);
        return Ok(FAILURE);
    }
    if options.background {
        return in_background(arguments, name);
    }
    arguments.splice(0..0, ["--name", name].map(OsString::from));
    // The launcher reads a run, which has a program; this one starts none.
    let ending = ["--", "up"].map(OsString::from);
    arguments.extend(ending);
    let report_pid = options.general.report_pid.as_deref();
    guardian::run(arguments, report_pid, &SignalOptions::default(), false)
}

/// Has another process do it, with these arguments, and waits until it is up.
fn in_background(mut arguments: Vec<OsString>, name: &str) -> Result<u8> {
    arguments.retain(|word| word != "--background");
    let mut command = Command::new("/proc/self/exe");
    command.arg0("instanton").arg("up").args(arguments).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start it in the background")?;
    let watched = process::watch(child.id() as i32).context("cannot wait for it")?;
    loop {
        let found = place::launchers(Kind::Up, Some(name));
        if let Some((place, _)) = found.iter().find(|(place, _)| place.pid == child.id() as i32) {
            out::write(&format!("instanton: {name} is up (process {})\n", place.pid))?;
            return Ok(0);
        }
        let mut polled = [PollFd::new(watched.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, LOOK).is_ok_and(|ended| ended > 0) {
            let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
            say(&format!("{name} does not come up; without --background it says why"));
            return Ok(code.filter(|code| *code != 0).unwrap_or(FAILURE));
        }
    }
}
