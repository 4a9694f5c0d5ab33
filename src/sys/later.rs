//! Later: a thread that drops what takes long to drop, so that nobody waits for that.
//!
//! The system takes long to take much memory back: tens of milliseconds for some hundred megabytes. A thread that lets
//! go of a large thing last, be it the control thread of a server, gives it to this one. That is started for the first
//! thing, and ends with the last. Where there is none to be had, the thing is dropped at once.
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::signals::spawn_without_signals;
use crate::trace;

/// Bytes of a thing from which on it is large.
pub const LARGE: usize = 1 << 20;

/// Bytes of a piece of memory from which on this process gives it back when it is freed, if it
/// [keeps none](keep_none_that_is_large).
const MAPPED: i32 = 256 << 10;

/// Has large memory of this process go back to the system when it is freed, for as long as the process lives.
///
/// The GNU allocator learns from a piece of megabytes that was freed to keep the next ones, in an area for each thread. A
/// launcher moves such pieces between threads, and would keep several times what it holds at a time.
pub fn keep_none_that_is_large() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator, which takes its own lock for that.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
    }
}

/// Things that wait for the thread.
struct Waiting {
    things: Vec<Box<dyn Send>>,
    has_thread: bool,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { things: Vec::new(), has_thread: false });

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops a thing of so many bytes: a large one later.
pub fn drop_sized<T: Send + 'static>(bytes: usize, thing: T) {
    if bytes >= LARGE {
        drop_large(bytes, Box::new(thing));
    }
}

#[cfg(not(test))]
fn drop_large(_bytes: usize, thing: Box<dyn Send>) {
    hand_over(thing);
}

/// Tests go step by step, and count.
#[cfg(test)]
fn drop_large(bytes: usize, thing: Box<dyn Send>) {
    tests::HANDED_OVER.lock().unwrap().push((std::thread::current().id(), bytes));
    drop(thing);
}

fn hand_over(thing: Box<dyn Send>) {
    let mut waiting = waiting();
    waiting.things.push(thing);
    if waiting.has_thread {
        return;
    }
    match spawn_without_signals("instanton-drop", run) {
        Ok(_) => waiting.has_thread = true,
        Err(e) => {
            let things = std::mem::take(&mut waiting.things);
            drop(waiting);
            trace!("no thread to give memory back: {e}");
            drop(things);
        }
    }
}

fn run() {
    loop {
        let mut waiting = waiting();
        let things = std::mem::take(&mut waiting.things);
        if things.is_empty() {
            waiting.has_thread = false;
            return;
        }
        drop(waiting);
        drop(things);
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};

    use super::*;

    /// Large things that were handed over: the threads that did so, and the bytes.
    pub static HANDED_OVER: Mutex<Vec<(ThreadId, usize)>> = Mutex::new(Vec::new());

    /// Says by which thread it was dropped.
    struct Thing(Sender<ThreadId>);

    impl Drop for Thing {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    #[test]
    fn what_is_handed_over_is_dropped_by_another_thread() {
        let (by, dropped) = channel();
        for _ in 0..3 {
            hand_over(Box::new(Thing(by.clone())));
            assert_ne!(dropped.recv().unwrap(), thread::current().id());
        }
    }

    #[test]
    fn what_is_small_is_dropped_at_once() {
        let (by, dropped) = channel();
        let own = |(of, bytes): &(ThreadId, usize)| (*of == thread::current().id()).then_some(*bytes);
        let handed_over = || HANDED_OVER.lock().unwrap().iter().filter_map(own).collect::<Vec<_>>();
        drop_sized(LARGE - 1, Thing(by.clone()));
        assert!(dropped.try_recv().is_ok() && handed_over().is_empty());
        drop_sized(LARGE, Thing(by));
        assert_eq!(handed_over(), [LARGE]);
    }
}
