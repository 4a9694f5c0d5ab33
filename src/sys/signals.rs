//! Threads of the library take no signals: those belong to the program.
use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow};

/// Starts a thread in which every signal is blocked, from its first instruction on.
///
/// # Errors
/// When the thread cannot be had.
pub fn spawn_without_signals<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A thread inherits the mask of the one that starts it.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = Builder::new().name(name.to_owned()).spawn(body);
    before.thread_set_mask()?;
    thread
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;

    #[test]
    fn only_the_new_thread_is_deaf() {
        let inside = spawn_without_signals("test", || SigSet::thread_get_mask().unwrap()).unwrap().join().unwrap();
        assert!(inside.contains(Signal::SIGTERM) && inside.contains(Signal::SIGUSR1));
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR1));
    }
}
