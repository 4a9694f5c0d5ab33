//! The two sockets a server listens on.
//!
//! The first has an abstract name with 128 random bits and vanishes with the server. The second, for clients in other
//! network namespaces, is a path: a directory of its own under the server's temporary directory, with a random name,
//! made and opened without following links, and taken only if it is our user's alone, so that nobody can put something
//! else in its place. A process that may reach it still has to show a token.
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::sys::{directory, random, strays};

/// `sun_path` has 108 bytes, one of them for the NUL.
const MAX_PATH: usize = 107;
/// The socket's name in its directory.
const SOCKET: &str = "s";

/// Prefix of the name of the socket for the processes of a server's jobs.
pub const FOR_JOBS: &str = "instanton-";

/// A socket with an abstract name that begins with `prefix` and is random from there on, and the name.
///
/// # Errors
/// The kernel's.
pub fn bind_abstract(prefix: &str) -> io::Result<(UnixListener, String)> {
    let name = format!("{prefix}{}", random_name()?);
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    strays::refuse(&listener);
    listener.set_nonblocking(true)?;
    Ok((listener, name))
}

/// A socket with a path; dropping it removes the socket and its directory.
#[derive(Debug)]
pub struct PathSocket {
    /// Path at which clients find it.
    pub path: PathBuf,
    parent: OwnedFd,
    directory: OwnedFd,
    name: String,
}

/// Opens a path socket under `tmpdir`.
///
/// # Errors
/// The kernel's, or `InvalidInput` when the path would be too long for a socket's address.
pub fn bind_path(tmpdir: &Path) -> io::Result<(UnixListener, PathSocket)> {
    let name = format!("instanton-{}", random_name()?);
    let path = tmpdir.join(&name).join(SOCKET);
    if path.as_os_str().as_bytes().len() > MAX_PATH {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is too long for a socket", path.display()),
        ));
    }
    let parent = open(tmpdir, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let directory = directory::make_own(&parent, &name)?;
    let socket = PathSocket { path, parent, directory, name };
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", socket.directory.as_raw_fd()))?;
    strays::refuse(&listener);
    listener.set_nonblocking(true)?;
    // Others pass through the directory and cannot list it; what they may do at the socket is decided there.
    fchmodat(&socket.directory, SOCKET, Mode::from_bits_truncate(0o666), FchmodatFlags::FollowSymlink)?;
    fchmod(&socket.directory, Mode::from_bits_truncate(0o711))?;
    Ok((listener, socket))
}

impl Drop for PathSocket {
    fn drop(&mut self) {
        // A socket that somebody else has removed already need not be removed.
        let _ = unlinkat(&self.directory, SOCKET, UnlinkatFlags::NoRemoveDir);
        let _ = unlinkat(&self.parent, self.name.as_str(), UnlinkatFlags::RemoveDir);
    }
}

fn random_name() -> io::Result<String> {
    Ok(format!("{:032x}", u128::from_le_bytes(random::bytes()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton_layout::sync::{AtomicBool, Ordering};
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_path_socket_leaves_nothing_behind() {
        let tmpdir = std::env::temp_dir().join(format!("instanton-bind-{}", random_name().unwrap()));
        std::fs::create_dir(&tmpdir).unwrap();
        let (listener, socket) = bind_path(&tmpdir).unwrap();
        let meta = std::fs::metadata(&socket.path).unwrap();
        assert!(meta.file_type().is_socket());
        assert_eq!(meta.permissions().mode() & 0o777, 0o666);
        let directory = std::fs::metadata(socket.path.parent().unwrap()).unwrap();
        assert_eq!(directory.permissions().mode() & 0o777, 0o711);
        UnixStream::connect(&socket.path).unwrap();
        drop((listener, socket));
        std::fs::remove_dir(&tmpdir).expect("the directory is empty");
    }

    /// The place may belong to a user whom the server serves.
    #[test]
    fn who_puts_another_directory_in_its_place_gets_no_rights() {
        let (user, top) = (10_001, std::env::temp_dir().join(format!("instanton-swap-{}", random_name().unwrap())));
        let (place, victim) = (top.join("place"), top.join("victim"));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(&victim, "").unwrap();
        std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o600)).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut number, mut seen) = (0, std::collections::HashSet::new());
                while !is_over.load(Ordering::Relaxed) {
                    for found in std::fs::read_dir(&place).unwrap().flatten() {
                        if !seen.insert(found.file_name()) {
                            continue;
                        }
                        number += 1;
                        let theirs = top.join(format!("theirs{number}"));
                        std::fs::create_dir(&theirs).unwrap();
                        std::os::unix::fs::symlink(&victim, theirs.join(SOCKET)).unwrap();
                        // Only root can give it away.
                        let _ = std::os::unix::fs::chown(&theirs, Some(user), Some(user));
                        std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o777)).unwrap();
                        let _ = std::fs::rename(found.path(), top.join(format!("ours{number}")));
                        let _ = std::fs::rename(&theirs, found.path());
                    }
                }
            });
            for _ in 0..300 {
                if let Ok((_, socket)) = bind_path(&place) {
                    assert_eq!(
                        nix::sys::stat::fstat(&socket.directory).unwrap().st_uid,
                        nix::unistd::geteuid().as_raw()
                    );
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(std::fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_path_that_no_address_can_hold_is_refused() {
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(100)));
        assert_eq!(bind_path(&long).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
