//! Other processes, as `/proc` shows them.
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The name that the kernel has for a process; a question mark where there is none.
pub fn command(pid: i32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_else(|_| b"?".to_vec());
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// The environment that a process was started with.
///
/// # Errors
/// The kernel's, for instance for a process of another user.
pub fn environment(pid: i32) -> io::Result<BTreeMap<OsString, OsString>> {
    let bytes = fs::read(format!("/proc/{pid}/environ"))?;
    let variables = bytes.split(|byte| *byte == 0).filter_map(|word| {
        let at = word.iter().position(|byte| *byte == b'=')?;
        Some((OsStr::from_bytes(&word[..at]).to_owned(), OsStr::from_bytes(&word[at + 1..]).to_owned()))
    });
    Ok(variables.collect())
}

/// A file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapped {
    /// Its path, or the name of anonymous memory (`/memfd:NAME`).
    pub path: PathBuf,
    /// Its inode.
    pub inode: u64,
    /// True if the path leads to it no more.
    pub is_gone: bool,
}

/// The state of a process, as a letter: `T` where a signal has stopped it, `t` where a debugger holds it, `Z` where it has
/// ended.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Words for what holds a process that does not run, and what to do; none for one that does.
pub fn held(pid: i32) -> Option<(&'static str, String)> {
    match state(pid)? {
        'T' => Some(("is stopped by a signal", format!("kill -CONT {pid} lets it go on"))),
        't' => Some(("is held by a debugger", "let it go on in the debugger, or detach that".to_owned())),
        _ => None,
    }
}

/// The files that a process has mapped, each once.
///
/// # Errors
/// The kernel's, for instance for a process of another user.
pub fn mapped(pid: i32) -> io::Result<Vec<Mapped>> {
    let maps = fs::read(format!("/proc/{pid}/maps"))?;
    let mut all: Vec<Mapped> = maps.split(|byte| *byte == b'\n').filter_map(mapping).collect();
    all.sort();
    all.dedup();
    Ok(all)
}

/// Says why a process cannot be looked at.
pub fn unseen(pid: i32, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no process {pid}"),
        _ => format!("process {pid} ({}) cannot be looked at: {error}", command(pid)),
    }
}

/// Reads a line: addresses, rights, offset, device, inode, and the path, which may have anything in it.
fn mapping(line: &[u8]) -> Option<Mapped> {
    const GONE: &[u8] = b" (deleted)";
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let inode = std::str::from_utf8(fields.nth(4)?).ok()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    let (path, is_gone) = match path.strip_suffix(GONE) {
        Some(path) => (path, true),
        None => (path, false),
    };
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    (inode != 0).then_some(Mapped { path, inode, is_gone })
}

/// Inodes of the sockets that a process has open.
pub fn sockets(pid: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

/// The inode of the socket that listens under an abstract name.
pub fn listening(name: &str) -> Option<u64> {
    let table = fs::read("/proc/net/unix").ok()?;
    let table = String::from_utf8_lossy(&table);
    let of = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let listens = fields.get(3).is_some_and(|flags| *flags == "00010000");
        (listens && fields.get(7).and_then(|path| path.strip_prefix('@')) == Some(name))
            .then(|| fields[6].parse().ok())?
    };
    table.lines().find_map(of)
}

/// The process that listens there, where it is seen from here.
pub fn listener(name: &str) -> Option<i32> {
    let inode = listening(name)?;
    all().into_iter().find(|pid| sockets(*pid).contains(&inode))
}

/// A name that processes of one machine share only where they are in one namespace of a kind.
pub fn namespace(pid: i32, kind: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()
}

/// All processes that are seen from here.
pub fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line = b"7f-80 r-xp 00000000 fe:01 1234                    /a b/lib.so (deleted)";
        assert_eq!(mapping(line), Some(Mapped { path: "/a b/lib.so".into(), inode: 1234, is_gone: true }));
        assert_eq!(mapping(b"7f-80 rw-p 00000000 00:00 0 "), None);
        assert_eq!(mapping(b"7f-80 rw-p 00000000 00:00 0                          [heap]"), None);
        assert_eq!(mapping(b""), None);
    }

    #[test]
    fn the_own_process_is_seen() {
        let own = std::process::id() as i32;
        assert!(all().contains(&own) && !mapped(own).unwrap().is_empty());
        assert!(environment(own).is_ok() && namespace(own, "net").is_some());
        assert_eq!(command(i32::MAX), "?");
    }
}
