//! Jobs of the server that this plug-in is in, and the thread that looks after their readers.
//!
//! A job's states, in order. *Announced*: the host has registered it, and its door is open, but nobody is answered yet.
//! *Told*: the first process of ours has asked for the job's information, and a copy of the answer is with the thread,
//! which writes segments of it. *Kept*: readers are answered; what processes commit is written at once, on the host's
//! thread, because it must be seen when the fence after it is over. *Left alone*: something has failed; the door is
//! shut, and processes ask the server for everything, as they do without this plug-in. Commits that come before the
//! segments wait for them; a job that nobody has asked about, with more of those than [`MOST_AHEAD`], is left alone: a
//! job of stock processes never has segments.
//!
//! Data that processes of other nodes have posted comes when a fence collects, before anybody is told that it is over.
//! Where that cannot be read, what is there of other nodes is taken back, because it may be out of date: readers ask
//! the server.
//!
//! One lock has the jobs. The host's thread holds it while it writes what one process has committed, this thread while
//! it answers readers; making segments of an answer, which takes long, holds nothing. The thread starts with the first
//! job, blocks every signal, and is joined when the host closes the plug-in. A forked child has no such thread, and the
//! memory of segments is not there: it must execute a program, as children of servers do.
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use instanton::data::{Key, Nspace, Posted, Proc, Rank, Scope, Value};
use instanton::handover::Listener;
use instanton::internal::sys::signals::spawn_without_signals;
use instanton::internal::upstream::exchange::Exchanged;
use instanton::internal::upstream::told;
use instanton::store::{JobWriter, Limits, Misuse};
use instanton::trace;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// The number of the thread's own bell among those of jobs.
const BELL: u64 = 0;
/// Jobs whose readers are answered between two looks at the bell.
const AT_ONCE: usize = 16;

/// Bytes of commits of a job whose segments nobody has asked for.
const MOST_AHEAD: usize = 4 << 20;

/// Jobs, and what the thread is to do.
pub struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The process that the thread is in.
    process: u32,
}

struct Shared {
    jobs: Mutex<Jobs>,
    epoll: Epoll,
    bell: EventFd,
}

#[derive(Default)]
struct Jobs {
    by_name: HashMap<Nspace, Job>,
    last: u64,
    /// Jobs that are left alone, however often the host registers them.
    left_alone: HashSet<Nspace>,
    /// Answers that are to become segments.
    told: Vec<(Proc, Vec<u8>)>,
    is_over: bool,
}

impl Jobs {
    fn leave_alone(&mut self, nspace: &Nspace) {
        self.by_name.remove(nspace);
        self.left_alone.insert(nspace.clone());
    }
}

struct Job {
    number: u64,
    /// Processes on this node.
    local: u32,
    /// Processes in all, where the host has said so when it registered the job.
    size: Option<u32>,
    listener: Listener,
    state: State,
    /// The host has more to say of it than there is in the segments: the next process that asks is told, and so are
    /// they. Readers that are there already see what they have seen.
    is_outdated: bool,
}

enum State {
    Announced(Ahead),
    Told(Ahead),
    Kept(Box<JobWriter>),
}

/// Commits that wait for segments.
#[derive(Default)]
struct Ahead {
    commits: Vec<Commit>,
    bytes: usize,
}

impl Ahead {
    /// Adds a commit, unless there are too many bytes then. Returns whether there are not.
    fn add(&mut self, commit: Commit) -> bool {
        self.bytes += size_of::<Commit>() + commit.1.kept_size();
        let has_room = self.bytes <= MOST_AHEAD;
        if has_room {
            self.commits.push(commit);
        }
        has_room
    }
}

/// News of a process.
type Commit = (Rank, Said);

enum Said {
    /// A process of this node has committed a value; none where it is one that nobody can read here.
    Committed(Key, Option<Value>),
    /// Data that a process of another node has posted.
    Exchanged(Vec<Posted>),
}

impl Said {
    fn kept_size(&self) -> usize {
        match self {
            Said::Committed(key, value) => key.as_bytes().len() + value.as_ref().map_or(0, Value::kept_size),
            Said::Exchanged(entries) => entries.iter().map(|entry| entry.value.kept_size()).sum(),
        }
    }
}

