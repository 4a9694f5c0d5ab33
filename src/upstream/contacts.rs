//! Contact files of stock servers: where a tool finds one.
//!
//! A stock server writes its address, its release, its process and more into files `pmix.HOST.tool` and
//! `pmix.HOST.tool.NAME` in a directory of its session, somewhere below the temporary directory; the system's own
//! server writes `pmix.sys.HOST` into the system's. A server that is killed leaves them there. Servers of this library
//! write such files as well (`stock::contact`), for tools that know no other way; here they are left aside.
//!
//! Anybody may write into these directories: what counts is a file of the own user's or of root's, in directories of
//! theirs. The kernel says who is behind its address.
use std::cmp::Reverse;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::address::StockAddress;
use crate::data::{DataArray, Info, Nspace, Value, keys};
use crate::stock::contact::DIRECTORY;
use crate::sys::sock_diag;
use crate::trace;

/// More bytes than this are no address.
const MAX: u64 = 4096;
/// Directories below the temporary one that are gone into: servers nest theirs twice.
const MAX_DEPTH: usize = 6;
/// Most entries that are looked at.
const MAX_ENTRIES: usize = 1 << 16;

/// A server, as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Contact {
    /// Its address.
    pub address: StockAddress,
    /// The process that users know it by, where that is said.
    pub pid: Option<i32>,
}

impl Contact {
    /// Attributes of all that is known of the server (`PMIX_SERVER_INFO_ARRAY`); nothing where it listens no more.
    fn info(&self) -> Option<Info> {
        let owner = match sock_diag::owner_of_listener(self.address.socket) {
            Ok(owner) => Some(owner),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            // A container may forbid the question.
            Err(_) => None,
        };
        let server = &self.address.server;
        let mut known = vec![
            Info::new(keys::SERVER_NSPACE, Value::string(server.nspace.as_bytes())),
            Info::new(keys::SERVER_RANK, server.rank),
        ];
        known.extend(self.pid.map(|pid| Info::new(keys::SERVER_PIDINFO, pid as u32)));
        known.extend(owner.map(|owner| Info::new(keys::USERID, owner)));
        known.push(Info::new(keys::SERVER_URI, self.address.uri.as_str()));
        Some(Info::new(keys::SERVER_INFO_ARRAY, Value::DataArray(DataArray::of_info(known))))
    }
}

/// Descriptions of the servers that one could attach to, for `PMIX_QUERY_AVAIL_SERVERS`.
pub fn available() -> Vec<Info> {
    let directories = Directories::new(None, None);
    let mut all = directories.of_system();
    let others = directories.others();
    all.extend(
        others
            .into_iter()
            .filter(|other| all.iter().all(|known| known.address.uri != other.address.uri))
            .collect::<Vec<_>>(),
    );
    all.iter().filter_map(Contact::info).collect()
}

/// Reads a file with an address, and perhaps a release and a process on the lines behind it.
///
/// # Errors
/// The kernel's, and `InvalidData` for one that is not whole or has no such address.
pub fn read(path: &Path) -> io::Result<Contact> {
    parse(&content(File::open(path)?)?)
}

/// The servers below a temporary directory, those that have begun last first. `anybodys` takes those of other users
/// as well.
pub fn below(tmpdir: &Path, anybodys: bool) -> Vec<Contact> {
    search(tmpdir, anybodys, false)
}

/// The same, of servers of this library (`own`) or of all others.
fn search(tmpdir: &Path, anybodys: bool, own: bool) -> Vec<Contact> {
    let prefixes = hosts().map(|host| [b"pmix.", &host[..], b".tool"].concat());
    let is_meant = |name: &[u8]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let mut search = Search { anybodys, own, entries: 0, found: Vec::new() };
    search.walk(tmpdir, 0, &is_meant);
    search.found.sort_unstable_by_key(|(begun, _)| Reverse(*begun));
    let mut all: Vec<Contact> = Vec::new();
    for (_, path) in search.found {
        match trusted(&path, anybodys) {
            // A server has several files.
            Ok(contact) if all.contains(&contact) => {}
            Ok(contact) => all.push(contact),
            Err(error) => trace!("{} leads to no server: {error}", path.display()),
        }
    }
    all
}

/// The system's own server, where there is one.
pub fn of_system(tmpdir: &Path) -> Vec<Contact> {
    let paths = hosts().map(|host| tmpdir.join(OsStr::from_bytes(&[b"pmix.sys.", &host[..]].concat())));
    let found = |path: &PathBuf| match trusted(path, false) {
        Ok(contact) => Some(contact),
        Err(error) => {
            trace!("{} leads to no server: {error}", path.display());
            None
        }
    };
    paths.iter().filter_map(found).take(1).collect()
}

/// Directories with files of servers.
#[derive(Debug)]
pub struct Directories {
    of_session: PathBuf,
    of_system: PathBuf,
    /// True if the user has named that of sessions for the search.
    is_named: bool,
}

