//! A launcher that is part of a program: it starts processes as the children of that program, and has its server serve
//! them.
//!
//! # Actors
//!
//! The *program* spawns jobs from any thread. The launcher's one thread does everything else: it registers a job with
//! the program's [`Server`], starts the job's processes, forwards what they print to the program's own output, and
//! waits for their ends. The *processes* have a process group each. They find the server as those of any job do.
//!
//! # States
//!
//! Either all of a job starts, or what was started of it is killed and nobody hears of a job. A job is over when
//! the last of its processes has ended, however that ended; what they have left in their pipes is forwarded
//! before that is told. A job that is over is forgotten. A process that one of them leaves behind, with its
//! output open, may still print.
//!
//! # When a process dies
//!
//! A launcher waits for its own children and for nobody else's, each through a descriptor of its own: the program may
//! have others, and a handler for SIGCHLD. Where such a handler takes a child of the launcher's away, how that ended
//! is not known. A launcher that is dropped ends its processes: SIGTERM, and SIGKILL for those that are left after
//! [`GRACE`](super::family::GRACE). One that is killed leaves them to themselves, without a server and with nobody
//! who reads what they print.
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle, ThreadId};

use super::family::Family;
use super::queue::{JobEnd, SpawnQueue, SpawnRequest};
use crate::client::spawn::complete_apps;
use crate::data::{App, Info, Nspace, Proc, Status};
use crate::pending::{Call, Callback, Pending};
use crate::server::Server;
use crate::sys::signals::spawn_without_signals;

/// Launches jobs. Dropping it ends their processes.
pub struct Launcher {
    queue: Arc<SpawnQueue>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launcher")
    }
}

impl Launcher {
    /// A launcher whose jobs `server` serves, which it does not keep. `job_ended` is called for every job that is over,
    /// on the launcher's thread.
    ///
    /// # Errors
    /// When the system refuses a thread or a descriptor.
    pub fn new(server: &Arc<Server>, job_ended: impl Fn(JobEnd) + Send + 'static) -> io::Result<Launcher> {
        let queue = Arc::new(SpawnQueue::new()?);
        let server: Weak<Server> = Arc::downgrade(server);
        let family = Family::new(server, Box::new(job_ended), queue.clone());
        let thread = spawn_without_signals("instanton-launcher", move || family.attend())?;
        Ok(Launcher { queue, thread: Some(thread) })
    }

    /// Returns the number of the process that has such a name and runs.
    pub fn pid_of(&self, proc: &Proc) -> Option<u32> {
        self.queue.running().get(proc).copied()
    }

    /// Launches the job of a spawn request, and answers its namespace when all of it runs, on the launcher's thread. A
    /// program that is not given a directory runs in that of this process.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for what makes no application.
    pub fn spawn(&self, job_info: &[Info], apps: &[App]) -> Pending<Nspace, Status> {
        let (queue, thread) = (self.queue.clone(), self.thread.as_ref().map(|thread| thread.thread().id()));
        let apps = complete_apps(job_info, apps);
        Pending::new(Spawn { queue, thread, job_info: job_info.to_vec(), apps }, Status::ERR_INIT)
    }
}

/// A spawn that is prepared.
struct Spawn {
    queue: Arc<SpawnQueue>,
    /// Thread of the launcher.
    thread: Option<ThreadId>,
    job_info: Vec<Info>,
    apps: Result<Vec<App>, Status>,
}

impl Call<Nspace, Status> for Spawn {
    fn block(&mut self) -> Result<Option<Nspace>, Status> {
        match self.thread == Some(thread::current().id()) {
            true => Err(Status::ERR_WOULD_BLOCK),
            false => Ok(None),
        }
    }

    fn send(self: Box<Self>, done: Callback<Nspace, Status>) -> Result<(), Status> {
        let Spawn { queue, job_info, apps, .. } = *self;
        queue.push(SpawnRequest { job_info, apps: apps?, done })
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.queue.close();
        let thread = self.thread.take();
        // Dropped by what it has called, it ends by itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}