impl Keeper {
    /// Begins without jobs.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let bell = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        let shared = Arc::new(Shared { jobs: Mutex::default(), epoll, bell });
        let served = shared.clone();
        let thread = spawn_without_signals("instanton-gds", move || served.serve())?;
        Ok(Self { shared, thread: Some(thread), process: std::process::id() })
    }

    /// A job is registered. One that is known already stays as it is, and so does one that is left alone.
    ///
    /// # Errors
    /// The kernel's, where it can have no door.
    pub fn announce(&self, nspace: &Nspace, local: u32, size: Option<u32>) -> io::Result<()> {
        let mut jobs = self.shared.jobs();
        if !jobs.by_name.contains_key(nspace) && !jobs.left_alone.contains(nspace) {
            jobs.last += 1;
            let (number, listener) = (jobs.last, Listener::open()?);
            let state = State::Announced(Ahead::default());
            let job = Job { number, local, size, listener, state, is_outdated: false };
            jobs.by_name.insert(nspace.clone(), job);
        }
        Ok(())
    }

    /// The address of a job's segments, where there are or will be any, and the number of its processes.
    pub fn address(&self, nspace: &Nspace) -> Option<(String, Option<u32>)> {
        self.shared.jobs().by_name.get(nspace).map(|job| (job.listener.address().to_owned(), job.size))
    }

    /// A process of a user asks about its job. Returns whether there are segments that say all of it.
    pub fn is_kept(&self, proc: &Proc, user: u32) -> bool {
        let mut jobs = self.shared.jobs();
        let Some(job) = jobs.by_name.get_mut(&proc.nspace) else { return false };
        job.listener.allow(user);
        matches!(job.state, State::Kept(_)) && !job.is_outdated
    }

    /// A process is told about its job. `answer` makes a copy of what it is told, if that is needed.
    pub fn tell(&self, proc: &Proc, answer: impl FnOnce() -> Option<Vec<u8>>) {
        let mut jobs = self.shared.jobs();
        let Some(job) = jobs.by_name.get_mut(&proc.nspace) else { return };
        let ahead = match &mut job.state {
            State::Announced(ahead) => ahead,
            State::Kept(writer) if job.is_outdated => {
                let Some(answer) = answer() else { return };
                let info = told::job(&answer, &proc.nspace, job.local, proc.rank);
                let replaced = info.and_then(|info| writer.replace_info(info).map_err(|error| error.to_string()));
                job.is_outdated = replaced.is_err();
                return replaced.unwrap_or_else(|error| trace!("{} stays as it was told: {error}", proc.nspace));
            }
            _ => return,
        };
        match answer() {
            Some(answer) => {
                job.state = State::Told(std::mem::take(ahead));
                jobs.told.push((proc.clone(), answer));
                drop(jobs);
                self.shared.ring();
            }
            None => jobs.leave_alone(&proc.nspace),
        }
    }

    /// A process has committed a value.
    pub fn commit(&self, proc: &Proc, key: Key, value: Option<Value>) {
        let mut jobs = self.shared.jobs();
        let Some(job) = jobs.by_name.get_mut(&proc.nspace) else { return };
        match &mut job.state {
            // These come to an end with the segments that are made.
            State::Told(ahead) => ahead.commits.push((proc.rank, Said::Committed(key, value))),
            State::Announced(ahead) => {
                if !ahead.add((proc.rank, Said::Committed(key, value))) {
                    trace!("{} is left alone: more than {MOST_AHEAD} bytes are committed ahead", proc.nspace);
                    jobs.leave_alone(&proc.nspace);
                }
            }
            State::Kept(writer) => {
                write(writer, (proc.rank, Said::Committed(key, value)));
                look_after(writer, &mut job.listener);
            }
        }
    }

    /// The jobs that what other nodes post is kept of.
    pub fn exchanging(&self) -> Vec<Nspace> {
        let jobs = self.shared.jobs();
        let takes = |job: &Job| !matches!(job.state, State::Announced(_));
        jobs.by_name.iter().filter(|(_, job)| takes(job)).map(|(nspace, _)| nspace.clone()).collect()
    }

    /// A fence has brought what processes have posted; nothing where that is not known.
    pub fn exchange(&self, nspace: &Nspace, found: Option<Exchanged>) {
        let mut jobs = self.shared.jobs();
        let Some(job) = jobs.by_name.get_mut(nspace) else { return };
        let said = |(rank, entries)| (rank, Said::Exchanged(entries));
        match (&mut job.state, found) {
            (State::Announced(_), _) => {}
            (State::Told(ahead), Some(found)) => ahead.commits.extend(found.into_iter().map(said)),
            (State::Told(ahead), None) => ahead.commits.retain(|(_, said)| !matches!(said, Said::Exchanged(_))),
            (State::Kept(writer), found) => {
                match found {
                    Some(found) => found.into_iter().for_each(|of_one| write(writer, said(of_one))),
                    None => withdraw_others(writer),
                }
                look_after(writer, &mut job.listener);
            }
        }
    }

    /// There is more to say of a job than its processes have been told.
    pub fn outdate(&self, nspace: &Nspace) {
        if let Some(job) = self.shared.jobs().by_name.get_mut(nspace) {
            job.is_outdated = !matches!(job.state, State::Announced(_));
        }
    }

    /// A job is over.
    pub fn forget(&self, nspace: &Nspace) {
        let mut jobs = self.shared.jobs();
        jobs.by_name.remove(nspace);
        jobs.left_alone.remove(nspace);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The thread is in another process, and so is whoever holds its locks.
            std::mem::forget((self.thread.take(), self.shared.clone()));
            return;
        }
        self.shared.jobs().is_over = true;
        self.shared.ring();
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if let Err(error) = self.bell.write(1) {
            trace!("the thread cannot be called: {error}");
        }
    }

    /// Answers readers, and makes segments, until it is over.
    fn serve(&self) {
        let mut events = [EpollEvent::empty(); AT_ONCE];
        loop {
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return trace!("no readers are answered any more: {error}"),
            };
            for event in &events[..count] {
                match event.data() {
                    BELL => {
                        let _ = self.bell.read();
                        loop {
                            let mut jobs = self.jobs();
                            if jobs.is_over {
                                return;
                            }
                            let Some((proc, answer)) = jobs.told.pop() else { break };
                            let local = jobs.by_name.get(&proc.nspace).map_or(0, |job| job.local);
                            drop(jobs);
                            let writer = segments(&proc, local, &answer);
                            self.keep(&proc.nspace, writer);
                        }
                    }
                    number => self.answer(number),
                }
            }
        }
    }

    /// The segments of a job are made, or cannot be.
    fn keep(&self, nspace: &Nspace, writer: Result<JobWriter, String>) {
        let mut jobs = self.jobs();
        let Some(job) = jobs.by_name.get_mut(nspace) else { return };
        let State::Told(ahead) = &mut job.state else { return };
        let commits = std::mem::take(ahead).commits;
        let kept = writer.and_then(|mut writer| {
            commits.into_iter().for_each(|commit| write(&mut writer, commit));
            let event = EpollEvent::new(EpollFlags::EPOLLIN, job.number);
            self.epoll.add(job.listener.as_fd(), event).map_err(|error| error.to_string())?;
            job.state = State::Kept(Box::new(writer));
            Ok(())
        });
        if let Err(reason) = kept {
            trace!("{nspace} is left alone: {reason}");
            jobs.leave_alone(nspace);
        }
    }

    fn answer(&self, number: u64) {
        let mut jobs = self.jobs();
        let Some(job) = jobs.by_name.values_mut().find(|job| job.number == number) else { return };
        let State::Kept(writer) = &mut job.state else { return };
        if let Err(error) = job.listener.serve(writer) {
            trace!("readers cannot be answered: {error}");
        }
        look_after(writer, &mut job.listener);
    }
}

