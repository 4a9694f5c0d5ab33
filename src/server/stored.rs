//! A job's data: what the server adds to the store that it writes.
//!
//! The store keeps values. This keeps which ranks have posted at all (a rank may have posted nothing that is visible here), and
//! what was taken for another node and never arrived there.
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};

use crate::control::frame::MAX_DESCRIPTORS;
use crate::data::{Info, Key, Nspace, Rank, Status, Value};
use crate::message::directives::Directives;
use crate::message::{Mapped, Part, Posted};
use crate::store::{BadJobInfo, Have, JobInfo, JobWriter, Limits, Miss, ReaderId, SegmentId, WriteError};

/// Why a job's data cannot be made or changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoredError {
    /// The host's information makes no sense.
    #[error(transparent)]
    Info(#[from] BadJobInfo),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A descriptor cannot be had.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

impl StoredError {
    pub(super) fn status(&self) -> Status {
        match self {
            StoredError::Info(_) => Status::ERR_BAD_PARAM,
            StoredError::Write(e) => e.status(),
            StoredError::System(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// Descriptors to hand over, and what each is.
pub(super) type Parts = Vec<(Part, OwnedFd)>;

/// A job's data.
pub(super) struct Stored {
    writer: JobWriter,
    /// Processes of the job; unknown where the host gave no data.
    size: Option<u32>,
    posted: HashSet<Rank>,
    unsent: HashMap<Rank, Vec<Posted>>,
}

impl Stored {
    /// Makes the job's segments from what the host says at registration.
    pub(super) fn create(nspace: &Nspace, info: &JobInfo, limits: &Limits) -> Result<Self, StoredError> {
        let writer = JobWriter::create(nspace, info, limits)?;
        Ok(Stored { writer, size: known_size(info), posted: HashSet::new(), unsent: HashMap::new() })
    }

    /// Replaces what the host has said.
    pub(super) fn replace(&mut self, info: &JobInfo) -> Result<(), StoredError> {
        self.writer.replace_info(info)?;
        self.size = known_size(info);
        Ok(())
    }

    /// Processes of the job, if that is known.
    pub(super) fn size(&self) -> Option<u32> {
        self.size
    }

    /// Whether anybody has posted here.
    pub(super) fn is_in_use(&self) -> bool {
        !self.posted.is_empty()
    }

    /// A rank is registered to run here, whatever the job information says of where ranks run.
    pub(super) fn mark_local(&mut self, rank: Rank) {
        self.writer.mark_local(rank);
    }

    pub(super) fn is_local(&self, rank: Rank) -> bool {
        self.writer.is_local(rank)
    }

    pub(super) fn local_ranks(&self) -> Vec<Rank> {
        self.writer.local_ranks()
    }

    /// Whether a rank has posted, be it nothing.
    pub(super) fn has_posted(&self, rank: Rank) -> bool {
        self.posted.contains(&rank)
    }

    /// Takes in what a rank posts.
    pub(super) fn post(&mut self, rank: Rank, entries: Vec<Posted>) -> Result<(), StoredError> {
        let entries: Vec<_> = entries.into_iter().map(|posted| (posted.scope, posted.key, posted.value)).collect();
        self.writer.update(rank, &entries)?;
        self.posted.insert(rank);
        Ok(())
    }

    /// The sequence of the last release in the job's word.
    pub(super) fn sequence(&self) -> u32 {
        self.writer.reader().release().sequence
    }

    /// Wakes all processes that wait at the job's word.
    pub(super) fn release(&mut self, status: Status) {
        self.writer.release(status.0);
    }

    /// Looks a key up as `asker` would in its own mappings.
    pub(super) fn get(&self, asker: Rank, rank: Rank, key: &Key, directives: &Directives) -> Result<Value, Miss> {
        self.writer.reader().get(&directives.lookup(asker, rank, key.as_bytes()))
    }

    /// Everything known of a process, or of the job.
    pub(super) fn all(&self, rank: Rank) -> Result<Vec<Info>, Miss> {
        let all = self.writer.reader().all(rank)?;
        Ok(all.into_iter().map(|(key, _, value, _)| Info { key, flags: 0, value }).collect())
    }

    /// What a rank has posted for other nodes since this was last asked.
    pub(super) fn take_new(&mut self, rank: Rank) -> Result<Vec<Posted>, StoredError> {
        let new = posted(self.writer.take_outbound_new(rank)?);
        let mut all = self.unsent.remove(&rank).unwrap_or_default();
        all.retain(|old| new.iter().all(|new| new.key != old.key));
        all.extend(new);
        Ok(all)
    }

    /// What was taken has not arrived; it is new again.
    pub(super) fn put_back(&mut self, rank: Rank, entries: Vec<Posted>) {
        let unsent = self.unsent.entry(rank).or_default();
        unsent.retain(|old| entries.iter().all(|new| new.key != old.key));
        unsent.extend(entries);
    }

    /// All that a rank has posted for other nodes.
    pub(super) fn outbound(&self, rank: Rank) -> Result<Vec<Posted>, StoredError> {
        Ok(posted(self.writer.outbound_all(rank)?))
    }

    /// Descriptors of what a client has not mapped: as many as one message carries beside a reader page. It asks again for
    /// the rest.
    pub(super) fn parts(&self, have: &Mapped) -> Result<Parts, StoredError> {
        let have = Have { job: have.job, info: have.info, modex: have.modex };
        let segments = self.writer.segments(&have).into_iter().take(MAX_DESCRIPTORS - 1);
        let part = |id| match id {
            SegmentId::Job => Part::Job,
            SegmentId::Info(generation) => Part::Info(generation),
            SegmentId::Modex(number) => Part::Modex(number),
        };
        Ok(segments.map(|(id, fd)| Ok((part(id), fd.try_clone_to_owned()?))).collect::<std::io::Result<_>>()?)
    }

    /// Makes a page for a reader that wants to pin.
    pub(super) fn open_page(&mut self) -> Result<(ReaderId, OwnedFd), StoredError> {
        let page = self.writer.make_reader_page()?;
        Ok((page.id(), page.as_fd().try_clone_to_owned()?))
    }

    /// A reader's process, or its use of the page, has ended.
    pub(super) fn close_page(&mut self, page: ReaderId) {
        self.writer.reader_gone(page);
    }

    /// Frees what no reader holds; answers the readers that lie about what they hold.
    pub(super) fn reclaim(&mut self) -> Vec<ReaderId> {
        self.writer.reclaim()
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored").field("size", &self.size).field("stats", &self.writer.stats()).finish_non_exhaustive()
    }
}

fn known_size(info: &JobInfo) -> Option<u32> {
    (info.has_data() && info.size() > 0).then(|| info.size())
}

fn posted(entries: Vec<(u8, Key, Value)>) -> Vec<Posted> {
    entries.into_iter().map(|(scope, key, value)| Posted { scope, key, value }).collect()
}
