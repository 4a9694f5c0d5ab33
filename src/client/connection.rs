//! The connection to the server: callers send, one thread receives.
//!
//! A caller puts its *waiter* into the table of pending requests and sends the request itself, both under one lock. The
//! control thread reads replies, takes each waiter out of the table under the same lock and calls it with no lock held.
//! It cannot do so before the caller has let the lock go, at the end of its call: no callback overtakes the call that
//! asked for it. A result that is ready without asking the server is handed to the thread as a *task*, for the same
//! reason. A caller who meets all of its job waits beside that table: see `fence.rs`. The thread also sends what the
//! socket has not taken (`outbox.rs`), and ends calls whose time limit has passed (`clock.rs`). A thread that blocks for
//! an answer reads it itself (`caller.rs`). Where an event handler holds the control thread for a while, and another
//! thread blocks in a fence, one more thread reads (`receiver.rs`).
//!
//! When the server dies, or breaks the protocol, the stream ends: every waiter is called with an error, and every later
//! request fails. The thread stays for tasks until the client is finalized. When this process dies, its socket closes.
mod meeting;

pub(super) use meeting::Met;

use std::cell::Cell;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use instanton_layout::sync::{AtomicBool, Ordering};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::control::frame::{self, FrameError, Kind};
use crate::message::{InProcessServer, Push, Reply, Request};
use crate::sys::futex::Bell;
use crate::trace;

use super::Error;
use super::answer::{Answer, Waiter};
use super::clock::{Clock, Then};
use super::gate::Gate;
use super::incoming::{End, Incoming, time_left};
use super::outbox::Outbox;
use super::received::Received;
use super::receiver::Receiver;

/// Message of the server that nobody waits for.
pub(super) enum News {
    Push(Push),
    /// Outcome of a request that was only [told](Link::tell).
    Reply(Reply),
}

type Task = Box<dyn FnOnce() + Send>;

/// Way of requests.
pub(super) enum Way {
    /// Nowhere: there is no server.
    None,
    /// To a server that is another process.
    Socket(Arc<UnixStream>),
    /// To the server in this process.
    InProcess(Arc<dyn InProcessServer>),
}

/// The sending side, shared by all threads.
pub(super) struct Link {
    way: Way,
    outbox: Mutex<Outbox>,
    /// Rung, under the lock of the outbox, when the answer to a meeting is there.
    pub(super) bell: Bell,
    /// Set under the lock of the outbox while bytes wait there, so that the control thread need not take that in vain:
    /// who has just been answered may hold it, to send the next request.
    has_unsent: AtomicBool,
    inbox: Mutex<Inbox>,
    /// Messages for the control thread. Its lock may be held while that of the outbox is taken, and not the other way
    /// round.
    received: Mutex<Received>,
    wake: EventFd,
    /// Made for the first caller that reads itself.
    gate: OnceLock<Option<Gate>>,
    clock: Arc<Clock>,
}

#[derive(Default)]
struct Inbox {
    tasks: Vec<Task>,
    /// The end of the stream is expected.
    closing: bool,
    stop: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks but allocation.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The link that this thread serves, if it is a control thread.
    static SERVES: Cell<*const Link> = const { Cell::new(std::ptr::null()) };
}

impl Link {
    pub(super) fn new(way: Way) -> io::Result<Self> {
        if let Way::Socket(socket) = &way {
            socket.set_nonblocking(true)?;
        }
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (outbox, inbox, received) = (Mutex::default(), Mutex::default(), Mutex::default());
        let has_unsent = AtomicBool::new(false);
        let (gate, clock) = (OnceLock::new(), Arc::default());
        Ok(Self { way, outbox, bell: Bell::new(), has_unsent, inbox, received, wake, gate, clock })
    }

    /// Returns whether there is, or was, a server that this process is a rank of.
    pub(super) fn has_server(&self) -> bool {
        matches!(self.way, Way::Socket(_))
    }

    /// Returns whether there is, or was, a server to ask.
    pub(super) fn can_ask(&self) -> bool {
        !matches!(self.way, Way::None)
    }

    /// Returns whether the caller runs on this link's control thread, and so must not wait for it.
    pub(super) fn is_own_thread(&self) -> bool {
        SERVES.get() == std::ptr::from_ref(self)
    }

