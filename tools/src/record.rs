//! The record of a run: a file in its session directory that says whether the run lives, and what is to be removed when
//! it does no more.
//!
//! Reaper, launcher and the processes of simulated nodes hold a lock on it (flock) as long as they live, however they end.
//! The launcher, or the process of a rank's node, appends each clean-up that a rank registers, in one write: four bytes
//! of length (little-endian) and an archive of the attributes. Those of each namespace are in a file of their own beside
//! it, which goes when all nodes have done them: what jobs leave in a run that lasts does not pile up, nor is a path
//! removed once more after that. A process that comes after a launcher that was killed does what is left, and so does a
//! launcher that has lost a node.
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use instanton::data::{Info, Nspace, archive};
use instanton::server;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::{getgid, getuid};

/// Name of the record, which it has from when on it is locked.
pub const NAME: &str = "record";
/// Its name before, and where the file system has no locks: nobody can tell then whether the run lives.
const UNLOCKED: &str = "record.new";
/// Beginning of the names of the files with the clean-ups of a namespace.
const OF_NAMESPACE: &str = "record.of.";
/// Longest name of such a file. Clean-ups of a namespace that has a longer one are in the record itself.
const LONGEST_NAME: usize = 200;

/// Length at which a record is emptied while nobody runs.
const LONG: u64 = 64 << 10;
/// Longest entry; what the server takes in one call is shorter.
const LONGEST: usize = 64 << 20;
/// Most bytes of a record that are read.
const MOST: u64 = 256 << 20;

/// The record of a run that lives: with this one, as long as it is held.
pub struct Record {
    session: PathBuf,
    file: Mutex<File>,
    _lock: Option<Flock<File>>,
}

impl Record {
    /// Creates the record in a session directory.
    pub fn create(session: &Path) -> Result<Self> {
        let path = session.join(UNLOCKED);
        let file = File::options().append(true).create_new(true).mode(0o600).open(&path);
        let record = Self::of(session, file.with_context(|| format!("cannot make {}", path.display()))?)?;
        if record._lock.is_some() {
            fs::rename(&path, session.join(NAME)).with_context(|| format!("cannot rename {}", path.display()))?;
        }
        Ok(record)
    }

    /// Opens the record that another process of the run has created.
    pub fn open(session: &Path) -> Result<Self> {
        let file = open_any(session, File::options().append(true));
        Self::of(session, file.with_context(|| format!("cannot open the record in {}", session.display()))?)
    }

    fn of(session: &Path, file: File) -> Result<Self> {
        let lock = Flock::lock(file.try_clone()?, FlockArg::LockSharedNonblock).ok();
        Ok(Self { session: session.to_owned(), file: Mutex::new(file), _lock: lock })
    }

    /// Appends a clean-up that a process of a namespace has registered, all of it or nothing.
    pub fn append(&self, nspace: &Nspace, directives: &[Info]) -> Result<()> {
        let archive = archive::encode(&directives.to_vec())?;
        if archive.len() > LONGEST {
            bail!("{} bytes of attributes", archive.len());
        }
        let mut entry = (archive.len() as u32).to_le_bytes().to_vec();
        entry.extend_from_slice(&archive);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = match self.of_namespace(nspace) {
            Some(path) => Some(open_own(&path, File::options().append(true).create(true).mode(0o600))?),
            None => None,
        };
        let file = own.as_mut().unwrap_or(&mut file);
        let before = file.metadata()?.len();
        file.write_all(&entry).inspect_err(|_| _ = file.set_len(before))?;
        Ok(())
    }

    /// The clean-ups of a namespace are done.
    pub fn forget(&self, nspace: &Nspace) {
        // There may be none; what cannot be removed goes with the session.
        self.of_namespace(nspace).map(fs::remove_file);
    }

    /// The file for the clean-ups of a namespace; none where its name would be too long.
    fn of_namespace(&self, nspace: &Nspace) -> Option<PathBuf> {
        let mut name = OF_NAMESPACE.to_owned();
        for byte in nspace.as_bytes() {
            match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'@' => name.push(char::from(*byte)),
                other => name.push_str(&format!("%{other:02x}")),
            }
        }
        (name.len() <= LONGEST_NAME).then(|| self.session.join(name))
    }

    /// Empties it if it has become long: nobody is left whose clean-ups are in it.
    pub fn trim(&self) {
        let length = self.file.lock().unwrap_or_else(PoisonError::into_inner).metadata().map_or(0, |about| about.len());
        if length > LONG {
            self.clear();
        }
    }

    /// Empties it: the clean-ups are done.
    pub fn clear(&self) {
        // A file that cannot be emptied or removed goes with the session.
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).set_len(0);
        of_namespaces(&self.session).for_each(|path| _ = fs::remove_file(path));
    }
}

/// The files for clean-ups of namespaces in a session's directory.
fn of_namespaces(session: &Path) -> impl Iterator<Item = PathBuf> {
    let is_one = |entry: &fs::DirEntry| entry.file_name().as_bytes().starts_with(OF_NAMESPACE.as_bytes());
    fs::read_dir(session).into_iter().flatten().flatten().filter(is_one).map(|entry| entry.path())
}

/// The clean-ups of a namespace that is over, which nodes have to do.
pub struct Awaited {
    record: Arc<Record>,
    nspace: Nspace,
    nodes: Mutex<usize>,
}

impl Awaited {
    /// Clean-ups of so many nodes.
    pub fn of(record: &Arc<Record>, nspace: &Nspace, nodes: usize) -> Arc<Self> {
        Arc::new(Self { record: record.clone(), nspace: nspace.clone(), nodes: Mutex::new(nodes) })
    }

