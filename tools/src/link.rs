//! The socket between the guardian and the launcher.
//!
//! It has an abstract name, since no descriptor but the three standard ones can be handed to a program without unsafe
//! code, and those are the user's. Each end makes sure by the kernel's word that the other is who it should be, and
//! each learns of the other's death when it closes.
//!
//! To the launcher go signals, a byte each. To the guardian go the clean-ups that ranks register: four bytes of length
//! (little-endian) and an archive of the attributes, for each call of a rank.
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use anyhow::{Context, Result, bail};
use instanton::data::{Info, archive};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::random;

/// The guardian's end, before the launcher has called.
pub struct Listener {
    name: String,
    socket: UnixListener,
}

impl Listener {
    /// Listens under a name that nobody can guess.
    pub fn new() -> Result<Self> {
        let name = format!("instanton-guardian-{}", random::hex::<16>()?);
        let socket = UnixListener::bind_addr(&address(&name)?).context("cannot listen for the launcher")?;
        socket.set_nonblocking(true)?;
        Ok(Self { name, socket })
    }

    /// Returns the name of the socket, which the launcher has to be given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The socket to wait on.
    pub fn socket(&self) -> &UnixListener {
        &self.socket
    }

    /// The launcher's call, if it is this process that has called.
    pub fn accept(&self, launcher: u32) -> Result<Option<UnixStream>> {
        match self.socket.accept() {
            Ok((stream, _)) if process_behind(&stream)? == launcher => {
                stream.set_nonblocking(true)?;
                Ok(Some(stream))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The launcher's end.
///
/// # Errors
/// When nobody listens any more, or it is not our parent who does.
pub fn connect(name: &str) -> Result<UnixStream> {
    let stream = UnixStream::connect_addr(&address(name)?).context("the guardian does not answer")?;
    if process_behind(&stream)? != std::os::unix::process::parent_id() {
        bail!("it is not the guardian that listens as {name}");
    }
    Ok(stream)
}

/// Calls `act` with each signal that the guardian passes on, until the guardian is gone.
pub fn each_signal(mut stream: UnixStream, mut act: impl FnMut(i32)) {
    let mut number = [0];
    loop {
        match stream.read(&mut number) {
            Ok(1..) => act(i32::from(number[0])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Tells the guardian of a clean-up, which it does should the launcher not live to.
///
/// # Errors
/// When the guardian is gone.
pub fn tell(mut stream: &UnixStream, directives: &[Info]) -> Result<()> {
    let archive = archive::encode(&directives.to_vec())?;
    let mut frame = u32::try_from(archive.len())?.to_le_bytes().to_vec();
    frame.extend_from_slice(&archive);
    Ok(stream.write_all(&frame)?)
}

/// Returns the announced clean-ups, up to the one that the launcher's death cut short.
pub fn told(mut bytes: &[u8]) -> Vec<Vec<Info>> {
    let mut calls = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let Some((archive, rest)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize) else { break };
        calls.extend(archive::decode::<Vec<Info>>(archive).ok());
        bytes = rest;
    }
    calls
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

fn process_behind(stream: &UnixStream) -> Result<u32> {
    let credentials = getsockopt(stream, PeerCredentials).context("cannot tell who calls")?;
    Ok(credentials.pid() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::keys;

    #[test]
    fn clean_ups_arrive_as_they_were_told_and_a_torn_one_is_dropped() {
        let (launcher, mut guardian) = UnixStream::pair().unwrap();
        let calls: Vec<Vec<Info>> = (0..3)
            .map(|n| {
                let file = Info::new(keys::REGISTER_CLEANUP, format!("/dev/shm/file.{n}").as_str());
                vec![file, Info::new(keys::CLEANUP_RECURSIVE, true)]
            })
            .collect();
        calls.iter().for_each(|call| tell(&launcher, call).unwrap());
        drop(launcher);
        let mut bytes = Vec::new();
        guardian.read_to_end(&mut bytes).unwrap();
        assert_eq!(told(&bytes), calls);
        for cut in [1, 10, bytes.len() / 3] {
            assert_eq!(told(&bytes[..bytes.len() - cut]), calls[..2]);
        }
        assert!(told(&[0xff; 64]).is_empty());
    }

    #[test]
    fn only_the_expected_process_is_let_in() {
        let listener = Listener::new().unwrap();
        assert!(listener.accept(std::process::id()).unwrap().is_none(), "nobody has called");
        let caller = UnixStream::connect_addr(&address(listener.name()).unwrap()).unwrap();
        assert!(listener.accept(std::process::id() + 1).unwrap().is_none());
        drop(caller);
        let _caller = UnixStream::connect_addr(&address(listener.name()).unwrap()).unwrap();
        assert!(listener.accept(std::process::id()).unwrap().is_some());
        assert!(connect(listener.name()).is_err(), "we are not our own parent");
    }
}
