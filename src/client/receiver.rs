//! The thread that reads aside, while the control thread is in an event handler.
//!
//! The control thread may be in an event handler for as long as the program likes, and an answer that another thread
//! blocks for must not wait for that. So one more thread reads then: it gives answers to those who block for them in a
//! look-up or a meeting, and leaves everything else to the control thread, in its order. It calls nothing of the
//! program, and so cannot be held up by it.
//!
//! Handlers are mostly short, and a thread that wakes costs more than they do. So this one is started when somebody
//! blocks during a handler for the first time, and sleeps until its alarm rings. A thread that finds that somebody
//! blocks during a handler sets the alarm, both under the lock of the outbox: the one who goes into the handler in a
//! [while](PATIENCE), if it is not set already, and the one who asks at once. The thread reads until that handler is
//! over, which it looks for under the lock of what has [come](super::received), as the control thread takes that before
//! it goes on: so nothing overtakes anything.
//!
//! The backlog of the control thread is bounded: where it is long, nothing is read before the handler is over. When
//! the server dies, or breaks the protocol, those who block learn of it at once, and the control thread finds the end
//! behind what came before it.
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use instanton_layout::sync::{AtomicBool, Ordering};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::message::Request;
use crate::sys::signals;
use crate::trace;

use super::Inner;
use super::answer::Waiter;
use super::received::{Received, Step};

/// Time that a handler takes, at most, before another thread reads. An alarm before the next tick of the kernel's clock
/// (4 ms, mostly) costs more than most handlers, and one is to do for many of them.
const PATIENCE: Duration = Duration::from_millis(50);
/// The time of an alarm that rings at once.
const NOW: Duration = Duration::from_nanos(1);

/// The thread, and what wakes it.
pub(super) struct Receiver {
    alarm: Arc<Alarm>,
    stage: Stage,
    thread: JoinHandle<()>,
}

/// State of the thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The thread sleeps, and nothing will wake it.
    Asleep,
    /// The thread sleeps until the alarm rings.
    Set,
    /// The thread reads.
    Awake,
}

struct Alarm {
    timer: TimerFd,
    is_over: AtomicBool,
}

impl Alarm {
    fn set(&self, after: Duration) {
        // The kernel refuses what is no time.
        let _ = self.timer.set(Expiration::OneShot(TimeSpec::from(after)), TimerSetTimeFlags::empty());
    }
}

impl Receiver {
    /// Starts the thread, for what comes at this socket.
    fn start(inner: &Arc<Inner>, socket: Arc<UnixStream>) -> io::Result<Self> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        let alarm = Arc::new(Alarm { timer, is_over: AtomicBool::new(false) });
        let (inner, rings) = (inner.clone(), alarm.clone());
        let thread = signals::spawn_without_signals("instanton-read", move || watch(&inner, &rings, &socket))?;
        Ok(Receiver { alarm, stage: Stage::Asleep, thread })
    }

    /// Has the thread look at the handler after that time, unless it does so before.
    fn set(&mut self, after: Duration) {
        if self.stage == Stage::Asleep || self.stage == Stage::Set && after == NOW {
            self.stage = Stage::Set;
            self.alarm.set(after);
        }
    }

    /// Waits for the end of the thread; without the lock of what has come, which it may want.
    pub(super) fn end(self) {
        self.alarm.is_over.store(true, Ordering::Release);
        self.alarm.set(NOW);
        // One that has panicked reads nothing any more, either.
        let _ = self.thread.join();
    }
}

impl Inner {
    /// Calls an event handler; on the control thread, which may stay there.
    pub(super) fn in_handler(self: &Arc<Self>, call: impl FnOnce()) {
        if self.link.enter_handler() {
            self.read_after(PATIENCE);
        }
        call();
        self.link.leave_handler();
    }

    /// Sends the request of a look-up that somebody [blocks](super::connection::Link::look_up) for.
    pub(super) fn look_up(self: &Arc<Self>, call: &'static str, request: &Request, waiter: Waiter) {
        if self.link.look_up(call, request, waiter) {
            self.read_aside();
        }
    }

    /// Has another thread read, because the control thread is in an event handler.
    #[cold]
    pub(super) fn read_aside(self: &Arc<Self>) {
        self.read_after(NOW);
    }

    /// Has another thread read, should the control thread be in an event handler after that time. Where the system has
    /// no thread to give, answers wait for the handler.
    fn read_after(self: &Arc<Self>, time: Duration) {
        let mut received = self.link.received();
        if received.is_with_caller() {
            return;
        }
        let Received { incoming: Some(incoming), receiver, .. } = &mut *received else { return };
        if receiver.is_none() {
            let started = Receiver::start(self, incoming.socket.clone());
            *receiver =
                started.inspect_err(|error| trace!("no thread reads while an event handler runs: {error}")).ok();
        }
        receiver.iter_mut().for_each(|receiver| receiver.set(time));
    }

    /// Reads one message, while the control thread is in this event handler, by its number; in any for none.
    fn read_one(&self, of: &mut Option<u64>) -> Step {
        let mut received = self.link.received();
        let now = self.link.handler();
        let is_same = now.is_some() && of.is_none_or(|number| now == Some(number));
        *of = now;
        if !is_same || received.is_with_caller() || received.aside().is_none() {
            if let Some(receiver) = &mut received.receiver {
                receiver.stage = Stage::Asleep;
                // Another handler has a while of its own.
                if now.is_some() && !is_same {
                    receiver.set(PATIENCE);
                }
            }
            return Step::Over;
        }
        self.take_in(received)
    }
}

/// Sleeps until the alarm rings, then reads until the handler is over.
fn watch(inner: &Inner, alarm: &Alarm, socket: &UnixStream) {
    while alarm.timer.wait().is_ok() && !alarm.is_over.load(Ordering::Acquire) {
        if let Some(receiver) = &mut inner.link.received().receiver {
            receiver.stage = Stage::Awake;
        }
        let mut handler = None;
        loop {
            match inner.read_one(&mut handler) {
                Step::Again => {}
                Step::Over => break,
                Step::Dry => {
                    let watched = [alarm.timer.as_fd(), socket.as_fd()];
                    let mut fds = watched.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
                    let _ = poll(&mut fds, PollTimeout::NONE);
                    // Awake, it has no other alarm than that for its end.
                    if fds[0].any() == Some(true) {
                        break;
                    }
                }
            }
        }
    }
}
