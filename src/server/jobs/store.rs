//! Job store: the writer of a job's data, and what the server knows of it besides.
//!
//! The store's segments keep values. This keeps which ranks have posted at all (a rank may have posted nothing that is
//! visible here), and which keys could not be stored: a look-up of one fails instead of waiting.
mod departing;
mod files;
mod inbound;
mod moving;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::data::{DataArray, Info, InfoList, Key, Nspace, Rank, Scope, Status, Value, keys};
use crate::message::door::{Each, JobFiles, JobInformation, Making};
use crate::message::numbers::NumberMap;
use crate::message::{DescriptorKind, Posted, Reply};
use crate::store::{
    BadJobInfo, Directives, Draft, Have, InfoLevel, JobInfo, JobValues, JobWriter, Limits, Miss, Misuse, Question,
    ReadError, ReaderId, SegmentId, Stats, WriteError,
};
use crate::sys::socket::MAX_DESCRIPTORS;
use crate::trace;

pub use departing::Departing;
pub use inbound::{Arriving, Inbound};

/// Reason why a job's data cannot be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum JobStoreError {
    /// The host's information makes no sense.
    #[error(transparent)]
    Info(#[from] BadJobInfo),
    /// The data cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A descriptor cannot be had.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

impl JobStoreError {
    pub fn status(&self) -> Status {
        match self {
            JobStoreError::Info(_) => Status::ERR_BAD_PARAM,
            JobStoreError::Write(e) => e.status(),
            JobStoreError::System(_) => Status::ERR_OUT_OF_RESOURCE,
        }
    }
}

/// Descriptors to hand over, and what each is.
pub type Parts = Vec<(DescriptorKind, OwnedFd)>;

/// A job's data.
pub struct JobStore {
    writer: JobWriter,
    /// Processes of the job; unknown where the host gave no data.
    size: Option<u32>,
    /// Version of each rank's data: of its last post here, or of one elsewhere as that was told last.
    posted: NumberMap<Rank, Version>,
    /// Keys whose last commit failed, and why.
    failed: NumberMap<Rank, HashMap<Key, Status>>,
    /// Rank that has posted a key last, of those that this node sees: the answer to a Get that names no rank.
    posters: BTreeMap<Key, Rank>,
    /// Job information for peers that map nothing, once one has come.
    information: Option<Arc<Information>>,
    /// Files for peers that look into some.
    files: Option<Box<dyn JobFiles>>,
    has_tried_files: bool,
}

/// Version of a rank's data: commits of the process, as its server counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    server: u64,
    commits: u64,
}

/// Data that a rank has posted for other nodes, or some of it.
pub struct Outbound {
    pub rank: Rank,
    /// Number of its commits by then.
    pub commits: u64,
    pub entries: Vec<Posted>,
}

/// Keys of a rank that are remembered as not stored; whoever asks for others waits in vain for a while.
const MAX_FAILED: usize = 4096;

/// Most times that a thread reads a value which is replaced meanwhile.
const MOST_READS: u32 = 64;

/// Most bytes of a rank's records that are brought with all that is known of it: they are gone through in one step.
const MAX_ALL: u64 = 1 << 20;

impl JobStore {
    /// Makes the job's segments from what the host says at registration.
    pub fn create(nspace: &Nspace, info: JobInfo, limits: &Limits) -> Result<Self, JobStoreError> {
        let size = known_size(&info);
        let mut writer = JobWriter::create(nspace, info, limits)?;
        writer.move_by_steps();
        Ok(JobStore {
            writer,
            size,
            posted: NumberMap::default(),
            failed: NumberMap::default(),
            posters: BTreeMap::new(),
            information: None,
            files: None,
            has_tried_files: false,
        })
    }

    /// Replaces what the host has said.
    pub fn replace(&mut self, nspace: &Nspace, info: JobInfo) -> Result<(), JobStoreError> {
        let size = known_size(&info);
        self.writer.replace_info(info)?;
        self.size = size;
        self.information = None;
        self.renew_files(nspace);
        Ok(())
    }

