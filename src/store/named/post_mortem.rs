//! A job as its writer has left it.
use std::fs::File;
use std::io;
use std::path::Path;

use instanton_layout::Malformed;

use super::folder::{Folder, Owner};
use super::{JOB, NameError, numbered};
use crate::store::error::AttachError;
use crate::store::ids::SegmentId;
use crate::store::read::JobReader;
use crate::store::segment::MappedSegment;
use crate::sys::lock::is_locked;

impl JobReader {
    /// Reads what a writer that was killed has left under a name, as a whole: nothing stays mapped, and a file that is
    /// shorter than it should be is an error. The reader answers as ever, but nothing is ever added to it.
    ///
    /// # Errors
    /// [`NameError`]: [`NameError::Alive`] while the writer lives, whose job changes under whoever copies it.
    pub fn post_mortem(path: impl AsRef<Path>, owner: Owner) -> Result<Self, NameError> {
        Folder::of_job(path.as_ref(), owner, read).map(|(_, _, reader)| reader)
    }
}

fn read(folder: &Folder, job: &File) -> Result<JobReader, NameError> {
    let system = |error| NameError::System { path: folder.path(JOB), error };
    if is_locked(job).map_err(system)? {
        return Err(NameError::Alive { path: folder.own_path() });
    }
    let attach = |name: &str| {
        let path = folder.path(name);
        move |error| NameError::Attach { path, error }
    };
    let reader = MappedSegment::copy(job).and_then(|part| JobReader::attach(vec![part], None)).map_err(attach(JOB))?;
    for name in segments(&reader).map_err(attach(JOB))? {
        let gone = || NameError::System { path: folder.path(&name), error: io::ErrorKind::NotFound.into() };
        let file = folder.file(&name)?.ok_or_else(gone)?;
        MappedSegment::copy(&file).and_then(|part| reader.add(part)).map_err(attach(&name))?;
    }
    Ok(reader)
}

/// The files of the segments that a reader of a job has not got yet.
pub(super) fn segments(reader: &JobReader) -> Result<impl Iterator<Item = String>, AttachError> {
    let (words, have) = (reader.words(), reader.have());
    let damaged = |_| AttachError::Damaged { id: SegmentId::Job, error: Malformed::Table };
    let generation = words.generation();
    // In this order: what is older than the oldest may be gone by the time that the newest is known.
    let newest = u32::try_from(words.newest()).map_err(damaged)?;
    let oldest = u32::try_from(words.oldest()).map_err(damaged)?.max(1);
    let info = (have.info < generation).then(|| numbered("info", generation));
    let modex = oldest.max(have.modex.saturating_add(1))..=newest;
    Ok(info.into_iter().chain(modex.map(|number| numbered("modex", number.into()))))
}
