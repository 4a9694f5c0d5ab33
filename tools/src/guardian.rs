//! The guardian: the process that the user has started, knows by its id and waits for.
//!
//! Actors: the guardian is `instanton run` itself; the launcher is its child, the same program again, with the PMIx
//! server in it; the ranks are the launcher's children. The guardian keeps what a terminal and a shell deal with (the
//! foreground, the signals, the exit status), and owns the session directory. The launcher lives in a process group of
//! its own, where no terminal reaches it; signals come to it through the [link](crate::link).
//!
//! Whoever of the two dies, however it dies, the other ends the ranks and removes what there is to remove:
//! - The launcher dies: its end of the link closes and SIGCHLD comes. The ranks are then our children (both are
//!   subreapers); we kill them and everything below them, and run the cleanups that the launcher told us of.
//! - The guardian dies: the launcher sees the link close, kills the ranks and removes the session directory itself.
//!
//! Signals: all are passed on as they come. SIGTSTP then stops us too, as the shell expects, until SIGCONT. The second
//! SIGINT or SIGTERM is the launcher's order to kill; at the third we kill the launcher.
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::link::Listener;
use crate::outcome::of_signal;
use crate::session::Session;
use crate::{family, signals, terminal};

/// The launcher is asked to end the job by one SIGINT or SIGTERM, ordered to kill it by two, and killed at this many.
const PATIENCE: u32 = 3;

/// Runs a job; `arguments` are those behind `instanton run`. Returns the status to exit with.
pub fn run(arguments: Vec<OsString>) -> Result<u8> {
    let arriving = signals::take_over()?;
    family::adopt_orphans().context("cannot become a subreaper")?;
    let session = Session::create()?;
    let outcome = watch(&arriving, &session, arguments);
    family::end();
    let removed = session.remove();
    let code = outcome?;
    removed.with_context(|| format!("cannot remove {}", session.top().display()))?;
    Ok(code)
}

/// Starts the launcher and stands between it and the user until it ends.
fn watch(arriving: &SignalFd, session: &Session, arguments: Vec<OsString>) -> Result<u8> {
    let listener = Listener::new()?;
    let (input, continued) = terminal_input()?;
    let launcher = start(&listener, session, arguments, input)?;
    let mut guardian = Guardian { launcher, link: None, early: Vec::new(), insisted: 0, continued };
    loop {
        let other = match &guardian.link {
            Some(link) => link.as_fd(),
            None => listener.socket().as_fd(),
        };
        let mut polled = [arriving.as_fd(), other].map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN));
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for the launcher"),
        }
        if guardian.link.is_none() {
            let link = listener.accept(guardian.launcher.id())?;
            guardian.connected(link);
        }
        while let Some(signal) = arriving.read_signal()? {
            let signal = Signal::try_from(signal.ssi_signo as i32)?;
            if signal != Signal::SIGCHLD {
                guardian.pass_on(signal);
            } else if let Some(code) = guardian.reap() {
                return Ok(code);
            }
        }
    }
}

/// The launcher, with us as its guardian.
fn start(listener: &Listener, session: &Session, arguments: Vec<OsString>, input: Stdio) -> Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("instanton")
        .args(["launch", "--guardian", listener.name(), "--session"])
        .arg(session.top())
        .args(arguments)
        .stdin(input)
        .process_group(0)
        .spawn()
        .context("cannot start the launcher")
}

/// What the ranks get for standard input: our own, unless it is a terminal, which only the foreground may read.
fn terminal_input() -> Result<(Stdio, Option<mpsc::Sender<()>>)> {
    if !std::io::stdin().is_terminal() {
        return Ok((Stdio::inherit(), None));
    }
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let continued = terminal::relay(writer)?;
    Ok((reader.into(), Some(continued)))
}

struct Guardian {
    launcher: Child,
    link: Option<UnixStream>,
    /// Signals that came before the launcher had called.
    early: Vec<Signal>,
    /// How often the user has asked for the end.
    insisted: u32,
    /// Tells the terminal's relay that we may be in the foreground again.
    continued: Option<mpsc::Sender<()>>,
}

impl Guardian {
    fn connected(&mut self, link: Option<UnixStream>) {
        self.link = link;
        if self.link.is_some() {
            for signal in std::mem::take(&mut self.early) {
                self.tell(signal);
            }
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        if matches!(signal, Signal::SIGINT | Signal::SIGTERM) {
            self.insisted += 1;
            if self.insisted >= PATIENCE {
                // What it leaves behind, we end. An error would mean that it has ended already.
                let _ = self.launcher.kill();
            }
        }
        self.tell(signal);
        match (signal, &self.continued) {
            // Cannot fail: SIGSTOP is a signal and we are a process.
            (Signal::SIGTSTP, _) => drop(raise(Signal::SIGSTOP)),
            // The relay is gone once the terminal has said its end of file.
            (Signal::SIGCONT, Some(continued)) => drop(continued.send(())),
            _ => {}
        }
    }

    fn tell(&mut self, signal: Signal) {
        match &mut self.link {
            // A launcher that cannot take one byte is gone or stuck: SIGCHLD or the user's third SIGINT decide.
            Some(link) => drop(link.write(&[signal as u8])),
            None => self.early.push(signal),
        }
    }

    /// Waits for every child that has ended; the status to exit with, once the launcher is among them.
    fn reap(&mut self) -> Option<u8> {
        let launcher = Pid::from_raw(self.launcher.id() as i32);
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == launcher => return Some(code as u8),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == launcher => {
                    let signal = signal as i32;
                    eprintln!("instanton: the launcher was killed by {}; the job was killed", signals::name(signal));
                    return Some(of_signal(signal));
                }
                Ok(WaitStatus::StillAlive) => return None,
                Ok(_) | Err(Errno::EINTR) => {}
                // Not while the launcher is our child and not waited for.
                Err(_) => return None,
            }
        }
    }
}
