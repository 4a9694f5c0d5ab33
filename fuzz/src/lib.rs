//! Parsers of bytes that others make: a function for each, which takes anything and returns whether it was well-formed.
//!
//! `cargo +nightly fuzz run PARSER` leads libFuzzer through one of them; `tests/fuzz.rs` of the workspace goes through all
//! of them with the stable compiler. The inputs in `corpus/PARSER` are where both begin.
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use instanton::data::maps::{Form, NodeMap, ProcMap};
use instanton::data::{DataArray, DataType, Info, Key, Nspace, Posted, Rank, Scope, Value, archive, keys};
use instanton::internal::client::from_variables;
use instanton::internal::control::{address, frame, handshake, rendezvous};
use instanton::internal::message::{Push, Reply};
pub use instanton::internal::pmi::is_pmi;
use instanton::internal::server::is_exchange;
pub use instanton::internal::stock::{is_ack, is_conversation, is_request};
use instanton::internal::sys::hwloc;
pub use instanton::internal::upstream::{is_answer, is_job_info, is_news};
use instanton::internal::wire::{self, zlib};
use instanton::store::{Have, JobInfo, JobReader, JobWriter, Limits, MappedSegment, Question};
use instanton_layout::crc::Crc;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Parser of some bytes, and whether it took them.
pub type Parser = fn(&[u8]) -> bool;

/// Every parser with its name.
pub const PARSERS: [(&str, Parser); 20] = [
    ("handshake", handshake),
    ("frame", frame),
    ("address", address),
    ("rendezvous", rendezvous),
    ("environment", environment),
    ("exchange", exchange),
    ("packed", packed),
    ("archive", archive),
    ("maps", maps),
    ("cpuset", cpuset),
    ("topology", topology),
    ("zlib", compressed),
    ("segments", segments),
    // The protocol of stock libraries: what their clients say, and their servers.
    ("ack", is_ack),
    ("request", is_request),
    ("conversation", is_conversation),
    ("answer", is_answer),
    ("job_info", is_job_info),
    ("news", is_news),
    // Lines of processes that speak PMI-1 or PMI-2, and of their launchers.
    ("pmi", is_pmi),
];

/// A frame's header, and as much of its body as there is.
fn parts(bytes: &[u8], most: usize) -> Option<(frame::Header, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    let header = frame::Header::parse(head, most).ok()?;
    Some((header, rest.get(..header.body)?))
}

/// The first frame of either side, before the peer is known.
pub fn handshake(bytes: &[u8]) -> bool {
    let Some((header, body)) = parts(bytes, frame::MAX_HANDSHAKE) else { return false };
    match header.kind {
        frame::Kind::Hello => frame::decode::<handshake::Hello>(header.kind, body).is_ok(),
        frame::Kind::Attach => frame::decode::<handshake::Attach>(header.kind, body).is_ok(),
        frame::Kind::Welcome => frame::decode::<handshake::Welcome>(header.kind, body).is_ok(),
        _ => false,
    }
}

/// A frame of a peer that is known.
pub fn frame(bytes: &[u8]) -> bool {
    let Some((header, body)) = parts(bytes, frame::MAX_BODY) else { return false };
    match header.kind {
        frame::Kind::Reply => frame::decode::<Reply>(header.kind, body).is_ok(),
        frame::Kind::Push => frame::decode::<Push>(header.kind, body).is_ok(),
        kind => frame::request_in(kind, body).is_ok(),
    }
}

/// A server's address in the environment.
pub fn address(bytes: &[u8]) -> bool {
    let read = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<address::Address>().ok());
    read.inspect(|read| assert_eq!(read.to_string().parse().as_ref(), Ok(read))).is_some()
}

/// A server's address as tools are told it, in files and by other tools.
pub fn rendezvous(bytes: &[u8]) -> bool {
    let read = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<rendezvous::Uri>().ok());
    read.inspect(|read| assert_eq!(read.to_string().parse().as_ref(), Ok(read))).is_some()
}

/// The variables that a client starts with, a `NAME=value` in each line.
pub fn environment(bytes: &[u8]) -> bool {
    let lines = bytes.split(|byte| *byte == b'\n');
    let variables = lines.filter_map(|line| Some(line.split_at(line.iter().position(|byte| *byte == b'=')?)));
    let variables: Vec<_> = variables.map(|(name, value)| (name, &value[1..])).collect();
    let value = |name: &str| {
        let (_, value) = variables.iter().find(|(other, _)| *other == name.as_bytes())?;
        Some(OsStr::from_bytes(value).to_owned())
    };
    from_variables(value, || variables.iter().map(|(name, _)| OsStr::from_bytes(name).to_owned())).is_ok()
}

/// Data of other nodes: as it comes, and behind a header that fits it.
pub fn exchange(bytes: &[u8]) -> bool {
    let mut crc = Crc::new();
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        crc.slice(&[u64::from_le_bytes(word)]);
    }
    let head = [b"INSB\x03\0\0\0", &(bytes.len() as u64).to_le_bytes()[..], &crc.value().to_le_bytes(), &[0; 4]];
    is_exchange(bytes) | is_exchange(&[&head.concat(), bytes].concat())
}

/// Packed values: their type, whether packs are described, and a pack.
pub fn packed(bytes: &[u8]) -> bool {
    let [ty, described, pack @ ..] = bytes else { return false };
    let form = if described % 2 == 0 { wire::Form::Plain } else { wire::Form::Described };
    let mut reader = wire::Reader::new(pack);
    let taken = reader.unpack(form, DataType((*ty).into()), 1000).is_ok();
    assert!(taken || reader.rest() == pack, "a reader that failed has moved");
    taken
}

