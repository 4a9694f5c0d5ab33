//! A job whose writer lives, mapped by its name.
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use super::folder::{Folder, Owner};
use super::post_mortem::segments;
use super::{JOB, NameError};
use crate::store::read::JobReader;
use crate::store::segment::MappedSegment;
use crate::sys::lock::is_locked;

/// Times that a look begins again because the writer has replaced what was to be mapped.
const TRIES: usize = 64;

/// The files of a job that was mapped: the way to what its writer adds.
pub(crate) struct Mapped {
    folder: Folder,
    job: File,
}

impl Mapped {
    /// Maps all there is.
    pub(crate) fn open(path: &Path, owner: Owner) -> Result<(JobReader, Self), NameError> {
        let (folder, job, reader) = Folder::of_job(path, owner, begin)?;
        Ok((reader, Self { folder, job }))
    }

    /// Maps what was added since.
    pub(crate) fn refresh(&self, reader: &JobReader) -> Result<(), NameError> {
        refresh(&self.folder, reader)
    }

    /// Returns whether the writer lives.
    pub(crate) fn is_up(&self) -> bool {
        is_locked(&self.job).unwrap_or(false)
    }
}

fn begin(folder: &Folder, job: &File) -> Result<JobReader, NameError> {
    if !is_locked(job).map_err(|error| NameError::System { path: folder.path(JOB), error })? {
        return Err(NameError::Dead { path: folder.own_path() });
    }
    let attach = |error| NameError::Attach { path: folder.path(JOB), error };
    let job = MappedSegment::map_trusting_owner(job.as_fd()).map_err(attach)?;
    let reader = JobReader::attach(vec![job], None).map_err(attach)?;
    refresh(folder, &reader)?;
    Ok(reader)
}

fn refresh(folder: &Folder, reader: &JobReader) -> Result<(), NameError> {
    let mut last = None;
    for _ in 0..TRIES {
        if !reader.is_behind() {
            return Ok(());
        }
        last = add(folder, reader)?;
    }
    Err(last.unwrap_or_else(|| NameError::Absent { path: folder.own_path() }))
}

/// Maps the files that the job refers to now. Answers what is missing: it may have been replaced meanwhile.
fn add(folder: &Folder, reader: &JobReader) -> Result<Option<NameError>, NameError> {
    let attach = |path| move |error| NameError::Attach { path, error };
    for name in segments(reader).map_err(attach(folder.path(JOB)))? {
        let path = folder.path(&name);
        let Some(file) = folder.file(&name)? else {
            return Ok(Some(NameError::System { path, error: io::ErrorKind::NotFound.into() }));
        };
        let part = MappedSegment::map_trusting_owner(file.as_fd());
        part.and_then(|part| reader.add(part)).map_err(attach(path))?;
    }
    Ok(None)
}
