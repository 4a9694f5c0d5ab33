//! The 64 bytes in front of every segment.
use crate::words::{Words, WordsMut};
use crate::{crc, high, low, pair, sync::Ordering};

/// `INSTNTN1` in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"INSTNTN1");
/// Goes up with every change of what any byte means.
pub const VERSION: u32 = 5;
/// Words of a header.
pub const WORDS: usize = 8;
/// The word with the number of ranks.
pub(crate) const RANKS: usize = 5;
const _: () = assert!(WORDS * 8 == 64);

/// The content of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The words of a job that change.
    Job,
    /// Job information of one generation.
    Info,
    /// Blocks with the records of ranks.
    Modex,
    /// Pin slots of one reader.
    Page,
}

impl Kind {
    const ALL: [(Kind, u32); 4] = [(Kind::Job, 1), (Kind::Info, 2), (Kind::Modex, 3), (Kind::Page, 4)];

    #[inline]
    const fn number(self) -> u32 {
        Self::ALL[self as usize].1
    }
}

/// A header that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The content of the segment.
    pub kind: Kind,
    /// Bytes of the segment.
    pub length: u64,
    /// Random; the same in all segments of one job.
    pub job: u64,
    /// The generation of an info segment, the number of a modex segment or page.
    pub number: u64,
    /// Ranks that the job segment has room for.
    pub ranks: u64,
}

/// Reason why a segment cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadHeader {
    /// Not one of ours, or torn.
    Magic {
        /// The bytes in its place.
        found: u64,
    },
    /// Written by another version of the layout.
    Version {
        /// Version of the segment.
        found: u32,
    },
    /// A kind that this version does not know.
    Kind {
        /// Kind of the segment.
        found: u32,
    },
    /// The memory is shorter than the header says.
    Length {
        /// Bytes there are.
        found: u64,
        /// Bytes there should be.
        expected: u64,
    },
    /// The header's own checksum is wrong.
    Checksum,
}

impl core::fmt::Display for BadHeader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            BadHeader::Magic { found } => write!(f, "not a segment of ours (it begins with {found:#018x})"),
            BadHeader::Version { found } => write!(f, "layout version {found}, we know {VERSION}"),
            BadHeader::Kind { found } => write!(f, "segment kind {found} is unknown"),
            BadHeader::Length { found, expected } => write!(f, "{found} bytes, its header says {expected}"),
            BadHeader::Checksum => f.write_str("the header's checksum is wrong"),
        }
    }
}

impl std::error::Error for BadHeader {}

impl Header {
    fn encode(&self) -> [u64; WORDS] {
        let mut words =
            [MAGIC, pair(VERSION, self.kind.number()), self.length, self.job, self.number, self.ranks, 0, 0];
        words[7] = u64::from(crc::of(&words[..7]));
        words
    }

    /// Puts the header in front of a segment.
    pub fn write<W: WordsMut>(&self, words: &W) {
        for (at, word) in self.encode().into_iter().enumerate() {
            words.store(at, word, Ordering::Relaxed);
        }
    }

    /// Returns whether a segment whose header was read before has that kind and number.
    #[inline]
    pub fn names<W: Words>(words: &W, kind: Kind, number: u64) -> bool {
        words.load(1) == Ok(pair(VERSION, kind.number())) && words.load(4) == Ok(number)
    }

    /// Reads and checks the header of a segment.
    ///
    /// # Errors
    /// [`BadHeader`] says what is wrong with it.
    pub fn read<W: Words>(words: &W) -> Result<Self, BadHeader> {
        let short = BadHeader::Length { found: words.len() as u64 * 8, expected: (WORDS * 8) as u64 };
        let mut header = [0; WORDS];
        for (at, word) in header.iter_mut().enumerate() {
            *word = words.load(at).map_err(|_| short)?;
        }
        if header[0] != MAGIC {
            return Err(BadHeader::Magic { found: header[0] });
        }
        if low(header[1]) != VERSION {
            return Err(BadHeader::Version { found: low(header[1]) });
        }
        if header[7] != u64::from(crc::of(&header[..7])) {
            return Err(BadHeader::Checksum);
        }
        let found = high(header[1]);
        let kind = Kind::ALL.iter().find(|(_, n)| *n == found).ok_or(BadHeader::Kind { found })?.0;
        if header[2] != words.len() as u64 * 8 {
            return Err(BadHeader::Length { found: words.len() as u64 * 8, expected: header[2] });
        }
        Ok(Self { kind, length: header[2], job: header[3], number: header[4], ranks: header[5] })
    }
}
