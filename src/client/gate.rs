//! The gate between the socket and the control thread.
//!
//! The control thread sleeps until the socket has bytes. Where a caller [reads itself](super::caller), those bytes would
//! wake both, and a poll that has begun cannot be told to watch less. So the thread polls an epoll instance that watches
//! the socket, and a caller shuts the gate in there while the thread sleeps. Even a shut gate shows the end of the
//! connection. A poll that began before there was a gate watches the socket itself, once more.
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::trace;

/// The gate, and what wakes the caller who reads.
pub(super) struct Gate {
    epoll: Epoll,
    nudge: Arc<EventFd>,
}

impl Gate {
    /// Returns a gate, which is open; none where the system refuses it, and the control thread reads for all.
    pub(super) fn new(socket: &UnixStream) -> Option<Self> {
        let make = || {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
            let nudge = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
            io::Result::Ok(Self { epoll, nudge: Arc::new(nudge) })
        };
        make().inspect_err(|error| trace!("no caller reads its answer itself: {error}")).ok()
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// The control thread sleeps on when bytes come.
    pub(super) fn shut(&self, socket: &UnixStream) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut EpollEvent::new(EpollFlags::empty(), 0))?)
    }

    /// The control thread wakes when there are bytes.
    pub(super) fn open(&self, socket: &UnixStream) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut EpollEvent::new(EpollFlags::EPOLLIN, 0))?)
    }

    /// Waker of the calling thread in its [`wait`](Gate::wait).
    pub(super) fn waker(&self) -> Waker {
        Arc::new(Nudge { nudge: self.nudge.clone(), reader: thread::current().id() }).into()
    }

    /// Sleeps until the socket has bytes, or the waker is called. Also returns for nothing.
    pub(super) fn wait(&self, socket: &UnixStream) {
        let mut fds = [socket.as_fd(), self.nudge.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let _ = poll(&mut fds, PollTimeout::NONE);
        if fds[1].any() == Some(true) {
            let _ = self.nudge.read();
        }
    }
}

/// Wakes the caller who reads. A wake that its own reading brings does not find it asleep.
struct Nudge {
    nudge: Arc<EventFd>,
    reader: ThreadId,
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        if thread::current().id() != self.reader {
            // Fails only when the counter is full, and then the caller is awake.
            let _ = self.nudge.write(1);
        }
    }
}
