//! The signals that a user may send to a job, and their names.
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};

/// Passed on to every rank. Their effect on a rank is its own affair; see the guardian for the second SIGINT.
const FORWARDED: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// From here on those signals, and SIGCHLD, are waited for instead of doing what they do.
pub fn take_over() -> Result<SigSet> {
    let mut set: SigSet = FORWARDED.into_iter().collect();
    set.add(Signal::SIGCHLD);
    set.thread_block().context("cannot block signals")?;
    Ok(set)
}

/// Undoes what a process inherited of [`take_over`], before it starts threads or processes.
///
/// A shell without job control starts what it puts into the background with the terminal's two signals ignored, and the
/// ranks would inherit that: a user that then sends the job a SIGINT would wait for ever.
pub fn give_back() -> Result<()> {
    for signal in [Signal::SIGINT, Signal::SIGQUIT] {
        instanton::internal::sys::signals::act_by_default(signal).context("cannot reset signals")?;
    }
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
    #[test]
    fn signals_have_names_and_real_time_ones_numbers() {
        assert_eq!(super::name(11), "signal 11 (SIGSEGV)");
        assert_eq!(super::name(40), "signal 40");
    }
}