    /// A node has done its own. They are forgotten with the last one.
    pub fn done(&self) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        *nodes = nodes.saturating_sub(1);
        if *nodes == 0 {
            self.record.forget(&self.nspace);
        }
    }
}

/// Does the clean-ups in the record of a session, if it has one: those that its launcher has not come to do.
pub fn clean_up(session: &Path) {
    let calls = clean_ups(session);
    if !calls.is_empty() {
        server::clean_up(&calls, getuid().as_raw(), getgid().as_raw());
    }
}

/// Returns the clean-ups in the record of a session, up to one that was cut short.
fn clean_ups(session: &Path) -> Vec<Vec<Info>> {
    let others = of_namespaces(session).map(|path| open_own(&path, File::options().read(true)));
    let mut left = MOST;
    let mut all = Vec::new();
    for file in std::iter::once(open_any(session, File::options().read(true))).chain(others).flatten() {
        let mut some = file.take(left);
        all.extend(read(BufReader::new(&mut some)));
        left = some.limit();
    }
    all
}

/// Opens the record of a session, under whichever of its names.
fn open_any(session: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_own(&session.join(NAME), options).or_else(|_| open_own(&session.join(UNLOCKED), options))
}

/// Opens a file of a record. One of another user is none: who owns the place that sessions lie in could put it there,
/// and name files of ours in it. Nor is anything but a file: a FIFO that a rank has put in its place would be waited for.
fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
    let about = file.metadata()?;
    match about.uid() == getuid().as_raw() && about.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Reads entries.
fn read(mut record: impl Read) -> Vec<Vec<Info>> {
    let mut next = || -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        record.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        let mut archive = Vec::new();
        let read = (&mut record).take(length.min(LONGEST) as u64).read_to_end(&mut archive)?;
        if read == length { Ok(archive) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    };
    std::iter::from_fn(|| next().ok()).filter_map(|archive| archive::decode(&archive).ok()).collect()
}

#[cfg(test)]
mod tests {
    use instanton::data::keys;

    use super::*;

    #[test]
    fn clean_ups_of_a_namespace_are_forgotten_when_all_nodes_have_done_them() {
        let session = std::env::temp_dir().join(format!("instanton-record-of-{}", std::process::id()));
        fs::create_dir(&session).unwrap();
        let record = Arc::new(Record::create(&session).unwrap());
        let of_node = Record::open(&session).unwrap();
        let [one, other] = ["run@1", "a tool/../x"].map(|name| Nspace::new(name).unwrap());
        let call = |path: &str| vec![Info::new(keys::REGISTER_CLEANUP, path)];
        record.append(&one, &call("a")).unwrap();
        of_node.append(&one, &call("b")).unwrap();
        record.append(&other, &call("c")).unwrap();
        let mut found = clean_ups(&session);
        found.sort_by_key(|call| call[0].value.as_str().map(str::to_owned));
        assert_eq!(found, ["a", "b", "c"].map(call));
        let awaited = Awaited::of(&record, &one, 2);
        awaited.done();
        assert_eq!(clean_ups(&session).len(), 3);
        awaited.done();
        assert_eq!(clean_ups(&session), [call("c")]);
        record.forget(&other);
        assert_eq!((clean_ups(&session).len(), fs::read_dir(&session).unwrap().count()), (0, 1));
        fs::remove_dir_all(session).unwrap();
    }

    #[test]
    fn clean_ups_are_read_as_they_were_written_and_a_torn_one_is_dropped() {
        let session = std::env::temp_dir().join(format!("instanton-record-{}", std::process::id()));
        fs::create_dir(&session).unwrap();
        let (reapers, launchers) = (Record::create(&session).unwrap(), Record::open(&session).unwrap());
        let calls: Vec<Vec<Info>> = (0..3)
            .map(|n| {
                let file = Info::new(keys::REGISTER_CLEANUP, format!("/dev/shm/file.{n}").as_str());
                vec![file, Info::new(keys::CLEANUP_RECURSIVE, true)]
            })
            .collect();
        let long = Nspace::new("%".repeat(100).as_str()).unwrap();
        calls.iter().for_each(|call| launchers.append(&long, call).unwrap());
        assert_eq!(clean_ups(&session), calls);
        let bytes = fs::read(session.join(NAME)).unwrap();
        for cut in [1, 10, bytes.len() / 3] {
            assert_eq!(read(&bytes[..bytes.len() - cut]), calls[..2]);
        }
        assert!(read(&[0xff; 64][..]).is_empty());
        if getuid().is_root() {
            let own = |user| std::os::unix::fs::chown(session.join(NAME), Some(user), None).unwrap();
            own(65534);
            assert!(clean_ups(&session).is_empty() && Record::open(&session).is_err(), "another user has put it there");
            own(0);
        }
        launchers.clear();
        assert!(clean_ups(&session).is_empty());
        fs::rename(session.join(NAME), session.join("aside")).unwrap();
        nix::unistd::mkfifo(&session.join(NAME), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(clean_ups(&session).is_empty() && Record::open(&session).is_err(), "a rank has put a FIFO there");
        fs::rename(session.join("aside"), session.join(NAME)).unwrap();
        // Either of them says that the run lives.
        let is_locked = || {
            let file = File::open(session.join(NAME)).unwrap();
            Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err()
        };
        drop(reapers);
        assert!(is_locked());
        drop(launchers);
        assert!(!is_locked());
        fs::remove_dir_all(session).unwrap();
    }
}
