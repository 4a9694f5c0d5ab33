//! Look-ups in the segments of a job.
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use instanton_layout::Malformed;
use instanton_layout::chain::{self, Link, Seek, Walk};
use instanton_layout::header::Header;
use instanton_layout::info::Group;
use instanton_layout::job::JobWords;
use instanton_layout::key::HashedKey;
use instanton_layout::sync::{AtomicU64, Ordering};
use instanton_layout::words::RawWords;

use super::question::Question;
use super::raw_value::RawValue;
use super::reader_page::ReaderPage;
use super::view::InfoView;
use crate::data::{Info, Key, Nspace, Rank, Scope, Value, keys};
use crate::store::error::{AttachError, Miss, ReadError};
use crate::store::ids::{Have, SegmentId, Want};
use crate::store::modex::mapped::MappedModex;
use crate::store::segment::MappedSegment;
use crate::store::value_cell::ValueCell;
use crate::sys::cell::{Epoch, EpochCell};
use crate::sys::memory::Mapping;
use crate::sys::pin::{Hold, PinPage};

/// Reads a job's segments. Threads share it; no look-up takes a lock or makes a system call.
pub struct JobReader {
    pub(in crate::store) job: Arc<Mapping>,
    job_id: u64,
    maps: EpochCell<Maps>,
    /// The segments in `maps`, for whoever only wants to know whether there are newer ones, or replaced ones.
    mapped: Mapped,
    pub(super) page: Option<Arc<PinPage>>,
    /// The process that this one is, if it has said so.
    own: OnceLock<Rank>,
}

/// The segments that are mapped besides the job segment.
#[derive(Clone, Default)]
pub(super) struct Maps {
    pub(super) view: Option<Arc<InfoView>>,
    pub(super) modex: MappedModex,
}

/// Numbers of mapped segments. They are hints, which threads may see late.
struct Mapped {
    /// The generation of job information.
    info: AtomicU64,
    /// The oldest and the newest modex segment, 0 where there is none.
    oldest: AtomicU64,
    newest: AtomicU64,
}

impl Mapped {
    fn new() -> Self {
        let [info, oldest, newest] = [0; 3].map(AtomicU64::new);
        Self { info, oldest, newest }
    }

    fn has_before(&self, oldest: u64) -> bool {
        let first = self.oldest.load(Ordering::Relaxed);
        first != 0 && first < oldest
    }

    fn note(&self, maps: &Maps) {
        let have = maps.have();
        self.info.store(have.info, Ordering::Relaxed);
        self.oldest.store(maps.modex.oldest().into(), Ordering::Relaxed);
        self.newest.store(have.modex.into(), Ordering::Relaxed);
    }
}

impl Maps {
    fn have(&self) -> Have {
        let info = self.view.as_ref().map_or(0, |view| view.generation.number);
        Have { job: true, info, modex: self.modex.newest() }
    }
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The host's job information.
    Info,
    /// A process posted it.
    Modex,
}

/// Callback for each record of a rank.
type Body<'a> = dyn FnMut(Link<'_, RawWords<'_>>) -> Result<Option<()>, Malformed> + 'a;

/// A value that a rank has posted, shown where it lies. The search finds whether it is of the scope that is asked for.
struct PostedValue<'a, F> {
    key: &'a HashedKey<'a>,
    scope: Option<Scope>,
    f: &'a mut F,
}

impl<F: FnMut(&RawValue<'_>)> Seek<RawWords<'_>> for PostedValue<'_, F> {
    type Found = bool;

    #[inline(always)]
    fn seek(&mut self, link: Link<'_, RawWords<'_>>) -> Result<Option<bool>, Malformed> {
        let Some(entry) = link.record.find(self.key)? else { return Ok(None) };
        // The last value that the rank has put under this key counts, in whatever scope.
        let in_scope = Scope(entry.scope).answers(self.scope);
        if in_scope {
            (self.f)(&RawValue::of_words(link.words, &ValueCell::of_entry(&entry)));
        }
        Ok(Some(in_scope))
    }
}

