//! From a rank to its value: directory, rank table, newest record, and the records that it continues in.
//!
//! The segments on the way may change during a walk. It is of one moment nevertheless: the reference in the rank table
//! names the newest record, whose version did not change while it was read; it names its base by place *and* version,
//! and that base stays as it is as long as the naming record is the newest. A base with another version is therefore a
//! change, and the walk begins anew at the rank table.
use crate::Malformed;
use crate::block::SeqlockRead;
use crate::job::{self, JobWords, Reference};
use crate::key::HashedKey;
use crate::record::{Base, Entry, Owner, Record};
use crate::words::Words;

/// Records of one rank, at most: the newest and those that it continues in.
pub const LONGEST: usize = 4;
/// Changes of the records under one look-up before it is given up.
pub const ATTEMPTS: usize = 8;

/// The records of one segment that a process has checked and found whole.
pub trait Checked: Copy {
    /// Returns whether the record at `word` was found whole when it had this version.
    fn has(self, word: u32, version: u64) -> bool;

    /// Notes that the record at `word` was found whole in this version.
    fn add(self, word: u32, version: u64);
}

/// The writer checks its records before it publishes them.
impl Checked for () {
    #[inline(always)]
    fn has(self, _: u32, _: u64) -> bool {
        true
    }

    fn add(self, _: u32, _: u64) {}
}

/// Search in each record of a walk: a closure, or a type, whose function is inlined wherever a walk is. The compiler
/// inlines no closure that is called from several places.
pub trait Seek<W> {
    /// The result of the search in one record.
    type Found;

    /// Looks for it.
    ///
    /// # Errors
    /// [`Malformed`] when the record makes no sense.
    fn seek(&mut self, link: Link<'_, W>) -> Result<Option<Self::Found>, Malformed>;
}

impl<W, T, F: FnMut(Link<'_, W>) -> Result<Option<T>, Malformed>> Seek<W> for F {
    type Found = T;

    #[inline(always)]
    fn seek(&mut self, link: Link<'_, W>) -> Result<Option<T>, Malformed> {
        self(link)
    }
}

/// The entry of a key, the words of its segment, and its block.
impl<W: Words + Copy> Seek<W> for &HashedKey<'_> {
    type Found = (Entry, W, Reference);

    #[inline(always)]
    fn seek(&mut self, link: Link<'_, W>) -> Result<Option<Self::Found>, Malformed> {
        Ok(link.record.find(self)?.map(|entry| (entry, link.words, link.at)))
    }
}

/// A record on the way.
pub struct Link<'a, W> {
    /// The record.
    pub record: &'a Record<W>,
    /// The segment it lies in.
    pub words: W,
    /// The block of the record.
    pub at: Reference,
    /// The version of the record.
    pub version: u64,
    /// Records before it on this walk.
    pub depth: usize,
}

/// The outcome of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk<T> {
    /// The search found this.
    Found(T),
    /// The rank has no such thing, or has posted nothing.
    Absent,
    /// The way leads through a segment that is not mapped.
    Unmapped(u32),
    /// Something changed meanwhile.
    Changed,
    /// Something makes no sense on the way from this reference.
    Bad(Malformed, Reference),
}

impl<T> Walk<T> {
    /// Continues with the result, if there is one.
    #[inline(always)]
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Walk<U>) -> Walk<U> {
        match self {
            Walk::Found(found) => f(found),
            Walk::Absent => Walk::Absent,
            Walk::Unmapped(number) => Walk::Unmapped(number),
            Walk::Changed => Walk::Changed,
            Walk::Bad(error, at) => Walk::Bad(error, at),
        }
    }
}

/// Goes from the rank table to the record in which `sought` finds something, newest first, once.
///
/// `segment` gives the words of modex segments, and what is remembered of them. The record that is found is of one
/// moment.
///
/// SYNC POINT: that a base is complete where its version is the one that was named follows from the order in which the
/// writer writes (base, then the record that names it) and from [`write`](crate::block::write())'s last store. Loom
/// test `chain`.
#[inline(always)]
pub fn walk<J: Words, W: Words + Copy, C: Checked, S: Seek<W>>(
    job: &JobWords<J>,
    rank: u32,
    segment: impl Fn(u32) -> Option<(W, C)>,
    sought: &mut S,
) -> Walk<S::Found> {
    let Some(page) = job.page(job::page_of(rank)) else { return Walk::Absent };
    let Some(of_page) = segment(page.segment) else { return Walk::Unmapped(page.segment) };
    let Some(first) = job::record(&of_page.0, page, rank) else { return Walk::Absent };
    // Mostly the same, which a processor guesses: it goes on before it has looked the segment up.
    let of_first = if first.segment == page.segment { Some(of_page) } else { segment(first.segment) };
    let Some(of_first) = of_first else { return Walk::Unmapped(first.segment) };
    match visit(of_first, (rank, first, 0), None, sought) {
        Ok(Step::Found(found)) => Walk::Found(found),
        Ok(Step::Base(base)) => walk_on((rank, first), base, &segment, sought),
        Ok(Step::End) => Walk::Absent,
        Ok(Step::Changed) => Walk::Changed,
        Err(error) => Walk::Bad(error, first),
    }
}