impl Directories {
    /// Directories that attributes name, or else the environment.
    pub fn new(of_session: Option<String>, of_system: Option<String>) -> Self {
        let variable = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let either = |named: Option<String>, name| named.map(PathBuf::from).or_else(|| variable(name));
        let of_session = either(of_session, "PMIX_SERVER_TMPDIR");
        let is_named = of_session.is_some();
        Directories {
            of_session: of_session.unwrap_or_else(env::temp_dir),
            of_system: either(of_system, "PMIX_SYSTEM_TMPDIR").unwrap_or_else(env::temp_dir),
            is_named,
        }
    }

    /// The processes of this library's servers that have files below the directory for sessions; none where the user
    /// has not named one.
    pub fn own_processes(&self) -> Option<Vec<i32>> {
        let found = self.is_named.then(|| search(&self.of_session, false, true))?;
        Some(found.iter().filter_map(|contact| contact.pid).collect())
    }

    /// The servers of the system.
    pub fn of_system(&self) -> Vec<Contact> {
        of_system(&self.of_system)
    }

    /// The servers in a process, whoever's it is where this one is root's.
    pub fn of_process(&self, pid: i32) -> Vec<Contact> {
        self.wanted(nix::unistd::geteuid().is_root(), |contact| contact.pid == Some(pid))
    }

    /// The servers of that namespace.
    pub fn of_namespace(&self, nspace: &Nspace) -> Vec<Contact> {
        self.wanted(false, |contact| contact.address.server.nspace == *nspace)
    }

    /// All servers but those in this process.
    pub fn others(&self) -> Vec<Contact> {
        self.wanted(false, |contact| contact.pid != Some(std::process::id() as i32))
    }

    fn wanted(&self, anybodys: bool, wanted: impl Fn(&Contact) -> bool) -> Vec<Contact> {
        let mut found = below(&self.of_session, anybodys);
        found.retain(wanted);
        found
    }
}

/// This machine's name, as servers know it: whole, and without its domain.
fn hosts() -> [Vec<u8>; 2] {
    let name = nix::unistd::gethostname().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
    let short = name.split(|byte| *byte == b'.').next().unwrap_or_default().to_vec();
    [name, short]
}

struct Search {
    anybodys: bool,
    /// True if files of this library's servers are meant, and no others.
    own: bool,
    entries: usize,
    found: Vec<(SystemTime, PathBuf)>,
}

impl Search {
    fn walk(&mut self, directory: &Path, depth: usize, is_meant: &dyn Fn(&[u8]) -> bool) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        let is_of_own = |name: &[u8]| name.starts_with(DIRECTORY.as_bytes());
        let is_own = directory.file_name().is_some_and(|name| is_of_own(name.as_bytes()));
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return trace!("{} holds too much to be searched for servers", directory.display());
            }
            let name = entry.file_name();
            let name = name.as_bytes();
            if name.starts_with(b".") || is_of_own(name) && !self.own {
                continue;
            }
            // Of a link, this is the link itself.
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() && depth < MAX_DEPTH && is_trusted(&found, self.anybodys) {
                self.walk(&entry.path(), depth + 1, is_meant);
            } else if found.is_file() && is_meant(name) && is_own == self.own {
                self.found.push((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path()));
            }
        }
    }
}

/// Returns whether what lies there is the own user's or root's.
fn is_trusted(found: &Metadata, anybodys: bool) -> bool {
    anybodys || [0, nix::unistd::geteuid().as_raw()].contains(&found.uid())
}

/// Reads a file that nobody has named, if one may trust who has written it.
fn trusted(path: &Path, anybodys: bool) -> io::Result<Contact> {
    // Neither a link is followed, nor a pipe waited for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    match found.is_file() && is_trusted(&found, anybodys) {
        true => parse(&content(file)?),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it is of user {}", found.uid()))),
    }
}

fn content(file: File) -> io::Result<String> {
    let mut content = String::new();
    file.take(MAX).read_to_string(&mut content)?;
    Ok(content)
}

