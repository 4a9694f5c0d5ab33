//! The system behind a trait: clock, randomness, worker threads, watches of processes.
//!
//! The control thread lends rooms the real one; a simulator lends its own.
use std::io;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::data::Proc;

/// Number of a watched process. Never used twice by one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchId(pub u64);

/// Work for a thread of its own.
pub type Work = Box<dyn FnOnce() + Send>;

/// A thread that works for a room; nothing where the system has done the work at once.
pub type Worker = Option<JoinHandle<()>>;

/// System calls that rooms need.
pub trait System: Send {
    /// Reads the monotonic clock.
    fn now(&self) -> Instant;

    /// Returns the processor time of this thread so far, for who counts it.
    fn processor_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Runs work in a thread of its own, with all signals blocked.
    ///
    /// # Errors
    /// When there is no thread to be had.
    fn offload(&mut self, name: &'static str, work: Work) -> io::Result<Worker>;

    /// Makes bytes that nobody can guess.
    ///
    /// # Errors
    /// When the kernel has none to give.
    fn random(&mut self) -> io::Result<[u8; 32]>;

    /// Gives memory back that the allocator keeps for the next time, after work that took much.
    fn give_back_memory(&mut self);

    /// Returns whether the number of the descriptor made last shows that half of those that this process may have are
    /// in use.
    fn is_short_of_descriptors(&self, latest: &OwnedFd) -> bool;

    /// Returns whether the number of the descriptor made last shows that few are left of those that this process may have.
    fn has_few_descriptors(&self, latest: &OwnedFd) -> bool;

    /// Returns whether the process behind a pidfd is a child of this one.
    fn is_child(&self, pidfd: &OwnedFd) -> bool;

    /// Watches the process behind a pidfd.
    ///
    /// # Errors
    /// When the poll takes no more descriptors.
    fn watch(&mut self, proc: Proc, pidfd: OwnedFd) -> io::Result<WatchId>;

    /// Watches a process no longer.
    fn unwatch(&mut self, id: WatchId);

    /// Takes the process out whose watch has this poll token: it has ended.
    fn watch_ended(&mut self, token: u64) -> Option<(Proc, WatchId)>;
}
