//! Files that change as long as a process is alive.
//!
//! A file system may block for ever: a thread of its own looks at a file, with the rights of the process's user, and a
//! file that it is still looking at says nothing. A file that is not there yet says nothing either.
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::server::ctx::ticket::FileState;
use crate::sys::process;

/// A file that is to change.
#[derive(Debug)]
pub struct WatchedFile {
    pub path: PathBuf,
    /// Parts of its [`FileState`] that count.
    pub counts: [bool; 3],
    /// State that was seen last; before the first look, that of an empty file.
    pub last: FileState,
    /// True if a thread looks at it.
    pub is_looked_at: bool,
}

impl WatchedFile {
    /// Returns whether the file shows a sign of life.
    pub fn has_changed(&mut self, now: FileState) -> bool {
        let before = std::mem::replace(&mut self.last, now);
        (0..now.len()).any(|i| self.counts[i] && before[i] != now[i])
    }
}

/// Looks at a file as a user. The calling thread keeps his rights, and should end.
pub fn look(path: &Path, uid: u32, gid: u32) -> Option<FileState> {
    process::become_user_in_this_thread(uid, gid).ok()?;
    let file = path.metadata().ok()?;
    let time = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    Some([file.size().into(), time(file.atime(), file.atime_nsec()), time(file.mtime(), file.mtime_nsec())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lives_when_what_counts_has_changed() {
        let file =
            |counts| WatchedFile { path: PathBuf::new(), counts, last: FileState::default(), is_looked_at: false };
        let mut size = file([true, false, false]);
        assert!(size.has_changed([3, 1, 1]) && !size.has_changed([3, 2, 2]) && size.has_changed([0, 2, 2]));
        assert!(!file([true, false, false]).has_changed([0, 1, 1]), "an empty file is what it was");
        let mut times = file([false, true, true]);
        assert!(times.has_changed([0, 1, 1]) && !times.has_changed([9, 1, 1]));
        assert!(times.has_changed([9, 2, 1]) && times.has_changed([9, 2, 3]));
    }
}
