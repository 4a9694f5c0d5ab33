//! The jobs whose shared memory this process has mapped: its own from init on, others when they are asked for.
//!
//! Readers find a job without a lock: the list only grows, and a job stays mapped until the client is dropped. When
//! descriptors get lost or a segment is not what it should be, the trace says so once and nothing new is mapped from
//! then on: what is mapped goes on being read, the rest is looked up over the control plane. A process without a server
//! describes its job to itself, in segments of its own, and so is answered by the same rules as any other.
//!
//! Of the requests for a job's segments that callbacks wait for, one is under way at a time; who comes meanwhile shares
//! the next. A program that asks for thousands of values at once would have the server queue as many answers with
//! descriptors, and be cut off. A thread that blocks asks by itself, because its answer comes even while the control
//! thread is in an event handler.
//!
//! Under a stock server that has our plug-in, the own job has two readers. The node's segments, which the plug-in
//! writes, come first in every look-up; behind them are those of the server in this process, which has what came from
//! elsewhere, and whose word of release fences wait at.
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::data::{Info, Nspace, Proc, Rank, Status, keys};
use crate::handover::{Opened, Source};
use crate::message::{DescriptorKind, Reply, Request};
use crate::store::{
    AttachError, BadJobInfo, Have, JobInfoBuilder, JobReader, JobWriter, Limits, MappedSegment, ReaderPage, WriteError,
};
use crate::trace;

use super::Inner;
use super::answer::Answer;
use super::get::Way;

/// Continuation that is called once segments are mapped, or will not be.
type Then = Box<dyn FnOnce() + Send>;

/// Readers by namespace.
pub(super) struct Jobs {
    first: OnceLock<Box<Job>>,
    failed: OnceLock<()>,
    /// For each job of which a shared request is under way: who waits for the next.
    asked: Mutex<HashMap<Nspace, Vec<Then>>>,
}

struct Job {
    nspace: Nspace,
    /// The reader that is asked first.
    reader: JobReader,
    behind: Option<Behind>,
    next: OnceLock<Box<Job>>,
}

/// Second reader of a job whose first one reads the node's segments.
struct Behind {
    /// The segments of the server in this process.
    reader: JobReader,
    /// The writer of the node's segments.
    node: Source,
}

impl Job {
    /// The reader of the segments that the server of this process has sent.
    #[inline]
    fn of_server(&self) -> &JobReader {
        self.behind.as_ref().map_or(&self.reader, |behind| &behind.reader)
    }

    fn is_behind(&self) -> bool {
        self.of_server().is_behind() || self.behind.is_some() && self.reader.is_behind()
    }
}

/// Reason why a server's descriptors cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("{came} descriptors came where {announced} were announced")]
    Lost { announced: usize, came: usize },
    #[error("{0}")]
    Attach(#[from] AttachError),
}

