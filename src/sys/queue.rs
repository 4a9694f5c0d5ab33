//! Bytes that lie between two ends of a socket.
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of kernel memory that the other end has not read yet (`SIOCOUTQ`); 0 when it has read everything. Of TCP, those
/// that it has not acknowledged.
///
/// # Errors
/// The kernel's.
pub fn unread(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ writes one int, and `bytes` is one.
    let rc = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel wakes us a moment before it takes the last byte of the last buffer off the count.
    Ok(usize::try_from(bytes).unwrap_or(0).saturating_sub(1))
}

/// Bytes that wait to be read here (`FIONREAD`).
///
/// # Errors
/// The kernel's.
pub fn readable(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, and `bytes` is one.
    let rc = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_count_falls_to_zero_when_all_is_read() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        assert_eq!(unread(&here).unwrap(), 0);
        here.write_all(b"abc").unwrap();
        assert!(unread(&here).unwrap() > 0);
        there.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(unread(&here).unwrap(), 0);
    }

    #[test]
    fn what_waits_is_counted_at_the_end_that_reads() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(b"abc").unwrap();
        assert_eq!((readable(&here).unwrap(), readable(&there).unwrap()), (0, 3));
    }
}
