//! Encoding of the modex exchange: the blobs that travel between nodes in the host's hands.
//!
//! Hosts put the blobs of all nodes one after the other, in any order, and may leave out a node's own or not. So each
//! says where it ends and whose it is:
//!
//! ```text
//! 0   4  magic "INSB"
//! 4   2  version
//! 6   2  zero
//! 8   8  length of what follows the header
//! 16  4  CRC-32C of what follows the header, filled up with zeros to whole words
//! 20  4  zero
//! 24     an rkyv archive: the sender, the entries of each rank, and whether its part of the meeting has failed
//! ```
#![allow(missing_docs, reason = "rkyv's derive makes types without documentation; every item written here has its own")]

use instanton_layout::crc::Crc;
use rkyv::{Archive, Deserialize, Serialize};

use super::error::WriteError;
use super::writer::JobWriter;
use crate::data::{Key, Posted, Proc, Rank, Status, archive};

const HEADER: usize = 24;
const MAGIC: [u8; 4] = *b"INSB";
const VERSION: u16 = 3;

/// The server that made a blob.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The server's name, for people.
    pub server: Proc,
    /// Number that tells it from every other server of the job, whatever their names: what comes from one of the same
    /// number counts as its own, and is left out. A random one will do.
    pub identity: u64,
}

/// Data that one process has posted for others.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct RankData {
    /// The process.
    pub proc: Proc,
    /// Number of its commits by then.
    pub commits: u64,
    /// GLOBAL and REMOTE entries; possibly none, which says that it has posted.
    pub entries: Vec<Posted>,
}

/// Failure of a node's part of a collective: hosts that do not look at what they are told of it
/// (`PMIX_LOCAL_COLLECTIVE_STATUS`) carry this to the other nodes all the same.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status that it failed with.
    pub status: Status,
    /// Participants that have not arrived because they are dead.
    pub gone: Vec<Proc>,
}

#[derive(Archive, Serialize, Deserialize)]
struct Body {
    sender: Sender,
    ranks: Vec<RankData>,
    failure: Option<Failure>,
}

/// Content of a row of blobs of other nodes.
#[derive(Debug, Default, PartialEq)]
pub struct Others {
    /// Data that their processes have posted, each with the identity of the server that sent it.
    pub ranks: Vec<(u64, RankData)>,
    /// The first failure, with all dead participants.
    pub failure: Option<Failure>,
}

impl Others {
    /// Adds what more nodes sent.
    pub fn add(&mut self, more: Others) {
        self.ranks.extend(more.ranks);
        self.failure = match (self.failure.take(), more.failure) {
            (Some(first), Some(more)) => Some(Failure { gone: [first.gone, more.gone].concat(), ..first }),
            (first, more) => first.or(more),
        };
    }
}

/// A blob that cannot be made or read. Each says at which byte of the row it begins.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the texts say what each field is")]
pub enum BlobError {
    /// Something that is too short behind the last blob.
    #[error("at byte {at}: {left} bytes are left, and a blob begins with a header of {HEADER}")]
    Header { at: usize, left: usize },
    /// Something that is no blob.
    #[error("at byte {at}: no blob of a fence: it begins with \"{}\" instead of \"INSB\"", magic.escape_ascii())]
    Magic { at: usize, magic: [u8; 4] },
    /// A blob of another version.
    #[error("at byte {at}: a blob of version {version}; this library reads {VERSION}")]
    Version { at: usize, version: u16 },
    /// A blob with something where this version has nothing.
    #[error("at byte {at}: bytes of its header that have to be 0 are not")]
    Reserved { at: usize },
    /// A blob that was cut off.
    #[error("at byte {at}: a blob of {length} bytes, of which {left} are there")]
    Length { at: usize, length: u64, left: usize },
    /// A blob that was damaged.
    #[error("at byte {at}: {length} bytes do not have the checksum they came with")]
    Checksum { at: usize, length: usize },
    /// A blob that is none inside, or cannot become one.
    #[error("at byte {at}: {source}")]
    Body { at: usize, source: archive::ArchiveError },
}

