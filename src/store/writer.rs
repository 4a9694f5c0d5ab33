//! The one writer of a job's segments.
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};

use instanton_layout::Malformed;
use instanton_layout::block::{self, Attempt};
use instanton_layout::job::{self, JobWords};
use instanton_layout::record::{self, Item, OwnKeys, Owner, Payload, flags};
use instanton_layout::sync::Ordering;
use instanton_layout::words::{RawWords, RawWordsMut, WordsMut};

use super::budget::{Budget, Limits};
use super::encode::{Encode, RawValue, ReadError};
use super::heap::{Block, Maker, SegmentSet};
use super::info_build::info_words;
use super::job_info::JobInfo;
use super::pages::{Held, Pages, ReaderId, ReaderPageHandle};
use super::reader::JobReader;
use super::segment::{AttachError, Have, MappedSegment, OwnSegment, SegmentId};
use crate::data::archive::ArchiveError;
use crate::data::constants::scope;
use crate::data::{Key, Nspace, Rank, Status, Value};

/// Why something was not written. What was written before is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The host's limit is reached.
    #[error("{wanted} more bytes of shared memory are needed, {used} of {limit} are in use")]
    Budget {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes in use.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// The system has no memory for it.
    #[error("{0}")]
    Memory(Box<dyn std::error::Error + Send + Sync>),
    /// Readers hold back too much, and no further set of segments may be made to get out of their way.
    #[error("{sets} replaced sets of segments wait for readers that hold on to them, first {by:?}")]
    Held {
        /// How many.
        sets: usize,
        /// The reader that holds the oldest epoch.
        by: Option<ReaderId>,
    },
    /// It does not fit into a segment.
    #[error("a record of {bytes} bytes is too large")]
    TooLarge {
        /// Bytes it has.
        bytes: u64,
    },
    /// A value cannot be stored.
    #[error("the value of {key}: {error}")]
    Value {
        /// Its key.
        key: Key,
        /// Why.
        error: ArchiveError,
    },
    /// The job has no such rank.
    #[error("rank {rank} of a job with room for {ranks}")]
    Rank {
        /// The rank.
        rank: Rank,
        /// Ranks there is room for.
        ranks: u32,
    },
    /// Data of this scope does not belong here: LOCAL data of another node, or a scope that nobody else may see.
    #[error("data of scope {scope} of rank {rank} does not belong here")]
    Scope {
        /// Whose data.
        rank: Rank,
        /// Its `constants::scope`.
        scope: u8,
    },
    /// The writer's own segments make no sense.
    #[error("a segment is damaged: {0}")]
    Damaged(#[from] ReadError),
    /// The writer's own segments cannot be read.
    #[error("{0}")]
    Attach(#[from] AttachError),
}

impl WriteError {
    pub(super) fn budget(budget: &Budget, wanted: u64) -> Self {
        WriteError::Budget { wanted, used: budget.used(), limit: budget.limit() }
    }

    pub(super) fn value(key: &Key, error: ArchiveError) -> Self {
        WriteError::Value { key: key.clone(), error }
    }

    /// The status for whoever asked.
    pub fn status(&self) -> Status {
        match self {
            WriteError::Budget { .. }
            | WriteError::Memory(_)
            | WriteError::Held { .. }
            | WriteError::TooLarge { .. } => Status::ERR_OUT_OF_RESOURCE,
            WriteError::Value { error, .. } => error.status(),
            WriteError::Rank { .. } | WriteError::Scope { .. } => Status::ERR_BAD_PARAM,
            WriteError::Damaged(_) | WriteError::Attach(_) => Status::ERROR,
        }
    }
}

/// What a job takes.
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
    /// Replaced sets of segments that wait for readers.
    pub waiting_sets: usize,
    /// Generation of the job information.
    pub generation: u64,
}

/// Writes a job's segments. Belongs to one thread.
pub struct JobWriter {
    job: OwnSegment,
    info: OwnSegment,
    generation: u64,
    /// Where each rank's record is.
    blocks: HashMap<u32, Block>,
    data: SegmentSet,
    /// Replaced sets, with the epoch in which they were replaced.
    waiting: Vec<(u64, SegmentSet)>,
    maker: Maker,
    limits: Limits,
    reader: JobReader,
    pages: Pages,
    /// What leaves the node and is hidden on it, by rank.
    outbound: HashMap<u32, BTreeMap<Key, Value>>,
    /// Keys that changed since they were last taken for other nodes, by rank.
    unsent: HashMap<u32, HashSet<Key>>,
}

impl JobWriter {
    /// Makes a job's segments.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room for them.
    pub fn create(nspace: &Nspace, info: &JobInfo, limits: &Limits) -> Result<Self, WriteError> {
        let id = RandomState::new().hash_one(nspace.as_bytes());
        let job = OwnSegment::create("instanton-job", job::length(info.ranks()), &limits.budget)?;
        JobWords::format(job.mapping.words_mut(), id);
        let reader = JobReader::of_writer(job.mapping.clone())?;
        let maker = Maker { job: id, budget: limits.budget.clone(), last_number: 0, last_version: 0 };
        let info = make_info(info, &maker, 1)?;
        let mut this = Self {
            job,
            info,
            generation: 0,
            blocks: HashMap::new(),
            data: SegmentSet::default(),
            waiting: Vec::new(),
            maker,
            limits: limits.clone(),
            reader,
            pages: Pages::default(),
            outbound: HashMap::new(),
            unsent: HashMap::new(),
        };
        this.publish_info()?;
        Ok(this)
    }

    fn words(&self) -> JobWords<RawWordsMut<'_>> {
        JobWords::new(self.job.mapping.words_mut())
    }

    /// Replaces the job information as a whole.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room for it, or when it speaks of ranks that there is no room for.
    pub fn replace_info(&mut self, info: &JobInfo) -> Result<(), WriteError> {
        let ranks = self.words().ranks();
        if info.ranks() > ranks {
            return Err(WriteError::Rank { rank: Rank(info.ranks() - 1), ranks });
        }
        self.info = make_info(info, &self.maker, self.generation + 1)?;
        self.publish_info()
    }

    fn publish_info(&mut self) -> Result<(), WriteError> {
        self.reader.add(MappedSegment::check(self.info.mapping.clone())?)?;
        self.generation += 1;
        self.words().set_generation(self.generation);
        Ok(())
    }

    /// The reader of the same segments.
    pub fn reader(&self) -> &JobReader {
        &self.reader
    }

    /// Merges what a rank posts into its record, and publishes it.
    ///
    /// Each key has a value for this node and one for the others: LOCAL sets the first, REMOTE the second, GLOBAL both.
    ///
    /// # Errors
    /// [`WriteError`]; the rank's record is as before then.
    pub fn update(&mut self, rank: Rank, entries: &[(u8, Key, Value)]) -> Result<(), WriteError> {
        let ranks = self.words().ranks();
        if !rank.is_process() || rank.0 >= ranks {
            return Err(WriteError::Rank { rank, ranks });
        }
        let local = self.reader.is_local(rank);
        let mut visible: Vec<&(u8, Key, Value)> = Vec::new();
        let mut hidden: Vec<&(u8, Key, Value)> = Vec::new();
        for entry in entries {
            match (entry.0, local) {
                (scope::GLOBAL, _) | (scope::LOCAL, true) | (scope::REMOTE, false) => visible.push(entry),
                (scope::REMOTE, true) => hidden.push(entry),
                (scope, _) => return Err(WriteError::Scope { rank, scope }),
            }
        }
        let kept = self.shadowed(rank, &visible)?;
        if !visible.is_empty() {
            self.publish(rank, &visible)?;
        }
        let outbound = self.outbound.entry(rank.0).or_default();
        for (scope, key, _) in visible {
            if *scope == scope::GLOBAL {
                outbound.remove(key);
            }
        }
        outbound.extend(kept);
        outbound.extend(hidden.into_iter().map(|(_, key, value)| (key.clone(), value.clone())));
        if local {
            let unsent = self.unsent.entry(rank.0).or_default();
            unsent.extend(entries.iter().filter(|entry| entry.0 != scope::LOCAL).map(|(_, key, _)| key.clone()));
        }
        Ok(())
    }

    /// Values that other nodes go on seeing although a LOCAL one is about to take their place here.
    fn shadowed(&self, rank: Rank, visible: &[&(u8, Key, Value)]) -> Result<Vec<(Key, Value)>, WriteError> {
        let mut kept = Vec::new();
        for (scope, key, _) in visible {
            if *scope == scope::LOCAL
                && let Some((scope::GLOBAL, value)) = self.posted(rank, key)?
            {
                kept.push((key.clone(), value));
            }
        }
        Ok(kept)
    }

    /// What a rank has posted under a key, with its scope.
    fn posted(&self, rank: Rank, key: &Key) -> Result<Option<(u8, Value)>, WriteError> {
        let query = record::Query::new(key.as_bytes());
        let value = self.with_record(rank, |words, record| {
            let Some(entry) = record.find(&query)? else { return Ok(None) };
            Ok(Some((entry.scope, RawValue::of_entry(words, &entry).to_value()?)))
        })?;
        Ok(value.flatten())
    }

    /// Reads a rank's record in its block; nobody else writes it.
    fn with_record<'a, T>(
        &'a self,
        rank: Rank,
        f: impl FnOnce(RawWords<'a>, &record::Record<RawWords<'a>>) -> Result<T, ReadError>,
    ) -> Result<Option<T>, WriteError> {
        let Some(block) = self.blocks.get(&rank.0) else { return Ok(None) };
        let Some(segment) = self.data.segment(block.at.segment) else { return Ok(None) };
        let words = segment.memory.mapping.words();
        match block::read(words, block.at.word as usize, rank.0, |record, _| Ok(f(words, record))) {
            Attempt::Done(out) => Ok(Some(out?)),
            Attempt::Changed => Ok(None),
            Attempt::Bad(error) => Err(ReadError::from(error).into()),
        }
    }

    /// Publishes a rank's record with these entries in place of the old ones of the same keys.
    fn publish(&mut self, rank: Rank, entries: &[&(u8, Key, Value)]) -> Result<(), WriteError> {
        let encoded = entries
            .iter()
            .rev()
            .scan(HashSet::new(), |seen, entry| Some(seen.insert(&entry.1).then_some(*entry)))
            .flatten()
            .map(|(scope, key, value)| Encode::new(*scope, key, value).map_err(|error| WriteError::value(key, error)))
            .collect::<Result<Vec<_>, _>>()?;
        let replaced: HashSet<&[u8]> = encoded.iter().map(|entry| entry.item().key).collect();
        let old = self.with_record(rank, |words, record| old_items(words, record))?.unwrap_or_default();
        let items = old
            .iter()
            .map(OldItem::item)
            .filter(|item| !replaced.contains(item.key))
            .chain(encoded.iter().map(Encode::item));
        let record = record::build(Owner::Modex, rank.0, items, &mut OwnKeys);
        self.make_way()?;
        let segments = self.data.segments.len();
        let block = self.data.put(record, &mut self.maker)?;
        if self.data.segments.len() != segments {
            self.announce_segments()?;
        }
        self.words().publish(rank.0, block.at);
        let ended = self.words().end_epoch().map_err(ReadError::from)?;
        if let Some(old) = self.blocks.insert(rank.0, block) {
            self.data.retire(old, ended);
        }
        Ok(())
    }

    /// Frees what can be freed. Where readers hold back more than is alive, the records move to a new set of segments.
    fn make_way(&mut self) -> Result<(), WriteError> {
        let held = self.scan();
        if !self.data.is_overdue() {
            return Ok(());
        }
        if self.waiting.len() >= self.limits.sets {
            return Err(WriteError::Held { sets: self.waiting.len(), by: held.by });
        }
        let mut set = SegmentSet::default();
        let mut blocks = HashMap::with_capacity(self.blocks.len());
        for (rank, block) in &self.blocks {
            let record = self.data.record(block).map_err(ReadError::from)?;
            match set.put(record, &mut self.maker) {
                Ok(block) => blocks.insert(*rank, block),
                // No room for a second copy: what there is has to do, as long as it does.
                Err(_) => return Ok(()),
            };
        }
        for segment in &set.segments {
            self.reader.add(MappedSegment::check(segment.memory.mapping.clone())?)?;
        }
        if let (Some(first), Some(last)) = (set.segments.first(), set.segments.last()) {
            self.words().set_segments(u64::from(first.number), u64::from(last.number));
        }
        for (rank, block) in &blocks {
            self.words().publish(*rank, block.at);
        }
        let ended = self.words().end_epoch().map_err(ReadError::from)?;
        self.blocks = blocks;
        self.waiting.push((ended, std::mem::replace(&mut self.data, set)));
        Ok(())
    }

    /// Lets the own reader and all others know of new segments.
    fn announce_segments(&self) -> Result<(), WriteError> {
        let (Some(first), Some(last)) = (self.data.segments.first(), self.data.segments.last()) else { return Ok(()) };
        self.reader.add(MappedSegment::check(last.memory.mapping.clone())?)?;
        self.words().set_segments(u64::from(first.number), u64::from(last.number));
        Ok(())
    }

    /// What a client that has `have` still needs, as read-only descriptors.
    pub fn segments(&self, have: &Have) -> Vec<(SegmentId, BorrowedFd<'_>)> {
        let mut wanted = Vec::new();
        if !have.job {
            wanted.push((SegmentId::Job, self.job.fd.as_fd()));
        }
        if have.info < self.generation {
            wanted.push((SegmentId::Info(self.generation), self.info.fd.as_fd()));
        }
        let newer = self.data.segments.iter().filter(|segment| segment.number > have.modex);
        wanted.extend(newer.map(|segment| (SegmentId::Modex(segment.number), segment.memory.fd.as_fd())));
        wanted
    }

    /// Makes a page for a reader that wants to take guards.
    ///
    /// # Errors
    /// [`WriteError`] when there is no room for it.
    pub fn make_reader_page(&mut self) -> Result<ReaderPageHandle, WriteError> {
        self.pages.make(self.maker.job, &self.maker.budget)
    }

    /// Forgets a reader whose process has ended: it holds nothing any more.
    pub fn reader_gone(&mut self, reader: ReaderId) {
        self.pages.remove(reader);
    }

    /// Frees what no reader holds any more. Answers the readers that do not keep to the protocol: their connections should be cut,
    /// and nothing is freed until they are gone.
    pub fn reclaim(&mut self) -> Vec<ReaderId> {
        self.scan().liars
    }

    fn scan(&mut self) -> Held {
        let held = self.pages.scan(self.job.mapping.words(), self.words().epoch());
        self.data.reclaim(held.oldest);
        self.waiting.retain(|(epoch, _)| *epoch >= held.oldest);
        held
    }

    /// What a rank has posted for other nodes since this was last asked: scope, key, value.
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read; nothing is taken then.
    pub fn take_outbound_new(&mut self, rank: Rank) -> Result<Vec<(u8, Key, Value)>, WriteError> {
        let Some(keys) = self.unsent.get(&rank.0) else { return Ok(Vec::new()) };
        let new = self.outbound_all(rank)?.into_iter().filter(|(_, key, _)| keys.contains(key)).collect();
        self.unsent.remove(&rank.0);
        Ok(new)
    }

    /// All that a rank has posted for other nodes: scope, key, value.
    ///
    /// # Errors
    /// [`WriteError`] when the records cannot be read.
    pub fn outbound_all(&self, rank: Rank) -> Result<Vec<(u8, Key, Value)>, WriteError> {
        let visible = self.with_record(rank, |words, record| {
            let mut all = Vec::new();
            for item in old_items(words, record)?.iter().filter(|item| item.scope == scope::GLOBAL) {
                all.push((scope::GLOBAL, item.key()?, item.value.to_value()?));
            }
            Ok(all)
        })?;
        let mut all = visible.unwrap_or_default();
        let hidden = self.outbound.get(&rank.0).into_iter().flatten();
        all.extend(hidden.map(|(key, value)| (scope::REMOTE, key.clone(), value.clone())));
        Ok(all)
    }

    /// What the job takes.
    pub fn stats(&self) -> Stats {
        let waiting = self.waiting.iter().map(|(_, set)| set.bytes()).sum::<u64>();
        Stats {
            bytes: self.job.len() + self.info.len() + self.data.bytes() + waiting,
            segments: self.data.segments.len(),
            live: self.data.live(),
            retired: self.data.held(),
            waiting_sets: self.waiting.len(),
            generation: self.generation,
        }
    }
}

