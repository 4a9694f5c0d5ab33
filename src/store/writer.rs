//! The one writer of a job's segments.
//!
//! Data that is written before it is published has a file of its own ([`drafts`]), and so has what leaves the node
//! ([`outbound`]), and what moves to new segments ([`moves`]).
mod drafts;
mod moves;
mod outbound;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use instanton_layout::job::{self, JobWords};
use instanton_layout::words::RawWordsMut;

use super::budget::{Budget, Limits, Share};
use super::datum::Entry;
use super::error::{ReadError, WriteError};
use super::ids::{Have, ReaderId, SegmentId};
use super::info::build::info_words;
use super::ingest::JobInfo;
use super::modex::heap::{SMALLEST, SegmentSet};
use super::modex::lingering::Lingering;
use super::modex::reader_pages::{Held, Misuse, Pages, ReaderPageHandle};
use super::modex::records::Changes;
use super::modex::table::{KEPT, Prepared, Table};
use super::modex::visibility::Visibility;
#[cfg(feature = "named-segments")]
use super::named::Claim;
use super::outbound::{Departures, Unsent};
use super::read::JobReader;
use super::segment::{Label, MappedSegment, NOWHERE, OwnSegment, Places};
use crate::data::{Key, Nspace, Posted, Rank, Scope};
use crate::sys::memory::Mapping;
use drafts::UnderWay;

/// The memory that a job takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of all its segments, replaced ones that still wait included.
    pub bytes: u64,
    /// Modex segments in use.
    pub segments: usize,
    /// Bytes of blocks that hold current records.
    pub live: u64,
    /// Bytes of blocks that wait for readers.
    pub retired: u64,
    /// Bytes of blocks that wait for readers which hold back more than they may.
    pub set_aside: u64,
    /// Replaced sets of segments that wait for readers.
    pub waiting_sets: usize,
    /// Generation of the job information.
    pub generation: u64,
}

/// Most bytes of older records that are written anew where a change is to be brief.
const BRIEF: usize = 256 << 10;

/// A set of segments that waits for the readers which may look at it.
struct Waiting {
    /// The epoch in which it was replaced.
    replaced: u64,
    /// Version that all its records are newer than.
    made_after: u64,
    set: SegmentSet,
}

/// Writes a job's segments. Belongs to one thread.
pub struct JobWriter {
    nspace: Nspace,
    places: Places,
    job: OwnSegment,
    info: OwnSegment,
    generation: u64,
    /// The records that readers on this node see.
    visible: Table,
    /// The records that leave the node and are hidden on it; handed out to nobody.
    hidden: Table,
    /// Newest version of a record when the segments were made that are in use now.
    made_after: u64,
    /// Replaced sets of segments.
    waiting: Vec<Waiting>,
    limits: Limits,
    reader: Arc<JobReader>,
    pages: Pages,
    /// Ranks that the server knows to run here although the job information does not say where they run.
    local: BTreeSet<u32>,
    /// True if other ranks of this node belong to other writers.
    is_marked_alone: bool,
    unsent: Unsent,
    /// Drafts and batches that are under way.
    drafts: UnderWay,
    /// The batches among them.
    batches: usize,
    /// True if records move a little at a time, by [`JobWriter::next_move`] alone.
    moves_by_steps: bool,
    departures: Departures,
    lingering: Lingering,
}

impl JobWriter {
    /// Makes a job's segments, with room for the ranks that the information speaks of.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room for them, or the information was made for another namespace.
    pub fn create(nspace: &Nspace, info: JobInfo, limits: &Limits) -> Result<Self, WriteError> {
        Self::create_at(nspace, info, limits, NOWHERE)
    }

    /// Makes a job's segments as files under a name, for readers that have no way to this process.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room for them, with the claim, for another time. No reader has seen any of it
    /// then.
    #[cfg(feature = "named-segments")]
    pub fn create_named(
        nspace: &Nspace,
        info: JobInfo,
        limits: &Limits,
        claim: Claim,
    ) -> Result<Self, (WriteError, Claim)> {
        let made = Self::create_at(nspace, info, limits, Some(claim.0.clone()));
        let appears = |writer| claim.0.appear().map(|()| writer).map_err(|error| WriteError::Memory(Box::new(error)));
        made.and_then(appears).map_err(|error| (error, claim))
    }