/// Writes segments of what a process is told about its job.
fn segments(proc: &Proc, local: u32, answer: &[u8]) -> Result<JobWriter, String> {
    let info = told::job(answer, &proc.nspace, local, proc.rank)?;
    JobWriter::create(&proc.nspace, info, &Limits::default()).map_err(|error| error.to_string())
}

/// Publishes what is said of a process. One that commits is of this node, and what a fence brings of those is known.
/// Where that fails, nobody may go on seeing what was there before: readers ask the server for all that the process has.
fn write(writer: &mut JobWriter, (rank, said): Commit) {
    let written = match said {
        Said::Exchanged(_) if writer.is_local(rank) => return,
        Said::Exchanged(entries) => writer.update(rank, &entries),
        Said::Committed(key, value) => {
            writer.mark_local(rank);
            match value {
                Some(value) => writer.update(rank, &[Posted { scope: Scope::LOCAL, key, value }]),
                None => writer.remove(rank, &[key]),
            }
        }
    };
    if let Err(error) = written {
        trace!("what rank {rank} has posted is not kept: {error}");
        writer.withdraw(rank);
    }
}

/// Takes back what processes of other nodes have posted.
fn withdraw_others(writer: &mut JobWriter) {
    for rank in (0..writer.reader().job_size()).map(Rank) {
        if !writer.is_local(rank) && writer.posted(rank) != 0 {
            writer.withdraw(rank);
        }
    }
}