    /// Sizes of its shared memory.
    pub fn stats(&self) -> Stats {
        self.writer.stats()
    }

    /// Processes of the job, if that is known.
    pub fn size(&self) -> Option<u32> {
        self.size
    }

    /// Returns whether anybody has posted here.
    pub fn is_in_use(&self) -> bool {
        !self.posted.is_empty()
    }

    /// A rank is registered to run here, whatever the job information says of where ranks run.
    pub fn mark_local(&mut self, rank: Rank) {
        if !self.is_local(rank) {
            self.information = None;
        }
        self.writer.mark_local(rank);
    }

    /// Has only ranks that are registered to run here count as such, whatever the job information says.
    pub fn serve_marked_alone(&mut self) {
        self.writer.serve_marked_alone();
    }

    pub fn is_local(&self, rank: Rank) -> bool {
        self.writer.is_local(rank)
    }

    pub fn local_ranks(&self) -> Vec<Rank> {
        self.writer.local_ranks()
    }

    /// Returns whether a rank has posted, be it nothing.
    pub fn has_posted(&self, rank: Rank) -> bool {
        self.posted.contains_key(&rank)
    }

    /// Takes in what a rank of this node posts.
    pub fn post(&mut self, rank: Rank, entries: Vec<Posted>) -> Result<(), JobStoreError> {
        let result = self.writer.update(rank, &entries);
        self.posted_with(rank, entries, result.map_err(JobStoreError::from))
    }

    /// Takes in what a rank of this node posts, unless that takes long because of what it has posted before: then it is to
    /// be [drafted](Self::draft).
    ///
    /// # Errors
    /// The entries, where it takes long.
    pub fn post_briefly(&mut self, rank: Rank, entries: Vec<Posted>) -> Result<Result<(), JobStoreError>, Vec<Posted>> {
        match self.writer.update_briefly(rank, &entries) {
            Err(WriteError::TakesLong { .. }) => Err(entries),
            result => Ok(self.posted_with(rank, entries, result.map_err(JobStoreError::from))),
        }
    }

    fn posted_with(
        &mut self,
        rank: Rank,
        entries: Vec<Posted>,
        result: Result<(), JobStoreError>,
    ) -> Result<(), JobStoreError> {
        match &result {
            Ok(()) => {
                let version = Version { server: 0, commits: self.commits(rank) + 1 };
                self.stored(rank, entries);
                self.posted.insert(rank, version);
            }
            Err(error) => self.not_stored(rank, entries, error.status()),
        }
        result
    }

    fn commits(&self, rank: Rank) -> u64 {
        self.posted.get(&rank).map_or(0, |version| version.commits)
    }

    /// Notes entries that were stored.
    pub fn stored(&mut self, rank: Rank, entries: Vec<Posted>) {
        self.file(rank, &entries);
        if let Some(failed) = self.failed.get_mut(&rank) {
            entries.iter().for_each(|posted| _ = failed.remove(&posted.key));
        }
        let local = self.is_local(rank);
        for Posted { key, .. } in entries.into_iter().filter(|posted| !(local && posted.scope == Scope::REMOTE)) {
            self.posters.insert(key, rank);
        }
    }

    /// Notes entries that could not be stored, and why.
    pub fn not_stored(&mut self, rank: Rank, entries: Vec<Posted>, status: Status) {
        let failed = self.failed.entry(rank).or_default();
        let room = MAX_FAILED.saturating_sub(failed.len());
        failed.extend(entries.into_iter().take(room).map(|posted| (posted.key, status)));
    }

    /// Begins a draft of what a rank of this node posts.
    pub fn draft(&mut self, rank: Rank, entries: Vec<Posted>) -> Result<Draft, (WriteError, Vec<Posted>)> {
        self.writer.draft(rank, entries)
    }

    /// Returns whether a draft is one of this job.
    pub fn is_own(&self, draft: &Draft) -> bool {
        self.writer.is_own(draft)
    }

    /// Takes room for a draft that is composed.
    pub fn reserve(&mut self, draft: &mut Draft) -> Result<(), WriteError> {
        self.writer.reserve(draft)
    }