    /// Returns whether an answer could not come while the caller waits for it.
    pub(super) fn may_not_wait(&self) -> bool {
        self.is_own_thread() || matches!(&self.way, Way::InProcess(server) if server.is_own_thread())
    }

    /// Returns whether requests reach the server.
    pub(super) fn is_connected(&self) -> bool {
        self.has_server() && !lock(&self.outbox).lost
    }

    /// The gate between the socket and the control thread, and the socket; none where a caller cannot close it.
    pub(super) fn gate(&self) -> Option<(&Gate, &UnixStream)> {
        let Way::Socket(socket) = &self.way else { return None };
        self.gate.get_or_init(|| Gate::new(socket)).as_ref().map(|gate| (gate, &**socket))
    }

    /// Returns whether somebody blocks for an answer that another thread than the control thread could hand over.
    pub(super) fn blocks_somebody(&self) -> bool {
        lock(&self.outbox).blocks_somebody()
    }

    /// Sends a request; `waiter` is called with the answer, unless this fails.
    pub(super) fn request(&self, call: &'static str, request: &Request, waiter: Waiter) -> Result<(), Error> {
        self.send(call, request, Some(waiter)).map_err(|(error, _)| error)
    }

    /// Sends a request that nobody waits for; if it fails later, that is told like an event.
    pub(super) fn tell(&self, call: &'static str, request: &Request) -> Result<(), Error> {
        self.send(call, request, None).map_err(|(error, _)| error)
    }

    /// Sends a request that belongs to a call which has been accepted already: `waiter` is called in any case.
    pub(super) fn follow_up(&self, call: &'static str, request: &Request, waiter: Waiter) {
        if let Err((error, Some(waiter))) = self.send(call, request, Some(waiter)) {
            self.run_later(move || waiter(Err(error)));
        }
    }

    /// Sends the request of a look-up that somebody blocks for: `waiter`, which runs nothing of the program, is called
    /// in any case, on whatever thread has the answer. Returns whether the control thread is in an event handler.
    pub(super) fn look_up(&self, call: &'static str, request: &Request, waiter: Waiter) -> bool {
        let sent = self.post(call, request, Some(waiter), |outbox, number, waiter| {
            outbox.lookups.extend(waiter.map(|waiter| (number, waiter)));
        });
        match sent {
            Ok(in_handler) => in_handler,
            Err((error, waiter)) => {
                if let Some(waiter) = waiter {
                    waiter(Err(error));
                }
                false
            }
        }
    }

    /// The control thread goes into an event handler, and may stay there. Returns whether somebody blocks for an answer
    /// meanwhile.
    pub(super) fn enter_handler(&self) -> bool {
        let mut outbox = lock(&self.outbox);
        outbox.handlers += 1;
        outbox.in_handler = true;
        outbox.blocks_somebody()
    }

    /// The handler comes back.
    pub(super) fn leave_handler(&self) {
        lock(&self.outbox).in_handler = false;
    }

    /// Returns the number of the event handler that the control thread is in.
    pub(super) fn handler(&self) -> Option<u64> {
        let outbox = lock(&self.outbox);
        outbox.in_handler.then_some(outbox.handlers)
    }

