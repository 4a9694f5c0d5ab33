//! This process's own standard input, pushed to others (`PMIX_IOF_PUSH_STDIN`).
//!
//! A thread reads it and pushes piece after piece, each when the one before it was answered: a host that has
//! enough stops the reading. It ends with the input, whose end it pushes as well; when nobody is left to
//! push to; and with the client.
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::data::{Info, Proc, Status};
use crate::message::{Forward, Request};
use crate::pending;
use crate::sys::signals;
use crate::trace;

use super::call::nothing;
use super::{Client, Error, Inner};

/// Bytes that are read at once.
const CHUNK: usize = 32 << 10;

/// State that the thread and its client share.
struct Shared {
    targets: Mutex<Vec<Proc>>,
    wake: EventFd,
}

impl Shared {
    fn targets(&self) -> MutexGuard<'_, Vec<Proc>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's thread that reads.
#[derive(Default)]
pub(super) struct Collector(Mutex<Option<(Arc<Shared>, JoinHandle<()>)>>);

impl Collector {
    fn lock(&self) -> MutexGuard<'_, Option<(Arc<Shared>, JoinHandle<()>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it, and waits for that where nothing could wait for the caller: the connection has ended before, and its
    /// thread.
    pub(super) fn end(&self, waits: bool) {
        let Some((shared, thread)) = self.lock().take() else { return };
        shared.targets().clear();
        // Fails only when the counter is full, and then the thread is awake.
        let _ = shared.wake.write(1);
        if waits {
            let _ = thread.join();
        }
    }
}

impl Client {
    /// Pushes this process's own standard input to those, from now on, with the directives of the first call.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without targets, `ERR_OUT_OF_RESOURCE` without a thread.
    pub fn iof_push_stdin(&self, targets: &[Proc], directives: &[Info]) -> Result<(), Error> {
        self.inner.life.check()?;
        if targets.is_empty() {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        let mut own = self.collector.lock();
        if let Some((shared, thread)) = &*own
            && !thread.is_finished()
        {
            shared.targets().extend_from_slice(targets);
            return Ok(());
        }
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let wake = wake.map_err(|_| Status::ERR_OUT_OF_RESOURCE)?;
        let shared = Arc::new(Shared { targets: Mutex::new(targets.to_vec()), wake });
        let (inner, with, directives) = (self.inner.clone(), shared.clone(), directives.to_vec());
        let thread = signals::spawn_without_signals("instanton-stdin", move || collect(&inner, &with, &directives));
        *own = Some((shared, thread.map_err(|_| Status::ERR_OUT_OF_RESOURCE)?));
        Ok(())
    }

    /// Pushes the input to these targets no more; without targets, to nobody. Returns whether it was pushed to any of
    /// them.
    pub fn iof_keep_stdin(&self, targets: &[Proc]) -> bool {
        let own = self.collector.lock();
        let Some((shared, _)) = &*own else { return false };
        let mut left = shared.targets();
        let before = left.len();
        left.retain(|target| !targets.is_empty() && !targets.contains(target));
        // Fails only when the counter is full, and then the thread is awake.
        let _ = shared.wake.write(1);
        left.len() < before
    }
}

fn collect(inner: &Inner, shared: &Shared, directives: &[Info]) {
    let stdin = std::io::stdin();
    let mut chunk = vec![0; CHUNK];
    loop {
        let mut fds =
            [PollFd::new(shared.wake.as_fd(), PollFlags::POLLIN), PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
        let may_read = fds[1].any().unwrap_or(true);
        let _ = shared.wake.read();
        let targets = shared.targets().clone();
        if targets.is_empty() {
            return;
        }
        if !may_read {
            continue;
        }
        let bytes = match nix::unistd::read(stdin.as_fd(), &mut chunk) {
            Ok(count) => chunk[..count].to_vec(),
            Err(Errno::EINTR | Errno::EAGAIN) => continue,
            Err(errno) => return trace!("standard input cannot be read: {errno}"),
        };
        let is_end = bytes.is_empty();
        let request = Request::Forward(Forward::Push { targets, bytes, directives: directives.to_vec() });
        let pushed = pending::block(Error::NotInitialized, |callback| {
            inner.ask_for("PMIx_IOF_push", &request, nothing, callback)
        });
        match pushed {
            Ok(()) if !is_end => {}
            // The client has ended meanwhile.
            Ok(()) | Err(Error::NotInitialized) => return,
            Err(error) => return trace!("standard input is pushed no more: {error}"),
        }
    }
}
