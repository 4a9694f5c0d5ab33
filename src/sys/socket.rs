//! Unix sockets: who is at the other end, and descriptors that travel with bytes.
use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, getsockopt, sendmsg, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;

use super::strays;

/// Most descriptors that come with one message. The kernel allows 253.
pub const MAX_DESCRIPTORS: usize = 64;

/// The kernel's word on the process at the other end, from when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id: information only, it may belong to somebody else by now.
    pub pid: i32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Returns the process at the other end (`SO_PEERCRED`).
///
/// # Errors
/// The kernel's.
pub fn peer(socket: &impl AsFd) -> io::Result<Peer> {
    let credentials = getsockopt(socket, sockopt::PeerCredentials)?;
    Ok(Peer { pid: credentials.pid(), uid: credentials.uid(), gid: credentials.gid() })
}

/// Has the kernel acknowledge over TCP at once what has come and what comes next. It forgets that again with the answers it
/// sends, so a receiver says it for each message.
pub fn acknowledge_at_once(socket: &impl AsFd) {
    let yes: libc::c_int = 1;
    // SAFETY:
    // - the descriptor is open as long as `socket` is borrowed
    // - `yes` is as long as it is said to be
    // A kernel that refuses acknowledges later, as it would without this.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK,
            (&raw const yes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// A pidfd of the process at the other end (`SO_PEERPIDFD`): the process that connected, whatever became of its id.
///
/// # Errors
/// `ENOPROTOOPT` on kernels before 6.5.
pub fn peer_pidfd(socket: &impl AsFd) -> io::Result<OwnedFd> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut pidfd: RawFd = -1;
    let mut len = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY:
    // - the descriptor is open as long as `socket` is borrowed
    // - `pidfd` and `len` are valid for writes, and `len` says how large `pidfd` is
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut pidfd).cast(),
            &raw mut len,
        )
    };
    match status {
        // SAFETY: the kernel has just made this descriptor for us, close-on-exec, and nobody else knows it.
        0 => Ok(unsafe { OwnedFd::from_raw_fd(pidfd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Address of a server's socket.
#[derive(Clone, Copy, Debug)]
pub enum Door<'a> {
    /// Abstract name.
    Abstract(&'a str),
    /// Path in the file system.
    Path(&'a Path),
}

/// Connects to a server. One that is stopped leaves its callers waiting once as many have come as it wants to wait:
/// until then at most.
///
/// # Errors
/// The kernel's; `WouldBlock` when the time is over.
pub fn connect(door: &Door<'_>, until: Option<Instant>) -> io::Result<UnixStream> {
    let address = address(door)?;
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    loop {
        if let Some(until) = until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let (seconds, microseconds) = (left.as_secs() as _, left.subsec_micros().max(1) as _);
            setsockopt(&socket, sockopt::SendTimeout, &TimeVal::new(seconds, microseconds))?;
        }
        match nix::sys::socket::connect(socket.as_raw_fd(), &address) {
            Ok(()) => return Ok(beside_standard(socket)?.into()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Connects to a server that has room for callers.
///
/// # Errors
/// The kernel's; `WouldBlock` where as many wait at its door as it wants to.
pub fn connect_at_once(door: &Door<'_>) -> io::Result<UnixStream> {
    let address = address(door)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    nix::sys::socket::connect(socket.as_raw_fd(), &address)?;
    let stream = UnixStream::from(beside_standard(socket)?);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn address(door: &Door<'_>) -> io::Result<UnixAddr> {
    Ok(match door {
        Door::Abstract(name) => UnixAddr::new_abstract(name.as_bytes())?,
        Door::Path(path) => UnixAddr::new(*path)?,
    })
}

/// Moves a connection out of the places of standard input, output and errors, which a process may have closed: what it
/// prints must not go to a server.
///
/// # Errors
/// The kernel's.
pub fn beside_standard(socket: OwnedFd) -> io::Result<OwnedFd> {
    // A copy is given none of these places.
    if socket.as_raw_fd() > 2 { Ok(socket) } else { socket.try_clone() }
}

/// Sends what the socket takes of `bytes`, with `descriptors` at the first of them. Never raises SIGPIPE.
///
/// # Errors
/// The kernel's; `WouldBlock` on a nonblocking socket that is full.
pub fn send(socket: &impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if descriptors.is_empty() {
        return send_bytes(socket, bytes);
    }
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let control = [ControlMessage::ScmRights(&raw)];
    loop {
        let sent =
            sendmsg::<()>(socket.as_fd().as_raw_fd(), &[IoSlice::new(bytes)], &control, MsgFlags::MSG_NOSIGNAL, None);
        match sent {
            Err(Errno::EINTR) => {}
            sent => return Ok(sent?),
        }
    }
}

/// Sends several pieces one behind the other; returns the number of bytes that the socket has taken.
///
/// # Errors
/// As [`send`].
pub fn send_pieces(socket: &impl AsFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        match sendmsg::<()>(socket.as_fd().as_raw_fd(), pieces, &[], MsgFlags::MSG_NOSIGNAL, None) {
            Err(Errno::EINTR) => {}
            sent => return Ok(sent?),
        }
    }
}

/// Without the C library's `send`, where a thread can be cancelled: in a process with more than one, it takes longer
/// for that.
#[inline]
fn send_bytes(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let nobody = ptr::null::<libc::sockaddr>();
    loop {
        // SAFETY:
        // - the descriptor is open as long as `socket` is borrowed
        // - the kernel reads `bytes`, and there is no address
        let sent = unsafe {
            let (fd, flags) = (socket.as_fd().as_raw_fd(), libc::MSG_NOSIGNAL);
            libc::syscall(libc::SYS_sendto, fd, bytes.as_ptr(), bytes.len(), flags, nobody, 0)
        };
        match usize::try_from(sent) {
            Ok(sent) => return Ok(sent),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Reads what has come. 0 is the end. Descriptors do not come with it: see `strays.rs`.
///
/// # Errors
/// The kernel's; `WouldBlock` on a nonblocking socket where nothing has come; `InvalidData` where descriptors come with it.
#[inline]
pub fn read(socket: &impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    match strays::looks_first() {
        false => read_all(socket, into),
        true => match strays::clean(socket, into)? {
            0 => Ok(0),
            bytes => read_all(socket, &mut into[..bytes]),
        },
    }
}

#[inline]
fn read_all(socket: &impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY:
        // - the descriptor is open as long as `socket` is borrowed
        // - the kernel writes no more than the length of `into`
        let read = unsafe { libc::syscall(libc::SYS_read, socket.as_fd().as_raw_fd(), into.as_mut_ptr(), into.len()) };
        match usize::try_from(read) {
            Ok(read) => return Ok(read),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Result of one [`receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes; 0 at the end of the stream.
    pub bytes: usize,
    /// The kernel could not hand over every descriptor that came with them. The descriptors that it did hand over are
    /// closed again: which of them is missing cannot be known.
    pub truncated: bool,
}

/// Room for the control data of one message: as many descriptors as a frame may bring.
const CONTROL: usize = size_of::<libc::cmsghdr>() + MAX_DESCRIPTORS * size_of::<RawFd>();

#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; CONTROL]);

/// Receives what has come, without waiting for it. Descriptors are close-on-exec.
///
/// # Errors
/// The kernel's; `WouldBlock` when nothing has come.
pub fn receive(socket: &impl AsFd, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<Received> {
    let mut control = Control([MaybeUninit::uninit(); CONTROL]);
    let mut vector = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: a msghdr of zeros is valid: no name, no vector, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL as _;
    let bytes = loop {
        // SAFETY:
        // - `message` refers to `vector`, `into` and `control`, which outlive the call and are writable in their full
        //   length
        // - `control` is aligned for a cmsghdr
        let received = unsafe {
            libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC)
        };
        match usize::try_from(received) {
            Ok(bytes) => break bytes,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    };
    let before = descriptors.len();
    // SAFETY: the kernel has set `msg_controllen` to what it wrote at `msg_control`, which is still there.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: a non-null header of CMSG_FIRSTHDR or CMSG_NXTHDR lies within the control data that the kernel wrote.
        let (level, kind, len) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len as usize) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            // SAFETY: computes a length; the header is as above.
            let (data, head) = unsafe { (libc::CMSG_DATA(header), libc::CMSG_LEN(0) as usize) };
            for at in 0..len.saturating_sub(head) / size_of::<RawFd>() {
                // SAFETY:
                // - the kernel wrote this many descriptors behind the header, not necessarily aligned
                // - each was made for us by this call, so nobody else owns it
                descriptors.push(unsafe { OwnedFd::from_raw_fd(data.cast::<RawFd>().add(at).read_unaligned()) });
            }
        }
        // SAFETY: both refer to the control data as the kernel wrote it.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    let truncated = message.msg_flags & libc::MSG_CTRUNC != 0;
    if truncated {
        descriptors.truncate(before);
    }
    Ok(Received { bytes, truncated })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;

    /// Tries until something comes of it. A child that another test has just made has copies of both ends of a socket
    /// until it runs its program: only then is an end closed.
    fn eventually<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
    }

    #[test]
    fn descriptors_come_with_their_bytes() {
        let _ends = super::super::COPIES.read();
        let (here, there) = UnixStream::pair().unwrap();
        let pipe = nix::unistd::pipe().unwrap();
        assert_eq!(send(&here, b"abc", &[pipe.0.as_fd(), pipe.1.as_fd()]).unwrap(), 3);
        let (mut bytes, mut fds) = ([0; 16], Vec::new());
        let received = receive(&there, &mut bytes, &mut fds).unwrap();
        assert_eq!((received, fds.len()), (Received { bytes: 3, truncated: false }, 2));
        nix::unistd::write(&fds[1], b"x").unwrap();
        assert_eq!(nix::unistd::read(&pipe.0, &mut bytes), Ok(1));
        let nothing = receive(&there, &mut bytes, &mut fds).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(here);
        assert_eq!(eventually(|| receive(&there, &mut bytes, &mut fds).ok()).bytes, 0);
    }

    #[test]
    fn what_comes_with_too_many_is_closed() {
        let (here, there) = UnixStream::pair().unwrap();
        let many = vec![here.as_fd(); MAX_DESCRIPTORS + 1];
        send(&here, b"x", &many).unwrap();
        let (mut bytes, mut fds) = ([0; 1], Vec::new());
        let received = receive(&there, &mut bytes, &mut fds).unwrap();
        assert_eq!((received, fds.len()), (Received { bytes: 1, truncated: true }, 0));
    }

    #[test]
    fn the_other_end_has_a_name_and_no_signal() {
        let _ends = super::super::COPIES.read();
        let (here, there) = UnixStream::pair().unwrap();
        assert_eq!(peer(&here).unwrap().pid, std::process::id() as i32);
        if let Err(error) = peer_pidfd(&here) {
            assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT));
        }
        drop(there);
        let refused = || send(&here, b"x", &[]).err().filter(|error| error.kind() != io::ErrorKind::WouldBlock);
        assert_eq!(eventually(refused).kind(), io::ErrorKind::BrokenPipe);
    }
}
