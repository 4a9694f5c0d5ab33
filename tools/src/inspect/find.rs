//! Descriptors of segments in other processes, by the names that servers give them, and segments that are files under a
//! name. A name is only a hint: anybody may give it, and what is behind it is checked when it is read.
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::Pid;

use crate::doctor::process;
use crate::family::descendants;

/// Beginning of the names of segments.
const PREFIX: &[u8] = b"/memfd:instanton-";

/// A part of a job, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The words that change.
    Job,
    /// Job information.
    Info,
    /// Data that ranks have posted for their node.
    Modex,
    /// Data that they have posted for other nodes alone: it is never handed out.
    Hidden,
}

impl Kind {
    const ALL: [(Kind, &'static str); 4] =
        [(Kind::Job, "job"), (Kind::Info, "info"), (Kind::Modex, "modex"), (Kind::Hidden, "hidden")];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A descriptor that was opened anew, or the reason why it cannot be.
#[derive(Debug)]
pub struct Part {
    /// The part, as its name says.
    pub kind: Kind,
    /// The descriptor.
    pub file: Result<File, String>,
}

/// The holder of a job's segments.
#[derive(Clone, Debug)]
pub enum Holder {
    /// A process.
    Process(i32),
    /// A directory, and whether the writer of the files in it lives, in whatever namespace.
    Name(PathBuf, bool),
}

/// The parts of a job that are in one place.
#[derive(Debug)]
pub struct Found {
    /// The namespace, as the names of memory say; of a long one, its beginning.
    pub nspace: String,
    /// The holder.
    pub holder: Holder,
    /// The parts, by kind.
    pub parts: Vec<Part>,
}

/// The jobs that are meant: of a namespace, of a process, of a path, or all.
///
/// # Errors
/// A line, where there is none.
pub fn jobs(target: Option<&str>) -> Result<Vec<Found>, String> {
    let Some(target) = target else {
        let found = held(process::all(), |_, _| true);
        let none = "there is no job whose memory you may look at; `instanton ps` shows what runs";
        return if found.is_empty() { Err(none.into()) } else { Ok(found) };
    };
    if target.contains('/') {
        return Ok(vec![named_at(Path::new(target)).map_err(|error| format!("{target}: {error}"))?]);
    }
    if let Ok(pid) = target.parse::<i32>() {
        let found = held([pid], |_, _| true);
        if !found.is_empty() {
            return Ok(found);
        }
        // A user knows the command, below which a launcher and its nodes hold the memory.
        return by_rank(pid).or_else(|line| {
            let below = held(descendants(Pid::from_raw(pid)).into_iter().map(Pid::as_raw), |_, _| true);
            if below.is_empty() { Err(line) } else { Ok(below) }
        });
    }
    let found = held(process::all(), |nspace, _| nspace == target.as_bytes());
    match found.is_empty() {
        true => Err(format!("no process that you may look at holds memory of namespace {target}")),
        false => Ok(found),
    }
}

/// A rank has no descriptors: it closes them once it has mapped. The process that holds the same memory is its server.
fn by_rank(pid: i32) -> Result<Vec<Found>, String> {
    let shown = format!("process {pid} ({})", process::command(pid));
    let mapped = process::mapped(pid).map_err(|error| process::unseen(pid, &error))?;
    let inodes: BTreeSet<u64> = mapped
        .iter()
        .filter(|mapped| named(mapped.path.as_os_str().as_bytes()).is_some())
        .map(|mapped| mapped.inode)
        .collect();
    if inodes.is_empty() {
        return Err(format!("{shown} holds and maps no segment; `instanton doctor {pid}` says what it is on"));
    }
    let jobs: BTreeSet<Vec<u8>> =
        mapped.iter().filter_map(|mapped| Some(named(mapped.path.as_os_str().as_bytes())?.1.to_vec())).collect();
    let mut found =
        held(process::all(), |nspace, inode| jobs.contains(nspace) && inode.is_none_or(|it| inodes.contains(&it)));
    // A server has newer segments, too, which the rank has not mapped yet.
    let of = |found: &Found| match found.holder {
        Holder::Process(pid) => Some(pid),
        Holder::Name(..) => None,
    };
    let servers: BTreeSet<i32> = found.iter().filter_map(of).collect();
    found = held(servers, |nspace, _| jobs.contains(nspace));
    match found.is_empty() {
        true => Err(format!("{shown} maps segments that no process which you may look at holds: its server is gone")),
        false => Ok(found),
    }
}

/// The parts that some processes hold; `wanted` is asked with the namespace, and the inode of a job's own segment.
fn held(pids: impl IntoIterator<Item = i32>, wanted: impl Fn(&[u8], Option<u64>) -> bool) -> Vec<Found> {
    let mut all: BTreeMap<(Vec<u8>, i32), Vec<Part>> = BTreeMap::new();
    // This process has what it has just opened.
    let own = std::process::id() as i32;
    for pid in pids.into_iter().filter(|pid| *pid != own) {
        let mut seen = BTreeSet::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            let Some((kind, nspace)) = named(link.as_os_str().as_bytes()) else { continue };
            // One that was opened in the same way as by whom it is held may be had twice.
            let inode = fs::metadata(entry.path()).map(|found| found.ino()).ok();
            if !wanted(nspace, inode.filter(|_| kind == Kind::Job)) || inode.is_some_and(|inode| !seen.insert(inode)) {
                continue;
            }
            let file = File::open(entry.path()).map_err(|error| format!("it cannot be opened: {error}"));
            all.entry((nspace.to_vec(), pid)).or_default().push(Part { kind, file });
        }
    }
    let found = all.into_iter().map(|((nspace, pid), mut parts)| {
        parts.sort_by_key(|part| part.kind);
        Found { nspace: String::from_utf8_lossy(&nspace).into_owned(), holder: Holder::Process(pid), parts }
    });
    found.collect()
}

/// The files of a writer that has taken a name.
fn named_at(path: &Path) -> io::Result<Found> {
    let (mut parts, mut has_writer) = (Vec::new(), false);
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(kind) = of_file(name.as_bytes()) else { continue };
        // Without `O_NONBLOCK`, opening a FIFO waits for its writer.
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = File::options().read(true).custom_flags(flags.bits()).open(entry.path());
        let file = file.and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no file")),
        });
        if let (Kind::Job, Ok(job)) = (kind, &file) {
            has_writer = instanton::store::named::has_writer(job)?;
        }
        parts.push(Part { kind, file: file.map_err(|error| format!("it cannot be opened: {error}")) });
    }
    if parts.is_empty() {
        return Err(io::Error::other("there is no job"));
    }
    parts.sort_by_key(|part| part.kind);
    Ok(Found { nspace: String::new(), holder: Holder::Name(path.to_owned(), has_writer), parts })
}

