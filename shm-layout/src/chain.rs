//! From a rank to its value: directory, rank table, newest record, and the records that it continues in.
//!
//! What the way leads through may change while it is gone. A walk is of one moment nevertheless: the reference in the rank table names
//! the newest record, whose version did not change while it was read; it names its base by place *and* version, and that base
//! stays as it is as long as the naming record is the newest. A base with another version is therefore a change, and the
//! walk begins anew at the rank table.
use crate::Malformed;
use crate::block::Look;
use crate::job::{self, JobWords, Reference};
use crate::record::{Base, Entry, Owner, Query, Record};
use crate::words::Words;

/// Records of one rank, at most: the newest and those that it continues in.
pub const LONGEST: usize = 4;
/// How often the records may change under one look-up before it is given up.
pub const ATTEMPTS: usize = 8;

/// What a process remembers of the records of one segment: which of them it has found whole.
pub trait Checked: Copy {
    /// Whether the record at `word` was found whole when it had this version.
    fn has(self, word: u32, version: u64) -> bool;

    /// It was.
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

/// What is looked for in each record. Not a function: this is inlined wherever a walk is, which the compiler does with no function that
/// is called from several places.
pub trait Seek: Copy {
    /// What there is of it in a record.
    type Sought;

    /// Looks for it.
    ///
    /// # Errors
    /// [`Malformed`] when the record makes no sense.
    fn seek<W: Words + Copy>(self, record: &Record<W>) -> Result<Option<Self::Sought>, Malformed>;
}

/// The entry of a key.
impl Seek for &Query<'_> {
    type Sought = Entry;

    #[inline(always)]
    fn seek<W: Words + Copy>(self, record: &Record<W>) -> Result<Option<Entry>, Malformed> {
        record.find(self)
    }
}

/// The record itself.
#[derive(Clone, Copy)]
pub struct Whole;

impl Seek for Whole {
    type Sought = ();

    #[inline(always)]
    fn seek<W: Words + Copy>(self, _: &Record<W>) -> Result<Option<()>, Malformed> {
        Ok(Some(()))
    }
}

/// A record on the way.
pub struct Link<'a, W> {
    /// The record.
    pub record: &'a Record<W>,
    /// The segment it lies in.
    pub words: W,
    /// Its block.
    pub at: Reference,
    /// Its version.
    pub version: u64,
    /// How many were before it on this walk.
    pub depth: usize,
}

/// What came of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk<T> {
    /// This was found.
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
    /// What follows from what was found.
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

/// Goes from the rank table to the record in which `body` finds something, newest first, once. It is given what `sought` is of a record.
///
/// `segment` gives the words of modex segments, and what is remembered of them. What `body` finds is of one moment.
///
/// SYNC POINT: that a base is complete where its version is the one that was named follows from the order in which the writer writes
/// (base, then the record that names it) and from [`write`](crate::block::write())'s last store. Loom test `chain`.
#[inline(always)]
pub fn walk<J: Words, W: Words + Copy, C: Checked, S: Seek, T>(
    job: &JobWords<J>,
    rank: u32,
    segment: impl Fn(u32) -> Option<(W, C)>,
    sought: S,
    mut body: impl FnMut(Link<'_, W>, S::Sought) -> Result<Option<T>, Malformed>,
) -> Walk<T> {
    let Some(page) = job.page(job::page_of(rank)) else { return Walk::Absent };
    let Some(of_page) = segment(page.segment) else { return Walk::Unmapped(page.segment) };
    let Some(first) = job::record(&of_page.0, page, rank) else { return Walk::Absent };
    let (mut at, mut known) = (first, None);
    for depth in 0..LONGEST {
        // Mostly the same, which a processor guesses: it goes on before it has looked the segment up.
        let same = at.segment == page.segment;
        let Some((words, checked)) = (if same { Some(of_page) } else { segment(at.segment) }) else {
            return Walk::Unmapped(at.segment);
        };
        let look = match Look::begin(words, at.word as usize, known) {
            Ok(Some(look)) => look,
            Ok(None) => return Walk::Changed,
            Err(error) => return Walk::Bad(error, first),
        };
        let seen = step(&look, checked, (rank, at, depth), sought, &mut body);
        match (look.is_true(), seen) {
            (false, _) => return Walk::Changed,
            (true, Ok(Step::Found(found))) => return Walk::Found(found),
            (true, Ok(Step::Base(base))) => (at, known) = (base.at, Some(base.version)),
            (true, Ok(Step::End)) => return Walk::Absent,
            (true, Err(error)) => return Walk::Bad(error, first),
        }
    }
    Walk::Bad(Malformed::Chain, first)
}

/// What a record says of where to go.
enum Step<T> {
    Found(T),
    Base(Base),
    End,
}

/// What `body` finds in a record, or else in which one to go on.
#[inline(always)]
fn step<W: Words + Copy, S: Seek, T>(
    look: &Look<W>,
    checked: impl Checked,
    (rank, at, depth): (u32, Reference, usize),
    sought: S,
    body: &mut impl FnMut(Link<'_, W>, S::Sought) -> Result<Option<T>, Malformed>,
) -> Result<Step<T>, Malformed> {
    let (words, version) = (look.words, look.version);
    let record = Record::in_block(words, at.word as usize, Owner::Modex, rank)?;
    if !checked.has(at.word, version) {
        record.check()?;
        // What was written meanwhile is not what was checked.
        if look.is_true() {
            checked.add(at.word, version);
        }
    }
    if let Some(there) = sought.seek(&record)?
        && let Some(found) = body(Link { record: &record, words, at, version, depth }, there)?
    {
        return Ok(Step::Found(found));
    }
    Ok(record.base()?.map_or(Step::End, Step::Base))
}

/// As [`walk`], again and again as long as something changes, up to [`ATTEMPTS`] times.
///
/// A block that makes no sense may have become another rank's; then the reference to it has changed, too. Only what makes no sense
/// twice is bad.
#[inline(always)]
pub fn read<J: Words, W: Words + Copy, C: Checked, S: Seek, T>(
    job: &JobWords<J>,
    rank: u32,
    segment: impl Fn(u32) -> Option<(W, C)>,
    sought: S,
    mut body: impl FnMut(Link<'_, W>, S::Sought) -> Result<Option<T>, Malformed>,
) -> Walk<T> {
    let mut suspect = None;
    for _ in 0..ATTEMPTS {
        match walk(job, rank, &segment, sought, &mut body) {
            Walk::Changed => {}
            Walk::Bad(_, first) if suspect != Some(first) => suspect = Some(first),
            other => return other,
        }
    }
    Walk::Changed
}