/// Reason why a process cannot describe its job to itself.
#[derive(Debug, thiserror::Error)]
enum Untold {
    #[error("{0}")]
    Info(#[from] BadJobInfo),
    #[error("{0}")]
    Write(#[from] WriteError),
    #[error("{0}")]
    Attach(#[from] AttachError),
}

/// A job of one process on one node.
fn alone(own: &Proc, node: &str) -> Result<JobReader, Untold> {
    let mut job = JobInfoBuilder::new(&own.nspace, 1, node);
    job.infos(&[
        Info::new(keys::NODE_MAP, node),
        Info::new(keys::PROC_MAP, own.rank.0.to_string().as_str()),
        Info::new(keys::NPROC_OFFSET, Rank(0)),
    ])?;
    let writer = JobWriter::create(&own.nspace, job.build()?, &Limits::default())?;
    let segments = writer.segments(&Have::default()).into_iter().map(|(_, segment)| MappedSegment::map(segment));
    Ok(JobReader::attach(segments.collect::<Result<_, _>>()?, None)?)
}

impl Jobs {
    /// None yet, and none ever unless `shared`.
    pub(super) fn new(shared: bool) -> Self {
        let jobs = Self { first: OnceLock::new(), failed: OnceLock::new(), asked: Mutex::default() };
        if !shared {
            let _ = jobs.failed.set(());
        }
        jobs
    }

    /// Returns whether segments can be asked for.
    pub(super) fn can_map(&self) -> bool {
        self.failed.get().is_none()
    }

    /// The reader of the own job, which is mapped before any other.
    #[inline]
    pub(super) fn own(&self) -> Option<&JobReader> {
        self.first.get().map(|job| &job.reader)
    }

    /// The reader of a job.
    #[inline]
    pub(super) fn of(&self, nspace: &[u8]) -> Option<&JobReader> {
        self.job(nspace).map(|job| &job.reader)
    }

    #[inline]
    fn job(&self, nspace: &[u8]) -> Option<&Job> {
        self.iter().find(|job| job.nspace.as_bytes() == nspace)
    }

    /// The own job's segments of the server of this process: at their word fences wait.
    #[inline]
    pub(super) fn of_server(&self) -> Option<&JobReader> {
        self.first.get().map(|job| job.of_server())
    }

    /// The reader that is asked for what the node's segments of the own job do not have.
    #[inline]
    pub(super) fn second(&self) -> Option<&JobReader> {
        Some(&self.first.get()?.behind.as_ref()?.reader)
    }

    fn iter(&self) -> impl Iterator<Item = &Job> {
        std::iter::successors(self.first.get(), |job| job.next.get()).map(|job| &**job)
    }

    /// Returns whether there is more of any job than what is mapped.
    pub(super) fn is_behind(&self) -> bool {
        self.can_map() && self.iter().any(Job::is_behind)
    }

    /// Unmaps what was replaced of any job.
    #[inline]
    pub(super) fn unmap_replaced(&self) {
        for job in self.iter() {
            job.reader.unmap_replaced();
            job.behind.iter().for_each(|behind| behind.reader.unmap_replaced());
        }
    }

    /// The jobs of which there is more than what is mapped.
    fn behind(&self) -> Vec<Nspace> {
        match self.can_map() {
            true => self.iter().filter(|job| job.is_behind()).map(|job| job.nspace.clone()).collect(),
            false => Vec::new(),
        }
    }

    /// Maps the own job as the server sent it at init, behind the node's segments of it where there are any.
    pub(super) fn begin(&self, own: &Proc, parts: &[DescriptorKind], descriptors: Vec<OwnedFd>, node: Option<Opened>) {
        if parts.is_empty() && self.can_map() {
            self.give_up(format_args!("the server offers no shared memory"));
        }
        if let Err(error) = self.map(&own.nspace, parts, descriptors, node) {
            self.give_up(format_args!("shared memory of {} cannot be used: {error}", own.nspace));
        }
        if let Some(Err(error)) = self.own().map(|reader| reader.populate_own(own.rank)) {
            self.give_up(format_args!("shared memory of {} cannot be used: {error}", own.nspace));
        }
    }

    /// Describes the own job, of this process alone. Where that cannot be, the process knows nothing of it, and does
    /// without.
    pub(super) fn begin_alone(&self, own: &Proc, node: &str) {
        match alone(own, node) {
            Ok(reader) => self.append(&own.nspace, reader, None),
            Err(error) => trace!("{own} cannot be told of itself: {error}"),
        }
    }

    /// Maps what the server sent. The descriptors are closed.
    pub(super) fn take_in(&self, nspace: &Nspace, parts: &[DescriptorKind], descriptors: Vec<OwnedFd>) {
        if let Err(error) = self.map(nspace, parts, descriptors, None) {
            self.give_up(format_args!("shared memory of {nspace} cannot be used: {error}"));
        }
    }

    /// Nothing new is mapped from now on; says why, the first time.
    pub(super) fn give_up(&self, why: std::fmt::Arguments<'_>) {
        if self.failed.set(()).is_ok() {
            trace!("{why}; what is not mapped is looked up over the control plane");
        }
    }

    fn map(
        &self,
        nspace: &Nspace,
        parts: &[DescriptorKind],
        descriptors: Vec<OwnedFd>,
        node: Option<Opened>,
    ) -> Result<(), Unusable> {
        if parts.len() != descriptors.len() {
            return Err(Unusable::Lost { announced: parts.len(), came: descriptors.len() });
        }
        let mut page = None;
        let mut segments = Vec::new();
        for (part, descriptor) in parts.iter().zip(&descriptors) {
            match part {
                DescriptorKind::ReaderPage => page = Some(ReaderPage::map(descriptor.as_fd())?),
                _ => segments.push(MappedSegment::map(descriptor.as_fd())?),
            }
        }
        match self.job(nspace.as_bytes()) {
            Some(job) => segments.into_iter().try_for_each(|segment| job.of_server().add(segment))?,
            None if segments.is_empty() => {}
            None => self.append(nspace, JobReader::attach(segments, page)?, node),
        }
        Ok(())
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<Nspace, Vec<Then>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a shared request is to be sent, and gives `then` back; or keeps it for the next, where one is under way.
    fn share(&self, nspace: &Nspace, then: Then) -> Option<Then> {
        let mut asked = self.asked();
        if let Some(next) = asked.get_mut(nspace) {
            next.push(then);
            return None;
        }
        asked.insert(nspace.clone(), Vec::new());
        Some(then)
    }

    /// The shared request is answered; returns who waits for the next, if anybody does.
    fn shared(&self, nspace: &Nspace) -> Vec<Then> {
        let mut asked = self.asked();
        let next = asked.get_mut(nspace).map(std::mem::take).unwrap_or_default();
        if next.is_empty() {
            asked.remove(nspace);
        }
        next
    }

    fn append(&self, nspace: &Nspace, reader: JobReader, node: Option<Opened>) {
        let (reader, behind) = match node {
            Some((first, node)) => (first, Some(Behind { reader, node })),
            None => (reader, None),
        };
        let mut job = Box::new(Job { nspace: nspace.clone(), reader, behind, next: OnceLock::new() });
        let mut at = &self.first;
        // Another thread may have appended meanwhile, even the same job: then the first of the two is read.
        while let Err(back) = at.set(job) {
            job = back;
            at = &at.get().expect("just found set").next;
        }
    }
}

impl Inner {
    /// Asks for what is not mapped of a job; `then` is called once it is, or will not be.
    pub(super) fn map(self: &Arc<Self>, nspace: Nspace, way: Way, then: impl FnOnce() + Send + 'static) {
        let job = self.jobs.job(nspace.as_bytes());
        if let Some(job) = job
            && let Some(behind) = &job.behind
        {
            if let Err(error) = behind.node.refresh(&job.reader) {
                trace!("nothing new of the node's segments of {nspace}: {error}");
            }
            if !behind.reader.is_behind() {
                return then();
            }
        }
        match way {
            Way::Blocked => self.ask_for_segments(nspace, way, then),
            Way::Later => {
                if let Some(then) = self.jobs.share(&nspace, Box::new(then)) {
                    self.map_for_all(nspace, vec![then]);
                }
            }
        }
    }

    /// Asks once for all of these, and then for those who have come meanwhile.
    fn map_for_all(self: &Arc<Self>, nspace: Nspace, waiting: Vec<Then>) {
        let inner = self.clone();
        self.ask_for_segments(nspace.clone(), Way::Later, move || {
            let next = inner.jobs.shared(&nspace);
            if !next.is_empty() {
                inner.map_for_all(nspace, next);
            }
            waiting.into_iter().for_each(|then| then());
        });
    }

    fn ask_for_segments(self: &Arc<Self>, nspace: Nspace, way: Way, then: impl FnOnce() + Send + 'static) {
        let have = self.jobs.job(nspace.as_bytes()).map_or(Have::default(), |job| job.of_server().have());
        let inner = self.clone();
        let request = Request::Segments { nspace: nspace.clone(), have };
        self.follow_up(
            way,
            &request,
            Box::new(move |answer| {
                match answer {
                    Ok(Answer { reply: Reply::Segments { parts }, descriptors }) => {
                        inner.jobs.take_in(&nspace, &parts, descriptors);
                    }
                    // Another job's memory may be none of this process's business.
                    Ok(Answer { reply: Reply::Done(status), .. }) => trace!("no shared memory of {nspace}: {status}"),
                    Ok(_) => trace!("no shared memory of {nspace}: {}", Status::ERR_COMM_FAILURE),
                    Err(error) => trace!("no shared memory of {nspace}: {error}"),
                }
                then();
            }),
        );
    }

    /// Maps everything new of every job that is mapped at all, then calls `then`.
    pub(super) fn map_news(self: &Arc<Self>, way: Way, then: impl FnOnce() + Send + 'static) {
        let then: Then = Box::new(then);
        let steps = self.jobs.behind().into_iter().fold(then, |then, nspace| {
            let inner = self.clone();
            Box::new(move || inner.map(nspace, way, then))
        });
        steps();
    }
}