    /// Messages for the control thread.
    pub(super) fn received(&self) -> MutexGuard<'_, Received> {
        lock(&self.received)
    }

    /// Returns whether somebody blocks for the answer to a look-up.
    pub(super) fn is_looked_up(&self, number: u64) -> bool {
        lock(&self.outbox).lookups.contains_key(&number)
    }

    /// Returns the one who blocks for the answer to a look-up, and nobody any more.
    pub(super) fn lookup(&self, number: u64) -> Option<Waiter> {
        lock(&self.outbox).lookups.remove(&number)
    }

    /// Nothing more will come for those who block for a look-up or a meeting.
    pub(super) fn lose_lookups(&self) {
        let waiting = {
            let mut outbox = lock(&self.outbox);
            outbox.lost = true;
            self.lose_meeting(&mut outbox, Error::LostConnection);
            std::mem::take(&mut outbox.lookups)
        };
        waiting.into_values().for_each(|waiter| waiter(Err(Error::LostConnection)));
    }

    fn send(
        &self,
        call: &'static str,
        request: &Request,
        waiter: Option<Waiter>,
    ) -> Result<(), (Error, Option<Waiter>)> {
        self.post(call, request, waiter, Outbox::await_answer).map(|_| ())
    }

    /// Sends a request, whose waiter `keep` puts where its answer finds it. Without a waiter, it has number 0. Returns
    /// whether the control thread is in an event handler.
    fn post(
        &self,
        call: &'static str,
        request: &Request,
        waiter: Option<Waiter>,
        keep: fn(&mut Outbox, u64, Option<Waiter>),
    ) -> Result<bool, (Error, Option<Waiter>)> {
        let socket = match &self.way {
            Way::None => return Err((Error::NoServer { call }, waiter)),
            Way::Socket(socket) => socket,
            Way::InProcess(server) => return self.ask_in_process(&**server, request, waiter).map(|()| false),
        };
        // The archive is made outside the lock, the number put in under it.
        let mut frame = match frame::request(request) {
            Ok(frame) => frame,
            Err(error) => return Err((error.into(), waiter)),
        };
        let mut outbox = lock(&self.outbox);
        if let Err(error) = outbox.post(call, socket, frame.bytes(), waiter.is_some()) {
            return Err((error, waiter));
        }
        let number = outbox.last;
        keep(&mut outbox, number, waiter);
        if outbox.has_unsent() {
            self.rest_waits();
        }
        Ok(outbox.in_handler)
    }

    /// Waits until the socket has taken all that was sent so far, or the connection is lost. The control thread does
    /// not wait: it sends the rest itself.
    pub(super) fn wait_until_sent(&self) {
        let Way::Socket(socket) = &self.way else { return };
        let outbox = lock(&self.outbox);
        if !outbox.has_unsent() || self.is_own_thread() {
            return;
        }
        let (end, _) = outbox.progress();
        drop(outbox);
        loop {
            let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
            let _ = poll(&mut fds, PollTimeout::NONE);
            let mut outbox = lock(&self.outbox);
            outbox.flush(socket);
            let (_, gone) = outbox.progress();
            if gone >= end || outbox.lost {
                return;
            }
        }
    }

    /// Returns a continuation that is called with `late()` on the control thread, unless it was called before that
    /// time. Without a time it is `then`.
    pub(super) fn bound<R: 'static>(
        &self,
        at: Option<Instant>,
        late: impl FnOnce() -> R + Send + 'static,
        then: Then<R>,
    ) -> Then<R> {
        let Some(at) = at else { return then };
        let (then, is_first) = self.clock.bound(at, late, then);
        if is_first {
            self.wake();
        }
        then
    }

    fn ask_in_process(
        &self,
        server: &dyn InProcessServer,
        request: &Request,
        waiter: Option<Waiter>,
    ) -> Result<(), (Error, Option<Waiter>)> {
        let mut outbox = lock(&self.outbox);
        outbox.last += 1;
        let number = outbox.last;
        match server.ask(number, request.clone()) {
            Ok(()) => outbox.await_answer(number, waiter),
            Err(status) => return Err((status.into(), waiter)),
        }
        Ok(())
    }

    /// A reply of an in-process server; on the control thread.
    pub(super) fn answered(&self, number: u64, reply: Reply) {
        let waiter = lock(&self.outbox).take(number);
        if let Some(waiter) = waiter {
            waiter(Ok(Answer { reply, descriptors: Vec::new() }));
        }
    }

    /// Has `task` run on the control thread.
    pub(super) fn run_later(&self, task: impl FnOnce() + Send + 'static) {
        self.queue(task);
        // The thread takes the lock as soon as it is awake: under it, that would wake it twice.
        self.wake();
    }

    /// Has `task` run on the control thread once that is awake.
    pub(super) fn queue(&self, task: impl FnOnce() + Send + 'static) {
        let mut inbox = lock(&self.inbox);
        if inbox.stop {
            // Nobody will run it. Its values may call back here when they are dropped, so the lock goes first.
            drop(inbox);
            return drop(task);
        }
        inbox.tasks.push(Box::new(task));
    }

    /// From now on the end of the stream is no loss.
    pub(super) fn expect_end(&self) {
        lock(&self.inbox).closing = true;
    }

    /// Ends the control thread once it has run what it has; what still waits for the server is told that there is no more.
    pub(super) fn stop(&self) {
        {
            let mut inbox = lock(&self.inbox);
            inbox.closing = true;
            inbox.stop = true;
        }
        self.wake();
    }

    /// Has the control thread send what the socket has not taken; under the lock of the outbox.
    #[cold]
    fn rest_waits(&self) {
        // It reads this behind its wake-up. Where it is set already, the thread has still to look, or waits for room.
        if !self.has_unsent.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Has the control thread look for news.
    pub(super) fn wake(&self) {
        // Fails only when the counter is full, and then the thread is awake.
        let _ = self.wake.write(1);
    }

    /// The control thread. `on_news` is called for what the server says unasked, `on_lost` once if it goes.
    pub(super) fn serve(&self, incoming: Option<Incoming>, on_news: impl Fn(News), on_lost: impl Fn()) {
        SERVES.set(self);
        self.received().incoming = incoming;
        // However the thread ends, and be it by a callback that panics, nobody is left waiting for it.
        let _end = OnEnd(|| {
            self.stop();
            let tasks = std::mem::take(&mut lock(&self.inbox).tasks);
            drop(tasks);
            self.abandon(|| Error::NotInitialized);
            self.end_reading();
        });
        loop {
            let (tasks, stop) = {
                let mut inbox = lock(&self.inbox);
                (std::mem::take(&mut inbox.tasks), inbox.stop)
            };
            let idle = tasks.is_empty();
            tasks.into_iter().for_each(|task| task());
            if stop && idle {
                return;
            }
            if let Err(end) = self.drain(&on_news) {
                let expected = lock(&self.inbox).closing;
                self.abandon(|| Error::LostConnection);
                self.end_reading();
                if !expected {
                    trace!("the server is lost: {end}");
                    on_lost();
                }
                continue;
            }
            // Behind what has come: a result that was in time counts.
            let gave_up = self.clock.expire();
            // A task may have come together with the word to stop, and one wake-up was for both.
            if idle && !gave_up {
                self.sleep();
            }
        }
    }

    /// Takes in every frame that has come.
    fn drain(&self, on_news: &impl Fn(News)) -> Result<(), End> {
        // The lock is not held while a frame is acted on.
        let next = || self.received().next();
        while let Some(frame) = next()? {
            match frame.header.kind {
                Kind::Reply => {
                    let reply = frame::decode(Kind::Reply, &frame.body)?;
                    if frame.header.number == 0 {
                        on_news(News::Reply(reply));
                        continue;
                    }
                    let number = frame.header.number;
                    let answer = Answer { reply, descriptors: frame.descriptors };
                    let mut outbox = lock(&self.outbox);
                    if outbox.meeting.is_of(number) {
                        self.end_of_meeting(&mut outbox, Ok(answer));
                        continue;
                    }
                    let waiter = outbox.take(number);
                    drop(outbox);
                    match waiter {
                        Some(waiter) => waiter(Ok(answer)),
                        None => trace!("reply {number} answers no request"),
                    }
                }
                Kind::Push => on_news(News::Push(frame::decode(Kind::Push, &frame.body)?)),
                other => return Err(FrameError::Kind(other as u8).into()),
            }
        }
        Ok(())
    }

    /// Tells everybody who waits for the server that no answer will come.
    fn abandon(&self, why: impl Fn() -> Error) {
        let waiting = {
            let mut outbox = lock(&self.outbox);
            outbox.lost = true;
            self.lose_meeting(&mut outbox, why());
            outbox.take_all()
        };
        if let Way::Socket(socket) = &self.way {
            let _ = socket.shutdown(Shutdown::Both);
        }
        waiting.into_iter().for_each(|waiter| waiter(Err(why())));
    }

    /// Nothing is taken in any more; the socket is shut down.
    fn end_reading(&self) {
        let received = std::mem::take(&mut *self.received());
        received.receiver.into_iter().for_each(Receiver::end);
    }

    /// Waits for bytes, tasks, room for bytes that were not sent, or the end of a time limit.
    fn sleep(&self) {
        let wake = self.wake.as_fd();
        let has_server = self.received().incoming.is_some();
        // Where nothing is wanted of the socket, nothing else is watched.
        let (bytes, room, watched) = match &self.way {
            Way::Socket(socket) if has_server => {
                let gate = self.gate.get().and_then(Option::as_ref);
                let watched = if self.sends_rest(socket) { 2 } else { 3 };
                (gate.map_or(socket.as_fd(), Gate::as_fd), socket.as_fd(), watched)
            }
            _ => (wake, wake, 1),
        };
        let mut fds = [(wake, PollFlags::POLLIN), (bytes, PollFlags::POLLIN), (room, PollFlags::POLLOUT)]
            .map(|(fd, events)| PollFd::new(fd, events));
        // An interruption looks like news and finds none.
        let _ = poll(&mut fds[..watched], time_left(self.clock.next()));
        if fds[0].any() == Some(true) {
            let _ = self.wake.read();
        }
    }

    /// Sends what the socket takes now; returns whether nothing is left.
    fn sends_rest(&self, socket: &UnixStream) -> bool {
        if !self.has_unsent.load(Ordering::Acquire) {
            return true;
        }
        let mut outbox = lock(&self.outbox);
        outbox.flush(socket);
        self.has_unsent.store(outbox.has_unsent(), Ordering::Release);
        !outbox.has_unsent()
    }
}

