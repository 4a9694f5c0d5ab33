//! Passing descriptors over a Unix socket: how a program that uses the [`store`](crate::store) by itself
//! hands segments to readers.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sys::socket;

/// Most descriptors that one [`send`] takes.
pub const MAX: usize = socket::MAX_DESCRIPTORS;

/// Sends descriptors as one message, which may be of none. Never raises SIGPIPE.
///
/// # Errors
/// `InvalidInput` for more than [`MAX`]; the kernel's.
pub fn send(socket: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if descriptors.len() > MAX {
        let many = format!("{} descriptors for one message; {MAX} are allowed", descriptors.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, many));
    }
    socket::send(socket, &[0], descriptors).map(drop)
}

/// Waits for one message and returns its descriptors, which are close-on-exec.
///
/// # Errors
/// `UnexpectedEof` when the other end is closed; `InvalidData` when the kernel could not hand over all descriptors
/// (those that came are closed again); the kernel's.
pub fn receive(socket: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let (mut byte, mut descriptors) = ([0; 1], Vec::new());
    loop {
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        match socket::receive(socket, &mut byte, &mut descriptors) {
            Ok(received) if received.truncated => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors were lost on the way"));
            }
            Ok(received) if received.bytes == 0 => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end is closed"));
            }
            Ok(_) => return Ok(descriptors),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_descriptors_apart() {
        let (here, there) = UnixStream::pair().unwrap();
        send(&here, &[here.as_fd(), there.as_fd()]).unwrap();
        send(&here, &[]).unwrap();
        send(&here, &[here.as_fd()]).unwrap();
        assert_eq!([2, 0, 1].map(|_| receive(&there).unwrap().len()), [2, 0, 1]);
        let many = vec![here.as_fd(); MAX + 1];
        assert_eq!(send(&here, &many).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
