//! Standard input of ranks that others push to (`PMIx_IOF_push`): those of a job that was started with the wish for it.
//!
//! One thread writes into the ranks' pipes what they take. Bytes that they do not take wait, and a process that pushes
//! more than [`MUCH`] is stopped until half of that is gone, or has it dropped if it said that it may be. Input ends
//! when its end was pushed, and when who has pushed last, or has started the job, is gone: a rank does not wait for the
//! dead.
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use anyhow::{Context, Result};
use instanton::data::{Channels, Info, InfoList, Proc, Status, keys};
use instanton::server::{Accepted, Answer, Server};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::output::set_nonblocking;
use crate::threads::start_thread;

/// Bytes that may wait for one rank before their pusher is stopped.
pub const MUCH: usize = 1 << 20;

/// The input of one rank.
#[derive(Debug)]
struct Input {
    rank: Proc,
    pipe: Arc<File>,
    waiting: VecDeque<u8>,
    /// True if the input is over when nothing waits any more.
    ends: bool,
    /// The pusher, whose end is also this one's.
    source: Proc,
}

impl Input {
    /// Writes what the rank takes. Returns whether there is more to come.
    fn write(&mut self) -> bool {
        while !self.waiting.is_empty() {
            match (&*self.pipe).write(self.waiting.as_slices().0) {
                Ok(count @ 1..) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nobody reads it.
                _ => return false,
            }
        }
        !self.ends
    }
}

#[derive(Debug, Default)]
struct State {
    inputs: Vec<Input>,
    /// Processes that have pushed too much.
    stopped: Vec<Proc>,
}

/// The inputs of all ranks.
#[derive(Debug)]
pub struct Inputs {
    state: Mutex<State>,
    wake: PipeWriter,
    /// Pipe that wakes the thread, until there is one.
    woken: Mutex<Option<PipeReader>>,
    server: OnceLock<Weak<Server>>,
}

impl Inputs {
    /// None yet.
    pub fn new() -> Result<Arc<Self>> {
        let (woken, wake) = io::pipe().context("cannot make a pipe")?;
        set_nonblocking(&woken)?;
        set_nonblocking(&wake)?;
        let woken = Mutex::new(Some(woken));
        Ok(Arc::new(Self { state: Mutex::default(), wake, woken, server: OnceLock::new() }))
    }

    /// Makes this the server that is told when pushing may go on. It is not kept alive.
    pub fn lead_to(&self, server: &Arc<Server>) {
        // There is one server.
        let _ = self.server.set(Arc::downgrade(server));
    }