impl JobReader {
    /// A reader of these segments, one of which must be the job's own. With a page of its own it can take guards.
    ///
    /// # Errors
    /// [`AttachError`] names the segment that cannot be used.
    pub fn attach(parts: Vec<MappedSegment>, page: Option<ReaderPage>) -> Result<Self, AttachError> {
        let job = parts.iter().find(|part| part.id == SegmentId::Job).ok_or(AttachError::NoJob)?;
        if page.as_ref().is_some_and(|page| page.job != job.job) {
            return Err(AttachError::ForeignPage);
        }
        let reader = Self {
            job: job.mapping.clone(),
            job_id: job.job,
            maps: EpochCell::with_page(Maps::default(), page.as_ref().map(|page| page.page.clone())),
            mapped: Mapped::new(),
            page: page.map(|page| page.page),
            own: OnceLock::new(),
        };
        // The job's own segment may be there twice; one of another job is refused like any other.
        let is_other = |part: &MappedSegment| part.id != SegmentId::Job || part.job != reader.job_id;
        parts.into_iter().filter(is_other).try_for_each(|part| reader.add(part))?;
        Ok(reader)
    }

    /// Adds a modex segment, or a generation of job information that supersedes the one there is.
    ///
    /// A superseded generation stays mapped until no thread reads it any more.
    ///
    /// # Errors
    /// [`AttachError`] when it is damaged or belongs to another job; the reader is as before then.
    pub fn add(&self, part: MappedSegment) -> Result<(), AttachError> {
        let id = part.id;
        if part.job != self.job_id {
            return Err(AttachError::Foreign { id });
        }
        let oldest = self.words().oldest();
        let has_replaced = self.mapped.has_before(oldest);
        self.maps.replace(|maps| {
            let mut maps = maps.clone();
            match id {
                SegmentId::Job => return Err(AttachError::Unexpected(instanton_layout::header::Kind::Job)),
                SegmentId::Modex(number) => {
                    maps.modex.add(number, part.mapping, oldest as u32)?;
                }
                SegmentId::Info(generation) => {
                    if maps.view.as_ref().is_none_or(|view| view.generation.number < generation) {
                        let view = self.view(generation, part.mapping);
                        maps.view = Some(Arc::new(view.map_err(|error| AttachError::Damaged { id, error })?));
                    }
                }
            }
            self.mapped.note(&maps);
            Ok(maps)
        })?;
        if has_replaced {
            Epoch::settle();
        }
        Ok(())
    }

    fn view(&self, generation: u64, mapping: Arc<Mapping>) -> Result<InfoView, Malformed> {
        let view = InfoView::new(generation, mapping)?;
        if verifies() {
            view.generation.verify()?;
        }
        self.own.get().map_or(Ok(()), |own| view.populate_own(*own))?;
        Ok(view)
    }

    /// Unmaps the modex segments that nothing refers to any more, where there are such: as long as somebody has them
    /// mapped, their job is charged for them. Threads that look at them at this moment keep them for longer.
    #[inline]
    pub fn unmap_replaced(&self) {
        let oldest = self.words().oldest();
        if self.mapped.has_before(oldest) {
            self.unmap_before(oldest as u32);
        }
    }

    #[cold]
    fn unmap_before(&self, oldest: u32) {
        let forget = |maps: &Maps| {
            let mut maps = maps.clone();
            maps.modex.forget(oldest);
            self.mapped.note(&maps);
            Ok::<_, std::convert::Infallible>(maps)
        };
        let Ok(()) = self.maps.replace(forget);
        Epoch::settle();
    }

