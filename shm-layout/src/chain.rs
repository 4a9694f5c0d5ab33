//! From a rank to its value: directory, rank table, newest record, and the records that it continues in.
//!
//! What the way leads through may change while it is gone. A walk is of one moment nevertheless: the reference in the rank table names
//! the newest record, whose version did not change while it was read; it names its base by place *and* version, and that base
//! stays as it is as long as the naming record is the newest. A base with another version is therefore a change, and the
//! walk begins anew at the rank table.
use crate::Malformed;
use crate::block::{self, Attempt};
use crate::job::{self, JobWords, Reference};
use crate::record::Record;
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

/// Goes from the rank table to the record in which `body` finds something, newest first, once.
///
/// `segment` gives the words of modex segments, and what is remembered of them. What `body` finds is of one moment.
///
/// SYNC POINT: that a base is complete where its version is the one that was named follows from the order in which the writer writes
/// (base, then the record that names it) and from [`block::write`]'s last store. Loom test `chain`.
#[inline(always)]
pub fn walk<J: Words, W: Words + Copy, C: Checked, T>(
    job: &JobWords<J>,
    rank: u32,
    segment: impl Fn(u32) -> Option<(W, C)>,
    mut body: impl FnMut(Link<'_, W>) -> Result<Option<T>, Malformed>,
) -> Walk<T> {
    let Some(page) = job.page(job::page_of(rank)) else { return Walk::Absent };
    let Some((words, _)) = segment(page.segment) else { return Walk::Unmapped(page.segment) };
    let Some(first) = job::record(&words, page, rank) else { return Walk::Absent };
    let (mut at, mut known) = (first, None);
    for depth in 0..LONGEST {
        let Some((words, checked)) = segment(at.segment) else { return Walk::Unmapped(at.segment) };
        // What comes of it is not handed through: that would take as long as finding it.
        let (mut found, mut base, mut new) = (None, None, None);
        let attempt = block::read(words, at.word as usize, rank, known, |record, version| {
            if !checked.has(at.word, version) {
                record.check()?;
                new = Some(version);
            }
            found = body(Link { record, words, at, version, depth })?;
            if found.is_none() {
                base = record.base()?;
            }
            Ok(())
        });
        match attempt {
            Attempt::Done(()) => {}
            Attempt::Changed => return Walk::Changed,
            Attempt::Bad(error) => return Walk::Bad(error, first),
        }
        if let Some(version) = new {
            checked.add(at.word, version);
        }
        match (found, base) {
            (Some(found), _) => return Walk::Found(found),
            (None, Some(base)) => (at, known) = (base.at, Some(base.version)),
            (None, None) => return Walk::Absent,
        }
    }
    Walk::Bad(Malformed::Chain, first)
}

/// As [`walk`], again and again as long as something changes, up to [`ATTEMPTS`] times.
///
/// A block that makes no sense may have become another rank's; then the reference to it has changed, too. Only what makes no sense
/// twice is bad.
#[inline(always)]
pub fn read<J: Words, W: Words + Copy, C: Checked, T>(
    job: &JobWords<J>,
    rank: u32,
    segment: impl Fn(u32) -> Option<(W, C)>,
    mut body: impl FnMut(Link<'_, W>) -> Result<Option<T>, Malformed>,
) -> Walk<T> {
    let mut suspect = None;
    for _ in 0..ATTEMPTS {
        match walk(job, rank, &segment, &mut body) {
            Walk::Changed => {}
            Walk::Bad(_, first) if suspect != Some(first) => suspect = Some(first),
            other => return other,
        }
    }
    Walk::Changed
}
