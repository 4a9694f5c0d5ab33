//! Signals: the threads that take them, and what they do. Threads of the library take none: those belong to the
//! program.
use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, signal};

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

/// Lets a signal do again what it does to a program that says nothing of it: in this process, and in those it starts.
///
/// # Errors
/// When it is one that nobody can decide about.
pub fn act_by_default(what: Signal) -> io::Result<()> {
    // SAFETY: no code of ours is made a handler. The handler that this replaces, if any, is not called any more.
    unsafe { signal(what, SigHandler::SigDfl) }?;
    Ok(())
}

/// Lets a signal do nothing to this process, while programs that it starts find it as it is by default. One that is
/// ignored stays so, here and there.
///
/// # Errors
/// When it is one that nobody can decide about.
pub fn let_pass(what: Signal) -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler touches nothing.
    let before = unsafe { sigaction(what, &action) }?;
    if matches!(before.handler(), SigHandler::SigIgn) {
        // SAFETY: it is what was there, and no code.
        unsafe { sigaction(what, &before) }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;

    #[test]
    fn a_signal_that_passes_does_nothing_here_and_is_ignored_where_it_was() {
        let_pass(Signal::SIGXCPU).unwrap();
        raise(Signal::SIGXCPU).unwrap();
        // SAFETY: no code of ours is made a handler.
        unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.unwrap();
        let_pass(Signal::SIGXFSZ).unwrap();
        // SAFETY: as above; it is put back as it was.
        let before =
            [Signal::SIGXFSZ, Signal::SIGXCPU].map(|what| unsafe { signal(what, SigHandler::SigDfl) }.unwrap());
        assert!(matches!(before, [SigHandler::SigIgn, SigHandler::Handler(_)]));
    }

    #[test]
    fn only_the_new_thread_is_deaf() {
        let inside = spawn_without_signals("test", || SigSet::thread_get_mask().unwrap()).unwrap().join().unwrap();
        assert!(inside.contains(Signal::SIGTERM) && inside.contains(Signal::SIGUSR1));
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGUSR1));
    }
}
