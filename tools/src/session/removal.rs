//! Removal of a tree that ranks may have made as deep as they like, and may go on changing.
//!
//! Every directory is opened from the one above it without following links, and so many are open at a time at most.
//! A directory that lies deeper moves to the top of the tree, and is removed behind it. Rights to directories that
//! their owner has given up are taken back.
use std::ffi::{CStr, CString};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::NixPath;
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::random;

/// Directories of a branch that are open at a time.
const DEEPEST: usize = 32;
const TO_HOLD: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Removes a directory, and all that is in it.
///
/// # Errors
/// The first one of the system; what can be removed is removed all the same.
pub fn remove(top: &Path) -> io::Result<()> {
    let mut removal = Removal { top: open_up(AT_FDCWD, top)?, moved: Vec::new(), failed: None };
    let whole = removal.top.try_clone()?;
    removal.clear(whole, 0);
    while let Some(name) = removal.moved.pop() {
        let top = removal.top.try_clone()?;
        removal.remove_directory(&top, &name, 0);
    }
    match removal.failed {
        Some(errno) => Err(errno.into()),
        None => fs::remove_dir(top),
    }
}

/// Opens a directory, with all rights to it for its owner where this is its owner.
fn open_up<P: ?Sized + NixPath>(above: impl AsFd, name: &P) -> Result<OwnedFd, Errno> {
    let opened = match openat(&above, name, TO_HOLD, Mode::empty()) {
        Err(Errno::EACCES) => {
            let held = openat(&above, name, TO_HOLD.union(OFlag::O_PATH), Mode::empty())?;
            // One that is not ours stays as it is, and cannot be opened again either.
            let _ = fs::set_permissions(format!("/proc/self/fd/{}", held.as_raw_fd()), Permissions::from_mode(0o700));
            openat(&above, name, TO_HOLD, Mode::empty())?
        }
        opened => opened?,
    };
    if !fstat(&opened).is_ok_and(|about| Mode::from_bits_truncate(about.st_mode).contains(Mode::S_IRWXU)) {
        let _ = fchmod(&opened, Mode::S_IRWXU);
    }
    Ok(opened)
}

struct Removal {
    top: OwnedFd,
    /// Directories that have moved to the top.
    moved: Vec<CString>,
    failed: Option<Errno>,
}

impl Removal {
    fn note<T>(&mut self, result: Result<T, Errno>) -> Option<T> {
        match result {
            Ok(done) => Some(done),
            // Somebody else has removed it.
            Err(Errno::ENOENT) => None,
            Err(errno) => {
                self.failed.get_or_insert(errno);
                None
            }
        }
    }

    fn remove_directory(&mut self, above: impl AsFd, name: &CStr, depth: usize) {
        let opened = open_up(&above, name);
        if let Some(directory) = self.note(opened) {
            self.clear(directory, depth);
            let removed = unlinkat(&above, name, UnlinkatFlags::RemoveDir);
            self.note(removed);
        }
    }

    /// Empties a directory.
    fn clear(&mut self, directory: OwnedFd, depth: usize) {
        let Some(mut directory) = self.note(Dir::from_fd(directory)) else { return };
        let mut entries = Vec::new();
        for entry in directory.iter() {
            let Some(entry) = self.note(entry) else { break };
            if ![c".", c".."].contains(&entry.file_name()) {
                entries.push((entry.file_name().to_owned(), entry.file_type()));
            }
        }
        for (name, kind) in entries {
            let is_directory = match kind {
                Some(kind) => kind == Type::Directory,
                None => fstatat(&directory, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits()),
            };
            if !is_directory {
                let removed = unlinkat(&directory, name.as_c_str(), UnlinkatFlags::NoRemoveDir);
                self.note(removed);
            } else if depth < DEEPEST {
                self.remove_directory(&directory, &name, depth + 1);
            } else {
                self.move_to_top(&directory, &name);
            }
        }
    }

    fn move_to_top(&mut self, above: impl AsFd, name: &CStr) {
        let free = random::hex::<16>().ok().and_then(|name| CString::new(name).ok());
        let Some(free) = free else {
            self.failed.get_or_insert(Errno::EAGAIN);
            return;
        };
        let moved = renameat(above, name, &self.top, free.as_c_str());
        if self.note(moved).is_some() {
            self.moved.push(free);
        }
    }
}
