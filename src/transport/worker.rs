//! Worker: a thread of a door for what takes longer than anybody should wait for, so that the control thread serves
//! others meanwhile.
//!
//! A request of many megabytes is checked and taken apart in one go; its connection has no turn meanwhile, so requests
//! keep their order. The thread is started for the first work there is. It also drops what nobody wants any more: that
//! takes as long.
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use mio::net::UnixStream;
use mio::{Interest, Registry, Token};

pub use crate::message::SHORT;
use crate::sys::signals::spawn_without_signals;
use crate::trace;

/// Numbers of the sockets of a door's workers among those of the door, which no connection ever has: of that for long
/// messages, and of one that asks a service of the machine.
pub const WORKER: u64 = 1 << 48;
pub const ASKER: u64 = WORKER + 1;

/// Work, which may come to something that the control thread is to have.
type Work<T> = Box<dyn FnOnce() -> Option<T> + Send>;

/// The thread of a door, once it has been needed.
pub struct Worker<T> {
    token: Token,
    name: &'static str,
    running: Option<Running<T>>,
}

/// The thread, and the ways to it and back.
struct Running<T> {
    work: Option<Sender<Work<T>>>,
    done: Receiver<T>,
    woken: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Worker<T> {
    /// The worker with this number of a door whose poll tokens are those from `tokens` on; its thread has a name.
    pub fn new(tokens: usize, number: u64, name: &'static str) -> Self {
        Worker { token: Token(tokens + number as usize), name, running: None }
    }

    /// Returns whether there is a thread, which is started where there was none: the system may have none to give.
    pub fn is_there(&mut self, registry: &Registry) -> bool {
        if self.running.is_none() {
            let started = Running::start(registry, self.token, self.name);
            self.running = started.inspect_err(|e| trace!("no thread {}: {e}", self.name)).ok();
        }
        self.running.is_some()
    }

    /// Has the thread do something; where there is none, it is done now.
    pub fn run(&self, work: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
        // The thread ends with this end of the channel, not before.
        match self.running.as_ref().and_then(|running| running.work.as_ref()) {
            Some(sender) => {
                let _ = sender.send(Box::new(work));
                None
            }
            None => work(),
        }
    }

    /// Takes what is done.
    pub fn take(&mut self) -> Vec<T> {
        let Some(running) = &mut self.running else { return Vec::new() };
        // The poll tells again of what comes after the socket was emptied.
        while matches!(running.woken.read(&mut [0; 64]), Ok(1..)) {}
        running.done.try_iter().collect()
    }
}

impl<T: Send + 'static> Running<T> {
    fn start(registry: &Registry, token: Token, name: &str) -> io::Result<Self> {
        let (mut woken, wakes) = UnixStream::pair()?;
        registry.register(&mut woken, token, Interest::READABLE)?;
        let (work, todo) = channel();
        let (sender, done) = channel();
        let thread = spawn_without_signals(name, move || run(&todo, &sender, wakes))?;
        Ok(Running { work: Some(work), done, woken, thread: Some(thread) })
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.work = None;
        // A thread that panicked has ended as well.
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

fn run<T>(todo: &Receiver<Work<T>>, done: &Sender<T>, mut wakes: UnixStream) {
    for work in todo {
        let Some(result) = work() else { continue };
        if done.send(result).is_err() {
            return;
        }
        // A socket that takes no more wakes its reader already.
        let _ = wakes.write(&[1]);
    }
}