fn parse(content: &str) -> io::Result<Contact> {
    let bad = |what| io::Error::new(io::ErrorKind::InvalidData, format!("its address {what}"));
    // Older servers write line by line: what has no end yet may be part of an address.
    let (uri, rest) = content.split_once('\n').ok_or_else(|| bad("is not whole"))?;
    let mut rest = rest.lines();
    let version = rest.next().unwrap_or_default();
    let pid = rest.next().and_then(|pid| pid.trim().parse().ok());
    Ok(Contact { address: StockAddress::parse(uri, version.as_bytes()).map_err(bad)?, pid })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::data::Rank;
    use crate::sys::test_directory::TestDirectory;

    impl TestDirectory {
        /// Writes a file, and the directories above it.
        fn write(&self, path: &str, text: &str) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }
    }

    fn host() -> String {
        String::from_utf8(hosts()[0].clone()).unwrap()
    }

    /// As a server of 5.0.11 writes it.
    fn text(name: &str, port: u16, pid: i32) -> String {
        format!("{name}@0.0;tcp4://127.0.0.1:{port}\n5.0.11rc1\n{pid}\n0:0\nMon Nov 23 20:29:40 2026\n\n")
    }

    #[test]
    fn every_server_below_is_found_once_and_nothing_else() {
        let (scratch, host) = (TestDirectory::new(), host());
        let text = |port| text("dvm", port, 17);
        for name in ["pmix.HOST.tool", "pmix.HOST.tool.17", "pmix.HOST.tool.dvm@0"] {
            scratch.write(&format!("prte.1/dvm.2/{}", name.replace("HOST", &host)), &text(1));
        }
        scratch.write(&format!("pmix.{host}.tool.18"), &text(2));
        // None of these is one.
        scratch.write(&format!(".hidden/pmix.{host}.tool.19"), &text(3));
        scratch.write(&format!("{DIRECTORY}0-1/pmix.{host}.tool.19"), &text(3));
        scratch.write("pmix.another-machine.tool.19", &text(3));
        let target = scratch.write("elsewhere", &text(3));
        symlink(target, scratch.0.join(format!("pmix.{host}.tool.20"))).unwrap();
        scratch.write(&format!("pmix.{host}.tool.21"), "dvm@0.0;tcp4://127.0.0.1:3");
        scratch.write(&format!("pmix.{host}.tool.22"), "");
        let mut found = below(&scratch.0, false);
        found.sort_by_key(|contact| contact.address.socket.port());
        let ports: Vec<u16> = found.iter().map(|contact| contact.address.socket.port()).collect();
        assert_eq!(ports, [1, 2]);
        assert_eq!((found[0].pid, found[0].address.major, found[0].address.server.rank), (Some(17), 5, Rank(0)));
        let named = Directories::new(Some(scratch.0.to_str().unwrap().to_owned()), None);
        assert_eq!(named.own_processes(), Some(vec![17]), "in the directory of this library's server");
    }

    #[test]
    fn the_systems_server_has_a_place_of_its_own() {
        let scratch = TestDirectory::new();
        assert_eq!(of_system(&scratch.0), []);
        scratch.write(&format!("pmix.sys.{}", host()), &text("system", 9, 1));
        assert_eq!(of_system(&scratch.0)[0].pid, Some(1));
        assert_eq!(below(&scratch.0, false), [], "it is no server of a session");
    }

    #[test]
    fn servers_that_listen_are_described_and_those_that_are_gone_are_not() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let contact = parse(&text("dvm", port, 17)).unwrap();
        let info = contact.info().unwrap();
        let array = info.value.as_array().unwrap();
        let said = |key: &str| array.infos().find(|info| info.key == key).map(|info| info.value.clone());
        assert_eq!(said(keys::SERVER_NSPACE), Some(Value::string("dvm@0")));
        assert_eq!(said(keys::SERVER_PIDINFO), Some(Value::Uint32(17)));
        assert_eq!(said(keys::USERID), Some(Value::Uint32(nix::unistd::geteuid().as_raw())));
        assert_eq!(said(keys::SERVER_URI), Some(Value::string(format!("dvm@0.0;tcp4://127.0.0.1:{port}"))));
        drop(listener);
        assert_eq!(contact.info(), None);
    }

    #[test]
    fn what_others_own_is_left_aside() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED what_others_own_is_left_aside: only root gives files away");
            return;
        }
        let (scratch, host) = (TestDirectory::new(), host());
        let foreign = Some(nix::unistd::Uid::from_raw(65534));
        let file = scratch.write(&format!("pmix.{host}.tool.1"), &text("a", 1, 1));
        nix::unistd::chown(&file, foreign, None).unwrap();
        scratch.write(&format!("theirs/pmix.{host}.tool.2"), &text("b", 2, 2));
        nix::unistd::chown(&scratch.0.join("theirs"), foreign, None).unwrap();
        assert_eq!(below(&scratch.0, false), []);
        assert_eq!(below(&scratch.0, true).len(), 2);
    }

    #[test]
    fn a_file_that_is_named_may_have_an_address_alone() {
        let scratch = TestDirectory::new();
        // As a launcher reports it.
        let named = scratch.write("uri", "prterun-vm-12083@0.0;tcp4://127.0.0.1:33211\nv5.0.11rc1\n");
        let found = read(&named).unwrap();
        assert_eq!((found.pid, found.address.major, found.address.socket.port()), (None, 5, 33211));
        assert_eq!(read(&scratch.write("bare", "x.0;tcp6://[::1]:7\n")).unwrap().address.major, 0);
        for bad in ["", "\n", "x.0;tcp4://127.0.0.1:33", "1110441984.0;tcp://192.0.2.2:41145\n"] {
            assert_eq!(read(&scratch.write("bad", bad)).unwrap_err().kind(), io::ErrorKind::InvalidData, "{bad:?}");
        }
    }
}
