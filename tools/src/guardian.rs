//! The guardian: the process that the user has started, knows by its id and waits for.
//!
//! Actors: the guardian is `instanton run` itself; the launcher is its child, the same program again, with the PMIx
//! server in it; the ranks are the launcher's children. The guardian keeps what a terminal and a shell deal with (the
//! foreground, the signals, the exit status), and names the session directory. The launcher lives in a process group of
//! its own, where no terminal reaches it; signals come to it through the [link].
//!
//! When one of the two dies, however it dies, the other ends the ranks and removes what there is to remove:
//! - The launcher dies: its end of the link closes and SIGCHLD comes. The ranks are then our children (both are
//!   subreapers); we kill them and everything below them, and run the cleanups that the launcher told us of.
//! - The guardian dies: the launcher sees the link close, kills the ranks and removes the session directory itself.
//!
//! Signals: all are passed on as they come. SIGTSTP then stops us too, as the shell expects, until SIGCONT. The second
//! SIGINT or SIGTERM is the launcher's order to kill; at the third we kill the launcher.
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use anyhow::{Context, Result};
use instanton::internal::sys::process::take_child;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};
use nix::sys::signalfd::SignalFd;

use crate::link::Listener;
use crate::outcome::{self, of_signal};
use crate::session::Session;
use crate::{family, host, link, signals, terminal};

/// The launcher is asked to end the job by one SIGINT or SIGTERM, ordered to kill it by two, and killed at this many.
const PATIENCE: u32 = 3;

/// Runs a job; `arguments` are those behind `instanton run`. Returns the status to exit with.
pub fn run(arguments: Vec<OsString>) -> Result<u8> {
    let arriving = signals::take_over()?;
    family::adopt_orphans().context("cannot become a subreaper")?;
    let session = Session::name()?;
    let end = watch(&arriving, &session, arguments);
    family::end();
    if let Ok(End { inheritance, .. }) = &end {
        host::clean_up(&link::told(inheritance));
    }
    let removed = session.remove();
    let code = end?.code;
    removed.with_context(|| format!("cannot remove {}", session.top().display()))?;
    Ok(code)
}

/// The launcher has ended.
struct End {
    /// The status to exit with.
    code: u8,
    /// Clean-ups that the launcher had announced, if it did not come to do them.
    inheritance: Vec<u8>,
}

/// Starts the launcher and stands between it and the user until it ends.
fn watch(arriving: &SignalFd, session: &Session, arguments: Vec<OsString>) -> Result<End> {
    let listener = Listener::new()?;
    let (input, continued) = terminal_input()?;
    let launcher = start(&listener, session, arguments, input)?;
    let mut guardian = Guardian {
        launcher,
        link: Link::Awaited(listener),
        told: Vec::new(),
        early: Vec::new(),
        insisted: 0,
        continued,
    };
    loop {
        let other = match &guardian.link {
            Link::Awaited(listener) => Some(listener.socket().as_fd()),
            Link::Open(link) => Some(link.as_fd()),
            Link::Closed => None,
        };
        let descriptors = std::iter::once(arriving.as_fd()).chain(other);
        let mut polled: Vec<_> = descriptors.map(|it| PollFd::new(it, PollFlags::POLLIN)).collect();
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("cannot wait for the launcher"),
        }
        guardian.listen()?;
        while let Some(signal) = arriving.read_signal()? {
            let signal = Signal::try_from(signal.ssi_signo as i32)?;
            if signal != Signal::SIGCHLD {
                guardian.pass_on(signal);
            } else if let Some(end) = guardian.reap()? {
                return Ok(end);
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

/// Returns the ranks' standard input: our own, unless it is a terminal, which only the foreground may read.
fn terminal_input() -> Result<(Stdio, Option<mpsc::Sender<()>>)> {
    if !io::stdin().is_terminal() {
        return Ok((Stdio::inherit(), None));
    }
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    let continued = terminal::relay(writer)?;
    Ok((reader.into(), Some(continued)))
}

enum Link {
    /// The launcher has not called yet.
    Awaited(Listener),
    Open(UnixStream),
    /// The launcher has ended, or is about to.
    Closed,
}

struct Guardian {
    launcher: Child,
    link: Link,
    /// Messages of the launcher so far.
    told: Vec<u8>,
    /// Signals that came before the launcher had called.
    early: Vec<Signal>,
    /// Number of times that the user has asked for the end.
    insisted: u32,
    /// Tells the terminal's relay that we may be in the foreground again.
    continued: Option<mpsc::Sender<()>>,
}

impl Guardian {
    /// Takes in what has come over the link.
    fn listen(&mut self) -> Result<()> {
        match &mut self.link {
            Link::Awaited(listener) => {
                if let Some(link) = listener.accept(self.launcher.id())? {
                    self.link = Link::Open(link);
                    std::mem::take(&mut self.early).into_iter().for_each(|signal| self.tell(signal));
                }
            }
            // Non-blocking: this ends at the end, or where nothing more has come.
            Link::Open(link) => match link.read_to_end(&mut self.told) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => self.link = Link::Closed,
            },
            Link::Closed => {}
        }
        Ok(())
    }

    fn pass_on(&mut self, signal: Signal) {
        if matches!(signal, Signal::SIGINT | Signal::SIGTERM) {
            self.insisted += 1;
            if self.insisted >= PATIENCE {
                // Processes that it leaves behind end with it. An error would mean that it has ended already.
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
            Link::Awaited(_) => self.early.push(signal),
            // A launcher that cannot take one byte is gone or stuck: SIGCHLD or the user's third SIGINT decide.
            Link::Open(link) => drop(link.write(&[signal as u8])),
            Link::Closed => {}
        }
    }

    /// Waits for every child that has ended, until the launcher is among them.
    fn reap(&mut self) -> Result<Option<End>> {
        let launcher = self.launcher.id() as i32;
        loop {
            let (pid, status) = match take_child(None) {
                Ok(Some(child)) => child,
                Ok(None) => return Ok(None),
                Err(error) => return Err(error).context("the launcher is lost"),
            };
            match outcome::End::of(status) {
                _ if pid != launcher => {}
                outcome::End::Code(code) => return Ok(Some(End { code: code as u8, inheritance: Vec::new() })),
                outcome::End::Signal(signal) => {
                    eprintln!("instanton: the launcher was killed by {}; the job was killed", signals::name(signal));
                    // Its last words may still lie in the socket.
                    self.listen()?;
                    return Ok(Some(End { code: of_signal(signal), inheritance: std::mem::take(&mut self.told) }));
                }
            }
        }
    }
}