struct OnEnd<F: Fn()>(F);

impl<F: Fn()> Drop for OnEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Status;

    #[test]
    fn each_answer_finds_the_one_who_waits_for_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let mut outbox = Outbox::default();
        let waits = |outbox: &mut Outbox, number: u64| {
            let tell = tell.clone();
            outbox.await_answer(number, Some(Box::new(move |_| tell.send(number).unwrap())));
        };
        (1..=4).for_each(|number| waits(&mut outbox, number));
        for number in [3, 1, 1, 9] {
            outbox.take(number).into_iter().for_each(|waiter| waiter(Err(Error::LostConnection)));
        }
        waits(&mut outbox, 5);
        outbox.await_answer(0, None);
        outbox.take_all().into_iter().for_each(|waiter| waiter(Err(Error::LostConnection)));
        assert!(outbox.take(2).is_none() && outbox.take(5).is_none());
        let mut called: Vec<u64> = told.try_iter().collect();
        called[2..].sort();
        assert_eq!(called, [3, 1, 2, 4, 5]);
    }

    #[test]
    fn nothing_follows_half_a_request() {
        let (socket, server) = UnixStream::pair().unwrap();
        let link = Link::new(Way::Socket(Arc::new(socket))).unwrap();
        let large = Request::DeregisterEvents { codes: vec![Status::SUCCESS; 1 << 20] };
        let small = Request::DeregisterEvents { codes: Vec::new() };
        // The socket takes a part, and the rest waits; then it takes nothing any more.
        link.tell("large", &large).unwrap();
        drop(server);
        link.wait_until_sent();
        assert!(matches!(link.tell("small", &small), Err(Error::LostConnection)));
    }

    #[test]
    fn the_control_thread_is_woken_once_for_all_that_waits_for_the_socket() {
        let (socket, _server) = UnixStream::pair().unwrap();
        let link = Link::new(Way::Socket(Arc::new(socket))).unwrap();
        let large = Request::DeregisterEvents { codes: vec![Status::SUCCESS; 1 << 20] };
        for _ in 0..5 {
            link.tell("large", &large).unwrap();
        }
        assert_eq!(link.wake.read(), Ok(1));
    }

    #[test]
    fn a_meeting_that_is_answered_goes_on_until_its_caller_has_the_answer() {
        let (socket, _server) = UnixStream::pair().unwrap();
        let link = Link::new(Way::Socket(Arc::new(socket))).unwrap();
        let answers = || {
            let answer = Answer { reply: Reply::Done(Status::SUCCESS), descriptors: Vec::new() };
            link.end_of_meeting(&mut lock(&link.outbox), Ok(answer));
        };
        link.meet("a fence", &mut frame::meet(7, false)).unwrap();
        answers();
        // Another thread looks whether it can begin one.
        assert!(!link.settle_meeting(7));
        assert!(matches!(link.met(), Some(Ok(Some(_)))));
        link.end_meeting();
        link.meet("a fence", &mut frame::meet(7, false)).unwrap();
        assert!(link.give_up_meeting(7).is_none() && !link.settle_meeting(7));
        answers();
        assert!(link.settle_meeting(7) && !link.settle_meeting(7));
    }

    #[test]
    fn a_task_that_comes_with_the_word_to_stop_does_not_hide_it() {
        let link = Arc::new(Link::new(Way::None).unwrap());
        {
            // As the control thread finds them when it was woken once for both.
            let mut inbox = lock(&link.inbox);
            inbox.tasks.push(Box::new(|| ()));
            inbox.stop = true;
        }
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            link.serve(None, |_| (), || ());
            tell.send(()).unwrap();
        });
        told.recv_timeout(std::time::Duration::from_secs(30)).expect("the thread ends");
    }
}
