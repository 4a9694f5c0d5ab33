//! The system that a simulated server runs on: a clock that all nodes share, and watches of processes.
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::random::Random;
use crate::data::Proc;
use crate::server::ctx::system::{System, WatchId, Work, Worker};

/// Simulated time. Clones are the same clock.
#[derive(Clone)]
pub struct Clock {
    begin: Instant,
    passed: Arc<Mutex<Duration>>,
}

impl Clock {
    /// Creates a clock that begins at 0.
    pub fn new() -> Self {
        Clock { begin: Instant::now(), passed: Arc::default() }
    }

    /// Returns the time that has passed since the beginning.
    pub fn passed(&self) -> Duration {
        *lock(&self.passed)
    }

    /// Lets it be that time.
    pub fn set(&self, passed: Duration) {
        *lock(&self.passed) = passed;
    }

    /// Returns the time since the beginning of an instant that a server has computed.
    pub fn since_begin(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.begin)
    }

    fn now(&self) -> Instant {
        self.begin + self.passed()
    }
}

/// Locks what one thread alone uses; a panic that was caught does not matter.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State of a machine.
struct State {
    random: Random,
    /// Times in a thousand that a system call is refused.
    refuses: u64,
    watched: BTreeMap<u64, Proc>,
    watches: u64,
    work: Vec<Work>,
}

/// Machine of one node. Clones are the same machine.
#[derive(Clone)]
pub struct Machine {
    clock: Clock,
    /// True if the host has started the processes of this node itself.
    starts_processes: bool,
    state: Arc<Mutex<State>>,
}

impl Machine {
    /// Creates a machine that refuses system calls so many times in a thousand.
    pub fn new(clock: Clock, mut random: Random, refuses: u64) -> Self {
        let starts_processes = random.permille(700);
        let state = State { random, refuses, watched: BTreeMap::new(), watches: 0, work: Vec::new() };
        Machine { clock, starts_processes, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the tokens of the watches of a process.
    pub fn watches_of(&self, proc: &Proc) -> Vec<u64> {
        let state = lock(&self.state);
        state.watched.iter().filter(|(_, watched)| *watched == proc).map(|(token, _)| *token).collect()
    }

    /// Returns the number of processes that are watched.
    pub fn watched(&self) -> usize {
        lock(&self.state).watched.len()
    }

    /// Returns whether no thread has anything to do.
    pub fn has_no_work(&self) -> bool {
        lock(&self.state).work.is_empty()
    }

    /// Takes the work that was given to threads.
    pub fn take_work(&self) -> Vec<Work> {
        std::mem::take(&mut lock(&self.state).work)
    }

    fn refuses(&self) -> bool {
        let mut state = lock(&self.state);
        let refuses = state.refuses;
        state.random.permille(refuses)
    }
}

impl System for Machine {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn offload(&mut self, _: &'static str, work: Work) -> io::Result<Worker> {
        if self.refuses() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        lock(&self.state).work.push(work);
        Ok(None)
    }

    fn random(&mut self) -> io::Result<[u8; 32]> {
        let mut bytes = [0; 32];
        let mut state = lock(&self.state);
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&state.random.next().to_le_bytes()));
        Ok(bytes)
    }

    fn give_back_memory(&mut self) {}

    fn is_short_of_descriptors(&self, _: &OwnedFd) -> bool {
        self.refuses()
    }

    fn has_few_descriptors(&self, _: &OwnedFd) -> bool {
        false
    }

    fn is_child(&self, _: &OwnedFd) -> bool {
        self.starts_processes
    }

    fn watch(&mut self, proc: Proc, _: OwnedFd) -> io::Result<WatchId> {
        if self.refuses() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mut state = lock(&self.state);
        state.watches += 1;
        let id = state.watches;
        state.watched.insert(id, proc);
        Ok(WatchId(id))
    }

    fn unwatch(&mut self, id: WatchId) {
        lock(&self.state).watched.remove(&id.0);
    }

    fn watch_ended(&mut self, token: u64) -> Option<(Proc, WatchId)> {
        Some((lock(&self.state).watched.remove(&token)?, WatchId(token)))
    }
}