fn make_info(info: &JobInfo, maker: &Maker, generation: u64) -> Result<OwnSegment, WriteError> {
    let words = info_words(info, maker.job, generation)?;
    let segment = OwnSegment::create("instanton-info", words.len() as u64 * 8, &maker.budget)?;
    let memory = segment.mapping.words_mut();
    words.iter().enumerate().for_each(|(at, word)| memory.store(at, *word, Ordering::Relaxed));
    Ok(segment)
}

/// An entry of a record that is about to be replaced.
struct OldItem<'a> {
    key: Vec<u8>,
    scope: u8,
    flags: u8,
    value: RawValue<'a>,
    bytes: Vec<u8>,
}

impl OldItem<'_> {
    fn key(&self) -> Result<Key, ReadError> {
        Key::new(&self.key).map_err(|_| Malformed::Owner.into())
    }

    fn item(&self) -> Item<'_> {
        let payload = match self.flags {
            flags if flags & flags::NULL != 0 => Payload::Null,
            flags if flags & flags::INLINE != 0 => Payload::Scalar(self.value.scalar().unwrap_or(0)),
            flags if flags & flags::ARCHIVE != 0 => Payload::Archive(&self.bytes),
            _ => Payload::Bytes(&self.bytes),
        };
        Item { key: &self.key, scope: self.scope, data_type: self.value.data_type().0, payload }
    }
}

fn old_items<'a>(words: RawWords<'a>, record: &record::Record<RawWords<'a>>) -> Result<Vec<OldItem<'a>>, ReadError> {
    record
        .iter()
        .map(|entry| {
            let entry = entry?;
            let value = RawValue::of_entry(words, &entry);
            Ok(OldItem {
                key: words.to_vec(entry.key_word, entry.key_len)?,
                scope: entry.scope,
                flags: entry.flags,
                value,
                bytes: value.to_bytes(),
            })
        })
        .collect()
}
