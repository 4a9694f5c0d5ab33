//! Turns of those that come up: whoever has it sees every other one of its user that is up, and is up itself when it
//! lets go, so that no two have one name.
//!
//! It is a lock on a file beside the session directories. A process that lets go removes the file; one that was killed
//! leaves it to the next.
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::getuid;

use crate::session::Session;

/// The turn of this process, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    file: PathBuf,
    _lock: Flock<File>,
}

impl Turn {
    /// Waits for it.
    ///
    /// # Errors
    /// The system's; `PermissionDenied` for a file of another user, who might never let go.
    pub fn take() -> io::Result<Self> {
        let file = Session::home()?.join(format!("{}turn", Session::prefix()));
        loop {
            let mut options = File::options();
            options.write(true).create(true).truncate(false).mode(0o600);
            // A FIFO that nobody reads is an error, too.
            let opened = options.custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&file)?;
            let held = opened.metadata()?;
            if held.uid() != getuid().as_raw() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let lock = Flock::lock(opened, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
            // The process that had it may have removed it.
            if fs::symlink_metadata(&file).is_ok_and(|found| (found.dev(), found.ino()) == (held.dev(), held.ino())) {
                return Ok(Self { file, _lock: lock });
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // One that is gone was removed by hand.
        let _ = fs::remove_file(&self.file);
    }
}
