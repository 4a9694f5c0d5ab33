//! The signals that a user may send to a job, and their names.
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use nix::sys::signal::{SigSet, Signal};

/// Time within which the same request to end from the same process is one. Nobody asks twice so fast who means it.
const ONE_REQUEST: Duration = Duration::from_millis(250);

/// Passed on to every rank. Their effect on a rank is its own affair, but for SIGTERM, which ends the run; see the
/// guardian for the second SIGINT.
const FORWARDED: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    // Open MPI's launchers pass these on as well.
    Signal::SIGABRT,
    Signal::SIGALRM,
];

/// Options about signals.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Signals")]
pub struct SignalOptions {
    /// Pass these signals on to the ranks as well, by name or number, such as WINCH,URG; with none, pass on no signal
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = read)]
    forward_signals: Vec<Option<Signal>>,
}

/// Reads a signal, by name or number.
///
/// # Errors
/// A line that says how they are called.
pub fn named(text: &str) -> Result<Signal, String> {
    let name = text.trim().to_ascii_uppercase();
    let named = |name: &str| name.parse::<Signal>().ok();
    let number = || name.parse().ok().and_then(|number: i32| Signal::try_from(number).ok());
    let signal = named(&name).or_else(|| named(&format!("SIG{name}"))).or_else(number);
    signal.ok_or_else(|| format!("`{text}` is no signal; they are called as SIGUSR1, USR1 or 10"))
}

/// Reads a signal that can be passed on; none for `none`.
fn read(text: &str) -> Result<Option<Signal>, String> {
    if text.trim().eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    match named(text)? {
        // Two that nobody can catch, one that we live by, and those of a program's own faults.
        Signal::SIGKILL
        | Signal::SIGSTOP
        | Signal::SIGCHLD
        | Signal::SIGSEGV
        | Signal::SIGBUS
        | Signal::SIGILL
        | Signal::SIGFPE => Err(format!("{text} cannot be passed on")),
        signal => Ok(Some(signal)),
    }
}

/// From here on those signals, as the user wants them, and SIGCHLD are waited for instead of doing what they do.
pub fn take_over(options: &SignalOptions) -> Result<SigSet> {
    let SignalOptions { forward_signals: named } = options;
    let mut set: SigSet = match named.contains(&None) {
        true => SigSet::empty(),
        false => FORWARDED.into_iter().chain(named.iter().copied().flatten()).collect(),
    };
    set.add(Signal::SIGCHLD);
    set.thread_block().context("cannot block signals")?;
    Ok(set)
}

/// The user's requests to end, SIGINT and SIGTERM, counted.
#[derive(Debug, Default)]
pub struct Requests {
    /// Number of them.
    pub count: u32,
    last: Option<(Signal, u32, Instant)>,
}

impl Requests {
    /// Hears a signal from a process; the kernel is process 0. Returns whether it says something new: `timeout` sends its
    /// child the same signal twice, to the child and to the group of both.
    pub fn hear(&mut self, signal: Signal, sender: u32, now: Instant) -> bool {
        if !matches!(signal, Signal::SIGINT | Signal::SIGTERM) {
            return true;
        }
        let is_again = self.last.is_some_and(|(other, process, at)| {
            sender != 0 && (other, process) == (signal, sender) && now.duration_since(at) < ONE_REQUEST
        });
        if !is_again {
            self.last = Some((signal, sender, now));
            self.count += 1;
        }
        !is_again
    }
}

/// Undoes what the launcher inherited of [`take_over`], before it starts threads or processes. Signals that the
/// guardian passes on come through its link alone: whoever sends SIGTERM to all of a run, as service managers do, asks
/// for one end, and the launcher is needed for that.
///
/// A shell without job control starts what it puts into the background with the terminal's two signals ignored, and the
/// ranks would inherit that: a user that then sends the job a SIGINT would wait for ever.
pub fn leave_to_guardian(options: &SignalOptions) -> Result<()> {
    use instanton::internal::sys::signals::{act_by_default, let_pass};
    for signal in [Signal::SIGINT, Signal::SIGQUIT] {
        act_by_default(signal).context("cannot reset signals")?;
    }
    let named = options.forward_signals.iter().copied().flatten();
    FORWARDED.into_iter().chain(named).try_for_each(let_pass).context("cannot reset signals")?;
    SigSet::empty().thread_set_mask().context("cannot unblock signals")
}

/// A signal by number as people write it.
pub fn name(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => format!("signal {number} ({})", signal.as_str()),
        Err(_) => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_by_name_and_number() {
        assert_eq!(
            ["WINCH", "sigurg", "28"].map(read),
            [Signal::SIGWINCH, Signal::SIGURG, Signal::SIGWINCH].map(|s| Ok(Some(s)))
        );
        assert_eq!(read("None"), Ok(None));
        for bad in ["", "SIGMOON", "0", "9", "kill", "SIGSTOP", "-1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_that_comes_twice_at_once_is_one() {
        let (mut requests, start) = (Requests::default(), Instant::now());
        let mut hear = |signal, sender, ms| {
            let is_new = requests.hear(signal, sender, start + Duration::from_millis(ms));
            (is_new, requests.count)
        };
        assert_eq!(hear(Signal::SIGUSR1, 5, 0), (true, 0));
        assert_eq!(hear(Signal::SIGTERM, 5, 0), (true, 1));
        assert_eq!([hear(Signal::SIGTERM, 5, 200), hear(Signal::SIGTERM, 5, 300)], [(false, 1), (true, 2)]);
        assert_eq!([hear(Signal::SIGTERM, 6, 301), hear(Signal::SIGINT, 6, 302)], [(true, 3), (true, 4)]);
        // The terminal's come from the kernel, one a key.
        assert_eq!([hear(Signal::SIGINT, 0, 303), hear(Signal::SIGINT, 0, 304)], [(true, 5), (true, 6)]);
    }

    #[test]
    fn signals_have_names_and_real_time_ones_numbers() {
        assert_eq!(name(11), "signal 11 (SIGSEGV)");
        assert_eq!(name(40), "signal 40");
    }
}