    /// Takes the writing end of a rank's input; `source` is the process that has started it.
    pub fn add(self: &Arc<Self>, rank: Proc, pipe: OwnedFd, source: Proc) -> Result<()> {
        set_nonblocking(&pipe)?;
        // The first needs the thread.
        if let Some(woken) = self.woken.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let served = Arc::downgrade(self);
            start_thread("input", move || serve(&served, woken))?;
        }
        let pipe = Arc::new(File::from(pipe));
        let input = Input { rank, pipe, waiting: VecDeque::new(), ends: false, source };
        self.lock().inputs.push(input);
        Ok(())
    }

    /// A process has ended: it reads nothing, and pushes nothing more.
    pub fn ended(&self, proc: &Proc) {
        let mut state = self.lock();
        state.inputs.retain(|input| input.rank != *proc);
        state.inputs.iter_mut().filter(|input| input.source == *proc).for_each(|input| input.ends = true);
        drop(state);
        self.tell();
    }

    /// Input for ranks; no bytes, or `PMIX_IOF_COMPLETE`, are its end.
    ///
    /// # Errors
    /// `ERR_IOF_XOFF` when it is taken and nothing more is wanted for now; `ERR_NOT_FOUND` when none of the ranks takes
    /// any.
    pub fn push(&self, source: &Proc, targets: &[Proc], directives: &[Info], bytes: &[u8]) -> Accepted {
        let is_end = bytes.is_empty() || directives.is_set(keys::IOF_COMPLETE);
        let room = directives.find(keys::IOF_CACHE_SIZE).and_then(|info| info.value.as_u32());
        let room = room.map_or(MUCH, |size| (size as usize).min(MUCH));
        let drops_oldest = directives.is_set(keys::IOF_DROP_OLDEST);
        let drops = drops_oldest || directives.is_set(keys::IOF_DROP_NEWEST);
        let mut state = self.lock();
        let (mut is_known, mut is_much) = (false, false);
        let mut named = |input: &&mut Input| !input.ends && targets.iter().any(|target| target.matches(&input.rank));
        for input in state.inputs.iter_mut().filter(&mut named) {
            is_known = true;
            input.source = source.clone();
            input.ends = is_end;
            let over = (input.waiting.len() + bytes.len()).saturating_sub(room);
            match (drops, drops_oldest) {
                (true, false) => input.waiting.extend(&bytes[..bytes.len() - over.min(bytes.len())]),
                (true, true) => {
                    input.waiting.extend(bytes);
                    input.waiting.drain(..over);
                }
                (false, _) => {
                    input.waiting.extend(bytes);
                    is_much |= over > 0;
                }
            }
        }
        if is_much {
            state.stopped.push(source.clone());
        }
        drop(state);
        self.tell();
        match (is_known, is_much) {
            (false, _) => Err(Status::ERR_NOT_FOUND),
            (true, true) => Err(Status::ERR_IOF_XOFF),
            (true, false) => Ok(Answer::Done),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        // A pipe that is full wakes as well.
        let _ = (&self.wake).write(&[0]);
    }

    /// Writes what can be written. Gives out the pipes that more waits for.
    fn write(&self) -> Vec<Arc<File>> {
        let mut state = self.lock();
        state.inputs.retain_mut(Input::write);
        let State { inputs, stopped } = &mut *state;
        let is_much = |source: &Proc| inputs.iter().any(|i| i.source == *source && i.waiting.len() > MUCH / 2);
        let (stay, go) = std::mem::take(stopped).into_iter().partition(is_much);
        *stopped = stay;
        let waiting = state.inputs.iter().filter(|input| !input.waiting.is_empty());
        let waiting = waiting.map(|input| input.pipe.clone()).collect();
        drop(state);
        let server = self.server.get().and_then(Weak::upgrade);
        for source in go {
            let _ = server.as_ref().map(|server| server.iof_flow_control(&source, Channels::STDIN, false).then(|_| ()));
        }
        waiting
    }
}

/// Serves inputs until they are dropped.
fn serve(inputs: &Weak<Inputs>, mut woken: PipeReader) {
    loop {
        // A message after this wakes anew.
        while woken.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        let Some(waiting) = inputs.upgrade().map(|inputs| inputs.write()) else { return };
        let mut polled = vec![PollFd::new(woken.as_fd(), PollFlags::POLLIN)];
        polled.extend(waiting.iter().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)));
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{Nspace, Rank};

    fn proc(name: &str, rank: u32) -> Proc {
        Proc::new(Nspace::new(name).unwrap(), Rank(rank))
    }

    fn read(mut reader: PipeReader) -> usize {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap()
    }

    #[test]
    fn who_pushes_too_much_is_stopped_or_has_it_dropped_and_nothing_waits_for_the_dead() {
        let inputs = Inputs::new().unwrap();
        let (tool, all) = (proc("tool", 0), proc("job", u32::MAX));
        let all = Proc { rank: Rank::WILDCARD, ..all };
        let [(first, one), (second, two)] = [io::pipe().unwrap(), io::pipe().unwrap()];
        inputs.add(proc("job", 0), one.into(), tool.clone()).unwrap();
        inputs.add(proc("job", 1), two.into(), tool.clone()).unwrap();
        let bytes = vec![b'x'; MUCH];
        // A pipe takes less than a tenth of it.
        assert_eq!(inputs.push(&tool, &[proc("job", 0)], &[], &bytes), Ok(Answer::Done));
        let newest = Info::new(keys::IOF_DROP_NEWEST, true);
        assert_eq!(inputs.push(&tool, &[proc("job", 0)], &[newest], &bytes), Ok(Answer::Done));
        assert_eq!(inputs.push(&tool, std::slice::from_ref(&all), &[], &bytes), Err(Status::ERR_IOF_XOFF));
        assert_eq!(inputs.push(&tool, &[proc("job", 2)], &[], &bytes), Err(Status::ERR_NOT_FOUND));
        inputs.ended(&proc("job", 1));
        drop(second);
        let reading = std::thread::spawn(move || read(first));
        inputs.ended(&tool);
        let got = reading.join().unwrap();
        assert!((2 * MUCH..=2 * MUCH + (64 << 10)).contains(&got), "{got}");
        assert_eq!(inputs.push(&tool, &[all], &[], &bytes), Err(Status::ERR_NOT_FOUND), "it has ended");
    }
}
