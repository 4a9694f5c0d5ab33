//! The guardian: the process that the user has started, knows by its id and waits for.
//!
//! Actors: the guardian is `instanton run` itself; the [watcher](crate::watcher) is its child; the
//! [reaper](crate::reaper) is the watcher's child; the launcher is the reaper's child, the same program again, with the
//! PMIx server in it; the ranks are the launcher's children. The guardian keeps what a terminal and a shell deal with
//! (the foreground, the signals, the exit status), and names the session directory. The others live in process groups
//! of their own, where no terminal reaches them; signals come to the launcher through the [link](crate::link).
//!
//! However one, two or three of the four die, who is left ends the ranks and removes what there is to remove:
//! - The launcher dies: the ranks are then its next ancestor's children (all four are subreapers), which kills them and
//!   everything below them, and does the clean-ups in the [record](crate::record).
//! - The reaper dies: the watcher closes the link, so that the launcher ends as if the guardian had died, and waits.
//! - The guardian dies: the launcher sees the link close, kills the ranks and removes the session directory itself.
//! - The watcher dies: the guardian does the same.
//!
//! Neither of the two kills a launcher, or a reaper, that may be the only one left: who has killed some may be about to
//! kill the rest of the four.
//!
//! Ranks die with the launcher in any case (PDEATHSIG). Where all four are killed, what the ranks have started and what
//! lies in the file system stays; the next run of the user [clears](crate::stale) the latter.
//!
//! Signals: all are passed on as they come, and SIGTERM makes the launcher end the run. SIGTSTP then stops us too, as the
//! shell expects, until SIGCONT. The second SIGINT or SIGTERM is the launcher's order to kill; at the third we kill the
//! launcher. One that the same process sends twice at once counts [once](crate::signals::Requests). The other three
//! take no notice of what is sent to them: who ends a run by a signal to each of its processes asks the guardian as
//! well.
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use instanton::internal::sys::birth;
use instanton::internal::sys::process::take_child;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::outcome::End;
use crate::session::Session;
use crate::signals::{Requests, SignalOptions};
use crate::watcher::PARTING;
use crate::{family, reaper, report, signals, terminal, watcher};

/// The launcher is asked to end the job by one SIGINT or SIGTERM, ordered to kill it by two, and killed at this many.
pub const PATIENCE: u32 = 3;

/// Runs a job, or begins the [persistent mode](crate::persistent); `arguments` are those behind `instanton run` or
/// `instanton up`. Nobody reads input unless `has_input`. Returns the status to exit with, in the guardian and in its
/// copies.
pub fn run(
    arguments: Vec<OsString>,
    report_pid: Option<&Path>,
    signals: &SignalOptions,
    has_input: bool,
) -> Result<u8> {
    if let Some(place) = report_pid {
        report::write(place, &std::process::id().to_string()).context("cannot report the process's number")?;
    }
    let arriving = signals::take_over(signals)?;
    family::adopt_orphans().context("cannot become a subreaper")?;
    let session = Session::name()?;
    let (link, launchers) = UnixStream::pair().context("cannot make a pair of sockets")?;
    let (input, relay) = match if has_input { terminal_input()? } else { None } {
        Some((reader, writer)) => (reader.into(), Some(writer)),
        None => (if has_input { Stdio::inherit() } else { Stdio::null() }, None),
    };
    let watcher = match birth::fork().context("cannot start the watcher")? {
        None => {
            drop((link, relay));
            return watcher::run(&session, launchers, input, arguments);
        }
        Some(watcher) => Pid::from_raw(watcher),
    };
    drop((launchers, input));
    link.set_nonblocking(true)?;
    let continued = relay.map(terminal::relay).transpose()?;
    let code = Guardian { watcher, link, requests: Requests::default(), continued }.watch(&arriving);
    reaper::clear_up(&session)?;
    code
}

/// Returns the ranks' standard input, unless that is our own: a pipe, to which we are to write what is typed on a
/// terminal, since only the foreground may read that.
pub fn terminal_input() -> Result<Option<(io::PipeReader, io::PipeWriter)>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    io::pipe().map(Some).context("cannot make a pipe")
}

struct Guardian {
    watcher: Pid,
    link: UnixStream,
    /// Requests of the user to end.
    requests: Requests,
    /// Tells the terminal's relay that we may be in the foreground again.
    continued: Option<mpsc::Sender<()>>,
}

impl Guardian {
    /// Stands between the launcher and the user until the watcher has ended, and the launcher with it.
    fn watch(mut self, arriving: &SigSet) -> Result<u8> {
        let signals = SignalFd::with_flags(arriving, SfdFlags::SFD_CLOEXEC).context("cannot wait for signals")?;
        let end = loop {
            let arrived = match signals.read_signal() {
                Err(Errno::EINTR) => continue,
                arrived => arrived.context("cannot wait for signals")?,
            };
            let Some(arrived) = arrived else { continue };
            match Signal::try_from(arrived.ssi_signo as i32) {
                Ok(Signal::SIGCHLD) => {
                    if let Some(end) = self.reap()? {
                        break end;
                    }
                }
                Ok(signal) if self.requests.hear(signal, arrived.ssi_pid, Instant::now()) => self.pass_on(signal),
                // No other is waited for.
                Ok(_) | Err(_) => {}
            }
        };
        if matches!(end, End::Signal(_)) && self.requests.count < PATIENCE {
            self.part(arriving)?;
        }
        Ok(reaper::code(end))
    }

    /// Waits, once the watcher is gone, until the launcher has ended the job by itself, and the reaper has removed what
    /// there is to remove; neither for ever nor against the user's will.
    fn part(mut self, arriving: &SigSet) -> Result<()> {
        // The launcher's end closes when both processes have ended. An error would mean that they have.
        let _ = self.link.shutdown(Shutdown::Write);
        let signals = SignalFd::with_flags(arriving, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        let signals = signals.context("cannot wait for signals")?;
        let until = Instant::now() + PARTING;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut polled =
                [PollFd::new(self.link.as_fd(), PollFlags::empty()), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            let _ = poll(&mut polled, timeout);
            while let Ok(Some(arrived)) = signals.read_signal() {
                if let Ok(signal) = Signal::try_from(arrived.ssi_signo as i32) {
                    self.requests.hear(signal, arrived.ssi_pid, Instant::now());
                }
            }
            if polled[0].any() == Some(true) || left.is_zero() || self.requests.count >= PATIENCE {
                return Ok(());
            }
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        if matches!(signal, Signal::SIGINT | Signal::SIGTERM) && self.requests.count >= PATIENCE {
            // All that it leaves behind ends with it. An error would mean that it has ended already.
            let _ = kill(self.watcher, Signal::SIGKILL);
        }
        // A launcher that cannot take one byte is gone or stuck: SIGCHLD or the user's third SIGINT decide.
        let _ = self.link.write(&[signal as u8]);
        match (signal, &self.continued) {
            // Cannot fail: SIGSTOP is a signal and we are a process.
            (Signal::SIGTSTP, _) => drop(raise(Signal::SIGSTOP)),
            // The relay is gone once the terminal has said its end of file.
            (Signal::SIGCONT, Some(continued)) => drop(continued.send(())),
            _ => {}
        }
    }

    /// Waits for every child that has ended, until the watcher is among them. Returns how that has ended then.
    fn reap(&mut self) -> Result<Option<End>> {
        while let Some((pid, status)) = take_child(None).context("the launcher is lost")? {
            if pid == self.watcher.as_raw() {
                return Ok(Some(End::of(status)));
            }
        }
        Ok(None)
    }
}