/// The part that a file under a name is.
fn of_file(name: &[u8]) -> Option<Kind> {
    let is_numbered = |kind: &str| {
        let number = name.strip_prefix(kind.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
    };
    match name {
        b"job" => Some(Kind::Job),
        _ => [Kind::Info, Kind::Modex].into_iter().find(|kind| is_numbered(kind.name())),
    }
}

/// Reads the name of a segment: `/memfd:instanton-KIND:NAMESPACE (deleted)`.
fn named(link: &[u8]) -> Option<(Kind, &[u8])> {
    let name = link.strip_prefix(PREFIX)?;
    let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
    let at = name.iter().position(|byte| *byte == b':')?;
    let kind = Kind::ALL.iter().find(|(_, word)| word.as_bytes() == &name[..at])?.0;
    Some((kind, &name[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_known_by_its_name() {
        assert_eq!(named(b"/memfd:instanton-job:a:b (deleted)"), Some((Kind::Job, &b"a:b"[..])));
        assert_eq!(named(b"/memfd:instanton-hidden:j"), Some((Kind::Hidden, &b"j"[..])));
        for other in [&b"/memfd:instanton-page (deleted)"[..], b"/memfd:instanton-x:j", b"/tmp/instanton-job:j", b""] {
            assert_eq!(named(other), None);
        }
        for (at, (kind, _)) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
        }
    }
}
