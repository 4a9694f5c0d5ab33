//! Files that the output of a job goes to, where its parent or the user wants that: one for each stream of each rank.
//!
//! In the names that a parent asks for, a job is its namespace. In those of the command line it is its number, so that
//! scripts find them.
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use instanton::data::{Info, InfoList, Nspace, keys};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::geteuid;

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
    /// True if they are named by the job's number.
    is_by_number: bool,
}

/// The attributes that say so, newer and older.
const NAMES: [&str; 4] =
    [keys::IOF_OUTPUT_TO_FILE, keys::OUTPUT_TO_FILE, keys::IOF_OUTPUT_TO_DIRECTORY, keys::OUTPUT_TO_DIRECTORY];

/// Rank whose streams go to files.
pub struct Source<'a> {
    /// Number of its job in the run.
    pub number: u32,
    /// Name of its job.
    pub nspace: &'a Nspace,
    /// Ranks of its job.
    pub size: u32,
    /// Its number.
    pub rank: u32,
    /// True if it was started anew: its file goes on.
    pub is_restarted: bool,
}

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
        Self {
            only: only && (prefix.is_some() || directory.is_some()),
            prefix,
            is_pattern,
            directory,
            is_by_number: false,
        }
    }

    /// Files of the command line: `DIRECTORY/JOB/rank.RANK/stdout`.
    pub fn in_directory(directory: PathBuf) -> Self {
        Self { directory: Some(directory), is_by_number: true, ..Self::default() }
    }

    /// Files of the command line: `PREFIX.RANK.out` and `.err` in the first job, `PREFIX.JOB.RANK.out` in others; or as
    /// the pattern says.
    pub fn named(prefix: PathBuf, is_pattern: bool) -> Self {
        Self { prefix: Some(prefix), is_pattern, is_by_number: true, ..Self::default() }
    }

    /// Sets whether output goes to the files alone.
    pub fn alone(self, only: bool) -> Self {
        Self { only, ..self }
    }

    /// Opens the file of a rank's stream (`stdout` or `stderr`), if there is to be one, and says its name; empty,
    /// whatever was there, unless the rank is started anew.
    ///
    /// # Errors
    /// When it cannot be made; the error names the file.
    pub fn open(&self, source: &Source<'_>, stream: &str) -> io::Result<Option<(PathBuf, File)>> {
        let name = if self.is_by_number { source.number.to_string() } else { source.nspace.to_string() };
        let Some(file) = self.name(&name, source.size, source.rank, stream) else { return Ok(None) };
        let made = fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))
            .and_then(|()| create(&file, source.is_restarted));
        match made {
            Ok(made) => Ok(Some((file, made))),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", file.display()))),
        }
    }

    /// The file's name; `nspace` is the word for the job.
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
        match self.is_by_number && nspace == "1" {
            true => name.push(format!(".{rank:0digits$}.{ending}")),
            false => name.push(format!(".{nspace}.{rank:0digits$}.{ending}")),
        }
        Some(name.into())
    }
}

/// Makes a file, or empties one of our user, or goes on behind what it has. A FIFO is none: to open it, and to write to
/// it, may take for ever. A link and a file of somebody else are none either: their owners could have us empty a file
/// of ours, or read what we write.
pub fn create(path: &Path, goes_on: bool) -> io::Result<File> {
    let refused = |why| Err(io::Error::new(io::ErrorKind::Unsupported, why));
    let mut options = File::options();
    options.write(true).append(goes_on).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits());
    let file = match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let file = options.open(path)?;
            let found = file.metadata()?;
            if found.file_type().is_fifo() {
                return refused("a FIFO keeps no output");
            }
            if found.is_file() && found.uid() != geteuid().as_raw() {
                return refused("a file of another user is not written to");
            }
            if found.is_file() && !goes_on {
                file.set_len(0)?;
            }
            file
        }
        made => made?,
    };
    // A terminal is waited for as ever.
    fcntl(&file, FcntlArg::F_SETFL(if goes_on { OFlag::O_APPEND } else { OFlag::empty() }))?;
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
        assert_eq!(create(&file, false).unwrap().metadata().unwrap().len(), 0);
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&fifo).unwrap();
        assert!(create(&fifo, false).is_err(), "nobody knows how long it is read");
        drop(reader);
        assert!(create(&fifo, false).is_err(), "nobody reads it");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_and_a_file_of_somebody_else_are_none() {
        let folder = std::env::temp_dir().join(format!("instanton-theirs-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let (own, link, theirs) = (folder.join("own"), folder.join("link"), folder.join("theirs"));
        fs::write(&own, "kept").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(create(&link, false).is_err() && create(&link, true).is_err());
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(folder.join("new"), &link).unwrap();
        assert!(create(&link, false).is_err() && !folder.join("new").exists(), "it leads to no file yet");
        assert_eq!(fs::read_to_string(&own).unwrap(), "kept");
        if geteuid().is_root() {
            fs::write(&theirs, "kept").unwrap();
            std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
            assert!(create(&theirs, false).is_err());
            assert_eq!(fs::read_to_string(&theirs).unwrap(), "kept");
        }
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
        let by_number = |files: Files, job: &str| files.name(job, 12, 3, "stderr").unwrap();
        assert_eq!(by_number(Files::in_directory("/d".into()), "1"), Path::new("/d/1/rank.03/stderr"));
        assert_eq!(by_number(Files::named("/f".into(), false), "1"), Path::new("/f.03.err"));
        assert_eq!(by_number(Files::named("/f".into(), false), "2"), Path::new("/f.2.03.err"));
        assert_eq!(by_number(Files::named("/f-%n-%r".into(), true), "1"), Path::new("/f-1-3.stderr"));
        assert!(!Files::are_named(&[Info::new(keys::IOF_OUTPUT_TO_FILE, "")]));
        assert!(!Files::are_named(&[Info::new(keys::OUTPUT_TO_DIRECTORY, true)]));
        assert!(Files::are_named(&[Info::new(keys::OUTPUT_TO_FILE, "a"), Info::new(keys::IOF_FILE_ONLY, true)]));
    }
}