/// The rest of a walk from a rank's first record on. Most end there, and are shorter for not having this in them.
#[inline(never)]
fn walk_on<W: Words + Copy, C: Checked, S: Seek<W>>(
    (rank, first): (u32, Reference),
    mut base: Base,
    segment: &impl Fn(u32) -> Option<(W, C)>,
    sought: &mut S,
) -> Walk<S::Found> {
    for depth in 1..LONGEST {
        let Some(of_base) = segment(base.at.segment) else { return Walk::Unmapped(base.at.segment) };
        match visit(of_base, (rank, base.at, depth), Some(base.version), sought) {
            Ok(Step::Found(found)) => return Walk::Found(found),
            Ok(Step::Base(next)) => base = next,
            Ok(Step::End) => return Walk::Absent,
            Ok(Step::Changed) => return Walk::Changed,
            Err(error) => return Walk::Bad(error, first),
        }
    }
    Walk::Bad(Malformed::Chain, first)
}

/// The next step of a walk, behind one record.
enum Step<T> {
    Found(T),
    Base(Base),
    End,
    Changed,
}

/// Searches the record at a place, which must have the known version. Returns the result, or the record to go on with.
#[inline(always)]
fn visit<W: Words + Copy, S: Seek<W>>(
    (words, checked): (W, impl Checked),
    place: (u32, Reference, usize),
    known: Option<u64>,
    sought: &mut S,
) -> Result<Step<S::Found>, Malformed> {
    let Some(read) = SeqlockRead::begin(words, place.1.word as usize, known)? else { return Ok(Step::Changed) };
    match step(&read, checked, place, sought) {
        // By itself, so that nobody has to ask once more behind the look what was seen.
        Ok(Step::Found(found)) if read.is_unchanged() => Ok(Step::Found(found)),
        Ok(Step::Found(_)) => Ok(Step::Changed),
        seen if read.is_unchanged() => seen,
        _ => Ok(Step::Changed),
    }
}

/// Searches a record that may change meanwhile.
#[inline(always)]
fn step<W: Words + Copy, S: Seek<W>>(
    read: &SeqlockRead<W>,
    checked: impl Checked,
    (rank, at, depth): (u32, Reference, usize),
    sought: &mut S,
) -> Result<Step<S::Found>, Malformed> {
    let (words, version) = (read.words, read.version);
    let record = Record::in_block(words, at.word as usize, Owner::Modex, rank)?;
    if !checked.has(at.word, version) {
        record.check()?;
        // A record that was written meanwhile is not the one that was checked.
        if read.is_unchanged() {
            checked.add(at.word, version);
        }
    }
    if let Some(found) = sought.seek(Link { record: &record, words, at, version, depth })? {
        return Ok(Step::Found(found));
    }
    Ok(record.base()?.map_or(Step::End, Step::Base))
}

/// Walks ([`walk`]) again and again as long as something changes, up to [`ATTEMPTS`] times.
///
/// A block that makes no sense may have become another rank's; then the reference to it has changed, too. Only what
/// makes no sense twice is bad.
#[inline(always)]
pub fn read<J: Words, W: Words + Copy, C: Checked, S: Seek<W>>(
    job: &JobWords<J>,
    rank: u32,
    segment: impl Fn(u32) -> Option<(W, C)>,
    sought: &mut S,
) -> Walk<S::Found> {
    match walk(job, rank, &segment, sought) {
        // Named one by one: handed on as a whole it would lie in memory, and be loaded from there in larger pieces than
        // it was stored.
        Walk::Found(found) => Walk::Found(found),
        Walk::Absent => Walk::Absent,
        Walk::Unmapped(number) => Walk::Unmapped(number),
        Walk::Changed => read_again(job, rank, None, &segment, sought),
        Walk::Bad(_, first) => read_again(job, rank, Some(first), &segment, sought),
    }
}

/// The attempts after the first, in which the records that began at `suspect` made no sense.
#[cold]
fn read_again<J: Words, W: Words + Copy, C: Checked, S: Seek<W>>(
    job: &JobWords<J>,
    rank: u32,
    mut suspect: Option<Reference>,
    segment: &impl Fn(u32) -> Option<(W, C)>,
    sought: &mut S,
) -> Walk<S::Found> {
    for _ in 1..ATTEMPTS {
        match walk(job, rank, segment, sought) {
            Walk::Changed => {}
            Walk::Bad(_, first) if suspect != Some(first) => suspect = Some(first),
            other => return other,
        }
    }
    Walk::Changed
}
