//! Files that the output of a job goes to, where who has started it wants that: one for each stream of each rank.
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use instanton::data::{Info, InfoList, keys};

use crate::job::Job;

/// Where they lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// What their names begin with.
    prefix: Option<PathBuf>,
    /// The directory of the job's own.
    directory: Option<PathBuf>,
    /// Whether the output is for them alone.
    pub only: bool,
}

impl Files {
    /// Reads what is said of a job. Both the newer and the older names of the attributes are known.
    pub fn read(infos: &[Info]) -> Self {
        let path = |key, older| infos.find(key).or_else(|| infos.find(older))?.value.as_str().map(PathBuf::from);
        let prefix = path(keys::IOF_OUTPUT_TO_FILE, keys::OUTPUT_TO_FILE);
        let directory = path(keys::IOF_OUTPUT_TO_DIRECTORY, keys::OUTPUT_TO_DIRECTORY);
        let only = infos.is_set(keys::IOF_FILE_ONLY) || infos.is_set(keys::OUTPUT_NOCOPY);
        Self { only: only && (prefix.is_some() || directory.is_some()), prefix, directory }
    }

    /// The file of a stream (`stdout` or `stderr`), if there is to be one; empty, whatever was there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(&self, job: &Job, rank: u32, stream: &str) -> io::Result<Option<File>> {
        let digits = job.size().to_string().len();
        let file = if let Some(directory) = &self.directory {
            directory.join(job.nspace.to_string()).join(format!("rank.{rank:0digits$}")).join(stream)
        } else if let Some(prefix) = &self.prefix {
            let mut name = prefix.clone().into_os_string();
            let ending = if stream == "stderr" { "err" } else { "out" };
            name.push(format!(".{}.{rank:0digits$}.{ending}", job.nspace));
            name.into()
        } else {
            return Ok(None);
        };
        fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        File::create(file).map(Some)
    }
}