    /// Returns whether a draft may be published as it is.
    pub fn is_up_to_date(&self, draft: &Draft) -> bool {
        self.writer.is_up_to_date(draft)
    }

    /// Publishes a draft that is written, and returns its entries, which are still to be [noted](Self::stored).
    pub fn finish(&mut self, draft: Draft) -> Result<Vec<Posted>, (WriteError, Vec<Posted>)> {
        let rank = draft.rank();
        let version = Version { server: 0, commits: self.commits(rank) + 1 };
        let entries = self.writer.finish(draft)?;
        self.posted.insert(rank, version);
        Ok(entries)
    }

    /// Gives up a draft, and returns its entries.
    pub fn give_up(&mut self, draft: Draft) -> Vec<Posted> {
        self.writer.give_up(draft)
    }

    /// Returns the reason why a rank's key is not stored although the rank has committed it.
    pub fn failure(&self, rank: Rank, key: &Key) -> Option<Status> {
        self.failed.get(&rank)?.get(key).copied()
    }

    /// Returns the number of times that those who wait at the job's word were released.
    pub fn releases(&self) -> u32 {
        self.writer.reader().releases()
    }

    /// Wakes all processes that wait at the job's word.
    pub fn release(&mut self) {
        self.writer.release();
    }

    /// Returns whether a rank of this node has posted a key with scope REMOTE. A key that is not visible here then will
    /// not become so.
    pub fn is_for_others(&self, rank: Rank, key: &Key) -> bool {
        self.is_local(rank) && self.writer.is_outbound(rank, key).is_ok_and(|outbound| outbound)
    }

    /// Returns whether a rank of this node has posted a key that other nodes may see.
    pub fn has_outbound(&self, rank: Rank, key: &Key) -> bool {
        let question = Question::new(rank, key);
        self.is_for_others(rank, key) || self.is_local(rank) && self.writer.reader().get(&question).is_ok()
    }

    /// Looks a key up as `asker` would in its own mappings.
    pub fn get(&self, asker: Rank, rank: Rank, key: &Key, directives: &Directives) -> Result<Value, Miss> {
        let question = Question::new(rank, key).with(directives).asked_by(asker);
        match (self.writer.reader().get(&question), self.posters.get(key)) {
            (Err(Miss::NotFound), Some(poster)) if rank == Rank::UNDEF && directives.level == InfoLevel::Default => {
                self.writer.reader().get(&question.of_rank(*poster))
            }
            (found, _) => found,
        }
    }

    /// Returns the answer to such a look-up where its value takes long to copy, to be made by any thread: with what is
    /// there then.
    pub fn long_answer(&self, asker: Rank, rank: Rank, key: &Key, directives: &Directives) -> Option<Making> {
        if directives.level != InfoLevel::Default {
            return None;
        }
        let question = |rank| Question::new(rank, key).with(directives).asked_by(asker);
        let rank = match rank {
            Rank::UNDEF if self.writer.reader().contains(&question(rank)).is_ok_and(|is_there| !is_there) => {
                *self.posters.get(key)?
            }
            rank => rank,
        };
        let bytes = if rank.is_process() { self.writer.value_bytes(rank, key, directives.scope) } else { 0 };
        // Until it is made, it keeps neither the job nor what is of no matter at this level.
        let reader = Arc::downgrade(&self.writer.reader_for_thread());
        let (key, directives) = (key.clone(), Directives { host: None, rest: Vec::new(), ..directives.clone() });
        let read = move || {
            let Some(reader) = reader.upgrade() else { return Reply::Done(Status::ERR_NOT_FOUND) };
            let question = Question::new(rank, &key).with(&directives).asked_by(asker);
            // The value was replaced and its memory written again while it was copied, or it moved, and the segment on
            // the way was given up meanwhile.
            let has_changed = |found: &Result<Value, Miss>| matches!(found, Err(Miss::Busy | Miss::Unmapped(_)));
            let mut found = (0..MOST_READS).map(|_| reader.get(&question));
            match found.find(|found| !has_changed(found)) {
                Some(Ok(value)) => Reply::Value(value),
                Some(Err(Miss::NotFound)) => Reply::Done(Status::ERR_NOT_FOUND),
                Some(Err(_)) => Reply::Done(Status::ERR_UNPACK_FAILURE),
                None => Reply::Done(Status::ERR_OUT_OF_RESOURCE),
            }
        };
        (bytes >= Making::LONG).then(|| Making::light(bytes, read))
    }

