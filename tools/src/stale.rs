//! Stale sessions: all four processes of a run were killed together, and their session directory was left.
//!
//! Cleared is what is provably of a run that is over: a directory of our user, named as a session of our user is, with
//! a record of our user in it that nobody holds locked. No link is followed.
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::getuid;

use crate::record;
use crate::session::Session;

/// Clears the stale sessions of our user whose directories lie in a place.
pub fn clear(place: &Path) {
    let prefix = Session::prefix();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            clear_one(&Session::named(entry.path()));
        }
    }
}

/// Clears a session unless it lives, or is none of ours.
fn clear_one(session: &Session) {
    let is_ours = |path: &Path, kind: fn(&fs::FileType) -> bool| {
        fs::symlink_metadata(path).is_ok_and(|found| found.uid() == getuid().as_raw() && kind(&found.file_type()))
    };
    let path = session.top().join(record::NAME);
    if !is_ours(session.top(), fs::FileType::is_dir) || !is_ours(&path, fs::FileType::is_file) {
        return;
    }
    // The lock is held until the directory is gone: two that come at the same time clear nothing twice.
    let Ok(record) = File::options().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&path) else { return };
    let Ok(_over) = Flock::lock(record, FlockArg::LockExclusiveNonblock) else { return };
    record::clean_up(session.top());
    // A directory that cannot be removed now may be the next time.
    let _ = session.remove();
}
