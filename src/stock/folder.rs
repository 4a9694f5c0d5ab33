//! Files and directories that go with their server: made where others may make things, locked while the server lives,
//! and removed with it. Those that a killed server leaves are removed by the next one of the same user: nobody holds
//! them locked.
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use nix::dir::Dir;
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use crate::sys::{directory, random};

/// Flags of a directory that is opened.
const OF_DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A file, or a directory with files in it; dropping it removes it.
#[derive(Debug)]
pub struct Kept {
    pub(super) parent: OwnedFd,
    pub(super) name: Vec<u8>,
    /// The file or directory itself, locked for as long as the server lives.
    pub(super) locked: Flock<OwnedFd>,
}

impl Kept {
    /// The directory or file, open.
    pub fn opened(&self) -> &OwnedFd {
        &self.locked
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if is_gone(&self.locked) {
            // The file that lies there now is somebody else's.
            return;
        }
        let is_directory = fstat(&*self.locked).is_ok_and(|found| kind(&found) == SFlag::S_IFDIR);
        remove(&self.parent, &self.name, is_directory.then_some(&*self.locked));
    }
}

/// Returns the beginning of the names of our user's directories for a purpose.
pub fn prefix(purpose: &str) -> String {
    format!("{purpose}{}-", geteuid())
}

/// Makes a directory for files of one server, for its user alone, and locks it.
///
/// # Errors
/// The kernel's.
pub fn make(parent: OwnedFd, purpose: &str) -> io::Result<Kept> {
    loop {
        let name = format!("{}{:032x}", prefix(purpose), u128::from_le_bytes(random::bytes()?));
        match directory::make_own(&parent, &name).and_then(lock) {
            // One that was swept away before it was locked is made anew.
            Ok(locked) if is_gone(&locked) => {}
            Ok(locked) => return Ok(Kept { parent, name: name.into_bytes(), locked }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let _ = unlinkat(&parent, name.as_str(), UnlinkatFlags::RemoveDir);
                return Err(error);
            }
        }
    }
}

/// Locks what was opened.
pub(super) fn lock(opened: OwnedFd) -> io::Result<Flock<OwnedFd>> {
    Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno.into())
}

/// Returns whether what was locked has been removed from its directory.
pub(super) fn is_gone(locked: &Flock<OwnedFd>) -> bool {
    fstat(&**locked).is_ok_and(|found| found.st_nlink == 0)
}

/// Removes directories that dead servers of our user have left for a purpose.
pub fn sweep(parent: &OwnedFd, purpose: &str) {
    let prefix = prefix(purpose);
    names(parent).iter().filter(|name| name.starts_with(prefix.as_bytes())).for_each(|name| {
        remove_dead(parent, name, SFlag::S_IFDIR);
    });
}

/// Removes a file or directory, if it is our user's and its server does not live.
pub(super) fn remove_dead(parent: &OwnedFd, name: &[u8], kind: SFlag) {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let Ok(found) = openat(parent, OsStr::from_bytes(name), flags, Mode::empty()) else { return };
    let is_ours = |found: FileStat| self::kind(&found) == kind && found.st_uid == geteuid().as_raw();
    if fstat(&found).is_ok_and(is_ours)
        && let Ok(dead) = lock(found)
        && !is_gone(&dead)
    {
        remove(parent, name, (kind == SFlag::S_IFDIR).then_some(&*dead));
    }
}

/// Removes a file, or a directory and the files in it.
fn remove(parent: &OwnedFd, name: &[u8], directory: Option<&OwnedFd>) {
    let unlink = |parent: &OwnedFd, name: &[u8], how| {
        // A file that cannot be removed now may be the next time.
        let _ = unlinkat(parent, OsStr::from_bytes(name), how);
    };
    if let Some(directory) = directory {
        names(directory).iter().for_each(|name| unlink(directory, name, UnlinkatFlags::NoRemoveDir));
    }
    unlink(parent, name, if directory.is_some() { UnlinkatFlags::RemoveDir } else { UnlinkatFlags::NoRemoveDir });
}

/// Returns the names in a directory.
pub(super) fn names(directory: &OwnedFd) -> Vec<Vec<u8>> {
    let entries = Dir::openat(directory, ".", OF_DIRECTORY, Mode::empty());
    let names = entries.map(|mut entries| {
        entries.iter().flatten().map(|entry| entry.file_name().to_bytes().to_vec()).collect::<Vec<_>>()
    });
    names.unwrap_or_default().into_iter().filter(|name| name != b"." && name != b"..").collect()
}

fn kind(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT
}
