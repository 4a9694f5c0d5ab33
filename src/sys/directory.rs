//! Directories of our own in places where others may make and rename things.
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

/// Makes a directory for our user alone, and opens it.
///
/// A user that may write to the parent can put another directory in its place before it is opened, in which others could
/// replace whatever we make there: only one that is our user's, and that nobody else may even look into, is taken.
///
/// # Errors
/// The kernel's; `EPERM` when another directory has come in its place.
pub fn make_own(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    mkdirat(&parent, name, Mode::S_IRWXU)?;
    let opened = openat(&parent, name, flags, Mode::empty());
    let own = opened.and_then(|opened| if is_own(&opened)? { Ok(opened) } else { Err(Errno::EPERM) });
    own.map_err(|errno| {
        // It may be gone already.
        let _ = unlinkat(&parent, name, UnlinkatFlags::RemoveDir);
        errno.into()
    })
}

/// Returns whether what is open is our user's, and nobody else has rights to it.
fn is_own(opened: &OwnedFd) -> nix::Result<bool> {
    let found = fstat(opened)?;
    Ok(found.st_uid == geteuid().as_raw() && found.st_mode & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn a_directory_that_others_have_rights_to_is_not_ours() {
        let path = std::env::temp_dir().join(format!("instanton-own-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let is = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            is_own(&fs::File::open(&path).unwrap().into()).unwrap()
        };
        assert!(is(0o700) && !is(0o711) && !is(0o770));
        if geteuid().is_root() {
            chown(&path, Some(65534), None).unwrap();
            assert!(!is(0o700), "another user's");
        }
        fs::remove_dir(path).unwrap();
    }
}
