//! The session directory: one tree of a run in the system's temporary directory, for us and our user alone.
//!
//! The guardian names it, the reaper makes it, and the one that lives longest removes it: so there is no moment at
//! which it exists and nobody is left to remove it. In it lie the [record](crate::record) of the run and one directory
//! for each job (NSDIR), and in that one for each rank (PROCDIR), so that nothing a rank keeps there outlives the job.
mod removal;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

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

    /// The session that the guardian has named.
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
        make(&self.top).context("there is no place for the files of the run; TMPDIR may name another")?;
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
        match removal::remove(&self.top) {
            Err(_) if fs::symlink_metadata(&self.top).is_err() => Ok(()),
            result => result,
        }
    }
}

fn make(directory: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(directory).with_context(|| format!("cannot make {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn directories_without_rights_are_removed_and_no_link_is_followed() {
        let top = std::env::temp_dir().join(format!("instanton-rights-{}", std::process::id()));
        let (outside, session) = (top.join("outside"), Session::named(top.join("session")));
        fs::create_dir_all(session.rank(1, 0).join("shut/deep")).unwrap();
        fs::create_dir_all(outside.join("inner")).unwrap();
        std::os::unix::fs::symlink(&outside, session.rank(1, 0).join("link")).unwrap();
        fs::write(session.rank(1, 0).join("file"), "text").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let shut = session.rank(1, 0).join("shut");
        [(outside.as_path(), 0o500), (&shut.join("deep"), 0), (&shut, 0)].iter().for_each(|(path, to)| set(path, *to));
        session.remove().unwrap();
        let mode = fs::metadata(&outside).unwrap().permissions().mode() & 0o777;
        assert!(!session.top().exists() && outside.join("inner").exists() && mode == 0o500);
        session.remove().expect("it is gone");
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn a_tree_is_removed_however_deep_it_is() {
        let session = Session::named(std::env::temp_dir().join(format!("instanton-deep-{}", std::process::id())));
        fs::create_dir(session.top()).unwrap();
        // Deeper than descriptors of a process and its stack would take, made from its end on: no path is so long.
        let names = ["even", "odd"].map(|name| session.top().join(name));
        fs::create_dir(&names[1]).unwrap();
        for level in 0..30_000 {
            let [above, below] = [&names[level % 2], &names[1 - level % 2]];
            fs::create_dir(above).unwrap();
            fs::rename(below, above.join("d")).unwrap();
        }
        session.remove().unwrap();
        assert!(!session.top().exists());
    }
}