    /// Returns whether a rank has posted more than one answer brings.
    pub fn is_much(&self, rank: Rank) -> bool {
        rank.is_process() && self.writer.posted(rank) > MAX_ALL
    }

    /// Everything known of a process, or of the job; of what was posted that for the scope `asked` alone.
    pub fn all(&self, rank: Rank, asked: Option<Scope>) -> Result<Vec<Info>, Miss> {
        self.writer.reader().infos(rank, asked)
    }

    /// Everything that a process has posted for the scope that is asked for, if the key is there for `asker`.
    pub fn posted_beside(
        &self,
        asker: Rank,
        rank: Rank,
        key: &Key,
        directives: &Directives,
    ) -> Result<Vec<Info>, Miss> {
        let reader = self.writer.reader();
        match reader.contains(&Question::new(rank, key).with(directives).asked_by(asker))? {
            true => reader.all_posted(rank, directives.scope),
            false => Err(Miss::NotFound),
        }
    }

    /// The information of the job for a peer that maps nothing. All that come get the same.
    pub fn information(&mut self, nspace: &Nspace) -> Option<Arc<dyn JobInformation>> {
        if self.information.is_none() {
            let values = self.writer.reader().values()?;
            self.information =
                Some(Arc::new(Information { nspace: nspace.clone(), values, local: self.local_ranks() }));
        }
        self.information.clone().map(|information| information as _)
    }

    /// Takes the data that these ranks have posted for other nodes since this was last asked: of all of them, or
    /// nothing when that of one cannot be read.
    pub fn take_new(&mut self, ranks: impl Iterator<Item = Rank>) -> Result<Vec<Outbound>, JobStoreError> {
        let mut taken = Vec::new();
        for rank in ranks {
            match self.writer.take_outbound_new(rank) {
                Ok(entries) => taken.push(self.outbound_of(rank, entries)),
                Err(e) => {
                    for Outbound { rank, entries, .. } in taken {
                        self.put_back(rank, entries.into_iter().map(|posted| posted.key).collect());
                    }
                    return Err(e.into());
                }
            }
        }
        Ok(taken)
    }

    /// Makes data that was taken under these keys new again: it has not arrived.
    pub fn put_back(&mut self, rank: Rank, keys: Vec<Key>) {
        self.writer.put_back_outbound(rank, keys);
    }

    /// All that a rank has posted for other nodes.
    pub fn outbound(&self, rank: Rank) -> Result<Outbound, JobStoreError> {
        Ok(self.outbound_of(rank, self.writer.outbound_all(rank)?))
    }

    fn outbound_of(&self, rank: Rank, entries: Vec<Posted>) -> Outbound {
        Outbound { rank, commits: self.commits(rank), entries }
    }

    /// Descriptors of what a client has not mapped: as many as one message carries beside a reader page.
    /// It asks again for the rest.
    pub fn parts(&self, have: &Have) -> Result<Parts, JobStoreError> {
        let segments = self.writer.segments(have).into_iter().take(MAX_DESCRIPTORS - 1);
        let part = |id| match id {
            SegmentId::Job => DescriptorKind::Job,
            SegmentId::Info(generation) => DescriptorKind::Info(generation),
            SegmentId::Modex(number) => DescriptorKind::Modex(number),
        };
        Ok(segments.map(|(id, fd)| Ok((part(id), fd.try_clone_to_owned()?))).collect::<std::io::Result<_>>()?)
    }

