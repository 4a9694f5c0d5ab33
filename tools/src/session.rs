//! The session directory: one tree of a run in the system's temporary directory, for us and our user alone.
//!
//! The guardian names it, the reaper makes it, and the one that lives longest removes it: so there is no moment at
//! which it exists and nobody is left to remove it. In it lie the [record](crate::record) of the run and one directory
//! for each job (NSDIR), and in that one for each rank (PROCDIR), so that nothing a rank keeps there outlives the job.
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::libc::{O_DIRECTORY, O_NOFOLLOW, O_PATH};

use crate::random;
use crate::record::Record;

/// A run's directories.
#[derive(Clone, Debug)]
pub struct Session {
    top: PathBuf,
}

impl Session {
    /// A name for one, which nobody else has or can guess.
    pub fn name() -> Result<Self> {
        let name = format!("{}{}-{}", Self::prefix(), std::process::id(), random::hex::<4>()?);
        Ok(Self { top: Self::home()?.join(name) })
    }

    /// Returns the system's temporary directory, in which those of sessions are made.
    pub fn home() -> io::Result<PathBuf> {
        // Set to nothing is not set, as everywhere.
        let place = Some(std::env::temp_dir()).filter(|it| !it.as_os_str().is_empty()).unwrap_or("/tmp".into());
        std::path::absolute(place)
    }

    /// Returns the beginning of the names of our user's session directories.
    pub fn prefix() -> String {
        format!("instanton-{}-", nix::unistd::getuid())
    }

    /// The one that the guardian has named.
    pub fn named(top: PathBuf) -> Self {
        Self { top }
    }

    /// `TMPDIR`.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// `NSDIR` of a job.
    pub fn job(&self, job: u32) -> PathBuf {
        self.top.join(job.to_string())
    }

    /// `PROCDIR` of a rank.
    pub fn rank(&self, job: u32, rank: u32) -> PathBuf {
        self.job(job).join(rank.to_string())
    }

    /// Returns the directory that the session's lies in.
    pub fn place(&self) -> &Path {
        self.top.parent().unwrap_or(&self.top)
    }

    /// Makes the directory that all others lie in, with the record in it.
    pub fn create(&self) -> Result<Record> {
        make(&self.top)?;
        Record::create(&self.top)
    }

    /// The directories of a node: our own is the first one's.
    pub fn of_node(&self, node: u32) -> Self {
        if node == 0 { self.clone() } else { Self { top: self.top.join(format!("node{node}")) } }
    }

    /// Makes the directory of a node.
    pub fn create_node(&self, node: u32) -> Result<()> {
        make(self.of_node(node).top())
    }

    /// Makes the directories of a job with these ranks.
    pub fn create_job(&self, job: u32, ranks: impl IntoIterator<Item = u32>) -> Result<()> {
        make(&self.job(job))?;
        ranks.into_iter().try_for_each(|rank| make(&self.rank(job, rank)))
    }

    /// Removes the whole tree, following no link. A file that is gone already is no error, nor is one that never was,
    /// because the place for it cannot even be looked into.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.top) {
            Err(_) if fs::symlink_metadata(&self.top).is_err() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                open_up(&self.top);
                fs::remove_dir_all(&self.top)
            }
            result => result,
        }
    }
}

/// Takes back the rights to a directory and those below it, which a rank may have given up. Each is held while it is
/// gone through, so that no link is followed.
fn open_up(directory: &Path) {
    let held = File::options().read(true).custom_flags(O_PATH | O_DIRECTORY | O_NOFOLLOW).open(directory);
    let Ok(open) = held else { return };
    let held = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    // A directory that is not ours stays as it is, and is told of when it cannot be removed.
    let _ = fs::set_permissions(&held, Permissions::from_mode(0o700));
    for entry in fs::read_dir(&held).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&held.join(entry.file_name()));
        }
    }
}

fn make(directory: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(directory).with_context(|| format!("cannot make {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_without_rights_are_removed_and_no_link_is_followed() {
        let top = std::env::temp_dir().join(format!("instanton-rights-{}", std::process::id()));
        let (outside, session) = (top.join("outside"), Session::named(top.join("session")));
        fs::create_dir_all(session.rank(1, 0).join("shut/deep")).unwrap();
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, session.rank(1, 0).join("link")).unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let shut = session.rank(1, 0).join("shut");
        [(outside.as_path(), 0o500), (&shut.join("deep"), 0), (&shut, 0)].iter().for_each(|(path, to)| set(path, *to));
        // Root needs no rights to remove it: for root it is opened up all the same.
        open_up(session.top());
        assert_eq!((mode(&shut), mode(&shut.join("deep")), mode(&outside)), (0o700, 0o700, 0o500));
        [shut.join("deep"), shut].iter().for_each(|path| set(path, 0));
        session.remove().unwrap();
        assert!(!session.top().exists() && outside.exists());
        fs::remove_dir_all(top).unwrap();
    }
}
