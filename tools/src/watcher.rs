//! The watcher: the process between the guardian and the [reaper], which comes after the death of all three others.
//!
//! It is the guardian's child, a copy of it, and the reaper's parent, and a subreaper as they are: whatever the ranks
//! have started, in whichever session, belongs to it when guardian, reaper and launcher are killed together. It ends
//! all of that, and removes what there is to remove. It does nothing else, holds nothing that they need, and is called
//! by neither the command's name nor its arguments, so that who kills the others by these does not kill it.
//!
//! The reaper dies: the launcher that it leaves ends the job and itself, as it does when the guardian dies. The watcher
//! does not kill it before its time is over: who has killed the reaper may be about to kill the watcher and the
//! guardian, and the launcher is then all that is left.
//!
//! The guardian dies: the launcher ends the job. One that is stopped, or hangs, is killed with all else when its time is
//! over.
use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use instanton::internal::sys::{birth, process};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid, setpgid};

use crate::outcome::End;
use crate::session::Session;
use crate::{family, reaper};

/// Time in which a launcher that has lost one of its ancestors ends the job and itself.
pub const PARTING: Duration = Duration::from_secs(10);

/// Starts the reaper of a run, and waits for its end; `link` is the launcher's end. Returns the status to exit with, in
/// both processes.
pub fn run(session: &Session, link: UnixStream, input: Stdio, arguments: Vec<OsString>) -> Result<u8> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    family::adopt_orphans().context("cannot become a subreaper")?;
    let (told, tell) = io::pipe().context("cannot make a pipe")?;
    let guardian = process::watch(getppid().as_raw());
    let Some(reaper) = birth::fork().context("cannot start the reaper")? else {
        drop(told);
        return reaper::run(session, link, input, arguments, tell);
    };
    drop((tell, input));
    process::call_this("inst-watcher");
    let end = match (guardian, process::watch(reaper)) {
        (Ok(guardian), Ok(held)) if is_outlived(&guardian, &held) => {
            family::end();
            Ok(End::Signal(Signal::SIGKILL as i32))
        }
        _ => reaper::end_of(reaper),
    };
    if let Ok(End::Signal(_)) = end {
        part(&link, told);
    }
    let code = end.map(reaper::code);
    reaper::clear_up(session)?;
    code
}

/// Waits until the launcher whose number the reaper has told has ended the job by itself, but not for ever.
fn part(link: &UnixStream, mut told: PipeReader) {
    // To the launcher it is as if the guardian had closed its end. That there is none any more would be no error.
    let _ = link.shutdown(Shutdown::Read);
    let mut number = [0; 4];
    // A reaper that was killed before it had started one has told none.
    let Ok(()) = told.read_exact(&mut number) else { return };
    let launcher = Pid::from_raw(i32::from_le_bytes(number));
    // Our child, unless the reaper has seen its end: the number may be a stranger's then.
    if !family::orphans(|_| false).contains(&launcher) {
        return;
    }
    if let Ok(held) = process::watch(launcher.as_raw()) {
        ends_in_time(&held);
    }
}

/// Waits for the reaper's end. Returns whether the guardian has ended before, and the reaper goes on beyond the time that
/// a launcher has to end its job.
fn is_outlived(guardian: &OwnedFd, reaper: &OwnedFd) -> bool {
    loop {
        let mut polled = [reaper, guardian].map(|held| PollFd::new(held.as_fd(), PollFlags::POLLIN));
        match poll(&mut polled, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(_) => return false,
            Ok(_) => return polled[0].any() != Some(true) && !ends_in_time(reaper),
        }
    }
}

/// Waits for a process, but not for ever. Returns whether it has ended.
fn ends_in_time(held: &OwnedFd) -> bool {
    let until = Instant::now() + PARTING;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(held.as_fd(), PollFlags::POLLIN)], timeout) {
            Err(Errno::EINTR) if !left.is_zero() => {}
            Ok(ended) => return ended > 0,
            Err(_) => return false,
        }
    }
}
