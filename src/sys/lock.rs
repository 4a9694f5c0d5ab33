//! Locks on files that say whether a process lives, whatever namespaces it and whoever asks are in.
//!
//! A process ID says nothing beyond its own namespace; a lock of the kernel's is on the file. It belongs to an open file
//! and ends with the last user of that, however its process ends. A descriptor would be inherited by forked children,
//! which would hold the lock after the process; so the descriptor is closed, and a mapping, which they do not inherit,
//! is what keeps the file open.
//!
//! A process that asks takes no lock and needs no right to write. Nobody who may only read the file can make it look
//! locked, because the lock takes a descriptor that is open for writing.
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};

use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use super::fork::ForkMark;

/// A lock on a file for as long as this lives, or the process.
pub(crate) struct Lock {
    kept: ManuallyDrop<MmapRaw>,
    /// Says in a forked child that something else may lie where the mapping was.
    mark: Option<ForkMark>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.mark.as_ref().is_some_and(ForkMark::is_inherited) {
            // SAFETY: it is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.kept) }
        }
    }
}

impl Lock {
    /// Locks a file that was opened for writing, once, by the caller, who closes it then. `None` where it is locked.
    pub(crate) fn take(file: &(impl AsFd + AsRawFd)) -> io::Result<Option<Self>> {
        match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_WRLCK))) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        // Nobody looks at its memory, so the file may be empty.
        let kept = MmapOptions::new().len(1).map_raw_read_only(file.as_raw_fd())?;
        kept.advise(Advice::DontFork)?;
        Ok(Some(Self { kept: ManuallyDrop::new(kept), mark: ForkMark::new().ok() }))
    }
}

/// Returns whether somebody holds a [`Lock`] on a file.
pub(crate) fn is_locked(file: impl AsFd) -> io::Result<bool> {
    let mut asked = whole_file(libc::F_RDLCK);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut asked))?;
    Ok(asked.l_type != libc::F_UNLCK as libc::c_short)
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};

    use super::*;

    #[test]
    fn a_lock_outlives_its_descriptor_and_ends_with_its_owner() {
        let path = std::env::temp_dir().join(format!("instanton-lock-{}", std::process::id()));
        let open = || OpenOptions::new().write(true).read(true).create(true).truncate(false).open(&path).unwrap();
        let lock = Lock::take(&open()).unwrap().expect("nobody has it");
        let reader = File::open(&path).unwrap();
        assert!(is_locked(&reader).unwrap());
        assert!(Lock::take(&open()).unwrap().is_none());
        drop(lock);
        assert!(!is_locked(&reader).unwrap());
        // A reader without the right to write cannot have it.
        assert!(Lock::take(&reader).is_err());
        drop(Lock::take(&open()).unwrap().expect("nobody has it"));
        std::fs::remove_file(path).unwrap();
    }
}