    #[inline]
    pub(in crate::store) fn words(&self) -> JobWords<RawWords<'_>> {
        JobWords::new(self.job.words())
    }

    /// The mapped segments, for as long as a guard holds them.
    #[inline]
    pub(super) fn held_maps<'a>(&'a self, hold: &'a Hold<'_>) -> &'a Maps {
        self.maps.read_held(hold).expect("a reader's guards are on its own page")
    }

    pub(super) fn maps(&self) -> crate::sys::cell::Reading<'_, Maps> {
        self.maps.read()
    }

    /// Looks a value up and gives it to `f` where it lies.
    ///
    /// `f` runs again if the record was replaced meanwhile; what it saw then is thrown away. It may see bytes that are
    /// no value of their type.
    ///
    /// # Errors
    /// [`Miss`] says why there is no value.
    #[inline]
    pub fn read<T>(&self, question: &Question<'_>, mut f: impl FnMut(&RawValue<'_>) -> T) -> Result<T, Miss> {
        let epoch = Epoch::enter();
        if let Some(known) = self.recall(&epoch, question) {
            return Ok(f(&known));
        }
        let mut last = None;
        self.read_anew(&epoch, question, &mut |value| last = Some(f(value)))?;
        last.ok_or(Miss::NotFound)
    }

    /// [`read_in`](Self::read_in) once for all that read in this way.
    #[inline(never)]
    fn read_anew(
        &self,
        epoch: &Epoch,
        question: &Question<'_>,
        mut f: &mut dyn FnMut(&RawValue<'_>),
    ) -> Result<(), Miss> {
        self.read_in(epoch, question, &mut f)
    }

    /// A value of the job information that this process has asked before.
    #[inline(always)]
    pub(crate) fn recall<'a>(&'a self, epoch: &'a Epoch, question: &Question<'_>) -> Option<RawValue<'a>> {
        self.maps.read_in(epoch).view.as_ref()?.recall(question)
    }

    /// [`read`](Self::read) of a value that the cache does not have, for a thread that is in an epoch.
    #[inline(always)]
    pub(crate) fn read_in(
        &self,
        epoch: &Epoch,
        question: &Question<'_>,
        f: &mut impl FnMut(&RawValue<'_>),
    ) -> Result<(), Miss> {
        let maps = self.maps.read_in(epoch);
        if let Some(view) = &maps.view {
            let mut found = None;
            view.look(question, &mut found).map_err(ReadError::from)?;
            if let Some(cell) = &found {
                f(&RawValue::of_info(&view.generation, cell));
                return Ok(());
            }
        }
        match question.has_default_level() && question.rank.is_process() {
            true => self.posted(maps, question, f),
            false => Err(self.missing(maps)),
        }
    }

    /// A value that some rank posted.
    #[inline(always)]
    fn posted(&self, maps: &Maps, question: &Question<'_>, f: &mut impl FnMut(&RawValue<'_>)) -> Result<(), Miss> {
        let found =
            self.modex(maps, question.rank, PostedValue { key: &question.key, scope: question.directives.scope, f })?;
        if found == Some(true) { Ok(()) } else { Err(self.missing(maps)) }
    }

    /// Reads the records of what a rank has posted, newest first, until something is found.
    #[inline(always)]
    pub(super) fn modex<'a, S: Seek<RawWords<'a>>>(
        &self,
        maps: &'a Maps,
        rank: Rank,
        mut sought: S,
    ) -> Result<Option<S::Found>, Miss> {
        let segment = |number| maps.modex.get(number).map(|segment| (segment.mapping.words(), &*segment.checked));
        match chain::read(&self.words(), rank.0, segment, &mut sought) {
            Walk::Found(found) => Ok(Some(found)),
            Walk::Absent => Ok(None),
            Walk::Unmapped(number) => Err(Miss::Unmapped(Want::Modex(number))),
            Walk::Changed => Err(Miss::Busy),
            Walk::Bad(error, _) => Err(ReadError::from(error).into()),
        }
    }

    /// [`modex`](Self::modex) once in the library, for callers that are not in a hurry.
    #[inline(never)]
    fn records(&self, maps: &Maps, rank: Rank, body: &mut Body<'_>) -> Result<Option<()>, Miss> {
        self.modex(maps, rank, |link: Link<'_, RawWords<'_>>| body(link))
    }

    /// The reason why nothing was found: nobody has stored the key, or a newer generation is not mapped.
    pub(super) fn missing(&self, maps: &Maps) -> Miss {
        let generation = self.words().generation();
        match &maps.view {
            Some(view) if view.generation.number >= generation => Miss::NotFound,
            _ if generation == 0 => Miss::NotFound,
            _ => Miss::Unmapped(Want::Info(generation)),
        }
    }

    /// Looks a value up and copies it.
    ///
    /// # Errors
    /// [`Miss`] says why there is no value.
    pub fn get(&self, question: &Question<'_>) -> Result<Value, Miss> {
        Ok(self.read(question, |value| value.to_value())??)
    }

    /// Returns whether there is such a value.
    ///
    /// # Errors
    /// [`Miss`] when that cannot be said; never `NotFound`.
    pub fn contains(&self, question: &Question<'_>) -> Result<bool, Miss> {
        match self.read(question, |_| ()) {
            Ok(()) => Ok(true),
            Err(Miss::NotFound) => Ok(false),
            Err(miss) => Err(miss),
        }
    }

    /// Everything known of a process, or of the job, as attributes: of what was posted that for the scope `asked` alone.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn infos(&self, rank: Rank, asked: Option<Scope>) -> Result<Vec<Info>, Miss> {
        let all = self.all(rank)?.into_iter();
        let is_asked = all.filter(|(_, scope, _, origin)| *origin == Origin::Info || scope.answers(asked));
        Ok(is_asked.map(|(key, _, value, _)| Info { key, flags: 0, value }).collect())
    }

    /// Everything that a process has posted for the scope `asked`, as attributes.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn all_posted(&self, rank: Rank, asked: Option<Scope>) -> Result<Vec<Info>, Miss> {
        let posted = self.posted_in(&self.maps.read(), rank)?.into_iter();
        let is_asked = posted.filter(|(_, scope, _)| scope.answers(asked));
        Ok(is_asked.map(|(key, _, value)| Info { key, flags: 0, value }).collect())
    }

    /// Everything known of a process, or of the job for `WILDCARD`, the host's word first: key, scope, value and
    /// origin.
    ///
    /// # Errors
    /// [`Miss`] when a segment is missing or damaged; never `NotFound`.
    pub fn all(&self, rank: Rank) -> Result<Vec<(Key, Scope, Value, Origin)>, Miss> {
        let maps = self.maps.read();
        let mut all = Vec::new();
        if maps.view.is_none() {
            match self.missing(&maps) {
                Miss::NotFound => (),
                unmapped => return Err(unmapped),
            }
        }
        if let Some(view) = &maps.view {
            view.all(rank, |key, value| {
                let key = Key::new(key).map_err(|_| ReadError::from(Malformed::Owner))?;
                all.push((key, Scope::UNDEF, value.to_value()?, Origin::Info));
                Ok(())
            })?;
        }
        if rank.is_process() {
            let known: HashSet<Key> = all.iter().map(|(key, ..)| key.clone()).collect();
            let posted = self.posted_in(&maps, rank)?.into_iter().filter(|(key, ..)| !known.contains(key));
            all.extend(posted.map(|(key, scope, value)| (key, scope, value, Origin::Modex)));
        }
        Ok(all)
    }

    /// Data that a process has posted: of each key the newest value.
    fn posted_in(&self, maps: &Maps, rank: Rank) -> Result<Vec<(Key, Scope, Value)>, Miss> {
        let mut posted = Vec::new();
        self.records(maps, rank, &mut |link| {
            if link.depth == 0 {
                posted.clear();
            }
            for entry in link.record.iter() {
                let entry = entry?;
                let key = link.words.to_vec(entry.key_word, entry.key_len)?;
                let value = RawValue::of_words(link.words, &ValueCell::of_entry(&entry)).to_value();
                posted.push((key, Scope(entry.scope), value));
            }
            Ok(None)
        })?;
        let (mut known, mut newest) = (HashSet::new(), Vec::new());
        for (key, scope, value) in posted {
            let key = Key::new(key).map_err(|_| ReadError::from(Malformed::Owner))?;
            if known.insert(key.clone()) {
                newest.push((key, scope, value?));
            }
        }
        Ok(newest)
    }

    /// The namespace of the job, as its information says.
    ///
    /// # Errors
    /// [`Miss`] where no job information is mapped, or it is damaged.
    pub fn nspace(&self) -> Result<Nspace, Miss> {
        let name = self.get(&Question::new(Rank::WILDCARD, keys::NSPACE))?;
        let name = name.as_text().ok_or(Miss::NotFound)?;
        Nspace::new(name.as_bytes()).map_err(|_| Miss::Corrupt(Malformed::Owner.into()))
    }

    /// Processes of the job.
    pub fn job_size(&self) -> u32 {
        self.maps.read().view.as_ref().map_or(0, |view| view.generation.index.size())
    }

    /// Ranks that there is room for; a rank from there on can post nothing.
    pub fn rank_count(&self) -> u32 {
        self.words().ranks()
    }

    /// The number of the node a rank runs on, if it is known.
    pub fn node_of(&self, rank: Rank) -> Option<u32> {
        let maps = self.maps.read();
        let view = maps.view.as_ref()?;
        view.number(Group::Nodes, view.node_of(rank).ok()??.0).ok()?
    }

    /// The number of the application a rank belongs to, if it is known.
    pub fn app_of(&self, rank: Rank) -> Option<u32> {
        let maps = self.maps.read();
        let view = maps.view.as_ref()?;
        view.number(Group::Apps, view.app_of(rank).ok()??.0).ok()?
    }

    /// The number of the node this is.
    pub fn own_node(&self) -> Option<u32> {
        let maps = self.maps.read();
        let view = maps.view.as_ref()?;
        view.number(Group::Nodes, view.generation.index.own_node()).ok()?
    }

    /// Returns whether a rank runs on this node, as far as the job information says.
    pub fn is_local(&self, rank: Rank) -> bool {
        let maps = self.maps.read();
        let Some(view) = &maps.view else { return false };
        view.node_of(rank).ok().flatten().is_some_and(|(node, _)| node == view.generation.index.own_node())
    }

    /// The ranks that run on this node, as far as the job information says, in order.
    pub fn local_ranks(&self) -> Vec<Rank> {
        let maps = self.maps.read();
        maps.view.as_ref().and_then(|view| view.own_ranks().ok()).unwrap_or_default()
    }

    /// Says which process this is, and maps the pages that it looks at first: those that all processes of the node look
    /// at, and those of its own keys. This is only a hint: every other page is mapped when it is looked at.
    ///
    /// # Errors
    /// [`Miss`] when the job information is damaged.
    pub fn populate_own(&self, rank: Rank) -> Result<(), Miss> {
        // The first word counts: a reader is of one process.
        let rank = *self.own.get_or_init(|| rank);
        match &self.maps.read().view {
            Some(view) => Ok(view.populate_own(rank).map_err(ReadError::from)?),
            None => Ok(()),
        }
    }

    /// Looks at the checksums that no look-up looks at: those of columns. It reads all of the job information once.
    ///
    /// # Errors
    /// [`Miss`] when one of them is wrong.
    pub fn verify(&self) -> Result<(), Miss> {
        match &self.maps.read().view {
            Some(view) => Ok(view.generation.verify().map_err(ReadError::from)?),
            None => Ok(()),
        }
    }

    /// Returns whether a rank has posted anything that is visible here.
    pub fn has_posted(&self, rank: Rank) -> bool {
        rank.is_process() && !matches!(self.records(&self.maps.read(), rank, &mut |_| Ok(Some(()))), Ok(None))
    }

    /// The generation of job information that is mapped; 0 if none is.
    pub fn generation(&self) -> u64 {
        self.maps.read().view.as_ref().map_or(0, |view| view.generation.number)
    }

    /// The generation that should be mapped, if that is another one (`PMIX_GET_REFRESH_CACHE` waits for it).
    pub fn stale(&self) -> Option<Want> {
        let published = self.words().generation();
        (published > self.generation()).then_some(Want::Info(published))
    }

    /// The segments that are mapped, to be told to the writer.
    pub fn have(&self) -> Have {
        self.maps.read().have()
    }

    /// Returns whether there is more of the job than is mapped.
    #[inline]
    pub fn is_behind(&self) -> bool {
        let (mapped, words) = (&self.mapped, self.words());
        words.generation() > mapped.info.load(Ordering::Relaxed)
            || words.newest() > mapped.newest.load(Ordering::Relaxed)
    }

    /// The number that all segments of the job have in their headers.
    pub fn job_id(&self) -> u64 {
        self.job_id
    }

    pub(in crate::store) fn of_writer(job: Arc<Mapping>) -> Result<Self, AttachError> {
        Header::read(&job.words())?;
        Self::attach(vec![MappedSegment::check(job)?], None)
    }
}

/// Returns whether every checksum of job information is checked when it is mapped (`INSTANTON_VERIFY=on`).
fn verifies() -> bool {
    static VERIFIES: OnceLock<bool> = OnceLock::new();
    *VERIFIES.get_or_init(|| std::env::var_os("INSTANTON_VERIFY").is_some_and(|value| value == "on"))
}
