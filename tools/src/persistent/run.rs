//! `instanton run --in`: the caller's end of a job that an `instanton up` runs.
//!
//! This one process reads the command line and the environment, names every file from its own directory, and hands its
//! streams over: what ranks print does not come by here. It passes on the signals that its user sends it, and waits for
//! the status. When it ends, its job is killed; at the third SIGINT or SIGTERM it ends itself.
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use instanton::launch::AppSpec;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::message::{self, JobRequest, Reply, Request};
use super::place::{self, Kind, Place};
use crate::args::Run;
use crate::environment::Environment;
use crate::guardian::{PATIENCE, terminal_input};
use crate::outcome::{FAILURE, SENSELESS, TIMED_OUT, of_signal};
use crate::say::{self, say};
use crate::signals::Requests;
use crate::{report, signals, terminal};

/// Runs a job in what is up; `words` are those of the run, and `options` are among them. Returns the status to exit
/// with.
pub fn run(words: Vec<OsString>, options: &Run, wanted: &str) -> Result<u8> {
    let request = match refused(options).map_or_else(|| request(words, options), Err) {
        Ok(request) => request,
        Err(line) => {
            say(&line);
            return Ok(SENSELESS);
        }
    };
    if let Some(place) = &options.general.report_pid {
        report::write(place, &std::process::id().to_string()).context("cannot report the process's number")?;
    }
    let arriving = signals::take_over(&options.signals)?;
    let (place, socket) = match place::enter(Kind::Up, Some(wanted)) {
        Ok(found) => found,
        Err(line) => {
            say(&line);
            return Ok(FAILURE);
        }
    };
    say::begin()?;
    let typed = terminal_input()?;
    let (input, out, err) = (io::stdin(), io::stdout(), io::stderr());
    let read = typed.as_ref().map_or(input.as_fd(), |(reader, _)| reader.as_fd());
    let asked = message::ask(&socket, &Request::Run(request), &[read, out.as_fd(), err.as_fd()]);
    asked.with_context(|| format!("{} does not take the job in", place.words()))?;
    let continued = typed.map(|(_, writer)| terminal::relay(writer)).transpose()?;
    Caller { place, socket, requests: Requests::default(), continued }.wait(&arriving)
}

/// Reads everything of a job that depends on this process.
fn request(mut words: Vec<OsString>, options: &Run) -> Result<JobRequest, String> {
    // It may be said by a variable.
    if let Some(library) = options.start.library.to_possible_value() {
        words.splice(0..0, ["--library".into(), library.get_name().into()]);
    }
    let here = std::env::current_dir()
        .map_err(|error| format!("the working directory is gone; change to another, or say --wdir: {error}"));
    let environment: Environment = std::env::vars_os().collect();
    // None are those that are given no number.
    let mut apps = options.apps(0)?;
    for AppSpec { environment: changes, wdir, path, .. } in &mut apps {
        *wdir = match wdir.take() {
            Some(wdir) if wdir.is_absolute() => Some(wdir),
            wdir => Some(here.clone()?.join(wdir.unwrap_or_default())),
        };
        // The launcher's own is another.
        if path.is_none()
            && let Some(own) = environment.get("PATH".as_ref() as &std::ffi::OsStr)
        {
            changes.insert(0, ("PATH".into(), Some(own.clone())));
        }
    }
    // In one that is gone, nothing can be made.
    let here = here.unwrap_or_else(|_| format!("/proc/{}/cwd", std::process::id()).into());
    Ok(JobRequest::new(words, apps, environment, here.into_os_string()))
}

/// Returns a line about an option that only a launcher of one's own can have.
fn refused(options: &Run) -> Option<String> {
    let of_up = "it is one of `instanton up`; give it there, or leave --in out";
    let own = "it needs a launcher of its own; leave --in out";
    let given = [
        ("--nodes", options.nodes.nodes > 1, of_up),
        ("--host, --hostfile", options.hosts.are_named(), "slots are those of `instanton up --slots N`"),
        ("--set-cwd-to-session-dir", options.start.set_cwd_to_session_dir, own),
        ("--path-socket", options.general.path_socket, of_up),
        ("--job-memory", options.general.job_memory.is_some(), of_up),
        ("--report-uri", options.general.report_uri.is_some(), of_up),
        ("--metrics", options.general.metrics.is_some(), of_up),
        ("--topology", options.placement.topology.is_some(), own),
        ("--do-not-launch", options.placement.do_not_launch, own),
        ("--rankfile, seq", options.placement.policy().is_ok_and(|policy| policy.reads_file()), own),
    ];
    given.into_iter().find(|(_, is_given, _)| *is_given).map(|(option, _, why)| format!("{option} with --in: {why}"))
}

struct Caller {
    place: Place,
    socket: UnixStream,
    /// Requests of the user to end.
    requests: Requests,
    /// Tells the terminal's relay that we may be in the foreground again.
    continued: Option<mpsc::Sender<()>>,
}

impl Caller {
    /// Stands between the launcher and the user until the job is over.
    fn wait(mut self, arriving: &SigSet) -> Result<u8> {
        let signals = SignalFd::with_flags(arriving, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        let signals = signals.context("cannot wait for signals")?;
        loop {
            let mut polled =
                [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut polled, PollTimeout::NONE);
            let is_answered = polled[0].any() == Some(true);
            while let Ok(Some(arrived)) = signals.read_signal() {
                if let Ok(signal) = Signal::try_from(arrived.ssi_signo as i32)
                    && self.requests.hear(signal, arrived.ssi_pid, Instant::now())
                {
                    self.pass_on(signal);
                }
                if self.requests.count >= PATIENCE {
                    say("the job was left to be killed");
                    return Ok(of_signal(arrived.ssi_signo as i32));
                }
            }
            if is_answered {
                let code = self.answered(message::hear(&self.socket));
                // The launcher has waited for readers.
                let is_of_user = code == TIMED_OUT || self.requests.count > 0;
                say::end(is_of_user.then_some(Duration::ZERO));
                return Ok(code);
            }
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        if signal == Signal::SIGCHLD {
            return;
        }
        // A launcher that is gone has closed the socket.
        let _ = (&self.socket).write(&[signal as u8]);
        match (signal, &self.continued) {
            // Cannot fail: SIGSTOP is a signal and we are a process.
            (Signal::SIGTSTP, _) => drop(raise(Signal::SIGSTOP)),
            // The relay is gone once the terminal has said its end of file.
            (Signal::SIGCONT, Some(continued)) => drop(continued.send(())),
            _ => {}
        }
    }

    fn answered(&self, reply: io::Result<Reply>) -> u8 {
        match reply {
            Ok(Reply::Ended { code, lines }) => {
                lines.iter().for_each(|line| say(line));
                code
            }
            Ok(Reply::Refused(line)) => {
                say(&line);
                FAILURE
            }
            Ok(_) | Err(_) => {
                say(&format!("{} is gone; the job was killed", self.place.words()));
                FAILURE
            }
        }
    }
}
