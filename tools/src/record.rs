//! The record of a run: a file in its session directory that says whether the run lives, and what is to be removed when
//! it does no more.
//!
//! Reaper, launcher and the processes of simulated nodes hold a lock on it (flock) as long as they live, however they end.
//! The launcher, or the process of a rank's node, appends each clean-up that a rank registers, in one write: four bytes
//! of length (little-endian) and an archive of the attributes. Whoever comes after a launcher that was killed does those
//! clean-ups, and so does a launcher that has lost a node; one after which all are done empties the record.
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use instanton::data::{Info, archive};
use instanton::server;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::{getgid, getuid};

/// Name of the record, which it has from when on it is locked.
pub const NAME: &str = "record";
/// Its name before, and where the file system has no locks: nobody can tell then whether the run lives.
const UNLOCKED: &str = "record.new";

/// Length at which a record is emptied while nobody runs.
const LONG: u64 = 64 << 10;
/// Longest entry; what the server takes in one call is shorter.
const LONGEST: usize = 64 << 20;
/// Most bytes of a record that are read.
const MOST: u64 = 256 << 20;

/// The record of a run that lives: with this one, as long as it is held.
pub struct Record {
    file: Mutex<File>,
    _lock: Option<Flock<File>>,
}

impl Record {
    /// Creates the record in a session directory.
    pub fn create(session: &Path) -> Result<Self> {
        let path = session.join(UNLOCKED);
        let file = File::options().append(true).create_new(true).mode(0o600).open(&path);
        let record = Self::of(file.with_context(|| format!("cannot make {}", path.display()))?)?;
        if record._lock.is_some() {
            fs::rename(&path, session.join(NAME)).with_context(|| format!("cannot rename {}", path.display()))?;
        }
        Ok(record)
    }

    /// Opens the record that another process of the run has created.
    pub fn open(session: &Path) -> Result<Self> {
        let file = open_own(session, File::options().append(true));
        Self::of(file.with_context(|| format!("cannot open the record in {}", session.display()))?)
    }

    fn of(file: File) -> Result<Self> {
        let lock = Flock::lock(file.try_clone()?, FlockArg::LockSharedNonblock).ok();
        Ok(Self { file: Mutex::new(file), _lock: lock })
    }

    /// Appends a clean-up, all of it or nothing.
    pub fn append(&self, directives: &[Info]) -> Result<()> {
        let archive = archive::encode(&directives.to_vec())?;
        if archive.len() > LONGEST {
            bail!("{} bytes of attributes", archive.len());
        }
        let mut entry = (archive.len() as u32).to_le_bytes().to_vec();
        entry.extend_from_slice(&archive);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let before = file.metadata()?.len();
        file.write_all(&entry).inspect_err(|_| _ = file.set_len(before))?;
        Ok(())
    }

    /// Empties it if it has become long: nobody is left whose clean-ups are in it.
    pub fn trim(&self) {
        let length = self.file.lock().unwrap_or_else(PoisonError::into_inner).metadata().map_or(0, |about| about.len());
        if length > LONG {
            self.clear();
        }
    }

    /// Empties it: the clean-ups are done.
    pub fn clear(&self) {
        // One that cannot be emptied goes with the session.
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).set_len(0);
    }
}

/// Does the clean-ups in the record of a session, if it has one: those that its launcher has not come to do.
pub fn clean_up(session: &Path) {
    let calls = clean_ups(session);
    if !calls.is_empty() {
        server::clean_up(&calls, getuid().as_raw(), getgid().as_raw());
    }
}

/// Returns the clean-ups in the record of a session, up to one that was cut short.
fn clean_ups(session: &Path) -> Vec<Vec<Info>> {
    let record = open_own(session, File::options().read(true));
    record.map(|file| read(BufReader::new(file.take(MOST)))).unwrap_or_default()
}

/// Opens the record of a session, under whichever of its names. One of another user is none: who owns the place that
/// sessions lie in could put it there, and name files of ours in it. Nor is anything but a file: a FIFO that a rank has
/// put in its place would be waited for.
fn open_own(session: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(O_NOFOLLOW | O_NONBLOCK);
    let file = options.open(session.join(NAME)).or_else(|_| options.open(session.join(UNLOCKED)))?;
    let about = file.metadata()?;
    match about.uid() == getuid().as_raw() && about.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Reads entries.
fn read(mut record: impl Read) -> Vec<Vec<Info>> {
    let mut next = || -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        record.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        let mut archive = Vec::new();
        let read = (&mut record).take(length.min(LONGEST) as u64).read_to_end(&mut archive)?;
        if read == length { Ok(archive) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    };
    std::iter::from_fn(|| next().ok()).filter_map(|archive| archive::decode(&archive).ok()).collect()
}

#[cfg(test)]
mod tests {
    use instanton::data::keys;

    use super::*;

    #[test]
    fn clean_ups_are_read_as_they_were_written_and_a_torn_one_is_dropped() {
        let session = std::env::temp_dir().join(format!("instanton-record-{}", std::process::id()));
        fs::create_dir(&session).unwrap();
        let (reapers, launchers) = (Record::create(&session).unwrap(), Record::open(&session).unwrap());
        let calls: Vec<Vec<Info>> = (0..3)
            .map(|n| {
                let file = Info::new(keys::REGISTER_CLEANUP, format!("/dev/shm/file.{n}").as_str());
                vec![file, Info::new(keys::CLEANUP_RECURSIVE, true)]
            })
            .collect();
        calls.iter().for_each(|call| launchers.append(call).unwrap());
        assert_eq!(clean_ups(&session), calls);
        let bytes = fs::read(session.join(NAME)).unwrap();
        for cut in [1, 10, bytes.len() / 3] {
            assert_eq!(read(&bytes[..bytes.len() - cut]), calls[..2]);
        }
        assert!(read(&[0xff; 64][..]).is_empty());
        if getuid().is_root() {
            let own = |user| std::os::unix::fs::chown(session.join(NAME), Some(user), None).unwrap();
            own(65534);
            assert!(clean_ups(&session).is_empty() && Record::open(&session).is_err(), "another user has put it there");
            own(0);
        }
        launchers.clear();
        assert!(clean_ups(&session).is_empty());
        fs::rename(session.join(NAME), session.join("aside")).unwrap();
        nix::unistd::mkfifo(&session.join(NAME), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(clean_ups(&session).is_empty() && Record::open(&session).is_err(), "a rank has put a FIFO there");
        fs::rename(session.join("aside"), session.join(NAME)).unwrap();
        // Either of them says that the run lives.
        let is_locked = || {
            let file = File::open(session.join(NAME)).unwrap();
            Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err()
        };
        drop(reapers);
        assert!(is_locked());
        drop(launchers);
        assert!(!is_locked());
        fs::remove_dir_all(session).unwrap();
    }
}