    fn create_at(nspace: &Nspace, info: JobInfo, limits: &Limits, places: Places) -> Result<Self, WriteError> {
        let (id, ranks) = (RandomState::new().hash_one(nspace.as_bytes()), info.ranks());
        let limits = Limits { budget: limits.budget.part(u64::MAX), ..limits.clone() };
        limits.budget.keep(u64::from(ranks) * KEPT, SMALLEST);
        let job = OwnSegment::create(
            &Label::new("job", nspace, &places),
            0,
            job::length(ranks),
            (&limits.budget, Share::Open),
        )?;
        JobWords::format(job.mapping.words_mut(), id, ranks);
        let reader = Arc::new(JobReader::of_writer(job.mapping.clone())?);
        let hidden = Mapping::private(job.mapping.len()).map_err(|error| WriteError::Memory(Box::new(error)))?;
        JobWords::format(hidden.words_mut(), id, ranks);
        let info = make_info(nspace, &places, info, id, 1, &limits.budget)?;
        let mut this = Self {
            nspace: nspace.clone(),
            generation: 0,
            visible: Table::new(id, Label::new("modex", nspace, &places), job.mapping.clone(), &limits.budget),
            hidden: Table::new(id, Label::new("hidden", nspace, &NOWHERE), Arc::new(hidden), &limits.budget),
            places,
            job,
            info,
            made_after: 0,
            waiting: Vec::new(),
            limits,
            reader,
            pages: Pages::default(),
            local: BTreeSet::new(),
            is_marked_alone: false,
            unsent: Unsent::default(),
            drafts: UnderWay::default(),
            batches: 0,
            moves_by_steps: false,
            departures: Departures::default(),
            lingering: Lingering::default(),
        };
        this.publish_info()?;
        Ok(this)
    }

