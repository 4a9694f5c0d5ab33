//! Directories and files of a name, opened with a look at whose they are.
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::geteuid;

use super::{JOB, NameError};

/// Times that a look begins again because another job has taken the name.
const TRIES: usize = 64;

/// The user whose files a reader trusts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The reader's own, or root.
    #[default]
    OwnOrRoot,
    /// This one alone. In a user namespace, a user who has no number there has that of the kernel's `overflowuid`.
    User(u32),
}

impl Owner {
    fn is_trusted(self, user: u32) -> bool {
        match self {
            Owner::OwnOrRoot => user == 0 || user == geteuid().as_raw(),
            Owner::User(trusted) => user == trusted,
        }
    }
}

/// An error of the system about a path.
pub(super) fn failed(path: &Path) -> impl Fn(Errno) -> NameError {
    move |errno| NameError::System { path: path.to_owned(), error: errno.into() }
}

/// Opens a directory, which must be its owner's alone to write. Nothing where there is none.
pub(super) fn open_directory(
    parent: impl AsFd,
    name: impl AsRef<Path>,
    path: &Path,
    owner: Owner,
) -> Result<Option<OwnedFd>, NameError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(parent, name.as_ref(), flags, Mode::empty()) {
        Err(Errno::ENOENT) => Ok(None),
        Err(Errno::ELOOP | Errno::ENOTDIR) => Err(NameError::Kind { path: path.to_owned() }),
        opened => {
            let opened = opened.map_err(failed(path))?;
            check(&opened, path, owner, SFlag::S_IFDIR)?;
            Ok(Some(opened))
        }
    }
}

/// Looks whose something is, who may write it, and what it is.
fn check(opened: &OwnedFd, path: &Path, owner: Owner, kind: SFlag) -> Result<(), NameError> {
    let found = fstat(opened).map_err(failed(path))?;
    let path = || path.to_owned();
    if !owner.is_trusted(found.st_uid) {
        return Err(NameError::Foreign { path: path(), user: found.st_uid });
    }
    if found.st_mode & SFlag::S_IFMT.bits() != kind.bits() {
        return Err(NameError::Kind { path: path() });
    }
    if found.st_mode & 0o022 != 0 {
        return Err(NameError::Writable { path: path() });
    }
    Ok(())
}

/// A directory with the files of a job, as its readers see it.
pub(in crate::store) struct Folder {
    path: PathBuf,
    folder: OwnedFd,
    owner: Owner,
}

impl Folder {
    /// Opens the directory of a name.
    pub(in crate::store) fn open(path: &Path, owner: Owner) -> Result<Self, NameError> {
        let absent = || NameError::Absent { path: path.to_owned() };
        let folder = open_directory(AT_FDCWD, path, path, owner)?.ok_or_else(absent)?;
        Ok(Self { path: path.to_owned(), folder, owner })
    }

    /// Opens the directory of a name and the file of its job, and has that read. Begins again where another job has taken
    /// the name meanwhile.
    pub(super) fn of_job<T>(
        path: &Path,
        owner: Owner,
        read: impl Fn(&Folder, &File) -> Result<T, NameError>,
    ) -> Result<(Folder, File, T), NameError> {
        let absent = || NameError::Absent { path: path.to_owned() };
        let mut last = None;
        for _ in 0..TRIES {
            let folder = Folder::open(path, owner)?;
            let job = folder.file(JOB)?.ok_or_else(absent)?;
            match read(&folder, &job) {
                Ok(found) => return Ok((folder, job, found)),
                Err(error) if folder.has_still(&job)? => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(absent))
    }

    /// Returns whether the job's file is still the same.
    fn has_still(&self, job: &File) -> Result<bool, NameError> {
        let place = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
        Ok(self.file(JOB)?.is_some_and(|now| place(&now) == place(job)))
    }

    /// Opens a file in it. Nothing where there is none.
    pub(in crate::store) fn file(&self, name: &str) -> Result<Option<File>, NameError> {
        let path = self.path.join(name);
        // Without `O_NONBLOCK`, opening a FIFO waits for its writer.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        match openat(&self.folder, name, flags, Mode::empty()) {
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ELOOP | Errno::ENXIO) => Err(NameError::Kind { path }),
            opened => {
                let opened = opened.map_err(failed(&path))?;
                check(&opened, &path, self.owner, SFlag::S_IFREG)?;
                Ok(Some(opened.into()))
            }
        }
    }

    /// The path of a file in it.
    pub(in crate::store) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path of the directory.
    pub(in crate::store) fn own_path(&self) -> PathBuf {
        self.path.clone()
    }
}
