//! Owner of a loopback socket's other end, as the kernel says it (`NETLINK_SOCK_DIAG`).
//!
//! TCP has no `SO_PEERCRED`. The kernel knows which user has opened each socket of this network namespace, and tells it
//! of one socket that is named by both addresses. The entry of a closed socket says nothing of its user: a connection
//! must be established, and its socket have an inode.
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket};

/// Type of the request and of its answer.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Flag of a request.
const NLM_F_REQUEST: u16 = 1;
/// Bytes of netlink's header, of the request behind it, and of the answer without its attributes.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const ANSWER: usize = 72;
/// State of a connection that both ends hold.
const ESTABLISHED: u8 = 1;
/// State of a socket that waits for connections.
const LISTEN: u8 = 10;

/// Returns the user who has opened the socket whose own address is `there`, and which is connected to `here`.
///
/// # Errors
/// `NotFound` where there is no such connection (any more), and the kernel's.
pub fn owner_of_other_end(there: SocketAddr, here: SocketAddr) -> io::Result<u32> {
    ask(ESTABLISHED, there, Some(here))
}

/// Returns the user who has opened the socket that waits for connections at an address of this machine.
///
/// # Errors
/// As [`owner_of_other_end`].
pub fn owner_of_listener(there: SocketAddr) -> io::Result<u32> {
    ask(LISTEN, there, None)
}

fn ask(state: u8, there: SocketAddr, here: Option<SocketAddr>) -> io::Result<u32> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let netlink = socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkSockDiag)?;
    sendto(netlink.as_raw_fd(), &request(state, there, here), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; 1024];
    // The kernel answers within the call that asks.
    let len = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    owner(state, answer.get(..len).unwrap_or_default())
}

fn request(state: u8, there: SocketAddr, here: Option<SocketAddr>) -> [u8; HEADER + REQUEST] {
    let mut out = [0; HEADER + REQUEST];
    out[..4].copy_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    out[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    let body = &mut out[HEADER..];
    body[0] = if there.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    body[1] = libc::IPPROTO_TCP as u8;
    body[4..8].copy_from_slice(&(1u32 << state).to_ne_bytes());
    body[8..10].copy_from_slice(&there.port().to_be_bytes());
    address(&mut body[12..28], there);
    if let Some(here) = here {
        body[10..12].copy_from_slice(&here.port().to_be_bytes());
        address(&mut body[28..44], here);
    }
    // No cookie: the addresses name the socket.
    body[48..56].fill(0xff);
    out
}

fn address(place: &mut [u8], socket: SocketAddr) {
    match socket.ip() {
        IpAddr::V4(ip) => place[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => place.copy_from_slice(&ip.octets()),
    }
}

fn owner(state: u8, answer: &[u8]) -> io::Result<u32> {
    let number = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    let gone = || io::Error::new(io::ErrorKind::NotFound, "the kernel knows no such connection");
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    if kind != Some(SOCK_DIAG_BY_FAMILY) || answer.len() < HEADER + ANSWER {
        return Err(gone());
    }
    let (uid, inode) = (number(HEADER + 64), number(HEADER + 68));
    match (answer[HEADER + 1], uid, inode) {
        (found, Some(uid), Some(inode)) if found == state && inode != 0 => Ok(uid),
        _ => Err(gone()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_owner_of_a_connection_is_its_user_and_that_of_none_is_nobody() {
        let _ends = super::super::COPIES.read();
        for local in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind((local, 0)) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let (there, here) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
            assert_eq!(owner_of_other_end(there, here).unwrap(), nix::unistd::geteuid().as_raw());
            assert!(owner_of_other_end(there, there).is_err(), "nobody is connected so");
            drop(client);
            assert!(owner_of_other_end(there, here).is_err(), "a socket that was closed has no user");
        }
    }

    #[test]
    fn the_owner_of_a_listener_is_its_user_and_a_connection_is_none() {
        let _ends = super::super::COPIES.read();
        let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let there = SocketAddr::from((Ipv4Addr::LOCALHOST, everywhere.local_addr().unwrap().port()));
        let client = TcpStream::connect(there).unwrap();
        assert_eq!(owner_of_listener(there).unwrap(), nix::unistd::geteuid().as_raw());
        assert!(owner_of_other_end(there, client.local_addr().unwrap()).is_err(), "nobody has accepted it");
        assert!(owner_of_listener(client.local_addr().unwrap()).is_err(), "nobody listens there");
        drop(everywhere);
        assert!(owner_of_listener(there).is_err());
    }
}