/// Frees what no reader holds any more, and cuts off those that lie.
fn look_after(writer: &mut JobWriter, listener: &mut Listener) {
    if writer.is_reclaim_due() {
        for (reader, misuse) in writer.reclaim() {
            if misuse == Misuse::Lie {
                listener.cut(reader, writer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::store::Question;

    /// Information for the process of a job `job` of one, packed as releases since 4.1 do it, with one key of the
    /// site's.
    fn answer(site: u8) -> Vec<u8> {
        let mut bytes = b"\x02\x08job\0".to_vec();
        for (key, value) in [("pmix.job.size", 1), ("site", site)] {
            bytes.extend([2, 2 * (key.len() as u8 + 1)]);
            bytes.extend(key.as_bytes());
            bytes.extend([0, 14, value]);
        }
        bytes
    }

    #[test]
    fn segments_have_what_a_host_adds_for_processes_that_come_later() {
        let (keeper, proc) = (Keeper::new().unwrap(), Proc::new(Nspace::new("job").unwrap(), Rank(0)));
        let user = nix::unistd::geteuid().as_raw();
        keeper.announce(&proc.nspace, 1, Some(2)).unwrap();
        keeper.outdate(&proc.nspace);
        keeper.tell(&proc, || Some(answer(1)));
        // An opened address says that the thread has made them.
        let (address, size) = keeper.address(&proc.nspace).unwrap();
        assert_eq!(size, Some(2));
        let site = || {
            let reader = instanton::handover::RemoteReader::open(&address).unwrap();
            reader.get(&Question::new(Rank::WILDCARD, "site")).unwrap()
        };
        assert_eq!((site(), keeper.is_kept(&proc, user)), (Value::from(1u32), true));
        keeper.tell(&proc, || panic!("the segments have it"));

        keeper.outdate(&proc.nspace);
        assert!(!keeper.is_kept(&proc, user), "the host has to be asked");
        keeper.tell(&proc, || Some(b"nonsense".to_vec()));
        assert_eq!((site(), keeper.is_kept(&proc, user)), (Value::from(1u32), false));
        keeper.tell(&proc, || Some(answer(2)));
        assert_eq!((site(), keeper.is_kept(&proc, user)), (Value::from(2u32), true));
    }

    #[test]
    fn a_job_whose_segments_nobody_asks_for_is_left_alone_when_much_is_committed() {
        let (keeper, proc) = (Keeper::new().unwrap(), Proc::new(Nspace::new("job").unwrap(), Rank(0)));
        let commit = |number: usize, bytes| {
            let key = Key::new(format!("k{number}").as_str()).unwrap();
            keeper.commit(&proc, key, Some(Value::from(vec![0u8; bytes])));
        };
        let held = || {
            keeper.shared.jobs().by_name.get(&proc.nspace).map(|job| match &job.state {
                State::Announced(ahead) => ahead.bytes,
                _ => panic!("nobody has asked"),
            })
        };
        keeper.announce(&proc.nspace, 1, Some(2)).unwrap();
        (0..100).for_each(|number| commit(number, 1000));
        assert!(held().is_some_and(|bytes| bytes > 100_000), "{:?}", held());
        commit(100, MOST_AHEAD);
        assert_eq!((held(), keeper.address(&proc.nspace)), (None, None));
        keeper.announce(&proc.nspace, 1, Some(2)).unwrap();
        assert_eq!(held(), None, "what was committed before is not known any more");
        // Commits of small values are counted as well, by what they take here.
        keeper.forget(&proc.nspace);
        keeper.announce(&proc.nspace, 1, Some(2)).unwrap();
        (0..MOST_AHEAD / 32).for_each(|number| commit(number, 1));
        assert_eq!(held(), None);
    }
}
