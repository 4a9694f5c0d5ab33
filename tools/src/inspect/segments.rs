//! Segments of a job: what each holds, and where it is full.
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use instanton::data::{Rank, RankSet};
use instanton::store::{JobReader, MappedSegment, SegmentId};
use instanton_layout::header::{self, Header};
use instanton_layout::info::{Group, Index};
use instanton_layout::job::{self, JobWords, Reference};
use instanton_layout::words::{VecWords, Words};

use super::find::{Found, Holder, Kind, Part};

/// Most bytes of a segment that are copied: no segment that a server makes has more, but for a record of its own.
const MOST: u64 = 256 << 20;
/// Most ranks whose records are looked for.
const MOST_RANKS: u32 = 1 << 20;
/// Cells of the bar that shows where a segment is full.
pub const CELLS: usize = 32;

/// A segment that was looked at.
#[derive(Debug)]
pub struct Segment {
    /// The part, as its name says.
    pub kind: Kind,
    /// Generation of job information, number of a modex segment.
    pub number: Option<u64>,
    /// Bytes of it.
    pub bytes: u64,
    /// The bytes that something lies in, where that is known.
    pub used: Option<u64>,
    /// The share of each part of it that something lies in: 0 to 8.
    pub bar: Option<[u8; CELLS]>,
    /// Its contents, in words.
    pub holds: String,
    /// The fault, where it cannot be read.
    pub fault: Option<String>,
}

/// A job that was looked at.
pub struct Job {
    /// Its namespace, as the names of its segments say, or where these are files, its job information.
    pub nspace: String,
    /// The holder of them.
    pub holder: Holder,
    /// The segments.
    pub segments: Vec<Segment>,
    /// Number of the job information that counts.
    pub generation: u64,
    /// Commits so far, and one more.
    pub epoch: u64,
    /// Ranks that have posted anything.
    pub posted: RankSet,
    /// Reader of the job's values; none where its segments cannot be read.
    pub reader: Option<JobReader>,
}

impl Job {
    /// Reads the segments that were found. `verifies` looks at every checksum.
    pub fn read(found: Found, verifies: bool) -> Self {
        let mut segments = Vec::new();
        let mut copies: Vec<(Kind, VecWords)> = Vec::new();
        let mut mapped = Vec::new();
        for Part { kind, file } in found.parts {
            let file = match file {
                Ok(file) => file,
                Err(fault) => {
                    segments.push(Segment::broken(kind, 0, fault));
                    continue;
                }
            };
            let bytes = file.metadata().map_or(0, |found| found.len());
            match read(&file, bytes) {
                Ok((segment, words)) => {
                    segments.push(Segment { kind, ..segment });
                    copies.push((kind, words));
                }
                Err(fault) => {
                    segments.push(Segment::broken(kind, bytes, fault));
                    continue;
                }
            }
            if kind != Kind::Hidden {
                let part = match found.holder {
                    Holder::Process(_) => MappedSegment::map(file.as_fd()),
                    // Its owner could shorten it under us.
                    Holder::Name(..) => MappedSegment::copy(&file),
                };
                match part {
                    Ok(part) => mapped.push((segments.len() - 1, part)),
                    Err(error) => segments.last_mut().expect("pushed just now").fault = Some(error.to_string()),
                }
            }
        }
        let mut this = Self {
            nspace: found.nspace,
            holder: found.holder,
            segments,
            generation: 0,
            epoch: 0,
            posted: RankSet::default(),
            reader: None,
        };
        this.measure(&copies);
        this.attach(mapped, verifies);
        if let (Holder::Name(..), Some(Ok(nspace))) = (&this.holder, this.reader.as_ref().map(JobReader::nspace)) {
            this.nspace = nspace.to_string();
        }
        this.segments.sort_by_key(|segment| (segment.kind, segment.number));
        this
    }

    /// Returns whether something of it could not be read.
    pub fn is_damaged(&self) -> bool {
        self.reader.is_none() || self.segments.iter().any(|segment| segment.fault.is_some())
    }