    pub(super) fn words(&self) -> JobWords<RawWordsMut<'_>> {
        JobWords::new(self.job.mapping.words_mut())
    }

    /// Replaces the job information as a whole.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room for it, when it speaks of ranks that there is no room for
    /// ([`WriteError::Rank`]: a job never grows beyond those that it was created with), or when it was made for another
    /// namespace.
    pub fn replace_info(&mut self, info: JobInfo) -> Result<(), WriteError> {
        let ranks = self.words().ranks();
        if info.ranks() > ranks {
            return Err(WriteError::Rank { rank: Rank(info.ranks() - 1), ranks });
        }
        let (job, generation) = (self.reader.job_id(), self.generation + 1);
        let new = make_info(&self.nspace, &self.places, info, job, generation, &self.limits.budget)?;
        let old = std::mem::replace(&mut self.info, new);
        let published = self.publish_info();
        if published.is_err() {
            self.info = old;
        }
        published
    }

    fn publish_info(&mut self) -> Result<(), WriteError> {
        self.reader.add(MappedSegment::check(self.info.mapping.clone())?)?;
        self.generation += 1;
        self.words().set_generation(self.generation);
        Ok(())
    }

    /// The namespace of the job.
    pub fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// The reader of the same segments.
    pub fn reader(&self) -> &JobReader {
        &self.reader
    }

    /// The writer's own reader, for another thread.
    #[cfg(feature = "server")]
    pub(crate) fn reader_for_thread(&self) -> Arc<JobReader> {
        self.reader.clone()
    }

    /// Says that a rank runs on this node, for hosts that do not say where ranks run.
    pub fn mark_local(&mut self, rank: Rank) {
        self.local.insert(rank.0);
    }

    /// Says that other ranks of this node post elsewhere: only marked ones count as local from now on.
    pub fn serve_marked_alone(&mut self) {
        self.is_marked_alone = true;
    }

    /// Returns whether a rank runs on this node.
    pub fn is_local(&self, rank: Rank) -> bool {
        self.local.contains(&rank.0) || !self.is_marked_alone && self.reader.is_local(rank)
    }

    /// All ranks that run on this node, in order.
    pub fn local_ranks(&self) -> Vec<Rank> {
        let ranks = self.words().ranks();
        let marked = self.local.iter().copied().filter(|rank| *rank < ranks).map(Rank);
        let mut all: Vec<Rank> = self.reader.local_ranks().into_iter().chain(marked).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Merges what a rank posts into its record, and publishes it.
    ///
    /// Each key has a value for this node and one for the others: LOCAL sets the first, REMOTE the second, GLOBAL both.
    ///
    /// # Errors
    /// [`WriteError`]; the rank's record is as before then.
    pub fn update(&mut self, rank: Rank, entries: &[Posted]) -> Result<(), WriteError> {
        self.change(rank, &entries.iter().map(Entry::from).collect::<Vec<_>>(), usize::MAX)
    }

    /// [`update`](Self::update), unless that takes long because of what the rank has posted before: then a
    /// [draft](Self::draft) is the way.
    ///
    /// # Errors
    /// As [`update`](Self::update); [`WriteError::TakesLong`] where more than 256 KiB would be written anew.
    pub fn update_briefly(&mut self, rank: Rank, entries: &[Posted]) -> Result<(), WriteError> {
        self.change(rank, &entries.iter().map(Entry::from).collect::<Vec<_>>(), BRIEF)
    }

    /// [`update`](Self::update) from values that lie where their owner has them: what is large is copied once, into the
    /// segment.
    ///
    /// ```
    /// use instanton::data::{DataType, Key, Nspace, Rank, Scope, Value};
    /// use instanton::store::{Datum, Entry, JobInfo, JobWriter, Limits, Question};
    /// let nspace = Nspace::new("job")?;
    /// let mut writer =
    ///     JobWriter::create(&nspace, JobInfo::from_infos(&nspace, 1, &[], "here")?, &Limits::default())?;
    /// let (endpoint, key) = ([7u8; 100], Key::new("endpoint")?);
    /// let value = Datum::Bytes(DataType::BYTE_OBJECT, &endpoint);
    /// writer.post(Rank(0), &[Entry { scope: Scope::GLOBAL, key: &key, value }])?;
    /// assert_eq!(writer.reader().get(&Question::new(Rank(0), "endpoint"))?, Value::from(endpoint.to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`update`](Self::update); [`WriteError::Value`] too where a type and what is given for it do not go together.
    pub fn post(&mut self, rank: Rank, entries: &[Entry<'_>]) -> Result<(), WriteError> {
        for Entry { key, value, .. } in entries {
            value.check().map_err(|error| WriteError::value(key, error))?;
        }
        self.change(rank, entries, usize::MAX)
    }

    /// Takes back what a rank has posted under these keys, on this node and for others; a key that it has not posted
    /// changes nothing. Other nodes have what they were sent: there it is taken back by a call of its own.
    ///
    /// # Errors
    /// [`WriteError`]; the rank's record is as before then.
    pub fn remove(&mut self, rank: Rank, keys: &[Key]) -> Result<(), WriteError> {
        self.check_rank(rank)?;
        let gone: Changes<'_> = keys.iter().map(|key| (key, None)).collect();
        self.apply(rank, &gone, &gone, usize::MAX)?;
        self.unsent.forget(rank, keys);
        Ok(())
    }

    /// Takes back everything that a rank has posted on this node, as if it had not: for a writer that has failed to
    /// publish something, and whose readers can ask elsewhere. It cannot fail; the memory comes back with the job.
    pub fn withdraw(&mut self, rank: Rank) {
        if self.check_rank(rank).is_ok() {
            self.visible.withdraw(rank);
        }
    }

    fn change(&mut self, rank: Rank, entries: &[Entry<'_>], most: usize) -> Result<(), WriteError> {
        self.check_rank(rank)?;
        let local = self.is_local(rank);
        let changed = match local {
            true => Visibility::of_local(rank, entries, self.visible.records(), most)?,
            false => Visibility::of_remote(rank, entries)?,
        };
        self.apply(rank, &changed.here(), &changed.elsewhere(), most)?;
        if local {
            let leaving = entries.iter().filter(|entry| entry.scope != Scope::LOCAL).map(|entry| entry.key.clone());
            self.put_back_outbound(rank, leaving);
        }
        Ok(())
    }

    fn apply(
        &mut self,
        rank: Rank,
        here: &Changes<'_>,
        elsewhere: &Changes<'_>,
        most: usize,
    ) -> Result<(), WriteError> {
        self.make_way()?;
        // Both records are written, and their segments known, before anything refers to them, so that a failure changes
        // nothing.
        let seen = self.visible.prepare(rank, here, &mut BTreeSet::new(), most)?;
        let hidden = match self
            .announce(&self.visible.set)
            .and_then(|()| self.hidden.prepare(rank, elsewhere, &mut BTreeSet::new(), most))
        {
            Ok(hidden) => hidden,
            Err(error) => {
                seen.into_iter().for_each(|prepared| self.visible.discard(prepared));
                return Err(error);
            }
        };
        self.publish(seen, hidden)
    }

    fn publish(&mut self, seen: Option<Prepared>, hidden: Option<Prepared>) -> Result<(), WriteError> {
        if let Some(hidden) = hidden {
            let replaced = self.hidden.publish(hidden);
            for block in replaced {
                if let Some(block) = self.departures.hold(block) {
                    self.hidden.discard_block(block);
                }
            }
        }
        if let Some(seen) = seen {
            let replaced = self.visible.publish(seen);
            let ended = self.words().end_epoch().map_err(ReadError::from)?;
            replaced.into_iter().for_each(|block| self.visible.retire(block, ended));
        }
        Ok(())
    }

    fn check_rank(&self, rank: Rank) -> Result<(), WriteError> {
        let ranks = self.words().ranks();
        if rank.is_process() && rank.0 < ranks { Ok(()) } else { Err(WriteError::Rank { rank, ranks }) }
    }

    /// Frees what can be freed. Where more is scattered than is alive, the records move to a new set of segments.
    fn make_way(&mut self) -> Result<(), WriteError> {
        self.lingering.look();
        if !self.drafts.is_empty() || self.moves_by_steps {
            if self.visible.set.is_worth_a_scan() {
                self.scan();
            }
            return Ok(());
        }
        if self.hidden.is_scattered() {
            // Nobody else looks at these, but departures, which keep the memory.
            if let Some(new) = self.hidden.renew()? {
                self.departures.forget_blocks();
                drop(self.hidden.replace(new));
            }
        }
        if self.visible.set.is_worth_a_scan() {
            self.scan();
        }
        if !self.visible.is_scattered() {
            return Ok(());
        }
        let newest = self.visible.newest_version();
        // Without room for a second copy the first has to do as long as it does.
        let Some(new) = self.visible.renew()? else { return Ok(()) };
        if let Err(error) = self.announce(&new.set) {
            self.visible.forget(&new);
            return Err(error);
        }
        let set = self.visible.replace(new);
        self.wait_for_readers(set, newest)
    }

    /// Has segments that were replaced, the newest record in them of that version, wait for their readers as a whole.
    fn wait_for_readers(&mut self, set: SegmentSet, newest: u64) -> Result<(), WriteError> {
        if let Some(first) = self.visible.set.segments.first() {
            self.words().set_oldest(first.number.into());
        }
        self.reader.unmap_replaced();
        let replaced = self.words().end_epoch().map_err(ReadError::from)?;
        self.waiting.push(Waiting { replaced, made_after: std::mem::replace(&mut self.made_after, newest), set });
        self.scan();
        Ok(())
    }

    /// Lets the own reader and all others know of new segments.
    fn announce(&self, set: &SegmentSet) -> Result<(), WriteError> {
        let Some(last) = set.segments.last() else { return Ok(()) };
        let known = self.words().newest();
        if known >= last.number.into() {
            return Ok(());
        }
        for segment in set.segments.iter().filter(|segment| u64::from(segment.number) > known) {
            self.reader.add(MappedSegment::check(segment.memory.mapping.clone())?)?;
        }
        self.words().set_newest(last.number.into());
        Ok(())
    }

    /// The segments that a client with `have` still needs, as read-only descriptors.
    pub fn segments(&self, have: &Have) -> Vec<(SegmentId, BorrowedFd<'_>)> {
        let mut wanted = Vec::new();
        if !have.job {
            wanted.push((SegmentId::Job, self.job.fd.as_fd()));
        }
        if have.info < self.generation {
            wanted.push((SegmentId::Info(self.generation), self.info.fd.as_fd()));
        }
        let newer = self.visible.segments().filter(|segment| segment.number > have.modex);
        wanted.extend(newer.map(|segment| (SegmentId::Modex(segment.number), segment.memory.fd.as_fd())));
        wanted
    }

    /// Makes a page for a reader that wants to take guards.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room for it.
    pub fn make_reader_page(&mut self) -> Result<ReaderPageHandle, WriteError> {
        self.pages.make(self.reader.job_id(), &self.limits.budget)
    }

    /// Forgets a reader whose process has ended: it holds nothing any more. Returns whether it was one of this
    /// writer's; of another one nothing is changed.
    pub fn reader_gone(&mut self, reader: ReaderId) -> bool {
        self.pages.remove(reader)
    }

    /// Returns whether [`reclaim`](Self::reclaim) may free more than it costs, or has something to tell.
    pub fn is_reclaim_due(&self) -> bool {
        let waits = !self.waiting.is_empty() || !self.lingering.is_empty();
        self.has_misused() || self.visible.set.is_worth_a_scan() || waits || self.pages.has_closed()
    }

    /// Returns whether a commit has come upon readers that [`reclaim`](Self::reclaim) will name.
    pub fn has_misused(&self) -> bool {
        self.pages.has_misused()
    }

    /// Frees what no reader holds any more. Returns the readers that were found to lie or to hold back too much since
    /// this was last called. Nothing that they may look at is written again until they let go of it or are
    /// [gone](Self::reader_gone).
    pub fn reclaim(&mut self) -> Vec<(ReaderId, Misuse)> {
        self.lingering.look();
        self.scan();
        self.pages.take_misused()
    }

    /// Looks at what readers hold, and frees the rest. Readers that hold back more than one may are closed, those that
    /// have held longest first, until no other does.
    fn scan(&mut self) {
        let (epoch, newest) = (self.words().epoch(), self.visible.newest_version());
        let mut held = self.pages.scan(self.job.mapping.words(), epoch, newest);
        held.by_writer = self.departures.oldest();
        if held.has_let_go {
            self.visible.set.take_back(&held);
        }
        self.free(&held);
        while held.is_by_reader() && self.held_back(&held) > self.limits.of_reader() {
            let bytes = self.held_back(&held);
            self.pages.close_oldest(&mut held, newest, bytes);
            self.free(&held);
        }
    }

    fn free(&mut self, held: &Held) {
        self.visible.set.reclaim(held);
        // Departures keep the memory of sets themselves.
        let is_held = |set: &Waiting| {
            set.replaced >= held.oldest_of_readers() || held.is_set_aside(set.replaced, set.made_after + 1)
        };
        let free = self.waiting.extract_if(.., |set| !is_held(set));
        free.for_each(|waiting| self.lingering.add(waiting.set));
    }

    /// Bytes that wait for the open page that holds the oldest epoch: all that waits for any of them.
    fn held_back(&self, held: &Held) -> u64 {
        let sets = self.waiting.iter().filter(|set| set.replaced >= held.oldest());
        self.visible.set.held() + sets.map(|waiting| waiting.set.bytes()).sum::<u64>()
    }

    /// Bytes of the records of a rank that are seen on this node; none where they cannot be read.
    pub fn posted(&self, rank: Rank) -> u64 {
        self.visible.records().bytes(rank).unwrap_or(0)
    }

    /// Bytes of the value under a key of a rank that is seen on this node and has been put for the scope `asked`; none
    /// where there is no such value, or it cannot be read.
    #[cfg(feature = "server")]
    pub(crate) fn value_bytes(&self, rank: Rank, key: &Key, asked: Option<Scope>) -> usize {
        let found = self.visible.records().value_bytes(rank, key);
        found.ok().flatten().filter(|(scope, _)| scope.answers(asked)).map_or(0, |(_, bytes)| bytes)
    }

    /// The memory that the job takes.
    pub fn stats(&self) -> Stats {
        let waiting = self.waiting.iter().map(|waiting| waiting.set.bytes()).sum::<u64>();
        Stats {
            bytes: self.job.len() + self.info.len() + self.visible.bytes() + self.hidden.bytes() + waiting,
            segments: self.visible.segments().count(),
            live: self.visible.set.live(),
            retired: self.visible.set.held(),
            set_aside: self.visible.set.set_aside(),
            waiting_sets: self.waiting.len(),
            generation: self.generation,
        }
    }
}

fn make_info(
    nspace: &Nspace,
    places: &Places,
    info: JobInfo,
    job: u64,
    generation: u64,
    budget: &Budget,
) -> Result<OwnSegment, WriteError> {
    if info.nspace != *nspace {
        return Err(WriteError::Nspace { nspace: nspace.clone(), info: info.nspace });
    }
    let label = Label::new("info", nspace, places);
    OwnSegment::written(&label, generation, info_words(info, job, generation)?, budget)
}
