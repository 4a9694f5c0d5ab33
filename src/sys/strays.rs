//! Stray descriptors: those that a peer sends with its bytes to a socket where nobody asks for any.
//!
//! A receiver lets go of them, last of all, because the sender has closed its own. That takes as long as the sender
//! likes: a connection that lingers until somebody reads from its other end, a file of a file system that the sender
//! serves itself, a gigabyte of memory. So no thread that others wait for may read such bytes, or close a socket where some
//! lie.
//!
//! From Linux 6.16 on a socket can refuse them, and a peer's call fails. On older kernels a [reader](super::socket::read)
//! looks at what has come before it takes any, and its socket is [closed](close) by a thread of its own where it is cut
//! off, or ends with something unread.
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use instanton_layout::sync::{AtomicBool, Ordering};

use super::{queue, signals};
use crate::trace;

/// True if the kernel cannot have sockets refuse descriptors. Read without order: it is set before the first peer comes.
static LOOKS_FIRST: AtomicBool = AtomicBool::new(false);

/// Has a socket refuse descriptors (`SO_PASSRIGHTS`), and so all that are accepted at it.
pub fn refuse(socket: &impl AsFd) {
    const SO_PASSRIGHTS: libc::c_int = 83;
    let no: libc::c_int = 0;
    // SAFETY:
    // - the descriptor is open as long as `socket` is borrowed
    // - `no` is as long as it is said to be
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if status != 0 {
        LOOKS_FIRST.store(true, Ordering::Relaxed);
    }
}

/// Returns whether a reader has to look first.
#[inline]
pub fn looks_first() -> bool {
    LOOKS_FIRST.load(Ordering::Relaxed)
}

/// Returns the number of bytes that can be read at once, `most` at most, and bring no descriptors; 0 at the end.
///
/// # Errors
/// `InvalidData` where descriptors come with them; otherwise the kernel's.
pub fn clean(socket: &impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let mut vector = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: a msghdr of zeros is valid: no name, no vector, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    loop {
        // SAFETY: `message` refers to `vector` and `into`, which outlive the call and are writable in their full length.
        let peeked = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_PEEK) };
        match usize::try_from(peeked) {
            // Bytes that are peeked at are copied: the descriptors stay where they are.
            Ok(_) if message.msg_flags & libc::MSG_CTRUNC != 0 => return Err(io::ErrorKind::InvalidData.into()),
            Ok(bytes) => return Ok(bytes),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Has a thread close a socket at which descriptors may lie, once its owner has.
pub fn close(socket: &impl AsFd) {
    if !looks_first() || !queue::readable(socket).is_ok_and(|bytes| bytes > 0) {
        return;
    }
    let Ok(last) = socket.as_fd().try_clone_to_owned() else { return };
    if let Err(e) = signals::spawn_without_signals("instanton-stray", move || drop(last)) {
        trace!("no thread to close a socket: {e}");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::super::socket;
    use super::*;

    #[test]
    fn descriptors_are_refused_at_whatever_comes_by_a_door() {
        let directory = std::env::temp_dir().join(format!("instanton-strays-{}", std::process::id()));
        let _ = std::fs::remove_file(&directory);
        let door = UnixListener::bind(&directory).unwrap();
        refuse(&door);
        let peer = UnixStream::connect(&directory).unwrap();
        std::fs::remove_file(&directory).unwrap();
        let sent = socket::send(&peer, b"x", &[peer.as_fd()]);
        let (accepted, _) = door.accept().unwrap();
        if looks_first() {
            // The kernel is older.
            sent.unwrap();
            assert_eq!(socket::read(&accepted, &mut [0; 8]).unwrap_err().kind(), io::ErrorKind::InvalidData);
            return;
        }
        assert_eq!(sent.unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(socket::send(&peer, b"x", &[]).unwrap(), 1);
        // The server gives what it likes.
        assert_eq!(socket::send(&accepted, b"y", &[accepted.as_fd()]).unwrap(), 1);
    }

    #[test]
    fn what_comes_with_descriptors_is_seen_and_left_where_it_is() {
        let (here, there) = UnixStream::pair().unwrap();
        socket::send(&here, b"abc", &[]).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(clean(&there, &mut bytes).unwrap(), 3);
        let (reader, writer) = nix::unistd::pipe().unwrap();
        socket::send(&here, b"d", &[writer.as_fd()]).unwrap();
        drop(writer);
        assert_eq!(clean(&there, &mut bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // The writer's end is still there: nobody has let go of it.
        let mut poll = [nix::poll::PollFd::new(reader.as_fd(), nix::poll::PollFlags::empty())];
        assert_eq!(nix::poll::poll(&mut poll, nix::poll::PollTimeout::ZERO), Ok(0));
        drop((here, there));
        assert_eq!(nix::unistd::read(&reader, &mut bytes), Ok(0));
    }
}