    /// Makes a page for a reader that wants to pin.
    pub fn open_page(&mut self) -> Result<(ReaderId, OwnedFd), JobStoreError> {
        let page = self.writer.make_reader_page()?;
        Ok((page.id(), page.into()))
    }

    /// A reader's process, or its use of the page, has ended.
    pub fn close_page(&mut self, page: ReaderId) {
        self.writer.reader_gone(page);
    }

    /// Returns whether a commit has come upon a reader that lies about what it holds, or holds back too much, or has left
    /// memory that is scattered.
    pub fn is_to_reclaim(&self) -> bool {
        self.writer.has_misused() || self.writer.is_to_move()
    }

    /// Frees what no reader holds, where that is worth a look at them; returns the readers that were found since to lie
    /// about what they hold, or to hold back too much.
    pub fn reclaim(&mut self) -> Vec<(ReaderId, Misuse)> {
        if self.writer.is_reclaim_due() { self.writer.reclaim() } else { Vec::new() }
    }
}

impl std::fmt::Debug for JobStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobStore").field("size", &self.size).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// The information of a job, as it was when it was first asked for.
struct Information {
    nspace: Nspace,
    values: JobValues,
    local: Vec<Rank>,
}

impl JobInformation for Information {
    fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    fn ranks(&self) -> u32 {
        self.values.ranks()
    }

    fn local(&self) -> &[Rank] {
        &self.local
    }

    fn of_job(&self) -> Result<Vec<Info>, Status> {
        let mut all = self.values.of_job().map_err(|e| self.unreadable(&e))?;
        // Hosts give the ranks, and a stock client looks for the names of them nowhere else.
        let peers = all.find(keys::LOCAL_PEERS).and_then(|info| info.value.as_str());
        let names = peers.and_then(|peers| DataArray::of_ranks(&self.nspace, peers));
        if let Some(names) = names.filter(|_| all.find(keys::LOCAL_PROCS).is_none()) {
            all.push(Info::new(keys::LOCAL_PROCS, names));
        }
        Ok(all)
    }

    fn of_nodes(&self, others: bool, each: Each<'_>) -> Result<(), Status> {
        self.values.of_nodes(others, each).map_err(|e| self.unreadable(&e))
    }

    fn of_apps(&self, each: Each<'_>) -> Result<(), Status> {
        self.values.of_apps(each).map_err(|e| self.unreadable(&e))
    }

    fn of_ranks(&self, ranks: &mut dyn Iterator<Item = Rank>, each: Each<'_>) -> Result<(), Status> {
        self.values.of_ranks(ranks, each).map_err(|e| self.unreadable(&e))
    }
}

impl Information {
    #[cold]
    fn unreadable(&self, error: &ReadError) -> Status {
        trace!("the information of {} cannot be read: {error}", self.nspace);
        Status::ERR_UNPACK_FAILURE
    }
}

impl std::fmt::Debug for Information {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Information").field("nspace", &self.nspace).finish_non_exhaustive()
    }
}

