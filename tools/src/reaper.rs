//! The reaper: the process between the [watcher](crate::watcher) and the launcher, which comes after the launcher's
//! death.
//!
//! It is the watcher's child, a copy of it, and the launcher's parent. Nobody knows it and it does nothing but wait: a
//! subreaper, which every process of the run belongs to when the launcher is gone. It holds the launcher's end of the
//! link open beyond that, until all is removed: a guardian that has lost the watcher waits for both.
use std::ffi::OsString;
use std::io::{PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use instanton::internal::sys::birth;
use instanton::internal::sys::process::{self, await_child, take_child};
use nix::unistd::{Pid, setpgid};

use crate::outcome::{End, of_signal};
use crate::say::say;
use crate::session::Session;
use crate::{family, record, signals, stale};

/// Runs a launcher, whose end of the link this is, and tells the watcher its process id. Returns the status to exit
/// with.
pub fn run(
    session: &Session,
    link: UnixStream,
    input: Stdio,
    arguments: Vec<OsString>,
    tell: PipeWriter,
) -> Result<u8> {
    // Neither its name nor its group is the guardian's: what kills by these does not kill both.
    process::call_this("inst-reaper");
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    family::adopt_orphans().context("cannot become a subreaper")?;
    let code = watch(session, &link, input, arguments, tell);
    clear_up(session)?;
    code
}

fn watch(
    session: &Session,
    link: &UnixStream,
    input: Stdio,
    arguments: Vec<OsString>,
    mut tell: PipeWriter,
) -> Result<u8> {
    let _alive = session.create()?;
    let launcher = start(session, link, input, arguments)?.id() as i32;
    // A watcher that is gone needs no number.
    let _ = tell.write_all(&launcher.to_le_bytes());
    stale::clear(session.place());
    end_of(launcher).map(code)
}

/// Takes all children that end until a certain one has ended. Returns how that has.
pub fn end_of(child: i32) -> Result<End> {
    loop {
        let lost = "the launcher is lost";
        match take_child(Some(await_child().context(lost)?)).context(lost)? {
            Some((pid, status)) if pid == child => return Ok(End::of(status)),
            _ => {}
        }
    }
}

/// Starts the launcher.
fn start(session: &Session, link: &UnixStream, input: Stdio, arguments: Vec<OsString>) -> Result<Child> {
    birth::bequeath(link)?;
    Command::new("/proc/self/exe")
        .arg0("instanton")
        .args(["launch", "--guardian", &link.as_raw_fd().to_string(), "--session"])
        .arg(session.top())
        .args(arguments)
        .stdin(input)
        .process_group(0)
        .spawn()
        .context("cannot start the launcher")
}

/// Returns the status to exit with after the launcher, and says if that was killed.
pub fn code(end: End) -> u8 {
    match end {
        End::Code(code) => code as u8,
        End::Signal(signal) => {
            say(&format!("the launcher was killed by {}; the job was killed", signals::name(signal)));
            of_signal(signal)
        }
    }
}

/// Ends what a launcher has left of its run, and removes what was to be removed.
pub fn clear_up(session: &Session) -> Result<()> {
    family::end();
    record::clean_up(session.top());
    session.remove().with_context(|| format!("cannot remove {}", session.top().display()))
}