/// Reason why data of a node cannot be collected or taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The blob.
    #[error("{0}")]
    Blob(#[from] BlobError),
    /// The records.
    #[error("{0}")]
    Write(#[from] WriteError),
}

/// Outcome of a row of blobs ([`JobWriter::inbound`]).
#[derive(Debug, Default, PartialEq)]
pub struct Inbound {
    /// Ranks that have posted something new.
    pub ranks: Vec<Rank>,
    /// Processes whose data was left aside: they run here, or belong to another job, or to none.
    pub left_aside: Vec<Proc>,
    /// The failure that another node has reported.
    pub failure: Option<Failure>,
}

impl JobWriter {
    /// Data that these ranks of this node have posted for other nodes since it was last taken, as one blob for all of
    /// them. A rank that has posted nothing is named in it, too.
    ///
    /// ```
    /// use instanton::data::{Info, Key, Nspace, Posted, Proc, Rank, Scope, Value, keys};
    /// use instanton::store::exchange::Sender;
    /// use instanton::store::{JobInfo, JobWriter, Limits, Question};
    /// let nspace = Nspace::new("job")?;
    /// let maps = [Info::new(keys::NODE_MAP, "alpha,beta"), Info::new(keys::PROC_MAP, "0;1")];
    /// let writer = |host| -> Result<JobWriter, Box<dyn std::error::Error>> {
    ///     let info = JobInfo::from_infos(&nspace, 1, &maps, host)?;
    ///     Ok(JobWriter::create(&nspace, info, &Limits::default())?)
    /// };
    /// let (mut alpha, mut beta) = (writer("alpha")?, writer("beta")?);
    /// let sender = |n| Sender { server: Proc::new(Nspace::new("servers").unwrap(), Rank(n)), identity: n.into() };
    /// alpha.update(Rank(0), &[Posted::new(Scope::GLOBAL, Key::new("card")?, "of rank 0")])?;
    /// // A fence collects on each node, carries all to all, in any order and with a node's own or not, and is over.
    /// let mut all = beta.outbound(&sender(1), [Rank(1)])?;
    /// all.extend(alpha.outbound(&sender(0), [Rank(0)])?);
    /// assert_eq!(beta.inbound(&sender(1), &all)?.ranks, [Rank(0)]);
    /// assert_eq!(beta.reader().get(&Question::new(Rank(0), "card"))?, Value::from("of rank 0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ExchangeError`]; the next call carries the same then.
    pub fn outbound(
        &mut self,
        sender: &Sender,
        ranks: impl IntoIterator<Item = Rank>,
    ) -> Result<Vec<u8>, ExchangeError> {
        let mut taken: Vec<RankData> = Vec::new();
        let mut failed = None;
        for rank in ranks {
            match self.take_outbound_new(rank) {
                Ok(entries) => {
                    let proc = Proc::new(self.nspace().clone(), rank);
                    taken.push(RankData { proc, commits: 0, entries });
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let keys = |of: &RankData| (of.proc.rank, of.entries.iter().map(|posted| posted.key.clone()).collect());
        let sent: Vec<(Rank, Vec<Key>)> = taken.iter().map(keys).collect();
        let blob = match failed {
            None => write(sender, taken, None).map_err(ExchangeError::from),
            Some(error) => Err(error.into()),
        };
        if blob.is_err() {
            sent.into_iter().for_each(|(rank, keys)| self.put_back_outbound(rank, keys));
        }
        blob
    }

    /// Takes in what other nodes have sent: a row of blobs, in any order, this node's own among them or not. All of it
    /// is looked at before any is stored. Of two rows that a rank has posted in, the one that is taken in last counts.
    ///
    /// # Errors
    /// [`ExchangeError`] for bytes that are no row of blobs, of which nothing is stored, and where there is no room.
    pub fn inbound(&mut self, own: &Sender, row: &[u8]) -> Result<Inbound, ExchangeError> {
        let Others { ranks, failure } = read(row, own)?;
        let mut inbound = Inbound { failure, ..Inbound::default() };
        for (_, RankData { proc, entries, .. }) in ranks {
            if proc.nspace != *self.nspace() || self.is_local(proc.rank) {
                inbound.left_aside.push(proc);
            } else if !entries.is_empty() {
                self.update(proc.rank, &entries)?;
                inbound.ranks.push(proc.rank);
            }
        }
        Ok(inbound)
    }
}

/// One node's blob.
///
/// # Errors
/// [`BlobError::Body`] for what is too large.
pub fn write(sender: &Sender, ranks: Vec<RankData>, failure: Option<Failure>) -> Result<Vec<u8>, BlobError> {
    let body = Body { sender: sender.clone(), ranks, failure };
    let body = archive::encode(&body).map_err(|source| BlobError::Body { at: 0, source })?;
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&(body.len() as u64).to_le_bytes());
    out.extend_from_slice(&crc32c(&body).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&body);
    Ok(out)
}

/// Everything in a row of blobs that `own` did not send.
///
/// # Errors
/// [`BlobError`] for the first that is none.
pub fn read(data: &[u8], own: &Sender) -> Result<Others, BlobError> {
    let mut out = Others::default();
    let mut at = 0;
    while at < data.len() {
        let left = &data[at..];
        let Some(header) = left.first_chunk::<HEADER>() else {
            return Err(BlobError::Header { at, left: left.len() });
        };
        let (magic, rest) = (header.first_chunk::<4>().copied().unwrap_or_default(), &left[HEADER..]);
        if magic != MAGIC {
            return Err(BlobError::Magic { at, magic });
        }
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(BlobError::Version { at, version });
        }
        if header[6..8] != [0; 2] || header[20..] != [0; 4] {
            return Err(BlobError::Reserved { at });
        }
        let mut word = [0; 8];
        word.copy_from_slice(&header[8..16]);
        let length = u64::from_le_bytes(word);
        let body = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let Some(body) = body else { return Err(BlobError::Length { at, length, left: rest.len() }) };
        let crc = u32::from_le_bytes([header[16], header[17], header[18], header[19]]);
        if crc32c(body) != crc {
            return Err(BlobError::Checksum { at, length: body.len() });
        }
        let Body { sender, ranks, failure } = archive::decode(body).map_err(|source| BlobError::Body { at, source })?;
        if sender.identity != own.identity {
            let ranks = ranks.into_iter().map(|of| (sender.identity, of)).collect();
            out.add(Others { ranks, failure });
        }
        at += HEADER + body.len();
    }
    Ok(out)
}

/// Returns whether these bytes are a row of blobs.
pub fn is_exchange(data: &[u8]) -> bool {
    let nobody = crate::data::Nspace::new("").map(|nspace| Sender { server: Proc::new(nspace, Rank(0)), identity: 0 });
    nobody.is_ok_and(|nobody| read(data, &nobody).is_ok())
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        crc.slice(&[u64::from_le_bytes(word)]);
    }
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Scope, Value};

    fn sender(identity: u64) -> Sender {
        Sender { server: Proc::new(Nspace::new("servers").unwrap(), Rank(0)), identity }
    }

    fn of_rank(rank: u32) -> RankData {
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(rank));
        let entry =
            Posted { scope: Scope::GLOBAL, key: Key::new("endpoint").unwrap(), value: Value::from(vec![7; 100]) };
        RankData { proc, commits: 1, entries: vec![entry] }
    }

    #[test]
    fn a_row_of_blobs_comes_apart_without_the_own_one() {
        let failure = |n: u64| Failure { status: Status(-(n as i32)), gone: vec![of_rank(n as u32).proc] };
        let blob = |n| write(&sender(n), vec![of_rank(n as u32)], (n > 1).then(|| failure(n))).unwrap();
        let blobs: Vec<_> = (1..=4).map(blob).collect();
        for order in [[0, 1, 2, 3], [2, 0, 1, 3], [1, 2, 0, 3]] {
            let row: Vec<u8> = order.iter().flat_map(|n| blobs[*n].clone()).collect();
            let Others { mut ranks, failure: failed } = read(&row, &sender(2)).unwrap();
            ranks.sort_by_key(|(sender, _)| *sender);
            assert_eq!(ranks, [(1, of_rank(1)), (3, of_rank(3)), (4, of_rank(4))]);
            assert_eq!(failed, Some(Failure { gone: [failure(3).gone, failure(4).gone].concat(), ..failure(3) }));
        }
        assert_eq!(read(&[], &sender(1)).unwrap(), Others::default());
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let good = write(&sender(1), vec![of_rank(1)], None).unwrap();
        for cut in 1..good.len() {
            assert!(read(&good[..cut], &sender(2)).is_err(), "cut at {cut}");
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&bad, &sender(2)).is_err(), "bit {bit}");
        }
    }
}
