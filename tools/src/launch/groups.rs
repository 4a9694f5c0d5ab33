//! Process groups of ranks: each rank leads one, with what it has started since.
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Sends a signal to the process groups of ranks that are not reaped yet: like a terminal, and like mpirun.
pub(super) fn signal(ranks: &[Pid], signal: Signal) {
    for pid in ranks {
        // An error means that nobody is left in the group.
        let _ = killpg(*pid, signal);
    }
}
