//! Queue between a program and its launcher's thread: requests to spawn on the way there, ends of jobs on the way back.
//!
//! Once the queue is closed, the thread ends what runs, and requests are refused.
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::data::{App, Info, Nspace, Proc, Status};
use crate::pending::Callback;

/// A job that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// Namespace of the job.
    pub nspace: Nspace,
    /// Status of its first process that did not end well: `ERR_JOB_NON_ZERO_TERM` or `ERR_JOB_ABORTED_BY_SIG`;
    /// `ERR_TIMEOUT` when its time was over.
    pub status: Status,
    /// The code that this process exited with, or 128 and the number of the signal that ended it.
    pub exit_code: i32,
    /// True if whoever started the job wants to hear nothing of its end (`PMIX_EVENT_SILENT_TERMINATION`).
    pub is_silent: bool,
}

/// A spawn request.
pub(super) struct SpawnRequest {
    pub(super) job_info: Vec<Info>,
    pub(super) apps: Vec<App>,
    pub(super) done: Callback<Nspace, Status>,
}

/// Spawn requests on their way to the launcher's thread.
pub(super) struct SpawnQueue {
    requests: Mutex<Option<Vec<SpawnRequest>>>,
    /// Written to when there is more.
    pub(super) wake: EventFd,
    /// Processes that run, and their numbers.
    running: Mutex<BTreeMap<Proc, u32>>,
}

impl SpawnQueue {
    pub(super) fn new() -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(SpawnQueue { requests: Mutex::new(Some(Vec::new())), wake, running: Mutex::default() })
    }

    /// Processes that run, and their numbers.
    pub(super) fn running(&self) -> MutexGuard<'_, BTreeMap<Proc, u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<SpawnRequest>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request.
    ///
    /// # Errors
    /// `ERR_INIT` when the queue is closed.
    pub(super) fn push(&self, request: SpawnRequest) -> Result<(), Status> {
        self.lock().as_mut().ok_or(Status::ERR_INIT)?.push(request);
        self.wake();
        Ok(())
    }

    /// Takes the requests made since the last time; none when there will be no more.
    pub(super) fn take(&self) -> Option<Vec<SpawnRequest>> {
        self.lock().as_mut().map(std::mem::take)
    }

    /// Takes no more requests.
    pub(super) fn close(&self) {
        *self.lock() = None;
        self.wake();
    }

    fn wake(&self) {
        // It can only be full, and then the thread wakes anyway.
        let _ = self.wake.write(1);
    }
}