/// A value as it lies in shared memory and in messages.
pub fn archive(bytes: &[u8]) -> bool {
    let read = archive::from_archive(bytes);
    read.is_ok_and(|value| archive::to_archive(&value).is_ok())
}

/// A map of nodes, and one of ranks.
pub fn maps(bytes: &[u8]) -> bool {
    let nodes = NodeMap::parse(bytes).is_ok_and(|map| {
        let text = map.to_text(Form::Bracket);
        let back = NodeMap::parse(&text).expect("what we write");
        assert!(map.names().take(100).eq(back.names().take(100)) && map.len() == back.len());
        map.position(b"node1").is_none_or(|at| map.name(at).is_some_and(|name| name == b"node1"))
    });
    let ranks = ProcMap::parse(bytes).is_ok_and(|map| {
        let back = ProcMap::parse(&map.to_text(Form::Bracket)).expect("what we write");
        map.rank_count() == back.rank_count() && map.len() == back.len()
    });
    nodes | ranks
}

/// A set of processing units. Without libhwloc none is taken.
pub fn cpuset(bytes: &[u8]) -> bool {
    let Some(set) = hwloc::Bitmap::parse(bytes) else { return false };
    let list = set.list().expect("what was read");
    let again = hwloc::Bitmap::parse(list.as_bytes()).and_then(|set| set.list());
    assert_eq!(again, Some(list));
    true
}

/// A machine's topology as XML. Without libhwloc none is taken.
pub fn topology(bytes: &[u8]) -> bool {
    hwloc::Topology::import(bytes, &[]).is_some()
}

/// Compressed bytes, and a map expression of the binary form.
pub fn compressed(bytes: &[u8]) -> bool {
    zlib::decompress(bytes, zlib::MOST).is_some() | zlib::expression(bytes, zlib::MOST).is_some()
}

/// Keys that are asked for in damaged segments.
const ASKED: [&str; 10] = [
    "scalar",
    "text",
    "blob",
    "array",
    keys::JOB_SIZE,
    keys::LOCAL_PEERS,
    keys::NODE_LIST,
    keys::NODE_MAP,
    keys::PROC_MAP,
    keys::HOSTNAME,
];

/// The bytes of the segments of a small job.
fn image() -> &'static Vec<Vec<u8>> {
    static IMAGE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let nspace = Nspace::new("job@1").expect("a name");
        let infos = [
            Info::new(keys::JOB_SIZE, 4u32),
            Info::new(keys::NODE_MAP, "alpha,beta"),
            Info::new(keys::PROC_MAP, "0,1;2,3"),
            Info::new(keys::TMPDIR, "/tmp/x"),
        ];
        let info = JobInfo::from_infos(&nspace, 2, &infos, "alpha").expect("a job");
        let mut writer = JobWriter::create(&nspace, info, &Limits::default()).expect("memory");
        for rank in (0..4).map(Rank) {
            let posted = [
                ("scalar", Value::from(rank)),
                ("text", Value::from("a text that is longer than a word")),
                ("blob", Value::from(vec![7; 100])),
                ("array", Value::from(DataArray::of([rank, Rank(9)]))),
            ];
            let posted = posted.map(|(key, value)| Posted::new(Scope::GLOBAL, Key::new(key).expect("a key"), value));
            writer.update(rank, &posted).expect("room");
        }
        let read = |fd: std::os::fd::BorrowedFd<'_>| std::fs::read(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        let segments = writer.segments(&Have::default());
        segments.into_iter().map(|(_, fd)| read(fd).expect("a segment")).collect()
    })
}

fn sealed(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let fd = memfd_create(c"damaged", MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC)?;
    File::from(fd.try_clone()?).write_all(bytes)?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&fd, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(fd)
}

/// The segments of a job, damaged: eight bytes each say which segment (1), where in it (3), and what is put there (4).
/// All of it is asked for.
pub fn segments(bytes: &[u8]) -> bool {
    let mut damaged = image().clone();
    for change in bytes.chunks_exact(8) {
        let count = damaged.len();
        let segment = &mut damaged[usize::from(change[0]) % count];
        // Most of a segment is empty.
        let used = segment.iter().rposition(|byte| *byte != 0).map_or(8, |last| last + 1).min(segment.len() - 4);
        let at = u32::from_le_bytes([change[1], change[2], change[3], 0]) as usize % used;
        segment[at..at + 4].copy_from_slice(&change[4..]);
    }
    let parts = damaged.iter().map(|bytes| MappedSegment::map(sealed(bytes).expect("a descriptor").as_fd()).ok());
    let Some(reader) = parts.collect::<Option<Vec<_>>>().and_then(|parts| JobReader::attach(parts, None).ok()) else {
        return false;
    };
    let ranks = [Rank(0), Rank(3), Rank(u32::MAX >> 1), Rank::WILDCARD, Rank::UNDEF];
    let found = ranks.into_iter().flat_map(|rank| ASKED.map(|key| reader.get(&Question::new(rank, key)).is_ok()));
    let found = found.filter(|found| *found).count();
    for rank in ranks {
        let _ = reader.all(rank);
        let _ = (reader.node_of(rank), reader.app_of(rank), reader.is_local(rank), reader.has_posted(rank));
    }
    let _ = (reader.job_size(), reader.own_node(), reader.verify());
    found > 0
}
