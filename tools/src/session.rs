//! The session directory: one tree of a run in the system's temporary directory, for us and our user alone.
//!
//! The guardian names it, the launcher makes it, and the one that lives longer removes it: so there is no moment at
//! which it exists and nobody is left to remove it. Below it lies one directory for each job (NSDIR) and in that one
//! for each rank (PROCDIR), so that nothing a rank keeps there outlives the job.
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::random;

/// A run's directories.
#[derive(Clone, Debug)]
pub struct Session {
    top: PathBuf,
}

impl Session {
    /// A name for one, which nobody else has or can guess.
    pub fn name() -> Result<Self> {
        let name = format!("instanton-{}-{}-{}", nix::unistd::getuid(), std::process::id(), random::hex::<4>()?);
        // Set to nothing is not set, as everywhere.
        let place = Some(std::env::temp_dir()).filter(|it| !it.as_os_str().is_empty()).unwrap_or("/tmp".into());
        Ok(Self { top: std::path::absolute(place)?.join(name) })
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

    /// Makes the directory that all others lie in.
    pub fn create(&self) -> Result<()> {
        make(&self.top)
    }

    /// Makes the directories of a job of so many ranks.
    pub fn create_job(&self, job: u32, ranks: u32) -> Result<()> {
        make(&self.job(job))?;
        (0..ranks).try_for_each(|rank| make(&self.rank(job, rank)))
    }

    /// Removes the whole tree, following no link. A file that is gone already is no error, nor is one that never was,
    /// because the place for it cannot even be looked into.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.top) {
            Err(_) if fs::symlink_metadata(&self.top).is_err() => Ok(()),
            result => result,
        }
    }
}

fn make(directory: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(directory).with_context(|| format!("cannot make {}", directory.display()))
}
