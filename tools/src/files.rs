//! Files that the output of a job goes to, where its parent wants that: one for each stream of each rank.
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use instanton::data::{Info, InfoList, Nspace, keys};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Places of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Prefix of their names.
    prefix: Option<PathBuf>,
    /// True if that is all of their names but for the stream, with `%n` for the namespace and `%r` for the rank.
    is_pattern: bool,
    /// The directory of the job's own.
    directory: Option<PathBuf>,
    /// True if the output is for them alone.
    pub only: bool,
}

/// The attributes that say so, newer and older.
const NAMES: [&str; 4] =
    [keys::IOF_OUTPUT_TO_FILE, keys::OUTPUT_TO_FILE, keys::IOF_OUTPUT_TO_DIRECTORY, keys::OUTPUT_TO_DIRECTORY];

impl Files {
    /// Returns whether every attribute that is to name a place does.
    pub fn are_named(infos: &[Info]) -> bool {
        let mut names = infos.iter().filter(|info| NAMES.iter().any(|key| info.key == *key));
        names.all(|info| info.value.as_str().is_some_and(|name| !name.is_empty()))
    }

    /// Reads what is said of a job. Both the newer and the older names of the attributes are known.
    pub fn read(infos: &[Info]) -> Self {
        let path = |key, older| infos.find(key).or_else(|| infos.find(older))?.value.as_str().map(PathBuf::from);
        let prefix = path(keys::IOF_OUTPUT_TO_FILE, keys::OUTPUT_TO_FILE);
        let directory = path(keys::IOF_OUTPUT_TO_DIRECTORY, keys::OUTPUT_TO_DIRECTORY);
        let only = infos.is_set(keys::IOF_FILE_ONLY) || infos.is_set(keys::OUTPUT_NOCOPY);
        let is_pattern = infos.is_set(keys::IOF_FILE_PATTERN);
        Self { only: only && (prefix.is_some() || directory.is_some()), prefix, is_pattern, directory }
    }

    /// Opens the file of a rank's stream (`stdout` or `stderr`), if there is to be one; empty, whatever was there.
    /// `size` is that of the rank's job.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(&self, nspace: &Nspace, size: u32, rank: u32, stream: &str) -> io::Result<Option<File>> {
        let Some(file) = self.name(&nspace.to_string(), size, rank, stream) else { return Ok(None) };
        fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        create(&file).map(Some)
    }

    fn name(&self, nspace: &str, size: u32, rank: u32, stream: &str) -> Option<PathBuf> {
        let digits = size.to_string().len();
        if let Some(directory) = &self.directory {
            return Some(directory.join(nspace).join(format!("rank.{rank:0digits$}")).join(stream));
        }
        let prefix = self.prefix.as_ref()?;
        if self.is_pattern {
            // It came as text.
            let pattern = prefix.to_string_lossy().replace("%n", nspace).replace("%r", &rank.to_string());
            return Some(format!("{pattern}.{stream}").into());
        }
        let mut name = prefix.clone().into_os_string();
        let ending = if stream == "stderr" { "err" } else { "out" };
        name.push(format!(".{nspace}.{rank:0digits$}.{ending}"));
        Some(name.into())
    }
}

/// Makes a file, or empties it. A FIFO is none: to open it, and to write to it, may take for ever.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a FIFO keeps no output"));
    }
    // A terminal is waited for as ever.
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_empty_and_a_fifo_is_none() {
        let folder = std::env::temp_dir().join(format!("instanton-files-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let (file, fifo) = (folder.join("file"), folder.join("fifo"));
        fs::write(&file, "old").unwrap();
        assert_eq!(create(&file).unwrap().metadata().unwrap().len(), 0);
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&fifo).unwrap();
        assert!(create(&fifo).is_err(), "nobody knows how long it is read");
        drop(reader);
        assert!(create(&fifo).is_err(), "nobody reads it");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn files_are_named_as_the_attributes_say() {
        let name = |infos: &[Info]| Files::read(infos).name("run@2", 12, 3, "stderr");
        let file = Info::new(keys::IOF_OUTPUT_TO_FILE, "/tmp/%n/a%r-%r%x");
        let directory = Info::new(keys::IOF_OUTPUT_TO_DIRECTORY, "/tmp/d");
        let pattern = Info::new(keys::IOF_FILE_PATTERN, true);
        assert_eq!(name(std::slice::from_ref(&file)), Some("/tmp/%n/a%r-%r%x.run@2.03.err".into()));
        assert_eq!(name(&[file, pattern.clone()]), Some("/tmp/run@2/a3-3%x.stderr".into()));
        assert_eq!(name(&[directory, pattern.clone()]), Some("/tmp/d/run@2/rank.03/stderr".into()));
        assert_eq!(name(&[pattern]), None);
        assert!(!Files::are_named(&[Info::new(keys::IOF_OUTPUT_TO_FILE, "")]));
        assert!(!Files::are_named(&[Info::new(keys::OUTPUT_TO_DIRECTORY, true)]));
        assert!(Files::are_named(&[Info::new(keys::OUTPUT_TO_FILE, "a"), Info::new(keys::IOF_FILE_ONLY, true)]));
    }
}