    /// Has the store's reader take the segments, as a rank does.
    fn attach(&mut self, parts: Vec<(usize, MappedSegment)>, verifies: bool) {
        let (job, others): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(_, part)| part.id() == SegmentId::Job);
        // Of two jobs of one name, which a process may hold one after the other, the last counts.
        let Some((at, job)) = job.into_iter().next_back() else { return };
        let reader = match JobReader::attach(vec![job], None) {
            Ok(reader) => reader,
            Err(error) => return self.segments[at].fault = Some(error.to_string()),
        };
        for (at, part) in others {
            if let Err(error) = reader.add(part) {
                self.segments[at].fault.get_or_insert(error.to_string());
            }
        }
        if verifies && let Err(error) = reader.verify() {
            let info = self.segments.iter_mut().filter(|segment| segment.kind == Kind::Info);
            info.for_each(|segment| _ = segment.fault.get_or_insert(error.to_string()));
        }
        self.posted = (0..reader.rank_count().min(MOST_RANKS)).filter(|rank| reader.has_posted(Rank(*rank))).collect();
        self.reader = Some(reader);
    }

    /// Goes from the rank table to the records, and notes where they lie.
    fn measure(&mut self, copies: &[(Kind, VecWords)]) {
        let Some((_, words)) = copies.iter().find(|(kind, _)| *kind == Kind::Job) else { return };
        let words = JobWords::new(words);
        (self.generation, self.epoch) = (words.generation(), words.epoch());
        let mut areas: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        let modex: BTreeMap<u64, &VecWords> = copies
            .iter()
            .filter(|(kind, _)| *kind == Kind::Modex)
            .filter_map(|(_, words)| Some((Header::read(words).ok()?.number, words)))
            .collect();
        let record = |reference: Reference| {
            let words = modex.get(&u64::from(reference.segment))?;
            let bytes = words.load(reference.word as usize + 1).ok()? & u64::from(u32::MAX);
            Some((u64::from(reference.word) * 8, bytes))
        };
        for page in 0..job::pages(words.ranks().min(MOST_RANKS)) {
            let Some(place) = words.page(page) else { continue };
            let Some(table) = modex.get(&u64::from(place.segment)) else { continue };
            areas.entry(place.segment.into()).or_default().push((u64::from(place.word) * 8, 4096));
            for rank in page * job::PAGE..(page + 1) * job::PAGE {
                let Some(reference) = job::record(*table, place, rank as u32) else { continue };
                if let Some(area) = record(reference) {
                    areas.entry(reference.segment.into()).or_default().push(area);
                }
            }
        }
        for segment in self.segments.iter_mut().filter(|segment| segment.kind == Kind::Modex) {
            let Some(number) = segment.number else { continue };
            let mut areas = areas.remove(&number).unwrap_or_default();
            areas.push((0, (header::WORDS * 8) as u64));
            let records = areas.len() - 1;
            segment.used = Some(areas.iter().map(|(_, bytes)| bytes).sum::<u64>().min(segment.bytes));
            segment.bar = Some(bar(segment.bytes, &areas));
            segment.holds = format!("{records} records and pages of the rank table that are current");
        }
    }
}

impl Segment {
    fn broken(kind: Kind, bytes: u64, fault: String) -> Self {
        Self { kind, number: None, bytes, used: None, bar: None, holds: String::new(), fault: Some(fault) }
    }
}

/// Copies a segment, and says what its header and its first words say.
fn read(file: &File, bytes: u64) -> Result<(Segment, VecWords), String> {
    if bytes > MOST {
        return Err(format!("it has {bytes} bytes, and none is larger than {MOST}"));
    }
    let words = copy(file, bytes).map_err(|error| format!("it cannot be read: {error}"))?;
    let header = Header::read(&words).map_err(|error| error.to_string())?;
    let mut segment = Segment {
        kind: Kind::Job,
        number: Some(header.number),
        bytes,
        used: None,
        bar: None,
        holds: String::new(),
        fault: None,
    };
    match header.kind {
        header::Kind::Job => {
            let job = JobWords::new(&words);
            segment.number = None;
            segment.holds = format!(
                "generation {}, epoch {}, modex segments {} to {}, {} releases, room for {} ranks",
                job.generation(),
                job.epoch(),
                job.oldest(),
                job.newest(),
                job.releases(),
                job.ranks()
            );
        }
        header::Kind::Info => {
            let index = Index::read(&words).map_err(|error| error.to_string())?;
            segment.used = Some(bytes);
            segment.holds = format!(
                "processes: {}, nodes: {}, applications: {}, columns: {}; {} bytes are read first",
                index.size(),
                index.count(Group::Nodes),
                index.count(Group::Apps),
                index.columns(),
                index.front()
            );
        }
        header::Kind::Modex => segment.holds = "records for other nodes".into(),
        header::Kind::Page => return Err("it is a reader page".into()),
    }
    Ok((segment, words))
}

fn copy(file: &File, bytes: u64) -> io::Result<VecWords> {
    let mut copy = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    // One that is shortened meanwhile ends early, and its header says so.
    let mut at = 0;
    while at < copy.len() {
        match file.read_at(&mut copy[at..], at as u64)? {
            0 => break,
            n => at += n,
        }
    }
    copy.truncate(at);
    let (words, _) = copy.as_chunks::<8>();
    Ok(VecWords::of(&words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>()))
}

/// How much of each part of a segment lies in one of some areas.
fn bar(bytes: u64, areas: &[(u64, u64)]) -> [u8; CELLS] {
    let mut filled = [0u64; CELLS];
    let cell = bytes.div_ceil(CELLS as u64).max(1);
    for (at, len) in areas {
        let end = at.saturating_add(*len).min(bytes);
        let mut at = (*at).min(end);
        while at < end {
            let which = (at / cell) as usize;
            let next = ((which as u64 + 1) * cell).min(end);
            filled[which.min(CELLS - 1)] += next - at;
            at = next;
        }
    }
    filled.map(|bytes| (bytes.min(cell) * 8).div_ceil(cell) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_where_a_segment_is_full() {
        let bar = bar(3200, &[(0, 100), (150, 50), (3100, 1_000_000), (u64::MAX, 1)]);
        assert_eq!((bar[0], bar[1], bar[2], bar[31]), (8, 4, 0, 8));
        assert_eq!(super::bar(0, &[(0, 10)]), [0; CELLS]);
    }

    #[test]
    fn what_is_no_segment_is_told_with_its_fault() {
        let file = |bytes: &[u8]| {
            let path = std::env::temp_dir().join(format!("instanton-inspect-{}-{}", std::process::id(), bytes.len()));
            std::fs::write(&path, bytes).unwrap();
            let file = File::open(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            read(&file, bytes.len() as u64).map(|_| ()).unwrap_err()
        };
        assert!(file(&[]).contains("0 bytes"), "{}", file(&[]));
        assert!(file(&[7; 4096]).contains("not a segment of ours"));
        assert!(file(&[0; 63]).contains("56 bytes"));
    }
}