fn known_size(info: &JobInfo) -> Option<u32> {
    (info.has_data() && info.size() > 0).then(|| info.size())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::data::Proc;
    use crate::message::door::PeerId;
    use crate::server::collective::arrived::Waiter;
    use crate::server::ctx::peers::Caller;
    use crate::server::fence;
    use crate::server::{Accepted, Answer, Completion, Host, Server, ServerConfig};
    use crate::store::exchange::{self as encoding, Failure, Sender};

    /// Keeps what it is told of a fence.
    #[derive(Default)]
    struct RecordingHost(Mutex<Option<(Vec<Info>, Vec<u8>)>>);

    impl Host for RecordingHost {
        fn fence_nb(&self, _: &[Proc], info: &[Info], data: Vec<u8>, _: Completion<Vec<u8>>) -> Accepted {
            *self.0.lock().unwrap() = Some((info.to_vec(), data));
            Ok(Answer::Later)
        }
    }

    #[test]
    fn the_host_hears_of_a_part_that_cannot_be_read() {
        let told = Arc::new(RecordingHost::default());
        let server = Server::start(ServerConfig::default(), told.clone()).unwrap();
        let nspace = Nspace::new("job").unwrap();
        let info = [Info::new(keys::JOB_SIZE, 2u32), Info::new(keys::LOCAL_PEERS, "0")];
        server.register_nspace(&nspace, 1, &info).wait().unwrap();
        let proc = Proc::new(nspace.clone(), Rank(0));
        server.register_client(&proc, 0, 0).wait().unwrap();
        let (done, was) = std::sync::mpsc::channel();
        let posted = move |router: &mut crate::server::router::Router| {
            let entry = Posted { scope: Scope::GLOBAL, key: Key::new("k").unwrap(), value: Value::from(1u32) };
            router.jobs.commit(&mut router.cx, proc.clone(), vec![entry]).unwrap();
            router.jobs.store_mut(&nspace).unwrap().writer.damage(proc.rank);
            let caller = Caller { peer: PeerId { door: 0, connection: u64::MAX }, number: 1 };
            let info = vec![Info::new(keys::COLLECT_DATA, true)];
            let waiter = Waiter { caller, seen: None };
            let request = fence::Request { waiter, proc, procs: Vec::new(), info, group: None, is_of_members: false };
            router.fences.fence(&mut router.cx, &mut router.jobs, &mut router.collectives, request);
            router.drain();
            done.send(()).unwrap();
        };
        server.mailbox.post(posted).unwrap();
        was.recv().unwrap();
        let (info, data) = told.0.lock().unwrap().take().expect("the others need not wait");
        let status = info.find(keys::LOCAL_COLLECTIVE_STATUS).unwrap().value.as_status().unwrap();
        assert_ne!(status, Status::SUCCESS);
        let reader = Sender { server: server.proc(), identity: 0 };
        let others = encoding::read(&data, &reader).unwrap();
        assert_eq!((others.ranks, others.failure), (vec![], Some(Failure { status, gone: vec![] })));
    }

    #[test]
    fn stock_clients_are_told_the_names_of_the_processes_of_their_node() {
        let nspace = Nspace::new("job").unwrap();
        let of_job = |more: &[Info]| {
            let said = [&[Info::new(keys::JOB_SIZE, 3u32), Info::new(keys::LOCAL_PEERS, "0,2")], more].concat();
            let info = JobInfo::from_infos(&nspace, 2, &said, "here").unwrap();
            let of_job = JobStore::create(&nspace, info, &Limits::default())
                .unwrap()
                .information(&nspace)
                .unwrap()
                .of_job()
                .unwrap();
            of_job.into_iter().filter(|info| info.key == keys::LOCAL_PROCS).map(|info| info.value).collect::<Vec<_>>()
        };
        let here = |ranks| Value::from(DataArray::of_ranks(&nspace, ranks).unwrap());
        assert_eq!(of_job(&[]), [here("0,2")]);
        assert_eq!(of_job(&[Info::new(keys::LOCAL_PROCS, here("2"))]), [here("2")], "what the host gives counts");
    }

    #[test]
    fn what_cannot_be_read_of_one_rank_is_lost_of_none() {
        let nspace = Nspace::new("job").unwrap();
        let info = JobInfo::from_infos(&nspace, 600, &[Info::new("pmix.job.size", 600u32)], "here").unwrap();
        let mut store = JobStore::create(&nspace, info, &Limits::default()).unwrap();
        // Two ranks with nobody near both of them.
        let ranks = [Rank(0), Rank(599)];
        for rank in ranks {
            store.mark_local(rank);
            let entry = Posted { scope: Scope::GLOBAL, key: Key::new("k").unwrap(), value: Value::from(rank.0) };
            store.post(rank, vec![entry]).unwrap();
        }
        store.writer.damage(ranks[1]);
        assert!(store.take_new(ranks.into_iter()).is_err());
        let again = store.take_new([ranks[0]].into_iter()).unwrap();
        assert_eq!((again.len(), again[0].commits, again[0].entries.len()), (1, 1, 1));
        assert!(store.take_new([ranks[0]].into_iter()).unwrap()[0].entries.is_empty());
    }
}
