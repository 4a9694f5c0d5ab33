//! The writer's side: a name that is claimed, and the files below it.
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::folder::Owner;
use super::{JOB, LOCK, NEW, NameError, folder, numbered};
use crate::sys::lock::Lock;
use crate::trace;

/// Times that a claim begins again because another writer has just removed what it had found.
const TRIES: usize = 64;

/// Users who may read a named job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// The writer's own user, and root.
    #[default]
    User,
    /// The members of the files' group, too: the writer's own, or that of a directory which passes its group on.
    Group,
    /// Everybody.
    All,
}

impl Readers {
    fn folder(self) -> Mode {
        let more = match self {
            Readers::User => 0,
            Readers::Group => 0o050,
            Readers::All => 0o055,
        };
        Mode::from_bits_truncate(0o700 | more)
    }

    fn file(self) -> Mode {
        self.folder() & Mode::from_bits_truncate(0o644)
    }
}

/// A name that this process has taken, for one [writer](crate::store::JobWriter::create_named). It is free again when the
/// claim or the writer is dropped, or the process has ended.
pub struct Claim(pub(in crate::store) Arc<Place>);

impl Claim {
    /// Takes a name: the path of a directory that is made for it, in one that is there (`/dev/shm`, say, or one that is
    /// mounted in other containers too; files in memory are what it is meant for). Files that a dead writer of the same
    /// user has left there are removed.
    ///
    /// # Errors
    /// [`NameError::Alive`] when a writer that lives has the name, [`NameError::Foreign`] and others when something
    /// else is there.
    pub fn new(path: impl AsRef<Path>, readers: Readers) -> Result<Self, NameError> {
        Place::claim(path.as_ref(), readers).map(|place| Self(Arc::new(place)))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

/// A directory of this process's own, as long as the lock is held.
pub(in crate::store) struct Place {
    path: PathBuf,
    parent: OwnedFd,
    name: OsString,
    folder: OwnedFd,
    readers: Readers,
    /// The process that has claimed it: a forked child of it removes nothing.
    owner: u32,
    /// Lock of the name.
    _lock: Lock,
    /// Lock of the job, by which readers know that its writer lives.
    alive: OnceLock<Lock>,
}

impl Place {
    fn claim(path: &Path, readers: Readers) -> Result<Self, NameError> {
        let name = path.file_name().ok_or_else(|| NameError::Path { path: path.to_owned() })?;
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let parent = nix::fcntl::open(parent, flags, Mode::empty()).map_err(folder::failed(parent))?;
        let mut last = NameError::Alive { path: path.to_owned() };
        for _ in 0..TRIES {
            match mkdirat(&parent, name, Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(folder::failed(path)(errno)),
            }
            let Some(folder) = folder::open_directory(&parent, name, path, Owner::User(geteuid().as_raw()))? else {
                continue;
            };
            // Or it is just being removed, and not listed as a whole.
            if let Err(error) = occupied(&folder, path) {
                last = error;
                continue;
            }
            let Some((lock, taken)) = lock(&folder, path)? else { continue };
            // Another writer may have removed both meanwhile: then this is a lock of nothing.
            if !leads_to(&parent, name, &folder) || !leads_to(&folder, LOCK, &taken) {
                continue;
            }
            fchmod(&folder, readers.folder()).map_err(folder::failed(path))?;
            let (path, name) = (path.to_owned(), name.to_owned());
            let (owner, alive) = (std::process::id(), OnceLock::new());
            let place = Self { path, parent, name, folder, readers, owner, _lock: lock, alive };
            place.clear()?;
            return Ok(place);
        }
        Err(last)
    }

    /// Removes what a dead writer has left.
    fn clear(&self) -> Result<(), NameError> {
        let names = listed(&self.folder).map_err(folder::failed(&self.path))?;
        for name in names.iter().filter(|name| is_segment(name.to_bytes())) {
            trace!("what a dead writer has left at {} is removed: {}", self.path.display(), name.to_string_lossy());
            unlinkat(&self.folder, &**name, UnlinkatFlags::NoRemoveDir).map_err(folder::failed(&self.path))?;
        }
        Ok(())
    }

    /// Makes the file of a segment, and opens it for its writer and once more for readers.
    pub(in crate::store) fn create(self: &Arc<Self>, kind: &str, number: u64) -> Result<NewFile, NameError> {
        let name = if kind == JOB { NEW.to_owned() } else { numbered(kind, number) };
        let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made = flags | OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        let path = self.path.join(&name);
        let writable = openat(&self.folder, name.as_str(), made, Mode::S_IRUSR | Mode::S_IWUSR);
        let writable = writable.map_err(folder::failed(&path))?;
        let file = NamedFile { place: self.clone(), name };
        fchmod(&writable, self.readers.file()).map_err(folder::failed(&path))?;
        let readable = openat(&self.folder, file.name.as_str(), flags | OFlag::O_RDONLY, Mode::empty());
        Ok(NewFile { writable, readable: readable.map_err(folder::failed(&path))?, file })
    }

    /// Lets readers see the job, which is complete, and that its writer lives.
    pub(in crate::store) fn appear(&self) -> io::Result<()> {
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&self.folder, NEW, flags, Mode::empty())?;
        let lock = Lock::take(&file)?.ok_or(Errno::EAGAIN)?;
        renameat(&self.folder, NEW, &self.folder, JOB)?;
        // A claim is for one writer.
        let _ = self.alive.set(lock);
        Ok(())
    }

    fn remove(&self, name: &str) {
        if self.owner == std::process::id() {
            let _ = unlinkat(&self.folder, name, UnlinkatFlags::NoRemoveDir);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.remove(LOCK);
        if self.owner == std::process::id() {
            let _ = unlinkat(&self.parent, &*self.name, UnlinkatFlags::RemoveDir);
        }
    }
}

/// A file that was made for a segment.
pub(in crate::store) struct NewFile {
    /// For its writer, once.
    pub(in crate::store) writable: OwnedFd,
    /// For its readers.
    pub(in crate::store) readable: OwnedFd,
    pub(in crate::store) file: NamedFile,
}

/// The file of a segment, for as long as its writer has that.
pub(in crate::store) struct NamedFile {
    place: Arc<Place>,
    name: String,
}

impl Drop for NamedFile {
    fn drop(&mut self) {
        if self.name == NEW {
            self.place.remove(JOB);
        }
        self.place.remove(&self.name);
    }
}

/// The names in a directory.
fn listed(folder: &OwnedFd) -> nix::Result<Vec<CString>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut all = Dir::openat(folder, ".", flags, Mode::empty())?;
    let names = all.iter().flatten().map(|entry| entry.file_name().to_owned());
    Ok(names.filter(|name| ![&b"."[..], b".."].contains(&name.to_bytes())).collect())
}

/// Looks whether a directory has something in it that no writer has put there: whoever names one by mistake keeps what
/// he has. The lock goes last, so what lies there without one is somebody else's, whatever its name.
fn occupied(folder: &OwnedFd, path: &Path) -> Result<(), NameError> {
    let names = listed(folder).map_err(folder::failed(path))?;
    let is_lock = |name: &CString| name.to_bytes() == LOCK.as_bytes();
    let is_known = names.iter().any(is_lock);
    let other = names.iter().find(|name| !(is_lock(name) || is_known && is_segment(name.to_bytes())));
    other.map_or(Ok(()), |name| {
        Err(NameError::Occupied { path: path.to_owned(), name: name.to_string_lossy().into_owned() })
    })
}

/// Locks a directory for its writer. Nothing where the directory is gone.
fn lock(folder: &OwnedFd, path: &Path) -> Result<Option<(Lock, OwnedFd)>, NameError> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let at = path.join(LOCK);
    let file = match openat(folder, LOCK, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::ELOOP) => return Err(NameError::Kind { path: at }),
        file => file.map_err(folder::failed(&at))?,
    };
    match Lock::take(&file).map_err(|error| NameError::System { path: at, error })? {
        Some(lock) => Ok(Some((lock, file))),
        None => Err(NameError::Alive { path: path.to_owned() }),
    }
}

/// Returns whether a name still leads to what was opened by it.
fn leads_to(parent: &OwnedFd, name: impl AsRef<Path>, opened: &OwnedFd) -> bool {
    let place = |found: FileStat| (found.st_dev, found.st_ino);
    let now = fstatat(parent, name.as_ref(), AtFlags::AT_SYMLINK_NOFOLLOW).map(place);
    now.is_ok() && now == fstat(opened).map(place)
}

fn is_segment(name: &[u8]) -> bool {
    let numbered = [&b"info."[..], b"modex."].iter().find_map(|kind| name.strip_prefix(*kind));
    name == JOB.as_bytes() || name == NEW.as_bytes() || numbered.is_some_and(|of| of.iter().all(u8::is_ascii_digit))
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Claim").field(&self.0.path).finish()
    }
}
